/* base: random numbers. */
#include "unit/unit.h"

#include "base/rng_priv.h"

#include <accel/rng.h>
#include <math.h>
#include <stdlib.h>

/* Published with Random123 (kat_vectors, philox4x32 10). */
static const struct {
    uint32_t counter[4], key[2], out[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void known_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        uint32_t out[4];
        ax_philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

/* Seed, stream and position are key and counter, low words first. */
static void a_sequence_is_the_cipher_of_its_counter(void **state)
{
    accel_rng_t rng;

    (void)state;
    accel_rng_init(&rng, UINT64_C(0x299f31d0a4093822),
                   UINT64_C(0x0370734413198a2e));
    rng.position = UINT64_C(4) * UINT64_C(0x05a308d3243f6a88);
    uint32_t counter[4] = {0x243f6a88, 0x05a308d3, 0x13198a2e, 0x03707344};
    uint32_t out[4];
    ax_philox(counter, known[2].key, out);
    for (int i = 0; i < 4; i++)
        assert_int_equal(accel_rng_u32(&rng), out[i]);
    accel_rng_init(&rng, 0, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(accel_rng_u32(&rng), known[0].out[i]);
}

static void a_copy_goes_on_alike(void **state)
{
    accel_rng_t rng, copy;

    (void)state;
    accel_rng_init(&rng, 1, 2);
    for (int i = 0; i < 11; i++)
        accel_rng_u32(&rng);
    copy = rng;
    assert_int_equal(copy.position, 11);
    for (int i = 0; i < 100; i++)
        assert_int_equal(accel_rng_u32(&rng), accel_rng_u32(&copy));
}

static void streams_and_seeds_differ(void **state)
{
    accel_rng_t a, b, c;
    int same = 0;

    (void)state;
    accel_rng_init(&a, 1, 1);
    accel_rng_init(&b, 1, 2);
    accel_rng_init(&c, 2, 1);
    for (int i = 0; i < 1000; i++) {
        uint32_t x = accel_rng_u32(&a);
        same += x == accel_rng_u32(&b);
        same += x == accel_rng_u32(&c);
    }
    assert_int_equal(same, 0);
}

/* Chi squared of `bound` classes; 5 sigma off would be a bug, and the seed is
 * fixed, so the result is always the same. */
static void below_is_even(void **state)
{
    enum { BOUND = 7, DRAWS = 70000 };
    int seen[BOUND] = {0};
    accel_rng_t rng;
    double chi = 0;

    (void)state;
    accel_rng_init(&rng, 42, 0);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t x = accel_rng_below(&rng, BOUND);
        assert_true(x < BOUND);
        seen[x]++;
    }
    for (int i = 0; i < BOUND; i++)
        chi += pow(seen[i] - DRAWS / BOUND, 2) / (DRAWS / BOUND);
    assert_true(chi < 6 + 5 * sqrt(12.0));
    assert_int_equal(accel_rng_below(&rng, 1), 0);
    assert_int_equal(accel_rng_below(&rng, 0), 0); /* no division by it */
}

/* With 3 * 2^62 as the bound a quarter of all draws must be thrown away, and
 * the three quarters below it come equally often. */
static void below_throws_away_what_would_be_biased(void **state)
{
    enum { DRAWS = 30000 };
    const uint64_t bound = UINT64_C(3) << 62;
    int seen[3] = {0};
    accel_rng_t rng;

    (void)state;
    accel_rng_init(&rng, 1, 0);
    for (int i = 0; i < DRAWS; i++)
        seen[accel_rng_below(&rng, bound) >> 62]++;
    for (int i = 0; i < 3; i++)
        assert_true(abs(seen[i] - DRAWS / 3) < 500);
    assert_true(rng.position > 2 * DRAWS * 5 / 4);
}

static void uniform_and_normal_have_their_moments(void **state)
{
    enum { DRAWS = 200000 };
    accel_rng_t rng;
    double sum = 0, square = 0, fourth = 0, mean = 0;

    (void)state;
    accel_rng_init(&rng, 3, 0);
    for (int i = 0; i < DRAWS; i++) {
        float u = accel_rng_uniform(&rng);
        assert_true(u >= 0 && u < 1);
        assert_true(u * 0x1p24f == floorf(u * 0x1p24f));
        mean += (double)u / DRAWS;
    }
    assert_true(fabs(mean - 0.5) < 0.003);
    assert_int_equal(rng.position, DRAWS);
    for (int i = 0; i < DRAWS; i++) {
        double x = (double)accel_rng_normal(&rng);
        assert_true(isfinite(x));
        sum += x / DRAWS;
        square += x * x / DRAWS;
        fourth += x * x * x * x / DRAWS;
    }
    assert_true(fabs(sum) < 0.01);
    assert_true(fabs(square - 1) < 0.02);
    assert_true(fabs(fourth - 3) < 0.15);
    assert_int_equal(rng.position, 3 * DRAWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(a_sequence_is_the_cipher_of_its_counter),
        cmocka_unit_test(a_copy_goes_on_alike),
        cmocka_unit_test(streams_and_seeds_differ),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(below_throws_away_what_would_be_biased),
        cmocka_unit_test(uniform_and_normal_have_their_moments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
