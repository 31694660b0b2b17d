/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft_verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* verbs.h has macros and inline functions of these names. */
#undef ibv_reg_mr
#undef ibv_query_port
#undef ibv_get_device_list

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

soft_state_t soft = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct ibv_device device = {.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "soft0"};
static struct ibv_device other_device = {.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "soft1"};

static long setting(const char *name)
{
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

bool soft_fails_locked(const char *name)
{
    static struct {
        char name[32];
        long n, at;
    } call; /* the one that has to fail; its calls so far */
    const char *text = getenv("SOFT_VERBS_FAIL");
    if (!call.at) {
        call.at = -1;
        if (text && sscanf(text, "%31[^:]:%ld", call.name, &call.at) != 2)
            abort();
    }
    errno = ENOMEM;
    if (strcmp(name, call.name) != 0 || ++call.n < call.at)
        return false;
    return call.n == call.at || !strcmp(name, "poll_cq");
}

bool soft_fails(const char *name)
{
    pthread_mutex_lock(&soft.lock);
    bool this_one = soft_fails_locked(name);
    pthread_mutex_unlock(&soft.lock);
    errno = ENOMEM;
    return this_one;
}

/* Return a new object of the library; NULL if this call has to fail. */
static void *object_new(const char *name, size_t size)
{
    void *object = soft_fails(name) ? NULL : calloc(1, size);
    pthread_mutex_lock(&soft.lock);
    soft.objects += object != NULL;
    pthread_mutex_unlock(&soft.lock);
    return object;
}

static void object_free(void *object)
{
    pthread_mutex_lock(&soft.lock);
    soft.objects--;
    pthread_mutex_unlock(&soft.lock);
    free(object);
}

/* Return the error of a call that releases an object. */
static int release_fails(const char *name)
{
    return soft_fails(name) ? (errno = EBUSY) : 0;
}

__attribute__((destructor)) static void objects_report(void)
{
    if (soft.objects)
        fprintf(stderr, "soft_verbs: process %d has left %d objects\n", (int)getpid(), soft.objects);
    if (setting("SOFT_VERBS_COUNT"))
        fprintf(stderr, "soft_verbs: %zu posts, %zu bytes sent, %zu bytes read, %zu registrations\n", soft.posts,
                soft.bytes_sent, soft.bytes_read, soft.registrations);
}

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

bool soft_is_iwarp(void)
{
    return getenv("SOFT_VERBS_IWARP");
}

struct ibv_context *soft_context(void)
{
    static struct ibv_context context = {.device = &device};
    return &context;
}

EXPORT struct ibv_device **ibv_get_device_list(int *n)
{
    if (soft_is_iwarp()) {
        device.node_type = IBV_NODE_RNIC;
        device.transport_type = IBV_TRANSPORT_IWARP;
    }
    struct ibv_device **list = soft_fails("get_device_list") ? NULL : calloc(3, sizeof *list);
    *n = !list ? 0 : setting("SOFT_VERBS_DEVICES") > 1 ? 2 : 1;
    if (list)
        list[0] = &device;
    if (*n > 1)
        list[1] = &other_device;
    return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *d)
{
    return d->name;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *d)
{
    struct ibv_context *c = object_new("open_device", sizeof *c);
    if (!c)
        return NULL;
    c->device = d;
    c->async_fd = eventfd(getenv("SOFT_VERBS_EVENT") != NULL, EFD_CLOEXEC | EFD_NONBLOCK);
    c->cmd_fd = -1;
    c->ops.poll_cq = soft_poll_cq;
    c->ops.req_notify_cq = soft_req_notify_cq;
    c->ops.post_srq_recv = soft_post_srq_recv;
    c->ops.post_send = soft_post_send;
    return c;
}

EXPORT int ibv_close_device(struct ibv_context *c)
{
    close(c->async_fd);
    object_free(c);
    return release_fails("close_device") ? -1 : 0;
}

EXPORT int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
    (void)c;
    if (soft_fails("query_device"))
        return ENOMEM;
    *attr = (struct ibv_device_attr){
        .phys_port_cnt = 1, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16, .max_srq_wr = 32768, .max_cqe = 32767};
    return 0;
}

EXPORT int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    struct ibv_port_attr *a = (struct ibv_port_attr *)attr;
    (void)c;
    (void)port;
    if (soft_fails("query_port"))
        return ENOMEM;
    a->state = IBV_PORT_ACTIVE;
    a->active_mtu = a->max_mtu = IBV_MTU_4096;
    a->gid_tbl_len = 1;
    a->link_layer = IBV_LINK_LAYER_ETHERNET;
    return 0;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                             uint32_t flags, size_t size)
{
    static const unsigned char gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    (void)c;
    (void)port;
    (void)flags;
    (void)size;
    if (soft_fails("query_gid"))
        return ENOMEM;
    memcpy(entry->gid.raw, gid, sizeof gid);
    entry->gid_type = IBV_GID_TYPE_ROCE_V2;
    return index ? ENODATA : 0;
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
    struct ibv_pd *pd = object_new("alloc_pd", sizeof *pd);
    if (pd)
        pd->context = c;
    return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    object_free(pd);
    return release_fails("dealloc_pd");
}

uint64_t soft_pages_sum(const void *at, size_t len)
{
    static int pagemap = -1;
    uintptr_t page = (uintptr_t)at / 4096, end = ((uintptr_t)at + len + 4095) / 4096;
    uint64_t sum = 0, entry;
    if (pagemap < 0)
        pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    for (; page < end && pread(pagemap, &entry, sizeof entry, (off_t)(page * sizeof entry)) == (ssize_t)sizeof entry; page++)
        sum += (entry & ((UINT64_C(1) << 55) - 1)) * (2 * page + 1);
    return sum;
}

/* Make pages present, as those are that a device writes to.  False with errno if they cannot be written to. */
static bool pages_populate(void *at, size_t len)
{
    uintptr_t from = (uintptr_t)at & ~(uintptr_t)4095;
    return !madvise((void *)from, (uintptr_t)at + len - from, MADV_POPULATE_WRITE) || errno == EINVAL;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t len, int access)
{
    long limit = setting("SOFT_VERBS_MEMORY");
    soft_region_t *r = object_new("reg_mr", sizeof *r);
    uint32_t index = 0;
    if (!r)
        return NULL;
    if (access & IBV_ACCESS_LOCAL_WRITE && !pages_populate(at, len)) {
        object_free(r);
        return NULL;
    }
    r->sum = setting("SOFT_VERBS_CHECK") ? soft_pages_sum(at, len) : 0;
    pthread_mutex_lock(&soft.lock);
    while (index < SOFT_REGIONS && soft.regions[index])
        index++;
    bool full = index == SOFT_REGIONS || (limit && soft.registered + len > (size_t)limit);
    if (!full) {
        r->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = at, .length = len, .lkey = index + 1, .rkey = 2};
        soft.regions[index] = r;
        soft.registered += len;
        soft.registrations++;
    }
    pthread_mutex_unlock(&soft.lock);
    if (!full)
        return &r->mr;
    object_free(r);
    errno = ENOMEM;
    return NULL;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&soft.lock);
    soft.registered -= mr->length;
    soft.regions[mr->lkey - 1] = NULL;
    pthread_mutex_unlock(&soft.lock);
    object_free(mr);
    return release_fails("dereg_mr");
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
    soft_channel_t *ch = object_new("create_comp_channel", sizeof *ch);
    struct epoll_event e = {.events = EPOLLIN};
    if (!ch)
        return NULL;
    ch->channel.context = c;
    ch->channel.fd = epoll_create1(EPOLL_CLOEXEC);
    ch->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_ctl(ch->channel.fd, EPOLL_CTL_ADD, ch->bell, &e);
    return &ch->channel;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
    close(ch->fd);
    close(((soft_channel_t *)ch)->bell);
    object_free(ch);
    return release_fails("destroy_comp_channel");
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *c, int n, void *arg, struct ibv_comp_channel *ch, int vector)
{
    soft_cq_t *cq = object_new("create_cq", sizeof *cq);
    (void)vector;
    if (!cq)
        return NULL;
    cq->cq.context = c;
    cq->cq.channel = ch;
    cq->cq.cq_context = arg;
    cq->cq.cqe = n;
    ((soft_channel_t *)ch)->cq = &cq->cq;
    return &cq->cq;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *base)
{
    free(((soft_cq_t *)base)->wc);
    object_free(base);
    return release_fails("destroy_cq");
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **arg)
{
    eventfd_t n;
    *cq = ((soft_channel_t *)ch)->cq; /* one queue on a channel */
    *arg = (*cq)->cq_context;
    if (soft_fails("get_cq_event"))
        return -1;
    if (eventfd_read(((soft_channel_t *)ch)->bell, &n)) {
        errno = EAGAIN;
        return -1;
    }
    pthread_mutex_lock(&soft.lock);
    soft.objects++; /* until it is acknowledged */
    pthread_mutex_unlock(&soft.lock);
    return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    (void)cq;
    pthread_mutex_lock(&soft.lock);
    soft.objects -= (int)n;
    pthread_mutex_unlock(&soft.lock);
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    soft_srq_t *srq = object_new("create_srq", sizeof *srq);
    (void)attr;
    if (!srq)
        return NULL;
    srq->srq.context = pd->context;
    srq->srq.pd = pd;
    srq->last = &srq->first;
    return &srq->srq;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *base)
{
    soft_srq_t *srq = (soft_srq_t *)base;
    for (soft_recv_t *r; (r = srq->first);) {
        srq->first = r->next;
        free(r);
    }
    object_free(srq);
    return release_fails("destroy_srq");
}

static struct sockaddr_un pair_name(uint32_t number, socklen_t *len)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int n = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "soft_verbs.%u", number);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    return at;
}

/* Make the socket of a pair, with a number that no other process has. */
static bool pair_open(soft_pair_t *p)
{
    int on = 1;
    p->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(p->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    for (uint32_t i = 0; p->fd >= 0 && i < 4096; i++) {
        socklen_t len;
        p->qp.qp_num = ((uint32_t)getpid() * 4096 + (uint32_t)soft.n_pairs + i) & 0xffffff;
        struct sockaddr_un at = pair_name(p->qp.qp_num, &len);
        if (!bind(p->fd, (struct sockaddr *)&at, len))
            return true;
    }
    return false;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    long limit = setting("SOFT_VERBS_PAIRS");
    soft_pair_t *p = object_new("create_qp", sizeof *p);
    if (!p)
        return NULL;
    p->qp = (struct ibv_qp){.context = pd->context,
                            .pd = pd,
                            .send_cq = init->send_cq,
                            .recv_cq = init->recv_cq,
                            .srq = init->srq,
                            .qp_type = init->qp_type};
    p->pending_last = &p->pending;
    p->set = init->send_cq->channel->fd;
    pthread_mutex_lock(&soft.lock);
    bool ok = (!limit || soft.n_pairs < limit) && pair_open(p);
    struct epoll_event e = {.events = EPOLLIN};
    if (ok) {
        epoll_ctl(p->set, EPOLL_CTL_ADD, p->fd, &e);
        p->next = soft.pairs;
        soft.pairs = p;
        soft.n_pairs++;
    }
    pthread_mutex_unlock(&soft.lock);
    if (ok)
        return &p->qp;
    object_free(p);
    errno = ENOMEM;
    return NULL;
}

void soft_pair_join(uint32_t number, uint32_t peer)
{
    socklen_t len;
    struct sockaddr_un at = pair_name(peer, &len);
    for (soft_pair_t *p = soft.pairs; p; p = p->next)
        if (p->qp.qp_num == number) {
            p->failed = connect(p->fd, (struct sockaddr *)&at, len) != 0;
            p->qp.state = IBV_QPS_RTS;
        }
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    soft_pair_t *p = (soft_pair_t *)qp;
    socklen_t len;
    if (soft_fails("modify_qp"))
        return ENOMEM;
    pthread_mutex_lock(&soft.lock);
    if (mask & IBV_QP_DEST_QPN) {
        struct sockaddr_un at = pair_name(attr->dest_qp_num, &len);
        if (connect(p->fd, (struct sockaddr *)&at, len))
            p->failed = true;
    }
    qp->state = attr->qp_state;
    pthread_mutex_unlock(&soft.lock);
    return 0;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    soft_pair_t *p = (soft_pair_t *)qp, **at = &soft.pairs;
    pthread_mutex_lock(&soft.lock);
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    soft.n_pairs--;
    close(p->fd);
    for (soft_pending_t *s; (s = p->pending);) {
        p->pending = s->next;
        free(s);
    }
    pthread_mutex_unlock(&soft.lock);
    object_free(p);
    return release_fails("destroy_qp");
}

EXPORT int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
    eventfd_t n;
    if (soft_fails("get_async_event"))
        return -1;
    if (eventfd_read(c->async_fd, &n))
        return -1;
    pthread_mutex_lock(&soft.lock);
    soft.objects++; /* until it is acknowledged */
    pthread_mutex_unlock(&soft.lock);
    *event = (struct ibv_async_event){.event_type = (enum ibv_event_type)setting("SOFT_VERBS_EVENT")};
    return 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
    pthread_mutex_lock(&soft.lock);
    soft.objects--;
    pthread_mutex_unlock(&soft.lock);
}

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS: return "success";
    case IBV_WC_RETRY_EXC_ERR: return "transport retry counter exceeded";
    case IBV_WC_WR_FLUSH_ERR: return "Work Request Flushed Error";
    case IBV_WC_REM_ACCESS_ERR: return "remote access error";
    case IBV_WC_FATAL_ERR: return "fatal error";
    default: return "an error";
    }
}

EXPORT const char *ibv_event_type_str(enum ibv_event_type event)
{
    return event == IBV_EVENT_DEVICE_FATAL ? "local catastrophic error" : "an event";
}

EXPORT const char *ibv_port_state_str(enum ibv_port_state state)
{
    (void)state;
    return "a state";
}
