/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a gate for rendezvous blocks that are being received. */
#include "core/object/gate.h"
#include "core/recv/receive.h"
#include "core/recv/recv_gate.h"

#include <stdlib.h>

struct madi_recv_gate *madi_recv_gate_new(void)
{
    return calloc(1, sizeof(struct madi_recv_gate));
}

void madi_recv_gate_reset(madi_gate_t *gate)
{
    madi_recv_gate_shrink(gate);
    *gate->recv = (struct madi_recv_gate){0};
}

void madi_recv_gate_shrink(madi_gate_t *gate)
{
    free(gate->recv->share);
    gate->recv->share = NULL;
}

void madi_recv_gate_free(madi_gate_t *gate)
{
    if (gate->recv)
        madi_recv_gate_shrink(gate);
    free(gate->recv);
}

const madi_recv_counts_t *madi_recv_counts(const madi_gate_t *gate)
{
    return &gate->recv->count;
}

bool madi_rdv_recv_none(const madi_gate_t *gate)
{
    return !gate->recv->incoming;
}
