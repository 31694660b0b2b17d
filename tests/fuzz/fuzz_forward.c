/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments of peers that may send anything, to a process that is the end of streams and a gateway.  The input is a
 * sequence of
 *   1xxxxxxx       a call of the user's
 *   0wwfhh-p ...   a fragment from peer p; hh: how it is handed over; f: its bytes are all the same; ww: what it begins
 *                  with: 0 nothing, 1 what OPEN needs to this process, 2 to a peer, 3 a packet's header:
 *                  [flags] [channel] [length 16] [seq] [aux] body */
#include "fuzz.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char topology[] = "networks = { x = { driver = \"tcp\"; hosts = \"a,g\"; };\n"
                               "y = { driver = \"tcp\"; hosts = \"b,g\"; }; };";
static unsigned char other[100]; /* the address of the second peer */
static size_t other_len;

static void begin(void)
{
    char file[] = "/tmp/fuzz-topology-XXXXXX";
    int fd = mkstemp(file);
    if (fd < 0 || write(fd, topology, sizeof topology - 1) != (ssize_t)sizeof topology - 1)
        abort();
    close(fd);
    world_driver("fake,virtual");
    setenv("MAD_TOPOLOGY", file, 1);
    setenv("MAD_HOST", "g", 1);
    setenv("MAD_FORWARD_BUDGET", "1M", 1);
    setenv("MAD_FORWARD_LINGER", "0", 1);
}

static size_t head(unsigned char *to, input_t *in, unsigned what, const world_t *w)
{
    size_t at = sizeof(madi_wire_forward_t);
    memset(to, 0, 256);
    if (what == 1 || what == 2) {
        const void *address = other;
        size_t len = other_len;
        if (what == 1)
            mad_address(w->session, &address, &len);
        to[at] = 0x40;
        to[at + 2] = take8(in); /* the limit */
        at += sizeof(madi_wire_open_t);
        memcpy(to + at, address, len);
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
        madi_rx_short(link, hdr, body);
        return;
    }
    if (how) { /* all of it, or what a stream waits for */
        rx.head = body;
        rx.here = how == 1 || hdr->length < MADI_FORWARD_HEAD ? hdr->length : (uint32_t)MADI_FORWARD_HEAD;
    }
    place = madi_rx_begin(link, hdr, &rx);
    FUZZ_CHECK(place != MADI_PLACE_KEEP && rx.skip <= hdr->length);
    if (place == MADI_PLACE_COPY && atomic_load(&link->state) == MADI_LINK_UP) {
        memcpy(rx.base, body + rx.skip, hdr->length - rx.skip);
        madi_rx_done(link, hdr, &rx);
    }
}

static void fragment(world_t *w, input_t *in, uint8_t op)
{
    static unsigned char body[70000];
    mad_session_t *s = w->session;
    madi_gate_t *gate = op & 1 ? s->gates : w->gate; /* the newest, or the first */
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_FORWARD, .flags = take8(in), .channel = take8(in)};
    uint16_t length = take16(in);
    size_t at;
    hdr.seq = take8(in);
    hdr.aux = take8(in);
    at = head(body, in, op >> 5 & 3, w);
    if (op & 0x10)
        memset(body + at, 0x5a, length);
    else
        take_bytes(in, body + at, length & 0x3ff);
    hdr.length = (uint32_t)at + (op & 0x10 ? length : length & 0x3ffu);
    if (hdr.length > 16 * 1024 - 16)
        hdr.length = 16 * 1024 - 16;
    madi_lock(&s->lock);
    if (gate->link && atomic_load(&gate->state) == MADI_GATE_UP && gate->link->driver == s->adapters[0]->driver)
        hand_over(gate->link, &hdr, body, op >> 2 & 3);
    madi_unlock(&s->lock);
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    world_t w;
    mad_peer_t peer;
    if (!world_open_as(&w, "fake") || world_link(&w, true) != MADI_GATE_UP)
        abort();
    other_len = world_address(other, "fake", 0x66);
    if (mad_peer_add(w.session, other, other_len, &peer) != MAD_OK)
        abort();
    while (input_left(&in)) {
        uint8_t op = take8(&in);
        if (op & 0x80)
            world_step(&w, op & 0x7f);
        else
            fragment(&w, &in, op);
    }
    world_progress(&w);
    world_close(&w);
}

const target_t fuzz_forward = {"forward", begin, run};
