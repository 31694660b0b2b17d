/* SPDX-License-Identifier: BSD-3-Clause */
/* Address vectors: tables of the names of endpoints. */
#include "ofi.h"

#include <stdio.h>

static unsigned char *av_name_at(const mad_ofi_av_t *av, size_t at)
{
    return av->names + at * mad_ofi_name_len();
}

static bool av_name_good(const unsigned char *name)
{
    unsigned char address[MAD_OFI_ADDRESS_MAX];
    return mad_ofi_name_address(name, mad_ofi_name_len(), address) != 0;
}

static bool av_grow(mad_ofi_av_t *av, size_t more)
{
    size_t room = av->room ? av->room : 64;
    void *names;
    while (room < av->n + more)
        room *= 2;
    if (room == av->room)
        return true;
    names = realloc(av->names, room * mad_ofi_name_len());
    if (!names)
        return false;
    av->names = names;
    av->room = room;
    return true;
}

/* Return a free place: the place removed last, or a new one, for which there is already room.  ordered: use only new
 * places, because the caller counts them instead of reading the addresses. */
static size_t place_take(mad_ofi_av_t *av, bool ordered)
{
    return av->n_free && !ordered ? av->free[--av->n_free] : av->n++;
}

/* Free a place.  If the free place cannot be recorded, it is not used again. */
static void place_give(mad_ofi_av_t *av, size_t at)
{
    if (av->n_free == av->cap_free) {
        size_t cap = av->cap_free ? 2 * av->cap_free : 64, *grown = realloc(av->free, cap * sizeof *grown);
        if (!grown)
            return;
        av->free = grown;
        av->cap_free = cap;
    }
    av->free[av->n_free++] = at;
}

/* Write the name of the endpoint that a source address from fi_getinfo stands for: the only endpoint of this address
 * vector, if it is enabled. */
static bool own_name(const mad_ofi_av_t *av, const unsigned char *source, unsigned char name[MAD_OFI_NAME_MAX])
{
    const mad_ofi_ep_t *ep = av->eps;
    return ep && !ep->next && ep->dev && mad_ofi_name_is_any(source) && !mad_ofi_ep_name(ep, name);
}

/* Insert one name; return its place, or FI_ADDR_NOTAVAIL.  In a table every name gets a place, valid or not. */
static fi_addr_t name_insert(mad_ofi_av_t *av, const unsigned char *name, bool ordered, int *rc)
{
    unsigned char own[MAD_OFI_NAME_MAX];
    bool is_good;
    size_t at;
    if (own_name(av, name, own))
        name = own;
    is_good = av_name_good(name);
    if (!is_good && av->type != FI_AV_TABLE)
        return FI_ADDR_NOTAVAIL;
    at = place_take(av, ordered);
    if (is_good)
        memcpy(av_name_at(av, at), name, mad_ofi_name_len());
    else
        memset(av_name_at(av, at), 0, mad_ofi_name_len());
    for (mad_ofi_ep_t *ep = av->eps; ep; ep = ep->next)
        if (ep->dev && mad_ofi_ep_learn(ep, at, at + 1))
            *rc = -FI_ENOMEM;
    return is_good ? at : FI_ADDR_NOTAVAIL;
}

/* Insert names; return the number of valid ones.  Always synchronous, since it takes little time. */
static int av_insert(struct fid_av *fid, const void *names, size_t n, fi_addr_t *addresses, uint64_t flags, void *context)
{
    mad_ofi_av_t *av = FROM_FID(mad_ofi_av_t, fid);
    const unsigned char *name = names;
    int good = 0, rc = 0, *errors = flags & FI_SYNC_ERR ? context : NULL;
    if (flags & ~(uint64_t)(FI_MORE | FI_SYNC_ERR))
        return -FI_EINVAL;
    pthread_mutex_lock(&av->lock);
    if (!av_grow(av, n)) {
        pthread_mutex_unlock(&av->lock);
        return -FI_ENOMEM;
    }
    for (size_t i = 0; i < n; i++, name += mad_ofi_name_len()) {
        fi_addr_t at = name_insert(av, name, !addresses, &rc);
        if (addresses)
            addresses[i] = at;
        if (errors)
            errors[i] = at == FI_ADDR_NOTAVAIL ? FI_EINVAL : 0;
        good += at != FI_ADDR_NOTAVAIL;
    }
    pthread_mutex_unlock(&av->lock);
    return rc ? rc : good;
}

static int no_insertsvc(struct fid_av *av, const char *node, const char *service, fi_addr_t *address, uint64_t flags,
                        void *context)
{
    (void)av, (void)node, (void)service, (void)address, (void)flags, (void)context;
    return -FI_ENOSYS;
}

static int no_insertsym(struct fid_av *av, const char *node, size_t n_nodes, const char *service, size_t n_services,
                        fi_addr_t *addresses, uint64_t flags, void *context)
{
    (void)av, (void)node, (void)n_nodes, (void)service, (void)n_services, (void)addresses, (void)flags, (void)context;
    return -FI_ENOSYS;
}

static bool is_there(const mad_ofi_av_t *av, fi_addr_t address)
{
    return address < av->n && av_name_at(av, address)[0];
}

static int av_remove(struct fid_av *fid, fi_addr_t *addresses, size_t n, uint64_t flags)
{
    mad_ofi_av_t *av = FROM_FID(mad_ofi_av_t, fid);
    int rc = 0;
    if (flags)
        return -FI_EINVAL;
    pthread_mutex_lock(&av->lock);
    for (size_t i = 0; i < n; i++) {
        if (!is_there(av, addresses[i])) {
            rc = -FI_EINVAL;
            continue;
        }
        av_name_at(av, addresses[i])[0] = 0;
        for (mad_ofi_ep_t *ep = av->eps; ep; ep = ep->next)
            mad_ofi_ep_forget(ep, addresses[i]);
        place_give(av, addresses[i]);
    }
    pthread_mutex_unlock(&av->lock);
    return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t address, void *name, size_t *len)
{
    mad_ofi_av_t *av = FROM_FID(mad_ofi_av_t, fid);
    size_t name_len = mad_ofi_name_len();
    int rc = -FI_EINVAL;
    pthread_mutex_lock(&av->lock);
    if (is_there(av, address)) {
        memcpy(name, av_name_at(av, address), *len < name_len ? *len : name_len);
        *len = name_len;
        rc = 0;
    }
    pthread_mutex_unlock(&av->lock);
    return rc;
}

/* Write the identity of the process, which distinguishes names. */
static const char *av_straddr(struct fid_av *fid, const void *name, char *buf, size_t *len)
{
    const unsigned char *p = name;
    char text[64] = "mad://", *to = text + strlen(text);
    (void)fid;
    for (size_t i = 0; i < 16; i++)
        to += sprintf(to, "%02x", p[1 + i]);
    if (buf && *len)
        snprintf(buf, *len, "%s", text);
    *len = strlen(text) + 1;
    return buf;
}

static int no_av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set, void *context)
{
    (void)av, (void)attr, (void)set, (void)context;
    return -FI_ENOSYS;
}

static int av_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid;
    return other->fclass == FI_CLASS_EQ && !flags ? 0 : -FI_EINVAL;
}

static int av_close(struct fid *fid)
{
    mad_ofi_av_t *av = FROM_FID(mad_ofi_av_t, fid);
    if (atomic_load(&av->users))
        return -FI_EBUSY;
    atomic_fetch_sub(&av->domain->users, 1);
    pthread_mutex_destroy(&av->lock);
    free(av->names);
    free(av->free);
    free(av);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops), .close = av_close, .bind = av_bind, .control = mad_ofi_no_control, MAD_OFI_NO_REST};
static struct fi_ops_av av_ops = {.size = sizeof(struct fi_ops_av),
                                  .insert = av_insert,
                                  .insertsvc = no_insertsvc,
                                  .insertsym = no_insertsym,
                                  .remove = av_remove,
                                  .lookup = av_lookup,
                                  .straddr = av_straddr,
                                  .av_set = no_av_set};

int mad_ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
    mad_ofi_av_t *av;
    /* sharing between processes and several receive contexts are not supported */
    if (attr->name || attr->map_addr || attr->rx_ctx_bits)
        return -FI_ENOSYS;
    if ((unsigned)attr->type > FI_AV_TABLE)
        return -FI_EINVAL;
    if (attr->flags & ~(uint64_t)FI_SYMMETRIC) /* FI_EVENT is not supported: insertion is complete when the call returns */
        return -FI_ENOSYS;
    av = calloc(1, sizeof *av);
    if (!av)
        return -FI_ENOMEM;
    pthread_mutex_init(&av->lock, NULL);
    if (attr->type == FI_AV_UNSPEC)
        attr->type = FI_AV_TABLE;
    av->type = attr->type;
    av->domain = FROM_FID(mad_ofi_domain_t, domain);
    atomic_fetch_add(&av->domain->users, 1);
    av->fid.fid = (struct fid){.fclass = FI_CLASS_AV, .context = context, .ops = &fid_ops};
    av->fid.ops = &av_ops;
    *out = &av->fid;
    return 0;
}
