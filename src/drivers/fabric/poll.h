/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: when to poll (heat.h), and a timer that polls while the process sleeps, for libraries without a descriptor that
 * reports messages.  The period of the timer grows while nothing comes. */
#ifndef FABRIC_POLL_H
#define FABRIC_POLL_H

#include "drivers/fabric/order.h"

#define FABRIC_DRAIN_MAX 4096 /* events after which ops->drain returns */
#define FABRIC_RECENT 256     /* number of polls that have found nothing */

/* The course of the operation poll, under the session's lock:
 *   events = fabric_poll_begin(a);   SKIP: return 0.  LOOK: handle messages, and count them as events
 *   events += what is rare
 *   return fabric_poll_end(a, events, ...); */
enum { FABRIC_POLL_SKIP = -2, FABRIC_POLL_LOOK = -1 };
/* Return the number of events of a take that has polled in place of this poll, else LOOK or SKIP. */
static inline int fabric_poll_begin(fabric_adapter_t *a)
{
    if (a->tried) {
        int events = a->tried - 1;
        a->tried = 0;
        return events;
    }
    return fabric_heat_polls(&a->heat) ? FABRIC_POLL_LOOK : FABRIC_POLL_SKIP;
}
/* Account for the events of a poll.  wakes: a descriptor reports what comes.  Returns the events. */
static inline int fabric_poll_end(fabric_adapter_t *a, int events, bool wakes)
{
    if (events)
        fabric_heat(&a->heat);
    else
        fabric_heat_cool(&a->heat, wakes);
    return events;
}
/* True if the operation take looks for a packet; under the session's lock. */
static inline bool fabric_take_looks(fabric_adapter_t *a)
{
    return !a->tried && !a->deferred && fabric_heat_polls(&a->heat);
}
/* Return the maximum number of polls for a packet in this take: several if a message was sent or received a short while ago,
 * since a round through the core takes longer than a poll. */
static inline int fabric_take_tries(const fabric_adapter_t *a)
{
    return fabric_heat_left(&a->heat) > FABRIC_HOT - FABRIC_RECENT ? a->looks : 1;
}
/* Account for a packet that take returns.  Returns its link. */
static inline madi_link_t *fabric_taken(fabric_link_t *l)
{
    fabric_packet_count(l);
    l->end.arrived = true;
    fabric_heat(&fabric_of(l)->heat);
    return &l->link;
}
/* Operation of driver.h. */
bool fabric_pure_poll(madi_adapter_t *adapter);

/* Open the timer.  On failure return SYSTEM, and write the reason. */
mad_status_t fabric_nap_open(fabric_adapter_t *a, char *reason);
void fabric_nap_close(fabric_adapter_t *a);  /* legal if the timer is not open */
void fabric_nap_arm(fabric_adapter_t *a);    /* the process may sleep */
void fabric_nap_disarm(fabric_adapter_t *a); /* the sleep has ended, so the next poll handles messages */

#endif
