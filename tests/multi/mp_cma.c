/*
 * One copy between the ranks of a node, and what may come in its way:
 *   mp_cma values        all collectives that can, in many sizes and places
 *   mp_cma reads         the same, and a rank that writes into another's memory
 *                        is killed
 *   mp_cma refused       the kernel refuses it to the last rank from the start
 *   mp_cma late          from the second operation on
 *   mp_cma nomem         it has no memory for it
 *   mp_cma parts         parts of one rank and of two are made
 *   mp_cma short         the last rank's buffers end before they should
 *   mp_cma readonly      and may not be written
 *   mp_cma killed        the last rank is killed amid large messages; a
 *                        survivor prints "survivor R STATUS: TEXT" and ends
 *                        with 3
 * Rank 0 prints "ok: " and what accel_comm_transport() says.
 */
#include "comm/cma_priv.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LARGE ((size_t)1 << 20)
#define LEAST 65u /* forced, so that small sizes go that way as well */

static accel_comm_t *comm;
static int rank, size;

static void check(bool good, const char *what, size_t bytes, int root)
{
    if (good)
        return;
    fprintf(stderr, "mp_cma: rank %d of %d: %s of %zu bytes, root %d: %s\n",
            rank, size, what, bytes, root, accel_last_error()->text);
    exit(1);
}

/* What the kernel says to calls `from` and `to`. */
static void filter(unsigned from, unsigned to, unsigned answer)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, from, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, to, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {.len = AX_ARRAY_SIZE(code), .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("mp_cma: seccomp");
        exit(1);
    }
}

/* It says no, as in many containers. */
static void refuse(void)
{
    filter(SYS_process_vm_readv, SYS_process_vm_writev,
           SECCOMP_RET_ERRNO | EPERM);
}

/* ---- values -----------------------------------------------------------------
 */

static unsigned char byte_of(int from, size_t at, unsigned round)
{
    return (unsigned char)(at * 7 + at / 4096 + (size_t)from * 31 + round);
}

static void fill(unsigned char *p, size_t bytes, int from, size_t at,
                 unsigned round)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = byte_of(from, at + i, round);
}

static bool holds(const unsigned char *p, size_t bytes, int from, size_t at,
                  unsigned round)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != byte_of(from, at + i, round))
            return false;
    return true;
}

static void try_broadcast(unsigned char *x, size_t bytes, int root,
                          unsigned round)
{
    memset(x, 0, bytes);
    if (rank == root)
        fill(x, bytes, root, 0, round);
    check(accel_comm_broadcast(comm, x, bytes, ACCEL_U8, root) == ACCEL_OK &&
              holds(x, bytes, root, 0, round),
          "broadcast", bytes, root);
}

/* To all, in place or not; and to one. */
static void try_gather(unsigned char *send, unsigned char *recv, size_t bytes,
                       int root, unsigned round)
{
    bool place = round % 2, all = round % 4 < 2;
    unsigned char *own =
        place && (all || rank == root) ? recv + (size_t)rank * bytes : send;
    accel_status_t st;

    memset(recv, 0, bytes * (size_t)size);
    fill(own, bytes, rank, 0, round);
    st = all ? accel_comm_allgather(comm, own, recv, bytes, ACCEL_U8)
             : accel_comm_gather(comm, own, recv, bytes, ACCEL_U8, root);
    check(st == ACCEL_OK, "gather", bytes, root);
    for (int r = 0; r < size && (all || rank == root); r++)
        check(holds(recv + (size_t)r * bytes, bytes, r, 0, round), "gather",
              bytes, root);
}

static void try_scatter(unsigned char *send, unsigned char *recv, size_t bytes,
                        int root, unsigned round)
{
    unsigned char *place = rank == root && round % 2 && root == rank
                               ? send + (size_t)rank * bytes
                               : recv;

    memset(recv, 0, bytes);
    if (rank == root)
        for (int r = 0; r < size; r++)
            fill(send + (size_t)r * bytes, bytes, root, (size_t)r, round);
    check(accel_comm_scatter(comm, send, place, bytes, ACCEL_U8, root) ==
                  ACCEL_OK &&
              holds(place, bytes, root, (size_t)rank, round),
          "scatter", bytes, root);
}

static void *must(void *p)
{
    check(p != NULL, "no memory", 0, 0);
    return p;
}

/* Private memory, then that of some ranks in the heap, then that of all. */
static void values(size_t most)
{
    static const size_t sizes[] = {66,     4095,   4096,    65537,
                                   131072, 300001, 1048576, 1300003};
    unsigned char *mine = must(malloc(most * (size_t)size));
    unsigned char *other = must(malloc(most * (size_t)size));
    void *heap = NULL;
    unsigned round = 0;

    check(accel_alloc(comm, most * (size_t)size, &heap) == ACCEL_OK, "alloc",
          most, 0);
    for (int step = 0; step < 3; step++) {
        unsigned char *x = step == 0               ? mine
                           : step == 1 && rank % 2 ? mine
                                                   : (unsigned char *)heap;
        for (size_t i = 0; i < AX_ARRAY_SIZE(sizes) && sizes[i] <= most; i++) {
            int root = (int)(i + (size_t)step) % size;
            try_broadcast(x, sizes[i], root, ++round);
            for (int k = 0; k < 4; k++)
                try_gather(x, other, sizes[i], root, ++round);
            for (int k = 0; k < 2; k++)
                try_scatter(x, other, sizes[i], root, ++round);
        }
    }
    free(mine);
    free(other);
}

/* ---- faults -----------------------------------------------------------------
 */

/* A quarter of it is there, or all but nobody may write it. */
static unsigned char *bad_memory(size_t bytes, bool readonly)
{
    unsigned char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED ||
        mprotect(readonly ? p : p + bytes / 4, readonly ? bytes : bytes / 4 * 3,
                 readonly ? PROT_READ : PROT_NONE) != 0) {
        perror("mp_cma: mmap");
        exit(1);
    }
    return p;
}

static void expect_bad(accel_status_t st, const char *what, bool readonly)
{
    char cause[64];

    snprintf(cause, sizeof cause, "cannot be %s from byte ",
             readonly ? "written" : "read");
    const char *text = accel_last_error()->text;
    bool says = strstr(text, "cannot be read from byte ") ||
                strstr(text, "cannot be written from byte ");
    check(st == ACCEL_ERR_ARG && says && (!readonly || strstr(text, cause)),
          what, LARGE, 0);
    check(rank == size - 1 || strstr(text, "rank "), "names no rank", LARGE, 0);
}

/* An error on all, and the communicator goes on, with one copy. */
static void bad_pointers(bool readonly)
{
    unsigned char *good = must(malloc(LARGE * (size_t)size));
    unsigned char *bad = bad_memory(LARGE * (size_t)size, readonly);
    unsigned char *part = must(calloc(LARGE, 1));
    int last = size - 1;
    unsigned char *x = rank == last ? bad : good;

    expect_bad(accel_comm_allgather(comm, part, x, LARGE, ACCEL_U8),
               "all-gather", readonly);
    try_gather(part, good, LARGE / 2, last, 1);
    if (!readonly) {
        x = rank == last ? bad + LARGE * (size_t)last : part;
        expect_bad(accel_comm_gather(comm, x, rank == 0 ? good : NULL, LARGE,
                                     ACCEL_U8, 0),
                   "gather", readonly);
    }
    check(comm->cma.least != 0, "gave up", LARGE, 0);
    free(good);
    free(part);
}

static void nap(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void kill_me_later(void)
{
    pid_t parent = getpid();

    if (fork() != 0)
        return;
    srand((unsigned)ax_now_ns());
    nap(1000000 + rand() % 30 * 1000000);
    kill(parent, SIGKILL);
    _exit(0);
}

static int killed(void)
{
    unsigned char *x = must(malloc(8 * LARGE));
    unsigned char *all = must(malloc(8 * LARGE * (size_t)size));
    accel_status_t st = ACCEL_OK;

    memset(x, rank, 8 * LARGE);
    if (rank == size - 1)
        kill_me_later();
    for (int i = 0; st == ACCEL_OK; i++)
        st = i % 2
                 ? accel_comm_broadcast(comm, x, 8 * LARGE, ACCEL_U8, i % size)
                 : accel_comm_allgather(comm, x, all, 8 * LARGE, ACCEL_U8);
    printf("survivor %d %s: %s\n", rank, accel_status_name(st),
           accel_last_error()->text);
    free(x);
    free(all);
    return 3;
}

static void make_parts(void)
{
    accel_comm_t *pair, *alone;

    check(accel_comm_split(comm, rank / 2, rank, &pair) == ACCEL_OK, "split", 0,
          0);
    check(accel_comm_split(comm, rank, rank, &alone) == ACCEL_OK, "split", 0,
          0);
    accel_comm_close(alone);
    accel_comm_close(pair);
}

/* ---- the program ------------------------------------------------------------
 */

static int run(const char *mode)
{
    if (strcmp(mode, "killed") == 0)
        return killed();
    if (strcmp(mode, "short") == 0 || strcmp(mode, "readonly") == 0) {
        bad_pointers(strcmp(mode, "readonly") == 0);
        return 0;
    }
    if (strcmp(mode, "parts") == 0) {
        make_parts();
        return 0;
    }
    ax_cma_force(comm, LEAST);
    if (strcmp(mode, "nomem") == 0) {
        if (rank == size - 1)
            filter(SYS_process_vm_readv, SYS_process_vm_writev,
                   SECCOMP_RET_ERRNO | ENOMEM);
        values(LARGE / 2);
        check(comm->cma.least == LEAST, "gave up", 0, 0);
        return 0;
    }
    if (strcmp(mode, "reads") == 0) {
        size_t least = comm->cma.least;
        filter(SYS_process_vm_writev, SYS_process_vm_writev,
               SECCOMP_RET_KILL_PROCESS);
        values(LARGE);
        check(comm->cma.least == least, "gave up", 0, 0);
        return 0;
    }
    if (strcmp(mode, "late") == 0) {
        unsigned char x[4096];
        check(comm->cma.least != 0, "not used", 0, 0);
        try_broadcast(x, sizeof x, 0, 1);
        if (rank == size - 1)
            refuse();
        values(LARGE / 2);
        check(comm->cma.least == 0, "went on", 0, 0);
        return 0;
    }
    values(2 * LARGE);
    return 0;
}

int main(int argc, char **argv)
{
    accel_settings_t *settings;
    accel_job_t *job;

    if (argc != 2)
        return 2;
    if (accel_settings_load(NULL, &settings) != ACCEL_OK ||
        accel_job_open(settings, NULL, &job) != ACCEL_OK)
        return 1;
    if (strcmp(argv[1], "refused") == 0 &&
        accel_job_rank(job) == accel_job_size(job) - 1)
        refuse();
    if (accel_comm_open(job, settings, &comm) != ACCEL_OK) {
        fprintf(stderr, "mp_cma: %s\n", accel_last_error()->text);
        return 1;
    }
    rank = accel_comm_rank(comm);
    size = accel_comm_size(comm);
    int status = run(argv[1]);
    if (status == 0 && rank == 0)
        printf("ok: %s\n", accel_comm_transport(comm));
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    return status;
}
