/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast MPI is between two processes: mpi_perf pingpong|bandwidth|rate [BYTES...].
 *
 * pingpong: there and back, times are one way.  bandwidth, rate: windows of 64 messages one way, each answered by one byte;
 * times are by message.  For each length the best and the median of 30 batches, after three that do not count, as one line
 * of JSON; microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCHES 30
#define WARM 3
#define WINDOW 64

static int rank;
static char *buffer;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void pingpong(int len, int n)
{
    for (int i = 0; i < n; i++)
        if (rank == 0) {
            MPI_Send(buffer, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buffer, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
}

static void windows(int len, int n)
{
    MPI_Request r[WINDOW];
    for (int i = 0; i < n; i += WINDOW) {
        for (int w = 0; w < WINDOW; w++)
            if (rank == 0)
                MPI_Isend(buffer, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r[w]);
            else
                MPI_Irecv(buffer, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &r[w]);
        MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(buffer, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(buffer, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
}

static void measure(const char *test, int len)
{
    int there = !strcmp(test, "pingpong");
    int n = len < 10000 ? 6400 : len < 200000 ? 640 : 64;
    double times[BATCHES];
    for (int b = -WARM; b < BATCHES; b++) {
        double begun;
        MPI_Barrier(MPI_COMM_WORLD);
        begun = MPI_Wtime();
        if (there)
            pingpong(len, n);
        else
            windows(len, n);
        if (b >= 0)
            times[b] = (MPI_Wtime() - begun) / n / (there ? 2 : 1) * 1e6;
    }
    qsort(times, BATCHES, sizeof *times, by_value);
    if (rank == 0)
        printf("{\"test\": \"%s\", \"bytes\": %d, \"best_us\": %.4f, \"median_us\": %.4f}\n", test, len, times[0],
               times[BATCHES / 2]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const char *const tests[] = {"pingpong", "bandwidth", "rate"};
    int size, max = 8, known = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; argc > 1 && i < 3; i++)
        known += !strcmp(argv[1], tests[i]);
    for (int i = 2; i < argc; i++)
        max = atoi(argv[i]) > max ? atoi(argv[i]) : max;
    buffer = calloc(1, (size_t)max);
    if (!known || size != 2 || !buffer) {
        if (rank == 0)
            fprintf(stderr, "usage: mpirun -n 2 mpi_perf pingpong|bandwidth|rate [BYTES...]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 2; i < argc; i++)
        measure(argv[1], atoi(argv[i]));
    if (argc == 2)
        measure(argv[1], 8);
    free(buffer);
    MPI_Finalize();
    return 0;
}
