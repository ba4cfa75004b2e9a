/*
 * comm, for its own files: the communicator, and how ranks meet and wait.
 *
 * Every collective goes through ax_enter(): publish the call, meet the ranks
 * of the node, compare, and between nodes let the leaders compare. Then the
 * data moves, in chunks that fit the slots of the segment; all ranks cut the
 * same chunks. comm.c, open.c and split.c open and close; enter.c compares;
 * wait.c waits; fault.c says what went wrong; node.c and inter.c move data
 * inside a node and between nodes; ops.c and reduce.c hold the public
 * operations, heap.c the memory.
 */
#ifndef AX_COMM_PRIV_H
#define AX_COMM_PRIV_H

#include "comm/comm.h"
#include "comm/model.h"
#include "job/job.h"
#include "net/net.h"
#include "net/seg.h"

/* X(NAME, text) of the calls that ranks make together */
#define AX_CALL_LIST(X)                                                        \
    X(NONE, "nothing")                                                         \
    X(OPEN, "accel_comm_open")                                                 \
    X(SPLIT, "accel_comm_split")                                               \
    X(BARRIER, "barrier")                                                      \
    X(BROADCAST, "broadcast")                                                  \
    X(ALLREDUCE, "all-reduce")                                                 \
    X(REDUCE, "reduce")                                                        \
    X(REDUCE_SCATTER, "reduce-scatter")                                        \
    X(REDUCE_SCATTERV, "reduce-scatter-v")                                     \
    X(ALLGATHER, "all-gather")                                                 \
    X(ALLGATHERV, "all-gather-v")                                              \
    X(GATHER, "gather")                                                        \
    X(GATHERV, "gather-v")                                                     \
    X(SCATTER, "scatter")                                                      \
    X(SCATTERV, "scatter-v")                                                   \
    X(ALLTOALL, "all-to-all")                                                  \
    X(ALLTOALLV, "all-to-all-v")                                               \
    X(ALLOC, "accel_alloc")                                                    \
    X(FREE, "accel_free")                                                      \
    X(AGREE, "agreement")                                                      \
    X(SEND, "send")                                                            \
    X(RECV, "receive")                                                         \
    X(SENDRECV, "send and receive")                                            \
    X(GATHER_BYTES, "all-gather of bytes")

typedef enum ax_call_kind {
#define AX_CALL_ENUM(NAME, text) AX_CALL_##NAME,
    AX_CALL_LIST(AX_CALL_ENUM)
#undef AX_CALL_ENUM
} ax_call_kind_t;

/* Started operations (request.c). */
typedef struct ax_queue ax_queue_t;

/* A piece of the heap: `stride` bytes for each rank of the node. */
typedef struct ax_block {
    struct ax_block *next;
    uint32_t id;
    size_t bytes, stride, mapped;
    uint64_t offset; /* in the file */
    char *base;      /* rank r's part begins at base + r * stride */
} ax_block_t;

/* What goes between the nodes (inter_priv.h), and from rank to rank
 * (pair_priv.h). */
typedef struct ax_inter ax_inter_t;
typedef struct ax_pairs ax_pairs_t;

/* Where a rank runs, or -1 when that is no single place. */
typedef struct ax_spot {
    int32_t package, cache;
} ax_spot_t;

/* Groups of the node's ranks (levels.h). */
typedef struct ax_levels ax_levels_t;
typedef struct ax_chain ax_chain_t;

/* A rank whose beat stands still is stopped, whatever it said it waits for. */
typedef struct ax_beat {
    uint32_t seen;
    uint64_t since_ns; /* when it changed */
} ax_beat_t;

/* Reading the memory of the node's other ranks: cma.c. */
typedef struct ax_cma {
    size_t least;    /* messages of so many bytes go that way; 0: none */
    uint64_t secret; /* what the others must find here */
    int error;       /* of the last call: errno's, or 0, */
    int worst;       /* and whose */
    char why[160];   /* for people */
} ax_cma_t;

/* See guard.c. */
#define AX_GUARD_SHARED 7u /* flag of threads without their own; bits of it */
typedef struct ax_guard {
    _Atomic uintptr_t owner;                 /* a thread, and its flag */
    atomic_bool inside[AX_GUARD_SHARED + 1]; /* the flags */
    unsigned mine;                           /* that of the one inside */
    uintptr_t thread[AX_GUARD_SHARED];       /* whose flags they are */
} ax_guard_t;

struct accel_comm {
    accel_job_t *job;
    const accel_settings_t *settings;
    int rank, size;
    int local_rank, local_size;
    int node, nodes;
    int *named;         /* each rank's rank in the job: for error texts */
    int *job_node;      /* the job's number of each node */
    int *node_of;       /* the node of each rank */
    int *position;      /* of each rank, ordered by node, then local rank */
    int *node_first;    /* position of each node's first rank; [nodes]: size */
    int *rank_at;       /* the rank at each position */
    size_t *node_bytes; /* room for a number for each node, and one more */
    size_t *part_at;    /* for each rank, and one more */
    ax_seg_t *seg;
    ax_line_t **seen;     /* where I see each rank's line: it, or a copy */
    ax_spot_t spot;       /* of this rank */
    ax_levels_t *levels;  /* when ranks are in groups */
    bool by_groups;       /* others' lines are copied into my group */
    ax_beat_t *beats;     /* of each rank of the node, as seen last */
    const void **sources; /* room for one pointer for each rank of the node, */
    void **targets;       /* and for another */
    ax_inter_t *inter;    /* of several nodes only */
    ax_pairs_t *pairs;    /* once a message was sent or received */
    int rails; /* ranks of a node that carry data: as many as each node has */
    uint64_t timeout_ns;
    ax_guard_t guard; /* one thread at a time */
    unsigned forks;   /* of this process, when it was opened */
    bool failed;
    accel_error_t why; /* when failed */

    ax_where_t where_next; /* see ax_comm_where() */
    ax_where_t where;      /* of the call being made */
    ax_queue_t *queue;     /* of started operations, once there was one */
    atomic_uint started;   /* operations that have not come to their end */

    /* All ranks of the node count these alike. */
    ax_call_t call;                /* the one being made */
    uint64_t seq;                  /* calls made */
    uint64_t signs[AX_SEG_SIGNS];  /* of the call */
    uint64_t arrived;              /* barriers of the node entered */
    uint64_t released;             /* times local rank 0 let the others go */
    uint64_t chained;              /* elements that went through groups */
    uint64_t turn;                 /* which half of the slots */
    ax_places_t places;            /* of this call: ax_heap_note() */
    uint32_t any_named, all_named; /* AX_NAMED() of any, of all of the node */

    ax_block_t *blocks;
    uint32_t next_block;
    ax_cma_t cma;
    char transport[200];
};

static inline bool ax_is_leader(const accel_comm_t *c)
{
    return c->local_rank == 0;
}

/* The rank with local rank `local` on this node. */
static inline int ax_rank_here(const accel_comm_t *c, int local)
{
    return c->rank_at[c->node_first[c->node] + local];
}

static inline int ax_ranks_on(const accel_comm_t *c, int node)
{
    return c->node_first[node + 1] - c->node_first[node];
}

/* Who carries data between node `node` and this rank's: the rank there with
 * my local rank. That of a leader is the leader. */
static inline int ax_rail_rank(const accel_comm_t *c, int node)
{
    return c->rank_at[c->node_first[node] + c->local_rank];
}

static inline int ax_node_of(const accel_comm_t *c, int rank)
{
    return c->node_of[rank];
}

static inline int ax_local_of(const accel_comm_t *c, int rank)
{
    return c->position[rank] - c->node_first[c->node_of[rank]];
}

/* A rank as texts name it: all communicators of a job name it alike. */
static inline int ax_named(const accel_comm_t *c, int rank)
{
    return c->named[rank];
}

static inline const char *ax_who(const accel_comm_t *c, int rank, char *buffer,
                                 size_t bytes)
{
    return ax_job_who(c->job, ax_named(c, rank), buffer, bytes);
}

static inline const char *ax_node_name(const accel_comm_t *c, int node)
{
    return accel_job_node_name(c->job, c->job_node[node]);
}

/* Ranks that an error text lists at most; it has no room for more. */
#define AX_RANKS_SHOWN 1024

/* ---- comm.c, open.c, split.c
 * ------------------------------------------------------------
 */

/* Who makes up a communicator. */
typedef struct ax_members {
    accel_job_t *job;
    const accel_settings_t *settings;
    int rank, size;
    const int *named; /* each rank's rank in the job; NULL: the same */
} ax_members_t;

/* A communicator that has met nobody yet. ax_comm_destroy() does not speak to
 * others; accel_comm_close() does. */
accel_status_t ax_comm_create(const ax_members_t *members, accel_comm_t **out);
void ax_comm_destroy(accel_comm_t *c);

/* How one is opened: its ranks hear of each other through the job's exchange
 * or through a parent, all of whose ranks then take part. */
typedef struct ax_opening {
    accel_job_t *job;
    accel_comm_t *comm;   /* NULL: I am in no part of the split */
    accel_comm_t *parent; /* NULL: the job's exchange */
    const int *in_parent; /* the parent's number of each rank */
    size_t *offsets;      /* room for the parent's ranks and one more */
    char *all;
    ax_seg_t *seg; /* comm's, until its ranks have met */
    int listen_fd;
} ax_opening_t;

/* All that is needed until the ranks can work together. `mine`: whether this
 * rank could make o->comm. On failure that is still the caller's to close.
 * Collective on all that take part. */
accel_status_t ax_comm_meet(ax_opening_t *o, accel_status_t mine);

/* ---- guard.c ----------------------------------------------------------------
 */

/* False when another thread is inside, or comes at the same time. */
bool ax_guard_enter(ax_guard_t *guard);
void ax_guard_leave(ax_guard_t *guard);

/* Enters once the thread inside has left, if it does so in time. */
bool ax_guard_wait(ax_guard_t *guard, uint64_t most_ns);

/* Around fork(), in the parent and, the latter, in the child. */
void ax_guards_before_fork(void);
void ax_guards_after_fork(void);

/* ---- enter.c ----------------------------------------------------------------
 */

/* How often this process came out of fork(). */
unsigned ax_forks(void);

/*
 * Begins every public call: refuses NULL, a communicator that has failed, one
 * that was inherited by fork, and a second thread. Ends it.
 */
accel_status_t ax_begin(accel_comm_t *c);

/* The same for a call that does not wait for started operations: it must not
 * look at what their thread changes, such as whether the communicator has
 * failed. */
accel_status_t ax_begin_queued(accel_comm_t *c);
accel_status_t ax_end(accel_comm_t *c, accel_status_t status);

/*
 * Meets all ranks in c->call. `mine` is the outcome of this rank's own checks
 * (its record is in place); the error of any rank becomes that of all, and
 * the communicator stays usable. What was written to the slots before is
 * visible to the node's ranks afterwards.
 */
accel_status_t ax_enter(accel_comm_t *c, accel_status_t mine);

/*
 * The same, and up to AX_SEG_INLINE bytes of `data` go along to the ranks of
 * this node, unless the call names a block of the heap. The `bytes` that
 * local rank `local` sent are there until the next call.
 */
accel_status_t ax_enter_with(accel_comm_t *c, accel_status_t mine,
                             const void *data, size_t bytes);

/* The two halves of it. What is done between them costs no time when others
 * come later: the call is on its way to them. */
void ax_announce(accel_comm_t *c, accel_status_t mine, const void *data,
                 size_t bytes);
accel_status_t ax_join(accel_comm_t *c, size_t bytes);

const void *ax_inline_of(const accel_comm_t *c, int local, size_t bytes);

/* What local rank `local` calls, once the node has been entered. */
ax_call_t ax_call_of(const accel_comm_t *c, int local);
ax_places_t ax_places_of(const accel_comm_t *c, int local);

/* Is a message of so many bytes of each rank sent along? All ranks that make
 * the same call say the same. */
static inline bool ax_is_inline(const accel_comm_t *c, size_t bytes)
{
    return bytes <= AX_SEG_INLINE && c->nodes == 1;
}

/* ---- wait.c -----------------------------------------------------------------
 */

#define AX_WAIT_RANKS 2

typedef struct ax_wait {
    unsigned tries;
    uint64_t began_ns, said_ns, dead_ns, ahead_ns;
    uint64_t nap_ns;
    uint64_t entered;  /* the node's ranks must have made so many calls, or 0 */
    uint64_t arrived;  /* they must have arrived so often, or 0 */
    uint64_t released; /* local rank 0 must have let go so often, or 0 */
    bool rung;         /* who sleeps was woken, as all have come */
    const ax_chain_t *chain; /* it must go on, or NULL */
    const bool *nodes;       /* these nodes must send something, or NULL */
    const int *ranks;   /* AX_WAIT_RANKS, or -1: that one sends to and receives
                         * from; or NULL */
    uint64_t broken_ns; /* the way to one of them was found broken */
    uint64_t moved_ns;  /* and then something else still came or went */
} ax_wait_t;

/*
 * One step of a wait that has not come to its end: looks around, spins,
 * yields or sleeps. An error ends the wait: the communicator has failed.
 */
accel_status_t ax_wait_more(accel_comm_t *c, ax_wait_t *wait);

/* Does the wait's end depend on local rank `local`, now? */
bool ax_awaits(const accel_comm_t *c, const ax_wait_t *wait, int local);

/* Does this line say that its rank has entered, or arrived? */
static inline bool ax_has_come(const ax_line_t *line, const ax_wait_t *wait)
{
    uint64_t seq = wait->entered;

    if (seq)
        return atomic_load_explicit(&line->card[seq & 1].seq,
                                    memory_order_acquire) >= seq;
    return atomic_load_explicit(&line->arrived, memory_order_acquire) >=
           wait->arrived;
}

/* In groups a rank may wait for one that others see past: it tells those that
 * wait for it, see ax_rank_late(). `over`: no longer. */
void ax_say_for_whom(const accel_comm_t *c, const ax_wait_t *wait, bool over);

/* All ranks of the node have made the call that is being made. */
accel_status_t ax_node_entered(accel_comm_t *c);

/* Why the rank `local` of this node does not come: itself, or a rank of
 * another node that it waits for. */
int ax_rank_late(const accel_comm_t *c, int local);

/* All ranks of the node have come here. */
accel_status_t ax_node_barrier(accel_comm_t *c);

/* Local rank 0 lets the others go; the others wait for it. */
accel_status_t ax_node_release(accel_comm_t *c);

/* How operators are carried out: ax_reduce()'s operator and final factor. */
typedef struct ax_reduction {
    accel_dtype_t dtype, acc;
    size_t element, acc_element;
    ax_reduce_op_t op;
    double divisor;
} ax_reduction_t;

/* ---- fault.c ----------------------------------------------------------------
 */

/*
 * The communicator fails: writes the fault where all of this node look (the
 * first one counts) and tells the other nodes. Returns its status, with the
 * record of the fault that counts.
 */
accel_status_t ax_raise(accel_comm_t *c, accel_status_t status,
                        const char *format, ...) ACCEL_PRINTF(3, 4);

/* A fault that was seen elsewhere on this node. */
accel_status_t ax_raise_seen(accel_comm_t *c);

/* Writes it where all of this node look, unless there is one already. It came
 * up in call `seq`. */
bool ax_fault_note(accel_comm_t *c, accel_status_t status, uint64_t seq,
                   const char *text);

/*
 * Is there a fault of the call being made, or of one before? That of a later
 * call is none of this one's: who came so far has all that it gave to this
 * one behind it, so this one comes to its end here too.
 */
bool ax_fault_look(const accel_comm_t *c);

static inline bool ax_fault_there(const accel_comm_t *c)
{
    return atomic_load_explicit(&c->seg->head->fault.state,
                                memory_order_relaxed) != 0 &&
           ax_fault_look(c);
}

/* Is there one of a later call? */
bool ax_fault_ahead(const accel_comm_t *c);

/* `rank` died, left, or does not come. `how` says how it ended, for a dead
 * one. */
accel_status_t ax_raise_gone(accel_comm_t *c, int rank, const char *how);
accel_status_t ax_raise_left(accel_comm_t *c, int rank);
accel_status_t ax_raise_late(accel_comm_t *c, const ax_wait_t *wait);

/* `calls`: those of all ranks, of which some differ. */
accel_status_t ax_raise_differ(accel_comm_t *c, const char *calls);

/* "all-reduce #12" */
const char *ax_last_text(uint64_t last, char *buffer, size_t bytes);

/* "0 1 3", of the ranks that `flags` marks. */
void ax_append_ranks(char *text, size_t room, const bool *flags, int size);

/* Are they the same operation on the same data? */
bool ax_same_call(const ax_call_t *a, const ax_call_t *b);

/* The calls of all of `ranks`, those that are alike put together. */
void ax_calls_text(const accel_comm_t *c, const ax_call_t *calls, int count,
                   const int *ranks, char *text, size_t room);

/* ---- request.c -------------------------------------------------------------
 */

/* Waits until all started operations have ended; the latter ends their thread
 * as well. */
void ax_queue_drain(accel_comm_t *c);
void ax_queue_close(accel_comm_t *c);

/* A child may open a job of its own: its lock must not be held by a thread
 * that it does not have. */
void ax_queue_before_fork(void);
void ax_queue_after_fork(void);
void ax_queue_in_child(void);

/* Is nothing in it, and nothing being carried out? */
bool ax_queue_idle(accel_comm_t *c);

/* Bytes of an element, or 0: accel_dtype_size() without a call. */
static inline size_t ax_element(accel_dtype_t dtype)
{
    static const unsigned char bytes[] = {
#define AX_ELEMENT(NAME, name, size) [ACCEL_##NAME] = (size),
        ACCEL_DTYPE_LIST(AX_ELEMENT)
#undef AX_ELEMENT
    };

    return (unsigned)dtype < AX_ARRAY_SIZE(bytes) ? bytes[dtype] : 0;
}

/* ---- node.c -----------------------------------------------------------------
 */

/* Up to so many bytes of all slots together every rank reduces all of it
 * itself, which saves a barrier; between nodes it goes through the leaders. */
#define AX_SMALL (16u << 10)

/* Reduces elements [first, first + count) of all slots of this turn. */
void ax_reduce_slots(const accel_comm_t *c, const ax_reduction_t *r, void *dst,
                     bool final, size_t first, size_t count);

/* Fills c->sources for a reduction of the `bytes` that go along with the call,
 * mine being at `send`; from byte `offset` on. */
void ax_sources_inline(const accel_comm_t *c, const char *send, size_t bytes,
                       size_t offset);

/* ---- inter.c: between the nodes ---------------------------------------------
 */

/* Opens the transport; its address goes to `address`, at most `room` bytes. */
accel_status_t ax_inter_open(accel_comm_t *c, void *address, size_t room,
                             uint32_t *bytes);
/* `nonce` is this communicator's number, everywhere. */
accel_status_t ax_inter_start(accel_comm_t *c, const uint8_t *nonce);
/* All have talked to all that they are connected to. */
void ax_inter_settle(accel_comm_t *c);
void ax_inter_close(accel_comm_t *c);
const char *ax_inter_about(const accel_comm_t *c);

/* Remembers where a rank can be reached, for messages from rank to rank. */
accel_status_t ax_inter_note(accel_comm_t *c, int rank, const void *address,
                             size_t bytes);
/* Connects to it unless that was done before. */
accel_status_t ax_inter_reach(accel_comm_t *c, int rank);

/* ---- pair.c
 * ------------------------------------------------------------------
 */

/* Before the transport is closed: says that this rank leaves. */
void ax_pairs_left(accel_comm_t *c);
/* After it. */
void ax_pairs_fini(accel_comm_t *c);
/* Has `rank` said so? */
bool ax_pairs_has_left(const accel_comm_t *c, int rank);
/* Does `wait` still want something of this rank of the node? It may have
 * answered and left since. */
bool ax_pairs_await(const accel_comm_t *c, const ax_wait_t *wait, int rank);
/* "rank 1 on n2 (last: barrier #4)", for whom `wait` is. */
void ax_pairs_late(const accel_comm_t *c, const ax_wait_t *wait, char *text,
                   size_t room);

/* Leaders: compares calls and outcomes; the verdict goes into the segment.
 * `call`: this node's, of the first rank without a fault of its own. */
accel_status_t ax_inter_meet(accel_comm_t *c, const ax_call_t *call,
                             bool differ, const ax_verdict_t *mine);

/* Looks after news from other nodes; AGAIN when nothing moved. */
accel_status_t ax_inter_poll(accel_comm_t *c, ax_wait_t *wait, bool slow);
void ax_inter_tell(accel_comm_t *c, const ax_fault_t *fault);
/* Appends whom `wait` is for. */
void ax_inter_late(const accel_comm_t *c, const ax_wait_t *wait, char *text,
                   size_t room);
/* `flags`: of the ranks as texts name them, AX_RANKS_SHOWN of them. */
void ax_inter_waiting(const accel_comm_t *c, bool *flags);
uint64_t ax_inter_last(const accel_comm_t *c, int node);

/* For tests: ranks take this way (ax_way_t) wherever it serves; -1: none. */
void ax_inter_force(accel_comm_t *c, int way);
/* All ranks: always by rails where that can be (1), never (0), or as the
 * model says (-1). */
void ax_inter_force_rails(accel_comm_t *c, int rails);
/* What was measured, on a leader; NULL before. */
const ax_model_t *ax_inter_model(const accel_comm_t *c);

/* The outcome of each rank becomes everyone's, as ax_comm_agree(). */
accel_status_t ax_agree(accel_comm_t *c, accel_status_t mine);

/* ---- heap.c, ops.c
 * ------------------------------------------------------------
 */

/* The block that holds [memory, memory + bytes) in my part of it, or NULL. */
ax_block_t *ax_heap_find(const accel_comm_t *c, const void *memory,
                         size_t bytes);
void ax_heap_fini(accel_comm_t *c);

/* Bytes of each rank in a gather: all the same, or a table. */
typedef struct ax_parts {
    size_t each;
    const size_t *offsets;        /* of `size` + 1 ranks; NULL: rank * each */
    const struct ax_table *table; /* or sizes and places (op.h) */
} ax_parts_t;

/* Where `rank`'s part begins; its bytes in the chunk [first, first + most); of
 * the longest part. */
size_t ax_part_offset(const ax_parts_t *parts, int rank);
size_t ax_part_bytes(const ax_parts_t *parts, int rank);
size_t ax_part_in(const ax_parts_t *parts, int rank, size_t first, size_t most);
/* Of all parts, in the buffer. */
size_t ax_parts_end(const accel_comm_t *c, const ax_parts_t *parts);
size_t ax_longest_part(const accel_comm_t *c, const ax_parts_t *parts);

/* The root's bytes to all, as c->call says. */
accel_status_t ax_broadcast(accel_comm_t *c, char *buffer, size_t bytes,
                            int root, accel_status_t mine);

/* As accel_comm_allgather_bytes(), within an operation; `offsets` has room for
 * all ranks and one more. */
accel_status_t ax_gather_bytes(accel_comm_t *c, const void *data, size_t bytes,
                               char **all, size_t *offsets);

/* Parts of all ranks to `root`, or to all (-1), as c->call says. */
accel_status_t ax_gather_parts(accel_comm_t *c, const char *send, char *recv,
                               const ax_parts_t *parts, int root,
                               accel_status_t mine);

const char *ax_call_name(int kind);

#endif
