/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: names of adapters and networks; pure functions. */
#include "drivers/ofi/ofi.h"

#include "base/host.h"
#include <stdio.h>
#include <string.h>

/* Write a provider's name as it is written in names and knobs: "tcp+rxm" for "tcp;ofi_rxm". */
static void provider_short(const char *provider, char *name, size_t size)
{
    size_t at = 0;
    while (*provider && at + 1 < size) {
        if (!strncmp(provider, ";ofi_", 5)) {
            name[at++] = '+';
            provider += 5;
        } else {
            name[at++] = *provider++;
        }
    }
    name[at] = 0;
}

void ofi_adapter_name(const char *provider, const char *domain, char *name)
{
    char text[MADI_NAME_MAX];
    provider_short(provider, text, sizeof text);
    snprintf(name, MADI_NAME_MAX, "%.23s:%.23s", text, domain);
}

void ofi_device_name(const struct fi_info *info, char *name)
{
    const struct fid_nic *nic = info->nic;
    const struct fi_pci_attr *pci =
        nic && nic->bus_attr && nic->bus_attr->bus_type == FI_BUS_PCI ? &nic->bus_attr->attr.pci : NULL;
    const char *device = nic && nic->device_attr ? nic->device_attr->name : NULL;
    if (pci)
        snprintf(name, MADI_NAME_MAX, "%04x:%02x:%02x.%01x", pci->domain_id, pci->bus_id, pci->device_id, pci->function_id);
    else
        snprintf(name, MADI_NAME_MAX, "%.47s", device ? device : info->domain_attr->name);
}

bool ofi_fabric_is_local(const char *provider, const char *fabric)
{
    return !strncmp(provider, "shm", 3) || !strncmp(fabric, "127.", 4) || !strncmp(fabric, "::1", 3);
}

void ofi_network_name(const char *provider, const char *fabric, const char *host, char *name)
{
    char text[MADI_NAME_MAX], rest[MADI_NAME_MAX];
    provider_short(provider, text, sizeof text);
    if (ofi_fabric_is_local(provider, fabric))
        snprintf(rest, sizeof rest, "%s", host);
    else
        snprintf(rest, sizeof rest, "%.47s", fabric);
    if (strlen(text) + 1 + strlen(rest) < MADI_NAME_MAX) {
        snprintf(name, MADI_NAME_MAX, "%.20s:%.26s", text, rest);
        if (strlen(text) <= 20 && strlen(rest) <= 26)
            return;
    }
    uint64_t hash = madi_hash(madi_hash(MADI_HASH_START, text, strlen(text)), fabric, strlen(fabric));
    hash = ofi_fabric_is_local(provider, fabric) ? madi_hash(hash, host, strlen(host)) : hash;
    snprintf(name, MADI_NAME_MAX, "%.20s:#%016llx", text, (unsigned long long)hash);
}

bool ofi_list_has(const char *list, const char *provider)
{
    char text[MADI_NAME_MAX];
    size_t core = strcspn(provider, ";");
    provider_short(provider, text, sizeof text);
    while (*list) {
        size_t len = strcspn(list, ", ");
        if (len && ((strlen(provider) == len && !memcmp(list, provider, len)) ||
                    (core == len && !memcmp(list, provider, len)) || (strlen(text) == len && !memcmp(list, text, len))))
            return true;
        list += len;
        list += strspn(list, ", ");
    }
    return false;
}

bool ofi_is_own(const char *provider)
{
    size_t len = strcspn(provider, ";");
    return len == 3 && !memcmp(provider, "mad", 3);
}
