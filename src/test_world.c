/* accel test: who and where the ranks are, and that they can meet. */
#include "cmd.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void check_identity(struct test *test, struct finding *finding)
{
    accel_t *accel = test->accel;
    int size = accel_size(accel);
    int32_t mine = accel_rank(accel);
    int32_t *all = calloc((size_t)size, sizeof *all);

    if (all_ready(test, all, finding) &&
        went_well(finding, accel_comm_allgather(accel_get_comm(accel), &mine,
                                                all, 1, ACCEL_I32)))
        for (int r = 0; r < size; r++)
            if (all[r] != r)
                wrong(finding, "place %d is taken by rank %d", r, (int)all[r]);
    free(all);
    snprintf(finding->detail, sizeof finding->detail,
             "%d rank%s, told by %s; transport %s", size, size == 1 ? "" : "s",
             accel_job_provider(accel_get_job(accel)),
             accel_comm_transport(accel_get_comm(accel)));
    if (size == 1)
        snprintf(finding->note, sizeof finding->note,
                 "a world of one: nothing between ranks is tested (%.180s)",
                 accel_job_reason(accel_get_job(accel)));
}

/* "n1: 0-1, n2: 2-3", cut when it is long. */
static void draw(const accel_job_t *job, char *text, size_t room)
{
    size_t used = 0;

    for (int n = 0; n < accel_job_nodes(job) && used + 40 < room; n++) {
        int count = 0, first = -1;
        for (int r = 0; r < accel_job_size(job); r++)
            if (accel_job_node_of(job, r) == n) {
                first = first < 0 ? r : first;
                count++;
            }
        used += (size_t)snprintf(text + used, room - used,
                                 "%s%.20s: %d from rank %d", n ? ", " : "",
                                 accel_job_node_name(job, n), count, first);
        used = used < room ? used : room - 1;
    }
}

void check_placement(struct test *test, struct finding *finding)
{
    const accel_job_t *job = accel_get_job(test->accel);
    int seen = 0;

    draw(job, finding->detail, sizeof finding->detail);
    for (int r = 0; r < accel_job_size(job); r++) {
        if (accel_job_node_of(job, r) != accel_job_node(job))
            continue;
        if (accel_job_local_rank_of(job, r) != seen)
            wrong(finding, "rank %d has local rank %d, %d was expected", r,
                  accel_job_local_rank_of(job, r), seen);
        if (r == accel_job_rank(job) && accel_job_local_rank(job) != seen)
            wrong(finding, "my local rank is %d, %d was expected",
                  accel_job_local_rank(job), seen);
        seen++;
    }
    if (seen != accel_job_local_size(job))
        wrong(finding, "%d ranks on this node, but local size %d", seen,
              accel_job_local_size(job));
}

/* Hardware threads of one rank, as its neighbours see them. */
struct binding {
    int32_t node;
    int32_t threads;
    char cpus[120];
};

/* Ranks of a node that may run only where others may, too. */
static int sharers(const struct binding *all, int size, int rank)
{
    int count = 0;

    for (int r = 0; r < size; r++)
        count += all[r].node == all[rank].node &&
                 strcmp(all[r].cpus, all[rank].cpus) == 0;
    return count;
}

static void judge(const struct binding *all, int size, struct finding *finding)
{
    int fewest = all[0].threads, most = all[0].threads;

    for (int r = 0; r < size; r++) {
        int with = sharers(all, size, r);
        fewest = all[r].threads < fewest ? all[r].threads : fewest;
        most = all[r].threads > most ? all[r].threads : most;
        if (with > all[r].threads && !finding->note[0])
            snprintf(finding->note, sizeof finding->note,
                     "%d ranks share the CPUs %.60s: slow; ask for more with "
                     "srun --cpus-per-task, or start fewer tasks a node",
                     with, all[r].cpus);
    }
    snprintf(finding->detail, sizeof finding->detail,
             "%d to %d hardware threads for a rank; rank 0 on %.100s", fewest,
             most, all[0].cpus);
}

void check_binding(struct test *test, struct finding *finding)
{
    accel_t *accel = test->accel;
    size_t size = (size_t)accel_size(accel);
    struct binding mine = {.node = accel_node(accel)};
    struct binding *all = calloc(size, sizeof *all);
    accel_topo_t *topo;

    if (went_well(finding, accel_topo_open(NULL, &topo))) {
        mine.threads = accel_topo_threads(topo);
        snprintf(mine.cpus, sizeof mine.cpus, "%s", accel_topo_cpus(topo));
        accel_topo_close(topo);
        if (mine.threads < 1)
            wrong(finding, "no hardware thread to run on");
    }
    if (all_ready(test, all, finding) &&
        went_well(finding, accel_comm_allgather(accel_get_comm(accel), &mine,
                                                all, sizeof mine, ACCEL_U8)))
        judge(all, (int)size, finding);
    free(all);
}

#define ROUNDS 20

/* Nobody may leave before the last has come. The clocks of two nodes tell
 * nothing about each other, so that each node is looked at by itself. */
void check_barrier(struct test *test, struct finding *finding)
{
    accel_t *accel = test->accel;
    accel_comm_t *comm = accel_get_comm(accel);
    size_t nodes = (size_t)accel_nodes(accel);
    int64_t *last = calloc(nodes, sizeof *last);
    bool ready = all_ready(test, last, finding);

    for (int i = 0; ready && i < ROUNDS; i++) {
        bool late = i % accel_size(accel) == accel_rank(accel);
        nanosleep(&(struct timespec){.tv_nsec = late ? 2000000 : 0}, NULL);
        memset(last, 0, nodes * sizeof *last);
        last[accel_node(accel)] = cmd_now_ns();
        int64_t before = last[accel_node(accel)];
        if (!went_well(finding, accel_wait_for_everyone(accel)))
            break;
        int64_t after = cmd_now_ns();
        if (!went_well(finding, accel_comm_allreduce(comm, last, last, nodes,
                                                     ACCEL_I64, ACCEL_MAX)))
            break;
        if (after < last[accel_node(accel)] || after < before)
            wrong(finding, "left round %d before the last rank came", i);
    }
    free(last);
    snprintf(finding->detail, sizeof finding->detail,
             "%d rounds, a late rank in each", ROUNDS);
}
