/* SPDX-License-Identifier: BSD-3-Clause */
/* self: a process's messages to itself.  Packets are copied into a byte ring and come out of poll. */
#include "core/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING (256 * 1024) /* bytes, a power of two */
#define PACKET_MAX (16 * 1024)
#define CHUNK_MAX (64 * 1024)

/* A packet in the ring: its length, then header and body, rounded up to 16; length 0 means: go on at the start. */
typedef struct self_link {
    madi_link_t base;
    unsigned char *ring;
    _Atomic(uint64_t) head; /* read so far; poll's */
    _Atomic(uint64_t) tail; /* written so far; send's */
} self_link_t;

typedef struct self_adapter {
    madi_adapter_t base;
    _Atomic(self_link_t *) link; /* there is one peer */
} self_adapter_t;

static mad_status_t self_probe(const madi_driver_t *driver, struct mad_session *session)
{
    return madi_adapter_found(session, driver, "memory") ? MAD_OK : MAD_ERR_NOMEM;
}

static mad_status_t self_open(madi_adapter_t *a, char *reason)
{
    (void)reason;
    snprintf(a->network, sizeof a->network, "self");
    a->caps = (madi_caps_t){.packet_max = PACKET_MAX,
                            .chunk_max = CHUNK_MAX,
                            .rdv_min = 8 * 1024,
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

static size_t rounded(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

static void one_packet(self_link_t *l, const unsigned char *p, uint64_t len)
{
    madi_wire_hdr_t hdr;
    madi_rx_t rx = {0};
    memcpy(&hdr, p, sizeof hdr);
    if (MADI_LIKELY(hdr.length <= MADI_SHORT_MAX)) { /* the ring is longer than a packet by a short one */
        madi_rx_short(&l->base, &hdr, p + sizeof hdr);
        return;
    }
    if (madi_rx_begin(&l->base, &hdr, &rx) != MADI_PLACE_COPY)
        return;
    madi_copy(rx.base, p + sizeof hdr, (size_t)len - sizeof hdr);
    madi_rx_done(&l->base, &hdr, &rx);
}

static int self_poll(madi_adapter_t *a, int budget)
{
    self_link_t *l = atomic_load_explicit(&((self_adapter_t *)a)->link, memory_order_acquire);
    uint64_t head;
    int n = 0;
    if (!l)
        return 0;
    head = atomic_load_explicit(&l->head, memory_order_relaxed);
    while (n < budget && head != atomic_load_explicit(&l->tail, memory_order_acquire)) { /* pairs with self_send */
        unsigned char *p = l->ring + (head & (RING - 1));
        uint64_t len;
        memcpy(&len, p, 8);
        if (!len) {
            head = (head + RING) & ~(uint64_t)(RING - 1);
            continue;
        }
        one_packet(l, p + 16, len);
        head += rounded((size_t)len + 16);
        atomic_store_explicit(&l->head, head, memory_order_release); /* pairs with room */
        n++;
    }
    return n;
}

static bool self_pure_poll(madi_adapter_t *a)
{
    self_link_t *l = atomic_load_explicit(&((self_adapter_t *)a)->link, memory_order_acquire);
    return l && atomic_load_explicit(&l->head, memory_order_relaxed) !=
                    atomic_load_explicit(&l->tail, memory_order_relaxed);
}

static bool self_arm(madi_adapter_t *a)
{
    return !self_pure_poll(a); /* a sender in this process wakes the session */
}

static mad_status_t self_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    self_link_t *l = (self_link_t *)link;
    (void)addr;
    (void)len;
    (void)reason;
    *fd = -1;
    if (posix_memalign((void **)&l->ring, MADI_LINE, RING + MADI_SHORT_MAX))
        return MAD_ERR_NOMEM;
    atomic_store_explicit(&((self_adapter_t *)link->adapter)->link, l, memory_order_release);
    madi_link_up(link);
    return MAD_OK;
}

/* Room for a packet that does not wrap; NULL: none. */
static unsigned char *room(self_link_t *l, size_t need, uint64_t *tail)
{
    uint64_t head = atomic_load_explicit(&l->head, memory_order_acquire); /* pairs with self_poll */
    size_t at = *tail & (RING - 1);
    if (at + need > RING) {
        if (*tail + (RING - at) + need - head > RING)
            return NULL;
        memset(l->ring + at, 0, 8);
        *tail += RING - at;
        at = 0;
    }
    return *tail + need - head > RING ? NULL : l->ring + at;
}

static madi_sent_t self_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    self_link_t *l = (self_link_t *)link;
    uint64_t tail = atomic_load_explicit(&l->tail, memory_order_relaxed), len = total;
    unsigned char *p = room(l, rounded(total + 16), &tail);
    (void)op;
    if (!p)
        return MADI_AGAIN;
    memcpy(p, &len, 8);
    p += 16;
    for (int i = 0; i < n; p += vec[i++].iov_len)
        madi_copy(p, vec[i].iov_base, vec[i].iov_len);
    atomic_store_explicit(&l->tail, tail + rounded(total + 16), memory_order_release); /* pairs with self_poll */
    madi_session_moved(link->adapter->session);
    return MADI_SENT;
}

static void self_link_close(madi_link_t *link)
{
    atomic_store_explicit(&((self_adapter_t *)link->adapter)->link, NULL, memory_order_release);
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
    .poll = self_poll,
    .pure_poll = self_pure_poll,
    .arm = self_arm,
    .connect = self_connect,
    .send = self_send,
    .link_close = self_link_close,
    .link_fini = self_link_fini,
};
