/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's objects.  Included by core.h.
 *
 *   session -- peers -- gate (a peer with which communication has begun: one link, all channels)
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
#include "core/link/ledger.h"
#include "core/send/policy.h"
#include "core/send/share.h"
#include "core/link/trace.h"
#include "engine/accept_thread.h"
#include "engine/engine.h"
#include <madeleine.h>

typedef struct madi_gate madi_gate_t;
typedef struct madi_conn madi_conn_t;
typedef struct madi_tx madi_tx_t;
typedef struct madi_rx_msg madi_rx_msg_t;

/* ---- Messages ------------------------------------------------------------------------------------------------- */

enum madi_message_kind { MADI_MESSAGE_TX = 1, MADI_MESSAGE_RX = 2 };

/* A message as the program sees it (mad_connection_t): the first member of madi_tx and madi_rx_msg. */
struct mad_connection {
    uint8_t kind;
    /* Not 0: the short paths may be used.  Sending: 1: all blocks are in `small`, and nothing has left.  Receiving: all of
     * the message is in the current packet (1).  That packet is in this structure (2), or lent with nothing else to be
     * cleared (3), or lent and still being written (4).  Changed only by the thread that owns the message. */
    uint8_t plain;
    _Atomic(int) status; /* the first failure, or MAD_OK */
    mad_session_t *session;
};

/* Completion that a call waits for. */
typedef struct madi_waitable {
    _Atomic(int) done;
    marceli_waiter_t *waiter; /* NULL: the waiting thread is woken by other means */
} madi_waitable_t;

/* Values of request->state that are not pointers to a waiter. */
enum { MADI_REQUEST_PENDING, MADI_REQUEST_DONE, MADI_REQUEST_CALLBACK /* pending, with a callback */ };

/* Whether a pending request needs the progress thread: now, later (if the peer takes long), or not (its owner will test it).
 * 0: it is done, or was never counted. */
enum { MADI_COUNTED = 1, MADI_COUNTED_LATER, MADI_COUNTED_NOT };

struct mad_request {
    _Atomic(uintptr_t) state; /* MADI_REQUEST_*, or the waiter that waits for it */
    _Atomic(int) let_go;      /* set by the completing thread when it no longer uses the request, after it woke the waiter */
    mad_status_t status;
    mad_session_t *session;
    void (*callback)(void *arg, mad_status_t status);
    void *arg;
    mad_request_t *next; /* in the session's list of callbacks to run */
    int counted;         /* MADI_COUNTED*, or 0; constant once its owner has the request */
    bool counted_called; /* counted once more, for its callback; the owner's until state is MADI_REQUEST_CALLBACK */
    bool pooled;         /* a posted receive of session->posted_ring */
    _Atomic(bool) used;  /* if pooled: cleared by the owner when it gives the request back, without a lock */
    /* The message that completes it; both NULL once done.  Under session->lock. */
    madi_tx_t *tx;
    madi_rx_msg_t *rx;
    struct madi_posted *posted;
};

/* ---- Sending -------------------------------------------------------------------------------------------------- */

/* A part of a message in packing order: a run of blocks in wire format, or one block that lies elsewhere. */
typedef struct madi_piece {
    const void *base;   /* block: its address; NULL: in segments */
    struct iovec *segs; /* block in several segments: allocated; else NULL */
    int n_segs;
    bool run;           /* a run: off and len are a range of the stage buffer */
    bool later;         /* block: sent with its value at mad_end_packing */
    uint64_t desc;      /* block: its descriptor */
    uint32_t off, len;
    void *own;          /* block: a copy, to be freed with the message; NULL: none */
    uint32_t handle;    /* rendezvous block: its handle, else 0 */
} madi_piece_t;

/* A rendezvous block that is being sent.  Lengths and offsets in bytes. */
typedef struct madi_rdv_send {
    madi_op_t op; /* must be first */
    madi_tx_t *tx;
    const unsigned char *base; /* NULL: in segments */
    const struct iovec *segs;
    int n_segs;
    uint64_t len, sent;
    uint64_t end;       /* offset: the sender moves the bytes before it; len, unless the block is shared */
    uint64_t put_at;    /* shared: the block's address at the receiver, if it can be written; else 0 */
    bool readable;      /* its address was announced */
    bool shared;
    bool fetched;       /* shared: the receiver has read the bytes behind end */
    void *prepared; /* the next piece, copied in advance into the driver's memory; then gate->prepared.  NULL: none */
    size_t prepared_len;
    uint32_t receiver;
    uint32_t handle;
    bool granted;
    int busy;           /* number of pieces that the driver holds */
    bool held;          /* LATER, and the message has not ended: not to be sent yet */
    int64_t began, piece_began; /* ns, while tracing */
    madi_wire_hdr_t hdr;
    struct madi_rdv_send *next; /* in gate->granted */
} madi_rdv_send_t;

/* A message that is being sent.  Its places, with the lock or thread that protects it there:
 *
 *   conn->spare      while it is packed, by the holder of conn->packing; and between messages, for reuse
 *   conn->queue      from the flush or the end on, under tx_lock; after a flush the packer still adds to it
 *   conn->deferred   a one-call message that waits for the end of another message's packing; under tx_lock
 *   in no list       all_sent, with rendezvous blocks in flight, which rdv_pending counts; under tx_lock
 *
 * A message is complete when it is ended, all_sent, not queued, and rdv_pending is 0 (madi_tx_check_complete).  With a
 * request it is freed then; else the thread that ended it waits, and frees it. */
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
    uint32_t n_held;       /* those of rdv_pending that wait for the end of the message */
    uint64_t cont_left;    /* bytes of piece next_piece that remain, while it is continued in further packets; else 0 */
    bool cont_busy;        /* the driver holds a packet of the continued block: cont_op and cont_hdr */
    madi_op_t cont_op;
    madi_wire_hdr_t cont_hdr;
    int64_t began;         /* ns, while tracing: when it was queued */
    uint64_t put_at, put;  /* address of the first block at the receiver, if offered (else 0); bytes written there */
    bool put_tried;        /* the offer was looked for */
    bool by_peer;          /* the peer may read its long block from this process's memory */
    bool polled;           /* the sender polls for its completion, and can move a part of the long block */
    bool started, ended, queued, all_sent;
    bool flushed; /* set by the packer: progress may be sending it, so pieces and stage are changed under tx_lock only */
    _Alignas(16) unsigned char small[MADI_STAGE];
};

/* ---- Receiving ------------------------------------------------------------------------------------------------ */

/* A packet of a message that waits to be unpacked. */
typedef struct madi_rx_packet {
    struct madi_rx_packet *next;
    madi_foreign_t data; /* its body: in this allocation, or a loan */
    uint32_t len, cost;  /* bytes of the body; credit bytes */
    bool last;
    bool cont;   /* continues the block of the packet before */
    bool inside; /* part of its message, not an allocation of its own */
    madi_foreign_t loan;
    madi_link_t *link;
} madi_rx_packet_t;

/* A block that was unpacked CHEAPER before it arrived, or is in flight by rendezvous. */
typedef struct madi_rx_block {
    struct madi_rx_block *next;
    struct iovec *pieces; /* behind this structure */
    int n;
    uint64_t desc; /* what the receiver expects */
    uint32_t index;
    bool waiting; /* in the message's list of blocks that have not arrived */
} madi_rx_block_t;

/* A block that mad_try_unpack or mad_borrow needs, and that is received into memory of the library. */
typedef struct madi_rx_early {
    uint64_t desc; /* what the sender packed */
    madi_waitable_t here; /* completes when all of it has arrived */
    bool borrowed; /* the program has its address (mad_borrow) */
    _Alignas(16) unsigned char data[];
} madi_rx_early_t;

/* A rendezvous or continued block that is being received.  Lengths and offsets in bytes. */
typedef struct madi_rdv_recv {
    madi_rx_msg_t *msg;
    madi_gate_t *gate;
    uint64_t len, received, eager;
    uint64_t end;      /* offset: the sender sends the bytes before it, this side reads the rest from the sender's memory */
    uint64_t read;     /* bytes read so far */
    bool shared;       /* the sender may write the bytes before end directly, all but the last of them */
    bool timed;        /* its duration is measured, to learn whether to share blocks (share.h) */
    int64_t granted;   /* ns, if timed: when it was granted */
    uint32_t handle;
    void *bounce; /* scattered destination: filled whole, then spread */
    madi_waitable_t *wait; /* or NULL */
    struct madi_rdv_recv *next, *prev; /* in gate->incoming */
    uint64_t at;       /* its address in the sender's memory, if this side reads it there; 0: the sender sends it */
    uint32_t sender;   /* the sender's handle */
    int64_t began, piece_began; /* ns, while tracing */
    struct madi_rdv_recv *next_pull; /* in gate->pulls */
    int n;
    struct iovec pieces[];
} madi_rdv_recv_t;

#define MADI_RX_INLINE MADI_TAKE_MAX /* bytes of a first packet that live in the message itself */

/* A message that is being received.  Its places, with the lock or thread that protects it there:
 *
 *   conn->arriving   incomplete: further packets are added, under session->lock; at the same time in one of the following
 *   conn->ready      not opened; or in session->handled (for a handler).  Messages in these lists hold credit (cost)
 *   the program      opened: while it is plain the program's thread alone reads it, without a lock.  Otherwise under
 *                    session->lock, since packets and rendezvous blocks still arrive; in conn->live if incomplete
 *   in no list       ended with a request: progress completes it when the missing part arrives (madi_rx_finish)
 *
 * The thread that ends the message gives its structure back for reuse (madi_rx_free).  Structures in session->rx_ring are
 * freed with the session only. */
struct madi_rx_msg {
    mad_connection_t base;
    madi_foreign_t cur, end; /* the part of the current packet that is not unpacked yet; cur is "the cursor" */
    union {
        struct {
            bool cur_last; /* the current packet is the message's last */
            bool complete; /* the last packet has arrived */
            bool opened;   /* the program unpacks it */
            bool ended;    /* end_unpacking was called */
            uint32_t index; /* of the next block */
        };
        uint64_t state; /* all of these, in this order from the lowest byte */
    };
    bool live;                      /* in conn->live */
    bool lost;                      /* the rest of it will not arrive */
    bool consumed;                  /* a handler may leave its remaining blocks unread: that is no mismatch */
    bool placed;                    /* the sender has written the first block to the offered destination */
    uint32_t cost;                  /* credit bytes held until it is opened */
    madi_conn_t *conn;
    madi_rx_packet_t *current;      /* owns cur..end; NULL: that is in data below */
    madi_rx_packet_t first;         /* the first packet, if its body is lent */
    uint64_t begun;                 /* plain 4: link->begun at the loan; cur..end is the part written so far */
    madi_rx_packet_t *head, **tail; /* further packets */
    madi_rx_block_t *blocks, **blocks_tail; /* destinations that wait for their blocks */
    _Atomic(uint32_t) rdv_pending;
    uint64_t rdv_bytes;             /* bytes of all blocks that were granted; under session->lock */
    madi_rx_early_t *early;         /* the next block, if it is being received into the library's memory; or NULL */
    uint64_t cont_left;             /* bytes that the next packets bring of the continued block before the cursor */
    _Atomic(struct madi_rdv_recv *) cont; /* their destination; NULL: discard them.  Changed under session->lock */
    bool put_off;                   /* MADI_PLACE_LATER was answered once for such a packet */
    mad_request_t *request;
    int64_t began;                  /* ns, while tracing: when its first packet arrived */
    marceli_waiter_t *waiter;          /* the thread that waits for more of it; under session->lock */
    madi_rx_msg_t *next;            /* in conn->ready */
    madi_rx_msg_t *ring;            /* the next in the session's ring */
    _Atomic(uint8_t) used;          /* cleared by the thread that ends the message, without a lock */
    madi_rx_msg_t *next_live;
    _Alignas(16) madi_wire_hdr_t hdr; /* of the first packet */
    unsigned char data[MADI_RX_INLINE]; /* its body, directly behind hdr */
};

/* A receive that was posted before its message arrived. */
typedef struct madi_posted {
    mad_request_t request; /* must be first: freeing the request frees this */
    struct madi_posted *next;
    madi_conn_t *conn;
    int offer;    /* the driver's number of the offer to the sender; -1: none */
    bool claimed; /* the sender has claimed the offer: it writes the block, or has written it */
    struct madi_posted *ring; /* if pooled: the next in session->posted_ring */
    int n;
    mad_block_t blocks[];
} madi_posted_t;

/* Pooled receives have room for so many blocks, and a session has at most so many of them. */
#define MADI_POSTED_BLOCKS 2
#define MADI_POSTED_POOLED 256

/* ---- Connections and gates ------------------------------------------------------------------------------------ */

/* Messages, and credit bytes of their packets: headers included, rounded up to cache lines. */
typedef struct madi_traffic {
    uint64_t messages_out, bytes_out, messages_in, bytes_in;
} madi_traffic_t;

struct madi_conn {
    /* Sending: fields of the holder of packing ... */
    _Atomic(int) packing; /* not 0: held by a message */
    _Atomic(int) waiting; /* threads that wait for packing, and one more if messages are deferred */
    madi_tx_t *spare; /* the holder's message; between messages: one for reuse, or NULL */
    mad_channel_t *channel;
    madi_gate_t *gate;
    uint16_t number;  /* this side's number for the channel on this gate's link */
    uint8_t flags;    /* of its packets: MADI_WIRE_MODES or 0 */
    mad_peer_t peer;  /* the gate's */
    uint64_t whole;   /* template: the first 8 header bytes of a message in one packet, length 0 */
    /* ... and fields under gate->tx_lock. */
    bool announced;   /* CHANNEL was sent: the peer knows the number */
    bool closing;     /* the channel is closed: CLOSE is due when nothing is left to send (channel_number.c) */
    bool handed;      /* CLOSE was sent, and CLOSED has not arrived: the number is not free yet */
    marceli_waiters_t packers; /* threads that wait for packing */
    bool in_pending;  /* in gate->pending */
    bool has_deferred; /* messages are deferred: counted in waiting */
    bool starved;     /* the first message of the queue waits for credits */
    uint64_t tx_seq;     /* messages so far */
    uint64_t tx_cost_before; /* credit bytes of all packets before the credits were last reset */
    uint32_t n_blocks;   /* blocks that are announced, and not complete */
    uint64_t block_bytes_out; /* bytes of blocks that were granted, written, or read by the peer */
    /* Valid while quick is not 0. */
    madi_link_t *link;
    bool (*send_short)(madi_link_t *link, const void *packet, size_t total);
    uint64_t quick;        /* credit bytes left while a message may leave at once: link up, nothing queued before it */
    uint64_t credit_left;  /* credit bytes left otherwise; one of the two is 0 */
    uint64_t credit_limit; /* total of credit bytes that the receiver has given so far */
    madi_tx_t *queue, **queue_tail;       /* the first one is being sent */
    madi_tx_t *deferred, **deferred_tail; /* one-call messages that wait for the end of another message's packing */
    madi_conn_t *next_pending;
    /* Receiving, under session->lock. */
    _Alignas(MADI_LINE) madi_rx_msg_t *ready;
    madi_rx_msg_t **ready_tail;
    madi_link_t *rx_link;    /* the gate's link, valid while rx_head is not 0 */
    uint32_t rx_head;        /* first 4 header bytes of a one-packet message that may be opened at once; 0: none may */
    madi_rx_msg_t *arriving; /* the message whose last packet has not arrived; or NULL */
    madi_rx_msg_t *live;     /* opened incomplete messages: they fail when the link breaks */
    madi_posted_t *posted, **posted_tail;
    marceli_waiters_t openers; /* threads that wait for a message of this peer */
    bool in_ready;
    madi_conn_t *next_ready; /* in channel->ready */
    uint64_t rx_limit;              /* the limit of credit bytes that was last sent to the sender */
    uint64_t rx_tell;               /* total of returned credit bytes at which the next limit is sent */
    int64_t rx_left;                /* credit bytes until then */
    uint64_t rx_messages;
    uint64_t rx_cost_before; /* like tx_cost_before */
    uint64_t block_bytes_in;
    uint64_t rx_window, rx_floor; /* credit bytes: the window now, and its least size */
    uint64_t rx_held;        /* credit bytes of messages that have arrived and are not opened */
    uint16_t remote;         /* the peer's number for the channel */
    bool remote_known;
    bool remote_closing;     /* CLOSE has arrived: no message follows, and the peer waits for CLOSED */
    bool seen;               /* the channel was open since the peer announced its number */
    bool unopened;           /* the channel is not open: its messages wait, charged to the peer (unopened.c) */
    bool unopened_counted;   /* charged as one of the peer's channels */
    int64_t unopened_bytes;  /* bytes charged for its messages */
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
    mad_status_t status; /* the cause, if it is down */
    madi_link_t *link;
    /* Under tx_lock. */
    madi_conn_t *pending, *pending_last;      /* connections with packets to send */
    struct madi_ctrl *ctrl, **ctrl_tail;      /* control packets that the driver did not take yet */
    madi_rdv_send_t *granted, **granted_tail; /* granted blocks to be sent */
    struct madi_handles *sends;               /* madi_rdv_send by handle */
    bool prepared;                            /* one of these has a prepared piece in the driver's memory */
    bool shares;                              /* the peer has shared the last block that it could share */
    madi_conn_t **by_number; /* by this side's channel numbers; NULL: free */
    uint32_t n_numbers, used_numbers, next_number;
    _Atomic(int) work; /* not 0: in session->work, the list of gates with something to send */
    /* Under session->lock. */
    void *half;              /* the message or packet (madi_rx_packet) whose body is arriving; NULL: none */
    bool half_first;         /* half is a message, with its first packet */
    _Alignas(16) unsigned char rx_ctrl[MADI_CTRL_MAX]; /* the body of the control packet that is arriving */
    madi_conn_t **by_remote; /* by the peer's channel numbers */
    uint32_t n_remote;
    madi_conn_t *conns;
    madi_conn_t *retired;    /* connections for reuse, for any channel */
    madi_rdv_recv_t *incoming; /* rendezvous blocks that are being received */
    madi_rdv_recv_t *pulls, **pulls_tail; /* those of them that are read from the sender's memory */
    madi_share_t *share;                  /* NULL: no block of this peer could be shared yet */
    uint64_t shared_in;                   /* number of shared blocks among the pulled and the taken ones */
    uint64_t pulled_blocks, pulled_bytes; /* read from the peer's memory */
    uint64_t taken_blocks, taken_bytes;   /* received after a grant */
    uint64_t placed_blocks, placed_bytes; /* written here by the peer */
    int64_t deadline;        /* connecting: when it fails; down: when it went down (ns) */
    int64_t call_at;         /* connecting by the peer's attempt, without a link: when to connect again (ns); or 0 */
    int sharers;             /* number of other peers (numbers) that share the gate */
    bool quiet;              /* the program does not know of it, and gets no events */
    bool cut;                /* an attempt ended without an answer: the peer has too many connections, or has ended */
    int n_cuts;              /* searches that were repeated for that */
    mad_status_t refusal;    /* connecting: AUTH or VERSION if an attempt was refused so; not authenticated */
    bool lacking;            /* an attempt failed for lack of memory or descriptors in this process */
    bool apart;              /* an attempt got no answer: the network or the host may be down for a short time */
    struct madi_hello *hello; /* this process's chosen attempt, which proves the key; NULL: none is chosen yet */
    int n_attempts;           /* this process's attempts, the chosen one included */
    struct madi_search *search; /* search.c: while it is connecting; NULL: no search runs */
    int process;             /* connecting: the peer's process number, if it is on this host; 0: not known */
    bool stop_told;          /* it was logged that the peer is stopped */
    bool bye;                /* BYE has arrived: the peer has shut down in order */
    bool bye_sent;
    uint64_t peer_floor;     /* credit bytes that the peer gives each connection; 0: not known yet */
    madi_gate_t *next;       /* all gates of the session */
    madi_gate_t *next_work;
    bool late;               /* no way was connected within MAD_CONNECT_TIMEOUT, and none was chosen */
    uint64_t refused;        /* under tx_lock: number of packets that the driver did not take at once */
    uint64_t granted_blocks, granted_bytes; /* under tx_lock: sent after a grant */
    uint64_t shared_out;                    /* under tx_lock: number of shared blocks among them */
    uint64_t put_blocks, put_bytes;         /* under tx_lock: written into the receiver's memory */
    uint64_t fetched_blocks, fetched_bytes; /* under tx_lock: read by the receiver */
    madi_traffic_t before;   /* under both locks: traffic of retired connections */
    madi_adapter_t *adapter; /* under session->lock: the adapter of its link, or of its last one; NULL: never up */
    struct madi_failure *failures; /* paths.c: paths that failed, with the reasons */
    void *forward;           /* forward.h: the forwarder's state of a gate that carries fragments; else NULL */
    bool forward_first;      /* under tx_lock: fragments have the next turn, before messages */
    madi_ledger_t ledger;    /* memory and work that the peer causes here */
};

/* A control packet that waits until the driver takes it. */
typedef struct madi_ctrl {
    struct madi_ctrl *next;
    madi_wire_hdr_t hdr;
    unsigned char body[];
} madi_ctrl_t;

/* ---- Channels, peers, session --------------------------------------------------------------------------------- */

/* channel->conns, indexed by the low bits of the peer's number.  It grows by replacement; old arrays are kept until the
 * channel is freed, since readers hold no lock.  An empty entry holds a placeholder with the number of a peer that belongs
 * to another entry (madi_conn_nobody), so readers compare the peer's number and need not test for NULL. */
typedef struct madi_conn_array {
    struct madi_conn_array *older;
    uint32_t mask; /* its length minus 1; the length is a power of two, at least 2 */
    _Atomic(madi_conn_t *) at[];
} madi_conn_array_t;

struct mad_channel {
    mad_session_t *session;
    _Atomic(madi_conn_array_t *) conns;
    _Atomic(uint32_t) n_ready; /* number of messages that can be opened; without the lock a hint */
    _Atomic(int) closed;
    int lane;        /* forward.h */
    bool is_open;    /* false: only announced by peers, or closed */
    bool dying;      /* in session->dying */
    bool leaving;    /* mad_channel_close waits for messages in flight */
    madi_conn_t *ready, **ready_tail; /* connections with messages, round robin */
    marceli_waiters_t openers; /* threads that wait for a message of any peer */
    mad_handler_t handler;
    void *handler_arg;
    madi_conn_t *all;
    mad_channel_t *next;
    mad_channel_t *next_dying;
    char name[MAD_CHANNEL_NAME_MAX];
};

/* A peer.  Before communication begins it costs this structure and its address. */
typedef struct madi_peer {
    madi_gate_t *gate; /* on lane 0 */
    unsigned char *address; /* allocated; NULL: a rank whose address was not fetched yet */
    madi_gate_t **lanes;    /* gates on lanes from 1 on; NULL: none was used yet */
    mad_peer_t number;      /* -1: the entry is free */
    bool kept : 1;          /* the program has added it: it is not freed by the library */
    bool serves : 1;        /* the forwarder sends streams through it */
    bool claimed : 1;       /* its address is known from peers only, and not confirmed by a connection to it */
    bool wanted : 1;        /* a peer has named it as the end of a stream, and it is not connected yet */
    bool told : 1;          /* known from one peer only, which is charged; that one's gate is behind the address (peer.c) */
} madi_peer_t;

/* An adapter that could not be opened, kept for explanations. */
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
    bool forked;         /* this is the copy in a child of fork, and is unusable */
    bool held_by_fork;   /* fork.c */
    mad_session_t *next; /* fork.c */
    _Atomic(int) closing;
    madi_boot_t *boot;
    int rank, size;
    int told_rank, told_size; /* without a launcher: see madi_boot_told */
    unsigned char uid[16];
    unsigned char job[8]; /* a hash of the job's name */
    struct madi_secrets *secrets; /* NULL: the job's key is not known yet */
    struct madi_seal_ctx *seal;   /* settings of sealed connections; NULL: no adapter seals */
    unsigned char *address;
    size_t address_len;
    bool check_modes;
    /* Adapters; fixed after the start. */
    madi_adapter_t **adapters;
    int n_adapters;
    madi_adapter_t **polled; /* those of them that have had a link.  Grows under lock, is read without */
    _Atomic(int) n_polled;
    struct madi_listener *listeners; /* one per adapter */
    madi_left_out_t *left_out;
    /* Peers, under lock. */
    madi_peer_t *peers; /* indexed by the low bits of their numbers; cap_peers is a power of two */
    uint32_t n_peers, cap_peers;
    mad_peer_t next_peer; /* the lowest number that was never used */
    int fetched; /* number of addresses that were fetched from the launcher */
    uint32_t *peer_index; /* hash table by identity, open addressing: peer + 1; 0: free */
    uint32_t cap_index, n_index;
    madi_gate_t *gates;
    madi_gate_t *gone, **gone_tail; /* released gates for reuse, the oldest first */
    uint32_t n_gone;
    int64_t forget_at;              /* when to look for lost peers that can be released (ns); 0: there are none */
    struct madi_stats_kept *kept;   /* stats.c: counters of released gates; NULL: none */
    /* Gates with something to send; under work_lock. */
    madi_lock_t work_lock;
    madi_gate_t *work;
    _Atomic(int) has_work;
    _Atomic(int) strides_left; /* not 0: one of these gates can send more without waiting for an event */
    mad_channel_t *channels;
    mad_channel_t *dying;                        /* closed channels that peers still use: retired after that */
    mad_channel_t *retired, **retired_tail;      /* for reuse, the oldest first */
    int n_retired;
    struct madi_handles *receives; /* madi_rdv_recv by handle */
    struct madi_hello *hellos, *dead_hellos;
    int n_accepted; /* handshakes of incoming connections */
    int n_attempts; /* handshakes that this process has begun */
    uint32_t refused_told;         /* bits: statuses of refused incoming connections that were logged already */
    int spare_fd;                  /* reserve: closed to refuse an incoming connection when no descriptor is left */
    madi_link_t *dead_links;       /* closed, to be freed outside of callbacks */
    int64_t credit_budget; /* bytes that may still be given to connections beyond their floors */
    madi_conn_t *tell;  /* the connection whose credit limit is sent when progress is idle; NULL: none */
    int64_t credit_floor; /* bytes */
    /* Progress. */
    int epfd, rare_epfd; /* rare_epfd is watched in epfd, by `rare`, and by the accept thread */
    int carriers; /* number of watched descriptors by which messages arrive: under lock */
    madi_watch_t rare;
    marceli_door_t door; /* the session's entry at the accept thread */
    atomic_int poll_first; /* index of the polled adapter that is polled first */
    bool slept; /* a leader has slept on epfd, whose events are not handled yet: under lock */
    int category; /* the session's category at the polling server */
    int32_t ticks; /* counts down to the next poll of everything */
    int64_t looked; /* ns: the last poll of everything */
    int64_t stopped_looked; /* ns: the last check whether peers that do not answer are stopped */
    int64_t hellos_looked; /* ns: the last check of handshakes' deadlines; 0: there were none */
    madi_share_habit_t habit; /* of threads that send long blocks with requests */
    madi_adapter_t *hot; /* under lock: the adapter of the last short messages; has take and a link */
    madi_lock_t wait_lock;
    marceli_waiters_t watchers; /* under wait_lock: threads in madi_watch_for, which test after every event */
    _Atomic(int) n_watchers;
    _Atomic(int) processes; /* processes, of the job and others, that may compete for this host's processors */
    int spins;       /* tests of a spinning thread between two reads of the clock */
    mad_request_t *callbacks, **callbacks_tail; /* requests whose callbacks are due; they run without the lock */
    madi_rx_msg_t *handled, **handled_tail;     /* messages for handlers, likewise */
    _Atomic(int) has_calls; /* not 0: one of these two lists is not empty */
    _Atomic(int) calling; /* not 0: a thread runs callbacks and handlers */
    madi_rx_msg_t *rx_ring;                     /* under lock: ring of all message structures, used and free */
    madi_posted_t *posted_ring;                 /* under lock: likewise of pooled receives; the one that was used last */
    int n_posted_ring;
    madi_event_node_t *events, **events_tail;   /* under work_lock */
    uint32_t n_events;
    struct madi_ask *ask; /* NULL: mad_info cannot query this process */
    const madi_forward_t *forward; /* NULL: no virtual links */
    madi_ledger_sum_t ledger;
};

#endif
