/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake of TLS 1.3, by OpenSSL over memory.  seal.h has the contract. */
#include "base/knob.h"
#include "core/security/seal_inside.h"
#include "core/security/secret.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PSK_LABEL "madeleine seal psk"
#define PSK_LEN 32
#define IDENTITY "madeleine 1" /* the key's identity on the wire, the same for all jobs */
#define BINDING_LABEL "EXPORTER-madeleine-binding"
#define CHAIN_MAX 32768 /* maximum number of bytes of a peer's certificates */

static const seal_suite_t suites[] = {
    {"TLS_AES_128_GCM_SHA256", "AES-128-GCM", "SHA2-256", 16, 32, {0x13, 0x01}},
    {"TLS_AES_256_GCM_SHA384", "AES-256-GCM", "SHA2-384", 32, 48, {0x13, 0x02}},
    {"TLS_CHACHA20_POLY1305_SHA256", "ChaCha20-Poly1305", "SHA2-256", 32, 32, {0x13, 0x03}},
};

/* ---- State shared by connections ---------------------------------------------------------------------------------- */

static const char *ssl_reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "no reason is given";
}

static const seal_suite_t *suite_find(char *reason)
{
    const char *name = madi_knob_text(MADI_KNOB_SEAL_CIPHER);
    for (size_t i = 0; i < MADI_COUNT(suites); i++)
        if (!strcmp(suites[i].name, name))
            return &suites[i];
    snprintf(reason, MADI_REASON_MAX, "MAD_SEAL_CIPHER='%.40s' is not valid: give %s, %s or %s", name, suites[0].name,
             suites[1].name, suites[2].name);
    return NULL;
}

/* Return the job's key as a TLS session that was agreed on elsewhere; NULL if out of memory. */
static SSL_SESSION *psk_session(SSL *ssl)
{
    const madi_seal_ctx_t *ctx = ((const madi_seal_t *)SSL_get_app_data(ssl))->ctx;
    SSL_SESSION *session = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, ctx->suite->id);
    unsigned char psk[PSK_LEN];
    bool done = session && cipher && madi_secret_derive(ctx->key, MADI_SEAL_KEY, PSK_LABEL, psk, sizeof psk) &&
                SSL_SESSION_set1_master_key(session, psk, sizeof psk) == 1 && SSL_SESSION_set_cipher(session, cipher) == 1 &&
                SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
    OPENSSL_cleanse(psk, sizeof psk);
    if (done)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int psk_use(SSL *ssl, const EVP_MD *hash, const unsigned char **id, size_t *len, SSL_SESSION **session)
{
    const madi_seal_ctx_t *ctx = ((const madi_seal_t *)SSL_get_app_data(ssl))->ctx;
    *session = NULL;
    *id = (const unsigned char *)IDENTITY;
    *len = strlen(IDENTITY);
    if (hash && !EVP_MD_is_a(hash, ctx->suite->hash))
        return 1; /* the PSK is for another hash, so this callback offers no PSK */
    return (*session = psk_session(ssl)) != NULL;
}

static int psk_find(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **session)
{
    *session = NULL;
    if (len != strlen(IDENTITY) || memcmp(id, IDENTITY, len) != 0)
        return 1; /* no peer has this name */
    return (*session = psk_session(ssl)) != NULL;
}

/* Take the traffic secrets from OpenSSL: "LABEL RANDOM SECRET", both in hexadecimal digits. */
static void secret_take(const SSL *ssl, const char *line)
{
    static const char client[] = "CLIENT_TRAFFIC_SECRET_0 ", server[] = "SERVER_TRAFFIC_SECRET_0 ";
    madi_seal_t *s = SSL_get_app_data(ssl);
    unsigned char *to;
    const char *digits = strrchr(line, ' ');
    unsigned byte;
    if (!strncmp(line, client, strlen(client)))
        to = s->client_secret;
    else if (!strncmp(line, server, strlen(server)))
        to = s->server_secret;
    else
        return;
    for (size_t i = 0; i < s->ctx->suite->hash_len; i++) {
        if (!digits || sscanf(digits + 1 + 2 * i, "%2x", &byte) != 1)
            return;
        to[i] = (unsigned char)byte;
    }
    s->secrets++;
}

/* Load the certificates that the knobs name, if any.  If certificates are loaded, both ends have to show a certificate of
 * the authority.  False sets reason. */
static bool certificates_load(madi_seal_ctx_t *ctx, SSL_CTX *ssl, char *reason)
{
    const char *certificate = madi_knob_text(MADI_KNOB_SEAL_CERTIFICATE), *key = madi_knob_text(MADI_KNOB_SEAL_PRIVATE_KEY),
               *authority = madi_knob_text(MADI_KNOB_SEAL_AUTHORITY), *what = NULL;
    ctx->certified = *certificate || *key || *authority;
    if (!ctx->certified)
        return true;
    if (!*certificate || !*key || !*authority) {
        snprintf(reason, MADI_REASON_MAX,
                 "certificates need MAD_SEAL_CERTIFICATE, MAD_SEAL_PRIVATE_KEY and MAD_SEAL_AUTHORITY, all three");
        return false;
    }
    if (SSL_CTX_use_certificate_chain_file(ssl, certificate) != 1)
        what = certificate;
    else if (SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ssl) != 1)
        what = key;
    else if (SSL_CTX_load_verify_locations(ssl, authority, NULL) != 1)
        what = authority;
    if (what) {
        snprintf(reason, MADI_REASON_MAX, "%.90s cannot be used: %s", what, ssl_reason());
        return false;
    }
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_max_cert_list(ssl, CHAIN_MAX);
    return true;
}

/* Make the settings of one side: TLS 1.3 and one cipher, nothing to negotiate, nothing to resume.  NULL sets reason. */
static SSL_CTX *side_new(madi_seal_ctx_t *ctx, const SSL_METHOD *method, char *reason)
{
    SSL_CTX *ssl = SSL_CTX_new(method);
    if (ssl && SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 && SSL_CTX_set_ciphersuites(ssl, ctx->suite->name) == 1 &&
        SSL_CTX_set1_groups_list(ssl, "X25519:P-256") == 1 && SSL_CTX_set_num_tickets(ssl, 0) == 1) {
        if (!certificates_load(ctx, ssl, reason)) {
            SSL_CTX_free(ssl);
            return NULL;
        }
        SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
        SSL_CTX_clear_options(ssl, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
        SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_keylog_callback(ssl, secret_take);
        return ssl;
    }
    snprintf(reason, MADI_REASON_MAX, "OpenSSL has no TLS 1.3 with %s here: %s", ctx->suite->name, ssl_reason());
    SSL_CTX_free(ssl);
    return NULL;
}

madi_seal_ctx_t *madi_seal_ctx_new(char *reason)
{
    madi_seal_ctx_t *ctx = calloc(1, sizeof *ctx);
    if (!ctx) {
        snprintf(reason, MADI_REASON_MAX, "no memory for the settings of TLS");
        return NULL;
    }
    ERR_clear_error();
    atomic_init(&ctx->users, 1);
    ctx->suite = suite_find(reason);
    if (!ctx->suite)
        goto fail;
    ctx->cipher = EVP_CIPHER_fetch(NULL, ctx->suite->cipher, NULL);
    ctx->hash = EVP_MD_fetch(NULL, ctx->suite->hash, NULL);
    if (!ctx->cipher || !ctx->hash) {
        snprintf(reason, MADI_REASON_MAX, "OpenSSL has no %s here: %s", ctx->suite->cipher, ssl_reason());
        goto fail;
    }
    ctx->client = side_new(ctx, TLS_client_method(), reason);
    ctx->server = ctx->client ? side_new(ctx, TLS_server_method(), reason) : NULL;
    if (!ctx->server)
        goto fail;
    if (!ctx->certified) {
        SSL_CTX_set_psk_use_session_callback(ctx->client, psk_use);
        SSL_CTX_set_psk_find_session_callback(ctx->server, psk_find);
    }
    return ctx;
fail:
    ERR_clear_error();
    madi_seal_ctx_free(ctx);
    return NULL;
}

void madi_seal_ctx_free(madi_seal_ctx_t *ctx)
{
    if (!ctx || atomic_fetch_sub_explicit(&ctx->users, 1, memory_order_acq_rel) > 1)
        return;
    SSL_CTX_free(ctx->client);
    SSL_CTX_free(ctx->server);
    EVP_CIPHER_free(ctx->cipher);
    EVP_MD_free(ctx->hash);
    free(ctx);
}

void madi_seal_key_set(madi_seal_ctx_t *ctx, const unsigned char *key)
{
    ctx->key = key;
}

void madi_seal_ctx_text(const madi_seal_ctx_t *ctx, char *text, size_t len)
{
    snprintf(text, len, "TLS 1.3, %s, %s%s", ctx->suite->name, ctx->certified ? "certificates" : "the job's key",
             ctx->kernel ? ", sent by the kernel" : "");
}

/* ---- Connections -------------------------------------------------------------------------------------------------- */

madi_seal_t *madi_seal_new(madi_seal_ctx_t *ctx, bool active)
{
    madi_seal_t *s = calloc(1, sizeof *s);
    BIO *in = NULL, *out = NULL;
    if (!s)
        return NULL;
    atomic_fetch_add_explicit(&ctx->users, 1, memory_order_relaxed);
    s->ctx = ctx;
    s->active = active;
    s->rekey = MADI_SEAL_REKEY;
    /* These buffers take address space, but no memory until they are used. */
    s->in = malloc(SEAL_IN_SIZE);
    s->out = malloc(SEAL_OUT_SIZE);
    s->ssl = SSL_new(active ? ctx->client : ctx->server);
    in = BIO_new(BIO_s_mem());
    out = BIO_new(BIO_s_mem());
    if (!s->in || !s->out || !s->ssl || !in || !out) {
        BIO_free(in);
        BIO_free(out);
        madi_seal_free(s);
        return NULL;
    }
    SSL_set_bio(s->ssl, in, out); /* the SSL object takes ownership of both BIOs */
    SSL_set_app_data(s->ssl, s);
    if (active)
        SSL_set_connect_state(s->ssl);
    else
        SSL_set_accept_state(s->ssl);
    return s;
}

void madi_seal_free(madi_seal_t *s)
{
    if (!s)
        return;
    SSL_free(s->ssl);
    madi_seal_keys_wipe(s);
    OPENSSL_cleanse(s->binding, sizeof s->binding);
    free(s->in);
    free(s->out);
    madi_seal_ctx_free(s->ctx);
    free(s);
}

const unsigned char *madi_seal_binding(const madi_seal_t *s)
{
    return s->binding;
}

/* ---- The handshake ------------------------------------------------------------------------------------------------ */

/* Move the bytes that OpenSSL wants to send to s->out.  Return false if there are too many bytes. */
static bool shake_collect(madi_seal_t *s)
{
    char *data;
    long n = BIO_get_mem_data(SSL_get_wbio(s->ssl), &data);
    if (n < 0 || (size_t)n > SEAL_OUT_SIZE - s->out_n)
        return false;
    if (n) /* with n 0 the pointer may be NULL */
        memcpy(s->out + s->out_n, data, (size_t)n);
    s->out_n += (size_t)n;
    BIO_reset(SSL_get_wbio(s->ssl));
    return true;
}

/* Give OpenSSL the next complete record, and no more, because bytes behind the handshake are not for OpenSSL.  Return false
 * if no complete record has arrived.  *broken is set if the bytes that have arrived are not a record. */
static bool shake_feed(madi_seal_t *s, bool *broken)
{
    const unsigned char *head = s->in + s->in_at;
    size_t there = s->in_n - s->in_at, len;
    *broken = false;
    if (there < SEAL_HEAD)
        return false;
    len = SEAL_HEAD + (size_t)(head[3] << 8 | head[4]);
    *broken = head[1] != 3 || len > SEAL_HEAD + SEAL_RECORD_MAX;
    if (*broken || there < len || BIO_write(SSL_get_rbio(s->ssl), head, (int)len) != (int)len)
        return false;
    s->in_at += len;
    if (s->in_at == s->in_n)
        s->in_at = s->in_n = 0;
    return true;
}

/* Write why OpenSSL has failed, for the user who starts the job.  Return the status. */
static mad_status_t shake_explain(const madi_seal_t *s, char *reason)
{
    unsigned long error = ERR_peek_error();
    int code = ERR_GET_REASON(error);
    long verified = SSL_get_verify_result(s->ssl);
    if (code == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
        snprintf(reason, MADI_REASON_MAX, "the peer's certificate is not accepted (%s); see MAD_SEAL_AUTHORITY",
                 X509_verify_cert_error_string(verified));
        return MAD_ERR_AUTH;
    }
    if (code == SSL_R_BINDER_DOES_NOT_VERIFY || code == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        snprintf(reason, MADI_REASON_MAX,
                 "the caller %s, or its call was changed on the way: it belongs to another job, or somebody is in between",
                 s->ctx->certified ? "shows no certificate" : "does not hold the job's key");
        return MAD_ERR_AUTH;
    }
    if (code > SSL_AD_REASON_OFFSET) { /* an alert from the peer */
        snprintf(
            reason, MADI_REASON_MAX,
            "the peer ended the sealed handshake (%s): give both the same key, MAD_SEAL_CIPHER, and kind of certificates",
            SSL_alert_desc_string_long(code - SSL_AD_REASON_OFFSET));
        return MAD_ERR_AUTH;
    }
    if (code == SSL_R_NO_SHARED_CIPHER || code == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM ||
        code == SSL_R_NO_CERTIFICATE_SET) {
        snprintf(reason, MADI_REASON_MAX,
                 "the two ends have no cipher and key in common (%s): give both the same "
                 "MAD_SEAL_CIPHER, and certificates to both or none",
                 ssl_reason());
        return MAD_ERR_CONFIG;
    }
    snprintf(reason, MADI_REASON_MAX, "the handshake of TLS failed: %.100s",
             ERR_reason_error_string(error) ? ERR_reason_error_string(error) : "what came is not TLS");
    return MAD_ERR_PROTOCOL;
}

static madi_seal_state_t shake_failed(madi_seal_t *s, mad_status_t *status, char *reason)
{
    *status = shake_explain(s, reason);
    shake_collect(s); /* collect the alert for sending */
    ERR_clear_error();
    return MADI_SEAL_FAILED;
}

/* Finish the handshake: both ends have proved their key, and from now on the records are made here. */
static madi_seal_state_t shake_done(madi_seal_t *s, mad_status_t *status, char *reason)
{
    bool as_agreed = s->ctx->certified || SSL_session_reused(s->ssl);
    bool good = as_agreed && s->secrets == 2 && !SSL_has_pending(s->ssl) && BIO_ctrl_pending(SSL_get_rbio(s->ssl)) == 0 &&
                SSL_export_keying_material(s->ssl, s->binding, sizeof s->binding, BINDING_LABEL, strlen(BINDING_LABEL), NULL,
                                           0, 0) == 1 &&
                madi_seal_keys_set(s);
    SSL_free(s->ssl);
    s->ssl = NULL;
    ERR_clear_error();
    if (good)
        return MADI_SEAL_READY;
    *status = as_agreed ? MAD_ERR_PROTOCOL : MAD_ERR_CONFIG;
    snprintf(reason, MADI_REASON_MAX, "%s",
             as_agreed
                 ? "the handshake of TLS ended without its keys"
                 : "the peer shows a certificate, and the job's key is wanted here: give certificates to both or none");
    return MADI_SEAL_FAILED;
}

madi_seal_state_t madi_seal_shake(madi_seal_t *s, mad_status_t *status, char *reason)
{
    bool broken = false;
    int done;
    do {
        ERR_clear_error();
        done = SSL_do_handshake(s->ssl);
        if (done != 1 && SSL_get_error(s->ssl, done) != SSL_ERROR_WANT_READ)
            return shake_failed(s, status, reason);
        if (!shake_collect(s)) {
            snprintf(reason, MADI_REASON_MAX, "the handshake of TLS is too long: are there too many certificates?");
            *status = MAD_ERR_CONFIG;
            return MADI_SEAL_FAILED;
        }
        if (done == 1)
            return shake_done(s, status, reason);
    } while (shake_feed(s, &broken));
    if (!broken)
        return MADI_SEAL_SHAKING;
    *status = MAD_ERR_PROTOCOL;
    snprintf(reason, MADI_REASON_MAX, "what came is not TLS: something between answers in the peer's place");
    return MADI_SEAL_FAILED;
}
