/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of cells: poll and take (shm_send.c sends). */
#include "drivers/shm/shm_cell.h"

static_assert(SHM_CELLS_MAX * SHM_CELL_DATA <= sizeof(madi_wire_hdr_t) + MADI_TAKE_MAX,
              "take hands over all that is in cells");
#define PUBLISH_STEP (SHM_CELLS / 4)       /* step, in cells, by which `consumed` is stored */
#define FETCH (4 * MADI_LINE)              /* bytes of a body that are prefetched as soon as its address is known */
#define LONGEST (SHM_CHUNK / SHM_UNIT + 1) /* units of a run */
/* one loan is allowed for this many units in use, so that at most half of them are lent */
#define LEND (2 * LONGEST)
#define LEND_MAX 21 /* maximum number of loans */
static_assert(SHM_LONG_UNITS - (LEND_MAX + 1) * LONGEST > (LEND_MAX + 2) * (LONGEST - 1),
              "wherever all loans and a prepared body lie among them, a piece of a long block has a place");
#define LOOK 8 /* inboxes that one call of pure_poll or poll checks */

void shm_slot_put(madi_link_t *link, madi_foreign_t loan)
{
    shm_link_t *l = (shm_link_t *)link;
    uint32_t unit = shm_unit_of(l->in, madi_foreign_pass_on(loan));
    if (MADI_UNLIKELY(atomic_load_explicit(&l->long_loan, memory_order_relaxed) == unit + 1))
        atomic_store_explicit(&l->long_loan, 0, memory_order_relaxed);
    shm_run_free(l, unit);
}

/* Store the number of consumed cells for the sender, and wrap at the ring's end. */
static __attribute__((noinline)) void consumed_publish(shm_link_t *l, shm_inbox_t *inbox, uint32_t number)
{
    atomic_store_explicit(&inbox->more, 0, memory_order_relaxed);
    atomic_store_explicit(&inbox->next, &l->in->cells[number & SHM_MASK], memory_order_relaxed);
    atomic_store_explicit(&l->in->consumed, number, memory_order_release); /* pairs with cells_free */
    shm_bell_space(l);
}

/* Count a cell that was read.  number: low half of its head.  Return true if consumed_publish has to follow. */
static inline bool cell_count(shm_link_t *l, shm_inbox_t *inbox, shm_cell_t *cell, uint32_t number)
{
    l->received = number;
    atomic_store_explicit(&inbox->next, cell + 1, memory_order_relaxed);
    atomic_store_explicit(&inbox->number, number + 1, memory_order_relaxed);
    return MADI_UNLIKELY(number % PUBLISH_STEP == 0);
}

static inline void cell_consume(shm_link_t *l, shm_inbox_t *inbox, shm_cell_t *cell, uint32_t number)
{
    if (cell_count(l, inbox, cell, number))
        consumed_publish(l, inbox, number);
}

/* Count several cells that were read. */
static void consume_cells(shm_link_t *l, uint32_t cells)
{
    shm_inbox_t *inbox = l->inbox;
    uint32_t before = l->received, number = before + cells;
    l->received = number;
    atomic_store_explicit(&inbox->next, &l->in->cells[number & SHM_MASK], memory_order_relaxed);
    atomic_store_explicit(&inbox->number, number + 1, memory_order_relaxed);
    if (before / PUBLISH_STEP != number / PUBLISH_STEP)
        consumed_publish(l, inbox, number);
    atomic_store_explicit(&inbox->more, cells - 1, memory_order_relaxed);
}

/* Copy the header from a packet's first cell. */
static inline void copy_header(void *hdr, const shm_cell_t *cell)
{
    madi_foreign_copy(hdr, madi_foreign_of(cell->data), sizeof(madi_wire_hdr_t));
}

/* Copy a packet from all of its cells. */
static void copy_cells(const shm_link_t *l, const shm_cell_t *first, unsigned char *to, size_t len)
{
    size_t part = len < MADI_SHORT_MAX ? len : MADI_SHORT_MAX;
    madi_foreign_copy_any(to, madi_foreign_of(first->data + sizeof(madi_wire_hdr_t)), part);
    for (uint32_t i = 1; (to += part, len -= part); i++) {
        part = len < SHM_CELL_DATA ? len : SHM_CELL_DATA;
        madi_foreign_copy_any(to, madi_foreign_of(l->in->cells[(l->received + i) & SHM_MASK].data), part);
    }
}

static bool cells_valid(const madi_wire_hdr_t *hdr)
{
    return hdr->length <= SHM_CELLS_MAX * SHM_CELL_DATA - sizeof *hdr;
}

static void cells_packet(shm_link_t *l, const shm_cell_t *first, const madi_wire_hdr_t *hdr)
{
    madi_rx_t rx = {0};
    uint32_t cells = shm_cells_of(sizeof *hdr + hdr->length);
    madi_place_t place = madi_rx_begin(&l->base, hdr, &rx);
    if (MADI_UNLIKELY(!l->inbox)) /* the upcall has closed the link */
        return;
    if (place == MADI_PLACE_COPY)
        copy_cells(l, first, rx.base, hdr->length);
    consume_cells(l, cells);
    if (place == MADI_PLACE_COPY)
        madi_rx_done(&l->base, hdr, &rx);
}

/* Return 1 + the count at which the body in this cell's run begins. */
static uint64_t cell_begun(const shm_cell_t *cell)
{
    return madi_foreign_read8(madi_foreign_of(cell->data + sizeof(madi_wire_hdr_t)));
}

uint64_t shm_here(madi_link_t *link, uint64_t begun)
{
    const shm_link_t *l = (const shm_link_t *)link;
    return atomic_load_explicit(&l->in->filled, memory_order_acquire) - (begun - 1); /* pairs with send_pieces */
}

/* Record a loan until it is returned.  Under the session's lock. */
static inline void note_loan(shm_link_t *l, uint32_t unit, uint32_t length)
{
    if (MADI_UNLIKELY(length > SHM_CHUNK))
        atomic_store_explicit(&l->long_loan, unit + 1, memory_order_relaxed);
}

void shm_keep_begun(madi_link_t *link)
{
    shm_link_t *l = (shm_link_t *)link;
    const shm_cell_t *cell = &l->in->cells[l->received & SHM_MASK];
    madi_wire_hdr_t hdr;
    copy_header(&hdr, cell);
    note_loan(l, (uint32_t)(atomic_load_explicit(&cell->head, memory_order_relaxed) >> 32 & (SHM_BEGUN - 1)) - 1,
              hdr.length);
    link->begun = 0;
    shm_note_turn(l, MADI_WIRE_MSG, true);
    cell_consume(l, l->inbox, &l->in->cells[l->received & SHM_MASK], l->received + 1);
}

/* True if the body in the cell's run is complete; run: the upper half of the cell's head. */
static bool run_whole(shm_link_t *l, const shm_cell_t *cell, uint32_t run, uint32_t length)
{
    return !(run & SHM_BEGUN) || shm_here(&l->base, cell_begun(cell)) >= length;
}

/* True if this body may be lent.  A long body is lent only if no other body is lent, and is then the only loan. */
static inline bool shm_may_lend(shm_link_t *l, uint32_t length)
{
    uint32_t most = atomic_load_explicit(&l->in->window, memory_order_relaxed) / LEND;
    uint32_t loans = atomic_load_explicit(&l->base.loans, memory_order_relaxed);
    if (MADI_UNLIKELY(length > SHM_CHUNK))
        return !loans;
    return loans < (most < LEND_MAX ? most : LEND_MAX) && !atomic_load_explicit(&l->long_loan, memory_order_relaxed);
}

static void run_packet(shm_link_t *l, const madi_wire_hdr_t *hdr, uint32_t unit)
{
    cell_consume(l, l->inbox, &l->in->cells[l->received & SHM_MASK], l->received + 1);
    bool lend = shm_may_lend(l, hdr->length);
    if (lend)
        note_loan(l, unit, hdr->length);
    madi_rx_whole(&l->base, hdr, madi_foreign_of(l->in->units[unit]), lend);
}

/* True if the body lies within the units.  The peer can write the shared memory, so its numbers are checked. */
static bool run_valid(const madi_wire_hdr_t *hdr, uint32_t unit)
{
    return hdr->length <= SHM_BODY_MAX && unit < SHM_UNITS && hdr->length <= (SHM_UNITS - unit) * (size_t)SHM_UNIT;
}

static bool shm_receive_packet(shm_link_t *l)
{
    shm_cell_t *cell = &l->in->cells[l->received & SHM_MASK];
    uint64_t head = atomic_load_explicit(&cell->head, memory_order_acquire); /* pairs with cells_publish */
    madi_wire_hdr_t hdr;
    uint32_t run = (uint32_t)(head >> 32);

    if ((uint32_t)head != l->received + 1)
        return false;
    copy_header(&hdr, cell);
    shm_note_turn(l, hdr.type, true);
    if (!run && MADI_LIKELY(hdr.length <= MADI_SHORT_MAX)) {
        madi_rx_short(&l->base, &hdr, madi_foreign_of(cell->data + sizeof hdr));
        if (MADI_LIKELY(l->inbox != NULL)) /* not if the upcall has closed the link */
            cell_consume(l, l->inbox, &l->in->cells[l->received & SHM_MASK], l->received + 1);
        return true;
    }
    if (!run && cells_valid(&hdr)) {
        cells_packet(l, cell, &hdr);
        return true;
    }
    if (run && !run_whole(l, cell, run, hdr.length))
        return false;
    run &= SHM_BEGUN - 1;
    if (MADI_UNLIKELY(!run || !run_valid(&hdr, run - 1))) {
        madi_link_down(&l->base, MAD_ERR_PROTOCOL, "the shared ring contains a packet that no sender writes");
        return false;
    }
    for (uint32_t i = 0; i < hdr.length && i < FETCH; i += MADI_LINE)
        __builtin_prefetch((const void *)&l->in->units[run - 1][i]);
    run_packet(l, &hdr, run - 1);
    return true;
}

static inline bool inbox_ready(shm_inbox_t *inbox)
{
    shm_cell_t *cell = atomic_load_explicit(&inbox->next, memory_order_acquire); /* pairs with shm_inbox_open */
    return (uint32_t)atomic_load_explicit(&cell->head, memory_order_relaxed) ==
           atomic_load_explicit(&inbox->number, memory_order_relaxed);
}

/* Prefetch the further cells of the awaited packet, assuming that it is as long as the last one.  At the ring's end this
 * fetches useless lines. */
static inline void fetch_more(shm_inbox_t *inbox)
{
    const shm_cell_t *cell = atomic_load_explicit(&inbox->next, memory_order_relaxed);
    for (uint32_t more = atomic_load_explicit(&inbox->more, memory_order_relaxed); MADI_UNLIKELY(more); more--)
        __builtin_prefetch((const void *)&cell[more]);
}

static inline int poll_link(shm_link_t *l, int budget)
{
    int n = 0;
    while (n < budget && shm_receive_packet(l)) {
        n++;
        if (MADI_UNLIKELY(atomic_load_explicit(&l->base.state, memory_order_relaxed) != MADI_LINK_UP))
            break;
    }
    return n;
}

/* Deliver the packets in the ring.  A peer that has ended sends no more than that; a peer that only claims to have
 * ended must not be served for ever. */
void shm_drain(shm_link_t *l)
{
    poll_link(l, SHM_CELLS);
}

/* Poll the link that was active last, and a few other links in turn: with many peers, one call must not poll all links. */
static int poll_some(shm_adapter_t *a, shm_inbox_t **inboxes, int all, int budget)
{
    shm_inbox_t *hot = atomic_load_explicit(&a->hot, memory_order_relaxed);
    int i = atomic_load_explicit(&a->turn, memory_order_relaxed);
    int n = hot && hot->link ? poll_link(hot->link, budget) : 0;
    for (int looks = 0; looks < LOOK; looks++, i = i + 1 < all ? i + 1 : 0)
        if (inboxes[i]->link)
            n += poll_link(inboxes[i]->link, budget);
    atomic_store_explicit(&a->turn, i, memory_order_relaxed);
    return n;
}

int shm_poll(madi_adapter_t *adapter, int budget)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    shm_inbox_t **inboxes = atomic_load_explicit(&a->inboxes, memory_order_relaxed);
    int n = 0, all = atomic_load_explicit(&a->n_inboxes, memory_order_relaxed);
    if (MADI_UNLIKELY(all > LOOK))
        return poll_some(a, inboxes, all, budget);
    for (int i = 0; i < all; i++)
        if (MADI_LIKELY(inboxes[i]->link != NULL))
            n += poll_link(inboxes[i]->link, budget);
    return n;
}

/* Take a packet whose last block is still being written.  The packet stays in the ring until the core has kept it. */
static madi_link_t *take_begun(shm_link_t *l, const shm_cell_t *cell, uint32_t unit, madi_foreign_t *loan)
{
    l->base.begun = l->base.outer ? 0 : cell_begun(cell);
    if (!l->base.begun)
        return NULL;
    *loan = madi_foreign_of(l->in->units[unit]);
    return &l->base;
}

/* Slow path of shm_take: the next cell has not arrived, or its body is in a run.  No registers are saved across the call. */
static __attribute__((noinline)) madi_link_t *take_run(shm_inbox_t *inbox, void *packet, madi_foreign_t *loan)
{
    shm_cell_t *cell = atomic_load_explicit(&inbox->next, memory_order_relaxed);
    uint32_t number = atomic_load_explicit(&inbox->number, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&cell->head, memory_order_acquire); /* pairs with cells_publish */
    uint32_t run = (uint32_t)(head >> 32), unit = (run & (SHM_BEGUN - 1)) - 1;
    const madi_wire_hdr_t *hdr = packet;
    shm_link_t *l = inbox->link;
    if ((uint32_t)head != number || unit >= SHM_UNITS)
        return NULL;
    copy_header(packet, cell);
    if (MADI_UNLIKELY(!run_valid(hdr, unit) || !shm_may_lend(l, hdr->length)))
        return NULL; /* poll reports the error, or copies the body */
    if (!run_whole(l, cell, run, hdr->length))
        return take_begun(l, cell, unit, loan);
    *loan = madi_foreign_of(l->in->units[unit]);
    for (uint32_t i = 0; i < hdr->length && i < FETCH; i += MADI_LINE)
        __builtin_prefetch((const void *)&l->in->units[unit][i]);
    shm_note_turn(l, hdr->type, true);
    note_loan(l, unit, hdr->length);
    cell_consume(l, inbox, cell, number);
    return &l->base;
}

static __attribute__((noinline)) madi_link_t *take_cells(shm_link_t *l, const shm_cell_t *cell, unsigned char *packet)
{
    const madi_wire_hdr_t *hdr = (const madi_wire_hdr_t *)packet;
    if (!cells_valid(hdr))
        return NULL; /* poll reports the error */
    copy_cells(l, cell, packet + sizeof *hdr, hdr->length);
    consume_cells(l, shm_cells_of(sizeof *hdr + hdr->length));
    return &l->base;
}

static __attribute__((noinline)) madi_link_t *take_and_publish(shm_link_t *l)
{
    consumed_publish(l, l->inbox, l->received);
    return &l->base;
}

/* Take a packet from the inbox that was active last.  Rare cases are tail calls, for which no registers are saved. */
madi_link_t *shm_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    shm_inbox_t *inbox = atomic_load_explicit(&a->hot, memory_order_relaxed);
    shm_link_t *l = inbox->link; /* not NULL, because the cell has arrived */
    shm_cell_t *cell = atomic_load_explicit(&inbox->next, memory_order_relaxed);
    uint32_t number = atomic_load_explicit(&inbox->number, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&cell->head, memory_order_acquire); /* pairs with cells_publish */
    const madi_wire_hdr_t *hdr = packet;

    if (MADI_UNLIKELY(head != number)) /* which is SHM_HEAD(received, 0) */
        return take_run(inbox, packet, loan);
    atomic_store_explicit(&l->ahead, 0, memory_order_relaxed);
    madi_foreign_copy(packet, madi_foreign_of(cell->data), SHM_CELL_DATA);
    if (MADI_UNLIKELY(hdr->length > MADI_SHORT_MAX))
        return take_cells(l, cell, packet);
    return cell_count(l, inbox, cell, number) ? take_and_publish(l) : &l->base;
}

int shm_take_short(madi_adapter_t *adapter, void *packets, size_t stride, int max, madi_link_t **link)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    shm_inbox_t *inbox = atomic_load_explicit(&a->hot, memory_order_relaxed);
    shm_link_t *l = inbox->link; /* not NULL, because a cell has arrived */
    shm_cell_t *cell = atomic_load_explicit(&inbox->next, memory_order_relaxed);
    uint32_t first = atomic_load_explicit(&inbox->number, memory_order_relaxed), number = first;
    unsigned char *packet = packets;

    for (; number != first + (uint32_t)max; number++, packet += stride) {
        uint64_t head = atomic_load_explicit(&cell->head, memory_order_acquire); /* pairs with cells_publish */
        if (head != number) /* the packet has not arrived, or its body lies in a run of units */
            break;
        if (max > 1)
            __builtin_prefetch(cell + SHM_AHEAD);
        madi_foreign_copy(packet, madi_foreign_of(cell->data), SHM_CELL_DATA);
        if (MADI_UNLIKELY(((const madi_wire_hdr_t *)packet)->length > MADI_SHORT_MAX))
            break;
        cell++;
        if (MADI_UNLIKELY(number % PUBLISH_STEP == 0)) {
            l->received = number;
            consumed_publish(l, inbox, number);
            cell = atomic_load_explicit(&inbox->next, memory_order_relaxed);
        }
    }
    if (number == first)
        return 0;
    l->received = number - 1;
    atomic_store_explicit(&l->ahead, 0, memory_order_relaxed);
    atomic_store_explicit(&inbox->next, cell, memory_order_relaxed);
    atomic_store_explicit(&inbox->number, number, memory_order_relaxed);
    *link = &l->base;
    return (int)(number - first);
}

/* True if a packet may have arrived.  The cost is independent of the number of peers: only the inbox that was
 * active last is checked, and a few others in turn. */
bool shm_pure_poll(madi_adapter_t *adapter)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    int all = atomic_load_explicit(&a->n_inboxes, memory_order_acquire); /* pairs with inbox_new */
    shm_inbox_t **inboxes = atomic_load_explicit(&a->inboxes, memory_order_relaxed);
    shm_inbox_t *hot = atomic_load_explicit(&a->hot, memory_order_relaxed);
    int i;
    if (hot && inbox_ready(hot))
        return true;
    if (hot)
        fetch_more(hot);
    if (MADI_LIKELY(all <= 1))
        return false;
    i = atomic_load_explicit(&a->turn, memory_order_relaxed);
    for (int looks = 0; looks < LOOK && looks < all; looks++, i = i + 1 < all ? i + 1 : 0)
        if (inbox_ready(inboxes[i])) {
            atomic_store_explicit(&a->hot, inboxes[i], memory_order_relaxed);
            return true;
        }
    atomic_store_explicit(&a->turn, i, memory_order_relaxed);
    return false;
}

/* True if poll would find something.  A body that is still being written does not count, because its sender may be
 * stopped. */
static bool ready_whole(shm_inbox_t *inbox)
{
    shm_link_t *l = inbox->link;
    const shm_cell_t *cell;
    madi_wire_hdr_t hdr;
    uint32_t run;
    if (!inbox_ready(inbox) || !l)
        return false;
    cell = &l->in->cells[l->received & SHM_MASK];
    run = (uint32_t)(atomic_load_explicit(&cell->head, memory_order_acquire) >> 32); /* pairs with cells_publish */
    copy_header(&hdr, cell);
    return run_whole(l, cell, run, hdr.length);
}

bool shm_any(shm_adapter_t *a)
{
    shm_inbox_t **inboxes = atomic_load_explicit(&a->inboxes, memory_order_relaxed);
    for (int i = 0; i < atomic_load_explicit(&a->n_inboxes, memory_order_relaxed); i++)
        if (ready_whole(inboxes[i]))
            return true;
    return false;
}
