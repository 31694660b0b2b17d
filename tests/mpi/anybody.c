/* SPDX-License-Identifier: BSD-3-Clause */
/* Process 0 receives a word from any source; process 1 sends the word, and waits for nothing. */
#include <mpi.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, word = 4711;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1)
        MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("received\n");
    }
    MPI_Finalize();
    return 0;
}
