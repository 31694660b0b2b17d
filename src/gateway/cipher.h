/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of the two endpoints of a stream, and their use: seal and open fragments, prove and verify control fragments.
 *
 *   secret (from the handshake of the two endpoints)
 *     |-- HKDF "mad stream, active, seal"  -- HMAC X25519 of both ends -- HKDF turn, generation --> key of AES-128-GCM
 *     |-- HKDF "mad stream, active, prove" --> HMAC-SHA-256 key
 *     `-- both again for the passive end
 *
 * The key exchange (X25519, new for each stream) is authenticated by proofs.  This exchange gives forward secrecy: recorded
 * traffic stays secret even if the job's key leaks later.  Each direction has keys of its own, so a gateway cannot send a
 * fragment back to its sender as if it came from the other endpoint.
 *
 * The nonce of a sealed fragment is its number in its direction, extended to 64 bits.  Each path of the stream (turn),
 * and every 2^GW_REKEY_BITS fragments (generation), uses a new key.  A fragment is only sent again on another path,
 * hence with another key, so its content may differ (its acknowledgement does). */
#ifndef MADI_CIPHER_H
#define MADI_CIPHER_H

#include <madeleine/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define GW_SECRET 32
#define GW_TAG ((size_t)16)
#define GW_COVERED 16 /* additional bytes that a tag covers */
/* log2 of the number of fragments under one key: 2^16 fragments of 256 KiB have 2^30 blocks, of 2^34.5 allowed (RFC 8446,
 * 5.5). */
#define GW_REKEY_BITS 16

typedef struct gw_cipher gw_cipher_t;

enum gw_direction { GW_OURS, GW_THEIRS };

/* Unit that is sealed under one number: a whole packet, or separately the header and the body of a long packet. */
enum gw_part { GW_PART_WHOLE, GW_PART_HEAD, GW_PART_BODY, GW_PARTS };

/* Identity of a sealed part.  No two parts are sealed under the same identity. */
typedef struct gw_nonce {
    uint32_t turn;
    enum gw_part part;
    uint64_t number;
} gw_nonce_t;

/* Create the keys of a stream.  active: this endpoint has opened the stream.  generation_bits: log2 of the number of
 * fragments under one key.  Return NULL if out of memory, or if OpenSSL failed. */
gw_cipher_t *gw_cipher_new(const unsigned char secret[GW_SECRET], bool active, unsigned generation_bits);
void gw_cipher_free(gw_cipher_t *cipher); /* wipes the keys; NULL is legal */

#define GW_PUBLIC 32
/* Make a key pair for the exchange.  Return false if OpenSSL failed. */
bool gw_cipher_offer(gw_cipher_t *cipher);
/* public key for the other endpoint; zeros before gw_cipher_offer */
const unsigned char *gw_cipher_public(const gw_cipher_t *cipher);
/* Mix the public keys of both endpoints into the sealing keys, and forget the key pair.  Return false if `theirs` is
 * not a valid key. */
bool gw_cipher_agree(gw_cipher_t *cipher, const unsigned char theirs[GW_PUBLIC]);

/* Return the 64-bit number of a record in that direction: of the numbers whose low 32 bits are seq, the one that is
 * closest to the last number used. */
uint64_t gw_cipher_number(const gw_cipher_t *cipher, enum gw_direction direction, uint32_t seq);

/* Seal n pieces into out, which has room for all their bytes, and write the tag. covered: GW_COVERED bytes, or NULL.
 * Return false if OpenSSL failed.  One thread at a time. */
bool gw_cipher_seal(gw_cipher_t *cipher, const gw_nonce_t *nonce, const void *covered, const struct iovec *vec, int n,
                    unsigned char *out, unsigned char *tag);
/* Decrypt and verify len bytes in place.  If the other endpoint did not seal them under this identity, return false; the
 * bytes are then zeroed.  The bytes must be in private memory that no other process writes meanwhile.  One thread at a
 * time. */
bool gw_cipher_open(gw_cipher_t *cipher, const gw_nonce_t *nonce, const void *covered, void *bytes, size_t len,
                    const unsigned char *tag);

/* Prove a statement of this endpoint; true if OpenSSL succeeded. gw_cipher_proved: true if the other endpoint proved
 * it.  Any thread. */
bool gw_cipher_prove(const gw_cipher_t *cipher, const void *statement, size_t len, unsigned char proof[GW_TAG]);
bool gw_cipher_proved(const gw_cipher_t *cipher, const void *statement, size_t len, const unsigned char proof[GW_TAG]);

#endif
