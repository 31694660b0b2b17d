/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: which memory of this process has been unmapped.  The kernel reports that by events of userfaultfd(2).  No function
 * of the C library is replaced.
 *
 *   thread that unmaps                kernel                      reader, a thread of this file
 *   munmap, mremap, brk, madvise ---> the memory is gone
 *     waits in the kernel             event ----------------------> lock; read
 *     goes on <---------------------- has been read                 every listener is called; unlock
 *
 * An event holds the unmapping thread, with all locks of that thread, until the reader has read the event.  So under the lock
 * of this file no thread frees memory, takes another lock, or waits for another thread.
 * A thread that goes on after an event takes the lock later than the reader, so that thread finds the listeners called.
 * For other threads, fabric_unmap_pending is true from before the memory is gone until its event has been read.
 *
 * Only anonymous private memory is watched: the kernel reports neither shmdt(2) nor the truncation of a file. */
#ifndef FABRIC_UNMAP_H
#define FABRIC_UNMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A receiver of reports. */
typedef struct fabric_unmap_listener {
    /* Handle the loss of the bytes from `from` up to `to`.  Called by the reader, under the lock. */
    void (*unmapped)(struct fabric_unmap_listener *listener, uintptr_t from, uintptr_t to);
    struct fabric_unmap_listener *next;
} fabric_unmap_listener_t;

/* Call the listener from now on; the first call starts the reader.  Return false with the reason (size bytes) if the kernel
 * reports nothing to this process. */
bool fabric_unmap_listen(fabric_unmap_listener_t *listener, char *reason, size_t size);
/* Stop calling the listener; does nothing for a listener that is not called.  Removing the last listener ends the reader. */
void fabric_unmap_ignore(fabric_unmap_listener_t *listener);

/* The lock of all listeners.  Its holders allocate, free and unmap nothing. */
void fabric_unmap_lock(void);
void fabric_unmap_unlock(void);

/* The following functions are called under the lock. */

/* Watch whole pages until they are unmapped.  False if that is impossible, for instance because it is memory of a file. */
bool fabric_unmap_watch(uintptr_t from, uintptr_t to);
/* True if memory is being unmapped and the listeners may not have been called for that memory yet. */
bool fabric_unmap_pending(void);

/* Return true if all these pages are present, anonymous and private.  Called without the lock.  *sum becomes a sum of their
 * numbers, by which pages that were replaced can be noticed; 0 if this process may not see these numbers. */
bool fabric_unmap_pages(uintptr_t from, uintptr_t to, uint64_t *sum);
/* True if the pages are still watched, or if the kernel is busy with another change. */
bool fabric_unmap_watches(uintptr_t from, uintptr_t to);

#endif
