/* Opening and closing a communicator. */
#include "comm/comm_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORD_VERSION 2
#define SLOT_BYTES (128u << 10)

/* What a rank publishes through the job's exchange. */
struct record {
    uint32_t version;
    ax_meet_point_t point;
    uint32_t bytes;
    uint8_t data[AX_JOB_ENDPOINT_MAX - 64]; /* of several nodes: its address */
};

_Static_assert(sizeof(struct record) <= AX_JOB_ENDPOINT_MAX,
               "the job's record has no room for this");

/* ---- who is where
 * ------------------------------------------------------------
 */

static accel_status_t make_tables(accel_comm_t *c)
{
    size_t size = (size_t)c->size;

    c->position = calloc(size, sizeof *c->position);
    c->rank_at = calloc(size, sizeof *c->rank_at);
    c->node_first = calloc((size_t)c->nodes + 1, sizeof *c->node_first);
    c->node_bytes = calloc((size_t)c->nodes + 1, sizeof *c->node_bytes);
    c->sources = calloc(size, sizeof *c->sources);
    if (!c->position || !c->rank_at || !c->node_first || !c->node_bytes ||
        !c->sources)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %zu ranks", size);
    for (int r = 0; r < c->size; r++)
        c->node_first[accel_job_node_of(c->job, r) + 1]++;
    c->rails = c->node_first[1];
    for (int k = 0; k < c->nodes; k++) {
        if (c->node_first[k + 1] < c->rails)
            c->rails = c->node_first[k + 1];
        c->node_first[k + 1] += c->node_first[k];
    }
    for (int r = 0; r < c->size; r++) {
        int at = c->node_first[accel_job_node_of(c->job, r)] +
                 accel_job_local_rank_of(c->job, r);
        c->position[r] = at;
        c->rank_at[at] = r;
    }
    return ACCEL_OK;
}

static accel_status_t create(accel_job_t *job, const accel_settings_t *settings,
                             accel_comm_t **out)
{
    accel_comm_t *c = calloc(1, sizeof *c);

    if (!c)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory");
    *out = c;
    c->job = job;
    c->settings = settings;
    c->rank = accel_job_rank(job);
    c->size = accel_job_size(job);
    c->local_rank = accel_job_local_rank(job);
    c->local_size = accel_job_local_size(job);
    c->node = accel_job_node(job);
    c->nodes = accel_job_nodes(job);
    c->timeout_ns =
        (uint64_t)ax_settings_int(settings, "timeout") * 1000000000u;
    c->forks = ax_forks();
    return make_tables(c);
}

static void destroy(accel_comm_t *c)
{
    if (!c)
        return;
    if (c->seg) {
        ax_heap_fini(c);
        ax_seg_close(c->seg);
    }
    free(c->position);
    free(c->rank_at);
    free(c->node_first);
    free(c->node_bytes);
    free(c->sources);
    free(c);
}

/* ---- meeting
 * -----------------------------------------------------------------
 */

/* What I publish: how to reach me. */
static accel_status_t prepare(accel_comm_t *c, struct record *record,
                              int *listen_fd)
{
    accel_status_t st;

    *record = (struct record){.version = RECORD_VERSION};
    st = ax_meet_listen(ax_is_leader(c), &record->point, listen_fd);
    if (st == ACCEL_OK && c->nodes > 1)
        st =
            ax_inter_open(c, record->data, sizeof record->data, &record->bytes);
    return st;
}

static accel_status_t record_of(const accel_comm_t *c, int rank,
                                struct record *out)
{
    size_t bytes = 0;
    const void *data = ax_job_endpoint(c->job, rank, &bytes);
    size_t least = offsetof(struct record, data);

    memset(out, 0, sizeof *out);
    if (data && bytes >= least && bytes <= sizeof *out)
        memcpy(out, data, bytes);
    if (!data || bytes < least || out->version != RECORD_VERSION ||
        out->bytes != bytes - least)
        return ax_fail(ACCEL_ERR_PROTO,
                       "comm: rank %d published a record of %zu bytes that "
                       "this release does not know",
                       rank, bytes);
    return ACCEL_OK;
}

/* A rank that cannot go on says why, so that all fail together and not each
 * by itself. */
static accel_status_t exchange(accel_comm_t *c, accel_status_t mine,
                               accel_job_t *job, int *listen_fd)
{
    struct record record;
    size_t least = offsetof(struct record, data);

    if (mine == ACCEL_OK)
        mine = prepare(c, &record, listen_fd);
    if (mine == ACCEL_OK)
        return ax_job_exchange(job, &record, least + record.bytes);
    ax_log(AX_LOG_DEBUG, "%s", accel_last_error()->text);
    return ax_job_exchange_error(job, mine);
}

static accel_status_t join_node(accel_comm_t *c, int listen_fd)
{
    struct record leader;
    size_t most = SLOT_BYTES;
    accel_status_t st;

    st = record_of(c, ax_rank_here(c, 0), &leader);
    if (st != ACCEL_OK)
        return st;
    /* a reduce-scatter has a few elements of every rank in a slot */
    if (most < (size_t)c->size * 256)
        most = (size_t)c->size * 256;
    ax_seg_plan_t plan = {.me = c->local_rank,
                          .ranks = c->local_size,
                          .slot_bytes = most,
                          .shared = c->nodes > 1,
                          .timeout = (double)c->timeout_ns / 1e9};
    if (plan.timeout > AX_MEET_SECONDS)
        plan.timeout = AX_MEET_SECONDS;
    return ax_seg_open(&plan, &leader.point, listen_fd, &c->seg);
}

/* Rails: rank i of each node talks to rank i of the others. */
static accel_status_t connect_rail(accel_comm_t *c)
{
    struct record record;
    accel_status_t st = ACCEL_OK;

    for (int k = 0; k < c->nodes && st == ACCEL_OK; k++) {
        int rank = ax_rail_rank(c, k);
        if (k == c->node || (st = record_of(c, rank, &record)) != ACCEL_OK)
            continue;
        st = ax_inter_connect(c, rank, record.data, record.bytes);
    }
    return st;
}

/* The number comes first: who cannot connect to all still tells the others. */
static accel_status_t join_nodes(accel_comm_t *c)
{
    struct record record;
    accel_status_t st;

    if ((st = record_of(c, c->rank_at[0], &record)) != ACCEL_OK)
        return st;
    if ((st = ax_inter_start(c, record.point.nonce)) != ACCEL_OK)
        return st;
    return c->local_rank < c->rails ? connect_rail(c) : ACCEL_OK;
}

/* Every rank has its part; now all hear that all have. */
static accel_status_t join(accel_comm_t *c, int listen_fd)
{
    accel_status_t st = join_node(c, listen_fd);

    if (st != ACCEL_OK)
        return st;
    c->call = (ax_call_t){.kind = AX_CALL_OPEN};
    if (c->inter && (st = join_nodes(c)) != ACCEL_OK) {
        accel_error_t error;
        char who[96];
        ax_error_get(&error);
        return ax_raise(c, st, "%s: %s",
                        ax_job_who(c->job, c->rank, who, sizeof who),
                        error.text);
    }
    if ((st = ax_enter(c, st)) == ACCEL_OK && c->inter)
        ax_inter_settle(c);
    return st;
}

static void describe(accel_comm_t *c)
{
    snprintf(c->transport, sizeof c->transport, "%s",
             c->nodes == 1 ? "none: one node" : ax_inter_about(c));
    ax_log(AX_LOG_INFO, "comm: %d ranks on %d nodes; between nodes: %s",
           c->size, c->nodes, c->transport);
    if (c->nodes == 1 && c->rank == 0 &&
        strcmp(ax_settings_str(c->settings, "debug"), "tuning") == 0)
        ax_log(AX_LOG_REPORT, "tuning: one node: nothing to choose");
}

accel_status_t accel_comm_open(accel_job_t *job,
                               const accel_settings_t *settings,
                               accel_comm_t **out)
{
    accel_comm_t *c = NULL;
    accel_status_t st;
    int listen_fd = -1;

    if (!out)
        return ax_fail(ACCEL_ERR_ARG, "comm: out is NULL");
    *out = NULL;
    if (!job || !settings)
        return ax_fail(ACCEL_ERR_ARG, "comm: no %s (NULL)",
                       job ? "settings" : "job");
    st = create(job, settings, &c);
    if ((st = exchange(c, st, job, &listen_fd)) != ACCEL_OK)
        goto out;
    if ((st = join(c, listen_fd)) != ACCEL_OK)
        goto out;
    describe(c);
    *out = c;
    c = NULL;
out:
    if (listen_fd >= 0)
        close(listen_fd);
    accel_comm_close(c);
    return st;
}

void accel_comm_close(accel_comm_t *c)
{
    if (!c)
        return;
    /* a child of fork() has only copies; the connections are its parent's */
    if (c->forks == ax_forks()) {
        if (c->seg)
            atomic_store_explicit(&ax_line(c->seg, c->local_rank)->left, 1,
                                  memory_order_release);
        ax_inter_close(c);
    }
    destroy(c);
}

int accel_comm_rank(const accel_comm_t *c)
{
    return c ? c->rank : -1;
}

int accel_comm_size(const accel_comm_t *c)
{
    return c ? c->size : -1;
}

const char *accel_comm_transport(const accel_comm_t *c)
{
    return c ? c->transport : "";
}

accel_job_t *ax_comm_job(const accel_comm_t *c)
{
    return c->job;
}
