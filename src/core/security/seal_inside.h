/* SPDX-License-Identifier: BSD-3-Clause */
/* Definitions shared by seal.c and seal_record.c; other files use seal.h.  Private to src/core/security. */
#ifndef MADI_SEAL_INSIDE_H
#define MADI_SEAL_INSIDE_H

#include "core/security/aead.h"
#include "core/driver.h"
#include "core/security/seal.h"
#include <openssl/evp.h>
#include <openssl/ssl.h>

#define SEAL_HASH_MAX 48
#define SEAL_HEAD 5
#define SEAL_TAG MADI_AEAD_TAG
#define SEAL_IV MADI_AEAD_IV
#define SEAL_IN_SIZE ((size_t)256 << 10) /* bytes: size of the receive buffer, which takes many records in one system call */
#define SEAL_OUT_SIZE (MADI_SEAL_BATCH + 2048)
#define SEAL_RECORD_MAX (MADI_SEAL_TEXT + 256) /* greatest length that the header of an encrypted record may contain */

#define SEAL_KEY_UPDATE 24 /* type of the message KeyUpdate of TLS */

enum { SEAL_ALERT = 21, SEAL_HANDSHAKE = 22, SEAL_DATA = 23 }; /* types of records */

typedef struct seal_suite {
    const char *name, *cipher, *hash;
    size_t key_len, hash_len;
    unsigned char id[2]; /* the cipher's number in TLS */
} seal_suite_t;

struct madi_seal_ctx {
    atomic_int users; /* number of users: the session, and each connection */
    const seal_suite_t *suite;
    SSL_CTX *client, *server;
    EVP_CIPHER *cipher;
    EVP_MD *hash;
    bool certified;           /* true if both ends authenticate by certificates, not by the job's key */
    bool kernel;              /* the kernel can make records (seal_kernel.c) */
    const unsigned char *key; /* the key from which the PSK follows */
};

/* State of one direction. */
typedef struct seal_dir {
    madi_aead_t *aead;
    unsigned char secret[SEAL_HASH_MAX], iv[SEAL_IV];
    uint64_t seq;     /* number of records made or opened under this key */
    uint64_t updates; /* number of key updates */
} seal_dir_t;

struct madi_seal {
    madi_seal_ctx_t *ctx;
    SSL *ssl; /* OpenSSL's object during the handshake; then NULL */
    bool active, refused;
    unsigned char client_secret[SEAL_HASH_MAX], server_secret[SEAL_HASH_MAX];
    int secrets; /* number of the two secrets that are known */
    unsigned char binding[MADI_SEAL_BINDING];

    /* Fields for receiving. */
    seal_dir_t rx;
    unsigned char *in; /* SEAL_IN_SIZE bytes; in[in_at..in_n) was received and not used */
    size_t in_at, in_n;
    char why[MADI_REASON_MAX];

    /* Fields for sending. */
    seal_dir_t tx;
    unsigned char *out; /* SEAL_OUT_SIZE bytes for records; out[out_at..out_n) is not sent yet */
    size_t out_at, out_n;
    uint64_t rekey;            /* number of records after which the key is updated */
    atomic_bool update_wanted; /* true if the peer has requested an update of the key */
    bool ended;
    bool in_kernel;          /* the kernel makes the records */
    uint64_t kernel_records; /* upper bound of the records that the kernel has made under this key */
};

/* seal_record.c: begin to use the secrets of the handshake. */
bool madi_seal_keys_set(madi_seal_t *seal);
void madi_seal_keys_wipe(madi_seal_t *seal);
/* Derive the key of the sending direction into EVP_MAX_KEY_LENGTH bytes; advance to the next key.  False if out of
 * memory. */
bool madi_seal_tx_key(const madi_seal_t *seal, unsigned char *key);
bool madi_seal_tx_next(madi_seal_t *seal);
/* seal_kernel.c */
bool madi_seal_kernel_update(madi_seal_t *seal, int fd); /* send KeyUpdate, then give the kernel the next key */
/* Append a record of this type to the bytes that wait to be sent.  Return false if the record does not fit, or if encryption
 * fails. */
bool madi_seal_put_as(madi_seal_t *seal, unsigned char type, const void *bytes, size_t len);

#endif
