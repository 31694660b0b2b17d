/* SPDX-License-Identifier: BSD-3-Clause */
/* The upcalls of the drivers: where a packet's body goes, and what the packet means.  All under session->lock. */
#include "core/conn/channel.h"
#include "core/conn/conn.h"
#include "core/conn/credit.h"
#include "core/conn/rx_pool.h"
#include "core/connect/gate.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/link/ledger.h"
#include "core/link/link.h"
#include "core/link/trace.h"
#include "core/object/gate.h"
#include "core/object/rx.h"
#include "core/recv/posted.h"
#include "core/recv/receive.h"
#include "core/recv/short.h"
#include "core/security/secret.h"
#include "core/send/policy.h"
#include "core/send/send.h"
#include "core/wire/address.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

static void protocol_error(madi_link_t *link, const char *text)
{
    madi_link_down(link, MAD_ERR_PROTOCOL, text);
}

/* ---- Messages ------------------------------------------------------------------------------------------------- */

/* When the first packet of a message has arrived, pass the message to its receiver: posted receive, handler, or a thread
 * that waits. */
static void message_offer(madi_rx_msg_t *m)
{
    madi_conn_t *conn = m->conn;
    mad_session_t *session = m->base.session;
    if (MADI_UNLIKELY(conn->posted != NULL)) {
        madi_posted_t *posted = conn->posted;
        madi_posted_next(conn);
        madi_rx_open(m);
        madi_posted_start(posted, m);
    } else if (MADI_UNLIKELY(conn->channel->handler != NULL)) {
        m->next = NULL;
        *session->for_handlers_tail = m;
        session->for_handlers_tail = &m->next;
        atomic_store_explicit(&session->has_calls, 1, memory_order_relaxed);
    } else {
        madi_rx_make_ready(m);
    }
}

static madi_place_t first_packet_begin(madi_conn_t *conn, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    madi_rx_msg_t *m = madi_rx_new(conn->gate->session);
    madi_rx_packet_t *packet = NULL;
    madi_foreign_t data = madi_foreign_of(m ? m->data : NULL);
    bool keep = madi_foreign_is_set(rx->loan) && hdr->length > MADI_RX_INLINE;

    if (!m)
        return MADI_PLACE_DROP;
    rx->base = m->data;
    if (hdr->length > MADI_RX_INLINE) {
        packet = keep ? &m->first : malloc(sizeof *packet + hdr->length);
        if (!packet) {
            madi_rx_free(m);
            return MADI_PLACE_DROP;
        }
        memset(packet, 0, sizeof *packet);
        packet->inside = keep;
        if (keep)
            packet->loan = rx->loan;
        packet->data = data = keep ? rx->loan : madi_foreign_of(packet + 1);
        m->current = packet;
        rx->base = packet + 1;
    }
    m->hdr = *hdr;
    madi_rx_start(m, conn, data, false);
    m->cost = hdr->aux;
    m->cur_last = hdr->flags & MADI_WIRE_LAST;
    m->base.plain = MADI_PLAIN_NONE;
    if (m->cur_last)
        m->base.plain = packet || madi_tracing ? MADI_PLAIN_PACKET : MADI_PLAIN_INLINE;
    rx->cookie = m;
    return keep ? MADI_PLACE_KEEP : MADI_PLACE_COPY;
}

static void first_packet_done(madi_link_t *link, madi_rx_msg_t *m)
{
    bool unopened = m->conn->unopened;
    if (m->current && madi_foreign_is_set(m->current->loan)) {
        m->current->link = link;
        atomic_fetch_add_explicit(&link->loans, 1, memory_order_relaxed);
    }
    m->complete = m->cur_last;
    m->began = madi_trace_now();
    m->conn->rx_held += m->cost;
    MADI_CONN_COUNT(m->conn, messages_received, 1);
    if (!m->complete) {
        m->conn->arriving = m;
        madi_conn_rx_quick(m->conn);
    }
    message_offer(m);
    if (MADI_UNLIKELY(unopened))
        madi_unopened_message(m->conn, m->hdr.length);
}

static madi_place_t next_packet_begin(madi_conn_t *conn, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    madi_rx_msg_t *m = conn->arriving;
    madi_rx_packet_t *packet;

    rx->more = (uintptr_t)conn;
    if (madi_cont_of(m)) {
        if (madi_cont_begin(m, hdr, rx))
            return MADI_PLACE_COPY;
        protocol_error(conn->gate->link, "a packet that does not go on with its block");
        return MADI_PLACE_DROP;
    }
    m->postponed = rx->defer && hdr->flags & MADI_WIRE_CONT && !m->postponed;
    if (m->postponed)
        return MADI_PLACE_LATER;
    packet = malloc(sizeof *packet + hdr->length);
    if (!packet)
        return MADI_PLACE_DROP;
    memset(packet, 0, sizeof *packet);
    packet->data = madi_foreign_skip(madi_foreign_of(packet), sizeof *packet);
    packet->len = hdr->length;
    packet->cost = hdr->aux;
    packet->last = hdr->flags & MADI_WIRE_LAST;
    packet->cont = hdr->flags & MADI_WIRE_CONT;
    rx->base = packet + 1;
    rx->cookie = packet;
    return MADI_PLACE_COPY;
}

static void next_packet_done(madi_conn_t *conn, madi_rx_packet_t *packet)
{
    madi_rx_msg_t *m = conn->arriving;
    *m->tail = packet;
    m->tail = &packet->next;
    conn->rx_held += packet->cost;
    if (MADI_UNLIKELY(conn->unopened))
        madi_unopened_message(conn, packet->len);
    if (packet->last) {
        m->complete = true;
        conn->arriving = NULL;
        madi_conn_rx_quick(conn);
    }
    if (madi_cont_of(m))
        madi_cont_feed(m);
    else if (m->opened)
        madi_rx_feed(m);
}

static madi_place_t message_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    madi_conn_t *conn = madi_conn_by_remote(link->gate, hdr->channel);
    madi_place_t place;

    if (MADI_UNLIKELY(!conn)) {
        protocol_error(link, "a packet for a channel that was not announced");
        return MADI_PLACE_DROP;
    }
    if (MADI_UNLIKELY(!(hdr->flags & MADI_WIRE_FIRST) != (conn->arriving != NULL) ||
                      (hdr->flags & MADI_WIRE_CONT && !conn->arriving))) {
        protocol_error(link, "a piece of a message without its beginning");
        return MADI_PLACE_DROP;
    }
    if (MADI_UNLIKELY(hdr->aux != madi_wire_cost(hdr->length + sizeof *hdr) ||
                      madi_credit_consumed(conn) + conn->rx_held + hdr->aux > conn->rx_limit)) {
        protocol_error(link, "more was sent than the receiver's credits allow");
        return MADI_PLACE_DROP;
    }
    place = conn->arriving ? next_packet_begin(conn, hdr, rx) : first_packet_begin(conn, hdr, rx);
    if (MADI_UNLIKELY(place == MADI_PLACE_DROP))
        madi_link_down(link, MAD_ERR_NOMEM, "no memory for a message");
    else if (place == MADI_PLACE_KEEP)
        first_packet_done(link, rx->cookie);
    else if (place != MADI_PLACE_LATER) {
        link->gate->partial_rx = rx->cookie;
        link->gate->partial_rx_is_message = hdr->flags & MADI_WIRE_FIRST;
    }
    return place;
}

/* ---- Granted blocks ------------------------------------------------------------------------------------------- */

static madi_place_t data_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    if (madi_rdv_begin(link->gate, hdr, rx))
        return MADI_PLACE_COPY;
    protocol_error(link, "data for a block that was not granted");
    return MADI_PLACE_DROP;
}

/* ---- Control -------------------------------------------------------------------------------------------------- */

/* Make room for a number of the peer in gate->by_remote.  Return false if out of memory. */
static bool by_remote_reserve(madi_gate_t *gate, uint16_t number)
{
    uint32_t n = gate->n_remote ? gate->n_remote : 4;
    madi_conn_t **p;
    if (number < gate->n_remote)
        return true;
    while (n <= number)
        n *= 2;
    p = realloc(gate->by_remote, n * sizeof *p);
    if (!p)
        return false;
    memset(p + gate->n_remote, 0, (n - gate->n_remote) * sizeof *p);
    gate->by_remote = p;
    gate->n_remote = n;
    return true;
}

/* Handle CHANNEL, by which the peer announces the number that it uses for a channel. */
const char *madi_channel_announced(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body)
{
    madi_gate_t *gate = link->gate;
    const char *name = body;
    mad_channel_t *channel;
    madi_conn_t *conn;

    if (!hdr->length || hdr->length > MAD_CHANNEL_NAME_MAX || name[hdr->length - 1])
        return "a channel's name that is not one";
    if (madi_address_role(madi_peer_address(gate->session, gate->peer)) == MADI_ROLE_GATEWAY)
        return "a gateway wants to send messages of its own, and a process with the gateways' key only forwards";
    if (!by_remote_reserve(gate, hdr->channel)) {
        madi_link_down(link, MAD_ERR_NOMEM, "no memory for a channel");
        return NULL;
    }
    madi_unopened_sweep(gate);
    channel = madi_channel_find(gate->session, name);
    if (channel && channel->lane != gate->lane && !link->adapter->caps.self)
        return "a channel that the topology file names came over networks that are not its own: is the file the same for "
               "both, and for both there?";
    conn = channel ? madi_conn_make(channel, gate) : NULL;
    if (!conn) {
        madi_link_down(link, MAD_ERR_NOMEM, "no memory for a channel");
        return NULL;
    }
    if (conn->remote_known || gate->by_remote[hdr->channel])
        return "a channel that is announced twice";
    if (!madi_unopened_announced(conn)) {
        madi_ledger_pass(gate, MADI_CHARGE_CHANNELS);
        madi_ledger_enforce(gate);
        return NULL;
    }
    conn->remote = hdr->channel;
    conn->remote_known = true;
    conn->opened_since_announce = channel->is_open;
    madi_conn_rx_quick(conn);
    gate->by_remote[hdr->channel] = conn;
    return NULL;
}

const char *madi_grant_arrived(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body)
{
    madi_gate_t *gate = link->gate;
    (void)hdr;
    madi_lock(&gate->tx_lock);
    madi_rdv_granted(gate, body);
    madi_gate_pump(gate);
    madi_unlock(&gate->tx_lock);
    return NULL;
}

const char *madi_share_arrived(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body)
{
    madi_gate_t *gate = link->gate;
    (void)hdr;
    madi_lock(&gate->tx_lock);
    madi_rdv_shared(gate, body);
    madi_gate_pump(gate);
    madi_unlock(&gate->tx_lock);
    return NULL;
}

const char *madi_bye_arrived(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body)
{
    (void)hdr, (void)body;
    link->gate->bye_received = true;
    if (link->driver->live.acknowledge)
        link->driver->live.acknowledge(link);
    return NULL;
}

#define CONTROL_ROW(name, number, length, handler) [number] = {length, handler},
#define CONTROL_FITS(name, number, length, handler) \
    static_assert((length) == MADI_WIRE_ANY || (length) <= MADI_CTRL_MAX, #name " fits into partial_ctrl");
MADI_WIRE_CONTROLS(CONTROL_FITS)

static void control_dispatch(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body)
{
    static const struct {
        uint32_t length;
        madi_control_handler_t handler; /* NULL: not a control packet */
    } rows[MADI_WIRE_TYPES] = {MADI_WIRE_CONTROLS(CONTROL_ROW)};
    const char *broken;
    if (hdr->type >= MADI_WIRE_TYPES || (rows[hdr->type].length != MADI_WIRE_ANY && rows[hdr->type].length != hdr->length))
        broken = "a control packet of unknown form";
    else if (!rows[hdr->type].handler)
        broken = "a packet of unknown type";
    else
        broken = rows[hdr->type].handler(link, hdr, body);
    if (broken)
        protocol_error(link, broken);
}

/* ---- Short packets -------------------------------------------------------------------------------------------- */

void madi_rx_short(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_foreign_t body)
{
    madi_rx_t rx = {.head = body, .here = hdr->length};
    if (MADI_UNLIKELY(link->outer != NULL)) {
        link->outer->driver->upcalls->rx_short(link, hdr, body);
        return;
    }
    if (MADI_LIKELY(hdr->type == MADI_WIRE_MSG)) {
        madi_conn_t *conn = madi_conn_by_remote(link->gate, hdr->channel);
        madi_short_t packet;
        memcpy(&packet, hdr, sizeof *hdr);
        madi_foreign_copy((char *)&packet + sizeof *hdr, body, MADI_SHORT_MAX);
        if (conn && madi_short_take(conn, &packet, 1))
            return;
    }
    if (madi_rx_begin(link, hdr, &rx) != MADI_PLACE_COPY)
        return;
    madi_foreign_copy(rx.base, madi_foreign_skip(body, rx.skip), hdr->length - rx.skip);
    madi_rx_done(link, hdr, &rx);
}

/* ---- The upcall ----------------------------------------------------------------------------------------------- */

madi_place_t madi_rx_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    if (MADI_UNLIKELY(link->outer != NULL))
        return link->outer->driver->upcalls->rx_begin(link, hdr, rx);
    /* A long body counts as several rounds, so that links that are not polled in every round do not starve. */
    link->gate->session->ticks -= (int32_t)(hdr->length / MADI_ROUND_BYTES);
    if (MADI_LIKELY(hdr->type == MADI_WIRE_MSG))
        return message_begin(link, hdr, rx);
    if (hdr->type == MADI_WIRE_DATA)
        return data_begin(link, hdr, rx);
    if (hdr->type == MADI_WIRE_FORWARD && link->gate->session->forward)
        return link->gate->session->forward->rx_begin(link, hdr, rx);
    if (hdr->length > MADI_CTRL_MAX) {
        protocol_error(link, "a control packet that is too long");
        return MADI_PLACE_DROP;
    }
    /* use a buffer of this gate, since the rest may arrive later, after packets of other links */
    rx->base = link->gate->partial_ctrl;
    return MADI_PLACE_COPY;
}

void madi_rx_done(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    if (MADI_UNLIKELY(link->outer != NULL))
        link->outer->driver->upcalls->rx_done(link, hdr, rx);
    else if (MADI_LIKELY(hdr->type == MADI_WIRE_MSG)) {
        link->gate->partial_rx = NULL;
        if (MADI_LIKELY(hdr->flags & MADI_WIRE_FIRST))
            first_packet_done(link, rx->cookie);
        else if (!rx->cookie)
            madi_cont_done(((madi_conn_t *)(uintptr_t)rx->more)->arriving, hdr);
        else
            next_packet_done((madi_conn_t *)(uintptr_t)rx->more, rx->cookie);
    } else if (hdr->type == MADI_WIRE_DATA) {
        madi_rdv_arrived(rx->cookie, hdr->length);
    } else if (hdr->type == MADI_WIRE_FORWARD && link->gate->session->forward) {
        link->gate->session->forward->rx_done(link, hdr, rx);
    } else {
        control_dispatch(link, hdr, rx->base);
    }
}
