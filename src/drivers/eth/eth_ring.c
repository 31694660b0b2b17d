/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: AF_PACKET sockets, and the ring of received frames.
 *
 * The ring is of version 2 (TPACKET_V2), whose frames a process sees one at a time.  Version 3 hands over blocks of frames, when
 * a block is full or after a millisecond at the least (doc/rationale.md, "Which rings does eth use?"). */
#include "drivers/eth/eth.h"

#include "base/knob.h"
#include "base/log.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SEND_BUFFER (8 << 20)         /* bytes */
#define BLOCK_MIN ((size_t)256 << 10) /* bytes: minimum length of a block, which the kernel allocates in one piece */
#define SLOT_MORE 128                 /* number of bytes of a slot before the frame */
#define SLOTS_MIN 16
#define SLOT_XDP 0x80000000u /* the slot is a chunk of eth_xdp */
#define OFFSET_KIND (ETH_OUTER + 1)
#define OFFSET_PORT (ETH_OUTER + 4)

/* ---- Sockets ---------------------------------------------------------------------------------------------------- */

/* Have the kernel drop frames that are not for this port of this host, and those that are for the other socket. */
static bool filter_attach(int fd, uint32_t port, bool handshakes)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 0, 5),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, OFFSET_KIND),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_HANDSHAKE, handshakes ? 0 : 3, handshakes ? 3 : 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, OFFSET_PORT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(port), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

static bool option_set(int fd, int level, int option, int value)
{
    return !setsockopt(fd, level, option, &value, sizeof value);
}

/* Make a socket that receives nothing until eth_socket_bind is called. */
static int eth_socket_open(const eth_adapter_t *a, bool handshakes)
{
    int fd = madi_fd_own(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd >= 0 && filter_attach(fd, a->port, handshakes))
        return fd;
    if (fd >= 0)
        madi_fd_close(fd);
    return -1;
}

static bool eth_socket_bind(const eth_adapter_t *a, int fd)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_TYPE), .sll_ifindex = a->ifindex};
    return !bind(fd, (struct sockaddr *)&at, sizeof at);
}

/* ---- The ring --------------------------------------------------------------------------------------------------- */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Share a ring with the kernel for frames of this MTU. */
static bool ring_map(eth_ring_t *r, unsigned mtu)
{
    size_t slot = round_up(ETH_OUTER + mtu + SLOT_MORE, MADI_LINE), block = BLOCK_MIN;
    size_t want = (size_t)madi_knob_int(MADI_KNOB_ETH_RING);
    while (block < slot)
        block *= 2;
    size_t per_block = block / slot, blocks = want / block;
    while (blocks * per_block < SLOTS_MIN)
        blocks++;
    struct tpacket_req req = {.tp_block_size = (unsigned)block,
                              .tp_block_nr = (unsigned)blocks,
                              .tp_frame_size = (unsigned)slot,
                              .tp_frame_nr = (unsigned)(blocks * per_block)};
    if (!option_set(r->fd, SOL_PACKET, PACKET_VERSION, TPACKET_V2) ||
        setsockopt(r->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof req))
        return false;
    r->n = req.tp_frame_nr;
    r->len = block * blocks;
    r->base = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (r->base == MAP_FAILED) {
        r->base = NULL;
        return false;
    }
    madi_shared_own(&r->shared, r->base, r->len);
    r->slots = malloc(r->n * sizeof *r->slots);
    for (unsigned i = 0; r->slots && i < r->n; i++)
        r->slots[i] = r->base + i / per_block * block + i % per_block * slot;
    return r->slots;
}

static struct tpacket2_hdr *slot_header(const eth_ring_t *r, unsigned slot)
{
    return (struct tpacket2_hdr *)(void *)r->slots[slot];
}

const void *eth_ring_frame(const eth_ring_t *r, size_t *len)
{
    const void *frame = eth_xdp_frame(&r->xdp, len);
    if (frame)
        return frame;
    struct tpacket2_hdr *h = slot_header(r, atomic_load_explicit(&r->at, memory_order_relaxed));
    uint32_t status = __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE); /* pairs with the kernel's store */
    if (!(status & TP_STATUS_USER))
        return NULL;
    *len = h->tp_snaplen == h->tp_len ? h->tp_len : 0;
    return (char *)h + h->tp_mac;
}

unsigned eth_ring_step(eth_ring_t *r, const void *frame)
{
    if (MADI_UNLIKELY(eth_xdp_has(&r->xdp, frame)))
        return SLOT_XDP | eth_xdp_step(&r->xdp);
    unsigned at = atomic_load_explicit(&r->at, memory_order_relaxed);
    atomic_store_explicit(&r->at, at + 1 == r->n ? 0 : at + 1, memory_order_relaxed);
    return at;
}

void eth_ring_release(eth_ring_t *r, unsigned slot)
{
    if (MADI_UNLIKELY(slot & SLOT_XDP)) {
        eth_xdp_release(&r->xdp, slot & ~SLOT_XDP);
        return;
    }
    __atomic_store_n(&slot_header(r, slot)->tp_status, TP_STATUS_KERNEL,
                     __ATOMIC_RELEASE); /* pairs with the kernel's load */
}

unsigned eth_ring_window(const eth_ring_t *r)
{
    unsigned slots = r->xdp.n && r->xdp.n < r->n ? r->xdp.n : r->n, window = slots / 2;
    return window < ETH_WINDOW ? window : ETH_WINDOW;
}

/* ---- An adapter's sockets ------------------------------------------------------------------------------------- */

static mad_status_t sockets_refused(const eth_adapter_t *a, const char *what, char *reason)
{
    int error = errno;
    if (error == EPERM || error == EACCES)
        snprintf(reason, MADI_REASON_MAX,
                 "raw Ethernet on %.40s needs the capability CAP_NET_RAW: setcap cap_net_raw+ep PROGRAM, or start as root",
                 a->base.name);
    else
        snprintf(reason, MADI_REASON_MAX, "%s on %.40s: %s%s", what, a->base.name, strerror(error), madi_remedy(error));
    return error == ENOMEM ? MAD_ERR_NOMEM : MAD_ERR_SYSTEM;
}

/* Have frames come over AF_XDP where the knob wants that and the host permits it. */
static mad_status_t xdp_choose(eth_adapter_t *a, char *reason)
{
    const char *knob = madi_knob_text(MADI_KNOB_ETH_RINGS);
    eth_xdp_t *x = &a->ring.xdp;
    char why[MADI_REASON_MAX];
    if (!strcmp(knob, "packet"))
        return MAD_OK;
    if (strcmp(knob, "xdp") != 0) {
        snprintf(reason, MADI_REASON_MAX, "MAD_ETH_RINGS is %.40s: set packet or xdp", knob);
        return MAD_ERR_CONFIG;
    }
    eth_xdp_want_t want = {a->ifindex, a->port, a->self.mac, (size_t)madi_knob_int(MADI_KNOB_ETH_RING)};
    if (eth_xdp_open(x, &want, why)) {
        unsigned longest = ETH_XDP_CHUNK - ETH_XDP_HEADROOM - ETH_OUTER;
        eth_mtu_set(a, a->mtu < longest ? a->mtu : longest);
        snprintf(a->base.remark, MADI_REASON_MAX, "frames come over AF_XDP%s",
                 eth_xdp_is_zero_copy(x) ? " without a copy" : ", copied by the kernel");
    } else {
        eth_xdp_fini(x);
        snprintf(a->base.remark, MADI_REASON_MAX, "frames come over AF_PACKET: %.160s", why);
    }
    return MAD_OK;
}

mad_status_t eth_sockets_open(eth_adapter_t *a, char *reason)
{
    a->hellos.fd = eth_socket_open(a, true);
    a->ring.fd = a->hellos.fd < 0 ? -1 : eth_socket_open(a, false);
    if (a->ring.fd < 0)
        return sockets_refused(a, "no packet socket", reason);
    if (!ring_map(&a->ring, a->mtu))
        return sockets_refused(a, "no ring of received frames (MAD_ETH_RING)", reason);
    if (!option_set(a->ring.fd, SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER))
        option_set(a->ring.fd, SOL_SOCKET, SO_SNDBUF, SEND_BUFFER);
    if (madi_knob_int(MADI_KNOB_ETH_BYPASS) && !option_set(a->ring.fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1))
        return sockets_refused(a, "no bypass of the queueing discipline", reason);
    if (!eth_socket_bind(a, a->hellos.fd) || !eth_socket_bind(a, a->ring.fd))
        return sockets_refused(a, "no packet socket", reason);
    return xdp_choose(a, reason);
}

void eth_sockets_fini(eth_adapter_t *a)
{
    eth_ring_t *r = &a->ring;
    eth_xdp_fini(&r->xdp);
    free(r->slots);
    r->slots = NULL;
    if (r->base) {
        madi_shared_forget(&r->shared);
        munmap(r->base, r->len);
        r->base = NULL;
    }
    if (r->fd > 0)
        madi_fd_close(r->fd);
    if (a->hellos.fd > 0)
        madi_fd_close(a->hellos.fd);
    r->fd = a->hellos.fd = 0;
}

/* ---- Frames ----------------------------------------------------------------------------------------------------- */

void eth_outer_write(const eth_adapter_t *a, eth_outer_t *to, const uint8_t mac[ETH_MAC], const eth_head_t *head)
{
    memcpy(to->outer, mac, ETH_MAC);
    memcpy(to->outer + ETH_MAC, a->self.mac, ETH_MAC);
    to->outer[2 * ETH_MAC] = ETH_TYPE >> 8;
    to->outer[2 * ETH_MAC + 1] = ETH_TYPE & 255;
    memcpy(to->head, head, sizeof *head);
}

bool eth_send_failed(eth_adapter_t *a, int error)
{
    if (error == EAGAIN || error == ENOBUFS)
        return true;
    if (error == EMSGSIZE || error == ENETDOWN) /* reported with the links, or by the socket */
        return false;
    if (atomic_exchange_explicit(&a->send_error, error, memory_order_relaxed) != error)
        madi_log(MADI_LOG_WARN, "eth", "%s: frames are not sent: %s%s; they are tried again until MAD_PEER_TIMEOUT",
                 a->base.name, strerror(error), madi_remedy(error));
    return false;
}

bool eth_frame_post(eth_adapter_t *a, const uint8_t mac[ETH_MAC], const eth_head_t *head, const void *body)
{
    eth_outer_t outer;
    eth_outer_write(a, &outer, mac, head);
    struct iovec vec[2] = {{&outer, sizeof outer}, {(void *)(uintptr_t)body, head->len}};
    struct msghdr message = {.msg_iov = vec, .msg_iovlen = head->len ? 2 : 1};
    return sendmsg(a->ring.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || !eth_send_failed(a, errno);
}
