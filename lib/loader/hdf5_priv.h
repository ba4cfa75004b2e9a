/*
 * HDF5 as datasets use it; nothing else of the loader includes this.
 */
#ifndef AX_HDF5_PRIV_H
#define AX_HDF5_PRIV_H

#include "dataset_priv.h"

#include "base/hdf5.h"

/* One field, in one of three ways. */
typedef struct ax_array {
    hid_t id;        /* open only when the library reads it */
    uint64_t offset; /* contiguous: of row 0 */
    uint64_t *chunk; /* chunked: where each chunk begins */
    uint64_t per;    /* rows of a chunk */
    hid_t type;      /* of the file and of memory alike */
} ax_array_t;

typedef struct ax_hdf5 {
    ax_file_t file;
    hid_t id; /* H5I_INVALID_HID once everything is known */
    ax_array_t *array;
    size_t narrays;
} ax_hdf5_t;

/* How a dataset of the file is cut. */
typedef struct ax_chunking {
    hid_t id;
    int rank;
    hsize_t dims[AX_DIMS + 1], chunk[AX_DIMS + 1];
    bool plain; /* whole samples, as they are: read by ourselves */
} ax_chunking_t;

/* A failure of the library as ours, with its own words. */
accel_status_t ax_hdf5_failed(accel_status_t status, const char *path,
                              const char *doing);

/*
 * hdf5_layout.c: type, extents and layout of the dataset k->id; where its
 * elements are, unless the library must read them: k->plain is false then.
 */
accel_status_t ax_hdf5_examine(const ax_hdf5_t *h, const char *where,
                               ax_chunking_t *k, ax_column_t *column,
                               ax_array_t *array);

/* What an index is expected to hold. */
typedef struct ax_walk {
    int rank;
    uint64_t per; /* rows of a chunk */
    uint64_t chunk_bytes, nchunks;
} ax_walk_t;

/* hdf5_index.c: through the index of the dataset whose header is at byte
 * `object`; as ax_hdf5_index(), without the library. */
bool ax_hdf5_walk(const ax_file_t *file, uint64_t object, const ax_walk_t *what,
                  uint64_t *chunk);

/*
 * Where each of `nchunks` chunks begins, found in the file's own
 * index; `chunk` is zero before. Each is `chunk_bytes` long, whole samples of
 * the dataset k->id without a filter. False: the index is of another kind, or
 * there is something about it; `chunk` is then of no use.
 */
bool ax_hdf5_index(const ax_hdf5_t *h, const ax_chunking_t *k,
                   uint64_t chunk_bytes, uint64_t nchunks, uint64_t *chunk);

#endif
