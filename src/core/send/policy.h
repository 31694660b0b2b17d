/* SPDX-License-Identifier: BSD-3-Clause */

/* All thresholds of sending, and the path of a block: how its bytes get from the sender's memory into the receiver's.
 *
 *   copy     copied into the message's stage buffer: cheaper than a gather entry for a short block
 *   packet   gathered into the message's packet; the receiver copies it out of the library's memory
 *   write    the receive is posted, and the sender writes to its memory
 *   read     announced; the receiver reads the sender's memory
 *   share    announced; each side moves a part of the block, where that has proved faster (share.h); else grant.  The
 *            sender needs the receiver's answer first, so shorter blocks are read, and all blocks if the sender is engaged
 *   grant    announced; sent in pieces after the receiver has granted it
 *
 * madi_path_choose and madi_path_direct_min are pure: they read their arguments and nothing else.  When a driver opens, it
 * computes the limits in its caps from the costs of its links.  Each block is then compared with these limits. */
#ifndef MADI_PATH_H
#define MADI_PATH_H

#include "base/costs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Thresholds ------------------------------------------------------------------------------------------------
 *
 * All thresholds by which the library decides how bytes are sent; files that need one include this header.  In quotes:
 * the entry of doc/rationale.md with the measurement.  "Entry as above": the entry that was quoted last.  "No entry":
 * no entry has a measurement.  Knobs (MAD_CREDIT_FLOOR, MAD_CREDIT_BUDGET, MAD_SHM_READ_MIN, MAD_FORWARD_FRAGMENT) are
 * in base/knobs.h.  Runtimes that use the public interface have their own tables: mpi/device/thresholds.h,
 * mpi/openmpi/thresholds.h, and mpi/ofi/ofi.h.
 */

/* Packing: the bytes of a block are copied as it is packed, or stay where they are. */

/* bytes of the stage buffer in a message: one block of MADI_COPY_SHORT and some short ones (rationale.md, "How are
 * bytes copied?") */
#define MADI_STAGE 2560
#define MADI_COPY_INLINE 64 /* longest block, in bytes, that the shortest path copies: one cache line.  No entry */
#define MADI_COPY_MAX 192   /* longest CHEAPER block, in bytes, that is copied: cheaper than a gather entry.  No entry */

/* bytes: like MADI_COPY_MAX, while the whole message is in the stage buffer and the block is not its tail
 * (rationale.md, "How are bytes copied?") */
#define MADI_COPY_SHORT 2048

/* bytes: shortest last block of a plain message that stays where it is, as the tail (rationale.md, "Which last block is
 * not copied?") */
#define MADI_TAIL_MIN 512
#define MADI_TAIL_MAX 65536 /* longest tail, in bytes: an upper bound, above all lengths from which blocks are announced */

/* bytes: longest block that is copied out of a plain message without a lock: an upper bound, above every packet_max.
 * No entry */
#define MADI_PLAIN_MAX 65536
#define MADI_GATHER 16 /* pieces of a packet; each driver takes 16 (caps.gather_max).  No entry in rationale.md */

/* largest number of segments of a block that are gathered where they lie; more segments are copied together
 * (rationale.md, "What do the rarer forms of a block cost?") */
#define MADI_SEGMENTS_MAX 8
#define MADI_SEGMENT_MIN 1024 /* bytes: least average length of segments that are gathered.  Entry: that of the row above */

/* One packet. */

/* bytes of a packet that are collected on the stack: header, descriptors, short blocks.  The limit bounds the stack.
 * No entry */
#define MADI_PACKET_OWN 4096

/* bytes of a packet with the beginning of a continued block: short, so that it is cheap to copy and read at once
 * (rationale.md, "Must a block wait for a grant where there is credit?") */
#define MADI_BEGUN_MAX 512

/* bytes of credit that only announcements use, enough for 128 of them (rationale.md, "What may use the last credit of a
 * connection?") */
#define MADI_EAGER_LEFT 16384

/* n: if rdv_eager is less than an n-th of a block, and the sender has a request, no byte is sent ahead of the grant.
 * See rationale.md, "Can the wait for the grant be used?" */
#define MADI_EAGER_PART 16

/* bytes: longest credit window of a connection (rationale.md, "Must a block wait for a grant where there is credit?") */
#define MADI_CREDIT_WINDOW_MAX 1048576

/* Long blocks. */
#define MADI_PATH_LEAST ((size_t)4096)   /* bytes: least limit that is computed from measured costs (madi_path_direct_min) */
#define MADI_PATH_STEP ((size_t)256)     /* bytes: step between limits that are computed.  No entry */
#define MADI_PATH_MOST ((size_t)1 << 20) /* bytes: greatest limit that may follow from measured costs, which may be wrong */

/* ns of both sides' own work for an announced block (rationale.md, "What is known of the host's costs?") */
#define MADI_ANNOUNCE_NS 200

/* bytes that are written or read directly while a lock is held, which takes about 20 us (rationale.md, "How is the
 * quicker way found?") */
#define MADI_STRIDE ((uint64_t)256 << 10)

/* bytes: longest piece that is copied before its grant; the copy of a longer one would not be ready when the grant
 * arrives (rationale.md, "Can the wait for the grant be used?") */
#define MADI_PREPARED_MAX 16384

/* least length in bytes of a posted receive that is advertised: for shorter blocks not even the other conditions are
 * tested.  No entry */
#define MADI_OFFER_MIN 1024

/* least length in bytes of a posted receive that needs the progress thread, since such a receive may need a grant
 * (rationale.md, "What makes progress while the program computes?") */
#define MADI_POSTED_ASYNC_MIN 8192
#define MADI_BLOCK_PS 300           /* ps a byte: twice the time of a block on a slow host.  No entry */
#define MADI_BLOCK_WAIT_MAX 4000000 /* ns: longest time for which a thread spins for a block in flight.  No entry */

/* Shared blocks: which method is faster is learned (share.h; rationale.md, "How is the quicker way found?") */
#define MADI_SHARE_MIN_BITS 15 /* log2 of MADI_SHARE_MIN: the first class */
/* bytes: shortest block that is shared; half of it is copied in the time of a round trip */
#define MADI_SHARE_MIN ((size_t)1 << MADI_SHARE_MIN_BITS)
#define MADI_SHARE_CLASSES 10 /* classes of lengths, by powers of two; the last one has all longer blocks */
#define MADI_SHARE_KEPT 5     /* number of durations that are kept for each method; their median is used */
#define MADI_SHARE_TRY_BYTES (UINT64_C(4) << 20)        /* bytes of a trial, so that it uses the whole ring at least once */
#define MADI_SHARE_TRY_BLOCKS_MIN (MADI_SHARE_KEPT + 5) /* least number of blocks of a trial */
#define MADI_SHARE_TRY_BLOCKS_MAX 128                   /* greatest number of blocks of a trial */
#define MADI_SHARE_LONG ((uint64_t)1 << 20)             /* bytes: from here on, MADI_SHARE_LEAD_LONG is used */
/* n: a block is shared only if that takes less than the other method by an n-th */
#define MADI_SHARE_LEAD 4
#define MADI_WAY_LEAD 8 /* likewise for a block that is announced instead of put into a packet */
#define MADI_SHARE_LEAD_LONG 16
/* n: at first, trials of the slower method take a fraction 2^-n of the time */
#define MADI_SHARE_PART_FIRST 2
#define MADI_SHARE_PART_LAST 6   /* n: like MADI_SHARE_PART_FIRST, once the choice has proved reliable */
#define MADI_SHARE_TIMED_EVERY 8 /* n: one block in n is timed, while no trial runs */

/* log2 of a factor: the slower method is tried more rarely, but at most by this factor, since it may have seemed slower
 * in few trials for other reasons */
#define MADI_SHARE_SLOWER_BITS 4
/* n: the sender of a timed packet waits for the receiver's last copy, at most n times as long as its own copies have taken.
 * See rationale.md, "Is a block announced where messages alternate?" */
#define MADI_WAY_PATIENCE 2
#define MADI_SHARE_POLL_NS 5000 /* ns: a sender whose first call for progress comes later has computed meanwhile */

/* Limits of the links of each network that the library has (caps in driver.h), in bytes. */
#define MADI_SELF_PACKET_MAX (16 * 1024) /* a sixteenth of the ring.  No entry */
#define MADI_SELF_CHUNK_MAX (64 * 1024)  /* a quarter of the ring.  No entry */
/* half a packet: a granted block is copied once, and a block in a packet twice. No entry */
#define MADI_SELF_GRANT_MIN (8 * 1024)
#define MADI_SHM_GRANT_MIN ((size_t)32 * 1024) /* rationale.md, "From which length on is a block granted?" */

#define MADI_SHM_CHUNK_MIN (8 * 1024) /* shortest piece of a granted block (rationale.md, "Where do 64 KiB go?") */

/* How bodies are moved through shared memory, by the kind of processor (rationale.md, "How are bytes copied into shared
 * memory?", "What is different on Intel's processors?").  All in bytes. */
typedef struct madi_put {
    size_t long_min;  /* shorter bodies: lines fetched, then copied by a loop; others: copied by madi_copy_across */
    size_t begun_min; /* shortest body that is written in pieces, after its cell was published */
    size_t piece_min; /* shortest piece of a body below long_min */
    size_t read_min;  /* limit of direct reads where the costs of the host are not known */
} madi_put_t;
#define MADI_SHM_PIECES \
    4 /* number of pieces of such a body (rationale.md, "Can a body be copied in and out at the same time?") */
#define MADI_SHM_PIECE_MIN 4096  /* shortest piece of a body from long_min on.  Entry as above */
#define MADI_SHM_PIECE_MAX 16384 /* longest piece.  Entry as above */
/* blocks of this length and more in their message's packet, and pieces of shorter blocks than MADI_SHM_PUT_PIECES, are copied
 * by madi_copy_bulk if both sides could move the block directly instead.  Entry as above */
#define MADI_SHM_PUT_BULK ((size_t)128 << 10)
#define MADI_SHM_PUT_PIECES ((size_t)1 << 20)
#define MADI_TCP_PACKET_MAX ((size_t)32 << 10) /* longest packet: rationale.md, "How long are packets over TCP?" */

/* from this length on a second read is faster than a copy (rationale.md, "Must a block wait for a grant where there is
 * credit?") */
#define MADI_TCP_CONT_MIN ((size_t)30 << 10)

/* from this length on a round trip is faster than sending within the credit (rationale.md, "From which length on is a
 * grant faster over TCP?"); _HOST: between processes of a host where sending 256 KiB at once has proved faster */
#define MADI_TCP_GRANT_MIN ((size_t)104 << 10)
#define MADI_TCP_GRANT_MIN_HOST ((size_t)768 << 10)
#define MADI_TCP_EAGER ((size_t)16 << 10) /* bytes sent ahead of a grant: rationale.md, "How long are packets over TCP?" */
#define MADI_TCP_CHUNK_MAX ((size_t)8 << 20) /* longest packet with an op: rationale.md, "Which buffers and calls?" */

/* from this length on, the provider fetches a body by itself (ofi_rxm: 16 KiB).  See rationale.md, "How does the driver ofi
 * use libfabric?" */
#define MADI_OFI_CONT_MIN ((size_t)15 << 10)
/* from this length on a block waits for a grant.  Not measured: the first limit of TCP */
#define MADI_OFI_GRANT_MIN ((size_t)768 << 10)
#define MADI_OFI_EAGER ((size_t)0)
#define MADI_OFI_CHUNK_MAX ((size_t)8 << 20)

/* from this length on a body is a message of MPI's own.  See rationale.md, "How does the driver mpi use MPI?" */
#define MADI_MPI_CONT_MIN ((size_t)31 << 10)
#define MADI_MPI_GRANT_MIN ((size_t)768 << 10)
#define MADI_MPI_EAGER ((size_t)0)
#define MADI_MPI_CHUNK_MAX ((size_t)8 << 20)

/* from this length on UCX's rendezvous carries a block (rationale.md, "From which length on is UCX's rendezvous used?") */
#define MADI_UCX_CONT_MIN ((size_t)31 << 10)
/* from this length on a block waits for a grant: 128 KiB to 2 MiB make no difference (rationale.md, the same entry) */
#define MADI_UCX_GRANT_MIN ((size_t)768 << 10)
#define MADI_UCX_EAGER ((size_t)0)
#define MADI_UCX_CHUNK_MAX ((size_t)8 << 20)

/* verbs: not measured, since the devices at hand are emulated */
#define MADI_VERBS_CONT_MIN ((size_t)7 << 10)
#define MADI_VERBS_GRANT_MIN ((size_t)256 << 10)
#define MADI_VERBS_EAGER ((size_t)0)
#define MADI_VERBS_CHUNK_MAX ((size_t)8 << 20)

/* eth: rationale.md, "Which rings does eth use?" */
#define MADI_ETH_CONT_MIN ((size_t)31 << 10)
#define MADI_ETH_GRANT_MIN ((size_t)256 << 10)
#define MADI_ETH_EAGER ((size_t)0)
#define MADI_ETH_CHUNK_MAX ((size_t)8 << 20)

/* longest gathered packet that is copied, which is cheaper than a gather list.  No entry */
#define MADI_TCP_SMALL 512

/* shorter blocks may travel with their message, without a grant (rationale.md, "Which blocks go through gateways
 * without a grant?") */
#define MADI_VIRTUAL_GRANT_MIN ((size_t)192 << 10)
#define MADI_VIRTUAL_EAGER ((size_t)16 << 10) /* bytes sent ahead of a block's grant.  Entry: that of the row above */

/* ---- The choice -------------------------------------------------------------------------------------------------- */

typedef enum madi_path {
    MADI_PATH_COPY,
    MADI_PATH_PACKET,
    MADI_PATH_WRITE,
    MADI_PATH_READ,
    MADI_PATH_SHARE,
    MADI_PATH_GRANT,
    MADI_PATHS /* number of paths */
} madi_path_t;

/* The sender's behaviour until the block has left. */
typedef enum madi_path_sender {
    MADI_SENDER_WAITS,   /* the sender waits in a call that blocks */
    MADI_SENDER_POLLS,   /* the sender has a request, and calls for progress all the time */
    MADI_SENDER_COMPUTES /* the sender has a request, and may not call for progress for a long time */
} madi_path_sender_t;

typedef struct madi_path_block {
    uint64_t len;    /* bytes */
    uint64_t room;   /* length in bytes of the longest block that still fits into the message's packet */
    bool contiguous; /* false if the block lies in several segments */
    bool held;       /* LATER, in a message that has not ended: the block's bytes may still change */
    bool direct;     /* the two processes reach each other's memory */
    bool posted;     /* the receive is posted, and its address was offered to the sender */
    /* messages and answers alternate: the receiver waits for this message, and nothing follows the message, so both sides
     * copy a block in a packet at the same time */
    bool answers;
    bool alone; /* nothing else is in flight between the two processes, and the message has no other long block */
    /* the other side has no time for a part of the block: it receives one from this side at the same time, or the processes
     * share cores */
    bool engaged;
    madi_path_sender_t sender;
} madi_path_block_t;

/* Lengths in bytes from which on a block is announced, because that is faster than putting it into a packet. */
typedef struct madi_path_limits {
    size_t grant_min;  /* length from which a block is granted and then sent */
    size_t direct_min; /* like grant_min, for a sender that answers and then waits, where the two processes reach each
                        * other's memory; 0: grant_min applies.  (In a stream both sides copy at the same time.) */
    size_t answer_min; /* like direct_min, but where the two processes do not reach each other's memory */
} madi_path_limits_t;

madi_path_t madi_path_choose(const madi_path_block_t *block, const madi_path_limits_t *limits);

/* True if madi_path_choose puts every block of this length into a packet, provided that the block fits and is not held. */
static inline bool madi_path_is_packet(size_t len, const madi_path_limits_t *limits)
{
    return len < limits->grant_min && (!limits->direct_min || len < limits->direct_min) &&
           (!limits->answer_min || len < limits->answer_min);
}

const char *madi_path_name(madi_path_t path);

/* Return the limit direct_min for these costs, from MADI_PATH_LEAST to MADI_PATH_MOST: the length from which on a read or
 * a share is faster than a packet. */
size_t madi_path_direct_min(const madi_costs_t *costs, const madi_put_t *put);

extern const madi_put_t madi_put_intel, madi_put_other;
/* Return the one of them for this host's processor. */
const madi_put_t *madi_put_of_host(void);

/* Return the length of the pieces in which a body is written, for a body of at least put->begun_min bytes. */
size_t madi_put_piece(const madi_put_t *put, size_t len);

/* Return the length from which on a block over TCP within this host waits for a grant. */
size_t madi_path_tcp_grant_min(const madi_costs_t *costs);

/* Return for how long (ns) a thread spins that waits for len bytes in flight: twice as long as these bytes take on a
 * slow host, but 4 ms at most.  To sleep and to be woken costs more than the rest of a block. */
int64_t madi_path_wait_ns(uint64_t len);

#endif
