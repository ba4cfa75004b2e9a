/*
 * topo: what train and comm may use beside <accel/topo.h>.
 */
#ifndef AX_TOPO_H
#define AX_TOPO_H

#include "base/base.h"
#include <accel/topo.h>

/*
 * Warns, once a node (on local rank 0), when this process may run on fewer
 * hardware threads than it was promised (SLURM_CPUS_PER_TASK) or will start
 * (OMP_NUM_THREADS). Cheap: it does not look at the machine.
 */
void ax_topo_check_binding(int local_rank);

/*
 * The texts of those warnings, for tests: `get` is getenv(), `threads` what
 * the process may run on, `cpus` the same as a list. Writes at most one text
 * each, "" when all is well.
 */
void ax_topo_binding_texts(char *(*get)(const char *name), int threads,
                           const char *cpus, char *promised, char *omp,
                           size_t room);

/*
 * The package and the last-level cache above all CPUs that this process may
 * run on, as numbers within the machine; -1: there is no single one, or it is
 * not known.
 */
void ax_topo_place(int *package, int *cache);

#endif
