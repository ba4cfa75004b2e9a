/* plan, for its own files: a way is one phase, or two one after the other. */
#ifndef AX_PLAN_PRIV_H
#define AX_PLAN_PRIV_H

#include "comm/plan.h"

/* Where a round's steps are put. */
typedef struct ax_put {
    ax_step_t *steps;
    size_t count;
} ax_put_t;

typedef struct ax_phase {
    size_t (*rounds)(const ax_plan_t *p);
    void (*make)(const ax_plan_t *p, size_t round, ax_put_t *put);
} ax_phase_t;

static inline void ax_put(ax_put_t *put, ax_step_t step)
{
    if (step.count)
        put->steps[put->count++] = step;
}

static inline void ax_put_send(ax_put_t *put, int peer, ax_place_t place,
                               size_t first, size_t count)
{
    ax_put(put, (ax_step_t){.act = AX_SEND,
                            .peer = peer,
                            .place = place,
                            .first = first,
                            .count = count});
}

static inline void ax_put_recv(ax_put_t *put, int peer, ax_place_t place,
                               size_t first, size_t count)
{
    ax_put(put, (ax_step_t){.act = AX_RECV,
                            .peer = peer,
                            .place = place,
                            .first = first,
                            .count = count});
}

static inline int ax_wrap(const ax_plan_t *p, long node)
{
    long n = p->nodes;

    return (int)(((node % n) + n) % n);
}

/* Elements [*first, *first + count) are node k's. */
size_t ax_part(const ax_plan_t *p, int k, size_t *first);
size_t ax_segments(const ax_plan_t *p);
size_t ax_segment(const ax_plan_t *p, size_t index, size_t *first);

/*
 * For ways that need a power of two: of the first 2 * rest nodes each even one
 * leaves its work to the odd one beside it.
 */
typedef struct ax_fold {
    int power; /* nodes that work: a power of two */
    int rounds;
    int rest;
    int me; /* among those, or -1 */
} ax_fold_t;

ax_fold_t ax_fold_of(const ax_plan_t *p);
int ax_fold_node(const ax_fold_t *f, int index);

/* plan_add.c */
extern const ax_phase_t ax_all_direct, ax_all_bruck, ax_all_chain;
extern const ax_phase_t ax_all_doubling, ax_part_direct, ax_part_pairwise;
extern const ax_phase_t ax_part_ring, ax_part_halving;
extern const ax_phase_t ax_root_direct, ax_root_chain, ax_root_binomial;
/* plan_move.c */
extern const ax_phase_t ax_get_direct, ax_get_ring, ax_get_doubling;
extern const ax_phase_t ax_gather_direct, ax_scatter_direct;
extern const ax_phase_t ax_tell_direct, ax_tell_chain, ax_tell_binomial;
extern const ax_phase_t ax_swap_direct, ax_swap_pairwise;

#endif
