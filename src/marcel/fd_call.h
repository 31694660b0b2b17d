/* SPDX-License-Identifier: BSD-3-Clause */
/* A call on a descriptor that leaves the worker to other threads while it waits.
 *
 *     attempt   Made without blocking, and without changing the descriptor's flags, which are shared.
 *     wait      Made in the descriptor's list (fd_watch.h) when the attempt would block; then the attempt again.
 *     aside     The plain call, in a kernel thread of its own (marcel_blocking_begin).  For the few whose end no event
 *               announces: there neither an attempt nor a wait can do what the plain call does.
 *
 * A call on a stream that has moved a part of its bytes continues if a blocking call would (fd.c).
 *
 * Only functions that do not switch and are not inlined read errno, because compilers keep its address (worker.h). */
#ifndef MADI_FD_CALL_H
#define MADI_FD_CALL_H

#include "marcel/cancel.h"
#include "marcel/sched.h"
#include "marcel/fd_watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#define APART __attribute__((noinline))

/* Results of an attempt in addition to those of the plain call.  -EAGAIN: the call would block. */
#define MADI_FD_BLOCKS (-ENOSYS)         /* the descriptor has only the plain call, which blocks, as for a file */
#define MADI_FD_ASIDE (-ENOTRECOVERABLE) /* make the plain call in a kernel thread of its own */

typedef struct madi_fd_call madi_fd_call_t;
typedef ssize_t madi_fd_attempt_t(madi_fd_call_t *call);

struct madi_fd_call {
    madi_fd_attempt_t *attempt;
    madi_fd_attempt_t *plain; /* the blocking call */
    int fd, flags;            /* flags: MSG_... */
    uint32_t events;          /* POLLIN or POLLOUT: the events to wait for */
    int count;                /* number of blocks */
    union {
        struct iovec *out_of; /* blocks of a reading call; a writing call only reads its blocks */
        const struct iovec *blocks;
    };
    struct sockaddr *address;
    socklen_t *address_size;
    int64_t deadline; /* ns (madi_now): deadline of all waits of the call; 0: not looked up yet (SO_RCVTIMEO, SO_SNDTIMEO) */
    int seen;         /* MSG_... flags of the received message */
};

#pragma GCC visibility push(hidden)

/* Continue after an attempt that returned n: wait, or make the plain call.  Return the result of the call. */
ssize_t madi_fd_run_slow(madi_fd_call_t *call, ssize_t n);

/* Make the plain call in a kernel thread of its own, while the worker's other threads run. */
ssize_t madi_fd_aside(madi_fd_call_t *call);

/* Attempt of calls that have no non-blocking form: poll the descriptor, then make the plain call.  One thread at a time
 * does this on a descriptor. */
ssize_t madi_fd_polled(madi_fd_call_t *call);

/* True if a call on an eventfd, a timerfd or a similar descriptor fails at once, because the call has fewer bytes than
 * the 8 that these descriptors move. */
bool madi_fd_refuses_short(const madi_fd_call_t *call);

/* Return 0 if a call that would block may wait, -EAGAIN if not, -EBADF if the descriptor is not open in that direction. */
int madi_fd_may_wait(const madi_fd_call_t *call);

/* Query the kernel for the kind of an open descriptor.  Return the kind, or a negative error number. */
int madi_fd_kind_find(int fd);

/* Return the flags of the open file (O_...), or a negative error number. */
int madi_fd_flags(int fd);

/* Return which of the events are pending now, 0 if none, or -EBADF. */
int madi_fd_poll_now(int fd, uint32_t events);

/* Return the value of an option of level SOL_SOCKET; `otherwise` if the descriptor is no socket or lacks the option. */
int madi_fd_option(int fd, int name, int otherwise);

/* Return the deadline (madi_now's ns) of a wait that begins now, from SO_RCVTIMEO or SO_SNDTIMEO; MADI_NEVER if none is
 * set. */
int64_t madi_fd_deadline(int fd, int name);

/* End a call.  Counts as a switch, so that other threads get their turn. */
static inline void madi_fd_passed(void)
{
    madi_worker_t *worker = madi_ult_self()->worker; /* the thread gets back a worker that the monitor took away */
    madi_fd_watch_hint();
    if (MADI_UNLIKELY(--worker->tick == 0)) {
        worker->tick = 1;
        madi_yield(worker);
    }
}

/* Act as a cancellation point.  Every call is one where it begins and, on a user-level thread, while it waits. */
static inline void madi_fd_point(void)
{
    madi_party_t *self = madi_party_self();
    if (self)
        madi_cancel_point(self);
}

static inline ssize_t madi_fd_ended(ssize_t n)
{
    if (MADI_UNLIKELY(n == -ECANCELED))
        madi_fd_point();
    return n;
}

static inline ssize_t madi_fd_run(madi_fd_call_t *call)
{
    ssize_t n;
    if (MADI_UNLIKELY(!madi_ult_self()))
        return call->plain(call);
    n = call->attempt(call);
    if (MADI_UNLIKELY(n == -EAGAIN || n == MADI_FD_BLOCKS || n == MADI_FD_ASIDE))
        n = madi_fd_run_slow(call, n);
    madi_fd_passed();
    return n;
}

static inline int madi_fd_kind_of(int fd)
{
    int kind = (int)madi_fd_kind_get(fd);
    return MADI_LIKELY(kind != MADI_FD_UNKNOWN) ? kind : madi_fd_kind_find(fd);
}

#pragma GCC visibility pop

#endif
