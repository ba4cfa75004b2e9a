/* stop: signals and the end of the job, and that the program's own handlers go
 * on working. */
#include "unit/train_rig.h"

#include "train/train_priv.h"
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The library's clocks, which a test may set forward, in seconds. */
static time_t steps_ahead, wall_ahead;

int clock_gettime(clockid_t id, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, id, now);

    if (rc == 0)
        now->tv_sec += id == CLOCK_MONOTONIC ? steps_ahead : wall_ahead;
    return rc;
}

time_t time(time_t *out)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

static volatile sig_atomic_t own_calls;
static volatile sig_atomic_t own_pid;

static void own_handler(int signal)
{
    (void)signal;
    own_calls++;
}

static void own_action(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    own_calls++;
    own_pid = info->si_pid;
}

static const struct {
    const char *spec;
    int signal;
    bool stops;
} signal_cases[] = {
    {"no", SIGTERM, true},          {"no", SIGUSR2, true},
    {"signal=URG", SIGURG, true},   {"signal=URG", SIGTERM, true},
    {"signal=TERM", SIGTERM, true}, {"signal=URG", SIGCHLD, false},
};

static void a_signal_stops_after_the_next_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(signal_cases); i++) {
        rig_t rig;
        rig_open(&rig, &(rig_options_t){.spec = signal_cases[i].spec});
        OK(accel_set_accumulate(rig.accel, 2));
        raise(signal_cases[i].signal);
        assert_false(accel_should_stop(rig.accel));
        rig_train(&rig, 1); /* no step yet */
        assert_false(accel_should_stop(rig.accel));
        rig_train(&rig, 1);
        assert_int_equal(accel_should_stop(rig.accel), signal_cases[i].stops);
        rig_train(&rig, 1);
        assert_int_equal(accel_should_stop(rig.accel), signal_cases[i].stops);
        rig_close(&rig);
    }
}

/* A stop of one accelerator is no stop of the next one. */
static void stops_end_with_the_accelerator(void **state)
{
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){0});
    raise(SIGTERM);
    rig_close(&rig);
    rig_open(&rig, &(rig_options_t){0});
    rig_train(&rig, 1);
    assert_false(accel_should_stop(rig.accel));
    rig_close(&rig);
}

static void own_handlers_still_run(void **state)
{
    struct sigaction action = {.sa_handler = own_handler}, now;
    rig_t rig;

    (void)state;
    sigaction(SIGTERM, &action, NULL);
    action =
        (struct sigaction){.sa_sigaction = own_action, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR2, &action, NULL);
    own_calls = own_pid = 0;
    rig_open(&rig, &(rig_options_t){0});
    raise(SIGTERM);
    assert_int_equal(own_calls, 1);
    raise(SIGUSR2);
    assert_int_equal(own_calls, 2);
    assert_int_equal(own_pid, getpid());
    rig_train(&rig, 1);
    assert_true(accel_should_stop(rig.accel));
    rig_close(&rig);

    /* And closing gives them their place back. */
    sigaction(SIGTERM, NULL, &now);
    assert_true(now.sa_handler == own_handler);
    sigaction(SIGUSR2, NULL, &now);
    assert_true(now.sa_sigaction == own_action);
    signal(SIGTERM, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
}

static void a_later_handler_is_left_in_place(void **state)
{
    struct sigaction now;
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){0});
    signal(SIGTERM, own_handler);
    rig_close(&rig);
    sigaction(SIGTERM, NULL, &now);
    assert_true(now.sa_handler == own_handler);
    signal(SIGTERM, SIG_DFL);
}

static void none_installs_nothing(void **state)
{
    struct sigaction now;
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){.spec = "signal=none"});
    sigaction(SIGTERM, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL);
    sigaction(SIGUSR2, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL);
    rig_close(&rig);
}

/* What a child that never asks accel_should_stop() dies of. */
static int deadly_signal(const char *spec, uint64_t patience_ns,
                         const int *signals, size_t count)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        accel_t *accel;
        shut_out_environment();
        if (accel_open(ACCEL_OPTIONS(.spec = spec), &accel) != ACCEL_OK)
            _exit(99);
        ax_stop_set_patience(patience_ns);
        for (size_t i = 0; i < count; i++) {
            raise(signals[i]);
            usleep(2000);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    assert_int_equal(WEXITSTATUS(status), 0);
    return 0;
}

static void a_signal_that_comes_again_later_ends_it(void **state)
{
    static const struct {
        const char *spec;
        uint64_t patience_ns;
        int signals[2];
        size_t count;
        int deadly; /* 0: lives on */
    } cases[] = {
        {"no", 1000000, {SIGTERM}, 1, 0},
        {"no", 1000000, {SIGTERM, SIGTERM}, 2, SIGTERM},
        {"no", 1000000, {SIGUSR2, SIGUSR2}, 2, SIGUSR2},
        {"no", 1000000, {SIGUSR2, SIGTERM}, 2, 0},
        /* Twice at once, as Slurm does, is once. */
        {"no", AX_STOP_PATIENCE_NS, {SIGTERM, SIGTERM}, 2, 0},
        {"signal=none", AX_STOP_PATIENCE_NS, {SIGTERM}, 1, SIGTERM},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(deadly_signal(cases[i].spec, cases[i].patience_ns,
                                       cases[i].signals, cases[i].count),
                         cases[i].deadly);
}

static void a_signal_that_comes_again_is_the_programs(void **state)
{
    struct sigaction action = {.sa_handler = own_handler}, now;
    rig_t rig;

    (void)state;
    sigaction(SIGTERM, &action, NULL);
    rig_open(&rig, &(rig_options_t){0});
    ax_stop_set_patience(0);
    own_calls = 0;
    raise(SIGTERM);
    assert_int_equal(own_calls, 1);
    raise(SIGTERM);
    assert_int_equal(own_calls, 2);
    sigaction(SIGTERM, NULL, &now);
    assert_true(now.sa_handler == own_handler);
    ax_stop_set_patience(AX_STOP_PATIENCE_NS);
    rig_close(&rig);
    signal(SIGTERM, SIG_DFL);
}

/* ---- the time limit ------------------------------------------------------ */

static void set_limit(int64_t left, int64_t whole)
{
    struct timespec now;
    char text[64];

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof text, "7.0:%lld/%lld",
             (long long)now.tv_sec + (long long)left, (long long)whole);
    setenv("ACCEL_END_TIME", text, 1);
    setenv("SLURM_JOB_ID", "7", 1);
    setenv("SLURM_STEP_ID", "0", 1);
}

static void clear_limit(void)
{
    unsetenv("ACCEL_END_TIME");
    unsetenv("SLURM_JOB_END_TIME");
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_STEP_ID");
    steps_ahead = wall_ahead = 0;
}

/* One step `after` seconds from the start, of which `left` were left. */
static void the_limit_stops(void **state)
{
    static const struct {
        int64_t left, whole;
        const char *spec;
        int64_t after;
        bool stops;
    } cases[] = {
        {7200, 72000, "no", 0, false},
        {7200, 72000, "no", 7000, false},
        {7200, 72000, "no", 7120, true},
        /* a short job keeps a small part free, not 90 seconds */
        {60, 60, "no", 0, false},
        {60, 60, "no", 40, false},
        {60, 3600, "no", 58, true},
        {0, 3600, "no", 0, true},
        /* as many seconds as are asked for */
        {60, 60, "margin=30", 10, false},
        {60, 3600, "margin=30", 40, true},
        {60, 3600, "margin=100", 0, true},
        {7200, 7200, "margin=0", 7190, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        rig_t rig;
        set_limit(cases[i].left, cases[i].whole);
        rig_open(&rig, &(rig_options_t){.spec = cases[i].spec});
        steps_ahead = cases[i].after;
        rig_train(&rig, 1);
        if (accel_should_stop(rig.accel) != cases[i].stops)
            fail_msg("case %zu", i);
        rig_close(&rig);
        clear_limit();
    }
}

/* Without the plugin the end is a time of the wall clock. */
static void the_end_that_slurm_tells_stops(void **state)
{
    static const struct {
        int64_t seconds; /* from now */
        bool stops;
    } cases[] = {{7200, false}, {60, false}, {-5, true}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[32];
        rig_t rig;
        snprintf(text, sizeof text, "%lld",
                 (long long)time(NULL) + (long long)cases[i].seconds);
        setenv("SLURM_JOB_END_TIME", text, 1);
        snprintf(text, sizeof text, "%lld", (long long)time(NULL) - 100);
        setenv("SLURM_JOB_START_TIME", text, 1);
        rig_open(&rig, &(rig_options_t){0});
        rig_train(&rig, 1);
        assert_int_equal(accel_should_stop(rig.accel), cases[i].stops);
        rig_close(&rig);
    }
    unsetenv("SLURM_JOB_START_TIME");
    clear_limit();
}

/* The wall clock may be set in mid-run: the time that is left does not
 * change. */
static void a_jump_of_the_wall_clock_stops_nothing(void **state)
{
    static const time_t jumps[] = {600, -600};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(jumps); i++) {
        char text[32];
        rig_t rig;
        snprintf(text, sizeof text, "%lld", (long long)time(NULL) + 500);
        setenv("SLURM_JOB_END_TIME", text, 1);
        rig_open(&rig, &(rig_options_t){0});
        wall_ahead = jumps[i];
        rig_train(&rig, 1);
        assert_false(accel_should_stop(rig.accel));
        steps_ahead = 490;
        rig_train(&rig, 1);
        assert_true(accel_should_stop(rig.accel));
        rig_close(&rig);
        clear_limit();
    }
}

/* A margin that each further start would run into is an error. */
static void no_progress_is_an_error(void **state)
{
    accel_t *accel;
    rig_t rig;

    (void)state;
    shut_out_environment();
    set_limit(60, 60);
    assert_int_equal(accel_open(ACCEL_OPTIONS(.spec = "margin=60"), &accel),
                     ACCEL_ERR_ARG);
    assert_null(accel);
    assert_non_null(strstr(accel_last_error()->text,
                           "the time limit is 60 s, of which margin= keeps 60"
                           " s free"));
    assert_non_null(strstr(accel_last_error()->text, "no start would"));

    rig_open(&rig, &(rig_options_t){.spec = "margin=50"});
    steps_ahead = 20; /* to load the state, and for the first step */
    rig_backward(&rig, 1);
    assert_int_equal(accel_optimizer_step(rig.optimizer), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "no start would"));
    rig_close(&rig);
    clear_limit();
}

/* One step took 6400 seconds, which 44 short ones make half forgotten: with
 * 2400 left another such step might not fit. Clipping in the program makes no
 * second step of one. */
static void a_long_step_is_forgotten_slowly(void **state)
{
    rig_t rig;

    (void)state;
    set_limit(100000, 100000);
    rig_open(&rig, &(rig_options_t){0});
    rig_train(&rig, 1);
    steps_ahead = 6400;
    for (int i = 0; i < 46; i++) {
        if (i == 45) { /* a pause is no part of a step */
            steps_ahead = 100000 - 90 - 2400;
            ax_deadline_saved(0);
        }
        assert_false(accel_should_stop(rig.accel));
        rig_backward(&rig, 1);
        OK(accel_clip_grad_norm(rig.accel, 1, NULL));
        OK(accel_optimizer_step(rig.optimizer));
        OK(accel_optimizer_zero_grad(rig.optimizer));
    }
    assert_true(accel_should_stop(rig.accel));
    rig_close(&rig);
    clear_limit();
}

/* The longest save so far must fit again. */
static void a_long_save_is_kept_free(void **state)
{
    rig_t rig;

    (void)state;
    set_limit(10000, 10000);
    rig_open(&rig, &(rig_options_t){0});
    ax_deadline_saved(UINT64_C(1000000000000));
    ax_deadline_saved(1);
    steps_ahead = 10000 - 90 - 1050;
    rig_train(&rig, 1);
    assert_false(accel_should_stop(rig.accel));
    ax_deadline_saved(1);
    steps_ahead += 100;
    rig_train(&rig, 1);
    assert_true(accel_should_stop(rig.accel));
    rig_close(&rig);
    clear_limit();
}

/* A rank that was told leaves with its own status, whatever comes then; one
 * that was not, and one with a handler of its own, are as they were before. */
static void a_told_rank_is_not_killed_on_its_way_out(void **state)
{
    static const int signals[] = {SIGTERM, SIGUSR2};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        bool told = i < 2;
        int signal_now = signals[i % 2], status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            rig_t rig;
            rig_open(&rig, &(rig_options_t){0});
            if (told)
                raise(SIGUSR2);
            rig_train(&rig, 1);
            if (accel_should_stop(rig.accel) != told)
                _exit(99);
            rig_close(&rig);
            raise(signal_now);
            _exit(75);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (told)
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 75);
        else
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signal_now);
    }
}

/* And a next accelerator catches them again. */
static void after_a_told_rank_signals_stop_again(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        rig_t rig;
        for (int i = 0; i < 2; i++) {
            rig_open(&rig, &(rig_options_t){0});
            raise(SIGTERM);
            rig_train(&rig, 1);
            if (!accel_should_stop(rig.accel))
                _exit(99);
            if (i == 0)
                rig_close(&rig);
        }
        ax_stop_set_patience(0);
        raise(SIGTERM); /* somebody insists */
        _exit(98);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* What a child that has these blocked says when it opens; `by_parent`: they
 * were blocked where it was started. */
static void opened_with(bool by_parent, int how, char *said, size_t room)
{
    int ends[2], status;
    sigset_t mask, before;

    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    assert_int_equal(pipe(ends), 0);
    if (by_parent)
        sigprocmask(how, &mask, &before);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        rig_t rig;
        dup2(ends[1], STDERR_FILENO);
        sigprocmask(how, &mask, NULL);
        rig_open(&rig, &(rig_options_t){0});
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], said, room - 1);
    said[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    if (by_parent)
        sigprocmask(SIG_SETMASK, &before, NULL);
}

static void a_blocked_signal_is_told_with_who_blocks_it(void **state)
{
    char said[1024], parent[64];

    (void)state;
    opened_with(false, SIG_UNBLOCK, said, sizeof said);
    assert_null(strstr(said, "blocked"));
    opened_with(false, SIG_BLOCK, said, sizeof said);
    assert_non_null(strstr(said, "signal 15 (Terminated) is blocked by this "
                                 "program, so it stops nothing"));
    assert_null(strstr(said, "signal 12"));
    opened_with(true, SIG_BLOCK, said, sizeof said);
    snprintf(parent, sizeof parent, "blocked by its parent, process %d (",
             (int)getpid());
    assert_non_null(strstr(said, parent));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_stops_after_the_next_step),
        cmocka_unit_test(stops_end_with_the_accelerator),
        cmocka_unit_test(own_handlers_still_run),
        cmocka_unit_test(a_later_handler_is_left_in_place),
        cmocka_unit_test(none_installs_nothing),
        cmocka_unit_test(a_signal_that_comes_again_later_ends_it),
        cmocka_unit_test(a_signal_that_comes_again_is_the_programs),
        cmocka_unit_test(the_limit_stops),
        cmocka_unit_test(the_end_that_slurm_tells_stops),
        cmocka_unit_test(a_jump_of_the_wall_clock_stops_nothing),
        cmocka_unit_test(no_progress_is_an_error),
        cmocka_unit_test(a_long_step_is_forgotten_slowly),
        cmocka_unit_test(a_long_save_is_kept_free),
        cmocka_unit_test(a_told_rank_is_not_killed_on_its_way_out),
        cmocka_unit_test(after_a_told_rank_signals_stop_again),
        cmocka_unit_test(a_blocked_signal_is_told_with_who_blocks_it),
    };

    clear_limit();
    return cmocka_run_group_tests_name("stop", tests, NULL, NULL);
}
