/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a gate that belongs to this folder.  Private to src/core/link: the functions of link.h are for others. */
#ifndef MADI_LINK_GATE_H
#define MADI_LINK_GATE_H

#include "core/object/types.h"

#include <stdatomic.h>

/* A control packet that waits until the driver takes it. */
typedef struct madi_ctrl {
    struct madi_ctrl *next;
    madi_wire_hdr_t hdr;
    unsigned char body[];
} madi_ctrl_t;

/* Packets and work that wait for the link of a gate. */
struct madi_link_gate {
    madi_ctrl_t *ctrl, **ctrl_tail; /* control packets that the driver did not take yet; NULL if none; under tx_lock */
    _Atomic(int) has_work;          /* not 0 if the gate is in the list of gates with something to send; any lock */
    madi_gate_t *next_work;         /* the next gate in the list of gates with work; under session->work_lock */
};

#endif
