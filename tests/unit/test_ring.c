/* loader: reading ahead. What comes must not depend on who read it when. */
#include "loader_rig.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- run-through equals stop and resume ---------------------------------- */

/* An order of one's own, backwards, and other in each epoch. */
static int backwards(void *context, uint64_t epoch, uint64_t first,
                     size_t count, uint64_t *index)
{
    uint64_t samples = *(uint64_t *)context;

    for (size_t i = 0; i < count; i++)
        index[i] = (2 * samples - 1 - first - i + epoch) % samples;
    return 0;
}

/* Batch b has b % 3 + 1 samples. */
static int growing(void *context, uint64_t epoch, uint64_t number,
                   uint64_t *index, size_t *count)
{
    uint64_t samples = *(uint64_t *)context;

    *count = number % 3 + 1;
    for (size_t i = 0; i < *count; i++)
        index[i] = (number * 7 + i + epoch) % samples;
    return 0;
}

static uint64_t fifty_three = 53;
static double weights[53];

typedef struct kind {
    accel_loader_options_t options;
    bool stream;
    bool cannot_jump;
} kind_t;

#define KIND(...)                                                              \
    {                                                                          \
        .options = {                                                           \
            .size = sizeof(accel_loader_options_t),                            \
            .seed = 5,                                                         \
            __VA_ARGS__                                                        \
        }                                                                      \
    }
#define STREAM(jump, ...)                                                      \
    {                                                                          \
        .options = {.size = sizeof(accel_loader_options_t),                    \
                    .seed = 5,                                                 \
                    __VA_ARGS__},                                              \
        .stream = true, .cannot_jump = !(jump)                                 \
    }

static const kind_t kinds[] = {
    KIND(.batch_size = 4, .shuffle = true),
    KIND(.batch_size = 8, .split_batches = true, .shuffle = true),
    KIND(.batch_size = 4, .drop_last = true),
    KIND(.batch_size = 4, .uneven = true, .shuffle = true),
    KIND(.batch_size = 4, .shuffle = true, .block = 5, .group = 3),
    KIND(.batch_size = 4, .weights = weights),
    KIND(.batch_size = 4, .weights = weights, .replacement = true, .draws = 70),
    KIND(.batch_size = 4, .order = backwards, .context = &fifty_three),
    KIND(.batch_size = 3, .batches = growing, .nbatches = 25,
         .context = &fifty_three),
    KIND(.batch_size = 4, .shuffle = true, .static_shape = true, .align = 4096,
         .elastic = true, .uneven = true),
    STREAM(true, .batch_size = 4),
    STREAM(false, .batch_size = 4),
    STREAM(false, .batch_size = 4, .drop_last = true),
    STREAM(true, .batch_size = 4, .uneven = true),
    STREAM(true, .batch_size = 8, .split_batches = true),
    STREAM(true, .batch_size = 4, .shuffle = true, .block = 3, .group = 4),
    STREAM(false, .batch_size = 4, .shuffle = true, .block = 3, .group = 4),
};

typedef struct record {
    uint64_t index[8];
    size_t count;
    uint64_t number, epoch;
    bool last, end;
} record_t;

enum { STEPS = 40 };

static void step(accel_loader_t *l, record_t *out)
{
    accel_batch_t b;
    accel_status_t st = accel_loader_next(l, &b);

    *out = (record_t){.end = st == ACCEL_END};
    if (st == ACCEL_END)
        return;
    assert_int_equal(st, ACCEL_OK);
    assert_true(b.count <= 8);
    rig_check(&b);
    memcpy(out->index, b.index, b.count * sizeof *b.index);
    out->count = b.count;
    out->number = b.number;
    out->epoch = b.epoch;
    out->last = b.last;
}

static void same(const record_t *a, const record_t *b)
{
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->index, b->index, sizeof a->index);
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->last, b->last);
}

/* Goes on from `st` in a new loader until `end`. */
static void go_on(accel_dataset_t *d, const accel_loader_options_t *o,
                  accel_loader_state_t *st, const record_t *want, int from,
                  int end)
{
    accel_loader_t *l = rig_loader(d, o, 1, 2);
    record_t got;

    if (accel_loader_set_state(l, st) != ACCEL_OK)
        fail_msg("step %d: %s", from, accel_last_error()->text);
    for (int i = from; i < end; i++) {
        step(l, &got);
        same(&got, &want[i]);
    }
    accel_loader_get_state(l, st);
    accel_loader_destroy(l);
}

static void stop_everywhere(const kind_t *kind, size_t threads, size_t prefetch)
{
    rig_t r = rig_of(53);
    r.cannot_jump = kind->cannot_jump;
    accel_dataset_t *d = rig_dataset(&r, kind->stream);
    accel_loader_options_t o = kind->options;
    record_t through[STEPS];
    accel_loader_t *l = rig_loader(d, &o, 1, 2); /* nobody reads ahead */

    for (int i = 0; i < STEPS; i++)
        step(l, &through[i]);
    accel_loader_destroy(l);

    o.threads = threads;
    o.prefetch = prefetch;
    for (int stop = 0; stop <= STEPS - 3; stop++) {
        accel_loader_state_t st;
        record_t got;
        l = rig_loader(d, &o, 1, 2);
        for (int i = 0; i < stop; i++) {
            step(l, &got);
            same(&got, &through[i]);
        }
        accel_loader_get_state(l, &st);
        accel_loader_destroy(l);
        /* twice: the second stop may be in the same epoch */
        go_on(d, &o, &st, through, stop, stop + 2);
        go_on(d, &o, &st, through, stop + 2, STEPS);
    }
    accel_dataset_destroy(d);
}

/* test 33: stopped after 3 batches of 4, among 32 samples a rank */
static void a_new_loader_goes_on_after_three(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        bool stream = kind % 2;
        rig_t r = rig_of(64), again = rig_of(64); /* a stream has one reader */
        accel_dataset_t *d = rig_dataset(&r, stream);
        accel_dataset_t *e = rig_dataset(&again, stream);
        const accel_loader_options_t *o =
            L(.batch_size = 4, .shuffle = !stream, .threads = kind / 2 * 2);
        accel_loader_t *first = rig_loader(d, o, 1, 2);
        accel_loader_state_t st;
        record_t want, got;

        for (int i = 0; i < 3; i++)
            step(first, &want);
        accel_loader_get_state(first, &st);
        assert_int_equal(st.samples, 24);
        accel_loader_t *second = rig_loader(e, o, 1, 2);
        assert_int_equal(accel_loader_set_state(second, &st), ACCEL_OK);
        int left = 0;
        do {
            step(first, &want);
            step(second, &got);
            same(&got, &want);
            left += !got.end;
        } while (!got.end);
        assert_int_equal(left, 5);
        accel_loader_destroy(first);
        accel_loader_destroy(second);
        accel_dataset_destroy(d);
        accel_dataset_destroy(e);
    }
}

static void a_resume_equals_a_run_through(void **state)
{
    (void)state;
    for (size_t i = 0; i < 53; i++)
        weights[i] = (double)(i % 5) + (i < 40);
    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        stop_everywhere(&kinds[k], 0, 0);
        stop_everywhere(&kinds[k], 2, 3);
    }
}

static void any_threads_and_depth_give_the_same(void **state)
{
    static const size_t ahead[][2] = {{1, 1}, {1, 7}, {3, 1}, {4, 0}, {2, 64}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ahead); i++)
        stop_everywhere(&kinds[i % 2 * 10], ahead[i][0], ahead[i][1]);
}

/* ---- errors come in their turn ------------------------------------------- */

static void errors_come_in_order_and_can_pass(void **state)
{
    (void)state;
    for (size_t c = 0; c < 4; c++) {
        rig_t r = rig_of(40);
        bool stream = c >= 2;
        accel_dataset_t *d = rig_dataset(&r, stream);
        accel_loader_t *l = rig_loader(
            d, L(.batch_size = 4, .threads = c % 2 * 3, .prefetch = c % 2 * 5),
            0, 1);
        accel_batch_t b;

        r.bad = 22; /* in batch 5 */
        r.failures = -1;
        for (uint64_t k = 0; k < 5; k++) {
            assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
            assert_int_equal(b.number, k);
            assert_false(b.last);
            rig_check(&b);
        }
        for (int again = 0; again < 2; again++) {
            assert_int_equal(accel_loader_next(l, &b), ACCEL_ERR_IO);
            assert_non_null(strstr(accel_last_error()->text, "batch 5 of"));
            assert_non_null(strstr(accel_last_error()->text, "sample 20"));
            assert_int_equal(accel_loader_real_rows(l), 0);
        }
        r.failures = 0; /* the disk is back */
        for (uint64_t k = 5; k < 10; k++) {
            assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
            assert_int_equal(b.number, k);
            assert_int_equal(b.index[0], 4 * k);
            rig_check(&b);
        }
        assert_true(b.last);
        assert_int_equal(accel_loader_next(l, &b), ACCEL_END);
        accel_loader_destroy(l);
        accel_dataset_destroy(d);
    }
}

/* ---- leaving early ------------------------------------------------------- */

static void leaving_at_any_moment_ends(void **state)
{
    rig_t r = rig_of(97);
    uint32_t random = 12345;

    (void)state;
    for (int turn = 0; turn < 60; turn++) {
        accel_dataset_t *d = rig_dataset(&r, turn % 3 == 2);
        accel_loader_t *l =
            rig_loader(d,
                       L(.batch_size = 3, .threads = 1 + (size_t)turn % 4,
                         .prefetch = (size_t)turn % 9),
                       0, 1);
        accel_batch_t b;

        for (int i = 0; i < 12; i++) {
            random = random * 1664525 + 1013904223;
            uint64_t k = random >> 16 & 31;
            switch (random >> 28) {
            case 0:
                assert_int_equal(accel_loader_seek(l, k), ACCEL_OK);
                assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
                assert_int_equal(b.index[0], 3 * k);
                break;
            case 1:
                accel_loader_set_epoch(l, k);
                break;
            case 2:
                assert_int_equal(accel_loader_set_rank(l, 1, 2), ACCEL_OK);
                assert_int_equal(accel_loader_set_rank(l, 0, 1), ACCEL_OK);
                break;
            default:
                if (accel_loader_next(l, &b) == ACCEL_OK)
                    rig_check(&b);
            }
        }
        accel_loader_destroy(l);
        accel_dataset_destroy(d);
    }
}

static int threads_here(void)
{
    DIR *dir = opendir("/proc/self/task");
    int n = -2; /* . and .. */

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void no_thread_unless_asked(void **state)
{
    rig_t r = rig_of(40);
    accel_dataset_t *d = rig_dataset(&r, false);
    accel_loader_t *plain = rig_loader(d, L(.batch_size = 4), 0, 1);
    accel_loader_t *ahead =
        rig_loader(d, L(.batch_size = 4, .threads = 3), 0, 1);
    accel_batch_t b;
    int before = threads_here();

    (void)state;
    accel_loader_next(plain, &b);
    assert_int_equal(threads_here(), before);
    accel_loader_next(ahead, &b);
    assert_int_equal(threads_here(), before + 3);
    accel_loader_destroy(ahead);
    assert_int_equal(threads_here(), before);
    accel_loader_destroy(plain);
    accel_dataset_destroy(d);
}

static void what_was_read_ahead_is_not_counted(void **state)
{
    rig_t r = rig_of(40);
    accel_dataset_t *d = rig_dataset(&r, false);
    accel_loader_t *l =
        rig_loader(d, L(.batch_size = 4, .threads = 2, .prefetch = 9), 0, 1);
    accel_loader_state_t st;
    accel_batch_t b;

    (void)state;
    for (uint64_t k = 0; k < 3; k++)
        accel_loader_next(l, &b);
    accel_loader_get_state(l, &st);
    assert_int_equal(st.samples, 12);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

static void a_child_of_fork_is_told(void **state)
{
    rig_t r = rig_of(40);
    accel_dataset_t *d = rig_dataset(&r, false);
    accel_loader_t *l = rig_loader(d, L(.batch_size = 4, .threads = 1), 0, 1);
    accel_batch_t b;
    int status = 0;

    (void)state;
    accel_loader_next(l, &b);
    pid_t pid = fork();
    if (pid == 0) {
        bool told = accel_loader_next(l, &b) == ACCEL_ERR_STATE &&
                    strstr(accel_last_error()->text, "fork()");
        accel_loader_destroy(l); /* does not hang either */
        _exit(told ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

/* ---- memory of a batch --------------------------------------------------- */

static void shapes_and_alignment_are_as_asked(void **state)
{
    rig_t r = rig_of(11);
    accel_dataset_t *d = rig_dataset(&r, false);

    (void)state;
    for (size_t threads = 0; threads < 2; threads++) {
        accel_loader_t *l =
            rig_loader(d,
                       L(.batch_size = 4, .uneven = true, .static_shape = true,
                         .align = 4096, .threads = threads),
                       0, 1);
        accel_batch_t b;
        for (int epoch = 0; epoch < 2; epoch++) {
            for (int k = 0; k < 3; k++) {
                assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
                assert_int_equal(b.rows, 4);
                assert_int_equal(b.count, k < 2 ? 4 : 3);
                assert_int_equal((uintptr_t)b.data[0] % 4096, 0);
                assert_int_equal((uintptr_t)b.data[1] % 4096, 0);
                rig_check(&b);
            }
            assert_int_equal(((uint32_t *)b.data[0])[6], 0);
            assert_int_equal(((uint32_t *)b.data[0])[7], 0);
            assert_int_equal(((uint8_t *)b.data[1])[3], 0);
            assert_int_equal(accel_loader_next(l, &b), ACCEL_END);
        }
        accel_loader_destroy(l);
    }
    accel_dataset_destroy(d);
}

static void wrong_options_are_refused(void **state)
{
    static const struct {
        accel_loader_options_t o;
        const char *text;
    } cases[] = {
        {{.prefetch = 3}, "set threads"},
        {{.threads = 5000}, "at most 1024"},
        {{.align = 48}, "power of two"},
        {{.align = 4}, "power of two"},
        {{.align = (size_t)1 << 30}, "power of two"},
        {{.dispatch = true, .uneven = true}, "dispatch"},
        {{.shuffle = true, .order = backwards}, "choose one"},
        {{.replacement = true}, "goes with weights"},
        {{.draws = 3}, "draws goes"},
        {{.group = 3, .shuffle = true}, "group goes"},
        {{.block = 3}, "block goes"},
        {{.nbatches = 3}, "nbatches goes"},
        {{.batches = growing}, "nbatches is 0"},
        {{.batches = growing, .nbatches = 2, .split_batches = true},
         "split_batches"},
    };
    rig_t r = rig_of(11);
    accel_dataset_t *d = rig_dataset(&r, false);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        accel_loader_options_t o = cases[i].o;
        accel_loader_t *l;
        o.size = sizeof o;
        o.batch_size = 4;
        assert_int_equal(accel_loader_create(d, &o, &l), ACCEL_ERR_ARG);
        assert_null(l);
        if (!strstr(accel_last_error()->text, cases[i].text))
            fail_msg("%s: not %s", accel_last_error()->text, cases[i].text);
    }
    accel_dataset_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_loader_goes_on_after_three),
        cmocka_unit_test(a_resume_equals_a_run_through),
        cmocka_unit_test(any_threads_and_depth_give_the_same),
        cmocka_unit_test(errors_come_in_order_and_can_pass),
        cmocka_unit_test(leaving_at_any_moment_ends),
        cmocka_unit_test(no_thread_unless_asked),
        cmocka_unit_test(what_was_read_ahead_is_not_counted),
        cmocka_unit_test(a_child_of_fork_is_told),
        cmocka_unit_test(shapes_and_alignment_are_as_asked),
        cmocka_unit_test(wrong_options_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
