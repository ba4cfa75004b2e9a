/*
 * Dispatch: rank 0 reads whole rounds, filled up with repeats, and each rank
 * gets its part of them. A last round that is short is dealt in equal parts,
 * with no more repeats than these need. How bytes travel is the business of
 * whoever set `scatter`.
 */
#include "loader_priv.h"

#include <string.h>

/* What rank 0 says of a round. */
typedef struct header {
    uint64_t rows; /* of each rank; 0: the epoch is over */
    uint64_t real; /* of all */
    uint64_t last;
    uint64_t seen;
    accel_error_t error; /* status ACCEL_OK: none */
} header_t;

void ax_loader_set_scatter(accel_loader_t *loader, const ax_scatter_t *how)
{
    loader->deal.scatter = *how;
}

accel_status_t ax_deal_init(accel_loader_t *l)
{
    return ax_slot_init(l, &l->deal.mine, l->rows);
}

void ax_deal_fini(accel_loader_t *l)
{
    ax_slot_fini(l, &l->deal.mine);
}

static void describe(const accel_loader_t *l, const ax_slot_t *round,
                     header_t *h)
{
    uint64_t size = (uint64_t)l->shard.size;

    if (round->over)
        return;
    h->rows = (round->real + size - 1) / size;
    h->real = round->real;
    h->last = round->last;
    h->seen = round->seen;
}

static accel_status_t share(accel_loader_t *l, ax_slot_t **round, header_t *h)
{
    const ax_scatter_t *how = &l->deal.scatter;
    accel_status_t st = ACCEL_OK;

    memset(h, 0, sizeof *h); /* it travels, gaps and all */
    if (l->shard.rank == 0 && (st = ax_ring_get(l, l->next, round)) == ACCEL_OK)
        describe(l, *round, h);
    if (st != ACCEL_OK)
        ax_error_get(&h->error);
    if ((st = how->broadcast(how->context, h, sizeof *h)) != ACCEL_OK)
        return st;
    if (h->error.status == ACCEL_OK)
        return ACCEL_OK;
    st = ax_error_set(&h->error);
    return l->shard.rank ? ax_fail_prefix(st, "rank 0 reads for all") : st;
}

/* One field after the other, and which samples they are. */
static accel_status_t scatter(accel_loader_t *l, const ax_slot_t *round,
                              size_t rows)
{
    const ax_scatter_t *how = &l->deal.scatter;
    ax_slot_t *mine = &l->deal.mine;
    size_t nfields = accel_dataset_fields(l->dataset, NULL);
    accel_status_t st = how->scatter(how->context, round ? round->index : NULL,
                                     mine->index, rows * sizeof *mine->index);

    for (size_t f = 0; st == ACCEL_OK && f < nfields; f++)
        st =
            how->scatter(how->context, round ? round->data[f] : NULL,
                         mine->data[f], rows * ax_dataset_bytes(l->dataset, f));
    return st;
}

accel_status_t ax_deal_get(accel_loader_t *l, ax_slot_t **out)
{
    ax_slot_t *round = NULL, *mine = &l->deal.mine;
    header_t h;
    accel_status_t st;

    *out = mine;
    if (!l->deal.scatter.scatter)
        return ax_fail(ACCEL_ERR_STATE,
                       "loader: dispatch on several ranks needs "
                       "accel_prepare(), which joins them");
    if ((st = share(l, &round, &h)) != ACCEL_OK)
        return st;
    mine->k = l->next;
    mine->over = h.rows == 0;
    mine->last = h.last != 0;
    mine->seen = h.seen;
    mine->real = h.real;
    mine->count = (size_t)h.rows;
    if (mine->over)
        return ACCEL_OK;
    if ((st = scatter(l, round, mine->count)) == ACCEL_OK)
        ax_fill_rest(l, mine);
    return st;
}
