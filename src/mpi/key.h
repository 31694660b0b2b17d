/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of a job that a launcher of MPI starts: where it comes from, and whether it can be one.
 *
 * In this order:
 *   1  MADELEINE_KEY, set by madrun --around, or by a user: hexadecimal digits
 *   2  the variable in which Open MPI's mpirun passes 128 random bits to a job and to the jobs that this job starts.
 *      Without mpirun Open MPI itself fills it with the number of the job, which is public: then it is passed over
 *   3  a random key that the first process of the job makes, and that the others get by the exchange of the MPI library
 *      (openmpi/key.c, ofi/key_pmix.c)
 * The provider of libfabric has keys of its user before and behind these (ofi/key.c). */
#ifndef MAD_MPI_KEY_H
#define MAD_MPI_KEY_H

#include <stdbool.h>
#include <stddef.h>

/* Its length in bytes; 0: there is none, -1: it is not valid. */
static inline int mad_mpi_key(unsigned char key[64])
{
    const char *text = secure_getenv("MADELEINE_KEY");
    size_t n = text ? strlen(text) / 2 : 0;
    if (!n)
        return text && *text ? -1 : 0;
    if (n < 16 || n > 64 || strlen(text) % 2)
        return -1;
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        int end = 0;
        if (sscanf(text + 2 * i, "%2x%n", &byte, &end) != 1 || end != 2)
            return -1;
        key[i] = (unsigned char)byte;
    }
    return (int)n;
}

#endif
