/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: which providers and domains of libfabric become adapters.
 *
 * Each provider is queried by its name, so that Madeleine's own one (mpi/ofi) is never called: it would open a session, which
 * would open this driver.  By default the providers that serve no other purpose than tests are left out, and those of which
 * a better one uses the same card.
 *
 * A provider that cannot be used, although it was requested, is listed as an adapter, too: ofi_open then gives the
 * reason, which the core shows in the log and in mad_info. */
#include "drivers/ofi/ofi.h"

#include "base/env.h"
#include "base/knob.h"
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROVIDERS_MAX 64

#define NOTHING "libfabric" /* name of the adapter that is listed if there is no usable one; opening it reports why */

/* Not used unless MAD_OFI_PROVIDERS or FI_PROVIDER names them: slower than others of the same networks. */
static const char *const slow[] = {"udp;ofi_rxd", "net", "net;ofi_rxm", OFI_SOCKETS, NULL};

/* Return the list of providers in FI_PROVIDER; "" if it has none, or if it lists providers to leave out ("^"). */
static const char *providers_of_libfabric(void)
{
    const char *list = madi_env("FI_PROVIDER");
    return list && *list != '^' ? list : "";
}

static bool provider_wanted(const char *provider)
{
    const char *list = madi_knob_text(MADI_KNOB_OFI_PROVIDERS);
    if (ofi_is_own(provider))
        return false;
    if (*list)
        return ofi_list_has(list, provider);
    for (int i = 0; slow[i]; i++)
        if (!strcmp(provider, slow[i]))
            return ofi_list_has(providers_of_libfabric(), provider);
    return true;
}

/* List what this provider offers, alone or under a layered one ("tcp;ofi_rxm" for tcp).  NULL: nothing; *error says why.
 * mr_mode: what the driver does for the provider's memory.  type FI_EP_UNSPEC: all that there is. */
static struct fi_info *provider_query(const ofi_lib_t *lib, const char *provider, enum fi_ep_type type, int mr_mode,
                                      int *error)
{
    struct fi_info *hints = lib->dupinfo(NULL), *infos = NULL;
    *error = -FI_ENOMEM;
    if (!hints)
        return NULL;
    hints->ep_attr->type = type;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = mr_mode;
    if (type == FI_EP_RDM) {
        hints->caps = FI_MSG | FI_RMA;
        hints->domain_attr->threading = FI_THREAD_DOMAIN;
        hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
        hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    }
    if (!strcmp(provider, OFI_SOCKETS)) /* the provider's own thread sleeps 10 ms while messages wait */
        hints->domain_attr->data_progress = hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->fabric_attr->prov_name = strdup(provider);
    if (hints->fabric_attr->prov_name)
        *error = lib->getinfo(OFI_LIB_VERSION, NULL, NULL, 0, hints, &infos);
    lib->freeinfo(hints);
    return *error ? NULL : infos;
}

/* Like provider_query, for what the driver can use.  Local memory is registered (FI_MR_LOCAL) only where it has to be. */
static struct fi_info *provider_infos(const ofi_lib_t *lib, const char *provider, int *error)
{
    struct fi_info *infos = provider_query(lib, provider, FI_EP_RDM, OFI_MEMORY_MODES, error);
    return infos ? infos : provider_query(lib, provider, FI_EP_RDM, OFI_MEMORY_MODES | FI_MR_LOCAL, error);
}

/* Return the reason why the driver cannot use this info.  NULL if the driver can use it: addresses fit, and the data of
 * completions have room for a tag. */
static const char *info_fault(const struct fi_info *i)
{
    if (!i->domain_attr->name || !i->fabric_attr->name)
        return "its domain or fabric has no name";
    if (i->ep_attr->max_msg_size < OFI_PACKET_MAX)
        return "its messages are shorter than a packet";
    if (i->domain_attr->cq_data_size < sizeof(uint64_t))
        return "its completions carry fewer than 8 bytes of data";
    return i->addr_format == FI_SOCKADDR_IN6 ? "its addresses are those of IPv6" : NULL;
}

/* Write why nothing of a provider can be used. */
static void provider_explain(const ofi_lib_t *lib, const char *provider, char *reason)
{
    int error, ignored;
    struct fi_info *infos = provider_infos(lib, provider, &error);
    struct fi_info *all =
        infos ? NULL : provider_query(lib, provider, FI_EP_UNSPEC, OFI_MEMORY_MODES | FI_MR_LOCAL, &ignored);
    bool rdm = false;
    for (struct fi_info *i = all; i; i = i->next)
        rdm |= i->ep_attr->type == FI_EP_RDM;
    if (ofi_is_own(provider))
        snprintf(reason, MADI_REASON_MAX, "provider %.40s is this library itself", provider);
    else if (infos)
        snprintf(reason, MADI_REASON_MAX, "provider %.40s cannot be used: %s", provider,
                 info_fault(infos) ? info_fault(infos) : "MAD_OFI_PROVIDERS leaves it out");
    else if (!all)
        snprintf(reason, MADI_REASON_MAX,
                 "libfabric offers no provider %.32s here: %.60s (see fi_info -l; FI_PROVIDER=%.32s)", provider,
                 lib->strerror(-error), madi_env("FI_PROVIDER") ? madi_env("FI_PROVIDER") : "");
    else if (!rdm)
        snprintf(reason, MADI_REASON_MAX, "provider %.40s has no reliable datagrams (FI_EP_RDM), nor a layer that adds them",
                 provider);
    else
        snprintf(reason, MADI_REASON_MAX,
                 "provider %.40s lacks what the driver needs: FI_MSG, FI_RMA, FI_ORDER_SAS, FI_THREAD_DOMAIN, FI_RM_ENABLED",
                 provider);
    lib->freeinfo(infos);
    lib->freeinfo(all);
}

/* Call each(info, arg) for what is offered and can be used, until it returns false. */
static void infos_each(const ofi_lib_t *lib, bool (*each)(struct fi_info *info, void *arg), void *arg)
{
    struct fi_info *all = NULL;
    const char *seen[PROVIDERS_MAX];
    int n = 0, ignored;
    bool go_on = true;
    if (lib->getinfo(OFI_LIB_VERSION, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &all))
        return;
    for (struct fi_info *p = all; p && go_on && n < PROVIDERS_MAX; p = p->next) {
        const char *provider = p->fabric_attr->prov_name;
        bool again = false;
        for (int i = 0; i < n && !again; i++)
            again = !strcmp(seen[i], provider);
        if (again || ofi_is_own(provider) || !strncmp(provider, "ofi_", 4))
            continue;
        seen[n++] = provider;
        struct fi_info *infos = provider_infos(lib, provider, &ignored);
        for (struct fi_info *i = infos; i && go_on; i = i->next)
            if (!info_fault(i) && provider_wanted(i->fabric_attr->prov_name))
                go_on = each(i, arg);
        lib->freeinfo(infos);
    }
    lib->freeinfo(all);
}

/* ---- Adapters -------------------------------------------------------------------------------------------------------------- */

typedef struct ofi_listed {
    char adapter[MADI_NAME_MAX], provider[MADI_NAME_MAX];
} ofi_listed_t;
typedef struct ofi_listing {
    const madi_driver_t *driver;
    struct mad_session *session;
    ofi_listed_t *listed;
    int n;
    mad_status_t status;
} ofi_listing_t;

static bool adapter_list(ofi_listing_t *listing, const char *name, const char *provider)
{
    for (int i = 0; i < listing->n; i++)
        if (!strcmp(listing->listed[i].adapter, name))
            return true;
    ofi_listed_t *p = realloc(listing->listed, (size_t)(listing->n + 1) * sizeof *p);
    listing->listed = p ? p : listing->listed;
    if (!p || !madi_adapter_found(listing->session, listing->driver, name)) {
        listing->status = MAD_ERR_NOMEM;
        return false;
    }
    p += listing->n++;
    snprintf(p->adapter, sizeof p->adapter, "%s", name);
    snprintf(p->provider, sizeof p->provider, "%s", provider);
    return true;
}

static bool info_list(struct fi_info *info, void *arg)
{
    char name[MADI_NAME_MAX];
    ofi_adapter_name(info->fabric_attr->prov_name, info->domain_attr->name, name);
    return adapter_list(arg, name, info->fabric_attr->prov_name);
}

/* List as adapters those providers that the user has named and that offer nothing usable. */
static void absent_list(ofi_listing_t *listing)
{
    const char *list = madi_knob_text(MADI_KNOB_OFI_PROVIDERS);
    list = *list ? list : providers_of_libfabric();
    for (size_t len; *list && !listing->status; list += len, list += strspn(list, ", ")) {
        char name[MADI_NAME_MAX];
        bool served = false;
        len = strcspn(list, ", ");
        snprintf(name, sizeof name, "%.*s", (int)len, list);
        for (int i = 0; i < listing->n && !served; i++)
            served = ofi_list_has(name, listing->listed[i].provider);
        if (len && !served)
            adapter_list(listing, name, "");
    }
    if (!listing->n && !listing->status)
        adapter_list(listing, NOTHING, "");
}

mad_status_t ofi_probe(const madi_driver_t *driver, struct mad_session *session)
{
    char reason[MADI_REASON_MAX];
    ofi_listing_t listing = {.driver = driver, .session = session};
    const ofi_lib_t *lib = ofi_lib_open(reason, sizeof reason);
    if (lib)
        infos_each(lib, info_list, &listing);
    if (lib && !listing.status)
        absent_list(&listing);
    if (!lib)
        adapter_list(&listing, NOTHING, "");
    free(listing.listed);
    return listing.status;
}

typedef struct ofi_search {
    const ofi_lib_t *lib;
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
    search->found = search->lib->dupinfo(info);
    return false;
}

struct fi_info *ofi_info_find(const ofi_lib_t *lib, const char *name, char *reason)
{
    ofi_search_t search = {.lib = lib, .name = name};
    infos_each(lib, info_compare, &search);
    if (search.found)
        return search.found;
    if (strchr(name, ':'))
        snprintf(reason, MADI_REASON_MAX, "libfabric does not offer %s any more", name);
    else if (!strcmp(name, NOTHING))
        snprintf(reason, MADI_REASON_MAX, "it offers no provider that the driver can use (see fi_info -l)");
    else
        provider_explain(lib, name, reason);
    return NULL;
}
