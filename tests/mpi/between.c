/* SPDX-License-Identifier: BSD-3-Clause */
/* Communication between groups, and access to memory of other processes: intercommunicators, neighbours, windows with every
 * kind of synchronization. */
#include "check.h"

/* Make an intercommunicator with even ranks on one side, and odd ranks on the other. */
static void intercommunicators(void)
{
    MPI_Comm half, between, merged;
    int remote, sum = 0, me = rank, here, got, side = rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 99, &between);
    MPI_Comm_remote_size(between, &remote);
    EXPECT(remote == (side ? (size + 1) / 2 : size / 2));
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, between);
    int wanted = 0;
    for (int p = 1 - side; p < size; p += 2)
        wanted += p;
    EXPECT(sum == wanted);
    /* rank r of one side and rank r of the other, if both exist */
    MPI_Comm_rank(between, &here);
    if (here < remote) {
        unsigned char *out = get(200000), *in = get(200000);
        MPI_Status st;
        fill(out, 200000, rank, 3);
        MPI_Sendrecv(out, 200000, MPI_BYTE, here, 3, in, 200000, MPI_BYTE, MPI_ANY_SOURCE, 3, between, &st);
        expect_bytes(in, 200000, 2 * here + 1 - side, 3);
        EXPECT(st.MPI_SOURCE == here);
        free(out);
        free(in);
    }
    got = side == 0 && here == 0 ? 4711 : 0;
    MPI_Bcast(&got, 1, MPI_INT, side == 0 ? (here == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0, between);
    EXPECT(side == 0 ? here != 0 || got == 4711 : got == 4711);
    MPI_Intercomm_merge(between, side, &merged);
    MPI_Comm_rank(merged, &here);
    EXPECT(here == (side ? (size + 1) / 2 : 0) + rank / 2);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    check_end("intercommunicators");
}

static void neighbours(void)
{
    enum { LEN = 10000 };
    int periods = 1, dims = size, *out = get(2 * LEN * sizeof *out), *in = get(2 * LEN * sizeof *in);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Comm ring;
    MPI_Request r;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &dims, &periods, 0, &ring);
    for (int i = 0; i < 2 * LEN; i++)
        out[i] = rank * 3 * LEN + i;
    if (size > 2) { /* with two processes, both neighbours are the same process, and MPI leaves their order to the library */
        MPI_Ineighbor_alltoall(out, LEN, MPI_INT, in, LEN, MPI_INT, ring, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        EXPECT(in[0] == left * 3 * LEN + LEN && in[2 * LEN - 1] == right * 3 * LEN + LEN - 1);
    }
    MPI_Neighbor_allgather(out, LEN, MPI_INT, in, LEN, MPI_INT, ring);
    EXPECT(in[0] == left * 3 * LEN && in[LEN] == right * 3 * LEN);
    MPI_Comm_free(&ring);
    free(out);
    free(in);
    check_end("neighbours");
}

/* Windows of the program's own memory, which Open MPI cannot share among the processes of a host. */
static void windows(void)
{
    enum { LEN = 3000 };
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    long *mem = calloc(LEN, sizeof *mem), *got = calloc(LEN, sizeof *got), *put = calloc(LEN, sizeof *put);
    MPI_Win win;
    MPI_Group world, to, from;
    MPI_Datatype third;
    MPI_Type_vector(LEN / 3, 1, 3, MPI_LONG, &third);
    MPI_Type_commit(&third);
    MPI_Win_create(mem, LEN * sizeof *mem, sizeof *mem, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int i = 0; i < LEN; i++)
        put[i] = rank * 10000 + i;
    MPI_Win_fence(0, win);
    MPI_Put(put, LEN / 3, MPI_LONG, right, 0, 1, third, win); /* from contiguous elements into every third element */
    MPI_Win_fence(0, win);
    for (int i = 0; i < LEN / 3; i++)
        EXPECT(mem[3 * i] == left * 10000 + i && mem[3 * i + 1] == 0);
    check_end("window_fence");

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &right, &to);
    MPI_Group_incl(world, 1, &left, &from);
    for (int turn = 0; turn < 5; turn++) {
        put[1] = rank + turn;
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(put, LEN, MPI_LONG, right, 0, LEN, MPI_LONG, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        EXPECT(mem[1] == left + turn && mem[LEN - 1] == left * 10000 + LEN - 1);
    }
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    MPI_Group_free(&world);
    check_end("window_post_start");

    MPI_Win_fence(0, win);
    memset(mem, 0, LEN * sizeof *mem);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 30; i++) {
        long one = 1, before = -1, zero = 0, mine = rank + 1;
        MPI_Win_lock(i % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Accumulate(&one, 1, MPI_LONG, 0, 5, 1, MPI_LONG, MPI_SUM, win);
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 6, MPI_SUM, win);
        MPI_Compare_and_swap(&mine, &zero, got, MPI_LONG, 0, 7, win);
        MPI_Win_flush(0, win);
        EXPECT(before >= i && before < 30L * size && got[0] >= 0 && got[0] <= size);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    MPI_Get(got, LEN, MPI_LONG, 0, 0, LEN, MPI_LONG, win);
    MPI_Win_flush_all(win);
    EXPECT(got[5] == 30L * size && got[6] == 30L * size && got[7] >= 1 && got[7] <= size && got[8] == 0);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Type_free(&third);
    free(mem);
    free(got);
    free(put);
    check_end("window_locks");
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    if (size > 1)
        intercommunicators();
    neighbours();
    windows();
    return finish();
}
