/* Opening a communicator: how its ranks find each other. */
#include "comm/cma_priv.h"
#include "comm/inter_priv.h"
#include "comm/levels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORD_VERSION 3
#define SLOT_BYTES (128u << 10)
#define SEGMENT_BYTES (256u << 10) /* the same of several nodes */
#define SLOT_MOST (512u << 10)  /* fewer meetings, yet in a core's own cache */
#define SLOTS_BYTES (16u << 20) /* all ranks of a node together, for that */

/* What a rank publishes through the exchange. */
struct record {
    uint32_t version;
    ax_meet_point_t point;
    ax_spot_t place;
    uint32_t bytes;
    uint8_t data[AX_JOB_ENDPOINT_MAX - 64]; /* of several nodes: its address */
};

_Static_assert(sizeof(struct record) <= AX_JOB_ENDPOINT_MAX,
               "the job's record has no room for this");

/* A transport's own, and two for each connection while it is made: rails are
 * connected at the start, others when a message goes there. */
static accel_status_t files_needed(const accel_comm_t *c)
{
    int must = 3 * c->local_size;

    if (c->nodes == 1)
        return ax_files_needed(must, 0);
    return ax_files_needed(must + 8 + 2 * (c->nodes - 1), 2 * c->size);
}

/* What I publish: how to reach me. */
static accel_status_t prepare(ax_opening_t *o, struct record *record)
{
    accel_comm_t *c = o->comm;
    accel_status_t st;

    *record = (struct record){.version = RECORD_VERSION};
    /* Now, while a rank that has too few can still tell the others; local
     * rank 0 holds a socket and a pidfd for each rank at one time. */
    st = files_needed(c);
    if (st == ACCEL_OK)
        st = ax_seg_make(c->local_rank, c->local_size, &o->seg);
    if (st == ACCEL_OK)
        st = ax_meet_listen(ax_is_leader(c), &record->point, &o->listen_fd);
    if (st == ACCEL_OK)
        st = ax_levels_place(c, o->parent);
    record->place = c->spot;
    if (st == ACCEL_OK && c->nodes > 1)
        st =
            ax_inter_open(c, record->data, sizeof record->data, &record->bytes);
    return st;
}

/* What `rank`, as the exchange numbers it, has published. */
static const void *published(const ax_opening_t *o, int rank, size_t *bytes)
{
    if (!o->parent)
        return ax_job_endpoint(o->comm->job, rank, bytes);
    *bytes = o->offsets[rank + 1] - o->offsets[rank];
    return o->all + o->offsets[rank];
}

static accel_status_t record_of(const ax_opening_t *o, int rank,
                                struct record *out)
{
    size_t bytes = 0;
    const void *data =
        published(o, o->in_parent ? o->in_parent[rank] : rank, &bytes);
    size_t least = offsetof(struct record, data);

    memset(out, 0, sizeof *out);
    if (data && bytes >= least && bytes <= sizeof *out)
        memcpy(out, data, bytes);
    if (!data || bytes < least || out->version != RECORD_VERSION ||
        out->bytes != bytes - least)
        return ax_fail(ACCEL_ERR_PROTO,
                       "comm: rank %d published a record of %zu bytes that "
                       "this release does not know",
                       ax_named(o->comm, rank), bytes);
    return ACCEL_OK;
}

/* Everyone's record to everyone: through the job, which may be asked once
 * only, or through the parent. A rank that cannot go on says why, so that all
 * fail together and not each by itself. */
static accel_status_t exchange(ax_opening_t *o, accel_status_t mine)
{
    struct record record = {0};
    accel_status_t st;
    size_t bytes = 0;

    if (mine == ACCEL_OK && o->comm) {
        mine = prepare(o, &record);
        bytes = offsetof(struct record, data) + record.bytes;
    }
    if (mine != ACCEL_OK)
        ax_log(AX_LOG_DEBUG, "%s", accel_last_error()->text);
    if (!o->parent)
        return mine == ACCEL_OK ? ax_job_exchange(o->job, &record, bytes)
                                : ax_job_exchange_error(o->job, mine);
    if ((st = ax_agree(o->parent, mine)) != ACCEL_OK)
        return st;
    return ax_gather_bytes(o->parent, &record, bytes, &o->all, o->offsets);
}

/* Where the ranks of my node run decides on its groups. */
static accel_status_t make_groups(ax_opening_t *o, ax_seg_plan_t *plan)
{
    accel_comm_t *c = o->comm;
    ax_spot_t *places = calloc((size_t)c->local_size, sizeof *places);
    struct record record;
    accel_status_t st = ACCEL_OK;

    if (!places)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %d ranks",
                       c->local_size);
    for (int i = 0; i < c->local_size && st == ACCEL_OK; i++) {
        st = record_of(o, ax_rank_here(c, i), &record);
        places[i] = record.place;
    }
    if (st == ACCEL_OK)
        st = ax_levels_make(c, places, plan);
    free(places);
    return st;
}

static size_t slot_bytes(const accel_comm_t *c)
{
    size_t most = SLOT_MOST;

    if (c->nodes > 1)
        return SEGMENT_BYTES;
    while (most > SLOT_BYTES && 2 * most * (size_t)c->local_size > SLOTS_BYTES)
        most /= 2;
    return most;
}

static accel_status_t join_node(ax_opening_t *o)
{
    accel_comm_t *c = o->comm;
    struct record leader;
    size_t most = slot_bytes(c);
    accel_status_t st;

    st = record_of(o, ax_rank_here(c, 0), &leader);
    if (st != ACCEL_OK)
        return st;
    /* a reduce-scatter has a few elements of every rank in a slot, and an
     * all-to-all some bytes of every pair of ranks */
    size_t each = 256;
    for (int k = 0; k < c->nodes; k++)
        if ((size_t)ax_ranks_on(c, k) > each)
            each = (size_t)ax_ranks_on(c, k);
    if (most < (size_t)c->size * each)
        most = (size_t)c->size * each;
    ax_seg_plan_t plan = {.me = c->local_rank,
                          .ranks = c->local_size,
                          .slot_bytes = most,
                          .shared = c->nodes > 1,
                          .timeout = (double)c->timeout_ns / 1e9};
    if (plan.timeout > AX_MEET_SECONDS)
        plan.timeout = AX_MEET_SECONDS;
    st = make_groups(o, &plan);
    st = ax_seg_open(o->seg, &plan, &leader.point, o->listen_fd, st);
    if (st != ACCEL_OK)
        return st;
    c->seg = o->seg;
    o->seg = NULL;
    ax_levels_use(c, false);
    return ACCEL_OK;
}

/* Rails: rank i of each node talks to rank i of the others. */
static accel_status_t connect_rail(accel_comm_t *c)
{
    accel_status_t st = ACCEL_OK;

    for (int k = 0; k < c->nodes && st == ACCEL_OK; k++)
        if (k != c->node)
            st = ax_inter_reach(c, ax_rail_rank(c, k));
    return st;
}

/* Of all others on other nodes: messages may go to any of them. */
static accel_status_t note_all(ax_opening_t *o)
{
    accel_comm_t *c = o->comm;
    struct record record;
    accel_status_t st = ACCEL_OK;

    for (int r = 0; r < c->size && st == ACCEL_OK; r++) {
        if (ax_node_of(c, r) == c->node)
            continue;
        st = record_of(o, r, &record);
        if (st == ACCEL_OK)
            st = ax_inter_note(c, r, record.data, record.bytes);
    }
    return st;
}

/* The number comes first: who cannot connect to all still tells the others. */
static accel_status_t join_nodes(ax_opening_t *o)
{
    accel_comm_t *c = o->comm;
    struct record record;
    accel_status_t st;

    if ((st = record_of(o, c->rank_at[0], &record)) != ACCEL_OK)
        return st;
    if ((st = ax_inter_start(c, record.point.nonce)) != ACCEL_OK)
        return st;
    if ((st = note_all(o)) != ACCEL_OK)
        return st;
    return c->local_rank < c->rails ? connect_rail(c) : ACCEL_OK;
}

/* What plans send from and receive into, on the ranks that carry them out: the
 * areas of the node and, where a broadcast or a scatter begins, any slot. */
static void lend_segment(accel_comm_t *c)
{
    ax_seg_t *seg = c->seg;

    if (c->local_rank >= c->rails)
        return;
    ax_net_map(c->inter->net, seg->shared, 6 * seg->slot_bytes);
    ax_net_map(c->inter->net, seg->slots,
               2 * seg->slot_bytes * (size_t)seg->ranks);
}

/* The node is joined; now all hear that all have come so far. `joined`: of
 * joining the other nodes. */
static accel_status_t meet(ax_opening_t *o, accel_status_t joined)
{
    accel_comm_t *c = o->comm;
    accel_status_t st = joined;

    c->call = (ax_call_t){.kind = AX_CALL_OPEN};
    if (st != ACCEL_OK) {
        accel_error_t error;
        char who[96];
        ax_error_get(&error);
        return ax_raise(c, st, "%s: %s", ax_who(c, c->rank, who, sizeof who),
                        error.text);
    }
    if ((st = ax_cma_open(c)) == ACCEL_OK && c->inter) {
        ax_inter_settle(c);
        lend_segment(c);
    }
    return st == ACCEL_OK && c->levels ? ax_levels_start(c) : st;
}

/* A part that could not be joined ends the whole split. */
static accel_status_t agree(const ax_opening_t *o, accel_status_t st)
{
    return o->parent ? ax_agree(o->parent, st) : st;
}

/* Parts of a node that has been told of say nothing new, nor does one rank. */
static void describe(const ax_opening_t *o)
{
    accel_comm_t *c = o->comm;
    bool told = o->parent && (o->parent->nodes == 1 || c->size == 1);

    if (c->nodes > 1)
        snprintf(c->transport, sizeof c->transport, "%s", ax_inter_about(c));
    else
        snprintf(c->transport, sizeof c->transport, "none: one node%s%s",
                 *c->cma.why ? "; " : "", c->cma.why);
    ax_log(AX_LOG_INFO, "comm: %d ranks on %d nodes; between nodes: %s",
           c->size, c->nodes, c->transport);
    if (c->nodes == 1 && c->rank == 0 && !told &&
        strcmp(ax_settings_str(c->settings, "debug"), "tuning") == 0)
        ax_log(AX_LOG_REPORT,
               "tuning: one node: gather and scatter of private "
               "memory: %s",
               *c->cma.why ? c->cma.why : "alone");
}

accel_status_t ax_comm_meet(ax_opening_t *o, accel_status_t mine)
{
    accel_status_t st;

    o->listen_fd = -1;
    if ((st = exchange(o, mine)) != ACCEL_OK)
        goto out;
    if ((st = agree(o, o->comm ? join_node(o) : ACCEL_OK)) != ACCEL_OK)
        goto out;
    st = o->comm && o->comm->inter ? join_nodes(o) : ACCEL_OK;
    /* one that could not join may not be able to tell the others so */
    if (o->parent && o->parent->nodes > 1 && (st = agree(o, st)) != ACCEL_OK)
        goto out;
    if ((st = agree(o, o->comm ? meet(o, st) : ACCEL_OK)) != ACCEL_OK)
        goto out;
    if (o->comm)
        describe(o);
out:
    if (o->listen_fd >= 0)
        close(o->listen_fd);
    ax_seg_close(o->seg);
    o->seg = NULL;
    free(o->all);
    o->all = NULL;
    return st;
}

accel_status_t accel_comm_open(accel_job_t *job,
                               const accel_settings_t *settings,
                               accel_comm_t **out)
{
    ax_members_t all = {.job = job, .settings = settings};
    ax_opening_t opening = {.job = job};
    accel_status_t st;

    if (!out)
        return ax_fail(ACCEL_ERR_ARG, "comm: out is NULL");
    *out = NULL;
    if (!job || !settings)
        return ax_fail(ACCEL_ERR_ARG, "comm: no %s (NULL)",
                       job ? "settings" : "job");
    all.rank = accel_job_rank(job);
    all.size = accel_job_size(job);
    st = ax_comm_create(&all, &opening.comm);
    if ((st = ax_comm_meet(&opening, st)) != ACCEL_OK)
        accel_comm_close(opening.comm);
    else
        *out = opening.comm;
    return st;
}
