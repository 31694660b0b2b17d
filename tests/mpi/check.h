/* SPDX-License-Identifier: BSD-3-Clause */
/* For MPI programs that check what they receive.  All ranks make each check, and rank 0 prints the result: "ok NAME" or
 * "not ok NAME". */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, wrong, failed;

/* Return byte i of a message, which depends on the sender, the tag, and i. */
static inline unsigned char byte_at(int from, int tag, size_t i)
{
    uint64_t x = ((uint64_t)from << 40 ^ (uint64_t)tag << 20 ^ i) * UINT64_C(0x9E3779B97F4A7C15);
    return (unsigned char)(x >> 32);
}

static inline void fill(unsigned char *p, size_t n, int from, int tag)
{
    for (size_t i = 0; i < n; i++)
        p[i] = byte_at(from, tag, i);
}

static inline void expect(int good, const char *what)
{
    if (!good && wrong++ < 5)
        fprintf(stderr, "rank %d: %s is not so\n", rank, what);
}
#define EXPECT(x) expect((x) != 0, #x)

static inline void expect_bytes(const unsigned char *p, size_t n, int from, int tag)
{
    size_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += p[i] != byte_at(from, tag, i);
    expect(!bad, "every byte as it was sent");
}

static inline void *get(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return p;
}

/* End a check: rank 0 prints its result. */
static inline void check_end(const char *name)
{
    int all = 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %s\n", all ? "not ok" : "ok", name);
    fflush(stdout);
    failed += all != 0;
    wrong = 0;
}

static inline void start(int *argc, char ***argv, int threads)
{
    int provided;
    MPI_Init_thread(argc, argv, threads, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    EXPECT(provided >= threads);
}

static inline int finish(void)
{
    MPI_Finalize();
    return failed != 0;
}

#endif
