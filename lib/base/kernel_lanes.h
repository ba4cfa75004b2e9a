/*
 * One vector of any width: loading, storing, the operators. The file that
 * includes this gives
 *
 *   BYTES   of a vector
 *   TARGET  the attribute that allows its instructions
 *
 * then includes kernel_types.h, gives
 *
 *   widen_f16, widen_u16, narrow_f16, narrow_u16, widen_f32, narrow_f64
 *           what the vector extension of the compiler cannot say
 *   pack_bf16  two vectors of f32, rounded, as even and odd elements of one;
 *              any NaN becomes AX_NAN32 first
 *   stream_raw, stream_half
 *           stores past the caches, to where whole vectors are aligned
 *   part_load, part_store
 *           a vector of which only the first bytes are in memory
 *
 * and includes kernel_lanes.h and kernel_loops.h. Each belongs to one file
 * only, so there are no guards.
 */

LANE raw load_raw(const void *p)
{
    raw v;

    memcpy(&v, p, sizeof v);
    return v;
}

LANE void store_raw(void *p, raw v)
{
    memcpy(p, &v, sizeof v);
}

LANE vf32 load_f32(const void *p)
{
    return (vf32)load_raw(p);
}

LANE void store_f32(void *p, vf32 v)
{
    store_raw(p, (raw)v);
}

LANE void stream_f32(void *p, vf32 v)
{
    stream_raw(p, (raw)v);
}

LANE vf32 load_f16(const void *p)
{
    half v;

    memcpy(&v, p, sizeof v);
    return widen_f16(v);
}

LANE void store_f16(void *p, vf32 v)
{
    half h = narrow_f16(v);

    memcpy(p, &h, sizeof h);
}

LANE void stream_f16(void *p, vf32 v)
{
    stream_half(p, narrow_f16(v));
}

/* All ones where `bits` is a NaN. */
LANE vi32 nan_mask(vi32 bits)
{
    return (bits & 0x7fffffff) > 0x7f800000;
}

LANE vf32 load_bf16(const void *p)
{
    half v;

    memcpy(&v, p, sizeof v);
    vi32 bits = (vi32)(widen_u16(v) << 16);
    return (vf32)(bits | (nan_mask(bits) & 0x400000));
}

/* With integers: the instruction for it flushes subnormals. */
LANE half narrow_bf16(vf32 v)
{
    vu32 bits = (vu32)v;
    vu32 nan = (vu32)nan_mask((vi32)v);
    vu32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;

    return narrow_u16((rounded & ~nan) | (((bits >> 16) | 0x40) & nan));
}

LANE void store_bf16(void *p, vf32 v)
{
    half h = narrow_bf16(v);

    memcpy(p, &h, sizeof h);
}

LANE void stream_bf16(void *p, vf32 v)
{
    stream_half(p, narrow_bf16(v));
}

/* ---- operators ----------------------------------------------------------- */

LANE raw select_raw(raw mask, raw yes, raw no)
{
    return (yes & mask) | (no & ~mask);
}

LANE raw sum_f32(raw a, raw b)
{
    return (raw)((vf32)a + (vf32)b);
}

LANE raw prod_f32(raw a, raw b)
{
    return (raw)((vf32)a * (vf32)b);
}

/* Equal numbers differ at most in the sign of zero: or keeps a minus, and
 * drops it. */
LANE raw min_f32(raw a, raw b)
{
    vf32 x = (vf32)a, y = (vf32)b;
    raw r = select_raw((raw)((x < y) | (x != x)), a, b);

    return select_raw((raw)(x == y), a | b, r);
}

LANE raw max_f32(raw a, raw b)
{
    vf32 x = (vf32)a, y = (vf32)b;
    raw r = select_raw((raw)((x > y) | (x != x)), a, b);

    return select_raw((raw)(x == y), a & b, r);
}

LANE raw divide_f32(raw a, double divisor)
{
    return divisor != 1 ? (raw)((vf32)a / (float)divisor) : a;
}

LANE raw end_f32(raw a, double divisor)
{
    vf32 x = (vf32)divide_f32(a, divisor);
    vi32 nan = x != x;

    return (raw)(((vi32)x & ~nan) | ((int32_t)AX_NAN32 & nan));
}

LANE raw sum_f64(raw a, raw b)
{
    return (raw)((vf64)a + (vf64)b);
}

LANE raw prod_f64(raw a, raw b)
{
    return (raw)((vf64)a * (vf64)b);
}

LANE raw min_f64(raw a, raw b)
{
    vf64 x = (vf64)a, y = (vf64)b;
    raw r = select_raw((raw)((x < y) | (x != x)), a, b);

    return select_raw((raw)(x == y), a | b, r);
}

LANE raw max_f64(raw a, raw b)
{
    vf64 x = (vf64)a, y = (vf64)b;
    raw r = select_raw((raw)((x > y) | (x != x)), a, b);

    return select_raw((raw)(x == y), a & b, r);
}

LANE raw end_f64(raw a, double divisor)
{
    vf64 x = (vf64)a;

    if (divisor != 1)
        x /= divisor;
    raw nan = (raw)(x != x);

    return select_raw(nan, (raw){0} + (int64_t)AX_NAN64, (raw)x);
}

LANE raw end_int(raw a, double divisor)
{
    (void)divisor;
    return a;
}

/* Signed sums and products wrap as unsigned ones do, without undefined
 * behaviour. */
#define INT_OPERATORS(name, type, unsigned_type)                               \
    typedef type v##name VECTOR;                                               \
    typedef unsigned_type w##name VECTOR;                                      \
    LANE raw sum_##name(raw a, raw b)                                          \
    {                                                                          \
        return (raw)((w##name)a + (w##name)b);                                 \
    }                                                                          \
    LANE raw prod_##name(raw a, raw b)                                         \
    {                                                                          \
        return (raw)((w##name)a * (w##name)b);                                 \
    }                                                                          \
    LANE raw min_##name(raw a, raw b)                                          \
    {                                                                          \
        return select_raw((raw)((v##name)b < (v##name)a), b, a);               \
    }                                                                          \
    LANE raw max_##name(raw a, raw b)                                          \
    {                                                                          \
        return select_raw((raw)((v##name)b > (v##name)a), b, a);               \
    }

INT_OPERATORS(i8, int8_t, uint8_t)
INT_OPERATORS(u8, uint8_t, uint8_t)
INT_OPERATORS(i16, int16_t, uint16_t)
INT_OPERATORS(u16, uint16_t, uint16_t)
INT_OPERATORS(i32, int32_t, uint32_t)
INT_OPERATORS(u32, uint32_t, uint32_t)
INT_OPERATORS(i64, int64_t, uint64_t)
INT_OPERATORS(u64, uint64_t, uint64_t)
