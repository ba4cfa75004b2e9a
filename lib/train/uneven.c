/* Ranks that do not all have as many batches. */
#include "train_priv.h"

/* The loader that gave the newest batch is the one in use; a loop over another
 * one in between has ended, and does not count. */
bool ax_at_last_batch(const accel_t *accel)
{
    const accel_loader_t *newest = NULL;
    uint64_t most = 0;

    for (size_t i = 0; i < accel->nloaders; i++) {
        uint64_t tick = ax_loader_tick(accel->loaders[i]);
        if (tick > most) {
            most = tick;
            newest = accel->loaders[i];
        }
    }
    return newest && accel_loader_end_of_data(newest);
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
