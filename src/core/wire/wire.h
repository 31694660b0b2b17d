/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire format: packet headers and block descriptors.  Little-endian, fixed widths; values are never reused.
 * All received values were written by a peer: check them before use. */
#ifndef MADI_WIRE_H
#define MADI_WIRE_H

#include <assert.h>
#include <stdint.h>

#define MADI_WIRE_VERSION 13
#define MADI_FORWARD_DAEMON 4u /* bit in the first byte of an address's entry for `virtual`: the process only forwards */

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "packets are written as they lie in memory: this host needs conversions that are not written yet"
#endif

/* Every packet begins with this header; length bytes follow it.
 *
 *   MSG     a piece of a message: [descriptor][data] repeated.  channel: the sender's number for the channel.
 *           seq: the number of the message in its connection.  aux: credit bytes that the packet uses.
 *   DATA    a piece of a granted block.  aux: the receiver's handle; seq: low 32 bits of the offset in bytes; channel:
 *           its high 16 bits.
 *   others  a madi_wire_<type> structure, or bytes as described there.
 */
typedef struct madi_wire_hdr {
    uint8_t type;
    uint8_t flags;
    uint16_t channel;
    uint32_t length;
    uint32_t seq;
    uint32_t aux;
} madi_wire_hdr_t;
static_assert(sizeof(madi_wire_hdr_t) == 16, "packet header");

/* Control packets, a row for each.  The numbers MADI_WIRE_name, and the table by which the core checks and dispatches these
 * packets, are made from the rows.
 *
 * To add a packet: add a row with the next number, its structure below, and its handler to the file that sends it or to that
 * of the object that it is about; describe it in doc/wire.md, and raise the version.
 *
 *   W(name, number, length, handler)
 *     length   bytes of the body, MADI_CTRL_MAX at most; MADI_WIRE_ANY: the handler checks it
 *     handler  function that takes a packet that has arrived (madi_control_handler_t, core/link/link.h)
 *
 * "channel" is in the header. */
/* clang-format off */
#define MADI_WIRE_CONTROLS(W) \
    /* announces a channel's number; channel: the number, which was free; body: the name */ \
    W(CHANNEL, 3, MADI_WIRE_ANY, madi_channel_announced) \
    W(GRANT, 4, sizeof(madi_wire_grant_t), madi_grant_arrived) \
    /* channel as the *sender of the messages* numbers it */ \
    W(CREDIT, 5, sizeof(madi_wire_credit_t), madi_credit_arrived) \
    W(MISMATCH, 6, sizeof(madi_wire_mismatch_t), madi_mismatch_arrived) \
    /* no more packets follow; an orderly end */ \
    W(BYE, 7, 0, madi_bye_arrived) \
    /* no message follows under the channel's number in `channel` */ \
    W(CLOSE, 8, 0, madi_close_arrived) \
    /* channel as the *sender of the messages* numbers it: the number is free again */ \
    W(CLOSED, 9, 0, madi_closed_arrived) \
    W(SHARE, 11, sizeof(madi_wire_share_t), madi_share_arrived)
/* clang-format on */
#define MADI_WIRE_ANY UINT32_MAX

#define MADI_WIRE_NUMBER(name, number, length, handler) MADI_WIRE_##name = (number),
enum madi_wire_type {
    MADI_WIRE_MSG = 1,
    MADI_WIRE_DATA = 2,
    MADI_WIRE_FORWARD = 10,
    MADI_WIRE_CONTROLS(MADI_WIRE_NUMBER) MADI_WIRE_RAIL = 12, /* of rails (core/rails.h), which handle it themselves */
    MADI_WIRE_TYPES                                           /* number of types, plus 1 */
};

enum madi_wire_flags {
    MADI_WIRE_FIRST = 1, /* MSG: the first packet of the message */
    MADI_WIRE_LAST = 2,  /* MSG: the last packet of the message */
    MADI_WIRE_MODES = 4, /* MSG: descriptors carry the send mode too */
    MADI_WIRE_CONT = 8   /* MSG: the packet has only further bytes of the block that the packet before has begun */
};

/* A block descriptor, 8 bytes, unaligned in the packet:
 *   bits 0-47 length of the block; 48-49 kind; 50 receive mode; 51-52 send mode (when MADI_WIRE_MODES); 53, RDV_AT only:
 *   the sender waits, and can move a part of the block
 * kind INLINE: the block's bytes follow, up to the packet's end.  If that is not the message's last packet, the rest may
 * come in the next packets (MADI_WIRE_CONT).
 * kind RDV: a madi_wire_rdv and its eager bytes follow.
 * Two more kinds are for links where the two processes reach each other's memory.  kind RDV_AT: a madi_wire_rdv, the
 * block's address (8 bytes), and its eager bytes follow.  kind PLACED: nothing follows; the sender has written the bytes to
 * the offered destination. */
enum madi_wire_kind { MADI_WIRE_INLINE = 0, MADI_WIRE_RDV = 1, MADI_WIRE_RDV_AT = 2, MADI_WIRE_PLACED = 3 };
/* Credit bytes that a packet uses until its message is opened: aux of MSG packets.  total: bytes, with the header. */
static inline uint64_t madi_wire_cost(uint64_t total)
{
    return (total + 63) & ~UINT64_C(63);
}

#define MADI_WIRE_LEN_MAX ((UINT64_C(1) << 48) - 1)

static inline uint64_t madi_wire_desc(uint64_t len, unsigned kind, unsigned rmode, unsigned smode)
{
    return len | (uint64_t)kind << 48 | (uint64_t)(rmode + 2 * smode) << 50;
}
#define MADI_WIRE_DESC_SIZE 8 /* bytes of a descriptor */
#define MADI_WIRE_DESC_LEN(d) ((d)&MADI_WIRE_LEN_MAX)
#define MADI_WIRE_DESC_KIND(d) ((unsigned)((d) >> 48 & 3))
#define MADI_WIRE_DESC_RMODE(d) ((unsigned)((d) >> 50 & 1))
#define MADI_WIRE_DESC_SMODE(d) ((unsigned)((d) >> 51 & 3))
/* Of RDV_AT.  WAITS: the sender waits, and can move a part of the block.  SHARED: it also asks the receiver to share the
 * block, because a packet would take longer. */
#define MADI_WIRE_DESC_WAITS (UINT64_C(1) << 53)
#define MADI_WIRE_DESC_SHARED (UINT64_C(1) << 56)
/* Descriptors in MISMATCH only.  NONE: the side of this descriptor has no block with the index in MISMATCH.  ANY: the
 * receiver accepts any length. */
#define MADI_WIRE_DESC_NONE (UINT64_C(1) << 54)
#define MADI_WIRE_DESC_ANY (UINT64_C(1) << 55)

typedef struct madi_wire_rdv {
    uint32_t sender; /* the sender's handle of the block */
    uint32_t eager;  /* number of the block's first bytes that follow here */
} madi_wire_rdv_t;
static_assert(sizeof(madi_wire_rdv_t) == 8, "rendezvous");
#define MADI_WIRE_RDV_SIZE 16    /* bytes of an announcement: descriptor, madi_wire_rdv */
#define MADI_WIRE_RDV_AT_SIZE 24 /* bytes of an announcement with the block's address */
static_assert(MADI_WIRE_DESC_SIZE == sizeof(uint64_t) &&
                  MADI_WIRE_RDV_SIZE == MADI_WIRE_DESC_SIZE + sizeof(madi_wire_rdv_t) &&
                  MADI_WIRE_RDV_AT_SIZE == MADI_WIRE_RDV_SIZE + sizeof(uint64_t),
              "descriptors");

typedef struct madi_wire_grant {
    uint32_t sender;   /* the sender's handle, from madi_wire_rdv */
    uint32_t receiver; /* the receiver's handle, which goes into aux of the DATA packets */
    uint64_t len;      /* bytes that the receiver expects; 0 with drop: send nothing */
    uint32_t drop;     /* 1: the receiver discards the block, which is then complete at the sender */
    uint32_t pad;
} madi_wire_grant_t;
static_assert(sizeof(madi_wire_grant_t) == 24, "grant");

/* A grant of a block whose sender waits and has sent its address: both sides move a part of it.  The sender writes
 * bytes before `end` into the receiver's memory, and sends the remaining bytes before `end` as DATA.  At least one byte
 * is sent as DATA, to show that all bytes before it have been written.  The receiver reads the bytes behind `end`, and
 * then sends a grant with drop.  A receiver that cannot read these bytes sends a grant without drop, and the bytes come
 * as DATA too. */
typedef struct madi_wire_share {
    uint32_t sender, receiver; /* as in madi_wire_grant */
    uint64_t len;              /* as in madi_wire_grant */
    uint64_t at;               /* address of the block in the receiver's memory */
    uint64_t end;              /* offset in the block */
} madi_wire_share_t;
static_assert(sizeof(madi_wire_share_t) == 32, "share");

typedef struct madi_wire_credit {
    uint64_t limit; /* credit bytes that the sender of the messages may have used in total */
} madi_wire_credit_t;
static_assert(sizeof(madi_wire_credit_t) == 8, "credit");

typedef struct madi_wire_mismatch {
    uint32_t seq;            /* number of the message */
    uint32_t index;          /* index of the block in the message */
    uint64_t sent, expected; /* descriptors of the block at the sender and at the receiver */
} madi_wire_mismatch_t;
static_assert(sizeof(madi_wire_mismatch_t) == 24, "mismatch");

/* FORWARD: a fragment on one hop of a stream, which is a virtual link's path through gateways (src/gateway).
 *   flags: a kind, and MADI_FORWARD_OPENER from the side that has opened the stream on this hop.
 *   aux: the opener's number for the stream on this hop.  seq: the number of the fragment, from end to end.
 * The body begins with madi_wire_forward. */
enum madi_forward_kind {
    MADI_FORWARD_PACKET = 1, /* a packet of the virtual link: header and body */
    MADI_FORWARD_OPEN = 2,   /* madi_wire_open, then the address of the stream's other end.  channel: number of hops left */
    MADI_FORWARD_CREDIT = 3, /* credit for this hop: madi_wire_credit */
    MADI_FORWARD_HELLO = 4,  /* bytes of the handshake between the ends */
    MADI_FORWARD_READY = 5,  /* the sender's handshake is over: madi_wire_ready */
    MADI_FORWARD_CLOSE = 6,  /* the last fragment: madi_wire_close, then a text without a final zero */
    MADI_FORWARD_ACK = 7,    /* acknowledgement from end to end; body: madi_wire_forward, and a proof if encrypted, where seq
                           * counts these packets */
    MADI_FORWARD_PING = 8,   /* with `ask` 1, a query whether the gateways of this stream are alive; with `ask` 0, the
                             * answer */
    MADI_FORWARD_MOVE = 9,   /* requests that the ends use another path.  channel: number of gateways that the packet has
                             * passed */
    MADI_FORWARD_TRY = 10,   /* like OPEN, for a path in parallel with the stream's present one, which stays in use */
    MADI_FORWARD_KNOW = 11,  /* belongs to the hop, not to a stream: the address of a process that forwards */
    MADI_FORWARD_KINDS       /* number of kinds, plus 1 */
};
#define MADI_FORWARD_KIND 0x7f
#define MADI_FORWARD_OPENER 0x80

typedef struct madi_wire_forward {
    uint32_t ack; /* number of fragments of the stream that the sender has received, counted from end to end */
    uint32_t ask; /* 1: acknowledge this at once */
} madi_wire_forward_t;
static_assert(sizeof(madi_wire_forward_t) == 8, "forward");
/* Number of a fragment's first bytes that are read to decide where it goes; for a packet, the inner header is among them. */
#define MADI_FORWARD_HEAD (sizeof(madi_wire_forward_t) + sizeof(madi_wire_hdr_t))
/* A packet of an encrypted stream.  If its body has at most MADI_SEALED_WHOLE bytes, header and body are sealed together,
 * with the tag behind them.  In a longer packet, header and body are sealed separately.  So the place of the body is
 * known, and authentic, before the body has arrived:
 *   madi_wire_forward | header | tag of the header | tag of the body | body */
#define MADI_SEALED_WHOLE ((size_t)1024)
#define MADI_SEALED_HEAD (MADI_FORWARD_HEAD + 2 * MADI_WIRE_PROOF)

/* Bytes of a proof, which is made with a secret that only the two ends of a stream have.  Zeros from an end that has no
 * secret yet, and from gateways. */
#define MADI_WIRE_PROOF 16

typedef struct madi_wire_open {
    uint64_t limit;  /* credits that the opener gives for the other direction on this hop */
    uint64_t stream; /* a random number that identifies the stream at its ends, on any path */
    uint32_t turn;   /* 0: the first path of the stream; later paths have greater numbers, odd from the passive end */
    uint32_t ack;    /* as in madi_wire_forward */
    uint8_t proof[MADI_WIRE_PROOF]; /* proof of all fields but the limit */
} madi_wire_open_t;
static_assert(sizeof(madi_wire_open_t) == 40, "open");

typedef struct madi_wire_ready {
    uint8_t proof[MADI_WIRE_PROOF];
    uint8_t key[32]; /* public key (X25519) of an encrypted stream; else zeros */
} madi_wire_ready_t;
static_assert(sizeof(madi_wire_ready_t) == 48, "ready");

typedef struct madi_wire_close {
    uint32_t status;
    uint32_t what;
    uint8_t proof[MADI_WIRE_PROOF]; /* if `what` is MADI_CLOSE_LINK: proof of the other end of the stream */
} madi_wire_close_t;
static_assert(sizeof(madi_wire_close_t) == 24, "close");

enum madi_close_what {
    MADI_CLOSE_LINK = 0, /* the other end has closed the virtual link */
    MADI_CLOSE_WAY = 1,  /* this path has failed, or the stream's end uses another path */
    MADI_CLOSE_GONE = 2  /* the process at the other end does not answer at its address */
};

#define MADI_BLOCK_WORDS 40                                              /* bytes of the text that madi_block_words writes */
const char *madi_block_words(uint64_t desc, char buf[MADI_BLOCK_WORDS]); /* describe a block in words; return buf */

#endif
