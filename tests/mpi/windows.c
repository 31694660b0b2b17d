/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: put, get, accumulate and atomic operations of all lengths and types, by fences, locks and posts.  windows threads:
 * several threads of each rank use a window at the same time. */
#include "check.h"

#include <pthread.h>

#define LEN ((size_t)4 << 20) /* bytes of each window */
#define THREADS 3

static const int lengths[] = {1, 8, 1000, 4096, 5000, 70000, 500000, 3000001};
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

/* Each rank changes words of rank 0 by every operation that processors have, and by one that they have not.  WORDS=N: N times,
 * an odd number. */
static void words(MPI_Win win, unsigned char *mine)
{
    enum { OR = 1, AND, XOR, SWAP, MAX, COUNT, SHORT, WORDS };
    uint64_t value[WORDS], bit = (uint64_t)1 << rank, others = ~bit, all = ((uint64_t)1 << size) - 1, was, next, taken = 0,
                           sum;
    uint64_t n = strtoull(getenv("WORDS"), NULL, 10);
    int32_t one = 1, before;
    memset(mine, 0, LEN);
    memset(mine + AND * sizeof was, 0xff, sizeof was);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t token = i * (uint64_t)size + (uint64_t)rank + 1;
        MPI_Fetch_and_op(&bit, &was, MPI_UINT64_T, 0, OR * sizeof was, MPI_BOR, win);
        MPI_Win_flush(0, win);
        EXPECT(!i || (was & bit));
        MPI_Accumulate(&others, 1, MPI_UINT64_T, 0, AND * sizeof was, 1, MPI_UINT64_T, MPI_BAND, win);
        MPI_Accumulate(&bit, 1, MPI_UINT64_T, 0, XOR * sizeof was, 1, MPI_UINT64_T, MPI_BXOR, win);
        MPI_Fetch_and_op(&token, &was, MPI_UINT64_T, 0, SWAP * sizeof was, MPI_REPLACE, win);
        MPI_Win_flush(0, win);
        taken += was;
        MPI_Fetch_and_op(&token, &was, MPI_UINT64_T, 0, MAX * sizeof was, MPI_MAX, win);
        MPI_Fetch_and_op(&one, &before, MPI_INT32_T, 0, SHORT * sizeof was, MPI_SUM, win);
        for (next = 0, was = 1; was != next - 1;) { /* count by compare-and-swap */
            MPI_Get(&was, 1, MPI_UINT64_T, 0, COUNT * sizeof was, 1, MPI_UINT64_T, win);
            MPI_Win_flush(0, win);
            sum = was;
            next = was + 1;
            MPI_Compare_and_swap(&next, &sum, &was, MPI_UINT64_T, 0, COUNT * sizeof was, win);
            MPI_Win_flush(0, win);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(&taken, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Get(value, WORDS, MPI_UINT64_T, 0, 0, WORDS, MPI_UINT64_T, win);
    MPI_Win_unlock(0, win);
    was = n * (uint64_t)size; /* number of all tokens */
    EXPECT(value[OR] == all && value[AND] == ~all && value[XOR] == all);
    EXPECT(sum + value[SWAP] == was * (was + 1) / 2);
    EXPECT(value[MAX] == was && value[COUNT] == was && value[SHORT] == was);
    MPI_Barrier(MPI_COMM_WORLD);
    check_end("words");
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
    if (getenv("WORDS")) /* Open MPI 4.1's vader crashes in this case, sometimes */
        words(win, mine);
    posts(win, mine);
    MPI_Win_free(&win);
    if (created)
        free(mine);
}

/* ---- Several threads ------------------------------------------------------------------------------------------- */

typedef struct user {
    pthread_t thread;
    int number;
    MPI_Win win;
} user_t;

/* Write to a part of the right neighbour's window that is this thread's, read it again, and count at rank 0. */
static void *user_main(void *arg)
{
    enum { ROUNDS = 40, PART = 200000 };
    static const int sizes[] = {8, 1000, 20000, PART};
    const user_t *u = arg;
    int right = (rank + 1) % size;
    MPI_Aint at = 64 + (MPI_Aint)u->number * PART;
    unsigned char *out = get(PART), *in = get(PART);
    int64_t one = 1, was = -1, before = -1;
    for (int i = 0; i < ROUNDS; i++) {
        int n = sizes[(i + u->number) % 4], tag = u->number * 1000 + i;
        fill(out, (size_t)n, rank, tag);
        MPI_Put(out, n, MPI_BYTE, right, at, n, MPI_BYTE, u->win);
        MPI_Win_flush(right, u->win);
        MPI_Get(in, n, MPI_BYTE, right, at, n, MPI_BYTE, u->win);
        MPI_Win_flush(right, u->win);
        expect_bytes(in, (size_t)n, rank, tag);
        MPI_Fetch_and_op(&one, &was, MPI_INT64_T, 0, 0, MPI_SUM, u->win);
        MPI_Win_flush(0, u->win);
        EXPECT(was > before && was < (int64_t)ROUNDS * THREADS * size);
        before = was;
    }
    free(out);
    free(in);
    return NULL;
}

static void threads(int created)
{
    unsigned char *mine = created ? get(LEN) : NULL;
    user_t users[THREADS];
    MPI_Win win;
    if (created)
        MPI_Win_create(mine, (MPI_Aint)LEN, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else
        MPI_Win_allocate((MPI_Aint)LEN, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    memset(mine, 0, LEN);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (user_t){.number = i, .win = win};
        pthread_create(&users[i].thread, NULL, user_main, &users[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(users[i].thread, NULL);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    if (created)
        free(mine);
    check_end(created ? "threads_created" : "threads_allocated");
}

int main(int argc, char **argv)
{
    int several = argc > 1 && !strcmp(argv[1], "threads");
    start(&argc, &argv, several ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    for (int created = 1; created >= 0; created--)
        (several ? threads : windows)(created);
    return finish();
}
