/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft_verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

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

int soft_poll_cq(struct ibv_cq *base, int n, struct ibv_wc *wc)
{
    soft_cq_t *cq = (soft_cq_t *)base;
    pthread_mutex_lock(&soft.lock);
    for (soft_pair_t *p = soft.pairs; p; p = p->next)
        if (p->qp.send_cq == base && p->qp.state == IBV_QPS_RTS)
            pair_progress(p);
    n = n < cq->n ? n : cq->n;
    if (soft_fails_locked("poll_cq"))
        n = -EIO;
    for (int i = 0; i < n; i++)
        if (soft_fails_locked("completion"))
            cq->wc[i].status = IBV_WC_FATAL_ERR;
    if (n < 0) {
        pthread_mutex_unlock(&soft.lock);
        return n;
    }
    if (n)
        memcpy(wc, cq->wc, (size_t)n * sizeof *wc);
    cq->n -= n;
    if (n)
        memmove(cq->wc, cq->wc + n, (size_t)cq->n * sizeof *wc);
    pthread_mutex_unlock(&soft.lock);
    return n;
}

int soft_req_notify_cq(struct ibv_cq *base, int solicited)
{
    (void)solicited;
    if (soft_fails("req_notify_cq"))
        return ENOMEM;
    pthread_mutex_lock(&soft.lock);
    ((soft_cq_t *)base)->armed = true;
    pthread_mutex_unlock(&soft.lock);
    return 0;
}

/* ---- Work ---------------------------------------------------------------------------------------------------------- */

int soft_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    soft_srq_t *srq = (soft_srq_t *)base;
    (void)bad;
    if (soft_fails("post_srq_recv"))
        return ENOMEM;
    pthread_mutex_lock(&soft.lock);
    for (; wr; wr = wr->next) {
        soft_recv_t *r = calloc(1, sizeof *r);
        if (!r)
            abort();
        r->id = wr->wr_id;
        r->sge = *wr->sg_list;
        *srq->last = r;
        srq->last = &r->next;
    }
    pthread_mutex_unlock(&soft.lock);
    return 0;
}

/* True if the memory of a read is registered, and its pages are those that were registered. */
static bool destination_is_valid(const struct ibv_sge *sge)
{
    const soft_region_t *r = sge->lkey - 1 < SOFT_REGIONS ? soft.regions[sge->lkey - 1] : NULL;
    return r && sge->addr >= (uintptr_t)r->mr.addr && sge->addr + sge->length <= (uintptr_t)r->mr.addr + r->mr.length &&
           (!r->sum || r->sum == soft_pages_sum(r->mr.addr, r->mr.length));
}

/* Read the other side's memory.  If the process there is gone, report that as a device does that gets no answers. */
static enum ibv_wc_status memory_read(const soft_pair_t *p, const struct iovec *to, const struct iovec *from)
{
    ssize_t n = process_vm_readv(p->peer, to, 1, from, 1, 0);
    if (n == (ssize_t)to->iov_len)
        return IBV_WC_SUCCESS;
    return n < 0 && errno == ESRCH ? IBV_WC_RETRY_EXC_ERR : IBV_WC_REM_ACCESS_ERR;
}

static void pair_read(soft_pair_t *p, const struct ibv_send_wr *wr)
{
    enum ibv_wc_status status;
    struct iovec to = {(void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length};
    struct iovec from = {(void *)(uintptr_t)wr->wr.rdma.remote_addr, wr->sg_list->length};
    if (p->failed)
        pair_fail(p, wr->wr_id, IBV_WC_WR_FLUSH_ERR);
    else if (!destination_is_valid(wr->sg_list))
        pair_fail(p, wr->wr_id, IBV_WC_LOC_PROT_ERR);
    else if ((status = memory_read(p, &to, &from)))
        pair_fail(p, wr->wr_id, status);
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

int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)bad;
    if (soft_fails("post_send"))
        return ENOMEM;
    if (qp->state != IBV_QPS_RTS)
        return EINVAL;
    pthread_mutex_lock(&soft.lock);
    soft.posts++;
    for (; wr; wr = wr->next) {
        *(wr->opcode == IBV_WR_RDMA_READ ? &soft.bytes_read : &soft.bytes_sent) += wr->sg_list->length;
        pair_post((soft_pair_t *)qp, wr);
    }
    pthread_mutex_unlock(&soft.lock);
    return 0;
}
