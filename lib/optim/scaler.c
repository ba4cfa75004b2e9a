/* The dynamic loss scale. */
#include "optim_priv.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

struct accel_scaler {
    accel_scaler_options_t options;
    accel_scaler_state_t state;
};

/* A scale is used as f32, so it must be one: not 0, subnormal or infinite. */
static bool usable(double scale)
{
    return scale >= (double)FLT_MIN && scale <= (double)FLT_MAX;
}

static void fill_defaults(accel_scaler_options_t *o)
{
    o->init = ax_or(o->init, 65536);
    o->growth = ax_or(o->growth, 2);
    o->backoff = ax_or(o->backoff, 0.5);
    o->interval = ax_or_int(o->interval, 2000);
    o->min = ax_or(o->min, 1);
}

static accel_status_t check(const accel_scaler_options_t *o)
{
    if (!usable(o->min))
        return ax_fail(ACCEL_ERR_ARG,
                       "scaler: min is %g; it must be a normal positive f32",
                       o->min);
    if (!usable(o->init) || o->init < o->min)
        return ax_fail(ACCEL_ERR_ARG,
                       "scaler: init is %g; it must be finite and at least "
                       "min, which is %g",
                       o->init, o->min);
    if (!(isfinite(o->growth) && o->growth > 1))
        return ax_fail(ACCEL_ERR_ARG,
                       "scaler: growth is %g; it must be above 1", o->growth);
    if (!(o->backoff > 0 && o->backoff < 1))
        return ax_fail(ACCEL_ERR_ARG,
                       "scaler: backoff is %g; it must be between 0 and 1",
                       o->backoff);
    if (o->interval == 0)
        return ax_fail(ACCEL_ERR_ARG,
                       "scaler: interval is 0; it must be at least 1 step");
    return ACCEL_OK;
}

accel_status_t accel_scaler_create(const accel_scaler_options_t *options,
                                   accel_scaler_t **out)
{
    accel_scaler_options_t o = ACCEL_SCALER_INIT;
    accel_status_t st;

    *out = NULL;
    if ((st = ax_options_copy(&o, options, sizeof o, "ACCEL_SCALER")) !=
        ACCEL_OK)
        return st;
    fill_defaults(&o);
    if ((st = check(&o)) != ACCEL_OK)
        return st;

    accel_scaler_t *s = calloc(1, sizeof *s);
    if (!s)
        return ax_fail(ACCEL_ERR_NOMEM, "scaler: out of memory");
    s->options = o;
    s->state.scale = o.init;
    *out = s;
    return ACCEL_OK;
}

void accel_scaler_destroy(accel_scaler_t *scaler)
{
    free(scaler);
}

double accel_scaler_scale(const accel_scaler_t *scaler)
{
    return scaler ? scaler->state.scale : 0;
}

static void back_off(accel_scaler_t *s)
{
    double scale = s->state.scale * s->options.backoff;

    s->state.scale = scale > s->options.min ? scale : s->options.min;
    s->state.good = 0;
    s->state.skipped++;
    s->state.row++;
}

static void go_on(accel_scaler_t *scaler)
{
    accel_scaler_state_t *st = &scaler->state;

    st->row = 0;
    if (++st->good < scaler->options.interval)
        return;
    if (usable(st->scale * scaler->options.growth))
        st->scale *= scaler->options.growth;
    st->good = 0;
}

void accel_scaler_update(accel_scaler_t *scaler, bool finite)
{
    if (!scaler)
        return;
    ax_fpmode_t mode = ax_fpmode_enter();

    if (finite)
        go_on(scaler);
    else
        back_off(scaler);
    ax_fpmode_leave(mode);
}

void accel_scaler_get_state(const accel_scaler_t *scaler,
                            accel_scaler_state_t *state)
{
    *state = scaler ? scaler->state : (accel_scaler_state_t){0};
}

accel_status_t ax_scaler_check_state(const accel_scaler_state_t *state)
{
    if (usable(state->scale))
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_ARG,
                   "scaler: a state with scale %g; it must be a normal "
                   "positive f32",
                   state->scale);
}

accel_status_t accel_scaler_set_state(accel_scaler_t *scaler,
                                      const accel_scaler_state_t *state)
{
    if (!scaler)
        return ax_fail_null(__func__, "scaler");
    accel_status_t st = ax_scaler_check_state(state);

    if (st == ACCEL_OK)
        scaler->state = *state;
    return st;
}
