/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/security/secret.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool madi_secret_derive(const void *key, size_t key_len, const char *label, unsigned char *out, size_t out_len)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
    OSSL_PARAM params[] = {OSSL_PARAM_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
                           OSSL_PARAM_octet_string(OSSL_KDF_PARAM_KEY, (void *)key, key_len),
                           OSSL_PARAM_octet_string(OSSL_KDF_PARAM_INFO, (void *)label, strlen(label)), OSSL_PARAM_END};
    bool good = ctx && EVP_KDF_derive(ctx, out, out_len, params) == 1;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return good;
}

bool madi_secret_gateway(const void *job_key, size_t key_len, unsigned char out[MADI_SECRET_LEN])
{
    return madi_secret_derive(job_key, key_len, "madeleine gateway key", out, MADI_SECRET_LEN);
}

static size_t page_len(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Return a page that exists in this process's memory only; NULL if the kernel gives none. */
static void *page_new(void)
{
    void *page = mmap(NULL, page_len(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    madvise(page, page_len(), MADV_DONTDUMP);
    madvise(page, page_len(), MADV_WIPEONFORK);
    (void)!mlock(page, page_len()); /* the limit on locked memory may be 0: then the page can be swapped */
    return page;
}

/* Wipe the traces of derived keys: those on the stack below, which libcrypto has used, and those in the vector
 * registers with which memcpy has copied a key.  (The dynamic linker saves these registers on the stack when it looks
 * up a function.)  A copy of zeros of the same length overwrites the registers. */
static __attribute__((noinline)) void traces_wipe(void)
{
    static void *(*volatile const copy)(void *, const void *, size_t) = memcpy;
    static const unsigned char zeros[MADI_SECRET_LEN];
    unsigned char below[4096];
    copy(below, zeros, sizeof zeros);
    OPENSSL_cleanse(below, sizeof below);
}

static bool keys_make(madi_secrets_t *secrets, const void *key, size_t key_len)
{
    if (secrets->role == MADI_ROLE_RANK)
        return madi_secret_derive(key, key_len, "madeleine rank key", secrets->rank_key, MADI_SECRET_LEN) &&
               madi_secret_gateway(key, key_len, secrets->gateway_key);
    if (key_len != MADI_SECRET_LEN)
        return false;
    memcpy(secrets->gateway_key, key, key_len);
    return true;
}

madi_secrets_t *madi_secrets_open(madi_role_t role, const void *key, size_t key_len)
{
    madi_secrets_t *secrets = page_new();
    bool made;
    if (!secrets)
        return NULL;
    secrets->role = role;
    made = keys_make(secrets, key, key_len);
    traces_wipe();
    if (made)
        return secrets;
    madi_secrets_close(secrets);
    return NULL;
}

void madi_secrets_close(madi_secrets_t *secrets)
{
    if (!secrets)
        return;
    OPENSSL_cleanse(secrets, sizeof *secrets);
    munmap(secrets, page_len());
}

const unsigned char *madi_secrets_key(const madi_secrets_t *secrets, madi_role_t peer)
{
    bool ranks = secrets->role == MADI_ROLE_RANK && peer == MADI_ROLE_RANK;
    return ranks ? secrets->rank_key : secrets->gateway_key;
}
