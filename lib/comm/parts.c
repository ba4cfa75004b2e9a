/* Parts of different sizes, as callers describe them. */
#include "comm/op.h"

#include <stdlib.h>
#include <string.h>

static accel_status_t too_much(const accel_comm_t *c, int rank,
                               const char *what, accel_dtype_t dtype)
{
    return ax_fail(ACCEL_ERR_ARG,
                   "comm: the parts %s, up to rank %d of %d, are more %s than "
                   "memory",
                   what, rank, c->size, accel_dtype_name(dtype));
}

static accel_status_t fill(const accel_comm_t *c, const accel_parts_t *parts,
                           accel_dtype_t dtype, const char *what, ax_table_t *t)
{
    size_t element = accel_dtype_size(dtype), packed = 0;

    for (int r = 0; r < c->size; r++) {
        size_t end, place = parts->places ? parts->places[r] : packed;
        if (!ax_mul(parts->counts[r], element, &t->bytes[r]) ||
            (parts->counts[r] && !ax_mul(place, element, &t->at[r])) ||
            __builtin_add_overflow(t->at[r], t->bytes[r], &end) ||
            __builtin_add_overflow(t->total, t->bytes[r], &t->total) ||
            end > PTRDIFF_MAX || t->total > PTRDIFF_MAX)
            return too_much(c, r, what, dtype);
        packed += parts->counts[r];
        if (t->bytes[r] && end > t->end)
            t->end = end;
    }
    return ACCEL_OK;
}

accel_status_t ax_table_make(const accel_comm_t *c, const accel_parts_t *parts,
                             accel_dtype_t dtype, const char *what,
                             ax_table_t *out)
{
    accel_status_t st = ax_check_dtype(dtype);
    size_t n = (size_t)c->size;

    *out = (ax_table_t){0};
    if (st != ACCEL_OK)
        return st;
    if (!parts->counts)
        return ax_fail(ACCEL_ERR_ARG, "comm: no counts of the parts %s (NULL)",
                       what);
    out->bytes = calloc(n, 2 * sizeof *out->bytes);
    if (!out->bytes)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %zu parts", n);
    out->at = out->bytes + n;
    if ((st = fill(c, parts, dtype, what, out)) != ACCEL_OK)
        ax_table_free(out);
    return st;
}

void ax_table_free(ax_table_t *table)
{
    free(table->bytes);
    *table = (ax_table_t){0};
}

typedef struct span {
    size_t at, end;
    int rank;
} span_t;

static int by_place(const void *a, const void *b)
{
    const span_t *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

static accel_status_t check_spans(span_t *spans, size_t n)
{
    qsort(spans, n, sizeof *spans, by_place);
    for (size_t i = 1; i < n; i++)
        if (spans[i].at < spans[i - 1].end)
            return ax_fail(ACCEL_ERR_ARG,
                           "comm: the parts received from ranks %d and %d "
                           "overlap (bytes %zu to %zu, and from %zu on)",
                           spans[i - 1].rank, spans[i].rank, spans[i - 1].at,
                           spans[i - 1].end, spans[i].at);
    return ACCEL_OK;
}

accel_status_t ax_table_apart(const accel_comm_t *c, const ax_table_t *table)
{
    span_t *spans = calloc((size_t)c->size, sizeof *spans);
    size_t n = 0;

    if (!spans)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %d parts",
                       c->size);
    for (int r = 0; r < c->size; r++)
        if (table->bytes[r])
            spans[n++] =
                (span_t){table->at[r], table->at[r] + table->bytes[r], r};
    accel_status_t st = check_spans(spans, n);
    free(spans);
    return st;
}

int32_t ax_table_mark(const accel_comm_t *c, const ax_table_t *table)
{
    uint64_t hash =
        ax_hash(table->bytes, (size_t)c->size * sizeof *table->bytes, 0);

    return (int32_t)((hash ^ hash >> 32) & 0x7fffffff) | 1;
}
