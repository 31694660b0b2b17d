/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: packets over InfiniBand, RoCE and iWARP, by reliable connections (RC) of libibverbs.
 *
 *   verbs.c          the table; adapters
 *   verbs_lib.c      the library libibverbs
 *   verbs_port.c     which ports, and which of their GIDs, become adapters
 *   verbs_name.c     subnets, names of networks, address bytes
 *   verbs_memory.c   registrations of memory
 *   verbs_slot.c     registered memory of messages; the shared receive queue
 *   verbs_pair.c     queue pairs
 *   verbs_cm.c       connections of queue pairs by rdma_cm
 *   verbs_cm_lib.c   the library librdmacm
 *   verbs_link.c     links: their life
 *   verbs_hello.c    messages over the socket of a link
 *   verbs_send.c     outgoing packets
 *   verbs_flight.c   long packets, which the receiver reads from this process's memory
 *   verbs_spill.c    long packets whose memory cannot be registered
 *   verbs_receive.c  incoming packets
 *   verbs_body.c     bodies of long packets, which this side reads
 *   verbs_poll.c     the completion queue, and when polling is worth a call
 *   verbs_wait.c     sleep; events of the device
 *
 * An adapter is a port of a device and one of its GIDs, with one completion queue and one shared receive queue for all its
 * links.  A link is a queue pair and a TCP socket.  The core's handshake runs over the socket, and after it the two ends
 * exchange there what their queue pairs need.  The socket stays open: its end reports that the peer has died.
 *
 *   packet of up to packet_max bytes     sender                              receiver
 *     one message                        -- head, packet -------------->     a slot; lent, or copied
 *   longer packet, with an op
 *     from the program's memory          -- head, header, segments ---->     the core names the destination,
 *                                        <- - - - - RDMA read - - - - -      to which the body is read
 *     op->done                           <- head (number of bodies) ----
 *
 * Credit.  For each link the receiver keeps `window` slots in the shared receive queue.  The head of each message returns the
 * slots that the receiver has posted again since.  The last credits are for messages that only return credit.  So the queue
 * is never empty while a peer sends, unless a peer breaks the rules, which is noticed.
 *
 * Locks.  A queue pair and the queues have locks of their own, in the provider.  The state of sending is under the link's tx
 * lock, all other state under the session's lock; counters that both sides need are atomic.  A completion names the link by
 * its index and its random key, so that a completion after the end of its link finds no other link.
 */
#ifndef VERBS_H
#define VERBS_H

#include "core/driver.h"
#include "drivers/fabric/order.h"
#include "drivers/fabric/poll.h"
#include "drivers/fabric/registration.h"
#include "drivers/verbs/verbs_cm_lib.h"
#include "drivers/verbs/verbs_lib.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define VERBS_PACKET_MAX ((size_t)8 << 10) /* bytes */
#define VERBS_GATHER 16
#define VERBS_SEGMENTS 16   /* maximum number of pieces of a long packet's body */
#define VERBS_WINDOW 32     /* slots for a link in the receive queue */
#define VERBS_KEPT 2        /* credits that are kept for messages without a packet */
#define VERBS_RING 32       /* messages of a link whose sending has not completed; a power of 2, as the counters wrap */
#define VERBS_SIGNAL 8      /* one message in 8 requests a completion */
#define VERBS_REPOST 16     /* slots that may wait to be posted again together */
#define VERBS_BATCH 16      /* completions that are read together */
#define VERBS_ENTRIES 32768 /* maximum number of entries of the completion queue */
#define VERBS_TIMEOUT 16    /* exponent: a packet is sent again after 2^16 * 4.096 us = 0.27 s */
#define VERBS_RETRIES 7     /* resends before the peer counts as gone: after 2 s, with some devices several times that */
#define VERBS_RNR_TIMER 12  /* 0.64 ms */

typedef struct verbs_link verbs_link_t;
typedef struct verbs_adapter verbs_adapter_t;

/* The beginning of each message. */
typedef struct verbs_head {
    uint64_t tag;      /* kind of the message, and the receiver's link (tag.h) */
    uint32_t returned; /* number of messages of the link whose slots the sender of this head has posted again */
    uint32_t bodies;   /* number of bodies of long packets that the sender of this head has read, or dropped */
} verbs_head_t;
static_assert(sizeof(verbs_head_t) == 16, "head");

#define VERBS_KIND_PIECE ((fabric_kind_t)3) /* kind in a tag: a piece of a body that the sender could not register */
#define VERBS_BODY_AT (sizeof(verbs_head_t) + sizeof(madi_wire_hdr_t)) /* place of a packet's body in a message */
#define VERBS_MESSAGE_MAX (sizeof(verbs_head_t) + VERBS_PACKET_MAX)

/* The place of a part of a long packet's body in the sender's memory.  Segments follow the packet's header. */
typedef struct verbs_segment {
    uint64_t at;
    uint32_t key;
    uint32_t len; /* bytes */
} verbs_segment_t;
static_assert(sizeof(verbs_segment_t) == 16, "segment");

/* Memory for one message that arrives. */
typedef struct verbs_slot {
    struct verbs_slot *next; /* next in the list of free slots, or of slots to be posted again */
    fabric_early_t early;
    size_t len;                                                   /* bytes of the message that has arrived */
    uint32_t lkey;                                                /* of the chunk */
    _Alignas(MADI_LINE) char data[VERBS_MESSAGE_MAX + MADI_LINE]; /* one line more, since a copy may read beyond the end of a
                                                                   * short body */
} verbs_slot_t;

/* Return the kind of the message in a slot. */
static inline fabric_kind_t verbs_slot_kind(const verbs_slot_t *slot)
{
    verbs_head_t head;
    memcpy(&head, slot->data, sizeof head);
    return fabric_tag_kind(head.tag);
}

#define VERBS_CHUNK 64 /* slots that are registered together */
typedef struct verbs_chunk {
    struct verbs_chunk *next;
    struct ibv_mr *mr;
    verbs_slot_t slots[VERBS_CHUNK];
} verbs_chunk_t;

/* Kinds of completions of sends, at the place in wr_id where a tag has the kind of a message (tag.h).  The wr_id of a
 * receive is the address of its slot, whose upper bits are 0. */
typedef enum verbs_done { VERBS_DONE_SEND = 5, VERBS_DONE_READ = 6 } verbs_done_t;

/* A port and one of its GIDs, as the probe has found them. */
typedef struct verbs_port {
    uint8_t number;
    bool ethernet; /* RoCE, where peers are named by GIDs; else InfiniBand, by LIDs */
    bool iwarp;    /* iWARP, where rdma_cm connects by IP addresses; `ethernet` is then false */
    int gid_index; /* index of the GID; of iWARP: number of the IP address */
    union ibv_gid gid;
    uint16_t lid;
    enum ibv_mtu mtu;
    struct sockaddr_storage self; /* the IP address at which the socket listens */
    unsigned char subnet[16];     /* address of the IP subnet */
    size_t ip_len;
    int prefix;
} verbs_port_t;

struct verbs_adapter {
    fabric_adapter_t base;
    const verbs_lib_t *lib;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    verbs_port_t port;
    const verbs_cm_lib_t *cm; /* library of rdma_cm; NULL if queue pairs are connected by GIDs or LIDs */
    struct rdma_event_channel *cm_channel;
    struct rdma_cm_id *cm_listener;
    uint16_t cm_port;              /* port at which cm_listener listens */
    fabric_registrations_t memory; /* registrations of blocks */
    size_t inline_max;             /* inline_max (verbs_link_t) of the next queue pair that is made */
    int reads;                     /* number of RDMA reads of one queue pair that the device carries out at the same time */
    int entries, taken;            /* entries of the completion queue: number of all; upper bound of those that links need */
    int srq_max;                   /* entries of the receive queue */

    /* slots, under the session's lock, except returned */
    verbs_chunk_t *chunks;
    verbs_slot_t *free, *spent;
    int n_spent, n_wanted, n_posted;  /* n_spent: slots to be posted again; n_posted: posted slots; n_wanted: both
                                       * together */
    _Atomic(verbs_slot_t *) returned; /* slots that slot_put has returned */

    bool owing;           /* a link could not return credit */
    bool flushing;        /* a peer waits for FLUSHED, which reports that its messages have arrived */
    atomic_bool spilling; /* true if a link sends a long packet in pieces */

    struct ibv_wc stash[VERBS_BATCH]; /* completions that arm has read */
    int n_stash;
    bool cq_failed; /* true if the completion queue cannot be read */

    madi_watch_t channel_watch, event_watch, cm_watch; /* fd 0: not watched */
};

/* A long packet that the peer reads from this process's memory. */
typedef struct verbs_flight {
    struct verbs_flight *next;
    madi_op_t *op;
    int parts;
    fabric_region_t *regions[VERBS_SEGMENTS];
} verbs_flight_t;

/* A long packet that is copied in pieces.  Under the tx lock. */
typedef struct verbs_spill {
    struct iovec vec[VERBS_GATHER];
    int n, at;     /* number of pieces of the program's memory; index of the first piece that is not sent whole, n if all are
                    * sent */
    size_t offset; /* bytes of the piece `at` that have been sent */
    madi_op_t *op; /* NULL if there is none */
} verbs_spill_t;

/* A body that is read into a slot in pieces.  Under the session's lock. */
typedef struct verbs_bounce {
    verbs_slot_t *slot; /* NULL: the body is read straight to its destination */
    verbs_segment_t segments[VERBS_SEGMENTS];
    int at;          /* segment of the present piece */
    uint32_t offset; /* bytes of the segment `at` that have arrived */
    uint32_t len;    /* bytes of the present piece */
    size_t done;     /* bytes of the body that have arrived */
} verbs_bounce_t;

/* A message over the socket, after the handshake. */
typedef struct verbs_hello {
    uint32_t magic, version;
    uint32_t index, key; /* index and key of the link, as in tag.h */
    uint32_t pair, psn;  /* number of the queue pair; number of its first packet */
    uint32_t window;     /* slots that this end keeps for the link */
    uint16_t lid;
    uint8_t mtu, reads;
    unsigned char gid[16];
    uint32_t cm_port; /* port at which rdma_cm listens; 0 if queue pairs are connected by GIDs or LIDs */
} verbs_hello_t;
static_assert(sizeof(verbs_hello_t) == 52, "hello");
typedef enum verbs_word_kind { VERBS_READY = 1, VERBS_BYE = 2, VERBS_FLUSH = 3, VERBS_FLUSHED = 4 } verbs_word_kind_t;
typedef struct verbs_word {
    uint32_t kind;   /* verbs_word_kind_t */
    uint32_t number; /* BYE, FLUSH: number of messages that were sent; FLUSHED: the number in FLUSH, when these messages have
                      * arrived */
} verbs_word_t;
static_assert(sizeof(verbs_word_t) == 8, "word");

struct verbs_link {
    fabric_link_t base; /* base.failed: errno of posting */
    madi_watch_t watch; /* the socket; fd 0 before start */
    struct ibv_qp *pair;
    uint32_t pair_number;
    uint32_t psn;
    bool counted, has_slots, watched, greeted;
    bool active;                             /* this end has made the connection */
    bool paired;                             /* the queue pair is connected */
    bool ready_sent, ready_came;             /* READY */
    struct rdma_cm_id *cm_id;                /* NULL if there is none */
    uint8_t peer_reads;                      /* number of RDMA reads that the other end's device carries out at the same
                                              * time */
    unsigned char in[sizeof(verbs_hello_t)]; /* buffer for the next message that comes through the socket */
    size_t in_len;
    bool bye; /* true if the peer has ended the link after message number bye_at */
    uint32_t bye_at;
    bool flush_wanted; /* true if the peer waits for the report that message number flush_at has arrived */
    uint32_t flush_at;
    bool flush_asked, flushed; /* iWARP: FLUSH was sent for message number flush_sent; its answer has come */
    uint32_t flush_sent;

    /* sending, under the tx lock */
    uint32_t window;   /* slots that the peer keeps */
    size_t inline_max; /* bytes of the longest message that the processor copies to the device */
    char *ring;        /* VERBS_RING messages */
    struct ibv_mr *ring_mr;
    _Atomic(uint32_t) sent;       /* messages */
    _Atomic(uint32_t) completed;  /* number of messages whose memory may be used again */
    _Atomic(uint32_t) credited;   /* number of messages whose slots the peer has posted again */
    _Atomic(uint32_t) advertised; /* `advertised` and `bodies_advertised`: the values of `returned` and `bodies` that were
                                   * sent last */
    _Atomic(uint32_t) bodies_advertised;
    verbs_flight_t *flights, **flights_end; /* oldest first */
    uint32_t landed;                        /* number of long packets whose bodies the peer has read */
    verbs_spill_t spill;
    uint32_t asked; /* `sent`, when a completion was requested at the end of a session */

    /* receiving, under the session's lock */
    uint32_t arrived;             /* messages */
    _Atomic(uint32_t) freed;      /* messages whose slots were posted again, or replaced */
    _Atomic(uint32_t) bodies;     /* bodies that were read, or dropped */
    bool owes;                    /* credit, or the number of bodies, could not be sent */
    fabric_region_t *body_region; /* registration of the destination; NULL if the body is read by way of `bounce` */
    verbs_bounce_t bounce;
    uint32_t left; /* bytes of a body that come in pieces, to rx.base */
    bool dropped;  /* those pieces are dropped */
};

static inline verbs_adapter_t *verbs_of(const verbs_link_t *l)
{
    return (verbs_adapter_t *)l->base.link.adapter;
}

/* verbs.c */
/* Log that the device does not release `what`, if rc is an errno.  Return true if the device has released the object. */
bool verbs_released(const verbs_adapter_t *a, int rc, const char *what);

/* verbs_port.c */
mad_status_t verbs_probe(const madi_driver_t *driver, struct mad_session *session);
/* Open the device of the adapter's name, and find its port and GID.  Return false with the reason. */
bool verbs_port_open(verbs_adapter_t *a, char *reason);

/* verbs_name.c */
#define VERBS_ADDRESS_MAX 19 /* bytes: family, port, address */
/* Split the name of an adapter, DEVICE:PORT or DEVICE:PORT.GID; *gid is -1 if the name has no GID.  Return false if it is no
 * such name. */
bool verbs_name_split(const char *name, char *device, size_t size, int *port, int *gid);
/* Set the bits behind the prefix to 0. */
void verbs_subnet_mask(unsigned char *ip, size_t len, int prefix);
/* Write the name of the network of a port. */
bool verbs_network_name(const verbs_port_t *port, char *name);
/* Write an IP address and port as address bytes; return their number. */
size_t verbs_address_put(const struct sockaddr_storage *addr, unsigned char *to);
/* Read address bytes, which a peer wrote.  False if they are damaged. */
bool verbs_address_get(const void *bytes, size_t len, struct sockaddr_storage *to, socklen_t *to_len);
/* Return the bytes of an IP address, and their number. */
const unsigned char *verbs_ip(const struct sockaddr_storage *addr, size_t *len);
/* True if the GID is that of this IP address. */
bool verbs_gid_is(const unsigned char gid[16], const struct sockaddr_storage *addr);

/* verbs_memory.c; any thread */
void verbs_memory_open(verbs_adapter_t *a); /* after the protection domain */
/* Register memory of the driver's own; NULL with errno. */
struct ibv_mr *verbs_memory_register(verbs_adapter_t *a, void *at, size_t len, int access);
/* Register memory of the program, for fabric_registration_put; NULL with errno. */
static inline fabric_region_t *verbs_block_register(verbs_adapter_t *a, void *at, size_t len, int access)
{
    return fabric_registration_get(&a->memory, at, len, access);
}
static inline const struct ibv_mr *verbs_region_mr(const fabric_region_t *region)
{
    return region->handle;
}

/* verbs_slot.c; under the session's lock */
/* Keep `more` further slots posted (may be negative).  Return false with the reason. */
bool verbs_slots_want(verbs_adapter_t *a, int more, char *reason);
void verbs_slot_spend(verbs_adapter_t *a, verbs_slot_t *slot); /* give back a slot, so that it may be posted again */
void verbs_slots_post(verbs_adapter_t *a);                     /* post all slots that may be posted */
/* Return a free slot, to replace one that is lent; NULL if there is none. */
verbs_slot_t *verbs_slot_spare(verbs_adapter_t *a);
void verbs_slot_keep(verbs_adapter_t *a, verbs_slot_t *slot); /* give back the slot of verbs_slot_spare, if it is not
                                                               * needed */
void verbs_slots_fini(verbs_adapter_t *a);                    /* the receive queue is gone */
void verbs_slot_put(madi_link_t *link, madi_foreign_t loan);

/* verbs_pair.c */
/* Make the queue pair of a link.  Return false with the reason. */
bool verbs_pair_open(verbs_link_t *l, char *reason);
/* Connect the queue pair of a link to that of the other end.  Return false with the reason. */
bool verbs_pair_connect(verbs_link_t *l, const verbs_hello_t *peer, char *reason);
void verbs_pair_close(verbs_link_t *l); /* afterwards the device uses no memory of the link; does nothing if there is no
                                         * pair */

/* verbs_cm.c */
/* True if rdma_cm assigns this IP address of the host to the port of the device. */
bool verbs_cm_owns(const verbs_lib_t *lib, const verbs_cm_lib_t *cm, const char *device, int number,
                   const struct sockaddr_storage *addr);
bool verbs_cm_open(verbs_adapter_t *a, char *reason); /* listen for requests of rdma_cm, if a->cm is set; false with the
                                                       * reason */
void verbs_cm_close(verbs_adapter_t *a);              /* legal if nothing is open */
void verbs_cm_fini(verbs_adapter_t *a);               /* all links are gone */
void verbs_cm_ready(madi_watch_t *watch, uint32_t events);
/* Begin to connect the pair of an active link.  Return false with the reason. */
bool verbs_cm_connect(verbs_link_t *l, const struct sockaddr_storage *peer, const verbs_hello_t *h, char *reason);
void verbs_cm_forget(verbs_link_t *l); /* after the pair is closed */

/* verbs_link.c */
mad_status_t verbs_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason);
mad_status_t verbs_start(madi_link_t *link, int fd, bool active, char *reason);
void verbs_link_close(madi_link_t *link);
void verbs_link_fini(madi_link_t *link);
extern const fabric_ops_t verbs_ops;
/* Return the link of a tag; NULL if there is none any more. */
static inline verbs_link_t *verbs_link_of(const verbs_adapter_t *a, uint64_t tag)
{
    return (verbs_link_t *)fabric_link_at(&a->base.links, tag);
}

/* verbs_hello.c */
bool verbs_hello_send(verbs_link_t *l, char *reason);
void verbs_socket_ready(madi_watch_t *watch, uint32_t events);
void verbs_bye_send(verbs_link_t *l);
void verbs_bye_check(verbs_link_t *l);  /* a message has been handled */
void verbs_ready_send(verbs_link_t *l); /* send READY, if the pair is connected and the peer's HELLO has come */
void verbs_up_check(verbs_link_t *l);   /* handle that a message has arrived before the link is up */
void verbs_flush_answer(verbs_adapter_t *a);
/* True if the peer has reported that all messages have arrived; otherwise request that report.  Under the session's lock. */
bool verbs_flush_known(verbs_link_t *l);

/* verbs_send.c */
madi_sent_t verbs_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
/* Return the memory of the next message, behind its head; NULL if no message can leave.  only_head: true for a message
 * without a packet.  Under the tx lock. */
char *verbs_message_begin(verbs_link_t *l, bool only_head);
/* Send the message that verbs_message_begin has begun, with len bytes behind its head.  signal: request its completion.
 * Return false if the send has failed. */
bool verbs_message_post(verbs_link_t *l, fabric_kind_t kind, size_t len, bool signal);
/* Send a message without a packet, to return credit and to report the number of bodies.  Return false if that is impossible
 * now.  Takes the tx lock. */
bool verbs_return_send(verbs_link_t *l, bool signal);
/* Like verbs_return_send, but only if enough credit is owed to the peer. */
void verbs_return_check(verbs_link_t *l);
void verbs_return_again(verbs_adapter_t *a); /* retry verbs_return_send for links on which it failed */
bool verbs_drained(madi_link_t *link);

/* verbs_flight.c */
/* Like verbs_send, for a packet that is longer than a slot.  Under the tx lock. */
madi_sent_t verbs_flight_send(verbs_link_t *l, const struct iovec *vec, int n, madi_op_t *op);
/* End the flights whose bodies the peer has read.  bodies: their total number since the link began.  Return false if the
 * peer reports more bodies than were sent. */
bool verbs_flights_land(verbs_link_t *l, uint32_t bodies);
void verbs_flights_fail(verbs_link_t *l); /* end all flights of a link whose queue pair is closed */

/* verbs_spill.c */
madi_sent_t verbs_spill_send(verbs_link_t *l, const struct iovec *vec, int n, madi_op_t *op); /* like verbs_flight_send */
void verbs_spills_run(verbs_adapter_t *a);                                                    /* continue on all links */
void verbs_spill_fail(verbs_link_t *l); /* end the spill of a link whose queue pair is closed */

/* verbs_body.c */
/* Begin to read the body of the packet l->hdr to l->rx.base.  slot: the message with the segments. */
void verbs_body_begin(verbs_link_t *l, const verbs_slot_t *slot);
void verbs_body_done(verbs_link_t *l);   /* a read has completed */
void verbs_body_forget(verbs_link_t *l); /* forget the body, which is complete, or whose queue pair is closed */
static inline void verbs_body_count(verbs_link_t *l)
{
    atomic_fetch_add_explicit(&l->bodies, 1, memory_order_relaxed);
}

/* verbs_receive.c */
void verbs_arrived(verbs_adapter_t *a, verbs_slot_t *slot, uint32_t pair_number);
/* Like verbs_arrived, but copy or lend the packet as the operation `take` does, and return its link; NULL if it was handled. */
verbs_link_t *verbs_arrived_take(verbs_adapter_t *a, verbs_slot_t *slot, uint32_t pair_number, void *packet,
                                 madi_foreign_t *loan);
void verbs_early_run(fabric_link_t *link); /* as fabric_ops_t says */
void verbs_receive_forget(verbs_link_t *l);

/* verbs_poll.c */
int verbs_poll(madi_adapter_t *adapter, int budget);
madi_link_t *verbs_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
int verbs_drain(fabric_adapter_t *adapter); /* as fabric_ops_t says */
void verbs_rest_deliver(verbs_link_t *l);   /* deliver what has arrived on a link that breaks */
void verbs_fail(verbs_adapter_t *a, const char *what,
                const char *text); /* break all links; the device is not used any more */

/* verbs_wait.c */
mad_status_t verbs_wait_open(verbs_adapter_t *a, char *reason);
void verbs_wait_close(verbs_adapter_t *a);
bool verbs_arm(madi_adapter_t *adapter);

#endif
