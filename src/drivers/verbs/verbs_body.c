/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: bodies of long packets, which this side's device reads straight to their destination.  If that memory cannot be
 * registered, because a limit is reached, the body is read in pieces into a slot, and copied.  Under the session's lock. */
#include "drivers/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

/* Read the list of segments behind the header.  Return their number, or 0 if they do not make up the body. */
static int segments_read(const verbs_slot_t *s, verbs_segment_t *segments, uint32_t length)
{
    size_t bytes = s->len - VERBS_BODY_AT, n = bytes / sizeof *segments, sum = 0;
    if (!n || n > VERBS_SEGMENTS || bytes % sizeof *segments)
        return 0;
    memcpy(segments, s->data + VERBS_BODY_AT, bytes);
    for (size_t i = 0; i < n; i++) {
        if (!segments[i].len || segments[i].len > length - sum)
            return 0;
        sum += segments[i].len;
    }
    return sum == length ? (int)n : 0;
}

/* Post the reads of whole segments, one behind the other, to `at`.  Return 0 or an errno. */
static int reads_post(verbs_link_t *l, const verbs_segment_t *segments, int n, uint64_t at, uint32_t lkey)
{
    struct ibv_send_wr wr[VERBS_SEGMENTS], *bad;
    struct ibv_sge sge[VERBS_SEGMENTS];
    for (int i = 0; i < n; i++) {
        sge[i] = (struct ibv_sge){at, segments[i].len, lkey};
        wr[i] = (struct ibv_send_wr){
            .wr_id = fabric_tag((fabric_kind_t)VERBS_DONE_READ, l->base.key, (uint16_t)l->base.index),
            .next = i + 1 < n ? &wr[i + 1] : NULL,
            .sg_list = &sge[i],
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_READ,
            .send_flags = i + 1 < n ? 0 : IBV_SEND_SIGNALED,
            .wr.rdma = {.remote_addr = segments[i].at, .rkey = segments[i].key},
        };
        at += segments[i].len;
    }
    return ibv_post_send(l->pair, wr, &bad);
}

/* Post the read of the body's next piece into the slot.  Return 0 or an errno. */
static int verbs_bounce_post(verbs_link_t *l)
{
    verbs_bounce_t *b = &l->bounce;
    verbs_segment_t piece = b->segments[b->at];
    piece.at += b->offset;
    piece.len -= b->offset;
    if (piece.len > VERBS_MESSAGE_MAX)
        piece.len = VERBS_MESSAGE_MAX;
    b->len = piece.len;
    return reads_post(l, &piece, 1, (uintptr_t)b->slot->data, b->slot->lkey);
}

/* Copy the piece that has arrived in the slot.  Return true if more pieces are to be read. */
static bool bounce_next(verbs_link_t *l)
{
    verbs_bounce_t *b = &l->bounce;
    memcpy((char *)l->base.rx.base + b->done, b->slot->data, b->len);
    b->done += b->len;
    b->offset += b->len;
    if (b->offset == b->segments[b->at].len) {
        b->at++;
        b->offset = 0;
    }
    return b->done < l->base.hdr.length;
}

static void read_failed(verbs_link_t *l, int error)
{
    char text[MADI_REASON_MAX];
    snprintf(text, sizeof text, "a block of %u bytes cannot be read: %s", (unsigned)l->base.hdr.length, strerror(error));
    fabric_link_down(&l->base, MAD_ERR_SYSTEM, text);
}

void verbs_body_begin(verbs_link_t *l, const verbs_slot_t *s)
{
    verbs_adapter_t *a = verbs_of(l);
    verbs_bounce_t *b = &l->bounce;
    int n = segments_read(s, b->segments, l->base.hdr.length), rc;
    if (!n) {
        fabric_link_down(&l->base, MAD_ERR_PROTOCOL, "the segments of a received packet do not make up its body");
        return;
    }
    l->body_region = verbs_block_register(a, l->base.rx.base, l->base.hdr.length, IBV_ACCESS_LOCAL_WRITE);
    b->slot = l->body_region ? NULL : verbs_slot_spare(a);
    if (!l->body_region && !b->slot) {
        fabric_link_down(&l->base, MAD_ERR_NOMEM,
                         "a block cannot be read: no memory can be registered; raise the limit of locked memory "
                         "(ulimit -l)");
        return;
    }
    l->base.receiving = l;
    b->at = 0;
    b->offset = 0;
    b->done = 0;
    rc = b->slot ? verbs_bounce_post(l)
                 : reads_post(l, b->segments, n, (uintptr_t)l->base.rx.base, verbs_region_mr(l->body_region)->lkey);
    if (rc)
        read_failed(l, rc);
}

void verbs_body_forget(verbs_link_t *l)
{
    verbs_adapter_t *a = verbs_of(l);
    if (l->body_region)
        fabric_registration_put(&a->memory, l->body_region);
    if (l->bounce.slot)
        verbs_slot_keep(a, l->bounce.slot);
    l->body_region = NULL;
    l->bounce.slot = NULL;
    l->base.receiving = NULL;
}

void verbs_body_done(verbs_link_t *l)
{
    if (!l->base.receiving)
        return;
    if (l->bounce.slot && bounce_next(l)) {
        int rc = verbs_bounce_post(l);
        if (rc)
            read_failed(l, rc);
        return;
    }
    verbs_body_forget(l);
    verbs_body_count(l);
    madi_rx_done(&l->base.link, &l->base.hdr, &l->base.rx);
    verbs_return_check(l); /* after the upcall: the program may wait for its message */
    verbs_early_run(&l->base);
}
