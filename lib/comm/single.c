/*
 * Collectives that take one copy: each rank reads what it is to get from the
 * memory of the others (cma.c). A broadcast does not: the root would have
 * nothing to do, while through the slots it copies as the others do.
 */
#include "comm/cma_priv.h"

#include <string.h>

/* ---- gathers ----------------------------------------------------------------
 */

bool ax_single_gathers(const accel_comm_t *c, const ax_parted_t *g,
                       size_t longest)
{
    return c->nodes == 1 && ax_cma_serves(c, longest) &&
           (g->root < 0 || !g->parts->table);
}

/* Reads the others' parts, each rank beginning with another one. */
static int take_all(const accel_comm_t *c, const ax_parted_t *g)
{
    int error = 0;

    for (int k = 1; k < c->local_size; k++) {
        int i = (c->local_rank + k) % c->local_size;
        int rank = ax_rank_here(c, i);
        ax_cma_read(c, i, g->recv + ax_part_offset(g->parts, rank),
                    ax_cma_buffers(c, i).send, ax_part_bytes(g->parts, rank),
                    &error);
    }
    return error;
}

static accel_status_t check_gather(const accel_comm_t *c, const ax_parted_t *g)
{
    accel_status_t st =
        ax_cma_check(g->send, ax_part_bytes(g->parts, c->rank), false);

    for (int r = 0; r < c->size && g->recv && st == ACCEL_OK; r++)
        st = ax_cma_check(g->recv + ax_part_offset(g->parts, r),
                          ax_part_bytes(g->parts, r), true);
    return st;
}

accel_status_t ax_single_gather(accel_comm_t *c, const ax_parted_t *g,
                                bool *moved)
{
    size_t own = ax_part_bytes(g->parts, c->rank);
    size_t at = ax_part_offset(g->parts, c->rank);
    accel_status_t st = ax_cma_end(c, g->recv ? take_all(c, g) : 0, moved);

    if (st == ACCEL_OK && !*moved)
        return ax_cma_failed(c, check_gather(c, g));
    /* not before: others have found by now that it is there */
    if (st == ACCEL_OK && g->recv && own && g->recv + at != g->send)
        memcpy(g->recv + at, g->send, own);
    return st;
}

/* ---- scatter ----------------------------------------------------------------
 */

accel_status_t ax_single_scatter(accel_comm_t *c, const ax_parted_t *s,
                                 bool *moved)
{
    size_t own = ax_part_bytes(s->parts, c->rank);
    size_t at = ax_part_offset(s->parts, c->rank);
    int giver = ax_local_of(c, s->root), error = 0;
    accel_status_t st, mine;

    if (c->rank != s->root)
        ax_cma_read(c, giver, s->recv, ax_cma_buffers(c, giver).send + at, own,
                    &error);
    st = ax_cma_end(c, error, moved);
    if (st != ACCEL_OK || *moved)
        return st;
    mine = c->rank == s->root && s->recv == s->send + at
               ? ACCEL_OK
               : ax_cma_check(s->recv, own, true);
    if (mine == ACCEL_OK && c->rank == s->root)
        mine = ax_cma_check(s->send, ax_parts_end(c, s->parts), false);
    return ax_cma_failed(c, mine);
}
