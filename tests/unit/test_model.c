/* model and prepare: names, shapes, memory, and who outlives whom. */
#include "unit/train_rig.h"

static accel_t *open_accel(const char *spec)
{
    accel_t *accel;

    shut_out_environment();
    OK(accel_open(ACCEL_OPTIONS(.spec = spec), &accel));
    return accel;
}

/* ---- adding -------------------------------------------------------------- */

static const struct {
    const char *name;
    int ndim;
    uint64_t shape[ACCEL_MAX_DIMS];
    accel_status_t want;
    uint64_t elements;
} add_cases[] = {
    {"a", 0, {0}, ACCEL_OK, 1},
    {"fc1.weight-2_X", 2, {3, 5}, ACCEL_OK, 15},
    {"b", 8, {1, 2, 1, 2, 1, 2, 1, 2}, ACCEL_OK, 16},
    {"a", 1, {3}, ACCEL_ERR_ARG, 0}, /* again */
    {"", 1, {3}, ACCEL_ERR_ARG, 0},
    {NULL, 1, {3}, ACCEL_ERR_ARG, 0},
    {"a/b", 1, {3}, ACCEL_ERR_ARG, 0},
    {"..", 1, {3}, ACCEL_ERR_ARG, 0},
    {"sp ace", 1, {3}, ACCEL_ERR_ARG, 0},
    {"zero", 2, {3, 0}, ACCEL_ERR_ARG, 0},
    {"nine", 9, {1}, ACCEL_ERR_ARG, 0},
    {"minus", -1, {1}, ACCEL_ERR_ARG, 0},
    {"huge", 2, {UINT64_MAX, UINT64_MAX}, ACCEL_ERR_ARG, 0},
    {"wraps", 2, {(uint64_t)1 << 32, (uint64_t)1 << 32}, ACCEL_ERR_ARG, 0},
    {"large", 1, {(uint64_t)1 << 62}, ACCEL_ERR_ARG, 0},
};

static void names_and_shapes_are_checked(void **state)
{
    accel_t *accel = open_accel(NULL);
    accel_model_t *model;
    size_t good = 0;

    (void)state;
    OK(accel_model_create(accel, &model));
    for (size_t i = 0; i < ARRAY_SIZE(add_cases); i++) {
        accel_param_t *p = (accel_param_t *)model;
        accel_param_options_t o = {ACCEL_PARAM_DEFAULTS,
                                   .name = add_cases[i].name,
                                   .ndim = add_cases[i].ndim};
        memcpy(o.shape, add_cases[i].shape, sizeof o.shape);
        assert_int_equal(accel_model_add(model, &o, &p), add_cases[i].want);
        if (add_cases[i].want != ACCEL_OK) {
            assert_null(p);
            continue;
        }
        assert_int_equal(accel_param_elements(p), add_cases[i].elements);
        assert_string_equal(accel_param_name(p), add_cases[i].name);
        assert_null(accel_param_data(p));
        assert_null(accel_param_grad(p));
        assert_null(accel_param_compute(p));
        assert_ptr_equal(accel_model_at(model, good++), p);
        assert_ptr_equal(accel_model_find(model, add_cases[i].name), p);
    }
    assert_int_equal(accel_model_count(model), good);
    assert_null(accel_model_at(model, good));
    assert_null(accel_model_find(model, "nobody"));
    assert_null(accel_model_find(model, NULL));
    accel_model_destroy(model);
    accel_close(accel);
}

static void names_may_have_199_bytes(void **state)
{
    accel_t *accel = open_accel(NULL);
    accel_model_t *model;
    char name[256];

    (void)state;
    memset(name, 'n', sizeof name);
    OK(accel_model_create(accel, &model));
    name[200] = '\0';
    assert_int_equal(accel_model_add(model, ACCEL_PARAM(.name = name), NULL),
                     ACCEL_ERR_ARG);
    name[199] = '\0';
    OK(accel_model_add(model, ACCEL_PARAM(.name = name), NULL));
    accel_model_destroy(model);
    accel_close(accel);
}

static void many_parameters_keep_their_order(void **state)
{
    accel_t *accel = open_accel(NULL);
    accel_model_t *model;
    char name[32];

    (void)state;
    OK(accel_model_create(accel, &model));
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "layer%d", i);
        OK(accel_model_add(
            model, ACCEL_PARAM(.name = name, .ndim = 1, .shape = {2}), NULL));
    }
    OK(accel_model_build(model));
    for (int i = 0; i < 3000; i++)
        accel_param_data(accel_model_at(model, (size_t)i))[1] = (float)i;
    snprintf(name, sizeof name, "layer%d", 2718);
    assert_true(accel_param_data(accel_model_find(model, name))[1] == 2718);
    accel_model_destroy(model);
    accel_close(accel);
}

/* ---- memory -------------------------------------------------------------- */

static void memory_is_laid_out_backwards(void **state)
{
    static const uint64_t counts[] = {1, 64, 65, 1000};
    accel_t *accel = open_accel("bf16");
    accel_model_t *model;
    accel_param_t *p[4];
    char name[2] = "a";

    (void)state;
    OK(accel_model_create(accel, &model));
    for (size_t i = 0; i < 4; i++, name[0]++)
        OK(accel_model_add(
            model, ACCEL_PARAM(.name = name, .ndim = 1, .shape = {counts[i]}),
            &p[i]));
    OK(accel_model_build(model));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal((uintptr_t)accel_param_data(p[i]) % 256, 0);
        assert_int_equal((uintptr_t)accel_param_grad(p[i]) % 256, 0);
        assert_int_equal((uintptr_t)accel_param_compute(p[i]) % 128, 0);
        for (uint64_t k = 0; k < counts[i]; k++) {
            assert_true(accel_param_data(p[i])[k] == 0);
            assert_true(accel_param_grad(p[i])[k] == 0);
        }
    }
    assert_true(accel_param_grad(p[3]) + 1024 == accel_param_grad(p[2]));
    assert_true(accel_param_grad(p[2]) + 128 == accel_param_grad(p[1]));
    assert_true(accel_param_grad(p[1]) + 64 == accel_param_grad(p[0]));
    accel_model_destroy(model);
    accel_close(accel);
}

static void full_precision_computes_on_the_master(void **state)
{
    static const char *const specs[] = {"no", "fp32", "fp16", "bf16"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
        rig_t rig;
        rig_open(&rig, &(rig_options_t){.spec = specs[i]});
        bool same = accel_param_compute(rig.w) == accel_param_data(rig.w);
        assert_int_equal(same, i < 2);
        assert_int_equal(accel_compute_dtype(rig.accel) == ACCEL_F32, i < 2);
        rig_close(&rig);
    }
}

static void the_compute_copy_is_rounded(void **state)
{
    static const struct {
        const char *spec;
        uint16_t one_third; /* rounded */
    } cases[] = {{"fp16", 0x3555}, {"bf16", 0x3eab}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        accel_t *accel = open_accel(cases[i].spec);
        accel_model_t *model;
        accel_param_t *p;
        OK(accel_model_create(accel, &model));
        OK(accel_model_add(model, ACCEL_PARAM(.name = "p"), &p));
        OK(accel_model_build(model));
        accel_param_data(p)[0] = 1.0F / 3;
        OK(accel_prepare(accel, ACCEL_PREPARE(.model = model)));
        assert_int_equal(*(const uint16_t *)accel_param_compute(p),
                         cases[i].one_third);
        assert_true(accel_param_data(p)[0] == 1.0F / 3);
        accel_model_destroy(model);
        accel_close(accel);
    }
}

/* A program with buffers of its own: they are trained where they are. */
static void memory_of_the_program_is_used(void **state)
{
    static const char *const specs[] = {"no", "fp16,wire=bf16"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
        accel_t *accel = open_accel(specs[i]);
        accel_model_t *model;
        accel_optimizer_t *opt;
        accel_param_t *p, *q;
        float data[5] = {1, 2, 3, 4, 5}, grad[5] = {9, 9, 9, 9, 9};

        OK(accel_model_create(accel, &model));
        OK(accel_model_add(model,
                           ACCEL_PARAM(.name = "mine", .ndim = 1, .shape = {5},
                                       .data = data, .grad = grad),
                           &p));
        OK(accel_model_add(model, ACCEL_PARAM(.name = "theirs"), &q));
        OK(accel_optimizer_create(ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 0.5),
                                  &opt));
        OK(accel_prepare(accel,
                         ACCEL_PREPARE(.model = model, .optimizer = opt)));
        assert_ptr_equal(accel_param_data(p), data);
        assert_ptr_equal(accel_param_grad(p), grad);
        assert_true(grad[4] == 0); /* zeroed by building */
        assert_true(data[4] == 5); /* initial weights are not */
        float scale = accel_backward_begin(accel);
        for (int k = 0; k < 5; k++)
            grad[k] += 2 * scale;
        accel_param_grad(q)[0] += 2 * scale;
        OK(accel_backward_end(accel));
        OK(accel_optimizer_step(opt));
        OK(accel_optimizer_zero_grad(opt));
        for (int k = 0; k < 5; k++) {
            assert_true(data[k] == (float)k); /* 1 less */
            assert_true(grad[k] == 0);
        }
        assert_true(accel_param_data(q)[0] == -1);
        accel_model_destroy(model);
        accel_close(accel);
        accel_optimizer_destroy(opt);
    }
}

static void data_and_grad_come_together(void **state)
{
    accel_t *accel = open_accel(NULL);
    accel_model_t *model;
    float a[2], b[2];
    char *odd = (char *)a + 1;

    (void)state;
    OK(accel_model_create(accel, &model));
    assert_int_equal(
        accel_model_add(model, ACCEL_PARAM(.name = "p", .data = a), NULL),
        ACCEL_ERR_ARG);
    assert_int_equal(
        accel_model_add(model, ACCEL_PARAM(.name = "p", .grad = a), NULL),
        ACCEL_ERR_ARG);
    assert_int_equal(
        accel_model_add(model, ACCEL_PARAM(.name = "p", .data = a, .grad = a),
                        NULL),
        ACCEL_ERR_ARG);
    assert_int_equal(accel_model_add(model,
                                     ACCEL_PARAM(.name = "p", .data = b,
                                                 .grad = (void *)odd),
                                     NULL),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_model_build(model), ACCEL_ERR_STATE); /* empty */
    accel_model_destroy(model);
    accel_close(accel);
}

static void a_built_model_is_closed(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){0});
    assert_int_equal(accel_model_build(rig.model), ACCEL_ERR_STATE);
    assert_int_equal(
        accel_model_add(rig.model, ACCEL_PARAM(.name = "late"), NULL),
        ACCEL_ERR_STATE);
    rig_close(&rig);
}

/* ---- prepare ------------------------------------------------------------- */

static void preparing_again_changes_nothing(void **state)
{
    rig_t rig;
    accel_batch_t batch;

    (void)state;
    rig_open(&rig, &(rig_options_t){.samples = 4,
                                    .schedule = ACCEL_SCHEDULE(.warmup = 2)});
    OK(accel_loader_next(rig.loader, &batch));
    rig_train(&rig, 1);
    float weight = rig_weight(&rig);
    OK(accel_prepare(rig.accel, ACCEL_PREPARE(.model = rig.model,
                                              .optimizer = rig.optimizer,
                                              .loader = rig.loader,
                                              .schedule = rig.schedule)));
    assert_true(rig_weight(&rig) == weight);
    assert_int_equal(accel_optimizer_steps(rig.optimizer), 1);
    OK(accel_loader_next(rig.loader, &batch));
    assert_int_equal(batch.number, 1); /* the epoch goes on */
    rig_close(&rig);
}

static void parts_may_come_in_several_calls(void **state)
{
    accel_t *accel = open_accel(NULL);
    accel_model_t *model;
    accel_optimizer_t *opt;
    accel_param_t *p;

    (void)state;
    OK(accel_model_create(accel, &model));
    OK(accel_model_add(model, ACCEL_PARAM(.name = "p"), &p));
    OK(accel_optimizer_create(ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1),
                              &opt));
    OK(accel_prepare(accel, NULL)); /* nothing is no error */
    OK(accel_prepare(accel, ACCEL_PREPARE(.model = model)));
    OK(accel_prepare(accel, ACCEL_PREPARE(.optimizer = opt)));
    accel_backward_begin(accel);
    accel_param_grad(p)[0] = 3;
    OK(accel_backward_end(accel));
    OK(accel_optimizer_step(opt));
    assert_true(accel_param_data(p)[0] == -3);
    accel_model_destroy(model);
    accel_close(accel);
    accel_optimizer_destroy(opt);
}

static void one_of_each_kind(void **state)
{
    rig_t rig;
    accel_model_t *model;
    accel_optimizer_t *opt;
    accel_schedule_t *schedule;

    (void)state;
    rig_open(&rig, &(rig_options_t){.schedule = ACCEL_SCHEDULE(.warmup = 2)});
    OK(accel_model_create(rig.accel, &model));
    OK(accel_model_add(model, ACCEL_PARAM(.name = "p"), NULL));
    OK(accel_optimizer_create(NULL, &opt));
    OK(accel_schedule_create(opt, NULL, &schedule));
    assert_int_equal(accel_prepare(rig.accel, ACCEL_PREPARE(.model = model)),
                     ACCEL_ERR_UNSUPPORTED);
    assert_int_equal(accel_prepare(rig.accel, ACCEL_PREPARE(.optimizer = opt)),
                     ACCEL_ERR_UNSUPPORTED);
    assert_int_equal(
        accel_prepare(rig.accel, ACCEL_PREPARE(.schedule = schedule)),
        ACCEL_ERR_UNSUPPORTED);
    accel_schedule_destroy(schedule);
    accel_optimizer_destroy(opt);
    accel_model_destroy(model);
    rig_close(&rig);
}

static void a_loader_without_batches_gives_none(void **state)
{
    rig_t rig;
    accel_loader_t *loader;
    accel_batch_t batch;

    (void)state;
    rig_open(&rig, &(rig_options_t){.samples = 3});
    OK(accel_loader_create(rig.dataset,
                           ACCEL_LOADER(.batch_size = 4, .drop_last = true),
                           &loader));
    OK(accel_prepare(rig.accel, ACCEL_PREPARE(.loader = loader)));
    assert_int_equal(accel_loader_length(loader), 0);
    assert_int_equal(accel_loader_next(loader, &batch), ACCEL_END);
    accel_loader_destroy(loader);
    rig_close(&rig);
}

static void bad_scaler_options_are_refused_in_all_precisions(void **state)
{
    static const char *const specs[] = {"no", "fp16"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
        accel_t *accel = open_accel(specs[i]);
        assert_int_equal(
            accel_prepare(accel,
                          ACCEL_PREPARE(.scaler = ACCEL_SCALER(.init = -1))),
            ACCEL_ERR_ARG);
        accel_close(accel);
    }
}

/* ---- who outlives whom --------------------------------------------------- */

static void objects_may_outlive_the_accelerator(void **state)
{
    rig_t rig;
    accel_batch_t batch;

    (void)state;
    rig_open(&rig, &(rig_options_t){.samples = 4,
                                    .schedule = ACCEL_SCHEDULE(.warmup = 2)});
    accel_close(rig.accel);
    rig.accel = NULL;
    assert_int_equal(accel_optimizer_step(rig.optimizer), ACCEL_ERR_STATE);
    assert_int_equal(accel_optimizer_zero_grad(rig.optimizer), ACCEL_ERR_STATE);
    assert_null(accel_param_data(rig.w));
    assert_int_equal(accel_model_build(rig.model), ACCEL_ERR_STATE);
    assert_int_equal(
        accel_model_add(rig.model, ACCEL_PARAM(.name = "late"), NULL),
        ACCEL_ERR_STATE);
    OK(accel_schedule_step(rig.schedule));
    OK(accel_loader_next(rig.loader, &batch));
    rig_close(&rig);
}

static void objects_may_go_before_the_accelerator(void **state)
{
    rig_t rig;
    accel_optimizer_t *opt;

    (void)state;
    rig_open(&rig, &(rig_options_t){.samples = 4,
                                    .schedule = ACCEL_SCHEDULE(.warmup = 2)});
    accel_schedule_destroy(rig.schedule);
    rig.schedule = NULL;
    accel_loader_destroy(rig.loader);
    rig.loader = NULL;
    accel_optimizer_destroy(rig.optimizer);
    rig_backward(&rig, 1); /* the model alone goes on */

    /* A new optimizer takes the place of the old one. */
    OK(accel_optimizer_create(ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1),
                              &opt));
    OK(accel_prepare(rig.accel, ACCEL_PREPARE(.optimizer = opt)));
    OK(accel_optimizer_step(opt));
    assert_true(rig_weight(&rig) == -1);
    rig.optimizer = opt;
    rig_close(&rig);
}

static void an_optimizer_without_its_model_stops(void **state)
{
    rig_t rig;
    accel_model_t *model;

    (void)state;
    rig_open(&rig, &(rig_options_t){0});
    accel_model_destroy(rig.model);
    rig.model = NULL;
    assert_int_equal(accel_optimizer_step(rig.optimizer), ACCEL_ERR_STATE);
    assert_int_equal(accel_save_state(rig.accel, "/nonexistent"),
                     ACCEL_ERR_STATE);

    /* Its slots are of the old model: another model needs another one. */
    OK(accel_model_create(rig.accel, &model));
    OK(accel_model_add(model, ACCEL_PARAM(.name = "p"), NULL));
    assert_int_equal(
        accel_prepare(rig.accel, ACCEL_PREPARE(.model = model,
                                               .optimizer = rig.optimizer)),
        ACCEL_ERR_STATE);
    rig.model = model;
    rig_close(&rig);
}

static void null_is_fine_to_destroy(void **state)
{
    accel_model_t *model;

    (void)state;
    accel_close(NULL);
    accel_model_destroy(NULL);
    assert_int_equal(accel_model_create(NULL, &model), ACCEL_ERR_ARG);
    assert_null(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_shapes_are_checked),
        cmocka_unit_test(names_may_have_199_bytes),
        cmocka_unit_test(many_parameters_keep_their_order),
        cmocka_unit_test(memory_is_laid_out_backwards),
        cmocka_unit_test(full_precision_computes_on_the_master),
        cmocka_unit_test(the_compute_copy_is_rounded),
        cmocka_unit_test(memory_of_the_program_is_used),
        cmocka_unit_test(data_and_grad_come_together),
        cmocka_unit_test(a_built_model_is_closed),
        cmocka_unit_test(preparing_again_changes_nothing),
        cmocka_unit_test(parts_may_come_in_several_calls),
        cmocka_unit_test(one_of_each_kind),
        cmocka_unit_test(a_loader_without_batches_gives_none),
        cmocka_unit_test(bad_scaler_options_are_refused_in_all_precisions),
        cmocka_unit_test(objects_may_outlive_the_accelerator),
        cmocka_unit_test(objects_may_go_before_the_accelerator),
        cmocka_unit_test(an_optimizer_without_its_model_stops),
        cmocka_unit_test(null_is_fine_to_destroy),
    };

    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
