/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: the driver's table and its adapters. */
#include "base/own.h"
#include "base/knob.h"
#include "drivers/tcp/tcp.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SEALED_MBS 3000 /* MB/s at which a core encrypts in addition to its copies */

static void tcp_caps(madi_caps_t *caps, bool loopback, bool v6)
{
    madi_costs_t costs = {0};
    if (loopback) /* the costs are those of this host's processors */
        madi_costs_load(madi_knob_text(MADI_KNOB_COSTS), &costs);
    caps->packet_max = MADI_TCP_PACKET_MAX;
    caps->chunk_max = MADI_TCP_CHUNK_MAX;
    caps->rdv_min = madi_path_tcp_grant_min(&costs);
    caps->cont_min = MADI_TCP_CONT_MIN;
    caps->ahead = true;
    caps->rdv_eager = MADI_TCP_EAGER;
    caps->gather_max = MADI_TCP_GATHER;
    caps->latency_us = loopback ? 4 : 15;
    caps->bandwidth_MBs = loopback ? 8000 : 1100;
    caps->host = loopback;
    /* Among otherwise equal paths, prefer loopback to a real interface, and IPv4 (shorter headers) to IPv6. */
    caps->rank = (loopback ? 45 : 50) + (v6 ? 1 : 0);
}

static mad_status_t tcp_open(madi_adapter_t *adapter, char *reason)
{
    madi_tcp_adapter_t *tcp = (madi_tcp_adapter_t *)adapter;
    mad_status_t status = madi_tcp_if_find(tcp, reason);
    if (status)
        return status;
    if (!madi_tcp_allow_check(reason))
        return MAD_ERR_CONFIG;
    if (!tcp->loopback) /* the name may be eth0/6 */
        snprintf(adapter->device, sizeof adapter->device, "%.*s", (int)strcspn(adapter->name, "/"), adapter->name);
    tcp_caps(&adapter->caps, tcp->loopback, tcp->self.ss_family == AF_INET6);
    return madi_tcp_listen(tcp, reason);
}

static void tcp_close(madi_adapter_t *adapter)
{
    madi_tcp_adapter_t *tcp = (madi_tcp_adapter_t *)adapter;
    if (tcp->listening)
        madi_fd_close(adapter->listen_fd);
    tcp->listening = false;
    madi_tcp_alive_close(tcp);
    adapter->listen_fd = -1;
}

static bool tcp_reachable(madi_adapter_t *adapter, const void *addr, size_t len, char *reason)
{
    madi_tcp_adapter_t *tcp = (madi_tcp_adapter_t *)adapter;
    struct sockaddr_storage peer;
    socklen_t peer_len;
    if (!madi_tcp_addr_get(addr, len, &peer, &peer_len)) {
        snprintf(reason, MADI_REASON_MAX, "the peer's tcp address is damaged");
        return false;
    }
    if (peer.ss_family != tcp->self.ss_family) {
        snprintf(reason, MADI_REASON_MAX, "%s has IPv%d, the peer IPv%d", adapter->name,
                 tcp->self.ss_family == AF_INET6 ? 6 : 4, peer.ss_family == AF_INET6 ? 6 : 4);
        return false;
    }
    if (!madi_tcp_allows(tcp, &peer, false)) {
        char text[80];
        madi_tcp_addr_text(&peer, text, sizeof(text));
        snprintf(reason, MADI_REASON_MAX, "%s is not on the list of MAD_TCP_ALLOW (%.80s)", text,
                 madi_knob_text(MADI_KNOB_TCP_ALLOW));
        return false;
    }
    return true;
}

/* ---- Polling ---------------------------------------------------------------------------------------------------- */

/* The functions that differ between plain and sealed links.  The polls below are compiled once for each kind, with direct
 * calls. */
typedef struct tcp_io {
    int (*receive)(madi_tcp_link_t *link, int budget);
    int (*take)(madi_tcp_link_t *link, void *packet, madi_foreign_t *loan);
    int (*flush)(madi_tcp_link_t *link);
} tcp_io_t;
static const tcp_io_t tcp_plain = {madi_tcp_receive, madi_tcp_take, madi_tcp_flush};
static const tcp_io_t tcp_sealed = {madi_tcp_seal_receive, madi_tcp_seal_take, madi_tcp_seal_flush};

/* Poll links that still have unread bytes from the last time, for which the kernel reports no further edge.  *emptied:
 * a link that is now read to the end. */
static inline __attribute__((always_inline)) int tcp_poll_unread(madi_tcp_adapter_t *tcp, int budget, const tcp_io_t *io,
                                                                 madi_tcp_link_t **emptied)
{
    int events = 0;
    for (int turns = tcp->unread_count; turns > 0 && tcp->unread && events < budget; turns--) {
        madi_tcp_link_t *link = tcp->unread;
        madi_tcp_unread_remove(link);
        events += io->receive(link, budget - events);
        *emptied = link->is_unread ? NULL : link;
    }
    return events;
}

static madi_tcp_link_t *tcp_hot(madi_tcp_adapter_t *tcp)
{
    madi_tcp_link_t *sent = atomic_load_explicit(&tcp->hot_sent, memory_order_relaxed);
    madi_tcp_link_t *got = tcp->parked ? tcp->parked : tcp->hot_got;
    tcp->turn = !tcp->turn; /* one system call per poll; if the two links differ (as in a ring), they alternate */
    if (!sent || (got && tcp->turn))
        return got;
    return sent;
}

/* Decide, after polling a hot link, whether to park it or watch it again. */
static void tcp_tried(madi_tcp_adapter_t *tcp, madi_tcp_link_t *link, int events)
{
    if (link == tcp->parked) {
        tcp->empty = events ? 0 : tcp->empty + 1;
        if (tcp->empty >= MADI_TCP_UNPARK)
            madi_tcp_unpark(tcp);
    } else if (events && !tcp->parked && !tcp->armed && ++tcp->streak >= MADI_TCP_PARK &&
               !atomic_load_explicit(&link->closed, memory_order_relaxed)) {
        madi_tcp_park(link);
    }
}

/* Account for a try that found nothing: make tries less and less frequent, so that they soon cost a process that spins
 * for another network almost nothing.  If other links are watched too, every MADI_TCP_OTHERS-th empty try makes the next
 * poll poll all of them. */
static void tcp_cool(madi_tcp_adapter_t *tcp, const madi_tcp_link_t *link, int left)
{
    int tries = MADI_TCP_HOT - left;
    if (++tcp->vain % MADI_TCP_OTHERS == 0)
        tcp->ask = madi_watched_carriers(tcp->pub.session) > (link && link->watched);
    atomic_store_explicit(&tcp->hot_left, left - 1, memory_order_relaxed);
    atomic_store_explicit(&tcp->skip, tries < 64 ? 0 : tries < 32 * 64 ? tries / 64 : 32, memory_order_relaxed);
    if (left <= 1)
        madi_tcp_unpark(tcp);
}

/* True if this poll has to be skipped, which is counted.  madi_tcp_heat clears the count, so links with unread bytes are
 * not affected. */
static bool tcp_skips(madi_tcp_adapter_t *tcp)
{
    int skip = atomic_load_explicit(&tcp->skip, memory_order_relaxed);
    if (skip <= 0)
        return false;
    atomic_store_explicit(&tcp->skip, skip - 1, memory_order_relaxed);
    return true;
}

static inline __attribute__((always_inline)) bool tcp_can_take(const madi_tcp_link_t *link)
{
    return link && !atomic_load_explicit(&link->closed, memory_order_relaxed) &&
           !atomic_load_explicit(&link->tx_blocked, memory_order_relaxed) && !link->is_unread && !link->in_body &&
           link->head == link->tail && !link->ending;
}

/* Take one short packet that is the only content of the socket: the usual case of a spinning thread. */
static inline __attribute__((always_inline)) madi_link_t *tcp_take_by(madi_adapter_t *adapter, void *packet,
                                                                      madi_foreign_t *loan, const tcp_io_t *io)
{
    madi_tcp_adapter_t *tcp = (madi_tcp_adapter_t *)adapter;
    int left = atomic_load_explicit(&tcp->hot_left, memory_order_relaxed), n;
    madi_tcp_link_t *link;
    if (tcp->leave_out > 0) {
        tcp->leave_out--;
        return NULL;
    }
    if (left <= 0 || tcp->unread || tcp_skips(tcp) || !tcp_can_take(link = tcp_hot(tcp)))
        return NULL;
    n = io->take(link, packet, loan);
    tcp_tried(tcp, link, n);
    if (n <= 0 && !tcp->unread)
        tcp->tried = 1 - n;
    if (n == 0) {
        tcp_cool(tcp, link, left);
        return NULL;
    }
    tcp->leave_out = n > 0 ? n : -n;
    if (!atomic_load_explicit(&link->closed, memory_order_relaxed)) { /* a closed link may be freed before the next poll */
        tcp->hot_got = link;
        madi_tcp_heat(tcp);
    }
    return n > 0 ? &link->pub : NULL;
}

static madi_link_t *tcp_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    return tcp_take_by(adapter, packet, loan, &tcp_plain);
}

static madi_link_t *tcp_take_sealed(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    return tcp_take_by(adapter, packet, loan, &tcp_sealed);
}

static int tcp_poll_others(madi_tcp_adapter_t *tcp)
{
    if (MADI_LIKELY(!tcp->ask))
        return 0;
    tcp->ask = false;
    return madi_poll_descriptors(tcp->pub.session);
}

/* Poll for a spinning thread.  A receive call on the right socket is faster than a call of epoll followed by one. */
static inline __attribute__((always_inline)) int tcp_poll_by(madi_adapter_t *adapter, int budget, const tcp_io_t *io)
{
    madi_tcp_adapter_t *tcp = (madi_tcp_adapter_t *)adapter;
    int left = atomic_load_explicit(&tcp->hot_left, memory_order_relaxed), events = 0;
    madi_tcp_link_t *link, *emptied = NULL;
    if (tcp->tried) {
        events = tcp->tried - 1;
        tcp->tried = 0;
        return events ? events : tcp_poll_others(tcp);
    }
    if (left <= 0 || tcp_skips(tcp))
        return 0;
    if (tcp->unread)
        events = tcp_poll_unread(tcp, budget, io, &emptied);
    link = tcp_hot(tcp);
    if (link && !atomic_load_explicit(&link->closed, memory_order_relaxed)) {
        int before = events;
        if (atomic_load_explicit(&link->tx_blocked, memory_order_relaxed))
            events += io->flush(link);
        if (!link->is_unread && events < budget && link != emptied)
            events += io->receive(link, budget - events);
        tcp_tried(tcp, link, events - before);
    }
    if (events) {
        madi_tcp_heat(tcp);
        return events;
    }
    tcp_cool(tcp, link, left);
    return tcp_poll_others(tcp);
}

static int tcp_poll(madi_adapter_t *adapter, int budget)
{
    return tcp_poll_by(adapter, budget, &tcp_plain);
}

static int tcp_poll_sealed(madi_adapter_t *adapter, int budget)
{
    return tcp_poll_by(adapter, budget, &tcp_sealed);
}

static bool tcp_pure_poll(madi_adapter_t *adapter)
{
    madi_tcp_adapter_t *tcp = (madi_tcp_adapter_t *)adapter;
    if (MADI_LIKELY(atomic_load_explicit(&tcp->hot_left, memory_order_relaxed) <= 0))
        return false;
    return !tcp_skips(tcp);
}

static bool tcp_arm(madi_adapter_t *adapter)
{
    madi_tcp_adapter_t *tcp = (madi_tcp_adapter_t *)adapter;
    tcp->armed = true;
    madi_tcp_unpark(tcp);
    return !tcp->unread;
}

static void tcp_disarm(madi_adapter_t *adapter)
{
    ((madi_tcp_adapter_t *)adapter)->armed = false;
}

/* The functions common to the tables of plain and sealed links. */
#define TCP_COMMON \
    .abi = MADI_DRIVER_ABI, .name = "tcp", \
    .apart = "give both an interface in one subnet, or one network name with MAD_TCP_NETWORK", \
    .adapter_size = sizeof(madi_tcp_adapter_t), .link_size = sizeof(madi_tcp_link_t), .probe = madi_tcp_probe, \
    .open = tcp_open, .close = tcp_close, .fini = tcp_close, .connect = madi_tcp_connect, .link_fini = madi_tcp_link_fini, \
    .reach = {.network = madi_tcp_network, \
              .common = madi_tcp_common, \
              .within = madi_tcp_within, \
              .reachable = tcp_reachable, \
              .admits = madi_tcp_admits, \
              .secure = tcp_secure}, \
    .wait = {.pure_poll = tcp_pure_poll, .arm = tcp_arm, .disarm = tcp_disarm}, \
    .live = {.drained = madi_tcp_drained, \
             .acknowledge = madi_tcp_acknowledge, \
             .host_silent = madi_tcp_host_silent, \
             .moves = madi_tcp_moves}

static mad_status_t tcp_secure(madi_adapter_t *adapter, int given, char *reason);

static const madi_driver_t tcp_driver_sealed = {TCP_COMMON,
                                                .start = madi_tcp_seal_start,
                                                .send = madi_tcp_seal_send,
                                                .poll = tcp_poll_sealed,
                                                .link_close = madi_tcp_seal_link_close,
                                                .fast.take = tcp_take_sealed};

/* Set the adapter's security.  For SEAL, give the adapter the table of sealed links. */
static mad_status_t tcp_secure(madi_adapter_t *adapter, int given, char *reason)
{
    mad_status_t status = madi_tcp_security((madi_tcp_adapter_t *)adapter, given, reason);
    if (status || adapter->security != MADI_SECURITY_SEAL)
        return status;
    adapter->driver = &tcp_driver_sealed;
    adapter->caps.latency_us += 0.6;
    if (adapter->caps.bandwidth_MBs > SEALED_MBS)
        adapter->caps.bandwidth_MBs = SEALED_MBS;
    return MAD_OK;
}

const madi_driver_t madi_driver_tcp = {
    TCP_COMMON,       .start = madi_tcp_start,           .send = madi_tcp_send,
    .poll = tcp_poll, .link_close = madi_tcp_link_close, .fast = {.take = tcp_take, .slot_put = madi_tcp_slot_put}};
