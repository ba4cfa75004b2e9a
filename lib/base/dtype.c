/*
 * Element types, one value at a time: what the fast kernels must equal bit
 * for bit. Everything is done with integers, so that neither the caller's
 * rounding mode nor flush-to-zero can change a result.
 */
#include "base.h"
#include "bits.h"

size_t accel_dtype_size(accel_dtype_t dtype)
{
    switch (dtype) {
    case ACCEL_DTYPE_NONE:
        return 0;
#define SIZE_CASE(NAME, name, bytes)                                           \
    case ACCEL_##NAME:                                                         \
        return bytes;
        ACCEL_DTYPE_LIST(SIZE_CASE)
#undef SIZE_CASE
    }
    return 0;
}

const char *accel_dtype_name(accel_dtype_t dtype)
{
    switch (dtype) {
    case ACCEL_DTYPE_NONE:
        return "?";
#define NAME_CASE(NAME, name, bytes)                                           \
    case ACCEL_##NAME:                                                         \
        return #name;
        ACCEL_DTYPE_LIST(NAME_CASE)
#undef NAME_CASE
    }
    return "?";
}

/* x / 2^n rounded to nearest, ties to even; n from 1 to 63 */
static uint64_t shift_rne(uint64_t x, int n)
{
    uint64_t half = UINT64_C(1) << (n - 1);

    return (x + (half - 1) + ((x >> n) & 1)) >> n;
}

float ax_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = (bits >> 10) & 31;
    uint32_t fraction = bits & 0x3ff;

    if (exponent == 31) /* infinity; NaN with the quiet bit */
        return ax_float_of(sign | 0x7f800000 | fraction << 13 |
                           (fraction ? 0x400000 : 0));
    if (exponent == 0) {
        if (fraction == 0)
            return ax_float_of(sign);
        int shift = __builtin_clz(fraction) - 21; /* to bit 10 */
        fraction = (fraction << shift) & 0x3ff;
        exponent = (uint32_t)(1 - shift);
    }
    return ax_float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

float ax_bf16_to_f32(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;

    if ((wide & 0x7fffffff) > 0x7f800000)
        wide |= 0x400000;
    return ax_float_of(wide);
}

uint16_t ax_f32_to_bf16(float value)
{
    uint32_t bits = ax_bits_of(value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)((bits >> 16) | 0x40);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

uint16_t ax_f32_to_f16(float value)
{
    uint32_t bits = ax_bits_of(value);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t size = bits & 0x7fffffff;

    if (size > 0x7f800000) /* NaN: quiet, the upper payload kept */
        return (uint16_t)(sign | 0x7e00 | ((size >> 13) & 0x3ff));
    if (size >= 0x477ff000) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    if (size >= 0x38800000) /* 2^-14: a normal number; bias 127 to 15 */
        return (uint16_t)(sign | shift_rne(size - 0x38000000, 13));
    if (size < 0x33000000) /* below half of 2^-24, the least */
        return (uint16_t)sign;
    uint32_t fraction = (size & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | shift_rne(fraction, 126 - (int)(size >> 23)));
}

/* f64 to f16 and bf16 must not go through f32: two roundings can differ. */

/* Rounds to a sign, `ebits` bits of exponent and `fbits` of fraction. */
static uint32_t narrow64(double value, int ebits, int fbits)
{
    uint64_t bits = ax_bits64_of(value);
    uint64_t size = bits & (UINT64_MAX >> 1);
    uint32_t sign = (uint32_t)(bits >> 63) << (ebits + fbits);
    uint32_t infinity = ((1u << ebits) - 1) << fbits;
    int bias = (1 << (ebits - 1)) - 1;
    int exponent = (int)(size >> 52) - 1023 + bias;
    int drop = 52 - fbits;

    if (size > UINT64_C(0x7ff0000000000000))
        return sign | infinity | 1u << (fbits - 1) |
               (uint32_t)((size & UINT64_C(0xfffffffffffff)) >> drop);
    if (exponent >= (1 << ebits) - 1)
        return sign | infinity;
    uint64_t fraction = size & UINT64_C(0xfffffffffffff);
    if (exponent > 0) /* a carry moves on into the exponent, up to infinity */
        return sign |
               (uint32_t)shift_rne((uint64_t)exponent << 52 | fraction, drop);
    if (exponent < -fbits - 1) /* below half of the least */
        return sign;
    return sign | (uint32_t)shift_rne(fraction | UINT64_C(1) << 52,
                                      drop + 1 - exponent);
}

uint16_t ax_f64_to_f16(double value)
{
    return (uint16_t)narrow64(value, 5, 10);
}

uint16_t ax_f64_to_bf16(double value)
{
    return (uint16_t)narrow64(value, 8, 7);
}

float ax_f64_to_f32(double value)
{
    return ax_float_of(narrow64(value, 8, 23));
}

/* Widening by hand, too: with DAZ set the machine makes zero of subnormals,
 * and it would turn a signalling NaN quiet on some paths only. */
double ax_f32_to_f64(float value)
{
    uint32_t bits = ax_bits_of(value);
    uint64_t sign = (uint64_t)(bits >> 31) << 63;
    uint64_t exponent = (bits >> 23) & 255;
    uint64_t fraction = bits & 0x7fffff;
    uint64_t wide;

    if (exponent == 255) {
        wide = UINT64_C(0x7ff) << 52 | fraction << 29 |
               (fraction ? UINT64_C(1) << 51 : 0);
    } else if (exponent == 0 && fraction == 0) {
        wide = 0;
    } else {
        int shift = 0;
        if (exponent == 0) {
            shift = __builtin_clz((uint32_t)fraction) - 8;
            fraction = (fraction << shift) & 0x7fffff;
            exponent = 1;
        }
        wide = (exponent + 896 - (uint64_t)shift) << 52 | fraction << 29;
    }
    return ax_double_of(sign | wide);
}
