/* SPDX-License-Identifier: BSD-3-Clause */
/* Unpacking: the blocks of an open message. */
#include "core/api/api.h"
#include "core/driver.h"
#include "core/link/polled.h"
#include "core/object/message.h"
#include "core/object/rx.h"
#include "core/object/tx.h"
#include "core/progress/progress.h"
#include "core/recv/receive.h"
#include "core/send/policy.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

void madi_message_wait(madi_rx_msg_t *m, bool (*test)(void *arg), void *arg)
{
    mad_session_t *session = m->base.session;
    marceli_waiter_t w;
    marceli_waiter_init(&w);
    madi_lock(&session->lock);
    w.expected = madi_path_wait_ns(m->rdv_bytes);
    m->waiter = &w;
    madi_unlock(&session->lock);
    marceli_wait(&w, test, arg, INT64_MAX);
    madi_lock(&session->lock);
    m->waiter = NULL;
    madi_unlock(&session->lock);
}

static bool block_has_arrived(void *arg)
{
    madi_rx_msg_t *m = arg;
    bool there;
    if (madi_message_status(&m->base))
        return true;
    madi_lock(&m->base.session->lock);
    there = !m->blocks && (madi_block_next(m) || madi_block_none(m));
    madi_unlock(&m->base.session->lock);
    return there;
}

/* Receive the block at the cursor into the pieces.  If the block is only announced and the call may not wait, receive it
 * into memory of the library, and return MAD_ERR_AGAIN until it has arrived.  Under session->lock. */
static mad_status_t block_take(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t desc, bool may_wait,
                               madi_waitable_t *here)
{
    madi_sent_block_t b;
    mad_status_t status = madi_block_look(m, &b);
    bool express = !MADI_WIRE_DESC_RMODE(desc);
    if (status)
        return status;
    if (express && !may_wait && (b.announced || b.continued) && madi_block_agrees(m, b.desc, desc))
        return madi_early_start(m, &b);
    return madi_block_place(m, &b, pieces, n, desc, express ? here : NULL);
}

static bool waitable_is_done(void *arg)
{
    return madi_done(arg);
}

/* Get all bytes of a message that the sender is still writing.  MAD_ERR_AGAIN if bytes are missing and the call may not
 * wait. */
static mad_status_t begun_complete(madi_rx_msg_t *m, bool may_wait)
{
    if (may_wait) {
        madi_begun_wait(m);
        return madi_message_status(&m->base);
    }
    mad_progress(m->base.session); /* make progress, as for a message that has not arrived */
    madi_begun_look(m);
    return m->begun ? MAD_ERR_AGAIN : MAD_OK;
}

static bool early_done(void *arg)
{
    madi_rx_msg_t *m = arg;
    return madi_done(&m->early->arrived) || madi_message_status(&m->base);
}

static mad_status_t early_take(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t expected, bool may_wait)
{
    mad_status_t status;
    if (!may_wait && !early_done(m)) {
        mad_progress(m->base.session);
        if (!early_done(m))
            return MAD_ERR_AGAIN;
    }
    madi_message_wait(m, early_done, m);
    madi_lock(&m->base.session->lock);
    status = madi_message_status(&m->base);
    if (!status && !madi_block_agrees(m, m->early->desc, expected)) {
        madi_block_mismatch(m, m->early->desc, expected);
        status = MAD_ERR_MISMATCH;
    }
    if (!status) {
        madi_spread(pieces, n, madi_foreign_of(m->early->data), 0, MADI_WIRE_DESC_LEN(m->early->desc));
        madi_early_drop(m);
    }
    madi_unlock(&m->base.session->lock);
    return status;
}

static mad_status_t unpack_slow(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t desc, bool may_wait)
{
    mad_session_t *session = m->base.session;
    bool express = !MADI_WIRE_DESC_RMODE(desc);
    madi_waitable_t here = {.done = 1};
    mad_status_t status = madi_message_status(&m->base);

    if (!session || !m->conn || status)
        return status;
    if (MADI_UNLIKELY(m->begun)) {
        status = begun_complete(m, may_wait);
        if (status)
            return status;
    }
    if (MADI_UNLIKELY(m->early && m->early->borrowed)) {
        madi_lock(&session->lock);
        madi_early_drop(m);
        madi_unlock(&session->lock);
    }
    if (m->early)
        return early_take(m, pieces, n, desc, may_wait);
    if (express && may_wait) {
        if (!block_has_arrived(m))
            madi_message_wait(m, block_has_arrived, m);
    } else if (express && !block_has_arrived(m)) {
        mad_progress(session);
        if (!block_has_arrived(m))
            return MAD_ERR_AGAIN;
    }
    madi_lock(&session->lock);
    if (!m->blocks && madi_block_next(m)) {
        status = block_take(m, pieces, n, desc, may_wait, &here);
    } else if (madi_block_none(m) || madi_message_status(&m->base)) {
        madi_block_mismatch(m, MADI_WIRE_DESC_NONE, desc);
        status = madi_message_status(&m->base);
    } else {
        status = madi_block_wait(m, pieces, n, desc);
    }
    madi_unlock(&session->lock);
    if (!status && m->early)
        return early_take(m, pieces, n, desc, false);
    if (!status && !madi_done(&here)) {
        if (madi_cont_of(m))
            madi_cont_poll(m);
        madi_message_wait(m, waitable_is_done, &here);
        status = madi_message_status(&m->base);
    }
    return status;
}

/* Copy the block at the cursor of a plain message.  Return false if that block is not the expected one. */
static inline __attribute__((always_inline)) bool unpack_plain(madi_rx_msg_t *m, void *buf, size_t len, uint64_t desc)
{
    madi_foreign_t at = m->cur;
    if (MADI_UNLIKELY(madi_rx_left(m) < MADI_WIRE_DESC_SIZE + len))
        return false;
    /* the descriptors include the modes: modes that equal the sender's are legal */
    if (MADI_UNLIKELY(!madi_foreign_equals8(at, desc)))
        return false;
    madi_foreign_copy_any(buf, madi_foreign_skip(at, MADI_WIRE_DESC_SIZE), len);
    m->cur = madi_foreign_skip(at, MADI_WIRE_DESC_SIZE + len);
    m->index++;
    return true;
}

/* Unpack a block that is not a small block of a plain message. */
static __attribute__((noinline)) mad_status_t unpack_other(mad_message_t *message, void *buf, size_t len, uint64_t desc,
                                                           bool legal, bool may_wait)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)message;
    struct iovec piece = {buf, len};

    /* A message that is not plain is read under the lock only: progress may be adding to it. */
    if (message->plain && buf && len <= MADI_PLAIN_MAX && unpack_plain(m, buf, len, desc))
        return MAD_OK;
    if (MADI_UNLIKELY(m->begun) && buf && may_wait && madi_begun_unpack(m, buf, len, desc))
        return madi_message_status(message);
    if (madi_message_status(message))
        return madi_message_status(message);
    if ((!buf && len) || len > MADI_WIRE_LEN_MAX || !legal) {
        madi_message_fail(message, MAD_ERR_INVAL);
        return MAD_ERR_INVAL;
    }
    return unpack_slow(m, &piece, 1, desc, may_wait);
}

static inline __attribute__((always_inline)) mad_status_t
block_unpack(mad_message_t *message, void *buf, size_t len, mad_send_mode_t smode, mad_receive_mode_t rmode, bool may_wait)
{
    uint64_t desc = madi_wire_desc(len, MADI_WIRE_INLINE, rmode, smode);

    if (MADI_LIKELY(message->plain && buf && len <= MADI_COPY_INLINE &&
                    unpack_plain((madi_rx_msg_t *)message, buf, len, desc)))
        return MAD_OK;
    return unpack_other(message, buf, len, desc, (unsigned)smode <= 2 && (unsigned)rmode <= 1, may_wait);
}

mad_status_t mad_unpack(mad_message_t *message, void *buf, size_t len, mad_send_mode_t send_mode,
                        mad_receive_mode_t receive_mode)
{
    return block_unpack(message, buf, len, send_mode, receive_mode, true);
}

mad_status_t mad_unpack_try(mad_message_t *message, void *buf, size_t len, mad_send_mode_t send_mode,
                            mad_receive_mode_t receive_mode)
{
    return block_unpack(message, buf, len, send_mode, receive_mode, false);
}

mad_status_t mad_unpack_scatter(mad_message_t *message, const struct iovec *pieces, int n, mad_send_mode_t send_mode,
                                mad_receive_mode_t receive_mode)
{
    bool legal = n >= 0 && (pieces || !n) && (unsigned)send_mode <= 2 && (unsigned)receive_mode <= 1;
    size_t len = 0;
    for (int i = 0; i < n && legal; i++) {
        legal = (pieces[i].iov_base || !pieces[i].iov_len) && pieces[i].iov_len <= MADI_WIRE_LEN_MAX - len;
        len += pieces[i].iov_len;
    }
    if (!legal) {
        madi_message_fail(message, MAD_ERR_INVAL);
        return MAD_ERR_INVAL;
    }
    return unpack_slow((madi_rx_msg_t *)message, pieces, n, madi_wire_desc(len, MADI_WIRE_INLINE, receive_mode, send_mode),
                       true);
}

mad_status_t mad_unpack_strided(mad_message_t *message, void *base, size_t len, size_t stride, size_t count,
                                mad_send_mode_t send_mode, mad_receive_mode_t receive_mode)
{
    struct iovec *pieces;
    mad_status_t status;
    if (count == 1 || (stride == len && (!len || count <= MADI_WIRE_LEN_MAX / len)))
        return mad_unpack(message, base, len * count, send_mode, receive_mode);
    pieces = madi_strided(message, base, len, stride, count);
    if (!pieces)
        return madi_message_status(message);
    status = mad_unpack_scatter(message, pieces, (int)count, send_mode, receive_mode);
    free(pieces);
    return status;
}

/* Poll for the rest of the block a limited number of times.  As in open_wait, the thread does not read the clock and
 * does not become the leader. */
void madi_cont_poll(madi_rx_msg_t *m)
{
    mad_session_t *session = m->base.session;
    for (int i = session->spins; i > 0 && atomic_load_explicit(&m->rdv_pending, memory_order_acquire); i--) {
        madi_adapter_t *hit;
        if (marceli_is_led() || marceli_others_ready())
            return; /* another thread polls for all, or other threads want to run on this worker */
        hit = madi_poll_hit(session);
        if (!hit)
            continue;
        madi_lock(&session->lock);
        if (!madi_progress_after(session, hit->driver->poll(hit, 1)))
            madi_poll_missed(session, hit);
        madi_unlock(&session->lock);
        if (MADI_UNLIKELY(atomic_load_explicit(&session->has_calls, memory_order_relaxed)))
            madi_calls_run(session);
    }
}
