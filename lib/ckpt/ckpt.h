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

/* What tells one save from all others: 32 digits, the same in copies of the
 * checkpoint under whatever name. */
const char *ax_ckpt_uuid(const accel_ckpt_t *ckpt);

/* The same of one step in a directory; "" unless it is there and complete.
 * Local. */
void ax_ckpt_uuid_of(const char *dir, uint64_t step, char uuid[33]);

#endif
