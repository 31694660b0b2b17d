/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: incoming packets.  All functions are called under the session's lock.
 *
 * The packets of a link are delivered in the order of their numbers.  A packet that comes early waits in link->early,
 * in its buffer; so do all that follow a packet whose body is being received, or that the core has answered with LATER. */
#include "drivers/ofi/ofi.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ofi_buffer_t *early_buffer(fabric_early_t *early)
{
    return MADI_CONTAINER(early, ofi_buffer_t, early);
}

/* ---- Bodies, which are read straight to their destination ---------------------------------------------------------- */

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

int ofi_post_bodies(ofi_adapter_t *a)
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

/* Make the body of l->base.hdr, which goes to rx.base, or to nowhere.  NULL: the link is down. */
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

/* Receive the body of l->base.hdr.  b: the buffer of the header, which is the body's. */
static void body_begin(ofi_link_t *l, ofi_buffer_t *b, bool drop)
{
    ofi_adapter_t *a = ofi_of(l);
    ofi_body_t *body = body_make(l, b, drop);
    if (!body) {
        ofi_buffer_put(a, b);
        return;
    }
    body->buffer = b;
    body->from = l->peer->addr;
    body->link = l;
    body->left = body->parts;
    body->next = a->bodies;
    a->bodies = body;
    l->base.receiving = body;
    body_go_on(a, body);
    body_settle(a, body);
}

/* ---- Packets ---------------------------------------------------------------------------------------------------------- */

/* Deliver a packet that lies whole in its buffer.  False: later. */
static bool whole_deliver(ofi_link_t *l, const madi_wire_hdr_t *hdr, ofi_buffer_t *b)
{
    ofi_adapter_t *a = ofi_of(l);
    bool lends = hdr->type == MADI_WIRE_MSG && hdr->length > MADI_TAKE_MAX && ofi_buffer_lend(a);
    fabric_whole_t whole = fabric_whole_deliver(&l->base, hdr, madi_foreign_of(b->data + sizeof *hdr), lends);
    if (whole == FABRIC_WHOLE_DONE)
        ofi_buffer_put(a, b);
    return whole != FABRIC_WHOLE_LATER;
}

/* Take the next bytes of a body that is sent by copies. */
static void copied_deliver(ofi_link_t *l, ofi_buffer_t *b)
{
    size_t len = b->len;
    fabric_packet_count(&l->base);
    if (len && len <= l->missing && !l->dropping)
        memcpy((char *)l->base.rx.base + (l->base.hdr.length - l->missing), b->data, len);
    ofi_buffer_put(ofi_of(l), b);
    if (!len || len > l->missing) {
        fabric_link_down(&l->base, MAD_ERR_PROTOCOL, "the packets of a copied body do not make it up");
        return;
    }
    l->missing -= len;
    if (!l->missing && !l->dropping)
        madi_rx_done(&l->base.link, &l->base.hdr, &l->base.rx);
}

/* Deliver a header whose body is read separately, or comes in the next packets.  False: later. */
static bool header_deliver(ofi_link_t *l, const madi_wire_hdr_t *hdr, ofi_buffer_t *b)
{
    madi_place_t place = fabric_body_place(&l->base, hdr);
    if (place == MADI_PLACE_LATER)
        return false;
    l->base.expected++;
    if (!l->base.closed && b->len > sizeof *hdr) {
        body_begin(l, b, place != MADI_PLACE_COPY);
        return true;
    }
    l->base.end.got++;
    l->missing = l->base.closed ? 0 : hdr->length;
    l->dropping = place != MADI_PLACE_COPY;
    ofi_buffer_put(ofi_of(l), b);
    return true;
}

/* Deliver a link's next packet.  False: later. */
static bool ofi_packet_deliver(fabric_link_t *link, fabric_early_t *early)
{
    ofi_link_t *l = (ofi_link_t *)link;
    ofi_buffer_t *b = early_buffer(early);
    madi_wire_hdr_t hdr = {0};
    size_t len = b->len;
    if (MADI_UNLIKELY(l->missing)) {
        copied_deliver(l, b);
        return true;
    }
    if (len >= sizeof hdr) {
        memcpy(&hdr, b->data, sizeof hdr);
        if (fabric_header_fits(&hdr, len))
            return whole_deliver(l, &hdr, b);
        if (hdr.type >= MADI_WIRE_MSG && hdr.type < MADI_WIRE_TYPES && hdr.length > OFI_PACKET_MAX - sizeof hdr &&
            hdr.length <= MADI_OFI_CHUNK_MAX - sizeof hdr)
            return header_deliver(l, &hdr, b);
    }
    link->expected++;
    ofi_buffer_put(ofi_of(l), b);
    fabric_packet_wrong(link, &hdr, len);
    return true;
}

static void ofi_packet_put(fabric_link_t *link, fabric_early_t *early)
{
    ofi_buffer_put(ofi_of((ofi_link_t *)link), early_buffer(early));
}

void ofi_early_run(fabric_link_t *link)
{
    fabric_early_run(link, true, ofi_packet_deliver, ofi_packet_put);
    fabric_bye_check(link);
}

void ofi_arrived(ofi_adapter_t *a, ofi_buffer_t *b)
{
    fabric_kind_t kind = fabric_tag_kind(b->early.tag);
    fabric_control_t control;
    if (kind == FABRIC_KIND_FRAME) {
        ofi_frame_arrived(a, b);
        return;
    }
    ofi_link_t *l = kind <= FABRIC_KIND_CONTROL ? ofi_link_of(a, b->early.tag) : NULL;
    if (!l || l->base.closed || l->base.down) {
        ofi_buffer_put(a, b);
        return;
    }
    l->base.end.arrived = true;
    if (kind == FABRIC_KIND_CONTROL) {
        bool is_one = b->len == sizeof control;
        memcpy(&control, b->data, sizeof control);
        ofi_buffer_put(a, b);
        if (is_one)
            fabric_control_arrived(&l->base, &control);
        return;
    }
    if (!fabric_early_insert(&l->base, &b->early))
        ofi_buffer_put(a, b);
    ofi_early_run(&l->base);
}

bool ofi_takes(const ofi_link_t *l, const ofi_buffer_t *b)
{
    uint32_t length;
    memcpy(&length, b->data + offsetof(madi_wire_hdr_t, length), sizeof length);
    return !l->missing && fabric_number_is_next(&l->base, b->early.tag) && b->len >= sizeof(madi_wire_hdr_t) &&
           b->len == length + sizeof(madi_wire_hdr_t) && (uint8_t)b->data[0] >= MADI_WIRE_MSG &&
           (uint8_t)b->data[0] < MADI_WIRE_TYPES;
}

/* ---- The end ------------------------------------------------------------------------------------------------------------ */

/* Stop the network from writing the core's memory: begin no further reads, and let reads that are under way end.  The
 * completions free the body, or ofi_receive_fini does. */
static void body_stop(ofi_link_t *l)
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

void ofi_receive_forget(ofi_link_t *l)
{
    fabric_early_forget(&l->base, ofi_packet_put);
    body_stop(l);
}

void ofi_receive_fini(ofi_adapter_t *a)
{
    for (ofi_body_t *body; (body = a->bodies);) {
        a->bodies = body->next;
        body_free(a, body);
    }
}
