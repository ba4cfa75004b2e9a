/* spank: the option, and the command line, against a Slurm that is made here.
 */
#include "unit/spank_rig.h"

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
    setenv(AX_SPANK_ENV, "(null)", 1);
    init_in(S_CTX_LOCAL);
    assert_string_equal(getenv("SLURM_MPI_TYPE"), "pmix");
    same_text(getenv(AX_MPI_SENT), "pmix");
    setenv("SLURM_MPI_TYPE", "pmi2", 1);
    init_in(S_CTX_LOCAL);
    assert_string_equal(getenv("SLURM_MPI_TYPE"), "pmi2");
    assert_null(getenv(AX_MPI_SENT)); /* the user's own */
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
        TEST(command_lines_follow_the_table),
        TEST(the_shell_of_salloc_is_known),
        TEST(mpi_is_chosen_by_what_is_inherited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
