/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a link: the memory and the eventfds go over the socket on which the handshake was. */
#include "drivers/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* What goes over the socket: from the active side with its memory and eventfd, from the passive side with its eventfd
 * and the nonce that it read in the memory. */
typedef struct offer {
    uint32_t magic, layout;
    uint32_t fence; /* the sender of this cannot fence for the other */
    uint32_t pad;
    unsigned char nonce[16];
} offer_t;

static bool send_fds(int sock, const offer_t *offer, const int *fds, int n)
{
    struct iovec iov = {(void *)offer, sizeof *offer};
    union {
        char buf[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf};
    struct cmsghdr *c;
    memset(&control, 0, sizeof control);
    msg.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
    c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
    return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *offer;
}

/* The number of descriptors got (all owned by the caller), or -1. */
static int recv_fds(int sock, offer_t *offer, int *fds, int max)
{
    struct iovec iov = {offer, sizeof *offer};
    union {
        char buf[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof control.buf};
    ssize_t got = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int n = 0;
    for (struct cmsghdr *c = got >= 0 ? CMSG_FIRSTHDR(&msg) : NULL; c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (n < max)
                fds[n++] = fd;
            else
                close(fd);
        }
    }
    if (got != (ssize_t)sizeof *offer) {
        for (int i = 0; i < n; i++)
            close(fds[i]);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        return -1;
    }
    return n;
}

/* Memory that could be made shorter would kill us with SIGBUS: it must be whole, and sealed to stay so. */
static bool sealed(int memfd)
{
    struct stat st;
    int seals = fcntl(memfd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(memfd, &st) == 0 && st.st_size >= (off_t)sizeof(shm_region_t);
}

static bool map(shm_link_t *l)
{
    void *p = mmap(NULL, sizeof(shm_region_t), PROT_READ | PROT_WRITE, MAP_SHARED, l->memfd, 0);
    if (p == MAP_FAILED)
        return false;
    l->region = p;
    l->out = &l->region->half[l->active ? 0 : 1];
    l->in = &l->region->half[l->active ? 1 : 0];
    l->sent_limit = SHM_CELLS;
    close(l->memfd);
    l->memfd = -1;
    return true;
}

/* Put the link into the adapter's list.  pure_poll may be reading the old array. */
static bool enlist(shm_link_t *l)
{
    shm_adapter_t *a = (shm_adapter_t *)l->base.adapter;
    int n = atomic_load_explicit(&a->n_links, memory_order_relaxed);
    shm_link_t **links = atomic_load_explicit(&a->links, memory_order_relaxed), **p;
    for (int i = 0; i < n; i++)
        if (!links[i]) {
            links[i] = l;
            l->index = i;
            return true;
        }
    if (n == a->cap_links) {
        int cap = n ? n * 2 : 8;
        void **old = realloc(a->old_arrays, (size_t)(a->n_old + 1) * sizeof *old);
        if (!old)
            return false;
        a->old_arrays = old;
        p = calloc((size_t)cap, sizeof *p);
        if (!p)
            return false;
        if (n)
            memcpy(p, links, (size_t)n * sizeof *p);
        old[a->n_old++] = p;
        a->cap_links = cap;
        atomic_store_explicit(&a->links, p, memory_order_release); /* pairs with shm_pure_poll */
        links = p;
    }
    links[n] = l;
    l->index = n;
    atomic_store_explicit(&a->n_links, n + 1, memory_order_release); /* pairs with shm_pure_poll */
    return true;
}

static void up(shm_link_t *l, uint32_t peer_fence)
{
    shm_adapter_t *a = (shm_adapter_t *)l->base.adapter;
    atomic_store_explicit(&l->in->fence, a->fence, memory_order_relaxed);
    (void)peer_fence; /* the peer writes its own half */
    if (!enlist(l))
        madi_link_down(&l->base, MAD_ERR_NOMEM, "no memory for a link");
    else
        madi_link_up(&l->base);
}

static void answer_came(shm_link_t *l)
{
    offer_t offer;
    int fd[2];
    int n = recv_fds(l->fd, &offer, fd, 2);
    if (n == 0)
        return;
    if (n != 1 || offer.magic != SHM_MAGIC || memcmp(offer.nonce, l->nonce, sizeof offer.nonce)) {
        for (int i = 0; i < n; i++)
            close(fd[i]);
        madi_link_down(&l->base, MAD_ERR_PEER, "the peer could not map the shared memory");
        return;
    }
    l->peer_fd = fd[0];
    up(l, offer.fence);
}

static void offer_came(shm_link_t *l)
{
    shm_adapter_t *a = (shm_adapter_t *)l->base.adapter;
    offer_t offer;
    int fd[2];
    int n = recv_fds(l->fd, &offer, fd, 2);
    if (n == 0)
        return;
    if (n != 2 || offer.magic != SHM_MAGIC || offer.layout != SHM_LAYOUT) {
        for (int i = 0; i < n; i++)
            close(fd[i]);
        madi_link_down(&l->base, MAD_ERR_PEER, "the peer's offer of shared memory is not one");
        return;
    }
    l->memfd = fd[0];
    l->peer_fd = fd[1];
    if (!sealed(l->memfd) || !map(l) || memcmp(l->region->nonce, offer.nonce, sizeof offer.nonce)) {
        madi_link_down(&l->base, MAD_ERR_PEER, "the shared memory is not what the peer offered");
        return;
    }
    offer = (offer_t){.magic = SHM_MAGIC, .layout = SHM_LAYOUT, .fence = a->fence};
    memcpy(offer.nonce, l->region->nonce, sizeof offer.nonce);
    if (!send_fds(l->fd, &offer, &a->event_fd, 1))
        madi_link_down(&l->base, MAD_ERR_PEER, strerror(errno));
    else
        up(l, offer.fence);
}

static void socket_ready(madi_watch_t *watch, uint32_t events)
{
    shm_link_t *l = MADI_CONTAINER(watch, shm_link_t, watch);
    bool is_up = atomic_load_explicit(&l->base.state, memory_order_relaxed) == MADI_LINK_UP;
    if ((events & EPOLLIN) && !is_up) {
        if (l->active)
            answer_came(l);
        else
            offer_came(l);
        is_up = atomic_load_explicit(&l->base.state, memory_order_relaxed) == MADI_LINK_UP;
    }
    if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) {
        while (is_up && shm_poll(l->base.adapter, 1024)) /* what it sent before it went */
            is_up = atomic_load_explicit(&l->base.state, memory_order_relaxed) == MADI_LINK_UP;
        madi_link_down(&l->base, MAD_ERR_PEER, "the process is gone");
    }
}

static bool make_memory(shm_link_t *l, char *reason)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < sizeof(shm_region_t)) { /* going past it is a signal */
        snprintf(reason, MADI_REASON_MAX, "no shared memory: the limit of file sizes is %llu bytes; raise it (ulimit -f)",
                 (unsigned long long)limit.rlim_cur);
        return false;
    }
    l->memfd = memfd_create("madeleine", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (l->memfd < 0 || ftruncate(l->memfd, sizeof(shm_region_t)) ||
        fcntl(l->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        snprintf(reason, MADI_REASON_MAX, "no shared memory: %s", strerror(errno));
        return false;
    }
    return true;
}

mad_status_t shm_start(madi_link_t *link, int fd, bool active, char *reason)
{
    shm_link_t *l = (shm_link_t *)link;
    shm_adapter_t *a = (shm_adapter_t *)link->adapter;
    offer_t offer = {.magic = SHM_MAGIC, .layout = SHM_LAYOUT, .fence = a->fence};
    int fds[2];

    l->fd = fd;
    l->memfd = l->peer_fd = -1;
    l->active = active;
    l->watch = (madi_watch_t){fd, socket_ready};
    if (active) {
        if (!make_memory(l, reason))
            return MAD_ERR_SYSTEM;
        fds[0] = l->memfd;
        fds[1] = a->event_fd;
        if (getrandom(l->nonce, sizeof l->nonce, 0) != sizeof l->nonce)
            return MAD_ERR_SYSTEM;
        memcpy(offer.nonce, l->nonce, sizeof offer.nonce);
        if (pwrite(l->memfd, l->nonce, sizeof l->nonce, offsetof(shm_region_t, nonce)) != sizeof l->nonce ||
            !send_fds(fd, &offer, fds, 2) || !map(l)) {
            snprintf(reason, MADI_REASON_MAX, "shared memory could not be passed: %s", strerror(errno));
            return MAD_ERR_SYSTEM;
        }
        l->region->magic = SHM_MAGIC;
        l->region->layout = SHM_LAYOUT;
    }
    if (madi_watch_add(link->adapter->session, &l->watch, EPOLLIN | EPOLLRDHUP) != MAD_OK) {
        snprintf(reason, MADI_REASON_MAX, "%s", strerror(errno));
        return MAD_ERR_SYSTEM;
    }
    return MAD_OK;
}

void shm_link_close(madi_link_t *link)
{
    shm_link_t *l = (shm_link_t *)link;
    shm_adapter_t *a = (shm_adapter_t *)link->adapter;
    shm_link_t **links = atomic_load_explicit(&a->links, memory_order_relaxed);
    if (l->watch.fd > 0) {
        madi_watch_del(link->adapter->session, &l->watch);
        l->watch.fd = -1;
        close(l->fd);
        l->fd = -1;
    }
    if (links && l->index < atomic_load_explicit(&a->n_links, memory_order_relaxed) && links[l->index] == l)
        links[l->index] = NULL;
}

/* Loans may outlive the link: the core gives them back before it frees the session; memory goes last. */
void shm_link_fini(madi_link_t *link)
{
    shm_link_t *l = (shm_link_t *)link;
    if (l->watch.fd > 0)
        close(l->watch.fd);
    if (l->region)
        munmap(l->region, sizeof *l->region);
    if (l->memfd > 0)
        close(l->memfd);
    if (l->peer_fd > 0)
        close(l->peer_fd);
}
