/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-128-OCB (RFC 7253, tags of 16 bytes, nonces of 12) for long texts, on processors that have AES for vectors of 512 bits
 * (VAES, AVX-512), which OpenSSL 3.0 does not use for it.  What it makes is what OpenSSL makes. */
#ifndef MADI_OCB_H
#define MADI_OCB_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gw_ocb {
    _Alignas(16) unsigned char encrypt[11][16], decrypt[11][16]; /* round keys */
    unsigned char star[16], dollar[16]; /* as the RFC calls them */
    unsigned char l[32][16];            /* of the blocks whose number has i zeros at its end; so many suffice for 64 GiB */
    unsigned char sum[33][16];          /* of the first i blocks from a multiple of 32 on; the last one is only read */
} gw_ocb_t;

/* True if this processor can, and the library was built for it.  Then key expands a key of 16 bytes. */
bool gw_ocb_there(void);
void gw_ocb_key(gw_ocb_t *ocb, const unsigned char *key);
/* Encrypt from `from` to `to`, which may be the same, and compute the tag of nonce, text and, unless it is NULL, 16 bytes that
 * are covered besides. */
void gw_ocb_seal(const gw_ocb_t *ocb, const unsigned char nonce[12], const unsigned char *covered, const unsigned char *from,
                 unsigned char *to, size_t len, unsigned char tag[16]);
/* Decrypt in place, and compute the tag that the text should have. */
void gw_ocb_open(const gw_ocb_t *ocb, const unsigned char nonce[12], const unsigned char *covered, unsigned char *text,
                 size_t len, unsigned char tag[16]);

#endif
