/* The ranks' environment: this process's own, without what another launcher
 * said about this process, for that is not true of the ranks. */
#include "launch.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* The identity of one task of a Slurm step. What describes the job stays. */
static const char *const slurm_identity[] = {
    "SLURM_PROCID",         "SLURM_LOCALID",        "SLURM_NODEID",
    "SLURM_STEPID",         "SLURM_TASK_PID",       "SLURM_GTIDS",
    "SLURM_NTASKS",         "SLURM_NPROCS",         "SLURM_TASKS_PER_NODE",
    "SLURM_SRUN_COMM_HOST", "SLURM_SRUN_COMM_PORT", "SLURM_LAUNCH_NODE_IPADDR",
};

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_identity(const char *name, bool under_mpirun)
{
    /* PMIX_MCA_ is how users tune PMIx; the rest leads to another server. */
    if (strcmp(name, "ACCEL_LAUNCH") == 0)
        return true;
    if (starts_with(name, "PMIX_"))
        return !starts_with(name, "PMIX_MCA_");
    if (starts_with(name, "PMI_") || starts_with(name, "SLURM_STEP_"))
        return true;
    if (under_mpirun && (starts_with(name, "OMPI_COMM_WORLD_") ||
                         starts_with(name, "OMPI_UNIVERSE_SIZE") ||
                         starts_with(name, "OMPI_MCA_ess") ||
                         starts_with(name, "OMPI_MCA_orte_") ||
                         starts_with(name, "OMPI_MCA_pmix")))
        return true;
    for (size_t i = 0; i < sizeof slurm_identity / sizeof *slurm_identity; i++)
        if (strcmp(name, slurm_identity[i]) == 0)
            return true;
    return false;
}

static bool forget_identity(void)
{
    bool under_mpirun = getenv("OMPI_COMM_WORLD_SIZE") != NULL;

    for (char **at = environ; at && *at;) {
        size_t n = strcspn(*at, "=");
        char *name = strndup(*at, n);
        if (!name)
            return false;
        bool drop = is_identity(name, under_mpirun);
        /* unsetenv() moves the next ones down to this place. */
        if (drop && unsetenv(name) != 0)
            drop = false;
        free(name);
        at += !drop;
    }
    return true;
}

/*
 * With the job whose it is in front, as the Slurm plugin does: the ranks may
 * submit a job, which inherits their environment.
 */
static bool hand_over(const char *name, const char *value)
{
    const char *job = getenv("SLURM_JOB_ID");
    char *text;

    if (asprintf(&text, "%s:%s", job && *job ? job : "0", value) < 0)
        return false;
    int rc = setenv(name, text, 1);
    free(text);
    return rc == 0;
}

/* What this step has been given holds for the ranks, which are in no step. */
static bool pass_on(void)
{
    static const char *const names[] = {"ACCEL_SPEC", "ACCEL_END_TIME",
                                        "ACCEL_OMP_NUM_THREADS"};
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    char mine[64];

    if (!job || !step)
        return true;
    snprintf(mine, sizeof mine, "%s.%s:", job, step);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && starts_with(text, mine) &&
            !hand_over(names[i], text + strlen(mine)))
            return false;
    }
    return true;
}

/*
 * Each rank may run on all processors that this process may. Without a word
 * from the user each would start a thread for every one of them.
 */
static bool share_threads(int size)
{
    cpu_set_t *mask = CPU_ALLOC(8192);
    size_t bytes = CPU_ALLOC_SIZE(8192);
    char text[16];
    int count = 1;

    if (!mask)
        return false;
    if (sched_getaffinity(0, bytes, mask) == 0)
        count = CPU_COUNT_S(bytes, mask);
    CPU_FREE(mask);
    snprintf(text, sizeof text, "%d", count / size > 1 ? count / size : 1);
    return getenv("OMP_NUM_THREADS") ||
           (setenv("OMP_NUM_THREADS", text, 1) == 0 &&
            hand_over("ACCEL_OMP_NUM_THREADS", text));
}

bool env_prepare(const struct launch_options *options)
{
    bool done = pass_on() && forget_identity() && share_threads(options->size);

    if (done && options->spec)
        done = hand_over("ACCEL_SPEC", options->spec);
    if (!done)
        fprintf(stderr, "accel: launch: no memory for the environment\n");
    return done;
}

char **env_copy(void)
{
    size_t count = 0;

    while (environ[count])
        count++;
    char **copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++) {
        copy[i] = strdup(environ[i]);
        if (!copy[i]) {
            env_free(copy);
            return NULL;
        }
    }
    return copy;
}

void env_free(char **env)
{
    for (char **at = env; at && *at; at++)
        free(*at);
    free(env);
}
