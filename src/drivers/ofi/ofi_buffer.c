/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: the posted receive buffers.  They belong to the adapter, since the provider chooses one for each message.
 *
 *   posted --(message)--> used --(ofi_buffer_put)---------> spent --(ofi_buffers_post)--> posted
 *                           \--(lent; ofi_slot_put)--> returned --/
 *
 * While buffers are lent, or hold packets that wait for their turn, further ones are made, up to OFI_BUFFERS_MAX, or until one
 * cannot be registered.  Then packets wait in copies, so a peer whose packets wait leaves buffers for others.
 * A buffer also serves to read a body whose destination cannot be registered (ofi_receive.c). */
#include "drivers/ofi/ofi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool buffer_make(ofi_adapter_t *a)
{
    ofi_buffer_t *b = a->n_buffers < a->max_buffers ? aligned_alloc(MADI_LINE, sizeof *b) : NULL;
    if (!b)
        return false;
    *b = (ofi_buffer_t){.all = a->all_buffers, .context = {.use = OFI_USE_BUFFER, .object = b}};
    if (ofi_memory_register_local(a, b->data, OFI_PACKET_MAX, FI_RECV | FI_READ, &b->mr)) {
        a->max_buffers = a->n_buffers;
        free(b);
        return false;
    }
    a->all_buffers = b;
    a->n_buffers++;
    ofi_buffer_put(a, b);
    return true;
}

mad_status_t ofi_buffers_open(ofi_adapter_t *a, char *reason)
{
    a->max_buffers = OFI_BUFFERS_MAX;
    ofi_buffers_post(a);
    if (a->n_posted)
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "no receive buffer could be posted");
    return MAD_ERR_NOMEM;
}

/* Collect the buffers whose loans have ended. */
static void returned_collect(ofi_adapter_t *a)
{
    ofi_buffer_t *next;
    if (!atomic_load_explicit(&a->returned, memory_order_relaxed))
        return;
    /* pairs with ofi_slot_put */
    for (ofi_buffer_t *b = atomic_exchange_explicit(&a->returned, NULL, memory_order_acquire); b; b = next) {
        next = b->next;
        ofi_buffer_put(a, b);
    }
}

void ofi_buffers_fini(ofi_adapter_t *a)
{
    returned_collect(a); /* which frees copies */
    for (ofi_buffer_t *b; (b = a->all_buffers);) {
        a->all_buffers = b->all;
        ofi_memory_forget(a, &b->mr);
        free(b);
    }
    a->spent = NULL;
    a->n_buffers = a->n_posted = a->n_spent = 0;
}

void ofi_buffer_put(ofi_adapter_t *a, ofi_buffer_t *buffer)
{
    if (MADI_UNLIKELY(buffer->is_copy)) {
        free(buffer);
        return;
    }
    buffer->next = a->spent;
    a->spent = buffer;
    a->n_spent++;
}

void ofi_buffers_post(ofi_adapter_t *a)
{
    returned_collect(a);
    while (a->n_posted + a->n_spent < OFI_BUFFERS && buffer_make(a))
        continue;
    ssize_t rc = 0;
    madi_lock(&a->io);
    while (a->ep && a->n_posted < OFI_BUFFERS && a->spent) {
        ofi_buffer_t *b = a->spent;
        rc = fi_recv(a->ep, b->data, OFI_PACKET_MAX, ofi_memory_desc(b->mr), FI_ADDR_UNSPEC, &b->context);
        if (rc)
            break; /* the next poll tries again */
        a->spent = b->next;
        a->n_spent--;
        a->n_posted++;
    }
    madi_unlock(&a->io);
    if (rc && rc != -FI_EAGAIN && !a->n_posted && !a->base.broken)
        ofi_links_fail(a, "no receive buffer can be posted", (int)-rc, true);
}

bool ofi_buffer_lend(ofi_adapter_t *a)
{
    if (a->n_posted + a->n_spent <= OFI_BUFFERS / 2)
        returned_collect(a);
    return a->n_posted + a->n_spent > OFI_BUFFERS / 2 || a->n_buffers < a->max_buffers;
}

ofi_buffer_t *ofi_buffer_keep(ofi_adapter_t *a, ofi_buffer_t *b)
{
    size_t size = offsetof(ofi_buffer_t, data) + (b->len + 2 * MADI_LINE - 1) / MADI_LINE * MADI_LINE;
    ofi_buffer_t *copy = ofi_buffer_lend(a) ? NULL : aligned_alloc(MADI_LINE, size);
    if (!copy)
        return b;
    memcpy(copy, b, offsetof(ofi_buffer_t, data) + b->len);
    copy->mr = NULL;
    copy->is_copy = true;
    ofi_buffer_put(a, b);
    return copy;
}

void ofi_slot_put(madi_link_t *link, madi_foreign_t loan)
{
    ofi_adapter_t *a = (ofi_adapter_t *)link->adapter;
    char *body = madi_foreign_pass_on(loan);
    ofi_buffer_t *b =
        MADI_CONTAINER((char(*)[OFI_PACKET_MAX + MADI_LINE])(body - sizeof(madi_wire_hdr_t)), ofi_buffer_t, data);
    b->next = atomic_load_explicit(&a->returned, memory_order_relaxed);
    /* release: the last read of the body; pairs with returned_collect, which takes the whole list */
    while (!atomic_compare_exchange_weak_explicit(&a->returned, &b->next, b, memory_order_release, memory_order_relaxed))
        continue;
}
