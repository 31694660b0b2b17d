/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping and waking: the state that each process shows to its peers, and how peers wake it.
 *
 * The event that a process passes to its peers is an eventfd in semaphore mode whose count is at its maximum.  A peer
 * rings by reading it.  Every read takes 1 from the count, and wakes a thread that watches the descriptor
 * edge-triggered.  All processes that have the descriptor share its flags and its count.  Because peers ring by
 * reading, and not by writing, they can do no harm:
 *
 *   to the ringer     a read blocks only at count 0, and not even then with RWF_NOWAIT, a flag of the call.  (O_NONBLOCK
 *                     belongs to the shared description: the peer could clear it, and a write then blocks at the maximum.)
 *   to other peers    no process can exhaust the count (2^64 reads) or set it so that a ring has no effect, so no peer can
 *                     suppress the ring of another
 *   to the sleeper    it only watches, and never reads or writes the shared count; several rings before it looks are one
 *                     event */
#include "base/log.h"
#include "drivers/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
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
    a->bell_seals = shm_memory_seal(a->bell_fd, true);
    if (!a->bell_seals) {
        snprintf(reason, MADI_REASON_MAX, "shared memory cannot be sealed: %s", strerror(errno));
        return false;
    }
    atomic_store_explicit(&a->bell->fence,
                          madi_session_oversubscribed(a->base.session) ||
                              syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0),
                          memory_order_relaxed);
    return true;
}

shm_bell_t *shm_bell_map(int fd)
{
    void *p = mmap(NULL, SHM_BELL_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* ---- The event ------------------------------------------------------------------------------------------------ */

#define EVENT_FULL (UINT64_MAX - 1)     /* the greatest possible count */
#define EVENT_LEAST (UINT64_C(1) << 63) /* minimum count of an event: more than all rings during a link's life */

/* Ring the bell.  Return the number that was read: 1, or 0 on failure. */
static uint64_t event_ring(int fd)
{
    uint64_t got = 0;
    struct iovec part = {&got, sizeof got};
    ssize_t n = preadv2(fd, &part, 1, -1, RWF_NOWAIT);
    /* Linux before 5.8: a plain read, which cannot block since the count is far above 0 */
    if (MADI_UNLIKELY(n < 0 && errno == EOPNOTSUPP))
        n = read(fd, &got, sizeof got);
    return n == (ssize_t)sizeof got ? got : 0;
}

int shm_event_make(char *reason)
{
    uint64_t full = EVENT_FULL;
    int fd = madi_fd_own(eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC));
    if (fd >= 0 && write(fd, &full, sizeof full) == (ssize_t)sizeof full && shm_event_valid(fd))
        return fd;
    snprintf(reason, MADI_REASON_MAX, "no event to be woken by: %s%s", fd < 0 ? strerror(errno) : "is /proc mounted?",
             fd < 0 ? madi_remedy(errno) : "");
    if (fd >= 0)
        madi_fd_close(fd);
    return -1;
}

/* Read the entry of a descriptor in a folder of /proc/self.  Return false on failure. */
static bool proc_read(const char *folder, int fd, char *text, size_t len)
{
    char path[64];
    ssize_t n;
    int file;
    snprintf(path, sizeof path, "/proc/self/%s/%d", folder, fd);
    if (!strcmp(folder, "fd")) {
        n = readlink(path, text, len - 1);
    } else {
        file = open(path, O_RDONLY | O_CLOEXEC);
        n = file < 0 ? -1 : read(file, text, len - 1);
        if (file >= 0)
            close(file);
    }
    text[n < 0 ? 0 : n] = 0;
    return n > 0;
}

/* True if fd is an event.  No system call returns the kind of a descriptor, so its name in /proc is compared; names of
 * files begin with '/'. */
bool shm_event_valid(int fd)
{
    char text[512], *count;
    return proc_read("fd", fd, text, sizeof text) && !strcmp(text, "anon_inode:[eventfd]") &&
           proc_read("fdinfo", fd, text, sizeof text) && (count = strstr(text, "eventfd-count:")) != NULL &&
           strtoull(count + strlen("eventfd-count:"), NULL, 16) >= EVENT_LEAST &&
           /* another result means an eventfd without semaphore mode, of which the whole count was read */
           event_ring(fd) == 1;
}

void shm_bell_ring(const shm_link_t *l)
{
    event_ring(l->peer_fd);
}

/* ---- Going to sleep ------------------------------------------------------------------------------------------- */

void shm_bell_stuck(shm_link_t *l)
{
    if (l->stuck)
        return;
    l->stuck = true;
    atomic_fetch_add_explicit(&((shm_adapter_t *)l->base.adapter)->n_stuck, 1, memory_order_relaxed);
}

/* Handle all links that wait for space.  If announced is false, request by `wanted` that the
 * peers report free space.  If announced is true, return true if one of the links has space now. */
static bool stuck_each(shm_adapter_t *a, bool announced)
{
    shm_inbox_t **inboxes = atomic_load_explicit(&a->inboxes, memory_order_relaxed);
    bool space = false;
    for (int i = 0; i < atomic_load_explicit(&a->n_inboxes, memory_order_relaxed); i++) {
        shm_link_t *l = inboxes[i]->link;
        if (!l)
            continue;
        madi_link_lock_tx(&l->base);
        if (l->stuck && !announced) {
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
