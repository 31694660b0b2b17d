/* SPDX-License-Identifier: BSD-3-Clause */
/* Rails: several links to one peer, used together.  The functions of src/core/rails that lower folders call, by this table.
 *
 *   core  ->  link of the driver "rails"  ->  rail 0: link over eth0      messages, control packets, pieces of blocks
 *             (one per gate, gate->link)      rail 1: link over eth1      pieces of blocks
 *
 * Agreement.  A process that sees a second path of its peer, which is on another host, offers rails in PROOF, and a peer
 * that accepts repeats the offer in VERDICT.  Both then put the rails' link between the core and the first link.  Until the first long block that link
 * passes everything on, and keeps nothing.  Before the block it sends BEGIN, and the peer sends BEGIN too.  The
 * process that has made the first link then connects further ones, with the number of the agreement in PROOF.
 *
 * Order.  Messages and control packets need their order, so one rail carries them: the quickest one.  A piece of a
 * granted block (DATA) carries its offset, so each piece goes to the rail that is expected to deliver it first: by the
 * bytes in flight there, and by the measured bandwidth.  A slower rail so gets a smaller share, and the last pieces go to
 * quick rails.
 *
 * Exactly once.  A link delivers packets in order until it breaks.  So both ends number the packets of each rail by
 * counting them, from BEGIN (rail 0) or JOIN on; numbers are not sent.  The receiver reports its count: ACK.  The sender
 * keeps each packet until then: small ones as a copy, pieces in the program's memory, whose operation completes only then.
 *
 *   sender                                            receiver
 *   pieces 1..9 on rail 1, 1..4 acknowledged   ->     has counted 6 packets of rail 1
 *   rail 1 breaks: link closed                        rail 1 breaks (or LOST arrives): link closed, so the count is final
 *   LOST 1, count of the other direction       ->
 *                                              <-     LOST 1, count 6
 *   5, 6 complete; 7, 8, 9 go again by rail 0  ->
 *
 * LOST is kept like a packet.  If its rail breaks too, LOST goes again by a third one at once; a repeated LOST is ignored.
 * After the loss of the quickest rail,
 * messages wait until the peer's LOST has arrived, so that no message overtakes another.  The last rail's end is the
 * end of the peer.
 *
 * A rail is given up if packets on it are not acknowledged for a second, although the peer has answered ASK by another rail
 * meanwhile.  Its network is tried again, after 1 s, then later, up to 30 s.
 *
 * Packets: type RAIL without a body; flags: kind; aux: number of the rail; seq: count.
 *   BEGIN  numbering begins behind this packet      JOIN  first packet of a further link, from the process that connected
 *   ACK    count of packets of this rail that arrived     LOST  the sender has closed the rail, with this count
 *   ASK    send ACK at once                         END   the sender is about to close all rails
 * All but LOST are not counted, and not sent again.
 *
 * Locks.  A rail's link belongs to the gate: its tx lock is gate->tx_lock, under which records, counts of sent packets, and
 * bandwidths are.  Rails come and go under both locks.  Sessions with gateways (session->forward) have no rails. */
#ifndef MADI_CORE_RAILS_H
#define MADI_CORE_RAILS_H

#include "base/json.h"
#include "core/driver.h"

#include <stdbool.h>
#include <stdint.h>

#define MADI_RAILS_JOIN 0x80000000u /* flag, in PROOF, next to the number of the agreement: the link is a further rail */

typedef struct madi_rails_ops {
    /* Return the field `rails` of PROOF for an attempt over this adapter: 0, or a number.  Under session->lock. */
    uint32_t (*offer)(struct madi_gate *gate, const madi_adapter_t *adapter);
    /* Return the number of an agreement that this process accepts; 0 if it refuses.  Under session->lock. */
    uint32_t (*agree)(struct madi_gate *gate, const madi_adapter_t *adapter, uint32_t offered);
    /* Return a new gate by which a further link of this gate is accepted; NULL if it is refused.  Under session->lock. */
    struct madi_gate *(*accept)(struct madi_gate *gate, const madi_adapter_t *adapter, uint32_t number);
    /* True if the adapter may be tried for a further link.  gate: the gate that connects it.  Under session->lock. */
    bool (*admits)(const struct madi_gate *gate, const madi_adapter_t *adapter);
    /* Return the rails' link over the first link of a gate, which is up; NULL if out of memory.  Under session->lock. */
    madi_link_t *(*wrap)(madi_link_t *first);
    /* Take over the link of a gate that connects a further link: the link is up.  Under session->lock. */
    void (*join)(madi_link_t *link);
    /* Report that a gate that connects a further link is down.  Under session->lock. */
    void (*failed)(struct madi_gate *gate);
    /* Send the packets that wait on the gate's rails.  Under both locks. */
    void (*pump)(struct madi_gate *gate);
    /* Connect rails, and give up stalled rails, whose time has come.  Not called from an upcall.  Under session->lock. */
    void (*tick)(struct mad_session *session, int64_t now);
    /* Return the adapter of the rail that carries messages, or did so last.  Under session->lock. */
    madi_adapter_t *(*adapter)(const struct madi_gate *gate);
    /* True if the adapter carries a rail of the gate; reason: bandwidth and share.  Under session->lock. */
    bool (*explain)(struct madi_gate *gate, const madi_adapter_t *adapter, char *reason);
    /* Write the array "rails" of a gate.  Under session->lock. */
    void (*write)(struct madi_gate *gate, madi_json_t *json);
} madi_rails_ops_t;

#endif
