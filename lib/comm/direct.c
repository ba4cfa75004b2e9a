/* See direct.h. */
#include "comm/direct.h"

#include <string.h>

#define BOUNCE 4096u /* bytes that change sides at a time */

/* ---- where parts lie --------------------------------------------------------
 */

/* Room in my slot for the places of parts that I send, and that come. */
static size_t *places_of(const accel_comm_t *c, int local, int what)
{
    size_t *all = (size_t *)(void *)ax_slot(c->seg, local, c->turn);

    return all + (what == AX_COMES ? c->size : 0);
}

/* The others know how long my parts are, but not where I have them. */
static void tell_places(accel_comm_t *c, int what, const ax_parts_t *parts)
{
    if (parts->table && c->call.named & AX_NAMED(what))
        memcpy(places_of(c, c->local_rank, what), parts->table->at,
               (size_t)c->size * sizeof *parts->table->at);
}

/* Rank `rank`'s part in what local rank `local` has named. */
static char *part_of(const accel_comm_t *c, int local, int what,
                     const ax_parts_t *parts, int rank)
{
    char *all = ax_heap_of(c, local, what);
    size_t at = parts->table && all ? places_of(c, local, what)[rank]
                                    : ax_part_offset(parts, rank);

    return all ? all + at : NULL;
}

static void copy(char *to, const char *from, size_t bytes)
{
    if (bytes && to != from) /* mine may be in place */
        memcpy(to, from, bytes);
}

bool ax_is_in_place(const accel_comm_t *c, int local)
{
    const char *sent = ax_heap_of(c, local, AX_SENT);

    return sent && sent == ax_heap_of(c, local, AX_COMES);
}

/* ---- broadcast --------------------------------------------------------------
 */

/* When what comes has its place in the heap, too, the root writes the last part
 * of it, so that all have the same to do. */
accel_status_t ax_direct_broadcast(accel_comm_t *c, char *buffer, size_t bytes,
                                   int root)
{
    size_t rest = bytes;

    if (ax_all_named(c, AX_COMES))
        rest -= bytes / (size_t)c->local_size / AX_SEG_LINE * AX_SEG_LINE;
    if (c->rank != root)
        memcpy(buffer, ax_heap_of(c, ax_local_of(c, root), AX_SENT), rest);
    for (int i = 0; c->rank == root && rest < bytes && i < c->local_size; i++)
        if (i != c->local_rank)
            memcpy(ax_heap_of(c, i, AX_COMES) + rest, buffer + rest,
                   bytes - rest);
    return ax_node_barrier(c); /* before the root writes there again */
}

/* ---- gather -----------------------------------------------------------------
 */

void ax_direct_gather_note(accel_comm_t *c, const ax_parted_t *g)
{
    ax_heap_note(c, AX_SENT, g->send, ax_part_bytes(g->parts, c->rank));
    ax_heap_note(c, AX_COMES, g->recv, g->recv ? ax_parts_end(c, g->parts) : 0);
    tell_places(c, AX_COMES, g->parts);
}

bool ax_direct_gather_can(const accel_comm_t *c)
{
    return ax_all_named(c, AX_SENT) || ax_all_named(c, AX_COMES);
}

/* All do their share of the work where the root alone would have it all. */
static bool is_put(const accel_comm_t *c, const ax_parted_t *g)
{
    return ax_all_named(c, AX_COMES) &&
           (g->root >= 0 || !ax_all_named(c, AX_SENT));
}

accel_status_t ax_direct_gather(accel_comm_t *c, const ax_parted_t *g)
{
    bool put = is_put(c, g);

    for (int i = 0; i < c->local_size; i++) {
        int rank = ax_rank_here(c, i);
        size_t n = ax_part_bytes(g->parts, put ? c->rank : rank);
        if (n == 0)
            continue;
        if (put && (g->root < 0 || rank == g->root))
            copy(part_of(c, i, AX_COMES, g->parts, c->rank), g->send, n);
        else if (!put && g->recv)
            copy(g->recv + ax_part_offset(g->parts, rank),
                 ax_heap_of(c, i, AX_SENT), n);
    }
    return ax_node_barrier(c); /* before anybody writes there again */
}

/* ---- scatter ----------------------------------------------------------------
 */

void ax_direct_scatter_note(accel_comm_t *c, const ax_parted_t *s)
{
    bool gives = c->rank == s->root;

    ax_heap_note(c, AX_SENT, s->send, gives ? ax_parts_end(c, s->parts) : 0);
    ax_heap_note(c, AX_COMES, s->recv,
                 gives ? 0 : ax_part_bytes(s->parts, c->rank));
    tell_places(c, AX_SENT, s->parts);
}

bool ax_direct_scatter_can(const accel_comm_t *c)
{
    return ax_all_named(c, AX_SENT) || ax_all_named(c, AX_COMES);
}

accel_status_t ax_direct_scatter(accel_comm_t *c, const ax_parted_t *s)
{
    bool pull = ax_all_named(c, AX_SENT), gives = c->rank == s->root;
    int root = ax_local_of(c, s->root);

    if (pull && !gives && ax_part_bytes(s->parts, c->rank))
        memcpy(s->recv, part_of(c, root, AX_SENT, s->parts, c->rank),
               ax_part_bytes(s->parts, c->rank));
    for (int i = 0; !pull && gives && i < c->local_size; i++) {
        int rank = ax_rank_here(c, i);
        size_t n = ax_part_bytes(s->parts, rank);
        if (n && i != root)
            memcpy(ax_heap_of(c, i, AX_COMES),
                   s->send + ax_part_offset(s->parts, rank), n);
    }
    return ax_node_barrier(c);
}

/* ---- all-to-all -------------------------------------------------------------
 */

void ax_direct_trade_note(accel_comm_t *c, const ax_trade_t *t)
{
    ax_heap_note(c, AX_SENT, t->send, ax_parts_end(c, t->to));
    ax_heap_note(c, AX_COMES, t->recv, ax_parts_end(c, t->from));
    tell_places(c, AX_SENT, t->to);
    tell_places(c, AX_COMES, t->from);
}

static bool any_in_place(const accel_comm_t *c)
{
    for (int i = 0; i < c->local_size; i++)
        if (ax_is_in_place(c, i))
            return true;
    return false;
}

/* In place what comes lies where others still read: both must be within
 * reach, so that two parts can change sides at once. */
bool ax_direct_trade_can(const accel_comm_t *c)
{
    bool sent = ax_all_named(c, AX_SENT), comes = ax_all_named(c, AX_COMES);

    return (sent && comes) || ((sent || comes) && !any_in_place(c));
}

/* My part for `rank` and its part for me. Of any two ranks one does this. */
static void swap_parts(const accel_comm_t *c, const ax_trade_t *t, int rank)
{
    char bounce[BOUNCE];
    int i = c->position[rank];
    size_t goes = ax_part_bytes(t->to, rank);
    size_t comes = ax_part_bytes(t->from, rank);
    const char *mine = t->send + ax_part_offset(t->to, rank);
    const char *its = part_of(c, i, AX_SENT, t->to, c->rank);
    char *to = part_of(c, i, AX_COMES, t->from, c->rank);
    char *here = t->recv + ax_part_offset(t->from, rank);

    for (size_t at = 0; at < goes || at < comes; at += BOUNCE) {
        size_t out = at < goes ? goes - at : 0;
        size_t in = at < comes ? comes - at : 0;
        out = out < BOUNCE ? out : BOUNCE;
        in = in < BOUNCE ? in : BOUNCE;
        if (out)
            memcpy(bounce, mine + at, out);
        if (in)
            copy(here + at, its + at, in);
        if (out)
            memcpy(to + at, bounce, out);
    }
}

/* So that each of p ranks has about as many. */
static bool is_mine(int me, int other)
{
    return (me < other) == ((me + other) % 2 == 1);
}

accel_status_t ax_direct_trade(accel_comm_t *c, const ax_trade_t *t)
{
    bool swap = any_in_place(c), pull = ax_all_named(c, AX_SENT);

    for (int r = 0; r < c->size; r++) {
        size_t comes = ax_part_bytes(t->from, r), goes;
        int i = c->position[r];
        if (r == c->rank)
            continue;
        goes = ax_part_bytes(t->to, r);
        if (swap && is_mine(c->rank, r) && goes + comes)
            swap_parts(c, t, r);
        else if (!swap && pull && comes)
            memcpy(t->recv + ax_part_offset(t->from, r),
                   part_of(c, i, AX_SENT, t->to, c->rank), comes);
        else if (!swap && !pull && goes)
            memcpy(part_of(c, i, AX_COMES, t->from, c->rank),
                   t->send + ax_part_offset(t->to, r), goes);
    }
    return ax_node_barrier(c);
}
