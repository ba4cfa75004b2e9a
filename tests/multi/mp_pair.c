/*
 * Messages between processes, and what their ranks hear when one ends.
 *
 *   mp_pair ring N           N rounds of a ring of growing messages
 *   mp_pair tags             between each two, received in another order, and
 *                            one that does not fit
 *   mp_pair kill R           rank R is killed while the others wait for it
 *   mp_pair amid R MS        it is killed after so long, while each rank
 *                            exchanges 64 MiB with its neighbours
 *   mp_pair close R          it closes instead
 *   mp_pair stop R SECONDS   it does nothing for so long, and then goes on
 */
#include <accel.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "multi/mp_start.h"

static accel_comm_t *comm;
static int rank, size;

static void check(accel_status_t status, const char *what)
{
    if (status == ACCEL_OK)
        return;
    fprintf(stderr, "mp_pair: rank %d: %s: %s\n", rank, what,
            accel_last_error()->text);
    exit(1);
}

static void pass_around(size_t count)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    double *out = calloc(count + 1, sizeof *out);
    double *in = calloc(count + 1, sizeof *in);

    if (!out || !in)
        exit(1);
    for (size_t i = 0; i < count; i++)
        out[i] = rank * 1e6 + (double)i;
    accel_outgoing_t send = {out, count, ACCEL_F64, right, 1};
    accel_incoming_t recv = {in, count, ACCEL_F64, left, 1};
    check(accel_comm_sendrecv(comm, &send, &recv), "sendrecv");
    for (size_t i = 0; i < count; i++)
        if (in[i] != left * 1e6 + (double)i) {
            fprintf(stderr, "mp_pair: rank %d: element %zu of %zu is wrong\n",
                    rank, i, count);
            exit(1);
        }
    free(out);
    free(in);
}

static void ring(int rounds)
{
    for (int i = 0; i < rounds; i++)
        for (size_t count = 0; count < 1000000; count = count * 7 + 1)
            pass_around(count);
    check(accel_comm_barrier(comm), "barrier");
    if (rank == 0)
        printf("ok: %d ranks\n", size);
}

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "mp_pair: rank %d: %s (last error: %s)\n", rank, what,
            accel_last_error()->text);
    exit(1);
}

/* Short, in the letter's company, and long; each begins with its tag. */
static const size_t sizes[] = {1, 3000, 3000000};
#define TAGS ((int)(sizeof sizes / sizeof *sizes))

static void send_tags(int to, char *data)
{
    for (int tag = TAGS - 1; tag >= 0; tag--) {
        memset(data, tag + 7 * rank, sizes[tag]);
        check(accel_comm_send(comm, data, sizes[tag], ACCEL_U8, to, tag),
              "send");
    }
}

static void recv_tags(int from, char *data)
{
    for (int tag = 0; tag < TAGS; tag++) {
        char want = (char)(tag + 7 * from);
        memset(data, 99, sizes[TAGS - 1] + 1);
        check(accel_comm_recv(comm, data, sizes[TAGS - 1] + 1, ACCEL_U8, from,
                              tag),
              "recv");
        must(data[0] == want && data[sizes[tag] - 1] == want, "wrong bytes");
        must(data[sizes[tag]] == 99, "bytes beyond the message");
    }
}

/* One element too many for a rank that waits for it, so that it is not taken
 * in before: both are told, and go on. */
static void misfit(int from, int to, char *data)
{
    accel_status_t st = ACCEL_ERR_PROTO;

    check(accel_comm_barrier(comm), "barrier");
    if (rank == from)
        st = accel_comm_send(comm, data, 30001, ACCEL_F32, to, 5);
    else if (rank == to)
        st = accel_comm_recv(comm, data, 30000, ACCEL_F32, from, 5);
    else
        return;
    must(st == ACCEL_ERR_PROTO && strstr(accel_last_error()->text, "30001"),
         "a message that does not fit");
}

static void tags(void)
{
    char *data = calloc(sizes[TAGS - 1] + 1, 1);

    must(data != NULL, "no memory");
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++) {
            if (a == b || (rank != a && rank != b))
                continue;
            if (rank == a)
                send_tags(b, data);
            else
                recv_tags(a, data);
        }
    misfit(0, 1, data);
    misfit(size - 1, 0, data);
    free(data);
    check(accel_comm_barrier(comm), "barrier");
    if (rank == 0)
        printf("ok: %d ranks\n", size);
}

/* Even ranks wait for a message of rank `dead`, odd ones for it to take
 * theirs. */
static void wait_for(int dead)
{
    static char big[1 << 20];
    time_t began = time(NULL);
    accel_status_t st =
        rank % 2 ? accel_comm_send(comm, big, sizeof big, ACCEL_U8, dead, 2)
                 : accel_comm_recv(comm, big, sizeof big, ACCEL_U8, dead, 3);

    printf("survivor %d %s seconds %d: %s\n", rank, accel_status_name(st),
           (int)(time(NULL) - began), st ? accel_last_error()->text : "");
}

/* Two ranks away from the one that dies a rank waits for one that has ended
 * since: the fault is everybody's. */
static void exchange_until(int dead, int ms)
{
    size_t bytes = (size_t)64 << 20;
    char *out = calloc(bytes, 1), *in = calloc(bytes, 1);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    accel_outgoing_t send = {out, bytes, ACCEL_U8, right, 1};
    accel_incoming_t recv = {in, bytes, ACCEL_U8, left, 1};
    struct timespec time = {.tv_sec = ms / 1000,
                            .tv_nsec = ms % 1000 * 1000000L};
    accel_status_t st = ACCEL_OK;
    pid_t me = getpid();

    must(out && in, "no memory");
    check(accel_comm_barrier(comm), "barrier");
    if (rank == dead && fork() == 0) {
        nanosleep(&time, NULL);
        kill(me, SIGKILL);
        _exit(0);
    }
    while (st == ACCEL_OK)
        st = accel_comm_sendrecv(comm, &send, &recv);
    printf("survivor %d %s: %s\n", rank, accel_status_name(st),
           accel_last_error()->text);
    fflush(stdout); /* before the close, which may end otherwise */
    free(out);
    free(in);
}

static void greet(int dead)
{
    char x = 1;

    for (int r = 0; r < size; r++)
        if (r != dead && rank == dead)
            check(accel_comm_send(comm, &x, 1, ACCEL_U8, r, 1), "greet");
    if (rank != dead)
        check(accel_comm_recv(comm, &x, 1, ACCEL_U8, dead, 1), "be greeted");
    /* or it would take in what is sent to it while it still greets others */
    check(accel_comm_barrier(comm), "barrier");
}

int main(int argc, char **argv)
{
    accel_settings_t *settings;
    accel_job_t *job;
    bool fine = true;
    const char *how = argc > 1 ? argv[1] : "ring";
    int who = argc > 2 ? atoi(argv[2]) : 1;

    check(accel_settings_load(NULL, &settings), "settings");
    check(accel_job_open(settings, mp_oob(), &job), "job");
    check(accel_comm_open(job, settings, &comm), "open");
    rank = accel_comm_rank(comm);
    size = accel_comm_size(comm);
    if (strcmp(how, "ring") == 0) {
        ring(who);
    } else if (strcmp(how, "tags") == 0) {
        tags();
    } else if (strcmp(how, "amid") == 0) {
        exchange_until(who, argc > 3 ? atoi(argv[3]) : 100);
        fine = false;
    } else {
        greet(who);
        if (rank == who && strcmp(how, "kill") == 0)
            (void)raise(SIGKILL);
        else if (rank == who && strcmp(how, "stop") == 0)
            sleep((unsigned)(argc > 3 ? atoi(argv[3]) : 1));
        else if (rank != who)
            wait_for(who);
        fine = false;
    }
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    mp_end(fine);
    return 0;
}
