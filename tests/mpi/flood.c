/* SPDX-License-Identifier: BSD-3-Clause */
/* A sender sends many messages to a process that does not call MPI.  The sender's memory grows by its own requests, and not
 * by further memory for each message.  A file notifies the receiver when all messages were sent. */
#include "check.h"

#include <time.h>
#include <unistd.h>

enum { MANY = 30000, LEN = 1000, EACH = 2048, FIRST = 16 << 20 }; /* EACH: bytes; a request of Open MPI takes 1 KiB */

static size_t resident(void)
{
    unsigned long all, here = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    EXPECT(f && fscanf(f, "%lu %lu", &all, &here) == 2);
    if (f)
        fclose(f);
    return here * (size_t)sysconf(_SC_PAGESIZE);
}

static void flood(MPI_Request *r, unsigned char *out)
{
    size_t before = resident(), grown;
    FILE *f;
    for (int i = 0; i < MANY; i++)
        MPI_Isend(out, i % LEN, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r[i]);
    grown = resident() - before;
    if (grown > (size_t)MANY * EACH + FIRST)
        fprintf(stderr, "%d messages take %zu bytes of their sender\n", MANY, grown);
    EXPECT(grown <= (size_t)MANY * EACH + FIRST);
    f = fopen("sent", "w");
    EXPECT(f != NULL);
    if (f)
        fclose(f);
    MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE);
}

static void receive(unsigned char *in)
{
    while (access("sent", F_OK))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int i = 0; i < MANY; i++) {
        MPI_Status st;
        int n;
        MPI_Recv(in, LEN, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &st);
        MPI_Get_count(&st, MPI_BYTE, &n);
        EXPECT(n == i % LEN);
        expect_bytes(in, (size_t)n, 0, 1);
    }
}

int main(int argc, char **argv)
{
    unsigned char *bytes = get(LEN);
    MPI_Request *r = get(MANY * sizeof *r);
    start(&argc, &argv, MPI_THREAD_SINGLE);
    fill(bytes, LEN, 0, 1);
    memset(r, 0xff, MANY * sizeof *r);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        flood(r, bytes);
    else
        receive(bytes);
    free(r);
    free(bytes);
    check_end("flood");
    return finish();
}
