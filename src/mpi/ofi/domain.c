/* SPDX-License-Identifier: BSD-3-Clause */
/* Domains. */
#include "ofi.h"

#include <madeleine/runtime.h>

static int domain_close(struct fid *fid)
{
    mad_ofi_domain_t *d = FROM_FID(mad_ofi_domain_t, fid);
    if (atomic_load(&d->users))
        return -FI_EBUSY;
    atomic_fetch_sub(&d->fabric->users, 1);
    pthread_mutex_destroy(&d->mrs.lock);
    free(d->mrs.at);
    free(d->eps.at);
    free(d);
    return 0;
}

/* Bind an event queue, which stays empty because registrations and insertions are complete when their calls return. */
static int domain_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid;
    return other->fclass == FI_CLASS_EQ && !flags ? 0 : -FI_EINVAL;
}

static int no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    (void)domain, (void)info, (void)ep, (void)context;
    return -FI_ENOSYS;
}

static int no_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set)
{
    (void)domain, (void)attr, (void)set;
    return -FI_ENOSYS;
}

static int no_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
{
    (void)domain, (void)attr, (void)stx, (void)context;
    return -FI_ENOSYS;
}

static int no_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)
{
    (void)domain, (void)attr, (void)ep, (void)context;
    return -FI_ENOSYS;
}

static int no_query_collective(struct fid_domain *domain, enum fi_collective_op op, struct fi_collective_attr *attr,
                               uint64_t flags)
{
    (void)domain, (void)op, (void)attr, (void)flags;
    return -FI_ENOSYS;
}

static int domain_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags,
                            void *context)
{
    return flags ? -FI_EINVAL : mad_ofi_endpoint(domain, info, ep, context);
}

static struct fi_ops fid_ops = {.size = sizeof(struct fi_ops),
                                .close = domain_close,
                                .bind = domain_bind,
                                .control = mad_ofi_no_control,
                                MAD_OFI_NO_REST};
static struct fi_ops_domain domain_ops = {.size = sizeof(struct fi_ops_domain),
                                          .av_open = mad_ofi_av_open,
                                          .cq_open = mad_ofi_cq_open,
                                          .endpoint = mad_ofi_endpoint,
                                          .scalable_ep = no_scalable_ep,
                                          .cntr_open = mad_ofi_cntr_open,
                                          .poll_open = no_poll_open,
                                          .stx_ctx = no_stx_ctx,
                                          .srx_ctx = no_srx_ctx,
                                          .query_atomic = mad_ofi_query_atomic,
                                          .query_collective = no_query_collective,
                                          .endpoint2 = domain_endpoint2};

int mad_ofi_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
    mad_ofi_domain_t *d = calloc(1, sizeof *d);
    const struct fi_domain_attr *a = info->domain_attr;
    if (!d)
        return -FI_ENOMEM;
    d->fabric = FROM_FID(mad_ofi_fabric_t, fabric);
    atomic_fetch_add(&d->fabric->users, 1);
    /* false if only one thread at a time uses the domain */
    d->threaded = !a || a->threading != FI_THREAD_DOMAIN;
    d->automatic = a && (a->data_progress == FI_PROGRESS_AUTO);
    if (d->automatic)
        mad_progress_thread_set(1);
    d->virtual_addresses = a && a->mr_mode & (MAD_OFI_MR_BASIC | FI_MR_VIRT_ADDR);
    d->own_keys = a && a->mr_mode & (MAD_OFI_MR_BASIC | FI_MR_PROV_KEY);
    pthread_mutex_init(&d->mrs.lock, NULL);
    d->fid.fid = (struct fid){.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &fid_ops};
    d->fid.ops = &domain_ops;
    d->fid.mr = &mad_ofi_mr;
    *domain = &d->fid;
    return 0;
}
