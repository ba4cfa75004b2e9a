/* base: the error record. */
#include "unit/unit.h"

#include "base/base.h"

static void fail_fills_the_record(void **state)
{
    (void)state;
    assert_int_equal(ax_fail(ACCEL_ERR_ARG, "room: %d", 7), ACCEL_ERR_ARG);
    assert_int_equal(accel_last_error()->status, ACCEL_ERR_ARG);
    assert_string_equal(accel_last_error()->text, "room: 7");
    assert_int_equal(accel_last_error()->sys_errno, 0);
}

static void fail_sys_appends_the_reason(void **state)
{
    (void)state;
    ax_fail_sys(ACCEL_ERR_IO, 28, "io: /x");
    assert_string_equal(accel_last_error()->text,
                        "io: /x: No space left on device");
    assert_int_equal(accel_last_error()->sys_errno, 28);
}

static void prefix_keeps_the_cause(void **state)
{
    (void)state;
    ax_fail(ACCEL_ERR_IO, "cause");
    ax_fail_prefix(ACCEL_ERR_IO, "rank %d", 2);
    assert_string_equal(accel_last_error()->text, "rank 2: cause");
}

static void long_texts_are_cut(void **state)
{
    char long_text[2048];

    (void)state;
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    ax_fail(ACCEL_ERR_ARG, "%s", long_text);
    assert_int_equal(strlen(accel_last_error()->text),
                     sizeof accel_last_error()->text - 1);
    ax_fail_prefix(ACCEL_ERR_ARG, "%s", long_text);
}

static void every_status_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(accel_status_name(ACCEL_ERR_PEER), "ACCEL_ERR_PEER");
    assert_string_equal(accel_strerror(ACCEL_END), "no more data");
    assert_string_equal(accel_status_name((accel_status_t)-99), "ACCEL_ERR_?");
    assert_string_equal(accel_strerror((accel_status_t)-99), "unknown status");
}

static void options_are_taken_by_their_size(void **state)
{
    struct {
        size_t size;
        int a, b;
    } got;
    struct {
        size_t size;
        int a, b, c, d;
    } given = {sizeof(size_t) + sizeof(int), 1, 2, 0, 0};

    (void)state;
    assert_int_equal(ax_options_copy(&got, NULL, sizeof got, "M"), ACCEL_OK);
    assert_int_equal(got.size, sizeof got);
    assert_int_equal(got.a, 0);

    assert_int_equal(ax_options_copy(&got, &given, sizeof got, "M"), ACCEL_OK);
    assert_int_equal(got.a, 1);
    assert_int_equal(got.b, 0); /* beyond the given size */

    given.size = sizeof given;
    assert_int_equal(ax_options_copy(&got, &given, sizeof got, "M"), ACCEL_OK);
    assert_int_equal(got.b, 2);
    given.d = 1;
    assert_int_equal(ax_options_copy(&got, &given, sizeof got, "M"),
                     ACCEL_ERR_VERSION);
    given.size = 0;
    assert_int_equal(ax_options_copy(&got, &given, sizeof got, "M"),
                     ACCEL_ERR_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_fills_the_record),
        cmocka_unit_test(fail_sys_appends_the_reason),
        cmocka_unit_test(prefix_keeps_the_cause),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(options_are_taken_by_their_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
