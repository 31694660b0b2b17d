/* SPDX-License-Identifier: BSD-3-Clause */
/* Valid lengths of fragments by kind, and which kinds cost credit.  Kinds that cost no credit are control
 * fragments about the stream: they are short, and few can be queued at a time (doc/gateways.md). */
#include "gateway/gateway.h"

#define HEAD sizeof(madi_wire_forward_t)
#define GREETING 8192 /* bytes: longest part of a handshake in one fragment */
#define SLACK 64      /* bytes that an endpoint may add to a packet */

typedef struct form {
    uint32_t least, most;
    bool costs;
} form_t;

static const form_t forms[MADI_FORWARD_KINDS] = {
    [MADI_FORWARD_PACKET] = {HEAD, MADI_FORWARD_HEAD + GW_FRAGMENT + SLACK, true},
    [MADI_FORWARD_OPEN] = {HEAD + sizeof(madi_wire_open_t) + 1, HEAD + sizeof(madi_wire_open_t) + MADI_ADDRESS_MAX, false},
    [MADI_FORWARD_CREDIT] = {HEAD + sizeof(madi_wire_credit_t), HEAD + sizeof(madi_wire_credit_t), false},
    [MADI_FORWARD_HELLO] = {HEAD, HEAD + GREETING, true},
    [MADI_FORWARD_READY] = {HEAD + sizeof(madi_wire_ready_t), HEAD + sizeof(madi_wire_ready_t), true},
    [MADI_FORWARD_CLOSE] = {HEAD + sizeof(madi_wire_close_t), HEAD + sizeof(madi_wire_close_t) + GW_TEXT, false},
    [MADI_FORWARD_ACK] = {HEAD, HEAD + MADI_WIRE_PROOF, true},
    [MADI_FORWARD_PING] = {HEAD, HEAD, false},
    [MADI_FORWARD_MOVE] = {HEAD, HEAD, false},
    [MADI_FORWARD_TRY] = {HEAD + sizeof(madi_wire_open_t) + 1, HEAD + sizeof(madi_wire_open_t) + MADI_ADDRESS_MAX, false},
    [MADI_FORWARD_KNOW] = {HEAD + 1, HEAD + MADI_ADDRESS_MAX, false},
};

bool gw_form_good(const madi_wire_hdr_t *hdr)
{
    unsigned kind = hdr->flags & MADI_FORWARD_KIND;
    return kind < MADI_FORWARD_KINDS && forms[kind].most && hdr->length >= forms[kind].least &&
           hdr->length <= forms[kind].most;
}

bool gw_costs(const madi_wire_hdr_t *hdr)
{
    unsigned kind = hdr->flags & MADI_FORWARD_KIND;
    return kind < MADI_FORWARD_KINDS && forms[kind].costs;
}
