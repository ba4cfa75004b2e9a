/* loader: small files kept in memory give the bytes that are in the file. */
#include "unit/files.h"

#include <hdf5.h>
#include <pthread.h>

/* Rows of 60 bytes do not end where blocks of 1 MiB do. */
enum { ROWS = 60000, WIDE = 15, BATCH = 64, THREADS = 4 };

static float (*values)[WIDE];

static const char *write_hdf5(const char *name, hsize_t chunk)
{
    const char *path = in(name);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, (hsize_t[]){ROWS, WIDE}, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    if (chunk)
        H5Pset_chunk(dcpl, 2, (hsize_t[]){chunk, WIDE});
    hid_t id = H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, dcpl,
                          H5P_DEFAULT);
    assert_true(H5Dwrite(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                         values) >= 0);
    H5Dclose(id);
    H5Pclose(dcpl);
    H5Sclose(space);
    assert_true(H5Fclose(file) >= 0);
    return path;
}

static const char *write_npy(const char *name)
{
    bytes_t b = {0};

    add_npy(&b, npy_header("<f4", "(60000, 15)"), values,
            ROWS * sizeof *values);
    return write_file(name, &b);
}

/* As many tokens as there are halves of the values. */
static const char *write_tokens(const char *name)
{
    bytes_t b = {0};

    add_le(&b, 20240520, 4);
    add_le(&b, 1, 4);
    add_le(&b, ROWS * WIDE * 2, 4);
    add_zeros(&b, 1024 - 12);
    add(&b, values, ROWS * sizeof *values);
    return write_file(name, &b);
}

/* Bytes of one sample of the field, and from one to the next. */
static const struct layout {
    const char *name;
    hsize_t chunk;
    size_t bytes, step;
} layouts[] = {{"a.h5", 0, 60, 60},
               {"b.h5", 700, 60, 60},
               {"a.npy", 0, 60, 60},
               {"a.bin", 0, 62, 60}};

static const char *write_layout(const struct layout *l)
{
    if (strstr(l->name, ".h5"))
        return write_hdf5(l->name, l->chunk);
    return strstr(l->name, ".npy") ? write_npy(l->name) : write_tokens(l->name);
}

static accel_dataset_t *open_cached(const struct layout *l, size_t cache)
{
    bool tokens = strstr(l->name, ".bin");

    return open_good(in(l->name), ACCEL_DATASET(.window = tokens ? 30 : 0,
                                                .cache_bytes = cache));
}

static uint64_t shuffled(uint64_t i, uint64_t samples)
{
    return i * 48271 % samples;
}

/* The number of samples that are not as they were written, or failed. */
static size_t count_wrong(const accel_dataset_t *d, const struct layout *l,
                          uint64_t from)
{
    char out[BATCH * 64];
    uint64_t index[BATCH], samples = accel_dataset_samples(d);
    size_t wrong = 0;

    for (uint64_t i = 0; i < samples; i += BATCH) {
        for (uint64_t k = 0; k < BATCH; k++)
            index[k] = shuffled(from + i + k, samples);
        if (accel_dataset_read(d, index, BATCH, (void *[]){out}) != ACCEL_OK)
            return SIZE_MAX;
        for (uint64_t k = 0; k < BATCH; k++)
            wrong += memcmp(out + k * l->bytes,
                            (char *)values + index[k] * l->step, l->bytes) != 0;
    }
    return wrong;
}

/* The default, none, too little, and exactly what the files have or less. */
static void bytes_are_equal_with_and_without(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
        const size_t sizes[] = {ACCEL_DEFAULT_INT, 0, 1, 4 << 20, SIZE_MAX};
        write_layout(&layouts[i]);
        for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
            accel_dataset_t *d = open_cached(&layouts[i], sizes[s]);
            assert_int_equal(count_wrong(d, &layouts[i], 0), 0);
            assert_int_equal(
                accel_dataset_read(d, (uint64_t[]){accel_dataset_samples(d)}, 1,
                                   (void *[]){&(char[64]){0}}),
                ACCEL_ERR_ARG);
            accel_dataset_destroy(d);
        }
    }
}

typedef struct reader {
    const accel_dataset_t *set;
    const struct layout *layout;
    uint64_t from;
    size_t wrong;
} reader_t;

static void *read_all(void *argument)
{
    reader_t *r = argument;

    r->wrong = count_wrong(r->set, r->layout, r->from);
    return NULL;
}

static void threads_share_the_blocks(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
        reader_t readers[THREADS];
        pthread_t threads[THREADS];
        write_layout(&layouts[i]);
        accel_dataset_t *d = open_cached(&layouts[i], ACCEL_DEFAULT_INT);
        for (size_t t = 0; t < THREADS; t++) {
            readers[t] = (reader_t){d, &layouts[i], t / 2 * 999, 0};
            assert_int_equal(
                pthread_create(&threads[t], NULL, read_all, &readers[t]), 0);
        }
        for (size_t t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
        for (size_t t = 0; t < THREADS; t++)
            assert_int_equal(readers[t].wrong, 0);
        accel_dataset_destroy(d);
    }
}

/* Bytes of the file change in place, which a cache alone does not see: what
 * tells whether there is one. */
static bool is_cached(const char *const *paths, size_t n, size_t cache)
{
    accel_dataset_t *d;
    float before[WIDE], after[WIDE];
    void *to[] = {before};

    assert_int_equal(accel_dataset_open_files(
                         paths, n, ACCEL_DATASET(.cache_bytes = cache), &d),
                     ACCEL_OK);
    assert_int_equal(accel_dataset_read(d, (uint64_t[]){7}, 1, to), ACCEL_OK);
    FILE *f = fopen(paths[0], "r+");
    assert_non_null(f);
    for (size_t i = 0; i < WIDE; i++)
        before[i]++;
    fseek(f, -(long)((ROWS - 7) * sizeof *values), SEEK_END);
    assert_int_equal(fwrite(before, sizeof before, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    to[0] = after;
    assert_int_equal(accel_dataset_read(d, (uint64_t[]){7}, 1, to), ACCEL_OK);
    accel_dataset_destroy(d);
    return memcmp(before, after, sizeof after) != 0;
}

static size_t size_of(const char *path)
{
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long bytes = ftell(f);
    fclose(f);
    return (size_t)bytes;
}

static void limits_are_of_all_files_together(void **state)
{
    const char *two[] = {write_npy("a.npy"), write_npy("b.npy")};
    size_t one = size_of(two[0]);

    (void)state;
    assert_true(is_cached(two, 1, ACCEL_DEFAULT_INT));
    assert_true(is_cached(two, 1, one));
    assert_true(is_cached(two, 2, SIZE_MAX));
    assert_false(is_cached(two, 1, one - 1));
    assert_false(is_cached(two, 1, 0));
    assert_true(is_cached(two, 2, 2 * one));
    assert_false(is_cached(two, 2, 2 * one - 1));
}

static void expect_changed(const accel_dataset_t *d, const char *name,
                           uint64_t sample)
{
    char out[64];

    assert_int_equal(accel_dataset_read(d, &sample, 1, (void *[]){out}),
                     ACCEL_ERR_IO);
    if (!strstr(accel_last_error()->text, name))
        fail_msg("%s is not named: %s", name, accel_last_error()->text);
}

/* Also samples that are in memory already, and the part that is left. */
static void changed_files_are_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
        const char *path = write_layout(&layouts[i]);
        long whole = (long)size_of(path);
        char out[64];
        accel_dataset_t *d = open_cached(&layouts[i], ACCEL_DEFAULT_INT);

        assert_int_equal(
            accel_dataset_read(d, (uint64_t[]){5}, 1, (void *[]){out}),
            ACCEL_OK);
        for (long more = -(2 << 20); more <= 1; more += (2 << 20) + 1) {
            assert_int_equal(truncate(path, whole + more), 0);
            expect_changed(d, layouts[i].name, 5);
            expect_changed(d, layouts[i].name, ROWS - 9);
        }
        accel_dataset_destroy(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_equal_with_and_without),
        cmocka_unit_test(threads_share_the_blocks),
        cmocka_unit_test(limits_are_of_all_files_together),
        cmocka_unit_test(changed_files_are_errors),
    };

    values = malloc(ROWS * sizeof *values);
    if (!values)
        return 1;
    for (size_t i = 0; i < ROWS * WIDE; i++)
        ((float *)values)[i] = (float)i;
    int failed = cmocka_run_group_tests(tests, files_setup, files_teardown);
    free(values);
    return failed;
}
