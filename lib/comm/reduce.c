/* All-reduce, reduce and reduce-scatter. */
#include "comm/direct.h"
#include "comm/levels.h"
#include "comm/pipe.h"

#include <string.h>

/* Bytes that go through half a slot at a time: they stay in the second-level
 * cache on their way. */
#define PIECE (256u << 10)

static bool is_float(accel_dtype_t dtype)
{
    return dtype == ACCEL_F64 || dtype == ACCEL_F32 || dtype == ACCEL_F16 ||
           dtype == ACCEL_BF16;
}

static accel_status_t plan_reduction(const accel_comm_t *c, accel_dtype_t dtype,
                                     accel_op_t op, ax_reduction_t *r)
{
    static const ax_reduce_op_t ops[] = {AX_SUM, AX_SUM, AX_MIN, AX_MAX,
                                         AX_PROD};
    accel_status_t st = ax_check_dtype(dtype);

    if (st != ACCEL_OK)
        return st;
    if ((unsigned)op >= AX_ARRAY_SIZE(ops))
        return ax_fail(ACCEL_ERR_ARG, "comm: no such operator (%d)", (int)op);
    if (op == ACCEL_AVG && !is_float(dtype))
        return ax_fail(ACCEL_ERR_ARG,
                       "comm: no average of %s; sum and divide as you need",
                       accel_dtype_name(dtype));
    r->dtype = dtype;
    r->acc = ax_accumulator(dtype);
    r->element = ax_element(dtype);
    r->acc_element = ax_element(r->acc);
    r->op = ops[op];
    r->divisor = op == ACCEL_AVG ? c->size : 1.0;
    return ACCEL_OK;
}

/* ---- all-reduce ------------------------------------------------------------
 */

struct reduce_run {
    ax_reduction_t how;
    const char *send;
    size_t count, bytes; /* bytes: of `send` */
    char *recv;
    int root; /* -1: all get the result */
};

static bool gets_result(const accel_comm_t *c, const struct reduce_run *run)
{
    return run->root < 0 || run->root == c->rank;
}

/* The call, as the others shall see it, and what is wrong with it. */
static accel_status_t prepare(accel_comm_t *c, const ax_op_t *op,
                              struct reduce_run *run)
{
    bool scatters = op->kind == AX_CALL_REDUCE_SCATTER;
    bool rooted = op->kind == AX_CALL_REDUCE;
    accel_status_t st = plan_reduction(c, op->dtype, op->op, &run->how);

    c->call = (ax_call_t){.kind = (uint8_t)op->kind,
                          .count = run->count,
                          .dtype = (uint8_t)op->dtype,
                          .op = (uint8_t)op->op,
                          .root = rooted ? op->root : 0};
    if (st == ACCEL_OK)
        st = ax_check_count(c, run->count, op->dtype, scatters);
    if (st == ACCEL_OK && rooted)
        st = ax_check_root(c, op->root);
    if (st != ACCEL_OK)
        return st;
    size_t bytes = run->count * run->how.element;
    run->bytes = scatters ? bytes * (size_t)c->size : bytes;
    return ax_check_buffers(run->send, run->bytes, run->recv,
                            gets_result(c, run) ? bytes : 0, run->recv);
}

/* What goes along with the call: each rank reduces all it wants itself,
 * beginning at element `first`, in rank order as everywhere. */
static accel_status_t reduce_inline(accel_comm_t *c,
                                    const struct reduce_run *run, size_t bytes,
                                    size_t first, accel_status_t mine)
{
    const ax_reduction_t *r = &run->how;
    bool gets = mine == ACCEL_OK && run->count && gets_result(c, run);

    ax_announce(c, mine, run->send, bytes);
    if (gets)
        ax_sources_inline(c, run->send, bytes, first * r->element);
    accel_status_t st = ax_join(c, bytes);
    if (st == ACCEL_OK && gets)
        ax_reduce(&(ax_reduce_t){r->dtype, r->dtype, r->op, r->divisor},
                  run->recv, c->sources, c->local_size, run->count);
    return st;
}

/*
 * ---- much on one node: through the slots, piece by piece --------------------
 *
 * What lies in the heap needs no slot: where all have there what they send it
 * is read from there, where all have there what they want it is written there.
 * Bytes that each of p ranks loads and stores for n bytes of each:
 *
 *   sent    wanted     all-reduce             reduce (the root)
 *   heap    heap       n + n                  n + n/p
 *   heap    private    2n - n/p + n           n + n/p (2n + n)
 *   private heap       2n - n/p + 2n          2n - n/p + n
 *   private private    3n - n/p + 2n          2n - n/p + n (3n - n/p + 2n)
 */

/* Elements [first, first + count) go through the slots of `turn`: what the
 * others reduce in the first half of mine, what I reduced in the second. */
struct piece {
    size_t first, count;
    uint64_t turn;
};

static size_t piece_most(const accel_comm_t *c, const struct reduce_run *run)
{
    size_t most =
        c->seg->slot_bytes / 2 < PIECE ? c->seg->slot_bytes / 2 : PIECE;

    return most / run->how.element;
}

static struct piece piece_at(const accel_comm_t *c,
                             const struct reduce_run *run, uint64_t before,
                             size_t index)
{
    size_t most = piece_most(c, run), first = index * most;
    size_t left = run->count - first;

    return (struct piece){.first = first,
                          .count = left < most ? left : most,
                          .turn = before + 1 + index};
}

/* All but my own slice: nobody else reads that. */
static void give_piece(const accel_comm_t *c, const struct reduce_run *run,
                       struct piece p)
{
    size_t element = run->how.element, from, length;
    char *slot = ax_slot(c->seg, c->local_rank, p.turn);
    const char *send = run->send + p.first * element;

    ax_slice(p.count, element, c->local_size, c->local_rank, &from, &length);
    size_t end = from + length;
    if (length == 0)
        from = end = p.count;
    memcpy(slot, send, from * element);
    memcpy(slot + end * element, send + end * element,
           (p.count - end) * element);
}

static char *results_of(const accel_comm_t *c, int local, uint64_t turn)
{
    return ax_slot(c->seg, local, turn) + c->seg->slot_bytes / 2;
}

/* Results go to me, and to all who want them where that can be reached. */
static void put_piece(const accel_comm_t *c, const struct reduce_run *run,
                      size_t at, const char *results, size_t bytes)
{
    if (gets_result(c, run))
        memcpy(run->recv + at, results, bytes);
    for (int i = 0; ax_all_named(c, AX_COMES) && i < c->local_size; i++)
        if (i != c->local_rank &&
            (run->root < 0 || ax_rank_here(c, i) == run->root))
            memcpy(ax_heap_of(c, i, AX_COMES) + at, results, bytes);
}

/* My slice of all ranks', in rank order: for the others, and for me. */
static void reduce_piece(const accel_comm_t *c, const struct reduce_run *run,
                         struct piece p)
{
    const ax_reduction_t *r = &run->how;
    const void **src = c->sources;
    size_t from, length;

    ax_slice(p.count, r->element, c->local_size, c->local_rank, &from, &length);
    if (length == 0)
        return;
    for (int i = 0; i < c->local_size; i++)
        src[i] = i == c->local_rank ? run->send + (p.first + from) * r->element
                 : ax_all_named(c, AX_SENT)
                     ? ax_heap_of(c, i, AX_SENT) + (p.first + from) * r->element
                     : ax_slot(c->seg, i, p.turn) + from * r->element;
    char *out = results_of(c, c->local_rank, p.turn) + from * r->element;
    ax_reduce(&(ax_reduce_t){r->dtype, r->dtype, r->op, r->divisor}, out, src,
              c->local_size, length);
    put_piece(c, run, (p.first + from) * r->element, out, length * r->element);
}

static void take_piece(const accel_comm_t *c, const struct reduce_run *run,
                       struct piece p)
{
    size_t element = run->how.element, from, length;
    bool wants = gets_result(c, run) && !ax_all_named(c, AX_COMES);

    for (int i = 0; wants && i < c->local_size; i++) {
        ax_slice(p.count, element, c->local_size, i, &from, &length);
        if (i != c->local_rank && length)
            memcpy(run->recv + (p.first + from) * element,
                   results_of(c, i, p.turn) + from * element, length * element);
    }
}

/* The calls are the same; what do they name? *done: it is all in the heap. */
static accel_status_t begin_piped(accel_comm_t *c, struct reduce_run *run,
                                  struct piece first, bool *done)
{
    bool sent = ax_all_named(c, AX_SENT);

    *done = sent && ax_all_named(c, AX_COMES);
    if (*done)
        ax_reduce_direct(c, &run->how, run->count, run->root);
    else if (!sent && ax_has_named(c))
        give_piece(c, run, first);
    else if (sent)
        return ACCEL_OK;
    return c->any_named ? ax_node_barrier(c) : ACCEL_OK;
}

/* The call names what of it lies in the heap. */
static void note_buffers(accel_comm_t *c, const struct reduce_run *run)
{
    ax_heap_note(c, AX_SENT, run->send, run->bytes);
    ax_heap_note(c, AX_COMES, run->recv, gets_result(c, run) ? run->bytes : 0);
}

/* ---- the same by groups: chain.c -------------------------------------------
 */

/* Slots full of what is sent, which become results where they lie. */
static void copy_slot(const accel_comm_t *c, const struct reduce_run *run,
                      uint64_t index, bool take)
{
    size_t element = run->how.element, most = c->seg->slot_bytes / element;
    size_t first = (size_t)index * most;
    size_t n = run->count - first < most ? run->count - first : most;
    char *slot = ax_slot(c->seg, c->local_rank, c->turn + index);

    if (take)
        memcpy(run->recv + first * element, slot, n * element);
    else
        memcpy(slot, run->send + first * element, n * element);
}

static accel_status_t chain_slots(accel_comm_t *c, const struct reduce_run *run)
{
    size_t most = c->seg->slot_bytes / run->how.element;
    size_t slots = (run->count + most - 1) / most;
    ax_levels_t *l = c->levels;
    accel_status_t st = ACCEL_OK;

    for (size_t i = 0; i < slots && st == ACCEL_OK; i++) {
        size_t left = run->count - i * most;
        for (int r = 0; r < c->local_size; r++)
            l->sent[r] = l->comes[r] = ax_slot(c->seg, r, c->turn + i);
        st = ax_chain_allreduce(c, &run->how, left < most ? left : most);
        if (st == ACCEL_OK && i + 1 < slots)
            copy_slot(c, run, i + 1, false);
        if (st == ACCEL_OK)
            st = ax_node_barrier(c);
        if (st == ACCEL_OK && gets_result(c, run))
            copy_slot(c, run, i, true);
    }
    c->turn += slots - 1;
    return st;
}

static accel_status_t reduce_by_groups(accel_comm_t *c,
                                       const struct reduce_run *run)
{
    ax_levels_t *l = c->levels;
    accel_status_t st;

    c->turn++;
    if (!ax_has_named(c))
        copy_slot(c, run, 0, false);
    if ((st = ax_enter(c, ACCEL_OK)) != ACCEL_OK)
        return st;
    if (run->root < 0 && ax_all_named(c, AX_SENT) &&
        ax_all_named(c, AX_COMES)) {
        for (int r = 0; r < c->local_size; r++) {
            l->sent[r] = ax_heap_of(c, r, AX_SENT);
            l->comes[r] = ax_heap_of(c, r, AX_COMES);
        }
        st = ax_chain_allreduce(c, &run->how, run->count);
        return st == ACCEL_OK ? ax_node_barrier(c) : st;
    }
    if (ax_has_named(c))
        copy_slot(c, run, 0, false);
    if (c->any_named && (st = ax_node_barrier(c)) != ACCEL_OK)
        return st;
    return chain_slots(c, run);
}

/* ---- flat ------------------------------------------------------------------
 */

/*
 * One barrier for each piece: before it I give one, after it I reduce my
 * slice of that one and take the one before. A half of a slot is written
 * again two pieces later, when all have come past its readers.
 */
static accel_status_t reduce_piped(accel_comm_t *c, struct reduce_run *run,
                                   accel_status_t mine)
{
    uint64_t before = c->turn;
    size_t most = mine == ACCEL_OK ? piece_most(c, run) : 1;
    size_t pieces = mine == ACCEL_OK ? (run->count + most - 1) / most : 0;
    bool done = false;
    accel_status_t st = ACCEL_OK;

    if (pieces == 0)
        return ax_enter(c, mine);
    note_buffers(c, run);
    if (ax_chain_better(c, &run->how, run->count))
        return reduce_by_groups(c, run);
    for (size_t i = 0; i <= pieces && st == ACCEL_OK && !done; i++) {
        struct piece p = piece_at(c, run, before, i < pieces ? i : 0);
        if (i < pieces && (i ? !ax_all_named(c, AX_SENT) : !ax_has_named(c)))
            give_piece(c, run, p);
        st = i ? ax_node_barrier(c) : ax_enter(c, ACCEL_OK);
        if (st == ACCEL_OK && i == 0)
            st = begin_piped(c, run, p, &done);
        if (st != ACCEL_OK || done)
            break;
        if (i < pieces)
            reduce_piece(c, run, p);
        if (i > 0)
            take_piece(c, run, piece_at(c, run, before, i - 1));
    }
    if (st == ACCEL_OK)
        c->turn = before + pieces;
    return st;
}

/* A world of one: the result is what is sent. */
static accel_status_t copy_alone(accel_comm_t *c, const struct reduce_run *run,
                                 accel_status_t mine)
{
    accel_status_t st = ax_enter(c, mine);

    if (st == ACCEL_OK && run->count && run->send != run->recv)
        memcpy(run->recv, run->send, run->count * run->how.element);
    return st;
}

/* So little that each rank reduces all of it itself. */
static accel_status_t reduce_little(accel_comm_t *c,
                                    const struct reduce_run *run,
                                    accel_status_t mine)
{
    accel_status_t st;

    c->turn++;
    if (mine == ACCEL_OK && run->bytes)
        memcpy(ax_slot(c->seg, c->local_rank, c->turn), run->send, run->bytes);
    st = ax_enter(c, mine);
    if (st == ACCEL_OK && run->count && gets_result(c, run))
        ax_reduce_slots(c, &run->how, run->recv, true, 0, run->count);
    return st;
}

/* What it is for several nodes. */
static ax_nodes_reduce_t of_nodes(const accel_comm_t *c,
                                  const struct reduce_run *run)
{
    return (ax_nodes_reduce_t){.how = &run->how,
                               .send = run->send,
                               .recv = gets_result(c, run) ? run->recv : NULL,
                               .count = run->count,
                               .root = run->root};
}

static accel_status_t allreduce(accel_comm_t *c, struct reduce_run *run,
                                accel_status_t mine)
{
    if (c->size == 1)
        return copy_alone(c, run, mine);
    if (ax_is_inline(c, run->bytes))
        return reduce_inline(c, run, run->bytes, 0, mine);
    if (c->nodes > 1) {
        ax_nodes_reduce_t nodes = of_nodes(c, run);
        return ax_nodes_reduce(c, &nodes, mine);
    }
    if (run->bytes * (size_t)c->local_size > AX_SMALL)
        return reduce_piped(c, run, mine);
    return reduce_little(c, run, mine);
}

accel_status_t ax_do_allreduce(accel_comm_t *c, const ax_op_t *op)
{
    struct reduce_run run; /* not a literal: see accel_comm_allreduce() */

    run.how.element = 0;
    run.send = op->send;
    run.recv = op->recv;
    run.count = op->count;
    run.bytes = 0;
    run.root = -1;
    return allreduce(c, &run, prepare(c, op, &run));
}

accel_status_t ax_do_reduce(accel_comm_t *c, const ax_op_t *op)
{
    struct reduce_run run = {.send = op->send,
                             .recv = c->rank == op->root ? op->recv : NULL,
                             .count = op->count,
                             .root = op->root < 0 ? c->size : op->root};

    return allreduce(c, &run, prepare(c, op, &run));
}

/* ---- reduce-scatter --------------------------------------------------------
 */

/* Copies a chunk of each rank's part into my slot, by position. */
static void fill_slot(accel_comm_t *c, const struct reduce_run *run,
                      const ax_parts_t *parts, size_t first, size_t most)
{
    char *slot = ax_slot(c->seg, c->local_rank, c->turn);
    size_t at = 0;

    for (int p = 0; p < c->size; p++) {
        int rank = c->rank_at[p];
        size_t n = ax_part_in(parts, rank, first, most);
        if (n && rank != c->rank)
            memcpy(slot + at, run->send + ax_part_offset(parts, rank) + first,
                   n);
        c->part_at[p] = at / run->how.element;
        at += n;
    }
    c->part_at[c->size] = at / run->how.element;
}

/* A chunk of my part: of all ranks' slots, and of what I send. In place the
 * result lies before what is read, or upon it. */
static void reduce_part(const accel_comm_t *c, const struct reduce_run *run,
                        const ax_parts_t *parts, size_t first)
{
    const ax_reduction_t *r = &run->how;
    const size_t *at = c->part_at + c->position[c->rank];
    const void **src = c->sources;

    if (at[1] == at[0])
        return;
    for (int i = 0; i < c->local_size; i++)
        src[i] = ax_slot(c->seg, i, c->turn) + at[0] * r->element;
    src[c->local_rank] = run->send + ax_part_offset(parts, c->rank) + first;
    ax_reduce(&(ax_reduce_t){r->dtype, r->dtype, r->op, r->divisor},
              run->recv + first, src, c->local_size, at[1] - at[0]);
}

/*
 * All that is sent lies in the heap: my part straight from there. For n bytes
 * of each of p ranks that is n loads and n/p stores; through the slots 2n and
 * n + n/p. In place the result first goes where only I read, as others may
 * still read what it is to cover: n/p more of both.
 */
static accel_status_t scatter_heap(accel_comm_t *c,
                                   const struct reduce_run *run,
                                   const ax_parts_t *parts)
{
    size_t at = ax_part_offset(parts, c->rank);
    char *to = run->send == run->recv ? run->recv + at : run->recv;
    accel_status_t st;

    if (run->count)
        ax_reduce_named(c, &run->how, to, at, run->count);
    st = ax_node_barrier(c); /* before anybody writes there again */
    if (st == ACCEL_OK && run->count && to != run->recv)
        memmove(run->recv, to, run->count * run->how.element);
    return st;
}

static void note_sent(accel_comm_t *c, const struct reduce_run *run,
                      accel_status_t mine)
{
    if (mine == ACCEL_OK && c->nodes == 1 && run->bytes > AX_SMALL)
        ax_heap_note(c, AX_SENT, run->send, run->bytes);
}

static accel_status_t reduce_scatter(accel_comm_t *c, struct reduce_run *run,
                                     const ax_parts_t *parts,
                                     accel_status_t mine)
{
    size_t element = run->how.element ? run->how.element : 1;
    size_t most = c->seg->slot_bytes / (element * (size_t)c->size) * element;
    size_t longest = mine == ACCEL_OK ? ax_longest_part(c, parts) : 0;
    accel_status_t st;

    if (c->size == 1)
        return copy_alone(c, run, mine);
    if (c->nodes > 1) {
        ax_nodes_reduce_t nodes = of_nodes(c, run);
        return ax_nodes_reduce_scatter(c, &nodes, parts, mine);
    }
    if (ax_is_inline(c, run->bytes))
        return reduce_inline(
            c, run, run->bytes,
            mine == ACCEL_OK ? ax_part_offset(parts, c->rank) / element : 0,
            mine);
    for (size_t first = 0; first == 0 || first < longest; first += most) {
        c->turn++;
        if (mine == ACCEL_OK && (first || !ax_has_named(c)))
            fill_slot(c, run, parts, first, most);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || longest == 0)
            return st;
        if (first == 0 && c->any_named) {
            if (ax_all_named(c, AX_SENT))
                return scatter_heap(c, run, parts);
            if (ax_has_named(c))
                fill_slot(c, run, parts, first, most);
            if ((st = ax_node_barrier(c)) != ACCEL_OK)
                return st;
        }
        reduce_part(c, run, parts, first);
    }
    return ACCEL_OK;
}

accel_status_t ax_do_reduce_scatter(accel_comm_t *c, const ax_op_t *op)
{
    struct reduce_run run = {
        .send = op->send, .recv = op->recv, .count = op->count, .root = -1};
    accel_status_t mine = prepare(c, op, &run);
    ax_parts_t parts = {.each =
                            mine == ACCEL_OK ? op->count * run.how.element : 0};

    note_sent(c, &run, mine);
    return reduce_scatter(c, &run, &parts, mine);
}

accel_status_t ax_do_reduce_scatterv(accel_comm_t *c, const ax_op_t *op)
{
    struct reduce_run run = {.send = op->send, .recv = op->recv, .root = -1};
    ax_table_t table = {0};
    ax_parts_t parts = {.table = &table};
    accel_status_t st, mine;

    c->call = (ax_call_t){.kind = AX_CALL_REDUCE_SCATTERV,
                          .dtype = (uint8_t)op->dtype,
                          .op = (uint8_t)op->op};
    mine = plan_reduction(c, op->dtype, op->op, &run.how);
    if (mine == ACCEL_OK)
        mine = ax_table_make(c, &op->to, op->dtype, "sent", &table);
    if (mine == ACCEL_OK) {
        run.count = table.bytes[c->rank] / run.how.element;
        run.bytes = table.total;
        c->call.count = table.total / run.how.element;
        c->call.root = ax_table_mark(c, &table);
        mine = ax_check_buffers(op->send, table.total, op->recv,
                                table.bytes[c->rank], op->recv);
    }
    note_sent(c, &run, mine);
    st = reduce_scatter(c, &run, &parts, mine);
    ax_table_free(&table);
    return st;
}
