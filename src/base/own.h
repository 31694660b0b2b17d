/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects that a child of fork must not inherit: descriptors, since a connection ends only when the last copy of its
 * socket is closed, and memory shared with peers.
 *
 * Every descriptor of a session, an adapter or a link is owned from its creation.  In the child of a fork all owned
 * descriptors are closed, and shared memory is replaced by private zeros, before fork returns there. fork waits for
 * threads that are about to own a descriptor (core/session/fork.c).  A child made by clone(2), vfork(2) or _Fork(3) runs none
 * of this: it keeps the descriptors until it executes a program, and has nothing mapped where shared memory was. */
#ifndef MADI_OWN_H
#define MADI_OWN_H

#include <stddef.h>

/* Own a descriptor, and return it; a negative fd is returned unchanged.  Any thread; takes no lock. */
int madi_fd_own(int fd);
/* Like close, but also end the ownership.  Legal for a descriptor that was never owned. */
int madi_fd_close(int fd);

/* Memory shared with other processes.  The caller provides the structure, and keeps it until madi_shared_forget. */
typedef struct madi_shared {
    void *base; /* NULL if unset */
    size_t len; /* bytes */
    struct madi_shared *next;
} madi_shared_t;
void madi_shared_own(madi_shared_t *shared, void *base, size_t len);
void madi_shared_forget(madi_shared_t *shared); /* Call before unmapping.  No effect on memory that is not owned */

#endif
