/* What is said when something went wrong, and that all hear the same. */
#include "comm/comm_priv.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const call_names[] = {
#define CALL_NAME(NAME, text) text,
    AX_CALL_LIST(CALL_NAME)
#undef CALL_NAME
};

static const char *const where_names[] = {
#define WHERE_NAME(NAME, text) text,
    AX_WHERE_LIST(WHERE_NAME)
#undef WHERE_NAME
};

const char *ax_call_name(int kind)
{
    if (kind < 0 || (size_t)kind >= AX_ARRAY_SIZE(call_names))
        return "something unknown";
    return call_names[kind];
}

const char *ax_last_text(uint64_t last, char *buffer, size_t bytes)
{
    int kind = AX_LAST_KIND(last);
    bool between = kind == AX_CALL_SEND || kind == AX_CALL_RECV ||
                   kind == AX_CALL_SENDRECV;

    if (last == 0)
        snprintf(buffer, bytes, "nothing yet");
    else if (between) /* the number is that of the collective before it */
        snprintf(buffer, bytes, "%s", ax_call_name(kind));
    else
        snprintf(buffer, bytes, "%s #%llu", ax_call_name(AX_LAST_KIND(last)),
                 (unsigned long long)AX_LAST_SEQ(last));
    return buffer;
}

void ax_append_ranks(char *text, size_t room, const bool *flags, int size)
{
    int shown = 0;

    for (int r = 0; r < size; r++) {
        int last = r;
        if (!flags[r])
            continue;
        if (++shown > 24) {
            ax_append(text, room, " ...");
            return;
        }
        while (last + 1 < size && flags[last + 1])
            last++;
        if (last > r + 1)
            ax_append(text, room, "%s%d-%d", shown > 1 ? " " : "", r, last);
        else
            ax_append(text, room, "%s%d", shown > 1 ? " " : "", r);
        if (last > r + 1)
            r = last;
    }
}

/* ---- the fault of a communicator -------------------------------------------
 */

/* 0: none, 1: who was to fill it in does not, 2: there. */
static uint32_t fault_state(const ax_fault_t *fault)
{
    struct timespec nap = {.tv_nsec = 1000000};
    uint32_t state = atomic_load_explicit(&fault->state, memory_order_acquire);

    /* who fills it in may die meanwhile */
    for (int i = 0; i < 200 && state == 1; i++) {
        nanosleep(&nap, NULL);
        state = atomic_load_explicit(&fault->state, memory_order_acquire);
    }
    return state;
}

bool ax_fault_look(const accel_comm_t *c)
{
    const ax_fault_t *fault = &c->seg->head->fault;
    uint32_t state = fault_state(fault);

    return state == 1 || (state == 2 && fault->seq <= c->call.seq);
}

bool ax_fault_ahead(const accel_comm_t *c)
{
    const ax_fault_t *fault = &c->seg->head->fault;

    return fault_state(fault) == 2 && fault->seq > c->call.seq;
}

static accel_status_t fail_with(accel_comm_t *c, const ax_fault_t *fault)
{
    c->failed = true;
    ax_fail((accel_status_t)fault->status, "%.*s", (int)sizeof fault->text,
            fault->text);
    ax_error_get(&c->why);
    if (c->why.status == ACCEL_ERR_TIMEOUT)
        ax_job_leave_behind(c->job);
    return c->why.status;
}

accel_status_t ax_raise_seen(accel_comm_t *c)
{
    ax_fault_t *fault = &c->seg->head->fault;

    if (fault_state(fault) != 2) {
        c->failed = true;
        ax_fail(ACCEL_ERR_PEER, "comm: a rank of this node ended while it "
                                "reported a fault");
        ax_error_get(&c->why);
        return c->why.status;
    }
    if (c->inter)
        ax_inter_tell(c, fault);
    return fail_with(c, fault);
}

bool ax_fault_note(accel_comm_t *c, accel_status_t status, uint64_t seq,
                   const char *text)
{
    ax_fault_t *fault = &c->seg->head->fault;
    uint32_t none = 0;

    if (!atomic_compare_exchange_strong(&fault->state, &none, 1))
        return false;
    snprintf(fault->text, sizeof fault->text, "%s", text);
    fault->status = status;
    fault->seq = seq;
    atomic_store_explicit(&fault->state, 2, memory_order_release);
    ax_bell_ring(c->seg);
    return true;
}

accel_status_t ax_raise(accel_comm_t *c, accel_status_t status,
                        const char *format, ...)
{
    char text[AX_SEG_TEXT];
    va_list args;

    va_start(args, format);
    ax_vformat(text, sizeof text, format, args);
    va_end(args);
    (void)ax_fault_note(c, status, c->call.seq, text);
    return ax_raise_seen(c);
}

/* ---- its texts ------------------------------------------------------------
 */

static uint64_t last_of(const accel_comm_t *c, int rank)
{
    int node = ax_node_of(c, rank);

    if (node == c->node)
        return ax_line_last(ax_line(c->seg, ax_local_of(c, rank)));
    return c->inter ? ax_inter_last(c, node) : 0;
}

/* How many ranks of the job a text can name. */
static int ranks_shown(const accel_comm_t *c)
{
    int size = accel_job_size(c->job);

    return size < AX_RANKS_SHOWN ? size : AX_RANKS_SHOWN;
}

/* " (its last: barrier #3); ranks 0 2 were waiting in it", as far as this
 * node knows. Those that are `late` (or NULL) were not, though they may be in
 * that call as well. */
static void append_who_waits(const accel_comm_t *c, int gone, const bool *late,
                             char *text, size_t room)
{
    bool flags[AX_RANKS_SHOWN] = {false};
    int size = ranks_shown(c);
    uint64_t now = AX_LAST(c->call.kind, c->call.seq);
    char last[64];

    if (c->inter)
        ax_inter_waiting(c, flags);
    for (int r = 0; r < c->local_size; r++) {
        int rank = ax_rank_here(c, r), name = ax_named(c, rank);
        if (name < size)
            flags[name] = last_of(c, rank) == now;
    }
    int its = gone < 0 ? -1 : ax_named(c, gone);
    if (gone >= 0 && (its >= size || !flags[its]))
        ax_append(text, room, " (its last: %s)",
                  ax_last_text(last_of(c, gone), last, sizeof last));
    if (gone >= 0 && its < size)
        flags[its] = false;
    int waiting = 0;
    for (int r = 0; r < size; r++) {
        flags[r] = flags[r] && !(late && late[r]);
        waiting += flags[r];
    }
    if (waiting == 0)
        return;
    ax_append(text, room, "; rank%s ", waiting > 1 ? "s" : "");
    ax_append_ranks(text, room, flags, size);
    ax_append(text, room, " %s waiting in it", waiting > 1 ? "were" : "was");
}

accel_status_t ax_raise_gone(accel_comm_t *c, int rank, const char *how)
{
    char who[96], call[64], text[AX_SEG_TEXT];
    uint64_t now = AX_LAST(c->call.kind, c->call.seq);

    snprintf(text, sizeof text, "comm: %s is gone (%s) during %s",
             ax_who(c, rank, who, sizeof who), how,
             ax_last_text(now, call, sizeof call));
    append_who_waits(c, rank, NULL, text, sizeof text);
    return ax_raise(c, ACCEL_ERR_PEER, "%s", text);
}

accel_status_t ax_raise_left(accel_comm_t *c, int rank)
{
    char who[96], call[64], text[AX_SEG_TEXT];
    uint64_t now = AX_LAST(c->call.kind, c->call.seq);

    snprintf(text, sizeof text,
             "comm: %s has left (accel_comm_close) while others are in %s",
             ax_who(c, rank, who, sizeof who),
             ax_last_text(now, call, sizeof call));
    append_who_waits(c, rank, NULL, text, sizeof text);
    return ax_raise(c, ACCEL_ERR_PEER, "%s", text);
}

/* Names the ranks of this node that are missing, with their last calls, and
 * marks them in `late`. */
static void append_missing(const accel_comm_t *c, const ax_wait_t *wait,
                           bool *late, char *text, size_t room)
{
    char who[96], last[64];
    int missing = 0, named[3] = {-1, -1, -1};

    for (int r = 0; r < c->local_size; r++) {
        if (!ax_awaits(c, wait, r))
            continue;
        int rank = ax_rank_late(c, r);
        /* several may wait for the same one */
        if (rank == named[0] || rank == named[1] || rank == named[2])
            continue;
        if (ax_named(c, rank) < AX_RANKS_SHOWN)
            late[ax_named(c, rank)] = true;
        if (missing < 3)
            named[missing] = rank;
        if (missing++ < 3)
            ax_append(text, room, "%s%s (last: %s)", missing > 1 ? ", " : "",
                      ax_who(c, rank, who, sizeof who),
                      ax_last_text(last_of(c, rank), last, sizeof last));
    }
    if (missing > 3)
        ax_append(text, room, " and %d more", missing - 3);
}

accel_status_t ax_raise_late(accel_comm_t *c, const ax_wait_t *wait)
{
    bool late[AX_RANKS_SHOWN] = {false};
    char who[96], call[64], text[AX_SEG_TEXT];

    ax_format(
        text, sizeof text, "comm: waited %g s in %s for ",
        (double)c->timeout_ns / 1e9,
        ax_last_text(AX_LAST(c->call.kind, c->call.seq), call, sizeof call));
    if (wait->ranks)
        ax_pairs_late(c, wait, text, sizeof text);
    else if (wait->nodes)
        ax_inter_late(c, wait, text, sizeof text);
    else if (!wait->released)
        append_missing(c, wait, late, text, sizeof text);
    else
        ax_append(text, sizeof text, "%s, which waits for other nodes",
                  ax_who(c, ax_rank_here(c, 0), who, sizeof who));
    /* they came while this text was written */
    if (text[strlen(text) - 1] == ' ')
        ax_append(text, sizeof text, "ranks that came too late");
    append_who_waits(c, -1, late, text, sizeof text);
    ax_append(text, sizeof text, "; setting timeout=%llu",
              (unsigned long long)(c->timeout_ns / 1000000000u));
    return ax_raise(c, ACCEL_ERR_TIMEOUT, "%s", text);
}

accel_status_t ax_raise_differ(accel_comm_t *c, const char *calls)
{
    return ax_raise(c, ACCEL_ERR_PROTO,
                    "comm: the ranks disagree: %s; all ranks make the same "
                    "calls in the same order: look for one under an if",
                    calls);
}

/* ---- calls that differ -----------------------------------------------------
 */

static bool same_arguments(const ax_call_t *a, const ax_call_t *b)
{
    return a->seq == b->seq && a->kind == b->kind && a->dtype == b->dtype &&
           a->op == b->op && a->count == b->count && a->root == b->root &&
           a->where == b->where;
}

bool ax_same_call(const ax_call_t *a, const ax_call_t *b)
{
    /* a call with bad arguments cannot be held against them */
    if (a->status != ACCEL_OK || b->status != ACCEL_OK)
        return a->seq == b->seq && a->kind == b->kind;
    return same_arguments(a, b);
}

/* What is worth telling of a call beside its name. */
typedef struct shape {
    bool reduces, rooted;
    bool sizes_apart; /* they are compared by a step of their own */
    bool marked;      /* `root` is a number made of the counts */
} shape_t;

static const shape_t *shape_of(int kind)
{
    static const shape_t none,
        shapes[] = {
            [AX_CALL_BROADCAST] = {.rooted = true},
            [AX_CALL_ALLREDUCE] = {.reduces = true},
            [AX_CALL_REDUCE] = {.reduces = true, .rooted = true},
            [AX_CALL_REDUCE_SCATTER] = {.reduces = true},
            [AX_CALL_REDUCE_SCATTERV] = {.reduces = true, .marked = true},
            [AX_CALL_ALLGATHERV] = {.marked = true},
            [AX_CALL_GATHER] = {.rooted = true},
            [AX_CALL_GATHERV] = {.rooted = true, .sizes_apart = true},
            [AX_CALL_SCATTER] = {.rooted = true},
            [AX_CALL_SCATTERV] = {.rooted = true, .sizes_apart = true},
            [AX_CALL_ALLTOALLV] = {.sizes_apart = true},
        };

    return kind >= 0 && (size_t)kind < AX_ARRAY_SIZE(shapes) ? &shapes[kind]
                                                             : &none;
}

static void append_call(char *text, size_t room, const ax_call_t *call)
{
    static const char *const ops[] = {"sum", "avg", "min", "max", "prod"};
    const shape_t *shape = shape_of(call->kind);
    unsigned long long count = call->count;

    ax_append(text, room, "%s #%llu", ax_call_name(call->kind),
              (unsigned long long)call->seq);
    if (call->kind == AX_CALL_ALLOC)
        ax_append(text, room, " of %llu bytes", count);
    else if (call->kind == AX_CALL_FREE)
        ax_append(text, room, " of block %llu", count);
    else if (shape->sizes_apart)
        ax_append(text, room, " of %s",
                  accel_dtype_name((accel_dtype_t)call->dtype));
    else if (call->dtype != ACCEL_DTYPE_NONE)
        ax_append(text, room, " %llu x %s", count,
                  accel_dtype_name((accel_dtype_t)call->dtype));
    if (shape->reduces && call->op < AX_ARRAY_SIZE(ops))
        ax_append(text, room, " %s", ops[call->op]);
    if (shape->rooted)
        ax_append(text, room, " root %d", (int)call->root);
    if (shape->marked)
        ax_append(text, room, " in parts marked %08x", (unsigned)call->root);
    if (call->where < AX_ARRAY_SIZE(where_names))
        ax_append(text, room, "%s", where_names[call->where]);
    if (call->status != ACCEL_OK)
        ax_append(text, room, ", refused");
}

void ax_calls_text(const accel_comm_t *c, const ax_call_t *calls, int count,
                   const int *ranks, char *text, size_t room)
{
    bool said[AX_RANKS_SHOWN] = {false};

    for (int i = 0; i < count && i < AX_RANKS_SHOWN; i++) {
        bool alike[AX_RANKS_SHOWN] = {false};
        if (said[i])
            continue;
        for (int j = i; j < count && j < AX_RANKS_SHOWN; j++)
            if (same_arguments(&calls[i], &calls[j]) &&
                calls[i].status == calls[j].status) {
                said[j] = true;
                if (ax_named(c, ranks[j]) < AX_RANKS_SHOWN)
                    alike[ax_named(c, ranks[j])] = true;
            }
        int count_alike = 0;
        for (int r = 0; r < AX_RANKS_SHOWN; r++)
            count_alike += alike[r];
        ax_append(text, room, "%srank%s ", i ? "; " : "",
                  count_alike > 1 ? "s" : "");
        ax_append_ranks(text, room, alike, ranks_shown(c));
        ax_append(text, room, ": ");
        append_call(text, room, &calls[i]);
    }
}
