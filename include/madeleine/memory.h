/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: a process registers a block of its memory, and other processes read, write and change the block by its key.
 * The conventions of <madeleine.h> hold here too.
 *
 *   owner                                          other processes
 *   mad_memory_register(..., &memory)
 *   mad_memory_key(memory, &key)
 *   a message of the program with the key ------>  mad_memory_put(session, owner, &key, ...)     write
 *                                                  mad_memory_get                                read
 *                                                  mad_memory_fetch_add, _compare_swap           change 8 bytes
 *   mad_memory_wait(memory, ...) <---------------  mad_memory_put_notify                         write, and notify the owner
 *                                                  mad_memory_flush(session, owner, ...)         all of the above are done
 *   mad_memory_unregister(memory, ...)
 *
 * Completion.  An operation completes when it is done at the owner: the bytes are in place, and the local buffer may be used
 * again.  There is one completion, and it is the remote one.  Each operation has a parameter `request`.  NULL: the call waits
 * for completion.  Otherwise the caller owns *request, and the call never waits.  A program that gives the requests up
 * (mad_request_detach with fn NULL) finds completion and failures by mad_memory_flush.  An operation cannot be cancelled.
 *
 * Order.  Operations of one process on one owner may be done in any order until one of them has completed, or until a flush.
 * An operation that begins after the completion of another is done after it.  The change of 8 bytes is atomic against
 * other changes, gets, and puts of 8 bytes on an address that is divisible by 8.  The change is also atomic against atomic
 * operations of the owner's processor on the block (C11's, of 8 bytes).  Such a put or get of 8 bytes is not torn.  A longer
 * put that overlaps a change may undo it, since some bytes of a put are stored twice.
 *
 * Checks.  The owner checks each operation: the key, the range, and the rights.  A key has a random part of 16 bytes, so a
 * key that was never given, or whose block is no longer registered, is an error and touches no memory.  A block has
 * one key.  To give several processes different rights, register the same memory several times.
 *
 * Progress.  The owner's library carries the operations out, in any call that makes progress, or in the progress thread
 * (knob MAD_PROGRESS_THREAD) while the program computes.  Without that thread, the owner has to call the library.
 *
 * Failures.  All operations on a peer that dies complete with MAD_ERR_PEER; those on other peers are not affected.  A put
 * that fails may have written any part of its bytes.  Failed changes of 8 bytes were made once or not at all.
 *
 * Errors that each operation may complete with: MAD_ERR_KEY (the key names no block that is registered now); MAD_ERR_RANGE
 * (some of the bytes lie outside of the block); MAD_ERR_RIGHTS (the block is not registered for this operation);
 * MAD_ERR_NOMEM (here or at the owner); MAD_ERR_PEER, MAD_ERR_UNREACHABLE, MAD_ERR_AUTH, MAD_ERR_VERSION; MAD_ERR_CLOSED (the
 * session ends).  If the call returns an error, there is no request. */
#ifndef MADELEINE_MEMORY_H
#define MADELEINE_MEMORY_H

#include <madeleine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mad_memory mad_memory_t; /* a registered block of this process's memory */

/* Rights of other processes on a block; their sums are rights, too. */
enum {
    MAD_MEMORY_READ = 1,  /* mad_memory_get */
    MAD_MEMORY_WRITE = 2, /* mad_memory_put, mad_memory_put_notify */
    MAD_MEMORY_ATOMIC = 4 /* mad_memory_fetch_add, mad_memory_compare_swap: they both read and write */
};

/* A key: plain bytes without pointers, the same for all processes of the job.  The owner sends the key to others by a message
 * of its own.  A process that has the key has the rights of its block. */
typedef struct mad_memory_key {
    unsigned char bytes[64];
} mad_memory_key_t;

/* ---- The owner ------------------------------------------------------------------------------------------------ */

/* Register len bytes at base, so that the peers that get the key may use them with these rights.  From here on the bytes may
 * change at any time.  The memory stays the program's, which frees it only after mad_memory_unregister.  len may be 0: the
 * block then serves for notifications only.  Ownership: the caller ends *memory with mad_memory_unregister; mad_exit ends the
 * blocks that are left.  Any thread; never waits.  Errors: MAD_ERR_INVAL (base is NULL and len is not 0; the range wraps
 * around; unknown or no rights); MAD_ERR_NOMEM; MAD_ERR_BUSY (the program itself has opened the channel "madeleine.memory");
 * MAD_ERR_SYSTEM (no random bytes). */
mad_status_t mad_memory_register(mad_session_t *session, void *base, size_t len, unsigned rights, mad_memory_t **memory);

/* Like mad_memory_register, but for len zeroed bytes that the library allocates, at an address divisible by the size of a
 * page.  Processes of the same user on this host operate on these bytes directly, where their link allows it: this is the
 * fastest memory.  The bytes are freed as the block's registration ends.  In the child of a fork they are zeros. */
mad_status_t mad_memory_alloc(mad_session_t *session, size_t len, unsigned rights, mad_memory_t **memory);

/* Return the address of a block's first byte, and its length in bytes.  Any thread. */
void *mad_memory_base(const mad_memory_t *memory);
size_t mad_memory_len(const mad_memory_t *memory);

/* Write a block's key to *key.  Any thread; never waits. */
void mad_memory_key(const mad_memory_t *memory, mad_memory_key_t *key);

/* End a registration.  From the beginning of this call on no further operation starts: the key is unknown.  Wait up to
 * timeout_ns nanoseconds (MAD_FOREVER: no limit) for the operations that had started, or until their peers are lost.  A
 * peer whose operation has not ended MAD_PEER_TIMEOUT, plus 1 s for each MB, after the first call is lost, too.  After
 * MAD_OK nobody touches the memory any more, and the handle is invalid.  After MAD_ERR_TIMEOUT the operations go on, the
 * memory must stay, and the handle is valid for another call of mad_memory_unregister.  memory may be NULL.  No thread
 * may be in mad_memory_wait for this block.  May wait.  Errors: MAD_ERR_TIMEOUT. */
mad_status_t mad_memory_unregister(mad_memory_t *memory, int64_t timeout_ns);

/* Return the number of notifications of a block so far: the completed calls of mad_memory_put_notify by all peers.  The bytes
 * that came with the counted notifications are visible to the calling thread.  Any thread; never waits, and does not make
 * progress. */
uint64_t mad_memory_notified(const mad_memory_t *memory);

/* Wait until mad_memory_notified is at least count, for at most timeout_ns nanoseconds (MAD_FOREVER: no limit).  The death of
 * a peer does not end the wait.  Any number of threads may wait.  May wait.  Errors: MAD_ERR_TIMEOUT. */
mad_status_t mad_memory_wait(const mad_memory_t *memory, uint64_t count, int64_t timeout_ns);

/* ---- Operations ----------------------------------------------------------------------------------------------- */

/* Write len bytes from buf to the peer's block, from offset on (in bytes).  buf is borrowed, and must not change, until
 * completion.  Any thread, also in handlers and callbacks if request is not NULL.  Errors: MAD_ERR_INVAL (no such peer, buf is
 * NULL and len is not 0, or the key is another process's or no key), MAD_ERR_NOMEM, and those at the head of this file. */
mad_status_t mad_memory_put(mad_session_t *session, mad_peer_t peer, const mad_memory_key_t *key, uint64_t offset,
                            const void *buf, size_t len, mad_request_t **request);

/* Like mad_memory_put, but also count a notification of the block once the bytes are in place (mad_memory_wait).  len may be
 * 0.  The notification says nothing about other operations: complete or flush them before.  Errors: as for mad_memory_put. */
mad_status_t mad_memory_put_notify(mad_session_t *session, mad_peer_t peer, const mad_memory_key_t *key, uint64_t offset,
                                   const void *buf, size_t len, mad_request_t **request);

/* Read len bytes of the peer's block, from offset on, into buf, which is borrowed until completion.  Any thread, as for
 * mad_memory_put.  Errors: as for mad_memory_put; buf may then have been changed. */
mad_status_t mad_memory_get(mad_session_t *session, mad_peer_t peer, const mad_memory_key_t *key, uint64_t offset, void *buf,
                            size_t len, mad_request_t **request);

/* Add a number to the 8 bytes at offset of the peer's block, modulo 2^64, and set *before to their previous value.  The
 * address at the owner must be divisible by 8.  before may be NULL; otherwise it is borrowed until completion, and set
 * only on success.  Any thread, as for mad_memory_put.  Errors: as for mad_memory_put; MAD_ERR_RANGE also for an
 * address that is not divisible by 8. */
mad_status_t mad_memory_fetch_add(mad_session_t *session, mad_peer_t peer, const mad_memory_key_t *key, uint64_t offset,
                                  uint64_t number, uint64_t *before, mad_request_t **request);

/* Like mad_memory_fetch_add, but store desired if the 8 bytes are equal to expected.  They were equal if *before is. */
mad_status_t mad_memory_compare_swap(mad_session_t *session, mad_peer_t peer, const mad_memory_key_t *key, uint64_t offset,
                                     uint64_t expected, uint64_t desired, uint64_t *before, mad_request_t **request);

/* Complete when all operations that this process has begun on the peer before this call have completed.  The status is the
 * first failure among those operations on this peer that had a request and completed since the last flush.  A failure that
 * the request has reported is among them; one that a call has returned is not.  Any thread, as for mad_memory_put.  Errors:
 * MAD_ERR_INVAL (no such peer), MAD_ERR_NOMEM, and those of the operations. */
mad_status_t mad_memory_flush(mad_session_t *session, mad_peer_t peer, mad_request_t **request);

#ifdef __cplusplus
}
#endif
#endif
