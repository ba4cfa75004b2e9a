/* Where a reduction inside a node finds what it adds, and puts the sum: slots,
 * what went with the calls, the heap. reduce.c says who reduces what. */
#include "comm/direct.h"

#include <string.h>

#define NODE_BLOCK (4u << 10) /* what is written next is still at hand */

void ax_reduce_slots(const accel_comm_t *c, const ax_reduction_t *r, void *dst,
                     bool final, size_t first, size_t count)
{
    const void **src = c->sources;

    for (int i = 0; i < c->local_size; i++)
        src[i] = ax_slot(c->seg, i, c->turn) + first * r->element;
    ax_reduce_t how = {.dtype = r->dtype,
                       .to = final ? r->dtype : r->acc,
                       .op = r->op,
                       .divisor = final ? r->divisor : 1.0};
    ax_reduce(&how, dst, src, c->local_size, count);
}

void ax_sources_inline(const accel_comm_t *c, const char *send, size_t bytes,
                       size_t offset)
{
    for (int i = 0; i < c->local_size; i++) {
        const char *all = i == c->local_rank ? send : ax_inline_of(c, i, bytes);
        c->sources[i] = all + offset;
    }
}

void ax_reduce_named(const accel_comm_t *c, const ax_reduction_t *r, void *dst,
                     size_t offset, size_t count)
{
    const void **src = c->sources;

    for (int i = 0; i < c->local_size; i++)
        src[i] = ax_heap_of(c, i, AX_SENT) + offset;
    ax_reduce(&(ax_reduce_t){r->dtype, r->dtype, r->op, r->divisor}, dst, src,
              c->local_size, count);
}

/* Where the result goes, the first of all and the others: mine first, as it is
 * read again. */
static int list_targets(const accel_comm_t *c, int root)
{
    int n = 0;

    if (root >= 0) {
        c->targets[n++] = ax_heap_of(c, ax_local_of(c, root), AX_COMES);
        return n;
    }
    c->targets[n++] = ax_heap_of(c, c->local_rank, AX_COMES);
    for (int i = 0; i < c->local_size; i++)
        if (i != c->local_rank)
            c->targets[n++] = ax_heap_of(c, i, AX_COMES);
    return n;
}

static void advance(const void **src, void **to, int ranks, int targets,
                    size_t bytes)
{
    for (int i = 0; i < ranks; i++)
        src[i] = (const char *)src[i] + bytes;
    for (int i = 0; i < targets; i++)
        to[i] = (char *)to[i] + bytes;
}

void ax_reduce_direct(const accel_comm_t *c, const ax_reduction_t *r,
                      size_t count, int root)
{
    const void **src = c->sources;
    int targets = list_targets(c, root);
    size_t most = NODE_BLOCK / r->element;
    size_t first, length;

    for (int i = 0; i < c->local_size; i++)
        src[i] = ax_heap_of(c, i, AX_SENT);
    ax_slice(count, r->element, c->local_size, c->local_rank, &first, &length);
    advance(src, c->targets, c->local_size, targets, first * r->element);
    while (length > 0) {
        size_t n = length < most ? length : most;
        ax_reduce(&(ax_reduce_t){r->dtype, r->dtype, r->op, r->divisor},
                  c->targets[0], src, c->local_size, n);
        for (int i = 1; i < targets; i++)
            memcpy(c->targets[i], c->targets[0], n * r->element);
        advance(src, c->targets, c->local_size, targets, n * r->element);
        length -= n;
    }
}
