/* SPDX-License-Identifier: BSD-3-Clause */
/* A libibverbs for tests, of one RDMA device without hardware: queue pairs of processes of one host.  It has what
 * drivers/verbs uses and nothing else, so that the conformance suite runs over that driver on any host.
 *
 * The device is soft0, its GID that of 127.0.0.1.  A queue pair is a UNIX datagram socket with its number as the name; a send
 * is a datagram.  RDMA reads are process_vm_readv from the process that has sent the last datagram.  The descriptor of a
 * completion channel is an epoll set of all these sockets.  One lock protects everything.
 *
 * At its end a process reports the objects that it has left.  Variables: SOFT_VERBS_FAIL=N, the N-th call that creates an
 * object or registers memory fails; SOFT_VERBS_PAIRS=N, maximum number of queue pairs; SOFT_VERBS_MEMORY=N, maximum number
 * of registered bytes; SOFT_VERBS_COUNT=1, the end reports posts and bytes, too. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* verbs.h has macros and inline functions of these names. */
#undef ibv_reg_mr
#undef ibv_query_port
#undef ibv_get_device_list

#define EXPORT __attribute__((visibility("default")))
#define MESSAGE_MAX 65536

typedef struct soft_cq {
    struct ibv_cq cq;
    struct ibv_wc *wc;
    int n, room;
    bool armed, event;
} soft_cq_t;

typedef struct soft_recv {
    struct soft_recv *next;
    uint64_t id;
    struct ibv_sge sge;
} soft_recv_t;
typedef struct soft_srq {
    struct ibv_srq srq;
    soft_recv_t *first, **last;
} soft_srq_t;

typedef struct soft_pending {
    struct soft_pending *next;
    uint64_t id;
    bool signaled;
    size_t len;
    char data[];
} soft_pending_t;
typedef struct soft_pair {
    struct ibv_qp qp;
    struct soft_pair *next;
    int fd, set;
    pid_t peer;
    bool failed, all_out;
    soft_pending_t *pending, **pending_last;
} soft_pair_t;

typedef struct soft_channel {
    struct ibv_comp_channel channel;
    int bell;
    struct ibv_cq *cq;
} soft_channel_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static soft_pair_t *pairs;
static int n_pairs, calls, objects;
static size_t registered, posts, bytes_sent, bytes_read;
static struct ibv_device device = {.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "soft0"};

static long setting(const char *name)
{
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

/* True if this call has to fail; sets errno. */
static bool fails(void)
{
    pthread_mutex_lock(&lock);
    bool this_one = ++calls == setting("SOFT_VERBS_FAIL");
    pthread_mutex_unlock(&lock);
    errno = ENOMEM;
    return this_one;
}

/* Return a new object of the library; NULL if this call has to fail. */
static void *object_new(size_t size)
{
    void *object = fails() ? NULL : calloc(1, size);
    pthread_mutex_lock(&lock);
    objects += object != NULL;
    pthread_mutex_unlock(&lock);
    return object;
}

static void object_free(void *object)
{
    pthread_mutex_lock(&lock);
    objects--;
    pthread_mutex_unlock(&lock);
    free(object);
}

__attribute__((destructor)) static void objects_report(void)
{
    if (objects)
        fprintf(stderr, "soft_verbs: process %d has left %d objects\n", (int)getpid(), objects);
    if (setting("SOFT_VERBS_COUNT"))
        fprintf(stderr, "soft_verbs: %zu posts, %zu bytes sent, %zu bytes read\n", posts, bytes_sent, bytes_read);
}

/* ---- Completions ---------------------------------------------------------------------------------------------------- */

static void completion_add(soft_cq_t *cq, struct ibv_wc wc)
{
    if (cq->n == cq->room) {
        cq->room = cq->room ? 2 * cq->room : 64;
        cq->wc = realloc(cq->wc, (size_t)cq->room * sizeof *cq->wc);
        if (!cq->wc)
            abort();
    }
    cq->wc[cq->n++] = wc;
    if (cq->armed) {
        eventfd_write(((soft_channel_t *)cq->cq.channel)->bell, 1);
        cq->armed = false;
        cq->event = true;
    }
}

static void pair_watch(soft_pair_t *p, bool out)
{
    struct epoll_event e = {.events = EPOLLIN | (out ? EPOLLOUT : 0)};
    if (p->all_out != out)
        epoll_ctl(p->set, EPOLL_CTL_MOD, p->fd, &e);
    p->all_out = out;
}

static void pair_fail(soft_pair_t *p, uint64_t id, enum ibv_wc_status status)
{
    p->failed = true;
    completion_add((soft_cq_t *)p->qp.send_cq, (struct ibv_wc){.wr_id = id, .status = status, .qp_num = p->qp.qp_num});
}

/* Send a datagram.  False if there is no room. */
static bool pair_send(soft_pair_t *p, uint64_t id, bool signaled, const void *data, size_t len)
{
    if (p->failed) {
        pair_fail(p, id, IBV_WC_WR_FLUSH_ERR);
        return true;
    }
    if (send(p->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        if (errno == EAGAIN || errno == ENOBUFS)
            return false;
        pair_fail(p, id, IBV_WC_RETRY_EXC_ERR);
        return true;
    }
    if (signaled)
        completion_add((soft_cq_t *)p->qp.send_cq,
                       (struct ibv_wc){.wr_id = id, .opcode = IBV_WC_SEND, .qp_num = p->qp.qp_num});
    return true;
}

static void pair_progress(soft_pair_t *p)
{
    soft_srq_t *srq = (soft_srq_t *)p->qp.srq;
    for (soft_pending_t *s; (s = p->pending);) {
        if (!pair_send(p, s->id, s->signaled, s->data, s->len))
            break;
        p->pending = s->next;
        free(s);
    }
    if (!p->pending)
        p->pending_last = &p->pending;
    pair_watch(p, p->pending);
    while (srq->first) {
        soft_recv_t *r = srq->first;
        union {
            char buf[CMSG_SPACE(sizeof(struct ucred))];
            struct cmsghdr head;
        } control;
        struct iovec to = {(void *)(uintptr_t)r->sge.addr, r->sge.length};
        struct msghdr msg = {.msg_iov = &to, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        ssize_t n = recvmsg(p->fd, &msg, MSG_DONTWAIT);
        if (n < 0)
            return;
        struct ucred from;
        memcpy(&from, CMSG_DATA(&control.head), sizeof from);
        p->peer = from.pid;
        srq->first = r->next;
        if (!srq->first)
            srq->last = &srq->first;
        completion_add((soft_cq_t *)p->qp.recv_cq,
                       (struct ibv_wc){.wr_id = r->id,
                                       .status = msg.msg_flags & MSG_TRUNC ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS,
                                       .opcode = IBV_WC_RECV,
                                       .byte_len = (uint32_t)n,
                                       .qp_num = p->qp.qp_num});
        free(r);
    }
}

static int soft_poll_cq(struct ibv_cq *base, int n, struct ibv_wc *wc)
{
    soft_cq_t *cq = (soft_cq_t *)base;
    pthread_mutex_lock(&lock);
    for (soft_pair_t *p = pairs; p; p = p->next)
        if (p->qp.send_cq == base && p->qp.state == IBV_QPS_RTS)
            pair_progress(p);
    n = n < cq->n ? n : cq->n;
    if (n)
        memcpy(wc, cq->wc, (size_t)n * sizeof *wc);
    cq->n -= n;
    if (n)
        memmove(cq->wc, cq->wc + n, (size_t)cq->n * sizeof *wc);
    pthread_mutex_unlock(&lock);
    return n;
}

static int soft_req_notify_cq(struct ibv_cq *base, int solicited)
{
    (void)solicited;
    pthread_mutex_lock(&lock);
    ((soft_cq_t *)base)->armed = true;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- Work ---------------------------------------------------------------------------------------------------------- */

static int soft_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    soft_srq_t *srq = (soft_srq_t *)base;
    (void)bad;
    pthread_mutex_lock(&lock);
    for (; wr; wr = wr->next) {
        soft_recv_t *r = calloc(1, sizeof *r);
        if (!r)
            abort();
        r->id = wr->wr_id;
        r->sge = *wr->sg_list;
        *srq->last = r;
        srq->last = &r->next;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static void pair_read(soft_pair_t *p, const struct ibv_send_wr *wr)
{
    struct iovec to = {(void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length};
    struct iovec from = {(void *)(uintptr_t)wr->wr.rdma.remote_addr, wr->sg_list->length};
    if (p->failed)
        pair_fail(p, wr->wr_id, IBV_WC_WR_FLUSH_ERR);
    else if (process_vm_readv(p->peer, &to, 1, &from, 1, 0) != (ssize_t)to.iov_len)
        pair_fail(p, wr->wr_id, IBV_WC_REM_ACCESS_ERR);
    else if (wr->send_flags & IBV_SEND_SIGNALED)
        completion_add((soft_cq_t *)p->qp.send_cq,
                       (struct ibv_wc){.wr_id = wr->wr_id, .opcode = IBV_WC_RDMA_READ, .qp_num = p->qp.qp_num});
}

static void pair_post(soft_pair_t *p, const struct ibv_send_wr *wr)
{
    const void *data = (void *)(uintptr_t)wr->sg_list->addr;
    size_t len = wr->sg_list->length;
    bool signaled = wr->send_flags & IBV_SEND_SIGNALED;
    if (wr->opcode == IBV_WR_RDMA_READ) {
        pair_read(p, wr);
        return;
    }
    if (!p->pending && pair_send(p, wr->wr_id, signaled, data, len))
        return;
    soft_pending_t *s = malloc(sizeof *s + len);
    if (!s)
        abort();
    *s = (soft_pending_t){.id = wr->wr_id, .signaled = signaled, .len = len};
    memcpy(s->data, data, len);
    *p->pending_last = s;
    p->pending_last = &s->next;
    pair_watch(p, true);
}

static int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)bad;
    if (qp->state != IBV_QPS_RTS)
        return EINVAL;
    pthread_mutex_lock(&lock);
    posts++;
    for (; wr; wr = wr->next) {
        *(wr->opcode == IBV_WR_RDMA_READ ? &bytes_read : &bytes_sent) += wr->sg_list->length;
        pair_post((soft_pair_t *)qp, wr);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

EXPORT struct ibv_device **ibv_get_device_list(int *n)
{
    struct ibv_device **list = calloc(2, sizeof *list);
    if (list)
        list[0] = &device;
    *n = list ? 1 : 0;
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
    struct ibv_context *c = object_new(sizeof *c);
    if (!c)
        return NULL;
    c->device = d;
    c->async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
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
    return 0;
}

EXPORT int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
    (void)c;
    *attr = (struct ibv_device_attr){
        .phys_port_cnt = 1, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16, .max_srq_wr = 32768, .max_cqe = 32767};
    return 0;
}

EXPORT int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    struct ibv_port_attr *a = (struct ibv_port_attr *)attr;
    (void)c;
    (void)port;
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
    memcpy(entry->gid.raw, gid, sizeof gid);
    entry->gid_type = IBV_GID_TYPE_ROCE_V2;
    return index ? ENODATA : 0;
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
    struct ibv_pd *pd = object_new(sizeof *pd);
    if (pd)
        pd->context = c;
    return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    object_free(pd);
    return 0;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t len, int access)
{
    long limit = setting("SOFT_VERBS_MEMORY");
    (void)access;
    pthread_mutex_lock(&lock);
    registered += len;
    bool full = limit && registered > (size_t)limit;
    if (full)
        registered -= len;
    pthread_mutex_unlock(&lock);
    struct ibv_mr *mr = full ? NULL : object_new(sizeof *mr);
    if (mr)
        *mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = at, .length = len, .lkey = 1, .rkey = 2};
    errno = ENOMEM;
    return mr;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&lock);
    registered -= mr->length;
    pthread_mutex_unlock(&lock);
    object_free(mr);
    return 0;
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
    soft_channel_t *ch = object_new(sizeof *ch);
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
    return 0;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *c, int n, void *arg, struct ibv_comp_channel *ch, int vector)
{
    soft_cq_t *cq = object_new(sizeof *cq);
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
    return 0;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **arg)
{
    eventfd_t n;
    *cq = ((soft_channel_t *)ch)->cq; /* one queue on a channel */
    *arg = (*cq)->cq_context;
    errno = EAGAIN;
    return eventfd_read(((soft_channel_t *)ch)->bell, &n) ? -1 : 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    (void)cq;
    (void)n;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    soft_srq_t *srq = object_new(sizeof *srq);
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
    return 0;
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
        p->qp.qp_num = ((uint32_t)getpid() * 4096 + (uint32_t)n_pairs + i) & 0xffffff;
        struct sockaddr_un at = pair_name(p->qp.qp_num, &len);
        if (!bind(p->fd, (struct sockaddr *)&at, len))
            return true;
    }
    return false;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    long limit = setting("SOFT_VERBS_PAIRS");
    soft_pair_t *p = object_new(sizeof *p);
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
    pthread_mutex_lock(&lock);
    bool ok = (!limit || n_pairs < limit) && pair_open(p);
    struct epoll_event e = {.events = EPOLLIN};
    if (ok) {
        epoll_ctl(p->set, EPOLL_CTL_ADD, p->fd, &e);
        p->next = pairs;
        pairs = p;
        n_pairs++;
    }
    pthread_mutex_unlock(&lock);
    if (ok)
        return &p->qp;
    object_free(p);
    errno = ENOMEM;
    return NULL;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    soft_pair_t *p = (soft_pair_t *)qp;
    socklen_t len;
    if (fails())
        return ENOMEM;
    pthread_mutex_lock(&lock);
    if (mask & IBV_QP_DEST_QPN) {
        struct sockaddr_un at = pair_name(attr->dest_qp_num, &len);
        if (connect(p->fd, (struct sockaddr *)&at, len))
            p->failed = true;
    }
    qp->state = attr->qp_state;
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    soft_pair_t *p = (soft_pair_t *)qp, **at = &pairs;
    pthread_mutex_lock(&lock);
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    n_pairs--;
    close(p->fd);
    for (soft_pending_t *s; (s = p->pending);) {
        p->pending = s->next;
        free(s);
    }
    pthread_mutex_unlock(&lock);
    object_free(p);
    return 0;
}

EXPORT int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
    (void)c;
    (void)event;
    errno = EAGAIN;
    return -1;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS: return "success";
    case IBV_WC_RETRY_EXC_ERR: return "transport retry counter exceeded";
    case IBV_WC_WR_FLUSH_ERR: return "Work Request Flushed Error";
    case IBV_WC_REM_ACCESS_ERR: return "remote access error";
    default: return "an error";
    }
}

EXPORT const char *ibv_event_type_str(enum ibv_event_type event)
{
    (void)event;
    return "an event";
}

EXPORT const char *ibv_port_state_str(enum ibv_port_state state)
{
    (void)state;
    return "a state";
}
