/* Who started this process: read from the environment, and only from that
 * part of it that belongs to the step. */
#include "job_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(char *(*get)(const char *), const char *name)
{
    const char *value = get(name);

    return value ? value : "";
}

static bool is_set(char *(*get)(const char *), const char *name)
{
    return *value_of(get, name) != '\0';
}

/* A count of tasks; 0 for anything that is none. */
static long count_of(char *(*get)(const char *), const char *name)
{
    const char *text = value_of(get, name);
    char *end;
    long value = strtol(text, &end, 10);

    return *text && !*end && value > 0 ? value : 0;
}

/*
 * srun passes its own environment on. Started with --mpi=none inside a step
 * that has PMIx, its tasks still carry that other step's PMIx variables, and
 * all of them would connect as its rank 0.
 */
static bool pmix_of_another_step(char *(*get)(const char *))
{
    const char *nspace = value_of(get, "PMIX_NAMESPACE");
    char mine[128];

    if (strncmp(nspace, "slurm.pmix.", 11) != 0)
        return false;
    if (!is_set(get, "SLURM_JOB_ID") || !is_set(get, "SLURM_STEP_ID"))
        return false;
    snprintf(mine, sizeof mine, "slurm.pmix.%s.%s",
             value_of(get, "SLURM_JOB_ID"), value_of(get, "SLURM_STEP_ID"));
    return strcmp(mine, nspace) != 0;
}

/*
 * A task of a step has SLURM_STEP_ID, SLURM_PROCID and SLURM_STEP_NUM_TASKS.
 * A batch script and the shell of salloc have SLURM_NTASKS of the job and
 * SLURM_PROCID=0, but no step's count, or a step of one: they are a world of
 * one, as is a shell with stale SLURM_JOB_ID and SLURM_NTASKS.
 */
static long tasks_of_step(char *(*get)(const char *))
{
    if (!is_set(get, "SLURM_STEP_ID") || !is_set(get, "SLURM_PROCID"))
        return 0;
    return count_of(get, "SLURM_STEP_NUM_TASKS");
}

ax_launcher_t ax_job_detect(char *(*get)(const char *name), char *reason,
                            size_t room)
{
    bool pmix = is_set(get, "PMIX_NAMESPACE");
    bool stale = pmix && pmix_of_another_step(get);
    long tasks = tasks_of_step(get);
    long pmi = is_set(get, "PMI_RANK") ? count_of(get, "PMI_SIZE") : 0;

    if (pmix && !stale) {
        snprintf(reason, room, "PMIX_NAMESPACE is set");
        return AX_LAUNCHER_PMIX;
    }
    if (tasks > 1) {
        snprintf(reason, room,
                 "%ld tasks but no PMIx: run \"srun --mpi=pmix ...\", or set "
                 "MpiDefault=pmix (to run as one process all the same, unset "
                 "SLURM_STEP_NUM_TASKS)",
                 tasks);
        return AX_LAUNCHER_WITHOUT;
    }
    /* mpirun of MPICH and its kin, which do not speak PMIx */
    if (pmi > 1) {
        snprintf(reason, room,
                 "%ld processes but no PMIx: PMI_SIZE is set and "
                 "PMIX_NAMESPACE is not; start with srun --mpi=pmix, accel "
                 "launch or Open MPI's mpirun, or pass an out-of-band hook",
                 pmi);
        return AX_LAUNCHER_WITHOUT;
    }
    if (stale)
        snprintf(reason, room,
                 "PMIX_NAMESPACE=%.64s is that of another step; this one has "
                 "one task and no PMIx",
                 value_of(get, "PMIX_NAMESPACE"));
    else if (tasks == 1)
        snprintf(reason, room, "a Slurm step of one task without PMIx");
    else
        snprintf(reason, room, "no launcher: PMIX_NAMESPACE is not set");
    return AX_LAUNCHER_NONE;
}
