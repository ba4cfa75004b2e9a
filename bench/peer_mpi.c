/*
 * The same cases as bench_comm over MPI:
 *   peer_mpi OP DTYPE MEMORY BYTES
 * DTYPE f32 or f64 (MPI has no 16-bit floats). Prints "unit<TAB>value".
 */
#include <mpi.h>
#include <stdint.h>

#include "bench.h"

static int rank, size;

/* Memory that was never written is one page of zeros, in every cache: reading
 * that would cost nothing. */
static void *take(size_t bytes)
{
    volatile char *p = calloc(bytes + 1, 1);

    for (size_t i = 0; p && i < bytes; i += 4096)
        p[i] = 0;
    return (void *)(uintptr_t)p;
}

typedef void (*op_fn)(MPI_Datatype type, void *send, void *recv, int count);

static void allreduce(MPI_Datatype type, void *send, void *recv, int count)
{
    (void)recv;
    MPI_Allreduce(MPI_IN_PLACE, send, count, type, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(MPI_Datatype type, void *send, void *recv, int count)
{
    MPI_Reduce_scatter_block(send, recv, count / size, type, MPI_SUM,
                             MPI_COMM_WORLD);
}

static void allgather(MPI_Datatype type, void *send, void *recv, int count)
{
    MPI_Allgather(send, count / size, type, recv, count / size, type,
                  MPI_COMM_WORLD);
}

static void broadcast(MPI_Datatype type, void *send, void *recv, int count)
{
    (void)recv;
    MPI_Bcast(send, count, type, 0, MPI_COMM_WORLD);
}

static void barrier(MPI_Datatype type, void *send, void *recv, int count)
{
    (void)type, (void)send, (void)recv, (void)count;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Once, so that names are not compared while it is timed. */
static op_fn op_of(const char *name)
{
    if (strcmp(name, "all-reduce") == 0)
        return allreduce;
    if (strcmp(name, "reduce-scatter") == 0)
        return reduce_scatter;
    if (strcmp(name, "all-gather") == 0)
        return allgather;
    return strcmp(name, "broadcast") == 0 ? broadcast : barrier;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    size_t bytes = (size_t)strtoull(argv[4], NULL, 10);
    int wide = strcmp(argv[2], "f64") == 0;
    MPI_Datatype type = wide ? MPI_DOUBLE : MPI_FLOAT;
    int count = (int)(bytes / (wide ? 8 : 4));
    op_fn once = op_of(argv[1]);
    int rounds = bench_rounds(bytes);
    double best = 1e30;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void *send = take(bytes), *recv = take(bytes);
    if (!send || !recv)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < bench_batches(bytes); k++) {
        double start = bench_now();
        for (int i = 0; i < rounds; i++)
            once(type, send, recv, count);
        double took = (bench_now() - start) / rounds;
        best = took < best ? took : best;
    }
    if (rank == 0)
        bench_collective(bytes, best);
    free(send);
    free(recv);
    MPI_Finalize();
    return 0;
}
