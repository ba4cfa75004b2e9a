/*
 * The loops over vectors of one width, and the table of them; see
 * kernel_lanes.h. Loops take their element functions in a struct and are
 * inlined with them: one loop in the source, one tight loop for each type in
 * the object.
 */
#define LANES (BYTES / 4)

typedef raw (*raw_op_fn)(raw a, raw b);
typedef raw (*raw_end_fn)(raw a, double divisor);
typedef vf32 (*load_fn)(const void *p);
typedef void (*store_fn)(void *p, vf32 v);

/* What a loop does to each vector. Always a constant, so that it is gone when
 * the loop has been inlined. */
struct raw_step {
    raw_op_fn op;
    raw_end_fn end;
};
struct wide_step {
    size_t from, to; /* bytes of an element before and after */
    load_fn load;
    store_fn store; /* convert_large(): past the caches */
    raw_op_fn op;
};

/* Sources and result of one type: `bytes` of it, whatever it is. Two vectors
 * at a time, so that two chains of additions run beside each other. */
LOOP void reduce_raw(char *dst, const void *const *src, int nsrc, size_t bytes,
                     double divisor, struct raw_step step)
{
    size_t i = 0;

    for (; i + 2 * BYTES <= bytes; i += 2 * BYTES) {
        raw a = load_raw((const char *)src[0] + i);
        raw b = load_raw((const char *)src[0] + i + BYTES);
        for (int k = 1; k < nsrc; k++) {
            a = step.op(a, load_raw((const char *)src[k] + i));
            b = step.op(b, load_raw((const char *)src[k] + i + BYTES));
        }
        store_raw(dst + i, step.end(a, divisor));
        store_raw(dst + i + BYTES, step.end(b, divisor));
    }
    if (i + BYTES <= bytes) {
        raw a = load_raw((const char *)src[0] + i);
        for (int k = 1; k < nsrc; k++)
            a = step.op(a, load_raw((const char *)src[k] + i));
        store_raw(dst + i, step.end(a, divisor));
        i += BYTES;
    }
    if (i < bytes) {
        size_t n = bytes - i;
        raw a = part_load((const char *)src[0] + i, n);
        for (int k = 1; k < nsrc; k++)
            a = step.op(a, part_load((const char *)src[k] + i, n));
        part_store(dst + i, step.end(a, divisor), n);
    }
}

/* The last elements, fewer than LANES of them, through full vectors. */
LOOP vf32 load_tail(const char *p, size_t bytes, load_fn load)
{
    raw part = part_load(p, bytes);

    return load(&part);
}

LOOP void store_tail(char *p, vf32 v, size_t bytes, store_fn store)
{
    raw part = {0};

    store(&part, v);
    part_store(p, part, bytes);
}

/* Sources of 16 bits, the sum in f32, the result of step.to bytes an element.
 */
LOOP void reduce_16(char *dst, const void *const *src, int nsrc, size_t count,
                    double divisor, struct wide_step step)
{
    size_t i = 0;

    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        const char *p = (const char *)src[0] + 2 * i;
        raw a = (raw)step.load(p), b = (raw)step.load(p + BYTES / 2);
        for (int k = 1; k < nsrc; k++) {
            p = (const char *)src[k] + 2 * i;
            a = step.op(a, (raw)step.load(p));
            b = step.op(b, (raw)step.load(p + BYTES / 2));
        }
        step.store(dst + step.to * i, (vf32)end_f32(a, divisor));
        step.store(dst + step.to * (i + LANES), (vf32)end_f32(b, divisor));
    }
    for (size_t n; i < count; i += n) {
        n = count - i < LANES ? count - i : LANES;
        raw a = (raw)load_tail((const char *)src[0] + 2 * i, 2 * n, step.load);
        for (int k = 1; k < nsrc; k++)
            a = step.op(a, (raw)load_tail((const char *)src[k] + 2 * i, 2 * n,
                                          step.load));
        store_tail(dst + step.to * i, (vf32)end_f32(a, divisor), step.to * n,
                   step.store);
    }
}

/*
 * bf16 is the upper half of an f32, so even and odd elements of a vector make
 * two of f32 without being moved to other lanes, and go back the same way.
 * Signalling NaNs need no care: pack_bf16() makes all NaNs one.
 */
LOOP raw reduce_bf16_at(const void *const *src, int nsrc, size_t at, size_t n,
                        double divisor, raw_op_fn op)
{
    raw even = {0}, odd = {0};

    for (int k = 0; k < nsrc; k++) {
        const char *p = (const char *)src[k] + at;
        vu32 v = (vu32)(n == BYTES ? load_raw(p) : part_load(p, n));
        raw low = (raw)(v << 16), high = (raw)(v & 0xffff0000u);
        even = k ? op(even, low) : low;
        odd = k ? op(odd, high) : high;
    }
    return pack_bf16(divide_f32(even, divisor), divide_f32(odd, divisor));
}

LOOP void reduce_bf16(char *dst, const void *const *src, int nsrc, size_t bytes,
                      double divisor, raw_op_fn op)
{
    size_t i = 0;

    for (; nsrc == 2 && i + BYTES <= bytes; i += BYTES)
        store_raw(dst + i, reduce_bf16_at(src, 2, i, BYTES, divisor, op));
    for (; i + BYTES <= bytes; i += BYTES)
        store_raw(dst + i, reduce_bf16_at(src, nsrc, i, BYTES, divisor, op));
    if (i < bytes)
        part_store(dst + i,
                   reduce_bf16_at(src, nsrc, i, bytes - i, divisor, op),
                   bytes - i);
}

LOOP void convert_32(char *dst, const char *src, size_t count,
                     struct wide_step step)
{
    size_t i = 0;

    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        vf32 a = step.load(src + step.from * i);
        vf32 b = step.load(src + step.from * (i + LANES));
        step.store(dst + step.to * i, a);
        step.store(dst + step.to * (i + LANES), b);
    }
    for (size_t n; i < count; i += n) {
        n = count - i < LANES ? count - i : LANES;
        vf32 a = load_tail(src + step.from * i, step.from * n, step.load);
        store_tail(dst + step.to * i, a, step.to * n, step.store);
    }
}

#define LINE 64
#define AHEAD 2048 /* bytes; the machine's own look ahead ends at a page */

/* Ordinary stores fetch what they overwrite: a third of the traffic of a
 * result that no cache holds. `small` does what is not aligned. */
LOOP void convert_large(char *dst, const char *src, size_t count,
                        struct wide_step step, ax_convert_fn small)
{
    size_t skew = (uintptr_t)dst % LINE;
    size_t i = skew ? (LINE - skew) / step.to : 0;

    if (skew % step.to || i > count) {
        small(dst, src, count);
        return;
    }
    small(dst, src, i);
    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        const char *p = src + step.from * i;
        for (size_t at = 0; at < 2 * LANES * step.from; at += LINE)
            __builtin_prefetch(p + at + AHEAD);
        vf32 a = step.load(p);
        vf32 b = step.load(p + step.from * LANES);
        step.store(dst + step.to * i, a);
        step.store(dst + step.to * (i + LANES), b);
    }
    _mm_sfence(); /* before anything that tells another thread */
    small(dst + step.to * i, src + step.from * i, count - i);
}

/* ---- what the table points to -------------------------------------------- */

#define CONVERT(to_name, to, from_name, from)                                  \
    static TARGET void to_name##_from_##from_name(void *dst, const void *src,  \
                                                  size_t count)                \
    {                                                                          \
        convert_32(dst, src, count,                                            \
                   (struct wide_step){from, to, load_##from_name,              \
                                      store_##to_name, NULL});                 \
    }                                                                          \
    static TARGET void large_##to_name##_from_##from_name(                     \
        void *dst, const void *src, size_t count)                              \
    {                                                                          \
        convert_large(dst, src, count,                                         \
                      (struct wide_step){from, to, load_##from_name,           \
                                         stream_##to_name, NULL},              \
                      to_name##_from_##from_name);                             \
    }

CONVERT(f32, 4, f16, 2)
CONVERT(f32, 4, bf16, 2)
CONVERT(f16, 2, f32, 4)
CONVERT(f16, 2, bf16, 2)
CONVERT(bf16, 2, f32, 4)
CONVERT(bf16, 2, f16, 2)

static TARGET void f64_from_f32(void *dst, const void *src, size_t count)
{
    const size_t lanes = BYTES / 8;
    double *d = dst;
    const float *s = src;
    hf32 v;

    for (; count >= lanes; count -= lanes, d += lanes, s += lanes) {
        memcpy(&v, s, sizeof v);
        store_raw(d, (raw)widen_f32(v));
    }
    raw part = part_load(s, 4 * count);
    memcpy(&v, &part, sizeof v);
    part_store(d, (raw)widen_f32(v), 8 * count);
}

static TARGET void f32_from_f64(void *dst, const void *src, size_t count)
{
    const size_t lanes = BYTES / 8;
    float *d = dst;
    const double *s = src;
    hf32 v;

    for (; count >= lanes; count -= lanes, d += lanes, s += lanes) {
        v = narrow_f64((vf64)load_raw(s));
        memcpy(d, &v, sizeof v);
    }
    raw part = {0};
    v = narrow_f64((vf64)part_load(s, 8 * count));
    memcpy(&part, &v, sizeof v);
    part_store(d, part, 4 * count);
}

#define REDUCE(name, op, bytes, end)                                           \
    static TARGET void reduce_##op##_##name(void *dst, const void *const *src, \
                                            int nsrc, size_t count,            \
                                            double divisor)                    \
    {                                                                          \
        reduce_raw(dst, src, nsrc, count *(bytes), divisor,                    \
                   (struct raw_step){op##_##name, end});                       \
    }

#define REDUCE_ALL(name, bytes, end)                                           \
    REDUCE(name, sum, bytes, end)                                              \
    REDUCE(name, min, bytes, end)                                              \
    REDUCE(name, max, bytes, end)                                              \
    REDUCE(name, prod, bytes, end)

REDUCE_ALL(f64, 8, end_f64)
REDUCE_ALL(f32, 4, end_f32)
REDUCE_ALL(i8, 1, end_int)
REDUCE_ALL(u8, 1, end_int)
REDUCE_ALL(i16, 2, end_int)
REDUCE_ALL(u16, 2, end_int)
REDUCE_ALL(i32, 4, end_int)
REDUCE_ALL(u32, 4, end_int)
REDUCE_ALL(i64, 8, end_int)
REDUCE_ALL(u64, 8, end_int)

#define REDUCE16(name, op, from, to, bytes)                                    \
    static TARGET void reduce_##op##_##name(void *dst, const void *const *src, \
                                            int nsrc, size_t count,            \
                                            double divisor)                    \
    {                                                                          \
        reduce_16(                                                             \
            dst, src, nsrc, count, divisor,                                    \
            (struct wide_step){2, bytes, load_##from, store_##to, op##_f32});  \
    }

#define REDUCE16_ALL(name, from, to, bytes)                                    \
    REDUCE16(name, sum, from, to, bytes)                                       \
    REDUCE16(name, min, from, to, bytes)                                       \
    REDUCE16(name, max, from, to, bytes)                                       \
    REDUCE16(name, prod, from, to, bytes)

REDUCE16_ALL(f16, f16, f16, 2)
REDUCE16_ALL(f16_wide, f16, f32, 4)
REDUCE16_ALL(bf16_wide, bf16, f32, 4)

#define REDUCE_BF16(op)                                                        \
    static TARGET void reduce_##op##_bf16(void *dst, const void *const *src,   \
                                          int nsrc, size_t count,              \
                                          double divisor)                      \
    {                                                                          \
        reduce_bf16(dst, src, nsrc, 2 * count, divisor, op##_f32);             \
    }

REDUCE_BF16(sum)
REDUCE_BF16(min)
REDUCE_BF16(max)
REDUCE_BF16(prod)

#define ROW(name)                                                              \
    {                                                                          \
        reduce_sum_##name, reduce_min_##name, reduce_max_##name,               \
            reduce_prod_##name                                                 \
    }

/* What is not here (f64 with 16 bits: rare) stays as the scalar table has it.
 */
static void fill(ax_kernels_t *t)
{
    static const ax_reduce_fn reduce[AX_DTYPES][AX_REDUCE_OPS] = {
        [ACCEL_F64] = ROW(f64), [ACCEL_F32] = ROW(f32),
        [ACCEL_F16] = ROW(f16), [ACCEL_BF16] = ROW(bf16),
        [ACCEL_I8] = ROW(i8),   [ACCEL_U8] = ROW(u8),
        [ACCEL_I16] = ROW(i16), [ACCEL_U16] = ROW(u16),
        [ACCEL_I32] = ROW(i32), [ACCEL_U32] = ROW(u32),
        [ACCEL_I64] = ROW(i64), [ACCEL_U64] = ROW(u64)};
    static const ax_reduce_fn widen[AX_DTYPES][AX_REDUCE_OPS] = {
        [ACCEL_F16] = ROW(f16_wide), [ACCEL_BF16] = ROW(bf16_wide)};

    memcpy(t->reduce, reduce, sizeof reduce);
    memcpy(t->widen, widen, sizeof widen);
    t->convert[AX_F64][AX_F32] = f64_from_f32;
    t->convert[AX_F32][AX_F64] = f32_from_f64;
    t->convert[AX_F32][AX_F16] = f32_from_f16;
    t->convert[AX_F32][AX_BF16] = f32_from_bf16;
    t->convert[AX_F16][AX_F32] = f16_from_f32;
    t->convert[AX_F16][AX_BF16] = f16_from_bf16;
    t->convert[AX_BF16][AX_F32] = bf16_from_f32;
    t->convert[AX_BF16][AX_F16] = bf16_from_f16;
    t->large[AX_F32][AX_F16] = large_f32_from_f16;
    t->large[AX_F32][AX_BF16] = large_f32_from_bf16;
    t->large[AX_F16][AX_F32] = large_f16_from_f32;
    t->large[AX_F16][AX_BF16] = large_f16_from_bf16;
    t->large[AX_BF16][AX_F32] = large_bf16_from_f32;
    t->large[AX_BF16][AX_F16] = large_bf16_from_f16;
}
