/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: links. */
#include "drivers/verbs/verbs.h"

#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "base/random.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define PSN_MASK ((UINT32_C(1) << 24) - 1)

/* True if the adapter takes further connections; else write the reason. */
static bool adapter_serves(const verbs_adapter_t *a, char *reason)
{
    if (a->base.broken)
        snprintf(reason, MADI_REASON_MAX, "the device of %.40s has failed", a->base.adapter.name);
    return !a->base.broken;
}

mad_status_t verbs_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    verbs_adapter_t *a = (verbs_adapter_t *)link->adapter;
    struct sockaddr_storage peer, from = a->port.self;
    socklen_t peer_len;
    int one = 1, s;
    if (!verbs_address_get(addr, len, &peer, &peer_len) || peer.ss_family != from.ss_family) {
        snprintf(reason, MADI_REASON_MAX, "the peer's address is damaged, or of another family than that of %.40s",
                 a->base.adapter.name);
        return MAD_ERR_PROTOCOL;
    }
    if (!adapter_serves(a, reason))
        return MAD_ERR_SYSTEM;
    s = madi_fd_own(socket(peer.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (s >= 0) {
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(s, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    }
    if (s < 0 || bind(s, (struct sockaddr *)&from, peer_len) ||
        (connect(s, (struct sockaddr *)&peer, peer_len) && errno != EINPROGRESS && errno != EINTR)) {
        int error = errno;
        snprintf(reason, MADI_REASON_MAX, "connect from %.40s (%.40s): %s%s", a->base.adapter.name, a->base.adapter.network,
                 strerror(error), madi_remedy(error));
        if (s >= 0)
            madi_fd_close(s);
        return madi_own_lack(error) ? MAD_ERR_NOMEM : MAD_ERR_SYSTEM;
    }
    *fd = s;
    return MAD_OK;
}

static int at_least_one(int64_t n)
{
    return n < 1 ? 1 : (int)n;
}

/* Have the kernel probe the socket, so that the link ends if the peer's host is gone. */
static void socket_keep_alive(int fd)
{
    int64_t seconds = madi_knob_int(MADI_KNOB_PEER_TIMEOUT) / 1000000000;
    int on = 1, idle = at_least_one(seconds / 2), interval = at_least_one(seconds / 6), count = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/* Register the memory of outgoing messages. */
static bool ring_open(verbs_link_t *l, char *reason)
{
    verbs_adapter_t *a = verbs_of(l);
    size_t size = VERBS_RING * VERBS_MESSAGE_MAX;
    l->ring = aligned_alloc(MADI_LINE, (size + MADI_LINE - 1) / MADI_LINE * MADI_LINE);
    l->ring_mr = l->ring ? verbs_memory_register(a, l->ring, size, 0) : NULL;
    if (!l->ring_mr)
        snprintf(reason, MADI_REASON_MAX,
                 "%zu bytes cannot be registered with %.40s: %s; raise the limit of locked memory (ulimit -l)", size,
                 a->base.adapter.name, strerror(errno));
    return l->ring_mr;
}

mad_status_t verbs_start(madi_link_t *link, int fd, bool active, char *reason)
{
    verbs_link_t *l = (verbs_link_t *)link;
    verbs_adapter_t *a = verbs_of(l);
    l->active = active;
    l->watch.fd = fd;
    if (!adapter_serves(a, reason))
        return MAD_ERR_SYSTEM;
    l->flights_end = &l->flights;
    if (!madi_random(&l->psn, sizeof l->psn)) {
        snprintf(reason, MADI_REASON_MAX, "no random numbers");
        return MAD_ERR_SYSTEM;
    }
    l->psn &= PSN_MASK;
    if (fabric_link_number(&l->base, &a->base.links, reason) || !ring_open(l, reason) || !verbs_pair_open(l, reason))
        return MAD_ERR_NOMEM;
    l->has_slots = verbs_slots_want(a, VERBS_WINDOW, reason);
    if (!l->has_slots)
        return MAD_ERR_NOMEM;
    socket_keep_alive(fd);
    l->watch.ready = verbs_socket_ready;
    if (madi_watch_add_rare(link->adapter->session, &l->watch, EPOLLIN | EPOLLRDHUP)) {
        snprintf(reason, MADI_REASON_MAX, "the socket of a connection cannot be watched: %s", strerror(errno));
        return MAD_ERR_SYSTEM;
    }
    l->watched = true;
    return verbs_hello_send(l, reason) ? MAD_OK : MAD_ERR_PEER;
}

const fabric_ops_t verbs_ops = {
    .name = "verbs",
    .networks = "packets of RDMA devices",
    .drain = verbs_drain,
    .early_run = verbs_early_run,
};

/* The order matters: when the pair is closed, the device uses no memory of the program any more. */
void verbs_link_close(madi_link_t *link)
{
    verbs_link_t *l = (verbs_link_t *)link;
    verbs_adapter_t *a = verbs_of(l);
    char reason[MADI_REASON_MAX];
    if (l->base.closed || l->watch.fd <= 0) /* or never started */
        return;
    l->base.closed = true;
    if (l->watched)
        madi_watch_del(link->adapter->session, &l->watch);
    verbs_bye_send(l);
    shutdown(l->watch.fd, SHUT_RDWR);
    verbs_pair_close(l);
    fabric_link_unnumber(&l->base, &a->base.links);
    verbs_receive_forget(l);
    if (l->has_slots)
        verbs_slots_want(a, -VERBS_WINDOW, reason);
    l->has_slots = false;
    verbs_flights_fail(l);
    verbs_spill_fail(l);
}

void verbs_link_fini(madi_link_t *link)
{
    verbs_link_t *l = (verbs_link_t *)link;
    if (l->watch.fd <= 0)
        return;
    verbs_link_close(link);
    madi_fd_close(l->watch.fd);
    l->watch.fd = 0;
    /* Memory that stays registered is not freed, since the device may use it. */
    if (!l->ring_mr || verbs_released(verbs_of(l), verbs_of(l)->lib->dereg_mr(l->ring_mr), "the memory of a connection"))
        free(l->ring);
    l->ring = NULL;
    l->ring_mr = NULL;
}
