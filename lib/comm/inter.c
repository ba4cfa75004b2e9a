/* Between the leaders: every pair exchanges directly; sums in node order. */
#include "comm/inter_priv.h"

#include <stdlib.h>
#include <string.h>

/* Up to so many bytes every leader gets all node sums and adds them itself. */
#define INTER_SMALL (16u << 10)
#define CLOSE_NS 2000000000u

uint64_t ax_inter_tag(const ax_inter_t *x, bool news, int node, uint32_t step)
{
    return x->nonce << 48 | (uint64_t)news << 44 |
           ((uint64_t)node & 0xfffff) << 24 | (step & 0xffffff);
}

/* ---- messages ---------------------------------------------------------------
 */

static void add_move(ax_inter_t *x, bool recv, int node, void *data,
                     size_t bytes)
{
    if (bytes)
        x->moves[x->nmoves++] = (ax_move_t){.node = node,
                                            .recv = recv,
                                            .data = data,
                                            .bytes = bytes,
                                            .least = bytes};
}

static accel_status_t start_moves(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    const ax_net_ops_t *ops = x->net->ops;
    accel_status_t st = ACCEL_OK;

    /* receives first, so that nothing arrives unexpected */
    for (int i = 0; i < x->nmoves && st == ACCEL_OK; i++) {
        ax_move_t *m = &x->moves[i];
        if (m->recv)
            st = ops->recv(x->net->self,
                           ax_inter_tag(x, false, m->node, x->step),
                           ~UINT64_C(0), m->data, m->bytes, &m->req);
    }
    for (int i = 0; i < x->nmoves && st == ACCEL_OK; i++) {
        ax_move_t *m = &x->moves[i];
        if (!m->recv)
            st = ops->send(x->net->self, m->node,
                           ax_inter_tag(x, false, c->node, x->step), m->data,
                           m->bytes, &m->req);
    }
    if (st == ACCEL_OK)
        return st;
    return ax_raise(c, st, c->rank, "%s", accel_last_error()->text);
}

/* What is not done yet. A message that failed stays so: why the way to that
 * node broke is found out while waiting. */
static accel_status_t count_pending(accel_comm_t *c, int *pending)
{
    ax_inter_t *x = c->inter;

    *pending = 0;
    memset(x->awaited, 0, (size_t)x->nodes * sizeof *x->awaited);
    for (int i = 0; i < x->nmoves; i++) {
        ax_move_t *m = &x->moves[i];
        bool done = x->net->ops->test(x->net->self, &m->req);
        if (done && m->req.status == ACCEL_OK &&
            (!m->recv || m->req.bytes >= m->least))
            continue;
        if (done && m->req.status == ACCEL_OK)
            return ax_raise(c, ACCEL_ERR_PROTO, -1,
                            "comm: a message of %zu bytes from node %s, "
                            "expected %zu",
                            m->req.bytes, accel_job_node_name(c->job, m->node),
                            m->least);
        x->awaited[m->node] = true;
        ++*pending;
    }
    return ACCEL_OK;
}

/* Carries out the moves that were added. */
static accel_status_t run_moves(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    ax_wait_t wait = {.nodes = x->awaited};
    int pending = 0;
    accel_status_t st = start_moves(c);

    while (st == ACCEL_OK) {
        st = count_pending(c, &pending);
        if (st != ACCEL_OK || pending == 0)
            break;
        st = ax_wait_more(c, &wait);
    }
    if (st != ACCEL_OK)
        return st; /* the moves are cancelled by ax_inter_close() */
    x->nmoves = 0;
    x->step++;
    return ACCEL_OK;
}

static accel_status_t need_room(accel_comm_t *c, size_t bytes)
{
    ax_inter_t *x = c->inter;

    if (bytes <= x->room_bytes)
        return ACCEL_OK;
    char *more = realloc(x->room, bytes);
    if (!more)
        return ax_raise(c, ACCEL_ERR_NOMEM, c->rank,
                        "comm: rank %d has no memory for %zu bytes", c->rank,
                        bytes);
    x->room = more;
    x->room_bytes = bytes;
    return ACCEL_OK;
}

/* ---- open and close ---------------------------------------------------------
 */

static accel_status_t make_inter(accel_comm_t *c)
{
    size_t n = (size_t)c->nodes;
    ax_inter_t *x = calloc(1, sizeof *x);

    c->inter = x;
    if (!x)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory");
    x->nodes = c->nodes;
    x->peers = calloc(n, sizeof *x->peers);
    x->moves = calloc(2 * n, sizeof *x->moves);
    x->awaited = calloc(n, sizeof *x->awaited);
    x->heads = calloc(n, sizeof *x->heads);
    x->src = calloc(n, sizeof *x->src);
    if (!x->peers || !x->moves || !x->awaited || !x->heads || !x->src)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %zu nodes", n);
    for (size_t k = 0; k < n; k++)
        x->peers[k].waits_for = -1;
    return ACCEL_OK;
}

accel_status_t ax_inter_open(accel_comm_t *c, void *address, size_t room,
                             uint32_t *bytes)
{
    const void *own;
    size_t length;
    accel_status_t st = make_inter(c);

    if (st == ACCEL_OK)
        st = ax_net_open(ax_settings_str(c->settings, "net"), c->nodes,
                         &c->inter->net);
    if (st != ACCEL_OK)
        return st;
    ax_net_t *net = c->inter->net;
    if ((st = net->ops->address(net->self, &own, &length)) != ACCEL_OK)
        return st;
    if (length > room)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "comm: the transport's address has %zu bytes, more "
                       "than the %zu that fit; use fewer devices, as with "
                       "UCX_NET_DEVICES=mlx5_0:1",
                       length, room);
    memcpy(address, own, length);
    *bytes = (uint32_t)length;
    return ACCEL_OK;
}

accel_status_t ax_inter_connect(accel_comm_t *c, int node, const void *address,
                                size_t bytes)
{
    ax_net_t *net = c->inter->net;

    return net->ops->connect(net->self, node, address, bytes);
}

accel_status_t ax_inter_start(accel_comm_t *c, const uint8_t *nonce)
{
    c->inter->nonce = (uint64_t)nonce[0] << 8 | nonce[1];
    return ax_news_listen(c);
}

void ax_inter_settle(accel_comm_t *c)
{
    ax_net_t *net = c->inter->net;

    net->ops->settle(net->self);
}

void ax_inter_close(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;

    if (!x)
        return;
    if (x->net) {
        if (x->listening && c->seg)
            ax_news_left(c);
        for (int i = 0; i < x->nmoves; i++)
            x->net->ops->cancel(x->net->self, &x->moves[i].req);
        for (int k = 0; k < x->nodes; k++)
            if (x->peers[k].sending)
                x->net->ops->cancel(x->net->self, &x->peers[k].sent);
        if (x->listening)
            x->net->ops->cancel(x->net->self, &x->in_req);
        ax_net_close(x->net, CLOSE_NS);
    }
    free(x->peers);
    free(x->moves);
    free(x->awaited);
    free(x->heads);
    free(x->src);
    free(x->room);
    free(x);
    c->inter = NULL;
}

const char *ax_inter_about(const accel_comm_t *c)
{
    return c->inter->net->why;
}

/* ---- comparing calls --------------------------------------------------------
 */

static accel_status_t swap_heads(accel_comm_t *c, bool differ,
                                 const ax_verdict_t *mine)
{
    ax_inter_t *x = c->inter;
    ax_head_t *own = &x->heads[c->node];
    size_t least = offsetof(ax_head_t, text);
    accel_status_t st;

    *own = (ax_head_t){.call = c->call,
                       .status = mine->status,
                       .rank = mine->rank,
                       .differ = differ};
    memcpy(own->text, mine->text, sizeof own->text);
    for (int k = 0; k < c->nodes; k++) {
        if (k == c->node)
            continue;
        add_move(x, true, k, &x->heads[k], sizeof x->heads[k]);
        x->moves[x->nmoves - 1].least = least;
        add_move(x, false, k, own,
                 mine->status == ACCEL_OK ? least : sizeof *own);
    }
    if ((st = run_moves(c)) != ACCEL_OK)
        return st;
    /* they called, but may have given up on us since */
    if ((st = ax_inter_poll(c, NULL, false)) < 0)
        return st;
    for (int k = 0; k < c->nodes; k++) {
        x->peers[k].last = AX_LAST(x->heads[k].call.kind, x->heads[k].call.seq);
        x->peers[k].waits_for = -1;
    }
    return ACCEL_OK;
}

/* Some ranks differ, and all leaders know it: they tell each other the calls
 * of all ranks, and each writes the same text. */
static accel_status_t raise_differ(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    size_t size = (size_t)c->size;
    ax_call_t *at = calloc(size, sizeof *at); /* by position */
    ax_call_t *of = calloc(size, sizeof *of); /* by rank */
    int *ranks = calloc(size, sizeof *ranks);
    char text[AX_SEG_TEXT] = "";
    accel_status_t st = ACCEL_OK;

    if (!at || !of || !ranks)
        goto out;
    for (int r = 0; r < c->local_size; r++)
        at[c->node_first[c->node] + r] =
            ax_line(c->seg, r)->call[c->call.seq & 1];
    for (int k = 0; k < c->nodes; k++) {
        if (k == c->node)
            continue;
        add_move(x, true, k, at + c->node_first[k],
                 (size_t)ax_ranks_on(c, k) * sizeof *at);
        add_move(x, false, k, at + c->node_first[c->node],
                 (size_t)c->local_size * sizeof *at);
    }
    if ((st = run_moves(c)) != ACCEL_OK)
        goto out;
    for (int r = 0; r < c->size; r++) {
        of[r] = at[c->position[r]];
        ranks[r] = r;
    }
    ax_calls_text(c, of, c->size, ranks, text, sizeof text);
out:
    if (st == ACCEL_OK) {
        x->told = true; /* each leader does this */
        st = ax_raise(c, ACCEL_ERR_PROTO, -1, "comm: the ranks disagree: %s",
                      text);
        free(at);
        free(of);
    } /* else messages may still be written there until the close */
    free(ranks);
    return st;
}

accel_status_t ax_inter_meet(accel_comm_t *c, bool differ,
                             const ax_verdict_t *mine)
{
    ax_inter_t *x = c->inter;
    ax_verdict_t *verdict = &c->seg->head->verdict;
    accel_status_t st = swap_heads(c, differ, mine);
    const ax_head_t *worst = NULL;

    if (st != ACCEL_OK)
        return st;
    for (int k = 0; k < c->nodes; k++) {
        const ax_head_t *h = &x->heads[k];
        if (h->differ || !ax_same_call(&h->call, &x->heads[0].call))
            return raise_differ(c);
        if (h->status != ACCEL_OK && (!worst || h->rank < worst->rank))
            worst = h;
    }
    verdict->status = worst ? worst->status : ACCEL_OK;
    verdict->rank = worst ? worst->rank : -1;
    if (worst)
        memcpy(verdict->text, worst->text, sizeof verdict->text);
    return ACCEL_OK;
}

/* ---- data -------------------------------------------------------------------
 */

/* Adds the sums of all nodes, `x->src`, and rounds once. */
static void add_nodes(accel_comm_t *c, const ax_reduction_t *r, char *out,
                      size_t count, char *scratch)
{
    ax_inter_t *x = c->inter;
    const ax_reduce_t how = {r->acc, r->acc, r->op, r->scale};

    if (r->acc == r->dtype) {
        ax_reduce(&how, out, x->src, c->nodes, count);
        return;
    }
    ax_reduce(&how, scratch, x->src, c->nodes, count);
    (void)accel_convert(out, r->dtype, scratch, r->acc, count);
}

static accel_status_t allreduce_small(accel_comm_t *c, const ax_reduction_t *r,
                                      char *acc, char *out, size_t count)
{
    ax_inter_t *x = c->inter;
    size_t bytes = count * r->acc_element;
    accel_status_t st = need_room(c, bytes * ((size_t)c->nodes + 1));

    if (st != ACCEL_OK)
        return st;
    for (int k = 0; k < c->nodes; k++) {
        x->src[k] = k == c->node ? acc : x->room + (size_t)k * bytes;
        if (k == c->node)
            continue;
        add_move(x, true, k, x->room + (size_t)k * bytes, bytes);
        add_move(x, false, k, acc, bytes);
    }
    if ((st = run_moves(c)) != ACCEL_OK)
        return st;
    add_nodes(c, r, out, count, x->room + (size_t)c->nodes * bytes);
    return ACCEL_OK;
}

static accel_status_t reduce_slices(accel_comm_t *c, const ax_reduction_t *r,
                                    char *acc, char *out, size_t count)
{
    ax_inter_t *x = c->inter;
    size_t first, mine, from, length;
    size_t e = r->acc_element;
    accel_status_t st;

    ax_slice(count, e, c->nodes, c->node, &first, &mine);
    st = need_room(c, mine * e * ((size_t)c->nodes + 1));
    if (st != ACCEL_OK)
        return st;
    for (int k = 0; k < c->nodes; k++) {
        char *room = x->room + (size_t)k * mine * e;
        ax_slice(count, e, c->nodes, k, &from, &length);
        x->src[k] = k == c->node ? acc + first * e : room;
        if (k == c->node)
            continue;
        add_move(x, true, k, room, mine * e);
        add_move(x, false, k, acc + from * e, length * e);
    }
    if ((st = run_moves(c)) != ACCEL_OK)
        return st;
    add_nodes(c, r, out + first * r->element, mine,
              x->room + (size_t)c->nodes * mine * e);
    return ACCEL_OK;
}

accel_status_t ax_inter_allreduce(accel_comm_t *c, const ax_reduction_t *r,
                                  void *acc, void *out, size_t count)
{
    ax_inter_t *x = c->inter;
    size_t from, length, first, mine;
    accel_status_t st;

    if (count * r->acc_element <= INTER_SMALL)
        return allreduce_small(c, r, acc, out, count);
    if ((st = reduce_slices(c, r, acc, out, count)) != ACCEL_OK)
        return st;
    ax_slice(count, r->acc_element, c->nodes, c->node, &first, &mine);
    for (int k = 0; k < c->nodes; k++) {
        ax_slice(count, r->acc_element, c->nodes, k, &from, &length);
        if (k == c->node)
            continue;
        add_move(x, true, k, (char *)out + from * r->element,
                 length * r->element);
        add_move(x, false, k, (char *)out + first * r->element,
                 mine * r->element);
    }
    return run_moves(c);
}

accel_status_t ax_inter_reduce_scatter(accel_comm_t *c, const ax_reduction_t *r,
                                       void *acc, void *out, size_t count)
{
    ax_inter_t *x = c->inter;
    size_t each = count * r->acc_element;
    size_t mine = (size_t)c->local_size * each;
    accel_status_t st = need_room(c, mine * ((size_t)c->nodes + 1));

    if (st != ACCEL_OK)
        return st;
    for (int k = 0; k < c->nodes; k++) {
        char *room = x->room + (size_t)k * mine;
        char *part = (char *)acc + (size_t)c->node_first[k] * each;
        x->src[k] = k == c->node ? part : room;
        if (k == c->node)
            continue;
        add_move(x, true, k, room, mine);
        add_move(x, false, k, part, (size_t)ax_ranks_on(c, k) * each);
    }
    if ((st = run_moves(c)) != ACCEL_OK)
        return st;
    add_nodes(c, r, out, (size_t)c->local_size * count,
              x->room + (size_t)c->nodes * mine);
    return ACCEL_OK;
}

accel_status_t ax_inter_gather(accel_comm_t *c, char *out,
                               const size_t *offsets, int root)
{
    ax_inter_t *x = c->inter;
    size_t mine = offsets[c->node + 1] - offsets[c->node];

    for (int k = 0; k < c->nodes; k++) {
        if (k == c->node)
            continue;
        if (root < 0 || root == c->node)
            add_move(x, true, k, out + offsets[k], offsets[k + 1] - offsets[k]);
        if (root < 0 || root == k)
            add_move(x, false, k, out + offsets[c->node], mine);
    }
    return run_moves(c);
}

accel_status_t ax_inter_broadcast(accel_comm_t *c, void *data, size_t bytes,
                                  int root)
{
    ax_inter_t *x = c->inter;

    for (int k = 0; k < c->nodes; k++) {
        if (c->node == root && k != root)
            add_move(x, false, k, data, bytes);
        else if (c->node != root && k == root)
            add_move(x, true, k, data, bytes);
    }
    return run_moves(c);
}
