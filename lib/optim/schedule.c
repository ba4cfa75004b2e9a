/* Learning-rate schedules: a pure function of the updates made, and the
 * object that counts them. */
#include "optim_priv.h"

#include <math.h>
#include <stdlib.h>

struct accel_schedule {
    accel_schedule_options_t given;
    accel_schedule_options_t options; /* the same, lr filled in */
    accel_optimizer_t *optimizer;
    uint64_t steps;
    void (*gone)(void *context);
    void *owner;
};

/* What is left of the way from warm-up to the end: 1 at first, 0 at last. */
static double left_of(const accel_schedule_options_t *o, uint64_t done)
{
    return (double)(o->total - done) / (double)(o->total - o->warmup);
}

static double value(const accel_schedule_options_t *o, uint64_t done)
{
    double lr = ax_or(o->lr, 1);

    if (done < o->warmup)
        return lr * (double)(done + 1) / (double)o->warmup;
    if (o->kind == ACCEL_CONSTANT)
        return lr;
    if (done >= o->total)
        return lr * o->end;

    double left = left_of(o, done);
    if (o->kind == ACCEL_COSINE)
        left = (1 + cos(acos(-1) * (1 - left))) / 2;
    return lr * (o->end + (1 - o->end) * left);
}

double accel_schedule_value(const accel_schedule_options_t *options,
                            uint64_t done)
{
    if (!options)
        return 0;
    ax_fpmode_t mode = ax_fpmode_enter();
    double lr = value(options, done);

    ax_fpmode_leave(mode);
    return lr;
}

static accel_status_t check(const accel_schedule_options_t *o)
{
    if ((int)o->kind < ACCEL_CONSTANT || (int)o->kind > ACCEL_COSINE)
        return ax_fail(ACCEL_ERR_ARG,
                       "schedule: kind %d does not exist; ACCEL_CONSTANT, "
                       "ACCEL_LINEAR or ACCEL_COSINE",
                       (int)o->kind);
    if (o->kind != ACCEL_CONSTANT && o->total == 0)
        return ax_fail(ACCEL_ERR_ARG,
                       "schedule: total is 0; say after how many updates the "
                       "rate reaches its end");
    if (o->kind != ACCEL_CONSTANT && o->warmup > o->total)
        return ax_fail(ACCEL_ERR_ARG,
                       "schedule: warmup %llu is more than total %llu, which "
                       "includes it",
                       (unsigned long long)o->warmup,
                       (unsigned long long)o->total);
    if (!(o->end >= 0 && o->end <= 1))
        return ax_fail(ACCEL_ERR_ARG,
                       "schedule: end is %g; it is a fraction of lr, from 0 "
                       "to 1",
                       o->end);
    return ax_optimizer_check_lr(o->lr);
}

accel_status_t accel_schedule_create(accel_optimizer_t *optimizer,
                                     const accel_schedule_options_t *options,
                                     accel_schedule_t **out)
{
    accel_schedule_options_t o = ACCEL_SCHEDULE_INIT, given;
    accel_status_t st;

    *out = NULL;
    if (!optimizer)
        return ax_fail_null(__func__, "optimizer");
    if ((st = ax_options_copy(&o, options, sizeof o, "ACCEL_SCHEDULE")) !=
        ACCEL_OK)
        return st;
    given = o;
    o.lr = ax_or(o.lr, accel_optimizer_lr(optimizer));
    if ((st = check(&o)) != ACCEL_OK)
        return st;

    accel_schedule_t *s = calloc(1, sizeof *s);
    if (!s)
        return ax_fail(ACCEL_ERR_NOMEM, "schedule: out of memory");
    s->given = given;
    s->options = o;
    s->optimizer = optimizer;
    ax_schedule_set_steps(s, 0);
    *out = s;
    return ACCEL_OK;
}

void accel_schedule_destroy(accel_schedule_t *schedule)
{
    if (schedule && schedule->gone)
        schedule->gone(schedule->owner);
    free(schedule);
}

accel_status_t accel_schedule_step(accel_schedule_t *schedule)
{
    if (!schedule)
        return ax_fail_null(__func__, "schedule");
    if (ax_optimizer_moved(schedule->optimizer))
        ax_schedule_set_steps(schedule, schedule->steps + 1);
    return ACCEL_OK;
}

const accel_schedule_options_t *
ax_schedule_given(const accel_schedule_t *schedule)
{
    return &schedule->given;
}

uint64_t accel_schedule_steps(const accel_schedule_t *schedule)
{
    return schedule ? schedule->steps : 0;
}

void ax_schedule_set_steps(accel_schedule_t *schedule, uint64_t steps)
{
    schedule->steps = steps;
    /* Cannot fail: the options were checked, and a fraction of a finite rate
     * is finite. */
    accel_optimizer_set_lr(schedule->optimizer,
                           accel_schedule_value(&schedule->options, steps));
}

void ax_schedule_set_owner(accel_schedule_t *schedule,
                           void (*gone)(void *context), void *context)
{
    schedule->gone = gone;
    schedule->owner = context;
}
