/* SPDX-License-Identifier: BSD-3-Clause */
/* Sealed connections: TLS 1.3 over memory, for any driver.
 *
 *   seal.c         the handshake, by OpenSSL: job's key as PSK with a key exchange, or certificates of both ends.
 *   seal_record.c  the records after it: AEAD (aead.h) with the traffic secrets of that handshake, KeyUpdate, close_notify.
 *   seal_kernel.c  records that the kernel makes for a TCP socket, where it can (kernel TLS).
 *
 * OpenSSL makes the handshake, and hands over its traffic secrets; after that seal_record.c makes and opens TLS records.
 * So the two directions share no state (an SSL object is not for two threads).  Payload is encrypted from the sender's
 * memory and decrypted into the receiver's without a further copy, and one system call sends many records.
 * The bytes on the wire are those of any TLS 1.3 connection.
 *
 *      socket or the like                  madi_seal_t
 *      recv   ->  madi_seal_room, madi_seal_received  ->  madi_seal_shake, later madi_seal_peek + madi_seal_open
 *      send   <-  madi_seal_out, madi_seal_sent       <-  madi_seal_shake, later madi_seal_put
 *
 * Locks: once the handshake is done the two directions may run in parallel.  Functions of the sending direction (put, out,
 * sent, end) are under one lock of the driver, the link's tx lock.  The calls of the receiving direction (room, received,
 * peek, open) are under another, the session's lock.  All others are for one thread at a time.  Nothing here blocks. */
#ifndef MADI_SEAL_H
#define MADI_SEAL_H

#include "base/base.h"
#include <madeleine/status.h>

#define MADI_SEAL_KEY 32                             /* bytes of the job's key */
#define MADI_SEAL_BINDING 32                         /* bytes that only the two ends of one connection know */
#define MADI_SEAL_TEXT 16384                         /* maximum number of payload bytes of a record */
#define MADI_SEAL_MORE 22                            /* bytes that a record adds: header 5, type 1, tag 16 */
#define MADI_SEAL_BATCH ((size_t)8 * MADI_SEAL_TEXT) /* the most payload bytes that are encrypted and not sent yet */
#define MADI_SEAL_REKEY (UINT64_C(1) << 23)          /* records until the key is updated: AES-GCM is safe for 2^24.5 */

typedef struct madi_seal_ctx madi_seal_ctx_t; /* what the connections of a session have in common */
typedef struct madi_seal madi_seal_t;         /* one connection */

/* Make the settings of a session, by the knobs MAD_SEAL_*.  NULL: reason (MADI_REASON_MAX bytes) says why. */
madi_seal_ctx_t *madi_seal_ctx_new(char *reason);
/* Set the key of the job that both ends have, MADI_SEAL_KEY bytes, from which the PSK follows.  The settings borrow the
 * key as long as connections are made.  To be called before the first connection. */
void madi_seal_key_set(madi_seal_ctx_t *ctx, const unsigned char *key);
void madi_seal_ctx_free(madi_seal_ctx_t *ctx); /* frees the settings; NULL is fine; connections made with them may go on */
/* Describe the settings for people: "TLS 1.3, TLS_AES_128_GCM_SHA256, the job's key". */
void madi_seal_ctx_text(const madi_seal_ctx_t *ctx, char *text, size_t len);

/* Make a connection; active: this end begins.  NULL if out of memory. */
madi_seal_t *madi_seal_new(madi_seal_ctx_t *ctx, bool active);
void madi_seal_free(madi_seal_t *seal); /* frees a connection, and wipes its keys; NULL is fine */

typedef enum madi_seal_state {
    MADI_SEAL_SHAKING, /* send the bytes at madi_seal_out; more bytes have to arrive */
    MADI_SEAL_READY,   /* the handshake is over: send the bytes at madi_seal_out; records can follow */
    MADI_SEAL_FAILED   /* TLS has failed; reason and *status are set.  Send the bytes at madi_seal_out, an alert */
} madi_seal_state_t;
/* Continue the handshake with the bytes that were received. */
madi_seal_state_t madi_seal_shake(madi_seal_t *seal, mad_status_t *status, char *reason);
/* Return MADI_SEAL_BINDING bytes that only these two ends know.  Precondition: the handshake is READY. */
const unsigned char *madi_seal_binding(const madi_seal_t *seal);

/* ---- Receiving -------------------------------------------------------------------------------------------------- */

/* Return the place for bytes from the network, and set *len to the number of bytes that fit there (at least 1).
 * Precondition: all whole records are opened. */
void *madi_seal_room(madi_seal_t *seal, size_t *len);
void madi_seal_received(madi_seal_t *seal, size_t n);
/* True if no received byte waits to be opened: not even a part of a record. */
bool madi_seal_empty(const madi_seal_t *seal);
/* Return the first byte that was received and not used; -1 if there is none. */
int madi_seal_first_byte(const madi_seal_t *seal);

typedef enum madi_seal_next {
    MADI_SEAL_NOTHING, /* no complete record has arrived */
    MADI_SEAL_PAYLOAD, /* madi_seal_open: *len bytes of payload are at `to` */
    MADI_SEAL_OTHER,   /* a record without payload (an update of the key) was used: look again */
    MADI_SEAL_ENDED,   /* the peer has sent close_notify: nothing follows */
    MADI_SEAL_BROKEN   /* the connection must end; madi_seal_why has the cause */
} madi_seal_next_t;
/* Return an upper bound of the next record's payload bytes; 0 if the record is not complete yet.  *broken is set if the
 * received bytes are not a record. */
size_t madi_seal_peek(madi_seal_t *seal, bool *broken);
/* Open the record that madi_seal_peek has announced.  `to` has room for the number of bytes that madi_seal_peek has
 * returned; these bytes are wiped if the record is not genuine. */
madi_seal_next_t madi_seal_open(madi_seal_t *seal, void *to, size_t *len);
const char *madi_seal_why(const madi_seal_t *seal);

/* ---- Sending ---------------------------------------------------------------------------------------------------- */

/* Encrypt bytes of vec, up to max and MADI_SEAL_BATCH, behind the bytes that wait at madi_seal_out.  Return their number: 0
 * if nothing fits now, or (errno EIO) if encryption failed. */
size_t madi_seal_put(madi_seal_t *seal, const struct iovec *vec, int n, size_t max);
/* Return the bytes that are to be sent, and set *len to their number, which may be 0. */
const void *madi_seal_out(const madi_seal_t *seal, size_t *len);
void madi_seal_sent(madi_seal_t *seal, size_t n);
/* Put close_notify, which says that nothing follows, behind what waits at madi_seal_out. */
void madi_seal_end(madi_seal_t *seal);

/* ---- Sending by the kernel ---------------------------------------------------------------------------------------- */

/* Test whether the kernel can make the records, as the session starts.  Takes up to half a second if the kernel fails in
 * the middle of the test. */
void madi_seal_kernel_try(madi_seal_ctx_t *ctx);
/* Have the kernel make the records that are sent on this TCP socket (kernel TLS); the calling function then sends payload on
 * it.  If the kernel cannot do so, change nothing, and return false.  Precondition: nothing waits at madi_seal_out. */
bool madi_seal_kernel_begin(madi_seal_t *seal, int fd);
/* Count len bytes of payload that are about to be sent, and update the key if that is due.  Return false, with the reason in
 * errno, if the connection must end. */
bool madi_seal_kernel_count(madi_seal_t *seal, int fd, size_t len);
void madi_seal_kernel_end(int fd); /* have the kernel send close_notify */

/* For tests: set the number of records after which the key is updated. */
void madi_seal_rekey_after(madi_seal_t *seal, uint64_t records);
uint64_t madi_seal_updates(const madi_seal_t *seal, bool sent); /* number of key updates that were sent, or received */

#endif
