/* SPDX-License-Identifier: BSD-3-Clause */
/* The matching device: the operations that an MPI library needs from a network, over one session of Madeleine.
 *
 * Messages carry a tag, and optionally 64 bits of data.  A receive names a source (or any source), a tag, and the bits of
 * the tag that it ignores.  Messages of one sender are matched in the order in which they were sent, and a message matches
 * the oldest receive that fits.  Tagged messages and untagged messages are two spaces that never match each other.
 *
 *   match.[ch]    matching: posted receives and unexpected messages, hashed
 *   pool.c        memory of operations and messages; numbers by which peers name operations
 *   send.c        outgoing messages: sent at once, or envelope and payload with a request
 *   arrive.c      incoming messages: read, and matched; the payload placed
 *   stuck.c       messages that cannot be taken yet, and peers that have broken the protocol
 *   unexpected.c  messages kept until a receive takes them
 *   flow.c        limit of what a peer may send without a grant
 *   rendezvous.c  messages whose payload stays with the sender until a receive has matched
 *   receive.c     receives, probes, claims, cancellation
 *   remote.c      access to the memory of peers: writes, reads, atomic operations
 *   serve.c       such accesses by peers to the memory of this process
 *   device.c      start, end, progress, lost peers
 *
 * Memory: the device keeps the envelope of each unexpected message, in at most MAD_DEV_ENVELOPE bytes, and its payload.  One
 * sender may occupy MAD_DEV_WINDOW bytes in this process with both, and more if it needs more, up to MAD_DEV_WINDOWS for
 * all senders together.  Payloads beyond that, and payloads of more than 64 KiB, stay with the sender, and the send is
 * pending until a receive has matched.  The envelope is still sent, so every message can be matched.  A sender that waits
 * for each of its sends is stopped in this way; for a sender that does not wait, the device keeps one envelope per pending
 * send.
 *
 * Threads: any thread if the device was opened `threaded`, otherwise one at a time.  Only opening and closing wait.
 * `notify` is called under the device's lock, by any of these calls or, with by_handler, by a thread of the library.
 * `notify` must not call the device. */
#ifndef MAD_DEVICE_H
#define MAD_DEVICE_H

#include "mpi/device/thresholds.h"
#include <madeleine.h>

#include <stdbool.h>

typedef struct mad_dev mad_dev_t;
typedef struct mad_dev_message mad_dev_message_t; /* a claimed message */

typedef enum mad_dev_space { MAD_DEV_TAGGED = 0, MAD_DEV_PLAIN = 1 } mad_dev_space_t;

/* Accesses to a peer's memory.  FETCH and COMPARE return the previous content. */
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

/* Result of an operation, or of a probe that found a message. */
typedef struct mad_dev_done {
    void *context;           /* context of the operation */
    uint64_t flags;          /* flags of the operation, unchanged */
    mad_dev_access_t served; /* not 0: a peer has accessed this process's memory; context, flags and tag are not valid */
    uint8_t op;              /* operation of the atomic access that was served */
    bool sent;               /* a send or an access has ended; of the following fields only the status is valid */
    bool released;           /* the receive's buffer will not be written any more; false only with `multi` */
    mad_status_t status;
    mad_peer_t source;
    uint64_t tag, data;
    bool has_data;
    size_t len;   /* bytes written to the buffer */
    size_t whole; /* bytes of the message; more than len if the receive's buffer was too short */
    void *buffer; /* address of the first byte */
} mad_dev_done_t;

/* A message that has arrived completely, and that one receive takes. */
typedef struct mad_dev_got {
    uint64_t tag, data;
    mad_peer_t source;
    bool has_data;
    size_t len;
    void *buffer;
} mad_dev_got_t;

typedef struct mad_dev_options {
    const char *channel; /* name of the channel, equal on both sides */
    const void *key;     /* key of the session, as for mad_open */
    size_t key_len;
    bool threaded;   /* several threads call at the same time */
    bool by_handler; /* messages and operations make progress without calls by the program; implies `threaded` */
    void (*notify)(void *arg, const mad_dev_done_t *done);
    /* Fast variant of `notify` for most receives: the message is complete, and nothing more will be written to the
     * buffer.  Called like `notify`, with the receive's context and flags. */
    void (*notify_received)(void *arg, void *context, uint64_t flags, const mad_dev_got_t *got);
    void *arg;
    /* Memory that peers may access; NULL if none.  Called like `notify`. */
    const struct mad_dev_memory *memory;
} mad_dev_options_t;

typedef struct mad_dev_memory {
    /* Return the address of the target for this access, valid until `drop`; NULL to refuse.  op: the atomic operation, 0
     * for other accesses. */
    void *(*hold)(void *arg, const mad_dev_target_t *target, mad_dev_access_t access, uint8_t op);
    /* Release the target; access and op are as for `hold`.  good: true if the access was made, and this is the first of
     * its targets with that key. */
    void (*drop)(void *arg, const mad_dev_target_t *target, mad_dev_access_t access, uint8_t op, bool good);
    /* True if op is an atomic operation on elements of this type, and len bytes are a whole number of them.  Only
     * these functions know the meaning of types and operations.  operand: true if the peer sent an operand. */
    bool (*is_good)(mad_dev_access_t access, uint8_t type, uint8_t op, size_t len, bool operand);
    /* Apply the operation to all elements in len bytes at the target. result receives the previous content, and is NULL
     * if that is not wanted.  Pointers need not be aligned.  Called under a lock that makes it atomic for all devices
     * of the process. */
    void (*operate)(uint8_t type, uint8_t op, void *target, size_t len, const void *operand, const void *compare,
                    void *result);
} mad_dev_memory_t;

/* Open a device with a session of its own, which has one address.  May wait.  Errors: those of mad_open and
 * mad_channel_open. */
mad_status_t mad_dev_open(const mad_dev_options_t *options, mad_dev_t **dev);
/* Close the device.  Wait up to 5 s until receivers have requested the payloads of pending sends, and up to
 * MAD_EXIT_TIMEOUT until these have left.  Operations still pending then are dropped without a notification. */
void mad_dev_close(mad_dev_t *dev);

/* Return the device's session, for addresses and peers. */
mad_session_t *mad_dev_session(mad_dev_t *dev);
/* Declare a peer lost, with the cause: all receives that name it fail, both posted and later ones. */
void mad_dev_peer_lost(mad_dev_t *dev, mad_peer_t peer, mad_status_t status);
/* Free the state of a lost peer that the program will not name again. */
void mad_dev_peer_forget(mad_dev_t *dev, mad_peer_t peer);

/* Make progress.  Return the number of messages taken and operations completed. */
int mad_dev_progress(mad_dev_t *dev);
/* Return the clock of time-outs, in ms. */
int64_t mad_dev_clock(void);

typedef struct mad_dev_send {
    mad_peer_t to;
    mad_dev_space_t space;
    const struct iovec *pieces; /* up to MAD_DEV_PIECES; the array is copied */
    int n;
    uint64_t tag, data;
    bool has_data;
    bool buffered;        /* the memory may change after the call */
    bool matched;         /* the send completes only when a receive has matched the message */
    bool no_completion;   /* notify only if the send fails */
    bool no_error_report; /* do not notify even if the send fails; needs an established connection (mad_dev_send) */
    void *context;
    uint64_t flags;
} mad_dev_send_t;

/* Send.  After MAD_OK, *later is false if the send is complete, and true if a notification of the completion follows.
 * Errors: MAD_ERR_AGAIN (too much is already buffered: make progress), MAD_ERR_NOMEM, MAD_ERR_INVAL.  With no_error_report
 * also MAD_ERR_AGAIN until the peer has been connected once, and MAD_ERR_PEER or another status if the peer is lost. */
mad_status_t mad_dev_send(mad_dev_t *dev, const mad_dev_send_t *send, bool *later);

/* Data of a message for mad_dev_send_now, which is then received with has_data; 0: no data. */
#define MAD_DEV_DATA(data) ((uint64_t)(data) << 32 | 0x200)

/* Send a short tagged message if nothing prevents it.  All arguments fit into registers.  data: MAD_DEV_DATA of 32 bits, or
 * 0.  MAD_OK: the send is complete, without a notification.  MAD_ERR_AGAIN: use mad_dev_send, which has other paths, or
 * returns the error. */
mad_status_t mad_dev_send_now(mad_dev_t *dev, mad_peer_t to, const void *buf, size_t len, uint64_t tag, uint64_t data);

typedef struct mad_dev_receive {
    mad_peer_t from; /* the source, or MAD_ANY_SOURCE */
    mad_dev_space_t space;
    const struct iovec *pieces;
    int n;
    uint64_t tag, ignore; /* ignore: bits of the tag that need not match */
    size_t multi;         /* not 0: one piece receives many messages, until fewer than this many bytes are free */
    void *context;
    uint64_t flags;
} mad_dev_receive_t;

/* Post a receive.  A notification follows when it is complete, perhaps during this call.  Errors: MAD_ERR_NOMEM,
 * MAD_ERR_INVAL. */
mad_status_t mad_dev_receive(mad_dev_t *dev, const mad_dev_receive_t *receive);

/* Like mad_dev_receive, but for one tagged message into one piece, without flags, and in fewer instructions. */
mad_status_t mad_dev_receive_one(mad_dev_t *dev, mad_peer_t from, uint64_t tag, uint64_t ignore, struct iovec piece,
                                 void *context);

/* Receive the next tagged message at once, without posting the receive and without a notification, after polling for a
 * fraction of a microsecond.  MAD_OK fills *got.  MAD_ERR_AGAIN: use mad_dev_receive, since there is no message, or
 * another one comes first, or the message is long.  A threaded device always returns MAD_ERR_AGAIN. */
mad_status_t mad_dev_receive_now(mad_dev_t *dev, mad_peer_t from, uint64_t tag, uint64_t ignore, struct iovec piece,
                                 mad_dev_got_t *got);

typedef enum mad_dev_probe { MAD_DEV_PEEK, MAD_DEV_CLAIM, MAD_DEV_DISCARD } mad_dev_probe_t;

/* Look for an unexpected message that the receive matches.  MAD_OK: *found is set, with the receive's context and flags.
 * MAD_DEV_CLAIM takes the message, under that context, for mad_dev_receive_claimed; MAD_DEV_DISCARD drops it.  Errors:
 * MAD_ERR_AGAIN (none at the moment); MAD_ERR_PEER and others if the named peer is lost. */
mad_status_t mad_dev_probe(mad_dev_t *dev, const mad_dev_receive_t *receive, mad_dev_probe_t how, mad_dev_done_t *found);
/* Receive the message that was claimed under the receive's context, or drop it (discard).  Errors: MAD_ERR_INVAL (no
 * message was claimed). */
mad_status_t mad_dev_receive_claimed(mad_dev_t *dev, const mad_dev_receive_t *receive, bool discard);

/* Cancel a posted receive with this context, the oldest if there are several; the receive is notified with
 * MAD_ERR_CANCELLED.  MAD_ERR_TOO_LATE: there is no such receive, or a message has matched it.  Sends cannot be
 * cancelled. */
mad_status_t mad_dev_cancel(mad_dev_t *dev, void *context);

/* ---- Memory of peers ---------------------------------------------------------------------------------------------- */

typedef struct mad_dev_remote {
    mad_peer_t to;
    mad_dev_access_t access;
    const mad_dev_target_t *targets; /* up to MAD_DEV_PIECES */
    int n_targets;
    const struct iovec *pieces; /* data to write, or operands; FETCH: may be empty */
    int n;
    const struct iovec *results; /* destination of the data that are read, or of the previous content */
    int n_results;
    const struct iovec *compares;
    int n_compares;
    uint8_t type, op; /* type and operation of an atomic access; only the peer's mad_dev_memory knows their meaning */
    uint64_t data;    /* WRITE: passed to the peer if has_data */
    bool has_data;
    bool buffered;      /* the data to write may change after the call */
    bool no_completion; /* notify only if the access fails */
    void *context;
    uint64_t flags;
} mad_dev_remote_t;

/* Access memory of a peer.  A notification follows when the access has been made there, perhaps during this call.
 * Errors: MAD_ERR_INVAL (lengths differ, too many pieces), MAD_ERR_AGAIN (too much is buffered already, or
 * MAD_DEV_ACCESSES_MAX accesses to the peer are under way), MAD_ERR_NOMEM.  If the peer refuses, the notification has
 * MAD_ERR_INVAL. */
mad_status_t mad_dev_remote(mad_dev_t *dev, const mad_dev_remote_t *remote);

#endif
