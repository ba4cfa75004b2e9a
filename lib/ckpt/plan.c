/* What one rank was asked to save, checked and in order. */
#include "ckpt_priv.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const accel_ckpt_part_t *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    if (order)
        return order;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (x->count > y->count) - (x->count < y->count);
}

static accel_status_t check_part(const accel_ckpt_part_t *part)
{
    ax_entry_t entry = {.name = part->name,
                        .dtype = part->dtype,
                        .ndim = part->ndim,
                        .first = part->first,
                        .count = part->count};
    uint64_t elements;
    accel_status_t st = ax_ckpt_check_name(part->name);

    if (st != ACCEL_OK)
        return st;
    memcpy(entry.shape, part->shape, sizeof entry.shape);
    if ((st = ax_ckpt_check_entry(&entry, &elements)) != ACCEL_OK)
        return st;
    if (part->count && !part->data)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: %s: data is NULL", part->name);
    if (part->replicated && part->count != elements)
        return ax_fail(ACCEL_ERR_ARG,
                       "ckpt: %s is replicated, so every rank must give the "
                       "whole array; this one gives a part",
                       part->name);
    return ACCEL_OK;
}

accel_status_t ax_plan_init(ax_plan_t *plan, const char *dir, uint64_t step,
                            const accel_ckpt_part_t *parts, size_t nparts)
{
    accel_status_t st;

    *plan = (ax_plan_t){.dir = dir, .step = step};
    if (!dir || !*dir)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: no directory was given");
    if (nparts && !parts)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: %zu parts at NULL", nparts);
    for (size_t i = 0; i < nparts; i++) {
        if ((st = check_part(&parts[i])) != ACCEL_OK)
            return st;
    }
    plan->parts = calloc(nparts + 1, sizeof *parts);
    if (!plan->parts)
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %zu parts",
                       nparts);
    if (nparts) {
        memcpy(plan->parts, parts, nparts * sizeof *parts);
        qsort(plan->parts, nparts, sizeof *parts, compare);
    }
    plan->nparts = nparts;
    return ACCEL_OK;
}

void ax_plan_fini(ax_plan_t *plan)
{
    free(plan->parts);
    *plan = (ax_plan_t){0};
}

const void *ax_plan_data(const ax_plan_t *plan, const char *name,
                         uint64_t first, uint64_t count)
{
    size_t low = 0, high = plan->nparts;
    /* Empty parts at `first` come before the one that is wanted. */
    accel_ckpt_part_t key = {.name = name, .first = first, .count = UINT64_MAX};

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&plan->parts[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    const accel_ckpt_part_t *part = &plan->parts[low - 1];
    if (strcmp(part->name, name) != 0 || first - part->first > part->count ||
        count > part->count - (first - part->first))
        return NULL;
    return (const char *)part->data +
           (first - part->first) * accel_dtype_size(part->dtype);
}
