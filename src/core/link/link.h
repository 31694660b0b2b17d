/* SPDX-License-Identifier: BSD-3-Clause */
/* Control packets, queued until the link takes them; the list of gates with work. */
#ifndef MADI_LINK_H
#define MADI_LINK_H

#include "core/object/gate.h"
#include "core/object/session.h"

/* A control packet that waits until the driver takes it. */
typedef struct madi_ctrl {
    struct madi_ctrl *next;
    madi_wire_hdr_t hdr;
    unsigned char body[];
} madi_ctrl_t;

mad_status_t madi_gate_ctrl(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body);        /* takes tx_lock */
mad_status_t madi_gate_ctrl_locked(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body); /* under tx_lock */
bool madi_ctrl_pump(madi_gate_t *gate);   /* send queued control packets; false: some are left; under tx_lock */
void madi_ctrl_forget(madi_gate_t *gate); /* discard them; under tx_lock */

void madi_gate_work(madi_gate_t *gate);  /* have the next progress pump the gate; any lock */
void madi_gate_go_on(madi_gate_t *gate); /* likewise, but before any thread sleeps */

#endif
