/* SPDX-License-Identifier: BSD-3-Clause */
/* Short packets, copied from the driver, that are whole messages.  Under session->lock. */
#ifndef MADI_SHORT_H
#define MADI_SHORT_H

#include "core/conn/credit.h"
#include "core/object/conn.h"
#include "core/wire/wire.h"

/* A short packet; the length in its header gives the number of valid bytes:
 *
 *   words[0]  type, flags, channel; above them the length     words[2]  the descriptor of the first block
 *   words[1]  the message's number; above it its cost         words[3]  the block, and on */
typedef struct madi_short {
    uint64_t words[MADI_PACKET_SHORT / sizeof(uint64_t)];
} madi_short_t;
static_assert(sizeof(madi_short_t) == MADI_PACKET_SHORT, "a short packet");
static_assert(offsetof(madi_wire_hdr_t, channel) == 2 && offsetof(madi_wire_hdr_t, length) == 4 &&
                  offsetof(madi_wire_hdr_t, aux) == 12 && sizeof(madi_wire_hdr_t) == 16,
              "which begins with its header");

#define MADI_SHORT_BLOCK (MADI_SHORT_MAX - MADI_WIRE_DESC_SIZE) /* bytes of the longest single block in a short packet */
#define MADI_SHORT_COST MADI_LINE                               /* credit bytes of every short packet */
static_assert(MADI_PACKET_SHORT <= MADI_SHORT_COST && MADI_LINE == 64, "madi_wire_cost rounds up to lines");

/* Return the first header word, with length 0, of a message in one packet. */
static inline uint64_t madi_short_header(const madi_conn_t *conn)
{
    return MADI_WIRE_MSG | (uint64_t)(MADI_WIRE_FIRST | MADI_WIRE_LAST | conn->flags) << 8 | (uint64_t)conn->remote << 16;
}

/* Return the number of credit bytes that the sender may still use. */
static inline int64_t madi_short_credits(const madi_conn_t *conn)
{
    return (int64_t)(conn->rx_limit - conn->rx_held - madi_credit_consumed(conn));
}

/* Receive short packets of a connection directly into its first posted receives, while each packet is a whole message and
 * fits.  Return the number of packets that were received. */
int madi_posted_take(madi_conn_t *conn, const madi_short_t *packets, int n);
/* Like madi_posted_take, but makes the messages ready to be opened. */
int madi_ready_take(madi_conn_t *conn, const madi_short_t *packets, int n);

/* Receive short packets of a connection into its posted receives, or make their messages ready if no receive is posted.
 * The first packet that needs the general path ends the batch. */
static inline int madi_short_take(madi_conn_t *conn, const madi_short_t *packets, int n)
{
    return conn->posted ? madi_posted_take(conn, packets, n) : madi_ready_take(conn, packets, n);
}

#endif
