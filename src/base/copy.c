/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

/* Copy more than 64 bytes by a plain loop through vector registers.  If the lines come from another core's cache,
 * this loop is faster than the C library, which uses string instructions above some length. */
void madi_copy_long(void *to, const void *from, size_t n)
{
    char *d = (char *)to;
    const char *s = (const char *)from, *last = s + n - 64;
    for (; s < last; s += 64, d += 64)
        memcpy(d, s, 64);
    memcpy(d - (s - last), last, 64);
}

/* True if the destination lies 1 to 31 bytes behind the source, modulo the page size.  The string instruction by
 * which the C library copies long blocks then takes 20 to 30 times as long (Zen 4; it seems to wait for its own
 * recent stores).  This happens, for instance, if a page-aligned buffer is filled with data that follow a header of
 * 16 bytes. */
static bool collides(const void *to, const void *from)
{
    return (((uintptr_t)to - (uintptr_t)from) & 4095) - 1 < 31;
}

void madi_copy_bulk(void *to, const void *from, size_t n)
{
    if (MADI_UNLIKELY(collides(to, from)))
        madi_copy(to, from, n);
    else
        memcpy(to, from, n);
}

void madi_copy_pieces(void *to, const struct iovec *pieces, int n)
{
    unsigned char *at = to;
    for (int i = 0; i < n; at += pieces[i++].iov_len)
        if (pieces[i].iov_len)
            madi_copy_bulk(at, pieces[i].iov_base, pieces[i].iov_len);
}
