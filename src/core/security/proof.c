/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/security/proof.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>
#include <sys/uio.h>

static EVP_MAC_CTX *mac_new(void)
{
    const OSSL_PARAM params[] = {OSSL_PARAM_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0), OSSL_PARAM_END};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(mac);
    EVP_MAC_free(mac);
    if (ctx && EVP_MAC_CTX_set_params(ctx, params) == 1)
        return ctx;
    EVP_MAC_CTX_free(ctx);
    return NULL;
}

/* Compute HMAC-SHA-256 over n pieces.  One context is used for all proofs of a session: libcrypto needs far longer to make a
 * context than to compute with it.  Between two proofs it holds no secret. */
static bool hmac_pieces(madi_proof_mac_t *mac, const unsigned char *key, const struct iovec *piece, int n,
                        unsigned char *out)
{
    static const unsigned char none[MADI_SECRET_LEN];
    EVP_MAC_CTX *ctx = mac && *mac ? *mac : mac_new();
    size_t len = MADI_PROOF_LEN;
    bool good = ctx && EVP_MAC_init(ctx, key, MADI_SECRET_LEN, NULL) == 1;
    for (int i = 0; i < n; i++)
        good = good && EVP_MAC_update(ctx, piece[i].iov_base, piece[i].iov_len) == 1;
    good = good && EVP_MAC_final(ctx, out, &len, len) == 1;
    if (mac && ctx && EVP_MAC_init(ctx, none, sizeof none, NULL) == 1) {
        *mac = ctx;
        return good;
    }
    EVP_MAC_CTX_free(ctx);
    if (mac)
        *mac = NULL;
    return good;
}

void madi_proof_mac_free(madi_proof_mac_t mac)
{
    EVP_MAC_CTX_free(mac);
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
    return hmac_pieces(transcript->mac, key, piece, sizeof piece / sizeof *piece, transcript->proof[side]);
}

bool madi_proof_secret(const madi_transcript_t *transcript, const unsigned char *key, unsigned char secret[MADI_SECRET_LEN])
{
    char letter = 'S';
    const struct iovec piece[] = {{&letter, 1}, {(void *)transcript->proof, sizeof transcript->proof}};
    return hmac_pieces(transcript->mac, key, piece, 2, secret);
}
