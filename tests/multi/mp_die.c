/*
 * One rank ends, or goes silent, amid collectives; what do the others say?
 *   mp_die MODE RANK [SECONDS]
 * MODE: kill, node (and with it all ranks of its node), segv, exit0, close,
 * fork (killed while a child holds its descriptors), spawn (the same with a
 * program), stop (SIGSTOP for SECONDS by a child, then on), sleep (SECONDS
 * before its next call), before (sleep before the first one), random (killed at
 * a random moment by a child), hang (stopped at one, for SECONDS), differ (with
 * MP_LARGE: calls another operation). A survivor prints "survivor R STATUS
 * seconds N: TEXT" and ends with status 3; when nothing went wrong all end with
 * status 0, rank 0 having printed "fine", and who waited prints the processor
 * time that took. MP_WAY=ring, or another one of comm/plan.h, makes all go that
 * way between nodes; the sums become maxima, which every way can find.
 * MP_RAILS=1: all ranks carry their slices of large messages; 0: only leaders
 * do. MP_LARGE=1: all operations in turn, with messages of several segments.
 */
#include "comm/comm_priv.h"
#include "multi/mp_start.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BEFORE 200 /* rounds */
#define AFTER 300

static accel_comm_t *comm;
static int rank, size;
static const char *mode;
static double seconds;
static bool forced;

static double now(void)
{
    return (double)ax_now_ns() / 1e9;
}

static void nap(double time)
{
    struct timespec ts = {.tv_sec = (time_t)time};

    ts.tv_nsec = (long)((time - (double)ts.tv_sec) * 1e9);
    while (nanosleep(&ts, &ts) != 0)
        ;
}

static void say(double since)
{
    const accel_error_t *e = accel_last_error();
    char line[800];
    int n =
        snprintf(line, sizeof line, "survivor %d %s seconds %.1f: %s\n", rank,
                 accel_status_name(e->status), now() - since, e->text);

    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(4);
}

/* A child that stops its parent for a while. */
static void stop_me(void)
{
    pid_t parent = getpid();

    if (fork() == 0) {
        kill(parent, SIGSTOP);
        nap(seconds);
        kill(parent, SIGCONT);
        _exit(0);
    }
}

/* A child that kills its parent within 30 ms, wherever it is then. */
static void kill_me_later(int sig)
{
    pid_t parent = getpid();

    if (fork() == 0) {
        srand((unsigned)ax_now_ns());
        nap((double)(rand() % 30000) / 1e6);
        kill(parent, sig);
        if (sig == SIGSTOP) {
            nap(seconds);
            kill(parent, SIGCONT);
        }
        _exit(0);
    }
}

/* A program that runs on when its parent is gone. */
static void start_program(void)
{
    char *const argv[] = {(char *)"sleep", (char *)"15", NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    pid_t child;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addclose(&files, STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&files, STDERR_FILENO);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID);
    if (posix_spawnp(&child, "sleep", &files, &attr, argv, environ) != 0)
        exit(5);
}

static void end_here(void)
{
    if (strcmp(mode, "kill") == 0 || strcmp(mode, "node") == 0)
        raise(SIGKILL);
    else if (strcmp(mode, "segv") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    } else if (strcmp(mode, "exit0") == 0)
        _exit(0);
    else if (strcmp(mode, "close") == 0) {
        accel_comm_close(comm);
        nap(3);
        _exit(0);
    } else if (strcmp(mode, "fork") == 0) {
        if (fork() == 0) {
            setsid(); /* out of reach of a launcher that cleans up */
            close(STDOUT_FILENO);
            close(STDERR_FILENO);
            nap(15);
            _exit(0);
        }
        raise(SIGKILL);
    } else if (strcmp(mode, "spawn") == 0) {
        start_program();
        raise(SIGKILL);
    } else if (strcmp(mode, "stop") == 0)
        stop_me();
    else if (strcmp(mode, "sleep") == 0)
        nap(seconds);
    else if (strcmp(mode, "random") == 0)
        kill_me_later(SIGKILL);
    else if (strcmp(mode, "hang") == 0)
        kill_me_later(SIGSTOP);
}

/* With MP_START each sum is started between two others, and waited for. */
static accel_status_t sum_of(float *x, size_t count)
{
    accel_op_t op = forced ? ACCEL_MAX : ACCEL_SUM;
    accel_request_t *reqs[3] = {NULL};
    accel_status_t st;

    if (!getenv("MP_START"))
        return accel_comm_allreduce(comm, x, x, count, ACCEL_F32, op);
    if ((st = accel_comm_barrier_start(comm, &reqs[0])) != ACCEL_OK ||
        (st = accel_comm_allreduce_start(comm, x, x, count, ACCEL_F32, op,
                                         &reqs[1])) != ACCEL_OK ||
        (st = accel_comm_barrier_start(comm, &reqs[2])) != ACCEL_OK)
        return st;
    return accel_request_wait_all(reqs, 3);
}

static accel_status_t round_of(int i)
{
    static float big[70000];
    size_t counts[] = {1, 100, 5000, 70000};
    size_t count = counts[i % 16 == 0 ? 3 : i % 3];
    accel_status_t st;

    for (size_t k = 0; k < count; k++)
        big[k] = (float)(rank + i % 5);
    if (i % 4 == 3)
        return accel_comm_barrier(comm);
    st = sum_of(big, count);
    float want = (float)(size * (size - 1) / 2 + size * (i % 5));
    if (forced)
        want = (float)(size - 1 + i % 5);
    for (size_t k = 0; st == ACCEL_OK && k < count; k++)
        if (big[k] != want) {
            fprintf(stderr, "rank %d: wrong sum\n", rank);
            exit(5);
        }
    return st;
}

/* ---- MP_LARGE ---------------------------------------------------------------
 */

#define PART 30000 /* elements for each rank, or of each */
#define LARGE_RANKS 16

static float large[2][PART * LARGE_RANKS];

static float value_of(int from, int to, int i)
{
    return (float)(from * 3 + to * 5 + i % 7);
}

static void fill_part(float *at, float value)
{
    for (int k = 0; k < PART; k++)
        at[k] = value;
}

static void want_part(const float *at, float value)
{
    for (int k = 0; k < PART; k++)
        if (at[k] != value) {
            fprintf(stderr, "rank %d: %g, wants %g\n", rank, (double)at[k],
                    (double)value);
            exit(5);
        }
}

/* The largest of all ranks' first parts, or of those for rank `to`. */
static float largest(int to, int i)
{
    return value_of(size - 1, to, i);
}

static accel_status_t move_large(int i, int root)
{
    float *send = large[0], *recv = large[1];

    switch (i % 8) {
    case 0:
        return accel_comm_allreduce(comm, send, recv, (size_t)size * PART,
                                    ACCEL_F32, ACCEL_MAX);
    case 1:
        return accel_comm_reduce_scatter(comm, send, recv, PART, ACCEL_F32,
                                         ACCEL_MAX);
    case 2:
        return accel_comm_allgather(comm, send, recv, PART, ACCEL_F32);
    case 3:
        return accel_comm_alltoall(comm, send, recv, PART, ACCEL_F32);
    case 4:
        return accel_comm_gather(comm, send, recv, PART, ACCEL_F32, root);
    case 5:
        return accel_comm_scatter(comm, send, recv, PART, ACCEL_F32, root);
    case 6:
        return accel_comm_reduce(comm, send, recv, (size_t)size * PART,
                                 ACCEL_F32, ACCEL_MAX, root);
    default:
        return accel_comm_broadcast(comm, send, (size_t)size * PART, ACCEL_F32,
                                    root);
    }
}

static void check_large(int i, int root)
{
    bool at_root = rank == root;

    for (int r = 0; r < size; r++) {
        const float *of = large[1] + (size_t)r * PART;
        if (i % 8 == 0 || (i % 8 == 6 && at_root))
            want_part(of, largest(r, i));
        else if (i % 8 == 2 || (i % 8 == 4 && at_root))
            want_part(of, value_of(r, 0, i));
        else if (i % 8 == 3)
            want_part(of, value_of(r, rank, i));
        else if (i % 8 == 7)
            want_part(large[0] + (size_t)r * PART, value_of(root, r, i));
    }
    if (i % 8 == 1)
        want_part(large[1], largest(rank, i));
    if (i % 8 == 5)
        want_part(large[1], value_of(root, rank, i));
}

static accel_status_t large_round(int i, bool other)
{
    int root = i / 8 % size;

    if (other)
        return move_large(i + 1, root);

    for (int r = 0; r < size; r++)
        fill_part(large[0] + (size_t)r * PART, value_of(rank, r, i));
    accel_status_t st = move_large(i, root);
    if (st == ACCEL_OK)
        check_large(i, root);
    return st;
}

static bool is_struck(int culprit)
{
    return rank == culprit || (strcmp(mode, "node") == 0 &&
                               ax_node_of(comm, culprit) == comm->node);
}

static int loop(int culprit)
{
    double start = now();
    bool big = getenv("MP_LARGE") && size <= LARGE_RANKS;
    bool differs = strcmp(mode, "differ") == 0;
    int before = big ? 17 : BEFORE;
    bool endless = strcmp(mode, "random") == 0 || strcmp(mode, "hang") == 0;
    int rounds = endless ? 1000000 : before + AFTER;

    for (int i = 0; i < rounds; i++) {
        if (i == before && is_struck(culprit))
            end_here();
        if (i == before)
            start = now();
        bool other = rank == culprit && i == before && differs;
        if ((big ? large_round(i, other) : round_of(i)) == ACCEL_OK)
            continue;
        say(start);
        /* the same again, at once */
        accel_status_t first = accel_last_error()->status;
        if (accel_comm_barrier(comm) != first) {
            fprintf(stderr, "rank %d: went on after an error\n", rank);
            exit(5);
        }
        return 3;
    }
    return 0;
}

static void take_way(const char *name)
{
    ax_way_t way;

    if (!name)
        return;
    if (!ax_way_parse(name, &way))
        _exit(2);
    ax_inter_force(comm, (int)way);
    forced = true;
}

/* With MP_PART all of it happens in a part, whose ranks count down. */
static accel_comm_t *take_part(accel_comm_t *world)
{
    accel_comm_t *part;

    if (!getenv("MP_PART"))
        return world;
    if (accel_comm_split(world, 0, -rank, &part) != ACCEL_OK) {
        fprintf(stderr, "%s\n", accel_last_error()->text);
        exit(1);
    }
    return part;
}

int main(int argc, char **argv)
{
    accel_settings_t *settings;
    accel_comm_t *world;
    accel_job_t *job;

    if (argc < 3)
        return 2;
    mode = argv[1];
    seconds = argc > 3 ? atof(argv[3]) : 1;
    if (accel_settings_load(NULL, &settings) != ACCEL_OK ||
        accel_job_open(settings, mp_oob(), &job) != ACCEL_OK ||
        accel_comm_open(job, settings, &world) != ACCEL_OK) {
        fprintf(stderr, "%s\n", accel_last_error()->text);
        return 1;
    }
    if (getenv("MP_DEBUG"))
        ax_log_setup(AX_LOG_DEBUG, accel_comm_rank(world), "");
    rank = accel_comm_rank(world);
    size = accel_comm_size(world);
    comm = take_part(world);
    take_way(getenv("MP_WAY"));
    if (getenv("MP_RAILS"))
        ax_inter_force_rails(comm, atoi(getenv("MP_RAILS")));
    if (strcmp(mode, "before") == 0 && rank == atoi(argv[2]))
        nap(seconds);
    int rc = loop(atoi(argv[2]));
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    if (rc == 0)
        printf("rank %d cpu %.2f\n", rank,
               (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
    if (rc == 0 && rank == 0)
        printf("fine\n");
    fflush(stdout);
    if (comm != world)
        accel_comm_close(comm);
    accel_comm_close(world);
    accel_job_close(job);
    accel_settings_free(settings);
    mp_end(rc == 0);
    return rc;
}
