/*
 * The loader: where this rank stands in the epochs, and its batch. Everything
 * follows from (seed, epoch, number of the batch), so going anywhere is an
 * assignment.
 */
#include "loader_priv.h"

#include <stdlib.h>
#include <string.h>

#define LINE ((size_t)64) /* what batches are aligned to */

struct accel_loader {
    accel_dataset_t *dataset;
    accel_loader_options_t options;
    accel_shard_t shard;
    round_t round;
    uint64_t length; /* batches of this rank in an epoch */

    uint64_t seed;
    uint64_t epoch; /* of the next batch */
    uint64_t next;  /* number of the next batch */
    shuffle_t shuffle;
    bool shuffle_ready; /* it is the one of (seed, epoch) */
    bool holding;       /* a batch is handed out */
    bool at_end;        /* it was the last one */
    uint64_t tick;      /* when, counted over all loaders */
    size_t count;       /* samples in it */
    uint64_t rows;      /* real ones in all ranks' batches of its number */

    void **data;         /* one array a field */
    uint64_t *positions; /* become the index of the batch */

    void (*gone)(void *context, const accel_loader_t *loader);
    void *owner;
};

static _Atomic uint64_t ticks;

/* ---- create, destroy, set_rank ------------------------------------------- */

static void free_batch(void **data, size_t nfields)
{
    for (size_t f = 0; data && f < nfields; f++)
        free(data[f]);
    free(data);
}

static void *new_lines(size_t count, size_t bytes)
{
    size_t all;

    if (!ax_mul(count, bytes, &all) || all > SIZE_MAX - LINE)
        return NULL;
    return aligned_alloc(LINE, (all + LINE) / LINE * LINE);
}

static accel_status_t new_batch(accel_dataset_t *dataset, size_t rows,
                                void ***data, uint64_t **positions)
{
    size_t nfields = accel_dataset_fields(dataset, NULL);
    bool ok;

    *positions = new_lines(rows, sizeof **positions);
    *data = calloc(nfields, sizeof **data);
    ok = *positions && *data;
    for (size_t f = 0; ok && f < nfields; f++) {
        (*data)[f] = new_lines(rows, ax_dataset_bytes(dataset, f));
        ok = (*data)[f] != NULL;
    }
    if (ok)
        return ACCEL_OK;
    free_batch(*data, nfields);
    free(*positions);
    return ax_fail(ACCEL_ERR_NOMEM,
                   "loader: out of memory for a batch of %zu samples", rows);
}

static void go_to(accel_loader_t *l, uint64_t epoch, uint64_t next)
{
    if (epoch != l->epoch)
        l->shuffle_ready = false;
    l->epoch = epoch;
    l->next = next;
    l->holding = l->at_end = false;
}

accel_status_t accel_loader_set_rank(accel_loader_t *loader, int rank, int size)
{
    accel_shard_t shard = loader->shard;
    round_t round;
    uint64_t length;
    uint64_t *positions;
    void **data;
    accel_status_t st;

    shard.rank = rank;
    shard.size = size;
    if ((st = ax_shard_round(&shard, &round)) != ACCEL_OK ||
        (st = accel_shard_length(&shard, &length)) != ACCEL_OK)
        return st;
    if ((st = new_batch(loader->dataset, (size_t)round.local, &data,
                        &positions)) != ACCEL_OK)
        return st;

    free_batch(loader->data, accel_dataset_fields(loader->dataset, NULL));
    free(loader->positions);
    loader->data = data;
    loader->positions = positions;
    loader->shard = shard;
    loader->round = round;
    loader->length = length;
    go_to(loader, loader->epoch, 0);
    return ACCEL_OK;
}

accel_status_t accel_loader_create(accel_dataset_t *dataset,
                                   const accel_loader_options_t *options,
                                   accel_loader_t **out)
{
    accel_loader_options_t o;
    accel_status_t st;

    *out = NULL;
    if (!dataset || accel_dataset_samples(dataset) == 0)
        return ax_fail(ACCEL_ERR_ARG, "loader: the dataset has no samples");
    if ((st = ax_options_copy(&o, options, sizeof o, "ACCEL_LOADER")) !=
        ACCEL_OK)
        return st;
    if (o.batch_size == 0)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: batch_size is 0; say how many samples a batch "
                       "has");

    accel_loader_t *l = calloc(1, sizeof *l);
    if (!l)
        return ax_fail(ACCEL_ERR_NOMEM, "loader: out of memory");
    l->dataset = dataset;
    l->options = o;
    l->seed = o.seed;
    l->shard = (accel_shard_t){.samples = accel_dataset_samples(dataset),
                               .batch_size = o.batch_size,
                               .drop_last = o.drop_last,
                               .split_batches = o.split_batches,
                               .uneven = o.uneven};
    if ((st = accel_loader_set_rank(l, 0, 1)) != ACCEL_OK) {
        accel_loader_destroy(l);
        return st;
    }
    *out = l;
    return ACCEL_OK;
}

void accel_loader_destroy(accel_loader_t *loader)
{
    if (!loader)
        return;
    if (loader->gone)
        loader->gone(loader->owner, loader);
    free_batch(loader->data, accel_dataset_fields(loader->dataset, NULL));
    free(loader->positions);
    free(loader);
}

/* ---- batches -------------------------------------------------------------
 */

/* From positions in the epoch to samples of the dataset. */
static void find_samples(accel_loader_t *l, size_t count)
{
    if (!l->options.shuffle)
        return;
    if (!l->shuffle_ready)
        ax_shuffle_init(&l->shuffle, l->seed, l->epoch, l->shard.samples);
    l->shuffle_ready = true;
    for (size_t i = 0; i < count; i++)
        l->positions[i] = ax_shuffle_at(&l->shuffle, l->positions[i]);
}

/* Rounds take positions in order, and those past the end are repeats. */
static uint64_t real_rows(const accel_loader_t *l, uint64_t k, size_t count)
{
    uint64_t left = l->shard.samples - k * l->round.global;

    if (l->shard.uneven)
        return count;
    return left < l->round.global ? left : l->round.global;
}

accel_status_t accel_loader_next(accel_loader_t *loader, accel_batch_t *batch)
{
    uint64_t k = loader->next;
    size_t count = (size_t)loader->round.local;
    accel_status_t st;

    *batch = (accel_batch_t){0};
    st = accel_shard_batch(&loader->shard, k, loader->positions, &count);
    if (st == ACCEL_END) {
        bool at_end = loader->at_end;
        go_to(loader, loader->epoch + 1, 0);
        loader->at_end = at_end; /* until the next epoch's first batch */
    }
    if (st != ACCEL_OK)
        return st;
    find_samples(loader, count);
    st = ax_dataset_read(loader->dataset, loader->positions, count,
                         loader->data);
    if (st != ACCEL_OK) {
        loader->holding = false; /* its memory is spoilt */
        return ax_fail_prefix(st, "loader: batch %llu of epoch %llu",
                              (unsigned long long)k,
                              (unsigned long long)loader->epoch);
    }

    loader->next = k + 1;
    loader->holding = true;
    loader->tick = ++ticks;
    loader->count = count;
    loader->at_end = loader->next == loader->length;
    loader->rows = real_rows(loader, k, count);
    *batch =
        (accel_batch_t){.count = count,
                        .nfields = accel_dataset_fields(loader->dataset, NULL),
                        .data = loader->data,
                        .index = loader->positions,
                        .number = k,
                        .epoch = loader->epoch,
                        .last = loader->at_end};
    return ACCEL_OK;
}

uint64_t accel_loader_length(const accel_loader_t *loader)
{
    return loader->length;
}

bool accel_loader_end_of_data(const accel_loader_t *loader)
{
    return loader->at_end;
}

uint64_t accel_loader_real_rows(const accel_loader_t *loader)
{
    return loader->holding ? loader->rows : 0;
}

/* ---- places --------------------------------------------------------------
 */

uint64_t accel_loader_epoch(const accel_loader_t *loader)
{
    return loader->epoch;
}

void accel_loader_set_epoch(accel_loader_t *loader, uint64_t epoch)
{
    go_to(loader, epoch, 0);
}

accel_status_t accel_loader_seek(accel_loader_t *loader, uint64_t k)
{
    if (k > loader->length)
        return ax_fail(
            ACCEL_ERR_ARG, "loader: no batch %llu; an epoch has %llu here",
            (unsigned long long)k, (unsigned long long)loader->length);
    go_to(loader, loader->epoch, k);
    return ACCEL_OK;
}

void accel_loader_get_state(const accel_loader_t *loader,
                            accel_loader_state_t *state)
{
    /* A rank with nothing left has seen the epoch out, dropped samples and
     * all, and so has a resume on any number of ranks. */
    uint64_t samples = loader->next >= loader->length
                           ? loader->shard.samples
                           : loader->next * loader->round.global;

    *state = (accel_loader_state_t){
        .version = AX_SHUFFLE_VERSION,
        .fingerprint = accel_dataset_fingerprint(loader->dataset),
        .seed = loader->seed,
        .epoch = loader->epoch,
        .samples = samples};
}

static accel_status_t check_state(const accel_loader_t *l,
                                  const accel_loader_state_t *state)
{
    if (state->version != AX_SHUFFLE_VERSION)
        return ax_fail(ACCEL_ERR_VERSION,
                       "loader: the saved order is of shuffle version %llu, "
                       "accel %s has version %d",
                       (unsigned long long)state->version, ACCEL_VERSION,
                       AX_SHUFFLE_VERSION);
    if (state->fingerprint != accel_dataset_fingerprint(l->dataset))
        return ax_fail(
            ACCEL_ERR_PROTO,
            "loader: the saved place is in another dataset "
            "(fingerprint %016llx, here %016llx): samples, fields "
            "or types differ",
            (unsigned long long)state->fingerprint,
            (unsigned long long)accel_dataset_fingerprint(l->dataset));
    if (state->samples > l->shard.samples)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: the saved place is sample %llu of %llu",
                       (unsigned long long)state->samples,
                       (unsigned long long)l->shard.samples);
    if (state->samples < l->shard.samples &&
        state->samples % l->round.global != 0)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: %llu samples of the epoch were consumed, which "
                       "is no whole number of global batches of %llu; choose "
                       "ranks and batch_size so that it is",
                       (unsigned long long)state->samples,
                       (unsigned long long)l->round.global);
    return ACCEL_OK;
}

accel_status_t accel_loader_set_state(accel_loader_t *loader,
                                      const accel_loader_state_t *state)
{
    accel_status_t st = check_state(loader, state);
    uint64_t next = loader->length;

    if (st != ACCEL_OK)
        return st;
    if (state->samples < loader->shard.samples &&
        state->samples / loader->round.global < next)
        next = state->samples / loader->round.global;
    loader->seed = state->seed;
    loader->shuffle_ready = false;
    go_to(loader, state->epoch, next);
    return ACCEL_OK;
}

/* ---- for train -----------------------------------------------------------
 */

void ax_loader_set_default_seed(accel_loader_t *loader, uint64_t seed)
{
    if (loader->options.seed == 0) {
        loader->seed = seed;
        loader->shuffle_ready = false;
    }
    go_to(loader, loader->epoch, 0);
}

const accel_loader_options_t *ax_loader_options(const accel_loader_t *loader)
{
    return &loader->options;
}

int ax_loader_size(const accel_loader_t *loader)
{
    return loader->shard.size;
}

size_t ax_loader_rows(const accel_loader_t *loader)
{
    return loader->holding ? loader->count : 0;
}

uint64_t ax_loader_tick(const accel_loader_t *loader)
{
    return loader->holding ? loader->tick : 0;
}

void ax_loader_set_owner(accel_loader_t *loader,
                         void (*gone)(void *context,
                                      const accel_loader_t *loader),
                         void *context)
{
    loader->gone = gone;
    loader->owner = context;
}
