/* step: a program whose optimizer is its own. */
#include "unit/train_rig.h"

#include <signal.h>
#include <unistd.h>

typedef struct own {
    accel_t *accel;
    accel_model_t *model;
    accel_param_t *w;
} own_t;

static void open_own(own_t *o, const char *spec)
{
    *o = (own_t){0};
    shut_out_environment();
    OK(accel_open(ACCEL_OPTIONS(.spec = spec), &o->accel));
    OK(accel_model_create(o->accel, &o->model));
    OK(accel_model_add(o->model, ACCEL_PARAM(.name = "w"), &o->w));
    OK(accel_prepare(o->accel, ACCEL_PREPARE(.model = o->model)));
}

static void close_own(own_t *o)
{
    accel_model_destroy(o->model);
    accel_close(o->accel);
}

/* One pass with this true gradient, and SGD of rate 1 as a program has it.
 * Returns whether it was to update. */
static bool train_own(own_t *o, float gradient)
{
    bool update;

    accel_param_grad(o->w)[0] += gradient * accel_backward_begin(o->accel);
    OK(accel_backward_end(o->accel));
    OK(accel_step(o->accel, &update));
    if (update) {
        accel_param_data(o->w)[0] -= accel_param_grad(o->w)[0];
        OK(accel_model_round(o->model));
    }
    if (accel_sync_gradients(o->accel))
        accel_param_grad(o->w)[0] = 0;
    return update;
}

static void it_does_what_the_librarys_does(void **state)
{
    static const char *const specs[] = {"no,accumulate=2,clip=0.5",
                                        "fp16,accumulate=3", "bf16,clip=2",
                                        "fp16,clip=0.25"};
    static const float gradients[] = {0.5F, -0.25F, 2, 1, -4, 0.125F};

    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(specs); s++) {
        float want, got;
        uint64_t steps;
        rig_t rig;
        own_t o;

        rig_open(&rig, &(rig_options_t){.spec = specs[s]});
        for (size_t i = 0; i < ARRAY_SIZE(gradients); i++)
            rig_train(&rig, gradients[i]);
        want = rig_weight(&rig);
        steps = accel_steps(rig.accel);
        rig_close(&rig);

        open_own(&o, specs[s]);
        for (size_t i = 0; i < ARRAY_SIZE(gradients); i++)
            train_own(&o, gradients[i]);
        got = accel_param_data(o.w)[0];
        assert_true(fabsf(got - want) < 1e-6F);
        assert_int_equal(accel_steps(o.accel), steps);
        close_own(&o);
    }
}

static void a_step_with_nan_is_skipped(void **state)
{
    own_t o;

    (void)state;
    open_own(&o, "fp16");
    assert_true(train_own(&o, 1));
    assert_false(train_own(&o, INFINITY));
    assert_true(accel_step_was_skipped(o.accel));
    assert_int_equal(accel_steps(o.accel), 2);
    assert_int_equal(accel_steps_skipped(o.accel), 1);
    assert_true(accel_loss_scale(o.accel) == 32768);
    assert_true(train_own(&o, 1));
    assert_false(accel_step_was_skipped(o.accel));
    assert_true(accel_param_data(o.w)[0] == -2);
    close_own(&o);
}

/* Whoever forgets to round computes with old weights: not silently. */
static void weights_of_before_are_noticed(void **state)
{
    own_t o;
    bool update;

    (void)state;
    open_own(&o, "bf16");
    accel_backward_begin(o.accel);
    accel_param_grad(o.w)[0] = 1;
    OK(accel_backward_end(o.accel));
    OK(accel_step(o.accel, &update));
    assert_true(update);
    accel_param_data(o.w)[0] = 0.5F;
    accel_backward_begin(o.accel);
    assert_int_equal(accel_backward_end(o.accel), ACCEL_ERR_STATE);
    assert_non_null(strstr(accel_last_error()->text, "accel_model_round()"));
    OK(accel_model_round(o.model));
    assert_int_equal(*(const uint16_t *)accel_param_compute(o.w), 0x3f00);
    accel_backward_begin(o.accel);
    OK(accel_backward_end(o.accel));
    close_own(&o);
}

static void it_can_be_stopped_and_saved(void **state)
{
    char dir[] = "/tmp/accel-test-XXXXXX", path[64];
    own_t o;

    (void)state;
    assert_non_null(mkdtemp(dir));
    open_own(&o, "no");
    accel_backward_begin(o.accel);
    accel_param_grad(o.w)[0] = 0;
    OK(accel_backward_end(o.accel));
    assert_int_equal(accel_save_state(o.accel, dir), ACCEL_ERR_STATE);
    assert_non_null(strstr(accel_last_error()->text, "accel_step()"));
    bool update;
    OK(accel_step(o.accel, &update));
    train_own(&o, 1);
    assert_false(accel_should_stop(o.accel));
    assert_int_equal(raise(SIGTERM), 0);
    train_own(&o, 1);
    assert_true(accel_should_stop(o.accel));
    OK(accel_save_state(o.accel, dir));
    snprintf(path, sizeof path, "%s/step-00000003/manifest", dir);
    assert_int_equal(access(path, F_OK), 0);
    close_own(&o);

    open_own(&o, "no");
    OK(accel_load_state(o.accel, dir));
    assert_int_equal(accel_steps(o.accel), 3);
    assert_true(accel_param_data(o.w)[0] == -2);
    close_own(&o);
    snprintf(path, sizeof path, "rm -rf %s", dir);
    assert_int_equal(system(path), 0);
}

/* Ranks that only share a loop: it can be counted and stopped. */
static void a_model_is_not_needed(void **state)
{
    accel_t *accel;
    bool update;

    (void)state;
    shut_out_environment();
    OK(accel_open(NULL, &accel));
    for (int i = 0; i < 3; i++) {
        OK(accel_step(accel, &update));
        assert_true(update);
    }
    assert_int_equal(accel_steps(accel), 3);
    assert_int_equal(raise(SIGTERM), 0);
    OK(accel_step(accel, &update));
    assert_true(accel_should_stop(accel));
    accel_close(accel);
}

static void wrong_uses_are_refused(void **state)
{
    bool update = true;
    own_t o;
    rig_t rig;

    (void)state;
    open_own(&o, "no");
    train_own(&o, 1);
    assert_int_equal(accel_step(o.accel, &update), ACCEL_ERR_STATE);
    assert_false(update);
    close_own(&o);
    rig_open(&rig, &(rig_options_t){0});
    rig_backward(&rig, 1);
    assert_int_equal(accel_step(rig.accel, &update), ACCEL_ERR_STATE);
    assert_non_null(strstr(accel_last_error()->text, "accel_optimizer_step"));
    rig_close(&rig);

    accel_model_t *model;
    OK(accel_open(NULL, &o.accel));
    OK(accel_model_create(o.accel, &model));
    assert_int_equal(accel_model_round(model), ACCEL_ERR_STATE);
    accel_close(o.accel);
    assert_int_equal(accel_model_round(model), ACCEL_ERR_STATE);
    accel_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_does_what_the_librarys_does),
        cmocka_unit_test(a_step_with_nan_is_skipped),
        cmocka_unit_test(weights_of_before_are_noticed),
        cmocka_unit_test(it_can_be_stopped_and_saved),
        cmocka_unit_test(a_model_is_not_needed),
        cmocka_unit_test(wrong_uses_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
