/*
 * accel_mpi.so: the transport between nodes over MPI's point-to-point, for
 * fabrics that UCX does not know. See mpi_engine.h.
 */
#include "net/mpi_engine.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC 0x41434d50u /* "ACMP" */

/* Where a rank is found. */
typedef struct ax_mpi_address {
    uint32_t magic;
    uint32_t instance;
    int32_t rank; /* in the engine's communicator */
    uint32_t zero;
    ax_life_address_t life;
} ax_mpi_address_t;

static accel_status_t no_memory(void)
{
    return ax_mpi_host->fail(ACCEL_ERR_NOMEM, "net: mpi: no memory");
}

static void free_net(ax_mpi_net_t *net)
{
    if (!net)
        return;
    free(net->peer);
    free(net->address);
    free(net);
}

static accel_status_t open_net(const ax_net_ask_t *ask, void **out)
{
    ax_mpi_t *engine;
    MPI_Comm base;
    accel_status_t st;

    if ((st = ax_mpi_start(ask, &base)) != ACCEL_OK)
        return st;
    ax_mpi_net_t *net = calloc(1, sizeof *net);
    if (net) {
        net->peer = calloc((size_t)ask->peers, sizeof *net->peer);
        net->address = calloc(1, sizeof *net->address);
    }
    if (!net || !net->peer || !net->address) {
        free_net(net);
        return no_memory();
    }
    net->peers = ask->peers;
    ax_match_init(&net->match);
    if ((st = ax_mpi_engine_get(base, &engine)) != ACCEL_OK) {
        free_net(net);
        return st;
    }
    ax_mpi_add(engine, net);
    net->address->magic = MAGIC;
    net->address->instance = net->instance;
    net->address->rank = engine->rank;
    ax_life_address(engine->life, &net->address->life);
    *out = net;
    return ACCEL_OK;
}

static accel_status_t mpi_open(const ax_mod_host_t *host,
                               const ax_net_ask_t *ask, void **out)
{
    ax_mpi_lock();
    ax_mpi_host = host;
    accel_status_t st = open_net(ask, out);
    ax_mpi_unlock();
    return st;
}

static void mpi_close(void *self, uint64_t timeout_ns)
{
    ax_mpi_net_t *net = self;

    ax_mpi_lock();
    if (!ax_mpi_over())
        (void)ax_mpi_flush(net->engine, net, timeout_ns);
    ax_mpi_remove(net->engine, net);
    ax_mpi_unlock();
    ax_match_fini(&net->match);
    free_net(net);
}

static accel_status_t mpi_address(void *self, const void **address,
                                  size_t *bytes)
{
    ax_mpi_net_t *net = self;

    *address = net->address;
    *bytes = sizeof *net->address;
    return ACCEL_OK;
}

static accel_status_t mpi_connect(void *self, int index, const void *address,
                                  size_t bytes)
{
    ax_mpi_net_t *net = self;
    ax_mpi_peer_t *peer = &net->peer[index];
    ax_mpi_address_t its = {0};

    if (bytes == sizeof its)
        memcpy(&its, address, sizeof its);
    if (bytes != sizeof its || its.magic != MAGIC || its.rank < 0 ||
        its.rank >= net->engine->size) {
        peer->failed = "it has no address of MPI";
        return ax_mpi_host->fail(ACCEL_ERR_PROTO,
                                 "net: mpi: rank %d uses another transport, or "
                                 "another release of this one",
                                 index);
    }
    *peer = (ax_mpi_peer_t){
        .there = true, .at = its.rank, .instance = its.instance};
    ax_mpi_lock();
    ax_life_watch(net->engine->life, its.rank, &its.life);
    ax_mpi_unlock();
    return ACCEL_OK;
}

static void mpi_settle(void *self)
{
    (void)self; /* lifelines look after themselves */
}

/* ---- messages ---------------------------------------------------------------
 */

static const char *why_failed(ax_mpi_net_t *net, int index)
{
    ax_mpi_peer_t *peer = &net->peer[index];

    if (peer->there && !peer->failed)
        peer->failed = ax_life_ended(net->engine->life, peer->at);
    return peer->failed;
}

static const char *mpi_failed(void *self, int index)
{
    ax_mpi_lock();
    const char *why = why_failed(self, index);
    ax_mpi_unlock();
    return why;
}

static void take_outcome(ax_mpi_net_t *net, ax_mpi_op_t *op, ax_net_req_t *req)
{
    req->handle = NULL;
    req->done = true;
    req->status = op->status;
    if (op->receives)
        req->bytes = (size_t)op->at;
    ax_mpi_op_give(net->engine, op);
}

static accel_status_t send_it(ax_mpi_net_t *net, int index, uint64_t tag,
                              const void *data, size_t bytes, ax_net_req_t *req)
{
    ax_mpi_peer_t *peer = &net->peer[index];
    accel_status_t st;

    *req = (ax_net_req_t){.bytes = bytes};
    if ((st = ax_mpi_usable()) != ACCEL_OK)
        return st;
    if (!peer->there || why_failed(net, index)) {
        req->done = true;
        req->status = ACCEL_ERR_PEER;
        return ACCEL_OK;
    }
    ax_mpi_op_t *op = ax_mpi_op_take(net->engine);
    if (!op)
        return no_memory();
    op->net = net;
    op->to = peer;
    op->data = (char *)(uintptr_t)data;
    op->bytes = bytes;
    op->held = bytes > AX_WIRE_SHORT;
    req->done = !op->held;
    req->handle = op->held ? op : NULL;
    ax_mpi_send(net->engine, op, tag);
    return ACCEL_OK;
}

static accel_status_t mpi_send(void *self, int index, uint64_t tag,
                               const void *data, size_t bytes,
                               ax_net_req_t *req)
{
    ax_mpi_lock();
    accel_status_t st = send_it(self, index, tag, data, bytes, req);
    ax_mpi_unlock();
    return st;
}

static accel_status_t recv_it(ax_mpi_net_t *net, ax_waiting_t what, void *data,
                              size_t bytes, ax_net_req_t *req)
{
    accel_status_t st;

    *req = (ax_net_req_t){.receives = true};
    if ((st = ax_mpi_usable()) != ACCEL_OK)
        return st;
    ax_mpi_op_t *op = ax_mpi_op_take(net->engine);
    if (!op)
        return no_memory();
    op->waiting = what;
    op->net = net;
    op->data = data;
    op->room = bytes;
    op->receives = true;
    op->held = true;
    req->handle = op;
    ax_arrival_t *arrival = ax_match_post(&net->match, &op->waiting);
    if (arrival)
        ax_mpi_deliver(net->engine, op, &arrival->head, arrival->source,
                       arrival->data);
    free(arrival);
    return ACCEL_OK;
}

static accel_status_t mpi_recv(void *self, uint64_t tag, uint64_t mask,
                               void *data, size_t bytes, ax_net_req_t *req)
{
    ax_waiting_t what = {.tag = tag, .mask = mask};

    ax_mpi_lock();
    accel_status_t st = recv_it(self, what, data, bytes, req);
    ax_mpi_unlock();
    return st;
}

static bool mpi_test(void *self, ax_net_req_t *req)
{
    ax_mpi_op_t *op = req->handle;

    if (!op)
        return req->done;
    ax_mpi_lock();
    bool done = op->done && !op->listed;
    if (done)
        take_outcome(self, op, req);
    ax_mpi_unlock();
    return done;
}

/* A long message that moves already cannot be called back: closing waits for
 * it, for a while. */
static void mpi_cancel(void *self, ax_net_req_t *req)
{
    ax_mpi_net_t *net = self;
    ax_mpi_op_t *op = req->handle;

    if (!op)
        return;
    ax_mpi_lock();
    if (op->listed)
        op->held = false;
    else {
        (void)ax_match_cancel(&net->match, &op->waiting);
        ax_mpi_op_give(net->engine, op);
    }
    ax_mpi_unlock();
    *req = (ax_net_req_t){
        .receives = req->receives, .done = true, .status = ACCEL_ERR_PEER};
}

static bool mpi_progress(void *self)
{
    ax_mpi_net_t *net = self;

    ax_mpi_lock();
    bool moved = ax_mpi_progress(net->engine);
    ax_mpi_unlock();
    return moved;
}

static void mpi_spoil(void *self)
{
    (void)self;
    ax_mpi_spoiled();
}

static accel_status_t mpi_look(const ax_mod_host_t *host, const char **about)
{
    ax_mpi_lock();
    ax_mpi_host = host;
    accel_status_t st = ax_mpi_look(about);
    ax_mpi_unlock();
    return st;
}

static const char *mpi_about(void *self)
{
    (void)self;
    return ax_mpi_about();
}

static const ax_net_ops_t ops = {.abi = AX_NET_ABI,
                                 .open = mpi_open,
                                 .close = mpi_close,
                                 .address = mpi_address,
                                 .connect = mpi_connect,
                                 .settle = mpi_settle,
                                 .send = mpi_send,
                                 .recv = mpi_recv,
                                 .test = mpi_test,
                                 .cancel = mpi_cancel,
                                 .progress = mpi_progress,
                                 .failed = mpi_failed,
                                 .spoil = mpi_spoil,
                                 .look = mpi_look,
                                 .about = mpi_about};

extern const ax_module_t accel_module;
__attribute__((visibility("default"))) const ax_module_t accel_module = {
    .abi = AX_MOD_ABI, .kind = "net", .name = "mpi", .ops = &ops};
