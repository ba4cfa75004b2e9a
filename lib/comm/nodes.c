/*
 * The collectives of several nodes: what a segment is made of, and where it
 * lies in the memory of the node. pipe.c says when.
 */
#include "comm/direct.h"
#include "comm/pipe.h"

#include <string.h>

#define NODES_BLOCK                                                            \
    (32u << 10) /* bytes reduced between looks at the network                  \
                 */

/* Which elements a segment holds. */
static size_t segment_at(size_t count, size_t most, size_t segment,
                         size_t *first)
{
    *first = segment * most;
    return count - *first < most ? count - *first : most;
}

static size_t segments_of(size_t count, size_t most)
{
    return count / most + (count % most != 0);
}

/* ---- all-reduce and reduce --------------------------------------------------
 */

static size_t most_elements(const accel_comm_t *c, const ax_nodes_reduce_t *r)
{
    return c->seg->slot_bytes / (r->how->element ? r->how->element : 1);
}

/* All but my own slice: nobody else reads that. */
static void give_elements(accel_comm_t *c, void *op, size_t segment)
{
    const ax_nodes_reduce_t *r = op;
    size_t first, n, from, length, element = r->how->element;
    char *slot = ax_slot(c->seg, c->local_rank, c->turn);

    n = segment_at(r->count, most_elements(c, r), segment, &first);
    const char *send = r->send + first * element;
    ax_slice(n, element, c->local_size, c->local_rank, &from, &length);
    size_t end = from + length;
    ax_pipe_copy(c, slot, send, from * element);
    ax_pipe_copy(c, slot + end * element, send + end * element,
                 (n - end) * element);
}

/* What lies in the heap is read from there, if that is so on all ranks. */
static accel_status_t meet_heap(accel_comm_t *c, ax_pipe_t *pipe)
{
    pipe->shared = ax_all_named(c, AX_SENT);
    if (pipe->shared || !c->any_named)
        return ACCEL_OK;
    if (ax_has_named(c))
        give_elements(c, pipe->op, 0);
    return ax_node_barrier(c);
}

/* `count` elements of a segment that begins with `first`, of all ranks, from
 * its element `from` on. */
static void sum_some(accel_comm_t *c, const ax_nodes_reduce_t *r, size_t first,
                     size_t from, size_t count)
{
    const ax_reduction_t *how = r->how;
    size_t at = (first + from) * how->element;

    for (int i = 0; i < c->local_size; i++)
        c->sources[i] = i == c->local_rank ? r->send + at
                        : ax_all_named(c, AX_SENT)
                            ? ax_heap_of(c, i, AX_SENT) + at
                            : ax_slot(c->seg, i, c->turn) + from * how->element;
    ax_reduce(&(ax_reduce_t){how->dtype, how->acc, how->op, 1.0},
              ax_acc(c->seg, c->turn) + from * how->acc_element, c->sources,
              c->local_size, count);
}

/* My slice of the node's sums. */
static void sum_elements(accel_comm_t *c, void *op, size_t segment)
{
    const ax_nodes_reduce_t *r = op;
    size_t first, n, from, length, most = NODES_BLOCK / r->how->element;

    n = segment_at(r->count, most_elements(c, r), segment, &first);
    ax_slice(n, r->how->element, c->local_size, c->local_rank, &from, &length);
    for (size_t k; length > 0; from += k, length -= k) {
        k = length < most ? length : most;
        sum_some(c, r, first, from, k);
        ax_inter_go_on(c);
    }
}

static accel_status_t add_nodes(accel_comm_t *c, const ax_nodes_reduce_t *r,
                                size_t n, bool ready)
{
    char *sums = ax_acc(c->seg, c->turn), *out = ax_out(c->seg, c->turn);

    if (r->root < 0)
        return ax_inter_allreduce(c, r->how, sums, out, n, ready);
    return ax_inter_reduce(c, r->how, sums, out, n, ax_node_of(c, r->root),
                           ready);
}

static accel_status_t start_elements(accel_comm_t *c, void *op, size_t segment)
{
    const ax_nodes_reduce_t *r = op;
    size_t first, n;

    n = segment_at(r->count, most_elements(c, r), segment, &first);
    return add_nodes(c, r, n, true);
}

static void take_elements(accel_comm_t *c, void *op, size_t segment)
{
    const ax_nodes_reduce_t *r = op;
    size_t first, n;

    n = segment_at(r->count, most_elements(c, r), segment, &first);
    if (r->recv)
        ax_pipe_copy(c, r->recv + first * r->how->element,
                     ax_out(c->seg, c->turn), n * r->how->element);
}

/* So little that local rank 0 adds it all itself: two barriers less. */
static accel_status_t reduce_little(accel_comm_t *c, const ax_nodes_reduce_t *r)
{
    size_t bytes = r->count * r->how->element;
    accel_status_t st;

    c->turn++;
    memcpy(ax_slot(c->seg, c->local_rank, c->turn), r->send, bytes);
    if ((st = ax_enter(c, ACCEL_OK)) != ACCEL_OK)
        return st;
    if (ax_is_leader(c)) {
        ax_reduce_slots(c, r->how, ax_acc(c->seg, c->turn), false, 0, r->count);
        if ((st = add_nodes(c, r, r->count, false)) != ACCEL_OK ||
            (st = ax_inter_end(c)) != ACCEL_OK)
            return st;
    }
    if ((st = ax_node_release(c)) != ACCEL_OK)
        return st;
    if (r->recv)
        memcpy(r->recv, ax_out(c->seg, c->turn), bytes);
    return ACCEL_OK;
}

accel_status_t ax_nodes_reduce(accel_comm_t *c, ax_nodes_reduce_t *r,
                               accel_status_t mine)
{
    size_t bytes = mine == ACCEL_OK ? r->count * r->how->element : 0;
    ax_pipe_t pipe = {.op = r,
                      .give = give_elements,
                      .met = meet_heap,
                      .make = sum_elements,
                      .start = start_elements,
                      .take = take_elements};

    if (bytes && bytes * (size_t)c->local_size <= AX_SMALL)
        return reduce_little(c, r);
    if (bytes) {
        pipe.segments = segments_of(r->count, most_elements(c, r));
        ax_heap_note(c, AX_SENT, r->send, bytes);
        pipe.shared = ax_has_named(c);
    }
    return ax_pipe_run(c, &pipe, mine);
}

/* ---- parts ------------------------------------------------------------------
 */

/* Parts of all ranks, by position. */
typedef struct by_parts {
    const ax_nodes_reduce_t *r; /* when they are added */
    const char *send;
    char *recv;
    const ax_parts_t *parts;
    size_t most; /* bytes of a part in a segment */
    int root;
} by_parts_t;

/* Where the parts of a segment lie, in units of `unit` bytes: c->part_at, and
 * those of a node together: c->node_bytes. */
static void place_parts(accel_comm_t *c, const by_parts_t *b, size_t segment,
                        size_t unit)
{
    size_t at = 0;

    for (int p = 0; p < c->size; p++) {
        c->part_at[p] = at / unit;
        at += ax_part_in(b->parts, c->rank_at[p], segment * b->most, b->most);
    }
    c->part_at[c->size] = at / unit;
    for (int k = 0; k <= c->nodes; k++)
        c->node_bytes[k] = c->part_at[c->node_first[k]];
}

/* ---- reduce-scatter ---------------------------------------------------------
 */

static void give_parts(accel_comm_t *c, void *op, size_t segment)
{
    const by_parts_t *b = op;
    char *slot = ax_slot(c->seg, c->local_rank, c->turn);
    size_t first = segment * b->most;

    for (int p = 0; p < c->size; p++) {
        int rank = c->rank_at[p];
        size_t n = ax_part_in(b->parts, rank, first, b->most);
        if (n)
            ax_pipe_copy(c, slot,
                         b->send + ax_part_offset(b->parts, rank) + first, n);
        slot += n;
    }
}

static void sum_parts(accel_comm_t *c, void *op, size_t segment)
{
    const by_parts_t *b = op;
    const ax_reduction_t *how = b->r->how;
    size_t from, length, most = NODES_BLOCK / how->element;

    place_parts(c, b, segment, how->element);
    ax_slice(c->part_at[c->size], how->element, c->local_size, c->local_rank,
             &from, &length);
    for (size_t k; length > 0; from += k, length -= k) {
        k = length < most ? length : most;
        ax_reduce_slots(c, how,
                        ax_acc(c->seg, c->turn) + from * how->acc_element,
                        false, from, k);
        ax_inter_go_on(c);
    }
}

static accel_status_t start_sums(accel_comm_t *c, void *op, size_t segment)
{
    const by_parts_t *b = op;

    place_parts(c, b, segment, b->r->how->element);
    return ax_inter_reduce_parts(c, b->r->how, ax_acc(c->seg, c->turn),
                                 ax_out(c->seg, c->turn), c->node_bytes, true);
}

static void take_sums(accel_comm_t *c, void *op, size_t segment)
{
    const by_parts_t *b = op;
    size_t element = b->r->how->element;
    int p = c->position[c->rank];

    place_parts(c, b, segment, element);
    size_t at = c->part_at[p] - c->node_bytes[c->node];
    size_t n = c->part_at[p + 1] - c->part_at[p];
    if (n)
        ax_pipe_copy(c, b->recv + segment * b->most,
                     ax_out(c->seg, c->turn) + at * element, n * element);
}

accel_status_t ax_nodes_reduce_scatter(accel_comm_t *c, ax_nodes_reduce_t *r,
                                       const ax_parts_t *parts,
                                       accel_status_t mine)
{
    size_t element = r->how->element ? r->how->element : 1;
    by_parts_t b = {.r = r, .send = r->send, .recv = r->recv, .parts = parts};
    ax_pipe_t pipe = {.op = &b,
                      .give = give_parts,
                      .make = sum_parts,
                      .start = start_sums,
                      .take = take_sums};

    b.most = c->seg->slot_bytes / (element * (size_t)c->size) * element;
    if (mine == ACCEL_OK)
        pipe.segments = segments_of(ax_longest_part(c, parts), b.most);
    return ax_pipe_run(c, &pipe, mine);
}

/* ---- broadcast --------------------------------------------------------------
 */

typedef struct tell {
    char *buffer;
    size_t bytes;
    int root;
} tell_t;

/* On the root's node the segment is read where the root puts it. */
static char *told_at(const accel_comm_t *c, int root)
{
    return ax_node_of(c, root) == c->node
               ? ax_slot(c->seg, ax_local_of(c, root), c->turn)
               : ax_out(c->seg, c->turn);
}

static void make_told(accel_comm_t *c, void *op, size_t segment)
{
    const tell_t *t = op;
    size_t first, n = segment_at(t->bytes, c->seg->slot_bytes, segment, &first);

    if (c->rank == t->root)
        ax_pipe_copy(c, told_at(c, t->root), t->buffer + first, n);
}

static accel_status_t start_told(accel_comm_t *c, void *op, size_t segment)
{
    const tell_t *t = op;
    size_t first, n = segment_at(t->bytes, c->seg->slot_bytes, segment, &first);

    return ax_inter_broadcast(c, told_at(c, t->root), n, ax_node_of(c, t->root),
                              true);
}

static void take_told(accel_comm_t *c, void *op, size_t segment)
{
    const tell_t *t = op;
    size_t first, n = segment_at(t->bytes, c->seg->slot_bytes, segment, &first);

    if (c->rank != t->root)
        ax_pipe_copy(c, t->buffer + first, told_at(c, t->root), n);
}

accel_status_t ax_nodes_broadcast(accel_comm_t *c, char *buffer, size_t bytes,
                                  int root, accel_status_t mine)
{
    tell_t t = {.buffer = buffer, .bytes = bytes, .root = root};
    ax_pipe_t pipe = {
        .op = &t, .make = make_told, .start = start_told, .take = take_told};

    if (mine == ACCEL_OK)
        pipe.segments = segments_of(bytes, c->seg->slot_bytes);
    return ax_pipe_run(c, &pipe, mine);
}

/* ---- gathers ----------------------------------------------------------------
 */

/* Each rank puts its part where all nodes' parts will be. */
static void make_gathered(accel_comm_t *c, void *op, size_t segment)
{
    const by_parts_t *b = op;
    size_t first = segment * b->most;
    size_t n = ax_part_in(b->parts, c->rank, first, b->most);

    place_parts(c, b, segment, 1);
    if (n)
        ax_pipe_copy(c,
                     ax_out(c->seg, c->turn) + c->part_at[c->position[c->rank]],
                     b->send + first, n);
}

static accel_status_t start_gathered(accel_comm_t *c, void *op, size_t segment)
{
    const by_parts_t *b = op;

    place_parts(c, b, segment, 1);
    return ax_inter_gather(c, ax_out(c->seg, c->turn), c->node_bytes,
                           b->root < 0 ? -1 : ax_node_of(c, b->root), true);
}

static void take_gathered(accel_comm_t *c, void *op, size_t segment)
{
    const by_parts_t *b = op;
    const char *from = ax_out(c->seg, c->turn);
    size_t first = segment * b->most;

    if (b->root >= 0 && b->root != c->rank)
        return;
    for (int p = 0; p < c->size; p++) {
        int rank = c->rank_at[p];
        size_t n = ax_part_in(b->parts, rank, first, b->most);
        char *to = b->recv + ax_part_offset(b->parts, rank) + first;
        if (n)
            ax_pipe_copy(c, to, from, n);
        from += n;
    }
}

accel_status_t ax_nodes_gather(accel_comm_t *c, const char *send, char *recv,
                               const ax_parts_t *parts, int root,
                               accel_status_t mine)
{
    by_parts_t b = {.send = send,
                    .recv = recv,
                    .parts = parts,
                    .most = c->seg->slot_bytes / (size_t)c->size,
                    .root = root};
    ax_pipe_t pipe = {.op = &b,
                      .make = make_gathered,
                      .start = start_gathered,
                      .take = take_gathered};

    if (mine == ACCEL_OK)
        pipe.segments = segments_of(ax_longest_part(c, parts), b.most);
    return ax_pipe_run(c, &pipe, mine);
}
