/* loader: who gets which sample. Pure functions; no loader here. */
#include "unit/unit.h"

#include "loader/loader_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- split ---------------------------------------------------------------
 */

static const struct {
    size_t total;
    int rank, size;
    size_t first, count, longest;
} split_cases[] = {
    {10, 0, 3, 0, 4, 4}, {10, 1, 3, 4, 3, 4}, {10, 2, 3, 7, 3, 4},
    {9, 2, 3, 6, 3, 3}, /* nothing is missing */
    {5, 0, 4, 0, 2, 2},  {5, 1, 4, 2, 1, 2},  {5, 2, 4, 3, 1, 2},
    {5, 3, 4, 4, 1, 2},  {2, 3, 4, 2, 0, 1}, /* fewer elements than ranks */
    {0, 0, 4, 0, 0, 0},  {7, 0, 1, 0, 7, 7},
};

static void split_covers_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(split_cases); i++) {
        accel_range_t got = {0};
        assert_int_equal(accel_split(split_cases[i].total, split_cases[i].rank,
                                     split_cases[i].size, &got),
                         ACCEL_OK);
        assert_int_equal(got.first, split_cases[i].first);
        assert_int_equal(got.count, split_cases[i].count);
        assert_int_equal(got.longest, split_cases[i].longest);
    }
}

/* Every element is in exactly one part, also where parts are made equally
 * long: repeats lie behind `count`. */
static void split_gives_each_element_once(void **state)
{
    (void)state;
    for (size_t total = 0; total <= 64; total++)
        for (int size = 1; size <= 64; size++) {
            size_t next = 0, most = 0, longest = 0;
            for (int rank = 0; rank < size; rank++) {
                accel_range_t r;
                accel_split(total, rank, size, &r);
                assert_int_equal(r.first, next);
                assert_in_range(r.count, total / (size_t)size,
                                total / (size_t)size + 1);
                assert_in_range(r.longest, r.count, r.count + 1);
                most = r.count > most ? r.count : most;
                assert_true(rank == 0 || r.longest == longest);
                longest = r.longest;
                next += r.count;
            }
            assert_int_equal(next, total);
            assert_int_equal(longest, most);
        }
}

static void split_refuses_a_rank_outside_the_world(void **state)
{
    accel_range_t got = {7, 7, 7};

    (void)state;
    assert_int_equal(accel_split(1, 0, 0, &got), ACCEL_ERR_ARG);
    assert_int_equal(accel_split(1, -1, 2, &got), ACCEL_ERR_ARG);
    assert_int_equal(accel_split(1, 2, 2, &got), ACCEL_ERR_ARG);
    assert_string_equal(accel_last_error()->text,
                        "split: rank 2 is not in a world of 2");
    assert_int_equal(got.first, 7);
}

/* ---- shard: the worked tables ---------------------------------------------
 */

/* Everything a rank gets, as text: "0 1 2 | 6 7 8". */
static void deal(const accel_shard_t *shard, char *out, size_t room)
{
    uint64_t positions[64], length, k = 0;
    size_t count, used = 0;

    assert_int_equal(accel_shard_length(shard, &length), ACCEL_OK);
    out[0] = '\0';
    for (;; k++) {
        count = ARRAY_SIZE(positions);
        accel_status_t st = accel_shard_batch(shard, k, positions, &count);
        if (st == ACCEL_END)
            break;
        assert_int_equal(st, ACCEL_OK);
        for (size_t i = 0; i < count; i++)
            used += (size_t)snprintf(out + used, room - used, "%s%llu",
                                     i ? " " : (k ? " | " : ""),
                                     (unsigned long long)positions[i]);
    }
    assert_int_equal(k, length);
}

#define EVEN .drop_last = false
#define UNEVEN .uneven = true
#define DROP .drop_last = true
#define SPLIT .split_batches = true

static const struct {
    accel_shard_t shard; /* size is the number of texts */
    const char *ranks[4];
} tables[] = {
    /* batches of 3, 2 ranks */
    /* test 1 */
    {{24, 3, EVEN},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18 19 20",
      "3 4 5 | 9 10 11 | 15 16 17 | 21 22 23"}},
    {{24, 3, UNEVEN},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18 19 20",
      "3 4 5 | 9 10 11 | 15 16 17 | 21 22 23"}},
    {{24, 3, DROP},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18 19 20",
      "3 4 5 | 9 10 11 | 15 16 17 | 21 22 23"}},
    /* test 2 */
    {{21, 3, EVEN},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18 19 20",
      "3 4 5 | 9 10 11 | 15 16 17 | 0 1 2"}},
    {{21, 3, UNEVEN},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18 19 20", "3 4 5 | 9 10 11 | 15 16 17"}},
    {{21, 3, DROP}, {"0 1 2 | 6 7 8 | 12 13 14", "3 4 5 | 9 10 11 | 15 16 17"}},
    /* test 3 */
    {{22, 3, EVEN},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18 19 20",
      "3 4 5 | 9 10 11 | 15 16 17 | 21 0 1"}},
    {{22, 3, UNEVEN},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18 19 20",
      "3 4 5 | 9 10 11 | 15 16 17 | 21"}},
    {{22, 3, DROP}, {"0 1 2 | 6 7 8 | 12 13 14", "3 4 5 | 9 10 11 | 15 16 17"}},
    /* test 4 */
    {{20, 3, EVEN},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18 19 0",
      "3 4 5 | 9 10 11 | 15 16 17 | 1 2 3"}},
    {{20, 3, UNEVEN},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18 19", "3 4 5 | 9 10 11 | 15 16 17"}},
    {{20, 3, DROP}, {"0 1 2 | 6 7 8 | 12 13 14", "3 4 5 | 9 10 11 | 15 16 17"}},
    /* test 5 */
    {{19, 3, EVEN},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18 0 1",
      "3 4 5 | 9 10 11 | 15 16 17 | 2 3 4"}},
    {{19, 3, UNEVEN},
     {"0 1 2 | 6 7 8 | 12 13 14 | 18", "3 4 5 | 9 10 11 | 15 16 17"}},
    {{19, 3, DROP}, {"0 1 2 | 6 7 8 | 12 13 14", "3 4 5 | 9 10 11 | 15 16 17"}},
    /* test 6 */
    {{2, 3, EVEN}, {"0 1 0", "1 0 1"}},
    {{2, 3, UNEVEN}, {"0 1", ""}},
    {{2, 3, DROP}, {"", ""}},
    /* test 7 */
    {{7, 2, EVEN}, {"0 1 | 4 5", "2 3 | 6 0"}},
    {{7, 2, UNEVEN}, {"0 1 | 4 5", "2 3 | 6"}},
    {{7, 2, DROP}, {"0 1", "2 3"}},
    /* test 8 */
    {{3, 1, EVEN}, {"0 | 2", "1 | 0"}},
    {{3, 1, UNEVEN}, {"0 | 2", "1"}},
    {{3, 1, DROP}, {"0", "1"}},
    /* test 13 */
    {{0, 3, EVEN}, {"", ""}},
    {{0, 3, UNEVEN}, {"", ""}},
    {{0, 3, DROP}, {"", ""}},
    /* 4 ranks, some with nothing of their own */
    /* test 9 */
    {{2, 1, EVEN}, {"0", "1", "0", "1"}},
    {{2, 1, UNEVEN}, {"0", "1", "", ""}},
    {{2, 1, DROP}, {"", "", "", ""}},
    /* test 10 */
    {{3, 2, EVEN}, {"0 1", "2 0", "1 2", "0 1"}},
    {{3, 2, UNEVEN}, {"0 1", "2", "", ""}},
    {{3, 2, DROP}, {"", "", "", ""}},
    /* test 11 */
    {{5, 2, EVEN}, {"0 1", "2 3", "4 0", "1 2"}},
    {{5, 2, UNEVEN}, {"0 1", "2 3", "4", ""}},
    {{5, 2, DROP}, {"", "", "", ""}},
    /* test 12 */
    {{11, 3, EVEN}, {"0 1 2", "3 4 5", "6 7 8", "9 10 0"}},
    {{11, 3, UNEVEN}, {"0 1 2", "3 4 5", "6 7 8", "9 10"}},
    {{11, 3, DROP}, {"", "", "", ""}},
    /* one batch for all ranks, in equal parts */
    /* test 14 */
    {{24, 4, SPLIT},
     {"0 1 | 4 5 | 8 9 | 12 13 | 16 17 | 20 21",
      "2 3 | 6 7 | 10 11 | 14 15 | 18 19 | 22 23"}},
    {{24, 4, SPLIT, UNEVEN},
     {"0 1 | 4 5 | 8 9 | 12 13 | 16 17 | 20 21",
      "2 3 | 6 7 | 10 11 | 14 15 | 18 19 | 22 23"}},
    /* test 15 */
    {{22, 4, SPLIT},
     {"0 1 | 4 5 | 8 9 | 12 13 | 16 17 | 20 21",
      "2 3 | 6 7 | 10 11 | 14 15 | 18 19 | 0 1"}},
    {{22, 4, SPLIT, UNEVEN},
     {"0 1 | 4 5 | 8 9 | 12 13 | 16 17 | 20 21",
      "2 3 | 6 7 | 10 11 | 14 15 | 18 19"}},
    {{24, 4, SPLIT, DROP},
     {"0 1 | 4 5 | 8 9 | 12 13 | 16 17 | 20 21",
      "2 3 | 6 7 | 10 11 | 14 15 | 18 19 | 22 23"}},
    {{22, 4, SPLIT, DROP},
     {"0 1 | 4 5 | 8 9 | 12 13 | 16 17", "2 3 | 6 7 | 10 11 | 14 15 | 18 19"}},
    /* test 16 */
    {{21, 4, SPLIT},
     {"0 1 | 4 5 | 8 9 | 12 13 | 16 17 | 20 0",
      "2 3 | 6 7 | 10 11 | 14 15 | 18 19 | 1 2"}},
    {{21, 4, SPLIT, UNEVEN},
     {"0 1 | 4 5 | 8 9 | 12 13 | 16 17 | 20",
      "2 3 | 6 7 | 10 11 | 14 15 | 18 19"}},
    /* test 17 */
    {{2, 4, SPLIT}, {"0 1", "0 1"}},
    {{21, 4, SPLIT, DROP},
     {"0 1 | 4 5 | 8 9 | 12 13 | 16 17", "2 3 | 6 7 | 10 11 | 14 15 | 18 19"}},
    {{2, 4, SPLIT, DROP}, {"", ""}},
    {{9, 4, SPLIT, DROP}, {"0 | 4", "1 | 5", "2 | 6", "3 | 7"}},
    {{2, 4, SPLIT, UNEVEN}, {"0 1", ""}},
    /* test 18 */
    {{9, 4, SPLIT}, {"0 | 4 | 8", "1 | 5 | 0", "2 | 6 | 1", "3 | 7 | 2"}},
    {{9, 4, SPLIT, UNEVEN}, {"0 | 4 | 8", "1 | 5", "2 | 6", "3 | 7"}},
};

static void batches_are_dealt_as_the_tables_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        accel_shard_t shard = tables[i].shard;
        shard.size = 0;
        while (shard.size < 4 && tables[i].ranks[shard.size])
            shard.size++;
        for (shard.rank = 0; shard.rank < shard.size; shard.rank++) {
            char got[512];
            deal(&shard, got, sizeof got);
            if (strcmp(got, tables[i].ranks[shard.rank]) != 0)
                fail_msg("table line %zu, rank %d: \"%s\", not \"%s\"", i,
                         shard.rank, got, tables[i].ranks[shard.rank]);
        }
    }
}

/* What goes wrong elsewhere: late ranks with fewer steps than the others. */
static void step_counts_are_equal_where_ranks_must_meet(void **state)
{
    static const struct {
        accel_shard_t shard;
        uint64_t length;
    } cases[] = {
        {{255, 8, .size = 8, DROP}, 3}, {{255, 8, .size = 8}, 4},
        {{3, 1, .size = 7}, 1},         {{4, 1, .size = 9}, 1},
        {{3, 1, .size = 7, DROP}, 0},   {{255, 64, .size = 8, SPLIT, DROP}, 3},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        accel_shard_t s = cases[i].shard;
        for (s.rank = 0; s.rank < s.size; s.rank++) {
            uint64_t length;
            assert_int_equal(accel_shard_length(&s, &length), ACCEL_OK);
            assert_int_equal(length, cases[i].length);
        }
    }
}

static void wrong_shards_are_refused(void **state)
{
    static const struct {
        accel_shard_t shard;
        const char *text;
    } cases[] = {
        {{10, 0, .rank = 0, .size = 1}, "batch size is 0"},
        {{10, 2, .rank = 2, .size = 2}, "rank 2"},
        {{10, 2, .rank = -1, .size = 2}, "rank -1"},
        {{10, 2, .rank = 0, .size = 0}, "world of 0"},
        /* test 19 */
        {{10, 3, .rank = 0, .size = 2, SPLIT}, "multiple of 2"},
        {{10, UINT64_MAX, .rank = 0, .size = 2}, "2^62"},
        {{UINT64_MAX, 1, .rank = 0, .size = 2}, "2^62"},
    };
    uint64_t length = 99, positions[4];
    size_t count = 4;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(accel_shard_length(&cases[i].shard, &length),
                         ACCEL_ERR_ARG);
        assert_non_null(strstr(accel_last_error()->text, cases[i].text));
        assert_int_equal(
            accel_shard_batch(&cases[i].shard, 0, positions, &count),
            ACCEL_ERR_ARG);
    }
    assert_int_equal(length, 99);

    const accel_shard_t good = {10, 5, .rank = 0, .size = 1};
    assert_int_equal(accel_shard_batch(&good, 0, positions, &count),
                     ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "room for 4"));
    assert_int_equal(accel_shard_batch(&good, 2, positions, &count), ACCEL_END);
    assert_int_equal(accel_shard_batch(&good, UINT64_MAX, positions, &count),
                     ACCEL_END);
}

static void the_largest_epochs_do_not_overflow(void **state)
{
    const uint64_t n = UINT64_C(1) << 62;
    accel_shard_t s = {n, 3, .rank = 1, .size = 2};
    uint64_t length, positions[3];
    size_t count = 3;

    (void)state;
    assert_int_equal(accel_shard_length(&s, &length), ACCEL_OK);
    assert_int_equal(length, n / 6 + 1); /* 2^62 = 4 mod 6 */
    assert_int_equal(accel_shard_batch(&s, length - 1, positions, &count),
                     ACCEL_OK);
    assert_int_equal(positions[0], n - 1);
    assert_int_equal(positions[1], 0);
    assert_int_equal(positions[2], 1);
}

/* ---- shard: properties ----------------------------------------------------
 */

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*seed * below) >> 32);
}

/* Deals a whole epoch to all ranks; seen[p] counts how often p came up. */
static void deal_all(accel_shard_t s, unsigned *seen, uint64_t *lengths,
                     uint64_t *rows)
{
    uint64_t positions[512];

    for (s.rank = 0; s.rank < s.size; s.rank++) {
        uint64_t k = 0;
        size_t count = ARRAY_SIZE(positions);
        while (accel_shard_batch(&s, k, positions, &count) == ACCEL_OK) {
            for (size_t i = 0; i < count; i++) {
                assert_true(positions[i] < s.samples);
                seen[positions[i]]++;
            }
            assert_in_range(count, 1, s.batch_size);
            *rows += count;
            count = ARRAY_SIZE(positions);
            k++;
        }
        lengths[s.rank] = k;
    }
}

static void check_epoch(accel_shard_t s)
{
    unsigned *seen = calloc(s.samples + 1, sizeof *seen);
    uint64_t lengths[16] = {0}, rows = 0, said;
    uint64_t global =
        s.split_batches ? s.batch_size : s.batch_size * (uint64_t)s.size;
    uint64_t kept =
        s.drop_last ? s.samples / global * global : s.samples; /* not lost */
    bool pads = !s.uneven && !s.drop_last;

    assert_non_null(seen);
    deal_all(s, seen, lengths, &rows);
    for (s.rank = 0; s.rank < s.size; s.rank++) {
        assert_int_equal(accel_shard_length(&s, &said), ACCEL_OK);
        assert_int_equal(said, lengths[s.rank]);
        if (!s.uneven || s.drop_last)
            assert_int_equal(said, lengths[0]);
        assert_true(said <= lengths[0] && said + 1 >= lengths[0]);
    }
    for (uint64_t p = 0; p < s.samples; p++)
        assert_true(p < kept ? seen[p] >= 1 : seen[p] == 0);
    if (!pads)
        assert_int_equal(rows, kept); /* so each came exactly once */
    else
        assert_int_equal(rows, (kept + global - 1) / global * global);
    free(seen);
}

/* test 26 */
static void nothing_is_lost_and_only_padding_repeats(void **state)
{
    uint32_t seed = 42;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        accel_shard_t s = {.size = 1 + (int)draw(&seed, 9)};
        s.split_batches = draw(&seed, 2);
        s.drop_last = draw(&seed, 2);
        s.uneven = draw(&seed, 2);
        s.samples = draw(&seed, 120);
        s.batch_size = 1 + draw(&seed, 12);
        if (s.split_batches)
            s.batch_size *= (uint64_t)s.size;
        check_epoch(s);
    }
}

/* ---- shuffle --------------------------------------------------------------
 */

static void every_epoch_is_a_permutation(void **state)
{
    static unsigned char seen[4096];

    (void)state;
    for (uint64_t n = 1; n <= 4096; n++) {
        memset(seen, 0, sizeof seen);
        for (uint64_t p = 0; p < n; p++) {
            uint64_t x = accel_shuffle(n * 7919, n % 5, n, p);
            assert_true(x < n && !seen[x]);
            seen[x] = 1;
        }
    }
}

static void huge_epochs_are_permuted_too(void **state)
{
    static const uint64_t sizes[] = {UINT64_C(1) << 32,
                                     (UINT64_C(1) << 32) + 1,
                                     UINT64_C(10000000000),
                                     (UINT64_C(1) << 62) - 1,
                                     UINT64_C(1) << 63,
                                     (UINT64_C(1) << 63) + 1,
                                     UINT64_MAX};

    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
        uint64_t got[600];
        for (size_t i = 0; i < ARRAY_SIZE(got); i++) {
            uint64_t p = i < 300 ? i : sizes[s] - 600 + i; /* both ends */
            got[i] = accel_shuffle(1, 2, sizes[s], p);
            assert_true(got[i] < sizes[s]);
            for (size_t j = 0; j < i; j++)
                assert_true(got[i] != got[j]);
        }
    }
}

/* Version 1: these never change. */
static void the_order_is_fixed_by_its_version(void **state)
{
    static const uint64_t ten[2][10] = {{2, 5, 0, 7, 1, 6, 3, 4, 9, 8},
                                        {2, 3, 0, 7, 6, 9, 5, 8, 1, 4}};

    (void)state;
    assert_int_equal(AX_SHUFFLE_VERSION, 1);
    for (uint64_t epoch = 0; epoch < 2; epoch++)
        for (uint64_t p = 0; p < 10; p++)
            assert_int_equal(accel_shuffle(42, epoch, 10, p), ten[epoch][p]);
    assert_int_equal(accel_shuffle(7, 3, 1000003, 0), 254685);
    assert_int_equal(accel_shuffle(7, 3, 1000003, 1000002), 564523);
    assert_int_equal(
        accel_shuffle(UINT64_MAX, UINT64_MAX, UINT64_C(1) << 40, 12345),
        UINT64_C(969300377675));
}

/* How far a chi-square sum is from its mean, in standard deviations. */
static double deviations(const unsigned *count, size_t n, double expected,
                         double freedom)
{
    double chi = 0;

    for (size_t i = 0; i < n; i++)
        chi += (count[i] - expected) * (count[i] - expected) / expected;
    return (chi - freedom) / sqrt(2 * freedom);
}

static void positions_and_neighbours_look_random(void **state)
{
    static const size_t sizes[] = {2, 3, 5, 8, 16, 31, 64, 100};
    enum { SEEDS = 4000 };

    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
        size_t n = sizes[s];
        unsigned *where = calloc(n * n, sizeof *where);
        unsigned *gap = calloc(n, sizeof *gap);
        assert_true(where && gap);
        for (uint64_t seed = 0; seed < SEEDS; seed++)
            for (uint64_t p = 0, before = 0; p < n; p++) {
                uint64_t x = accel_shuffle(seed, seed % 3, n, p);
                where[p * n + x]++;
                if (p)
                    gap[(x + n - before) % n]++;
                before = x;
            }
        double d = deviations(where, n * n, (double)SEEDS / (double)n,
                              (double)((n - 1) * (n - 1)));
        assert_true(fabs(d) < 4);
        if (n > 2) {
            d = deviations(gap + 1, n - 1, SEEDS, (double)(n - 2));
            assert_true(fabs(d) < 4);
        }
        free(where);
        free(gap);
    }
}

static void seeds_and_epochs_differ(void **state)
{
    unsigned same_seed = 0, same_epoch = 0;
    enum { N = 1000 };

    (void)state;
    for (uint64_t p = 0; p < N; p++) {
        uint64_t x = accel_shuffle(42, 0, N, p);
        same_seed += x == accel_shuffle(21, 0, N, p);
        same_epoch += x == accel_shuffle(42, 1, N, p);
    }
    assert_true(same_seed < 12 && same_epoch < 12); /* 1 expected */
    assert_int_equal(accel_shuffle(1, 1, 1, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_covers_the_table),
        cmocka_unit_test(split_gives_each_element_once),
        cmocka_unit_test(split_refuses_a_rank_outside_the_world),
        cmocka_unit_test(batches_are_dealt_as_the_tables_say),
        cmocka_unit_test(step_counts_are_equal_where_ranks_must_meet),
        cmocka_unit_test(wrong_shards_are_refused),
        cmocka_unit_test(the_largest_epochs_do_not_overflow),
        cmocka_unit_test(nothing_is_lost_and_only_padding_repeats),
        cmocka_unit_test(every_epoch_is_a_permutation),
        cmocka_unit_test(huge_epochs_are_permuted_too),
        cmocka_unit_test(the_order_is_fixed_by_its_version),
        cmocka_unit_test(positions_and_neighbours_look_random),
        cmocka_unit_test(seeds_and_epochs_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
