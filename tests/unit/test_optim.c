/* optim: the update rules against other arithmetic, and their bits. */
#include "unit/unit.h"

#include "optim/optim_priv.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define A(...) ACCEL_OPTIMIZER(__VA_ARGS__)

/* ---- update rules ---------------------------------------------------------
 */

/* Five gradients of one parameter and where each leaves it: the algorithms as
 * PyTorch documents them, worked out in f64 by another program. */
static const float golden_grad[5] = {0.5f, -1.25f, 3.0f, 0.001f, -0.75f};

static const struct {
    const char *what;
    accel_optimizer_options_t options;
    float start;
    double after[5];
} golden[] = {
    {"adamw",
     {ACCEL_OPTIMIZER_DEFAULTS, .lr = 0.01, .weight_decay = 0.1},
     1.5f,
     {1.4885000002, 1.4914336528, 1.4855123861, 1.4803964559, 1.4771388177}},
    {"adamw, every option",
     {ACCEL_OPTIMIZER_DEFAULTS, .lr = 0.1, .beta1 = 0.8, .beta2 = 0.95,
      .eps = 1e-3, .weight_decay = 0.5},
     -2.0f,
     {-1.9998003992, -1.8507110362, -1.8072201950, -1.7548218303,
      -1.6816247874}},
    {"adam",
     {ACCEL_OPTIMIZER_DEFAULTS, .kind = ACCEL_ADAM, .lr = 0.01,
      .weight_decay = 0.1},
     1.5f,
     {1.4900000002, 1.4930035819, 1.4879569983, 1.4835711445, 1.4808717496}},
    {"sgd",
     {ACCEL_OPTIMIZER_DEFAULTS, .kind = ACCEL_SGD, .lr = 0.05},
     1.5f,
     {1.4750000000, 1.5375000000, 1.3875000000, 1.3874500000, 1.4249500000}},
    {"sgd, decay",
     {ACCEL_OPTIMIZER_DEFAULTS, .kind = ACCEL_SGD, .lr = 0.05,
      .weight_decay = 0.1},
     1.5f,
     {1.4675000000, 1.5226625000, 1.3650491875, 1.3581739416, 1.3888830719}},
    {"sgd, momentum",
     {ACCEL_OPTIMIZER_DEFAULTS, .kind = ACCEL_SGD, .lr = 0.05,
      .weight_decay = 0.1, .momentum = 0.9},
     1.5f,
     {1.4675000000, 1.4934125000, 1.3592666875, 1.2316891228, 1.1482108690}},
    {"sgd, nesterov",
     {ACCEL_OPTIMIZER_DEFAULTS, .kind = ACCEL_SGD, .lr = 0.05,
      .weight_decay = 0.1, .momentum = 0.9, .nesterov = true},
     1.5f,
     {1.4382500000, 1.5170116250, 1.2387076021, 1.1181978115, 1.0759853050}},
};

static void assert_near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want)))
        fail_msg("%.9g is not within %g of %.9g", got, relative, want);
}

static void updates_match_the_golden_numbers(void **state)
{
    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(golden); c++) {
        float p = golden[c].start, m = 0, v = 0;
        for (uint64_t t = 1; t <= 5; t++) {
            /* the scale takes a loss scale of 8 off again */
            float scaled = 8 * golden_grad[t - 1];
            accel_update_t u = {.master = &p,
                                .grad = &scaled,
                                .m = &m,
                                .v = &v,
                                .count = 1,
                                .grad_scale = 0.125f};
            assert_int_equal(accel_optim_update(&golden[c].options,
                                                golden[c].options.lr, t, &u),
                             ACCEL_OK);
            assert_near((double)p, golden[c].after[t - 1], 2e-6);
        }
    }
}

static void adamw_moves_by_lr_at_first(void **state)
{
    /* m / (1 - beta1) is g and v / (1 - beta2) is g^2, so whatever the size
     * of the gradient the first step is lr long */
    static const float grads[] = {1e-3f, 1, 1e10f, -5};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(grads); i++) {
        float p = 0, m = 0, v = 0;
        accel_update_t u = {.master = &p,
                            .grad = &grads[i],
                            .m = &m,
                            .v = &v,
                            .count = 1,
                            .grad_scale = 1};
        assert_int_equal(accel_optim_update(A(), 0.25, 1, &u), ACCEL_OK);
        assert_near((double)p, grads[i] > 0 ? -0.25 : 0.25, 2e-5);
    }
}

static void momentum_of_a_constant_gradient_has_a_closed_form(void **state)
{
    float p = 0, m = 0, g = 1;
    double want = 0;

    (void)state;
    for (uint64_t t = 1; t <= 60; t++) {
        accel_update_t u = {
            .master = &p, .grad = &g, .m = &m, .count = 1, .grad_scale = 1};
        accel_optim_update(A(.kind = ACCEL_SGD, .momentum = 0.5), 0.125, t, &u);
        want -= 0.125 * (1 - pow(0.5, (double)t)) / 0.5;
    }
    assert_near((double)p, want, 1e-6);
}

/* Many elements with everything that floats may hold. */
static void fill(float *x, size_t n, uint32_t seed)
{
    static const float odd[] = {
        0,        -0.0f,   INFINITY, -INFINITY, NAN,   1e-42f, -1e-40f, FLT_MAX,
        -FLT_MAX, FLT_MIN, 65520.0f, -3.0e-24f, 1e-8f, 1,      -1};
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (seed >> 28 == 0)
            x[i] = odd[(seed >> 8) % ARRAY_SIZE(odd)];
        else
            x[i] = ldexpf((float)(int32_t)seed, -31 - (int)(seed >> 5) % 12);
    }
}

enum { MANY = 5003 };

struct buffers {
    float p[MANY], g[MANY], m[MANY], v[MANY];
    uint16_t c[MANY];
};

/* Which NaN comes out of several is the compiler's choice of operands. */
static void assert_same(struct buffers *a, struct buffers *b)
{
    float *const x[] = {a->p, a->m, a->v}, *const y[] = {b->p, b->m, b->v};

    for (size_t i = 0; i < MANY; i++)
        for (size_t k = 0; k < ARRAY_SIZE(x); k++)
            if (isnan(x[k][i]) && isnan(y[k][i]))
                x[k][i] = y[k][i] = NAN;
    for (size_t i = 0; i < MANY; i++)
        if (isnan(a->p[i]))
            a->c[i] = b->c[i] = 0x7e00;
    assert_memory_equal(a, b, sizeof *a);
}

static struct buffers *new_buffers(void)
{
    struct buffers *b = calloc(1, sizeof *b);

    assert_non_null(b);
    fill(b->p, MANY, 1);
    fill(b->g, MANY, 2);
    fill(b->m, MANY, 3);
    fill(b->v, MANY, 4);
    for (size_t i = 0; i < MANY; i++)
        b->v[i] = fabsf(b->v[i]);
    return b;
}

static const accel_optimizer_options_t *rule_options(kernel_kind_t kind)
{
    static const accel_optimizer_options_t all[KERNEL_COUNT] = {
        [KERNEL_ADAMW] = {ACCEL_OPTIMIZER_DEFAULTS, .weight_decay = 0.01},
        [KERNEL_ADAM] = {ACCEL_OPTIMIZER_DEFAULTS, .kind = ACCEL_ADAM,
                         .weight_decay = 0.01},
        [KERNEL_SGD_PLAIN] = {ACCEL_OPTIMIZER_DEFAULTS, .kind = ACCEL_SGD,
                              .weight_decay = 0.01},
        [KERNEL_SGD_MOMENTUM] = {ACCEL_OPTIMIZER_DEFAULTS, .kind = ACCEL_SGD,
                                 .momentum = 0.9},
        [KERNEL_SGD_NESTEROV] = {ACCEL_OPTIMIZER_DEFAULTS, .kind = ACCEL_SGD,
                                 .momentum = 0.9, .nesterov = true}};

    return &all[kind];
}

static void update_range(struct buffers *b, kernel_kind_t kind, size_t at,
                         size_t n)
{
    accel_update_t u = {.master = b->p + at,
                        .grad = b->g + at,
                        .m = b->m + at,
                        .v = b->v + at,
                        .compute = b->c + at,
                        .compute_dtype = ACCEL_F16,
                        .count = n,
                        .grad_scale = 0.37f};

    assert_int_equal(accel_optim_update(rule_options(kind), 0.013, 3, &u),
                     ACCEL_OK);
}

static void bits_do_not_depend_on_where_a_buffer_is_cut(void **state)
{
    (void)state;
    for (kernel_kind_t k = 0; k < KERNEL_COUNT; k++) {
        struct buffers *whole = new_buffers(), *cut = new_buffers();
        update_range(whole, k, 0, MANY);
        for (size_t at = 0, n = 1; at < MANY; at += n, n = n * 2 + 1)
            update_range(cut, k, at, n < MANY - at ? n : MANY - at);
        assert_same(whole, cut);
        free(whole);
        free(cut);
    }
}

/* Where a machine has one level only there is nothing to compare: said, not
 * passed. */
static void need_levels(void)
{
    if (ax_optim_kernels_at(1))
        return;
    print_message("one instruction set only: nothing to compare\n");
    skip();
}

static void bits_do_not_depend_on_the_instruction_set(void **state)
{
    const rule_t rule = {.grad_scale = 0.37f,
                         .keep = 0.9987f,
                         .decay = 0.01f,
                         .beta1 = 0.9f,
                         .beta2 = 0.999f,
                         .beta1_new = 0.1f,
                         .beta2_new = 0.001f,
                         .rate = 0.0131f,
                         .root = 3.7f,
                         .eps = 1e-8f};

    (void)state;
    need_levels();
    for (kernel_kind_t k = 0; k < KERNEL_COUNT; k++) {
        struct buffers *plain = new_buffers();
        ax_optim_kernels_at(0)->update[k](&rule, plain->p, plain->g, plain->m,
                                          plain->v, MANY);
        for (size_t l = 1; ax_optim_kernels_at(l); l++) {
            struct buffers *b = new_buffers();
            ax_optim_kernels_at(l)->update[k](&rule, b->p, b->g, b->m, b->v,
                                              MANY);
            assert_same(plain, b);
            free(b);
        }
        free(plain);
    }
}

static void the_rounded_copy_is_that_of_the_new_masters(void **state)
{
    static const accel_dtype_t types[] = {ACCEL_F16, ACCEL_BF16};

    (void)state;
    for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
        struct buffers *b = new_buffers();
        uint16_t *want = calloc(MANY, sizeof *want);
        accel_update_t u = {.master = b->p,
                            .grad = b->g,
                            .m = b->m,
                            .v = b->v,
                            .compute = b->c,
                            .compute_dtype = types[t],
                            .count = MANY,
                            .grad_scale = 1};
        assert_non_null(want);
        assert_int_equal(accel_optim_update(A(), 0.1, 1, &u), ACCEL_OK);
        accel_convert(want, types[t], b->p, ACCEL_F32, MANY);
        assert_memory_equal(want, b->c, sizeof b->c);
        free(want);
        free(b);
    }
}

static void the_callers_floating_point_mode_does_not_matter(void **state)
{
    (void)state;
#if defined(__x86_64__)
    struct buffers *usual = new_buffers(), *odd = new_buffers();
    const float tiny[1] = {1e-40f};
    volatile float one = tiny[0], half = 0.5f;
    double sum, odd_sum;
    bool finite;

    update_range(usual, KERNEL_ADAMW, 0, MANY);
    accel_optim_inspect(tiny, 1, &sum, &finite);
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040u); /* flush to zero, denormals are zero */
    volatile float flushed = one * half;
    update_range(odd, KERNEL_ADAMW, 0, MANY);
    accel_optim_inspect(tiny, 1, &odd_sum, &finite);
    _mm_setcsr(mode);
    assert_true(flushed == 0); /* else like would be compared with like */
    assert_same(usual, odd);
    assert_true(sum == odd_sum && sum > 0);
    free(usual);
    free(odd);
#else
    print_message("only the mode of x86 is put right, see ax_fpmode_enter()\n");
    skip();
#endif
}

static void a_nan_stays_in_its_element(void **state)
{
    float p[3] = {1, 1, 1}, g[3] = {1, NAN, 1}, m[3] = {0}, v[3] = {0};
    accel_update_t u = {
        .master = p, .grad = g, .m = m, .v = v, .count = 3, .grad_scale = 1};

    (void)state;
    assert_int_equal(accel_optim_update(A(), 0.1, 1, &u), ACCEL_OK);
    assert_true(isnan(p[1]));
    /* the default decay, as PyTorch has it, takes lr * 0.01 beside the step */
    assert_near((double)p[0], 0.899, 1e-6);
    assert_true(p[0] == p[2]);
}

static void bad_updates_are_refused(void **state)
{
    float p = 1, g = 1, m = 0, v = 0;
    uint16_t c = 0;
    const accel_update_t good = {.master = &p,
                                 .grad = &g,
                                 .m = &m,
                                 .v = &v,
                                 .count = 1,
                                 .grad_scale = 1};
    accel_update_t u;

    (void)state;
    assert_int_equal(accel_optim_update(A(), 0.1, 0, &good), ACCEL_ERR_ARG);
    assert_int_equal(accel_optim_update(A(), -0.1, 1, &good), ACCEL_ERR_ARG);
    assert_int_equal(accel_optim_update(A(), NAN, 1, &good), ACCEL_ERR_ARG);
    u = good, u.master = NULL;
    assert_int_equal(accel_optim_update(A(), 0.1, 1, &u), ACCEL_ERR_ARG);
    u = good, u.grad = NULL;
    assert_int_equal(accel_optim_update(A(), 0.1, 1, &u), ACCEL_ERR_ARG);
    u = good, u.m = NULL;
    assert_int_equal(accel_optim_update(A(), 0.1, 1, &u), ACCEL_ERR_ARG);
    assert_int_equal(
        accel_optim_update(A(.kind = ACCEL_SGD, .momentum = 0.9), 0.1, 1, &u),
        ACCEL_ERR_ARG);
    u = good, u.v = NULL;
    assert_int_equal(accel_optim_update(A(), 0.1, 1, &u), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "buffer v"));
    u = good, u.compute = &c, u.compute_dtype = ACCEL_F32;
    assert_int_equal(accel_optim_update(A(), 0.1, 1, &u), ACCEL_ERR_ARG);
    assert_true(p == 1); /* untouched by all of them */

    u = (accel_update_t){0}; /* nothing to do is fine */
    assert_int_equal(accel_optim_update(A(), 0.1, 1, &u), ACCEL_OK);
    u = good, u.m = u.v = NULL; /* plain SGD has no moments */
    assert_int_equal(accel_optim_update(A(.kind = ACCEL_SGD), 0.1, 1, &u),
                     ACCEL_OK);
}

static void inspect_sums_and_finds_what_is_not_finite(void **state)
{
    enum { N = 1000 };
    float *g = calloc(N, sizeof *g);
    double sum, want = 0;
    bool finite;

    (void)state;
    assert_non_null(g);
    for (size_t i = 0; i < N; i++) {
        g[i] = (float)(i % 7) - 3;
        want += (double)g[i] * (double)g[i];
    }
    accel_optim_inspect(g, N, &sum, &finite);
    assert_true(finite && sum == want); /* small integers: exact */

    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < N; i += 37) {
        float kept = g[i];
        g[i] = bad[i % ARRAY_SIZE(bad)];
        accel_optim_inspect(g, N, &sum, &finite);
        assert_false(finite);
        g[i] = kept;
    }
    for (size_t i = 0; i < N; i++)
        g[i] = FLT_MAX; /* large is not infinite */
    accel_optim_inspect(g, N, &sum, &finite);
    assert_true(finite);
    accel_optim_inspect(NULL, 0, &sum, &finite);
    assert_true(finite && sum == 0);
    free(g);
}

static void inspect_gives_the_same_bits_on_every_level(void **state)
{
    (void)state;
    need_levels();
    struct buffers *b = new_buffers();

    for (size_t i = 0; i < MANY; i++)
        if (!isfinite(b->g[i]))
            b->g[i] = 0.1f;
    for (size_t n = MANY - 40; n <= MANY; n++) {
        double plain = ax_optim_kernels_at(0)->sum_squares(b->g, n);
        for (size_t l = 1; ax_optim_kernels_at(l); l++)
            assert_true(ax_optim_kernels_at(l)->sum_squares(b->g, n) == plain);
    }
    free(b);
}

/* Of every length and at every place, by every level. */
static void the_largest_is_found_wherever_it_is(void **state)
{
    enum { MOST = 70 };
    float g[MOST];

    (void)state;
    need_levels();
    for (size_t n = 1; n <= MOST; n++)
        for (size_t at = 0; at < n; at++) {
            for (size_t i = 0; i < n; i++)
                g[i] = i % 2 ? -0.25F : 1e-40F;
            g[at] = at % 2 ? -3.5F : 3.5F;
            for (size_t l = 0; ax_optim_kernels_at(l); l++)
                assert_int_equal(ax_optim_kernels_at(l)->largest(g, n),
                                 0x40600000);
            g[at] = NAN;
            assert_true(ax_optim_largest(g, n) > 0x7f800000);
            g[at] = -INFINITY;
            assert_int_equal(ax_optim_largest(g, n), 0x7f800000);
        }
    assert_int_equal(ax_optim_largest(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_match_the_golden_numbers),
        cmocka_unit_test(adamw_moves_by_lr_at_first),
        cmocka_unit_test(momentum_of_a_constant_gradient_has_a_closed_form),
        cmocka_unit_test(bits_do_not_depend_on_where_a_buffer_is_cut),
        cmocka_unit_test(bits_do_not_depend_on_the_instruction_set),
        cmocka_unit_test(the_rounded_copy_is_that_of_the_new_masters),
        cmocka_unit_test(the_callers_floating_point_mode_does_not_matter),
        cmocka_unit_test(a_nan_stays_in_its_element),
        cmocka_unit_test(bad_updates_are_refused),
        cmocka_unit_test(inspect_sums_and_finds_what_is_not_finite),
        cmocka_unit_test(inspect_gives_the_same_bits_on_every_level),
        cmocka_unit_test(the_largest_is_found_wherever_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
