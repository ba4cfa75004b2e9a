/*
 * optim: what train may use beside <accel/optim.h>. Optim never calls train:
 * train hangs its hooks in.
 */
#ifndef AX_OPTIM_H
#define AX_OPTIM_H

#include "base/base.h"
#include <accel/optim.h>

/* What an accelerator does when the program calls the optimizer. */
typedef struct ax_optim_hooks {
    accel_status_t (*step)(void *context);
    accel_status_t (*zero_grad)(void *context);
    bool (*moved)(void *context); /* was the last call of step a real update */
    void (*gone)(void *context);  /* the optimizer is being destroyed */
    void *context;
} ax_optim_hooks_t;

/* NULL detaches: later steps are ACCEL_ERR_STATE. */
void ax_optimizer_set_hooks(accel_optimizer_t *optimizer,
                            const ax_optim_hooks_t *hooks);

/* One parameter as an optimizer sees it. m and v belong to the optimizer; v
 * is NULL where the rule has none, m too for plain SGD. */
typedef struct ax_optim_slot {
    const char *name;
    float *master;
    const float *grad;
    void *compute; /* NULL in full precision */
    accel_dtype_t compute_dtype;
    size_t count;
    float *m;
    float *v;
} ax_optim_slot_t;

/* Adds a parameter: all of `slot` but m and v, which are allocated zeroed.
 * Name and pointers are borrowed. */
accel_status_t ax_optimizer_add(accel_optimizer_t *optimizer,
                                const ax_optim_slot_t *slot);
/* Forgets all of them, moments too. */
void ax_optimizer_clear(accel_optimizer_t *optimizer);
size_t ax_optimizer_count(const accel_optimizer_t *optimizer);
const ax_optim_slot_t *ax_optimizer_slot(const accel_optimizer_t *optimizer,
                                         size_t index);

/* A real update of all parameters, gradients times `grad_scale`. */
accel_status_t ax_optimizer_apply(accel_optimizer_t *optimizer,
                                  float grad_scale);

/* The bits of the largest magnitude, those of a NaN above all. */
uint32_t ax_optim_largest(const float *grad, size_t count);

/* ACCEL_ERR_ARG unless `lr` is finite and not negative, and unless the scale is
 * a normal positive f32. */
accel_status_t ax_optimizer_check_lr(double lr);
accel_status_t ax_scaler_check_state(const accel_scaler_state_t *state);

/* The options as the program gave them: ax_is_default() is true of what it
 * left to the library. */
const accel_optimizer_options_t *
ax_optimizer_given(const accel_optimizer_t *optimizer);
const accel_schedule_options_t *
ax_schedule_given(const accel_schedule_t *schedule);

/* For checkpoints. */
void ax_optimizer_set_steps(accel_optimizer_t *optimizer, uint64_t steps);
/* Also sets the optimizer's rate to the one of that step. */
void ax_schedule_set_steps(accel_schedule_t *schedule, uint64_t steps);

/* Whom accel_schedule_destroy() tells; NULL: nobody. */
void ax_schedule_set_owner(accel_schedule_t *schedule,
                           void (*gone)(void *context), void *context);

#endif
