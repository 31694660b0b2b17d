/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of cells: send and poll. */
#include "drivers/shm/shm.h"

#define HEAD(number, unit) ((uint64_t)(uint32_t)((number) + 1) | (uint64_t)(unit) << 32)
static_assert(SHM_CELLS_MAX * SHM_CELL_DATA <= sizeof(madi_wire_hdr_t) + MADI_TAKE_MAX,
              "take hands over all that is in cells");
static_assert(SHM_CELL_DATA == MADI_PACKET_SHORT, "a short packet fills one cell");
#define MASK (SHM_CELLS - 1)
#define TELL (SHM_CELLS / 4)    /* step, in cells, in which `consumed` is stored */
#define FETCH (20 * MADI_LINE)  /* bytes of a body that are prefetched as soon as its place is known */
#define PUT_LONG 4096           /* bytes: longer copies are made by madi_copy_bulk */
#define BEGUN (UINT32_C(1) << 16)      /* bit of a head's upper half: the body is incomplete */
#define BEGUN_MIN 6144                 /* bytes: shortest last block that is written after its cell */
#define PIECES 3                       /* number of its pieces, each of PIECE_MIN to PIECE_MAX bytes */
#define PIECE_MIN 3072
#define PIECE_MAX 8192
#define LONGEST (SHM_CHUNK / SHM_UNIT + 1) /* units of a run */
#define LEND (2 * LONGEST)                 /* at most half of the units in use are lent */
#define LEND_MAX 21                        /* loans */
static_assert(SHM_LONG_UNITS - (LEND_MAX + 1) * LONGEST > (LEND_MAX + 2) * (LONGEST - 1),
              "wherever all loans and a prepared body lie among them, a piece of a long block has a place");
/* Distance in cells at which a stream of short messages prefetches: ahead of the cell that is read (AHEAD) or written
 * (AHEAD_OUT).  Lines to be written are prefetched because the next locked instruction would wait for them.  Where messages
 * and answers alternate, prefetches delay the lines that are needed.  So after an arrival the sender prefetches the present
 * line only, and the receiver prefetches only when asked for several packets. */
#define AHEAD 3
#define AHEAD_OUT 2
#define LOOK 8                  /* inboxes that one pure_poll or poll looks at */

static inline uint32_t cells_of(size_t total)
{
    return (uint32_t)((total + SHM_CELL_DATA - 1) / SHM_CELL_DATA);
}

/* ---- Sending -------------------------------------------------------------------------------------------------- */

static inline bool cells_free(shm_link_t *l, uint32_t n)
{
    if (MADI_LIKELY(l->sent_limit - l->sent >= n))
        return true;
    l->sent_limit = atomic_load_explicit(&l->out->consumed, memory_order_acquire) + SHM_CELLS; /* pairs with tell */
    return l->sent_limit - l->sent >= n;
}

bool shm_space(shm_link_t *l)
{
    return cells_free(l, SHM_CELLS_MAX) && shm_run_fits(l, SHM_CHUNK);
}

static inline void publish(shm_link_t *l, shm_cell_t *cell, uint64_t head, uint32_t cells)
{
    atomic_store_explicit(&cell->head, head, memory_order_release); /* pairs with one_packet */
    l->sent += cells;
    shm_bell_order(l);
    if (MADI_UNLIKELY(atomic_load_explicit(&l->peer_bell->asleep, memory_order_relaxed)))
        shm_bell_ring(l);
}

static madi_sent_t stuck(shm_link_t *l)
{
    shm_bell_stuck(l);
    return MADI_AGAIN;
}

/* Copy into shared memory.  Into distant lines, long copies of the C library's kind are faster than ours. */
static void put(void *to, const void *from, size_t len)
{
    if (len > PUT_LONG)
        madi_copy_bulk(to, from, len);
    else
        madi_copy(to, from, len);
}

/* Write the body's last block in pieces, so that the receiver copies one out while the next is copied in.  The cell and the
 * bytes before the block are published already.  Used where messages and answers alternate.  In a stream it would delay both
 * sides, since the receiver is busy with the message before, or waits. */
static void send_pieces(shm_link_t *l, unsigned char *to, const struct iovec *block)
{
    const char *from = block->iov_base;
    size_t piece = block->iov_len / PIECES & ~(size_t)(MADI_LINE - 1);
    piece = piece < PIECE_MIN ? PIECE_MIN : piece > PIECE_MAX ? PIECE_MAX : piece;
    for (size_t done = 0, n; done < block->iov_len; done += n) {
        n = block->iov_len - done < piece ? block->iov_len - done : piece;
        madi_copy_bulk(to + done, from + done, n);
        l->filled += n;
        atomic_store_explicit(&l->out->filled, l->filled, memory_order_release); /* pairs with shm_here */
    }
    shm_bell_order(l);
    if (MADI_UNLIKELY(atomic_load_explicit(&l->peer_bell->asleep, memory_order_relaxed)))
        shm_bell_ring(l);
}

/* Publish a cell before the last block of its body is written; before: bytes of the body in front of that block. */
static void publish_begun(shm_link_t *l, shm_cell_t *cell, uint32_t at, size_t before)
{
    uint64_t begun = l->filled + 1;
    memcpy(shm_out(cell->data + sizeof(madi_wire_hdr_t)), &begun, sizeof begun);
    l->filled += before;
    atomic_store_explicit(&l->out->filled, l->filled, memory_order_release); /* pairs with shm_here */
    publish(l, cell, HEAD(l->sent, (at + 1) | BEGUN), 1);
}

static madi_sent_t send_run(shm_link_t *l, const struct iovec *vec, int n, size_t len, bool may_begin)
{
    shm_cell_t *cell = &l->out->cells[l->sent & MASK];
    size_t first = vec[0].iov_len - sizeof(madi_wire_hdr_t);
    uint32_t at = shm_run_take(l, len);
    int begun = may_begin && n > 1 && vec[n - 1].iov_len >= BEGUN_MIN;
    unsigned char *to;

    if (MADI_UNLIKELY(at == SHM_RUN_NONE))
        return stuck(l);
    to = shm_out(l->out->units[at]);
    memcpy(shm_out(cell->data), vec[0].iov_base, sizeof(madi_wire_hdr_t));
    madi_copy(to, (const char *)vec[0].iov_base + sizeof(madi_wire_hdr_t), first);
    to += first;
    for (int i = 1; i < n - begun; to += vec[i++].iov_len)
        put(to, vec[i].iov_base, vec[i].iov_len);
    if (begun) {
        publish_begun(l, cell, at, len - vec[n - 1].iov_len);
        send_pieces(l, to, &vec[n - 1]);
    } else {
        publish(l, cell, HEAD(l->sent, at + 1), 1);
    }
    return MADI_SENT;
}

/* Send a packet in cells.  The first cell is written last: a waiting receiver looks at that one. */
static madi_sent_t send_cells(shm_link_t *l, const unsigned char *packet, size_t total)
{
    uint32_t cells = cells_of(total);
    shm_cell_t *first = &l->out->cells[l->sent & MASK];
    if (MADI_UNLIKELY(!cells_free(l, cells)))
        return stuck(l);
    for (uint32_t i = 1; i + 1 < cells; i++)
        memcpy(shm_out(l->out->cells[(l->sent + i) & MASK].data), packet + i * SHM_CELL_DATA, SHM_CELL_DATA);
    if (cells > 1)
        madi_copy(shm_out(l->out->cells[(l->sent + cells - 1) & MASK].data), packet + (cells - 1) * SHM_CELL_DATA,
                  total - (cells - 1) * SHM_CELL_DATA);
    madi_copy(shm_out(first->data), packet, total < SHM_CELL_DATA ? total : SHM_CELL_DATA);
    publish(l, first, HEAD(l->sent, 0), cells);
    return MADI_SENT;
}

/* A message has left (came: has come).  What is about messages, as their grants and credits, is none. */
static inline void note_turn(shm_link_t *l, unsigned type, bool came)
{
    if (type == MADI_WIRE_MSG)
        atomic_store_explicit(&l->ahead, came ? 0 : AHEAD_OUT * sizeof(shm_cell_t), memory_order_relaxed);
}

bool shm_answers(madi_link_t *link)
{
    return !atomic_load_explicit(&((shm_link_t *)link)->ahead, memory_order_relaxed);
}

static madi_sent_t send_packet(shm_link_t *l, const struct iovec *vec, int n, size_t total, const madi_op_t *op)
{
    unsigned char packet[SHM_CELLS_MAX * SHM_CELL_DATA], *to = packet;
    if (total > sizeof packet && !cells_free(l, 1))
        return stuck(l);
    if (total > sizeof packet)
        return send_run(l, vec, n, total - sizeof(madi_wire_hdr_t), !op && shm_answers(&l->base));
    if (n == 1)
        return send_cells(l, vec[0].iov_base, total);
    for (int i = 0; i < n; to += vec[i++].iov_len)
        madi_copy(to, vec[i].iov_base, vec[i].iov_len);
    return send_cells(l, packet, total);
}

madi_sent_t shm_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    shm_link_t *l = (shm_link_t *)link;
    unsigned type = ((const madi_wire_hdr_t *)vec[0].iov_base)->type;
    madi_sent_t sent;
    l->reach = op && op->of >= SHM_LONG ? SHM_LONG_UNITS : SHM_UNITS;
    sent = send_packet(l, vec, n, total, op);
    if (sent != MADI_AGAIN)
        note_turn(l, type, false);
    return sent;
}

static __attribute__((noinline)) bool short_stuck(shm_link_t *l)
{
    shm_bell_stuck(l);
    return false;
}

/* Ring if the peer sleeps, when it may. */
static __attribute__((noinline)) bool short_ring(shm_link_t *l)
{
    shm_bell_order(l);
    if (atomic_load_explicit(&l->peer_bell->asleep, memory_order_relaxed))
        shm_bell_ring(l);
    return true;
}

bool shm_send_short(madi_link_t *link, const void *packet, size_t total)
{
    shm_link_t *l = (shm_link_t *)link;
    uint32_t sent = l->sent;
    shm_cell_t *cell = &l->cells[sent & MASK];
    (void)total;
    MADI_ONE_REGISTER(cell);
    if (MADI_UNLIKELY(sent == l->sent_limit) && !cells_free(l, 1))
        return short_stuck(l);
    madi_fetch_to_write((char *)cell + atomic_load_explicit(&l->ahead, memory_order_relaxed));
    atomic_store_explicit(&l->ahead, AHEAD_OUT * sizeof *cell, memory_order_relaxed);
    memcpy(shm_out(cell->data), packet, SHM_CELL_DATA);
    atomic_store_explicit(&cell->head, HEAD(sent, 0), memory_order_release); /* pairs with shm_take, one_packet */
    l->sent = sent + 1;
    atomic_signal_fence(memory_order_seq_cst); /* the sleeper's membarrier is the fence of both sides */
    return MADI_LIKELY(!atomic_load_explicit(l->attentive, memory_order_relaxed)) || short_ring(l);
}

/* ---- A body without its header -------------------------------------------------------------------------------- */

static uint32_t unit_of(const shm_half_t *half, const volatile void *body)
{
    return (uint32_t)((size_t)((const volatile madi_foreign_byte_t *)body - half->units[0]) / SHM_UNIT);
}

void *shm_prepare(madi_link_t *link, const void *body, size_t len)
{
    shm_link_t *l = (shm_link_t *)link;
    uint32_t at = shm_run_take(l, len);
    if (at == SHM_RUN_NONE)
        return NULL;
    put(shm_out(l->out->units[at]), body, len);
    return shm_out(l->out->units[at]);
}

bool shm_send_prepared(madi_link_t *link, const madi_wire_hdr_t *hdr, void *prepared)
{
    shm_link_t *l = (shm_link_t *)link;
    shm_cell_t *cell = &l->out->cells[l->sent & MASK];
    if (!cells_free(l, 1))
        return short_stuck(l);
    memcpy(shm_out(cell->data), hdr, sizeof *hdr);
    publish(l, cell, HEAD(l->sent, unit_of(l->out, prepared) + 1), 1);
    return true;
}

void shm_forget(madi_link_t *link, void *prepared)
{
    shm_link_t *l = (shm_link_t *)link;
    shm_run_drop(l, unit_of(l->out, prepared));
}

/* ---- Receiving ------------------------------------------------------------------------------------------------ */

void shm_slot_put(madi_link_t *link, madi_foreign_t loan)
{
    shm_link_t *l = (shm_link_t *)link;
    shm_run_free(l, unit_of(l->in, madi_foreign_pass_on(loan)));
}

/* Store the number of consumed cells for the sender, and wrap at the ring's end. */
static __attribute__((noinline)) void tell(shm_link_t *l, shm_inbox_t *inbox, uint32_t number)
{
    atomic_store_explicit(&inbox->more, 0, memory_order_relaxed);
    atomic_store_explicit(&inbox->next, &l->in->cells[number & MASK], memory_order_relaxed);
    atomic_store_explicit(&l->in->consumed, number, memory_order_release); /* pairs with cells_free */
    shm_bell_space(l);
}

/* Count a cell that was read; number: the low half of its head.  True: tell is due. */
static inline bool step(shm_link_t *l, shm_inbox_t *inbox, shm_cell_t *cell, uint32_t number)
{
    l->received = number;
    atomic_store_explicit(&inbox->next, cell + 1, memory_order_relaxed);
    atomic_store_explicit(&inbox->number, number + 1, memory_order_relaxed);
    return MADI_UNLIKELY(number % TELL == 0);
}

static inline void consume(shm_link_t *l, shm_inbox_t *inbox, shm_cell_t *cell, uint32_t number)
{
    if (step(l, inbox, cell, number))
        tell(l, inbox, number);
}

/* Count several cells that were read. */
static void consume_cells(shm_link_t *l, uint32_t cells)
{
    shm_inbox_t *inbox = l->inbox;
    uint32_t before = l->received, number = before + cells;
    l->received = number;
    atomic_store_explicit(&inbox->next, &l->in->cells[number & MASK], memory_order_relaxed);
    atomic_store_explicit(&inbox->number, number + 1, memory_order_relaxed);
    if (before / TELL != number / TELL)
        tell(l, inbox, number);
    atomic_store_explicit(&inbox->more, cells - 1, memory_order_relaxed);
}

/* The header in a packet's first cell. */
static inline void copy_header(void *hdr, const shm_cell_t *cell)
{
    madi_foreign_copy(hdr, madi_foreign_of(cell->data), sizeof(madi_wire_hdr_t));
}

/* Out of all the cells of a packet. */
static void copy_cells(const shm_link_t *l, const shm_cell_t *first, unsigned char *to, size_t len)
{
    size_t part = len < MADI_SHORT_MAX ? len : MADI_SHORT_MAX;
    madi_foreign_copy_any(to, madi_foreign_of(first->data + sizeof(madi_wire_hdr_t)), part);
    for (uint32_t i = 1; (to += part, len -= part); i++) {
        part = len < SHM_CELL_DATA ? len : SHM_CELL_DATA;
        madi_foreign_copy_any(to, madi_foreign_of(l->in->cells[(l->received + i) & MASK].data), part);
    }
}

static bool cells_valid(const madi_wire_hdr_t *hdr)
{
    return hdr->length <= SHM_CELLS_MAX * SHM_CELL_DATA - sizeof *hdr;
}

static void cells_packet(shm_link_t *l, const shm_cell_t *first, const madi_wire_hdr_t *hdr)
{
    madi_rx_t rx = {0};
    uint32_t cells = cells_of(sizeof *hdr + hdr->length);
    madi_place_t place = madi_rx_begin(&l->base, hdr, &rx);
    if (MADI_UNLIKELY(!l->inbox)) /* that has closed the link */
        return;
    if (place == MADI_PLACE_COPY)
        copy_cells(l, first, rx.base, hdr->length);
    consume_cells(l, cells);
    if (place == MADI_PLACE_COPY)
        madi_rx_done(&l->base, hdr, &rx);
}

/* 1 + the count at which the body in this cell's run begins. */
static uint64_t cell_begun(const shm_cell_t *cell)
{
    return madi_foreign_read8(madi_foreign_of(cell->data + sizeof(madi_wire_hdr_t)));
}

uint64_t shm_here(madi_link_t *link, uint64_t begun)
{
    const shm_link_t *l = (const shm_link_t *)link;
    return atomic_load_explicit(&l->in->filled, memory_order_acquire) - (begun - 1); /* pairs with send_pieces */
}

void shm_keep_begun(madi_link_t *link)
{
    shm_link_t *l = (shm_link_t *)link;
    link->begun = 0;
    note_turn(l, MADI_WIRE_MSG, true);
    consume(l, l->inbox, &l->in->cells[l->received & MASK], l->received + 1);
}

/* True if all of the body in the cell's run is there; run: the upper half of the cell's head. */
static bool run_whole(shm_link_t *l, const shm_cell_t *cell, uint32_t run, uint32_t length)
{
    return !(run & BEGUN) || shm_here(&l->base, cell_begun(cell)) >= length;
}

static inline bool may_lend(const shm_link_t *l)
{
    uint32_t most = atomic_load_explicit(&l->in->window, memory_order_relaxed) / LEND;
    return atomic_load_explicit(&((shm_link_t *)l)->base.loans, memory_order_relaxed) < (most < LEND_MAX ? most : LEND_MAX);
}

static void run_packet(shm_link_t *l, const madi_wire_hdr_t *hdr, uint32_t unit)
{
    consume(l, l->inbox, &l->in->cells[l->received & MASK], l->received + 1);
    madi_rx_whole(&l->base, hdr, madi_foreign_of(l->in->units[unit]), may_lend(l));
}

/* True if the body lies within the units.  The peer can write the shared memory, so its numbers are checked. */
static bool run_valid(const madi_wire_hdr_t *hdr, uint32_t unit)
{
    return hdr->length <= SHM_CHUNK && unit < SHM_UNITS && hdr->length <= (SHM_UNITS - unit) * (size_t)SHM_UNIT;
}

static bool one_packet(shm_link_t *l)
{
    shm_cell_t *cell = &l->in->cells[l->received & MASK];
    uint64_t head = atomic_load_explicit(&cell->head, memory_order_acquire); /* pairs with publish */
    madi_wire_hdr_t hdr;
    uint32_t run = (uint32_t)(head >> 32);

    if ((uint32_t)head != l->received + 1)
        return false;
    copy_header(&hdr, cell);
    note_turn(l, hdr.type, true);
    if (!run && MADI_LIKELY(hdr.length <= MADI_SHORT_MAX)) {
        madi_rx_short(&l->base, &hdr, madi_foreign_of(cell->data + sizeof hdr));
        if (MADI_LIKELY(l->inbox != NULL)) /* else that has closed the link */
            consume(l, l->inbox, &l->in->cells[l->received & MASK], l->received + 1);
        return true;
    }
    if (!run && cells_valid(&hdr)) {
        cells_packet(l, cell, &hdr);
        return true;
    }
    if (run && !run_whole(l, cell, run, hdr.length))
        return false;
    run &= BEGUN - 1;
    if (MADI_UNLIKELY(!run || !run_valid(&hdr, run - 1))) {
        madi_link_down(&l->base, MAD_ERR_PROTOCOL, "the shared ring holds what no sender writes");
        return false;
    }
    for (uint32_t i = 0; i < hdr.length && i < FETCH; i += MADI_LINE)
        __builtin_prefetch((const void *)&l->in->units[run - 1][i]);
    run_packet(l, &hdr, run - 1);
    return true;
}

static inline bool ready(shm_inbox_t *inbox)
{
    shm_cell_t *cell = atomic_load_explicit(&inbox->next, memory_order_acquire); /* pairs with open */
    return (uint32_t)atomic_load_explicit(&cell->head, memory_order_relaxed) ==
           atomic_load_explicit(&inbox->number, memory_order_relaxed);
}

/* While the first cell is awaited: fetch the cells that follow it, if the next packet is like the last one.  Where the ring
 * ends this fetches lines of no use. */
static inline void fetch_more(shm_inbox_t *inbox)
{
    const shm_cell_t *cell = atomic_load_explicit(&inbox->next, memory_order_relaxed);
    for (uint32_t more = atomic_load_explicit(&inbox->more, memory_order_relaxed); MADI_UNLIKELY(more); more--)
        __builtin_prefetch((const void *)&cell[more]);
}

static inline int poll_link(shm_link_t *l, int budget)
{
    int n = 0;
    while (n < budget && one_packet(l)) {
        n++;
        if (MADI_UNLIKELY(atomic_load_explicit(&l->base.state, memory_order_relaxed) != MADI_LINK_UP))
            break;
    }
    return n;
}

/* A peer that has gone sends no more than was in the ring; one that says so and goes on is not listened to for ever. */
void shm_drain(shm_link_t *l)
{
    poll_link(l, SHM_CELLS);
}

/* With many peers one call polls the one that spoke last and a few others in turn. */
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

/* Its last block is being written.  The packet stays until the core keeps it. */
static madi_link_t *take_begun(shm_link_t *l, const shm_cell_t *cell, uint32_t unit, madi_foreign_t *loan)
{
    l->base.begun = l->base.outer ? 0 : cell_begun(cell);
    if (!l->base.begun)
        return NULL;
    *loan = madi_foreign_of(l->in->units[unit]);
    return &l->base;
}

/* The cell that is next has not come, or its body lies in a run.  Nothing is kept for it. */
static __attribute__((noinline)) madi_link_t *take_run(shm_inbox_t *inbox, void *packet, madi_foreign_t *loan)
{
    shm_cell_t *cell = atomic_load_explicit(&inbox->next, memory_order_relaxed);
    uint32_t number = atomic_load_explicit(&inbox->number, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&cell->head, memory_order_acquire); /* pairs with publish */
    uint32_t run = (uint32_t)(head >> 32), unit = (run & (BEGUN - 1)) - 1;
    const madi_wire_hdr_t *hdr = packet;
    shm_link_t *l = inbox->link;
    if ((uint32_t)head != number || unit >= SHM_UNITS || !may_lend(l))
        return NULL;
    copy_header(packet, cell);
    if (MADI_UNLIKELY(!run_valid(hdr, unit)))
        return NULL; /* poll says what is wrong */
    if (!run_whole(l, cell, run, hdr->length))
        return take_begun(l, cell, unit, loan);
    *loan = madi_foreign_of(l->in->units[unit]);
    for (uint32_t i = 0; i < hdr->length && i < FETCH; i += MADI_LINE)
        __builtin_prefetch((const void *)&l->in->units[unit][i]);
    note_turn(l, hdr->type, true);
    consume(l, inbox, cell, number);
    return &l->base;
}

static __attribute__((noinline)) madi_link_t *take_cells(shm_link_t *l, const shm_cell_t *cell, unsigned char *packet)
{
    const madi_wire_hdr_t *hdr = (const madi_wire_hdr_t *)packet;
    if (!cells_valid(hdr))
        return NULL; /* poll says what is wrong */
    copy_cells(l, cell, packet + sizeof *hdr, hdr->length);
    consume_cells(l, cells_of(sizeof *hdr + hdr->length));
    return &l->base;
}

static __attribute__((noinline)) madi_link_t *take_and_tell(shm_link_t *l)
{
    tell(l, l->inbox, l->received);
    return &l->base;
}

/* From the inbox where something was seen last.  What is rare is a call at its end, for which nothing is saved. */
madi_link_t *shm_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    shm_inbox_t *inbox = atomic_load_explicit(&a->hot, memory_order_relaxed);
    shm_link_t *l = inbox->link; /* there is one when the cell has come */
    shm_cell_t *cell = atomic_load_explicit(&inbox->next, memory_order_relaxed);
    uint32_t number = atomic_load_explicit(&inbox->number, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&cell->head, memory_order_acquire); /* pairs with publish */
    const madi_wire_hdr_t *hdr = packet;

    if (MADI_UNLIKELY(head != number)) /* which is HEAD(received, 0) */
        return take_run(inbox, packet, loan);
    atomic_store_explicit(&l->ahead, 0, memory_order_relaxed);
    madi_foreign_copy(packet, madi_foreign_of(cell->data), SHM_CELL_DATA);
    if (MADI_UNLIKELY(hdr->length > MADI_SHORT_MAX))
        return take_cells(l, cell, packet);
    return step(l, inbox, cell, number) ? take_and_tell(l) : &l->base;
}

int shm_take_short(madi_adapter_t *adapter, void *packets, size_t stride, int max, madi_link_t **link)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    shm_inbox_t *inbox = atomic_load_explicit(&a->hot, memory_order_relaxed);
    shm_link_t *l = inbox->link; /* there is one when a cell has come */
    shm_cell_t *cell = atomic_load_explicit(&inbox->next, memory_order_relaxed);
    uint32_t first = atomic_load_explicit(&inbox->number, memory_order_relaxed), number = first;
    unsigned char *packet = packets;

    for (; number != first + (uint32_t)max; number++, packet += stride) {
        uint64_t head = atomic_load_explicit(&cell->head, memory_order_acquire); /* pairs with publish */
        if (head != number) /* it has not come, or lies in a run */
            break;
        if (max > 1)
            __builtin_prefetch(cell + AHEAD);
        madi_foreign_copy(packet, madi_foreign_of(cell->data), SHM_CELL_DATA);
        if (MADI_UNLIKELY(((const madi_wire_hdr_t *)packet)->length > MADI_SHORT_MAX))
            break;
        cell++;
        if (MADI_UNLIKELY(number % TELL == 0)) {
            l->received = number;
            tell(l, inbox, number);
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

/* A look costs the same however many peers there are: at the one that spoke last and a few others in turn. */
bool shm_pure_poll(madi_adapter_t *adapter)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    int all = atomic_load_explicit(&a->n_inboxes, memory_order_acquire); /* pairs with inbox_new */
    shm_inbox_t **inboxes = atomic_load_explicit(&a->inboxes, memory_order_relaxed);
    shm_inbox_t *hot = atomic_load_explicit(&a->hot, memory_order_relaxed);
    int i;
    if (hot && ready(hot))
        return true;
    if (hot)
        fetch_more(hot);
    if (MADI_LIKELY(all <= 1))
        return false;
    i = atomic_load_explicit(&a->turn, memory_order_relaxed);
    for (int looks = 0; looks < LOOK && looks < all; looks++, i = i + 1 < all ? i + 1 : 0)
        if (ready(inboxes[i])) {
            atomic_store_explicit(&a->hot, inboxes[i], memory_order_relaxed);
            return true;
        }
    atomic_store_explicit(&a->turn, i, memory_order_relaxed);
    return false;
}

/* True if poll would find something: a body that is begun, whose sender may be stopped, keeps nobody awake. */
static bool ready_whole(shm_inbox_t *inbox)
{
    shm_link_t *l = inbox->link;
    const shm_cell_t *cell;
    madi_wire_hdr_t hdr;
    uint32_t run;
    if (!ready(inbox) || !l)
        return false;
    cell = &l->in->cells[l->received & MASK];
    run = (uint32_t)(atomic_load_explicit(&cell->head, memory_order_acquire) >> 32); /* pairs with publish */
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
