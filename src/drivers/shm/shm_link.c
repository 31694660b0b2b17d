/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation of a link: memory, bells and events are passed over the socket of the handshake (shm_pass.c). */
#include "base/own.h"
#include "drivers/shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Map the pair's memory, into the address range of a closed link if there is one. */
static bool pair_map(shm_link_t *l)
{
    shm_adapter_t *a = (shm_adapter_t *)l->base.adapter;
    void *at = a->n_ranges ? a->ranges[a->n_ranges - 1] : NULL;
    void *p = mmap(at, sizeof(shm_region_t), PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), l->memfd, 0);
    if (p == MAP_FAILED)
        return false;
    if (at)
        a->n_ranges--;
    madi_shared_own(&l->region_shared, p, sizeof(shm_region_t));
    l->region = p;
    l->out = &l->region->half[l->active ? 0 : 1];
    l->cells = l->out->cells;
    l->in = &l->region->half[l->active ? 1 : 0];
    l->sent_limit = SHM_CELLS;
    shm_reach_show(l);
    return shm_window_open(l);
}

/* Unmap the memory but keep the address range reserved, because a thread in pure_poll may still read there. */
static void pair_unmap(shm_link_t *l)
{
    shm_adapter_t *a = (shm_adapter_t *)l->base.adapter;
    madi_shared_forget(&l->region_shared);
    if (a->n_ranges == a->cap_ranges) {
        int cap = a->cap_ranges ? a->cap_ranges * 2 : 8;
        void **p = realloc(a->ranges, (size_t)cap * sizeof *p);
        if (!p)
            return; /* if there is no memory for the record, the range only stays reserved */
        a->ranges = p;
        a->cap_ranges = cap;
    }
    if (mmap(l->region, sizeof *l->region, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
        MAP_FAILED)
        a->ranges[a->n_ranges++] = l->region;
}

static void shm_link_up(shm_link_t *l, int event_fd, int bell_fd)
{
    static const _Atomic(uint32_t) always = 1;
    shm_adapter_t *a = (shm_adapter_t *)l->base.adapter;
    madi_fd_close(l->memfd);
    l->memfd = -1;
    shm_pass_end(l->fd);
    l->peer_fd = event_fd;
    l->peer_bell = shm_bell_map(bell_fd);
    madi_fd_close(bell_fd);
    if (!l->peer_bell || !shm_inbox_open(l)) {
        madi_link_down(&l->base, MAD_ERR_NOMEM, "no memory for a link");
        return;
    }
    madi_shared_own(&l->bell_shared, l->peer_bell, SHM_BELL_SIZE);
    l->fence = atomic_load_explicit(&a->bell->fence, memory_order_relaxed) ||
               atomic_load_explicit(&l->peer_bell->fence, memory_order_relaxed);
    shm_reach_try(l);
    l->attentive = l->fence ? &always : &l->peer_bell->asleep;
    madi_link_up(&l->base);
}

static void answer_came(shm_link_t *l)
{
    char reason[MADI_REASON_MAX] = "";
    shm_pass_t pass;
    int fds[SHM_FDS];
    mad_status_t status = shm_pass_receive((shm_adapter_t *)l->base.adapter, l->fd, &pass, fds, SHM_FD_MEMORY, reason);
    if (status == MAD_ERR_AGAIN)
        return;
    if (status) {
        madi_link_down(&l->base, status, reason);
        return;
    }
    if (memcmp(pass.nonce, l->nonce, sizeof pass.nonce)) {
        shm_pass_close(fds, SHM_FD_MEMORY);
        madi_link_down(&l->base, MAD_ERR_PEER, "the peer could not map the shared memory");
        return;
    }
    shm_link_up(l, fds[SHM_FD_EVENT], fds[SHM_FD_BELL]);
}

static void offer_came(shm_link_t *l)
{
    shm_adapter_t *a = (shm_adapter_t *)l->base.adapter;
    char reason[MADI_REASON_MAX] = "";
    shm_pass_t pass;
    int fds[SHM_FDS], mine[SHM_FD_MEMORY] = {[SHM_FD_EVENT] = a->event_fd, [SHM_FD_BELL] = a->bell_fd};
    mad_status_t status = shm_pass_receive(a, l->fd, &pass, fds, SHM_FDS, reason);
    if (status == MAD_ERR_AGAIN)
        return;
    if (status) {
        madi_link_down(&l->base, status, reason);
        return;
    }
    l->memfd = fds[SHM_FD_MEMORY];
    if (!pair_map(l)) {
        shm_pass_close(fds, SHM_FD_MEMORY);
        madi_link_down(&l->base, MAD_ERR_NOMEM, "no room for shared memory; see ulimit -v and the limit of the container");
        return;
    }
    madi_foreign_copy(l->nonce, madi_foreign_of(l->region->nonce), sizeof l->nonce);
    if (memcmp(l->nonce, pass.nonce, sizeof l->nonce) || !shm_pass_send(l->fd, &pass, mine, SHM_FD_MEMORY)) {
        shm_pass_close(fds, SHM_FD_MEMORY);
        madi_link_down(&l->base, MAD_ERR_PEER, "the shared memory is not what the peer offered");
        return;
    }
    shm_link_up(l, fds[SHM_FD_EVENT], fds[SHM_FD_BELL]);
}

/* True if the peer sent bytes where none are expected; the link is then down.  Unread bytes would keep the socket
 * readable, and this process awake. */
static bool stray_bytes(shm_link_t *l)
{
    char byte;
    if (recv(l->fd, &byte, sizeof byte, MSG_DONTWAIT) <= 0)
        return false;
    madi_link_down(&l->base, MAD_ERR_PROTOCOL,
                   "the peer sent bytes over the socket of a shared-memory link, which carries none; check which program "
                   "the peer runs");
    return true;
}

static void shm_socket_ready(madi_watch_t *watch, uint32_t events)
{
    shm_link_t *l = MADI_CONTAINER(watch, shm_link_t, watch);
    bool is_up = atomic_load_explicit(&l->base.state, memory_order_relaxed) == MADI_LINK_UP;
    if ((events & EPOLLIN) && is_up && stray_bytes(l))
        return;
    if ((events & EPOLLIN) && !is_up) {
        if (l->active)
            answer_came(l);
        else
            offer_came(l);
        is_up = atomic_load_explicit(&l->base.state, memory_order_relaxed) == MADI_LINK_UP;
    }
    if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) {
        if (is_up)
            shm_drain(l); /* deliver packets that the peer sent before it ended */
        if (atomic_load_explicit(&l->no_memory, memory_order_relaxed))
            madi_link_down(&l->base, MAD_ERR_NOMEM, "no shared memory for messages; see the limit of the container");
        else
            madi_link_down(&l->base, MAD_ERR_PEER, "the process is gone");
    }
}

/* Handle the death of the peer.  Its socket may stay open in a child that clone(2) made without the library's knowledge. */
static void process_ready(madi_watch_t *watch, uint32_t events)
{
    shm_link_t *l = MADI_CONTAINER(watch, shm_link_t, process);
    (void)events;
    if (atomic_load_explicit(&l->base.state, memory_order_relaxed) == MADI_LINK_UP)
        shm_drain(l);
    madi_link_down(&l->base, MAD_ERR_PEER, "the process is gone");
}

/* Watch a pidfd of the peer.  If the kernel or the process number does not allow one, only the socket shows that the peer
 * has ended. */
static void process_watch(shm_link_t *l)
{
    struct ucred who;
    socklen_t size = sizeof who;
    int fd;
    if (getsockopt(l->fd, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.pid <= 0 || who.pid == getpid())
        return;
    fd = madi_fd_own((int)syscall(SYS_pidfd_open, who.pid, 0));
    if (fd < 0)
        return;
    l->process = (madi_watch_t){.fd = fd, .ready = process_ready};
    if (madi_watch_add_rare(l->base.adapter->session, &l->process, EPOLLIN) == MAD_OK)
        return;
    madi_fd_close(fd);
    l->process.fd = 0;
}

static void process_unwatch(shm_link_t *l)
{
    if (l->process.fd <= 0)
        return;
    madi_watch_del(l->base.adapter->session, &l->process);
    madi_fd_close(l->process.fd);
    l->process.fd = -1;
}

static bool make_memory(shm_link_t *l, char *reason)
{
    l->memfd = shm_memory_make(sizeof(shm_region_t), offsetof(shm_region_t, half[0].units), reason);
    if (l->memfd < 0)
        return false;
    if (!shm_memory_seal(l->memfd, false) || !pair_map(l)) {
        snprintf(reason, MADI_REASON_MAX, "no room for shared memory: %s; see ulimit -v and the limit of the container",
                 strerror(errno));
        return false;
    }
    return true;
}

mad_status_t shm_start(madi_link_t *link, int fd, bool active, char *reason)
{
    shm_link_t *l = (shm_link_t *)link;
    shm_adapter_t *a = (shm_adapter_t *)link->adapter;
    shm_pass_t pass = {.magic = SHM_MAGIC, .layout = SHM_LAYOUT};

    l->fd = fd;
    l->memfd = l->peer_fd = -1;
    l->active = active;
    l->watch = (madi_watch_t){.fd = fd, .ready = shm_socket_ready};
    if (active) {
        if (getrandom(l->nonce, sizeof l->nonce, 0) != sizeof l->nonce || !make_memory(l, reason))
            return MAD_ERR_SYSTEM;
        l->region->magic = SHM_MAGIC;
        l->region->layout = SHM_LAYOUT;
        memcpy(l->region->nonce, l->nonce, sizeof l->nonce);
        memcpy(pass.nonce, l->nonce, sizeof l->nonce);
        if (!shm_pass_send(fd, &pass, (int[SHM_FDS]){a->event_fd, a->bell_fd, l->memfd}, SHM_FDS)) {
            snprintf(reason, MADI_REASON_MAX, "shared memory could not be passed: %s", strerror(errno));
            return MAD_ERR_SYSTEM;
        }
    }
    if (madi_watch_add_rare(link->adapter->session, &l->watch, EPOLLIN | EPOLLRDHUP) != MAD_OK) {
        snprintf(reason, MADI_REASON_MAX, "%s", strerror(errno));
        return MAD_ERR_SYSTEM;
    }
    process_watch(l);
    return MAD_OK;
}

void shm_link_close(madi_link_t *link)
{
    shm_link_t *l = (shm_link_t *)link;
    shm_sever(link);
    process_unwatch(l);
    if (l->watch.fd > 0) {
        madi_watch_del(link->adapter->session, &l->watch);
        l->watch.fd = -1;
        madi_fd_close(l->fd);
        l->fd = -1;
    }
    shm_inbox_close(l);
    if (l->stuck)
        atomic_fetch_sub_explicit(&((shm_adapter_t *)link->adapter)->n_stuck, 1, memory_order_relaxed);
    l->stuck = false;
}

/* Free the link.  Loans may outlive it: the core returns them before it frees the session, and the memory is freed last. */
void shm_link_fini(madi_link_t *link)
{
    shm_link_t *l = (shm_link_t *)link;
    if (l->watch.fd > 0)
        madi_fd_close(l->watch.fd);
    if (l->region)
        pair_unmap(l);
    madi_shared_forget(&l->bell_shared);
    if (l->peer_bell)
        munmap(l->peer_bell, SHM_BELL_SIZE);
    if (l->memfd > 0)
        madi_fd_close(l->memfd);
    if (l->peer_fd > 0)
        madi_fd_close(l->peer_fd);
}

void shm_links_fini(shm_adapter_t *a)
{
    for (int i = 0; i < a->n_ranges; i++)
        munmap(a->ranges[i], sizeof(shm_region_t));
    free(a->ranges);
}
