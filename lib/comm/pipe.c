/*
 * Between nodes, segment by segment: while one is on the network, the node
 * works on the next one and on the one before.
 */
#include "comm/pipe.h"

#include <string.h>

#define PIPE_LOOK (32u << 10) /* bytes between two looks at the network */

void ax_pipe_copy(accel_comm_t *c, void *to, const void *from, size_t bytes)
{
    char *t = to;
    const char *f = from;

    while (bytes > 0) {
        size_t n = bytes < PIPE_LOOK ? bytes : PIPE_LOOK;
        memcpy(t, f, n);
        t += n;
        f += n;
        bytes -= n;
        ax_inter_go_on(c);
    }
}

/* The first segment: nothing is on the network yet. */
static accel_status_t begin(accel_comm_t *c, ax_pipe_t *p, accel_status_t mine)
{
    bool goes = mine == ACCEL_OK && p->segments > 0;
    accel_status_t st;

    if (goes && p->give && !p->shared)
        p->give(c, p->op, 0);
    else if (goes && !p->give)
        p->make(c, p->op, 0);
    st = ax_enter(c, mine);
    if (st != ACCEL_OK || p->segments == 0 || !p->give)
        return st;
    if (p->met && (st = p->met(c, p)) != ACCEL_OK)
        return st;
    p->make(c, p->op, 0);
    return ax_node_barrier(c);
}

accel_status_t ax_pipe_run(accel_comm_t *c, ax_pipe_t *p, accel_status_t mine)
{
    uint64_t turn = ++c->turn;
    accel_status_t st = begin(c, p, mine);

    for (size_t i = 0; i < p->segments && st == ACCEL_OK; i++) {
        bool more = i + 1 < p->segments;
        c->turn = turn + i;
        st = p->start(c, p->op, i);
        c->turn = turn + i + 1;
        if (st == ACCEL_OK && more && p->give && !p->shared)
            p->give(c, p->op, i + 1);
        c->turn = turn + i - 1;
        if (st == ACCEL_OK && i > 0)
            p->take(c, p->op, i - 1);
        c->turn = turn + i + 1;
        if (st == ACCEL_OK && more && !p->shared)
            st = ax_node_barrier(c);
        if (st == ACCEL_OK && more)
            p->make(c, p->op, i + 1);
        if (st == ACCEL_OK)
            st = ax_inter_end(c);
        if (st == ACCEL_OK)
            st = ax_node_barrier(c);
    }
    if (st != ACCEL_OK)
        ax_inter_drop(c); /* what it needs lies in frames that end now */
    if (st != ACCEL_OK || p->segments == 0)
        return st;
    c->turn = turn + p->segments - 1;
    p->take(c, p->op, p->segments - 1);
    return ACCEL_OK;
}
