/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads of each process send and receive at the same time, also more short messages than there is room for. */
#include "check.h"

#include <pthread.h>

#define THREADS 3
#define ROUNDS 40
#define MANY 500
#define SHORT 64

/* Each message contains a number; the messages of one thread keep their order. */
static void many(int me, int right, int left)
{
    MPI_Request r[MANY];
    unsigned char *in = get(MANY * SHORT), *out = get(MANY * SHORT);
    for (int i = 0; i < MANY; i++) {
        fill(out + i * SHORT, (size_t)(1 + i % SHORT), rank, me * MANY + i);
        MPI_Irecv(in + i * SHORT, SHORT, MPI_BYTE, left, ROUNDS + me * 1000, MPI_COMM_WORLD, &r[i]);
    }
    for (int i = 0; i < MANY; i++)
        MPI_Send(out + i * SHORT, 1 + i % SHORT, MPI_BYTE, right, ROUNDS + me * 1000, MPI_COMM_WORLD);
    MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++)
        expect_bytes(in + i * SHORT, (size_t)(1 + i % SHORT), left, me * MANY + i);
    free(in);
    free(out);
}

static void *thread_main(void *arg)
{
    static const int sizes[] = {8, 1000, 20000, 40000, 200000};
    int me = (int)(intptr_t)arg, right = (rank + 1) % size, left = (rank + size - 1) % size;
    unsigned char *out = get(200000), *in = get(200000);
    for (int i = 0; i < ROUNDS; i++) {
        int n = sizes[(i + me) % 5], tag = me * 1000 + i;
        MPI_Request r[2];
        fill(out, (size_t)n, rank, tag);
        MPI_Irecv(in, n, MPI_BYTE, left, tag, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, n, MPI_BYTE, right, tag, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        expect_bytes(in, (size_t)n, left, tag);
    }
    free(out);
    free(in);
    many(me, right, left);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t t[THREADS];
    start(&argc, &argv, MPI_THREAD_MULTIPLE);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, thread_main, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    check_end("threads");
    return finish();
}
