/* One batch of a dataset with a known number of samples: which ones, and what
 * is in them. */
#include "loader_priv.h"

#include <string.h>

/* Rounds take positions in order, and those past the end are repeats. */
static uint64_t real_rows(const ax_run_t *run, const ax_slot_t *slot)
{
    uint64_t left = run->shard.samples - slot->k * run->round.global;

    if (run->shard.uneven)
        return slot->count;
    return left < run->round.global ? left : run->round.global;
}

/* With a batch sampler positions are batches, slot->real of them in a round.
 * Those of the other ranks are asked for how many rows they have. */
static accel_status_t find_batch(accel_loader_t *l, ax_slot_t *slot)
{
    const ax_run_t *run = &l->run;
    uint64_t own = slot->index[0];
    uint64_t first = run->base + slot->k * run->round.global;
    uint64_t end = first + slot->real, rows = 0;
    bool uneven = run->shard.uneven;
    accel_status_t st;

    for (uint64_t b = first; b < end && !uneven; b++) {
        slot->count = l->rows;
        if (b == own)
            continue;
        st =
            ax_order_batch(&l->order, run->epoch, b, slot->index, &slot->count);
        if (st != ACCEL_OK)
            return st;
        rows += slot->count;
    }
    slot->count = l->rows;
    st = ax_order_batch(&l->order, run->epoch, own, slot->index, &slot->count);
    slot->real =
        rows + (uneven || (own >= first && own < end) ? slot->count : 0);
    return st;
}

static accel_status_t find(accel_loader_t *l, ax_slot_t *slot)
{
    const ax_run_t *run = &l->run;
    size_t count = (size_t)run->round.local;
    accel_status_t st =
        accel_shard_batch(&run->shard, slot->k, slot->index, &count);

    if (st != ACCEL_OK)
        return st;
    for (size_t i = 0; i < count; i++)
        slot->index[i] += run->base;
    slot->count = count;
    slot->real = real_rows(run, slot);
    if (l->options.batches)
        return find_batch(l, slot);
    return ax_order_find(&l->order, run, slot->index, count);
}

void ax_fill_rest(const accel_loader_t *l, ax_slot_t *slot)
{
    size_t nfields = accel_dataset_fields(l->dataset, NULL);
    size_t rest = slot->count < l->rows ? l->rows - slot->count : 0;

    if (!l->options.static_shape)
        return;
    for (size_t f = 0; f < nfields; f++) {
        size_t bytes = ax_dataset_bytes(l->dataset, f);
        memset((char *)slot->data[f] + slot->count * bytes, 0, rest * bytes);
    }
}

accel_status_t ax_fill(accel_loader_t *l, ax_slot_t *slot)
{
    accel_status_t st;

    slot->over = false;
    slot->last = slot->k + 1 == l->run.length;
    if (l->stream)
        st = ax_stream_fill(l, slot);
    else if ((st = find(l, slot)) == ACCEL_OK)
        st = ax_dataset_read(l->dataset, slot->index, slot->count, slot->data);
    if (st != ACCEL_OK)
        return ax_fail_prefix(st, "loader: batch %llu of epoch %llu",
                              (unsigned long long)slot->k,
                              (unsigned long long)l->run.epoch);
    ax_fill_rest(l, slot);
    return ACCEL_OK;
}
