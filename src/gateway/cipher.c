/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of a stream's ends (cipher.h). */
#include "gateway/cipher.h"
#include "gateway/ocb.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#define KEY 32
/* On Zen 5, with OpenSSL 3.0, AES-256-GCM does 6 GB/s and AES-128-OCB 13, or 50 in ocb.c; on other processors OpenSSL has only
 * GCM written for them. */
#ifdef __x86_64__
#define QUICKEST GW_AES_128_OCB
#else
#define QUICKEST GW_AES_256_GCM
#endif
#define SMALL 2048 /* bytes that are cheaper put together than sealed piece by piece */

/* One direction. */
typedef struct keys {
    unsigned char seal[KEY], prove[KEY];
    enum gw_suite suite;
    EVP_CIPHER_CTX *ctx;
    bool wide;        /* ocb seals instead */
    gw_ocb_t ocb;
    bool keyed;       /* ctx has the key of this turn and generation: */
    uint32_t turn;
    uint64_t generation;
    uint64_t number;  /* the greatest that was used */
} keys_t;

struct gw_cipher {
    keys_t keys[2]; /* by gw_direction */
    unsigned generation_bits;
    bool narrow; /* no ocb.h */
    bool active;
    EVP_PKEY *pair; /* for the exchange, until it is over; or NULL */
    unsigned char offered[GW_PUBLIC];
};

/* HKDF-Expand of RFC 5869 for one block, which a key is. */
static bool key_expand(const unsigned char key[KEY], const void *info, size_t len, unsigned char out[KEY])
{
    unsigned char text[64];
    unsigned n = KEY;
    if (len >= sizeof text)
        return false;
    memcpy(text, info, len);
    text[len] = 1;
    return HMAC(EVP_sha256(), key, KEY, text, len + 1, out, &n) && n == KEY;
}

static bool suite_take(gw_cipher_t *c, enum gw_direction direction, enum gw_suite suite)
{
    keys_t *keys = &c->keys[direction];
    const EVP_CIPHER *aead = suite == GW_AES_128_OCB ? EVP_aes_128_ocb() : EVP_aes_256_gcm();
    keys->suite = suite;
    keys->wide = suite == GW_AES_128_OCB && !c->narrow && gw_ocb_there();
    keys->keyed = false;
    return EVP_CipherInit_ex(keys->ctx, aead, NULL, NULL, NULL, direction == GW_OURS) == 1;
}

static bool keys_make(gw_cipher_t *c, enum gw_direction direction, const unsigned char *secret, bool active)
{
    keys_t *keys = &c->keys[direction];
    const char *seal = active ? "mad stream, active, seal" : "mad stream, passive, seal";
    const char *prove = active ? "mad stream, active, prove" : "mad stream, passive, prove";
    keys->ctx = EVP_CIPHER_CTX_new();
    return keys->ctx && key_expand(secret, seal, strlen(seal), keys->seal) &&
           key_expand(secret, prove, strlen(prove), keys->prove) &&
           (suite_take(c, direction, QUICKEST) || suite_take(c, direction, GW_AES_256_GCM));
}

gw_cipher_t *gw_cipher_new(const unsigned char secret[GW_SECRET], bool active, unsigned generation_bits)
{
    gw_cipher_t *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->generation_bits = generation_bits;
    c->active = active;
    if (keys_make(c, GW_OURS, secret, active) && keys_make(c, GW_THEIRS, secret, !active))
        return c;
    gw_cipher_free(c);
    return NULL;
}

void gw_cipher_free(gw_cipher_t *c)
{
    if (!c)
        return;
    EVP_CIPHER_CTX_free(c->keys[GW_OURS].ctx); /* which wipes its keys */
    EVP_CIPHER_CTX_free(c->keys[GW_THEIRS].ctx);
    EVP_PKEY_free(c->pair);
    OPENSSL_cleanse(c, sizeof *c);
    free(c);
}

/* ---- The exchange ------------------------------------------------------------------------------------------------- */

bool gw_cipher_offer(gw_cipher_t *c)
{
    size_t n = GW_PUBLIC;
    c->pair = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    return c->pair && EVP_PKEY_get_raw_public_key(c->pair, c->offered, &n) == 1 && n == GW_PUBLIC;
}

const unsigned char *gw_cipher_public(const gw_cipher_t *c)
{
    return c->offered;
}

static bool pair_derive(EVP_PKEY *pair, const unsigned char *theirs, unsigned char shared[GW_PUBLIC])
{
    EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, theirs, GW_PUBLIC);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(pair, NULL);
    size_t n = GW_PUBLIC;
    bool good = peer && ctx && EVP_PKEY_derive_init(ctx) == 1 && EVP_PKEY_derive_set_peer(ctx, peer) == 1 &&
                EVP_PKEY_derive(ctx, shared, &n) == 1 && n == GW_PUBLIC;
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(peer);
    return good;
}

bool gw_cipher_agree(gw_cipher_t *c, const unsigned char theirs[GW_PUBLIC])
{
    unsigned char mixed[3 * GW_PUBLIC]; /* what is shared, and both offers, the active end's first */
    bool good = c->pair && pair_derive(c->pair, theirs, mixed);
    memcpy(mixed + GW_PUBLIC, c->active ? c->offered : theirs, GW_PUBLIC);
    memcpy(mixed + 2 * GW_PUBLIC, c->active ? theirs : c->offered, GW_PUBLIC);
    for (int i = 0; i < 2 && good; i++) {
        unsigned char *seal = c->keys[i].seal;
        good = HMAC(EVP_sha256(), seal, KEY, mixed, sizeof mixed, seal, NULL) != NULL;
        c->keys[i].keyed = false;
    }
    OPENSSL_cleanse(mixed, sizeof mixed);
    EVP_PKEY_free(c->pair);
    c->pair = NULL;
    return good;
}

enum gw_suite gw_cipher_suite(const gw_cipher_t *c)
{
    return c->keys[GW_OURS].suite;
}

bool gw_cipher_choose(gw_cipher_t *c, enum gw_suite suite, bool wide)
{
    c->narrow = !wide;
    return suite_take(c, GW_OURS, suite) && suite_take(c, GW_THEIRS, c->keys[GW_THEIRS].suite);
}

bool gw_cipher_take_suite(gw_cipher_t *c, unsigned suite)
{
    return (suite == GW_AES_256_GCM || suite == GW_AES_128_OCB) &&
           suite_take(c, GW_THEIRS, (enum gw_suite)suite);
}

/* ---- Sealed ------------------------------------------------------------------------------------------------------- */

uint64_t gw_cipher_number(const gw_cipher_t *c, enum gw_direction direction, uint32_t seq)
{
    uint64_t near = c->keys[direction].number;
    return near + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)near);
}

/* Give ctx the key of a turn and generation, if it has another one. */
static bool key_take(keys_t *keys, uint32_t turn, uint64_t generation)
{
    unsigned char info[12], key[KEY];
    bool good;
    if (keys->keyed && keys->turn == turn && keys->generation == generation)
        return true;
    memcpy(info, &turn, sizeof turn);
    memcpy(info + sizeof turn, &generation, sizeof generation);
    good = key_expand(keys->seal, info, sizeof info, key) &&
           (keys->wide || EVP_CipherInit_ex(keys->ctx, NULL, NULL, key, NULL, -1) == 1);
    if (keys->wide && good)
        gw_ocb_key(&keys->ocb, key);
    OPENSSL_cleanse(key, sizeof key);
    keys->keyed = good;
    keys->turn = turn;
    keys->generation = generation;
    return good;
}

static bool aead_begin(keys_t *keys, const unsigned char *iv, const void *covered)
{
    int n;
    return EVP_CipherInit_ex(keys->ctx, NULL, NULL, NULL, iv, -1) == 1 &&
           (!covered || EVP_CipherUpdate(keys->ctx, NULL, &n, covered, GW_COVERED) == 1);
}

/* The nonce, and the keys for it. */
static bool nonce_take(gw_cipher_t *c, enum gw_direction direction, const gw_nonce_t *nonce, unsigned char iv[12])
{
    memset(iv, 0, 12);
    iv[0] = (unsigned char)nonce->part;
    memcpy(iv + 4, &nonce->number, sizeof nonce->number);
    return key_take(&c->keys[direction], nonce->turn, nonce->number >> c->generation_bits);
}

static size_t pieces_join(const struct iovec *vec, int n, unsigned char *out)
{
    size_t total = 0;
    for (int i = 0; i < n; i++) {
        if (out && vec[i].iov_len)
            memcpy(out + total, vec[i].iov_base, vec[i].iov_len);
        total += vec[i].iov_len;
    }
    return total;
}

/* Small pieces are put together first.  Of what does not end with a block the rest comes when all is there. */
static bool seal_pieces(keys_t *keys, const unsigned char *iv, const void *covered, const struct iovec *vec, int n,
                        unsigned char *out, unsigned char *tag)
{
    size_t total = pieces_join(vec, n, NULL);
    struct iovec one = {out, total};
    int len, rest;
    if (n > 1 && total <= SMALL) {
        pieces_join(vec, n, out);
        vec = &one;
        n = 1;
    }
    if (!aead_begin(keys, iv, covered))
        return false;
    for (int i = 0; i < n; i++) {
        len = 0;
        if (vec[i].iov_len && EVP_CipherUpdate(keys->ctx, out, &len, vec[i].iov_base, (int)vec[i].iov_len) != 1)
            return false;
        out += len;
    }
    return EVP_CipherFinal_ex(keys->ctx, out, &rest) == 1 &&
           EVP_CIPHER_CTX_ctrl(keys->ctx, EVP_CTRL_AEAD_GET_TAG, (int)GW_TAG, tag) == 1;
}

static bool seal_wide(keys_t *keys, const unsigned char *iv, const void *covered, const struct iovec *vec, int n,
                      unsigned char *out, unsigned char *tag)
{
    const unsigned char *from = out;
    size_t total;
    for (; n && !vec->iov_len; n--)
        vec++;
    if (n == 1)
        from = vec->iov_base;
    total = pieces_join(vec, n, n == 1 ? NULL : out);
    gw_ocb_seal(&keys->ocb, iv, covered, from, out, total, tag);
    return true;
}

bool gw_cipher_seal(gw_cipher_t *c, const gw_nonce_t *nonce, const void *covered, const struct iovec *vec, int n,
                    unsigned char *out, unsigned char *tag)
{
    keys_t *keys = &c->keys[GW_OURS];
    unsigned char iv[12];
    if (!nonce_take(c, GW_OURS, nonce, iv) ||
        !(keys->wide ? seal_wide(keys, iv, covered, vec, n, out, tag) : seal_pieces(keys, iv, covered, vec, n, out, tag)))
        return false;
    if (nonce->number > keys->number)
        keys->number = nonce->number;
    return true;
}

static bool open_whole(keys_t *keys, const unsigned char *iv, const void *covered, unsigned char *bytes, size_t len,
                       unsigned char *tag)
{
    int n = 0, rest;
    return aead_begin(keys, iv, covered) && (!len || EVP_CipherUpdate(keys->ctx, bytes, &n, bytes, (int)len) == 1) &&
           EVP_CIPHER_CTX_ctrl(keys->ctx, EVP_CTRL_AEAD_SET_TAG, (int)GW_TAG, tag) == 1 &&
           EVP_CipherFinal_ex(keys->ctx, bytes + n, &rest) == 1;
}

static bool open_wide(keys_t *keys, const unsigned char *iv, const void *covered, unsigned char *bytes, size_t len,
                      const unsigned char *tag)
{
    unsigned char want[GW_TAG];
    gw_ocb_open(&keys->ocb, iv, covered, bytes, len, want);
    return !CRYPTO_memcmp(want, tag, GW_TAG);
}

bool gw_cipher_open(gw_cipher_t *c, const gw_nonce_t *nonce, const void *covered, void *bytes, size_t len,
                    const unsigned char *tag)
{
    keys_t *keys = &c->keys[GW_THEIRS];
    unsigned char iv[12], said[GW_TAG];
    memcpy(said, tag, sizeof said);
    if (!nonce_take(c, GW_THEIRS, nonce, iv) ||
        !(keys->wide ? open_wide(keys, iv, covered, bytes, len, said) : open_whole(keys, iv, covered, bytes, len, said)))
        return false;
    if (nonce->number > keys->number)
        keys->number = nonce->number;
    return true;
}

/* ---- Proved ------------------------------------------------------------------------------------------------------- */

static bool said_mac(const keys_t *keys, const void *said, size_t len, unsigned char out[KEY])
{
    unsigned n = KEY;
    return HMAC(EVP_sha256(), keys->prove, KEY, said, len, out, &n) && n == KEY;
}

bool gw_cipher_prove(const gw_cipher_t *c, const void *said, size_t len, unsigned char proof[GW_TAG])
{
    unsigned char whole[KEY];
    if (!said_mac(&c->keys[GW_OURS], said, len, whole))
        return false;
    memcpy(proof, whole, GW_TAG);
    return true;
}

bool gw_cipher_proved(const gw_cipher_t *c, const void *said, size_t len, const unsigned char proof[GW_TAG])
{
    unsigned char whole[KEY];
    return said_mac(&c->keys[GW_THEIRS], said, len, whole) && !CRYPTO_memcmp(whole, proof, GW_TAG);
}
