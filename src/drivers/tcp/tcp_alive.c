/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: a peer that acknowledges nothing is dead after MAD_PEER_TIMEOUT.
 *
 * On an idle link the kernel's keepalive probes the peer.  While bytes are in flight it does not; instead the kernel
 * retransmits for a quarter of an hour.  TCP_USER_TIMEOUT would end the retransmissions, but would also cut a live peer
 * that does not read.  So the first send starts a timer of the adapter.  When the timer expires, every link with bytes
 * in flight must have received something since the last time.  The timer is started again only while bytes are in
 * flight, so an idle process is never woken.
 */
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "drivers/tcp/tcp.h"
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LOOKS 8 /* checks within one time-out */

static int at_least_1(int64_t n)
{
    return n < 1 ? 1 : n > INT16_MAX ? INT16_MAX : (int)n;
}

void madi_tcp_keepalive(int fd)
{
    int64_t seconds = madi_knob_int(MADI_KNOB_PEER_TIMEOUT) / 1000000000;
    int on = 1, idle = at_least_1(seconds / 2), interval = at_least_1(seconds / 6);
    int count = at_least_1((seconds - idle) / interval);
    count = count > 3 ? 3 : count;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

void madi_tcp_alive_set(madi_tcp_adapter_t *tcp)
{
    int64_t ns = madi_knob_int(MADI_KNOB_PEER_TIMEOUT) / LOOKS;
    struct itimerspec when = {.it_value = {ns / 1000000000, ns % 1000000000}};
    if (!atomic_exchange_explicit(&tcp->alive_set, true, memory_order_relaxed))
        timerfd_settime(tcp->alive.fd, 0, &when, NULL);
}

/* True if bytes are in flight and nothing was acknowledged for ns nanoseconds.  Bytes that do not fit into the peer's
 * window are not in flight, but the kernel's window probe is. */
static bool tcp_host_silent(const struct tcp_info *info, int64_t ns)
{
    return (info->tcpi_unacked || info->tcpi_probes) && (int64_t)info->tcpi_last_ack_recv * 1000000 >= ns;
}

bool madi_tcp_host_silent(madi_link_t *pub, int64_t ns)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    return getsockopt(((madi_tcp_link_t *)pub)->watch.fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           tcp_host_silent(&info, ns);
}

/* Segments are in flight only while the other host has room for them, so a window of zero does not count as movement. */
bool madi_tcp_moves(madi_link_t *pub, int64_t ns)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (getsockopt(((madi_tcp_link_t *)pub)->watch.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return false;
    return (info.tcpi_unacked && (int64_t)info.tcpi_last_ack_recv * 1000000 < ns) ||
           (int64_t)info.tcpi_last_data_recv * 1000000 < ns;
}

/* Check one link; true if it must be checked again. */
static bool tcp_look(madi_tcp_link_t *link, int64_t now)
{
    int64_t limit = madi_knob_int(MADI_KNOB_PEER_TIMEOUT);
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    char text[MADI_REASON_MAX];
    if (getsockopt(link->watch.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return false; /* not TCP (tests) */
    if (!info.tcpi_unacked && !info.tcpi_probes && !info.tcpi_notsent_bytes) {
        link->silent_since = 0;
        return false;
    }
    if (!tcp_host_silent(&info, limit / LOOKS)) {
        link->silent_since = 0;
    } else if (!link->silent_since) {
        link->silent_since = now;
        /* Subtract two intervals, because the silence began before the first check found it. */
    } else if (now - link->silent_since >= limit - limit / LOOKS * 2) {
        snprintf(text, sizeof(text), "no acknowledgement for %lld ms (MAD_PEER_TIMEOUT): the host or the network is gone",
                 (long long)(limit / 1000000));
        madi_tcp_down(link, MAD_ERR_PEER, text);
        return false;
    }
    return true;
}

static void tcp_alive_ready(madi_watch_t *watch, uint32_t events)
{
    madi_tcp_adapter_t *tcp = MADI_CONTAINER(watch, madi_tcp_adapter_t, alive);
    madi_tcp_link_t *next;
    int64_t now = madi_now();
    bool again = false;
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof(n)) < 0)
        return;
    /* Cleared before the checks: a send that still finds alive_set true has already put its bytes into the socket. */
    atomic_store_explicit(&tcp->alive_set, false, memory_order_seq_cst);
    for (madi_tcp_link_t *link = tcp->started; link; link = next) {
        next = link->started_next;
        again |= tcp_look(link, now);
    }
    if (again)
        madi_tcp_alive_set(tcp);
}

mad_status_t madi_tcp_alive_open(madi_tcp_adapter_t *tcp, char *reason)
{
    if (tcp->alive.fd > 0)
        return MAD_OK;
    tcp->alive.fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    tcp->alive.ready = tcp_alive_ready;
    if (tcp->alive.fd >= 0 && madi_watch_add(tcp->pub.session, &tcp->alive, EPOLLIN) == MAD_OK)
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "%s%s", strerror(errno), madi_remedy(errno));
    return MAD_ERR_SYSTEM;
}

void madi_tcp_alive_close(madi_tcp_adapter_t *tcp)
{
    if (tcp->alive.fd <= 0)
        return;
    madi_watch_del(tcp->pub.session, &tcp->alive);
    madi_fd_close(tcp->alive.fd);
    tcp->alive.fd = -1;
}

void madi_tcp_started_add(madi_tcp_link_t *link)
{
    madi_tcp_adapter_t *tcp = (madi_tcp_adapter_t *)link->pub.adapter;
    link->started_next = tcp->started;
    link->started_at = &tcp->started;
    if (tcp->started)
        tcp->started->started_at = &link->started_next;
    tcp->started = link;
}

void madi_tcp_started_remove(madi_tcp_link_t *link)
{
    if (!link->started_at)
        return;
    *link->started_at = link->started_next;
    if (link->started_next)
        link->started_next->started_at = link->started_at;
    link->started_at = NULL;
}
