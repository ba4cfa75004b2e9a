/*
 * Messages over MPI. MPI's tags are ints of which 15 bits are sure, and a
 * receive cannot leave bits of them out, so tags of ours travel in a head in
 * front of each message and are matched here. Heads, with what is short
 * enough to follow at once, come under MPI's tag 0 into receives that always
 * wait for them; a long message comes under the tag that its head names,
 * straight into its place, in chunks that an int can count.
 */
#include "net/mpi_engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK ((size_t)1 << 30)
#define LOOK_NS 5000000u /* how often lifelines are looked at */
#define STOP_NS 1000000000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ax_mpi_t *engines;

void ax_mpi_lock(void)
{
    pthread_mutex_lock(&lock);
}

void ax_mpi_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

uint64_t ax_mpi_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void nap(void)
{
    struct timespec ts = {.tv_nsec = 50000};

    nanosleep(&ts, NULL);
}

/* ---- engines ----------------------------------------------------------------
 */

static ax_mpi_t *engine_of(MPI_Group group)
{
    for (ax_mpi_t *e = engines; e; e = e->next) {
        int same = MPI_UNEQUAL;
        MPI_Group_compare(e->group, group, &same);
        if (same == MPI_IDENT)
            return e;
    }
    return NULL;
}

static void free_engine(ax_mpi_t *e)
{
    for (int i = 0; i < AX_MPI_RING; i++)
        free(e->ring[i].room);
    ax_life_destroy(e->life);
    free(e->turns);
    free(e);
}

static ax_mpi_t *make_engine(MPI_Comm base)
{
    ax_mpi_t *e = calloc(1, sizeof *e);
    bool ok = e != NULL;

    if (!e)
        return NULL;
    MPI_Comm_rank(base, &e->rank);
    MPI_Comm_size(base, &e->size);
    e->turns = calloc((size_t)e->size, sizeof *e->turns);
    e->life = ax_life_create(e->rank, e->size);
    for (int i = 0; i < AX_MPI_RING; i++) {
        e->ring[i].req = MPI_REQUEST_NULL;
        e->ring[i].room = malloc(AX_WIRE_ROOM);
        ok = ok && e->ring[i].room;
    }
    if (ok && e->turns && e->life)
        return e;
    free_engine(e);
    return NULL;
}

/* The communicator comes without waiting: a rank that never gets here is
 * found out, and named, by the exchange of all ranks that follows. */
accel_status_t ax_mpi_engine_get(MPI_Comm base, ax_mpi_t **out)
{
    MPI_Group group;
    int rc = MPI_Comm_group(base, &group);

    if (rc != MPI_SUCCESS)
        return ax_mpi_fail(rc, "MPI_Comm_group");
    *out = engine_of(group);
    if (*out) {
        MPI_Group_free(&group);
        return ACCEL_OK;
    }
    ax_mpi_t *e = make_engine(base);
    if (!e) {
        MPI_Group_free(&group);
        return ax_mpi_host->fail(ACCEL_ERR_NOMEM, "net: mpi: no memory");
    }
    e->group = group;
    rc = MPI_Comm_idup(base, &e->comm, &e->making);
    if (rc != MPI_SUCCESS) {
        MPI_Group_free(&e->group);
        free_engine(e);
        return ax_mpi_fail(rc, "MPI_Comm_idup");
    }
    e->next = engines;
    engines = e;
    *out = e;
    return ACCEL_OK;
}

static bool listen_again(ax_mpi_t *e, int i)
{
    return MPI_Irecv(e->ring[i].room, (int)AX_WIRE_ROOM, MPI_BYTE,
                     MPI_ANY_SOURCE, 0, e->comm,
                     &e->ring[i].req) == MPI_SUCCESS;
}

static void listen_all(ax_mpi_t *e)
{
    e->listening = true;
    e->ring_at = 0;
    for (int i = 0; i < AX_MPI_RING; i++)
        (void)listen_again(e, i);
}

static void start_op(ax_mpi_t *e, ax_mpi_op_t *op);

static void become_ready(ax_mpi_t *e)
{
    int *most = NULL, there = 0;

    e->ready = true;
    MPI_Comm_set_errhandler(e->comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_name(e->comm, "accel");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &there);
    e->channels = there && most ? *most : 32767;
    if (e->nets)
        listen_all(e);
    for (ax_mpi_op_t *op = e->ops; op; op = op->next)
        if (!op->started)
            start_op(e, op);
}

/* ---- instances --------------------------------------------------------------
 */

void ax_mpi_add(ax_mpi_t *e, ax_mpi_net_t *net)
{
    net->engine = e;
    net->instance = ++e->instances;
    net->next = e->nets;
    e->nets = net;
    if (e->ready && !e->listening)
        listen_all(e);
}

static ax_mpi_net_t *net_of(const ax_mpi_t *e, uint32_t instance)
{
    for (ax_mpi_net_t *net = e->nets; net; net = net->next)
        if (net->instance == instance)
            return net;
    return NULL;
}

/* Nothing of ours is to be pending when the program ends MPI. What has come
 * meanwhile is for nobody. */
static void stop_listening(ax_mpi_t *e)
{
    uint64_t end = ax_mpi_now() + STOP_NS;
    int done = 0;

    for (int i = 0; e->listening && i < AX_MPI_RING; i++) {
        if (e->ring[i].req == MPI_REQUEST_NULL)
            continue;
        MPI_Cancel(&e->ring[i].req);
        for (done = 0; !done && ax_mpi_now() < end;)
            if (MPI_Test(&e->ring[i].req, &done, MPI_STATUS_IGNORE) !=
                MPI_SUCCESS)
                break;
        if (!done) {
            e->ring[i].room = malloc(AX_WIRE_ROOM); /* MPI keeps the other */
            e->ring[i].req = MPI_REQUEST_NULL;
        }
    }
    e->listening = false;
}

void ax_mpi_remove(ax_mpi_t *e, ax_mpi_net_t *net)
{
    for (ax_mpi_net_t **at = &e->nets; *at; at = &(*at)->next)
        if (*at == net) {
            *at = net->next;
            break;
        }
    for (ax_mpi_op_t *op = e->ops; op; op = op->next)
        if (op->net == net) {
            op->net = NULL;
            op->to = NULL;
        }
    if (!e->nets && !ax_mpi_over())
        stop_listening(e);
}

/* ---- one message ------------------------------------------------------------
 */

ax_mpi_op_t *ax_mpi_op_take(ax_mpi_t *e)
{
    ax_mpi_op_t *op = e->spare;

    if (op)
        e->spare = op->next;
    else
        op = malloc(sizeof *op);
    if (!op)
        return NULL;
    memset(op, 0, offsetof(ax_mpi_op_t, wire));
    op->head = op->body = MPI_REQUEST_NULL;
    return op;
}

void ax_mpi_op_give(ax_mpi_t *e, ax_mpi_op_t *op)
{
    op->next = e->spare;
    e->spare = op;
}

static void finish(ax_mpi_op_t *op, accel_status_t status)
{
    op->done = true;
    op->status = status;
}

static void broken(ax_mpi_op_t *op, int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;

    MPI_Error_string(rc, text, &length);
    ax_mpi_host->log(AX_LOG_DEBUG, "net: mpi: %s: %s", what, text);
    if (op->to && !op->to->failed)
        op->to->failed = "MPI gave an error";
    finish(op, ACCEL_ERR_PEER);
}

/* The next chunk of a long message, or its end. */
static void start_chunk(ax_mpi_t *e, ax_mpi_op_t *op)
{
    size_t bytes = ax_wire_chunk(op->bytes, op->at, CHUNK);
    char *at = op->data + op->at;
    int rc;

    if (bytes == 0) {
        if (op->head == MPI_REQUEST_NULL)
            finish(op, ACCEL_OK);
        return;
    }
    if (op->receives)
        rc = MPI_Irecv(at, (int)bytes, MPI_BYTE, op->peer, op->channel, e->comm,
                       &op->body);
    else
        rc = MPI_Isend(at, (int)bytes, MPI_BYTE, op->peer, op->channel, e->comm,
                       &op->body);
    if (rc != MPI_SUCCESS)
        broken(op, rc, op->receives ? "MPI_Irecv" : "MPI_Isend");
}

static void start_op(ax_mpi_t *e, ax_mpi_op_t *op)
{
    ax_wire_t head;

    op->started = true;
    memcpy(&head, op->wire, sizeof head);
    if (op->wire_bytes == sizeof head && op->bytes > 0) {
        head.channel = ax_wire_channel(e->turns[op->peer]++, e->channels);
        op->channel = (int)head.channel;
        memcpy(op->wire, &head, sizeof head);
    }
    int rc = MPI_Isend(op->wire, (int)op->wire_bytes, MPI_BYTE, op->peer, 0,
                       e->comm, &op->head);
    if (rc != MPI_SUCCESS)
        broken(op, rc, "MPI_Isend");
    else if (op->channel)
        start_chunk(e, op);
}

static void put_last(ax_mpi_t *e, ax_mpi_op_t *op)
{
    ax_mpi_op_t **at = &e->ops;

    while (*at)
        at = &(*at)->next;
    op->next = NULL;
    op->listed = true;
    *at = op;
}

/* A short message is copied and its sender need not wait. */
void ax_mpi_send(ax_mpi_t *e, ax_mpi_op_t *op, uint64_t tag)
{
    ax_wire_t head = ax_wire_head(op->to->instance, tag, op->bytes, 0);

    op->peer = op->to->at;
    memcpy(op->wire, &head, sizeof head);
    op->wire_bytes = sizeof head;
    if (op->bytes <= AX_WIRE_SHORT) {
        if (op->bytes)
            memcpy(op->wire + sizeof head, op->data, op->bytes);
        op->wire_bytes += op->bytes;
        op->at = op->bytes;
    }
    put_last(e, op);
    if (e->ready)
        start_op(e, op);
}

void ax_mpi_deliver(ax_mpi_t *e, ax_mpi_op_t *op, const ax_wire_t *head,
                    int source, const void *data)
{
    op->bytes = head->bytes;
    op->peer = source;
    op->started = true;
    /* One that is too long stays where it is: its sender hears of it as this
     * fault goes round. */
    if (head->bytes > op->room) {
        finish(op, ACCEL_ERR_PROTO);
        return;
    }
    if (!head->channel) {
        if (head->bytes)
            memcpy(op->data, data, head->bytes);
        op->at = head->bytes;
        finish(op, ACCEL_OK);
        return;
    }
    op->channel = (int)head->channel;
    put_last(e, op);
    start_chunk(e, op);
}

/* ---- what comes -------------------------------------------------------------
 */

static void take_in(ax_mpi_t *e, const unsigned char *from, int length,
                    int source)
{
    ax_wire_t head;

    if (length < 0 || !ax_wire_read(from, (size_t)length, &head)) {
        ax_mpi_host->log(AX_LOG_WARN,
                         "net: mpi: %d bytes of no known kind came from rank "
                         "%d of the communicator; dropped",
                         length, source);
        return;
    }
    ax_mpi_net_t *net = net_of(e, head.instance);
    if (!net)
        return; /* for one that was closed */
    ax_waiting_t *waiting = ax_match_arrive(&net->match, head.tag);
    const unsigned char *data = from + sizeof head;
    if (waiting)
        ax_mpi_deliver(e, (ax_mpi_op_t *)waiting, &head, source, data);
    else if (!ax_match_keep(&net->match, &head, source, data))
        ax_mpi_host->log(AX_LOG_ERROR, "net: mpi: no memory: a message is "
                                       "lost");
}

/* In the order of the receives: of one sender that is the order of sending. */
static bool take_all_in(ax_mpi_t *e)
{
    bool moved = false;
    MPI_Status status;
    int done, length;

    while (e->listening) {
        int i = e->ring_at;
        done = 0;
        if (e->ring[i].req == MPI_REQUEST_NULL ||
            MPI_Test(&e->ring[i].req, &done, &status) != MPI_SUCCESS || !done)
            return moved;
        if (MPI_Get_count(&status, MPI_BYTE, &length) != MPI_SUCCESS)
            length = -1;
        take_in(e, e->ring[i].room, length, status.MPI_SOURCE);
        if (!listen_again(e, i))
            ax_mpi_host->log(AX_LOG_ERROR, "net: mpi: MPI_Irecv failed");
        e->ring_at = (i + 1) % AX_MPI_RING;
        moved = true;
    }
    return moved;
}

/* ---- moving -----------------------------------------------------------------
 */

static bool test_request(ax_mpi_op_t *op, MPI_Request *req, int *bytes)
{
    MPI_Status status;
    int done = 0;
    int rc = MPI_Test(req, &done, &status);

    if (rc != MPI_SUCCESS) {
        *req = MPI_REQUEST_NULL;
        broken(op, rc, "MPI_Test");
        return false;
    }
    if (done && bytes && MPI_Get_count(&status, MPI_BYTE, bytes) != MPI_SUCCESS)
        *bytes = -1;
    return done != 0;
}

static bool move_body(ax_mpi_t *e, ax_mpi_op_t *op)
{
    size_t want = ax_wire_chunk(op->bytes, op->at, CHUNK);
    int got = (int)want;

    if (!test_request(op, &op->body, op->receives ? &got : NULL))
        return op->done;
    if (got < 0 || (size_t)got != want) {
        finish(op, ACCEL_ERR_PROTO);
        return true;
    }
    op->at += want;
    start_chunk(e, op);
    return true;
}

static bool move(ax_mpi_t *e, ax_mpi_op_t *op)
{
    bool moved = false;

    if (!op->done && op->head != MPI_REQUEST_NULL)
        moved = test_request(op, &op->head, NULL) || op->done;
    if (!op->done && op->body != MPI_REQUEST_NULL)
        moved = move_body(e, op) || moved;
    if (!op->done && op->head == MPI_REQUEST_NULL &&
        op->body == MPI_REQUEST_NULL && op->at == op->bytes)
        finish(op, ACCEL_OK);
    return moved;
}

static bool move_all(ax_mpi_t *e)
{
    bool moved = false;

    for (ax_mpi_op_t **at = &e->ops; *at;) {
        ax_mpi_op_t *op = *at;
        if (op->started)
            moved = move(e, op) || moved;
        if (!op->done) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        op->listed = false;
        if (!op->held)
            ax_mpi_op_give(e, op);
    }
    return moved;
}

bool ax_mpi_progress(ax_mpi_t *e)
{
    uint64_t now = ax_mpi_now();
    int done = 0;

    if (ax_mpi_over())
        return false;
    if (now - e->looked_ns > LOOK_NS) {
        e->looked_ns = now;
        ax_life_poll(e->life);
    }
    if (!e->ready) {
        if (MPI_Test(&e->making, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
            !done)
            return false;
        become_ready(e);
    }
    bool moved = take_all_in(e);
    return move_all(e) || moved;
}

bool ax_mpi_flush(ax_mpi_t *e, const ax_mpi_net_t *net, uint64_t timeout_ns)
{
    uint64_t end = ax_mpi_now() + timeout_ns;

    for (;;) {
        bool busy = false;
        bool moved = ax_mpi_progress(e);
        for (ax_mpi_op_t *op = e->ops; op; op = op->next)
            busy = busy || !net || op->net == net;
        if (!busy)
            return true;
        if (ax_mpi_over() || ax_mpi_now() >= end)
            return false;
        ax_mpi_unlock();
        if (!moved)
            nap();
        ax_mpi_lock();
    }
}

/* ---- the end ----------------------------------------------------------------
 */

/* MPI is to end with nothing that was sent and not received: heads of ranks
 * that closed after us have still come. */
static void drop_late_heads(ax_mpi_t *e)
{
    unsigned char room[AX_WIRE_ROOM];
    MPI_Status status;
    int there = 0;

    while (e->ready &&
           MPI_Iprobe(MPI_ANY_SOURCE, 0, e->comm, &there, &status) ==
               MPI_SUCCESS &&
           there)
        if (MPI_Recv(room, (int)sizeof room, MPI_BYTE, status.MPI_SOURCE, 0,
                     e->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
}

void ax_mpi_engines_stop(void)
{
    for (ax_mpi_t *e = engines; e; e = e->next) {
        (void)ax_mpi_flush(e, NULL, STOP_NS);
        stop_listening(e);
        drop_late_heads(e);
        ax_life_leave(e->life);
    }
}

static bool meet(ax_mpi_t *e, uint64_t end)
{
    MPI_Request all;
    int done = 0;

    if (!e->ready || MPI_Ibarrier(e->comm, &all) != MPI_SUCCESS)
        return false;
    while (!done) {
        if (MPI_Test(&all, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
            ax_mpi_now() > end)
            return false;
        ax_life_poll(e->life);
        for (int k = 0; k < e->size && !done; k++)
            if (ax_life_ended(e->life, k) && !ax_life_left(e->life, k))
                return false;
        if (!done)
            nap();
    }
    return true;
}

bool ax_mpi_engines_meet(uint64_t timeout_ns)
{
    uint64_t end = ax_mpi_now() + timeout_ns;

    for (ax_mpi_t *e = engines; e; e = e->next)
        if (!meet(e, end))
            return false;
    return true;
}
