/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/own.h"
#include "base/base.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define BITS 64
/* number of 64-bit words in the set; a descriptor of 1,048,576 or above (a kernel's default limit) is never owned */
#define WORDS (1 << 14)

static _Atomic(uint64_t) owned[WORDS];
static atomic_int n_words; /* number of words ever used */
static madi_lock_t lock;   /* protects the list of shared memory */
static _Atomic(madi_shared_t *) all_shared;

/* Clean up in the child, where this is the only thread.  The list is consistent at every moment, even if another thread
 * of the parent was changing it. */
static void own_forked(void)
{
    int n = atomic_load_explicit(&n_words, memory_order_relaxed);
    for (int i = 0; i < n; i++)
        for (uint64_t word = atomic_exchange_explicit(&owned[i], 0, memory_order_relaxed); word; word &= word - 1)
            close(i * BITS + __builtin_ctzll(word));
    for (madi_shared_t *s = atomic_load_explicit(&all_shared, memory_order_relaxed); s; s = s->next)
        (void)mmap(s->base, s->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    atomic_store_explicit(&all_shared, NULL, memory_order_relaxed);
    atomic_store_explicit(&lock.held, 0, memory_order_relaxed);
}

static void own_watch_forks(void)
{
    pthread_atfork(NULL, NULL, own_forked);
}

static void own_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, own_watch_forks);
}

int madi_fd_own(int fd)
{
    int i = fd / BITS, n;
    if (fd < 0 || i >= WORDS)
        return fd;
    own_begin();
    atomic_fetch_or_explicit(&owned[i], UINT64_C(1) << fd % BITS, memory_order_relaxed);
    n = atomic_load_explicit(&n_words, memory_order_relaxed);
    while (n <= i && !atomic_compare_exchange_weak_explicit(&n_words, &n, i + 1, memory_order_relaxed, memory_order_relaxed))
        ;
    return fd;
}

int madi_fd_close(int fd)
{
    if (fd >= 0 && fd / BITS < WORDS) /* the bit is cleared before the number can belong to another descriptor */
        atomic_fetch_and_explicit(&owned[fd / BITS], ~(UINT64_C(1) << fd % BITS), memory_order_relaxed);
    return close(fd);
}

void madi_shared_own(madi_shared_t *shared, void *base, size_t len)
{
    own_begin();
    madvise(base, len, MADV_DONTFORK);
    shared->base = base;
    shared->len = len;
    madi_lock(&lock);
    shared->next = atomic_load_explicit(&all_shared, memory_order_relaxed);
    atomic_store_explicit(&all_shared, shared, memory_order_release); /* the list is complete before a child can see it */
    madi_unlock(&lock);
}

void madi_shared_forget(madi_shared_t *shared)
{
    madi_shared_t *before = NULL, *s;
    if (!shared->base)
        return;
    madi_lock(&lock);
    for (s = atomic_load_explicit(&all_shared, memory_order_relaxed); s && s != shared; s = s->next)
        before = s;
    if (before)
        before->next = shared->next;
    else if (s)
        atomic_store_explicit(&all_shared, shared->next, memory_order_relaxed);
    madi_unlock(&lock);
    shared->base = NULL;
}
