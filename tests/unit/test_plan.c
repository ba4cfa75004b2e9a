/* plan: every plan is played through without a network. */
#include "unit/plan_world.h"

/* ---- right results ----------------------------------------------------------
 */

static cell_t whole_sum(int nodes, size_t i)
{
    cell_t all = element(0, i);

    for (int k = 1; k < nodes; k++)
        all = plus(all, element(k, i));
    return all;
}

static void check_cell(const ax_plan_t *p, cell_t got, cell_t want, size_t i)
{
    bool ordered = ax_plan_ordered(p->kind, p->way, p->nodes);

    /* two elements in the other order are the same sum */
    if (got.sum != want.sum ||
        (ordered && p->nodes != 2 && got.order != want.order))
        fail_msg("%s by %s on %d nodes, root %d, %zu elements: node %d, "
                 "element %zu: %s",
                 ax_plan_kind_name(p->kind), ax_way_name(p->way), p->nodes,
                 p->root, p->count, p->node, i,
                 got.sum != want.sum ? "wrong sum" : "wrong order");
}

static void check_sums(world_t *w, const size_t *parts)
{
    for (int k = 0; k < w->nodes; k++) {
        const node_t *n = &w->at[k];
        const ax_plan_t *p = &n->plan;
        size_t from = parts ? parts[k] : 0;
        size_t upto = parts ? parts[k + 1] : p->count;
        if (p->kind == AX_PLAN_REDUCE && k != p->root)
            continue;
        for (size_t i = from; i < upto; i++)
            check_cell(p, n->out[i - from], whole_sum(w->nodes, i), i);
    }
}

static void try_sums(ax_plan_kind_t kind, ax_way_t way, int nodes, size_t count)
{
    size_t segments[] = {0, 1, 5, 1000};

    for (size_t s = 0; s < ARRAY_SIZE(segments); s++) {
        ax_plan_t ask = {.kind = kind,
                         .way = way,
                         .nodes = nodes,
                         .root = (nodes * 2) / 3 % nodes,
                         .count = count,
                         .element = 64,
                         .segment = segments[s]};
        world_t w;
        open_world(&w, &ask, count);
        play(&w);
        check_sums(&w, NULL);
        close_world(&w);
        if (way != AX_WAY_CHAIN)
            return;
    }
}

static void sums_are_right_on_1_to_33_nodes(void **state)
{
    static const size_t counts[] = {1, 2, 7, 33, 64, 100};

    (void)state;
    for (int nodes = 1; nodes <= 33; nodes++)
        for (int way = 0; way < AX_WAYS; way++)
            for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
                if (ax_plan_there(AX_PLAN_ALLREDUCE, (ax_way_t)way))
                    try_sums(AX_PLAN_ALLREDUCE, (ax_way_t)way, nodes,
                             counts[i]);
                if (ax_plan_there(AX_PLAN_REDUCE, (ax_way_t)way))
                    try_sums(AX_PLAN_REDUCE, (ax_way_t)way, nodes, counts[i]);
            }
}

/* Uneven parts, some of them empty. */
static size_t *make_parts(int nodes, int seed)
{
    size_t *parts = need((size_t)nodes + 1, sizeof *parts);

    for (int k = 0; k < nodes; k++)
        parts[k + 1] = parts[k] + (size_t)((k * 7 + seed) % 5);
    return parts;
}

static void parts_of_sums_are_right(void **state)
{
    (void)state;
    for (int nodes = 1; nodes <= 33; nodes++)
        for (int way = 0; way < AX_WAYS; way++) {
            if (!ax_plan_there(AX_PLAN_REDUCE_SCATTER, (ax_way_t)way))
                continue;
            size_t *parts = make_parts(nodes, nodes);
            ax_plan_t ask = {.kind = AX_PLAN_REDUCE_SCATTER,
                             .way = (ax_way_t)way,
                             .nodes = nodes,
                             .element = 64,
                             .parts = parts};
            world_t w;
            open_world(&w, &ask, parts[nodes] + 1);
            play(&w);
            check_sums(&w, parts);
            close_world(&w);
            free(parts);
        }
}

/* ---- data that only moves ---------------------------------------------------
 */

static void check_moved(const ax_plan_t *p, cell_t got, int from, size_t i)
{
    if (got.sum != element(from, i).sum)
        fail_msg("%s by %s on %d nodes, root %d: node %d, element %zu is not "
                 "that of node %d",
                 ax_plan_kind_name(p->kind), ax_way_name(p->way), p->nodes,
                 p->root, p->node, i, from);
}

static void gathered_is_right(void **state)
{
    static const ax_plan_kind_t kinds[] = {AX_PLAN_ALLGATHER, AX_PLAN_GATHER};

    (void)state;
    for (int nodes = 2; nodes <= 33; nodes++)
        for (int c = 0; c < 2 * AX_WAYS; c++) {
            ax_plan_kind_t kind = kinds[c / AX_WAYS];
            if (!ax_plan_there(kind, (ax_way_t)(c % AX_WAYS)))
                continue;
            size_t *parts = make_parts(nodes, nodes + 1);
            ax_plan_t ask = {.kind = kind,
                             .way = (ax_way_t)(c % AX_WAYS),
                             .nodes = nodes,
                             .root = nodes / 2,
                             .element = 1,
                             .parts = parts};
            world_t w;
            open_world(&w, &ask, parts[nodes]);
            for (int k = 0; k < nodes; k++)
                for (size_t i = parts[k]; i < parts[k + 1]; i++)
                    w.at[k].out[i] = element(k, i);
            play(&w);
            for (int k = 0; k < nodes; k++)
                for (int from = 0; from < nodes; from++)
                    for (size_t i = parts[from]; i < parts[from + 1]; i++)
                        if (kind == AX_PLAN_ALLGATHER || k == ask.root)
                            check_moved(&w.at[k].plan, w.at[k].out[i], from, i);
            close_world(&w);
            free(parts);
        }
}

static void scattered_is_right(void **state)
{
    (void)state;
    for (int nodes = 2; nodes <= 33; nodes++) {
        size_t *parts = make_parts(nodes, 3);
        ax_plan_t ask = {.kind = AX_PLAN_SCATTER,
                         .way = AX_WAY_DIRECT,
                         .nodes = nodes,
                         .root = nodes - 1,
                         .element = 1,
                         .parts = parts};
        world_t w;
        open_world(&w, &ask, parts[nodes]);
        play(&w);
        for (int k = 0; k < nodes; k++)
            for (size_t i = parts[k]; i < parts[k + 1]; i++)
                if (k != ask.root)
                    check_moved(&w.at[k].plan, w.at[k].out[i - parts[k]],
                                ask.root, i);
        close_world(&w);
        free(parts);
    }
}

static void try_broadcast(int nodes, ax_way_t way, int root, size_t segment)
{
    ax_plan_t ask = {.kind = AX_PLAN_BROADCAST,
                     .way = way,
                     .nodes = nodes,
                     .root = root,
                     .count = 23,
                     .element = 1,
                     .segment = segment};
    world_t w;

    open_world(&w, &ask, ask.count);
    for (size_t i = 0; i < ask.count; i++)
        w.at[root].out[i] = element(root, i);
    play(&w);
    for (int k = 0; k < nodes; k++)
        for (size_t i = 0; i < ask.count; i++)
            check_moved(&w.at[k].plan, w.at[k].out[i], root, i);
    close_world(&w);
}

static void broadcast_reaches_all_from_any_root(void **state)
{
    (void)state;
    for (int nodes = 2; nodes <= 33; nodes++)
        for (int way = 0; way < AX_WAYS; way++)
            for (int root = 0; root < nodes; root += 1 + nodes / 5)
                if (ax_plan_there(AX_PLAN_BROADCAST, (ax_way_t)way)) {
                    try_broadcast(nodes, (ax_way_t)way, root, 0);
                    try_broadcast(nodes, (ax_way_t)way, root, 4);
                }
}

/* Every node sends k + 1 elements to node k: its own k-th part. */
static void all_to_all_is_right(void **state)
{
    static const ax_way_t both[] = {AX_WAY_DIRECT, AX_WAY_PAIRWISE};

    (void)state;
    for (int nodes = 2; nodes <= 33; nodes++)
        for (int b = 0; b < 2; b++) {
            size_t most = (size_t)nodes * ((size_t)nodes + 1);
            size_t *to = need((size_t)nodes + 1, sizeof *to);
            size_t *from =
                need((size_t)nodes * ((size_t)nodes + 1), sizeof *from);
            ax_plan_t ask = {.kind = AX_PLAN_ALLTOALL,
                             .way = both[b],
                             .nodes = nodes,
                             .element = 1,
                             .parts = to};
            world_t w;
            for (int k = 0; k < nodes; k++)
                to[k + 1] = to[k] + (size_t)k + 1;
            open_world(&w, &ask, most);
            for (int k = 0; k < nodes; k++) {
                size_t *mine = from + (size_t)k * ((size_t)nodes + 1);
                for (int j = 0; j <= nodes; j++)
                    mine[j] = (size_t)j * ((size_t)k + 1);
                w.at[k].plan.parts2 = mine;
            }
            play(&w);
            for (int k = 0; k < nodes; k++)
                for (int j = 0; j < nodes; j++)
                    for (size_t i = 0; j != k && i <= (size_t)k; i++)
                        check_moved(
                            &w.at[k].plan,
                            w.at[k].out[(size_t)j * ((size_t)k + 1) + i], j,
                            to[k] + i);
            close_world(&w);
            free(to);
            free(from);
        }
}

/* ---- rails ------------------------------------------------------------------
 */

/* Each of `rails` ranks of a node plays the plan of its slice of each part,
 * as lib/comm/rail.c cuts it. */
typedef struct rails {
    int rails, nodes;
    size_t *parts, *slices, *ends;
} rails_t;

static rails_t open_rails(int rails, int nodes, size_t *parts)
{
    return (rails_t){.rails = rails,
                     .nodes = nodes,
                     .parts = parts,
                     .slices = need((size_t)nodes, sizeof(size_t)),
                     .ends = need((size_t)nodes, sizeof(size_t))};
}

static void close_rails(rails_t *r)
{
    free(r->parts);
    free(r->slices);
    free(r->ends);
}

static void cut(rails_t *r, const size_t *parts, int rail, size_t *slices,
                size_t *ends)
{
    size_t first, count;

    for (int k = 0; k < r->nodes; k++) {
        ax_slice(parts[k + 1] - parts[k], 64, r->rails, rail, &first, &count);
        slices[k] = parts[k] + first;
        ends[k] = slices[k] + count;
    }
}

static void cut_rail(rails_t *r, int rail, ax_plan_t *plan)
{
    cut(r, r->parts, rail, r->slices, r->ends);
    plan->parts = r->slices;
    plan->ends = r->ends;
}

/* One rail's part of the result, at the place where it belongs. */
static void check_rail(world_t *w, const rails_t *r)
{
    for (int k = 0; k < w->nodes; k++) {
        const node_t *n = &w->at[k];
        const ax_plan_t *p = &n->plan;
        bool rooted = p->kind == AX_PLAN_GATHER;
        for (int j = 0; j < w->nodes; j++)
            for (size_t i = r->slices[j]; i < r->ends[j]; i++) {
                if (p->kind == AX_PLAN_REDUCE_SCATTER && j == k)
                    check_cell(p, n->out[i - r->slices[j]],
                               whole_sum(w->nodes, i), i);
                else if (p->kind == AX_PLAN_SCATTER && j == k && k != p->root)
                    check_moved(p, n->out[i - r->slices[j]], p->root, i);
                else if (p->kind == AX_PLAN_ALLGATHER ||
                         (rooted && k == p->root))
                    check_moved(p, n->out[i], j, i);
            }
    }
}

/* All rails together send what one leader would; returns how much that is. */
static size_t play_rails(rails_t *r, ax_plan_kind_t kind, ax_way_t way)
{
    size_t sent = 0;

    for (int rail = 0; rail < r->rails; rail++) {
        ax_plan_t ask = {.kind = kind,
                         .way = way,
                         .nodes = r->nodes,
                         .root = r->nodes / 2,
                         .element = 64};
        world_t w;
        cut_rail(r, rail, &ask);
        open_world(&w, &ask, r->parts[r->nodes] + 1);
        for (int k = 0; k < r->nodes; k++)
            for (size_t i = r->slices[k];
                 i < r->ends[k] && kind != AX_PLAN_REDUCE_SCATTER; i++)
                w.at[k].out[i] = element(k, i);
        play(&w);
        check_rail(&w, r);
        sent += w.sent;
        close_world(&w);
    }
    return sent;
}

static const ax_plan_kind_t cut_kinds[] = {
    AX_PLAN_REDUCE_SCATTER, AX_PLAN_ALLGATHER, AX_PLAN_GATHER, AX_PLAN_SCATTER};

static void slices_of_parts_are_right_on_1_to_33_nodes(void **state)
{
    (void)state;
    for (int nodes = 2; nodes <= 33; nodes++)
        for (size_t kind = 0; kind < ARRAY_SIZE(cut_kinds); kind++)
            for (int way = 0; way < AX_WAYS; way++) {
                if (!ax_plan_there(cut_kinds[kind], (ax_way_t)way) ||
                    !ax_plan_cuts(cut_kinds[kind], (ax_way_t)way))
                    continue;
                size_t one = 0;
                for (int rails = 1; rails <= 4; rails++) {
                    rails_t r =
                        open_rails(rails, nodes, make_parts(nodes, nodes));
                    size_t sent =
                        play_rails(&r, cut_kinds[kind], (ax_way_t)way);
                    one = rails == 1 ? sent : one;
                    assert_int_equal(sent, one);
                    close_rails(&r);
                }
            }
}

/* What node k sends to node j: (k + 2 j) mod 7 elements. */
static void pair_parts(int nodes, int node, bool from, size_t *parts)
{
    for (int j = 0; j < nodes; j++)
        parts[j + 1] = parts[j] + (size_t)(from ? j + 2 * node : node + 2 * j) %
                                      7 * (size_t)(j != node);
}

typedef struct pairs {
    size_t *to, *from, *slices, *ends; /* of each node, one after the other */
    size_t row;
} pairs_t;

/* Each node's slices of what it sends to, and gets from, each other. */
static void cut_pairs(rails_t *r, const pairs_t *p, int rail, world_t *w)
{
    size_t n = p->row;

    for (int k = 0; k < r->nodes; k++) {
        size_t at = (size_t)k * n, all = (size_t)r->nodes * n;
        ax_plan_t *plan = &w->at[k].plan;
        cut(r, p->to + at, rail, p->slices + at, p->ends + at);
        cut(r, p->from + at, rail, p->slices + all + at, p->ends + all + at);
        plan->parts = p->slices + at;
        plan->ends = p->ends + at;
        plan->parts2 = p->slices + all + at;
        plan->ends2 = p->ends + all + at;
    }
}

static size_t swap_rail(rails_t *r, const pairs_t *p, ax_way_t way, int rail)
{
    ax_plan_t ask = {
        .kind = AX_PLAN_ALLTOALL, .way = way, .nodes = r->nodes, .element = 64};
    world_t w;

    open_world(&w, &ask, 7 * (size_t)r->nodes);
    cut_pairs(r, p, rail, &w);
    play(&w);
    for (int k = 0; k < r->nodes; k++)
        for (int j = 0; j < r->nodes; j++) {
            const ax_plan_t *mine = &w.at[k].plan, *its = &w.at[j].plan;
            for (size_t i = mine->parts2[j]; j != k && i < mine->ends2[j]; i++)
                check_moved(mine, w.at[k].out[i], j,
                            its->parts[k] + i - mine->parts2[j]);
        }
    size_t sent = w.sent;
    close_world(&w);
    return sent;
}

static void slices_of_all_to_all_are_right(void **state)
{
    static const ax_way_t both[] = {AX_WAY_DIRECT, AX_WAY_PAIRWISE};

    (void)state;
    for (int c = 0; c < 32 * 2; c++) {
        int nodes = 2 + c / 2;
        size_t n = (size_t)nodes, all = n * (n + 1), want = 0, sent = 0;
        pairs_t p = {.to = need(all, sizeof(size_t)),
                     .from = need(all, sizeof(size_t)),
                     .slices = need(2 * all, sizeof(size_t)),
                     .ends = need(2 * all, sizeof(size_t)),
                     .row = n + 1};
        rails_t r = open_rails(3, nodes, NULL);
        for (int k = 0; k < nodes; k++) {
            pair_parts(nodes, k, false, p.to + (size_t)k * p.row);
            pair_parts(nodes, k, true, p.from + (size_t)k * p.row);
            want += p.to[(size_t)k * p.row + n];
        }
        for (int rail = 0; rail < r.rails; rail++)
            sent += swap_rail(&r, &p, both[c % 2], rail);
        assert_int_equal(sent, want); /* each byte crosses once */
        close_rails(&r);
        free(p.to);
        free(p.from);
        free(p.slices);
        free(p.ends);
    }
}

/* ---- very many nodes --------------------------------------------------------
 */

/* Every send has its receive in the same round: the two sums over all
 * messages of a number made of sender, receiver and length are equal. */
static void match_rounds(const ax_plan_t *ask, size_t every, size_t *messages)
{
    size_t rounds = ax_plan_rounds(ask);
    ax_step_t *steps = need(ax_plan_most(ask), sizeof *steps);

    *messages = 0;
    for (size_t round = 0; round < rounds; round += every) {
        uint64_t sent = 0, received = 0;
        for (int k = 0; k < ask->nodes; k++) {
            ax_plan_t p = *ask;
            p.node = k;
            size_t n = ax_plan_round(&p, round, steps);
            assert_true(n <= ax_plan_most(&p));
            for (size_t i = 0; i < n; i++) {
                uint64_t peer = (uint64_t)steps[i].peer, me = (uint64_t)k;
                uint64_t more = steps[i].count * 0x9e3779b97f4a7c15u;
                if (steps[i].act == AX_SEND)
                    sent += mix(me << 32 ^ peer ^ more);
                else if (steps[i].act == AX_RECV)
                    received += mix(peer << 32 ^ me ^ more);
                *messages += steps[i].act == AX_SEND;
            }
        }
        assert_true(sent == received);
    }
    free(steps);
}

static void plans_of_thousands_of_nodes_match(void **state)
{
    static const int many[] = {1000, 4096};

    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(many); c++)
        for (int w = 0; w < AX_WAYS; w++) {
            size_t n = (size_t)many[c], messages;
            ax_plan_t ask = {.kind = AX_PLAN_ALLREDUCE,
                             .way = (ax_way_t)w,
                             .nodes = many[c],
                             .count = n * 3,
                             .element = 64,
                             .segment = 50};
            /* those of many rounds that are alike: every 31st at 4,096 */
            bool alike =
                w == AX_WAY_RING || w == AX_WAY_PAIRWISE || w == AX_WAY_CHAIN;
            match_rounds(&ask, alike && n > 1000 ? 31 : 1, &messages);
            assert_true(messages > 0);
            if (w == AX_WAY_BRUCK)
                assert_int_equal(messages, n * (size_t)ax_log2_up((int)n));
            if (w == AX_WAY_BINOMIAL)
                assert_int_equal(messages, 2 * (n - 1));
            if (w == AX_WAY_DIRECT)
                assert_int_equal(messages, n * (n - 1));
        }
}

/* Of each collective and way, where all nodes' parts are alike; a few rounds
 * of those that have thousands. */
static void all_plans_of_thousands_of_nodes_match(void **state)
{
    static const int many[] = {1000, 4096};

    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(many); c++) {
        size_t n = (size_t)many[c], messages;
        size_t *parts = need(n + 1, sizeof *parts);
        for (size_t k = 0; k <= n; k++)
            parts[k] = 2 * k;
        for (int kind = 0; kind < AX_PLAN_KINDS; kind++)
            for (int w = 0; w < AX_WAYS; w++) {
                ax_plan_t ask = {.kind = (ax_plan_kind_t)kind,
                                 .way = (ax_way_t)w,
                                 .nodes = many[c],
                                 .root = many[c] / 3,
                                 .element = 64,
                                 .segment = 50};
                bool cut = kind != AX_PLAN_ALLREDUCE &&
                           kind != AX_PLAN_REDUCE && kind != AX_PLAN_BROADCAST;
                if (kind == AX_PLAN_ALLREDUCE ||
                    !ax_plan_there(ask.kind, ask.way))
                    continue; /* all-reduces have a test of their own */
                ask.count = cut ? 0 : 2 * n;
                ask.parts = cut ? parts : NULL;
                ask.parts2 = parts;
                size_t rounds = ax_plan_rounds(&ask);
                match_rounds(&ask, rounds > 100 ? rounds / 7 : 1, &messages);
                if (messages == 0)
                    fail_msg("%s by %s: no message",
                             ax_plan_kind_name(ask.kind), ax_way_name(ask.way));
                if (ask.way == AX_WAY_BINOMIAL)
                    assert_int_equal(messages, n - 1);
                if (kind == AX_PLAN_GATHER || kind == AX_PLAN_SCATTER)
                    assert_int_equal(messages, n - 1);
                if (kind == AX_PLAN_ALLTOALL && ask.way == AX_WAY_DIRECT)
                    assert_int_equal(messages, n * (n - 1));
            }
        free(parts);
    }
}

/* The slices of eight rails: as many messages each as the whole would be. */
static void slices_of_thousands_of_nodes_match(void **state)
{
    static const int many[] = {1000, 4096};

    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(many); c++) {
        size_t n = (size_t)many[c], messages;
        rails_t r = open_rails(8, many[c], need(n + 1, sizeof(size_t)));
        for (size_t k = 0; k <= n; k++)
            r.parts[k] = 16 * k;
        for (int i = 0; i < 5 * AX_WAYS; i++) {
            ax_plan_kind_t kind =
                i / AX_WAYS == 4 ? AX_PLAN_ALLTOALL : cut_kinds[i / AX_WAYS];
            ax_plan_t ask = {.kind = kind,
                             .way = (ax_way_t)(i % AX_WAYS),
                             .nodes = many[c],
                             .root = many[c] / 3,
                             .element = 64};
            if (!ax_plan_there(kind, ask.way) || !ax_plan_cuts(kind, ask.way))
                continue;
            cut_rail(&r, 1 + i % 7, &ask);
            ask.parts2 = ask.parts;
            ask.ends2 = ask.ends;
            size_t rounds = ax_plan_rounds(&ask);
            match_rounds(&ask, rounds > 100 ? rounds / 7 : 1, &messages);
            if (ask.way == AX_WAY_DIRECT && i / AX_WAYS % 4 < 2)
                assert_int_equal(messages, n * (n - 1));
            assert_true(messages >= n - 1);
        }
        close_rails(&r);
    }
}

/* And the sums, where scratch does not grow with the nodes. */
static void sums_of_thousands_of_nodes_are_right(void **state)
{
    static const ax_way_t few[] = {AX_WAY_DOUBLING, AX_WAY_RABENSEIFNER,
                                   AX_WAY_BINOMIAL, AX_WAY_CHAIN,
                                   AX_WAY_RING,     AX_WAY_PAIRWISE};
    static const int many[] = {1000, 4096};

    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(many); c++)
        for (size_t i = 0; i < ARRAY_SIZE(few); i++) {
            ax_plan_t ask = {.kind = AX_PLAN_ALLREDUCE,
                             .way = few[i],
                             .nodes = many[c],
                             .count = 3,
                             .element = 64,
                             .segment = 2};
            world_t w;
            if (many[c] > 1000 &&
                (few[i] == AX_WAY_PAIRWISE || few[i] == AX_WAY_RING ||
                 few[i] == AX_WAY_CHAIN))
                continue; /* tens of millions of empty rounds */
            open_world(&w, &ask, ask.count);
            play(&w);
            check_sums(&w, NULL);
            close_world(&w);
        }
}

/* ---- more than 2^31 elements ------------------------------------------------
 */

static void slices_and_segments_go_beyond_32_bits(void **state)
{
    static const size_t counts[] = {(size_t)1 << 31, ((size_t)5 << 32) + 7,
                                    SIZE_MAX / 16, SIZE_MAX};

    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(counts); c++)
        for (int parts = 1; parts <= 7; parts++) {
            size_t upto = 0, first, length;
            for (int k = 0; k < parts; k++) {
                ax_slice(counts[c], 4, parts, k, &first, &length);
                assert_int_equal(first, upto);
                upto = first + length;
            }
            assert_int_equal(upto, counts[c]);
        }
    ax_step_t steps[8];
    ax_plan_t chain = {.kind = AX_PLAN_BROADCAST,
                       .way = AX_WAY_CHAIN,
                       .nodes = 3,
                       .count = ((size_t)5 << 32) + 7,
                       .element = 4,
                       .segment = (size_t)1 << 31};
    assert_int_equal(ax_plan_rounds(&chain), 11 + 1);
    assert_int_equal(ax_plan_round(&chain, 10, steps), 1);
    assert_int_equal(steps[0].first, (size_t)10 << 31);
    assert_int_equal(steps[0].count, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_right_on_1_to_33_nodes),
        cmocka_unit_test(parts_of_sums_are_right),
        cmocka_unit_test(gathered_is_right),
        cmocka_unit_test(scattered_is_right),
        cmocka_unit_test(broadcast_reaches_all_from_any_root),
        cmocka_unit_test(all_to_all_is_right),
        cmocka_unit_test(slices_of_parts_are_right_on_1_to_33_nodes),
        cmocka_unit_test(slices_of_all_to_all_are_right),
        cmocka_unit_test(plans_of_thousands_of_nodes_match),
        cmocka_unit_test(all_plans_of_thousands_of_nodes_match),
        cmocka_unit_test(slices_of_thousands_of_nodes_match),
        cmocka_unit_test(sums_of_thousands_of_nodes_are_right),
        cmocka_unit_test(slices_and_segments_go_beyond_32_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
