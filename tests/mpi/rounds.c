/* SPDX-License-Identifier: BSD-3-Clause */
/* Each process sends blocks to the next one, and checks the blocks that it receives, in rounds, until a file exists.  First
 * argument: the file.  Second argument: number of bytes of a block.  Process 0 prints each round. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned char byte_of(int from, int round, int at)
{
    return (unsigned char)(from * 31 + round * 7 + at);
}

int main(int argc, char **argv)
{
    int rank, size, len, stop = 0, wrong = 0, sum = 0;
    unsigned char *out, *in;
    MPI_Init(&argc, &argv);
    if (argc < 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    len = atoi(argv[2]);
    out = malloc((size_t)len);
    in = malloc((size_t)len);
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 1; !stop; round++) {
        int from = (rank + size - 1) % size;
        for (int i = 0; i < len; i++)
            out[i] = byte_of(rank, round, i);
        MPI_Sendrecv(out, len, MPI_BYTE, (rank + 1) % size, round, in, len, MPI_BYTE, from, round, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int i = 0; i < len; i++)
            wrong += in[i] != byte_of(from, round, i);
        if (rank == 0) {
            printf("round %d\n", round);
            fflush(stdout);
            stop = access(argv[1], F_OK) == 0;
        }
        MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ended: %d bytes wrong\n", sum);
    MPI_Finalize();
    return sum != 0;
}
