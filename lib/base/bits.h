/*
 * A number and its bits: memcpy() is the way that C allows.
 */
#ifndef AX_BITS_H
#define AX_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ax_bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float ax_float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t ax_bits64_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double ax_double_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
