/* Opening and closing an accelerator, and what it says about itself. */
#include "train_priv.h"

#include <stdlib.h>
#include <string.h>

/* Signals, PMIx and the error log are the process's: one at a time. */
static accel_t *opened;

static ax_level_t log_level(const accel_settings_t *settings)
{
    static const char *const names[] = {
        [AX_LOG_ERROR] = "error",
        [AX_LOG_WARN] = "warn",
        [AX_LOG_INFO] = "info",
        [AX_LOG_DEBUG] = "debug",
    };
    const char *name = ax_settings_str(settings, "log");

    for (size_t i = 0; i < AX_ARRAY_SIZE(names); i++)
        if (names[i] && strcmp(name, names[i]) == 0)
            return (ax_level_t)i;
    return AX_LOG_WARN;
}

static accel_dtype_t compute_dtype(const char *precision)
{
    if (strcmp(precision, "fp16") == 0)
        return ACCEL_F16;
    return strcmp(precision, "bf16") == 0 ? ACCEL_BF16 : ACCEL_F32;
}

static accel_dtype_t wire_dtype(const char *wire)
{
    if (strcmp(wire, "f16") == 0)
        return ACCEL_F16;
    return strcmp(wire, "bf16") == 0 ? ACCEL_BF16 : ACCEL_F32;
}

static accel_status_t apply_settings(accel_t *accel)
{
    const accel_settings_t *s = accel->settings;

    accel->dtype = compute_dtype(ax_settings_str(s, "precision"));
    accel->wire = wire_dtype(ax_settings_str(s, "wire"));
    accel->clip = ax_settings_num(s, "clip");
    accel->accumulate = (int)ax_settings_int(s, "accumulate");
    accel->check = (uint64_t)ax_settings_int(s, "check");
    accel->bucket = AX_BUCKET_ELEMENTS;
    accel_rng_init(&accel->rng, (uint64_t)ax_settings_int(s, "seed"),
                   (uint64_t)accel_job_rank(accel->job));
    if (accel->dtype != ACCEL_F16)
        return ACCEL_OK;
    return accel_scaler_create(NULL, &accel->scaler);
}

static accel_status_t join(accel_t *accel, const accel_oob_t *oob)
{
    const accel_settings_t *s = accel->settings;
    accel_status_t st;

    if ((st = accel_job_open(s, oob, &accel->job)) != ACCEL_OK)
        return st;

    int node = accel_job_node(accel->job);
    int local = accel_job_local_rank(accel->job);
    ax_log_setup(log_level(s), accel_job_rank(accel->job),
                 accel_job_node_name(accel->job, node));
    if ((st = accel_comm_open(accel->job, s, &accel->comm)) != ACCEL_OK)
        return st;
    ax_topo_check_binding(local);
    if (accel_job_rank(accel->job) > 0 &&
        strcmp(ax_settings_str(s, "quiet"), "yes") == 0)
        st = ax_quiet_open();
    if (st == ACCEL_OK)
        st = apply_settings(accel);
    if (st == ACCEL_OK)
        st = ax_stop_open((int)ax_settings_int(s, "signal"));
    /* A rank that cannot go on takes the others with it, now. */
    if ((st = ax_comm_agree(accel->comm, st)) != ACCEL_OK)
        return st;
    return ax_deadline_open(accel);
}

accel_status_t accel_open(const accel_options_t *options, accel_t **out)
{
    accel_options_t o = ACCEL_OPTIONS_INIT;
    accel_status_t st;

    *out = NULL;
    if ((st = ax_options_copy(&o, options, sizeof o, "ACCEL_OPTIONS")) !=
        ACCEL_OK)
        return st;
    if (opened)
        return ax_fail(ACCEL_ERR_STATE,
                       "train: an accelerator is open already in this "
                       "process; close it first");

    accel_t *accel = calloc(1, sizeof *accel);
    if (!accel)
        return ax_fail(ACCEL_ERR_NOMEM, "train: out of memory");
    ax_step_reset(accel);
    opened = accel;
    ax_fpmode_t mode = ax_fpmode_enter(); /* 0.1 is rounded, too */
    st = accel_settings_load(o.spec, &accel->settings);
    ax_fpmode_leave(mode);
    if (st != ACCEL_OK) {
        /* They may be wrong on this node only: the others must not wait. */
        st = ax_job_refuse(o.oob, st);
        goto fail;
    }
    ax_log_setup(log_level(accel->settings), -1, NULL);
    if ((st = join(accel, o.oob)) != ACCEL_OK)
        goto fail;
    ax_log(AX_LOG_INFO, "train: %d ranks on %d nodes, precision %s, %s",
           accel_size(accel), accel_nodes(accel), accel_precision(accel),
           accel_comm_transport(accel->comm));
    *out = accel;
    return ACCEL_OK;
fail:
    accel_close(accel);
    return st;
}

/* With its dataset, unless another loader reads that. */
static void destroy_loader(accel_t *accel, accel_loader_t *loader)
{
    accel_dataset_t *dataset = ax_loader_dataset(loader);
    bool shared = false;

    accel_loader_destroy(loader);
    for (size_t i = 0; i < accel->nloaders; i++)
        if (ax_loader_dataset(accel->loaders[i]) == dataset)
            shared = true;
    if (!shared)
        accel_dataset_destroy(dataset);
}

/* What was given away goes first: each of these is then forgotten. */
static void destroy_taken(accel_t *accel)
{
    for (size_t i = accel->nloaders; i-- > 0;)
        if (ax_loader_is_taken(accel->loaders[i]))
            destroy_loader(accel, accel->loaders[i]);
    if (accel->take_schedule)
        accel_schedule_destroy(accel->schedule);
    if (accel->take_optimizer)
        accel_optimizer_destroy(accel->optimizer);
    if (accel->model && accel->model->taken)
        accel_model_destroy(accel->model);
}

/* The program may keep its objects for longer than the accelerator. */
static void let_go(accel_t *accel)
{
    destroy_taken(accel);
    if (accel->optimizer)
        ax_optimizer_set_hooks(accel->optimizer, NULL);
    for (size_t i = 0; i < accel->nloaders; i++)
        ax_untie_loader(accel->loaders[i]);
    if (accel->schedule)
        ax_schedule_set_owner(accel->schedule, NULL, NULL);
    ax_models_orphan(accel);
}

void accel_close(accel_t *accel)
{
    if (!accel)
        return;
    let_go(accel);
    ax_stop_close(accel->stop);
    ax_quiet_close();
    ax_bucket_give_up(accel);
    free(accel->flight.requests);
    accel_comm_close(accel->comm);
    accel_job_close(accel->job);
    ax_log_setup(AX_LOG_WARN, -1, NULL);
    accel_settings_free(accel->settings);
    accel_scaler_destroy(accel->scaler);
    for (size_t i = 0; i < accel->nextras; i++)
        free(accel->extras[i].name);
    free(accel->extras);
    free(accel->loaders);
    free(accel->places);
    if (opened == accel)
        opened = NULL;
    free(accel);
}

int accel_rank(const accel_t *accel)
{
    return accel ? accel_job_rank(accel->job) : -1;
}

int accel_size(const accel_t *accel)
{
    return accel ? accel_job_size(accel->job) : 0;
}

int accel_local_rank(const accel_t *accel)
{
    return accel ? accel_job_local_rank(accel->job) : -1;
}

int accel_local_size(const accel_t *accel)
{
    return accel ? accel_job_local_size(accel->job) : 0;
}

int accel_node(const accel_t *accel)
{
    return accel ? accel_job_node(accel->job) : -1;
}

int accel_nodes(const accel_t *accel)
{
    return accel ? accel_job_nodes(accel->job) : 0;
}

bool accel_is_main(const accel_t *accel)
{
    return accel_rank(accel) == 0;
}

bool accel_is_local_main(const accel_t *accel)
{
    return accel_local_rank(accel) == 0;
}

bool accel_is_last(const accel_t *accel)
{
    return accel && accel_rank(accel) == accel_size(accel) - 1;
}

accel_comm_t *accel_get_comm(accel_t *accel)
{
    return accel ? accel->comm : NULL;
}

accel_job_t *accel_get_job(accel_t *accel)
{
    return accel ? accel->job : NULL;
}

const accel_settings_t *accel_get_settings(const accel_t *accel)
{
    return accel ? accel->settings : NULL;
}

accel_rng_t *accel_get_rng(accel_t *accel)
{
    return accel ? &accel->rng : NULL;
}

const char *accel_precision(const accel_t *accel)
{
    return accel ? ax_settings_str(accel->settings, "precision") : "?";
}

accel_dtype_t accel_compute_dtype(const accel_t *accel)
{
    return accel ? accel->dtype : ACCEL_DTYPE_NONE;
}
