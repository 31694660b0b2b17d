/* SPDX-License-Identifier: BSD-3-Clause */
/* The records of TLS 1.3 after the handshake (RFC 8446, 5 and 7).
 *
 *   header: type 23 (1), version 0x0303 (2), length of what follows (2)     payload | type (1) | tag (16), encrypted
 *
 * The nonce is the record's number, so a record that is changed, lost, repeated, or in another place does not open. */
#include "core/security/seal_inside.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECES 64 /* maximum number of pieces of a record, without the piece for its type */
#define SPARE 64  /* bytes of the buffer that payload leaves free, for an update of the key or the end */
#define CLOSE_NOTIFY 0

/* ---- Keys ------------------------------------------------------------------------------------------------------- */

/* HKDF-Expand-Label without a context; len is the hash's length at most. */
static bool secret_expand(const madi_seal_ctx_t *ctx, const unsigned char *secret, const char *label, unsigned char *to,
                          size_t len)
{
    unsigned char info[64], out[EVP_MAX_MD_SIZE];
    size_t n = strlen("tls13 ") + strlen(label);
    int used = snprintf((char *)info, sizeof info, "%c%c%ctls13 %s", 1, (int)len, (int)n, label);
    bool done;
    info[0] = 0;        /* the length's high byte */
    info[used] = 0;     /* no context */
    info[used + 1] = 1; /* number of the block of the expansion: the first one, and the only one */
    done = HMAC(ctx->hash, secret, (int)ctx->suite->hash_len, info, (size_t)used + 2, out, NULL) != NULL;
    if (done)
        memcpy(to, out, len);
    OPENSSL_cleanse(out, sizeof out);
    return done;
}

static bool dir_key(const madi_seal_ctx_t *ctx, seal_dir_t *dir)
{
    unsigned char key[EVP_MAX_KEY_LENGTH];
    bool done = secret_expand(ctx, dir->secret, "key", key, ctx->suite->key_len) &&
                secret_expand(ctx, dir->secret, "iv", dir->iv, SEAL_IV) && madi_aead_key_set(dir->aead, key);
    OPENSSL_cleanse(key, sizeof key);
    dir->seq = 0;
    return done;
}

static bool dir_update(const madi_seal_ctx_t *ctx, seal_dir_t *dir)
{
    dir->updates++;
    return secret_expand(ctx, dir->secret, "traffic upd", dir->secret, ctx->suite->hash_len) && dir_key(ctx, dir);
}

bool madi_seal_tx_key(const madi_seal_t *s, unsigned char *key)
{
    return secret_expand(s->ctx, s->tx.secret, "key", key, s->ctx->suite->key_len);
}

bool madi_seal_tx_next(madi_seal_t *s)
{
    return dir_update(s->ctx, &s->tx);
}

bool madi_seal_keys_set(madi_seal_t *s)
{
    s->rx.aead = madi_aead_new(s->ctx->cipher, false);
    s->tx.aead = madi_aead_new(s->ctx->cipher, true);
    memcpy(s->rx.secret, s->active ? s->server_secret : s->client_secret, SEAL_HASH_MAX);
    memcpy(s->tx.secret, s->active ? s->client_secret : s->server_secret, SEAL_HASH_MAX);
    OPENSSL_cleanse(s->client_secret, SEAL_HASH_MAX);
    OPENSSL_cleanse(s->server_secret, SEAL_HASH_MAX);
    return s->rx.aead && s->tx.aead && dir_key(s->ctx, &s->rx) && dir_key(s->ctx, &s->tx);
}

void madi_seal_keys_wipe(madi_seal_t *s)
{
    madi_aead_free(s->rx.aead);
    madi_aead_free(s->tx.aead);
    OPENSSL_cleanse(&s->rx, sizeof s->rx);
    OPENSSL_cleanse(&s->tx, sizeof s->tx);
    OPENSSL_cleanse(s->client_secret, SEAL_HASH_MAX);
    OPENSSL_cleanse(s->server_secret, SEAL_HASH_MAX);
}

void madi_seal_rekey_after(madi_seal_t *s, uint64_t records)
{
    s->rekey = records;
}

uint64_t madi_seal_updates(const madi_seal_t *s, bool sent)
{
    return sent ? s->tx.updates : s->rx.updates;
}

/* Count the next record.  The record's number makes its nonce, and the record's header is authenticated too. */
static madi_aead_about_t record_next(seal_dir_t *dir, const unsigned char *head, unsigned char nonce[SEAL_IV])
{
    memcpy(nonce, dir->iv, SEAL_IV);
    for (int i = 0; i < 8; i++)
        nonce[SEAL_IV - 1 - i] ^= (unsigned char)(dir->seq >> 8 * i);
    dir->seq++;
    return (madi_aead_about_t){nonce, head, SEAL_HEAD};
}

/* ---- Sending ---------------------------------------------------------------------------------------------------- */

/* A position in a list of pieces. */
typedef struct place {
    const struct iovec *piece;
    size_t used; /* bytes of the current piece that are used */
} place_t;

/* Take the next bytes, at most *len; *len becomes their number.  Return the number of pieces that they are in, PIECES at
 * most. */
static int pieces_next(place_t *p, struct iovec *to, size_t *len)
{
    size_t left = *len;
    int n = 0;
    while (left && n < PIECES) {
        size_t part = p->piece->iov_len - p->used;
        if (!part) {
            p->piece++;
            p->used = 0;
            continue;
        }
        part = part < left ? part : left;
        to[n++] = (struct iovec){(char *)p->piece->iov_base + p->used, part};
        p->used += part;
        left -= part;
    }
    *len -= left;
    return n;
}

/* Append a record of at most *len payload bytes to the output; *len becomes their number.  Return false if encryption
 * fails. */
static bool record_put(madi_seal_t *s, unsigned char type, place_t *from, size_t *len)
{
    unsigned char *head = s->out + s->out_n, *to = head + SEAL_HEAD, nonce[SEAL_IV];
    struct iovec text[PIECES + 1];
    int n = pieces_next(from, text, len);
    size_t body = *len + 1 + SEAL_TAG;
    madi_aead_about_t about;
    text[n++] = (struct iovec){&type, 1};
    head[0] = SEAL_DATA;
    head[1] = head[2] = 3;
    head[3] = (unsigned char)(body >> 8);
    head[4] = (unsigned char)body;
    about = record_next(&s->tx, head, nonce);
    if (!madi_aead_seal(s->tx.aead, &about, text, n, to, to + *len + 1))
        return false;
    s->out_n += SEAL_HEAD + body;
    return true;
}

bool madi_seal_put_as(madi_seal_t *s, unsigned char type, const void *bytes, size_t len)
{
    const struct iovec piece = {(void *)(uintptr_t)bytes, len};
    place_t from = {&piece, 0};
    return s->out_n + len + MADI_SEAL_MORE <= SEAL_OUT_SIZE && record_put(s, type, &from, &len);
}

/* Send KeyUpdate: the next record is encrypted under the next key. */
static bool update_send(madi_seal_t *s)
{
    static const unsigned char message[5] = {SEAL_KEY_UPDATE, 0, 0, 1, 0};
    atomic_store_explicit(&s->update_wanted, false, memory_order_relaxed);
    return madi_seal_put_as(s, SEAL_HANDSHAKE, message, sizeof message) && dir_update(s->ctx, &s->tx);
}

size_t madi_seal_put(madi_seal_t *s, const struct iovec *vec, int n, size_t max)
{
    place_t from = {vec, 0};
    size_t total = 0, done = 0;
    for (int i = 0; i < n; i++)
        total += vec[i].iov_len;
    total = total < max ? total : max;
    while (done < total && !s->ended) {
        size_t len = total - done < MADI_SEAL_TEXT ? total - done : MADI_SEAL_TEXT;
        if (s->out_n + len + MADI_SEAL_MORE + SPARE > SEAL_OUT_SIZE)
            break;
        if (MADI_UNLIKELY(s->tx.seq >= s->rekey || atomic_load_explicit(&s->update_wanted, memory_order_relaxed)))
            s->ended = !update_send(s);
        if (s->ended || !record_put(s, SEAL_DATA, &from, &len)) {
            s->ended = true;
            errno = EIO;
            return 0;
        }
        done += len;
    }
    return done;
}

const void *madi_seal_out(const madi_seal_t *s, size_t *len)
{
    *len = s->out_n - s->out_at;
    return s->out + s->out_at;
}

void madi_seal_sent(madi_seal_t *s, size_t n)
{
    s->out_at += n;
    if (s->out_at == s->out_n)
        s->out_at = s->out_n = 0;
}

void madi_seal_end(madi_seal_t *s)
{
    static const unsigned char alert[2] = {1, CLOSE_NOTIFY};
    if (!s->ended && s->tx.aead)
        madi_seal_put_as(s, SEAL_ALERT, alert, sizeof alert);
    s->ended = true;
}

/* ---- Receiving -------------------------------------------------------------------------------------------------- */

void *madi_seal_room(madi_seal_t *s, size_t *len)
{
    if (s->in_at) {
        memmove(s->in, s->in + s->in_at, s->in_n - s->in_at);
        s->in_n -= s->in_at;
        s->in_at = 0;
    }
    *len = SEAL_IN_SIZE - s->in_n;
    return s->in + s->in_n;
}

void madi_seal_received(madi_seal_t *s, size_t n)
{
    s->in_n += n;
}

bool madi_seal_empty(const madi_seal_t *s)
{
    return s->in_at == s->in_n;
}

int madi_seal_first_byte(const madi_seal_t *s)
{
    return madi_seal_empty(s) ? -1 : s->in[s->in_at];
}

const char *madi_seal_why(const madi_seal_t *s)
{
    return s->why;
}

size_t madi_seal_peek(madi_seal_t *s, bool *broken)
{
    const unsigned char *head = s->in + s->in_at;
    size_t there = s->in_n - s->in_at, body;
    *broken = false;
    if (there < SEAL_HEAD)
        return 0;
    body = (size_t)(head[3] << 8 | head[4]);
    if (MADI_UNLIKELY(head[0] != SEAL_DATA || head[1] != 3 || head[2] != 3 || body < 2 + SEAL_TAG ||
                      body > MADI_SEAL_TEXT + 1 + SEAL_TAG)) {
        snprintf(s->why, sizeof s->why, "what came is no sealed record (type %u, %zu bytes): it was changed on the way",
                 head[0], body);
        *broken = true;
        return 0;
    }
    return there < SEAL_HEAD + body ? 0 : body - 1 - SEAL_TAG;
}

/* Decrypt len bytes of payload into `to`, and the type.  Return false if the record is not genuine. */
static bool record_open(madi_seal_t *s, const unsigned char *head, size_t len, unsigned char *to, unsigned char *type)
{
    const struct iovec text[2] = {{to, len}, {type, 1}};
    const unsigned char *from = head + SEAL_HEAD;
    unsigned char nonce[SEAL_IV];
    const madi_aead_about_t about = record_next(&s->rx, head, nonce);
    return madi_aead_open(s->rx.aead, &about, from, text, 2, from + len + 1);
}

static madi_seal_next_t alert_take(madi_seal_t *s, const unsigned char *alert, size_t len)
{
    if (len == 2 && alert[1] == CLOSE_NOTIFY)
        return MADI_SEAL_ENDED;
    snprintf(s->why, sizeof s->why, "the peer has ended the sealed connection: %s",
             len == 2 ? SSL_alert_desc_string_long(alert[1]) : "for a reason that is none");
    return MADI_SEAL_BROKEN;
}

static madi_seal_next_t update_take(madi_seal_t *s, const unsigned char *message, size_t len)
{
    static const unsigned char head[4] = {SEAL_KEY_UPDATE, 0, 0, 1};
    if (len != 5 || memcmp(message, head, sizeof head) != 0 || message[4] > 1 || !dir_update(s->ctx, &s->rx)) {
        snprintf(s->why, sizeof s->why, "a message of TLS came that no Madeleine sends (type %u, %zu bytes)", message[0],
                 len);
        return MADI_SEAL_BROKEN;
    }
    if (message[4])
        atomic_store_explicit(&s->update_wanted, true, memory_order_relaxed);
    return MADI_SEAL_OTHER;
}

madi_seal_next_t madi_seal_open(madi_seal_t *s, void *to, size_t *len)
{
    unsigned char *head = s->in + s->in_at, *text = to, type;
    size_t n = (size_t)(head[3] << 8 | head[4]) - 1 - SEAL_TAG;
    uint64_t number = s->rx.seq;
    if (!record_open(s, head, n, text, &type)) {
        snprintf(s->why, sizeof s->why,
                 "record %llu is not as the peer sent it: changed, repeated, left out or in another order on the way",
                 (unsigned long long)number);
        return MADI_SEAL_BROKEN;
    }
    s->in_at += SEAL_HEAD + n + 1 + SEAL_TAG;
    if (s->in_at == s->in_n)
        s->in_at = s->in_n = 0;
    while (MADI_UNLIKELY(!type) && n) /* skip padding */
        type = text[--n];
    *len = n;
    if (MADI_LIKELY(type == SEAL_DATA && n))
        return MADI_SEAL_PAYLOAD;
    if (type == SEAL_ALERT)
        return alert_take(s, text, n);
    if (type == SEAL_HANDSHAKE && n)
        return update_take(s, text, n);
    snprintf(s->why, sizeof s->why, "a record of TLS came that no Madeleine sends (type %u, %zu bytes)", type, n);
    return MADI_SEAL_BROKEN;
}
