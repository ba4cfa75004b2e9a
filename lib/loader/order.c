/* From positions of an epoch to samples of the dataset, in whichever order
 * the options ask for. */
#include "loader_priv.h"

#include <errno.h>

static accel_status_t check_kinds(const accel_loader_options_t *o)
{
    int kinds = o->shuffle + (o->weights != NULL) + (o->order != NULL) +
                (o->batches != NULL);

    if (kinds > 1)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: %d of shuffle, weights, order and batches are "
                       "set; choose one",
                       kinds);
    if (o->draws && !o->weights && !o->order)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: draws goes with weights or order only");
    if (o->replacement && !o->weights)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: replacement goes with weights only");
    if (o->group && !o->block)
        return ax_fail(ACCEL_ERR_ARG, "loader: group goes with block only");
    if (o->block && !o->shuffle)
        return ax_fail(ACCEL_ERR_ARG, "loader: block goes with shuffle only");
    return ACCEL_OK;
}

static accel_status_t check_batches(const accel_loader_options_t *o)
{
    if (!o->batches)
        return o->nbatches == 0
                   ? ACCEL_OK
                   : ax_fail(ACCEL_ERR_ARG,
                             "loader: nbatches goes with batches only");
    if (o->nbatches == 0)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: nbatches is 0; say how many batches an epoch "
                       "has");
    if (o->split_batches)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: batches of a batch sampler are of any size and "
                       "cannot be split; leave split_batches out");
    return ACCEL_OK;
}

/* Within the dataset, so that products cannot overflow; those of a stream,
 * which has no number of samples, are as they were given. */
static void set_blocks(ax_order_t *order)
{
    const accel_loader_options_t *o = order->options;
    uint64_t block = o->block, group = o->group ? o->group : AX_GROUP, nblocks;

    if (block == 0)
        return;
    if (order->samples > 0 && block > order->samples)
        block = order->samples;
    nblocks = order->samples / block + (order->samples % block != 0);
    if (order->samples > 0 && group > nblocks)
        group = nblocks;
    order->blocks = (ax_blocks_t){order->samples, block, group};
}

accel_status_t ax_order_init(ax_order_t *order,
                             const accel_loader_options_t *options,
                             uint64_t samples)
{
    accel_status_t st = check_kinds(options);

    if (st != ACCEL_OK || (st = check_batches(options)) != ACCEL_OK)
        return st;
    order->options = options;
    order->samples = samples;
    order->positions = options->batches ? options->nbatches
                       : options->draws ? options->draws
                                        : samples;
    set_blocks(order);
    if (!options->weights)
        return ACCEL_OK;
    st = ax_weights_init(&order->weights, options, samples);
    order->positions = order->weights.draws;
    return st;
}

void ax_order_fini(ax_order_t *order)
{
    if (order->weights.weight)
        ax_weights_fini(&order->weights);
}

/* What a program's own function gave is not believed. */
static accel_status_t check_index(const ax_order_t *order,
                                  const uint64_t *index, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (index[i] >= order->samples)
            return ax_fail(ACCEL_ERR_ARG,
                           "loader: the program's order gives sample %llu; the "
                           "dataset has %llu",
                           (unsigned long long)index[i],
                           (unsigned long long)order->samples);
    return ACCEL_OK;
}

/* Positions run up but for the jump back to the start of the epoch. */
static size_t run_of(const uint64_t *positions, size_t count)
{
    size_t n = 1;

    while (n < count && positions[n] == positions[0] + n)
        n++;
    return n;
}

static accel_status_t ask(const ax_order_t *order, uint64_t epoch,
                          uint64_t *positions, size_t count)
{
    const accel_loader_options_t *o = order->options;

    for (size_t at = 0, n; at < count; at += n) {
        uint64_t first = positions[at];
        n = run_of(positions + at, count - at);
        int err = o->order(o->context, epoch, first, n, positions + at);
        if (err)
            return ax_fail_sys(ACCEL_ERR_IO, err < 0 ? EIO : err,
                               "loader: the program's order for positions "
                               "%llu to %llu",
                               (unsigned long long)first,
                               (unsigned long long)(first + n - 1));
    }
    return check_index(order, positions, count);
}

accel_status_t ax_order_find(ax_order_t *order, const ax_run_t *run,
                             uint64_t *positions, size_t count)
{
    const accel_loader_options_t *o = order->options;
    shuffle_t shuffle;

    if (o->weights)
        return ax_weights_find(&order->weights, run->seed, run->epoch,
                               positions, count);
    if (o->order)
        return ask(order, run->epoch, positions, count);
    if (!o->shuffle)
        return ACCEL_OK;
    if (o->block) {
        ax_blocks_find(&order->blocks, run->seed, run->epoch, positions, count);
        return ACCEL_OK;
    }
    ax_shuffle_init(&shuffle, run->seed, run->epoch, order->samples);
    for (size_t i = 0; i < count; i++)
        positions[i] = ax_shuffle_at(&shuffle, positions[i]);
    return ACCEL_OK;
}

accel_status_t ax_order_batch(const ax_order_t *order, uint64_t epoch,
                              uint64_t number, uint64_t *index, size_t *count)
{
    const accel_loader_options_t *o = order->options;
    size_t room = *count;
    int err = o->batches(o->context, epoch, number, index, count);

    if (err)
        return ax_fail_sys(ACCEL_ERR_IO, err < 0 ? EIO : err,
                           "loader: the program's batch %llu",
                           (unsigned long long)number);
    if (*count == 0 || *count > room)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: the program's batch %llu has %zu samples; "
                       "batch_size allows 1 to %zu",
                       (unsigned long long)number, *count, room);
    return check_index(order, index, *count);
}

uint64_t ax_order_hash(const ax_order_t *order)
{
    const accel_loader_options_t *o = order->options;
    uint64_t kind =
        (uint64_t)(o->order != NULL) | (uint64_t)(o->batches != NULL) << 1 |
        (uint64_t)(o->weights != NULL) << 2 | (uint64_t)o->replacement << 3 |
        (uint64_t)(o->block != 0) << 4 | (uint64_t)o->shuffle << 5;
    uint64_t numbers[] = {kind, order->positions, order->blocks.block,
                          order->blocks.group};

    if (kind == 0)
        return 0;
    uint64_t hash = ax_hash(numbers, sizeof numbers, 1);
    if (o->weights)
        hash = ax_hash(order->weights.weight,
                       (size_t)order->samples * sizeof(double), hash);
    return hash;
}
