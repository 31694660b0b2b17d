/* SPDX-License-Identifier: BSD-3-Clause */
/* Distance between a misspelt name and a known one. */
#ifndef MADI_NEAREST_H
#define MADI_NEAREST_H

#include <stddef.h>
#include <string.h>

/* Return the edit distance between a (la bytes long) and b; 99 if b is too long. */
static inline int madi_distance(const char *a, size_t la, const char *b)
{
    size_t lb = strlen(b);
    int row[64];
    if (lb >= sizeof row / sizeof *row)
        return 99;
    for (size_t j = 0; j <= lb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= la; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= lb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[lb];
}

#endif
