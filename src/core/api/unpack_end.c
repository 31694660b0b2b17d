/* SPDX-License-Identifier: BSD-3-Clause */
/* Unpacking: the program ends a message. */
#include "core/api/api.h"
#include "core/conn/request.h"
#include "core/conn/rx_pool.h"
#include "core/driver.h"
#include "core/object/gate.h"
#include "core/object/message.h"
#include "core/object/rx.h"
#include "core/recv/receive.h"

#include <stdlib.h>

static bool end_test(void *arg)
{
    madi_rx_msg_t *m = arg;
    bool done;
    if (atomic_load_explicit(&m->rdv_pending, memory_order_acquire)) /* pairs with madi_rdv_recv_done */
        return false;
    madi_lock(&m->base.session->lock);
    done = madi_rx_settle(m);
    if (done)
        madi_rx_live_remove(m);
    madi_unlock(&m->base.session->lock);
    return done;
}

/* End a message that could not be opened: return its status, and free it. */
static mad_status_t unpacking_end_broken(mad_message_t *message)
{
    mad_status_t status = madi_message_status(message);
    if (message->session)
        free(message);
    return status;
}

/* End a message with a lent body, all of which was unpacked without a failure. */
static mad_status_t end_loan(madi_rx_msg_t *m)
{
    madi_packet_return(&m->first);
    m->current = NULL;
    madi_rx_free(m);
    return MAD_OK;
}

static __attribute__((noinline)) mad_status_t end_other(madi_rx_msg_t *m)
{
    mad_status_t status = madi_message_status(&m->base);
    if (MADI_UNLIKELY(m->begun))
        madi_begun_skip(m);
    if (m->base.plain == MADI_PLAIN_LENT && !madi_rx_left(m))
        return end_loan(m);
    if (!m->base.session || !m->conn)
        return unpacking_end_broken(&m->base);
    if (m->is_unfinished || madi_rx_left(m) || !m->cur_last || m->blocks || m->early || status ||
        atomic_load_explicit(&m->rdv_pending, memory_order_acquire)) {
        if (madi_cont_of(m))
            madi_cont_poll(m);
        if (!end_test(m))
            madi_message_wait(m, end_test, m);
        status = madi_message_status(&m->base);
    }
    madi_rx_release(m);
    return status;
}

mad_status_t mad_end_unpacking(mad_message_t *message)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)message;

    if (MADI_LIKELY(message->plain == MADI_PLAIN_INLINE && !madi_rx_left(m))) {
        madi_rx_free(m);
        return MAD_OK;
    }
    return end_other(m);
}

mad_status_t mad_end_unpacking_request(mad_message_t *message, mad_request_t **request)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)message;
    mad_request_t *r = message->session ? madi_request_new(message->session, true) : NULL;
    mad_status_t status;

    if (MADI_UNLIKELY(m->begun))
        madi_begun_skip(m);
    if (!r || !m->conn) {
        status = mad_end_unpacking(message);
        if (!r)
            return status ? status : MAD_ERR_NOMEM;
        madi_request_complete(r, status);
    } else {
        madi_lock(&message->session->lock);
        m->ended = true;
        m->request = r;
        r->rx = m;
        madi_rx_finish(m);
        madi_unlock(&r->session->lock);
    }
    madi_request_left(r);
    *request = r;
    return MAD_OK;
}

void mad_message_drop(mad_message_t *message)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)message;
    mad_request_t *request;
    if (MADI_UNLIKELY(m->begun))
        madi_begun_skip(m);
    if (MADI_LIKELY(message->plain && !madi_rx_left(m))) { /* nothing is left to wait for */
        mad_end_unpacking(message);
        return;
    }
    /* A message that is not plain may have more blocks than have arrived. */
    if (m->conn && (!message->plain || madi_rx_left(m))) {
        m->may_leave_rest = true;
        message->plain = MADI_PLAIN_NONE;
    }
    if (mad_end_unpacking_request(message, &request) == MAD_OK)
        mad_request_detach(request, NULL, NULL);
}

mad_peer_t mad_message_peer(const mad_message_t *message)
{
    if (message->kind == MADI_MESSAGE_RX)
        return ((const madi_rx_msg_t *)message)->conn ? ((const madi_rx_msg_t *)message)->conn->gate->peer : MAD_ANY_SOURCE;
    return ((const madi_tx_t *)message)->conn ? ((const madi_tx_t *)message)->conn->gate->peer : MAD_ANY_SOURCE;
}

mad_status_t mad_message_status(const mad_message_t *message)
{
    return madi_message_status(message);
}
