/*
 * Each allocation of the library fails once, on one rank: all ranks get the
 * same error, and the same call succeeds afterwards. Ranks are threads; the
 * linker leads what the library allocates through here (--wrap), so that
 * neither UCX nor a sanitizer notices, and the latter sees leaks.
 */
#include "unit/unit.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);

#define BOARD_MALLOC __real_malloc
#include "unit/ranks.h"

#include <errno.h>
#include <unistd.h>

/* ---- memory that fails ------------------------------------------------------
 */

static _Thread_local struct {
    bool armed, fired;
    long at, seen;
} fault;

static bool fails(void)
{
    if (!fault.armed || ++fault.seen != fault.at)
        return false;
    fault.fired = true;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails() ? NULL : __real_realloc(old, bytes);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

static void arm(bool victim, long k)
{
    fault.at = k;
    fault.seen = 0;
    fault.fired = false;
    fault.armed = victim;
}

/* ---- what is called ---------------------------------------------------------
 */

#define MOST 4

typedef struct bench {
    rank_of_t *me;
    accel_comm_t *comm;
    size_t n; /* elements of a part */
    float *send, *recv;
    size_t counts[MOST];
    accel_parts_t parts;
} bench_t;

typedef accel_status_t (*call_fn)(bench_t *b);

static accel_status_t do_barrier(bench_t *b)
{
    return accel_comm_barrier(b->comm);
}

static accel_status_t do_broadcast(bench_t *b)
{
    return accel_comm_broadcast(b->comm, b->recv, b->n, ACCEL_F32, 1);
}

static accel_status_t do_allreduce(bench_t *b)
{
    return accel_comm_allreduce(b->comm, b->send, b->recv, b->n, ACCEL_F32,
                                ACCEL_SUM);
}

static accel_status_t do_reduce(bench_t *b)
{
    return accel_comm_reduce(b->comm, b->send, b->recv, b->n, ACCEL_F32,
                             ACCEL_SUM, 1);
}

static accel_status_t do_reduce_scatter(bench_t *b)
{
    return accel_comm_reduce_scatter(b->comm, b->send, b->recv, b->n, ACCEL_F32,
                                     ACCEL_SUM);
}

static accel_status_t do_reduce_scatterv(bench_t *b)
{
    return accel_comm_reduce_scatterv(b->comm, b->send, b->recv, b->counts,
                                      ACCEL_F32, ACCEL_SUM);
}

static accel_status_t do_allgather(bench_t *b)
{
    return accel_comm_allgather(b->comm, b->send, b->recv, b->n, ACCEL_F32);
}

static accel_status_t do_allgatherv(bench_t *b)
{
    return accel_comm_allgatherv(b->comm, b->send, b->recv, &b->parts,
                                 ACCEL_F32);
}

static accel_status_t do_bytes(bench_t *b)
{
    void *all = NULL;
    size_t *at = NULL;
    accel_status_t st =
        accel_comm_allgather_bytes(b->comm, b->send, b->n * 4, &all, &at);

    CHECK((st == ACCEL_OK) == (all != NULL) && !all == !at);
    free(all);
    free(at);
    return st;
}

static accel_status_t do_gather(bench_t *b)
{
    return accel_comm_gather(b->comm, b->send, b->recv, b->n, ACCEL_F32, 1);
}

static accel_status_t do_gatherv(bench_t *b)
{
    return accel_comm_gatherv(b->comm, b->send, b->recv, &b->parts, ACCEL_F32,
                              1);
}

static accel_status_t do_scatter(bench_t *b)
{
    return accel_comm_scatter(b->comm, b->send, b->recv, b->n, ACCEL_F32, 1);
}

static accel_status_t do_scatterv(bench_t *b)
{
    return accel_comm_scatterv(b->comm, b->send, b->recv, &b->parts, ACCEL_F32,
                               1);
}

static accel_status_t do_alltoall(bench_t *b)
{
    return accel_comm_alltoall(b->comm, b->send, b->recv, b->n, ACCEL_F32);
}

static accel_status_t do_alltoallv(bench_t *b)
{
    accel_parts_t parts = {.counts = (size_t[]){b->n, b->n, b->n, b->n}};

    return accel_comm_alltoallv(b->comm, b->send, &parts, b->recv, &parts,
                                ACCEL_F32);
}

static accel_status_t do_start(bench_t *b)
{
    accel_request_t *request = NULL;
    accel_status_t st = accel_comm_allgatherv_start(
        b->comm, b->send, b->recv, &b->parts, ACCEL_F32, &request);

    CHECK((st == ACCEL_OK) == (request != NULL));
    return st == ACCEL_OK ? accel_request_wait(&request) : st;
}

static accel_status_t do_alloc(bench_t *b)
{
    void *p = NULL;
    accel_status_t st = accel_alloc(b->comm, b->n, &p);

    CHECK((st == ACCEL_OK) == (p != NULL));
    return st == ACCEL_OK ? accel_free(b->comm, p) : st;
}

static accel_status_t do_split(bench_t *b)
{
    accel_comm_t *part = NULL;
    int color = b->me->rank == 1 ? -1 : 0;
    accel_status_t st = accel_comm_split(b->comm, color, -b->me->rank, &part);

    CHECK(st == ACCEL_OK || !part);
    accel_comm_close(part);
    return st;
}

static accel_status_t do_split_node(bench_t *b)
{
    accel_comm_t *part = NULL;
    accel_status_t st = accel_comm_split_node(b->comm, &part);

    accel_comm_close(part);
    return st;
}

static accel_status_t do_split_across(bench_t *b)
{
    accel_comm_t *part = NULL;
    accel_status_t st = accel_comm_split_across(b->comm, &part);

    accel_comm_close(part);
    return st;
}

/* A job of its own, as a job has one communicator. */
static accel_status_t do_open(bench_t *b)
{
    bool armed = fault.armed;
    accel_oob_t oob = {.rank = b->me->rank,
                       .size = b->me->world->size,
                       .node = b->me->world->nodes[b->me->rank],
                       .allgather = board_allgather,
                       .context = b->me};
    accel_comm_t *comm = NULL;
    accel_job_t *job;

    fault.armed = false;
    CHECK(accel_job_open(b->me->settings, &oob, &job) == ACCEL_OK);
    fault.armed = armed;
    accel_status_t st = accel_comm_open(job, b->me->settings, &comm);
    fault.armed = false;
    CHECK((st == ACCEL_OK) == (comm != NULL));
    pthread_barrier_wait(&b->me->world->barrier);
    accel_comm_close(comm);
    accel_job_close(job);
    return st;
}

static const struct {
    const char *name;
    call_fn run;
    bool joins; /* ranks meet anew */
} calls[] = {
    {"open", do_open, true},
    {"barrier", do_barrier, false},
    {"broadcast", do_broadcast, false},
    {"all-reduce", do_allreduce, false},
    {"reduce", do_reduce, false},
    {"reduce-scatter", do_reduce_scatter, false},
    {"reduce-scatter-v", do_reduce_scatterv, false},
    {"all-gather", do_allgather, false},
    {"all-gather-v", do_allgatherv, false},
    {"bytes", do_bytes, false},
    {"gather", do_gather, false},
    {"gather-v", do_gatherv, false},
    {"scatter", do_scatter, false},
    {"scatter-v", do_scatterv, false},
    {"all-to-all", do_alltoall, false},
    {"all-to-all-v", do_alltoallv, false},
    {"start", do_start, false},
    {"alloc", do_alloc, false},
    {"split", do_split, true},
    {"split node", do_split_node, true},
    {"split across", do_split_across, true},
};

/* ---- one after the other ----------------------------------------------------
 */

struct plan {
    int victim;
    atomic_long failed;         /* allocations, of all calls */
    atomic_int status[2][MOST]; /* of each rank, of even and odd tries */
    atomic_bool fired[2];
};

/* The k-th allocation of a call fails; false: it has not so many. */
static bool try_one(bench_t *b, struct plan *p, size_t call, long k)
{
    rank_of_t *me = b->me;
    struct world *w = me->world;
    char text[512];

    if (me->rank == p->victim)
        atomic_store(&p->fired[k % 2], false);
    pthread_barrier_wait(&w->barrier);
    arm(me->rank == p->victim, k);
    accel_status_t st = calls[call].run(b);
    fault.armed = false;
    snprintf(text, sizeof text, "%s", accel_last_error()->text);
    atomic_store(&p->status[k % 2][me->rank], (int)st);
    if (fault.fired)
        atomic_store(&p->fired[k % 2], true);
    pthread_barrier_wait(&w->barrier);
    bool fired = atomic_load(&p->fired[k % 2]), same = true;
    for (int r = 0; r < w->size; r++)
        same = same && atomic_load(&p->status[k % 2][r]) == (int)st;
    if (!same || (st != ACCEL_OK && (st != ACCEL_ERR_NOMEM || !fired))) {
        fprintf(stderr,
                "rank %d: %s, %zu elements, allocation %ld of rank %d: "
                "%s: %s\n",
                me->rank, calls[call].name, b->n, k, p->victim,
                accel_status_name(st), text);
        sleep(1); /* the others say so, too */
        abort();
    }
    if (st == ACCEL_OK)
        return fired;
    CHECK(strstr(text, "memory") != NULL);
    CHECK(calls[call].run(b) == ACCEL_OK);
    if (me->rank == p->victim)
        atomic_fetch_add(&p->failed, 1);
    return fired;
}

static void size_up(bench_t *b, size_t n)
{
    b->n = n;
    for (int r = 0; r < MOST; r++)
        b->counts[r] = (size_t)r * n / 2;
    b->parts =
        (accel_parts_t){.counts = b->counts, .mine = b->counts[b->me->rank]};
}

/* Between nodes a communicator gets room for messages when it first needs it,
 * in the middle of an operation: what is there stays. */
static void make_all_room(bench_t *b, size_t n)
{
    size_up(b, n);
    for (size_t call = 0; call < ARRAY_SIZE(calls); call++)
        CHECK(calls[call].run(b) == ACCEL_OK);
}

/* A node that gives up while another one connects to it makes UCX 1.13 end
 * the process now and then (an assertion in its tcp_ep.c). */
static bool tries(const rank_of_t *me, size_t call)
{
    return me->comm->nodes == 1 || !calls[call].joins;
}

static void each_once(rank_of_t *me)
{
    struct plan *p = (struct plan *)(uintptr_t)me->world->arg;
    static const size_t sizes[] = {1, 20000};
    bench_t b = {.me = me, .comm = me->comm};

    b.send = __real_calloc(MOST * sizes[1], sizeof *b.send);
    b.recv = __real_calloc(MOST * sizes[1], sizeof *b.recv);
    if (me->comm->nodes > 1)
        make_all_room(&b, sizes[1]);
    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
        size_up(&b, sizes[s]);
        for (size_t call = 0; call < ARRAY_SIZE(calls); call++)
            for (long k = 1; tries(me, call) && try_one(&b, p, call, k); k++)
                continue;
    }
    free(b.send);
    free(b.recv);
}

static void try_world(const char *letters, int victim)
{
    static const char *const of[] = {"a", "b", "c"};
    const char *nodes[MOST];
    struct plan plan = {.victim = victim};
    struct world w = {.size = (int)strlen(letters),
                      .nodes = nodes,
                      .spec = "timeout=100",
                      .run = each_once,
                      .arg = &plan};

    for (int r = 0; r < w.size; r++)
        nodes[r] = of[letters[r] - 'a'];
    run_world(&w);
    print_message("%s, rank %d: %ld allocations failed\n", letters, victim,
                  atomic_load(&plan.failed));
    assert_true(atomic_load(&plan.failed) > 20);
}

static void on_one_node(void **state)
{
    (void)state;
    for (int victim = 0; victim < 3; victim++)
        try_world("aaa", victim);
}

static void on_two_nodes(void **state)
{
    (void)state;
    if (!WITH_UCX) {
        print_message("left out: %s\n", WHY_NOT);
        return;
    }
    for (int victim = 0; victim < 3; victim++)
        try_world("aab", victim);
}

/* In the middle of an operation there is no way back: the same error on all,
 * and again. */
static void lack_room(rank_of_t *me)
{
    atomic_int *fired = (atomic_int *)(uintptr_t)me->world->arg;
    static _Thread_local float x[50000];

    arm(me->rank == 0, 1);
    accel_status_t st =
        accel_comm_allreduce(me->comm, x, x, 50000, ACCEL_F32, ACCEL_SUM);
    fault.armed = false;
    if (fault.fired)
        atomic_store(fired, 1);
    CHECK(st == ACCEL_ERR_NOMEM);
    CHECK(strstr(accel_last_error()->text, "rank 0 has no memory") != NULL);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_NOMEM);
}

static void without_room_a_communicator_fails(void **state)
{
    static const char *const nodes[] = {"a", "a", "b"};
    atomic_int fired = 0;
    struct world w = {
        .size = 3, .nodes = nodes, .run = lack_room, .arg = &fired};

    (void)state;
    if (!WITH_UCX) {
        print_message("left out: %s\n", WHY_NOT);
        return;
    }
    run_world(&w);
    assert_true(atomic_load(&fired));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_node),
        cmocka_unit_test(on_two_nodes),
        cmocka_unit_test(without_room_a_communicator_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
