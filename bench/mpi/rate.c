/* SPDX-License-Identifier: BSD-3-Clause */
/* Many messages one way: windows that are started together and waited for together, each answered by one byte. */
#include "mpi_perf.h"

#define WINDOW 64

static int windows(void *arg, int n)
{
    mpi_perf_t *p = arg;
    MPI_Request r[WINDOW];
    int len = (int)p->size;
    for (int i = 0; i < n; i++) {
        for (int w = 0; w < WINDOW; w++)
            if (p->first)
                MPI_Isend(p->send, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r[w]);
            else
                MPI_Irecv(p->receive, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &r[w]);
        MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE);
        if (p->first)
            MPI_Recv(p->receive, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(p->send, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
    return 0;
}

static int run(mpi_perf_t *p)
{
    return mpi_perf_measure(p, mpi_perf_rate.name, WINDOW, windows);
}

const mpi_perf_test_t mpi_perf_rate = {"rate", "8", 2, run};
