/*
 * Bytes among all ranks.
 *
 * Every operation here but the getters is collective: all ranks of the
 * communicator call the same operations in the same order with the same
 * count, type, operator and root. Ranks that disagree all get
 * ACCEL_ERR_PROTO, whose text names each rank's call, and no output buffer is
 * touched. Nothing waits for ever: a rank that is gone ends every wait with
 * ACCEL_ERR_PEER, one that is silent for longer than the setting "timeout"
 * with ACCEL_ERR_TIMEOUT, and the text names rank, node and last operation.
 * After these the communicator refuses further use with the same error; close
 * it. Bad arguments (ACCEL_ERR_ARG) of one rank, and lack of memory in
 * accel_alloc() (ACCEL_ERR_NOMEM), are an error on all ranks, and it stays
 * usable; where an operation runs out of memory when data moves already,
 * ACCEL_ERR_NOMEM is as final as the two above.
 *
 * Counts are in elements. A count of 0 is fine, with NULL buffers too.
 * Passing the same pointer as `send` and `recv` asks for in-place operation;
 * any other overlap is ACCEL_ERR_ARG. f16 and bf16 are reduced in f32
 * and rounded once. Each element is reduced in rank order within a node and in
 * node order between nodes, whatever the message's size, so the same call
 * gives the same bits on every rank and in every run.
 *
 * One thread at a time may use a communicator; another one meanwhile, and a
 * child of fork(), get ACCEL_ERR_STATE.
 *
 * Each operation also has a form ending in _start, which returns at once; see
 * "Started operations" below.
 */
#ifndef ACCEL_COMM_H
#define ACCEL_COMM_H

#include <accel/base.h>
#include <accel/job.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct accel_comm accel_comm_t;

typedef enum accel_op {
    ACCEL_SUM = 0,
    ACCEL_AVG, /* sum / size, the division in f32 or f64; not for integers */
    ACCEL_MIN, /* NaN if any element is NaN */
    ACCEL_MAX, /* NaN if any element is NaN */
    ACCEL_PROD /* integers wrap */
} accel_op_t;

/*
 * The communicator of all ranks of `job`, which must outlive it, as must
 * `settings` ("timeout", "net"). Collective. On failure *out is NULL on every
 * rank that returns.
 *
 * ACCEL_ERR_PROTO: the ranks run with different settings or libraries (the
 * text names the ranks and nodes);
 * ACCEL_ERR_UNSUPPORTED: several nodes but no transport between them (the
 * text says why each was refused); ACCEL_ERR_NOMEM: no shared memory (bytes
 * needed are in the text).
 */
ACCEL_API accel_status_t accel_comm_open(accel_job_t *job,
                                         const accel_settings_t *settings,
                                         accel_comm_t **out);

/*
 * Leaves the communicator, once what was started has ended, and a call that
 * another thread is in; none may be made after that. Collective in the
 * sense that a rank that leaves early ends the others' waits with
 * ACCEL_ERR_PEER, but it does not wait for them. NULL is fine; works after an
 * error.
 */
ACCEL_API void accel_comm_close(accel_comm_t *comm);

/*
 * Parts of a communicator, each with ranks of its own, numbered by `key` and,
 * where keys are equal, by their rank in `comm`. Ranks with the same `color`
 * are in one part; with a negative color a rank is in none and *out is NULL.
 * Collective on `comm`; on failure *out is NULL on every rank of it.
 *
 * A part is a communicator like any other: it has its own sequence of
 * operations, its own memory (accel_alloc() of it is not the heap of `comm`)
 * and its own faults, whose texts name ranks by their number in the job. It
 * may be closed before or after `comm`, but before the job. It takes two
 * descriptors and a descriptor for each rank of its node.
 */
ACCEL_API accel_status_t accel_comm_split(accel_comm_t *comm, int color,
                                          int key, accel_comm_t **out);

/* The ranks of my node, in their order. Collective on `comm`. */
ACCEL_API accel_status_t accel_comm_split_node(accel_comm_t *comm,
                                               accel_comm_t **out);

/* The ranks that have my place on their nodes: the first of each node, the
 * second, and so on. A node with fewer ranks is not in the later ones.
 * Collective on `comm`. */
ACCEL_API accel_status_t accel_comm_split_across(accel_comm_t *comm,
                                                 accel_comm_t **out);

ACCEL_API int accel_comm_rank(const accel_comm_t *comm);
ACCEL_API int accel_comm_size(const accel_comm_t *comm);

/* Which transport joins the nodes, and why; on one node ("none: one node; ...")
 * whether ranks read each other's memory when it was opened. For people. */
ACCEL_API const char *accel_comm_transport(const accel_comm_t *comm);

/* A transport between nodes, as accel_comm_transport_at() tells of it. */
typedef struct accel_transport {
    const char *name; /* as the setting "net" has it */
    bool usable;      /* by this process; other ranks may differ */
    char text[256];   /* which release, or why it is refused */
} accel_transport_t;

/*
 * Looks whether a transport works here: number `index`, in the order in which
 * net=auto tries them. It is loaded, but nothing is started that stays. On an
 * error *out is as it was: ACCEL_ERR_NOTFOUND: there are no more. Local.
 */
ACCEL_API accel_status_t accel_comm_transport_at(size_t index,
                                                 accel_transport_t *out);

/* Returns when every rank has called it. */
ACCEL_API accel_status_t accel_comm_barrier(accel_comm_t *comm);

/* Copies `count` elements of rank `root` into `buffer` on all ranks. */
ACCEL_API accel_status_t accel_comm_broadcast(accel_comm_t *comm, void *buffer,
                                              size_t count, accel_dtype_t dtype,
                                              int root);

/*
 * recv[i] = op over all ranks of send[i], on every rank. `send` and `recv`
 * hold `count` elements. Types: f64 f32 f16 bf16 i8..u64; ACCEL_AVG of an
 * integer type is ACCEL_ERR_ARG. Integer sums and products wrap.
 */
ACCEL_API accel_status_t accel_comm_allreduce(accel_comm_t *comm,
                                              const void *send, void *recv,
                                              size_t count, accel_dtype_t dtype,
                                              accel_op_t op);

/*
 * Rank r gets elements [r * count, (r + 1) * count) of the reduction. `send`
 * holds size * count elements, `recv` holds count. In place: `recv` is
 * `send`, whose first `count` elements become the result and whose others
 * are then undefined.
 */
ACCEL_API accel_status_t accel_comm_reduce_scatter(accel_comm_t *comm,
                                                   const void *send, void *recv,
                                                   size_t count,
                                                   accel_dtype_t dtype,
                                                   accel_op_t op);

/*
 * Every rank gets the `count` elements of each rank, in rank order. `recv`
 * holds size * count elements. In place: `send` is `recv` + rank * count
 * elements.
 */
ACCEL_API accel_status_t accel_comm_allgather(accel_comm_t *comm,
                                              const void *send, void *recv,
                                              size_t count,
                                              accel_dtype_t dtype);

/*
 * Parts of different sizes, one for each rank: rank r's has counts[r] elements
 * and begins at element places[r] of the buffer; places == NULL: one after the
 * other, in rank order. Parts that are received may not overlap.
 */
typedef struct accel_parts {
    const size_t *counts;
    const size_t *places;
    size_t mine; /* a gather's or scatter's rank other than the root: the size
                    of its own part; counts and places are not looked at */
} accel_parts_t;

/* As accel_comm_allgather(), rank r sending parts->counts[r] elements. The
 * counts are the same on all ranks, the places may differ. In place: `send`
 * is where this rank's part goes. */
ACCEL_API accel_status_t accel_comm_allgatherv(accel_comm_t *comm,
                                               const void *send, void *recv,
                                               const accel_parts_t *parts,
                                               accel_dtype_t dtype);

/*
 * Every rank's bytes on every rank, as many as each has. On success *all (to
 * be given to free()) holds them in rank order, and (*offsets)[r] to
 * (*offsets)[r + 1] are rank r's; *offsets is to be given to free(), too. On
 * failure both are NULL.
 */
ACCEL_API accel_status_t accel_comm_allgather_bytes(accel_comm_t *comm,
                                                    const void *data,
                                                    size_t bytes, void **all,
                                                    size_t **offsets);

/* As accel_comm_allreduce(), but only rank `root` gets the result; elsewhere
 * `recv` is not touched and may be NULL. In place: on the root only. */
ACCEL_API accel_status_t accel_comm_reduce(accel_comm_t *comm, const void *send,
                                           void *recv, size_t count,
                                           accel_dtype_t dtype, accel_op_t op,
                                           int root);

/*
 * As accel_comm_reduce_scatter(), rank r getting counts[r] elements of the
 * reduction: its part of `send` follows those of the ranks before. The counts
 * are the same on all ranks.
 */
ACCEL_API accel_status_t accel_comm_reduce_scatterv(
    accel_comm_t *comm, const void *send, void *recv, const size_t *counts,
    accel_dtype_t dtype, accel_op_t op);

/* As accel_comm_allgather(), but only rank `root` gets them; elsewhere `recv`
 * is not touched and may be NULL. */
ACCEL_API accel_status_t accel_comm_gather(accel_comm_t *comm, const void *send,
                                           void *recv, size_t count,
                                           accel_dtype_t dtype, int root);

/* The same with parts: all of them on the root, parts->mine elsewhere. Counts
 * that do not fit are ACCEL_ERR_PROTO, and the communicator stays usable. */
ACCEL_API accel_status_t accel_comm_gatherv(accel_comm_t *comm,
                                            const void *send, void *recv,
                                            const accel_parts_t *parts,
                                            accel_dtype_t dtype, int root);

/*
 * Rank r gets elements [r * count, (r + 1) * count) of rank `root`'s `send`,
 * which is not looked at elsewhere. In place, on the root: `recv` is `send` +
 * root * count elements.
 */
ACCEL_API accel_status_t accel_comm_scatter(accel_comm_t *comm,
                                            const void *send, void *recv,
                                            size_t count, accel_dtype_t dtype,
                                            int root);

/* The same with parts, as accel_comm_gatherv(). */
ACCEL_API accel_status_t accel_comm_scatterv(accel_comm_t *comm,
                                             const void *send, void *recv,
                                             const accel_parts_t *parts,
                                             accel_dtype_t dtype, int root);

/*
 * Rank r's elements [s * count, (s + 1) * count) of `send` become elements
 * [r * count, (r + 1) * count) of rank s's `recv`. In place: `recv` is `send`.
 */
ACCEL_API accel_status_t accel_comm_alltoall(accel_comm_t *comm,
                                             const void *send, void *recv,
                                             size_t count, accel_dtype_t dtype);

/*
 * The same with parts: part s of `to` goes to rank s, part r of `from` comes
 * from rank r. What r sends to s and what s wants from r must be as long;
 * else ACCEL_ERR_PROTO, and the communicator stays usable. In place: `recv` is
 * `send`, and `to` and `from` say the same.
 */
ACCEL_API accel_status_t accel_comm_alltoallv(
    accel_comm_t *comm, const void *send, const accel_parts_t *to, void *recv,
    const accel_parts_t *from, accel_dtype_t dtype);

/*
 * From rank to rank: `count` elements to rank `dest`, which receives them from
 * `source` with the same `tag` (0 and above). Only these two take part.
 * Messages from one rank with one tag are received in the order in which they
 * were sent. accel_comm_send() returns when the receiver has the message, or
 * has taken it in while it waited for something else; accel_comm_recv() when
 * the message is in `data`, whose elements beyond it are left as they were.
 *
 * ACCEL_ERR_PROTO, on both ranks: the message is longer than `count` or of
 * another type (the text has both calls); ACCEL_ERR_PEER: the other rank died
 * or has left; ACCEL_ERR_TIMEOUT.
 */
ACCEL_API accel_status_t accel_comm_send(accel_comm_t *comm, const void *data,
                                         size_t count, accel_dtype_t dtype,
                                         int dest, int tag);
ACCEL_API accel_status_t accel_comm_recv(accel_comm_t *comm, void *data,
                                         size_t count, accel_dtype_t dtype,
                                         int source, int tag);

/* What accel_comm_sendrecv() sends, and what it receives. */
typedef struct accel_outgoing {
    const void *data;
    size_t count;
    accel_dtype_t dtype;
    int dest;
    int tag;
} accel_outgoing_t;

typedef struct accel_incoming {
    void *data;
    size_t count;
    accel_dtype_t dtype;
    int source;
    int tag;
} accel_incoming_t;

/* Both at once, so that ranks that exchange messages never wait for each
 * other; the two memories must not overlap. */
ACCEL_API accel_status_t accel_comm_sendrecv(accel_comm_t *comm,
                                             const accel_outgoing_t *send,
                                             const accel_incoming_t *recv);

/*
 * Memory that all ranks of the node can reach, zeroed and aligned to 4096
 * bytes: collectives on it copy nothing. Collective on the communicator: same
 * order, same size. The memory is this rank's own to read and write between
 * collectives. Free it with accel_free(), also collective and in the same
 * order on all ranks; what is left is freed by accel_comm_close().
 *
 * ACCEL_ERR_NOMEM says how many bytes were wanted. bytes == 0 gives a unique
 * pointer.
 */
ACCEL_API accel_status_t accel_alloc(accel_comm_t *comm, size_t bytes,
                                     void **out);
ACCEL_API accel_status_t accel_free(accel_comm_t *comm, void *memory);

/*
 * Started operations
 *
 * accel_comm_X_start() is accel_comm_X(), except that it only queues the
 * operation and gives a request for it. The operations of a communicator are
 * carried out in the order in which they were started, by a thread of its own
 * that the first start makes, so they go on while the caller computes. (A
 * library that only polls would move nothing between two tests: the ranks of a
 * node combine elements themselves, no card does it for them, and a caller
 * deep in a kernel does not test. The thread sleeps when there is nothing to
 * do; it takes no signals.) All ranks start the same operations in the same
 * order; whether a rank starts or calls one makes no difference to the others.
 *
 * Until the request is done the buffers belong to the operation: do not touch
 * what it writes, do not change what it reads. Tables of counts and places
 * are copied at once. A call that is not started waits until all started ones
 * before it have ended. accel_comm_close() does so as well; requests outlive
 * it.
 *
 * Errors, also those of arguments, come with the request: from the test or
 * wait that finds it done, with the full text. After a failure of the
 * communicator all that are queued end with the same error. Only
 * ACCEL_ERR_ARG and ACCEL_ERR_STATE for `comm`, and errors of making the
 * request itself (`out` is NULL, no memory, no thread), which all ranks get,
 * are returned at once; *out is then NULL.
 */
typedef struct accel_request accel_request_t;

ACCEL_API accel_status_t accel_comm_barrier_start(accel_comm_t *comm,
                                                  accel_request_t **out);
ACCEL_API accel_status_t accel_comm_broadcast_start(accel_comm_t *comm,
                                                    void *buffer, size_t count,
                                                    accel_dtype_t dtype,
                                                    int root,
                                                    accel_request_t **out);
ACCEL_API accel_status_t accel_comm_allreduce_start(
    accel_comm_t *comm, const void *send, void *recv, size_t count,
    accel_dtype_t dtype, accel_op_t op, accel_request_t **out);
ACCEL_API accel_status_t accel_comm_reduce_start(
    accel_comm_t *comm, const void *send, void *recv, size_t count,
    accel_dtype_t dtype, accel_op_t op, int root, accel_request_t **out);
ACCEL_API accel_status_t accel_comm_reduce_scatter_start(
    accel_comm_t *comm, const void *send, void *recv, size_t count,
    accel_dtype_t dtype, accel_op_t op, accel_request_t **out);
ACCEL_API accel_status_t accel_comm_reduce_scatterv_start(
    accel_comm_t *comm, const void *send, void *recv, const size_t *counts,
    accel_dtype_t dtype, accel_op_t op, accel_request_t **out);
ACCEL_API accel_status_t accel_comm_allgather_start(accel_comm_t *comm,
                                                    const void *send,
                                                    void *recv, size_t count,
                                                    accel_dtype_t dtype,
                                                    accel_request_t **out);
ACCEL_API accel_status_t accel_comm_allgatherv_start(
    accel_comm_t *comm, const void *send, void *recv,
    const accel_parts_t *parts, accel_dtype_t dtype, accel_request_t **out);
ACCEL_API accel_status_t accel_comm_allgather_bytes_start(
    accel_comm_t *comm, const void *data, size_t bytes, void **all,
    size_t **offsets, accel_request_t **out);
ACCEL_API accel_status_t accel_comm_gather_start(accel_comm_t *comm,
                                                 const void *send, void *recv,
                                                 size_t count,
                                                 accel_dtype_t dtype, int root,
                                                 accel_request_t **out);
ACCEL_API accel_status_t accel_comm_gatherv_start(accel_comm_t *comm,
                                                  const void *send, void *recv,
                                                  const accel_parts_t *parts,
                                                  accel_dtype_t dtype, int root,
                                                  accel_request_t **out);
ACCEL_API accel_status_t accel_comm_scatter_start(accel_comm_t *comm,
                                                  const void *send, void *recv,
                                                  size_t count,
                                                  accel_dtype_t dtype, int root,
                                                  accel_request_t **out);
ACCEL_API accel_status_t accel_comm_scatterv_start(accel_comm_t *comm,
                                                   const void *send, void *recv,
                                                   const accel_parts_t *parts,
                                                   accel_dtype_t dtype,
                                                   int root,
                                                   accel_request_t **out);
ACCEL_API accel_status_t accel_comm_alltoall_start(accel_comm_t *comm,
                                                   const void *send, void *recv,
                                                   size_t count,
                                                   accel_dtype_t dtype,
                                                   accel_request_t **out);
ACCEL_API accel_status_t accel_comm_alltoallv_start(
    accel_comm_t *comm, const void *send, const accel_parts_t *to, void *recv,
    const accel_parts_t *from, accel_dtype_t dtype, accel_request_t **out);

/*
 * Messages are queued with the rest: one that is not received yet holds up
 * what was started after it. Ranks that send to each other start
 * accel_comm_sendrecv_start(), or one of them receives first. An error of
 * making the request is this rank's alone.
 */
ACCEL_API accel_status_t accel_comm_send_start(accel_comm_t *comm,
                                               const void *data, size_t count,
                                               accel_dtype_t dtype, int dest,
                                               int tag, accel_request_t **out);
ACCEL_API accel_status_t accel_comm_recv_start(accel_comm_t *comm, void *data,
                                               size_t count,
                                               accel_dtype_t dtype, int source,
                                               int tag, accel_request_t **out);
ACCEL_API accel_status_t accel_comm_sendrecv_start(accel_comm_t *comm,
                                                   const accel_outgoing_t *send,
                                                   const accel_incoming_t *recv,
                                                   accel_request_t **out);

/*
 * Has the operation ended? If so, *done is true, the request is freed,
 * *request is NULL and the operation's status is returned; else *done is
 * false and ACCEL_OK is returned. Never waits. A request that was done before
 * is NULL: ACCEL_ERR_ARG. Local; requests are not tied to a thread, but one
 * thread at a time may use one.
 */
ACCEL_API accel_status_t accel_request_test(accel_request_t **request,
                                            bool *done);

/* Waits for the end, frees the request, sets *request to NULL and returns the
 * operation's status. It ends, as operations do: see the top. */
ACCEL_API accel_status_t accel_request_wait(accel_request_t **request);

/*
 * Waits until one of `count` requests is done, whose place goes to *index, and
 * does with it as accel_request_wait(). NULL ones are passed over; when all
 * are, *index is `count` and ACCEL_OK is returned.
 */
ACCEL_API accel_status_t accel_request_wait_any(accel_request_t **requests,
                                                size_t count, size_t *index);

/* Waits for all of them, also after an error, and returns the first one's
 * error in the order of the array. NULL ones are passed over. */
ACCEL_API accel_status_t accel_request_wait_all(accel_request_t **requests,
                                                size_t count);

/* Gives a request up without waiting: its operation is still carried out, and
 * its buffers stay the operation's until a later one has ended. NULL is fine;
 * *request becomes NULL. */
ACCEL_API void accel_request_free(accel_request_t **request);

#ifdef __cplusplus
}
#endif
#endif
