/* How every collective begins: the ranks compare what they call. */
#include "comm/comm_priv.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* How often this process came out of fork(). A child has the parent's memory
 * but is not the rank: it must not speak for it. */
static atomic_uint forks;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add(&forks, 1);
    ax_queue_in_child();
}

static void watch_forks(void)
{
    (void)pthread_atfork(ax_queue_before_fork, ax_queue_after_fork, count_fork);
}

unsigned ax_forks(void)
{
    (void)pthread_once(&forks_once, watch_forks);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

static inline accel_status_t come_in(accel_comm_t *c)
{
    if (c->forks != atomic_load_explicit(&forks, memory_order_relaxed))
        return ax_fail(ACCEL_ERR_STATE,
                       "comm: used in a child of fork(); only the process "
                       "that opened it may use it");
    if (!ax_guard_enter(&c->guard))
        return ax_fail(ACCEL_ERR_STATE,
                       "comm: another thread is using this communicator; "
                       "one thread at a time may");
    return ACCEL_OK;
}

accel_status_t ax_begin_queued(accel_comm_t *c)
{
    if (!c)
        return ax_fail(ACCEL_ERR_ARG, "comm: no communicator (NULL)");
    return come_in(c);
}

accel_status_t ax_begin(accel_comm_t *c)
{
    if (!c)
        return ax_fail(ACCEL_ERR_ARG, "comm: no communicator (NULL)");
    accel_status_t st = come_in(c);
    if (st != ACCEL_OK)
        return st;
    if (atomic_load_explicit(&c->started, memory_order_acquire))
        ax_queue_drain(c);
    c->where = c->where_next;
    if (c->failed) {
        ax_error_set(&c->why);
        return ax_end(c, c->why.status);
    }
    return ACCEL_OK;
}

accel_status_t ax_end(accel_comm_t *c, accel_status_t status)
{
    ax_guard_leave(&c->guard);
    return status;
}

ax_where_t ax_comm_where(accel_comm_t *comm, ax_where_t where)
{
    ax_where_t before = comm->where_next;

    comm->where_next = where;
    return before;
}

/* What the comparison costs is measured by this file built with a switch that
 * leaves it out (bench/comm_signs.c); the library has none. */
#ifdef AX_SIGNS_SWITCH
bool ax_signs = true;
#else
enum { ax_signs = true };
#endif

/* ---- publishing ------------------------------------------------------------
 */

static const ax_card_t *card_of(const accel_comm_t *c, int local)
{
    return &c->seen[local]->card[c->call.seq & 1];
}

ax_call_t ax_call_of(const accel_comm_t *c, int local)
{
    const ax_card_t *card = card_of(c, local);
    ax_call_t call = ax_unsign(card->signs);

    call.seq = c->call.seq;
    return call;
}

ax_places_t ax_places_of(const accel_comm_t *c, int local)
{
    const ax_card_t *card = card_of(c, local);
    ax_places_t places = {0};

    if (ax_unsign(card->signs).named & AX_NAMED_ANY)
        memcpy(&places, card->near, sizeof places);
    return places;
}

static char *text_of(const accel_comm_t *c, int local)
{
    return ax_line(c->seg, local)->text[c->call.seq & 1];
}

const void *ax_inline_of(const accel_comm_t *c, int local, size_t bytes)
{
    const ax_card_t *card = card_of(c, local);

    return bytes <= AX_SEG_NEAR ? card->near : card->far;
}

/* The farther line first, so that it is on its way when the others see the
 * number. */
static void publish(accel_comm_t *c, const void *data, size_t bytes)
{
    ax_line_t *line = ax_line(c->seg, c->local_rank);
    ax_card_t *card = &line->card[c->call.seq & 1];

    if (c->call.status != ACCEL_OK)
        memcpy(text_of(c, c->local_rank), accel_last_error()->text,
               AX_SEG_TEXT - 1);
    else if (c->call.named & AX_NAMED_ANY)
        memcpy(card->near, &c->places, sizeof c->places);
    else if (bytes)
        memcpy(bytes <= AX_SEG_NEAR ? card->near : card->far, data, bytes);
    for (int i = 0; ax_signs && i < AX_SEG_SIGNS; i++)
        card->signs[i] = c->signs[i];
    atomic_store_explicit(&card->seq, c->call.seq, memory_order_release);
}

/* ---- comparing -------------------------------------------------------------
 */

/* The first call that can be held against the others: all ranks take the same
 * one, so that all come to the same verdict. */
static ax_call_t first_good(const accel_comm_t *c)
{
    for (int r = 0; r < c->local_size; r++) {
        ax_call_t call = ax_call_of(c, r);
        if (call.status == ACCEL_OK)
            return call;
    }
    return ax_call_of(c, 0);
}

/* What nearly always holds, and is quick to see: all call the same, without
 * a fault and without the heap. My own card is not read: it may be on its way
 * to the others. */
static bool all_plain(const accel_comm_t *c)
{
    uint64_t differ = c->signs[2];

    if (!ax_signs)
        return true;
    for (int r = 0; r < c->local_size; r++) {
        const uint64_t *signs = card_of(c, r)->signs;
        for (int i = 0; r != c->local_rank && i < AX_SEG_SIGNS; i++)
            differ |= signs[i] ^ c->signs[i];
    }
    return differ == 0;
}

/* Looks at the calls of this node. *worst: the lowest rank that found a fault
 * in its own arguments, or -1. */
static bool compare(accel_comm_t *c, int *worst)
{
    bool all_same = true;
    uint32_t any = 0, all = AX_NAMED_ANY;
    ax_call_t good = first_good(c);

    *worst = -1;
    for (int r = 0; r < c->local_size; r++) {
        ax_call_t call = ax_call_of(c, r);
        all_same = all_same && ax_same_call(&call, &good);
        if (call.status != ACCEL_OK && *worst < 0)
            *worst = r;
        any |= call.named & AX_NAMED_ANY;
        all &= call.named | call.named >> AX_PLACES;
    }
    c->any_named = any;
    c->all_named = all & any;
    return all_same;
}

static accel_status_t raise_differ(accel_comm_t *c)
{
    size_t n = (size_t)c->local_size;
    ax_call_t *calls = calloc(n, sizeof *calls);
    char text[AX_SEG_TEXT] = "";

    for (int r = 0; calls && r < c->local_size; r++)
        calls[r] = ax_call_of(c, r);
    if (calls)
        ax_calls_text(c, calls, c->local_size,
                      c->rank_at + c->node_first[c->node], text, sizeof text);
    else
        ax_append(text, sizeof text, "no memory to list their calls");
    free(calls);
    return ax_raise_differ(c, text);
}

/* The error of `rank` becomes mine. */
static accel_status_t take_verdict(const accel_comm_t *c, int status, int rank,
                                   const char *text)
{
    char who[96];

    if (rank == c->rank) /* my own record is still there, and better */
        return (accel_status_t)status;
    return ax_fail((accel_status_t)status, "%s: %.*s",
                   ax_who(c, rank, who, sizeof who), AX_SEG_TEXT, text);
}

static accel_status_t meet_node(accel_comm_t *c)
{
    int worst;

    if (!compare(c, &worst))
        return raise_differ(c);
    if (worst < 0)
        return ACCEL_OK;
    return take_verdict(c, ax_call_of(c, worst).status, ax_rank_here(c, worst),
                        text_of(c, worst));
}

static accel_status_t meet_nodes(accel_comm_t *c)
{
    const ax_verdict_t *verdict = &c->seg->head->verdict;
    ax_verdict_t mine = {.rank = -1};
    accel_status_t st;
    int worst;
    bool same = compare(c, &worst);

    if (ax_is_leader(c)) {
        ax_call_t good = first_good(c);
        if (worst >= 0) {
            mine.status = ax_call_of(c, worst).status;
            mine.rank = ax_rank_here(c, worst);
            memcpy(mine.text, text_of(c, worst), sizeof mine.text);
        }
        st = ax_inter_meet(c, &good, !same, &mine);
        if (st != ACCEL_OK)
            return st;
    }
    if ((st = ax_node_release(c)) != ACCEL_OK)
        return st;
    if (verdict->status == ACCEL_OK)
        return ACCEL_OK;
    return take_verdict(c, verdict->status, verdict->rank, verdict->text);
}

/* My arguments were refused; the record of it outlives the wait. */
static accel_status_t enter_refused(accel_comm_t *c)
{
    accel_error_t record;

    ax_error_get(&record);
    accel_status_t st = ax_node_entered(c);
    if (st == ACCEL_OK)
        ax_error_set(&record);
    return st;
}

/* A rank that cannot go on need not know how many slots the others would have
 * used: refused on all, nobody uses any, and all count from the beginning. */
static accel_status_t settled(accel_comm_t *c, accel_status_t st)
{
    if (st != ACCEL_OK)
        c->turn = 0;
    return st;
}

void ax_announce(accel_comm_t *c, accel_status_t mine, const void *data,
                 size_t bytes)
{
    c->call.seq = ++c->seq;
    c->call.status = mine;
    c->call.where = (uint8_t)c->where;
    if (ax_signs)
        ax_sign(&c->call, c->signs);
    publish(c, data, bytes);
}

/* All have left the call before: nobody reads my next card. */
static void claim_next(const accel_comm_t *c, size_t bytes)
{
    const ax_card_t *next = &ax_line(c->seg, c->local_rank)->card[~c->seq & 1];

    ax_claim(next);
    if (bytes > AX_SEG_NEAR)
        ax_claim(next->far);
}

accel_status_t ax_join(accel_comm_t *c, size_t bytes)
{
    accel_status_t st =
        c->call.status == ACCEL_OK ? ax_node_entered(c) : enter_refused(c);

    if (st != ACCEL_OK)
        return st;
    claim_next(c, bytes);
    if (c->nodes > 1)
        return settled(c, meet_nodes(c));
    c->any_named = c->all_named = 0;
    return all_plain(c) ? ACCEL_OK : settled(c, meet_node(c));
}

accel_status_t ax_enter_with(accel_comm_t *c, accel_status_t mine,
                             const void *data, size_t bytes)
{
    ax_announce(c, mine, data, bytes);
    return ax_join(c, bytes);
}

accel_status_t ax_enter(accel_comm_t *c, accel_status_t mine)
{
    return ax_enter_with(c, mine, NULL, 0);
}
