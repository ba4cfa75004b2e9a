/* base: what a program gives in options counts as it stands, 0 too, and what
 * it leaves out is the library's. tests/lint/cplusplus.cc has the same in C++.
 */
#include "unit/unit.h"

#include "base/base.h"
#include "loader/loader.h"
#include "optim/optim.h"

#include <accel.h>
#include <accel/progress.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define O(...) *ACCEL_OPTIMIZER(__VA_ARGS__)

/* ---- the mark itself ------------------------------------------------------
 */

static void the_mark_is_no_number_that_arithmetic_gives(void **state)
{
    volatile double zero = 0;
    const double others[] = {
        0, 1, -1, INFINITY, zero / zero, -NAN, sqrt(-1 - zero), (double)NAN};
    const double mark = ACCEL_DEFAULT;
    uint64_t bits;

    (void)state;
    memcpy(&bits, &mark, sizeof bits);
    assert_true(bits == ACCEL_DEFAULT_INT);
    assert_true(ax_is_default(mark));
    assert_true(ax_or(mark, 0.25) == 0.25);
    assert_true(ax_or_int(ACCEL_DEFAULT_INT, 7) == 7);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_false(ax_is_default(others[i]));
    assert_true(ax_or(0, 0.25) == 0);
    assert_int_equal(ax_or_int(0, 7), 0);
    assert_true(ax_or_int(UINT64_MAX, 7) == UINT64_MAX);
}

/* A program of an older release, which has a shorter struct, and one of a
 * later release. */
static void what_others_do_not_know_is_left_to_the_library(void **state)
{
    typedef struct known {
        size_t size;
        double lr, added;
    } known_t;
    const known_t defaults = {sizeof defaults, ACCEL_DEFAULT, ACCEL_DEFAULT};
    struct later {
        known_t known;
        double more;
        uint64_t number;
        int64_t flag;
    } later = {{sizeof later, 0, 0}, ACCEL_DEFAULT, ACCEL_DEFAULT_INT, 0};
    struct {
        size_t size;
        double lr;
    } older = {sizeof older, 0};
    known_t got = defaults;

    (void)state;
    assert_int_equal(ax_options_copy(&got, &older, sizeof got, "M"), ACCEL_OK);
    assert_true(got.lr == 0);
    assert_true(ax_is_default(got.added));
    assert_int_equal(got.size, sizeof got);

    got = defaults;
    assert_int_equal(ax_options_copy(&got, &later, sizeof got, "M"), ACCEL_OK);
    assert_true(got.lr == 0 && got.added == 0);
    later.more = 0;
    assert_int_equal(ax_options_copy(&got, &later, sizeof got, "M"), ACCEL_OK);
    later.more = 1;
    assert_int_equal(ax_options_copy(&got, &later, sizeof got, "M"),
                     ACCEL_ERR_VERSION);
    later.more = ACCEL_DEFAULT;
    later.flag = 1;
    assert_int_equal(ax_options_copy(&got, &later, sizeof got, "M"),
                     ACCEL_ERR_VERSION);

    got = defaults;
    assert_int_equal(ax_options_copy(&got, NULL, sizeof got, "M"), ACCEL_OK);
    assert_true(ax_is_default(got.lr) && ax_is_default(got.added));
}

/* Overwrites what lies below on the stack. */
static int clobber(void)
{
    volatile char junk[4096];

    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)i;
    return junk[17];
}

/* An array or a struct that is written inside is there as long. */
static void what_is_made_inside_lives_as_long(void **state)
{
    const accel_dataset_options_t *o =
        ACCEL_DATASET(.fields = (accel_field_t[]){{"x", ACCEL_F32, 3}},
                      .nfields = 1);
    const accel_prepare_options_t *p =
        ACCEL_PREPARE(.scaler = ACCEL_SCALER(.init = 8));

    (void)state;
    assert_int_equal(clobber(), 17);
    assert_string_equal(o->fields[0].name, "x");
    assert_int_equal(o->fields[0].count, 3);
    assert_true(p->scaler->init == 8 && ax_is_default(p->scaler->growth));
}

/* ---- the ends of each range -----------------------------------------------
 */

static void an_optimizer_takes_the_ends(void **state)
{
    const double below_one = 1 - 0x1p-24;
    const struct {
        accel_optimizer_options_t options;
        const char *refused; /* what the text names; NULL: it is legal */
    } cases[] = {
        {O(.lr = 0), NULL},
        {O(.lr = 1e308), NULL},
        {O(.lr = -0x1p-1074), "learning rate"},
        {O(.beta1 = 0, .beta2 = 0), NULL},
        {O(.beta1 = below_one, .beta2 = below_one), NULL},
        {O(.beta1 = 1), "beta1 is 1"},
        {O(.beta2 = 1), "beta2 is 1"},
        {O(.beta1 = -0x1p-1074), "beta1"},
        {O(.eps = 0x1p-126), NULL},
        {O(.eps = 1), NULL},
        {O(.eps = 0), "eps is 0"},
        {O(.eps = 1.5), "eps"},
        {O(.weight_decay = 0), NULL},
        {O(.weight_decay = 1e6), NULL},
        {O(.weight_decay = 1e7), "weight_decay"},
        {O(.kind = ACCEL_SGD, .momentum = 0), NULL},
        {O(.kind = ACCEL_SGD, .momentum = 1, .nesterov = true), NULL},
        {O(.kind = ACCEL_SGD, .momentum = 1.5), "momentum"},
        {O(.lr = NAN), "learning rate"},
        {{.size = sizeof cases[0].options, .lr = 1}, "eps is 0"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *want = cases[i].refused;
        accel_optimizer_t *o;
        accel_status_t st = accel_optimizer_create(&cases[i].options, &o);
        if (st != (want ? ACCEL_ERR_ARG : ACCEL_OK) ||
            (want && !strstr(accel_last_error()->text, want)))
            fail_msg("case %zu: %s: %s", i, accel_status_name(st),
                     accel_last_error()->text);
        accel_optimizer_destroy(o);
    }
}

static void a_scaler_takes_the_ends(void **state)
{
    const struct {
        accel_scaler_options_t options;
        const char *refused;
    } cases[] = {
        {*ACCEL_SCALER(.init = 0x1p-126, .min = 0x1p-126), NULL},
        {*ACCEL_SCALER(.init = 0x1p127), NULL},
        {*ACCEL_SCALER(.init = 0), "init is 0"},
        {*ACCEL_SCALER(.min = 0), "min is 0"},
        {*ACCEL_SCALER(.growth = 1 + 0x1p-52), NULL},
        {*ACCEL_SCALER(.growth = 0), "growth is 0"},
        {*ACCEL_SCALER(.backoff = 0x1p-1074), NULL},
        {*ACCEL_SCALER(.backoff = 0), "backoff is 0"},
        {*ACCEL_SCALER(.interval = 1), NULL},
        {*ACCEL_SCALER(.interval = UINT64_MAX), NULL},
        {*ACCEL_SCALER(.interval = 0), "interval is 0"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *want = cases[i].refused;
        accel_scaler_t *s;
        accel_status_t st = accel_scaler_create(&cases[i].options, &s);
        if (st != (want ? ACCEL_ERR_ARG : ACCEL_OK) ||
            (want && !strstr(accel_last_error()->text, want)))
            fail_msg("case %zu: %s: %s", i, accel_status_name(st),
                     accel_last_error()->text);
        accel_scaler_destroy(s);
    }
}

static void a_schedule_takes_the_ends(void **state)
{
    const struct {
        accel_schedule_options_t options;
        double first; /* the rate of the first update; -1: refused */
    } cases[] = {
        {*ACCEL_SCHEDULE(.warmup = 0), 0.5},
        {*ACCEL_SCHEDULE(.warmup = UINT64_MAX), 0.5 / 0x1p64},
        {*ACCEL_SCHEDULE(.kind = ACCEL_LINEAR, .total = 1), 0.5},
        {*ACCEL_SCHEDULE(.kind = ACCEL_COSINE, .total = UINT64_MAX), 0.5},
        {*ACCEL_SCHEDULE(.kind = ACCEL_LINEAR, .total = 0), -1},
        {*ACCEL_SCHEDULE(.end = 0), 0.5},
        {*ACCEL_SCHEDULE(.kind = ACCEL_LINEAR, .total = 1, .end = 1), 0.5},
        {*ACCEL_SCHEDULE(.end = 1 + 0x1p-52), -1},
        {*ACCEL_SCHEDULE(.end = -0x1p-1074), -1},
        {*ACCEL_SCHEDULE(.lr = 0), 0},
        {*ACCEL_SCHEDULE(.lr = -0x1p-1074), -1},
    };
    accel_optimizer_t *o;

    (void)state;
    assert_int_equal(accel_optimizer_create(ACCEL_OPTIMIZER(.lr = 0.5), &o),
                     ACCEL_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        bool legal = cases[i].first >= 0;
        accel_schedule_t *s;
        assert_int_equal(accel_optimizer_set_lr(o, 0.5), ACCEL_OK);
        assert_int_equal(accel_schedule_create(o, &cases[i].options, &s),
                         legal ? ACCEL_OK : ACCEL_ERR_ARG);
        if (legal)
            assert_true(accel_optimizer_lr(o) == cases[i].first);
        accel_schedule_destroy(s);
    }
    accel_optimizer_destroy(o);
}

static void a_loader_takes_the_ends(void **state)
{
    static const float x[7];
    static const double weights[7] = {1, 1, 1, 1, 1, 1, 1};
    const accel_field_t field = {"x", ACCEL_F32, 1};
    const struct {
        accel_loader_options_t options;
        bool legal;
    } cases[] = {
        {*ACCEL_LOADER(.batch_size = 1), true},
        {*ACCEL_LOADER(.batch_size = 0), false},
        {*ACCEL_LOADER(.batch_size = 2, .threads = 1, .prefetch = 1), true},
        {*ACCEL_LOADER(.batch_size = 2, .threads = 1025), false},
        {*ACCEL_LOADER(.batch_size = 2, .align = sizeof(void *)), true},
        {*ACCEL_LOADER(.batch_size = 2, .align = (size_t)1 << 21), true},
        {*ACCEL_LOADER(.batch_size = 2, .align = (size_t)1 << 22), false},
        {*ACCEL_LOADER(.batch_size = 2, .shuffle = true, .block = 1,
                       .group = 1),
         true},
        {*ACCEL_LOADER(.batch_size = 2, .weights = weights, .draws = 1), true},
        {*ACCEL_LOADER(.batch_size = 2, .weights = weights, .draws = 8), false},
    };
    accel_dataset_t *d;

    (void)state;
    assert_int_equal(
        accel_dataset_from_memory(&field, (const void *[]){x}, 1, 7, &d),
        ACCEL_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        accel_loader_t *l;
        accel_batch_t b;
        accel_status_t st = accel_loader_create(d, &cases[i].options, &l);
        if (st != (cases[i].legal ? ACCEL_OK : ACCEL_ERR_ARG))
            fail_msg("case %zu: %s: %s", i, accel_status_name(st),
                     accel_last_error()->text);
        if (cases[i].legal)
            assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
        accel_loader_destroy(l);
    }
    accel_dataset_destroy(d);
}

/* ---- what a given 0 does --------------------------------------------------
 */

/* Two updates of one parameter with gradients 1 and -3; out: p, m, v. */
static void two_updates(const accel_optimizer_options_t *o, double lr,
                        float out[3])
{
    const float grads[] = {1, -3};

    out[0] = 5;
    out[1] = out[2] = 0;
    for (uint64_t t = 1; t <= 2; t++) {
        accel_update_t u = {.master = &out[0],
                            .grad = &grads[t - 1],
                            .m = &out[1],
                            .v = &out[2],
                            .count = 1,
                            .grad_scale = 1};
        assert_int_equal(accel_optim_update(o, lr, t, &u), ACCEL_OK);
    }
}

/* With beta 0 a moment is the newest gradient and nothing of those before. */
static void beta_0_forgets_all(void **state)
{
    float x[3];

    (void)state;
    two_updates(ACCEL_OPTIMIZER(.beta1 = 0), 0.1, x);
    assert_true(x[1] == -3);
    assert_true(fabsf(x[2] - (0.999f * 0.001f + 0.009f)) < 1e-8f);
    two_updates(ACCEL_OPTIMIZER(.beta2 = 0), 0.1, x);
    assert_true(x[2] == 9);
    assert_true(fabsf(x[1] - (0.09f - 0.3f)) < 1e-6f);
    two_updates(ACCEL_OPTIMIZER(.kind = ACCEL_ADAM, .beta1 = 0, .beta2 = 0),
                0.1, x);
    assert_true(x[1] == -3 && x[2] == 9);
}

static void rate_0_moves_nothing(void **state)
{
    accel_optimizer_t *o;
    accel_schedule_t *s;
    float p = 5, g = 1;

    (void)state;
    assert_int_equal(accel_optimizer_create(ACCEL_OPTIMIZER(.lr = 0), &o),
                     ACCEL_OK);
    assert_true(accel_optimizer_lr(o) == 0);
    assert_int_equal(ax_optimizer_add(o, &(ax_optim_slot_t){.name = "p",
                                                            .master = &p,
                                                            .grad = &g,
                                                            .count = 1}),
                     ACCEL_OK);
    assert_int_equal(ax_optimizer_apply(o, 1), ACCEL_OK);
    assert_true(p == 5);
    accel_optimizer_destroy(o);

    /* a schedule that holds the rate at 0, which is not the optimizer's */
    assert_int_equal(accel_optimizer_create(NULL, &o), ACCEL_OK);
    assert_true(accel_optimizer_lr(o) == 1e-3);
    assert_int_equal(accel_schedule_create(o, ACCEL_SCHEDULE(.lr = 0), &s),
                     ACCEL_OK);
    assert_true(accel_optimizer_lr(o) == 0);
    assert_true(accel_schedule_value(ACCEL_SCHEDULE(.lr = 0), 3) == 0);
    assert_true(accel_schedule_value(ACCEL_SCHEDULE(), 3) == 1);
    accel_schedule_destroy(s);
    accel_optimizer_destroy(o);
}

/* Decay alone moves a parameter whose gradient is 0: by lr * decay of it. */
static void decay_is_that_of_pytorch_and_0_when_given(void **state)
{
    const struct {
        accel_optimizer_options_t options;
        float left; /* of 1 */
    } cases[] = {
        {O(), 0.99f},
        {O(.weight_decay = 0), 1},
        {O(.weight_decay = 0.5), 0.5f},
        {O(.kind = ACCEL_SGD), 1},
        {O(.kind = ACCEL_ADAM), 1},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        float p = 1, g = 0, m = 0, v = 0;
        accel_update_t u = {.master = &p,
                            .grad = &g,
                            .m = &m,
                            .v = &v,
                            .count = 1,
                            .grad_scale = 1};
        assert_int_equal(accel_optim_update(&cases[i].options, 1, 1, &u),
                         ACCEL_OK);
        assert_true(p == cases[i].left);
    }
}

/* What resumes ask: did the program say it, or is it the library's? */
static void it_is_known_what_was_given(void **state)
{
    accel_optimizer_t *o;
    accel_schedule_t *s;

    (void)state;
    assert_int_equal(accel_optimizer_create(ACCEL_OPTIMIZER(.lr = 1e-3), &o),
                     ACCEL_OK);
    assert_int_equal(accel_schedule_create(o, ACCEL_SCHEDULE(.total = 9), &s),
                     ACCEL_OK);
    assert_true(ax_optimizer_given(o)->lr == 1e-3);
    assert_true(ax_is_default(ax_optimizer_given(o)->beta1));
    assert_true(ax_is_default(ax_schedule_given(s)->lr));
    assert_int_equal(ax_schedule_given(s)->total, 9);
    accel_schedule_destroy(s);
    accel_optimizer_destroy(o);
}

/* The sample that a shuffled epoch begins with. */
static uint64_t first_of(accel_dataset_t *d, const accel_loader_options_t *o)
{
    accel_loader_t *l;
    accel_batch_t b;
    uint64_t first;

    assert_int_equal(accel_loader_create(d, o, &l), ACCEL_OK);
    ax_loader_set_default_seed(l, 3);
    assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
    first = b.index[0];
    accel_loader_destroy(l);
    return first;
}

static void a_loader_takes_every_seed(void **state)
{
    static const float x[1000];
    const accel_field_t field = {"x", ACCEL_F32, 1};
    accel_dataset_t *d;

    (void)state;
    assert_int_equal(
        accel_dataset_from_memory(&field, (const void *[]){x}, 1, 1000, &d),
        ACCEL_OK);
    assert_int_equal(
        first_of(d, ACCEL_LOADER(.batch_size = 1, .shuffle = true)),
        accel_shuffle(3, 0, 1000, 0));
    assert_int_equal(
        first_of(d, ACCEL_LOADER(.batch_size = 1, .shuffle = true, .seed = 0)),
        accel_shuffle(0, 0, 1000, 0));
    assert_int_equal(first_of(d, ACCEL_LOADER(.batch_size = 1, .shuffle = true,
                                              .seed = UINT64_MAX)),
                     accel_shuffle(UINT64_MAX, 0, 1000, 0));
    accel_dataset_destroy(d);
}

/* Every call a line, into descriptor 0. */
static void progress_takes_0_for_interval_and_descriptor(void **state)
{
    accel_progress_t *p;
    char text[4096];
    int ends[2], keep = dup(0);
    size_t lines = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], 0), 0);
    assert_int_equal(
        accel_progress_create(NULL, ACCEL_PROGRESS(.interval = 0, .fd = 0), &p),
        ACCEL_OK);
    for (int i = 0; i < 3; i++)
        accel_progress_add(p, 1);
    accel_progress_destroy(p);
    dup2(keep, 0);
    close(keep);
    close(ends[1]);
    ssize_t got = read(ends[0], text, sizeof text);
    for (ssize_t i = 0; i < got; i++)
        lines += text[i] == '\n';
    assert_true(lines >= 3);
    close(ends[0]);

    assert_int_equal(accel_progress_create(NULL, ACCEL_PROGRESS(.fd = -1), &p),
                     ACCEL_ERR_ARG);
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mark_is_no_number_that_arithmetic_gives),
        cmocka_unit_test(what_others_do_not_know_is_left_to_the_library),
        cmocka_unit_test(what_is_made_inside_lives_as_long),
        cmocka_unit_test(an_optimizer_takes_the_ends),
        cmocka_unit_test(a_scaler_takes_the_ends),
        cmocka_unit_test(a_schedule_takes_the_ends),
        cmocka_unit_test(a_loader_takes_the_ends),
        cmocka_unit_test(beta_0_forgets_all),
        cmocka_unit_test(rate_0_moves_nothing),
        cmocka_unit_test(decay_is_that_of_pytorch_and_0_when_given),
        cmocka_unit_test(it_is_known_what_was_given),
        cmocka_unit_test(a_loader_takes_every_seed),
        cmocka_unit_test(progress_takes_0_for_interval_and_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
