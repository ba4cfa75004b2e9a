/*
 * comm: what ckpt and train may use beside <accel/comm.h>.
 */
#ifndef AX_COMM_H
#define AX_COMM_H

#include "base/base.h"
#include <accel/comm.h>

/*
 * Makes a local outcome everyone's. Each rank passes its own status; when any
 * is an error, every rank returns the status and text of the lowest rank that
 * failed, prefixed "rank R on NODE: " on the others. Its record must be in
 * place (ax_fail()) on a rank that passes an error. Collective.
 */
accel_status_t ax_comm_agree(accel_comm_t *comm, accel_status_t mine);

/*
 * This rank cannot go on, and says why: its record is in place. What the
 * others call next, or wait in, ends with this status and text, prefixed
 * "rank R on NODE: ", and the communicator refuses further use as after any
 * fault. What all have entered already comes to its end. Nothing happens in a
 * world of one. Local; returns `status`, with the record as it was.
 */
accel_status_t ax_comm_fail(accel_comm_t *comm, accel_status_t status);

/* Has a rank failed, as far as that is known here? Its fault, or ACCEL_OK.
 * Local and quick. */
accel_status_t ax_comm_check(accel_comm_t *comm);

/* X(NAME, text) of public calls that are made of several operations */
#define AX_WHERE_LIST(X)                                                       \
    X(NOWHERE, "")                                                             \
    X(BUILD, " in accel_model_build")                                          \
    X(PREPARE, " in accel_prepare")                                            \
    X(BACKWARD, " in accel_backward_end")                                      \
    X(CLIP, " in accel_clip_grad_norm")                                        \
    X(STEP, " in accel_optimizer_step")                                        \
    X(METRICS, " in accel_gather_for_metrics")                                 \
    X(NEXT, " in accel_loader_next")                                           \
    X(JOIN, " in accel_join")                                                  \
    X(SAVE, " in accel_save_state")                                            \
    X(LOAD, " in accel_load_state")

typedef enum ax_where {
#define AX_WHERE_ENUM(NAME, text) AX_IN_##NAME,
    AX_WHERE_LIST(AX_WHERE_ENUM)
#undef AX_WHERE_ENUM
} ax_where_t;

/*
 * Which of them the operations from now on belong to: error texts say so, and
 * operations of two different ones do not match. Returns the one before, to be
 * put back. Local.
 */
ax_where_t ax_comm_where(accel_comm_t *comm, ax_where_t where);

/* My rank among those on my node, and how many they are. Local. */
int ax_comm_local_rank(const accel_comm_t *comm);
int ax_comm_local_size(const accel_comm_t *comm);

#endif
