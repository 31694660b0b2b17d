/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: put, get, accumulate and atomic operations of all lengths and types, by fences, locks and posts. */
#include "check.h"

#define LEN ((size_t)1 << 20) /* bytes of each window */

static const int lengths[] = {1, 8, 1000, 4096, 5000, 70000, 500000};
#define N_LENGTHS (sizeof lengths / sizeof *lengths)

/* Each rank writes to its right neighbour, then reads what its left neighbour has written. */
static void fences(MPI_Win win, unsigned char *mine)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    unsigned char *out = get(LEN), *in = get(LEN);
    for (size_t i = 0; i < N_LENGTHS; i++) {
        size_t n = (size_t)lengths[i];
        fill(out, n, rank, (int)i);
        memset(in, 0, n);
        MPI_Win_fence(0, win);
        MPI_Put(out, lengths[i], MPI_BYTE, right, 64, lengths[i], MPI_BYTE, win);
        MPI_Win_fence(0, win);
        expect_bytes(mine + 64, n, left, (int)i);
        MPI_Get(in, lengths[i], MPI_BYTE, right, 64, lengths[i], MPI_BYTE, win);
        MPI_Win_fence(0, win);
        expect_bytes(in, n, rank, (int)i);
    }
    free(out);
    free(in);
    check_end("fences");
}

/* Write contiguous ints of this rank into every second int of the other one. */
static void strided(MPI_Win win, unsigned char *mine)
{
    enum { N = 5000 };
    int right = (rank + 1) % size, left = (rank + size - 1) % size, *out = get(N * sizeof *out), word;
    MPI_Datatype second;
    MPI_Type_vector(N, 1, 2, MPI_INT, &second);
    MPI_Type_commit(&second);
    for (int i = 0; i < N; i++)
        out[i] = rank * 100000 + i;
    memset(mine, 0, LEN);
    MPI_Win_fence(0, win);
    MPI_Put(out, N, MPI_INT, right, 0, 1, second, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 2 * N; i++) {
        memcpy(&word, mine + (size_t)i * sizeof word, sizeof word);
        EXPECT(word == (i % 2 ? 0 : left * 100000 + i / 2));
    }
    memset(out, 0, N * sizeof *out);
    MPI_Get(out, N, MPI_INT, right, 0, 1, second, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < N; i++)
        EXPECT(out[i] == rank * 100000 + i);
    MPI_Type_free(&second);
    free(out);
    check_end("strided");
}

/* All ranks add to memory of rank 0 at the same time, by three calls. */
static void sums(MPI_Win win, unsigned char *mine)
{
    enum { N = 300, M = 3000 };
    int64_t one = 1, was = -1, before = -1;
    double *add = get(M * sizeof *add), *all = get(M * sizeof *all);
    memset(mine, 0, LEN);
    MPI_Win_fence(0, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    for (int i = 0; i < N; i++) {
        MPI_Fetch_and_op(&one, &was, MPI_INT64_T, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        EXPECT(was > before && was < N * size); /* a rank's own additions are made in order */
        before = was;
    }
    for (int i = 0; i < M; i++)
        add[i] = rank + i;
    MPI_Accumulate(add, M, MPI_DOUBLE, 0, 64, M, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_unlock(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, all, M, MPI_DOUBLE, 0, 64, M, MPI_DOUBLE, MPI_NO_OP, win);
    MPI_Get(&was, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
    MPI_Win_unlock(0, win);
    EXPECT(was == N * size);
    for (int i = 0; i < M; i++)
        EXPECT(all[i] == size * (size - 1) / 2 + (double)i * size);
    MPI_Barrier(MPI_COMM_WORLD);
    free(add);
    free(all);
    check_end("sums");
}

/* A lock made of compare-and-swap protects a count that is read and written. */
static void swaps(MPI_Win win, unsigned char *mine)
{
    enum { N = 50 };
    int32_t me = rank + 1, none = 0, was;
    int64_t count;
    memset(mine, 0, LEN);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < N; i++) {
        do {
            MPI_Compare_and_swap(&me, &none, &was, MPI_INT32_T, 0, 0, win);
            MPI_Win_flush(0, win);
        } while (was != none);
        MPI_Get(&count, 1, MPI_INT64_T, 0, 8, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        count++;
        MPI_Put(&count, 1, MPI_INT64_T, 0, 8, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        MPI_Fetch_and_op(&none, &was, MPI_INT32_T, 0, 0, MPI_REPLACE, win);
        MPI_Win_flush(0, win);
        EXPECT(was == me);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&count, 1, MPI_INT64_T, 0, 8, 1, MPI_INT64_T, win);
    MPI_Win_unlock(0, win);
    EXPECT(count == N * size);
    MPI_Barrier(MPI_COMM_WORLD);
    check_end("swaps");
}

/* Post, start, complete, wait: with the neighbours only. */
static void posts(MPI_Win win, unsigned char *mine)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    unsigned char *out = get(LEN);
    MPI_Group all, from, to;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &left, &from);
    MPI_Group_incl(all, 1, &right, &to);
    for (size_t i = 0; i < N_LENGTHS; i++) {
        fill(out, (size_t)lengths[i], rank, 100 + (int)i);
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(out, lengths[i], MPI_BYTE, right, 8, lengths[i], MPI_BYTE, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        expect_bytes(mine + 8, (size_t)lengths[i], left, 100 + (int)i);
    }
    MPI_Group_free(&from);
    MPI_Group_free(&to);
    MPI_Group_free(&all);
    free(out);
    check_end("posts");
}

/* Windows over memory of the program, and over memory that the library allocates. */
static void windows(int created)
{
    unsigned char *mine = created ? get(LEN) : NULL;
    MPI_Win win;
    if (created)
        MPI_Win_create(mine, (MPI_Aint)LEN, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else
        MPI_Win_allocate((MPI_Aint)LEN, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    fences(win, mine);
    strided(win, mine);
    sums(win, mine);
    swaps(win, mine);
    posts(win, mine);
    MPI_Win_free(&win);
    if (created)
        free(mine);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    windows(1);
    windows(0);
    return finish();
}
