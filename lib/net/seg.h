/*
 * seg: the memory that the ranks of one node share, and which of them live.
 *
 * The segment is a memfd that local rank 0 makes and hands to the others over
 * a socket without a name in the file system, so nothing is left behind when
 * all of them are killed. All of it is allocated beforehand: lack of memory
 * is an error, never SIGBUS.
 */
#ifndef AX_SEG_H
#define AX_SEG_H

#include "base/base.h"
#include <stdatomic.h>
#include <stddef.h>

#define AX_SEG_LINE 128 /* two cache lines: the hardware fetches in pairs */
#define AX_SEG_TEXT 448
#define AX_SEG_SIGNS 3
#define AX_SEG_NEAR 32   /* bytes of data in a card, */
#define AX_SEG_INLINE 64 /* at most */
#define AX_SEG_CPUS 1024

/* What a call may say of memory: what is sent, and where what comes goes. */
enum { AX_SENT = 0, AX_COMES, AX_PLACES };

/* Where that lies in the heap (block 0: it does not). */
typedef struct ax_places {
    uint64_t offset[AX_PLACES];
    uint32_t block[AX_PLACES];
} ax_places_t;

/* In ax_call_t.named: it lies in the heap; there is none of it at all. */
#define AX_NAMED(what) (1u << (what))
#define AX_NONE_OF(what) (1u << (AX_PLACES + (what)))
#define AX_NAMED_ANY (AX_NAMED(AX_SENT) | AX_NAMED(AX_COMES))

/* One rank's collective call: what the ranks must agree on, and what of its
 * memory lies in the heap. */
typedef struct ax_call {
    uint64_t seq;
    uint64_t count;
    int32_t root;
    int32_t status; /* of the rank's own checks */
    uint8_t kind;
    uint8_t dtype;
    uint8_t op;
    uint8_t where;  /* ax_where_t: for error texts, too */
    uint32_t named; /* AX_NAMED(), AX_NONE_OF() */
} ax_call_t;

/*
 * The same beside its number, which is written last: who waits for the number
 * finds all else in the cache line that it has just read. A few bytes of data
 * may go along, in that line or, when they are more, in the next one.
 */
typedef struct ax_card {
    _Alignas(AX_SEG_LINE) _Atomic uint64_t seq;
    uint64_t signs[AX_SEG_SIGNS]; /* what ranks compare: ax_sign() packs them */
    char near[AX_SEG_NEAR];       /* with memory that is named: ax_places_t */
    char far[AX_SEG_INLINE];
} ax_card_t;

/* What one rank writes and the others of its node read. Counters only grow.
 * A card is written again two calls later, when all have left its call. */
typedef struct ax_line {
    ax_card_t card[2];                              /* even and odd numbers */
    _Alignas(AX_SEG_LINE) _Atomic uint64_t arrived; /* barriers entered */
    _Atomic uint32_t left; /* closed its communicator in good order */
    _Atomic int32_t rail;  /* 1 + the rank that it waits for in an exchange */
    _Atomic uint32_t pair; /* kind of the message that it is busy with, or 0 */
    _Atomic uint32_t beat; /* goes on while it waits */
    _Atomic int32_t cma;   /* why it could not move all: lib/comm/cma.c */
    _Alignas(AX_SEG_LINE) _Atomic uint64_t released; /* local rank 0 only */
    _Atomic uint64_t chained; /* elements added, from group to group */
    _Alignas(AX_SEG_LINE) char text[2][AX_SEG_TEXT]; /* of cards with errors */
    uint64_t cpus[AX_SEG_CPUS / 64];                 /* that it may run on */
} ax_line_t;

#define AX_LAST(kind, seq) ((uint64_t)(kind) << 56 | (seq))
#define AX_LAST_KIND(last) ((int)((last) >> 56))
#define AX_LAST_SEQ(last) ((last)&0xffffffffffffffu)

/* A fault of the whole communicator; the first that sees it fills it in. */
typedef struct ax_fault {
    _Atomic uint32_t state; /* 0 none, 1 being filled in, 2 there */
    int32_t status;
    uint64_t seq; /* of the call in which it came up */
    char text[AX_SEG_TEXT];
} ax_fault_t;

/* An outcome that local rank 0 gives the others of its node. */
typedef struct ax_verdict {
    int32_t status;
    int32_t rank; /* whose text it is */
    char text[AX_SEG_TEXT];
} ax_verdict_t;

#define AX_POST_ROOM (64u << 10)

/* The number of a message and for which local rank it is: in one word, as
 * others than that one look as well. */
#define AX_POST(number, dest) ((uint64_t)(number) << 24 | (uint64_t)(dest))
#define AX_POST_NUMBER(sent) ((sent) >> 24)
#define AX_POST_DEST(sent) ((int)((sent)&0xffffff))

/*
 * A message from one rank to another of its node; the sender's, one at a time.
 * The sender fills in the head and counts `sent` up; bytes go through `room`
 * as through a ring. The receiver answers, and only then may the next begin.
 */
typedef struct ax_post {
    _Alignas(AX_SEG_LINE) _Atomic uint64_t sent; /* AX_POST() */
    int32_t tag;
    uint32_t dtype;
    uint64_t count, bytes;
    _Atomic uint64_t filled; /* bytes that went into the room so far */
    /* the receiver's */
    _Alignas(AX_SEG_LINE) _Atomic uint64_t taken; /* and came out of it */
    _Atomic uint64_t answered; /* the message that is over: AX_POST() */
    int32_t status;            /* how it ended; an error has a text */
    char text[AX_SEG_TEXT];
    _Alignas(AX_SEG_LINE) char room[AX_POST_ROOM];
} ax_post_t;

typedef struct ax_seg_head {
    _Atomic uint32_t bell;     /* rung for those that sleep */
    _Atomic uint32_t sleepers; /* how many do, or are about to */
    ax_fault_t fault;
    ax_verdict_t verdict;
} ax_seg_head_t;

typedef struct ax_seg {
    int ranks, me;
    int fd;
    size_t base_bytes;
    size_t slot_bytes;
    ax_seg_head_t *head;
    ax_line_t *lines;
    char *slots;      /* ranks x 2 x slot_bytes */
    char *shared;     /* 2 x (2 + 1) x slot_bytes, when asked for */
    ax_post_t *posts; /* of each rank */
    char *copies;     /* groups x copies_bytes */
    size_t copies_bytes;
    int *pidfds; /* -1: the kernel gave none */
    int32_t *pids;
    bool *dead;
    void *polls;
    bool crowded; /* more ranks than CPUs that they may run on */
    bool fences;  /* see ax_bell_begin() */
    int sock;     /* while joining: to local rank 0 */
    int *socks;   /* while joining: local rank 0's, to each rank or -1, */
    void *lobby;  /* and whom it waits for */
} ax_seg_t;

/* Where a rank of the node can be met: published through the job. */
typedef struct ax_meet_point {
    uint8_t nonce[16];
    char name[24]; /* abstract socket, without the leading NUL; local rank 0 */
} ax_meet_point_t;

/*
 * Before the job's exchange: local rank 0 (`listening`) opens its socket.
 * *fd is -1 on the others. Close it after ax_seg_open().
 */
accel_status_t ax_meet_listen(bool listening, ax_meet_point_t *point, int *fd);

/* All have just come out of the job's exchange: meeting takes no longer. */
#define AX_MEET_SECONDS 120.0

typedef struct ax_seg_plan {
    int me, ranks;
    size_t slot_bytes;
    bool shared;    /* several nodes: areas for local rank 0's transport */
    int groups;     /* of ranks that keep copies of others' lines; or 0 */
    int takes;      /* 1 + the group whose copies lie near this rank; or 0 */
    double timeout; /* seconds; at most AX_MEET_SECONDS are waited */
} ax_seg_plan_t;

/* Before the exchange: memory for the meeting, so that no rank lacks it where
 * others wait for it. */
accel_status_t ax_seg_make(int me, int ranks, ax_seg_t **out);

/*
 * After the exchange: all ranks of the node meet at local rank 0's `point`
 * and map the segment. `fd` is that of ax_meet_listen(); `mine` what this rank
 * has come to so far: an error of any becomes that of all, and the segment is
 * only to be closed then. Collective on the node. ACCEL_ERR_NOMEM says how
 * many bytes were wanted.
 */
accel_status_t ax_seg_open(ax_seg_t *seg, const ax_seg_plan_t *plan,
                           const ax_meet_point_t *point, int fd,
                           accel_status_t mine);
void ax_seg_close(ax_seg_t *seg);

/*
 * Local rank 0: makes the file `bytes` longer. Checks what memory the machine
 * and the cgroup have left, but takes none yet.
 */
accel_status_t ax_seg_grow(const ax_seg_t *seg, size_t bytes);

/* How long the file is: what all ranks see alike, whatever failed before. */
accel_status_t ax_seg_bytes(const ax_seg_t *seg, uint64_t *bytes);

/* Takes the memory of a part of the file, near the cores of the caller, who
 * is to be its owner. Nothing may touch a part that has not been taken. */
accel_status_t ax_seg_take(const ax_seg_t *seg, uint64_t offset, size_t bytes);

/* Gives the memory of a part of the file back to the system. */
void ax_seg_punch(ax_seg_t *seg, uint64_t offset, size_t bytes);

/*
 * Sleeps for at most `ns` or until a rank of the node dies, and marks the
 * dead in seg->dead. True when there is a newly dead one.
 */
bool ax_seg_nap(ax_seg_t *seg, uint64_t ns);

/*
 * Sleeping until somebody rings: begin, look once more whether there is a
 * reason to, wait for at most `ns`, end. Who made happen what the others may
 * sleep for calls ax_bell_ring(). That looks for sleepers without a fence;
 * begin has one for both, from the kernel. Where it does not (`fences` is
 * false) a sleeper may be missed, and should not sleep for long.
 */
uint32_t ax_bell_begin(ax_seg_t *seg);
void ax_bell_wait(ax_seg_t *seg, uint32_t bell, uint64_t ns);
void ax_bell_end(ax_seg_t *seg);
void ax_bell_wake(ax_seg_t *seg);

static inline void ax_bell_ring(ax_seg_t *seg)
{
    if (atomic_load_explicit(&seg->head->sleepers, memory_order_relaxed))
        ax_bell_wake(seg);
}

/* How a dead rank died: "killed by signal 9", "exited with status 0" or "its
 * process ended" when the kernel does not tell. Returns `buffer`. */
const char *ax_seg_death(const ax_seg_t *seg, int local_rank, char *buffer,
                         size_t bytes);

/* map.c: mappings of shared files. Ranks that are threads of one process
 * share one mapping, so their synchronisation is seen as such. */
/* Asks for large pages under memory that is mapped and taken: fewer misses of
 * the address cache. It goes on as it is where the system has none. */
void ax_map_large(void *memory, size_t bytes);
accel_status_t ax_map(int fd, uint64_t offset, size_t bytes, void **out);
void ax_unmap(void *memory, size_t bytes);

/* meet.c */
accel_status_t ax_meet(const ax_seg_plan_t *plan, const ax_meet_point_t *point,
                       int listen_fd, ax_seg_t *seg);
/* My part of joining came out as `mine`: the same outcome for all. */
accel_status_t ax_meet_confirm(ax_seg_t *seg, accel_status_t mine);
void ax_meet_end(ax_seg_t *seg);

/* Local rank 0 could not make the segment: the others get its error. */
void ax_meet_refuse(const ax_seg_plan_t *plan, const ax_meet_point_t *point,
                    int listen_fd, ax_seg_t *seg);

/* Callers that local rank 0 listens to at a time: some may be strangers. */
#define AX_LOBBY_ROOM(ranks) ((ranks) + 8)

/* Raises the soft limit of open files so that `must` more fit, or it is an
 * error, and as many of `wish` on top as the hard limit allows. */
accel_status_t ax_files_needed(int must, int wish);

/* Bytes of a page of memory. */
size_t ax_page(void);

/*
 * Asks for a line that is soon written, while there is something else to do:
 * those that have read it give it up. A hint only. The compiler's own is one
 * for reading, unless it builds for newer processors than x86-64 means.
 */
static inline void ax_claim(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

static inline ax_line_t *ax_line(const ax_seg_t *seg, int local_rank)
{
    return &seg->lines[local_rank];
}

/* The words that make up a call in a card: count; root, kind, type, operator
 * and place; status and what is named. */
static inline void ax_sign(const ax_call_t *call, uint64_t *signs)
{
    signs[0] = call->count;
    signs[1] = (uint32_t)call->root | (uint64_t)call->kind << 32 |
               (uint64_t)call->dtype << 40 | (uint64_t)call->op << 48 |
               (uint64_t)call->where << 56;
    signs[2] = (uint32_t)call->status | (uint64_t)call->named << 32;
}

static inline int ax_sign_kind(const uint64_t *signs)
{
    return (int)(signs[1] >> 32 & 0xff);
}

static inline ax_call_t ax_unsign(const uint64_t *signs)
{
    return (ax_call_t){.count = signs[0],
                       .root = (int32_t)(uint32_t)signs[1],
                       .kind = (uint8_t)(signs[1] >> 32),
                       .dtype = (uint8_t)(signs[1] >> 40),
                       .op = (uint8_t)(signs[1] >> 48),
                       .where = (uint8_t)(signs[1] >> 56),
                       .status = (int32_t)(uint32_t)signs[2],
                       .named = (uint32_t)(signs[2] >> 32)};
}

/* AX_LAST() of the newest call that the rank has made: for error texts. */
static inline uint64_t ax_line_last(ax_line_t *line)
{
    uint64_t even =
        atomic_load_explicit(&line->card[0].seq, memory_order_acquire);
    uint64_t odd =
        atomic_load_explicit(&line->card[1].seq, memory_order_acquire);
    int kind = ax_sign_kind(line->card[odd > even].signs);
    uint32_t pair = atomic_load_explicit(&line->pair, memory_order_acquire);
    uint64_t seq = odd > even ? odd : even;

    /* a message lies between two calls: a fault in it is not the first's */
    if (pair)
        return AX_LAST(pair, seq + 1);
    return seq ? AX_LAST(kind, seq) : 0;
}

/* Where group `group` copies the line of `local_rank` to. */
static inline ax_line_t *ax_copy(const ax_seg_t *seg, int group, int local_rank)
{
    char *copies = seg->copies + (size_t)group * seg->copies_bytes;

    return (ax_line_t *)(void *)copies + local_rank;
}

static inline char *ax_slot(const ax_seg_t *seg, int local_rank, uint64_t turn)
{
    size_t index = (size_t)local_rank * 2 + (turn & 1);

    return seg->slots + index * seg->slot_bytes;
}

/* Node sums in the accumulator's type (twice a slot), and final results. */
static inline char *ax_acc(const ax_seg_t *seg, uint64_t turn)
{
    return seg->shared + (turn & 1) * 3 * seg->slot_bytes;
}

static inline char *ax_out(const ax_seg_t *seg, uint64_t turn)
{
    return ax_acc(seg, turn) + 2 * seg->slot_bytes;
}

#endif
