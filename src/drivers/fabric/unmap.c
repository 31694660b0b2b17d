/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/fabric/unmap.h"

#include "base/own.h"
#include "base/static_mutex.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1 /* Linux 5.11: permitted to all users */
#endif
#ifndef UFFD_FEATURE_MINOR_HUGETLBFS
#define UFFD_FEATURE_MINOR_HUGETLBFS (1 << 9) /* Linux 5.13 */
#endif
#define EVENTS (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE)

#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_SHARED (UINT64_C(1) << 61) /* page of a file, or of shared memory */
#define PAGEMAP_NUMBER ((UINT64_C(1) << 55) - 1)

/* Lock: unmap_mutex, except that the reader thread uses the descriptors without it. */
static struct {
    fabric_unmap_listener_t *listeners;
    pid_t pid;   /* process to which the other fields belong (fork copies them); 0 if there is no reader */
    int faults;  /* descriptor of userfaultfd */
    int pagemap; /* descriptor */
    int bell;    /* eventfd that ends the reader */
    pthread_t reader;
} unmap;
static madi_static_mutex_t unmap_mutex = MADI_STATIC_MUTEX;
static madi_static_mutex_t start_mutex = MADI_STATIC_MUTEX; /* held to start and end the reader; taken before the lock */

void fabric_unmap_lock(void)
{
    madi_static_mutex_lock(&unmap_mutex);
}

void fabric_unmap_unlock(void)
{
    madi_static_mutex_unlock(&unmap_mutex);
}

/* ---- The reader ------------------------------------------------------------------------------------------------------- */

static void listeners_call(uintptr_t from, uintptr_t to)
{
    for (fabric_unmap_listener_t *l = unmap.listeners; l; l = l->next)
        l->unmapped(l, from, to);
}

static void event_report(const struct uffd_msg *m)
{
    switch (m->event) {
    case UFFD_EVENT_UNMAP:
    case UFFD_EVENT_REMOVE: listeners_call(m->arg.remove.start, m->arg.remove.end); break;
    case UFFD_EVENT_REMAP: listeners_call(m->arg.remap.from, m->arg.remap.from + m->arg.remap.len); break;
    default: break;
    }
}

static void *reader_main(void *arg)
{
    struct pollfd fds[2] = {{.fd = unmap.faults, .events = POLLIN}, {.fd = unmap.bell, .events = POLLIN}};
    struct uffd_msg m;
    (void)arg;
    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue; /* a thread that unmaps may wait for this reader, which must therefore go on */
        if (fds[1].revents)
            break;
        fabric_unmap_lock();
        while (read(fds[0].fd, &m, sizeof m) == (ssize_t)sizeof m)
            event_report(&m);
        fabric_unmap_unlock();
    }
    madi_fd_close(fds[0].fd); /* from here on no thread waits for an event: the end of this thread may unmap a stack */
    return NULL;
}

/* ---- Start and end ---------------------------------------------------------------------------------------------------- */

/* Open the descriptor of userfaultfd; -1 with errno. */
static int faults_open(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = EVENTS};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd < 0)
        return -1;
    madi_fd_own(fd);
    /* Before Linux 5.13 a fork may move the parent to a copy of a page that a device uses. */
    if (!ioctl(fd, UFFDIO_API, &api) && api.features & UFFD_FEATURE_MINOR_HUGETLBFS)
        return fd;
    madi_fd_close(fd);
    errno = ENOSYS;
    return -1;
}

static void descriptors_close(void)
{
    if (unmap.faults >= 0)
        madi_fd_close(unmap.faults); /* no unmapping thread waits for an event any more */
    if (unmap.pagemap >= 0)
        madi_fd_close(unmap.pagemap);
    if (unmap.bell >= 0)
        madi_fd_close(unmap.bell);
    unmap.faults = unmap.pagemap = unmap.bell = -1;
    unmap.pid = 0;
}

/* Create the reader thread, which blocks all signals.  Return 0 or an error number. */
static int reader_make(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&unmap.reader, NULL, reader_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_setname_np(unmap.reader, "mad-unmap");
    return error;
}

static bool reader_start(char *reason, size_t size)
{
    if (unmap.pid == getpid())
        return true;
    unmap.listeners = NULL; /* after a fork, these listeners are the parent's */
    unmap.faults = faults_open();
    int error = unmap.faults < 0 ? errno : 0;
    unmap.pagemap = madi_fd_own(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    unmap.bell = madi_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!error && (unmap.pagemap < 0 || unmap.bell < 0))
        error = errno;
    if (!error)
        error = reader_make();
    if (!error) {
        unmap.pid = getpid();
        return true;
    }
    snprintf(reason, size, "userfaultfd: %s", strerror(error));
    descriptors_close();
    return false;
}

bool fabric_unmap_listen(fabric_unmap_listener_t *listener, char *reason, size_t size)
{
    madi_static_mutex_lock(&start_mutex);
    bool started = reader_start(reason, size);
    if (started) {
        fabric_unmap_lock();
        listener->next = unmap.listeners;
        unmap.listeners = listener;
        fabric_unmap_unlock();
    }
    madi_static_mutex_unlock(&start_mutex);
    return started;
}

void fabric_unmap_ignore(fabric_unmap_listener_t *listener)
{
    bool found = false;
    if (unmap.pid != getpid())
        return;
    madi_static_mutex_lock(&start_mutex);
    fabric_unmap_lock();
    for (fabric_unmap_listener_t **p = &unmap.listeners; *p && !found; p = found ? p : &(*p)->next) {
        found = *p == listener;
        if (found)
            *p = listener->next;
    }
    bool last = found && !unmap.listeners;
    fabric_unmap_unlock();
    if (last) {
        eventfd_write(unmap.bell, 1);
        pthread_join(unmap.reader, NULL);
        unmap.faults = -1; /* the reader has closed it */
        descriptors_close();
    }
    madi_static_mutex_unlock(&start_mutex);
}

/* ---- Pages -------------------------------------------------------------------------------------------------------------- */

bool fabric_unmap_watch(uintptr_t from, uintptr_t to)
{
    struct uffdio_register r = {.range = {from, to - from}, .mode = UFFDIO_REGISTER_MODE_WP};
    /* Without a page that is protected against writing, this mode causes events and no faults.  Huge pages of a file system
     * lack UFFDIO_ZEROPAGE. */
    return !ioctl(unmap.faults, UFFDIO_REGISTER, &r) && r.ioctls >> _UFFDIO_ZEROPAGE & 1;
}

bool fabric_unmap_pending(void)
{
    struct uffdio_zeropage none = {.range = {0, 0}};
    /* the errno is EINVAL if nothing is being unmapped */
    return ioctl(unmap.faults, UFFDIO_ZEROPAGE, &none) && errno == EAGAIN;
}

bool fabric_unmap_pages(uintptr_t from, uintptr_t to, uint64_t *sum)
{
    enum { BATCH = 128 };
    uint64_t entries[BATCH];
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = from / size, end = (to + size - 1) / size;
    *sum = 0;
    while (page < end) {
        size_t n = end - page < BATCH ? end - page : BATCH;
        if (pread(unmap.pagemap, entries, n * sizeof *entries, (off_t)(page * sizeof *entries)) !=
            (ssize_t)(n * sizeof *entries))
            return false;
        for (size_t i = 0; i < n; i++) {
            uint64_t number = entries[i] & PAGEMAP_NUMBER;
            if (!(entries[i] & PAGEMAP_PRESENT) || entries[i] & PAGEMAP_SHARED)
                return false;
            *sum += number * (2 * (page + i) + 1); /* the order counts, too */
        }
        page += n;
    }
    return true;
}

bool fabric_unmap_watches(uintptr_t from, uintptr_t to)
{
    struct uffdio_writeprotect none = {.range = {from, to - from}};
    return !ioctl(unmap.faults, UFFDIO_WRITEPROTECT, &none) || errno == EAGAIN;
}
