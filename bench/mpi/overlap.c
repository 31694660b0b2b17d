/* SPDX-License-Identifier: BSD-3-Clause */
/* Computing while a message goes: rank 0 starts to send (or has posted a receive), computes without calling in, and then
 * waits; rank 1 does nothing else.  As mad_perf overlap does. */
#include "mpi_perf.h"

#define ROUNDS 60

static double us_since(uint64_t start)
{
    return (double)(bench_now() - start) / 1e3;
}

/* An empty message: that the other one is awake, or may begin. */
static void signal_to(int peer)
{
    MPI_Send(NULL, 0, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
}

static void signal_from(int peer)
{
    MPI_Recv(NULL, 0, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rank 1, one round. */
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

/* Rank 0: how long a round takes with so much computing.  What tells rank 1 to send is no part of the receive. */
static double busy_round(mpi_perf_t *p, bool sends, uint64_t steps)
{
    MPI_Request request;
    signal_to(1);
    signal_from(1);
    uint64_t begun = bench_now();
    if (sends) {
        MPI_Isend(p->send, (int)p->size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
    } else {
        MPI_Irecv(p->receive, (int)p->size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        uint64_t begun_aside = bench_now();
        signal_to(1);
        begun += bench_now() - begun_aside;
    }
    bench_compute(steps);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return us_since(begun);
}

static double busy_send(void *perf, uint64_t steps)
{
    return busy_round(perf, true, steps);
}

static double busy_receive(void *perf, uint64_t steps)
{
    return busy_round(perf, false, steps);
}

static int tell(void *perf, bench_stats_t us, const char *extra)
{
    return mpi_perf_print(perf, mpi_perf_overlap.name, us, 1, extra);
}

static int way_run(mpi_perf_t *p, bool sends)
{
    for (int i = 0; !p->first && i < bench_overlap_messages(p->options.batches); i++)
        idle_round(p, !sends);
    if (!p->first)
        return 0;
    return bench_overlap(sends ? "send" : "receive", p->options.batches, sends ? busy_send : busy_receive, tell, p);
}

static int run(mpi_perf_t *p)
{
    p->options.iterations = 1;
    p->options.batches = p->options.batches && p->options.batches < ROUNDS ? p->options.batches : ROUNDS;
    return way_run(p, true) ? -1 : way_run(p, false);
}

const mpi_perf_test_t mpi_perf_overlap = {"overlap", "1M", 2, run};
