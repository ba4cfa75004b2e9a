/*
 * accel and MPI in one process: "mp_job_mpi accel" opens accel first,
 * "mp_job_mpi mpi" starts MPI first, "mp_job_mpi accel-close" opens and
 * closes accel before MPI starts. Both must see the same world.
 */
#include "job/job.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static accel_settings_t *settings;
static accel_job_t *job;

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "mp_job_mpi: wrong %s; newest error of accel: %s\n", what,
            accel_last_error()->text);
    exit(1); /* not MPI_Abort(): MPI may not run yet */
}

static void open_accel(void)
{
    check(accel_settings_load(NULL, &settings) == ACCEL_OK, "settings");
    check(accel_job_open(settings, NULL, &job) == ACCEL_OK, "open");
    check(ax_job_exchange(job, "hello", 5) == ACCEL_OK, "exchange");
}

static void close_accel(void)
{
    accel_job_close(job);
    accel_settings_free(settings);
}

/* A message around the ring, and a sum that MPI makes of accel's ranks. */
static void use_mpi(int rank, int size)
{
    int mine = rank + 1, sum = 0, token = rank, got = -1;

    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == size * (size + 1) / 2, "sum");
    MPI_Sendrecv(&token, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    check(got == (rank + size - 1) % size, "ring");
}

static void compare(int *rank, int *size)
{
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, size);
    if (!job)
        return;
    check(accel_job_rank(job) == *rank, "rank");
    check(accel_job_size(job) == *size, "size");
}

int main(int argc, char **argv)
{
    const char *order = argc > 1 ? argv[1] : "accel";
    bool closed = strcmp(order, "accel-close") == 0;
    int rank, size;

    if (strcmp(order, "mpi") != 0)
        open_accel();
    if (closed) {
        close_accel();
        job = NULL;
    }
    MPI_Init(&argc, &argv);
    if (strcmp(order, "mpi") == 0)
        open_accel();
    compare(&rank, &size);
    use_mpi(rank, size);
    printf("mpi %s rank %d of %d\n", order, rank, size);
    fflush(stdout);
    /* and out again in the other order */
    if (strcmp(order, "mpi") == 0)
        close_accel();
    MPI_Finalize();
    if (strcmp(order, "accel") == 0)
        close_accel();
    return 0;
}
