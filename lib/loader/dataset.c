/* Datasets: named fields, a number of samples, a way to read them. */
#include "dataset_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what every kind is -------------------------------------------------- */

static accel_status_t check_name(const accel_field_t *fields, size_t f)
{
    const char *name = fields[f].name;

    if (!name || !*name)
        return ax_fail(ACCEL_ERR_ARG, "dataset: field %zu has no name", f);
    for (size_t i = 0; i < f; i++)
        if (strcmp(fields[i].name, name) == 0)
            return ax_fail(ACCEL_ERR_ARG, "dataset: two fields are called %s",
                           name);
    return ACCEL_OK;
}

static accel_status_t check_size(const accel_field_t *field, uint64_t samples,
                                 size_t *bytes)
{
    size_t element = accel_dtype_size(field->dtype);
    size_t all;

    if (element == 0)
        return ax_fail(ACCEL_ERR_ARG, "dataset: field %s has no such type: %d",
                       field->name, (int)field->dtype);
    if (field->count == 0)
        return ax_fail(ACCEL_ERR_ARG, "dataset: field %s has no elements",
                       field->name);
    if (!ax_mul(element, field->count, bytes) || samples > SIZE_MAX ||
        !ax_mul(*bytes, (size_t)samples, &all))
        return ax_fail(ACCEL_ERR_ARG,
                       "dataset: %llu samples of %zu elements of field %s are "
                       "more than memory can address",
                       (unsigned long long)samples, field->count, field->name);
    return ACCEL_OK;
}

static accel_status_t copy_fields(accel_dataset_t *d,
                                  const accel_field_t *fields,
                                  const ax_shape_t *shapes)
{
    accel_status_t st;

    for (size_t f = 0; f < d->nfields; f++) {
        if ((st = check_name(fields, f)) != ACCEL_OK)
            return st;
        if ((st = check_size(&fields[f], d->samples, &d->bytes[f])) != ACCEL_OK)
            return st;
        d->shapes[f] = shapes ? shapes[f]
                              : (ax_shape_t){.ndim = fields[f].count > 1,
                                             .dim = {fields[f].count}};
        d->fields[f] = fields[f];
        d->fields[f].name = strdup(fields[f].name);
        if (!d->fields[f].name)
            return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    }
    return ACCEL_OK;
}

accel_status_t ax_dataset_new(const accel_field_t *fields,
                              const ax_shape_t *shapes, size_t nfields,
                              uint64_t samples, accel_dataset_t **out)
{
    accel_status_t st = ACCEL_OK;

    *out = NULL;
    if (!fields || nfields == 0)
        return ax_fail(ACCEL_ERR_ARG, "dataset: no field");

    accel_dataset_t *d = calloc(1, sizeof *d);
    if (d) {
        d->fields = calloc(nfields, sizeof *d->fields);
        d->bytes = calloc(nfields, sizeof *d->bytes);
        d->shapes = calloc(nfields, sizeof *d->shapes);
        d->nfields = nfields;
        d->samples = samples;
    }
    if (!d || !d->fields || !d->bytes || !d->shapes)
        st = ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    else
        st = copy_fields(d, fields, shapes);
    if (st != ACCEL_OK) {
        accel_dataset_destroy(d);
        return st;
    }
    *out = d;
    return ACCEL_OK;
}

void accel_dataset_destroy(accel_dataset_t *dataset)
{
    if (!dataset)
        return;
    if (dataset->destroy)
        dataset->destroy(dataset->self);
    for (size_t f = 0; dataset->fields && f < dataset->nfields; f++)
        free((char *)dataset->fields[f].name);
    free(dataset->fields);
    free(dataset->bytes);
    free(dataset->shapes);
    free(dataset);
}

uint64_t accel_dataset_samples(const accel_dataset_t *dataset)
{
    return dataset ? dataset->samples : 0;
}

size_t accel_dataset_fields(const accel_dataset_t *dataset,
                            const accel_field_t **fields)
{
    if (fields)
        *fields = dataset ? dataset->fields : NULL;
    return dataset ? dataset->nfields : 0;
}

size_t accel_dataset_shape(const accel_dataset_t *dataset, size_t f,
                           const size_t **extents)
{
    if (!dataset || f >= dataset->nfields) {
        if (extents)
            *extents = NULL;
        return 0;
    }
    if (extents)
        *extents = dataset->shapes[f].dim;
    return dataset->shapes[f].ndim;
}

const char *accel_dataset_format(const accel_dataset_t *dataset)
{
    return dataset ? dataset->format : NULL;
}

uint64_t accel_dataset_fingerprint(const accel_dataset_t *dataset)
{
    if (!dataset)
        return 0;
    uint64_t hash = ax_hash(&dataset->samples, sizeof dataset->samples, 1);

    for (size_t f = 0; f < dataset->nfields; f++) {
        const accel_field_t *field = &dataset->fields[f];
        const ax_shape_t *shape = &dataset->shapes[f];
        uint64_t numbers[3 + AX_DIMS] = {(uint64_t)field->dtype, field->count,
                                         shape->ndim};

        for (size_t d = 0; d < shape->ndim; d++)
            numbers[3 + d] = shape->dim[d];
        /* with the NUL: "ab" "c" is not "a" "bc" */
        hash = ax_hash(field->name, strlen(field->name) + 1, hash);
        hash = ax_hash(numbers, sizeof numbers, hash);
    }
    if (dataset->identity)
        hash = ax_hash(&dataset->identity, sizeof dataset->identity, hash);
    return hash;
}

size_t ax_dataset_bytes(const accel_dataset_t *dataset, size_t f)
{
    return dataset->bytes[f];
}

accel_status_t ax_dataset_read(const accel_dataset_t *dataset,
                               const uint64_t *index, size_t count,
                               void *const *fields)
{
    return count ? dataset->read(dataset, index, count, fields) : ACCEL_OK;
}

accel_status_t accel_dataset_read(const accel_dataset_t *dataset,
                                  const uint64_t *index, size_t count,
                                  void *const *fields)
{
    if (!dataset)
        return ax_fail_null(__func__, "dataset");
    accel_status_t st = ax_dataset_needs_index(dataset, "reading from");

    if (st != ACCEL_OK)
        return st;
    for (size_t i = 0; i < count; i++)
        if (index[i] >= dataset->samples)
            return ax_fail(ACCEL_ERR_ARG,
                           "dataset: no sample %llu; it has %llu",
                           (unsigned long long)index[i],
                           (unsigned long long)dataset->samples);
    return ax_dataset_read(dataset, index, count, fields);
}

/* ---- memory -------------------------------------------------------------- */

/* Shuffled samples are in no order that the processor could guess: ask for
 * them some rows ahead, and of long ones for the start only. */
#define AHEAD 12
#define ASKED ((size_t)512)

static void ask_for(const char *row, size_t bytes)
{
    for (size_t at = 0; at < bytes && at < ASKED; at += 64)
        __builtin_prefetch(row + at);
}

static void copy_rows(char *to, const char *from, size_t bytes,
                      const uint64_t *index, size_t count)
{
    for (size_t i = 0; i < count && i < AHEAD; i++)
        ask_for(from + index[i] * bytes, bytes);
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            ask_for(from + index[i + AHEAD] * bytes, bytes);
        memcpy(to + i * bytes, from + index[i] * bytes, bytes);
    }
}

static accel_status_t read_memory(const accel_dataset_t *dataset,
                                  const uint64_t *index, size_t count,
                                  void *const *fields)
{
    const void *const *data = dataset->self;

    for (size_t f = 0; f < dataset->nfields; f++)
        copy_rows(fields[f], data[f], dataset->bytes[f], index, count);
    return ACCEL_OK;
}

accel_status_t accel_dataset_from_memory(const accel_field_t *fields,
                                         const void *const *data,
                                         size_t nfields, uint64_t samples,
                                         accel_dataset_t **out)
{
    accel_dataset_t *d;
    accel_status_t st = ax_dataset_new(fields, NULL, nfields, samples, &d);

    *out = NULL;
    if (st != ACCEL_OK)
        return st;
    const void **arrays = calloc(nfields, sizeof *arrays);
    if (!arrays)
        st = ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t f = 0; f < nfields && st == ACCEL_OK; f++) {
        if (samples > 0 && (!data || !data[f]))
            st = ax_fail(ACCEL_ERR_ARG, "dataset: field %s has no array",
                         fields[f].name);
        else
            arrays[f] = data ? data[f] : NULL;
    }
    d->format = "memory";
    d->read = read_memory;
    d->destroy = free;
    d->self = arrays;
    if (st != ACCEL_OK) {
        accel_dataset_destroy(d);
        return st;
    }
    *out = d;
    return ACCEL_OK;
}

/* ---- a function ---------------------------------------------------------- */

typedef struct source {
    accel_read_fn read; /* or */
    accel_next_fn next;
    void *context;
} source_t;

static accel_status_t read_source(const accel_dataset_t *dataset,
                                  const uint64_t *index, size_t count,
                                  void *const *fields)
{
    const source_t *s = dataset->self;
    int err = s->read(s->context, index, count, fields);

    if (err == 0)
        return ACCEL_OK;
    return ax_fail_sys(ACCEL_ERR_IO, err < 0 ? EIO : err,
                       "dataset: reading %zu samples from sample %llu on",
                       count, (unsigned long long)index[0]);
}

static accel_status_t next_source(const accel_dataset_t *dataset,
                                  uint64_t epoch, uint64_t position,
                                  size_t *count, void *const *fields)
{
    const source_t *s = dataset->self;
    size_t room = *count;
    int err = s->next(s->context, epoch, position, count, fields);

    if (err)
        return ax_fail_sys(err == ESPIPE ? ACCEL_ERR_UNSUPPORTED : ACCEL_ERR_IO,
                           err < 0 ? EIO : err,
                           "dataset: reading the stream from sample %llu on",
                           (unsigned long long)position);
    if (*count > room)
        return ax_fail(ACCEL_ERR_ARG,
                       "dataset: the stream gave %zu samples at %llu where %zu "
                       "were asked for",
                       *count, (unsigned long long)position, room);
    return ACCEL_OK;
}

static accel_status_t from_source(const accel_field_t *fields, size_t nfields,
                                  uint64_t samples, const source_t *source,
                                  accel_dataset_t **out)
{
    accel_dataset_t *d;
    accel_status_t st;

    *out = NULL;
    if (!source->read && !source->next)
        return ax_fail(ACCEL_ERR_ARG, "dataset: no function to read with");
    if ((st = ax_dataset_new(fields, NULL, nfields, samples, &d)) != ACCEL_OK)
        return st;
    source_t *s = malloc(sizeof *s);
    if (!s) {
        accel_dataset_destroy(d);
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    }
    *s = *source;
    d->format = s->next ? "stream" : "callback";
    d->read = s->read ? read_source : NULL;
    d->next = s->next ? next_source : NULL;
    d->destroy = free;
    d->self = s;
    *out = d;
    return ACCEL_OK;
}

accel_status_t accel_dataset_from_callback(const accel_field_t *fields,
                                           size_t nfields, uint64_t samples,
                                           accel_read_fn read, void *context,
                                           accel_dataset_t **out)
{
    return from_source(fields, nfields, samples,
                       &(source_t){.read = read, .context = context}, out);
}

accel_status_t accel_dataset_from_stream(const accel_field_t *fields,
                                         size_t nfields, accel_next_fn next,
                                         void *context, accel_dataset_t **out)
{
    return from_source(fields, nfields, 0,
                       &(source_t){.next = next, .context = context}, out);
}

bool ax_dataset_is_stream(const accel_dataset_t *dataset)
{
    return dataset->next != NULL;
}

accel_status_t ax_dataset_next(const accel_dataset_t *dataset, uint64_t epoch,
                               uint64_t position, size_t *count,
                               void *const *fields)
{
    return dataset->next(dataset, epoch, position, count, fields);
}

accel_status_t ax_dataset_needs_index(const accel_dataset_t *dataset,
                                      const char *what)
{
    if (!ax_dataset_is_stream(dataset))
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_UNSUPPORTED,
                   "dataset: %s a stream: it has no samples by number, only a "
                   "loader reads it",
                   what);
}
