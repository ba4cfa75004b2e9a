/* Arguments of the collectives. */
#include "comm/comm_priv.h"

accel_status_t ax_check_dtype(accel_dtype_t dtype)
{
    if (ax_element(dtype) == 0)
        return ax_fail(ACCEL_ERR_ARG, "comm: no such element type (%d)",
                       (int)dtype);
    return ACCEL_OK;
}

/* count * size elements must fit in memory that has addresses. */
accel_status_t ax_check_count(const accel_comm_t *c, size_t count,
                              accel_dtype_t dtype, bool times_size)
{
    accel_status_t st = ax_check_dtype(dtype);
    size_t bytes;

    if (st != ACCEL_OK)
        return st;
    if (!ax_mul(count, ax_element(dtype), &bytes) ||
        (times_size && !ax_mul(bytes, (size_t)c->size, &bytes)) ||
        bytes > PTRDIFF_MAX)
        return ax_fail(
            ACCEL_ERR_ARG, "comm: %zu elements of %s%s are more than memory",
            count, accel_dtype_name(dtype), times_size ? " for each rank" : "");
    return ACCEL_OK;
}

accel_status_t ax_check_root(const accel_comm_t *c, int root)
{
    if (root < 0 || root >= c->size)
        return ax_fail(ACCEL_ERR_ARG, "comm: root %d is not in [0, %d)", root,
                       c->size);
    return ACCEL_OK;
}

accel_status_t ax_check_buffers(const void *send, size_t send_bytes,
                                const void *recv, size_t recv_bytes,
                                const void *in_place)
{
    uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;

    if ((send_bytes && !send) || (recv_bytes && !recv))
        return ax_fail(ACCEL_ERR_ARG, "comm: the %s buffer is NULL",
                       send_bytes && !send ? "send" : "receive");
    if (!send_bytes || !recv_bytes || send == in_place)
        return ACCEL_OK;
    if (s < r + recv_bytes && r < s + send_bytes)
        return ax_fail(ACCEL_ERR_ARG,
                       "comm: send and receive buffers overlap (%zu bytes at "
                       "%p, %zu at %p); use separate ones or the in-place "
                       "form",
                       send_bytes, send, recv_bytes, recv);
    return ACCEL_OK;
}
