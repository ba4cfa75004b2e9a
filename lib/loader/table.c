/* Arrays in files: each a column whose first extent counts the samples. */
#include "dataset_priv.h"

#include <stdlib.h>
#include <string.h>

accel_status_t ax_column_shape(ax_column_t *column, const uint64_t *extents,
                               size_t ndim, const char *where)
{
    size_t count = 1, bytes = 0;

    if (ndim == 0)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: a single value; the first extent of an "
                       "array counts the samples",
                       where);
    if (ndim > AX_DIMS + 1)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: %zu extents; at most %d are read", where,
                       ndim, AX_DIMS + 1);
    column->rows = extents[0];
    column->shape = (ax_shape_t){.ndim = ndim - 1};
    for (size_t d = 1; d < ndim; d++) {
        if (extents[d] == 0)
            return ax_fail(ACCEL_ERR_UNSUPPORTED,
                           "dataset: %s: extent %zu is 0: its samples are "
                           "empty",
                           where, d);
        column->shape.dim[d - 1] = (size_t)extents[d];
        if (!ax_mul(count, (size_t)extents[d], &count))
            count = SIZE_MAX / 16;
    }
    if (!ax_mul(count, accel_dtype_size(column->dtype), &bytes) ||
        bytes > AX_SAMPLE_MAX)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: one sample would have %zu elements of "
                       "%zu bytes; at most %zu bytes are believed",
                       where, count, accel_dtype_size(column->dtype),
                       AX_SAMPLE_MAX);
    column->count = count;
    column->bytes = bytes;
    return ACCEL_OK;
}

static accel_status_t check_wanted(const accel_field_t *wanted,
                                   const ax_column_t *c, const char *path)
{
    if (wanted->dtype && wanted->dtype != c->dtype)
        return ax_fail(ACCEL_ERR_ARG,
                       "dataset: %s: %s is of type %s, %s is wanted", path,
                       c->name, accel_dtype_name(c->dtype),
                       accel_dtype_name(wanted->dtype));
    if (wanted->count && wanted->count != c->count)
        return ax_fail(ACCEL_ERR_ARG,
                       "dataset: %s: a sample of %s has %zu elements, %zu are "
                       "wanted",
                       path, c->name, c->count, wanted->count);
    return ACCEL_OK;
}

/* Moves the column of this name to place `at`. */
static accel_status_t bring(const accel_field_t *wanted, ax_column_t *columns,
                            size_t n, size_t at, const char *path)
{
    for (size_t i = at; i < n; i++) {
        if (strcmp(columns[i].name, wanted->name) != 0)
            continue;
        ax_column_t found = columns[i];
        columns[i] = columns[at];
        columns[at] = found;
        return check_wanted(wanted, &found, path);
    }
    return ax_fail(ACCEL_ERR_NOTFOUND, "dataset: %s: no field %s in it", path,
                   wanted->name);
}

accel_status_t ax_columns_choose(const accel_dataset_options_t *options,
                                 ax_column_t *columns, size_t *n,
                                 const char *path)
{
    accel_status_t st = ACCEL_OK;

    for (size_t f = 0; f < options->nfields && st == ACCEL_OK; f++)
        st = bring(&options->fields[f], columns, *n, f, path);
    if (st != ACCEL_OK)
        return st;
    if (options->nfields)
        *n = options->nfields;
    if (*n == 0)
        return ax_fail(ACCEL_ERR_NOTFOUND, "dataset: %s: no array in it", path);
    for (size_t i = 1; i < *n; i++)
        if (columns[i].rows != columns[0].rows)
            return ax_fail(ACCEL_ERR_ARG,
                           "dataset: %s: %s has %llu samples, %s has %llu; say "
                           "which fields are wanted",
                           path, columns[0].name,
                           (unsigned long long)columns[0].rows, columns[i].name,
                           (unsigned long long)columns[i].rows);
    return ACCEL_OK;
}

accel_status_t ax_columns_dataset(const ax_column_t *columns, size_t n,
                                  accel_dataset_t **out)
{
    accel_field_t *fields = calloc(n, sizeof *fields);
    ax_shape_t *shapes = calloc(n, sizeof *shapes);
    accel_status_t st = ACCEL_OK;

    *out = NULL;
    if (!fields || !shapes)
        st = ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t i = 0; i < n && st == ACCEL_OK; i++) {
        fields[i] = (accel_field_t){columns[i].name, columns[i].dtype,
                                    columns[i].count};
        shapes[i] = columns[i].shape;
    }
    if (st == ACCEL_OK)
        st = ax_dataset_new(fields, shapes, n, columns[0].rows, out);
    free(fields);
    free(shapes);
    return st;
}

typedef struct table {
    ax_file_t file;
    uint64_t offset[]; /* of each field */
} table_t;

static void table_destroy(void *self)
{
    table_t *t = self;

    ax_file_close(&t->file);
    free(t);
}

static accel_status_t table_read(const accel_dataset_t *dataset,
                                 const uint64_t *index, size_t count,
                                 void *const *fields)
{
    const table_t *t = dataset->self;
    accel_status_t st = ACCEL_OK;

    for (size_t f = 0; f < dataset->nfields && st == ACCEL_OK; f++) {
        const ax_rows_t rows = {.file = &t->file,
                                .offset = t->offset[f],
                                .step = dataset->bytes[f],
                                .bytes = dataset->bytes[f]};
        st = ax_rows_read(&rows, index, count, fields[f]);
    }
    return st;
}

accel_status_t ax_table_new(ax_file_t *file, const ax_column_t *columns,
                            size_t n, const char *format, accel_dataset_t **out)
{
    table_t *t = calloc(1, sizeof *t + n * sizeof t->offset[0]);
    accel_status_t st = t ? ax_columns_dataset(columns, n, out)
                          : ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");

    if (st != ACCEL_OK) {
        free(t);
        ax_file_close(file);
        return st;
    }
    t->file = *file;
    for (size_t i = 0; i < n; i++)
        t->offset[i] = columns[i].offset;
    (*out)->format = format;
    (*out)->identity =
        ax_file_hash(&t->file, ax_hash(format, strlen(format), 1));
    (*out)->file = &t->file;
    (*out)->nfiles = 1;
    (*out)->read = table_read;
    (*out)->destroy = table_destroy;
    (*out)->self = t;
    return ACCEL_OK;
}
