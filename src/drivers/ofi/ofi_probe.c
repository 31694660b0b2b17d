/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: which providers and domains of libfabric become adapters.
 *
 * Each provider is queried by its name, so that Madeleine's own one (mpi/ofi) is never called: it would open a session, which
 * would open this driver.  By default the providers that serve no other purpose than tests are left out, and those of which
 * a better one uses the same card. */
#include "drivers/ofi/ofi.h"

#include "base/knob.h"
#include "base/log.h"
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROVIDERS_MAX 64

/* Not used unless MAD_OFI_PROVIDERS names them: slower than others of the same networks. */
static const char *const slow[] = {"sockets", "udp;ofi_rxd", "net", "net;ofi_rxm", NULL};

static bool provider_wanted(const char *provider)
{
    const char *list = madi_knob_text(MADI_KNOB_OFI_PROVIDERS);
    if (ofi_is_own(provider))
        return false;
    if (*list)
        return ofi_list_has(list, provider);
    for (int i = 0; slow[i]; i++)
        if (!strcmp(provider, slow[i]))
            return false;
    return true;
}

/* List what this provider offers, alone or under a layered one ("tcp;ofi_rxm" for tcp); NULL: nothing. */
static struct fi_info *provider_infos(const ofi_fi_t *fi, const char *provider)
{
    struct fi_info *hints = fi->dupinfo(NULL), *infos = NULL;
    if (!hints)
        return NULL;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(provider);
    if (!hints->fabric_attr->prov_name || fi->getinfo(OFI_FI_VERSION, NULL, NULL, 0, hints, &infos))
        infos = NULL;
    fi->freeinfo(hints);
    return infos;
}

/* True if the driver can use what is offered: the address fits, and a tag fits into the data of its completions. */
static bool info_usable(const struct fi_info *i)
{
    if (!i->domain_attr->name || !i->fabric_attr->name || !provider_wanted(i->fabric_attr->prov_name))
        return false;
    if (i->ep_attr->max_msg_size < OFI_PACKET_MAX)
        return false;
    return i->addr_format != FI_SOCKADDR_IN6 && i->domain_attr->cq_data_size >= sizeof(uint64_t);
}

/* Call each(info, arg) for what is offered, until it returns false. */
static void infos_each(const ofi_fi_t *fi, bool (*each)(struct fi_info *info, void *arg), void *arg)
{
    struct fi_info *all = NULL;
    const char *seen[PROVIDERS_MAX];
    int n = 0;
    bool go_on = true;
    if (fi->getinfo(OFI_FI_VERSION, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &all))
        return;
    for (struct fi_info *p = all; p && go_on && n < PROVIDERS_MAX; p = p->next) {
        const char *provider = p->fabric_attr->prov_name;
        bool again = false;
        for (int i = 0; i < n && !again; i++)
            again = !strcmp(seen[i], provider);
        if (again || ofi_is_own(provider) || !strncmp(provider, "ofi_", 4))
            continue;
        seen[n++] = provider;
        struct fi_info *infos = provider_infos(fi, provider);
        for (struct fi_info *i = infos; i && go_on; i = i->next)
            if (info_usable(i))
                go_on = each(i, arg);
        fi->freeinfo(infos);
    }
    fi->freeinfo(all);
}

typedef struct ofi_listing {
    const madi_driver_t *driver;
    struct mad_session *session;
    char (*names)[MADI_NAME_MAX]; /* of the adapters that were listed */
    int n;
    mad_status_t status;
} ofi_listing_t;

static bool info_list(struct fi_info *info, void *arg)
{
    ofi_listing_t *listing = arg;
    char name[MADI_NAME_MAX];
    ofi_adapter_name(info->fabric_attr->prov_name, info->domain_attr->name, name);
    for (int i = 0; i < listing->n; i++)
        if (!strcmp(listing->names[i], name))
            return true;
    void *p = realloc(listing->names, (size_t)(listing->n + 1) * sizeof *listing->names);
    if (!p || !madi_adapter_found(listing->session, listing->driver, name)) {
        listing->names = p ? p : listing->names;
        listing->status = MAD_ERR_NOMEM;
        return false;
    }
    listing->names = p;
    memcpy(listing->names[listing->n++], name, sizeof name);
    return true;
}

mad_status_t ofi_probe(const madi_driver_t *driver, struct mad_session *session)
{
    char reason[MADI_REASON_MAX];
    ofi_listing_t listing = {.driver = driver, .session = session};
    const ofi_fi_t *fi = ofi_fi_open(reason, sizeof reason);
    if (!fi) {
        madi_log(MADI_LOG_WARN, "ofi", "%s", reason);
        return MAD_OK;
    }
    infos_each(fi, info_list, &listing);
    free(listing.names);
    if (!listing.n && !listing.status)
        madi_log(
            MADI_LOG_INFO, "ofi",
            "libfabric offers no provider that can be used (FI_PROVIDER=%s, MAD_OFI_PROVIDERS=%s); provider mad is this "
            "library itself, and is left out",
            getenv("FI_PROVIDER") ? getenv("FI_PROVIDER") : "", madi_knob_text(MADI_KNOB_OFI_PROVIDERS));
    return listing.status;
}

typedef struct ofi_search {
    const ofi_fi_t *fi;
    const char *name;
    struct fi_info *found;
} ofi_search_t;

static bool info_compare(struct fi_info *info, void *arg)
{
    ofi_search_t *search = arg;
    char name[MADI_NAME_MAX];
    ofi_adapter_name(info->fabric_attr->prov_name, info->domain_attr->name, name);
    if (strcmp(name, search->name) != 0)
        return true;
    search->found = search->fi->dupinfo(info);
    return false;
}

struct fi_info *ofi_info_find(const ofi_fi_t *fi, const char *name, char *reason)
{
    ofi_search_t search = {.fi = fi, .name = name};
    infos_each(fi, info_compare, &search);
    if (!search.found)
        snprintf(reason, MADI_REASON_MAX, "libfabric does not offer %s any more", name);
    return search.found;
}
