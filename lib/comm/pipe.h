/*
 * pipe: segment by segment between nodes. What is longer than a segment goes
 * through the slots, the sums and the results of the node by `turn`, two
 * segments at a time. While one is on the network, the node makes the next one
 * ready and takes the one before. All but `give` and `met` must be there;
 * c->turn is that of the segment.
 */
#ifndef AX_COMM_PIPE_H
#define AX_COMM_PIPE_H

#include "comm/comm_priv.h"

typedef struct ax_pipe {
    void *op;
    size_t segments; /* alike on all ranks; 0: they only meet */
    bool shared;     /* what `make` reads is there: nothing to give */
    /* Writes to my slot what others `make` of it. */
    void (*give)(accel_comm_t *c, void *op, size_t segment);
    /* All have come, the first time: may set `shared`. */
    accel_status_t (*met)(accel_comm_t *c, struct ax_pipe *pipe);
    /* All have given, and nobody reads what the segment two before this one
     * left: the network's input. */
    void (*make)(accel_comm_t *c, void *op, size_t segment);
    accel_status_t (*start)(accel_comm_t *c, void *op, size_t segment);
    void (*take)(accel_comm_t *c, void *op, size_t segment);
} ax_pipe_t;

/* Meets all ranks in c->call, as ax_enter(), and does it. */
accel_status_t ax_pipe_run(accel_comm_t *c, ax_pipe_t *pipe,
                           accel_status_t mine);

/* A copy during which the network goes on. */
void ax_pipe_copy(accel_comm_t *c, void *to, const void *from, size_t bytes);

/* ---- inter.c: what is on the network ----------------------------------------
 */

/*
 * Between the nodes. All ranks of all nodes call these at the same place, with
 * memory of the segment that they share. They only start: this rank's part in
 * it goes on whenever it waits, or calls ax_inter_go_on(), until
 * ax_inter_end(). When all ranks of the node have ended theirs, the result is
 * there, and none reads the input any more. `ready`: all ranks of the node
 * know that the input is complete (after a barrier); else only local rank 0,
 * which wrote it, and which does it all.
 */

accel_status_t ax_inter_end(accel_comm_t *c);
void ax_inter_go_on(accel_comm_t *c);
/* After an error: this rank's part does not go on any more. */
void ax_inter_drop(accel_comm_t *c);

/* Node sums at `acc` (accumulator's type) become results at `out`. */
accel_status_t ax_inter_allreduce(accel_comm_t *c, const ax_reduction_t *r,
                                  void *acc, void *out, size_t count,
                                  bool ready);
/* The same, but only node `root` gets results. */
accel_status_t ax_inter_reduce(accel_comm_t *c, const ax_reduction_t *r,
                               void *acc, void *out, size_t count, int root,
                               bool ready);
/* acc + offsets[k] .. offsets[k + 1]: elements for node k, in the accumulator's
 * type; out: this node's results, from the first byte on. */
accel_status_t ax_inter_reduce_parts(accel_comm_t *c, const ax_reduction_t *r,
                                     void *acc, void *out,
                                     const size_t *offsets, bool ready);
/* out + offsets[k] .. offsets[k + 1]: node k's bytes; `root`: the node that
 * wants them, -1: all. */
accel_status_t ax_inter_gather(accel_comm_t *c, char *out,
                               const size_t *offsets, int root, bool ready);
/* On node `root` all + offsets[k] .. offsets[k + 1]: bytes for node k, which
 * gets them at `out`. On the root nothing is copied to `out`. `offsets` alike
 * on all nodes. */
accel_status_t ax_inter_scatter(accel_comm_t *c, const char *all, char *out,
                                const size_t *offsets, int root, bool ready);
/* in + to[k] .. to[k + 1]: bytes for node k; out + from[k] .. from[k + 1]:
 * those of node k. This node's own are not moved. No node sends or gets more
 * than `most` in all, a number that is alike on all. */
typedef struct ax_exchange {
    const char *in;
    char *out;
    const size_t *to, *from;
    size_t most;
} ax_exchange_t;
accel_status_t ax_inter_alltoall(accel_comm_t *c, const ax_exchange_t *e,
                                 bool ready);
accel_status_t ax_inter_broadcast(accel_comm_t *c, void *data, size_t bytes,
                                  int root, bool ready);

/* ---- nodes.c: the collectives of several nodes ------------------------------
 */

/* A reduction. */
typedef struct ax_nodes_reduce {
    const ax_reduction_t *how;
    const char *send;
    char *recv;   /* NULL: it is not wanted here */
    size_t count; /* elements */
    int root;     /* -1: all get it */
} ax_nodes_reduce_t;

accel_status_t ax_nodes_reduce(accel_comm_t *c, ax_nodes_reduce_t *r,
                               accel_status_t mine);
/* count: of my part */
accel_status_t ax_nodes_reduce_scatter(accel_comm_t *c, ax_nodes_reduce_t *r,
                                       const ax_parts_t *parts,
                                       accel_status_t mine);
accel_status_t ax_nodes_broadcast(accel_comm_t *c, char *buffer, size_t bytes,
                                  int root, accel_status_t mine);
accel_status_t ax_nodes_gather(accel_comm_t *c, const char *send, char *recv,
                               const ax_parts_t *parts, int root,
                               accel_status_t mine);

#endif
