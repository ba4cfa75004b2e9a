/*
 * ckpt: what train may use beside <accel/ckpt.h>.
 */
#ifndef AX_CKPT_H
#define AX_CKPT_H

#include <accel/ckpt.h>

/*
 * As accel_ckpt_open() of a directory of checkpoints, but takes the newest
 * complete one whose step is below `before`. For the caller whose
 * accel_ckpt_read() found damage: the next older one is its way on.
 * Collective.
 */
accel_status_t ax_ckpt_open_before(accel_comm_t *comm, const char *dir,
                                   uint64_t before, accel_ckpt_t **out);

#endif
