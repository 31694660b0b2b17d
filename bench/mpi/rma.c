/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 writes, reads and adds to memory of rank 1, while rank 1 waits in MPI.  Each operation is completed by itself
 * ("put"), or a batch is completed together ("puts"): two rows per operation.  The window is existing memory
 * (MPI_Win_create): if MPI allocated the window, processes of one host would share it, and nothing would be sent. */
#include "mpi_perf.h"

#include <stdint.h>
#include <string.h>

#define SEED 5

typedef struct side {
    MPI_Win window;
    void (*operation)(const mpi_perf_t *p, MPI_Win window);
    bool each; /* true: complete each operation by itself */
} side_t;

static void put(const mpi_perf_t *p, MPI_Win window)
{
    MPI_Put(p->send, (int)p->size, MPI_BYTE, 1, 0, (int)p->size, MPI_BYTE, window);
}

static void get(const mpi_perf_t *p, MPI_Win window)
{
    MPI_Get(p->receive, (int)p->size, MPI_BYTE, 1, 0, (int)p->size, MPI_BYTE, window);
}

static void accumulate(const mpi_perf_t *p, MPI_Win window)
{
    int n = (int)(p->size / sizeof(uint64_t));
    MPI_Accumulate(p->send, n, MPI_UINT64_T, 1, 0, n, MPI_UINT64_T, MPI_SUM, window);
}

static int operations(void *arg, int n)
{
    const mpi_perf_t *p = arg;
    const side_t *s = p->more;
    if (!p->first)
        return 0;
    for (int i = 0; i < n; i++) {
        s->operation(p, s->window);
        if (s->each)
            MPI_Win_flush(1, s->window);
    }
    if (!s->each)
        MPI_Win_flush(1, s->window);
    return 0;
}

static int both(mpi_perf_t *p, void (*operation)(const mpi_perf_t *p, MPI_Win window), const char *one, const char *many)
{
    side_t *s = p->more;
    s->operation = operation;
    s->each = true;
    if (mpi_perf_measure(p, one, 1, operations))
        return -1;
    s->each = false;
    return mpi_perf_measure(p, many, 1, operations);
}

/* Check that the data have arrived, and that the additions were made as often as requested. */
static int check(const mpi_perf_t *p, MPI_Win window)
{
    int batches = bench_batches(&p->options, p->size) + 1; /* the first batch is not measured */
    uint64_t times = 2 * (uint64_t)bench_iterations(&p->options, p->size) * (uint64_t)batches;
    if (!p->first)
        return 0;
    get(p, window);
    MPI_Win_flush(1, window);
    for (size_t at = 0; at < p->size; at += sizeof(uint64_t)) {
        uint64_t added, is;
        memcpy(&added, p->send + at, sizeof added);
        memcpy(&is, p->receive + at, sizeof is);
        if (is != added * (times + 1))
            return fprintf(stderr, "mpi_perf: wrong data at byte %zu of %zu\n", at, p->size), -1;
    }
    return 0;
}

static int run(mpi_perf_t *p)
{
    side_t s = {0};
    if (p->size % sizeof(uint64_t))
        return fprintf(stderr, "mpi_perf: rma takes multiples of 8 bytes\n"), -1;
    p->more = &s;
    bench_fill(p->send, p->size, SEED);
    memset(p->receive, 0, p->size);
    MPI_Win_create(p->receive, p->first ? 0 : (MPI_Aint)p->size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &s.window);
    MPI_Win_lock_all(0, s.window);
    int rc = both(p, put, "put", "puts") || both(p, get, "get", "gets") ||
                     both(p, accumulate, "accumulate", "accumulates") || check(p, s.window)
                 ? -1
                 : 0;
    MPI_Win_unlock_all(s.window);
    MPI_Win_free(&s.window);
    return rc;
}

const mpi_perf_test_t mpi_perf_rma = {"rma", "8,1M", 2, run};
