/* SPDX-License-Identifier: BSD-3-Clause */
/* The accept thread: a thread of the library that serves incoming connections while the program computes.  The accept thread
 * sleeps on the listening descriptors.  A thread inside the library sees a connection as well, and sooner.  Once woken, the
 * accept thread therefore waits for a moment before it checks whether the connection is still pending.  Without connections
 * the accept thread never runs. */
#ifndef MADI_ACCEPT_THREAD_H
#define MADI_ACCEPT_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct marceli_accept_entry {
    int fd; /* readable while a connection is pending */
    /* Serve pending connections; called by the accept thread; must not wait.  Return true if something was served.
     * *again: time of the next call even without a connection (madi_now's ns), or INT64_MAX. */
    bool (*serve)(void *arg, int64_t *again);
    void *arg;
    int64_t again; /* ns: time of the next call of `serve`: of the first one, then as the last call has set *again; owned by
                    * the accept thread */
    _Atomic(bool) open;
    /* ns: earliest time from marceli_accept_entry_call_at since the last check; INT64_MAX if none */
    _Atomic(int64_t) serve_at;
    struct marceli_accept_entry *next;
} marceli_accept_entry_t;

/* Register an entry, which the caller keeps until it is closed.  Return 0, or an error number: then only threads inside
 * the library serve incoming connections. */
int marceli_accept_entry_open(marceli_accept_entry_t *entry);
/* Remove an entry; no effect if the entry is not open.  Wait until a running call of serve has returned; no further call
 * begins. */
void marceli_accept_entry_close(marceli_accept_entry_t *entry);

/* Make the accept thread call serve at the time `when` (madi_now's ns), even without a connection; no effect if the
 * entry is not open.  Any lock may be held; may be called from serve. */
void marceli_accept_entry_call_at(marceli_accept_entry_t *entry, int64_t when);

/* Return 1 if the accept thread exists, else 0. */
int madi_accept_thread_runs(void);
/* Reset the state in the child of a fork: no entry is open, and the thread does not exist. */
void madi_accept_thread_forked(void);

#endif
