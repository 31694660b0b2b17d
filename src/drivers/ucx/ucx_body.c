/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: bodies that UCX's rendezvous writes to their destination.  The next packets of the link wait until a body ends. */
#include "drivers/ucx/ucx.h"

#include <stdlib.h>

/* Called in ucp_worker_progress. */
static void body_written(void *request, ucs_status_t status, size_t len, void *arg)
{
    ucx_body_t *body = arg;
    (void)len;
    if (!body->link) { /* ucx_body_forget has cleared the link, so the adapter is ending */
        free(body);
        return;
    }
    ucx_adapter_t *a = ucx_of(body->link);
    a->lib->request_free(request);
    body->status = status;
    body->ended = true;
    body->next = a->bodies;
    a->bodies = body;
}

/* Deliver a body that has ended, which is in no list. */
static void ucx_body_end(ucx_link_t *l, ucx_body_t *body)
{
    ucs_status_t status = body->status;
    free(body);
    l->base.receiving = NULL;
    if (status != UCS_OK) {
        fabric_send_failed(&l->base, status);
        return;
    }
    l->base.end.got++;
    madi_rx_done(&l->base.link, &l->base.hdr, &l->base.rx);
    if (!l->base.closed)
        ucx_early_run(&l->base);
}

void ucx_body_begin(ucx_link_t *l, void *desc)
{
    ucx_adapter_t *a = ucx_of(l);
    ucx_body_t *body = calloc(1, sizeof *body);
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.recv_am = body_written,
        .user_data = body,
    };
    if (!body) {
        ucx_body_drop(a, desc);
        fabric_link_down(&l->base, MAD_ERR_NOMEM, "no memory for a packet");
        return;
    }
    body->link = l;
    l->base.receiving = body;
    madi_lock(&a->io);
    ucs_status_ptr_t request = a->lib->am_recv_data(a->worker, desc, l->base.rx.base, l->base.hdr.length, &param);
    madi_unlock(&a->io);
    if (UCS_PTR_IS_PTR(request))
        return;
    body->status = UCS_PTR_RAW_STATUS(request);
    ucx_body_end(l, body);
}

void ucx_body_drop(ucx_adapter_t *a, void *desc)
{
    madi_lock(&a->io);
    if (a->worker)
        a->lib->am_data_release(a->worker, desc);
    madi_unlock(&a->io);
}

int ucx_bodies_land(ucx_adapter_t *a)
{
    int n = 0;
    for (ucx_body_t *body; (body = a->bodies); n++) {
        a->bodies = body->next;
        ucx_body_end(body->link, body);
    }
    return n;
}

void ucx_body_forget(ucx_link_t *l)
{
    ucx_adapter_t *a = ucx_of(l);
    ucx_body_t *body = l->base.receiving;
    l->base.receiving = NULL;
    if (!body)
        return;
    body->link = NULL;
    if (!body->ended)
        return;
    ucx_body_t **p = &a->bodies;
    while (*p != body)
        p = &(*p)->next;
    *p = body->next;
    free(body);
}
