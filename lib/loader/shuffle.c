/*
 * A permutation of [0, samples) that needs no table: a Feistel network over
 * the next power of two, walked until it lands inside. Version 1, that is
 * every constant here, decides the order of everybody's data: a change is a
 * new version.
 */
#include "loader_priv.h"

/* Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014: the finalizer of SplitMix64. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Bits of the domain: enough for `samples`, and never less than 8, so that
 * the halves of a small one still have something to mix. */
static int domain_bits(uint64_t samples)
{
    int bits = 8;

    while (bits < 64 && (samples - 1) >> bits)
        bits++;
    return bits;
}

void ax_shuffle_init(shuffle_t *shuffle, uint64_t seed, uint64_t epoch,
                     uint64_t samples)
{
    uint64_t state = mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ epoch);
    int bits = domain_bits(samples ? samples : 1);

    shuffle->samples = samples;
    shuffle->low = bits / 2;
    shuffle->high = bits - bits / 2;
    for (int i = 0; i < AX_SHUFFLE_ROUNDS; i++) {
        state += UINT64_C(0x9e3779b97f4a7c15);
        shuffle->key[i] = mix(state);
    }
}

static uint64_t mask(int bits)
{
    return (UINT64_C(1) << bits) - 1;
}

/* A half, keyed, mixed; the upper bits of a product are the best mixed. */
static uint64_t scramble(uint64_t half, uint64_t key, int bits)
{
    uint64_t x = (half ^ key) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return x >> (64 - bits);
}

static uint64_t permute(const shuffle_t *s, uint64_t x)
{
    uint64_t low = x & mask(s->low);
    uint64_t high = x >> s->low;

    for (int i = 0; i < AX_SHUFFLE_ROUNDS; i += 2) {
        high ^= scramble(low, s->key[i], s->high);
        low ^= scramble(high, s->key[i + 1], s->low);
    }
    return high << s->low | low;
}

uint64_t ax_shuffle_at(const shuffle_t *shuffle, uint64_t position)
{
    uint64_t x = position;

    if (position >= shuffle->samples)
        return position; /* not ours to move; walking might not end */
    do
        x = permute(shuffle, x);
    while (x >= shuffle->samples);
    return x;
}

static uint64_t permute_back(const shuffle_t *s, uint64_t x)
{
    uint64_t low = x & mask(s->low);
    uint64_t high = x >> s->low;

    for (int i = AX_SHUFFLE_ROUNDS; i > 0; i -= 2) {
        low ^= scramble(high, s->key[i - 1], s->low);
        high ^= scramble(low, s->key[i - 2], s->high);
    }
    return high << s->low | low;
}

uint64_t ax_shuffle_position(const shuffle_t *shuffle, uint64_t sample)
{
    uint64_t x = sample;

    if (sample >= shuffle->samples)
        return sample;
    do
        x = permute_back(shuffle, x);
    while (x >= shuffle->samples);
    return x;
}

uint64_t accel_shuffle(uint64_t seed, uint64_t epoch, uint64_t samples,
                       uint64_t position)
{
    shuffle_t shuffle;

    ax_shuffle_init(&shuffle, seed, epoch, samples);
    return ax_shuffle_at(&shuffle, position);
}
