/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: packets over the MPI library of the process, by messages between two ranks.
 *
 *   mpi.c          the table; adapters
 *   mpi_lib.c      the MPI library, found and initialised; mpi_calls.h: its functions
 *   mpi_world.c    what all adapters of the process share: receives, progress
 *   mpi_link.c     links: their life
 *   mpi_frame.c    frames of the handshake
 *   mpi_send.c     outgoing packets
 *   mpi_body.c     bodies that MPI writes to their destination
 *   mpi_receive.c  incoming packets
 *   mpi_poll.c     when polling is worth a call, and sleep
 *
 * MPI has one endpoint for the process, its rank; sessions of one process share it: the world.  Messages of all kinds come
 * with one tag of MPI, to receives of any source that are posted beforehand; MPI keeps the messages of a sender in order.
 *
 *   packet of up to packet_max bytes     sender                              receiver
 *     a copied message                   -- tag, packet ---------------->    a posted buffer; copied, or lent
 *   longer packet, with an op
 *     a header, from a copy              -- tag, header, tag of MPI ---->    the core names the destination
 *     the body, from the program's       <- - - MPI's protocol - - - - ->    a receive with that tag of MPI
 *     memory; op->done, when MPI completes it
 *
 * Locks.  The world's lock `io` is held around each call of MPI, so MPI_THREAD_SERIALIZED is enough where the driver has
 * initialised MPI.  `io` is the last lock, and no upcall is made while it is held.  It also protects what sessions share. */
#ifndef MPI_DRIVER_H
#define MPI_DRIVER_H

#include "core/driver.h"
#include "drivers/fabric/control.h"
#include "drivers/fabric/order.h"
#include "drivers/fabric/poll.h"
#include "drivers/mpi/mpi_lib.h"

#define WORLD_PACKET_MAX ((size_t)32 << 10) /* bytes */
#define WORLD_GATHER 16
#define WORLD_SLOTS 4                     /* number of posted receives (rationale.md, "How does the driver mpi use MPI?") */
#define WORLD_COPIES 128                  /* maximum number of copied packets of a link in flight */
#define WORLD_CONTROLS 256                /* likewise, of copied packets and messages of the driver's own together */
#define WORLD_SINKS 64                    /* maximum number of bodies of one rank that are received only to be dropped */
#define WORLD_LENT_MAX 1024               /* maximum number of lent buffers; further packets are copied */
#define WORLD_WAIT_COPY ((size_t)8 << 10) /* bytes: packets that wait in a copy of their length, instead of their buffer */
/* Tags of MPI messages, below the least value (32767) that the standard allows for MPI_TAG_UB. */
#define WORLD_TAG 28004
#define WORLD_BODY_TAG 16384 /* the first of WORLD_BODY_TAGS consecutive tags, for bodies */
#define WORLD_BODY_TAGS 8192

typedef struct mpi_link mpi_link_t;
typedef struct mpi_adapter mpi_adapter_t;

/* Address of an adapter. */
typedef struct mpi_address {
    uint32_t rank, number; /* rank in MPI's world; number of the adapter in its process */
    uint64_t stamp;        /* random number of the process, by which ranks of different jobs are distinguished */
} mpi_address_t;
static_assert(sizeof(mpi_address_t) == 16, "address");

/* A place for a message. */
#define WORLD_TAG_SIZE sizeof(uint64_t)
typedef struct mpi_buffer {
    struct mpi_buffer *next; /* free list, or an adapter's arrivals */
    int source;
    bool is_copy;         /* true if this is a copy of a short packet that waits: `data` has only len bytes, and a line */
    size_t len;           /* bytes at data */
    fabric_early_t early; /* the message begins at early.tag; drivers/fabric/tag.h */
    char data[WORLD_PACKET_MAX];
} mpi_buffer_t;
static_assert(offsetof(mpi_buffer_t, data) == offsetof(mpi_buffer_t, early.tag) + WORLD_TAG_SIZE, "buffer");

/* Announcement of a packet whose body comes in a message of its own. */
typedef struct mpi_announced {
    madi_wire_hdr_t hdr;
    uint32_t body_tag;
} mpi_announced_t;
#define WORLD_ANNOUNCED (sizeof(madi_wire_hdr_t) + sizeof(uint32_t)) /* bytes of a mpi_announced_t in a message */

/* A body that MPI writes to its destination. */
typedef struct mpi_body {
    struct mpi_body *next; /* next in the world's list, or in the adapter's list of bodies that have ended */
    mpi_link_t *link;      /* NULL if the body is received only to be dropped, into `sink` */
    mpi_request_t request;
    int error;  /* of MPI */
    int source; /* rank of the sender */
    void *sink;
} mpi_body_t;

/* A copied message in flight. */
typedef struct mpi_copy {
    struct mpi_copy *next; /* next in the free list, or in the list of copies in flight */
    mpi_link_t *link;      /* NULL: none, or closed */
    mpi_request_t request;
    uint64_t tag; /* the message begins here */
    char data[WORLD_PACKET_MAX];
} mpi_copy_t;
static_assert(offsetof(mpi_copy_t, data) == offsetof(mpi_copy_t, tag) + WORLD_TAG_SIZE, "copy");

/* A body in flight. */
typedef struct mpi_flight {
    struct mpi_flight *next; /* next in the free list, in the world's list of flights in flight, or in the adapter's list of
                              * ended flights */
    mpi_link_t *link;        /* NULL if the link is closed; the op has then been reported */
    madi_op_t *op;
    mpi_request_t request;
    int error;  /* of MPI */
    void *copy; /* copy of a body that was in pieces; NULL if the body is sent from the program's memory */
} mpi_flight_t;

/* State that the adapters of this process share.  Lock: io, except constants. */
typedef struct mpi_world {
    mpi_lib_t lib;
    madi_lock_t io;
    int rank, size;
    uint64_t stamp;
    bool is_open;     /* an adapter is there */
    atomic_int error; /* error with which MPI has failed, and is not called any more; 0 if none */
    uint32_t adapter_number;
    mpi_adapter_t *adapters;
    fabric_table_t links;
    uint16_t body_tag; /* of the next body */

    struct {
        mpi_buffer_t *buffer; /* NULL if out of memory */
        mpi_request_t request;
    } slots[WORLD_SLOTS];
    unsigned head, posted; /* head: index of the first posted slot; posted: number of posted slots */
    mpi_buffer_t *buffers; /* free */
    atomic_int lent;

    mpi_copy_t *copies, *sending, **sent_last; /* free copies; those in flight */
    mpi_flight_t *flights, *flying;            /* free flights; those in flight */
    mpi_body_t *bodies;                        /* being received */
} mpi_world_t;

struct mpi_adapter {
    fabric_adapter_t base;
    mpi_world_t *world; /* NULL: not open */
    mpi_adapter_t *next;
    mpi_address_t address;
    /* under io */
    mpi_buffer_t *first_arrived, **arrived; /* list of messages in their order; its end */
    mpi_flight_t *landed;                   /* flights that have ended */
    mpi_body_t *ended;                      /* bodies that have ended */
    atomic_int listed;                      /* number of entries in the three lists above; read without a lock */
};

struct mpi_link {
    fabric_link_t base; /* its index is in the world's table; base.failed: of MPI; base.receiving: mpi_body_t */
    mpi_address_t peer;
    int n_copies;         /* copies in flight; under the lock io */
    atomic_bool too_long; /* true if the peer has sent a message that is longer than the receives */
};

static inline mpi_adapter_t *mpi_of(const mpi_link_t *l)
{
    return (mpi_adapter_t *)l->base.link.adapter;
}
/* Return the link to which a message with this tag belongs; NULL if there is none any more.  Under the lock io. */
static inline mpi_link_t *mpi_link_of(const mpi_world_t *w, uint64_t tag)
{
    return (mpi_link_t *)fabric_link_at(&w->links, tag);
}

/* mpi_world.c */
/* Add an adapter to the world; the first one opens MPI and posts receives.  On failure return false, and write the
 * reason. */
bool mpi_world_enter(mpi_adapter_t *a, char *reason);
/* Remove an adapter from the world; the last one cancels the receives.  Does nothing for an adapter that was not added. */
void mpi_world_leave(mpi_adapter_t *a);
/* Handle messages and requests of all adapters.  Return the number of events. */
int mpi_progress(mpi_adapter_t *poller);
/* Return the next message, in its slot; NULL if there is none.  Under the lock io. */
mpi_buffer_t *mpi_slot_look(mpi_world_t *w);
void mpi_slot_free(mpi_world_t *w);            /* free the slot, whose message has been copied.  Under the lock io */
mpi_buffer_t *mpi_slot_detach(mpi_world_t *w); /* take the buffer out of its slot; the caller owns the buffer.  Under the
                                                * lock io */
/* List the message with the adapter to which it belongs, and wake its session if that is not the poller.  Under the lock
 * io. */
void mpi_slot_route(mpi_world_t *w, const mpi_adapter_t *poller);
mpi_buffer_t *mpi_arrived_take(mpi_adapter_t *a);     /* the next one; NULL: none */
void mpi_buffer_put(mpi_world_t *w, mpi_buffer_t *b); /* free a copy, or keep a buffer for further messages */
/* Return what a packet may wait in: its buffer, or if the packet is short a copy; the buffer is then put back. */
mpi_buffer_t *mpi_buffer_keep(mpi_world_t *w, mpi_buffer_t *b);
/* Handle that MPI has failed: the links of all adapters break.  Under the lock io. */
void mpi_world_fail(mpi_world_t *w, int error);
static inline bool mpi_world_works(const mpi_world_t *w)
{
    return MADI_LIKELY(!w->error) && (MADI_LIKELY(!w->lib.main_only) || mpi_lib_may_call(&w->lib));
}

/* mpi_link.c; as driver.h says */
extern const fabric_ops_t mpi_ops;
void mpi_link_close(madi_link_t *link);
void mpi_link_fini(madi_link_t *link);
/* mpi_send.c */
madi_sent_t mpi_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
bool mpi_send_short(madi_link_t *link, const void *packet, size_t total);
/* Send a message of up to WORLD_PACKET_MAX bytes in pieces, which may be reused after the call.  l: the link that counts the
 * message; NULL for a frame of the handshake, which is never refused for lack of copies.  Return MADI_SENT, or
 * MADI_AGAIN with *error: MPI's error, or 0. */
madi_sent_t mpi_message_send(mpi_world_t *w, int rank, uint64_t tag, const struct iovec *vec, int n, mpi_link_t *l,
                             int *error);
bool mpi_control_send(fabric_link_t *link, fabric_what_t what, uint32_t number); /* as fabric_ops_t says */
int mpi_sends_test(mpi_world_t *w);     /* account for sends that have ended; returns their number.  Under io */
bool mpi_sends_remain(mpi_world_t *w);  /* true if copied messages are in flight, and MPI works */
int mpi_flights_land(mpi_adapter_t *a); /* report flights that have ended; return their number */
bool mpi_flights_exist(mpi_link_t *l);
/* Report all flights of the link as ended, although MPI has not ended them.  The link no longer counts its copies. */
void mpi_sends_forget(mpi_link_t *l);

/* mpi_body.c */
void mpi_body_begin(mpi_link_t *l, int source, uint32_t tag);                /* begin to receive the body of the packet
                                                                              * l->hdr at l->rx.base */
void mpi_body_discard(mpi_world_t *w, int source, uint32_t tag, size_t len); /* receive a body only to drop it.  Under the
                                                                              * lock io */
int mpi_bodies_test(mpi_world_t *w);   /* find the bodies that have ended; return their number.  Under the lock io */
int mpi_bodies_land(mpi_adapter_t *a); /* deliver bodies that are complete; return their number */
void mpi_body_cancel(mpi_link_t *l);   /* cancel the receive of the link's body, which then ends soon unless its data already
                                        * arrive */
void mpi_body_forget(mpi_link_t *l);   /* at the link's end */

/* mpi_receive.c */
void mpi_packet_handle(mpi_adapter_t *a, mpi_buffer_t *b);
/* Return the link of a packet with this tag if it is the adapter's, and the packet may be delivered now; else NULL.  Under
 * the lock io. */
static inline mpi_link_t *mpi_turn(const mpi_adapter_t *a, uint64_t tag)
{
    mpi_link_t *l = (mpi_link_t *)fabric_link_in_turn(&a->world->links, tag, false);
    return l && mpi_of(l) == a ? l : NULL;
}
/* Read the announcement of a packet.  Return false if the message announces no packet. */
bool mpi_announced_read(const mpi_buffer_t *b, mpi_announced_t *announced);
void mpi_early_run(fabric_link_t *link); /* as fabric_ops_t says */
void mpi_receive_forget(mpi_link_t *l);
void mpi_slot_put(madi_link_t *link, madi_foreign_t loan); /* as driver.h says */

/* mpi_poll.c */
int mpi_poll(madi_adapter_t *adapter, int budget);
madi_link_t *mpi_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
/* As fabric_ops_t says. */
int mpi_drain(fabric_adapter_t *adapter);
bool mpi_tick(fabric_adapter_t *adapter);
/* Wait until MPI no longer uses memory for the link, but only for a limited time.  Makes no upcalls. */
void mpi_link_await(mpi_link_t *l);
bool mpi_arm(madi_adapter_t *adapter);
void mpi_disarm(madi_adapter_t *adapter);

/* mpi_frame.c; as driver.h says */
bool mpi_frame_send(madi_link_t *link, const void *frame, size_t len);
bool mpi_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len);
void mpi_frame_arrived(mpi_adapter_t *a, const mpi_buffer_t *b);
/* Return the adapter to which a frame is addressed; NULL if there is none; the caller then notifies the sender.  Under the
 * lock io. */
mpi_adapter_t *mpi_frame_adapter(mpi_world_t *w, const mpi_buffer_t *b);

#endif
