/*
 * ckpt: what its own files share.
 *
 * The way of a save: table.c learns every rank's parts, layout.c decides who
 * writes what, shard.c makes the HDF5 files, bulk.c fills them, index.c and
 * manifest.c describe them, commit.c publishes the directory; save.c calls
 * them in that order. A load: open.c finds and shares the manifest, read.c
 * reads the ranges it names.
 */
#ifndef CKPT_PRIV_H
#define CKPT_PRIV_H

#include "base/base.h"
#include "ckpt/ckpt.h"
#include "comm/comm.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints hold little-endian numbers and are written as they lie"
#endif

#define AX_CKPT_FORMAT 1
#define AX_CKPT_BLOCK ((uint64_t)4 << 20) /* bytes under one checksum */
#define AX_CKPT_PIECE                                                          \
    ((uint64_t)256 << 10)     /* bytes at a time, in the cache                 \
                               */
#define AX_CKPT_NAME_MAX 1000 /* bytes of an array's name */
#define AX_CKPT_FILE_MAX 64   /* bytes of a file's name, with NUL */
#define AX_CKPT_MANIFEST_MAX ((size_t)1 << 30)
#define AX_CKPT_VISIBLE_NS ((uint64_t)10 * 1000000000) /* see below */

/* ---- buf.c: bytes to send and lines to write ------------------------------
 */

/* Grows; a failure to do so is kept until ax_buf_status() is asked. */
typedef struct ax_buf {
    char *data;
    size_t bytes;
    size_t room;
    bool failed;
} ax_buf_t;

void ax_buf_put(ax_buf_t *buf, const void *data, size_t bytes);
void ax_buf_put_u64(ax_buf_t *buf, uint64_t value);
void ax_buf_put_str(ax_buf_t *buf, const char *text);
void ax_buf_printf(ax_buf_t *buf, const char *format, ...) ACCEL_PRINTF(2, 3);
accel_status_t ax_buf_status(const ax_buf_t *buf);
void ax_buf_free(ax_buf_t *buf);

/* Takes from the front; wanting more than is left sets `failed`. */
typedef struct ax_cut {
    const char *at;
    size_t left;
    bool failed;
} ax_cut_t;

const void *ax_cut_take(ax_cut_t *cut, size_t bytes);
uint64_t ax_cut_u64(ax_cut_t *cut);
const char *ax_cut_str(ax_cut_t *cut); /* "" on failure; lies in the bytes */

/* ---- name.c: names on disk ------------------------------------------------
 */

/* ACCEL_ERR_ARG unless `name` can be an array's: see accel-checkpoint(5). */
accel_status_t ax_ckpt_check_name(const char *name);

/* One path component that starts with a letter or digit: nothing in a
 * manifest can lead out of its directory. */
bool ax_ckpt_file_name_ok(const char *name);

/* "step-00000200"; and back, false for anything that is not exactly so. */
void ax_ckpt_step_name(uint64_t step, char out[32]);
bool ax_ckpt_parse_step(const char *name, uint64_t *step);

/* "`kind`step-00000200.MACHINE-PID-START-COUNT`tail`", unlike any other name
 * made by any process of any node. */
void ax_ckpt_unique_name(const char *kind, uint64_t step, const char *tail,
                         char out[128]);

/* Is `name` in `dir` a leftover of a save whose process is dead, or of one
 * that this process gave up? */
bool ax_ckpt_is_stale(int dir, const char *name);

/* The save of this process that made `name` is over. */
void ax_ckpt_abandon(const char *name);

/* `dir`/`name` in `out`; ACCEL_ERR_OVERFLOW when it has no room. */
accel_status_t ax_ckpt_join(char *out, size_t room, const char *dir,
                            const char *name);

/* ---- manifest.c: what a checkpoint holds, as structs and as text ----------
 */

typedef struct ax_array {
    char *name;
    accel_dtype_t dtype;
    int ndim;
    uint64_t shape[ACCEL_CKPT_MAX_DIMS];
    uint64_t elements;
} ax_array_t;

typedef struct ax_file {
    char name[AX_CKPT_FILE_MAX];
    uint64_t bytes;
    uint64_t sum; /* of what no segment covers: HDF5's own data */
    int rank;     /* who wrote it */
} ax_file_t;

/* Consecutive elements of one array that lie in one piece in one file. */
typedef struct ax_segment {
    size_t array;
    size_t file;
    uint64_t first; /* elements, in the flat array */
    uint64_t count;
    uint64_t offset; /* bytes, in the file */
    size_t sum;      /* index of its first checksum; one for each block */
} ax_segment_t;

typedef struct ax_manifest {
    uint64_t step;
    int ranks;
    char uuid[33];
    char created[24];
    char writer[64];
    uint64_t block;
    uint64_t index_bytes; /* of index.h5 */
    uint64_t index_sum;
    ax_file_t *files; /* by rank */
    size_t nfiles;
    ax_array_t *arrays; /* by name */
    size_t narrays;
    ax_segment_t *segments; /* by array, then first: they tile each array */
    size_t nsegments;
    uint64_t *sums;
    size_t nsums;
} ax_manifest_t;

accel_status_t ax_manifest_encode(const ax_manifest_t *m, ax_buf_t *out);

/* `what` names it in the texts. On failure *out is empty.
 * ACCEL_ERR_CORRUPT, ACCEL_ERR_VERSION, ACCEL_ERR_NOMEM. */
accel_status_t ax_manifest_decode(const char *text, size_t bytes,
                                  const char *what, ax_manifest_t *out);
void ax_manifest_free(ax_manifest_t *m);

/* NULL when there is none. */
const ax_array_t *ax_manifest_find(const ax_manifest_t *m, const char *name);

uint64_t ax_segment_bytes(const ax_manifest_t *m, const ax_segment_t *s);
uint64_t ax_segment_blocks(const ax_manifest_t *m, const ax_segment_t *s);

/* The segments of `array`, by first. */
size_t ax_manifest_segments(const ax_manifest_t *m, size_t array,
                            const ax_segment_t **first);

/* The segments of `file` by offset, as an array of indices to free(). */
accel_status_t ax_manifest_file_order(const ax_manifest_t *m, size_t file,
                                      size_t **order, size_t *count);

/* ---- layout.c: who writes what; pure --------------------------------------
 */

/* One part as others see it. */
typedef struct ax_entry {
    const char *name;
    accel_dtype_t dtype;
    int ndim;
    uint64_t shape[ACCEL_CKPT_MAX_DIMS];
    uint64_t first;
    uint64_t count;
    int rank; /* who has it; -1: everyone */
} ax_entry_t;

/* Type, shape and range alone; *elements of the whole array. ACCEL_ERR_ARG,
 * ACCEL_ERR_OVERFLOW. */
accel_status_t ax_ckpt_check_entry(const ax_entry_t *entry, uint64_t *elements);

/*
 * Fills arrays, segments (without offsets and sums) and files (without
 * bytes). Sorts `entries`. ACCEL_ERR_ARG when parts of one array differ in
 * type or shape, overlap, or leave a hole, or when a name is also a group.
 */
accel_status_t ax_ckpt_layout(ax_entry_t *entries, size_t count, int size,
                              ax_manifest_t *out);

/* ---- table.c: every rank's parts ------------------------------------------
 */

/* What this rank was asked to save. */
typedef struct ax_plan {
    const char *dir;
    uint64_t step;
    accel_ckpt_part_t *parts; /* a copy, by name, then first */
    size_t nparts;
} ax_plan_t;

/* Checks the parts as far as one rank can. Local. */
accel_status_t ax_plan_init(ax_plan_t *plan, const char *dir, uint64_t step,
                            const accel_ckpt_part_t *parts, size_t nparts);
void ax_plan_fini(ax_plan_t *plan);

/* The parts of all ranks laid out. Collective; agreed. */
accel_status_t ax_table_exchange(accel_comm_t *comm, const ax_plan_t *plan,
                                 ax_manifest_t *out);

/* Where this rank's elements from `first` of `name` lie; NULL: not here. */
const void *ax_plan_data(const ax_plan_t *plan, const char *name,
                         uint64_t first, uint64_t count);

/* Rank 0's bytes on every rank, to free(). Collective. */
accel_status_t ax_ckpt_share(accel_comm_t *comm, const void *mine,
                             size_t mine_bytes, char **out, size_t *bytes);

/* The rest of every rank's shard description: sizes, offsets, checksums.
 * Collective; agreed. */
accel_status_t ax_table_results(accel_comm_t *comm, ax_manifest_t *m);

/* ---- shard.c, index.c: the only users of HDF5 -----------------------------
 */

/* Creates the file without its bulk and finds out the segments' offsets.
 * Not durable yet. */
accel_status_t ax_shard_create(ax_manifest_t *m, size_t file, const char *path);

/* The file in which all arrays look whole. Not durable yet. */
accel_status_t ax_index_create(const ax_manifest_t *m, const char *path);

/* ---- bulk.c: the bytes of a shard -----------------------------------------
 */

/* Writes this rank's segments of `file`, fills in sums and sizes, fsync. */
accel_status_t ax_bulk_write(ax_manifest_t *m, size_t file,
                             const ax_plan_t *plan, const char *path);

/* Size and checksum of a whole file, which _seal() first makes durable. */
accel_status_t ax_bulk_seal(const char *path, uint64_t *bytes, uint64_t *sum);
accel_status_t ax_bulk_whole(const char *path, uint64_t *bytes, uint64_t *sum);

/* The checksum of the bytes of `file` that no segment covers. */
accel_status_t ax_bulk_gaps(const ax_manifest_t *m, size_t file, int fd,
                            const char *path, uint64_t *sum);

/* ---- commit.c: directories come and go ------------------------------------
 */

/* Makes `dir` and its parents, removes what dead saves left in it, makes sure
 * `bytes` fit, and creates the temporary directory `temp` in it. */
accel_status_t ax_commit_begin(const char *dir, uint64_t step, uint64_t bytes,
                               char temp[128]);

/* The temporary directory becomes the checkpoint. */
accel_status_t ax_commit_publish(const char *dir, const char *temp,
                                 uint64_t step);

/* The hint file and old checkpoints; problems are warnings. */
void ax_commit_finish(const char *dir, uint64_t step, unsigned keep);

/* ---- remove.c: only what is the caller's own and a save's -----------------
 */

/* Removes what a save of this process has made or begun; problems are
 * warnings, and the next sweep tries again. */
void ax_commit_remove(const char *dir, const char *name);

/* The same of a leftover or of an old checkpoint in `dir`, on which `parent`
 * is open; and whether it would be tried at all. */
void ax_remove_at(int parent, const char *dir, const char *name);
bool ax_may_remove_at(int parent, const char *dir, const char *name);

/* ---- list.c ----------------------------------------------------------------
 */

/* Steps of the checkpoints in `dir`, whole or not, ascending; to free(). */
accel_status_t ax_ckpt_scan(const char *dir, uint64_t **steps, size_t *count);

/* The text of `path`/manifest, to free(). */
accel_status_t ax_ckpt_read_manifest(const char *path, char **text,
                                     size_t *bytes);

/* Are the files of m that part `part` of `parts` looks at all there, with the
 * right size? `path` names the checkpoint that `dir` is open on. Waits so long
 * for each to appear. */
accel_status_t ax_ckpt_check_files(const ax_manifest_t *m, int dir,
                                   const char *path, int part, int parts,
                                   uint64_t wait_ns);

/* Would a load of `dir` take this step? */
bool ax_ckpt_is_complete(const char *dir, uint64_t step);

/* Is there a whole checkpoint at `path`, of `step` unless NULL? Part `part` of
 * `parts` of the files are read and every byte in them checked. */
accel_status_t ax_ckpt_verify_part(const char *path, const uint64_t *step,
                                   int part, int parts);

/* ---- open.c, read.c: an open checkpoint ------------------------------------
 */

struct accel_ckpt {
    accel_comm_t *comm;
    char *path;
    char *found_in; /* the directory of checkpoints; NULL: given by name */
    int dir;        /* open on it, so that its name may change */
    ax_manifest_t m;
};

/* ---- read.c ----------------------------------------------------------------
 */

/* Reads from one checkpoint, one file open at a time. */
typedef struct ax_reader {
    const ax_manifest_t *m;
    const char *path;
    int dir;
    int fd; /* -1: none open */
    size_t file;
    char *block; /* bounce buffer of m->block bytes */
    struct XXH3_state_s *hash;
} ax_reader_t;

accel_status_t ax_reader_open(ax_reader_t *r, const ax_manifest_t *m, int dir,
                              const char *path);
void ax_reader_close(ax_reader_t *r);

/* `count` elements of a segment from its element `first` on, each block
 * checked whole; dst NULL only checks. */
accel_status_t ax_reader_segment(ax_reader_t *r, const ax_segment_t *s,
                                 uint64_t first, uint64_t count, void *dst);

/* Makes `file` the open one. */
accel_status_t ax_reader_file(ax_reader_t *r, size_t file);

/*
 * openat(2) of what another rank has made: on a shared file system it may
 * take a while to show, so "not there" is asked again for `wait_ns`.
 * Returns the descriptor, or -1 with errno.
 */
int ax_ckpt_openat(int dir, const char *name, int flags, uint64_t wait_ns);

/*
 * Opens a file of the checkpoint `path`, on which `dir` is open, waiting as
 * above. ACCEL_ERR_CORRUPT when it is not there or no regular file: links are
 * none. ACCEL_ERR_IO, with the cause, when that could not be found out.
 */
accel_status_t ax_ckpt_open_file(int dir, const char *path, const char *name,
                                 uint64_t wait_ns, int *fd);

/* Checksum of bytes on disk: XXH3, 64 bits. Part of the format. */
uint64_t ax_ckpt_sum(const void *data, size_t bytes);

#endif
