/* Phases that move data and leave it as it is. */
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

/* ---- all-gather -------------------------------------------------------------
 */

static void get_direct(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    size_t first, count, mine, own = ax_part(p, p->node, &mine);

    (void)round;
    for (int k = 0; k < p->nodes; k++) {
        if (k == p->node)
            continue;
        count = ax_part(p, k, &first);
        ax_put_recv(put, k, AX_OUT, first, count);
        ax_put_send(put, k, AX_OUT, mine, own);
    }
}

/* What came in the last round goes on to the right. */
static void get_ring(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    long r = (long)round;
    size_t first, count;

    count = ax_part(p, ax_wrap(p, p->node - r - 1), &first);
    ax_put_recv(put, ax_wrap(p, p->node - 1), AX_OUT, first, count);
    count = ax_part(p, ax_wrap(p, p->node - r), &first);
    ax_put_send(put, ax_wrap(p, p->node + 1), AX_OUT, first, count);
}

static bool by_halving(const ax_plan_t *p)
{
    return p->way == AX_WAY_RABENSEIFNER;
}

static size_t get_doubling_rounds(const ax_plan_t *p)
{
    ax_fold_t f = ax_fold_of(p);

    return (size_t)f.rounds + (f.rest ? 1 + !by_halving(p) : 0);
}

/* Where the part of worker `index` begins: in Rabenseifner's way the workers
 * have equal slices, else each has its own and its even neighbour's part. */
static size_t begin_of(const ax_plan_t *p, const ax_fold_t *f, int index)
{
    size_t first, count;

    if (!by_halving(p)) {
        int node = index < f->rest ? 2 * index : index + f->rest;
        if (node < p->nodes) {
            ax_part(p, node, &first);
            return first;
        }
        count = ax_part(p, p->nodes - 1, &first);
        return first + count;
    }
    if (index == f->power)
        return p->count;
    ax_slice(p->count, p->element, f->power, index, &first, &count);
    return first;
}

static void get_doubling(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    ax_fold_t f = ax_fold_of(p);
    size_t first, count, all = begin_of(p, &f, f.power);
    size_t start = begin_of(p, &f, 0);
    bool even = p->node < 2 * f.rest && p->node % 2 == 0;
    bool odd = p->node < 2 * f.rest && !even;

    if (f.rest && !by_halving(p)) {
        if (round == 0) { /* the even ones hand theirs over */
            int k = even ? p->node : p->node - 1;
            count = even || odd ? ax_part(p, k, &first) : 0;
            if (even)
                ax_put_send(put, p->node + 1, AX_OUT, first, count);
            else if (odd)
                ax_put_recv(put, k, AX_OUT, first, count);
            return;
        }
        round--;
    }
    if (round == (size_t)f.rounds) { /* and get everything back */
        if (even)
            ax_put_recv(put, p->node + 1, AX_OUT, start, all - start);
        else if (odd)
            ax_put_send(put, p->node - 1, AX_OUT, start, all - start);
        return;
    }
    if (f.me < 0)
        return;
    int block = 1 << round;
    int mine = f.me & ~(block - 1), theirs = mine ^ block;
    int peer = ax_fold_node(&f, f.me ^ block);
    first = begin_of(p, &f, theirs);
    ax_put_recv(put, peer, AX_OUT, first,
                begin_of(p, &f, theirs + block) - first);
    first = begin_of(p, &f, mine);
    ax_put_send(put, peer, AX_OUT, first,
                begin_of(p, &f, mine + block) - first);
}

/* ---- gather and scatter -----------------------------------------------------
 */

static void gather_direct(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    size_t first, count;

    (void)round;
    for (int k = 0; k < p->nodes; k++) {
        count = ax_part(p, k, &first);
        if (k == p->node && k != p->root)
            ax_put_send(put, p->root, AX_OUT, first, count);
        else if (k != p->node && p->node == p->root)
            ax_put_recv(put, k, AX_OUT, first, count);
    }
}

static void scatter_direct(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    size_t first, count;

    (void)round;
    for (int k = 0; k < p->nodes; k++) {
        count = ax_part(p, k, &first);
        if (k == p->node && k != p->root)
            ax_put_recv(put, p->root, AX_OUT, 0, count);
        else if (k != p->node && p->node == p->root)
            ax_put_send(put, k, AX_ACC, first, count);
    }
}

/* ---- broadcast --------------------------------------------------------------
 */

static void tell_direct(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    (void)round;
    if (p->node != p->root)
        ax_put_recv(put, p->root, AX_OUT, 0, p->count);
    for (int k = 0; k < p->nodes; k++)
        if (p->node == p->root && k != p->root)
            ax_put_send(put, k, AX_OUT, 0, p->count);
}

static size_t tell_chain_rounds(const ax_plan_t *p)
{
    return ax_segments(p) + (size_t)p->nodes - 2;
}

static void tell_chain(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    size_t at = (size_t)ax_wrap(p, p->node - p->root); /* in the chain */
    size_t segments = ax_segments(p), first, count;

    if (at > 0 && round + 1 >= at && round + 1 - at < segments) {
        count = ax_segment(p, round + 1 - at, &first);
        ax_put_recv(put, ax_wrap(p, p->node - 1), AX_OUT, first, count);
    }
    if (at + 1 < (size_t)p->nodes && round >= at && round - at < segments) {
        count = ax_segment(p, round - at, &first);
        ax_put_send(put, ax_wrap(p, p->node + 1), AX_OUT, first, count);
    }
}

static size_t tree_rounds(const ax_plan_t *p)
{
    return (size_t)ax_log2_up(p->nodes);
}

static void tell_binomial(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    int at = ax_wrap(p, p->node - p->root); /* the root is 0 */
    int step = 1 << (tree_rounds(p) - 1 - round);
    int low = at & (2 * step - 1);

    if (low == step)
        ax_put_recv(put, ax_wrap(p, p->node - step), AX_OUT, 0, p->count);
    else if (low == 0 && at + step < p->nodes)
        ax_put_send(put, ax_wrap(p, p->node + step), AX_OUT, 0, p->count);
}

/* ---- all-to-all -------------------------------------------------------------
 */

static void swap_with(const ax_plan_t *p, int to, int from, ax_put_t *put)
{
    size_t first = p->parts2[from];
    size_t count = (p->ends2 ? p->ends2[from] : p->parts2[from + 1]) - first;

    ax_put_recv(put, from, AX_OUT, first, count);
    count = ax_part(p, to, &first);
    ax_put_send(put, to, AX_ACC, first, count);
}

static void swap_direct(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    (void)round;
    for (int k = 1; k < p->nodes; k++)
        swap_with(p, ax_wrap(p, p->node + k), ax_wrap(p, p->node - k), put);
}

static void swap_pairwise(const ax_plan_t *p, size_t round, ax_put_t *put)
{
    long k = (long)round + 1;

    swap_with(p, ax_wrap(p, p->node + k), ax_wrap(p, p->node - k), put);
}

const ax_phase_t ax_get_direct = {one_round, get_direct};
const ax_phase_t ax_get_ring = {round_trip, get_ring};
const ax_phase_t ax_get_doubling = {get_doubling_rounds, get_doubling};
const ax_phase_t ax_gather_direct = {one_round, gather_direct};
const ax_phase_t ax_scatter_direct = {one_round, scatter_direct};
const ax_phase_t ax_tell_direct = {one_round, tell_direct};
const ax_phase_t ax_tell_chain = {tell_chain_rounds, tell_chain};
const ax_phase_t ax_tell_binomial = {tree_rounds, tell_binomial};
const ax_phase_t ax_swap_direct = {one_round, swap_direct};
const ax_phase_t ax_swap_pairwise = {round_trip, swap_pairwise};
