/*
 * HDF5 as shard.c and index.c use it; nothing else includes this.
 *
 * Only numbered functions (H5Dcreate2): what the plain names mean depends on
 * how the library was built.
 */
#ifndef CKPT_H5_H
#define CKPT_H5_H

#include "ckpt_priv.h"

#include "base/hdf5.h"

/* A file that is being written: HDF5 is entered until it is closed. */
typedef struct ax_h5 {
    hid_t file;
    hid_t links;  /* link creation: make groups on the way, UTF-8 names */
    hid_t text;   /* a string attribute's type */
    hid_t scalar; /* its space */
    const char *path;
    ax_hdf5_visit_t visit;
} ax_h5_t;

/* Creates `path`, which must not exist. On failure nothing is to be closed. */
accel_status_t ax_h5_create(ax_h5_t *h5, const char *path);

/*
 * Closes the file; `st` is how things went so far. When HDF5 fails to write,
 * the identifier is never touched again: HDF5 1.10 would crash.
 */
accel_status_t ax_h5_close(ax_h5_t *h5, accel_status_t st);

/* A failure of HDF5 as ours, with the cause that it gives. */
accel_status_t ax_h5_fail(const ax_h5_t *h5, const char *doing);

/* The file's type for elements of `dtype`; to be closed with H5Tclose(). */
hid_t ax_h5_type(accel_dtype_t dtype);

/* Closes what a dataset was made of, as far as it came into being. */
void ax_h5_drop(hid_t type, hid_t space, hid_t properties);

/* "F32", "BF16": as safetensors spells them. */
const char *ax_h5_type_name(accel_dtype_t dtype);

accel_status_t ax_h5_put_text(ax_h5_t *h5, hid_t object, const char *name,
                              const char *value);
accel_status_t ax_h5_put_numbers(ax_h5_t *h5, hid_t object, const char *name,
                                 int ndim, const hsize_t *shape,
                                 const uint64_t *values);

/* What every file of a checkpoint says of itself. */
accel_status_t ax_h5_put_root(ax_h5_t *h5, const ax_manifest_t *m);

#endif
