/*
 * direct: operations on one node with memory in the heap (accel_alloc()). No
 * slot is filled: a rank reads what is sent where it lies (pull), or writes
 * what comes where it belongs (put), once all have come and before any leaves.
 *
 * Bytes that each of p ranks loads and stores as often, for parts of n bytes:
 *
 *   operation       in the heap         direct             through slots
 *   broadcast       what the root has   n, the root none   n
 *                   all of it           (p - 1) / p n      n
 *   all-gather(v)   all that is sent    pn                 (p + 1) n
 *                   all that comes      pn                 (p + 1) n
 *   gather(v)       the root's result   n                  n, the root pn
 *                   all that is sent    the root pn        n, the root pn
 *   scatter(v)      what the root has   n                  n, the root pn
 *                   all that comes      the root pn        n, the root pn
 *   all-to-all(v)   all that is sent    pn                 2pn
 *                   all that comes      pn                 2pn
 *                   both, in place      pn                 2pn
 *
 * Reductions are in reduce.c.
 */
#ifndef AX_COMM_DIRECT_H
#define AX_COMM_DIRECT_H

#include "comm/op.h"

/* Less than this goes through the slots, which costs no second meeting. */
#define AX_DIRECT (8u << 10)

/* Is it worth saying where memory of so many bytes lies? All ranks that make
 * the same call say the same. */
static inline bool ax_is_direct(const accel_comm_t *c, size_t bytes)
{
    return c->nodes == 1 && bytes > AX_DIRECT &&
           2 * sizeof(size_t) * (size_t)c->size <= c->seg->slot_bytes;
}

/* Has this rank named anything in its call? Then it has filled no slot. */
static inline bool ax_has_named(const accel_comm_t *c)
{
    return c->call.named & AX_NAMED_ANY;
}

/* The call, which is filled in, names where [memory, memory + bytes) lies in
 * the heap, if it does; `what`: AX_SENT or AX_COMES. */
void ax_heap_note(accel_comm_t *c, int what, const void *memory, size_t bytes);

/* The memory that local rank `local` has named, or NULL. */
char *ax_heap_of(const accel_comm_t *c, int local, int what);

/* Once the node has been entered: do all of its ranks that have `what` have it
 * in the heap? */
static inline bool ax_all_named(const accel_comm_t *c, int what)
{
    return c->all_named & AX_NAMED(what);
}

/* A gather or a scatter under way: parts go from `send` to `recv`, which is
 * NULL where nothing comes. `root` is -1 when all get all. */
typedef struct ax_parted {
    const char *send;
    char *recv;
    const ax_parts_t *parts;
    int root;
    size_t most; /* bytes of a part in one chunk, through the slots */
} ax_parted_t;

/* An all-to-all under way. */
typedef struct ax_trade {
    const char *send;
    char *recv;
    const ax_parts_t *to, *from;
    size_t longest; /* of all parts of all ranks */
    /* Between nodes: the longest part that any rank here sends to, or gets
     * from, a rank of node k; and where the parts for and from node k lie in
     * the segment. */
    size_t *longest_to, *longest_from, *to_at, *from_at;
    size_t most; /* bytes of a part in one chunk, through the slots */
} ax_trade_t;

/*
 * For each of them: before the node is entered the call names what lies in the
 * heap, and the places of parts of different sizes go into this turn's slot of
 * a rank that has named something. After it, can it be done directly? All
 * ranks find the same.
 */
void ax_direct_gather_note(accel_comm_t *c, const ax_parted_t *g);
bool ax_direct_gather_can(const accel_comm_t *c);
accel_status_t ax_direct_gather(accel_comm_t *c, const ax_parted_t *g);

void ax_direct_scatter_note(accel_comm_t *c, const ax_parted_t *s);
bool ax_direct_scatter_can(const accel_comm_t *c);
accel_status_t ax_direct_scatter(accel_comm_t *c, const ax_parted_t *s);

void ax_direct_trade_note(accel_comm_t *c, const ax_trade_t *t);
bool ax_direct_trade_can(const accel_comm_t *c);
accel_status_t ax_direct_trade(accel_comm_t *c, const ax_trade_t *t);

/* The root's memory lies in the heap. */
accel_status_t ax_direct_broadcast(accel_comm_t *c, char *buffer, size_t bytes,
                                   int root);

/* Does local rank `local` work in place, as far as its places tell? */
bool ax_is_in_place(const accel_comm_t *c, int local);

/* ---- node.c
 * ------------------------------------------------------------------
 */

/* As ax_reduce_slots(), to the end, where all ranks have named what they send,
 * from `offset` bytes on. */
void ax_reduce_named(const accel_comm_t *c, const ax_reduction_t *r, void *dst,
                     size_t offset, size_t count);

/* My slice of a reduction of `count` elements where all have named what they
 * send and where they want the result: read from all ranks, and the result
 * written to all of them, or to rank `root` (-1: all). */
void ax_reduce_direct(const accel_comm_t *c, const ax_reduction_t *r,
                      size_t count, int root);

#endif
