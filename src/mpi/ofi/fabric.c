/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics.  There is only one, which contains all networks. */
#include "ofi.h"

#include <madeleine/runtime.h>

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

static int fabric_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, uint64_t flags,
                          void *context)
{
    return flags ? -FI_EINVAL : mad_ofi_domain(fabric, info, domain, context);
}

/* ---- Objects to wait on ------------------------------------------------------------------------------------------- */

static mad_ofi_wait_t *wait_of(struct fid *fid)
{
    switch (fid->fclass) {
    case FI_CLASS_CQ: return &FROM_FID(mad_ofi_cq_t, fid)->wait;
    case FI_CLASS_CNTR: return &FROM_FID(mad_ofi_cntr_t, fid)->wait;
    case FI_CLASS_EQ: return mad_ofi_eq_wait(fid);
    default: return NULL;
    }
}

static bool fid_has_news(struct fid *fid)
{
    if (fid->fclass == FI_CLASS_CQ)
        return mad_ofi_cq_has_entry(FROM_FID(mad_ofi_cq_t, fid));
    if (fid->fclass == FI_CLASS_CNTR)
        return mad_ofi_cntr_is_unseen(FROM_FID(mad_ofi_cntr_t, fid));
    return mad_ofi_eq_has_event(fid);
}

typedef struct set {
    struct fid **fids;
    int n;
} set_t;

static int any_has_news(void *arg)
{
    const set_t *set = arg;
    for (int i = 0; i < set->n; i++)
        if (fid_has_news(set->fids[i]))
            return true;
    return false;
}

/* If the last sleep on one of these objects was short, spin here for a short time.  Return true if something is queued
 * now. */
static bool moment_wait(set_t *set)
{
    mad_ofi_wait_t *soon = NULL;
    for (int i = 0; i < set->n; i++)
        if (atomic_exchange(&wait_of(set->fids[i])->soon, false))
            soon = wait_of(set->fids[i]);
    if (!soon || !mad_ofi_wait_moment(soon, any_has_news, set))
        return false;
    atomic_store(&soon->soon, true);
    return true;
}

/* Prepare for the program's sleep on the objects: the progress thread takes over. */
static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int n)
{
    set_t set = {fids, n};
    (void)fabric;
    for (int i = 0; i < n; i++) {
        mad_ofi_wait_t *wait = wait_of(fids[i]);
        if (!wait || wait->fd < 0)
            return -FI_EINVAL;
    }
    if (any_has_news(&set) || moment_wait(&set))
        return -FI_EAGAIN;
    for (int i = 0; i < n; i++)
        mad_ofi_wait_arm(wait_of(fids[i]));
    if (any_has_news(&set))
        return -FI_EAGAIN;
    mad_progress_hand_over();
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
                                          .trywait = fabric_trywait,
                                          .domain2 = fabric_domain2};

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
