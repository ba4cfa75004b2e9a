/* Reductions inside a node: each rank reduces its slice over all ranks. */
#include "comm/comm_priv.h"

#include <string.h>

#define NODE_BLOCK (32u << 10) /* stays in the first-level cache */

void ax_reduce_slots(const accel_comm_t *c, const ax_reduction_t *r, void *dst,
                     bool final, size_t first, size_t count)
{
    const void **src = c->sources;

    for (int i = 0; i < c->local_size; i++)
        src[i] = ax_slot(c->seg, i, c->turn) + first * r->element;
    ax_reduce_t how = {.dtype = r->dtype,
                       .to = final ? r->dtype : r->acc,
                       .op = r->op,
                       .scale = final ? r->scale : 1.0};
    ax_reduce(&how, dst, src, c->local_size, count);
}

void ax_reduce_inline(const accel_comm_t *c, const ax_reduction_t *r, void *dst,
                      ax_along_t along, size_t first, size_t count)
{
    const void **src = c->sources;

    for (int i = 0; i < c->local_size; i++) {
        const char *all =
            i == c->local_rank ? along.send : ax_inline_of(c, i, along.bytes);
        src[i] = all + first * r->element;
    }
    ax_reduce(&(ax_reduce_t){r->dtype, r->dtype, r->op, r->scale}, dst, src,
              c->local_size, count);
}

void ax_reduce_heap(const accel_comm_t *c, const ax_reduction_t *r, void *dst,
                    const ax_block_t *block, size_t offset, size_t count)
{
    const void **src = c->sources;

    for (int i = 0; i < c->local_size; i++)
        src[i] = block->base + (size_t)i * block->stride + offset;
    ax_reduce(&(ax_reduce_t){r->dtype, r->acc, r->op, 1.0}, dst, src,
              c->local_size, count);
}

void ax_reduce_named(const accel_comm_t *c, const ax_reduction_t *r, void *dst,
                     size_t offset, size_t count)
{
    const void **src = c->sources;

    for (int i = 0; i < c->local_size; i++)
        src[i] = ax_heap_of(c, i) + offset;
    ax_reduce(&(ax_reduce_t){r->dtype, r->dtype, r->op, r->scale}, dst, src,
              c->local_size, count);
}

void ax_allreduce_in_place(const accel_comm_t *c, const ax_reduction_t *r,
                           const ax_block_t *block, size_t offset, size_t count)
{
    const void **src = c->sources;
    size_t most = NODE_BLOCK / r->element;
    size_t first, length;

    ax_slice(count, r->element, c->local_size, c->local_rank, &first, &length);
    offset += first * r->element;
    while (length > 0) {
        size_t n = length < most ? length : most;
        for (int i = 0; i < c->local_size; i++)
            src[i] = block->base + (size_t)i * block->stride + offset;
        char *mine =
            block->base + (size_t)c->local_rank * block->stride + offset;
        ax_reduce(&(ax_reduce_t){r->dtype, r->dtype, r->op, r->scale}, mine,
                  src, c->local_size, n);
        for (int i = 0; i < c->local_size; i++)
            if (i != c->local_rank)
                memcpy(block->base + (size_t)i * block->stride + offset, mine,
                       n * r->element);
        offset += n * r->element;
        length -= n;
    }
}
