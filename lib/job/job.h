/*
 * job: what net, comm and train may use beside <accel/job.h>.
 */
#ifndef AX_JOB_H
#define AX_JOB_H

#include "base/base.h"
#include <accel/job.h>

/* Most bytes that one rank may publish; the whole record stays below 1 KiB. */
#define AX_JOB_ENDPOINT_MAX 640

/*
 * The job's one exchange: publishes `bytes` bytes of `endpoint` together with
 * the library's version and the hash of the settings, waits for all ranks, and
 * compares. ACCEL_ERR_PROTO when the ranks run with other settings (named),
 * another library, or when two claim one rank; ACCEL_ERR_TIMEOUT. Collective,
 * once per job.
 */
accel_status_t ax_job_exchange(accel_job_t *job, const void *endpoint,
                               size_t bytes);

/*
 * Takes part in the exchange on behalf of a rank that cannot go on, so that
 * the others get its error instead of waiting: every rank then returns
 * `mine` (an error, whose text is in this thread's record) with this rank's
 * name before it. Collective as ax_job_exchange(), in its place.
 */
accel_status_t ax_job_exchange_error(accel_job_t *job, accel_status_t mine);

/*
 * The same for a rank that has not even settings to open a job with: opens
 * one, takes part with `mine` and closes it. Every rank returns that error;
 * this one does as well when the others cannot be reached. Collective, in the
 * place of opening the job and of its exchange; `oob` as in accel_job_open().
 */
accel_status_t ax_job_refuse(const accel_oob_t *oob, accel_status_t mine);

/* What `rank` published; owned by the job. NULL before the exchange. */
const void *ax_job_endpoint(const accel_job_t *job, int rank, size_t *bytes);

/* The caller's MPI communicator (accel_oob_t), or NULL. */
const void *ax_job_mpi_comm(const accel_job_t *job);

/* "rank 2 on n3" for texts; `buffer` of at least 96 bytes, returned. */
const char *ax_job_who(const accel_job_t *job, int rank, char *buffer,
                       size_t bytes);

/*
 * A rank is silent, and others go on to end without it. Under Slurm nothing
 * else would end that rank: srun would wait for it until the job's time is
 * over. So the others end the whole step when they exit, two seconds later and
 * in rank order, so that each can say why.
 */
void ax_job_leave_behind(accel_job_t *job);

/*
 * The time limit of this step, or of the job: what is left of it now, and the
 * whole. The plugin hands over what the controller said, as a time of this
 * node's monotonic clock. Without it Slurm's own variable is held against the
 * wall clock, which may be wrong on some node. False: not known.
 */
typedef struct ax_time_limit {
    int64_t left_ns;
    int64_t whole_ns;
} ax_time_limit_t;

bool ax_job_time_limit(ax_time_limit_t *out);

#endif
