/* Datasets made of datasets: one after the other, some of one, parts of one. */
#include "dataset_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- one after the other ------------------------------------------------- */

typedef struct chain {
    accel_dataset_t **part;
    uint64_t *first; /* of each part, and of what would follow */
    size_t nparts;
    bool owned;
} chain_t;

static void chain_destroy(void *self)
{
    chain_t *c = self;

    for (size_t p = 0; c->owned && p < c->nparts; p++)
        accel_dataset_destroy(c->part[p]);
    free(c->part);
    free(c->first);
    free(c);
}

/* The part that sample `i` is in: the last one that begins at or before it
 * and is not empty. */
static size_t part_of(const chain_t *c, uint64_t i)
{
    size_t low = 0, high = c->nparts;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (c->first[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#define AT_ONCE 64 /* samples of one read of a part */

static accel_status_t chain_read(const accel_dataset_t *dataset,
                                 const uint64_t *index, size_t count,
                                 void *const *fields)
{
    const chain_t *c = dataset->self;
    void **to = malloc(dataset->nfields * sizeof *to);
    accel_status_t st = ACCEL_OK;

    if (!to)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t i = 0; i < count && st == ACCEL_OK;) {
        uint64_t own[AT_ONCE];
        size_t p = part_of(c, index[i]), n = 0;

        for (size_t f = 0; f < dataset->nfields; f++)
            to[f] = (char *)fields[f] + i * dataset->bytes[f];
        while (n < AT_ONCE && i < count && index[i] >= c->first[p] &&
               index[i] < c->first[p + 1])
            own[n++] = index[i++] - c->first[p];
        st = ax_dataset_read(c->part[p], own, n, to);
    }
    free(to);
    return st;
}

static accel_status_t check_alike(const accel_dataset_t *a,
                                  const accel_dataset_t *b, size_t p)
{
    if (a->nfields != b->nfields)
        return ax_fail(ACCEL_ERR_ARG,
                       "dataset: part %zu has %zu fields, part 0 has %zu", p,
                       b->nfields, a->nfields);
    for (size_t f = 0; f < a->nfields; f++) {
        const accel_field_t *x = &a->fields[f], *y = &b->fields[f];
        if (strcmp(x->name, y->name) != 0 || x->dtype != y->dtype ||
            x->count != y->count)
            return ax_fail(ACCEL_ERR_ARG,
                           "dataset: field %zu of part %zu is %s, %s[%zu]; in "
                           "part 0 it is %s, %s[%zu]",
                           f, p, y->name, accel_dtype_name(y->dtype), y->count,
                           x->name, accel_dtype_name(x->dtype), x->count);
    }
    return ACCEL_OK;
}

/* Where each part begins, and the fingerprints of all. */
static accel_status_t chain_measure(chain_t *c, uint64_t *identity)
{
    accel_status_t st;

    for (size_t p = 0; p < c->nparts; p++) {
        uint64_t print;

        if (!c->part[p])
            return ax_fail(ACCEL_ERR_ARG, "dataset: part %zu is NULL", p);
        if ((st = ax_dataset_needs_index(c->part[p], "joining")) != ACCEL_OK ||
            (st = check_alike(c->part[0], c->part[p], p)) != ACCEL_OK)
            return st;
        if (__builtin_add_overflow(c->first[p], c->part[p]->samples,
                                   &c->first[p + 1]))
            return ax_fail(ACCEL_ERR_ARG,
                           "dataset: the parts have more samples than 64 bits "
                           "count");
        print = accel_dataset_fingerprint(c->part[p]);
        *identity = ax_hash(&print, sizeof print, *identity);
    }
    return ACCEL_OK;
}

static accel_status_t chain_new(accel_dataset_t *const *parts, size_t nparts,
                                accel_dataset_t **out)
{
    chain_t *c = calloc(1, sizeof *c);
    accel_status_t st = ACCEL_OK;
    uint64_t identity = 0;

    if (c) {
        c->part = calloc(nparts, sizeof *c->part);
        c->first = calloc(nparts + 1, sizeof *c->first);
        c->nparts = nparts;
    }
    if (!c || !c->part || !c->first)
        st = ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    if (st == ACCEL_OK) {
        memcpy(c->part, parts, nparts * sizeof *parts);
        st = chain_measure(c, &identity);
    }
    if (st == ACCEL_OK)
        st = ax_dataset_new(parts[0]->fields, parts[0]->shapes,
                            parts[0]->nfields, c->first[nparts], out);
    if (st != ACCEL_OK) {
        if (c)
            chain_destroy(c);
        return st;
    }
    (*out)->format = "concat";
    (*out)->identity = identity;
    (*out)->parts = (const accel_dataset_t *const *)c->part;
    (*out)->nparts = c->nparts;
    (*out)->read = chain_read;
    (*out)->destroy = chain_destroy;
    (*out)->self = c;
    return ACCEL_OK;
}

accel_status_t accel_dataset_concat(accel_dataset_t *const *parts,
                                    size_t nparts, accel_dataset_t **out)
{
    *out = NULL;
    if (!parts || nparts == 0)
        return ax_fail(ACCEL_ERR_ARG, "dataset: no parts to join");
    return chain_new(parts, nparts, out);
}

accel_status_t ax_dataset_join(accel_dataset_t **parts, size_t nparts,
                               accel_dataset_t **out)
{
    accel_status_t st = accel_dataset_concat(parts, nparts, out);

    if (st == ACCEL_OK) {
        (*out)->format = parts[0]->format;
        ((chain_t *)(*out)->self)->owned = true;
        return ACCEL_OK;
    }
    for (size_t p = 0; p < nparts; p++)
        accel_dataset_destroy(parts[p]);
    return st;
}

/* ---- some of one --------------------------------------------------------- */

/* Sample i is base sample index[i], or, without an index, what the order of
 * (seed) has at first + i. */
typedef struct view {
    const accel_dataset_t *base;
    uint64_t *index;
    uint64_t first;
    bool shuffled;
    shuffle_t shuffle;
} view_t;

static void view_destroy(void *self)
{
    view_t *v = self;

    free(v->index);
    free(v);
}

static uint64_t base_sample(const view_t *v, uint64_t i)
{
    if (v->index)
        return v->index[i];
    return v->shuffled ? ax_shuffle_at(&v->shuffle, v->first + i)
                       : v->first + i;
}

static accel_status_t view_read(const accel_dataset_t *dataset,
                                const uint64_t *index, size_t count,
                                void *const *fields)
{
    const view_t *v = dataset->self;
    uint64_t *own = malloc(count * sizeof *own);

    if (!own)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t i = 0; i < count; i++)
        own[i] = base_sample(v, index[i]);
    accel_status_t st = ax_dataset_read(v->base, own, count, fields);
    free(own);
    return st;
}

/* Takes `index`, also on failure. */
static accel_status_t view_new(const accel_dataset_t *base, uint64_t *index,
                               uint64_t samples, const char *format,
                               accel_dataset_t **out)
{
    view_t *v = calloc(1, sizeof *v);
    accel_status_t st = v ? ax_dataset_new(base->fields, base->shapes,
                                           base->nfields, samples, out)
                          : ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");

    if (st != ACCEL_OK) {
        free(v);
        free(index);
        return st;
    }
    *v = (view_t){.base = base, .index = index};
    (*out)->format = format;
    (*out)->identity = accel_dataset_fingerprint(base);
    (*out)->parts = &v->base;
    (*out)->nparts = 1;
    (*out)->read = view_read;
    (*out)->destroy = view_destroy;
    (*out)->self = v;
    return ACCEL_OK;
}

accel_status_t accel_dataset_subset(const accel_dataset_t *base,
                                    const uint64_t *index, uint64_t count,
                                    accel_dataset_t **out)
{
    size_t bytes;
    accel_status_t st;

    *out = NULL;
    if (!base || (!index && count > 0))
        return ax_fail(ACCEL_ERR_ARG, "dataset: a subset of nothing");
    if ((st = ax_dataset_needs_index(base, "taking some of")) != ACCEL_OK)
        return st;
    for (uint64_t i = 0; i < count; i++)
        if (index[i] >= base->samples)
            return ax_fail(ACCEL_ERR_ARG,
                           "dataset: index %llu of the subset is sample %llu "
                           "of %llu",
                           (unsigned long long)i, (unsigned long long)index[i],
                           (unsigned long long)base->samples);

    uint64_t *copy = NULL;
    if (ax_mul((size_t)count, sizeof *copy, &bytes))
        copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    if (bytes)
        memcpy(copy, index, bytes);
    st = view_new(base, copy, count, "subset", out);
    if (st == ACCEL_OK)
        (*out)->identity = ax_hash(copy, bytes, (*out)->identity);
    return st;
}

/* ---- parts of one -------------------------------------------------------- */

static accel_status_t check_counts(const accel_dataset_t *base,
                                   const uint64_t *counts, size_t nparts)
{
    uint64_t all = 0;

    for (size_t p = 0; p < nparts; p++)
        if (__builtin_add_overflow(all, counts[p], &all) || all > base->samples)
            return ax_fail(ACCEL_ERR_ARG,
                           "dataset: part %zu of the split ends past the last "
                           "of %llu samples",
                           p, (unsigned long long)base->samples);
    return ACCEL_OK;
}

static void set_part(accel_dataset_t *part, uint64_t first, uint64_t seed)
{
    uint64_t numbers[2] = {first, seed};
    view_t *v = part->self;

    v->first = first;
    v->shuffled = seed != ACCEL_IN_ORDER;
    if (v->shuffled)
        ax_shuffle_init(&v->shuffle, seed, 0, v->base->samples);
    part->identity = ax_hash(numbers, sizeof numbers, part->identity);
}

accel_status_t accel_dataset_split(const accel_dataset_t *base,
                                   const uint64_t *counts, size_t nparts,
                                   uint64_t seed, accel_dataset_t **out)
{
    accel_status_t st;
    uint64_t first = 0;

    for (size_t p = 0; p < nparts; p++)
        out[p] = NULL;
    if (!base || !counts || nparts == 0)
        return ax_fail(ACCEL_ERR_ARG, "dataset: a split into nothing");
    if ((st = ax_dataset_needs_index(base, "splitting")) == ACCEL_OK)
        st = check_counts(base, counts, nparts);
    for (size_t p = 0; p < nparts && st == ACCEL_OK; p++) {
        st = view_new(base, NULL, counts[p], "split", &out[p]);
        if (st == ACCEL_OK)
            set_part(out[p], first, seed);
        first += counts[p];
    }
    for (size_t p = 0; p < nparts && st != ACCEL_OK; p++) {
        accel_dataset_destroy(out[p]);
        out[p] = NULL;
    }
    return st;
}
