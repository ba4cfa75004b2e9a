/*
 * What accel_mpi.so does with MPI: one engine for each set of processes,
 * which lives as long as MPI does. A communicator is never freed: messages
 * that nobody asked for any more may still come, and must not reach another
 * one that has got its place.
 *
 * Communicators have threads of their own and share an engine, so one lock is
 * held in each call of the transport; thus MPI also sees one thread at a time.
 *
 * mpi_start.c decides whether MPI can be used, and starts and ends it when the
 * program does not; mpi_engine.c moves messages; mpi.c is the transport.
 */
#ifndef AX_MPI_ENGINE_H
#define AX_MPI_ENGINE_H

#include "net/life.h"
#include "net/match.h"
#include "net/net.h"

#include <mpi.h>

#define AX_MPI_RING 8 /* receives for what comes next */

struct ax_mpi;

/* One opened transport. */
typedef struct ax_mpi_net {
    struct ax_mpi_net *next;
    struct ax_mpi *engine;
    uint32_t instance;
    ax_match_t match;
    int peers;
    struct ax_mpi_peer *peer;
    struct ax_mpi_address *address;
} ax_mpi_net_t;

typedef struct ax_mpi_peer {
    bool there; /* connected */
    int at;     /* its rank in the engine's communicator */
    uint32_t instance;
    const char *failed;
} ax_mpi_peer_t;

/* A message under way. */
typedef struct ax_mpi_op {
    ax_waiting_t waiting; /* a receive that has no message yet; must be first */
    struct ax_mpi_op *next;
    ax_mpi_net_t *net; /* NULL once that is closed */
    ax_mpi_peer_t *to; /* of a send; NULL as well */
    MPI_Request head, body;
    char *data;
    uint64_t bytes, at; /* of the message; done of it */
    size_t room;        /* of a receive */
    int peer, channel;
    bool receives, started, done;
    bool listed; /* among the engine's */
    bool held;   /* somebody will ask for its outcome, and gives it back */
    accel_status_t status;
    size_t wire_bytes;
    unsigned char wire[AX_WIRE_ROOM]; /* of a send */
} ax_mpi_op_t;

typedef struct ax_mpi {
    struct ax_mpi *next;
    MPI_Comm comm;
    MPI_Group group;
    MPI_Request making; /* the communicator is not there yet */
    bool ready;
    int rank, size, channels;
    uint32_t *turns; /* of channels, to each rank */
    struct {
        MPI_Request req;
        unsigned char *room;
    } ring[AX_MPI_RING];
    int ring_at;
    bool listening;
    ax_mpi_op_t *ops, *spare;
    ax_mpi_net_t *nets;
    uint32_t instances;
    ax_life_t *life;
    uint64_t looked_ns;
} ax_mpi_t;

/* ---- mpi_start.c ----------------------------------------------------------
 */

/* Lent by the library at the first open. */
extern const ax_mod_host_t *ax_mpi_host;

/* Can MPI be used for what is asked? *base: the communicator of all ranks. */
accel_status_t ax_mpi_start(const ax_net_ask_t *ask, MPI_Comm *base);

/* Could it, as far as can be told without starting MPI? *about for people. */
accel_status_t ax_mpi_look(const char **about);

/* "Open MPI v4.1.4" */
const char *ax_mpi_about(void);

/* An error, with a record, when MPI may not be called any more. */
accel_status_t ax_mpi_usable(void);

/* MPI is over: it must not be called any more. */
bool ax_mpi_over(void);

/* The job has failed: others may be gone, so MPI is not ended in order. */
void ax_mpi_spoiled(void);

accel_status_t ax_mpi_fail(int rc, const char *what);

/* ---- mpi_engine.c ---------------------------------------------------------
 */

/* Around all that follows, and around ax_mpi_start(). */
void ax_mpi_lock(void);
void ax_mpi_unlock(void);

/* The engine for the processes of `base`; made when there is none. */
accel_status_t ax_mpi_engine_get(MPI_Comm base, ax_mpi_t **out);

void ax_mpi_add(ax_mpi_t *engine, ax_mpi_net_t *net);
void ax_mpi_remove(ax_mpi_t *engine, ax_mpi_net_t *net);

ax_mpi_op_t *ax_mpi_op_take(ax_mpi_t *engine);
void ax_mpi_op_give(ax_mpi_t *engine, ax_mpi_op_t *op);

void ax_mpi_send(ax_mpi_t *engine, ax_mpi_op_t *op, uint64_t tag);

/* Gives the receive `op`, which waits no more, the message with `head`. */
void ax_mpi_deliver(ax_mpi_t *engine, ax_mpi_op_t *op, const ax_wire_t *head,
                    int source, const void *data);

bool ax_mpi_progress(ax_mpi_t *engine);

/* Moves what is under way for `net`, or for all when it is NULL, for so long
 * at most; true when nothing is left. Lets go of the lock now and then. */
bool ax_mpi_flush(ax_mpi_t *engine, const ax_mpi_net_t *net,
                  uint64_t timeout_ns);

/* MPI ends: no engine calls it any more. */
void ax_mpi_engines_stop(void);

/* Waits until all processes of all engines come here as well; false when that
 * will not be. */
bool ax_mpi_engines_meet(uint64_t timeout_ns);

uint64_t ax_mpi_now(void);

#endif
