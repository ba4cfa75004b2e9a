/*
 * The manifest as structs, and as text: one line a thing, sorted, so that two
 * saves can be compared with diff(1). accel-checkpoint(5) describes it.
 */
#include "ckpt_priv.h"

#include <inttypes.h>
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

/* ---- as text ---- */

/* Space ends a word and a new line a line, so these are written as %XX. */
static void put_name(ax_buf_t *out, const char *name)
{
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        if (c <= ' ' || c == '%' || c == 0x7f)
            ax_buf_printf(out, "%%%02x", c);
        else
            ax_buf_put(out, name, 1);
    }
}

static void put_array(ax_buf_t *out, const ax_array_t *a)
{
    ax_buf_printf(out, "array ");
    put_name(out, a->name);
    ax_buf_printf(out, " %s %d", accel_dtype_name(a->dtype), a->ndim);
    for (int d = 0; d < a->ndim; d++)
        ax_buf_printf(out, " %" PRIu64, a->shape[d]);
    ax_buf_printf(out, "\n");
}

static void put_segment(ax_buf_t *out, const ax_manifest_t *m,
                        const ax_segment_t *s)
{
    uint64_t blocks = ax_segment_blocks(m, s);

    ax_buf_printf(out, "segment ");
    put_name(out, m->arrays[s->array].name);
    ax_buf_printf(out, " %" PRIu64 " %" PRIu64 " %s %" PRIu64 " ", s->first,
                  s->count, m->files[s->file].name, s->offset);
    for (uint64_t i = 0; i < blocks; i++)
        ax_buf_printf(out, "%s%016" PRIx64, i ? "," : "", m->sums[s->sum + i]);
    ax_buf_printf(out, "\n");
}

accel_status_t ax_manifest_encode(const ax_manifest_t *m, ax_buf_t *out)
{
    ax_buf_printf(out, "accel-checkpoint %d\n", AX_CKPT_FORMAT);
    ax_buf_printf(out, "uuid %s\nstep %" PRIu64 "\nranks %d\n", m->uuid,
                  m->step, m->ranks);
    ax_buf_printf(out, "created %s\nwriter %s\n", m->created, m->writer);
    ax_buf_printf(out, "checksum xxh3-64 %" PRIu64 "\n", m->block);
    ax_buf_printf(out, "index index.h5 %" PRIu64 " %016" PRIx64 "\n",
                  m->index_bytes, m->index_sum);
    for (size_t i = 0; i < m->nfiles; i++)
        ax_buf_printf(out, "file %s %" PRIu64 " %d %016" PRIx64 "\n",
                      m->files[i].name, m->files[i].bytes, m->files[i].rank,
                      m->files[i].sum);
    for (size_t i = 0; i < m->narrays; i++)
        put_array(out, &m->arrays[i]);
    for (size_t i = 0; i < m->nsegments; i++)
        put_segment(out, m, &m->segments[i]);
    if (out->failed)
        return ax_buf_status(out);
    ax_buf_printf(out, "end %016" PRIx64 "\n",
                  ax_ckpt_sum(out->data, out->bytes));
    return ax_buf_status(out);
}
