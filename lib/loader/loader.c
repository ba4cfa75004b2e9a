/*
 * The loader: its batches, one after the other. Everything follows from (seed,
 * epoch, number of the batch), so going anywhere is an assignment.
 */
#include "loader_priv.h"

#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 1024
#define MOST_PREFETCH ((size_t)1 << 20)
#define MOST_ALIGN ((size_t)1 << 21) /* a huge page */

static _Atomic uint64_t ticks;

/* ---- create, destroy, set_rank ------------------------------------------- */

static accel_status_t check_numbers(const accel_loader_options_t *o)
{
    if (o->batch_size == 0)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: batch_size is 0; say how many samples a batch "
                       "has");
    if (o->threads > MOST_THREADS || o->prefetch > MOST_PREFETCH)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: %zu threads and %zu batches of prefetch; at "
                       "most %d and %zu are possible",
                       o->threads, o->prefetch, MOST_THREADS, MOST_PREFETCH);
    if (o->prefetch && !o->threads)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: prefetch is %zu but there is no thread to read "
                       "ahead; set threads",
                       o->prefetch);
    if ((o->align & (o->align - 1)) || o->align > MOST_ALIGN ||
        (o->align && o->align < sizeof(void *)))
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: align is %zu; it must be a power of two from "
                       "%zu to %zu",
                       o->align, sizeof(void *), MOST_ALIGN);
    return ACCEL_OK;
}

static accel_status_t check_stream(const accel_loader_options_t *o)
{
    size_t window;

    if (o->weights || o->order || o->batches)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: a stream has an order of its own; weights, "
                       "order and batches need a dataset read by index");
    if (o->shuffle && !o->block)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: shuffling a stream needs block and group: that "
                       "many samples are kept and mixed");
    if (!ax_mul(o->block, o->group ? o->group : AX_GROUP, &window))
        return ax_fail(ACCEL_ERR_ARG, "loader: block %zu times group %zu",
                       o->block, o->group);
    return ACCEL_OK;
}

static accel_status_t check_dispatch(const accel_loader_options_t *o)
{
    if (!o->dispatch || (!o->uneven && !o->batches))
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_ARG,
                   "loader: dispatch gives all ranks as many samples; leave "
                   "uneven and batches out");
}

static accel_status_t check_options(const accel_dataset_t *dataset,
                                    const accel_loader_options_t *o)
{
    accel_status_t st = check_numbers(o);

    if (st == ACCEL_OK)
        st = check_dispatch(o);
    if (st == ACCEL_OK && ax_dataset_is_stream(dataset))
        st = check_stream(o);
    return st;
}

/* Memory for reading that the new rank and size need. */
static accel_status_t allocate(accel_loader_t *l)
{
    accel_status_t st;

    if (ax_deals(l) && (st = ax_deal_init(l)) != ACCEL_OK)
        return st;
    if (ax_deals(l) && l->shard.rank != 0)
        return ACCEL_OK;
    st = ax_ring_init(l, &l->ring,
                      ax_deals(l) ? (size_t)l->round.global : l->rows);
    if (st == ACCEL_OK && l->stream)
        st = ax_stream_create(l, &l->source);
    return st;
}

static void release(accel_loader_t *l)
{
    ax_ring_fini(l, &l->ring);
    ax_stream_destroy(l->source);
    l->source = NULL;
    ax_deal_fini(l);
}

/* Most rows of this rank's batches. */
static size_t rows_of(const accel_loader_t *l, const round_t *round)
{
    return l->options.batches ? l->options.batch_size : (size_t)round->local;
}

accel_status_t accel_loader_set_rank(accel_loader_t *loader, int rank, int size)
{
    if (!loader)
        return ax_fail_null(__func__, "loader");
    accel_shard_t shard = loader->shard, before = loader->shard;
    round_t round;
    accel_status_t st;

    shard.rank = rank;
    shard.size = size;
    /* One rank waits for no other: as in the plain loop its last batch is
     * short, unless every batch has to have one shape. */
    shard.uneven =
        loader->options.uneven || (size == 1 && !loader->options.static_shape);
    if ((st = ax_shard_round(&shard, &round)) != ACCEL_OK)
        return st;
    ax_ring_pause(&loader->ring);
    release(loader);
    loader->shard = shard;
    loader->round = round;
    loader->rows = rows_of(loader, &round);
    if ((st = allocate(loader)) != ACCEL_OK) {
        release(loader);
        loader->shard = before;
    }
    ax_go_to(loader, loader->run.epoch, 0, 0);
    return st;
}

static accel_status_t set_up(accel_loader_t *l)
{
    const accel_loader_options_t *o = &l->options;
    accel_status_t st =
        ax_order_init(&l->order, o, accel_dataset_samples(l->dataset));

    if (st != ACCEL_OK)
        return st;
    l->run.seed = ax_or_int(o->seed, 0);
    l->shard = (accel_shard_t){.samples = l->order.positions,
                               .batch_size = o->batches ? 1 : o->batch_size,
                               .drop_last = o->drop_last,
                               .split_batches = o->split_batches};
    return accel_loader_set_rank(l, 0, 1);
}

accel_status_t accel_loader_create(accel_dataset_t *dataset,
                                   const accel_loader_options_t *options,
                                   accel_loader_t **out)
{
    accel_loader_options_t o = ACCEL_LOADER_INIT;
    accel_status_t st;

    *out = NULL;
    if (!dataset)
        return ax_fail_null(__func__, "dataset");
    if (accel_dataset_samples(dataset) == 0 && !ax_dataset_is_stream(dataset))
        return ax_fail(ACCEL_ERR_ARG, "loader: the dataset has no samples");
    if ((st = ax_options_copy(&o, options, sizeof o, "ACCEL_LOADER")) !=
            ACCEL_OK ||
        (st = check_options(dataset, &o)) != ACCEL_OK)
        return st;

    accel_loader_t *l = calloc(1, sizeof *l);
    if (!l)
        return ax_fail(ACCEL_ERR_NOMEM, "loader: out of memory");
    l->dataset = dataset;
    l->stream = ax_dataset_is_stream(dataset);
    l->options = o;
    if ((st = set_up(l)) != ACCEL_OK) {
        accel_loader_destroy(l);
        return st;
    }
    l->options.weights = l->order.weights.weight; /* the copy */
    *out = l;
    return ACCEL_OK;
}

void accel_loader_destroy(accel_loader_t *loader)
{
    if (!loader)
        return;
    if (loader->gone)
        loader->gone(loader->owner, loader);
    release(loader);
    ax_order_fini(&loader->order);
    free(loader);
}

/* ---- batches -------------------------------------------------------------
 */

/* Said once, by the rank that reads first. */
static void warn_of_nothing(accel_loader_t *l)
{
    if (l->warned || l->shard.rank != 0)
        return;
    l->warned = true;
    ax_log(
        AX_LOG_WARN,
        "loader: epoch %llu has no batch of %zu samples a rank on %d ranks%s",
        (unsigned long long)l->run.epoch, l->rows, l->shard.size,
        l->shard.drop_last ? ": drop_last leaves out all there is; take a "
                             "smaller batch_size"
                           : "");
}

static accel_status_t end_epoch(accel_loader_t *l)
{
    bool at_end = l->at_end;

    if (l->next == 0 && l->run.base == 0)
        warn_of_nothing(l);
    ax_go_to(l, l->run.epoch + 1, 0, 0);
    l->at_end = at_end; /* until the next epoch's first batch */
    return ACCEL_END;
}

static void hold(accel_loader_t *l, const ax_slot_t *slot)
{
    l->next = slot->k + 1;
    l->held = slot;
    l->holding = true;
    l->tick = ++ticks;
    l->at_end = slot->last;
    l->seen = slot->seen;
    if (slot->last)
        l->length = l->next; /* news for a stream only */
}

/* The same batch is tried again, where there is only one rank. */
static accel_status_t give_up(accel_loader_t *l, accel_status_t st)
{
    accel_error_t error;

    ax_error_get(&error);
    ax_ring_pause(&l->ring);
    l->holding = false;
    ax_error_set(&error);
    if (!l->watch.failed || ax_deals(l))
        return st;
    return l->watch.failed(l->watch.context, st);
}

accel_status_t accel_loader_next(accel_loader_t *loader, accel_batch_t *batch)
{
    accel_loader_t *l = loader;
    ax_slot_t *slot;
    accel_status_t st;

    *batch = (accel_batch_t){0};
    if (!loader)
        return ax_fail_null(__func__, "loader");
    if (l->watch.check && (st = l->watch.check(l->watch.context)) != ACCEL_OK)
        return st;
    if (l->next >= l->length)
        return end_epoch(l);
    st = ax_deals(l) ? ax_deal_get(l, &slot) : ax_ring_get(l, l->next, &slot);
    if (st == ACCEL_OK && slot->over)
        return end_epoch(l);
    if (st != ACCEL_OK)
        return give_up(l, st);
    hold(l, slot);
    *batch = (accel_batch_t){.count = slot->count,
                             .nfields = accel_dataset_fields(l->dataset, NULL),
                             .data = slot->data,
                             .index = slot->index,
                             .number = slot->k,
                             .epoch = l->run.epoch,
                             .last = slot->last,
                             .rows = l->options.static_shape ? l->rows
                                                             : slot->count};
    return ACCEL_OK;
}

bool accel_loader_end_of_data(const accel_loader_t *loader)
{
    return !loader || loader->at_end;
}

uint64_t accel_loader_real_rows(const accel_loader_t *loader)
{
    if (!loader || !loader->holding)
        return 0;
    return loader->shard.uneven ? loader->held->count : loader->held->real;
}

/* ---- for train -----------------------------------------------------------
 */

void ax_loader_set_default_seed(accel_loader_t *loader, uint64_t seed)
{
    ax_ring_pause(&loader->ring);
    if (loader->options.seed == ACCEL_DEFAULT_INT)
        loader->run.seed = seed;
    ax_go_to(loader, loader->run.epoch, 0, 0);
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
    return loader->holding ? loader->held->count : 0;
}

uint64_t ax_loader_tick(const accel_loader_t *loader)
{
    return loader->holding ? loader->tick : 0;
}

uint64_t ax_loader_fingerprint(const accel_loader_t *loader)
{
    return accel_dataset_fingerprint(loader->dataset);
}

void ax_loader_set_watch(accel_loader_t *loader, const ax_watch_t *watch)
{
    loader->watch = *watch;
}

void ax_loader_take(accel_loader_t *loader)
{
    loader->taken = true;
}

void ax_loader_set_trains(accel_loader_t *loader, bool trains)
{
    loader->trains = trains;
}

bool ax_loader_trains(const accel_loader_t *loader)
{
    return loader->trains;
}

bool ax_loader_is_taken(const accel_loader_t *loader)
{
    return loader->taken;
}

accel_dataset_t *ax_loader_dataset(const accel_loader_t *loader)
{
    return loader->dataset;
}

void ax_loader_set_owner(accel_loader_t *loader,
                         void (*gone)(void *context,
                                      const accel_loader_t *loader),
                         void *context)
{
    loader->gone = gone;
    loader->owner = context;
}
