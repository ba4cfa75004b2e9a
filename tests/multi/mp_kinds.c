/*
 * Ranks that end in any of the operations, several at once, and children while
 * one is under way. Run it under a launcher:
 *   mp_kinds end OPERATION RANK...  these ranks kill themselves amid a loop of
 *                                   the operation ("list" prints their names)
 *   mp_kinds forks                  children end while operations are started
 * A survivor prints "survivor R STATUS: TEXT" and ends with status 3.
 */
#include <accel.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 3000 /* elements of each rank */
#define RANKS 8
#define BEFORE 20 /* rounds */

static accel_comm_t *comm;
static int rank, size;
static float *in, *out;
static size_t counts[RANKS];
static accel_parts_t parts = {.counts = counts, .mine = COUNT};

static void check(accel_status_t status, const char *what)
{
    if (status == ACCEL_OK)
        return;
    fprintf(stderr, "mp_kinds: rank %d: %s: %s\n", rank, what,
            accel_last_error()->text);
    exit(1);
}

static accel_status_t do_broadcast(void)
{
    return accel_comm_broadcast(comm, in, COUNT, ACCEL_F32, 1);
}

static accel_status_t do_reduce(void)
{
    return accel_comm_reduce(comm, in, out, COUNT, ACCEL_F32, ACCEL_SUM, 1);
}

static accel_status_t do_reduce_scatter(void)
{
    return accel_comm_reduce_scatter(comm, in, out, COUNT, ACCEL_F32,
                                     ACCEL_SUM);
}

static accel_status_t do_reduce_scatter_v(void)
{
    return accel_comm_reduce_scatterv(comm, in, out, counts, ACCEL_F32,
                                      ACCEL_SUM);
}

static accel_status_t do_all_gather(void)
{
    return accel_comm_allgather(comm, in, out, COUNT, ACCEL_F32);
}

static accel_status_t do_all_gather_v(void)
{
    return accel_comm_allgatherv(comm, in, out, &parts, ACCEL_F32);
}

static accel_status_t do_gather(void)
{
    return accel_comm_gather(comm, in, out, COUNT, ACCEL_F32, 1);
}

static accel_status_t do_gather_v(void)
{
    return accel_comm_gatherv(comm, in, out, &parts, ACCEL_F32, 1);
}

static accel_status_t do_scatter(void)
{
    return accel_comm_scatter(comm, in, out, COUNT, ACCEL_F32, 1);
}

static accel_status_t do_scatter_v(void)
{
    return accel_comm_scatterv(comm, in, out, &parts, ACCEL_F32, 1);
}

static accel_status_t do_all_to_all(void)
{
    return accel_comm_alltoall(comm, in, out, COUNT, ACCEL_F32);
}

static accel_status_t do_all_to_all_v(void)
{
    return accel_comm_alltoallv(comm, in, &parts, out, &parts, ACCEL_F32);
}

static accel_status_t do_bytes(void)
{
    void *all;
    size_t *at;
    accel_status_t st =
        accel_comm_allgather_bytes(comm, in, (size_t)rank * 100, &all, &at);

    free(all);
    free(at);
    return st;
}

static accel_status_t do_split(void)
{
    accel_comm_t *part;
    accel_status_t st = accel_comm_split(comm, rank % 2, rank, &part);

    if (st == ACCEL_OK)
        accel_comm_close(part);
    return st;
}

static accel_status_t do_alloc(void)
{
    void *p;
    accel_status_t st = accel_alloc(comm, 5000, &p);

    return st == ACCEL_OK ? accel_free(comm, p) : st;
}

static accel_status_t do_started(void)
{
    accel_request_t *reqs[2] = {NULL};
    size_t index;
    accel_status_t st =
        accel_comm_allgather_start(comm, in, out, COUNT, ACCEL_F32, &reqs[0]);

    if (st == ACCEL_OK)
        st = accel_comm_barrier_start(comm, &reqs[1]);
    if (st == ACCEL_OK)
        st = accel_request_wait_any(reqs, 2, &index);
    return st == ACCEL_OK ? accel_request_wait_all(reqs, 2) : st;
}

static const struct {
    const char *name;
    accel_status_t (*run)(void);
} operations[] = {
    {"broadcast", do_broadcast},
    {"reduce", do_reduce},
    {"reduce-scatter", do_reduce_scatter},
    {"reduce-scatter-v", do_reduce_scatter_v},
    {"all-gather", do_all_gather},
    {"all-gather-v", do_all_gather_v},
    {"gather", do_gather},
    {"gather-v", do_gather_v},
    {"scatter", do_scatter},
    {"scatter-v", do_scatter_v},
    {"all-to-all", do_all_to_all},
    {"all-to-all-v", do_all_to_all_v},
    {"bytes", do_bytes},
    {"split", do_split},
    {"alloc", do_alloc},
    {"started", do_started},
};

#define OPERATIONS (sizeof operations / sizeof *operations)

static int run_end(const char *name, char **who, int count)
{
    size_t k = 0;
    accel_status_t st = ACCEL_OK;

    while (k < OPERATIONS && strcmp(operations[k].name, name) != 0)
        k++;
    if (k == OPERATIONS)
        return 2;
    for (int i = 0; st == ACCEL_OK; i++) {
        for (int w = 0; i == BEFORE && w < count; w++)
            if (rank == atoi(who[w]))
                (void)raise(SIGKILL);
        st = operations[k].run();
    }
    char line[700];
    int n = snprintf(line, sizeof line, "survivor %d %s: %s\n", rank,
                     accel_status_name(st), accel_last_error()->text);
    if (n > 0 && (size_t)n >= sizeof line)
        n = sizeof line - 1;
    if (write(STDOUT_FILENO, line, (size_t)n) != n ||
        accel_comm_barrier(comm) != st)
        return 5;
    return 3;
}

/* Children that end, in their own ways, while this rank's thread works. */
static int run_forks(void)
{
    for (int i = 0; i < 50; i++) {
        accel_request_t *reqs[8];
        float x[8];
        int status = -1;
        for (int k = 0; k < 8; k++) {
            x[k] = (float)(rank + k);
            check(accel_comm_allreduce_start(comm, &x[k], &x[k], 1, ACCEL_F32,
                                             ACCEL_SUM, &reqs[k]),
                  "start");
        }
        pid_t child = fork();
        if (child == 0 && i % 3 == 0)
            accel_comm_close(comm);
        if (child == 0 && i % 3 < 2)
            exit(0); /* with the handlers of the parent */
        if (child == 0)
            _exit(accel_request_wait(&reqs[0]) == ACCEL_ERR_STATE ? 0 : 9);
        check(accel_request_wait_all(reqs, 8), "wait");
        for (int k = 0; k < 8; k++)
            if (x[k] != (float)(size * (size - 1) / 2 + size * k))
                return 5;
        if (waitpid(child, &status, 0) != child || status != 0)
            return 6;
    }
    if (rank == 0)
        printf("ok: %d ranks\n", size);
    return 0;
}

int main(int argc, char **argv)
{
    accel_settings_t *settings;
    accel_job_t *job;
    int rc = 2;

    if (argc > 1 && strcmp(argv[1], "list") == 0) {
        for (size_t k = 0; k < OPERATIONS; k++)
            printf("%s\n", operations[k].name);
        return 0;
    }
    for (int r = 0; r < RANKS; r++)
        counts[r] = COUNT;
    check(accel_settings_load(NULL, &settings), "settings");
    check(accel_job_open(settings, NULL, &job), "job");
    rank = accel_job_rank(job);
    size = accel_job_size(job);
    in = calloc((size_t)RANKS * COUNT, sizeof *in);
    out = calloc((size_t)RANKS * COUNT, sizeof *out);
    if (!in || !out || size > RANKS)
        return 4;
    check(accel_comm_open(job, settings, &comm), "open");
    if (argc > 3 && strcmp(argv[1], "end") == 0)
        rc = run_end(argv[2], argv + 3, argc - 3);
    else if (argc == 2 && strcmp(argv[1], "forks") == 0)
        rc = run_forks();
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    free(in);
    free(out);
    return rc;
}
