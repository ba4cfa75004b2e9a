/* What plans cost: as the textbook says, and as the model says. */
#include "unit/plan_world.h"

#include <math.h>

/* ---- as many steps and bytes as the textbook says ---------------------------
 */

/* n nodes, m elements (a multiple of n and of the power of two below), s
 * segments; lg: log2, up and down. Rounds, messages of all nodes, elements
 * sent by all nodes, and elements on the way from round to round. */
typedef struct book {
    ax_way_t way;
    size_t rounds, messages, sent, critical;
} book_t;

static void check_book(const book_t *b, ax_plan_kind_t kind, int nodes,
                       size_t m, size_t segment)
{
    bool cut = kind != AX_PLAN_ALLREDUCE && kind != AX_PLAN_REDUCE &&
               kind != AX_PLAN_BROADCAST;
    size_t *parts = need((size_t)nodes + 1, sizeof *parts);
    ax_plan_t ask = {.kind = kind,
                     .way = b->way,
                     .nodes = nodes,
                     .count = cut ? 0 : m,
                     .element = 64,
                     .segment = segment,
                     .parts = cut ? parts : NULL,
                     .parts2 = parts};
    world_t w;

    for (int k = 0; k <= nodes; k++)
        parts[k] = m / (size_t)nodes * (size_t)k;

    open_world(&w, &ask, m);
    play(&w);
    if (w.rounds != b->rounds || w.messages != b->messages ||
        w.sent != b->sent || (b->critical && w.critical != b->critical))
        fail_msg("%s by %s on %d nodes: %zu rounds, %zu messages, %zu "
                 "elements, %zu on the way; the book says %zu, %zu, %zu, %zu",
                 ax_plan_kind_name(kind), ax_way_name(b->way), nodes, w.rounds,
                 w.messages, w.sent, w.critical, b->rounds, b->messages,
                 b->sent, b->critical);
    close_world(&w);
    free(parts);
}

static void all_reduces_cost_what_the_book_says(void **state)
{
    (void)state;
    for (int nodes = 2; nodes <= 33; nodes++) {
        size_t n = (size_t)nodes, d = (size_t)ax_log2_down(nodes);
        size_t u = (size_t)ax_log2_up(nodes), p = (size_t)1 << d;
        size_t r = n - p, one = r != 0, m = n * p, s = 8;
        size_t seg = m / s, edges = n - 1;
        const book_t books[] = {
            /* each to each other: n (n - 1) messages of m */
            {AX_WAY_DIRECT, 1, n * edges, n * edges * m, edges * m},
            /* two rounds of m / n to each other */
            {AX_WAY_SLICED, 2, 2 * n * edges, 2 * edges * m, 2 * edges * m / n},
            /* Bruck: ceil(lg n) rounds, (n - 1) m from each; one more round
             * without a message */
            {AX_WAY_BRUCK, u + 1, n * u, n * edges * m, edges * m},
            /* 2 (n - 1) rounds of m / n: 2 m (n - 1) / n from each */
            {AX_WAY_PAIRWISE, 2 * edges, 2 * n * edges, 2 * edges * m,
             2 * edges * m / n},
            {AX_WAY_RING, 2 * edges, 2 * n * edges, 2 * edges * m,
             2 * edges * m / n},
            /* lg n rounds of m; nodes beyond a power of two: two more */
            {AX_WAY_DOUBLING, d + 2 * one, p * d + 2 * r, (p * d + 2 * r) * m,
             (d + 2 * one) * m},
            /* 2 lg n rounds: 2 m (p - 1) / p from each of p */
            {AX_WAY_RABENSEIFNER, 2 * d + 2 * one, 2 * p * d + 2 * r,
             2 * (p - 1) * m + 2 * r * m, 2 * m * (p - 1) / p + 2 * one * m},
            /* a message over each edge of the tree, up and down */
            {AX_WAY_BINOMIAL, 2 * u, 2 * edges, 2 * edges * m, 2 * u * m},
        };
        for (size_t i = 0; i < ARRAY_SIZE(books); i++)
            check_book(&books[i], AX_PLAN_ALLREDUCE, nodes, m, 0);
        if (m % s || nodes < 3)
            continue;
        /* up and back along n - 1 edges, s segments after each other */
        world_t w;
        ax_plan_t ask = {.kind = AX_PLAN_ALLREDUCE,
                         .way = AX_WAY_CHAIN,
                         .nodes = nodes,
                         .count = m,
                         .element = 64,
                         .segment = seg};
        open_world(&w, &ask, m);
        play(&w);
        assert_int_equal(w.rounds, s + 2 * n - 3);
        assert_int_equal(w.messages, 2 * s * edges);
        assert_int_equal(w.sent, 2 * edges * m);
        assert_int_equal(w.busiest, 2 * m); /* none sends more than both */
        assert_true(w.critical <= 2 * (s + n - 2) * seg);
        close_world(&w);
    }
}

static void trees_and_chains_cost_what_the_book_says(void **state)
{
    (void)state;
    for (int nodes = 2; nodes <= 33; nodes++) {
        size_t n = (size_t)nodes, u = (size_t)ax_log2_up(nodes), m = 24;
        const book_t books[] = {
            {AX_WAY_DIRECT, 1, n - 1, (n - 1) * m, (n - 1) * m},
            {AX_WAY_BINOMIAL, u, n - 1, (n - 1) * m, u * m},
        };
        /* 6 segments of 4, n - 1 edges */
        const book_t tell = {AX_WAY_CHAIN, 6 + n - 2, 6 * (n - 1), (n - 1) * m,
                             (6 + n - 2) * 4};
        /* to the last node, and one hop to root 0 */
        const book_t fetch = {AX_WAY_CHAIN, 6 + n - 1, 6 * n, n * m,
                              (6 + n - 1) * 4};
        for (size_t i = 0; i < ARRAY_SIZE(books); i++) {
            check_book(&books[i], AX_PLAN_BROADCAST, nodes, m, 0);
            check_book(&books[i], AX_PLAN_REDUCE, nodes, m, 0);
        }
        check_book(&tell, AX_PLAN_BROADCAST, nodes, m, 4);
        check_book(&fetch, AX_PLAN_REDUCE, nodes, m, 4);
    }
}

/* n parts of q elements each. */
static void parts_cost_what_the_book_says(void **state)
{
    (void)state;
    for (int nodes = 2; nodes <= 33; nodes++) {
        size_t n = (size_t)nodes, d = (size_t)ax_log2_down(nodes), q = 3;
        size_t p = (size_t)1 << d, r = n - p, one = r != 0, m = n * q;
        size_t all = n * (n - 1), each = (n - 1) * q;
        const book_t at_once = {AX_WAY_DIRECT, 1, all, all * q, each};
        const book_t in_turn = {AX_WAY_PAIRWISE, n - 1, all, all * q, each};
        const book_t ring = {AX_WAY_RING, n - 1, all, all * q, each};
        /* lg n rounds, in which p nodes get all that they do not have; nodes
         * beyond a power of two hand theirs over and get all back */
        const book_t doubling = {AX_WAY_DOUBLING, d + 2 * one, p * d + 2 * r,
                                 r * q + (p - 1) * m + r * m, 0};
        const book_t root = {AX_WAY_DIRECT, 1, n - 1, each, each};
        check_book(&at_once, AX_PLAN_REDUCE_SCATTER, nodes, m, 0);
        check_book(&in_turn, AX_PLAN_REDUCE_SCATTER, nodes, m, 0);
        check_book(&ring, AX_PLAN_REDUCE_SCATTER, nodes, m, 0);
        check_book(&at_once, AX_PLAN_ALLGATHER, nodes, m, 0);
        check_book(&ring, AX_PLAN_ALLGATHER, nodes, m, 0);
        check_book(&doubling, AX_PLAN_ALLGATHER, nodes, m, 0);
        check_book(&at_once, AX_PLAN_ALLTOALL, nodes, m, 0);
        check_book(&in_turn, AX_PLAN_ALLTOALL, nodes, m, 0);
        check_book(&root, AX_PLAN_GATHER, nodes, m, 0);
        check_book(&root, AX_PLAN_SCATTER, nodes, m, 0);
    }
}

/* ---- the model --------------------------------------------------------------
 */

static const ax_model_t models[] = {
    {15e-6, 2e-6, 0.4e-9, 0.6e-9, 0.05e-9}, /* sockets */
    {1.5e-6, 0.2e-6, 0.08e-9, 0.09e-9, 0.05e-9},
    {1e-6, 1e-6, 1e-10, 1e-9, 1e-10}, /* crowds jam */
    {1e-15, 1e-15, 1e-15, 1e-15, 1e-15},
    {1e-6, 0.5e-6, 1e-10, 1e-10, 1e-11}};

static void cost_grows_with_bytes_and_constants(void **state)
{
    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(models); c++)
        for (int nodes = 2; nodes < 70; nodes++)
            for (int kind = 0; kind < AX_PLAN_KINDS; kind++) {
                double before = 0;
                for (double bytes = 4; bytes < 1e6; bytes *= 2) {
                    ax_ask_t ask = {.kind = (ax_plan_kind_t)kind,
                                    .nodes = nodes,
                                    .acc_bytes = bytes,
                                    .out_bytes = bytes,
                                    .ordered = nodes % 2};
                    ax_model_t slow = models[c];
                    ax_way_t way = ax_model_choose(&slow, &ask);
                    double time = ax_model_time(&slow, &ask, way);
                    assert_true(time >= before && isfinite(time));
                    before = time;
                    slow.round *= 2;
                    slow.crowd *= 2;
                    slow.byte *= 2;
                    way = ax_model_choose(&slow, &ask);
                    assert_true(ax_model_time(&slow, &ask, way) >= time);
                }
            }
}

static void no_way_breaks_the_promised_order(void **state)
{
    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(models); c++)
        for (int nodes = 2; nodes < 5000; nodes += 1 + nodes / 3)
            for (double bytes = 4; bytes < 1e8; bytes *= 3) {
                ax_ask_t ask = {.kind = AX_PLAN_ALLREDUCE,
                                .nodes = nodes,
                                .acc_bytes = bytes,
                                .out_bytes = bytes,
                                .ordered = true};
                ax_way_t way = ax_model_choose(&models[c], &ask);
                assert_true(ax_plan_ordered(ask.kind, way, nodes));
                if (way == AX_WAY_DIRECT || way == AX_WAY_BRUCK)
                    assert_true(bytes * nodes <= (16 << 20));
            }
}

static void the_choice_is_the_expected_one(void **state)
{
    static const struct {
        int model, nodes;
        double bytes;
        bool ordered;
        ax_way_t way;
    } cases[] = {
        {4, 2, 8, true, AX_WAY_DIRECT},
        {1, 64, 8, true, AX_WAY_BRUCK},
        {1, 64, 8, false, AX_WAY_DOUBLING},
        {2, 64, 1 << 14, false, AX_WAY_RABENSEIFNER},
        {2, 4, 1 << 20, true, AX_WAY_PAIRWISE},
        {4, 4, 1 << 20, true, AX_WAY_SLICED},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        ax_ask_t ask = {.kind = AX_PLAN_ALLREDUCE,
                        .nodes = cases[i].nodes,
                        .acc_bytes = cases[i].bytes,
                        .out_bytes = cases[i].bytes,
                        .ordered = cases[i].ordered};
        ax_way_t way = ax_model_choose(&models[cases[i].model], &ask);
        if (way != cases[i].way)
            fail_msg("case %zu: %s, not %s", i, ax_way_name(way),
                     ax_way_name(cases[i].way));
    }
}

/* The model's loads are those of the plans. */
static void loads_are_those_of_the_plans(void **state)
{
    (void)state;
    for (int nodes = 2; nodes <= 16; nodes++)
        for (int w = 0; w < AX_WAYS; w++) {
            size_t m = (size_t)nodes * 16 * 6, s = 6;
            bool chain = w == AX_WAY_CHAIN;
            ax_plan_t plan = {.kind = AX_PLAN_ALLREDUCE,
                              .way = (ax_way_t)w,
                              .nodes = nodes,
                              .count = m,
                              .element = 64,
                              .segment = m / s};
            ax_ask_t ask = {.kind = AX_PLAN_ALLREDUCE,
                            .nodes = nodes,
                            .acc_bytes = (double)m,
                            .out_bytes = (double)m};
            ax_load_t load = ax_model_load(&ask, (ax_way_t)w, s);
            world_t world;
            open_world(&world, &plan, m);
            play(&world);
            double rounds = (double)world.rounds - (w == AX_WAY_BRUCK ? 1 : 0);
            assert_true(load.rounds == rounds);
            assert_true(fabs(load.bytes - (double)world.critical) < 1e-6 ||
                        (chain && load.bytes >= (double)world.critical));
            close_world(&world);
        }
}

static void tables_end_and_names_are_found(void **state)
{
    char text[256];
    ax_way_t way;
    int lines = 0;

    (void)state;
    while (ax_model_line(&models[0], 4, lines, text, sizeof text)) {
        assert_true(strlen(text) > 20);
        assert_true(++lines < 100);
    }
    assert_true(lines > 10);
    for (int w = 0; w < AX_WAYS; w++) {
        assert_true(ax_way_parse(ax_way_name((ax_way_t)w), &way));
        assert_int_equal(way, w);
    }
    assert_false(ax_way_parse("carrier pigeon", &way));
    assert_false(ax_plan_there(AX_PLAN_SCATTER, AX_WAY_RING));
    assert_false(ax_plan_there(AX_PLAN_KINDS, AX_WAY_RING));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reduces_cost_what_the_book_says),
        cmocka_unit_test(trees_and_chains_cost_what_the_book_says),
        cmocka_unit_test(parts_cost_what_the_book_says),
        cmocka_unit_test(cost_grows_with_bytes_and_constants),
        cmocka_unit_test(no_way_breaks_the_promised_order),
        cmocka_unit_test(the_choice_is_the_expected_one),
        cmocka_unit_test(loads_are_those_of_the_plans),
        cmocka_unit_test(tables_end_and_names_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
