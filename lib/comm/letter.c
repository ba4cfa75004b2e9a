/* Messages from rank to rank between nodes: a letter, its answer, the bytes. */
#include "comm/pair_priv.h"

#include <stdlib.h>
#include <string.h>

static accel_status_t raise_record(accel_comm_t *c, accel_status_t st)
{
    accel_error_t error;

    if (st == ACCEL_OK || c->failed)
        return st;
    ax_error_get(&error);
    return ax_raise(c, st, "%s", error.text);
}

static uint64_t tag_of(const accel_comm_t *c, ax_tag_t kind, int rank,
                       uint64_t number)
{
    return ax_inter_tag(c->inter, kind, rank, (uint32_t)number);
}

static accel_status_t post(accel_comm_t *c, int peer, uint64_t tag,
                           const void *data, size_t bytes, ax_net_req_t *req)
{
    ax_net_t *net = c->inter->net;
    accel_status_t st = ax_inter_reach(c, peer);

    if (st == ACCEL_OK)
        st = net->ops->send(net->self, peer, tag, data, bytes, req);
    return raise_record(c, st);
}

static accel_status_t expect(accel_comm_t *c, uint64_t tag, void *data,
                             size_t bytes, ax_net_req_t *req)
{
    ax_net_t *net = c->inter->net;

    return raise_record(
        c, net->ops->recv(net->self, tag, ~UINT64_C(0), data, bytes, req));
}

/* Has it come to an end? One that failed never does: why the way broke is
 * found out while waiting. */
static bool is_over(accel_comm_t *c, ax_net_req_t *req)
{
    ax_net_t *net = c->inter->net;

    return net->ops->test(net->self, req) && req->status == ACCEL_OK;
}

/* ---- hearing ---------------------------------------------------------------
 */

static accel_status_t listen_on(accel_comm_t *c)
{
    ax_pairs_t *p = c->pairs;
    ax_net_t *net = c->inter->net;
    uint64_t tag = tag_of(c, AX_TAG_LETTER, 0, 0);
    uint64_t any = tag_of(c, AX_TAG_LETTER, 0xfffff, 0xffffff) ^ tag;
    accel_status_t st = net->ops->recv(net->self, tag, ~any, &p->letter,
                                       sizeof p->letter, &p->letter_req);

    p->listening = st == ACCEL_OK;
    return raise_record(c, st);
}

static accel_status_t read_letter(accel_comm_t *c, size_t bytes)
{
    const ax_letter_t *l = &c->pairs->letter;
    size_t head = offsetof(ax_letter_t, data);
    bool along = l->bytes <= AX_LETTER_ROOM;
    ax_message_t what = {l->source, l->tag, l->dtype, l->count, l->bytes};

    if (bytes < head || l->source < 0 || l->source >= c->size ||
        (!l->leaves && along && bytes < head + l->bytes))
        return ax_raise(c, ACCEL_ERR_PROTO,
                        "comm: a letter of %zu bytes that makes no sense",
                        bytes);
    if (l->leaves) {
        c->pairs->left[l->source] = true;
        return ACCEL_OK;
    }
    if (!ax_pair_announce(c, &what, l->number, false, along ? l->data : NULL))
        return ax_raise(c, ACCEL_ERR_NOMEM,
                        "comm: rank %d has no memory for a message",
                        ax_named(c, c->rank));
    return ACCEL_OK;
}

accel_status_t ax_letters_hear(accel_comm_t *c)
{
    ax_pairs_t *p = c->pairs;
    ax_net_t *net = c->inter->net;
    accel_status_t st = p->listening ? ACCEL_OK : listen_on(c);

    while (st == ACCEL_OK && net->ops->test(net->self, &p->letter_req)) {
        p->listening = false;
        if (p->letter_req.status == ACCEL_OK)
            st = read_letter(c, p->letter_req.bytes);
        if (st == ACCEL_OK)
            st = listen_on(c);
    }
    return st;
}

/* ---- sending ---------------------------------------------------------------
 */

accel_status_t ax_letter_send(accel_comm_t *c)
{
    ax_pairs_t *p = c->pairs;
    ax_outbound_t *out = &p->out;
    size_t along = out->what.bytes <= AX_LETTER_ROOM ? out->what.bytes : 0;
    accel_status_t st;

    out->number = ++p->letters;
    out->letter = (ax_letter_t){.source = c->rank,
                                .tag = out->what.tag,
                                .dtype = out->what.dtype,
                                .number = out->number,
                                .count = out->what.count,
                                .bytes = out->what.bytes};
    if (along)
        memcpy(out->letter.data, out->from, along);
    st = expect(c, tag_of(c, AX_TAG_ANSWER, out->what.peer, out->number),
                &out->answer, sizeof out->answer, &out->answer_req);
    if (st != ACCEL_OK)
        return st;
    out->answering = true;
    st = post(c, out->what.peer, tag_of(c, AX_TAG_LETTER, c->rank, out->number),
              &out->letter, offsetof(ax_letter_t, data) + along,
              &out->letter_req);
    out->lettering = st == ACCEL_OK;
    return st;
}

accel_status_t ax_letter_more(accel_comm_t *c)
{
    ax_outbound_t *out = &c->pairs->out;
    accel_status_t st;

    if (out->lettering && is_over(c, &out->letter_req))
        out->lettering = false;
    if (out->sending && is_over(c, &out->bytes_req)) {
        out->sending = false;
        out->done = true;
    }
    if (out->lettering || !out->answering || !is_over(c, &out->answer_req))
        return ACCEL_OK;
    out->answering = false;
    out->answer.text[sizeof out->answer.text - 1] = '\0';
    if (out->answer.status != ACCEL_OK || out->what.bytes <= AX_LETTER_ROOM) {
        out->done = true;
        return ACCEL_OK;
    }
    st = post(c, out->what.peer, tag_of(c, AX_TAG_BYTES, c->rank, out->number),
              out->from, out->what.bytes, &out->bytes_req);
    out->sending = st == ACCEL_OK;
    return st;
}

/* ---- receiving --------------------------------------------------------------
 */

static accel_status_t answer(accel_comm_t *c, ax_inbound_t *in)
{
    bool bad = in->answer.status != ACCEL_OK;
    accel_status_t st =
        post(c, in->what.peer, tag_of(c, AX_TAG_ANSWER, c->rank, in->number),
             &in->answer, bad ? sizeof in->answer : offsetof(ax_answer_t, text),
             &in->answer_req);

    in->answering = st == ACCEL_OK;
    return st;
}

accel_status_t ax_letter_take(accel_comm_t *c, ax_inbound_t *in)
{
    accel_status_t st;

    if (in->data) {
        if (in->what.bytes) /* else there may be no place for it */
            memcpy(in->to, in->data, in->what.bytes);
        in->got = in->what.bytes;
        return answer(c, in);
    }
    st = expect(c, tag_of(c, AX_TAG_BYTES, in->what.peer, in->number), in->to,
                in->what.bytes, &in->bytes_req);
    if (st != ACCEL_OK)
        return st;
    in->receiving = true;
    return answer(c, in);
}

accel_status_t ax_letter_refuse(accel_comm_t *c, ax_inbound_t *in)
{
    in->got = in->what.bytes;
    return answer(c, in);
}

accel_status_t ax_letter_taking(accel_comm_t *c, ax_inbound_t *in)
{
    if (in->answering && is_over(c, &in->answer_req))
        in->answering = false;
    if (in->receiving && is_over(c, &in->bytes_req)) {
        in->receiving = false;
        in->got = in->bytes_req.bytes;
        if (in->got != in->what.bytes)
            return ax_raise(c, ACCEL_ERR_PROTO,
                            "comm: %zu bytes of a message of %llu came",
                            in->got, (unsigned long long)in->what.bytes);
    }
    in->done = !in->answering && !in->receiving;
    return ACCEL_OK;
}

/* ---- the end ----------------------------------------------------------------
 */

/* Those with whom this rank has a way, whether or not they still listen. */
void ax_pairs_left(accel_comm_t *c)
{
    ax_pairs_t *p = c->pairs;
    const ax_net_t *net = c->inter ? c->inter->net : NULL;
    ax_net_req_t req;

    if (!p || !net)
        return;
    ax_letters_cancel(c);
    if (c->failed) /* the program's memory that they were in may be gone */
        ax_net_spoil(c->inter->net);
    p->leave = (ax_letter_t){.source = c->rank, .leaves = 1};
    for (int r = 0; r < c->size && !c->failed; r++) {
        if (!c->inter->reached[r] || p->left[r])
            continue;
        if (net->ops->send(net->self, r, tag_of(c, AX_TAG_LETTER, c->rank, 0),
                           &p->leave, offsetof(ax_letter_t, data),
                           &req) != ACCEL_OK)
            continue;
        /* short ones are gone at once; the close sees to the others */
        for (int i = 0; i < 100 && !net->ops->test(net->self, &req); i++)
            (void)net->ops->progress(net->self);
        net->ops->cancel(net->self, &req);
    }
}

static void cancel(accel_comm_t *c, bool *under_way, ax_net_req_t *req)
{
    ax_net_t *net = c->inter->net;

    if (*under_way)
        net->ops->cancel(net->self, req);
    *under_way = false;
}

void ax_letter_cancel(accel_comm_t *c, ax_inbound_t *in)
{
    cancel(c, &in->receiving, &in->bytes_req);
    cancel(c, &in->answering, &in->answer_req);
}

void ax_letters_cancel(accel_comm_t *c)
{
    ax_pairs_t *p = c->pairs;

    for (ax_inbound_t *in = p->first; in; in = in->next)
        ax_letter_cancel(c, in);
    cancel(c, &p->out.lettering, &p->out.letter_req);
    cancel(c, &p->out.answering, &p->out.answer_req);
    cancel(c, &p->out.sending, &p->out.bytes_req);
    cancel(c, &p->listening, &p->letter_req);
}
