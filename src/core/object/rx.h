/* SPDX-License-Identifier: BSD-3-Clause */
/* A message that is being received. */
#ifndef MADI_OBJECT_RX_H
#define MADI_OBJECT_RX_H

#include "base/foreign.h"
#include "core/object/message.h"

#include <sys/uio.h>

/* A packet of a message that waits to be unpacked. */
typedef struct madi_rx_packet {
    struct madi_rx_packet *next;
    madi_foreign_t data; /* the packet's body: in this allocation, or a loan */
    uint32_t len, cost;  /* len: bytes of the body; cost: credit bytes of the packet */
    bool last;           /* the last packet of the message */
    bool cont;           /* true if the packet continues the block that the packet before it has begun */
    bool inside;         /* the structure is part of its message, not an allocation of its own */
    madi_foreign_t loan; /* the loan to return; not set if the body is not lent */
    madi_link_t *link;   /* the link from which the body is lent */
} madi_rx_packet_t;

/* A block that mad_unpack_try or mad_unpack_borrow needs, and that is received into memory of the library. */
typedef struct madi_rx_early {
    uint64_t desc;           /* descriptor that the sender gave the block */
    madi_waitable_t arrived; /* completion that occurs when the whole block has arrived */
    bool borrowed;           /* the program has the block's address (mad_unpack_borrow) */
    int64_t charged;         /* bytes that are charged to the peer (MADI_CHARGE_BORROWED) */
    _Alignas(16) unsigned char data[];
} madi_rx_early_t;

#define MADI_RX_INLINE MADI_TAKE_MAX /* maximum number of bytes of a first packet that are kept in the message's structure */

/* A message that is being received.  Its places, with the lock or thread that protects it there:
 *
 *   conn->arriving   incomplete: further packets are added, under session->lock; at the same time in one of the following
 *   conn->ready      not opened; or in session->for_handlers.  Messages in these lists hold credit (cost)
 *   the program      opened: while it is plain the program's thread alone reads it, without a lock.  Otherwise under
 *                    session->lock, since packets and rendezvous blocks still arrive; in conn->unfinished if incomplete
 *   in no list       ended with a request: progress completes it when the missing part arrives (madi_rx_finish)
 *
 * The thread that ends the message gives its structure back for reuse (madi_rx_free).  Structures in session->rx_ring are
 * freed with the session only. */
struct madi_rx_msg {
    mad_message_t base;
    madi_foreign_t cur, end; /* the part of the current packet that is not unpacked yet; cur is "the cursor" */
    union {
        struct {
            bool cur_last;  /* the current packet is the message's last */
            bool complete;  /* the last packet has arrived */
            bool opened;    /* the program unpacks it */
            bool ended;     /* the program has called an end of unpacking */
            uint32_t index; /* index of the next block */
        };
        uint64_t state; /* the fields above as one number with cur_last in the lowest byte, so that one store sets all of
                         * them */
    };
    bool is_unfinished;  /* true if the message is in conn->unfinished */
    bool lost;           /* true if the rest of the message will not arrive */
    bool may_leave_rest; /* a handler may leave the remaining blocks unread without a mismatch */
    uint32_t cost;       /* credit bytes held until the message is opened */
    madi_conn_t *conn;
    madi_rx_msg_t *next;            /* the next message in conn->ready */
    madi_rx_packet_t *current;      /* the packet that owns cur..end; NULL if cur..end is in the field `data` */
    madi_rx_packet_t first;         /* the first packet, if its body is lent */
    uint64_t begun;                 /* of MADI_PLAIN_BEGUN: value of link->begun at the loan; cur..end is the part that is
                                     * written so far */
    madi_rx_packet_t *head, **tail; /* further packets */
    struct madi_rx_block *blocks, **blocks_tail; /* destinations that wait for their blocks (recv/rx_block.h) */
    _Atomic(uint32_t) rdv_pending;               /* number of rendezvous and continued blocks that are being received */
    uint64_t rdv_bytes;                          /* bytes of all blocks that were granted; under session->lock */
    madi_rx_early_t *early;   /* the next block, if it is being received into the library's memory; or NULL */
    bool postponed;           /* MADI_PLACE_LATER was returned once for the next packet of a continued block */
    mad_request_t *request;   /* the request that completes with the message, once the message has ended; NULL: none */
    int64_t began;            /* ns, while tracing: time at which the first packet arrived */
    marceli_waiter_t *waiter; /* the thread that waits for more of the message; under session->lock */
    /* recv: under session->lock. */
    struct madi_recv_rx {
        bool placed;        /* true if the sender has written the first block to the offered destination */
        uint64_t cont_left; /* bytes that the next packets bring for the continued block before the cursor */
        _Atomic(struct madi_rdv_recv *) cont; /* destination of the continued block's bytes; NULL: discard them */
        madi_rx_msg_t *next_unfinished;       /* the next message in conn->unfinished */
    } receiving;
    _Alignas(16) madi_rx_msg_t *ring;   /* the next structure in the session's ring */
    _Atomic(uint8_t) used;              /* the thread that ends the message clears this flag, without a lock */
    _Alignas(16) madi_wire_hdr_t hdr;   /* header of the first packet */
    unsigned char data[MADI_RX_INLINE]; /* body of a packet that is inside the message, directly behind hdr */
    struct madi_rdv_recv *free_block;   /* memory of a block in one piece that has ended, for the next one, or NULL; under
                                         * session->lock */
};

/* Opening and unpacking a short message needs two lines only, since structures in the ring begin at a line. */
static_assert(offsetof(madi_rx_msg_t, next) + sizeof(void *) <= MADI_LINE &&
                  offsetof(madi_rx_msg_t, ring) % MADI_LINE == 0 &&
                  offsetof(madi_rx_msg_t, data) - offsetof(madi_rx_msg_t, ring) < MADI_LINE,
              "the first line, and the line of the ring");

/* Values of state, which set five fields in one store. */
#define MADI_RX_WHOLE UINT64_C(0x0101)    /* cur_last and complete */
#define MADI_RX_OPENED UINT64_C(0x010101) /* cur_last, complete and opened */
static_assert(offsetof(madi_rx_msg_t, cur_last) == offsetof(madi_rx_msg_t, state) &&
                  offsetof(madi_rx_msg_t, complete) == offsetof(madi_rx_msg_t, state) + 1 &&
                  offsetof(madi_rx_msg_t, opened) == offsetof(madi_rx_msg_t, state) + 2 &&
                  offsetof(madi_rx_msg_t, ended) == offsetof(madi_rx_msg_t, state) + 3 &&
                  offsetof(madi_rx_msg_t, index) == offsetof(madi_rx_msg_t, state) + 4,
              "state holds these fields from the lowest byte on");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(bool) == 1, "its bytes are these fields");

/* Set up a message by its first packet, whose header is in m->hdr and whose body is at data. */
static inline void madi_rx_start(madi_rx_msg_t *m, madi_conn_t *conn, madi_foreign_t data, bool opened)
{
    m->conn = conn;
    m->cur = data;
    m->end = madi_foreign_skip(data, m->hdr.length);
    m->state = opened ? MADI_RX_OPENED : MADI_RX_WHOLE;
}

/* Number of bytes of the current packet that are not unpacked yet. */
static inline size_t madi_rx_left(const madi_rx_msg_t *m)
{
    return madi_foreign_between(m->cur, m->end);
}

#endif
