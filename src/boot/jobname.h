/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of jobs.  A launcher's name may be longer than ours can be, and two jobs' names may differ at either end only. */
#ifndef MADI_BOOT_JOBNAME_H
#define MADI_BOOT_JOBNAME_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Copy name into job; a name that is too long becomes a hash of the whole (FNV-1a, 64 bits) followed by its end. */
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
