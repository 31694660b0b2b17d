/* SPDX-License-Identifier: BSD-3-Clause */
/* All lengths and bounds of the matching device, for MPI libraries above it too.  Those of the library itself are in
 * core/send/policy.h, and times of waiting in engine/wait_policy.h.  Quoted: entries of doc/rationale.md with measurements. */
#ifndef MAD_DEVICE_THRESHOLDS_H
#define MAD_DEVICE_THRESHOLDS_H

#include <stddef.h>

/* How a payload is sent. */
#define MAD_DEV_PACKET_MAX ((size_t)32 << 10) /* bytes: packet of every network; longer payloads are blocks of their own */
#define MAD_DEV_HEADERS 64                    /* bytes of Madeleine's headers in a packet at most */
#define MAD_DEV_LOAD_MAX \
    ((size_t)64 << 10) /* bytes: longest payload that is sent before it is asked for, over networks and
                                               * on oversubscribed cores.  The receiver copies it out of the network's memory
                                               * though no receive has met it.  Longer ones stay with the sender.
                                               * "Is a payload up to 64 KiB one block or several?" */
#define MAD_DEV_FETCH_MAX \
    ((size_t)32 << 10)   /* bytes: longest payload of one block that is copied ahead: a copy of a longer
                                               * one costs more than asking.
                                               * "Where do messages of 32 to 64 KiB wait in shared memory?" */
#define MAD_DEV_PIECES 8 /* pieces of a buffer at most */

/* Memory that a sender may make a receiver keep.  "How does the layer match, complete and limit?" */
#define MAD_DEV_HEAD 896                        /* bytes: most memory of a message's head that no receive has met */
#define MAD_DEV_INSIDE 32                       /* bytes: longest payload that such a head holds itself */
#define MAD_DEV_HEAD_COST 384                   /* bytes that a head counts for, beside its payload, in windows */
#define MAD_DEV_WINDOW ((size_t)1 << 20)        /* bytes that each sender may send before it is asked for */
#define MAD_DEV_WINDOWS ((size_t)32 << 20)      /* bytes by which the windows of all senders may grow together */
#define MAD_DEV_BUFFERED_MAX ((size_t)16 << 20) /* bytes of buffered sends that wait in the device's memory */

/* One call. */
#define MAD_DEV_SHOWN 16                /* messages that are opened at once */
#define MAD_DEV_SINK ((size_t)64 << 10) /* bytes at a time of a payload that is longer than its receive ... */
#define MAD_DEV_SINKS ((size_t)1 << 24) /* ... and most times: a terabyte */

/* Accesses to memory of peers. */
#define MAD_DEV_ORDERED 4096    /* bytes: longest access that is carried out in the order of the requests */
#define MAD_DEV_ATOMIC_MAX 4096 /* bytes of all targets of an atomic operation */

#endif
