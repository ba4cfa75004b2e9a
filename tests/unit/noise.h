/* Bytes without pattern, for the tests of kernels. */
#ifndef NOISE_H
#define NOISE_H

#include "unit/unit.h"

#include <stdlib.h>

/* A sequence without pattern; splitmix64. */
static inline uint64_t next(uint64_t *seed)
{
    uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline void fill_noise(void *p, size_t bytes, uint64_t seed)
{
    unsigned char *c = p;

    for (size_t i = 0; i < bytes; i++)
        c[i] = (unsigned char)next(&seed);
}

static inline void *must_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);

    assert_non_null(p);
    return p;
}

#endif
