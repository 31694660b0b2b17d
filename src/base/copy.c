/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

/* Copies within a process, and out of another core's cache, are made by a plain loop through vector registers.  The wider
 * the registers, the more lines are under way at a time.  On Intel's processors, the string instruction is faster for these
 * copies from STRING_MIN on.  Copies into lines that another core holds are made by the string instruction: it writes whole
 * lines, so their old bytes need not be fetched (doc/rationale.md, "How are bytes copied?"). */
#define STRING_MIN 768        /* from this length on, the string instruction is faster than the loop on Intel */
#define WIDE_MAX (128 * 1024) /* bytes up to which madi_copy_bulk uses wide registers */

static void copy_plain(char *d, const char *s, size_t n)
{
    const char *last = s + n - 64;
    for (; s < last; s += 64, d += 64)
        memcpy(d, s, 64);
    memcpy(d - (s - last), last, 64);
}

#if defined(__x86_64__)
#define LEAF_7_EBX_ERMS (1U << 9) /* long copies by the string instruction are fast */

static bool has_wide;   /* the processor has registers of 32 bytes; written before main */
static bool has_string; /* the processor's string instruction is fast; written before main */
static bool is_intel;   /* written before main */

__attribute__((constructor)) static void processor_read(void)
{
    unsigned a, b, c, d;
    has_wide = __builtin_cpu_supports("avx2");
    is_intel = __builtin_cpu_is("intel");
    has_string = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & LEAF_7_EBX_ERMS;
}

static void copy_string(void *to, const void *from, size_t n)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
}

/* Copy 64 bytes.  The compilers' own copies of constant length use half of a wide register. */
__attribute__((target("avx2"))) static inline void copy_line(char *d, const char *s)
{
    __m256i low = _mm256_loadu_si256((const __m256i_u *)s), high = _mm256_loadu_si256((const __m256i_u *)(s + 32));
    _mm256_storeu_si256((__m256i_u *)d, low);
    _mm256_storeu_si256((__m256i_u *)(d + 32), high);
}

__attribute__((target("avx2"))) static void copy_wide(char *d, const char *s, size_t n)
{
    const char *last = s + n - 64;
    for (; s + 64 < last; s += 128, d += 128) {
        copy_line(d, s);
        copy_line(d + 64, s + 64);
    }
    if (s < last)
        copy_line(d, s);
    copy_line(d - (s - last), last);
}
#else
static const bool has_wide = false, has_string = false, is_intel = false;
#define copy_wide copy_plain
#define copy_string memcpy
#endif

/* True if the destination lies 1 to 31 bytes behind the source, modulo the page size.  The string instruction by
 * which the C library copies long blocks then takes 20 to 30 times as long (Zen 4; it seems to wait for its own
 * recent stores).  Such a copy occurs, for instance, if a page-aligned buffer is filled with data that follow a header
 * of 16 bytes. */
static bool collides(const void *to, const void *from)
{
    return (((uintptr_t)to - (uintptr_t)from) & 4095) - 1 < 31;
}

void madi_copy_long(void *to, const void *from, size_t n)
{
    if (n >= STRING_MIN && is_intel && has_string && !collides(to, from))
        copy_string(to, from, n);
    else if (has_wide)
        copy_wide(to, from, n);
    else
        copy_plain(to, from, n);
}

void madi_copy_bulk(void *to, const void *from, size_t n)
{
    if ((has_wide && n <= WIDE_MAX) || MADI_UNLIKELY(collides(to, from)))
        madi_copy(to, from, n);
    else
        memcpy(to, from, n);
}

void madi_copy_across(void *to, const void *from, size_t n)
{
    if (has_string && MADI_LIKELY(!collides(to, from)))
        copy_string(to, from, n);
    else
        madi_copy_bulk(to, from, n);
}

void madi_copy_pieces(void *to, const struct iovec *pieces, int n)
{
    unsigned char *at = to;
    for (int i = 0; i < n; at += pieces[i++].iov_len)
        if (pieces[i].iov_len)
            madi_copy_bulk(at, pieces[i].iov_base, pieces[i].iov_len);
}
