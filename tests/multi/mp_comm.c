/*
 * The collectives between real processes. Run it under a launcher:
 *   mp_comm [quick | rounds N]
 * Rank 0 prints "ok: ..." once.
 */
#include "multi/mp_start.h"
#include "multi/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(void)
{
    fprintf(stderr, "mp_comm: %s\n", accel_last_error()->text);
    return 1;
}

int main(int argc, char **argv)
{
    accel_settings_t *settings;
    accel_comm_t *comm;
    accel_job_t *job;

    if (accel_settings_load(NULL, &settings) != ACCEL_OK ||
        accel_job_open(settings, mp_oob(), &job) != ACCEL_OK ||
        accel_comm_open(job, settings, &comm) != ACCEL_OK)
        return complain();
    if (argc > 2 && strcmp(argv[1], "rounds") == 0)
        sweep_rounds(comm, atoi(argv[2]));
    else
        sweep(comm, argc > 1 && strcmp(argv[1], "quick") == 0);
    if (accel_comm_rank(comm) == 0)
        printf("ok: %d ranks on %d nodes, %s\n", accel_comm_size(comm),
               accel_job_nodes(job), accel_comm_transport(comm));
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    mp_end(true);
    return 0;
}
