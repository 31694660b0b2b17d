/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits of user-level threads for descriptors: one category of the polling server (engine.h) with an epoll set for all.
 *
 * A thread whose call would block stands in the descriptor's list, in the order of arrival, until the call does not:
 *     madi_watch_begin(&watch, fd, POLLIN);
 *     do
 *         rc = madi_watch_wait(&watch, deadline);
 *     while (!rc && (n = attempt()) == -EAGAIN);
 *     madi_watch_end(&watch);
 * A descriptor is registered for one event at a time (EPOLLONESHOT), and only for what somebody waits for.  An event wakes
 * the first that waits for it; when that one leaves the list the descriptor is registered again for the others, so ten
 * thousand that wait for one descriptor are not all woken by each event.
 *
 * Why no wake-up is lost: registering looks at the descriptor, so an event that came after the attempt is notified at
 * once; and as long as a thread in the list was not notified of an event, the descriptor is registered for it, or a
 * thread before it was notified and is still in the list: that one registers the descriptor when it leaves or waits
 * again. */
#ifndef MADI_WATCH_H
#define MADI_WATCH_H

#include "engine/waiter.h"

typedef struct madi_watch {
    marceli_waiter_t waiter;
    const struct marcel_thread *thread; /* that waits */
    int fd;
    uint32_t wanted;        /* POLLIN, POLLOUT, ... (those of epoll have the same values) */
    _Atomic(uint32_t) told; /* which came, under the list's lock; 0: it waits */
} madi_watch_t;

/* Facts about a descriptor, right as long as the program closes it by marcel_close.  Sockets are before MADI_FD_PIPE. */
enum madi_fd_kind {
    MADI_FD_UNKNOWN,   /* or a file: that is not remembered */
    MADI_FD_LOWAT,     /* a socket with SO_RCVLOWAT above 1 */
    MADI_FD_SOCKET,
    MADI_FD_PIPE,
    MADI_FD_TERMINAL,
    MADI_FD_ANONYMOUS, /* eventfd, timerfd, inotify, epoll, ... */
    MADI_FD_OTHER
};

#pragma GCC visibility push(hidden)

/* The calling user-level thread goes to the end of the list.  0, or a negative error number: the descriptor cannot be
 * watched (no memory, no descriptors).  No lock. */
int madi_watch_begin(madi_watch_t *watch, int fd, uint32_t wanted);

/* Wait until there may be what is wanted, others have had their turn, or the deadline (madi_now's ns) has passed.  0: try
 * again; else a negative error number: -ETIMEDOUT, -ECANCELED (a cancel is pending: the caller acts, after the end), -EBADF
 * (it is closed, or was by marcel_close), or another: it cannot be watched (-EPERM: a file).  May switch. */
int madi_watch_wait(madi_watch_t *watch, int64_t deadline);

/* Only after a madi_watch_begin that returned 0. */
void madi_watch_end(madi_watch_t *watch);

/* In the child of a fork: the set was the parent's. */
void madi_watch_forked(void);

/* Something was done to a descriptor by this process: somebody may wait for its other end, so look soon. */
void madi_watch_hint(void);

/* Close it; threads that wait for it get -EBADF.  Return 0 or a negative error number. */
int madi_watch_close(int fd);

enum madi_fd_kind madi_fd_kind_get(int fd);
void madi_fd_kind_set(int fd, enum madi_fd_kind kind);

/* For calls that cannot be asked not to block: one thread at a time polls the descriptor and then calls.  false: another
 * does. */
bool madi_fd_turn_take(int fd);
void madi_fd_turn_leave(int fd);

#pragma GCC visibility pop

#endif
