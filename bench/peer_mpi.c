/*
 * The same cases as bench_comm over MPI:
 *   peer_mpi OP DTYPE MEMORY BYTES
 * DTYPE f32 or f64 (MPI has no 16-bit floats). Prints "unit<TAB>value".
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

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
    size_t rounds = ((size_t)400 << 20) / (bytes + 20000);

    rounds = rounds < 5 ? 5 : rounds;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void *send = calloc(bytes + 1, 1), *recv = calloc(bytes + 1, 1);
    if (!send || !recv)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < rounds / 10 + 2; i++)
        once(argv[1], type, send, recv, count);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (size_t i = 0; i < rounds; i++)
        once(argv[1], type, send, recv, count);
    double seconds = (MPI_Wtime() - start) / (double)rounds;
    if (rank == 0 && bytes < 65536)
        printf("us\t%.4f\n", seconds * 1e6);
    else if (rank == 0)
        printf("GB/s\t%.4f\n", (double)bytes / seconds / 1e9);
    free(send);
    free(recv);
    MPI_Finalize();
    return 0;
}
