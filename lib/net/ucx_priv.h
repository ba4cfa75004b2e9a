/*
 * The transport over UCX, for its own files: ucx.c opens, connects and closes,
 * ucx_move.c registers memory and moves messages.
 */
#ifndef AX_UCX_PRIV_H
#define AX_UCX_PRIV_H

#include "net/hide.h"
#include "net/net.h"

#include <ucp/api/ucp.h>

struct ucx_peer {
    ucp_ep_h ep;
    const char *failed; /* why the way to it is broken, */
    int order;          /* and how many were so before, plus 1 */
};

/* Memory that is registered: messages in it carry the handle. */
struct region {
    struct region *next;
    uintptr_t from;
    size_t bytes;
    ucp_mem_h mem;
};

struct hidden {
    struct hidden *next;
    ax_hide_t hide;
};

struct ucx {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    struct ucx_peer *peers;
    int count;
    struct region *regions;
    struct hidden *hidden; /* descriptors; one for each time of settling */
    bool settled;
    bool joined;  /* settled once, so that all were there */
    bool spoiled; /* after a fault */
    bool torn;    /* a message could not be taken back */
    char about[128];
    struct ucx *next; /* of those that could not be closed */
};

/* What the library lends. */
extern const ax_mod_host_t *ax_ucx_host;

/* Counts up while this thread is in UCX on our behalf. */
extern _Thread_local int ax_ucx_inside;

/* Begins a call whose failure shall have what UCX says of it. */
void ax_ucx_begin(void);
accel_status_t ax_ucx_fail(ucs_status_t status, const char *what);

/* After a fault with messages that could not be taken back: their memory may
 * be gone, so nothing may move any more. */
static inline bool ax_ucx_is_stuck(const struct ucx *net)
{
    return net->spoiled && net->torn;
}

accel_status_t ax_ucx_map(void *self, void *memory, size_t bytes, void **key);
void ax_ucx_unmap(void *self, void *key);
accel_status_t ax_ucx_send(void *self, int index, uint64_t tag,
                           const void *data, size_t bytes, ax_net_req_t *req);
accel_status_t ax_ucx_recv(void *self, uint64_t tag, uint64_t mask, void *data,
                           size_t bytes, ax_net_req_t *req);
bool ax_ucx_test(void *self, ax_net_req_t *req);
void ax_ucx_cancel(void *self, ax_net_req_t *req);
bool ax_ucx_progress(void *self);

#endif
