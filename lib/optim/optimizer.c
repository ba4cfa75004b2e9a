/* The optimizer: options, parameters with their moments, and the hooks that
 * an accelerator hangs in. */
#include "optim_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct accel_optimizer {
    accel_optimizer_options_t given;
    accel_optimizer_options_t options; /* the same, defaults filled in */
    double lr;
    uint64_t steps;
    ax_optim_hooks_t hooks;
    bool driven; /* hooks are set */
    ax_optim_slot_t *slots;
    size_t count;
    size_t room;
};

static accel_status_t check_range(const char *name, double value, double low,
                                  double high)
{
    if (value >= low && value <= high)
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_ARG,
                   "optimizer: %s is %g; it must be from %g to %g", name, value,
                   low, high);
}

accel_status_t ax_optimizer_check_lr(double lr)
{
    if (isfinite(lr) && lr >= 0)
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_ARG,
                   "optimizer: the learning rate is %g; it must be finite and "
                   "not negative",
                   lr);
}

/* Those of PyTorch. */
static void fill_defaults(accel_optimizer_options_t *o)
{
    o->lr = ax_or(o->lr, 1e-3);
    o->beta1 = ax_or(o->beta1, 0.9);
    o->beta2 = ax_or(o->beta2, 0.999);
    o->eps = ax_or(o->eps, 1e-8);
    o->weight_decay = ax_or(o->weight_decay, o->kind == ACCEL_ADAMW ? 0.01 : 0);
}

accel_status_t
ax_optimizer_options_resolve(const accel_optimizer_options_t *given,
                             accel_optimizer_options_t *out)
{
    const double below_one = 1 - 0x1p-24; /* the largest f32 below 1 */
    accel_status_t st;

    *out = (accel_optimizer_options_t)ACCEL_OPTIMIZER_INIT;
    st = ax_options_copy(out, given, sizeof *out, "ACCEL_OPTIMIZER");
    if (st != ACCEL_OK)
        return st;
    fill_defaults(out);
    if ((int)out->kind < ACCEL_ADAMW || (int)out->kind > ACCEL_SGD)
        return ax_fail(ACCEL_ERR_ARG,
                       "optimizer: kind %d does not exist; ACCEL_ADAMW, "
                       "ACCEL_ADAM or ACCEL_SGD",
                       (int)out->kind);
    if ((st = ax_optimizer_check_lr(out->lr)) != ACCEL_OK)
        return st;
    if ((st = check_range("beta1", out->beta1, 0, below_one)) != ACCEL_OK ||
        (st = check_range("beta2", out->beta2, 0, below_one)) != ACCEL_OK ||
        (st = check_range("eps", out->eps, 0x1p-126, 1)) != ACCEL_OK ||
        (st = check_range("weight_decay", out->weight_decay, 0, 1e6)) !=
            ACCEL_OK ||
        (st = check_range("momentum", out->momentum, 0, 1)) != ACCEL_OK)
        return st;
    if (out->kind != ACCEL_SGD && (out->momentum != 0 || out->nesterov))
        return ax_fail(ACCEL_ERR_ARG,
                       "optimizer: momentum and nesterov are for ACCEL_SGD; "
                       "use beta1 here");
    if (out->nesterov && out->momentum == 0)
        return ax_fail(ACCEL_ERR_ARG,
                       "optimizer: nesterov needs a momentum above 0");
    return ACCEL_OK;
}

accel_status_t accel_optimizer_create(const accel_optimizer_options_t *options,
                                      accel_optimizer_t **out)
{
    accel_optimizer_options_t given = ACCEL_OPTIMIZER_INIT, resolved;
    accel_status_t st;

    *out = NULL;
    if ((st = ax_optimizer_options_resolve(options, &resolved)) != ACCEL_OK)
        return st;

    accel_optimizer_t *o = calloc(1, sizeof *o);
    if (!o)
        return ax_fail(ACCEL_ERR_NOMEM, "optimizer: out of memory");
    /* was good a moment ago */
    (void)ax_options_copy(&given, options, sizeof given, "ACCEL_OPTIMIZER");
    o->given = given;
    o->options = resolved;
    o->lr = resolved.lr;
    *out = o;
    return ACCEL_OK;
}

void ax_optimizer_clear(accel_optimizer_t *optimizer)
{
    for (size_t i = 0; i < optimizer->count; i++) {
        free(optimizer->slots[i].m);
        free(optimizer->slots[i].v);
    }
    optimizer->count = 0;
}

void accel_optimizer_destroy(accel_optimizer_t *optimizer)
{
    if (!optimizer)
        return;
    if (optimizer->hooks.gone)
        optimizer->hooks.gone(optimizer->hooks.context);
    ax_optimizer_clear(optimizer);
    free(optimizer->slots);
    free(optimizer);
}

static accel_status_t not_prepared(void)
{
    return ax_fail(ACCEL_ERR_STATE,
                   "optimizer: no accelerator drives it; call "
                   "accel_prepare() first, and accel_close() last");
}

accel_status_t accel_optimizer_step(accel_optimizer_t *optimizer)
{
    if (!optimizer)
        return ax_fail_null(__func__, "optimizer");
    if (!optimizer->driven)
        return not_prepared();
    return optimizer->hooks.step(optimizer->hooks.context);
}

accel_status_t accel_optimizer_zero_grad(accel_optimizer_t *optimizer)
{
    if (!optimizer)
        return ax_fail_null(__func__, "optimizer");
    if (!optimizer->driven)
        return not_prepared();
    return optimizer->hooks.zero_grad(optimizer->hooks.context);
}

double accel_optimizer_lr(const accel_optimizer_t *optimizer)
{
    return optimizer ? optimizer->lr : 0;
}

accel_status_t accel_optimizer_set_lr(accel_optimizer_t *optimizer, double lr)
{
    if (!optimizer)
        return ax_fail_null(__func__, "optimizer");
    accel_status_t st = ax_optimizer_check_lr(lr);

    if (st == ACCEL_OK)
        optimizer->lr = lr;
    return st;
}

const accel_optimizer_options_t *
ax_optimizer_given(const accel_optimizer_t *optimizer)
{
    return &optimizer->given;
}

uint64_t accel_optimizer_steps(const accel_optimizer_t *optimizer)
{
    return optimizer ? optimizer->steps : 0;
}

void ax_optimizer_set_hooks(accel_optimizer_t *optimizer,
                            const ax_optim_hooks_t *hooks)
{
    optimizer->driven = hooks != NULL;
    optimizer->hooks = hooks ? *hooks : (ax_optim_hooks_t){0};
}

bool ax_optimizer_moved(const accel_optimizer_t *optimizer)
{
    return !optimizer->driven ||
           optimizer->hooks.moved(optimizer->hooks.context);
}

/* Zeroed, on a cache line. */
static float *new_moments(size_t count)
{
    size_t bytes;

    if (!ax_mul(count, sizeof(float), &bytes) || bytes > SIZE_MAX - 63)
        return NULL;
    bytes = (bytes + 63) & ~(size_t)63;

    float *moments = aligned_alloc(64, bytes ? bytes : 64);
    if (moments)
        memset(moments, 0, bytes);
    return moments;
}

static accel_status_t make_room(accel_optimizer_t *o)
{
    if (o->count < o->room)
        return ACCEL_OK;

    size_t room = o->room ? 2 * o->room : 16;
    ax_optim_slot_t *slots = reallocarray(o->slots, room, sizeof *slots);
    if (!slots)
        return ax_fail(ACCEL_ERR_NOMEM,
                       "optimizer: out of memory for %zu parameters", room);
    o->slots = slots;
    o->room = room;
    return ACCEL_OK;
}

accel_status_t ax_optimizer_add(accel_optimizer_t *optimizer,
                                const ax_optim_slot_t *slot)
{
    bool sgd = optimizer->options.kind == ACCEL_SGD;
    bool needs_m = !sgd || optimizer->options.momentum != 0;
    ax_optim_slot_t added = *slot;
    accel_status_t st = make_room(optimizer);

    if (st != ACCEL_OK)
        return st;
    added.m = needs_m ? new_moments(slot->count) : NULL;
    added.v = sgd ? NULL : new_moments(slot->count);
    if ((needs_m && !added.m) || (!sgd && !added.v)) {
        free(added.m);
        free(added.v);
        return ax_fail(ACCEL_ERR_NOMEM,
                       "optimizer: out of memory for the moments of %s "
                       "(%zu elements)",
                       slot->name, slot->count);
    }
    optimizer->slots[optimizer->count++] = added;
    return ACCEL_OK;
}

size_t ax_optimizer_count(const accel_optimizer_t *optimizer)
{
    return optimizer->count;
}

const ax_optim_slot_t *ax_optimizer_slot(const accel_optimizer_t *optimizer,
                                         size_t index)
{
    return index < optimizer->count ? &optimizer->slots[index] : NULL;
}

accel_status_t ax_optimizer_apply(accel_optimizer_t *optimizer,
                                  float grad_scale)
{
    for (size_t i = 0; i < optimizer->count; i++) {
        const ax_optim_slot_t *s = &optimizer->slots[i];
        accel_status_t st = accel_optim_update(
            &optimizer->options, optimizer->lr, optimizer->steps + 1,
            &(accel_update_t){.master = s->master,
                              .grad = s->grad,
                              .m = s->m,
                              .v = s->v,
                              .compute = s->compute,
                              .compute_dtype = s->compute_dtype,
                              .count = s->count,
                              .grad_scale = grad_scale});
        if (st != ACCEL_OK)
            return ax_fail_prefix(st, "parameter %s", s->name);
    }
    optimizer->steps++;
    return ACCEL_OK;
}

void ax_optimizer_set_steps(accel_optimizer_t *optimizer, uint64_t steps)
{
    optimizer->steps = steps;
}
