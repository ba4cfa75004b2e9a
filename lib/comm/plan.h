/*
 * plan: what each node sends, receives and adds in a collective between
 * nodes. Pure functions of the question: no network, no memory, no state, so
 * plans for thousands of nodes are tested in one process.
 *
 * A plan is made of rounds that all nodes count alike. What is sent in a round
 * is received in the same round, at most one message from one node to another;
 * the local steps of a round follow its messages. So a round waits for nothing
 * but rounds before it: there is no deadlock.
 *
 * Data lies in three places. ACC: this node's elements in the accumulator's
 * type; a reduction may overwrite them. OUT: the result, or what is merely
 * moved. ROOM: scratch for ax_plan_room() elements of the accumulator's type.
 *
 * Order: a float's sum depends on the order of adding, and the library
 * promises node order whatever the size. ax_plan_ordered() says which ways
 * keep it: those that bring all nodes' elements together before they add, and
 * the chain, which adds node after node. The others serve integers, minimum
 * and maximum, where the order does not show, and any type on two nodes.
 */
#ifndef AX_PLAN_H
#define AX_PLAN_H

#include "base/base.h"

/* X(NAME, text): the collectives */
#define AX_PLAN_KIND_LIST(X)                                                   \
    X(ALLREDUCE, "all-reduce")                                                 \
    X(REDUCE_SCATTER, "reduce-scatter")                                        \
    X(REDUCE, "reduce")                                                        \
    X(ALLGATHER, "all-gather")                                                 \
    X(GATHER, "gather")                                                        \
    X(SCATTER, "scatter")                                                      \
    X(BROADCAST, "broadcast")                                                  \
    X(ALLTOALL, "all-to-all")

typedef enum ax_plan_kind {
#define AX_PLAN_KIND_ENUM(NAME, text) AX_PLAN_##NAME,
    AX_PLAN_KIND_LIST(AX_PLAN_KIND_ENUM)
#undef AX_PLAN_KIND_ENUM
        AX_PLAN_KINDS
} ax_plan_kind_t;

/* X(NAME, text): the algorithms; not every one serves every collective */
#define AX_WAY_LIST(X)                                                         \
    X(DIRECT, "direct")             /* all to all at once */                   \
    X(SLICED, "sliced")             /* the same by slices, then results */     \
    X(BRUCK, "bruck")               /* all elements, in log2 rounds */         \
    X(PAIRWISE, "pairwise")         /* one partner a round */                  \
    X(CHAIN, "chain")               /* node after node, by segments */         \
    X(RING, "ring")                 /* slices go round */                      \
    X(DOUBLING, "doubling")         /* recursive doubling */                   \
    X(RABENSEIFNER, "rabenseifner") /* halving, then doubling */               \
    X(BINOMIAL, "binomial")         /* a binomial tree */

typedef enum ax_way {
#define AX_WAY_ENUM(NAME, text) AX_WAY_##NAME,
    AX_WAY_LIST(AX_WAY_ENUM)
#undef AX_WAY_ENUM
        AX_WAYS
} ax_way_t;

/*
 * A question. Node k's part is [parts[k], parts[k + 1]): of ACC in a
 * reduce-scatter (the result begins at OUT), of OUT in a gather and an
 * all-gather, of ACC at the root of a scatter and what all-to-all sends to k
 * (parts2: where in OUT it receives). An all-reduce cuts its own parts.
 */
typedef struct ax_plan {
    ax_plan_kind_t kind;
    ax_way_t way;
    int node, nodes, root;
    size_t count;   /* elements in all; not for those with parts */
    size_t element; /* bytes of one: parts are cut at cache lines */
    size_t segment; /* elements of a chain's segment; 0: all */
    const size_t *parts, *parts2;
    /* where parts end when others lie between them, as when a rail carries a
     * slice of each; else NULL */
    const size_t *ends, *ends2;
} ax_plan_t;

typedef enum ax_act {
    AX_SEND,
    AX_RECV,
    /* from here on without a peer */
    AX_COPY,  /* ACC[first] to ROOM[to] */
    AX_ADD,   /* ROOM[from] into ACC[first] */
    AX_FOLD,  /* all nodes' elements, mine ACC[first], node k's in ROOM at
               * stride * ((k - turn) mod nodes), make OUT[to] */
    AX_FINISH /* ACC[first] makes OUT[to] */
} ax_act_t;

typedef enum ax_place { AX_ACC, AX_OUT, AX_ROOM } ax_place_t;

typedef struct ax_step {
    ax_act_t act;
    ax_place_t place; /* of a message */
    int peer;
    size_t first, count;
    size_t to;
    size_t stride;
    int turn;
    bool before; /* ADD: ROOM's elements are of nodes before mine */
} ax_step_t;

/* Is there such a way for this collective? Does it keep the node order? */
bool ax_plan_there(ax_plan_kind_t kind, ax_way_t way);
bool ax_plan_ordered(ax_plan_kind_t kind, ax_way_t way, int nodes);

/* Can it do with slices of parts, between which there are others? */
bool ax_plan_cuts(ax_plan_kind_t kind, ax_way_t way);

size_t ax_plan_rounds(const ax_plan_t *plan);

/* At most so many steps are in a round. */
size_t ax_plan_most(const ax_plan_t *plan);

/* Elements of ROOM that the plan uses. */
size_t ax_plan_room(const ax_plan_t *plan);

/* The steps of round `round` of this node, messages first; returns how many.
 * Steps of no element are left out. */
size_t ax_plan_round(const ax_plan_t *plan, size_t round, ax_step_t *steps);

const char *ax_plan_kind_name(ax_plan_kind_t kind);
const char *ax_way_name(ax_way_t way);
bool ax_way_parse(const char *name, ax_way_t *out);

/* ceil(log2(n)) and floor(log2(n)) of n >= 1 */
int ax_log2_up(int n);
int ax_log2_down(int n);

/* Part `index` of `parts` nearly equal ones of [0, count), cut where a cache
 * line begins. */
void ax_slice(size_t count, size_t element, int parts, int index, size_t *first,
              size_t *length);

#endif
