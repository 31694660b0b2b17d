/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/security/proof.h"

#include <openssl/evp.h>
#include <string.h>
#include <sys/uio.h>

/* Compute HMAC-SHA-256 over n pieces. */
static bool hmac_pieces(const unsigned char *key, const struct iovec *piece, int n, unsigned char *out)
{
    EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, key, MADI_SECRET_LEN);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t len = MADI_PROOF_LEN;
    bool good = pkey && ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, pkey) == 1;
    for (int i = 0; i < n; i++)
        good = good && EVP_DigestSignUpdate(ctx, piece[i].iov_base, piece[i].iov_len) == 1;
    good = good && EVP_DigestSignFinal(ctx, out, &len) == 1;
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(pkey);
    return good;
}

bool madi_proof_make(madi_transcript_t *transcript, const unsigned char *key, int side, const madi_frame_t *header,
                     const void *body, size_t len)
{
    char letter = "AP"[side];
    const struct iovec piece[] = {{&letter, 1},
                                  {(void *)transcript->driver, strlen(transcript->driver) + 1},
                                  {transcript->binding, sizeof transcript->binding},
                                  {&transcript->hello, sizeof transcript->hello},
                                  {&transcript->challenge, sizeof transcript->challenge},
                                  {transcript->proof[0], side ? MADI_PROOF_LEN : 0},
                                  {(void *)header, sizeof *header},
                                  {(void *)body, len}};
    return hmac_pieces(key, piece, sizeof piece / sizeof *piece, transcript->proof[side]);
}

bool madi_proof_secret(const madi_transcript_t *transcript, const unsigned char *key, unsigned char secret[MADI_SECRET_LEN])
{
    char letter = 'S';
    const struct iovec piece[] = {{&letter, 1}, {(void *)transcript->proof, sizeof transcript->proof}};
    return hmac_pieces(key, piece, 2, secret);
}
