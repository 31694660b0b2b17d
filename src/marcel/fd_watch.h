/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits of user-level threads for descriptors: one category of the polling server (engine.h) with an epoll set for all.
 *
 * A thread whose call would block enters the descriptor's list, in the order of arrival, until the call does not block:
 *     madi_fd_watch_begin(&watch, fd, POLLIN);
 *     do
 *         rc = madi_fd_watch_wait(&watch, deadline);
 *     while (!rc && (n = attempt()) == -EAGAIN);
 *     madi_fd_watch_end(&watch);
 * A descriptor is registered for one event at a time (EPOLLONESHOT), and only for events that a thread waits for.  An
 * event wakes the first thread that waits for it.  When that thread leaves the list, the descriptor is registered again
 * for the others.  So each event wakes one thread, even if ten thousand wait for the descriptor.
 *
 * Why no wake-up is lost.  Registering checks the state of the descriptor, so an event that came after the attempt is
 * reported at once.  Suppose that a thread in the list waits for an event of which it was not notified.  Either the
 * descriptor is registered for that event, or an earlier thread was notified and is still in the list.  The earlier thread
 * registers the descriptor when it leaves or waits again. */
#ifndef MADI_FD_WATCH_H
#define MADI_FD_WATCH_H

#include "engine/waiter.h"

typedef struct madi_fd_watch {
    marceli_waiter_t waiter;
    const struct marcel_thread *thread; /* the waiting thread */
    int fd;
    uint32_t wanted;        /* POLLIN, POLLOUT, ... (those of epoll have the same values) */
    _Atomic(uint32_t) came; /* events that have occurred; written under the list's lock; 0 while the thread waits */
} madi_fd_watch_t;

/* Kind of a descriptor, valid as long as the program closes it by marcel_close.  Kinds of sockets come before
 * MADI_FD_PIPE. */
enum madi_fd_kind {
    MADI_FD_UNKNOWN, /* not examined yet, or a file, whose kind is not remembered */
    MADI_FD_LOWAT,   /* a socket with SO_RCVLOWAT above 1 */
    MADI_FD_SOCKET,
    MADI_FD_PIPE,
    MADI_FD_TERMINAL,
    MADI_FD_ANONYMOUS, /* eventfd, timerfd, inotify, epoll, ... */
    MADI_FD_OTHER
};

#pragma GCC visibility push(hidden)

/* Append the calling user-level thread to the descriptor's list.  Return 0, or a negative error number if the descriptor
 * cannot be watched (no memory, no descriptors).  No lock held. */
int madi_fd_watch_begin(madi_fd_watch_t *watch, int fd, uint32_t wanted);

/* Wait until a wanted event may have come, or until the deadline (madi_now's ns).  Return 0 if the caller should try
 * again, otherwise a negative error number: -ETIMEDOUT; -ECANCELED if a cancel is pending, on which the caller acts after
 * madi_fd_watch_end; -EBADF if the descriptor was closed; another one if it cannot be watched (-EPERM: a file).  May
 * switch. */
int madi_fd_watch_wait(madi_fd_watch_t *watch, int64_t deadline);

/* Leave the list.  Called after a madi_fd_watch_begin that returned 0. */
void madi_fd_watch_end(madi_fd_watch_t *watch);

/* Reset in the child of a fork: drop the epoll set, which belongs to the parent. */
void madi_fd_watch_forked(void);

/* Poll the epoll set soon: this process has used a descriptor, and a thread may wait for its other end. */
void madi_fd_watch_hint(void);

/* Close a descriptor; threads that wait for it get -EBADF.  Return 0 or a negative error number. */
int madi_fd_watch_close(int fd);

enum madi_fd_kind madi_fd_kind_get(int fd);
void madi_fd_kind_set(int fd, enum madi_fd_kind kind);

/* Take the turn of a descriptor: one thread at a time polls the descriptor and then makes a call that has no non-blocking
 * form.  Return false if another thread has the turn. */
bool madi_fd_turn_take(int fd);
void madi_fd_turn_leave(int fd);

#pragma GCC visibility pop

#endif
