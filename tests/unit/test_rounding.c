/*
 * Statistics of 16-bit sums: however many ranks, the error is that of one
 * rounding. A rounding at each step would make it 2.2 times as large on 8
 * ranks and 5.8 times on 64.
 */
#include "unit/unit.h"

#include "unit/ranks.h"

#include <math.h>

#define MANY 8192

static const char *const halves[] = {"a", "a", "a", "a", "b", "b", "b", "b"};

/* Uniform in (-1, 1), as far as the type can tell; the seed is fixed. */
static float input(int rank, size_t i)
{
    uint64_t h = ax_hash(&i, sizeof i, (uint64_t)rank + 2026);

    return (float)(int32_t)(h >> 32) * 0x1p-31f;
}

static float rounded(accel_dtype_t type, float x, uint16_t *bits)
{
    float back;

    CHECK(accel_convert(bits, type, &x, ACCEL_F32, 1) == ACCEL_OK);
    CHECK(accel_convert(&back, ACCEL_F32, bits, type, 1) == ACCEL_OK);
    return back;
}

/* The mean square of what one rounding to `bits` of mantissa does at `x`. */
static double one_rounding(double x, int bits)
{
    int exponent;

    frexp(x, &exponent);
    double unit = ldexp(1, exponent - 1 - bits);
    return unit * unit / 12;
}

static void error_is_that_of_one_rounding(rank_of_t *me)
{
    accel_dtype_t type = *(const accel_dtype_t *)me->world->arg;
    int mantissa = type == ACCEL_BF16 ? 7 : 10;
    uint16_t *x = malloc(MANY * sizeof *x);
    double square = 0, expected = 0;

    CHECK(x != NULL);
    for (size_t i = 0; i < MANY; i++)
        rounded(type, input(me->rank, i), &x[i]);
    CHECK(accel_comm_allreduce(me->comm, x, x, MANY, type, ACCEL_SUM) ==
          ACCEL_OK);
    for (size_t i = 0; i < MANY && me->rank == 0; i++) {
        double exact = 0;
        float got;
        uint16_t bits;
        for (int r = 0; r < me->world->size; r++)
            exact += rounded(type, input(r, i), &bits);
        CHECK(accel_convert(&got, ACCEL_F32, &x[i], type, 1) == ACCEL_OK);
        square += (got - exact) * (got - exact);
        expected += one_rounding(exact, mantissa);
    }
    if (me->rank == 0) {
        double ratio = sqrt(square / expected);
        printf("%d ranks, %s: %.3f of one rounding\n", me->world->size,
               accel_dtype_name(type), ratio);
        CHECK(ratio > 0.95 && ratio < 1.05);
    }
    free(x);
}

static void sums_are_rounded_once(void **state)
{
    static const accel_dtype_t types[] = {ACCEL_BF16, ACCEL_F16};
    struct world w = {.run = error_is_that_of_one_rounding};

    (void)state;
    for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
        w.arg = &types[t];
        w.size = 8;
        w.nodes = NULL;
        run_world(&w);
#if defined(HAVE_UCX) && !defined(__SANITIZE_THREAD__)
        w.nodes = halves;
        run_world(&w);
#else
        print_message("%zu: not on two nodes, without UCX\n",
                      ARRAY_SIZE(halves));
#endif
        w.nodes = NULL;
        w.size = 64;
        run_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_rounded_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
