/* SPDX-License-Identifier: BSD-3-Clause */
/* Event queues.  This provider creates no events, so a program can only read what it has written itself. */
#include "ofi.h"

typedef struct event {
    struct event *next;
    uint32_t kind;
    size_t len;
    unsigned char bytes[];
} event_t;

typedef struct eq {
    struct fid_eq fid;
    mad_ofi_fabric_t *fabric;
    pthread_mutex_t lock;
    event_t *first, *last;
    mad_ofi_wait_t wait;
} eq_t;

static ssize_t eq_read(struct fid_eq *fid, uint32_t *kind, void *buf, size_t len, uint64_t flags)
{
    eq_t *eq = FROM_FID(eq_t, fid);
    event_t *e;
    ssize_t n = -FI_EAGAIN;
    pthread_mutex_lock(&eq->lock);
    e = eq->first;
    if (e && len < e->len) {
        n = -FI_ETOOSMALL;
    } else if (e) {
        *kind = e->kind;
        n = (ssize_t)e->len;
        if (e->len)
            memcpy(buf, e->bytes, e->len);
        if (!(flags & FI_PEEK)) {
            eq->first = e->next;
            free(e);
        }
    }
    pthread_mutex_unlock(&eq->lock);
    return n;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
    (void)fid, (void)entry, (void)flags;
    return -FI_EAGAIN;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t kind, const void *buf, size_t len, uint64_t flags)
{
    eq_t *eq = FROM_FID(eq_t, fid);
    event_t *e;
    if (flags)
        return -FI_EINVAL;
    e = malloc(sizeof *e + len);
    if (!e)
        return -FI_ENOMEM;
    e->next = NULL;
    e->kind = kind;
    e->len = len;
    if (len)
        memcpy(e->bytes, buf, len);
    pthread_mutex_lock(&eq->lock);
    if (eq->first)
        eq->last->next = e;
    else
        eq->first = e;
    eq->last = e;
    pthread_mutex_unlock(&eq->lock);
    mad_ofi_wait_wake(&eq->wait);
    return (ssize_t)len;
}

static int has_event(void *arg)
{
    eq_t *eq = arg;
    bool some;
    pthread_mutex_lock(&eq->lock);
    some = eq->first;
    pthread_mutex_unlock(&eq->lock);
    return some;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *kind, void *buf, size_t len, int timeout, uint64_t flags)
{
    eq_t *eq = FROM_FID(eq_t, fid);
    int64_t begin = mad_dev_clock();
    ssize_t n;
    if (eq->wait.fd < 0)
        return -FI_EINVAL;
    do
        n = eq_read(fid, kind, buf, len, flags);
    while (n == -FI_EAGAIN && mad_ofi_wait_for(&eq->wait, NULL, has_event, eq, begin, timeout));
    return n;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
    const char *text = mad_status_text((mad_status_t)prov_errno);
    (void)fid, (void)err_data;
    if (buf && len) {
        strncpy(buf, text, len - 1);
        buf[len - 1] = 0;
    }
    return text;
}

mad_ofi_wait_t *mad_ofi_eq_wait(struct fid *fid)
{
    return &FROM_FID(eq_t, fid)->wait;
}

bool mad_ofi_eq_has_event(struct fid *fid)
{
    return has_event(FROM_FID(eq_t, fid));
}

static int eq_close(struct fid *fid)
{
    eq_t *eq = FROM_FID(eq_t, fid);
    for (event_t *e = eq->first, *next; e; e = next) {
        next = e->next;
        free(e);
    }
    mad_ofi_wait_close(&eq->wait);
    pthread_mutex_destroy(&eq->lock);
    atomic_fetch_sub(&eq->fabric->users, 1);
    free(eq);
    return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
    return mad_ofi_wait_control(&FROM_FID(eq_t, fid)->wait, command, arg);
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops), .close = eq_close, .bind = mad_ofi_no_bind, .control = eq_control, MAD_OFI_NO_REST};
static struct fi_ops_eq eq_ops = {.size = sizeof(struct fi_ops_eq),
                                  .read = eq_read,
                                  .readerr = eq_readerr,
                                  .write = eq_write,
                                  .sread = eq_sread,
                                  .strerror = eq_strerror};

int mad_ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out, void *context)
{
    eq_t *eq = calloc(1, sizeof *eq);
    int rc;
    if (!eq)
        return -FI_ENOMEM;
    rc = mad_ofi_wait_open(&eq->wait, attr ? attr->wait_obj : FI_WAIT_NONE);
    if (rc) {
        free(eq);
        return rc;
    }
    pthread_mutex_init(&eq->lock, NULL);
    eq->fabric = FROM_FID(mad_ofi_fabric_t, fabric);
    atomic_fetch_add(&eq->fabric->users, 1);
    eq->fid.fid = (struct fid){.fclass = FI_CLASS_EQ, .context = context, .ops = &fid_ops};
    eq->fid.ops = &eq_ops;
    *out = &eq->fid;
    return 0;
}
