/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics: there is one, that of all networks. */
#include "ofi.h"

static int fabric_close(struct fid *fid)
{
    mad_ofi_fabric_t *f = FROM_FID(mad_ofi_fabric_t, fid);
    if (atomic_load(&f->users))
        return -FI_EBUSY;
    free(f);
    return 0;
}

static int no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
    (void)fabric, (void)info, (void)pep, (void)context;
    return -FI_ENOSYS;
}

static int no_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set)
{
    (void)fabric, (void)attr, (void)set;
    return -FI_ENOSYS;
}

static int domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, uint64_t flags,
                   void *context)
{
    return flags ? -FI_EINVAL : mad_ofi_domain(fabric, info, domain, context);
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int n)
{
    (void)fabric;
    for (int i = 0; i < n; i++) {
        int rc = -FI_EINVAL;
        if (fids[i]->fclass == FI_CLASS_CQ)
            rc = mad_ofi_cq_trywait(FROM_FID(mad_ofi_cq_t, fids[i]));
        else if (fids[i]->fclass == FI_CLASS_CNTR)
            rc = mad_ofi_cntr_trywait(FROM_FID(mad_ofi_cntr_t, fids[i]));
        else if (fids[i]->fclass == FI_CLASS_EQ)
            rc = mad_ofi_eq_trywait(fids[i]);
        if (rc)
            return rc;
    }
    return 0;
}

static struct fi_ops fid_ops = {.size = sizeof(struct fi_ops),
                                .close = fabric_close,
                                .bind = mad_ofi_no_bind,
                                .control = mad_ofi_no_control,
                                MAD_OFI_NO_REST};
static struct fi_ops_fabric fabric_ops = {.size = sizeof(struct fi_ops_fabric),
                                          .domain = mad_ofi_domain,
                                          .passive_ep = no_passive_ep,
                                          .eq_open = mad_ofi_eq_open,
                                          .wait_open = no_wait_open,
                                          .trywait = trywait,
                                          .domain2 = domain2};

int mad_ofi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    mad_ofi_fabric_t *f;
    if (attr->name && strcmp(attr->name, "mad"))
        return -FI_ENODATA;
    f = calloc(1, sizeof *f);
    if (!f)
        return -FI_ENOMEM;
    f->fid.fid = (struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fid_ops};
    f->fid.ops = &fabric_ops;
    *fabric = &f->fid;
    return 0;
}
