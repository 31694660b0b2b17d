/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-GCM by intel-ipsec-mb, for aead.c.
 *
 * The library is loaded when the first key is made, and only on processors with AES and carry-less multiplication for
 * vectors of 512 bits: OpenSSL 3.0 does not use these instructions; where they are missing, OpenSSL is as fast as the
 * library.  So a process that encrypts nothing does not load the library, and on a host without the library OpenSSL
 * does the work. */
#ifndef MADI_AEAD_FAST_H
#define MADI_AEAD_FAST_H

#include "core/security/aead.h"

typedef struct madi_aead_fast madi_aead_fast_t;

/* Make an object for keys of 16 or 32 bytes.  Return NULL if not built in, if the library or the processor lacks what
 * is needed, or if memory is short. */
madi_aead_fast_t *madi_aead_fast_new(size_t key_len);
void madi_aead_fast_free(madi_aead_fast_t *fast); /* wipes the key; NULL is fine */
void madi_aead_fast_key_set(madi_aead_fast_t *fast, const unsigned char *key);
/* Like madi_aead_seal, but with the processor's own instructions. */
void madi_aead_fast_seal(madi_aead_fast_t *fast, const madi_aead_about_t *about, const struct iovec *vec, int n,
                         unsigned char *out, unsigned char *tag);
/* Like madi_aead_open, but only compute the tag that the bytes should have: the calling function compares it, and wipes
 * the pieces. */
void madi_aead_fast_open(madi_aead_fast_t *fast, const madi_aead_about_t *about, const unsigned char *from,
                         const struct iovec *vec, int n, unsigned char *tag);

#endif
