/* Case 57: more elements than an int counts. Ranks are threads. */
#include "unit/unit.h"

#include "comm/op.h"
#include "unit/ranks.h"

#include <sys/mman.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static const char *const apart[] = {"a", "b"};

#define GI (UINT64_C(1) << 30)

/* A chunk at a time covers each part once, wherever the parts end. */
static void chunks_cover_long_parts(void **state)
{
    static const size_t lengths[] = {2 * GI - 1,     2 * GI,     2 * GI + 5,
                                     4 * GI - 1,     4 * GI,     4 * GI + 3,
                                     9 * 2 * GI + 7, 6 * GI / 5, 1};
    const size_t most = 131072 - 8;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        ax_parts_t parts = {.each = lengths[i]};
        size_t sum = 0, chunks = 0;
        for (size_t first = 0; first < lengths[i]; first += most) {
            size_t n = ax_part_in(&parts, 0, first, most);
            assert_true(n > 0 && n <= most);
            sum += n;
            chunks++;
        }
        assert_true(sum == lengths[i]);
        assert_true(chunks == (lengths[i] + most - 1) / most);
        assert_true(ax_part_in(&parts, 0, lengths[i], most) == 0);
        assert_true(ax_part_offset(&parts, 3) == 3 * lengths[i]);
    }
}

static void tables_hold_long_parts(void **state)
{
    struct accel_comm c = {.size = 3};
    const size_t counts[3] = {6 * GI / 5, 6 * GI / 5, 2 * GI + 5};
    ax_table_t t;

    (void)state;
    assert_int_equal(ax_table_make(&c, &(accel_parts_t){.counts = counts},
                                   ACCEL_F64, "sent", &t),
                     ACCEL_OK);
    assert_true(t.bytes[2] == 8 * (2 * GI + 5));
    assert_true(t.at[2] == 8 * 2 * (6 * GI / 5));
    assert_true(t.total == t.end && t.total == t.at[2] + t.bytes[2]);
    assert_int_equal(ax_table_apart(&c, &t), ACCEL_OK);
    ax_table_free(&t);
    /* sums that only fit without the sign, or not at all */
    const size_t wide[3] = {PTRDIFF_MAX, 1, 0}, wider[3] = {SIZE_MAX, 1, 0};
    assert_int_equal(ax_table_make(&c, &(accel_parts_t){.counts = wide},
                                   ACCEL_U8, "sent", &t),
                     ACCEL_ERR_ARG);
    assert_int_equal(ax_table_make(&c, &(accel_parts_t){.counts = wider},
                                   ACCEL_U8, "sent", &t),
                     ACCEL_ERR_ARG);
}

/* Memory of which only touched pages exist. */
static char *sparse(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    CHECK(p != MAP_FAILED);
    return p;
}

/* Parts that begin beyond 2^31 and 2^32. */
static void places_far_away(rank_of_t *me)
{
    const size_t counts[2] = {5, 3}, places[2] = {4 * GI + 3, 2 * GI - 1};
    accel_parts_t p = {.counts = counts, .places = places};
    size_t bytes = 5 * GI;
    char *buffer = sparse(bytes), own[5];

    p.mine = counts[me->rank];
    memset(own, 'a' + me->rank, sizeof own);
    CHECK(accel_comm_allgatherv(me->comm, own, buffer, &p, ACCEL_U8) ==
          ACCEL_OK);
    CHECK(memcmp(buffer + places[0] - 1, "\0aaaaa", 7) == 0);
    CHECK(memcmp(buffer + places[1] - 1, "\0bbb", 5) == 0);
    memset(own, 0, sizeof own);
    CHECK(accel_comm_scatterv(me->comm, buffer, own, &p, ACCEL_U8, 1) ==
          ACCEL_OK);
    CHECK(memcmp(own, me->rank ? "bbb\0" : "aaaaa", me->rank ? 4 : 5) == 0);
    /* in place: what each keeps for itself and what it swaps */
    const size_t pair[2] = {2, 2};
    accel_parts_t swap = {.counts = pair, .places = places};
    CHECK(accel_comm_alltoallv(me->comm, buffer, &swap, buffer, &swap,
                               ACCEL_U8) == ACCEL_OK);
    CHECK(buffer[places[0]] == (me->rank ? 'b' : 'a'));
    CHECK(buffer[places[1] + 1] == (me->rank ? 'b' : 'a'));
    CHECK(munmap(buffer, bytes) == 0);
}

static void parts_may_lie_far_away(void **state)
{
    struct world w = {.size = 2, .run = places_far_away};

    (void)state;
    run_world(&w);
    w.nodes = apart;
    if (WITH_UCX)
        run_world(&w);
}

/* All of it in earnest: a minute where memory is slow. */
static void sum_beyond_int(rank_of_t *me)
{
    const size_t n = 2 * GI + 5;
    const size_t at[] = {0, 2 * GI - 1, 2 * GI, n - 1};
    void *memory;

    CHECK(accel_alloc(me->comm, n, &memory) == ACCEL_OK);
    int8_t *x = memory;
    for (size_t i = 0; i < ARRAY_SIZE(at); i++)
        x[at[i]] = (int8_t)(me->rank + 1 + (int)i);
    CHECK(accel_comm_allreduce(me->comm, x, x, n, ACCEL_I8, ACCEL_SUM) ==
          ACCEL_OK);
    for (size_t i = 0; i < ARRAY_SIZE(at); i++)
        CHECK(x[at[i]] == (int8_t)(3 + 2 * (int)i));
    CHECK(x[1] == 0 && x[2 * GI + 1] == 0);
    CHECK(accel_free(me->comm, memory) == ACCEL_OK);
}

static size_t free_memory(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return (size_t)kib << 10;
}

static void sums_of_more_than_an_int_holds(void **state)
{
    struct world w = {.size = 2, .run = sum_beyond_int};

    (void)state;
    if (SANITIZED)
        print_message("not under a sanitizer: it would take too long\n");
    else if (free_memory() >= 8 * GI)
        run_world(&w);
    else
        print_message("left out: %zu MiB are free, 8192 are needed\n",
                      free_memory() >> 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_cover_long_parts),
        cmocka_unit_test(tables_hold_long_parts),
        cmocka_unit_test(parts_may_lie_far_away),
        cmocka_unit_test(sums_of_more_than_an_int_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
