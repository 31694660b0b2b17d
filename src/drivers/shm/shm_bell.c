/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping and waking: what each process tells its peers about itself, and how they ring. */
#include "drivers/shm/shm.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

bool shm_bell_make(shm_adapter_t *a, char *reason)
{
    void *p;
    a->bell_fd = shm_memory_make(SHM_BELL_SIZE, SHM_BELL_SIZE, reason);
    if (a->bell_fd < 0)
        return false;
    p = mmap(NULL, SHM_BELL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a->bell_fd, 0);
    if (p == MAP_FAILED) {
        snprintf(reason, MADI_REASON_MAX, "no room for shared memory: %s; see ulimit -v", strerror(errno));
        return false;
    }
    madi_shared_own(&a->bell_shared, p, SHM_BELL_SIZE);
    a->bell = p;
    atomic_store_explicit(&a->bell->fence, madi_crowded(a->base.session) ||
                          syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0), memory_order_relaxed);
    return true;
}

shm_bell_t *shm_bell_map(int fd)
{
    void *p = mmap(NULL, SHM_BELL_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

void shm_bell_ring(const shm_link_t *l)
{
    uint64_t one = 1;
    ssize_t n;
    do
        n = write(l->peer_fd, &one, sizeof one);
    while (n < 0 && errno == EINTR);
}

void shm_bell_stuck(shm_link_t *l)
{
    if (l->stuck)
        return;
    l->stuck = true;
    atomic_fetch_add_explicit(&((shm_adapter_t *)l->base.adapter)->n_stuck, 1, memory_order_relaxed);
}

/* Tell the peers of all stuck links that space is wanted, or, when that was told: is there space meanwhile? */
static bool stuck_each(shm_adapter_t *a, bool told)
{
    shm_inbox_t **inboxes = atomic_load_explicit(&a->inboxes, memory_order_relaxed);
    bool space = false;
    for (int i = 0; i < atomic_load_explicit(&a->n_inboxes, memory_order_relaxed); i++) {
        shm_link_t *l = inboxes[i]->link;
        if (!l)
            continue;
        madi_link_lock_tx(&l->base);
        if (l->stuck && !told) {
            atomic_store_explicit(&l->out->wanted, 1, memory_order_relaxed);
        } else if (l->stuck && shm_space(l)) {
            l->stuck = false;
            atomic_fetch_sub_explicit(&a->n_stuck, 1, memory_order_relaxed);
            space = true;
        }
        madi_link_unlock_tx(&l->base);
    }
    return space;
}

bool shm_arm(madi_adapter_t *adapter)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    bool stuck = atomic_load_explicit(&a->n_stuck, memory_order_relaxed);
    if (!atomic_load_explicit(&a->n_inboxes, memory_order_relaxed))
        return true;
    atomic_store_explicit(&a->bell->asleep, 1, memory_order_relaxed);
    if (stuck)
        stuck_each(a, false);
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&a->bell->fence, memory_order_relaxed))
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    if (stuck && stuck_each(a, true))
        return false;
    return !shm_any(a);
}

void shm_disarm(madi_adapter_t *adapter)
{
    atomic_store_explicit(&((shm_adapter_t *)adapter)->bell->asleep, 0, memory_order_relaxed);
}
