/*
 * loader: the order of samples and the random numbers are the same on every
 * machine. All is computed once more on numbers that are eight bytes each,
 * most significant first, as a big-endian machine keeps them, digit by digit
 * as one does on paper; and compared with values that another program gave.
 */
#include "unit/unit.h"

#include "base/rng_priv.h"
#include "loader/loader_priv.h"

#include <accel/rng.h>

typedef struct number {
    unsigned char byte[8];
} number_t;

static number_t from(uint64_t value)
{
    number_t n;

    for (int i = 7; i >= 0; i--, value /= 256)
        n.byte[i] = (unsigned char)(value % 256);
    return n;
}

static uint64_t value_of(number_t n)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value * 256 + n.byte[i];
    return value;
}

static number_t plus(number_t a, number_t b)
{
    unsigned carry = 0;

    for (int i = 7; i >= 0; i--) {
        carry += (unsigned)a.byte[i] + b.byte[i];
        a.byte[i] = (unsigned char)(carry % 256);
        carry /= 256;
    }
    return a;
}

static number_t times(number_t a, number_t b)
{
    number_t sum = {{0}};

    for (int i = 0; i < 8; i++) {
        number_t row = {{0}};
        unsigned carry = 0;
        for (int k = 7; k >= 7 - i; k--) {
            carry += (unsigned)a.byte[k] * b.byte[i];
            row.byte[k + i - 7] = (unsigned char)(carry % 256);
            carry /= 256;
        }
        sum = plus(sum, row);
    }
    return sum;
}

static number_t differ(number_t a, number_t b)
{
    for (int i = 0; i < 8; i++)
        a.byte[i] ^= b.byte[i];
    return a;
}

/* Bits move to the less significant side. */
static number_t right(number_t a, int bits)
{
    number_t out = {{0}};

    for (int i = 0; i < 64 - bits; i++)
        if (a.byte[i / 8] >> (7 - i % 8) & 1)
            out.byte[(i + bits) / 8] |=
                (unsigned char)(1 << (7 - (i + bits) % 8));
    return out;
}

static number_t left(number_t a, int bits)
{
    while (bits-- > 0)
        a = plus(a, a);
    return a;
}

static number_t lowest(number_t a, int bits)
{
    return right(left(a, 64 - bits), 64 - bits);
}

static bool less(number_t a, number_t b)
{
    return memcmp(a.byte, b.byte, sizeof a.byte) < 0;
}

/* ---- the shuffle --------------------------------------------------------- */

static number_t mix(number_t x)
{
    x = times(differ(x, right(x, 30)), from(UINT64_C(0xbf58476d1ce4e5b9)));
    x = times(differ(x, right(x, 27)), from(UINT64_C(0x94d049bb133111eb)));
    return differ(x, right(x, 31));
}

static number_t scramble(number_t half, number_t key, int bits)
{
    number_t x = times(differ(half, key), from(UINT64_C(0x9e3779b97f4a7c15)));

    x = times(differ(x, right(x, 32)), from(UINT64_C(0xd6e8feb86659fd93)));
    return right(x, 64 - bits);
}

static number_t permuted(const number_t *key, int bits, number_t x)
{
    int nlow = bits / 2, nhigh = bits - nlow;
    number_t low = lowest(x, nlow), high = right(x, nlow);

    for (int i = 0; i < 8; i += 2) {
        high = differ(high, scramble(low, key[i], nhigh));
        low = differ(low, scramble(high, key[i + 1], nlow));
    }
    return plus(left(high, nlow), low);
}

static uint64_t shuffled(uint64_t seed, uint64_t epoch, uint64_t samples,
                         uint64_t position)
{
    const number_t golden = from(UINT64_C(0x9e3779b97f4a7c15));
    number_t state = mix(differ(mix(plus(from(seed), golden)), from(epoch)));
    number_t key[8], x = from(position);
    int bits = 8;

    while (bits < 64 && value_of(right(from(samples - 1), bits)) > 0)
        bits++;
    for (int i = 0; i < 8; i++)
        key[i] = mix(state = plus(state, golden));
    do
        x = permuted(key, bits, x);
    while (!less(x, from(samples)));
    return value_of(x);
}

/* ---- Philox -------------------------------------------------------------- */

static void philox(const uint32_t counter[4], const uint32_t key[2],
                   uint32_t out[4])
{
    number_t c[4], k[2] = {from(key[0]), from(key[1])};

    for (int i = 0; i < 4; i++)
        c[i] = from(counter[i]);
    for (int round = 0; round < 10; round++) {
        number_t p0 = times(c[0], from(0xD2511F53));
        number_t p1 = times(c[2], from(0xCD9E8D57));
        c[0] = differ(differ(right(p1, 32), c[1]), k[0]);
        c[1] = lowest(p1, 32);
        c[2] = differ(differ(right(p0, 32), c[3]), k[1]);
        c[3] = lowest(p0, 32);
        k[0] = lowest(plus(k[0], from(0x9E3779B9)), 32);
        k[1] = lowest(plus(k[1], from(0xBB67AE85)), 32);
    }
    for (int i = 0; i < 4; i++)
        out[i] = (uint32_t)value_of(c[i]);
}

/* ---- tests --------------------------------------------------------------- */

static void the_order_does_not_know_the_byte_order(void **state)
{
    static const uint64_t samples[] = {1,
                                       2,
                                       3,
                                       255,
                                       256,
                                       257,
                                       65535,
                                       1000003,
                                       UINT64_C(1) << 32,
                                       (UINT64_C(1) << 40) + 9,
                                       UINT64_MAX};
    uint64_t random = 1;

    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(samples); s++)
        for (int i = 0; i < 60; i++) {
            uint64_t seed = random = random * UINT64_C(6364136223846793005) + 1;
            uint64_t epoch = i % 3 ? (uint64_t)i : seed >> 7;
            uint64_t at = (seed >> 3) % samples[s];
            assert_int_equal(accel_shuffle(seed, epoch, samples[s], at),
                             shuffled(seed, epoch, samples[s], at));
        }
}

static void random_numbers_do_not_know_the_byte_order(void **state)
{
    accel_rng_t rng;
    uint64_t random = 2;

    (void)state;
    for (int i = 0; i < 100; i++) {
        uint64_t seed = random = random * UINT64_C(6364136223846793005) + 1;
        uint64_t stream = seed * 3, block = seed >> 5;
        uint32_t counter[4] = {(uint32_t)(block % (UINT64_C(1) << 32)),
                               (uint32_t)(block / (UINT64_C(1) << 32)),
                               (uint32_t)(stream % (UINT64_C(1) << 32)),
                               (uint32_t)(stream / (UINT64_C(1) << 32))};
        uint32_t key[2] = {(uint32_t)(seed % (UINT64_C(1) << 32)),
                           (uint32_t)(seed / (UINT64_C(1) << 32))};
        uint32_t got[4], want[4];
        philox(counter, key, want);
        ax_philox(counter, key, got);
        accel_rng_init(&rng, seed, stream);
        rng.position = 4 * block;
        for (int k = 0; k < 4; k++) {
            assert_int_equal(got[k], want[k]);
            assert_int_equal(accel_rng_u32(&rng), want[k]);
        }
    }
}

/* Computed by a few lines of Python, whose integers have no bytes. */
static void the_numbers_are_those_of_another_program(void **state)
{
    static const struct {
        uint64_t seed, epoch, samples, position, sample;
    } orders[] = {
        {1, 0, 1000, 0, 268},
        {1, 0, 1000, 999, 240},
        {UINT64_C(0xfedcba9876543210), 7, 60000, 31, 33968},
        {3, UINT64_C(1) << 40, (UINT64_C(1) << 33) + 5, UINT64_C(1) << 32,
         192060944},
        {5, 2, UINT64_MAX, UINT64_MAX - 1, UINT64_C(3782078815740560645)},
    };
    static const uint32_t draws[] = {0x4671fd85, 0x74decae0, 0x4b77ec76,
                                     0xd7bb4a2f, 0xb8f76c27, 0x51cdda28};
    accel_rng_t rng;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
        assert_int_equal(accel_shuffle(orders[i].seed, orders[i].epoch,
                                       orders[i].samples, orders[i].position),
                         orders[i].sample);
    accel_rng_init(&rng, UINT64_C(0x0123456789abcdef),
                   UINT64_C(0xfedcba9876543210));
    rng.position = 5;
    for (size_t i = 0; i < ARRAY_SIZE(draws); i++)
        assert_int_equal(accel_rng_u32(&rng), draws[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_does_not_know_the_byte_order),
        cmocka_unit_test(random_numbers_do_not_know_the_byte_order),
        cmocka_unit_test(the_numbers_are_those_of_another_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
