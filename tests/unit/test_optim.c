/* optim: the update rules against other arithmetic, schedules, the scaler. */
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
     {.size = sizeof(accel_optimizer_options_t),
      .lr = 0.01,
      .weight_decay = 0.1},
     1.5f,
     {1.4885000002, 1.4914336528, 1.4855123861, 1.4803964559, 1.4771388177}},
    {"adamw, every option",
     {.size = sizeof(accel_optimizer_options_t),
      .lr = 0.1,
      .beta1 = 0.8,
      .beta2 = 0.95,
      .eps = 1e-3,
      .weight_decay = 0.5},
     -2.0f,
     {-1.9998003992, -1.8507110362, -1.8072201950, -1.7548218303,
      -1.6816247874}},
    {"adam",
     {.size = sizeof(accel_optimizer_options_t),
      .kind = ACCEL_ADAM,
      .lr = 0.01,
      .weight_decay = 0.1},
     1.5f,
     {1.4900000002, 1.4930035819, 1.4879569983, 1.4835711445, 1.4808717496}},
    {"sgd",
     {.size = sizeof(accel_optimizer_options_t), .kind = ACCEL_SGD, .lr = 0.05},
     1.5f,
     {1.4750000000, 1.5375000000, 1.3875000000, 1.3874500000, 1.4249500000}},
    {"sgd, decay",
     {.size = sizeof(accel_optimizer_options_t),
      .kind = ACCEL_SGD,
      .lr = 0.05,
      .weight_decay = 0.1},
     1.5f,
     {1.4675000000, 1.5226625000, 1.3650491875, 1.3581739416, 1.3888830719}},
    {"sgd, momentum",
     {.size = sizeof(accel_optimizer_options_t),
      .kind = ACCEL_SGD,
      .lr = 0.05,
      .weight_decay = 0.1,
      .momentum = 0.9},
     1.5f,
     {1.4675000000, 1.4934125000, 1.3592666875, 1.2316891228, 1.1482108690}},
    {"sgd, nesterov",
     {.size = sizeof(accel_optimizer_options_t),
      .kind = ACCEL_SGD,
      .lr = 0.05,
      .weight_decay = 0.1,
      .momentum = 0.9,
      .nesterov = true},
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
        [KERNEL_ADAMW] = {.size = sizeof all[0], .weight_decay = 0.01},
        [KERNEL_ADAM] = {.size = sizeof all[0],
                         .kind = ACCEL_ADAM,
                         .weight_decay = 0.01},
        [KERNEL_SGD_PLAIN] = {.size = sizeof all[0],
                              .kind = ACCEL_SGD,
                              .weight_decay = 0.01},
        [KERNEL_SGD_MOMENTUM] = {.size = sizeof all[0],
                                 .kind = ACCEL_SGD,
                                 .momentum = 0.9},
        [KERNEL_SGD_NESTEROV] = {.size = sizeof all[0],
                                 .kind = ACCEL_SGD,
                                 .momentum = 0.9,
                                 .nesterov = true}};

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
    double sum, odd_sum;
    bool finite;
    float tiny[1] = {1e-40f};

    update_range(usual, KERNEL_ADAMW, 0, MANY);
    accel_optim_inspect(tiny, 1, &sum, &finite);
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040u); /* flush to zero, denormals are zero */
    update_range(odd, KERNEL_ADAMW, 0, MANY);
    accel_optim_inspect(tiny, 1, &odd_sum, &finite);
    _mm_setcsr(mode);
    assert_same(usual, odd);
    assert_true(sum == odd_sum && sum > 0);
    free(usual);
    free(odd);
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
    assert_near((double)p[0], 0.9, 1e-6);
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
    struct buffers *b = new_buffers();

    (void)state;
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

/* ---- the optimizer --------------------------------------------------------
 */

static void bad_options_are_refused(void **state)
{
    static const struct {
        accel_optimizer_options_t options;
        const char *text;
    } cases[] = {
        {{.size = 3}, "ACCEL_OPTIMIZER"},
        {{.size = sizeof cases[0].options, .kind = 9}, "kind 9"},
        {{.size = sizeof cases[0].options, .lr = -1}, "learning rate"},
        {{.size = sizeof cases[0].options, .lr = INFINITY}, "learning rate"},
        {{.size = sizeof cases[0].options, .beta1 = 1}, "beta1 is 1"},
        {{.size = sizeof cases[0].options, .beta2 = -0.5}, "beta2"},
        {{.size = sizeof cases[0].options, .beta2 = NAN}, "beta2"},
        {{.size = sizeof cases[0].options, .eps = -1e-8}, "eps"},
        {{.size = sizeof cases[0].options, .weight_decay = -1}, "weight_decay"},
        {{.size = sizeof cases[0].options, .momentum = 0.9}, "ACCEL_SGD"},
        {{.size = sizeof cases[0].options, .kind = ACCEL_SGD, .nesterov = true},
         "nesterov"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        accel_optimizer_t *o = (void *)state;
        assert_int_equal(accel_optimizer_create(&cases[i].options, &o),
                         ACCEL_ERR_ARG);
        assert_null(o);
        assert_non_null(strstr(accel_last_error()->text, cases[i].text));
    }
}

struct driver {
    int steps, zeroed;
    bool moved;
};

static accel_status_t on_step(void *context)
{
    ((struct driver *)context)->steps++;
    return ACCEL_OK;
}

static accel_status_t on_zero(void *context)
{
    ((struct driver *)context)->zeroed++;
    return ACCEL_OK;
}

static bool on_moved(void *context)
{
    return ((struct driver *)context)->moved;
}

static void steps_go_through_the_hooks(void **state)
{
    struct driver d = {0};
    const ax_optim_hooks_t hooks = {.step = on_step,
                                    .zero_grad = on_zero,
                                    .moved = on_moved,
                                    .context = &d};
    accel_optimizer_t *o;

    (void)state;
    assert_int_equal(accel_optimizer_create(NULL, &o), ACCEL_OK);
    assert_int_equal(accel_optimizer_step(o), ACCEL_ERR_STATE);
    assert_non_null(strstr(accel_last_error()->text, "accel_prepare"));
    assert_int_equal(accel_optimizer_zero_grad(o), ACCEL_ERR_STATE);

    ax_optimizer_set_hooks(o, &hooks);
    assert_int_equal(accel_optimizer_step(o), ACCEL_OK);
    assert_int_equal(accel_optimizer_zero_grad(o), ACCEL_OK);
    assert_int_equal(d.steps, 1);
    assert_int_equal(d.zeroed, 1);

    ax_optimizer_set_hooks(o, NULL);
    assert_int_equal(accel_optimizer_step(o), ACCEL_ERR_STATE);
    accel_optimizer_destroy(o);
}

static void apply_updates_every_parameter(void **state)
{
    float w[3] = {1, 2, 3}, b[1] = {4}, gw[3] = {8, 8, 8}, gb[1] = {-8};
    uint16_t half[3] = {0};
    accel_optimizer_t *o;

    (void)state;
    assert_int_equal(
        accel_optimizer_create(A(.kind = ACCEL_SGD, .lr = 0.5), &o), ACCEL_OK);
    assert_int_equal(
        ax_optimizer_add(o, &(ax_optim_slot_t){.name = "w",
                                               .master = w,
                                               .grad = gw,
                                               .compute = half,
                                               .compute_dtype = ACCEL_BF16,
                                               .count = 3}),
        ACCEL_OK);
    assert_int_equal(ax_optimizer_add(o, &(ax_optim_slot_t){.name = "b",
                                                            .master = b,
                                                            .grad = gb,
                                                            .count = 1}),
                     ACCEL_OK);
    assert_int_equal(ax_optimizer_count(o), 2);
    assert_null(ax_optimizer_slot(o, 2));
    assert_null(ax_optimizer_slot(o, 0)->m); /* plain SGD keeps nothing */

    assert_int_equal(ax_optimizer_apply(o, 0.25f), ACCEL_OK);
    assert_true(w[0] == 0 && w[1] == 1 && w[2] == 2 && b[0] == 5);
    assert_int_equal(half[1], 0x3f80);
    assert_int_equal(accel_optimizer_steps(o), 1);
    ax_optimizer_set_steps(o, 41);
    assert_int_equal(accel_optimizer_steps(o), 41);
    accel_optimizer_destroy(o);
}

static void moments_come_zeroed_and_aligned(void **state)
{
    float w[5] = {0}, g[5] = {0};
    accel_optimizer_t *o;

    (void)state;
    assert_int_equal(accel_optimizer_create(A(), &o), ACCEL_OK);
    for (size_t i = 0; i < 40; i++) /* more than the first room */
        assert_int_equal(ax_optimizer_add(o, &(ax_optim_slot_t){.name = "w",
                                                                .master = w,
                                                                .grad = g,
                                                                .count = 5}),
                         ACCEL_OK);
    for (size_t i = 0; i < 40; i++) {
        const ax_optim_slot_t *s = ax_optimizer_slot(o, i);
        assert_int_equal((uintptr_t)s->m % 64, 0);
        assert_int_equal((uintptr_t)s->v % 64, 0);
        assert_memory_equal(s->m, w, sizeof w);
        assert_memory_equal(s->v, w, sizeof w);
    }
    assert_int_equal(
        ax_optimizer_add(o, &(ax_optim_slot_t){.name = "huge",
                                               .master = w,
                                               .grad = g,
                                               .count = SIZE_MAX / 2}),
        ACCEL_ERR_NOMEM);
    assert_non_null(strstr(accel_last_error()->text, "huge"));
    assert_int_equal(ax_optimizer_count(o), 40);
    accel_optimizer_destroy(o);
    accel_optimizer_destroy(NULL);
}

static void the_rate_can_be_set(void **state)
{
    accel_optimizer_t *o;

    (void)state;
    assert_int_equal(accel_optimizer_create(A(.lr = 0.5), &o), ACCEL_OK);
    assert_true(accel_optimizer_lr(o) == 0.5);
    assert_int_equal(accel_optimizer_set_lr(o, 0), ACCEL_OK);
    assert_int_equal(accel_optimizer_set_lr(o, -1), ACCEL_ERR_ARG);
    assert_int_equal(accel_optimizer_set_lr(o, NAN), ACCEL_ERR_ARG);
    assert_true(accel_optimizer_lr(o) == 0);
    accel_optimizer_destroy(o);
}

/* ---- schedules ------------------------------------------------------------
 */

static const struct {
    accel_schedule_options_t options;
    uint64_t done;
    double value;
} schedule_cases[] = {
    {{.lr = 0.5}, 0, 0.5},
    {{.lr = 0.5}, 1000000, 0.5},
    {{.lr = 1, .warmup = 10}, 0, 0.1},
    {{.lr = 1, .warmup = 10}, 2, 0.3},
    {{.lr = 1, .warmup = 10}, 9, 1},
    {{.lr = 1, .warmup = 10}, 10, 1},
    {{.kind = ACCEL_LINEAR, .lr = 1, .total = 20}, 0, 1},
    {{.kind = ACCEL_LINEAR, .lr = 1, .total = 20}, 5, 0.75},
    {{.kind = ACCEL_LINEAR, .lr = 1, .total = 20}, 19, 0.05},
    {{.kind = ACCEL_LINEAR, .lr = 1, .total = 20}, 20, 0},
    {{.kind = ACCEL_LINEAR, .lr = 1, .total = 20}, 21, 0},
    {{.kind = ACCEL_LINEAR, .lr = 1, .total = 20}, UINT64_MAX, 0},
    {{.kind = ACCEL_LINEAR, .lr = 2, .total = 10, .end = 0.5}, 10, 1},
    {{.kind = ACCEL_LINEAR, .lr = 2, .total = 10, .end = 0.5}, 5, 1.5},
    {{.kind = ACCEL_LINEAR, .lr = 1, .total = 12, .warmup = 4}, 3, 1},
    {{.kind = ACCEL_LINEAR, .lr = 1, .total = 12, .warmup = 4}, 8, 0.5},
    {{.kind = ACCEL_LINEAR, .lr = 1, .total = 4, .warmup = 4}, 4, 0},
    {{.kind = ACCEL_COSINE, .lr = 1, .total = 8}, 0, 1},
    {{.kind = ACCEL_COSINE, .lr = 1, .total = 8}, 2, 0.85355339059327378},
    {{.kind = ACCEL_COSINE, .lr = 1, .total = 8}, 4, 0.5},
    {{.kind = ACCEL_COSINE, .lr = 1, .total = 8}, 8, 0},
    {{.kind = ACCEL_COSINE, .lr = 1, .total = 8, .end = 0.1}, 4, 0.55},
    {{.total = 8}, 3, 1}, /* without a peak: the factor */
};

static void schedules_have_the_documented_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(schedule_cases); i++) {
        double got = accel_schedule_value(&schedule_cases[i].options,
                                          schedule_cases[i].done);
        if (fabs(got - schedule_cases[i].value) > 1e-15)
            fail_msg("case %zu: %.17g, not %.17g", i, got,
                     schedule_cases[i].value);
    }
}

static void a_schedule_follows_the_updates_really_made(void **state)
{
    /* warm-up to 1 over 10 updates; the third attempt of ten is skipped */
    static const double rates[] = {0.1, 0.2, 0.3, 0.3, 0.4,
                                   0.5, 0.6, 0.7, 0.8, 0.9};
    struct driver d = {0};
    const ax_optim_hooks_t hooks = {.step = on_step,
                                    .zero_grad = on_zero,
                                    .moved = on_moved,
                                    .context = &d};
    accel_optimizer_t *o;
    accel_schedule_t *s;

    (void)state;
    assert_int_equal(accel_optimizer_create(A(.lr = 1), &o), ACCEL_OK);
    ax_optimizer_set_hooks(o, &hooks);
    assert_int_equal(accel_schedule_create(o, ACCEL_SCHEDULE(.warmup = 10), &s),
                     ACCEL_OK);
    for (size_t attempt = 0; attempt < ARRAY_SIZE(rates); attempt++) {
        assert_near(accel_optimizer_lr(o), rates[attempt], 1e-15);
        d.moved = attempt != 2;
        accel_optimizer_step(o);
        assert_int_equal(accel_schedule_step(s), ACCEL_OK);
    }
    assert_int_equal(accel_schedule_steps(s), 9);
    accel_schedule_destroy(s);
    accel_optimizer_destroy(o);
}

static void a_linear_schedule_ends_at_exactly_zero(void **state)
{
    accel_optimizer_t *o;
    accel_schedule_t *s;

    (void)state;
    for (uint64_t accumulate = 1; accumulate <= 4; accumulate *= 2) {
        struct driver d = {0};
        const ax_optim_hooks_t hooks = {.step = on_step,
                                        .zero_grad = on_zero,
                                        .moved = on_moved,
                                        .context = &d};
        assert_int_equal(accel_optimizer_create(A(.lr = 0.3), &o), ACCEL_OK);
        ax_optimizer_set_hooks(o, &hooks);
        assert_int_equal(
            accel_schedule_create(
                o, ACCEL_SCHEDULE(.kind = ACCEL_LINEAR, .total = 20), &s),
            ACCEL_OK);
        for (uint64_t micro = 1; micro <= 20 * accumulate; micro++) {
            assert_true(accel_optimizer_lr(o) > 0);
            d.moved = micro % accumulate == 0;
            accel_schedule_step(s);
        }
        assert_true(accel_optimizer_lr(o) == 0);
        accel_schedule_destroy(s);
        accel_optimizer_destroy(o);
    }
}

static void a_schedule_goes_where_a_checkpoint_was(void **state)
{
    accel_optimizer_t *o;
    accel_schedule_t *s;

    (void)state;
    assert_int_equal(accel_optimizer_create(A(.lr = 1), &o), ACCEL_OK);
    assert_int_equal(
        accel_schedule_create(
            o, ACCEL_SCHEDULE(.kind = ACCEL_LINEAR, .total = 8), &s),
        ACCEL_OK);
    accel_optimizer_set_lr(o, 7); /* holds until the schedule moves */
    assert_true(accel_optimizer_lr(o) == 7);
    ax_schedule_set_steps(s, 6);
    assert_true(accel_optimizer_lr(o) == 0.25);
    accel_schedule_step(s); /* no accelerator: every call counts */
    assert_true(accel_optimizer_lr(o) == 0.125);
    accel_schedule_destroy(s);
    accel_schedule_destroy(NULL);
    accel_optimizer_destroy(o);
}

static void bad_schedules_are_refused(void **state)
{
    static const struct {
        accel_schedule_options_t options;
        const char *text;
    } cases[] = {
        {{.size = 0}, "ACCEL_SCHEDULE"},
        {{.size = sizeof cases[0].options, .kind = 7}, "kind 7"},
        {{.size = sizeof cases[0].options, .kind = ACCEL_LINEAR}, "total is 0"},
        {{.size = sizeof cases[0].options,
          .kind = ACCEL_COSINE,
          .total = 5,
          .warmup = 6},
         "warmup 6"},
        {{.size = sizeof cases[0].options, .end = 1.5}, "end is 1.5"},
        {{.size = sizeof cases[0].options, .end = NAN}, "end"},
        {{.size = sizeof cases[0].options, .lr = -1}, "learning rate"},
    };
    accel_optimizer_t *o;

    (void)state;
    assert_int_equal(accel_optimizer_create(NULL, &o), ACCEL_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        accel_schedule_t *s = (void *)state;
        assert_int_equal(accel_schedule_create(o, &cases[i].options, &s),
                         ACCEL_ERR_ARG);
        assert_null(s);
        assert_non_null(strstr(accel_last_error()->text, cases[i].text));
    }
    accel_schedule_t *none;
    assert_int_equal(accel_schedule_create(NULL, NULL, &none), ACCEL_ERR_ARG);
    accel_optimizer_destroy(o);
}

/* ---- the loss scaler ------------------------------------------------------
 */

static void the_scale_follows_the_rule(void **state)
{
    static const bool finite[] = {true, false, false, true};
    accel_scaler_t *s;
    accel_scaler_state_t st;

    (void)state;
    assert_int_equal(accel_scaler_create(NULL, &s), ACCEL_OK);
    assert_true(accel_scaler_scale(s) == 65536);
    for (size_t i = 0; i < ARRAY_SIZE(finite); i++)
        accel_scaler_update(s, finite[i]);
    accel_scaler_get_state(s, &st);
    assert_true(st.scale == 16384);
    assert_int_equal(st.good, 1);
    assert_int_equal(st.skipped, 2);
    assert_int_equal(st.row, 0);

    for (int i = 0; i < 1998; i++)
        accel_scaler_update(s, true);
    assert_true(accel_scaler_scale(s) == 16384);
    accel_scaler_update(s, true); /* good step 2000 */
    assert_true(accel_scaler_scale(s) == 32768);
    accel_scaler_get_state(s, &st);
    assert_int_equal(st.good, 0);
    accel_scaler_destroy(s);
}

static void the_scale_stays_between_its_limits(void **state)
{
    accel_scaler_t *s;
    accel_scaler_state_t st;

    (void)state;
    assert_int_equal(
        accel_scaler_create(ACCEL_SCALER(.init = 1024, .interval = 1), &s),
        ACCEL_OK);
    assert_true(accel_scaler_scale(s) == 1024);
    for (int i = 0; i < 300; i++)
        accel_scaler_update(s, false);
    assert_true(accel_scaler_scale(s) == 1); /* the floor */
    accel_scaler_get_state(s, &st);
    assert_int_equal(st.row, 300);
    for (int i = 0; i < 300; i++)
        accel_scaler_update(s, true);
    assert_true(accel_scaler_scale(s) == 0x1p127); /* still an f32 */
    accel_scaler_destroy(s);
    accel_scaler_destroy(NULL);
}

static void a_scaler_goes_on_from_its_state(void **state)
{
    accel_scaler_t *s;
    accel_scaler_state_t st = {.scale = 8, .good = 1999, .skipped = 3};
    accel_scaler_state_t got;

    (void)state;
    assert_int_equal(accel_scaler_create(NULL, &s), ACCEL_OK);
    assert_int_equal(accel_scaler_set_state(s, &st), ACCEL_OK);
    accel_scaler_update(s, true);
    assert_true(accel_scaler_scale(s) == 16);

    static const double bad[] = {0, -1, INFINITY, NAN, 1e-60, 1e60};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        st.scale = bad[i];
        assert_int_equal(accel_scaler_set_state(s, &st), ACCEL_ERR_ARG);
    }
    accel_scaler_get_state(s, &got);
    assert_true(got.scale == 16);
    assert_int_equal(got.skipped, 3);
    accel_scaler_destroy(s);
}

static void bad_scalers_are_refused(void **state)
{
    static const struct {
        accel_scaler_options_t options;
        const char *text;
    } cases[] = {
        {{.size = 1}, "ACCEL_SCALER"},
        {{.size = sizeof cases[0].options, .init = -1}, "init"},
        {{.size = sizeof cases[0].options, .init = 0.5}, "init"},
        {{.size = sizeof cases[0].options, .init = 1e39}, "init"},
        {{.size = sizeof cases[0].options, .growth = 1}, "growth"},
        {{.size = sizeof cases[0].options, .growth = NAN}, "growth"},
        {{.size = sizeof cases[0].options, .backoff = 1}, "backoff"},
        {{.size = sizeof cases[0].options, .backoff = -0.5}, "backoff"},
        {{.size = sizeof cases[0].options, .min = -1}, "min"},
        {{.size = sizeof cases[0].options, .min = 1e-60}, "min"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        accel_scaler_t *s = (void *)state;
        assert_int_equal(accel_scaler_create(&cases[i].options, &s),
                         ACCEL_ERR_ARG);
        assert_null(s);
        assert_non_null(strstr(accel_last_error()->text, cases[i].text));
    }
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
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(steps_go_through_the_hooks),
        cmocka_unit_test(apply_updates_every_parameter),
        cmocka_unit_test(moments_come_zeroed_and_aligned),
        cmocka_unit_test(the_rate_can_be_set),
        cmocka_unit_test(schedules_have_the_documented_values),
        cmocka_unit_test(a_schedule_follows_the_updates_really_made),
        cmocka_unit_test(a_linear_schedule_ends_at_exactly_zero),
        cmocka_unit_test(a_schedule_goes_where_a_checkpoint_was),
        cmocka_unit_test(bad_schedules_are_refused),
        cmocka_unit_test(the_scale_follows_the_rule),
        cmocka_unit_test(the_scale_stays_between_its_limits),
        cmocka_unit_test(a_scaler_goes_on_from_its_state),
        cmocka_unit_test(bad_scalers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
