/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver `virtual`: links through gateways, for peers on other networks than this host. */
#include "gateway/gateway.h"
#include "base/knob.h"
#include "base/own.h"
#include "base/random.h"
#include "core/send/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RANK 200          /* after all other drivers */
#define FORCED_LEAST 4096 /* bytes: shortest fragment length that can be forced */

/* ---- The adapter ------------------------------------------------------------------------------------------------ */

static mad_status_t virtual_probe(const madi_driver_t *driver, struct mad_session *session)
{
    if (!*madi_knob_text(MADI_KNOB_TOPOLOGY))
        return MAD_OK;
    return madi_adapter_found(session, driver, "topology") ? MAD_OK : MAD_ERR_NOMEM;
}

/* Set the capabilities to what this process's other adapters allow, which are already open. */
static void set_caps(gw_t *gw, size_t forced)
{
    mad_session_t *s = gw->base.session;
    static const char *const long_chunks[] = {"tcp", NULL}; /* drivers that other processes on the path may use too */
    size_t packet = GW_FRAGMENT_LEAST - 64, chunk = madi_map_bytes_in(gw->map, GW_FRAGMENT_US);
    if (chunk < packet || !madi_map_drivers_among(gw->map, long_chunks))
        chunk = packet;
    if (chunk > GW_FRAGMENT)
        chunk = GW_FRAGMENT;
    if (forced)
        chunk = forced < FORCED_LEAST ? FORCED_LEAST : forced;
    if (packet > chunk)
        packet = chunk;
    gw->fragment = chunk;
    for (int i = 0; i < s->n_adapters; i++) {
        const madi_adapter_t *a = s->adapters[i];
        if (a == &gw->base || !a->opened || a->caps.self)
            continue;
        if (a->caps.packet_max - GW_HEAD < packet)
            packet = a->caps.packet_max - GW_HEAD;
        if (a->caps.chunk_max - GW_HEAD < chunk)
            chunk = a->caps.chunk_max - GW_HEAD;
    }
    if (madi_map_encrypts_any(gw->map)) { /* packets are shortened, because tags must not make fragments longer */
        packet = (packet - GW_SEALS) & ~(size_t)63;
        chunk = (chunk - GW_SEALS) & ~(size_t)63;
    }
    gw->base.caps = (madi_caps_t){.packet_max = packet,
                                  .chunk_max = chunk > packet ? chunk : packet,
                                  .rdv_min = MADI_VIRTUAL_GRANT_MIN,
                                  .rdv_eager = MADI_VIRTUAL_EAGER,
                                  .gather_max = MADI_GATHER - 1, /* a fragment has one more piece, its header */
                                  .many = true,
                                  .latency_us = 40,
                                  .bandwidth_MBs = 1000,
                                  .rank = RANK};
}

static mad_status_t virtual_open(madi_adapter_t *adapter, char *reason)
{
    gw_t *gw = gw_of(adapter);
    size_t forced = (size_t)madi_knob_int(MADI_KNOB_FORWARD_FRAGMENT);
    const char *name;
    gw->map = madi_map_open(madi_knob_text(MADI_KNOB_TOPOLOGY), reason);
    if (!gw->map)
        return MAD_ERR_CONFIG;
    gw->host = madi_map_self(gw->map);
    gw->forwards = madi_map_forwards(gw->map);
    /* A forced length is part of the name, because a process whose windows fit shorter fragments could never receive a
     * longer one. */
    snprintf(adapter->network, sizeof adapter->network, "topology@%016llx/%zu", (unsigned long long)madi_map_hash(gw->map),
             forced);
    name = madi_map_name(gw->map, gw->host);
    if (strlen(name) >= MADI_ADDR_MAX - 1) {
        snprintf(reason, MADI_REASON_MAX, "the name of this host is too long");
        return MAD_ERR_CONFIG;
    }
    adapter->address[0] = gw->forwards ? GW_FORWARDS : 0;
    if (gw->forwards && marceli_progress_is_allowed())
        adapter->address[0] |= GW_ANSWERS;
    if (gw->forwards && gw_is_daemon())
        adapter->address[0] |= GW_DAEMON;
    memcpy(adapter->address + 1, name, strlen(name));
    adapter->address_len = 1 + strlen(name);
    adapter->address_len += gw_mark_put(adapter->address + adapter->address_len, MADI_ADDR_MAX - adapter->address_len);
    gw_labels_key(gw);
    gw->budget = gw->budget_all = madi_knob_int(MADI_KNOB_FORWARD_BUDGET);
    gw_budget_shares(gw);
    set_caps(gw, forced);
    if (gw_alive_open(gw)) {
        snprintf(reason, MADI_REASON_MAX, "no timer: %s", strerror(errno));
        return MAD_ERR_SYSTEM;
    }
    gw->forward = gw_forward;
    adapter->session->forward = &gw->forward;
    marceli_progress_count_serving(gw->forwards);
    gw->counted = gw->forwards;
    madi_adapter_polled(adapter); /* the adapter is polled even without virtual links, because forwarding needs the polls */
    return MAD_OK;
}

static void virtual_close(madi_adapter_t *adapter)
{
    gw_t *gw = gw_of(adapter);
    marceli_progress_count_serving(-(int)gw->counted);
    gw->counted = false;
    gw_alive_close(gw);
    gw_rate_close(gw);
    gw_transits_reap(gw, true);
    gw_ends_reap(gw, true);
    gw_dials_free(gw);
}

static void virtual_fini(madi_adapter_t *adapter)
{
    gw_t *gw = gw_of(adapter);
    virtual_close(adapter);
    for (gw_frag_t *frag; (frag = gw->pool); free(frag))
        gw->pool = frag->next;
    gw_places_free(gw);
    gw_routes_free(gw);
    madi_map_close(gw->map);
    if (adapter->session->forward == &gw->forward)
        adapter->session->forward = NULL;
}

int gw_host_read(gw_t *gw, const unsigned char *bytes, size_t len, unsigned *flags)
{
    char name[MADI_ADDR_MAX];
    if (len < 2)
        return -1;
    memcpy(name, bytes + 1, len - 1);
    name[len - 1] = 0;
    if (flags)
        *flags = bytes[0];
    return madi_map_host(gw->map, name);
}

/* ---- Work that had to wait for a lock --------------------------------------------------------------------------- */

int gw_settle(gw_t *gw)
{
    int n = 0;
    gw_frag_t *frag;
    if (!atomic_load_explicit(&gw->unsettled, memory_order_relaxed))
        return 0;
    if (!gw->later) /* the poll handles later */
        atomic_store_explicit(&gw->unsettled, 0, memory_order_relaxed);
    while ((frag = gw->sent)) {
        gw->sent = frag->next;
        gw_frag_done(&frag->op, MAD_OK);
        n++;
    }
    gw_credit_send_due(gw);
    return n;
}

static int virtual_poll(madi_adapter_t *adapter, int budget)
{
    gw_t *gw = gw_of(adapter);
    int n;
    (void)budget;
    if (MADI_LIKELY(!atomic_load_explicit(&gw->unsettled, memory_order_relaxed)))
        return 0;
    gw->later = false;
    n = gw_settle(gw);
    n += gw_paths_check(gw);
    n += gw_transits_reap(gw, false);
    gw_ends_reap(gw, false);
    return n;
}

static bool virtual_pure_poll(madi_adapter_t *adapter)
{
    return atomic_load_explicit(&gw_of(adapter)->unsettled, memory_order_relaxed);
}

static bool virtual_arm(madi_adapter_t *adapter)
{
    return !virtual_pure_poll(adapter);
}

/* ---- Links ------------------------------------------------------------------------------------------------------ */

bool gw_reachable(gw_t *gw, int lane, const void *addr, size_t len, char *reason)
{
    int host = gw_host_read(gw, addr, len, NULL), next;
    if (host < 0) {
        snprintf(reason, MADI_REASON_MAX, "the peer's host is not in the topology file");
        return false;
    }
    next = host == gw->host ? host : madi_map_next(gw->map, lane, host, NULL, reason);
    if (next == host)
        snprintf(reason, MADI_REASON_MAX, "the topology file has %s and %s on one network: no gateway is between them",
                 madi_map_name(gw->map, gw->host), madi_map_name(gw->map, host));
    return next >= 0 && next != host;
}

static bool virtual_reachable(madi_adapter_t *adapter, const void *addr, size_t len, char *reason)
{
    return gw_reachable(gw_of(adapter), 0, addr, len, reason);
}

static mad_status_t virtual_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    gw_t *gw = gw_of(link->adapter);
    const unsigned char *address = madi_peer_address(gw->base.session, link->gate->peer);
    madi_gate_t *gate;
    gw_hop_t *hop;
    gw_end_t *end;
    bool direct = false, good;
    mad_status_t status = gw_next_gate(gw, link->gate->lane, address, NULL, &gate, &direct, reason);
    (void)addr;
    (void)len;
    if (status && (status != MAD_ERR_PEER || direct))
        return status;
    hop = status ? NULL : gw_hop_get(gw, gate);
    end = hop || status ? gw_end_new(gw, true, fd) : NULL;
    good = end && madi_random(&end->stream, sizeof end->stream);
    if (good && status)
        gw_path_wait(end, reason);
    else if (good)
        good = gw_path_open(end, hop, address);
    if (good) {
        end->link = link;
        ((gw_link_t *)link)->end = end;
        return MAD_OK;
    }
    snprintf(reason, MADI_REASON_MAX, "no memory or descriptors for a virtual link");
    if (end) {
        madi_fd_close(*fd);
        end->closed = end->gone = end->dead = true;
        gw_later(gw);
    }
    return MAD_ERR_NOMEM;
}

static mad_status_t virtual_start(madi_link_t *link, int fd, bool active, char *reason)
{
    gw_t *gw = gw_of(link->adapter);
    gw_link_t *l = (gw_link_t *)link;
    for (gw_end_t *end = gw->ends; end && !l->end; end = end->next)
        if (!active && !end->active && !end->closed && !end->started && end->their_fd == fd)
            l->end = end;
    if (!l->end || l->end->closed) {
        madi_fd_close(fd);
        snprintf(reason, MADI_REASON_MAX, "the path through the gateways is lost");
        return MAD_ERR_PEER;
    }
    if (gw_end_start(l->end, link, fd))
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "no memory for the keys of a virtual link");
    return MAD_ERR_NOMEM;
}

static void virtual_link_close(madi_link_t *link)
{
    gw_link_t *l = (gw_link_t *)link;
    gw_end_t *end = l->end;
    l->end = NULL;
    if (end && end->link == link)
        gw_end_close(end, MAD_ERR_PEER, "connection closed by peer");
}

static void virtual_link_fini(madi_link_t *link)
{
    virtual_link_close(link);
}

static void virtual_slot_put(madi_link_t *link, madi_foreign_t loan)
{
    madi_link_t *carrier = ((gw_link_t *)link)->carrier;
    carrier->driver->fast.slot_put(carrier, madi_foreign_skip(loan, -MADI_FORWARD_HEAD));
    atomic_fetch_sub_explicit(&carrier->loans, 1, memory_order_release); /* pairs with madi_links_reap */
}

/* True if everything is acknowledged, and no control fragment about the stream waits for the stream's gate any more. */
static bool virtual_drained(madi_link_t *link)
{
    gw_end_t *end = ((gw_link_t *)link)->end;
    madi_gate_t *gate = end && end->side && end->side->hop ? end->side->hop->gate : NULL;
    bool empty;
    if (!end)
        return true;
    if (!gw_window_drains(end))
        return false;
    if (!gate || atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP)
        return true;
    madi_lock(&gate->tx_lock);
    empty = !end->side->queue && !atomic_load_explicit(&end->side->in_flight, memory_order_relaxed);
    madi_unlock(&gate->tx_lock);
    return empty;
}

/* ---- Sending ---------------------------------------------------------------------------------------------------- */

static size_t held_len(const gw_held_t *held)
{
    size_t len = 0;
    for (int i = 0; i < held->n; i++)
        len += held->vec[i].iov_len;
    return len;
}

gw_frag_t *gw_held_frag(gw_held_t *held)
{
    size_t before = sizeof(madi_wire_forward_t);
    size_t payload = gw_protected_len(held->end, MADI_FORWARD_PACKET, held_len(held));
    bool sealed = held->end->encrypts; /* sealed packets are sent from a private buffer */
    gw_frag_t *frag = malloc(sizeof *frag + before + (sealed ? payload : (size_t)(held->n + 1) * sizeof *held->vec));
    if (!frag)
        return NULL;
    memset(frag, 0, sizeof *frag);
    frag->op.done = gw_frag_done;
    frag->held = held;
    frag->cost = gw_cost((uint32_t)(before + payload));
    held->out++;
    if (sealed) {
        frag->vec[0] = (struct iovec){&frag->hdr, sizeof frag->hdr + before + payload};
        frag->n = 1;
        return frag;
    }
    frag->more = (struct iovec *)(void *)(frag->body + before);
    frag->more[0] = (struct iovec){&frag->hdr, sizeof frag->hdr + before};
    memcpy(frag->more + 1, held->vec, (size_t)held->n * sizeof *held->vec);
    frag->n = held->n + 1;
    return frag;
}

bool gw_held_fill(gw_held_t *held, gw_frag_t *frag)
{
    if (frag->more || gw_protect(held->end, frag, held->vec, held->n, held_len(held)))
        return true;
    held->out--;
    free(frag);
    return false;
}

/* Record a packet until it is acknowledged.  A piece of a granted block stays in the program's memory (op is set).
 * Any other packet is copied, since without an operation its memory does not stay valid. */
static gw_held_t *held_new(gw_end_t *end, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    gw_held_t *held = malloc(sizeof *held + (size_t)n * sizeof *vec + (op ? 0 : total));
    unsigned char *to;
    if (!held)
        return NULL;
    *held = (gw_held_t){.user = op, .end = end, .n = op ? n : 1};
    if (op) {
        held->hdr = *(const madi_wire_hdr_t *)vec->iov_base;
        memcpy(held->vec, vec, (size_t)n * sizeof *vec);
        held->vec[0].iov_base = &held->hdr;
        return held;
    }
    to = (unsigned char *)(held->vec + n);
    held->vec[0] = (struct iovec){to, total};
    madi_copy_pieces(to, vec, n);
    return held;
}

/* Send or queue a packet that is kept as a gw_held_t. */
static madi_sent_t send_held(gw_end_t *end, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    gw_held_t *held = gw_window_room(end, total, false) ? held_new(end, vec, n, total, op) : NULL;
    gw_frag_t *frag;
    if (!held)
        return MADI_AGAIN;
    frag = gw_held_frag(held);
    if (!frag) {
        free(held);
        return MADI_AGAIN;
    }
    gw_end_header(end, frag, MADI_FORWARD_PACKET, end->window.next, total, op && op->last);
    if (!gw_held_fill(held, frag)) {
        free(held);
        return MADI_AGAIN;
    }
    atomic_fetch_add(&end->n_held, 1);
    gw_window_hold(end, held, total);
    if (gw_side_send_user(end->side, frag) == MADI_SENT) {
        held->out--; /* there is no race, because acknowledgements are processed under the same tx_lock */
        free(frag);
    }
    return op ? MADI_TAKEN : MADI_SENT;
}

static madi_sent_t virtual_refuse(gw_end_t *end)
{
    gw_hop_t *hop = end->side->hop;
    if (!end->refused) {
        end->refused = true;
        end->next_refused = hop->refused;
        hop->refused = end;
        gw_alive_watch(end->gw);
    }
    return MADI_AGAIN;
}

/* Headers of a fragment, which precede the packet's own header. */
typedef struct virtual_header {
    madi_wire_hdr_t hdr;
    madi_wire_forward_t forward;
} virtual_header_t;

/* Send a packet (vec[1] and further) with its fragment's header in vec[0]. */
static bool virtual_send_now(madi_link_t *link, const struct iovec *vec, int n, size_t total)
{
    unsigned char small[MADI_PACKET_SHORT];
    if (total > sizeof small || n != 2)
        return link->driver->send(link, vec, n, total, NULL) == MADI_SENT;
    memcpy(small, vec[0].iov_base, vec[0].iov_len); /* one piece is cheaper */
    memcpy(small + vec[0].iov_len, vec[1].iov_base, vec[1].iov_len);
    if (link->driver->fast.send_short)
        return link->driver->fast.send_short(link, small, total);
    return link->driver->send(link, &(struct iovec){small, total}, 1, total, NULL) == MADI_SENT;
}

/* Like virtual_send_now, but sealed into one piece.  If the link refuses the packet, no other process has seen it, so its
 * nonce may be used again. */
static bool send_sealed(gw_end_t *end, const virtual_header_t *head, const struct iovec *vec, int n, size_t total)
{
    unsigned char small[sizeof *head + MADI_SEALED_WHOLE + GW_SEALS], *packet = small;
    madi_link_t *link = end->side->hop->gate->link;
    size_t len = sizeof head->hdr + head->hdr.length;
    if (len > sizeof small && !end->sealed)
        end->sealed = malloc(sizeof *head + end->gw->base.caps.chunk_max + GW_SEALS);
    if (len > sizeof small)
        packet = end->sealed;
    if (!packet || !gw_protect_packet(end, &head->hdr, &head->forward, vec, n, total, packet + sizeof *head))
        return false;
    memcpy(packet, head, sizeof *head);
    return link->driver->send(link, &(struct iovec){packet, len}, 1, len, NULL) == MADI_SENT;
}

static madi_sent_t virtual_send_packet(gw_end_t *end, const struct iovec *vec, int n, size_t total)
{
    gw_side_t *side = end->side;
    gw_hop_t *hop = side->hop;
    struct iovec out[1 + MADI_GATHER];
    size_t payload = gw_protected_len(end, MADI_FORWARD_PACKET, total);
    uint32_t cost = gw_cost((uint32_t)(sizeof(madi_wire_forward_t) + payload));
    int64_t began = madi_trace_now();
    virtual_header_t head = {.hdr = {.type = MADI_WIRE_FORWARD,
                                     .flags = (uint8_t)(MADI_FORWARD_PACKET | (side->opener ? MADI_FORWARD_OPENER : 0)),
                                     .length = (uint32_t)(sizeof head.forward + payload),
                                     .seq = end->window.next,
                                     .aux = side->label}};
    if (!gw_side_may_send(side, &head.hdr, cost)) {
        gw_side_stalls(side);
        gw_alive_watch(end->gw);
        return MADI_AGAIN;
    }
    if (side->queue || hop->active || madi_ctrl_waits(hop->gate))
        return virtual_refuse(end);
    if (sizeof(madi_wire_hdr_t) + head.hdr.length > hop->gate->link->adapter->caps.packet_max)
        return send_held(end, vec, n, total, NULL);
    if (!gw_window_room(end, total, true))
        return MADI_AGAIN;
    head.forward = (madi_wire_forward_t){.ack = end->rx_seq, .ask = gw_window_wants_ack(end, total)};
    if (MADI_UNLIKELY(end->encrypts)) {
        if (!send_sealed(end, &head, vec, n, total))
            return virtual_refuse(end);
    } else {
        out[0] = (struct iovec){&head, sizeof head};
        memcpy(out + 1, vec, (size_t)n * sizeof *vec);
        if (!virtual_send_now(hop->gate->link, out, n + 1, sizeof head + total))
            return virtual_refuse(end);
    }
    gw_side_sent(side, &head.hdr, cost);
    if (MADI_UNLIKELY(madi_tracing))
        gw_trace(MADI_TRACE_FRAGMENT_OUT, began, 0, side, head.hdr.length);
    gw_window_keep(end, MADI_FORWARD_PACKET, vec, n, total);
    return MADI_SENT;
}

static madi_sent_t virtual_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    gw_end_t *end = ((gw_link_t *)link)->end;
    madi_gate_t *gate = end->side && !end->resuming ? end->side->hop->gate : NULL;
    madi_sent_t sent = MADI_AGAIN;
    if (MADI_UNLIKELY(!gate))
        return MADI_AGAIN; /* no path now */
    madi_lock(&gate->tx_lock);
    if (atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP)
        sent = op ? send_held(end, vec, n, total, op) : virtual_send_packet(end, vec, n, total);
    madi_unlock(&gate->tx_lock);
    return sent;
}

/* Longest packet that may go without a grant.  A grant costs two more passes through all gateways, so a block is
 * sent without one while nothing long is pending for that peer.  Otherwise the block waits for a grant, so that a peer
 * with many blocks does not delay peers with few. */
static size_t virtual_packet_room(madi_link_t *link, size_t want)
{
    const madi_caps_t *caps = &link->adapter->caps;
    size_t most = caps->chunk_max < GW_FRAGMENT ? caps->chunk_max : GW_FRAGMENT;
    (void)want;
    return most > caps->packet_max && gw_window_calm(((gw_link_t *)link)->end) ? most : caps->packet_max;
}

const madi_driver_t madi_driver_virtual = {
    .abi = MADI_DRIVER_ABI,
    .name = "virtual",
    .apart = "both hosts need the same topology file and the same MAD_FORWARD_FRAGMENT",
    .adapter_size = sizeof(gw_t),
    .link_size = sizeof(gw_link_t),
    .probe = virtual_probe,
    .open = virtual_open,
    .close = virtual_close,
    .fini = virtual_fini,
    .connect = virtual_connect,
    .start = virtual_start,
    .send = virtual_send,
    .poll = virtual_poll,
    .link_close = virtual_link_close,
    .link_fini = virtual_link_fini,
    .reach = {.reachable = virtual_reachable},
    .wait = {.pure_poll = virtual_pure_poll, .arm = virtual_arm},
    .fast = {.packet_room = virtual_packet_room, .slot_put = virtual_slot_put},
    .live = {.drained = virtual_drained},
};
