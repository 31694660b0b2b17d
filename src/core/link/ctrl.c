/* SPDX-License-Identifier: BSD-3-Clause */
/* Control packets: sent at once, or queued until the link takes them.  The queue is charged to the peer. */
#include "core/driver.h"
#include "core/link/ledger.h"
#include "core/link/link.h"
#include "core/link/link_gate.h"
#include "core/object/gate.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* Count packets that are held here or by the driver.  While the program computes, perhaps no thread waits for these
 * packets; the count makes the progress thread send them. */
static void ctrl_hold(int n)
{
    marceli_progress_count_later(n);
    if (n > 0)
        marceli_progress_kick_later();
}

void madi_link_holds(madi_link_t *link, int n)
{
    (void)link;
    ctrl_hold(n);
}

static madi_charge_t ctrl_kind(const madi_wire_hdr_t *hdr)
{
    return hdr->type == MADI_WIRE_FORWARD ? MADI_CHARGE_ANSWERS : MADI_CHARGE_CTRL;
}

static int64_t ctrl_size(const madi_wire_hdr_t *hdr)
{
    return (int64_t)(sizeof(madi_ctrl_t) + 16 + hdr->length); /* 16 bytes: what the heap adds to each allocation */
}

static void ctrl_uncharge(madi_gate_t *gate, const madi_ctrl_t *c)
{
    madi_uncharge(gate, ctrl_kind(&c->hdr), ctrl_size(&c->hdr));
}

void madi_ctrl_forget(madi_gate_t *gate)
{
    for (madi_ctrl_t *c; (c = gate->out->ctrl); free(c)) {
        gate->out->ctrl = c->next;
        ctrl_uncharge(gate, c);
        ctrl_hold(-1);
    }
    gate->out->ctrl_tail = &gate->out->ctrl;
}

bool madi_ctrl_waits(const madi_gate_t *gate)
{
    return gate->out->ctrl != NULL;
}

bool madi_ctrl_pump(madi_gate_t *gate)
{
    madi_ctrl_t *c;
    while ((c = gate->out->ctrl)) {
        struct iovec vec[2] = {{&c->hdr, sizeof c->hdr}, {c->body, c->hdr.length}};
        if (gate->link->driver->send(gate->link, vec, c->hdr.length ? 2 : 1, sizeof c->hdr + c->hdr.length, NULL) !=
            MADI_SENT)
            return false;
        gate->out->ctrl = c->next;
        if (!gate->out->ctrl)
            gate->out->ctrl_tail = &gate->out->ctrl;
        ctrl_uncharge(gate, c);
        free(c);
        ctrl_hold(-1);
    }
    return true;
}

/* Queue a control packet until the link takes it.  The packet is charged to the peer, because it stays queued as long
 * as the peer does not read. */
static mad_status_t ctrl_queue(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body)
{
    madi_ctrl_t *c;
    if (!madi_charge(gate, ctrl_kind(hdr), ctrl_size(hdr))) {
        madi_ledger_pass(gate, ctrl_kind(hdr));
        return MAD_ERR_PEER;
    }
    c = malloc(sizeof *c + hdr->length);
    if (!c) {
        madi_uncharge(gate, ctrl_kind(hdr), ctrl_size(hdr));
        return MAD_ERR_NOMEM;
    }
    c->next = NULL;
    c->hdr = *hdr;
    if (hdr->length)
        memcpy(c->body, body, hdr->length);
    *gate->out->ctrl_tail = c;
    gate->out->ctrl_tail = &c->next;
    ctrl_hold(1);
    madi_gate_work(gate);
    return MAD_OK;
}

mad_status_t madi_gate_ctrl_locked(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body)
{
    struct iovec vec[2] = {{(void *)hdr, sizeof *hdr}, {(void *)body, hdr->length}};
    mad_status_t status = MAD_OK;

    if (atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP) {
        status = MAD_ERR_PEER;
    } else if (gate->out->ctrl || gate->link->driver->send(gate->link, vec, hdr->length ? 2 : 1, sizeof *hdr + hdr->length,
                                                           NULL) != MADI_SENT) {
        status = ctrl_queue(gate, hdr, body);
    }
    return status;
}

mad_status_t madi_gate_ctrl(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body)
{
    mad_status_t status;
    madi_lock(&gate->tx_lock);
    status = madi_gate_ctrl_locked(gate, hdr, body);
    madi_unlock(&gate->tx_lock);
    return status;
}

/* ---- Part of a gate ------------------------------------------------------------------------------------------- */

struct madi_link_gate *madi_link_gate_new(void)
{
    struct madi_link_gate *part = calloc(1, sizeof *part);
    if (part)
        part->ctrl_tail = &part->ctrl;
    return part;
}

void madi_link_gate_reset(madi_gate_t *gate)
{
    *gate->out = (struct madi_link_gate){.ctrl_tail = &gate->out->ctrl};
}

void madi_link_gate_free(madi_gate_t *gate)
{
    if (gate->out)
        madi_ctrl_forget(gate);
    free(gate->out);
}
