/* SPDX-License-Identifier: BSD-3-Clause */
/* AEAD (aead.h) by OpenSSL, or by intel-ipsec-mb (aead_fast.h). */
#include "core/security/aead_fast.h"

#include "base/base.h"

#include <openssl/crypto.h>
#include <stdlib.h>

#define SMALL 2048 /* bytes: pieces of at most this total length are first copied together, and then encrypted in one call */

struct madi_aead {
    madi_aead_fast_t *fast; /* object of intel-ipsec-mb; NULL if OpenSSL's object `ctx` is used */
    EVP_CIPHER_CTX *ctx;
    bool seals;
};

static size_t gcm_key_len(const EVP_CIPHER *cipher)
{
    int nid = EVP_CIPHER_get_nid(cipher);
    return nid == NID_aes_128_gcm ? 16 : nid == NID_aes_256_gcm ? 32 : 0;
}

static madi_aead_t *aead_new(const EVP_CIPHER *cipher, bool seals, bool fast)
{
    madi_aead_t *aead = calloc(1, sizeof *aead);
    if (!aead)
        return NULL;
    aead->seals = seals;
    if (fast && (aead->fast = madi_aead_fast_new(gcm_key_len(cipher))) != NULL)
        return aead;
    if ((aead->ctx = EVP_CIPHER_CTX_new()) && EVP_CipherInit_ex(aead->ctx, cipher, NULL, NULL, NULL, seals) == 1)
        return aead;
    madi_aead_free(aead);
    return NULL;
}

madi_aead_t *madi_aead_new(const EVP_CIPHER *cipher, bool seals)
{
    return aead_new(cipher, seals, true);
}

madi_aead_t *madi_aead_new_plain(const EVP_CIPHER *cipher, bool seals)
{
    return aead_new(cipher, seals, false);
}

void madi_aead_free(madi_aead_t *aead)
{
    if (!aead)
        return;
    madi_aead_fast_free(aead->fast);
    EVP_CIPHER_CTX_free(aead->ctx); /* this call wipes the key of ctx */
    free(aead);
}

bool madi_aead_is_fast(const madi_aead_t *aead)
{
    return aead->fast != NULL;
}

bool madi_aead_key_set(madi_aead_t *aead, const unsigned char *key)
{
    if (!aead->fast)
        return EVP_CipherInit_ex(aead->ctx, NULL, NULL, key, NULL, -1) == 1;
    madi_aead_fast_key_set(aead->fast, key);
    return true;
}

static size_t pieces_len(const struct iovec *vec, int n)
{
    size_t len = 0;
    for (int i = 0; i < n; i++)
        len += vec[i].iov_len;
    return len;
}

static bool text_begin(EVP_CIPHER_CTX *ctx, const madi_aead_about_t *about)
{
    int n;
    return EVP_CipherInit_ex(ctx, NULL, NULL, NULL, about->iv, -1) == 1 &&
           (!about->also_len || EVP_CipherUpdate(ctx, NULL, &n, about->also, (int)about->also_len) == 1);
}

/* ---- Seal --------------------------------------------------------------------------------------------------------- */

static bool evp_seal(EVP_CIPHER_CTX *ctx, const madi_aead_about_t *about, const struct iovec *vec, int n, unsigned char *out,
                     unsigned char *tag)
{
    int len;
    if (!text_begin(ctx, about))
        return false;
    for (int i = 0; i < n; out += vec[i++].iov_len)
        if (vec[i].iov_len && EVP_CipherUpdate(ctx, out, &len, vec[i].iov_base, (int)vec[i].iov_len) != 1)
            return false;
    return EVP_CipherFinal_ex(ctx, out, &len) == 1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, MADI_AEAD_TAG, tag) == 1;
}

bool madi_aead_seal(madi_aead_t *aead, const madi_aead_about_t *about, const struct iovec *vec, int n, unsigned char *out,
                    unsigned char *tag)
{
    struct iovec joined = {out, 0};
    if (n != 1 && (joined.iov_len = pieces_len(vec, n)) <= SMALL) {
        madi_copy_pieces(out, vec, n);
        vec = &joined;
        n = 1;
    }
    if (!aead->fast)
        return evp_seal(aead->ctx, about, vec, n, out, tag);
    madi_aead_fast_seal(aead->fast, about, vec, n, out, tag);
    return true;
}

/* ---- Open --------------------------------------------------------------------------------------------------------- */

static bool evp_open(EVP_CIPHER_CTX *ctx, const madi_aead_about_t *about, const unsigned char *from, const struct iovec *vec,
                     int n, const unsigned char *tag)
{
    unsigned char said[MADI_AEAD_TAG], none[1];
    int len;
    memcpy(said, tag, sizeof said);
    if (!text_begin(ctx, about))
        return false;
    for (int i = 0; i < n; from += vec[i++].iov_len)
        if (vec[i].iov_len && EVP_CipherUpdate(ctx, vec[i].iov_base, &len, from, (int)vec[i].iov_len) != 1)
            return false;
    return EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, MADI_AEAD_TAG, said) == 1 &&
           EVP_CipherFinal_ex(ctx, none, &len) == 1;
}

static bool text_open(madi_aead_t *aead, const madi_aead_about_t *about, const unsigned char *from, const struct iovec *vec,
                      int n, const unsigned char *tag)
{
    unsigned char want[MADI_AEAD_TAG];
    if (!aead->fast)
        return evp_open(aead->ctx, about, from, vec, n, tag);
    for (int i = 0; i < MADI_AEAD_TAG; i++)
        want[i] = (unsigned char)~tag[i]; /* begin with a wrong tag, which stays in place if no tag is computed */
    madi_aead_fast_open(aead->fast, about, from, vec, n, want);
    return !CRYPTO_memcmp(want, tag, sizeof want);
}

static void pieces_fill(const struct iovec *vec, int n, const unsigned char *from)
{
    for (int i = 0; i < n; from += vec[i++].iov_len)
        if (vec[i].iov_len)
            memcpy(vec[i].iov_base, from, vec[i].iov_len);
}

bool madi_aead_open(madi_aead_t *aead, const madi_aead_about_t *about, const unsigned char *from, const struct iovec *vec,
                    int n, const unsigned char *tag)
{
    unsigned char text[SMALL];
    struct iovec joined = {text, 0};
    if (n != 1 && (joined.iov_len = pieces_len(vec, n)) <= SMALL) {
        if (text_open(aead, about, from, &joined, 1, tag)) {
            pieces_fill(vec, n, text);
            return true;
        }
    } else if (text_open(aead, about, from, vec, n, tag)) {
        return true;
    }
    for (int i = 0; i < n; i++)
        if (vec[i].iov_len)
            memset(vec[i].iov_base, 0, vec[i].iov_len);
    return false;
}
