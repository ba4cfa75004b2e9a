/* One copy between ranks, which are threads here: every operation, and what is
 * found out about memory. */
#include "unit/unit.h"

#include "comm/cma_priv.h"
#include "multi/product.h"
#include "unit/ranks.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CASES 20
#else
#define CASES 60
#endif

static void all_operations(rank_of_t *me)
{
    bool off = strcmp(me->world->spec, ",cma=off") == 0;

    CHECK(!off || me->comm->cma.least == 0);
    CHECK(!off || strstr(accel_comm_transport(me->comm), "no cma: rank 0 on "));
    ax_cma_force(me->comm, 1);
    CHECK(!off || me->comm->cma.least == 0);
    CHECK(product(me->comm, CASES, 22) > 0);
}

static void one_copy_gives_the_same(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++)
        run_world(&(struct world){
            .size = size, .spec = ",cma=auto", .run = all_operations});
    run_world(
        &(struct world){.size = 3, .spec = ",cma=off", .run = all_operations});
}

#define LONG ((size_t)3 << 20)

/* Who is at a long message leaves it soon: the rest is of use to nobody. */
static void read_on_after_a_fault(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    char *from = malloc(LONG), *to = calloc(1, LONG);
    int error = 0;

    CHECK(from && to);
    memset(from, 7, LONG);
    if (c->cma.least) { /* otherwise this machine refuses it */
        ax_cma_read(c, c->local_rank, to, (uintptr_t)from, LONG, &error);
        CHECK(error == 0 && to[LONG - 1] == 7);
        memset(to, 0, LONG);
        pthread_barrier_wait(&me->world->barrier);
        if (me->rank == 0)
            (void)ax_raise(c, ACCEL_ERR_PEER, "comm: a test");
        while (!ax_fault_there(c))
            sched_yield();
        ax_cma_read(c, c->local_rank, to, (uintptr_t)from, LONG, &error);
        CHECK(error != 0 && to[0] == 7 && to[LONG - 1] == 0);
    }
    free(from);
    free(to);
}

static void a_fault_ends_it(void **state)
{
    (void)state;
    run_world(&(struct world){
        .size = 2, .spec = ",cma=auto", .run = read_on_after_a_fault});
}

/* The call goes on as what it was. Memory that is short is for now. */
static void go_on_through_slots(rank_of_t *me)
{
    accel_comm_t *c = me->comm;

    ax_cma_force(c, 1);
    for (int k = 0; k < 2; k++) {
        size_t least = c->cma.least;
        c->call = (ax_call_t){.kind = AX_CALL_BROADCAST};
        c->cma.error = k ? EPERM : ENOMEM;
        c->cma.worst = 0;
        CHECK(ax_cma_failed(c, ACCEL_OK) == ACCEL_OK);
        CHECK(c->call.kind == AX_CALL_BROADCAST);
        CHECK(c->cma.least == (k ? 0 : least));
    }
    CHECK(strstr(c->cma.why, "no cma: rank 0 on "));
}

static void a_call_keeps_its_name(void **state)
{
    (void)state;
    run_world(&(struct world){
        .size = 2, .spec = ",cma=auto", .run = go_on_through_slots});
}

/* What cannot be checked is not said to be good: it may not be there. */
static void memory_needs_a_pipe(void **state)
{
    char x[64] = {0};
    struct rlimit was;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    accel_status_t st = ax_cma_check(x, sizeof x, true);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(st, ACCEL_ERR_SYS);
    assert_non_null(strstr(accel_last_error()->text, "Too many open files"));
    assert_int_equal(ax_cma_check(x, sizeof x, true), ACCEL_OK);
}

/* The first byte that is not there, whatever the buffer begins with. */
static void memory_is_checked(void **state)
{
    size_t page = ax_page(), bytes = 8 * page;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char text[64];

    (void)state;
    assert_true(p != MAP_FAILED);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (char)(i % 251);
    assert_int_equal(ax_cma_check(p, bytes, true), ACCEL_OK);
    assert_int_equal(ax_cma_check(NULL, 0, true), ACCEL_OK);
    for (size_t i = 0; i < bytes; i++) /* it is as it was */
        assert_int_equal(p[i], (char)(i % 251));
    assert_int_equal(mprotect(p + 5 * page, page, PROT_READ), 0);
    assert_int_equal(mprotect(p + 6 * page, page, PROT_NONE), 0);
    for (size_t skew = 0; skew < 3 * page; skew += page / 2 + 1) {
        assert_int_equal(ax_cma_check(p + skew, bytes - skew, true),
                         ACCEL_ERR_ARG);
        snprintf(text, sizeof text, "written from byte %zu on",
                 5 * page - skew);
        assert_non_null(strstr(accel_last_error()->text, text));
        assert_int_equal(ax_cma_check(p + skew, bytes - skew, false),
                         ACCEL_ERR_ARG);
        snprintf(text, sizeof text, "read from byte %zu on", 6 * page - skew);
        assert_non_null(strstr(accel_last_error()->text, text));
        assert_int_equal(ax_cma_check(p + skew, 6 * page - skew, false),
                         ACCEL_OK);
        assert_int_equal(ax_cma_check(p + skew, 5 * page - skew, true),
                         ACCEL_OK);
    }
    assert_int_equal(ax_cma_check(NULL, 10, false), ACCEL_ERR_ARG);
    munmap(p, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_copy_gives_the_same),
        cmocka_unit_test(a_fault_ends_it),
        cmocka_unit_test(a_call_keeps_its_name),
        cmocka_unit_test(memory_needs_a_pipe),
        cmocka_unit_test(memory_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
