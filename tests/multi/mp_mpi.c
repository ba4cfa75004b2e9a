/*
 * Life of accel and MPI in one program, with net=mpi between pretended nodes:
 *   mp_mpi MODE
 * under mpirun or srun; the modes are in the table below. Each rank has a node
 * of its own unless MP_NODES=1. A rank prints "rank R: ok" or "rank R: STATUS
 * TEXT" and ends with 0 or 1; "mp_mpi: ..." is a fault of accel or of the test.
 */
#include <accel.h>
#include <accel/mpi.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int world_rank, world_size;

/* One accel over a communicator. */
struct part {
    accel_mpi_t mpi;
    accel_settings_t *settings;
    accel_job_t *job;
    accel_comm_t *comm;
};

static void fault(const char *what)
{
    fprintf(stderr, "mp_mpi: rank %d: %s; accel's last: %s\n", world_rank, what,
            accel_last_error()->text);
    _exit(9);
}

static void check(bool good, const char *what)
{
    if (!good)
        fault(what);
}

static void start_mpi(int wanted)
{
    int level;

    MPI_Init_thread(NULL, NULL, wanted, &level);
    check(level >= wanted, "MPI gives no such level of threads");
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
}

static accel_status_t open_job(struct part *part, const accel_oob_t *oob)
{
    accel_status_t st = accel_settings_load(NULL, &part->settings);

    if (st == ACCEL_OK)
        st = accel_job_open(part->settings, oob, &part->job);
    if (st == ACCEL_OK)
        st = accel_comm_open(part->job, part->settings, &part->comm);
    return st;
}

static accel_status_t open_part(struct part *part, MPI_Comm comm)
{
    *part = (struct part){.job = NULL};
    check(accel_mpi_adopt(comm, &part->mpi) == MPI_SUCCESS, "adopt");
    if (!getenv("MP_NODES"))
        snprintf(part->mpi.node, sizeof part->mpi.node, "n%d",
                 part->mpi.oob.rank);
    return open_job(part, &part->mpi.oob);
}

static void close_part(struct part *part)
{
    accel_comm_close(part->comm);
    accel_job_close(part->job);
    accel_settings_free(part->settings);
    check(accel_mpi_release(&part->mpi) == MPI_SUCCESS, "release");
    check(accel_mpi_release(&part->mpi) == MPI_SUCCESS, "release twice");
}

/* A sum over the ranks of the part that each of them can check. */
static accel_status_t sum(const struct part *part, int64_t mine, int64_t want)
{
    int64_t got = mine;
    accel_status_t st =
        accel_comm_allreduce(part->comm, &got, &got, 1, ACCEL_I64, ACCEL_SUM);

    if (st == ACCEL_OK)
        check(got == want, "wrong sum");
    return st;
}

static accel_status_t sum_of_ranks(const struct part *part)
{
    int64_t n = accel_comm_size(part->comm);

    return sum(part, accel_comm_rank(part->comm), n * (n - 1) / 2);
}

static int tell(accel_status_t st)
{
    if (st == ACCEL_OK)
        printf("rank %d: ok\n", world_rank);
    else
        printf("rank %d: %s %s\n", world_rank, accel_status_name(st),
               accel_last_error()->text);
    fflush(stdout);
    return st == ACCEL_OK ? 0 : 1;
}

static int end(struct part *part, accel_status_t st)
{
    int rc = tell(st);

    close_part(part);
    MPI_Finalize();
    return rc;
}

/* ---- modes -----------------------------------------------------------------
 */

/* Messages of 0 bytes to 16 MiB, around every switch of the transport. */
static int sizes(void)
{
    static const size_t counts[] = {0,    1,    503,  504,    505,
                                    1023, 1024, 4096, 262144, 4194304};
    struct part part;
    size_t most = 4194304;
    int *data = malloc(most * sizeof *data);

    start_mpi(MPI_THREAD_SERIALIZED);
    check(data != NULL, "memory");
    accel_status_t st = open_part(&part, MPI_COMM_WORLD);
    for (size_t i = 0; st == ACCEL_OK && i < sizeof counts / sizeof *counts;
         i++) {
        int root = (int)(i % (size_t)world_size);
        for (size_t k = 0; k < counts[i]; k++)
            data[k] = world_rank == root ? (int)(k ^ i) : -1;
        st = accel_comm_broadcast(part.comm, data, counts[i], ACCEL_I32, root);
        for (size_t k = 0; st == ACCEL_OK && k < counts[i]; k++)
            check(data[k] == (int)(k ^ i), "broadcast");
        if (st == ACCEL_OK)
            st = accel_comm_allreduce(part.comm, data, data, counts[i],
                                      ACCEL_I32, ACCEL_SUM);
        for (size_t k = 0; st == ACCEL_OK && k < counts[i]; k++)
            check(data[k] == (int)(k ^ i) * world_size, "all-reduce");
    }
    free(data);
    return end(&part, st);
}

/* More bytes than an int counts, so that a message goes in chunks. */
static int big(void)
{
    struct part part;
    size_t bytes = ((size_t)1 << 31) + 5;
    static const size_t at[] = {0,
                                1,
                                (size_t)1 << 30,
                                ((size_t)1 << 31) - 1,
                                (size_t)1 << 31,
                                ((size_t)1 << 31) + 4};
    unsigned char *data = calloc(bytes, 1);

    start_mpi(MPI_THREAD_SERIALIZED);
    check(data != NULL, "memory");
    for (size_t i = 0; world_rank == 0 && i < sizeof at / sizeof *at; i++)
        data[at[i]] = (unsigned char)(i + 1);
    accel_status_t st = open_part(&part, MPI_COMM_WORLD);
    if (st == ACCEL_OK)
        st = accel_comm_broadcast(part.comm, data, bytes, ACCEL_U8, 0);
    for (size_t i = 0; st == ACCEL_OK && i < sizeof at / sizeof *at; i++)
        check(data[at[i]] == i + 1, "broadcast");
    free(data);
    return end(&part, st);
}

/*
 * The program's own messages, some of them under way during accel's
 * operations and received from anybody under any tag, and its collectives.
 */
static int interleaved(void)
{
    struct part part;
    accel_status_t st;

    start_mpi(MPI_THREAD_SERIALIZED);
    st = open_part(&part, MPI_COMM_WORLD);
    for (int i = 0; st == ACCEL_OK && i < 200; i++) {
        int out = world_rank * 1000 + i, in = -1, all = 0;
        int next = (world_rank + 1) % world_size;
        int last = (world_rank + world_size - 1) % world_size;
        MPI_Request recv, send;
        MPI_Status status;
        MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                  &recv);
        st = sum_of_ranks(&part);
        MPI_Isend(&out, 1, MPI_INT, next, i % 3, MPI_COMM_WORLD, &send);
        if (st == ACCEL_OK)
            st = accel_comm_barrier(part.comm);
        MPI_Wait(&recv, &status);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        check(in == last * 1000 + i && status.MPI_SOURCE == last &&
                  status.MPI_TAG == i % 3,
              "a message of the program");
        MPI_Allreduce(&out, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        check(all == (world_size - 1) * 1000 + i, "MPI_Allreduce");
    }
    return end(&part, st);
}

/* Two halves train, each by itself. */
static int halves(void)
{
    struct part part;
    MPI_Comm half;

    start_mpi(MPI_THREAD_SERIALIZED);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &half);
    accel_status_t st = open_part(&part, half);
    check(st != ACCEL_OK || accel_comm_size(part.comm) ==
                                (world_size + !(world_rank % 2)) / 2,
          "size of the half");
    for (int i = 0; st == ACCEL_OK && i < 100; i++)
        st = sum_of_ranks(&part);
    MPI_Comm_free(&half);
    return end(&part, st);
}

/* Half of the processes has nothing to do with accel. */
static int some(void)
{
    struct part part;
    MPI_Comm half;
    int rc = 0, two = 2;
    bool trains = world_rank % 2 == 0;

    start_mpi(MPI_THREAD_SERIALIZED);
    trains = world_rank < (world_size + 1) / 2;
    MPI_Comm_split(MPI_COMM_WORLD, trains ? 1 : MPI_UNDEFINED, 0, &half);
    if (trains) {
        accel_status_t st = open_part(&part, half);
        for (int i = 0; st == ACCEL_OK && i < 100; i++)
            st = sum_of_ranks(&part);
        rc = tell(st);
        close_part(&part);
        MPI_Comm_free(&half);
    }
    MPI_Allreduce(MPI_IN_PLACE, &two, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(two == 2 * world_size, "MPI_Allreduce");
    MPI_Finalize();
    return rc;
}

/* Communicators of accel's own: parts of the job that overlap each other. */
static int split(void)
{
    struct part part;
    accel_comm_t *odd = NULL, *back = NULL;
    accel_status_t st;

    start_mpi(MPI_THREAD_SERIALIZED);
    st = open_part(&part, MPI_COMM_WORLD);
    if (st == ACCEL_OK)
        st = accel_comm_split(part.comm, world_rank % 2, 0, &odd);
    if (st == ACCEL_OK)
        st = accel_comm_split(part.comm, 0, -world_rank, &back);
    for (int i = 0; st == ACCEL_OK && i < 60; i++) {
        struct part of = {.comm = i % 3 == 0   ? part.comm
                                  : i % 3 == 1 ? odd
                                               : back};
        check(i % 3 != 2 ||
                  accel_comm_rank(back) == world_size - 1 - world_rank,
              "rank in the reverse order");
        st = sum_of_ranks(&of);
    }
    accel_comm_close(odd);
    accel_comm_close(back);
    return end(&part, st);
}

/* Two of them at once, and again, over the same processes. */
static int twice(void)
{
    struct part a, b;
    accel_status_t st = ACCEL_OK;

    start_mpi(MPI_THREAD_SERIALIZED);
    for (int i = 0; st == ACCEL_OK && i < 3; i++) {
        st = open_part(&a, MPI_COMM_WORLD);
        if (st == ACCEL_OK)
            st = open_part(&b, MPI_COMM_WORLD);
        for (int k = 0; st == ACCEL_OK && k < 50; k++) {
            st = sum_of_ranks(k % 3 ? &a : &b);
            if (st == ACCEL_OK)
                st = sum(k % 2 ? &a : &b, k, (int64_t)k * world_size);
        }
        close_part(i % 2 ? &b : &a); /* the other goes on */
        if (st == ACCEL_OK)
            st = sum_of_ranks(i % 2 ? &a : &b);
        if (i < 2)
            close_part(i % 2 ? &a : &b);
    }
    return end(&b, st);
}

static int single(void)
{
    struct part part;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    return end(&part, open_part(&part, MPI_COMM_WORLD));
}

static void *main_of_thread(void *arg)
{
    static accel_status_t st;

    st = sum_of_ranks(arg);
    if (st != ACCEL_OK)
        tell(st);
    return &st;
}

static int funneled(void)
{
    struct part part;

    start_mpi(MPI_THREAD_FUNNELED);
    return end(&part, open_part(&part, MPI_COMM_WORLD));
}

/* The second operation comes from another thread. */
static int serialized(void)
{
    struct part part;
    pthread_t other;
    void *result;

    start_mpi(MPI_THREAD_SERIALIZED);
    accel_status_t st = open_part(&part, MPI_COMM_WORLD);
    if (st == ACCEL_OK)
        st = sum_of_ranks(&part);
    if (st != ACCEL_OK)
        return end(&part, st);
    check(pthread_create(&other, NULL, main_of_thread, &part) == 0, "thread");
    pthread_join(other, &result);
    check(*(accel_status_t *)result == ACCEL_OK, "sum in a thread");
    return end(&part, sum_of_ranks(&part));
}

/*
 * Started operations on three communicators at once, each with a thread of its
 * own; with MPI_THREAD_MULTIPLE the program uses MPI meanwhile.
 */
static accel_status_t started_round(accel_comm_t *const *comms, int i,
                                    bool uses_mpi)
{
    enum { COUNT = 20000 };
    static int32_t data[3][COUNT];
    accel_request_t *requests[3] = {NULL, NULL, NULL};
    accel_status_t st = ACCEL_OK;
    int all = i;

    for (int k = 0; st == ACCEL_OK && k < 3; k++) {
        for (int n = 0; n < COUNT; n++)
            data[k][n] = n + i;
        st = accel_comm_allreduce_start(comms[k], data[k], data[k],
                                        i % 2 ? COUNT : 10, ACCEL_I32,
                                        ACCEL_SUM, &requests[k]);
    }
    for (int n = 0; uses_mpi && n < 5; n++)
        MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    check(all == i, "MPI_Allreduce");
    accel_status_t waited = accel_request_wait_all(requests, 3);
    for (int k = 0; st == ACCEL_OK && waited == ACCEL_OK && k < 3; k++)
        check(data[k][9] == accel_comm_size(comms[k]) * (9 + i), "sum");
    return st == ACCEL_OK ? waited : st;
}

static int started(int level)
{
    accel_comm_t *comms[3] = {NULL, NULL, NULL};
    struct part part;
    accel_status_t st;

    start_mpi(level);
    st = open_part(&part, MPI_COMM_WORLD);
    comms[0] = part.comm;
    if (st == ACCEL_OK)
        st = accel_comm_split(part.comm, world_rank % 2, 0, &comms[1]);
    if (st == ACCEL_OK)
        st = accel_comm_split(part.comm, 0, -world_rank, &comms[2]);
    for (int i = 0; st == ACCEL_OK && i < 40; i++)
        st = started_round(comms, i, level == MPI_THREAD_MULTIPLE);
    accel_comm_close(comms[1]);
    accel_comm_close(comms[2]);
    return end(&part, st);
}

static int started_alone(void)
{
    return started(MPI_THREAD_SERIALIZED);
}

static int started_beside(void)
{
    return started(MPI_THREAD_MULTIPLE);
}

/* MPI ends before accel. */
static int finalize(void)
{
    struct part part;

    start_mpi(MPI_THREAD_SERIALIZED);
    accel_status_t st = open_part(&part, MPI_COMM_WORLD);
    if (st == ACCEL_OK)
        st = sum_of_ranks(&part);
    if (st != ACCEL_OK)
        return end(&part, st);
    MPI_Finalize();
    int rc = tell(sum_of_ranks(&part));
    close_part(&part);
    return rc;
}

/* As a program may that is done with accel: it just forgets to close. */
static int forget(void)
{
    struct part part;

    start_mpi(MPI_THREAD_SERIALIZED);
    accel_status_t st = open_part(&part, MPI_COMM_WORLD);
    if (st == ACCEL_OK)
        st = sum_of_ranks(&part);
    MPI_Finalize();
    return tell(st);
}

/* MPI has ended before accel begins. */
static int finalized(void)
{
    accel_mpi_t mpi;

    start_mpi(MPI_THREAD_SERIALIZED);
    MPI_Finalize();
    check(accel_mpi_adopt(MPI_COMM_WORLD, &mpi) == MPI_ERR_OTHER,
          "adopted after MPI_Finalize");
    check(mpi.comm == MPI_COMM_NULL && mpi.oob.size == 0, "left something");
    check(accel_mpi_release(&mpi) == MPI_SUCCESS, "release");
    struct part part = {.job = NULL};
    int rc = tell(open_job(&part, NULL)); /* PMIx; no net on one node */
    accel_comm_close(part.comm);
    accel_job_close(part.job);
    accel_settings_free(part.settings);
    return rc;
}

/* A hook without a communicator, over fewer ranks than MPI has processes. */
static int fewer(void)
{
    struct part part = {.job = NULL};
    MPI_Comm half;

    start_mpi(MPI_THREAD_SERIALIZED);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
    check(accel_mpi_adopt(half, &part.mpi) == MPI_SUCCESS, "adopt");
    snprintf(part.mpi.node, sizeof part.mpi.node, "n%d", world_rank);
    part.mpi.oob.mpi_comm = NULL;
    accel_status_t st = open_job(&part, &part.mpi.oob);
    MPI_Comm_free(&half);
    return end(&part, st);
}

static int wrong_communicators(void)
{
    accel_mpi_t mpi;
    MPI_Comm half, between;

    check(accel_mpi_adopt(MPI_COMM_WORLD, &mpi) == MPI_ERR_OTHER,
          "adopted before MPI_Init");
    start_mpi(MPI_THREAD_SERIALIZED);
    check(accel_mpi_adopt(MPI_COMM_NULL, &mpi) == MPI_ERR_COMM,
          "adopted MPI_COMM_NULL");
    check(world_size > 1, "one process only");
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world_rank % 2, 5,
                         &between);
    check(accel_mpi_adopt(between, &mpi) == MPI_ERR_COMM,
          "adopted an intercommunicator");
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return tell(ACCEL_OK);
}

/* The nodes as MPI sees them: one machine, whatever its name. */
static int nodes(void)
{
    struct part part;

    start_mpi(MPI_THREAD_SERIALIZED);
    accel_status_t st = open_part(&part, MPI_COMM_WORLD);
    if (st == ACCEL_OK)
        printf("node %d of %d is %s\n", accel_job_node(part.job),
               accel_job_nodes(part.job),
               accel_job_node_name(part.job, accel_job_node(part.job)));
    if (st == ACCEL_OK)
        st = sum_of_ranks(&part);
    return end(&part, st);
}

static int aborts(void)
{
    struct part part;

    start_mpi(MPI_THREAD_SERIALIZED);
    accel_status_t st = open_part(&part, MPI_COMM_WORLD);
    if (st == ACCEL_OK)
        st = sum_of_ranks(&part);
    if (st == ACCEL_OK && world_rank == world_size - 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (st == ACCEL_OK)
        st = sum_of_ranks(&part);
    tell(st); /* or it was ended by then */
    _exit(1);
}

/* One rank calls something else. */
static int disagree(void)
{
    struct part part;

    start_mpi(MPI_THREAD_SERIALIZED);
    accel_status_t st = open_part(&part, MPI_COMM_WORLD);
    if (st == ACCEL_OK && world_rank == 1)
        st = accel_comm_barrier(part.comm);
    else if (st == ACCEL_OK)
        st = sum_of_ranks(&part);
    return end(&part, st); /* nobody is gone: MPI goes on */
}

/* ---- without a communicator: accel starts MPI ------------------------------
 */

static struct part plain;

static accel_status_t open_plain(void)
{
    return open_job(&plain, NULL);
}

static int close_plain(accel_status_t st)
{
    world_rank = accel_comm_rank(plain.comm);
    int rc = tell(st);

    accel_comm_close(plain.comm);
    accel_job_close(plain.job);
    accel_settings_free(plain.settings);
    return rc;
}

/* Opened, closed and opened again; then the program uses MPI, which runs. */
static int starts(void)
{
    int there = 0, over = 0, size = 0;
    accel_status_t st = open_plain();

    if (st == ACCEL_OK)
        st = sum_of_ranks(&plain);
    int rc = close_plain(st);
    if (st != ACCEL_OK)
        return rc;
    plain = (struct part){.job = NULL};
    st = open_plain();
    if (st == ACCEL_OK)
        st = sum_of_ranks(&plain);
    int ranks = accel_comm_size(plain.comm);
    rc = close_plain(st);
    MPI_Initialized(&there);
    MPI_Finalized(&over);
    check(there && !over, "MPI does not run any more");
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(size == ranks, "size of MPI_COMM_WORLD");
    MPI_Allreduce(MPI_IN_PLACE, &there, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(there == ranks, "MPI_Allreduce");
    return rc; /* and MPI_Finalize() is accel's */
}

/* The program ends what accel has started. */
static int starts_and_ends(void)
{
    accel_status_t st = open_plain();

    if (st == ACCEL_OK)
        st = sum_of_ranks(&plain);
    int rc = close_plain(st);
    if (st == ACCEL_OK)
        MPI_Finalize();
    return rc;
}

/* MPI first, no communicator given: both find the same ranks. */
static int beside(void)
{
    start_mpi(MPI_THREAD_SERIALIZED);
    accel_status_t st = open_plain();
    if (st == ACCEL_OK)
        st = sum_of_ranks(&plain);
    int rc = close_plain(st);
    MPI_Finalize();
    return rc;
}

static const struct {
    const char *name;
    int (*run)(void);
} modes[] = {{"sizes", sizes},
             {"big", big},
             {"interleaved", interleaved},
             {"halves", halves},
             {"some", some},
             {"split", split},
             {"twice", twice},
             {"single", single},
             {"funneled", funneled},
             {"serialized", serialized},
             {"started", started_alone},
             {"beside-started", started_beside},
             {"finalize", finalize},
             {"forget", forget},
             {"finalized", finalized},
             {"fewer", fewer},
             {"wrong", wrong_communicators},
             {"nodes", nodes},
             {"abort", aborts},
             {"disagree", disagree},
             {"starts", starts},
             {"ends", starts_and_ends},
             {"beside", beside}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    fprintf(stderr, "mp_mpi: no such mode\n");
    return 2;
}
