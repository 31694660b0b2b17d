/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-GCM by intel-ipsec-mb (aead_fast.h).  Of the library's manager, only its pointers to functions are used.  The
 * functions have no state but the key and the context that they are given, so threads share the functions. */
#include "core/security/aead_fast.h"

#ifdef HAVE_IPSEC_MB

#include "base/log.h"

#include <cpuid.h>
#include <dlfcn.h>
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(number) #number
#define SONAME(major) "libIPSec_MB.so." TEXT(major)
#define LIBRARY SONAME(HAVE_IPSEC_MB) /* the library's name; configure has read the major version from its header */

typedef struct gcm {
    aes_gcm_pre_t key_expand;
    aes_gcm_enc_dec_t seal, open; /* functions for a text in one piece */
    aes_gcm_init_t begin;
    aes_gcm_enc_dec_update_t seal_more, open_more;
    aes_gcm_enc_dec_finalize_t seal_end, open_end;
} gcm_t;

struct madi_aead_fast {
    _Alignas(64) struct gcm_key_data key;
    struct gcm_context_data context; /* state of the text that is being processed */
    const gcm_t *gcm;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static gcm_t gcms[2]; /* functions for keys of 16 and of 32 bytes; NULL if not available */

static void gcms_take(const IMB_MGR *m)
{
    gcms[0] = (gcm_t){m->gcm128_pre,        m->gcm128_enc,        m->gcm128_dec,          m->gcm128_init,
                      m->gcm128_enc_update, m->gcm128_dec_update, m->gcm128_enc_finalize, m->gcm128_dec_finalize};
    gcms[1] = (gcm_t){m->gcm256_pre,        m->gcm256_enc,        m->gcm256_dec,          m->gcm256_init,
                      m->gcm256_enc_update, m->gcm256_dec_update, m->gcm256_enc_finalize, m->gcm256_dec_finalize};
}

/* Take the functions from the library.  Return NULL on success, or the reason of the failure. */
static const char *library_use(void *library)
{
    IMB_MGR *(*manager_new)(uint64_t) = NULL;
    void (*manager_init)(IMB_MGR *, IMB_ARCH *) = NULL, (*manager_free)(IMB_MGR *) = NULL;
    unsigned (*version)(void) = NULL;
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {{"alloc_mb_mgr", &manager_new},
                   {"init_mb_mgr_auto", &manager_init},
                   {"free_mb_mgr", &manager_free},
                   {"imb_get_version", &version}};
    IMB_MGR *manager;
    IMB_ARCH arch;
    bool good;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return "it lacks a function";
        memcpy(symbols[i].slot, &symbol, sizeof symbol);
    }
    if (version() < IMB_VERSION_NUM)
        return "it is older than the one that Madeleine was built with";
    if (!(manager = manager_new(0)))
        return "no memory";
    manager_init(manager, &arch);
    good = manager->features & IMB_FEATURE_VAES && manager->features & IMB_FEATURE_VPCLMULQDQ &&
           (!(manager->features & IMB_FEATURE_SELF_TEST) || manager->features & IMB_FEATURE_SELF_TEST_PASS);
    if (good)
        gcms_take(manager);
    manager_free(manager);
    return good ? NULL : "its self-test failed, or it does not know this processor";
}

/* True if processor and kernel have AES and carry-less multiplication for vectors of 512 bits.  (Older compilers, such
 * as clang 14, lack names of these features for __builtin_cpu_supports.) */
static bool processor_can(void)
{
    unsigned a, b, c = 0, d;
    return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & bit_VAES && c & bit_VPCLMULQDQ;
}

static void library_load(void)
{
    const char *why = NULL;
    void *library;
    if (!processor_can())
        return;
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        why = dlerror();
    else if ((why = library_use(library)) != NULL)
        dlclose(library);
    if (why)
        madi_log(MADI_LOG_INFO, "aead",
                 "intel-ipsec-mb is not used (%s): OpenSSL encrypts, at a quarter of the speed; install %s", why, LIBRARY);
}

madi_aead_fast_t *madi_aead_fast_new(size_t key_len)
{
    madi_aead_fast_t *fast;
    const gcm_t *gcm = &gcms[key_len == 32];
    pthread_once(&once, library_load);
    if ((key_len != 16 && key_len != 32) || !gcm->seal || !(fast = aligned_alloc(64, sizeof *fast)))
        return NULL;
    memset(fast, 0, sizeof *fast);
    fast->gcm = gcm;
    return fast;
}

void madi_aead_fast_free(madi_aead_fast_t *fast)
{
    if (fast)
        OPENSSL_cleanse(fast, sizeof *fast);
    free(fast);
}

void madi_aead_fast_key_set(madi_aead_fast_t *fast, const unsigned char *key)
{
    fast->gcm->key_expand(key, &fast->key);
}

void madi_aead_fast_seal(madi_aead_fast_t *fast, const madi_aead_about_t *about, const struct iovec *vec, int n,
                         unsigned char *out, unsigned char *tag)
{
    const gcm_t *gcm = fast->gcm;
    if (n == 1) {
        const unsigned char *from = vec->iov_len ? vec->iov_base : out; /* the library refuses NULL */
        gcm->seal(&fast->key, &fast->context, out, from, vec->iov_len, about->iv, about->also, about->also_len, tag,
                  MADI_AEAD_TAG);
        return;
    }
    gcm->begin(&fast->key, &fast->context, about->iv, about->also, about->also_len);
    for (int i = 0; i < n; out += vec[i++].iov_len)
        if (vec[i].iov_len)
            gcm->seal_more(&fast->key, &fast->context, out, vec[i].iov_base, vec[i].iov_len);
    gcm->seal_end(&fast->key, &fast->context, tag, MADI_AEAD_TAG);
}

void madi_aead_fast_open(madi_aead_fast_t *fast, const madi_aead_about_t *about, const unsigned char *from,
                         const struct iovec *vec, int n, unsigned char *tag)
{
    const gcm_t *gcm = fast->gcm;
    if (n == 1) {
        unsigned char none[1], *to = vec->iov_len ? vec->iov_base : none; /* the library refuses NULL */
        gcm->open(&fast->key, &fast->context, to, from, vec->iov_len, about->iv, about->also, about->also_len, tag,
                  MADI_AEAD_TAG);
        return;
    }
    gcm->begin(&fast->key, &fast->context, about->iv, about->also, about->also_len);
    for (int i = 0; i < n; from += vec[i++].iov_len)
        if (vec[i].iov_len)
            gcm->open_more(&fast->key, &fast->context, vec[i].iov_base, from, vec[i].iov_len);
    gcm->open_end(&fast->key, &fast->context, tag, MADI_AEAD_TAG);
}

#else /* built without intel-ipsec-mb */

madi_aead_fast_t *madi_aead_fast_new(size_t key_len)
{
    (void)key_len;
    return NULL;
}

void madi_aead_fast_free(madi_aead_fast_t *fast)
{
    (void)fast;
}

void madi_aead_fast_key_set(madi_aead_fast_t *fast, const unsigned char *key)
{
    (void)fast;
    (void)key;
}

void madi_aead_fast_seal(madi_aead_fast_t *fast, const madi_aead_about_t *about, const struct iovec *vec, int n,
                         unsigned char *out, unsigned char *tag)
{
    (void)fast, (void)about, (void)vec, (void)n, (void)out, (void)tag;
}

void madi_aead_fast_open(madi_aead_fast_t *fast, const madi_aead_about_t *about, const unsigned char *from,
                         const struct iovec *vec, int n, unsigned char *tag)
{
    (void)fast, (void)about, (void)from, (void)vec, (void)n, (void)tag;
}

#endif
