/* SPDX-License-Identifier: BSD-3-Clause */
/* All lengths and bounds of the component.  Lengths and bounds of the library itself are in core/send/policy.h, and times of
 * waiting in engine/wait_policy.h.  Titles in quotation marks are entries of doc/rationale.md with measurements. */
#ifndef MAD_BTL_THRESHOLDS_H
#define MAD_BTL_THRESHOLDS_H

#include <stddef.h>

/* Fragments. */
#define MAD_BTL_PACKET_MAX ((size_t)32 * 1024) /* bytes: longest packet of every network; a fragment fits into it */
#define MAD_BTL_HEADERS 64                     /* bytes of Madeleine's headers and the tag in a packet, at most */
/* bytes, with Open MPI's header: default of btl_mad_network_eager_limit.  A longer message is offered, which saves a copy */
#define MAD_BTL_NETWORK_EAGER (64 * 1024 + 256)
#define MAD_BTL_NETWORK_EAGER_MAX ((size_t)1 << 20) /* bytes: maximum value of that parameter */
#define MAD_BTL_FRAGMENT_MAX ((size_t)2 << 20)      /* bytes: longest fragment of several blocks that is accepted */
#define MAD_BTL_RESERVE 256                         /* bytes that Open MPI puts before data sent in place, at most */
#define MAD_BTL_SMALL 1024                          /* bytes: longest data that are packed on the stack */
/* fragments queued for a peer; beyond that Open MPI gets no further one, and keeps its data in requests of its own until
 * a fragment has left */
#define MAD_BTL_QUEUED_MAX 1024
#define MAD_BTL_BUDGET 16 /* fragments of one call */
/* incomplete fragments of one peer that are kept: twice as many as MAD_BTL_QUEUED_MAX permits the peer to send */
#define MAD_BTL_PARKED_MAX 2048

/* bytes: shortest put or get on a window during which all networks are polled */
#define MAD_BTL_WINDOW_LONG (32 * 1024)
#define MAD_BTL_WINDOW_HANDLE 72 /* bytes of a window's handle, which Open MPI sends to the other processes */

/* Long messages are offered or requested (get.c), or sent in fragments. */

/* bytes: shortest message that is offered; of a shorter one the receiver would have to keep most bytes */
#define MAD_BTL_OFFER_MIN (64 * 1024)
/* offers to one peer; beyond that the peer requests the memory */
#define MAD_BTL_OFFERS_MAX 4096
#define MAD_BTL_OFFERS_KEPT_MAX (2 * MAD_BTL_OFFERS_MAX) /* offers of one peer that are kept until a get takes them */
#define MAD_BTL_SHARED_MIN (64 * 1024) /* bytes: shortest message that is moved from memory to memory on one host */
/* bytes: like MAD_BTL_SHARED_MIN, on oversubscribed cores. (rationale.md, "When are long messages of Open MPI offered
 * by the sender?") */
#define MAD_BTL_CROWDED_MIN (512 * 1024)

#endif
