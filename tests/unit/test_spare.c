/* What a transport asks for before it begins: threads and files. */
#include "unit/unit.h"

#include "net/spare.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static void threads_leave_nothing(void **state)
{
    sigset_t before, after;
    int error = 7;

    (void)state;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    for (int count = 0; count < 20; count++) {
        assert_true(ax_spare_threads(count, &error));
        assert_int_equal(error, 0);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < SIGRTMIN; s++)
        assert_int_equal(sigismember(&before, s), sigismember(&after, s));
}

static int failed;

static void *ask(void *unused)
{
    int error;

    for (int i = 0; i < 20; i++)
        if (!ax_spare_threads(3, &error))
            return &failed;
    return unused;
}

static void from_several_threads(void **state)
{
    pthread_t threads[4];
    void *out;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &out), 0);
        assert_null(out);
    }
}

static void files_are_counted(void **state)
{
    struct rlimit kept, low;
    unsigned long long limit;
    int used, next = open("/dev/null", O_RDONLY);

    (void)state;
    assert_true(next >= 0);
    close(next);
    assert_true(ax_spare_files(1, &used, &limit));
    assert_int_equal(used, next);
    getrlimit(RLIMIT_NOFILE, &kept);
    low = kept;
    low.rlim_cur = (rlim_t)next + 5;
    setrlimit(RLIMIT_NOFILE, &low);
    assert_true(ax_spare_files(5, &used, &limit));
    assert_int_equal(limit, next + 5);
    assert_false(ax_spare_files(6, &used, &limit));
    assert_int_equal(used, next);
    /* not one is left */
    low.rlim_cur = (rlim_t)next;
    setrlimit(RLIMIT_NOFILE, &low);
    assert_false(ax_spare_files(1, &used, &limit));
    assert_int_equal(used, next);
    setrlimit(RLIMIT_NOFILE, &kept);
    assert_true(ax_spare_files(1, &used, &limit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_leave_nothing),
        cmocka_unit_test(from_several_threads),
        cmocka_unit_test(files_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
