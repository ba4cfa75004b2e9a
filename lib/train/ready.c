/*
 * Gradients that travel while the backward pass goes on. Buckets leave from
 * the front of the model's memory, which backward fills first, one after the
 * other: the order of the calls is the same on all ranks, whichever of them
 * say what is ready.
 */
#include "train_priv.h"

/* Asked once a pass, so that what was sent early and the rest agree. */
void ax_pass_settle(accel_t *accel)
{
    ax_pass_t *pass = &accel->pass;

    if (pass->settled)
        return;
    *pass = (ax_pass_t){
        .settled = true,
        .last = accel->joined ? accel->join_last : ax_at_last_batch(accel),
        .ranks = accel->joined ? accel->joined : accel_size(accel)};
}

bool ax_pass_ends_group(const accel_t *accel)
{
    return accel->pass.last || accel->micro + 1 >= accel->accumulate;
}

/* Elements of the model's own memory of gradients that are ready, from its
 * front on. Parameters lie there from the last to the first. */
static size_t ready_elements(accel_t *accel)
{
    const accel_model_t *model = accel->model;
    ax_pass_t *pass = &accel->pass;

    for (; pass->front < model->nparams; pass->front++) {
        const accel_param_t *p =
            model->params[model->nparams - 1 - pass->front];
        if (p->owned && (p->ready != accel->passes + 1 || p->said < p->names))
            return (size_t)(p->grad - model->grads);
    }
    return model->flat;
}

static accel_status_t check(const accel_param_t *param)
{
    const accel_t *accel = param->model->accel;

    if (!accel || accel->model != param->model)
        return ax_fail(ACCEL_ERR_STATE,
                       "step: parameter %s: its model is not prepared",
                       param->name);
    if (accel->begun != 1)
        return ax_fail(ACCEL_ERR_STATE,
                       "step: parameter %s: accel_param_ready() belongs "
                       "between accel_backward_begin() and _end()",
                       param->name);
    return ACCEL_OK;
}

accel_status_t accel_param_ready(accel_param_t *param)
{
    if (!param)
        return ax_fail_null(__func__, "param");
    accel_status_t st = check(param);
    accel_t *accel = param->model->accel;

    if (st != ACCEL_OK)
        return st;
    ax_pass_settle(accel);
    if (param->ready != accel->passes + 1)
        param->said = 0;
    param->ready = accel->passes + 1;
    param->said++;
    if (!ax_pass_ends_group(accel))
        return ACCEL_OK;
    ax_comm_where(accel->comm, AX_IN_BACKWARD);
    ax_fpmode_t mode = ax_fpmode_enter();
    st = ax_bucket_start(accel, ready_elements(accel));
    ax_fpmode_leave(mode);
    ax_comm_where(accel->comm, AX_IN_NOWHERE);
    return st;
}
