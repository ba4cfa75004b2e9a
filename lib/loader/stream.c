/*
 * Streams: samples in order, without a known number. Each rank reads all of
 * it and keeps its own part of every round. One round is read ahead, so that
 * the end is known with the last batch; the first round is kept, for what the
 * last one lacks is taken from there.
 *
 * With `shuffle` a window of samples (block * group of them) is read at a time
 * and given in another order.
 */
#include "dataset_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- the window ---------------------------------------------------------- */

struct ax_stream {
    const accel_loader_t *l;
    uint64_t seed, epoch, base; /* of the run it is in */
    bool begun;

    ax_slot_t window;
    size_t width;    /* samples of a full one */
    uint64_t first;  /* position of its first */
    size_t have, at; /* samples in it, and given of them */
    bool ended;      /* none comes after it */
    bool shuffled;
    shuffle_t order;

    ax_slot_t head; /* the first round, if repeats may be needed */
    size_t nhead;
    ax_slot_t ahead;   /* own rows of round `number` */
    uint64_t number;   /* of the round in `ahead` */
    uint64_t complete; /* samples of all ranks in it */
};

static uint64_t position(const ax_stream_t *s)
{
    return s->first + s->at;
}

/* Makes sure of one sample more; *more is false at the end. */
static accel_status_t look(ax_stream_t *s, bool *more)
{
    size_t count = s->width;
    accel_status_t st;

    *more = s->at < s->have;
    if (*more || s->ended)
        return ACCEL_OK;
    s->first += s->have;
    s->have = s->at = 0;
    st = ax_dataset_next(s->l->dataset, s->epoch, s->first, &count,
                         s->window.data);
    if (st != ACCEL_OK)
        return st;
    s->have = count;
    s->ended = count < s->width;
    *more = count > 0;
    if (s->shuffled)
        ax_shuffle_init(&s->order, s->seed ^ ((s->first / s->width + 1) << 20),
                        s->epoch, count);
    return ACCEL_OK;
}

/* Row `row` of `to` becomes the next sample, which look() has found. */
static void take(ax_stream_t *s, ax_slot_t *to, size_t row)
{
    size_t nfields = accel_dataset_fields(s->l->dataset, NULL);
    size_t from = s->at++;

    if (s->shuffled)
        from = (size_t)ax_shuffle_at(&s->order, from);
    for (size_t f = 0; f < nfields; f++) {
        size_t bytes = ax_dataset_bytes(s->l->dataset, f);
        memcpy((char *)to->data[f] + row * bytes,
               (char *)s->window.data[f] + from * bytes, bytes);
    }
    to->index[row] = s->first + from;
}

/* Begins the epoch at the window that holds `to`, if the stream can go there;
 * else at its start. */
static accel_status_t jump(ax_stream_t *s, uint64_t to)
{
    uint64_t start = to / s->width * s->width;
    bool more;
    accel_status_t st;

    s->first = start;
    s->have = s->at = 0;
    s->ended = false;
    st = look(s, &more);
    if (st != ACCEL_ERR_UNSUPPORTED || start == 0)
        return st;
    s->first = 0;
    s->have = s->at = 0;
    return ACCEL_OK;
}

/* Passes over samples until `to` or the end. */
static accel_status_t pass(ax_stream_t *s, uint64_t to)
{
    accel_status_t st = ACCEL_OK;
    bool more = true;

    while (more && position(s) < to) {
        if ((st = look(s, &more)) != ACCEL_OK)
            return st;
        uint64_t left = to - position(s);
        s->at += left < s->have - s->at ? (size_t)left : s->have - s->at;
    }
    return st;
}

/* Reads up to `count` samples into rows `row` and following. */
static accel_status_t get(ax_stream_t *s, ax_slot_t *to, size_t row,
                          size_t count, size_t *got)
{
    accel_status_t st;
    bool more;

    for (*got = 0; *got < count; ++*got) {
        if ((st = look(s, &more)) != ACCEL_OK)
            return st;
        if (!more)
            break;
        take(s, to, row + *got);
    }
    return ACCEL_OK;
}

/* ---- rounds -------------------------------------------------------------- */

static bool needs_head(const accel_loader_t *l)
{
    return !l->run.shard.drop_last && !l->run.shard.uneven;
}

static void copy_row(const ax_stream_t *s, ax_slot_t *to, size_t row,
                     const ax_slot_t *from, size_t at)
{
    size_t nfields = accel_dataset_fields(s->l->dataset, NULL);

    for (size_t f = 0; f < nfields; f++) {
        size_t bytes = ax_dataset_bytes(s->l->dataset, f);
        memcpy((char *)to->data[f] + row * bytes,
               (char *)from->data[f] + at * bytes, bytes);
    }
    to->index[row] = from->index[at];
}

/* Where in a round this rank's rows begin. */
static size_t offset(const accel_loader_t *l)
{
    return (size_t)l->run.shard.rank * (size_t)l->run.round.local;
}

/* Rows that a round of `have` samples gives this rank, repeats too. */
static size_t rows_of(const accel_loader_t *l, size_t have)
{
    const accel_shard_t *shard = &l->run.shard;
    size_t local = (size_t)l->run.round.local, from = offset(l);

    if (have == 0 || (shard->drop_last && have < l->run.round.global))
        return 0;
    if (!shard->uneven || have >= from + local)
        return local;
    return have > from ? have - from : 0;
}

/* What the round lacks comes from the first one, as often as it takes. */
static void complete(ax_stream_t *s, size_t have)
{
    size_t from = offset(s->l);
    size_t own = have > from ? have - from : 0;

    s->ahead.count = rows_of(s->l, have);
    for (size_t i = own; i < s->ahead.count; i++)
        copy_row(s, &s->ahead, i, &s->head, (from + i - have) % s->nhead);
}

/* Reads round `k`, at whose start the stream is, into `ahead`. */
static accel_status_t read_round(ax_stream_t *s, uint64_t k)
{
    const round_t *round = &s->l->run.round;
    uint64_t start = position(s);
    size_t got;
    accel_status_t st;

    if ((st = pass(s, start + offset(s->l))) != ACCEL_OK ||
        (st = get(s, &s->ahead, 0, (size_t)round->local, &got)) != ACCEL_OK ||
        (st = pass(s, start + round->global)) != ACCEL_OK)
        return st;
    s->number = k;
    s->complete = position(s) - start;
    complete(s, (size_t)s->complete);
    return ACCEL_OK;
}

/* The first round in full; its own rows are round 0 as well. */
static accel_status_t read_head(ax_stream_t *s)
{
    size_t global = (size_t)s->l->run.round.global;
    size_t from = offset(s->l);
    accel_status_t st;

    if ((st = jump(s, s->base)) != ACCEL_OK ||
        (st = pass(s, s->base)) != ACCEL_OK ||
        (st = get(s, &s->head, 0, global, &s->nhead)) != ACCEL_OK)
        return st;
    for (size_t i = 0; from + i < s->nhead && i < s->l->run.round.local; i++)
        copy_row(s, &s->ahead, i, &s->head, from + i);
    s->number = 0;
    s->complete = s->nhead;
    complete(s, s->nhead);
    return ACCEL_OK;
}

static accel_status_t begin(ax_stream_t *s, uint64_t k)
{
    const ax_run_t *run = &s->l->run;
    uint64_t to = run->base + k * run->round.global;
    bool far = true;
    accel_status_t st;

    s->seed = run->seed;
    s->epoch = run->epoch;
    s->base = run->base;
    s->begun = false;
    if (needs_head(s->l)) {
        if ((st = read_head(s)) != ACCEL_OK || k == 0) {
            s->begun = st == ACCEL_OK;
            return st;
        }
        far = !s->ended && to - position(s) > s->width;
    }
    if ((far && (st = jump(s, to)) != ACCEL_OK) ||
        (st = pass(s, to)) != ACCEL_OK || (st = read_round(s, k)) != ACCEL_OK)
        return st;
    s->begun = true;
    return ACCEL_OK;
}

/* ---- for the loader ------------------------------------------------------ */

static size_t window_width(const accel_loader_t *l)
{
    const ax_blocks_t *blocks = &l->order.blocks;

    return l->options.shuffle ? (size_t)(blocks->block * blocks->group)
                              : (size_t)l->round.global;
}

accel_status_t ax_stream_create(const accel_loader_t *l, ax_stream_t **out)
{
    ax_stream_t *s = calloc(1, sizeof *s);
    size_t global = (size_t)l->round.global;
    size_t rows = ax_deals(l) ? global : l->rows; /* rank 0 reads for all */
    accel_status_t st;

    *out = NULL;
    if (!s)
        return ax_fail(ACCEL_ERR_NOMEM, "loader: out of memory");
    s->l = l;
    s->width = window_width(l);
    s->shuffled = l->options.shuffle;
    if ((st = ax_slot_init(l, &s->window, s->width)) == ACCEL_OK &&
        (st = ax_slot_init(l, &s->head, global)) == ACCEL_OK &&
        (st = ax_slot_init(l, &s->ahead, rows)) == ACCEL_OK) {
        *out = s;
        return ACCEL_OK;
    }
    ax_slot_fini(l, &s->window);
    ax_slot_fini(l, &s->head);
    free(s);
    return st;
}

void ax_stream_destroy(ax_stream_t *s)
{
    if (!s)
        return;
    ax_slot_fini(s->l, &s->window);
    ax_slot_fini(s->l, &s->head);
    ax_slot_fini(s->l, &s->ahead);
    free(s);
}

static void swap_rows(ax_slot_t *a, ax_slot_t *b)
{
    void **data = a->data;
    uint64_t *index = a->index;

    a->data = b->data;
    a->index = b->index;
    b->data = data;
    b->index = index;
    a->count = b->count;
}

accel_status_t ax_stream_fill(accel_loader_t *l, ax_slot_t *slot)
{
    ax_stream_t *s = l->source;
    const ax_run_t *run = &l->run;
    accel_status_t st = ACCEL_OK;

    if (!s->begun || s->seed != run->seed || s->epoch != run->epoch ||
        s->base != run->base || s->number != slot->k)
        st = begin(s, slot->k);
    s->begun = false; /* until all has gone well */
    if (st != ACCEL_OK)
        return st;
    slot->over = s->ahead.count == 0;
    slot->real = s->complete;
    swap_rows(slot, &s->ahead);
    if (run->shard.uneven)
        slot->real = slot->count;
    slot->last = slot->over;
    if (slot->over)
        return ACCEL_OK;
    /* What cannot be read is the next batch's error: it tries again. */
    if (read_round(s, slot->k + 1) == ACCEL_OK) {
        slot->last = s->ahead.count == 0;
        slot->seen = position(s);
        s->begun = true;
    }
    return ACCEL_OK;
}
