/* loader: streams, elastic resumes, and orders beside the plain shuffle. */
#include "loader_rig.h"

#include <math.h>

/* ---- streams: the tables ------------------------------------------------- */

/* tests 22 to 25 */
static void streams_are_dealt_as_the_tables_say(void **state)
{
    static const struct {
        uint64_t samples;
        size_t batch;
        int size;
        bool drop, split;
        const char *ranks[4];
    } cases[] = {
        {9, 4, 2, false, false, {"0 1 2 3|8 0 1 2", "4 5 6 7|3 4 5 6"}},
        {9, 4, 2, true, false, {"0 1 2 3", "4 5 6 7"}},
        {9, 4, 2, false, true, {"0 1|4 5|8 0", "2 3|6 7|1 2"}},
        {2, 4, 2, false, false, {"0 1 0 1", "0 1 0 1"}},
        {2, 4, 2, false, true, {"0 1", "0 1"}},
        {2, 4, 2, true, false, {"-", "-"}},
        {5, 1, 4, false, false, {"0|4", "1|0", "2|1", "3|2"}},
        {5, 2, 3, false, false, {"0 1", "2 3", "4 0"}},
        {0, 2, 2, false, false, {"-", "-"}},
    };
    char got[256];

    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(cases); c++)
        for (int r = 0; r < cases[c].size; r++) {
            rig_t rig = rig_of(cases[c].samples);
            accel_dataset_t *d = rig_dataset(&rig, true);
            accel_loader_t *l = rig_loader(d,
                                           L(.batch_size = cases[c].batch,
                                             .drop_last = cases[c].drop,
                                             .split_batches = cases[c].split),
                                           r, cases[c].size);
            assert_true(accel_loader_length(l) == ACCEL_UNKNOWN);
            for (int epoch = 0; epoch < 2; epoch++) {
                rig_text(l, got, sizeof got);
                assert_string_equal(got, cases[c].ranks[r]);
            }
            accel_loader_destroy(l);
            accel_dataset_destroy(d);
        }
}

/* test 25: side by side, the ranks' batches are the stream, begun again where
 * it ends too early; equally many on each rank, all full. */
static void batches_side_by_side_are_the_stream(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 40; n += 1 + n / 9)
        for (int c = 0; c < 24; c++) {
            int size = 1 + c % 4;
            bool split = c % 8 >= 4;
            size_t part = 1 + (size_t)c / 8;
            rig_t rig[4];
            accel_dataset_t *d[4];
            accel_loader_t *l[4];
            uint64_t at = 0;
            accel_status_t st = ACCEL_OK;
            for (int r = 0; r < size; r++) {
                rig[r] = rig_of(n);
                d[r] = rig_dataset(&rig[r], true);
                l[r] = rig_loader(
                    d[r],
                    L(.batch_size = split ? part * (size_t)size : part,
                      .split_batches = split),
                    r, size);
            }
            while (st == ACCEL_OK)
                for (int r = 0; r < size; r++) {
                    accel_batch_t b;
                    accel_status_t got = accel_loader_next(l[r], &b);
                    assert_true(r == 0 || got == st);
                    st = got;
                    if (st != ACCEL_OK)
                        continue;
                    /* one rank is the plain loop */
                    assert_int_equal(
                        b.count, size == 1 && at + part > n ? n - at : part);
                    for (size_t i = 0; i < b.count; i++)
                        assert_int_equal(b.index[i], at++ % n);
                }
            assert_int_equal(st, ACCEL_END);
            assert_in_range(at, n, n + part * (uint64_t)size - 1);
            for (int r = 0; r < size; r++) {
                accel_loader_destroy(l[r]);
                accel_dataset_destroy(d[r]);
            }
        }
}

/* A stream and data of known length are dealt alike. */
static void streams_equal_data_of_known_length(void **state)
{
    char want[4096], got[4096];

    (void)state;
    for (uint64_t n = 1; n < 40; n += 1 + n / 7)
        for (int c = 0; c < 48; c++) {
            int size = 1 + c % 4;
            accel_loader_options_t o = {ACCEL_LOADER_DEFAULTS,
                                        .batch_size = (size_t)(c / 16 * 2 + 1),
                                        .drop_last = c % 16 >= 12,
                                        .uneven = c % 16 >= 8 && c % 16 < 12};
            rig_t a = rig_of(n), b = rig_of(n);
            accel_dataset_t *map = rig_dataset(&a, false);
            accel_dataset_t *stream = rig_dataset(&b, true);
            for (int r = 0; r < size; r++) {
                accel_loader_t *x = rig_loader(map, &o, r, size);
                accel_loader_t *y = rig_loader(stream, &o, r, size);
                rig_text(x, want, sizeof want);
                rig_text(y, got, sizeof got);
                assert_string_equal(got, want);
                accel_loader_destroy(x);
                accel_loader_destroy(y);
            }
            accel_dataset_destroy(map);
            accel_dataset_destroy(stream);
        }
}

/* ---- any numbers, any flags ---------------------------------------------- */

static uint32_t roll(uint32_t *random, uint32_t sides)
{
    *random = *random * 1664525 + 1013904223;
    return (*random >> 8) % sides;
}

/* One rank's epoch; counts rows and batches. */
static uint64_t walk(accel_dataset_t *d, const accel_loader_options_t *o,
                     const int at[2], unsigned *seen)
{
    accel_loader_t *l = rig_loader(d, o, at[0], at[1]);
    accel_batch_t b;
    uint64_t batches = 0;

    while (accel_loader_next(l, &b) == ACCEL_OK) {
        assert_int_equal(b.number, batches++);
        for (size_t i = 0; i < b.count; i++)
            seen[b.index[i]]++;
    }
    if (accel_loader_length(l) != ACCEL_UNKNOWN)
        assert_int_equal(batches, accel_loader_length(l));
    accel_loader_destroy(l);
    return batches;
}

/* test 26: what a loader says is what comes */
static void nothing_is_lost_whatever_the_numbers(void **state)
{
    uint32_t random = 20240229;

    (void)state;
    for (int turn = 0; turn < 300; turn++) {
        uint64_t n = 1 + roll(&random, 60);
        int size = 1 + (int)roll(&random, 5);
        bool split = roll(&random, 3) == 0, stream = roll(&random, 3) == 0;
        size_t batch = 1 + roll(&random, 7);
        accel_loader_options_t o = {.size = sizeof o,
                                    .batch_size =
                                        split ? batch * (size_t)size : batch,
                                    .split_batches = split,
                                    .drop_last = roll(&random, 4) == 0,
                                    .shuffle = roll(&random, 2),
                                    .seed = 1 + roll(&random, 9),
                                    .threads = roll(&random, 3)};
        o.uneven = !o.drop_last && roll(&random, 3) == 0;
        o.block = o.shuffle && (stream || roll(&random, 2))
                      ? 1 + roll(&random, 5)
                      : 0;
        unsigned seen[64] = {0}, most = 0;
        uint64_t least = UINT64_MAX, longest = 0, lost = 0, rows = 0;
        rig_t rig = rig_of(n);
        accel_dataset_t *d = rig_dataset(&rig, stream);
        for (int r = 0; r < size; r++) {
            uint64_t k = walk(d, &o, (int[]){r, size}, seen);
            least = k < least ? k : least;
            longest = k > longest ? k : longest;
        }
        for (uint64_t i = 0; i < n; i++) {
            lost += seen[i] == 0;
            rows += seen[i];
            most = seen[i] > most ? seen[i] : most;
        }
        uint64_t global = split ? o.batch_size : batch * (uint64_t)size;
        assert_true(longest - least <= (o.uneven ? 1 : 0));
        if (o.drop_last)
            assert_true(lost == n % global && most <= 1);
        else
            assert_int_equal(lost, 0);
        if (o.uneven || (size == 1 && !o.drop_last))
            assert_int_equal(rows, n);
        else if (!o.drop_last)
            assert_int_equal(rows, (n + global - 1) / global * global);
        accel_dataset_destroy(d);
    }
}

/* ---- batch samplers ------------------------------------------------------ */

static int pairs_of(void *context, uint64_t epoch, uint64_t number,
                    uint64_t *index, size_t *count)
{
    (void)epoch;
    if (context)
        return *(int *)context;
    *count = 1 + number % 2;
    index[0] = 2 * number;
    index[1] = 2 * number + 1;
    return 0;
}

/* tests 20 and 21: 5 batches on 2 ranks, 7 on 3 */
static void batches_of_any_size_go_round(void **state)
{
    static const struct {
        uint64_t batches;
        int size;
        const char *ranks[3];
        uint64_t real; /* in the last round */
    } cases[] = {
        {5, 2, {"0|4|8", "2 3|6 7|0"}, 1},
        {7, 3, {"0|6 7|12", "2 3|8|0", "4|10 11|2 3"}, 1},
        {4, 2, {"0|4", "2 3|6 7"}, 3},
    };
    rig_t rig = rig_of(40);
    accel_dataset_t *d = rig_dataset(&rig, false);
    char got[256];

    (void)state;
    for (size_t c = 0; c < ARRAY_SIZE(cases); c++)
        for (int r = 0; r < cases[c].size; r++) {
            accel_loader_t *l =
                rig_loader(d,
                           L(.batch_size = 2, .batches = pairs_of,
                             .nbatches = cases[c].batches),
                           r, cases[c].size);
            accel_batch_t b;
            rig_text(l, got, sizeof got);
            assert_string_equal(got, cases[c].ranks[r]);
            uint64_t last = accel_loader_length(l) - 1;
            assert_int_equal(accel_loader_seek(l, last), ACCEL_OK);
            assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
            assert_int_equal(accel_loader_real_rows(l), cases[c].real);
            accel_loader_destroy(l);
        }
    accel_dataset_destroy(d);
}

/* Fails for batch *context. */
static int pairs_but_one(void *context, uint64_t epoch, uint64_t number,
                         uint64_t *index, size_t *count)
{
    if (number == *(uint64_t *)context)
        return EBADMSG;
    return pairs_of(NULL, epoch, number, index, count);
}

/* A round's rows cannot be counted when a batch in it fails, so that is an
 * error on all ranks, and only in that round. */
static void a_batch_that_fails_fails_its_round(void **state)
{
    rig_t rig = rig_of(40);
    accel_dataset_t *d = rig_dataset(&rig, false);
    uint64_t bad = 4;
    accel_batch_t b;

    (void)state;
    for (int r = 0; r < 2; r++) {
        accel_loader_t *l =
            rig_loader(d,
                       L(.batch_size = 2, .batches = pairs_but_one,
                         .nbatches = 6, .context = &bad),
                       r, 2);
        for (uint64_t k = 0; k < 3; k++) {
            assert_int_equal(accel_loader_seek(l, k), ACCEL_OK);
            assert_int_equal(accel_loader_next(l, &b),
                             k == 2 ? ACCEL_ERR_IO : ACCEL_OK);
            if (k == 2)
                assert_non_null(strstr(accel_last_error()->text, "batch 4"));
        }
        accel_loader_destroy(l);
    }
    accel_dataset_destroy(d);
}

static void what_a_program_says_is_checked(void **state)
{
    rig_t rig = rig_of(4);
    accel_dataset_t *d = rig_dataset(&rig, false);
    accel_batch_t b;
    int err = 5;

    (void)state;
    accel_loader_t *l = rig_loader(
        d, L(.batch_size = 2, .batches = pairs_of, .nbatches = 9), 0, 1);
    assert_int_equal(accel_loader_seek(l, 2), ACCEL_OK);
    assert_int_equal(accel_loader_next(l, &b), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "sample 4"));
    accel_loader_destroy(l);
    l = rig_loader(
        d,
        L(.batch_size = 2, .batches = pairs_of, .nbatches = 9, .context = &err),
        0, 1);
    assert_int_equal(accel_loader_next(l, &b), ACCEL_ERR_IO);
    accel_loader_destroy(l);
    /* test 19: batches of no known size cannot be cut in equal parts */
    assert_int_equal(
        accel_loader_create(d,
                            L(.batch_size = 2, .batches = pairs_of,
                              .nbatches = 9, .split_batches = true),
                            &l),
        ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "split"));
    accel_dataset_destroy(d);
}

/* ---- elastic ------------------------------------------------------------- */

static void elastic_resumes_see_the_rest_once(void **state)
{
    static const int sizes[] = {1, 2, 3, 6};
    rig_t rig = rig_of(241);
    accel_dataset_t *d = rig_dataset(&rig, false);
    const accel_loader_options_t *o =
        L(.batch_size = 5, .shuffle = true, .seed = 3, .elastic = true,
          .threads = 1);

    (void)state;
    for (uint64_t steps = 1; steps < 12; steps++)
        for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
            unsigned seen[241] = {0};
            accel_loader_state_t st = {0};
            accel_batch_t b;
            for (int r = 0; r < 4; r++) {
                accel_loader_t *l = rig_loader(d, o, r, 4);
                for (uint64_t k = 0; k < steps; k++) {
                    assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
                    for (size_t i = 0; i < b.count; i++)
                        seen[b.index[i]]++;
                }
                accel_loader_get_state(l, &st);
                assert_int_equal(st.samples, 20 * steps);
                accel_loader_destroy(l);
            }
            accel_loader_t *l[6];
            uint64_t length = 0;
            for (int r = 0; r < sizes[s]; r++) {
                l[r] = rig_loader(d, o, r, sizes[s]);
                assert_int_equal(accel_loader_set_state(l[r], &st), ACCEL_OK);
                length = accel_loader_length(l[r]);
                /* once more in the same epoch: counters are absolute */
                accel_loader_get_state(l[r], &st);
                assert_int_equal(st.samples, 20 * steps);
            }
            uint64_t batches = 0;
            for (accel_status_t got = ACCEL_OK; got == ACCEL_OK;) {
                uint64_t left = 0;
                for (int r = 0; r < sizes[s]; r++) {
                    got = accel_loader_next(l[r], &b);
                    if (got != ACCEL_OK)
                        continue;
                    if (r == 0) {
                        left = accel_loader_real_rows(l[0]);
                        batches = b.number + 1;
                    }
                    for (size_t i = 0; i < b.count && left; i++, left--)
                        seen[b.index[i]]++;
                }
            }
            assert_int_equal(batches, length);
            for (size_t i = 0; i < 241; i++)
                assert_int_equal(seen[i], 1);
            for (int r = 0; r < sizes[s]; r++) {
                assert_int_equal(accel_loader_epoch(l[r]), 1);
                accel_loader_destroy(l[r]);
            }
        }
    accel_dataset_destroy(d);
}

/* ---- the place in one order is none in another --------------------------- */

static int backwards(void *context, uint64_t epoch, uint64_t position,
                     size_t count, uint64_t *index)
{
    (void)epoch;
    for (size_t i = 0; i < count; i++)
        index[i] = *(uint64_t *)context - 1 - (position + i);
    return 0;
}

/* Each of `orders` takes its own saved place and no other's. */
static void check_places(accel_dataset_t *d, const accel_loader_options_t *o,
                         size_t norders)
{
    for (size_t a = 0; a < norders; a++)
        for (size_t b = 0; b < norders; b++) {
            accel_loader_t *from = rig_loader(d, &o[a], 0, 1);
            accel_loader_t *to = rig_loader(d, &o[b], 0, 1);
            accel_loader_state_t at;
            accel_batch_t batch;
            assert_int_equal(accel_loader_next(from, &batch), ACCEL_OK);
            accel_loader_get_state(from, &at);
            assert_int_equal(accel_loader_set_state(to, &at),
                             a == b ? ACCEL_OK : ACCEL_ERR_PROTO);
            accel_loader_destroy(from);
            accel_loader_destroy(to);
        }
}

static void a_resume_in_another_order_is_refused(void **state)
{
    double even[60], other[60];
    rig_t rig = rig_of(60);
    accel_dataset_t *stream = rig_dataset(&rig, true);
    accel_dataset_t *d = rig_dataset(&rig, false);
    accel_loader_options_t streams[] = {
        *L(.batch_size = 6),
        *L(.batch_size = 6, .shuffle = true, .block = 4),
        *L(.batch_size = 6, .shuffle = true, .block = 5),
        *L(.batch_size = 6, .shuffle = true, .block = 4, .group = 3),
    };
    accel_loader_options_t orders[] = {
        *L(.batch_size = 6),
        *L(.batch_size = 6, .shuffle = true),
        *L(.batch_size = 6, .shuffle = true, .block = 4),
        *L(.batch_size = 6, .shuffle = true, .block = 5),
        *L(.batch_size = 6, .shuffle = true, .block = 4, .group = 3),
        *L(.batch_size = 6, .weights = even),
        *L(.batch_size = 6, .weights = other),
        *L(.batch_size = 6, .weights = even, .replacement = true),
        *L(.batch_size = 6, .weights = even, .draws = 54),
        *L(.batch_size = 6, .order = backwards, .context = &rig.samples),
    };

    (void)state;
    for (int i = 0; i < 60; i++)
        even[i] = other[i] = 1;
    other[0] = 2;
    check_places(stream, streams, ARRAY_SIZE(streams));
    check_places(d, orders, ARRAY_SIZE(orders));
    accel_dataset_destroy(d);
    accel_dataset_destroy(stream);
}

/* ---- blocks -------------------------------------------------------------- */

static void blocks_are_a_permutation_and_stay_together(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 400; n += 1 + n / 11)
        for (uint64_t c = 0; c < 16; c++) {
            uint64_t block = 1 + c % 4 * 3, group = 1 + c / 4;
            uint64_t nblocks = (n + block - 1) / block;
            bool seen[400] = {false};
            uint64_t at[400];
            ax_blocks_t b = {n, block < n ? block : n,
                             group < nblocks ? group : nblocks};
            for (uint64_t p = 0; p < n; p++)
                at[p] = p;
            ax_blocks_find(&b, 7, c, at, (size_t)n);
            for (uint64_t p = 0; p < n; p++) {
                assert_true(at[p] < n);
                assert_false(seen[at[p]]);
                seen[at[p]] = true;
            }
            /* as many samples as a group has are from that many blocks */
            bool whole = n % b.block == 0;
            for (uint64_t p = 0; whole && p + b.group * b.block <= n;
                 p += b.group * b.block) {
                bool from[400] = {false};
                uint64_t blocks = 0;
                for (uint64_t i = 0; i < b.group * b.block; i++) {
                    blocks += !from[at[p + i] / b.block];
                    from[at[p + i] / b.block] = true;
                }
                assert_int_equal(blocks, b.group);
            }
        }
}

/* ---- weights ------------------------------------------------------------- */

static void draw_all(accel_loader_t *l, unsigned *count)
{
    accel_batch_t b;

    while (accel_loader_next(l, &b) == ACCEL_OK)
        for (size_t i = 0; i < b.count; i++)
            count[b.index[i]]++;
}

static void weights_decide_how_often(void **state)
{
    double weight[10];
    unsigned count[10] = {0};
    rig_t rig = rig_of(10);
    accel_dataset_t *d = rig_dataset(&rig, false);

    (void)state;
    for (int i = 0; i < 10; i++)
        weight[i] = i % 5; /* two samples each of 0 to 4; 20 in all */
    accel_loader_t *l =
        rig_loader(d,
                   L(.batch_size = 100, .weights = weight, .replacement = true,
                     .draws = 20000, .seed = 1),
                   0, 1);
    draw_all(l, count);
    accel_loader_destroy(l);
    for (int i = 0; i < 10; i++) {
        double want = 1000.0 * weight[i];
        if (weight[i] == 0)
            assert_int_equal(count[i], 0);
        else /* 5 standard deviations */
            assert_true((count[i] - want) * (count[i] - want) < 25 * want);
    }
    /* without replacement: each that has a weight once, heavy ones first */
    unsigned first[10] = {0};
    l = rig_loader(d, L(.batch_size = 1, .weights = weight, .seed = 1), 0, 1);
    assert_int_equal(accel_loader_length(l), 8);
    for (uint64_t epoch = 0; epoch < 2000; epoch++) {
        accel_batch_t b;
        accel_loader_set_epoch(l, epoch);
        assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
        first[b.index[0]]++;
    }
    for (int i = 0; i < 10; i++) {
        double want = 100.0 * weight[i];
        assert_true((first[i] - want) * (first[i] - want) <= 25 * want);
    }
    memset(count, 0, sizeof count);
    accel_loader_set_epoch(l, 3);
    draw_all(l, count);
    for (int i = 0; i < 10; i++)
        assert_int_equal(count[i], weight[i] > 0);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

static void wrong_weights_are_refused(void **state)
{
    static const double bad[][3] = {
        {1, -1, 1}, {0, 0, 0}, {1, (double)NAN, 1}, {1, (double)INFINITY, 1}};
    double good[3] = {1, 0, 1};
    rig_t rig = rig_of(3);
    accel_dataset_t *d = rig_dataset(&rig, false);
    accel_loader_t *l;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(
            accel_loader_create(d, L(.batch_size = 1, .weights = bad[i]), &l),
            ACCEL_ERR_ARG);
    assert_int_equal(
        accel_loader_create(d, L(.batch_size = 1, .weights = good, .draws = 3),
                            &l),
        ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "only 2"));
    accel_dataset_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_dealt_as_the_tables_say),
        cmocka_unit_test(batches_side_by_side_are_the_stream),
        cmocka_unit_test(streams_equal_data_of_known_length),
        cmocka_unit_test(nothing_is_lost_whatever_the_numbers),
        cmocka_unit_test(batches_of_any_size_go_round),
        cmocka_unit_test(a_batch_that_fails_fails_its_round),
        cmocka_unit_test(what_a_program_says_is_checked),
        cmocka_unit_test(elastic_resumes_see_the_rest_once),
        cmocka_unit_test(a_resume_in_another_order_is_refused),
        cmocka_unit_test(blocks_are_a_permutation_and_stay_together),
        cmocka_unit_test(weights_decide_how_often),
        cmocka_unit_test(wrong_weights_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
