/*
 * A small training run on several ranks, for mp_train.c and mp_state.c: linear
 * regression on samples that are a function of their index. A check that fails
 * says where, on which rank, and ends this rank with status 1.
 */
#ifndef MP_RIG_H
#define MP_RIG_H

#include <accel.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES 5
#define SAMPLES 48

static accel_t *accel; /* of the whole program */

static inline void check_at(bool good, const char *what, int line)
{
    if (good)
        return;
    fprintf(stderr, "rank %d: line %d: %s (last error: %s: %s)\n",
            accel ? accel_rank(accel) : -1, line, what,
            accel_status_name(accel_last_error()->status),
            accel_last_error()->text);
    exit(1);
}

#define CHECK(what) check_at((what), #what, __LINE__)
#define OK(call) check_at((call) == ACCEL_OK, #call, __LINE__)

/* Ends all ranks alike: an expected error, its text for the caller to see. */
#define FAILS(call, want)                                                      \
    do {                                                                       \
        check_at((call) == (want), #call " is " #want, __LINE__);              \
        printf("rank %d: %s: %s\n", accel_rank(accel),                         \
               accel_status_name(accel_last_error()->status),                  \
               accel_last_error()->text);                                      \
    } while (0)

static inline float sample(uint64_t index, int feature)
{
    return (float)((index * 7 + (uint64_t)feature * 13) % 11) / 11 - 0.4F;
}

static inline float target(uint64_t index)
{
    float y = 0.5F;

    for (int f = 0; f < FEATURES; f++)
        y += (float)(f - 2) * sample(index, f);
    return y;
}

typedef struct rig {
    accel_model_t *model;
    accel_param_t *w, *b;
    accel_optimizer_t *optimizer;
    accel_schedule_t *schedule;
    accel_dataset_t *dataset;
    accel_loader_t *loader;
    float own_b, own_grad; /* the bias lies in the program's memory */
    float values[SAMPLES][FEATURES];
} rig_t;

static inline void rig_data(rig_t *r, size_t batch)
{
    accel_field_t field = {"x", ACCEL_F32, FEATURES};
    const void *data = r->values;

    for (uint64_t i = 0; i < SAMPLES; i++)
        for (int f = 0; f < FEATURES; f++)
            r->values[i][f] = sample(i, f);
    OK(accel_dataset_from_memory(&field, &data, 1, SAMPLES, &r->dataset));
    OK(accel_loader_create(r->dataset,
                           ACCEL_LOADER(.batch_size = batch, .shuffle = true),
                           &r->loader));
}

/* `batch` is one rank's; 0: no loader. */
static inline void rig_open(rig_t *r, const accel_optimizer_options_t *opt,
                            size_t batch)
{
    *r = (rig_t){0};
    OK(accel_model_create(accel, &r->model));
    OK(accel_model_add(r->model,
                       ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {FEATURES}),
                       &r->w));
    OK(accel_model_add(
        r->model,
        ACCEL_PARAM(.name = "b", .data = &r->own_b, .grad = &r->own_grad),
        &r->b));
    OK(accel_optimizer_create(
        opt ? opt : ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 0.1),
        &r->optimizer));
    OK(accel_schedule_create(r->optimizer, ACCEL_SCHEDULE(.warmup = 10),
                             &r->schedule));
    if (batch)
        rig_data(r, batch);
    OK(accel_prepare(
        accel, ACCEL_PREPARE(.model = r->model, .optimizer = r->optimizer,
                             .loader = r->loader, .schedule = r->schedule)));
}

static inline void rig_close(rig_t *r)
{
    accel_loader_destroy(r->loader);
    accel_dataset_destroy(r->dataset);
    accel_schedule_destroy(r->schedule);
    accel_model_destroy(r->model);
    accel_optimizer_destroy(r->optimizer);
}

/* The mean squared error's gradient over a batch. */
static inline void rig_backward(rig_t *r, const accel_batch_t *batch)
{
    float scale = accel_backward_begin(accel);
    float share = 2 * scale / (float)batch->count;
    const float *x = batch->data[0];
    float *gw = accel_param_grad(r->w);

    for (size_t i = 0; i < batch->count; i++, x += FEATURES) {
        float error = accel_param_data(r->b)[0] - target(batch->index[i]);
        for (int f = 0; f < FEATURES; f++)
            error += accel_param_data(r->w)[f] * x[f];
        for (int f = 0; f < FEATURES; f++)
            gw[f] += share * error * x[f];
        r->own_grad += share * error;
    }
    OK(accel_backward_end(accel));
}

static inline void rig_step(rig_t *r)
{
    OK(accel_optimizer_step(r->optimizer));
    OK(accel_schedule_step(r->schedule));
    OK(accel_optimizer_zero_grad(r->optimizer));
}

/* Weights, bias, learning rate and loss scale, the same bits on all ranks. */
static inline void check_alike(const rig_t *r)
{
    double mine[FEATURES + 3], all[2][FEATURES + 3];

    for (int f = 0; f < FEATURES; f++)
        mine[f] = accel_param_data(r->w)[f];
    mine[FEATURES] = r->own_b;
    mine[FEATURES + 1] = accel_optimizer_lr(r->optimizer);
    mine[FEATURES + 2] = accel_loss_scale(accel);
    for (int k = 0; k < 2; k++)
        OK(accel_comm_allreduce(accel_get_comm(accel), mine, all[k],
                                FEATURES + 3, ACCEL_F64,
                                k ? ACCEL_MAX : ACCEL_MIN));
    CHECK(memcmp(all[0], all[1], sizeof all[0]) == 0);
}

static inline void print_weights(const rig_t *r)
{
    for (int f = 0; f < FEATURES; f++)
        accel_printf(accel, "%.9g ", accel_param_data(r->w)[f]);
    accel_printf(accel, "%.9g\n", r->own_b);
}

#endif
