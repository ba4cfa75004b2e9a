/* Ranks of a node in groups; ranks are threads. */
#include "unit/unit.h"

#include "comm/levels.h"
#include "multi/sweep.h"
#include "unit/ranks.h"

#include <math.h>
#include <sched.h>
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
    {3, NULL, "groups=aab"},   {4, NULL, "groups=ab"},
    {5, NULL, "groups=abbcc"}, {6, cyclic, "groups=aab"},
    {7, uneven, "groups=aab"},
};

static void quick_sweep(rank_of_t *me)
{
    CHECK(me->comm->by_groups == (me->comm->local_size > 2));
#if defined(__SANITIZE_THREAD__)
    sweep_rounds(me->comm, 50);
#else
    sweep(me->comm, true);
#endif
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
    CHECK(l->flat > 0 && l->copied > 0 && l->near > 0 && l->far > 0);
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

/* ---- large sums -------------------------------------------------------------
 */

static const accel_dtype_t types[] = {
    ACCEL_F64, ACCEL_F32, ACCEL_F16, ACCEL_BF16, ACCEL_I8,  ACCEL_U8,
    ACCEL_I16, ACCEL_U16, ACCEL_I32, ACCEL_U32,  ACCEL_I64, ACCEL_U64};

/* Any bits, NaNs and infinities among them; half of the floats are such that
 * the order of adding shows. */
static void noise(rank_of_t *me, char *at, size_t count, accel_dtype_t t)
{
    size_t bytes = count * accel_dtype_size(t);

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t h = ax_hash(&i, sizeof i, (uint64_t)me->rank + bytes);
        memcpy(at + i, &h, bytes - i < 8 ? bytes - i : 8);
    }
    for (size_t i = 0; i < count && (t == ACCEL_F32 || t == ACCEL_BF16); i++) {
        uint64_t h = ax_hash(&i, sizeof i, (uint64_t)me->rank);
        float x = ldexpf((float)(int16_t)(h >> 48), (int)(h % 12));
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (i % 2 && t == ACCEL_F32)
            memcpy(at + 4 * i, &bits, 4);
        else if (i % 2)
            memcpy(at + 2 * i, (char *)&bits + 2, 2);
    }
}

struct bits_case {
    accel_dtype_t t;
    accel_op_t op;
    size_t count;
    size_t form; /* private, in the heap, from there to another place there */
};

static bool goes_by_groups(const accel_comm_t *c, const struct bits_case *b)
{
    size_t bytes = b->count * accel_dtype_size(b->t);
    bool wide = b->t == ACCEL_F16 || b->t == ACCEL_BF16;
    const ax_levels_t *l = c->levels;

    for (int g = 0; wide && g + 1 < l->groups; g++)
        if (l->first[g + 1] - l->first[g] < 2)
            return false;
    return bytes * (size_t)c->local_size > AX_SMALL;
}

#define HEAP 800000

/* The same sum both ways. */
static void same_bits(rank_of_t *me, const struct bits_case *b, char *heap)
{
    accel_comm_t *c = me->comm;
    size_t bytes = b->count * accel_dtype_size(b->t);
    char *flat = malloc(bytes + 1), *own = malloc(bytes + 1);
    char *data = b->form ? heap : own;
    char *result = b->form == 2 ? heap + HEAP / 2 : data;
    uint64_t before = c->chained;

    CHECK(flat && own);
    c->levels->in_order = false;
    noise(me, flat, b->count, b->t);
    CHECK(accel_comm_allreduce(c, flat, flat, b->count, b->t, b->op) ==
          ACCEL_OK);
    CHECK(c->chained == before);
    c->levels->in_order = true;
    noise(me, data, b->count, b->t);
    CHECK(accel_comm_allreduce(c, data, result, b->count, b->t, b->op) ==
          ACCEL_OK);
    CHECK(c->chained == before + (goes_by_groups(c, b) ? b->count : 0));
    if (memcmp(flat, result, bytes) != 0)
        fprintf(stderr, "%s x %zu op %d form %zu\n", accel_dtype_name(b->t),
                b->count, b->op, b->form);
    CHECK(memcmp(flat, result, bytes) == 0);
    if (result != data) {
        noise(me, own, b->count, b->t);
        CHECK(memcmp(own, data, bytes) == 0); /* what was sent is as it was */
    }
    free(flat);
    free(own);
}

/* Bytes around what changes: a line, a chunk, a slot. */
static const size_t sizes[] = {4096, 16384, 65536, 131072, 300000};

static void all_bits_are_the_same(rank_of_t *me)
{
    const size_t step = *(const size_t *)me->world->arg;
    void *heap;
    size_t number = 0;

    CHECK(accel_alloc(me->comm, HEAP, &heap) == ACCEL_OK);
    for (size_t t = 0; t < ARRAY_SIZE(types); t++)
        for (int op = 0; op <= ACCEL_PROD; op++)
            for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                size_t e = accel_dtype_size(types[t]);
                struct bits_case b = {types[t], (accel_op_t)op,
                                      sizes[i] / e + number % 3 - 1,
                                      number / 3 % 3};
                if (op == ACCEL_AVG && t > 3)
                    continue;
                if (number++ % step == 0)
                    same_bits(me, &b, (char *)heap + number % 4 * e);
            }
    CHECK(accel_free(me->comm, heap) == ACCEL_OK);
}

/* Groups that follow one another, even and uneven. */
static void bits_are_those_of_the_flat_way(void **state)
{
    static const struct {
        int size;
        const char *spec;
        size_t step; /* every so many of the cases */
    } of[] = {{4, "groups=aabb", 2},      {3, "groups=aab", 5},
              {3, "groups=abb", 5},       {5, "groups=aabbb", 3},
              {6, "groups=aabbcc", 5},    {7, "groups=aaaabbc", 7},
              {9, "groups=aabbbccdd", 7}, {4, "groups=aaab", 5}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
        struct world w = {.size = of[i].size,
                          .spec = of[i].spec,
                          .arg = &of[i].step,
                          .run = all_bits_are_the_same};
        run_world(&w);
    }
}

/* ---- who is woken -----------------------------------------------------------
 */

#define COMINGS 20000
#define BASE (UINT64_C(1) << 40) /* what has come was not there before */

static _Atomic uint64_t asked; /* how often rank 2 is to have come */

/* Rank 2 comes each time that it is asked to, at any moment of rank 0's. */
static void come_again(rank_of_t *me)
{
    _Atomic uint64_t *mine = &ax_line(me->comm->seg, 2)->arrived;
    uint64_t n, before = 0;

    while ((n = atomic_load(&asked)) != UINT64_MAX) {
        if (n == before) {
            sched_yield();
            continue;
        }
        for (uint64_t i = n * 7 % 97; i > 0; i--)
            atomic_signal_fence(memory_order_seq_cst);
        atomic_store(mine, BASE + n);
        before = n;
    }
}

/* Who wakes the others does so with all copied that they may wait for. */
static void carry_and_look(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    const ax_line_t *copy = c->seen[2];
    uint64_t until = ax_now_ns() + 1000000000u; /* enough, on any machine */

    CHECK(c->levels->nduties == 1 && c->levels->duties[0] == 2);
    for (uint64_t n = 1; n <= COMINGS && ax_now_ns() < until; n++) {
        ax_wait_t wait = {.arrived = BASE + n};
        atomic_store(&asked, n);
        for (int i = 1; !wait.rung; i++) {
            ax_levels_carry(c, &wait);
            CHECK(!wait.rung || ax_has_come(copy, &wait));
            if (i % 10000 == 0)
                sched_yield();
        }
    }
    atomic_store(&asked, UINT64_MAX);
}

static void all_but_one_have_come(rank_of_t *me)
{
    ax_seg_t *seg = me->comm->seg;
    _Atomic uint64_t *mine = &ax_line(seg, me->rank)->arrived;

    if (me->rank == 0)
        atomic_store(&asked, 0);
    atomic_store(mine, me->rank == 2 ? 0 : 2 * BASE);
    atomic_fetch_add(&seg->head->sleepers, 1);
    pthread_barrier_wait(&me->world->barrier);
    if (me->rank == 0)
        carry_and_look(me);
    else if (me->rank == 2)
        come_again(me);
    pthread_barrier_wait(&me->world->barrier);
    atomic_fetch_sub(&seg->head->sleepers, 1);
}

static void who_sleeps_is_woken_after_the_copying(void **state)
{
    struct world w = {
        .size = 4, .spec = "groups=aabb", .run = all_but_one_have_come};

    (void)state;
    run_world(&w);
}

/* What is measured is what costs: the model follows. */
static void large_sums_go_where_it_is_quicker(void **state)
{
    static const struct {
        int ranks, groups;
        double near, far; /* ns a byte */
        double bytes;
        bool wide, better;
    } of[] = {{48, 2, 0.1, 0.3, 1 << 20, false, true},
              {48, 2, 0.1, 0.3, 1 << 20, true, true},
              {48, 2, 0.1, 0.3, 1 << 12, false, false}, /* too short to fill */
              {48, 2, 0.1, 0.1, 1 << 26, false, false}, /* nothing is far */
              {4, 2, 0.1, 0.11, 1 << 26, false, false},
              {4, 2, 0.1, 0.4, 1 << 26, true, false}, /* sums twice as long */
              {192, 8, 0.1, 0.3, 1 << 24, false, true}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
        ax_levels_t l = {.groups = of[i].groups,
                         .least = of[i].ranks / of[i].groups,
                         .near = of[i].near * 1e-9,
                         .far = of[i].far * 1e-9,
                         .flat = 1e-6};
        bool better = ax_chain_time(&l, of[i].ranks, of[i].bytes, of[i].wide) <
                      ax_chain_flat_time(&l, of[i].ranks, of[i].bytes);
        if (better != of[i].better)
            fail_msg("case %zu", i);
    }
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

/* Rank 1 has come to the sum, but adds nothing; all others wait for it, some
 * through one another. */
static void one_does_not_add(rank_of_t *me)
{
    static float x[6][50000];
    accel_comm_t *c = me->comm;
    const char *text = accel_last_error()->text;

    if (me->rank == 1) {
        c->call = (ax_call_t){.kind = AX_CALL_ALLREDUCE,
                              .count = 50000,
                              .dtype = ACCEL_F32,
                              .op = ACCEL_SUM};
        CHECK(ax_enter(c, ACCEL_OK) == ACCEL_OK);
    } else {
        CHECK(accel_comm_allreduce(c, x[me->rank], x[me->rank], 50000,
                                   ACCEL_F32, ACCEL_SUM) == ACCEL_ERR_TIMEOUT);
        CHECK(strstr(text, "in all-reduce #2 for rank 1 on ") != NULL);
        CHECK(strstr(text, ", rank ") == NULL);
        CHECK(strstr(text, "; ranks 0 2-5 were waiting in it") != NULL);
    }
    pthread_barrier_wait(&me->world->barrier);
}

static void who_does_not_add_is_named(void **state)
{
    struct world w = {
        .size = 6, .spec = "timeout=1,groups=aabbcc", .run = one_does_not_add};

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
        cmocka_unit_test(none_is_none),
        cmocka_unit_test(results_are_right),
        cmocka_unit_test(both_forms_follow_one_another),
        cmocka_unit_test(all_choose_alike),
        cmocka_unit_test(bits_are_those_of_the_flat_way),
        cmocka_unit_test(who_sleeps_is_woken_after_the_copying),
        cmocka_unit_test(large_sums_go_where_it_is_quicker),
        cmocka_unit_test(late_ones_are_named_and_no_others),
        cmocka_unit_test(who_does_not_copy_is_named),
        cmocka_unit_test(who_does_not_add_is_named),
        cmocka_unit_test(misfits_are_told_to_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
