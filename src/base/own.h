/* SPDX-License-Identifier: BSD-3-Clause */
/* What a child of fork must not keep of its parent's: descriptors, for a connection ends only when the last copy of its
 * socket is closed, and memory that is shared with peers.
 *
 * Every descriptor of a session, an adapter or a link is owned from the moment it is made.  In the child of a fork all that
 * are owned are closed, and the shared memory becomes private memory of zeros, before fork returns there.  fork waits for
 * threads that are about to own one (core/fork.c).  A child made by clone(2), vfork(2) or _Fork(3) runs nothing of this: it
 * keeps descriptors until it executes a program, and has no memory at the addresses of what is shared. */
#ifndef MADI_OWN_H
#define MADI_OWN_H

#include <stddef.h>

/* Own a descriptor.  Returns fd; a negative one is returned as it is.  Any thread, no lock of its own. */
int madi_fd_own(int fd);
/* Like close, but own the descriptor no more.  Also legal for one that was never owned. */
int madi_fd_close(int fd);

/* Memory that is shared with other processes; the structure is the caller's, and stays until madi_shared_forget. */
typedef struct madi_shared {
    void *base; /* NULL: none */
    size_t len; /* bytes */
    struct madi_shared *next;
} madi_shared_t;
void madi_shared_own(madi_shared_t *shared, void *base, size_t len);
void madi_shared_forget(madi_shared_t *shared); /* before the memory is unmapped; again, or never owned: nothing */

#endif
