/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: packets over libfabric, by messages of reliable datagram endpoints (FI_EP_RDM).
 *
 *   ofi.c          the table; adapters
 *   ofi_lib.c      the library libfabric
 *   ofi_probe.c    which providers and domains become adapters
 *   ofi_name.c     names of adapters and networks
 *   ofi_memory.c   registered memory
 *   ofi_peer.c     addresses of endpoints
 *   ofi_link.c     links: their life
 *   ofi_frame.c    frames of the handshake
 *   ofi_send.c     outgoing packets
 *   ofi_buffer.c   the posted receive buffers, which are lent
 *   ofi_receive.c  incoming packets
 *   ofi_body.c     bodies of long packets, which this side reads
 *   ofi_poll.c     the completion queue, and when polling is worth a call
 *   ofi_control.c  messages between the drivers
 *   ofi_wait.c     sleep
 *
 * An adapter is a domain of a provider, with one endpoint, one completion queue and one address vector for all its links.
 *
 *   packet of up to packet_max bytes     sender                              receiver
 *     inject, or a copied message        -- PACKET: header, body ------->    a posted buffer; lent, or copied
 *   longer packet, with an op
 *     from the program's memory          -- PACKET: header, key -------->    the core names the destination,
 *                                        <- - - - - - fi_read - - - - - -    to which the body is read
 *     op->done                           <- CONTROL: DONE --------------
 *   longer packet, in memory that cannot be registered
 *     copied messages, then op->done     -- PACKET: header ------------->    the core names the destination,
 *                                        -- PACKETs: 16 KiB each ------->    to which the body is copied
 *
 * Except for the last case, no side copies a body, and the sender's memory is safe as soon as its registration is closed.
 * A body as a tagged message of its own takes as long, since the provider reads the body then, too.  A receiver whose
 * memory cannot be registered reads the body in parts, to the buffer in which the header came.  Providers complete
 * messages out of order (FI_ORDER_SAS orders their matching), so packets have numbers (drivers/fabric/tag.h), and early
 * packets wait.
 *
 * Locks.  The provider is opened with FI_THREAD_DOMAIN, because its own locks cost more (shm: 0.35 us without, 1.1 us with
 * them).  So `io` is held around each call of libfabric, by any thread; the free lists of the sender are under it, too.
 * `io` is the last lock, and no upcall is made with `io` held.  The state of sending is under the link's tx lock, all
 * other state under the session's lock.  Every context of an operation belongs to the adapter, so that a completion
 * after the end of its link still finds the context.
 */
#ifndef OFI_H
#define OFI_H

#include "core/driver.h"
#include "drivers/fabric/control.h"
#include "drivers/fabric/order.h"
#include "drivers/fabric/poll.h"
#include "drivers/ofi/ofi_lib.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define OFI_PACKET_MAX ((size_t)16 << 10) /* bytes; ofi_rxm sends longer messages in several pieces */
#define OFI_GATHER 16
#define OFI_BUFFERS 64       /* receive buffers that are posted */
#define OFI_BUFFERS_MAX 1024 /* maximum number of receive buffers; when all exist and few are posted, no buffer is lent */
#define OFI_COPIES 128       /* copied messages in flight */
#define OFI_COPIES_MIN 8     /* copied messages for which memory is registered at the start, if it has to be */
#define OFI_REPOST 16        /* number of buffers that are posted again together; fewer if there is nothing else to do */
#define OFI_INJECT_MAX 4096  /* bytes: longest packet that is gathered on the stack to be injected */
#define OFI_NAME_BYTES 128   /* maximum number of bytes of an endpoint's name; an address of driver.h has room for them */

#define OFI_SOCKETS "sockets" /* a provider that progresses only when its queue is read: its descriptor wakes no thread */

typedef struct ofi_link ofi_link_t;
typedef struct ofi_adapter ofi_adapter_t;

/* The context of one operation of libfabric; its address comes back in the completion. */
typedef enum ofi_use { OFI_USE_BUFFER, OFI_USE_BODY, OFI_USE_BOUNCE, OFI_USE_COPY } ofi_use_t;
typedef struct ofi_context {
    struct fi_context2 fi; /* libfabric's own */
    ofi_use_t use;
    void *object; /* of the operation, by `use`: ofi_buffer_t, ofi_body_t (BODY and BOUNCE) or ofi_copy_t */
} ofi_context_t;

/* A receive buffer. */
typedef struct ofi_buffer {
    ofi_context_t context;
    struct ofi_buffer *next;
    struct ofi_buffer *all; /* next buffer in the list of all buffers of the adapter */
    fabric_early_t early;   /* early.tag is the tag of the received message */
    size_t len;             /* bytes of the received message */
    bool is_copy;      /* true if this is a copy of a packet that waits: never posted; `data` has len bytes and a line */
    struct fid_mr *mr; /* registration of `data`; NULL if not needed */
    _Alignas(MADI_LINE) char data[OFI_PACKET_MAX + MADI_LINE]; /* one line more, since a copy may read beyond the end of a
                                                                * short body */
} ofi_buffer_t;

/* The place of a part of a body in the sender's memory.  These segments travel behind a packet's header. */
typedef struct ofi_segment {
    uint64_t at, key; /* address and key of the part, for fi_read */
    uint32_t len;     /* bytes of the part */
    uint32_t id;      /* number of the flight, which DONE returns to the sender */
} ofi_segment_t;
static_assert(sizeof(ofi_segment_t) == 24, "segment");

/* A body that is being read, straight to its destination.  A part whose memory cannot be registered is read to `buffer`, a
 * piece after the other, and copied from there. */
typedef struct ofi_body {
    struct ofi_body *next; /* next body of the adapter */
    ofi_link_t *link;      /* NULL: the link is closed */
    fi_addr_t from;
    int left;     /* parts that have not arrived */
    int unposted; /* index of the first part whose read the provider has not taken yet */
    int parts;
    int flying; /* number of parts that the provider may still write, as their completions were not read */
    bool failed;
    bool waits;    /* counted in adapter->unposted */
    void *scratch; /* memory for a dropped body; NULL if the body goes to the core's memory */
    /* The buffer in which the header came; NULL: all parts are posted. */
    ofi_buffer_t *buffer;
    ofi_context_t bounce;
    bool by_buffer;         /* true if the part `unposted` is read to the buffer */
    bool bouncing;          /* true if a read to the buffer is under way */
    size_t bounced, length; /* bytes of `unposted` that have arrived; bytes of the read under way */
    int refused;            /* error of the registration that failed; 0 if none, or if it was logged */
    struct {
        ofi_context_t context;
        ofi_segment_t segment;
        char *at;
        size_t len;
        struct fid_mr *mr; /* registration of the destination; NULL if not needed, or if the part is not posted */
    } part[OFI_GATHER];
} ofi_body_t;

/* A copied message in flight. */
typedef struct ofi_copy {
    ofi_context_t context;
    struct ofi_copy *next, *all; /* `next`: in the list of free copies; `all`: in the list of all copies */
    ofi_link_t *link;            /* the link that counts the message; NULL if there is none, or if it is closed */
    struct fid_mr *mr;           /* registration of `data`; NULL if not needed */
    char data[OFI_PACKET_MAX];
} ofi_copy_t;

/* A body that the peer reads from the memory of the operation's owner, or that is sent by copies. */
typedef struct ofi_flight {
    struct ofi_flight *next; /* next flight in the list of free flights, or of flights in use */
    ofi_link_t *link;
    madi_op_t *op;
    uint32_t id; /* 0: sent by copies */
    int parts;
    struct fid_mr *mr[OFI_GATHER];
    /* for sending by copies; under the tx lock */
    struct iovec vec[OFI_GATHER]; /* the packet, header included */
    int n;
    size_t sent, total; /* bytes of the packet */
} ofi_flight_t;

/* A completion, as it was read. */
typedef struct ofi_stash {
    ofi_context_t *context;
    size_t len;
    uint64_t tag;
    int error;
} ofi_stash_t;

/* Demands of the provider on registered memory (fi_mr(3)). */
typedef struct ofi_memory_mode {
    bool local;        /* FI_MR_LOCAL: also memory that this side alone uses is registered, and named by its descriptor */
    bool by_address;   /* FI_MR_VIRT_ADDR: a peer names memory by its address, else by the offset */
    bool backed;       /* FI_MR_ALLOCATED: the kernel has provided the pages */
    bool bound;        /* FI_MR_ENDPOINT: a region is bound to the endpoint, then enabled */
    uint64_t key_mask; /* mask of the keys that this side chooses; 0: the provider chooses (FI_MR_PROV_KEY) */
} ofi_memory_mode_t;

/* An endpoint to which this one sends. */
typedef struct ofi_peer {
    struct ofi_peer *next;
    fi_addr_t addr;
    int uses;
    uint8_t len;
    unsigned char name[OFI_NAME_BYTES];
} ofi_peer_t;

struct ofi_adapter {
    fabric_adapter_t base;
    const ofi_lib_t *lib;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep; /* NULL if not open, or given up before the adapter's end (endpoint_end); under the lock io */
    struct fid_av *av; /* NULL if not open, or given up with the endpoint */
    struct fid_cq *cq; /* like av */
    size_t inject_max; /* bytes of the longest injected message */
    size_t name_len;   /* number of bytes of an endpoint's name; base.address begins with the name */
    ofi_peer_t *peers;

    /* under io */
    madi_lock_t io;
    ofi_copy_t *copies, *all_copies; /* free copies; all copies */
    int n_copies, max_copies;        /* number of copies, and its maximum: OFI_COPIES or 1 */
    ofi_flight_t *flights, *used;
    uint32_t ids; /* number of the newest flight */
    ofi_memory_mode_t memory;
    int memory_error;          /* error of a registration that could not be ended; 0 if none; under the lock io */
    uint64_t key_seed, keys;   /* seed and count of keys of registered memory, if this side chooses keys */
    atomic_bool copies_logged; /* true after the log message that blocks are copied */

    /* receiving */
    ofi_buffer_t *all_buffers;
    ofi_buffer_t *spent;              /* buffers to be posted again */
    _Atomic(ofi_buffer_t *) returned; /* buffers that slot_put has returned */
    int n_buffers, n_posted, n_spent;
    int max_buffers;    /* OFI_BUFFERS_MAX, or the number of buffers that could be registered */
    int unposted;       /* number of bodies with parts that the provider has not taken yet */
    ofi_body_t *bodies; /* bodies being read, those of closed links included */
    ofi_stash_t *stash; /* entries of the queue that were read while no upcall was possible */
    int n_stash, room_stash;

    atomic_int copying;      /* number of links with a body that is sent by copies */
    struct ofi_later *later; /* list of messages that the provider has not taken yet */

    char failure[80]; /* the provider's text about the last operation that failed; "" if none */

    madi_watch_t cq_watch; /* watch of the queue's descriptor; fd 0: the provider has none */
};

struct ofi_link {
    fabric_link_t base;
    ofi_peer_t *peer;
    ofi_flight_t *copying; /* the body that is sent by copies, before any other packet; NULL if none; under the tx lock */

    /* receiving, under the session's lock; base.receiving is an ofi_body_t */
    size_t missing; /* bytes of the body that come in the next packets; 0 if none */
    bool dropping;  /* true if they are dropped */
};

static inline ofi_adapter_t *ofi_of(const ofi_link_t *l)
{
    return (ofi_adapter_t *)l->base.link.adapter;
}

/* ofi.c */
/* Log that libfabric failed to release `what`, if rc is a negative error.  Not under the lock io. */
void ofi_released(const ofi_adapter_t *a, int rc, const char *what);

/* ofi_probe.c */
mad_status_t ofi_probe(const madi_driver_t *driver, struct mad_session *session);
/* Return what libfabric offers for the adapter of this name; NULL with the reason.  The caller frees it. */
struct fi_info *ofi_info_find(const ofi_lib_t *lib, const char *name, char *reason);

/* ofi_name.c */
/* Write the adapter's name for what libfabric offers, MADI_NAME_MAX bytes: "tcp+rxm:eth0". */
void ofi_adapter_name(const char *provider, const char *domain, char *name);
/* Write the device of what libfabric offers, MADI_NAME_MAX bytes: its PCI address if there is one; else the name that the
 * kernel probably gives it. */
void ofi_device_name(const struct fi_info *info, char *name);
/* True for fabrics that end at the host: shared memory, and the addresses of the loopback interface. */
bool ofi_fabric_is_local(const char *provider, const char *fabric);
/* Write the name of the network, MADI_NAME_MAX bytes.  host: text that is the same for all that share this host and its
 * network namespace. */
void ofi_network_name(const char *provider, const char *fabric, const char *host, char *name);
/* True if a comma-separated list has this provider. */
bool ofi_list_has(const char *list, const char *provider);
/* True if the provider is Madeleine's own, or is layered over Madeleine's own. */
bool ofi_is_own(const char *provider);

/* ofi_memory.c */
#define OFI_MEMORY_MODES (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT) /* without FI_MR_LOCAL */
ofi_memory_mode_t ofi_memory_mode(int mr_mode, size_t key_size /* bytes */);
/* Register memory for the uses `access`: FI_REMOTE_READ, FI_SEND, FI_RECV, FI_READ.  Under the lock io.  Return 0 or a
 * negative error. */
int ofi_memory_register(ofi_adapter_t *a, void *at, size_t len, uint64_t access, struct fid_mr **mr);
/* Like ofi_memory_register, but only if the provider requires that memory which this side alone uses is registered
 * (else *mr is NULL), and not under the lock io. */
int ofi_memory_register_local(ofi_adapter_t *a, void *at, size_t len, uint64_t access, struct fid_mr **mr);
/* True if an operation failed with this error because the provider itself could not register the operation's memory. */
bool ofi_memory_is_cause(ssize_t rc);
/* Log, once for each adapter, that blocks are copied because registration failed with this negative error.  Not under the
 * lock io. */
void ofi_memory_refused(ofi_adapter_t *a, int error);
/* End a registration; *mr may be NULL.  Under the lock io, unless the endpoint is closed.  A failure is logged when the
 * adapter ends. */
void ofi_memory_forget(ofi_adapter_t *a, struct fid_mr **mr);
static inline void *ofi_memory_desc(struct fid_mr *mr)
{
    return mr ? fi_mr_desc(mr) : NULL;
}

/* ofi_peer.c; under the session's lock */
/* Return the peer of this endpoint name, with one more use; NULL with the reason. */
ofi_peer_t *ofi_peer_use(ofi_adapter_t *a, const void *name, size_t len, char *reason);
void ofi_peer_drop(ofi_adapter_t *a, ofi_peer_t *peer); /* end one use of the peer, and free it after the last use; NULL is
                                                         * fine */
/* ofi_link.c */
extern const fabric_ops_t ofi_ops;
void ofi_link_close(madi_link_t *link);
void ofi_link_fini(madi_link_t *link);
/* Return the link to which a message with this tag belongs; NULL if there is none any more. */
static inline ofi_link_t *ofi_link_of(const ofi_adapter_t *a, uint64_t tag)
{
    return (ofi_link_t *)fabric_link_at(&a->base.links, tag);
}

/* ofi_send.c */
madi_sent_t ofi_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
bool ofi_send_short(madi_link_t *link, const void *packet, size_t total);
/* Send a message of up to OFI_PACKET_MAX bytes that lie in up to OFI_GATHER pieces.  0, -FI_EAGAIN or another negative
 * error.  The bytes may be reused.  l: the link that counts the message; NULL if none. */
ssize_t ofi_message_send(ofi_adapter_t *a, fi_addr_t to, uint64_t tag, const struct iovec *vec, int n, size_t total,
                         ofi_link_t *l);
/* Make the copies without which nothing could be sent when no more memory can be registered. */
mad_status_t ofi_copies_open(ofi_adapter_t *a, char *reason);
void ofi_copy_done(ofi_adapter_t *a, ofi_copy_t *copy, int error);
void ofi_flight_done(ofi_link_t *l, uint32_t id);
/* Send more of the bodies that are copied.  Return the number of bodies that are now sent whole. */
int ofi_copying_post(ofi_adapter_t *a);
void ofi_copies_forget(ofi_link_t *l);  /* forget the copies of a link that ends */
void ofi_flights_report(ofi_link_t *l); /* report ops in flight as failed */
void ofi_send_fini(ofi_adapter_t *a);   /* the endpoint is closed */

/* ofi_buffer.c */
mad_status_t ofi_buffers_open(ofi_adapter_t *a, char *reason);
void ofi_buffers_fini(ofi_adapter_t *a); /* the endpoint is closed */
/* Give back a buffer, so that it may be posted again; free a copy. */
void ofi_buffer_put(ofi_adapter_t *a, ofi_buffer_t *buffer);
/* Return what a packet may wait in: its buffer, or if few buffers are left a copy; the buffer is then given back. */
ofi_buffer_t *ofi_buffer_keep(ofi_adapter_t *a, ofi_buffer_t *buffer);
void ofi_buffers_post(ofi_adapter_t *a); /* post what may be posted */
bool ofi_buffer_lend(ofi_adapter_t *a);  /* true if the current buffer may be lent */
void ofi_slot_put(madi_link_t *link, madi_foreign_t loan);

/* ofi_receive.c */
void ofi_packet_handle(ofi_adapter_t *a, ofi_buffer_t *buffer);
void ofi_early_run(fabric_link_t *link); /* as fabric_ops_t says */
void ofi_receive_forget(ofi_link_t *l);  /* free the packets and the body of a link that ends */

/* ofi_body.c */
/* Receive the body of l->base.hdr to l->base.rx.base, or to nowhere.  buffer: the header's buffer, which belongs to the
 * body from here on. */
void ofi_body_begin(ofi_link_t *l, ofi_buffer_t *buffer, bool drop);
/* A read of a part, or of a piece to the buffer, has ended; error: 0 or libfabric's. */
void ofi_body_done(ofi_adapter_t *a, ofi_body_t *body, int error);
void ofi_bounce_done(ofi_adapter_t *a, ofi_body_t *body, int error);
int ofi_bodies_post(ofi_adapter_t *a);  /* post reads that the provider has not taken; returns their number */
void ofi_body_forget(ofi_link_t *l);    /* at the link's end: nothing writes to the core's memory any more */
void ofi_bodies_fini(ofi_adapter_t *a); /* the endpoint is closed */

/* ofi_poll.c */
int ofi_poll(madi_adapter_t *adapter, int budget);
madi_link_t *ofi_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
/* Report that the provider has failed, with libfabric's error, and break all links.  for_good: the adapter cannot be used any
 * more. */
void ofi_links_fail(ofi_adapter_t *a, const char *what, int error, bool for_good);
int ofi_drain(fabric_adapter_t *adapter); /* as fabric_ops_t says */
/* Wait until the provider no longer writes to a body's destination, without upcalls.  If that takes too long, cancel the
 * reads; if the provider does not cancel them, close the endpoint, which breaks all links of the adapter. */
void ofi_body_await(ofi_adapter_t *a, ofi_body_t *body);

/* ofi_control.c; as fabric_ops_t says */
bool ofi_control_send(fabric_link_t *link, fabric_what_t what, uint32_t number);
/* Send a message, if not now then later, even if the link has ended.  False if out of memory. */
bool ofi_control_later(ofi_link_t *l, fabric_what_t what, uint32_t number);
void ofi_later_post(ofi_adapter_t *a);
void ofi_later_fini(ofi_adapter_t *a); /* wait a moment (LATER_NS) for the messages to leave, then drop them */
bool ofi_tick(fabric_adapter_t *adapter);

/* ofi_frame.c; contract: driver.h */
bool ofi_frame_send(madi_link_t *link, const void *frame, size_t len);
bool ofi_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len);
void ofi_frame_arrived(ofi_adapter_t *a, ofi_buffer_t *buffer);

/* ofi_wait.c */
mad_status_t ofi_wait_open(ofi_adapter_t *a, char *reason);
void ofi_wait_close(ofi_adapter_t *a);
bool ofi_arm(madi_adapter_t *adapter);
void ofi_disarm(madi_adapter_t *adapter);

#endif
