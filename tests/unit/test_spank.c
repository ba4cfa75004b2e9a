/* spank: the plugin against a Slurm that is made here. */
#include "unit/unit.h"

#include "spank/spank_priv.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a Slurm of one process ---------------------------------------------- */

static struct {
    spank_context_t context;
    const struct spank_option *option;
    spank_err_t register_result;
    uint32_t job, step, local_tasks;
    time_t end;
    int end_calls;
    char errors[2048];
    struct {
        char name[64], value[AX_SPEC_MAX];
    } env[16]; /* of the task */
} slurm;

spank_context_t spank_context(void)
{
    return slurm.context;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
    (void)spank;
    slurm.option = option;
    return slurm.register_result;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    va_list args;
    spank_err_t result = ESPANK_SUCCESS;

    (void)spank;
    va_start(args, item);
    switch (item) {
    case S_JOB_ID:
        *va_arg(args, uint32_t *) = slurm.job;
        break;
    case S_JOB_STEPID:
        *va_arg(args, uint32_t *) = slurm.step;
        break;
    case S_JOB_LOCAL_TASK_COUNT:
        *va_arg(args, uint32_t *) = slurm.local_tasks;
        break;
    default:
        result = ESPANK_BAD_ARG;
    }
    va_end(args);
    return result;
}

static int find_variable(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(slurm.env); i++)
        if (strcmp(slurm.env[i].name, name) == 0)
            return (int)i;
    return -1;
}

static const char *task_env(const char *name)
{
    int i = find_variable(name);

    return i < 0 ? NULL : slurm.env[i].value;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *out, int room)
{
    const char *value = task_env(name);

    (void)spank;
    if (!value)
        return ESPANK_ENV_NOEXIST;
    snprintf(out, (size_t)room, "%s", value);
    return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value,
                         int overwrite)
{
    int i = find_variable(name);

    (void)spank;
    if (i >= 0 && !overwrite)
        return ESPANK_ENV_EXISTS;
    if (i < 0)
        i = find_variable("");
    assert_true(i >= 0);
    snprintf(slurm.env[i].name, sizeof slurm.env[i].name, "%s", name);
    snprintf(slurm.env[i].value, sizeof slurm.env[i].value, "%s", value);
    return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
    int i = find_variable(name);

    (void)spank;
    if (i >= 0)
        slurm.env[i].name[0] = '\0';
    return ESPANK_SUCCESS;
}

void slurm_error(const char *format, ...)
{
    va_list args;
    size_t used = strlen(slurm.errors);

    va_start(args, format);
    vsnprintf(slurm.errors + used, sizeof slurm.errors - used, format, args);
    va_end(args);
}

#if AX_MUST_ASK_END_TIME
int slurm_get_end_time(uint32_t job, time_t *end)
{
    assert_int_equal(job, slurm.job);
    slurm.end_calls++;
    *end = slurm.end;
    return slurm.end ? 0 : -1;
}
#endif

static int fresh(void **state)
{
    (void)state;
    memset(&slurm, 0, sizeof slurm);
    slurm.register_result = ESPANK_SUCCESS;
    slurm.job = 7;
    slurm.local_tasks = 1;
    unsetenv(AX_SPANK_ENV);
    unsetenv("SLURM_MPI_TYPE");
    unsetenv(AX_END_TIME_SENT);
    ax_option_reset();
    return 0;
}

static int init_in(spank_context_t context)
{
    slurm.context = context;
    return slurm_spank_init(NULL, 0, NULL);
}

static int given(const char *value, int remote)
{
    return slurm.option->cb(slurm.option->val, value, remote);
}

static int start_task(void)
{
    slurm.context = S_CTX_REMOTE;
    slurm_spank_user_init(NULL, 0, NULL);
    return slurm_spank_task_init(NULL, 0, NULL);
}

/* Standard error of one call, in `out`. */
static int catch_stderr(int (*call)(const char *), const char *arg, char *out,
                        size_t room)
{
    int keep = dup(STDERR_FILENO);
    FILE *f = tmpfile();

    assert_non_null(f);
    fflush(stderr);
    dup2(fileno(f), STDERR_FILENO);
    int result = call(arg);
    fflush(stderr);
    dup2(keep, STDERR_FILENO);
    close(keep);
    rewind(f);
    size_t n = fread(out, 1, room - 1, f);
    out[n] = '\0';
    fclose(f);
    return result;
}

static void same_text(const char *got, const char *want)
{
    if (want)
        assert_string_equal(got, want);
    else
        assert_null(got);
}

/* ---- the option ---------------------------------------------------------- */

static void the_option_is_registered_where_it_is_used(void **state)
{
    const spank_context_t none[] = {S_CTX_SLURMD, S_CTX_JOB_SCRIPT,
                                    S_CTX_ERROR};
    const spank_context_t some[] = {S_CTX_LOCAL, S_CTX_ALLOCATOR, S_CTX_REMOTE};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
        assert_int_equal(init_in(none[i]), 0);
        assert_null(slurm.option);
    }
    for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
        slurm.option = NULL;
        assert_int_equal(init_in(some[i]), 0);
        assert_non_null(slurm.option);
        assert_string_equal(slurm.option->name, "accel");
        assert_int_equal(slurm.option->has_arg, 2);
        assert_non_null(slurm.option->usage); /* NULL is refused by Slurm */
        assert_true(strlen(slurm.option->name) <= SPANK_OPTION_MAXLEN);
    }
    slurm.register_result = ESPANK_ERROR;
    assert_int_equal(init_in(S_CTX_LOCAL), -1);
    assert_non_null(strstr(slurm.errors, "cannot be registered"));
}

static void arguments_of_plugstack_are_checked(void **state)
{
    char *fine[] = {(char *)"mpi=keep"}, *wrong[] = {(char *)"pmix=1"},
         *empty[] = {(char *)"mpi="};

    (void)state;
    slurm.context = S_CTX_LOCAL;
    assert_int_equal(slurm_spank_init(NULL, 1, fine), 0);
    assert_int_equal(slurm_spank_init(NULL, 1, wrong), -1);
    assert_non_null(strstr(slurm.errors, "\"pmix=1\""));
    slurm.context = S_CTX_ALLOCATOR;
    assert_int_equal(slurm_spank_init(NULL, 1, empty), -1);
    /* on a node the same line must not stop slurmd or steps */
    slurm.context = S_CTX_REMOTE;
    assert_int_equal(slurm_spank_init(NULL, 1, wrong), 0);
    slurm.context = S_CTX_SLURMD;
    assert_int_equal(slurm_spank_init(NULL, 1, wrong), 0);
}

static const struct {
    const char *value;
    bool active, off;
    const char *spec;
} good[] = {
    {NULL, true, false, ""},
    {"", true, false, ""},
    {"(null)", true, false, ""},
    {"fp16", true, false, "fp16"},
    {"bf16,checkpoint=/a,,b", true, false, "bf16,checkpoint=/a,,b"},
    {"off", false, true, ""},
};

static void values_follow_the_table(void **state)
{
    (void)state;
    init_in(S_CTX_LOCAL);
    assert_false(ax_option_active());
    assert_false(ax_option_off());
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        for (int times = 0; times < 4; times++) { /* idempotent */
            assert_int_equal(given(good[i].value, times & 1), 0);
            assert_int_equal(ax_option_active(), good[i].active);
            assert_int_equal(ax_option_off(), good[i].off);
            assert_string_equal(ax_option_spec(), good[i].spec);
            assert_string_equal(ax_option_error(), "");
        }
}

static int give_local(const char *value)
{
    return given(value, 0);
}

static const struct {
    const char *value, *text;
} bad[] = {
    {"fp17", "--accel=fp17: no such precision; one of: no fp32 fp16 bf16\n"},
    {"fp16,clip=-1", "--accel=fp16,clip=-1: clip=-1: want 0, or a number from "
                     "1e-300 to 1e300\n"},
    {"clip=-1", "--accel=clip=-1: want 0, or a number from 1e-300 to 1e300\n"},
    {"fp16,off", "--accel=fp16,off: \"off\": want KEY=VALUE\n"},
    /* nothing for a terminal to obey */
    {"\x1b[31m\x7f\n", "--accel=?[31m??: no such precision; one of: no fp32 "
                       "fp16 bf16\n"},
};

static void wrong_values_are_refused_at_submission(void **state)
{
    (void)state;
    init_in(S_CTX_ALLOCATOR);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char text[2048], want[512];
        assert_int_equal(
            catch_stderr(give_local, bad[i].value, text, sizeof text), -1);
        snprintf(want, sizeof want, "accel: %s: %s",
                 program_invocation_short_name, bad[i].text);
        assert_string_equal(text, want);
    }
}

static void long_values_are_refused(void **state)
{
    static char value[3 * AX_SPEC_MAX];
    char text[2048];

    (void)state;
    init_in(S_CTX_LOCAL);
    memset(value, 'x', sizeof value - 1);
    assert_int_equal(catch_stderr(give_local, value, text, sizeof text), -1);
    assert_non_null(strstr(text, "longer than 4095 bytes"));
}

static void help_lists_and_leaves(void **state)
{
    int out[2];
    char text[8192];
    size_t used = 0;
    ssize_t n;

    (void)state;
    init_in(S_CTX_LOCAL);
    assert_int_equal(pipe(out), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        given("help", 0);
        _exit(77); /* it came back */
    }
    close(out[1]);
    while ((n = read(out[0], text + used, sizeof text - 1 - used)) > 0)
        used += (size_t)n;
    close(out[0]);
    text[used] = '\0';
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_non_null(strstr(text, "no fp32 fp16 bf16"));
    assert_non_null(strstr(text, "checkpoint"));
    /* on a node it means nothing, and ends nothing */
    assert_int_equal(given("help", 1), 0);
    assert_false(ax_option_active());
}

static void the_last_value_counts(void **state)
{
    (void)state;
    init_in(S_CTX_LOCAL);
    given("fp16", 0); /* inherited */
    given("bf16", 0); /* the command line */
    assert_string_equal(ax_option_spec(), "bf16");
    given("off", 0);
    assert_false(ax_option_active());
    given("fp16", 0);
    assert_true(ax_option_active());
    assert_false(ax_option_off());
}

/* ---- tasks --------------------------------------------------------------- */

static void without_accel_nothing_changes(void **state)
{
    (void)state;
    slurm.end = 12345;
    init_in(S_CTX_LOCAL);
    assert_int_equal(slurm_spank_local_user_init(NULL, 0, NULL), 0);
    assert_int_equal(slurm.end_calls, 0);
    assert_null(getenv(AX_END_TIME_SENT));
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
    (void)state;
    init_in(S_CTX_REMOTE);
    given("fp16,clip=1", 1);
    given("fp16,clip=1", 1); /* twice before Slurm 24.05 */
    spank_setenv(NULL, AX_END_TIME_SENT, "12345", 1);
    assert_int_equal(start_task(), 0);
    assert_string_equal(task_env("ACCEL_SPEC"), "fp16,clip=1");
    assert_string_equal(task_env("ACCEL_END_TIME"), "12345");
    assert_null(task_env(AX_END_TIME_SENT));
    assert_true(atoi(task_env("OMP_NUM_THREADS")) >= 1);
}

static void the_users_own_choices_stay(void **state)
{
    (void)state;
    init_in(S_CTX_REMOTE);
    given(NULL, 1);
    spank_setenv(NULL, "OMP_NUM_THREADS", "8", 1);
    spank_setenv(NULL, "SLURM_MPI_TYPE", "pmix_v4", 1);
    spank_setenv(NULL, "ACCEL_SPEC", "bf16", 1); /* of the batch script */
    assert_int_equal(start_task(), 0);
    assert_string_equal(task_env("OMP_NUM_THREADS"), "8");
    assert_string_equal(task_env("SLURM_MPI_TYPE"), "pmix_v4");
    assert_string_equal(task_env("ACCEL_SPEC"), "");
}

static void off_takes_back_what_a_script_handed_down(void **state)
{
    (void)state;
    init_in(S_CTX_REMOTE);
    given("bf16", 1);
    given("off", 1);
    spank_setenv(NULL, "ACCEL_SPEC", "bf16", 1);
    spank_setenv(NULL, "ACCEL_END_TIME", "1", 1);
    assert_int_equal(start_task(), 0);
    assert_null(task_env("ACCEL_SPEC"));
    assert_null(task_env("ACCEL_END_TIME"));
    assert_null(task_env("OMP_NUM_THREADS"));
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
    assert_string_equal(task_env("ACCEL_SPEC"), "fp8");
}

static void the_end_of_the_job_is_asked_once(void **state)
{
    (void)state;
    slurm.end = 1234567890;
    init_in(S_CTX_LOCAL);
    given("fp16", 0);
    assert_int_equal(slurm_spank_local_user_init(NULL, 0, NULL), 0);
    assert_int_equal(slurm.end_calls, AX_MUST_ASK_END_TIME ? 1 : 0);
    same_text(getenv(AX_END_TIME_SENT),
              AX_MUST_ASK_END_TIME ? "1234567890" : NULL);
    /* no limit, or no answer: nothing is sent */
    unsetenv(AX_END_TIME_SENT);
    slurm.end = 0;
    assert_int_equal(slurm_spank_local_user_init(NULL, 0, NULL), 0);
    assert_null(getenv(AX_END_TIME_SENT));
}

static void the_end_of_newer_slurms_and_bad_ones(void **state)
{
    (void)state;
    init_in(S_CTX_REMOTE);
    given("fp16", 1);
    spank_setenv(NULL, "SLURM_JOB_END_TIME", "99", 1);
    assert_int_equal(start_task(), 0);
    assert_string_equal(task_env("ACCEL_END_TIME"), "99");
    spank_unsetenv(NULL, "ACCEL_END_TIME");
    spank_setenv(NULL, AX_END_TIME_SENT, "soon", 1);
    assert_int_equal(start_task(), 0);
    assert_null(task_env("ACCEL_END_TIME"));
}

static void batch_scripts_get_no_thread_count(void **state)
{
    (void)state;
    init_in(S_CTX_REMOTE);
    given("fp16", 1);
    slurm.step = 0xfffffffbu;
    assert_int_equal(start_task(), 0);
    assert_string_equal(task_env("ACCEL_SPEC"), "fp16");
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

/* ---- the command line ---------------------------------------------------- */

#define WORDS_MAX 12

static const struct {
    const char *words[WORDS_MAX];
    bool given;
    const char *value, *program;
    bool split;
} lines[] = {
    {{"srun", "hostname"}, false, NULL, "hostname", false},
    {{"srun"}, false, NULL, NULL, false},
    {{"srun", "--accel", "./train"}, true, NULL, "./train", true},
    {{"srun", "--accel", "fp16", "./train"}, true, NULL, "fp16", true},
    {{"srun", "--accel=fp16", "./train"}, true, "fp16", "./train", false},
    {{"srun", "--accel=", "x"}, true, "", "x", false},
    {{"srun", "--accel=fp16", "--accel=off", "x"}, true, "off", "x", false},
    {{"srun", "./train", "--accel=fp16"}, false, NULL, "./train", false},
    {{"srun", "--", "--accel"}, false, NULL, "--accel", false},
    {{"srun", "-", "--accel"}, false, NULL, "-", false},
    {{"srun", "-n", "4", "--accel=no", "x"}, true, "no", "x", false},
    {{"srun", "-n4", "--accel=no", "x"}, true, "no", "x", false},
    {{"srun", "-ln", "4", "--accel=no", "x"}, true, "no", "x", false},
    {{"srun", "-ln4", "--accel=no", "x"}, true, "no", "x", false},
    {{"srun", "-l", "x", "--accel=no"}, false, NULL, "x", false},
    {{"srun", "-K", "x", "--accel=no"}, false, NULL, "x", false},
    {{"srun", "-I60", "x", "--accel=no"}, false, NULL, "x", false},
    {{"srun", "-W", "60", "--accel", "x"}, true, NULL, "x", true},
    {{"srun", "--nodes", "4", "--accel", "x"}, true, NULL, "x", true},
    {{"srun", "--nodes=4", "--accel", "x"}, true, NULL, "x", true},
    {{"srun", "--exclusive", "x", "--accel"}, false, NULL, "x", false},
    {{"srun", "--unknown", "v", "--accel", "x"}, true, NULL, "x", true},
    {{"srun", "--job-name", "--accel", "x"}, false, NULL, "x", true},
    {{"srun", "--accelerate", "v", "x"}, false, NULL, "x", false},
    {{"srun", "--accel", "-n4", "x"}, true, NULL, "x", false},
    {{"srun", "-n"}, false, NULL, NULL, false},
    {{"srun", "--nodes"}, false, NULL, NULL, false},
    {{"srun", "--accel"}, true, NULL, NULL, false},
    {{"srun", "", "--accel"}, false, NULL, "", false},
};

static void command_lines_follow_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        char *words[WORDS_MAX];
        int count = 0;
        while (count < WORDS_MAX && lines[i].words[count]) {
            words[count] = (char *)(uintptr_t)lines[i].words[count];
            count++;
        }
        ax_cmdline_t got;
        ax_cmdline_scan(words, count, &got);
        if (got.given != lines[i].given)
            fail_msg("line %zu: given is %d", i, got.given);
        same_text(got.value, lines[i].value);
        same_text(got.program, lines[i].program);
        assert_int_equal(got.split, lines[i].split);
    }
}

static void the_shell_of_salloc_is_known(void **state)
{
    char *words[] = {(char *)"srun", (char *)"--interactive",
                     (char *)"--preserve-env", (char *)"--pty",
                     (char *)"/bin/sh"};
    ax_cmdline_t got;

    (void)state;
    ax_cmdline_scan(words, 5, &got);
    assert_true(got.shell);
    assert_string_equal(got.program, "/bin/sh");
    ax_cmdline_scan(words + 1, 4, &got);
    assert_false(got.shell);
}

/* This test's own command line holds no --accel. */
static void mpi_is_chosen_by_what_is_inherited(void **state)
{
    (void)state;
    assert_false(ax_cmdline_self()->given);
    init_in(S_CTX_LOCAL);
    assert_null(getenv("SLURM_MPI_TYPE"));
    setenv(AX_SPANK_ENV, "off", 1);
    init_in(S_CTX_LOCAL);
    assert_null(getenv("SLURM_MPI_TYPE"));
    setenv(AX_SPANK_ENV, "(null)", 1);
    init_in(S_CTX_ALLOCATOR); /* sbatch has no steps */
    assert_null(getenv("SLURM_MPI_TYPE"));
    init_in(S_CTX_LOCAL);
    assert_string_equal(getenv("SLURM_MPI_TYPE"), "pmix");
    setenv("SLURM_MPI_TYPE", "pmi2", 1);
    init_in(S_CTX_LOCAL);
    assert_string_equal(getenv("SLURM_MPI_TYPE"), "pmi2");
    setenv("SLURM_MPI_TYPE", "none", 1);
    init_in(S_CTX_LOCAL);
    assert_string_equal(getenv("SLURM_MPI_TYPE"), "none");
    setenv("SLURM_STEP_ID", "0", 1); /* a task */
    init_in(S_CTX_LOCAL);
    assert_string_equal(getenv("SLURM_MPI_TYPE"), "none");
    setenv("SLURM_STEP_ID", "4294967290", 1); /* salloc's shell */
    init_in(S_CTX_LOCAL);
    assert_string_equal(getenv("SLURM_MPI_TYPE"), "pmix");
    unsetenv("SLURM_STEP_ID");
    unsetenv("SLURM_MPI_TYPE");
    char *keep[] = {(char *)"mpi=keep"}, *other[] = {(char *)"mpi=pmix_v4"};
    slurm_spank_init(NULL, 1, keep);
    assert_null(getenv("SLURM_MPI_TYPE"));
    slurm_spank_init(NULL, 1, other);
    assert_string_equal(getenv("SLURM_MPI_TYPE"), "pmix_v4");
}

#define TEST(f) cmocka_unit_test_setup(f, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_option_is_registered_where_it_is_used),
        TEST(arguments_of_plugstack_are_checked),
        TEST(values_follow_the_table),
        TEST(wrong_values_are_refused_at_submission),
        TEST(long_values_are_refused),
        TEST(help_lists_and_leaves),
        TEST(the_last_value_counts),
        TEST(without_accel_nothing_changes),
        TEST(tasks_get_spec_end_and_threads),
        TEST(the_users_own_choices_stay),
        TEST(off_takes_back_what_a_script_handed_down),
        TEST(a_value_that_a_node_does_not_know),
        TEST(the_end_of_the_job_is_asked_once),
        TEST(the_end_of_newer_slurms_and_bad_ones),
        TEST(batch_scripts_get_no_thread_count),
        TEST(threads_follow_the_mask),
        TEST(command_lines_follow_the_table),
        TEST(the_shell_of_salloc_is_known),
        TEST(mpi_is_chosen_by_what_is_inherited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
