/* A Slurm of one process, for the tests of the plugin. */
#ifndef SPANK_RIG_H
#define SPANK_RIG_H

#include "unit/unit.h"

#include "spank/spank_priv.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- a Slurm of one process ---------------------------------------------- */

static struct {
    spank_context_t context;
    const struct spank_option *option;
    spank_err_t register_result;
    uint32_t job, step, local_tasks;
    uint32_t job_minutes, step_minutes; /* 0: no answer */
    int calls, freed;
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

static inline int find_variable(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(slurm.env); i++)
        if (strcmp(slurm.env[i].name, name) == 0)
            return (int)i;
    return -1;
}

static inline const char *task_env(const char *name)
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

/* The controller's clock, which is not ours. */
#define NOW 5000000

int slurm_load_job(job_info_msg_t **out, uint32_t job, uint16_t flags)
{
    static job_info_t jobs[2];
    static job_info_msg_t answer;

    (void)flags;
    assert_int_equal(job, slurm.job);
    slurm.calls++;
    if (!slurm.job_minutes)
        return -1;
    memset(jobs, 0, sizeof jobs);
    jobs[0].job_id = job + 1; /* another part of a heterogeneous job */
    jobs[0].end_time = NOW + 1;
    jobs[1].job_id = job;
    jobs[1].start_time = NOW - 50;
    jobs[1].time_limit = slurm.job_minutes;
    jobs[1].end_time = NOW - 50 + (time_t)slurm.job_minutes * 60;
    answer.last_update = NOW;
    answer.record_count = 2;
    answer.job_array = jobs;
    *out = &answer;
    return 0;
}

void slurm_free_job_info_msg(job_info_msg_t *answer)
{
    (void)answer;
    slurm.freed++;
}

int slurm_get_job_steps(time_t since, uint32_t job, uint32_t step,
                        job_step_info_response_msg_t **out, uint16_t flags)
{
    static job_step_info_t steps[1];
    static job_step_info_response_msg_t answer;

    (void)since;
    (void)flags;
    assert_int_equal(job, slurm.job);
    assert_int_equal(step, slurm.step);
    slurm.calls++;
    if (!slurm.step_minutes)
        return -1;
    memset(steps, 0, sizeof steps);
    steps[0].start_time = NOW - 10;
    steps[0].time_limit = slurm.step_minutes;
    answer.last_update = NOW;
    answer.job_step_count = 1;
    answer.job_steps = steps;
    *out = &answer;
    return 0;
}

void slurm_free_job_step_info_response_msg(job_step_info_response_msg_t *answer)
{
    (void)answer;
    slurm.freed++;
}

static inline int fresh(void **state)
{
    (void)state;
    memset(&slurm, 0, sizeof slurm);
    slurm.register_result = ESPANK_SUCCESS;
    slurm.job = 7;
    slurm.local_tasks = 1;
    unsetenv(AX_SPANK_ENV);
    unsetenv("SLURM_MPI_TYPE");
    unsetenv(AX_LIMIT_SENT);
    unsetenv(AX_MPI_SENT);
    spank_setenv(NULL, "SLURM_JOB_ID", "7", 1);
    spank_setenv(NULL, "SLURM_STEP_ID", "0", 1);
    ax_option_reset();
    return 0;
}

static inline int init_in(spank_context_t context)
{
    slurm.context = context;
    return slurm_spank_init(NULL, 0, NULL);
}

static inline int given(const char *value, int remote)
{
    return slurm.option->cb(slurm.option->val, value, remote);
}

static inline int start_task(void)
{
    slurm.context = S_CTX_REMOTE;
    slurm_spank_user_init(NULL, 0, NULL);
    return slurm_spank_task_init(NULL, 0, NULL);
}

/* Standard error of one call, in `out`. */
static inline int catch_stderr(int (*call)(const char *), const char *arg,
                               char *out, size_t room)
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

static inline void same_text(const char *got, const char *want)
{
    if (want)
        assert_string_equal(got, want);
    else
        assert_null(got);
}

#define TEST(f) cmocka_unit_test_setup(f, fresh)

#endif
