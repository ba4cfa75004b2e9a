/*
 * Rails: the ranks of a node share out a large message between nodes, so that
 * more than one core and all network devices are busy. Rank i of a node talks
 * to rank i of the others; what a node has more than the smallest one only
 * adds and copies inside it.
 */
#include "comm/inter_priv.h"

#include <string.h>

/* ---- which is better --------------------------------------------------------
 */

/* Where ranks show each other what they have measured: a rank in a collective
 * sends no message, so its room is free. */
static ax_model_t *board(const accel_comm_t *c, int local)
{
    return (ax_model_t *)(void *)c->seg->posts[local].room;
}

/* The leaders alone, then all rails at once, as they will work. */
static accel_status_t measure(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    ax_model_t *mine = board(c, c->local_rank);
    accel_status_t st = ACCEL_OK;

    if (ax_is_leader(c) && (st = ax_inter_measure(c)) != ACCEL_OK)
        return st;
    if (ax_is_leader(c))
        mine[0] = x->model;
    if ((st = ax_node_barrier(c)) != ACCEL_OK)
        return st;
    x->model = board(c, 0)[0];
    if (c->local_rank < c->rails &&
        (st = ax_rail_measure(c, &mine[1])) != ACCEL_OK)
        return st;
    if ((st = ax_node_barrier(c)) != ACCEL_OK)
        return st;
    x->rail_model = board(c, 0)[1];
    for (int i = 1; i < c->rails; i++)
        ax_model_worst(&x->rail_model, &board(c, i)[1]);
    x->rails_measured = true;
    if (c->rank == 0 &&
        strcmp(ax_settings_str(c->settings, "debug"), "tuning") == 0)
        ax_log(AX_LOG_REPORT,
               "tuning: %d rails at once: %.2f us a round, %.2f GB/s to one on "
               "each",
               c->rails, x->rail_model.round * 1e6, 1e-9 / x->rail_model.byte);
    return ax_node_barrier(c); /* all have read it */
}

static ax_ask_t slice_of(const accel_comm_t *c, const ax_ask_t *ask)
{
    ax_ask_t slice = *ask;

    slice.acc_bytes /= c->rails;
    slice.out_bytes /= c->rails;
    return slice;
}

accel_status_t ax_rail_better(accel_comm_t *c, const ax_ask_t *ask, bool *yes)
{
    ax_inter_t *x = c->inter;
    /* Small on any node is small on the smallest, which all know: such a
     * message is latency, and lies ready for the leader only. */
    bool small = ask->out_bytes * c->rails <= AX_SMALL;
    ax_ask_t slice = slice_of(c, ask);
    accel_status_t st;

    *yes = x->rails_forced > 0;
    if (c->rails < 2 || x->rails_forced == 0 || small) {
        *yes = false;
        return ACCEL_OK;
    }
    if (!x->rails_measured && (st = measure(c)) != ACCEL_OK)
        return st;
    if (*yes)
        return ACCEL_OK;
    double lone =
        ax_model_time(&x->model, ask, ax_model_choose(&x->model, ask));
    double rails = ax_model_time(&x->rail_model, &slice,
                                 ax_model_choose(&x->rail_model, &slice));
    *yes = rails < lone;
    return ACCEL_OK;
}

/* ---- a slice ----------------------------------------------------------------
 */

/* Slice `index` of `pieces` of each node's part. */
static void cut(const accel_comm_t *c, const size_t *parts, int pieces,
                size_t element, size_t *slices, size_t *ends)
{
    int index = pieces > 1 ? c->local_rank : 0;
    size_t first, count;

    for (int k = 0; k < c->nodes; k++) {
        ax_slice(parts[k + 1] - parts[k], element, pieces, index, &first,
                 &count);
        slices[k] = parts[k] + first;
        ends[k] = slices[k] + count;
    }
}

/* Of a plan with parts, which it copies: the caller may go on to others. */
static void cut_parts(accel_comm_t *c, ax_exec_t *run, ax_plan_t *plan,
                      int pieces)
{
    ax_inter_t *x = c->inter;
    size_t mine = plan->parts[c->node];
    bool own =
        plan->kind == AX_PLAN_REDUCE_SCATTER || plan->kind == AX_PLAN_SCATTER;

    cut(c, plan->parts, pieces, plan->element, x->slices, x->ends);
    if (own) /* OUT is this node's part only */
        run->out +=
            (x->slices[c->node] - mine) * (run->how ? run->how->element : 1);
    plan->parts = x->slices;
    plan->ends = x->ends;
    if (!plan->parts2)
        return;
    cut(c, plan->parts2, pieces, plan->element, x->slices2, x->ends2);
    plan->parts2 = x->slices2;
    plan->ends2 = x->ends2;
}

accel_status_t ax_rail_start(accel_comm_t *c, const ax_ask_t *ask,
                             const ax_exec_t *what, int pieces)
{
    ax_inter_t *x = c->inter;
    ax_plan_t plan = *what->plan;
    ax_exec_t run = *what;
    ax_ask_t slice = pieces > 1 ? slice_of(c, ask) : *ask;
    size_t first = 0;

    run.plan = &plan;
    slice.cut = pieces > 1 && plan.parts;
    if (plan.parts) {
        cut_parts(c, &run, &plan, pieces);
    } else if (pieces > 1) {
        ax_slice(what->plan->count, plan.element, pieces, c->local_rank, &first,
                 &plan.count);
        run.acc += run.how ? first * run.how->acc_element : 0;
        run.out += first * (run.how ? run.how->element : 1);
    }
    for (int k = 0; pieces > 1 && k < c->nodes; k++) /* all are in this call */
        x->peers[k].last = AX_LAST(c->call.kind, c->call.seq);
    ax_inter_choose(c, pieces > 1 ? &x->rail_model : &x->model, &slice, &plan);
    return ax_exec_start(c, &run);
}
