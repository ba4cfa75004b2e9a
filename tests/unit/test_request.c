/* request: started operations; ranks are threads, each with one more. */
#include "unit/unit.h"

#include "unit/ranks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define THREADS_IN_CHILDREN false
#else
#define THREADS_IN_CHILDREN true
#endif

#define MANY 40

static const char *const cyclic[] = {"a", "b", "a", "b"};

static void on_both(struct world *w)
{
    w->nodes = NULL;
    run_world(w);
    w->nodes = cyclic;
    if (WITH_UCX)
        run_world(w);
}

static accel_status_t start_sum(rank_of_t *me, int *x, accel_request_t **req)
{
    return accel_comm_allreduce_start(me->comm, x, x, 1, ACCEL_I32, ACCEL_SUM,
                                      req);
}

/* ---- they go on by themselves, in order ------------------------------------
 */

static void nobody_asks(rank_of_t *me)
{
    accel_request_t *req = NULL;
    int x = me->rank;
    bool done = false;

    CHECK(start_sum(me, &x, &req) == ACCEL_OK && req);
    /* an operation that no rank asks about ends nevertheless */
    while (!done) {
        usleep(1000);
        CHECK(accel_request_test(&req, &done) == ACCEL_OK);
    }
    CHECK(req == NULL && x == 6);
    /* the first time it is asked it is done already, however long ago */
    CHECK(start_sum(me, &x, &req) == ACCEL_OK);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
    CHECK(accel_request_test(&req, &done) == ACCEL_OK && done && !req);
    CHECK(x == 24);
}

static void go_on_by_themselves(void **state)
{
    struct world w = {.size = 4, .run = nobody_asks};

    (void)state;
    on_both(&w);
}

/* Each works on what the one before it left: their order shows. */
static void one_after_the_other(rank_of_t *me)
{
    accel_request_t *reqs[MANY];
    uint64_t x = 3, want = 3; /* odd: they never become 0 */

    for (int i = 0; i < MANY; i++) {
        CHECK((i % 2 ? accel_comm_allreduce_start(
                           me->comm, &x, &x, 1, ACCEL_U64, ACCEL_SUM, &reqs[i])
                     : accel_comm_allreduce_start(me->comm, &x, &x, 1,
                                                  ACCEL_U64, ACCEL_PROD,
                                                  &reqs[i])) == ACCEL_OK);
        want = i % 2 ? want * 3 : want * want * want;
    }
    /* waiting in another order changes nothing */
    for (int i = MANY - 1; i >= 0; i--)
        CHECK(accel_request_wait(&reqs[i]) == ACCEL_OK && !reqs[i]);
    CHECK(x == want);
}

static void in_the_order_they_were_started(void **state)
{
    struct world w = {.size = 3, .run = one_after_the_other};

    (void)state;
    on_both(&w);
}

/* Blocking calls wait for those before; starts and calls match. */
static void mixed(rank_of_t *me)
{
    for (int i = 0; i < MANY; i++) {
        accel_request_t *req = NULL;
        int x = me->rank, y = 1;
        if ((i + me->rank) % 2) {
            CHECK(start_sum(me, &x, &req) == ACCEL_OK);
        } else {
            CHECK(accel_comm_allreduce(me->comm, &x, &x, 1, ACCEL_I32,
                                       ACCEL_SUM) == ACCEL_OK);
        }
        CHECK(accel_comm_allreduce(me->comm, &y, &y, 1, ACCEL_I32, ACCEL_SUM) ==
              ACCEL_OK);
        CHECK(y == 4 && x == 6); /* the started one came first */
        if (req)
            CHECK(accel_request_wait(&req) == ACCEL_OK);
    }
}

static void starts_match_calls(void **state)
{
    struct world w = {.size = 4, .run = mixed};

    (void)state;
    on_both(&w);
}

/* Communicators do not wait for each other: each rank starts on both in
 * another order. */
static void two_communicators(rank_of_t *me)
{
    accel_comm_t *other;

    CHECK(accel_comm_split(me->comm, 0, -me->rank, &other) == ACCEL_OK);
    for (int i = 0; i < MANY; i++) {
        accel_request_t *reqs[2];
        int x[2] = {me->rank, 1};
        accel_comm_t *comms[2] = {me->comm, other};
        for (int k = 0; k < 2; k++) {
            int which = (k + me->rank) % 2;
            CHECK(accel_comm_allreduce_start(comms[which], &x[which], &x[which],
                                             1, ACCEL_I32, ACCEL_SUM,
                                             &reqs[which]) == ACCEL_OK);
        }
        CHECK(accel_request_wait(&reqs[me->rank % 2]) == ACCEL_OK);
        CHECK(accel_request_wait_all(reqs, 2) == ACCEL_OK);
        CHECK(x[0] == 6 && x[1] == 4);
    }
    accel_comm_close(other);
}

static void communicators_go_on_beside_each_other(void **state)
{
    struct world w = {.size = 4, .run = two_communicators};

    (void)state;
    on_both(&w);
}

/* Tables of counts may be changed once the start has returned. */
static void tables(rank_of_t *me)
{
    size_t counts[4] = {3, 0, 1, 2}, places[4] = {4, 0, 3, 1};
    int send[3] = {me->rank, me->rank, me->rank}, recv[8];
    accel_request_t *first, *req;

    memset(recv, 0xff, sizeof recv);
    CHECK(accel_comm_barrier_start(me->comm, &first) == ACCEL_OK);
    CHECK(accel_comm_allgatherv_start(
              me->comm, send, recv,
              &(accel_parts_t){.counts = counts, .places = places}, ACCEL_I32,
              &req) == ACCEL_OK);
    memset(counts, 0x77, sizeof counts);
    memset(places, 0x77, sizeof places);
    CHECK(accel_request_wait(&req) == ACCEL_OK);
    CHECK(accel_request_wait(&first) == ACCEL_OK);
    static const int want[8] = {-1, 3, 3, 2, 0, 0, 0, -1};
    CHECK(memcmp(recv, want, sizeof want) == 0);
}

static void tables_are_copied(void **state)
{
    struct world w = {.size = 4, .run = tables};

    (void)state;
    on_both(&w);
}

/* ---- from rank to rank ------------------------------------------------------
 */

/* Round a ring, some started, some called; then a message that waits in the
 * queue for another one. */
static void messages(rank_of_t *me)
{
    int size = me->world->size, next = (me->rank + 1) % size;
    int before = (me->rank + size - 1) % size;
    int x = me->rank, y = -1, z = 1;
    accel_request_t *reqs[3] = {NULL};

    for (int i = 0; i < 12; i++) {
        accel_outgoing_t out = {&x, 1, ACCEL_I32, next, i};
        accel_incoming_t in = {&y, 1, ACCEL_I32, before, i};
        if ((i + me->rank) % 3) {
            CHECK(accel_comm_sendrecv_start(me->comm, &out, &in, &reqs[0]) ==
                  ACCEL_OK);
            out = (accel_outgoing_t){0}; /* what it says was copied */
            in = (accel_incoming_t){0};
            CHECK(accel_request_wait(&reqs[0]) == ACCEL_OK);
        } else {
            CHECK(accel_comm_sendrecv(me->comm, &out, &in) == ACCEL_OK);
        }
        x = y;
    }
    CHECK(x == (me->rank + 12 * (size - 1)) % size);
    x = me->rank;
    if (me->rank == 0) {
        CHECK(accel_comm_send_start(me->comm, &x, 1, ACCEL_I32, 1, 7,
                                    &reqs[0]) == ACCEL_OK);
        CHECK(accel_comm_recv_start(me->comm, &y, 1, ACCEL_I32, 1, 8,
                                    &reqs[1]) == ACCEL_OK);
    } else if (me->rank == 1) {
        CHECK(accel_comm_recv_start(me->comm, &y, 1, ACCEL_I32, 0, 7,
                                    &reqs[0]) == ACCEL_OK);
        CHECK(accel_comm_send_start(me->comm, &x, 1, ACCEL_I32, 0, 8,
                                    &reqs[1]) == ACCEL_OK);
    }
    CHECK(start_sum(me, &z, &reqs[2]) == ACCEL_OK);
    CHECK(accel_request_wait_all(reqs, 3) == ACCEL_OK);
    CHECK(z == size && (me->rank > 1 || y == 1 - me->rank));
    /* what this rank does wrong is its own matter */
    CHECK(accel_comm_send_start(me->comm, &x, 1, ACCEL_I32, 0, 1, NULL) ==
          ACCEL_ERR_ARG);
    CHECK(accel_comm_sendrecv_start(me->comm, NULL, NULL, &reqs[0]) ==
              ACCEL_ERR_ARG &&
          !reqs[0]);
    CHECK(accel_comm_recv_start(me->comm, &x, 1, ACCEL_I32, 77, 1, &reqs[0]) ==
          ACCEL_OK);
    CHECK(accel_request_wait(&reqs[0]) == ACCEL_ERR_ARG);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
}

static void messages_are_started_as_well(void **state)
{
    struct world w = {.size = 4, .run = messages};

    (void)state;
    on_both(&w);
}

/* ---- any and all ------------------------------------------------------------
 */

static void any_and_all(rank_of_t *me)
{
    accel_request_t *reqs[6] = {NULL};
    int x[6];
    size_t index = 99, seen = 0;

    CHECK(accel_request_wait_any(reqs, 6, &index) == ACCEL_OK && index == 6);
    CHECK(accel_request_wait_any(NULL, 0, &index) == ACCEL_OK && index == 0);
    CHECK(accel_request_wait_all(reqs, 6) == ACCEL_OK);
    CHECK(accel_request_wait_all(NULL, 0) == ACCEL_OK);
    for (size_t i = 0; i < 6; i++) {
        x[i] = me->rank;
        if (i % 3)
            CHECK(start_sum(me, &x[i], &reqs[i]) == ACCEL_OK);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(accel_request_wait_any(reqs, 6, &index) == ACCEL_OK);
        CHECK(index < 6 && index % 3 && !reqs[index] && x[index] == 6);
        CHECK(!(seen & 1u << index));
        seen |= 1u << index;
    }
    CHECK(accel_request_wait_any(reqs, 6, &index) == ACCEL_OK && index == 6);
    for (size_t i = 1; i < 6; i += 2)
        CHECK(start_sum(me, &x[i], &reqs[i]) == ACCEL_OK);
    CHECK(accel_request_wait_all(reqs, 6) == ACCEL_OK);
    for (size_t i = 0; i < 6; i++)
        CHECK(!reqs[i]);
}

static void any_and_all_pass_over_null(void **state)
{
    struct world w = {.size = 4, .run = any_and_all};

    (void)state;
    on_both(&w);
}

/* ---- errors -----------------------------------------------------------------
 */

/* Bad arguments come with the request, to all, and do no harm; wait for all
 * returns the first in the array's order and waits for the rest. */
static void bad_arguments(rank_of_t *me)
{
    accel_request_t *reqs[4] = {NULL};
    int x = me->rank, y = 1;
    float f = 3;

    CHECK(start_sum(me, &y, &reqs[0]) == ACCEL_OK);
    CHECK(accel_comm_broadcast_start(me->comm, &f, 1, ACCEL_F32, 77,
                                     &reqs[2]) == ACCEL_OK);
    CHECK(accel_comm_allreduce_start(me->comm, me->rank == 1 ? NULL : &f, &f, 1,
                                     ACCEL_F32, ACCEL_SUM,
                                     &reqs[1]) == ACCEL_OK);
    CHECK(start_sum(me, &x, &reqs[3]) == ACCEL_OK);
    CHECK(accel_request_wait_all(reqs, 4) == ACCEL_ERR_ARG);
    CHECK(strstr(accel_last_error()->text, "send buffer is NULL") != NULL);
    if (me->rank != 1)
        CHECK(strstr(accel_last_error()->text, "rank 1 on ") != NULL);
    CHECK(!reqs[0] && !reqs[1] && !reqs[2] && !reqs[3]);
    CHECK(f == 3 && y == 4 && x == 6);
}

static void errors_come_with_the_request(void **state)
{
    struct world w = {.size = 4, .run = bad_arguments};

    (void)state;
    on_both(&w);
}

/* What cannot be started on one rank fails on all, at once there and with the
 * request elsewhere. */
static void no_place_for_one(rank_of_t *me)
{
    accel_request_t *req = NULL;
    int x = 1, y = 1;

    CHECK(start_sum(me, &y, &req) == ACCEL_OK);
    CHECK(accel_request_wait(&req) == ACCEL_OK);
    if (me->rank == 2) {
        CHECK(start_sum(me, &x, NULL) == ACCEL_ERR_ARG);
    } else {
        CHECK(start_sum(me, &x, &req) == ACCEL_OK);
        CHECK(accel_request_wait(&req) == ACCEL_ERR_ARG);
        CHECK(strstr(accel_last_error()->text, "rank 2 on ") != NULL);
    }
    CHECK(strstr(accel_last_error()->text, "start: out is NULL") != NULL);
    CHECK(x == 1);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_OK);
}

static void all_hear_of_what_was_not_started(void **state)
{
    struct world w = {.size = 4, .run = no_place_for_one};

    (void)state;
    on_both(&w);
}

/* After a fault all that is queued ends with the same error. */
static void fault_with_more_queued(rank_of_t *me)
{
    accel_request_t *reqs[5];
    int x[5] = {0};

    for (int i = 0; i < 5; i++)
        CHECK(accel_comm_allreduce_start(me->comm, &x[i], &x[i], 1, ACCEL_I32,
                                         i == 2 && me->rank == 3 ? ACCEL_MAX
                                                                 : ACCEL_SUM,
                                         &reqs[i]) == ACCEL_OK);
    for (int i = 4; i >= 0; i--) {
        accel_status_t st = accel_request_wait(&reqs[i]);
        CHECK(st == (i < 2 ? ACCEL_OK : ACCEL_ERR_PROTO) && !reqs[i]);
        if (i >= 2)
            CHECK(strstr(accel_last_error()->text, "rank 3: all-reduce #4") !=
                  NULL);
    }
    /* and so does what comes later */
    CHECK(start_sum(me, &x[0], &reqs[0]) == ACCEL_OK);
    CHECK(accel_request_wait(&reqs[0]) == ACCEL_ERR_PROTO);
    CHECK(accel_comm_barrier(me->comm) == ACCEL_ERR_PROTO);
    CHECK(start_sum(me, &x[0], NULL) == ACCEL_ERR_PROTO);
}

static void a_fault_ends_all_that_is_queued(void **state)
{
    struct world w = {.size = 4, .run = fault_with_more_queued};

    (void)state;
    on_both(&w);
}

/* A rank that leaves ends what others have started. */
static void one_leaves(rank_of_t *me)
{
    accel_request_t *req = NULL;
    int x = 1;

    if (me->rank == 1) {
        accel_comm_close(me->comm);
        me->comm = NULL;
        return;
    }
    CHECK(start_sum(me, &x, &req) == ACCEL_OK);
    CHECK(accel_request_wait(&req) == ACCEL_ERR_PEER);
    CHECK(strstr(accel_last_error()->text, "rank 1 on ") != NULL);
    CHECK(strstr(accel_last_error()->text, "has left") != NULL);
}

/* A silent one, too, within the timeout; it was at work elsewhere. */
static void one_is_silent(rank_of_t *me)
{
    accel_request_t *req = NULL;
    int x = 1;

    if (me->rank != 1) {
        CHECK(start_sum(me, &x, &req) == ACCEL_OK);
        CHECK(accel_request_wait(&req) == ACCEL_ERR_TIMEOUT);
        CHECK(strstr(accel_last_error()->text, "rank 1 on ") != NULL);
    }
    pthread_barrier_wait(&me->world->barrier);
}

static void who_does_not_come_ends_it(void **state)
{
    struct world left = {.size = 4, .run = one_leaves};
    struct world silent = {
        .size = 3, .run = one_is_silent, .spec = "timeout=2"};

    (void)state;
    on_both(&left);
    on_both(&silent);
}

/* ---- closing and giving up --------------------------------------------------
 */

static void close_with_open_ones(rank_of_t *me)
{
    accel_request_t *reqs[3];
    int x[3] = {me->rank, me->rank, me->rank};

    for (int i = 0; i < 3; i++)
        CHECK(start_sum(me, &x[i], &reqs[i]) == ACCEL_OK);
    accel_request_free(&reqs[1]);
    CHECK(reqs[1] == NULL);
    accel_request_free(&reqs[1]);
    accel_request_free(NULL);
    accel_comm_close(me->comm); /* waits for all of them */
    me->comm = NULL;
    CHECK(x[0] == 6 && x[1] == 6 && x[2] == 6);
    bool done = false;
    CHECK(accel_request_test(&reqs[0], &done) == ACCEL_OK && done);
    accel_request_free(&reqs[2]);
}

static void close_waits_for_what_was_started(void **state)
{
    struct world w = {.size = 4, .run = close_with_open_ones};

    (void)state;
    on_both(&w);
}

/* ---- wrong uses -------------------------------------------------------------
 */

static void wrong_uses(rank_of_t *me)
{
    accel_request_t *req = NULL, *none = NULL;
    bool done = true;
    size_t index;
    int x = me->rank;

    CHECK(start_sum(me, &x, &req) == ACCEL_OK);
    CHECK(accel_request_test(&req, NULL) == ACCEL_ERR_ARG && req);
    CHECK(accel_request_wait_any(&req, 1, NULL) == ACCEL_ERR_ARG && req);
    CHECK(accel_request_wait_any(NULL, 1, &index) == ACCEL_ERR_ARG);
    CHECK(accel_request_wait_all(NULL, 1) == ACCEL_ERR_ARG);
    CHECK(accel_request_wait(&req) == ACCEL_OK);
    CHECK(accel_request_wait(&req) == ACCEL_ERR_ARG); /* twice */
    CHECK(strstr(accel_last_error()->text, "done before") != NULL);
    CHECK(accel_request_test(&none, &done) == ACCEL_ERR_ARG && !done);
    CHECK(accel_request_wait(NULL) == ACCEL_ERR_ARG);
    CHECK(accel_request_test(NULL, &done) == ACCEL_ERR_ARG);
}

static void wrong_uses_are_told(void **state)
{
    struct world w = {.size = 4, .run = wrong_uses};

    (void)state;
    run_world(&w);
}

/* A child has neither the thread nor the lock's owner. */
static void fork_with_open_ones(rank_of_t *me)
{
    accel_request_t *req = NULL, *again = NULL;
    int x = me->rank, status = -1;
    bool done;

    CHECK(start_sum(me, &x, &req) == ACCEL_OK);
    pid_t pid = me->rank == 1 ? fork() : -2;
    if (pid == 0) {
        size_t index;
        int bad = 0;
        bad += accel_request_wait(&req) != ACCEL_ERR_STATE;
        bad += accel_request_test(&req, &done) != ACCEL_ERR_STATE;
        bad += accel_request_wait_all(&req, 1) != ACCEL_ERR_STATE;
        bad += accel_request_wait_any(&req, 1, &index) != ACCEL_ERR_STATE;
        bad += start_sum(me, &x, &again) != ACCEL_ERR_STATE || again;
        accel_request_free(&req);
        accel_comm_close(me->comm);
        _exit(bad);
    }
    if (pid > 0) {
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(accel_request_wait(&req) == ACCEL_OK && x == 6);
}

static void a_child_has_no_requests(void **state)
{
    struct world w = {.size = 4, .run = fork_with_open_ones};

    (void)state;
    run_world(&w);
}

/* A child that has a job of its own starts operations there, whatever the
 * parent's threads were doing. */
static int alone(void *context, const void *send, void *recv, size_t bytes)
{
    (void)context;
    memcpy(recv, send, bytes);
    return 0;
}

static int child_with_a_job(void)
{
    accel_oob_t oob = {.size = 1, .node = "a", .allgather = alone};
    accel_settings_t *settings;
    accel_job_t *job;
    accel_comm_t *comm;
    accel_request_t *req = NULL;
    int x = 3;

    alarm(60); /* it must not hang */
    if (accel_settings_load(NULL, &settings) != ACCEL_OK ||
        accel_job_open(settings, &oob, &job) != ACCEL_OK ||
        accel_comm_open(job, settings, &comm) != ACCEL_OK ||
        accel_comm_allreduce_start(comm, &x, &x, 1, ACCEL_I32, ACCEL_SUM,
                                   &req) != ACCEL_OK ||
        accel_request_wait(&req) != ACCEL_OK || x != 3)
        return 1;
    accel_comm_close(comm);
    return 0;
}

static void forks_amid_operations(rank_of_t *me)
{
    for (int i = 0; i < 30; i++) {
        accel_request_t *reqs[4];
        int x[4] = {1, 1, 1, 1}, status = -1;
        for (int k = 0; k < 4; k++)
            CHECK(start_sum(me, &x[k], &reqs[k]) == ACCEL_OK);
        pid_t pid = me->rank == 0 ? fork() : -2;
        if (pid == 0)
            _exit(child_with_a_job());
        if (pid > 0) {
            CHECK(waitpid(pid, &status, 0) == pid);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        CHECK(accel_request_wait_all(reqs, 4) == ACCEL_OK);
    }
}

static void a_child_may_have_a_job_of_its_own(void **state)
{
    struct world w = {.size = 2, .run = forks_amid_operations};

    (void)state;
    if (THREADS_IN_CHILDREN)
        run_world(&w);
    else
        print_message("the thread sanitizer has no threads in children\n");
}

/* A signal that the program handles comes to its own threads. */
static atomic_int handled_elsewhere;
static _Thread_local bool mine;

static void on_signal(int number)
{
    (void)number;
    if (!mine)
        atomic_fetch_add(&handled_elsewhere, 1);
}

static void with_signals(rank_of_t *me)
{
    accel_request_t *req = NULL;
    int x = 1;

    mine = true;
    CHECK(start_sum(me, &x, &req) == ACCEL_OK);
    for (int i = 0; me->rank == 0 && i < 20; i++)
        CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(accel_request_wait(&req) == ACCEL_OK);
}

static void signals_are_not_for_its_thread(void **state)
{
    struct world w = {.size = 2, .run = with_signals};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    (void)state;
    mine = true; /* of this thread, which made the ranks' */
    assert_int_equal(sigaction(SIGUSR1, &act, NULL), 0);
    run_world(&w);
    signal(SIGUSR1, SIG_DFL);
    assert_int_equal(atomic_load(&handled_elsewhere), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(go_on_by_themselves),
        cmocka_unit_test(in_the_order_they_were_started),
        cmocka_unit_test(starts_match_calls),
        cmocka_unit_test(communicators_go_on_beside_each_other),
        cmocka_unit_test(tables_are_copied),
        cmocka_unit_test(messages_are_started_as_well),
        cmocka_unit_test(any_and_all_pass_over_null),
        cmocka_unit_test(errors_come_with_the_request),
        cmocka_unit_test(all_hear_of_what_was_not_started),
        cmocka_unit_test(a_fault_ends_all_that_is_queued),
        cmocka_unit_test(who_does_not_come_ends_it),
        cmocka_unit_test(close_waits_for_what_was_started),
        cmocka_unit_test(wrong_uses_are_told),
        cmocka_unit_test(a_child_has_no_requests),
        cmocka_unit_test(a_child_may_have_a_job_of_its_own),
        cmocka_unit_test(signals_are_not_for_its_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
