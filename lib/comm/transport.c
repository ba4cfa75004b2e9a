/* What joins nodes here, told without a job. */
#include "comm/comm_priv.h"

#include "net/net.h"

accel_status_t accel_comm_transport_at(size_t index, accel_transport_t *out)
{
    accel_transport_t found = {.name = NULL};

    if (!out)
        return ax_fail(ACCEL_ERR_ARG, "comm: transport: out is NULL");
    if (!ax_net_look(index, &found.name, &found.usable, found.text,
                     sizeof found.text))
        return ax_fail(ACCEL_ERR_NOTFOUND, "comm: there is no transport %zu",
                       index);
    *out = found;
    return ACCEL_OK;
}
