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
    uint64_t chunk[AX_DIMS + 1]; /* extents of one */
    uint64_t grid[AX_DIMS + 1];  /* and how many there are */
    uint64_t nchunks;            /* in all */
    uint64_t chunk_bytes;        /* in memory */
    uint64_t base;               /* of the file's addresses */
    unsigned filters;            /* a bit for each that there is */
    unsigned deflate, checksum;  /* the bits of these; 0: none */
} ax_walk_t;

typedef enum ax_walked {
    AX_WALK_FOUND,   /* every chunk is there, as long as it must be */
    AX_WALK_OTHER,   /* the index is of another kind */
    AX_WALK_DAMAGED, /* it does not hold what it must */
} ax_walked_t;

/*
 * hdf5_index.c: where each chunk begins, found in the index of the dataset
 * whose header is at byte `object`, without the library; `chunk` has room for
 * all, and is zero before.
 */
ax_walked_t ax_hdf5_walk(const ax_file_t *file, uint64_t object,
                         const ax_walk_t *what, uint64_t *chunk);

/* The same for the dataset `id`. */
ax_walked_t ax_hdf5_index(const ax_hdf5_t *h, hid_t id, const ax_walk_t *what,
                          uint64_t *chunk);

#endif
