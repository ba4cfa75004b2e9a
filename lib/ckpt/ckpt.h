/*
 * ckpt: what train may use beside <accel/ckpt.h>.
 */
#ifndef AX_CKPT_H
#define AX_CKPT_H

#include <accel/ckpt.h>

/*
 * For the caller whose accel_ckpt_read() of `bad` has just failed with
 * ACCEL_ERR_CORRUPT: opens the next older complete checkpoint in the directory
 * in which `bad` was found, and warns of the change. `bad` stays open.
 *
 * When there is none, or when `bad` was opened by its own name, returns the
 * error that is in the record already, and *out is NULL. Collective.
 */
accel_status_t ax_ckpt_open_older(const accel_ckpt_t *bad, accel_ckpt_t **out);

#endif
