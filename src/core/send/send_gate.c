/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a gate for sending. */
#include "core/object/gate.h"
#include "core/object/tx.h"
#include "core/send/rdv_send.h"
#include "core/send/send.h"
#include "core/send/send_gate.h"
#include "core/wire/handle.h"

#include <stdlib.h>

struct madi_send_gate *madi_send_gate_new(void)
{
    struct madi_send_gate *part = calloc(1, sizeof *part);
    if (!part)
        return NULL;
    part->granted_tail = &part->granted;
    part->blocks = madi_handles_new();
    if (!part->blocks) {
        free(part);
        return NULL;
    }
    return part;
}

void madi_send_gate_shrink(madi_gate_t *gate)
{
    free(gate->send->ways);
    gate->send->ways = NULL;
}

void madi_send_gate_reset(madi_gate_t *gate)
{
    madi_send_gate_shrink(gate);
    *gate->send = (struct madi_send_gate){.granted_tail = &gate->send->granted, .blocks = gate->send->blocks};
}

void madi_send_gate_free(madi_gate_t *gate)
{
    if (gate->send) {
        madi_handles_free(gate->send->blocks);
        madi_send_gate_shrink(gate);
    }
    free(gate->send);
}

const madi_send_counts_t *madi_send_counts(const madi_gate_t *gate)
{
    return &gate->send->count;
}

bool madi_rdv_none(const madi_gate_t *gate)
{
    return madi_handles_none(gate->send->blocks);
}

bool madi_rdv_queued(const madi_gate_t *gate)
{
    return gate->send->granted != NULL;
}

static void block_lose(void *block, void *lose)
{
    (*(void (**)(madi_tx_t *))lose)(((madi_rdv_send_t *)block)->tx);
}

void madi_send_gate_lose(madi_gate_t *gate, void (*lose)(madi_tx_t *tx))
{
    gate->send->pending = NULL;
    gate->send->granted = NULL;
    madi_handles_each(gate->send->blocks, block_lose, &lose);
}
