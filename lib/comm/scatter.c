/* Scatters: a part of the root's buffer to each rank. */
#include "comm/cma_priv.h"
#include "comm/direct.h"
#include "comm/pipe.h"

#include <stdlib.h>
#include <string.h>

/* Where each rank's part of this chunk lies in the root's slot, by position. */
static void place_parts(accel_comm_t *c, const ax_parted_t *s, size_t first)
{
    size_t at = 0;

    for (int p = 0; p < c->size; p++) {
        c->part_at[p] = at;
        at += ax_part_in(s->parts, c->rank_at[p], first, s->most);
    }
    c->part_at[c->size] = at;
    for (int k = 0; k <= c->nodes; k++)
        c->node_bytes[k] = c->part_at[c->node_first[k]];
}

/* The root fills it in, but for its own. */
static void fill_slot(accel_comm_t *c, const ax_parted_t *s, size_t first)
{
    char *slot = ax_slot(c->seg, c->local_rank, c->turn);

    place_parts(c, s, first);
    for (int p = 0; p < c->size && c->rank == s->root; p++) {
        int rank = c->rank_at[p];
        size_t n = c->part_at[p + 1] - c->part_at[p];
        if (n && rank != s->root)
            ax_pipe_copy(c, slot + c->part_at[p],
                         s->send + ax_part_offset(s->parts, rank) + first, n);
    }
}

/* My part of this chunk, where the parts begin at `from`. */
static void take_part(accel_comm_t *c, const ax_parted_t *s, size_t first,
                      const char *from)
{
    int p = c->position[c->rank];

    place_parts(c, s, first);
    size_t n = c->part_at[p + 1] - c->part_at[p];
    if (n && c->rank != s->root)
        ax_pipe_copy(c, s->recv + first, from + c->part_at[p], n);
}

static void keep_own(const accel_comm_t *c, const ax_parted_t *s)
{
    const char *own = s->send + ax_part_offset(s->parts, c->rank);
    size_t bytes = ax_part_in(s->parts, c->rank, 0, SIZE_MAX);

    if (bytes && own != s->recv)
        memcpy(s->recv, own, bytes);
}

/* ---- on one node ------------------------------------------------------------
 */

/* All have come, and no slot was filled by who has named memory or hopes for
 * one copy: *done, or they are now. */
static accel_status_t scatter_whole(accel_comm_t *c, const ax_parted_t *s,
                                    bool *done)
{
    accel_status_t st = ACCEL_OK;

    *done = c->any_named && ax_direct_scatter_can(c);
    if (*done)
        return ax_direct_scatter(c, s);
    if (!c->any_named)
        st = ax_single_scatter(c, s, done);
    if (st != ACCEL_OK || *done)
        return st;
    fill_slot(c, s, 0);
    return ax_node_barrier(c);
}

static accel_status_t scatter_here(accel_comm_t *c, const ax_parted_t *s,
                                   size_t longest, accel_status_t mine)
{
    bool done = false, single = ax_single_gathers(c, s, longest);
    accel_status_t st;

    for (size_t first = 0; first == 0 || first < longest; first += s->most) {
        c->turn++;
        if (first == 0 && c->size > 1 && ax_is_direct(c, longest))
            ax_direct_scatter_note(c, s);
        if (longest && c->size > 1 && (first || !(single || ax_has_named(c))))
            fill_slot(c, s, first);
        st = first ? ax_node_barrier(c)
                   : ax_cma_enter(c, mine, s->send, s->recv);
        if (st != ACCEL_OK || longest == 0 || c->size == 1)
            return st;
        if (first == 0 && (c->any_named || single))
            st = scatter_whole(c, s, &done);
        if (st != ACCEL_OK || done)
            return st;
        take_part(c, s, first,
                  ax_slot(c->seg, ax_local_of(c, s->root), c->turn));
    }
    return ACCEL_OK;
}

/* ---- on several -------------------------------------------------------------
 */

static void make_nodes(accel_comm_t *c, void *op, size_t segment)
{
    const ax_parted_t *s = op;

    fill_slot(c, s, segment * s->most);
}

static char *roots_slot(const accel_comm_t *c, const ax_parted_t *s)
{
    bool here = ax_node_of(c, s->root) == c->node;

    return ax_slot(c->seg, here ? ax_local_of(c, s->root) : 0, c->turn);
}

static accel_status_t start_nodes(accel_comm_t *c, void *op, size_t segment)
{
    const ax_parted_t *s = op;

    place_parts(c, s, segment * s->most);
    return ax_inter_scatter(c, roots_slot(c, s), ax_out(c->seg, c->turn),
                            c->node_bytes, ax_node_of(c, s->root), true);
}

/* A node other than the root's has got its own part only. */
static void take_nodes(accel_comm_t *c, void *op, size_t segment)
{
    const ax_parted_t *s = op;
    bool here = ax_node_of(c, s->root) == c->node;

    place_parts(c, s, segment * s->most);
    take_part(c, s, segment * s->most,
              here ? roots_slot(c, s)
                   : ax_out(c->seg, c->turn) - c->node_bytes[c->node]);
}

/* ---- all of it --------------------------------------------------------------
 */

static accel_status_t scatter_parts(accel_comm_t *c, ax_parted_t *s,
                                    accel_status_t mine)
{
    size_t longest = mine == ACCEL_OK ? ax_longest_part(c, s->parts) : 0;
    ax_pipe_t pipe = {
        .op = s, .make = make_nodes, .start = start_nodes, .take = take_nodes};
    accel_status_t st;

    s->most = c->seg ? c->seg->slot_bytes / (size_t)c->size : 1;
    pipe.segments = longest / s->most + (longest % s->most != 0);
    st = c->nodes > 1 ? ax_pipe_run(c, &pipe, mine)
                      : scatter_here(c, s, longest, mine);
    if (st == ACCEL_OK && longest && c->rank == s->root)
        keep_own(c, s);
    return st;
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
