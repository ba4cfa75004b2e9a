/* Elements of any type as numbers, for tests that compute what must come out
 * in f64. */
#ifndef ELEMENT_H
#define ELEMENT_H

#include "base/base.h"

#include <string.h>

static const accel_dtype_t all_types[] = {
    ACCEL_F64, ACCEL_F32, ACCEL_F16, ACCEL_BF16, ACCEL_I8,  ACCEL_U8,
    ACCEL_I16, ACCEL_U16, ACCEL_I32, ACCEL_U32,  ACCEL_I64, ACCEL_U64};

static inline bool is_float(accel_dtype_t t)
{
    return t == ACCEL_F64 || t == ACCEL_F32 || t == ACCEL_F16 ||
           t == ACCEL_BF16;
}

static inline bool is_unsigned(accel_dtype_t t)
{
    return t == ACCEL_U8 || t == ACCEL_U16 || t == ACCEL_U32 || t == ACCEL_U64;
}

static inline void put(void *at, accel_dtype_t t, size_t i, double value)
{
    int64_t whole = (int64_t)value;
    float f = (float)value;

    switch (t) {
    case ACCEL_F64:
        ((double *)at)[i] = value;
        break;
    case ACCEL_F32:
    case ACCEL_F16:
    case ACCEL_BF16:
        (void)accel_convert((char *)at + i * accel_dtype_size(t), t, &f,
                            ACCEL_F32, 1);
        break;
    default: /* little-endian two's complement: the low bytes */
        memcpy((char *)at + i * accel_dtype_size(t), &whole,
               accel_dtype_size(t));
    }
}

static inline double get(const void *at, accel_dtype_t t, size_t i)
{
    switch (t) {
    case ACCEL_F64:
        return ((const double *)at)[i];
    case ACCEL_F32:
        return (double)((const float *)at)[i];
    case ACCEL_F16:
        return (double)ax_f16_to_f32(((const uint16_t *)at)[i]);
    case ACCEL_BF16:
        return (double)ax_bf16_to_f32(((const uint16_t *)at)[i]);
    case ACCEL_I8:
        return ((const int8_t *)at)[i];
    case ACCEL_U8:
        return ((const uint8_t *)at)[i];
    case ACCEL_I16:
        return ((const int16_t *)at)[i];
    case ACCEL_U16:
        return ((const uint16_t *)at)[i];
    case ACCEL_I32:
        return ((const int32_t *)at)[i];
    case ACCEL_U32:
        return ((const uint32_t *)at)[i];
    case ACCEL_I64:
        return (double)((const int64_t *)at)[i];
    default:
        return (double)((const uint64_t *)at)[i];
    }
}

#endif
