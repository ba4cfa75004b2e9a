/* The collectives that only move data: broadcast and the gathers. */
#include "comm/cma_priv.h"
#include "comm/direct.h"
#include "comm/pipe.h"

#include <stdlib.h>
#include <string.h>

/* ---- barrier and agreement --------------------------------------------------
 */

accel_status_t ax_do_barrier(accel_comm_t *c, const ax_op_t *op)
{
    (void)op;
    c->call = (ax_call_t){.kind = AX_CALL_BARRIER};
    return ax_enter(c, ACCEL_OK);
}

accel_status_t ax_agree(accel_comm_t *c, accel_status_t mine)
{
    c->call = (ax_call_t){.kind = AX_CALL_AGREE};
    return ax_enter(c, mine);
}

accel_status_t ax_comm_agree(accel_comm_t *c, accel_status_t mine)
{
    accel_error_t record;
    accel_status_t st;

    ax_error_get(&record);
    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    ax_error_set(&record);
    return ax_end(c, ax_agree(c, mine));
}

/* ---- broadcast -------------------------------------------------------------
 */

/* All have come, and some have named memory, so that they filled no slot:
 * *done, or they are filled now. */
static accel_status_t broadcast_whole(accel_comm_t *c, char *buffer,
                                      size_t bytes, int root, bool *done)
{
    size_t most = c->seg->slot_bytes;

    *done = ax_all_named(c, AX_SENT);
    if (*done)
        return ax_direct_broadcast(c, buffer, bytes, root);
    if (c->rank == root)
        memcpy(ax_slot(c->seg, c->local_rank, c->turn), buffer,
               bytes < most ? bytes : most);
    return ax_node_barrier(c);
}

accel_status_t ax_broadcast(accel_comm_t *c, char *buffer, size_t bytes,
                            int root, accel_status_t mine)
{
    size_t most = c->seg->slot_bytes;
    bool done = false, fills = mine == ACCEL_OK && c->rank == root;
    accel_status_t st;

    if (c->size == 1)
        return ax_enter(c, mine);
    if (c->nodes > 1)
        return ax_nodes_broadcast(c, buffer, bytes, root, mine);
    if (ax_is_inline(c, bytes)) {
        st = ax_enter_with(c, mine, buffer, c->rank == root ? bytes : 0);
        if (st == ACCEL_OK && bytes && c->rank != root)
            memcpy(buffer, ax_inline_of(c, ax_local_of(c, root), bytes), bytes);
        return st;
    }
    if (mine == ACCEL_OK && ax_is_direct(c, bytes)) {
        ax_heap_note(c, AX_SENT, buffer, c->rank == root ? bytes : 0);
        ax_heap_note(c, AX_COMES, buffer, c->rank == root ? 0 : bytes);
    }
    /* no bytes at all went along with the call */
    for (size_t first = 0; first < bytes; first += most) {
        size_t n = bytes - first < most ? bytes - first : most;
        c->turn++;
        if (fills && (first || !ax_has_named(c)))
            memcpy(ax_slot(c->seg, c->local_rank, c->turn), buffer + first, n);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK)
            return st;
        if (first == 0 && c->any_named)
            st = broadcast_whole(c, buffer, bytes, root, &done);
        if (st != ACCEL_OK || done)
            return st;
        if (c->rank != root)
            memcpy(buffer + first,
                   ax_slot(c->seg, ax_local_of(c, root), c->turn), n);
    }
    return ACCEL_OK;
}

accel_status_t ax_do_broadcast(accel_comm_t *c, const ax_op_t *op)
{
    accel_status_t mine;
    size_t bytes = 0;

    c->call = (ax_call_t){.kind = AX_CALL_BROADCAST,
                          .count = op->count,
                          .dtype = (uint8_t)op->dtype,
                          .root = op->root};
    mine = ax_check_count(c, op->count, op->dtype, false);
    if (mine == ACCEL_OK)
        mine = ax_check_root(c, op->root);
    if (mine == ACCEL_OK) {
        bytes = op->count * ax_element(op->dtype);
        mine = ax_check_buffers(op->recv, bytes, op->recv, bytes, op->recv);
    }
    return ax_broadcast(c, op->recv, bytes, op->root, mine);
}

/* ---- all-gather and gather --------------------------------------------------
 */

size_t ax_part_offset(const ax_parts_t *parts, int rank)
{
    if (parts->table)
        return parts->table->at[rank];
    return parts->offsets ? parts->offsets[rank] : (size_t)rank * parts->each;
}

size_t ax_part_bytes(const ax_parts_t *parts, int rank)
{
    if (parts->table)
        return parts->table->bytes[rank];
    return parts->offsets ? parts->offsets[rank + 1] - parts->offsets[rank]
                          : parts->each;
}

size_t ax_parts_end(const accel_comm_t *c, const ax_parts_t *parts)
{
    if (parts->table)
        return parts->table->end;
    return ax_part_offset(parts, c->size);
}

size_t ax_part_in(const ax_parts_t *parts, int rank, size_t first, size_t most)
{
    size_t bytes = ax_part_bytes(parts, rank);

    if (bytes <= first)
        return 0;
    return bytes - first < most ? bytes - first : most;
}

/* Copies one chunk of all ranks' parts to where they belong. */
static void spread_parts(const accel_comm_t *c, const ax_parts_t *parts,
                         size_t first, size_t most, char *recv)
{
    for (int p = 0; p < c->size; p++) {
        int rank = c->rank_at[p];
        size_t n = ax_part_in(parts, rank, first, most);
        if (n)
            memcpy(recv + ax_part_offset(parts, rank) + first,
                   ax_slot(c->seg, p, c->turn), n);
    }
}

size_t ax_longest_part(const accel_comm_t *c, const ax_parts_t *parts)
{
    size_t longest = parts->each;

    for (int r = 0; (parts->offsets || parts->table) && r < c->size; r++)
        if (ax_part_bytes(parts, r) > longest)
            longest = ax_part_bytes(parts, r);
    return longest;
}

/* Parts that go along with the call. */
static accel_status_t gather_inline(accel_comm_t *c, const char *send,
                                    char *recv, const ax_parts_t *parts,
                                    accel_status_t mine)
{
    size_t own = mine == ACCEL_OK ? ax_part_bytes(parts, c->rank) : 0;
    accel_status_t st = ax_enter_with(c, mine, send, own);

    for (int i = 0; st == ACCEL_OK && recv && i < c->local_size; i++) {
        int rank = ax_rank_here(c, i);
        size_t n = ax_part_bytes(parts, rank);
        char *to = recv + ax_part_offset(parts, rank);
        if (n && i == c->local_rank)
            memmove(to, send, n);
        else if (n)
            memcpy(to, ax_inline_of(c, i, n), n);
    }
    return st;
}

/* As broadcast_whole(). */
static accel_status_t gather_whole(accel_comm_t *c, const ax_parted_t *g,
                                   bool *done)
{
    accel_status_t st = ACCEL_OK;

    *done = c->any_named && ax_direct_gather_can(c);
    if (*done)
        return ax_direct_gather(c, g);
    if (!c->any_named)
        st = ax_single_gather(c, g, done);
    if (st != ACCEL_OK || *done)
        return st;
    size_t n = ax_part_in(g->parts, c->rank, 0, c->seg->slot_bytes);
    if (n)
        memcpy(ax_slot(c->seg, c->local_rank, c->turn), g->send, n);
    return ax_node_barrier(c);
}

/* The part may have its place behind a gap, and be there already. */
static accel_status_t gather_alone(accel_comm_t *c, const ax_parted_t *g,
                                   size_t bytes, accel_status_t mine)
{
    accel_status_t st = ax_enter(c, mine);

    if (st != ACCEL_OK || bytes == 0)
        return st;
    char *to = g->recv + ax_part_offset(g->parts, c->rank);
    if (to != g->send)
        memcpy(to, g->send, bytes);
    return ACCEL_OK;
}

accel_status_t ax_gather_parts(accel_comm_t *c, const char *send, char *recv,
                               const ax_parts_t *parts, int root,
                               accel_status_t mine)
{
    size_t longest = mine == ACCEL_OK ? ax_longest_part(c, parts) : 0;
    size_t most = c->seg->slot_bytes;
    ax_parted_t g = {.send = send, .recv = recv, .parts = parts, .root = root};
    bool done = false, single = ax_single_gathers(c, &g, longest);
    accel_status_t st;

    if (root >= 0 && root != c->rank)
        g.recv = NULL;
    if (c->size == 1)
        return gather_alone(c, &g, longest, mine);
    if (c->nodes > 1)
        return ax_nodes_gather(c, send, recv, parts, root, mine);
    if (ax_is_inline(c, longest))
        return gather_inline(c, send, g.recv, parts, mine);
    for (size_t first = 0; first == 0 || first < longest; first += most) {
        size_t n = longest ? ax_part_in(parts, c->rank, first, most) : 0;
        char *slot = ax_slot(c->seg, c->local_rank, ++c->turn);
        if (first == 0 && ax_is_direct(c, longest))
            ax_direct_gather_note(c, &g);
        if (n && (first || !(single || ax_has_named(c))))
            memcpy(slot, send + first, n);
        st = first ? ax_node_barrier(c) : ax_cma_enter(c, mine, send, g.recv);
        if (st != ACCEL_OK || longest == 0)
            return st;
        if (first == 0 && (c->any_named || single))
            st = gather_whole(c, &g, &done);
        if (st != ACCEL_OK || done)
            return st;
        if (g.recv)
            spread_parts(c, parts, first, most, recv);
    }
    return ACCEL_OK;
}

accel_status_t ax_do_allgather(accel_comm_t *c, const ax_op_t *op)
{
    ax_parts_t parts = {0};
    char *recv = op->recv;
    accel_status_t mine;

    c->call = (ax_call_t){.kind = AX_CALL_ALLGATHER,
                          .count = op->count,
                          .dtype = (uint8_t)op->dtype};
    mine = ax_check_count(c, op->count, op->dtype, true);
    if (mine == ACCEL_OK) {
        parts.each = op->count * ax_element(op->dtype);
        const char *place = recv ? recv + (size_t)c->rank * parts.each : NULL;
        mine = ax_check_buffers(op->send, parts.each, recv,
                                parts.each * (size_t)c->size, place);
    }
    return ax_gather_parts(c, op->send, recv, &parts, -1, mine);
}

accel_status_t ax_do_gather(accel_comm_t *c, const ax_op_t *op)
{
    ax_parts_t parts = {0};
    char *recv = c->rank == op->root ? op->recv : NULL;
    accel_status_t mine;

    c->call = (ax_call_t){.kind = AX_CALL_GATHER,
                          .count = op->count,
                          .dtype = (uint8_t)op->dtype,
                          .root = op->root};
    mine = ax_check_count(c, op->count, op->dtype, true);
    if (mine == ACCEL_OK)
        mine = ax_check_root(c, op->root);
    if (mine == ACCEL_OK) {
        parts.each = op->count * ax_element(op->dtype);
        bool get = c->rank == op->root;
        const char *place =
            get && recv ? recv + (size_t)c->rank * parts.each : NULL;
        mine = ax_check_buffers(op->send, parts.each, recv,
                                get ? parts.each * (size_t)c->size : 0, place);
    }
    return ax_gather_parts(c, op->send, recv, &parts, op->root, mine);
}

/* Sizes first; then all know how much memory to take, and can fail alike. */
accel_status_t ax_gather_bytes(accel_comm_t *c, const void *data, size_t bytes,
                               char **all, size_t *offsets)
{
    ax_parts_t sizes = {.each = sizeof bytes};
    accel_status_t st, mine = ACCEL_OK;

    c->call = (ax_call_t){.kind = AX_CALL_GATHER_BYTES};
    if (bytes && !data)
        mine = ax_fail(ACCEL_ERR_ARG, "comm: %zu bytes at NULL", bytes);
    st = ax_gather_parts(c, (const char *)&bytes, (char *)(offsets + 1), &sizes,
                         -1, mine);
    if (st != ACCEL_OK)
        return st;
    offsets[0] = 0;
    for (int r = 0; r < c->size; r++)
        if (__builtin_add_overflow(offsets[r], offsets[r + 1], &offsets[r + 1]))
            return ax_fail(ACCEL_ERR_OVERFLOW,
                           "comm: the bytes of %d ranks are more than memory",
                           c->size);
    *all = malloc(offsets[c->size] ? offsets[c->size] : 1);
    if (!*all)
        mine = ax_fail(ACCEL_ERR_NOMEM,
                       "comm: no memory for %zu bytes of all ranks",
                       offsets[c->size]);
    if ((st = ax_agree(c, mine)) != ACCEL_OK)
        return st;
    ax_parts_t parts = {.offsets = offsets};
    c->call = (ax_call_t){.kind = AX_CALL_GATHER_BYTES};
    return ax_gather_parts(c, data, *all, &parts, -1, ACCEL_OK);
}

accel_status_t ax_do_allgather_bytes(accel_comm_t *c, const ax_op_t *op)
{
    accel_status_t st;
    char *memory = NULL;
    size_t *table = NULL;

    if (op->all && op->offsets)
        table = calloc((size_t)c->size + 1, sizeof *table);
    if (!table) {
        c->call = (ax_call_t){.kind = AX_CALL_GATHER_BYTES};
        return ax_enter(c,
                        op->all && op->offsets
                            ? ax_fail(ACCEL_ERR_NOMEM,
                                      "comm: no memory for %d sizes", c->size)
                            : ax_fail(ACCEL_ERR_ARG,
                                      "comm: all-gather of bytes: no place "
                                      "for the result (NULL)"));
    }
    st = ax_gather_bytes(c, op->send, op->count, &memory, table);
    if (st != ACCEL_OK) {
        free(table);
        free(memory);
        return st;
    }
    *op->all = memory;
    *op->offsets = table;
    return ACCEL_OK;
}
