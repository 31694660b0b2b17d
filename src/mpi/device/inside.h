/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the device share. */
#ifndef MAD_DEVICE_INSIDE_H
#define MAD_DEVICE_INSIDE_H

#include "base/foreign.h"
#include "device.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- What travels ---------------------------------------------------------------------------------------------- */

enum { HEAD_WHOLE = 1, /* the payload follows in the same block */
       HEAD_LONG,      /* the payload is a block of its own, or several */
       HEAD_MATCHED,   /* answer: the message of that number has met a receive */
       HEAD_ANNOUNCE,  /* the payload stays with the sender */
       HEAD_GRANT,     /* answer: send the payload of that number for the receive of number len; 0: nobody wants it */
       HEAD_BODY,      /* the payload for the receive of that number, in the same block, */
       HEAD_BODY_LONG, /* or as a second one */
       HEAD_MORE,      /* answer: payloads of so much in all may be sent, beyond the first MAD_DEV_WINDOW */
       HEAD_END };
enum { FLAG_PLAIN = 1, FLAG_DATA = 2, FLAG_ACK = 4 /* answer when matched */, FLAG_WIDE = 8 };

/* Little endian, as all hosts are that Madeleine runs on.  Without FLAG_WIDE the first 16 bytes only, so that eight bytes
 * of payload fit one cell of shared memory. */
typedef struct dev_head {
    uint8_t kind, flags;
    uint16_t zero;
    uint32_t data; /* low half */
    uint64_t tag;
    uint32_t data_high;
    uint32_t block;  /* HEAD_LONG: the payload comes in blocks of so many bytes; 0: in one */
    uint64_t number; /* FLAG_ACK, HEAD_ANNOUNCE: of the send */
    uint64_t len;    /* HEAD_LONG, HEAD_ANNOUNCE, HEAD_BODY_LONG: of the payload */
} dev_head_t;
#define HEAD_SHORT offsetof(dev_head_t, data_high)
static_assert(HEAD_SHORT == 16 && sizeof(dev_head_t) == 40, "what travels has no holes");

/* Accesses to memory.  A request is the head, then its targets, then the payload: data, operands, operands to compare with;
 * of HEAD_WRITE_LONG the payload is a second block.  An answer is the head, then what was read. */
enum { HEAD_WRITE = 16, HEAD_WRITE_LONG, HEAD_READ, HEAD_ATOMIC, HEAD_FETCH, HEAD_COMPARE, HEAD_ANSWER, HEAD_ANSWER_LONG };
typedef struct remote_head {
    uint8_t kind, flags; /* FLAG_DATA */
    uint8_t type, op;
    uint8_t n;       /* targets */
    uint8_t refused; /* in answers */
    uint16_t zero;
    uint64_t number, data;
    uint64_t len; /* of the payload */
} remote_head_t;
static_assert(sizeof(remote_head_t) == 32 && sizeof(mad_dev_target_t) == 24, "what travels has no holes");
/* What the first block of a message begins with: copied once, then judged. */
typedef union heads {
    dev_head_t message;
    remote_head_t access;
} heads_t;
static_assert(offsetof(dev_head_t, kind) == offsetof(remote_head_t, kind), "the kind tells them apart");
#define REMOTE_HEAD_MAX (sizeof(remote_head_t) + MAD_DEV_PIECES * sizeof(mad_dev_target_t))

#define MAD_DEV_RARE __attribute__((noinline, cold))
#define MAD_DEV_LIKELY(x) __builtin_expect(!!(x), 1)

/* ---- Objects --------------------------------------------------------------------------------------------------- */

#define MAX_INDEXES 6 /* pairs of (bits ignored, with or without source) that are hashed; more are searched one by one */

typedef struct match_group match_group_t;

/* What has completed, in whatever thread, and is looked at under the lock. */
typedef struct item {
    struct item *next;
    void (*look)(mad_dev_t *dev, struct item *item);
    mad_dev_t *dev;
    mad_status_t status;
} item_t;

/* An operation: a receive that is posted or being filled, a send under way. */
typedef struct op {
    item_t item;
    /* Of receives, set when they are posted. */
    struct op *next; /* in its group, or among those that are not hashed */
    match_group_t *group;
    uint64_t order;
    mad_dev_space_t space;
    uint64_t tag, ignore;
    mad_peer_t peer; /* wanted; of a send: to whom */
    int n;
    size_t room;
    struct { /* zero at first, as `done` is */
        size_t multi;       /* least room that is left; 0: one message only */
        struct op *parent;  /* the multi-receive that this is a part of */
        int parts;          /* of a multi-receive: under way */
        int awaits;         /* of a send: how many of (left, matched) are missing */
        uint64_t number;    /* of a send that wants an answer, of a receive whose payload was asked for */
        uint64_t wanted_by; /* it was asked for by this receive, or 0: nobody wants it */
        void *copy;         /* of a buffered send */
        size_t copy_len;
        bool closed;  /* of a multi-receive: takes no more */
        bool silent;  /* nobody hears of it */
        bool asks;    /* of a send: its payload waits until it is asked for; */
        bool heading; /* its head is still leaving; */
        bool wanted;  /* it was asked for */
        bool remote;  /* an access, not a send */
    };
    mad_dev_done_t done;
    struct iovec pieces[MAD_DEV_PIECES];
} op_t;

/* A message, as its head says it is. */
typedef struct dev_envelope {
    mad_dev_space_t space;
    mad_peer_t source;
    uint64_t tag, data, number;
    size_t len, block; /* as in the head */
    size_t cost;       /* dev_flow_cost */
    bool has_data, ack;
    bool asks; /* its payload is with the sender */
} dev_envelope_t;

/* A message's place in a group. */
typedef struct match_place {
    struct match_place *next, *prev;
    match_group_t *group;
    mad_dev_message_t *message;
} match_place_t;

/* A message that has met no receive yet, or waits until it is here whole. */
struct mad_dev_message {
    item_t item;
    mad_dev_message_t *next, *prev; /* in order of arrival; or among the claimed */
    dev_envelope_t envelope;
    unsigned char *bytes;  /* copied, or NULL: */
    mad_connection_t *cnx; /* parked */
    bool loading;          /* bytes are still coming */
    op_t *op;              /* met it meanwhile; */
    bool dropped;          /* or nobody wants it any longer */
    void *context;         /* claimed under this */
    match_place_t places[MAX_INDEXES];
};

static_assert(sizeof(struct mad_dev_message) <= MAD_DEV_HEAD_COST, "what a head costs is what it takes");

/* What may be sent to a peer, and what has come from it. */
typedef struct flow {
    _Atomic uint64_t sent, more; /* the cost of all that was sent unasked; what the peer allows beyond MAD_DEV_WINDOW */
    /* The cost of all that has come and is no longer kept, and what its window has grown by: as the peer knows it, and what
     * it has not been told yet. */
    uint64_t told, due;
    uint64_t grown;
    uint64_t kept;
} flow_t;
#define FLOWS 64 /* of the first chunk; each next one has twice as many */
#define FLOW_CHUNKS 26

/* Of a tag and a source. */
struct match_group {
    struct match_group *next; /* in the table */
    uint64_t tag;
    mad_peer_t peer;
    op_t *posted, *posted_last; /* oldest first; the last one counts only if there is a first */
    struct match_index *index;
    match_place_t *kept, *kept_last;
};

typedef struct match_index {
    uint64_t ignore;
    bool sourced;
    match_group_t **table;
    uint32_t size, n; /* a power of two; groups */
    uint32_t posted;
} match_index_t;

typedef struct matcher {
    match_index_t indexes[MAX_INDEXES];
    int n;
    uint32_t posted; /* receives, in all indexes and of none */
    match_group_t *hot;    /* where the last receive was posted, or one was met; NULL: none */
    mad_dev_message_t *first, *last; /* unexpected, oldest first */
    op_t *loose_first, *loose_last;  /* posted, of no index */
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
    size_t whole_max; /* payload that may travel in one block */
    int cores;        /* of this host */
    atomic_int known; /* peers that the session has, or one more than cores: send.c */
    _Atomic(item_t *) items;
    atomic_int under_way; /* requests whose completion will be an item */
    matcher_t matchers[2];
    uint64_t orders;
    mad_dev_message_t *claimed;
    struct arrival *arrived, *arrived_last; /* by handler: in order */
    /* A message whose first block is not all here: what comes after it waits, for the order's sake. */
    mad_arrival_t stuck; /* base: it is here, but there was no memory */
    bool is_stuck;
    mad_arrival_t shown[MAD_DEV_SHOWN]; /* polled: what was opened with it, from next_shown on */
    int n_shown, next_shown;
    mad_channel_t *watch; /* by handler: nothing is ever sent there, so what is posted ends when the peer is lost */
    unsigned char *lost;  /* statuses by peer, of n_lost; and WATCHED */
    int n_lost;
    unsigned char *greeted; /* by peer, of n_greeted: send.c */
    int n_greeted;
    unsigned quiet;         /* calls in a row without anything */
    long tick;              /* of the clock, when it was looked at */
    atomic_size_t buffered; /* bytes of sends that were copied */
    flow_t *_Atomic flows[FLOW_CHUNKS];
    uint64_t windows; /* what they may still grow by */
    /* pool.c */
    op_t *free_ops;
    mad_dev_message_t *free_messages;
    struct chunk *chunks;
    op_t **numbered;
    uint32_t n_numbered, used_numbers;
    uint64_t last_number;
    unsigned char *sink; /* what nobody wants goes there */
};

/* It may have ended when it was shown.  Does not wait for a rest that its sender keeps back. */
static inline void dev_message_end(mad_connection_t *cnx)
{
    if (cnx)
        mad_drop_unpacking(cnx);
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
/* By handler, what came while the lock was held is looked at before it is given back. */
static inline void dev_unlock(mad_dev_t *dev)
{
    if (dev->threaded)
        dev_unlock_threaded(dev);
}

/* ---- pool.c: under the lock ------------------------------------------------------------------------------------- */

bool dev_ops_more(mad_dev_t *dev); /* false: no memory */
/* What is set neither by receives nor by sends.  Not all of it at once: for that compilers take an instruction that is slow
 * to start. */
static inline void dev_op_clear(op_t *op)
{
    op->item.status = MAD_OK;
    memset(&op->multi, 0, offsetof(op_t, done) - offsetof(op_t, multi));
    op->done = (mad_dev_done_t){.status = MAD_OK};
}
/* All zero, but for the pieces, which are filled as far as they are used; NULL: no memory. */
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
mad_dev_message_t *dev_message_new(mad_dev_t *dev); /* what it said is not set, and no places */
void dev_message_free(mad_dev_t *dev, mad_dev_message_t *message); /* and its bytes */
void dev_pool_fini(mad_dev_t *dev);
/* Peers name a send by its number, which is given once. */
bool dev_number_assign(mad_dev_t *dev, op_t *op);
op_t *dev_number_find(mad_dev_t *dev, uint64_t number);
void dev_number_release(mad_dev_t *dev, op_t *op);

/* ---- flow.c: under the lock, but for what senders take --------------------------------------------------------------- */

static inline uint64_t dev_flow_cost(size_t len)
{
    return len <= MAD_DEV_LOAD_MAX ? len + MAD_DEV_HEAD_COST : 0;
}
/* Any thread: chunks come once, and stay.  NULL: there was nothing of this peer. */
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
/* Two threads may both be refused where one would have been let through. */
static inline bool dev_flow_take_from(const mad_dev_t *dev, flow_t *f, uint64_t cost)
{
    uint64_t most = MAD_DEV_WINDOW + atomic_load_explicit(&f->more, memory_order_relaxed);
    if (MAD_DEV_LIKELY(dev_flow_count(dev, f, cost) <= most))
        return true;
    dev_flow_count(dev, f, -cost);
    return false;
}
bool dev_flow_take_slow(mad_dev_t *dev, mad_peer_t to, uint64_t cost);
/* May so much more be sent unasked?  Then it counts as sent. */
static inline bool dev_flow_take(mad_dev_t *dev, mad_peer_t to, uint64_t cost)
{
    flow_t *f = dev_flow_find(dev, to);
    return (MAD_DEV_LIKELY(f) && MAD_DEV_LIKELY(dev_flow_take_from(dev, f, cost))) || dev_flow_take_slow(dev, to, cost);
}
/* It was not sent. */
void dev_flow_refund(mad_dev_t *dev, mad_peer_t to, uint64_t cost);
void dev_flow_hold(mad_dev_t *dev, mad_peer_t from, uint64_t cost);
void dev_flow_refund_pending(mad_dev_t *dev, mad_peer_t from, uint64_t cost);
/* It has met somebody at once. */
static inline void dev_flow_consume(mad_dev_t *dev, mad_peer_t from, uint64_t cost)
{
    flow_t *f = dev_flow_find(dev, from);
    if (MAD_DEV_LIKELY(f) && MAD_DEV_LIKELY(f->due + cost < MAD_DEV_WINDOW / 4))
        f->due += cost;
    else
        dev_flow_refund_pending(dev, from, cost);
}
void dev_flow_release(mad_dev_t *dev, mad_peer_t from, uint64_t cost);
void dev_flow_raise(mad_dev_t *dev, mad_peer_t from, uint64_t more); /* HEAD_MORE has come */
void dev_flow_fini(mad_dev_t *dev);

/* ---- rendezvous.c: under the lock, but for the first ------------------------------------------------------------ */

/* Send the head only. */
mad_status_t dev_announce_send(mad_dev_t *dev, const mad_dev_send_t *s, dev_head_t *h, size_t len);
/* A message whose payload is with its sender has met a receive, or nobody wants it. */
void dev_announced_receive(mad_dev_t *dev, op_t *op, mad_peer_t source, uint64_t number, size_t len);
void dev_announced_drop(mad_dev_t *dev, mad_peer_t source, uint64_t number);
/* HEAD_GRANT, HEAD_BODY, HEAD_BODY_LONG have come. */
void dev_grant_arrive(mad_dev_t *dev, mad_peer_t source, const dev_head_t *h);
void dev_body_arrive(mad_dev_t *dev, mad_connection_t *cnx, const dev_head_t *h, madi_foreign_t bytes, size_t len);

/* ---- send.c ------------------------------------------------------------------------------------------------------ */

/* An answer: a head alone. */
void dev_answer_send(mad_dev_t *dev, mad_peer_t to, const dev_head_t *h);
/* Where what stands by peer has so many places, more for this one.  False: no memory. */
bool dev_peers_grow(unsigned char **by_peer, int *n, mad_peer_t peer);
/* Tell the sender that its message has met a receive. */
void dev_matched_send(mad_dev_t *dev, mad_peer_t to, uint64_t number);
/* An operation for it; NULL: *status says why.  Takes the lock. */
op_t *dev_op_of_send(mad_dev_t *dev, const mad_dev_send_t *s, size_t len, bool asks, mad_status_t *status);
/* Count bytes that are copied, up to a limit (false: beyond it).  Any thread. */
bool dev_buffer_take(mad_dev_t *dev, size_t len);
void dev_buffer_release(mad_dev_t *dev, size_t len);
/* Memory of the operation's own: `before` bytes for whoever calls, then len bytes, copied from its pieces, counted, and its
 * only piece from now on (len 0: they stay as they are).  MAD_ERR_AGAIN: too much is buffered; MAD_ERR_NOMEM. */
mad_status_t dev_op_copy(mad_dev_t *dev, op_t *op, size_t before, size_t len);
/* One of what a send waits for has come; it is told with the last.  Under the lock. */
void dev_send_advance(mad_dev_t *dev, op_t *op, mad_status_t status);
/* The same, as what is to be looked at when a request of the operation has completed. */
void dev_send_left(mad_dev_t *dev, item_t *item);
/* Have the item looked at under the lock, soon.  Any thread, with or without the lock. */
void dev_item_push(void *item, mad_status_t status);
/* Have the item looked at under the lock when the request completes, which is given up. */
void dev_item_attach(mad_dev_t *dev, mad_request_t *request, item_t *item, void (*look)(mad_dev_t *dev, item_t *item));

/* ---- device.c: under the lock ------------------------------------------------------------------------------------ */

/* An operation with this peer has failed: is it lost? */
void dev_peer_suspect(mad_dev_t *dev, mad_peer_t peer, mad_status_t status);
mad_status_t dev_peer_status(const mad_dev_t *dev, mad_peer_t peer); /* MAD_OK unless lost */
/* By handler: have it looked at when this peer (or MAD_ANY_SOURCE: nobody) is lost, though nobody calls. */
void dev_peer_watch(mad_dev_t *dev, mad_peer_t peer);

/* ---- receive.c: under the lock ----------------------------------------------------------------------------------- */

/* The receives that name this peer fail. */
void dev_receives_fail(mad_dev_t *dev, mad_peer_t peer, mad_status_t status);

/* ---- arrive.c: under the lock ------------------------------------------------------------------------------------ */

/* A message was opened: match it.  False: not all of its head is here, or no memory; it is `stuck`. */
bool dev_arrival_take(mad_dev_t *dev, const mad_arrival_t *arrival);
/* Messages that were opened one after the other, up to one that is stuck: returns how many were taken, without it. */
int dev_arrivals_take(mad_dev_t *dev, const mad_arrival_t *arrivals, int n);
bool dev_message_arrive(mad_dev_t *dev, mad_connection_t *cnx);
bool dev_stuck_retry(mad_dev_t *dev); /* true: it is no longer */
/* A message that waited goes to a receive; both are gone afterwards, or will be. */
void dev_message_meet(mad_dev_t *dev, op_t *op, mad_dev_message_t *message);
void dev_message_drop(mad_dev_t *dev, mad_dev_message_t *message);
/* What the receive gets of messages to come, of so many bytes: the operation itself, or a part of a multi-receive. */
op_t *dev_op_part(mad_dev_t *dev, op_t *op, size_t len);
void dev_op_complete(mad_dev_t *dev, op_t *op); /* and free it */
/* Bytes into the operation's pieces, as far as there is room. */
void dev_op_fill(op_t *op, madi_foreign_t bytes, size_t len);
/* What follows, len bytes in blocks of `block` (0: in one), into the operation's pieces, and what is more into nothing; then
 * `look`, with the status. */
void dev_op_receive_from(mad_dev_t *dev, op_t *op, mad_connection_t *cnx, size_t len, size_t block,
                         void (*look)(mad_dev_t *dev, item_t *item));
void dev_op_received(mad_dev_t *dev, item_t *item); /* to be looked at when a receive has its payload */

/* ---- remote.c, serve.c: under the lock --------------------------------------------------------------------------- */

/* What is in the pieces, one after the other. */
unsigned char *dev_pieces_gather(unsigned char *to, const struct iovec *pieces, int n);
/* The answer to an access; it ends the message. */
void dev_remote_answered(mad_dev_t *dev, mad_peer_t source, mad_connection_t *cnx, const remote_head_t *h,
                         madi_foreign_t bytes, size_t len);
/* At the end: if the item is of an access by a peer, drop what it holds. */
void dev_remote_forget(mad_dev_t *dev, item_t *item);
/* A message of this kind was opened.  h: what the block begins with, zeros behind its end.  False: no memory now. */
bool dev_remote_serve(mad_dev_t *dev, mad_peer_t source, mad_connection_t *cnx, const remote_head_t *h, madi_foreign_t block,
                      size_t len);

#endif
