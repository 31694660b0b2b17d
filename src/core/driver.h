/* SPDX-License-Identifier: BSD-3-Clause */
/* THE CONTRACT between the core and the drivers, for an engineer who adds a network.  Read drivers/skeleton next.
 *
 * The life of a driver:
 *   probe    lists the adapters of this host that the driver can use.  No hardware is success with none.
 *   open     makes an adapter usable: descriptors, listening socket, network name, address bytes.
 *   connect  opens the path to one peer's adapter.  A driver whose links begin as a stream socket (tcp; shm passes its
 *            memory over one) only makes the socket.  The core runs the handshake on it (version, key, identities)
 *            and then passes it to start(), on both sides.  The driver calls madi_link_up() when packets can flow.
 *   send     moves one packet out.   poll  moves packets in and completes sends.
 *   arm      prepares for the sleep of the process: a descriptor becomes readable when something arrives.
 *   close    ends the use of a link or an adapter; does not wait.   fini  frees it, also when half made.
 *
 * Locks.  There are two kinds: the session's lock, and one tx lock per link, which is taken after it.
 *
 *   called with                 functions of the driver
 *   the session's lock          probe open poll arm disarm common reachable connect start drained link_close, ready of a
 *                               watch
 *   the link's tx lock          send, prepare and their variants: by any thread, one at a time per link, mostly without
 *                               the session's lock
 *   any lock, or none           pure_poll slot_put: by any thread, several at once
 *   no concurrent user          close and fini of adapters; link_fini (possibly with the session's lock held)
 *
 *   may be called with          functions of the core
 *   the session's lock, no tx   madi_rx_* madi_link_up madi_link_down, op->done; madi_watch_add and _del
 *   any lock, or none           madi_link_writable madi_link_holds madi_session_moved
 *                               madi_watch_change
 *
 * op->done and the upcalls take the tx lock themselves and may call send, on this link too: never call them with it held.
 * From poll, ready, and link_close a driver may take a link's tx lock with madi_link_lock_tx.  Locks of a driver's own
 * come last.  No function of a driver may block.  A driver never calls the program's code.
 *
 * Concurrency.  send is called from madi_link_up on, by another thread perhaps before start has returned.  No send runs
 * during or after link_close.  pure_poll of an adapter may run in parallel with everything up to the adapter's close, with
 * link_fini too: memory that it reads is not freed there.  slot_put is called until all loans are back, so after
 * link_close too.  link_fini waits for the loans, except at the end of a session, which ends all of them.  link_close is
 * called once: maybe from inside the driver's own madi_link_down, maybe for a link that connect has made and start never
 * got.  link_fini is called once for every link, never from inside madi_link_down; after a failed connect it comes alone.
 *
 * The packets of one link stay in order; there is no order between links.  A driver delivers packets after madi_link_up
 * and before madi_link_down.  Packets that arrived before the link broke are delivered before that call.
 *
 * Sealed links.  The core runs TLS below the handshake.  Bytes received beyond the handshake wait in link->seal, and start
 * has to process them.
 *
 * Lent or shown bytes (rx->loan, rx->head, the body of a short packet) may change while the core reads them: the core
 * copies what it parses, once (base/foreign.h).  A driver does likewise with shared memory that it reads.  A header that a
 * driver hands over is a copy.
 *
 * Memory.  The core allocates adapters and links, zeroed, of the sizes declared here, the public part first.
 * Functions return statuses of madeleine/status.h.  A driver logs nothing that it can put into the reason text.
 */
#ifndef MADI_DRIVER_H
#define MADI_DRIVER_H

#include "base/base.h"
#include "base/foreign.h"
#include "core/send/policy.h"
#include "core/wire/wire.h"
#include <madeleine/status.h>
#include <sys/uio.h>

#define MADI_DRIVER_ABI 1
#define MADI_ADDR_MAX 255  /* bytes of an adapter's own address */
#define MADI_NAME_MAX 48   /* bytes of adapter and network names, final zero included */
#define MADI_REASON_MAX 200 /* bytes of an explanation */
#define MADI_PACKET_MIN 4096 /* no driver's packet_max is less */
#define MADI_SHORT_MAX 40    /* bytes of the body of a short packet */
#define MADI_TAKE_MAX 640    /* bytes of a body that take copies at most */
#define MADI_PACKET_SHORT (MADI_SHORT_MAX + sizeof(madi_wire_hdr_t))

typedef struct madi_driver madi_driver_t;
typedef struct madi_adapter madi_adapter_t;
typedef struct madi_link madi_link_t;
typedef struct madi_op madi_op_t;
struct mad_session;
struct madi_gate;

/* An asynchronous operation, taken by send: the driver calls done exactly once, from poll, a watch, link_close, or
 * link_fini, under the session's lock and without the tx lock, and never from inside send. */
struct madi_op {
    void (*done)(madi_op_t *op, mad_status_t status);
    bool last; /* the program waits for nothing behind this: complete it as soon as possible */
    uint64_t of; /* bytes of the block of which this is a piece */
    size_t ahead; /* bytes at the beginning of vec that are another packet, whose memory does not stay valid: the driver
                   * copies those that cannot leave at once.  0, unless caps.ahead */
};

/* Capabilities and limits of an adapter's links; plain data, set by open. */
typedef struct madi_caps {
    /* Lengths in bytes. */
    size_t packet_max;    /* the longest packet (header included) that send always takes without an op: MADI_PACKET_MIN to 32
                           * KiB.  Credit comes back in halves of MAD_CREDIT_FLOOR, and one half must pay for a packet */
    size_t chunk_max;     /* the longest packet that send takes with an op (pieces of granted blocks); at least packet_max */
    size_t chunk_min;     /* not 0: the driver copies, and its copying overlaps the peer's when a block is sent in pieces of
                           * at least this length; less than chunk_max */
    size_t rdv_min;       /* blocks from this length on use rendezvous: a grant is cheaper than a copy */
    size_t cont_min;      /* blocks from this length up to rdv_min (exclusive) begin in their message's packet.  The rest
                           * comes in a packet of up to chunk_max, which the receiver's driver may place itself.  0: none */
    size_t direct_min;    /* with answers: blocks of a sender that waits and answers are announced from this length on, where
                           * link->direct.  As in policy.h.  0: from rdv_min on */
    size_t answer_min;    /* likewise where not link->direct */
    size_t rdv_eager;     /* bytes of a rendezvous block that may be sent ahead of the grant */
    int gather_max;       /* entries of vec that send takes: 16 or more, for the core sends up to 16 */
    double latency_us;    /* of a short packet, one way */
    double bandwidth_MBs;
    int rank;             /* the path with the lowest rank is preferred: self 0, shm 10, tcp 50, virtual 200 */
    bool self;            /* reaches this process itself, and no other */
    bool ahead;           /* one call of send takes two packets: one as without an op, then one with an op (op->ahead).
                           * Requires gather_max of 18 or more */
    bool many;            /* send may be given an op that the driver holds already: done is called once for each time it
                           * was taken, and the header is copied */
} madi_caps_t;

/* Protection of a network; the values are sent to peers. */
typedef enum madi_security {
    MADI_SECURITY_NONE = 0,
    MADI_SECURITY_AUTH = 1, /* both ends prove a key of the job as they connect */
    MADI_SECURITY_SEAL = 2  /* likewise, and everything after that is encrypted and authenticated */
} madi_security_t;

struct madi_adapter {
    const madi_driver_t *driver;
    struct mad_session *session;
    char name[MADI_NAME_MAX];    /* set by probe: the device */
    char network[MADI_NAME_MAX]; /* set by open: adapters can communicate iff these are equal, or driver->common is true */
    madi_caps_t caps;            /* set by open */
    unsigned char address[MADI_ADDR_MAX]; /* set by open */
    size_t address_len;
    const unsigned char *identity; /* the core's: 16 random bytes, those of the session */
    uint8_t security; /* madi_security_t: AUTH, unless open sets it */
    int listen_fd; /* set by open: a listening socket that the core accepts on, or -1 */
    bool opened;   /* the core's */
    const _Atomic(int) *attentive; /* the core's: not 0 while madi_adapter_moved has to wake the leader */
};

typedef enum madi_link_state { MADI_LINK_CONNECTING, MADI_LINK_UP, MADI_LINK_DOWN } madi_link_state_t;

struct madi_link {
    const madi_driver_t *driver;
    madi_adapter_t *adapter;
    struct madi_gate *gate;    /* the core's: the peer */
    _Atomic(int) state;        /* madi_link_state_t; set by the core */
    uint64_t begun;            /* the driver's: not 0 after take has lent a body that is still being written */
    bool direct;               /* set before madi_link_up: get and put work */
    madi_link_t *outer;        /* the link that wraps this one and gets its upcalls; NULL if none */
    madi_link_t *next_dead;    /* the core's */
    _Atomic(uint32_t) loans;   /* the core's: number of lent bodies that it still holds */
    unsigned char secret[32];  /* the core's: known to the two ends only, from start on (proof.h) */
    struct madi_seal *seal;    /* from start on: the state of a sealed connection (seal.h); NULL: not sealed.  The driver
                                * uses it until link_fini; the core frees it after that */
};

/* A posted receive that is advertised to the sender: for the one block of the message that begins at this position. */
typedef struct madi_offer {
    uint64_t position; /* credit bytes of all earlier packets of the connection */
    uint64_t len;      /* bytes */
    uint64_t at; /* address in the receiver's memory */
    uint16_t channel; /* the sender's number */
} madi_offer_t;

typedef enum madi_sent {
    MADI_SENT,  /* complete: the buffers may be reused, op->done is not called */
    MADI_TAKEN, /* in flight: op->done is called later (only if op was given).  The memory that vec points to, the header
                 * included, stays unchanged until then; the array vec itself may go. */
    MADI_AGAIN  /* not taken, or the link is broken (then madi_link_down follows).  The core tries again when it polls, and
                 * sleeps at most a millisecond while a packet is refused; madi_link_writable shortens that */
} madi_sent_t;

/* The core's answer to an incoming packet: where its body goes. */
typedef enum madi_place {
    MADI_PLACE_COPY, /* put hdr.length bytes at rx->base, then call madi_rx_done */
    MADI_PLACE_KEEP, /* the core keeps rx->loan and has processed the packet: the driver does not reuse these bytes until
                      * its slot_put is called with the same pointer, maybe before madi_rx_begin has returned.
                      * No madi_rx_done. */
    MADI_PLACE_DROP, /* read and forget the body; no madi_rx_done */
    MADI_PLACE_LATER /* only if rx->defer was set: keep the packet, stop polling this link, and call madi_rx_begin again in
                      * the next poll; until then the program may name a destination.  At most once a packet */
} madi_place_t;

typedef struct madi_rx {
    madi_foreign_t loan; /* in: the whole body (hdr.length bytes, any alignment), if it may be lent; else not set */
    void *base;   /* out, for COPY: destination */
    void *cookie; /* the core's */
    uint64_t more; /* the core's */
    /* Only for FORWARD packets.  here, in: number of the body's first bytes that can be read at head; 0: none, and head is
     * not set.  A driver that can waits for MADI_FORWARD_HEAD of them.  If the whole body is readable there, DROP may mean
     * that the core has used it.  skip, out, for COPY: number of the body's first bytes that are not put at base. */
    madi_foreign_t head;
    uint32_t here, skip;
    bool defer;   /* in: the answer may be LATER */
} madi_rx_t;

/* Upcalls of inner links.  A driver that wraps others (fault) makes their links itself and sets outer in them.  Calls of
 * their drivers to the core then come here, under the same locks. */
typedef struct madi_upcalls {
    madi_place_t (*rx_begin)(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
    void (*rx_done)(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
    void (*rx_short)(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_foreign_t body);
    void (*link_up)(madi_link_t *inner);
    void (*link_down)(madi_link_t *inner, mad_status_t status, const char *text);
    void (*link_writable)(madi_link_t *inner);
} madi_upcalls_t;

struct madi_driver {
    int abi; /* MADI_DRIVER_ABI */
    const char *name;
    /* Text for users, the end of an explanation: how to make adapters of different networks communicate.  NULL: no way. */
    const char *apart;
    size_t adapter_size, link_size; /* bytes of the driver's structures, which begin with the public part */
    bool on_request;                /* used only when MAD_DRIVERS names it */
    const madi_upcalls_t *upcalls;  /* only of a driver that wraps others */

    /* List adapters: call madi_adapter_found(session, driver, name) for each.  The only error is MAD_ERR_NOMEM. */
    mad_status_t (*probe)(const madi_driver_t *driver, struct mad_session *session);

    /* Make an adapter usable.  On failure reason holds the cause as a text, and fini is called without close. */
    mad_status_t (*open)(madi_adapter_t *adapter, char *reason);
    void (*close)(madi_adapter_t *adapter);
    void (*fini)(madi_adapter_t *adapter);

    /* Set adapter->security; called when all adapters are open.  given: the madi_security_t in the topology file for the
     * adapter's network, or -1 if none.  With SEAL, start finds link->seal, and all bytes of the link go through it.  On
     * failure like open, but close is called too.  NULL: the driver's network needs no seal, and cannot have one. */
    mad_status_t (*secure)(madi_adapter_t *adapter, int given, char *reason);

    /* Make progress on all links, by about budget packets at most.  Returns the number of events handled. */
    int (*poll)(madi_adapter_t *adapter, int budget);
    /* True if poll would find something.  Cheap, takes no lock, may be wrong in both directions for a limited time.  NULL:
     * only regular polls and watched descriptors find it. */
    bool (*pure_poll)(madi_adapter_t *adapter);
    /* Prepare for sleep: false if there is work already.  In either case disarm is called afterwards.  NULL: watched
     * descriptors suffice.  A packet that a thread of this process sends meanwhile is reported with madi_session_moved. */
    bool (*arm)(madi_adapter_t *adapter);
    void (*disarm)(madi_adapter_t *adapter);

    /* Derive the network's name from an adapter's address bytes, so that addresses need not contain it; false if that is not
     * possible.  name has MADI_NAME_MAX bytes.  Any lock, or none.  NULL: never possible. */
    bool (*network)(const void *addr, size_t len, char *name);
    /* True if this adapter can talk to one whose network has another name: subnets of different lengths, of which one holds
     * the other's address.  NULL: never. */
    bool (*common)(madi_adapter_t *adapter, const char *network, const void *addr, size_t len);
    /* True if an address on a common network really lies in that network, as this host knows it.  The address may be forged,
     * and a connection to it must not lead out of that network.  Under the session's lock.  NULL: always true. */
    bool (*within)(madi_adapter_t *adapter, const void *addr, size_t len);
    /* True if this adapter can reach that address, given a network in common; false sets reason.  NULL: always true. */
    bool (*reachable)(madi_adapter_t *adapter, const void *addr, size_t len, char *reason);
    /* True if an incoming connection, which the core has accepted on listen_fd, may begin its handshake; false sets reason.
     * Called before any byte of it is read.  NULL: true. */
    bool (*admits)(madi_adapter_t *adapter, int fd, char *reason);
    /* Begin to connect to the peer's adapter.  *fd: a non-blocking stream socket, which the caller then owns; or -1 for
     * drivers without sockets, which call madi_link_up later.  MAD_ERR_NOMEM: this process lacks memory or descriptors;
     * MAD_ERR_SYSTEM: the network may be down for a short time. */
    mad_status_t (*connect)(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason);
    /* The handshake is over; the driver takes fd (also on failure).  active: this side called connect. */
    mad_status_t (*start)(madi_link_t *link, int fd, bool active, char *reason);

    /* Send one packet: vec[0] begins with the wire header; total is the sum of lengths.  op NULL: packets up to packet_max;
     * the result is SENT or AGAIN (a driver that can place only a part copies the rest).  With op: up to chunk_max. */
    madi_sent_t (*send)(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
    /* True if, as far as known, a message has arrived since the last one left: the peer then probably waits for the next
     * one, and nothing follows that.  Under the tx lock.  NULL: not known. */
    bool (*answers)(madi_link_t *link);
    /* Return the length of the longest packet that send would take now without an op; it need not be found out beyond `want`
     * bytes.  Called for a block that is too long for packet_max and that need not be announced: if packet and credit
     * suffice, it goes in its message's packet.  Under the tx lock.  NULL: packet_max. */
    size_t (*packet_room)(madi_link_t *link, size_t want);
    /* Like send without op, but for a contiguous packet of at most MADI_PACKET_SHORT bytes; that many are readable at
     * packet.  False: not taken.  NULL: the core calls send. */
    bool (*send_short)(madi_link_t *link, const void *packet, size_t total);
    /* Take the packet that poll would deliver next, if it lies whole in the driver's memory, and return its link; NULL if
     * none, and poll may find one all the same.  Either copy it to packet (header, then MADI_SHORT_MAX to MADI_TAKE_MAX
     * bytes) and leave *loan unset; or copy the header only, and lend the body in *loan as for madi_rx_begin.  Called while
     * the adapter has a link.  A driver without take has only poll.
     * A lent body may lack bytes of its last block that are still being written: then link->begun is set, and the packet
     * stays the next one until keep_begun.  Otherwise poll delivers it when it is complete. */
    madi_link_t *(*take)(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
    /* Remove the incomplete packet that take has just lent, since the core keeps it, and clear link->begun.  Called like
     * take. */
    void (*keep_begun)(madi_link_t *link);
    /* Number of bytes that have arrived of an incomplete lent body; more than its length: all.  begun: the value of
     * link->begun at the loan.  Any thread, until slot_put. */
    uint64_t (*here)(madi_link_t *link, uint64_t begun);
    /* Like take, but for up to max consecutive short packets of one link, which goes to *link.  Each is copied (header, then
     * MADI_SHORT_MAX bytes), stride bytes behind the one before.  Returns their number; with 0, take and poll may find
     * packets all the same.  Called like take.  NULL: the driver has only take. */
    int (*take_short)(madi_adapter_t *adapter, void *packets, size_t stride, int max, madi_link_t **link);
    /* Copy a body in advance to where send would put it, while its grant, and so its header, is awaited.  Returns NULL if
     * there is no space.  One of these follows: send_prepared with the header (false: not taken, the body stays prepared),
     * forget, or link_close.  One body at a time, under the tx lock.  All three NULL: the core calls send. */
    void *(*prepare)(madi_link_t *link, const void *body, size_t len);
    bool (*send_prepared)(madi_link_t *link, const madi_wire_hdr_t *hdr, void *prepared);
    void (*forget)(madi_link_t *link, void *prepared);
    /* Give back a lent body.  NULL: the driver never lends. */
    void (*slot_put)(madi_link_t *link, madi_foreign_t loan);
    /* Read or write the peer's memory without its help, where link->direct is set.  All NULL: never.
     * get reads len bytes into n pieces; the array has room for one more piece, which get may use; under the session's lock.
     * put writes; under the tx lock.  Both are synchronous: the core limits each call to one stride.  False: failed. */
    bool (*get)(madi_link_t *link, struct iovec *to, int n, uint64_t from, size_t len);
    bool (*put)(madi_link_t *link, uint64_t to, const void *from, size_t len);
    /* Stop the peer from writing this process's memory, and have it discard what it reads from now on.  Waits for a put of
     * the peer that is under way.  link_close does likewise.  Under the session's lock. */
    void (*sever)(madi_link_t *link);
    /* At the receiver.  offer advertises a posted receive, and returns its number, or -1 if there is no room.  withdraw
     * always ends the offer; false if the sender has claimed it already.  Under the session's lock. */
    int (*offer)(madi_link_t *link, const madi_offer_t *offer);
    bool (*withdraw)(madi_link_t *link, int number);
    /* At the sender: claim the offer with this position, len and channel.  True if there is one: at is set, and the receiver
     * can no longer withdraw it.  Under the tx lock. */
    bool (*claim)(madi_link_t *link, madi_offer_t *wanted);
    /* True if nothing that send took would be lost by link_close (tcp: the peer's kernel has all of it).  Called in an
     * orderly shutdown, every millisecond until it is true.  NULL: true. */
    bool (*drained)(madi_link_t *link);
    /* Have the network acknowledge received bytes at once, not with the next packet of this side: the peer shuts down and
     * waits until its link has drained.  Under the session's lock.  NULL: the network does so by itself. */
    void (*acknowledge)(madi_link_t *link);
    /* True if something is under way to the peer's host, and that host has acknowledged nothing for ns nanoseconds.
     * (Whether the peer itself computes or is stopped does not matter.)  Under the session's lock.  NULL: not known. */
    bool (*unheard)(madi_link_t *link, int64_t ns);
    /* True if the network makes progress: bytes are under way and the peer's host has acknowledged some within ns
     * nanoseconds, or something has come from it.  (A question may then be queued behind other traffic, and so may its
     * answer.)  Under the session's lock.  NULL: not known. */
    bool (*moves)(madi_link_t *link, int64_t ns);

    /* End the use of a link: the driver makes no upcalls from now on.  Ops in flight complete with MAD_ERR_PEER as soon as
     * the network no longer uses their memory: here, from a later poll, at the latest in link_fini.  A driver that lends
     * must not leave them to link_fini: that waits for the loans, and the holder of a loan may be waiting for the op. */
    void (*link_close)(madi_link_t *link);
    void (*link_fini)(madi_link_t *link);
};

/* ---- Functions of the core for drivers ------------------------------------------------------------------------ */

madi_adapter_t *madi_adapter_found(struct mad_session *session, const madi_driver_t *driver, const char *name);

/* Report that a packet's header has arrived; the result says where the body goes.  Under the session's lock. */
madi_place_t madi_rx_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
/* Report that the body is complete at rx->base.  Under the session's lock. */
void madi_rx_done(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);

/* Deliver a packet that lies whole in the driver's memory: begin, copy and done in one step.  The body has at most
 * MADI_SHORT_MAX bytes, and that many are readable; it may be reused after the call.  Under the session's lock. */
void madi_rx_short(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_foreign_t body);

/* Deliver a packet that lies whole in the driver's memory, its body in a slot of its own: begin, copy and done in one step.
 * slot_put is called with body when it may be reused: now, or, if may_lend, perhaps later.  Under the session's lock. */
static inline void madi_rx_whole(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_foreign_t body, bool may_lend)
{
    madi_rx_t rx = {.loan = may_lend ? body : (madi_foreign_t){0}, .head = body, .here = hdr->length};
    madi_place_t place = madi_rx_begin(link, hdr, &rx);
    if (place == MADI_PLACE_COPY)
        madi_foreign_copy_any(rx.base, madi_foreign_skip(body, rx.skip), hdr->length - rx.skip);
    if (place != MADI_PLACE_KEEP)
        link->driver->slot_put(link, body);
    if (place == MADI_PLACE_COPY)
        madi_rx_done(link, hdr, &rx);
}

const char *madi_security_name(unsigned security); /* "none", "auth", "seal", "unknown" */

/* Report that the link is up: packets can flow. */
void madi_link_up(madi_link_t *link);
/* Report that the link is broken; text is the cause.  The core calls link_close, and link_fini later, never from inside this
 * call. */
void madi_link_down(madi_link_t *link, mad_status_t status, const char *text);
/* Report that a send that was refused may succeed now.  Any lock. */
void madi_link_writable(madi_link_t *link);
/* Add n (may be negative) to the number of packets for which send returned SENT but of which the driver still holds bytes.
 * They leave when it is polled, by the progress thread if the program does not call the library.  Any lock. */
void madi_link_holds(madi_link_t *link, int n);
/* Wake the sleeping leader after an event that no descriptor reports, such as a packet of this process to itself.  Any
 * lock. */
void madi_session_moved(struct mad_session *session);
static inline void madi_adapter_moved(madi_adapter_t *adapter)
{
    atomic_signal_fence(memory_order_seq_cst); /* the sleeper's membarrier is the fence of both sides */
    if (MADI_UNLIKELY(atomic_load_explicit(adapter->attentive, memory_order_relaxed)))
        madi_session_moved(adapter->session);
}
/* True if the host has fewer cores than the job has processes: waiting threads then sleep often, so sleep must be cheap. */
bool madi_crowded(const struct mad_session *session);
void madi_link_lock_tx(madi_link_t *link);
void madi_link_unlock_tx(madi_link_t *link);

/* Watched descriptors: one epoll set per session; ready is called from progress under the session's lock with the
 * EPOLL* events, by whichever thread looks first.  The driver owns the structure and the descriptor.  An event that was
 * fetched before madi_watch_del may still come after it, until link_fini: ready then has nothing to do. */
typedef struct madi_watch madi_watch_t;
struct madi_watch {
    int fd;
    void (*ready)(madi_watch_t *watch, uint32_t events);
    bool carries; /* the driver's: messages arrive by it */
    bool rare; /* the core's: added by madi_watch_add_rare */
};
mad_status_t madi_watch_add(struct mad_session *session, madi_watch_t *watch, uint32_t events);
/* Like madi_watch_add, but for rare events that are served even while the program computes (accept_thread.h): incoming
 * connections, handshakes, the end of a peer; no messages. */
mad_status_t madi_watch_add_rare(struct mad_session *session, madi_watch_t *watch, uint32_t events);
void madi_watch_change(struct mad_session *session, madi_watch_t *watch, uint32_t events);
void madi_watch_del(struct mad_session *session, madi_watch_t *watch);

/* For drivers that try one descriptor by a system call before they poll all of them; both under the session's lock.
 * Return the number of watched descriptors by which messages arrive. */
int madi_watched_carriers(const struct mad_session *session);
/* Handle the events of all watched descriptors, as the core does now and then.  Returns their number. */
int madi_poll_descriptors(struct mad_session *session);

/* The drivers built in, listed in drivers/registry.c; ends with NULL. */
extern const madi_driver_t *const madi_drivers[];

#endif
