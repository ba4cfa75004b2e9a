/*
 * The step: which backward pass ends a group, and what happens to its
 * gradients. All ranks must decide alike, so everything that a decision hangs
 * on goes through one small all-reduce; and all numbers are worked out in the
 * library's floating-point mode, whatever that of a rank's program.
 */
#include "train_priv.h"

#include <math.h>
#include <string.h>

void ax_step_reset(accel_t *accel)
{
    accel->source = NULL;
    accel->micro = 0;
    accel->begun = 0;
    accel->total = 0;
    accel->joined = 0;
    accel->complete = true; /* zero_grad() before the first pass is usual */
    accel->stepped = true;
    accel->moved = false;
    accel->stale = false;
    accel->unscale = 1;
    accel->verdict = (ax_verdict_t){0};
}

/* ---- the accumulation group ---------------------------------------------- */

static double loss_scale(const accel_t *accel)
{
    return accel->scaler ? accel_scaler_scale(accel->scaler) : 1;
}

static float begin(accel_t *accel)
{
    if (accel->complete && accel->begun == 0) {
        accel->micro = 0;
        accel->total = 0;
        accel->complete = false;
        accel->stepped = false;
        accel->unscale = 1 / loss_scale(accel);
        accel->verdict.known = false;
        accel->bad_alone = false;
    }
    accel->moved = false;
    accel->begun++;
    accel->pass = (ax_pass_t){0};
    return (float)loss_scale(accel);
}

float accel_backward_begin(accel_t *accel)
{
    if (!accel) {
        ax_fail_null(__func__, "accel");
        return 0;
    }
    ax_fpmode_t mode = ax_fpmode_enter();
    float seed = begin(accel);

    ax_fpmode_leave(mode);
    return seed;
}

static accel_status_t check_end(accel_t *accel)
{
    int begun = accel->begun;

    accel->begun = 0;
    if (!accel->model)
        return ax_fail(ACCEL_ERR_STATE,
                       "step: no model: give one to accel_prepare() first");
    if (accel->stale)
        return ax_fail(ACCEL_ERR_STATE,
                       "step: computed with the weights from before the last "
                       "update: call accel_model_round() after it");
    if (begun == 1)
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_STATE,
                   "step: accel_backward_end() after %d calls of "
                   "accel_backward_begin(); one belongs to each",
                   begun);
}

/* When ranks have unequal numbers of batches, one is gone or elsewhere. */
static accel_status_t blame(const accel_t *accel, accel_status_t st)
{
    if (st != ACCEL_ERR_PEER && st != ACCEL_ERR_PROTO)
        return st;
    /* one that was killed did not run out of data */
    bool fewer = st == ACCEL_ERR_PROTO ||
                 strstr(accel_last_error()->text, "has left") != NULL;
    return ax_fail_prefix(
        st, "after %llu batches%s", (unsigned long long)accel->synced,
        fewer ? " (accel_join() is for ranks that have fewer)" : "");
}

static accel_status_t end(accel_t *accel)
{
    accel_status_t st = check_end(accel);

    if (st != ACCEL_OK) {
        ax_bucket_land(accel);
        return st;
    }
    ax_pass_settle(accel);
    bool ends = ax_pass_ends_group(accel);
    if (ends) {
        ax_comm_where(accel->comm, AX_IN_BACKWARD);
        st = ax_bucket_average(accel);
    }
    accel->micro++;
    accel->passes++;
    accel->total += (uint64_t)accel->pass.ranks;
    accel->joined = 0;
    if (!ends)
        return ACCEL_OK;
    ax_comm_where(accel->comm, AX_IN_NOWHERE);
    accel->complete = st == ACCEL_OK;
    if (st != ACCEL_OK)
        return blame(accel, st);
    accel->synced = accel->passes;
    return ACCEL_OK;
}

accel_status_t accel_backward_end(accel_t *accel)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    ax_fpmode_t mode = ax_fpmode_enter();
    accel_status_t st = end(accel);

    ax_fpmode_leave(mode);
    return st;
}

bool accel_sync_gradients(const accel_t *accel)
{
    return accel && accel->complete;
}

int accel_accumulate(const accel_t *accel)
{
    return accel ? accel->accumulate : 0;
}

accel_status_t accel_set_accumulate(accel_t *accel, int count)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    if (count < 1)
        return ax_fail(ACCEL_ERR_ARG,
                       "step: accumulate is %d; it must be at least 1", count);
    if (!accel->complete)
        return ax_fail(ACCEL_ERR_STATE,
                       "step: accumulate cannot change inside a group: %d of "
                       "%d batches are done",
                       accel->micro, accel->accumulate);
    accel->accumulate = count;
    return ACCEL_OK;
}

accel_status_t ax_step_zero_grad(void *context)
{
    accel_t *accel = context;

    if (!accel->complete)
        return ACCEL_OK;
    for (size_t i = 0; i < accel->model->npieces; i++) {
        ax_piece_t p = accel->model->pieces[i];
        memset(p.data, 0, p.count * sizeof(float));
    }
    accel->verdict.known = false;
    return ACCEL_OK;
}

/* ---- the verdict --------------------------------------------------------- */

/* Fields of the all-reduce. It takes maxima: the maximum of the negative is
 * the minimum, and where both must be equal the ranks agree. */
enum {
    BAD = 0, /* an infinity or NaN in my gradients: 1; in those that I brought
                to the exchange: more, and most on rank 0 */
    STOP,
    NORM,
    NORM_LEAST,
    MICRO,
    MICRO_LEAST,
    STEPS,
    STEPS_LEAST,
    FIELDS
};

static void inspect(const accel_t *accel, double *fields)
{
    double sum = 0;
    bool finite = true;

    for (size_t i = 0; accel->model && i < accel->model->npieces; i++) {
        ax_piece_t p = accel->model->pieces[i];
        double part;
        bool good;
        accel_optim_inspect(p.data, p.count, &part, &good);
        sum += part;
        finite = finite && good;
    }
    bool alone = accel->bad_alone || accel_size(accel) == 1;
    if (!finite)
        fields[BAD] = alone ? 1 + accel_size(accel) - accel_rank(accel) : 1;
    fields[NORM] = finite ? sqrt(sum) : 0;
}

static accel_status_t check_alike(const accel_t *accel, const double *f)
{
    if (f[STEPS] != -f[STEPS_LEAST])
        return ax_fail(ACCEL_ERR_PROTO,
                       "step: the ranks are at different steps, %.0f to %.0f "
                       "(this one at %llu): did all load the same checkpoint?",
                       -f[STEPS_LEAST], f[STEPS],
                       (unsigned long long)accel->steps);
    if (f[MICRO] != -f[MICRO_LEAST])
        return ax_fail(ACCEL_ERR_PROTO,
                       "step: the ranks accumulated %.0f to %.0f batches (this "
                       "one %d): use the same accumulate and as many batches "
                       "on all",
                       -f[MICRO_LEAST], f[MICRO], accel->micro);
    /* Sums may be taken in another order on another kind of processor. */
    if (f[BAD] == 0 && f[NORM] + f[NORM_LEAST] > 1e-6 * f[NORM])
        return ax_fail(ACCEL_ERR_PROTO,
                       "step: the averaged gradients differ between ranks, "
                       "their norms are %g to %g: change them after "
                       "accel_backward_end() on all ranks alike, or not at all",
                       -f[NORM_LEAST], f[NORM]);
    return ACCEL_OK;
}

static void take_stop(accel_t *accel, int wanted)
{
    if (wanted == 0 || accel->stop)
        return;
    accel->stop = true;
    if (!accel_is_main(accel))
        return;
    if (wanted == AX_STOP_TIME) {
        char why[256];
        ax_deadline_describe(why, sizeof why);
        ax_log(AX_LOG_WARN,
               "step: the time limit is near; stopping after step %llu (%s)",
               (unsigned long long)accel->steps + 1, why);
    } else
        ax_log(AX_LOG_WARN,
               "step: a rank got signal %d (%s); stopping "
               "after step %llu",
               wanted, strsignal(wanted), (unsigned long long)accel->steps + 1);
}

/* -1: nobody, or nobody looked, which only steps in a row do. */
static int culprit(const accel_t *accel, double bad)
{
    return bad > 1 ? 1 + accel_size(accel) - (int)bad : -1;
}

/* Looks at the gradients once, with all ranks. Collective. */
static accel_status_t decide(accel_t *accel, ax_where_t where)
{
    if (accel->verdict.known)
        return ACCEL_OK;
    double fields[FIELDS] = {
        [STOP] = ax_stop_wanted(),
        [MICRO] = accel->micro,
        [MICRO_LEAST] = -accel->micro,
        [STEPS] = (double)accel->steps,
        [STEPS_LEAST] = -(double)accel->steps,
    };
    accel_status_t st;

    inspect(accel, fields);
    fields[NORM_LEAST] = -fields[NORM];
    ax_comm_where(accel->comm, where);
    st = accel_comm_allreduce(accel->comm, fields, fields, FIELDS, ACCEL_F64,
                              ACCEL_MAX);
    ax_comm_where(accel->comm, AX_IN_NOWHERE);
    if (st != ACCEL_OK || (st = check_alike(accel, fields)) != ACCEL_OK)
        return st;
    if ((int)fields[STOP] == AX_STOP_NEVER)
        return ax_deadline_refuse();
    accel->verdict = (ax_verdict_t){.known = true,
                                    .finite = fields[BAD] == 0,
                                    .norm = fields[NORM],
                                    .culprit = culprit(accel, fields[BAD]),
                                    .stop = (int)fields[STOP]};
    return ACCEL_OK;
}

/* ---- clipping ------------------------------------------------------------ */

/* As PyTorch has it: the small number keeps rounding from leaving a norm above
 * the limit. */
static double clip_factor(double norm, double limit)
{
    double factor = limit / (norm + 1e-6);

    return factor < 1 ? factor : 1;
}

static void multiply(const accel_model_t *model, double by)
{
    float factor = (float)by;

    for (size_t i = 0; factor != 1 && i < model->npieces; i++) {
        ax_piece_t p = model->pieces[i];
        for (size_t k = 0; k < p.count; k++)
            p.data[k] *= factor;
    }
}

static accel_status_t clip(accel_t *accel, double max_norm, double *norm)
{
    accel_status_t st = decide(accel, AX_IN_CLIP);

    if (st != ACCEL_OK)
        return st;
    bool finite = accel->verdict.finite;
    double before = finite ? accel->verdict.norm * accel->unscale : INFINITY;
    if (norm)
        *norm = before;
    if (!finite) /* the step will be skipped */
        return ACCEL_OK;
    double factor = clip_factor(before, max_norm);
    multiply(accel->model, accel->unscale * factor);
    accel->unscale = 1;
    accel->verdict.norm = before * factor;
    return ACCEL_OK;
}

accel_status_t accel_clip_grad_norm(accel_t *accel, double max_norm,
                                    double *norm)
{
    if (norm)
        *norm = 0;
    if (!accel)
        return ax_fail_null(__func__, "accel");
    if (!(max_norm > 0))
        return ax_fail(ACCEL_ERR_ARG,
                       "clip_grad_norm: the limit is %g; it must be above 0",
                       max_norm);
    if (!accel->complete || accel->stepped)
        return ACCEL_OK;
    ax_fpmode_t mode = ax_fpmode_enter();
    accel_status_t st = clip(accel, max_norm, norm);

    ax_fpmode_leave(mode);
    return st;
}

/* ---- the step ------------------------------------------------------------ */

static const char *first_bad(const accel_model_t *model)
{
    for (size_t i = 0; i < model->nparams; i++) {
        const accel_param_t *p = model->params[i];
        double sum;
        bool finite;
        accel_optim_inspect(p->grad, p->count, &sum, &finite);
        if (!finite)
            return p->name;
    }
    return "another rank's gradients";
}

/* Lowering the scale cures an overflow of the program's 16 bits. What the
 * lowest one does not cure the program brought, or the sum over the ranks. */
static accel_status_t give_up(const accel_t *accel)
{
    unsigned long long row = accel->row, steps = accel->steps;
    int culprit = accel->verdict.culprit;
    char who[96];

    if (culprit < 0)
        return ax_fail(ACCEL_ERR_OVERFLOW,
                       "step: %llu steps in a row were skipped at the lowest "
                       "loss scale, %g: the gradients were finite on every "
                       "rank and are not since they were added up, as %s "
                       "(the setting wire); first in that of %s at step %llu: "
                       "divide the loss",
                       row, loss_scale(accel), accel_dtype_name(accel->wire),
                       first_bad(accel->model), steps);
    return ax_fail(ACCEL_ERR_OVERFLOW,
                   "step: %llu steps in a row were skipped at the lowest loss "
                   "scale, %g: this is NaN or infinity from the program, on "
                   "%s before anything was added up; first in the gradient of "
                   "%s at step %llu",
                   row, loss_scale(accel),
                   ax_job_who(accel->job, culprit, who, sizeof who),
                   first_bad(accel->model), steps);
}

static accel_status_t skip(accel_t *accel, bool lowest)
{
    accel->skipped++;
    accel->skipped_last = true;
    accel->row = lowest ? accel->row + 1 : 0;
    ax_log(AX_LOG_INFO, "step: %llu skipped: infinity or NaN in %s",
           (unsigned long long)accel->steps, first_bad(accel->model));
    return accel->row < AX_MAX_ROW ? ACCEL_OK : give_up(accel);
}

/* What takes the loss scale off the gradients, and clips them. */
static double grad_factor(const accel_t *accel)
{
    double factor = accel->unscale;

    if (accel->clip > 0)
        factor *= clip_factor(accel->verdict.norm * factor, accel->clip);
    return factor;
}

/* One try at a step. True: the scale cannot get any lower. */
static bool update_scale(accel_t *accel, bool finite)
{
    if (!accel->scaler)
        return true;

    double before = accel_scaler_scale(accel->scaler);
    accel_scaler_update(accel->scaler, finite);
    return accel_scaler_scale(accel->scaler) == before;
}

/* All of a step but the update. *real: there is to be one. A program without
 * a model has steps, too, and may be told to stop. */
static accel_status_t settle(accel_t *accel, bool *real)
{
    accel_status_t st;

    *real = accel->moved = false;
    if (!accel->complete)
        return ACCEL_OK;
    if (accel->stepped && accel->model)
        return ax_fail(ACCEL_ERR_STATE,
                       "step: no backward pass since the last step");
    if ((st = decide(accel, AX_IN_STEP)) != ACCEL_OK)
        return st;
    if ((st = ax_weights_check(accel)) != ACCEL_OK)
        return st;
    take_stop(accel, accel->verdict.stop);
    accel->steps++;
    accel->stepped = true;

    bool finite = accel->verdict.finite;
    bool lowest = update_scale(accel, finite);
    accel->verdict.known = accel->model != NULL; /* else the next is new */
    if (!finite)
        return skip(accel, lowest);
    accel->skipped_last = false;
    accel->row = 0;
    *real = true;
    return ACCEL_OK;
}

static accel_status_t step(accel_t *accel)
{
    bool real;
    accel_status_t st = settle(accel, &real);

    if (st != ACCEL_OK || !real)
        return st;
    st = ax_optimizer_apply(accel->optimizer, (float)grad_factor(accel));
    accel->moved = st == ACCEL_OK;
    return st;
}

accel_status_t ax_step(void *context)
{
    ax_fpmode_t mode = ax_fpmode_enter();
    accel_status_t st = step(context);

    ax_fpmode_leave(mode);
    return st;
}

static accel_status_t own_step(accel_t *accel, bool *update)
{
    accel_status_t st = settle(accel, update);

    if (st != ACCEL_OK || !*update || !accel->model)
        return st;
    multiply(accel->model, grad_factor(accel));
    accel->unscale = 1;
    accel->stale = accel->model->compute != NULL;
    return ACCEL_OK;
}

accel_status_t accel_step(accel_t *accel, bool *update)
{
    *update = false;
    if (!accel)
        return ax_fail_null(__func__, "accel");
    if (accel->optimizer)
        return ax_fail(ACCEL_ERR_STATE,
                       "step: accel_step() is for an optimizer of the "
                       "program's own; the prepared one has "
                       "accel_optimizer_step()");
    ax_fpmode_t mode = ax_fpmode_enter();
    accel_status_t st = own_step(accel, update);

    ax_fpmode_leave(mode);
    return st;
}

bool ax_step_moved(void *context)
{
    return ((accel_t *)context)->moved;
}

bool accel_step_was_skipped(const accel_t *accel)
{
    return accel && accel->skipped_last;
}

uint64_t accel_steps_skipped(const accel_t *accel)
{
    return accel ? accel->skipped : 0;
}

double accel_loss_scale(const accel_t *accel)
{
    return accel ? loss_scale(accel) : 0;
}

uint64_t accel_steps(const accel_t *accel)
{
    return accel ? accel->steps : 0;
}

bool accel_should_stop(const accel_t *accel)
{
    return accel && accel->stop;
}
