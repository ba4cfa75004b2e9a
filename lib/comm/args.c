/* Arguments of the collectives: what is told of wrong ones. */
#include "comm/op.h"

accel_status_t ax_refuse_dtype(accel_dtype_t dtype)
{
    return ax_fail(ACCEL_ERR_ARG, "comm: no such element type (%d)",
                   (int)dtype);
}

accel_status_t ax_refuse_count(size_t count, accel_dtype_t dtype,
                               bool times_size)
{
    if (ax_element(dtype) == 0)
        return ax_refuse_dtype(dtype);
    return ax_fail(ACCEL_ERR_ARG,
                   "comm: %zu elements of %s%s are more than memory", count,
                   accel_dtype_name(dtype), times_size ? " for each rank" : "");
}

accel_status_t ax_refuse_root(const accel_comm_t *c, int root)
{
    return ax_fail(ACCEL_ERR_ARG,
                   "comm: root %d is not in [0, %d); it is a rank of this "
                   "communicator, see accel_comm_size(3)",
                   root, c->size);
}

accel_status_t ax_refuse_buffers(const void *send, size_t send_bytes,
                                 const void *recv, size_t recv_bytes)
{
    if ((send_bytes && !send) || (recv_bytes && !recv))
        return ax_fail(ACCEL_ERR_ARG, "comm: the %s buffer is NULL",
                       send_bytes && !send ? "send" : "receive");
    return ax_fail(ACCEL_ERR_ARG,
                   "comm: send and receive buffers overlap (%zu bytes at "
                   "%p, %zu at %p); use separate ones or the in-place "
                   "form",
                   send_bytes, send, recv_bytes, recv);
}
