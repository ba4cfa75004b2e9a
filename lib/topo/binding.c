/* Is this process bound as its user thinks? */
#include "topo.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUS_MAX 8192

/* A count in the environment; 0 when it is not set or is no number. "4,2" is
 * OpenMP's list for nested levels: the first counts. */
static int count_in(char *(*get)(const char *), const char *name)
{
    const char *text = get(name);
    long value;
    char *end;

    if (!text || !*text)
        return 0;
    value = strtol(text, &end, 10);
    if ((*end && *end != ',') || value < 0 || value > 1000000)
        return 0;
    return (int)value;
}

void ax_topo_binding_texts(char *(*get)(const char *name), int threads,
                           const char *cpus, char *promised, char *omp,
                           size_t room)
{
    int per_task = count_in(get, "SLURM_CPUS_PER_TASK");
    int wanted = count_in(get, "OMP_NUM_THREADS");
    const char *s = threads == 1 ? "" : "s";

    promised[0] = omp[0] = '\0';
    if (per_task > threads)
        snprintf(promised, room,
                 "topo: SLURM_CPUS_PER_TASK is %d, but this task may run on %d "
                 "CPU%s (%s): srun does not take the number from sbatch; give "
                 "srun -c %d, or set SRUN_CPUS_PER_TASK=%d",
                 per_task, threads, s, cpus, per_task, per_task);
    if (wanted > threads)
        snprintf(omp, room,
                 "topo: OMP_NUM_THREADS is %d, but this task may run on %d "
                 "CPU%s (%s): its threads take turns",
                 wanted, threads, s, cpus);
}

/* "0-3,8"; cut with "..." when it does not fit. */
static void list_cpus(const cpu_set_t *set, size_t bytes, char *out,
                      size_t room)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t from = 0; from < CPUS_MAX; from++) {
        if (!CPU_ISSET_S(from, bytes, set))
            continue;
        size_t to = from;
        while (to + 1 < CPUS_MAX && CPU_ISSET_S(to + 1, bytes, set))
            to++;
        if (used + 16 >= room) {
            snprintf(out + used, room - used, "...");
            return;
        }
        int n = from == to ? snprintf(out + used, room - used, "%s%zu",
                                      used ? "," : "", from)
                           : snprintf(out + used, room - used, "%s%zu-%zu",
                                      used ? "," : "", from, to);
        used += n > 0 ? (size_t)n : 0;
        from = to;
    }
}

void ax_topo_check_binding(int local_rank)
{
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    char cpus[128], promised[400], omp[400];

    if (local_rank != 0)
        return;
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    if (!set || sched_getaffinity(0, bytes, set) != 0) {
        /* Not worth an error: nothing depends on it. */
        CPU_FREE(set);
        return;
    }
    list_cpus(set, bytes, cpus, sizeof cpus);
    ax_topo_binding_texts(getenv, CPU_COUNT_S(bytes, set), cpus, promised, omp,
                          sizeof promised);
    CPU_FREE(set);
    if (promised[0])
        ax_log(AX_LOG_WARN, "%s", promised);
    if (omp[0])
        ax_log(AX_LOG_WARN, "%s", omp);
}
