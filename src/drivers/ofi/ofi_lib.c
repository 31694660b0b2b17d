/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/ofi/ofi_lib.h"

#include "drivers/fabric/handlers.h"
#include <stdio.h>

#define LIBRARY "libfabric.so.1"

/* Have libfabric load its providers, which it does once. */
static void providers_load(const ofi_lib_t *lib)
{
    struct fi_info *all = NULL;
    if (!lib->getinfo(OFI_LIB_VERSION, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &all))
        lib->freeinfo(all);
}

static bool library_open(void *arg, char *reason, size_t size)
{
    ofi_lib_t *lib = arg;
    const fabric_symbol_t symbols[] = {
        {"fi_getinfo", &lib->getinfo}, {"fi_freeinfo", &lib->freeinfo}, {"fi_dupinfo", &lib->dupinfo},
        {"fi_fabric", &lib->fabric},   {"fi_strerror", &lib->strerror}, {"fi_version", &lib->version},
    };
    if (!fabric_library_open(LIBRARY, symbols, sizeof symbols / sizeof *symbols, "install libfabric 1.17 or later", reason,
                             size))
        return false;
    if (lib->version() < OFI_LIB_VERSION) {
        snprintf(reason, size, "libfabric is older than 1.17: install a later one");
        return false;
    }
    providers_load(lib);
    return true;
}

/* The library and its providers (psm, shm) install handlers of signals. */
const ofi_lib_t *ofi_lib_open(char *reason, size_t size)
{
    static fabric_library_t library = FABRIC_LIBRARY;
    static ofi_lib_t lib;
    return fabric_library_use(&library, library_open, &lib, reason, size) ? &lib : NULL;
}
