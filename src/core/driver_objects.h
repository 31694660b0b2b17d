/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of the contract between the core and the drivers (driver.h): limits, operations in flight, capabilities,
 * adapters, links, incoming packets.  Include driver.h, which includes this file. */
#ifndef MADI_DRIVER_OBJECTS_H
#define MADI_DRIVER_OBJECTS_H

#include "base/base.h"
#include "base/foreign.h"
#include "core/send/policy.h"
#include "core/wire/wire.h"
#include <madeleine/status.h>

#define MADI_ADDR_MAX 255        /* maximum number of bytes of an adapter's own address */
#define MADI_NAME_MAX 48         /* maximum number of bytes of adapter and network names, final zero included */
#define MADI_REASON_MAX 200      /* maximum number of bytes of an explanation */
#define MADI_PACKET_MIN 4096     /* least packet_max that a driver may have, in bytes */
#define MADI_SHORT_MAX 40        /* maximum number of bytes of the body of a short packet */
#define MADI_TAKE_MAX 640        /* maximum number of bytes of a body that the operation `take` copies */
#define MADI_FRAME_MAX 8752      /* bytes of the longest frame of the handshake */
#define MADI_FRAME_MIN 544       /* least frame_max that an adapter may have, in bytes */
#define MADI_DESCRIPTION_MAX 256 /* maximum number of bytes by which a driver describes its end of a link */
#define MADI_PACKET_SHORT (MADI_SHORT_MAX + sizeof(madi_wire_hdr_t))

typedef struct madi_driver madi_driver_t;
typedef struct madi_adapter madi_adapter_t;
typedef struct madi_link madi_link_t;
typedef struct madi_op madi_op_t;
struct mad_session;
struct madi_gate;

/* An asynchronous operation, taken by send: the driver calls done exactly once, from poll, a watch, link_close, or
 * link_fini, under the session's lock and without the tx lock, and never from inside send. */
struct madi_op {
    void (*done)(madi_op_t *op, mad_status_t status);
    bool last; /* the program waits for this packet and for nothing behind it: complete the operation as soon as possible */
    uint64_t of;    /* length in bytes of the block of which this packet is a piece */
    size_t ahead;   /* bytes at the beginning of vec that are another packet, whose memory does not stay valid: the driver
                     * copies those that cannot leave at once.  0, unless caps.ahead */
    bool shareable; /* both sides wait for the block of which this is a piece, and could move it directly: they have found
                     * that sending is faster */
};

/* Capabilities and limits of an adapter's links; plain data, set by open. */
typedef struct madi_caps {
    /* Lengths in bytes. */
    /* the longest packet (header included) that send always takes without an op: MADI_PACKET_MIN to 32 KiB.  Credit
     * comes back in halves of MAD_CREDIT_FLOOR, and one half must pay for a packet */
    size_t packet_max;
    size_t chunk_max; /* the longest packet that send takes with an op (pieces of granted blocks); at least packet_max */
    /* not 0: the driver copies, and its copying overlaps the peer's when a block is sent in pieces of at least this
     * length; less than chunk_max */
    size_t chunk_min;
    size_t rdv_min; /* blocks from this length on use rendezvous: a grant is cheaper than a copy */
    /* blocks from this length up to rdv_min (exclusive) begin in their message's packet.  The rest comes in a packet of
     * up to chunk_max, which the receiver's driver may place itself.  0: none */
    size_t cont_min;
    /* where link->direct is set, in a driver with the operation `answers`: shortest block that is announced if its sender
     * answers and then waits (policy.h).  0: rdv_min applies */
    size_t direct_min;
    size_t answer_min; /* like direct_min, but where link->direct is not set */
    /* direct_min is an estimate: a block from MADI_SHARE_MIN to answer_min is sent by the method that has proved faster */
    bool learned;
    size_t rdv_eager;  /* bytes of a rendezvous block that may be sent ahead of the grant */
    int gather_max;    /* maximum number of entries of vec that `send` takes: at least 16, because the core and gateways use
                        * up to 16 */
    double latency_us; /* us: expected time of a short packet, one way */
    double bandwidth_MBs;
    int rank;  /* the path with the lowest rank is preferred: self 0, shm 10, tcp 50, virtual 200 */
    bool self; /* reaches only this process itself */
    bool host; /* true if the adapter reaches only processes of this host */
    /* one call of send takes two packets: one as without an op, then one with an op (op->ahead). Requires gather_max of
     * 18 or more */
    bool ahead;
    /* send may be given an op that the driver holds already: done is called once for each time the op was taken, and the
     * header is copied */
    bool many;
} madi_caps_t;

/* Protection of a network; the values are sent to peers. */
typedef enum madi_security {
    MADI_SECURITY_NONE = 0,
    MADI_SECURITY_AUTH = 1, /* both ends prove a key of the job as they connect */
    MADI_SECURITY_SEAL = 2  /* like AUTH, and everything after the proofs is encrypted and authenticated */
} madi_security_t;

struct madi_adapter {
    const madi_driver_t *driver;
    struct mad_session *session;
    char name[MADI_NAME_MAX]; /* set by probe: the device */
    char network
        [MADI_NAME_MAX]; /* set by open: adapters can communicate iff these are equal, or driver->reach.common is true */
    madi_caps_t caps;    /* set by open */
    unsigned char address[MADI_ADDR_MAX]; /* set by open */
    size_t address_len;
    /* set by open: the device, as the kernel names it (eth0, mlx5_0), or its PCI address (0000:3b:00.0); empty if none */
    char device[MADI_NAME_MAX];
    int node;     /* the core's: NUMA node of the device; -1 if unknown */
    int distance; /* the core's: from the processors of the process, 10 is the least; 0: nothing is near or far */
    const unsigned char *identity; /* set by the core: 16 random bytes, those of the session */
    uint8_t security;              /* madi_security_t: AUTH, unless `open` sets it */
    int listen_fd;                 /* set by open: a listening socket that the core accepts on, or -1 */
    uint32_t frame_max;            /* set by open, group frames: bytes of the longest frame that the driver carries; the core
                                    * cuts longer ones.  MADI_FRAME_MIN or more; 0: MADI_FRAME_MAX */
    char remark[MADI_REASON_MAX];  /* set by open: how the adapter works here, for mad_info; empty: nothing to say */
    bool opened;                   /* the core's */
    madi_adapter_t *outer;         /* the adapter that wraps this one and gets its frames; NULL if none */
    const _Atomic(int) *attentive; /* the core's: not 0 while madi_adapter_wake has to wake the leader */
};

typedef enum madi_link_state { MADI_LINK_CONNECTING, MADI_LINK_UP, MADI_LINK_DOWN } madi_link_state_t;

struct madi_link {
    const madi_driver_t *driver;
    madi_adapter_t *adapter;
    struct madi_gate *gate;   /* the core's: the peer */
    _Atomic(int) state;       /* madi_link_state_t; set by the core */
    uint64_t begun;           /* the driver's: not 0 after `take` has lent a body that is still being written */
    bool direct;              /* set before madi_link_up: true if `get` and `put` work */
    madi_link_t *outer;       /* the link that wraps this one and gets its upcalls; NULL if none */
    madi_link_t *next_dead;   /* the core's */
    _Atomic(uint32_t) loans;  /* set by the core: number of lent bodies that the core still holds */
    unsigned char secret[32]; /* the core's: the link's secret, which from start on only the two ends know (proof.h) */
    /* Group frames: the description of the other end, which wrote it and proved the key, during start; else NULL. */
    const unsigned char *description;
    size_t description_len; /* bytes; at most MADI_DESCRIPTION_MAX */
    /* from start on: the state of a sealed connection (seal.h); NULL: not sealed.  The driver uses it until link_fini;
     * the core frees it after that */
    struct madi_seal *seal;
};

/* A posted receive that is advertised to the sender.  The offer is only for a message that begins at this position of
 * the connection and has this one block. */
typedef struct madi_offer {
    uint64_t position; /* credit bytes of all earlier packets of the connection */
    uint64_t len;      /* bytes */
    uint64_t at;       /* address in the receiver's memory */
    uint16_t channel;  /* the sender's number */
} madi_offer_t;

typedef enum madi_sent {
    MADI_SENT,  /* complete: the buffers may be reused, op->done is not called */
    MADI_TAKEN, /* in flight: op->done is called later (only if op was given).  The memory that vec points to, the header
                 * included, stays unchanged until then; the array vec itself may go. */
    MADI_AGAIN  /* not taken, or the link is broken (then madi_link_down follows).  The core tries again when it polls, and
                 * sleeps at most a millisecond while a packet is refused; madi_link_writable shortens that */
} madi_sent_t;

/* The core's result for an incoming packet: where its body goes. */
typedef enum madi_place {
    MADI_PLACE_COPY, /* put hdr.length bytes at rx->base, then call madi_rx_done */
    MADI_PLACE_KEEP, /* the core keeps rx->loan and has processed the packet: the driver does not reuse these bytes until
                      * its slot_put is called with the same pointer, maybe before madi_rx_begin has returned.
                      * No madi_rx_done. */
    MADI_PLACE_DROP, /* read and forget the body; no madi_rx_done */
    MADI_PLACE_LATER /* only if rx->defer was set: keep the packet, stop polling this link, and call madi_rx_begin again in
                      * the next poll; until then the program may name a destination.  At most once a packet */
} madi_place_t;

typedef struct madi_rx {
    madi_foreign_t loan; /* in: the whole body (hdr.length bytes, any alignment), if lending is possible; else not set */
    void *base;          /* out, for COPY: destination */
    void *cookie;        /* the core's */
    uint64_t more;       /* the core's */
    /* Only for FORWARD packets.  here, in: number of the body's first bytes that can be read at head; 0: none, and head is
     * not set.  A driver that can waits for MADI_FORWARD_HEAD of them.  If the whole body is readable there, DROP may mean
     * that the core has used it.  skip, out, for COPY: number of the body's first bytes that are not put at base. */
    madi_foreign_t head;
    uint32_t here, skip; /* here, skip: bytes; skip is 0 if here is 0 */
    bool defer;          /* in: true if the core may answer MADI_PLACE_LATER */
} madi_rx_t;

/* Upcalls of inner links.  A driver that wraps others (fault) makes their links itself and sets outer in them.  Calls of
 * their drivers to the core then come here, under the same locks. */
typedef struct madi_upcalls {
    madi_place_t (*rx_begin)(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
    void (*rx_done)(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
    void (*rx_short)(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_foreign_t body);
    void (*link_up)(madi_link_t *inner);
    void (*link_down)(madi_link_t *inner, mad_status_t status, const char *text);
    void (*link_writable)(madi_link_t *inner);
} madi_upcalls_t;

#endif
