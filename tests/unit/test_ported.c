/* train: what makes the port of a program short. */
#include "unit/train_rig.h"

enum { TENSORS = 3 };

static const char *const names[TENSORS] = {"wte", "ln.weight", "bias"};
static const size_t sizes[TENSORS] = {6, 3, 1};

static void open_model(accel_t **accel, accel_model_t **model)
{
    shut_out_environment();
    OK(accel_open(NULL, accel));
    OK(accel_model_create(*accel, model));
}

/* ---- one block ------------------------------------------------------------
 */

static void a_block_is_added_in_one_call(void **state)
{
    static const uint64_t shapes[TENSORS][ACCEL_MAX_DIMS] = {{2, 3}, {3}, {0}};
    float data[10] = {0}, grad[10] = {0};
    accel_optimizer_t *optimizer;
    accel_param_t *params[TENSORS];
    accel_model_t *model;
    accel_t *accel;

    (void)state;
    for (int shaped = 0; shaped < 3; shaped++) {
        open_model(&accel, &model);
        OK(accel_model_add_block(
            model,
            ACCEL_BLOCK(.data = data, .grad = grad, .count = TENSORS,
                        .names = names, .elements = shaped < 2 ? sizes : NULL,
                        .shapes = shaped ? shapes : NULL),
            shaped ? params : NULL));
        OK(accel_optimizer_create(ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1),
                                  &optimizer));
        OK(accel_prepare(accel,
                         ACCEL_PREPARE(.model = model, .optimizer = optimizer,
                                       .take = true)));
        for (size_t i = 0, at = 0; i < TENSORS; at += sizes[i++]) {
            accel_param_t *p = accel_model_at(model, i);
            assert_string_equal(accel_param_name(p), names[i]);
            assert_int_equal(accel_param_elements(p), sizes[i]);
            assert_ptr_equal(accel_param_data(p), data + at);
            assert_ptr_equal(accel_param_grad(p), grad + at);
            if (shaped)
                assert_ptr_equal(params[i], p);
        }
        accel_backward_begin(accel);
        for (int i = 0; i < 10; i++)
            grad[i] = (float)i;
        OK(accel_backward_end(accel));
        OK(accel_optimizer_step(optimizer));
        for (int i = 0; i < 10; i++) {
            assert_true(data[i] == (float)-i);
            data[i] = 0;
        }
        accel_close(accel);
    }
}

/* All or none: after each refusal the same names can be added. */
static void wrong_blocks_leave_nothing(void **state)
{
    static const char *const twice[TENSORS] = {"a", "b", "a"};
    static const size_t empty[TENSORS] = {6, 3, 0};
    static const uint64_t shapes[TENSORS][ACCEL_MAX_DIMS] = {{2, 3}, {4}, {0}};
    float data[10], grad[10];
    accel_param_t *params[TENSORS] = {(accel_param_t *)data};
    accel_model_t *model;
    accel_t *accel;

    (void)state;
    open_model(&accel, &model);
    const accel_block_options_t wrong[] = {
        *ACCEL_BLOCK(.grad = grad, .count = TENSORS, .names = names,
                     .elements = sizes),
        *ACCEL_BLOCK(.data = data, .count = TENSORS, .names = names,
                     .elements = sizes),
        *ACCEL_BLOCK(.data = data, .grad = grad, .names = names,
                     .elements = sizes),
        *ACCEL_BLOCK(.data = data, .grad = grad, .count = TENSORS,
                     .elements = sizes),
        *ACCEL_BLOCK(.data = data, .grad = grad, .count = TENSORS,
                     .names = names),
        *ACCEL_BLOCK(.data = data, .grad = grad, .count = TENSORS,
                     .names = twice, .elements = sizes),
        *ACCEL_BLOCK(.data = data, .grad = grad, .count = TENSORS,
                     .names = names, .elements = empty),
        *ACCEL_BLOCK(.data = data, .grad = grad, .count = TENSORS,
                     .names = names, .elements = sizes, .shapes = shapes),
    };
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        assert_int_equal(accel_model_add_block(model, &wrong[i], params),
                         ACCEL_ERR_ARG);
        assert_int_equal(accel_model_count(model), 0);
    }
    assert_null(params[0]);
    assert_non_null(strstr(accel_last_error()->text, "ln.weight"));
    OK(accel_model_add_block(model,
                             ACCEL_BLOCK(.data = data, .grad = grad,
                                         .count = TENSORS, .names = names,
                                         .elements = sizes),
                             params));
    accel_model_destroy(model);
    accel_close(accel);
}

/* ---- objects that are given away ------------------------------------------
 */

typedef struct given {
    accel_t *accel;
    accel_model_t *model;
    accel_optimizer_t *optimizer;
    accel_schedule_t *schedule;
    accel_dataset_t *dataset;
    accel_loader_t *train, *test;
} given_t;

static const float values[8];

static void open_given(given_t *g)
{
    const accel_field_t field = {"x", ACCEL_F32, 1};

    open_model(&g->accel, &g->model);
    OK(accel_model_add(g->model, ACCEL_PARAM(.name = "w"), NULL));
    OK(accel_optimizer_create(NULL, &g->optimizer));
    OK(accel_schedule_create(g->optimizer, NULL, &g->schedule));
    OK(accel_dataset_from_memory(&field, (const void *[]){values}, 1, 8,
                                 &g->dataset));
    OK(accel_loader_create(g->dataset, ACCEL_LOADER(.batch_size = 2),
                           &g->train));
    OK(accel_loader_create(
        g->dataset, ACCEL_LOADER(.batch_size = 2, .threads = 2), &g->test));
    OK(accel_prepare(g->accel,
                     ACCEL_PREPARE(.model = g->model, .optimizer = g->optimizer,
                                   .loader = g->train, .schedule = g->schedule,
                                   .take = true)));
    OK(accel_prepare(g->accel, ACCEL_PREPARE(.loader = g->test, .take = true)));
}

/* What is left, or destroyed twice, the sanitizers and malloc() find. */
static void closing_destroys_what_was_given(void **state)
{
    accel_batch_t batch;
    given_t g;

    (void)state;
    open_given(&g);
    OK(accel_loader_next(g.test, &batch));
    accel_close(g.accel);

    open_given(&g); /* the program's own order is still possible */
    accel_loader_destroy(g.train);
    accel_schedule_destroy(g.schedule);
    accel_optimizer_destroy(g.optimizer);
    accel_model_destroy(g.model);
    accel_close(g.accel);
}

/* A prepare that fails takes nothing. */
static void a_failure_takes_nothing(void **state)
{
    accel_optimizer_t *other;
    given_t g;

    (void)state;
    open_given(&g);
    OK(accel_optimizer_create(NULL, &other));
    assert_int_equal(
        accel_prepare(g.accel, ACCEL_PREPARE(.optimizer = other, .take = true)),
        ACCEL_ERR_UNSUPPORTED);
    accel_close(g.accel);
    assert_int_equal(accel_optimizer_steps(other), 0);
    accel_optimizer_destroy(other);
}

/* ---- state that is memory -------------------------------------------------
 */

static void bytes_are_kept_as_they_are(void **state)
{
    char dir[] = "/tmp/accel-test-XXXXXX", path[64];
    double moments[50], other[51];
    uint64_t place = 41;
    rig_t rig;

    (void)state;
    assert_non_null(mkdtemp(dir));
    rig_open(&rig, &(rig_options_t){0});
    OK(accel_register_bytes(rig.accel, "moments", moments, sizeof moments));
    OK(accel_register_bytes(rig.accel, "place", &place, sizeof place));
    assert_int_equal(accel_register_bytes(rig.accel, "place", &place, 1),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_register_bytes(rig.accel, "a/b", &place, 1),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_register_bytes(rig.accel, "none", NULL, 1),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_register_bytes(rig.accel, "none", &place, 0),
                     ACCEL_ERR_ARG);
    for (int i = 0; i < 50; i++)
        moments[i] = i;
    OK(accel_save_state(rig.accel, dir));
    memset(moments, 0, sizeof moments);
    place = 0;
    OK(accel_load_state(rig.accel, dir));
    assert_true(moments[49] == 49);
    assert_int_equal(place, 41);
    rig_close(&rig);

    rig_open(&rig,
             &(rig_options_t){0}); /* another length: nothing is changed */
    OK(accel_register_bytes(rig.accel, "moments", other, sizeof other));
    OK(accel_register_bytes(rig.accel, "place", &place, sizeof place));
    place = 7;
    assert_int_equal(accel_load_state(rig.accel, dir), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text,
                           "moments was saved with 400 bytes; this program "
                           "registered 408"));
    assert_int_equal(place, 7);
    rig_close(&rig);
    snprintf(path, sizeof path, "rm -rf %s", dir);
    assert_int_equal(system(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_added_in_one_call),
        cmocka_unit_test(wrong_blocks_leave_nothing),
        cmocka_unit_test(closing_destroys_what_was_given),
        cmocka_unit_test(a_failure_takes_nothing),
        cmocka_unit_test(bytes_are_kept_as_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
