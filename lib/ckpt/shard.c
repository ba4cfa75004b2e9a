/*
 * One rank's HDF5 file, without its bulk: each array is laid out in one
 * piece whose place is then known, and HDF5 lets go of the file.
 */
#include "h5.h"

#include <inttypes.h>
#include <stdlib.h>

/* The segments of one array in this file: one dataset, one after another. */
struct piece {
    ax_segment_t *segments;
    size_t count; /* segments of the array, those of other files too */
    size_t file;
    size_t mine;
    uint64_t elements;
};

static hid_t create_dataset(ax_h5_t *h5, const ax_array_t *a, uint64_t elements)
{
    hsize_t length = elements;
    hid_t set = H5I_INVALID_HID;
    hid_t type = ax_h5_type(a->dtype);
    hid_t space =
        a->ndim ? H5Screate_simple(1, &length, NULL) : H5Screate(H5S_SCALAR);
    hid_t how = H5Pcreate(H5P_DATASET_CREATE);

    if (type >= 0 && space >= 0 && how >= 0 &&
        H5Pset_layout(how, H5D_CONTIGUOUS) >= 0 &&
        H5Pset_alloc_time(how, H5D_ALLOC_TIME_EARLY) >= 0 &&
        H5Pset_fill_time(how, H5D_FILL_TIME_NEVER) >= 0)
        set = H5Dcreate2(h5->file, a->name, type, space, h5->links, how,
                         H5P_DEFAULT);
    ax_h5_drop(type, space, how);
    return set;
}

static accel_status_t put_ranges(ax_h5_t *h5, hid_t set,
                                 const struct piece *piece)
{
    hsize_t shape[2] = {piece->mine, 2};
    uint64_t *values = calloc(piece->mine, 2 * sizeof *values);
    size_t n = 0;

    if (!values)
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %zu ranges",
                       piece->mine);
    for (size_t i = 0; i < piece->count; i++) {
        if (piece->segments[i].file != piece->file)
            continue;
        values[n++] = piece->segments[i].first;
        values[n++] = piece->segments[i].count;
    }
    accel_status_t st = ax_h5_put_numbers(h5, set, "ranges", 2, shape, values);
    free(values);
    return st;
}

static accel_status_t describe(ax_h5_t *h5, hid_t set, const ax_array_t *a,
                               const struct piece *piece)
{
    hsize_t ndim = (hsize_t)a->ndim;
    accel_status_t st =
        ax_h5_put_text(h5, set, "dtype", ax_h5_type_name(a->dtype));

    if (st == ACCEL_OK && ndim)
        st = ax_h5_put_numbers(h5, set, "shape", 1, &ndim, a->shape);
    if (st == ACCEL_OK)
        st = put_ranges(h5, set, piece);
    return st;
}

static accel_status_t put_piece(ax_h5_t *h5, const ax_array_t *a,
                                const struct piece *piece)
{
    hid_t set = create_dataset(h5, a, piece->elements);

    if (set < 0)
        return ax_h5_fail(h5, a->name);
    haddr_t offset = H5Dget_offset(set);
    accel_status_t st = offset == HADDR_UNDEF ? ax_h5_fail(h5, a->name)
                                              : describe(h5, set, a, piece);
    if (H5Dclose(set) < 0 && st == ACCEL_OK)
        st = ax_h5_fail(h5, a->name);
    for (size_t i = 0; i < piece->count; i++) {
        if (piece->segments[i].file != piece->file)
            continue;
        piece->segments[i].offset = offset;
        offset += piece->segments[i].count * accel_dtype_size(a->dtype);
    }
    return st;
}

accel_status_t ax_shard_create(ax_manifest_t *m, size_t file, const char *path)
{
    ax_h5_t h5;
    accel_status_t st = ax_h5_create(&h5, path);

    if (st != ACCEL_OK)
        return st;
    st = ax_h5_put_root(&h5, m);
    for (size_t s = 0, end; st == ACCEL_OK && s < m->nsegments; s = end) {
        size_t array = m->segments[s].array;
        struct piece piece = {.segments = &m->segments[s], .file = file};
        for (end = s; end < m->nsegments && m->segments[end].array == array;
             end++) {
            piece.mine += m->segments[end].file == file;
            piece.elements +=
                m->segments[end].file == file ? m->segments[end].count : 0;
        }
        piece.count = end - s;
        if (piece.mine)
            st = put_piece(&h5, &m->arrays[array], &piece);
    }
    return ax_h5_close(&h5, st);
}
