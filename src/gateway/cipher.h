/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys that only the two ends of a stream have, and what they do with them: seal and open fragments, prove and check what
 * is said about the stream.
 *
 *   secret (of the handshake of the two ends)
 *     |-- HKDF "mad stream, active, seal"  -- HMAC X25519 of both ends -- HKDF turn, generation --> key of AES-128-GCM
 *     |-- HKDF "mad stream, active, prove" --> HMAC-SHA-256 key
 *     `-- both again for the passive end
 *
 * The exchange of keys (X25519, fresh for each stream) is authenticated by proofs, and makes what was recorded useless to whoever
 * gets the job's key later.  Each direction has keys of its own, so nothing that an end has sent comes back to it as the other end's.  A sealed
 * fragment has the number that it has in its direction as nonce, extended to 64 bits; each way of the stream (turn), and
 * every GW_REKEY fragments of it (generation), has a new key.  A fragment that is sent again goes by another way, so under
 * another key: what it carries may then differ, as its acknowledgement does. */
#ifndef MADI_CIPHER_H
#define MADI_CIPHER_H

#include <madeleine/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define GW_SECRET 32
#define GW_TAG ((size_t)16)
#define GW_COVERED 16 /* bytes that a tag covers besides */
/* Fragments under one key: 2^16 of 256 KiB are 2^30 blocks, where 2^34.5 are allowed (RFC 8446, 5.5). */
#define GW_REKEY_BITS 16

typedef struct gw_cipher gw_cipher_t;

enum gw_direction { GW_OURS, GW_THEIRS };

/* What is sealed under one number: a whole packet; or the header of a long one, and its body. */
enum gw_part { GW_PART_WHOLE, GW_PART_HEAD, GW_PART_BODY, GW_PARTS };

/* Where a sealed part belongs.  No two parts that differ are ever sealed for one place. */
typedef struct gw_nonce {
    uint32_t turn;
    enum gw_part part;
    uint64_t number;
} gw_nonce_t;

/* Make the keys of a stream.  active: this end has opened it.  generation_bits: log2 of the fragments under one key.
 * NULL: no memory, or OpenSSL refused. */
gw_cipher_t *gw_cipher_new(const unsigned char secret[GW_SECRET], bool active, unsigned generation_bits);
void gw_cipher_free(gw_cipher_t *cipher); /* wipes the keys; NULL is fine */

#define GW_PUBLIC 32
/* Make a key pair for the exchange.  False: OpenSSL refused. */
bool gw_cipher_offer(gw_cipher_t *cipher);
const unsigned char *gw_cipher_public(const gw_cipher_t *cipher); /* what the other end is told of it; zeros before */
/* Mix what both have offered into the keys that seal; the pair is forgotten.  False: that is no key of the other end's. */
bool gw_cipher_agree(gw_cipher_t *cipher, const unsigned char theirs[GW_PUBLIC]);

/* The number in its direction whose low 32 bits are seq: of those the one next to the last that was used. */
uint64_t gw_cipher_number(const gw_cipher_t *cipher, enum gw_direction direction, uint32_t seq);

/* Seal n pieces into out, which has room for all their bytes, and put the tag at tag.  covered: GW_COVERED bytes, or NULL.
 * False: OpenSSL refused.  One thread at a time. */
bool gw_cipher_seal(gw_cipher_t *cipher, const gw_nonce_t *nonce, const void *covered, const struct iovec *vec, int n,
                    unsigned char *out, unsigned char *tag);
/* Open len bytes in place.  False: they are not what the other end has sealed for this place, and are zeros now.  The bytes must be private memory: nobody else may write them meanwhile.  One thread at a time. */
bool gw_cipher_open(gw_cipher_t *cipher, const gw_nonce_t *nonce, const void *covered, void *bytes, size_t len,
                    const unsigned char *tag);

/* Prove what this end says; true if the other end has said that.  Any thread. */
bool gw_cipher_prove(const gw_cipher_t *cipher, const void *said, size_t len, unsigned char proof[GW_TAG]);
bool gw_cipher_proved(const gw_cipher_t *cipher, const void *said, size_t len, const unsigned char proof[GW_TAG]);

#endif
