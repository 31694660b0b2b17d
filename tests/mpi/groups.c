/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators, collectives, windows. */
#include "check.h"

static void collectives(MPI_Comm comm, int n)
{
    int me, all;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    int *a = get((size_t)n * (size_t)all * sizeof *a), *b = get((size_t)n * (size_t)all * sizeof *b);
    for (int i = 0; i < n; i++)
        a[i] = me * 31 + i;
    MPI_Allreduce(a, b, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++)
        EXPECT(b[i] == 31 * all * (all - 1) / 2 + all * i);
    for (int root = 0; root < all; root++) {
        for (int i = 0; i < n; i++)
            b[i] = me == root ? root * 7 + i : -1;
        MPI_Bcast(b, n, MPI_INT, root, comm);
        for (int i = 0; i < n; i++)
            EXPECT(b[i] == root * 7 + i);
    }
    MPI_Allgather(a, n, MPI_INT, b, n, MPI_INT, comm);
    for (int p = 0; p < all; p++)
        for (int i = 0; i < n; i++)
            EXPECT(b[p * n + i] == p * 31 + i);
    for (int p = 0; p < all; p++)
        for (int i = 0; i < n; i++)
            a[p * n + i] = me * 1000 + p * 10 + i % 10;
    MPI_Alltoall(a, n, MPI_INT, b, n, MPI_INT, comm);
    for (int p = 0; p < all; p++)
        for (int i = 0; i < n; i++)
            EXPECT(b[p * n + i] == p * 1000 + me * 10 + i % 10);
    MPI_Scan(a, b, n, MPI_INT, MPI_MAX, comm);
    EXPECT(b[0] == me * 1000);
    MPI_Barrier(comm);
    free(a);
    free(b);
}

static void windows(void)
{
    enum { LEN = 20000 };
    int *mem, right = (rank + 1) % size, *got = get(LEN * sizeof *got), *put = get(LEN * sizeof *put);
    long *counter;
    MPI_Win win, counters;
    MPI_Win_allocate(LEN * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win);
    for (int i = 0; i < LEN; i++) {
        mem[i] = rank * LEN + i;
        put[i] = -rank - 1;
    }
    MPI_Win_fence(0, win);
    MPI_Get(got, LEN, MPI_INT, right, 0, LEN, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < LEN; i++)
        EXPECT(got[i] == right * LEN + i);
    MPI_Put(put, LEN / 2, MPI_INT, right, LEN / 2, LEN / 2, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < LEN; i++)
        EXPECT(mem[i] == (i < LEN / 2 ? rank * LEN + i : -(rank + size - 1) % size - 1));
    MPI_Win_free(&win);
    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &counters);
    *counter = 0;
    MPI_Win_fence(0, counters);
    for (int i = 0; i < 100; i++) {
        long one = 1, before;
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, counters);
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, counters);
        MPI_Win_unlock(0, counters);
    }
    MPI_Win_fence(0, counters);
    if (rank == 0)
        EXPECT(*counter == 100L * size);
    MPI_Win_free(&counters);
    free(got);
    free(put);
}

static void non_blocking(void)
{
    int in[3] = {rank, rank, rank}, sum[3], root = 77;
    MPI_Request r[3];
    if (rank == size - 1)
        root = 5;
    MPI_Iallreduce(in, sum, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[0]);
    MPI_Ibcast(&root, 1, MPI_INT, size - 1, MPI_COMM_WORLD, &r[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &r[2]);
    MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
    EXPECT(sum[2] == size * (size - 1) / 2 && root == 5);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 10, 1000, 60000};
    MPI_Comm half, turned;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    for (int i = 0; i < 4; i++)
        collectives(MPI_COMM_WORLD, counts[i]);
    check_end("collectives");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_dup(half, &turned);
    for (int i = 0; i < 3; i++)
        collectives(turned, counts[i]);
    MPI_Comm_free(&half);
    MPI_Comm_free(&turned);
    check_end("communicators");
    non_blocking();
    check_end("non_blocking_collectives");
    windows();
    check_end("windows");
    return finish();
}
