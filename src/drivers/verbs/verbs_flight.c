/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: long packets.  The message has the packet's header, and where the pieces of the body are; the receiver reads the
 * bodies of a link one after the other, and reports their number.  Their memory is registered before, and may stay registered
 * (drivers/fabric/registration.h). */
#include "drivers/verbs/verbs.h"

#include <stdlib.h>
#include <string.h>

static void flight_drop(verbs_adapter_t *a, verbs_flight_t *f)
{
    while (f->parts)
        fabric_registration_put(&a->memory, f->regions[--f->parts]);
    free(f);
}

/* Register the body behind the header, so that the peer can read it.  False if the memory cannot be registered. */
static bool flight_open(verbs_adapter_t *a, verbs_flight_t *f, const struct iovec *vec, int n, verbs_segment_t *segments)
{
    for (int i = 0; i < n; i++) {
        size_t skip = i ? 0 : sizeof(madi_wire_hdr_t), len = vec[i].iov_len - skip;
        char *at = (char *)vec[i].iov_base + skip;
        if (!len)
            continue;
        fabric_region_t *region = verbs_block_register(a, at, len, IBV_ACCESS_REMOTE_READ);
        if (!region)
            return false;
        f->regions[f->parts] = region;
        segments[f->parts] = (verbs_segment_t){(uintptr_t)at, verbs_region_mr(region)->rkey, (uint32_t)len};
        f->parts++;
    }
    return true;
}

madi_sent_t verbs_flight_send(verbs_link_t *l, const struct iovec *vec, int n, madi_op_t *op)
{
    verbs_adapter_t *a = verbs_of(l);
    verbs_segment_t segments[VERBS_SEGMENTS];
    char *to = verbs_message_begin(l, false);
    verbs_flight_t *f = to ? calloc(1, sizeof *f) : NULL;
    if (!f) {
        fabric_refuse(&l->base);
        return MADI_AGAIN;
    }
    if (!flight_open(a, f, vec, n, segments)) {
        flight_drop(a, f);
        return verbs_spill_send(l, vec, n, op);
    }
    f->op = op;
    *l->flights_end = f;
    l->flights_end = &f->next;
    size_t len = (size_t)f->parts * sizeof *segments;
    memcpy(to, vec->iov_base, sizeof(madi_wire_hdr_t));
    memcpy(to + sizeof(madi_wire_hdr_t), segments, len);
    verbs_message_post(l, FABRIC_KIND_PACKET, sizeof(madi_wire_hdr_t) + len, false);
    return MADI_TAKEN; /* if the post has failed, the link ends, and its end completes the op */
}

/* Take the oldest flight out of the list; NULL if there is none. */
static verbs_flight_t *flight_pop(verbs_link_t *l)
{
    madi_link_lock_tx(&l->base.link);
    verbs_flight_t *f = l->flights;
    if (f) {
        l->flights = f->next;
        l->landed++;
        if (!l->flights)
            l->flights_end = &l->flights;
    }
    madi_link_unlock_tx(&l->base.link);
    return f;
}

static void flight_finish(verbs_link_t *l, verbs_flight_t *f, mad_status_t status)
{
    madi_op_t *op = f->op;
    flight_drop(verbs_of(l), f);
    op->done(op, status);
}

bool verbs_flights_land(verbs_link_t *l, uint32_t bodies)
{
    while (l->landed != bodies && !l->base.closed) {
        verbs_flight_t *f = flight_pop(l);
        if (!f)
            return false;
        flight_finish(l, f, MAD_OK);
    }
    return true;
}

void verbs_flights_fail(verbs_link_t *l)
{
    for (verbs_flight_t *f; (f = flight_pop(l));)
        flight_finish(l, f, MAD_ERR_PEER);
}
