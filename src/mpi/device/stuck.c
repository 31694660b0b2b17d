/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that cannot be taken yet, and peers that have broken the protocol.
 *
 * A message is stuck while its envelope has not arrived completely.  Later messages of its sender wait behind it, because
 * the order of each sender must be kept.  Messages of all other peers are taken.
 *
 *   dev->stuck --> peer 7: the stuck message, the next one, ...
 *                  peer 3: the stuck message
 *
 * Only a lack of memory stops the messages of all peers, since they share the memory.  The message for which memory was
 * lacking waits in dev->starved, and all later ones wait in the library, or in dev->arrived.
 *
 * While there are such messages or peers, dev->is_stuck is true, and dev_arrival_admit looks at the sender of each arrival. */
#include "inside.h"

#include <madeleine/runtime.h>
#include <stdlib.h>

/* A message that waits. */
typedef struct waiting {
    struct waiting *next;
    size_t cost; /* bytes that the message counts for in MAD_DEV_BEHIND_MAX */
    mad_arrival_t arrival;
} waiting_t;

/* The messages of one peer that wait. */
typedef struct stuck {
    struct stuck *next;      /* next in dev->stuck */
    flow_t *flow;            /* flow of the peer, whose field `stuck` is this structure */
    waiting_t *first, *last; /* oldest first; the first one is stuck */
    size_t cost;             /* bytes: total of all messages */
} stuck_t;

static void arrival_copy(mad_arrival_t *to, const mad_arrival_t *a)
{
    *to = *a;
    if (!a->message && a->base) /* the block is stored inside the arrival */
        to->base = (const char *)to->inside + ((const char *)a->base - (const char *)a->inside);
}

void dev_arrival_starve(mad_dev_t *dev, const mad_arrival_t *a)
{
    arrival_copy(&dev->starved, a);
    dev->is_starved = dev->is_stuck = true;
}

/* ---- Queues ------------------------------------------------------------------------------------------------------ */

/* Append a message to its peer's queue.  Return false if out of memory. */
static bool waiting_append(stuck_t *s, const mad_arrival_t *a, size_t cost)
{
    waiting_t *w = malloc(sizeof *w);
    if (!w)
        return false;
    w->next = NULL;
    w->cost = cost;
    arrival_copy(&w->arrival, a);
    if (s->first)
        s->last->next = w;
    else
        s->first = w;
    s->last = w;
    s->cost += cost;
    return true;
}

static void waiting_remove(stuck_t *s)
{
    waiting_t *w = s->first;
    s->first = w->next;
    s->cost -= w->cost;
    free(w);
}

static void stuck_append(mad_dev_t *dev, stuck_t *s)
{
    s->next = NULL;
    if (dev->stuck)
        dev->stuck_last->next = s;
    else
        dev->stuck = s;
    dev->stuck_last = s;
}

void dev_arrival_stick(mad_dev_t *dev, const mad_arrival_t *a)
{
    flow_t *f = dev_flow_make(dev, a->peer);
    stuck_t *s = f ? calloc(1, sizeof *s) : NULL;
    if (!s || !waiting_append(s, a, 0)) {
        free(s);
        dev_arrival_starve(dev, a);
        return;
    }
    s->flow = f;
    f->stuck = s;
    stuck_append(dev, s);
    dev->is_stuck = true;
}

/* ---- Arrivals while messages wait -------------------------------------------------------------------------------- */

/* Queue a message behind an earlier one of its sender.  Its first block is borrowed at once, so that its length is known,
 * and a block that needs a grant gets it.
 *
 * A peer whose messages exceed MAD_DEV_BEHIND_MAX counts as lost.  If the device stopped taking messages from the network
 * instead, the peer would stop all others.  An honest peer does not reach this bound: its credit, at most 1 MiB, suffices
 * for 16,384 messages of the shortest kind, which count for 6 MiB here.  Before an honest peer gets further credit for
 * messages that wait here, it has the grant for the bytes that are missing, and sends them. */
static void arrival_queue_behind(mad_dev_t *dev, stuck_t *s, const mad_arrival_t *arrival)
{
    mad_arrival_t a;
    mad_status_t status;
    size_t cost = MAD_DEV_ENVELOPE_COST;
    arrival_copy(&a, arrival);
    status = a.base ? MAD_OK : mad_unpack_borrow(a.message, &a.base, &a.len);
    if (status && status != MAD_ERR_AGAIN) {
        dev_message_end(a.message);
        return;
    }
    if (status)
        cost += MAD_DEV_ORDERED;
    else if (a.message)
        cost += a.len;
    if (cost > MAD_DEV_BEHIND_MAX - s->cost) {
        dev_message_end(a.message);
        dev_peer_breach(dev, a.peer);
    } else if (!waiting_append(s, &a, cost)) {
        dev_arrival_starve(dev, &a);
    }
}

bool dev_arrival_admit(mad_dev_t *dev, const mad_arrival_t *a)
{
    const flow_t *f = dev_flow_find(dev, a->peer);
    if (f && f->shut) {
        dev_message_end(a->message);
        return false;
    }
    if (!f || !f->stuck)
        return dev_arrival_take(dev, a);
    arrival_queue_behind(dev, f->stuck, a);
    return false;
}

/* ---- New tries --------------------------------------------------------------------------------------------------- */

static bool starved_retry(mad_dev_t *dev)
{
    mad_arrival_t a;
    arrival_copy(&a, &dev->starved);
    dev->is_starved = false;
    return dev_arrival_admit(dev, &a);
}

/* Take a peer's messages, up to one that is stuck.  Drop them if the peer has broken the protocol.  Return the number
 * of messages taken. */
static int stuck_take(mad_dev_t *dev, stuck_t *s)
{
    int n = 0;
    for (; s->first; waiting_remove(s)) {
        mad_arrival_t *a = &s->first->arrival;
        if (s->flow->shut)
            dev_message_end(a->message);
        else if (dev_arrival_try(dev, a))
            break;
        else
            n++;
    }
    return n;
}

/* Each call tries one peer, in turn: a try polls the network, so tries of many peers would delay all other messages. */
int dev_stuck_retry(mad_dev_t *dev)
{
    int n = dev->is_starved && starved_retry(dev);
    stuck_t *s = dev->stuck;
    if (s) {
        dev->stuck = s->next;
        n += stuck_take(dev, s);
        if (s->first) {
            stuck_append(dev, s);
        } else {
            s->flow->stuck = NULL;
            free(s);
        }
    }
    dev->is_stuck = dev->is_starved || dev->stuck || dev->n_shut;
    return n;
}

void dev_stuck_fini(mad_dev_t *dev)
{
    for (stuck_t *s; (s = dev->stuck); free(s)) {
        dev->stuck = s->next;
        while (s->first)
            waiting_remove(s);
    }
}
