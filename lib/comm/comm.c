/* A communicator's tables, its end, and what it tells of itself. */
#include "comm/levels.h"

#include <stdlib.h>
#include <string.h>

#define CLOSE_GRACE_NS 5000000000u /* a call may be that much late */

static accel_status_t make_tables(accel_comm_t *c)
{
    size_t size = (size_t)c->size;
    size_t most = (size_t)accel_job_nodes(c->job) + 1;

    c->named = calloc(size, sizeof *c->named);
    c->job_node = calloc(most, sizeof *c->job_node);
    c->node_of = calloc(size, sizeof *c->node_of);
    c->position = calloc(size, sizeof *c->position);
    c->rank_at = calloc(size, sizeof *c->rank_at);
    c->node_first = calloc(most, sizeof *c->node_first);
    c->node_bytes = calloc(most, sizeof *c->node_bytes);
    c->beats = calloc(size, sizeof *c->beats);
    c->seen = calloc(size, sizeof *c->seen);
    c->sources = calloc(size, sizeof *c->sources);
    c->targets = calloc(size, sizeof *c->targets);
    c->part_at = calloc(size + 1, sizeof *c->part_at);
    if (!c->named || !c->job_node || !c->node_of || !c->position ||
        !c->rank_at || !c->node_first || !c->node_bytes || !c->beats ||
        !c->seen || !c->sources || !c->targets || !c->part_at)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %zu ranks", size);
    return ACCEL_OK;
}

/* Nodes are numbered in the order of their lowest rank, as the job does. */
static void number_nodes(accel_comm_t *c)
{
    for (int r = 0; r < c->size; r++) {
        int node = accel_job_node_of(c->job, c->named[r]);
        int k = 0;
        while (k < c->nodes && c->job_node[k] != node)
            k++;
        if (k == c->nodes)
            c->job_node[c->nodes++] = node;
        c->node_of[r] = k;
        c->node_first[k + 1]++;
    }
    c->rails = c->node_first[1];
    for (int k = 0; k < c->nodes; k++) {
        if (c->node_first[k + 1] < c->rails)
            c->rails = c->node_first[k + 1];
        c->node_first[k + 1] += c->node_first[k];
    }
}

static void place_ranks(accel_comm_t *c)
{
    for (int r = 0; r < c->size; r++) {
        /* node_bytes counts the ranks of each node, and is put back */
        int k = c->node_of[r];
        int at = c->node_first[k] + (int)c->node_bytes[k]++;
        c->position[r] = at;
        c->rank_at[at] = r;
    }
    memset(c->node_bytes, 0, (size_t)c->nodes * sizeof *c->node_bytes);
    c->node = c->node_of[c->rank];
    c->local_rank = ax_local_of(c, c->rank);
    c->local_size = ax_ranks_on(c, c->node);
}

accel_status_t ax_comm_create(const ax_members_t *members, accel_comm_t **out)
{
    accel_comm_t *c = calloc(1, sizeof *c);
    accel_status_t st;

    *out = NULL;
    if (!c)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory");
    c->job = members->job;
    c->settings = members->settings;
    c->rank = members->rank;
    c->size = members->size;
    c->timeout_ns =
        (uint64_t)ax_settings_int(c->settings, "timeout") * 1000000000u;
    c->forks = ax_forks();
    if ((st = make_tables(c)) != ACCEL_OK) {
        ax_comm_destroy(c);
        return st;
    }
    for (int r = 0; r < c->size; r++)
        c->named[r] = members->named ? members->named[r] : r;
    number_nodes(c);
    place_ranks(c);
    *out = c;
    return ACCEL_OK;
}

void ax_comm_destroy(accel_comm_t *c)
{
    if (!c)
        return;
    if (c->seg) {
        ax_heap_fini(c);
        ax_pairs_fini(c);
        ax_seg_close(c->seg);
    }
    free(c->queue); /* in a child of fork(), which has no such thread */
    free(c->named);
    free(c->job_node);
    free(c->node_of);
    free(c->position);
    free(c->rank_at);
    free(c->node_first);
    free(c->node_bytes);
    free(c->part_at);
    free(c->beats);
    free(c->seen);
    ax_levels_free(c->levels);
    free(c->sources);
    free(c->targets);
    free(c);
}

/* The call of another thread ends within its own bound. One that does not is
 * that of the thread which a signal took here: what it uses must stay. */
static bool come_in_last(accel_comm_t *c)
{
    if (ax_guard_wait(&c->guard, c->timeout_ns + CLOSE_GRACE_NS))
        return true;
    ax_log(AX_LOG_ERROR, "comm: not closed: a thread is still in a call of "
                         "this communicator; join it before accel_comm_close");
    return false;
}

void accel_comm_close(accel_comm_t *c)
{
    if (!c)
        return;
    /* a child of fork() has only copies; the connections are its parent's */
    if (c->forks == ax_forks()) {
        if (!come_in_last(c))
            return;
        ax_queue_close(c);
        if (c->seg) {
            atomic_store_explicit(&ax_line(c->seg, c->local_rank)->left, 1,
                                  memory_order_release);
            ax_bell_ring(c->seg);
        }
        ax_inter_close(c);
    }
    ax_comm_destroy(c);
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

int ax_comm_local_rank(const accel_comm_t *c)
{
    return c->local_rank;
}

int ax_comm_local_size(const accel_comm_t *c)
{
    return c->local_size;
}
