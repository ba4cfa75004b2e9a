/*
 * HDF5: datasets of a file as fields. Where their elements lie is asked once;
 * then they are read by ourselves, as many threads at once as like. Filtered
 * chunks, and chunks that cut samples, go through the HDF5 library, one thread
 * at a time.
 *
 * The library follows links, sources and plugins to wherever a file tells it.
 * Nothing of that is let happen: every link on the way must be a hard one, the
 * layout contiguous or chunked, every filter one of three. Functions are those
 * of release 1.10, by number or because the build asks for them.
 */
#include "hdf5_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS_MAX 4096
#define CACHE_MAX ((size_t)256 << 20)

/* ---- the library ---------------------------------------------------------
 */

/* Keeps the innermost description, which is the cause. */
static herr_t keep_first(unsigned n, const H5E_error2_t *error, void *context)
{
    if (n == 0 && error->desc)
        snprintf(context, 256, "%s", error->desc);
    return 0;
}

accel_status_t ax_hdf5_failed(accel_status_t status, const char *path,
                              const char *doing)
{
    char text[256] = "HDF5 does not say why";

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, text);
    return ax_fail(status, "dataset: %s: %s: %s", path, doing, text);
}

static accel_status_t open_file(ax_hdf5_t *h)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    accel_status_t st = ACCEL_OK;

    if (fapl < 0)
        st = ax_hdf5_failed(ACCEL_ERR_IO, h->file.path, "cannot set up HDF5");
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
        st =
            ax_hdf5_failed(ACCEL_ERR_CORRUPT, h->file.path, "not an HDF5 file");
    if (fapl >= 0)
        H5Pclose(fapl);
    return st;
}

/* ---- fields -------------------------------------------------------------- */

/* Each part of the path must be a hard link: soft and external ones lead
 * elsewhere, perhaps out of the file. */
static accel_status_t check_links(const ax_hdf5_t *h, const char *name)
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
        if (H5Lget_info(h->id, part, &info, H5P_DEFAULT) < 0)
            return ax_hdf5_failed(ACCEL_ERR_CORRUPT, h->file.path,
                                  "a link cannot be examined");
        if (info.type != H5L_TYPE_HARD)
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

/* Examines the dataset c->name; leaves it open only if it must be. */
static accel_status_t add_array(ax_hdf5_t *h, ax_column_t *c, ax_array_t *array)
{
    char where[4096 + AX_NAME];
    ax_chunking_t k = {.rank = 0};
    H5O_info_t about;
    accel_status_t st = check_links(h, c->name);

    if (st != ACCEL_OK)
        return st;
    snprintf(where, sizeof where, "%s: %s", h->file.path, c->name);
    if (H5Oget_info_by_name(h->id, c->name, &about, H5P_DEFAULT) < 0)
        return ax_hdf5_failed(ACCEL_ERR_CORRUPT, where, "cannot be examined");
    if (about.type != H5O_TYPE_DATASET)
        return ax_fail(ACCEL_ERR_UNSUPPORTED, "dataset: %s: not a dataset",
                       where);
    k.id = H5Dopen2(h->id, c->name, H5P_DEFAULT);
    if (k.id < 0)
        return ax_hdf5_failed(ACCEL_ERR_CORRUPT, where, "cannot be opened");
    st = ax_hdf5_examine(h, where, &k, c, array);
    H5Dclose(k.id);
    if (st != ACCEL_OK || k.plain || c->rows == 0)
        return st;
    size_t bytes = accel_dtype_size(c->dtype);
    for (int d = 0; d < k.rank; d++)
        if (!ax_mul(bytes, (size_t)k.chunk[d], &bytes))
            bytes = CACHE_MAX;
    array->id = open_array(h->id, c->name, bytes);
    array->type = array->id < 0 ? H5I_INVALID_HID : H5Dget_type(array->id);
    return array->type < 0
               ? ax_hdf5_failed(ACCEL_ERR_IO, where, "cannot be opened")
               : ACCEL_OK;
}

/* Datasets of the root group, by name. */
typedef struct found {
    const ax_hdf5_t *h;
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
        return -1; /* the library says why */
    if (about.type != H5O_TYPE_DATASET)
        return 0;
    if (f->count == OBJECTS_MAX || strlen(name) >= AX_NAME) {
        f->status = ax_fail(ACCEL_ERR_UNSUPPORTED,
                            "dataset: %s: has more than %d datasets, or one "
                            "with a name longer than %d bytes; say which "
                            "fields are wanted",
                            f->h->file.path, OBJECTS_MAX, AX_NAME - 1);
        return -1;
    }
    ax_column_t *more = realloc(f->columns, (f->count + 1) * sizeof *more);
    if (!more) {
        f->status = ax_fail(ACCEL_ERR_NOMEM, "dataset: %s: out of memory",
                            f->h->file.path);
        return -1;
    }
    f->columns = more;
    f->columns[f->count] = (ax_column_t){0};
    strcpy(f->columns[f->count++].name, name);
    return 0;
}

static accel_status_t find_all(const ax_hdf5_t *h, found_t *f)
{
    *f = (found_t){.h = h};
    if (H5Literate(h->id, H5_INDEX_NAME, H5_ITER_INC, NULL, find_one, f) < 0)
        return f->status != ACCEL_OK
                   ? f->status
                   : ax_hdf5_failed(ACCEL_ERR_CORRUPT, h->file.path,
                                    "cannot be listed");
    return ACCEL_OK;
}

static accel_status_t name_columns(const ax_hdf5_t *h,
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

static accel_status_t read_chunks(const ax_hdf5_t *h, const ax_array_t *a,
                                  size_t bytes, const uint64_t *index,
                                  size_t count, char *to)
{
    const ax_file_t *file = &h->file;
    accel_status_t st = ACCEL_OK;

    for (size_t i = 0, n; i < count && st == ACCEL_OK; i += n) {
        uint64_t c = index[i] / a->per, row = index[i] % a->per;
        for (n = 1;
             i + n < count && index[i + n] == index[i] + n && row + n < a->per;
             n++)
            ;
        uint64_t at = a->chunk[c] + row * bytes;
        st = ax_cache_read(file, to + i * bytes, n * bytes, at);
    }
    /* Asked once for all that came from memory. */
    return st == ACCEL_OK && file->cache ? ax_file_same(file, file->fd) : st;
}

/* `n` rows from `first` on; the library is entered. */
static bool read_block(const ax_array_t *a, uint64_t first, size_t n, void *to)
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
static accel_status_t read_filtered(const ax_hdf5_t *h, const ax_array_t *a,
                                    size_t bytes, const uint64_t *index,
                                    size_t count, char *to)
{
    accel_status_t st = ACCEL_OK;
    unsigned char byte;
    ax_hdf5_visit_t visit;

    ax_hdf5_enter(&visit);
    for (size_t i = 0, n; i < count && st == ACCEL_OK; i += n) {
        for (n = 1; i + n < count && index[i + n] == index[i] + n; n++)
            ;
        if (!read_block(a, index[i], n, to + i * bytes))
            st = ax_hdf5_failed(ACCEL_ERR_IO, h->file.path,
                                "a chunk is damaged or cannot be read");
    }
    ax_hdf5_leave(&visit);
    accel_status_t changed = ax_file_read(&h->file, &byte, 1, 0);
    return changed != ACCEL_OK ? changed : st;
}

static accel_status_t hdf5_read(const accel_dataset_t *dataset,
                                const uint64_t *index, size_t count,
                                void *const *fields)
{
    const ax_hdf5_t *h = dataset->self;
    accel_status_t st = ACCEL_OK;

    for (size_t f = 0; f < h->narrays && st == ACCEL_OK; f++) {
        const ax_array_t *a = &h->array[f];
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

static void close_library(ax_hdf5_t *h)
{
    ax_hdf5_visit_t visit;

    ax_hdf5_enter(&visit);
    for (size_t f = 0; h->array && f < h->narrays; f++) {
        if (h->array[f].type >= 0)
            H5Tclose(h->array[f].type);
        if (h->array[f].id >= 0)
            H5Dclose(h->array[f].id);
    }
    if (h->id >= 0)
        H5Fclose(h->id);
    h->id = H5I_INVALID_HID;
    ax_hdf5_leave(&visit);
}

static void hdf5_destroy(void *self)
{
    ax_hdf5_t *h = self;

    if (h->id >= 0)
        close_library(h);
    for (size_t f = 0; h->array && f < h->narrays; f++)
        free(h->array[f].chunk);
    free(h->array);
    ax_file_close(&h->file);
    free(h);
}

static accel_status_t add_arrays(ax_hdf5_t *h, const found_t *f, bool *needed)
{
    accel_status_t st = ACCEL_OK;

    *needed = false;
    h->array = calloc(f->count + 1, sizeof *h->array);
    if (!h->array)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t i = 0; i < f->count && st == ACCEL_OK; i++) {
        h->array[i] =
            (ax_array_t){.id = H5I_INVALID_HID, .type = H5I_INVALID_HID};
        h->narrays = i + 1;
        st = add_array(h, &f->columns[i], &h->array[i]);
        *needed |= h->array[i].id >= 0;
    }
    return st;
}

/* Everything that is asked of the library. */
static accel_status_t
examine(ax_hdf5_t *h, const accel_dataset_options_t *options, found_t *f)
{
    ax_hdf5_visit_t visit;
    bool needed = true;

    ax_hdf5_enter(&visit);
    accel_status_t st = open_file(h);
    if (st == ACCEL_OK)
        st = name_columns(h, options, f);
    if (st == ACCEL_OK)
        st = add_arrays(h, f, &needed);
    ax_hdf5_leave(&visit);
    if (!needed)
        close_library(h);
    return st;
}

accel_status_t ax_hdf5_open(const char *path, bool keep,
                            const accel_dataset_options_t *options,
                            accel_dataset_t **out)
{
    found_t f = {0};
    ax_hdf5_t *h = calloc(1, sizeof *h);
    accel_status_t st = ACCEL_OK;

    *out = NULL;
    if (!h)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    h->id = H5I_INVALID_HID;
    if ((st = ax_file_open(&h->file, path, keep)) == ACCEL_OK &&
        (st = examine(h, options, &f)) == ACCEL_OK &&
        (st = ax_columns_choose(options, f.columns, &f.count, path)) ==
            ACCEL_OK &&
        (st = ax_cache_open(&h->file, options->cache_bytes)) == ACCEL_OK)
        st = ax_columns_dataset(f.columns, f.count, out);
    free(f.columns);
    if (st != ACCEL_OK) {
        hdf5_destroy(h);
        return st;
    }
    (*out)->format = "hdf5";
    (*out)->identity = ax_file_hash(&h->file, ax_hash("hdf5", 4, 1));
    (*out)->file = &h->file;
    (*out)->nfiles = 1;
    (*out)->read = hdf5_read;
    (*out)->destroy = hdf5_destroy;
    (*out)->self = h;
    return ACCEL_OK;
}
