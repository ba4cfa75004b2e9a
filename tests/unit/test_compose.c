/* loader: datasets of datasets, lists of files, and files that change. */
#include "unit/files.h"

#include "loader/loader_priv.h"

#include <pthread.h>
#include <sys/stat.h>

static const accel_field_t number[] = {{"n", ACCEL_U64, 1}};
static uint64_t numbers[64];

static void count(void)
{
    for (uint64_t i = 0; i < 64; i++)
        numbers[i] = i;
}

static accel_dataset_t *count_from(uint64_t first, uint64_t samples)
{
    const void *data[] = {numbers + first};
    accel_dataset_t *d;

    count();
    assert_int_equal(accel_dataset_from_memory(number, data, 1, samples, &d),
                     ACCEL_OK);
    return d;
}

static uint64_t at(const accel_dataset_t *d, uint64_t i)
{
    uint64_t n;

    assert_int_equal(accel_dataset_read(d, &i, 1, (void *[]){&n}), ACCEL_OK);
    return n;
}

/* ---- datasets of datasets -------------------------------------------------
 */

static void parts_follow_each_other(void **state)
{
    accel_dataset_t *parts[] = {count_from(0, 3), count_from(9, 0),
                                count_from(10, 2), count_from(20, 1)};
    static const uint64_t want[] = {0, 1, 2, 10, 11, 20};
    uint64_t out[200], index[200];
    accel_dataset_t *d;

    (void)state;
    assert_int_equal(accel_dataset_concat(parts, 4, &d), ACCEL_OK);
    assert_string_equal(accel_dataset_format(d), "concat");
    assert_int_equal(accel_dataset_samples(d), 6);
    for (uint64_t i = 0; i < 6; i++)
        assert_int_equal(at(d, i), want[i]);
    for (uint64_t i = 0; i < 200; i++)
        index[i] = i * 5 % 6;
    assert_int_equal(accel_dataset_read(d, index, 200, (void *[]){out}),
                     ACCEL_OK);
    for (uint64_t i = 0; i < 200; i++)
        assert_int_equal(out[i], want[index[i]]);
    accel_dataset_destroy(d);

    /* the order of the parts is part of what it is */
    uint64_t print;
    accel_dataset_t *turned[] = {parts[3], parts[2], parts[1], parts[0]};
    assert_int_equal(accel_dataset_concat(parts, 4, &d), ACCEL_OK);
    print = accel_dataset_fingerprint(d);
    accel_dataset_destroy(d);
    assert_int_equal(accel_dataset_concat(turned, 4, &d), ACCEL_OK);
    assert_int_not_equal(accel_dataset_fingerprint(d), print);
    accel_dataset_destroy(d);
    for (int i = 0; i < 4; i++)
        accel_dataset_destroy(parts[i]);
}

static void unlike_parts_are_refused(void **state)
{
    static const accel_field_t others[][2] = {
        {{"m", ACCEL_U64, 1}},
        {{"n", ACCEL_F64, 1}},
        {{"n", ACCEL_U64, 2}},
        {{"n", ACCEL_U64, 1}, {"o", ACCEL_U64, 1}}};
    const void *data[] = {numbers, numbers};
    accel_dataset_t *d;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        accel_dataset_t *parts[2] = {count_from(0, 2), NULL};
        accel_dataset_from_memory(others[i], data, 1 + (i == 3), 2, &parts[1]);
        assert_int_equal(accel_dataset_concat(parts, 2, &d), ACCEL_ERR_ARG);
        assert_non_null(strstr(accel_last_error()->text, "part 1"));
        assert_null(d);
        accel_dataset_destroy(parts[0]);
        accel_dataset_destroy(parts[1]);
    }
    accel_dataset_t *hole[] = {count_from(0, 2), NULL};
    assert_int_equal(accel_dataset_concat(hole, 2, &d), ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_concat(hole, 0, &d), ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_concat(NULL, 2, &d), ACCEL_ERR_ARG);
    accel_dataset_destroy(hole[0]);
}

static void a_subset_is_what_its_index_says(void **state)
{
    accel_dataset_t *base = count_from(5, 10), *d, *e;
    uint64_t index[] = {9, 0, 9, 4};

    (void)state;
    assert_int_equal(accel_dataset_subset(base, index, 4, &d), ACCEL_OK);
    assert_int_equal(accel_dataset_samples(d), 4);
    assert_string_equal(accel_dataset_format(d), "subset");
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(at(d, i), index[i] + 5);
    index[1] = 1;
    assert_int_equal(at(d, 1), 5); /* it was copied */
    assert_int_equal(accel_dataset_subset(base, index, 4, &e), ACCEL_OK);
    assert_int_not_equal(accel_dataset_fingerprint(d),
                         accel_dataset_fingerprint(e));
    accel_dataset_destroy(e);
    assert_int_equal(accel_dataset_subset(base, NULL, 0, &e), ACCEL_OK);
    assert_int_equal(accel_dataset_samples(e), 0);
    accel_dataset_destroy(e);
    index[3] = 10;
    assert_int_equal(accel_dataset_subset(base, index, 4, &e), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "index 3"));
    assert_int_equal(accel_dataset_subset(base, NULL, 1, &e), ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_subset(NULL, index, 1, &e), ACCEL_ERR_ARG);
    assert_null(e);
    accel_dataset_destroy(d);
    accel_dataset_destroy(base);
}

static void a_split_shares_nothing(void **state)
{
    static const uint64_t counts[] = {30, 0, 13, 7};
    accel_dataset_t *base = count_from(0, 52), *d[4], *again[4];

    (void)state;
    for (uint64_t c = 0; c < 20; c++) {
        uint64_t seed = c < 19 ? c : ACCEL_IN_ORDER;
        unsigned seen[52] = {0};
        bool in_order = true;
        assert_int_equal(accel_dataset_split(base, counts, 4, seed, d),
                         ACCEL_OK);
        assert_int_equal(accel_dataset_split(base, counts, 4, seed, again),
                         ACCEL_OK);
        for (int p = 0, k = 0; p < 4; p++) {
            assert_int_equal(accel_dataset_samples(d[p]), counts[p]);
            for (uint64_t i = 0; i < counts[p]; i++, k++) {
                uint64_t n = at(d[p], i);
                seen[n]++;
                in_order = in_order && n == (uint64_t)k;
                assert_int_equal(at(again[p], i), n);
            }
            assert_int_equal(accel_dataset_fingerprint(d[p]),
                             accel_dataset_fingerprint(again[p]));
            accel_dataset_destroy(again[p]);
        }
        assert_int_not_equal(accel_dataset_fingerprint(d[0]),
                             accel_dataset_fingerprint(d[2]));
        for (int i = 0; i < 52; i++)
            assert_true(seen[i] <= 1);
        assert_int_equal(in_order, seed == ACCEL_IN_ORDER);
        for (int p = 0; p < 4; p++)
            accel_dataset_destroy(d[p]);
    }
    static const uint64_t wrong[][2] = {{53, 0}, {50, 3}, {2, UINT64_MAX}};
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        assert_int_equal(accel_dataset_split(base, wrong[i], 2, 1, d),
                         ACCEL_ERR_ARG);
        assert_null(d[0]);
        assert_null(d[1]);
    }
    assert_int_equal(accel_dataset_split(NULL, counts, 1, 1, d), ACCEL_ERR_ARG);
    accel_dataset_destroy(base);
}

/* ---- lists of files -------------------------------------------------------
 */

static int no_more(void *context, uint64_t epoch, uint64_t position,
                   size_t *count, void *const *fields)
{
    (void)context;
    (void)epoch;
    (void)position;
    (void)fields;
    *count = 0;
    return 0;
}

/* A stream has nothing that could be named by a number. */
static void streams_are_not_taken_apart(void **state)
{
    accel_field_t field = {"x", ACCEL_U8, 1};
    accel_dataset_t *stream, *out;
    uint64_t zero = 0;
    uint8_t byte;

    (void)state;
    assert_int_equal(
        accel_dataset_from_stream(&field, 1, no_more, NULL, &stream), ACCEL_OK);
    const accel_status_t got[] = {
        accel_dataset_concat(&stream, 1, &out),
        accel_dataset_subset(stream, &zero, 0, &out),
        accel_dataset_split(stream, &zero, 1, 0, &out),
        accel_dataset_read(stream, &zero, 1, (void *[]){&byte}),
        accel_dataset_read(stream, &zero, 0, (void *[]){&byte}),
    };
    for (size_t i = 0; i < ARRAY_SIZE(got); i++)
        assert_int_equal(got[i], ACCEL_ERR_UNSUPPORTED);
    assert_non_null(strstr(accel_last_error()->text, "reading from a stream"));
    assert_null(out);
    accel_dataset_destroy(stream);
}

static void write_array(const char *name, uint64_t first, size_t rows)
{
    bytes_t b = {0};
    char shape[32];

    count();
    snprintf(shape, sizeof shape, "(%zu,)", rows);
    add_npy(&b, npy_header("<u8", shape), numbers + first, 8 * rows);
    write_file(name, &b);
}

static void lists_are_sorted_by_bytes(void **state)
{
    static const char *const names[] = {"b10.npy", "b2.npy", "B.npy", "a.npy",
                                        ".hidden"};
    accel_dataset_t *d;

    (void)state;
    files_clean(NULL);
    for (uint64_t i = 0; i < 5; i++)
        write_array(names[i], 10 * i, 2);
    mkdir(in("folder"), 0700);
    d = open_good(folder, NULL);
    assert_string_equal(accel_dataset_format(d), "npy");
    assert_int_equal(accel_dataset_samples(d), 8);
    assert_int_equal(at(d, 0), 20); /* B, a, b10, b2 */
    assert_int_equal(at(d, 3), 31);
    assert_int_equal(at(d, 4), 0);
    assert_int_equal(at(d, 6), 10);
    accel_dataset_destroy(d);
    d = open_good(in("b*.npy"), NULL);
    assert_int_equal(accel_dataset_samples(d), 4);
    accel_dataset_destroy(d);

    /* a list is taken as it is */
    const char *paths[] = {in("b2.npy"), in("a.npy")};
    assert_int_equal(accel_dataset_open_files(paths, 2, NULL, &d), ACCEL_OK);
    assert_int_equal(at(d, 0), 10);
    assert_int_equal(at(d, 2), 30);
    accel_dataset_destroy(d);
    refuse(in("folder"), NULL, ACCEL_ERR_NOTFOUND, "no file in it");
    rmdir(in("folder"));
}

static void wrong_paths_are_refused(void **state)
{
    accel_dataset_t *d;
    const char *hole[] = {NULL};
    const char *paths[] = {in("a.npy")};

    (void)state;
    files_clean(NULL);
    refuse(in("absent.npy"), NULL, ACCEL_ERR_NOTFOUND, "no such file");
    refuse(in("*.npy"), NULL, ACCEL_ERR_NOTFOUND, "none that matches");
    assert_int_equal(mkfifo(in("pipe"), 0600), 0);
    refuse(in("pipe"), NULL, ACCEL_ERR_UNSUPPORTED, "not a regular file");
    assert_int_equal(accel_dataset_open(NULL, NULL, &d), ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_open("", NULL, &d), ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_open_files(hole, 1, NULL, &d),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_open_files(hole, 0, NULL, &d),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_open_files(NULL, 1, NULL, &d),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_open_files(paths, 1, NULL, &d),
                     ACCEL_ERR_NOTFOUND);
    write_array("a.npy", 0, 4);
    const char *path = in("a.npy");
    assert_int_equal(accel_dataset_open(path, ACCEL_DATASET(.format = 99), &d),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_open(path, ACCEL_DATASET(.nfields = 1), &d),
                     ACCEL_ERR_ARG);
    assert_int_equal(
        accel_dataset_open(
            path,
            ACCEL_DATASET(.nfields = 1, .fields = &(accel_field_t){.name = 0}),
            &d),
        ACCEL_ERR_ARG);
    assert_int_equal(
        accel_dataset_open(path, &(accel_dataset_options_t){0}, &d),
        ACCEL_ERR_ARG);
    assert_null(d);
    bytes_t b = {0};
    add_npy(&b, npy_header("<f4", "(2,)"), numbers, 8);
    write_file("b.npy", &b);
    assert_int_equal(accel_dataset_open(in("*.npy"), NULL, &d), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "a.npy and others"));
}

/* More files than are held open, and than many systems let be open. */
static void many_files_are_one_dataset(void **state)
{
    enum { FILES = 300 };
    char name[32];

    (void)state;
    files_clean(NULL);
    for (uint64_t i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "%05d.npy", (int)i);
        write_array(name, i % 50, 2);
    }
    accel_dataset_t *d = open_good(folder, NULL);
    assert_int_equal(accel_dataset_samples(d), 2 * FILES);
    for (uint64_t i = 0; i < 2 * FILES; i++)
        assert_int_equal(at(d, i), i / 2 % 50 + i % 2);
    unlink(in("00299.npy"));
    uint64_t out;
    read_fails(d, (void *[]){&out}, ACCEL_ERR_IO, "00299.npy: cannot be");
    accel_dataset_destroy(d);
}

static void fingerprints_cover_names_and_sizes(void **state)
{
    uint64_t print;

    (void)state;
    files_clean(NULL);
    write_array("a.npy", 0, 4);
    accel_dataset_t *d = open_good(in("a.npy"), NULL);
    print = accel_dataset_fingerprint(d);
    accel_dataset_destroy(d);
    /* contents are not looked at; a folder's name does not count */
    write_array("a.npy", 7, 4);
    d = open_good(in("./a.npy"), NULL);
    assert_int_equal(accel_dataset_fingerprint(d), print);
    accel_dataset_destroy(d);
    assert_int_equal(rename(in("a.npy"), in("b.npy")), 0);
    d = open_good(in("b.npy"), NULL);
    assert_int_not_equal(accel_dataset_fingerprint(d), print);
    accel_dataset_destroy(d);
    write_array("a.npy", 0, 5);
    d = open_good(in("a.npy"), NULL);
    assert_int_not_equal(accel_dataset_fingerprint(d), print);
    accel_dataset_destroy(d);
}

/* ---- files that change ----------------------------------------------------
 */

static void files_that_change_are_errors(void **state)
{
    uint64_t out;
    uint32_t length;
    char text[8];
    bytes_t b = {0};

    (void)state;
    files_clean(NULL);
    write_array("a.npy", 0, 4);
    accel_dataset_t *d = open_good(in("a.npy"), NULL);
    assert_int_equal(truncate(in("a.npy"), 96), 0);
    read_fails(d, (void *[]){&out}, ACCEL_ERR_IO, "a.npy: had ");
    assert_int_equal(truncate(in("a.npy"), 1000), 0);
    read_fails(d, (void *[]){&out}, ACCEL_ERR_IO, "a.npy: had ");
    accel_dataset_destroy(d);

    add_text(&b, "one\ntwo\n");
    d = open_good(write_file("a.txt", &b), NULL);
    assert_int_equal(truncate(in("a.txt"), 5), 0);
    read_fails(d, (void *[]){text, &length}, ACCEL_ERR_IO, "a.txt: had 8");
    accel_dataset_destroy(d);

    add_tar(&b, "0.a", '0', "abc", 3);
    end_tar(&b);
    d = open_good(write_file("a.tar", &b), NULL);
    assert_int_equal(truncate(in("a.tar"), 514), 0);
    read_fails(d, (void *[]){text, &length}, ACCEL_ERR_IO, "a.tar: had");
    accel_dataset_destroy(d);
}

/* The loader names the batch, and the file behind it. */
static void a_loader_passes_the_error_on(void **state)
{
    accel_loader_t *l;
    accel_batch_t batch;

    (void)state;
    write_array("a.npy", 0, 40);
    accel_dataset_t *d = open_good(in("a.npy"), NULL);
    assert_int_equal(accel_loader_create(d, ACCEL_LOADER(.batch_size = 8), &l),
                     ACCEL_OK);
    assert_int_equal(accel_loader_next(l, &batch), ACCEL_OK);
    assert_int_equal(((uint64_t *)batch.data[0])[7], 7);
    assert_int_equal(truncate(in("a.npy"), 200), 0);
    /* what was read ahead may come first */
    accel_status_t st;
    while ((st = accel_loader_next(l, &batch)) == ACCEL_OK)
        assert_true(((uint64_t *)batch.data[0])[0] % 8 == 0);
    assert_true(st == ACCEL_ERR_IO || st == ACCEL_END);
    if (st == ACCEL_END) { /* all was read ahead: the next epoch is not */
        while ((st = accel_loader_next(l, &batch)) == ACCEL_OK)
            ;
        assert_int_equal(st, ACCEL_ERR_IO);
    }
    assert_non_null(strstr(accel_last_error()->text, "a.npy: had"));
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

static void *read_all(void *context)
{
    const accel_dataset_t *d = context;
    uint64_t n = accel_dataset_samples(d), out;

    for (uint64_t i = 0; i < 20 * n; i++) {
        uint64_t k = i * 7 % n;
        if (accel_dataset_read(d, &k, 1, (void *[]){&out}) != ACCEL_OK ||
            out != k % 30)
            return context;
    }
    return NULL;
}

static void threads_read_together(void **state)
{
    pthread_t threads[4];
    void *wrong;

    (void)state;
    files_clean(NULL);
    write_array("a.npy", 0, 30);
    write_array("b.npy", 0, 30);
    accel_dataset_t *d = open_good(folder, NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, d), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    accel_dataset_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_each_other),
        cmocka_unit_test(unlike_parts_are_refused),
        cmocka_unit_test(a_subset_is_what_its_index_says),
        cmocka_unit_test(a_split_shares_nothing),
        cmocka_unit_test(streams_are_not_taken_apart),
        cmocka_unit_test(lists_are_sorted_by_bytes),
        cmocka_unit_test(wrong_paths_are_refused),
        cmocka_unit_test(many_files_are_one_dataset),
        cmocka_unit_test(fingerprints_cover_names_and_sizes),
        cmocka_unit_test(files_that_change_are_errors),
        cmocka_unit_test(a_loader_passes_the_error_on),
        cmocka_unit_test(threads_read_together),
    };

    if (files_setup(NULL) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
