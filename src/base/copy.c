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

/* Lies the destination 1 to 31 bytes behind the source, in their pages?  Then a string instruction, by which the C library
 * copies what is long, takes twenty to thirty times as long (Zen 4; it seems to wait for what it has just written).  A buffer
 * that begins with a page, and what is copied behind a header of 16 bytes, lie so. */
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
