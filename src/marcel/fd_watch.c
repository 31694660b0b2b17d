/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/fd_watch.h"
#include "base/log.h"
#include "base/own.h"
#include "base/static_mutex.h"
#include "engine/engine.h"
#include "marcel/cancel.h"
#include "marcel/carrier.h"
#include "marcel/sched.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLPRI == EPOLLPRI && POLLRDHUP == EPOLLRDHUP &&
                   POLLERR == EPOLLERR && POLLHUP == EPOLLHUP,
               "one set of names for events");

#define TROUBLE (uint32_t)(POLLERR | POLLHUP) /* events that are always reported, to every waiter */
#define CLOSED (UINT32_C(1) << 31)            /* bit of `came`: marcel_close has closed the descriptor */
#define EVENTS 64                             /* maximum number of events taken by one poll */

/* ---- The table ------------------------------------------------------------------------------------------------ */

#define CHUNK 1024
#define CHUNKS 4096 /* number of chunks; descriptors above their range are not watched: calls block */

typedef struct watched {
    marceli_waiters_t list;
    madi_lock_t lock;
    uint32_t armed; /* events for which the descriptor is registered; 0 after an event, or if it was never registered */
    uint32_t asked; /* events that the waiters want; may contain more, since some waiters may have left */
    bool known;     /* the descriptor was registered and is probably still in the epoll set */
    atomic_uchar kind;
    atomic_bool turn;
} watched_t;

static struct watch_set {
    _Atomic(watched_t *) chunks[CHUNKS]; /* made when needed, never freed */
    _Atomic(int) epfd;                   /* -1 before the first wait; stays open */
    _Atomic(int) n;                      /* number of waiters in all lists */
    _Atomic(int) hint;
} set = {.epfd = -1};

static madi_static_mutex_t start_lock = MADI_STATIC_MUTEX;

/* Return the record of a descriptor; NULL if it has none. */
static watched_t *watched_find(int fd)
{
    watched_t *chunk;
    if (fd < 0 || fd >= CHUNK * CHUNKS)
        return NULL;
    chunk = atomic_load_explicit(&set.chunks[fd / CHUNK], memory_order_acquire); /* pairs with watched_find_or_make */
    return chunk ? &chunk[fd % CHUNK] : NULL;
}

static watched_t *watched_find_or_make(int fd)
{
    watched_t *found = watched_find(fd), *chunk, *none = NULL;
    if (found || fd < 0 || fd >= CHUNK * CHUNKS)
        return found;
    chunk = calloc(CHUNK, sizeof *chunk);
    if (!chunk)
        return NULL;
    if (!atomic_compare_exchange_strong_explicit(&set.chunks[fd / CHUNK], &none, chunk, memory_order_acq_rel,
                                                 memory_order_acquire))
        free(chunk);
    return watched_find(fd);
}

/* ---- Notification ---------------------------------------------------------------------------------------------- */

static madi_fd_watch_t *watch_of(marceli_waiter_t *w)
{
    return MADI_CONTAINER(w, madi_fd_watch_t, waiter);
}

static bool watch_is_notified(madi_fd_watch_t *watch)
{
    return atomic_load_explicit(&watch->came, memory_order_acquire) != 0;
}

static void watch_notify(madi_fd_watch_t *watch, uint32_t what)
{
    atomic_store_explicit(&watch->came, what, memory_order_release); /* pairs with watch_is_notified */
    marceli_waiter_wake(&watch->waiter);
}

/* Return the events that some waiter wants and has not been notified of, except those that an earlier, notified waiter
 * wants too.  If a hundred thousand waiters all want to read, only the first is examined. */
static uint32_t watched_events(watched_t *watched)
{
    uint32_t all = 0, taken = 0, asked = 0;
    for (marceli_waiter_t *w = watched->list.first; w; w = w->next) {
        madi_fd_watch_t *watch = watch_of(w);
        asked |= watch->wanted;
        if (watch_is_notified(watch))
            taken |= watch->wanted;
        else
            all |= watch->wanted & ~taken;
        if (!(watched->asked & ~(all | taken))) /* stop here: the waiters behind this one can add no event */
            return all;
    }
    watched->asked = asked;
    return all;
}

/* Register the descriptor for the events that waiters want.  Called under its lock.  again: register it even if it is
 * registered, since another descriptor may have its number by now.  Return 0 or a negative error number. */
static int watched_arm(watched_t *watched, int fd, bool again)
{
    uint32_t events = watched_events(watched);
    struct epoll_event e = {.events = events | EPOLLONESHOT, .data.fd = fd};
    int epfd = atomic_load_explicit(&set.epfd, memory_order_relaxed), op;
    if (!(events & ~watched->armed) && !again)
        return 0;
    op = watched->known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(epfd, op, fd, &e)) {
        if (errno != (watched->known ? ENOENT : EEXIST))
            return -errno;
        /* the descriptor was closed or duplicated by other calls */
        if (epoll_ctl(epfd, watched->known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &e))
            return -errno;
    }
    watched->known = true;
    watched->armed = events;
    return 0;
}

/* Register the descriptor for the remaining waiters.  If that fails, wake them, so that they find the error. */
static void watched_arm_rest(watched_t *watched, int fd)
{
    if (!watched->list.first || !watched_arm(watched, fd, false))
        return;
    for (marceli_waiter_t *w = watched->list.first; w; w = w->next)
        if (!watch_is_notified(watch_of(w)))
            watch_notify(watch_of(w), TROUBLE);
}

static void watched_event(int fd, uint32_t what)
{
    watched_t *watched = watched_find(fd);
    uint32_t left = what;
    madi_lock(&watched->lock);
    watched->armed = 0;
    for (marceli_waiter_t *w = watched->list.first; w && left; w = w->next) {
        madi_fd_watch_t *watch = watch_of(w);
        uint32_t mine = left & (watch->wanted | TROUBLE);
        if (watch_is_notified(watch) || !mine)
            continue;
        watch_notify(watch, mine);
        left &= TROUBLE | ~mine;
    }
    watched_arm_rest(watched, fd); /* register the descriptor for the events of the other waiters */
    madi_unlock(&watched->lock);
}

/* ---- The category --------------------------------------------------------------------------------------------- */

static bool set_is_hinted(void *arg)
{
    (void)arg;
    return atomic_load_explicit(&set.hint, memory_order_relaxed);
}

static int set_poll(void *arg, bool deep)
{
    struct epoll_event events[EVENTS];
    int n;
    (void)arg;
    (void)deep;
    if (set_is_hinted(NULL))
        atomic_store_explicit(&set.hint, 0, memory_order_relaxed);
    if (!atomic_load_explicit(&set.n, memory_order_relaxed))
        return 0;
    n = epoll_wait(atomic_load_explicit(&set.epfd, memory_order_relaxed), events, EVENTS, 0);
    for (int i = 0; i < n; i++)
        watched_event(events[i].data.fd, events[i].events);
    if (n == EVENTS)
        atomic_store_explicit(&set.hint, 1, memory_order_relaxed);
    return n > 0 ? n : 0;
}

/* Nothing to do: the epoll set itself becomes readable. */
static bool set_enter_blocking(void *arg, int64_t *deadline)
{
    (void)arg;
    (void)deadline;
    return true;
}

static void set_exit_blocking(void *arg)
{
    (void)arg;
}

static MADI_COLD int set_start(void)
{
    marceli_category_t c = {.name = "descriptors",
                            .poll = set_poll,
                            .pure_poll = set_is_hinted,
                            .enter_blocking = set_enter_blocking,
                            .exit_blocking = set_exit_blocking,
                            .processes = 1};
    int rc = 0;
    madi_static_mutex_lock(&start_lock);
    if (atomic_load_explicit(&set.epfd, memory_order_relaxed) < 0) {
        c.fd = madi_fd_own(epoll_create1(EPOLL_CLOEXEC));
        if (c.fd < 0) {
            rc = -errno;
            madi_log(MADI_LOG_ERROR, "marcel", "no descriptor for waiting: %s%s", strerror(errno), madi_remedy(errno));
        } else if (!marceli_category_add(&c)) {
            madi_fd_close(c.fd);
            rc = -EMFILE;
        } else {
            atomic_store_explicit(&set.epfd, c.fd, memory_order_release); /* pairs with madi_fd_watch_begin */
        }
    }
    madi_static_mutex_unlock(&start_lock);
    return rc;
}

/* ---- A wait --------------------------------------------------------------------------------------------------- */

int madi_fd_watch_begin(madi_fd_watch_t *watch, int fd, uint32_t events)
{
    watched_t *watched;
    if (MADI_UNLIKELY(atomic_load_explicit(&set.epfd, memory_order_acquire) < 0)) {
        int rc = set_start();
        if (rc)
            return rc;
    }
    watched = watched_find_or_make(fd);
    if (!watched)
        return -ENOMEM;
    watch->fd = fd;
    watch->wanted = events;
    atomic_init(&watch->came, 0);
    marceli_waiter_init(&watch->waiter);
    madi_lock(&watched->lock);
    marceli_waiters_add(&watched->list, &watch->waiter);
    watched->asked |= events;
    madi_unlock(&watched->lock);
    atomic_fetch_add_explicit(&set.n, 1, memory_order_relaxed);
    return 0;
}

static bool watch_test(void *arg)
{
    madi_fd_watch_t *watch = arg;
    return watch_is_notified(watch) || madi_cancel_pending(watch->thread);
}

int madi_fd_watch_wait(madi_fd_watch_t *watch, int64_t deadline)
{
    watched_t *watched = watched_find(watch->fd);
    madi_party_t *self = madi_party_self();
    bool in_time;
    uint32_t came;
    int rc = 0;
    madi_lock(&watched->lock);
    came = atomic_load_explicit(&watch->came, memory_order_relaxed);
    if (came & CLOSED) {
        rc = -EBADF;
    } else {
        atomic_store_explicit(&watch->came, 0, memory_order_relaxed);
        rc = watched_arm(watched, watch->fd, true);
    }
    madi_unlock(&watched->lock);
    if (rc)
        return rc;
    watch->thread = self->thread;
    madi_interrupt_begin(self, &watch->waiter);
    in_time = marceli_wait(&watch->waiter, watch_test, watch, deadline);
    madi_interrupt_end(self);
    if (!in_time)
        return -ETIMEDOUT;
    if (!watch_is_notified(watch))
        return -ECANCELED;
    return atomic_load_explicit(&watch->came, memory_order_acquire) & CLOSED ? -EBADF : 0;
}

void madi_fd_watch_end(madi_fd_watch_t *watch)
{
    watched_t *watched = watched_find(watch->fd);
    madi_lock(&watched->lock);
    marceli_waiters_del(&watch->waiter);
    watched_arm_rest(watched, watch->fd);
    madi_unlock(&watched->lock);
    atomic_fetch_sub_explicit(&set.n, 1, memory_order_relaxed);
}

/* Reset in the child of a fork: its epoll set is created when it is needed, and no descriptor is registered in it. */
void madi_fd_watch_forked(void)
{
    bool worker = madi_carrier_self() != NULL; /* true if user-level threads of this worker exist in the child, too */
    for (int i = 0; i < CHUNKS; i++) {
        watched_t *chunk = atomic_load_explicit(&set.chunks[i], memory_order_relaxed);
        for (int k = 0; chunk && k < CHUNK; k++) {
            chunk[k].known = false;
            chunk[k].armed = 0;
            chunk[k].lock = (madi_lock_t){0};
            if (!worker)
                chunk[k].list = (marceli_waiters_t){0};
        }
    }
    if (!worker)
        atomic_store_explicit(&set.n, 0, memory_order_relaxed);
    atomic_store_explicit(&set.epfd, -1, memory_order_relaxed);
}

void madi_fd_watch_hint(void)
{
    if (atomic_load_explicit(&set.n, memory_order_relaxed) && !set_is_hinted(NULL))
        atomic_store_explicit(&set.hint, 1, memory_order_relaxed);
}

int madi_fd_watch_close(int fd)
{
    watched_t *watched = watched_find(fd);
    if (watched) {
        madi_lock(&watched->lock);
        for (marceli_waiter_t *w = watched->list.first; w; w = w->next)
            watch_notify(watch_of(w), CLOSED);
        /* delete the old registration, or a duplicate of the descriptor would go on to report events under this number */
        if (watched->known)
            epoll_ctl(atomic_load_explicit(&set.epfd, memory_order_relaxed), EPOLL_CTL_DEL, fd, NULL);
        watched->known = false;
        watched->armed = 0;
        atomic_store_explicit(&watched->kind, MADI_FD_UNKNOWN, memory_order_relaxed);
        madi_unlock(&watched->lock);
    }
    return close(fd) ? -errno : 0;
}

/* ---- Kinds of descriptors, and their turns ---------------------------------------------------------------------------- */

enum madi_fd_kind madi_fd_kind_get(int fd)
{
    watched_t *watched = watched_find(fd);
    return watched ? atomic_load_explicit(&watched->kind, memory_order_relaxed) : MADI_FD_UNKNOWN;
}

void madi_fd_kind_set(int fd, enum madi_fd_kind kind)
{
    watched_t *watched = watched_find_or_make(fd);
    if (watched)
        atomic_store_explicit(&watched->kind, kind, memory_order_relaxed);
}

bool madi_fd_turn_take(int fd)
{
    watched_t *watched = watched_find_or_make(fd);
    return !watched || !atomic_exchange_explicit(&watched->turn, true, memory_order_acquire);
}

void madi_fd_turn_leave(int fd)
{
    watched_t *watched = watched_find(fd);
    if (watched)
        atomic_store_explicit(&watched->turn, false, memory_order_release); /* pairs with madi_fd_turn_take */
}
