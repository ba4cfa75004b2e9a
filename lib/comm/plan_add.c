/* Phases that add: by parts, all at once, or towards a root. */
#include "comm/plan_priv.h"

static size_t one_round(const ax_plan_t *p)
{
    (void)p;
    return 1;
}

static size_t round_trip(const ax_plan_t *p)
{
    return (size_t)p->nodes - 1;
}

/* Where this node's part of the result begins in OUT. */
static size_t out_of(const ax_plan_t *p, size_t first)
{
    return p->kind == AX_PLAN_REDUCE_SCATTER ? 0 : first;
}

static void put_add(ax_put_t *put, size_t first, size_t count, bool before)
{
    ax_put(put, (ax_step_t){.act = AX_ADD,
                            .first = first,
                            .count = count,
                            .before = before});
}

static void put_finish(ax_put_t *put, size_t first, size_t count, size_t to)
{
    ax_put(put,
           (ax_step_t){
               .act = AX_FINISH, .first = first, .count = count, .to = to});
}

/* ---- each node its part -----------------------------------------------------
 */

static void put_fold_part(const ax_plan_t *p, ax_put_t *put)
{
    size_t first, count = ax_part(p, p->node, &first);

    ax_put(put, (ax_step_t){.act = AX_FOLD,
                            .first = first,
                            .count = count,
                            .to = out_of(p, first),
                            .stride = count});
}

/* Send `to` its part, and get mine from `from`. */
static void swap_parts(const ax_plan_t *p, int to, int from, ax_put_t *put)
{
    size_t first, count, mine = ax_part(p, p->node, &first);

    ax_put_recv(put, from, AX_ROOM, (size_t)from * mine, mine);
    count = ax_part(p, to, &first);
    ax_put_send(put, to, AX_ACC, first, count);
}

static void part_direct(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    (void)round;
    for (int k = 1; k < p->nodes; k++)
        swap_parts(p, ax_wrap(p, p->node + k), ax_wrap(p, p->node - k), put);
    put_fold_part(p, put);
}

static void part_pairwise(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    long k = (long)round + 1;

    swap_parts(p, ax_wrap(p, p->node + k), ax_wrap(p, p->node - k), put);
    if (k == p->nodes - 1)
        put_fold_part(p, put);
}

/* Part k starts at node k + 1 and ends, added up, at node k. */
static void part_ring(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    long r = (long)round;
    size_t first, count;

    count = ax_part(p, ax_wrap(p, p->node - r - 2), &first);
    ax_put_recv(put, ax_wrap(p, p->node - 1), AX_ROOM, 0, count);
    size_t at = first, n = count;
    count = ax_part(p, ax_wrap(p, p->node - r - 1), &first);
    ax_put_send(put, ax_wrap(p, p->node + 1), AX_ACC, first, count);
    put_add(put, at, n, true);
    if (r == p->nodes - 2)
        put_finish(put, at, n, out_of(p, at));
}

/* Of the first 2 * rest nodes the even ones give all they have to the odd. */
static void give_to_odd(const ax_plan_t *p, const ax_fold_t *f, ax_put_t *put)
{
    if (p->node >= 2 * f->rest)
        return;
    if (p->node % 2 == 0) {
        ax_put_send(put, p->node + 1, AX_ACC, 0, p->count);
        return;
    }
    ax_put_recv(put, p->node - 1, AX_ROOM, 0, p->count);
    put_add(put, 0, p->count, true);
}

static size_t halving_rounds(const ax_plan_t *p)
{
    ax_fold_t f = ax_fold_of(p);

    return (size_t)f.rounds + (f.rest != 0);
}

static size_t begin_of(const ax_plan_t *p, const ax_fold_t *f, int index)
{
    size_t first, count;

    if (index == f->power)
        return p->count;
    ax_slice(p->count, p->element, f->power, index, &first, &count);
    return first;
}

static void part_halving(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    ax_fold_t f = ax_fold_of(p);
    size_t first, count;

    if (f.rest && round == 0) {
        give_to_odd(p, &f, put);
        return;
    }
    if (f.me < 0)
        return;
    int block = f.power >> (round + (f.rest == 0));
    int keep = f.me & ~(block - 1), give = keep ^ block;
    int peer = ax_fold_node(&f, f.me ^ block);
    first = begin_of(p, &f, give);
    ax_put_send(put, peer, AX_ACC, first,
                begin_of(p, &f, give + block) - first);
    first = begin_of(p, &f, keep);
    count = begin_of(p, &f, keep + block) - first;
    ax_put_recv(put, peer, AX_ROOM, 0, count);
    put_add(put, first, count, peer < p->node);
    if (block == 1)
        put_finish(put, first, count, first);
}

/* ---- all nodes everything ---------------------------------------------------
 */

static void all_direct(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    (void)round;
    for (int k = 0; k < p->nodes; k++) {
        if (k == p->node)
            continue;
        ax_put_recv(put, k, AX_ROOM, (size_t)k * p->count, p->count);
        ax_put_send(put, k, AX_ACC, 0, p->count);
    }
    ax_put(put,
           (ax_step_t){.act = AX_FOLD, .count = p->count, .stride = p->count});
}

static size_t bruck_rounds(const ax_plan_t *p)
{
    return 1 + (size_t)ax_log2_up(p->nodes);
}

/* ROOM holds the nodes' elements from my own on; each round doubles them. */
static void all_bruck(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    if (round == 0) {
        ax_put(put, (ax_step_t){.act = AX_COPY, .count = p->count});
        return;
    }
    int have = 1 << (round - 1);
    int more = p->nodes - have < have ? p->nodes - have : have;
    size_t n = (size_t)more * p->count;

    ax_put_recv(put, ax_wrap(p, p->node + have), AX_ROOM,
                (size_t)have * p->count, n);
    ax_put_send(put, ax_wrap(p, p->node - have), AX_ROOM, 0, n);
    if (have + more == p->nodes)
        ax_put(put, (ax_step_t){.act = AX_FOLD,
                                .count = p->count,
                                .stride = p->count,
                                .turn = p->node});
}

static size_t doubling_rounds(const ax_plan_t *p)
{
    ax_fold_t f = ax_fold_of(p);

    return (size_t)f.rounds + (f.rest ? 2 : 0);
}

static void all_doubling(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    ax_fold_t f = ax_fold_of(p);
    bool rest = p->node < 2 * f.rest;

    if (f.rest && round == 0) {
        give_to_odd(p, &f, put);
        return;
    }
    int step = 1 << (round - (f.rest != 0));
    if (step == f.power) { /* the even ones get the result */
        if (rest && f.me < 0)
            ax_put_recv(put, p->node + 1, AX_OUT, 0, p->count);
        else if (rest)
            ax_put_send(put, p->node - 1, AX_OUT, 0, p->count);
        return;
    }
    if (f.me < 0)
        return;
    int peer = ax_fold_node(&f, f.me ^ step);
    ax_put_recv(put, peer, AX_ROOM, 0, p->count);
    ax_put_send(put, peer, AX_ACC, 0, p->count);
    put_add(put, 0, p->count, peer < p->node);
    if (2 * step == f.power)
        put_finish(put, 0, p->count, 0);
}

/* ---- the chain --------------------------------------------------------------
 */

/* Segment by segment from node 0 to the last, each adding its own. */
static void add_along(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    size_t at = (size_t)p->node, last = (size_t)p->nodes - 1;
    size_t segments = ax_segments(p), first, count;

    if (at < last && round >= at && round - at < segments) {
        count = ax_segment(p, round - at, &first);
        ax_put_send(put, p->node + 1, AX_ACC, first, count);
    }
    if (at > 0 && round + 1 >= at && round + 1 - at < segments) {
        count = ax_segment(p, round + 1 - at, &first);
        ax_put_recv(put, p->node - 1, AX_ROOM, 0, count);
    }
}

/* After the messages: what came is added; *count elements from *first on. */
static bool added_along(const ax_plan_t *p, size_t round, ax_put_t *put,
                        size_t *first, size_t *count)
{
    size_t at = (size_t)p->node;

    if (at == 0 || round + 1 < at || round + 1 - at >= ax_segments(p))
        return false;
    *count = ax_segment(p, round + 1 - at, first);
    put_add(put, *first, *count, true);
    return true;
}

static size_t all_chain_rounds(const ax_plan_t *p)
{
    return ax_segments(p) + 2 * (size_t)p->nodes - 3;
}

/* The last node's results go back the same way while others still come. */
static void all_chain(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    size_t last = (size_t)p->nodes - 1, from_end = last - (size_t)p->node;
    size_t segments = ax_segments(p), first, count;
    size_t sent = last + from_end; /* when segment 0 goes back */

    add_along(p, round, put);
    if (from_end > 0 && round + 1 >= sent && round + 1 - sent < segments) {
        count = ax_segment(p, round + 1 - sent, &first);
        ax_put_recv(put, p->node + 1, AX_OUT, first, count);
    }
    if (p->node > 0 && round >= sent && round - sent < segments) {
        count = ax_segment(p, round - sent, &first);
        ax_put_send(put, p->node - 1, AX_OUT, first, count);
    }
    if (added_along(p, round, put, &first, &count) && from_end == 0)
        put_finish(put, first, count, first);
}

static size_t root_chain_rounds(const ax_plan_t *p)
{
    bool hop = p->root != p->nodes - 1;

    return ax_segments(p) + (size_t)p->nodes - 2 + hop;
}

/* To the last node, and from there to the root. */
static void root_chain(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    size_t last = (size_t)p->nodes - 1, first, count;
    bool hop = p->root != p->nodes - 1;
    bool back = hop && round >= last && round - last < ax_segments(p);
    size_t got = 0, n = 0;

    add_along(p, round, put);
    if (back) {
        n = ax_segment(p, round - last, &got);
        if (p->node == p->nodes - 1)
            ax_put_send(put, p->root, AX_ACC, got, n);
        else if (p->node == p->root)
            ax_put_recv(put, p->nodes - 1, AX_ACC, got, n);
    }
    if (added_along(p, round, put, &first, &count) && !hop &&
        p->node == p->root)
        put_finish(put, first, count, first);
    if (back && p->node == p->root)
        put_finish(put, got, n, got);
}

/* ---- towards a root ---------------------------------------------------------
 */

static void root_direct(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    (void)round;
    if (p->node != p->root) {
        ax_put_send(put, p->root, AX_ACC, 0, p->count);
        return;
    }
    for (int k = 0; k < p->nodes; k++)
        if (k != p->root)
            ax_put_recv(put, k, AX_ROOM, (size_t)k * p->count, p->count);
    ax_put(put,
           (ax_step_t){.act = AX_FOLD, .count = p->count, .stride = p->count});
}

static size_t tree_rounds(const ax_plan_t *p)
{
    return (size_t)ax_log2_up(p->nodes);
}

static void root_binomial(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    int at = ax_wrap(p, p->node - p->root); /* the root is 0 */
    int step = 1 << round;
    int low = at & (2 * step - 1);

    if (low == step) {
        ax_put_send(put, ax_wrap(p, p->node - step), AX_ACC, 0, p->count);
    } else if (low == 0 && at + step < p->nodes) {
        int peer = ax_wrap(p, p->node + step);
        ax_put_recv(put, peer, AX_ROOM, 0, p->count);
        put_add(put, 0, p->count, peer < p->node);
    }
    if (at == 0 && round + 1 == tree_rounds(p))
        put_finish(put, 0, p->count, 0);
}

const ax_phase_t ax_all_direct = {one_round, all_direct};
const ax_phase_t ax_all_bruck = {bruck_rounds, all_bruck};
const ax_phase_t ax_all_chain = {all_chain_rounds, all_chain};
const ax_phase_t ax_all_doubling = {doubling_rounds, all_doubling};
const ax_phase_t ax_part_direct = {one_round, part_direct};
const ax_phase_t ax_part_pairwise = {round_trip, part_pairwise};
const ax_phase_t ax_part_ring = {round_trip, part_ring};
const ax_phase_t ax_part_halving = {halving_rounds, part_halving};
const ax_phase_t ax_root_direct = {one_round, root_direct};
const ax_phase_t ax_root_chain = {root_chain_rounds, root_chain};
const ax_phase_t ax_root_binomial = {tree_rounds, root_binomial};
