/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of messages that are sent: allocation, reuse, release. */
#include "core/conn/tx_pool.h"
#include "core/object/message.h"

#include <stdlib.h>
#include <string.h>

static void tx_init(madi_tx_t *tx, mad_session_t *session, madi_conn_t *conn)
{
    memset(tx, 0, offsetof(madi_tx_t, small));
    tx->base.kind = MADI_MESSAGE_TX;
    tx->base.session = session;
    tx->conn = conn;
    tx->stage = tx->small;
    tx->stage_cap = sizeof tx->small;
    madi_tx_reset(tx);
}

madi_tx_t *madi_tx_new(mad_session_t *session, madi_conn_t *conn)
{
    madi_tx_t *tx = malloc(sizeof *tx);
    if (tx)
        tx_init(tx, session, conn);
    return tx;
}

static void free_pieces(madi_tx_t *tx)
{
    for (uint32_t i = 0; i < tx->n_pieces; i++) {
        free(tx->pieces[i].copy);
        free(tx->pieces[i].segs);
    }
    if (tx->stage != tx->small)
        free(tx->stage);
}

void madi_tx_reset_pieces(madi_tx_t *tx)
{
    free_pieces(tx);
    tx->n_pieces = tx->next_piece = 0;
    tx->ended = tx->started = tx->all_sent = false;
    tx->stage = tx->small;
    tx->stage_cap = sizeof tx->small;
    madi_tx_reset(tx);
}

void madi_tx_renew(madi_tx_t *tx)
{
    madi_piece_t *pieces = tx->pieces;
    madi_rdv_send_t *free_block = tx->free_block;
    uint32_t cap = tx->cap_pieces;
    free_pieces(tx);
    tx_init(tx, tx->base.session, tx->conn);
    tx->pieces = pieces;
    tx->cap_pieces = cap;
    tx->free_block = free_block;
}

void madi_tx_free(madi_tx_t *tx)
{
    free_pieces(tx);
    free(tx->pieces);
    free(tx->free_block);
    free(tx);
}
