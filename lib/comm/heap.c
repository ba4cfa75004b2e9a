/* Memory that all ranks of a node can reach. */
#include "comm/direct.h"
#include "comm/inter_priv.h"

#include <stdlib.h>

ax_block_t *ax_heap_find(const accel_comm_t *c, const void *memory,
                         size_t bytes)
{
    uintptr_t at = (uintptr_t)memory;

    for (ax_block_t *b = c->blocks; b; b = b->next) {
        uintptr_t mine =
            (uintptr_t)b->base + (uintptr_t)c->local_rank * b->stride;
        if (at >= mine && at - mine < b->bytes &&
            bytes <= b->bytes - (at - mine))
            return b;
    }
    return NULL;
}

void ax_heap_note(accel_comm_t *c, int what, const void *memory, size_t bytes)
{
    const ax_block_t *block = bytes ? ax_heap_find(c, memory, bytes) : NULL;

    if (c->call.named == 0)
        c->places = (ax_places_t){0};
    c->places.block[what] = block ? block->id : 0;
    if (bytes == 0)
        c->call.named |= AX_NONE_OF(what);
    if (!block)
        return;
    c->call.named |= AX_NAMED(what);
    c->places.offset[what] = (uint64_t)((const char *)memory - block->base) -
                             (uint64_t)c->local_rank * block->stride;
}

char *ax_heap_of(const accel_comm_t *c, int local, int what)
{
    ax_places_t places = ax_places_of(c, local);

    for (ax_block_t *b = c->blocks; b && places.block[what]; b = b->next)
        if (b->id == places.block[what])
            return b->base + (size_t)local * b->stride + places.offset[what];
    return NULL;
}

/* My part of a block: what messages of mine come from and go to. */
static char *my_part(const accel_comm_t *c, const ax_block_t *block)
{
    return block->base + (size_t)c->local_rank * block->stride;
}

static void remove_block(accel_comm_t *c, ax_block_t *block)
{
    for (ax_block_t **at = &c->blocks; *at; at = &(*at)->next)
        if (*at == block) {
            *at = block->next;
            break;
        }
    ax_unmap(block->base, block->mapped);
    free(block);
}

void ax_heap_fini(accel_comm_t *c)
{
    while (c->blocks)
        remove_block(c, c->blocks);
}

static accel_status_t plan_block(accel_comm_t *c, size_t bytes,
                                 ax_block_t **out)
{
    size_t stride, mapped;
    size_t wanted = bytes ? bytes : 1;
    size_t page = ax_page();
    ax_block_t *block = NULL;

    if (wanted > SIZE_MAX - page)
        return ax_fail(ACCEL_ERR_NOMEM, "accel_alloc: %zu bytes wanted", bytes);
    stride = (wanted + page - 1) / page * page;
    if (!ax_mul(stride, (size_t)c->local_size, &mapped))
        return ax_fail(ACCEL_ERR_NOMEM,
                       "accel_alloc: %zu bytes wanted by each of %d ranks",
                       bytes, c->local_size);
    block = calloc(1, sizeof *block);
    if (!block)
        return ax_fail(ACCEL_ERR_NOMEM, "accel_alloc: no memory");
    *block = (ax_block_t){.id = c->next_block + 1,
                          .bytes = wanted,
                          .stride = stride,
                          .mapped = mapped};
    *out = block;
    return ACCEL_OK;
}

/* Local rank 0 makes room; then each rank takes its part and maps all. */
static accel_status_t make_room(accel_comm_t *c, const ax_block_t *block)
{
    return ax_is_leader(c) ? ax_seg_grow(c->seg, block->mapped) : ACCEL_OK;
}

static accel_status_t take_part(accel_comm_t *c, ax_block_t *block)
{
    void *base = NULL;
    uint64_t end;
    accel_status_t st = ax_seg_bytes(c->seg, &end);

    if (st != ACCEL_OK)
        return st;
    block->offset = end - block->mapped;
    st = ax_seg_take(c->seg,
                     block->offset + (size_t)c->local_rank * block->stride,
                     block->stride);
    if (st == ACCEL_OK)
        st = ax_map(c->seg->fd, block->offset, block->mapped, &base);
    block->base = base;
    if (st == ACCEL_OK)
        ax_map_large(my_part(c, block), block->stride);
    return st;
}

static accel_status_t say_wanted(const accel_comm_t *c, accel_status_t st,
                                 size_t bytes)
{
    if (st == ACCEL_ERR_NOMEM)
        ax_fail_prefix(st, "accel_alloc: %zu bytes for each of %d ranks", bytes,
                       c->local_size);
    return st;
}

static accel_status_t alloc(accel_comm_t *c, size_t bytes, void **out)
{
    ax_block_t *block = NULL;
    accel_status_t st, mine;

    mine = out ? plan_block(c, bytes, &block)
               : ax_fail(ACCEL_ERR_ARG, "accel_alloc: out is NULL");
    c->call = (ax_call_t){.kind = AX_CALL_ALLOC, .count = bytes};
    if ((st = ax_enter(c, mine)) != ACCEL_OK)
        goto fail;
    st = ax_agree(c, say_wanted(c, make_room(c, block), bytes));
    if (st != ACCEL_OK)
        goto fail;
    st = ax_agree(c, say_wanted(c, take_part(c, block), bytes));
    if (st != ACCEL_OK) {
        if (ax_is_leader(c) && block->offset)
            ax_seg_punch(c->seg, block->offset, block->mapped);
        goto fail;
    }
    c->next_block = block->id;
    block->next = c->blocks;
    c->blocks = block;
    *out = my_part(c, block);
    if (c->inter)
        ax_net_map(c->inter->net, *out, block->stride);
    return ACCEL_OK;
fail:
    if (block)
        ax_unmap(block->base, block->mapped);
    free(block);
    return st;
}

accel_status_t accel_alloc(accel_comm_t *c, size_t bytes, void **out)
{
    accel_status_t st;

    if (out)
        *out = NULL;
    if (!c)
        return ax_fail_null("accel_alloc", "comm");
    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    return ax_end(c, alloc(c, bytes, out));
}

static accel_status_t release(accel_comm_t *c, void *memory)
{
    accel_status_t st, mine = ACCEL_OK;
    ax_block_t *block = ax_heap_find(c, memory, 0);

    if (!block || memory != my_part(c, block))
        mine = ax_fail(ACCEL_ERR_ARG,
                       "accel_free: %p is not what accel_alloc gave", memory);
    c->call = (ax_call_t){.kind = AX_CALL_FREE,
                          .count = mine == ACCEL_OK ? block->id : 0};
    if ((st = ax_enter(c, mine)) != ACCEL_OK)
        return st;
    /* all are here, so nobody uses it any more */
    if (c->inter)
        ax_net_unmap(c->inter->net, memory);
    if (ax_is_leader(c))
        ax_seg_punch(c->seg, block->offset, block->mapped);
    remove_block(c, block);
    return ACCEL_OK;
}

accel_status_t accel_free(accel_comm_t *c, void *memory)
{
    accel_status_t st;

    if (!c)
        return ax_fail_null("accel_free", "comm");
    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    if (memory)
        st = release(c, memory);
    return ax_end(c, st);
}
