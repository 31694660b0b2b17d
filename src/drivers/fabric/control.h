/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: messages between the drivers of a link's two ends (end.h), and liveness.
 *
 * A library may report the end of a peer late, or never.  A timer of the adapter lets the library progress, and looks at the
 * links.  The timer is a rare watch, so handshakes, PING and ASK are answered while the program computes.
 *
 * All functions are called under the session's lock. */
#ifndef FABRIC_CONTROL_H
#define FABRIC_CONTROL_H

#include "drivers/fabric/link.h"

#define FABRIC_TICK_NS INT64_C(100000000) /* ns between two calls of a library that may have received a handshake */

/* Return the tag of messages to the other end. */
static inline uint64_t fabric_control_tag(const fabric_link_t *l)
{
    return fabric_tag(FABRIC_KIND_CONTROL, fabric_tag_key(l->tag), fabric_tag_index(l->tag));
}
/* Handle a message of this link, which is neither closed nor down. */
void fabric_control_arrived(fabric_link_t *l, const fabric_control_t *c);
/* Report the link down if the peer has closed it, and all its packets were delivered.  After every delivery. */
void fabric_bye_check(fabric_link_t *l);
/* Operation of driver.h.  What has left a library may still be on its way, so the peer's answer counts. */
bool fabric_drained(madi_link_t *link);

/* Open the timer, of this period, or less.  On failure return SYSTEM, and write the reason.
 * fabric_tick_close ends it. */
mad_status_t fabric_control_open(fabric_adapter_t *a, int64_t period /* ns */, char *reason);

#endif
