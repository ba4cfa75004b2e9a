/*
 * Who writes what: the parts of all ranks become arrays, segments and files.
 * Pure: no file, no rank but in numbers, and the same result on every rank.
 */
#include "ckpt_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A large array is cut between ranks only at multiples of this many bytes. */
#define GRAIN 4096

accel_status_t ax_ckpt_check_entry(const ax_entry_t *e, uint64_t *elements)
{
    uint64_t n = 1, bytes;
    uint64_t size = accel_dtype_size(e->dtype);

    if (!size)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: %s: no such element type: %d",
                       e->name, (int)e->dtype);
    if (e->ndim < 0 || e->ndim > ACCEL_CKPT_MAX_DIMS)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: %s: %d dimensions, want 0 to %d",
                       e->name, e->ndim, ACCEL_CKPT_MAX_DIMS);
    for (int d = 0; d < e->ndim; d++) {
        if (__builtin_mul_overflow(n, e->shape[d], &n))
            return ax_fail(ACCEL_ERR_OVERFLOW,
                           "ckpt: %s: the shape has more elements than a "
                           "number can count",
                           e->name);
    }
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > INT64_MAX)
        return ax_fail(ACCEL_ERR_OVERFLOW,
                       "ckpt: %s: %" PRIu64 " elements of %" PRIu64
                       " bytes are more than a file can hold",
                       e->name, n, size);
    if (e->first > n || e->count > n - e->first)
        return ax_fail(ACCEL_ERR_ARG,
                       "ckpt: %s: %" PRIu64 " elements from %" PRIu64
                       " on do not lie in an array of %" PRIu64,
                       e->name, e->count, e->first, n);
    *elements = n;
    return ACCEL_OK;
}

static int compare(const void *a, const void *b)
{
    const ax_entry_t *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    if (order)
        return order;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    /* Empty ones first, so that they overlap nothing. */
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static const char *who(const ax_entry_t *e, char out[32])
{
    if (e->rank < 0)
        snprintf(out, 32, "every rank");
    else
        snprintf(out, 32, "rank %d", e->rank);
    return out;
}

/* Do two parts of one name speak of the same array? */
static accel_status_t check_alike(const ax_entry_t *a, const ax_entry_t *b)
{
    char one[32], other[32];

    if (a->dtype != b->dtype)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: %s is %s on %s but %s on %s",
                       a->name, accel_dtype_name(a->dtype), who(a, one),
                       accel_dtype_name(b->dtype), who(b, other));
    if (a->ndim != b->ndim ||
        memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) != 0)
        return ax_fail(ACCEL_ERR_ARG,
                       "ckpt: %s has one shape on %s and another on %s",
                       a->name, who(a, one), who(b, other));
    if ((a->rank < 0) != (b->rank < 0))
        return ax_fail(ACCEL_ERR_ARG,
                       "ckpt: %s is replicated on some ranks but not on %s",
                       a->name, who(a->rank < 0 ? b : a, one));
    if (a->rank < 0)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: %s is replicated and given twice",
                       a->name);
    return ACCEL_OK;
}

/* One array's parts, sorted by first, must tile it. */
static accel_status_t check_cover(const ax_entry_t *e, size_t count,
                                  uint64_t elements)
{
    uint64_t end = 0;
    const ax_entry_t *last = NULL;
    char one[32], other[32];

    for (size_t i = 0; i < count; i++) {
        if (!e[i].count)
            continue;
        if (e[i].first > end)
            break;
        if (e[i].first < end)
            return ax_fail(ACCEL_ERR_ARG,
                           "ckpt: %s: element %" PRIu64
                           " comes from %s and from %s; say replicated when "
                           "all ranks hold the whole array",
                           e->name, e[i].first, who(last, one),
                           who(&e[i], other));
        last = &e[i];
        end = e[i].first + e[i].count;
    }
    if (end < elements)
        return ax_fail(ACCEL_ERR_ARG,
                       "ckpt: %s: no rank gives element %" PRIu64
                       " of %" PRIu64,
                       e->name, end, elements);
    return ACCEL_OK;
}

/* A name cannot be an array and a group of arrays. */
static accel_status_t check_groups(const ax_manifest_t *m)
{
    char prefix[AX_CKPT_NAME_MAX + 1];

    for (size_t i = 0; i < m->narrays; i++) {
        const char *name = m->arrays[i].name;
        const char *slash = name;
        while ((slash = strchr(slash, '/'))) {
            size_t bytes = (size_t)(slash++ - name);
            memcpy(prefix, name, bytes);
            prefix[bytes] = '\0';
            if (ax_manifest_find(m, prefix))
                return ax_fail(ACCEL_ERR_ARG,
                               "ckpt: %s is an array, so %s cannot be in it",
                               prefix, name);
        }
    }
    return ACCEL_OK;
}

static size_t group_end(const ax_entry_t *entries, size_t count, size_t i)
{
    size_t end = i + 1;

    while (end < count && strcmp(entries[end].name, entries[i].name) == 0)
        end++;
    return end;
}

static accel_status_t make_arrays(const ax_entry_t *entries, size_t count,
                                  ax_manifest_t *m)
{
    accel_status_t st;

    for (size_t i = 0, end; i < count; i = end) {
        ax_array_t *a = &m->arrays[m->narrays];
        end = group_end(entries, count, i);
        if ((st = ax_ckpt_check_entry(&entries[i], &a->elements)) != ACCEL_OK)
            return st;
        for (size_t j = i + 1; j < end; j++) {
            if ((st = check_alike(&entries[i], &entries[j])) != ACCEL_OK)
                return st;
        }
        if ((st = check_cover(&entries[i], end - i, a->elements)) != ACCEL_OK)
            return st;
        a->dtype = entries[i].dtype;
        a->ndim = entries[i].ndim;
        memcpy(a->shape, entries[i].shape, sizeof a->shape);
        a->name = strdup(entries[i].name);
        if (!a->name)
            return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for names");
        m->narrays++;
    }
    return check_groups(m);
}

static void add_segment(ax_manifest_t *m, size_t array, int rank,
                        uint64_t first, uint64_t count)
{
    /* `file` is the rank until the files are known. */
    m->segments[m->nsegments++] = (ax_segment_t){
        .array = array, .file = (size_t)rank, .first = first, .count = count};
}

/* All replicated bytes in one row, of which each rank takes an equal piece. */
struct row {
    uint64_t total;
    uint64_t at; /* where the array at hand begins */
    int size;
    int rank; /* whose piece `at` lies in */
};

static uint64_t piece_end(const struct row *row, int rank)
{
    uint64_t each = row->total / (uint64_t)row->size;
    uint64_t more = row->total % (uint64_t)row->size;
    uint64_t r = (uint64_t)rank + 1;

    return r * each + (r < more ? r : more);
}

static void split_array(ax_manifest_t *m, size_t array, struct row *row)
{
    uint64_t size = accel_dtype_size(m->arrays[array].dtype);
    uint64_t bytes = m->arrays[array].elements * size;
    uint64_t begin = 0;

    while (begin < bytes) {
        uint64_t end = bytes, limit = piece_end(row, row->rank) - row->at;
        if (limit < bytes) /* the next rank takes over in this array */
            end = limit / GRAIN * GRAIN;
        if (end > begin)
            add_segment(m, array, row->rank, begin / size,
                        (end - begin) / size);
        if (end > begin)
            begin = end;
        if (begin < bytes)
            row->rank++;
    }
    row->at += bytes;
    while (row->rank < row->size - 1 && row->at >= piece_end(row, row->rank))
        row->rank++;
}

static void make_segments(const ax_entry_t *entries, size_t count, int size,
                          ax_manifest_t *m)
{
    struct row row = {.size = size};
    size_t array = 0;

    for (size_t i = 0; i < count; i++) {
        if (entries[i].rank < 0)
            row.total += entries[i].count * accel_dtype_size(entries[i].dtype);
    }
    while (row.rank < size - 1 && piece_end(&row, row.rank) == 0)
        row.rank++;
    for (size_t i = 0, end; i < count; i = end, array++) {
        end = group_end(entries, count, i);
        if (entries[i].rank < 0) {
            split_array(m, array, &row);
            continue;
        }
        for (size_t j = i; j < end; j++) {
            if (entries[j].count)
                add_segment(m, array, entries[j].rank, entries[j].first,
                            entries[j].count);
        }
    }
}

/* A file for each rank that has something to write. */
static accel_status_t make_files(ax_manifest_t *m, int size)
{
    size_t *file_of = calloc((size_t)size, sizeof *file_of);

    m->files = calloc((size_t)size, sizeof *m->files);
    if (!file_of || !m->files) {
        free(file_of);
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %d files", size);
    }
    for (size_t i = 0; i < m->nsegments; i++)
        file_of[m->segments[i].file] = 1;
    for (int r = 0; r < size; r++) {
        if (!file_of[r])
            continue;
        ax_file_t *f = &m->files[m->nfiles];
        snprintf(f->name, sizeof f->name, "shard-%05d.h5", r);
        f->rank = r;
        file_of[r] = m->nfiles++;
    }
    for (size_t i = 0; i < m->nsegments; i++)
        m->segments[i].file = file_of[m->segments[i].file];
    free(file_of);
    return ACCEL_OK;
}

static accel_status_t make_sums(ax_manifest_t *m)
{
    for (size_t i = 0; i < m->nsegments; i++) {
        m->segments[i].sum = m->nsums;
        m->nsums += ax_segment_blocks(m, &m->segments[i]);
    }
    m->sums = calloc(m->nsums + 1, sizeof *m->sums);
    if (!m->sums)
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %zu checksums",
                       m->nsums);
    return ACCEL_OK;
}

/* All bytes together must be countable too: free space, the row of pieces. */
static accel_status_t check_total(const ax_manifest_t *m)
{
    uint64_t total = 0;

    for (size_t i = 0; i < m->narrays; i++) {
        uint64_t bytes =
            m->arrays[i].elements * accel_dtype_size(m->arrays[i].dtype);
        if (__builtin_add_overflow(total, bytes, &total) || total > INT64_MAX)
            return ax_fail(ACCEL_ERR_OVERFLOW,
                           "ckpt: the arrays have more bytes than a number "
                           "can count");
    }
    return ACCEL_OK;
}

accel_status_t ax_ckpt_layout(ax_entry_t *entries, size_t count, int size,
                              ax_manifest_t *out)
{
    accel_status_t st;

    *out = (ax_manifest_t){.ranks = size, .block = AX_CKPT_BLOCK};
    /* A replicated array gains at most one segment for each rank it meets. */
    out->arrays = calloc(count + 1, sizeof *out->arrays);
    out->segments = calloc(count + (size_t)size, sizeof *out->segments);
    if (!out->arrays || !out->segments) {
        st = ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %zu parts", count);
        goto fail;
    }
    if (count)
        qsort(entries, count, sizeof *entries, compare);
    if ((st = make_arrays(entries, count, out)) != ACCEL_OK)
        goto fail;
    if ((st = check_total(out)) != ACCEL_OK)
        goto fail;
    make_segments(entries, count, size, out);
    if ((st = make_files(out, size)) != ACCEL_OK)
        goto fail;
    if ((st = make_sums(out)) != ACCEL_OK)
        goto fail;
    return ACCEL_OK;
fail:
    ax_manifest_free(out);
    return st;
}
