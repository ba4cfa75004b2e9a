/*
 * A world of nodes that play a plan without a network: what is sent in a round
 * is received in it, or an assertion fails.
 */
#ifndef PLAN_WORLD_H
#define PLAN_WORLD_H

#include "unit/unit.h"

#include "comm/model.h"

#include <stdlib.h>
#include <string.h>

/*
 * Elements are strings of node numbers, hashed so that only the right nodes,
 * each once, in the right order, give the right value: a sum of n nodes'
 * elements is the sum of one term for each (that tells who is in it) and a
 * second number that depends on the order of adding.
 */
typedef struct cell {
    uint64_t sum;
    uint64_t order;
} cell_t;

static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline cell_t element(int node, size_t i)
{
    uint64_t v = mix((uint64_t)node << 32 ^ i ^ 12345);

    return (cell_t){v, v};
}

/* (a then b): not associative, as floating-point sums are not. */
static inline cell_t plus(cell_t a, cell_t b)
{
    return (cell_t){a.sum + b.sum, mix(a.order * 3 + b.order)};
}

/* ---- a world of plans -------------------------------------------------------
 */

typedef struct node {
    ax_plan_t plan;
    cell_t *acc, *out, *room;
    ax_step_t *steps;
    size_t nsteps;
} node_t;

typedef struct world {
    int nodes;
    size_t count; /* room for so many elements in ACC and OUT */
    node_t *at;
    /* found while playing */
    size_t rounds, messages, sent, critical;
    size_t busiest; /* elements that one node sent */
    size_t *sent_by;
} world_t;

static inline void *need(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);

    assert_non_null(p);
    return p;
}

static inline void open_world(world_t *w, const ax_plan_t *ask, size_t count)
{
    *w = (world_t){.nodes = ask->nodes, .count = count};
    w->at = need((size_t)w->nodes, sizeof *w->at);
    w->sent_by = need((size_t)w->nodes, sizeof *w->sent_by);
    for (int k = 0; k < w->nodes; k++) {
        node_t *n = &w->at[k];
        n->plan = *ask;
        n->plan.node = k;
        n->acc = need(count, sizeof *n->acc);
        n->out = need(count, sizeof *n->out);
        n->room = need(ax_plan_room(&n->plan), sizeof *n->room);
        n->steps = need(ax_plan_most(&n->plan), sizeof *n->steps);
        for (size_t i = 0; i < count; i++)
            n->acc[i] = element(k, i);
    }
    w->rounds = ax_plan_rounds(&w->at[0].plan);
}

static inline void close_world(world_t *w)
{
    for (int k = 0; k < w->nodes; k++) {
        free(w->at[k].acc);
        free(w->at[k].out);
        free(w->at[k].room);
        free(w->at[k].steps);
    }
    free(w->at);
    free(w->sent_by);
}

static inline cell_t *place(node_t *n, const ax_step_t *s, size_t count)
{
    size_t most = s->place == AX_ROOM ? ax_plan_room(&n->plan) : count;

    assert_true(s->first + s->count <= most);
    return (s->place == AX_ACC   ? n->acc
            : s->place == AX_OUT ? n->out
                                 : n->room) +
           s->first;
}

/* The one message of this round from `from` to `to`. */
static inline ax_step_t *sent_to(world_t *w, int from, int to)
{
    ax_step_t *found = NULL;

    for (size_t i = 0; i < w->at[from].nsteps; i++) {
        ax_step_t *s = &w->at[from].steps[i];
        if (s->act != AX_SEND || s->peer != to)
            continue;
        assert_null(found);
        found = s;
    }
    return found;
}

static inline void receive(world_t *w, int k, ax_step_t *s)
{
    ax_step_t *sent = sent_to(w, s->peer, k);

    assert_non_null(sent);
    assert_int_equal(sent->count, s->count);
    memcpy(place(&w->at[k], s, w->count),
           place(&w->at[s->peer], sent, w->count), s->count * sizeof(cell_t));
    sent->peer = -1; /* it has come: no other may take it */
}

static inline void fold(world_t *w, node_t *n, const ax_step_t *s)
{
    assert_true(s->to + s->count <= w->count);
    for (size_t i = 0; i < s->count; i++) {
        cell_t all = {0};
        for (int k = 0; k < w->nodes; k++) {
            size_t at = (size_t)((k - s->turn + w->nodes) % w->nodes);
            cell_t one = k == n->plan.node ? n->acc[s->first + i]
                                           : n->room[at * s->stride + i];
            all = k ? plus(all, one) : one;
        }
        n->out[s->to + i] = all;
    }
}

static inline void local(world_t *w, node_t *n, const ax_step_t *s)
{
    if (s->act == AX_FOLD) {
        fold(w, n, s);
        return;
    }
    assert_true(s->first + s->count <= w->count);
    for (size_t i = 0; i < s->count; i++) {
        cell_t *mine = &n->acc[s->first + i];
        if (s->act == AX_COPY)
            n->room[s->to + i] = *mine;
        else if (s->act == AX_FINISH)
            n->out[s->to + i] = *mine;
        else
            *mine =
                s->before ? plus(n->room[i], *mine) : plus(*mine, n->room[i]);
    }
}

static inline void count_traffic(world_t *w)
{
    size_t most = 0;

    for (int k = 0; k < w->nodes; k++) {
        size_t out = 0, in = 0;
        for (size_t i = 0; i < w->at[k].nsteps; i++) {
            const ax_step_t *s = &w->at[k].steps[i];
            w->messages += s->act == AX_SEND;
            out += s->act == AX_SEND ? s->count : 0;
            in += s->act == AX_RECV ? s->count : 0;
        }
        w->sent += out;
        w->sent_by[k] += out;
        if (w->sent_by[k] > w->busiest)
            w->busiest = w->sent_by[k];
        most = out > most ? out : most;
        most = in > most ? in : most;
    }
    w->critical += most;
}

/* All nodes make round after round: what is sent is received in it. */
static inline void play(world_t *w)
{
    for (size_t round = 0; round < w->rounds; round++) {
        for (int k = 0; k < w->nodes; k++) {
            node_t *n = &w->at[k];
            n->nsteps = ax_plan_round(&n->plan, round, n->steps);
            assert_true(n->nsteps <= ax_plan_most(&n->plan));
            assert_int_equal(ax_plan_rounds(&n->plan), w->rounds);
        }
        count_traffic(w);
        for (int k = 0; k < w->nodes; k++)
            for (size_t i = 0; i < w->at[k].nsteps; i++)
                if (w->at[k].steps[i].act == AX_RECV)
                    receive(w, k, &w->at[k].steps[i]);
        for (int k = 0; k < w->nodes; k++)
            for (size_t i = 0; i < w->at[k].nsteps; i++) {
                const ax_step_t *s = &w->at[k].steps[i];
                if (s->act == AX_SEND)
                    assert_int_equal(s->peer, -1); /* all were received */
                else if (s->act != AX_RECV)
                    local(w, &w->at[k], s);
            }
    }
}

#endif
