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
