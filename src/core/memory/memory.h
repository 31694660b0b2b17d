/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: registered blocks, and operations on the blocks of peers.  doc/memory.md explains both.
 *
 *   start.c      the folder's part of a session, the channel
 *   peer.c       the entries of peers, and peers that are lost or released
 *   block.c      registered blocks of this process
 *   file.c       blocks in files of memory, which other processes of the host map
 *   mapped.c     operations of this process on blocks that it has mapped
 *   bytes.c      bytes into and out of a block; the check of range and rights
 *   operation.c  operations of this process on blocks of peers, from the call to the answer
 *   serve.c      the handler of the channel: operations of peers on blocks of this process, and answers
 *
 * The part has a lock of its own, memory->lock, which is taken after session->lock.  Under memory->lock no public call of
 * the library is made. */
#ifndef MADI_MEMORY_H
#define MADI_MEMORY_H

#include "base/own.h"
#include "core/memory/envelope.h"
#include "core/object/session.h"

#include <madeleine/memory.h>

#define MADI_MEMORY_WINDOW 256 /* maximum number of operations in flight from one process to one owner */
/* maximum number of operations of one peer that the owner serves at a time; a peer that sends more is in error */
#define MADI_MEMORY_SERVED 1024

/* The first bytes of a file of memory, on a page of their own; the block begins on the next page.  The owner writes these
 * fields, and so can every process that may open the file. */
typedef struct madi_memory_header {
    uint8_t secret[MADI_MEMORY_SECRET]; /* random bytes by which a process that opens the file recognises it as the block's
                                         * file */
    uint64_t len;                       /* length of the block in bytes */
    uint32_t rights;
    uint32_t number;        /* number of the block in the owner's process */
    _Atomic(uint32_t) open; /* not 0 while the block is registered and the file may be used */
} madi_memory_header_t;

/* A file of memory that this process has mapped. */
typedef struct madi_memory_file {
    int fd;               /* descriptor; -1 for anonymous memory, which no other process can map, and after a peer's file was
                           * mapped */
    void *at;             /* the header; NULL: none */
    unsigned char *bytes; /* the block */
    size_t mapped;
    madi_shared_t shared; /* record that keeps a child of fork from sharing the memory */
} madi_memory_file_t;

/* A block of a peer that this process has mapped, or tried to map.  Under memory->lock. */
typedef struct madi_memory_map {
    struct madi_memory_map *next;
    madi_memory_key_t key;
    madi_memory_file_t file; /* the mapped file; if file.at is NULL, the block cannot be mapped, and messages are used */
    unsigned rights;
    int users; /* number of operations that copy without memory->lock */
    bool left; /* true if the map has left its peer's list; its last user then frees it */
} madi_memory_map_t;

/* An operation on a peer's block, or a flush.  Under memory->lock, unless a field says otherwise. */
typedef struct madi_memory_op {
    struct madi_memory_op *prev, *next; /* neighbours in the list peer->first; NULL at the ends */
    struct madi_memory_op *todo;        /* next in a list of madi_memory_todo_t */
    struct madi_memory_peer *peer;      /* the peer that owns the block; constant, and valid as long as the operation
                                         * exists */
    mad_request_t *request;             /* constant */
    bool flush;                         /* constant */
    bool awaited;                       /* true if the program's call itself waits, and returns the status; constant */
    bool sent;                          /* counted in peer->in_flight */
    uint8_t waits;       /* how many of two events are still to come: that the message has left, and that the answer with its
                          * bytes has arrived */
    mad_status_t status; /* the first failure, or MAD_OK */
    uint32_t handle;     /* handle in memory->ops while the answer is awaited; afterwards 0 */
    madi_memory_envelope_t envelope; /* the operation's message; its `number` is the initial handle; constant once the
                                      * operation is in its list */
    void *buf;                       /* source of a put, or destination of a get; constant */
    uint64_t *before;                /* where to store the value that the bytes had before the change; NULL if the
                                      * program does not want it; constant */
} madi_memory_op_t;

/* A peer with which operations have begun.  Under memory->lock.  An entry leaves the table when its peer is released, and is
 * freed when nothing uses the entry any more: no operation, no served operation, and no call or callback (uses). */
typedef struct madi_memory_peer {
    mad_session_t *session; /* constant, as is peer */
    mad_peer_t peer;        /* number of this peer, as its gate has it */
    bool uid_known;
    unsigned char uid[16];          /* the peer's identity, if it is known */
    mad_request_t *lost;            /* completes when the peer's gate is down; NULL after that */
    madi_memory_op_t *first, *last; /* operations of this process, in the order in which they began; NULL: none */
    madi_memory_op_t *unsent;       /* the first operation in the list that has not been sent; NULL if none */
    int in_flight;                  /* number of operations of this process that are sent */
    int served;                     /* number of the peer's operations that continue after the handler has returned */
    madi_memory_map_t *maps;        /* blocks of the peer, the one used last first; NULL: none */
    int n_maps;                     /* number of maps */
    mad_status_t failed;            /* the first failure since the last flush that no call has returned; MAD_OK if none */
    int uses;                       /* number of calls that have the entry from madi_memory_peer, plus 1 until the callback
                                     * of `lost` has run */
    bool released;                  /* true if the entry is in the list memory->released, and not in the table */
    struct madi_memory_peer *next_released; /* next in that list; NULL at the end */
} madi_memory_peer_t;

/* A long put or get of a peer, while its bytes are moved.  Constant, unless a field says otherwise. */
typedef struct madi_memory_served {
    struct madi_memory_served *prev, *next; /* neighbours in the list block->served; NULL at the ends; under memory->lock */
    madi_memory_peer_t *peer;
    struct mad_memory *block;
    madi_memory_envelope_t envelope;
    bool cut; /* true if the connection was ended because the operation takes too long; under memory->lock */
} madi_memory_served_t;

/* A registered block.  Constant, unless a field says otherwise. */
struct mad_memory {
    mad_session_t *session;
    struct mad_memory *prev, *next; /* neighbours in the list memory->first; NULL at the ends; under memory->lock */
    unsigned char *base;
    size_t len;
    madi_memory_file_t file; /* memory of mad_memory_alloc; file.at is NULL if the program has supplied the memory */
    unsigned rights;
    uint32_t number; /* handle in memory->blocks; 0 once the registration is being ended; under memory->lock */
    int users;       /* number of operations that move bytes of the block without memory->lock; under memory->lock */
    madi_memory_served_t *served; /* these operations; NULL if none; under memory->lock */
    int64_t closed;               /* ns: time at which the end of the registration began; 0 before; under memory->lock */
    _Atomic(uint64_t) notified;
    uint8_t secret[MADI_MEMORY_SECRET];
};

/* This folder's part of a session (session->memory).  Under lock, unless a field says otherwise. */
struct madi_memory_session {
    madi_lock_t lock;
    _Atomic(mad_channel_t *) channel; /* the channel for remote memory; NULL if not open yet; read without a lock */
    bool serves;                      /* the channel has its handler */
    struct madi_handles *blocks, *ops;
    struct mad_memory *first;     /* all blocks; NULL: none */
    madi_memory_peer_t **peers;   /* table of entries, indexed by the low bits of the peers' numbers; an entry may be NULL */
    uint32_t n_peers;             /* number of places in the table, a power of two; 0 before the first entry */
    madi_memory_peer_t *released; /* entries of released peers that are still in use; NULL if none */
};

/* Work that is put off until memory->lock is released. */
typedef struct madi_memory_todo {
    madi_memory_op_t *done, *send; /* lists that op->todo links: operations to complete, and operations to send; NULL if
                                    * empty */
    madi_memory_op_t **send_tail;  /* NULL: send is empty */
} madi_memory_todo_t;

/* start.c */
struct madi_memory_session *madi_memory_session_new(void); /* return NULL if out of memory */
void madi_memory_session_free(mad_session_t *session);     /* free this folder's part of a session, if there is one, when
                                                            * nothing uses it any more */
/* Open the channel for remote memory if it is not open, and set *channel.  Called without locks. */
mad_status_t madi_memory_start(mad_session_t *session, mad_channel_t **channel);

/* peer.c */
/* Set *entry to the entry of a gate's peer, which is made if needed.  MAD_ERR_PEER if the peer was released.  The caller
 * ends the use by madi_memory_peer_end.  Called without locks. */
mad_status_t madi_memory_peer(mad_session_t *session, mad_peer_t peer, madi_memory_peer_t **entry);
void madi_memory_peer_end(madi_memory_peer_t *peer); /* end a use; called without locks */
/* Free the entry if its peer was released and nothing uses the entry.  Called after every end of a use, under
 * memory->lock. */
void madi_memory_peer_check(madi_memory_peer_t *peer);
/* Find the entry of a peer; NULL if there is none.  Under memory->lock. */
static inline madi_memory_peer_t *madi_memory_peer_find(const struct madi_memory_session *memory, mad_peer_t number)
{
    madi_memory_peer_t *peer = memory->n_peers ? memory->peers[(uint32_t)number & (memory->n_peers - 1)] : NULL;
    return peer && peer->peer == number ? peer : NULL;
}
/* Report that a gate is down to the operations of its peer, after the answers that have arrived.  Under session->lock. */
void madi_memory_gate_lost(madi_gate_t *gate);
/* Take the entry of a released peer out of the table.  Under session->lock. */
void madi_memory_peer_released(mad_session_t *session, mad_peer_t peer);
void madi_memory_peers_free(struct madi_memory_session *memory); /* free all entries, when nothing uses them any more */

/* operation.c */
/* Return the operation to which an answer of this peer belongs, and accept no further answer to it; NULL if there is
 * none. */
madi_memory_op_t *madi_memory_op_take(const madi_memory_peer_t *peer, uint32_t number);
void madi_memory_op_answered(madi_memory_op_t *op, mad_status_t status); /* after madi_memory_op_take; called without
                                                                          * locks */
void madi_memory_fail(madi_memory_peer_t *peer, mad_status_t status);    /* fail all operations of a peer that have no
                                                                          * answer; called without locks */

/* block.c */
/* Find the block of an operation, and check key, rights and range.  Set *block on success.  Under memory->lock. */
mad_status_t madi_memory_find(struct madi_memory_session *memory, const madi_memory_envelope_t *envelope,
                              struct mad_memory **block);
void madi_memory_release(struct mad_memory *block); /* end one use of a block that was counted in block->users; called
                                                     * without locks */
void madi_memory_notify(struct mad_memory *block);  /* count a notification of a block; the caller may hold any lock except
                                                     * wait_lock */
void madi_memory_block_free(struct mad_memory *block);

/* bytes.c */
/* Copy into, or out of, a block.  8 bytes at an aligned address are copied as a whole, so no other thread sees a mixture of
 * old and new bytes.  Any lock. */
void madi_memory_store(void *at, const void *from, uint64_t len);
void madi_memory_load(void *to, const void *at, uint64_t len);
uint64_t madi_memory_change(const madi_memory_envelope_t *envelope, uint64_t *at); /* change 8 bytes; return those before */
/* Check an operation on a block of `room` bytes at base. */
mad_status_t madi_memory_admit(const madi_memory_envelope_t *envelope, const unsigned char *base, uint64_t room,
                               unsigned rights);

/* file.c; called without locks */
mad_status_t madi_memory_file_make(madi_memory_file_t *file, size_t len);
void madi_memory_file_publish(madi_memory_file_t *to, const madi_memory_file_t *file, const struct mad_memory *block);
void madi_memory_file_withdraw(madi_memory_file_t *file); /* mark the block as closed for the peers that have mapped its
                                                           * file */
void madi_memory_file_close(madi_memory_file_t *file);    /* unmap and close a file; no effect if there is none */
/* Map the file of a peer's block.  Return false if this process cannot map it, or if the file is not that of the block. */
bool madi_memory_file_map(madi_memory_file_t *file, const madi_memory_key_t *key);

/* mapped.c */
/* Operate on a peer's block that this process has mapped.  Return false if it has not mapped the block.  Called without
 * locks. */
bool madi_memory_mapped(mad_session_t *session, mad_peer_t peer, const madi_memory_key_t *key,
                        const madi_memory_envelope_t *envelope, void *buf, uint64_t *before, mad_status_t *status);
/* Like madi_memory_mapped, but try to map the block first.  Return false if the operation has to go by messages.  Called
 * without locks. */
bool madi_memory_mapped_first(madi_memory_peer_t *peer, madi_conn_t *conn, const madi_memory_key_t *key,
                              const madi_memory_envelope_t *envelope, void *buf, uint64_t *before, mad_status_t *status);
void madi_memory_maps_drop(
    madi_memory_peer_t *peer); /* free all maps of a peer; a map in use is freed after its last use; under memory->lock */

/* serve.c */
mad_handled_t madi_memory_arrived(mad_channel_t *channel, mad_message_t *message, void *arg); /* the channel's handler */
/* End the connections whose operations on a block take too long, counted from block->closed.  Return the time (ns) of the
 * next call, INT64_MAX if none is needed.  Called without locks. */
int64_t madi_memory_served_cut(struct mad_memory *block, int64_t now /* ns */);

#endif
