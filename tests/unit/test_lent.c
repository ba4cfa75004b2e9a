/* Memory that is registered with the transport: when, which, how often. */
#include "unit/unit.h"

#include "harness/watched.h"
#include "unit/ranks.h"

#include <dlfcn.h>

static watched_t *watched;
static watched_has_fn *watched_has;

static const char *const two[] = {"a", "b", "a", "b"};
static const char *const uneven[] = {"a", "a", "a", "b"};

static void forget_counts(void)
{
    *watched = (watched_t){0};
}

static void all_is_taken_back(void)
{
    assert_int_equal(watched->wrong, 0);
    assert_int_equal(watched->maps, watched->unmaps + watched->left);
    assert_false(watched_has(watched, 0));
}

static void sum_is_right(rank_of_t *me, accel_comm_t *comm, float *x,
                         size_t count)
{
    float want = 0;

    for (int r = 0; r < me->comm->size; r++)
        want += (float)r;
    for (size_t i = 0; i < count; i++)
        x[i] = (float)me->rank;
    CHECK(accel_comm_allreduce(comm, x, x, count, ACCEL_F32, ACCEL_SUM) ==
          ACCEL_OK);
    for (size_t i = 0; i < count; i += 97)
        CHECK(x[i] == want);
}

/* The areas of the segment are registered from the open on, by the ranks that
 * carry data; a block of the heap from accel_alloc() to accel_free(). */
static void use_heap(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    size_t count = 1 << 19;
    void *one, *other;

    /* threads share a mapping: others' may be there as well */
    if (c->local_rank < c->rails)
        CHECK(watched_has(c->seg->shared, 6 * c->seg->slot_bytes));
    CHECK(accel_alloc(c, count * 4, &one) == ACCEL_OK);
    CHECK(accel_alloc(c, 1, &other) == ACCEL_OK);
    CHECK(watched_has(one, count * 4) && watched_has(other, 1));
    sum_is_right(me, c, one, count);
    CHECK(accel_free(c, one) == ACCEL_OK);
    CHECK(watched_has(other, 1));
    CHECK(!watched_has(one, count * 4) || watched->refuse);
}

/* Rank by rank to the next one, from heap to heap. */
static void pass_on(rank_of_t *me)
{
    accel_comm_t *c = me->comm;
    size_t bytes = 3 << 20;
    char *out, *in;
    void *memory;

    CHECK(accel_alloc(c, 2 * bytes, &memory) == ACCEL_OK);
    out = memory;
    in = out + bytes;
    memset(out, me->rank + 1, bytes);
    accel_outgoing_t send = {out, bytes, ACCEL_U8, (me->rank + 1) % c->size, 1};
    accel_incoming_t recv = {in, bytes, ACCEL_U8,
                             (me->rank + c->size - 1) % c->size, 1};
    CHECK(accel_comm_sendrecv(c, &send, &recv) == ACCEL_OK);
    CHECK(in[0] == recv.source + 1 && in[bytes - 1] == recv.source + 1);
    CHECK(accel_free(c, memory) == ACCEL_OK);
}

static void use_all(rank_of_t *me)
{
    use_heap(me);
    pass_on(me);
    char *own = calloc(1, 1 << 20);
    CHECK(own);
    CHECK(accel_comm_broadcast(me->comm, own, 1 << 20, ACCEL_U8, 1) ==
          ACCEL_OK);
    free(own);
}

/* A part has a transport and registrations of its own. */
static void use_part(rank_of_t *me)
{
    accel_comm_t *part;

    CHECK(accel_comm_split(me->comm, 0, -me->rank, &part) == ACCEL_OK);
    CHECK(accel_comm_size(part) == me->comm->size);
    void *memory;
    CHECK(accel_alloc(part, 1 << 20, &memory) == ACCEL_OK);
    CHECK(watched_has(memory, 1 << 20));
    sum_is_right(me, part, memory, 1 << 18);
    accel_comm_close(part);
}

static void registered_once_and_taken_back(void **state)
{
    const char *const *layouts[] = {two, uneven};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
        struct world w = {.size = 4, .nodes = layouts[i], .run = use_all};
        forget_counts();
        run_world(&w);
        all_is_taken_back();
        assert_true(watched->maps > 0);
        assert_true(watched->unmaps >= 8);
        assert_int_equal(watched->refused, 0);
        /* all that is large comes from registered memory */
        assert_true(watched->large > 0);
        assert_int_equal(watched->foreign, 0);
    }
    struct world parts = {.size = 4, .nodes = two, .run = use_part};
    forget_counts();
    run_world(&parts);
    all_is_taken_back();
    assert_true(watched->left > 0);
}

static void use_refused(rank_of_t *me)
{
    void *memory;

    CHECK(accel_alloc(me->comm, 1 << 20, &memory) == ACCEL_OK);
    CHECK(!watched_has(memory, 1 << 20));
    CHECK(accel_last_error()->status == ACCEL_OK);
    sum_is_right(me, me->comm, memory, 1 << 18);
    CHECK(accel_free(me->comm, memory) == ACCEL_OK);
    pass_on(me);
}

static void what_is_refused_does_no_harm(void **state)
{
    struct world w = {.size = 4, .nodes = two, .run = use_refused};

    (void)state;
    forget_counts();
    watched->refuse = true;
    run_world(&w);
    assert_int_equal(watched->maps, 0);
    assert_int_equal(watched->unmaps, 0);
    assert_true(watched->refused >= 8);
    all_is_taken_back();
}

static void one_node_registers_nothing(void **state)
{
    struct world w = {.size = 2, .run = NULL};

    (void)state;
    forget_counts();
    run_world(&w);
    assert_int_equal(watched->maps + watched->refused, 0);
}

static void load_watched(void)
{
    const char *top = getenv("top_builddir");
    char path[4096];

    assert_non_null(top); /* make check sets it */
    snprintf(path, sizeof path, "%s/lib/.libs", top);
    assert_int_equal(setenv("WATCHED_DIR", path, 1), 0);
    snprintf(path, sizeof path, "%s/tests/harness/.libs", top);
    assert_int_equal(setenv("ACCEL_MODULE_DIR", path, 1), 0);
    strcat(path, "/accel_ucx.so");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    watched = dlsym(handle, "watched");
    *(void **)&watched_has = dlsym(handle, "watched_has");
    assert_non_null(watched);
    assert_true(watched_has != NULL);
}

static int set_up(void **state)
{
    (void)state;
    load_watched();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registered_once_and_taken_back),
        cmocka_unit_test(what_is_refused_does_no_harm),
        cmocka_unit_test(one_node_registers_nothing),
    };

    if (!WITH_UCX) {
        printf("no memory to register without UCX: %s\n", WHY_NOT);
        return 0;
    }
    return cmocka_run_group_tests(tests, set_up, NULL);
}
