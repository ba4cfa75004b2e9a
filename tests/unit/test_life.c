/* life: the end of another process is noticed, and nothing else is. */
#include "unit/unit.h"

#include "net/life.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 60 /* s; what is waited for comes at once */

static void nap(void)
{
    struct timespec ts = {.tv_nsec = 2000000};

    nanosleep(&ts, NULL);
}

static time_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

/* Two in one process, 0 and 1, that watch each other. */
static void join(ax_life_t **life)
{
    ax_life_address_t address[2];
    time_t end = now() + PATIENCE;

    for (int k = 0; k < 2; k++) {
        life[k] = ax_life_create(k, 2);
        assert_non_null(life[k]);
        ax_life_address(life[k], &address[k]);
    }
    for (int k = 0; k < 2; k++)
        ax_life_watch(life[k], 1 - k, &address[1 - k]);
    while (!ax_life_watched(life[0], 1) || !ax_life_watched(life[1], 0)) {
        ax_life_poll(life[0]);
        ax_life_poll(life[1]);
        assert_true(now() < end);
    }
}

static const char *wait_for_end(ax_life_t *life, int peer)
{
    time_t end = now() + PATIENCE;

    while (!ax_life_ended(life, peer)) {
        ax_life_poll(life);
        assert_true(now() < end);
        nap();
    }
    return ax_life_ended(life, peer);
}

static void who_lives_is_not_said_to_have_ended(void **state)
{
    ax_life_t *life[2];

    (void)state;
    join(life);
    for (int i = 0; i < 50; i++) {
        ax_life_poll(life[0]);
        ax_life_poll(life[1]);
        assert_null(ax_life_ended(life[0], 1));
        assert_null(ax_life_ended(life[1], 0));
        assert_null(ax_life_ended(life[0], 0));
    }
    ax_life_destroy(life[0]);
    ax_life_destroy(life[1]);
    ax_life_destroy(NULL);
}

static void each_side_notices_the_others_end(void **state)
{
    ax_life_t *life[2];

    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        join(life);
        ax_life_destroy(life[gone]);
        assert_string_equal(wait_for_end(life[1 - gone], gone),
                            "its process has ended");
        assert_false(ax_life_left(life[1 - gone], gone));
        assert_false(ax_life_watched(life[1 - gone], gone));
        ax_life_destroy(life[1 - gone]);
    }
}

static void who_leaves_says_so(void **state)
{
    ax_life_t *life[2];

    (void)state;
    join(life);
    ax_life_leave(life[1]);
    ax_life_poll(life[1]); /* does no harm */
    assert_non_null(strstr(wait_for_end(life[0], 1), "left"));
    assert_true(ax_life_left(life[0], 1));
    assert_null(ax_life_ended(life[1], 0));
    ax_life_destroy(life[0]);
    ax_life_destroy(life[1]);
}

/* A process that ends before it ever looked whether somebody calls. */
static void one_that_never_answered_is_noticed_too(void **state)
{
    ax_life_t *life[2];
    ax_life_address_t address;

    (void)state;
    for (int k = 0; k < 2; k++)
        life[k] = ax_life_create(k, 2);
    ax_life_address(life[1], &address);
    ax_life_watch(life[0], 1, &address);
    for (int i = 0; i < 20; i++) {
        ax_life_poll(life[0]);
        nap();
    }
    assert_null(ax_life_ended(life[0], 1));
    ax_life_destroy(life[1]);
    assert_string_equal(wait_for_end(life[0], 1), "its process has ended");
    ax_life_destroy(life[0]);
}

static void a_killed_process_is_noticed_though_its_child_lives(void **state)
{
    ax_life_address_t mine, its;
    ax_life_t *life = ax_life_create(0, 2);
    int tell[2], hold[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(tell), 0);
    assert_int_equal(pipe(hold), 0);
    ax_life_address(life, &mine);
    pid_t child = fork();
    if (child == 0) {
        ax_life_t *other = ax_life_create(1, 2);
        ax_life_address(other, &its);
        ax_life_watch(other, 0, &mine);
        if (write(tell[1], &its, sizeof its) != (ssize_t)sizeof its)
            _exit(1);
        while (!ax_life_watched(other, 0))
            ax_life_poll(other);
        if (fork() == 0) { /* holds what its parent had, but the line */
            close(hold[1]);
            _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
        }
        if (write(tell[1], "", 1) != 1)
            _exit(1);
        raise(SIGKILL);
    }
    close(tell[1]);
    assert_int_equal(read(tell[0], &its, sizeof its), sizeof its);
    ax_life_watch(life, 1, &its);
    while (!ax_life_watched(life, 1))
        ax_life_poll(life);
    assert_int_equal(read(tell[0], &byte, 1), 1);
    assert_string_equal(wait_for_end(life, 1), "its process has ended");
    close(hold[1]); /* the grandchild ends only now */
    close(hold[0]);
    close(tell[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    ax_life_destroy(life);
}

/* What is said to the listener of peer 1 by somebody who is not peer 0. */
static int intrude(const ax_life_address_t *address, const void *words,
                   size_t bytes)
{
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons(address->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    if (bytes)
        assert_int_equal(send(fd, words, bytes, MSG_NOSIGNAL), bytes);
    return fd;
}

static void strangers_are_turned_away(void **state)
{
    struct {
        uint32_t magic;
        int32_t who;
        uint64_t nonce;
    } hello = {.magic = 0x4143484cu};
    ax_life_t *life = ax_life_create(1, 3);
    ax_life_address_t address;
    time_t end = now() + PATIENCE;
    char byte;
    int fd[5];

    (void)state;
    ax_life_address(life, &address);
    assert_true(address.port != 0 && address.places > 0);
    hello.nonce = address.nonce ^ 1;
    fd[0] = intrude(&address, &hello, sizeof hello); /* does not know it */
    hello.nonce = address.nonce;
    hello.who = 2; /* would have to be called, and does not call */
    fd[1] = intrude(&address, &hello, sizeof hello);
    hello.who = -1;
    fd[2] = intrude(&address, &hello, sizeof hello);
    fd[3] = intrude(&address, "GET / HTTP/1.0\r\n\r\n", 18);
    hello.who = 0;
    hello.magic++;
    fd[4] = intrude(&address, &hello, sizeof hello);
    for (int i = 0; i < 5; i++) {
        while (recv(fd[i], &byte, 1, MSG_DONTWAIT) != 0) {
            if (errno == ECONNRESET)
                break;
            ax_life_poll(life);
            assert_true(now() < end);
        }
        close(fd[i]);
    }
    /* and the right one still gets in */
    hello.magic--;
    fd[0] = intrude(&address, &hello, sizeof hello);
    while (recv(fd[0], &byte, 1, MSG_DONTWAIT) != 1) {
        ax_life_poll(life);
        assert_true(now() < end);
    }
    assert_true(ax_life_watched(life, 0));
    close(fd[0]);
    ax_life_destroy(life);
}

/* Nobody there, no address, an address of nowhere: nothing is known. */
static void who_cannot_be_called_is_not_said_to_have_ended(void **state)
{
    ax_life_t *life = ax_life_create(0, 4);
    ax_life_t *gone = ax_life_create(1, 4);
    ax_life_address_t address, none = {0}, wild;

    (void)state;
    ax_life_address(gone, &address);
    ax_life_destroy(gone);
    wild = address;
    wild.places = UINT16_MAX;
    ax_life_watch(life, 1, &address);
    ax_life_watch(life, 2, &none);
    ax_life_watch(life, 3, &wild);
    ax_life_watch(life, 0, &address); /* oneself */
    for (int i = 0; i < 50; i++) {
        ax_life_poll(life);
        nap();
    }
    for (int k = 0; k < 4; k++) {
        assert_null(ax_life_ended(life, k));
        assert_false(ax_life_watched(life, k));
    }
    ax_life_destroy(life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_lives_is_not_said_to_have_ended),
        cmocka_unit_test(each_side_notices_the_others_end),
        cmocka_unit_test(who_leaves_says_so),
        cmocka_unit_test(one_that_never_answered_is_noticed_too),
        cmocka_unit_test(a_killed_process_is_noticed_though_its_child_lives),
        cmocka_unit_test(strangers_are_turned_away),
        cmocka_unit_test(who_cannot_be_called_is_not_said_to_have_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
