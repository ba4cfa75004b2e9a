/*
 * HDF5: datasets of a file as fields. Where their elements lie is asked once;
 * then they are read by ourselves, as many threads at once as like. Filtered
 * chunks, and chunks that cut samples, go through the HDF5 library, one thread
 * at a time.
 *
 * The library follows links, sources and plugins to wherever a file tells it.
 * Nothing of that is let happen: every link on the way must be a hard one, the
 * layout contiguous or chunked, every filter one of three. Only numbered
 * functions are called: what the plain names mean depends on how the library
 * was built.
 */
#include "dataset_priv.h"

#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS_MAX 4096
#define CACHE_MAX ((size_t)256 << 20)
#define BOMB_FROM ((uint64_t)4 << 30) /* declared bytes that need a proof: */
#define BOMB_RATIO 1000               /* this share of them is stored */

/* Not every build of the library may be entered by two threads. */
static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;

/* One field, in one of three ways. */
typedef struct array {
    hid_t id;        /* open only when the library reads it */
    uint64_t offset; /* contiguous: of row 0 */
    uint64_t *chunk; /* chunked: where each chunk begins */
    uint64_t per;    /* rows of a chunk */
    hid_t type;      /* of the file and of memory alike */
} array_t;

typedef struct hdf5 {
    ax_file_t file;
    hid_t id; /* H5I_INVALID_HID once everything is known */
    array_t *array;
    size_t narrays;
} hdf5_t;

/* ---- the library ---------------------------------------------------------
 */

/* The library as a place to be in, where it prints nothing. */
typedef struct visit {
    H5E_auto2_t print;
    void *data;
} visit_t;

static void enter(visit_t *v)
{
    pthread_mutex_lock(&library);
    H5open();
    H5Eget_auto2(H5E_DEFAULT, &v->print, &v->data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static void leave(const visit_t *v)
{
    H5Eclear2(H5E_DEFAULT);
    H5Eset_auto2(H5E_DEFAULT, v->print, v->data);
    pthread_mutex_unlock(&library);
}

/* Keeps the innermost description, which is the cause. */
static herr_t keep_first(unsigned n, const H5E_error2_t *error, void *context)
{
    if (n == 0 && error->desc)
        snprintf(context, 256, "%s", error->desc);
    return 0;
}

static accel_status_t failed(accel_status_t status, const char *path,
                             const char *doing)
{
    char text[256] = "HDF5 does not say why";

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, text);
    return ax_fail(status, "dataset: %s: %s: %s", path, doing, text);
}

static accel_status_t open_file(hdf5_t *h)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    accel_status_t st = ACCEL_OK;

    if (fapl < 0)
        st = failed(ACCEL_ERR_IO, h->file.path, "cannot set up HDF5");
    /* Filters that are not built in would be loaded as code. */
    H5PLset_loading_state(0);
#if H5_VERSION_GE(1, 10, 7)
    /* Locks fail on many file servers, and nobody writes to data; but a file
     * that the program has open itself must be locked as it is there. */
    if (st == ACCEL_OK && H5Pset_file_locking(fapl, false, true) >= 0)
        h->id = H5Fopen(h->file.path, H5F_ACC_RDONLY, fapl);
    if (st == ACCEL_OK && h->id < 0)
        H5Pset_file_locking(fapl, true, true);
#endif
    if (st == ACCEL_OK && h->id < 0)
        h->id = H5Fopen(h->file.path, H5F_ACC_RDONLY, fapl);
    if (st == ACCEL_OK && h->id < 0)
        st = failed(ACCEL_ERR_CORRUPT, h->file.path, "not an HDF5 file");
    if (fapl >= 0)
        H5Pclose(fapl);
    return st;
}

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

static accel_status_t find_type(hid_t type, const char *where,
                                accel_dtype_t *out)
{
    H5T_order_t here = AX_LITTLE ? H5T_ORDER_LE : H5T_ORDER_BE;
    H5T_class_t kind = H5Tget_class(type);

    if (H5Tcommitted(type) != 0)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: its type is a named one of the file",
                       where);
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

/* ---- layout -------------------------------------------------------------- */

static accel_status_t check_filters(hid_t dcpl, const char *where, int *n)
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
    }
    return *n < 0 ? ax_fail(ACCEL_ERR_CORRUPT, "dataset: %s: no filters", where)
                  : ACCEL_OK;
}

static accel_status_t short_file(const hdf5_t *h, const char *where,
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

static accel_status_t contiguous(hdf5_t *h, hid_t id, const ax_column_t *c,
                                 const char *where, array_t *array)
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

typedef struct chunking {
    hid_t id;
    int rank;
    hsize_t dims[AX_DIMS + 1], chunk[AX_DIMS + 1];
    bool plain; /* whole samples, as they are: read by ourselves */
} chunking_t;

/* Every chunk must be there, and in the file. */
static accel_status_t find_chunks(hdf5_t *h, const chunking_t *k,
                                  const ax_column_t *c, const char *where,
                                  array_t *array)
{
    uint64_t n = (c->rows + k->chunk[0] - 1) / k->chunk[0];
    hsize_t at[AX_DIMS + 1] = {0};
    accel_status_t st = ACCEL_OK;

    array->per = k->chunk[0];
    array->chunk = calloc((size_t)n + 1, sizeof *array->chunk);
    if (!array->chunk)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (uint64_t i = 0; i < n && st == ACCEL_OK; i++) {
        unsigned mask = 0;
        haddr_t place = HADDR_UNDEF;
        hsize_t bytes = 0;

        at[0] = i * k->chunk[0];
        if (H5Dget_chunk_info_by_coord(k->id, at, &mask, &place, &bytes) < 0)
            st = failed(ACCEL_ERR_CORRUPT, where, "cannot find a chunk");
        else if (place == HADDR_UNDEF)
            st = never_written(where);
        else if (bytes != k->chunk[0] * c->bytes)
            st = ax_fail(ACCEL_ERR_CORRUPT,
                         "dataset: %s: a chunk has %llu bytes instead of %llu",
                         where, (unsigned long long)bytes,
                         (unsigned long long)(k->chunk[0] * c->bytes));
        else
            st = short_file(h, where, place, bytes);
        array->chunk[i] = place;
    }
    return st;
}

static accel_status_t count_chunks(const chunking_t *k, const char *where)
{
    hsize_t want = 1, have = 0;

    for (int d = 0; d < k->rank; d++)
        want *= (k->dims[d] + k->chunk[d] - 1) / k->chunk[d];
    hid_t space = H5Dget_space(k->id);
    herr_t wrong = H5Dget_num_chunks(k->id, space, &have);
    H5Sclose(space);
    if (wrong < 0)
        return failed(ACCEL_ERR_CORRUPT, where, "cannot count the chunks");
    return have < want ? never_written(where) : ACCEL_OK;
}

static accel_status_t chunked(hdf5_t *h, hid_t dcpl, chunking_t *k,
                              const ax_column_t *c, const char *where,
                              array_t *array)
{
    hid_t fcpl = H5Fget_create_plist(h->id);
    hsize_t user = 1;
    int filters = 0;
    accel_status_t st = check_filters(dcpl, where, &filters);

    /* The library's versions differ in whether a user block counts. */
    H5Pget_userblock(fcpl, &user);
    H5Pclose(fcpl);
    if (st != ACCEL_OK)
        return st;
    if (H5Pget_chunk(dcpl, k->rank, k->chunk) != k->rank)
        return failed(ACCEL_ERR_CORRUPT, where, "has no chunks");
    k->plain = filters == 0 && user == 0;
    for (int d = 1; d < k->rank; d++)
        k->plain = k->plain && k->chunk[d] == k->dims[d];
    if (c->rows == 0)
        return ACCEL_OK;
    return k->plain ? find_chunks(h, k, c, where, array)
                    : count_chunks(k, where);
}

/* Declared sizes that little is stored for would fill memory from nothing. */
static accel_status_t check_bomb(const hdf5_t *h, hid_t id,
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

static accel_status_t check_layout(hdf5_t *h, hid_t id, chunking_t *k,
                                   const ax_column_t *c, const char *where,
                                   array_t *array)
{
    hid_t dcpl = H5Dget_create_plist(id);
    accel_status_t st;

    if (dcpl < 0)
        return failed(ACCEL_ERR_CORRUPT, where, "cannot be examined");
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

/* ---- fields -------------------------------------------------------------- */

/* Each part of the path must be a hard link: soft and external ones lead
 * elsewhere, perhaps out of the file. */
static accel_status_t check_links(const hdf5_t *h, const char *name)
{
    char part[AX_NAME];
    H5L_info_t info;

    if (strlen(name) >= sizeof part)
        return ax_fail(ACCEL_ERR_ARG,
                       "dataset: %s: a field with a name longer "
                       "than %d bytes",
                       h->file.path, AX_NAME - 1);
    for (size_t n = 1; n <= strlen(name); n++) {
        if (name[n] != '/' && name[n] != '\0')
            continue;
        memcpy(part, name, n);
        part[n] = '\0';
        if (H5Lexists(h->id, part, H5P_DEFAULT) <= 0)
            return ax_fail(ACCEL_ERR_NOTFOUND, "dataset: %s: no field %s in it",
                           h->file.path, name);
        if (H5Lget_info(h->id, part, &info, H5P_DEFAULT) < 0 ||
            info.type != H5L_TYPE_HARD)
            return ax_fail(ACCEL_ERR_UNSUPPORTED,
                           "dataset: %s: %s is a link to elsewhere, which is "
                           "never followed",
                           h->file.path, part);
    }
    return ACCEL_OK;
}

/* A cache that holds the chunks a few readers are at. */
static hid_t open_array(hid_t file, const char *name, size_t chunk_bytes)
{
    hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS);
    size_t cache = chunk_bytes < CACHE_MAX / 8 ? 8 * chunk_bytes : CACHE_MAX;

    if (dapl >= 0 && chunk_bytes)
        H5Pset_chunk_cache(dapl, 1009, cache < 1 << 20 ? 1 << 20 : cache, 0.75);
    hid_t id = H5Dopen2(file, name, dapl < 0 ? H5P_DEFAULT : dapl);
    if (dapl >= 0)
        H5Pclose(dapl);
    return id;
}

static accel_status_t measure(hid_t id, const char *where, chunking_t *k,
                              ax_column_t *c)
{
    hid_t space = H5Dget_space(id), type = H5Dget_type(id);
    uint64_t extents[H5S_MAX_RANK];
    hsize_t dims[H5S_MAX_RANK];
    accel_status_t st;

    k->rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (type < 0 || k->rank < 0 ||
        H5Sget_simple_extent_dims(space, dims, NULL) < 0)
        st = failed(ACCEL_ERR_CORRUPT, where, "cannot be examined");
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

/* Examines the dataset c->name; leaves it open only if it must be. */
static accel_status_t add_array(hdf5_t *h, ax_column_t *c, array_t *array)
{
    char where[4096 + AX_NAME];
    chunking_t k = {.rank = 0};
    H5O_info_t about;
    accel_status_t st = check_links(h, c->name);

    if (st != ACCEL_OK)
        return st;
    snprintf(where, sizeof where, "%s: %s", h->file.path, c->name);
    if (H5Oget_info_by_name(h->id, c->name, &about, H5P_DEFAULT) < 0)
        return failed(ACCEL_ERR_CORRUPT, where, "cannot be examined");
    if (about.type != H5O_TYPE_DATASET)
        return ax_fail(ACCEL_ERR_UNSUPPORTED, "dataset: %s: not a dataset",
                       where);
    k.id = H5Dopen2(h->id, c->name, H5P_DEFAULT);
    if (k.id < 0)
        return failed(ACCEL_ERR_CORRUPT, where, "cannot be opened");
    st = measure(k.id, where, &k, c);
    if (st == ACCEL_OK)
        st = check_layout(h, k.id, &k, c, where, array);
    H5Dclose(k.id);
    if (st != ACCEL_OK || k.plain || c->rows == 0)
        return st;
    size_t bytes = accel_dtype_size(c->dtype);
    for (int d = 0; d < k.rank; d++)
        if (!ax_mul(bytes, (size_t)k.chunk[d], &bytes))
            bytes = CACHE_MAX;
    array->id = open_array(h->id, c->name, bytes);
    array->type = array->id < 0 ? H5I_INVALID_HID : H5Dget_type(array->id);
    return array->type < 0 ? failed(ACCEL_ERR_IO, where, "cannot be opened")
                           : ACCEL_OK;
}

/* Datasets of the root group, by name. */
typedef struct found {
    const hdf5_t *h;
    ax_column_t *columns;
    size_t count;
    accel_status_t status;
} found_t;

static herr_t find_one(hid_t group, const char *name, const H5L_info_t *info,
                       void *context)
{
    found_t *f = context;
    H5O_info_t about;

    if (info->type != H5L_TYPE_HARD) {
        f->status = ax_fail(ACCEL_ERR_UNSUPPORTED,
                            "dataset: %s: %s is a link to elsewhere, which is "
                            "never followed; say which fields are wanted",
                            f->h->file.path, name);
        return -1;
    }
    if (H5Oget_info_by_name(group, name, &about, H5P_DEFAULT) < 0)
        return -1;
    if (about.type != H5O_TYPE_DATASET)
        return 0;
    if (f->count == OBJECTS_MAX || strlen(name) >= AX_NAME)
        return -1;
    ax_column_t *more = realloc(f->columns, (f->count + 1) * sizeof *more);
    if (!more)
        return -1;
    f->columns = more;
    f->columns[f->count] = (ax_column_t){0};
    strcpy(f->columns[f->count++].name, name);
    return 0;
}

static accel_status_t find_all(const hdf5_t *h, found_t *f)
{
    *f = (found_t){.h = h};
    if (H5Literate(h->id, H5_INDEX_NAME, H5_ITER_INC, NULL, find_one, f) < 0)
        return f->status != ACCEL_OK
                   ? f->status
                   : failed(ACCEL_ERR_CORRUPT, h->file.path,
                            "cannot be listed, or has too many objects");
    return ACCEL_OK;
}

static accel_status_t name_columns(const hdf5_t *h,
                                   const accel_dataset_options_t *options,
                                   found_t *f)
{
    if (!options->nfields)
        return find_all(h, f);
    *f = (found_t){.columns = calloc(options->nfields, sizeof *f->columns)};
    if (!f->columns)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t i = 0; i < options->nfields; i++) {
        if (strlen(options->fields[i].name) >= AX_NAME)
            return ax_fail(ACCEL_ERR_NOTFOUND,
                           "dataset: %s: no field has a name of %zu bytes",
                           h->file.path, strlen(options->fields[i].name));
        strcpy(f->columns[i].name, options->fields[i].name);
        f->count = i + 1;
    }
    return ACCEL_OK;
}

/* ---- reading ------------------------------------------------------------- */

static accel_status_t read_chunks(const hdf5_t *h, const array_t *a,
                                  size_t bytes, const uint64_t *index,
                                  size_t count, char *to)
{
    accel_status_t st = ACCEL_OK;

    for (size_t i = 0, n; i < count && st == ACCEL_OK; i += n) {
        uint64_t c = index[i] / a->per, row = index[i] % a->per;
        for (n = 1;
             i + n < count && index[i + n] == index[i] + n && row + n < a->per;
             n++)
            ;
        st = ax_file_read(&h->file, to + i * bytes, n * bytes,
                          a->chunk[c] + row * bytes);
    }
    return st;
}

/* `n` rows from `first` on; the library is entered. */
static bool read_block(const array_t *a, uint64_t first, size_t n, void *to)
{
    hid_t space = H5Dget_space(a->id), memory = H5I_INVALID_HID;
    hsize_t start[H5S_MAX_RANK] = {first}, size[H5S_MAX_RANK] = {0};
    bool ok = space >= 0 && H5Sget_simple_extent_dims(space, size, NULL) > 0;
    int rank = ok ? H5Sget_simple_extent_ndims(space) : 0;

    size[0] = n;
    if (ok)
        memory = H5Screate_simple(rank, size, NULL);
    ok = ok && memory >= 0 &&
         H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, size, NULL) >=
             0 &&
         H5Dread(a->id, a->type, memory, space, H5P_DEFAULT, to) >= 0;
    if (memory >= 0)
        H5Sclose(memory);
    if (space >= 0)
        H5Sclose(space);
    return ok;
}

/* The library takes what is behind a file's end for zeros: the size is looked
 * at after each read. */
static accel_status_t read_filtered(const hdf5_t *h, const array_t *a,
                                    size_t bytes, const uint64_t *index,
                                    size_t count, char *to)
{
    accel_status_t st = ACCEL_OK;
    unsigned char byte;
    visit_t visit;

    enter(&visit);
    for (size_t i = 0, n; i < count && st == ACCEL_OK; i += n) {
        for (n = 1; i + n < count && index[i + n] == index[i] + n; n++)
            ;
        if (!read_block(a, index[i], n, to + i * bytes))
            st = failed(ACCEL_ERR_IO, h->file.path,
                        "a chunk is damaged or cannot be read");
    }
    leave(&visit);
    accel_status_t changed = ax_file_read(&h->file, &byte, 1, 0);
    return changed != ACCEL_OK ? changed : st;
}

static accel_status_t hdf5_read(const accel_dataset_t *dataset,
                                const uint64_t *index, size_t count,
                                void *const *fields)
{
    const hdf5_t *h = dataset->self;
    accel_status_t st = ACCEL_OK;

    for (size_t f = 0; f < h->narrays && st == ACCEL_OK; f++) {
        const array_t *a = &h->array[f];
        size_t bytes = dataset->bytes[f];

        if (a->id >= 0)
            st = read_filtered(h, a, bytes, index, count, fields[f]);
        else if (a->chunk)
            st = read_chunks(h, a, bytes, index, count, fields[f]);
        else
            st = ax_rows_read(&(ax_rows_t){.file = &h->file,
                                           .offset = a->offset,
                                           .step = bytes,
                                           .bytes = bytes},
                              index, count, fields[f]);
    }
    return st;
}

/* ---- opening and closing ------------------------------------------------- */

static void close_library(hdf5_t *h)
{
    visit_t visit;

    enter(&visit);
    for (size_t f = 0; h->array && f < h->narrays; f++) {
        if (h->array[f].type >= 0)
            H5Tclose(h->array[f].type);
        if (h->array[f].id >= 0)
            H5Dclose(h->array[f].id);
    }
    if (h->id >= 0)
        H5Fclose(h->id);
    h->id = H5I_INVALID_HID;
    leave(&visit);
}

static void hdf5_destroy(void *self)
{
    hdf5_t *h = self;

    if (h->id >= 0)
        close_library(h);
    for (size_t f = 0; h->array && f < h->narrays; f++)
        free(h->array[f].chunk);
    free(h->array);
    ax_file_close(&h->file);
    free(h);
}

static accel_status_t add_arrays(hdf5_t *h, const found_t *f, bool *needed)
{
    accel_status_t st = ACCEL_OK;

    *needed = false;
    h->array = calloc(f->count + 1, sizeof *h->array);
    if (!h->array)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t i = 0; i < f->count && st == ACCEL_OK; i++) {
        h->array[i] = (array_t){.id = H5I_INVALID_HID, .type = H5I_INVALID_HID};
        h->narrays = i + 1;
        st = add_array(h, &f->columns[i], &h->array[i]);
        *needed |= h->array[i].id >= 0;
    }
    return st;
}

/* Everything that is asked of the library. */
static accel_status_t examine(hdf5_t *h, const accel_dataset_options_t *options,
                              found_t *f)
{
    visit_t visit;
    bool needed = true;

    enter(&visit);
    accel_status_t st = open_file(h);
    if (st == ACCEL_OK)
        st = name_columns(h, options, f);
    if (st == ACCEL_OK)
        st = add_arrays(h, f, &needed);
    leave(&visit);
    if (!needed)
        close_library(h);
    return st;
}

accel_status_t ax_hdf5_open(const char *path, bool keep,
                            const accel_dataset_options_t *options,
                            accel_dataset_t **out)
{
    found_t f = {0};
    hdf5_t *h = calloc(1, sizeof *h);
    accel_status_t st = ACCEL_OK;

    *out = NULL;
    if (!h)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    h->id = H5I_INVALID_HID;
    if ((st = ax_file_open(&h->file, path, keep)) == ACCEL_OK &&
        (st = examine(h, options, &f)) == ACCEL_OK &&
        (st = ax_columns_choose(options, f.columns, &f.count, path)) ==
            ACCEL_OK)
        st = ax_columns_dataset(f.columns, f.count, out);
    free(f.columns);
    if (st != ACCEL_OK) {
        hdf5_destroy(h);
        return st;
    }
    (*out)->format = "hdf5";
    (*out)->identity = ax_file_hash(&h->file, ax_hash("hdf5", 4, 1));
    (*out)->read = hdf5_read;
    (*out)->destroy = hdf5_destroy;
    (*out)->self = h;
    return ACCEL_OK;
}
