/* SPDX-License-Identifier: BSD-3-Clause */
/* A libfabric whose calls fail.  With LD_LIBRARY_PATH the driver ofi finds this library as libfabric.so.1.  This
 * library passes all calls on to the library that OFI_REAL names, whose objects get tables of operations from here.
 *   OFI_FAULT=CALL,FIRST,NUMBER,ERROR   calls CALL of this process fail with -ERROR, from number FIRST on (the first is 1);
 *                                       NUMBER: how many; 0: all
 *   OFI_FAULT_RANK=N                    only in the process of this rank
 *   OFI_LOCAL=1                         memory has to be registered before the endpoint uses it (FI_MR_LOCAL)
 * CALL is one of: getinfo dupinfo fabric domain cq_open av_open endpoint bind enable getname av_insert mr_reg recv send inject read
 * trywait getwait cq_read readerr av_remove; mr_bind and mr_enable, as of a provider that binds memory to endpoints;
 * close_mr close_ep close_av close_cq close_domain close_fabric, which close the object all the same; mr_long, read_long: mr_reg and read of more than 16 KiB, which is program memory; or comp_recv, comp_send, comp_read: completions of these operations, which become errors.  At the end of
 * the process, one line on standard error has the number of faults, and of objects that were left open. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROVIDER_ERROR 77 /* prov_errno of completions that fail */
#define MEMORY_MAX 4096
#define LONG 16384 /* bytes of the driver's own buffers */

static struct {
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
    void (*freeinfo)(struct fi_info *);
    struct fi_info *(*dupinfo)(const struct fi_info *);
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    const char *(*strerror)(int);
    uint32_t (*version)(void);
} real;

static struct {
    char call[32];
    int first, number, error;
    atomic_int calls, faults, open;
} fault;
static bool local;

/* ---- Faults ------------------------------------------------------------------------------------------------------ */

__attribute__((constructor)) static void fault_read(void)
{
    const char *text = getenv("OFI_FAULT"), *rank = getenv("OFI_FAULT_RANK"), *mine = getenv("PMI_RANK");
    local = getenv("OFI_LOCAL") != NULL;
    if (!text || (rank && (!mine || strcmp(rank, mine) != 0)))
        return;
    if (sscanf(text, "%31[^,],%d,%d,%d", fault.call, &fault.first, &fault.number, &fault.error) != 4)
        fprintf(stderr, "ofi_fault: OFI_FAULT=%s cannot be read\n", text);
}

__attribute__((destructor)) static void fault_report(void)
{
    if (real.getinfo)
        fprintf(stderr, "ofi_fault: %d faults, %d objects open\n", atomic_load(&fault.faults), atomic_load(&fault.open));
}

/* Count a call.  True if this call has to fail. */
static bool fault_strikes(const char *call)
{
    if (strcmp(call, fault.call) != 0)
        return false;
    int n = atomic_fetch_add(&fault.calls, 1) + 1;
    if (n < fault.first || (fault.number && n >= fault.first + fault.number))
        return false;
    atomic_fetch_add(&fault.faults, 1);
    return true;
}

/* ---- Tables of operations ---------------------------------------------------------------------------------------- */

/* A table in place of another one.  The table is kept until the process ends, since objects share none. */
typedef struct table {
    struct table *next;
    const void *of;
    _Alignas(16) char ops[];
} table_t;
static table_t *tables;
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;

/* Return a copy of the table to which *at points.  The copy can be changed, and *at points to the copy from now on. */
static void *table_replace(void *at, size_t size)
{
    void *ops, **place = at;
    table_t *t = calloc(1, sizeof *t + size);
    if (!t)
        abort();
    memcpy(&ops, place, sizeof ops);
    memcpy(t->ops, ops, *(const size_t *)ops < size ? *(const size_t *)ops : size);
    t->of = ops;
    pthread_mutex_lock(&tables_lock);
    t->next = tables;
    tables = t;
    pthread_mutex_unlock(&tables_lock);
    ops = t->ops;
    memcpy(place, &ops, sizeof ops);
    return t->ops;
}

/* Return the table that was replaced by this one. */
static const void *table_of(const void *ops)
{
    return ((const table_t *)((const char *)ops - offsetof(table_t, ops)))->of;
}

/* True if the closing of an object of this class has to fail. */
static bool close_strikes(size_t class)
{
    switch (class) {
    case FI_CLASS_MR: return fault_strikes("close_mr");
    case FI_CLASS_AV: return fault_strikes("close_av");
    case FI_CLASS_CQ: return fault_strikes("close_cq");
    case FI_CLASS_DOMAIN: return fault_strikes("close_domain");
    case FI_CLASS_FABRIC: return fault_strikes("close_fabric");
    default: return fault_strikes("close_ep");
    }
}

static int object_close(struct fid *fid)
{
    const struct fi_ops *ops = table_of(fid->ops);
    bool fails = close_strikes(fid->fclass);
    int rc = ops->close(fid);
    if (!rc)
        atomic_fetch_sub(&fault.open, 1);
    return fails ? -fault.error : rc;
}

/* Count an object that was opened, and return its operations. */
static struct fi_ops *object_opened(struct fid *fid)
{
    struct fi_ops *ops = table_replace(&fid->ops, sizeof *ops);
    ops->close = object_close;
    atomic_fetch_add(&fault.open, 1);
    return ops;
}

/* ---- Registered memory ------------------------------------------------------------------------------------------- */

typedef struct memory {
    struct fid_mr *mr; /* the registration; NULL: this entry is free */
    const char *at;
    size_t len;
    int (*close)(struct fid *fid);
} memory_t;
static memory_t memory[MEMORY_MAX];
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

static int memory_close(struct fid *fid)
{
    const struct fi_ops *ops = table_of(fid->ops);
    pthread_mutex_lock(&memory_lock);
    for (int i = 0; i < MEMORY_MAX; i++)
        if (memory[i].mr && &memory[i].mr->fid == fid)
            memory[i].mr = NULL;
    pthread_mutex_unlock(&memory_lock);
    atomic_fetch_sub(&fault.open, 1);
    int rc = ops->close(fid);
    return close_strikes(FI_CLASS_MR) ? -fault.error : rc;
}

/* With a fault of mr_bind or mr_enable, memory is bound to the endpoint. */
static bool memory_is_bound(void)
{
    return !strcmp(fault.call, "mr_bind") || !strcmp(fault.call, "mr_enable");
}

static int memory_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid;
    (void)other;
    (void)flags;
    return fault_strikes("mr_bind") ? -fault.error : 0;
}

static int memory_control(struct fid *fid, int command, void *arg)
{
    (void)fid;
    (void)command;
    (void)arg;
    return fault_strikes("mr_enable") ? -fault.error : 0;
}

static int memory_register(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
                           uint64_t flags, struct fid_mr **mr, void *context)
{
    struct fid_domain *domain = (struct fid_domain *)fid;
    const struct fi_ops_mr *ops = table_of(domain->mr);
    if (fault_strikes("mr_reg") || (len > LONG && fault_strikes("mr_long")))
        return -fault.error;
    int rc = ops->reg(fid, buf, len, access, offset, key, flags, mr, context), i = 0;
    if (rc)
        return rc;
    struct fi_ops *own = object_opened(&(*mr)->fid);
    own->close = memory_close;
    if (memory_is_bound()) {
        own->bind = memory_bind;
        own->control = memory_control;
    }
    pthread_mutex_lock(&memory_lock);
    while (i < MEMORY_MAX && memory[i].mr)
        i++;
    if (i < MEMORY_MAX)
        memory[i] = (memory_t){.mr = *mr, .at = buf, .len = len};
    pthread_mutex_unlock(&memory_lock);
    return 0;
}

/* True if the memory may be used: with FI_MR_LOCAL, desc has to be the descriptor of registered memory that contains it. */
static bool memory_usable(const void *buf, size_t len, const void *desc)
{
    bool found = !local;
    pthread_mutex_lock(&memory_lock);
    for (int i = 0; i < MEMORY_MAX && !found; i++)
        found = memory[i].mr && fi_mr_desc(memory[i].mr) == desc && (const char *)buf >= memory[i].at &&
                (const char *)buf + len <= memory[i].at + memory[i].len;
    pthread_mutex_unlock(&memory_lock);
    if (!found)
        fprintf(stderr, "ofi_fault: memory is used without registration\n");
    return found;
}

/* ---- Endpoints --------------------------------------------------------------------------------------------------- */

static ssize_t message_receive(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, void *context)
{
    const struct fi_ops_msg *ops = table_of(ep->msg);
    if (fault_strikes("recv"))
        return -fault.error;
    return memory_usable(buf, len, desc) ? ops->recv(ep, buf, len, desc, from, context) : -FI_EINVAL;
}

static ssize_t message_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
                            void *context)
{
    const struct fi_ops_msg *ops = table_of(ep->msg);
    if (fault_strikes("send"))
        return -fault.error;
    return memory_usable(buf, len, desc) ? ops->senddata(ep, buf, len, desc, data, to, context) : -FI_EINVAL;
}

static ssize_t message_inject(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to)
{
    const struct fi_ops_msg *ops = table_of(ep->msg);
    return fault_strikes("inject") ? -fault.error : ops->injectdata(ep, buf, len, data, to);
}

static ssize_t memory_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t at, uint64_t key,
                           void *context)
{
    const struct fi_ops_rma *ops = table_of(ep->rma);
    if (fault_strikes("read") || (len > LONG && fault_strikes("read_long")))
        return -fault.error;
    return memory_usable(buf, len, desc) ? ops->read(ep, buf, len, desc, from, at, key, context) : -FI_EINVAL;
}

static int endpoint_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    const struct fi_ops *ops = table_of(fid->ops);
    return fault_strikes("bind") ? -fault.error : ops->bind(fid, other, flags);
}

static int endpoint_control(struct fid *fid, int command, void *arg)
{
    const struct fi_ops *ops = table_of(fid->ops);
    return command == FI_ENABLE && fault_strikes("enable") ? -fault.error : ops->control(fid, command, arg);
}

static int endpoint_name(fid_t fid, void *name, size_t *len)
{
    const struct fi_ops_cm *ops = table_of(((struct fid_ep *)fid)->cm);
    return fault_strikes("getname") ? -fault.error : ops->getname(fid, name, len);
}

static int endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    const struct fi_ops_domain *ops = table_of(domain->ops);
    if (fault_strikes("endpoint"))
        return -fault.error;
    int rc = ops->endpoint(domain, info, ep, context);
    if (rc)
        return rc;
    struct fi_ops *own = object_opened(&(*ep)->fid);
    own->bind = endpoint_bind;
    own->control = endpoint_control;
    struct fi_ops_msg *msg = table_replace(&(*ep)->msg, sizeof *msg);
    msg->recv = message_receive;
    msg->senddata = message_send;
    msg->injectdata = message_inject;
    struct fi_ops_rma *rma = table_replace(&(*ep)->rma, sizeof *rma);
    rma->read = memory_read;
    struct fi_ops_cm *cm = table_replace(&(*ep)->cm, sizeof *cm);
    cm->getname = endpoint_name;
    return 0;
}

/* ---- Queues ------------------------------------------------------------------------------------------------------ */

static _Thread_local struct fi_cq_data_entry failed; /* the completion that fi_cq_readerr returns */
static _Thread_local bool has_failed;
static _Thread_local int reads;

static bool completion_strikes(const struct fi_cq_data_entry *e)
{
    return fault_strikes(e->flags & FI_RECV ? "comp_recv" : e->flags & FI_READ ? "comp_read" : "comp_send");
}

static ssize_t queue_read(struct fid_cq *cq, void *buf, size_t count)
{
    const struct fi_ops_cq *ops = table_of(cq->ops);
    struct fi_cq_data_entry *e = buf;
    if (!count) /* a call by fi_trywait */
        return ops->read(cq, buf, count);
    if (fault_strikes("cq_read"))
        return -fault.error;
    if (has_failed)
        return -FI_EAVAIL;
    if (!strcmp(fault.call, "readerr") && ++reads > 200)
        return -FI_EAVAIL;
    if (strncmp(fault.call, "comp_", 5) != 0)
        return ops->read(cq, buf, count);
    ssize_t n = ops->read(cq, buf, 1);
    if (n != 1 || !completion_strikes(e))
        return n;
    failed = *e;
    has_failed = true;
    return -FI_EAVAIL;
}

static ssize_t queue_error(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    const struct fi_ops_cq *ops = table_of(cq->ops);
    if (fault_strikes("readerr"))
        return -fault.error;
    if (!has_failed)
        return ops->readerr(cq, entry, flags);
    has_failed = false;
    *entry = (struct fi_cq_err_entry){.op_context = failed.op_context,
                                      .flags = failed.flags,
                                      .len = failed.len,
                                      .err = fault.error,
                                      .prov_errno = PROVIDER_ERROR};
    return 1;
}

static const char *queue_error_text(struct fid_cq *cq, int number, const void *data, char *buf, size_t len)
{
    const struct fi_ops_cq *ops = table_of(cq->ops);
    return number == PROVIDER_ERROR ? "the fault of a test" : ops->strerror(cq, number, data, buf, len);
}

static int queue_control(struct fid *fid, int command, void *arg)
{
    const struct fi_ops *ops = table_of(fid->ops);
    return command == FI_GETWAIT && fault_strikes("getwait") ? -fault.error : ops->control(fid, command, arg);
}

static int queue_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
    const struct fi_ops_domain *ops = table_of(domain->ops);
    if (fault_strikes("cq_open"))
        return -fault.error;
    int rc = ops->cq_open(domain, attr, cq, context);
    if (rc)
        return rc;
    object_opened(&(*cq)->fid)->control = queue_control;
    struct fi_ops_cq *own = table_replace(&(*cq)->ops, sizeof *own);
    own->read = queue_read;
    own->readerr = queue_error;
    own->strerror = queue_error_text;
    return 0;
}

/* ---- Addresses, domains, fabrics --------------------------------------------------------------------------------- */

static int address_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *number, uint64_t flags,
                          void *context)
{
    const struct fi_ops_av *ops = table_of(av->ops);
    return fault_strikes("av_insert") ? -fault.error : ops->insert(av, addr, count, number, flags, context);
}

static int address_remove(struct fid_av *av, fi_addr_t *number, size_t count, uint64_t flags)
{
    const struct fi_ops_av *ops = table_of(av->ops);
    int rc = ops->remove(av, number, count, flags);
    return fault_strikes("av_remove") ? -fault.error : rc;
}

static int addresses_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
    const struct fi_ops_domain *ops = table_of(domain->ops);
    if (fault_strikes("av_open"))
        return -fault.error;
    int rc = ops->av_open(domain, attr, av, context);
    if (rc)
        return rc;
    object_opened(&(*av)->fid);
    struct fi_ops_av *own = table_replace(&(*av)->ops, sizeof *own);
    own->insert = address_insert;
    own->remove = address_remove;
    return 0;
}

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
    const struct fi_ops_fabric *ops = table_of(fabric->ops);
    if (fault_strikes("domain"))
        return -fault.error;
    if (local)
        info->domain_attr->mr_mode &= ~FI_MR_LOCAL; /* the real provider does not know this mode */
    int rc = ops->domain(fabric, info, domain, context);
    if (local)
        info->domain_attr->mr_mode |= FI_MR_LOCAL;
    if (memory_is_bound())
        info->domain_attr->mr_mode |= FI_MR_ENDPOINT;
    if (rc)
        return rc;
    object_opened(&(*domain)->fid);
    struct fi_ops_domain *own = table_replace(&(*domain)->ops, sizeof *own);
    own->av_open = addresses_open;
    own->cq_open = queue_open;
    own->endpoint = endpoint_open;
    struct fi_ops_mr *mr = table_replace(&(*domain)->mr, sizeof *mr);
    mr->reg = memory_register;
    return 0;
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int n)
{
    const struct fi_ops_fabric *ops = table_of(fabric->ops);
    return fault_strikes("trywait") ? -fault.error : ops->trywait(fabric, fids, n);
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    int rc = fault_strikes("fabric") ? -fault.error : real.fabric(attr, fabric, context);
    if (rc)
        return rc;
    object_opened(&(*fabric)->fid);
    struct fi_ops_fabric *own = table_replace(&(*fabric)->ops, sizeof *own);
    own->domain = domain_open;
    own->trywait = fabric_trywait;
    return 0;
}

/* ---- The library ------------------------------------------------------------------------------------------------- */

__attribute__((constructor)) static void real_open(void)
{
    const char *path = getenv("OFI_REAL");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
    if (!library) {
        fprintf(stderr, "ofi_fault: OFI_REAL is not the library: %s\n", path ? dlerror() : "not set");
        _exit(1);
    }
    *(void **)&real.getinfo = dlsym(library, "fi_getinfo");
    *(void **)&real.freeinfo = dlsym(library, "fi_freeinfo");
    *(void **)&real.dupinfo = dlsym(library, "fi_dupinfo");
    *(void **)&real.fabric = dlsym(library, "fi_fabric");
    *(void **)&real.strerror = dlsym(library, "fi_strerror");
    *(void **)&real.version = dlsym(library, "fi_version");
}

/* With OFI_LOCAL, a program that registers no local memory is offered no provider. */
int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
               struct fi_info **info)
{
    bool knows = hints && hints->domain_attr && hints->domain_attr->mr_mode & FI_MR_LOCAL;
    if (fault_strikes("getinfo"))
        return -fault.error;
    if (local && hints && !knows)
        return -FI_ENODATA;
    int rc = real.getinfo(version, node, service, flags, hints, info);
    for (struct fi_info *i = rc || !local || !knows ? NULL : *info; i; i = i->next)
        i->domain_attr->mr_mode |= FI_MR_LOCAL;
    return rc;
}

void fi_freeinfo(struct fi_info *info)
{
    real.freeinfo(info);
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    return fault_strikes("dupinfo") ? NULL : real.dupinfo(info);
}

const char *fi_strerror(int error)
{
    return real.strerror(error);
}

uint32_t fi_version(void)
{
    return getenv("OFI_OLD") ? FI_VERSION(1, 9) : real.version();
}
