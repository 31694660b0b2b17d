/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: packets in Ethernet frames of an own EtherType, without IP, through memory that is shared with the kernel.
 *
 *   eth.c          the table; adapters
 *   eth_probe.c    interfaces, names of networks, addresses
 *   eth_ring.c     AF_PACKET sockets, and the ring of received frames
 *   eth_xdp.c      frames that come before the ring, over AF_XDP; on request
 *   eth_frame.c    frames on the wire, checked and summed; without state
 *   eth_flow.c     numbers, acknowledgements, windows, timeouts; without sockets
 *   eth_hello.c    frames of the handshake
 *   eth_link.c     links: their life
 *   eth_send.c     outgoing packets
 *   eth_receive.c  incoming frames
 *   eth_poll.c     progress, timeouts, sleep
 *
 * An adapter is an interface, with two sockets.  A filter in the kernel gives each socket only the frames to this adapter's
 * port, so the processes of a host do not get each other's frames.
 *
 *   handshakes     those of strangers; a rare watch, so handshakes are answered while the program computes.  A flood of
 *                  strangers' frames fills the buffer of this socket only
 *   the ring       all other frames.  The kernel writes frames to the ring, and a thread that waits looks at one word.
 *                  With MAD_ETH_RINGS=xdp, a third socket gets most of these frames (eth_xdp.h)
 *
 * A packet is cut into segments, each in one frame; a frame holds segments of one packet only.  Packets without an op are
 * copied, since a lost segment is sent again; those with an op are sent from the memory of the op's owner, and the op is
 * done when all segments are acknowledged.
 *
 *   packet   | header | body                                      |
 *   segments | FIRST            |                  |         LAST |
 *
 * An acknowledgement goes with each segment.  It goes alone after ETH_ACK_EVERY segments, where the sender demands
 * it (NOW), where a segment is missing, before a thread sleeps, and otherwise after ETH_ACK_NS.
 *
 * Locks.  Outgoing state is under the link's tx lock, all other state under the session's lock.  No upcall is made with the tx
 * lock held: acknowledged ops wait in `ended`. */
#ifndef ETH_H
#define ETH_H

#include "base/own.h"
#include "core/driver.h"
#include "drivers/eth/eth_flow.h"
#include "drivers/eth/eth_frame.h"
#include "drivers/eth/eth_xdp.h"
#include "drivers/fabric/end.h"
#include "drivers/fabric/process.h"
#include "drivers/fabric/table.h"
#include <sys/socket.h>

#define ETH_MAGIC 0x68746564u
#define ETH_PACKET_MAX ((size_t)32 << 10) /* bytes */
#define ETH_SMALL 768                     /* bytes: longest packet that gets a small buffer */
#define ETH_GATHER 16
#define ETH_PACKETS 256               /* maximum number of unacknowledged packets of a link; further packets are refused */
#define ETH_BATCH 32                  /* frames of one system call */
#define ETH_ACK_EVERY 16              /* segments */
#define ETH_ACK_NS INT64_C(500000)    /* ns */
#define ETH_TICK_NS INT64_C(50000000) /* ns between two checks while the program computes */
#define ETH_MTU_MIN 600               /* bytes: room for a head and for MADI_FRAME_MIN */
#define ETH_ENDS 64                   /* maximum number of closed links remembered, as their peers may not know */
static_assert(ETH_MTU_MIN >= MADI_FRAME_MIN + sizeof(eth_head_t), "mtu");

/* Address of an adapter, and of a source of handshakes. */
typedef struct eth_address {
    uint8_t mac[ETH_MAC];
    uint8_t mtu[2];  /* little-endian: bytes of the longest frame behind its outer 14 bytes; 0 in a source */
    uint8_t port[4]; /* little-endian: random, chosen by the adapter */
} eth_address_t;
static_assert(sizeof(eth_address_t) == 12, "address");

/* Description of an end of a link, for the other end's start. */
typedef struct eth_description {
    uint32_t magic, version; /* ETH_MAGIC, ETH_VERSION */
    uint64_t key;            /* key of this end of the link */
    uint16_t index;          /* index of this end of the link */
    uint16_t window;         /* segments that may be in flight to this end */
    uint8_t sum;             /* 1: frames to this end carry a check sum */
    uint8_t reserved[3];
    eth_address_t address;
    uint32_t reserved2;
    fabric_process_t process;
} eth_description_t;
static_assert(sizeof(eth_description_t) == 64 && sizeof(eth_description_t) <= MADI_DESCRIPTION_MAX, "description");

typedef struct eth_link eth_link_t;
typedef struct eth_adapter eth_adapter_t;

/* An outgoing packet. */
typedef struct eth_packet {
    struct eth_packet *next; /* next in the free list, or in the list of the link's packets, oldest first */
    madi_op_t *op;           /* the operation; NULL if the bytes are in `data` */
    size_t total, cut;       /* total: bytes of the packet; cut: bytes that have been put into segments */
    int n;                   /* pieces */
    bool is_small;           /* true if `data` has ETH_SMALL bytes, false if `data` has ETH_PACKET_MAX bytes */
    bool held;               /* counted by madi_link_holds */
    struct iovec vec[ETH_GATHER];
    char data[];
} eth_packet_t;

/* An incoming segment that waits for its turn. */
typedef struct eth_kept {
    uint8_t flags;
    uint16_t len;
    unsigned char data[];
} eth_kept_t;

/* A frame that is being sent. */
typedef struct eth_outer {
    unsigned char outer[ETH_OUTER];
    unsigned char head[sizeof(eth_head_t)];
} eth_outer_t;
static_assert(sizeof(eth_outer_t) == ETH_OVERHEAD, "outer");

/* Frames of one system call; under the link's tx lock. */
typedef struct eth_batch {
    struct mmsghdr messages[ETH_BATCH];
    struct iovec vec[ETH_BATCH][ETH_GATHER + 1];
    eth_outer_t outer[ETH_BATCH];
    eth_segment_t *segments[ETH_BATCH];
    int n;
} eth_batch_t;

/* The ring of received frames. */
typedef struct eth_ring {
    int fd; /* -1: none */
    char *base;
    size_t len;
    char **slots;
    unsigned n;           /* slots */
    _Atomic(unsigned) at; /* the slot that the kernel fills next, or has filled */
    madi_shared_t shared;
    eth_xdp_t xdp;
} eth_ring_t;

struct eth_adapter {
    madi_adapter_t base;
    eth_address_t self;
    uint32_t port;
    int ifindex;
    unsigned mtu;
    bool sum; /* frames to this adapter carry check sums */
    eth_ring_t ring;
    madi_watch_t hellos, frames, xdp_frames, timer, tick;
    fabric_table_t links;
    eth_link_t *touched, *deferred; /* links that have work at the end of a poll; links whose next packet waits */
    _Atomic(bool) attention;        /* poll has work, though no frame has come */
    _Atomic(int64_t) due;           /* ns: when a timeout or an acknowledgement is due; INT64_MAX if none */
    int64_t armed;                  /* ns: for which `timer` is set; 0: not set */
    int64_t looked;                 /* ns: time of the last check of all links */
    _Atomic(int) send_error;        /* the error of sending that was reported last; 0: none */
    bool watched;                   /* the watches were added */
    struct {
        uint64_t key, peer_key; /* key 0: none */
        uint32_t peer_port, number;
        uint16_t peer_index;
        uint8_t mac[ETH_MAC];
    } ends[ETH_ENDS];
    unsigned next_end;
    unsigned char frame[ETH_OUTER + 65536]; /* the frame of a handshake that is being received */
};

struct eth_link {
    madi_link_t base;
    fabric_end_t end; /* silence only */
    madi_watch_t process;
    int index;
    bool numbered, started, closed, down;
    uint64_t key, peer_key;
    uint32_t peer_port, segment_max; /* segment_max: bytes */
    uint16_t peer_index;
    uint8_t peer_mac[ETH_MAC];
    bool sum; /* frames to the peer carry check sums */
    int64_t asked;

    /* sending, under the tx lock */
    eth_out_t out;
    eth_packet_t *packets, **packets_end; /* list of packets that are not acknowledged, oldest first */
    eth_packet_t *cutting;                /* the first packet in `packets` that is not wholly in segments; NULL if none */
    int n_packets;
    eth_packet_t *small, *big; /* free packets */
    eth_packet_t *ended;       /* list of acknowledged packets whose op has not been completed */
    _Atomic(bool) refused;     /* a packet was refused */
    bool stuck;                /* the card had no room */
    bool too_long;             /* a frame was longer than the interface's MTU, which was lowered */
    eth_batch_t batch;

    /* receiving, under the session's lock */
    eth_in_t in;
    int64_t ack_due; /* ns; 0: none */
    bool is_touched, is_deferred;
    eth_link_t *next_touched, *next_deferred;
    bool receiving, copying; /* receiving: a packet of several segments is being received; copying: the core wants its
                              * bytes */
    madi_wire_hdr_t hdr;
    madi_rx_t rx;
    size_t received; /* bytes of the body */
    bool bye;
    uint32_t bye_at; /* number of the first segment that the peer will not send */
    int bye_looks;
};

/* Bytes of the longest frame of the handshake. */
static inline uint32_t eth_frame_max(const eth_adapter_t *a)
{
    size_t max = a->mtu - sizeof(eth_head_t);
    return max < MADI_FRAME_MAX ? (uint32_t)max : MADI_FRAME_MAX;
}

static inline eth_adapter_t *eth_of(const eth_link_t *l)
{
    return (eth_adapter_t *)l->base.adapter;
}

/* eth_probe.c */
mad_status_t eth_probe(const madi_driver_t *driver, struct mad_session *session);
/* Find the interface of an adapter: index, address, MTU, network. */
mad_status_t eth_interface_find(eth_adapter_t *a, char *reason);
/* Set the bytes of the longest frame to this adapter, behind its outer 14 bytes. */
void eth_mtu_set(eth_adapter_t *a, unsigned mtu);
/* Return the MTU that the interface has now, in bytes. */
unsigned eth_mtu_query(const eth_adapter_t *a);

/* eth_ring.c */
mad_status_t eth_sockets_open(eth_adapter_t *a, char *reason);
void eth_sockets_fini(eth_adapter_t *a);
/* Return a frame that has arrived, and its length; NULL if there is none.  Frames that the ring has cut have length 0. */
const void *eth_ring_frame(const eth_ring_t *ring, size_t *len);
/* Step beyond that frame.  Returns its slot, for eth_ring_release. */
unsigned eth_ring_step(eth_ring_t *ring, const void *frame);
void eth_ring_release(eth_ring_t *ring, unsigned slot);
/* Return the number of segments that may be in flight to this adapter from one peer. */
unsigned eth_ring_window(const eth_ring_t *ring);
void eth_outer_write(const eth_adapter_t *a, eth_outer_t *to, const uint8_t mac[ETH_MAC], const eth_head_t *head);
/* Handle an error of sending: return true if the card has no room, so that the frame has to wait; otherwise report the error
 * once.  The frame then counts as lost. */
bool eth_send_failed(eth_adapter_t *a, int error);
/* Send one frame.  Return false if the card has no room. */
bool eth_frame_post(eth_adapter_t *a, const uint8_t mac[ETH_MAC], const eth_head_t *head, const void *body);

/* eth_hello.c */
bool eth_frame_send(madi_link_t *link, const void *frame, size_t len);
bool eth_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len);
void eth_hellos_read(eth_adapter_t *a);
void eth_hellos_ready(madi_watch_t *watch, uint32_t events);

/* eth_link.c */
mad_status_t eth_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason);
mad_status_t eth_accept(madi_link_t *link, const void *source, size_t source_len, char *reason);
size_t eth_describe(madi_link_t *link, void *bytes);
mad_status_t eth_start(madi_link_t *link, int fd, bool active, char *reason);
void eth_link_close(madi_link_t *link);
void eth_link_fini(madi_link_t *link);
void eth_down(eth_link_t *l, mad_status_t status, const char *text);
void eth_bye_check(eth_link_t *l, bool late);
/* End a link whose frames are longer than the interface's MTU, which was lowered.  Without the tx lock. */
void eth_too_long(eth_link_t *l);
/* End a link whose segments are not acknowledged, although the peer answers. */
void eth_stall_check(eth_link_t *l, int64_t now);
/* Answer a frame to a link that is closed. */
void eth_end_answer(eth_adapter_t *a, const eth_head_t *head);
bool eth_drained(madi_link_t *link);
void eth_acknowledge(madi_link_t *link);

/* eth_send.c */
madi_sent_t eth_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
/* Send what may be sent: lost segments, then new ones.  Under the tx lock. */
void eth_flush(eth_link_t *l, int64_t now);
/* Send an acknowledgement in a frame of its own.  demand: request that the peer acknowledges immediately. */
void eth_ack_send(eth_link_t *l, bool demand);
/* Free packets that are acknowledged.  Under the tx lock. */
void eth_packets_release(eth_link_t *l);
/* Complete the ops of acknowledged packets.  Without the tx lock.  Return their number. */
int eth_ops_done(eth_link_t *l);
void eth_packets_fail(eth_link_t *l); /* end all ops of a closed link with an error */
void eth_packets_fini(eth_link_t *l);

/* eth_receive.c */
void eth_frame_handle(eth_adapter_t *a, const void *frame, size_t len);
madi_link_t *eth_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
int eth_deferred_run(eth_adapter_t *a);
void eth_receive_forget(eth_link_t *l);

/* eth_poll.c */
bool eth_pure_poll(madi_adapter_t *adapter);
int eth_poll(madi_adapter_t *adapter, int budget);
bool eth_arm(madi_adapter_t *adapter);
mad_status_t eth_wait_open(eth_adapter_t *a, char *reason);
void eth_wait_close(eth_adapter_t *a);
void eth_wait_fini(eth_adapter_t *a);
void eth_touch(eth_link_t *l);
/* Have poll check timeouts at the time `at` (ns), or earlier. */
static inline void eth_due(eth_adapter_t *a, int64_t at)
{
    if (at < atomic_load_explicit(&a->due, memory_order_relaxed))
        atomic_store_explicit(&a->due, at, memory_order_relaxed); /* a race may store a later time, which the tick repairs */
}
static inline void eth_attend(eth_adapter_t *a)
{
    atomic_store_explicit(&a->attention, true, memory_order_relaxed);
}

#endif
