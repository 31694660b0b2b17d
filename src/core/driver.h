/* SPDX-License-Identifier: BSD-3-Clause */
/* THE CONTRACT between the core and the drivers.  Written for somebody who adds a network; read drivers/skeleton next.
 *
 * The life of a driver:
 *   probe    lists the adapters of this host that the driver can use.  No hardware is success with none.
 *   open     makes an adapter usable: descriptors, listening socket, network name, address bytes.
 *   connect  opens the way to one peer's adapter.  A driver whose links begin as a stream socket (tcp; shm passes its
 *            memory over one) only makes the socket; the core runs the handshake on it (version, key, who is there)
 *            and then gives it to start(), on both sides.  The driver says madi_link_up() when packets can flow.
 *   send     moves one packet out.   poll  moves packets in and finishes sends.
 *   arm      the process is about to sleep: see that a descriptor becomes readable if something comes.
 *   close    the link or adapter is not used any more; does not wait.   fini  frees it, also when half made.
 *
 * Locks.  There are two: the session's, and one tx lock per link, taken after it.
 *
 *   called with                 functions of the driver
 *   the session's lock          probe open poll arm disarm common reachable connect start drained link_close, ready of a
 *                               watch
 *   the link's tx lock          send, prepare and the like: one sender per link, by any thread, mostly without the
 *                               session's lock
 *   any lock, or none           pure_poll slot_put: any thread, several at once
 *   nobody else about           close and fini of adapters; link_fini (which may find the session's lock held)
 *
 *   may be called with          functions of the core
 *   the session's lock, no tx   madi_rx_* madi_link_up madi_link_down, op->done; madi_watch_add and _del
 *   any lock, or none           madi_link_writable madi_link_holds madi_session_moved
 *                               madi_watch_change
 *
 * op->done and the upcalls take the tx lock themselves and may call send, on this link too: never call them with it held.
 * From poll, ready, and link_close a driver may take a link's tx lock with madi_link_lock_tx.  Locks of a driver's own
 * come last.  Nothing here may block, ever.  A driver never calls the user.
 *
 * What may run beside what.  send is called from madi_link_up on (which other threads may hear before start has returned)
 * and not any more when link_close is called: no send runs in link_close, after it, or in link_fini.  pure_poll of an
 * adapter may run beside everything up to the adapter's close: beside link_fini too, so what it reads is not freed there.
 * slot_put is called until all loans are back, so after link_close too; link_fini waits for that, except at the end of a
 * session, which ends all loans.  link_close comes once, maybe from inside the driver's own madi_link_down, maybe for a
 * link that connect has made and start never saw.  link_fini comes once for every link, never from inside
 * madi_link_down, and alone when connect failed.
 *
 * The order of the packets of one link is kept; between links there is none.  Packets come to the core after
 * madi_link_up and not after madi_link_down; what has come before a link breaks is delivered before it is told.
 *
 * Sealed links.  The core runs TLS below the handshake.  What it has received beyond that waits in link->seal: start looks.
 *
 * Bytes that are lent, or shown (rx->loan, rx->head, the body of a short packet), may change while the core reads them: the
 * core copies what it parses, once (base/foreign.h).  A driver does the same with what it reads in shared memory.  A header
 * that a driver hands over is a copy.
 *
 * Memory.  The core allocates adapters and links, zeroed, of the sizes declared here, the public part first.
 * Statuses are set with the errors of madeleine/status.h; the driver logs nothing that it can say in the reason text.
 */
#ifndef MADI_DRIVER_H
#define MADI_DRIVER_H

#include "base/base.h"
#include "base/foreign.h"
#include "core/path.h"
#include "core/wire.h"
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
    bool last; /* nothing else follows that the program waits for: the sooner this is done, the better */
    uint64_t of; /* bytes of the block that this is a piece of */
    size_t ahead; /* so many first bytes of what send is given are another packet, whose memory does not stay: what cannot leave
                   * at once is copied.  0, unless caps.ahead */
};

/* What a link of an adapter can do; plain data, set by open. */
typedef struct madi_caps {
    size_t packet_max;    /* the longest packet (header included) that send always takes without an op: MADI_PACKET_MIN to 32
                           * KiB, for credit comes back in halves of MAD_CREDIT_FLOOR, and one must pay for a packet */
    size_t chunk_max;     /* the longest packet that send takes with an op (pieces of granted blocks): at least as above */
    size_t chunk_min;     /* not 0: the driver copies, and overlaps its copying with the peer's when a block goes in
                           * several pieces, of this size at least; less than chunk_max */
    size_t rdv_min;       /* blocks from here on are better granted first than copied */
    size_t cont_min;      /* blocks from here on, and below rdv_min, begin in their message's packet and go on in a packet of
                           * their own, up to chunk_max, which the receiver's driver may put where the block is to be.  0: none */
    size_t direct_min;    /* not 0: of a sender that waits and answers, where link->direct, those from here on are better
                           * announced, and read by the receiver.  At most rdv_min; both are as path.h has them */
    size_t rdv_eager;     /* so many bytes of such a block may go ahead of the grant */
    int gather_max;       /* pieces that send takes: 16 or more, for the core sends up to 16 */
    double latency_us;    /* one way, small */
    double bandwidth_MBs;
    int rank;             /* of two ways to a peer the one with the lower rank is used: self 0, shm 10, tcp 50,
                           * virtual 200 */
    bool self;            /* reaches this process itself, and nobody else */
    bool ahead;           /* send takes a packet, as it takes one without an op, ahead of one with an op: in one go.  Then
                           * gather_max is 18 or more */
    bool many;            /* send may be given an op that is taken already: done is called as often as it was taken, and
                           * the header is copied */
} madi_caps_t;

/* How a network is protected; values travel. */
typedef enum madi_security {
    MADI_SECURITY_NONE = 0,
    MADI_SECURITY_AUTH = 1, /* both ends prove a key of the job as they connect */
    MADI_SECURITY_SEAL = 2  /* and all that follows is encrypted and authenticated */
} madi_security_t;

struct madi_adapter {
    const madi_driver_t *driver;
    struct mad_session *session;
    char name[MADI_NAME_MAX];    /* set by probe: the device */
    char network[MADI_NAME_MAX]; /* set by open: adapters of one driver talk iff these are equal, or driver->common says so */
    madi_caps_t caps;            /* set by open */
    unsigned char address[MADI_ADDR_MAX]; /* set by open */
    size_t address_len;
    const unsigned char *identity; /* the core's: 16 random bytes, those of the session */
    uint8_t security; /* madi_security_t: AUTH, unless open sets it */
    int listen_fd; /* set by open: a listening socket that the core accepts on, or -1 */
    bool opened;   /* the core's */
    const _Atomic(int) *attentive; /* the core's, for madi_adapter_moved */
};

typedef enum madi_link_state { MADI_LINK_CONNECTING, MADI_LINK_UP, MADI_LINK_DOWN } madi_link_state_t;

struct madi_link {
    const madi_driver_t *driver;
    madi_adapter_t *adapter;
    struct madi_gate *gate;    /* the core's: the peer */
    _Atomic(int) state;        /* madi_link_state_t; set by the core */
    uint64_t begun;            /* the driver's: not 0 after take has lent a body that is still being written */
    bool direct;               /* set before madi_link_up: get and put work */
    madi_link_t *outer;        /* NULL; or this link is wrapped by that one, whose driver's upcalls hear of it */
    madi_link_t *next_dead;    /* the core's */
    _Atomic(uint32_t) loans;   /* the core's: lent bodies that it still holds */
    unsigned char secret[32];  /* the core's: known to the two ends only, from start on (proof.h) */
    struct madi_seal *seal;    /* from start on: the connection is sealed (seal.h); NULL: it is not.  The driver uses it until
                                * link_fini, and the core frees it after that */
};

/* A receive that was posted, for the one block of the message that begins at this position of the channel. */
typedef struct madi_offer {
    uint64_t position; /* credit bytes of the packets before it */
    uint64_t len;
    uint64_t at; /* address */
    uint16_t channel; /* the sender's number */
} madi_offer_t;

typedef enum madi_sent {
    MADI_SENT,  /* done: the buffers may be reused, nothing will be called */
    MADI_TAKEN, /* taken: op->done is called later (only when op was given).  What vec points to, the header too, stays
                 * as it is until then; vec itself does not. */
    MADI_AGAIN  /* not taken, or the link is broken (madi_link_down then says so).  The core tries again when it polls, and
                 * sleeps a millisecond at most as long as something is refused; madi_link_writable makes that sooner */
} madi_sent_t;

/* Where the body of an incoming packet goes. */
typedef enum madi_place {
    MADI_PLACE_COPY, /* put hdr.length bytes at rx->base, then call madi_rx_done */
    MADI_PLACE_KEEP, /* the core keeps rx->loan (and has used the packet): the driver leaves these bytes alone until
                      * its slot_put is called with the same pointer, which may be before madi_rx_begin has returned.
                      * No madi_rx_done. */
    MADI_PLACE_DROP, /* read and forget the body; no madi_rx_done */
    MADI_PLACE_LATER /* only if rx->defer was set: keep the packet, poll no further on this link, and ask again in the next
                      * poll; until then the program may name a place.  At most once a packet */
} madi_place_t;

typedef struct madi_rx {
    madi_foreign_t loan; /* in: all hdr.length bytes of the body lie here, at any alignment, and may be lent; else not set */
    void *base;   /* out, for COPY */
    void *cookie; /* the core's */
    uint64_t more; /* the core's */
    /* Only of FORWARD packets.  in: so many of the body's first bytes can be read at head (of such packets a driver that
     * can waits for MADI_FORWARD_HEAD of them); not set, 0: none.  Where all can, DROP may mean that they were used.
     * out, for COPY: so many are left out of what is put at base. */
    madi_foreign_t head;
    uint32_t here, skip;
    bool defer;   /* in: LATER may be answered */
} madi_rx_t;

/* A driver that wraps others (fault) makes their links itself and sets outer in them; what their drivers then say to the
 * core comes here, under the same locks. */
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
    /* What would bring two adapters together whose networks differ: the end of an explanation.  NULL: nothing can. */
    const char *apart;
    size_t adapter_size, link_size; /* bytes of the driver's structures, which begin with the public part */
    bool on_request;                /* used only when MAD_DRIVERS names it */
    const madi_upcalls_t *upcalls;  /* only of a driver that wraps others */

    /* List adapters: call madi_adapter_found(session, driver, name) for each.  Errors only of memory. */
    mad_status_t (*probe)(const madi_driver_t *driver, struct mad_session *session);

    /* Make it usable.  On failure: reason says why in words, fini is called (and not close). */
    mad_status_t (*open)(madi_adapter_t *adapter, char *reason);
    void (*close)(madi_adapter_t *adapter);
    void (*fini)(madi_adapter_t *adapter);

    /* All adapters are open.  given: the madi_security_t that the topology file has for the adapter's network, or -1.  Set
     * adapter->security; where that becomes SEAL, start finds link->seal, and what goes over the link goes through it.  On
     * failure like open, but close is called too.  NULL: the driver's network needs no seal, and cannot have one. */
    mad_status_t (*secure)(madi_adapter_t *adapter, int given, char *reason);

    /* Move what can be moved; at most about budget packets.  Returns how many events were handled. */
    int (*poll)(madi_adapter_t *adapter, int budget);
    /* Would poll find something?  Cheap, takes no lock, may err on both sides but not for ever.  NULL: only polls that
     * happen anyway and watched descriptors find it. */
    bool (*pure_poll)(madi_adapter_t *adapter);
    /* Before sleep: returns false when there is work already.  Afterwards, in either case, disarm.  NULL: watched
     * descriptors do.  What a thread of this process sends meanwhile is told with madi_session_moved. */
    bool (*arm)(madi_adapter_t *adapter);
    void (*disarm)(madi_adapter_t *adapter);

    /* The network name that follows from an adapter's address bytes, so that addresses need not spell it out; false: none
     * does.  name has MADI_NAME_MAX bytes.  Any lock, or none.  NULL: never. */
    bool (*network)(const void *addr, size_t len, char *name);
    /* True if this adapter can talk to one whose network has another name: subnets of different lengths, of which one holds
     * the other's address.  NULL: never. */
    bool (*common)(madi_adapter_t *adapter, const char *network, const void *addr, size_t len);
    /* True if an address with which this adapter has a network in common lies in that network, as this host knows it, so that a
     * call leads nowhere else: whoever named the address may have made it up.  Under the session's lock.  NULL: always. */
    bool (*within)(madi_adapter_t *adapter, const void *addr, size_t len);
    /* Could this adapter reach the one with that address, given a network in common?  NULL: yes.  reason on false. */
    bool (*reachable)(madi_adapter_t *adapter, const void *addr, size_t len, char *reason);
    /* May this connection, which the core has accepted on listen_fd, begin its handshake?  Before a byte of it is read.  NULL:
     * yes.  reason on false. */
    bool (*admits)(madi_adapter_t *adapter, int fd, char *reason);
    /* A non-blocking stream socket on its way to the peer's adapter goes to *fd (the caller owns it), or for drivers
     * without sockets -1, and the driver calls madi_link_up later.  MAD_ERR_NOMEM: it is this process that lacks memory or
     * descriptors; MAD_ERR_SYSTEM: the network may be gone, and be back soon. */
    mad_status_t (*connect)(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason);
    /* The handshake is over; the driver takes fd (also on failure).  active: this side called connect. */
    mad_status_t (*start)(madi_link_t *link, int fd, bool active, char *reason);

    /* Send one packet: vec[0] begins with the wire header; total is the sum.  op NULL: packets up to packet_max, answer
     * SENT or AGAIN (a driver that can place only a part of it copies the rest).  op: up to chunk_max. */
    madi_sent_t (*send)(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
    /* True if a message has come since the last one left, as far as that is known: the next one is likely to be waited for,
     * and nothing follows it.  Under the tx lock.  NULL: it is not known. */
    bool (*answers)(madi_link_t *link);
    /* How long may the next packet be that send takes without an op?  Asked where a block longer than packet_max allows, and
     * shorter than rdv_min, would have to wait for its grant; it goes in its message's packet if that is long enough, and
     * there is credit for it.  Under the tx lock.  NULL: packet_max. */
    size_t (*packet_room)(madi_link_t *link);
    /* The same for a packet of at most MADI_PACKET_SHORT bytes, in one piece, with so many bytes readable: false: not
     * taken.  NULL: send does it. */
    bool (*send_short)(madi_link_t *link, const void *packet, size_t total);
    /* Does the packet that poll would hand over next lie whole in the driver's memory?  Then forget it and return its link.
     * Either copy it to packet (header, then at least MADI_SHORT_MAX and at most MADI_TAKE_MAX bytes) and leave *loan alone;
     * or copy the header only, and lend the body as for madi_rx_begin: *loan.  NULL says nothing about what poll finds.
     * Called while the adapter has a link.  A driver without this has only poll.
     * A lent body may lack bytes of its last block that are still being written: then link->begun is set, and the packet is
     * not forgotten yet (keep_begun).  poll hands it over when all of it is there. */
    madi_link_t *(*take)(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
    /* Forget the packet that take has just lent, for the core keeps it, and clear link->begun.  Called like take. */
    void (*keep_begun)(madi_link_t *link);
    /* Number of bytes that are there of a body that was lent so; more than it has: all.  Any thread, until slot_put. */
    uint64_t (*here)(madi_link_t *link, uint64_t begun);
    /* The same of short packets, several at once: as many as come next, at most max, all of one link, which goes to *link.
     * Each is copied (header, then MADI_SHORT_MAX bytes) to a place of its own, stride bytes behind the one before.  Their
     * number; 0 says nothing about what take and poll find.  Called like take.  NULL: the driver has only take. */
    int (*take_short)(madi_adapter_t *adapter, void *packets, size_t stride, int max, madi_link_t **link);
    /* Copy a body to where send would put it, for a packet whose header is not known yet: it waits for its grant.  NULL: no
     * space.  Then either send_prepared with its header (false: not taken; the body stays prepared), or forget, or
     * link_close.  One at a time, under the tx lock.  All three NULL: send does it. */
    void *(*prepare)(madi_link_t *link, const void *body, size_t len);
    bool (*send_prepared)(madi_link_t *link, const madi_wire_hdr_t *hdr, void *prepared);
    void (*forget)(madi_link_t *link, void *prepared);
    /* Give back a lent body.  NULL: the driver never lends. */
    void (*slot_put)(madi_link_t *link, madi_foreign_t loan);
    /* The peer's memory, without its help; where link->direct says so.  All NULL: never.
     * get reads len bytes into n pieces (of which there is room for one more, which it uses); under the session's lock.
     * put writes; under the tx lock.  They take as long as that takes: the core asks for strides.  False: it did not work. */
    bool (*get)(madi_link_t *link, struct iovec *to, int n, uint64_t from, size_t len);
    bool (*put)(madi_link_t *link, uint64_t to, const void *from, size_t len);
    /* From now on the peer does not write the memory of this process, and what it reads it forgets.  Waits for a put of the
     * peer that is under way.  link_close does the same.  Under the session's lock. */
    void (*sever)(madi_link_t *link);
    /* The receiver: tell a posted receive; a number, or -1: no room.  Withdraw it, in any case; false: the sender has claimed
     * it.  Under the session's lock. */
    int (*offer)(madi_link_t *link, const madi_offer_t *offer);
    bool (*withdraw)(madi_link_t *link, int number);
    /* The sender: is there such a one (position, len, channel)?  Then at is set, and nobody else can.  Under the tx lock. */
    bool (*claim)(madi_link_t *link, madi_offer_t *wanted);
    /* Is everything that send took out of the driver's hands, so that link_close does not lose it?  (In tcp: the peer's
     * kernel has it.)  For an orderly end, which asks again every millisecond until it is.  NULL: yes. */
    bool (*drained)(madi_link_t *link);
    /* Have the network acknowledge at once what has come, rather than with what this side sends next: the peer has ended in
     * order, and waits until it has drained.  Under the session's lock.  NULL: the network does. */
    void (*acknowledge)(madi_link_t *link);
    /* Is something under way to the peer's host, and did that acknowledge nothing for so many ns?  (Whether the peer itself
     * computes or is stopped does not matter.)  Under the session's lock.  NULL: not known. */
    bool (*unheard)(madi_link_t *link, int64_t ns);
    /* Is the network at work: has the peer's host acknowledged something within so many ns, and more is under way to it, or
     * has something come from it?  (Then a question may be behind much else, and so may its answer.)  Under the session's
     * lock.  NULL: not known. */
    bool (*moves)(madi_link_t *link, int64_t ns);

    /* No upcalls any more.  Ops that are still taken are done with MAD_ERR_PEER as soon as the network has let go of their
     * memory: here, from a later poll, at the latest in link_fini.  A driver that lends does not leave them to link_fini:
     * that waits for the loans, and who holds one may be waiting for the op. */
    void (*link_close)(madi_link_t *link);
    void (*link_fini)(madi_link_t *link);
};

/* ---- What the core offers to drivers -------------------------------------------------------------------------- */

madi_adapter_t *madi_adapter_found(struct mad_session *session, const madi_driver_t *driver, const char *name);

/* A packet's header is in.  Under the session's lock. */
madi_place_t madi_rx_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
/* Its body is at rx->base.  Under the session's lock. */
void madi_rx_done(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);

/* A packet that lies whole in the driver's memory, at most MADI_SHORT_MAX bytes of body, in a place of at least that many
 * bytes.  The same as begin, copy, done, in one step; the body may be reused when it returns. Under the session's lock. */
void madi_rx_short(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_foreign_t body);

/* A packet that lies whole in the driver's memory, its body in a place of its own: begin, copy, done, in one step.  slot_put
 * is called with body when it may be reused: now, or if may_lend later.  Under the session's lock. */
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

/* Packets can flow. */
void madi_link_up(madi_link_t *link);
/* The link is broken; text says why.  The core calls link_close, and link_fini later, never from inside this call. */
void madi_link_down(madi_link_t *link, mad_status_t status, const char *text);
/* A send that was refused may go now.  Any lock. */
void madi_link_writable(madi_link_t *link);
/* The driver holds so many packets more (less) that send has answered with SENT, in part or whole: they leave when it is
 * polled, and shall do so though nobody calls the library.  Any lock. */
void madi_link_holds(madi_link_t *link, int n);
/* Something has changed that the sleeping leader would not hear of, such as a packet of this process to itself: wake it.
 * Any lock. */
void madi_session_moved(struct mad_session *session);
static inline void madi_adapter_moved(madi_adapter_t *adapter)
{
    atomic_signal_fence(memory_order_seq_cst); /* the sleeper's membarrier is the fence of both sides */
    if (MADI_UNLIKELY(atomic_load_explicit(adapter->attentive, memory_order_relaxed)))
        madi_session_moved(adapter->session);
}
/* Has the host fewer cores than the job has processes?  Then who waits sleeps often, and sleeping has to be cheap. */
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
    bool carries; /* the driver's: messages come by it */
    bool rare; /* the core's: as it was added */
};
mad_status_t madi_watch_add(struct mad_session *session, madi_watch_t *watch, uint32_t events);
/* The same for what comes seldom and is answered though the program computes (accept_thread.h): who calls, what belongs to a
 * handshake, the end of a peer; no messages. */
mad_status_t madi_watch_add_rare(struct mad_session *session, madi_watch_t *watch, uint32_t events);
void madi_watch_change(struct mad_session *session, madi_watch_t *watch, uint32_t events);
void madi_watch_del(struct mad_session *session, madi_watch_t *watch);

/* For drivers that try one descriptor by a system call before they ask for all: watched ones by which messages come; and
 * handle the events of all that are watched, as the core does now and then; returns them.  Both under the session's lock. */
int madi_watched_carriers(const struct mad_session *session);
int madi_poll_descriptors(struct mad_session *session);

/* The drivers built in, listed in drivers/registry.c; ends with NULL. */
extern const madi_driver_t *const madi_drivers[];

#endif
