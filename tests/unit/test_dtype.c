/* base: element types, and conversions on every vector level. */
#include "base/bits.h"
#include "base/kernel.h"
#include "unit/noise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- which level --------------------------------------------------------- */

static int level_in_child(const char *wanted)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("ACCEL_ISA", wanted, 1);
        _exit((int)ax_isa());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* First of all tests: the level is chosen once in a process. */
static void a_level_can_be_forced(void **state)
{
    (void)state;
    assert_int_equal(level_in_child("scalar"), AX_ISA_SCALAR);
    int best = level_in_child("");
    for (int i = 0; i < AX_ISA_COUNT; i++) {
        int got = level_in_child(ax_isa_name((ax_isa_t)i));
        assert_int_equal(got, i <= best ? i : best);
    }
    assert_int_equal(level_in_child("sse9"), best);
    unsetenv("ACCEL_ISA");
    assert_int_equal(ax_isa(), best);
    assert_string_equal(ax_isa_name((ax_isa_t)77), "?");
}

/* ---- one value ----------------------------------------------------------- */

/* What 16 bits mean, by arithmetic on doubles. */
static double meaning(uint16_t bits, int fraction_bits)
{
    int ebits = 15 - fraction_bits, bias = (1 << (ebits - 1)) - 1;
    int exponent = (bits >> fraction_bits) & ((1 << ebits) - 1);
    int fraction = bits & ((1 << fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1 : 1;

    if (exponent == (1 << ebits) - 1)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits),
                        exponent - bias - fraction_bits);
}

static void f16_all_values(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float got = ax_f16_to_f32(h);
        double want = meaning(h, 10);
        if (isnan(want)) {
            uint32_t quiet =
                (i & 0x8000) << 16 | 0x7fc00000 | (i & 0x3ff) << 13;
            assert_int_equal(ax_bits_of(got), quiet);
            assert_int_equal(ax_f32_to_f16(got), h | 0x200);
            continue;
        }
        assert_true((double)got == want && !signbit(got) == !signbit(want));
        assert_int_equal(ax_f32_to_f16(got), h);
        assert_int_equal(ax_f64_to_f16(want), h);
    }
}

static void bf16_all_values(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float got = ax_bf16_to_f32(h);
        double want = meaning(h, 7);
        if (isnan(want)) {
            assert_int_equal(ax_bits_of(got), (i << 16) | 0x400000);
            assert_int_equal(ax_f32_to_bf16(got), h | 0x40);
            assert_int_equal(ax_f32_to_bf16(ax_float_of(i << 16 | 1)),
                             h | 0x40);
            continue;
        }
        assert_true((double)got == want && !signbit(got) == !signbit(want));
        assert_int_equal(ax_f32_to_bf16(got), h);
        assert_int_equal(ax_f64_to_bf16(want), h);
    }
}

/* A NaN whose payload is all in the bits that are cut must not become
 * infinity. */
static void nan_stays_nan(void **state)
{
    (void)state;
    assert_int_equal(ax_f32_to_f16(ax_float_of(0x7f800001)), 0x7e00);
    assert_int_equal(ax_f32_to_f16(ax_float_of(0xff800001)), 0xfe00);
    assert_int_equal(ax_f32_to_bf16(ax_float_of(0x7f800001)), 0x7fc0);
    assert_int_equal(ax_f32_to_bf16(ax_float_of(0x7fffffff)), 0x7fff);
    assert_int_equal(ax_f64_to_f16(ax_double_of(0x7ff0000000000001)), 0x7e00);
    assert_int_equal(ax_f64_to_bf16(ax_double_of(0xfff0000000000001)), 0xffc0);
    assert_int_equal(
        ax_bits_of(ax_f64_to_f32(ax_double_of(0x7ff0000000000001))),
        0x7fc00000);
    assert_int_equal(ax_bits64_of(ax_f32_to_f64(ax_float_of(0x7f800001))),
                     0x7ff8000020000000);
}

static void check_rounding(double middle, uint16_t low, uint16_t high,
                           uint16_t (*from32)(float),
                           uint16_t (*from64)(double))
{
    uint16_t even = low & 1 ? high : low;
    float m = (float)middle;

    assert_true((double)m == middle);
    assert_int_equal(from32(m), even);
    assert_int_equal(from32(-m), even | 0x8000);
    assert_int_equal(from32(nextafterf(m, INFINITY)), high);
    assert_int_equal(from32(nextafterf(m, 0)), low);
    assert_int_equal(from64(middle), even);
    /* through f32 these two would be rounded to the tie first */
    assert_int_equal(from64(nextafter(middle, (double)INFINITY)), high);
    assert_int_equal(from64(-nextafter(middle, 0)), low | 0x8000);
}

static void ties_go_to_even(void **state)
{
    (void)state;
    for (uint16_t h = 0; h < 0x7bff; h++)
        check_rounding((meaning(h, 10) + meaning((uint16_t)(h + 1), 10)) / 2, h,
                       (uint16_t)(h + 1), ax_f32_to_f16, ax_f64_to_f16);
    check_rounding(65520, 0x7bff, 0x7c00, ax_f32_to_f16, ax_f64_to_f16);
    for (uint16_t h = 0; h < 0x7f7f; h++)
        check_rounding((meaning(h, 7) + meaning((uint16_t)(h + 1), 7)) / 2, h,
                       (uint16_t)(h + 1), ax_f32_to_bf16, ax_f64_to_bf16);
    check_rounding(0x1.ffp127, 0x7f7f, 0x7f80, ax_f32_to_bf16, ax_f64_to_bf16);
}

static void f64_and_f32_as_the_machine(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < 1000000; i++) {
        uint64_t r = next(&seed);
        double d = ax_double_of(r);
        /* half of them near the range of f32, subnormals included */
        if (i & 1)
            d = ldexp(1 + (double)(r >> 12) * 0x1p-52, (int)(r % 300) - 160);
        float f = ax_float_of((uint32_t)r);
        if (!isnan(d))
            assert_int_equal(ax_bits_of(ax_f64_to_f32(d)),
                             ax_bits_of((float)d));
        if (!isnan(f))
            assert_int_equal(ax_bits64_of(ax_f32_to_f64(f)),
                             ax_bits64_of((double)f));
    }
}

static void names_and_sizes(void **state)
{
    (void)state;
    assert_int_equal(accel_dtype_size(ACCEL_BF16), 2);
    assert_int_equal(accel_dtype_size(ACCEL_DTYPE_NONE), 0);
    assert_int_equal(accel_dtype_size((accel_dtype_t)99), 0);
    assert_string_equal(accel_dtype_name(ACCEL_U64), "u64");
    assert_string_equal(accel_dtype_name(ACCEL_DTYPE_NONE), "?");
    assert_string_equal(accel_dtype_name((accel_dtype_t)99), "?");
    assert_int_equal(ax_accumulator(ACCEL_F16), ACCEL_F32);
    assert_int_equal(ax_accumulator(ACCEL_I8), ACCEL_I8);
}

/* ---- buffers: every level against the scalar one ------------------------- */

static const accel_dtype_t floats[AX_FLOATS] = {ACCEL_F64, ACCEL_F32, ACCEL_F16,
                                                ACCEL_BF16};

/* Counts `count` from a byte offset, so that nothing is aligned; what lies
 * behind the result must not change. */
static void compare_convert(const ax_kernels_t *k, int to, int from,
                            const void *src, size_t count)
{
    size_t wide = accel_dtype_size(floats[to]);
    size_t bytes = count * wide, room = bytes + 80;
    unsigned char *want = must_alloc(room), *got = must_alloc(room);

    memset(want, 0xa5, room);
    memset(got, 0xa5, room);
    ax_kernels_of(AX_ISA_SCALAR)->convert[to][from](want, src, count);
    k->convert[to][from](got, src, count);
    if (memcmp(want, got, room) != 0) {
        size_t i = 0;
        while (want[i] == got[i])
            i++;
        fail_msg("%s from %s: element %zu of %zu differs",
                 accel_dtype_name(floats[to]), accel_dtype_name(floats[from]),
                 i / wide, count);
    }
    free(want);
    free(got);
}

static void compare_all_converts(const ax_kernels_t *k, const void *src,
                                 int from, size_t count)
{
    for (int to = 0; to < AX_FLOATS; to++)
        if (to != from)
            compare_convert(k, to, from, src, count);
}

static void levels_convert_alike(void **state)
{
    enum { MANY = 1 << 20 };
    uint32_t *words = must_alloc(MANY * 8);

    (void)state;
    for (int isa = AX_ISA_AVX2; isa < AX_ISA_COUNT; isa++) {
        const ax_kernels_t *k = ax_kernels_of((ax_isa_t)isa);
        if (!k) {
            print_message("this CPU lacks %s\n", ax_isa_name((ax_isa_t)isa));
            continue;
        }
        for (uint32_t i = 0; i < 65536; i++)
            ((uint16_t *)words)[i] = (uint16_t)i;
        compare_all_converts(k, words, AX_F16, 65536);
        compare_all_converts(k, words, AX_BF16, 65536);
        for (uint32_t i = 0; i < MANY; i++)
            words[i] = i * 4099; /* all exponents and both signs */
        compare_all_converts(k, words, AX_F32, MANY);
        fill_noise(words, MANY * 8, 7);
        compare_all_converts(k, words, AX_F64, MANY);
        for (uint32_t i = 0; i < MANY; i++) /* where f32 ends */
            ((double *)words)[i] =
                ldexp(1 + words[i] * 0x1p-32, (int)(i % 300) - 160);
        compare_all_converts(k, words, AX_F64, MANY);
        for (size_t n = 0; n < 140; n++)
            for (int from = 0; from < AX_FLOATS; from++)
                compare_all_converts(k, words, from, n);
    }
    free(words);
}

/* From any address to any address, and not a byte beside it. */
static void large_at(const ax_kernels_t *k, int to, int from, const char *src,
                     size_t skew, size_t count)
{
    char want[1024 + 2 * 64], got[sizeof want];
    char *a = want + 64 - (uintptr_t)want % 64 + skew;
    char *b = got + 64 - (uintptr_t)got % 64 + skew;

    memset(want, 0x5a, sizeof want);
    memset(got, 0x5a, sizeof got);
    ax_kernels_of(AX_ISA_SCALAR)->convert[to][from](a, src, count);
    k->large[to][from](b, src, count);
    for (size_t i = 0; i < 64 + 4 * count; i++)
        if (a[(ptrdiff_t)i - 1 - (ptrdiff_t)skew] !=
            b[(ptrdiff_t)i - 1 - (ptrdiff_t)skew])
            fail_msg("%s from %s: byte %zu of %zu elements at %zu differs",
                     accel_dtype_name(floats[to]),
                     accel_dtype_name(floats[from]), i, count, skew);
}

static void large_arrays_convert_alike(void **state)
{
    static const size_t counts[] = {0, 1, 15, 16, 31, 32, 33, 63, 64, 100, 200};
    char *src = must_alloc(4 * 200 + 64);

    (void)state;
    fill_noise(src, 4 * 200 + 64, 11);
    for (int isa = AX_ISA_AVX2; isa < AX_ISA_COUNT; isa++) {
        const ax_kernels_t *k = ax_kernels_of((ax_isa_t)isa);
        for (int pair = 0; k && pair < AX_FLOATS * AX_FLOATS; pair++)
            for (size_t skew = 0; skew < 64; skew++)
                for (size_t n = 0; n < ARRAY_SIZE(counts) &&
                                   k->large[pair / AX_FLOATS][pair % AX_FLOATS];
                     n++)
                    large_at(k, pair / AX_FLOATS, pair % AX_FLOATS,
                             src + skew * 7 % 64, skew, counts[n]);
    }
    free(src);
}

/* Around the size from which they are used. */
static void sizes_that_are_large(void **state)
{
    size_t edge = AX_LARGE_BYTES / 2, room = 2 * edge + 64;
    float *in = must_alloc(2 * room);
    char *out = must_alloc(room);
    uint16_t last;

    (void)state;
    fill_noise(in, 2 * room, 13);
    for (size_t count = edge - 1; count <= edge + 1; count++)
        for (size_t skew = 0; skew < 3; skew++) {
            memset(out, 0x5a, room);
            assert_int_equal(
                accel_convert(out + skew, ACCEL_BF16, in, ACCEL_F32, count),
                ACCEL_OK);
            for (size_t i = 0; i < count; i += i < 64 ? 1 : 1021) {
                memcpy(&last, out + skew + 2 * i, 2);
                assert_int_equal(last, ax_f32_to_bf16(in[i]));
            }
            memcpy(&last, out + skew + 2 * (count - 1), 2);
            assert_int_equal(last, ax_f32_to_bf16(in[count - 1]));
            assert_int_equal(out[skew + 2 * count], 0x5a);
        }
    free(in);
    free(out);
}

static void small_f32_survives(const char *mode)
{
    const float in[3] = {0x1p-140f, -0x1p-149f, 0x1p-127f};
    double wide[3];
    uint16_t half[3];
    float back[3];
    const uint16_t sub[3] = {0x0001, 0x8040, 0x007f};

    assert_int_equal(accel_convert(wide, ACCEL_F64, in, ACCEL_F32, 3), 0);
    assert_int_equal(ax_bits64_of(wide[0]), ax_bits64_of(0x1p-140));
    assert_int_equal(accel_convert(back, ACCEL_F32, wide, ACCEL_F64, 3), 0);
    assert_memory_equal(back, in, sizeof in);
    assert_int_equal(accel_convert(back, ACCEL_F32, sub, ACCEL_BF16, 3), 0);
    assert_int_equal(accel_convert(half, ACCEL_BF16, back, ACCEL_F32, 3), 0);
    if (memcmp(half, sub, sizeof sub) != 0)
        fail_msg("subnormals were lost with %s", mode);
    assert_int_equal(accel_convert(back, ACCEL_F32, sub, ACCEL_F16, 3), 0);
    assert_int_equal(accel_convert(half, ACCEL_F16, back, ACCEL_F32, 3), 0);
    assert_memory_equal(half, sub, sizeof sub);
    const void *src[2] = {in, in};
    ax_reduce(&(ax_reduce_t){ACCEL_F32, ACCEL_F32, AX_SUM, 1}, back, src, 2, 3);
    assert_int_equal(ax_bits_of(back[1]), 0x80000002);
}

static void the_mode_of_the_caller_does_not_matter(void **state)
{
    (void)state;
    small_f32_survives("the default mode");
#if defined(__x86_64__)
    unsigned before = __builtin_ia32_stmxcsr();
    unsigned flush = before | 0x8040 | 0x6000; /* FTZ, DAZ, towards zero */
    __builtin_ia32_ldmxcsr(flush);
    small_f32_survives("FTZ, DAZ and another rounding");
    unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    assert_int_equal(after & ~0x3fu, flush & ~0x3fu);
#endif
}

static void convert_in_place_and_wrong_uses(void **state)
{
    uint16_t h[40];
    float f[2] = {1, 2};

    (void)state;
    for (int i = 0; i < 40; i++)
        h[i] = ax_f32_to_f16((float)i);
    assert_int_equal(accel_convert(h, ACCEL_BF16, h, ACCEL_F16, 40), ACCEL_OK);
    for (int i = 0; i < 40; i++)
        assert_true(ax_bf16_to_f32(h[i]) == (float)i);
    assert_int_equal(accel_convert(f, ACCEL_F32, f, ACCEL_F32, 2), ACCEL_OK);
    assert_int_equal(accel_convert(NULL, ACCEL_F32, NULL, ACCEL_F16, 0),
                     ACCEL_OK);
    assert_int_equal(accel_convert(NULL, ACCEL_F32, f, ACCEL_F16, 1),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_convert(h, ACCEL_F16, f, ACCEL_I32, 1),
                     ACCEL_ERR_UNSUPPORTED);
    assert_int_equal(accel_convert(h, (accel_dtype_t)99, f, ACCEL_F32, 1),
                     ACCEL_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_can_be_forced),
        cmocka_unit_test(f16_all_values),
        cmocka_unit_test(bf16_all_values),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(ties_go_to_even),
        cmocka_unit_test(f64_and_f32_as_the_machine),
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(levels_convert_alike),
        cmocka_unit_test(large_arrays_convert_alike),
        cmocka_unit_test(sizes_that_are_large),
        cmocka_unit_test(the_mode_of_the_caller_does_not_matter),
        cmocka_unit_test(convert_in_place_and_wrong_uses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
