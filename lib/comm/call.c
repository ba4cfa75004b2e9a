/* The operations that return when they are done. */
#include "comm/op.h"

static accel_status_t call(const char *function, accel_comm_t *c,
                           const ax_op_t *op)
{
    accel_status_t st;

    if (!c)
        return ax_fail_null(function, "comm");
    st = ax_begin(c);
    return st == ACCEL_OK ? ax_end(c, op->run(c, op)) : st;
}

accel_status_t accel_comm_barrier(accel_comm_t *c)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_barrier, .kind = AX_CALL_BARRIER});
}

accel_status_t accel_comm_broadcast(accel_comm_t *c, void *buffer, size_t count,
                                    accel_dtype_t dtype, int root)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_broadcast,
                           .kind = AX_CALL_BROADCAST,
                           .recv = buffer,
                           .count = count,
                           .dtype = dtype,
                           .root = root});
}

accel_status_t accel_comm_allreduce(accel_comm_t *c, const void *send,
                                    void *recv, size_t count,
                                    accel_dtype_t dtype, accel_op_t op)
{
    ax_op_t
        what; /* a literal clears all of it: a tenth of a small one's time */

    what.run = ax_do_allreduce;
    what.kind = AX_CALL_ALLREDUCE;
    what.send = send;
    what.recv = recv;
    what.count = count;
    what.dtype = dtype;
    what.op = op;
    return call(__func__, c, &what);
}

accel_status_t accel_comm_reduce(accel_comm_t *c, const void *send, void *recv,
                                 size_t count, accel_dtype_t dtype,
                                 accel_op_t op, int root)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_reduce,
                           .kind = AX_CALL_REDUCE,
                           .send = send,
                           .recv = recv,
                           .count = count,
                           .dtype = dtype,
                           .op = op,
                           .root = root});
}

accel_status_t accel_comm_reduce_scatter(accel_comm_t *c, const void *send,
                                         void *recv, size_t count,
                                         accel_dtype_t dtype, accel_op_t op)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_reduce_scatter,
                           .kind = AX_CALL_REDUCE_SCATTER,
                           .send = send,
                           .recv = recv,
                           .count = count,
                           .dtype = dtype,
                           .op = op});
}

accel_status_t accel_comm_reduce_scatterv(accel_comm_t *c, const void *send,
                                          void *recv, const size_t *counts,
                                          accel_dtype_t dtype, accel_op_t op)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_reduce_scatterv,
                           .kind = AX_CALL_REDUCE_SCATTERV,
                           .send = send,
                           .recv = recv,
                           .to.counts = counts,
                           .dtype = dtype,
                           .op = op});
}

accel_status_t accel_comm_allgather(accel_comm_t *c, const void *send,
                                    void *recv, size_t count,
                                    accel_dtype_t dtype)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_allgather,
                           .kind = AX_CALL_ALLGATHER,
                           .send = send,
                           .recv = recv,
                           .count = count,
                           .dtype = dtype});
}

accel_status_t accel_comm_allgatherv(accel_comm_t *c, const void *send,
                                     void *recv, const accel_parts_t *parts,
                                     accel_dtype_t dtype)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_allgatherv,
                           .kind = AX_CALL_ALLGATHERV,
                           .send = send,
                           .recv = recv,
                           .from = ax_parts_of(parts),
                           .dtype = dtype});
}

accel_status_t accel_comm_allgather_bytes(accel_comm_t *c, const void *data,
                                          size_t bytes, void **all,
                                          size_t **offsets)
{
    ax_no_bytes(all, offsets);
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_allgather_bytes,
                           .kind = AX_CALL_GATHER_BYTES,
                           .send = data,
                           .count = bytes,
                           .all = all,
                           .offsets = offsets});
}

accel_status_t accel_comm_gather(accel_comm_t *c, const void *send, void *recv,
                                 size_t count, accel_dtype_t dtype, int root)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_gather,
                           .kind = AX_CALL_GATHER,
                           .send = send,
                           .recv = recv,
                           .count = count,
                           .dtype = dtype,
                           .root = root});
}

accel_status_t accel_comm_gatherv(accel_comm_t *c, const void *send, void *recv,
                                  const accel_parts_t *parts,
                                  accel_dtype_t dtype, int root)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_gatherv,
                           .kind = AX_CALL_GATHERV,
                           .send = send,
                           .recv = recv,
                           .from = ax_parts_at(c, root, parts),
                           .dtype = dtype,
                           .root = root});
}

accel_status_t accel_comm_scatter(accel_comm_t *c, const void *send, void *recv,
                                  size_t count, accel_dtype_t dtype, int root)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_scatter,
                           .kind = AX_CALL_SCATTER,
                           .send = send,
                           .recv = recv,
                           .count = count,
                           .dtype = dtype,
                           .root = root});
}

accel_status_t accel_comm_scatterv(accel_comm_t *c, const void *send,
                                   void *recv, const accel_parts_t *parts,
                                   accel_dtype_t dtype, int root)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_scatterv,
                           .kind = AX_CALL_SCATTERV,
                           .send = send,
                           .recv = recv,
                           .to = ax_parts_at(c, root, parts),
                           .dtype = dtype,
                           .root = root});
}

accel_status_t accel_comm_alltoall(accel_comm_t *c, const void *send,
                                   void *recv, size_t count,
                                   accel_dtype_t dtype)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_alltoall,
                           .kind = AX_CALL_ALLTOALL,
                           .send = send,
                           .recv = recv,
                           .count = count,
                           .dtype = dtype});
}

accel_status_t accel_comm_alltoallv(accel_comm_t *c, const void *send,
                                    const accel_parts_t *to, void *recv,
                                    const accel_parts_t *from,
                                    accel_dtype_t dtype)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_alltoallv,
                           .kind = AX_CALL_ALLTOALLV,
                           .send = send,
                           .to = ax_parts_of(to),
                           .recv = recv,
                           .from = ax_parts_of(from),
                           .dtype = dtype});
}

/* ---- from rank to rank ------------------------------------------------------
 */

accel_status_t accel_comm_send(accel_comm_t *c, const void *data, size_t count,
                               accel_dtype_t dtype, int dest, int tag)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_send,
                           .kind = AX_CALL_SEND,
                           .between_two = true,
                           .going = {data, count, dtype, dest, tag}});
}

accel_status_t accel_comm_recv(accel_comm_t *c, void *data, size_t count,
                               accel_dtype_t dtype, int source, int tag)
{
    return call(__func__, c,
                &(ax_op_t){.run = ax_do_recv,
                           .kind = AX_CALL_RECV,
                           .between_two = true,
                           .coming = {data, count, dtype, source, tag}});
}

accel_status_t accel_comm_sendrecv(accel_comm_t *c,
                                   const accel_outgoing_t *send,
                                   const accel_incoming_t *recv)
{
    ax_op_t op;
    accel_status_t st = ax_op_sendrecv(c, send, recv, &op);

    return st != ACCEL_OK ? st : call(__func__, c, &op);
}
