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
    if (!l->options.batches)
        return ax_order_find(&l->order, run, slot->index, count);
    slot->count = l->rows;
    return ax_order_batch(&l->order, run->epoch, slot->index[0], slot->index,
                          &slot->count);
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
