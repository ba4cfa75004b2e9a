/* loader: batches over epochs, on one rank and on many. */
#include "unit/unit.h"

#include "loader/loader_priv.h"

#include <stdlib.h>

#define L(...) ACCEL_LOADER(__VA_ARGS__)

enum { MOST = 600 };

/* A dataset whose sample i holds {i, i + 0.5} and the byte i % 251. */
static float pairs[MOST][2];
static uint8_t bytes[MOST];
static const accel_field_t fields[] = {{"pair", ACCEL_F32, 2},
                                       {"byte", ACCEL_U8, 1}};
static const void *const arrays[] = {pairs, bytes};

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < MOST; i++) {
        pairs[i][0] = (float)i;
        pairs[i][1] = (float)i + 0.5f;
        bytes[i] = (uint8_t)(i % 251);
    }
    return 0;
}

static accel_dataset_t *new_dataset(uint64_t samples)
{
    accel_dataset_t *d;

    assert_int_equal(accel_dataset_from_memory(fields, arrays, 2, samples, &d),
                     ACCEL_OK);
    return d;
}

static accel_loader_t *new_loader(accel_dataset_t *d,
                                  const accel_loader_options_t *o, int rank,
                                  int size)
{
    accel_loader_t *l;

    assert_int_equal(accel_loader_create(d, o, &l), ACCEL_OK);
    assert_int_equal(accel_loader_set_rank(l, rank, size), ACCEL_OK);
    return l;
}

/* ---- batches --------------------------------------------------------------
 */

static void check_rows(const accel_batch_t *b)
{
    const float(*pair)[2] = b->data[0];
    const uint8_t *byte = b->data[1];

    assert_int_equal(b->nfields, 2);
    assert_int_equal((uintptr_t)b->data[0] % 64, 0);
    assert_int_equal((uintptr_t)b->data[1] % 64, 0);
    for (size_t i = 0; i < b->count; i++) {
        assert_true(pair[i][0] == (float)b->index[i]);
        assert_true(pair[i][1] == (float)b->index[i] + 0.5f);
        assert_int_equal(byte[i], b->index[i] % 251);
    }
}

/* test 28: true at index 3 of 4 only, epoch after epoch */
static void the_end_is_known_on_the_last_batch(void **state)
{
    accel_dataset_t *d = new_dataset(16);
    accel_loader_t *l = new_loader(d, L(.batch_size = 4), 0, 1);
    accel_batch_t b;

    (void)state;
    assert_int_equal(accel_loader_length(l), 4);
    assert_int_equal(accel_loader_real_rows(l), 0);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        for (uint64_t k = 0; k < 4; k++) {
            assert_int_equal(accel_loader_epoch(l), epoch);
            assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
            assert_int_equal(b.number, k);
            assert_int_equal(b.epoch, epoch);
            assert_int_equal(b.index[0], 4 * k);
            assert_int_equal(b.last, k == 3);
            assert_int_equal(accel_loader_end_of_data(l), k == 3);
            assert_int_equal(accel_loader_real_rows(l), 4);
            check_rows(&b);
        }
        assert_int_equal(accel_loader_next(l, &b), ACCEL_END);
        assert_int_equal(b.count, 0);
        assert_true(accel_loader_end_of_data(l));
        assert_int_equal(accel_loader_real_rows(l), 0);
    }
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

/* test 30: 80 in batches of 16, and 96 inside */
static void nested_loaders_do_not_disturb_each_other(void **state)
{
    accel_dataset_t *train_data = new_dataset(80), *test_data = new_dataset(96);
    accel_loader_t *train = new_loader(train_data, L(.batch_size = 16), 0, 1);
    accel_loader_t *test = new_loader(test_data, L(.batch_size = 16), 0, 1);
    accel_batch_t b;
    int outer = 0, inner = 0;

    (void)state;
    while (accel_loader_next(train, &b) == ACCEL_OK) {
        outer++;
        assert_int_equal(accel_loader_end_of_data(train), outer == 5);
        if (outer % 2)
            continue;
        while (accel_loader_next(test, &b) == ACCEL_OK)
            inner++;
        assert_int_equal(accel_loader_end_of_data(train), outer == 5);
        assert_true(accel_loader_end_of_data(test));
    }
    assert_int_equal(outer, 5);
    assert_int_equal(inner, 12);
    accel_loader_destroy(train);
    accel_loader_destroy(test);
    accel_dataset_destroy(train_data);
    accel_dataset_destroy(test_data);
}

/* Appends the samples of what is left of this epoch. */
static size_t drain(accel_loader_t *l, uint64_t *out)
{
    accel_batch_t b;
    size_t n = 0;

    while (accel_loader_next(l, &b) == ACCEL_OK)
        for (size_t i = 0; i < b.count; i++)
            out[n++] = b.index[i];
    return n;
}

/* test 29: 6 samples, on one rank and on two */
static void few_samples_follow_their_seed(void **state)
{
    uint64_t order[3][6] = {{0}};
    static const uint64_t seeds[] = {42, 42, 21};
    accel_dataset_t *d = new_dataset(6);

    (void)state;
    for (int world = 1; world <= 2; world++) {
        for (int s = 0; s < 3; s++) {
            size_t n = 0;
            for (int r = 0; r < world; r++) {
                accel_loader_t *l = new_loader(
                    d, L(.batch_size = 1, .shuffle = true, .seed = seeds[s]), r,
                    world);
                n += drain(l, order[s] + n);
                accel_loader_destroy(l);
            }
            assert_int_equal(n, 6);
        }
        assert_memory_equal(order[0], order[1], sizeof order[0]);
        assert_memory_not_equal(order[0], order[2], sizeof order[0]);
    }
    accel_dataset_destroy(d);
}

static void the_order_depends_on_seed_and_epoch_only(void **state)
{
    uint64_t a[2][100], b[2][100];
    accel_dataset_t *d = new_dataset(100);

    (void)state;
    for (int world = 1; world <= 2; world++) {
        const accel_loader_options_t *o =
            L(.batch_size = 4, .shuffle = true, .seed = 42);
        accel_loader_t *x = new_loader(d, o, world - 1, world);
        accel_loader_t *y = new_loader(d, o, world - 1, world);
        for (int e = 0; e < 2; e++)
            assert_int_equal(drain(x, a[e]), drain(y, b[e]));
        assert_memory_equal(a[0], b[0], 48 * sizeof a[0][0]);
        assert_memory_equal(a[1], b[1], 48 * sizeof a[0][0]);
        assert_memory_not_equal(a[0], a[1], 48 * sizeof a[0][0]);

        accel_loader_set_epoch(x, 0); /* and back */
        drain(x, a[1]);
        assert_memory_equal(a[0], a[1], 48 * sizeof a[0][0]);
        accel_loader_destroy(x);
        accel_loader_destroy(y);
    }
    accel_dataset_destroy(d);
}

static void ranks_share_an_epoch(void **state)
{
    accel_dataset_t *d = new_dataset(100);
    uint64_t got[40];

    (void)state;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        bool seen[100] = {false};
        for (int rank = 0; rank < 4; rank++) {
            accel_loader_t *l = new_loader(
                d, L(.batch_size = 5, .shuffle = true, .seed = 1), rank, 4);
            accel_loader_set_epoch(l, epoch);
            size_t n = drain(l, got);
            assert_int_equal(n, 25);
            for (size_t i = 0; i < n; i++) {
                assert_false(seen[got[i]]);
                seen[got[i]] = true;
            }
            accel_loader_destroy(l);
        }
    }
    accel_dataset_destroy(d);
}

/* 4 ranks with batches of 4 take together what one takes with 16. */
static void the_global_batch_is_the_same_on_any_world(void **state)
{
    accel_dataset_t *d = new_dataset(100);
    accel_loader_t *one = new_loader(
        d, L(.batch_size = 16, .shuffle = true, .drop_last = true), 0, 1);
    accel_loader_t *part[4];
    accel_batch_t whole, b;

    (void)state;
    for (int r = 0; r < 4; r++)
        part[r] = new_loader(
            d, L(.batch_size = 4, .shuffle = true, .drop_last = true), r, 4);
    for (int k = 0; k < 6; k++) {
        assert_int_equal(accel_loader_next(one, &whole), ACCEL_OK);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(accel_loader_next(part[r], &b), ACCEL_OK);
            assert_memory_equal(b.index, whole.index + 4 * r,
                                4 * sizeof *b.index);
        }
    }
    assert_int_equal(accel_loader_next(one, &whole), ACCEL_END);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(accel_loader_next(part[r], &b), ACCEL_END);
        accel_loader_destroy(part[r]);
    }
    accel_loader_destroy(one);
    accel_dataset_destroy(d);
}

/* test 27: the first 2 of 4 left out; the epoch is the same and goes on */
static void seek_goes_to_any_batch(void **state)
{
    accel_dataset_t *d = new_dataset(16);
    accel_loader_t *l = new_loader(d, L(.batch_size = 4), 0, 1);
    accel_batch_t b;

    (void)state;
    accel_loader_set_epoch(l, 5);
    assert_int_equal(accel_loader_seek(l, 2), ACCEL_OK);
    assert_int_equal(accel_loader_epoch(l), 5); /* kept */
    assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
    assert_int_equal(b.index[0], 8);
    assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
    assert_int_equal(b.index[0], 12);
    assert_true(b.last);
    assert_int_equal(accel_loader_next(l, &b), ACCEL_END);
    assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
    assert_int_equal(b.epoch, 6); /* whole again */
    assert_int_equal(b.number, 0);

    assert_int_equal(accel_loader_seek(l, 4), ACCEL_OK);
    assert_false(accel_loader_end_of_data(l));
    assert_int_equal(accel_loader_next(l, &b), ACCEL_END);
    assert_int_equal(accel_loader_epoch(l), 7);
    assert_int_equal(accel_loader_seek(l, 5), ACCEL_OK); /* nothing is left */
    assert_int_equal(accel_loader_next(l, &b), ACCEL_END);
    assert_int_equal(accel_loader_epoch(l), 8);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

static void an_early_break_leaves_nothing_behind(void **state)
{
    accel_dataset_t *d = new_dataset(16);
    accel_loader_t *l = new_loader(d, L(.batch_size = 4), 0, 1);
    accel_batch_t b;

    (void)state;
    accel_loader_next(l, &b);
    accel_loader_next(l, &b);
    accel_loader_set_epoch(l, accel_loader_epoch(l) + 1);
    assert_false(accel_loader_end_of_data(l));
    assert_int_equal(accel_loader_real_rows(l), 0);
    assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
    assert_int_equal(b.epoch, 1);
    assert_int_equal(b.number, 0);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

/* ---- which rows are real ---------------------------------------------------
 */

/* Iterates all ranks together, keeps what accel_loader_real_rows() says, and
 * counts how often each sample was kept. */
static void gather(accel_dataset_t *d, const accel_loader_options_t *o,
                   int size, unsigned *kept)
{
    accel_loader_t *l[8];
    accel_batch_t b;
    bool more = true, over[8] = {false};

    for (int r = 0; r < size; r++)
        l[r] = new_loader(d, o, r, size);
    while (more) {
        uint64_t left = 0, said = 0;
        more = false;
        for (int r = 0; r < size; r++) {
            if (over[r] || accel_loader_next(l[r], &b) != ACCEL_OK) {
                over[r] = true; /* another call would start the next epoch */
                continue;
            }
            more = true;
            if (o->uneven || r == 0)
                left = said = accel_loader_real_rows(l[r]);
            assert_int_equal(said, accel_loader_real_rows(l[r]));
            for (size_t i = 0; i < b.count && left > 0; i++, left--)
                kept[b.index[i]]++;
        }
        assert_int_equal(left, 0); /* never more than there are rows */
    }
    for (int r = 0; r < size; r++)
        accel_loader_destroy(l[r]);
}

static void each_sample_is_real_once(void **state)
{
    static const uint64_t samples[] = {1, 9, 20, 21, 22, 23, 24, 25, 48, 99};
    static const size_t batches[] = {1, 3, 4, 5, 8, 16};

    (void)state;
    for (size_t n = 0; n < ARRAY_SIZE(samples); n++)
        for (size_t c = 0; c < ARRAY_SIZE(batches) * 4 * 4; c++) {
            int size = 1 + (int)(c / 4 % 4);
            size_t batch = batches[c / 16];
            bool split = c % 2;
            accel_dataset_t *d = new_dataset(samples[n]);
            unsigned kept[128] = {0};
            gather(d,
                   L(.batch_size = split ? batch * (size_t)size : batch,
                     .shuffle = true, .split_batches = split,
                     .uneven = c % 4 >= 2),
                   size, kept);
            for (uint64_t i = 0; i < samples[n]; i++)
                assert_int_equal(kept[i], 1);
            accel_dataset_destroy(d);
        }
}

/* test 32, without other ranks */
static void real_rows_follow_the_worked_examples(void **state)
{
    static const struct {
        uint64_t samples;
        size_t batch;
        int size;
        bool drop;
        uint64_t last; /* real rows in the last round */
    } cases[] = {
        {22, 3, 2, false, 4}, {20, 3, 2, false, 2},   {9, 5, 2, false, 9},
        {24, 3, 2, false, 6}, {22, 3, 2, true, 6},    {3, 1, 7, false, 3},
        {51, 5, 5, true, 25}, {82, 16, 2, false, 18},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        accel_dataset_t *d = new_dataset(cases[i].samples);
        accel_loader_t *l = new_loader(
            d, L(.batch_size = cases[i].batch, .drop_last = cases[i].drop), 0,
            cases[i].size);
        accel_batch_t b;
        uint64_t last = 0;
        while (accel_loader_next(l, &b) == ACCEL_OK)
            last = accel_loader_real_rows(l);
        assert_int_equal(last, cases[i].last);
        accel_loader_destroy(l);
        accel_dataset_destroy(d);
    }
}

/* ---- state ----------------------------------------------------------------
 */

static void a_resume_goes_on_where_it_stopped(void **state)
{
    accel_dataset_t *d = new_dataset(130);
    const accel_loader_options_t *o =
        L(.batch_size = 4, .shuffle = true, .seed = 9);
    uint64_t through[12][4];
    accel_batch_t b;

    (void)state;
    accel_loader_t *l = new_loader(d, o, 1, 2);
    for (size_t k = 0; k < 12; k++) {
        assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
        memcpy(through[k], b.index, sizeof through[k]);
    }
    accel_loader_destroy(l);

    for (size_t stop = 0; stop <= 12; stop++) {
        accel_loader_state_t st;
        l = new_loader(d, o, 1, 2);
        for (size_t k = 0; k < stop; k++)
            accel_loader_next(l, &b);
        accel_loader_get_state(l, &st);
        accel_loader_destroy(l);

        l = new_loader(d, L(.batch_size = 4, .shuffle = true), 1, 2);
        assert_int_equal(accel_loader_set_state(l, &st), ACCEL_OK);
        for (size_t k = stop; k < 12; k++) {
            assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
            assert_memory_equal(through[k], b.index, sizeof through[k]);
        }
        accel_loader_destroy(l);
    }
    accel_dataset_destroy(d);
}

static void a_resume_at_the_end_of_an_epoch_ends_it(void **state)
{
    accel_dataset_t *d = new_dataset(10);
    accel_loader_state_t st;
    accel_batch_t b;

    (void)state;
    for (int drop = 0; drop < 2; drop++) {
        const accel_loader_options_t *o =
            L(.batch_size = 4, .shuffle = true, .drop_last = drop);
        accel_loader_t *l = new_loader(d, o, 0, 1);
        while (accel_loader_next(l, &b) == ACCEL_OK && !b.last)
            ;
        accel_loader_get_state(l, &st); /* inside the loop's last turn */
        assert_int_equal(st.samples, 10);
        accel_loader_destroy(l);

        for (int size = 1; size <= 3; size++) {
            l = new_loader(d, o, 0, size);
            assert_int_equal(accel_loader_set_state(l, &st), ACCEL_OK);
            assert_int_equal(accel_loader_next(l, &b), ACCEL_END);
            assert_int_equal(accel_loader_epoch(l), 1);
            accel_loader_destroy(l);
        }
    }
    accel_dataset_destroy(d);
}

/* Saved by 4 ranks in mid-epoch; whatever number goes on sees each sample
 * that is left once. */
static void another_number_of_ranks_sees_the_rest_once(void **state)
{
    static const struct {
        int size;
        size_t batch;
    } resumes[] = {{1, 24}, {2, 12}, {3, 8}, {4, 6}, {6, 4}, {1, 12}, {8, 1}};
    accel_dataset_t *d = new_dataset(240);
    accel_loader_state_t st;
    bool seen[240] = {false};
    accel_batch_t b;

    (void)state;
    for (int r = 0; r < 4; r++) {
        accel_loader_t *l =
            new_loader(d, L(.batch_size = 6, .shuffle = true, .seed = 3), r, 4);
        accel_loader_set_epoch(l, 2);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
            for (size_t i = 0; i < b.count; i++)
                seen[b.index[i]] = true;
        }
        accel_loader_get_state(l, &st);
        assert_int_equal(st.samples, 96);
        accel_loader_destroy(l);
    }

    for (size_t c = 0; c < ARRAY_SIZE(resumes); c++) {
        unsigned count[240] = {0};
        uint64_t got[240];
        for (int r = 0; r < resumes[c].size; r++) {
            accel_loader_t *l = new_loader(
                d, L(.batch_size = resumes[c].batch, .shuffle = true), r,
                resumes[c].size);
            assert_int_equal(accel_loader_set_state(l, &st), ACCEL_OK);
            for (size_t n = drain(l, got); n > 0; n--)
                count[got[n - 1]]++;
            accel_loader_destroy(l);
        }
        for (size_t i = 0; i < 240; i++)
            assert_int_equal(count[i], !seen[i]);
    }
    accel_dataset_destroy(d);
}

static void wrong_states_are_refused(void **state)
{
    accel_dataset_t *d = new_dataset(100), *other = new_dataset(99);
    accel_loader_t *l = new_loader(d, L(.batch_size = 8), 0, 1);
    accel_loader_t *o = new_loader(other, L(.batch_size = 8), 0, 1);
    accel_loader_state_t good, st;
    accel_batch_t b;

    (void)state;
    accel_loader_next(l, &b);
    accel_loader_get_state(l, &good);
    assert_int_equal(accel_loader_set_state(o, &good), ACCEL_ERR_PROTO);
    assert_non_null(strstr(accel_last_error()->text, "another dataset"));
    st = good, st.version = 2;
    assert_int_equal(accel_loader_set_state(l, &st), ACCEL_ERR_VERSION);
    st = good, st.samples = 101;
    assert_int_equal(accel_loader_set_state(l, &st), ACCEL_ERR_ARG);
    st = good, st.samples = 12;
    assert_int_equal(accel_loader_set_state(l, &st), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "12 samples"));
    assert_non_null(strstr(accel_last_error()->text, "batches of 8"));

    assert_int_equal(accel_loader_next(l, &b), ACCEL_OK); /* not moved */
    assert_int_equal(b.number, 1);
    accel_loader_destroy(l);
    accel_loader_destroy(o);
    accel_dataset_destroy(d);
    accel_dataset_destroy(other);
}

/* ---- what can go wrong ----------------------------------------------------
 */

static void wrong_loaders_are_refused(void **state)
{
    accel_dataset_t *d = new_dataset(10), *none = new_dataset(0);
    accel_loader_t *l = (void *)state;

    assert_int_equal(accel_loader_create(d, NULL, &l), ACCEL_ERR_ARG);
    assert_null(l);
    assert_non_null(strstr(accel_last_error()->text, "batch_size is 0"));
    assert_int_equal(accel_loader_create(none, L(.batch_size = 1), &l),
                     ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "no samples"));
    assert_int_equal(accel_loader_create(NULL, L(.batch_size = 1), &l),
                     ACCEL_ERR_ARG);
    assert_int_equal(
        accel_loader_create(d, &(accel_loader_options_t){.size = 1}, &l),
        ACCEL_ERR_ARG);
    assert_int_equal(accel_loader_create(d, L(.batch_size = SIZE_MAX), &l),
                     ACCEL_ERR_ARG);
    assert_int_equal(
        accel_loader_create(d, L(.batch_size = (size_t)1 << 61), &l),
        ACCEL_ERR_NOMEM);
    assert_null(l);
    accel_loader_destroy(NULL);

    l = new_loader(d, L(.batch_size = 4, .split_batches = true), 1, 2);
    assert_int_equal(accel_loader_set_rank(l, 0, 3), ACCEL_ERR_ARG);
    assert_int_equal(ax_loader_size(l), 2); /* as it was */
    assert_int_equal(ax_loader_options(l)->batch_size, 4);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
    accel_dataset_destroy(none);
}

static void loaders_count_their_batches_together(void **state)
{
    accel_dataset_t *d = new_dataset(5);
    accel_loader_t *a = new_loader(d, L(.batch_size = 3), 0, 1);
    accel_loader_t *b = new_loader(d, L(.batch_size = 3), 0, 1);
    accel_batch_t batch;

    (void)state;
    assert_int_equal(ax_loader_tick(a), 0);
    assert_int_equal(ax_loader_rows(a), 0);
    accel_loader_next(a, &batch);
    accel_loader_next(b, &batch);
    assert_true(ax_loader_tick(b) > ax_loader_tick(a));
    assert_int_equal(ax_loader_rows(b), 3);
    accel_loader_next(a, &batch);
    assert_true(ax_loader_tick(a) > ax_loader_tick(b));
    assert_int_equal(accel_loader_next(a, &batch), ACCEL_END);
    assert_int_equal(ax_loader_tick(a), 0);
    assert_int_equal(ax_loader_rows(a), 0);
    accel_loader_destroy(a);
    accel_loader_destroy(b);
    accel_dataset_destroy(d);
}

static const accel_loader_t *gone;

static void on_gone(void *context, const accel_loader_t *loader)
{
    assert_ptr_equal(context, &gone);
    gone = loader;
}

static void an_owner_hears_of_the_end(void **state)
{
    accel_dataset_t *d = new_dataset(5);
    accel_loader_t *l = new_loader(d, L(.batch_size = 3), 0, 1);
    const accel_loader_t *was = l;

    (void)state;
    ax_loader_set_owner(l, on_gone, &gone);
    accel_loader_destroy(l);
    assert_ptr_equal(gone, was);
    accel_dataset_destroy(d);
}

static void the_default_seed_is_set_from_outside(void **state)
{
    accel_dataset_t *d = new_dataset(50);
    accel_loader_t *l =
        new_loader(d, L(.batch_size = 50, .shuffle = true), 0, 1);
    accel_loader_t *own =
        new_loader(d, L(.batch_size = 50, .shuffle = true, .seed = 4), 0, 1);
    accel_loader_state_t st;
    accel_batch_t b;
    uint64_t first[50];

    (void)state;
    accel_loader_next(l, &b);
    memcpy(first, b.index, sizeof first);
    ax_loader_set_default_seed(l, 11);
    accel_loader_get_state(l, &st);
    assert_int_equal(st.seed, 11);
    accel_loader_next(l, &b);
    assert_int_equal(b.number, 0);
    assert_int_equal(b.index[7], accel_shuffle(11, 0, 50, 7));
    assert_memory_not_equal(first, b.index, sizeof first);

    ax_loader_set_default_seed(own, 11);
    accel_loader_get_state(own, &st);
    assert_int_equal(st.seed, 4);
    accel_loader_destroy(l);
    accel_loader_destroy(own);
    accel_dataset_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_is_known_on_the_last_batch),
        cmocka_unit_test(nested_loaders_do_not_disturb_each_other),
        cmocka_unit_test(the_order_depends_on_seed_and_epoch_only),
        cmocka_unit_test(few_samples_follow_their_seed),
        cmocka_unit_test(ranks_share_an_epoch),
        cmocka_unit_test(the_global_batch_is_the_same_on_any_world),
        cmocka_unit_test(seek_goes_to_any_batch),
        cmocka_unit_test(an_early_break_leaves_nothing_behind),
        cmocka_unit_test(each_sample_is_real_once),
        cmocka_unit_test(real_rows_follow_the_worked_examples),
        cmocka_unit_test(a_resume_goes_on_where_it_stopped),
        cmocka_unit_test(a_resume_at_the_end_of_an_epoch_ends_it),
        cmocka_unit_test(another_number_of_ranks_sees_the_rest_once),
        cmocka_unit_test(wrong_states_are_refused),
        cmocka_unit_test(wrong_loaders_are_refused),
        cmocka_unit_test(the_default_seed_is_set_from_outside),
        cmocka_unit_test(loaders_count_their_batches_together),
        cmocka_unit_test(an_owner_hears_of_the_end),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
