/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that are read where they lie, by who does not know their lengths. */
#include "core/core.h"

#include <string.h>

static mad_status_t lies_at(const void *at, uint64_t desc, const void **base, size_t *len)
{
    *base = at;
    *len = (size_t)MADI_WIRE_DESC_LEN(desc);
    return MAD_OK;
}

/* One that mad_borrow or mad_try_unpack asked for.  Under session->lock. */
static mad_status_t borrow_early(madi_rx_msg_t *m, const void **base, size_t *len)
{
    if (!madi_done(&m->early->here))
        return MAD_ERR_AGAIN;
    m->early->borrowed = true;
    return lies_at(m->early->data, m->early->desc, base, len);
}

/* Of a message that comes in pieces, or whose block is to be asked for.  Under session->lock. */
static mad_status_t borrow_slow(madi_rx_msg_t *m, const void **base, size_t *len)
{
    madi_sent_block_t b;
    mad_status_t status = madi_message_status(&m->base);
    unsigned kind;

    if (status)
        return status;
    madi_early_forget(m);
    if (m->early)
        return borrow_early(m, base, len);
    if (!m->blocks && madi_block_none(m)) {
        madi_block_mismatch(m, MADI_WIRE_DESC_NONE, MADI_WIRE_DESC_ANY);
        return MAD_ERR_MISMATCH;
    }
    if (m->blocks || !madi_block_next(m))
        return MAD_ERR_AGAIN;
    if (m->end - m->cur >= 8) {
        memcpy(&b.desc, m->cur, 8);
        kind = MADI_WIRE_DESC_KIND(b.desc);
        if (kind == MADI_WIRE_RDV || kind == MADI_WIRE_RDV_AT) {
            status = madi_early_start(m);
            return status ? status : borrow_early(m, base, len);
        }
    }
    status = madi_block_parse(m, &b);
    if (status)
        return status;
    m->index++;
    return lies_at(b.data, b.desc, base, len);
}

mad_status_t mad_borrow(mad_connection_t *cnx, const void **base, size_t *len)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)cnx;
    mad_status_t status;

    if (MADI_LIKELY(madi_borrow_plain(m, base, len)))
        return MAD_OK;
    if (!cnx->session || !m->conn)
        return madi_message_status(cnx);
    mad_progress(cnx->session);
    madi_lock(&cnx->session->lock);
    status = borrow_slow(m, base, len);
    madi_unlock(&cnx->session->lock);
    return status;
}
