/* The only place where plans are carried out: messages over the transport,
 * and what is added to what. */
#include "comm/inter_priv.h"

#include <stdlib.h>
#include <string.h>

#define EXEC_BLOCK 8192u /* bytes that are converted at a time */

/* ---- messages ---------------------------------------------------------------
 */

void ax_moves_add(ax_inter_t *x, const ax_move_t *move)
{
    if (move->bytes)
        x->moves[x->nmoves++] = *move;
}

static accel_status_t start_moves(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    const ax_net_ops_t *ops = x->net->ops;
    accel_status_t st = ACCEL_OK;

    /* receives first, so that nothing arrives unexpected */
    for (int i = 0; i < x->nmoves && st == ACCEL_OK; i++) {
        ax_move_t *m = &x->moves[i];
        if (m->recv)
            st = ops->recv(x->net->self,
                           ax_inter_tag(x, AX_TAG_DATA, m->node, x->step),
                           ~UINT64_C(0), m->data, m->bytes, &m->req);
    }
    for (int i = 0; i < x->nmoves && st == ACCEL_OK; i++) {
        ax_move_t *m = &x->moves[i];
        if (!m->recv)
            st = ops->send(x->net->self, ax_rail_rank(c, m->node),
                           ax_inter_tag(x, AX_TAG_DATA, c->node, x->step),
                           m->data, m->bytes, &m->req);
    }
    if (st == ACCEL_OK)
        return st;
    return ax_raise(c, st, "%s", accel_last_error()->text);
}

/* What is not done yet. A message that failed stays so: why the way to that
 * node broke is found out while waiting. */
static accel_status_t count_pending(accel_comm_t *c, int *pending)
{
    ax_inter_t *x = c->inter;

    *pending = 0;
    memset(x->awaited, 0, (size_t)x->nodes * sizeof *x->awaited);
    for (int i = 0; i < x->nmoves; i++) {
        ax_move_t *m = &x->moves[i];
        bool done = x->net->ops->test(x->net->self, &m->req);
        if (done && m->req.status == ACCEL_OK &&
            (!m->recv || m->req.bytes >= m->least))
            continue;
        if (done && m->req.status == ACCEL_OK)
            return ax_raise(c, ACCEL_ERR_PROTO,
                            "comm: a message of %zu bytes from node %s, "
                            "expected %zu",
                            m->req.bytes, ax_node_name(c, m->node), m->least);
        x->awaited[m->node] = true;
        ++*pending;
    }
    return ACCEL_OK;
}

/* The leader may wait for this rank, which waits for another one. */
static void say_for_whom(accel_comm_t *c, bool waits)
{
    const ax_inter_t *x = c->inter;
    _Atomic int32_t *to = &ax_line(c->seg, c->local_rank)->rail;
    int32_t who = 0;

    for (int k = 0; k < x->nodes && waits && !who; k++)
        if (x->awaited[k])
            who = 1 + ax_rail_rank(c, k);
    if (atomic_load_explicit(to, memory_order_relaxed) != who)
        atomic_store_explicit(to, who, memory_order_release);
}

static void end_moves(ax_inter_t *x)
{
    x->nmoves = 0;
    x->step++;
}

accel_status_t ax_moves_run(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    ax_wait_t wait = {.nodes = x->awaited};
    int pending = 0;
    accel_status_t st = start_moves(c);

    while (st == ACCEL_OK) {
        st = count_pending(c, &pending);
        if (st != ACCEL_OK || pending == 0)
            break;
        say_for_whom(c, true);
        st = ax_wait_more(c, &wait);
    }
    say_for_whom(c, false);
    if (st == ACCEL_OK)
        end_moves(x); /* else they are cancelled by ax_inter_close() */
    return st;
}

accel_status_t ax_inter_room(accel_comm_t *c, size_t bytes)
{
    ax_inter_t *x = c->inter;

    if (bytes <= x->room_bytes)
        return ACCEL_OK;
    ax_net_unmap(x->net, x->room);
    char *more = realloc(x->room, bytes);
    if (!more)
        return ax_raise(c, ACCEL_ERR_NOMEM,
                        "comm: rank %d has no memory for %zu bytes",
                        ax_named(c, c->rank), bytes);
    x->room = more;
    x->room_bytes = bytes;
    ax_net_map(x->net, more, bytes);
    return ACCEL_OK;
}

/* ---- local steps ------------------------------------------------------------
 */

/*
 * Adds the elements at `nsrc` places, ends the reduction and stores it. What
 * accumulates in a wider type is rounded once, in blocks that stay in the
 * cache.
 */
static void end_reduction(const ax_reduction_t *r, char *out, const void **src,
                          int nsrc, size_t count)
{
    const ax_reduce_t how = {r->acc, r->acc, r->op, r->divisor};
    _Alignas(64) char block[EXEC_BLOCK];
    size_t most = EXEC_BLOCK / r->acc_element;

    if (r->acc == r->dtype) {
        ax_reduce(&how, out, src, nsrc, count);
        return;
    }
    while (count > 0) {
        size_t n = count < most ? count : most;
        ax_reduce(&how, block, src, nsrc, n);
        (void)accel_convert(out, r->dtype, block, r->acc, n);
        for (int i = 0; i < nsrc; i++)
            src[i] = (const char *)src[i] + n * r->acc_element;
        out += n * r->element;
        count -= n;
    }
}

static void fold(ax_inter_t *x, const ax_exec_t *e, const ax_step_t *s)
{
    const ax_reduction_t *r = e->how;
    const ax_plan_t *p = e->plan;

    for (int k = 0; k < p->nodes; k++) {
        size_t at = (size_t)((k - s->turn + p->nodes) % p->nodes) * s->stride;
        x->src[k] = k == p->node ? e->acc + s->first * r->acc_element
                                 : x->room + at * r->acc_element;
    }
    end_reduction(r, e->out + s->to * r->element, x->src, p->nodes, s->count);
}

static void add(ax_inter_t *x, const ax_exec_t *e, const ax_step_t *s)
{
    const ax_reduction_t *r = e->how;
    char *mine = e->acc + s->first * r->acc_element;
    const void *src[2] = {s->before ? x->room : mine,
                          s->before ? mine : x->room};

    ax_reduce(&(ax_reduce_t){r->acc, r->acc, r->op, 1.0}, mine, src, 2,
              s->count);
}

static void finish(const ax_exec_t *e, const ax_step_t *s)
{
    const void *src = e->acc + s->first * e->how->acc_element;

    end_reduction(e->how, e->out + s->to * e->how->element, &src, 1, s->count);
}

static void add_message(ax_inter_t *x, const ax_exec_t *e, const ax_step_t *s)
{
    size_t wide = e->how ? e->how->acc_element : 1;
    size_t size = s->place == AX_OUT ? (e->how ? e->how->element : 1) : wide;
    char *base = s->place == AX_OUT   ? e->out
                 : s->place == AX_ACC ? e->acc
                                      : x->room;

    ax_moves_add(x, &(ax_move_t){.node = s->peer,
                                 .recv = s->act == AX_RECV,
                                 .data = base + s->first * size,
                                 .bytes = s->count * size,
                                 .least = s->count * size});
}

static void local_step(ax_inter_t *x, const ax_exec_t *e, const ax_step_t *s)
{
    if (s->act == AX_FOLD)
        fold(x, e, s);
    else if (s->act == AX_ADD)
        add(x, e, s);
    else if (s->act == AX_FINISH)
        finish(e, s);
    else if (s->act == AX_COPY)
        memcpy(x->room + s->to * e->how->acc_element,
               e->acc + s->first * e->how->acc_element,
               s->count * e->how->acc_element);
}

/* ---- a plan -----------------------------------------------------------------
 */

accel_status_t ax_exec_start(accel_comm_t *c, const ax_exec_t *what)
{
    ax_inter_t *x = c->inter;
    accel_status_t st = ACCEL_OK;

    x->flight = (ax_flight_t){.what = *what,
                              .plan = *what->plan,
                              .rounds = ax_plan_rounds(what->plan)};
    x->flight.what.plan = &x->flight.plan;
    if (what->how)
        st =
            ax_inter_room(c, ax_plan_room(what->plan) * what->how->acc_element);
    x->flying = st == ACCEL_OK;
    if (x->flying)
        ax_exec_poll(c);
    return st;
}

static accel_status_t begin_round(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    ax_flight_t *f = &x->flight;

    f->steps = ax_plan_round(&f->plan, f->round, x->steps);
    for (size_t i = 0; i < f->steps; i++)
        if (x->steps[i].act <= AX_RECV)
            add_message(x, &f->what, &x->steps[i]);
    f->begun = true;
    return start_moves(c);
}

/* Its messages have come and gone. */
static void end_round(ax_inter_t *x)
{
    ax_flight_t *f = &x->flight;

    end_moves(x);
    for (size_t i = 0; i < f->steps; i++)
        if (x->steps[i].act > AX_RECV)
            local_step(x, &f->what, &x->steps[i]);
    f->begun = false;
    f->round++;
}

/* As far as it goes without waiting. */
static accel_status_t advance(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    ax_flight_t *f = &x->flight;
    accel_status_t st = ACCEL_OK;
    int pending;

    while (f->round < f->rounds) {
        if (!f->begun)
            st = begin_round(c);
        if (st == ACCEL_OK)
            st = count_pending(c, &pending);
        if (st != ACCEL_OK || pending > 0)
            return st;
        end_round(x);
    }
    x->flying = false;
    return st;
}

void ax_exec_poll(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;

    if (!x || !x->flying)
        return;
    (void)x->net->ops->progress(x->net->self);
    x->flight.status = advance(c);
    if (x->flight.status != ACCEL_OK)
        x->flying = false;
}

accel_status_t ax_exec_end(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    ax_wait_t wait = {.nodes = x->awaited};
    size_t round = x->flight.round;
    accel_status_t st = ACCEL_OK;

    for (ax_exec_poll(c); x->flying && st == ACCEL_OK; ax_exec_poll(c)) {
        if (x->flight.round != round)
            wait = (ax_wait_t){.nodes = x->awaited};
        round = x->flight.round;
        say_for_whom(c, true);
        st = ax_wait_more(c, &wait);
    }
    say_for_whom(c, false);
    if (st == ACCEL_OK && x->flight.status != ACCEL_OK)
        st = ax_raise_seen(c); /* the record may be another one's by now */
    x->flying = false;
    x->flight.status = ACCEL_OK;
    return st;
}
