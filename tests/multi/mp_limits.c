/*
 * Collectives where something is scarce, or beside children. Run it under a
 * launcher:
 *   mp_limits big BYTES  all-reduces of so many bytes, in the heap and not
 *   mp_limits forks      each rank has children meanwhile, some of which call
 *   mp_limits parts R    rank R has too few open files for a communicator more
 *   mp_limits lines N [MS]  says N lines, one every MS milliseconds, and is
 *                        killed without a warning
 * Rank 0 prints "ok" once; a rank that is told of an error prints it and ends
 * with status 3.
 */
#include "comm/comm_priv.h"
#include <accel/train.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static accel_comm_t *comm;
static int rank, size;

static void check(accel_status_t status, const char *what)
{
    if (status == ACCEL_OK)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, accel_last_error()->text);
    exit(3);
}

static void sum_is_right(float *x, size_t count)
{
    float want = (float)(size * (size - 1) / 2);

    for (size_t i = 0; i < count; i++)
        x[i] = (float)rank;
    check(accel_comm_allreduce(comm, x, x, count, ACCEL_F32, ACCEL_SUM),
          "all-reduce");
    for (size_t i = 0; i < count; i++)
        if (x[i] != want) {
            fprintf(stderr, "rank %d: wrong sum\n", rank);
            exit(5);
        }
}

static void run_big(size_t bytes)
{
    size_t count = bytes / sizeof(float);
    float *own = malloc(bytes + 1);
    void *heap;

    check(own ? ACCEL_OK : ax_fail(ACCEL_ERR_NOMEM, "no memory"), "malloc");
    sum_is_right(own, count);
    check(accel_alloc(comm, bytes, &heap), "accel_alloc");
    sum_is_right(heap, count);
    check(accel_free(comm, heap), "accel_free");
    free(own);
}

static void run_parts(int poor)
{
    accel_comm_t *part = NULL;
    int next = fcntl(0, F_DUPFD, 0);
    rlim_t few = (rlim_t)next + 8;

    close(next);
    if (rank == poor && setrlimit(RLIMIT_NOFILE, &(struct rlimit){few, few}))
        exit(4);
    accel_status_t st = accel_comm_split(comm, 0, rank, &part);
    const char *text = accel_last_error()->text;
    if (st != ACCEL_ERR_SYS || part || !strstr(text, "open files needed")) {
        fprintf(stderr, "rank %d: split: %d %s\n", rank, st, text);
        exit(5);
    }
    check(accel_comm_barrier(comm), "barrier");
}

/* ---- children ---------------------------------------------------------------
 */

static pid_t child(void (*run)(void))
{
    pid_t pid = fork();

    if (pid == 0) {
        run();
        exit(0); /* with all handlers that the parent has */
    }
    check(pid > 0 ? ACCEL_OK : ax_fail(ACCEL_ERR_SYS, "fork"), "fork");
    return pid;
}

static void end_at_once(void)
{
}

static void live_on(void)
{
    (void)pause();
}

static void is_refused(accel_status_t st)
{
    if (st != ACCEL_ERR_STATE ||
        !strstr(accel_last_error()->text, "child of fork()"))
        _exit(9);
}

static float *heap; /* HEAP numbers that the parent looks after */
#define HEAP ((size_t)1 << 20)

static void call_it(void)
{
    accel_parts_t parts = {.counts = (size_t[]){1, 1, 1, 1, 1, 1, 1, 1}};
    accel_comm_t *part;
    accel_request_t *request;
    float x[8] = {1}, y[8];
    size_t *at;
    void *p;

    is_refused(accel_comm_barrier(comm));
    is_refused(accel_comm_broadcast(comm, x, 1, ACCEL_F32, 0));
    is_refused(accel_comm_allreduce(comm, x, y, 1, ACCEL_F32, ACCEL_SUM));
    is_refused(accel_comm_reduce(comm, x, y, 1, ACCEL_F32, ACCEL_SUM, 0));
    is_refused(accel_comm_reduce_scatter(comm, x, y, 1, ACCEL_F32, ACCEL_SUM));
    is_refused(accel_comm_reduce_scatterv(comm, x, y, parts.counts, ACCEL_F32,
                                          ACCEL_SUM));
    is_refused(accel_comm_allgather(comm, x, y, 1, ACCEL_F32));
    is_refused(accel_comm_allgatherv(comm, x, y, &parts, ACCEL_F32));
    is_refused(accel_comm_allgather_bytes(comm, x, 4, &p, &at));
    is_refused(accel_comm_gather(comm, x, y, 1, ACCEL_F32, 0));
    is_refused(accel_comm_gatherv(comm, x, y, &parts, ACCEL_F32, 0));
    is_refused(accel_comm_scatter(comm, x, y, 1, ACCEL_F32, 0));
    is_refused(accel_comm_scatterv(comm, x, y, &parts, ACCEL_F32, 0));
    is_refused(accel_comm_alltoall(comm, x, y, 1, ACCEL_F32));
    is_refused(accel_comm_alltoallv(comm, x, &parts, y, &parts, ACCEL_F32));
    is_refused(accel_comm_send(comm, x, 1, ACCEL_F32, 0, 0));
    is_refused(accel_comm_recv(comm, x, 1, ACCEL_F32, 0, 0));
    is_refused(accel_comm_allreduce_start(comm, x, y, 1, ACCEL_F32, ACCEL_SUM,
                                          &request));
    is_refused(accel_comm_split(comm, 0, 0, &part));
    is_refused(accel_alloc(comm, 8, &p));
    is_refused(accel_free(comm, heap));
    accel_comm_close(comm); /* closes nothing of the parent's */
}

/* All of the parts of all ranks, as far as it can be reached. */
static void scribble(void)
{
    if (heap[0] != 7 || heap[HEAP - 1] != 7)
        _exit(8);
    memset(heap, 0xff, HEAP * sizeof *heap);
    memset(comm->seg->slots, 0xff, comm->seg->slot_bytes);
    memset((void *)ax_line(comm->seg, 0), 0xff, sizeof(ax_line_t));
    if (heap[1] == 7)
        _exit(9);
}

/* In all ranks meanwhile. */
static void heap_is_whole(void)
{
    for (size_t i = 0; i < HEAP; i++)
        if (heap[i] != 7) {
            fprintf(stderr, "rank %d: a child wrote to the heap\n", rank);
            exit(5);
        }
}

static void wait_for(pid_t pid, int want)
{
    int status = -1;

    if (waitpid(pid, &status, 0) != pid || status != want) {
        fprintf(stderr, "rank %d: a child ended with %#x\n", rank,
                (unsigned)status);
        exit(5);
    }
}

static void run_forks(void)
{
    float x[3000];
    void *memory;

    check(accel_alloc(comm, HEAP * sizeof *heap, &memory), "accel_alloc");
    heap = memory;
    for (size_t i = 0; i < HEAP; i++)
        heap[i] = 7;
    pid_t lives = child(live_on);
    pid_t ends = child(end_at_once);
    pid_t calls = child(call_it);
    pid_t writes = child(scribble);

    for (int i = 0; i < 1000; i++) {
        sum_is_right(x, i % 10 ? 1 : 3000);
        if (i % 250 == 100) {
            FILE *f = popen("true", "r");
            check(f && pclose(f) == 0 ? ACCEL_OK
                                      : ax_fail(ACCEL_ERR_SYS, "popen"),
                  "popen");
        }
    }
    wait_for(ends, 0);
    wait_for(calls, 0);
    wait_for(writes, 0);
    heap_is_whole();
    kill(lives, SIGKILL);
    wait_for(lives, SIGKILL);
    sum_is_right(heap, HEAP);
    check(accel_free(comm, heap), "accel_free");
    sum_is_right(x, 3000);
}

/* ---- lines ------------------------------------------------------------------
 */

/* What a program has said is there, whatever becomes of it then. */
static int run_lines(int count, int ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    accel_t *acc;

    if (accel_open(NULL, &acc) != ACCEL_OK) {
        fprintf(stderr, "%s\n", accel_last_error()->text);
        return 3;
    }
    accel_comm_t *world = accel_get_comm(acc);
    if (accel_comm_rank(world) > 0) /* accel_printf() would let it out */
        printf("kept back by the program\n");
    for (int i = 0; i < count; i++) {
        if (ms > 0)
            (void)nanosleep(&pause, NULL);
        ax_log(AX_LOG_WARN, "line %d of many that are said at once", i);
        accel_printf(acc, "said %d by the first\n", i);
        (void)accel_comm_barrier(world);
    }
    raise(SIGKILL);
    return 4;
}

int main(int argc, char **argv)
{
    accel_settings_t *settings;
    accel_job_t *job;

    if (argc >= 3 && strcmp(argv[1], "lines") == 0)
        return run_lines(atoi(argv[2]), argc > 3 ? atoi(argv[3]) : 0);
    check(accel_settings_load(NULL, &settings), "settings");
    check(accel_job_open(settings, NULL, &job), "job");
    rank = accel_job_rank(job);
    check(accel_comm_open(job, settings, &comm), "accel_comm_open");
    size = accel_comm_size(comm);
    if (argc == 3 && strcmp(argv[1], "big") == 0)
        run_big((size_t)strtoull(argv[2], NULL, 10));
    else if (argc == 3 && strcmp(argv[1], "parts") == 0)
        run_parts(atoi(argv[2]));
    else if (argc == 2 && strcmp(argv[1], "forks") == 0)
        run_forks();
    else
        return 2;
    if (rank == 0)
        printf("ok: %d ranks\n", size);
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    return 0;
}
