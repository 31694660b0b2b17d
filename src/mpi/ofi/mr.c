/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a domain that peers may access, looked up by its key for each access.  No memory is pinned, and programs need
 * not register the buffers of their messages. */
#include "ofi.h"

#include <sched.h>

#define BUCKETS 64 /* initial number of buckets, a power of two */

typedef struct mr {
    struct fid_mr fid;
    mad_ofi_domain_t *domain;
    struct mr *next; /* the next region in the same bucket */
    unsigned char *base;
    size_t len;
    uint64_t access;
    int busy; /* number of accesses under way */
    mad_ofi_cntr_t *written, *read;
} mr_t;

/* ---- The table: under its lock ------------------------------------------------------------------------------------ */

static mr_t **mr_bucket(mad_ofi_mrs_t *t, uint64_t key)
{
    return (mr_t **)&t->at[(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (t->size - 1)];
}

static mr_t *mr_find(mad_ofi_mrs_t *t, uint64_t key)
{
    mr_t *mr = t->size ? *mr_bucket(t, key) : NULL;
    while (mr && mr->fid.key != key)
        mr = mr->next;
    return mr;
}

static bool mrs_grow(mad_ofi_mrs_t *t)
{
    mad_ofi_mrs_t more = {.size = t->size ? t->size * 2 : BUCKETS};
    more.at = calloc(more.size, sizeof *more.at);
    if (!more.at)
        return false;
    for (size_t i = 0; i < t->size; i++)
        for (mr_t *mr = t->at[i], *next; mr; mr = next) {
            mr_t **b = mr_bucket(&more, mr->fid.key);
            next = mr->next;
            mr->next = *b;
            *b = mr;
        }
    free(t->at);
    t->at = more.at;
    t->size = more.size;
    return true;
}

static int mr_add(mad_ofi_domain_t *d, mr_t *mr)
{
    mad_ofi_mrs_t *t = &d->mrs;
    mr_t **b;
    if (t->n >= t->size && !mrs_grow(t))
        return -FI_ENOMEM;
    if (d->own_keys)
        mr->fid.key = ++t->last_key;
    if (mr_find(t, mr->fid.key))
        return -FI_ENOKEY;
    b = mr_bucket(t, mr->fid.key);
    mr->next = *b;
    *b = mr;
    t->n++;
    return 0;
}

static void mr_remove(mad_ofi_mrs_t *t, const mr_t *mr)
{
    mr_t **b = mr_bucket(t, mr->fid.key);
    while (*b != mr)
        b = &(*b)->next;
    *b = mr->next;
    t->n--;
}

/* ---- Accesses ----------------------------------------------------------------------------------------------------- */

static void *mr_hold(void *arg, const mad_dev_target_t *target, mad_dev_access_t access, uint8_t op)
{
    mad_ofi_domain_t *d = ((mad_ofi_ep_t *)arg)->domain;
    void *at = NULL;
    mr_t *mr;
    pthread_mutex_lock(&d->mrs.lock);
    mr = mr_find(&d->mrs, target->key);
    if (mr && !(mad_ofi_effect(access, op) & ~mr->access)) {
        uint64_t offset = target->address - (d->virtual_addresses ? (uintptr_t)mr->base : 0);
        if (offset <= mr->len && target->len <= mr->len - offset) {
            mr->busy++;
            at = mr->base + offset;
        }
    }
    pthread_mutex_unlock(&d->mrs.lock);
    return at;
}

static void mr_release(void *arg, const mad_dev_target_t *target, mad_dev_access_t access, uint8_t op, bool good)
{
    const mad_ofi_ep_t *ep = arg;
    mad_ofi_domain_t *d = ep->domain;
    mr_t *mr;
    pthread_mutex_lock(&d->mrs.lock);
    mr = mr_find(&d->mrs, target->key); /* this always finds the region: one that is in use is not freed */
    if (good && ep->caps & FI_RMA_EVENT)
        mad_ofi_cntr_add_served(mr->read, mr->written, mad_ofi_effect(access, op));
    mr->busy--;
    pthread_mutex_unlock(&d->mrs.lock);
}

const mad_dev_memory_t mad_ofi_memory = {
    .hold = mr_hold, .drop = mr_release, .is_good = mad_ofi_atomic_good, .operate = mad_ofi_atomic_operate};

/* ---- Objects ------------------------------------------------------------------------------------------------------ */

static bool is_busy(mr_t *mr)
{
    bool busy;
    pthread_mutex_lock(&mr->domain->mrs.lock);
    busy = mr->busy > 0;
    if (!busy)
        mr_remove(&mr->domain->mrs, mr);
    pthread_mutex_unlock(&mr->domain->mrs.lock);
    return busy;
}

/* Close a region after waiting for accesses in progress, because the program may free the memory afterwards. */
static int mr_close(struct fid *fid)
{
    mr_t *mr = FROM_FID(mr_t, fid);
    while (is_busy(mr)) {
        mad_ofi_eps_progress(&mr->domain->eps);
        sched_yield();
    }
    if (mr->written)
        atomic_fetch_sub(&mr->written->users, 1);
    if (mr->read)
        atomic_fetch_sub(&mr->read->users, 1);
    atomic_fetch_sub(&mr->domain->users, 1);
    free(mr);
    return 0;
}

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    mr_t *mr = FROM_FID(mr_t, fid);
    mad_ofi_cntr_t *c = FROM_FID(mad_ofi_cntr_t, other);
    int rc = 0;
    if (other->fclass == FI_CLASS_EP) /* no mode requires this binding, and it has no effect */
        return flags ? -FI_EINVAL : 0;
    if (other->fclass != FI_CLASS_CNTR || !flags || flags & ~(uint64_t)(FI_REMOTE_READ | FI_REMOTE_WRITE))
        return -FI_EINVAL;
    c->of_region = true;
    pthread_mutex_lock(&mr->domain->mrs.lock);
    if ((flags & FI_REMOTE_READ && mr->read) || (flags & FI_REMOTE_WRITE && mr->written))
        rc = -FI_EINVAL;
    if (!rc && flags & FI_REMOTE_READ) {
        mr->read = c;
        atomic_fetch_add(&c->users, 1);
    }
    if (!rc && flags & FI_REMOTE_WRITE) {
        mr->written = c;
        atomic_fetch_add(&c->users, 1);
    }
    pthread_mutex_unlock(&mr->domain->mrs.lock);
    return rc;
}

/* Accept FI_ENABLE: a region is enabled from the start. */
static int mr_control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)arg;
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops), .close = mr_close, .bind = mr_bind, .control = mr_control, MAD_OFI_NO_REST};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **out)
{
    mad_ofi_domain_t *d = FROM_FID(mad_ofi_domain_t, fid);
    mr_t *mr;
    int rc;
    if (fid->fclass != FI_CLASS_DOMAIN || attr->iov_count != 1 || attr->offset || attr->auth_key_size)
        return -FI_EINVAL;
    if (flags & ~(uint64_t)FI_RMA_EVENT)
        return -FI_EBADFLAGS;
    mr = calloc(1, sizeof *mr);
    if (!mr)
        return -FI_ENOMEM;
    mr->domain = d;
    mr->base = attr->mr_iov->iov_base;
    mr->len = attr->mr_iov->iov_len;
    mr->access = attr->access;
    mr->fid.fid = (struct fid){.fclass = FI_CLASS_MR, .context = attr->context, .ops = &fid_ops};
    mr->fid.key = attr->requested_key;
    pthread_mutex_lock(&d->mrs.lock);
    rc = mr_add(d, mr);
    pthread_mutex_unlock(&d->mrs.lock);
    if (rc) {
        free(mr);
        return rc;
    }
    mr->fid.mem_desc = mr;
    atomic_fetch_add(&d->users, 1);
    *out = &mr->fid;
    return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t n, uint64_t access, uint64_t offset, uint64_t key,
                   uint64_t flags, struct fid_mr **mr, void *context)
{
    struct fi_mr_attr attr = {
        .mr_iov = iov, .iov_count = n, .access = access, .offset = offset, .requested_key = key, .context = context};
    return mr_regattr(fid, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
                  uint64_t flags, struct fid_mr **mr, void *context)
{
    struct iovec piece = {(void *)buf, len};
    return mr_regv(fid, &piece, 1, access, offset, key, flags, mr, context);
}

struct fi_ops_mr mad_ofi_mr = {.size = sizeof(struct fi_ops_mr), .reg = mr_reg, .regv = mr_regv, .regattr = mr_regattr};
