/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of completions. */
#include "ofi.h"

void mad_ofi_cntr_count(mad_ofi_cntr_t *cntr, bool good)
{
    atomic_fetch_add(good ? &cntr->value : &cntr->errors, 1);
    mad_ofi_wait_wake(&cntr->wait);
}

/* Return the endpoints whose progress changes the counter.  Accesses to a region arrive on any endpoint of the domain. */
static mad_ofi_eps_t *endpoints_of(mad_ofi_cntr_t *c)
{
    return c->of_region ? &c->domain->eps : &c->eps;
}

/* Read the value, or the number of errors.  For fi_trywait the program has then seen both, since it may never read the
 * other one. */
static uint64_t read_either(mad_ofi_cntr_t *c, bool good)
{
    uint64_t errors = atomic_load(&c->errors), value = atomic_load(&c->value);
    atomic_store_explicit(&c->seen, value + errors, memory_order_relaxed);
    return good ? value : errors;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    mad_ofi_cntr_t *c = FROM_FID(mad_ofi_cntr_t, fid);
    mad_ofi_eps_progress(endpoints_of(c));
    return read_either(c, true);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    mad_ofi_cntr_t *c = FROM_FID(mad_ofi_cntr_t, fid);
    mad_ofi_eps_progress(endpoints_of(c));
    return read_either(c, false);
}

static int cntr_plus(struct fid_cntr *fid, uint64_t value)
{
    mad_ofi_cntr_t *c = FROM_FID(mad_ofi_cntr_t, fid);
    atomic_fetch_add(&c->value, value);
    mad_ofi_wait_wake(&c->wait);
    return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    mad_ofi_cntr_t *c = FROM_FID(mad_ofi_cntr_t, fid);
    atomic_store(&c->value, value);
    mad_ofi_wait_wake(&c->wait);
    return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    mad_ofi_cntr_t *c = FROM_FID(mad_ofi_cntr_t, fid);
    atomic_fetch_add(&c->errors, value);
    mad_ofi_wait_wake(&c->wait);
    return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    mad_ofi_cntr_t *c = FROM_FID(mad_ofi_cntr_t, fid);
    atomic_store(&c->errors, value);
    mad_ofi_wait_wake(&c->wait);
    return 0;
}

typedef struct awaited {
    mad_ofi_cntr_t *c;
    uint64_t threshold, errors; /* threshold of the value; number of errors when the wait began */
} awaited_t;

static int has_come(void *arg)
{
    const awaited_t *a = arg;
    return atomic_load(&a->c->value) >= a->threshold || atomic_load(&a->c->errors) != a->errors;
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
    mad_ofi_cntr_t *c = FROM_FID(mad_ofi_cntr_t, fid);
    awaited_t a = {c, threshold, atomic_load(&c->errors)};
    if (!mad_ofi_wait_for(&c->wait, endpoints_of(c), has_come, &a, mad_dev_clock(), timeout))
        return -FI_ETIMEDOUT;
    return read_either(c, true) >= threshold ? 0 : -FI_EAVAIL;
}

/* True if the counter has changed since the program read it.  The value for which the program waits is not known here. */
bool mad_ofi_cntr_is_unseen(mad_ofi_cntr_t *c)
{
    return atomic_load(&c->value) + atomic_load(&c->errors) != atomic_load(&c->seen);
}

static int cntr_close(struct fid *fid)
{
    mad_ofi_cntr_t *c = FROM_FID(mad_ofi_cntr_t, fid);
    if (atomic_load(&c->users))
        return -FI_EBUSY;
    mad_ofi_wait_close(&c->wait);
    atomic_fetch_sub(&c->domain->users, 1);
    free(c->eps.at);
    free(c);
    return 0;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
    return mad_ofi_wait_control(&FROM_FID(mad_ofi_cntr_t, fid)->wait, command, arg);
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops), .close = cntr_close, .bind = mad_ofi_no_bind, .control = cntr_control, MAD_OFI_NO_REST};
static struct fi_ops_cntr cntr_ops = {.size = sizeof(struct fi_ops_cntr),
                                      .read = cntr_read,
                                      .readerr = cntr_readerr,
                                      .add = cntr_plus,
                                      .set = cntr_set,
                                      .wait = cntr_wait,
                                      .adderr = cntr_adderr,
                                      .seterr = cntr_seterr};

int mad_ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context)
{
    mad_ofi_cntr_t *c;
    int rc;
    if (attr->events != FI_CNTR_EVENTS_COMP || attr->flags)
        return -FI_ENOSYS;
    c = calloc(1, sizeof *c);
    if (!c)
        return -FI_ENOMEM;
    rc = mad_ofi_wait_open(&c->wait, attr->wait_obj);
    if (rc) {
        free(c);
        return rc;
    }
    c->domain = FROM_FID(mad_ofi_domain_t, domain);
    atomic_fetch_add(&c->domain->users, 1);
    c->fid.fid = (struct fid){.fclass = FI_CLASS_CNTR, .context = context, .ops = &fid_ops};
    c->fid.ops = &cntr_ops;
    *out = &c->fid;
    return 0;
}
