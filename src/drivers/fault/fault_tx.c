/* SPDX-License-Identifier: BSD-3-Clause */
/* fault: packets of the core, which are refused, sent later, or completed later. */
#include "drivers/fault/fault.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define WAITING 32 /* packets of one link */
#define RETRY 5000 /* ns until a packet that the inner driver refused is tried again */

static uint64_t vec_checksum(const struct iovec *vec, int n)
{
    uint64_t sum = 0, w;
    for (int i = 0; i < n; i++) {
        const unsigned char *p = vec[i].iov_base;
        size_t k = 0;
        for (; k + 8 <= vec[i].iov_len; k += 8) {
            memcpy(&w, p + k, 8);
            sum = (sum ^ w) * UINT64_C(0x9e3779b97f4a7c15);
        }
        for (; k < vec[i].iov_len; k++)
            sum = (sum ^ p[k]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return sum;
}

/* ---- Finishing ------------------------------------------------------------------------------------------------ */

static void finish_later(fault_out_t *p, mad_status_t status, int64_t due)
{
    fault_link_t *l = p->link;
    p->status = status;
    p->due = due;
    madi_lock(&l->late_lock);
    p->next = l->late;
    l->late = p;
    madi_unlock(&l->late_lock);
    fault_due(fault_of(l), due);
}

/* The inner driver has completed an op. */
static void inner_done(madi_op_t *op, mad_status_t status)
{
    fault_out_t *p = (fault_out_t *)op;
    fault_link_t *l = p->link;
    finish_later(p, status, l->closed ? 0 : fault_delay(fault_of(l), &l->dice, madi_now()));
}

/* Call done for the operations that are due.  Called without the tx lock, since done may send. */
static int finish_due(fault_link_t *l, int64_t now)
{
    fault_out_t *list, *p;
    int n = 0;
    madi_lock(&l->late_lock);
    list = l->late;
    l->late = NULL;
    madi_unlock(&l->late_lock);
    while ((p = list)) {
        list = p->next;
        if (p->due > now) {
            finish_later(p, p->status, p->due);
            continue;
        }
        p->user->done(p->user, p->status);
        free(p);
        atomic_fetch_sub_explicit(&l->pending, 1, memory_order_relaxed);
        n++;
    }
    return n;
}

/* ---- Sending -------------------------------------------------------------------------------------------------- */

static fault_out_t *out_new(fault_link_t *l, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    fault_out_t *p = malloc(sizeof *p + (size_t)n * sizeof *vec + (op ? 0 : total));
    unsigned char *to;
    if (!p)
        return NULL;
    *p = (fault_out_t){
        .op = {.done = inner_done, .last = op && op->last, .of = op ? op->of : 0, .shareable = op && op->shareable},
        .link = l,
        .user = op,
        .total = total,
        .n = op ? n : 1};
    if (op) { /* the bytes stay valid until done is called; the array does not */
        memcpy(p->vec, vec, (size_t)n * sizeof *vec);
        p->sum = vec_checksum(vec, n);
        return p;
    }
    to = (unsigned char *)(p->vec + n);
    p->vec[0] = (struct iovec){to, total};
    madi_copy_pieces(to, vec, n);
    return p;
}

static madi_sent_t inner_send(fault_link_t *l, fault_out_t *p)
{
    if (p->user && p->sum != vec_checksum(p->vec, p->n))
        madi_log(MADI_LOG_ERROR, "fault",
                 "a granted block changed before it had left: its sender broke its promise, or "
                 "it was reported complete too early");
    return l->inner->driver->send(l->inner, p->vec, p->n, p->total, p->user ? &p->op : NULL);
}

static madi_sent_t fault_enqueue(fault_link_t *l, fault_out_t *p, int64_t due)
{
    p->next = NULL;
    p->due = due;
    *l->out_tail = p;
    l->out_tail = &p->next;
    l->n_out++;
    if (!p->user)
        madi_link_holds(&l->base, 1);
    atomic_fetch_add_explicit(&l->pending, 1, memory_order_relaxed);
    fault_due(fault_of(l), due);
    madi_session_wake(l->base.adapter->session);
    return p->user ? MADI_TAKEN : MADI_SENT;
}

static madi_sent_t fault_refuse(fault_link_t *l)
{
    l->refused = true;
    fault_due(fault_of(l), fault_delay(fault_of(l), &l->tx_dice, madi_now()));
    madi_session_wake(l->base.adapter->session);
    return MADI_AGAIN;
}

/* Pass an operation to the inner driver immediately.  May return TAKEN even if the inner driver has already sent it. */
static madi_sent_t send_op(fault_link_t *l, fault_out_t *p, int64_t now)
{
    madi_sent_t sent = inner_send(l, p);
    int64_t due = fault_delay(fault_of(l), &l->tx_dice, now);
    if (sent == MADI_AGAIN || (sent == MADI_SENT && due <= now)) {
        free(p);
        return sent == MADI_AGAIN ? fault_refuse(l) : sent;
    }
    atomic_fetch_add_explicit(&l->pending, 1, memory_order_relaxed);
    if (sent == MADI_SENT) {
        finish_later(p, MAD_OK, due);
        madi_session_wake(l->base.adapter->session);
    }
    return MADI_TAKEN;
}

madi_sent_t fault_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    fault_link_t *l = (fault_link_t *)link;
    fault_adapter_t *a = fault_of(l);
    int64_t now = madi_now(), due = fault_delay(a, &l->tx_dice, now);
    madi_sent_t sent;
    fault_out_t *p;

    if (atomic_load_explicit(&l->cut, memory_order_relaxed) || l->n_out >= WAITING ||
        fault_chance(&l->tx_dice, a->plan.again))
        return fault_refuse(l);
    if (!l->out && due <= now && !op) {
        sent = l->inner->driver->send(l->inner, vec, n, total, NULL);
        if (sent == MADI_AGAIN)
            return fault_refuse(l);
        fault_count(l, &l->tx_dice);
        return sent;
    }
    p = out_new(l, vec, n, total, op);
    if (!p)
        return fault_refuse(l);
    fault_count(l, &l->tx_dice);
    if (l->out || due > now)
        return fault_enqueue(l, p, due);
    return send_op(l, p, now);
}

bool fault_send_short(madi_link_t *link, const void *packet, size_t total)
{
    struct iovec vec = {(void *)(uintptr_t)packet, total};
    return fault_send(link, &vec, 1, total, NULL) == MADI_SENT;
}

/* Send the packets that are due.  Under the tx lock. */
static int send_due(fault_link_t *l, int64_t now)
{
    fault_out_t *p;
    int n = 0;
    while ((p = l->out) && p->due <= now && !atomic_load_explicit(&l->cut, memory_order_relaxed)) {
        madi_sent_t sent = inner_send(l, p);
        if (sent == MADI_AGAIN) {
            p->due = now + RETRY;
            break;
        }
        l->out = p->next;
        if (!l->out)
            l->out_tail = &l->out;
        l->n_out--;
        n++;
        if (!p->user) {
            madi_link_holds(&l->base, -1);
            free(p);
            atomic_fetch_sub_explicit(&l->pending, 1, memory_order_relaxed);
        } else if (sent == MADI_SENT) {
            finish_later(p, MAD_OK, fault_delay(fault_of(l), &l->tx_dice, now));
        }
    }
    if (l->out)
        fault_due(fault_of(l), l->out->due);
    return n;
}

int fault_flush(fault_link_t *l, int64_t now)
{
    bool writable;
    int n;
    madi_link_lock_tx(&l->base);
    n = send_due(l, now);
    writable = l->refused && l->n_out < WAITING;
    if (writable)
        l->refused = false;
    madi_link_unlock_tx(&l->base);
    n += finish_due(l, now);
    if (writable && !l->closed)
        madi_link_writable(&l->base);
    return n;
}

bool fault_drained(madi_link_t *link)
{
    fault_link_t *l = (fault_link_t *)link;
    if (atomic_load_explicit(&l->pending, memory_order_relaxed))
        return false;
    return !l->inner->driver->live.drained || l->inner->driver->live.drained(l->inner);
}

void fault_acknowledge(madi_link_t *link)
{
    fault_link_t *l = (fault_link_t *)link;
    if (l->inner->driver->live.acknowledge)
        l->inner->driver->live.acknowledge(l->inner);
}

void fault_tx_end(fault_link_t *l)
{
    fault_out_t *p;
    while ((p = l->out)) {
        l->out = p->next;
        if (p->user)
            finish_later(p, MAD_ERR_PEER, 0);
        else {
            madi_link_holds(&l->base, -1);
            free(p);
        }
    }
    l->out_tail = &l->out;
    l->n_out = 0;
    finish_due(l, INT64_MAX);
}
