/* SPDX-License-Identifier: BSD-3-Clause */
/* Structures of messages to be sent. */
#ifndef MADI_TX_POOL_H
#define MADI_TX_POOL_H

#include "core/object/tx.h"

madi_tx_t *madi_tx_new(mad_session_t *session, madi_conn_t *conn);
void madi_tx_reset_pieces(madi_tx_t *tx); /* reset a message that had pieces, so that it can be reused */
void madi_tx_renew(madi_tx_t *tx);        /* reset a message that is complete, so that it can be reused; keep its memory */
void madi_tx_free(madi_tx_t *tx);
static inline void madi_tx_reset(madi_tx_t *tx) /* reset a plain message, so that it can be reused */
{
    tx->stage_len = tx->run_start = sizeof(madi_wire_hdr_t);
    tx->base.plain = MADI_PLAIN_STAGED;
}

#endif
