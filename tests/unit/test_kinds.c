/* What goes wrong in the ways of the cases in tests/CASES, but elsewhere; ranks
 * are threads. Each test is named there. */
#include "unit/unit.h"

#include "comm/inter_priv.h"
#include "unit/ranks.h"

#include <sys/stat.h>

static const char *const apart[] = {"a", "b", "c"};
static const char *const pairs[] = {"a", "a", "b", "b", "c", "c"};

static void everywhere(struct world *w)
{
    w->nodes = NULL;
    run_world(w);
    w->nodes = apart;
    if (WITH_UCX)
        run_world(w);
}

static void told(accel_status_t got, accel_status_t want, const char *text)
{
    if (got != want || !strstr(accel_last_error()->text, text)) {
        fprintf(stderr, "not told: %s\n", text);
        CHECK(false);
    }
}

/* ---- calls that differ -----------------------------------------------------
 */

#define MANY 9000 /* more than goes any other way than by the heap */

/* The calls name memory of the heap, whose contents may not change either. */
static void differing_in_the_heap(rank_of_t *me)
{
    size_t count = me->rank == 1 ? MANY - 1 : MANY;
    void *p;

    CHECK(accel_alloc(me->comm, MANY * sizeof(float), &p) == ACCEL_OK);
    float *x = p;
    for (size_t i = 0; i < MANY; i++)
        x[i] = 3;
    told(accel_comm_allreduce(me->comm, x, x, count, ACCEL_F32, ACCEL_SUM),
         ACCEL_ERR_PROTO, "8999 x f32 sum");
    for (size_t i = 0; i < MANY; i++)
        CHECK(x[i] == 3);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_PROTO);
}

/* Only some of those that differ have theirs in the heap. */
static void differing_with_some_in_the_heap(rank_of_t *me)
{
    static const float zeros[MANY];
    float *own = malloc(MANY * sizeof *own);
    void *p;

    CHECK(own && accel_alloc(me->comm, MANY * sizeof *own, &p) == ACCEL_OK);
    float *x = me->rank ? p : own;
    memcpy(x, zeros, sizeof zeros);
    told(accel_comm_allreduce(me->comm, x, x, MANY, ACCEL_F32,
                              me->rank == 1 ? ACCEL_MAX : ACCEL_SUM),
         ACCEL_ERR_PROTO, "9000 x f32 max");
    CHECK(memcmp(x, zeros, sizeof zeros) == 0);
    free(own);
}

static void calls_in_the_heap_are_compared(void **state)
{
    struct world w = {.size = 3, .run = differing_in_the_heap};

    (void)state;
    everywhere(&w);
    w.run = differing_with_some_in_the_heap;
    everywhere(&w);
}

static void alloc_against_sum(rank_of_t *me)
{
    float x = 7;
    void *p;

    accel_status_t st =
        me->rank == 1
            ? accel_alloc(me->comm, 100, &p)
            : accel_comm_allreduce(me->comm, &x, &x, 1, ACCEL_F32, ACCEL_SUM);
    told(st, ACCEL_ERR_PROTO, "rank 1: accel_alloc #2 of 100 bytes");
    CHECK(x == 7);
}

static void one_frees_another_block(rank_of_t *me)
{
    void *p, *q;

    CHECK(accel_alloc(me->comm, 100, &p) == ACCEL_OK);
    CHECK(accel_alloc(me->comm, 100, &q) == ACCEL_OK);
    told(accel_free(me->comm, me->rank == 1 ? p : q), ACCEL_ERR_PROTO,
         " of block 1");
}

static void memory_is_asked_for_alike(void **state)
{
    struct world w = {.size = 3, .run = alloc_against_sum};

    (void)state;
    everywhere(&w);
    w.run = one_frees_another_block;
    everywhere(&w);
}

/* Rank 0 waits in the world, the others in a part of it with rank 0. */
static void two_communicators(rank_of_t *me)
{
    accel_comm_t *part;

    CHECK(accel_comm_split(me->comm, 0, me->rank, &part) == ACCEL_OK);
    if (me->rank == 0)
        told(accel_comm_barrier(me->comm), ACCEL_ERR_TIMEOUT, "for rank 1 on ");
    else
        told(accel_comm_barrier(part), ACCEL_ERR_TIMEOUT, "for rank 0 on ");
    pthread_barrier_wait(&me->world->barrier); /* or they would have left */
    accel_comm_close(part);
}

static void a_call_on_another_communicator_is_told(void **state)
{
    struct world w = {.size = 3, .run = two_communicators, .spec = "timeout=1"};

    (void)state;
    everywhere(&w);
}

/* ---- a call that one rank cannot make ---------------------------------------
 */

/* It does not know how the others would have gone about it; what they use
 * next must be the same again. */
static void refused_then_large(rank_of_t *me)
{
    float *x = malloc(MANY * sizeof *x);

    CHECK(x != NULL);
    for (int round = 0; round < 6; round++) {
        accel_dtype_t t = me->rank == round % 3 ? (accel_dtype_t)77 : ACCEL_F32;
        size_t count = round < 3 ? MANY : 1000;
        CHECK(accel_comm_allreduce(me->comm, x, x, count, t, ACCEL_SUM) ==
              ACCEL_ERR_ARG);
        for (size_t i = 0; i < MANY; i++)
            x[i] = (float)(me->rank + (int)(i % 5));
        for (size_t n = 700; n <= MANY; n = n < MANY ? MANY : n + 1) {
            CHECK(accel_comm_reduce_scatter(me->comm, x, x, n / 3, ACCEL_F32,
                                            ACCEL_MAX) == ACCEL_OK);
            CHECK(accel_comm_allreduce(me->comm, x, x, n, ACCEL_F32,
                                       ACCEL_MAX) == ACCEL_OK);
        }
        for (size_t i = 0; i < MANY; i++)
            x[i] = (float)(me->rank + (int)(i % 5));
        CHECK(accel_comm_allreduce(me->comm, x, x, MANY, ACCEL_F32,
                                   ACCEL_SUM) == ACCEL_OK);
        for (size_t i = 0; i < MANY; i++)
            CHECK(x[i] == (float)(3 + 3 * (int)(i % 5)));
    }
    free(x);
}

static void a_refused_call_leaves_no_trace(void **state)
{
    struct world w = {.size = 3, .run = refused_then_large};

    (void)state;
    everywhere(&w);
}

/* ---- memory
 * ------------------------------------------------------------------
 */

static size_t blocks_of(const accel_comm_t *c)
{
    struct stat file;

    CHECK(fstat(c->seg->fd, &file) == 0);
    return (size_t)file.st_blocks * 512;
}

/* However often it is given and taken, no more is kept. */
static void given_and_taken(rank_of_t *me)
{
    const size_t bytes = (size_t)4 << 20;
    size_t before = 0;
    void *p;

    for (int i = 0; i < 12; i++) {
        CHECK(accel_alloc(me->comm, bytes, &p) == ACCEL_OK);
        memset(p, i, bytes);
        CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
        CHECK(accel_free(me->comm, p) == ACCEL_OK);
        CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
        if (i == 1)
            before = blocks_of(me->comm);
    }
    CHECK(blocks_of(me->comm) <= before + bytes);
}

static void memory_is_given_back(void **state)
{
    struct world w = {.size = 2, .run = given_and_taken};

    (void)state;
    everywhere(&w);
}

/* ---- between nodes
 * ------------------------------------------------------------
 */

/* Who is on the way of no data of mine is not connected to. */
static void only_rails(rank_of_t *me)
{
    const accel_comm_t *c = me->comm;
    float x[64] = {0};
    int reached = 0;

    for (int i = 0; i < 20; i++)
        CHECK(accel_comm_allreduce(me->comm, x, x, 64, ACCEL_F32, ACCEL_SUM) ==
              ACCEL_OK);
    for (int r = 0; r < c->size; r++) {
        reached += c->inter->reached[r];
        CHECK(!c->inter->reached[r] || ax_local_of(c, r) == c->local_rank);
    }
    CHECK(reached == c->nodes - 1);
}

static void endpoints_go_to_peers_of_the_rail_only(void **state)
{
    struct world w = {.size = 6, .nodes = pairs, .run = only_rails};

    (void)state;
    if (WITH_UCX)
        run_world(&w);
    else
        print_message("left out: %s\n", WHY_NOT);
}

/* ---- nothing, and far too much
 * ------------------------------------------------
 */

static void nothing_started(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    const size_t none[3] = {0};
    accel_parts_t p = {.counts = none};
    accel_request_t *q[12];
    int n = 0, x = 1;

    CHECK(!accel_comm_broadcast_start(c, NULL, 0, ACCEL_I32, 1, &q[n++]));
    CHECK(!accel_comm_allreduce_start(c, NULL, NULL, 0, ACCEL_I32, ACCEL_SUM,
                                      &q[n++]));
    CHECK(!accel_comm_reduce_start(c, NULL, NULL, 0, ACCEL_I32, ACCEL_SUM, 2,
                                   &q[n++]));
    CHECK(!accel_comm_reduce_scatterv_start(c, NULL, NULL, none, ACCEL_I32,
                                            ACCEL_SUM, &q[n++]));
    CHECK(!accel_comm_allgatherv_start(c, NULL, NULL, &p, ACCEL_I32, &q[n++]));
    CHECK(!accel_comm_gatherv_start(c, NULL, NULL, &p, ACCEL_I32, 1, &q[n++]));
    CHECK(!accel_comm_scatterv_start(c, NULL, NULL, &p, ACCEL_I32, 1, &q[n++]));
    CHECK(!accel_comm_alltoall_start(c, NULL, NULL, 0, ACCEL_I32, &q[n++]));
    CHECK(
        !accel_comm_alltoallv_start(c, NULL, &p, NULL, &p, ACCEL_I32, &q[n++]));
    CHECK(!accel_comm_allreduce_start(c, &x, &x, 1, ACCEL_I32, ACCEL_SUM,
                                      &q[n++]));
    CHECK(accel_request_wait_all(q, (size_t)n) == ACCEL_OK);
    CHECK(x == 3);
}

static void counts_of_zero_may_be_started(void **state)
{
    struct world w = {.size = 3, .run = nothing_started};

    (void)state;
    everywhere(&w);
}

/* Products of counts and sizes that wrap, or are negative as a signed number;
 * started, the error comes with the request. */
static void too_much(rank_of_t *me)
{
    const size_t counts[] = {SIZE_MAX,         SIZE_MAX / 2,
                             SIZE_MAX / 4 + 1, (size_t)1 << 62,
                             (size_t)1 << 61,  PTRDIFF_MAX / 8 + 1};
    double x[4] = {1}, y[4] = {2};
    accel_request_t *req;

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        told(accel_comm_allreduce_start(me->comm, x, y, counts[i], ACCEL_F64,
                                        ACCEL_SUM, &req),
             ACCEL_OK, "");
        told(accel_request_wait(&req), ACCEL_ERR_ARG, "more than memory");
        told(accel_comm_reduce_scatter(me->comm, x, y, counts[i] / 2, ACCEL_F64,
                                       ACCEL_SUM),
             ACCEL_ERR_ARG, "more than memory");
    }
    CHECK(y[0] == 2 && accel_comm_barrier(me->comm) == ACCEL_OK);
}

static void counts_beyond_memory_are_refused(void **state)
{
    struct world w = {.size = 3, .run = too_much};

    (void)state;
    everywhere(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_in_the_heap_are_compared),
        cmocka_unit_test(memory_is_asked_for_alike),
        cmocka_unit_test(a_call_on_another_communicator_is_told),
        cmocka_unit_test(a_refused_call_leaves_no_trace),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(endpoints_go_to_peers_of_the_rail_only),
        cmocka_unit_test(counts_of_zero_may_be_started),
        cmocka_unit_test(counts_beyond_memory_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
