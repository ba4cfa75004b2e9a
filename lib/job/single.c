/* A world of one: no launcher, nothing to exchange. */
#include "job_priv.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Slurm's name of this node when there is one: several of its nodes may share
 * a hostname. */
static accel_status_t single_open(accel_job_t *job, const accel_oob_t *oob)
{
    char host[AX_JOB_NAME_MAX] = "";
    const char *name = getenv("SLURMD_NODENAME");

    (void)oob;
    if (!name || !*name) {
        if (gethostname(host, sizeof host - 1) != 0 || !host[0])
            strcpy(host, "localhost");
        name = host;
    }
    job->rank = 0;
    job->size = 1;
    return ax_nodes_init(&job->nodes, &name, 1);
}

static accel_status_t single_allgather(accel_job_t *job,
                                       const unsigned char *mine, size_t bytes,
                                       ax_records_t *all)
{
    (void)job;
    all->data = malloc(bytes);
    if (!all->data)
        return ax_fail(ACCEL_ERR_NOMEM, "job: no memory for the exchange");
    memcpy(all->data, mine, bytes);
    all->offsets[1] = bytes;
    return ACCEL_OK;
}

const ax_provider_t ax_job_single = {
    .name = "single", .open = single_open, .allgather = single_allgather};
