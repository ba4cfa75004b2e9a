/* ops: what collectives do with calls that differ, sizes that do not fit,
 * overlaps, and nothing at all. Ranks are threads. */
#include "unit/unit.h"

#include "comm/op.h"
#include "unit/ranks.h"

static const char *const apart[] = {"a", "b", "c", "d"};
static const char *const cyclic[] = {"a", "b", "a", "b"};

/* On one node, on two, and each rank on its own. */
static void everywhere(struct world *w)
{
    w->nodes = NULL;
    run_world(w);
    if (!WITH_UCX)
        return;
    w->nodes = cyclic;
    run_world(w);
    w->nodes = apart;
    run_world(w);
}

/* ---- calls that differ -----------------------------------------------------
 */

typedef enum kind {
    BARRIER,
    BROADCAST,
    ALLREDUCE,
    REDUCE,
    RSCATTER,
    RSCATTERV,
    ALLGATHER,
    ALLGATHERV,
    BYTES,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLTOALL,
    ALLTOALLV,
    SPLIT
} kind_t;

/* A call on three ranks. `count`: of each rank, in those with parts, too. */
typedef struct call {
    kind_t kind;
    size_t count;
    accel_dtype_t dtype;
    int extra; /* the operator, or the root */
} call_t;

#define RANKS 3
#define ROOM 64

static accel_status_t make_call(accel_comm_t *c, const call_t *call,
                                double *send, double *recv)
{
    size_t n = call->count;
    accel_dtype_t t = call->dtype;
    accel_op_t op = (accel_op_t)call->extra;
    int root = call->extra;
    const size_t counts[] = {n, n, n, n}; /* of more ranks than there are */
    accel_parts_t parts = {.counts = counts, .mine = n};
    accel_comm_t *part;
    void *all;
    size_t *at;

    switch (call->kind) {
    case BARRIER:
        return accel_comm_barrier(c);
    case BROADCAST:
        return accel_comm_broadcast(c, recv, n, t, root);
    case ALLREDUCE:
        return accel_comm_allreduce(c, send, recv, n, t, op);
    case REDUCE:
        return accel_comm_reduce(c, send, recv, n, t, ACCEL_SUM, root);
    case RSCATTER:
        return accel_comm_reduce_scatter(c, send, recv, n, t, op);
    case RSCATTERV:
        return accel_comm_reduce_scatterv(c, send, recv, counts, t, op);
    case ALLGATHER:
        return accel_comm_allgather(c, send, recv, n, t);
    case ALLGATHERV:
        return accel_comm_allgatherv(c, send, recv, &parts, t);
    case BYTES:
        return accel_comm_allgather_bytes(c, send, n, &all, &at);
    case GATHER:
        return accel_comm_gather(c, send, recv, n, t, root);
    case GATHERV:
        return accel_comm_gatherv(c, send, recv, &parts, t, root);
    case SCATTER:
        return accel_comm_scatter(c, send, recv, n, t, root);
    case SCATTERV:
        return accel_comm_scatterv(c, send, recv, &parts, t, root);
    case ALLTOALL:
        return accel_comm_alltoall(c, send, recv, n, t);
    case ALLTOALLV:
        return accel_comm_alltoallv(c, send, &parts, recv, &parts, t);
    default:
        return accel_comm_split(c, 0, 0, &part);
    }
}

/* What rank 1 calls and what the others call, and how each is told. */
static const struct differ {
    call_t one, others;
    const char *text[2];
} differs[] = {
    /* case 59: another order */
    {{BROADCAST, 8, ACCEL_F32, 0},
     {ALLREDUCE, 8, ACCEL_F32, 0},
     {"rank 1: broadcast #2 8 x f32 root 0",
      "ranks 0 2: all-reduce #2 8 x f32 sum"}},
    {{ALLGATHER, 4, ACCEL_F32, 0},
     {SCATTER, 4, ACCEL_F32, 0},
     {"rank 1: all-gather #2 4 x f32", "scatter #2 4 x f32 root 0"}},
    {{REDUCE, 8, ACCEL_F32, 0},
     {ALLREDUCE, 8, ACCEL_F32, 0},
     {"rank 1: reduce #2 8 x f32 sum root 0", "all-reduce #2 8 x f32 sum"}},
    {{ALLTOALL, 2, ACCEL_F32, 0},
     {ALLGATHER, 2, ACCEL_F32, 0},
     {"rank 1: all-to-all #2 2 x f32", "all-gather #2 2 x f32"}},
    {{ALLTOALLV, 2, ACCEL_F32, 0},
     {ALLTOALL, 2, ACCEL_F32, 0},
     {"rank 1: all-to-all-v #2 of f32", "all-to-all #2 2 x f32"}},
    {{GATHERV, 2, ACCEL_F32, 0},
     {GATHER, 2, ACCEL_F32, 0},
     {"rank 1: gather-v #2 of f32 root 0", "gather #2 2 x f32 root 0"}},
    {{SCATTERV, 2, ACCEL_F32, 0},
     {GATHERV, 2, ACCEL_F32, 0},
     {"rank 1: scatter-v #2 of f32 root 0", "gather-v #2 of f32 root 0"}},
    {{RSCATTERV, 2, ACCEL_F32, 0},
     {RSCATTER, 2, ACCEL_F32, 0},
     {"rank 1: reduce-scatter-v #2 6 x f32 sum",
      "reduce-scatter #2 2 x f32 sum"}},
    {{SPLIT, 0, ACCEL_F32, 0},
     {BARRIER, 0, ACCEL_F32, 0},
     {"rank 1: accel_comm_split #2", "barrier #2"}},
    {{BYTES, 3, ACCEL_U8, 0},
     {ALLGATHER, 3, ACCEL_U8, 0},
     {"rank 1: all-gather of bytes #2", "all-gather #2 3 x u8"}},
    /* the same operation on other things */
    {{REDUCE, 8, ACCEL_F32, 2},
     {REDUCE, 8, ACCEL_F32, 0},
     {"rank 1: reduce #2 8 x f32 sum root 2", "root 0"}},
    {{SCATTER, 4, ACCEL_F32, 1},
     {SCATTER, 4, ACCEL_F32, 2},
     {"rank 1: scatter #2 4 x f32 root 1", "root 2"}},
    {{SCATTER, 5, ACCEL_F32, 1},
     {SCATTER, 4, ACCEL_F32, 1},
     {"rank 1: scatter #2 5 x f32", "scatter #2 4 x f32"}},
    {{ALLTOALL, 3, ACCEL_F32, 0},
     {ALLTOALL, 4, ACCEL_F32, 0},
     {"rank 1: all-to-all #2 3 x f32", "4 x f32"}},
    /* equal byte counts are not enough */
    {{ALLTOALL, 4, ACCEL_F32, 0},
     {ALLTOALL, 4, ACCEL_I32, 0},
     {"4 x f32", "4 x i32"}},
    {{ALLGATHERV, 4, ACCEL_F32, 0},
     {ALLGATHERV, 4, ACCEL_U32, 0},
     {"rank 1: all-gather-v #2 12 x f32", "12 x u32"}},
    {{ALLGATHERV, 4, ACCEL_F32, 0},
     {ALLGATHERV, 5, ACCEL_F32, 0},
     {"rank 1: all-gather-v #2 12 x f32", "all-gather-v #2 15 x f32"}},
    {{RSCATTERV, 4, ACCEL_F32, ACCEL_MAX},
     {RSCATTERV, 4, ACCEL_F32, ACCEL_PROD},
     {"12 x f32 max", "12 x f32 prod"}},
    {{GATHERV, 4, ACCEL_F32, 0},
     {GATHERV, 4, ACCEL_F16, 0},
     {"gather-v #2 of f32", "gather-v #2 of f16"}},
    {{GATHERV, 4, ACCEL_F32, 0},
     {GATHERV, 4, ACCEL_F32, 1},
     {"gather-v #2 of f32 root 0", "gather-v #2 of f32 root 1"}},
    {{SCATTERV, 4, ACCEL_F32, 0},
     {SCATTERV, 4, ACCEL_F32, 2},
     {"scatter-v #2 of f32 root 0", "scatter-v #2 of f32 root 2"}},
    {{ALLTOALLV, 4, ACCEL_F64, 0},
     {ALLTOALLV, 4, ACCEL_I64, 0},
     {"all-to-all-v #2 of f64", "all-to-all-v #2 of i64"}},
};

#define TO_DO                                                                  \
    "all ranks make the same calls in the same order: look for one under an "  \
    "if"

static void make_differing_calls(rank_of_t *me)
{
    const struct differ *d = me->world->arg;
    double send[ROOM], recv[ROOM];

    for (size_t i = 0; i < ROOM; i++)
        send[i] = recv[i] = 3;
    CHECK(make_call(me->comm, me->rank == 1 ? &d->one : &d->others, send,
                    recv) == ACCEL_ERR_PROTO);
    for (int k = 0; k < 2; k++)
        if (!strstr(accel_last_error()->text, d->text[k])) {
            fprintf(stderr, "not told: %s\n", d->text[k]);
            CHECK(false);
        }
    CHECK(strstr(accel_last_error()->text, "; " TO_DO));
    for (size_t i = 0; i < ROOM; i++)
        CHECK(recv[i] == 3); /* nothing mixed comes out */
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_PROTO);
}

static void each_ranks_call_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(differs); i++) {
        struct world w = {
            .size = RANKS, .run = make_differing_calls, .arg = &differs[i]};
        run_world(&w);
        w.nodes = i % 2 ? cyclic : apart;
        if (WITH_UCX)
            run_world(&w);
    }
}

/* Counts of another order have the same sum. */
static void parts_in_another_order(rank_of_t *me)
{
    size_t counts[RANKS] = {1, 2, 3};
    float send[8] = {0}, recv[8] = {9};
    const char *text = accel_last_error()->text;

    if (me->rank == 2)
        counts[0] = 3, counts[2] = 1;
    CHECK(accel_comm_allgatherv(me->comm, send, recv,
                                &(accel_parts_t){.counts = counts},
                                ACCEL_F32) == ACCEL_ERR_PROTO);
    CHECK(strstr(text, "rank 2: all-gather-v #2 6 x f32 in parts marked "));
    CHECK(strstr(text, "ranks 0-1: all-gather-v #2 6 x f32 in parts marked ") ||
          strstr(text, "ranks 0 1: all-gather-v #2 6 x f32 in parts marked "));
    CHECK(recv[0] == 9);
}

static void parts_of_the_same_sum_may_differ(void **state)
{
    struct world w = {.size = RANKS, .run = parts_in_another_order};

    (void)state;
    everywhere(&w);
}

/* Case 59: rank 2 leaves out one of many. Between two of its calls there are
 * two of the others', so the sequence numbers tell. */
static void one_is_left_out(rank_of_t *me)
{
    accel_status_t st = ACCEL_OK;
    float x = 1;

    for (int i = 0; i < 8 && st == ACCEL_OK; i++) {
        if (i == 4 && me->rank == 2)
            continue;
        st = i % 2 ? accel_comm_broadcast(me->comm, &x, 1, ACCEL_F32, 0)
                   : accel_comm_allreduce(me->comm, &x, &x, 1, ACCEL_F32,
                                          ACCEL_MAX);
    }
    CHECK(st == ACCEL_ERR_PROTO && x == 1);
    CHECK(strstr(accel_last_error()->text, "rank 2: broadcast #6 1 x f32"));
    CHECK(strstr(accel_last_error()->text, "all-reduce #6 1 x f32 max"));
}

static void a_call_that_is_left_out_is_told(void **state)
{
    struct world w = {.size = 4, .run = one_is_left_out};

    (void)state;
    everywhere(&w);
}

/* Case 59: two threads of each rank. One of them is refused while the other
 * is inside; it harms nothing. */
struct second {
    accel_comm_t *comm;
    atomic_int refused, ready;
};

static void *call_beside(void *arg)
{
    struct second *s = arg;
    float x = 1;

    accel_status_t st =
        accel_comm_allreduce(s->comm, &x, &x, 1, ACCEL_F32, ACCEL_SUM);
    CHECK(st == ACCEL_ERR_STATE && x == 1);
    CHECK(strstr(accel_last_error()->text, "another thread is using") != NULL);
    atomic_store(&s->refused, 1);
    return NULL;
}

static void two_threads(rank_of_t *me)
{
    struct second s = {.comm = me->comm};
    pthread_t thread;
    float x = 1;

    if (me->rank == 0) {
        /* the others are inside, and cannot come out without this rank */
        pthread_barrier_wait(&me->world->barrier);
        CHECK(accel_comm_allreduce(me->comm, &x, &x, 1, ACCEL_F32, ACCEL_SUM) ==
              ACCEL_OK);
    } else {
        accel_request_t *req;
        CHECK(ax_guard_enter(&me->comm->guard)); /* as a call does */
        CHECK(pthread_create(&thread, NULL, call_beside, &s) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        ax_guard_leave(&me->comm->guard);
        CHECK(atomic_load(&s.refused) == 1);
        CHECK(accel_comm_allreduce_start(me->comm, &x, &x, 1, ACCEL_F32,
                                         ACCEL_SUM, &req) == ACCEL_OK);
        pthread_barrier_wait(&me->world->barrier);
        CHECK(accel_request_wait(&req) == ACCEL_OK);
    }
    CHECK(x == (float)me->world->size);
}

/*
 * Threads that do not take turns, as close together as they can come: never
 * two inside, nobody is shut out for good, and all calls of those that were
 * let in are counted.
 */
#define CROWD 10 /* more than there are flags */
#define TRIES 5000

struct crowd {
    ax_guard_t guard;
    atomic_int inside, ready;
    int calls; /* not atomic: only who is inside counts */
    atomic_int let_in;
};

static void *crowd_in(void *arg)
{
    struct crowd *all = arg;

    atomic_fetch_add(&all->ready, 1);
    while (atomic_load(&all->ready) < CROWD)
        sched_yield();
    for (int i = 0; i < TRIES; i++) {
        if (!ax_guard_enter(&all->guard))
            continue;
        CHECK(atomic_fetch_add(&all->inside, 1) == 0);
        all->calls++;
        atomic_fetch_add(&all->let_in, 1);
        CHECK(atomic_fetch_sub(&all->inside, 1) == 1);
        ax_guard_leave(&all->guard);
    }
    return NULL;
}

static void never_two_threads_inside(void **state)
{
    struct crowd all = {.calls = 0};
    pthread_t threads[CROWD];

    (void)state;
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_in, &all), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    assert_true(all.calls > 0);
    assert_int_equal(all.calls, atomic_load(&all.let_in));
    assert_true(ax_guard_enter(&all.guard));
    assert_false(ax_guard_enter(&all.guard)); /* as from a signal's handler */
    ax_guard_leave(&all.guard);
    assert_true(ax_guard_enter(&all.guard));
    ax_guard_leave(&all.guard);
}

static void *take_a_turn(void *arg)
{
    ax_guard_t *guard = arg;

    CHECK(ax_guard_enter(guard));
    ax_guard_leave(guard);
    return NULL;
}

static void threads_may_take_turns(void **state)
{
    ax_guard_t guard = {0};
    pthread_t thread;

    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_true(ax_guard_enter(&guard));
        ax_guard_leave(&guard);
        assert_int_equal(pthread_create(&thread, NULL, take_a_turn, &guard), 0);
        pthread_join(thread, NULL);
    }
}

static void a_second_thread_is_refused(void **state)
{
    struct world w = {.size = 3, .run = two_threads};

    (void)state;
    everywhere(&w);
}

/* ---- sizes that do not fit --------------------------------------------------
 */

/* Rank 1 and the root have different ideas of rank 1's part. */
static void sizes_differ(rank_of_t *me)
{
    size_t counts[4] = {2, 3, 0, 1};
    size_t own = me->rank == 1 ? 4 : counts[me->rank];
    float send[16] = {1}, recv[16] = {7};
    accel_parts_t parts = {.counts = counts, .mine = own};
    const char *text = accel_last_error()->text;

    CHECK(accel_comm_gatherv(me->comm, send, recv, &parts, ACCEL_F32, 3) ==
          ACCEL_ERR_PROTO);
    CHECK(strstr(text, "gather-v: rank 1 sends 4 elements, the root wants 3"));
    CHECK(accel_comm_scatterv(me->comm, send, recv, &parts, ACCEL_F32, 3) ==
          ACCEL_ERR_PROTO);
    CHECK(strstr(text, "rank 3, sends 3 elements to rank 1, which wants 4"));
    size_t from[4] = {1, 1, 1, me->rank == 2 ? 2 : 1};
    size_t to[4] = {1, 1, 1, 1};
    CHECK(accel_comm_alltoallv(me->comm, send, &(accel_parts_t){.counts = to},
                               recv, &(accel_parts_t){.counts = from},
                               ACCEL_F32) == ACCEL_ERR_PROTO);
    CHECK(strstr(text, "rank 3 sends 1 elements to rank 2, which wants 2"));
    CHECK(recv[0] == 7); /* nothing has come, and it goes on */
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
}

static void sizes_that_do_not_fit_are_told(void **state)
{
    struct world w = {.size = 4, .run = sizes_differ};

    (void)state;
    everywhere(&w);
}

/* ---- wrong arguments --------------------------------------------------------
 */

static void wrong(accel_status_t got, const char *text)
{
    if (got != ACCEL_ERR_ARG || !strstr(accel_last_error()->text, text)) {
        fprintf(stderr, "not told: %s\n", text);
        CHECK(false);
    }
}

static void wrong_arguments(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    float x[16] = {0}, y[16] = {0};
    const size_t n = (size_t)me->world->size, huge = SIZE_MAX / 8;
    const size_t ones[4] = {1, 1, 1, 1}, twice[4] = {0, 0, 2, 3};
    const size_t much[4] = {huge, huge, huge, huge};
    const size_t far[4] = {0, SIZE_MAX / 4, 2, 3};
    accel_parts_t p = {.counts = ones, .mine = 1};
    accel_parts_t over = {.counts = ones, .places = twice, .mine = 1};
    accel_parts_t big = {.counts = much, .mine = huge};
    accel_parts_t away = {.counts = ones, .places = far, .mine = 1};
    accel_parts_t none = {0};

    wrong(accel_comm_reduce(c, NULL, y, 1, ACCEL_F32, ACCEL_SUM, 0), "NULL");
    wrong(accel_comm_reduce(c, x, y, 1, ACCEL_F32, ACCEL_SUM, 4),
          "comm: root 4 is not in [0, 4); it is a rank of this communicator, "
          "see accel_comm_size(3)");
    wrong(accel_comm_reduce(c, x, y, 1, ACCEL_F32, ACCEL_SUM, -1), "root -1");
    wrong(accel_comm_reduce(c, x, x + 1, 2, ACCEL_F32, ACCEL_SUM, 0),
          "overlap");
    wrong(accel_comm_reduce(c, x, y, 1, ACCEL_U8, ACCEL_AVG, 0), "average");
    wrong(accel_comm_scatter(c, x, NULL, 1, ACCEL_F32, 0), "NULL");
    wrong(accel_comm_scatter(c, x, x + n - 1, 2, ACCEL_F32, 0), "overlap");
    wrong(accel_comm_scatter(c, x, y, huge, ACCEL_F32, 0), "memory");
    wrong(accel_comm_alltoall(c, x, x + 1, 1, ACCEL_F32), "overlap");
    wrong(accel_comm_alltoall(c, x, y, huge, ACCEL_F32), "memory");
    wrong(accel_comm_alltoall(c, x, y, 1, (accel_dtype_t)77), "element type");
    wrong(accel_comm_allgatherv(c, x, y, NULL, ACCEL_F32), "no counts");
    wrong(accel_comm_allgatherv(c, x, y, &none, ACCEL_F32), "no counts");
    wrong(accel_comm_allgatherv(c, x, y, &over, ACCEL_F32),
          "from ranks 0 and 1 overlap");
    wrong(accel_comm_allgatherv(c, x, y, &big, ACCEL_F32), "more f32 than");
    wrong(accel_comm_allgatherv(c, x, y, &away, ACCEL_F32), "more f32 than");
    wrong(accel_comm_allgatherv(c, x, x + 1, &p, ACCEL_F64), "overlap");
    wrong(accel_comm_gatherv(c, x, y, &over, ACCEL_F32, 2), "overlap");
    wrong(accel_comm_gatherv(c, x, y, &p, ACCEL_F32, 9), "root 9");
    wrong(accel_comm_gatherv(c, NULL, y, &p, ACCEL_F32, 0), "NULL");
    wrong(accel_comm_scatterv(c, x, y, NULL, ACCEL_F32, 1), "no counts");
    wrong(accel_comm_scatterv(c, x, NULL, &p, ACCEL_F32, 1), "NULL");
    wrong(accel_comm_reduce_scatterv(c, x, y, NULL, ACCEL_F32, ACCEL_SUM),
          "no counts");
    wrong(accel_comm_reduce_scatterv(c, x, x + 1, ones, ACCEL_F32, ACCEL_SUM),
          "overlap");
    wrong(accel_comm_reduce_scatterv(c, x, y, much, ACCEL_F32, ACCEL_SUM),
          "more f32 than");
    wrong(accel_comm_alltoallv(c, x, &p, y, &over, ACCEL_F32), "overlap");
    wrong(accel_comm_alltoallv(c, x, NULL, y, &p, ACCEL_F32), "no counts");
    wrong(accel_comm_alltoallv(c, x, &over, x, &p, ACCEL_F32), "in place");
    wrong(accel_comm_allgather_bytes(c, NULL, 1, (void **)&y, NULL), "NULL");
    x[0] = 1;
    CHECK(accel_comm_reduce(c, x, y, 1, ACCEL_F32, ACCEL_SUM, 2) == ACCEL_OK);
    CHECK(me->rank != 2 || y[0] == (float)n);
}

static void wrong_arguments_are_told(void **state)
{
    struct world w = {.size = 4, .run = wrong_arguments};

    (void)state;
    everywhere(&w);
}

/* ---- overlaps ---------------------------------------------------------------
 *
 * One buffer slides along the other. What the manual says of each operation: it
 * works in place, or the two must be apart.
 */

#define SLIDE_N 2 /* elements of a part */
#define SLIDE_ROOT 1
#define SLIDE_ALL (RANKS * SLIDE_N)

/* Elements that a rank sends and that come, and where in place the latter lie,
 * from the former on. */
typedef struct slide {
    int sends, comes, in_place;
} slide_t;

static slide_t slide_of(kind_t kind, int rank)
{
    bool root = rank == SLIDE_ROOT;
    int part = SLIDE_N, all = SLIDE_ALL, own = rank * SLIDE_N;

    switch (kind) {
    case ALLREDUCE:
        return (slide_t){part, part, 0};
    case REDUCE:
        return (slide_t){part, root ? part : 0, 0};
    case RSCATTER:
    case RSCATTERV:
        return (slide_t){all, part, 0};
    case ALLGATHER:
    case ALLGATHERV:
        return (slide_t){part, all, -own};
    case GATHER:
    case GATHERV:
        return (slide_t){part, root ? all : 0, -own};
    case SCATTER:
    case SCATTERV:
        return (slide_t){root ? all : 0, part, own};
    case ALLTOALL:
    case ALLTOALLV:
        return (slide_t){all, all, 0};
    default:
        return (slide_t){0, 0, 0};
    }
}

static bool is_refused(kind_t kind, int rank, int by)
{
    slide_t s = slide_of(kind, rank);

    return s.sends && s.comes && by < s.sends && by + s.comes > 0 &&
           by != s.in_place;
}

static void slide_each(rank_of_t *me)
{
    for (int k = BROADCAST + 1; k < SPLIT; k++) {
        bool rooted = k == REDUCE || k == GATHER || k == GATHERV ||
                      k == SCATTER || k == SCATTERV;
        call_t call = {(kind_t)k, SLIDE_N, ACCEL_F64,
                       rooted ? SLIDE_ROOT : ACCEL_SUM};
        for (int by = -SLIDE_ALL - 1; k != BYTES && by <= SLIDE_ALL; by++) {
            double memory[3 * SLIDE_ALL + 2], before[3 * SLIDE_ALL + 2];
            bool refused = false;
            for (int r = 0; r < RANKS; r++)
                refused = refused || is_refused((kind_t)k, r, by);
            for (int i = 0; i < 3 * SLIDE_ALL + 2; i++)
                memory[i] = before[i] = i;
            double *send = memory + SLIDE_ALL + 1;
            accel_status_t st = make_call(me->comm, &call, send, send + by);
            if (st != (refused ? ACCEL_ERR_ARG : ACCEL_OK)) {
                fprintf(stderr, "call %d, by %d: %s\n", k, by,
                        accel_status_name(st));
                CHECK(false);
            }
            CHECK(!refused || strstr(accel_last_error()->text, "overlap") ||
                  strstr(accel_last_error()->text, "in place"));
            CHECK(!refused || memcmp(memory, before, sizeof memory) == 0);
        }
    }
}

static void overlaps_are_refused(void **state)
{
    struct world w = {.size = RANKS, .run = slide_each};

    (void)state;
    everywhere(&w);
}

/* The same element may go to several ranks. */
static void send_one_to_all(rank_of_t *me)
{
    const size_t ones[4] = {1, 1, 1, 1}, same[4] = {2, 2, 2, 2};
    accel_parts_t to = {.counts = ones, .places = same, .mine = 1};
    accel_parts_t from = {.counts = ones};
    int send[3] = {0, 0, 10 + me->rank}, recv[4] = {0};

    CHECK(accel_comm_alltoallv(me->comm, send, &to, recv, &from, ACCEL_I32) ==
          ACCEL_OK);
    for (int r = 0; r < 4; r++)
        CHECK(recv[r] == 10 + r);
    CHECK(accel_comm_scatterv(me->comm, send, recv, &to, ACCEL_I32, 2) ==
          ACCEL_OK);
    CHECK(recv[0] == 12);
}

static void parts_that_are_sent_may_overlap(void **state)
{
    struct world w = {.size = 4, .run = send_one_to_all};

    (void)state;
    everywhere(&w);
}

/* ---- case 56: nothing at all ------------------------------------------------
 */

static void nothing(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    const size_t none[4] = {0}, some[4] = {4, 0, 0, 2}, last[4] = {0, 0, 0, 7};
    accel_parts_t p = {.counts = none};
    int send[7], recv[8];

    /* each with NULL buffers */
    for (int k = BARRIER; k < SPLIT; k++) {
        call_t call = {.kind = (kind_t)k, .dtype = ACCEL_I32};
        if (k != BYTES) /* it always gives something to free */
            CHECK(make_call(c, &call, NULL, NULL) == ACCEL_OK);
    }
    void *all = NULL;
    size_t *at = NULL;
    CHECK(accel_comm_allgather_bytes(c, NULL, 0, &all, &at) == ACCEL_OK);
    CHECK(all && at && at[4] == 0);
    free(all);
    free(at);
    CHECK(accel_comm_gatherv(c, NULL, NULL, &p, ACCEL_I32, 3) == ACCEL_OK);
    for (int i = 0; i < 8; i++)
        recv[i] = 77;
    for (int i = 0; i < 7; i++)
        send[i] = me->rank + i;
    CHECK(accel_comm_allgatherv(c, some[me->rank] ? send : NULL, recv,
                                &(accel_parts_t){.counts = some},
                                ACCEL_I32) == ACCEL_OK);
    static const int gathered[8] = {0, 1, 2, 3, 3, 4, 77, 77};
    CHECK(memcmp(recv, gathered, sizeof gathered) == 0);
    recv[7] = 77;
    CHECK(accel_comm_reduce_scatterv(c, send, me->rank == 3 ? recv : NULL, last,
                                     ACCEL_I32, ACCEL_SUM) == ACCEL_OK);
    for (int i = 0; i < 7 && me->rank == 3; i++)
        CHECK(recv[i] == 6 + 4 * i);
    CHECK(recv[7] == 77);
    int x = 1;
    CHECK(accel_comm_allreduce(c, &x, &x, 1, ACCEL_I32, ACCEL_SUM) == ACCEL_OK);
    CHECK(x == 4);
}

static void counts_of_zero_are_fine(void **state)
{
    struct world w = {.size = 4, .run = nothing};

    (void)state;
    everywhere(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_ranks_call_is_told),
        cmocka_unit_test(parts_of_the_same_sum_may_differ),
        cmocka_unit_test(a_call_that_is_left_out_is_told),
        cmocka_unit_test(a_second_thread_is_refused),
        cmocka_unit_test(never_two_threads_inside),
        cmocka_unit_test(threads_may_take_turns),
        cmocka_unit_test(sizes_that_do_not_fit_are_told),
        cmocka_unit_test(wrong_arguments_are_told),
        cmocka_unit_test(overlaps_are_refused),
        cmocka_unit_test(parts_that_are_sent_may_overlap),
        cmocka_unit_test(counts_of_zero_are_fine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
