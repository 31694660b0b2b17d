/* SPDX-License-Identifier: BSD-3-Clause */
/* The path of a block: how its bytes get from the sender's memory into the receiver's.
 *
 *   copy     copied into the message's stage buffer: cheaper than a gather entry for a short block
 *   packet   gathered into the message's packet; the receiver copies it out of the library's memory
 *   write    the receive is posted, and the sender writes to its memory
 *   read     announced; the receiver reads the sender's memory
 *   share    announced; each side moves a part of it, where that has proved faster (share.h), else grant.  The sender
 *            needs the receiver's answer first, so shorter blocks are read
 *   grant    announced; sent in pieces after the receiver has granted it
 *
 * madi_path_choose and madi_path_limits are pure: they read their arguments and nothing else.  A driver makes the limits in
 * its caps of what its links cost when it opens; each block is then compared with those. */
#ifndef MADI_PATH_H
#define MADI_PATH_H

#include "base/costs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum madi_path {
    MADI_PATH_COPY,
    MADI_PATH_PACKET,
    MADI_PATH_WRITE,
    MADI_PATH_READ,
    MADI_PATH_SHARE,
    MADI_PATH_GRANT,
    MADI_PATHS /* one more than the last */
} madi_path_t;

/* The sender's behaviour until the block has left. */
typedef enum madi_path_sender {
    MADI_SENDER_WAITS,   /* in a call that blocks */
    MADI_SENDER_POLLS,   /* has a request, and calls for progress all the time */
    MADI_SENDER_COMPUTES /* has a request, and may not call for progress for long */
} madi_path_sender_t;

typedef struct madi_path_block {
    uint64_t len;    /* bytes */
    uint64_t room;   /* bytes: the longest block that still fits into the message's packet */
    bool contiguous; /* false: in several segments */
    bool held;       /* LATER, of a message that has not ended: its bytes may still change */
    bool direct;     /* the two processes reach each other's memory */
    bool posted;     /* the receive is posted, and its address was offered to the sender */
    bool answers;    /* messages and answers alternate: the receiver waits for this one, and nothing follows it.  Then the
                      * two sides copy a block in a packet at the same time */
    bool alone;      /* nothing else is in flight between the two, and it is the message's only long block */
    madi_path_sender_t sender;
} madi_path_block_t;

/* Lengths in bytes from which on it is faster to announce a block than to put it into a packet. */
typedef struct madi_path_limits {
    size_t grant_min;  /* for blocks that are granted and sent */
    size_t direct_min; /* of a sender that answers and waits, where the two processes reach each other's memory; 0: like
                        * grant_min.  In a stream the two sides copy different messages at the same time */
    size_t answer_min; /* likewise where they do not */
} madi_path_limits_t;

madi_path_t madi_path_choose(const madi_path_block_t *block, const madi_path_limits_t *limits);

const char *madi_path_name(madi_path_t path);

/* direct_min by the costs, from MADI_PATH_LEAST to MADI_PATH_MOST: the length from which on a read or a share is faster than
 * a packet. */
size_t madi_path_direct_min(const madi_costs_t *costs);
#define MADI_PATH_LEAST ((size_t)4096)
#define MADI_PATH_MOST ((size_t)1 << 20)

/* Bytes from which on a short body is faster in memory of its own than in the lines of a ring of cache lines, which the receiver
 * fetches ahead: longer where a copy between the cores is expensive.  0: the costs were not measured. */
size_t madi_path_run_min(const madi_costs_t *costs);

/* Nanoseconds for which a thread that waits for so many bytes under way spins: twice what they take on a slow host, but 4 ms at
 * most.  Sleeping and being woken costs more than the rest of a block. */
int64_t madi_path_wait_ns(uint64_t len);

#endif
