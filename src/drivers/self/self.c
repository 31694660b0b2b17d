/* SPDX-License-Identifier: BSD-3-Clause */
/* self: a process's messages to itself.  Packets are copied into a byte ring and come out of poll. */
#include "core/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING (256 * 1024) /* bytes, a power of two */

/* A packet in the ring: its length, then header and body, rounded up to a cache line.  Length GO_ON: continue at the
 * start of the ring. */
#define GO_ON UINT64_MAX

typedef struct self_link {
    madi_link_t base;
    unsigned char *ring;
} self_link_t;

typedef struct self_adapter {
    madi_adapter_t base;
    _Atomic(self_link_t *) link; /* the only link; NULL if none */
    /* State of the ring, kept here because pure_poll may run in parallel with link_fini. */
    _Atomic(uint64_t) head; /* bytes read so far; written by poll */
    _Atomic(uint64_t) tail; /* bytes written so far; written by send */
} self_adapter_t;

static mad_status_t self_probe(const madi_driver_t *driver, struct mad_session *session)
{
    return madi_adapter_found(session, driver, "memory") ? MAD_OK : MAD_ERR_NOMEM;
}

static mad_status_t self_open(madi_adapter_t *a, char *reason)
{
    (void)reason;
    snprintf(a->network, sizeof a->network, "self");
    a->caps = (madi_caps_t){.packet_max = MADI_SELF_PACKET_MAX,
                            .chunk_max = MADI_SELF_CHUNK_MAX,
                            .rdv_min = MADI_SELF_GRANT_MIN,
                            .rdv_eager = 0,
                            .gather_max = 16,
                            .latency_us = 0.05,
                            .bandwidth_MBs = 10000,
                            .rank = 0,
                            .self = true};
    return MAD_OK;
}

static void self_close(madi_adapter_t *a)
{
    (void)a;
}

static size_t size_rounded(size_t n)
{
    return (n + MADI_LINE - 1) & ~(size_t)(MADI_LINE - 1);
}

static void self_receive_packet(self_link_t *l, const unsigned char *p, uint64_t len)
{
    madi_wire_hdr_t hdr;
    madi_rx_t rx = {0};
    memcpy(&hdr, p, sizeof hdr);
    /* this read is safe: the ring has spare room for a short packet behind its end */
    if (MADI_LIKELY(hdr.length <= MADI_SHORT_MAX)) {
        madi_rx_short(&l->base, &hdr, madi_foreign_of(p + sizeof hdr));
        return;
    }
    if (madi_rx_begin(&l->base, &hdr, &rx) != MADI_PLACE_COPY)
        return;
    madi_copy(rx.base, p + sizeof hdr, (size_t)len - sizeof hdr);
    madi_rx_done(&l->base, &hdr, &rx);
}

static int self_poll(madi_adapter_t *adapter, int budget)
{
    self_adapter_t *a = (self_adapter_t *)adapter;
    self_link_t *l = atomic_load_explicit(&a->link, memory_order_acquire);
    uint64_t head;
    int n = 0;
    if (!l)
        return 0;
    head = atomic_load_explicit(&a->head, memory_order_relaxed);
    while (n < budget && head != atomic_load_explicit(&a->tail, memory_order_acquire)) { /* pairs with self_send */
        unsigned char *p = l->ring + (head & (RING - 1));
        uint64_t len;
        memcpy(&len, p, 8);
        if (len == GO_ON) {
            head = (head + RING) & ~(uint64_t)(RING - 1);
            continue;
        }
        self_receive_packet(l, p + 8, len);
        if (MADI_UNLIKELY(!atomic_load_explicit(&a->link, memory_order_relaxed)))
            return n; /* an upcall has closed the link */
        head += size_rounded((size_t)len + 8);
        atomic_store_explicit(&a->head, head, memory_order_release); /* pairs with self_ring_room */
        n++;
    }
    return n;
}

static madi_link_t *self_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    self_adapter_t *a = (self_adapter_t *)adapter;
    self_link_t *l = atomic_load_explicit(&a->link, memory_order_relaxed);
    uint64_t head, len;
    const unsigned char *p;
    (void)loan;
    head = atomic_load_explicit(&a->head, memory_order_relaxed);
    if (MADI_UNLIKELY(head == atomic_load_explicit(&a->tail, memory_order_acquire))) /* pairs with self_send */
        return NULL;
    p = l->ring + (head & (RING - 1));
    memcpy(&len, p, 8);
    if (MADI_UNLIKELY(len > MADI_PACKET_SHORT))
        return NULL;
    memcpy(packet, p + 8, MADI_PACKET_SHORT);
    atomic_store_explicit(&a->head, head + MADI_LINE, memory_order_release); /* pairs with self_ring_room */
    return &l->base;
}

static bool self_pure_poll(madi_adapter_t *adapter)
{
    self_adapter_t *a = (self_adapter_t *)adapter;
    return atomic_load_explicit(&a->head, memory_order_relaxed) != atomic_load_explicit(&a->tail, memory_order_relaxed);
}

static bool self_arm(madi_adapter_t *a)
{
    return !self_pure_poll(a); /* a sender in this process wakes the session by itself */
}

static mad_status_t self_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    self_link_t *l = (self_link_t *)link;
    self_adapter_t *a = (self_adapter_t *)link->adapter;
    (void)addr;
    (void)len;
    (void)reason;
    *fd = -1;
    if (posix_memalign((void **)&l->ring, MADI_LINE, RING + MADI_SHORT_MAX))
        return MAD_ERR_NOMEM;
    atomic_store_explicit(&a->link, l, memory_order_release);
    madi_link_up(link);
    return MAD_OK;
}

/* Return contiguous room for need bytes in the ring; NULL if there is none. */
static unsigned char *self_ring_room(self_link_t *l, self_adapter_t *a, size_t need, uint64_t *tail)
{
    uint64_t head = atomic_load_explicit(&a->head, memory_order_acquire); /* pairs with self_poll */
    size_t at = *tail & (RING - 1);
    if (at + need > RING) {
        if (*tail + (RING - at) + need - head > RING)
            return NULL;
        memset(l->ring + at, 0xff, 8); /* GO_ON */
        *tail += RING - at;
        at = 0;
    }
    return *tail + need - head > RING ? NULL : l->ring + at;
}

static madi_sent_t self_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    self_link_t *l = (self_link_t *)link;
    self_adapter_t *a = (self_adapter_t *)link->adapter;
    uint64_t tail = atomic_load_explicit(&a->tail, memory_order_relaxed), len = total;
    unsigned char *p = self_ring_room(l, a, size_rounded(total + 8), &tail);
    (void)op;
    if (!p)
        return MADI_AGAIN;
    memcpy(p, &len, 8);
    p += 8;
    for (int i = 0; i < n; p += vec[i++].iov_len)
        madi_copy(p, vec[i].iov_base, vec[i].iov_len);
    atomic_store_explicit(&a->tail, tail + size_rounded(total + 8), memory_order_release); /* pairs with self_poll */
    madi_adapter_wake(&a->base);
    return MADI_SENT;
}

static bool self_send_short(madi_link_t *link, const void *packet, size_t total)
{
    self_link_t *l = (self_link_t *)link;
    self_adapter_t *a = (self_adapter_t *)link->adapter;
    uint64_t tail = atomic_load_explicit(&a->tail, memory_order_relaxed), len = total;
    unsigned char *p = l->ring + (tail & (RING - 1)); /* a line never wraps */
    if (MADI_UNLIKELY(tail + MADI_LINE - atomic_load_explicit(&a->head, memory_order_acquire) > RING))
        return false; /* pairs with self_poll */
    memcpy(p, &len, 8);
    memcpy(p + 8, packet, MADI_PACKET_SHORT);
    atomic_store_explicit(&a->tail, tail + MADI_LINE, memory_order_release); /* pairs with self_poll */
    madi_adapter_wake(&a->base);
    return true;
}

static void self_link_close(madi_link_t *link)
{
    self_adapter_t *a = (self_adapter_t *)link->adapter;
    atomic_store_explicit(&a->link, NULL, memory_order_release);
    atomic_store_explicit(&a->head, atomic_load_explicit(&a->tail, memory_order_relaxed), memory_order_relaxed);
}

static void self_link_fini(madi_link_t *link)
{
    free(((self_link_t *)link)->ring);
}

const madi_driver_t madi_driver_self = {
    .abi = MADI_DRIVER_ABI,
    .name = "self",
    .adapter_size = sizeof(self_adapter_t),
    .link_size = sizeof(self_link_t),
    .probe = self_probe,
    .open = self_open,
    .close = self_close,
    .fini = self_close,
    .connect = self_connect,
    .send = self_send,
    .poll = self_poll,
    .link_close = self_link_close,
    .link_fini = self_link_fini,
    .wait = {.pure_poll = self_pure_poll, .arm = self_arm},
    .fast = {.send_short = self_send_short, .take = self_take},
};
