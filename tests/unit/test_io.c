/* base: files. */
#include "unit/unit.h"

#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/accel-io-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int count_files(void)
{
    DIR *d = opendir(dir);
    int n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int remove_dir(void **state)
{
    DIR *d = opendir(dir);
    char path[512];

    (void)state;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
    }
    closedir(d);
    return rmdir(dir);
}

static const char *in_dir(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void a_written_file_is_read_back(void **state)
{
    const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000};
    static char data[100000];
    char *back;
    size_t bytes;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        assert_int_equal(ax_write_file(in_dir("f"), data, sizes[i]), 0);
        assert_int_equal(ax_read_file(in_dir("f"), sizes[i], &back, &bytes), 0);
        assert_int_equal(bytes, sizes[i]);
        assert_memory_equal(back, data, bytes);
        assert_int_equal(back[bytes], 0);
        free(back);
        if (sizes[i] == 0)
            continue;
        assert_int_equal(ax_read_file(in_dir("f"), sizes[i] - 1, &back, &bytes),
                         ACCEL_ERR_IO);
        assert_null(back);
    }
    assert_int_equal(count_files(), 1);
}

static void the_umask_decides_who_may_read(void **state)
{
    struct stat st;
    mode_t old = umask(027);

    (void)state;
    assert_int_equal(ax_write_file(in_dir("f"), "x", 1), ACCEL_OK);
    umask(old);
    assert_int_equal(stat(in_dir("f"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

/* A limit on file sizes stands for a full disk: the write ends half way. */
static int write_limited(void)
{
    static char data[100000];
    struct rlimit limit = {50000, 50000};

    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 2;
    if (ax_write_file(in_dir("f"), data, sizeof data) != ACCEL_ERR_IO)
        return 3;
    if (accel_last_error()->sys_errno != EFBIG)
        return 4;
    return 0;
}

static void a_failed_write_leaves_the_old_file(void **state)
{
    char *back;
    size_t bytes;
    int status;

    (void)state;
    assert_int_equal(ax_write_file(in_dir("f"), "old", 3), ACCEL_OK);
    pid_t pid = fork();
    if (pid == 0)
        _exit(write_limited());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(ax_read_file(in_dir("f"), 10, &back, &bytes), ACCEL_OK);
    assert_string_equal(back, "old");
    free(back);
    assert_int_equal(count_files(), 1);
}

static void errors_name_the_file(void **state)
{
    char *back;
    size_t bytes;

    (void)state;
    assert_int_equal(ax_write_file("/nonexistent/f", "x", 1), ACCEL_ERR_IO);
    assert_non_null(strstr(accel_last_error()->text, "/nonexistent/f"));
    assert_int_equal(accel_last_error()->sys_errno, ENOENT);
    assert_int_equal(ax_read_file("/nonexistent/f", 10, &back, &bytes),
                     ACCEL_ERR_IO);
    assert_int_equal(accel_last_error()->sys_errno, ENOENT);
    assert_int_equal(ax_read_file("/", 10, &back, &bytes), ACCEL_ERR_IO);
    assert_non_null(strstr(accel_last_error()->text, "no regular file"));
    assert_int_equal(ax_fsync_dir("/nonexistent"), ACCEL_ERR_IO);
    assert_int_equal(ax_fsync_dir(dir), ACCEL_OK);
    assert_int_equal(ax_write_file(dir, "x", 1), ACCEL_ERR_IO); /* a folder */
}

static void offsets_and_the_end(void **state)
{
    char got[4];
    int fd = open(in_dir("p"), O_RDWR | O_CREAT, 0600);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ax_pwrite_full(fd, "abcd", 4, 100, "p"), ACCEL_OK);
    assert_int_equal(ax_pread_full(fd, got, 4, 100, "p"), ACCEL_OK);
    assert_memory_equal(got, "abcd", 4);
    assert_int_equal(ax_pread_full(fd, got, 4, 102, "p"), ACCEL_ERR_IO);
    assert_string_equal(accel_last_error()->text,
                        "io: p: ends at byte 104, 2 bytes too early");
    assert_int_equal(ax_pread_full(fd, got, 0, 500, "p"), ACCEL_OK);
    close(fd);
    assert_int_equal(ax_pwrite_full(fd, "x", 1, 0, "p"), ACCEL_ERR_IO);
    assert_int_equal(accel_last_error()->sys_errno, EBADF);
}

/* A pipe takes 64 KiB at a time, and signals interrupt: all comes through. */
static void on_alarm(int signal_number)
{
    (void)signal_number;
}

static void *drain(void *arg)
{
    char buffer[777];
    size_t *total = arg;
    ssize_t n;

    while ((n = read((int)total[1], buffer, sizeof buffer)) != 0)
        if (n > 0)
            total[0] += (size_t)n;
    return NULL;
}

static void short_writes_and_signals(void **state)
{
    struct sigaction action = {.sa_handler = on_alarm};
    static char data[1 << 20];
    size_t total[2];
    pthread_t reader;
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    total[0] = 0;
    total[1] = (size_t)fds[0];
    sigaction(SIGALRM, &action, NULL); /* for good: one may come late */
    ualarm(500, 500);
    assert_int_equal(pthread_create(&reader, NULL, drain, total), 0);
    assert_int_equal(ax_write_full(fds[1], data, sizeof data, "pipe"), 0);
    close(fds[1]);
    pthread_join(reader, NULL);
    ualarm(0, 0);
    close(fds[0]);
    assert_int_equal(total[0], sizeof data);
}

/* The limit as a user sets it; what a program does about the signal, which
 * is to die here, must not change. */
static void a_limit_is_no_signal(void **state)
{
    struct rlimit old, tight;
    struct sigaction after;
    sigset_t pending;
    char path[128], data[8192] = "";

    (void)state;
    snprintf(path, sizeof path, "%s/f", dir);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = (struct rlimit){4096, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    accel_status_t st = ax_write_file(path, data, sizeof data);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    accel_status_t at = ax_pwrite_full(fd, data, 1, 4096, path);
    setrlimit(RLIMIT_FSIZE, &old);
    close(fd);
    assert_int_equal(st, ACCEL_ERR_IO);
    assert_int_equal(at, ACCEL_ERR_IO);
    assert_int_equal(accel_last_error()->sys_errno, EFBIG);
    assert_non_null(strstr(accel_last_error()->text,
                           "/f: writing failed: File too large (see ulimit"));
    sigaction(SIGXFSZ, NULL, &after);
    assert_true(after.sa_handler == SIG_DFL);
    sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGXFSZ), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &pending);
    assert_int_equal(sigismember(&pending, SIGXFSZ), 0);
}

/* One that the program keeps waiting for itself is not taken away. */
static void a_pending_signal_stays(void **state)
{
    const struct timespec now = {0};
    sigset_t only, pending;
    ax_xfsz_t outer, inner;

    (void)state;
    sigemptyset(&only);
    sigaddset(&only, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &only, NULL);
    raise(SIGXFSZ);
    ax_xfsz_begin(&outer);
    ax_xfsz_begin(&inner);
    ax_xfsz_end(&inner);
    ax_xfsz_end(&outer);
    sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGXFSZ), 1);
    assert_int_equal(sigtimedwait(&only, NULL, &now), SIGXFSZ);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
}

static void only_regular_files_are_read(void **state)
{
    char path[128], *data = (char *)1;
    size_t bytes;
    int fd;

    (void)state;
    snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    const char *const paths[] = {path, dir, "/dev/zero"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        assert_int_equal(ax_read_file(paths[i], 99, &data, &bytes),
                         ACCEL_ERR_IO);
        assert_null(data);
        assert_non_null(strstr(accel_last_error()->text, ": no regular file"));
        assert_int_equal(ax_open_regular(paths[i], &fd), ACCEL_ERR_IO);
        assert_int_equal(fd, -1);
    }
    assert_int_equal(ax_read_file("/dev/null", 99, &data, &bytes), ACCEL_OK);
    assert_int_equal(bytes, 0);
    free(data);
}

static void hash_and_clock(void **state)
{
    (void)state;
    /* XXH3 of nothing, as its authors publish it */
    assert_true(ax_hash("", 0, 0) == UINT64_C(0x2d06800538d394c2));
    assert_true(ax_hash("a", 1, 0) != ax_hash("a", 1, 1));
    uint64_t before = ax_now_ns();
    assert_true(ax_now_ns() >= before);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_written_file_is_read_back),
        TEST(the_umask_decides_who_may_read),
        TEST(a_failed_write_leaves_the_old_file),
        TEST(errors_name_the_file),
        TEST(offsets_and_the_end),
        TEST(short_writes_and_signals),
        TEST(a_limit_is_no_signal),
        TEST(a_pending_signal_stays),
        TEST(only_regular_files_are_read),
        TEST(hash_and_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
