/*
 * cma: straight from the memory of another rank of the node into one's own.
 */
#ifndef AX_CMA_PRIV_H
#define AX_CMA_PRIV_H

#include "comm/direct.h"

/* ---- cma.c ------------------------------------------------------------------
 *
 * One copy where slots take two: through the kernel straight from the memory
 * of one rank of the node to that of another, where the kernel lets us. All
 * ranks of the node are of one mind about that.
 */

/* Enters the call that opens the communicator, and tries it. */
accel_status_t ax_cma_open(accel_comm_t *c);

/* Shall a message of so many bytes go that way? */
static inline bool ax_cma_serves(const accel_comm_t *c, size_t bytes)
{
    return c->cma.least != 0 && bytes >= c->cma.least;
}

/* Where a rank's buffers lie, in its own address space. */
typedef struct ax_buffers {
    uint64_t send, recv;
} ax_buffers_t;

/* ax_enter(), and my place goes along unless my call names memory of the heap.
 * If none does (!c->any_named), that of each rank is there until the next
 * call. */
accel_status_t ax_cma_enter(accel_comm_t *c, accel_status_t mine,
                            const void *send, const void *recv);
ax_buffers_t ax_cma_buffers(const accel_comm_t *c, int local);

/* From local rank `local`. *error: that of the first one that failed, errno's
 * or cma.c's own; after that it does nothing. Nothing is ever written there. */
void ax_cma_read(const accel_comm_t *c, int local, void *to, uint64_t from,
                 size_t bytes, int *error);

/* All have read what they had to, which came out as `error`; *moved: nobody
 * failed. Otherwise each rank checks the memory that it was called with and
 * passes that to ax_cma_failed(): an error becomes everyone's. If there is
 * none, everything is moved again, through the slots, now and, unless it was
 * memory that was short, in future. */
accel_status_t ax_cma_end(accel_comm_t *c, int error, bool *moved);
accel_status_t ax_cma_check(const void *memory, size_t bytes, bool written);
accel_status_t ax_cma_failed(accel_comm_t *c, accel_status_t mine);

/* For tests, on all ranks alike: messages from `least` bytes on, if that works
 * here at all. */
void ax_cma_force(accel_comm_t *c, size_t least);

/* ---- single.c: collectives that take one copy -------------------------------
 *
 * After ax_cma_enter() of all ranks, when none has named memory of the heap.
 * *moved: it is done; otherwise, and without an error, the slots must do it,
 * which nobody uses at this moment.
 */

/* Shall this gather or scatter try it? Between one and all only where all know
 * the places of parts. */
bool ax_single_gathers(const accel_comm_t *c, const ax_parted_t *g,
                       size_t longest);
accel_status_t ax_single_gather(accel_comm_t *c, const ax_parted_t *g,
                                bool *moved);
accel_status_t ax_single_scatter(accel_comm_t *c, const ax_parted_t *s,
                                 bool *moved);

#endif
