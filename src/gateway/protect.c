/* SPDX-License-Identifier: BSD-3-Clause */
/* Proofs and sealing of what an endpoint sends (cipher.h; verify.c is the receiver).
 *
 * Every virtual link has keys that only its two endpoints know, from their handshake.  READY, and the OPEN or TRY that
 * resumes a stream, carry a proof; so only its endpoints can resume a stream.  If the topology file has encrypt =
 * "end-to-end", packets are sealed, and ACK and CLOSE are proved too.  A gateway can then drop fragments, but neither
 * read nor change them. */
#include "gateway/gateway.h"
#include "gateway/protect.h"

#include <openssl/crypto.h>

bool gw_protect_start(gw_end_t *end, madi_link_t *link)
{
    end->cipher = gw_cipher_new(link->secret, end->active, GW_REKEY_BITS);
    end->encrypts = end->cipher && madi_map_encrypts(end->gw->map, gw_lane_of(end->gw, link->gate->lane));
    OPENSSL_cleanse(link->secret, sizeof link->secret);
    return end->cipher && (!end->encrypts || gw_cipher_offer(end->cipher));
}

bool gw_link_encrypts(const madi_link_t *link)
{
    const gw_end_t *end = link->driver == &madi_driver_virtual ? ((const gw_link_t *)link)->end : NULL;
    return end && end->encrypts;
}

size_t gw_protected_more(const gw_end_t *end, unsigned kind, size_t len)
{
    if (kind == MADI_FORWARD_READY)
        return sizeof(madi_wire_ready_t);
    if (!end->encrypts)
        return 0;
    if (kind == MADI_FORWARD_PACKET)
        return len <= sizeof(madi_wire_hdr_t) + MADI_SEALED_WHOLE ? GW_TAG : 2 * GW_TAG;
    return kind == MADI_FORWARD_ACK ? MADI_WIRE_PROOF : 0;
}

/* ---- Proofs ----------------------------------------------------------------------------------------------------- */

size_t gw_statement_close(gw_statement_t *statement, const gw_side_t *side, const madi_wire_close_t *c, const char *text)
{
    size_t len = strnlen(text, GW_TEXT);
    *statement =
        (gw_statement_t){.kind = MADI_FORWARD_CLOSE, .turn = side->turn, .stream = side->end->stream, .status = c->status};
    memcpy(statement->text, text, len);
    return offsetof(gw_statement_t, text) + len;
}

gw_statement_t gw_statement_forward(const gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body)
{
    madi_wire_forward_t forward;
    gw_statement_t statement;
    memcpy(&forward, body, sizeof forward);
    statement = (gw_statement_t){.kind = hdr->flags & MADI_FORWARD_KIND,
                                 .turn = side->turn,
                                 .stream = side->end->stream,
                                 .number = hdr->seq,
                                 .ack = forward.ack,
                                 .ask = forward.ask};
    if (statement.kind == MADI_FORWARD_READY)
        memcpy(statement.text, (const char *)body + sizeof forward + offsetof(madi_wire_ready_t, key), GW_PUBLIC);
    return statement;
}

size_t gw_statement_len(const gw_statement_t *statement)
{
    return GW_STATEMENT + (statement->kind == MADI_FORWARD_READY ? GW_PUBLIC : 0);
}

gw_statement_t gw_statement_open(unsigned kind, const madi_wire_open_t *open)
{
    return (gw_statement_t){.kind = kind, .turn = open->turn, .stream = open->stream, .ack = open->ack};
}

void gw_protect_open(const gw_end_t *end, unsigned kind, madi_wire_open_t *open)
{
    gw_statement_t statement = gw_statement_open(kind, open);
    if (end->cipher && !gw_cipher_prove(end->cipher, &statement, GW_STATEMENT, open->proof))
        /* the other endpoint refuses an OPEN without proof, so OPEN is sent again later */
        memset(open->proof, 0, sizeof open->proof);
}

void gw_protect_close(const gw_side_t *side, madi_wire_close_t *c, const char *text)
{
    gw_statement_t statement;
    size_t len;
    if (c->what != MADI_CLOSE_LINK || !side->end->cipher)
        return;
    len = gw_statement_close(&statement, side, c, text);
    if (!gw_cipher_prove(side->end->cipher, &statement, len, c->proof))
        memset(c->proof, 0, sizeof c->proof);
}

static bool forward_prove(const gw_side_t *side, gw_frag_t *frag)
{
    gw_statement_t statement = gw_statement_forward(side, &frag->hdr, frag->body);
    return gw_cipher_prove(side->end->cipher, &statement, gw_statement_len(&statement),
                           frag->body + sizeof(madi_wire_forward_t));
}

void gw_protect_ack(gw_side_t *side, gw_frag_t *frag)
{
    frag->hdr.seq = ++side->acks_out;
    if (!forward_prove(side, frag))
        memset(frag->body + sizeof(madi_wire_forward_t), 0, MADI_WIRE_PROOF);
}

/* ---- Sealing ---------------------------------------------------------------------------------------------------- */

gw_covered_t gw_covered(const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward)
{
    return (gw_covered_t){
        .kind = hdr->flags & MADI_FORWARD_KIND, .length = hdr->length, .ack = forward->ack, .ask = forward->ask};
}

/* Seal header and body separately.  Both tags precede the body. */
static bool seal_parts(gw_end_t *end, gw_nonce_t *nonce, const gw_covered_t *covered, const struct iovec *vec, int n,
                       unsigned char *out)
{
    const size_t head = sizeof(madi_wire_hdr_t);
    struct iovec first = {vec[0].iov_base, head}, rest[1 + MADI_GATHER];
    if (n > (int)MADI_COUNT(rest) || vec[0].iov_len < head)
        return false;
    memcpy(rest, vec, (size_t)n * sizeof *vec);
    rest[0].iov_base = (char *)rest[0].iov_base + head;
    rest[0].iov_len -= head;
    nonce->part = GW_PART_HEAD;
    if (!gw_cipher_seal(end->cipher, nonce, covered, &first, 1, out, out + head))
        return false;
    nonce->part = GW_PART_BODY;
    return gw_cipher_seal(end->cipher, nonce, NULL, rest, n, out + head + 2 * GW_TAG, out + head + GW_TAG);
}

bool gw_protect_packet(gw_end_t *end, const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward,
                       const struct iovec *vec, int n, size_t len, unsigned char *out)
{
    gw_nonce_t nonce = {.turn = end->side->turn, .number = gw_cipher_number(end->cipher, GW_OURS, hdr->seq)};
    gw_covered_t covered = gw_covered(hdr, forward);
    if (len > sizeof(madi_wire_hdr_t) + MADI_SEALED_WHOLE)
        return seal_parts(end, &nonce, &covered, vec, n, out);
    return gw_cipher_seal(end->cipher, &nonce, &covered, vec, n, out, out + len);
}

bool gw_protect(gw_end_t *end, gw_frag_t *frag, const struct iovec *vec, int n, size_t len)
{
    unsigned kind = frag->hdr.flags & MADI_FORWARD_KIND;
    unsigned char *out = frag->body + sizeof(madi_wire_forward_t);
    madi_wire_forward_t forward;
    if (kind == MADI_FORWARD_READY) {
        memcpy(out + offsetof(madi_wire_ready_t, key), gw_cipher_public(end->cipher), GW_PUBLIC);
        return forward_prove(end->side, frag);
    }
    if (kind == MADI_FORWARD_PACKET && end->encrypts) {
        memcpy(&forward, frag->body, sizeof forward);
        return gw_protect_packet(end, &frag->hdr, &forward, vec, n, len, out);
    }
    madi_copy_pieces(out, vec, n);
    return true;
}
