/* SPDX-License-Identifier: BSD-3-Clause */
/* Overlap of computation and communication, like mad_perf overlap: rank 0 starts to send (or has posted a receive),
 * computes without calling MPI, and then waits; rank 1 does nothing else. */
#include "mpi_perf.h"

#include "../overlap.h"

/* Send an empty message: this process is ready, or the other one may begin. */
static void signal_to(int peer)
{
    MPI_Send(NULL, 0, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
}

static void signal_from(int peer)
{
    MPI_Recv(NULL, 0, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Run one round of rank 1. */
static void idle_round(mpi_perf_t *p, bool sends)
{
    signal_from(0);
    signal_to(0);
    if (!sends) {
        MPI_Recv(p->receive, (int)p->size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    signal_from(0);
    MPI_Send(p->send, (int)p->size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

/* Run one round of rank 0 with `steps` of computing.  The time of a receive excludes the message that lets rank 1 send. */
static int busy_round(void *arg, bool sends, uint64_t steps, overlap_time_t *time)
{
    mpi_perf_t *p = arg;
    MPI_Request request;
    signal_to(1);
    signal_from(1);
    uint64_t begun = bench_now();
    if (sends) {
        MPI_Isend(p->send, (int)p->size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        time->begin_us = overlap_us_since(begun);
    } else {
        MPI_Irecv(p->receive, (int)p->size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        uint64_t begun_aside = bench_now();
        time->begin_us = overlap_us_since(begun);
        signal_to(1);
        begun += bench_now() - begun_aside;
    }
    overlap_compute(steps);
    uint64_t ends = bench_now();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    time->end_us = overlap_us_since(ends);
    time->us = overlap_us_since(begun);
    return 0;
}

static int way_run(mpi_perf_t *p, bool sends)
{
    overlap_t rows[OVERLAP_LENGTHS];
    for (int i = 0; !p->first && i < overlap_rounds(&p->options); i++)
        idle_round(p, !sends);
    if (!p->first)
        return 0;
    if (overlap_measure(&p->options, sends, busy_round, p, rows))
        return -1;
    p->options.iterations = 1;
    for (int i = 0; i < OVERLAP_LENGTHS; i++)
        if (mpi_perf_print(p, mpi_perf_overlap.name, rows[i].us, 1, rows[i].extra))
            return -1;
    return 0;
}

static int run(mpi_perf_t *p)
{
    return way_run(p, true) ? -1 : way_run(p, false);
}

const mpi_perf_test_t mpi_perf_overlap = {"overlap", "1M", 2, run};
