/* The operations that are only started. */
#include "comm/op.h"

static accel_status_t start(const char *function, accel_comm_t *c,
                            const ax_op_t *op, accel_request_t **out)
{
    if (out)
        *out = NULL;
    return c ? ax_start(c, op, out) : ax_fail_null(function, "comm");
}

accel_status_t accel_comm_barrier_start(accel_comm_t *c, accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_barrier, .kind = AX_CALL_BARRIER},
                 out);
}

accel_status_t accel_comm_broadcast_start(accel_comm_t *c, void *buffer,
                                          size_t count, accel_dtype_t dtype,
                                          int root, accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_broadcast,
                            .kind = AX_CALL_BROADCAST,
                            .recv = buffer,
                            .count = count,
                            .dtype = dtype,
                            .root = root},
                 out);
}

accel_status_t accel_comm_allreduce_start(accel_comm_t *c, const void *send,
                                          void *recv, size_t count,
                                          accel_dtype_t dtype, accel_op_t op,
                                          accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_allreduce,
                            .kind = AX_CALL_ALLREDUCE,
                            .send = send,
                            .recv = recv,
                            .count = count,
                            .dtype = dtype,
                            .op = op},
                 out);
}

accel_status_t accel_comm_reduce_start(accel_comm_t *c, const void *send,
                                       void *recv, size_t count,
                                       accel_dtype_t dtype, accel_op_t op,
                                       int root, accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_reduce,
                            .kind = AX_CALL_REDUCE,
                            .send = send,
                            .recv = recv,
                            .count = count,
                            .dtype = dtype,
                            .op = op,
                            .root = root},
                 out);
}

accel_status_t
accel_comm_reduce_scatter_start(accel_comm_t *c, const void *send, void *recv,
                                size_t count, accel_dtype_t dtype,
                                accel_op_t op, accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_reduce_scatter,
                            .kind = AX_CALL_REDUCE_SCATTER,
                            .send = send,
                            .recv = recv,
                            .count = count,
                            .dtype = dtype,
                            .op = op},
                 out);
}

accel_status_t
accel_comm_reduce_scatterv_start(accel_comm_t *c, const void *send, void *recv,
                                 const size_t *counts, accel_dtype_t dtype,
                                 accel_op_t op, accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_reduce_scatterv,
                            .kind = AX_CALL_REDUCE_SCATTERV,
                            .send = send,
                            .recv = recv,
                            .to.counts = counts,
                            .dtype = dtype,
                            .op = op},
                 out);
}

accel_status_t accel_comm_allgather_start(accel_comm_t *c, const void *send,
                                          void *recv, size_t count,
                                          accel_dtype_t dtype,
                                          accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_allgather,
                            .kind = AX_CALL_ALLGATHER,
                            .send = send,
                            .recv = recv,
                            .count = count,
                            .dtype = dtype},
                 out);
}

accel_status_t accel_comm_allgatherv_start(accel_comm_t *c, const void *send,
                                           void *recv,
                                           const accel_parts_t *parts,
                                           accel_dtype_t dtype,
                                           accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_allgatherv,
                            .kind = AX_CALL_ALLGATHERV,
                            .send = send,
                            .recv = recv,
                            .from = ax_parts_of(parts),
                            .dtype = dtype},
                 out);
}

accel_status_t accel_comm_allgather_bytes_start(accel_comm_t *c,
                                                const void *data, size_t bytes,
                                                void **all, size_t **offsets,
                                                accel_request_t **out)
{
    ax_no_bytes(all, offsets);
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_allgather_bytes,
                            .kind = AX_CALL_GATHER_BYTES,
                            .send = data,
                            .count = bytes,
                            .all = all,
                            .offsets = offsets},
                 out);
}

accel_status_t accel_comm_gather_start(accel_comm_t *c, const void *send,
                                       void *recv, size_t count,
                                       accel_dtype_t dtype, int root,
                                       accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_gather,
                            .kind = AX_CALL_GATHER,
                            .send = send,
                            .recv = recv,
                            .count = count,
                            .dtype = dtype,
                            .root = root},
                 out);
}

accel_status_t accel_comm_gatherv_start(accel_comm_t *c, const void *send,
                                        void *recv, const accel_parts_t *parts,
                                        accel_dtype_t dtype, int root,
                                        accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_gatherv,
                            .kind = AX_CALL_GATHERV,
                            .send = send,
                            .recv = recv,
                            .from = ax_parts_at(c, root, parts),
                            .dtype = dtype,
                            .root = root},
                 out);
}

accel_status_t accel_comm_scatter_start(accel_comm_t *c, const void *send,
                                        void *recv, size_t count,
                                        accel_dtype_t dtype, int root,
                                        accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_scatter,
                            .kind = AX_CALL_SCATTER,
                            .send = send,
                            .recv = recv,
                            .count = count,
                            .dtype = dtype,
                            .root = root},
                 out);
}

accel_status_t accel_comm_scatterv_start(accel_comm_t *c, const void *send,
                                         void *recv, const accel_parts_t *parts,
                                         accel_dtype_t dtype, int root,
                                         accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_scatterv,
                            .kind = AX_CALL_SCATTERV,
                            .send = send,
                            .recv = recv,
                            .to = ax_parts_at(c, root, parts),
                            .dtype = dtype,
                            .root = root},
                 out);
}

accel_status_t accel_comm_alltoall_start(accel_comm_t *c, const void *send,
                                         void *recv, size_t count,
                                         accel_dtype_t dtype,
                                         accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_alltoall,
                            .kind = AX_CALL_ALLTOALL,
                            .send = send,
                            .recv = recv,
                            .count = count,
                            .dtype = dtype},
                 out);
}

accel_status_t accel_comm_alltoallv_start(accel_comm_t *c, const void *send,
                                          const accel_parts_t *to, void *recv,
                                          const accel_parts_t *from,
                                          accel_dtype_t dtype,
                                          accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_alltoallv,
                            .kind = AX_CALL_ALLTOALLV,
                            .send = send,
                            .to = ax_parts_of(to),
                            .recv = recv,
                            .from = ax_parts_of(from),
                            .dtype = dtype},
                 out);
}

/* ---- from rank to rank ------------------------------------------------------
 */

accel_status_t accel_comm_send_start(accel_comm_t *c, const void *data,
                                     size_t count, accel_dtype_t dtype,
                                     int dest, int tag, accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_send,
                            .kind = AX_CALL_SEND,
                            .between_two = true,
                            .going = {data, count, dtype, dest, tag}},
                 out);
}

accel_status_t accel_comm_recv_start(accel_comm_t *c, void *data, size_t count,
                                     accel_dtype_t dtype, int source, int tag,
                                     accel_request_t **out)
{
    return start(__func__, c,
                 &(ax_op_t){.run = ax_do_recv,
                            .kind = AX_CALL_RECV,
                            .between_two = true,
                            .coming = {data, count, dtype, source, tag}},
                 out);
}

accel_status_t accel_comm_sendrecv_start(accel_comm_t *c,
                                         const accel_outgoing_t *send,
                                         const accel_incoming_t *recv,
                                         accel_request_t **out)
{
    ax_op_t op;
    accel_status_t st = ax_op_sendrecv(c, send, recv, &op);

    if (out)
        *out = NULL;
    return st != ACCEL_OK ? st : start(__func__, c, &op, out);
}
