/*
 * minimal: what everybody copies. The program of the README as it stands,
 * but with data that cannot be read: it must end, and say why.
 */
#include "unit/unit.h"

#include <accel.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int calls;

static int refuse(void *context, const uint64_t *index, size_t count,
                  void *const *fields)
{
    (void)context;
    (void)index;
    (void)count;
    (void)fields;
    calls++;
    return 5; /* EIO */
}

int minimal_main(void);

#define main minimal_main
#define accel_dataset_from_memory(fields, data, nfields, samples, out)         \
    accel_dataset_from_callback(fields, ((void)(data), nfields), samples,      \
                                refuse, NULL, out)
#include "examples/minimal.c"
#undef main

static void an_error_of_the_data_ends_it(void **state)
{
    char text[1024] = "";
    FILE *caught = tmpfile();
    int kept = dup(STDERR_FILENO);

    (void)state;
    assert_non_null(caught);
    assert_true(kept >= 0);
    fflush(stderr);
    assert_int_equal(dup2(fileno(caught), STDERR_FILENO), STDERR_FILENO);
    int status = minimal_main();
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(caught);
    size_t length = fread(text, 1, sizeof text - 1, caught);
    fclose(caught);
    text[length] = '\0';

    assert_int_not_equal(status, 0);
    assert_non_null(strstr(text, "minimal: "));
    assert_non_null(strstr(text, "Input/output error"));
    assert_int_equal(calls, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_of_the_data_ends_it),
    };

    alarm(120); /* what this is about is a program that never ends */
    return cmocka_run_group_tests_name("minimal", tests, NULL, NULL);
}
