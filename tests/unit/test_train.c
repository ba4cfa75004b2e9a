/* train: the step in a world of one: groups, clipping, scaling, skipping. */
#include "unit/train_rig.h"

/* ---- which backward pass ends a group ------------------------------------ */

static const struct {
    int accumulate;
    size_t batches;
    const char *sync[2]; /* one character a batch, of two epochs */
} sync_cases[] = {
    {4, 10, {"...x...x.x", "...x...x.x"}},
    {2, 5, {".x.xx", ".x.xx"}},
    {1, 3, {"xxx", "xxx"}},
    {4, 3, {"..x", "..x"}},
    {4, 4, {"...x", "...x"}},
    {3, 1, {"x", "x"}},
};

static void groups_end_with_the_epoch(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(sync_cases); i++) {
        rig_t rig;
        accel_batch_t batch;
        rig_open(&rig, &(rig_options_t){.samples = sync_cases[i].batches});
        OK(accel_set_accumulate(rig.accel, sync_cases[i].accumulate));
        for (int epoch = 0; epoch < 2; epoch++) {
            char got[16] = "";
            size_t n = 0;
            while (accel_loader_next(rig.loader, &batch) == ACCEL_OK) {
                rig_backward(&rig, 1);
                got[n++] = accel_sync_gradients(rig.accel) ? 'x' : '.';
            }
            assert_string_equal(got, sync_cases[i].sync[epoch]);
        }
        rig_close(&rig);
    }
}

static void without_a_loader_only_the_count_ends_a_group(void **state)
{
    rig_t rig;
    char got[16] = "";

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "accumulate=4"});
    assert_int_equal(accel_accumulate(rig.accel), 4);
    assert_true(accel_sync_gradients(rig.accel));
    for (int i = 0; i < 12; i++) {
        rig_backward(&rig, 1);
        got[i] = accel_sync_gradients(rig.accel) ? 'x' : '.';
    }
    assert_string_equal(got, "...x...x...x");
    rig_close(&rig);
}

/* A loop over a test set after each step, one that is left early, and one that
 * is left on its last batch: none ends a group of the training loader. Nor
 * does a batch of the test set between the last training batch and its
 * backward pass keep the group open. */
static void another_loader_ends_no_group(void **state)
{
    rig_t rig;
    accel_loader_t *test;
    accel_batch_t batch, t;
    char got[16] = "";
    size_t n = 0;

    (void)state;
    rig_open(&rig, &(rig_options_t){.samples = 10, .spec = "accumulate=4"});
    OK(accel_loader_create(rig.dataset, ACCEL_LOADER(.batch_size = 4), &test));
    OK(accel_prepare(rig.accel, ACCEL_PREPARE(.loader = test)));
    while (accel_loader_next(rig.loader, &batch) == ACCEL_OK) {
        if (n == 9) {
            accel_loader_set_epoch(test, 9);
            OK(accel_loader_next(test, &t));
        }
        rig_backward(&rig, 1);
        got[n++] = accel_sync_gradients(rig.accel) ? 'x' : '.';
        if (n == 2)
            while (accel_loader_next(test, &t) == ACCEL_OK)
                ;
        if (n == 5)
            OK(accel_loader_next(test, &t));
        if (n == 6)
            while (accel_loader_next(test, &t) == ACCEL_OK && !t.last)
                ;
    }
    assert_string_equal(got, "...x...x.x");
    accel_loader_destroy(test);
    rig_close(&rig);
}

/* Two loaders train in turn: a group is ended by the one that began it. */
static void a_group_keeps_its_loader(void **state)
{
    rig_t rig;
    accel_loader_t *other;
    accel_batch_t batch;
    char got[16] = "";
    size_t n = 0;

    (void)state;
    rig_open(&rig, &(rig_options_t){.samples = 6, .spec = "accumulate=4"});
    OK(accel_loader_create(rig.dataset, ACCEL_LOADER(.batch_size = 3), &other));
    OK(accel_prepare(
        rig.accel, ACCEL_PREPARE(.optimizer = rig.optimizer, .loader = other)));
    while (accel_loader_next(rig.loader, &batch) == ACCEL_OK) {
        rig_backward(&rig, 1);
        got[n++] = accel_sync_gradients(rig.accel) ? 'x' : '.';
        if (n == 1) /* the other one's epoch ends within the group */
            while (accel_loader_next(other, &batch) == ACCEL_OK && !batch.last)
                ;
    }
    accel_loader_set_epoch(other, 1);
    while (accel_loader_next(other, &batch) == ACCEL_OK) {
        rig_backward(&rig, 1);
        got[n++] = accel_sync_gradients(rig.accel) ? 'x' : '.';
    }
    assert_string_equal(got, "...x.x.x");
    accel_loader_destroy(other);
    rig_close(&rig);
}

static void a_destroyed_loader_is_forgotten(void **state)
{
    rig_t rig;
    accel_loader_t *test;
    accel_batch_t batch;

    (void)state;
    rig_open(&rig, &(rig_options_t){.samples = 3, .spec = "accumulate=2"});
    OK(accel_loader_create(rig.dataset, ACCEL_LOADER(.batch_size = 3), &test));
    OK(accel_prepare(rig.accel, ACCEL_PREPARE(.loader = test)));
    OK(accel_loader_next(test, &batch));
    accel_loader_destroy(test);
    rig_backward(&rig, 1);
    assert_false(accel_sync_gradients(rig.accel));
    rig_close(&rig);
}

/* 4 + 4 + 2 micro-batches: each step moves the weight by exactly the rate. */
static void short_groups_divide_by_what_they_have(void **state)
{
    rig_t rig;
    accel_batch_t batch;

    (void)state;
    rig_open(&rig, &(rig_options_t){.samples = 10, .spec = "accumulate=4"});
    for (int epoch = 0; epoch < 2; epoch++)
        while (accel_loader_next(rig.loader, &batch) == ACCEL_OK)
            rig_train(&rig, 1);
    assert_true(rig_weight(&rig) == -6);
    assert_int_equal(accel_optimizer_steps(rig.optimizer), 6);
    assert_int_equal(accel_steps(rig.accel), 6);
    rig_close(&rig);
}

/* y = 2x fitted by y = wx from w = 0: one step gives 2.04, with the batch in
 * one piece or in four. */
static void accumulation_equals_the_whole_batch(void **state)
{
    (void)state;
    for (int pieces = 1; pieces <= 4; pieces *= 2) {
        rig_t rig;
        int each = 8 / pieces;
        rig_open(&rig, &(rig_options_t){
                           .optimizer =
                               ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 0.02)});
        OK(accel_set_accumulate(rig.accel, pieces));
        for (int p = 0; p < pieces; p++) {
            float mean = 0;
            for (int x = p * each + 1; x <= (p + 1) * each; x++)
                mean += 2 * (0 - 2) * (float)(x * x) / (float)each;
            rig_train(&rig, mean);
        }
        assert_true(fabsf(rig_weight(&rig) - 2.04F) < 1e-5F);
        rig_close(&rig);
    }
}

/* One rank trains to the bits of a loop that knows no ranks: 50 samples in
 * batches of 12 end with one of 2. */
static void one_rank_is_the_plain_loop(void **state)
{
    enum { N = 50, B = 12, EPOCHS = 8 };
    const float lr = 1e-4F;
    float plain = 0;
    accel_status_t st;
    accel_batch_t batch;
    rig_t rig;

    (void)state;
    rig_open(&rig,
             &(rig_options_t){
                 .samples = N,
                 .batch = B,
                 .optimizer = ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = lr)});
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint64_t at = 0;
        while ((st = accel_loader_next(rig.loader, &batch)) == ACCEL_OK) {
            const float *x = batch.data[0];
            size_t count = at + B > N ? (size_t)(N - at) : B;
            float w = rig_weight(&rig), mine = 0, theirs = 0;
            assert_int_equal(batch.count, count);
            for (size_t i = 0; i < count; i++) {
                float p = (float)accel_shuffle(0, epoch, N, at + i);
                assert_true(x[i] == p);
                mine += 2 * (w - 3) * x[i] * x[i] / (float)count;
                theirs += 2 * (plain - 3) * p * p / (float)count;
            }
            rig_train(&rig, mine);
            plain -= lr * theirs;
            at += count;
        }
        assert_int_equal(st, ACCEL_END);
        assert_int_equal(at, N);
    }
    assert_true(rig_weight(&rig) == plain);
    rig_close(&rig);
}

static void inside_a_group_nothing_moves(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "accumulate=3"});
    rig_train(&rig, 1);
    rig_train(&rig, 1);
    assert_true(rig_weight(&rig) == 0);
    assert_true(accel_param_grad(rig.w)[0] == 2); /* zeroing did nothing */
    assert_int_equal(accel_set_accumulate(rig.accel, 2), ACCEL_ERR_STATE);
    double norm = 7;
    OK(accel_clip_grad_norm(rig.accel, 0.1, &norm));
    assert_true(norm == 0);
    assert_true(accel_param_grad(rig.w)[0] == 2);
    rig_train(&rig, 4);
    assert_true(rig_weight(&rig) == -2);
    assert_true(accel_param_grad(rig.w)[0] == 0);
    OK(accel_set_accumulate(rig.accel, 1));
    assert_int_equal(accel_set_accumulate(rig.accel, 0), ACCEL_ERR_ARG);
    rig_close(&rig);
}

/* ---- schedules ----------------------------------------------------------- */

static void the_rate_follows_the_updates(void **state)
{
    (void)state;
    for (int accumulate = 1; accumulate <= 4; accumulate += 3) {
        rig_t rig;
        rig_open(&rig,
                 &(rig_options_t){.schedule = ACCEL_SCHEDULE(.warmup = 10)});
        OK(accel_set_accumulate(rig.accel, accumulate));
        for (int update = 1; update <= 12; update++) {
            double want = update < 10 ? update / 10.0 : 1.0;
            for (int micro = 0; micro < accumulate; micro++) {
                assert_true(fabs(accel_optimizer_lr(rig.optimizer) - want) <
                            1e-12);
                rig_train(&rig, 1);
            }
        }
        assert_int_equal(accel_schedule_steps(rig.schedule), 12);
        rig_close(&rig);
    }
}

static void a_skipped_step_moves_no_schedule(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "fp16",
                                    .schedule = ACCEL_SCHEDULE(.warmup = 10)});
    for (int attempt = 1; attempt <= 10; attempt++) {
        double want = (attempt <= 3 ? attempt : attempt - 1) / 10.0;
        assert_true(fabs(accel_optimizer_lr(rig.optimizer) - want) < 1e-12);
        rig_train(&rig, attempt == 3 ? INFINITY : 0.5F);
        assert_int_equal(accel_step_was_skipped(rig.accel), attempt == 3);
    }
    assert_int_equal(accel_optimizer_steps(rig.optimizer), 9);
    assert_int_equal(accel_steps_skipped(rig.accel), 1);
    assert_int_equal(accel_steps(rig.accel), 10);
    rig_close(&rig);
}

/* ---- the loss scale ------------------------------------------------------ */

static void the_scale_goes_down_and_up(void **state)
{
    static const struct {
        float gradient;
        bool skipped;
        double scale; /* afterwards */
    } steps[] = {
        {1, false, 1024}, {NAN, true, 512}, {-INFINITY, true, 256},
        {1, false, 256},  {1, false, 256},  {1, false, 512},
        {NAN, true, 256}, {1, false, 256},  {1, false, 256},
        {1, false, 512},
    };
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){
                       .spec = "fp16",
                       .scaler = ACCEL_SCALER(.init = 1024, .interval = 3)});
    assert_true(accel_loss_scale(rig.accel) == 1024);
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        float before = rig_weight(&rig);
        rig_train(&rig, steps[i].gradient);
        assert_int_equal(accel_step_was_skipped(rig.accel), steps[i].skipped);
        assert_true(accel_loss_scale(rig.accel) == steps[i].scale);
        assert_true(rig_weight(&rig) ==
                    (steps[i].skipped ? before : before - 1));
    }
    rig_close(&rig);
}

static void the_scale_starts_at_65536(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "fp16"});
    assert_true(accel_backward_begin(rig.accel) == 65536);
    rig_close(&rig);
    rig_open(&rig, &(rig_options_t){.spec = "bf16",
                                    .scaler = ACCEL_SCALER(.init = 8)});
    assert_true(accel_backward_begin(rig.accel) == 1);
    assert_true(accel_loss_scale(rig.accel) == 1);
    rig_close(&rig);
}

static void five_nans_and_then_good_steps(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "fp16",
                                    .scaler = ACCEL_SCALER(.interval = 2)});
    for (int i = 0; i < 5; i++)
        rig_train(&rig, NAN);
    assert_int_equal(accel_steps_skipped(rig.accel), 5);
    assert_true(accel_loss_scale(rig.accel) == 2048);
    rig_train(&rig, 1);
    rig_train(&rig, 1);
    assert_true(rig_weight(&rig) == -2);
    assert_true(accel_loss_scale(rig.accel) == 4096);
    rig_close(&rig);
}

/* The scale comes to its floor, and after 100 more it is called what it is. */
static void endless_nan_is_an_error(void **state)
{
    (void)state;
    for (int fp16 = 0; fp16 < 2; fp16++) {
        rig_t rig;
        int steps = 0;
        accel_status_t st = ACCEL_OK;
        rig_open(&rig, &(rig_options_t){.spec = fp16 ? "fp16" : "bf16"});
        while (st == ACCEL_OK && steps < 200) {
            rig_backward(&rig, NAN);
            st = accel_optimizer_step(rig.optimizer);
            OK(accel_optimizer_zero_grad(rig.optimizer));
            steps++;
        }
        assert_int_equal(st, ACCEL_ERR_OVERFLOW);
        assert_int_equal(steps, fp16 ? 116 : 100);
        assert_non_null(strstr(accel_last_error()->text, "NaN"));
        assert_non_null(strstr(accel_last_error()->text, "gradient of w"));
        assert_true(accel_loss_scale(rig.accel) == 1);
        assert_true(rig_weight(&rig) == 0);
        rig_close(&rig);
    }
}

static void a_skipped_step_changes_no_bit(void **state)
{
    rig_t rig;
    float before[3];

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "bf16",
                                    .elements = 3,
                                    .optimizer = ACCEL_OPTIMIZER(.lr = 0.1)});
    rig_train(&rig, 0.3F);
    memcpy(before, accel_param_data(rig.w), sizeof before);
    rig_backward(&rig, 1);
    accel_param_grad(rig.w)[2] = NAN; /* after the exchange: still seen */
    OK(accel_optimizer_step(rig.optimizer));
    assert_true(accel_step_was_skipped(rig.accel));
    assert_memory_equal(before, accel_param_data(rig.w), sizeof before);
    assert_int_equal(accel_optimizer_steps(rig.optimizer), 1);
    rig_close(&rig);
}

/* ---- clipping ------------------------------------------------------------ */

static const struct {
    const char *spec;
    double norm; /* the true one */
    double limit;
    double after; /* what the update has */
} clip_cases[] = {
    {"no", 0.5, 1, 0.5}, {"no", 10, 1, 1},   {"fp16", 0.5, 1, 0.5},
    {"fp16", 10, 1, 1},  {"bf16", 10, 4, 4},
};

static void clipping_sees_the_true_norm(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(clip_cases); i++) {
        rig_t rig;
        double norm, again, sum = 0;
        rig_open(&rig,
                 &(rig_options_t){.spec = clip_cases[i].spec, .elements = 4});
        OK(accel_set_accumulate(rig.accel, 4));
        for (int micro = 1; micro <= 4; micro++) {
            rig_backward(&rig, (float)(clip_cases[i].norm / 2));
            OK(accel_clip_grad_norm(rig.accel, clip_cases[i].limit, &norm));
            assert_true(micro == 4 || norm == 0);
        }
        assert_true(fabs(norm - clip_cases[i].norm) < 1e-5);
        OK(accel_clip_grad_norm(rig.accel, clip_cases[i].limit, &again));
        assert_true(fabs(again - clip_cases[i].after) < 1e-5);
        OK(accel_optimizer_step(rig.optimizer));
        for (int k = 0; k < 4; k++)
            sum += pow(accel_param_data(rig.w)[k], 2);
        assert_true(fabs(sqrt(sum) - clip_cases[i].after) < 1e-5);
        rig_close(&rig);
    }
}

static void a_small_gradient_is_left_alone(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){.elements = 4});
    rig_backward(&rig, 0.3F);
    OK(accel_clip_grad_norm(rig.accel, 1, NULL));
    assert_true(accel_param_grad(rig.w)[3] == 0.3F);
    rig_close(&rig);
}

static void the_setting_clips_every_step(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "fp16,clip=0.5", .elements = 4});
    rig_train(&rig, 5);
    assert_true(fabsf(rig_weight(&rig) + 0.25F) < 1e-6F);
    rig_train(&rig, 0.1F); /* norm 0.2 */
    assert_true(fabsf(rig_weight(&rig) + 0.35F) < 1e-6F);
    rig_close(&rig);
}

static void clipping_infinity_leaves_it_to_the_step(void **state)
{
    rig_t rig;
    double norm;

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "fp16"});
    rig_backward(&rig, INFINITY);
    OK(accel_clip_grad_norm(rig.accel, 1, &norm));
    assert_true(isinf(norm));
    OK(accel_optimizer_step(rig.optimizer));
    assert_true(accel_step_was_skipped(rig.accel));
    assert_int_equal(accel_clip_grad_norm(rig.accel, 0, &norm), ACCEL_ERR_ARG);
    assert_int_equal(accel_clip_grad_norm(rig.accel, NAN, &norm),
                     ACCEL_ERR_ARG);
    rig_close(&rig);
}

/* ---- wrong uses ---------------------------------------------------------- */

static void calls_out_of_order_are_refused(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){0});
    assert_int_equal(accel_optimizer_step(rig.optimizer), ACCEL_ERR_STATE);
    assert_int_equal(accel_backward_end(rig.accel), ACCEL_ERR_STATE);
    accel_backward_begin(rig.accel);
    accel_backward_begin(rig.accel);
    assert_int_equal(accel_backward_end(rig.accel), ACCEL_ERR_STATE);
    assert_non_null(strstr(accel_last_error()->text, "2 calls"));
    rig_train(&rig, 1);
    assert_int_equal(accel_optimizer_step(rig.optimizer), ACCEL_ERR_STATE);
    assert_non_null(strstr(accel_last_error()->text, "no backward pass"));
    rig_close(&rig);
}

static void nothing_works_before_prepare(void **state)
{
    accel_t *accel, *second;
    accel_optimizer_t *opt;

    (void)state;
    shut_out_environment();
    OK(accel_open(NULL, &accel));
    assert_int_equal(accel_open(NULL, &second), ACCEL_ERR_STATE);
    assert_null(second);
    OK(accel_optimizer_create(NULL, &opt));
    assert_int_equal(accel_optimizer_step(opt), ACCEL_ERR_STATE);
    accel_backward_begin(accel);
    assert_int_equal(accel_backward_end(accel), ACCEL_ERR_STATE);
    assert_int_equal(accel_prepare(accel, ACCEL_PREPARE(.optimizer = opt)),
                     ACCEL_ERR_STATE);
    assert_int_equal(accel_prepare(NULL, NULL), ACCEL_ERR_ARG);
    assert_int_equal(accel_save_state(accel, "/nonexistent"), ACCEL_ERR_STATE);
    assert_int_equal(accel_load_state(accel, "/nonexistent"), ACCEL_ERR_STATE);
    accel_close(accel);
    accel_optimizer_destroy(opt);
}

static void bad_settings_are_named(void **state)
{
    accel_t *accel;

    (void)state;
    shut_out_environment();
    assert_int_equal(accel_open(ACCEL_OPTIONS(.spec = "fp17"), &accel),
                     ACCEL_ERR_ARG);
    assert_null(accel);
    assert_non_null(strstr(accel_last_error()->text, "no fp32 fp16 bf16"));
    struct {
        accel_options_t known;
        void *unknown;
    } later = {.known.size = sizeof later, .unknown = &accel};
    assert_int_equal(accel_open(&later.known, &accel), ACCEL_ERR_VERSION);
    OK(accel_open(NULL, &accel)); /* nothing of the failed one is left */
    accel_close(accel);
}

/* ---- who am I ------------------------------------------------------------ */

static void a_world_of_one(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "bf16,seed=5"});
    assert_int_equal(accel_rank(rig.accel), 0);
    assert_int_equal(accel_size(rig.accel), 1);
    assert_int_equal(accel_local_rank(rig.accel), 0);
    assert_int_equal(accel_local_size(rig.accel), 1);
    assert_int_equal(accel_node(rig.accel), 0);
    assert_int_equal(accel_nodes(rig.accel), 1);
    assert_true(accel_is_main(rig.accel));
    assert_true(accel_is_local_main(rig.accel));
    assert_true(accel_is_last(rig.accel));
    assert_string_equal(accel_precision(rig.accel), "bf16");
    assert_int_equal(accel_compute_dtype(rig.accel), ACCEL_BF16);
    assert_int_equal(accel_get_rng(rig.accel)->seed, 5);
    assert_int_equal(accel_job_size(accel_get_job(rig.accel)), 1);
    assert_int_equal(accel_comm_size(accel_get_comm(rig.accel)), 1);
    assert_true(accel_settings_count(accel_get_settings(rig.accel)) > 10);
    OK(accel_wait_for_everyone(rig.accel));
    OK(accel_main_first_begin(rig.accel));
    OK(accel_main_first_end(rig.accel));
    assert_int_equal(accel_main_first_end(rig.accel), ACCEL_ERR_STATE);
    OK(accel_main_first_begin(rig.accel));
    assert_int_equal(accel_main_first_begin(rig.accel), ACCEL_ERR_STATE);
    assert_int_equal(accel_main_first_end(rig.accel), ACCEL_ERR_STATE);

    bool set;
    OK(accel_check_trigger(rig.accel, &set));
    assert_false(set);
    accel_set_trigger(rig.accel);
    OK(accel_check_trigger(rig.accel, &set));
    assert_true(set);
    OK(accel_check_trigger(rig.accel, &set));
    assert_false(set);
    rig_close(&rig);
}

static void rows_for_metrics_leave_out_the_repeats(void **state)
{
    rig_t rig;
    accel_batch_t batch;
    bool seen[10] = {false};
    size_t rows = 0;

    (void)state;
    rig_open(&rig, &(rig_options_t){.samples = 10, .batch = 4});
    while (accel_loader_next(rig.loader, &batch) == ACCEL_OK) {
        float *out;
        size_t n;
        OK(accel_gather_for_metrics(
            rig.accel, rig.loader,
            &(accel_rows_t){batch.data[0], batch.count, 1, ACCEL_F32},
            (void **)&out, &n));
        for (size_t i = 0; i < n; i++) {
            assert_false(seen[(size_t)out[i]]);
            seen[(size_t)out[i]] = true;
        }
        rows += n;
        free(out);
    }
    assert_int_equal(rows, 10);

    void *none = &rig;
    size_t n = 1;
    OK(accel_loader_next(rig.loader, &batch));
    static const struct {
        size_t rows, width;
        accel_dtype_t dtype;
        bool data;
    } bad[] = {
        {3, 1, ACCEL_F32, true},
        {4, 1, ACCEL_DTYPE_NONE, true},
        {4, SIZE_MAX, ACCEL_F32, true},
        {4, 1, ACCEL_F32, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        accel_rows_t mine = {bad[i].data ? batch.data[0] : NULL, bad[i].rows,
                             bad[i].width, bad[i].dtype};
        none = &rig;
        assert_int_equal(
            accel_gather_for_metrics(rig.accel, rig.loader, &mine, &none, &n),
            ACCEL_ERR_ARG);
        assert_null(none);
        assert_int_equal(n, 0);
    }
    accel_rows_t none_here = {.dtype = ACCEL_F32};
    assert_int_equal(
        accel_gather_for_metrics(rig.accel, NULL, &none_here, &none, &n),
        ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "loader is NULL"));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_end_with_the_epoch),
        cmocka_unit_test(without_a_loader_only_the_count_ends_a_group),
        cmocka_unit_test(another_loader_ends_no_group),
        cmocka_unit_test(a_group_keeps_its_loader),
        cmocka_unit_test(a_destroyed_loader_is_forgotten),
        cmocka_unit_test(short_groups_divide_by_what_they_have),
        cmocka_unit_test(accumulation_equals_the_whole_batch),
        cmocka_unit_test(one_rank_is_the_plain_loop),
        cmocka_unit_test(inside_a_group_nothing_moves),
        cmocka_unit_test(the_rate_follows_the_updates),
        cmocka_unit_test(a_skipped_step_moves_no_schedule),
        cmocka_unit_test(the_scale_goes_down_and_up),
        cmocka_unit_test(the_scale_starts_at_65536),
        cmocka_unit_test(five_nans_and_then_good_steps),
        cmocka_unit_test(endless_nan_is_an_error),
        cmocka_unit_test(a_skipped_step_changes_no_bit),
        cmocka_unit_test(clipping_sees_the_true_norm),
        cmocka_unit_test(a_small_gradient_is_left_alone),
        cmocka_unit_test(the_setting_clips_every_step),
        cmocka_unit_test(clipping_infinity_leaves_it_to_the_step),
        cmocka_unit_test(calls_out_of_order_are_refused),
        cmocka_unit_test(nothing_works_before_prepare),
        cmocka_unit_test(bad_settings_are_named),
        cmocka_unit_test(a_world_of_one),
        cmocka_unit_test(rows_for_metrics_leave_out_the_repeats),
    };

    return cmocka_run_group_tests_name("train", tests, NULL, NULL);
}
