/*
 * net: bytes between two nodes, through a transport that is a module.
 *
 * Every rank of a job of several nodes opens a transport. Peers are numbered
 * as the job's ranks are; a rank connects only to those that it talks to,
 * some of them late. Messages match by their tag alone, in the order in which
 * they were sent, so a tag must hold the sender. Nothing here waits: whoever
 * waits calls progress() and looks.
 *
 * A module exports `ax_module_t accel_module` (mod/mod.h) of kind "net" whose
 * `ops` is an ax_net_ops_t. It calls the library only through the host table.
 */
#ifndef AX_NET_H
#define AX_NET_H

#include "base/base.h"
#include "mod/mod.h"

#define AX_NET_ABI 6

/* A message under way; the caller's storage, untouched while it is pending. */
typedef struct ax_net_req {
    void *handle; /* the transport's; NULL when there is nothing to test */
    size_t bytes; /* a finished receive: how many came */
    bool receives;
    bool done;
    accel_status_t status; /* once done; an error has no record */
} ax_net_req_t;

/* What is wanted of a transport. */
typedef struct ax_net_ask {
    int peers;            /* their numbers are 0 to `peers` - 1, ours too */
    int ranks;            /* of the job, of which the peers may be a part */
    const void *mpi_comm; /* an MPI_Comm of the program over these; or NULL */
    bool named;           /* the setting names it: it may start what it needs;
                           * for ax_net_open() to fill in */
} ax_net_ask_t;

typedef struct ax_net_ops {
    uint32_t abi;

    /* On failure the record says why this transport cannot be used here. */
    accel_status_t (*open)(const ax_mod_host_t *host, const ax_net_ask_t *ask,
                           void **net);

    /* Gives back all it holds. Sends that are done but not yet on the wire
     * are flushed first, within `timeout_ns`. */
    void (*close)(void *net, uint64_t timeout_ns);

    /* Where it can be reached; *address lives as long as the transport. */
    accel_status_t (*address)(void *net, const void **address, size_t *bytes);

    /* At any time, once for each peer, also one that connects to us as well.
     * After an error the way to it counts as broken: failed() says why. */
    accel_status_t (*connect)(void *net, int peer, const void *address,
                              size_t bytes);

    /* All that are connected have been heard of: what is open now stays.
     * Children of fork() must not keep it alive. Called again after later
     * connects. */
    void (*settle)(void *net);

    /* Messages will often come from and go to this memory: it is registered
     * once. *key is for unmap(), before that memory goes; close() takes back
     * what is left. An error does no harm. May be NULL, both. */
    accel_status_t (*map)(void *net, void *memory, size_t bytes, void **key);
    void (*unmap)(void *net, void *key);

    /* Start a message. An error is that of the call, with a record; one that
     * comes later is in the request, as when the way to `peer` is broken or
     * was never made. `mask`: the bits of `tag` that count. */
    accel_status_t (*send)(void *net, int peer, uint64_t tag, const void *data,
                           size_t bytes, ax_net_req_t *req);
    accel_status_t (*recv)(void *net, uint64_t tag, uint64_t mask, void *data,
                           size_t bytes, ax_net_req_t *req);

    /* Brings `req` up to date: true when it is done. */
    bool (*test)(void *net, ax_net_req_t *req);
    void (*cancel)(void *net, ax_net_req_t *req);

    /* Moves bytes; true when something happened. */
    bool (*progress)(void *net);

    /* NULL, or what is wrong with the way to `peer`; NULL as well for one that
     * was never connected. */
    const char *(*failed)(void *net, int peer);

    /* Which of the broken ways this one was, in the order in which they broke,
     * from 1 on; 0: it is not broken. May be NULL. */
    int (*order)(void *net, int peer);

    /* The job has failed, so that others may be gone: nothing that is done
     * from now on, also at the end of the process, waits for them. May be
     * NULL. */
    void (*spoil)(void *net);

    /* What can be told of it without a job, or by an error why it will not
     * work here. Starts nothing. NULL: opening it for one peer tells. */
    accel_status_t (*look)(const ax_mod_host_t *host, const char **about);

    /* For people: which release, and over which devices once settled. */
    const char *(*about)(void *net);
} ax_net_ops_t;

/* Memory that is registered. */
typedef struct ax_net_lent ax_net_lent_t;

typedef struct ax_net {
    const ax_net_ops_t *ops;
    void *self;
    ax_mod_t *mod;
    ax_net_lent_t *lent;
    bool any, settled;
    char why[160]; /* "ucx: tcp" and how it was chosen */
} ax_net_t;

/*
 * Opens the transport that the setting `wanted` names: "auto" or a module's
 * name. ACCEL_ERR_UNSUPPORTED lists each one that was refused, with reasons.
 */
accel_status_t ax_net_open(const char *wanted, ax_net_ask_t ask,
                           ax_net_t **out);
void ax_net_spoil(ax_net_t *net);

/* See ax_net_ops_t; 0 where the transport cannot tell. */
static inline int ax_net_order(const ax_net_t *net, int peer)
{
    return net->ops->order ? net->ops->order(net->self, peer) : 0;
}

/*
 * Registers memory that messages will often come from and go to, once, until
 * ax_net_unmap() or the close. Where that is refused, as by a low limit of
 * locked memory, messages go without it; the log of level debug says so.
 */
void ax_net_map(ax_net_t *net, void *memory, size_t bytes);
/* Nothing for memory that is not registered. */
void ax_net_unmap(ax_net_t *net, const void *memory);

/*
 * The transport number `index` in the order in which "auto" tries them: *name,
 * and in `about` which release, or why it will not work here. False: there are
 * no more.
 */
bool ax_net_look(size_t index, const char **name, bool *works, char *about,
                 size_t room);
/* All that are connected have been heard of; now `why` has the devices. */
void ax_net_settle(ax_net_t *net);
void ax_net_close(ax_net_t *net, uint64_t timeout_ns);

#endif
