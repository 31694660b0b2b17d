/* SPDX-License-Identifier: BSD-3-Clause */
/* Encryption with authentication (AEAD) of many bytes: TLS records (seal_record.c), fragments of streams (gateway/cipher.c).
 *
 * AES-GCM is computed by intel-ipsec-mb where configure has found that library and the processor has AES for vectors
 * (aead_fast.h).  Everything else is computed by OpenSSL.  The bytes are the same.  One thread at a time uses an object;
 * objects share nothing. */
#ifndef MADI_AEAD_H
#define MADI_AEAD_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define MADI_AEAD_IV 12
#define MADI_AEAD_TAG 16

typedef struct madi_aead madi_aead_t;

/* Inputs of a tag besides the text.  Each text under one key needs an iv of its own. */
typedef struct madi_aead_about {
    const unsigned char *iv; /* MADI_AEAD_IV bytes */
    const void *also;        /* bytes that are authenticated but not encrypted; may be NULL if also_len is 0 */
    size_t also_len;
} madi_aead_about_t;

/* Make an object without a key.  cipher: AES-GCM or ChaCha20-Poly1305.  seals: true if the object is for
 * madi_aead_seal, false if it is for madi_aead_open.  NULL if out of memory, or OpenSSL refused. */
madi_aead_t *madi_aead_new(const EVP_CIPHER *cipher, bool seals);
/* For tests.  Like madi_aead_new, but by OpenSSL. */
madi_aead_t *madi_aead_new_plain(const EVP_CIPHER *cipher, bool seals);
void madi_aead_free(madi_aead_t *aead); /* wipes the key; NULL is fine */
/* True if intel-ipsec-mb does the work of this object. */
bool madi_aead_is_fast(const madi_aead_t *aead);
/* Set the key, which replaces the last one and has the cipher's length.  Return false if OpenSSL fails. */
bool madi_aead_key_set(madi_aead_t *aead, const unsigned char *key);

/* Encrypt n pieces, one behind the other, to out, which has room for them; the tag goes to tag.  A single piece may lie at
 * out; several may not overlap it.  Return false if OpenSSL fails. */
bool madi_aead_seal(madi_aead_t *aead, const madi_aead_about_t *about, const struct iovec *vec, int n, unsigned char *out,
                    unsigned char *tag);
/* Decrypt the bytes at `from` into n pieces.  The pieces' lengths together give the number of bytes.  A single piece may lie
 * at from; several may not overlap it.  Return false if the bytes were not sealed with this key and these inputs; the pieces
 * are then zeros.  Until the call returns, the pieces may hold anything. */
bool madi_aead_open(madi_aead_t *aead, const madi_aead_about_t *about, const unsigned char *from, const struct iovec *vec,
                    int n, const unsigned char *tag);

#endif
