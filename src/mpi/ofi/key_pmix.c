/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of the job, exchanged by PMIx: the first process makes it and puts it into the launcher's store, and the
 * others read it, as in the component for Open MPI (openmpi/key.c has the picture).  If the MPI library has loaded a
 * PMIx library, that library is used; the process is then already a PMIx client, and stays one. */
#include "key.h"
#include "ofi.h"

#ifdef HAVE_PMIX

#include <dlfcn.h>
#include <openssl/crypto.h>
#include <pmix.h>
#include <stdio.h>
#include <time.h>

#define LIBRARY "libpmix.so.2"
#define NAME "madeleine.fi.key"
#define FIRST "the first process of the job"
#define PARENT_WAIT 1            /* seconds; short, because a running job has already published its key */
#define RETRY (10 * 1000 * 1000) /* ns between two tries, if the first process has published other values before its key */

typedef struct key_pmix {
    pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t);
    pmix_status_t (*finalize)(const pmix_info_t *, size_t);
    pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *);
    pmix_status_t (*commit)(void);
    pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **);
    const char *(*error_string)(pmix_status_t);
    pmix_proc_t self;
} key_pmix_t;

/* Load the library.  The library stays loaded until the process ends, because its threads outlive PMIx_Finalize. */
static bool key_pmix_load(key_pmix_t *pmix)
{
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {{"PMIx_Init", &pmix->init}, {"PMIx_Finalize", &pmix->finalize},
                   {"PMIx_Put", &pmix->put},   {"PMIx_Commit", &pmix->commit},
                   {"PMIx_Get", &pmix->get},   {"PMIx_Error_string", &pmix->error_string}};
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; handle && i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol)
            return false;
        memcpy(symbols[i].slot, &symbol, sizeof symbol);
    }
    return handle != NULL;
}

static void pmix_key_put(key_pmix_t *pmix, const mad_mpi_key_t *key)
{
    char text[MAD_MPI_KEY_TEXT];
    pmix_value_t value = {.type = PMIX_STRING, .data.string = text};
    pmix_status_t status;
    mad_mpi_key_write(key, text);
    status = pmix->put(PMIX_GLOBAL, NAME, &value);
    if (status == PMIX_SUCCESS)
        status = pmix->commit();
    OPENSSL_cleanse(text, sizeof text);
    if (status != PMIX_SUCCESS)
        MAD_OFI_WARN(FABRIC, "PMIx takes no key (%s): other processes of the job will not reach this one\n",
                     pmix->error_string(status));
}

/* Try once to get the key of process `of`; wait for that process's first commit. */
static pmix_status_t pmix_key_try(key_pmix_t *pmix, const pmix_proc_t *of, int seconds, const char *source,
                                  mad_mpi_key_t *key)
{
    pmix_value_t *value = NULL;
    pmix_info_t timeout;
    pmix_status_t status;
    memset(&timeout, 0, sizeof timeout);
    memcpy(timeout.key, PMIX_TIMEOUT, sizeof PMIX_TIMEOUT);
    timeout.value.type = PMIX_INT;
    timeout.value.data.integer = seconds;
    status = pmix->get(of, NAME, &timeout, 1, &value);
    if (!value || value->type != PMIX_STRING || !value->data.string) {
        free(value);
        return status == PMIX_SUCCESS ? PMIX_ERR_BAD_PARAM : status;
    }
    if (status == PMIX_SUCCESS && !mad_mpi_key_read(key, value->data.string, source))
        status = PMIX_ERR_BAD_PARAM;
    OPENSSL_cleanse(value->data.string, strlen(value->data.string));
    free(value->data.string);
    free(value);
    return status;
}

static long pmix_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)t.tv_sec;
}

static bool pmix_key_get(key_pmix_t *pmix, mad_mpi_key_t *key)
{
    long end = pmix_now_s() + MAD_MPI_KEY_WAIT, left;
    pmix_proc_t first = pmix->self;
    pmix_status_t status = PMIX_ERR_TIMEOUT;
    first.rank = 0;
    while ((left = end - pmix_now_s()) > 0 &&
           (status = pmix_key_try(pmix, &first, (int)left, FIRST, key)) == PMIX_ERR_NOT_FOUND)
        nanosleep(&(struct timespec){0, RETRY}, NULL);
    if (status == PMIX_SUCCESS)
        return true;
    snprintf(
        key->why, sizeof key->why,
        "the first process of this job has put no key into PMIx within %d s (%s): perhaps it does not use the provider mad; "
        "set FI_MAD_KEY_FILE to a file that all processes share",
        MAD_MPI_KEY_WAIT, pmix->error_string(status));
    return false;
}

/* Get the key of the job that started this one, if that job has a key of this kind.  PMIx names the parent job; Open MPI
 * 4 names it at the beginning of a port. */
static bool pmix_key_of_parent(key_pmix_t *pmix, mad_mpi_key_t *key)
{
    const char *port = secure_getenv("OMPI_PARENT_PORT");
    pmix_proc_t first = {.rank = 0};
    pmix_value_t *value = NULL;
    if (pmix->get(&pmix->self, PMIX_PARENT_ID, NULL, 0, &value) == PMIX_SUCCESS && value && value->type == PMIX_PROC) {
        memcpy(first.nspace, value->data.proc->nspace, sizeof first.nspace);
        free(value->data.proc);
    } else if (port && strcspn(port, ".") < sizeof first.nspace) {
        memcpy(first.nspace, port, strcspn(port, "."));
    }
    free(value);
    return *first.nspace && strcmp(first.nspace, pmix->self.nspace) != 0 &&
           pmix_key_try(pmix, &first, PARENT_WAIT, "the job that started this one", key) == PMIX_SUCCESS;
}

static bool pmix_key_exchange(key_pmix_t *pmix, mad_mpi_key_t *key)
{
    if (pmix->self.rank != 0)
        return pmix_key_get(pmix, key);
    if (!pmix_key_of_parent(pmix, key) && !mad_mpi_key_make(key, "made by this process, the first of its job"))
        return false;
    pmix_key_put(pmix, key);
    return true;
}

int mad_ofi_key_pmix(mad_mpi_key_t *key)
{
    key_pmix_t pmix;
    pmix_status_t status;
    bool good;
    if (!secure_getenv("PMIX_NAMESPACE"))
        return 0;
    if (!key_pmix_load(&pmix)) {
        MAD_OFI_INFO(FABRIC, "a launcher speaks PMIx, but " LIBRARY " is not there: the key is taken from a file\n");
        return 0;
    }
    status = pmix.init(&pmix.self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        MAD_OFI_INFO(FABRIC, "PMIx's server does not answer (%s): the key is taken from a file\n",
                     pmix.error_string(status));
        return 0;
    }
    good = pmix_key_exchange(&pmix, key);
    pmix.finalize(NULL, 0); /* PMIx counts its users: the MPI library may have called PMIx_Init too */
    return good ? 1 : -1;
}

#else

int mad_ofi_key_pmix(mad_mpi_key_t *key)
{
    (void)key;
    return 0;
}

#endif
