/* Tying the program's objects to the accelerator. */
#include "train_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what this rank was given -------------------------------------------- */

static accel_status_t one_only(const char *what)
{
    return ax_fail(ACCEL_ERR_UNSUPPORTED,
                   "prepare: this accelerator has another %s already; one is "
                   "possible in this release",
                   what);
}

static accel_status_t check_optimizer(const accel_t *accel,
                                      const accel_prepare_options_t *o)
{
    if (accel->optimizer && accel->optimizer != o->optimizer)
        return one_only("optimizer");
    if (!accel->model && !o->model)
        return ax_fail(ACCEL_ERR_STATE,
                       "prepare: the optimizer needs a model, in the same "
                       "call or an earlier one");
    if (!accel->optimizer && ax_optimizer_count(o->optimizer) > 0)
        return ax_fail(ACCEL_ERR_STATE,
                       "prepare: the optimizer holds parameters of an earlier "
                       "model; create a new one");
    return ACCEL_OK;
}

static accel_status_t check(const accel_t *accel,
                            const accel_prepare_options_t *o)
{
    if (o->model && accel->model && accel->model != o->model)
        return one_only("model");
    if (o->model && o->model->accel != accel)
        return ax_fail(ACCEL_ERR_ARG,
                       "prepare: the model was created with another "
                       "accelerator");
    if (o->schedule && accel->schedule && accel->schedule != o->schedule)
        return one_only("schedule");
    return o->optimizer ? check_optimizer(accel, o) : ACCEL_OK;
}

/* Checked by each, then the same on all. */
static accel_status_t agree(accel_t *accel, const accel_prepare_options_t *o)
{
    accel_status_t st = ax_comm_agree(accel->comm, check(accel, o));

    return st == ACCEL_OK ? ax_prepare_compare(accel, o) : st;
}

/* ---- the model: rank 0's weights for all --------------------------------- */

static accel_status_t broadcast_weights(const accel_t *accel,
                                        const accel_model_t *model)
{
    accel_status_t st = accel_comm_broadcast(accel->comm, model->master,
                                             model->flat, ACCEL_F32, 0);

    for (size_t i = 0; st == ACCEL_OK && i < model->nparams; i++) {
        const accel_param_t *p = model->params[i];
        if (!p->owned)
            st = accel_comm_broadcast(accel->comm, p->data, p->count, ACCEL_F32,
                                      0);
    }
    return st;
}

static accel_status_t prepare_model(accel_t *accel, accel_model_t *model)
{
    accel_status_t st;

    if (accel->model == model)
        return ACCEL_OK;
    if (!model->built && (st = accel_model_build(model)) != ACCEL_OK)
        return st;
    if ((st = broadcast_weights(accel, model)) != ACCEL_OK ||
        (st = ax_model_round(model)) != ACCEL_OK ||
        (st = ax_wire_open(accel, model)) != ACCEL_OK)
        return st;
    accel->model = model;
    return ACCEL_OK;
}

/* ---- the others: local --------------------------------------------------- */

static void optimizer_gone(void *context)
{
    accel_t *accel = context;

    accel->optimizer = NULL;
    accel->take_optimizer = false;
}

static void schedule_gone(void *context)
{
    accel_t *accel = context;

    accel->schedule = NULL;
    accel->take_schedule = false;
}

static void loader_gone(void *context, const accel_loader_t *loader)
{
    accel_t *accel = context;
    size_t i = 0;

    while (accel->loaders[i] != loader)
        i++;
    /* The order is the key of the loaders' states in checkpoints. */
    memmove(&accel->loaders[i], &accel->loaders[i + 1],
            (accel->nloaders - i - 1) * sizeof(accel_loader_t *));
    accel->nloaders--;
    if (accel->source == loader)
        accel->source = NULL;
}

static accel_status_t tie_optimizer(accel_t *accel, accel_optimizer_t *opt)
{
    const accel_model_t *model = accel->model;
    accel_status_t st = ACCEL_OK;

    if (accel->optimizer == opt)
        return ACCEL_OK;
    for (size_t i = 0; st == ACCEL_OK && i < model->nparams; i++) {
        const accel_param_t *p = model->params[i];
        bool rounds = model->compute != NULL;
        st = ax_optimizer_add(
            opt, &(ax_optim_slot_t){.name = p->name,
                                    .master = p->data,
                                    .grad = p->grad,
                                    .compute = rounds ? p->compute : NULL,
                                    .compute_dtype = accel->dtype,
                                    .count = p->count});
    }
    if (st != ACCEL_OK) {
        ax_optimizer_clear(opt);
        return st;
    }
    ax_optimizer_set_hooks(opt,
                           &(ax_optim_hooks_t){.step = ax_step,
                                               .zero_grad = ax_step_zero_grad,
                                               .moved = ax_step_moved,
                                               .gone = optimizer_gone,
                                               .context = accel});
    accel->optimizer = opt;
    return ACCEL_OK;
}

/* For loaders with `dispatch`. */
static accel_status_t broadcast_from_main(void *context, void *data,
                                          size_t bytes)
{
    accel_comm_t *comm = ((accel_t *)context)->comm;
    ax_where_t was = ax_comm_where(comm, AX_IN_NEXT);
    accel_status_t st = accel_comm_broadcast(comm, data, bytes, ACCEL_U8, 0);

    ax_comm_where(comm, was);
    return st;
}

static accel_status_t scatter_from_main(void *context, const void *all,
                                        void *mine, size_t bytes)
{
    accel_comm_t *comm = ((accel_t *)context)->comm;
    ax_where_t was = ax_comm_where(comm, AX_IN_NEXT);
    accel_status_t st = accel_comm_scatter(comm, all, mine, bytes, ACCEL_U8, 0);

    ax_comm_where(comm, was);
    return st;
}

/* What one rank cannot read, none can go on without. */
static accel_status_t tell_others(void *context, accel_status_t st)
{
    return ax_comm_fail(((accel_t *)context)->comm, st);
}

static accel_status_t check_others(void *context)
{
    return ax_comm_check(((accel_t *)context)->comm);
}

void ax_untie_loader(accel_loader_t *loader)
{
    ax_loader_set_owner(loader, NULL, NULL);
    ax_loader_set_scatter(loader, &(ax_scatter_t){0});
    ax_loader_set_watch(loader, &(ax_watch_t){0});
    ax_loader_set_trains(loader, false);
}

/* The place that a checkpoint had for it, when it was loaded before. One of
 * other data, to evaluate with, begins at its start. */
static accel_status_t put_in_place(const accel_t *accel, size_t at)
{
    accel_loader_t *loader = accel->loaders[at];
    accel_status_t st = ACCEL_OK;

    if (at >= accel->nplaces)
        return st;
    if (ax_loader_check_state(loader, &accel->places[at]) == ACCEL_OK)
        st = accel_loader_set_state(loader, &accel->places[at]);
    else if (accel_is_main(accel))
        ax_log(AX_LOG_NOTE,
               "prepare: loader %zu begins at its start, not at the place in "
               "the checkpoint: %s",
               at, accel_last_error()->text);
    return st;
}

static accel_status_t tie_loader(accel_t *accel, accel_loader_t *loader)
{
    uint64_t seed = (uint64_t)ax_settings_int(accel->settings, "seed");
    accel_status_t st;

    if (ax_is_tied(accel, loader))
        return ACCEL_OK;
    accel_loader_t **more =
        reallocarray(accel->loaders, accel->nloaders + 1, sizeof(*more));
    if (!more)
        return ax_fail(ACCEL_ERR_NOMEM, "prepare: out of memory");
    accel->loaders = more;
    ax_loader_set_default_seed(loader, seed);
    ax_loader_set_scatter(loader,
                          &(ax_scatter_t){.broadcast = broadcast_from_main,
                                          .scatter = scatter_from_main,
                                          .context = accel});
    st = accel_loader_set_rank(loader, accel_rank(accel), accel_size(accel));
    if (st != ACCEL_OK)
        return st;
    ax_loader_set_watch(loader, &(ax_watch_t){.check = check_others,
                                              .failed = tell_others,
                                              .context = accel});
    ax_loader_set_owner(loader, loader_gone, accel);
    accel->loaders[accel->nloaders++] = loader;
    return put_in_place(accel, accel->nloaders - 1);
}

/* Agreed one after the other, so that all ranks have come equally far. */
static accel_status_t tie(accel_t *accel, const accel_prepare_options_t *o)
{
    accel_status_t st = ACCEL_OK;

    if (o->optimizer)
        st = tie_optimizer(accel, o->optimizer);
    if ((st = ax_comm_agree(accel->comm, st)) != ACCEL_OK)
        return st;
    if (o->loader)
        st = tie_loader(accel, o->loader);
    if ((st = ax_comm_agree(accel->comm, st)) != ACCEL_OK)
        return st;
    if (o->schedule) {
        ax_schedule_set_owner(o->schedule, schedule_gone, accel);
        accel->schedule = o->schedule;
    }
    return ACCEL_OK;
}

/* In other precisions the options are checked and then not used, so that one
 * program runs in all. */
static void take_scaler(accel_t *accel, accel_scaler_t *scaler)
{
    if (!scaler)
        return;
    if (accel->scaler && accel->steps == 0) {
        accel_scaler_destroy(accel->scaler);
        accel->scaler = scaler;
    } else {
        accel_scaler_destroy(scaler);
    }
}

/* From now on accel_close() destroys them. */
static void take_objects(accel_t *accel, const accel_prepare_options_t *o)
{
    if (o->model)
        o->model->taken = true;
    if (o->loader)
        ax_loader_take(o->loader);
    accel->take_optimizer = accel->take_optimizer || o->optimizer;
    accel->take_schedule = accel->take_schedule || o->schedule;
}

/* ---- all or nothing ------------------------------------------------------ */

/* What was tied before the call. */
typedef struct ties {
    accel_model_t *model;
    accel_optimizer_t *optimizer;
    accel_schedule_t *schedule;
    size_t nloaders;
} ties_t;

/* One rank's failure is that of all: without this the others would have tied
 * what that one has not. */
static void untie(accel_t *accel, const ties_t *before)
{
    accel->model = before->model;
    if (accel->optimizer != before->optimizer) {
        ax_optimizer_set_hooks(accel->optimizer, NULL);
        ax_optimizer_clear(accel->optimizer);
        accel->optimizer = before->optimizer;
    }
    while (accel->nloaders > before->nloaders)
        ax_untie_loader(accel->loaders[--accel->nloaders]);
    if (accel->schedule != before->schedule) {
        ax_schedule_set_owner(accel->schedule, NULL, NULL);
        accel->schedule = before->schedule;
    }
}

static accel_status_t prepare(accel_t *accel, const accel_prepare_options_t *o)
{
    const ties_t before = {.model = accel->model,
                           .optimizer = accel->optimizer,
                           .schedule = accel->schedule,
                           .nloaders = accel->nloaders};
    accel_scaler_t *scaler = NULL;
    accel_status_t st = agree(accel, o);

    if (st != ACCEL_OK)
        return st;
    if (o->scaler)
        st = accel_scaler_create(o->scaler, &scaler);
    st = ax_comm_agree(accel->comm, st);
    if (st == ACCEL_OK && o->model)
        st = prepare_model(accel, o->model);
    if (st == ACCEL_OK)
        st = tie(accel, o);
    if (st == ACCEL_OK) {
        /* Named by what it comes with: others, for a test set, end no group. */
        if (o->loader && (o->model || o->optimizer))
            ax_loader_set_trains(o->loader, true);
        take_scaler(accel, scaler);
        if (o->take)
            take_objects(accel, o);
        return ACCEL_OK;
    }
    untie(accel, &before);
    accel_scaler_destroy(scaler);
    return st;
}

accel_status_t accel_prepare(accel_t *accel,
                             const accel_prepare_options_t *options)
{
    accel_prepare_options_t o = ACCEL_PREPARE_INIT;
    accel_status_t st;

    if (!accel)
        return ax_fail_null(__func__, "accel");
    ax_comm_where(accel->comm, AX_IN_PREPARE);
    st = ax_options_copy(&o, options, sizeof o, "ACCEL_PREPARE");
    if ((st = ax_comm_agree(accel->comm, st)) == ACCEL_OK)
        st = prepare(accel, &o);
    ax_comm_where(accel->comm, AX_IN_NOWHERE);
    return st;
}
