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
#define WORLD_SLOTS 4       /* posted receives.  rationale.md, "How does the driver mpi use MPI?" */
#define WORLD_COPIES 128    /* copied messages in flight, of links' packets */
#define WORLD_LENT_MAX 1024 /* lent buffers: further packets are copied */
/* Tags of MPI, below the least upper bound of the standard (32767). */
#define WORLD_TAG 28004
#define WORLD_BODY_TAG 16384 /* the first of WORLD_BODY_TAGS */
#define WORLD_BODY_TAGS 8192

typedef struct mpi_link mpi_link_t;
typedef struct mpi_adapter mpi_adapter_t;

/* Address of an adapter. */
typedef struct mpi_address {
    uint32_t rank, number; /* rank in MPI's world; number of the adapter in its process */
    uint64_t stamp;        /* random number of the process: ranks of other jobs have other ones */
} mpi_address_t;
static_assert(sizeof(mpi_address_t) == 16, "address");

/* A place for a message. */
#define WORLD_TAG_SIZE sizeof(uint64_t)
typedef struct mpi_buffer {
    struct mpi_buffer *next; /* free list, or an adapter's arrivals */
    int source;
    size_t len;           /* bytes at data */
    fabric_early_t early; /* the message begins at early.tag; drivers/fabric/tag.h */
    char data[WORLD_PACKET_MAX];
} mpi_buffer_t;
static_assert(offsetof(mpi_buffer_t, data) == offsetof(mpi_buffer_t, early.tag) + WORLD_TAG_SIZE, "buffer");

/* A packet whose body comes by itself. */
typedef struct mpi_announced {
    madi_wire_hdr_t hdr;
    uint32_t body_tag;
} mpi_announced_t;
#define WORLD_ANNOUNCED (sizeof(madi_wire_hdr_t) + sizeof(uint32_t)) /* bytes of that in a message */

/* A body that MPI writes to its destination. */
typedef struct mpi_body {
    struct mpi_body *next; /* the world's list, or the adapter's list of bodies that have ended */
    mpi_link_t *link;      /* NULL: nobody wants the body, and its memory is `sink` */
    mpi_request_t request;
    int error; /* of MPI */
    void *sink;
} mpi_body_t;

/* A copied message in flight. */
typedef struct mpi_copy {
    struct mpi_copy *next; /* free list, or list of those in flight */
    mpi_link_t *link;      /* NULL: none, or closed */
    mpi_request_t request;
    uint64_t tag; /* the message begins here */
    char data[WORLD_PACKET_MAX];
} mpi_copy_t;
static_assert(offsetof(mpi_copy_t, data) == offsetof(mpi_copy_t, tag) + WORLD_TAG_SIZE, "copy");

/* A body in flight. */
typedef struct mpi_flight {
    struct mpi_flight *next; /* free list, the world's list of those in flight, or the adapter's of those that have ended */
    mpi_link_t *link;        /* NULL: the link is closed, and the op was reported */
    madi_op_t *op;
    mpi_request_t request;
    int error;  /* of MPI */
    void *copy; /* a body that was in pieces; NULL: the program's memory */
} mpi_flight_t;

/* State that the adapters of this process share.  All under io, except constants. */
typedef struct mpi_world {
    mpi_lib_t lib;
    madi_lock_t io;
    int rank, size;
    uint64_t stamp;
    bool is_open;     /* an adapter is there */
    atomic_int error; /* not 0: MPI has failed with this error, and is not called any more */
    uint32_t adapter_number;
    mpi_adapter_t *adapters;
    fabric_table_t links;
    uint16_t body_tag; /* of the next body */

    struct {
        mpi_buffer_t *buffer; /* NULL: without memory */
        mpi_request_t request;
    } slots[WORLD_SLOTS];
    unsigned head, posted; /* the first posted slot; number of posted slots */
    mpi_buffer_t *buffers; /* free */
    atomic_int lent;

    mpi_copy_t *copies, *sending, **sent_last; /* free copies; those in flight */
    int n_copies;                              /* in flight, of links */
    mpi_flight_t *flights, *flying;            /* free flights; those in flight */
    mpi_body_t *bodies;                        /* being received */
} mpi_world_t;

struct mpi_adapter {
    fabric_adapter_t base;
    mpi_world_t *world; /* NULL: not open */
    mpi_adapter_t *next;
    mpi_address_t address;
    /* under io */
    mpi_buffer_t *first_arrived, **arrived; /* messages in their order; place for the next one */
    mpi_flight_t *landed;                   /* flights that have ended */
    mpi_body_t *ended;                      /* bodies that have ended */
    atomic_int listed;                      /* number of entries in these three lists; read without a lock */
};

struct mpi_link {
    fabric_link_t base; /* its index is in the world's table; base.failed: of MPI; base.receiving: mpi_body_t */
    mpi_address_t peer;
};

static inline mpi_adapter_t *mpi_of(const mpi_link_t *l)
{
    return (mpi_adapter_t *)l->base.link.adapter;
}
/* Return the link to which a message with this tag belongs; NULL if there is none any more.  Under io. */
static inline mpi_link_t *mpi_link_of(const mpi_world_t *w, uint64_t tag)
{
    return (mpi_link_t *)fabric_link_at(&w->links, tag);
}

/* mpi_world.c */
/* Enter an adapter; the first one opens MPI, and posts receives.  On failure return false, and write the reason. */
bool mpi_world_enter(mpi_adapter_t *a, char *reason);
/* End that; the last adapter cancels the receives.  Legal for an adapter that has not entered. */
void mpi_world_leave(mpi_adapter_t *a);
/* Handle messages and requests of all adapters.  Returns the number of events. */
int mpi_progress(mpi_adapter_t *poller);
/* Return the next message, in its slot; NULL if there is none.  Under io. */
mpi_buffer_t *mpi_slot_look(mpi_world_t *w);
void mpi_slot_free(mpi_world_t *w);            /* the message has been copied.  Under io */
mpi_buffer_t *mpi_slot_detach(mpi_world_t *w); /* the buffer is the caller's.  Under io */
/* List the message with the adapter to which it belongs, and wake its session if that is not the poller.  Under io. */
void mpi_slot_route(mpi_world_t *w, const mpi_adapter_t *poller);
mpi_buffer_t *mpi_arrived_take(mpi_adapter_t *a); /* the next one; NULL: none */
void mpi_buffer_put(mpi_world_t *w, mpi_buffer_t *b);
/* MPI has failed: the links of all adapters break.  Under io. */
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
/* Send a message of up to WORLD_PACKET_MAX bytes in pieces, which may be reused.  l: the link that counts it; NULL: one of the
 * driver's own, which is not refused.  Return MADI_SENT, or MADI_AGAIN with *error: 0, or MPI's. */
madi_sent_t mpi_message_send(mpi_world_t *w, int rank, uint64_t tag, const struct iovec *vec, int n, mpi_link_t *l,
                             int *error);
bool mpi_control_send(fabric_link_t *link, fabric_what_t what, uint32_t number); /* as fabric_ops_t says */
int mpi_sends_test(mpi_world_t *w);     /* account for sends that have ended; returns their number.  Under io */
bool mpi_sends_remain(mpi_world_t *w);  /* true if copied messages are in flight, and MPI works */
int mpi_flights_land(mpi_adapter_t *a); /* report flights that have ended; returns their number */
bool mpi_flights_exist(mpi_link_t *l);
/* Report all flights of the link, although MPI has not ended them; and forget that its copies are the link's. */
void mpi_sends_forget(mpi_link_t *l);

/* mpi_body.c */
void mpi_body_begin(mpi_link_t *l, int source, uint32_t tag);                /* receive the body of l->hdr to l->rx.base */
void mpi_body_discard(mpi_world_t *w, int source, uint32_t tag, size_t len); /* receive a body for nobody.  Under io */
int mpi_bodies_test(mpi_world_t *w);   /* find those that have ended; returns their number.  Under io */
int mpi_bodies_land(mpi_adapter_t *a); /* deliver bodies that are complete; returns their number */
void mpi_body_cancel(mpi_link_t *l);   /* so that it ends soon, unless it is coming */
void mpi_body_forget(mpi_link_t *l);   /* at the link's end */

/* mpi_receive.c */
void mpi_packet_handle(mpi_adapter_t *a, mpi_buffer_t *b);
/* Return the link of a packet with this tag if it is the adapter's, and the packet may be delivered now; else NULL.  Under
 * io. */
mpi_link_t *mpi_turn(const mpi_adapter_t *a, uint64_t tag);
/* Read the header of a packet whose body comes by itself.  Return false if the message is another one. */
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
/* Wait until MPI no longer uses memory for the link, without upcalls, or a while. */
void mpi_link_await(mpi_link_t *l);
bool mpi_arm(madi_adapter_t *adapter);
void mpi_disarm(madi_adapter_t *adapter);

/* mpi_frame.c; as driver.h says */
bool mpi_frame_send(madi_link_t *link, const void *frame, size_t len);
bool mpi_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len);
void mpi_frame_arrived(mpi_adapter_t *a, const mpi_buffer_t *b);
/* Return the adapter to which a frame is addressed; NULL if there is none: the sender is then notified.  Under io. */
mpi_adapter_t *mpi_frame_adapter(mpi_world_t *w, const mpi_buffer_t *b);

#endif
