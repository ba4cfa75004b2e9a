/* What a task finds in its environment. */
#include "spank_priv.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_CPUS 65536

static bool is_number(const char *s)
{
    return *s && strspn(s, "0123456789") == strlen(s) && strlen(s) < 20;
}

#if AX_MUST_ASK_END_TIME
/* Of libslurm, which srun has loaded; NULL elsewhere. */
#pragma weak slurm_get_end_time

/* Once per srun: it is a call to slurmctld. */
void ax_tasks_send_end_time(spank_t spank)
{
    uint32_t job;
    time_t end = 0;
    char text[24];

    if (!slurm_get_end_time ||
        spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        slurm_get_end_time(job, &end) != 0 || end <= 0)
        return;
    snprintf(text, sizeof text, "%lld", (long long)end);
    setenv(AX_END_TIME_SENT, text, 1);
}
#else
void ax_tasks_send_end_time(spank_t spank)
{
    (void)spank;
}
#endif

static void put_end_time(spank_t spank)
{
    char end[32];

    if ((spank_getenv(spank, AX_END_TIME_SENT, end, sizeof end) ==
             ESPANK_SUCCESS ||
         spank_getenv(spank, "SLURM_JOB_END_TIME", end, sizeof end) ==
             ESPANK_SUCCESS) &&
        is_number(end))
        spank_setenv(spank, AX_END_TIME, end, 1);
    spank_unsetenv(spank, AX_END_TIME_SENT);
}

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
    spank_setenv(spank, "OMP_NUM_THREADS", text, 0); /* the user's stays */
}

/* A step in a batch script inherits the script's variables. */
static void take_back(spank_t spank)
{
    spank_unsetenv(spank, AX_SPEC_ENV);
    spank_unsetenv(spank, AX_END_TIME);
    spank_unsetenv(spank, AX_END_TIME_SENT);
}

int ax_tasks_init(spank_t spank)
{
    uint32_t step = 0;

    if (ax_option_off())
        take_back(spank);
    if (!ax_option_active())
        return 0;
    /* Also when it is wrong: where the plugin is optional Slurm starts the
     * task all the same, and then the library refuses it. */
    if (spank_setenv(spank, AX_SPEC_ENV, ax_option_spec(), 1) !=
            ESPANK_SUCCESS ||
        ax_option_error()[0])
        return -1;
    put_end_time(spank);
    /* Not into a batch script: its steps have other masks than it has. */
    if (spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
        step < AX_STEP_SPECIAL)
        put_threads(spank);
    return 0;
}
