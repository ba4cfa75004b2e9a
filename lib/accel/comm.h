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
 * Leaves the communicator. Collective in the sense that a rank that leaves
 * early ends the others' waits with ACCEL_ERR_PEER, but it does not wait for
 * them. NULL is fine; works after an error.
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

/* Which transport joins the nodes, and why: "none: one node". For people. */
ACCEL_API const char *accel_comm_transport(const accel_comm_t *comm);

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

/* As accel_comm_allgather(), but only rank `root` gets them; elsewhere `recv`
 * is not touched and may be NULL. */
ACCEL_API accel_status_t accel_comm_gather(accel_comm_t *comm, const void *send,
                                           void *recv, size_t count,
                                           accel_dtype_t dtype, int root);

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

#ifdef __cplusplus
}
#endif
#endif
