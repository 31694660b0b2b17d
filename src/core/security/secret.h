/* SPDX-License-Identifier: BSD-3-Clause */
/* The secrets of a session, all derived by HKDF-SHA-256 (RFC 5869) from the job's key, which is not kept:
 *
 *   job's key --+--> rank key       proves a rank to a rank, also across gateways
 *               +--> gateway key    proves a gateway to anybody, and anybody to a gateway
 *
 * A gateway gets the gateway key and not the job's key, from which the rank key would follow.  Secrets lie in a page of
 * their own.  This page is in no core dump, in no child of fork, and not in swap if the limit on locked memory allows it. */
#ifndef MADI_SECRET_H
#define MADI_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#define MADI_SECRET_LEN 32

typedef enum madi_role { MADI_ROLE_RANK = 0, MADI_ROLE_GATEWAY = 1 } madi_role_t; /* the values travel between processes */

typedef struct madi_secrets {
    madi_role_t role;                        /* role of this process */
    unsigned char rank_key[MADI_SECRET_LEN]; /* zero in a gateway */
    unsigned char gateway_key[MADI_SECRET_LEN];
} madi_secrets_t;

/* Derive out_len bytes (at most 64) from key for the purpose that label names.  False if out of memory. */
bool madi_secret_derive(const void *key, size_t key_len, const char *label, unsigned char *out, size_t out_len);
/* Derive the key that the gateways of the job get.  False if out of memory. */
bool madi_secret_gateway(const void *job_key, size_t key_len, unsigned char out[MADI_SECRET_LEN]);

/* Make the secrets of a process from the job's key (a rank) or the gateway key, MADI_SECRET_LEN bytes (a gateway).
 * NULL if out of memory. */
madi_secrets_t *madi_secrets_open(madi_role_t role, const void *key, size_t key_len);
void madi_secrets_close(madi_secrets_t *secrets); /* wipes the secrets; NULL is fine */
/* Return the key by which this process and one of that role prove their roles to each other. */
const unsigned char *madi_secrets_key(const madi_secrets_t *secrets, madi_role_t peer);

#endif
