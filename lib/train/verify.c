/*
 * Whether all ranks have the same weights. It reads 4 bytes an element and adds
 * one all-reduce of 16 bytes; a difference takes one gather of 8 bytes a rank
 * for each parameter before it.
 */
#include "train_priv.h"

#include <stdlib.h>

static uint64_t hash_of(const accel_param_t *p, uint64_t seed)
{
    return ax_hash(p->data, p->count * sizeof(float), seed);
}

/* The first rank whose weights of this parameter are not rank 0's; 0: none. */
static accel_status_t find_rank(const accel_t *accel, const accel_param_t *p,
                                uint64_t *all, int *rank)
{
    uint64_t mine = hash_of(p, 0);
    accel_status_t st =
        accel_comm_allgather(accel->comm, &mine, all, 1, ACCEL_U64);

    *rank = 0;
    for (int r = 1; st == ACCEL_OK && *rank == 0 && r < accel_size(accel); r++)
        if (all[r] != all[0])
            *rank = r;
    return st;
}

static accel_status_t tell(const accel_t *accel, const accel_param_t *p,
                           int rank)
{
    char who[96];

    return ax_fail(ACCEL_ERR_PROTO,
                   "step: before step %llu the weights of %s are not the same "
                   "on %s as on rank 0: write weights on all ranks alike, "
                   "after accel_prepare()",
                   (unsigned long long)accel->steps + 1, p->name,
                   ax_job_who(accel->job, rank, who, sizeof who));
}

/* The hash of all of them differs, so that of one does. */
static accel_status_t name_difference(const accel_t *accel)
{
    const accel_model_t *model = accel->model;
    uint64_t *all = calloc((size_t)accel_size(accel), sizeof *all);
    accel_status_t st = ax_comm_agree(
        accel->comm,
        all ? ACCEL_OK : ax_fail(ACCEL_ERR_NOMEM, "step: out of memory"));
    int rank = 0;

    for (size_t i = 0; st == ACCEL_OK && i < model->nparams; i++) {
        st = find_rank(accel, model->params[i], all, &rank);
        if (st == ACCEL_OK && rank > 0)
            st = tell(accel, model->params[i], rank);
    }
    free(all);
    return st;
}

accel_status_t ax_weights_check(accel_t *accel)
{
    const accel_model_t *model = accel->model;
    uint64_t hash = 0;

    if (accel->check == 0 || !model || accel->steps % accel->check != 0)
        return ACCEL_OK;
    for (size_t i = 0; i < model->nparams; i++)
        hash = hash_of(model->params[i], hash);
    uint64_t most[] = {hash, ~hash};
    accel_status_t st = accel_comm_allreduce(
        accel->comm, most, most, AX_ARRAY_SIZE(most), ACCEL_U64, ACCEL_MAX);
    if (st != ACCEL_OK || most[0] == ~most[1])
        return st;
    return name_difference(accel);
}
