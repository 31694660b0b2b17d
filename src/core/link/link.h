/* SPDX-License-Identifier: BSD-3-Clause */
/* Control packets, queued until the link takes them; the list of gates with work. */
#ifndef MADI_LINK_H
#define MADI_LINK_H

#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/wire/wire.h"

mad_status_t madi_gate_ctrl(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body);        /* takes tx_lock */
mad_status_t madi_gate_ctrl_locked(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body); /* under tx_lock */
/* send queued control packets; return false if some are left; under tx_lock */
bool madi_ctrl_pump(madi_gate_t *gate);
bool madi_ctrl_waits(const madi_gate_t *gate); /* true if control packets are queued; under tx_lock */
void madi_ctrl_forget(madi_gate_t *gate);      /* discard queued control packets; under tx_lock */

/* Handle a control packet (a row of MADI_WIRE_CONTROLS) whose body has the length of its row.  Return NULL, or the rule that
 * the packet breaks: the link then ends with MAD_ERR_PROTOCOL.  Under session->lock. */
typedef const char *(*madi_control_handler_t)(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body);
#define MADI_WIRE_HANDLER(name, number, length, handler) \
    const char *handler(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body);
MADI_WIRE_CONTROLS(MADI_WIRE_HANDLER)
/* text of the error for CLOSE or CLOSED with a wrong number */
#define MADI_WRONG_NUMBER "the end of a channel's number that is not in use"

void madi_gate_work(madi_gate_t *gate);           /* have the next progress pump the gate; any lock */
void madi_gate_go_on(madi_gate_t *gate);          /* like madi_gate_work, but the gate is pumped before any thread sleeps */
bool madi_gate_has_work(const madi_gate_t *gate); /* true if the gate is in the list of gates with work; any lock */
madi_gate_t *madi_work_take(mad_session_t *session); /* empty the list, and return its first gate; NULL if none */
madi_gate_t *madi_work_next(madi_gate_t *gate);      /* return the next gate of the taken list; `gate` leaves that list */

/* This folder's part of a gate (gate->out). */
struct madi_link_gate *madi_link_gate_new(void); /* return NULL if out of memory */
void madi_link_gate_reset(madi_gate_t *gate);    /* reset this folder's part of a gate for another peer, when no packet is
                                                  * queued */
void madi_link_gate_free(madi_gate_t *gate);     /* discard queued packets, and free this folder's part of the gate if there
                                                  * is one */

#endif
