/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/ofi/ofi_fi.h"

#include "drivers/fabric/handlers.h"
#include <stdio.h>

#define LIBRARY "libfabric.so.1"

/* Have libfabric load its providers, which it does once. */
static void providers_load(const ofi_fi_t *fi)
{
    struct fi_info *all = NULL;
    if (!fi->getinfo(OFI_FI_VERSION, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &all))
        fi->freeinfo(all);
}

static bool library_open(void *arg, char *reason, size_t size)
{
    ofi_fi_t *fi = arg;
    const fabric_symbol_t symbols[] = {
        {"fi_getinfo", &fi->getinfo}, {"fi_freeinfo", &fi->freeinfo}, {"fi_dupinfo", &fi->dupinfo},
        {"fi_fabric", &fi->fabric},   {"fi_strerror", &fi->strerror}, {"fi_version", &fi->version},
    };
    if (!fabric_library_open(LIBRARY, symbols, sizeof symbols / sizeof *symbols, "install libfabric 1.17 or later", reason,
                             size))
        return false;
    if (fi->version() < OFI_FI_VERSION) {
        snprintf(reason, size, "libfabric is older than 1.17: install a later one");
        return false;
    }
    providers_load(fi);
    return true;
}

/* The library and its providers (psm, shm) install handlers of signals. */
const ofi_fi_t *ofi_fi_open(char *reason, size_t size)
{
    static fabric_library_t library = FABRIC_LIBRARY;
    static ofi_fi_t fi;
    return fabric_library_use(&library, library_open, &fi, reason, size) ? &fi : NULL;
}
