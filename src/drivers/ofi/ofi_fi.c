/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/ofi/ofi_fi.h"
#include "base/static_mutex.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

#define LIBRARY "libfabric.so.1"

static bool symbols_find(void *library, ofi_fi_t *fi)
{
    *(void **)&fi->getinfo = dlsym(library, "fi_getinfo");
    *(void **)&fi->freeinfo = dlsym(library, "fi_freeinfo");
    *(void **)&fi->dupinfo = dlsym(library, "fi_dupinfo");
    *(void **)&fi->fabric = dlsym(library, "fi_fabric");
    *(void **)&fi->strerror = dlsym(library, "fi_strerror");
    *(void **)&fi->version = dlsym(library, "fi_version");
    return fi->getinfo && fi->freeinfo && fi->dupinfo && fi->fabric && fi->strerror && fi->version;
}

/* Have libfabric load its providers, which it does once. */
static void providers_load(const ofi_fi_t *fi)
{
    struct fi_info *all = NULL;
    if (!fi->getinfo(OFI_FI_VERSION, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &all))
        fi->freeinfo(all);
}

static bool library_open(ofi_fi_t *fi, char *reason, size_t size)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        snprintf(reason, size, "%s; install libfabric 1.17 or later", dlerror());
        return false;
    }
    if (!symbols_find(library, fi) || fi->version() < OFI_FI_VERSION) {
        snprintf(reason, size, "libfabric is older than 1.17: install a later one");
        return false;
    }
    providers_load(fi);
    return true;
}

/* The library and its providers (psm, shm) install handlers of signals, but signals belong to the program: afterwards
 * its handlers are put back. */
const ofi_fi_t *ofi_fi_open(char *reason, size_t size)
{
    static madi_static_mutex_t mutex = MADI_STATIC_MUTEX;
    static ofi_fi_t fi;
    static bool is_open;
    madi_static_mutex_lock(&mutex);
    if (!is_open) {
        struct sigaction before[NSIG];
        for (int i = 1; i < NSIG; i++)
            sigaction(i, NULL, &before[i]);
        is_open = library_open(&fi, reason, size);
        for (int i = 1; i < NSIG; i++)
            if (i != SIGKILL && i != SIGSTOP)
                sigaction(i, &before[i], NULL);
    }
    madi_static_mutex_unlock(&mutex);
    return is_open ? &fi : NULL;
}
