/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

/* More than 64 bytes.  A plain loop through vector registers: where lines come from another core's cache it beats the C
 * library, which goes over to string instructions at some length. */
void madi_copy_long(void *to, const void *from, size_t n)
{
    char *d = (char *)to;
    const char *s = (const char *)from, *last = s + n - 64;
    for (; s < last; s += 64, d += 64)
        memcpy(d, s, 64);
    memcpy(d - (s - last), last, 64);
}

void madi_copy_pieces(void *to, const struct iovec *pieces, int n)
{
    unsigned char *at = to;
    for (int i = 0; i < n; at += pieces[i++].iov_len)
        if (pieces[i].iov_len)
            memcpy(at, pieces[i].iov_base, pieces[i].iov_len);
}
