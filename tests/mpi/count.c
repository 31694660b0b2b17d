/* SPDX-License-Identifier: BSD-3-Clause */
/* count N LEN [COMMAND]: each process of a ring sends N messages of LEN bytes to its neighbour; then rank 0 runs
 * COMMAND, while all processes still exist. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, n, len;
    char *out, *in;
    MPI_Init(&argc, &argv);
    n = atoi(argv[1]), len = atoi(argv[2]);
    out = calloc(1, (size_t)len), in = calloc(1, (size_t)len);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        MPI_Sendrecv(out, len, MPI_BYTE, (rank + 1) % size, 1, in, len, MPI_BYTE, (rank + size - 1) % size, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && argc > 3 && system(argv[3]))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
