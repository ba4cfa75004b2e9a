/*
 * What a round and a byte cost between these nodes. All leaders measure at the
 * same time, which is also how they will work; about a millisecond, once. Of
 * all nodes the slowest counts.
 */
#include "comm/inter_priv.h"

#include <string.h>

#define FEW 8u           /* bytes of a message that is all latency */
#define LONG (64u << 10) /* and of one that is all bytes */
#define LEAST (1u << 10)
#define ADDED (64u << 10)
#define NEVER_LESS 1e-15 /* seconds: a clock may say that nothing took time */

/* One round in which every node gets `bytes` from `peers` others on its left
 * and sends as many to its right. */
static accel_status_t one_round(accel_comm_t *c, int peers, size_t bytes)
{
    ax_inter_t *x = c->inter;

    for (int d = 1; d <= peers; d++) {
        ax_moves_add(x,
                     &(ax_move_t){.node = (c->node - d + c->nodes) % c->nodes,
                                  .recv = true,
                                  .data = x->room + (size_t)d * bytes,
                                  .bytes = bytes,
                                  .least = bytes});
        ax_moves_add(x, &(ax_move_t){.node = (c->node + d) % c->nodes,
                                     .data = x->room,
                                     .bytes = bytes});
    }
    return ax_moves_run(c);
}

/* Seconds of such a round: the mean of several, as one that comes late finds
 * its messages there and looks fast; the better of two means. */
static accel_status_t time_round(accel_comm_t *c, int peers, size_t bytes,
                                 int rounds, double *best)
{
    accel_status_t st = one_round(c, peers, bytes); /* to start together */

    *best = 1e9;
    for (int i = 0; i < 2; i++) {
        uint64_t began = ax_now_ns();
        for (int k = 0; k < rounds && st == ACCEL_OK; k++)
            st = one_round(c, peers, bytes);
        double took = (double)(ax_now_ns() - began) * 1e-9 / rounds;
        *best = took < *best ? took : *best;
    }
    return st;
}

static double time_adding(ax_inter_t *x)
{
    const void *src[2] = {x->room, x->room + ADDED};
    double best = 1e9;

    for (int i = 0; i < 3; i++) {
        uint64_t began = ax_now_ns();
        ax_reduce(&(ax_reduce_t){ACCEL_F32, ACCEL_F32, AX_SUM, 1.0}, x->room,
                  src, 2, ADDED / sizeof(float));
        double took = (double)(ax_now_ns() - began) * 1e-9;
        best = took < best ? took : best;
    }
    return best / (2.0 * ADDED);
}

static double at_least(double value, double least)
{
    return value > least ? value : least;
}

static accel_status_t measure(accel_comm_t *c, ax_model_t *m)
{
    int all = c->nodes - 1;
    size_t each = LONG / (size_t)c->nodes;
    double few, bulk, few_all, bulk_all;
    accel_status_t st;

    each = each > LEAST ? each : LEAST;
    size_t room = (size_t)c->nodes * each;
    room = room > 2 * LONG ? room : 2 * LONG;
    if ((st = ax_inter_room(c, room)) != ACCEL_OK)
        return st;
    memset(c->inter->room, 0, room);
    if ((st = time_round(c, 1, FEW, 8, &few)) != ACCEL_OK ||
        (st = time_round(c, 1, LONG, 2, &bulk)) != ACCEL_OK ||
        (st = time_round(c, all, FEW, 4, &few_all)) != ACCEL_OK ||
        (st = time_round(c, all, each, 2, &bulk_all)) != ACCEL_OK)
        return st;
    double sent = (double)each * all;
    *m = (ax_model_t){.round = at_least(few, NEVER_LESS),
                      .byte = at_least((bulk - few) / LONG, NEVER_LESS),
                      .add = at_least(time_adding(c->inter), NEVER_LESS)};
    /* With one peer there is no crowd, and no further message to time. One
     * more message cannot cost more than a round of its own. */
    m->crowd = m->byte;
    m->message = m->round / 2;
    if (all > 1) {
        m->crowd = at_least((bulk_all - few_all) / sent, m->byte);
        m->message = at_least((few_all - few) / (all - 1), few / 64);
        m->message = m->message < m->round ? m->message : m->round;
    }
    return ACCEL_OK;
}

/* The largest of each constant becomes that of all. */
static accel_status_t agree(accel_comm_t *c, ax_model_t *m)
{
    ax_inter_t *x = c->inter;
    size_t bytes = sizeof *m;
    ax_model_t *of = (ax_model_t *)(void *)x->room;

    for (int k = 0; k < c->nodes; k++) {
        if (k == c->node)
            continue;
        ax_moves_add(x, &(ax_move_t){.node = k,
                                     .recv = true,
                                     .data = &of[k],
                                     .bytes = bytes,
                                     .least = bytes});
        ax_moves_add(x, &(ax_move_t){.node = k, .data = m, .bytes = bytes});
    }
    accel_status_t st = ax_moves_run(c);
    for (int k = 0; k < c->nodes && st == ACCEL_OK; k++) {
        if (k != c->node)
            ax_model_worst(m, &of[k]);
    }
    return st;
}

static void report(const accel_comm_t *c)
{
    const char *debug = ax_settings_str(c->settings, "debug");
    char text[256];

    if (c->rank != 0 || strcmp(debug, "tuning") != 0)
        return;
    for (int i = 0;
         ax_model_line(&c->inter->model, c->nodes, i, text, sizeof text); i++)
        ax_log(AX_LOG_REPORT, "tuning: %s", text);
}

accel_status_t ax_inter_measure(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    ax_model_t model;
    accel_status_t st;

    if (x->measured)
        return ACCEL_OK;
    if ((st = ax_rail_measure(c, &model)) != ACCEL_OK)
        return st;
    x->model = model;
    x->measured = true;
    report(c);
    return ACCEL_OK;
}

accel_status_t ax_rail_measure(accel_comm_t *c, ax_model_t *model)
{
    accel_status_t st = measure(c, model);

    return st == ACCEL_OK ? agree(c, model) : st;
}

void ax_model_worst(ax_model_t *m, const ax_model_t *other)
{
    m->round = at_least(other->round, m->round);
    m->message = at_least(other->message, m->message);
    m->byte = at_least(other->byte, m->byte);
    m->crowd = at_least(other->crowd, m->crowd);
    m->add = at_least(other->add, m->add);
}
