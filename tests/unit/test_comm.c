/* comm: collectives, mismatches, wrong uses, memory; ranks are threads. */
#include "unit/unit.h"

#include "multi/sweep.h"
#include "unit/ranks.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- right results, wherever the ranks are --------------------------------
 */

static const char *const cyclic[] = {"a", "b", "a", "b", "a", "b", "a", "b"};
static const char *const uneven[] = {"a", "b", "b", "c", "b"};
static const char *const apart[] = {"a", "b", "c"};
static const char *const dotted[] = {"gpu.a", "gpu.b", "gpu.a"};

static const struct {
    int size;
    const char *const *nodes;
} placements[] = {{1, NULL},   {2, NULL},   {3, NULL},   {5, NULL},
                  {8, NULL},   {4, cyclic}, {5, uneven}, {3, apart},
                  {3, dotted}, {7, cyclic}};

static void quick_sweep(rank_of_t *me)
{
    sweep(me->comm, true);
}

static void sums_are_right_wherever_ranks_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(placements); i++) {
        struct world w = {.size = placements[i].size,
                          .nodes = placements[i].nodes,
                          .run = quick_sweep};
        if (w.nodes && !WITH_UCX)
            print_message("placement %zu: not without UCX: %s\n", i, WHY_NOT);
        else
            run_world(&w);
    }
}

/* ---- the same bits ----------------------------------------------------------
 */

#define MANY 50000

static float noise(int rank, size_t i)
{
    uint64_t h = ax_hash(&i, sizeof i, (uint64_t)rank + 1);

    return ldexpf((float)(int32_t)(h >> 32), (int)(h % 20) - 40);
}

/* Bits of an element do not depend on the size nor place of its message. */
static void bits_do_not_depend_on_size(rank_of_t *me)
{
    float *whole = malloc(MANY * sizeof *whole);
    void *memory;

    CHECK(whole != NULL);
    for (size_t i = 0; i < MANY; i++)
        whole[i] = noise(me->rank, i);
    CHECK(accel_comm_allreduce(me->comm, whole, whole, MANY, ACCEL_F32,
                               ACCEL_SUM) == ACCEL_OK);
    CHECK(accel_alloc(me->comm, MANY * sizeof *whole, &memory) == ACCEL_OK);
    float *heap = memory;
    for (size_t i = 0; i < MANY; i++)
        heap[i] = noise(me->rank, i);
    CHECK(accel_comm_allreduce(me->comm, heap, heap, MANY, ACCEL_F32,
                               ACCEL_SUM) == ACCEL_OK);
    CHECK(memcmp(heap, whole, MANY * sizeof *whole) == 0);
    for (size_t first = 3; first < MANY; first += 9973) {
        size_t n = first % 700 + 1 < MANY - first ? first % 700 + 1 : 1;
        for (size_t i = 0; i < n; i++)
            heap[i] = noise(me->rank, first + i);
        CHECK(accel_comm_allreduce(me->comm, heap, heap, n, ACCEL_F32,
                                   ACCEL_SUM) == ACCEL_OK);
        CHECK(memcmp(heap, whole + first, n * sizeof *whole) == 0);
    }
    CHECK(accel_free(me->comm, memory) == ACCEL_OK);
    free(whole);
}

static void same_bits_at_any_size(void **state)
{
    struct world w = {.size = 5, .run = bits_do_not_depend_on_size};

    (void)state;
    run_world(&w);
    w.nodes = uneven;
    if (WITH_UCX)
        run_world(&w);
}

/* 1 + 5 * 2^-11 rounds to 1 + 2^-9 in f16 when done once; adding 2^-11 five
 * times with a rounding each never leaves 1. */
static void f16_rounds_once(rank_of_t *me)
{
    float mine = me->rank == 0 ? 1.0f : 0x1p-11f;
    uint16_t x = ax_f32_to_f16(mine), big[9000];

    CHECK(accel_comm_allreduce(me->comm, &x, &x, 1, ACCEL_F16, ACCEL_SUM) ==
          ACCEL_OK);
    CHECK(ax_f16_to_f32(x) == 1.0f + 0x1p-9f);
    for (size_t i = 0; i < ARRAY_SIZE(big); i++)
        big[i] = ax_f32_to_f16(mine);
    CHECK(accel_comm_allreduce(me->comm, big, big, ARRAY_SIZE(big), ACCEL_F16,
                               ACCEL_SUM) == ACCEL_OK);
    for (size_t i = 0; i < ARRAY_SIZE(big); i++)
        CHECK(big[i] == x);
}

static void sixteen_bit_sums_round_once(void **state)
{
    struct world w = {.size = 5, .run = f16_rounds_once};

    (void)state;
    run_world(&w);
    w.nodes = uneven;
    if (WITH_UCX)
        run_world(&w);
}

static void nan_is_kept(rank_of_t *me)
{
    float x = me->rank == 1 ? NAN : (float)me->rank;
    float y = x, z = me->rank == 0 ? INFINITY : (me->rank == 1 ? -INFINITY : 0);

    CHECK(accel_comm_allreduce(me->comm, &x, &x, 1, ACCEL_F32, ACCEL_MAX) ==
          ACCEL_OK);
    CHECK(accel_comm_allreduce(me->comm, &y, &y, 1, ACCEL_F32, ACCEL_MIN) ==
          ACCEL_OK);
    CHECK(accel_comm_allreduce(me->comm, &z, &z, 1, ACCEL_F32, ACCEL_SUM) ==
          ACCEL_OK);
    CHECK(isnan(x) && isnan(y) && isnan(z));
}

static void nan_reaches_everybody(void **state)
{
    struct world w = {.size = 3, .run = nan_is_kept};

    (void)state;
    run_world(&w);
}

/* ---- calls that differ ------------------------------------------------------
 */

struct differ {
    const char *name;
    size_t count[2]; /* what rank 1 does, and all others */
    accel_dtype_t dtype[2];
    accel_op_t op[2];
    int root[2];
    char kind[2]; /* a all-reduce, b broadcast, w wait (barrier), g gather */
    const char *text[2];
};

static const struct differ differs[] = {
    {"count",
     {7, 8},
     {ACCEL_F32, ACCEL_F32},
     {0, 0},
     {0, 0},
     {'a', 'a'},
     {"rank 1: all-reduce #2 7 x f32 sum",
      "ranks 0 2: all-reduce #2 8 x f32 sum"}},
    {"type",
     {8, 8},
     {ACCEL_I32, ACCEL_F32},
     {0, 0},
     {0, 0},
     {'a', 'a'},
     {"rank 1: all-reduce #2 8 x i32 sum", "8 x f32 sum"}},
    {"operator",
     {8, 8},
     {ACCEL_F32, ACCEL_F32},
     {ACCEL_MAX, ACCEL_MIN},
     {0, 0},
     {'a', 'a'},
     {"rank 1: all-reduce #2 8 x f32 max", "8 x f32 min"}},
    {"root",
     {8, 8},
     {ACCEL_F32, ACCEL_F32},
     {0, 0},
     {0, 2},
     {'b', 'b'},
     {"rank 1: broadcast #2 8 x f32 root 0", "root 2"}},
    {"operation",
     {8, 8},
     {ACCEL_F32, ACCEL_F32},
     {0, 0},
     {0, 0},
     {'b', 'a'},
     {"rank 1: broadcast #2 8 x f32 root 0",
      "ranks 0 2: all-reduce #2 8 x f32 sum"}},
    {"left out",
     {0, 8},
     {ACCEL_U8, ACCEL_F32},
     {0, 0},
     {0, 0},
     {'w', 'g'},
     {"rank 1: barrier #2", "gather #2 8 x f32 root 0"}},
};

static accel_status_t call_of(accel_comm_t *c, const struct differ *d, int who,
                              float *send, float *recv)
{
    switch (d->kind[who]) {
    case 'a':
        return accel_comm_allreduce(c, send, recv, d->count[who], d->dtype[who],
                                    d->op[who]);
    case 'b':
        return accel_comm_broadcast(c, recv, d->count[who], d->dtype[who],
                                    d->root[who]);
    case 'g':
        return accel_comm_gather(c, send, recv, d->count[who], d->dtype[who],
                                 d->root[who]);
    default:
        return accel_comm_barrier(c);
    }
}

static void make_differing_calls(rank_of_t *me)
{
    const struct differ *d = me->world->arg;
    float send[64], recv[64];

    for (size_t i = 0; i < ARRAY_SIZE(send); i++)
        send[i] = recv[i] = 3;
    CHECK(call_of(me->comm, d, me->rank != 1, send, recv) == ACCEL_ERR_PROTO);
    CHECK(strstr(accel_last_error()->text, d->text[0]) != NULL);
    CHECK(strstr(accel_last_error()->text, d->text[1]) != NULL);
    for (size_t i = 0; i < ARRAY_SIZE(send); i++)
        CHECK(recv[i] == 3);
    /* and it stays so */
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_PROTO);
    CHECK(strstr(accel_last_error()->text, d->text[0]) != NULL);
}

static void ranks_that_differ_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(differs); i++) {
        struct world w = {
            .size = 3, .run = make_differing_calls, .arg = &differs[i]};
        run_world(&w);
        w.nodes = apart;
        if (WITH_UCX)
            run_world(&w);
        w.nodes = dotted;
        if (WITH_UCX)
            run_world(&w);
    }
}

/* ---- wrong uses
 * --------------------------------------------------------------
 */

/* Each call is wrong, and the error says how. */
static void is_wrong(accel_status_t got, const char *text)
{
    CHECK(got == ACCEL_ERR_ARG);
    if (!strstr(accel_last_error()->text, text))
        fprintf(stderr, "not told: %s\n", text);
    CHECK(strstr(accel_last_error()->text, text) != NULL);
}

static void wrong_everywhere(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    float x[8] = {0}, y[8] = {0};
    int32_t i = 0;
    size_t huge = SIZE_MAX / 2;

    is_wrong(accel_comm_allreduce(c, NULL, x, 1, ACCEL_F32, ACCEL_SUM), "NULL");
    is_wrong(accel_comm_allreduce(c, x, NULL, 1, ACCEL_F32, ACCEL_SUM), "NULL");
    is_wrong(accel_comm_allreduce(c, x, x + 1, 4, ACCEL_F32, ACCEL_SUM),
             "overlap");
    is_wrong(accel_comm_allreduce(c, x, y, 1, (accel_dtype_t)99, ACCEL_SUM),
             "element type");
    is_wrong(accel_comm_allreduce(c, x, y, 1, ACCEL_DTYPE_NONE, ACCEL_SUM),
             "element type");
    is_wrong(accel_comm_allreduce(c, x, y, 1, ACCEL_F32, (accel_op_t)9),
             "operator");
    is_wrong(accel_comm_allreduce(c, &i, &i, 1, ACCEL_I32, ACCEL_AVG),
             "average of i32");
    is_wrong(accel_comm_allreduce(c, x, y, huge, ACCEL_F64, ACCEL_SUM),
             "memory");
    is_wrong(accel_comm_allgather(c, x, y, huge / 4, ACCEL_F32), "memory");
    is_wrong(accel_comm_allgather(c, x + 1, x, 2, ACCEL_F32), "overlap");
    is_wrong(accel_comm_reduce_scatter(c, x, x + 1, 2, ACCEL_F32, ACCEL_SUM),
             "overlap");
    is_wrong(accel_comm_broadcast(c, x, 1, ACCEL_F32, -1), "root -1");
    is_wrong(accel_comm_broadcast(c, x, 1, ACCEL_F32, me->world->size), "root");
    is_wrong(accel_comm_gather(c, x, NULL, 1, ACCEL_F32, 77), "root 77");
    is_wrong(accel_free(c, x), "not what accel_alloc gave");
    is_wrong(accel_alloc(c, 8, NULL), "NULL");
    is_wrong(accel_comm_broadcast(c, NULL, 1, ACCEL_F32, 0), "NULL");
    /* none of them broke it */
    x[0] = 1;
    CHECK(accel_comm_allreduce(c, x, x, 1, ACCEL_F32, ACCEL_SUM) == ACCEL_OK);
    CHECK(x[0] == (float)me->world->size);
}

/* One rank alone is wrong: all hear of it, and whose fault it was. */
static void wrong_on_one(rank_of_t *me)
{
    float x = 5, y = 6;
    const float *send = me->rank == 2 ? NULL : &x;

    CHECK(accel_comm_allreduce(me->comm, send, &y, 1, ACCEL_F32, ACCEL_SUM) ==
          ACCEL_ERR_ARG);
    CHECK(y == 6);
    CHECK(strstr(accel_last_error()->text, "send buffer is NULL") != NULL);
    CHECK(me->rank == 2 ||
          strncmp(accel_last_error()->text, "rank 2 on ", 10) == 0);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
}

/* Rank 0's arguments are bad, and the others disagree: one verdict for all. */
static void wrong_and_differing(rank_of_t *me)
{
    float x[8] = {0};
    const char *text = accel_last_error()->text;

    CHECK(accel_comm_allreduce(me->comm, me->rank ? x : NULL, x,
                               6 + (size_t)me->rank, ACCEL_F32,
                               ACCEL_SUM) == ACCEL_ERR_PROTO);
    CHECK(strstr(text, "rank 1: all-reduce #2 7 x f32 sum") != NULL);
    CHECK(strstr(text, "rank 2: all-reduce #2 8 x f32 sum") != NULL);
}

static void zero_counts_are_fine(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    float x = 1;

    CHECK(!accel_comm_allreduce(c, NULL, NULL, 0, ACCEL_F32, ACCEL_SUM));
    CHECK(!accel_comm_reduce_scatter(c, NULL, NULL, 0, ACCEL_F32, ACCEL_MAX));
    CHECK(!accel_comm_allgather(c, NULL, NULL, 0, ACCEL_F32));
    CHECK(!accel_comm_gather(c, NULL, NULL, 0, ACCEL_F32, 1));
    CHECK(!accel_comm_broadcast(c, NULL, 0, ACCEL_F32, 1));
    CHECK(!accel_comm_allreduce(c, &x, &x, 1, ACCEL_F32, ACCEL_SUM));
    CHECK(x == (float)me->world->size);
}

static void wrong_uses_do_no_harm(void **state)
{
    struct world w = {.size = 3};
    const rank_fn tries[] = {wrong_everywhere, wrong_on_one,
                             wrong_and_differing, zero_counts_are_fine};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
        w.run = tries[i];
        w.nodes = NULL;
        run_world(&w);
        w.nodes = dotted;
        if (WITH_UCX)
            run_world(&w);
        w.nodes = apart;
        if (WITH_UCX)
            run_world(&w);
    }
    assert_int_equal(accel_comm_barrier(NULL), ACCEL_ERR_ARG);
    assert_int_equal(accel_comm_rank(NULL), -1);
    assert_int_equal(accel_comm_size(NULL), -1);
    assert_string_equal(accel_comm_transport(NULL), "");
    accel_comm_close(NULL);
    accel_comm_t *c = (accel_comm_t *)&w;
    assert_int_equal(accel_comm_open(NULL, NULL, &c), ACCEL_ERR_ARG);
    assert_null(c);
    assert_int_equal(accel_comm_open(NULL, NULL, NULL), ACCEL_ERR_ARG);
}

/* ---- threads and forks
 * -------------------------------------------------------
 */

static void second_thread_is_refused(rank_of_t *me)
{
    CHECK(ax_begin(me->comm) == ACCEL_OK); /* a thread is inside */
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_STATE);
    CHECK(strstr(accel_last_error()->text, "another thread") != NULL);
    ax_end(me->comm, ACCEL_OK);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
}

static void child_is_refused(rank_of_t *me)
{
    int status = -1;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        bool ok = accel_comm_barrier(me->comm) == ACCEL_ERR_STATE &&
                  strstr(accel_last_error()->text, "fork") != NULL;
        accel_comm_close(me->comm); /* must not leave for the parent */
        _exit(ok ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
}

static void only_one_thread_and_no_child(void **state)
{
    struct world w = {.size = 1, .run = second_thread_is_refused};

    (void)state;
    run_world(&w);
    w.run = child_is_refused;
    run_world(&w);
}

/* ---- memory
 * ------------------------------------------------------------------
 */

static void allocations(rank_of_t *me)
{
    void *none, *other, *p, *q;

    CHECK(accel_alloc(me->comm, 0, &none) == ACCEL_OK);
    CHECK(accel_alloc(me->comm, 0, &other) == ACCEL_OK);
    CHECK(none && other && none != other);
    CHECK(accel_alloc(me->comm, 12345, &p) == ACCEL_OK);
    CHECK((uintptr_t)p % 4096 == 0);
    for (size_t i = 0; i < 12345; i++)
        CHECK(((char *)p)[i] == 0);
    memset(p, me->rank + 1, 12345);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
    for (size_t i = 0; i < 12345; i++) /* nobody else's */
        CHECK(((char *)p)[i] == me->rank + 1);
    CHECK(accel_free(me->comm, none) == ACCEL_OK);
    CHECK(accel_free(me->comm, p) == ACCEL_OK);
    CHECK(accel_free(me->comm, p) == ACCEL_ERR_ARG);
    CHECK(accel_free(me->comm, NULL) == ACCEL_OK);
    /* more than there is: an error, with the number, and life goes on */
    CHECK(accel_alloc(me->comm, (size_t)1 << 45, &q) == ACCEL_ERR_NOMEM);
    CHECK(q == NULL);
    CHECK(strstr(accel_last_error()->text, "35184372088832 bytes") != NULL);
    CHECK(accel_alloc(me->comm, SIZE_MAX - 1, &q) == ACCEL_ERR_NOMEM);
    CHECK(accel_alloc(me->comm, SIZE_MAX / 2, &q) == ACCEL_ERR_NOMEM);
    CHECK(accel_alloc(me->comm, 100000, &q) == ACCEL_OK);
    /* `other` and `q` are left to the close */
}

static void unequal_allocations(rank_of_t *me)
{
    void *p;

    CHECK(accel_alloc(me->comm, 100 + (size_t)me->rank / 2, &p) ==
          ACCEL_ERR_PROTO);
    CHECK(p == NULL);
    CHECK(strstr(accel_last_error()->text, "ranks 0 1: accel_alloc #2 of 100 "
                                           "bytes; rank 2: accel_alloc #2 of "
                                           "101 bytes") != NULL);
}

/* One block may begin where another one ends. */
static void neighbours(rank_of_t *me)
{
    void *p[4];

    for (size_t i = 0; i < ARRAY_SIZE(p); i++)
        CHECK(accel_alloc(me->comm, 4096, &p[i]) == ACCEL_OK);
    for (size_t i = 0; i < ARRAY_SIZE(p); i++)
        CHECK(accel_free(me->comm, p[i]) == ACCEL_OK);
}

/* Room that local rank 0 made while another node had none is not used, by
 * nobody. */
static void refused_elsewhere(rank_of_t *me)
{
    size_t count = 50000;
    void *p;

    if (me->comm->local_rank == 0)
        CHECK(ax_seg_grow(me->comm->seg, 12288) == ACCEL_OK);
    CHECK(accel_alloc(me->comm, count * sizeof(float), &p) == ACCEL_OK);
    float *x = p;
    for (size_t i = 0; i < count; i++)
        x[i] = (float)me->rank;
    CHECK(!accel_comm_allreduce(me->comm, x, x, count, ACCEL_F32, ACCEL_SUM));
    for (size_t i = 0; i < count; i++)
        CHECK(x[i] == 3);
}

static void memory_is_given_and_taken(void **state)
{
    struct world w = {.size = 3, .run = allocations};

    (void)state;
    run_world(&w);
    w.run = unequal_allocations;
    run_world(&w);
    w.run = refused_elsewhere;
    run_world(&w);
    w.run = neighbours;
    run_world(&w);
    w.size = 1;
    run_world(&w);
    w.size = 3;
    w.nodes = dotted;
    w.run = allocations;
    if (WITH_UCX)
        run_world(&w);
}

/* ---- outcomes and bytes
 * --------------------------------------------------------
 */

static void lowest_error_wins(rank_of_t *me)
{
    accel_status_t mine = ACCEL_OK;
    const char *text = accel_last_error()->text;

    if (me->rank == 1)
        mine = ax_fail(ACCEL_ERR_IO, "ckpt: disk full");
    if (me->rank == 2)
        mine = ax_fail(ACCEL_ERR_CORRUPT, "ckpt: torn");
    CHECK(ax_comm_agree(me->comm, mine) == ACCEL_ERR_IO);
    CHECK(me->rank == 1 ? strcmp(text, "ckpt: disk full") == 0
                        : strncmp(text, "rank 1 on ", 10) == 0);
    CHECK(strstr(text, "ckpt: disk full") != NULL);
    CHECK(ax_comm_agree(me->comm, ACCEL_OK) == ACCEL_OK);
    CHECK(ax_comm_local_rank(me->comm) == accel_job_local_rank(me->job));
}

static void bytes_of_one_are_missing(rank_of_t *me)
{
    void *all;
    size_t *offsets;

    CHECK(accel_comm_allgather_bytes(me->comm, me->rank == 1 ? NULL : "ab", 2,
                                     &all, &offsets) == ACCEL_ERR_ARG);
    CHECK(all == NULL && offsets == NULL);
    CHECK(accel_comm_allgather_bytes(me->comm, NULL, 0, &all, &offsets) ==
          ACCEL_OK);
    CHECK(all != NULL && offsets[me->world->size] == 0);
    free(all);
    free(offsets);
}

static void outcomes_become_everyones(void **state)
{
    struct world w = {.size = 3, .run = lowest_error_wins};

    (void)state;
    run_world(&w);
    w.nodes = dotted;
    if (WITH_UCX)
        run_world(&w);
    w.nodes = NULL;
    w.run = bytes_of_one_are_missing;
    run_world(&w);
}

/* ---- without a transport
 * ------------------------------------------------------
 */

static void says_why_not(rank_of_t *me)
{
    const char *text = accel_last_error()->text;

    CHECK(me->comm == NULL);
    CHECK(strstr(text, "rank 0 on a: ") != NULL);
    CHECK(strstr(text, "no transport between them") != NULL);
    CHECK(strstr(text, "accel_ucx.so") != NULL);
    CHECK(strstr(text, "install UCX") != NULL);
}

static void several_nodes_need_a_transport(void **state)
{
    struct world w = {.size = 3,
                      .nodes = apart,
                      .run = says_why_not,
                      .want = ACCEL_ERR_UNSUPPORTED};
    const char *folder = getenv("ACCEL_MODULE_DIR");
    char kept[4096];

    (void)state;
    snprintf(kept, sizeof kept, "%s", folder ? folder : "");
    setenv("ACCEL_MODULE_DIR", "/nowhere", 1);
    run_world(&w);
    setenv("ACCEL_MODULE_DIR", kept, 1);
}

/* ---- small parts
 * ---------------------------------------------------------------
 */

static void slices_cover_all_once(void **state)
{
    static const size_t sizes[] = {1, 2, 4, 8};

    (void)state;
    for (size_t e = 0; e < ARRAY_SIZE(sizes); e++)
        for (size_t count = 0; count < 700; count += 1 + count / 50)
            for (int parts = 1; parts < 12; parts++) {
                size_t at = 0, first, length;
                for (int i = 0; i < parts; i++) {
                    ax_slice(count, sizes[e], parts, i, &first, &length);
                    assert_int_equal(first, length ? at : first);
                    assert_true(first * sizes[e] % 64 == 0 || first == count);
                    at += length;
                }
                assert_int_equal(at, count);
            }
}

static void lists_of_ranks_are_short(void **state)
{
    bool flags[100] = {false};
    char text[64] = "";

    (void)state;
    flags[0] = flags[2] = flags[3] = flags[7] = flags[8] = flags[9] = true;
    ax_append_ranks(text, sizeof text, flags, 100);
    assert_string_equal(text, "0 2 3 7-9");
    ax_append(text, sizeof text, "%0100d", 1); /* cut, not overrun */
    assert_int_equal(strlen(text), sizeof text - 1);
    assert_string_equal(ax_last_text(0, text, sizeof text), "nothing yet");
    assert_string_equal(
        ax_last_text(AX_LAST(AX_CALL_GATHER, 12), text, sizeof text),
        "gather #12");
    assert_string_equal(ax_call_name(200), "something unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_cover_all_once),
        cmocka_unit_test(lists_of_ranks_are_short),
        cmocka_unit_test(only_one_thread_and_no_child),
        cmocka_unit_test(same_bits_at_any_size),
        cmocka_unit_test(sixteen_bit_sums_round_once),
        cmocka_unit_test(nan_reaches_everybody),
        cmocka_unit_test(ranks_that_differ_are_named),
        cmocka_unit_test(wrong_uses_do_no_harm),
        cmocka_unit_test(memory_is_given_and_taken),
        cmocka_unit_test(outcomes_become_everyones),
        cmocka_unit_test(several_nodes_need_a_transport),
        cmocka_unit_test(sums_are_right_wherever_ranks_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
