/* Which phases make which plan. */
#include "comm/plan_priv.h"

#include <string.h>

static const char *const kind_names[] = {
#define KIND_NAME(NAME, text) text,
    AX_PLAN_KIND_LIST(KIND_NAME)
#undef KIND_NAME
};

static const char *const way_names[] = {
#define WAY_NAME(NAME, text) text,
    AX_WAY_LIST(WAY_NAME)
#undef WAY_NAME
};

static const struct way {
    const ax_phase_t *first, *second;
    bool ordered;
} ways[AX_PLAN_KINDS][AX_WAYS] = {
    [AX_PLAN_ALLREDUCE] =
        {[AX_WAY_DIRECT] = {&ax_all_direct, NULL, true},
         [AX_WAY_SLICED] = {&ax_part_direct, &ax_get_direct, true},
         [AX_WAY_BRUCK] = {&ax_all_bruck, NULL, true},
         [AX_WAY_PAIRWISE] = {&ax_part_pairwise, &ax_get_ring, true},
         [AX_WAY_CHAIN] = {&ax_all_chain, NULL, true},
         [AX_WAY_RING] = {&ax_part_ring, &ax_get_ring, false},
         [AX_WAY_DOUBLING] = {&ax_all_doubling, NULL, false},
         [AX_WAY_RABENSEIFNER] = {&ax_part_halving, &ax_get_doubling, false},
         [AX_WAY_BINOMIAL] = {&ax_root_binomial, &ax_tell_binomial, false}},
    [AX_PLAN_REDUCE_SCATTER] = {[AX_WAY_DIRECT] = {&ax_part_direct, NULL, true},
                                [AX_WAY_PAIRWISE] = {&ax_part_pairwise, NULL,
                                                     true},
                                [AX_WAY_RING] = {&ax_part_ring, NULL, false}},
    [AX_PLAN_REDUCE] = {[AX_WAY_DIRECT] = {&ax_root_direct, NULL, true},
                        [AX_WAY_CHAIN] = {&ax_root_chain, NULL, true},
                        [AX_WAY_BINOMIAL] = {&ax_root_binomial, NULL, false}},
    [AX_PLAN_ALLGATHER] = {[AX_WAY_DIRECT] = {&ax_get_direct, NULL, true},
                           [AX_WAY_RING] = {&ax_get_ring, NULL, true},
                           [AX_WAY_DOUBLING] = {&ax_get_doubling, NULL, true}},
    [AX_PLAN_GATHER] = {[AX_WAY_DIRECT] = {&ax_gather_direct, NULL, true}},
    [AX_PLAN_SCATTER] = {[AX_WAY_DIRECT] = {&ax_scatter_direct, NULL, true}},
    [AX_PLAN_BROADCAST] = {[AX_WAY_DIRECT] = {&ax_tell_direct, NULL, true},
                           [AX_WAY_CHAIN] = {&ax_tell_chain, NULL, true},
                           [AX_WAY_BINOMIAL] = {&ax_tell_binomial, NULL, true}},
    [AX_PLAN_ALLTOALL] = {[AX_WAY_DIRECT] = {&ax_swap_direct, NULL, true},
                          [AX_WAY_PAIRWISE] = {&ax_swap_pairwise, NULL, true}},
};

const char *ax_plan_kind_name(ax_plan_kind_t kind)
{
    return kind < AX_PLAN_KINDS ? kind_names[kind] : "unknown";
}

const char *ax_way_name(ax_way_t way)
{
    return way < AX_WAYS ? way_names[way] : "unknown";
}

bool ax_way_parse(const char *name, ax_way_t *out)
{
    for (int w = 0; w < AX_WAYS; w++)
        if (strcmp(name, way_names[w]) == 0) {
            *out = (ax_way_t)w;
            return true;
        }
    return false;
}

bool ax_plan_there(ax_plan_kind_t kind, ax_way_t way)
{
    return kind < AX_PLAN_KINDS && way < AX_WAYS && ways[kind][way].first;
}

/* Two elements have one order, whoever adds them. */
bool ax_plan_ordered(ax_plan_kind_t kind, ax_way_t way, int nodes)
{
    return ax_plan_there(kind, way) && (ways[kind][way].ordered || nodes <= 2);
}

/* Recursive doubling sends several parts in one message. */
bool ax_plan_cuts(ax_plan_kind_t kind, ax_way_t way)
{
    return kind != AX_PLAN_ALLGATHER || way != AX_WAY_DOUBLING;
}

int ax_log2_down(int n)
{
    int log = 0;

    while (n >> (log + 1))
        log++;
    return log;
}

int ax_log2_up(int n)
{
    return n > 1 ? ax_log2_down(n - 1) + 1 : 0;
}

void ax_slice(size_t count, size_t element, int parts, int index, size_t *first,
              size_t *length)
{
    size_t line = 64;
    size_t unit = element < line ? line / element : 1;
    size_t units = count / unit + (count % unit != 0);
    size_t p = (size_t)parts, i = (size_t)index;
    size_t from = (units / p) * i + (i < units % p ? i : units % p);
    size_t upto = from + units / p + (i < units % p);

    /* the last unit may be a part of one */
    *first = from < units ? from * unit : count;
    *length = (upto < units ? upto * unit : count) - *first;
}

size_t ax_part(const ax_plan_t *p, int k, size_t *first)
{
    size_t length;

    if (p->parts) {
        *first = p->parts[k];
        return (p->ends ? p->ends[k] : p->parts[k + 1]) - p->parts[k];
    }
    ax_slice(p->count, p->element, p->nodes, k, first, &length);
    return length;
}

size_t ax_segments(const ax_plan_t *p)
{
    size_t most = p->segment ? p->segment : p->count;

    return p->count ? p->count / most + (p->count % most != 0) : 1;
}

size_t ax_segment(const ax_plan_t *p, size_t index, size_t *first)
{
    size_t most = p->segment ? p->segment : p->count;

    *first = index * most;
    return p->count - *first < most ? p->count - *first : most;
}

ax_fold_t ax_fold_of(const ax_plan_t *p)
{
    ax_fold_t f = {.rounds = ax_log2_down(p->nodes)};

    f.power = 1 << f.rounds;
    f.rest = p->nodes - f.power;
    if (p->node >= 2 * f.rest)
        f.me = p->node - f.rest;
    else
        f.me = p->node % 2 ? p->node / 2 : -1;
    return f;
}

int ax_fold_node(const ax_fold_t *f, int index)
{
    return index < f->rest ? 2 * index + 1 : index + f->rest;
}

static const struct way *way_of(const ax_plan_t *p)
{
    return &ways[p->kind][p->way];
}

size_t ax_plan_rounds(const ax_plan_t *p)
{
    const struct way *w = way_of(p);

    if (p->nodes == 1)
        return 1;
    return w->first->rounds(p) + (w->second ? w->second->rounds(p) : 0);
}

size_t ax_plan_most(const ax_plan_t *p)
{
    bool all = p->way == AX_WAY_DIRECT || p->way == AX_WAY_SLICED;

    /* else at most two messages each way and two local steps */
    return all ? 2 * (size_t)p->nodes + 2 : 8;
}

size_t ax_plan_room(const ax_plan_t *p)
{
    size_t first, all = p->count, part, longest = 0;

    if (p->kind > AX_PLAN_REDUCE)
        return 0;
    if (p->way == AX_WAY_CHAIN)
        return p->segment && p->segment < all ? p->segment : all;
    if (p->way == AX_WAY_DOUBLING || p->way == AX_WAY_RABENSEIFNER ||
        p->way == AX_WAY_BINOMIAL)
        return all;
    if (p->way == AX_WAY_RING) {
        for (int k = 0; k < p->nodes; k++) {
            part = ax_part(p, k, &first);
            longest = part > longest ? part : longest;
        }
        return longest;
    }
    if (p->way == AX_WAY_BRUCK || p->kind == AX_PLAN_REDUCE ||
        (p->kind == AX_PLAN_ALLREDUCE && p->way == AX_WAY_DIRECT))
        return all * (size_t)p->nodes;
    return ax_part(p, p->node, &first) * (size_t)p->nodes;
}

/* One node alone has its result already, but for the last touch. */
static void make_alone(const ax_plan_t *p, ax_put_t *put)
{
    size_t count = p->count, first = 0;

    if (p->kind > AX_PLAN_REDUCE)
        return;
    if (p->kind == AX_PLAN_REDUCE_SCATTER)
        count = ax_part(p, 0, &first);
    ax_put(put, (ax_step_t){.act = AX_FINISH, .first = first, .count = count});
}

size_t ax_plan_round(const ax_plan_t *p, size_t round, ax_step_t *steps)
{
    const struct way *w = way_of(p);
    ax_put_t put = {.steps = steps};

    if (p->nodes == 1) {
        make_alone(p, &put);
        return put.count;
    }
    size_t before = w->first->rounds(p);
    if (round < before)
        w->first->make(p, round, &put);
    else if (w->second)
        w->second->make(p, round - before, &put);
    return put.count;
}
