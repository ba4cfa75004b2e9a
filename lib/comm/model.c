/* Alpha and beta: what a plan will cost, and which one costs least. */
#include "comm/model.h"

#include <math.h>
#include <stdio.h>

/* Scratch beyond this is no way to save a round. */
#define ROOM_MOST (16u << 20)
#define SEGMENTS_MOST 64u

/* ---- what a plan does -------------------------------------------------------
 */

static double segments_of(size_t segments)
{
    return segments ? (double)segments : 1;
}

static ax_load_t load_of(double rounds, double messages, double bytes,
                         double added)
{
    return (ax_load_t){
        .rounds = rounds, .messages = messages, .bytes = bytes, .added = added};
}

static ax_load_t crowd(ax_load_t load)
{
    load.crowded = true;
    return load;
}

/* n nodes, a bytes of ACC and o of OUT, s segments. */
static ax_load_t load_allreduce(const ax_ask_t *ask, ax_way_t way, double s)
{
    double n = ask->nodes, a = ask->acc_bytes, o = ask->out_bytes;
    double down = ax_log2_down(ask->nodes), up = ax_log2_up(ask->nodes);
    double power = (double)(1 << ax_log2_down(ask->nodes));
    double rest = n > power;
    double slices = (a + o) * (n - 1) / n;

    switch (way) {
    case AX_WAY_DIRECT:
        return crowd(load_of(1, n - 1, a * (n - 1), a * n));
    case AX_WAY_SLICED:
        return crowd(load_of(2, 2 * (n - 1), slices, a));
    case AX_WAY_BRUCK:
        return load_of(up, up, a * (n - 1), a * n);
    case AX_WAY_PAIRWISE:
        return load_of(2 * (n - 1), 2 * (n - 1), slices, a);
    case AX_WAY_CHAIN:
        return load_of(s + 2 * n - 3, 2 * (s + n - 2),
                       (a + o) * (s + n - 2) / s, a + 2 * a * (s + n - 2) / s);
    case AX_WAY_RING:
        return load_of(2 * (n - 1), 2 * (n - 1), slices,
                       2 * a * (n - 1) / n + a / n);
    case AX_WAY_DOUBLING:
        return load_of(down + 2 * rest, down + 2 * rest,
                       a * down + rest * (a + o), a + 2 * a * (down + rest));
    case AX_WAY_RABENSEIFNER:
        return load_of(2 * (down + rest), 2 * (down + rest),
                       (a + o) * ((power - 1) / power + rest),
                       a + 2 * a * ((power - 1) / power + rest));
    default: /* binomial */
        return load_of(2 * up, 2 * up, up * (a + o), a + 2 * up * a);
    }
}

static ax_load_t load_other(const ax_ask_t *ask, ax_way_t way, double s)
{
    double n = ask->nodes, a = ask->acc_bytes, o = ask->out_bytes;
    double down = ax_log2_down(ask->nodes), up = ax_log2_up(ask->nodes);
    double power = (double)(1 << ax_log2_down(ask->nodes));
    double rest = n > power;
    bool chain = way == AX_WAY_CHAIN, tree = way == AX_WAY_BINOMIAL;
    double rounds = way == AX_WAY_DIRECT ? 1 : n - 1;
    double once = (n - 1) / n;

    switch (ask->kind) {
    case AX_PLAN_REDUCE_SCATTER:
        return load_of(rounds, n - 1, a * once, way == AX_WAY_RING ? 2 * a : a);
    case AX_PLAN_REDUCE:
        if (chain)
            return load_of(s + n - 1, s + n - 1, a * (s + n - 1) / s,
                           a + 2 * a * (s + n - 2) / s);
        return tree ? load_of(up, up, up * a, a + 2 * up * a)
                    : load_of(1, n - 1, a * (n - 1), a * n);
    case AX_PLAN_BROADCAST:
        if (chain)
            return load_of(s + n - 2, s + n - 2, o * (s + n - 2) / s, 0);
        return tree ? load_of(up, up, up * o, 0)
                    : load_of(1, n - 1, o * (n - 1), 0);
    case AX_PLAN_ALLGATHER:
        if (way == AX_WAY_DOUBLING)
            return load_of(down + 2 * rest, down + 2 * rest,
                           o * (power - 1) / power + rest * (o + o / n), 0);
        return load_of(rounds, n - 1, o * once, 0);
    case AX_PLAN_ALLTOALL:
        return load_of(rounds, n - 1, a * once, 0);
    default: /* gather and scatter */
        return load_of(1, n - 1, o * once, 0);
    }
}

ax_load_t ax_model_load(const ax_ask_t *ask, ax_way_t way, size_t segments)
{
    ax_load_t load;

    if (ask->nodes <= 1)
        return load_of(0, 0, 0, 0);
    if (ask->kind == AX_PLAN_ALLREDUCE)
        return load_allreduce(ask, way, segments_of(segments));
    load = load_other(ask, way, segments_of(segments));
    load.crowded = way == AX_WAY_DIRECT;
    return load;
}

/* ---- what it costs ----------------------------------------------------------
 */

double ax_model_cost(const ax_model_t *m, const ax_load_t *load)
{
    double more = load->messages - load->rounds;

    return load->rounds * m->round + (more > 0 ? more : 0) * m->message +
           load->bytes * (load->crowded ? m->crowd : m->byte) +
           load->added * m->add;
}

/*
 * A chain of s segments of b bytes in all takes about
 * (s + n - 2) * (round + b / s * byte): least where its slope is 0.
 */
size_t ax_model_segments(const ax_model_t *m, const ax_ask_t *ask)
{
    double bytes = ask->kind == AX_PLAN_BROADCAST ? ask->out_bytes
                   : ask->kind == AX_PLAN_REDUCE
                       ? ask->acc_bytes
                       : ask->acc_bytes + ask->out_bytes;
    double far = ask->nodes - 2;
    double s = m->round > 0 ? sqrt(far * bytes * m->byte / m->round) : 1;

    if (!(s >= 1))
        return 1;
    return s < SEGMENTS_MOST ? (size_t)s : SEGMENTS_MOST;
}

static bool serves(const ax_ask_t *ask, ax_way_t way)
{
    bool whole = way == AX_WAY_DIRECT || way == AX_WAY_BRUCK;
    bool reduces =
        ask->kind == AX_PLAN_ALLREDUCE || ask->kind == AX_PLAN_REDUCE;

    if (!ax_plan_there(ask->kind, way) ||
        (ask->cut && !ax_plan_cuts(ask->kind, way)))
        return false;
    if (ask->ordered && !ax_plan_ordered(ask->kind, way, ask->nodes))
        return false;
    return !(reduces && whole) || ask->acc_bytes * ask->nodes <= ROOM_MOST ||
           (ask->kind == AX_PLAN_REDUCE && ask->nodes <= 2);
}

double ax_model_time(const ax_model_t *m, const ax_ask_t *ask, ax_way_t way)
{
    if (!serves(ask, way))
        return HUGE_VAL;
    ax_load_t load = ax_model_load(ask, way, ax_model_segments(m, ask));
    return ax_model_cost(m, &load);
}

ax_way_t ax_model_choose(const ax_model_t *m, const ax_ask_t *ask)
{
    ax_way_t best = AX_WAY_DIRECT;
    double least = HUGE_VAL;

    for (int w = 0; w < AX_WAYS; w++) {
        double time = ax_model_time(m, ask, (ax_way_t)w);
        if (time < least) {
            least = time;
            best = (ax_way_t)w;
        }
    }
    return best;
}

/* ---- for people -------------------------------------------------------------
 */

bool ax_model_line(const ax_model_t *m, int nodes, int line, char *text,
                   size_t room)
{
    static const struct {
        ax_plan_kind_t kind;
        bool ordered;
        const char *what;
    } rows[] = {{AX_PLAN_ALLREDUCE, true, "all-reduce of floats"},
                {AX_PLAN_ALLREDUCE, false, "all-reduce of integers"},
                {AX_PLAN_REDUCE_SCATTER, true, "reduce-scatter"},
                {AX_PLAN_ALLGATHER, true, "all-gather"},
                {AX_PLAN_BROADCAST, true, "broadcast"}};
    static const int shifts[] = {6, 10, 12, 14, 16, 18};
    int per = (int)AX_ARRAY_SIZE(shifts);

    if (line == 0) {
        ax_format(text, room,
                  "%d nodes: %.2f us a round, %.2f us a message more, %.2f "
                  "GB/s to one, %.2f GB/s to all, %.2f GB/s added",
                  nodes, m->round * 1e6, m->message * 1e6, 1e-9 / m->byte,
                  1e-9 / m->crowd, 1e-9 / m->add);
        return true;
    }
    int row = (line - 1) / per, shift = shifts[(line - 1) % per];
    if (row >= (int)AX_ARRAY_SIZE(rows))
        return false;
    double bytes = (double)(1 << shift);
    ax_ask_t ask = {.kind = rows[row].kind,
                    .nodes = nodes,
                    .acc_bytes = bytes,
                    .out_bytes = bytes,
                    .ordered = rows[row].ordered};
    ax_way_t way = ax_model_choose(m, &ask);
    ax_format(text, room, "%s of %d B: %s, %.1f us", rows[row].what, 1 << shift,
              ax_way_name(way), ax_model_time(m, &ask, way) * 1e6);
    return true;
}
