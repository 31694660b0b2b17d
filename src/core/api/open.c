/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening messages: mad_begin_unpacking and its forms. */
#include "core/api/api.h"
#include "core/conn/channel.h"
#include "core/conn/conn.h"
#include "core/conn/credit.h"
#include "core/conn/rx_pool.h"
#include "core/connect/gate.h"
#include "core/driver.h"
#include "core/link/polled.h"
#include "core/link/usable.h"
#include "core/object/gate.h"
#include "core/object/message.h"
#include "core/object/rx.h"
#include "core/progress/progress.h"
#include "core/recv/receive.h"
#include "core/send/share.h"
#include "core/wire/wire.h"

#include <madeleine/runtime.h>
#include <stdlib.h>
#include <string.h>

#define MANY 16          /* the largest number of messages that one call opens */
#define POLLED_OTHERS 16 /* number of packets that a round takes after a round that found only packets for other receivers */

/* Take the next message of a channel, whose connections take turns.  Return NULL if none. */
static madi_rx_msg_t *channel_take(mad_channel_t *channel)
{
    madi_conn_t *conn;
    while ((conn = channel->ready)) {
        madi_rx_msg_t *m = madi_rx_take_from(conn);
        channel->ready = conn->next_ready;
        if (!channel->ready)
            channel->ready_tail = &channel->ready;
        if (conn->ready) {
            conn->next_ready = NULL;
            *channel->ready_tail = conn;
            channel->ready_tail = &conn->next_ready;
        } else {
            conn->in_ready = false;
        }
        if (m)
            return m;
    }
    return NULL;
}

typedef struct opening {
    mad_channel_t *channel;
    mad_peer_t source;
    madi_conn_t *conn;
    madi_rx_msg_t *msg;
    bool others; /* true if a round of progress has brought packets, but not the wanted message */
    mad_status_t status;
} opening_t;

/* Called under session->lock. */
static bool open_locked(opening_t *o)
{
    o->msg = o->source == MAD_ANY_SOURCE ? channel_take(o->channel) : madi_rx_take_from(o->conn);
    if (MADI_LIKELY(o->msg != NULL))
        return true;
    if (o->conn && atomic_load_explicit(&o->conn->gate->state, memory_order_relaxed) == MADI_GATE_DOWN)
        o->status = o->conn->gate->status;
    else if (atomic_load_explicit(&o->channel->closed, memory_order_relaxed))
        o->status = madi_channel_status(o->channel);
    return o->status != MAD_OK;
}

/* Test without the lock first: a waiting thread must not keep the lock from other threads. */
static bool open_test(void *arg)
{
    opening_t *o = arg;
    bool found;
    if (o->msg || o->status) /* the waiting function may call this test again after it has succeeded */
        return true;
    if (!atomic_load_explicit(&o->channel->n_ready, memory_order_relaxed) &&
        !atomic_load_explicit(&o->channel->closed, memory_order_relaxed) &&
        !(o->conn && atomic_load_explicit(&o->conn->gate->state, memory_order_relaxed) == MADI_GATE_DOWN))
        return false;
    madi_lock(&o->channel->session->lock);
    found = open_locked(o);
    madi_unlock(&o->channel->session->lock);
    return found;
}

/* Take a message that has arrived already.  Return NULL if none has, or if handlers or callbacks are due: the slow path
 * runs those.  While more messages wait, the next call looks for these first, and not for packets.  Under
 * session->lock. */
static __attribute__((noinline)) madi_rx_msg_t *take_ready(mad_channel_t *channel, madi_conn_t *conn)
{
    mad_session_t *session = channel->session;
    uint32_t n = atomic_load_explicit(&channel->n_ready, memory_order_relaxed);
    if (!n || atomic_load_explicit(&session->has_calls, memory_order_relaxed))
        return NULL;
    if (MADI_LIKELY(n > 1))
        session->last_hit = &madi_no_adapter;
    return MADI_LIKELY(conn != NULL) ? madi_rx_take_from(conn) : channel_take(channel);
}

/* No packet was taken into the structure m: free m, and take a message that has arrived before.  Under session->lock. */
static __attribute__((noinline)) madi_rx_msg_t *take_ready_instead(madi_rx_msg_t *m, mad_channel_t *channel,
                                                                   madi_conn_t *conn)
{
    madi_rx_free(m);
    return take_ready(channel, conn);
}

/* Dispatch a packet that is not the message that was looked for, as if it had been polled. */
static MADI_COLD madi_rx_msg_t *take_dispatch(madi_link_t *link, madi_rx_msg_t *m)
{
    madi_foreign_t loan = m->first.loan;
    m->first.loan = (madi_foreign_t){0};
    if (link->begun) /* do not take it: poll delivers the body when it is complete */
        link->begun = 0;
    else if (madi_foreign_is_set(loan))
        madi_rx_whole(link, &m->hdr, loan, true);
    else
        madi_rx_short(link, &m->hdr, madi_foreign_of(m->data));
    madi_rx_free(m);
    return NULL;
}

/* Set up a message whose body lies in the driver's memory, as a loan. */
static __attribute__((noinline)) void take_loan(madi_rx_msg_t *m, madi_conn_t *conn, madi_link_t *link)
{
    madi_rx_start(m, conn, m->first.loan, true);
    m->first.link = link;
    m->first.inside = true;
    m->current = &m->first;
    m->base.plain = MADI_PLAIN_LENT;
    atomic_fetch_add_explicit(&link->loans, 1, memory_order_relaxed);
    if (link->begun) {
        m->begun = link->begun;
        m->base.plain = MADI_PLAIN_BEGUN;
        m->end = m->cur;
        link->driver->fast.keep_begun(link);
        madi_begun_look(m);
    }
}

/* Send the credit limit to the sender, and poll everything else.  Called once in a few hundred messages. */
static MADI_COLD void credit_send_and_look_around(mad_session_t *session, madi_conn_t *conn)
{
    madi_credit_send(conn);
    madi_look_around(session);
    if (atomic_load_explicit(&session->has_calls, memory_order_relaxed)) {
        session->last_hit = &madi_no_adapter; /* have the next opening take the slow path, which runs the queued calls */
        madi_session_wake(session);           /* wake the leader, which runs the calls if no message is opened for long */
    }
}

/* Make the next free message structure the first of the ring, since the one that was used last is still in use. */
static MADI_COLD void rx_ring_advance(mad_session_t *session)
{
    madi_rx_msg_t *m = madi_rx_more(session);
    if (m)
        madi_rx_free(m);
}

/* Take a message that has arrived before; if there is none, prepare the next attempt.  Called if the first structure of
 * the ring is in use.  Under session->lock. */
static MADI_COLD madi_rx_msg_t *take_ready_or_advance(mad_channel_t *channel, madi_conn_t *conn)
{
    madi_rx_msg_t *m = take_ready(channel, conn);
    if (!m)
        rx_ring_advance(channel->session);
    return m;
}

/* Take the adapter's next packet, if it is a message of one packet for this channel or connection, and no earlier message
 * waits.  The packet's body is copied from the driver's memory into the message's structure, or lent.  Under
 * session->lock. */
static inline __attribute__((always_inline)) madi_rx_msg_t *take_message(mad_session_t *session, mad_channel_t *channel,
                                                                         madi_conn_t *conn, madi_adapter_t *adapter)
{
    madi_rx_msg_t *m = session->rx_ring;
    madi_link_t *link;
    uint32_t head;

    if (MADI_UNLIKELY(atomic_load_explicit(&m->used, memory_order_acquire))) /* pairs with madi_rx_free */
        return take_ready_or_advance(channel, conn);
    atomic_store_explicit(&m->used, 1, memory_order_relaxed);
    link = adapter->driver->fast.take(adapter, &m->hdr, &m->first.loan); /* precondition of `take`: the loan is not set */
    if (MADI_UNLIKELY(!link))
        return take_ready_instead(m, channel, conn);
    if (!conn) {
        conn = madi_conn_by_remote(link->gate, m->hdr.channel);
        if (MADI_UNLIKELY(!conn || conn->channel != channel ||
                          atomic_load_explicit(&channel->n_ready, memory_order_relaxed)))
            return take_dispatch(link, m);
    } else if (MADI_UNLIKELY(conn->rx_link != link)) {
        return take_dispatch(link, m);
    }
    memcpy(&head, &m->hdr, sizeof head);
    if (MADI_UNLIKELY(head != conn->fast_hdr))
        return take_dispatch(link, m);
    if (MADI_UNLIKELY(madi_foreign_is_set(m->first.loan))) {
        take_loan(m, conn, link);
    } else {
        madi_rx_start(m, conn, madi_foreign_of(m->data), true);
        m->base.plain = MADI_PLAIN_INLINE;
    }
    MADI_CONN_COUNT(conn, messages_received, 1);
    conn->rx_until_limit -= m->hdr.aux;
    if (MADI_UNLIKELY(conn->rx_until_limit < 0))
        credit_send_and_look_around(session, conn);
    return m;
}

/* Take the next message from the adapter that has delivered the last one. */
static inline __attribute__((always_inline)) madi_rx_msg_t *open_quick(mad_channel_t *channel, madi_conn_t *source)
{
    mad_session_t *session = channel->session;
    madi_rx_msg_t *m;
    madi_lock(&session->lock);
    m = take_message(session, channel, source, session->last_hit); /* now and then, send credits and poll all adapters */
    madi_unlock(&session->lock);
    return m;
}

/* True if there may be a message; *hit: the adapter that may have it.  Called without locks. */
static inline bool open_may_succeed(const mad_channel_t *channel, madi_adapter_t **hit)
{
    mad_session_t *session = channel->session;
    *hit = NULL;
    if (atomic_load_explicit(&((mad_channel_t *)channel)->n_ready, memory_order_relaxed))
        return true;
    return (*hit = madi_poll_hit(session)) != NULL;
}

/* Poll, and open a message; called when none could be taken directly.  Under session->lock. */
static inline bool open_after_poll(opening_t *o, madi_adapter_t *hit)
{
    mad_session_t *session = o->channel->session;
    if (open_locked(o))
        return true;
    if (hit)
        madi_progress_after(session, madi_poll_hit_adapter(session, hit, o->others ? POLLED_OTHERS : 1));
    else
        madi_progress_locked(session);
    if (open_locked(o))
        return true;
    o->others = true;
    if (hit)
        madi_poll_missed(session, hit);
    return false;
}

/* Make one attempt to open a message, with the lock taken once.  If takes is true, first try to take the adapter's next
 * packet directly, which may cost a system call. */
static inline bool open_round(opening_t *o, madi_adapter_t *hit, bool takes)
{
    mad_session_t *session = o->channel->session;
    bool found;
    madi_lock(&session->lock);
    if (MADI_LIKELY(takes && hit && hit->driver->fast.take)) {
        o->msg = take_message(session, o->channel, o->conn, hit);
        session->last_hit = hit;
    }
    found = o->msg || open_after_poll(o, hit);
    madi_unlock(&session->lock);
    if (MADI_UNLIKELY(atomic_load_explicit(&session->has_calls, memory_order_relaxed)))
        madi_calls_run(session);
    return found;
}

static inline bool open_try(opening_t *o)
{
    madi_adapter_t *hit;
    return open_may_succeed(o->channel, &hit) && open_round(o, hit, true);
}

/* Wake a waiting thread for each connection that has messages.  Called by a thread that leaves the list of openers.
 * The thread may have been woken for one message and have opened another; or a thread that did not wait may have opened
 * the message for which it was woken.  Under session->lock. */
static void openers_wake_next(mad_channel_t *channel)
{
    for (madi_conn_t *conn = channel->ready; conn; conn = conn->next_ready)
        if (conn->ready)
            madi_openers_wake(conn);
}

/* Wait in the list of openers, so that an arriving message wakes this thread. */
static mad_status_t open_wait_enlisted(opening_t *o, int64_t deadline)
{
    mad_session_t *session = o->channel->session;
    mad_status_t status;
    marceli_waiter_t w;

    marceli_waiter_init(&w);
    madi_lock(&session->lock);
    marceli_waiters_add(o->conn ? &o->conn->openers : &o->channel->openers, &w);
    madi_unlock(&session->lock);
    status = marceli_wait(&w, open_test, o, deadline) ? MAD_OK : MAD_ERR_TIMEOUT;
    madi_lock(&session->lock);
    marceli_waiters_del(&w);
    openers_wake_next(o->channel);
    madi_unlock(&session->lock);
    return status;
}

static void open_wait(opening_t *o, int64_t timeout_ns)
{
    mad_session_t *session = o->channel->session;
    /* poll a limited number of times, so that the usual short wait reads no clock */
    for (int i = timeout_ns ? session->spins : 0; i >= 0; i--) {
        if (open_try(o))
            return;
        if (marceli_is_led() || marceli_others_ready())
            break; /* another thread polls for all, or other threads want to run on this worker */
    }
    if (timeout_ns == 0) {
        madi_lock(&session->lock);
        madi_progress_locked(session);
        if (!open_locked(o))
            o->status = MAD_ERR_AGAIN;
        madi_unlock(&session->lock);
        madi_calls_run(session);
        if (!o->msg)
            marceli_yield_to_others();
        return;
    }
    if (open_wait_enlisted(o, madi_deadline(timeout_ns)) != MAD_OK)
        o->status = MAD_ERR_TIMEOUT;
}

/* Prepare to open a message of one source, or of any.  Return false if the source is unknown; o->status says why. */
static inline bool opening_init(opening_t *o, mad_channel_t *channel, mad_peer_t source)
{
    *o = (opening_t){.channel = channel, .source = source};
    if (source == MAD_ANY_SOURCE)
        return true;
    o->conn = madi_conn_peek(channel, source);
    return o->conn || (o->conn = madi_conn_get(channel, source, &o->status));
}

mad_status_t mad_begin_unpacking_within(mad_channel_t *channel, mad_peer_t source, int64_t timeout_ns,
                                        mad_message_t **message)
{
    opening_t o;
    if (!opening_init(&o, channel, source))
        return o.status;
    open_wait(&o, timeout_ns);
    if (!o.msg)
        return o.status;
    *message = &o.msg->base;
    return MAD_OK;
}

mad_status_t mad_begin_unpacking_poll(mad_channel_t *channel, mad_peer_t source, mad_message_t **message)
{
    opening_t o;
    madi_adapter_t *hit = NULL;
    if (!open_may_succeed(channel, &hit))
        return MAD_ERR_AGAIN;
    if (!opening_init(&o, channel, source))
        return o.status;
    if (!open_round(&o, hit, true))
        return MAD_ERR_AGAIN;
    if (!o.msg)
        return o.status;
    *message = &o.msg->base;
    return MAD_OK;
}

/* ---- Several at once ------------------------------------------------------------------------------------------ */

static void arrival_fill(mad_arrival_t *arrival, madi_rx_msg_t *m)
{
    arrival->message = &m->base;
    arrival->peer = m->conn->gate->peer;
    if (MADI_UNLIKELY(m->begun))
        madi_begun_spin(m);
    if (MADI_LIKELY(madi_borrow_plain(m, &arrival->base, &arrival->len)))
        return;
    arrival->base = NULL;
    arrival->len = 0;
}

/* A short packet as it lies in an arrival:
 *
 *   inside[0]  type, flags, channel; above them the length     inside[2]  the descriptor of the block
 *   inside[1]  the message's number; above it its cost         inside[3]  the block, or its beginning, and on
 */
static_assert(sizeof((mad_arrival_t *)0)->inside == MADI_PACKET_SHORT, "an arrival holds a short packet");
static_assert(offsetof(madi_wire_hdr_t, channel) == 2 && offsetof(madi_wire_hdr_t, length) == 4 &&
                  offsetof(madi_wire_hdr_t, aux) == 12 && sizeof(madi_wire_hdr_t) == 16,
              "which begins with its header");

/* True if the packet is a message of one block, all of which is in the packet.  head: the first 4 header bytes of a
 * message of one packet on this connection. */
static inline bool arrival_is_message(const mad_arrival_t *a, uint32_t head)
{
    const uint64_t mask = UINT64_C(3) << 48 | MADI_WIRE_LEN_MAX; /* kind and length */
    static_assert(MADI_WIRE_INLINE == 0, "a descriptor's kind");
    return (uint32_t)a->inside[0] == head && (a->inside[2] & mask) + MADI_WIRE_DESC_SIZE == a->inside[0] >> 32;
}

/* Dispatch the packets from `from` on: those for other receivers, and those that are not messages of one block.  Called
 * under session->lock. */
static MADI_COLD void arrivals_dispatch(madi_link_t *link, mad_arrival_t *from, const mad_arrival_t *end)
{
    for (; from < end && atomic_load_explicit(&link->state, memory_order_relaxed) == MADI_LINK_UP; from++) {
        madi_wire_hdr_t hdr;
        memcpy(&hdr, from->inside, sizeof hdr);
        madi_rx_short(link, &hdr, madi_foreign_of((const char *)from->inside + sizeof hdr));
    }
}

/* Take short messages of one block directly into the arrivals: consecutive ones from one peer, while no earlier message
 * waits.  Return their number.  Under session->lock. */
static inline int take_short_messages(mad_channel_t *channel, madi_adapter_t *hit, mad_arrival_t *arrivals, int max)
{
    mad_session_t *session = channel->session;
    const mad_arrival_t *end;
    mad_arrival_t *a = arrivals;
    madi_link_t *link;
    madi_conn_t *conn;
    int64_t cost = 0;
    uint32_t head = 0; /* no packet begins with 0 */
    mad_peer_t peer = MAD_ANY_SOURCE;

    if (atomic_load_explicit(&channel->n_ready, memory_order_relaxed))
        return 0;
    session->last_hit = hit;
    end = a + hit->driver->fast.take_short(hit, a->inside, sizeof *a, max, &link);
    if (end == a)
        return 0;
    conn = madi_conn_by_remote(link->gate, (uint16_t)(a->inside[0] >> 16));
    if (MADI_LIKELY(conn && conn->channel == channel)) {
        head = conn->fast_hdr;
        peer = conn->gate->peer;
    }
    for (; a < end; a++) {
        if (MADI_UNLIKELY(!arrival_is_message(a, head)))
            break;
        a->message = NULL;
        a->peer = peer;
        a->base = &a->inside[3];
        a->len = (a->inside[0] >> 32) - MADI_WIRE_DESC_SIZE;
        cost += (int64_t)(a->inside[1] >> 32);
    }
    if (MADI_LIKELY(a > arrivals)) {
        MADI_CONN_COUNT(conn, messages_received, (uint64_t)(a - arrivals));
        conn->rx_until_limit -= cost;
    }
    /* check again, since the packet may have been CLOSE, after which the connection's credits begin anew */
    if (MADI_UNLIKELY(a < end))
        arrivals_dispatch(link, a, end);
    if (MADI_UNLIKELY(a > arrivals && conn->rx_until_limit < 0))
        credit_send_and_look_around(session, conn);
    return (int)(a - arrivals);
}

/* Take whole messages, each into a structure of its own, until the adapter has none.  The structure of the first one is
 * reused first.  Return their number.  Under session->lock. */
static int take_whole_messages(mad_channel_t *channel, madi_adapter_t *hit, mad_arrival_t *arrivals, int max)
{
    mad_session_t *session = channel->session;
    madi_rx_msg_t *m, *first = NULL;
    int n = 0;
    session->last_hit = hit;
    while (n < max && session->last_hit == hit) {
        if (MADI_UNLIKELY(atomic_load_explicit(&session->rx_ring->used, memory_order_acquire))) /* pairs with madi_rx_free */
            rx_ring_advance(session);
        if (!(m = take_message(session, channel, NULL, hit)))
            break;
        first = first ? first : m;
        arrival_fill(&arrivals[n++], m);
        session->rx_ring = m->ring;
    }
    if (first)
        session->rx_ring = first;
    return n;
}

/* Open one message after a poll, because none could be taken directly. hit: the adapter that may have a message, or NULL. */
static MADI_COLD int channel_poll_slow(mad_channel_t *channel, madi_adapter_t *hit, mad_arrival_t *arrival)
{
    opening_t o = {.channel = channel, .source = MAD_ANY_SOURCE};
    if (!open_round(&o, hit, false) || !o.msg)
        return 0;
    arrival_fill(arrival, o.msg);
    return 1;
}

/* Take up to `max` messages when some may have arrived.  Not inlined, so that a call of mad_channel_poll that finds nothing
 * saves no registers. */
static __attribute__((noinline)) int channel_poll_hit(mad_channel_t *channel, mad_arrival_t *arrivals, int max,
                                                      madi_adapter_t *hit)
{
    mad_session_t *session = channel->session;
    int n = 0;
    if (MADI_UNLIKELY(max <= 0))
        return 0;
    if (max > MANY)
        max = MANY;
    if (MADI_LIKELY(hit && hit->driver->fast.take)) {
        madi_lock(&session->lock);
        if (MADI_LIKELY(hit->driver->fast.take_short != NULL))
            n = take_short_messages(channel, hit, arrivals, max);
        if (MADI_UNLIKELY(!n))
            n = take_whole_messages(channel, hit, arrivals, max);
        madi_unlock(&session->lock);
        if (MADI_UNLIKELY(atomic_load_explicit(&session->has_calls, memory_order_relaxed)))
            madi_calls_run(session);
    }
    return MADI_LIKELY(n) ? n : channel_poll_slow(channel, hit, arrivals);
}

int mad_channel_poll(mad_channel_t *channel, mad_arrival_t *arrivals, int max)
{
    madi_adapter_t *hit;
    madi_share_poll(&channel->session->api.habit);
    marceli_progress_poll();
    return MADI_UNLIKELY(open_may_succeed(channel, &hit)) ? channel_poll_hit(channel, arrivals, max, hit) : 0;
}

/* Open a message, and wait for it without limit.  If that fails, return a message that holds the status. */
static MADI_COLD mad_message_t *open_forever(mad_channel_t *channel, mad_peer_t source)
{
    static madi_rx_msg_t no_memory = {.base = {.kind = MADI_MESSAGE_RX, .status = MAD_ERR_NOMEM}};
    mad_message_t *message = NULL;
    mad_status_t status = mad_begin_unpacking_within(channel, source, MAD_FOREVER, &message);
    madi_rx_msg_t *m;

    if (MADI_LIKELY(status == MAD_OK))
        return message;
    m = malloc(sizeof *m);
    if (!m)
        return &no_memory.base;
    memset(m, 0, sizeof *m);
    m->base = (mad_message_t){.kind = MADI_MESSAGE_RX, .status = (int)status, .session = channel->session};
    return &m->base;
}

/* Like take_ready, but takes the lock. */
static madi_rx_msg_t *open_ready(mad_channel_t *channel, madi_conn_t *conn)
{
    mad_session_t *session = channel->session;
    madi_rx_msg_t *m;
    if (!atomic_load_explicit(&channel->n_ready, memory_order_relaxed))
        return NULL;
    madi_lock(&session->lock);
    m = take_ready(channel, conn);
    madi_unlock(&session->lock);
    return m;
}

static __attribute__((noinline)) mad_message_t *open_slow(mad_channel_t *channel, madi_conn_t *conn)
{
    madi_rx_msg_t *m = open_ready(channel, conn);
    return m ? &m->base : open_forever(channel, conn ? conn->gate->peer : MAD_ANY_SOURCE);
}

static mad_message_t *open_one(mad_channel_t *channel, madi_conn_t *conn)
{
    madi_rx_msg_t *m = open_quick(channel, conn);
    return MADI_LIKELY(m != NULL) ? &m->base : open_slow(channel, conn);
}

mad_message_t *mad_begin_unpacking_from(mad_channel_t *channel, mad_peer_t source)
{
    madi_conn_t *conn = madi_conn_peek(channel, source); /* MAD_ANY_SOURCE has no connection */
    if (MADI_LIKELY(conn != NULL))
        return open_one(channel, conn);
    return source == MAD_ANY_SOURCE ? open_one(channel, NULL) : open_forever(channel, source);
}

mad_message_t *mad_begin_unpacking(mad_channel_t *channel)
{
    return open_one(channel, NULL);
}
