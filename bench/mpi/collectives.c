/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations, one after another.  The root of broadcasts changes, so that no process runs ahead.  A sum adds
 * doubles; all to all sends `size` bytes to each process.  One row per operation. */
#include "mpi_perf.h"

static int barriers(void *arg, int n)
{
    (void)arg;
    for (int i = 0; i < n; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

static int broadcasts(void *arg, int n)
{
    mpi_perf_t *p = arg;
    for (int i = 0; i < n; i++)
        MPI_Bcast(p->send, (int)p->size, MPI_BYTE, i % p->ranks, MPI_COMM_WORLD);
    return 0;
}

static int sums(void *arg, int n)
{
    mpi_perf_t *p = arg;
    for (int i = 0; i < n; i++)
        MPI_Allreduce(p->send, p->receive, (int)(p->size / sizeof(double)), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 0;
}

static int exchanges(void *arg, int n)
{
    mpi_perf_t *p = arg;
    for (int i = 0; i < n; i++)
        MPI_Alltoall(p->send, (int)p->size, MPI_BYTE, p->receive, (int)p->size, MPI_BYTE, MPI_COMM_WORLD);
    return 0;
}

static int run(mpi_perf_t *p)
{
    if (p->size == p->options.sizes[0] && mpi_perf_measure(p, "barrier", 1, barriers))
        return -1;
    return mpi_perf_measure(p, "bcast", 1, broadcasts) || mpi_perf_measure(p, "allreduce", 1, sums) ||
                   mpi_perf_measure(p, "alltoall", 1, exchanges)
               ? -1
               : 0;
}

const mpi_perf_test_t mpi_perf_collectives = {"collectives", "8,64K", 0, run};
