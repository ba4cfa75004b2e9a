/* One update of a flat buffer: the rule's numbers, then block by block. */
#include "optim_priv.h"

#include <math.h>

/*
 * A block's masters are still in the first-level cache when they are rounded
 * to the compute type, so memory sees one pass.
 */
#define BLOCK ((size_t)1024)

static kernel_kind_t pick_kernel(const accel_optimizer_options_t *o)
{
    if (o->kind == ACCEL_ADAMW)
        return KERNEL_ADAMW;
    if (o->kind == ACCEL_ADAM)
        return KERNEL_ADAM;
    if (o->momentum == 0)
        return KERNEL_SGD_PLAIN;
    return o->nesterov ? KERNEL_SGD_NESTEROV : KERNEL_SGD_MOMENTUM;
}

static rule_t work_out_rule(const accel_optimizer_options_t *o, double lr,
                            uint64_t step, float grad_scale)
{
    rule_t r = {.grad_scale = grad_scale, .decay = (float)o->weight_decay};

    if (o->kind == ACCEL_SGD) {
        r.beta1 = (float)o->momentum;
        r.rate = (float)lr;
        return r;
    }
    r.keep = (float)(1 - lr * o->weight_decay);
    r.beta1 = (float)o->beta1;
    r.beta2 = (float)o->beta2;
    r.beta1_new = (float)(1 - o->beta1);
    r.beta2_new = (float)(1 - o->beta2);
    r.rate = (float)(lr / (1 - pow(o->beta1, (double)step)));
    r.root = (float)(1 / sqrt(1 - pow(o->beta2, (double)step)));
    r.eps = (float)o->eps;
    return r;
}

static accel_status_t check_buffers(const accel_update_t *u, kernel_kind_t kind)
{
    bool needs_m = kind != KERNEL_SGD_PLAIN;
    bool needs_v = kind == KERNEL_ADAMW || kind == KERNEL_ADAM;
    const char *missing = NULL;

    if (u->compute && u->compute_dtype != ACCEL_F16 &&
        u->compute_dtype != ACCEL_BF16)
        return ax_fail(ACCEL_ERR_ARG,
                       "optim: the compute type is %s; f16 or bf16, or no "
                       "compute buffer",
                       accel_dtype_name(u->compute_dtype));
    if (!u->master)
        missing = "master";
    else if (!u->grad)
        missing = "grad";
    else if (needs_m && !u->m)
        missing = "m";
    else if (needs_v && !u->v)
        missing = "v";
    if (missing && u->count)
        return ax_fail(ACCEL_ERR_ARG,
                       "optim: update of %zu parameters without buffer %s",
                       u->count, missing);
    return ACCEL_OK;
}

static accel_status_t update_block(const accel_update_t *u, const rule_t *rule,
                                   kernel_fn kernel, size_t at)
{
    size_t n = u->count - at < BLOCK ? u->count - at : BLOCK;

    kernel(rule, u->master + at, u->grad + at, u->m ? u->m + at : NULL,
           u->v ? u->v + at : NULL, n);
    if (!u->compute)
        return ACCEL_OK;
    return accel_convert((uint16_t *)u->compute + at, u->compute_dtype,
                         u->master + at, ACCEL_F32, n);
}

accel_status_t accel_optim_update(const accel_optimizer_options_t *options,
                                  double lr, uint64_t step,
                                  const accel_update_t *update)
{
    accel_optimizer_options_t o;
    accel_status_t st;

    if ((st = ax_optimizer_options_resolve(options, &o)) != ACCEL_OK)
        return st;
    if ((st = ax_optimizer_check_lr(lr)) != ACCEL_OK)
        return st;
    if (step == 0)
        return ax_fail(ACCEL_ERR_ARG, "optim: step is 0; steps count from 1");

    kernel_kind_t kind = pick_kernel(&o);
    if ((st = check_buffers(update, kind)) != ACCEL_OK)
        return st;

    kernel_fn kernel = ax_optim_kernels()->update[kind];
    ax_fpmode_t mode = ax_fpmode_enter();
    rule_t rule = work_out_rule(&o, lr, step, update->grad_scale);
    for (size_t at = 0; at < update->count && st == ACCEL_OK; at += BLOCK)
        st = update_block(update, &rule, kernel, at);
    ax_fpmode_leave(mode);
    return st;
}

void accel_optim_inspect(const float *grad, size_t count, double *sum_squares,
                         bool *finite)
{
    /* The square of the largest f32 is 1e77, so only an infinity or a NaN
     * among the elements can make an f64 sum of squares anything but finite. */
    ax_fpmode_t mode = ax_fpmode_enter();

    *sum_squares = ax_optim_kernels()->sum_squares(grad, count);
    ax_fpmode_leave(mode);
    *finite = isfinite(*sum_squares);
}

uint32_t ax_optim_largest(const float *grad, size_t count)
{
    return ax_optim_kernels()->largest(grad, count);
}
