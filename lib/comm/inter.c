/* Between the nodes: opening, comparing calls, and which plan moves data. */
#include "comm/inter_priv.h"

#include <stdlib.h>
#include <string.h>

#define CLOSE_NS 2000000000u

uint64_t ax_inter_tag(const ax_inter_t *x, ax_tag_t kind, int from,
                      uint32_t step)
{
    return x->nonce << 48 | (uint64_t)kind << 44 |
           ((uint64_t)from & 0xfffff) << 24 | (step & 0xffffff);
}

/* ---- open and close ---------------------------------------------------------
 */

static accel_status_t make_inter(accel_comm_t *c)
{
    size_t n = (size_t)c->nodes;
    const char *rails = ax_settings_str(c->settings, "rails");
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
    x->steps = calloc(2 * n + 8, sizeof *x->steps); /* ax_plan_most() */
    x->reached = calloc((size_t)c->size, sizeof *x->reached);
    x->addresses = calloc((size_t)c->size, sizeof *x->addresses);
    x->ends = calloc(n, sizeof *x->ends);
    x->slices = calloc(n, sizeof *x->slices);
    x->ends2 = calloc(n, sizeof *x->ends2);
    x->slices2 = calloc(n, sizeof *x->slices2);
    x->forced = -1;
    x->rails_forced = strcmp(rails, "auto") == 0     ? -1
                      : strcmp(rails, "always") == 0 ? 1
                                                     : 0;
    if (!x->reached || !x->addresses || !x->peers || !x->moves || !x->awaited ||
        !x->heads || !x->src || !x->steps || !x->ends || !x->slices ||
        !x->ends2 || !x->slices2)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %zu nodes", n);
    for (size_t k = 0; k < n; k++)
        x->peers[k].waits_for = -1;
    return ACCEL_OK;
}

/* A transport's name is in front of its address: with net=auto ranks may have
 * found different ones. */
#define NAME_BYTES 4

static const char *name_of(const ax_net_t *net)
{
    return ax_mod_get(net->mod)->name;
}

accel_status_t ax_inter_open(accel_comm_t *c, void *address, size_t room,
                             uint32_t *bytes)
{
    const void *own;
    size_t length;
    ax_net_ask_t ask = {.peers = c->size,
                        .ranks = accel_job_size(c->job),
                        .mpi_comm = ax_job_mpi_comm(c->job)};
    accel_status_t st = make_inter(c);

    if (st == ACCEL_OK)
        st = ax_net_open(ax_settings_str(c->settings, "net"), ask,
                         &c->inter->net);
    if (st != ACCEL_OK)
        return st;
    ax_net_t *net = c->inter->net;
    if ((st = net->ops->address(net->self, &own, &length)) != ACCEL_OK)
        return st;
    if (length + NAME_BYTES > room)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "comm: the transport's address has %zu bytes, more "
                       "than the %zu that fit; use fewer devices, as with "
                       "UCX_NET_DEVICES=mlx5_0:1",
                       length, room - NAME_BYTES);
    memset(address, 0, NAME_BYTES);
    memcpy(address, name_of(net), strnlen(name_of(net), NAME_BYTES));
    memcpy((char *)address + NAME_BYTES, own, length);
    *bytes = (uint32_t)(length + NAME_BYTES);
    return ACCEL_OK;
}

accel_status_t ax_inter_start(accel_comm_t *c, const uint8_t *nonce)
{
    c->inter->nonce = (uint64_t)nonce[0] << 8 | nonce[1];
    return c->local_rank < c->rails ? ax_news_listen(c) : ACCEL_OK;
}

static accel_status_t connect_to(accel_comm_t *c, int rank, const void *address,
                                 size_t bytes)
{
    ax_net_t *net = c->inter->net;

    if (bytes < NAME_BYTES || strncmp(address, name_of(net), NAME_BYTES) != 0)
        return ax_fail(ACCEL_ERR_PROTO,
                       "its transport is %.4s, mine %s: net=auto found that "
                       "UCX works for some ranks only; net=ucx says why, and "
                       "net=mpi does without",
                       bytes < NAME_BYTES ? "?" : (const char *)address,
                       name_of(net));
    c->inter->reached[rank] = true;
    return net->ops->connect(net->self, rank,
                             (const char *)address + NAME_BYTES,
                             bytes - NAME_BYTES);
}

accel_status_t ax_inter_note(accel_comm_t *c, int rank, const void *address,
                             size_t bytes)
{
    ax_address_t *to = malloc(sizeof *to + bytes);

    if (!to)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %d addresses",
                       c->size);
    to->bytes = bytes;
    memcpy(to->data, address, bytes);
    free(c->inter->addresses[rank]);
    c->inter->addresses[rank] = to;
    return ACCEL_OK;
}

accel_status_t ax_inter_reach(accel_comm_t *c, int rank)
{
    const ax_address_t *to = c->inter->addresses[rank];
    char who[96];

    if (c->inter->reached[rank])
        return ACCEL_OK;
    accel_status_t st = connect_to(c, rank, to->data, to->bytes);
    if (st != ACCEL_OK)
        ax_fail_prefix(st, "comm: no way to %s",
                       ax_who(c, rank, who, sizeof who));
    return st;
}

void ax_inter_settle(accel_comm_t *c)
{
    ax_net_settle(c->inter->net);
}

void ax_inter_close(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;

    if (!x)
        return;
    x->flying = false;
    ax_pairs_left(c);
    if (x->net) {
        if (x->listening && c->seg) {
            /* a fault that was none of its calls' */
            if (ax_fault_there(c) || ax_fault_ahead(c))
                ax_inter_tell(c, &c->seg->head->fault);
            ax_news_left(c);
        }
        for (int i = 0; i < x->nmoves; i++)
            x->net->ops->cancel(x->net->self, &x->moves[i].req);
        for (int k = 0; k < x->nodes; k++)
            if (x->peers[k].sending)
                x->net->ops->cancel(x->net->self, &x->peers[k].sent);
        if (x->listening)
            x->net->ops->cancel(x->net->self, &x->in_req);
        if (c->failed)
            ax_net_spoil(x->net);
        ax_net_close(x->net, CLOSE_NS);
    }
    free(x->peers);
    free(x->moves);
    free(x->awaited);
    free(x->heads);
    free(x->src);
    free(x->steps);
    free(x->ends);
    free(x->slices);
    free(x->ends2);
    free(x->slices2);
    free(x->room);
    free(x->calls);
    free(x->reached);
    for (int r = 0; x->addresses && r < c->size; r++)
        free(x->addresses[r]);
    free(x->addresses);
    free(x);
    c->inter = NULL;
}

const char *ax_inter_about(const accel_comm_t *c)
{
    return c->inter->net->why;
}

/* ---- comparing calls --------------------------------------------------------
 */

static accel_status_t swap_heads(accel_comm_t *c, const ax_call_t *call,
                                 bool differ, const ax_verdict_t *mine)
{
    ax_inter_t *x = c->inter;
    ax_head_t *own = &x->heads[c->node];
    size_t least = offsetof(ax_head_t, text);
    accel_status_t st;

    *own = (ax_head_t){.call = *call,
                       .status = mine->status,
                       .rank = mine->rank,
                       .differ = differ};
    memcpy(own->text, mine->text, sizeof own->text);
    for (int k = 0; k < c->nodes; k++) {
        if (k == c->node)
            continue;
        ax_moves_add(x, &(ax_move_t){.node = k,
                                     .recv = true,
                                     .data = &x->heads[k],
                                     .bytes = sizeof x->heads[k],
                                     .least = least});
        ax_moves_add(x, &(ax_move_t){.node = k,
                                     .data = own,
                                     .bytes = mine->status == ACCEL_OK
                                                  ? least
                                                  : sizeof *own});
    }
    if ((st = ax_moves_run(c)) != ACCEL_OK)
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

/* Every leader gets the calls of all ranks, by position. */
static accel_status_t swap_calls(accel_comm_t *c, ax_call_t *at)
{
    ax_inter_t *x = c->inter;

    for (int r = 0; r < c->local_size; r++)
        at[c->node_first[c->node] + r] = ax_call_of(c, r);
    for (int k = 0; k < c->nodes; k++) {
        if (k == c->node)
            continue;
        size_t bytes = (size_t)ax_ranks_on(c, k) * sizeof *at;
        ax_moves_add(x, &(ax_move_t){.node = k,
                                     .recv = true,
                                     .data = at + c->node_first[k],
                                     .bytes = bytes,
                                     .least = bytes});
        ax_moves_add(x,
                     &(ax_move_t){.node = k,
                                  .data = at + c->node_first[c->node],
                                  .bytes = (size_t)c->local_size * sizeof *at});
    }
    return ax_moves_run(c);
}

/* Some ranks differ, and all leaders know it: they tell each other the calls
 * of all ranks, and each writes the same text. */
static accel_status_t raise_differ(accel_comm_t *c)
{
    ax_inter_t *x = c->inter;
    size_t size = (size_t)c->size;
    char text[AX_SEG_TEXT] = "";
    accel_status_t st;

    /* Messages may be written there until the close. By position, by rank,
     * and the ranks. */
    x->calls = calloc(size, 2 * sizeof *x->calls + sizeof(int));
    if (!x->calls)
        return ax_raise(c, ACCEL_ERR_NOMEM,
                        "comm: the ranks disagree, and rank %d has no memory "
                        "to say how",
                        ax_named(c, c->rank));
    ax_call_t *of = x->calls + size;
    int *ranks = (int *)(void *)(of + size);
    if ((st = swap_calls(c, x->calls)) != ACCEL_OK)
        return st;
    for (int r = 0; r < c->size; r++) {
        of[r] = x->calls[c->position[r]];
        ranks[r] = r;
    }
    ax_calls_text(c, of, c->size, ranks, text, sizeof text);
    x->told = true; /* each leader does this */
    return ax_raise_differ(c, text);
}

/* The first node's call that can be held against the others'. */
static const ax_call_t *first_good(const accel_comm_t *c)
{
    const ax_head_t *heads = c->inter->heads;

    for (int k = 0; k < c->nodes; k++)
        if (heads[k].call.status == ACCEL_OK)
            return &heads[k].call;
    return &heads[0].call;
}

accel_status_t ax_inter_meet(accel_comm_t *c, const ax_call_t *call,
                             bool differ, const ax_verdict_t *mine)
{
    ax_inter_t *x = c->inter;
    ax_verdict_t *verdict = &c->seg->head->verdict;
    accel_status_t st = swap_heads(c, call, differ, mine);
    const ax_head_t *worst = NULL;

    if (st != ACCEL_OK)
        return st;
    const ax_call_t *good = first_good(c);
    for (int k = 0; k < c->nodes; k++) {
        const ax_head_t *h = &x->heads[k];
        if (h->differ || !ax_same_call(&h->call, good))
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

/* Does it show in which order elements are added? */
static bool order_shows(const ax_reduction_t *r)
{
    bool floats = r->acc == ACCEL_F64 || r->acc == ACCEL_F32;

    return floats && r->op != AX_MIN && r->op != AX_MAX;
}

void ax_inter_choose(const accel_comm_t *c, const ax_model_t *model,
                     const ax_ask_t *ask, ax_plan_t *plan)
{
    const ax_inter_t *x = c->inter;

    plan->way = ax_model_choose(model, ask);
    if (x->forced >= 0 && ax_plan_there(ask->kind, (ax_way_t)x->forced) &&
        (!ask->cut || ax_plan_cuts(ask->kind, (ax_way_t)x->forced)) &&
        (!ask->ordered ||
         ax_plan_ordered(ask->kind, (ax_way_t)x->forced, ask->nodes)))
        plan->way = (ax_way_t)x->forced;
    if (plan->way == AX_WAY_CHAIN) {
        size_t segments = ax_model_segments(model, ask);
        if (x->forced >= 0 && segments < 3)
            segments = 3;
        plan->segment = plan->count / segments + 1;
    }
}

void ax_inter_force(accel_comm_t *c, int way)
{
    if (c->inter)
        c->inter->forced = way;
}

void ax_inter_force_rails(accel_comm_t *c, int rails)
{
    if (c->inter)
        c->inter->rails_forced = rails;
}

const ax_model_t *ax_inter_model(const accel_comm_t *c)
{
    return c->inter && c->inter->measured ? &c->inter->model : NULL;
}

/* By all rails or by the leaders, whichever is faster. */
static accel_status_t start(accel_comm_t *c, const ax_ask_t *ask,
                            const ax_exec_t *what, bool ready)
{
    bool rails = false;
    accel_status_t st = ACCEL_OK;

    if (ready)
        st = ax_rail_better(c, ask, &rails);
    if (st != ACCEL_OK || c->local_rank >= (rails ? c->rails : 1))
        return st;
    if (!rails && (st = ax_inter_measure(c)) != ACCEL_OK)
        return st;
    return ax_rail_start(c, ask, what, rails ? c->rails : 1);
}

accel_status_t ax_inter_end(accel_comm_t *c)
{
    return ax_exec_end(c);
}

void ax_inter_go_on(accel_comm_t *c)
{
    ax_exec_poll(c);
}

void ax_inter_drop(accel_comm_t *c)
{
    c->inter->flying = false;
}

static ax_plan_t plan_of(const accel_comm_t *c, ax_plan_kind_t kind)
{
    return (ax_plan_t){
        .kind = kind, .node = c->node, .nodes = c->nodes, .element = 1};
}

/* What a reduction of `count` elements asks of the model. */
static ax_ask_t ask_reduction(const accel_comm_t *c, const ax_reduction_t *r,
                              ax_plan_kind_t kind, size_t count)
{
    return (ax_ask_t){.kind = kind,
                      .nodes = c->nodes,
                      .acc_bytes = (double)count * (double)r->acc_element,
                      .out_bytes = (double)count * (double)r->element,
                      .ordered = order_shows(r)};
}

accel_status_t ax_inter_allreduce(accel_comm_t *c, const ax_reduction_t *r,
                                  void *acc, void *out, size_t count,
                                  bool ready)
{
    ax_plan_t plan = plan_of(c, AX_PLAN_ALLREDUCE);
    ax_ask_t ask = ask_reduction(c, r, plan.kind, count);

    plan.count = count;
    plan.element = r->acc_element;
    return start(c, &ask,
                 &(ax_exec_t){.plan = &plan, .how = r, .acc = acc, .out = out},
                 ready);
}

accel_status_t ax_inter_reduce(accel_comm_t *c, const ax_reduction_t *r,
                               void *acc, void *out, size_t count, int root,
                               bool ready)
{
    ax_plan_t plan = plan_of(c, AX_PLAN_REDUCE);
    ax_ask_t ask = ask_reduction(c, r, plan.kind, count);

    plan.count = count;
    plan.root = root;
    plan.element = r->acc_element;
    return start(c, &ask,
                 &(ax_exec_t){.plan = &plan, .how = r, .acc = acc, .out = out},
                 ready);
}

accel_status_t ax_inter_reduce_parts(accel_comm_t *c, const ax_reduction_t *r,
                                     void *acc, void *out,
                                     const size_t *offsets, bool ready)
{
    ax_plan_t plan = plan_of(c, AX_PLAN_REDUCE_SCATTER);
    ax_ask_t ask = ask_reduction(c, r, plan.kind, offsets[c->nodes]);

    plan.parts = offsets;
    plan.element = r->acc_element;
    return start(c, &ask,
                 &(ax_exec_t){.plan = &plan, .how = r, .acc = acc, .out = out},
                 ready);
}

accel_status_t ax_inter_gather(accel_comm_t *c, char *out,
                               const size_t *offsets, int root, bool ready)
{
    ax_plan_t plan = plan_of(c, root < 0 ? AX_PLAN_ALLGATHER : AX_PLAN_GATHER);
    ax_ask_t ask = {.kind = plan.kind,
                    .nodes = c->nodes,
                    .out_bytes = (double)offsets[c->nodes],
                    .ordered = true};

    plan.root = root;
    plan.parts = offsets;
    return start(c, &ask, &(ax_exec_t){.plan = &plan, .out = out}, ready);
}

accel_status_t ax_inter_scatter(accel_comm_t *c, const char *all, char *out,
                                const size_t *offsets, int root, bool ready)
{
    ax_plan_t plan = plan_of(c, AX_PLAN_SCATTER);
    ax_ask_t ask = {.kind = plan.kind,
                    .nodes = c->nodes,
                    .out_bytes = (double)offsets[c->nodes],
                    .ordered = true};

    plan.root = root;
    plan.parts = offsets;
    /* the root only sends from there */
    return start(
        c, &ask,
        &(ax_exec_t){.plan = &plan, .acc = (char *)(uintptr_t)all, .out = out},
        ready);
}

accel_status_t ax_inter_alltoall(accel_comm_t *c, const ax_exchange_t *e,
                                 bool ready)
{
    ax_plan_t plan = plan_of(c, AX_PLAN_ALLTOALL);
    /* bytes differ from node to node, but all must choose alike */
    ax_ask_t ask = {.kind = plan.kind,
                    .nodes = c->nodes,
                    .acc_bytes = (double)e->most,
                    .out_bytes = (double)e->most,
                    .ordered = true};

    plan.parts = e->to;
    plan.parts2 = e->from;
    return start(c, &ask,
                 &(ax_exec_t){.plan = &plan,
                              .acc = (char *)(uintptr_t)e->in,
                              .out = e->out},
                 ready);
}

accel_status_t ax_inter_broadcast(accel_comm_t *c, void *data, size_t bytes,
                                  int root, bool ready)
{
    ax_plan_t plan = plan_of(c, AX_PLAN_BROADCAST);
    ax_ask_t ask = {.kind = plan.kind,
                    .nodes = c->nodes,
                    .out_bytes = (double)bytes,
                    .ordered = true};

    plan.root = root;
    plan.count = bytes;
    return start(c, &ask, &(ax_exec_t){.plan = &plan, .out = data}, ready);
}
