/*
 * levels: ranks of a node in groups, of a socket or of a last-level cache.
 * levels.c has the groups and how their ranks meet, chain.c large sums.
 */
#ifndef AX_COMM_LEVELS_H
#define AX_COMM_LEVELS_H

#include "comm/comm_priv.h"

/* ---- levels.c ---------------------------------------------------------------
 */

struct ax_levels {
    int groups, mine;
    int *group;   /* of each local rank */
    int *carrier; /* who copies its line to my group; -1: it is in it */
    int *duties;  /* the ranks whose lines I copy */
    int nduties;
    bool in_order;        /* each group's ranks follow one another, */
    int *first;           /* and begin here; [groups]: all ranks */
    int least;            /* ranks of the smallest group */
    bool forced;          /* by the setting */
    char **sent, **comes; /* of each local rank: see chain.c */
    double near, far;    /* seconds of a byte within a group, and between two */
    double flat, copied; /* seconds of a barrier, the slowest rank's */
};

/* Finds c->spot by the setting "groups", or by the binding; a part's is that
 * of its parent, as looking takes a while. */
accel_status_t ax_levels_place(accel_comm_t *c, const accel_comm_t *parent);

/* Puts ranks into groups, numbered as they come: how many there are; 0 when
 * going by groups serves nothing. `place` and `group` of each rank. */
int ax_levels_group(const ax_spot_t *place, int ranks, int *group);

/* Before the segment: `place` of each rank of the node, alike on all. */
accel_status_t ax_levels_make(accel_comm_t *c, const ax_spot_t *place,
                              ax_seg_plan_t *plan);
void ax_levels_free(ax_levels_t *levels);

/* After it: chooses, by the setting or by measuring. All ranks of the node. */
accel_status_t ax_levels_start(accel_comm_t *c);

/* Ranks see others' lines in their group's copy, or where they are. */
void ax_levels_use(accel_comm_t *c, bool by_groups);

/* Copies the lines that have come and are mine to copy. */
void ax_levels_carry_now(accel_comm_t *c, ax_wait_t *wait);

static inline void ax_levels_carry(accel_comm_t *c, ax_wait_t *wait)
{
    if (c->by_groups && (wait->entered || wait->arrived))
        ax_levels_carry_now(c, wait);
}

/* Has local rank `local` not copied to my group what has come? */
bool ax_levels_owes_now(const accel_comm_t *c, const ax_wait_t *wait,
                        int local);

static inline bool ax_levels_owes(const accel_comm_t *c, const ax_wait_t *wait,
                                  int local)
{
    return c->by_groups && ax_levels_owes_now(c, wait, local);
}

/* ---- chain.c ----------------------------------------------------------------
 */

/* `count` elements at c->levels->sent become their sum at c->levels->comes, on
 * all ranks; nobody may touch them before the next barrier. */
accel_status_t ax_chain_allreduce(accel_comm_t *c, const ax_reduction_t *r,
                                  size_t count);

/* Can it be done for these groups? Is it the quicker way? */
bool ax_chain_serves(const accel_comm_t *c, const ax_reduction_t *r);
bool ax_chain_better(const accel_comm_t *c, const ax_reduction_t *r,
                     size_t count);

/* Seconds, by what was measured. `wide`: sums are twice as long. */
double ax_chain_time(const ax_levels_t *l, int ranks, double bytes, bool wide);
double ax_chain_flat_time(const ax_levels_t *l, int ranks, double bytes);

/* Is there nothing that this rank can do? Could `local` go on, and does not? */
bool ax_chain_stands(const accel_comm_t *c, const ax_chain_t *ch);
bool ax_chain_awaits(const accel_comm_t *c, const ax_chain_t *ch, int local);

#endif
