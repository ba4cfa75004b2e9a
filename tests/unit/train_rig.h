/*
 * A whole training set-up in a world of one, for the unit tests of train: one
 * parameter "w", an optimizer, and as the test wishes a loader and a schedule.
 * The library is the real one; only the environment is shut out.
 */
#ifndef TRAIN_RIG_H
#define TRAIN_RIG_H

#include "unit/unit.h"

#include <accel.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(call) assert_string_equal(accel_status_name(call), "ACCEL_OK")

/* Zero means: none, or the default. */
typedef struct rig_options {
    const char *spec;
    size_t elements; /* of w; 0: 1 */
    size_t samples;  /* with a loader; 0: without */
    size_t batch;
    accel_optimizer_options_t *optimizer; /* 0: SGD of rate 1 */
    accel_schedule_options_t *schedule;
    accel_scaler_options_t *scaler;
} rig_options_t;

typedef struct rig {
    accel_t *accel;
    accel_model_t *model;
    accel_param_t *w;
    accel_optimizer_t *optimizer;
    accel_schedule_t *schedule;
    float *values;
    accel_dataset_t *dataset;
    accel_loader_t *loader;
} rig_t;

static inline void shut_out_environment(void)
{
    static const char *const names[] = {
        "ACCEL_SPEC",   "ACCEL_PRECISION",  "ACCEL_ACCUMULATE", "ACCEL_CLIP",
        "ACCEL_SEED",   "ACCEL_CHECKPOINT", "ACCEL_KEEP",       "ACCEL_RESUME",
        "ACCEL_SIGNAL", "ACCEL_WIRE",       "ACCEL_LOG",
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        unsetenv(names[i]);
    setenv("ACCEL_SITE_CONF", "/dev/null", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
}

static inline void rig_loader(rig_t *rig, const rig_options_t *o)
{
    accel_field_t field = {"x", ACCEL_F32, 1};
    const void *data;

    rig->values = malloc(o->samples * sizeof(float));
    assert_non_null(rig->values);
    for (size_t i = 0; i < o->samples; i++)
        rig->values[i] = (float)i;
    data = rig->values;
    OK(accel_dataset_from_memory(&field, &data, 1, o->samples, &rig->dataset));
    OK(accel_loader_create(
        rig->dataset,
        ACCEL_LOADER(.batch_size = o->batch ? o->batch : 1, .shuffle = true),
        &rig->loader));
}

static inline void rig_open(rig_t *rig, const rig_options_t *o)
{
    *rig = (rig_t){0};
    shut_out_environment();
    OK(accel_open(ACCEL_OPTIONS(.spec = o->spec), &rig->accel));
    OK(accel_model_create(rig->accel, &rig->model));
    OK(accel_model_add(rig->model,
                       ACCEL_PARAM(.name = "w", .ndim = 1,
                                   .shape = {o->elements ? o->elements : 1}),
                       &rig->w));
    OK(accel_optimizer_create(o->optimizer
                                  ? o->optimizer
                                  : ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1),
                              &rig->optimizer));
    if (o->schedule)
        OK(accel_schedule_create(rig->optimizer, o->schedule, &rig->schedule));
    if (o->samples)
        rig_loader(rig, o);
    OK(accel_prepare(rig->accel, ACCEL_PREPARE(.model = rig->model,
                                               .optimizer = rig->optimizer,
                                               .loader = rig->loader,
                                               .schedule = rig->schedule,
                                               .scaler = o->scaler)));
}

static inline void rig_close(rig_t *rig)
{
    accel_model_destroy(rig->model);
    accel_close(rig->accel);
    accel_schedule_destroy(rig->schedule);
    accel_optimizer_destroy(rig->optimizer);
    accel_loader_destroy(rig->loader);
    accel_dataset_destroy(rig->dataset);
    free(rig->values);
}

/* A backward pass whose true gradient is `gradient` in every element. */
static inline void rig_backward(rig_t *rig, float gradient)
{
    float scale = accel_backward_begin(rig->accel);
    float *grad = accel_param_grad(rig->w);

    for (uint64_t i = 0; i < accel_param_elements(rig->w); i++)
        grad[i] += gradient * scale;
    OK(accel_backward_end(rig->accel));
}

/* A whole micro-batch: backward pass, step, schedule, zeroing. */
static inline void rig_train(rig_t *rig, float gradient)
{
    rig_backward(rig, gradient);
    OK(accel_optimizer_step(rig->optimizer));
    if (rig->schedule)
        OK(accel_schedule_step(rig->schedule));
    OK(accel_optimizer_zero_grad(rig->optimizer));
}

static inline float rig_weight(const rig_t *rig)
{
    return accel_param_data(rig->w)[0];
}

#endif
