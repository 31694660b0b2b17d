/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that are opened while their last block is still being written: the receiver copies the bytes that have arrived
 * while the sender copies the rest.
 *
 * The message is one packet that lies in memory of the link (driver.h: take).  All bytes before the last block, and that
 * block's descriptor, have arrived when the message is opened.  cur..end are the bytes that had arrived at the last check,
 * so a reader that goes no further needs no special case.  When all bytes have arrived, the message becomes an ordinary lent
 * one.
 *
 * The sender is copying, so the rest arrives within microseconds, unless the sender has lost its core, is stopped or
 * killed. */
#include "base/clock.h"
#include "core/driver.h"
#include "core/object/message.h"
#include "core/object/rx.h"
#include "core/recv/receive.h"
#include "engine/wait_policy.h"

/* Return the number of bytes that have arrived.  The peer may change this value at any time, so each use reads it once. */
static size_t bytes_arrived(const madi_rx_msg_t *m)
{
    uint64_t n = m->first.link->driver->fast.here(m->first.link, m->begun);
    return n < m->hdr.length ? (size_t)n : m->hdr.length;
}

/* Record that n bytes have arrived.  The number never falls. */
static void end_set(madi_rx_msg_t *m, size_t n)
{
    if (n > madi_foreign_between(m->first.loan, m->end))
        m->end = madi_foreign_skip(m->first.loan, n);
    if (n < m->hdr.length)
        return;
    m->begun = 0;
    if (m->base.plain == MADI_PLAIN_BEGUN) /* not if the message has failed */
        m->base.plain = MADI_PLAIN_LENT;
}

void madi_begun_look(madi_rx_msg_t *m)
{
    end_set(m, bytes_arrived(m));
}

void madi_begun_skip(madi_rx_msg_t *m)
{
    end_set(m, m->hdr.length);
}

/* Spin for a limited time until n bytes have arrived.  Return the number of bytes that have arrived. */
static size_t bytes_arrived_spin(const madi_rx_msg_t *m, size_t n)
{
    size_t there = bytes_arrived(m);
    for (int i = 0; there < n && i < MADI_REST_SPINS; i++) {
        madi_relax();
        there = bytes_arrived(m);
    }
    return there;
}

void madi_begun_spin(madi_rx_msg_t *m)
{
    end_set(m, bytes_arrived_spin(m, m->hdr.length));
}

typedef struct rest {
    const madi_rx_msg_t *msg;
    size_t n, there;
} rest_t;

static bool rest_has_arrived(void *arg)
{
    rest_t *rest = arg;
    bool down = atomic_load_explicit(&rest->msg->first.link->state, memory_order_acquire) != MADI_LINK_UP;
    rest->there = bytes_arrived(rest->msg); /* the link's state was read first, so no byte before the link's end is missed */
    return rest->there >= rest->n || down;
}

static void rest_fail(madi_rx_msg_t *m)
{
    madi_message_fail(&m->base, MAD_ERR_PEER);
    madi_begun_skip(m);
    m->cur = m->end;
    m->base.plain = MADI_PLAIN_NONE;
}

/* Wait until n bytes have arrived.  Return the number of bytes that have arrived; if it is below n, the message has
 * failed. */
static size_t rest_wait(madi_rx_msg_t *m, size_t n)
{
    rest_t rest = {m, n, bytes_arrived_spin(m, n)};
    marceli_waiter_t w;
    if (MADI_LIKELY(rest.there >= n))
        return rest.there;
    do {
        marceli_waiter_init(&w);
    } while (!marceli_wait(&w, rest_has_arrived, &rest, madi_deadline(MADI_REST_LOOK_NS)));
    if (rest.there < n)
        rest_fail(m);
    return rest.there;
}

void madi_begun_wait(madi_rx_msg_t *m)
{
    size_t there = rest_wait(m, m->hdr.length);
    if (m->begun) /* the message is still BEGUN unless it has failed */
        end_set(m, there);
}

bool madi_begun_unpack(madi_rx_msg_t *m, void *buf, size_t len, uint64_t desc)
{
    size_t before = madi_foreign_between(m->first.loan, m->cur) + MADI_WIRE_DESC_SIZE, there;
    if (madi_rx_left(m) < MADI_WIRE_DESC_SIZE || !madi_foreign_equals8(m->cur, desc) || m->hdr.length - before != len)
        return false;
    for (size_t done = 0; done < len; done = there - before) {
        there = rest_wait(m, before + done + 1);
        if (!m->begun)
            return true;
        madi_foreign_copy_any((char *)buf + done, madi_foreign_skip(m->cur, MADI_WIRE_DESC_SIZE + done),
                              there - before - done);
    }
    madi_begun_skip(m); /* all bytes of the message have arrived */
    m->cur = madi_foreign_skip(m->cur, MADI_WIRE_DESC_SIZE + len);
    m->index++;
    return true;
}
