/* Messages from rank to rank: what is sent meets what is wanted. */
#include "comm/op.h"
#include "comm/pair_priv.h"

#include <stdlib.h>
#include <string.h>

/* Why a message does not do for a receive; as both ranks say it. */
static void tell_misfit(const accel_comm_t *c, const ax_message_t *sent,
                        const ax_message_t *wanted, char *text, size_t room)
{
    char from[96], to[96];

    text[0] = '\0';
    ax_append(text, room,
              "comm: %s sends %llu x %s with tag %d, and %s receives %s%llu x "
              "%s with that tag",
              ax_who(c, sent->peer, from, sizeof from),
              (unsigned long long)sent->count,
              accel_dtype_name((accel_dtype_t)sent->dtype), sent->tag,
              ax_who(c, c->rank, to, sizeof to),
              sent->dtype == wanted->dtype ? "only " : "",
              (unsigned long long)wanted->count,
              accel_dtype_name((accel_dtype_t)wanted->dtype));
}

static bool fits(const ax_message_t *sent, const ax_message_t *wanted)
{
    return sent->dtype == wanted->dtype && sent->bytes <= wanted->bytes;
}

/* ---- the list of what comes -------------------------------------------------
 */

bool ax_pair_announce(accel_comm_t *c, const ax_message_t *what,
                      uint64_t number, bool near, const char *data)
{
    ax_inbound_t *in = calloc(1, sizeof *in);
    ax_inbound_t **last = &c->pairs->first;

    if (in && data)
        in->data = malloc(what->bytes ? what->bytes : 1);
    if (!in || (data && !in->data)) {
        free(in);
        return false;
    }
    in->what = *what;
    in->number = number;
    in->near = near;
    if (data)
        memcpy(in->data, data, what->bytes);
    while (*last)
        last = &(*last)->next;
    *last = in;
    return true;
}

static void forget(accel_comm_t *c, ax_inbound_t *in)
{
    for (ax_inbound_t **at = &c->pairs->first; *at; at = &(*at)->next)
        if (*at == in) {
            *at = in->next;
            break;
        }
    if (in->held) {
        c->pairs->held -= in->what.bytes;
        free(in->to);
    }
    free(in->data);
    free(in);
}

static ax_inbound_t *find(const accel_comm_t *c, const ax_message_t *wanted)
{
    for (ax_inbound_t *in = c->pairs->first; in; in = in->next)
        if (in->what.peer == wanted->peer && in->what.tag == wanted->tag)
            return in;
    return NULL;
}

static accel_status_t see_posts(accel_comm_t *c)
{
    ax_pairs_t *p = c->pairs;

    for (int r = 0; r < c->local_size; r++) {
        ax_post_t *post = &c->seg->posts[r];
        uint64_t sent = atomic_load_explicit(&post->sent, memory_order_acquire);
        if (r == c->local_rank || sent == p->seen[r])
            continue;
        p->seen[r] = sent;
        if (AX_POST_DEST(sent) != c->local_rank)
            continue;
        ax_message_t what = {ax_rank_here(c, r), post->tag, post->dtype,
                             post->count, post->bytes};
        if (!ax_pair_announce(c, &what, sent, true, NULL))
            return ax_raise(c, ACCEL_ERR_NOMEM,
                            "comm: rank %d has no memory for a message",
                            ax_named(c, c->rank));
    }
    return ACCEL_OK;
}

/* ---- inside the node --------------------------------------------------------
 */

static void post_begin(accel_comm_t *c)
{
    ax_outbound_t *out = &c->pairs->out;
    ax_post_t *post = &c->seg->posts[c->local_rank];

    post->tag = out->what.tag;
    post->dtype = out->what.dtype;
    post->count = out->what.count;
    post->bytes = out->what.bytes;
    atomic_store_explicit(&post->filled, 0, memory_order_relaxed);
    atomic_store_explicit(&post->taken, 0, memory_order_relaxed);
    out->number = AX_POST(AX_POST_NUMBER(atomic_load_explicit(
                              &post->sent, memory_order_relaxed)) +
                              1,
                          ax_local_of(c, out->what.peer));
    atomic_store_explicit(&post->sent, out->number, memory_order_release);
    ax_bell_ring(c->seg);
}

/* Bytes from `at` on that lie together in the ring, of at most `most`. */
static size_t together(uint64_t at, size_t most)
{
    size_t left = AX_POST_ROOM - (size_t)(at % AX_POST_ROOM);

    return most < left ? most : left;
}

static bool post_more(accel_comm_t *c)
{
    ax_outbound_t *out = &c->pairs->out;
    ax_post_t *post = &c->seg->posts[c->local_rank];
    uint64_t taken, put = out->put;

    if (atomic_load_explicit(&post->answered, memory_order_acquire) ==
        out->number) {
        out->answer.status = post->status;
        memcpy(out->answer.text, post->text, sizeof out->answer.text);
        out->done = true;
        return true;
    }
    taken = atomic_load_explicit(&post->taken, memory_order_acquire);
    size_t free_room = AX_POST_ROOM - (size_t)(put - taken);
    size_t n = out->what.bytes - put < free_room
                   ? (size_t)(out->what.bytes - put)
                   : free_room;
    n = together(put, n);
    if (n == 0)
        return false;
    memcpy(post->room + put % AX_POST_ROOM, out->from + put, n);
    out->put += n;
    atomic_store_explicit(&post->filled, out->put, memory_order_release);
    ax_bell_ring(c->seg);
    return true;
}

static void post_answer(accel_comm_t *c, ax_inbound_t *in)
{
    ax_post_t *post = &c->seg->posts[ax_local_of(c, in->what.peer)];

    post->status = in->answer.status;
    memcpy(post->text, in->answer.text, sizeof post->text);
    atomic_store_explicit(&post->answered, in->number, memory_order_release);
    ax_bell_ring(c->seg);
    in->done = true;
}

static bool post_take(accel_comm_t *c, ax_inbound_t *in)
{
    ax_post_t *post = &c->seg->posts[ax_local_of(c, in->what.peer)];
    uint64_t filled = atomic_load_explicit(&post->filled, memory_order_acquire);
    size_t n = together(in->got, (size_t)(filled - in->got));

    if (n) {
        memcpy(in->to + in->got, post->room + in->got % AX_POST_ROOM, n);
        in->got += n;
        atomic_store_explicit(&post->taken, in->got, memory_order_release);
        ax_bell_ring(c->seg);
    }
    if (in->got == in->what.bytes)
        post_answer(c, in);
    return n > 0 || in->done;
}

/* ---- receiving --------------------------------------------------------------
 */

static accel_status_t start(accel_comm_t *c, ax_inbound_t *in, char *to)
{
    in->to = to;
    in->started = true;
    return in->near ? ACCEL_OK : ax_letter_take(c, in);
}

/* What nobody has asked for yet is held, if there is room. */
static accel_status_t hold(accel_comm_t *c, ax_inbound_t *in)
{
    char *to = NULL;

    if (c->pairs->held < AX_PAIR_HELD &&
        in->what.bytes <= AX_PAIR_HELD - c->pairs->held)
        to = malloc(in->what.bytes ? (size_t)in->what.bytes : 1);
    if (!to)
        return ACCEL_OK; /* it waits until it is wanted */
    in->held = true;
    c->pairs->held += in->what.bytes;
    return start(c, in, to);
}

static accel_status_t refuse(accel_comm_t *c, ax_inbound_t *in,
                             const char *text)
{
    in->started = true;
    in->answer.status = ACCEL_ERR_PROTO;
    memcpy(in->answer.text, text, sizeof in->answer.text);
    if (in->near)
        post_answer(c, in);
    return in->near ? ACCEL_OK : ax_letter_refuse(c, in);
}

/* The message meets its receive. */
static accel_status_t meet(accel_comm_t *c, ax_inbound_t *in,
                           const ax_message_t *wanted, char *to)
{
    char text[AX_SEG_TEXT] = "";

    if (fits(&in->what, wanted))
        return in->started ? ACCEL_OK : start(c, in, to);
    tell_misfit(c, &in->what, wanted, text, sizeof text);
    /* its sender has gone on, so it hears of it by a fault */
    if (in->started)
        return ax_raise(c, ACCEL_ERR_PROTO, "%s", text);
    return refuse(c, in, text);
}

/* Hears, begins and goes on with all that comes. *moved: something did. */
static accel_status_t take_in(accel_comm_t *c, const ax_message_t *wanted,
                              ax_inbound_t *mine, bool *moved)
{
    accel_status_t st = see_posts(c);

    if (st == ACCEL_OK && c->inter)
        st = ax_letters_hear(c);
    for (ax_inbound_t *in = c->pairs->first; in && st == ACCEL_OK;
         in = in->next) {
        bool other = in != mine && (!wanted || mine || in != find(c, wanted));
        if (!in->started && other)
            st = hold(c, in);
        if (!in->started || in->done || st != ACCEL_OK)
            continue;
        if (in->near)
            *moved = post_take(c, in) || *moved;
        else
            st = ax_letter_taking(c, in);
        *moved = *moved || in->done;
    }
    return st;
}

/* ---- a call -----------------------------------------------------------------
 */

typedef struct exchange {
    const ax_message_t *send, *recv; /* or NULL */
    char *to;
    ax_inbound_t *in; /* the one that was wanted */
} exchange_t;

static bool is_done(const accel_comm_t *c, const exchange_t *e)
{
    return (!e->send || c->pairs->out.done) &&
           (!e->recv || (e->in && e->in->done));
}

static accel_status_t step(accel_comm_t *c, exchange_t *e, bool *moved)
{
    ax_outbound_t *out = &c->pairs->out;
    accel_status_t st = take_in(c, e->recv, e->in, moved);

    if (st == ACCEL_OK && e->recv && !e->in && (e->in = find(c, e->recv))) {
        st = meet(c, e->in, e->recv, e->to);
        *moved = true;
    }
    if (st != ACCEL_OK || !e->send || out->done)
        return st;
    if (out->near) {
        *moved = post_more(c) || *moved;
        return ACCEL_OK;
    }
    st = ax_letter_more(c);
    *moved = *moved || out->done;
    return st;
}

static accel_status_t run(accel_comm_t *c, exchange_t *e)
{
    int ranks[AX_WAIT_RANKS];
    ax_wait_t wait = {.ranks = ranks};
    accel_status_t st = ACCEL_OK;

    while (st == ACCEL_OK) {
        bool moved = false;
        if ((st = step(c, e, &moved)) != ACCEL_OK || is_done(c, e))
            break;
        if (moved)
            wait = (ax_wait_t){.ranks = ranks};
        ranks[0] = e->send && !c->pairs->out.done ? e->send->peer : -1;
        ranks[1] = e->recv && !(e->in && e->in->done) ? e->recv->peer : -1;
        st = ax_wait_more(c, &wait);
    }
    /* it came, but its sender may have given up since */
    return st == ACCEL_OK && ax_fault_there(c) ? ax_raise_seen(c) : st;
}

/* A message to oneself is held at once; the receive finds it. */
static accel_status_t send_to_self(accel_comm_t *c, const ax_message_t *what,
                                   const char *data)
{
    if (!ax_pair_announce(c, what, 0, true, what->bytes ? data : ""))
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %llu bytes",
                       (unsigned long long)what->bytes);
    ax_inbound_t *in = c->pairs->first;
    while (in->next)
        in = in->next;
    in->to = in->data;
    in->data = NULL;
    in->started = in->done = in->held = true;
    c->pairs->held += what->bytes;
    return ACCEL_OK;
}

static accel_status_t begin_send(accel_comm_t *c, const ax_message_t *what,
                                 const char *data)
{
    ax_outbound_t *out = &c->pairs->out;

    *out = (ax_outbound_t){.what = *what,
                           .from = data,
                           .near = ax_node_of(c, what->peer) == c->node};
    if (what->peer == c->rank) {
        out->done = true;
        return send_to_self(c, what, data);
    }
    if (!out->near)
        return ax_letter_send(c);
    post_begin(c);
    return ACCEL_OK;
}

/* The message that was wanted is here, or was refused. */
static accel_status_t end_receive(accel_comm_t *c, exchange_t *e)
{
    ax_inbound_t *in = e->in;
    accel_status_t st = ACCEL_OK;

    if (in->answer.status != ACCEL_OK)
        st = ax_fail((accel_status_t)in->answer.status, "%s", in->answer.text);
    else if (in->held && in->what.bytes)
        memcpy(e->to, in->to, (size_t)in->what.bytes);
    forget(c, in);
    return st;
}

static accel_status_t end_send(accel_comm_t *c)
{
    const ax_answer_t *answer = &c->pairs->out.answer;

    if (answer->status == ACCEL_OK)
        return ACCEL_OK;
    return ax_fail((accel_status_t)answer->status, "%s", answer->text);
}

static accel_status_t exchange(accel_comm_t *c, exchange_t *e, const char *from)
{
    bool both = e->send && e->recv && e->send->peer == e->recv->peer &&
                e->send->tag == e->recv->tag;
    accel_status_t st;

    if (e->recv && e->recv->peer == c->rank && !both && !find(c, e->recv))
        return ax_fail(ACCEL_ERR_ARG,
                       "comm: rank %d receives from itself, but has sent "
                       "itself nothing with tag %d: it would wait for ever",
                       ax_named(c, c->rank), e->recv->tag);
    if (e->send && (st = begin_send(c, e->send, from)) != ACCEL_OK)
        return st;
    if ((st = run(c, e)) != ACCEL_OK) {
        if (c->inter)
            ax_letters_cancel(c);
        return st;
    }
    if (c->inter)
        ax_inter_settle(c);
    accel_status_t got = e->recv ? end_receive(c, e) : ACCEL_OK;
    return got == ACCEL_OK && e->send ? end_send(c) : got;
}

/* ---- the public calls -------------------------------------------------------
 */

static accel_status_t make_pairs(accel_comm_t *c)
{
    ax_pairs_t *p = calloc(1, sizeof *p);

    if (p) {
        p->seen = calloc((size_t)c->local_size, sizeof *p->seen);
        p->left = calloc((size_t)c->size, sizeof *p->left);
    }
    if (!p || !p->seen || !p->left) {
        if (p)
            free(p->seen);
        free(p);
        return ax_raise(c, ACCEL_ERR_NOMEM,
                        "comm: rank %d has no memory for messages",
                        ax_named(c, c->rank));
    }
    c->pairs = p;
    return ACCEL_OK;
}

static accel_status_t check(const accel_comm_t *c, const char *what,
                            const void *data, ax_message_t *m)
{
    accel_dtype_t dtype = (accel_dtype_t)m->dtype;
    accel_status_t st = ax_check_count(c, (size_t)m->count, dtype, false);

    if (st != ACCEL_OK)
        return st;
    if (m->peer < 0 || m->peer >= c->size)
        return ax_fail(ACCEL_ERR_ARG, "comm: %s %d is not in [0, %d)", what,
                       m->peer, c->size);
    if (m->tag < 0)
        return ax_fail(ACCEL_ERR_ARG, "comm: tag %d; tags are 0 and above",
                       m->tag);
    m->bytes = m->count * accel_dtype_size(dtype);
    if (m->bytes && !data)
        return ax_fail(ACCEL_ERR_ARG, "comm: %llu x %s at NULL",
                       (unsigned long long)m->count, accel_dtype_name(dtype));
    return ACCEL_OK;
}

/* Collectives are numbered, messages are not: they lie between the last and
 * the next, and a fault in one does not end the last for those still in it. */
static accel_status_t call(accel_comm_t *c, ax_call_kind_t kind, exchange_t *e,
                           const char *from)
{
    _Atomic uint32_t *busy = &ax_line(c->seg, c->local_rank)->pair;
    ax_call_t before = c->call;
    accel_status_t st = c->pairs ? ACCEL_OK : make_pairs(c);

    if (st != ACCEL_OK)
        return st;
    c->call.kind = (uint8_t)kind;
    c->call.seq = c->seq + 1;
    atomic_store_explicit(busy, kind, memory_order_release);
    st = exchange(c, e, from);
    c->call = before;
    if (!c->failed)
        atomic_store_explicit(busy, 0, memory_order_release);
    return st;
}

accel_status_t ax_do_send(accel_comm_t *c, const ax_op_t *op)
{
    const accel_outgoing_t *s = &op->going;
    ax_message_t what = {s->dest, s->tag, (uint32_t)s->dtype, s->count, 0};
    exchange_t e = {.send = &what};
    accel_status_t st = check(c, "destination", s->data, &what);

    return st == ACCEL_OK ? call(c, AX_CALL_SEND, &e, s->data) : st;
}

accel_status_t ax_do_recv(accel_comm_t *c, const ax_op_t *op)
{
    const accel_incoming_t *r = &op->coming;
    ax_message_t what = {r->source, r->tag, (uint32_t)r->dtype, r->count, 0};
    exchange_t e = {.recv = &what, .to = r->data};
    accel_status_t st = check(c, "source", r->data, &what);

    return st == ACCEL_OK ? call(c, AX_CALL_RECV, &e, NULL) : st;
}

accel_status_t ax_do_sendrecv(accel_comm_t *c, const ax_op_t *op)
{
    const accel_outgoing_t *s = &op->going;
    const accel_incoming_t *r = &op->coming;
    ax_message_t out = {s->dest, s->tag, (uint32_t)s->dtype, s->count, 0};
    ax_message_t in = {r->source, r->tag, (uint32_t)r->dtype, r->count, 0};
    exchange_t e = {.send = &out, .recv = &in, .to = r->data};
    accel_status_t st = check(c, "destination", s->data, &out);

    if (st == ACCEL_OK)
        st = check(c, "source", r->data, &in);
    if (st == ACCEL_OK)
        st = ax_check_buffers(s->data, (size_t)out.bytes, r->data,
                              (size_t)in.bytes, NULL);
    return st == ACCEL_OK ? call(c, AX_CALL_SENDRECV, &e, s->data) : st;
}

/* ---- for the others ---------------------------------------------------------
 */

void ax_pairs_fini(accel_comm_t *c)
{
    ax_pairs_t *p = c->pairs;

    if (!p)
        return;
    while (p->first)
        forget(c, p->first);
    free(p->seen);
    free(p->left);
    free(p);
    c->pairs = NULL;
}

/* Is there something to do inside the node? */
static bool has_news(const accel_comm_t *c, bool sends)
{
    const ax_pairs_t *p = c->pairs;
    const ax_post_t *mine = &c->seg->posts[c->local_rank];

    for (int r = 0; r < c->local_size; r++)
        if (r != c->local_rank &&
            atomic_load_explicit(&c->seg->posts[r].sent,
                                 memory_order_acquire) != p->seen[r])
            return true;
    for (const ax_inbound_t *in = p->first; in; in = in->next)
        if (in->near && in->started && !in->done &&
            atomic_load_explicit(
                &c->seg->posts[ax_local_of(c, in->what.peer)].filled,
                memory_order_acquire) != in->got)
            return true;
    if (!sends || !p->out.near || p->out.done)
        return false;
    return atomic_load_explicit(&mine->answered, memory_order_acquire) ==
               p->out.number ||
           (p->out.put < p->out.what.bytes &&
            p->out.put -
                    atomic_load_explicit(&mine->taken, memory_order_acquire) <
                AX_POST_ROOM);
}

bool ax_pairs_await(const accel_comm_t *c, const ax_wait_t *wait, int rank)
{
    if (wait->ranks[0] != rank && wait->ranks[1] != rank)
        return false;
    return !has_news(c, wait->ranks[0] >= 0);
}

bool ax_pairs_has_left(const accel_comm_t *c, int rank)
{
    return c->pairs && c->pairs->left[rank];
}

void ax_pairs_late(const accel_comm_t *c, const ax_wait_t *wait, char *text,
                   size_t room)
{
    char who[96], last[64];
    int shown = 0;

    for (int i = 0; i < AX_WAIT_RANKS; i++) {
        int rank = wait->ranks[i];
        if (rank < 0 || (i > 0 && rank == wait->ranks[0]))
            continue;
        ax_append(text, room, "%s%s", shown++ ? ", " : "",
                  ax_who(c, rank, who, sizeof who));
        if (ax_node_of(c, rank) != c->node)
            continue;
        ax_line_t *line = ax_line(c->seg, ax_local_of(c, rank));
        ax_append(text, room, " (last: %s)",
                  ax_last_text(ax_line_last(line), last, sizeof last));
    }
}
