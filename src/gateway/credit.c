/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow control on one hop: on each hop, a sender may have no more bytes of a stream pending here than it has credit
 * for.  The sum of all credits bounds the memory of this process.  Endpoints consume everything at once, so they grant
 * unlimited credit. */
#include "gateway/gateway.h"

/* bytes: each window has room for one fragment of the maximum length by the topology file, and for some short ones.
 * Windows grow only from what exceeds half of the budget, so that there is room for more streams. */
#define SHORT 8192
/* bytes for fragments that need no credit, besides OPEN: one CLOSE and one MOVE from each gateway and endpoint on the
 * path */
#define FREE 1536

/* Reserve parts of the budget for other memory that peers cause: answers that they do not read, and addresses learned
 * from them. */
void gw_budget_shares(gw_t *gw)
{
    madi_ledger_sum_t *sum = &gw->base.session->ledger;
    int64_t known = gw->budget_all / 32, most = madi_bounds[MADI_CHARGE_PEERS].sum;
    sum->most[MADI_CHARGE_ANSWERS] = gw->budget_all / 16;
    sum->most[MADI_CHARGE_PEERS] = known < most ? known : most;
    gw->budget -= sum->most[MADI_CHARGE_ANSWERS] + sum->most[MADI_CHARGE_PEERS];
}

static uint64_t fragment_longest(const gw_t *gw)
{
    return gw_cost(gw->fragment + MADI_FORWARD_HEAD);
}

/* Amount of returned credit at which CREDIT is sent: half of the window, or less if a long fragment would otherwise wait
 * for unsent credit. */
static uint64_t credit_due(const gw_side_t *side)
{
    uint64_t half = side->rx_window / 2, spare = side->rx_window - fragment_longest(side->transit->gw);
    return half < spare ? half : spare;
}

bool gw_credit_open(gw_side_t *side, size_t opening)
{
    gw_t *gw = side->transit->gw;
    uint64_t window = fragment_longest(gw) + SHORT;
    uint32_t free = FREE + (opening ? gw_cost(opening) : 0);
    if (gw->budget < (int64_t)(window + free))
        return false;
    gw->budget -= (int64_t)(window + free);
    gw_rate_take(gw, (int64_t)window);
    side->rx_limit = side->rx_window = window;
    side->free = free;
    return true;
}

void gw_credit_close(gw_side_t *side)
{
    if (side->rx_window) {
        side->transit->gw->budget += (int64_t)(side->rx_window + side->free);
        gw_rate_take(side->transit->gw, -(int64_t)(side->rx_limit - side->rx_used));
    }
    side->rx_window = 0;
}

bool gw_credit_take(gw_side_t *side, uint32_t cost)
{
    if (side->rx_limit - side->rx_used < cost)
        return false;
    side->rx_used += cost;
    return true;
}

void gw_credit_back(gw_side_t *side, uint32_t cost)
{
    gw_t *gw = side->transit->gw;
    side->rx_back += cost;
    if (side->credit_due || !side->hop || side->rx_back + side->rx_window - side->rx_limit < credit_due(side))
        return;
    side->credit_due = true;
    side->next_credit = NULL;
    if (!gw->credit_list)
        gw->credit_tail = &gw->credit_list;
    *gw->credit_tail = side; /* sides are served in turn, because a bandwidth limit may delay some */
    gw->credit_tail = &side->next_credit;
    atomic_store_explicit(&gw->unsettled, 1, memory_order_relaxed);
}

static void credit_window_grow(gw_side_t *side)
{
    gw_t *gw = side->transit->gw;
    uint64_t room = GW_WINDOW_MAX - side->rx_window;
    int64_t more = (int64_t)(side->rx_window < room ? side->rx_window : room), left = gw->budget - gw->budget_all / 2;
    if (more > left)
        more = left;
    if (more <= 0)
        return;
    side->rx_window += (uint64_t)more;
    gw->budget -= more;
}

static void credit_send(gw_side_t *side)
{
    struct {
        madi_wire_forward_t forward;
        madi_wire_credit_t credit;
    } body = {0};
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_FORWARD, .length = sizeof body, .aux = side->label};
    hdr.flags = (uint8_t)(MADI_FORWARD_CREDIT | (side->opener ? MADI_FORWARD_OPENER : 0));
    body.credit.limit = side->rx_limit;
    madi_gate_ctrl(side->hop->gate, &hdr, &body);
}

void gw_credit_send_due(gw_t *gw)
{
    gw_side_t *side;
    while ((side = gw->credit_list) && gw_rate_allows(gw)) {
        uint64_t before = side->rx_limit;
        gw->credit_list = side->next_credit;
        side->credit_due = false;
        if (!side->hop)
            continue;
        if (gw_rate_spare(gw))
            credit_window_grow(side);
        side->rx_limit = side->rx_back + side->rx_window;
        gw_rate_take(gw, (int64_t)(side->rx_limit - before));
        credit_send(side);
    }
}

void gw_credit_unlimited(gw_side_t *side)
{
    side->rx_limit = UINT64_MAX;
    credit_send(side);
}

void gw_credit_first(gw_side_t *side)
{
    credit_send(side);
}

void gw_credit_arrived(gw_side_t *side, uint64_t limit)
{
    madi_gate_t *gate = side->hop->gate;
    bool stalled;
    madi_lock(&gate->tx_lock);
    if (limit > side->tx_limit)
        side->tx_limit = limit;
    stalled = side->stalled;
    gw_side_goes(side);
    gw_side_activate(side);
    gw_hop_pump(side->hop);
    madi_unlock(&gate->tx_lock);
    if (stalled && side->end && side->end->link)
        madi_link_writable(side->end->link);
}
