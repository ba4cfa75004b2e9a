/*
 * The loops over parameters, once as plain C and once more for AVX2 and
 * AVX-512. They are the same lines: the compiler vectorises them. Every
 * operation is one IEEE operation on one element (local.mk turns contraction
 * to fused multiply-add off), so the bits do not depend on the level, nor on
 * where a buffer is cut.
 */
#include "optim_priv.h"

#include "base/bits.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

/* Loshchilov, Hutter (ICLR 2019), bias correction as PyTorch orders it. */
INLINE void adam(const rule_t *r, float *restrict p, const float *restrict g,
                 float *restrict m, float *restrict v, size_t count)
{
    const rule_t k = *r;

#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float grad = g[i] * k.grad_scale + k.decay * p[i];
        float m1 = k.beta1 * m[i] + k.beta1_new * grad;
        float v1 = k.beta2 * v[i] + k.beta2_new * (grad * grad);
        float denominator = sqrtf(v1) * k.root + k.eps;

        m[i] = m1;
        v[i] = v1;
        p[i] -= k.rate * (m1 / denominator);
    }
}

/* Apart from adam() so that 0 * infinity of a parameter cannot turn up. */
INLINE void adamw(const rule_t *r, float *restrict p, const float *restrict g,
                  float *restrict m, float *restrict v, size_t count)
{
    const rule_t k = *r;

#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float grad = g[i] * k.grad_scale;
        float m1 = k.beta1 * m[i] + k.beta1_new * grad;
        float v1 = k.beta2 * v[i] + k.beta2_new * (grad * grad);
        float denominator = sqrtf(v1) * k.root + k.eps;

        m[i] = m1;
        v[i] = v1;
        p[i] = p[i] * k.keep - k.rate * (m1 / denominator);
    }
}

INLINE void sgd_plain(const rule_t *r, float *restrict p,
                      const float *restrict g, size_t count)
{
    const rule_t k = *r;

#pragma omp simd
    for (size_t i = 0; i < count; i++)
        p[i] -= k.rate * (g[i] * k.grad_scale + k.decay * p[i]);
}

INLINE void sgd_momentum(const rule_t *r, float *restrict p,
                         const float *restrict g, float *restrict m,
                         size_t count)
{
    const rule_t k = *r;

#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float grad = g[i] * k.grad_scale + k.decay * p[i];

        m[i] = k.beta1 * m[i] + grad;
        p[i] -= k.rate * m[i];
    }
}

INLINE void sgd_nesterov(const rule_t *r, float *restrict p,
                         const float *restrict g, float *restrict m,
                         size_t count)
{
    const rule_t k = *r;

#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float grad = g[i] * k.grad_scale + k.decay * p[i];

        m[i] = k.beta1 * m[i] + grad;
        p[i] -= k.rate * (grad + k.beta1 * m[i]);
    }
}

/* Sixteen running sums, whatever the vector length, added up in one order. */
#define LANES 16

INLINE double squares(const float *restrict g, size_t count)
{
    double lane[LANES] = {0};
    size_t i = 0;
    double sum = 0;

    for (; i + LANES <= count; i += LANES)
#pragma omp simd
        for (size_t j = 0; j < LANES; j++)
            lane[j] += (double)g[i + j] * (double)g[i + j];
    for (size_t j = 0; i + j < count; j++)
        lane[j] += (double)g[i + j] * (double)g[i + j];
    for (size_t j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

/* Without the sign, the bits of an f32 are in the order of its values. */
INLINE uint32_t largest(const float *restrict g, size_t count)
{
    uint32_t most = 0;

#pragma omp simd reduction(max : most)
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = ax_bits_of(g[i]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

/*
 * One level: the bodies above compiled once more under `attributes`. This
 * macro makes functions only; it hides no control flow.
 */
#define LEVEL(level, attributes)                                               \
    attributes static void level##_adamw(const rule_t *r, float *p,            \
                                         const float *g, float *m, float *v,   \
                                         size_t count)                         \
    {                                                                          \
        adamw(r, p, g, m, v, count);                                           \
    }                                                                          \
    attributes static void level##_adam(const rule_t *r, float *p,             \
                                        const float *g, float *m, float *v,    \
                                        size_t count)                          \
    {                                                                          \
        adam(r, p, g, m, v, count);                                            \
    }                                                                          \
    attributes static void level##_plain(const rule_t *r, float *p,            \
                                         const float *g, float *m, float *v,   \
                                         size_t count)                         \
    {                                                                          \
        (void)m, (void)v;                                                      \
        sgd_plain(r, p, g, count);                                             \
    }                                                                          \
    attributes static void level##_momentum(const rule_t *r, float *p,         \
                                            const float *g, float *m,          \
                                            float *v, size_t count)            \
    {                                                                          \
        (void)v;                                                               \
        sgd_momentum(r, p, g, m, count);                                       \
    }                                                                          \
    attributes static void level##_nesterov(const rule_t *r, float *p,         \
                                            const float *g, float *m,          \
                                            float *v, size_t count)            \
    {                                                                          \
        (void)v;                                                               \
        sgd_nesterov(r, p, g, m, count);                                       \
    }                                                                          \
    attributes static double level##_squares(const float *g, size_t count)     \
    {                                                                          \
        return squares(g, count);                                              \
    }                                                                          \
    attributes static uint32_t level##_largest(const float *g, size_t count)   \
    {                                                                          \
        return largest(g, count);                                              \
    }                                                                          \
    static const kernels_t level##_kernels = {                                 \
        #level,                                                                \
        {level##_adamw, level##_adam, level##_plain, level##_momentum,         \
         level##_nesterov},                                                    \
        level##_squares,                                                       \
        level##_largest}

LEVEL(plain, );

#if defined(__x86_64__) && defined(__GNUC__)
LEVEL(avx2, __attribute__((target("avx2"))));
LEVEL(avx512, __attribute__((target("avx512f,avx512vl,avx512dq"))));

const kernels_t *ax_optim_kernels_at(size_t level)
{
    static const kernels_t *const all[] = {&plain_kernels, &avx2_kernels,
                                           &avx512_kernels};
    size_t levels = 1;

    if (__builtin_cpu_supports("avx2"))
        levels = 2;
    if (levels == 2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        levels = 3;
    return level < levels ? all[level] : NULL;
}
#else
const kernels_t *ax_optim_kernels_at(size_t level)
{
    return level == 0 ? &plain_kernels : NULL;
}
#endif

const kernels_t *ax_optim_kernels(void)
{
    const kernels_t *best = ax_optim_kernels_at((size_t)ax_isa());

    return best ? best : &plain_kernels;
}
