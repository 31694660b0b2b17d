/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of long queues: 8 bytes there and back while each side has N unmatched messages, and then
 * while each side has N unmatched receives, each with a tag of its own.  The size is N; two rows. */
#include "mpi_perf.h"

#define TAG 1
#define OTHERS 100 /* first tag of the messages and receives that have no partner */

static void turn(const mpi_perf_t *p)
{
    int peer = !p->rank;
    if (p->first)
        MPI_Send(p->send, 8, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
    MPI_Recv(p->receive, 8, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!p->first)
        MPI_Send(p->send, 8, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
}

static int turns(void *arg, int n)
{
    for (int i = 0; i < n; i++)
        turn(arg);
    return 0;
}

/* Receive the messages without a partner, oldest first, which is fastest; not timed. */
static void others_receive(const mpi_perf_t *p, MPI_Request *requests, char *into)
{
    for (int i = 0; i < (int)p->size; i++)
        MPI_Irecv(into, 1, MPI_BYTE, !p->rank, OTHERS + i, MPI_COMM_WORLD, &requests[i]);
}

static void others_send(const mpi_perf_t *p)
{
    for (int i = 0; i < (int)p->size; i++)
        MPI_Send(p->send, 1, MPI_BYTE, !p->rank, OTHERS + i, MPI_COMM_WORLD);
}

static int run(mpi_perf_t *p)
{
    static char into;
    MPI_Request *requests = calloc(p->size + 1, sizeof *requests);
    int rc;
    if (!requests)
        return -1;
    others_send(p);
    turn(p); /* messages do not overtake, so all earlier messages have arrived */
    rc = mpi_perf_measure(p, "unexpected", 2, turns);
    others_receive(p, requests, &into);
    MPI_Waitall((int)p->size, requests, MPI_STATUSES_IGNORE);

    others_receive(p, requests, &into);
    MPI_Barrier(MPI_COMM_WORLD);
    rc = rc ? rc : mpi_perf_measure(p, "posted", 2, turns);
    others_send(p);
    MPI_Waitall((int)p->size, requests, MPI_STATUSES_IGNORE);
    free(requests);
    return rc;
}

const mpi_perf_test_t mpi_perf_matching = {"matching", "0,10000", 2, run};
