/*
 * Checkpoints: named arrays in a directory, written by all ranks together,
 * complete or not there at all. See accel-checkpoint(5) for the format.
 *
 * An array has a global shape and is stored as flat half-open ranges of its
 * row-major elements, so any number of ranks can load what any number saved.
 * Whatever fails on whichever rank, all ranks return the same error and
 * earlier checkpoints are untouched.
 */
#ifndef ACCEL_CKPT_H
#define ACCEL_CKPT_H

#include <accel/base.h>
#include <accel/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACCEL_CKPT_MAX_DIMS 8

/*
 * A range of one array, in this rank's memory. `name` is a path without
 * leading slash such as "model/fc1.weight"; ranks that hold parts of one array
 * give the same name, dtype and shape. When `replicated`, every rank holds the
 * whole array and saving is shared among them; otherwise the ranks' ranges
 * must cover the array without overlap.
 */
typedef struct accel_ckpt_part {
    const char *name;
    accel_dtype_t dtype;
    int ndim;
    uint64_t shape[ACCEL_CKPT_MAX_DIMS];
    uint64_t first; /* of the elements in `data`, in the flat array */
    uint64_t count; /* elements in `data`; 0 is fine */
    void *data;     /* read by save, written by load */
    bool replicated;
} accel_ckpt_part_t;

typedef struct accel_ckpt_options {
    size_t size;
    /* Keep so many of the newest complete ones up to this step and delete
     * older ones; 0: keep all. Damaged ones and later steps are left alone. */
    unsigned keep;
} accel_ckpt_options_t;

#define ACCEL_CKPT_DEFAULTS .size = sizeof(accel_ckpt_options_t)
#define ACCEL_CKPT_INIT                                                        \
    {                                                                          \
        ACCEL_CKPT_DEFAULTS                                                    \
    }
#define ACCEL_CKPT(...)                                                        \
    ACCEL_MAKE(accel_ckpt_options_t, ACCEL_CKPT_DEFAULTS, __VA_ARGS__)

/*
 * Saves `parts` as `dir`/step-NNNNNNNN, making `dir` when it is missing.
 * The order of the parts may differ between ranks. When it returns ACCEL_OK
 * the checkpoint is on stable storage under its final name and is the latest.
 * Older ones beyond `keep` are deleted afterwards, never before. What is there
 * already of the same step, but damaged, is set aside with a warning.
 *
 * Collective. ACCEL_ERR_IO: a system call failed on some rank (text: path,
 * rank, node, cause); ACCEL_ERR_STATE: the step is there already, complete;
 * ACCEL_ERR_ARG: overlapping or missing ranges, a bad name, replicated arrays
 * that differ; ACCEL_ERR_PROTO: the ranks save different steps or into
 * different directories; ACCEL_ERR_OVERFLOW: more bytes than a file can hold.
 */
ACCEL_API accel_status_t accel_ckpt_save(accel_comm_t *comm, const char *dir,
                                         uint64_t step,
                                         const accel_ckpt_part_t *parts,
                                         size_t nparts,
                                         const accel_ckpt_options_t *options);

typedef struct accel_ckpt accel_ckpt_t;

/*
 * Opens a checkpoint: `path` names one (".../step-00000200"), or a directory
 * of them, of which the newest complete one is taken; a damaged or incomplete
 * one is passed over with a warning that names it and says why. Checks the
 * manifest's checksum and the size of every file. Collective: all ranks open
 * the same one or all fail. On failure *out is NULL.
 *
 * ACCEL_ERR_NOTFOUND: none there; ACCEL_ERR_CORRUPT: damaged (which file, how
 * many bytes); ACCEL_ERR_VERSION: written by a later release.
 */
ACCEL_API accel_status_t accel_ckpt_open(accel_comm_t *comm, const char *path,
                                         accel_ckpt_t **out);
ACCEL_API void accel_ckpt_close(accel_ckpt_t *ckpt);

/* Step, number of ranks that saved, and path. Local. */
ACCEL_API uint64_t accel_ckpt_step(const accel_ckpt_t *ckpt);
ACCEL_API int accel_ckpt_ranks(const accel_ckpt_t *ckpt);
ACCEL_API const char *accel_ckpt_path(const accel_ckpt_t *ckpt);

/* The arrays in it, in the order of their names. `first`, `count` and `data`
 * of *out are 0; `name` is owned by `ckpt`. Local.
 * ACCEL_ERR_ARG: index out of range; ACCEL_ERR_NOTFOUND: no such name. */
ACCEL_API size_t accel_ckpt_count(const accel_ckpt_t *ckpt);
ACCEL_API accel_status_t accel_ckpt_at(const accel_ckpt_t *ckpt, size_t index,
                                       accel_ckpt_part_t *out);
ACCEL_API accel_status_t accel_ckpt_find(const accel_ckpt_t *ckpt,
                                         const char *name,
                                         accel_ckpt_part_t *out);

/*
 * Fills the memory of `parts`; each rank may ask for other ranges. dtype and
 * shape must be as saved. Every byte is checked against its checksum before
 * the call returns ACCEL_OK. Collective. On failure the contents of the
 * memory are undefined.
 *
 * ACCEL_ERR_NOTFOUND: a name is not in the checkpoint; ACCEL_ERR_ARG: other
 * dtype or shape (both in the text); ACCEL_ERR_CORRUPT: checksum.
 */
ACCEL_API accel_status_t accel_ckpt_read(accel_ckpt_t *ckpt,
                                         const accel_ckpt_part_t *parts,
                                         size_t nparts);

/* One checkpoint in a directory of them. */
typedef struct accel_ckpt_entry {
    uint64_t step;
    uint64_t bytes;
    bool complete;     /* manifest and file sizes are right */
    char problem[256]; /* what is wrong when it is not */
    char name[32];     /* "step-00000200" */
} accel_ckpt_entry_t;

/*
 * The checkpoints in `dir` in ascending order of steps. On success *entries is
 * the caller's to free(). Local: does not communicate.
 * ACCEL_ERR_NOTFOUND: no such directory.
 */
ACCEL_API accel_status_t accel_ckpt_list(const char *dir,
                                         accel_ckpt_entry_t **entries,
                                         size_t *count);

/*
 * Reads one checkpoint whole and checks every checksum. Local.
 * ACCEL_ERR_CORRUPT names the file and the array.
 */
ACCEL_API accel_status_t accel_ckpt_verify(const char *path);

#ifdef __cplusplus
}
#endif
#endif
