/* Kernels in plain C: the reference, and all there is beside x86-64. */
#include "bits.h"
#include "kernel.h"

#include <string.h>

/* ---- conversions --------------------------------------------------------- */

/* One loop; the arguments are the two element types and how one is made of
 * the other. memcpy() because the caller's memory may be aligned to nothing. */
#define CONVERT(name, to, from, expression)                                    \
    static void name(void *dst, const void *src, size_t count)                 \
    {                                                                          \
        for (size_t i = 0; i < count; i++) {                                   \
            from x;                                                            \
            memcpy(&x, (const char *)src + i * sizeof x, sizeof x);            \
            to y = expression;                                                 \
            memcpy((char *)dst + i * sizeof y, &y, sizeof y);                  \
        }                                                                      \
    }

CONVERT(f64_from_f32, double, float, ax_f32_to_f64(x))
CONVERT(f64_from_f16, double, uint16_t, ax_f32_to_f64(ax_f16_to_f32(x)))
CONVERT(f64_from_bf16, double, uint16_t, ax_f32_to_f64(ax_bf16_to_f32(x)))
CONVERT(f32_from_f64, float, double, ax_f64_to_f32(x))
CONVERT(f32_from_f16, float, uint16_t, ax_f16_to_f32(x))
CONVERT(f32_from_bf16, float, uint16_t, ax_bf16_to_f32(x))
CONVERT(f16_from_f64, uint16_t, double, ax_f64_to_f16(x))
CONVERT(f16_from_f32, uint16_t, float, ax_f32_to_f16(x))
CONVERT(f16_from_bf16, uint16_t, uint16_t, ax_f32_to_f16(ax_bf16_to_f32(x)))
CONVERT(bf16_from_f64, uint16_t, double, ax_f64_to_bf16(x))
CONVERT(bf16_from_f32, uint16_t, float, ax_f32_to_bf16(x))
CONVERT(bf16_from_f16, uint16_t, uint16_t, ax_f32_to_bf16(ax_f16_to_f32(x)))

static void fill_converts(ax_kernels_t *t)
{
    t->convert[AX_F64][AX_F32] = f64_from_f32;
    t->convert[AX_F64][AX_F16] = f64_from_f16;
    t->convert[AX_F64][AX_BF16] = f64_from_bf16;
    t->convert[AX_F32][AX_F64] = f32_from_f64;
    t->convert[AX_F32][AX_F16] = f32_from_f16;
    t->convert[AX_F32][AX_BF16] = f32_from_bf16;
    t->convert[AX_F16][AX_F64] = f16_from_f64;
    t->convert[AX_F16][AX_F32] = f16_from_f32;
    t->convert[AX_F16][AX_BF16] = f16_from_bf16;
    t->convert[AX_BF16][AX_F64] = bf16_from_f64;
    t->convert[AX_BF16][AX_F32] = bf16_from_f32;
    t->convert[AX_BF16][AX_F16] = bf16_from_f16;
}

/* ---- reductions ---------------------------------------------------------- */

static float sum_f32(float a, float b)
{
    return a + b;
}

static float prod_f32(float a, float b)
{
    return a * b;
}

/* IEEE 754-2019 minimum and maximum: NaN wins, and -0 is below +0. */
static float min_f32(float a, float b)
{
    if (a == b)
        return __builtin_signbit(a) ? a : b;
    return a < b || a != a ? a : b;
}

static float max_f32(float a, float b)
{
    if (a == b)
        return __builtin_signbit(a) ? b : a;
    return a > b || a != a ? a : b;
}

static double sum_f64(double a, double b)
{
    return a + b;
}

static double prod_f64(double a, double b)
{
    return a * b;
}

static double min_f64(double a, double b)
{
    if (a == b)
        return __builtin_signbit(a) ? a : b;
    return a < b || a != a ? a : b;
}

static double max_f64(double a, double b)
{
    if (a == b)
        return __builtin_signbit(a) ? b : a;
    return a > b || a != a ? a : b;
}

static float end_f32(float x, double divisor)
{
    x /= (float)divisor;
    return x != x ? ax_float_of(AX_NAN32) : x;
}

static double end_f64(double x, double divisor)
{
    x /= divisor;
    return x != x ? ax_double_of(AX_NAN64) : x;
}

static float same_f32(float x)
{
    return x;
}

static double same_f64(double x)
{
    return x;
}

#define REDUCE(name, op, to, from, wide, load, store)                          \
    static void op##_##name(void *dst, const void *const *src, int nsrc,       \
                            size_t count, double divisor)                      \
    {                                                                          \
        for (size_t i = 0; i < count; i++) {                                   \
            from x;                                                            \
            memcpy(&x, (const char *)src[0] + i * sizeof x, sizeof x);         \
            wide acc = load(x);                                                \
            for (int k = 1; k < nsrc; k++) {                                   \
                memcpy(&x, (const char *)src[k] + i * sizeof x, sizeof x);     \
                acc = op##_##wide(acc, load(x));                               \
            }                                                                  \
            to y = store(end_##wide(acc, divisor));                            \
            memcpy((char *)dst + i * sizeof y, &y, sizeof y);                  \
        }                                                                      \
    }

#define REDUCE_ALL(name, to, from, wide, load, store)                          \
    REDUCE(name, sum, to, from, wide, load, store)                             \
    REDUCE(name, min, to, from, wide, load, store)                             \
    REDUCE(name, max, to, from, wide, load, store)                             \
    REDUCE(name, prod, to, from, wide, load, store)

typedef float f32;
typedef double f64;

REDUCE_ALL(f64s, double, double, f64, same_f64, same_f64)
REDUCE_ALL(f32s, float, float, f32, same_f32, same_f32)
REDUCE_ALL(f16s, uint16_t, uint16_t, f32, ax_f16_to_f32, ax_f32_to_f16)
REDUCE_ALL(bf16s, uint16_t, uint16_t, f32, ax_bf16_to_f32, ax_f32_to_bf16)
REDUCE_ALL(f16s_wide, float, uint16_t, f32, ax_f16_to_f32, same_f32)
REDUCE_ALL(bf16s_wide, float, uint16_t, f32, ax_bf16_to_f32, same_f32)

/* Sums and products of signed integers wrap as those of unsigned ones do; the
 * compiler promotes what is shorter than int, to int: hence 1u. */
#define REDUCE_INT(name, type, unsigned_type)                                  \
    static type sum_as_##name(type a, type b)                                  \
    {                                                                          \
        return (type)(unsigned_type)((unsigned_type)a + (unsigned_type)b);     \
    }                                                                          \
    static type prod_as_##name(type a, type b)                                 \
    {                                                                          \
        return (type)(unsigned_type)(1u * (unsigned_type)a *                   \
                                     (unsigned_type)b);                        \
    }                                                                          \
    static type min_as_##name(type a, type b)                                  \
    {                                                                          \
        return b < a ? b : a;                                                  \
    }                                                                          \
    static type max_as_##name(type a, type b)                                  \
    {                                                                          \
        return b > a ? b : a;                                                  \
    }                                                                          \
    static type end_as_##name(type x, double divisor)                          \
    {                                                                          \
        (void)divisor;                                                         \
        return x;                                                              \
    }                                                                          \
    static type same_##name(type x)                                            \
    {                                                                          \
        return x;                                                              \
    }                                                                          \
    typedef type as_##name;                                                    \
    REDUCE_ALL(name, type, type, as_##name, same_##name, same_##name)

REDUCE_INT(i8, int8_t, uint8_t)
REDUCE_INT(u8, uint8_t, uint8_t)
REDUCE_INT(i16, int16_t, uint16_t)
REDUCE_INT(u16, uint16_t, uint16_t)
REDUCE_INT(i32, int32_t, uint32_t)
REDUCE_INT(u32, uint32_t, uint32_t)
REDUCE_INT(i64, int64_t, uint64_t)
REDUCE_INT(u64, uint64_t, uint64_t)

#define ROW(name)                                                              \
    {                                                                          \
        sum_##name, min_##name, max_##name, prod_##name                        \
    }

void ax_kernels_scalar(ax_kernels_t *table)
{
    *table = (ax_kernels_t){
        .reduce = {[ACCEL_F64] = ROW(f64s),
                   [ACCEL_F32] = ROW(f32s),
                   [ACCEL_F16] = ROW(f16s),
                   [ACCEL_BF16] = ROW(bf16s),
                   [ACCEL_I8] = ROW(i8),
                   [ACCEL_U8] = ROW(u8),
                   [ACCEL_I16] = ROW(i16),
                   [ACCEL_U16] = ROW(u16),
                   [ACCEL_I32] = ROW(i32),
                   [ACCEL_U32] = ROW(u32),
                   [ACCEL_I64] = ROW(i64),
                   [ACCEL_U64] = ROW(u64)},
        .widen = {[ACCEL_F16] = ROW(f16s_wide), [ACCEL_BF16] = ROW(bf16s_wide)},
    };
    fill_converts(table);
}
