/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's objects.  Included by core.h.
 *
 *   session -- peers -- gate (a peer that was spoken to: one link, all channels)
 *      |                  |
 *   channels ----------- conn (channel x peer) -- tx (a message being packed or sent)
 *                                              \- rx (a message that arrived)
 *
 * Locks, in this order (see doc/locking.md):
 *   session->lock   everything that is received, matched, or connected; progress
 *   gate->tx_lock   everything that leaves for one peer
 * conn->packing is held by the one message being packed; it is taken first and released under tx_lock.
 * User code is called with none of them.
 */
#ifndef MADI_CORE_OBJECTS_H
#define MADI_CORE_OBJECTS_H

#include "base/base.h"
#include "boot/boot.h"
#include "core/driver.h"
#include "core/forward.h"
#include "core/ledger.h"
#include "core/share.h"
#include "core/trace.h"
#include "engine/accept_thread.h"
#include "engine/engine.h"
#include <madeleine.h>

typedef struct madi_gate madi_gate_t;
typedef struct madi_conn madi_conn_t;
typedef struct madi_tx madi_tx_t;
typedef struct madi_rx_msg madi_rx_msg_t;

/* ---- Messages ------------------------------------------------------------------------------------------------- */

enum madi_message_kind { MADI_MESSAGE_TX = 1, MADI_MESSAGE_RX = 2 };

/* What the user holds as mad_connection_t: the first member of tx and rx. */
struct mad_connection {
    uint8_t kind;
    /* What the short paths ask: nothing out of the ordinary about it.  Sending: all blocks are in `small`, nothing has
     * left.  Receiving: all of the message is in the packet at hand (1), and this structure holds it (2), or it is lent
     * and nothing else is to be cleared (3), or it is lent and being written (4).  Only the thread that has the message changes it. */
    uint8_t plain;
    _Atomic(int) status; /* the first failure */
    mad_session_t *session;
};

/* Completion that a call waits for. */
typedef struct madi_waitable {
    _Atomic(int) done;
    marceli_waiter_t *waiter; /* NULL: who waits for it is woken by other means */
} madi_waitable_t;

/* What request->state is, if it is not a waiter. */
enum { MADI_REQUEST_PENDING, MADI_REQUEST_DONE, MADI_REQUEST_CALLBACK /* pending, with a callback */ };

/* Whether the progress thread has to be there: at once, only if the peer takes long, or not: its owner will ask.
 * 0: over, or never. */
enum { MADI_COUNTED = 1, MADI_COUNTED_LATER, MADI_COUNTED_NOT };

struct mad_request {
    _Atomic(uintptr_t) state; /* the above, or the waiter that waits for it */
    _Atomic(int) let_go;      /* by who completed it and woke that waiter */
    mad_status_t status;
    mad_session_t *session;
    void (*callback)(void *arg, mad_status_t status);
    void *arg;
    mad_request_t *next; /* in the session's list of callbacks to run */
    int counted;         /* by the progress thread: 0, or as above; fixed when its owner has it */
    bool counted_called; /* once more, since it has a callback; its owner's until the state says so */
    /* What it is for; both NULL once done. Under session->lock. */
    madi_tx_t *tx;
    madi_rx_msg_t *rx;
    struct madi_posted *posted;
};

/* ---- Sending -------------------------------------------------------------------------------------------------- */

#define MADI_STAGE 2560     /* bytes of a message that are kept in wire format as they are packed */
#define MADI_COPY_MAX 192   /* CHEAPER blocks up to this are copied as they are packed: cheaper than a gather entry */
#define MADI_COPY_INLINE 64 /* blocks up to this take the shortest path */
#define MADI_COPY_SHORT 2048 /* blocks up to this are copied as long as a message is plain */
#define MADI_PLAIN_MAX 65536 /* blocks up to this are copied out of a plain message without a lock */
#define MADI_GATHER 16      /* pieces of a packet */

/* A part of a message in packing order: a run of blocks in wire format, or one block that lies elsewhere. */
typedef struct madi_piece {
    const void *base;   /* block: where; NULL: in segments */
    struct iovec *segs; /* block in several segments: allocated */
    int n_segs;
    bool run;           /* off and len: bytes of the stage buffer */
    bool later;         /* block: value as at end_packing */
    uint64_t desc;      /* block: its descriptor */
    uint32_t off, len;
    void *own;          /* block: memory to free when the message is done (a copy) */
    uint32_t handle;    /* block by rendezvous: its handle, else 0 */
} madi_piece_t;

/* A granted block on its way. */
typedef struct madi_rdv_send {
    madi_op_t op; /* must be first */
    madi_tx_t *tx;
    const unsigned char *base; /* NULL: in segments */
    const struct iovec *segs;
    int n_segs;
    uint64_t len, sent;
    uint64_t end;       /* this side moves what is before it; len, unless the block is shared */
    uint64_t put_at;    /* shared: the block's address at the receiver, where it can be written; else 0 */
    bool readable;      /* its address was announced */
    bool shared;
    bool fetched;       /* shared: the receiver has what is behind end */
    void *prepared; /* the next piece lies in the driver's memory already; then gate->prepared */
    size_t prepared_len;
    uint32_t receiver;
    uint32_t handle;
    bool granted;
    int busy;           /* so many pieces the driver has */
    bool held;          /* LATER, and the message has not ended */
    int64_t began, piece_began; /* traced */
    madi_wire_hdr_t hdr;
    struct madi_rdv_send *next; /* in gate->granted */
} madi_rdv_send_t;

/* A message on its way out.  Where it is, and who may change it:
 *
 *   conn->spare      while it is packed (by the holder of conn->packing), and between messages: it is used again
 *   conn->queue      queued, from the flush or the end on, under tx_lock; flushed: the packer adds to it meanwhile
 *   conn->deferred   ended, a one-call message that waits for the end of somebody's packing; under tx_lock
 *   in no list       all_sent, but granted blocks are on their way: rdv_pending counts them down, under tx_lock
 *
 * It is over when it is ended, all_sent, not queued, and rdv_pending is 0 (madi_tx_check_complete).  A message with a
 * request is freed then and there; else the thread that ended it waits, and frees it. */
struct madi_tx {
    mad_connection_t base;
    madi_conn_t *conn;
    madi_tx_t *next;       /* in conn->queue */
    mad_request_t *request;
    madi_waitable_t *wait; /* of the thread that ends it */
    unsigned char *stage;  /* starts as small; header space first */
    uint32_t stage_len, stage_cap, run_start;
    madi_piece_t *pieces;  /* NULL while the whole message is one run */
    uint32_t n_pieces, cap_pieces, next_piece;
    uint32_t seq;
    uint32_t rdv_pending;  /* rendezvous blocks not finished */
    uint32_t n_held;       /* of these, such as were announced before the end and wait for it */
    uint64_t cont_left;    /* bytes of the piece next_piece that go in packets of their own: it has begun; 0: it has not */
    bool cont_busy;        /* the driver has such a packet: cont_op and cont_hdr */
    madi_op_t cont_op;
    madi_wire_hdr_t cont_hdr;
    int64_t began;         /* traced: when it was queued */
    uint64_t put_at, put;  /* the first block goes to this address of the receiver's; so much of it is there */
    bool put_tried;        /* it is known whether it does */
    bool by_peer;          /* its long block may be fetched by the peer */
    bool polled;           /* or its sender polls, and can move a part of it */
    bool started, ended, queued, all_sent;
    bool flushed; /* the packer's: progress may be sending it, so pieces and stage are changed under tx_lock only */
    _Alignas(16) unsigned char small[MADI_STAGE];
};

/* ---- Receiving ------------------------------------------------------------------------------------------------ */

/* A packet of a message that waits for the receiver. */
typedef struct madi_rx_packet {
    struct madi_rx_packet *next;
    madi_foreign_t data; /* in this allocation, or a loan */
    uint32_t len, cost;
    bool last;
    bool cont;   /* it goes on with the block of the packet before */
    bool inside; /* not an allocation of its own */
    madi_foreign_t loan;
    madi_link_t *link;
} madi_rx_packet_t;

/* A block that was unpacked CHEAPER before it was there, or is on its way by rendezvous. */
typedef struct madi_rx_block {
    struct madi_rx_block *next;
    struct iovec *pieces; /* behind this structure */
    int n;
    uint64_t desc; /* what the receiver expects */
    uint32_t index;
    bool waiting; /* in the message's list of blocks not there yet */
} madi_rx_block_t;

/* A granted block that mad_try_unpack or mad_borrow asked for, and that comes into memory of the library. */
typedef struct madi_rx_early {
    uint64_t desc; /* what the sender packed */
    madi_waitable_t here;
    bool borrowed; /* the caller has seen it where it is */
    _Alignas(16) unsigned char data[];
} madi_rx_early_t;

/* A granted block on its way in. */
typedef struct madi_rdv_recv {
    madi_rx_msg_t *msg;
    madi_gate_t *gate;
    uint64_t len, received, eager;
    uint64_t end;      /* what is before it comes from the sender, the rest is read from the sender's memory */
    uint64_t read;     /* so far */
    bool shared;       /* the sender may write what is before end here, all but the end of it */
    bool timed;        /* it is one of those of which it is learned whether to share them */
    int64_t granted;   /* when; of these */
    uint32_t handle;
    void *bounce; /* scattered destination: filled whole, then spread */
    madi_waitable_t *wait; /* or NULL */
    struct madi_rdv_recv *next, *prev; /* in gate->incoming */
    uint64_t at;       /* where it lies in the sender's memory, which is read from there; 0: the sender sends it */
    uint32_t sender;   /* the sender's handle */
    int64_t began, piece_began; /* traced */
    struct madi_rdv_recv *next_pull; /* in gate->pulls */
    int n;
    struct iovec pieces[];
} madi_rdv_recv_t;

#define MADI_RX_INLINE MADI_TAKE_MAX /* bytes of a first packet that live in the message itself */

/* A message on its way in.  Where it is, and who may change it:
 *
 *   conn->arriving   not complete: further packets are added, under session->lock; beside one of the following
 *   conn->ready      not opened; or in session->handled (for a handler).  Messages in these lists hold credit (cost)
 *   the user         opened: while it is plain the user's thread alone reads it, without a lock; otherwise it goes on
 *                    under session->lock, for packets and granted blocks come in beside.  conn->live if not complete
 *   in no list       ended with a request: who brings what was missing finishes it (madi_rx_finish)
 *
 * Its structure is used again (madi_rx_free) by who ends it; one in session->rx_ring is never freed before the session. */
struct madi_rx_msg {
    mad_connection_t base;
    madi_foreign_t cur, end; /* the current packet, not yet unpacked part */
    union {
        struct {
            bool cur_last; /* the current packet is the message's last */
            bool complete; /* the last packet has arrived */
            bool opened;   /* somebody unpacks it */
            bool ended;    /* end_unpacking was called */
            uint32_t index; /* of the next block */
        };
        uint64_t state; /* all of these, in this order from the lowest byte */
    };
    bool live;                      /* in conn->live */
    bool lost;                      /* the rest of it will not come */
    bool consumed;                  /* a handler has what it wants: the rest is no disagreement */
    bool placed;                    /* the first block was offered, and the sender has written it there */
    uint32_t cost;                  /* credit bytes held until it is opened */
    madi_conn_t *conn;
    madi_rx_packet_t *current;      /* owns cur..end, or NULL: in here */
    madi_rx_packet_t first;         /* of a body that is lent */
    uint64_t begun;                 /* of plain 4, the driver's: cur..end is what is there, and the last block goes on */
    madi_rx_packet_t *head, **tail; /* further packets */
    madi_rx_block_t *blocks, **blocks_tail; /* waiting */
    _Atomic(uint32_t) rdv_pending;
    uint64_t rdv_bytes;             /* of all blocks that were granted; under session->lock */
    madi_rx_early_t *early;         /* the next block, if it is on its way already */
    uint64_t cont_left;             /* bytes of the block before the cursor that the next packets bring */
    _Atomic(struct madi_rdv_recv *) cont; /* where they go; NULL: nobody wants them.  Changed under session->lock */
    bool put_off;                   /* a packet of these was left to the driver's next poll, once */
    mad_request_t *request;
    int64_t began;                  /* traced: when its first packet was there */
    marceli_waiter_t *waiter;          /* a call that waits for more of it; under session->lock */
    madi_rx_msg_t *next;            /* in conn->ready */
    madi_rx_msg_t *ring;            /* the next in the session's ring */
    _Atomic(uint8_t) used;          /* cleared by who ends the message, without a lock */
    madi_rx_msg_t *next_live;
    _Alignas(16) madi_wire_hdr_t hdr; /* of the first packet */
    unsigned char data[MADI_RX_INLINE]; /* right behind it */
};

/* A receive posted before the message. */
typedef struct madi_posted {
    mad_request_t request; /* must be first: whoever frees it frees this */
    struct madi_posted *next;
    madi_conn_t *conn;
    int offer;    /* the driver's number of what the sender was told; -1: nothing */
    bool claimed; /* by the sender, which has written the block or is at it */
    int n;
    mad_block_t blocks[];
} madi_posted_t;

/* ---- Connections and gates ------------------------------------------------------------------------------------ */

/* Messages, and bytes of their packets as credits count them: headers included, in cache lines. */
typedef struct madi_traffic {
    uint64_t messages_out, bytes_out, messages_in, bytes_in;
} madi_traffic_t;

struct madi_conn {
    /* Sending: the packing holder ... */
    _Atomic(int) packing;
    _Atomic(int) waiting; /* for that: threads, and one more if messages are deferred */
    madi_tx_t *spare; /* the holder's message; between messages: ready to be used again, or NULL */
    mad_channel_t *channel;
    madi_gate_t *gate;
    uint16_t number;  /* this side's number for the channel on this gate's link */
    uint8_t flags;    /* of its packets: MADI_WIRE_MODES or 0 */
    mad_peer_t peer;  /* the gate's */
    uint64_t whole;   /* the first half of the header of a message in one packet, without the length */
    /* ... and under gate->tx_lock. */
    bool announced;   /* the peer has been told the number */
    bool closing;     /* the channel is closed: when nothing is left to send the number goes back (number.c) */
    bool handed;      /* the peer has been told that no more comes; it has not said yet that it is done with the number */
    marceli_waiters_t packers; /* they wait for packing */
    bool in_pending;
    bool has_deferred; /* counted in waiting */
    bool starved;     /* the head waits for credits */
    uint64_t tx_seq;     /* messages so far */
    uint64_t tx_cost_before; /* of all packets before the credits began anew */
    uint32_t n_blocks;   /* announced, and not finished */
    uint64_t block_bytes_out; /* of blocks that were granted, written, or read by the peer */
    /* Valid while quick is not 0. */
    madi_link_t *link;
    bool (*send_short)(madi_link_t *link, const void *packet, size_t total);
    uint64_t quick;        /* credits left while a message may go at once: the way is open, and nothing is before it */
    uint64_t credit_left;  /* credits left otherwise; one of the two is 0 */
    uint64_t credit_limit; /* as the receiver told it: all that it ever gave */
    madi_tx_t *queue, **queue_tail;       /* head sends */
    madi_tx_t *deferred, **deferred_tail; /* one-call messages that wait for the end of an open packing */
    madi_conn_t *next_pending;
    /* Receiving, under session->lock. */
    _Alignas(MADI_LINE) madi_rx_msg_t *ready;
    madi_rx_msg_t **ready_tail;
    madi_link_t *rx_link;    /* the gate's, valid while rx_head is not 0 */
    uint32_t rx_head;        /* how the header of a whole message begins that may be opened at once; 0: none may */
    madi_rx_msg_t *arriving; /* a message whose last packet has not come */
    madi_rx_msg_t *live;     /* opened messages, for the peer's death */
    madi_posted_t *posted, **posted_tail;
    marceli_waiters_t openers; /* they wait for a message of this peer */
    bool in_ready;
    madi_conn_t *next_ready; /* in channel->ready */
    uint64_t rx_limit;              /* the last limit of credits that the sender was told */
    uint64_t rx_tell;               /* when so much has been given back in all it is told again */
    int64_t rx_left;                /* until then */
    uint64_t rx_messages;
    uint64_t rx_cost_before; /* as tx_cost_before */
    uint64_t block_bytes_in;
    uint64_t rx_window, rx_floor;
    uint64_t rx_held;        /* credit of what has arrived and was not asked for yet */
    uint16_t remote;         /* the peer's number for the channel */
    bool remote_known;
    bool remote_closing;     /* no message follows; the peer waits for its number */
    bool seen;               /* the channel was open since the peer told its number */
    bool unopened;           /* the channel is not open: what comes waits, and is charged to the peer (unopened.c) */
    bool unopened_counted;   /* as one of the peer's channels */
    int64_t unopened_bytes;  /* charged for its messages */
    madi_conn_t *next_of_channel;
    madi_conn_t *next_of_gate;
};

#define MADI_CTRL_MAX 128 /* bytes of the longest control packet's body */

enum madi_gate_state { MADI_GATE_IDLE, MADI_GATE_CONNECTING, MADI_GATE_UP, MADI_GATE_DOWN };

struct madi_gate {
    madi_lock_t tx_lock;
    mad_peer_t peer;
    int lane; /* forward.h */
    mad_session_t *session;
    _Atomic(int) state;
    mad_status_t status; /* why it is down */
    madi_link_t *link;
    /* Under tx_lock. */
    madi_conn_t *pending, *pending_last;      /* connections with packets to send */
    struct madi_ctrl *ctrl, **ctrl_tail;      /* control packets that did not fit */
    madi_rdv_send_t *granted, **granted_tail; /* granted blocks to send */
    struct madi_handles *sends;               /* madi_rdv_send by handle */
    bool prepared;                            /* one of these has a piece in the driver's memory */
    bool shares;                              /* the peer has shared the last block that it could */
    madi_conn_t **by_number; /* our numbers of channels; NULL: free */
    uint32_t n_numbers, used_numbers, next_number;
    _Atomic(int) work; /* in the session's list of gates with something to send */
    /* Under session->lock. */
    void *half;              /* a message, or a further packet of one, whose body is coming in; NULL: none */
    bool half_first;         /* it is a message */
    _Alignas(16) unsigned char rx_ctrl[MADI_CTRL_MAX]; /* the body of a control packet that is coming in */
    madi_conn_t **by_remote; /* the peer's channel numbers */
    uint32_t n_remote;
    madi_conn_t *conns;
    madi_conn_t *retired;    /* to be used again, for any channel */
    madi_rdv_recv_t *incoming;
    madi_rdv_recv_t *pulls, **pulls_tail; /* of these: such as are read from the sender's memory */
    madi_share_t *share;                  /* NULL: no block of this peer could be shared yet */
    uint64_t shared_in;                   /* blocks of these and the following that were shared */
    uint64_t pulled_blocks, pulled_bytes;
    uint64_t taken_blocks, taken_bytes;   /* came after a grant */
    uint64_t placed_blocks, placed_bytes; /* written here by the peer */
    int64_t deadline;        /* connecting: until when; down: since when */
    int64_t call_at;         /* connecting, without a link: when to call again, though the peer's own attempt counts; or 0 */
    int sharers;             /* numbers beside peer that have it, too */
    bool quiet;              /* the program does not know of it */
    bool cut;                /* an attempt ended without a word: the peer had too many callers, or has ended */
    int n_cuts;              /* searches that were made again for that */
    mad_status_t refusal;    /* connecting: AUTH or VERSION, if an attempt ended by it; nobody has proved it */
    bool lacking;            /* an attempt failed since this process has no memory or descriptors left */
    bool apart;              /* an attempt met no answer: the network may be gone, or its host, and be back soon */
    struct madi_hello *hello; /* our own attempt that was taken: it proves the key; NULL: none was taken yet */
    int n_attempts;           /* our own attempts, of that and others */
    struct madi_search *search; /* search.c: while it is connecting; NULL: no way is looked for */
    int process;             /* connecting: the peer's, if it is on this host; 0: not known */
    bool stop_told;          /* the log says that it is stopped */
    bool bye;                /* the peer has ended in order */
    bool bye_sent;
    uint64_t peer_floor;     /* credits that the peer gives each connection; 0: not known yet */
    madi_gate_t *next;       /* all gates of the session */
    madi_gate_t *next_work;
    char why[512];           /* the choice explained */
    uint64_t refused;        /* under tx_lock: packets that the driver did not take at once */
    uint64_t granted_blocks, granted_bytes; /* under tx_lock: sent after a grant */
    uint64_t shared_out;                    /* under tx_lock: of granted blocks, such as were shared */
    uint64_t put_blocks, put_bytes;         /* under tx_lock: written into the receiver's memory */
    uint64_t fetched_blocks, fetched_bytes; /* under tx_lock: read by the receiver */
    madi_traffic_t before;   /* under both locks: of connections that were retired */
    madi_adapter_t *adapter; /* under session->lock: over which it is up, or was last; NULL: never */
    struct madi_failure *failures; /* ways.c: what was tried and did not work, or works no more */
    void *forward;           /* forward.h: what it needs of a gate over which fragments go; else NULL */
    bool forward_first;      /* under tx_lock: whose turn it is */
    madi_ledger_t ledger;    /* what the peer makes this process keep or do */
};

/* A control packet that waits. */
typedef struct madi_ctrl {
    struct madi_ctrl *next;
    madi_wire_hdr_t hdr;
    unsigned char body[];
} madi_ctrl_t;

/* ---- Channels, peers, session --------------------------------------------------------------------------------- */

/* channel->conns: at the low bits of the peer's number; grows by replacement, old ones are kept until the channel is freed
 * (readers hold no lock).  Where no connection is stands one of a peer that would stand elsewhere (madi_conn_nobody), so
 * readers ask only whose it is. */
typedef struct madi_conn_array {
    struct madi_conn_array *older;
    uint32_t mask; /* how many it holds, less 1: a power of two, at least 2 */
    _Atomic(madi_conn_t *) at[];
} madi_conn_array_t;

struct mad_channel {
    mad_session_t *session;
    _Atomic(madi_conn_array_t *) conns;
    _Atomic(uint32_t) n_ready; /* a hint without the lock: messages that can be opened */
    _Atomic(int) closed;
    int lane;        /* forward.h */
    bool is_open;    /* false: only peers have spoken of it, or it was closed */
    bool dying;      /* in session->dying */
    bool leaving;    /* mad_channel_close waits for what is under way */
    madi_conn_t *ready, **ready_tail; /* connections with messages, round robin */
    marceli_waiters_t openers; /* they wait for a message of any peer */
    mad_handler_t handler;
    void *handler_arg;
    madi_conn_t *all;
    mad_channel_t *next;
    mad_channel_t *next_dying;
    char name[MAD_CHANNEL_NAME_MAX];
};

/* A peer that was never spoken to costs this and its address. */
typedef struct madi_peer {
    madi_gate_t *gate; /* on lane 0 */
    unsigned char *address; /* allocated; NULL: a rank whose address was not asked for yet */
    madi_gate_t **lanes;    /* from lane 1 on; NULL: none was used yet */
    mad_peer_t number;      /* -1: nobody stands here */
    bool kept : 1;          /* the program has added it: it is not forgotten by itself */
    bool serves : 1;        /* the forwarder sends streams by it */
    bool claimed : 1;       /* only peers have named its address, and this process has not reached it there */
    bool wanted : 1;        /* as the end of a stream, by a peer: it was not connected yet */
    bool told : 1;          /* only one of them knows it, and is charged: its gate is named behind the address (peer.c) */
} madi_peer_t;

/* An adapter that could not be opened: for explanations. */
typedef struct madi_left_out {
    struct madi_left_out *next;
    const madi_driver_t *driver;
    char name[MADI_NAME_MAX];
    char reason[MADI_REASON_MAX];
} madi_left_out_t;

typedef struct madi_listener {
    madi_watch_t watch;
    madi_adapter_t *adapter;
} madi_listener_t;

typedef struct madi_event_node {
    struct madi_event_node *next;
    mad_event_t event;
} madi_event_node_t;

struct mad_session {
    madi_lock_t lock;
    bool forked;         /* this is the copy of a child of fork: nothing works */
    bool held_by_fork;   /* fork.c */
    mad_session_t *next; /* fork.c */
    _Atomic(int) closing;
    madi_boot_t *boot;
    int rank, size;
    int told_rank, told_size; /* without a launcher: see madi_boot_told */
    unsigned char uid[16];
    unsigned char job[8]; /* a hash of the job's name */
    struct madi_secrets *secrets; /* NULL: the job's key is not known yet */
    struct madi_seal_ctx *seal;   /* NULL: no adapter seals */
    unsigned char *address;
    size_t address_len;
    bool check_modes;
    /* Adapters; fixed after the start. */
    madi_adapter_t **adapters;
    int n_adapters;
    madi_adapter_t **polled; /* those of them that can have something: that had a link.  Grows under lock, read without */
    _Atomic(int) n_polled;
    struct madi_listener *listeners; /* one per adapter */
    madi_left_out_t *left_out;
    /* Peers, under lock. */
    madi_peer_t *peers; /* at the low bits of their numbers; cap_peers is a power of two */
    uint32_t n_peers, cap_peers;
    mad_peer_t next_peer; /* no number from here on was given */
    int fetched; /* addresses, from the launcher */
    uint32_t *peer_index; /* open addressing by uid: peer + 1 */
    uint32_t cap_index, n_index;
    madi_gate_t *gates;
    madi_gate_t *gone, **gone_tail; /* forgotten, to be used again, those that were forgotten longest ago first */
    uint32_t n_gone;
    int64_t forget_at;              /* when to look for lost peers that can be forgotten; 0: there are none */
    struct madi_stats_kept *kept;   /* stats.c: what went over gates that were forgotten; NULL: none */
    /* Gates with something to send; under work_lock. */
    madi_lock_t work_lock;
    madi_gate_t *work;
    _Atomic(int) has_work;
    _Atomic(int) strides_left; /* one of these gates can go on at once: nothing has to come first */
    mad_channel_t *channels;
    mad_channel_t *dying;                        /* not open: they go when peers are done with them too */
    mad_channel_t *retired, **retired_tail;      /* to be used again, those that were closed longest ago first */
    int n_retired;
    struct madi_handles *receives; /* madi_rdv_recv by handle */
    struct madi_hello *hellos, *dead_hellos;
    int n_accepted; /* hellos of strangers */
    int n_attempts; /* hellos of our own */
    uint32_t refused_told;         /* statuses with which a stranger was refused and the log says so */
    int spare_fd;                  /* closed for a moment to turn callers away when there are no descriptors left */
    madi_link_t *dead_links;       /* closed, to be freed outside of callbacks */
    int64_t credit_budget;
    madi_conn_t *tell;  /* its sender's credits are to be told when nothing else is to be done; NULL: none */
    int64_t credit_floor;
    /* Progress. */
    int epfd, rare_epfd; /* the second in the first, by `rare`, and in the door */
    int carriers; /* watched descriptors by which messages come: under lock */
    madi_watch_t rare;
    marceli_door_t door;
    atomic_int poll_first; /* of the polled adapters the one that is asked first */
    bool slept; /* a leader has, and what it was told of stands in epfd: under lock */
    int category; /* the session as one of the polling server's */
    int32_t ticks; /* counts down to the next look at everything */
    int64_t looked; /* ns: when everything was looked at last */
    int64_t stopped_looked; /* whether peers that do not answer are stopped */
    int64_t hellos_looked; /* and deadlines of connections that are being made; 0: there were none */
    madi_share_habit_t habit; /* of who sends long blocks with requests */
    madi_adapter_t *hot; /* under lock: where short messages came from last; has take and a link */
    madi_lock_t wait_lock;
    marceli_waiters_t watchers; /* under wait_lock: they wait for what is no single object, and look after every event */
    _Atomic(int) n_watchers;
    _Atomic(int) processes; /* of the job, and beside it: they may all want a processor of this host */
    int spins;       /* looks before the clock is asked */
    mad_request_t *callbacks, **callbacks_tail; /* requests whose callbacks are to be run without the lock */
    madi_rx_msg_t *handled, **handled_tail;     /* messages for handlers, likewise */
    _Atomic(int) has_calls;
    _Atomic(int) calling; /* a thread runs them */
    madi_rx_msg_t *rx_ring;                     /* under lock: all message structures, used and free */
    madi_event_node_t *events, **events_tail;   /* under work_lock */
    uint32_t n_events;
    struct madi_ask *ask; /* NULL: nobody can ask this process */
    const madi_forward_t *forward; /* NULL: no virtual links */
    madi_ledger_sum_t ledger;
};

#endif
