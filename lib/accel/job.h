/*
 * Who am I, and who are my peers. PMIx answers under srun, mpirun and
 * accel launch; a program started by none of them is a world of one; and a
 * caller with a launcher of its own passes an out-of-band hook.
 *
 * A node is what the launcher calls a node. Several nodes may share one
 * hostname, and one node's name may contain dots.
 */
#ifndef ACCEL_JOB_H
#define ACCEL_JOB_H

#include <accel/base.h>
#include <accel/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct accel_job accel_job_t;

/*
 * The caller's own bootstrap: rank, size, and one all-gather. `allgather`
 * gets `bytes` bytes from every rank and must fill `recv` with size * bytes
 * bytes in rank order on every rank; it returns 0, or any other value on
 * failure. `node` names the node this rank runs on; NULL means gethostname().
 * `mpi_comm` points to an MPI_Comm over the same processes, for net=mpi, or is
 * NULL; accel_mpi_adopt() fills in all of this for an MPI program. The struct
 * is copied; `context` and `mpi_comm` must live until accel_job_close().
 */
typedef struct accel_oob {
    int rank;
    int size;
    const char *node;
    int (*allgather)(void *context, const void *send, void *recv, size_t bytes);
    void *context;
    const void *mpi_comm;
} accel_oob_t;

/*
 * Finds out rank, size and nodes. `settings` gives "pmix" and "timeout" and
 * is kept by reference: it must outlive the job. `oob` may be NULL.
 *
 * Collective over all ranks of the step when there is a launcher. On failure
 * *out is NULL and every rank that reached the exchange gets an error.
 * One job at a time in a process, unless all come from a hook; open and close
 * it on one thread. After accel_job_close() another one may be opened.
 *
 * ACCEL_ERR_UNSUPPORTED: several tasks but no PMIx (the text says which srun
 * option to add); ACCEL_ERR_STATE: a job is open already. Whether all ranks
 * run with the same settings and library is found out by accel_comm_open().
 */
ACCEL_API accel_status_t accel_job_open(const accel_settings_t *settings,
                                        const accel_oob_t *oob,
                                        accel_job_t **out);

/*
 * Frees the job; names and reasons it owned are gone. PMIx stays open for the
 * next job, and for MPI_Init(), until the process exits: it cannot be started
 * twice in a process. The setting pmix=close leaves it at the end of
 * start-up. NULL is fine. Local.
 */
ACCEL_API void accel_job_close(accel_job_t *job);

/*
 * What follows is local, for any thread. Of a job that is NULL a rank or node
 * is -1, a number of them 0, a text NULL.
 */

/* My rank in [0, size), and the number of ranks. */
ACCEL_API int accel_job_rank(const accel_job_t *job);
ACCEL_API int accel_job_size(const accel_job_t *job);

/* My rank among those of my node in rank order, and their number. */
ACCEL_API int accel_job_local_rank(const accel_job_t *job);
ACCEL_API int accel_job_local_size(const accel_job_t *job);

/*
 * My node in [0, nodes), and the number of nodes. Nodes are numbered in the
 * order of their lowest rank.
 */
ACCEL_API int accel_job_node(const accel_job_t *job);
ACCEL_API int accel_job_nodes(const accel_job_t *job);

/*
 * The node of any rank, that rank's local rank there, and the name of a node
 * (owned by the job). -1 or NULL for a rank or node that does not exist.
 */
ACCEL_API int accel_job_node_of(const accel_job_t *job, int rank);
ACCEL_API int accel_job_local_rank_of(const accel_job_t *job, int rank);
ACCEL_API const char *accel_job_node_name(const accel_job_t *job, int node);

/*
 * Who told us: "pmix", "single" or "custom", and a sentence for people on
 * why, which names what was found and what was passed over. Owned by the job.
 */
ACCEL_API const char *accel_job_provider(const accel_job_t *job);
ACCEL_API const char *accel_job_reason(const accel_job_t *job);

/*
 * The names in a node list as Slurm writes it: "n[1,3-4],m[001-003]c[1-2]".
 * On success *names is an array of *count strings in the order of the list,
 * one allocation, for the caller to free(). ACCEL_ERR_ARG for an empty list,
 * a missing bracket, an empty or descending range, or more than 1,000,000
 * names; *names is then NULL. Local.
 */
ACCEL_API accel_status_t accel_job_nodelist(const char *list, char ***names,
                                            size_t *count);

#ifdef __cplusplus
}
#endif
#endif
