/* SPDX-License-Identifier: BSD-3-Clause */
/* Random bytes for keys, nonces and identities.
 *
 * Random bytes come from the kernel, not from libcrypto: libcrypto's generator has locks that no other library can take
 * before a fork, so a child made while another thread draws would wait for ever. */
#ifndef MADI_RANDOM_H
#define MADI_RANDOM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/random.h>
#include <sys/types.h>

/* Fill len bytes.  Waits only if the kernel's generator is not ready yet (early at boot).  Any lock may be held.  False,
 * with errno, if the kernel refuses, for instance because a filter forbids getrandom. */
static inline bool madi_random(void *bytes, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = getrandom((unsigned char *)bytes + done, len - done, 0);
        if (n > 0)
            done += (size_t)n;
        else if (errno != EINTR)
            return false;
    }
    return true;
}

#endif
