/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets from a peer that may send anything, while the user calls the library.  The input is a sequence of
 *   1xxxxxxx                     a call of the user
 *   0....mhh [type] [flags] [channel] [length 16] [seq 16] [aux 8 or 32] body
 *                                a packet; hh: how it is handed over; m: aux has four bytes, else it is a handle's index */
#include "fuzz.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

static void begin(void)
{
    world_driver("fake");
    world_bounds_lower();
}

static void packet(world_t *w, input_t *in, uint8_t op)
{
    static unsigned char body[65536];
    madi_wire_hdr_t hdr = {.type = take8(in), .flags = take8(in), .channel = take8(in)};
    uint8_t step = (uint8_t)(op << 1);
    hdr.length = take16(in);
    hdr.seq = take16(in);
    hdr.aux = op & 4 ? take32(in) : take8(in) | UINT32_C(1) << 20;
    if (hdr.length > 16 * 1024 - 16) /* drivers refuse longer packets */
        hdr.length = 16 * 1024 - 16;
    take_bytes(in, body, hdr.length);
    fake_packet(w, &hdr, body, op & 3, step);
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    world_t w;
    if (!world_open(&w) || world_link(&w, true) != MADI_GATE_UP)
        abort();
    while (input_left(&in)) {
        uint8_t op = take8(&in);
        if (op & 0x80)
            world_step(&w, op & 0x7f);
        else if (world_up(&w))
            packet(&w, &in, op);
        else
            mad_progress(w.session);
        world_bounds_check(&w);
    }
    world_close(&w);
}

const target_t fuzz_packets = {"packets", begin, run};
