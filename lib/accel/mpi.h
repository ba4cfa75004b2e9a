/*
 * An MPI program adopts accel: ranks, nodes and the start come from a
 * communicator of the program instead of PMIx. It may be a part of
 * MPI_COMM_WORLD; the other processes then have nothing to do with accel.
 *
 *     accel_mpi_t mpi;
 *     accel_mpi_adopt(MPI_COMM_WORLD, &mpi);
 *     accel_open(ACCEL_OPTIONS(.oob = &mpi.oob), &acc);
 *     ...
 *     accel_close(acc);
 *     accel_mpi_release(&mpi);
 *
 * <accel.h> does not include this header: it needs <mpi.h>, so programs that
 * use it are compiled with mpicc or mpicxx. libaccel knows nothing of MPI; all
 * of this is compiled into the program. How the nodes are joined is another
 * matter: the setting "net" says so, and net=mpi takes this communicator.
 */
#ifndef ACCEL_MPI_H
#define ACCEL_MPI_H

#include <accel/base.h>
#include <accel/job.h>

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACCEL_MPI_NODE_MAX 192 /* of a node's name, with its NUL */

/*
 * What is adopted: must neither move nor end before the last job over it is
 * closed. `oob` goes into accel_options_t or accel_job_open(); oob.node may be
 * set to another name before. A rank that waits longer than `timeout_s`
 * seconds for the others at start-up gives up.
 */
typedef struct accel_mpi {
    MPI_Comm comm; /* a duplicate of what was given; MPI_COMM_NULL: none */
    accel_oob_t oob;
    double timeout_s;
    char node[ACCEL_MPI_NODE_MAX];
} accel_mpi_t;

/* ---- inside ---------------------------------------------------------------
 */

/* Waits for a started operation, for a time. */
static inline int accel_mpi_wait_(MPI_Request *req, double timeout_s)
{
    double end = MPI_Wtime() + timeout_s;
    int done = 0, rc = MPI_SUCCESS;

    while (rc == MPI_SUCCESS && !done) {
        rc = MPI_Test(req, &done, MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS && !done && MPI_Wtime() > end)
            return MPI_ERR_PENDING;
    }
    return rc;
}

/* The hook. MPI may still write into memory that it was given after we gave
 * up waiting, so that memory is not the caller's. */
static inline int accel_mpi_allgather_(void *context, const void *send,
                                       void *recv, size_t bytes)
{
    accel_mpi_t *mpi = (accel_mpi_t *)context;
    size_t size = (size_t)mpi->oob.size;
    char *copy = NULL;
    MPI_Request req;
    int rc;

    if (bytes > (size_t)INT_MAX)
        return MPI_ERR_COUNT;
    copy = (char *)malloc((size + 1) * bytes + 1);
    if (!copy)
        return MPI_ERR_NO_MEM;
    memcpy(copy + size * bytes, send, bytes);
    rc = MPI_Iallgather(copy + size * bytes, (int)bytes, MPI_BYTE, copy,
                        (int)bytes, MPI_BYTE, mpi->comm, &req);
    if (rc == MPI_SUCCESS)
        rc = accel_mpi_wait_(&req, mpi->timeout_s);
    if (rc == MPI_ERR_PENDING)
        return rc;
    if (rc == MPI_SUCCESS)
        memcpy(recv, copy, size * bytes);
    free(copy);
    return rc;
}

/*
 * A node is the set of processes that can share memory, as MPI says. Its name
 * is that of its first process's node: what Slurm calls it, or the machine's;
 * and when several such sets have one name, the first process's number too.
 */
static inline int accel_mpi_name_node_(accel_mpi_t *mpi)
{
    char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
    const char *slurm = getenv("SLURMD_NODENAME");
    int first = mpi->oob.rank, length = 0, rc, twice = 0;
    size_t row = sizeof mpi->node, size = (size_t)mpi->oob.size;
    MPI_Comm local = MPI_COMM_NULL;
    char *all;

    if (slurm && *slurm)
        snprintf(mpi->node, row, "%.150s", slurm);
    else if ((rc = MPI_Get_processor_name(name, &length)) != MPI_SUCCESS)
        return rc;
    else
        snprintf(mpi->node, row, "%.150s", *name ? name : "node");
    rc = MPI_Comm_split_type(mpi->comm, MPI_COMM_TYPE_SHARED, mpi->oob.rank,
                             MPI_INFO_NULL, &local);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = MPI_Bcast(&first, 1, MPI_INT, 0, local);
    if (rc == MPI_SUCCESS)
        rc = MPI_Bcast(mpi->node, (int)row, MPI_CHAR, 0, local);
    MPI_Comm_free(&local);
    if (rc != MPI_SUCCESS)
        return rc;
    /* each row: the first process of a node, and the node's name */
    row += sizeof first;
    all = (char *)malloc((size + 1) * row);
    if (!all)
        return MPI_ERR_NO_MEM;
    memcpy(all + size * row, &first, sizeof first);
    memcpy(all + size * row + sizeof first, mpi->node, sizeof mpi->node);
    rc = accel_mpi_allgather_(mpi, all + size * row, all, row);
    for (size_t r = 0; rc == MPI_SUCCESS && r < size; r++)
        if (memcmp(all + r * row, &first, sizeof first) != 0 &&
            strcmp(all + r * row + sizeof first, mpi->node) == 0)
            twice = 1;
    free(all);
    length = (int)strlen(mpi->node);
    if (twice)
        snprintf(mpi->node + length, sizeof mpi->node - (size_t)length, "#%d",
                 first);
    return rc;
}

/* ---- for programs ---------------------------------------------------------
 */

/*
 * Leaves what accel_mpi_adopt() took. After accel_close() and before
 * MPI_Finalize(); after that it does nothing. Collective over the
 * communicator. Returns MPI_SUCCESS or MPI's error.
 */
static inline int accel_mpi_release(accel_mpi_t *mpi)
{
    int over = 0;

    MPI_Finalized(&over);
    if (over || mpi->comm == MPI_COMM_NULL)
        return MPI_SUCCESS;
    mpi->oob.size = 0;
    mpi->oob.mpi_comm = NULL;
    return MPI_Comm_free(&mpi->comm);
}

/*
 * Prepares *out for accel over the processes of `comm`, an intracommunicator,
 * which is duplicated: its own messages and accel's never meet. Ranks are
 * those of `comm`. Collective over it. Returns MPI_SUCCESS; MPI_ERR_OTHER when
 * MPI is not running; MPI_ERR_COMM for MPI_COMM_NULL or an intercommunicator;
 * or MPI's error, which without a handler of the program ends it. After an
 * error *out is refused by accel_open().
 */
static inline int accel_mpi_adopt(MPI_Comm comm, accel_mpi_t *out)
{
    int there = 0, over = 0, between = 0, rc;

    memset(out, 0, sizeof *out);
    out->comm = MPI_COMM_NULL;
    out->timeout_s = 1800;
    MPI_Initialized(&there);
    MPI_Finalized(&over);
    if (!there || over)
        return MPI_ERR_OTHER;
    if (comm == MPI_COMM_NULL)
        return MPI_ERR_COMM;
    rc = MPI_Comm_test_inter(comm, &between);
    if (rc != MPI_SUCCESS || between)
        return between ? MPI_ERR_COMM : rc;
    rc = MPI_Comm_dup(comm, &out->comm);
    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Comm_set_errhandler(out->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(out->comm, &out->oob.rank);
    MPI_Comm_size(out->comm, &out->oob.size);
    out->oob.allgather = accel_mpi_allgather_;
    out->oob.context = out;
    out->oob.node = out->node;
    out->oob.mpi_comm = &out->comm;
    rc = accel_mpi_name_node_(out);
    if (rc != MPI_SUCCESS)
        (void)accel_mpi_release(out);
    return rc;
}

#ifdef __cplusplus
}
#endif
#endif
