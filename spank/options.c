/* The option --accel: registered, checked, remembered. */
#include "spank_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The callback may be called several times with the same value (by the option
 * and by its copy in the environment) and with several values of which the
 * last counts (sbatch's, then the inner srun's). */
static struct {
    bool given;
    bool off;
    char spec[AX_SPEC_MAX];
    char error[AX_SPEC_ERROR + 64];
} state;

void ax_option_reset(void)
{
    memset(&state, 0, sizeof state);
}

bool ax_option_active(void)
{
    return state.given && !state.off;
}

bool ax_option_off(void)
{
    return state.given && state.off;
}

const char *ax_option_spec(void)
{
    return state.spec;
}

const char *ax_option_error(void)
{
    return state.error;
}

bool ax_option_is_off(const char *value)
{
    return value && strcmp(value, "off") == 0;
}

static bool is_help(const char *value)
{
    return value && strcmp(value, "help") == 0;
}

/* The parser names the word; the whole value goes before it when it holds
 * more than that word. */
static void describe(const char *value, const char *why)
{
    size_t n = strlen(value);

    if (strncmp(why, value, n) == 0 && why[n] == ':')
        snprintf(state.error, sizeof state.error, "--accel=%s", why);
    else
        snprintf(state.error, sizeof state.error, "--accel=%.48s%s: %s", value,
                 n > 48 ? "..." : "", why);
    ax_spec_clean(state.error);
}

static bool remember(const char *value)
{
    char why[AX_SPEC_ERROR] = "";
    bool fine = ax_option_is_off(value) || is_help(value) ||
                ax_spec_parse(value, NULL, NULL, why, sizeof why);

    state.given = true;
    state.off = ax_option_is_off(value) || is_help(value);
    state.error[0] = '\0';
    if (!fine)
        describe(value, why);
    snprintf(state.spec, sizeof state.spec, "%s",
             state.off || ax_spec_is_empty(value) ? "" : value);
    return fine;
}

/* "accel: srun: why": as Slurm's own errors are, but found by our name. */
static void say(const char *why)
{
    fprintf(stderr, "accel: %s: %s\n", program_invocation_short_name, why);
}

static bool is_value_word(const char *word)
{
    char why[AX_SPEC_ERROR];

    return word && *word &&
           (ax_option_is_off(word) || is_help(word) ||
            ax_spec_parse(word, NULL, NULL, why, sizeof why));
}

/* -1 after saying why, when `program` is a SPEC that was meant as a value. */
static int check_program(const char *program)
{
    char why[256];

    /* Only a value behind "=" is one: the next word is the program. */
    if (!is_value_word(program) || !ax_cmdline_self()->split)
        return 0;
    snprintf(why, sizeof why,
             "\"--accel %.64s\" would run a program called %.64s; "
             "write --accel=%.64s",
             program, program, program);
    ax_spec_clean(why);
    say(why);
    return -1;
}

/* Before any allocation: nothing to clean up, as for srun's own --help. */
static void help_and_exit(void)
{
    ax_spec_help(stdout);
    exit(fflush(stdout) == 0 ? 0 : 1);
}

void ax_option_help_first(void)
{
    if (is_help(ax_cmdline_self()->value))
        help_and_exit();
}

static int on_accel(int val, const char *value, int remote)
{
    (void)val;
    bool fine = remember(value);
    if (remote) /* only logged by Slurm: the tasks say it */
        return 0;
    if (is_help(value))
        help_and_exit();
    if (!fine) {
        say(state.error);
        return -1;
    }
    return check_program(ax_cmdline_self()->program);
}

int ax_option_register(spank_t spank)
{
    static struct spank_option option = {
        .name = (char *)"accel",
        .arginfo = (char *)"SPEC",
        .usage = (char *)"[accel] train with the accel library: "
                         "[PRECISION][,KEY=VALUE]..., off, or help",
        .has_arg = 2,
        .val = 0,
        .cb = on_accel,
    };

    if (spank_option_register(spank, &option) != ESPANK_SUCCESS) {
        slurm_error("accel: the option --accel cannot be registered");
        return -1;
    }
    return 0;
}

/* In the shell of salloc on a node Slurm itself has left "none" behind. */
static bool mpi_is_chosen(void)
{
    const char *type = getenv("SLURM_MPI_TYPE");
    const char *step = getenv("SLURM_STEP_ID");

    return type && !(strcmp(type, "none") == 0 && step &&
                     strcmp(step, AX_STEP_SHELL) == 0);
}

void ax_option_choose_mpi(const char *mpi)
{
    const char *inherited = getenv(AX_SPANK_ENV);
    bool active = inherited && !ax_option_is_off(inherited);
    const ax_cmdline_t *line = ax_cmdline_self();

    if (line->given)
        active = !ax_option_is_off(line->value);
    /* Not to a shell, whose steps choose for themselves. */
    if (active && !line->shell && strcmp(mpi, "keep") && !mpi_is_chosen()) {
        setenv("SLURM_MPI_TYPE", mpi, 1); /* --mpi= comes later, and wins */
        setenv(AX_MPI_SENT, mpi, 1);
    } else {
        unsetenv(AX_MPI_SENT);
    }
}
