/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of a job that madrun --around has given gateways: MADELEINE_KEY, hexadecimal digits. */
#ifndef MAD_MPI_KEY_H
#define MAD_MPI_KEY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its length in bytes; 0: there is none, -1: it is not valid. */
static inline int mad_mpi_key(unsigned char key[64])
{
    const char *text = getenv("MADELEINE_KEY");
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
