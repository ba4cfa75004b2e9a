/* What a task finds in its environment. */
#include "spank_priv.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_CPUS 65536

/* What the plugin writes into a task's environment, each with its owner. */
static const char *const written[] = {AX_SPEC_ENV, AX_END_ENV, AX_THREADS_ENV};

/* ---- the time limit ------------------------------------------------------ */

/* Of libslurm, which srun has loaded; NULL elsewhere. */
#pragma weak slurm_load_job
#pragma weak slurm_free_job_info_msg
#pragma weak slurm_get_job_steps
#pragma weak slurm_free_job_step_info_response_msg

typedef struct span {
    int64_t left;  /* seconds; of the controller's own clock */
    int64_t whole; /* 0: no limit */
} span_t;

static span_t job_limit(uint32_t job)
{
    job_info_msg_t *answer = NULL;
    span_t span = {0, 0};

    if (!slurm_load_job || !slurm_free_job_info_msg ||
        slurm_load_job(&answer, job, 0) != 0)
        return span;
    for (uint32_t i = 0; i < answer->record_count; i++) {
        const job_info_t *one = &answer->job_array[i];
        if (one->job_id != job || one->end_time <= one->start_time ||
            one->time_limit == INFINITE || one->time_limit == NO_VAL)
            continue;
        span.left = (int64_t)(one->end_time - answer->last_update);
        span.whole = (int64_t)(one->end_time - one->start_time);
    }
    slurm_free_job_info_msg(answer);
    return span;
}

static span_t step_limit(uint32_t job, uint32_t step)
{
    job_step_info_response_msg_t *answer = NULL;
    span_t span = {0, 0};

    if (!slurm_get_job_steps || !slurm_free_job_step_info_response_msg ||
        slurm_get_job_steps(0, job, step, &answer, 0) != 0)
        return span;
    for (uint32_t i = 0; i < answer->job_step_count; i++) {
        const job_step_info_t *one = &answer->job_steps[i];
        if (one->time_limit == INFINITE || one->time_limit == NO_VAL)
            continue;
        span.whole = (int64_t)one->time_limit * 60;
        span.left =
            (int64_t)(one->start_time - answer->last_update) + span.whole;
    }
    slurm_free_job_step_info_response_msg(answer);
    return span;
}

static bool whose(spank_t spank, uint32_t *job, uint32_t *step)
{
    return spank_get_item(spank, S_JOB_ID, job) == ESPANK_SUCCESS &&
           spank_get_item(spank, S_JOB_STEPID, step) == ESPANK_SUCCESS;
}

/* Once per srun: these are calls to slurmctld. */
void ax_tasks_send_limit(spank_t spank)
{
    ax_owner_t me;
    char text[64], sent[96];

    unsetenv(AX_LIMIT_SENT); /* of a step around this one */
    if (!whose(spank, &me.job, &me.step))
        return;
    span_t span = job_limit(me.job), step = step_limit(me.job, me.step);
    if (step.whole && (!span.whole || step.left < span.left))
        span = step;
    snprintf(text, sizeof text, "%lld/%lld", (long long)span.left,
             (long long)span.whole);
    if (span.whole > 0 && ax_spec_mark(&me, text, sent, sizeof sent))
        setenv(AX_LIMIT_SENT, sent, 1);
}

static int64_t seconds_here(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec;
}

/* When slurmstepd began: what was left when srun asked is counted from here,
 * not from when the tasks start, which may be after a long prolog. */
static int64_t began;

void ax_tasks_begin(void)
{
    began = seconds_here();
}

/* ---- whose a value is ---------------------------------------------------- */

/* As the task will see it. A batch script's values are its whole job's, also
 * where it has inherited the number of the step that submitted it. */
static ax_owner_t owner_of(spank_t spank)
{
    char job[32] = "", step[32] = "";
    uint32_t number = 0;

    spank_getenv(spank, "SLURM_JOB_ID", job, sizeof job);
    spank_getenv(spank, "SLURM_STEP_ID", step, sizeof step);
    if (spank_get_item(spank, S_JOB_STEPID, &number) == ESPANK_SUCCESS &&
        number >= AX_STEP_SPECIAL)
        step[0] = '\0';
    return ax_spec_me(job, step);
}

static void put(spank_t spank, const char *name, const char *value)
{
    ax_owner_t me = owner_of(spank);
    char text[AX_SPEC_MAX + 32];

    if (ax_spec_mark(&me, value, text, sizeof text))
        spank_setenv(spank, name, text, 1);
}

/* "7.0:4" stands beside the OMP_NUM_THREADS=4 that the plugin set. */
static bool is_threads(const char *name, const char *value, const char *now)
{
    return strcmp(name, AX_THREADS_ENV) == 0 && strcmp(value, now) == 0;
}

/* What another job's or step's plugin has left; with `all` also this job's. */
static void forget(spank_t spank, bool all)
{
    ax_owner_t me = owner_of(spank), owner;
    char text[AX_SPEC_MAX + 32], threads[32] = "";

    spank_getenv(spank, "OMP_NUM_THREADS", threads, sizeof threads);
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        if (spank_getenv(spank, written[i], text, sizeof text) !=
            ESPANK_SUCCESS)
            continue;
        const char *value = ax_spec_owner(text, &owner);
        if (!value || (!all && ax_spec_is_for(&owner, &me)))
            continue;
        spank_unsetenv(spank, written[i]);
        if (is_threads(written[i], value, threads))
            spank_unsetenv(spank, "OMP_NUM_THREADS");
    }
}

void ax_tasks_forget_here(void)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    ax_owner_t owner;

    unsetenv(AX_SPANK_ENV);
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        const char *value = ax_spec_owner(getenv(written[i]), &owner);
        if (!value)
            continue;
        if (threads && is_threads(written[i], value, threads))
            unsetenv("OMP_NUM_THREADS");
        unsetenv(written[i]);
    }
}

/* Of "7.0:LEFT/WHOLE" the tasks get the time at which it is over here. */
static void put_end(spank_t spank)
{
    char sent[96], text[64];
    ax_owner_t owner, me;
    long long left, whole;

    if (spank_getenv(spank, AX_LIMIT_SENT, sent, sizeof sent) !=
            ESPANK_SUCCESS ||
        !whose(spank, &me.job, &me.step))
        return;
    const char *value = ax_spec_owner(sent, &owner);
    if (!value || !ax_spec_is_for(&owner, &me) ||
        sscanf(value, "%lld/%lld", &left, &whole) != 2)
        return;
    /* A limit that is over ends at once, not before the clock began. */
    long long end = (long long)began + left;
    snprintf(text, sizeof text, "%lld/%lld", end > 0 ? end : 0, whole);
    put(spank, AX_END_ENV, text);
}

/* ---- threads ------------------------------------------------------------- */

/* The CPUs that this task may use. Without task binding every task may use
 * all of the node, and the tasks have to share. */
static int my_cpus(spank_t spank)
{
    size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
    cpu_set_t *set = CPU_ALLOC(MAX_CPUS);
    uint32_t tasks = 0;
    int cpus = 0;

    if (!set)
        return 0;
    if (sched_getaffinity(0, bytes, set) == 0)
        cpus = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (cpus >= sysconf(_SC_NPROCESSORS_ONLN) &&
        spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) ==
            ESPANK_SUCCESS &&
        tasks > 1)
        cpus = (uint32_t)cpus > tasks ? cpus / (int)tasks : 1;
    return cpus;
}

static void put_threads(spank_t spank)
{
    char text[16];
    int cpus = my_cpus(spank);

    if (cpus < 1)
        return;
    snprintf(text, sizeof text, "%d", cpus);
    if (spank_setenv(spank, "OMP_NUM_THREADS", text, 0) == ESPANK_SUCCESS)
        put(spank, AX_THREADS_ENV, text); /* the user's stays */
}

/* ---- a task -------------------------------------------------------------- */

/* Slurm leaves it to the tasks, and so to the jobs that they submit, as it
 * does for --mpi=; only the plugin's own choice is taken back. */
static void take_back_mpi(spank_t spank)
{
    char ours[64], now[64];

    if (spank_getenv(spank, AX_MPI_SENT, ours, sizeof ours) != ESPANK_SUCCESS)
        return;
    if (spank_getenv(spank, "SLURM_MPI_TYPE", now, sizeof now) ==
            ESPANK_SUCCESS &&
        strcmp(ours, now) == 0)
        spank_unsetenv(spank, "SLURM_MPI_TYPE");
    spank_unsetenv(spank, AX_MPI_SENT);
}

int ax_tasks_init(spank_t spank)
{
    uint32_t step = 0;

    forget(spank, ax_option_off());
    take_back_mpi(spank);
    if (ax_option_active()) {
        put(spank, AX_SPEC_ENV, ax_option_spec());
        put_end(spank);
    }
    spank_unsetenv(spank, AX_LIMIT_SENT);
    if (!ax_option_active())
        return 0;
    /* Also when it is wrong: where the plugin is optional Slurm starts the
     * task all the same, and then the library refuses it. */
    if (ax_option_error()[0])
        return -1;
    /* Not into a batch script: its steps have other masks than it has. */
    if (spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
        step < AX_STEP_SPECIAL)
        put_threads(spank);
    return 0;
}
