/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of jobs.  A launcher's name may be longer than the library's limit, and the names of two jobs may differ only at
 * the beginning or only at the end. */
#ifndef MADI_BOOT_JOBNAME_H
#define MADI_BOOT_JOBNAME_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Copy name into job.  A name that is too long becomes a hash of the whole name (FNV-1a, 64 bits) followed by its end. */
static inline void madi_boot_job_name(char *job, size_t len, const char *name)
{
    uint64_t hash = 14695981039346656037u;
    size_t n = strlen(name);
    if (n >= len) {
        for (size_t i = 0; i < n; i++)
            hash = (hash ^ (unsigned char)name[i]) * 1099511628211u;
        name += n - (len - 18); /* 16 digits, a dash, the final zero */
        snprintf(job, len, "%016" PRIx64 "-%s", hash, name);
    } else {
        memcpy(job, name, n + 1);
    }
}

#endif
