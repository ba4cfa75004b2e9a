/* base: reductions on every vector level. */
#include "base/bits.h"
#include "base/kernel.h"
#include "unit/noise.h"

#include <math.h>
#include <stdio.h>

enum { SOURCES = 5, ELEMENTS = 300 };

struct operands {
    unsigned char *buffers[SOURCES];
    const void *src[SOURCES];
};

static void make_operands(struct operands *o, accel_dtype_t dtype)
{
    size_t bytes = ELEMENTS * accel_dtype_size(dtype);

    for (int k = 0; k < SOURCES; k++) {
        o->buffers[k] = must_alloc(bytes + 1);
        o->src[k] = o->buffers[k] + 1; /* aligned to nothing */
        fill_noise(o->buffers[k], bytes + 1, (uint64_t)k);
        if (k > 0) /* equal numbers, zeros of both signs, twice NaN */
            memcpy(o->buffers[k] + 1, o->buffers[0] + 1, bytes / 8);
        memset(o->buffers[k] + 1 + bytes / 8, k & 1 ? 0x00 : 0x80, 8);
    }
}

static void free_operands(struct operands *o)
{
    for (int k = 0; k < SOURCES; k++)
        free(o->buffers[k]);
}

static void compare_reduce(ax_reduce_fn want_fn, ax_reduce_fn got_fn,
                           const struct operands *o, size_t size, int nsrc,
                           size_t count)
{
    size_t room = ELEMENTS * 8 + 80;
    unsigned char *want = must_alloc(room), *got = must_alloc(room);
    double divisor = count & 1 ? 3 : 1;

    memset(want, 0x5a, room);
    memset(got, 0x5a, room);
    want_fn(want + 1, o->src, nsrc, count, divisor);
    got_fn(got + 1, o->src, nsrc, count, divisor);
    if (memcmp(want, got, room) != 0)
        fail_msg("%d sources of %zu elements of %zu bytes differ", nsrc, count,
                 size);
    free(want);
    free(got);
}

static void compare_rows(const ax_reduce_fn *want, const ax_reduce_fn *got,
                         accel_dtype_t dtype)
{
    struct operands o;

    make_operands(&o, dtype);
    for (int op = 0; op < AX_REDUCE_OPS; op++)
        for (int nsrc = 1; nsrc <= SOURCES; nsrc++)
            for (size_t count = 0; count <= ELEMENTS;
                 count += count < 140 ? 1 : 13)
                compare_reduce(want[op], got[op], &o, accel_dtype_size(dtype),
                               nsrc, count);
    free_operands(&o);
}

static void levels_reduce_alike(void **state)
{
    const ax_kernels_t *scalar = ax_kernels_of(AX_ISA_SCALAR);

    (void)state;
    for (int isa = AX_ISA_AVX2; isa < AX_ISA_COUNT; isa++) {
        const ax_kernels_t *k = ax_kernels_of((ax_isa_t)isa);
        if (!k)
            continue; /* said by levels_convert_alike */
        for (int t = ACCEL_F64; t <= ACCEL_U64; t++)
            compare_rows(scalar->reduce[t], k->reduce[t], (accel_dtype_t)t);
        compare_rows(scalar->widen[ACCEL_F16], k->widen[ACCEL_F16], ACCEL_F16);
        compare_rows(scalar->widen[ACCEL_BF16], k->widen[ACCEL_BF16],
                     ACCEL_BF16);
    }
}

/* Every number of 16 bits with each of a few that matter. */
static void levels_add_all_of_16_bits_alike(void **state)
{
    enum { ALL = 1 << 16 };
    static const uint16_t others[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x0080,
                                      0x3f80, 0xbf80, 0x3f81, 0x4f00, 0x3555,
                                      0x7bff, 0x7c00, 0xfc00, 0x7c01, 0x7f7f,
                                      0xff7f, 0x7f80, 0xff80, 0x7f81, 0xffff};
    uint16_t *all = must_alloc(ALL * 2), *other = must_alloc(ALL * 2);
    uint16_t *want = must_alloc(ALL * 2), *got = must_alloc(ALL * 2);
    const void *src[] = {all, other, all};

    (void)state;
    for (int i = 0; i < ALL; i++)
        all[i] = (uint16_t)i;
    for (size_t i = 0; i < AX_ARRAY_SIZE(others) * 16; i++) {
        accel_dtype_t t = i & 1 ? ACCEL_F16 : ACCEL_BF16;
        int op = (int)(i >> 1) % AX_REDUCE_OPS, nsrc = 2 + (int)(i >> 3 & 1);
        double divisor = nsrc == 3 ? 3 : 1;
        for (int k = 0; k < ALL; k++)
            other[k] = others[i / 16];
        for (int isa = 0; isa < AX_ISA_COUNT; isa++) {
            const ax_kernels_t *k = ax_kernels_of((ax_isa_t)isa);
            if (k)
                k->reduce[t][op](isa ? got : want, src, nsrc, ALL, divisor);
            if (k && isa && memcmp(got, want, ALL * 2) != 0)
                fail_msg("%s, operator %d of %d, level %d, %04x",
                         accel_dtype_name(t), op, nsrc, isa, others[i / 16]);
        }
    }
    free(all);
    free(other);
    free(want);
    free(got);
}

/* The result may replace any one of its sources. */
static void reduce_in_place(void **state)
{
    (void)state;
    for (int isa = 0; isa < AX_ISA_COUNT; isa++) {
        const ax_kernels_t *k = ax_kernels_of((ax_isa_t)isa);
        for (int place = 0; k && place < 3; place++) {
            float a[3][37], want[37];
            const void *src[3] = {a[0], a[1], a[2]};
            for (int i = 0; i < 37; i++)
                for (int j = 0; j < 3; j++)
                    a[j][i] = (float)(i * (j + 1));
            for (int i = 0; i < 37; i++)
                want[i] = (float)(6 * i);
            k->reduce[ACCEL_F32][AX_SUM](a[place], src, 3, 37, 1);
            assert_memory_equal(a[place], want, sizeof want);
        }
    }
}

struct shifted {
    accel_dtype_t t;
    int op, place;
    size_t shift, count;
};

/* The result elsewhere, and so many elements before one of its sources. */
static void compare_shifted(const ax_kernels_t *k, const struct operands *o,
                            const struct shifted *s)
{
    size_t e = accel_dtype_size(s->t), before = s->shift * e;
    size_t bytes = s->count * e;
    const void *src[] = {o->src[0], o->src[1], o->src[2]};
    unsigned char *want = must_alloc(bytes), *both = must_alloc(before + bytes);

    k->reduce[s->t][s->op](want, src, 3, s->count, 1);
    memcpy(both + before, src[s->place], bytes);
    src[s->place] = both + before;
    k->reduce[s->t][s->op](both, src, 3, s->count, 1);
    if (memcmp(both, want, bytes) != 0)
        fail_msg("%s, operator %d: %zu results %zu before source %d",
                 accel_dtype_name(s->t), s->op, s->count, s->shift, s->place);
    free(want);
    free(both);
}

static void shift_all(const ax_kernels_t *k, accel_dtype_t t, int op)
{
    static const size_t shifts[] = {0,  1,  2,  3,  4,  5,  7,  8,  9,   15,
                                    16, 17, 31, 32, 33, 63, 64, 65, 127, 129},
                        counts[] = {1, 4, 8, 37, 150, ELEMENTS};
    struct operands o;

    make_operands(&o, t);
    for (size_t i = 0; i < ARRAY_SIZE(shifts); i++)
        for (size_t n = 0; n < ARRAY_SIZE(counts); n++)
            for (int place = 0; place < 3; place++)
                compare_shifted(
                    k, &o,
                    &(struct shifted){t, op, place, shifts[i], counts[n]});
    free_operands(&o);
}

/* A reduce-scatter in place puts its part where all that it sends begins. */
static void results_may_lie_before_a_source(void **state)
{
    (void)state;
    for (int isa = 0; isa < AX_ISA_COUNT; isa++)
        for (int t = ACCEL_F64; t <= ACCEL_U64; t++) {
            const ax_kernels_t *k = ax_kernels_of((ax_isa_t)isa);
            for (int op = 0; k && op < AX_REDUCE_OPS; op++)
                shift_all(k, (accel_dtype_t)t, op);
        }
}

static const struct {
    ax_reduce_op_t op;
    float a, b, want;
} float_cases[] = {
    {AX_SUM, 1, 2, 3},
    {AX_SUM, INFINITY, -INFINITY, NAN},
    {AX_SUM, NAN, 1, NAN},
    {AX_MIN, 1, 2, 1},
    {AX_MIN, NAN, 2, NAN},
    {AX_MIN, 2, NAN, NAN},
    {AX_MIN, 0.0f, -0.0f, -0.0f},
    {AX_MIN, -0.0f, 0.0f, -0.0f},
    {AX_MAX, 1, 2, 2},
    {AX_MAX, -INFINITY, 2, 2},
    {AX_MAX, NAN, 2, NAN},
    {AX_MAX, 2, NAN, NAN},
    {AX_MAX, 0.0f, -0.0f, 0.0f},
    {AX_MAX, -0.0f, 0.0f, 0.0f},
    {AX_PROD, 3, -2, -6},
    {AX_PROD, -0.0f, 5, -0.0f},
    {AX_PROD, 0, INFINITY, NAN},
    {AX_PROD, NAN, 0, NAN},
    {AX_PROD, 0x1p100f, 0x1p-120f, 0x1p-20f},
};

static void floats_follow_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(float_cases); i++) {
        float a = float_cases[i].a, b = float_cases[i].b, got;
        double da = (double)a, db = (double)b, wide;
        uint16_t ha = ax_f32_to_bf16(a), hb = ax_f32_to_bf16(b), half;
        uint32_t want = isnan(float_cases[i].want)
                            ? AX_NAN32
                            : ax_bits_of(float_cases[i].want);
        const void *src[2] = {&a, &b}, *src64[2] = {&da, &db},
                   *src16[2] = {&ha, &hb};
        ax_reduce(&(ax_reduce_t){ACCEL_F32, ACCEL_F32, float_cases[i].op, 1},
                  &got, src, 2, 1);
        assert_int_equal(ax_bits_of(got), want);
        ax_reduce(&(ax_reduce_t){ACCEL_F64, ACCEL_F64, float_cases[i].op, 1},
                  &wide, src64, 2, 1);
        assert_int_equal(ax_bits64_of(wide),
                         isnan(float_cases[i].want)
                             ? AX_NAN64
                             : ax_bits64_of((double)ax_float_of(want)));
        ax_reduce(&(ax_reduce_t){ACCEL_BF16, ACCEL_BF16, float_cases[i].op, 1},
                  &half, src16, 2, 1);
        assert_int_equal(half, want >> 16);
    }
}

static void sixteen_bits_are_rounded_once(void **state)
{
    const uint16_t big = 0x6800 /* 2048 */, one = 0x3c00;
    const void *src[3] = {&big, &one, &one};
    uint16_t got;
    float wide;

    (void)state;
    /* step by step, 2048 + 1 would stay 2048, twice */
    ax_reduce(&(ax_reduce_t){ACCEL_F16, ACCEL_F16, AX_SUM, 1}, &got, src, 3, 1);
    assert_true(ax_f16_to_f32(got) == 2050);
    ax_reduce(&(ax_reduce_t){ACCEL_F16, ACCEL_F32, AX_SUM, 2}, &wide, src, 3,
              1);
    assert_true(wide == 1025);
    /* 60000 + 60000 fits in between, and the average fits at the end */
    const uint16_t large = ax_f32_to_f16(60000);
    const void *two[2] = {&large, &large};
    ax_reduce(&(ax_reduce_t){ACCEL_F16, ACCEL_F16, AX_SUM, 2}, &got, two, 2, 1);
    assert_int_equal(got, large);
}

/* By a reciprocal the average of 41 ones would be less than one, and every
 * third one of three numbers would be off by a bit. */
static void averages_are_quotients(void **state)
{
    enum { MANY = 2000 };
    static float ones[MANY], upto[MANY], got[MANY];
    static double upto64[MANY], got64[MANY];
    const void *src[200], *one[] = {upto}, *one64[] = {upto64};

    (void)state;
    for (int i = 0; i < MANY; i++) {
        ones[i] = 1;
        upto[i] = (float)i;
        upto64[i] = i;
    }
    for (int isa = 0; isa < AX_ISA_COUNT; isa++) {
        const ax_kernels_t *k = ax_kernels_of((ax_isa_t)isa);
        for (int n = 1; k && n <= 200; n++) {
            src[n - 1] = ones;
            k->reduce[ACCEL_F32][AX_SUM](got, src, n, 37, n);
            assert_memory_equal(got, ones, 37 * sizeof *ones);
            k->reduce[ACCEL_F32][AX_SUM](got, one, 1, MANY, n);
            k->reduce[ACCEL_F64][AX_SUM](got64, one64, 1, MANY, n);
            for (int i = 0; i < MANY; i++)
                assert_true(got[i] == upto[i] / (float)n &&
                            got64[i] == upto64[i] / n);
        }
    }
}

static void integers_wrap(void **state)
{
    const int32_t a = INT32_MAX, b = 1;
    const uint8_t c = 200, d = 100;
    const int64_t e = INT64_MIN, f = 3;
    const void *s32[2] = {&a, &b}, *s8[2] = {&c, &d}, *s64[2] = {&e, &f};
    int32_t got32;
    uint8_t got8;
    int64_t got64;

    (void)state;
    ax_reduce(&(ax_reduce_t){ACCEL_I32, ACCEL_I32, AX_SUM, 1}, &got32, s32, 2,
              1);
    assert_int_equal(got32, INT32_MIN);
    ax_reduce(&(ax_reduce_t){ACCEL_I32, ACCEL_I32, AX_PROD, 1}, &got32,
              (const void *[]){&a, &a}, 2, 1);
    assert_int_equal(got32, 1); /* (2^31 - 1)^2 */
    ax_reduce(&(ax_reduce_t){ACCEL_U8, ACCEL_U8, AX_PROD, 1}, &got8, s8, 2, 1);
    assert_int_equal(got8, 200 * 100 % 256);
    ax_reduce(&(ax_reduce_t){ACCEL_U8, ACCEL_U8, AX_SUM, 1}, &got8, s8, 2, 1);
    assert_int_equal(got8, 44);
    ax_reduce(&(ax_reduce_t){ACCEL_U8, ACCEL_U8, AX_MAX, 1}, &got8, s8, 2, 1);
    assert_int_equal(got8, 200);
    ax_reduce(&(ax_reduce_t){ACCEL_I8, ACCEL_I8, AX_MAX, 1}, &got8, s8, 2, 1);
    assert_int_equal(got8, 100); /* 200 is -56 there */
    ax_reduce(&(ax_reduce_t){ACCEL_I64, ACCEL_I64, AX_MIN, 1}, &got64, s64, 2,
              1);
    assert_true(got64 == INT64_MIN);
}

/* The greatest 16-bit value squared does not fit in the int that the compiler
 * would compute with. */
static void products_of_short_integers_wrap(void **state)
{
    const uint16_t a = 0xffff;
    const int16_t b = INT16_MIN;
    const void *u[2] = {&a, &a}, *s[2] = {&b, &b};

    (void)state;
    for (int isa = 0; isa < AX_ISA_COUNT; isa++) {
        const ax_kernels_t *k = ax_kernels_of((ax_isa_t)isa);
        uint16_t got_u = 7;
        int16_t got_s = 7;
        if (!k)
            continue;
        k->reduce[ACCEL_U16][AX_PROD](&got_u, u, 2, 1, 1);
        k->reduce[ACCEL_I16][AX_PROD](&got_s, s, 2, 1, 1);
        assert_int_equal(got_u, 1);
        assert_int_equal(got_s, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_reduce_alike),
        cmocka_unit_test(levels_add_all_of_16_bits_alike),
        cmocka_unit_test(reduce_in_place),
        cmocka_unit_test(results_may_lie_before_a_source),
        cmocka_unit_test(products_of_short_integers_wrap),
        cmocka_unit_test(floats_follow_the_table),
        cmocka_unit_test(sixteen_bits_are_rounded_once),
        cmocka_unit_test(averages_are_quotients),
        cmocka_unit_test(integers_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
