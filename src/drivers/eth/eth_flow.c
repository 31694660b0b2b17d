/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/eth/eth_flow.h"

#include <stddef.h>
#include <string.h>

#define CWND_FIRST 64                   /* segments */
#define CWND_LEAST 2                    /* segments */
#define TIMEOUT_MIN INT64_C(2000000)    /* ns: longer than a receiver delays an acknowledgement */
#define PROBE_RTTS 3                    /* the first timeout, in units of the shortest round trip */
#define TIMEOUT_FIRST INT64_C(50000000) /* ns: timeout until a round trip has been measured */
#define TIMEOUT_MAX INT64_C(1000000000) /* ns */
#define ATTEMPTS_MIN 32                 /* timeouts stop growing at this part of the time after which the caller gives up */
#define PACE_RTT INT64_C(1000000)       /* ns: segments leave at intervals if the round trip is at least this long */
#define PACE_BURST 16                   /* segments that may leave together */
#define MARGIN_MIN INT64_C(20000)       /* ns: minimum margin, because frames of one sender pass several queues of a card */
#define MARGIN_FIRST 2                  /* first margin, in eighths of: mean round trip plus 4 times its variation */
#define MARGIN_MAX 16

static eth_segment_t *segment_at(eth_out_t *out, uint32_t number)
{
    return &out->segments[number % ETH_WINDOW];
}

/* ---- Sender ---------------------------------------------------------------------------------------------------- */

void eth_out_init(eth_out_t *out, int64_t patience)
{
    memset(out, 0, sizeof *out);
    out->timeout_max = patience / ATTEMPTS_MIN < TIMEOUT_MAX ? patience / ATTEMPTS_MIN : TIMEOUT_MAX;
    out->margin = MARGIN_FIRST;
    eth_out_limit(out, ETH_WINDOW);
}

void eth_out_limit(eth_out_t *out, unsigned segments)
{
    out->limit = out->ssthresh = segments < CWND_LEAST ? CWND_LEAST : segments;
    out->cwnd = out->limit < CWND_FIRST ? out->limit : CWND_FIRST;
}

static int64_t timeout_of(const eth_out_t *out)
{
    int64_t ns = out->srtt ? out->srtt + 4 * out->rttvar : TIMEOUT_FIRST, probe = PROBE_RTTS * out->rtt_least + TIMEOUT_MIN;
    if (!out->timeouts && out->srtt) /* a short timeout is safe, because only one segment is sent again at first */
        return probe < ns || ns < TIMEOUT_MIN ? probe : ns;
    ns = ns < TIMEOUT_MIN ? TIMEOUT_MIN : ns;
    for (int i = 0; i < out->timeouts && 2 * ns <= out->timeout_max; i++)
        ns *= 2;
    return ns < TIMEOUT_MAX ? ns : TIMEOUT_MAX;
}

/* Return the interval in ns between two segments; 0 if segments leave without delay. */
static int64_t pace_interval(const eth_out_t *out)
{
    if (out->srtt < PACE_RTT)
        return 0;
    /* send faster than one window per round trip, so that cwnd can grow */
    double rate = out->cwnd < out->ssthresh ? 2.0 : 1.25;
    return (int64_t)((double)out->srtt / (out->cwnd * rate));
}

static bool pace_permits(const eth_out_t *out, int64_t now)
{
    return out->pace - now <= PACE_BURST * pace_interval(out);
}

static bool cwnd_permits(const eth_out_t *out)
{
    return (double)out->flying < out->cwnd;
}

bool eth_out_room(const eth_out_t *out, int64_t now)
{
    return out->next - out->released < ETH_WINDOW && cwnd_permits(out) && pace_permits(out, now);
}

static void segment_left(eth_out_t *out, eth_segment_t *s, int64_t now)
{
    s->sent_at = now;
    out->flying++;
    if (!out->deadline)
        out->deadline = now + timeout_of(out);
    out->pace = (out->pace > now ? out->pace : now) + pace_interval(out);
}

eth_segment_t *eth_out_add(eth_out_t *out, void *owner, uint64_t from, uint32_t len, uint8_t flags, int64_t now)
{
    eth_segment_t *s = segment_at(out, out->next);
    if (out->acked == out->next)
        out->moved = now;
    *s = (eth_segment_t){.owner = owner, .from = from, .len = len, .number = out->next, .flags = flags};
    out->next++;
    segment_left(out, s, now);
    return s;
}

eth_segment_t *eth_out_resend(eth_out_t *out, int64_t now)
{
    if (!out->lost || !cwnd_permits(out) || !pace_permits(out, now))
        return NULL;
    for (uint32_t n = out->acked; n != out->next; n++) {
        eth_segment_t *s = segment_at(out, n);
        if (!s->lost)
            continue;
        s->lost = false;
        s->again = true;
        out->lost--;
        out->resent++;
        segment_left(out, s, now);
        return s;
    }
    return NULL;
}

static void segment_lose(eth_out_t *out, eth_segment_t *s)
{
    s->lost = true;
    out->lost++;
    out->flying--;
}

void eth_out_unsent(eth_out_t *out, eth_segment_t *s)
{
    if (!s->lost && !s->arrived)
        segment_lose(out, s);
}

/* Account for a measured round trip of `ns`. */
static void rtt_take(eth_out_t *out, int64_t ns)
{
    int64_t off = out->srtt > ns ? out->srtt - ns : ns - out->srtt;
    if (!out->rtt_least || ns < out->rtt_least)
        out->rtt_least = ns;
    if (!out->srtt) {
        out->srtt = ns > 0 ? ns : 1;
        out->rttvar = ns / 2;
        return;
    }
    out->rttvar += (off - out->rttvar) / 4;
    out->srtt += (ns - out->srtt) / 8;
    out->srtt += out->srtt <= 0;
}

/* Account for a segment whose arrival was acknowledged. */
static void segment_arrived(eth_out_t *out, eth_segment_t *s, int64_t now)
{
    if (s->arrived)
        return;
    if (s->lost)
        out->lost--;
    else
        out->flying--;
    s->lost = false;
    s->arrived = true;
    if (!s->again)
        rtt_take(out, now - s->sent_at);
    if (s->sent_at > out->newest)
        out->newest = s->sent_at;
}

static void cwnd_grow(eth_out_t *out, uint32_t arrived, bool full)
{
    if (!full) /* do not grow the window, since the program sends less than the network would take */
        return;
    out->cwnd += out->cwnd < out->ssthresh ? (double)arrived : (double)arrived / out->cwnd;
    if (out->cwnd > out->limit)
        out->cwnd = out->limit;
}

static void cwnd_cut(eth_out_t *out, uint32_t number)
{
    if ((int32_t)(number - out->recover) < 0)
        return;
    out->recover = out->next;
    out->ssthresh = out->cwnd * 0.7 > CWND_LEAST ? out->cwnd * 0.7 : CWND_LEAST;
    out->cwnd = out->ssthresh;
}

/* Find the segments that others have overtaken by more than the margin. */
static void losses_find(eth_out_t *out)
{
    int64_t margin = (out->srtt + 4 * out->rttvar) * out->margin / 8;
    margin = margin < MARGIN_MIN ? MARGIN_MIN : margin;
    for (uint32_t n = out->acked; n != out->next; n++) {
        eth_segment_t *s = segment_at(out, n);
        if (s->arrived || s->lost || s->sent_at + margin > out->newest)
            continue;
        segment_lose(out, s);
        out->doubted = true;
        cwnd_cut(out, n);
    }
}

/* Account for the segments that the bits of an acknowledgement name.  Return their number. */
static uint32_t bits_take(eth_out_t *out, const uint64_t *bits, int64_t now)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < ETH_WINDOW - 1; i++) {
        uint32_t number = out->acked + 1 + i;
        if ((int32_t)(out->next - number) <= 0)
            break;
        if (!(bits[i / 64] >> i % 64 & 1) || segment_at(out, number)->arrived)
            continue;
        segment_arrived(out, segment_at(out, number), now);
        taken++;
    }
    return taken;
}

bool eth_out_acked(eth_out_t *out, uint32_t next, const uint64_t *bits, bool repeated, int64_t now)
{
    uint32_t arrived = 0;
    bool full = (double)out->flying >= out->cwnd / 2;
    if (next - out->acked > out->next - out->acked) /* ignore an old acknowledgement, or one that no correct peer sends */
        return false;
    if (repeated && out->doubted && out->margin < MARGIN_MAX)
        out->margin++;
    out->doubted &= !repeated;
    for (; out->acked != next; out->acked++, arrived++)
        segment_arrived(out, segment_at(out, out->acked), now);
    if (bits)
        arrived += bits_take(out, bits, now);
    if (!arrived)
        return false;
    if ((int32_t)(out->acked - out->recover) > 0)
        out->recover = out->acked; /* else it would be more than 2^31 behind after a long time without loss */
    out->moved = now;
    out->timeouts = 0;
    cwnd_grow(out, arrived, full);
    if (bits)
        losses_find(out);
    out->deadline = out->acked == out->next ? 0 : now + timeout_of(out);
    return true;
}

eth_segment_t *eth_out_release(eth_out_t *out)
{
    return out->released == out->acked ? NULL : segment_at(out, out->released++);
}

bool eth_out_expire(eth_out_t *out, int64_t now)
{
    if (!out->deadline || now < out->deadline)
        return false;
    if (out->timeouts++) {
        out->cwnd = CWND_LEAST;
        out->ssthresh = out->ssthresh / 2 > CWND_LEAST ? out->ssthresh / 2 : CWND_LEAST;
        out->recover = out->next;
    }
    for (uint32_t n = out->acked; n != out->next; n++) {
        eth_segment_t *s = segment_at(out, n);
        if (!s->arrived && !s->lost)
            segment_lose(out, s);
        if (out->timeouts == 1) /* perhaps the peer only computes, so it is enough to send the first segment */
            break;
    }
    out->pace = 0;
    out->deadline = now + timeout_of(out);
    return out->lost > 0;
}

int64_t eth_out_due(const eth_out_t *out, bool waiting)
{
    int64_t due = out->deadline ? out->deadline : INT64_MAX;
    bool may_add = waiting && out->next - out->released < ETH_WINDOW;
    if ((!may_add && !out->lost) || !cwnd_permits(out))
        return due;
    int64_t leaves = out->pace - PACE_BURST * pace_interval(out);
    return leaves < due ? leaves : due;
}

/* ---- Receiver -------------------------------------------------------------------------------------------------- */

eth_arrived_t eth_in_arrived(eth_in_t *in, uint32_t number)
{
    uint32_t ahead = number - atomic_load_explicit(&in->next, memory_order_relaxed);
    if (ahead < ETH_WINDOW && !in->kept[number % ETH_WINDOW])
        return ahead ? ETH_EARLY : ETH_NEXT;
    in->repeated |= (int32_t)ahead < 0 || ahead < ETH_WINDOW;
    in->now = true; /* acknowledge again, since the last acknowledgement may have been lost */
    return ETH_OLD;
}

void eth_in_keep(eth_in_t *in, uint32_t number, void *segment)
{
    in->kept[number % ETH_WINDOW] = segment;
    in->n_kept++;
}

void eth_in_step(eth_in_t *in)
{
    atomic_fetch_add_explicit(&in->next, 1, memory_order_relaxed);
}

void *eth_in_take(eth_in_t *in)
{
    uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
    void *segment = in->n_kept ? in->kept[next % ETH_WINDOW] : NULL;
    if (segment) {
        in->kept[next % ETH_WINDOW] = NULL;
        in->n_kept--;
    }
    return segment;
}

bool eth_in_bits(const eth_in_t *in, uint64_t bits[ETH_BITS])
{
    uint32_t next = atomic_load_explicit(&in->next, memory_order_relaxed);
    if (!in->n_kept)
        return false;
    memset(bits, 0, ETH_BITS * sizeof *bits);
    for (uint32_t i = 0; i < ETH_WINDOW - 1; i++)
        if (in->kept[(next + 1 + i) % ETH_WINDOW])
            bits[i / 64] |= UINT64_C(1) << i % 64;
    return true;
}
