/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments from peers that may send anything, to a process that is both an end of streams and a gateway.  One stream,
 * with a virtual link whose handshake is over, exists from the beginning; the calls of the user go over that link.  The
 * input is
 *   a              bit 0: this process has opened that stream; bit 1: the stream is encrypted
 * and a sequence of
 *   1xxx1111       let the time pass until another path is looked for, or (xxx not 0) until the time for that is over
 *   1xxxxxxx       a call of the user
 *   0wwfhhkp ...   a fragment from peer p.  hh: how it is handed over; f: all its bytes are equal; k: the acknowledged
 *                  number and the request for an acknowledgement come first.  ww: beginning of the fragment: 0 nothing;
 *                  1 the fields of OPEN, to this process; 2 those of OPEN, to a peer (from stream 0x80 on to a process
 *                  that no peer knows); 3 a packet's header.  A READY without a body gets a valid proof.  A packet of an
 *                  encrypted stream is sealed unless channel is 1:
 *                  [ack ask] [flags] [channel] [length 16] [seq] [aux] [limit stream turn ack | type flags length] body
 * Each step is followed by a check: no peer exceeds its bounds, and the gateway stays within its budget. */
#include "base/clock.h"
#include "fuzz.h"
#include "gateway/gateway.h"
#include "gateway/protect.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned char other[100]; /* the address of the second peer */
static size_t other_len;
static unsigned char unknown[300]; /* addresses of processes on host b that no peer knows */
static size_t unknown_len;

/* Make addresses like the second peer's, with the entries that the topology file requires. */
static void unknown_begin(const world_t *w)
{
    const char *network = gw_of_session(w->session)->base.network;
    size_t at = other_len, n = strlen(network);
    memcpy(unknown, other, other_len);
    memcpy(unknown + at, "\7virtual", 8);
    at += 8;
    unknown[at++] = (unsigned char)n;
    memcpy(unknown + at, network, n);
    at += n;
    memcpy(unknown + at, "\2\0b", 3);
    unknown_len = at + 3;
    unknown[2] = (unsigned char)unknown_len;
}

static void begin(void)
{
    world_driver("fake,virtual");
    world_bounds_lower();
    world_topology();
}

static madi_gate_t *first; /* gate to the first peer */
static gw_cipher_t *far;   /* keys of the other end of that stream */
static bool encrypts;      /* true: the stream is encrypted */

/* Act like the timer.  late: an hour has passed, so every search for another path is over. */
static void look(world_t *w, bool late)
{
    mad_session_t *s = w->session;
    madi_lock(&s->lock);
    for (gw_end_t *end = gw_of_session(s)->ends; end; end = end->next) {
        if (end->lost && !end->closed)
            gw_path_check(end, late ? madi_now() + INT64_C(3600000000000) : end->try_at);
        else if (end->side)
            gw_side_probe(end->side);
    }
    madi_unlock(&s->lock);
}

static size_t head(unsigned char *to, input_t *in, unsigned what, madi_wire_forward_t forward, const world_t *w)
{
    size_t at = sizeof(madi_wire_forward_t);
    memset(to, 0, 512);
    memcpy(to, &forward, sizeof forward);
    if (what == 1 || what == 2) {
        const void *address = other;
        size_t len = other_len;
        if (what == 1)
            mad_address(w->session, &address, &len);
        madi_wire_open_t open = {.limit = 0x40, .stream = 0x40};
        open.limit |= (uint64_t)take8(in) << 16;
        open.stream += take8(in);
        open.turn = take8(in);
        open.ack = take8(in);
        memcpy(to + at, &open, sizeof open);
        at += sizeof open;
        if (what == 2 && open.stream >= 0x80) {
            address = unknown;
            len = unknown_len;
        }
        memcpy(to + at, address, len);
        if (address == unknown)
            memset(to + at + 4, (int)open.stream, 16);
        at += len;
    } else if (what == 3) {
        madi_wire_hdr_t inner = {.type = take8(in), .flags = take8(in), .length = take8(in)};
        memcpy(to + at, &inner, sizeof inner);
        at += sizeof inner;
    }
    return at;
}

static void hand_over(madi_link_t *link, const madi_wire_hdr_t *hdr, unsigned char *body, int how)
{
    madi_rx_t rx = {0};
    madi_place_t place;
    if (how == 0 && hdr->length <= MADI_SHORT_MAX) {
        madi_rx_short(link, hdr, madi_foreign_of(body));
        return;
    }
    if (how) { /* let the gateway see the whole body, or only its forward header */
        rx.head = madi_foreign_of(body);
        rx.here = how == 1 || hdr->length < MADI_FORWARD_HEAD ? hdr->length : (uint32_t)MADI_FORWARD_HEAD;
    }
    place = madi_rx_begin(link, hdr, &rx);
    FUZZ_CHECK(place != MADI_PLACE_KEEP && rx.skip <= hdr->length);
    if (place == MADI_PLACE_COPY && atomic_load(&link->state) == MADI_LINK_UP) {
        memcpy(rx.base, body + rx.skip, hdr->length - rx.skip);
        madi_rx_done(link, hdr, &rx);
    }
}

static gw_end_t *far_end(world_t *w)
{
    gw_end_t *end = gw_of_session(w->session)->ends;
    while (end && (end->stream != 0x40 || !end->cipher))
        end = end->next;
    return end && end->side ? end : NULL;
}

/* Add the proofs and tags that the other end would make.  Return the length of the body. */
static uint32_t protect(world_t *w, madi_wire_hdr_t *hdr, unsigned char *body)
{
    const size_t before = sizeof(madi_wire_forward_t);
    static unsigned char plain[70000];
    unsigned kind = hdr->flags & MADI_FORWARD_KIND;
    const gw_end_t *end = far_end(w);
    gw_side_t side = {.turn = end ? end->side->turn : 0};
    gw_end_t peer = {.cipher = far, .side = &side, .stream = 0x40, .encrypts = encrypts};
    madi_wire_forward_t forward;
    struct iovec vec = {plain, hdr->length - before};
    gw_statement_t said;
    side.end = &peer;
    if (kind == MADI_FORWARD_READY && hdr->length == before) {
        memcpy(body + before + offsetof(madi_wire_ready_t, key), gw_cipher_public(far), GW_PUBLIC);
        said = gw_statement_forward(&side, hdr, body);
        gw_cipher_prove(far, &said, gw_statement_len(&said), body + before);
        if (end && encrypts)
            gw_cipher_agree(far, gw_cipher_public(end->cipher)); /* only the first call has an effect */
        return (uint32_t)(before + sizeof(madi_wire_ready_t));
    }
    if (kind != MADI_FORWARD_PACKET || hdr->length < MADI_FORWARD_HEAD || !encrypts || hdr->channel == 1)
        return hdr->length;
    memcpy(&forward, body, before);
    memcpy(plain, body + before, vec.iov_len);
    hdr->length = (uint32_t)(before + gw_protected_len(&peer, kind, vec.iov_len));
    FUZZ_CHECK(gw_protect_packet(&peer, hdr, &forward, &vec, 1, vec.iov_len, body + before));
    return hdr->length;
}

static void fragment(world_t *w, input_t *in, uint8_t op)
{
    static unsigned char body[70000];
    mad_session_t *s = w->session;
    madi_gate_t *gate = op & 1 ? s->gates : first; /* the newest gate, or the first */
    madi_wire_forward_t forward = {.ack = op & 2 ? take8(in) : 0, .ask = op & 2 ? take8(in) : 0};
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_FORWARD, .flags = take8(in), .channel = take8(in)};
    uint16_t length = take16(in);
    size_t at;
    hdr.seq = take8(in);
    hdr.aux = take8(in);
    at = head(body, in, op >> 5 & 3, forward, w);
    if (op & 0x10)
        memset(body + at, 0x5a, length);
    else
        take_bytes(in, body + at, length & 0x3ff);
    hdr.length = (uint32_t)at + (op & 0x10 ? length : length & 0x3ffu);
    if (hdr.length > 16 * 1024 - 16 - GW_SEALS)
        hdr.length = 16 * 1024 - 16 - GW_SEALS;
    madi_lock(&s->lock);
    hdr.length = protect(w, &hdr, body);
    if (gate->link && atomic_load(&gate->state) == MADI_GATE_UP && gate->link->driver == s->adapters[0]->driver)
        hand_over(gate->link, &hdr, body, op >> 2 & 3);
    madi_unlock(&s->lock);
}

static uint64_t queued_cost(const gw_side_t *side)
{
    uint64_t n = 0;
    for (const gw_frag_t *frag = side->queue; frag; frag = frag->next)
        n += frag->cost;
    return n;
}

/* Check that the data of streams that pass through are within what the budget has promised them, and that the sum of the
 * promises is within the budget. */
static void budget_check(world_t *w)
{
    mad_session_t *s = w->session;
    gw_t *gw;
    int64_t promised = 0;
    uint32_t labels = 0;
    madi_lock(&s->lock);
    gw = gw_of_session(s);
    for (const gw_transit_t *t = gw->transits; t; t = t->next)
        for (int i = 0; i < 2; i++) {
            const gw_side_t *from = &t->side[i], *out = &t->side[!i];
            uint64_t owed = from->rx_used - from->rx_back; /* bytes that have arrived and not left */
            FUZZ_CHECK(owed <= from->rx_window && queued_cost(out) <= owed + out->free);
            promised += (int64_t)from->rx_window + from->free;
        }
    promised += s->ledger.most[MADI_CHARGE_ANSWERS] + s->ledger.most[MADI_CHARGE_PEERS];
    FUZZ_CHECK(promised == gw->budget_all - gw->budget && promised <= gw->budget_all);
    for (const gw_hop_t *hop = gw->hops; hop; hop = hop->next) {
        FUZZ_CHECK(hop->n_sides[0] == (uint32_t)atomic_load(&hop->gate->ledger.held[MADI_CHARGE_STREAMS]));
        FUZZ_CHECK(hop->cap_sides[0] <= 2 * (uint32_t)madi_bounds[MADI_CHARGE_STREAMS].peer + 8);
        labels += hop->n_sides[0];
    }
    FUZZ_CHECK((int64_t)labels <= madi_bounds[MADI_CHARGE_STREAMS].sum);
    madi_unlock(&s->lock);
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    static const unsigned char secret[GW_SECRET]; /* secret of all links of the fake driver */
    uint8_t how;
    world_t w;
    mad_peer_t peer;
    if (!world_open_as(&w, "fake") || world_link(&w, true) != MADI_GATE_UP)
        abort();
    other_len = world_address(other, "fake", 0x66);
    if (mad_peer_add(w.session, other, other_len, &peer) != MAD_OK)
        abort();
    unknown_begin(&w);
    first = w.gate;
    how = take8(&in);
    encrypts = how & 2;
    far = gw_cipher_new(secret, !(how & 1), GW_REKEY_BITS);
    if (!far || (encrypts && !gw_cipher_offer(far)))
        abort();
    w.gate = world_far_open(&w, how & 1, encrypts);
    if (!w.gate)
        abort();
    while (input_left(&in)) {
        uint8_t op = take8(&in);
        if ((op & 0x8f) == 0x8f)
            look(&w, op & 0x70);
        else if (op & 0x80)
            world_step(&w, op & 0x7f);
        else
            fragment(&w, &in, op);
        world_bounds_check(&w);
        budget_check(&w);
    }
    world_progress(&w);
    world_close(&w);
    gw_cipher_free(far);
}

const target_t fuzz_forward = {"forward", begin, run};
