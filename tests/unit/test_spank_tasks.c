/* spank: what tasks get, and what is taken from them. */
#include "unit/spank_rig.h"

static void without_accel_nothing_changes(void **state)
{
    (void)state;
    slurm.job_minutes = slurm.step_minutes = 60;
    init_in(S_CTX_LOCAL);
    assert_int_equal(slurm_spank_local_user_init(NULL, 0, NULL), 0);
    assert_int_equal(slurm.calls, 0);
    assert_null(getenv(AX_LIMIT_SENT));
    assert_null(getenv("SLURM_MPI_TYPE"));
    spank_setenv(NULL, "ACCEL_SPEC", "mine", 1); /* the user's own */
    init_in(S_CTX_REMOTE);
    assert_int_equal(start_task(), 0);
    assert_string_equal(task_env("ACCEL_SPEC"), "mine");
    assert_null(task_env("OMP_NUM_THREADS"));
    assert_null(task_env("ACCEL_END_TIME"));
    assert_string_equal(slurm.errors, "");
}

static void tasks_get_spec_end_and_threads(void **state)
{
    struct timespec now;
    long long end, whole;
    ax_owner_t owner;

    (void)state;
    init_in(S_CTX_REMOTE);
    given("fp16,clip=1", 1);
    given("fp16,clip=1", 1); /* twice before Slurm 24.05 */
    spank_setenv(NULL, AX_LIMIT_SENT, "7.0:1000/3600", 1);
    assert_int_equal(start_task(), 0);
    assert_string_equal(task_env("ACCEL_SPEC"), "7.0:fp16,clip=1");
    clock_gettime(CLOCK_MONOTONIC, &now);
    const char *value = ax_spec_owner(task_env("ACCEL_END_TIME"), &owner);
    assert_int_equal(sscanf(value, "%lld/%lld", &end, &whole), 2);
    assert_true(owner.job == 7 && owner.step == 0 && whole == 3600);
    assert_true(end <= now.tv_sec + 1000 && end > now.tv_sec + 1000 - 60);
    assert_null(task_env(AX_LIMIT_SENT));
    assert_true(atoi(task_env("OMP_NUM_THREADS")) >= 1);
    value = ax_spec_owner(task_env(AX_THREADS_ENV), &owner);
    assert_string_equal(value, task_env("OMP_NUM_THREADS"));
}

static void the_users_own_choices_stay(void **state)
{
    (void)state;
    init_in(S_CTX_REMOTE);
    given(NULL, 1);
    spank_setenv(NULL, "OMP_NUM_THREADS", "8", 1);
    spank_setenv(NULL, "SLURM_MPI_TYPE", "pmix_v4", 1);
    spank_setenv(NULL, AX_MPI_SENT, "pmix", 1);    /* before --mpi= was read */
    spank_setenv(NULL, "ACCEL_SPEC", "7:bf16", 1); /* of the batch script */
    assert_int_equal(start_task(), 0);
    assert_string_equal(task_env("OMP_NUM_THREADS"), "8");
    assert_null(task_env(AX_THREADS_ENV));
    assert_string_equal(task_env("SLURM_MPI_TYPE"), "pmix_v4");
    assert_null(task_env(AX_MPI_SENT));
    assert_string_equal(task_env("ACCEL_SPEC"), "7.0:");
}

static void off_takes_back_what_a_script_handed_down(void **state)
{
    (void)state;
    init_in(S_CTX_REMOTE);
    given("bf16", 1);
    given("off", 1);
    spank_setenv(NULL, "ACCEL_SPEC", "7:bf16", 1);
    spank_setenv(NULL, "ACCEL_END_TIME", "7:1/1", 1);
    assert_int_equal(start_task(), 0);
    assert_null(task_env("ACCEL_SPEC"));
    assert_null(task_env("ACCEL_END_TIME"));
    assert_null(task_env("OMP_NUM_THREADS"));
    spank_setenv(NULL, "ACCEL_SPEC", "bf16", 1); /* the user's own */
    assert_int_equal(start_task(), 0);
    assert_string_equal(task_env("ACCEL_SPEC"), "bf16");
}

/* What a step of job 6, or another step of this job, had been given. */
static void what_another_job_was_given_is_removed(void **state)
{
    static const char *const owners[] = {"6:", "6.0:", "7.1:", "0:"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
        char text[64];
        fresh(state);
        init_in(S_CTX_REMOTE);
        snprintf(text, sizeof text, "%sfp16", owners[i]);
        spank_setenv(NULL, "ACCEL_SPEC", text, 1);
        snprintf(text, sizeof text, "%s1/60", owners[i]);
        spank_setenv(NULL, "ACCEL_END_TIME", text, 1);
        snprintf(text, sizeof text, "%s4", owners[i]);
        spank_setenv(NULL, AX_THREADS_ENV, text, 1);
        spank_setenv(NULL, "OMP_NUM_THREADS", i % 2 ? "5" : "4", 1);
        assert_int_equal(start_task(), 0);
        assert_null(task_env("ACCEL_SPEC"));
        assert_null(task_env("ACCEL_END_TIME"));
        assert_null(task_env(AX_THREADS_ENV));
        /* changed meanwhile: the user's own */
        same_text(task_env("OMP_NUM_THREADS"), i % 2 ? "5" : NULL);
    }
}

static void the_plugins_choice_of_mpi_ends_with_the_step(void **state)
{
    (void)state;
    init_in(S_CTX_REMOTE);
    given("fp16", 1);
    spank_setenv(NULL, "SLURM_MPI_TYPE", "pmix", 1);
    spank_setenv(NULL, AX_MPI_SENT, "pmix", 1);
    assert_int_equal(start_task(), 0);
    assert_null(task_env("SLURM_MPI_TYPE"));
    assert_null(task_env(AX_MPI_SENT));
}

static void a_new_job_inherits_nothing_of_the_one_around_it(void **state)
{
    (void)state;
    setenv("ACCEL_SPEC", "6.0:fp16", 1);
    setenv("ACCEL_END_TIME", "6.0:1/60", 1);
    setenv(AX_THREADS_ENV, "6.0:4", 1);
    setenv("OMP_NUM_THREADS", "4", 1);
    setenv(AX_SPANK_ENV, "fp16", 1);
    init_in(S_CTX_ALLOCATOR);
    assert_null(getenv("ACCEL_SPEC"));
    assert_null(getenv("ACCEL_END_TIME"));
    assert_null(getenv(AX_THREADS_ENV));
    assert_null(getenv("OMP_NUM_THREADS"));
    assert_null(getenv(AX_SPANK_ENV));
    setenv("ACCEL_SPEC", "fp16", 1); /* the user's own */
    setenv("OMP_NUM_THREADS", "4", 1);
    init_in(S_CTX_ALLOCATOR);
    same_text(getenv("ACCEL_SPEC"), "fp16");
    same_text(getenv("OMP_NUM_THREADS"), "4");
    unsetenv("ACCEL_SPEC");
    unsetenv("OMP_NUM_THREADS");
}

/* Where srun's plugin took what the node's does not know, Slurm logs the
 * callback and goes on: the task must not start without the option. */
static void a_value_that_a_node_does_not_know(void **state)
{
    (void)state;
    init_in(S_CTX_REMOTE);
    assert_int_equal(given("fp8", 1), 0);
    assert_int_equal(start_task(), -1);
    assert_non_null(strstr(slurm.errors, "--accel=fp8: no such precision"));
    assert_string_equal(task_env("ACCEL_SPEC"), "7.0:fp8");
}

/* It goes to slurmd's log, which root reads: no line begins in it, and nothing
 * is for a terminal to obey. */
static void a_wrong_value_forges_no_line(void **state)
{
    static const char *const values[] = {
        "fp8\nerror: forged", "\x1b]0;title\x07", "fp16,\r\x1b[2Jclip=-1",
        "seed=\n1",           "\302\2332J",       "fp16,zero=1\t\x7f"};

    (void)state;
    init_in(S_CTX_REMOTE);
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        slurm.errors[0] = '\0';
        given(values[i], 1);
        assert_int_equal(start_task(), -1);
        assert_non_null(strstr(slurm.errors, "accel: --accel="));
        for (const char *c = slurm.errors; *c; c++)
            assert_true((unsigned char)*c >= ' ' && *c != 0x7f &&
                        (unsigned char)*c != 0x9b);
    }
}

/* By the controller's clock, which is far from this one. */
static void the_time_limit_is_asked_for(void **state)
{
    static const struct {
        uint32_t job, step; /* minutes */
        const char *sent;
    } cases[] = {
        {60, 0, "7.0:3550/3600"},
        {60, INFINITE, "7.0:3550/3600"},
        {60, 1, "7.0:50/60"},
        {1, 60, "7.0:10/60"},
        {INFINITE, INFINITE, NULL},
        {INFINITE, 2, "7.0:110/120"},
        {0, 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        fresh(state);
        slurm.job_minutes = cases[i].job;
        slurm.step_minutes = cases[i].step;
        setenv(AX_LIMIT_SENT, "6.0:1/1", 1); /* of a step around this one */
        init_in(S_CTX_LOCAL);
        given("fp16", 0);
        assert_int_equal(slurm_spank_local_user_init(NULL, 0, NULL), 0);
        assert_int_equal(slurm.calls, 2);
        assert_int_equal(slurm.freed,
                         (cases[i].job != 0) + (cases[i].step != 0));
        same_text(getenv(AX_LIMIT_SENT), cases[i].sent);
    }
    unsetenv(AX_LIMIT_SENT);
}

static void limits_that_are_bad_or_another_steps(void **state)
{
    static const char *const sent[] = {"soon", "1000/3600", "7.1:1000/3600",
                                       "6.0:1000/3600", "7.0:soon"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(sent); i++) {
        fresh(state);
        init_in(S_CTX_REMOTE);
        given("fp16", 1);
        spank_setenv(NULL, AX_LIMIT_SENT, sent[i], 1);
        assert_int_equal(start_task(), 0);
        assert_null(task_env("ACCEL_END_TIME"));
        assert_null(task_env(AX_LIMIT_SENT));
    }
}

/* What it is given holds for whatever its job starts. */
static void batch_scripts_get_no_thread_count(void **state)
{
    (void)state;
    init_in(S_CTX_REMOTE);
    given("fp16", 1);
    slurm.step = 0xfffffffbu;
    assert_int_equal(start_task(), 0);
    assert_string_equal(task_env("ACCEL_SPEC"), "7:fp16");
    assert_null(task_env("OMP_NUM_THREADS"));
}

static int threads_in_mask(int cpus, uint32_t tasks)
{
    cpu_set_t set;
    int taken = 0;

    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set) && taken++ >= cpus)
            CPU_CLR(i, &set);
    assert_int_equal(sched_setaffinity(0, sizeof set, &set), 0);
    slurm.local_tasks = tasks;
    init_in(S_CTX_REMOTE);
    given("fp16", 1);
    start_task();
    return atoi(task_env("OMP_NUM_THREADS"));
}

/* In a child, because a mask cannot be given back for sure. */
static int threads_of_child(int cpus, uint32_t tasks)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(threads_in_mask(cpus, tasks));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void threads_follow_the_mask(void **state)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    int all = CPU_COUNT(&set);
    assert_int_equal(threads_of_child(1, 1), 1);
    assert_int_equal(threads_of_child(all, 1), all);
    /* unbound tasks share what there is */
    int share = all / 2 > 0 ? all / 2 : 1;
    assert_int_equal(threads_of_child(all, 2), all >= online ? share : all);
    assert_int_equal(threads_of_child(all, 1000), all >= online ? 1 : all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_accel_nothing_changes),
        TEST(tasks_get_spec_end_and_threads),
        TEST(the_users_own_choices_stay),
        TEST(off_takes_back_what_a_script_handed_down),
        TEST(what_another_job_was_given_is_removed),
        TEST(the_plugins_choice_of_mpi_ends_with_the_step),
        TEST(a_new_job_inherits_nothing_of_the_one_around_it),
        TEST(a_value_that_a_node_does_not_know),
        TEST(a_wrong_value_forges_no_line),
        TEST(the_time_limit_is_asked_for),
        TEST(limits_that_are_bad_or_another_steps),
        TEST(batch_scripts_get_no_thread_count),
        TEST(threads_follow_the_mask),
    };

    return cmocka_run_group_tests_name("spank_tasks", tests, NULL, NULL);
}
