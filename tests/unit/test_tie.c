/* model: tied weights are one parameter, and no two share memory otherwise. */
#include "unit/train_rig.h"

typedef struct tied {
    accel_t *accel;
    accel_model_t *model;
    accel_optimizer_t *optimizer;
    accel_param_t *embedding, *head, *bias;
    float own[2][6];
} tied_t;

/* A head that uses the embedding's weights, and a bias; in the library's
 * memory or in the program's. */
static void open_tied(tied_t *t, bool own)
{
    *t = (tied_t){0};
    shut_out_environment();
    OK(accel_open(NULL, &t->accel));
    OK(accel_model_create(t->accel, &t->model));
    OK(accel_model_add(t->model,
                       ACCEL_PARAM(.name = "embedding", .ndim = 2,
                                   .shape = {2, 3},
                                   .data = own ? t->own[0] : NULL,
                                   .grad = own ? t->own[1] : NULL),
                       &t->embedding));
    OK(accel_model_add(t->model, ACCEL_PARAM(.name = "bias"), &t->bias));
    OK(accel_model_add(t->model,
                       ACCEL_PARAM(.name = "head", .tied_to = t->embedding),
                       &t->head));
    OK(accel_optimizer_create(ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1),
                              &t->optimizer));
    OK(accel_prepare(
        t->accel, ACCEL_PREPARE(.model = t->model, .optimizer = t->optimizer)));
}

static void close_tied(tied_t *t)
{
    accel_model_destroy(t->model);
    accel_close(t->accel);
    accel_optimizer_destroy(t->optimizer);
}

/* Both uses add their part; the update is one, and so is the norm. */
static void tied_weights_are_updated_once(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        tied_t t;
        double norm;

        open_tied(&t, own);
        assert_ptr_equal(t.head, t.embedding);
        assert_ptr_equal(accel_model_find(t.model, "head"), t.embedding);
        assert_int_equal(accel_model_count(t.model), 2);
        assert_string_equal(accel_param_name(t.head), "embedding");
        accel_param_data(t.embedding)[0] = 1;

        accel_backward_begin(t.accel);
        accel_param_grad(t.head)[0] += 0.25F;
        OK(accel_param_ready(t.head));
        accel_param_grad(t.embedding)[0] += 0.75F;
        OK(accel_param_ready(t.embedding));
        OK(accel_backward_end(t.accel));
        OK(accel_clip_grad_norm(t.accel, 100, &norm));
        assert_true(norm == 1);
        OK(accel_optimizer_step(t.optimizer));
        assert_true(accel_param_data(t.head)[0] == 0);
        OK(accel_optimizer_zero_grad(t.optimizer));
        assert_true(accel_param_grad(t.head)[0] == 0);
        close_tied(&t);
    }
}

static void a_checkpoint_has_them_once(void **state)
{
    char dir[] = "/tmp/accel-test-XXXXXX", path[64];
    accel_ckpt_part_t found;
    accel_ckpt_t *ckpt;
    tied_t t;

    (void)state;
    assert_non_null(mkdtemp(dir));
    open_tied(&t, true);
    t.own[0][5] = 7;
    OK(accel_save_state(t.accel, dir));
    t.own[0][5] = 8;
    OK(accel_load_state(t.accel, dir));
    assert_true(t.own[0][5] == 7);
    OK(accel_ckpt_open(accel_get_comm(t.accel), dir, &ckpt));
    OK(accel_ckpt_find(ckpt, "model/embedding", &found));
    assert_int_equal(found.ndim, 2);
    assert_int_equal(accel_ckpt_find(ckpt, "model/head", &found),
                     ACCEL_ERR_NOTFOUND);
    accel_ckpt_close(ckpt);
    close_tied(&t);
    snprintf(path, sizeof path, "rm -rf %s", dir);
    assert_int_equal(system(path), 0);
}

/* ---- memory in common -----------------------------------------------------
 */

/* Where two parameters of `count` elements have their arrays, in floats. */
static const struct {
    size_t count[2], data[2], grad[2];
    const char *text; /* NULL: it is fine */
} places[] = {
    {{4, 4}, {0, 4}, {8, 12}, NULL}, /* side by side */
    {{4, 4}, {4, 0}, {12, 8}, NULL},
    {{4, 4}, {0, 0}, {8, 8}, "16 bytes"}, /* tied, and not said so */
    {{4, 4}, {0, 4}, {8, 8}, "grad of a and grad of b have 16 bytes"},
    {{4, 4}, {0, 3}, {8, 12}, "data of a and data of b have 4 bytes"},
    {{4, 4}, {3, 0}, {8, 12}, "data of b and data of a have 4 bytes"},
    {{9, 1}, {0, 4}, {10, 20}, "data of a and data of b have 4 bytes"},
    {{4, 4}, {0, 10}, {8, 20}, "grad of a and data of b have 8 bytes"},
    {{4, 1}, {0, 20}, {2, 22}, "data of a and grad of a have 8 bytes"},
};

static void common_memory_is_refused_with_both_names(void **state)
{
    static float memory[32];
    static const char *const names[] = {"a", "b"};

    (void)state;
    shut_out_environment();
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        accel_t *accel;
        accel_model_t *model;
        OK(accel_open(NULL, &accel));
        OK(accel_model_create(accel, &model));
        for (int k = 0; k < 2; k++)
            OK(accel_model_add(model,
                               ACCEL_PARAM(.name = names[k], .ndim = 1,
                                           .shape = {places[i].count[k]},
                                           .data = memory + places[i].data[k],
                                           .grad = memory + places[i].grad[k]),
                               NULL));
        accel_status_t st = accel_prepare(accel, ACCEL_PREPARE(.model = model));
        if (st != (places[i].text ? ACCEL_ERR_ARG : ACCEL_OK) ||
            (places[i].text &&
             !strstr(accel_last_error()->text, places[i].text)))
            fail_msg("case %zu: %s: %s", i, accel_status_name(st),
                     accel_last_error()->text);
        accel_model_destroy(model);
        accel_close(accel);
    }
}

static void wrong_ties_are_refused(void **state)
{
    accel_model_t *other;
    accel_param_t *p = NULL;
    float x[6], y[6];
    tied_t t;

    (void)state;
    shut_out_environment();
    OK(accel_open(NULL, &t.accel));
    OK(accel_model_create(t.accel, &t.model));
    OK(accel_model_create(t.accel, &other));
    OK(accel_model_add(t.model,
                       ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {6},
                                   .data = t.own[0], .grad = t.own[1]),
                       &t.embedding));
    const accel_param_options_t wrong[] = {
        *ACCEL_PARAM(.name = "w", .tied_to = t.embedding),
        *ACCEL_PARAM(.name = "a/b", .tied_to = t.embedding),
        *ACCEL_PARAM(.name = "v", .ndim = 1, .shape = {5},
                     .tied_to = t.embedding),
        *ACCEL_PARAM(.name = "v", .ndim = 2, .shape = {2, 3},
                     .tied_to = t.embedding),
        *ACCEL_PARAM(.name = "v", .data = x, .grad = y, .tied_to = t.embedding),
    };
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        assert_int_equal(accel_model_add(t.model, &wrong[i], &p),
                         ACCEL_ERR_ARG);
        assert_null(p);
    }
    assert_int_equal(
        accel_model_add(other, ACCEL_PARAM(.name = "v", .tied_to = t.embedding),
                        NULL),
        ACCEL_ERR_ARG);
    OK(accel_model_add(t.model,
                       ACCEL_PARAM(.name = "v", .ndim = 1, .shape = {6},
                                   .data = t.own[0], .grad = t.own[1],
                                   .tied_to = t.embedding),
                       NULL));
    assert_int_equal(accel_model_add(t.model, ACCEL_PARAM(.name = "v"), NULL),
                     ACCEL_ERR_ARG);
    OK(accel_model_build(t.model));
    assert_int_equal(
        accel_model_add(t.model,
                        ACCEL_PARAM(.name = "u", .tied_to = t.embedding), NULL),
        ACCEL_ERR_STATE);
    accel_model_destroy(other);
    accel_model_destroy(t.model);
    accel_close(t.accel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tied_weights_are_updated_once),
        cmocka_unit_test(a_checkpoint_has_them_once),
        cmocka_unit_test(common_memory_is_refused_with_both_names),
        cmocka_unit_test(wrong_ties_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
