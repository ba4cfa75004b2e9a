/* state: what is saved comes back, bit for bit; what does not fit is named. */
#include "unit/state_dir.h"

#include <fcntl.h>

/* ---- a run that depends on everything ------------------------------------ */

#define STEPS 14 /* of 5 batches an epoch, two a step: the tail is short */

static accel_optimizer_options_t adamw = {ACCEL_OPTIMIZER_DEFAULTS, .lr = 0.1,
                                          .weight_decay = 0.01};
static accel_schedule_options_t cosine = {
    ACCEL_SCHEDULE_DEFAULTS, .kind = ACCEL_COSINE, .warmup = 3, .total = 20};
static accel_scaler_options_t scaler = {ACCEL_SCALER_DEFAULTS, .init = 65536,
                                        .interval = 3};

static rig_options_t whole(const char *spec)
{
    return (rig_options_t){.spec = spec,
                           .elements = 7,
                           .samples = 10,
                           .batch = 2,
                           .optimizer = &adamw,
                           .schedule = &cosine,
                           .scaler = &scaler};
}

/* Gradients from the data, the weights and the random numbers; one overflow. */
static void pass(rig_t *rig, const accel_batch_t *batch)
{
    const float *x = batch->data[0];
    float *grad = accel_param_grad(rig->w);
    const float *w = accel_param_data(rig->w);
    float scale = accel_backward_begin(rig->accel);

    for (int i = 0; i < 7; i++)
        grad[i] += scale * (0.1F * x[0] - 0.03F * x[1] + w[i] +
                            accel_rng_uniform(accel_get_rng(rig->accel)));
    if (accel_steps(rig->accel) == 4)
        grad[3] = INFINITY;
    OK(accel_backward_end(rig->accel));
    OK(accel_optimizer_step(rig->optimizer));
    OK(accel_schedule_step(rig->schedule));
    OK(accel_optimizer_zero_grad(rig->optimizer));
}

static void train_until(rig_t *rig, uint64_t steps)
{
    accel_batch_t batch;

    while (accel_steps(rig->accel) < steps) {
        accel_status_t st = accel_loader_next(rig->loader, &batch);
        if (st == ACCEL_OK)
            pass(rig, &batch);
        else
            assert_int_equal(st, ACCEL_END);
    }
}

typedef struct end {
    float w[7];
    double lr;
    double scale;
    uint64_t updates;
    uint64_t skipped;
    uint32_t random;
    uint64_t epoch;
} end_t;

static end_t end_of(rig_t *rig)
{
    end_t e;

    memset(&e, 0, sizeof e); /* it is compared byte by byte */
    memcpy(e.w, accel_param_data(rig->w), sizeof e.w);
    e.lr = accel_optimizer_lr(rig->optimizer);
    e.scale = accel_loss_scale(rig->accel);
    e.updates = accel_optimizer_steps(rig->optimizer);
    e.skipped = accel_steps_skipped(rig->accel);
    e.random = accel_rng_u32(accel_get_rng(rig->accel));
    e.epoch = accel_loader_epoch(rig->loader);
    return e;
}

/* Broken off after each step in turn and taken up by a new process. */
static void resuming_anywhere_changes_no_bit(void **state)
{
    static const char *const specs[] = {
        "fp16,accumulate=2,seed=3",
        "bf16,accumulate=1,seed=4",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
        rig_options_t o = whole(specs[i]);
        rig_t rig;
        end_t through, resumed;
        rig_open(&rig, &o);
        train_until(&rig, STEPS);
        through = end_of(&rig);
        rig_close(&rig);
        assert_int_equal(through.skipped, 1);
        assert_true(through.epoch >= 2);

        for (uint64_t at = 0; at < STEPS; at++) {
            char sub[96];
            snprintf(sub, sizeof sub, "%s/%zu-%d", dir, i, (int)at);
            rig_open(&rig, &o);
            train_until(&rig, at);
            OK(accel_save_state(rig.accel, sub));
            rig_close(&rig);
            rig_open(&rig, &o);
            OK(accel_load_state(rig.accel, sub));
            assert_int_equal(accel_steps(rig.accel), at);
            train_until(&rig, STEPS);
            resumed = end_of(&rig);
            assert_memory_equal(&through, &resumed, sizeof through);
            rig_close(&rig);
        }
    }
}

/* Saving changes nothing in the run that saves. */
static void saving_leaves_the_run_alone(void **state)
{
    rig_options_t o = whole("fp16,seed=3");
    rig_t rig;
    end_t quiet, saving;

    (void)state;
    rig_open(&rig, &o);
    train_until(&rig, STEPS);
    quiet = end_of(&rig);
    rig_close(&rig);
    rig_open(&rig, &o);
    for (uint64_t at = 1; at <= STEPS; at++) {
        train_until(&rig, at);
        OK(accel_save_state(rig.accel, dir));
    }
    saving = end_of(&rig);
    assert_memory_equal(&quiet, &saving, sizeof quiet);

    /* And one process may go back in its own history. */
    OK(accel_load_state(rig.accel, dir));
    assert_int_equal(accel_steps(rig.accel), STEPS);
    char path[96];
    snprintf(path, sizeof path, "%s/step-00000003", dir);
    OK(accel_load_state(rig.accel, path));
    assert_int_equal(accel_steps(rig.accel), 3);
    train_until(&rig, STEPS);
    saving = end_of(&rig);
    assert_memory_equal(&quiet, &saving, sizeof quiet);
    rig_close(&rig);
}

static void the_setting_names_the_directory(void **state)
{
    char spec[128];
    rig_t rig;

    (void)state;
    snprintf(spec, sizeof spec, "checkpoint=%s/set,resume=auto", dir);
    rig_open(&rig, &(rig_options_t){.spec = spec});
    assert_int_equal(accel_load_state(rig.accel, NULL), ACCEL_ERR_NOTFOUND);
    rig_train(&rig, 1);
    OK(accel_save_state(rig.accel, NULL));
    OK(accel_save_state(rig.accel, NULL)); /* twice at one step is no error */
    rig_close(&rig);

    rig_open(&rig, &(rig_options_t){.spec = spec});
    OK(accel_load_state(rig.accel, NULL));
    assert_true(rig_weight(&rig) == -1);
    OK(accel_save_state(rig.accel, NULL)); /* nor right after loading */
    rig_close(&rig);

    /* Without resume the same command would be lost at its first save. */
    snprintf(spec, sizeof spec, "checkpoint=%s/set", dir);
    rig_open(&rig, &(rig_options_t){.spec = spec});
    assert_int_equal(accel_load_state(rig.accel, NULL), ACCEL_ERR_STATE);
    assert_non_null(strstr(accel_last_error()->text, "holds step-00000001"));
    assert_non_null(strstr(accel_last_error()->text, "resume=auto"));
    assert_non_null(strstr(accel_last_error()->text, "checkpoint="));
    rig_train(&rig, 1);
    assert_int_equal(accel_save_state(rig.accel, NULL), ACCEL_ERR_STATE);
    assert_non_null(strstr(accel_last_error()->text, "resume=auto"));
    assert_non_null(strstr(accel_last_error()->text, "checkpoint="));
    rig_close(&rig);

    /* Where there is none it finds nothing, and says why. */
    snprintf(spec, sizeof spec, "checkpoint=%s/none", dir);
    rig_open(&rig, &(rig_options_t){.spec = spec});
    assert_int_equal(accel_load_state(rig.accel, NULL), ACCEL_ERR_NOTFOUND);
    assert_non_null(strstr(accel_last_error()->text, "resume"));
    rig_close(&rig);

    /* A checkpoint that was asked for by name must be there. */
    snprintf(spec, sizeof spec, "resume=%s/absent", dir);
    rig_open(&rig, &(rig_options_t){.spec = spec});
    assert_int_equal(accel_load_state(rig.accel, NULL), ACCEL_ERR_ARG);
    assert_int_equal(accel_load_state(rig.accel, "/nonexistent"),
                     ACCEL_ERR_NOTFOUND);
    rig_close(&rig);
    snprintf(spec, sizeof spec, "resume=%s/set/step-00000001", dir);
    rig_open(&rig, &(rig_options_t){.spec = spec});
    OK(accel_load_state(rig.accel, NULL));
    assert_true(rig_weight(&rig) == -1);
    rig_close(&rig);
}

/* By whatever name it goes: the same is not saved twice, and what is gone or
 * lies elsewhere is. */
static void what_is_saved_is_known_by_what_it_is(void **state)
{
    char path[160], copy[128];
    rig_t rig;

    (void)state;
    snprintf(path, sizeof path, "%s/", dir);
    rig_open(&rig, &(rig_options_t){0});
    rig_train(&rig, 1);
    OK(accel_save_state(rig.accel, dir));
    OK(accel_save_state(rig.accel, path));
    snprintf(path, sizeof path, "%s/.//", dir);
    OK(accel_save_state(rig.accel, path));
    OK(accel_load_state(rig.accel, path));
    snprintf(path, sizeof path, "%s/step-00000001/", dir);
    OK(accel_load_state(rig.accel, path));
    OK(accel_save_state(rig.accel, dir));

    /* Loaded under another name: the directory holds no step 1 any more. */
    snprintf(copy, sizeof copy, "%s/best", dir);
    assert_int_equal(rename(path, copy), 0);
    OK(accel_load_state(rig.accel, copy));
    OK(accel_save_state(rig.accel, dir));
    assert_int_equal(access(path, F_OK), 0);
    OK(accel_save_state(rig.accel, dir));

    /* Another's, though of the same step. */
    assert_int_equal(rename(path, strcat(copy, "-2")), 0);
    rig_close(&rig);
    rig_open(&rig, &(rig_options_t){0});
    rig_train(&rig, 1);
    OK(accel_save_state(rig.accel, dir));
    OK(accel_load_state(rig.accel, copy));
    assert_int_equal(accel_save_state(rig.accel, dir), ACCEL_ERR_STATE);
    rig_close(&rig);
}

static void a_step_that_others_saved_is_refused(void **state)
{
    rig_t rig;

    (void)state;
    for (int run = 0; run < 2; run++) {
        rig_open(&rig, &(rig_options_t){0});
        rig_train(&rig, 1);
        assert_int_equal(accel_save_state(rig.accel, dir),
                         run ? ACCEL_ERR_STATE : ACCEL_OK);
        rig_close(&rig);
    }
}

static void groups_are_not_broken(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "accumulate=2"});
    rig_train(&rig, 1);
    assert_int_equal(accel_save_state(rig.accel, dir), ACCEL_ERR_STATE);
    assert_non_null(strstr(accel_last_error()->text, "1 of 2"));
    assert_int_equal(accel_load_state(rig.accel, dir), ACCEL_ERR_STATE);
    rig_backward(&rig, 1);
    assert_int_equal(accel_save_state(rig.accel, dir), ACCEL_ERR_STATE);
    OK(accel_optimizer_step(rig.optimizer));
    OK(accel_save_state(rig.accel, dir));
    rig_close(&rig);
}

/* ---- another program ----------------------------------------------------- */

static void save_one(const rig_options_t *o)
{
    accel_batch_t batch;
    rig_t rig;

    rig_open(&rig, o);
    if (rig.loader)
        OK(accel_loader_next(rig.loader, &batch));
    rig_train(&rig, 1);
    OK(accel_save_state(rig.accel, dir));
    rig_close(&rig);
}

/* All that a load changes. */
typedef struct sum {
    accel_loader_state_t place;
    accel_rng_t rng;
    double scale;
    double lr;
    uint64_t steps;
    float w;
} sum_t;

static sum_t sum_of(const rig_t *rig)
{
    sum_t sum;

    memset(&sum, 0, sizeof sum);
    if (rig->loader)
        accel_loader_get_state(rig->loader, &sum.place);
    sum.rng = *accel_get_rng(rig->accel);
    sum.scale = accel_loss_scale(rig->accel);
    sum.lr = accel_optimizer_lr(rig->optimizer);
    sum.steps = accel_steps(rig->accel);
    sum.w = rig_weight(rig);
    return sum;
}

static void refuses(const rig_options_t *o, accel_status_t want,
                    const char *text)
{
    rig_t rig;

    rig_open(&rig, o);
    sum_t before = sum_of(&rig);
    assert_int_equal(accel_load_state(rig.accel, dir), want);
    assert_non_null(strstr(accel_last_error()->text, text));
    sum_t after = sum_of(&rig);
    assert_memory_equal(&before, &after, sizeof before);
    rig_close(&rig);
}

static void another_model_is_refused(void **state)
{
    rig_t rig;

    (void)state;
    save_one(&(rig_options_t){.elements = 3});
    refuses(&(rig_options_t){.elements = 4}, ACCEL_ERR_ARG, "model/w");
    assert_int_equal(remove_dir(NULL), 0);
    save_one(&(rig_options_t){.elements = 3,
                              .samples = 4,
                              .schedule = ACCEL_SCHEDULE(.warmup = 2),
                              .scaler = ACCEL_SCALER(.init = 4096),
                              .spec = "fp16"});
    refuses(&(rig_options_t){.elements = 4,
                             .samples = 4,
                             .schedule = ACCEL_SCHEDULE(.warmup = 2),
                             .spec = "fp16"},
            ACCEL_ERR_ARG, "model/w");

    shut_out_environment();
    rig = (rig_t){0};
    OK(accel_open(NULL, &rig.accel));
    OK(accel_model_create(rig.accel, &rig.model));
    OK(accel_model_add(
        rig.model, ACCEL_PARAM(.name = "v", .ndim = 1, .shape = {3}), NULL));
    OK(accel_prepare(rig.accel, ACCEL_PREPARE(.model = rig.model)));
    assert_int_equal(accel_load_state(rig.accel, dir), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "has no model/v"));
    rig_close(&rig);
}

static void more_parameters_than_ours_are_refused(void **state)
{
    rig_t rig = {0};

    (void)state;
    shut_out_environment();
    OK(accel_open(NULL, &rig.accel));
    OK(accel_model_create(rig.accel, &rig.model));
    OK(accel_model_add(rig.model, ACCEL_PARAM(.name = "w"), NULL));
    OK(accel_model_add(rig.model, ACCEL_PARAM(.name = "x"), NULL));
    OK(accel_prepare(rig.accel, ACCEL_PREPARE(.model = rig.model)));
    OK(accel_save_state(rig.accel, dir));
    rig_close(&rig);
    refuses(&(rig_options_t){.optimizer = ACCEL_OPTIMIZER(.kind = ACCEL_SGD)},
            ACCEL_ERR_ARG, "train/lr");
    rig = (rig_t){0};
    OK(accel_open(NULL, &rig.accel));
    OK(accel_model_create(rig.accel, &rig.model));
    OK(accel_model_add(rig.model, ACCEL_PARAM(.name = "w"), NULL));
    OK(accel_prepare(rig.accel, ACCEL_PREPARE(.model = rig.model)));
    assert_int_equal(accel_load_state(rig.accel, dir), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "holds model/x"));
    rig_close(&rig);
}

static void another_optimizer_or_schedule_is_refused(void **state)
{
    (void)state;
    save_one(&(rig_options_t){.schedule = ACCEL_SCHEDULE(.warmup = 2)});
    refuses(&(rig_options_t){.optimizer = ACCEL_OPTIMIZER(.lr = 1),
                             .schedule = ACCEL_SCHEDULE(.warmup = 2)},
            ACCEL_ERR_ARG, "optimizer/m/w");
    refuses(&(rig_options_t){0}, ACCEL_ERR_ARG, "schedule");
}

static void other_loaders_are_refused(void **state)
{
    (void)state;
    save_one(&(rig_options_t){.samples = 4});
    refuses(&(rig_options_t){.samples = 5}, ACCEL_ERR_PROTO, "dataset");
}

/* Its place in the data would be lost. */
static void a_loader_that_is_not_prepared_yet_is_missed(void **state)
{
    (void)state;
    save_one(&(rig_options_t){.samples = 4});
    refuses(&(rig_options_t){0}, ACCEL_ERR_ARG, "loader/0");
}

/* A program with an optimizer of its own may prepare it after the load. */
static void a_loader_prepared_later_gets_its_place(void **state)
{
    accel_loader_state_t at;
    rig_t rig;

    (void)state;
    save_one(&(rig_options_t){.samples = 4});
    for (size_t samples = 4; samples <= 5; samples++) {
        rig = (rig_t){0};
        OK(accel_open(NULL, &rig.accel));
        OK(accel_model_create(rig.accel, &rig.model));
        OK(accel_model_add(rig.model,
                           ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {1}),
                           &rig.w));
        OK(accel_prepare(rig.accel, ACCEL_PREPARE(.model = rig.model)));
        OK(accel_load_state(rig.accel, dir));
        rig_loader(&rig, &(rig_options_t){.samples = samples});
        OK(accel_prepare(rig.accel, ACCEL_PREPARE(.loader = rig.loader)));
        accel_loader_get_state(rig.loader, &at);
        assert_int_equal(at.samples, samples == 4 ? 1 : 0); /* other data */
        rig_close(&rig);
    }
}

/* Each is something that no save writes. */
static void impossible_counters_are_damage(void **state)
{
    /* format, steps, skipped, row, updates, moves, schedule, accumulate */
    static const uint64_t bad[][8] = {
        {1, 4, 0, 0, 0, 0, 0, 1}, /* the manifest says 3 */
        {1, 3, 4, 0, 0, 0, 0, 1},
        {1, 3, 1, 2, 0, 0, 0, 1},
        {1, 3, 0, 0, 0, 0, 2, 1},
        {1, 3, 0, 0, 0, 0, 0, 0},
        {1, 3, 0, 0, 0, 0, 0, UINT64_C(1) << 31},
    };
    accel_ckpt_part_t parts[] = {
        {.name = "model/w", .dtype = ACCEL_F32, .ndim = 1, .shape = {1}},
        {.name = "train/counters", .dtype = ACCEL_U64, .ndim = 1, .shape = {8}},
        {.name = "train/rng", .dtype = ACCEL_U64, .ndim = 2, .shape = {1, 3}},
    };
    float w = 7;
    uint64_t rng[3] = {0}, good[8] = {1, 3, 1, 1, 0, 0, 0, 1};
    char path[96];
    rig_t rig = {0};

    (void)state;
    shut_out_environment();
    OK(accel_open(NULL, &rig.accel));
    OK(accel_model_create(rig.accel, &rig.model));
    OK(accel_model_add(
        rig.model, ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {1}), &rig.w));
    OK(accel_prepare(rig.accel, ACCEL_PREPARE(.model = rig.model)));
    parts[0].data = &w;
    parts[2].data = rng;
    parts[0].count = 1;
    parts[1].count = 8;
    parts[2].count = 3;
    for (size_t i = 0; i <= ARRAY_SIZE(bad); i++) {
        bool fine = i == ARRAY_SIZE(bad);
        uint64_t counters[8];
        memcpy(counters, fine ? good : bad[i], sizeof counters);
        parts[1].data = counters;
        snprintf(path, sizeof path, "%s/%zu", dir, i);
        OK(accel_ckpt_save(accel_get_comm(rig.accel), path, 3, parts,
                           ARRAY_SIZE(parts), NULL));
        assert_int_equal(accel_load_state(rig.accel, path),
                         fine ? ACCEL_OK : ACCEL_ERR_CORRUPT);
        if (!fine)
            assert_non_null(strstr(accel_last_error()->text, "impossible"));
        assert_true(rig_weight(&rig) == (fine ? 7 : 0));
    }
    rig_close(&rig);
}

/* Standard error of a load, in a file meanwhile. */
static const char *said_by_load(rig_t *rig)
{
    static char text[2048];
    char path[96];
    int before = dup(2);

    snprintf(path, sizeof path, "%s/said", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && before >= 0);
    dup2(fd, 2);
    accel_status_t st = accel_load_state(rig->accel, dir);
    dup2(before, 2);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(before);
    close(fd);
    OK(st);
    return text;
}

static void expect_said(const char *said, const char *part)
{
    if (!strstr(said, part))
        fail_msg("want \"%s\" in \"%s\"", part, said);
}

static void a_resume_says_one_line(void **state)
{
    rig_options_t o = {.samples = 4};
    rig_t rig;

    (void)state;
    save_one(&o);
    rig_open(&rig, &o);
    const char *said = said_by_load(&rig);
    expect_said(said, "note: going on from ");
    expect_said(said, "/step-00000001: after step 1, in epoch ");
    expect_said(said, "saved by 1 rank\n");
    assert_ptr_equal(strchr(said, '\n'), strrchr(said, '\n'));
    rig_close(&rig);

    o.spec = "log=error";
    rig_open(&rig, &o);
    assert_string_equal(said_by_load(&rig), "");
    rig_close(&rig);
}

/* What the program says now counts, not what it said when it saved. */
static void a_new_rate_counts(void **state)
{
    rig_options_t o = {.optimizer = ACCEL_OPTIMIZER(.lr = 0.5)};
    rig_t rig;

    (void)state;
    save_one(&o);
    o.optimizer = ACCEL_OPTIMIZER(.lr = 0.25);
    rig_open(&rig, &o);
    expect_said(said_by_load(&rig), "rate was 0.5, here 0.25\n");
    assert_true(accel_optimizer_lr(rig.optimizer) == 0.25);
    rig_close(&rig);

    /* Nothing said: as it was. */
    accel_optimizer_options_t silent = *ACCEL_OPTIMIZER(.lr = 0.5);
    silent.lr = ACCEL_DEFAULT;
    o.optimizer = &silent;
    rig_open(&rig, &o);
    expect_said(said_by_load(&rig), "here 0.001, the former counts\n");
    assert_true(accel_optimizer_lr(rig.optimizer) == 0.5);
    rig_close(&rig);
}

/* From the first step on, not from the second. */
static void a_new_schedule_counts_at_once(void **state)
{
    rig_options_t o = {.optimizer = ACCEL_OPTIMIZER(.lr = 1),
                       .schedule =
                           ACCEL_SCHEDULE(.kind = ACCEL_LINEAR, .total = 10)};
    rig_t rig;

    (void)state;
    save_one(&o);
    rig_open(&rig, &o); /* the same: to the bit, also what was set by hand */
    const char *said = said_by_load(&rig);
    assert_null(strstr(said, "was"));
    double before = accel_optimizer_lr(rig.optimizer);
    uint64_t done = accel_schedule_steps(rig.schedule);
    rig_close(&rig);

    o.schedule = ACCEL_SCHEDULE(.kind = ACCEL_LINEAR, .total = 100);
    rig_open(&rig, &o);
    expect_said(said_by_load(&rig), "total was 10, here 100");
    assert_true(
        accel_optimizer_lr(rig.optimizer) ==
        accel_schedule_value(
            ACCEL_SCHEDULE(.kind = ACCEL_LINEAR, .total = 100, .lr = 1), done));
    assert_true(done == 0 || accel_optimizer_lr(rig.optimizer) != before);
    rig_close(&rig);
}

/* To evaluate, the model alone is enough. */
static void a_model_alone_can_be_loaded(void **state)
{
    rig_t rig = {0};

    (void)state;
    save_one(&(rig_options_t){.samples = 4,
                              .optimizer = ACCEL_OPTIMIZER(.lr = 1),
                              .schedule = ACCEL_SCHEDULE(.warmup = 1),
                              .spec = "fp16"});
    shut_out_environment();
    OK(accel_open(NULL, &rig.accel));
    OK(accel_model_create(rig.accel, &rig.model));
    OK(accel_model_add(
        rig.model, ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {1}), &rig.w));
    OK(accel_prepare(rig.accel, ACCEL_PREPARE(.model = rig.model)));
    OK(accel_load_state(rig.accel, dir));
    assert_true(fabsf(rig_weight(&rig) + 1) < 1e-3F);
    rig_close(&rig);
}

/* As above, when the program had an optimizer and has no more. */
static void a_schedule_without_its_optimizer_is_left_alone(void **state)
{
    rig_options_t o = {.schedule = ACCEL_SCHEDULE(.warmup = 2)};
    rig_t rig;

    (void)state;
    save_one(&o);
    rig_open(&rig, &o);
    accel_optimizer_destroy(rig.optimizer);
    rig.optimizer = NULL;
    OK(accel_load_state(rig.accel, dir));
    assert_true(rig_weight(&rig) == -0.5F);
    assert_int_equal(accel_schedule_steps(rig.schedule), 0);
    rig_close(&rig);
}

/* The compute copy follows the weights that were loaded. */
static void the_precision_may_change(void **state)
{
    rig_t rig;

    (void)state;
    save_one(&(rig_options_t){.spec = "fp16"});
    rig_open(&rig, &(rig_options_t){.spec = "bf16"});
    OK(accel_load_state(rig.accel, dir));
    assert_int_equal(*(const uint16_t *)accel_param_compute(rig.w), 0xbf80);
    rig_close(&rig);
    rig_open(&rig, &(rig_options_t){.spec = "fp16"});
    OK(accel_load_state(rig.accel, dir));
    assert_true(accel_loss_scale(rig.accel) == 65536);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(resuming_anywhere_changes_no_bit),
        IN_DIR(saving_leaves_the_run_alone),
        IN_DIR(the_setting_names_the_directory),
        IN_DIR(what_is_saved_is_known_by_what_it_is),
        IN_DIR(a_step_that_others_saved_is_refused),
        IN_DIR(groups_are_not_broken),
        IN_DIR(another_model_is_refused),
        IN_DIR(more_parameters_than_ours_are_refused),
        IN_DIR(another_optimizer_or_schedule_is_refused),
        IN_DIR(other_loaders_are_refused),
        IN_DIR(a_loader_that_is_not_prepared_yet_is_missed),
        IN_DIR(a_loader_prepared_later_gets_its_place),
        IN_DIR(impossible_counters_are_damage),
        IN_DIR(a_resume_says_one_line),
        IN_DIR(a_new_rate_counts),
        IN_DIR(a_new_schedule_counts_at_once),
        IN_DIR(a_model_alone_can_be_loaded),
        IN_DIR(a_schedule_without_its_optimizer_is_left_alone),
        IN_DIR(the_precision_may_change),
    };

    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
