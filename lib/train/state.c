/* Saving the state: everything that the next step depends on. */
#include "state_priv.h"

#include "ckpt/ckpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(accel_rng_t) == 3 * sizeof(uint64_t),
               "saved as three numbers");
_Static_assert(sizeof(accel_loader_state_t) == 5 * sizeof(uint64_t),
               "saved as five numbers");

/* ---- lists of parts ------------------------------------------------------ */

void ax_parts_add(ax_parts_t *parts, const accel_ckpt_part_t *part,
                  const char *format, ...)
{
    char *name = NULL;
    va_list args;

    if (parts->count == parts->room) {
        size_t room = parts->room ? 2 * parts->room : 32;
        accel_ckpt_part_t *more = reallocarray(parts->part, room, sizeof *more);
        if (!more) {
            parts->failed = true;
            return;
        }
        parts->part = more;
        parts->room = room;
    }
    va_start(args, format);
    if (vasprintf(&name, format, args) < 0)
        name = NULL;
    va_end(args);
    if (!name) {
        parts->failed = true;
        return;
    }
    parts->part[parts->count] = *part;
    parts->part[parts->count++].name = name;
}

accel_status_t ax_parts_check(const ax_parts_t *parts)
{
    if (!parts->failed)
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_NOMEM, "state: out of memory for the list of "
                                    "arrays");
}

void ax_parts_free(ax_parts_t *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        free((char *)parts->part[i].name);
    free(parts->part);
    *parts = (ax_parts_t){0};
}

accel_ckpt_part_t ax_part_vector(accel_dtype_t dtype, void *data,
                                 uint64_t count)
{
    return (accel_ckpt_part_t){.dtype = dtype,
                               .ndim = 1,
                               .shape = {count},
                               .count = count,
                               .data = data,
                               .replicated = true};
}

static accel_ckpt_part_t param_part(const accel_param_t *p, float *data)
{
    accel_ckpt_part_t part = ax_part_vector(ACCEL_F32, data, p->count);

    part.ndim = p->ndim; /* 0: one element */
    if (p->ndim == 0)
        return part;
    memcpy(part.shape, p->shape, sizeof p->shape);
    return part;
}

void ax_parts_arrays(ax_parts_t *parts, const accel_t *accel)
{
    const accel_model_t *model = accel->model;

    for (size_t i = 0; i < model->nparams; i++) {
        const accel_param_t *p = model->params[i];
        accel_ckpt_part_t part = param_part(p, p->data);
        ax_parts_add(parts, &part, "model/%s", p->name);
        if (!accel->optimizer)
            continue;
        const ax_optim_slot_t *s = ax_optimizer_slot(accel->optimizer, i);
        part.data = s->m;
        if (s->m)
            ax_parts_add(parts, &part, "optimizer/m/%s", p->name);
        part.data = s->v;
        if (s->v)
            ax_parts_add(parts, &part, "optimizer/v/%s", p->name);
    }
}

void ax_parts_numbers(ax_parts_t *parts, const accel_t *accel,
                      ax_numbers_t *numbers, bool scaler)
{
    accel_ckpt_part_t part =
        ax_part_vector(ACCEL_U64, numbers->counters, AX_COUNTERS);

    ax_parts_add(parts, &part, "train/counters");
    if (accel->optimizer) {
        part = ax_part_vector(ACCEL_F64, &numbers->lr, 1);
        ax_parts_add(parts, &part, "train/lr");
        part = ax_part_vector(ACCEL_F64, numbers->given, AX_GIVENS);
        ax_parts_add(parts, &part, "train/given");
    }
    if (scaler) {
        part = ax_part_vector(ACCEL_F64, &numbers->scale, 1);
        ax_parts_add(parts, &part, "train/scale");
        part = ax_part_vector(ACCEL_U64, numbers->scaler, 3);
        ax_parts_add(parts, &part, "train/scaler");
    }
    for (size_t i = 0; i < accel->nloaders; i++) {
        part = ax_part_vector(ACCEL_U64, &numbers->loaders[i], 5);
        ax_parts_add(parts, &part, "loader/%zu", i);
    }
}

void ax_parts_rng(ax_parts_t *parts, const accel_t *accel,
                  ax_numbers_t *numbers)
{
    accel_ckpt_part_t part = {.dtype = ACCEL_U64,
                              .ndim = 2,
                              .shape = {(uint64_t)accel_size(accel), 3},
                              .first = 3 * (uint64_t)accel_rank(accel),
                              .count = 3,
                              .data = &numbers->rng};

    ax_parts_add(parts, &part, "train/rng");
}

/* ---- registered state ---------------------------------------------------- */

static accel_status_t check_register(const accel_t *accel, const char *name)
{
    if (!ax_name_is_good(name))
        return ax_fail(ACCEL_ERR_ARG,
                       "state: bad name \"%.200s\": up to 199 of A-Z a-z 0-9 "
                       ". _ -",
                       name ? name : "");
    for (size_t i = 0; i < accel->nextras; i++)
        if (strcmp(accel->extras[i].name, name) == 0)
            return ax_fail(ACCEL_ERR_ARG, "state: %s is registered already",
                           name);
    return ACCEL_OK;
}

/* All of `extra` but its name, which is copied. */
static accel_status_t add(accel_t *accel, const char *name, ax_extra_t extra)
{
    ax_extra_t *more =
        reallocarray(accel->extras, accel->nextras + 1, sizeof *more);
    char *copy = strdup(name);
    if (more)
        accel->extras = more;
    if (!more || !copy) {
        free(copy);
        return ax_fail(ACCEL_ERR_NOMEM, "state: out of memory for %s", name);
    }

    /* Sorted: the order of registration may differ between ranks. */
    size_t i = accel->nextras++;
    for (; i > 0 && strcmp(more[i - 1].name, name) > 0; i--)
        more[i] = more[i - 1];
    extra.name = copy;
    more[i] = extra;
    return ACCEL_OK;
}

accel_status_t accel_register_state(accel_t *accel, const char *name,
                                    uint32_t version, accel_save_fn save,
                                    accel_load_fn load, void *context)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    accel_status_t st = check_register(accel, name);

    if (st != ACCEL_OK)
        return st;
    if (!save || !load)
        return ax_fail(ACCEL_ERR_ARG, "state: %s: a function is missing: %s",
                       name, save ? "load" : "save");
    return add(accel, name,
               (ax_extra_t){.version = version,
                            .save = save,
                            .load = load,
                            .context = context});
}

accel_status_t accel_register_bytes(accel_t *accel, const char *name,
                                    void *data, size_t bytes)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    accel_status_t st = check_register(accel, name);

    if (st != ACCEL_OK)
        return st;
    if (!data || bytes == 0)
        return ax_fail(ACCEL_ERR_ARG, "state: %s: %zu bytes at %p", name, bytes,
                       data);
    return add(accel, name,
               (ax_extra_t){.version = 1, .data = data, .bytes = bytes});
}

/*
 * Lengths are exchanged by position in the list: it must be one list. *saved
 * comes in as what this rank thinks and goes out as what all do, of one
 * directory.
 */
static accel_status_t compare_ranks(const accel_t *accel, const char *dir,
                                    bool *saved)
{
    uint64_t hash = accel->nextras, place = ax_hash(dir, strlen(dir), 0);

    for (size_t i = 0; i < accel->nextras; i++) {
        const ax_extra_t *e = &accel->extras[i];
        hash = ax_hash(e->name, strlen(e->name) + 1, hash);
        hash = ax_hash(&e->version, sizeof e->version, hash);
        hash = ax_hash(&(bool){e->data != NULL}, sizeof(bool), hash);
    }
    uint64_t most[] = {hash, ~hash, place, ~place, !*saved};
    accel_status_t st = accel_comm_allreduce(
        accel->comm, most, most, AX_ARRAY_SIZE(most), ACCEL_U64, ACCEL_MAX);
    if (st != ACCEL_OK)
        return st;
    *saved = most[4] == 0 && most[2] == ~most[3];
    if (most[0] == ~most[1]) /* the largest is the smallest */
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_PROTO,
                   "state: the ranks registered different states (this one "
                   "%zu of them): register the same names and versions on all",
                   accel->nextras);
}

static accel_status_t take(const ax_extra_t *e, ax_load_t *l)
{
    if (e->data) {
        l->data = e->data;
        l->bytes = e->bytes;
        l->borrowed = true;
        return ACCEL_OK;
    }
    int rc = e->save(e->context, &l->data, &l->bytes);
    if (rc != 0)
        return ax_fail(ACCEL_ERR_IO, "state: %s: its save function returned %d",
                       e->name, rc);
    if (!l->data && l->bytes)
        return ax_fail(ACCEL_ERR_IO,
                       "state: %s: its save function gave no data but %zu "
                       "bytes",
                       e->name, l->bytes);
    return ACCEL_OK;
}

static accel_status_t collect(accel_t *accel, ax_load_t *loads)
{
    for (size_t i = 0; i < accel->nextras; i++) {
        const ax_extra_t *e = &accel->extras[i];
        ax_load_t *l = &loads[i];
        accel_status_t st = take(e, l);
        if (st != ACCEL_OK)
            return st;
        l->version = e->version;
        l->all = calloc((size_t)accel_size(accel), sizeof *l->all);
        if (!l->all)
            return ax_fail(ACCEL_ERR_NOMEM, "state: out of memory");
    }
    return ACCEL_OK;
}

/* A hash tells whether it is alike; the save compares all of it. */
static accel_status_t compare_bytes(accel_t *accel, ax_load_t *l)
{
    uint64_t hash = l->bytes ? ax_hash(l->data, l->bytes, 0) : 0;
    uint64_t most[] = {hash, ~hash, l->bytes, ~(uint64_t)l->bytes};
    accel_status_t st = accel_comm_allreduce(
        accel->comm, most, most, AX_ARRAY_SIZE(most), ACCEL_U64, ACCEL_MAX);

    l->alike = st == ACCEL_OK && l->bytes > 0 && most[0] == ~most[1] &&
               most[2] == ~most[3];
    return st;
}

static accel_status_t exchange_lengths(accel_t *accel, ax_load_t *l)
{
    uint64_t mine;
    accel_status_t st = compare_bytes(accel, l);

    if (st != ACCEL_OK)
        return st;
    mine = l->alike && !accel_is_main(accel) ? AX_ALIKE : l->bytes;
    st = accel_comm_allgather(accel->comm, &mine, l->all, 1, ACCEL_U64);
    for (int r = 0; st == ACCEL_OK && !l->alike && r < accel_size(accel); r++) {
        if (r < accel_rank(accel))
            l->first += l->all[r];
        l->total += l->all[r];
    }
    return st;
}

static void add_extra(ax_parts_t *parts, const accel_t *accel, const char *name,
                      ax_load_t *l)
{
    accel_ckpt_part_t part = ax_part_vector(ACCEL_U64, &l->version, 1);

    ax_parts_add(parts, &part, "state/%s/version", name);
    part = ax_part_vector(ACCEL_U64, l->all, (uint64_t)accel_size(accel));
    ax_parts_add(parts, &part, "state/%s/bytes", name);
    if (l->alike) {
        part = ax_part_vector(ACCEL_U8, l->data, l->bytes);
        ax_parts_add(parts, &part, "state/%s/data", name);
        return;
    }
    if (l->total == 0) /* nobody had anything to keep */
        return;
    part = (accel_ckpt_part_t){.dtype = ACCEL_U8,
                               .ndim = 1,
                               .shape = {l->total},
                               .first = l->first,
                               .count = l->bytes,
                               .data = l->data};
    ax_parts_add(parts, &part, "state/%s/data", name);
}

/* ---- saving -------------------------------------------------------------- */

void ax_state_given(const accel_t *accel, double *given)
{
    for (int i = 0; i < AX_GIVENS; i++)
        given[i] = 0;
    given[AX_GIVEN_KIND] = -1;
    given[AX_GIVEN_SEED] = (double)ax_settings_int(accel->settings, "seed");
    if (accel->optimizer)
        given[AX_GIVEN_LR] =
            ax_or(ax_optimizer_given(accel->optimizer)->lr, 1e-3);
    if (accel->nloaders)
        given[AX_GIVEN_BATCH] =
            (double)ax_loader_options(accel->loaders[0])->batch_size;
    if (!accel->schedule)
        return;
    const accel_schedule_options_t *s = ax_schedule_given(accel->schedule);
    given[AX_GIVEN_LR] = ax_or(s->lr, given[AX_GIVEN_LR]);
    given[AX_GIVEN_KIND] = (double)s->kind;
    given[AX_GIVEN_WARMUP] = (double)s->warmup;
    given[AX_GIVEN_TOTAL] = (double)s->total;
    given[AX_GIVEN_END] = s->end;
}

static void read_numbers(const accel_t *accel, ax_numbers_t *n)
{
    n->counters[AX_COUNT_FORMAT] = AX_STATE_FORMAT;
    n->counters[AX_COUNT_STEPS] = accel->steps;
    n->counters[AX_COUNT_SKIPPED] = accel->skipped;
    n->counters[AX_COUNT_ROW] = accel->row;
    n->counters[AX_COUNT_ACCUMULATE] = (uint64_t)accel->accumulate;
    if (accel->optimizer) {
        n->counters[AX_COUNT_UPDATES] = accel_optimizer_steps(accel->optimizer);
        n->lr = accel_optimizer_lr(accel->optimizer);
    }
    if (accel->schedule) {
        n->counters[AX_COUNT_SCHEDULE] = 1;
        n->counters[AX_COUNT_SCHEDULED] = accel_schedule_steps(accel->schedule);
    }
    if (accel->scaler) {
        accel_scaler_state_t s;
        accel_scaler_get_state(accel->scaler, &s);
        n->scale = s.scale;
        n->scaler[0] = s.good;
        n->scaler[1] = s.skipped;
        n->scaler[2] = s.row;
    }
    for (size_t i = 0; i < accel->nloaders; i++)
        accel_loader_get_state(accel->loaders[i], &n->loaders[i]);
    n->rng = accel->rng;
    ax_state_given(accel, n->given);
}

static accel_status_t check_save(const accel_t *accel)
{
    if (!accel->model)
        return ax_fail(ACCEL_ERR_STATE,
                       "save_state: nothing to save: give a model to "
                       "accel_prepare() first");
    if (!accel->complete || accel->begun)
        return ax_fail(ACCEL_ERR_STATE,
                       "save_state: inside an accumulation group: %d of %d "
                       "batches are done; save where accel_sync_gradients() "
                       "is true",
                       accel->micro, accel->accumulate);
    if (!accel->optimizer && accel->passes > 0 && accel->steps == 0)
        return ax_fail(ACCEL_ERR_STATE,
                       "save_state: %llu backward passes, but no step was "
                       "counted: a program with an optimizer of its own calls "
                       "accel_step() before it updates",
                       (unsigned long long)accel->passes);
    if (accel->optimizer && !accel->stepped)
        return ax_fail(ACCEL_ERR_STATE,
                       "save_state: between the backward pass and the step "
                       "that uses its gradients; save after "
                       "accel_optimizer_step()");
    return ACCEL_OK;
}

/* Saving and stopping often fall on one step: it is not saved twice, provided
 * that it is still there, and not another run's. Rank 0 looks. */
static bool is_saved(const accel_t *accel, const char *dir)
{
    char uuid[33];

    if (!accel->saved || accel->saved_step != accel->steps)
        return false;
    if (!accel_is_main(accel))
        return true;
    ax_ckpt_uuid_of(dir, accel->steps, uuid);
    return uuid[0] && strcmp(uuid, accel->saved_uuid) == 0;
}

void ax_state_note(accel_t *accel, const char *uuid)
{
    accel->saved = true;
    accel->saved_step = accel->steps;
    memcpy(accel->saved_uuid, uuid, sizeof accel->saved_uuid);
}

static void note_saved(accel_t *accel, const char *dir)
{
    char uuid[33] = "";

    if (accel_is_main(accel))
        ax_ckpt_uuid_of(dir, accel->steps, uuid);
    ax_state_note(accel, uuid);
}

static accel_status_t save(accel_t *accel, const char *dir, ax_parts_t *parts,
                           ax_load_t *loads, ax_numbers_t *n)
{
    unsigned keep = (unsigned)ax_settings_int(accel->settings, "keep");
    accel_status_t st;

    if ((st = ax_comm_agree(accel->comm, collect(accel, loads))) != ACCEL_OK)
        return st;
    for (size_t i = 0; i < accel->nextras; i++) {
        if ((st = exchange_lengths(accel, &loads[i])) != ACCEL_OK)
            return st;
        add_extra(parts, accel, accel->extras[i].name, &loads[i]);
    }
    read_numbers(accel, n);
    ax_parts_arrays(parts, accel);
    ax_parts_numbers(parts, accel, n, accel->scaler != NULL);
    ax_parts_rng(parts, accel, n);
    if ((st = ax_comm_agree(accel->comm, ax_parts_check(parts))) != ACCEL_OK)
        return st;
    return accel_ckpt_save(accel->comm, dir, accel->steps, parts->part,
                           parts->count, ACCEL_CKPT(.keep = keep));
}

void ax_loads_free(const accel_t *accel, ax_load_t *loads)
{
    for (size_t i = 0; loads && i < accel->nextras; i++) {
        if (!loads[i].borrowed)
            free(loads[i].data);
        free(loads[i].all);
    }
    free(loads);
}

accel_status_t accel_save_state(accel_t *accel, const char *dir)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    ax_parts_t parts = {0};
    ax_numbers_t n = {0};
    uint64_t begun = ax_now_ns();
    ax_load_t *loads = calloc(accel->nextras + 1, sizeof *loads);
    accel_status_t st = check_save(accel);
    bool saved;

    if (!dir)
        dir = ax_settings_str(accel->settings, "checkpoint");
    saved = is_saved(accel, dir);
    n.loaders = calloc(accel->nloaders + 1, sizeof *n.loaders);
    if (st == ACCEL_OK && (!loads || !n.loaders))
        st = ax_fail(ACCEL_ERR_NOMEM, "save_state: out of memory");
    ax_comm_where(accel->comm, AX_IN_SAVE);
    if ((st = ax_comm_agree(accel->comm, st)) != ACCEL_OK ||
        (st = compare_ranks(accel, dir, &saved)) != ACCEL_OK || saved)
        goto out;
    st = save(accel, dir, &parts, loads, &n);
    if (st == ACCEL_OK)
        note_saved(accel, dir);
    else if (st == ACCEL_ERR_STATE &&
             strstr(accel_last_error()->text, "is there already"))
        ax_fail_prefix(st, "save_state: not this run's own; set resume=auto to "
                           "go on from it, or another directory with "
                           "checkpoint=");
    ax_deadline_saved(ax_now_ns() - begun);
out:
    ax_comm_where(accel->comm, AX_IN_NOWHERE);
    ax_loads_free(accel, loads);
    ax_parts_free(&parts);
    free(n.loaders);
    return st;
}
