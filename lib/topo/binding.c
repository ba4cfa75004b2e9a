/* Is this process bound as its user thinks? */
#include "topo_priv.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void ax_topo_list_cpus(hwloc_const_bitmap_t cpus, char *out, size_t room)
{
    int n = hwloc_bitmap_list_snprintf(out, room, cpus);

    if (n >= 0 && (size_t)n < room)
        return;
    /* The last number may be cut: back to a comma that leaves room for it. */
    out[room - 4] = '\0';
    char *comma = strrchr(out, ',');
    memcpy(comma ? comma + 1 : out, "...", 4);
}

/* What the kernel says that this thread may run on; NULL when it does not. */
static hwloc_bitmap_t my_cpus(void)
{
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

    if (!set || !cpus || sched_getaffinity(0, bytes, set) != 0) {
        hwloc_bitmap_free(cpus);
        CPU_FREE(set);
        return NULL;
    }
    for (unsigned i = 0; i < CPUS_MAX; i++)
        if (CPU_ISSET_S(i, bytes, set))
            hwloc_bitmap_set(cpus, i);
    CPU_FREE(set);
    return cpus;
}

void ax_topo_check_binding(int local_rank)
{
    char list[128], promised[400], omp[400];

    if (local_rank != 0)
        return;
    hwloc_bitmap_t cpus = my_cpus();
    if (!cpus)
        return; /* not worth an error: nothing depends on it */
    ax_topo_list_cpus(cpus, list, sizeof list);
    ax_topo_binding_texts(getenv, hwloc_bitmap_weight(cpus), list, promised,
                          omp, sizeof promised);
    hwloc_bitmap_free(cpus);
    if (promised[0])
        ax_log(AX_LOG_WARN, "%s", promised);
    if (omp[0])
        ax_log(AX_LOG_WARN, "%s", omp);
}

/* ---- where that is ----------------------------------------------------------
 */

void ax_topo_place_in(hwloc_topology_t hw, hwloc_const_cpuset_t cpus,
                      int *package, int *cache)
{
    static const hwloc_obj_type_t types[] = {HWLOC_OBJ_PACKAGE,
                                             HWLOC_OBJ_L3CACHE};
    int *found[] = {package, cache};

    for (int i = 0; i < 2; i++) {
        int depth = hwloc_get_type_depth(hw, types[i]);
        hwloc_obj_t at = depth < 0
                             ? NULL
                             : hwloc_get_next_obj_covering_cpuset_by_depth(
                                   hw, cpus, depth, NULL);
        bool all = at && hwloc_bitmap_isincluded(cpus, at->cpuset);
        *found[i] =
            all && !hwloc_bitmap_iszero(cpus) ? (int)at->logical_index : -1;
    }
}

/* Of the whole machine only what that needs. */
static bool load_caches(hwloc_topology_t *out)
{
    hwloc_topology_t hw;

    if (hwloc_topology_init(&hw) != 0)
        return false;
    hwloc_topology_set_flags(hw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    /* It would run on each processor in turn, to ask what Linux has told. */
    hwloc_topology_set_components(hw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                  "x86");
    hwloc_topology_set_all_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(hw, HWLOC_OBJ_PACKAGE,
                                   HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(hw, HWLOC_OBJ_L3CACHE,
                                   HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(hw) != 0) {
        hwloc_topology_destroy(hw);
        return false;
    }
    *out = hw;
    return true;
}

void ax_topo_place(int *package, int *cache)
{
    hwloc_bitmap_t cpus = my_cpus();
    hwloc_topology_t hw;

    *package = *cache = -1;
    /* who may run everywhere has no place: no need to look at the machine */
    if (cpus && hwloc_bitmap_weight(cpus) < sysconf(_SC_NPROCESSORS_ONLN) &&
        load_caches(&hw)) {
        ax_topo_place_in(hw, cpus, package, cache);
        hwloc_topology_destroy(hw);
    }
    hwloc_bitmap_free(cpus);
}
