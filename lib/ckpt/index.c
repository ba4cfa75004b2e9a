/*
 * index.h5: every array whole, with its shape, as HDF5 virtual datasets over
 * the shards. For people; loading never uses it, because HDF5 gives fill
 * values without an error where a shard is missing.
 */
#include "h5.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A hole must show: NaN, or the number farthest from the usual ones. */
static void hole_value(accel_dtype_t dtype, unsigned char out[8])
{
    const double f64 = NAN;
    const float f32 = NAN;
    const uint16_t f16 = 0x7e00, bf16 = 0x7fc0;
    size_t size = accel_dtype_size(dtype);

    memset(out, 0, 8);
    switch (dtype) {
    case ACCEL_F64:
        memcpy(out, &f64, sizeof f64);
        break;
    case ACCEL_F32:
        memcpy(out, &f32, sizeof f32);
        break;
    case ACCEL_F16:
        memcpy(out, &f16, sizeof f16);
        break;
    case ACCEL_BF16:
        memcpy(out, &bf16, sizeof bf16);
        break;
    case ACCEL_I8:
    case ACCEL_I16:
    case ACCEL_I32:
    case ACCEL_I64:
        out[size - 1] = 0x80; /* the smallest */
        break;
    default:
        memset(out, 0xff, size); /* the largest */
    }
}

/*
 * Adds the elements [first, first + count) of a row-major array to the
 * selection of `space`: at each level a ragged head, whole rows, a ragged
 * tail. At most two blocks for each dimension and one more.
 */
static herr_t select_flat(hid_t space, const ax_array_t *a, uint64_t first,
                          uint64_t count)
{
    hsize_t start[ACCEL_CKPT_MAX_DIMS], block[ACCEL_CKPT_MAX_DIMS];
    H5S_seloper_t op = H5S_SELECT_SET;

    while (count) {
        /* The largest unit that begins at `first` and fits in `count`. */
        uint64_t unit = 1;
        int d = a->ndim - 1;
        while (d > 0 && first % (unit * a->shape[d]) == 0 &&
               count >= unit * a->shape[d])
            unit *= a->shape[d--];
        /* So many of them before a larger one could be used. */
        uint64_t n = count / unit;
        uint64_t to_edge = a->shape[d] - first / unit % a->shape[d];
        n = n < to_edge ? n : to_edge;

        uint64_t rest = first / unit;
        for (int i = 0; i < a->ndim; i++) {
            start[i] = 0;
            block[i] = i > d ? a->shape[i] : 1;
        }
        for (int i = d; i >= 0; i--) {
            start[i] = rest % a->shape[i];
            rest /= a->shape[i];
        }
        block[d] = n;
        static const hsize_t one[ACCEL_CKPT_MAX_DIMS] = {1, 1, 1, 1,
                                                         1, 1, 1, 1};
        if (H5Sselect_hyperslab(space, op, start, NULL, one, block) < 0)
            return -1;
        op = H5S_SELECT_OR;
        first += n * unit;
        count -= n * unit;
    }
    return 0;
}

/* Elements that the segments from `s` to before `end` have in `file`. */
static uint64_t in_file(const ax_segment_t *s, const ax_segment_t *end,
                        size_t file)
{
    uint64_t n = 0;

    for (; s < end; s++)
        n += s->file == file ? s->count : 0;
    return n;
}

/* "/name", in which HDF5 would take "%b" for a number and refuse other words
 * after a percent sign. */
static void put_pattern(const char *name, char *out)
{
    *out++ = '/';
    for (; *name; name++) {
        if (*name == '%')
            *out++ = '%';
        *out++ = *name;
    }
    *out = '\0';
}

static herr_t map_segment(hid_t how, hid_t space, const ax_manifest_t *m,
                          const ax_segment_t *all, size_t count,
                          const ax_segment_t *s)
{
    const ax_array_t *a = &m->arrays[s->array];
    char name[2 * AX_CKPT_NAME_MAX + 2];
    hsize_t start = in_file(all, s, s->file), length = s->count;
    hsize_t total = in_file(all, all + count, s->file);

    put_pattern(a->name, name);
    hid_t source = H5Screate_simple(1, &total, NULL);
    if (source < 0)
        return -1;
    herr_t wrong = H5Sselect_hyperslab(source, H5S_SELECT_SET, &start, NULL,
                                       &length, NULL);
    if (wrong >= 0)
        wrong = select_flat(space, a, s->first, s->count);
    if (wrong >= 0)
        wrong =
            H5Pset_virtual(how, space, m->files[s->file].name, name, source);
    H5Sclose(source);
    return wrong;
}

static hid_t create_virtual(ax_h5_t *h5, const ax_manifest_t *m, size_t array)
{
    const ax_array_t *a = &m->arrays[array];
    const ax_segment_t *s;
    size_t count = ax_manifest_segments(m, array, &s);
    unsigned char hole[8];
    hsize_t shape[ACCEL_CKPT_MAX_DIMS];
    hid_t set = H5I_INVALID_HID;
    hid_t type = ax_h5_type(a->dtype);

    for (int d = 0; d < a->ndim; d++)
        shape[d] = a->shape[d];
    hid_t space = H5Screate_simple(a->ndim, shape, NULL);
    hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    herr_t wrong = type < 0 || space < 0 || how < 0 ? -1 : 0;

    hole_value(a->dtype, hole);
    if (wrong >= 0 && count)
        wrong = H5Pset_fill_value(how, type, hole);
    for (size_t i = 0; wrong >= 0 && i < count; i++)
        wrong = map_segment(how, space, m, s, count, &s[i]);
    if (wrong >= 0 && H5Sselect_all(space) >= 0)
        set = H5Dcreate2(h5->file, a->name, type, space, h5->links, how,
                         H5P_DEFAULT);
    ax_h5_drop(type, space, how);
    return set;
}

/* One element, from the shard that has it by now. */
static accel_status_t read_scalar(const ax_h5_t *h5, const ax_manifest_t *m,
                                  const ax_segment_t *s, void *value)
{
    char path[PATH_MAX];
    size_t size = accel_dtype_size(m->arrays[s->array].dtype);
    const char *slash = strrchr(h5->path, '/');
    int fd, dir_bytes = slash ? (int)(slash - h5->path) : 0;

    snprintf(path, sizeof path, "%.*s", dir_bytes, h5->path);
    int dir = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: cannot open", path);
    accel_status_t st = ax_ckpt_open_file(dir, path, m->files[s->file].name,
                                          AX_CKPT_VISIBLE_NS, &fd);
    close(dir);
    if (st != ACCEL_OK)
        return st;
    errno = 0;
    if (pread(fd, value, size, (off_t)s->offset) != (ssize_t)size)
        st = ax_fail_sys(ACCEL_ERR_IO, errno ? errno : EIO,
                         "ckpt: %s/%s: cannot be read back", path,
                         m->files[s->file].name);
    close(fd);
    return st;
}

/* HDF5 maps no single numbers, and links to another file are passed over when
 * objects are listed: so these are copies. */
static accel_status_t put_scalar(ax_h5_t *h5, const ax_manifest_t *m,
                                 size_t array)
{
    const ax_array_t *a = &m->arrays[array];
    const ax_segment_t *s;
    unsigned char value[8];

    ax_manifest_segments(m, array, &s);
    accel_status_t st = read_scalar(h5, m, s, value);
    if (st != ACCEL_OK)
        return st;
    hid_t type = ax_h5_type(a->dtype);
    hid_t set = type < 0 ? H5I_INVALID_HID
                         : H5Dcreate2(h5->file, a->name, type, h5->scalar,
                                      h5->links, H5P_DEFAULT, H5P_DEFAULT);
    if (set < 0 ||
        H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) < 0)
        st = ax_h5_fail(h5, a->name);
    else
        st = ax_h5_put_text(h5, set, "dtype", ax_h5_type_name(a->dtype));
    if (set >= 0 && H5Dclose(set) < 0 && st == ACCEL_OK)
        st = ax_h5_fail(h5, a->name);
    if (type >= 0)
        H5Tclose(type);
    return st;
}

static accel_status_t put_array(ax_h5_t *h5, const ax_manifest_t *m,
                                size_t array)
{
    const ax_array_t *a = &m->arrays[array];

    if (a->ndim == 0)
        return put_scalar(h5, m, array);
    hid_t set = create_virtual(h5, m, array);
    if (set < 0)
        return ax_h5_fail(h5, a->name);
    accel_status_t st =
        ax_h5_put_text(h5, set, "dtype", ax_h5_type_name(a->dtype));
    if (H5Dclose(set) < 0 && st == ACCEL_OK)
        st = ax_h5_fail(h5, a->name);
    return st;
}

accel_status_t ax_index_create(const ax_manifest_t *m, const char *path)
{
    ax_h5_t h5;
    accel_status_t st = ax_h5_create(&h5, path);

    if (st != ACCEL_OK)
        return st;
    st = ax_h5_put_root(&h5, m);
    for (size_t i = 0; st == ACCEL_OK && i < m->narrays; i++)
        st = put_array(&h5, m, i);
    return ax_h5_close(&h5, st);
}
