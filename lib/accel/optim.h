/*
 * Optimizers, learning-rate schedules and the loss scaler: arithmetic on flat
 * buffers. Nothing here communicates by itself; accel_prepare() ties an
 * optimizer and a schedule to an accelerator, which then decides when a call
 * of accel_optimizer_step() is a real step.
 */
#ifndef ACCEL_OPTIM_H
#define ACCEL_OPTIM_H

#include <accel/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct accel_optimizer accel_optimizer_t;
typedef struct accel_schedule accel_schedule_t;
typedef struct accel_scaler accel_scaler_t;

/* ---- update rules on flat buffers ------------------------------------- */

/*
 * One update of `count` parameters. All pointers are to `count` elements and
 * must not overlap. `grad` is read as grad[i] * grad_scale, which folds
 * unscaling, averaging and clipping into the same pass. `compute` gets the
 * new master values rounded to `compute_dtype` (f16 or bf16); it may be NULL.
 */
typedef struct accel_update {
    float *master;     /* f32 parameters, read and written */
    const float *grad; /* f32 gradient */
    float *m;          /* first moment (AdamW), momentum (SGD) */
    float *v;          /* second moment (AdamW); else NULL */
    void *compute;     /* rounded copy, or NULL */
    accel_dtype_t compute_dtype;
    size_t count;
    float grad_scale;
} accel_update_t;

typedef enum accel_optimizer_kind {
    ACCEL_ADAMW = 0, /* Loshchilov, Hutter, ICLR 2019: decoupled decay */
    ACCEL_ADAM,      /* Kingma, Ba, ICLR 2015: decay added to the gradient */
    ACCEL_SGD        /* momentum and Nesterov as PyTorch defines them */
} accel_optimizer_kind_t;

/* The default is given after each field; ACCEL_OPTIMIZER() sets it. */
typedef struct accel_optimizer_options {
    size_t size;
    accel_optimizer_kind_t kind;                 /* ACCEL_ADAMW */
    double lr ACCEL_IS(ACCEL_DEFAULT);           /* 1e-3 */
    double beta1 ACCEL_IS(ACCEL_DEFAULT);        /* 0.9 */
    double beta2 ACCEL_IS(ACCEL_DEFAULT);        /* 0.999 */
    double eps ACCEL_IS(ACCEL_DEFAULT);          /* 1e-8 */
    double weight_decay ACCEL_IS(ACCEL_DEFAULT); /* AdamW: 0.01, else 0 */
    double momentum;                             /* 0; SGD only, at most 1 */
    bool nesterov;                               /* SGD only; needs momentum */
} accel_optimizer_options_t;

#define ACCEL_OPTIMIZER_DEFAULTS                                               \
    .size = sizeof(accel_optimizer_options_t), .lr = ACCEL_DEFAULT,            \
    .beta1 = ACCEL_DEFAULT, .beta2 = ACCEL_DEFAULT, .eps = ACCEL_DEFAULT,      \
    .weight_decay = ACCEL_DEFAULT
#define ACCEL_OPTIMIZER_INIT                                                   \
    {                                                                          \
        ACCEL_OPTIMIZER_DEFAULTS                                               \
    }
#define ACCEL_OPTIMIZER(...)                                                   \
    ACCEL_MAKE(accel_optimizer_options_t, ACCEL_OPTIMIZER_DEFAULTS, __VA_ARGS__)

/*
 * Applies one update at learning rate `lr`; `step` counts from 1 and is used
 * for AdamW's bias correction. Local; any thread on disjoint buffers.
 * ACCEL_ERR_ARG: options out of range, a needed buffer is NULL, step is 0.
 */
ACCEL_API accel_status_t
accel_optim_update(const accel_optimizer_options_t *options, double lr,
                   uint64_t step, const accel_update_t *update);

/*
 * One pass over `count` gradients: *sum_squares gets the sum of their squares
 * in f64 and *finite whether all are finite. Local; any thread.
 */
ACCEL_API void accel_optim_inspect(const float *grad, size_t count,
                                   double *sum_squares, bool *finite);

/* ---- optimizer ---------------------------------------------------------- */

/*
 * Makes an optimizer. It has no parameters until accel_prepare() gives it a
 * model. On success *out is the caller's, to destroy before accel_close() or
 * after it; on failure it is NULL. Local. ACCEL_ERR_ARG names the option and
 * its range.
 */
ACCEL_API accel_status_t accel_optimizer_create(
    const accel_optimizer_options_t *options, accel_optimizer_t **out);
ACCEL_API void accel_optimizer_destroy(accel_optimizer_t *optimizer);

/*
 * Takes a step if the accumulation group is complete, otherwise does nothing.
 * A step whose gradients hold an infinity or NaN is skipped on all ranks; see
 * accel_step_was_skipped(). Collective.
 *
 * ACCEL_ERR_STATE: before accel_prepare(), after accel_close(), or without a
 * backward pass since the last step; ACCEL_ERR_PROTO: the ranks are at
 * different steps, accumulated different numbers of batches, or hold different
 * gradients; ACCEL_ERR_OVERFLOW: 100 steps in a row were skipped at the lowest
 * loss scale: that is no overflow any more (the text names the parameter).
 */
ACCEL_API accel_status_t accel_optimizer_step(accel_optimizer_t *optimizer);

/* Sets the gradients to zero if the accumulation group is complete. Local. */
ACCEL_API accel_status_t
accel_optimizer_zero_grad(accel_optimizer_t *optimizer);

/* The learning rate of the next step; setting it overrides a schedule until
 * that moves on. Local. ACCEL_ERR_ARG when negative or not finite. */
ACCEL_API double accel_optimizer_lr(const accel_optimizer_t *optimizer);
ACCEL_API accel_status_t accel_optimizer_set_lr(accel_optimizer_t *optimizer,
                                                double lr);

/* Updates made so far, without the skipped ones. */
ACCEL_API uint64_t accel_optimizer_steps(const accel_optimizer_t *optimizer);

/* ---- schedule ------------------------------------------------------------ */

typedef enum accel_schedule_kind {
    ACCEL_CONSTANT = 0,
    ACCEL_LINEAR, /* falls to `end` * lr at `total` */
    ACCEL_COSINE  /* half a cosine down to `end` * lr at `total` */
} accel_schedule_kind_t;

typedef struct accel_schedule_options {
    size_t size;
    accel_schedule_kind_t kind; /* ACCEL_CONSTANT */
    uint64_t warmup; /* updates of linear warm-up: update k of it uses
                        lr * k / warmup, k from 1 */
    uint64_t total;  /* updates in all, warm-up included; needed unless
                        constant */
    double end;      /* fraction of lr at the end, in [0, 1]; 0 */
    double lr ACCEL_IS(ACCEL_DEFAULT); /* peak; the optimizer's at create */
} accel_schedule_options_t;

#define ACCEL_SCHEDULE_DEFAULTS                                                \
    .size = sizeof(accel_schedule_options_t), .lr = ACCEL_DEFAULT
#define ACCEL_SCHEDULE_INIT                                                    \
    {                                                                          \
        ACCEL_SCHEDULE_DEFAULTS                                                \
    }
#define ACCEL_SCHEDULE(...)                                                    \
    ACCEL_MAKE(accel_schedule_options_t, ACCEL_SCHEDULE_DEFAULTS, __VA_ARGS__)

/*
 * The rate for the update after `done` updates have been made, peak rate
 * options->lr (ACCEL_DEFAULT counts as 1: the result is a factor). Past the end
 * it stays at the final value. Pure; the options are taken as they are.
 */
ACCEL_API double accel_schedule_value(const accel_schedule_options_t *options,
                                      uint64_t done);

/*
 * Makes a schedule that drives `optimizer` (borrowed: once that is destroyed,
 * the schedule can only be destroyed) and sets its first rate. Local.
 * ACCEL_ERR_ARG names the option.
 */
ACCEL_API accel_status_t accel_schedule_create(
    accel_optimizer_t *optimizer, const accel_schedule_options_t *options,
    accel_schedule_t **out);
ACCEL_API void accel_schedule_destroy(accel_schedule_t *schedule);

/*
 * Moves on by one update, unless the accumulation group is not complete or
 * the update was skipped: the rate follows the updates really made, on any
 * number of ranks. Local.
 */
ACCEL_API accel_status_t accel_schedule_step(accel_schedule_t *schedule);

/* How often the schedule has moved. */
ACCEL_API uint64_t accel_schedule_steps(const accel_schedule_t *schedule);

/* ---- loss scaler -------------------------------------------------------- */

/* The default is given after each field; ACCEL_SCALER() sets it. */
typedef struct accel_scaler_options {
    size_t size;
    double init ACCEL_IS(ACCEL_DEFAULT);    /* 65536 */
    double growth ACCEL_IS(ACCEL_DEFAULT);  /* 2 */
    double backoff ACCEL_IS(ACCEL_DEFAULT); /* 0.5 */
    /* 2000 good steps until it grows, at least 1 */
    uint64_t interval ACCEL_IS(ACCEL_DEFAULT_INT);
    double min ACCEL_IS(ACCEL_DEFAULT); /* 1: the scale never falls below */
} accel_scaler_options_t;

#define ACCEL_SCALER_DEFAULTS                                                  \
    .size = sizeof(accel_scaler_options_t), .init = ACCEL_DEFAULT,             \
    .growth = ACCEL_DEFAULT, .backoff = ACCEL_DEFAULT,                         \
    .interval = ACCEL_DEFAULT_INT, .min = ACCEL_DEFAULT
#define ACCEL_SCALER_INIT                                                      \
    {                                                                          \
        ACCEL_SCALER_DEFAULTS                                                  \
    }
#define ACCEL_SCALER(...)                                                      \
    ACCEL_MAKE(accel_scaler_options_t, ACCEL_SCALER_DEFAULTS, __VA_ARGS__)

/* What a checkpoint keeps of a scaler. */
typedef struct accel_scaler_state {
    double scale;
    uint64_t good;    /* good steps since the scale last changed */
    uint64_t skipped; /* bad steps in all */
    uint64_t row;     /* bad steps since the last good one */
} accel_scaler_state_t;

/* Makes a scaler. Local. ACCEL_ERR_ARG names the option. */
ACCEL_API accel_status_t accel_scaler_create(
    const accel_scaler_options_t *options, accel_scaler_t **out);
ACCEL_API void accel_scaler_destroy(accel_scaler_t *scaler);

/* What the loss (or its gradient) is to be multiplied by. */
ACCEL_API double accel_scaler_scale(const accel_scaler_t *scaler);

/*
 * Ends a step. Bad (an infinity or NaN was found): scale *= backoff, not
 * below min, and the good count restarts. Good: after `interval` of them
 * scale *= growth if that is finite as f32, and the count restarts. Local;
 * all ranks must pass the same `finite`.
 */
ACCEL_API void accel_scaler_update(accel_scaler_t *scaler, bool finite);

ACCEL_API void accel_scaler_get_state(const accel_scaler_t *scaler,
                                      accel_scaler_state_t *state);
/* ACCEL_ERR_ARG when the scale is not a positive finite number. */
ACCEL_API accel_status_t accel_scaler_set_state(
    accel_scaler_t *scaler, const accel_scaler_state_t *state);

#ifdef __cplusplus
}
#endif
#endif
