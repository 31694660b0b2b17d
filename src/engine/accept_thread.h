/* SPDX-License-Identifier: BSD-3-Clause */
/* Serves incoming connections while the program computes: a thread of the library's own sleeps on the listening
 * descriptors.  A thread inside the library sees a connection as well, and sooner.  So the accept thread, once woken,
 * waits for a moment before it looks whether the connection is still pending.  Without connections it never runs. */
#ifndef MADI_ACCEPT_THREAD_H
#define MADI_ACCEPT_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct marceli_accept_entry {
    int fd; /* readable while a connection is pending */
    /* Called by the accept thread; must not wait.  Return true if something was served.  *again: when to be called next
     * even without a connection (madi_now's ns), or INT64_MAX. */
    bool (*serve)(void *arg, int64_t *again);
    void *arg;
    int64_t again; /* ns: when serve is called first; afterwards the last *again, owned by the accept thread */
    _Atomic(bool) open;
    _Atomic(int64_t) serve_at; /* ns: of marceli_accept_entry_call_at; INT64_MAX if not called since the last look */
    struct marceli_accept_entry *next;
} marceli_accept_entry_t;

/* Register an entry, which the caller keeps until it is closed.  Return 0, or an error number: then only threads inside
 * the library serve it. */
int marceli_accept_entry_open(marceli_accept_entry_t *entry);
/* Remove an entry; no effect if it is not open.  Waits until a running call of serve has returned; none begins after. */
void marceli_accept_entry_close(marceli_accept_entry_t *entry);

/* Have serve called at that time (madi_now's ns) too, if the entry is open.  Any lock may be held; also from serve. */
void marceli_accept_entry_call_at(marceli_accept_entry_t *entry, int64_t when);

/* Return 1 if the accept thread exists, else 0. */
int madi_accept_thread_runs(void);
/* In the child of a fork: no entry is open, and the thread does not exist. */
void madi_accept_thread_forked(void);

#endif
