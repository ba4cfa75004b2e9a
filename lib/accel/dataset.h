/*
 * Datasets: a number of samples with named fields, read by index. From memory,
 * from a function, from files of several formats, or made of other datasets.
 * Files are input that nobody has checked: what they say of themselves is
 * compared with what is there before a byte of it is believed.
 */
#ifndef ACCEL_DATASET_H
#define ACCEL_DATASET_H

#include <accel/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct accel_dataset accel_dataset_t;

/* One named part of a sample, such as the image or the label. */
typedef struct accel_field {
    const char *name;
    accel_dtype_t dtype;
    size_t count; /* elements in one sample, >= 1 */
} accel_field_t;

/* ---- from memory, from a function ---------------------------------------- */

/*
 * Reads `count` samples: sample index[i] of field f goes to
 * (char *)fields[f] + i * bytes of one sample. Returns 0, or an errno value.
 * May be called from any thread, several at a time.
 */
typedef int (*accel_read_fn)(void *context, const uint64_t *index, size_t count,
                             void *const *fields);

/*
 * A dataset over arrays in memory: data[f] holds samples * fields[f].count
 * elements, sample after sample. The arrays are borrowed and must outlive the
 * dataset; the descriptions are copied. On failure *out is NULL. Local.
 * ACCEL_ERR_ARG: no field, an integer overflow, a NULL array with samples > 0,
 * or two fields of one name.
 */
ACCEL_API accel_status_t accel_dataset_from_memory(const accel_field_t *fields,
                                                   const void *const *data,
                                                   size_t nfields,
                                                   uint64_t samples,
                                                   accel_dataset_t **out);

/* The same with a function that reads; `context` must outlive it. */
ACCEL_API accel_status_t accel_dataset_from_callback(
    const accel_field_t *fields, size_t nfields, uint64_t samples,
    accel_read_fn read, void *context, accel_dataset_t **out);

/*
 * Gives the next samples of a stream: up to *count of them from `position` of
 * the epoch on; *count becomes how many. Fewer than asked for means that the
 * stream has ended. `position` is 0 when an epoch begins, otherwise the one
 * after the last sample given; only after a jump it is another one, which a
 * stream that cannot go there answers with ESPIPE: accel then reads up to it.
 * Returns 0, or an errno value. Called by one thread at a time.
 */
typedef int (*accel_next_fn)(void *context, uint64_t epoch, uint64_t position,
                             size_t *count, void *const *fields);

/* A dataset without a known number of samples, which are read in order; only
 * for loaders. accel_dataset_samples() is 0. */
ACCEL_API accel_status_t accel_dataset_from_stream(const accel_field_t *fields,
                                                   size_t nfields,
                                                   accel_next_fn next,
                                                   void *context,
                                                   accel_dataset_t **out);

/* ---- from files ---------------------------------------------------------- */

/* X(NAME, name, what it is) */
#define ACCEL_FORMAT_LIST(X)                                                   \
    X(HDF5, hdf5, "datasets of an HDF5 file, one a field")                     \
    X(NPY, npy, "one array of NumPy")                                          \
    X(NPZ, npz, "stored (not compressed) arrays of NumPy, one a field")        \
    X(TOKENS, tokens, "token shards as llm.c writes them")                     \
    X(MEGATRON, megatron, "tokens of Megatron-LM: .idx and .bin")              \
    X(LINES, lines, "text, a line a sample")                                   \
    X(TAR, tar, "tar as WebDataset writes it, files of one name a sample")

typedef enum accel_format {
    ACCEL_FORMAT_AUTO = 0, /* what the first file looks like */
#define ACCEL_FORMAT_ENUM(NAME, name, text) ACCEL_FORMAT_##NAME,
    ACCEL_FORMAT_LIST(ACCEL_FORMAT_ENUM)
#undef ACCEL_FORMAT_ENUM
} accel_format_t;

/* Zero means the default but for `cache_bytes`, which ACCEL_DATASET() sets. */
typedef struct accel_dataset_options {
    size_t size;
    accel_format_t format;
    /* Which fields, in which order, and what each must be; a type or count of
     * 0 takes what the file has. NULL: all fields, by name. */
    const accel_field_t *fields;
    size_t nfields;
    size_t window;    /* tokens, megatron: a sample has window + 1 tokens */
    size_t stride;    /* from one sample to the next; 0: window */
    size_t skip;      /* lines: so many at the start of each file are no
                         samples, such as the names of a CSV's columns */
    size_t max_bytes; /* lines, tar: room for one; 0: the longest there is */
    /* Memory for small samples of files that fit in it together: 64 MiB; 0:
     * none. */
    size_t cache_bytes ACCEL_IS(ACCEL_DEFAULT_INT);
} accel_dataset_options_t;

#define ACCEL_DATASET_DEFAULTS                                                 \
    .size = sizeof(accel_dataset_options_t), .cache_bytes = ACCEL_DEFAULT_INT
#define ACCEL_DATASET_INIT                                                     \
    {                                                                          \
        ACCEL_DATASET_DEFAULTS                                                 \
    }
#define ACCEL_DATASET(...)                                                     \
    ACCEL_MAKE(accel_dataset_options_t, ACCEL_DATASET_DEFAULTS, __VA_ARGS__)

/*
 * Opens what `path` names: a file, all files of a directory whose names do not
 * begin with a dot, or, where no such file exists, all that a glob(7) pattern
 * matches, in the order of their names byte by byte.
 *
 * Lines give the fields "text" (u8) and "length" (u32); what follows the
 * line is zero. Tar gives for each extension such as "jpg" the fields "jpg"
 * (u8) and "jpg.length" (u32). Tokens give "tokens"; no window spans two
 * files.
 *
 * When all files together have at most cache_bytes (0: never),
 * samples of up to 64 KiB a field come from memory: each MiB of a file is read
 * when one of its samples is first wanted, and kept until the dataset is
 * destroyed, so at most as many bytes as the files have. Not for lines, tar,
 * and what the HDF5 library reads.
 *
 * The files must stay as they are until the dataset is destroyed. On failure
 * *out is NULL. Local. ACCEL_ERR_IO: a file cannot be read;
 * ACCEL_ERR_CORRUPT: it is not what it says; ACCEL_ERR_UNSUPPORTED: it is
 * sound, but holds what is not read here; ACCEL_ERR_NOTFOUND: no such field,
 * or no file; ACCEL_ERR_ARG: a wrong option. The text names the file.
 */
ACCEL_API accel_status_t
accel_dataset_open(const char *path, const accel_dataset_options_t *options,
                   accel_dataset_t **out);

/* The same for a list of files, which are taken in the order given. */
ACCEL_API accel_status_t accel_dataset_open_files(
    const char *const *paths, size_t npaths,
    const accel_dataset_options_t *options, accel_dataset_t **out);

/* ---- from other datasets, which are borrowed and must outlive the result --
 */

/* One after the other; all must have the same fields. */
ACCEL_API accel_status_t accel_dataset_concat(accel_dataset_t *const *parts,
                                              size_t nparts,
                                              accel_dataset_t **out);

/* Sample i is sample index[i] of `base`; `index` is copied. ACCEL_ERR_ARG
 * when one is not in `base`. */
ACCEL_API accel_status_t accel_dataset_subset(const accel_dataset_t *base,
                                              const uint64_t *index,
                                              uint64_t count,
                                              accel_dataset_t **out);

#define ACCEL_IN_ORDER ACCEL_DEFAULT_INT

/*
 * Cuts `base` into nparts datasets, out[p] of counts[p] samples, that share no
 * sample. With seed ACCEL_IN_ORDER they are taken in order; else at random, the
 * same way for the same seed on every rank and machine. ACCEL_ERR_ARG when the
 * counts add up to more than `base` has. On failure every out[p] is NULL.
 */
ACCEL_API accel_status_t accel_dataset_split(const accel_dataset_t *base,
                                             const uint64_t *counts,
                                             size_t nparts, uint64_t seed,
                                             accel_dataset_t **out);

/* ---- what a dataset is --------------------------------------------------- */

/* Loaders and datasets over it must be destroyed first. NULL is fine. */
ACCEL_API void accel_dataset_destroy(accel_dataset_t *dataset);

ACCEL_API uint64_t accel_dataset_samples(const accel_dataset_t *dataset);
ACCEL_API size_t accel_dataset_fields(const accel_dataset_t *dataset,
                                      const accel_field_t **fields);

/* The extents of one sample in field `f`: their number, and at *extents the
 * extents themselves. 0 for a single element, and for a field that is not. */
ACCEL_API size_t accel_dataset_shape(const accel_dataset_t *dataset, size_t f,
                                     const size_t **extents);

/* "memory", "callback", "stream", "concat", "subset", "split" or a name of
 * ACCEL_FORMAT_LIST. A static string. */
ACCEL_API const char *accel_dataset_format(const accel_dataset_t *dataset);

/*
 * A number that differs when the dataset does: samples, field names, types and
 * shapes; for files also their format, sizes and names (without folders); for
 * datasets of datasets also theirs. A resume on another dataset is refused.
 */
ACCEL_API uint64_t accel_dataset_fingerprint(const accel_dataset_t *dataset);

/*
 * Reads `count` samples into the caller's arrays, as accel_read_fn says. Safe
 * from several threads at once. ACCEL_ERR_ARG: no such sample; ACCEL_ERR_IO:
 * the text names the file, or the samples of a callback.
 */
ACCEL_API accel_status_t accel_dataset_read(const accel_dataset_t *dataset,
                                            const uint64_t *index, size_t count,
                                            void *const *fields);

#ifdef __cplusplus
}
#endif
#endif
