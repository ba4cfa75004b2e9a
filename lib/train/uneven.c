/* Ranks that do not all have as many batches. */
#include "train_priv.h"

/* The loader that gave the newest batch, of those that train when there is
 * one. */
static const accel_loader_t *newest(const accel_t *accel)
{
    const accel_loader_t *found = NULL;
    uint64_t most = 0;
    bool named = false;

    for (size_t i = 0; i < accel->nloaders; i++)
        named = named || ax_loader_trains(accel->loaders[i]);
    for (size_t i = 0; i < accel->nloaders; i++) {
        uint64_t tick = ax_loader_tick(accel->loaders[i]);
        if (tick > most && (!named || ax_loader_trains(accel->loaders[i]))) {
            most = tick;
            found = accel->loaders[i];
        }
    }
    return found;
}

/* A group has one loader from its first pass to its last. */
bool ax_at_last_batch(accel_t *accel)
{
    if (accel->complete || accel->micro == 0 || !accel->source)
        accel->source = newest(accel);
    return accel->source && accel_loader_end_of_data(accel->source);
}

accel_status_t accel_join(accel_t *accel, bool have, bool *any)
{
    if (!accel) {
        *any = false;
        return ax_fail_null(__func__, "accel");
    }
    enum { HAVE = 0, MORE, FIELDS };
    int32_t fields[FIELDS] = {
        [HAVE] = have, [MORE] = have && !ax_at_last_batch(accel)};

    *any = false;
    ax_comm_where(accel->comm, AX_IN_JOIN);
    accel_status_t st = accel_comm_allreduce(accel->comm, fields, fields,
                                             FIELDS, ACCEL_I32, ACCEL_SUM);
    ax_comm_where(accel->comm, AX_IN_NOWHERE);
    if (st != ACCEL_OK)
        return st;
    accel->joined = fields[HAVE];
    accel->join_last = fields[MORE] == 0;
    *any = fields[HAVE] > 0;
    return ACCEL_OK;
}
