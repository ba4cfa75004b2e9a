/*
 * op: one operation as it was asked for, to be carried out at once or later
 * (request.c). call.c and start.c hold the public functions, which do no more
 * than fill this in; what `run` points to does the work.
 */
#ifndef AX_COMM_OP_H
#define AX_COMM_OP_H

#include "comm/comm_priv.h"

typedef struct ax_op ax_op_t;

/* Within ax_begin() and ax_end(), or on the thread of started operations. */
typedef accel_status_t (*ax_op_fn)(accel_comm_t *c, const ax_op_t *op);

struct ax_op {
    ax_op_fn run;
    ax_call_kind_t kind;
    ax_where_t where; /* of a started one */
    const void *send;
    void *recv;
    size_t count;
    accel_dtype_t dtype;
    accel_op_t op;
    int root;
    /* of what is sent, of what comes; counts is NULL in those that do not
     * matter on this rank */
    accel_parts_t to, from;
    /* from rank to rank: only two ranks take part */
    bool between_two;
    accel_outgoing_t going;
    accel_incoming_t coming;
    void **all; /* all-gather of bytes */
    size_t **offsets;
};

accel_status_t ax_do_send(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_recv(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_sendrecv(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_barrier(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_broadcast(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_allreduce(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_reduce(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_reduce_scatter(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_reduce_scatterv(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_allgather(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_allgatherv(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_allgather_bytes(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_gather(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_gatherv(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_scatter(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_scatterv(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_alltoall(accel_comm_t *c, const ax_op_t *op);
accel_status_t ax_do_alltoallv(accel_comm_t *c, const ax_op_t *op);

/* What an all-gather of bytes gives when it fails. */
static inline void ax_no_bytes(void **all, size_t **offsets)
{
    if (all)
        *all = NULL;
    if (offsets)
        *offsets = NULL;
}

/* What accel_comm_sendrecv() and its started form are asked for. Without a
 * communicator the caller has something else to say. */
static inline accel_status_t ax_op_sendrecv(const accel_comm_t *c,
                                            const accel_outgoing_t *send,
                                            const accel_incoming_t *recv,
                                            ax_op_t *op)
{
    *op = (ax_op_t){
        .run = ax_do_sendrecv, .kind = AX_CALL_SENDRECV, .between_two = true};
    if (c && (!send || !recv))
        return ax_fail(ACCEL_ERR_ARG, "comm: nothing to %s (NULL)",
                       send ? "receive" : "send");
    if (send)
        op->going = *send;
    if (recv)
        op->coming = *recv;
    return ACCEL_OK;
}

/* ---- args.c ----------------------------------------------------------------
 */

/* What is wrong with the arguments: never ACCEL_OK. */
accel_status_t ax_refuse_dtype(accel_dtype_t dtype);
accel_status_t ax_refuse_count(size_t count, accel_dtype_t dtype,
                               bool times_size);
accel_status_t ax_refuse_root(const accel_comm_t *c, int root);
accel_status_t ax_refuse_buffers(const void *send, size_t send_bytes,
                                 const void *recv, size_t recv_bytes);

static inline accel_status_t ax_check_dtype(accel_dtype_t dtype)
{
    return ax_element(dtype) ? ACCEL_OK : ax_refuse_dtype(dtype);
}

/* `count` elements, of each rank when `times_size`, must fit in memory that
 * has addresses. */
static inline accel_status_t ax_check_count(const accel_comm_t *c, size_t count,
                                            accel_dtype_t dtype,
                                            bool times_size)
{
    size_t element = ax_element(dtype), bytes;

    if (element && ax_mul(count, element, &bytes) &&
        (!times_size || ax_mul(bytes, (size_t)c->size, &bytes)) &&
        bytes <= PTRDIFF_MAX)
        return ACCEL_OK;
    return ax_refuse_count(count, dtype, times_size);
}

static inline accel_status_t ax_check_root(const accel_comm_t *c, int root)
{
    return root >= 0 && root < c->size ? ACCEL_OK : ax_refuse_root(c, root);
}

/* Neither NULL nor overlapping, unless `send` is `in_place`. */
static inline accel_status_t
ax_check_buffers(const void *send, size_t send_bytes, const void *recv,
                 size_t recv_bytes, const void *in_place)
{
    uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;
    bool there = (send || !send_bytes) && (recv || !recv_bytes);
    bool apart = !send_bytes || !recv_bytes || send == in_place ||
                 s >= r + recv_bytes || r >= s + send_bytes;

    return there && apart
               ? ACCEL_OK
               : ax_refuse_buffers(send, send_bytes, recv, recv_bytes);
}

/* ---- request.c --------------------------------------------------------------
 */

/* Queues it behind those that were started before. `out` may be NULL, which
 * all ranks hear of, and holds NULL. */
accel_status_t ax_start(accel_comm_t *c, const ax_op_t *op,
                        accel_request_t **out);

/* ---- parts.c: parts of different sizes --------------------------------------
 */

/*
 * Parts as the caller described them, in bytes: rank r's are `bytes[r]` bytes
 * at `at[r]`. One allocation.
 */
typedef struct ax_table {
    size_t *bytes, *at;
    size_t total; /* bytes of all parts */
    size_t end;   /* the last one ends there */
} ax_table_t;

/* What a caller passed, which may be NULL; and where it matters on the root
 * only, but for the size of the rank's own part. */
static inline accel_parts_t ax_parts_of(const accel_parts_t *parts)
{
    return parts ? *parts : (accel_parts_t){0};
}

static inline accel_parts_t ax_parts_at(const accel_comm_t *c, int root,
                                        const accel_parts_t *parts)
{
    if (c && c->rank == root)
        return ax_parts_of(parts);
    return (accel_parts_t){.mine = parts ? parts->mine : 0};
}

/* Of the communicator's ranks; `what` is "sent" or "received", for texts. An
 * error is this rank's own. */
accel_status_t ax_table_make(const accel_comm_t *c, const accel_parts_t *parts,
                             accel_dtype_t dtype, const char *what,
                             ax_table_t *out);
void ax_table_free(ax_table_t *table);

/* No two of them share a byte. */
accel_status_t ax_table_apart(const accel_comm_t *c, const ax_table_t *table);

/* A number of the counts, for calls to compare: no sign, never 0. */
int32_t ax_table_mark(const accel_comm_t *c, const ax_table_t *table);

#endif
