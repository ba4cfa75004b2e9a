/* Loading the state: first everything that can be refused, then the arrays. */
#include "state_priv.h"

#include "ckpt/ckpt.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which checkpoint ---------------------------------------------------- */

/* NULL means what the settings say. `named`: somebody asked for this one, so
 * that its absence is an error and not a fresh start. */
static accel_status_t choose(const accel_t *accel, const char **path,
                             bool *named)
{
    const char *resume = ax_settings_str(accel->settings, "resume");

    *named = true;
    if (*path)
        return ACCEL_OK;
    if (strcmp(resume, "no") == 0)
        return ACCEL_ERR_NOTFOUND;
    *named = strcmp(resume, "auto") != 0;
    *path = *named ? resume : ax_settings_str(accel->settings, "checkpoint");
    return ACCEL_OK;
}

/* A run from the start would be lost at its first save of a step that is there
 * already: that is better said now. */
static accel_status_t refuse_second(const accel_t *accel)
{
    const char *dir = ax_settings_str(accel->settings, "checkpoint");
    accel_ckpt_entry_t *entries, *newest = NULL;
    accel_status_t st = ACCEL_OK;
    size_t count;

    if (!accel_is_main(accel) ||
        accel_ckpt_list(dir, &entries, &count) != ACCEL_OK)
        return ACCEL_OK; /* a save will say what is wrong with it */
    for (size_t i = 0; i < count; i++)
        newest = entries[i].complete ? &entries[i] : newest;
    if (newest)
        st = ax_fail(ACCEL_ERR_STATE,
                     "load_state: %s holds %s of an earlier run, and resume "
                     "is \"no\": set resume=auto to go on from there, or "
                     "another directory with checkpoint=",
                     dir, newest->name);
    free(entries);
    return st;
}

static accel_status_t resume_nothing(const accel_t *accel)
{
    accel_status_t st = ax_comm_agree(accel->comm, refuse_second(accel));

    if (st != ACCEL_OK)
        return st;
    return ax_fail(ACCEL_ERR_NOTFOUND,
                   "load_state: nothing to resume: the setting resume is "
                   "\"no\"");
}

static accel_status_t open_ckpt(accel_t *accel, const char *path,
                                accel_ckpt_t **ckpt)
{
    const char *given = path;
    bool named;
    accel_status_t st = choose(accel, &path, &named);

    if (st != ACCEL_OK)
        return resume_nothing(accel);
    st = accel_ckpt_open(accel->comm, path, ckpt);
    if (st == ACCEL_ERR_NOTFOUND && named && !given)
        return ax_fail_prefix(ACCEL_ERR_ARG, "load_state: resume=%s", path);
    return st == ACCEL_OK ? st : ax_fail_prefix(st, "load_state");
}

/* ---- is it this program's? ----------------------------------------------- */

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const accel_ckpt_part_t *)a)->name,
                  ((const accel_ckpt_part_t *)b)->name);
}

static bool in_list(const ax_parts_t *sorted, const char *name)
{
    accel_ckpt_part_t key = {.name = name};

    return bsearch(&key, sorted->part, sorted->count, sizeof key, by_name) !=
           NULL;
}

/* A program that only evaluates prepares a model and nothing else. */
static bool may_be_left(const accel_t *accel, const char *name)
{
    if (begins(name, "train/"))
        return true;
    return begins(name, "optimizer/") && !accel->optimizer;
}

static accel_status_t check_missing(const accel_ckpt_t *ckpt,
                                    const ax_parts_t *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        accel_ckpt_part_t found;
        if (accel_ckpt_find(ckpt, parts->part[i].name, &found) != ACCEL_OK)
            return ax_fail(ACCEL_ERR_ARG,
                           "load_state: %s has no %s, which this program "
                           "needs: it was saved with another model, optimizer "
                           "or number of loaders",
                           accel_ckpt_path(ckpt), parts->part[i].name);
    }
    return ACCEL_OK;
}

static accel_status_t check_extra(const accel_t *accel,
                                  const accel_ckpt_t *ckpt,
                                  const ax_parts_t *parts)
{
    for (size_t i = 0; i < accel_ckpt_count(ckpt); i++) {
        accel_ckpt_part_t part;
        accel_status_t st = accel_ckpt_at(ckpt, i, &part);
        if (st != ACCEL_OK)
            return st;
        if (begins(part.name, "state/") || may_be_left(accel, part.name) ||
            in_list(parts, part.name))
            continue;
        return ax_fail(ACCEL_ERR_ARG,
                       "load_state: %s holds %s, which this program does not "
                       "have: prepare the same model, optimizer and loaders "
                       "before loading",
                       accel_ckpt_path(ckpt), part.name);
    }
    return ACCEL_OK;
}

/* Registered states are told apart by name, so that the error can name it. */
static accel_status_t check_extras(const accel_t *accel,
                                   const accel_ckpt_t *ckpt)
{
    for (size_t i = 0; i < accel_ckpt_count(ckpt); i++) {
        accel_ckpt_part_t part;
        bool known = false;
        accel_ckpt_at(ckpt, i, &part);
        if (!begins(part.name, "state/"))
            continue;
        const char *name = part.name + strlen("state/");
        size_t length = strcspn(name, "/");
        for (size_t k = 0; k < accel->nextras && !known; k++)
            known = strlen(accel->extras[k].name) == length &&
                    strncmp(accel->extras[k].name, name, length) == 0;
        if (!known)
            return ax_fail(ACCEL_ERR_ARG,
                           "load_state: %s holds the registered state %.*s: "
                           "call accel_register_state() for it before loading",
                           accel_ckpt_path(ckpt), (int)length, name);
    }
    return ACCEL_OK;
}

/* ---- the small numbers --------------------------------------------------- */

typedef struct restore {
    accel_t *accel;
    accel_ckpt_t *ckpt;
    int ranks;    /* that saved */
    size_t later; /* loaders that may be prepared after the load */
    ax_numbers_t n;
    ax_load_t *loads;
    ax_parts_t small;
    ax_parts_t large;
} restore_t;

static accel_status_t check_counters(const restore_t *r)
{
    const uint64_t *c = r->n.counters;
    bool schedule = r->accel->schedule != NULL;

    if (c[AX_COUNT_FORMAT] != AX_STATE_FORMAT)
        return ax_fail(ACCEL_ERR_VERSION,
                       "load_state: %s has state of format %llu; accel %s "
                       "reads %d",
                       accel_ckpt_path(r->ckpt),
                       (unsigned long long)c[AX_COUNT_FORMAT], ACCEL_VERSION,
                       AX_STATE_FORMAT);
    if (c[AX_COUNT_STEPS] != accel_ckpt_step(r->ckpt) ||
        c[AX_COUNT_SKIPPED] > c[AX_COUNT_STEPS] ||
        c[AX_COUNT_ROW] > c[AX_COUNT_SKIPPED] ||
        c[AX_COUNT_ACCUMULATE] - 1 >= INT_MAX || c[AX_COUNT_SCHEDULE] > 1)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "load_state: %s: impossible counters: %llu steps, of "
                       "which %llu skipped, %llu in a row, groups of %llu",
                       accel_ckpt_path(r->ckpt),
                       (unsigned long long)c[AX_COUNT_STEPS],
                       (unsigned long long)c[AX_COUNT_SKIPPED],
                       (unsigned long long)c[AX_COUNT_ROW],
                       (unsigned long long)c[AX_COUNT_ACCUMULATE]);
    if (!r->accel->optimizer || schedule == (c[AX_COUNT_SCHEDULE] != 0))
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_ARG,
                   "load_state: %s was saved with%s a schedule, this program "
                   "prepared %s",
                   accel_ckpt_path(r->ckpt), schedule ? "out" : "",
                   schedule ? "one" : "none");
}

/* The scaler is a matter of this run's precision, not of the saved one's. */
static bool has_scaler(const restore_t *r)
{
    accel_ckpt_part_t found;

    return accel_ckpt_find(r->ckpt, "train/scale", &found) == ACCEL_OK &&
           accel_ckpt_find(r->ckpt, "train/scaler", &found) == ACCEL_OK;
}

/* Without an optimizer it is not known yet whether the program goes on in the
 * data or only evaluates: the places are kept until a loader is prepared. */
static size_t count_later(const restore_t *r)
{
    accel_ckpt_part_t found;
    char name[32];
    size_t n = 0;

    if (r->accel->nloaders || r->accel->optimizer)
        return 0;
    do
        snprintf(name, sizeof name, "loader/%zu", n++);
    while (accel_ckpt_find(r->ckpt, name, &found) == ACCEL_OK);
    return n - 1;
}

static accel_status_t list_small(restore_t *r)
{
    accel_t *accel = r->accel;
    bool same = r->ranks == accel_size(accel);
    bool scaler = accel->scaler && has_scaler(r);

    ax_parts_numbers(&r->small, accel, &r->n, scaler);
    if (same)
        ax_parts_rng(&r->small, accel, &r->n);
    for (size_t i = 0; i < r->later; i++) {
        accel_ckpt_part_t part = ax_part_vector(ACCEL_U64, &r->n.loaders[i], 5);
        ax_parts_add(&r->small, &part, "loader/%zu", i);
    }
    for (size_t i = 0; i < accel->nextras; i++) {
        const char *name = accel->extras[i].name;
        ax_load_t *l = &r->loads[i];
        l->all = calloc((size_t)r->ranks, sizeof *l->all);
        if (!l->all)
            r->small.failed = true;
        accel_ckpt_part_t part = ax_part_vector(ACCEL_U64, &l->version, 1);
        ax_parts_add(&r->small, &part, "state/%s/version", name);
        part = ax_part_vector(ACCEL_U64, l->all, (uint64_t)r->ranks);
        ax_parts_add(&r->small, &part, "state/%s/bytes", name);
    }
    return ax_parts_check(&r->small);
}

/* ---- registered state ---------------------------------------------------- */

/* Each rank takes its own; a rank that did not exist takes that of another. */
static accel_status_t place(const restore_t *r, const ax_extra_t *e,
                            ax_load_t *l)
{
    int mine = accel_rank(r->accel) % r->ranks;

    if (l->version > e->version)
        return ax_fail(ACCEL_ERR_VERSION,
                       "load_state: the registered state %s was saved as "
                       "version %llu; this program knows version %u",
                       e->name, (unsigned long long)l->version, e->version);
    if (l->all[mine] == AX_ALIKE)
        mine = 0;
    l->first = l->total = 0;
    for (int k = 0; k < r->ranks; k++) {
        if (k > 0 && l->all[k] == AX_ALIKE)
            continue;
        if (k < mine)
            l->first += l->all[k];
        if (__builtin_add_overflow(l->total, l->all[k], &l->total))
            return ax_fail(ACCEL_ERR_CORRUPT,
                           "load_state: state/%s/bytes does not add up",
                           e->name);
    }
    l->bytes = (size_t)l->all[mine];
    if (e->data && l->bytes != e->bytes)
        return ax_fail(ACCEL_ERR_ARG,
                       "load_state: %s was saved with %zu bytes; this program "
                       "registered %zu",
                       e->name, l->bytes, e->bytes);
    l->data = malloc(l->bytes + 1);
    if (!l->data)
        return ax_fail(ACCEL_ERR_NOMEM,
                       "load_state: out of memory for %zu bytes of %s",
                       l->bytes, e->name);
    return ACCEL_OK;
}

static accel_status_t list_extras(restore_t *r)
{
    for (size_t i = 0; i < r->accel->nextras; i++) {
        const ax_extra_t *e = &r->accel->extras[i];
        ax_load_t *l = &r->loads[i];
        accel_status_t st = place(r, e, l);
        if (st != ACCEL_OK)
            return st;
        if (l->total == 0)
            continue;
        accel_ckpt_part_t part = {.dtype = ACCEL_U8,
                                  .ndim = 1,
                                  .shape = {l->total},
                                  .first = l->first,
                                  .count = l->bytes,
                                  .data = l->data};
        ax_parts_add(&r->large, &part, "state/%s/data", e->name);
    }
    return ax_parts_check(&r->large);
}

static accel_status_t hand_over(const restore_t *r)
{
    for (size_t i = 0; i < r->accel->nextras; i++) {
        const ax_extra_t *e = &r->accel->extras[i];
        const ax_load_t *l = &r->loads[i];
        if (e->data) {
            memcpy(e->data, l->data, l->bytes);
            continue;
        }
        int rc = e->load(e->context, l->data, l->bytes, (uint32_t)l->version);
        if (rc != 0)
            return ax_fail(ACCEL_ERR_IO,
                           "load_state: %s: its load function returned %d for "
                           "version %llu",
                           e->name, rc, (unsigned long long)l->version);
    }
    return ACCEL_OK;
}

/* ---- putting it in place ------------------------------------------------- */

/* Streams below 2^24 are the ranks' own; these are no run's before the same
 * step. */
static void new_stream(restore_t *r)
{
    accel_t *accel = r->accel;
    uint64_t stream = (accel->steps + 1) << 24 | (uint64_t)accel_rank(accel);

    accel_rng_init(&accel->rng, accel->rng.seed, stream);
    if (accel_is_main(accel))
        ax_log(AX_LOG_WARN,
               "load_state: %s was saved by %d rank%s, this run has %d: "
               "weights, moments, counters and the place in the data are "
               "exact, random numbers begin new streams",
               accel_ckpt_path(r->ckpt), r->ranks, r->ranks == 1 ? "" : "s",
               accel_size(accel));
}

static accel_scaler_state_t saved_scaler(const restore_t *r)
{
    const uint64_t *s = r->n.scaler;

    return (accel_scaler_state_t){
        .scale = r->n.scale, .good = s[0], .skipped = s[1], .row = s[2]};
}

/* What the setters below would refuse. */
static accel_status_t check_values(const restore_t *r)
{
    const accel_t *accel = r->accel;
    accel_scaler_state_t scaler = saved_scaler(r);
    accel_status_t st = check_counters(r);

    if (st != ACCEL_OK)
        return st;
    if (accel->scaler && has_scaler(r))
        st = ax_scaler_check_state(&scaler);
    if (st == ACCEL_OK && accel->optimizer)
        st = ax_optimizer_check_lr(r->n.lr);
    for (size_t i = 0; st == ACCEL_OK && i < accel->nloaders; i++)
        st = ax_loader_check_state(accel->loaders[i], &r->n.loaders[i]);
    return st == ACCEL_OK ? st : ax_fail_prefix(st, "load_state");
}

static accel_status_t set_places(const restore_t *r)
{
    const accel_t *accel = r->accel;
    accel_scaler_state_t scaler = saved_scaler(r);
    accel_status_t st = ACCEL_OK;

    if (accel->scaler && has_scaler(r))
        st = accel_scaler_set_state(accel->scaler, &scaler);
    for (size_t i = 0; st == ACCEL_OK && i < accel->nloaders; i++)
        st = accel_loader_set_state(accel->loaders[i], &r->n.loaders[i]);
    return st;
}

/* What the program says now, explicitly, comes before what it said when it
 * saved; a schedule is always said. */
static bool asks_for_another_rate(const restore_t *r)
{
    const accel_t *accel = r->accel;
    double now[AX_GIVENS];
    const double *then = r->n.given;

    ax_state_given(accel, now);
    if (accel->schedule)
        return memcmp(now, then, AX_GIVEN_SEED * sizeof *now) != 0;
    return now[AX_GIVEN_LR] != then[AX_GIVEN_LR] &&
           !ax_is_default(ax_optimizer_given(accel->optimizer)->lr);
}

static accel_status_t set_numbers(restore_t *r)
{
    accel_t *accel = r->accel;
    const uint64_t *c = r->n.counters;
    accel_status_t st = ACCEL_OK;

    accel->steps = c[AX_COUNT_STEPS];
    accel->skipped = c[AX_COUNT_SKIPPED];
    accel->row = c[AX_COUNT_ROW];
    accel->skipped_last = false;
    /* One whose optimizer is gone can only be destroyed. */
    if (accel->schedule && accel->optimizer)
        ax_schedule_set_steps(accel->schedule, c[AX_COUNT_SCHEDULED]);
    if (accel->optimizer) {
        ax_optimizer_set_steps(accel->optimizer, c[AX_COUNT_UPDATES]);
        /* After the schedule's: the program may have set another rate. */
        if (!asks_for_another_rate(r))
            st = accel_optimizer_set_lr(accel->optimizer, r->n.lr);
    }
    if (r->ranks == accel_size(accel))
        accel->rng = r->n.rng;
    else
        new_stream(r);
    return st;
}

static accel_status_t finish(restore_t *r)
{
    accel_t *accel = r->accel;
    accel_status_t st;

    if ((st = set_places(r)) != ACCEL_OK || (st = set_numbers(r)) != ACCEL_OK ||
        (st = ax_model_round(accel->model)) != ACCEL_OK)
        return st;
    ax_step_reset(accel);
    if ((st = ax_step_zero_grad(accel)) != ACCEL_OK)
        return st;
    return hand_over(r);
}

/* ---- one line ------------------------------------------------------------ */

/* What this run asks for that the saved one did not, and which of the two
 * counts; "" when there is nothing. */
static void tell_differences(const restore_t *r, char *text, size_t room)
{
    static const struct {
        int at;
        const char *name;
    } all[] = {
        {AX_GIVEN_LR, "rate"},     {AX_GIVEN_WARMUP, "warmup"},
        {AX_GIVEN_TOTAL, "total"}, {AX_GIVEN_END, "end"},
        {AX_GIVEN_SEED, "seed"},   {AX_GIVEN_BATCH, "batch size"},
    };
    const accel_t *accel = r->accel;
    double now[AX_GIVENS];
    size_t used = 0;

    text[0] = '\0';
    ax_state_given(accel, now);
    for (size_t i = 0; accel->optimizer && i < AX_ARRAY_SIZE(all); i++) {
        int at = all[i].at;
        double then = r->n.given[at];
        if (now[at] == then || used >= room)
            continue;
        bool old = at == AX_GIVEN_SEED ||
                   (at == AX_GIVEN_LR && !asks_for_another_rate(r));
        used += (size_t)ax_format(
            text + used, room - used, "; %s was %.10g, here %.10g%s",
            all[i].name, then, now[at], old ? ", the former counts" : "");
    }
}

static void tell(const restore_t *r)
{
    const accel_t *accel = r->accel;
    char text[512], epoch[48] = "";

    if (!accel_is_main(accel))
        return;
    tell_differences(r, text, sizeof text);
    if (accel->nloaders)
        snprintf(epoch, sizeof epoch, ", in epoch %llu",
                 (unsigned long long)r->n.loaders[0].epoch + 1);
    ax_log(AX_LOG_NOTE,
           "going on from %s: after step %llu%s, saved by %d rank%s%s",
           accel_ckpt_path(r->ckpt), (unsigned long long)accel->steps, epoch,
           r->ranks, r->ranks == 1 ? "" : "s", text);
}

/* ---- loading ------------------------------------------------------------- */

static accel_status_t check_load(const accel_t *accel)
{
    if (!accel->model)
        return ax_fail(ACCEL_ERR_STATE,
                       "load_state: give the model and all else to "
                       "accel_prepare() first");
    if (!accel->complete || accel->begun)
        return ax_fail(ACCEL_ERR_STATE,
                       "load_state: inside an accumulation group");
    return ACCEL_OK;
}

static accel_status_t load_numbers(restore_t *r)
{
    accel_t *accel = r->accel;
    accel_status_t st;

    r->ranks = accel_ckpt_ranks(r->ckpt);
    r->loads = calloc(accel->nextras + 1, sizeof *r->loads);
    r->later = count_later(r);
    r->n.loaders = calloc(accel->nloaders + r->later + 1, sizeof *r->n.loaders);
    if (!r->loads || !r->n.loaders)
        st = ax_fail(ACCEL_ERR_NOMEM, "load_state: out of memory");
    else
        st = list_small(r);
    ax_parts_arrays(&r->large, accel);
    if (st == ACCEL_OK)
        st = check_extras(accel, r->ckpt);
    if (st == ACCEL_OK)
        st = check_missing(r->ckpt, &r->small);
    if ((st = ax_comm_agree(accel->comm, st)) != ACCEL_OK)
        return st;
    return accel_ckpt_read(r->ckpt, r->small.part, r->small.count);
}

/* A copy that asks for no element: reading it compares types and shapes. */
static void add_empty(ax_parts_t *all, const ax_parts_t *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        accel_ckpt_part_t part = parts->part[i];
        part.first = part.count = 0;
        part.data = NULL;
        ax_parts_add(all, &part, "%s", part.name);
    }
}

/* All that may be refused, before anything is changed. */
static accel_status_t check_all(restore_t *r)
{
    ax_parts_t all = {0};
    accel_status_t st = check_values(r);

    if (st == ACCEL_OK)
        st = list_extras(r);
    if (st == ACCEL_OK)
        st = check_missing(r->ckpt, &r->large);
    add_empty(&all, &r->small);
    add_empty(&all, &r->large);
    if (st == ACCEL_OK)
        st = ax_parts_check(&all);
    if (st == ACCEL_OK) {
        qsort(all.part, all.count, sizeof *all.part, by_name);
        st = check_extra(r->accel, r->ckpt, &all);
    }
    st = ax_comm_agree(r->accel->comm, st);
    if (st == ACCEL_OK)
        st = accel_ckpt_read(r->ckpt, all.part, all.count);
    ax_parts_free(&all);
    return st;
}

static accel_status_t load(restore_t *r)
{
    accel_t *accel = r->accel;
    accel_status_t st;

    if ((st = load_numbers(r)) != ACCEL_OK || (st = check_all(r)) != ACCEL_OK)
        return st;
    st = accel_ckpt_read(r->ckpt, r->large.part, r->large.count);
    if (st != ACCEL_OK)
        return st;
    if ((st = ax_comm_agree(accel->comm, finish(r))) != ACCEL_OK)
        return st;
    ax_state_note(accel, ax_ckpt_uuid(r->ckpt));
    tell(r);
    free(accel->places);
    accel->places = r->n.loaders;
    accel->nplaces = r->later;
    r->n.loaders = NULL;
    return ACCEL_OK;
}

static void forget(restore_t *r)
{
    ax_loads_free(r->accel, r->loads);
    free(r->n.loaders);
    ax_parts_free(&r->small);
    ax_parts_free(&r->large);
    *r = (restore_t){.accel = r->accel, .ckpt = r->ckpt};
}

/* Damage that only reading finds: on to the next older one, if there is one
 * where this one was found; else the error stays. */
static accel_status_t next_older(restore_t *r)
{
    accel_ckpt_t *older;
    accel_status_t st = ax_ckpt_open_older(r->ckpt, &older);

    if (st != ACCEL_OK)
        return st;
    forget(r);
    accel_ckpt_close(r->ckpt);
    r->ckpt = older;
    return ACCEL_OK;
}

accel_status_t accel_load_state(accel_t *accel, const char *path)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    restore_t r = {.accel = accel};
    accel_status_t st;

    ax_comm_where(accel->comm, AX_IN_LOAD);
    st = ax_comm_agree(accel->comm, check_load(accel));
    if (st == ACCEL_OK)
        st = open_ckpt(accel, path, &r.ckpt);
    if (st == ACCEL_OK)
        st = load(&r);
    while (st == ACCEL_ERR_CORRUPT && r.ckpt &&
           (st = next_older(&r)) == ACCEL_OK)
        st = load(&r);
    ax_comm_where(accel->comm, AX_IN_NOWHERE);
    forget(&r);
    accel_ckpt_close(r.ckpt);
    return st;
}
