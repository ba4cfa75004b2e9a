/* All-to-all: each rank has a part for each rank. */
#include "comm/direct.h"
#include "comm/pipe.h"

#include <stdlib.h>
#include <string.h>

/* Parts lie in the slots one after the other, as far apart as the longest of
 * them is in this chunk. */
static size_t stride_of(size_t longest, size_t first, size_t most)
{
    if (longest <= first)
        return 0;
    return longest - first < most ? longest - first : most;
}

static void copy(char *to, const char *from, size_t bytes)
{
    if (bytes && to != from)
        memcpy(to, from, bytes);
}

/* My own part needs no slot. */
static void keep_own(const accel_comm_t *c, const ax_trade_t *t)
{
    copy(t->recv + ax_part_offset(t->from, c->rank),
         t->send + ax_part_offset(t->to, c->rank),
         ax_part_in(t->to, c->rank, 0, SIZE_MAX));
}

/* ---- on one node ------------------------------------------------------------
 */

static void give_here(accel_comm_t *c, const ax_trade_t *t, size_t first,
                      size_t most)
{
    size_t stride = stride_of(t->longest, first, most);
    char *slot = ax_slot(c->seg, c->local_rank, c->turn);

    for (int r = 0; r < c->size; r++)
        if (r != c->rank)
            copy(slot + (size_t)c->position[r] * stride,
                 t->send + ax_part_offset(t->to, r) + first,
                 ax_part_in(t->to, r, first, most));
}

static void take_here(accel_comm_t *c, const ax_trade_t *t, size_t first,
                      size_t most)
{
    size_t stride = stride_of(t->longest, first, most);
    size_t at = (size_t)c->position[c->rank] * stride;

    for (int r = 0; r < c->size; r++)
        if (r != c->rank)
            copy(t->recv + ax_part_offset(t->from, r) + first,
                 ax_slot(c->seg, c->position[r], c->turn) + at,
                 ax_part_in(t->from, r, first, most));
}

/* ---- on several -------------------------------------------------------------
 */

/* Where in what goes to, or comes from, a node the part lies that local rank
 * `giver` of `takers` gives to local rank `taker`. */
static size_t pair_at(int giver, int takers, int taker, size_t stride)
{
    return ((size_t)giver * (size_t)takers + (size_t)taker) * stride;
}

static void place_nodes(const accel_comm_t *c, const ax_trade_t *t,
                        size_t first, size_t most)
{
    for (int k = 0; k < c->nodes; k++) {
        size_t pairs = (size_t)c->local_size * (size_t)ax_ranks_on(c, k);
        size_t to = stride_of(t->longest_to[k], first, most);
        size_t from = stride_of(t->longest_from[k], first, most);
        t->to_at[k + 1] = t->to_at[k] + pairs * to;
        /* what stays on the node is not moved */
        t->from_at[k + 1] = t->from_at[k] + (k == c->node ? 0 : pairs * from);
    }
}

/* The most that a node can send or get. */
static size_t most_bytes(const accel_comm_t *c, size_t stride)
{
    size_t most = 0;

    for (int k = 0; k < c->nodes; k++) {
        size_t here = (size_t)ax_ranks_on(c, k);
        size_t pairs = here * ((size_t)c->size - here);
        most = pairs > most ? pairs : most;
    }
    return most * stride;
}

static void make_nodes(accel_comm_t *c, void *op, size_t segment)
{
    const ax_trade_t *t = op;
    size_t first = segment * t->most;
    char *in = ax_acc(c->seg, c->turn);

    place_nodes(c, t, first, t->most);
    for (int r = 0; r < c->size; r++) {
        int k = ax_node_of(c, r);
        size_t stride = stride_of(t->longest_to[k], first, t->most);
        size_t n = ax_part_in(t->to, r, first, t->most);
        if (n && r != c->rank)
            ax_pipe_copy(c,
                         in + t->to_at[k] +
                             pair_at(c->local_rank, ax_ranks_on(c, k),
                                     ax_local_of(c, r), stride),
                         t->send + ax_part_offset(t->to, r) + first, n);
    }
}

static accel_status_t start_nodes(accel_comm_t *c, void *op, size_t segment)
{
    const ax_trade_t *t = op;
    size_t first = segment * t->most;
    size_t stride = stride_of(t->longest, first, t->most);

    place_nodes(c, t, first, t->most);
    return ax_inter_alltoall(c,
                             &(ax_exchange_t){.in = ax_acc(c->seg, c->turn),
                                              .out = ax_out(c->seg, c->turn),
                                              .to = t->to_at,
                                              .from = t->from_at,
                                              .most = most_bytes(c, stride)},
                             true);
}

static void take_nodes(accel_comm_t *c, void *op, size_t segment)
{
    const ax_trade_t *t = op;
    size_t first = segment * t->most;

    place_nodes(c, t, first, t->most);
    for (int r = 0; r < c->size; r++) {
        int k = ax_node_of(c, r);
        const char *from = k == c->node
                               ? ax_acc(c->seg, c->turn) + t->to_at[k]
                               : ax_out(c->seg, c->turn) + t->from_at[k];
        size_t stride = stride_of(t->longest_from[k], first, t->most);
        size_t n = ax_part_in(t->from, r, first, t->most);
        if (n && r != c->rank)
            ax_pipe_copy(c, t->recv + ax_part_offset(t->from, r) + first,
                         from + pair_at(ax_local_of(c, r), c->local_size,
                                        c->local_rank, stride),
                         n);
    }
}

/* ---- all of it --------------------------------------------------------------
 */

/* Bytes of a part in one chunk: alike on all ranks, and so that the parts of
 * all ranks of any node for all ranks fit where their leader receives. */
static size_t chunk_bytes(const accel_comm_t *c)
{
    int most = 1;

    for (int k = 0; c->nodes > 1 && k < c->nodes; k++)
        if (ax_ranks_on(c, k) > most)
            most = ax_ranks_on(c, k);
    return c->seg->slot_bytes / ((size_t)c->size * (size_t)most);
}

static accel_status_t trade_here(accel_comm_t *c, const ax_trade_t *t,
                                 size_t longest, accel_status_t mine)
{
    accel_status_t st;

    for (size_t first = 0; first == 0 || first < longest; first += t->most) {
        c->turn++;
        if (first == 0 && ax_is_direct(c, longest))
            ax_direct_trade_note(c, t);
        if (longest && (first || !ax_has_named(c)))
            give_here(c, t, first, t->most);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || longest == 0)
            return st;
        if (first == 0 && c->any_named) {
            if (ax_direct_trade_can(c))
                return ax_direct_trade(c, t);
            if (ax_has_named(c))
                give_here(c, t, first, t->most);
            if ((st = ax_node_barrier(c)) != ACCEL_OK)
                return st;
        }
        take_here(c, t, first, t->most);
    }
    return ACCEL_OK;
}

static accel_status_t trade(accel_comm_t *c, ax_trade_t *t, accel_status_t mine)
{
    size_t longest = mine == ACCEL_OK ? t->longest : 0;
    ax_pipe_t pipe = {
        .op = t, .make = make_nodes, .start = start_nodes, .take = take_nodes};
    accel_status_t st;

    t->most = chunk_bytes(c);
    pipe.segments = longest / t->most + (longest % t->most != 0);
    st = c->nodes > 1 ? ax_pipe_run(c, &pipe, mine)
                      : trade_here(c, t, longest, mine);
    if (st == ACCEL_OK && longest)
        keep_own(c, t);
    return st;
}

/* Room for numbers of nodes. */
static accel_status_t make_room(const accel_comm_t *c, ax_trade_t *t)
{
    size_t n = (size_t)c->nodes + 1;

    t->longest_to = calloc(n, 4 * sizeof *t->longest_to);
    if (!t->longest_to)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %zu nodes", n);
    t->longest_from = t->longest_to + n;
    t->to_at = t->longest_from + n;
    t->from_at = t->to_at + n;
    return ACCEL_OK;
}

static accel_status_t trade_equal(accel_comm_t *c, const char *send, char *recv,
                                  size_t bytes, accel_status_t mine)
{
    ax_parts_t parts = {.each = bytes};
    ax_trade_t t = {.send = send,
                    .recv = recv,
                    .to = &parts,
                    .from = &parts,
                    .longest = bytes};
    accel_status_t st;

    if (mine == ACCEL_OK)
        mine = make_room(c, &t);
    for (int k = 0; mine == ACCEL_OK && k < c->nodes; k++)
        t.longest_to[k] = t.longest_from[k] = bytes;
    st = trade(c, &t, mine);
    free(t.longest_to);
    return st;
}

accel_status_t ax_do_alltoall(accel_comm_t *c, const ax_op_t *op)
{
    accel_status_t mine = ax_check_count(c, op->count, op->dtype, true);
    size_t bytes = 0;

    c->call = (ax_call_t){.kind = AX_CALL_ALLTOALL,
                          .count = op->count,
                          .dtype = (uint8_t)op->dtype};
    if (mine == ACCEL_OK) {
        bytes = op->count * accel_dtype_size(op->dtype);
        size_t all = bytes * (size_t)c->size;
        mine = ax_check_buffers(op->send, all, op->recv, all, op->recv);
    }
    return trade_equal(c, op->send, op->recv, bytes, mine);
}

/* ---- parts of different sizes -----------------------------------------------
 */

/* What a rank knows of the sizes before it moves anything. */
typedef struct sizes {
    ax_table_t to, from;
    size_t *offered; /* what each rank sends to me, as it says */
    size_t *longest; /* each rank's longest part */
} sizes_t;

static accel_status_t check_alltoallv(const accel_comm_t *c, const ax_op_t *op,
                                      sizes_t *s)
{
    size_t n = (size_t)c->size;
    accel_status_t st = ax_table_make(c, &op->to, op->dtype, "sent", &s->to);

    if (st == ACCEL_OK)
        st = ax_table_make(c, &op->from, op->dtype, "received", &s->from);
    if (st == ACCEL_OK)
        st = ax_table_apart(c, &s->from);
    if (st == ACCEL_OK && op->send == op->recv && s->to.end + s->from.end &&
        (memcmp(s->to.bytes, s->from.bytes, n * sizeof *s->to.bytes) != 0 ||
         memcmp(s->to.at, s->from.at, n * sizeof *s->to.at) != 0))
        st = ax_fail(ACCEL_ERR_ARG, "comm: all-to-all-v in place: counts or "
                                    "places of what is sent and received "
                                    "differ");
    if (st == ACCEL_OK)
        st = ax_check_buffers(op->send, s->to.end, op->recv, s->from.end,
                              op->recv);
    if (st != ACCEL_OK)
        return st;
    s->offered = calloc(n, 2 * sizeof *s->offered);
    if (!s->offered)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %zu sizes", n);
    s->longest = s->offered + n;
    return ACCEL_OK;
}

static accel_status_t compare_sizes(const accel_comm_t *c, const sizes_t *s,
                                    size_t element)
{
    for (int r = 0; r < c->size; r++)
        if (s->offered[r] != s->from.bytes[r])
            return ax_fail(ACCEL_ERR_PROTO,
                           "comm: all-to-all-v: rank %d sends %zu elements to "
                           "rank %d, which wants %zu",
                           ax_named(c, r), s->offered[r] / element,
                           ax_named(c, c->rank), s->from.bytes[r] / element);
    return ACCEL_OK;
}

static size_t longest_of(const accel_comm_t *c, const size_t *bytes)
{
    size_t longest = 0;

    for (int r = 0; r < c->size; r++)
        if (bytes[r] > longest)
            longest = bytes[r];
    return longest;
}

/* Each tells each how much it will send; *longest: of all parts. */
static accel_status_t hear_sizes(accel_comm_t *c, const ax_op_t *op, sizes_t *s,
                                 size_t *longest)
{
    ax_parts_t each = {.each = sizeof *longest};
    accel_status_t st, mine = check_alltoallv(c, op, s);

    c->call =
        (ax_call_t){.kind = AX_CALL_ALLTOALLV, .dtype = (uint8_t)op->dtype};
    st = trade_equal(c, (const char *)s->to.bytes, (char *)s->offered,
                     sizeof *s->offered, mine);
    if (st != ACCEL_OK)
        return st;
    mine = compare_sizes(c, s, accel_dtype_size(op->dtype));
    *longest = longest_of(c, s->to.bytes);
    st = ax_gather_parts(c, (const char *)longest, (char *)s->longest, &each,
                         -1, mine);
    *longest = longest_of(c, s->longest);
    return st;
}

static void add_longest(const accel_comm_t *c, const ax_table_t *table,
                        size_t *of_node)
{
    for (int r = 0; r < c->size; r++)
        if (table->bytes[r] > of_node[ax_node_of(c, r)])
            of_node[ax_node_of(c, r)] = table->bytes[r];
}

/* The ranks of a node tell each other their longest parts for each node: what
 * is between two nodes is then as long for both. */
static accel_status_t share_longest(accel_comm_t *c, ax_trade_t *t,
                                    const sizes_t *s)
{
    size_t n = (size_t)c->nodes;
    size_t *mine;
    accel_status_t st;

    c->turn++;
    mine = (size_t *)(void *)ax_slot(c->seg, c->local_rank, c->turn);
    memset(mine, 0, 2 * n * sizeof *mine);
    add_longest(c, &s->to, mine);
    add_longest(c, &s->from, mine + n);
    if ((st = ax_node_barrier(c)) != ACCEL_OK)
        return st;
    for (int i = 0; i < c->local_size; i++) {
        const size_t *its = (size_t *)(void *)ax_slot(c->seg, i, c->turn);
        for (size_t k = 0; k < n; k++) {
            if (its[k] > t->longest_to[k])
                t->longest_to[k] = its[k];
            if (its[n + k] > t->longest_from[k])
                t->longest_from[k] = its[n + k];
        }
    }
    return ACCEL_OK;
}

accel_status_t ax_do_alltoallv(accel_comm_t *c, const ax_op_t *op)
{
    sizes_t s = {0};
    ax_parts_t to = {.table = &s.to}, from = {.table = &s.from};
    ax_trade_t t = {
        .send = op->send, .recv = op->recv, .to = &to, .from = &from};
    accel_status_t st = hear_sizes(c, op, &s, &t.longest);

    if (st == ACCEL_OK)
        st = ax_agree(c, make_room(c, &t));
    if (st == ACCEL_OK && c->nodes > 1)
        st = share_longest(c, &t, &s);
    c->call =
        (ax_call_t){.kind = AX_CALL_ALLTOALLV, .dtype = (uint8_t)op->dtype};
    if (st == ACCEL_OK)
        st = trade(c, &t, ACCEL_OK);
    ax_table_free(&s.to);
    ax_table_free(&s.from);
    free(s.offered);
    free(t.longest_to);
    return st;
}
