/* loader: HDF5 from several threads, and beside others who use the library. */
#include "unit/hdf5_rig.h"

#include "ckpt/h5.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static void *read_some(void *context)
{
    const accel_dataset_t *d = context;
    float x[WIDE];
    uint8_t y;

    for (uint64_t i = 0; i < 400; i++) {
        uint64_t k = i * 11 % ROWS;
        if (accel_dataset_read(d, &k, 1, (void *[]){x, &y}) != ACCEL_OK ||
            memcmp(x, values[k], sizeof x) != 0 || y != labels[k])
            return context;
    }
    return NULL;
}

static void threads_read_each_layout(void **state)
{
    pthread_t threads[3];
    void *wrong;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        accel_dataset_t *d = open_good(write_values("a.h5", &ways[i]), NULL);
        for (int t = 0; t < 3; t++)
            pthread_create(&threads[t], NULL, read_some, d);
        for (int t = 0; t < 3; t++) {
            pthread_join(threads[t], &wrong);
            assert_null(wrong);
        }
        accel_dataset_destroy(d);
    }
}

/* ---- one at a time in the library -----------------------------------------
 */

static const how_t packed = {.chunk = {7, WIDE}, .deflate = true};

/* What calls the library, in its own thread; `done` when it is through. */
typedef struct caller {
    void (*call)(void);
    const accel_dataset_t *data; /* opened already */
    const char *path;
    atomic_bool done;
} caller_t;

static caller_t caller;

static void call_open(void)
{
    accel_dataset_destroy(open_good(caller.path, NULL));
}

static void call_read(void)
{
    assert_null(read_some((void *)caller.data));
}

static void call_write(void)
{
    const char *path = in("shard.h5");
    ax_h5_t h5;

    assert_int_equal(ax_h5_create(&h5, path), ACCEL_OK);
    accel_status_t st = ax_h5_put_text(&h5, h5.file, "format", "mine");
    assert_int_equal(ax_h5_close(&h5, st), ACCEL_OK);
    assert_int_equal(ax_h5_create(&h5, "/nowhere/x"), ACCEL_ERR_IO);
    assert_int_equal(unlink(path), 0);
}

static void *run_caller(void *context)
{
    (void)context;
    caller.call();
    caller.done = true;
    return NULL;
}

/* Whoever calls the library, of whatever room, waits for who is in there. */
static void one_thread_is_in_the_library(void **state)
{
    static void (*const calls[])(void) = {call_open, call_read, call_write};
    struct timespec nap = {.tv_nsec = 1000000};
    accel_dataset_t *d;
    ax_hdf5_visit_t visit;
    pthread_t thread;

    (void)state;
    caller.path = write_values("a.h5", &packed);
    caller.data = d = open_good(caller.path, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        caller.call = calls[i];
        caller.done = false;
        ax_hdf5_enter(&visit);
        pthread_create(&thread, NULL, run_caller, NULL);
        for (int k = 0; k < 100; k++) {
            nanosleep(&nap, NULL);
            assert_false(caller.done);
        }
        ax_hdf5_leave(&visit);
        pthread_join(thread, NULL);
        assert_true(caller.done);
    }
    accel_dataset_destroy(d);
}

/* Without that this crashes, where the library is not built for threads. */
static void checkpoints_are_written_meanwhile(void **state)
{
    accel_dataset_t *d = open_good(write_values("a.h5", &packed), NULL);
    pthread_t threads[2];
    void *wrong;

    (void)state;
    for (int t = 0; t < 2; t++)
        pthread_create(&threads[t], NULL, read_some, d);
    for (int i = 0; i < 200; i++)
        call_write();
    for (int t = 0; t < 2; t++) {
        pthread_join(threads[t], &wrong);
        assert_null(wrong);
    }
    accel_dataset_destroy(d);
}

static herr_t own_printer(hid_t stack, void *context)
{
    (void)stack;
    ++*(int *)context;
    return 0;
}

/* What a program has set in the library is left as it is. */
static void the_programs_settings_stay(void **state)
{
    const char *good = write_values("a.h5", &packed);
    unsigned before = 5, after;
    H5E_auto2_t printer, was;
    void *context, *was_context;
    int printed = 0;
    float x[WIDE];
    uint8_t y;

    (void)state;
    H5Eget_auto2(H5E_DEFAULT, &was, &was_context);
    H5Eset_auto2(H5E_DEFAULT, own_printer, &printed);
    H5PLset_loading_state(before);
    accel_dataset_t *d = open_good(good, NULL);
    uint64_t first = 0;
    assert_int_equal(accel_dataset_read(d, &first, 1, (void *[]){x, &y}),
                     ACCEL_OK);
    accel_dataset_destroy(d);
    bytes_t b = {0};
    add(&b, "\x89HDF\r\n\x1a\n", 8);
    add_zeros(&b, 100);
    refuse(write_file("bad.h5", &b), NULL, ACCEL_ERR_CORRUPT,
           "not an HDF5 file");
    H5Eget_auto2(H5E_DEFAULT, &printer, &context);
    H5PLget_loading_state(&after);
    assert_true(printer == own_printer && context == &printed);
    assert_int_equal(after, before);
    assert_int_equal(printed, 0);
    H5Eset_auto2(H5E_DEFAULT, was, was_context);
    H5PLset_loading_state(~0U);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_read_each_layout),
        cmocka_unit_test(one_thread_is_in_the_library),
        cmocka_unit_test(checkpoints_are_written_meanwhile),
        cmocka_unit_test(the_programs_settings_stay),
    };

    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
