/*
 * News among the leaders, so that whoever waits learns at once why it waits
 * in vain, and all name the same rank. A leader tells before it returns the
 * error: its own end must not be taken for the cause. So do the other ranks
 * that carry data, to those that they carry it to: the leader may be dead.
 */
#include "comm/inter_priv.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MS 1000000u
#define SAY_NS (500 * MS)     /* how often a waiting leader says so */
#define EXPLAIN_NS (200 * MS) /* for news that explain a broken way */
#define GRACE_NS (1000 * MS)  /* for messages of one that has left */
#define TELL_NS (2000 * MS)
#define STALE_NS (3000 * MS) /* who says so seldom does not wait any more */

accel_status_t ax_news_listen(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    uint64_t tag = ax_inter_tag(x, AX_TAG_NEWS, 0, 0);
    uint64_t any = ax_inter_tag(x, AX_TAG_NEWS, 0xfffff, 0xffffff) ^ tag;
    accel_status_t st = x->net->ops->recv(x->net->self, tag, ~any, &x->in,
                                          sizeof x->in, &x->in_req);

    x->listening = st == ACCEL_OK;
    return st;
}

static size_t news_bytes(const ax_news_t *news)
{
    return news->kind == AX_NEWS_FAULT ? sizeof *news
                                       : offsetof(ax_news_t, text);
}

static bool still_sending(ax_inter_t *x, int k)
{
    ax_peer_t *peer = &x->peers[k];

    if (peer->sending && x->net->ops->test(x->net->self, &peer->sent))
        peer->sending = false;
    return peer->sending;
}

/* Best effort: who cannot be reached will find out by itself. */
static void say(accel_comm_t *c, int k, const ax_news_t *news)
{
    ax_inter_t *x = c->inter;
    ax_peer_t *peer = &x->peers[k];

    if (still_sending(x, k))
        return;
    peer->news = *news;
    peer->sending =
        x->net->ops->send(x->net->self, ax_rail_rank(c, k),
                          ax_inter_tag(x, AX_TAG_NEWS, news->node, 0),
                          &peer->news, news_bytes(&peer->news),
                          &peer->sent) == ACCEL_OK;
}

static bool reachable(const accel_comm_t *c, int k)
{
    const ax_inter_t *x = c->inter;

    return k != c->node && !x->peers[k].left_ns && !ax_inter_broken(c, k);
}

/* Waits until the last news to each node are on their way. */
static void flush(accel_comm_t *c, uint64_t end)
{
    ax_inter_t *x = c->inter;
    struct timespec nap = {.tv_nsec = 50000};

    for (;;) {
        int busy = 0;
        x->net->ops->progress(x->net->self);
        for (int k = 0; k < x->nodes; k++)
            busy += reachable(c, k) && still_sending(x, k);
        if (!busy || ax_now_ns() > end)
            return;
        nanosleep(&nap, NULL);
    }
}

static void say_to_all(accel_comm_t *c, const ax_news_t *news)
{
    uint64_t end = ax_now_ns() + TELL_NS;

    flush(c, end);
    for (int k = 0; k < c->nodes; k++)
        if (reachable(c, k))
            say(c, k, news);
    flush(c, end);
}

void ax_inter_tell(accel_comm_t *c, const ax_fault_t *fault)
{
    ax_inter_t *x = c->inter;
    ax_news_t news = {.kind = AX_NEWS_FAULT,
                      .node = c->node,
                      .status = fault->status,
                      .last = AX_LAST(c->call.kind, fault->seq)};

    if (x->told || c->local_rank >= c->rails)
        return;
    x->told = true;
    memcpy(news.text, fault->text, sizeof news.text);
    say_to_all(c, &news);
}

void ax_news_left(accel_comm_t *c)
{
    ax_news_t news = {.kind = AX_NEWS_LEFT,
                      .node = c->node,
                      .rank = c->rank,
                      .last = AX_LAST(c->call.kind, c->call.seq)};

    if (!c->inter->told)
        say_to_all(c, &news);
}

/* Whom node k waits for, when it has said so lately: a rank, or -1. */
static int its_reason(const accel_comm_t *c, int k, uint64_t now)
{
    const ax_peer_t *peer = &c->inter->peers[k];
    bool fresh = peer->waits_ns && now - peer->waits_ns < STALE_NS;

    return fresh && peer->waits_for < c->size ? peer->waits_for : -1;
}

/*
 * The rank to blame for what node k does not send: one it waits for itself,
 * perhaps on a third node. -1 when that is one of ours: k is not the cause.
 */
static int blame(const accel_comm_t *c, int k, uint64_t *last)
{
    const ax_peer_t *peer = &c->inter->peers[k];
    int rank = its_reason(c, k, ax_now_ns());

    *last = rank < 0 ? peer->last : peer->waits_last;
    if (rank < 0)
        return ax_rail_rank(c, k);
    return ax_node_of(c, rank) == c->node ? -1 : rank;
}

/* Tells the others that this node waits, and for whom. */
static void say_waiting(accel_comm_t *c, ax_wait_t *wait, uint64_t now)
{
    ax_news_t news = {.kind = AX_NEWS_WAITING,
                      .node = c->node,
                      .rank = -1,
                      .last = AX_LAST(c->call.kind, c->call.seq)};

    wait->said_ns = now;
    for (int r = c->local_size - 1; r >= 0; r--) {
        if (!ax_awaits(c, wait, r))
            continue;
        news.rank = ax_rank_late(c, r);
        news.rank_last = ax_line_last(ax_line(c->seg, r));
    }
    for (int k = 0; wait->nodes && k < c->nodes && news.rank < 0; k++)
        if (wait->nodes[k])
            news.rank = blame(c, k, &news.rank_last);
    for (int k = 0; k < c->nodes; k++)
        if (reachable(c, k))
            say(c, k, &news);
}

/* ---- hearing ---------------------------------------------------------------
 */

static accel_status_t hear(accel_comm_t *c, const ax_news_t *news)
{
    ax_inter_t *x = c->inter;
    char text[AX_SEG_TEXT];

    if (news->node < 0 || news->node >= c->nodes)
        return ACCEL_OK;
    ax_peer_t *peer = &x->peers[news->node];
    if (news->kind == AX_NEWS_FAULT) {
        snprintf(text, sizeof text, "%.*s", AX_SEG_TEXT, news->text);
        x->told = true; /* who found it tells all */
        (void)ax_fault_note(c, (accel_status_t)news->status,
                            AX_LAST_SEQ(news->last), text);
        return ax_fault_there(c) ? ax_raise_seen(c) : ACCEL_OK;
    }
    if (news->kind == AX_NEWS_LEFT) {
        peer->left_ns = ax_now_ns();
        return ACCEL_OK;
    }
    peer->waits_for = news->rank < c->size ? news->rank : -1;
    peer->waits_last = news->rank_last;
    peer->waits_ns = ax_now_ns();
    if (peer->waits_for < 0 || ax_node_of(c, peer->waits_for) != news->node)
        peer->last = news->last; /* all of its own have come */
    return ACCEL_OK;
}

static accel_status_t hear_all(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    accel_status_t st = ACCEL_OK;

    while (x->listening && x->net->ops->test(x->net->self, &x->in_req)) {
        ax_net_req_t got = x->in_req;
        ax_news_t news = x->in;
        if (ax_news_listen(c) != ACCEL_OK)
            x->listening = false;
        if (got.status == ACCEL_OK && got.bytes >= offsetof(ax_news_t, text) &&
            got.bytes >= news_bytes(&news))
            st = hear(c, &news);
        if (st != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

/* Of those that went without a word the first, which may be `rank`: who went
 * later may have ended because of it. */
static int first_gone(const accel_comm_t *c, int rank)
{
    const ax_inter_t *x = c->inter;
    const ax_net_t *net = x->net;
    int first = ax_net_order(net, rank);

    for (int k = 0; k < x->nodes && c->local_rank < c->rails; k++) {
        int other = ax_rail_rank(c, k);
        int order =
            k == c->node || x->peers[k].left_ns ? 0 : ax_net_order(net, other);
        if (order && order < first) {
            first = order;
            rank = other;
        }
    }
    return rank;
}

/*
 * Is the way to node k broken, or has it left? Its messages may come after
 * the news that it leaves, and another leader may yet explain why a way
 * broke, so each gets some time.
 */
static accel_status_t look_at_peer(accel_comm_t *c, const ax_wait_t *wait,
                                   int k, uint64_t now)
{
    ax_peer_t *peer = &c->inter->peers[k];
    const char *broken = ax_inter_broken(c, k);
    bool awaited = wait->nodes && wait->nodes[k];
    int leader = ax_rail_rank(c, k);
    char who[96];

    if (broken && !peer->failed_ns) {
        peer->failed_ns = now;
        ax_log(AX_LOG_DEBUG, "comm: the connection to %s: %s",
               ax_who(c, leader, who, sizeof who), broken);
    }
    if (peer->left_ns) {
        uint64_t since = peer->left_ns;
        if (!awaited || now - since < GRACE_NS)
            return ACCEL_OK;
        return ax_raise_left(c, leader);
    }
    if (!broken || now - peer->failed_ns < (awaited ? EXPLAIN_NS : GRACE_NS))
        return ACCEL_OK;
    /* No transport can tell the one from the other, and none says why. */
    return ax_raise_gone(
        c, first_gone(c, leader),
        "the connection to it was lost: it died, or its node did");
}

/* Whom a message from rank to rank goes to or comes from. */
static accel_status_t look_at_ranks(accel_comm_t *c, ax_wait_t *wait,
                                    uint64_t now)
{
    const ax_net_t *net = c->inter->net;

    for (int i = 0; i < AX_WAIT_RANKS; i++) {
        int rank = wait->ranks[i];
        if (rank < 0 || ax_node_of(c, rank) == c->node)
            continue;
        if (ax_pairs_has_left(c, rank))
            return ax_raise_left(c, rank);
        if (!net->ops->failed(net->self, rank))
            continue;
        if (!wait->broken_ns)
            wait->broken_ns = now;
        /* what explains it may come behind a long message */
        uint64_t quiet =
            wait->moved_ns > wait->broken_ns ? wait->moved_ns : wait->broken_ns;
        if (now - quiet >= EXPLAIN_NS || now - wait->broken_ns >= TELL_NS)
            return ax_raise_gone(c, first_gone(c, rank),
                                 "the connection to it was lost: it died or "
                                 "closed, or its node did");
    }
    return ACCEL_OK;
}

accel_status_t ax_inter_poll(accel_comm_t *c, ax_wait_t *wait, bool slow)
{
    ax_inter_t *x = c->inter;
    accel_status_t st;

    /* a wait inside the node goes on without the transport, which costs a
     * system call: only now and then, for what is still on its way */
    if (!ax_is_leader(c) && wait && !wait->nodes && !wait->ranks && !slow &&
        !x->flying)
        return ACCEL_AGAIN;
    bool moved = x->net->ops->progress(x->net->self);
    if (moved && wait && wait->broken_ns)
        wait->moved_ns = ax_now_ns();
    if (x->flying && wait && !wait->nodes) /* a wait inside the node */
        ax_exec_poll(c);
    st = hear_all(c);

    if (st != ACCEL_OK)
        return st;
    if (!slow)
        return moved ? ACCEL_OK : ACCEL_AGAIN;
    uint64_t now = ax_now_ns();
    if (wait->ranks && (st = look_at_ranks(c, wait, now)) != ACCEL_OK)
        return st;
    for (int k = 0; k < c->nodes && c->local_rank < c->rails; k++)
        if (k != c->node && (st = look_at_peer(c, wait, k, now)) != ACCEL_OK)
            return st;
    if (ax_is_leader(c) && wait->began_ns && now - wait->began_ns > SAY_NS &&
        now - wait->said_ns > SAY_NS)
        say_waiting(c, wait, now);
    return moved ? ACCEL_OK : ACCEL_AGAIN;
}

/* ---- what is known, for texts
 * -------------------------------------------------
 */

uint64_t ax_inter_last(const accel_comm_t *c, int node)
{
    return c->inter->peers[node].last;
}

/* Node k has entered this call: all heads are in, or its head is. */
static bool has_come(const accel_comm_t *c, int k)
{
    const ax_inter_t *x = c->inter;
    const ax_move_t *m = x->moves;

    if (x->peers[k].last == AX_LAST(c->call.kind, c->call.seq))
        return true;
    for (int i = 0; i < x->nmoves; i++, m++)
        if (m->recv && m->node == k && m->data == &x->heads[k])
            return m->req.done && m->req.status == ACCEL_OK &&
                   ax_same_call(&x->heads[k].call, &c->call);
    return false;
}

void ax_inter_waiting(const accel_comm_t *c, bool *flags)
{
    for (int k = 0; k < c->nodes; k++) {
        if (k == c->node || !has_come(c, k))
            continue;
        for (int p = c->node_first[k]; p < c->node_first[k + 1]; p++)
            if (ax_named(c, c->rank_at[p]) < AX_RANKS_SHOWN)
                flags[ax_named(c, c->rank_at[p])] = true;
    }
}

void ax_inter_late(const accel_comm_t *c, const ax_wait_t *wait, char *text,
                   size_t room)
{
    char who[96], last[64];
    int shown = 0, first = -1;

    /* those that wait for us are named only when there are no others */
    for (int all = 0; all < 2 && first < 0; all++)
        for (int k = 0; k < c->nodes; k++) {
            uint64_t its_last;
            int rank = wait->nodes[k] ? blame(c, k, &its_last) : -1;
            if (wait->nodes[k] && rank < 0 && all) {
                rank = ax_rail_rank(c, k);
                its_last = c->inter->peers[k].last;
            }
            if (rank < 0 || rank == first)
                continue;
            first = first < 0 ? rank : first;
            if (shown++ < 3)
                ax_append(text, room, "%s%s", shown > 1 ? ", " : "",
                          ax_who(c, rank, who, sizeof who));
            /* leaders hear of all calls, others only of those that wait */
            if (shown <= 3 && (its_last || ax_is_leader(c)))
                ax_append(text, room, " (last: %s)",
                          ax_last_text(its_last, last, sizeof last));
        }
    if (shown > 3)
        ax_append(text, room, " and %d more nodes", shown - 3);
}
