/* SPDX-License-Identifier: BSD-3-Clause */
/* Small things that everything uses: branch hints, sizes, locks of the fast path. */
#ifndef MADI_BASE_H
#define MADI_BASE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#define MADI_LIKELY(x) __builtin_expect(!!(x), 1)
#define MADI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define MADI_COLD __attribute__((noinline)) /* out of the way of a short path, which then needs no stack frame */
#define MADI_ONE_REGISTER(p) __asm__("" : "+r"(p)) /* p is computed once, and its parts are addressed from it */
#define MADI_LINE 64 /* bytes of a cache line */
#define MADI_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define MADI_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Does errno say that this process, or its host, has no descriptors or memory left? */
static inline bool madi_own_lack(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* memcpy for kilobytes, wherever the two lie. */
void madi_copy_bulk(void *to, const void *from, size_t n);
/* What is in the pieces, one after the other. */
void madi_copy_pieces(void *to, const struct iovec *pieces, int n);
void madi_copy_long(void *to, const void *from, size_t n);

/* memcpy for lengths that are mostly small and not known when compiling: no call up to 64 bytes.  Builtins: a checked memcpy
 * (FORTIFY) checks nothing where neither room is known, and costs an instruction. */
static inline void madi_copy(void *to, const void *from, size_t n)
{
    char *d = (char *)to;
    const char *s = (const char *)from;
    if (n == 8) {
        __builtin_memcpy(d, s, 8);
    } else if (MADI_LIKELY(n <= 64)) {
        if (n > 32) {
            __builtin_memcpy(d, s, 32);
            __builtin_memcpy(d + n - 32, s + n - 32, 32);
        } else if (n >= 16) {
            __builtin_memcpy(d, s, 16);
            __builtin_memcpy(d + n - 16, s + n - 16, 16);
        } else if (n >= 8) {
            __builtin_memcpy(d, s, 8);
            __builtin_memcpy(d + n - 8, s + n - 8, 8);
        } else if (n) {
            size_t i = 0;
            do
                d[i] = s[i];
            while (++i < n);
        }
    } else {
        madi_copy_long(d, s, n);
    }
}

/* A line that will be written: it comes for this core alone.  The compiler's own prefetch does that only where it is told
 * that all processors have the instruction; those that have not take it for none. */
static inline void madi_fetch_to_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" ::"m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

static inline void madi_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A lock held for well under a microsecond.  One locked instruction to take, a plain store to release; a thread that
 * does not get it spins a little, then gives its core away, so that a preempted holder can run. */
typedef struct madi_lock {
    atomic_int held;
} madi_lock_t;

void madi_lock_slow(madi_lock_t *lock);

static inline bool madi_trylock(madi_lock_t *lock)
{
    return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

static inline void madi_lock(madi_lock_t *lock)
{
    if (MADI_UNLIKELY(atomic_exchange_explicit(&lock->held, 1, memory_order_acquire)))
        madi_lock_slow(lock);
}

static inline void madi_unlock(madi_lock_t *lock)
{
    atomic_store_explicit(&lock->held, 0, memory_order_release); /* pairs with the acquire of the next holder */
}

#endif
