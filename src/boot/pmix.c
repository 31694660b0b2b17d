/* SPDX-License-Identifier: BSD-3-Clause */
/* PMIx, as used by Open MPI's mpirun, prte and srun.  The PMIx library is loaded at run time, so one build works on
 * hosts with and without it.  Of PMIx's header, only declarations that need no linking are used. */
#include "boot/boot.h"

#ifdef HAVE_PMIX

#include "base/env.h"
#include "base/log.h"
#include "boot/jobname.h"

#include <dlfcn.h>
#include <pmix.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libpmix.so.2"

typedef struct pmix {
    madi_boot_t boot; /* must be first: the two types are cast into each other */
    pmix_proc_t self;
} pmix_t;

/* Entry points.  The library stays loaded until the process ends: its threads and handlers outlive PMIx_Finalize. */
static struct {
    pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t);
    pmix_status_t (*finalize)(const pmix_info_t *, size_t);
    pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *);
    pmix_status_t (*commit)(void);
    pmix_status_t (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t);
    pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **);
    const char *(*error_string)(pmix_status_t);
} lib;

static mad_status_t pmix_load(void)
{
    static const struct {
        const char *name;
        void *slot;
    } symbols[] = {
        {"PMIx_Init", &lib.init},
        {"PMIx_Finalize", &lib.finalize},
        {"PMIx_Put", &lib.put},
        {"PMIx_Commit", &lib.commit},
        {"PMIx_Fence", &lib.fence},
        {"PMIx_Get", &lib.get},
        {"PMIx_Error_string", &lib.error_string},
    };
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        madi_log(MADI_LOG_ERROR, "boot", "PMIX_NAMESPACE is set but %s cannot be loaded (%s): install PMIx's library",
                 LIBRARY, dlerror());
        return MAD_ERR_BOOT;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol) {
            madi_log(MADI_LOG_ERROR, "boot", "%s has no %s: install a newer PMIx", LIBRARY, symbols[i].name);
            dlclose(handle);
            return MAD_ERR_BOOT;
        }
        memcpy(symbols[i].slot, &symbol, sizeof(symbol));
    }
    return MAD_OK;
}

static mad_status_t pmix_failed(const char *call, pmix_status_t status)
{
    madi_log(MADI_LOG_ERROR, "boot", "%s: %s (%d)", call, lib.error_string(status), (int)status);
    return MAD_ERR_BOOT;
}

static void proc_of(const pmix_t *pmix, pmix_rank_t rank, pmix_proc_t *proc)
{
    *proc = pmix->self;
    proc->rank = rank;
}

static mad_status_t pmix_put(madi_boot_t *boot, const char *key, const char *value)
{
    pmix_value_t pv = {.type = PMIX_STRING};
    pmix_status_t status;
    (void)boot;
    if (strlen(key) >= MADI_BOOT_KEY_MAX || strlen(value) >= MADI_BOOT_VALUE_MAX)
        return MAD_ERR_INVAL;
    pv.data.string = strdup(value);
    if (!pv.data.string)
        return MAD_ERR_NOMEM;
    status = lib.put(PMIX_GLOBAL, key, &pv);
    explicit_bzero(pv.data.string, strlen(pv.data.string)); /* the value may be the job's key */
    free(pv.data.string);
    return status == PMIX_SUCCESS ? MAD_OK : pmix_failed("PMIx_Put", status);
}

static mad_status_t pmix_get(madi_boot_t *boot, int rank, const char *key, char *value, size_t len)
{
    pmix_t *pmix = (pmix_t *)boot;
    pmix_value_t *pv = NULL;
    pmix_proc_t proc;
    pmix_status_t pstatus;
    mad_status_t status = MAD_OK;

    if (rank < 0 || rank >= boot->size)
        return MAD_ERR_INVAL;
    proc_of(pmix, (pmix_rank_t)rank, &proc);
    pstatus = lib.get(&proc, key, NULL, 0, &pv);
    if (pstatus != PMIX_SUCCESS || !pv) {
        madi_log(MADI_LOG_ERROR, "boot", "rank %d has put no value '%s' before the last fence: %s", rank, key,
                 lib.error_string(pstatus));
        return MAD_ERR_BOOT;
    }
    if (pv->type != PMIX_STRING || !pv->data.string)
        status = MAD_ERR_BOOT;
    else if (strlen(pv->data.string) >= len)
        status = MAD_ERR_INVAL;
    else
        memcpy(value, pv->data.string, strlen(pv->data.string) + 1);
    if (pv->type == PMIX_STRING && pv->data.string) {
        explicit_bzero(pv->data.string, strlen(pv->data.string));
        free(pv->data.string);
    }
    free(pv);
    return status;
}

static mad_status_t pmix_fence(madi_boot_t *boot)
{
    pmix_t *pmix = (pmix_t *)boot;
    pmix_info_t collect;
    pmix_proc_t all;
    pmix_status_t status = lib.commit();
    if (status != PMIX_SUCCESS)
        return pmix_failed("PMIx_Commit", status);
    memset(&collect, 0, sizeof(collect));
    memcpy(collect.key, PMIX_COLLECT_DATA, sizeof(PMIX_COLLECT_DATA));
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    proc_of(pmix, PMIX_RANK_WILDCARD, &all);
    status = lib.fence(&all, 1, &collect, 1);
    return status == PMIX_SUCCESS ? MAD_OK : pmix_failed("PMIx_Fence", status);
}

static void pmix_fini(madi_boot_t *boot)
{
    pmix_status_t status = lib.finalize(NULL, 0);
    if (status != PMIX_SUCCESS)
        (void)pmix_failed("PMIx_Finalize", status);
    free(boot);
}

static const madi_boot_ops_t pmix_ops = {pmix_put, pmix_get, pmix_fence, NULL, pmix_fini};

/* Read a number about the job from the server; *number is 0 if there is none. */
static pmix_status_t job_number(const pmix_t *pmix, const char *key, int *number)
{
    pmix_value_t *pv = NULL;
    pmix_proc_t all;
    pmix_status_t status;
    proc_of(pmix, PMIX_RANK_WILDCARD, &all);
    status = lib.get(&all, key, NULL, 0, &pv);
    *number = status == PMIX_SUCCESS && pv && pv->type == PMIX_UINT32 ? (int)pv->data.uint32 : 0;
    free(pv);
    return status;
}

static mad_status_t read_size(pmix_t *pmix)
{
    pmix_status_t status = job_number(pmix, PMIX_JOB_SIZE, &pmix->boot.size);
    if (status != PMIX_SUCCESS)
        return pmix_failed("PMIx_Get of the job's size", status);
    job_number(pmix, PMIX_LOCAL_SIZE, &pmix->boot.local);
    if (pmix->boot.size > 0 && pmix->boot.rank < pmix->boot.size)
        return MAD_OK;
    madi_log(MADI_LOG_ERROR, "boot", "PMIx says rank %d of %d", pmix->boot.rank, pmix->boot.size);
    return MAD_ERR_BOOT;
}

mad_status_t madi_boot_pmix_join(madi_boot_t **boot)
{
    mad_status_t status;
    pmix_status_t pstatus;
    pmix_t *pmix;

    if (!madi_env("PMIX_NAMESPACE"))
        return MAD_ERR_AGAIN;
    status = pmix_load();
    if (status != MAD_OK)
        return status;
    pmix = calloc(1, sizeof(*pmix));
    if (!pmix)
        return MAD_ERR_NOMEM;
    pmix->boot.ops = &pmix_ops;
    pstatus = lib.init(&pmix->self, NULL, 0);
    if (pstatus != PMIX_SUCCESS) {
        madi_log(MADI_LOG_ERROR, "boot",
                 "PMIX_NAMESPACE is set but PMIx's server cannot be reached (PMIx_Init: %s): start under mpirun or prte, or "
                 "unset "
                 "PMIX_NAMESPACE to run alone",
                 lib.error_string(pstatus));
        status = MAD_ERR_BOOT;
        goto fail_init;
    }
    pmix->boot.rank = (int)pmix->self.rank;
    madi_boot_job_name(pmix->boot.job, sizeof(pmix->boot.job), pmix->self.nspace);
    status = read_size(pmix);
    if (status != MAD_OK)
        goto fail_size;
    *boot = &pmix->boot;
    return MAD_OK;

fail_size:
    lib.finalize(NULL, 0);
fail_init:
    free(pmix);
    return status;
}

#else

mad_status_t madi_boot_pmix_join(madi_boot_t **boot)
{
    (void)boot;
    return MAD_ERR_AGAIN;
}

#endif
