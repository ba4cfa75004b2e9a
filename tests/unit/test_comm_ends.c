/* comm: who is late, leaves, or is behind; ranks are threads. */
#include "unit/unit.h"

#include "comm/inter_priv.h"
#include "unit/ranks.h"

#include <time.h>

static const char *const apart[] = {"a", "b", "c"};

static void sleep_ms(long ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&ts, NULL);
}

static void one_is_late(rank_of_t *me)
{
    const char *text = accel_last_error()->text;

    if (me->rank == 1)
        sleep_ms(3000);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_TIMEOUT);
    CHECK(strstr(text, "waited 1 s in barrier #2 for rank 1 on ") != NULL);
    CHECK(strstr(text, "last: accel_comm_open #1") != NULL);
    CHECK(strstr(text, "timeout=1") != NULL);
}

static void one_leaves(rank_of_t *me)
{
    const char *text = accel_last_error()->text;

    if (me->rank == 1) {
        accel_comm_close(me->comm);
        me->comm = NULL;
        return;
    }
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_PEER);
    CHECK(strstr(text, "rank 1 on ") != NULL);
    CHECK(strstr(text, "has left") != NULL);
}

/* Others may leave when the last operation is through for them. */
static void all_leave_in_any_order(rank_of_t *me)
{
    float x = 1;

    for (int i = 0; i < 20; i++)
        CHECK(accel_comm_allreduce(me->comm, &x, &x, 1, ACCEL_F32, ACCEL_MAX) ==
              ACCEL_OK);
    CHECK(accel_comm_gather(me->comm, &x, me->rank ? NULL : (float[3]){0}, 1,
                            ACCEL_F32, 0) == ACCEL_OK);
}

/* Until this rank sees that somebody's call has failed. */
static void await_fault(accel_comm_t *c)
{
    for (int i = 0; i < 60000; i++) {
        if (c->inter)
            CHECK(ax_inter_poll(c, NULL, false) >= ACCEL_OK);
        if (ax_fault_ahead(c))
            return;
        sleep_ms(1);
    }
    CHECK(!"no fault");
}

/* Rank 2 leaves after the barrier; rank 1 is the last one in it, when rank 0
 * has given up in the call after it: this one is through, the next is not. */
static void one_is_behind(rank_of_t *me)
{
    const char *text = accel_last_error()->text;

    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
    if (me->rank == 2) {
        accel_comm_close(me->comm);
        me->comm = NULL;
        return;
    }
    if (me->rank == 1) {
        ax_wait_t wait = {.tries = 1u << 20};
        await_fault(me->comm);
        CHECK(!ax_fault_there(me->comm));
        CHECK(ax_wait_more(me->comm, &wait) == ACCEL_OK);
    }
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_PEER);
    CHECK(strstr(text, "comm: rank 2 on ") == text);
    CHECK(strstr(text, "has left (accel_comm_close) while others are in "
                       "barrier #3") != NULL);
    CHECK(strstr(text, "rank 0 was waiting in it") != NULL);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_PEER);
}

/* Who has left cannot send what this call still wants: it ends. */
static void one_waits_in_vain(rank_of_t *me)
{
    ax_wait_t wait = {.tries = 1u << 20};
    accel_status_t st;

    if (me->rank == 2) {
        accel_comm_close(me->comm);
        me->comm = NULL;
        return;
    }
    if (me->rank == 0) {
        CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_PEER);
        return;
    }
    await_fault(me->comm);
    while ((st = ax_wait_more(me->comm, &wait)) == ACCEL_OK)
        ;
    CHECK(st == ACCEL_ERR_PEER);
    CHECK(strstr(accel_last_error()->text, "comm: rank 2 on ") != NULL);
}

/* Rank 1 is in trouble between two calls: the others are through with the one
 * before, and hear of it in the next, or when they ask. */
static void one_cannot_go_on(rank_of_t *me)
{
    const char *text = accel_last_error()->text;
    accel_status_t st;

    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
    CHECK(ax_comm_check(me->comm) <= ACCEL_OK);
    if (me->rank == 1) {
        st = ax_comm_fail(me->comm, ax_fail(ACCEL_ERR_IO, "data: /x: gone"));
        CHECK(st == ACCEL_ERR_IO && strcmp(text, "data: /x: gone") == 0);
    }
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_IO);
    CHECK(strstr(text, "rank 1 on ") == text);
    CHECK(strstr(text, ": data: /x: gone") != NULL);
    CHECK(ax_comm_check(me->comm) == ACCEL_ERR_IO);
    CHECK(ax_comm_fail(me->comm, ax_fail(ACCEL_ERR_ARG, "later")) ==
          ACCEL_ERR_ARG);
    CHECK(strcmp(text, "later") == 0);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_IO);
}

/* It tells why and leaves at once. */
static void one_says_why_it_leaves(rank_of_t *me)
{
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
    if (me->rank == 2) {
        ax_comm_fail(me->comm, ax_fail(ACCEL_ERR_CORRUPT, "data: bad"));
        accel_comm_close(me->comm);
        me->comm = NULL;
        return;
    }
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_CORRUPT);
    CHECK(strstr(accel_last_error()->text, "rank 2 on ") != NULL);
}

static void one_alone_goes_on(rank_of_t *me)
{
    CHECK(ax_comm_fail(me->comm, ax_fail(ACCEL_ERR_IO, "x")) == ACCEL_ERR_IO);
    CHECK(ax_comm_check(me->comm) == ACCEL_OK);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
}

static void alone(void **state)
{
    struct world w = {.size = 1, .run = one_alone_goes_on};

    (void)state;
    run_world(&w);
}

/* Node 1 waits for rank 0, and this one for node 1: its last call is said,
 * not that of rank 0. */
static void who_waits_for_us_is_named_rightly(rank_of_t *me)
{
    bool awaited[3] = {false, true, false};
    const ax_wait_t wait = {.nodes = awaited};
    char text[256] = "";

    if (me->rank == 0) {
        ax_peer_t *peer = &me->comm->inter->peers[1];
        ax_peer_t kept = *peer;
        *peer = (ax_peer_t){.last = AX_LAST(AX_CALL_ALLREDUCE, 7),
                            .waits_for = 0,
                            .waits_last = AX_LAST(AX_CALL_BARRIER, 3),
                            .waits_ns = ax_now_ns()};
        ax_inter_late(me->comm, &wait, text, sizeof text);
        CHECK(strcmp(text, "rank 1 on b (last: all-reduce #7)") == 0);
        *peer = kept;
    }
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
}

/* ---- segments between nodes -------------------------------------------------
 */

static void no_work(accel_comm_t *c, void *op, size_t segment)
{
    (void)c, (void)op, (void)segment;
}

/* Rank 1 awaits a byte that rank 0 does not send; rank 2, beside it, fails. */
static accel_status_t start_in_vain(accel_comm_t *c, void *op, size_t segment)
{
    (void)segment;
    if (c->rank == 0)
        return ACCEL_OK;
    if (c->rank == 2)
        return ax_raise(c, ACCEL_ERR_IO, "data: /x: gone");
    accel_status_t st = ax_inter_broadcast(c, op, 1, 0, false);
    CHECK(st == ACCEL_OK && c->inter->flying);
    return st;
}

static void nothing_goes_on_after_an_error(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    char byte = 0;
    ax_pipe_t pipe = {.op = &byte,
                      .segments = 2,
                      .make = no_work,
                      .start = start_in_vain,
                      .take = no_work};

    CHECK(ax_begin(c) == ACCEL_OK);
    if (ax_is_leader(c)) /* rank 0 will not be there for it */
        CHECK(ax_inter_measure(c) == ACCEL_OK);
    c->call = (ax_call_t){.kind = AX_CALL_BARRIER};
    accel_status_t st = ax_pipe_run(c, &pipe, ACCEL_OK);
    CHECK(me->rank == 0 || st == ACCEL_ERR_IO);
    CHECK(!c->inter->flying);
    ax_end(c, st);
    CHECK(accel_comm_barrier(c) == ACCEL_ERR_IO);
}

static void segments_end(void **state)
{
    static const char *const nodes[] = {"a", "b", "b"};
    struct world w = {.size = 3,
                      .spec = "timeout=60",
                      .nodes = nodes,
                      .run = nothing_goes_on_after_an_error};

    (void)state;
    if (WITH_UCX)
        run_world(&w);
}

/* Another thread is in a call when this one closes. */
struct inside {
    ax_guard_t *guard;
    atomic_int ready, left;
};

static void *stay_inside(void *arg)
{
    struct inside *in = arg;

    CHECK(ax_guard_enter(in->guard)); /* as a call does */
    atomic_store(&in->ready, 1);
    sleep_ms(200);
    atomic_store(&in->left, 1);
    ax_guard_leave(in->guard);
    return NULL;
}

static void one_closes_amid_a_call(rank_of_t *me)
{
    struct inside in = {.guard = &me->comm->guard};
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, stay_inside, &in) == 0);
    while (!atomic_load(&in.ready))
        sleep_ms(1);
    accel_comm_close(me->comm);
    me->comm = NULL;
    CHECK(atomic_load(&in.left) == 1);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void waits_end(void **state)
{
    struct world w = {.size = 3, .spec = "timeout=1"};
    const rank_fn tries[] = {one_is_late,
                             one_leaves,
                             all_leave_in_any_order,
                             one_is_behind,
                             one_waits_in_vain,
                             one_cannot_go_on,
                             one_says_why_it_leaves,
                             one_closes_amid_a_call};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
        w.run = tries[i];
        w.spec = i ? "timeout=60" : "timeout=1";
        w.nodes = NULL;
        run_world(&w);
        w.nodes = apart;
        if (WITH_UCX)
            run_world(&w);
    }
    w.run = who_waits_for_us_is_named_rightly;
    if (WITH_UCX)
        run_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_end),
        cmocka_unit_test(alone),
        cmocka_unit_test(segments_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
