/* A program in C++: every macro that makes options, as an argument. */
#include <accel.h>
#include <cstdio>
#include <cstring>
#include <initializer_list>

static accel_t *accel;
static accel_model_t *model;
static accel_param_t *w;
static accel_optimizer_t *optimizer;
static accel_schedule_t *schedule;
static accel_scaler_t *scaler;
static accel_dataset_t *set, *none;
static accel_loader_t *loader;
static accel_progress_t *progress;
static const float points[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static bool set_up()
{
    const accel_field_t field = {"x", ACCEL_F32, 1};
    const void *data = points;

    return accel_open(ACCEL_OPTIONS(.spec = "seed=3"), &accel) == ACCEL_OK &&
           accel_model_create(accel, &model) == ACCEL_OK &&
           accel_model_add(model,
                           ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {2}),
                           &w) == ACCEL_OK &&
           accel_dataset_from_memory(&field, &data, 1, 8, &set) == ACCEL_OK &&
           accel_loader_create(set, ACCEL_LOADER(.batch_size = 2), &loader) ==
               ACCEL_OK &&
           accel_optimizer_create(ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 0.5),
                                  &optimizer) == ACCEL_OK &&
           accel_schedule_create(optimizer, ACCEL_SCHEDULE(.warmup = 4),
                                 &schedule) == ACCEL_OK &&
           accel_prepare(accel,
                         ACCEL_PREPARE(.model = model, .optimizer = optimizer,
                                       .loader = loader)) == ACCEL_OK &&
           accel_progress_create(accel, ACCEL_PROGRESS(.title = "epoch"),
                                 &progress) == ACCEL_OK &&
           accel_scaler_create(ACCEL_SCALER(.init = 8), &scaler) == ACCEL_OK;
}

static bool is_taken()
{
    accel_batch_t batch;

    return accel_get_rng(accel)->seed == 3 && accel_param_elements(w) == 2 &&
           accel_optimizer_lr(optimizer) == 0.125 &&
           accel_scaler_scale(scaler) == 8 &&
           accel_loader_next(loader, &batch) == ACCEL_OK && batch.count == 2 &&
           ACCEL_CKPT()->size == sizeof(accel_ckpt_options_t) &&
           accel_dataset_open("/nonexistent",
                              ACCEL_DATASET(.format = ACCEL_FORMAT_NPY),
                              &none) != ACCEL_OK;
}

/* What one update leaves of 1, 0 and 0 when the gradient is 2. */
static bool updates_to(const accel_optimizer_options_t *options, double lr,
                       float p, float m, float v)
{
    const float grad = 2;
    float got[3] = {1, 0, 0};
    accel_update_t u = {};

    u.master = &got[0];
    u.grad = &grad;
    u.m = &got[1];
    u.v = &got[2];
    u.count = 1;
    u.grad_scale = 1;
    return accel_optim_update(options, lr, 1, &u) == ACCEL_OK && got[0] == p &&
           got[1] == m && got[2] == v;
}

static bool are_left_out(std::initializer_list<double> values)
{
    const double mark = ACCEL_DEFAULT;

    for (double value : values)
        if (std::memcmp(&value, &mark, sizeof mark) != 0)
            return false;
    return true;
}

/* A given 0 is 0, and what is not given is marked as in C. */
static bool zeros_are_taken()
{
    const accel_optimizer_options_t o = *ACCEL_OPTIMIZER();
    const accel_scaler_options_t c = *ACCEL_SCALER();

    return are_left_out({o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, c.init,
                         c.growth, c.backoff, c.min, ACCEL_SCHEDULE()->lr,
                         ACCEL_PROGRESS()->interval}) &&
           c.interval == ACCEL_DEFAULT_INT &&
           ACCEL_LOADER()->seed == ACCEL_DEFAULT_INT &&
           ACCEL_PROGRESS()->fd == 2 && ACCEL_PROGRESS(.fd = 0)->fd == 0 &&
           ACCEL_DATASET()->cache_bytes == ACCEL_DEFAULT_INT &&
           updates_to(
               ACCEL_OPTIMIZER(.beta1 = 0, .beta2 = 0, .weight_decay = 0), 0.5,
               0.5, 2, 4) &&
           updates_to(ACCEL_OPTIMIZER(.kind = ACCEL_SGD), 0.25, 0.5, 0, 0) &&
           accel_schedule_value(ACCEL_SCHEDULE(.lr = 0), 1) == 0 &&
           accel_schedule_value(ACCEL_SCHEDULE(), 1) == 1;
}

/* What ports are made of. */
static bool is_short()
{
    const char *const names[] = {"a", "b"};
    const size_t sizes[] = {2, 3};
    float data[5] = {}, grad[5] = {};
    accel_model_t *other;

    ACCEL_CHECK(accel_model_create(accel, &other));
    ACCEL_CHECK(accel_model_add_block(other,
                                      ACCEL_BLOCK(.data = data, .grad = grad,
                                                  .count = 2, .names = names,
                                                  .elements = sizes),
                                      nullptr));
    ACCEL_CHECK(accel_model_add(
        other,
        ACCEL_PARAM(.name = "c", .tied_to = accel_model_find(other, "a")),
        nullptr));
    bool good = accel_model_count(other) == 2;
    accel_model_destroy(other);
    return good && ACCEL_PREPARE(.take = true)->take;
}

static bool wrong_zeros_are_refused()
{
    accel_optimizer_t *o;
    accel_scaler_t *s;

    return accel_optimizer_create(ACCEL_OPTIMIZER(.eps = 0), &o) ==
               ACCEL_ERR_ARG &&
           accel_scaler_create(ACCEL_SCALER(.interval = 0), &s) ==
               ACCEL_ERR_ARG &&
           accel_scaler_create(ACCEL_SCALER(.min = 0), &s) == ACCEL_ERR_ARG;
}

int main()
{
    bool good = set_up() && is_taken() && zeros_are_taken() && is_short() &&
                wrong_zeros_are_refused();

    if (!good)
        std::fprintf(stderr, "cplusplus: %s\n", accel_last_error()->text);
    accel_progress_destroy(progress);
    accel_loader_destroy(loader);
    accel_dataset_destroy(set);
    accel_model_destroy(model);
    accel_close(accel);
    accel_schedule_destroy(schedule);
    accel_optimizer_destroy(optimizer);
    accel_scaler_destroy(scaler);
    return good ? 0 : 1;
}
