/* SPDX-License-Identifier: BSD-3-Clause */
/* Definitions that everything uses: branch hints, sizes, copies, and the lock of the fast path. */
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
/* keeps a rare path out of line, so that the short path needs no stack frame */
#define MADI_COLD __attribute__((noinline))
#define MADI_ONE_REGISTER(p) __asm__("" : "+r"(p)) /* compute p once, and address its parts from one register */
#define MADI_LINE 64                               /* bytes per cache line */
#define MADI_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define MADI_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* True if errno reports that this process, or its host, has run out of descriptors or memory. */
static inline bool madi_own_lack(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* Like memcpy, for kilobytes at any alignment. */
void madi_copy_bulk(void *to, const void *from, size_t n);
/* Like memcpy, for more than 2 KiB into memory whose lines are in the cache of another core. */
void madi_copy_across(void *to, const void *from, size_t n);
/* Concatenate n pieces at to. */
void madi_copy_pieces(void *to, const struct iovec *pieces, int n);
/* Like memcpy, but only for more than 64 bytes; madi_copy calls this function. */
void madi_copy_long(void *to, const void *from, size_t n);

/* Like memcpy, for lengths that are usually small and unknown at compile time: no call up to 64 bytes.  Uses builtins
 * because a checked memcpy (FORTIFY) costs an instruction, and cannot check where both object sizes are unknown. */
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
        } else if (n >= 4) {
            __builtin_memcpy(d, s, 4);
            __builtin_memcpy(d + n - 4, s + n - 4, 4);
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

/* Fetch a cache line for writing, in exclusive state.  The compiler emits this instruction only if it may assume that
 * all processors have it; processors without it execute it as a no-op. */
static inline void madi_fetch_to_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" ::"m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

/* Hint to the processor that this is a spin loop. */
static inline void madi_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A variable of each kernel thread, for a few bytes, that is read without a call: libraries loaded later share the room for
 * such variables.  Only in libmarcel: in libmadeleine it would draw all its variables of threads, 8 KiB, into that room. */
#define MADI_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

/* A lock held for well under a microsecond.  Taking it costs one locked instruction, releasing it a plain store.  A
 * thread that does not get the lock spins briefly and then gives up its core, so that a preempted holder can run. */
typedef struct madi_lock {
    atomic_int held;
} madi_lock_t;

void madi_lock_slow(madi_lock_t *lock);

/* Pause after check number n, counted from 0, of a thread that waits for another one to leave a short section. */
void madi_pause(unsigned n);

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
