/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations.  doc/collectives.md explains them.
 *
 *   calls.c      the program's calls: arguments, begin, wait
 *   group.c      groups; hosts.c: on which hosts and islands their members are
 *   choose.c     which form an operation takes; tree.c: trees (both pure)
 *   plan.c       plans: the list of steps of one operation; barrier.c, broadcast.c, ... fill it
 *   run.c        steps are carried out, and operations complete; send.c: one message leaves; wait.c: a thread waits
 *   match.c      a message arrives, for the step that waits for it, or early; early.c: those that arrive early
 *   start.c      the folder's part of a session, the channel, and how it is polled
 *   lost.c       members that are lost, and operations that have failed
 *
 * An operation is a list of steps, which is made when it begins:
 *
 *   SEND to 3 | RECEIVE from 1 | WAIT | COMBINE | SEND to 1 | WAIT        at: the next step
 *
 * SEND and RECEIVE only begin; WAIT stops the list until all that has begun is done.  Whoever completes the last of these goes
 * on with the list: the thread that waits, one that polls, or the progress thread.
 *
 * How messages come.  While operations with requests are pending, the channel has a handler, so that any progress serves them.
 * Otherwise the threads that wait poll the channel, which is faster, and messages of operations that have not begun here wait
 * in the channel.
 *
 * The part has a lock of its own, coll->lock, which is held shortly.  Under coll->lock no other lock is taken, and no public
 * call of the library and no function of the program is made. */
#ifndef MADI_COLL_H
#define MADI_COLL_H

#include "coll/choose.h"
#include "coll/envelope.h"
#include "coll/tree.h"
#include "core/object/session.h"

#include <madeleine/coll.h>
#include <madeleine/runtime.h>

#define MADI_COLL_EAGER 16384 /* bytes: longest message that is sent in its envelope's block */
/* bytes, and number, of early messages that are kept of one peer; of all peers four times as many.  A peer that sends more is
 * in error (doc/limits.md) */
#define MADI_COLL_EARLY_BYTES ((size_t)64 << 20)
#define MADI_COLL_EARLY_MAX 250000
/* after this number of operations of a group, one of those in which members only send ends with a barrier, so that no member
 * gets ahead without limit; a power of two */
#define MADI_COLL_AHEAD 64

/* A step of a plan. */
enum madi_coll_step_kind {
    MADI_COLL_SEND,
    MADI_COLL_RECEIVE,
    MADI_COLL_WAIT,          /* until all messages that have begun are done */
    MADI_COLL_COPY,          /* len bytes */
    MADI_COLL_COMBINE,       /* len bytes: to = from * to */
    MADI_COLL_COMBINE_AFTER, /* len bytes: to = to * from; changes from */
};
typedef struct madi_coll_step {
    uint8_t kind;  /* enum madi_coll_step_kind */
    uint16_t tag;  /* of a message */
    int member;    /* the other member of a message */
    void *to;      /* destination; NULL for SEND and WAIT */
    void *from;    /* source; NULL for RECEIVE and WAIT */
    uint64_t len;  /* bytes */
    uint32_t next; /* next in op->posted, as an index plus 1; 0: none */
} madi_coll_step_t;

/* An operation.  Under coll->lock, unless a field says otherwise. */
typedef struct madi_coll_op {
    struct mad_group *group;       /* constant */
    struct madi_coll_op *next;     /* next in group->ops; NULL at the end */
    madi_coll_envelope_t envelope; /* the envelope of its messages, with tag 0; constant */
    bool running;                  /* true while a thread carries out steps, or completes the operation */
    uint32_t pending;              /* number of messages that have begun and are not done */
    mad_status_t status;           /* the first failure */
    _Atomic(bool) done;            /* set with the lock, read without */
    marceli_waiter_t *waiter;      /* the thread that sleeps until the operation is done; NULL if none */
    mad_request_t *request;        /* NULL if the call itself waits; constant */
    uint32_t posted;               /* receives that wait for their messages, as an index plus 1; 0: none */
    /* The plan: written before the operation runs. */
    madi_coll_step_t *steps;
    uint32_t n_steps, cap_steps, at;
    unsigned char *scratch; /* memory for parts of results */
    size_t scratch_cap;     /* bytes */
    mad_combine_t combine;
    bool
        changes_mode; /* true if the channel's handler was not needed when the operation began; of the thread that begins it */
    bool no_memory;   /* true if the plan is incomplete */
    bool watches;     /* true if the losses of peers that it waits for are of interest (lost.c) */
} madi_coll_op_t;

/* A message that has arrived before its step.  Constant. */
typedef struct madi_coll_early {
    struct madi_coll_early *next;
    madi_coll_envelope_t envelope;
    mad_peer_t peer;
    mad_message_t *message; /* the message, whose second block is still to be received; NULL: the bytes are here */
    size_t len;             /* length of `bytes` */
    unsigned char bytes[];
} madi_coll_early_t;

#define MADI_COLL_EARLY_LISTS 16 /* lists of early messages of a group */
typedef struct madi_coll_early_list {
    madi_coll_early_t *first, **end;
} madi_coll_early_list_t;

#define MADI_COLL_TREES 8 /* number of trees that a group keeps */

/* A tree that was used. */
typedef struct madi_coll_tree_kept {
    const madi_coll_places_t *places; /* NULL: none */
    int root;
    int radix; /* on a host */
    madi_coll_tree_t tree;
} madi_coll_tree_kept_t;

/* The last choice of a form. */
typedef struct madi_coll_chosen {
    uint64_t len;
    size_t size;
    bool commutes;
    madi_coll_form_t form; /* MADI_COLL_NO_FORM: none was made */
} madi_coll_chosen_t;

/* Constant, unless a field says otherwise. */
struct mad_group {
    struct mad_group *next; /* next in coll->groups; under coll->lock */
    struct madi_coll_session *coll;
    uint64_t number;
    int n, index;
    void (*idle)(void *arg); /* called while a call waits (mad_group_idle_set); NULL if none */
    void *idle_arg;
    madi_coll_places_t places;
    madi_coll_places_t flat;         /* like places, but as if all members were on one host */
    _Atomic(uint32_t) seq;           /* number of the next operation; written by the thread that begins an operation */
    madi_coll_op_t *ops, **ops_tail; /* operations that are not done; under coll->lock */
    madi_coll_op_t *kept;            /* like spare; of the thread that begins an operation */
    madi_coll_op_t *spare;           /* an operation to use again; NULL if none; under coll->lock */
    madi_coll_early_list_t early[MADI_COLL_EARLY_LISTS]; /* messages that wait for their steps; under coll->lock */
    _Atomic(size_t) n_early;                             /* their number; written under coll->lock */
    _Atomic(mad_status_t) failed;                        /* status of all later operations; written under coll->lock */
    bool told;                                    /* true once the failure was sent to the members; under coll->lock */
    madi_coll_tree_kept_t trees[MADI_COLL_TREES]; /* by root, modulo their number; of the thread that begins an operation */
    madi_coll_chosen_t chosen[MADI_COLL_KINDS];   /* likewise */
    mad_peer_t peers[];                           /* the members */
};

/* State of a peer.  Under coll->lock. */
typedef struct madi_coll_peer {
    bool watched;                /* a loss of the peer will be reported */
    mad_status_t lost;           /* why the peer is lost; MAD_OK if it is not */
    size_t early_bytes, n_early; /* sums of its early messages */
} madi_coll_peer_t;

/* A message whose first block is still arriving.  Under coll->lock. */
typedef struct madi_coll_partial {
    struct madi_coll_partial *next;
    mad_message_t *message;
} madi_coll_partial_t;

/* This folder's part of a session (session->coll).  Under lock, unless a field says otherwise. */
struct madi_coll_session {
    madi_lock_t lock;
    mad_session_t *session;       /* constant, like channel and watch */
    mad_channel_t *channel;       /* the channel of all messages */
    mad_channel_t *watch;         /* a channel without messages, whose posted receives report losses */
    struct mad_group *groups;     /* NULL if none */
    int n_requests;               /* number of pending operations with a request */
    bool handled;                 /* true if the channel has its handler */
    bool changing;                /* true while a thread sets or removes the handler */
    madi_coll_early_t *strange;   /* early messages of groups that do not exist here; NULL if none */
    size_t early_bytes, n_early;  /* sums of all early messages */
    _Atomic(int) n_partial;       /* length of the list `partial`; read without the lock */
    madi_coll_partial_t *partial; /* NULL if none */
    madi_coll_peer_t *peers;      /* table by the peers' numbers; NULL if empty */
    uint32_t n_peers;             /* length of the table */
    bool any_lost;                /* true if a peer of the table is lost */
};

/* start.c */
/* Open the channel of this folder, if it is not open, and set *coll.  Called without locks. */
mad_status_t madi_coll_start(mad_session_t *session, struct madi_coll_session **coll);
/* Set or remove the channel's handler, as the pending operations need it.  Called without locks. */
void madi_coll_mode(struct madi_coll_session *coll);
/* Take messages that have arrived.  Return their number.  Called without locks. */
int madi_coll_poll(struct madi_coll_session *coll);

/* hosts.c */
/* Set group->places and group->flat.  May wait for the launcher. */
mad_status_t madi_coll_places_find(struct mad_group *group);
void madi_coll_places_free(struct mad_group *group);

/* plan.c: each appends a step; if out of memory, op->no_memory is set */
void madi_coll_send(madi_coll_op_t *op, int member, unsigned tag, const void *from, uint64_t len);
void madi_coll_receive(madi_coll_op_t *op, int member, unsigned tag, void *to, uint64_t len);
void madi_coll_wait(madi_coll_op_t *op);
void madi_coll_copy(madi_coll_op_t *op, void *to, const void *from, uint64_t len);
void madi_coll_combine(madi_coll_op_t *op, const void *from, void *to, uint64_t len);
void madi_coll_combine_after(madi_coll_op_t *op, void *from, void *to, uint64_t len);
/* Return memory of the operation, at most once for each; NULL if out of memory (op->no_memory). */
unsigned char *madi_coll_scratch(madi_coll_op_t *op, uint64_t len);
#define MADI_COLL_BELOW_TOPS (-1) /* in place of a root: the trees below the tops (tree.h) */
/* Return this member's place in the tree with that root, for messages of that length. */
const madi_coll_tree_t *madi_coll_tree(struct mad_group *group, const madi_coll_places_t *places, int root, uint64_t len);

/* True if the tops of the tree exchange partial results, so that an operation for all members crosses the slowest networks once
 * in each direction, at the same time. */
bool madi_coll_tops_exchange(const madi_coll_places_t *places, uint64_t len);
/* barrier.c, allreduce.c: members that exchange with each other: n of the group, of which this process is number me. */
typedef struct madi_coll_partners {
    const int *members; /* NULL: all of the group */
    int n, me;
} madi_coll_partners_t;
static inline madi_coll_partners_t madi_coll_all(const madi_coll_op_t *op)
{
    return (madi_coll_partners_t){NULL, op->group->n, op->group->index};
}
/* Return the tops, if this process is one of them. */
static inline madi_coll_partners_t madi_coll_top_partners(const madi_coll_op_t *op, const madi_coll_places_t *places)
{
    madi_coll_partners_t p = {.me = madi_coll_top_of(places, op->group->index)};
    p.n = madi_coll_tops(places, &p.members);
    return p;
}
static inline int madi_coll_partner(const madi_coll_partners_t *p, int i)
{
    return p->members ? p->members[i] : i;
}

/* The blocks of all members in a buffer. */
typedef struct madi_coll_blocks {
    unsigned char *base;
    uint64_t len;
    const size_t *lens, *offsets; /* NULL: all have length len, and follow each other */
} madi_coll_blocks_t;
static inline uint64_t madi_coll_block_len(const madi_coll_blocks_t *b, int member)
{
    return b->lens ? b->lens[member] : b->len;
}
static inline unsigned char *madi_coll_block_at(const madi_coll_blocks_t *b, int member) /* NULL if the block has no bytes */
{
    uint64_t offset = b->offsets ? b->offsets[member] : (uint64_t)member * b->len;
    return madi_coll_block_len(b, member) ? b->base + offset : NULL;
}

/* Parts of plans that several operations use. */
#define MADI_COLL_SEGMENTS 0x4000   /* most segments of a message */
#define MADI_COLL_TAG_TOPS 0x5000   /* first tag of the exchange of the tops */
#define MADI_COLL_TAG_SECOND 0x8000 /* first tag of an operation's second part */
#define MADI_COLL_TAG_AHEAD 0xf000  /* first tag of the barrier at the end of some operations (MADI_COLL_AHEAD) */
/* barrier.c: append the steps of a barrier of these members, with tags from `tag` on. */
void madi_coll_plan_doubling(madi_coll_op_t *op, madi_coll_partners_t partners, unsigned tag);
/* broadcast.c: return the bytes of the segments of len bytes, a multiple of an element's size */
uint64_t madi_coll_segment(uint64_t len, uint64_t size);
/* broadcast.c: pass bytes down a tree in segments, with tags from `tag` on */
void madi_coll_plan_down(madi_coll_op_t *op, const madi_coll_places_t *places, int root, void *buf, uint64_t len,
                         uint64_t segment, unsigned tag);
/* reduce.c: combine bytes up a tree in segments, with tags from `tag` on.  to: only read at the root.  scratch: as many bytes
 * as madi_coll_up_scratch says. */
void madi_coll_plan_up(madi_coll_op_t *op, const madi_coll_places_t *places, int root, const void *from, void *to,
                       uint64_t len, uint64_t segment, unsigned tag, unsigned char *scratch);
uint64_t madi_coll_up_scratch(const madi_coll_op_t *op, const madi_coll_places_t *places, int root, uint64_t len,
                              uint64_t segment);
/* reduce.c: return the places whose tree keeps the order of the members, if the operation needs that */
const madi_coll_places_t *madi_coll_reduce_places(const madi_coll_op_t *op);

/* barrier.c to scan.c: they append the steps of an operation in a form that fits */
void madi_coll_plan_barrier(madi_coll_op_t *op, madi_coll_form_t form);
void madi_coll_plan_broadcast(madi_coll_op_t *op, madi_coll_form_t form, int root, void *buf, uint64_t len);
void madi_coll_plan_reduce(madi_coll_op_t *op, madi_coll_form_t form, int root, const void *from, void *to, uint64_t len);
void madi_coll_plan_allreduce(madi_coll_op_t *op, madi_coll_form_t form, const void *from, void *to, uint64_t count);
void madi_coll_plan_reduce_scatter(madi_coll_op_t *op, madi_coll_form_t form, const void *from, void *to, uint64_t len);
void madi_coll_plan_scan(madi_coll_op_t *op, madi_coll_form_t form, bool exclusive, const void *from, void *to,
                         uint64_t len);
void madi_coll_plan_gather(madi_coll_op_t *op, madi_coll_form_t form, int root, const void *from, uint64_t len, void *to);
void madi_coll_plan_gather_v(madi_coll_op_t *op, int root, const void *from, uint64_t len, void *to, const size_t *lens,
                             const size_t *offsets);
void madi_coll_plan_scatter(madi_coll_op_t *op, madi_coll_form_t form, int root, const void *from, void *to, uint64_t len);
void madi_coll_plan_scatter_v(madi_coll_op_t *op, int root, const void *from, const size_t *lens, const size_t *offsets,
                              void *to, uint64_t len);
void madi_coll_plan_allgather(madi_coll_op_t *op, madi_coll_form_t form, const void *from, uint64_t len, void *to);
void madi_coll_plan_allgather_v(madi_coll_op_t *op, madi_coll_form_t form, const void *from, void *to, const size_t *lens,
                                const size_t *offsets);
void madi_coll_plan_alltoall(madi_coll_op_t *op, madi_coll_form_t form, const void *from, void *to, uint64_t len);
void madi_coll_plan_alltoall_v(madi_coll_op_t *op, const void *from, const size_t *from_lens, const size_t *from_offsets,
                               void *to, const size_t *to_lens, const size_t *to_offsets);

/* send.c */
/* Send a message.  Set *request if it has not left yet, otherwise to NULL.  Called without locks. */
mad_status_t madi_coll_message_send(madi_coll_op_t *op, const madi_coll_step_t *step, mad_request_t **request);
/* Send the failure of an operation to all members.  Called without locks. */
void madi_coll_abort_send(struct mad_group *group, uint32_t seq, mad_status_t status);

/* run.c */
/* Record that a send has begun, with this status; request: set if it has not left.  Under coll->lock, which is released
 * meanwhile if there is a request. */
void madi_coll_sent(madi_coll_op_t *op, mad_status_t status, mad_request_t *request);
/* Carry out steps, and complete the operation after the last one.  Precondition: op->running was set under coll->lock,
 * which is still held; it is released. */
void madi_coll_run(madi_coll_op_t *op);
/* Record a failure: the operation receives nothing more.  Under coll->lock. */
void madi_coll_op_fail(madi_coll_op_t *op, mad_status_t status);
/* Carry out the steps of all operations that have failed, or that can go on.  Called without locks. */
void madi_coll_run_failed(struct madi_coll_session *coll);
/* Count a message of the operation as done, and go on with its steps if it was the last one.  Callback of requests. */
void madi_coll_message_done(void *op, mad_status_t status);
/* Unlink a receive that waits for this message, and return its step; NULL if none.  Under coll->lock. */
madi_coll_step_t *madi_coll_posted_take(madi_coll_op_t *op, mad_peer_t peer, unsigned tag);

/* match.c */
struct mad_group *madi_coll_group_find(const struct madi_coll_session *coll,
                                       uint64_t number);                        /* NULL if none; under coll->lock */
madi_coll_op_t *madi_coll_op_find(const struct mad_group *group, uint32_t seq); /* likewise */
/* Handle the first block of a message.  message: NULL if the message has ended; otherwise owned by this function if it returns
 * true, else still by the caller.  Called without locks. */
bool madi_coll_arrived(struct madi_coll_session *coll, mad_peer_t peer, mad_message_t *message, const void *base,
                       size_t len);
mad_handled_t madi_coll_handler(mad_channel_t *channel, mad_message_t *message, void *coll); /* the channel's handler */
/* Receive the second block of a message for a step, whose message was counted as pending.  Called without locks. */
void madi_coll_long_receive(madi_coll_op_t *op, const madi_coll_step_t *step, mad_message_t *message);
/* True if two envelopes belong to operations that are alike. */
bool madi_coll_alike(const madi_coll_envelope_t *own, const madi_coll_envelope_t *other);
/* Log that a peer's operation differs from this process's own.  Called without locks. */
void madi_coll_differ_log(const madi_coll_envelope_t *own, const madi_coll_envelope_t *other, mad_peer_t peer);

/* early.c: under coll->lock, unless a contract says otherwise */
void madi_coll_early_init(struct mad_group *group);
/* Keep a message whose step has not begun: head, and its bytes.  group: NULL if it does not exist here.  Return false if there
 * are too many, or if out of memory. */
bool madi_coll_early_keep(struct madi_coll_session *coll, struct mad_group *group, const madi_coll_early_t *head,
                          const void *bytes);
/* Take an early message for this step out of its list; NULL if none. */
madi_coll_early_t *madi_coll_early_take(struct mad_group *group, const madi_coll_op_t *op, const madi_coll_step_t *step);
/* Return an early message whose operation differs from this one, which has the same number; NULL if none. */
const madi_coll_early_t *madi_coll_early_differs(const madi_coll_op_t *op);
/* Take the early messages of the operations from `seq` on, which have failed, out of their lists: their senders wait until they
 * are dropped.  Return them as a list. */
madi_coll_early_t *madi_coll_early_cut(struct mad_group *group, uint32_t seq);
madi_coll_early_t *madi_coll_early_cut_all(struct mad_group *group); /* likewise, for all messages of the group */
/* Move the early messages of a new group to it. */
void madi_coll_early_adopt(struct mad_group *group);
/* Count an early message no more, because it leaves its list. */
void madi_coll_early_uncount(struct madi_coll_session *coll, const madi_coll_early_t *early);
/* Free an early message, and drop what it still has.  Called without locks. */
void madi_coll_early_free(madi_coll_early_t *early);
void madi_coll_early_free_all(madi_coll_early_t *list); /* likewise, for a list */

/* lost.c */
/* Return the entry of a peer; NULL if out of memory.  Under coll->lock. */
madi_coll_peer_t *madi_coll_peer(struct madi_coll_session *coll, mad_peer_t peer);
/* Have losses of the peers reported for which an operation waits, now and later, if it is not done.  Called without locks. */
void madi_coll_watch(struct madi_coll_session *coll, uint64_t group_number, uint32_t seq);
/* Return why a peer is lost, MAD_OK if it is not.  Under coll->lock. */
static inline mad_status_t madi_coll_lost(const struct madi_coll_session *coll, mad_peer_t peer)
{
    return MADI_LIKELY(!coll->any_lost) || (uint32_t)peer >= coll->n_peers ? MAD_OK : coll->peers[peer].lost;
}

/* wait.c */
/* Wait until the operation is done; then nothing refers to it any more.  Return its status. */
mad_status_t madi_coll_op_wait(madi_coll_op_t *op);

/* group.c */
void madi_coll_op_free(madi_coll_op_t *op);
/* Keep an operation that is done, or has not begun, for the next one.  In the thread that begins the group's operations. */
void madi_coll_op_keep(madi_coll_op_t *op);
void madi_coll_session_free(mad_session_t *session); /* free all groups, and this folder's part of a session */

#endif
