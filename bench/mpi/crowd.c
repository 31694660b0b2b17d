/* SPDX-License-Identifier: BSD-3-Clause */
/* The costs of each further peer: every process sends `size` bytes to every other one, for the first time, and once
 * more.  The row has the time of the first exchange; as further fields that of the second one, the growth of a process's
 * memory (Pss) for each peer, and the processor time of all processes for each pair. */
#include "mpi_perf.h"

#include <string.h>
#include <sys/resource.h>

/* Return the processor time of this process in us. */
static double cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Return this process's share of the memory that it has, in KiB; 0 if it is not known. */
static double memory_kib(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    double kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %lf", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib;
}

/* Exchange with all others; return the time in us of the slowest process at rank 0. */
static double exchange_us(const mpi_perf_t *p, MPI_Request *requests)
{
    int n = 0, len = (int)p->size;
    double us, slowest = 0;
    uint64_t began;
    MPI_Barrier(MPI_COMM_WORLD);
    began = bench_now();
    for (int i = 1; i < p->ranks; i++) {
        int from = (p->rank - i + p->ranks) % p->ranks;
        MPI_Irecv(p->receive + (size_t)from * p->size, len, MPI_BYTE, from, 0, MPI_COMM_WORLD, &requests[n++]);
    }
    for (int i = 1; i < p->ranks; i++)
        MPI_Isend(p->send, len, MPI_BYTE, (p->rank + i) % p->ranks, 0, MPI_COMM_WORLD, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    us = (double)(bench_now() - began) / 1000;
    MPI_Reduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return slowest;
}

static int run(mpi_perf_t *p)
{
    MPI_Request *requests = malloc(2 * (size_t)p->ranks * sizeof *requests);
    double kib = memory_kib(), cpu = cpu_us(), first, second, mine[2], all[2] = {0};
    bench_stats_t us;
    char extra[200];
    if (!requests)
        return -1;
    first = exchange_us(p, requests);
    mine[0] = cpu_us() - cpu;
    second = exchange_us(p, requests);
    mine[1] = memory_kib() - kib;
    MPI_Reduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    free(requests);
    if (!p->first)
        return 0;
    us = (bench_stats_t){.best = first, .median = first, .mean = first};
    snprintf(extra, sizeof extra, "\"second_us\": %.1f, \"kib_per_peer\": %.1f, \"cpu_us_per_pair\": %.1f", second,
             all[1] / p->ranks / (p->ranks - 1), 2 * all[0] / p->ranks / (p->ranks - 1));
    return mpi_perf_print(p, "crowd", us, 1, extra);
}

const mpi_perf_test_t mpi_perf_crowd = {"crowd", "8", 0, run};
