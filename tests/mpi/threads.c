/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads of each process send and receive at the same time. */
#include "check.h"

#include <pthread.h>

#define THREADS 3
#define ROUNDS 40

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
    told("threads");
    return finish();
}
