/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of a stream's endpoints.  The contracts are in cipher.h. */
#include "gateway/cipher.h"

#include "core/security/aead.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#define KEY 32 /* bytes of each key; AES-128-GCM uses the first half */

/* Keys of one direction. */
typedef struct keys {
    unsigned char seal[KEY], prove[KEY];
    madi_aead_t *aead; /* NULL until the first fragment is sealed or opened */
    bool keyed;        /* true if aead has the key of the following turn and generation */
    uint32_t turn;
    uint64_t generation;
    uint64_t number; /* greatest number used */
} keys_t;

struct gw_cipher {
    keys_t keys[2]; /* keys, indexed by gw_direction */
    unsigned generation_bits;
    bool active;
    EVP_PKEY *pair; /* key pair of the key exchange; NULL before and after it */
    unsigned char offered[GW_PUBLIC];
};

/* HKDF-Expand of RFC 5869 for a single block, the size of a key. */
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

static bool cipher_make_keys(gw_cipher_t *c, enum gw_direction direction, const unsigned char *secret, bool active)
{
    keys_t *keys = &c->keys[direction];
    const char *seal = active ? "mad stream, active, seal" : "mad stream, passive, seal";
    const char *prove = active ? "mad stream, active, prove" : "mad stream, passive, prove";
    return key_expand(secret, seal, strlen(seal), keys->seal) && key_expand(secret, prove, strlen(prove), keys->prove);
}

gw_cipher_t *gw_cipher_new(const unsigned char secret[GW_SECRET], bool active, unsigned generation_bits)
{
    gw_cipher_t *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->generation_bits = generation_bits;
    c->active = active;
    if (cipher_make_keys(c, GW_OURS, secret, active) && cipher_make_keys(c, GW_THEIRS, secret, !active))
        return c;
    gw_cipher_free(c);
    return NULL;
}

void gw_cipher_free(gw_cipher_t *c)
{
    if (!c)
        return;
    madi_aead_free(c->keys[GW_OURS].aead);
    madi_aead_free(c->keys[GW_THEIRS].aead);
    EVP_PKEY_free(c->pair);
    OPENSSL_cleanse(c, sizeof *c);
    free(c);
}

/* ---- The exchange ----------------------------------------------------------------------------------------------- */

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
    unsigned char mixed[3 * GW_PUBLIC]; /* shared secret, then both offers, the active endpoint's first */
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

/* ---- Sealed ----------------------------------------------------------------------------------------------------- */

uint64_t gw_cipher_number(const gw_cipher_t *c, enum gw_direction direction, uint32_t seq)
{
    uint64_t near = c->keys[direction].number;
    return near + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)near);
}

/* Set the AEAD's key for a turn and generation, unless it is already set. */
static bool key_take(keys_t *keys, bool seals, uint32_t turn, uint64_t generation)
{
    unsigned char info[12], key[KEY];
    if (keys->keyed && keys->turn == turn && keys->generation == generation)
        return true;
    if (!keys->aead && !(keys->aead = madi_aead_new(EVP_aes_128_gcm(), seals)))
        return false;
    memcpy(info, &turn, sizeof turn);
    memcpy(info + sizeof turn, &generation, sizeof generation);
    keys->keyed = key_expand(keys->seal, info, sizeof info, key) && madi_aead_key_set(keys->aead, key);
    OPENSSL_cleanse(key, sizeof key);
    keys->turn = turn;
    keys->generation = generation;
    return keys->keyed;
}

/* Build the nonce, and set the key that belongs to it. */
static bool nonce_take(gw_cipher_t *c, enum gw_direction direction, const gw_nonce_t *nonce, unsigned char iv[MADI_AEAD_IV])
{
    memset(iv, 0, MADI_AEAD_IV);
    iv[0] = (unsigned char)nonce->part;
    memcpy(iv + 4, &nonce->number, sizeof nonce->number);
    return key_take(&c->keys[direction], direction == GW_OURS, nonce->turn, nonce->number >> c->generation_bits);
}

static void number_used(keys_t *keys, uint64_t number)
{
    if (number > keys->number)
        keys->number = number;
}

bool gw_cipher_seal(gw_cipher_t *c, const gw_nonce_t *nonce, const void *covered, const struct iovec *vec, int n,
                    unsigned char *out, unsigned char *tag)
{
    unsigned char iv[MADI_AEAD_IV];
    const madi_aead_about_t about = {iv, covered, covered ? GW_COVERED : 0};
    if (!nonce_take(c, GW_OURS, nonce, iv) || !madi_aead_seal(c->keys[GW_OURS].aead, &about, vec, n, out, tag))
        return false;
    number_used(&c->keys[GW_OURS], nonce->number);
    return true;
}

bool gw_cipher_open(gw_cipher_t *c, const gw_nonce_t *nonce, const void *covered, void *bytes, size_t len,
                    const unsigned char *tag)
{
    unsigned char iv[MADI_AEAD_IV];
    const madi_aead_about_t about = {iv, covered, covered ? GW_COVERED : 0};
    const struct iovec all = {bytes, len};
    if (!nonce_take(c, GW_THEIRS, nonce, iv) || !madi_aead_open(c->keys[GW_THEIRS].aead, &about, bytes, &all, 1, tag))
        return false;
    number_used(&c->keys[GW_THEIRS], nonce->number);
    return true;
}

/* ---- Proved ----------------------------------------------------------------------------------------------------- */

static bool statement_mac(const keys_t *keys, const void *statement, size_t len, unsigned char out[KEY])
{
    unsigned n = KEY;
    return HMAC(EVP_sha256(), keys->prove, KEY, statement, len, out, &n) && n == KEY;
}

bool gw_cipher_prove(const gw_cipher_t *c, const void *statement, size_t len, unsigned char proof[GW_TAG])
{
    unsigned char whole[KEY];
    if (!statement_mac(&c->keys[GW_OURS], statement, len, whole))
        return false;
    memcpy(proof, whole, GW_TAG);
    return true;
}

bool gw_cipher_proved(const gw_cipher_t *c, const void *statement, size_t len, const unsigned char proof[GW_TAG])
{
    unsigned char whole[KEY];
    return statement_mac(&c->keys[GW_THEIRS], statement, len, whole) && !CRYPTO_memcmp(whole, proof, GW_TAG);
}
