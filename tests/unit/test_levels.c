/* Ranks of a node in groups; ranks are threads. */
#include "unit/unit.h"

#include "multi/sweep.h"
#include "unit/ranks.h"

#include <math.h>
#include <time.h>

/* ---- which groups there are -------------------------------------------------
 */

/* A letter for each rank: its package, its cache; '-': none. */
static const struct {
    const char *packages, *caches, *groups;
} layouts[] = {
    {"ab", "ab", NULL}, /* one rank in each: nothing to gain */
    {"aa", "aa", NULL}, /* one group */
    {"aabb", "abcd", "0011"},
    {"aabb", "----", "0011"},
    {"abab", "abab", "0101"},
    {"ba", "xx", NULL},
    {"bbab", "xxxx", "0010"},
    {"aaaa", "xxyy", "0011"}, /* one package, two caches */
    {"aabb", "xyzw", "0011"}, /* packages before caches */
    {"----", "xxyy", "0011"}, /* ranks bound to a cache only */
    {"aab-", "xxy-", NULL},   /* one is bound nowhere */
    {"aa-b", "xxyy", "0011"}, /* one has no package, but a cache */
    {"abcabcd", "-------", "0120123"},
    {"a", "a", NULL},
};

static int spot_of(char letter)
{
    return letter == '-' ? -1 : letter;
}

static void groups_come_from_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
        const char *want = layouts[i].groups;
        int ranks = (int)strlen(layouts[i].packages), group[16];
        ax_spot_t spots[16];
        char got[17] = "", most = '0';
        for (int r = 0; r < ranks; r++)
            spots[r] = (ax_spot_t){spot_of(layouts[i].packages[r]),
                                   spot_of(layouts[i].caches[r])};
        int groups = ax_levels_group(spots, ranks, group);
        for (int r = 0; r < ranks && groups; r++)
            got[r] = (char)('0' + group[r]);
        for (int r = 0; want && want[r]; r++)
            most = want[r] > most ? want[r] : most;
        assert_int_equal(groups, want ? most - '0' + 1 : 0);
        assert_string_equal(got, want ? want : "");
    }
}

static void wrong_groups(rank_of_t *me)
{
    CHECK(strstr(accel_last_error()->text, "comm: groups=a,b: want auto") ||
          strstr(accel_last_error()->text, "comm: groups=A1: want auto"));
    CHECK(me->comm == NULL);
}

static void other_words_are_refused(void **state)
{
    struct world w = {.size = 3,
                      .spec = "groups=a,,b",
                      .run = wrong_groups,
                      .want = ACCEL_ERR_ARG};

    (void)state;
    run_world(&w);
    w.spec = "groups=A1";
    run_world(&w);
}

static void no_groups(rank_of_t *me)
{
    CHECK(me->comm->levels == NULL && !me->comm->by_groups);
}

static void none_is_none(void **state)
{
    struct world w = {.size = 3, .spec = "groups=none", .run = no_groups};

    (void)state;
    run_world(&w);
    w.spec = "groups=a";
    run_world(&w);
    w.spec = "groups=abc";
    run_world(&w);
}

/* ---- the same results -------------------------------------------------------
 */

static const char *const cyclic[] = {"a", "b", "a", "b", "a", "b", "a", "b"};
static const char *const uneven[] = {"a", "b", "b", "b", "a", "b", "b"};

static const struct {
    int size;
    const char *const *nodes;
    const char *spec;
} worlds[] = {
    {3, NULL, "groups=aab"},     {3, NULL, "groups=aba"},
    {4, NULL, "groups=aabb"},    {4, NULL, "groups=ab"},
    {5, NULL, "groups=abbcc"},   {6, NULL, "groups=aabbcc"},
    {7, NULL, "groups=aaaabbc"}, {8, NULL, "groups=aabbccdd"},
    {9, NULL, "groups=abc"},     {8, cyclic, "groups=aabb"},
    {7, uneven, "groups=aab"},
};

static void quick_sweep(rank_of_t *me)
{
    CHECK(me->comm->by_groups == (me->comm->local_size > 2));
    sweep(me->comm, true);
}

static void results_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(worlds); i++) {
        struct world w = {.size = worlds[i].size,
                          .nodes = worlds[i].nodes,
                          .spec = worlds[i].spec,
                          .run = quick_sweep};
        if (w.nodes && !WITH_UCX)
            print_message("world %zu: not without UCX: %s\n", i, WHY_NOT);
        else
            run_world(&w);
    }
}

/* Both forms may follow one another, at any call. */
static void forms_change(rank_of_t *me)
{
    for (int i = 0; i < 300; i++) {
        float x = (float)(me->rank + i);
        ax_levels_use(me->comm, i / 3 % 2);
        CHECK(accel_comm_allreduce(me->comm, &x, &x, 1, ACCEL_F32, ACCEL_SUM) ==
              ACCEL_OK);
        CHECK(x == (float)(5 * i + 10));
        if (i % 7 == 0)
            CHECK(ax_node_barrier(me->comm) == ACCEL_OK);
    }
}

static void both_forms_follow_one_another(void **state)
{
    struct world w = {.size = 5, .spec = "groups=aabb", .run = forms_change};

    (void)state;
    run_world(&w);
}

/* What measuring would do; on few cores it is not even tried. */
static void choice(rank_of_t *me)
{
    ax_levels_t *l = me->comm->levels;

    CHECK(l && l->forced && l->groups == 2);
    l->forced = false;
    me->comm->seg->crowded = false;
    CHECK(ax_levels_start(me->comm) == ACCEL_OK);
    CHECK(l->flat > 0 && l->copied > 0);
    CHECK(me->comm->by_groups == (l->copied < l->flat));
    bool chosen = me->comm->by_groups;
    int32_t sum = chosen;
    CHECK(accel_comm_allreduce(me->comm, &sum, &sum, 1, ACCEL_I32, ACCEL_SUM) ==
          ACCEL_OK);
    CHECK(sum == (chosen ? 4 : 0)); /* all choose alike */
    me->comm->seg->crowded = true;
    CHECK(ax_levels_start(me->comm) == ACCEL_OK);
    CHECK(!me->comm->by_groups);
}

static void all_choose_alike(void **state)
{
    struct world w = {.size = 4, .spec = "groups=aabb", .run = choice};

    (void)state;
    run_world(&w);
}

/* ---- who is named -----------------------------------------------------------
 */

static void sleep_ms(long ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&ts, NULL);
}

static void one_is_late(rank_of_t *me)
{
    const char *text = accel_last_error()->text;

    if (me->rank == 2)
        sleep_ms(3000);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_TIMEOUT);
    CHECK(strstr(text, "waited 1 s in barrier #2 for rank 2 on ") != NULL);
    CHECK(strstr(text, "); ranks 0 1 3 were waiting in it") != NULL);
}

static void late_ones_are_named_and_no_others(void **state)
{
    struct world w = {
        .size = 4, .spec = "timeout=1,groups=aabb", .run = one_is_late};

    (void)state;
    run_world(&w);
    w.spec = "timeout=1,groups=ab";
    run_world(&w);
}

/* Rank 1 has come, but copies nothing to its group; the other one is through.
 */
static void one_does_not_copy(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    const char *text = accel_last_error()->text;

    c->call = (ax_call_t){.kind = AX_CALL_BARRIER, .seq = c->seq};
    if (me->rank == 1)
        atomic_store(&ax_line(c->seg, 1)->arrived, c->arrived + 1);
    else if (me->rank > 1)
        CHECK(ax_node_barrier(c) == ACCEL_OK);
    else {
        CHECK(ax_node_barrier(c) == ACCEL_ERR_TIMEOUT);
        CHECK(strstr(text, "for rank 1 on ") != NULL);
        CHECK(strstr(text, ", rank ") == NULL);
    }
    pthread_barrier_wait(&me->world->barrier);
}

static void who_does_not_copy_is_named(void **state)
{
    struct world w = {
        .size = 4, .spec = "timeout=1,groups=aabb", .run = one_does_not_copy};

    (void)state;
    run_world(&w);
}

/* What one calls differs: all learn it, in each group. */
static void calls_differ(rank_of_t *me)
{
    const char *text = accel_last_error()->text;
    float x[20] = {0};
    size_t n = me->rank == 3 ? 17 : 2;

    CHECK(accel_comm_allreduce(me->comm, x, x, n, ACCEL_F32, ACCEL_SUM) ==
          ACCEL_ERR_PROTO);
    CHECK(strstr(text, "ranks 0-2 4: all-reduce #2 2 x f32 sum; rank 3: "
                       "all-reduce #2 17 x f32 sum") != NULL);
}

static void argument_is_refused(rank_of_t *me)
{
    const char *text = accel_last_error()->text;
    float x = 0;
    accel_op_t op = me->rank == 2 ? (accel_op_t)99 : ACCEL_SUM;

    CHECK(accel_comm_allreduce(me->comm, &x, &x, 1, ACCEL_F32, op) ==
          ACCEL_ERR_ARG);
    CHECK(strstr(text, "no such operator (99)") != NULL);
    CHECK((strstr(text, "rank 2 on ") != NULL) == (me->rank != 2));
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
}

static void misfits_are_told_to_all(void **state)
{
    static const char *const specs[] = {"groups=aabbb", "groups=ab",
                                        "groups=aaabb"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
        struct world w = {.size = 5, .spec = specs[i], .run = calls_differ};
        run_world(&w);
        w.run = argument_is_refused;
        run_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_come_from_places),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(none_is_none),
        cmocka_unit_test(results_are_right),
        cmocka_unit_test(both_forms_follow_one_another),
        cmocka_unit_test(all_choose_alike),
        cmocka_unit_test(late_ones_are_named_and_no_others),
        cmocka_unit_test(who_does_not_copy_is_named),
        cmocka_unit_test(misfits_are_told_to_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
