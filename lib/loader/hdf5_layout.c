/* HDF5: what a dataset of a file is, and where its elements lie. */
#include "hdf5_priv.h"

#include <stdlib.h>

#define BOMB_FROM ((uint64_t)4 << 30) /* declared bytes that need a proof: */
#define BOMB_RATIO 1000               /* this share of them is stored */

/* ---- types --------------------------------------------------------------- */

/* f16 and bf16 are no types of HDF5 1.10's own. */
static accel_dtype_t small_float(hid_t type)
{
    size_t sign, exponent, bits, mantissa, fraction;

    if (H5Tget_fields(type, &sign, &exponent, &bits, &mantissa, &fraction) <
            0 ||
        sign != 15 || mantissa != 0 || exponent != fraction)
        return ACCEL_DTYPE_NONE;
    if (bits == 5 && fraction == 10 && H5Tget_ebias(type) == 15)
        return ACCEL_F16;
    if (bits == 8 && fraction == 7 && H5Tget_ebias(type) == 127)
        return ACCEL_BF16;
    return ACCEL_DTYPE_NONE;
}

static accel_dtype_t number_type(hid_t type)
{
    static const accel_dtype_t ints[2][4] = {
        {ACCEL_U8, ACCEL_U16, ACCEL_U32, ACCEL_U64},
        {ACCEL_I8, ACCEL_I16, ACCEL_I32, ACCEL_I64}};
    size_t bytes = H5Tget_size(type);

    if (H5Tget_class(type) == H5T_INTEGER) {
        /* Some of the bits: not what the size says. */
        if (H5Tget_precision(type) != 8 * bytes)
            return ACCEL_DTYPE_NONE;
        for (int i = 0; i < 4; i++)
            if (bytes == (size_t)1 << i)
                return ints[H5Tget_sign(type) == H5T_SGN_2][i];
    }
    if (H5Tget_class(type) != H5T_FLOAT)
        return ACCEL_DTYPE_NONE;
    if (bytes == 2)
        return small_float(type);
    if (H5Tequal(type, H5T_NATIVE_DOUBLE) > 0)
        return ACCEL_F64;
    return H5Tequal(type, H5T_NATIVE_FLOAT) > 0 ? ACCEL_F32 : ACCEL_DTYPE_NONE;
}

static accel_status_t plain_type(hid_t type, const char *where,
                                 accel_dtype_t *out)
{
    H5T_order_t here = AX_LITTLE ? H5T_ORDER_LE : H5T_ORDER_BE;
    H5T_class_t kind = H5Tget_class(type);

    if ((kind == H5T_INTEGER || kind == H5T_FLOAT) && H5Tget_size(type) > 1 &&
        H5Tget_order(type) != here)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: elements are in the byte order of other "
                       "machines; rewrite them",
                       where);
    *out = number_type(type);
    return *out ? ACCEL_OK
                : ax_fail(ACCEL_ERR_UNSUPPORTED,
                          "dataset: %s: elements are no plain numbers (type "
                          "class %d, %zu bytes)",
                          where, (int)kind, H5Tget_size(type));
}

/* Named numbers, such as h5py's booleans, are the numbers. */
static accel_status_t find_type(hid_t type, const char *where,
                                accel_dtype_t *out)
{
    if (H5Tcommitted(type) != 0)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: its type is a named one of the file",
                       where);
    if (H5Tget_class(type) != H5T_ENUM)
        return plain_type(type, where, out);
    hid_t number = H5Tget_super(type);
    if (number < 0)
        return ax_hdf5_failed(ACCEL_ERR_CORRUPT, where, "cannot be examined");
    accel_status_t st = plain_type(number, where, out);
    H5Tclose(number);
    return st;
}

/* ---- layout -------------------------------------------------------------- */

static accel_status_t check_filters(hid_t dcpl, const char *where,
                                    ax_walk_t *what, int *n)
{
    *n = H5Pget_nfilters(dcpl);
    for (int i = 0; i < *n; i++) {
        unsigned flags, info;
        size_t values = 0;
        char name[64] = "";
        H5Z_filter_t id = H5Pget_filter2(dcpl, (unsigned)i, &flags, &values,
                                         NULL, sizeof name, name, &info);
        if (id != H5Z_FILTER_DEFLATE && id != H5Z_FILTER_SHUFFLE &&
            id != H5Z_FILTER_FLETCHER32)
            return ax_fail(ACCEL_ERR_UNSUPPORTED,
                           "dataset: %s: filter %d (%.60s); deflate, shuffle "
                           "and fletcher32 are read",
                           where, (int)id, name);
        what->filters |= 1U << i % 32;
        what->deflate |= id == H5Z_FILTER_DEFLATE ? 1U << i % 32 : 0;
        what->checksum |= id == H5Z_FILTER_FLETCHER32 ? 1U << i % 32 : 0;
    }
    return *n < 0 ? ax_fail(ACCEL_ERR_CORRUPT, "dataset: %s: no filters", where)
                  : ACCEL_OK;
}

static accel_status_t short_file(const ax_hdf5_t *h, const char *where,
                                 uint64_t offset, uint64_t bytes)
{
    if (offset <= h->file.bytes && bytes <= h->file.bytes - offset)
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_CORRUPT,
                   "dataset: %s: says that %llu bytes are at byte %llu of a "
                   "file of %llu: it was cut short",
                   where, (unsigned long long)bytes, (unsigned long long)offset,
                   (unsigned long long)h->file.bytes);
}

static accel_status_t never_written(const char *where)
{
    return ax_fail(ACCEL_ERR_CORRUPT,
                   "dataset: %s: was made, but never written, or not all of "
                   "it: reading would give zeros",
                   where);
}

static accel_status_t contiguous(const ax_hdf5_t *h, hid_t id,
                                 const ax_column_t *c, const char *where,
                                 ax_array_t *array)
{
    haddr_t at = H5Dget_offset(id);
    size_t bytes;

    if (c->rows == 0)
        return ACCEL_OK;
    if (at == HADDR_UNDEF)
        return never_written(where);
    if (!ax_mul((size_t)c->rows, c->bytes, &bytes))
        bytes = SIZE_MAX;
    array->offset = at;
    return short_file(h, where, at, bytes);
}

/* The library takes a step for each chunk before the one it is asked for. */
#ifndef ASK_MOST
#define ASK_MOST 1024
#endif

static accel_status_t ask_for_chunk(const ax_hdf5_t *h, const ax_chunking_t *k,
                                    const ax_column_t *c, const char *where,
                                    uint64_t i, uint64_t *out)
{
    hsize_t at[AX_DIMS + 1] = {i * k->chunk[0]}, bytes = 0;
    haddr_t place = HADDR_UNDEF;
    unsigned mask = 0;

    if (H5Dget_chunk_info_by_coord(k->id, at, &mask, &place, &bytes) < 0)
        return ax_hdf5_failed(ACCEL_ERR_CORRUPT, where, "cannot find a chunk");
    if (place == HADDR_UNDEF)
        return never_written(where);
    if (bytes != k->chunk[0] * c->bytes)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: a chunk has %llu bytes instead of %llu",
                       where, (unsigned long long)bytes,
                       (unsigned long long)(k->chunk[0] * c->bytes));
    *out = place;
    return short_file(h, where, place, bytes);
}

/* An index that is not read here: when it has few chunks the library is asked
 * for each; else the library reads them. */
static accel_status_t ask_for_chunks(const ax_hdf5_t *h, ax_chunking_t *k,
                                     const ax_column_t *c, const char *where,
                                     uint64_t n, uint64_t *chunk)
{
    accel_status_t st = ACCEL_OK;

    if (n > ASK_MOST) {
        k->plain = false;
        ax_log(AX_LOG_INFO,
               "dataset: %s: the index of its %llu chunks is of a kind that "
               "is not read here: reading goes through HDF5, by one thread",
               where, (unsigned long long)n);
    }
    for (uint64_t i = 0; i < n && k->plain && st == ACCEL_OK; i++)
        st = ask_for_chunk(h, k, c, where, i, &chunk[i]);
    return st;
}

/* Every chunk must be there, and in the file. */
static accel_status_t find_chunks(const ax_hdf5_t *h, ax_chunking_t *k,
                                  const ax_column_t *c, const char *where,
                                  const ax_walk_t *what, ax_array_t *array)
{
    uint64_t *chunk = calloc((size_t)what->nchunks, sizeof *chunk);
    accel_status_t st = ACCEL_OK;

    if (!chunk)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: %s: out of memory", where);
    switch (ax_hdf5_index(h, k->id, what, chunk)) {
    case AX_WALK_FOUND:
        break;
    case AX_WALK_OTHER:
        if (k->plain)
            st = ask_for_chunks(h, k, c, where, what->nchunks, chunk);
        break;
    case AX_WALK_DAMAGED:
        st = ax_fail(ACCEL_ERR_CORRUPT,
                     "dataset: %s: its chunks are not as long or not where "
                     "they must be",
                     where);
        break;
    }
    if (st == ACCEL_OK && k->plain) {
        array->per = k->chunk[0];
        array->chunk = chunk;
        return ACCEL_OK;
    }
    free(chunk);
    return st;
}

/* There must be as many as the extents say; which also bounds the memory for
 * their places by the size of the file. */
static accel_status_t count_chunks(const ax_chunking_t *k, const ax_column_t *c,
                                   const char *where, ax_walk_t *what)
{
    hsize_t have = 0;

    what->rank = k->rank;
    what->nchunks = 1;
    what->chunk_bytes = accel_dtype_size(c->dtype);
    for (int d = 0; d < k->rank; d++) {
        what->chunk[d] = k->chunk[d];
        what->grid[d] =
            k->dims[d] / k->chunk[d] + (k->dims[d] % k->chunk[d] != 0);
        if (__builtin_mul_overflow(what->nchunks, what->grid[d],
                                   &what->nchunks) ||
            __builtin_mul_overflow(what->chunk_bytes, what->chunk[d],
                                   &what->chunk_bytes))
            return never_written(where);
    }
    hid_t space = H5Dget_space(k->id);
    herr_t wrong = H5Dget_num_chunks(k->id, space, &have);
    H5Sclose(space);
    if (wrong < 0)
        return ax_hdf5_failed(ACCEL_ERR_CORRUPT, where,
                              "cannot count the chunks");
    return have < what->nchunks ? never_written(where) : ACCEL_OK;
}

static accel_status_t chunked(const ax_hdf5_t *h, hid_t dcpl, ax_chunking_t *k,
                              const ax_column_t *c, const char *where,
                              ax_array_t *array)
{
    hid_t fcpl = H5Fget_create_plist(h->id);
    hsize_t user = 1;
    int filters = 0;
    ax_walk_t what = {0};
    accel_status_t st = check_filters(dcpl, where, &what, &filters);

    /* The library's versions differ in whether a user block counts. */
    H5Pget_userblock(fcpl, &user);
    H5Pclose(fcpl);
    if (st != ACCEL_OK)
        return st;
    if (H5Pget_chunk(dcpl, k->rank, k->chunk) != k->rank)
        return ax_hdf5_failed(ACCEL_ERR_CORRUPT, where, "has no chunks");
    what.base = user;
    k->plain = filters == 0 && user == 0;
    for (int d = 1; d < k->rank; d++)
        k->plain = k->plain && k->chunk[d] == k->dims[d];
    if (c->rows == 0)
        return ACCEL_OK;
    st = count_chunks(k, c, where, &what);
    return st == ACCEL_OK ? find_chunks(h, k, c, where, &what, array) : st;
}

/* Declared sizes that little is stored for would fill memory from nothing. */
static accel_status_t check_bomb(const ax_hdf5_t *h, hid_t id,
                                 const ax_column_t *c, const char *where)
{
    uint64_t declared, stored = H5Dget_storage_size(id);

    if (__builtin_mul_overflow(c->rows, c->bytes, &declared))
        declared = UINT64_MAX;
    if (stored > h->file.bytes)
        return short_file(h, where, 0, stored);
    if (declared <= BOMB_FROM || declared / BOMB_RATIO <= stored)
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_CORRUPT,
                   "dataset: %s: declares %llu bytes but stores %llu; more "
                   "than %d times as many is not believed",
                   where, (unsigned long long)declared,
                   (unsigned long long)stored, BOMB_RATIO);
}

static accel_status_t check_layout(const ax_hdf5_t *h, hid_t id,
                                   ax_chunking_t *k, const ax_column_t *c,
                                   const char *where, ax_array_t *array)
{
    hid_t dcpl = H5Dget_create_plist(id);
    accel_status_t st;

    if (dcpl < 0)
        return ax_hdf5_failed(ACCEL_ERR_CORRUPT, where, "cannot be examined");
    H5D_layout_t layout = H5Pget_layout(dcpl);
    if (H5Pget_external_count(dcpl) != 0)
        st = ax_fail(ACCEL_ERR_UNSUPPORTED,
                     "dataset: %s: its bytes are in other files, which are "
                     "never followed",
                     where);
    else if (layout == H5D_VIRTUAL)
        st = ax_fail(ACCEL_ERR_UNSUPPORTED,
                     "dataset: %s: virtual: its sources are never followed, "
                     "and read as zeros when one is missing; open them",
                     where);
    else if (layout == H5D_CONTIGUOUS)
        st = contiguous(h, id, c, where, array);
    else if (layout != H5D_CHUNKED)
        st = ax_fail(ACCEL_ERR_UNSUPPORTED,
                     "dataset: %s: neither contiguous nor chunked", where);
    else if ((st = check_bomb(h, id, c, where)) == ACCEL_OK)
        st = chunked(h, dcpl, k, c, where, array);
    k->plain |= layout == H5D_CONTIGUOUS;
    H5Pclose(dcpl);
    return st;
}

static accel_status_t measure(hid_t id, const char *where, ax_chunking_t *k,
                              ax_column_t *c)
{
    hid_t space = H5Dget_space(id), type = H5Dget_type(id);
    uint64_t extents[H5S_MAX_RANK];
    hsize_t dims[H5S_MAX_RANK];
    accel_status_t st;

    k->rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (type < 0 || k->rank < 0 ||
        H5Sget_simple_extent_dims(space, dims, NULL) < 0)
        st = ax_hdf5_failed(ACCEL_ERR_CORRUPT, where, "cannot be examined");
    else if ((st = find_type(type, where, &c->dtype)) == ACCEL_OK) {
        for (int d = 0; d < k->rank; d++)
            extents[d] = dims[d];
        st = ax_column_shape(c, extents, (size_t)k->rank, where);
    }
    for (int d = 0; st == ACCEL_OK && d < k->rank; d++)
        k->dims[d] = dims[d];
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    return st;
}

accel_status_t ax_hdf5_examine(const ax_hdf5_t *h, const char *where,
                               ax_chunking_t *k, ax_column_t *column,
                               ax_array_t *array)
{
    accel_status_t st = measure(k->id, where, k, column);

    return st == ACCEL_OK ? check_layout(h, k->id, k, column, where, array)
                          : st;
}
