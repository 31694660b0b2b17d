/* SPDX-License-Identifier: BSD-3-Clause */
/* Verification of what an endpoint receives: proofs of the other endpoint, and packets that it has sealed (protect.c).
 *
 * A fragment that is not valid here was changed, forged, reordered or repeated by a gateway.  The path of this fragment
 * is then treated as if that gateway had died: missing fragments arrive again by another path, and nothing wrong is
 * delivered.  After several such failures the stream ends. */
#include "gateway/gateway.h"
#include "base/log.h"
#include "gateway/protect.h"

#include <stdio.h>

#define FORGED_MOST 4  /* maximum number of paths given up in a row because of forged fragments */
#define FORGIVEN 65536 /* number of valid fragments after which earlier forgeries no longer count */

static const char *gateway_name(const gw_side_t *side)
{
    gw_t *gw = side->end->gw;
    int host = side->hop ? gw_host_of_peer(gw, side->hop->gate->peer) : -1;
    return host < 0 ? "?" : madi_map_name(gw->map, host);
}

void gw_forged(gw_side_t *side, const char *text)
{
    gw_end_t *end = side->end;
    char why[GW_TEXT + 1];
    if (end->closed)
        return;
    if (end->rx_seq - end->forged_at > FORGIVEN)
        end->forged = 0;
    end->forged_at = end->rx_seq;
    snprintf(why, sizeof why, "the gateway %.50s, or one behind it, manipulates data: %.60s", gateway_name(side), text);
    madi_log(end->forged ? MADI_LOG_DEBUG : MADI_LOG_WARN, "virtual",
             "%s (fragment %u); it is not delivered, and the stream takes another path; remove that gateway from the "
             "topology file%s",
             why, end->rx_seq, end->forged ? "" : " (logged once per stream)");
    if (++end->forged < FORGED_MOST)
        gw_path_lost(side, MADI_CLOSE_WAY, MAD_ERR_PEER, why);
    else
        gw_end_closed(end, MAD_ERR_PROTOCOL, why);
}

/* Log a repeated fragment, which has no other effect. */
static void repeat_log(gw_side_t *side)
{
    gw_end_t *end = side->end;
    madi_log(end->repeated_logged ? MADI_LOG_DEBUG : MADI_LOG_WARN, "virtual",
             "the gateway %s, or one behind it, has sent a fragment of this stream again: it is dropped%s",
             gateway_name(side), end->repeated_logged ? "" : " (logged once per stream)");
    end->repeated_logged = true;
}

/* ---- Proofs ----------------------------------------------------------------------------------------------------- */

bool gw_open_proved(gw_end_t *end, unsigned kind, const madi_wire_open_t *open)
{
    gw_statement_t statement = gw_statement_open(kind, open);
    /* An endpoint without keys cannot prove anything, but it gets no packets either. */
    if (!end->cipher || gw_cipher_proved(end->cipher, &statement, GW_STATEMENT, open->proof) || !end->ready)
        return true;
    madi_log(end->unproved_logged ? MADI_LOG_DEBUG : MADI_LOG_WARN, "virtual",
             "a process that knows the number of a stream, but not the secret of its ends, requested to resume it: refused, "
             "and the stream continues unchanged%s",
             end->unproved_logged ? "" : " (logged once per stream)");
    end->unproved_logged = true;
    return false;
}

static bool forward_proved(const gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body)
{
    gw_statement_t statement = gw_statement_forward(side, hdr, body);
    const unsigned char *proof = (const unsigned char *)body + sizeof(madi_wire_forward_t);
    return gw_cipher_proved(side->end->cipher, &statement, gw_statement_len(&statement), proof);
}

bool gw_ready_proved(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body)
{
    const unsigned char *ready = (const unsigned char *)body + sizeof(madi_wire_forward_t);
    const gw_end_t *end = side->end;
    return hdr->length == sizeof(madi_wire_forward_t) + sizeof(madi_wire_ready_t) && forward_proved(side, hdr, body) &&
           (!end->encrypts || gw_cipher_agree(end->cipher, ready + offsetof(madi_wire_ready_t, key)));
}

bool gw_ack_proved(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body)
{
    gw_end_t *end = side->end;
    uint32_t before = side->acks_in;
    if (!end->encrypts)
        return true;
    if (!end->ready) { /* the other endpoint may have no keys yet; its READY will repeat this acknowledgement */
        side->acks_in = hdr->seq;
        return true;
    }
    if (hdr->length != sizeof(madi_wire_forward_t) + MADI_WIRE_PROOF || !forward_proved(side, hdr, body)) {
        gw_forged(side, "an acknowledgement does not come from the peer");
        return false;
    }
    if (hdr->seq <= before) {
        repeat_log(side);
        return false;
    }
    if (hdr->seq != before + 1) {
        gw_forged(side, "acknowledgements are missing");
        return false;
    }
    side->acks_in = hdr->seq;
    return true;
}

bool gw_close_proved(const gw_side_t *side, const madi_wire_close_t *c, const char *text)
{
    gw_statement_t statement;
    size_t len;
    if (!side->end->encrypts || !side->end->ready)
        return true;
    len = gw_statement_close(&statement, side, c, text);
    return gw_cipher_proved(side->end->cipher, &statement, len, c->proof);
}

/* ---- Packets ---------------------------------------------------------------------------------------------------- */

/* Limits of fragment lengths: a packet sealed as a whole has at most WHOLE_MOST bytes, one with a separately sealed
 * header at least PARTS_LEAST. */
#define WHOLE_LEAST (MADI_FORWARD_HEAD + GW_TAG)
#define WHOLE_MOST (WHOLE_LEAST + MADI_SEALED_WHOLE)
#define PARTS_LEAST (MADI_SEALED_HEAD + MADI_SEALED_WHOLE + 1)

static bool length_is_good(const gw_end_t *end, uint32_t length)
{
    size_t most = MADI_SEALED_HEAD + (end->gw->fragment > GW_FRAGMENT ? end->gw->fragment : GW_FRAGMENT);
    return length >= WHOLE_LEAST && length <= most && (length <= WHOLE_MOST || length >= PARTS_LEAST);
}

uint32_t gw_packet_header(const gw_side_t *side, const madi_wire_hdr_t *hdr)
{
    const gw_end_t *end = side ? side->end : NULL;
    if (!end || !end->encrypts)
        return MADI_FORWARD_HEAD;
    if (!length_is_good(end, hdr->length))
        return 0;
    return hdr->length <= WHOLE_MOST ? hdr->length : (uint32_t)MADI_SEALED_HEAD;
}

static gw_nonce_t nonce_of(const gw_end_t *end, enum gw_part part)
{
    return (gw_nonce_t){
        .turn = end->side->turn, .part = part, .number = gw_cipher_number(end->cipher, GW_THEIRS, end->rx_seq)};
}

/* Check a packet whose header is authentic and whose number is the next; false if the packet is invalid. */
static bool packet_accept(gw_side_t *side, const madi_wire_forward_t *forward, const madi_wire_hdr_t *inner, size_t length)
{
    gw_end_t *end = side->end;
    if (!gw_window_ack_arrived(end, forward->ack)) {
        gw_end_closed(end, MAD_ERR_PROTOCOL, "more was acknowledged than sent");
        return false;
    }
    if (gw_end_holds(end, inner, length))
        return true;
    gw_end_closed(end, MAD_ERR_PROTOCOL, "a fragment that holds no packet");
    return false;
}

/* Receive a packet that was sealed as a whole; the packet is decrypted in private memory. */
static void whole_packet_arrived(gw_side_t *side, const madi_wire_hdr_t *hdr, madi_foreign_t head)
{
    gw_end_t *end = side->end;
    unsigned char bytes[sizeof(madi_wire_hdr_t) + MADI_SEALED_WHOLE + GW_TAG + MADI_SHORT_MAX], *body;
    size_t len = hdr->length - sizeof(madi_wire_forward_t) - GW_TAG;
    gw_nonce_t nonce = nonce_of(end, GW_PART_WHOLE);
    madi_wire_forward_t forward;
    gw_covered_t covered;
    madi_wire_hdr_t inner;
    madi_rx_t in = {0};
    madi_foreign_copy(&forward, head, sizeof forward);
    madi_foreign_copy(bytes, madi_foreign_skip(head, sizeof forward), len + GW_TAG);
    covered = gw_covered(hdr, &forward);
    if (!gw_cipher_open(end->cipher, &nonce, &covered, bytes, len, bytes + len)) {
        gw_forged(side, "a fragment was changed or made up");
        return;
    }
    memcpy(&inner, bytes, sizeof inner);
    body = bytes + sizeof inner;
    if (!packet_accept(side, &forward, &inner, len - sizeof inner))
        return;
    if (end->partial) {
        memcpy(end->partial_rx.base, body, inner.length);
        end->partial_asks = forward.ask;
        gw_end_half_received(end);
        return;
    }
    if (inner.length <= MADI_SHORT_MAX) {
        madi_rx_short(end->link, &inner, madi_foreign_of(body));
    } else if (madi_rx_begin(end->link, &inner, &in) == MADI_PLACE_COPY) {
        memcpy(in.base, body, inner.length);
        madi_rx_done(end->link, &inner, &in);
    }
    gw_end_received(end, forward.ask);
}

bool gw_sealed_done(gw_side_t *side)
{
    gw_end_t *end = side->end;
    gw_nonce_t nonce = nonce_of(end, GW_PART_BODY);
    if (gw_cipher_open(end->cipher, &nonce, NULL, end->partial_rx.base, end->partial_hdr.length, end->partial_tag))
        return true;
    /* the destination is then filled again by another path, or the packet is never delivered */
    gw_forged(side, "the body of a fragment was changed");
    return false;
}

/* Receive a long packet.  The packet's header determines the destination of the body, which is decrypted there once it
 * is complete. */
static madi_place_t parts_packet_arrived(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    gw_end_t *end = side->end;
    unsigned char head[MADI_SEALED_HEAD], *sealed = head + sizeof(madi_wire_forward_t);
    gw_nonce_t nonce = nonce_of(end, GW_PART_HEAD);
    madi_wire_forward_t forward;
    gw_covered_t covered;
    madi_wire_hdr_t inner;
    madi_foreign_copy(head, rx->head, sizeof head);
    memcpy(&forward, head, sizeof forward);
    covered = gw_covered(hdr, &forward);
    if (!gw_cipher_open(end->cipher, &nonce, &covered, sealed, sizeof inner, sealed + sizeof inner)) {
        gw_forged(side, "a fragment was changed or made up");
        return MADI_PLACE_DROP;
    }
    memcpy(&inner, sealed, sizeof inner);
    if (!packet_accept(side, &forward, &inner, hdr->length - sizeof head))
        return MADI_PLACE_DROP;
    if (!end->partial) {
        end->partial_rx = (madi_rx_t){0};
        if (madi_rx_begin(end->link, &inner, &end->partial_rx) != MADI_PLACE_COPY) {
            gw_end_received(end, forward.ask);
            return MADI_PLACE_DROP;
        }
        end->partial = true;
        end->partial_hdr = inner;
    }
    end->partial_asks = forward.ask;
    memcpy(end->partial_tag, sealed + sizeof inner + GW_TAG, GW_TAG);
    if (rx->here == hdr->length) {
        madi_foreign_copy_any(end->partial_rx.base, madi_foreign_skip(rx->head, sizeof head), inner.length);
        if (gw_sealed_done(side))
            gw_end_half_received(end);
        return MADI_PLACE_DROP;
    }
    hop->in = GW_IN_END;
    hop->in_side = side;
    gw_alive_watch(end->gw);
    rx->base = end->partial_rx.base;
    rx->skip = sizeof head;
    return MADI_PLACE_COPY;
}

madi_place_t gw_sealed_packet(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    gw_end_t *end = side->end;
    int32_t ahead = (int32_t)(hdr->seq - end->rx_seq);
    if (end->closed || !end->link || side != end->side || end->resuming)
        return MADI_PLACE_DROP;
    if (!length_is_good(end, hdr->length) || !end->ready || !end->started) {
        gw_forged(side, "a fragment that the peer has not sent");
    } else if (ahead > 0) {
        gw_forged(side, "fragments are missing or out of order");
    } else if (ahead < 0) {
        repeat_log(side);
    } else if (hdr->length > WHOLE_MOST) {
        return parts_packet_arrived(hop, side, hdr, rx);
    } else {
        whole_packet_arrived(side, hdr, rx->head);
    }
    return MADI_PLACE_DROP;
}
