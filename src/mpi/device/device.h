/* SPDX-License-Identifier: BSD-3-Clause */
/* The matching device: what an MPI library needs of a network, over one session of Madeleine.
 *
 * Messages carry a tag and perhaps 64 bits of data; they meet receives by source (or any), and tag but for the bits that
 * the receive ignores.  There are two spaces that never meet: messages with tags, and without.  Messages of one sender
 * meet receives in the order in which they were sent, and a message meets the oldest receive that fits.
 *
 *   match.[ch]  who meets whom: posted receives and unexpected messages, hashed
 *   pool.c      operations and messages in memory; numbers for what peers name
 *   send.c      messages out: at once, or head and body with a request
 *   arrive.c    messages in: read, matched, placed or kept
 *   flow.c      how much may be sent unasked; rendezvous.c  heads whose payload stays with the sender
 *   receive.c   receives, probes, claims, cancellation
 *   remote.c    memory of peers: written, read, changed atomically; serve.c  the same at the peer
 *   device.c    start, end, progress, peers that are lost
 *
 * Memory: of messages that no receive has met the device keeps heads, of MAD_DEV_HEAD bytes at most each, and payloads.
 * A sender may have MAD_DEV_WINDOW bytes of both here; more where it is needed, MAD_DEV_WINDOWS for all senders together.
 * What is beyond that, and payloads of more than 64 KiB, stays with the sender, whose send is pending until a receive has
 * met it; its head comes, so that nothing is hidden from a receive.  So a sender that waits for each of its sends is
 * stopped there, and of one that does not there are as many heads as it has sends pending.
 *
 * Threads: any, if opened `threaded`; else one at a time.  Nothing here waits, but for opening and closing.  `notify` is
 * called from any of these calls (or, by_handler, by a thread of the library's own) under the device's lock: it calls
 * nothing of the device. */
#ifndef MAD_DEVICE_H
#define MAD_DEVICE_H

#include "mpi/device/thresholds.h"
#include <madeleine.h>

#include <stdbool.h>

typedef struct mad_dev mad_dev_t;
typedef struct mad_dev_message mad_dev_message_t; /* a message that was claimed */

typedef enum mad_dev_space { MAD_DEV_TAGGED = 0, MAD_DEV_PLAIN = 1 } mad_dev_space_t;

/* Accesses to memory of a peer; FETCH and COMPARE return what was there before. */
typedef enum mad_dev_access {
    MAD_DEV_WRITE = 1,
    MAD_DEV_READ,
    MAD_DEV_ATOMIC,
    MAD_DEV_FETCH,
    MAD_DEV_COMPARE
} mad_dev_access_t;

/* Memory of a peer, as the peer understands it. */
typedef struct mad_dev_target {
    uint64_t address, len, key;
} mad_dev_target_t;

/* What has become of an operation; of a message that was found. */
typedef struct mad_dev_done {
    void *context;           /* of the operation */
    uint64_t flags;          /* of the operation, as they were given */
    mad_dev_access_t served; /* not 0: a peer has accessed memory of ours; context, flags and tag have no meaning */
    uint8_t op;              /* of an atomic access that was served */
    bool sent;               /* it is of a send or an access; all that follows but the status is of receives */
    bool released;  /* no more comes into this receive's buffer: always, but for `multi` */
    mad_status_t status;
    mad_peer_t source;
    uint64_t tag, data;
    bool has_data;
    size_t len;   /* bytes placed */
    size_t whole; /* bytes of the message: more than were placed if the buffer was too short */
    void *buffer; /* where its first byte is */
} mad_dev_done_t;

/* A message that a receive has got whole, at once. */
typedef struct mad_dev_got {
    uint64_t tag, data;
    mad_peer_t source;
    bool has_data;
    size_t len;
    void *buffer;
} mad_dev_got_t;

typedef struct mad_dev_options {
    const char *channel; /* both sides name the same */
    const void *key;     /* as of mad_open */
    size_t key_len;
    bool threaded;   /* threads call at the same time */
    bool by_handler; /* messages are taken, and operations go on, without a call of the program; implies `threaded` */
    void (*notify)(void *arg, const mad_dev_done_t *done);
    /* The short way to tell of most receives: a whole message was got, and no other comes into the buffer.  Called like
     * `notify`, with the receive's context and flags. */
    void (*notify_received)(void *arg, void *context, uint64_t flags, const mad_dev_got_t *got);
    void *arg;
    /* Memory that peers may access; NULL: there is none.  Called like `notify`. */
    const struct mad_dev_memory *memory;
} mad_dev_options_t;

typedef struct mad_dev_memory {
    /* Where this target is, for this access (`op`: of the atomic ones); it stays until dropped.  NULL: refused. */
    void *(*hold)(void *arg, const mad_dev_target_t *target, mad_dev_access_t access, uint8_t op);
    /* Release the target; access and op as held.  good: the access was made, and this is the first of its targets with that
     * key. */
    void (*drop)(void *arg, const mad_dev_target_t *target, mad_dev_access_t access, uint8_t op, bool good);
    /* Is this an atomic operation on elements of which len bytes are some?  Types and operations are its own matter.
     * operand NULL: there is none. */
    bool (*is_good)(mad_dev_access_t access, uint8_t type, uint8_t op, size_t len, bool operand);
    /* Do it, for all elements in len bytes at the target; result (NULL: nobody wants it) gets what was there.  None of the
     * pointers is aligned.  Under a lock that makes it atomic for all devices of the process. */
    void (*operate)(uint8_t type, uint8_t op, void *target, size_t len, const void *operand, const void *compare,
                    void *result);
} mad_dev_memory_t;

/* Start a session of its own, known by one address.  May wait.  Errors: those of mad_open and mad_channel_open. */
mad_status_t mad_dev_open(const mad_dev_options_t *options, mad_dev_t **dev);
/* End it: what was sent is asked for (within 5 s) and leaves (within MAD_EXIT_TIMEOUT); what is pending is forgotten, and
 * not told.  May wait. */
void mad_dev_close(mad_dev_t *dev);

/* For addresses and peers. */
mad_session_t *mad_dev_session(mad_dev_t *dev);
/* A peer for which no receive may wait any longer, with the cause: the receives that name it fail, later ones at once. */
void mad_dev_peer_lost(mad_dev_t *dev, mad_peer_t peer, mad_status_t status);
/* A peer that nobody names any more: if it is lost, nothing is kept of it. */
void mad_dev_peer_forget(mad_dev_t *dev, mad_peer_t peer);

/* Let everything go on.  Returns the number of messages taken and operations told. */
int mad_dev_progress(mad_dev_t *dev);
/* The clock of time-outs, in ms. */
int64_t mad_dev_clock(void);

typedef struct mad_dev_send {
    mad_peer_t to;
    mad_dev_space_t space;
    const struct iovec *pieces; /* up to MAD_DEV_PIECES; the array is copied */
    int n;
    uint64_t tag, data;
    bool has_data;
    bool buffered; /* the memory may be changed on return */
    bool matched;  /* done only when a receive has met it */
    bool no_completion;   /* nobody wants to hear of it, unless it fails */
    bool no_error_report;  /* nor can anybody be told then: so there must be a connection first, see below */
    void *context;
    uint64_t flags;
} mad_dev_send_t;

/* Send.  MAD_OK with *later false: it is done, and is not told; with *later true it is told when it is done.
 * Errors: MAD_ERR_AGAIN (too much is buffered already: make progress), MAD_ERR_NOMEM, MAD_ERR_INVAL; of an `no_error_report` one
 * also MAD_ERR_AGAIN as long as its peer has never been connected, and why the peer is lost: MAD_ERR_PEER and others. */
mad_status_t mad_dev_send(mad_dev_t *dev, const mad_dev_send_t *send, bool *later);

/* The short way, if it is free.  pieces[1] is what is sent; pieces[0] is for the device.  MAD_OK: it is done, and is not
 * told.  MAD_ERR_AGAIN: mad_dev_send knows another way, or why there is none. */
mad_status_t mad_dev_send_now(mad_dev_t *dev, mad_dev_space_t space, mad_peer_t to, struct iovec pieces[2], uint64_t tag,
                              uint32_t data, bool has_data);

typedef struct mad_dev_receive {
    mad_peer_t from; /* or MAD_ANY_SOURCE */
    mad_dev_space_t space;
    const struct iovec *pieces;
    int n;
    uint64_t tag, ignore; /* bits of the tag that do not matter */
    size_t multi;         /* not 0: one piece for many messages, until less than so many bytes are free */
    void *context;
    uint64_t flags;
} mad_dev_receive_t;

/* Receive; it is told when done, perhaps during this call.  Errors: MAD_ERR_NOMEM, MAD_ERR_INVAL. */
mad_status_t mad_dev_receive(mad_dev_t *dev, const mad_dev_receive_t *receive);

typedef enum mad_dev_probe { MAD_DEV_PEEK, MAD_DEV_CLAIM, MAD_DEV_DISCARD } mad_dev_probe_t;

/* Is there a message for such a receive?  MAD_OK fills *found (with the receive's context and flags); MAD_DEV_CLAIM takes
 * it, under that context, for mad_dev_receive_claimed; MAD_DEV_DISCARD drops it.  MAD_ERR_AGAIN: there is none now.
 * Errors: MAD_ERR_PEER and others, when the peer it names is lost. */
mad_status_t mad_dev_probe(mad_dev_t *dev, const mad_dev_receive_t *receive, mad_dev_probe_t how, mad_dev_done_t *found);
/* Receive what was claimed under the receive's context, or (discard) drop it.  Errors: MAD_ERR_INVAL (nothing was). */
mad_status_t mad_dev_receive_claimed(mad_dev_t *dev, const mad_dev_receive_t *receive, bool discard);

/* Take a posted receive of this context back, the oldest of those that are alike: it is told with MAD_ERR_CANCELLED.
 * MAD_ERR_TOO_LATE: there is none, or a message has met it.  Sends are not taken back. */
mad_status_t mad_dev_cancel(mad_dev_t *dev, void *context);

/* ---- Memory of peers ---------------------------------------------------------------------------------------------- */

typedef struct mad_dev_remote {
    mad_peer_t to;
    mad_dev_access_t access;
    const mad_dev_target_t *targets; /* up to MAD_DEV_PIECES */
    int n_targets;
    const struct iovec *pieces; /* what is written, or the operands (FETCH: perhaps none), */
    int n;
    const struct iovec *results; /* where goes what is read, or was there, */
    int n_results;
    const struct iovec *compares;
    int n_compares;
    uint8_t type, op; /* of atomic operations: as the peer's memory understands them */
    uint64_t data;    /* WRITE: told to the peer, if has_data */
    bool has_data;
    bool buffered; /* what is written may be changed on return */
    bool no_completion;   /* nobody wants to hear of it, unless it fails */
    void *context;
    uint64_t flags;
} mad_dev_remote_t;

/* Access memory of a peer.  It is told when it has been done there: later, or by this call.  Errors: MAD_ERR_INVAL (lengths
 * differ, too many pieces), MAD_ERR_AGAIN (too much is buffered already), MAD_ERR_NOMEM.  What the peer refuses is told with
 * MAD_ERR_INVAL. */
mad_status_t mad_dev_remote(mad_dev_t *dev, const mad_dev_remote_t *remote);

#endif
