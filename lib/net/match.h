/*
 * match: which receive gets which message, for a transport that brings
 * messages of each sender in order but knows no tags of 64 bits. Pure: no
 * messages are sent here, so tests need no network.
 */
#ifndef AX_MATCH_H
#define AX_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- on the wire -----------------------------------------------------------
 */

/* In front of each message. A short message follows its head at once, a long
 * one comes by a channel of its own, in chunks. */
typedef struct ax_wire {
    uint32_t magic;
    uint32_t instance; /* which one of the receiver's it is for */
    uint64_t tag;
    uint64_t bytes;   /* of the message */
    uint32_t channel; /* 0: it follows at once */
    uint32_t zero;
} ax_wire_t;

#define AX_WIRE_SHORT 2016u /* bytes that follow a head, at most */
#define AX_WIRE_ROOM (sizeof(ax_wire_t) + AX_WIRE_SHORT)

ax_wire_t ax_wire_head(uint32_t instance, uint64_t tag, uint64_t bytes,
                       uint32_t channel);

/* The head of `length` bytes that came; false when they are none of ours. */
bool ax_wire_read(const void *from, size_t length, ax_wire_t *out);

/* Channel of the `turn`th long message to one receiver: 1 to `channels`. */
uint32_t ax_wire_channel(uint32_t turn, int channels);

/* How much of `bytes` bytes comes next when `at` are done: `most` at most. */
size_t ax_wire_chunk(uint64_t bytes, uint64_t at, size_t most);

/* ---- queues ----------------------------------------------------------------
 */

/* A receive that waits; the caller's storage, its first member. */
typedef struct ax_waiting {
    struct ax_waiting *next;
    uint64_t tag, mask;
} ax_waiting_t;

/* A message that nobody has asked for yet; one allocation, free() it. */
typedef struct ax_arrival {
    struct ax_arrival *next;
    ax_wire_t head;
    int source;
    unsigned char data[]; /* of a short one */
} ax_arrival_t;

typedef struct ax_match {
    ax_waiting_t *waiting, **waiting_end;
    ax_arrival_t *arrivals, **arrivals_end;
} ax_match_t;

void ax_match_init(ax_match_t *match);
void ax_match_fini(ax_match_t *match); /* drops what nobody asked for */

/* Takes out the oldest message that fits, the caller's to free(). NULL: none
 * has come, and the receive now waits. */
ax_arrival_t *ax_match_post(ax_match_t *match, ax_waiting_t *waiting);

/* Takes out the oldest receive that a message with `tag` fits. NULL: none
 * waits, so that the message is to be kept. */
ax_waiting_t *ax_match_arrive(ax_match_t *match, uint64_t tag);

/* False: no memory. */
bool ax_match_keep(ax_match_t *match, const ax_wire_t *head, int source,
                   const void *data);

/* True when it did wait. */
bool ax_match_cancel(ax_match_t *match, const ax_waiting_t *waiting);

#endif
