/*
 * life: does the process of a peer still run? For a transport that does not
 * tell. A TCP connection without any traffic joins each two peers; when a
 * process ends, however that comes about, its kernel closes it, and when a
 * machine is lost the connection's own probes find out.
 *
 * Best effort: where peers cannot reach each other over TCP nothing is known
 * of them, and only the timeout ends a wait. Nothing here waits.
 */
#ifndef AX_LIFE_H
#define AX_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#define AX_LIFE_PLACES 6 /* addresses of a machine that are told, at most */

/* How a process can be called; what peers tell each other. */
typedef struct ax_life_address {
    uint64_t nonce;   /* who does not know it is turned away */
    uint64_t machine; /* its boot: the same only on the same machine */
    uint16_t port;    /* 0: it cannot be called */
    uint16_t places;
    uint32_t zero;
    uint8_t at[AX_LIFE_PLACES][16]; /* IPv6, or IPv4 mapped into it */
} ax_life_address_t;

typedef struct ax_life ax_life_t;

/* For peers 0 to `peers` - 1, of which the caller is `me`. NULL: no memory. */
ax_life_t *ax_life_create(int me, int peers);
void ax_life_destroy(ax_life_t *life);

void ax_life_address(const ax_life_t *life, ax_life_address_t *out);

/* From now on peer's end is to be noticed. Of two peers the one with the
 * lower number calls the other. Once for each peer; more is fine. */
void ax_life_watch(ax_life_t *life, int peer, const ax_life_address_t *address);

/* Brings all up to date. */
void ax_life_poll(ax_life_t *life);

/* Is there a connection, so that the peer's end will be noticed? */
bool ax_life_watched(const ax_life_t *life, int peer);

/* NULL, or how the peer ended. */
const char *ax_life_ended(const ax_life_t *life, int peer);

/* It ended as ax_life_leave() says. */
bool ax_life_left(const ax_life_t *life, int peer);

/* Tells all peers that this process leaves in good order, and no more. */
void ax_life_leave(ax_life_t *life);

#endif
