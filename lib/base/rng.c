/*
 * Philox4x32-10: a block cipher of a counter, so position n of a sequence is
 * found without drawing the n before it. The counter is (block, stream), the
 * key is the seed.
 */
#include "rng_priv.h"

#include <accel/rng.h>
#include <math.h>

#define ROUNDS 10

static uint32_t high(uint64_t product)
{
    return (uint32_t)(product >> 32);
}

void ax_philox(const uint32_t counter[4], const uint32_t key[2],
               uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t p0 = (uint64_t)c0 * 0xD2511F53u;
        uint64_t p1 = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = high(p1) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = high(p0) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void accel_rng_init(accel_rng_t *rng, uint64_t seed, uint64_t stream)
{
    *rng = (accel_rng_t){.seed = seed, .stream = stream, .position = 0};
}

uint32_t accel_rng_u32(accel_rng_t *rng)
{
    uint64_t block = rng->position / 4;
    const uint32_t counter[4] = {(uint32_t)block, high(block),
                                 (uint32_t)rng->stream, high(rng->stream)};
    const uint32_t key[2] = {(uint32_t)rng->seed, high(rng->seed)};
    uint32_t words[4];

    ax_philox(counter, key, words);
    return words[rng->position++ % 4];
}

static uint64_t draw64(accel_rng_t *rng)
{
    uint64_t low = accel_rng_u32(rng);

    return low | (uint64_t)accel_rng_u32(rng) << 32;
}

/* The draws that would make low results likelier are thrown away. */
uint64_t accel_rng_below(accel_rng_t *rng, uint64_t bound)
{
    if (bound < 2)
        return 0;
    uint64_t biased = (0 - bound) % bound; /* 2^64 modulo bound */
    uint64_t drawn;
    do
        drawn = draw64(rng);
    while (drawn < biased);
    return drawn % bound;
}

float accel_rng_uniform(accel_rng_t *rng)
{
    return (float)(accel_rng_u32(rng) >> 8) * 0x1p-24f;
}

float accel_rng_normal(accel_rng_t *rng)
{
    /* (0, 1], so that the logarithm is finite */
    double u = ((double)accel_rng_u32(rng) + 1.0) * 0x1p-32;
    double v = (double)accel_rng_u32(rng) * 0x1p-32;

    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586477 * v));
}
