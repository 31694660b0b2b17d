/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: bodies of long packets, which this side reads straight to their destination.  All functions are called under the
 * session's lock.  A part whose memory cannot be registered is read to the buffer of the header, piece by piece, and copied. */
#include "drivers/ofi/ofi.h"

#include <stdlib.h>
#include <string.h>

/* Post the read of a part, straight to its destination.  Under io.  0, -FI_EAGAIN or another negative error; by_buffer: the
 * part has to be read to the buffer. */
static ssize_t part_post(ofi_adapter_t *a, ofi_body_t *body, int i)
{
    if (!a->ep)
        return -FI_ESHUTDOWN;
    if (a->memory.local && !body->part[i].mr) {
        body->refused = ofi_memory_register(a, body->part[i].at, body->part[i].len, FI_READ, &body->part[i].mr);
        body->by_buffer = body->refused != 0;
        if (body->by_buffer) {
            body->part[i].mr = NULL;
            return body->refused;
        }
    }
    ssize_t rc = fi_read(a->ep, body->part[i].at, body->part[i].len, ofi_memory_desc(body->part[i].mr), body->from,
                         body->part[i].segment.at, body->part[i].segment.key, &body->part[i].context);
    if (ofi_memory_is_cause(rc)) {
        body->refused = (int)rc;
        body->by_buffer = true;
    }
    return rc;
}

/* Post the read of a part's next bytes to the buffer.  Like part_post. */
static ssize_t bounce_post(ofi_adapter_t *a, ofi_body_t *body, int i)
{
    if (!body->buffer) /* the header has waited in a copy */
        return -FI_ENOMEM;
    size_t left = body->part[i].len - body->bounced;
    body->length = left < OFI_PACKET_MAX ? left : OFI_PACKET_MAX;
    body->bounce = (ofi_context_t){.use = OFI_USE_BOUNCE, .object = body};
    return a->ep ? fi_read(a->ep, body->buffer->data, body->length, ofi_memory_desc(body->buffer->mr), body->from,
                           body->part[i].segment.at + body->bounced, body->part[i].segment.key, &body->bounce)
                 : -FI_ESHUTDOWN;
}

/* Give up the parts that are not posted. */
static void body_cut(ofi_body_t *body)
{
    body->left -= body->parts - body->unposted;
    body->parts = body->unposted;
}

/* Post the reads that the provider has not taken.  Under io.  Returns the number of those taken. */
static int body_post(ofi_adapter_t *a, ofi_body_t *body)
{
    int n = 0;
    while (body->unposted < body->parts && !body->bouncing) {
        int i = body->unposted;
        ssize_t rc = body->by_buffer ? 0 : part_post(a, body, i);
        if (body->by_buffer)
            rc = bounce_post(a, body, i);
        if (rc == -FI_EAGAIN)
            break;
        if (rc) { /* the link ends, and with it this body */
            body->failed = true;
            body_cut(body);
            break;
        }
        body->bouncing = body->by_buffer;
        if (!body->by_buffer) {
            body->unposted++;
            body->flying++;
        }
        n++;
    }
    return n;
}

static void body_unlink(ofi_adapter_t *a, ofi_body_t *body)
{
    ofi_body_t **p = &a->bodies;
    while (*p != body)
        p = &(*p)->next;
    *p = body->next;
}

/* Free a body that is in no list. */
static void body_free(ofi_adapter_t *a, ofi_body_t *body)
{
    madi_lock(&a->io);
    for (int i = 0; i < OFI_GATHER; i++)
        ofi_memory_forget(a, &body->part[i].mr);
    madi_unlock(&a->io);
    if (body->buffer)
        ofi_buffer_put(a, body->buffer);
    free(body->scratch);
    free(body);
}

/* End a body of which nothing is under way any more. */
static void body_end(ofi_adapter_t *a, ofi_body_t *body)
{
    ofi_link_t *l = body->link;
    bool failed = body->failed, dropped = body->scratch != NULL;
    uint32_t id = body->part[0].segment.id;
    body_unlink(a, body);
    body_free(a, body);
    if (!l)
        return;
    l->base.receiving = NULL;
    if (failed) {
        fabric_link_down(&l->base, MAD_ERR_PEER, "libfabric could not read the body of a packet");
        return;
    }
    l->base.end.got++;
    if (!dropped)
        madi_rx_done(&l->base.link, &l->base.hdr, &l->base.rx);
    if (!l->base.closed &&
        !ofi_control_later(l, FABRIC_DONE, id)) /* after the upcall: the program may wait for its message */
        fabric_link_down(&l->base, MAD_ERR_NOMEM, "no memory to acknowledge the body of a packet");
    ofi_early_run(&l->base);
}

/* Account for a change of the body: more parts are posted, or have come.  True if the body has ended. */
static bool body_settle(ofi_adapter_t *a, ofi_body_t *body)
{
    bool waits = body->unposted < body->parts;
    a->unposted += waits - body->waits;
    body->waits = waits;
    if (MADI_UNLIKELY(body->refused) && !body->failed) {
        ofi_memory_refused(a, body->refused);
        body->refused = 0;
    }
    if (body->buffer && !waits && !body->bouncing) {
        ofi_buffer_put(a, body->buffer);
        body->buffer = NULL;
    }
    if (body->left || body->bouncing)
        return false;
    body_end(a, body);
    return true;
}

static int body_go_on(ofi_adapter_t *a, ofi_body_t *body)
{
    madi_lock(&a->io);
    int n = body_post(a, body);
    madi_unlock(&a->io);
    return n;
}

void ofi_body_done(ofi_adapter_t *a, ofi_body_t *body, int error)
{
    body->failed |= error != 0;
    body->left--;
    body_settle(a, body);
}

/* A read to the buffer has ended.  The link may be closed: then the destination is not the network's any more. */
void ofi_bounce_done(ofi_adapter_t *a, ofi_body_t *body, int error)
{
    body->bouncing = false;
    if (error && body->link) {
        body->failed = true;
        body_cut(body);
    } else if (body->link) {
        memcpy(body->part[body->unposted].at + body->bounced, body->buffer->data, body->length);
        body->bounced += body->length;
        if (body->bounced == body->part[body->unposted].len) {
            body->bounced = 0;
            body->by_buffer = false;
            body->unposted++;
            body->left--;
        }
        body_go_on(a, body);
    }
    body_settle(a, body);
}

int ofi_bodies_post(ofi_adapter_t *a)
{
    int n = 0;
    ofi_body_t *next;
    for (ofi_body_t *body = a->bodies; body; body = next) {
        next = body->next;
        if (body->unposted == body->parts)
            continue;
        n += body_go_on(a, body);
        if (body_settle(a, body))
            break; /* body_end may have changed the list */
    }
    return n;
}

/* Read where the parts of the body are, behind the header; false if they do not make up the body. */
static bool parts_read(ofi_body_t *body, const ofi_buffer_t *b, char *at, size_t length)
{
    size_t bytes = b->len - sizeof(madi_wire_hdr_t), n = bytes / sizeof(ofi_segment_t), sum = 0;
    if (!n || n > OFI_GATHER || bytes % sizeof(ofi_segment_t))
        return false;
    body->parts = (int)n;
    for (size_t i = 0; i < n; i++) {
        ofi_segment_t *s = &body->part[i].segment;
        memcpy(s, b->data + sizeof(madi_wire_hdr_t) + i * sizeof *s, sizeof *s);
        if (!s->len || s->len > length - sum)
            return false;
        body->part[i].at = at + sum;
        body->part[i].len = s->len;
        body->part[i].context = (ofi_context_t){.use = OFI_USE_BODY, .object = body};
        sum += s->len;
    }
    return sum == length;
}

/* Allocate what receives the body of packet l->base.hdr.  The body goes to rx.base, or is discarded (drop).  NULL: the
 * link is down. */
static ofi_body_t *body_make(ofi_link_t *l, const ofi_buffer_t *b, bool drop)
{
    ofi_body_t *body = calloc(1, sizeof *body);
    if (body && drop)
        body->scratch = malloc(l->base.hdr.length);
    if (!body || (drop && !body->scratch)) {
        free(body);
        fabric_link_down(&l->base, MAD_ERR_NOMEM, "no memory for a packet");
        return NULL;
    }
    if (parts_read(body, b, drop ? body->scratch : l->base.rx.base, l->base.hdr.length))
        return body;
    free(body->scratch);
    free(body);
    fabric_link_down(&l->base, MAD_ERR_PROTOCOL, "the parts of a received packet do not make up its body");
    return NULL;
}

void ofi_body_begin(ofi_link_t *l, ofi_buffer_t *b, bool drop)
{
    ofi_adapter_t *a = ofi_of(l);
    ofi_body_t *body = body_make(l, b, drop);
    if (!body) {
        ofi_buffer_put(a, b);
        return;
    }
    body->buffer = b->is_copy ? NULL : b;
    if (b->is_copy)
        ofi_buffer_put(a, b);
    body->from = l->peer->addr;
    body->link = l;
    body->left = body->parts;
    body->next = a->bodies;
    a->bodies = body;
    l->base.receiving = body;
    body_go_on(a, body);
    body_settle(a, body);
}

/* Stop the network from writing the core's memory: begin no further reads, and let reads that are under way end.  The
 * completions free the body, or ofi_bodies_fini does. */
void ofi_body_forget(ofi_link_t *l)
{
    ofi_adapter_t *a = ofi_of(l);
    ofi_body_t *body = l->base.receiving;
    l->base.receiving = NULL;
    if (!body)
        return;
    body->link = NULL;
    body_cut(body);
    if (!body_settle(a, body) && body->flying)
        ofi_body_await(a, body);
}

void ofi_bodies_fini(ofi_adapter_t *a)
{
    for (ofi_body_t *body; (body = a->bodies);) {
        a->bodies = body->next;
        body_free(a, body);
    }
}
