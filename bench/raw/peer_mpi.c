/* SPDX-License-Identifier: BSD-3-Clause */
/* The same ping-pong over MPI, by the same rules, for whatever MPI it is compiled with. */
#include <mpi.h>

#include "pair.h"

static int message_send(pair_t *pair)
{
    return MPI_Send(pair->send, (int)pair->size, MPI_BYTE, pair->first, 1, MPI_COMM_WORLD);
}

static int message_receive(pair_t *pair)
{
    return MPI_Recv(pair->receive, (int)pair->size, MPI_BYTE, pair->first, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int mpi_body(void *arg, int n)
{
    return pair_turns(arg, n, message_send, message_receive);
}

int main(int argc, char **argv)
{
    int rank, ranks, len;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    bench_options_t o;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(version, &len);
    if (bench_options_parse(&o, argc, argv, 1, "8,1K,64K,1M,4M") || ranks != 2)
        return MPI_Abort(MPI_COMM_WORLD, 2);
    pair_t pair = {.first = rank == 0}; /* whose other one is rank 1 */
    pair.who = strstr(version, "Open MPI") ? "openmpi" : strstr(version, "MPICH") ? "mpich" : "mpi";
    if (bench_pin(o.cpus[rank]) || pair_buffers(&pair, &o) || pair_sizes(&pair, &o, mpi_body, &pair))
        return MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    free(pair.send);
    free(pair.receive);
    return 0;
}
