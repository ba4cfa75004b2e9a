/*
 * The step on several ranks. mp_train CASE [SPEC]: the case named, with the
 * settings of SPEC. Rank 0 prints "ok CASE" or what the case is to show.
 */
#include "mp_rig.h"

#include <signal.h>
#include <sys/resource.h>

/* The moments of an optimizer come from here: the next call can be made to
 * fail. */
static bool no_moments;

void *aligned_alloc(size_t alignment, size_t bytes)
{
    void *memory = NULL;

    if (no_moments || posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    return memory;
}

/* ---- averages, groups, schedules ----------------------------------------- */

/* Ranks start apart; afterwards they have rank 0's weights, in all copies. */
static void case_weights(void)
{
    rig_t r = {0};
    float rank = (float)accel_rank(accel);

    OK(accel_model_create(accel, &r.model));
    OK(accel_model_add(r.model,
                       ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {FEATURES}),
                       &r.w));
    OK(accel_model_add(
        r.model,
        ACCEL_PARAM(.name = "b", .data = &r.own_b, .grad = &r.own_grad), &r.b));
    OK(accel_model_build(r.model));
    for (int f = 0; f < FEATURES; f++)
        accel_param_data(r.w)[f] = rank + (float)f / 3;
    r.own_b = 10 + rank;
    OK(accel_prepare(accel, ACCEL_PREPARE(.model = r.model)));
    for (int f = 0; f < FEATURES; f++)
        CHECK(accel_param_data(r.w)[f] == (float)f / 3);
    CHECK(r.own_b == 10);

    float compute[FEATURES];
    OK(accel_convert(compute, ACCEL_F32, accel_param_compute(r.w),
                     accel_compute_dtype(accel), FEATURES));
    CHECK(fabsf(compute[4] - 4.0F / 3) < 0.01F);
    accel_model_destroy(r.model);
}

/* The same global batch whatever the number of ranks: weights for comparison.
 */
static void case_equal(void)
{
    rig_t r;
    accel_batch_t batch;

    CHECK(12 % accel_size(accel) == 0);
    rig_open(&r, ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 0.2, .momentum = 0.9),
             (size_t)(12 / accel_size(accel)));
    for (int epoch = 0; epoch < 3; epoch++)
        while (accel_loader_next(r.loader, &batch) == ACCEL_OK) {
            rig_backward(&r, &batch);
            rig_step(&r);
            check_alike(&r);
        }
    print_weights(&r);
    rig_close(&r);
}

/* Groups end at 4, 8 and 10 on every rank; the short one divides by 2. The
 * gradient of rank r is r + 1: the average of all ranks moves the weight. */
static void case_groups(void)
{
    rig_t r;
    accel_batch_t batch;
    float want = 0, mean = (float)(accel_size(accel) + 1) / 2;
    int n = 0;

    OK(accel_set_accumulate(accel, 4));
    rig_open(&r, ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1), 0);
    accel_schedule_destroy(r.schedule);
    r.schedule = NULL;
    OK(accel_optimizer_set_lr(r.optimizer, 1));
    rig_data(&r, 1);
    accel_loader_destroy(r.loader);
    OK(accel_loader_create(
        r.dataset,
        ACCEL_LOADER(.batch_size = (size_t)(SAMPLES / (accel_size(accel) * 10)),
                     .drop_last = true),
        &r.loader));
    OK(accel_prepare(accel, ACCEL_PREPARE(.loader = r.loader)));
    while (n < 20) {
        if (accel_loader_next(r.loader, &batch) != ACCEL_OK)
            continue;
        n++;
        bool last = batch.last;
        accel_backward_begin(accel);
        accel_param_grad(r.w)[0] += (float)(accel_rank(accel) + 1);
        r.own_grad += 1;
        OK(accel_backward_end(accel));
        CHECK(accel_sync_gradients(accel) == (batch.number % 4 == 3 || last));
        if (accel_sync_gradients(accel))
            want -= mean;
        OK(accel_optimizer_step(r.optimizer));
        OK(accel_optimizer_zero_grad(r.optimizer));
        CHECK(accel_param_data(r.w)[0] == want);
        CHECK(r.own_b == -(float)accel_optimizer_steps(r.optimizer));
    }
    rig_close(&r);
}

/* 0.1, 0.2 ... 1, 1, 1 in every world, constant inside a group. */
static void case_schedule(void)
{
    rig_t r;

    rig_open(&r, ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1), 0);
    for (int update = 1; update <= 12; update++)
        for (int micro = 0; micro < accel_accumulate(accel); micro++) {
            double want = update < 10 ? update / 10.0 : 1.0;
            CHECK(fabs(accel_optimizer_lr(r.optimizer) - want) < 1e-12);
            accel_backward_begin(accel);
            OK(accel_backward_end(accel));
            rig_step(&r);
        }
    rig_close(&r);
}

/* ---- overflow, clipping, the wire ---------------------------------------- */

/* An infinity on one rank, in step 5 of 8: all skip that step and no other. */
static void case_overflow(void)
{
    rig_t r;
    accel_batch_t batch;
    int victim = accel_size(accel) > 2 ? 2 : accel_size(accel) - 1;

    rig_open(&r, NULL, 1);
    for (int step = 1; step <= 8; step++) {
        float before = accel_param_data(r.w)[1];
        OK(accel_loader_next(r.loader, &batch));
        if (step == 5 && accel_rank(accel) == victim)
            accel_param_grad(r.w)[3] = INFINITY;
        rig_backward(&r, &batch);
        rig_step(&r);
        check_alike(&r);
        CHECK(accel_step_was_skipped(accel) == (step == 5));
        CHECK((accel_param_data(r.w)[1] == before) == (step == 5));
        CHECK(accel_loss_scale(accel) == (step < 5 ? 65536 : 32768));
    }
    CHECK(accel_optimizer_steps(r.optimizer) == 7);
    CHECK(accel_steps_skipped(accel) == 1);
    CHECK(accel_schedule_steps(r.schedule) == 7);
    rig_close(&r);
}

/* NaN that only one rank has after the exchange is seen by all, too. */
static void case_late_nan(void)
{
    rig_t r;
    accel_batch_t batch;

    rig_open(&r, NULL, 1);
    OK(accel_loader_next(r.loader, &batch));
    rig_backward(&r, &batch);
    if (accel_is_last(accel))
        r.own_grad = NAN;
    OK(accel_optimizer_step(r.optimizer));
    CHECK(accel_step_was_skipped(accel));
    check_alike(&r);
    rig_close(&r);
}

/* One norm for all, that of the averaged gradient. */
static void case_clip(void)
{
    rig_t r;
    double norm, again;
    float share = (float)(accel_rank(accel) + 1);
    double mean = (accel_size(accel) + 1) / 2.0;

    rig_open(&r, ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1), 0);
    OK(accel_optimizer_set_lr(r.optimizer, 1));
    float scale = accel_backward_begin(accel);
    for (int f = 0; f < 3; f++)
        accel_param_grad(r.w)[f] += 2 * share * scale;
    r.own_grad += 2 * share * scale; /* four twos: norm 4 */
    OK(accel_backward_end(accel));
    OK(accel_clip_grad_norm(accel, 1, &norm));
    CHECK(fabs(norm - 4 * mean) < 1e-4);
    OK(accel_clip_grad_norm(accel, 1, &again));
    CHECK(fabs(again - 1) < 1e-5);
    OK(accel_optimizer_step(r.optimizer));
    CHECK(fabsf(r.own_b + 0.5F) < 1e-5F);
    check_alike(&r);
    rig_close(&r);
}

/* Many elements in small and in several buckets: sums that are exact. */
static void case_buckets(void)
{
    const uint64_t counts[] = {100, 7000001, 3, 1};
    accel_model_t *model;
    accel_param_t *p[4];
    char name[2] = "a";
    int size = accel_size(accel);

    OK(accel_model_create(accel, &model));
    for (int i = 0; i < 4; i++, name[0]++)
        OK(accel_model_add(
            model, ACCEL_PARAM(.name = name, .ndim = 1, .shape = {counts[i]}),
            &p[i]));
    OK(accel_prepare(accel, ACCEL_PREPARE(.model = model)));
    accel_backward_begin(accel);
    for (int i = 0; i < 4; i++)
        for (uint64_t k = 0; k < counts[i]; k++)
            accel_param_grad(p[i])[k] =
                (float)(2 * size * ((int)(k % 50) + i + accel_rank(accel)));
    OK(accel_backward_end(accel));
    for (int i = 0; i < 4; i++)
        for (uint64_t k = 0; k < counts[i]; k++) {
            int sum = 2 * size * ((int)(k % 50) + i) + size * (size - 1);
            CHECK(accel_param_grad(p[i])[k] == (float)sum);
        }
    accel_model_destroy(model);
}

/* A second model, larger than the first, in memory of the program. */
static void case_second_model(void)
{
    static float data[2][5000], grad[2][5000];

    for (int i = 0; i < 2; i++) {
        uint64_t count = i ? 5000 : 10;
        accel_model_t *model;
        OK(accel_model_create(accel, &model));
        OK(accel_model_add(model,
                           ACCEL_PARAM(.name = "p", .ndim = 1, .shape = {count},
                                       .data = data[i], .grad = grad[i]),
                           NULL));
        OK(accel_prepare(accel, ACCEL_PREPARE(.model = model)));
        accel_backward_begin(accel);
        for (uint64_t k = 0; k < count; k++)
            grad[i][k] = (float)(k % 7) + (float)(2 * accel_rank(accel));
        OK(accel_backward_end(accel));
        for (uint64_t k = 0; k < count; k++)
            CHECK(grad[i][k] == (float)(k % 7) + (float)accel_size(accel) - 1);
        accel_model_destroy(model);
    }
}

/* ---- the little things --------------------------------------------------- */

static void case_together(void)
{
    bool set;
    int32_t sum = accel_rank(accel) + 1;
    int size = accel_size(accel);

    OK(accel_check_trigger(accel, &set));
    CHECK(!set);
    if (accel_is_last(accel))
        accel_set_trigger(accel);
    OK(accel_check_trigger(accel, &set));
    CHECK(set);
    OK(accel_check_trigger(accel, &set));
    CHECK(!set);
    OK(accel_reduce(accel, &sum, 1, ACCEL_I32, ACCEL_SUM));
    CHECK(sum == size * (size + 1) / 2);
    OK(accel_main_first_begin(accel));
    printf("first %d\n", accel_rank(accel));
    fflush(stdout);
    OK(accel_main_first_end(accel));
    /* Wrong uses are the same on all ranks, and nobody is left waiting. */
    CHECK(accel_main_first_end(accel) == ACCEL_ERR_STATE);
    OK(accel_main_first_begin(accel));
    CHECK(accel_main_first_begin(accel) == ACCEL_ERR_STATE);
    CHECK(accel_main_first_end(accel) == ACCEL_ERR_STATE);
    OK(accel_wait_for_everyone(accel));
    OK(accel_wait_for_everyone(accel));
}

/* Each sample once, in the order of the epoch, whatever the sizes. */
static void case_metrics(void)
{
    static const size_t batches[] = {1, 4, 8, 50};

    for (size_t b = 0; b < 4; b++) {
        rig_t r = {0};
        accel_batch_t batch;
        uint64_t next = 0, *all;
        size_t n;
        rig_data(&r, 1);
        accel_loader_destroy(r.loader);
        OK(accel_loader_create(
            r.dataset, ACCEL_LOADER(.batch_size = batches[b]), &r.loader));
        OK(accel_prepare(accel, ACCEL_PREPARE(.loader = r.loader)));
        while (accel_loader_next(r.loader, &batch) == ACCEL_OK) {
            accel_rows_t mine = {batch.index, batch.count, 1, ACCEL_U64};
            OK(accel_gather_for_metrics(accel, r.loader, &mine, (void **)&all,
                                        &n));
            for (size_t i = 0; i < n; i++)
                CHECK(all[i] == next++);
            free(all);
        }
        CHECK(next == SAMPLES);
        rig_close(&r);
    }
}

/* The program's own SGD: in step 3 the last rank has a NaN, in step 5 it is
 * told to stop, and nobody sees another verdict than the others. */
static void case_own(void)
{
    accel_model_t *model;
    accel_param_t *w;
    float mine = (float)accel_rank(accel);
    int made = 0;

    OK(accel_model_create(accel, &model));
    OK(accel_model_add(model, ACCEL_PARAM(.name = "w"), &w));
    OK(accel_prepare(accel, ACCEL_PREPARE(.model = model)));
    for (int step = 1; !accel_should_stop(accel); step++) {
        bool bad = step == 3, update;
        float *g = accel_param_grad(w);
        CHECK(step <= 5);
        *g = accel_backward_begin(accel) * mine;
        if (bad && accel_is_last(accel))
            *g = NAN;
        OK(accel_backward_end(accel));
        if (step == 5 && accel_is_last(accel))
            raise(SIGTERM);
        OK(accel_step(accel, &update));
        CHECK(update == !bad && accel_step_was_skipped(accel) == bad);
        made += update;
        if (update)
            accel_param_data(w)[0] -= *g;
        OK(accel_model_round(model));
    }
    CHECK(accel_steps(accel) == 5 && made == 4);
    float want = -4 * (float)(accel_size(accel) - 1) / 2;
    CHECK(fabsf(accel_param_data(w)[0] - want) < 1e-3F);
    accel_model_destroy(model);

    bool update; /* without a model the steps go on */
    OK(accel_step(accel, &update));
    CHECK(update && accel_steps(accel) == 6 && accel_should_stop(accel));
}

/* ---- ranks that disagree ------------------------------------------------- */

/* A model of our own buffers, built, and an optimizer for it. */
static void open_large(rig_t *r, size_t elements, float *data, float *grad)
{
    *r = (rig_t){0};
    OK(accel_model_create(accel, &r->model));
    OK(accel_model_add(r->model,
                       ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {elements},
                                   .data = data, .grad = grad),
                       &r->w));
    OK(accel_model_build(r->model));
    OK(accel_optimizer_create(
        ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1, .momentum = 0.5),
        &r->optimizer));
    rig_data(r, 1);
}

/* A prepare that fails, for shared memory on all ranks or for memory of its own
 * on the last one, leaves nothing behind: the same objects are prepared later.
 */
static void case_no_memory(void)
{
    enum { ELEMENTS = 300000 };
    float *data = calloc(ELEMENTS, sizeof *data);
    float *grad = calloc(ELEMENTS, sizeof *grad);
    struct rlimit old, tight;
    rig_t r;

    CHECK(data && grad);
    open_large(&r, ELEMENTS, data, grad);
    accel_prepare_options_t all = {ACCEL_PREPARE_DEFAULTS, .model = r.model,
                                   .optimizer = r.optimizer,
                                   .loader = r.loader};

    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    tight = old;
    tight.rlim_cur = 4096; /* nothing that exists can grow */
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &tight) == 0);
    if (accel_size(accel) > 1) /* alone, none is needed */
        CHECK(accel_prepare(accel, &all) == ACCEL_ERR_NOMEM);
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);

    no_moments = accel_is_last(accel);
    CHECK(accel_prepare(accel, &all) == ACCEL_ERR_NOMEM);
    no_moments = false;
    CHECK(strstr(accel_last_error()->text, "moments of w"));

    accel_backward_begin(accel);
    CHECK(accel_backward_end(accel) == ACCEL_ERR_STATE);
    CHECK(accel_optimizer_step(r.optimizer) == ACCEL_ERR_STATE);

    OK(accel_prepare(accel, &all));
    accel_backward_begin(accel);
    for (size_t i = 0; i < ELEMENTS; i++)
        grad[i] = 1;
    OK(accel_backward_end(accel));
    OK(accel_optimizer_step(r.optimizer));
    CHECK(data[0] == -1 && data[ELEMENTS - 1] == -1);
    rig_close(&r);
    free(data);
    free(grad);
}

static void case_other_model(void)
{
    accel_model_t *model;
    bool odd = accel_is_last(accel);

    OK(accel_model_create(accel, &model));
    OK(accel_model_add(
        model, ACCEL_PARAM(.name = "same", .ndim = 1, .shape = {4}), NULL));
    OK(accel_model_add(
        model,
        ACCEL_PARAM(.name = "differs", .ndim = 2, .shape = {4, odd ? 3 : 2}),
        NULL));
    FAILS(accel_model_build(model), ACCEL_ERR_PROTO);
    CHECK(accel_param_data(accel_model_at(model, 0)) == NULL);
    accel_model_destroy(model);

    OK(accel_model_create(accel, &model));
    OK(accel_model_add(model, ACCEL_PARAM(.name = "same"), NULL));
    if (odd)
        OK(accel_model_add(model, ACCEL_PARAM(.name = "more"), NULL));
    FAILS(accel_model_build(model), ACCEL_ERR_PROTO);
    accel_model_destroy(model);
}

static void case_other_loader(void)
{
    rig_t r = {0};

    rig_data(&r, accel_is_last(accel) ? 3 : 2);
    FAILS(accel_prepare(accel, ACCEL_PREPARE(.loader = r.loader)),
          ACCEL_ERR_PROTO);
    accel_loader_destroy(r.loader);
    OK(accel_loader_create(
        r.dataset,
        ACCEL_LOADER(.batch_size = 2, .shuffle = true,
                     .seed = 7 + (uint64_t)accel_rank(accel)),
        &r.loader));
    FAILS(accel_prepare(accel, ACCEL_PREPARE(.loader = r.loader)),
          ACCEL_ERR_PROTO);
    rig_close(&r);
}

/* Rows for a loader that deals for one rank would be counted again. */
static void case_unprepared_loader(void)
{
    rig_t r = {0};
    accel_batch_t batch;
    void *out;
    size_t n;

    rig_data(&r, 2);
    OK(accel_loader_next(r.loader, &batch));
    accel_rows_t mine = {batch.index, batch.count, 1, ACCEL_U64};
    FAILS(accel_gather_for_metrics(accel, r.loader, &mine, &out, &n),
          ACCEL_ERR_STATE);
    rig_close(&r);
}

static void case_other_objects(void)
{
    rig_t r = {0};

    rig_data(&r, 2);
    FAILS(accel_prepare(
              accel,
              ACCEL_PREPARE(.loader = accel_is_last(accel) ? NULL : r.loader)),
          ACCEL_ERR_PROTO);
    rig_close(&r);
}

static void case_other_gradients(void)
{
    rig_t r;

    rig_open(&r, NULL, 0);
    accel_backward_begin(accel);
    r.own_grad = 1;
    OK(accel_backward_end(accel));
    if (accel_is_last(accel))
        r.own_grad = 2;
    FAILS(accel_optimizer_step(r.optimizer), ACCEL_ERR_PROTO);
    rig_close(&r);
}

/* The last rank does a group of one, the others of two. */
static void case_other_groups(void)
{
    rig_t r;

    rig_open(&r, NULL, 0);
    OK(accel_set_accumulate(accel, accel_is_last(accel) ? 1 : 2));
    for (int i = 0; i < accel_accumulate(accel); i++) {
        accel_backward_begin(accel);
        OK(accel_backward_end(accel));
    }
    FAILS(accel_optimizer_step(r.optimizer), ACCEL_ERR_PROTO);
    rig_close(&r);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"weights", case_weights},
    {"equal", case_equal},
    {"groups", case_groups},
    {"schedule", case_schedule},
    {"overflow", case_overflow},
    {"late_nan", case_late_nan},
    {"clip", case_clip},
    {"buckets", case_buckets},
    {"second_model", case_second_model},
    {"together", case_together},
    {"metrics", case_metrics},
    {"own", case_own},
    {"no_memory", case_no_memory},
    {"other_model", case_other_model},
    {"other_loader", case_other_loader},
    {"unprepared_loader", case_unprepared_loader},
    {"other_objects", case_other_objects},
    {"other_gradients", case_other_gradients},
    {"other_groups", case_other_groups},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        OK(accel_open(ACCEL_OPTIONS(.spec = argc > 2 ? argv[2] : NULL),
                      &accel));
        cases[i].run();
        accel_printf(accel, "ok %s, %d ranks on %d nodes\n", argv[1],
                     accel_size(accel), accel_nodes(accel));
        accel_close(accel);
        return 0;
    }
    fprintf(stderr, "mp_train: no case %s\n", argc > 1 ? argv[1] : "");
    return 2;
}
