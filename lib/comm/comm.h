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
 * Every rank's bytes on every rank, of any length. On success *all (one
 * allocation, the caller's to free()) holds them in rank order and
 * (*offsets)[r] .. (*offsets)[r + 1] are rank r's; *offsets is also the
 * caller's to free(). Collective.
 */
accel_status_t ax_comm_allgather_bytes(accel_comm_t *comm, const void *data,
                                       size_t bytes, void **all,
                                       size_t **offsets);

/* The job it was opened with: ranks' nodes for error texts. */
accel_job_t *ax_comm_job(const accel_comm_t *comm);

#endif
