/*
 * How a test program finds its ranks: by PMIx, or, when it was compiled with
 * WITH_MPI, from MPI_COMM_WORLD, over MP_NODES pretended nodes, which are
 * filled one after the other.
 */
#ifndef MP_START_H
#define MP_START_H

#include <accel/job.h>

#ifdef WITH_MPI
#include <accel/mpi.h>

static accel_mpi_t mp_mpi;

static const accel_oob_t *mp_oob(void)
{
    const char *text = getenv("MP_NODES");
    int nodes = text ? atoi(text) : 1, level = 0;

    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (accel_mpi_adopt(MPI_COMM_WORLD, &mp_mpi) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 4);
    int each = (mp_mpi.oob.size + nodes - 1) / nodes;
    if (text)
        snprintf(mp_mpi.node, sizeof mp_mpi.node, "n%d",
                 mp_mpi.oob.rank / each);
    return &mp_mpi.oob;
}

/* After a fault others may be gone: then MPI_Finalize() would wait for ever. */
static void mp_end(bool well)
{
    if (!well)
        return;
    accel_mpi_release(&mp_mpi);
    MPI_Finalize();
}
#else
static const accel_oob_t *mp_oob(void)
{
    return NULL;
}

static void mp_end(bool well)
{
    (void)well;
}
#endif
#endif
