/* base: the error record. */
#include "unit/unit.h"

#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

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
    assert_int_equal(strlen(accel_last_error()->text),
                     sizeof accel_last_error()->text - 1);
}

static void appended_texts_are_cut(void **state)
{
    char text[8] = "";

    (void)state;
    ax_append(text, sizeof text, "%s %d", "ab", 1);
    assert_string_equal(text, "ab 1");
    ax_append(text, sizeof text, ", %d", 234);
    assert_string_equal(text, "ab 1, 2");
    ax_append(text, sizeof text, "more");
    assert_string_equal(text, "ab 1, 2");
}

static void texts_are_clean(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ""},
        {"plain \xc3\xa9 \xe2\x82\xac", "plain \xc3\xa9 \xe2\x82\xac"},
        {"\x1b[31m", "\\x1B[31m"},
        {"a\nb\tc\x7f", "a\\x0Ab\\x09c\\x7F"},
        {"\xc2\x9b"
         "2J\xc2\xa0",
         "\\xC2\\x9B2J\xc2\xa0"},
        {"\xc2", "\xc2"},
        {"1234567890123456789012\x1b", "1234567890123456789012"},
        {"12345678901\x1b"
         "90123456789",
         "12345678901\\x1B90123456"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[24];
        snprintf(text, sizeof text, "%s", cases[i].text);
        ax_clean(text, sizeof text);
        assert_string_equal(text, cases[i].want);
    }
    ax_fail(ACCEL_ERR_IO, "file %s", "\x1b]0;x\a");
    assert_string_equal(accel_last_error()->text, "file \\x1B]0;x\\x07");
    ax_fail_prefix(ACCEL_ERR_IO, "%s", "\r");
    assert_string_equal(accel_last_error()->text, "\\x0D: file \\x1B]0;x\\x07");
    ax_fail_sys(ACCEL_ERR_IO, ENOENT, "\n");
    assert_string_equal(accel_last_error()->text,
                        "\\x0A: No such file or directory");
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
    } got = {0, 8, 9};
    struct {
        size_t size;
        int a, b, c, d;
    } given = {sizeof(size_t) + sizeof(int), 1, 2, 0, 0};

    (void)state;
    assert_int_equal(ax_options_copy(&got, NULL, sizeof got, "M"), ACCEL_OK);
    assert_int_equal(got.size, sizeof got);
    assert_int_equal(got.a, 8);

    assert_int_equal(ax_options_copy(&got, &given, sizeof got, "M"), ACCEL_OK);
    assert_int_equal(got.a, 1);
    assert_int_equal(got.b, 9); /* beyond the given size: the default */

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

/* ---- a program that ends at the first error -------------------------------
 */

/* What a child with this status prints and how it ends. */
static int ended(accel_status_t status, char *text, size_t room)
{
    int fds[2], how;
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(fds[1], STDERR_FILENO);
        if (status < 0)
            ax_fail(status, "train: nothing works");
        _exit(ACCEL_CHECK(status) == status ? 7 : 8);
    }
    close(fds[1]);
    ssize_t got = read(fds[0], text, room - 1);
    text[got > 0 ? got : 0] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static void a_check_ends_the_program_with_the_text(void **state)
{
    char text[512];

    (void)state;
    assert_int_equal(ended(ACCEL_ERR_ARG, text, sizeof text), 1);
    assert_non_null(strstr(text, "test_base.c:"));
    assert_non_null(strstr(text, ": train: nothing works\n"));
    assert_int_equal(ended(ACCEL_OK, text, sizeof text), 7);
    assert_int_equal(ended(ACCEL_END, text, sizeof text), 7);
    assert_string_equal(text, "");
}

/* ---- log ----------------------------------------------------------------- */

/* What one line at `level` puts on standard error. */
static void logged(ax_level_t level, const char *text, char *out, size_t room)
{
    int keep = dup(STDERR_FILENO), fds[2];

    assert_int_equal(pipe(fds), 0);
    dup2(fds[1], STDERR_FILENO);
    ax_log(level, "%s", text);
    dup2(keep, STDERR_FILENO);
    close(keep);
    close(fds[1]);
    ssize_t n = read(fds[0], out, room - 1);
    out[n > 0 ? n : 0] = '\0';
    close(fds[0]);
}

static void lines_name_rank_and_level(void **state)
{
    char out[2048];

    (void)state;
    logged(AX_LOG_WARN, "mind", out, sizeof out);
    assert_string_equal(out, "accel: warning: mind\n");
    logged(AX_LOG_INFO, "hidden", out, sizeof out);
    assert_string_equal(out, "");
    ax_log_setup(AX_LOG_DEBUG, 2, "n3");
    logged(AX_LOG_DEBUG, "seen", out, sizeof out);
    assert_string_equal(out, "accel: rank 2 on n3: debug: seen\n");
    ax_log_setup(AX_LOG_ERROR, 2, NULL);
    logged(AX_LOG_WARN, "hidden", out, sizeof out);
    assert_string_equal(out, "");
    ax_log_setup(AX_LOG_WARN, -1, NULL);
}

static void long_lines_are_cut_and_end(void **state)
{
    char text[4096], out[4096];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    logged(AX_LOG_ERROR, text, out, sizeof out);
    size_t n = strlen(out);
    assert_true(n > 1000 && n <= 1024);
    assert_int_equal(out[n - 1], '\n');
    assert_null(memchr(out, '\n', n - 1));
}

/* Nobody listens: the program goes on. */
static void a_closed_standard_error_is_no_error(void **state)
{
    int keep = dup(STDERR_FILENO);

    (void)state;
    close(STDERR_FILENO);
    ax_log(AX_LOG_ERROR, "into nothing");
    dup2(keep, STDERR_FILENO);
    close(keep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_fills_the_record),
        cmocka_unit_test(fail_sys_appends_the_reason),
        cmocka_unit_test(prefix_keeps_the_cause),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(appended_texts_are_cut),
        cmocka_unit_test(texts_are_clean),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(lines_name_rank_and_level),
        cmocka_unit_test(long_lines_are_cut_and_end),
        cmocka_unit_test(a_closed_standard_error_is_no_error),
        cmocka_unit_test(options_are_taken_by_their_size),
        cmocka_unit_test(a_check_ends_the_program_with_the_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
