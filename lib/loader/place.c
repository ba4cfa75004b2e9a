/* Where a loader stands: in batches of the epoch, and in samples for those who
 * go on with another number of ranks. */
#include "loader_priv.h"

#include <string.h>

void ax_go_to(accel_loader_t *l, uint64_t epoch, uint64_t base, uint64_t next)
{
    ax_run_t *run = &l->run;

    ax_ring_pause(&l->ring);
    run->epoch = epoch;
    run->base = base;
    run->shard = l->shard;
    if (ax_deals(l)) { /* rank 0 reads whole rounds */
        run->shard.rank = 0;
        run->shard.size = 1;
        run->shard.batch_size = l->round.global;
        run->shard.split_batches = false;
    }
    if (!l->stream)
        run->shard.samples -= base;
    /* both were checked when the rank was set, for more samples than these */
    (void)ax_shard_round(&run->shard, &run->round);
    (void)accel_shard_length(&run->shard, &run->length);
    if (l->stream)
        run->length = ACCEL_UNKNOWN;
    l->length = run->length;
    l->next = next;
    l->holding = l->at_end = false;
    l->held = NULL;
}

uint64_t accel_loader_length(const accel_loader_t *loader)
{
    if (!loader)
        return 0;
    return loader->stream ? ACCEL_UNKNOWN : loader->length;
}

uint64_t accel_loader_epoch(const accel_loader_t *loader)
{
    return loader ? loader->run.epoch : 0;
}

void accel_loader_set_epoch(accel_loader_t *loader, uint64_t epoch)
{
    if (!loader)
        return;
    ax_go_to(loader, epoch, 0, 0);
}

accel_status_t accel_loader_seek(accel_loader_t *loader, uint64_t k)
{
    if (!loader)
        return ax_fail_null(__func__, "loader");
    uint64_t length = loader->run.length;

    ax_go_to(loader, loader->run.epoch, loader->run.base,
             k < length ? k : length);
    return ACCEL_OK;
}

/* ---- state --------------------------------------------------------------- */

/* Another order is as bad as another dataset. */
static uint64_t fingerprint(const accel_loader_t *l)
{
    uint64_t hash[2] = {accel_dataset_fingerprint(l->dataset),
                        ax_order_hash(&l->order)};

    return hash[1] ? ax_hash(hash, sizeof hash, 1) : hash[0];
}

/* A rank with nothing left has seen the epoch out, dropped samples and all,
 * and so has a resume on any number of ranks. */
static uint64_t consumed(const accel_loader_t *l)
{
    if (l->stream && l->holding && l->at_end)
        return l->seen;
    if (!l->stream && l->next >= l->length)
        return l->shard.samples;
    return l->run.base + l->next * l->round.global;
}

void accel_loader_get_state(const accel_loader_t *loader,
                            accel_loader_state_t *state)
{
    if (!loader) {
        *state = (accel_loader_state_t){0};
        return;
    }
    *state = (accel_loader_state_t){.version = AX_SHUFFLE_VERSION,
                                    .fingerprint = fingerprint(loader),
                                    .seed = loader->run.seed,
                                    .epoch = loader->run.epoch,
                                    .samples = consumed(loader)};
}

static accel_status_t check_origin(const accel_loader_t *l,
                                   const accel_loader_state_t *state)
{
    if (state->version != AX_SHUFFLE_VERSION)
        return ax_fail(ACCEL_ERR_VERSION,
                       "loader: the saved order is of shuffle version %llu, "
                       "accel %s has version %d",
                       (unsigned long long)state->version, ACCEL_VERSION,
                       AX_SHUFFLE_VERSION);
    if (state->fingerprint != fingerprint(l))
        return ax_fail(
            ACCEL_ERR_PROTO,
            "loader: the saved place is in another dataset or order "
            "(fingerprint %016llx, here %016llx): samples, fields, types, "
            "shuffle, weights or blocks differ",
            (unsigned long long)state->fingerprint,
            (unsigned long long)fingerprint(l));
    return ACCEL_OK;
}

static accel_status_t check_samples(const accel_loader_t *l, uint64_t samples)
{
    bool whole = samples % l->round.global == 0;

    if (l->stream)
        return samples < UINT64_MAX / 2
                   ? ACCEL_OK
                   : ax_fail(ACCEL_ERR_ARG,
                             "loader: the saved place is sample %llu",
                             (unsigned long long)samples);
    if (samples > l->shard.samples)
        return ax_fail(
            ACCEL_ERR_ARG, "loader: the saved place is sample %llu of %llu",
            (unsigned long long)samples, (unsigned long long)l->shard.samples);
    if (samples == l->shard.samples || whole || l->options.elastic)
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_ARG,
                   "loader: %llu samples of the epoch were consumed, which "
                   "is no whole number of global batches of %llu; choose "
                   "ranks and batch_size so that it is, or set elastic",
                   (unsigned long long)samples,
                   (unsigned long long)l->round.global);
}

accel_status_t ax_loader_check_state(const accel_loader_t *loader,
                                     const accel_loader_state_t *state)
{
    accel_status_t st = check_origin(loader, state);

    return st == ACCEL_OK ? check_samples(loader, state->samples) : st;
}

accel_status_t accel_loader_set_state(accel_loader_t *loader,
                                      const accel_loader_state_t *state)
{
    if (!loader)
        return ax_fail_null(__func__, "loader");
    uint64_t samples = state->samples, global = loader->round.global;
    accel_status_t st = ax_loader_check_state(loader, state);

    if (st != ACCEL_OK)
        return st;
    ax_ring_pause(&loader->ring);
    loader->run.seed = state->seed;
    if (!loader->stream && samples == loader->shard.samples) {
        ax_go_to(loader, state->epoch, 0, 0);
        loader->next = loader->length;
    } else if (samples % global == 0) {
        ax_go_to(loader, state->epoch, 0, samples / global);
        if (loader->next > loader->length)
            loader->next = loader->length;
    } else {
        ax_go_to(loader, state->epoch, samples, 0);
    }
    return ACCEL_OK;
}
