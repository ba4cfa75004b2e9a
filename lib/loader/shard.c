/*
 * Who gets which position of an epoch. Both ways of dealing are one: a round
 * takes `global` positions in order and hands each rank `local` of them, in
 * rank order. They differ only in which of the two numbers is the batch size.
 */
#include "loader_priv.h"

/* Sums of a position and a round stay far from the end of 64 bits. */
#define LIMIT (UINT64_C(1) << 62)

static accel_status_t check(const accel_shard_t *s)
{
    if (s->size < 1 || s->rank < 0 || s->rank >= s->size)
        return ax_fail(ACCEL_ERR_ARG, "shard: rank %d is not in a world of %d",
                       s->rank, s->size);
    if (s->batch_size == 0)
        return ax_fail(ACCEL_ERR_ARG, "shard: the batch size is 0");
    if (s->split_batches && s->batch_size % (uint64_t)s->size)
        return ax_fail(ACCEL_ERR_ARG,
                       "shard: a batch of %llu cannot be split over %d ranks; "
                       "use a multiple of %d",
                       (unsigned long long)s->batch_size, s->size, s->size);
    if (s->samples > LIMIT || s->batch_size > LIMIT / (uint64_t)s->size)
        return ax_fail(ACCEL_ERR_ARG,
                       "shard: %llu samples in batches of %llu on %d ranks are "
                       "more than 2^62",
                       (unsigned long long)s->samples,
                       (unsigned long long)s->batch_size, s->size);
    return ACCEL_OK;
}

accel_status_t ax_shard_round(const accel_shard_t *shard, round_t *out)
{
    uint64_t size = (uint64_t)shard->size;
    accel_status_t st = check(shard);

    if (st != ACCEL_OK)
        return st;
    out->local =
        shard->split_batches ? shard->batch_size / size : shard->batch_size;
    out->global = out->local * size;
    out->count = shard->samples / out->global;
    if (!shard->drop_last && shard->samples % out->global)
        out->count++;
    return ACCEL_OK;
}

/* First position of this rank in round `k`. */
static uint64_t first_of(const accel_shard_t *s, const round_t *r, uint64_t k)
{
    return k * r->global + (uint64_t)s->rank * r->local;
}

/* An uneven rank has no part in the last round if that ends before it. */
static uint64_t length_of(const accel_shard_t *s, const round_t *r)
{
    if (!s->uneven || r->count == 0)
        return r->count;
    return r->count - (first_of(s, r, r->count - 1) >= s->samples);
}

accel_status_t accel_shard_length(const accel_shard_t *shard, uint64_t *length)
{
    round_t round;
    accel_status_t st = ax_shard_round(shard, &round);

    if (st == ACCEL_OK)
        *length = length_of(shard, &round);
    return st;
}

accel_status_t accel_shard_batch(const accel_shard_t *shard, uint64_t k,
                                 uint64_t *positions, size_t *count)
{
    round_t round;
    accel_status_t st = ax_shard_round(shard, &round);

    if (st != ACCEL_OK)
        return st;
    if (k >= length_of(shard, &round))
        return ACCEL_END;

    uint64_t first = first_of(shard, &round, k);
    uint64_t n = round.local;
    if (shard->uneven && n > shard->samples - first)
        n = shard->samples - first;
    if (n > *count)
        return ax_fail(ACCEL_ERR_ARG,
                       "shard: batch %llu has %llu positions, there is room "
                       "for %zu",
                       (unsigned long long)k, (unsigned long long)n, *count);

    /* What is missing at the end comes from the start again, as often as it
     * takes when the epoch is shorter than a round. */
    for (uint64_t i = 0; i < n; i++) {
        uint64_t p = first + i;
        positions[i] = p < shard->samples ? p : p % shard->samples;
    }
    *count = (size_t)n;
    return ACCEL_OK;
}
