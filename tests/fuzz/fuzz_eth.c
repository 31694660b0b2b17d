/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of the driver eth, which every host of a segment can write: [length] frame, repeated, handed to one end of a link.
 * Segments of this end are in flight meanwhile. */
#include "fuzz.h"

#include "drivers/eth/eth_frame.h"
#include <stdlib.h>
#include <string.h>

static char kept; /* stands for a segment that waits */

static void segment_take(eth_in_t *in, const eth_head_t *head)
{
    uint32_t before = atomic_load(&in->next);
    switch (eth_in_arrived(in, head->number)) {
    case ETH_NEXT:
        do
            eth_in_step(in);
        while (eth_in_take(in));
        break;
    case ETH_EARLY: eth_in_keep(in, head->number, &kept); break;
    case ETH_OLD: break;
    }
    FUZZ_CHECK(in->n_kept >= 0 && in->n_kept < ETH_WINDOW);
    FUZZ_CHECK(atomic_load(&in->next) - before <= ETH_WINDOW);
}

static void ack_take(eth_out_t *out, const eth_head_t *head, const void *body, int64_t now)
{
    uint64_t bits[ETH_BITS];
    bool some = head->kind == ETH_ACK && head->len;
    if (some)
        eth_frame_bits(body, bits);
    eth_out_acked(out, head->ack, some ? bits : NULL, head->flags & ETH_REPEATED, now);
    while (eth_out_release(out))
        continue;
    FUZZ_CHECK(out->next - out->acked <= ETH_WINDOW);
    FUZZ_CHECK(out->flying + out->lost <= out->next - out->acked);
    FUZZ_CHECK(out->cwnd >= 1 && out->cwnd <= ETH_WINDOW && out->srtt >= 0);
}

/* Hand over one frame, in memory of exactly its length. */
static void frame_take(eth_out_t *out, eth_in_t *in, input_t *input, size_t len, int64_t now)
{
    eth_head_t head;
    const void *body;
    unsigned char *frame = malloc(len + !len);
    if (!frame)
        abort();
    take_bytes(input, frame, len);
    if (eth_frame_read(frame, len, &head, &body)) {
        FUZZ_CHECK(head.len <= len);
        eth_frame_is_intact(&head, body, true);
        if (head.kind == ETH_DATA)
            segment_take(in, &head);
        if (head.kind == ETH_DATA || head.kind == ETH_ACK)
            ack_take(out, &head, body, now);
    }
    free(frame);
}

static void run(const uint8_t *data, size_t size)
{
    static eth_out_t out;
    static eth_in_t in;
    input_t input = {data, data + size};
    int64_t now = 1000000;
    eth_out_init(&out, 60 * INT64_C(1000000000));
    memset(&in, 0, sizeof in);
    while (input_left(&input)) {
        size_t len = take8(&input);
        len = len < input_left(&input) ? len : input_left(&input);
        while (eth_out_room(&out, now))
            eth_out_add(&out, NULL, 0, 1, 0, now);
        now += 10000;
        frame_take(&out, &in, &input, len, now);
        while (eth_out_resend(&out, now))
            continue;
    }
}

const target_t fuzz_eth = {"eth", NULL, run};
