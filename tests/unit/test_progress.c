/* train: a bar on a terminal, lines in a log. */
#include "unit/unit.h"

#include <accel/progress.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* All that came out of `fd`, as text. */
static void all_of(int fd, char *text, size_t room)
{
    size_t n = 0;
    ssize_t got;

    fcntl(fd, F_SETFL, O_NONBLOCK);
    while ((got = read(fd, text + n, room - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
}

static size_t lines_of(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void a_log_gets_plain_lines(void **state)
{
    accel_progress_t *p;
    char text[4096];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(
        accel_progress_create(NULL,
                              ACCEL_PROGRESS(.title = "epoch 1", .total = 8,
                                             .interval = 1e-9, .fd = ends[1]),
                              &p),
        ACCEL_OK);
    accel_progress_set(p, 1, "loss %.2f", 0.5);
    accel_progress_add(p, 1);
    accel_progress_destroy(p);
    all_of(ends[0], text, sizeof text);
    assert_int_equal(lines_of(text), 3);
    assert_int_equal(strncmp(text, "epoch 1 1/8 12%, ", 17), 0);
    assert_non_null(strstr(text, "/s, "));
    assert_non_null(strstr(text, " left, loss 0.50\n"));
    assert_non_null(strstr(text, "\nepoch 1 2/8 25%"));
    assert_null(strpbrk(text, "\r\033="));
    close(ends[0]);
    close(ends[1]);
}

static void a_short_loop_says_nothing_in_a_log(void **state)
{
    accel_progress_t *p;
    char text[4096];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(accel_progress_create(
                         NULL, ACCEL_PROGRESS(.total = 3, .fd = ends[1]), &p),
                     ACCEL_OK);
    for (int i = 0; i < 3; i++)
        accel_progress_add(p, 1);
    accel_progress_destroy(p);
    all_of(ends[0], text, sizeof text);
    assert_string_equal(text, "");
    close(ends[0]);
    close(ends[1]);
}

static void a_terminal_gets_a_bar(void **state)
{
    struct winsize size = {.ws_row = 24, .ws_col = 60};
    accel_progress_t *p;
    char text[4096];
    int master, slave;

    (void)state;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
    assert_int_equal(
        accel_progress_create(NULL,
                              ACCEL_PROGRESS(.title = "epoch 2", .total = 4,
                                             .first = 2, .fd = slave),
                              &p),
        ACCEL_OK);
    accel_progress_set(p, 3,
                       "a note that is too long for the terminal's width");
    accel_progress_destroy(p);
    all_of(master, text, sizeof text);
    assert_int_equal(strncmp(text, "\repoch 2 [======================    ", 36),
                     0);
    assert_non_null(strstr(text, "] 3/4 75%, "));
    assert_null(strstr(text, "width"));
    assert_null(strchr(text, '\n'));
    assert_string_equal(text + strlen(text) - 4, "\r\033[K");
    close(master);
    close(slave);
}

static void an_unknown_total_has_no_bar(void **state)
{
    accel_progress_t *p;
    char text[4096];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(
        accel_progress_create(
            NULL, ACCEL_PROGRESS(.interval = 1e-9, .fd = ends[1]), &p),
        ACCEL_OK);
    accel_progress_add(p, 7);
    accel_progress_set(p, 9, NULL);
    accel_progress_destroy(p);
    all_of(ends[0], text, sizeof text);
    assert_int_equal(strncmp(text, "7, ", 3), 0);
    assert_null(strchr(text, '%'));
    assert_null(strstr(text, "left"));
    close(ends[0]);
    close(ends[1]);
}

/* Not even a reader that is gone stops the loop. */
static void wrong_uses_are_harmless(void **state)
{
    accel_progress_t *p;

    (void)state;
    accel_progress_add(NULL, 1);
    accel_progress_set(NULL, 1, NULL);
    accel_progress_destroy(NULL);
    assert_int_equal(
        accel_progress_create(NULL, ACCEL_PROGRESS(.title = "a\033[2J"), &p),
        ACCEL_ERR_ARG);
    assert_null(p);
    assert_int_equal(
        accel_progress_create(NULL, ACCEL_PROGRESS(.interval = -1), &p),
        ACCEL_ERR_ARG);
    assert_int_equal(
        accel_progress_create(NULL,
                              ACCEL_PROGRESS(.interval = 1e-9, .fd = 9999), &p),
        ACCEL_OK);
    accel_progress_add(p, 1);
    accel_progress_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_gets_plain_lines),
        cmocka_unit_test(a_short_loop_says_nothing_in_a_log),
        cmocka_unit_test(a_terminal_gets_a_bar),
        cmocka_unit_test(an_unknown_total_has_no_bar),
        cmocka_unit_test(wrong_uses_are_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
