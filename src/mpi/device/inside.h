/* SPDX-License-Identifier: BSD-3-Clause */
/* Structures and functions that only the device's files share. */
#ifndef MAD_DEVICE_INSIDE_H
#define MAD_DEVICE_INSIDE_H

#include "base/foreign.h"
#include "device.h"

#include <assert.h>
#include <madeleine/runtime.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- Wire format ----------------------------------------------------------------------------------------------- */

enum {
    KIND_WHOLE = 1, /* the payload follows in the same block */
    KIND_LONG,      /* the payload follows in one or several further blocks */
    KIND_MATCHED,   /* answer: message `number` has matched a receive */
    KIND_ANNOUNCE,  /* the payload stays with the sender until KIND_GRANT */
    KIND_GRANT,     /* answer: send the payload of message `number` to receive `len`; len 0: drop the message */
    KIND_BODY,      /* payload for receive `number`, in the same block */
    KIND_BODY_LONG, /* payload for receive `number`, in a second block */
    KIND_MORE,      /* answer: `number` is the new limit, beyond MAD_DEV_WINDOW, of payload bytes sent without a grant */
    KIND_END
};
enum { FLAG_PLAIN = 1, FLAG_DATA = 2, FLAG_ACK = 4 /* send KIND_MATCHED */, FLAG_WIDE = 8 };

/* The envelope of a message, as it travels.  Little endian, like all hosts that Madeleine supports.  Without FLAG_WIDE
 * only the first 16 bytes are sent, so that they and eight bytes of payload fit one cell of shared memory. */
typedef struct wire_envelope {
    uint8_t kind, flags;
    uint16_t zero;
    uint32_t data; /* low half */
    uint64_t tag;
    uint32_t data_high;
    uint32_t block;  /* KIND_LONG: length of the blocks of the payload, in bytes; 0: one block */
    uint64_t number; /* FLAG_ACK, KIND_ANNOUNCE: number of the send */
    uint64_t len;    /* KIND_LONG, KIND_ANNOUNCE, KIND_BODY_LONG: length of the payload */
} wire_envelope_t;
#define ENVELOPE_SHORT offsetof(wire_envelope_t, data_high)
static_assert(ENVELOPE_SHORT == 16 && sizeof(wire_envelope_t) == 40, "what travels has no holes");

/* Accesses to memory.  A request consists of the header, its targets, and the payload: data, operands, operands to
 * compare with.  For KIND_WRITE_LONG the payload is a second block.  An answer consists of the header and the data that
 * were read. */
enum { KIND_WRITE = 16, KIND_WRITE_LONG, KIND_READ, KIND_ATOMIC, KIND_FETCH, KIND_COMPARE, KIND_ANSWER, KIND_ANSWER_LONG };
typedef struct remote_hdr {
    uint8_t kind, flags; /* FLAG_DATA */
    uint8_t type, op;
    uint8_t n;       /* number of targets */
    uint8_t refused; /* in an answer: true if the access is refused */
    uint16_t zero;
    uint64_t number, data;
    uint64_t len; /* length of the payload */
} remote_hdr_t;
static_assert(sizeof(remote_hdr_t) == 32 && sizeof(mad_dev_target_t) == 24, "what travels has no holes");
/* The beginning of a message's first block.  These bytes are copied once before they are checked, because the peer can still
 * change them. */
typedef union hdrs {
    wire_envelope_t message;
    remote_hdr_t access;
} hdrs_t;
static_assert(offsetof(wire_envelope_t, kind) == offsetof(remote_hdr_t, kind), "the kind tells them apart");
#define REMOTE_HDR_MAX (sizeof(remote_hdr_t) + MAD_DEV_PIECES * sizeof(mad_dev_target_t))

#define MAD_DEV_RARE __attribute__((noinline, cold))
#define MAD_DEV_LIKELY(x) __builtin_expect(!!(x), 1)

/* ---- Objects --------------------------------------------------------------------------------------------------- */

#define MAX_INDEXES \
    6 /* maximum number of hashed pairs (bits ignored, with or without source); further pairs are searched linearly */

typedef struct match_group match_group_t;

/* Work queued by a completion in any thread, to be done under the device's lock. */
typedef struct item {
    struct item *next;
    void (*look)(mad_dev_t *dev, struct item *item);
    mad_dev_t *dev;
    mad_status_t status;
} item_t;

/* An operation: a receive that is posted or whose message is arriving, or a send or an access in flight. */
typedef struct op {
    /* Two cache lines, all that most receives use.  Set when posted. */
    struct op *next; /* next in the receive's group, or in the list of receives that are not hashed */
    match_group_t *group;
    uint64_t order;
    uint64_t tag, ignore;
    size_t room; /* bytes of all pieces */
    void *context;
    uint64_t flags;
    mad_peer_t peer; /* source of a receive, or destination of a send */
    int n;           /* number of pieces */
    mad_dev_space_t space;
    bool quick; /* a receive of one message into one piece; dev_op_settle sets what follows the pieces, if needed */
    struct iovec pieces[MAD_DEV_PIECES];
    item_t item;
    struct {               /* fields that are zero at first, like `done` */
        size_t multi;      /* the receive is closed when fewer bytes than this are free; 0: one message only */
        struct op *parent; /* the multi-receive of which this operation is a part */
        int parts;         /* multi-receive: number of parts that are still arriving */
        int awaits;      /* send: number of outstanding events; possible events: the message has left, and it has matched */
        uint64_t number; /* send: its number, if it expects an answer; receive: its number, if it has sent a grant */
        uint64_t wanted_by; /* send: number of the receive that has granted it; 0 if the message was dropped */
        void *copy;         /* memory of a buffered send */
        size_t copy_len;
        bool closed;         /* multi-receive: takes no further message */
        bool silent;         /* true: no notification */
        bool needs_grant;    /* send: the payload waits for a grant */
        bool envelope_waits; /* send: the message's envelope has not left yet */
        bool wanted;         /* send: the grant has arrived */
        bool remote;         /* true for an access to memory */
    };
    mad_dev_done_t done; /* result; context and flags are set when the program is notified */
} op_t;
static_assert(offsetof(op_t, pieces) + sizeof(struct iovec) <= 128, "two cache lines");

/* Return the operation that an item belongs to. */
static inline op_t *dev_item_op(item_t *item)
{
    return (op_t *)((char *)item - offsetof(op_t, item));
}

/* The envelope of a message that has arrived. */
typedef struct dev_envelope {
    mad_dev_space_t space;
    mad_peer_t source;
    uint64_t tag, data, number;
    size_t len, block; /* bytes, as in wire_envelope_t */
    size_t cost;       /* cost of the message: dev_flow_cost of len */
    bool has_data, ack;
    bool needs_grant; /* the payload is still at the sender */
} dev_envelope_t;

/* The place of a message in a group. */
typedef struct match_place {
    struct match_place *next, *prev;
    match_group_t *group;
    mad_dev_message_t *message;
} match_place_t;

/* A message that no receive has matched yet, or that has matched but not arrived completely. */
struct mad_dev_message {
    /* Three cache lines, all that a short message uses. */
    mad_dev_message_t *next, *prev; /* neighbours in order of arrival, or in the list of claimed messages */
    unsigned char *bytes;           /* copy of the payload, in memory of its own or in `inside`; NULL if there is none */
    dev_envelope_t envelope;
    unsigned char inside[MAD_DEV_INSIDE]; /* a short payload */
    bool here;                            /* true if `bytes` is complete, and the sender expects no answer */
    match_place_t places[MAX_INDEXES];    /* most devices have one index */
    /* The fields from here to `item` are zero in a free message, as are `bytes` and `here`. */
    mad_message_t *message; /* a parked message, which still contains the payload; else NULL */
    op_t *op;               /* the receive that has matched it meanwhile; NULL if none */
    bool loading;           /* true while the copy is not complete */
    bool dropped;           /* discarded meanwhile */
    item_t item;            /* item of the message; its status is MAD_OK in a free message */
    void *context;          /* context of the claim */
};

static_assert(sizeof(struct mad_dev_message) <= MAD_DEV_ENVELOPE_COST, "what an envelope costs is what it takes");
static_assert(offsetof(struct mad_dev_message, places) + sizeof(match_place_t) <= 192, "three cache lines");

/* Flow control with one peer, in both directions, and what else this process keeps about the peer. */
typedef struct flow {
    _Atomic uint64_t sent,
        more; /* sent: cost of everything sent without a grant; more: limit beyond MAD_DEV_WINDOW, set by the peer */
    /* Bytes by which the peer's limit has been raised: announced, which the peer knows of, and due, which must still be
     * announced.  Together they are the cost of all messages that have arrived and are no longer kept, plus the growth of
     * the peer's window. */
    uint64_t announced, due;
    uint64_t grown;
    uint64_t kept;
    struct stuck *stuck; /* the peer's messages that wait behind one that is stuck (stuck.c); NULL if none */
    uint32_t served;     /* number of the peer's accesses under way here: long ones, and answers that have not left */
    uint16_t accesses;   /* number of accesses to the peer that are under way */
    bool shut;           /* the peer has broken the protocol: its messages are dropped */
} flow_t;
static_assert(sizeof(flow_t) == 64 && MAD_DEV_ACCESSES_MAX <= UINT16_MAX, "one cache line");
#define FLOWS 64 /* number of flows in the first chunk; each further chunk has twice as many */
#define FLOW_CHUNKS 26

/* The receives and the messages with one tag and one source. */
struct match_group {
    struct match_group *next; /* the next in the same slot of the table */
    uint64_t tag;
    mad_peer_t peer;
    op_t *posted, *posted_last; /* oldest first; posted_last is valid only if posted is not NULL */
    struct match_index *index;
    match_place_t *kept, *kept_last;
};

typedef struct match_index {
    uint64_t ignore;
    bool sourced;
    match_group_t **table;
    uint32_t size, n; /* number of slots, a power of two; number of groups */
    uint32_t posted;
} match_index_t;

typedef struct matcher {
    match_index_t indexes[MAX_INDEXES];
    int n;
    uint32_t posted;                 /* number of receives, in all indexes and in the list below */
    match_group_t *hot;              /* group of the receive that was posted or matched last; NULL if none */
    match_group_t *kept_in;          /* with a single index: group of the message that was kept last; else NULL */
    mad_dev_message_t *first, *last; /* the unexpected messages, oldest first */
    op_t *loose_first, *loose_last;  /* the posted receives that are not hashed */
} matcher_t;

struct mad_dev {
    mad_session_t *session;
    mad_channel_t *channel;
    bool threaded, by_handler;
    pthread_mutex_t lock;
    void (*notify)(void *arg, const mad_dev_done_t *done);
    void (*notify_received)(void *arg, void *context, uint64_t flags, const mad_dev_got_t *got);
    void *arg;
    const mad_dev_memory_t *memory;
    size_t whole_max; /* longest payload sent in the envelope's block, in bytes */
    int cores;        /* number of processors of this host */
    atomic_int known; /* number of peers of the session, counted up to cores + 1 (send.c) */
    _Atomic(item_t *) items;
    atomic_int under_way; /* number of requests that will queue an item when they complete */
    matcher_t matchers[2];
    uint64_t orders;
    mad_dev_message_t *claimed;
    struct arrival *arrived, *arrived_last; /* with by_handler: list of messages that have arrived, in order */
    /* stuck.c */
    struct stuck *stuck, *stuck_last; /* list of the peers whose oldest message has not arrived completely */
    mad_arrival_t starved;            /* if is_starved: a message for which memory was lacking; all later ones wait */
    bool is_starved;
    bool is_stuck;   /* true while messages of some or all peers wait, or are dropped: arrivals are then taken one by one */
    uint32_t n_shut; /* number of peers that have broken the protocol */
    mad_arrival_t shown[MAD_DEV_SHOWN]; /* polled: messages that were opened together */
    int n_shown, next_shown; /* number of shown messages; index of the first one that was not taken (n_shown: none) */
    mad_channel_t *
        watch; /* with by_handler: a channel on which nothing is sent, so that a receive posted there ends when its peer is lost */
    unsigned char *lost; /* indexed by peer, n_lost entries: its status, and the flag WATCHED */
    int n_lost;
    unsigned char *greeted; /* indexed by peer, n_greeted entries: state of the connection (send.c) */
    int n_greeted;
    unsigned quiet;         /* number of consecutive calls without an event */
    long tick;              /* ns: coarse clock at the last check */
    atomic_size_t buffered; /* bytes copied for buffered sends that are pending */
    flow_t *_Atomic flows[FLOW_CHUNKS];
    uint64_t windows; /* bytes by which the windows of all peers together may still grow */
    /* pool.c */
    op_t *free_ops;
    mad_dev_message_t *free_messages;
    struct chunk *chunks;
    op_t **numbered;
    uint32_t n_numbered, used_numbers;
    uint64_t last_number;
    unsigned char *sink; /* memory that receives discarded payloads */
};

/* End a message; message may be NULL, if it had already ended when it was opened.  Does not wait for payload that the
 * sender still holds. */
static inline void dev_message_end(mad_message_t *message)
{
    if (message)
        mad_message_drop(message);
}

static inline size_t dev_pieces_length(const struct iovec *pieces, int n)
{
    size_t len = 0;
    for (int i = 0; i < n; i++)
        len += pieces[i].iov_len;
    return len;
}

/* ---- Locks ------------------------------------------------------------------------------------------------------ */

static inline void dev_lock(mad_dev_t *dev)
{
    if (dev->threaded)
        pthread_mutex_lock(&dev->lock);
}
static inline bool dev_trylock(mad_dev_t *dev)
{
    return !dev->threaded || pthread_mutex_trylock(&dev->lock) == 0;
}
void dev_unlock_threaded(mad_dev_t *dev);
/* Unlock.  With by_handler, first handle what has arrived while the lock was held. */
static inline void dev_unlock(mad_dev_t *dev)
{
    if (dev->threaded)
        dev_unlock_threaded(dev);
}

/* ---- pool.c: under the lock ------------------------------------------------------------------------------------- */

bool dev_ops_more(mad_dev_t *dev); /* return false if out of memory */
/* Reset the fields that neither receives nor sends set.  The reset has three steps: for a single one, compilers use an
 * instruction that is slow to start. */
static inline void dev_op_clear(op_t *op)
{
    op->quick = false;
    op->item.status = MAD_OK;
    memset(&op->multi, 0, offsetof(op_t, done) - offsetof(op_t, multi));
    op->done = (mad_dev_done_t){.status = MAD_OK};
}
/* Set the fields that the post of a quick receive has left out.  For all paths but the quickest. */
static inline void dev_op_settle(op_t *op)
{
    if (op->quick)
        dev_op_clear(op);
}
/* Return an operation; NULL if out of memory.  All fields are zero, except `pieces`. */
static inline op_t *dev_op_new(mad_dev_t *dev)
{
    op_t *op = dev->free_ops;
    if (!MAD_DEV_LIKELY(op)) {
        if (!dev_ops_more(dev))
            return NULL;
        op = dev->free_ops;
    }
    dev->free_ops = op->next;
    dev_op_clear(op);
    op->group = NULL;
    op->space = 0;
    op->tag = op->ignore = op->order = 0;
    op->peer = 0;
    op->n = 0;
    op->room = 0;
    return op;
}
static inline void dev_op_free(mad_dev_t *dev, op_t *op)
{
    if (op->copy)
        free(op->copy);
    op->copy = NULL;
    op->next = dev->free_ops;
    dev->free_ops = op;
}
bool dev_messages_more(mad_dev_t *dev); /* return false if out of memory */
/* Return a message whose envelope and places are not set; NULL if out of memory. */
static inline mad_dev_message_t *dev_message_new(mad_dev_t *dev)
{
    mad_dev_message_t *u = dev->free_messages;
    if (!MAD_DEV_LIKELY(u)) {
        if (!dev_messages_more(dev))
            return NULL;
        u = dev->free_messages;
    }
    dev->free_messages = u->next;
    return u;
}
/* Free a message that has no bytes outside itself, and of which only `here` and `bytes` were set. */
static inline void dev_message_free_short(mad_dev_t *dev, mad_dev_message_t *u)
{
    u->bytes = NULL;
    u->here = false;
    u->next = dev->free_messages;
    dev->free_messages = u;
}
void dev_message_free(mad_dev_t *dev, mad_dev_message_t *message); /* frees the message and its bytes */
void dev_pool_fini(mad_dev_t *dev);
/* Numbers by which peers name operations.  No number is ever used again. */
bool dev_number_assign(mad_dev_t *dev, op_t *op);
op_t *dev_number_find(mad_dev_t *dev, uint64_t number);
void dev_number_release(mad_dev_t *dev, op_t *op);

/* ---- flow.c: under the lock, except the functions for senders ------------------------------------------------------- */

static inline uint64_t dev_flow_cost(size_t len)
{
    return len <= MAD_DEV_LOAD_MAX ? len + MAD_DEV_ENVELOPE_COST : 0;
}
/* Return the flow of a peer; NULL if there is none yet.  Any thread may call, because chunks are only added, and never
 * moved or freed. */
static inline flow_t *dev_flow_find(mad_dev_t *dev, mad_peer_t peer)
{
    uint32_t at = (uint32_t)peer + FLOWS, k = MAD_DEV_LIKELY(at < 2 * FLOWS) ? 0 : 25 - (uint32_t)__builtin_clz(at);
    flow_t *chunk = atomic_load_explicit(&dev->flows[k], memory_order_acquire); /* pairs with flow_first */
    if (!MAD_DEV_LIKELY(chunk))
        return NULL;
    return MAD_DEV_LIKELY(at < 2 * FLOWS) ? &chunk[peer] : &chunk[at - ((uint32_t)FLOWS << k)];
}
static inline uint64_t dev_flow_count(const mad_dev_t *dev, flow_t *f, uint64_t cost)
{
    uint64_t sent;
    if (dev->threaded)
        return atomic_fetch_add_explicit(&f->sent, cost, memory_order_relaxed) + cost;
    sent = atomic_load_explicit(&f->sent, memory_order_relaxed) + cost;
    atomic_store_explicit(&f->sent, sent, memory_order_relaxed);
    return sent;
}
/* Take `cost` from the peer's window.  If two threads try at the same time, both may fail although one of them would have
 * fitted. */
static inline bool dev_flow_take_from(const mad_dev_t *dev, flow_t *f, uint64_t cost)
{
    uint64_t most = MAD_DEV_WINDOW + atomic_load_explicit(&f->more, memory_order_relaxed);
    if (MAD_DEV_LIKELY(dev_flow_count(dev, f, cost) <= most))
        return true;
    dev_flow_count(dev, f, -cost);
    return false;
}
bool dev_flow_take_slow(mad_dev_t *dev, mad_peer_t to, uint64_t cost);
/* Return the flow of a peer, created if necessary; NULL if out of memory.  Under the lock. */
flow_t *dev_flow_make(mad_dev_t *dev, mad_peer_t peer);
/* Return true if a message of this cost may be sent without a grant; the cost is then counted as sent. */
static inline bool dev_flow_take(mad_dev_t *dev, mad_peer_t to, uint64_t cost)
{
    flow_t *f = dev_flow_find(dev, to);
    return (MAD_DEV_LIKELY(f) && MAD_DEV_LIKELY(dev_flow_take_from(dev, f, cost))) || dev_flow_take_slow(dev, to, cost);
}
/* Undo dev_flow_take: the message was not sent. */
void dev_flow_refund(mad_dev_t *dev, mad_peer_t to, uint64_t cost);
/* Count messages that are kept; `cost` is their total cost.  A peer with more of them than its window counts as lost. */
void dev_flow_hold(mad_dev_t *dev, mad_peer_t from, uint64_t cost);
void dev_flow_refund_pending(mad_dev_t *dev, mad_peer_t from, uint64_t cost);
/* Like dev_flow_consume, but f is the flow of the peer `from`; f is NULL if the peer has no flow yet. */
static inline void dev_flow_consume_in(mad_dev_t *dev, flow_t *f, mad_peer_t from, uint64_t cost)
{
    if (MAD_DEV_LIKELY(f) && MAD_DEV_LIKELY(f->due + cost < MAD_DEV_WINDOW / 4))
        f->due += cost;
    else
        dev_flow_refund_pending(dev, from, cost);
}
/* Count an arrived message that was matched immediately, and is not kept. */
static inline void dev_flow_consume(mad_dev_t *dev, mad_peer_t from, uint64_t cost)
{
    dev_flow_consume_in(dev, dev_flow_find(dev, from), from, cost);
}
/* Count a message that is no longer kept. */
static inline void dev_flow_release(mad_dev_t *dev, mad_peer_t from, uint64_t cost)
{
    flow_t *f = dev_flow_find(dev, from);
    if (MAD_DEV_LIKELY(f))
        f->kept -= f->kept < cost ? f->kept : cost;
    dev_flow_consume_in(dev, f, from, cost);
}
void dev_flow_raise(mad_dev_t *dev, mad_peer_t from, uint64_t more); /* KIND_MORE has arrived */
void dev_flow_fini(mad_dev_t *dev);

/* ---- rendezvous.c: under the lock, except dev_announce_send ----------------------------------------------------- */

/* Send the envelope only; the payload follows after a grant. */
mad_status_t dev_announce_send(mad_dev_t *dev, const mad_dev_send_t *s, wire_envelope_t *h, size_t len);
/* Grant or drop a message whose payload is still at the sender. */
void dev_announced_receive(mad_dev_t *dev, op_t *op, mad_peer_t source, uint64_t number, size_t len);
void dev_announced_drop(mad_dev_t *dev, mad_peer_t source, uint64_t number);
/* Handle a KIND_GRANT; handle a KIND_BODY or a KIND_BODY_LONG. */
void dev_grant_arrive(mad_dev_t *dev, mad_peer_t source, const wire_envelope_t *h);
void dev_body_arrive(mad_dev_t *dev, mad_message_t *message, const wire_envelope_t *h, madi_foreign_t bytes, size_t len);

/* ---- send.c ------------------------------------------------------------------------------------------------------ */

/* Send an envelope without a payload. */
void dev_answer_send(mad_dev_t *dev, mad_peer_t to, const wire_envelope_t *h);
/* Enlarge an array that has one byte per peer, so that it includes this peer.  Return false if out of memory. */
bool dev_peers_grow(unsigned char **by_peer, int *n, mad_peer_t peer);
/* Notify the sender that its message has matched. */
void dev_matched_send(mad_dev_t *dev, mad_peer_t to, uint64_t number);
/* Make an operation for a send; NULL with the reason in *status.  Takes the lock. */
op_t *dev_op_of_send(mad_dev_t *dev, const mad_dev_send_t *s, size_t len, bool needs_grant, mad_status_t *status);
/* Count bytes that are copied for a buffered send; false if the limit is reached.  Any thread. */
bool dev_buffer_take(mad_dev_t *dev, size_t len);
void dev_buffer_release(mad_dev_t *dev, size_t len);
/* Allocate memory for the operation, with `before` bytes at its start for the caller, and copy len bytes of its
 * pieces after them.  The copy is counted, and becomes the only piece; if len is 0 the pieces stay unchanged.
 * MAD_ERR_AGAIN: too much is buffered; MAD_ERR_NOMEM. */
mad_status_t dev_op_copy(mad_dev_t *dev, op_t *op, size_t before, size_t len);
/* Record one of the events that a send waits for.  The last event completes the send.  Under the lock. */
void dev_send_advance(mad_dev_t *dev, op_t *op, mad_status_t status);
/* Like dev_send_advance, but called with the item of a request that has completed. */
void dev_send_left(mad_dev_t *dev, item_t *item);
/* Queue an item, which is handled soon under the lock.  Any thread, with or without the lock. */
void dev_item_push(void *item, mad_status_t status);
/* Queue the item when the request completes; the request belongs to the library from now on. */
void dev_item_attach(mad_dev_t *dev, mad_request_t *request, item_t *item, void (*look)(mad_dev_t *dev, item_t *item));

/* ---- device.c: under the lock ------------------------------------------------------------------------------------ */

/* Mark the peer lost if this status of an operation shows that it is. */
void dev_peer_suspect(mad_dev_t *dev, mad_peer_t peer, mad_status_t status);
mad_status_t dev_peer_status(const mad_dev_t *dev, mad_peer_t peer); /* MAD_OK unless lost */
/* Make the library notice the loss of this peer without a call of the program (with by_handler).  No effect for
 * MAD_ANY_SOURCE. */
void dev_peer_watch(mad_dev_t *dev, mad_peer_t peer);

/* The peer has broken the protocol: it counts as lost, with MAD_ERR_PROTOCOL, and all its later messages are dropped. */
void dev_peer_breach(mad_dev_t *dev, mad_peer_t peer);

/* Take the messages in dev->shown, up to one that is stuck, or, unless `keeps`, up to one that no receive matches.
 * Return their number.  Not while dev->is_stuck. */
int dev_shown_take(mad_dev_t *dev, bool keeps);
/* True if messages in dev->shown wait for a receive.  While dev->is_stuck, calls for progress take them. */
static inline bool dev_shown_waits(const mad_dev_t *dev)
{
    return dev->next_shown < dev->n_shown && !dev->is_stuck;
}
/* Poll for messages up to MADI_DEVICE_GLANCES times; true if there are some in dev->shown.  Precondition: no message
 * waits in dev->shown, and none is stuck. */
bool dev_shown_poll(mad_dev_t *dev);

/* ---- receive.c: under the lock ----------------------------------------------------------------------------------- */

/* Fail all receives that name this peer. */
void dev_receives_fail(mad_dev_t *dev, mad_peer_t peer, mad_status_t status);

/* ---- unexpected.c: under the lock --------------------------------------------------------------------------------- */

/* Keep a message that no receive has matched.  bytes not set: the payload is the next block, or is still at the sender.
 * Return false if out of memory. */
bool dev_message_keep(mad_dev_t *dev, const dev_envelope_t *envelope, mad_message_t *message, madi_foreign_t bytes);
/* Give a kept message to a receive.  Both are freed, either now or when the payload has arrived. */
void dev_message_meet(mad_dev_t *dev, op_t *op, mad_dev_message_t *message);
void dev_message_drop(mad_dev_t *dev, mad_dev_message_t *message);

/* ---- arrive.c: under the lock ------------------------------------------------------------------------------------ */

/* Match a message that was opened.  Return false if its envelope has not arrived completely, or if out of memory; the
 * message then waits (stuck.c).  Precondition: no earlier message of the peer is stuck. */
bool dev_arrival_take(mad_dev_t *dev, const mad_arrival_t *arrival);
/* Like dev_arrival_take, but the message does not wait by itself.  MAD_ERR_AGAIN: its envelope has not arrived
 * completely; MAD_ERR_NOMEM.  The message may then be tried again. */
mad_status_t dev_arrival_try(mad_dev_t *dev, mad_arrival_t *arrival);
/* Take messages that were opened together, up to one that is stuck, or, unless `keeps`, up to one that no receive
 * matches.  Return the number of messages taken, with one that is stuck. */
int dev_arrivals_take(mad_dev_t *dev, const mad_arrival_t *arrivals, int n, bool keeps);
/* Return the operation for the next len bytes: the receive itself, or a part of a multi-receive; NULL if out of memory. */
op_t *dev_op_part(mad_dev_t *dev, op_t *op, size_t len);
void dev_op_complete(mad_dev_t *dev, op_t *op); /* notify, and free the operation */
/* Copy bytes into the operation's pieces, as far as they have room. */
void dev_op_fill(op_t *op, madi_foreign_t bytes, size_t len);
/* Unpack the next len bytes, in blocks of `block` (0: in one), into the operation's pieces, and discard what does not fit.
 * After that, call `look`, with the status in the item. */
void dev_op_receive_from(mad_dev_t *dev, op_t *op, mad_message_t *message, size_t len, size_t block,
                         void (*look)(mad_dev_t *dev, item_t *item));
/* Unpack len bytes, in blocks of `block` bytes (0: in one), into the pieces.  Changes the array. */
mad_status_t dev_unpack_blocks(mad_message_t *message, struct iovec *pieces, int n, size_t len, size_t block);
/* Describe the message to the receive. */
void dev_op_describe(op_t *op, const dev_envelope_t *envelope);
void dev_op_received(mad_dev_t *dev, item_t *item); /* handle the item of a receive whose payload has arrived */

/* ---- stuck.c: under the lock -------------------------------------------------------------------------------------- */

/* Let a message wait whose envelope has not arrived completely, and all later ones of its sender. */
void dev_arrival_stick(mad_dev_t *dev, const mad_arrival_t *arrival);
/* Let a message wait for memory, and all later ones of all peers. */
void dev_arrival_starve(mad_dev_t *dev, const mad_arrival_t *arrival);
/* Like dev_arrival_take, but without the precondition: the message waits if an earlier one of its sender does, and is
 * dropped if its sender has broken the protocol.  Return true if the message was matched. */
bool dev_arrival_admit(mad_dev_t *dev, const mad_arrival_t *arrival);
/* Try again messages that wait.  Return the number of messages taken. */
int dev_stuck_retry(mad_dev_t *dev);
void dev_stuck_fini(mad_dev_t *dev); /* called after the session has ended */

/* ---- remote.c, serve.c: under the lock --------------------------------------------------------------------------- */

/* Copy the contents of all pieces to `to`; return the end of the copy. */
unsigned char *dev_pieces_gather(unsigned char *to, const struct iovec *pieces, int n);
/* Handle the answer to an access, and end the message. */
void dev_remote_answered(mad_dev_t *dev, mad_peer_t source, mad_message_t *message, const remote_hdr_t *h,
                         madi_foreign_t bytes, size_t len);
/* Release the targets of an item that belongs to an access by a peer.  Called when the device closes. */
void dev_remote_forget(mad_dev_t *dev, item_t *item);
/* Handle a request of a peer for memory, or an answer. h: the beginning of the block, padded with zeros.  Return
 * false if out of memory. */
bool dev_remote_serve(mad_dev_t *dev, mad_peer_t source, mad_message_t *message, const remote_hdr_t *h, madi_foreign_t block,
                      size_t len);

#endif
