/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading of blocks in place, by a program that does not know their lengths. */
#include "core/driver.h"
#include "core/object/message.h"
#include "core/object/session.h"
#include "core/recv/receive.h"
#include "core/wire/wire.h"

#include <madeleine/runtime.h>
#include <string.h>

static mad_status_t borrow_set(const void *at, uint64_t there, const void **base, size_t *len)
{
    *base = at;
    *len = (size_t)there;
    return MAD_OK;
}

/* Borrow the block that is being received into memory of the library (madi_early_start_charged).  Under session->lock. */
static mad_status_t borrow_early(madi_rx_msg_t *m, const void **base, size_t *len)
{
    if (!madi_done(&m->early->arrived))
        return MAD_ERR_AGAIN;
    m->early->borrowed = true;
    return borrow_set(m->early->data, MADI_WIRE_DESC_LEN(m->early->desc), base, len);
}

/* Borrow a block of a message that comes in several packets, or a block that needs a grant.  Under session->lock. */
static mad_status_t borrow_slow(madi_rx_msg_t *m, const void **base, size_t *len)
{
    madi_sent_block_t b;
    mad_status_t status = madi_message_status(&m->base);

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
    status = madi_block_look(m, &b);
    if (!status && (b.announced || b.continued))
        status = madi_early_start_charged(m, &b);
    if (status)
        return status;
    if (b.announced || b.continued)
        return borrow_early(m, base, len);
    m->cur = b.behind;
    m->index++;
    return borrow_set(madi_foreign_pass_on(b.data), b.inside, base, len);
}

mad_status_t mad_unpack_borrow(mad_message_t *message, const void **base, size_t *len)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)message;
    mad_status_t status;

    if (MADI_LIKELY(madi_borrow_plain(m, base, len)))
        return MAD_OK;
    if (!message->session || !m->conn)
        return madi_message_status(message);
    mad_progress(message->session);
    if (MADI_UNLIKELY(m->begun)) {
        madi_begun_look(m);
        if (m->begun && atomic_load_explicit(&m->first.link->state, memory_order_acquire) == MADI_LINK_UP)
            return MAD_ERR_AGAIN;
        if (m->begun) /* the link has ended: the rest of the message has already arrived, or never will */
            madi_begun_wait(m);
    }
    madi_lock(&message->session->lock);
    status = borrow_slow(m, base, len);
    madi_unlock(&message->session->lock);
    return status;
}
