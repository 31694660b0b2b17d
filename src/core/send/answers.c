/* SPDX-License-Identifier: BSD-3-Clause */
/* Control packets that answer a sender: a mismatch of blocks, and credit. */
#include "core/conn/conn.h"
#include "core/conn/credit.h"
#include "core/link/event.h"
#include "core/link/link.h"
#include "core/object/channel.h"
#include "core/object/gate.h"
#include "core/object/message.h"
#include "core/object/tx.h"
#include "core/send/rdv_send.h"
#include "core/send/send.h"
#include "core/send/send_gate.h"
#include "core/wire/handle.h"
#include "core/wire/wire.h"

/* ---- MISMATCH: the receiver expected another block -------------------------------------------------------------- */

typedef struct find_seq {
    madi_conn_t *conn;
    uint32_t seq;
    madi_tx_t *tx;
} find_seq_t;

static void tx_match_seq(void *object, void *arg)
{
    madi_rdv_send_t *r = object;
    find_seq_t *f = arg;
    if (r->tx->conn == f->conn && r->tx->seq == f->seq)
        f->tx = r->tx;
}

/* Fail the message of the block; if the message has left, report the difference as an event. */
static void mismatch_report(madi_conn_t *conn, const madi_wire_mismatch_t *mm)
{
    char here[MADI_BLOCK_WORDS], there[MADI_BLOCK_WORDS];
    find_seq_t f = {conn, mm->seq, NULL};
    for (madi_tx_t *tx = conn->queue; tx && !f.tx; tx = tx->next)
        if (tx->seq == mm->seq && tx->started)
            f.tx = tx;
    if (!f.tx)
        madi_handles_each(conn->gate->send->blocks, tx_match_seq, &f);
    if (f.tx) {
        madi_message_fail(&f.tx->base, MAD_ERR_MISMATCH);
        return;
    }
    madi_event(conn->gate->session, MAD_ERR_MISMATCH, conn->gate->peer,
               "channel %s, peer %d, message %u, block %u: the sender packed %s; the receiver expects %s",
               conn->channel->name, conn->gate->peer, mm->seq, mm->index, madi_block_words(mm->sent, here),
               madi_block_words(mm->expected, there));
}

const char *madi_mismatch_arrived(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body)
{
    madi_gate_t *gate = link->gate;
    madi_conn_t *conn;
    madi_lock(&gate->tx_lock);
    conn = madi_conn_by_number(gate, hdr->channel);
    if (conn)
        mismatch_report(conn, body);
    madi_unlock(&gate->tx_lock);
    return NULL;
}

/* ---- CREDIT: the receiver takes further packets ----------------------------------------------------------------- */

const char *madi_credit_arrived(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body)
{
    const madi_wire_credit_t *credit = body;
    madi_gate_t *gate = link->gate;
    madi_conn_t *conn;
    madi_lock(&gate->tx_lock);
    conn = madi_conn_by_number(gate, hdr->channel);
    if (conn && !conn->close_sent) {
        if (credit->limit > conn->credit_limit) {
            conn->credit_left += credit->limit - conn->credit_limit;
            conn->credit_limit = credit->limit;
        }
        madi_conn_quick(conn);
        if (conn->queue)
            madi_conn_kick(conn);
    }
    madi_unlock(&gate->tx_lock);
    return NULL;
}
