/*
 * loader: what the kinds of datasets share. One file a format; each fills a
 * struct accel_dataset.
 */
#ifndef AX_DATASET_PRIV_H
#define AX_DATASET_PRIV_H

#include "loader/loader_priv.h"

/* ---- dataset.c: what every kind is --------------------------------------- */

#define AX_DIMS 8

/* Extents of one sample. */
typedef struct ax_shape {
    size_t ndim;
    size_t dim[AX_DIMS];
} ax_shape_t;

struct ax_file;

struct accel_dataset {
    accel_field_t *fields; /* names are owned */
    size_t *bytes;         /* of one sample, field by field */
    ax_shape_t *shapes;
    size_t nfields;
    uint64_t samples;
    const char *format;
    uint64_t identity; /* a hash of where the samples come from; 0: memory */
    const struct ax_file *file; /* what `self` reads, */
    size_t nfiles;
    const accel_dataset_t *const *parts; /* or what it is made of */
    size_t nparts;

    /* Called from several threads at once; indices are < samples. NULL for
     * a stream. */
    accel_status_t (*read)(const accel_dataset_t *dataset,
                           const uint64_t *index, size_t count,
                           void *const *fields);
    /* Streams, which have this instead of `read`: up to *count samples from
     * `position` on; fewer: the end. ACCEL_ERR_UNSUPPORTED: cannot jump. */
    accel_status_t (*next)(const accel_dataset_t *dataset, uint64_t epoch,
                           uint64_t position, size_t *count,
                           void *const *fields);
    void (*destroy)(void *self);
    void *self;
};

/*
 * Copies and checks the fields; shapes NULL: one extent each, none for single
 * elements. The caller sets what follows `samples`; until then
 * accel_dataset_destroy() frees just the fields.
 */
accel_status_t ax_dataset_new(const accel_field_t *fields,
                              const ax_shape_t *shapes, size_t nfields,
                              uint64_t samples, accel_dataset_t **out);

/* An error when it is a stream; `what` is tried with it: "reading from". */
accel_status_t ax_dataset_needs_index(const accel_dataset_t *dataset,
                                      const char *what);

/* ---- compose.c ----------------------------------------------------------- */

/* accel_dataset_concat() that takes the parts with it: they are destroyed with
 * the result, and at once on failure. The array stays the caller's. */
accel_status_t ax_dataset_join(accel_dataset_t **parts, size_t nparts,
                               accel_dataset_t **out);

/* ---- file.c: files that must stay as they are ---------------------------- */

typedef struct ax_cache ax_cache_t;

typedef struct ax_file {
    char *path;
    int fd; /* -1: opened for each read */
    uint64_t bytes;
    ax_cache_t *cache; /* NULL: none */
} ax_file_t;

/* More files than this are opened for each read, for want of descriptors. */
#define AX_KEPT_OPEN 256

/* `keep`: hold it open. Only regular files. */
accel_status_t ax_file_open(ax_file_t *file, const char *path, bool keep);
void ax_file_close(ax_file_t *file);

/* Opens it for many reads one after the other, if it is not held anyway; then
 * ax_file_let_go() with what *held became. */
accel_status_t ax_file_hold(ax_file_t *file, bool *held);
void ax_file_let_go(ax_file_t *file, bool held);

/* Reads all of it, or fails and names the file: when it ends too early, and
 * when its size is not what it was at the opening. */
accel_status_t ax_file_read(const ax_file_t *file, void *data, size_t bytes,
                            uint64_t offset);

/* Fails when the size has changed; `fd` is open on it. */
accel_status_t ax_file_same(const ax_file_t *file, int fd);

/* Base name and size, chained as ax_hash(). */
const char *ax_file_name(const ax_file_t *file);
uint64_t ax_file_hash(const ax_file_t *file, uint64_t seed);

typedef struct ax_files {
    ax_file_t *file;
    size_t count;
} ax_files_t;

accel_status_t ax_files_open(ax_files_t *files, const char *const *paths,
                             size_t npaths);
void ax_files_close(ax_files_t *files);

/* Caches for all of them, if together they have at most `limit` bytes. */
accel_status_t ax_files_cache(ax_files_t *files, size_t limit);
uint64_t ax_files_hash(const ax_files_t *files, uint64_t seed);

/* Rows of `bytes` bytes each, row i at offset + i * step; rows that follow
 * each other without a gap are read in one piece. */
typedef struct ax_rows {
    const ax_file_t *file;
    uint64_t offset, step;
    size_t bytes;
} ax_rows_t;

accel_status_t ax_rows_read(const ax_rows_t *rows, const uint64_t *index,
                            size_t count, void *to);

/* ---- cache.c: small files in memory --------------------------------------
 */

/* Longer pieces are always read: a copy costs more than the call it saves. */
#define AX_CACHED ((size_t)1 << 16)

/* Gives the file a cache, which goes when it is closed, if it is held open and
 * has at most `limit` bytes; otherwise it stays as it is. */
accel_status_t ax_cache_open(ax_file_t *file, size_t limit);
void ax_cache_close(ax_file_t *file);

/* ax_file_read(), from the cache where there is one; the size is then not
 * looked at: call ax_file_same() after the last piece. */
accel_status_t ax_cache_read(const ax_file_t *file, void *data, size_t bytes,
                             uint64_t offset);

/* These bytes are wanted soon. */
void ax_cache_ask(const ax_file_t *file, size_t bytes, uint64_t offset);

/* ---- table.c: arrays in files -------------------------------------------- */

#define AX_NAME 256
#define AX_SAMPLE_MAX ((size_t)1 << 32) /* bytes of one sample in one field */

/* One array: its first extent counts the samples. */
typedef struct ax_column {
    char name[AX_NAME];
    accel_dtype_t dtype;
    ax_shape_t shape; /* of one sample */
    size_t count;     /* elements of one sample */
    size_t bytes;     /* of one sample */
    uint64_t rows;
    uint64_t offset; /* of the first byte in the file */
} ax_column_t;

/* Sets shape, count, bytes and rows from the extents of the whole array;
 * `where` is "FILE" or "FILE: ARRAY", for texts. */
accel_status_t ax_column_shape(ax_column_t *column, const uint64_t *extents,
                               size_t ndim, const char *where);

/*
 * Picks the columns that the options want, in their order, and checks them:
 * types, counts, and that all have the same number of rows. `columns` is
 * rearranged, *n becomes the number that is left.
 */
accel_status_t ax_columns_choose(const accel_dataset_options_t *options,
                                 ax_column_t *columns, size_t *n,
                                 const char *path);

/* A dataset with these columns as fields. */
accel_status_t ax_columns_dataset(const ax_column_t *columns, size_t n,
                                  accel_dataset_t **out);

/* The whole of a dataset whose columns lie in one file; takes the file, also
 * on failure. */
accel_status_t ax_table_new(ax_file_t *file, const ax_column_t *columns,
                            size_t n, const char *format,
                            accel_dataset_t **out);

/* ---- entries.c: pieces of different lengths ------------------------------ */

/* Where a piece lies. */
typedef struct ax_entry {
    uint64_t offset;
    uint32_t file;
    uint32_t bytes;
} ax_entry_t;

typedef struct ax_entries {
    ax_files_t files;
    ax_entry_t *entry; /* samples * nfields, sample after sample */
    size_t count, room;
    size_t nfields; /* pieces of one sample; each gives two fields */
} ax_entries_t;

accel_status_t ax_entries_add(ax_entries_t *entries, const ax_entry_t *entry);
void ax_entries_free(ax_entries_t *entries);

/*
 * A dataset of them: piece p gives the field names[p], u8, as wide as width[p]
 * (0: the longest), and names[nfields + p], u32. Takes `entries` (allocated
 * with malloc), also on failure. A piece that is too long is an error.
 */
accel_status_t ax_entries_dataset(ax_entries_t *entries,
                                  const char *const *names, size_t *width,
                                  const char *format, accel_dataset_t **out);

/* ---- the formats ---------------------------------------------------------
 * Files that hold one dataset each; the options are checked already, and
 * cache_bytes is what this file may have. `keep`: hold the file open.
 */
accel_status_t ax_npy_open(const char *path, bool keep,
                           const accel_dataset_options_t *options,
                           accel_dataset_t **out);
accel_status_t ax_npz_open(const char *path, bool keep,
                           const accel_dataset_options_t *options,
                           accel_dataset_t **out);
accel_status_t ax_hdf5_open(const char *path, bool keep,
                            const accel_dataset_options_t *options,
                            accel_dataset_t **out);

/* Files that make one dataset together. */
accel_status_t ax_tokens_open(const char *const *paths, size_t npaths,
                              const accel_dataset_options_t *options,
                              accel_dataset_t **out);
/* "x", "x.idx" or "x.bin" to "x" with the ending `suffix`: the caller's to
 * free(), or NULL. */
char *ax_megatron_name(const char *path, const char *suffix);
accel_status_t ax_megatron_open(const char *const *paths, size_t npaths,
                                const accel_dataset_options_t *options,
                                accel_dataset_t **out);
accel_status_t ax_lines_open(const char *const *paths, size_t npaths,
                             const accel_dataset_options_t *options,
                             accel_dataset_t **out);
accel_status_t ax_tar_open(const char *const *paths, size_t npaths,
                           const accel_dataset_options_t *options,
                           accel_dataset_t **out);

/* npy.c: the header that begins at `offset` of the file, of an array that ends
 * at `end` exactly. `where` as for ax_column_shape(). */
accel_status_t ax_npy_header(const ax_file_t *file, uint64_t offset,
                             uint64_t end, const char *where,
                             ax_column_t *column);

/* Numbers as little-endian files have them. */
static inline uint64_t ax_le(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t value = 0;

    for (size_t i = bytes; i-- > 0;)
        value = value << 8 | p[i];
    return value;
}

/* Bulk is not converted: the files must have this machine's byte order. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define AX_LITTLE true
#else
#define AX_LITTLE false
#endif

#endif
