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

static void once(const char *op, MPI_Datatype type, void *send, void *recv,
                 int count)
{
    if (strcmp(op, "all-reduce") == 0)
        MPI_Allreduce(MPI_IN_PLACE, send, count, type, MPI_SUM, MPI_COMM_WORLD);
    else if (strcmp(op, "reduce-scatter") == 0)
        MPI_Reduce_scatter_block(send, recv, count / size, type, MPI_SUM,
                                 MPI_COMM_WORLD);
    else if (strcmp(op, "all-gather") == 0)
        MPI_Allgather(send, count / size, type, recv, count / size, type,
                      MPI_COMM_WORLD);
    else if (strcmp(op, "broadcast") == 0)
        MPI_Bcast(send, count, type, 0, MPI_COMM_WORLD);
    else
        MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    size_t bytes = (size_t)strtoull(argv[4], NULL, 10);
    int wide = strcmp(argv[2], "f64") == 0;
    MPI_Datatype type = wide ? MPI_DOUBLE : MPI_FLOAT;
    int count = (int)(bytes / (wide ? 8 : 4));
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
            once(argv[1], type, send, recv, count);
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
