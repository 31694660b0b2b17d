/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: packets over UCX, by active messages of UCP.
 *
 *   ucx.c          the table; adapters
 *   ucx_lib.c      the library libucp
 *   ucx_probe.c    which devices become adapters
 *   ucx_name.c     names of networks
 *   ucx_address.c  addresses, checked before UCX parses them
 *   ucx_peer.c     UCX's endpoints
 *   ucx_link.c     links: their life
 *   ucx_frame.c    frames of the handshake
 *   ucx_send.c     outgoing packets
 *   ucx_message.c  incoming messages, in UCX's callback
 *   ucx_receive.c  incoming packets, in their order
 *   ucx_body.c     bodies that UCX's rendezvous writes to their destination
 *   ucx_poll.c     progress, and when polling is worth a call
 *   ucx_wait.c     sleep
 *
 * An adapter is a device (an interface, a port, or this host's memory) with the transports that UCX_TLS selects for it.  It
 * has one context and one worker for all its links.
 *
 *   packet of up to packet_max bytes     sender                              receiver
 *     a copied message, eager            -- tag, packet ---------------->    kept by UCX, and lent; or copied
 *   longer packet, with an op
 *     from the program's memory          -- header: tag, packet's ------>    the core names the destination
 *                                        <- - - UCX's rendezvous - - - ->    body
 *     op->done, when UCX completes the request
 *
 * An eager message has no header of UCX: the tag precedes the packet in its data, so UCX has one piece to copy.
 *
 * UCX completes messages out of order (an eager one overtakes a rendezvous), so packets have numbers (drivers/fabric/tag.h),
 * and early ones wait.
 *
 * Locks.  The worker is opened with UCS_THREAD_MODE_SERIALIZED, and the driver's lock `io` is held around each call of UCX, by
 * any thread.  UCS_THREAD_MODE_MULTI would not do: many builds of UCX are without that mode, and UCX's own lock would be held
 * during the callbacks, in which the core's locks, which come first, could not be taken.  `io` is the last lock, and no upcall
 * is made while it is held.  Threads that send at the same time need no further lock.
 *
 * All callbacks of UCX come from ucp_worker_progress, which is called under the session's lock and io.  So either lock is
 * enough to read what the callbacks write.  All other state is under the session's lock, and that of sending under the
 * link's tx lock. */
#ifndef UCX_H
#define UCX_H

#include "core/driver.h"
#include "drivers/fabric/control.h"
#include "drivers/fabric/order.h"
#include "drivers/fabric/poll.h"
#include "drivers/ucx/ucx_address.h"
#include "drivers/ucx/ucx_lib.h"

#define UCX_PACKET_MAX ((size_t)32 << 10) /* bytes */
#define UCX_GATHER 16
#define UCX_COPIES 128    /* maximum number of copied packets of a link in flight */
#define UCX_CONTROLS 256  /* likewise, of copied packets and messages of the driver's own together */
#define UCX_SMALL 768     /* bytes of a message that is copied out of UCX's memory at once */
#define UCX_LENT_MAX 1024 /* maximum number of lent messages in UCX's memory; further messages are copied */
#define UCX_ENDED_MAX 256 /* maximum number of endpoints to strangers that are kept until the last answers have left */
#define UCX_TLS_MAX 128   /* bytes of a list of transports */
#define UCX_ADDRESS_MAX MADI_ADDR_MAX
#define UCX_FRAME_MAX MADI_FRAME_MAX
static_assert(UCX_FRAME_MAX + 1 + UCX_ADDRESS_MAX <= UCX_PACKET_MAX, "frame");
static_assert(UCX_SMALL >= MADI_TAKE_MAX + sizeof(madi_wire_hdr_t), "small");

typedef struct ucx_link ucx_link_t;
typedef struct ucx_adapter ucx_adapter_t;

/* A device of UCX, with its transports. */
typedef struct ucx_device {
    char name[MADI_NAME_MAX]; /* name of the adapter: "shm", or the device's name */
    char tls[UCX_TLS_MAX];    /* "posix,cma" */
    bool memory;              /* true if the device is the memory of this host */
} ucx_device_t;

/* Header of an active message whose data is a body that comes by rendezvous.  Other messages have no header: their data
 * begins with the tag. */
#define UCX_TAG_SIZE sizeof(uint64_t)
typedef struct ucx_head {
    uint64_t tag;
    madi_wire_hdr_t hdr;
} ucx_head_t;
static_assert(sizeof(ucx_head_t) == 24, "head");

/* A received message. */
typedef enum ucx_where {
    UCX_WHERE_SMALL, /* the bytes are in `small` */
    UCX_WHERE_COPY,  /* the bytes are in memory that was allocated for them */
    UCX_WHERE_LENT,  /* the bytes are in UCX's memory, perhaps shared with the peer */
    UCX_WHERE_BODY   /* the bytes are at the peer: data is UCX's descriptor */
} ucx_where_t;
typedef struct ucx_packet {
    fabric_early_t early;    /* early.tag is the tag of the received message */
    struct ucx_packet *next; /* next in the free list, or in the list of arrivals */
    ucx_where_t where;
    size_t len; /* number of bytes at `data`; of a body: its length */
    char *data;
    madi_wire_hdr_t hdr;                                   /* header of a body */
    _Alignas(MADI_LINE) char small[UCX_SMALL + MADI_LINE]; /* one line more, since a short body may be read beyond its end */
} ucx_packet_t;

/* A body that UCX writes to its destination. */
typedef struct ucx_body {
    struct ucx_body *next; /* next in the adapter's list of bodies that have ended */
    ucx_link_t *link;      /* NULL: the link is closed */
    bool ended;
    ucs_status_t status;
} ucx_body_t;

/* A copied message in flight. */
typedef struct ucx_copy {
    struct ucx_copy *next, *all; /* free list; list of all */
    ucx_adapter_t *adapter;
    ucx_link_t *link; /* NULL: none, or closed */
    ucp_request_param_t param;
    uint64_t tag; /* the message begins here */
    char data[UCX_PACKET_MAX];
} ucx_copy_t;
static_assert(offsetof(ucx_copy_t, data) == offsetof(ucx_copy_t, tag) + UCX_TAG_SIZE, "copy");

/* A packet with an op, whose body leaves from the memory of the operation's owner. */
typedef struct ucx_flight {
    struct ucx_flight *next; /* next in the list of free flights, of flights in flight, or of flights that have ended */
    ucx_adapter_t *adapter;
    ucx_link_t *link;
    madi_op_t *op;
    ucs_status_t status;
    ucx_head_t head;
    ucp_dt_iov_t piece[UCX_GATHER];
} ucx_flight_t;

/* An endpoint of UCX.  All links and sources with the same address share it. */
typedef struct ucx_peer {
    struct ucx_peer *next;
    ucp_ep_h ep;        /* NULL: closed */
    ucp_ep_h sends;     /* ep as long as nothing has failed on it; else NULL */
    ucs_status_t error; /* UCS_OK, or the reason why the endpoint cannot be used any more */
    int uses;
    bool source;   /* true if one of the uses is that of a source of frames */
    bool linked;   /* a link has used it */
    int64_t ended; /* ns: time when the last use ended, if no link has used the endpoint; 0 if it is in use */
    uint8_t len;
    unsigned char address[UCX_ADDRESS_MAX];
} ucx_peer_t;

struct ucx_adapter {
    fabric_adapter_t base;
    const ucx_lib_t *lib;
    ucx_device_t device;
    ucp_context_h context;
    ucp_worker_h worker; /* NULL: none */
    ucx_shape_t shape;   /* of base.address */
    ucx_peer_t *peers;   /* session's lock and io */

    madi_lock_t io;
    ucx_copy_t *copies, *all_copies; /* free copies; all copies; under the lock io */
    int n_copies;                    /* number of copies in use by packets; under the lock io */
    int n_unsent;                    /* number of copies that UCX has not completed; under the lock io */
    ucx_flight_t *flights, *flying;  /* free flights; flights in use; under the lock io */
    int closing;                     /* endpoints that are being closed */
    ucs_status_t close_error;        /* status of an endpoint that could not be closed; UCS_OK if there is none */
    int n_ended;                     /* number of peers whose `ended` is set; under the session's lock */

    /* receiving, under the session's lock */
    void *taking;                           /* destination at which ucx_take wants the next packet; NULL if it wants none */
    ucx_link_t *taken;                      /* link of the packet that has arrived at `taking`; NULL if none has */
    ucx_packet_t *packets;                  /* free packet structures */
    ucx_packet_t *first_arrived, **arrived; /* list of packets in the order in which UCX reported them; its end */
    ucx_flight_t *landed;                   /* flights that have ended */
    ucx_body_t *bodies;                     /* bodies that have ended */
    atomic_int lent;                        /* messages in UCX's memory */
    bool lost;                              /* a message was dropped for lack of memory */
    madi_watch_t wakeup;                    /* watch of the worker's descriptor, which belongs to UCX */
};

struct ucx_link {
    fabric_link_t base; /* base.failed: ucs_status_t; base.receiving: ucx_body_t */
    ucx_peer_t *peer;
    int n_copies; /* copies in flight; under the lock io */
};

static inline ucx_adapter_t *ucx_of(const ucx_link_t *l)
{
    return (ucx_adapter_t *)l->base.link.adapter;
}
/* Return the link to which a message with this tag belongs; NULL if there is none any more. */
static inline ucx_link_t *ucx_link_of(const ucx_adapter_t *a, uint64_t tag)
{
    return (ucx_link_t *)fabric_link_at(&a->base.links, tag);
}

/* ucx_probe.c */
mad_status_t ucx_probe(const madi_driver_t *driver, struct mad_session *session);
/* Find the device of an adapter's name.  On failure return false, and write the reason. */
bool ucx_device_find(const ucx_lib_t *lib, const char *name, ucx_device_t *device, char *reason);
/* Open a context of UCX for a device; NULL: for all devices that UCX offers here. */
ucs_status_t ucx_context_open(const ucx_lib_t *lib, const ucx_device_t *device, ucp_context_h *context);

/* ucx_name.c */
/* Parse a line of ucp_context_print_info, and add its device, if any, to the array, which has *n devices and room for
 * max. */
void ucx_device_add(ucx_device_t *devices, int *n, int max, const char *line);
/* Write the name of the device's network, MADI_NAME_MAX bytes.  On failure return false, and write the reason. */
bool ucx_network_name(const ucx_device_t *device, char *name, char *reason);

/* ucx_peer.c; under the session's lock */
/* Return the peer of this address, with one more use; NULL with the reason. */
ucx_peer_t *ucx_peer_use(ucx_adapter_t *a, const void *address, size_t len, char *reason);
/* Like ucx_peer_use, but for a source of frames: it counts as one use if the peer has no other, and as none otherwise. */
ucx_peer_t *ucx_peer_of_source(ucx_adapter_t *a, const void *address, size_t len, char *reason);
void ucx_source_end(madi_adapter_t *adapter, const void *source, size_t source_len); /* as driver.h says */
void ucx_peer_drop(ucx_adapter_t *a, ucx_peer_t *peer); /* end one use of the endpoint; NULL is legal */
/* Close the peer's endpoint, so that UCX ends all transfers on it.  All links of the peer break. */
void ucx_peer_break(ucx_adapter_t *a, ucx_peer_t *peer, ucs_status_t error);
void ucx_peers_reap(ucx_adapter_t *a);  /* free unused endpoints: failed ones at once, endpoints to strangers after a
                                         * while */
void ucx_peers_close(ucx_adapter_t *a); /* begin to close the endpoints that links used; their last messages still leave */
void ucx_peers_fini(ucx_adapter_t *a);

/* ucx_link.c; as driver.h says */
extern const fabric_ops_t ucx_ops;
void ucx_link_close(madi_link_t *link);
void ucx_link_fini(madi_link_t *link);

/* ucx_send.c */
madi_sent_t ucx_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
bool ucx_send_short(madi_link_t *link, const void *packet, size_t total);
typedef enum ucx_sent { UCX_SENT_OK, UCX_SENT_AGAIN, UCX_SENT_FAILED } ucx_sent_t;
/* Send a message of up to UCX_PACKET_MAX bytes that lie in up to UCX_GATHER pieces.  The bytes may be reused after the call.
 * FAILED: *status has the cause.  l: the link that counts the message; NULL for a frame of the handshake, which is never
 * refused for lack of copies. */
ucx_sent_t ucx_message_send(ucx_adapter_t *a, ucx_peer_t *peer, uint64_t tag, const struct iovec *vec, int n, size_t total,
                            ucx_link_t *l, ucs_status_t *status);
bool ucx_control_send(fabric_link_t *link, fabric_what_t what, uint32_t number); /* as fabric_ops_t says */
void ucx_copies_forget(ucx_link_t *l);                                           /* at the link's end */
int ucx_flights_land(ucx_adapter_t *a); /* report flights that have ended; returns their number */
/* Report all flights of the link, although UCX has not ended them: it must not progress any more. */
void ucx_flights_drop(ucx_link_t *l);
bool ucx_flights_exist(ucx_link_t *l);
void ucx_send_fini(ucx_adapter_t *a); /* the worker is gone */

/* ucx_message.c */
/* The callback of all active messages. */
ucs_status_t ucx_message_arrived(void *arg, const void *head, size_t head_len, void *data, size_t len,
                                 const ucp_am_recv_param_t *param);
ucx_packet_t *ucx_arrived_take(ucx_adapter_t *a);       /* the next one; NULL: none */
void ucx_packet_put(ucx_adapter_t *a, ucx_packet_t *p); /* the packet has been handled */
/* Lend the bytes of a packet that is in UCX's memory, until slot_put; the structure of the packet is free. */
void ucx_packet_lend(ucx_adapter_t *a, ucx_packet_t *p);
void ucx_slot_put(madi_link_t *link, madi_foreign_t loan);
void ucx_message_fini(ucx_adapter_t *a);

/* ucx_receive.c */
void ucx_packet_handle(ucx_adapter_t *a, ucx_packet_t *p);
/* Return the link of a packet with this tag, if the packet is the link's next one and may be delivered now; else NULL. */
static inline ucx_link_t *ucx_turn(const ucx_adapter_t *a, uint64_t tag)
{
    return (ucx_link_t *)fabric_link_in_turn(&a->base.links, tag, true);
}
void ucx_early_run(fabric_link_t *link); /* as fabric_ops_t says */
void ucx_receive_forget(ucx_link_t *l);

/* ucx_body.c */
/* Begin to receive the body of the packet l->hdr at l->rx.base.  desc: UCX's descriptor of the body; UCX owns it from here
 * on. */
void ucx_body_begin(ucx_link_t *l, void *desc);
void ucx_body_drop(ucx_adapter_t *a, void *desc);
int ucx_bodies_land(ucx_adapter_t *a); /* deliver bodies that are complete; return their number */
void ucx_body_forget(ucx_link_t *l);   /* forget the link's body, at the end of the link, after ucx_link_await */

/* ucx_poll.c */
int ucx_poll(madi_adapter_t *adapter, int budget);
madi_link_t *ucx_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
int ucx_progress(ucx_adapter_t *a); /* returns the number of events that UCX reports */
/* As fabric_ops_t says. */
int ucx_drain(fabric_adapter_t *adapter);
bool ucx_tick(fabric_adapter_t *adapter);
/* Wait until UCX no longer uses memory for the link, without upcalls.  If that takes too long, the adapter breaks: UCX
 * makes no progress any more, so it moves no bytes. */
void ucx_link_await(ucx_link_t *l);

/* ucx_wait.c */
mad_status_t ucx_wakeup_open(ucx_adapter_t *a, char *reason);
void ucx_wakeup_close(ucx_adapter_t *a);
bool ucx_arm(madi_adapter_t *adapter);

/* ucx_frame.c; as driver.h says */
bool ucx_frame_send(madi_link_t *link, const void *frame, size_t len);
bool ucx_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len);
void ucx_frame_arrived(ucx_adapter_t *a, ucx_packet_t *p);

#endif
