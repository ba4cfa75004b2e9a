/* Scatters: a part of the root's buffer to each rank. */
#include "comm/direct.h"

#include <stdlib.h>
#include <string.h>

/* Where each rank's part of this chunk lies in the root's slot, by position;
 * the root, who gives, fills it in, but for its own. */
static void fill_slot(accel_comm_t *c, const ax_parted_t *s, size_t first,
                      size_t most, bool gives)
{
    char *slot = ax_slot(c->seg, c->local_rank, c->turn);
    size_t at = 0;

    for (int p = 0; p < c->size; p++) {
        int rank = c->rank_at[p];
        size_t n = ax_part_in(s->parts, rank, first, most);
        c->part_at[p] = at;
        if (n && gives && rank != s->root)
            memcpy(slot + at, s->send + ax_part_offset(s->parts, rank) + first,
                   n);
        at += n;
    }
    c->part_at[c->size] = at;
    for (int k = 0; k <= c->nodes; k++)
        c->node_bytes[k] = c->part_at[c->node_first[k]];
}

static accel_status_t take_part(accel_comm_t *c, const ax_parted_t *s,
                                size_t first)
{
    int p = c->position[c->rank], node = ax_node_of(c, s->root);
    size_t at = c->part_at[p], n = c->part_at[p + 1] - at;
    bool here = node == c->node;
    int giver = here ? ax_local_of(c, s->root) : 0;
    const char *from = ax_slot(c->seg, giver, c->turn);
    accel_status_t st;

    if (c->nodes > 1) {
        char *out = ax_out(c->seg, c->turn);
        st = ax_inter_scatter(c, from, out, c->node_bytes, node, true);
        if (st != ACCEL_OK)
            return st;
        if (!here) {
            from = out;
            at -= c->node_bytes[c->node];
        }
    }
    if (n && c->rank != s->root)
        memcpy(s->recv + first, from + at, n);
    return ACCEL_OK;
}

static void keep_own(const accel_comm_t *c, const ax_parted_t *s)
{
    const char *own = s->send + ax_part_offset(s->parts, c->rank);
    size_t bytes = ax_part_in(s->parts, c->rank, 0, SIZE_MAX);

    if (bytes && own != s->recv)
        memcpy(s->recv, own, bytes);
}

static accel_status_t scatter_parts(accel_comm_t *c, const ax_parted_t *s,
                                    accel_status_t mine)
{
    size_t most = c->seg ? c->seg->slot_bytes / (size_t)c->size : 1;
    size_t longest = mine == ACCEL_OK ? ax_longest_part(c, s->parts) : 0;
    accel_status_t st;

    for (size_t first = 0; first == 0 || first < longest; first += most) {
        bool gives = c->rank == s->root;
        c->turn++;
        if (first == 0 && c->size > 1 && ax_is_direct(c, longest))
            ax_direct_scatter_note(c, s);
        if (longest && c->size > 1)
            fill_slot(c, s, first, most, gives && (first || !ax_has_named(c)));
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || longest == 0)
            return st;
        if (c->size == 1)
            break;
        if (first == 0 && c->any_named) {
            if (ax_direct_scatter_can(c)) {
                if ((st = ax_direct_scatter(c, s)) != ACCEL_OK)
                    return st;
                break;
            }
            fill_slot(c, s, first, most, gives && ax_has_named(c));
            if ((st = ax_node_barrier(c)) != ACCEL_OK)
                return st;
        }
        if ((st = take_part(c, s, first)) != ACCEL_OK)
            return st;
    }
    if (c->rank == s->root)
        keep_own(c, s);
    return ACCEL_OK;
}

accel_status_t ax_do_scatter(accel_comm_t *c, const ax_op_t *op)
{
    ax_parts_t parts = {0};
    ax_parted_t s = {
        .send = op->send, .recv = op->recv, .parts = &parts, .root = op->root};
    accel_status_t mine;

    c->call = (ax_call_t){.kind = AX_CALL_SCATTER,
                          .count = op->count,
                          .dtype = (uint8_t)op->dtype,
                          .root = op->root};
    mine = ax_check_count(c, op->count, op->dtype, true);
    if (mine == ACCEL_OK)
        mine = ax_check_root(c, op->root);
    if (mine == ACCEL_OK) {
        size_t bytes = parts.each = op->count * accel_dtype_size(op->dtype);
        bool gives = c->rank == op->root;
        const char *send = gives ? s.send : NULL;
        const char *own = send ? send + (size_t)c->rank * bytes : NULL;
        bool in_place = own && own == s.recv;
        mine = ax_check_buffers(send, gives ? bytes * (size_t)c->size : 0,
                                s.recv, bytes, in_place ? send : NULL);
    }
    return scatter_parts(c, &s, mine);
}

/* This rank's own arguments, in its call; the size of its part. */
static accel_status_t check_scatterv(const accel_comm_t *c, const ax_op_t *op,
                                     ax_table_t *table, size_t *own)
{
    const char *send = NULL;
    accel_status_t st = ax_check_root(c, op->root);

    *own = op->to.mine;
    if (st == ACCEL_OK && c->rank == op->root) {
        st = ax_table_make(c, &op->to, op->dtype, "sent", table);
        if (st != ACCEL_OK)
            return st;
        *own = op->to.counts[c->rank];
        send = op->send;
        if (send && send + table->at[c->rank] == op->recv)
            return ACCEL_OK; /* in place */
    }
    if (st == ACCEL_OK)
        st = ax_check_count(c, *own, op->dtype, false);
    if (st == ACCEL_OK)
        st = ax_check_buffers(send, table->end, op->recv,
                              *own * accel_dtype_size(op->dtype), NULL);
    return st;
}

/* Counts of the root, on all ranks; each compares its own. */
static accel_status_t hear_sizes(accel_comm_t *c, const ax_op_t *op,
                                 size_t *sizes, ax_table_t *table)
{
    size_t own;
    accel_status_t st, mine = check_scatterv(c, op, table, &own);

    c->call = (ax_call_t){.kind = AX_CALL_SCATTERV,
                          .dtype = (uint8_t)op->dtype,
                          .root = op->root};
    if (mine == ACCEL_OK && !sizes)
        mine =
            ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %d sizes", c->size);
    if (mine == ACCEL_OK && c->rank == op->root)
        memcpy(sizes, op->to.counts, (size_t)c->size * sizeof *sizes);
    st = ax_broadcast(c, (char *)sizes, (size_t)c->size * sizeof *sizes,
                      op->root, mine);
    if (st != ACCEL_OK)
        return st;
    if (sizes[c->rank] != own)
        mine = ax_fail(ACCEL_ERR_PROTO,
                       "comm: scatter-v: the root, rank %d, sends %zu elements "
                       "to rank %d, which wants %zu",
                       ax_named(c, op->root), sizes[c->rank],
                       ax_named(c, c->rank), own);
    else if (c->rank != op->root)
        mine = ax_table_make(c, &(accel_parts_t){.counts = sizes}, op->dtype,
                             "sent", table);
    return ax_agree(c, mine);
}

accel_status_t ax_do_scatterv(accel_comm_t *c, const ax_op_t *op)
{
    size_t *sizes = calloc((size_t)c->size, sizeof *sizes);
    ax_table_t table = {0};
    ax_parts_t parts = {.table = &table};
    ax_parted_t s = {
        .send = op->send, .recv = op->recv, .parts = &parts, .root = op->root};
    accel_status_t st = hear_sizes(c, op, sizes, &table);

    c->call = (ax_call_t){.kind = AX_CALL_SCATTERV,
                          .dtype = (uint8_t)op->dtype,
                          .root = op->root};
    if (st == ACCEL_OK)
        st = scatter_parts(c, &s, ACCEL_OK);
    ax_table_free(&table);
    free(sizes);
    return st;
}
