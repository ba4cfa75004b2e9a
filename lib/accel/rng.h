/*
 * Random numbers that depend only on (seed, stream, position): Philox4x32-10
 * (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011). Integer arithmetic alone decides the bits, so every machine draws
 * the same. The struct is plain data: copy it to save it.
 */
#ifndef ACCEL_RNG_H
#define ACCEL_RNG_H

#include <accel/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct accel_rng {
    uint64_t seed;     /* the key */
    uint64_t stream;   /* which sequence: different streams never overlap */
    uint64_t position; /* 32-bit words drawn so far */
} accel_rng_t;

/* Starts sequence `stream` of `seed`. Local; as all of these, one thread at a
 * time per accel_rng_t. */
ACCEL_API void accel_rng_init(accel_rng_t *rng, uint64_t seed, uint64_t stream);

/* The next 32 random bits. */
ACCEL_API uint32_t accel_rng_u32(accel_rng_t *rng);

/* Uniform in [0, bound), without bias; bound >= 1. */
ACCEL_API uint64_t accel_rng_below(accel_rng_t *rng, uint64_t bound);

/* Uniform in [0, 1), a multiple of 2^-24. */
ACCEL_API float accel_rng_uniform(accel_rng_t *rng);

/* Normal with mean 0 and deviation 1 (Box-Muller; draws two words). */
ACCEL_API float accel_rng_normal(accel_rng_t *rng);

#ifdef __cplusplus
}
#endif
#endif
