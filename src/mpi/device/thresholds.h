/* SPDX-License-Identifier: BSD-3-Clause */
/* All lengths and bounds of the matching device, for MPI libraries above it too.  Lengths and bounds of the library itself
 * are in core/send/policy.h, and times of waiting in engine/wait_policy.h.  Titles in quotation marks are entries of
 * doc/rationale.md with measurements. */
#ifndef MAD_DEVICE_THRESHOLDS_H
#define MAD_DEVICE_THRESHOLDS_H

#include <stddef.h>

/* How a payload is sent. */
/* bytes: fits into one packet of every network; longer payloads are blocks of their own */
#define MAD_DEV_PACKET_MAX ((size_t)32 << 10)
#define MAD_DEV_HEADERS 64 /* bytes of Madeleine's headers in a packet, at most */
/* bytes: longest payload that is sent without a grant, over networks and on oversubscribed cores.  The receiver copies it
 * out of the network's memory even if no receive has matched it.  Longer payloads stay with the sender. (rationale.md,
 * "Is a payload up to 64 KiB one block or several?") */
/* bytes: longest payload of one block that is copied before a receive has matched: copying a longer one costs more than
 * a grant. (rationale.md, "Where do messages of 32 to 64 KiB wait in shared memory?") */
#define MAD_DEV_LOAD_MAX ((size_t)64 << 10)
#define MAD_DEV_FETCH_MAX ((size_t)32 << 10)
#define MAD_DEV_PIECES 8 /* maximum number of pieces of a buffer */

/* Memory that a sender may make a receiver keep (rationale.md, "How does the layer match, complete and limit?") */
/* bytes: maximum memory for the envelope of a message that no receive has matched */
#define MAD_DEV_ENVELOPE 896
#define MAD_DEV_INSIDE 32                  /* bytes: longest payload that is kept in the memory of such an envelope */
#define MAD_DEV_ENVELOPE_COST 384          /* bytes that an envelope counts for in windows, in addition to its payload */
#define MAD_DEV_WINDOW ((size_t)1 << 20)   /* bytes that each sender may send without a grant */
#define MAD_DEV_WINDOWS ((size_t)32 << 20) /* bytes by which the windows of all senders together may grow */
/* bytes: maximum total of a peer's messages that wait behind one whose envelope has not arrived completely.  Each counts
 * MAD_DEV_ENVELOPE_COST in addition, and MAD_DEV_ORDERED if its own envelope has not arrived completely. */
#define MAD_DEV_BEHIND_MAX ((size_t)32 << 20)
/* maximum number of bytes of pending buffered sends that the device keeps in its memory */
#define MAD_DEV_BUFFERED_MAX ((size_t)16 << 20)

/* One call. */
#define MAD_DEV_SHOWN 16                /* maximum number of messages that are opened at a time */
#define MAD_DEV_SINK ((size_t)64 << 10) /* bytes that are discarded at a time of a payload longer than its receive */
#define MAD_DEV_SINKS ((size_t)1 << 24) /* maximum number of discarded pieces of a payload: a terabyte in total */

/* Accesses to memory of peers. */
#define MAD_DEV_ORDERED 4096    /* bytes: longest access that is carried out in the order of the requests */
#define MAD_DEV_ATOMIC_MAX 4096 /* bytes: maximum total of the targets of an atomic operation */
/* maximum number of accesses to one peer that are under way */
#define MAD_DEV_ACCESSES_MAX 4096
/* maximum number of accesses by one peer that are under way here: long ones, and answers that have not left.  No honest
 * peer has more than MAD_DEV_ACCESSES_MAX. */
#define MAD_DEV_SERVED_MAX 8192

#endif
