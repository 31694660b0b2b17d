/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer over shared memory that changes what it has sent while the library reads it; a thread makes the changes
 * (mutator.c).  The peer sends messages, fragments to a gateway and to the end of a stream, and headers of the matching
 * device.  The input is
 *   a              bit 0: the user is the matching device; bit 1: this process has opened the stream
 * and a sequence of
 *   1xxxxxxx       a call of the user
 *   0bbbs0rr ...   a packet: [type] [flags] [channel] [seq] [aux] [length 16], a beginning (bbb) and its length, and up to
 *                  3 places that change: [number] [offset 16] [value 16] ...
 *                  rr: the packet is sent 1, 4, 16 or 64 times; s: a short packet lies in a cell.
 *                  bbb: 0 nothing; 1 OPEN to this process; 2 OPEN to another one; 3 a packet's header; 4 the address of a
 *                  process that forwards; 5 a block; 6 and 7 a block that begins with a header of the device
 * The places change until the next packet arrives, and so also while the user unpacks. */
#include "drivers/shm/shm.h"
#include "fuzz.h"
#include "gateway/gateway.h"
#include "mutator.h"
#include "race.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINKS 4 /* maximum number of links of one input, one after the other */
#define FIRST_UNIT 8
#define NO_IDENTITY SIZE_MAX

static void begin(void)
{
    world_driver("shm,fake,virtual");
    world_topology();
}

static void race_open(race_t *r)
{
    if (r->by_device ? !race_device_open(r) : !world_open_as(&r->w, "shm"))
        abort();
    world_link(&r->w, false);
    r->region = world_shm_offer(&r->w);
    FUZZ_CHECK(r->region && world_up(&r->w));
    atomic_store(&r->region->half[0].window, SHM_UNITS); /* a large window, so that bodies are lent */
    mutator_mapped(r->region, ((shm_link_t *)r->w.link)->region);
    world_far_open(&r->w, r->active, false);
    r->number = 0;
    r->n_links++;
}

/* Check that the record of every process is a valid address. */
static void addresses_check(const race_t *r)
{
    const mad_session_t *s = r->w.session;
    size_t len;
    for (mad_peer_t p = 0; p < madi_peers_end(s); p++)
        if (madi_peer_at((mad_session_t *)s, p) && madi_peer_address(s, p))
            FUZZ_CHECK(madi_address_check(madi_peer_address(s, p), MADI_ADDRESS_MAX, &len) == MAD_OK);
}

static void race_close(race_t *r)
{
    mutator_stop();
    addresses_check(r);
    if (r->by_device)
        race_device_close(r);
    else
        world_close(&r->w);
    munmap(r->region, sizeof *r->region);
}

/* ---- Packets ----------------------------------------------------------------------------------------------------- */

/* Write the address of a forwarding process on another host, to which this process would connect. */
static size_t forwarder(const race_t *r, unsigned char *to)
{
    gw_t *gw = gw_of_session(r->w.session);
    size_t len = world_address(to, "fake", 0x99), n = strlen(gw->base.network);
    memcpy(to + len, "\7virtual", 8);
    len += 8;
    to[len++] = (unsigned char)n;
    memcpy(to + len, gw->base.network, n);
    len += n;
    memcpy(to + len, "\2\1b", 3);
    len += 3;
    to[2] = (unsigned char)len;
    return len;
}

static size_t opening(const race_t *r, input_t *in, unsigned char *to, bool here, size_t *identity)
{
    madi_wire_open_t open = {.limit = (uint64_t)take8(in) << 16, .stream = take8(in), .turn = take8(in)};
    size_t at = sizeof(madi_wire_forward_t) + sizeof open, len;
    const void *own;
    memcpy(to + sizeof(madi_wire_forward_t), &open, sizeof open);
    if (here && mad_address(r->w.session, &own, &len) == MAD_OK) {
        memcpy(to + at, own, len);
        return at + len;
    }
    *identity = at + 4;
    return at + forwarder(r, to + at);
}

/* Write the beginning of a packet; return its length.  *identity: place of an identity that must differ each time. */
static size_t beginning(const race_t *r, input_t *in, unsigned char *to, unsigned what, size_t *identity)
{
    size_t at = what >= 5 ? 0 : sizeof(madi_wire_forward_t);
    madi_wire_hdr_t inner;
    uint64_t desc;
    memset(to, 0, 512);
    switch (what) {
    case 0: return 0;
    case 1:
    case 2: return opening(r, in, to, what == 1, identity);
    case 3:
        inner = (madi_wire_hdr_t){.type = take8(in), .flags = take8(in), .length = take8(in)};
        memcpy(to, &(madi_wire_forward_t){.ack = r->active}, sizeof(madi_wire_forward_t)); /* OPEN has come */
        memcpy(to + at, &inner, sizeof inner);
        return at + sizeof inner;
    case 4: *identity = at + 4; return at + forwarder(r, to + at);
    default:
        desc = take16(in) | (uint64_t)take8(in) << 48; /* 0: an inline block whose length is that of the bytes that follow */
        memcpy(to, &desc, sizeof desc);
        return sizeof desc + (what == 5 ? 0 : race_device_head(in, to + sizeof desc, what == 7));
    }
}

static void cell_put(race_t *r, const madi_wire_hdr_t *hdr, uint32_t unit, bool in_cell)
{
    shm_cell_t *cell = &r->region->half[0].cells[r->number % SHM_CELLS];
    memcpy(shm_out(cell->data), hdr, sizeof *hdr);
    r->number++;
    atomic_store(&cell->head, (uint64_t)r->number | (in_cell ? 0 : (uint64_t)(unit + 1) << 32));
}

static void race_progress(race_t *r)
{
    if (r->by_device)
        race_device_progress(r);
    else
        mad_progress(r->w.session);
}

static void places_set(input_t *in, volatile unsigned char *body, uint32_t len)
{
    int n = len < 2 ? 0 : take8(in) & 3;
    for (int i = 0; i < MUTATED_MAX; i++) {
        size_t offset = i < n ? take16(in) % (len - 1) & ~(size_t)1 : 0;
        mutator_set(i, i < n ? body + offset : NULL, i < n ? take16(in) : 0);
    }
}

static void packet(race_t *r, input_t *in, uint8_t op)
{
    static unsigned char body[4096];
    madi_wire_hdr_t hdr = {.type = take8(in), .flags = take8(in), .channel = take8(in), .seq = take8(in), .aux = take8(in)};
    uint32_t length = take16(in) & 0x7ff;
    size_t identity = NO_IDENTITY, at = beginning(r, in, body, op >> 4 & 7, &identity);
    int times = 1 << 2 * (op & 3);
    volatile unsigned char *where;
    bool in_cell;
    take_bytes(in, body + at, length);
    hdr.length = (uint32_t)at + length;
    if ((op >> 4 & 7) >= 5 && !body[0] && !body[1] && !body[6])
        memcpy(body, &(uint16_t){(uint16_t)(hdr.length - 8)}, 2);
    if (hdr.type == MADI_WIRE_MSG)
        hdr.aux = (uint32_t)madi_wire_cost(hdr.length + sizeof hdr);
    in_cell = op & 8 && hdr.length <= MADI_SHORT_MAX;
    if (in_cell)
        times = 1;
    r->unit = (r->unit + 4) % (SHM_WINDOW_MIN - FIRST_UNIT - 4);
    where = in_cell ? shm_out(r->region->half[0].cells[r->number % SHM_CELLS].data) + sizeof hdr
                    : shm_out(r->region->half[0].units[FIRST_UNIT + r->unit]);
    memcpy((void *)(uintptr_t)where, body, hdr.length);
    places_set(in, where, hdr.length);
    for (int i = 0; i < times && world_up(&r->w); i++) {
        r->fresh++;
        if (identity != NO_IDENTITY)
            memcpy((void *)(uintptr_t)(where + identity + 8), &r->fresh, sizeof r->fresh);
        cell_put(r, &hdr, FIRST_UNIT + r->unit, in_cell);
        race_progress(r);
    }
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    uint8_t how = take8(&in);
    race_t r = {.by_device = how & 1, .active = how & 2};
    race_open(&r);
    while (input_left(&in)) {
        uint8_t op = take8(&in);
        if (!world_up(&r.w)) {
            if (r.n_links == LINKS)
                break;
            race_close(&r);
            race_open(&r);
        }
        if (op & 0x80) {
            if (r.by_device)
                race_device_step(&r, op & 0x7f);
            else
                world_step(&r.w, op & 0x7f);
            continue;
        }
        packet(&r, &in, op);
    }
    race_progress(&r);
    race_close(&r);
}

const target_t fuzz_race = {"race", begin, run};
