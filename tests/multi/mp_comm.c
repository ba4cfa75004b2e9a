/*
 * The collectives between real processes. Run it under a launcher:
 *   mp_comm [quick | rounds N | product N | bits]
 * Rank 0 prints "ok: ..." once.
 */
#include "multi/bits.h"
#include "multi/mp_start.h"
#include "multi/product.h"
#include "multi/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(void)
{
    fprintf(stderr, "mp_comm: %s\n", accel_last_error()->text);
    return 1;
}

/* On the world, and on its odd and even ranks in reverse order. */
static bool products(accel_comm_t *comm, size_t cases)
{
    int rank = accel_comm_rank(comm);
    accel_comm_t *part;
    size_t tried = product(comm, cases, 20);

    if (accel_comm_split(comm, rank % 2, -rank, &part) != ACCEL_OK)
        return false;
    tried += product(part, cases, 21);
    accel_comm_close(part);
    if (rank == 0)
        printf("tried: %zu\n", tried);
    return true;
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
    const char *what = argc > 1 ? argv[1] : "";
    if (argc > 2 && strcmp(what, "rounds") == 0)
        sweep_rounds(comm, atoi(argv[2]));
    else if (argc > 2 && strcmp(what, "product") == 0) {
        if (!products(comm, strtoul(argv[2], NULL, 10)))
            return complain();
    } else if (strcmp(what, "bits") == 0) {
        uint64_t all = bits(comm);
        if (accel_comm_rank(comm) == 0)
            printf("bits: %016llx\n", (unsigned long long)all);
    } else
        sweep(comm, strcmp(what, "quick") == 0);
    if (accel_comm_rank(comm) == 0)
        printf("ok: %d ranks on %d nodes, %s\n", accel_comm_size(comm),
               accel_job_nodes(job), accel_comm_transport(comm));
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    mp_end(true);
    return 0;
}
