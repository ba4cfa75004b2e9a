/* The manifest as structs: lookups, sizes, release. */
#include "ckpt_priv.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

uint64_t ax_ckpt_sum(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

void ax_manifest_free(ax_manifest_t *m)
{
    for (size_t i = 0; i < m->narrays; i++)
        free(m->arrays[i].name);
    free(m->arrays);
    free(m->files);
    free(m->segments);
    free(m->sums);
    *m = (ax_manifest_t){0};
}

static int by_name(const void *key, const void *element)
{
    return strcmp(key, ((const ax_array_t *)element)->name);
}

const ax_array_t *ax_manifest_find(const ax_manifest_t *m, const char *name)
{
    if (!m->narrays)
        return NULL;
    return bsearch(name, m->arrays, m->narrays, sizeof *m->arrays, by_name);
}

uint64_t ax_segment_bytes(const ax_manifest_t *m, const ax_segment_t *s)
{
    return s->count * accel_dtype_size(m->arrays[s->array].dtype);
}

uint64_t ax_segment_blocks(const ax_manifest_t *m, const ax_segment_t *s)
{
    uint64_t bytes = ax_segment_bytes(m, s);

    return bytes / m->block + (bytes % m->block != 0);
}

size_t ax_manifest_segments(const ax_manifest_t *m, size_t array,
                            const ax_segment_t **first)
{
    size_t low = 0, high = m->nsegments;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->segments[middle].array < array)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < m->nsegments && m->segments[end].array == array)
        end++;
    *first = m->segments + low;
    return end - low;
}

static int by_offset(const void *a, const void *b, void *context)
{
    const ax_manifest_t *m = context;
    uint64_t x = m->segments[*(const size_t *)a].offset;
    uint64_t y = m->segments[*(const size_t *)b].offset;

    return (x > y) - (x < y);
}

accel_status_t ax_manifest_file_order(const ax_manifest_t *m, size_t file,
                                      size_t **order, size_t *count)
{
    size_t n = 0;

    for (size_t i = 0; i < m->nsegments; i++)
        n += m->segments[i].file == file;
    *count = 0;
    *order = calloc(n + 1, sizeof **order);
    if (!*order)
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %zu segments", n);
    for (size_t i = 0; i < m->nsegments; i++) {
        if (m->segments[i].file == file)
            (*order)[(*count)++] = i;
    }
    qsort_r(*order, n, sizeof **order, by_offset, (void *)m);
    return ACCEL_OK;
}
