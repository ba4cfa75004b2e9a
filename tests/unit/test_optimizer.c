/* optim: the optimizer, schedules and the loss scaler. */
#include "unit/unit.h"

#include "optim/optim_priv.h"

#include <math.h>

#define A(...) ACCEL_OPTIMIZER(__VA_ARGS__)

static void assert_near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want)))
        fail_msg("%.9g is not within %g of %.9g", got, relative, want);
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
        {{ACCEL_OPTIMIZER_DEFAULTS, .kind = 9}, "kind 9"},
        {{ACCEL_OPTIMIZER_DEFAULTS, .lr = -1}, "learning rate"},
        {{ACCEL_OPTIMIZER_DEFAULTS, .lr = INFINITY}, "learning rate"},
        {{ACCEL_OPTIMIZER_DEFAULTS, .beta1 = 1}, "beta1 is 1"},
        {{ACCEL_OPTIMIZER_DEFAULTS, .beta2 = -0.5}, "beta2"},
        {{ACCEL_OPTIMIZER_DEFAULTS, .beta2 = NAN}, "beta2"},
        {{ACCEL_OPTIMIZER_DEFAULTS, .eps = -1e-8}, "eps"},
        {{ACCEL_OPTIMIZER_DEFAULTS, .weight_decay = -1}, "weight_decay"},
        {{ACCEL_OPTIMIZER_DEFAULTS, .momentum = 0.9}, "ACCEL_SGD"},
        {{ACCEL_OPTIMIZER_DEFAULTS, .kind = ACCEL_SGD, .nesterov = true},
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

static int gone;

static void on_gone(void *context)
{
    assert_ptr_equal(context, &gone);
    gone++;
}

static void owners_hear_of_the_end(void **state)
{
    accel_optimizer_t *o;
    accel_schedule_t *s;

    (void)state;
    assert_int_equal(accel_optimizer_create(NULL, &o), ACCEL_OK);
    assert_int_equal(accel_schedule_create(o, NULL, &s), ACCEL_OK);
    ax_optimizer_set_hooks(
        o, &(ax_optim_hooks_t){.gone = on_gone, .context = &gone});
    ax_schedule_set_owner(s, on_gone, &gone);
    accel_schedule_destroy(s);
    assert_int_equal(gone, 1);
    accel_optimizer_destroy(o);
    assert_int_equal(gone, 2);

    assert_int_equal(accel_optimizer_create(NULL, &o), ACCEL_OK);
    accel_optimizer_destroy(o); /* nobody asked */
    assert_int_equal(gone, 2);
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
    {{.lr = ACCEL_DEFAULT, .total = 8}, 3, 1}, /* the factor */
    {{.lr = 0, .warmup = 10}, 2, 0},
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
        {{ACCEL_SCHEDULE_DEFAULTS, .kind = 7}, "kind 7"},
        {{ACCEL_SCHEDULE_DEFAULTS, .kind = ACCEL_LINEAR}, "total is 0"},
        {{ACCEL_SCHEDULE_DEFAULTS, .kind = ACCEL_COSINE, .total = 5,
          .warmup = 6},
         "warmup 6"},
        {{ACCEL_SCHEDULE_DEFAULTS, .end = 1.5}, "end is 1.5"},
        {{ACCEL_SCHEDULE_DEFAULTS, .end = NAN}, "end"},
        {{ACCEL_SCHEDULE_DEFAULTS, .lr = -1}, "learning rate"},
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
        {{ACCEL_SCALER_DEFAULTS, .init = -1}, "init"},
        {{ACCEL_SCALER_DEFAULTS, .init = 0.5}, "init"},
        {{ACCEL_SCALER_DEFAULTS, .init = 1e39}, "init"},
        {{ACCEL_SCALER_DEFAULTS, .growth = 1}, "growth"},
        {{ACCEL_SCALER_DEFAULTS, .growth = NAN}, "growth"},
        {{ACCEL_SCALER_DEFAULTS, .backoff = 1}, "backoff"},
        {{ACCEL_SCALER_DEFAULTS, .backoff = -0.5}, "backoff"},
        {{ACCEL_SCALER_DEFAULTS, .min = -1}, "min"},
        {{ACCEL_SCALER_DEFAULTS, .min = 1e-60}, "min"},
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
        cmocka_unit_test(owners_hear_of_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
