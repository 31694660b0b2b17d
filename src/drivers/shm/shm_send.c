/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of cells: send. */
#include "drivers/shm/shm_cell.h"

#include <sys/socket.h>

static inline bool cells_free(shm_link_t *l, uint32_t n)
{
    if (MADI_LIKELY(l->sent_limit - l->sent >= n))
        return true;
    l->sent_limit =
        atomic_load_explicit(&l->out->consumed, memory_order_acquire) + SHM_CELLS; /* pairs with consumed_publish */
    return l->sent_limit - l->sent >= n;
}

bool shm_space(shm_link_t *l)
{
    return cells_free(l, SHM_CELLS_MAX) && shm_run_fits(l, SHM_CHUNK);
}

static inline void cells_publish(shm_link_t *l, shm_cell_t *cell, uint64_t head, uint32_t cells)
{
    atomic_store_explicit(&cell->head, head, memory_order_release); /* pairs with shm_receive_packet */
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

/* Handle a body that has no run.  Without memory for it, it would wait for ever: the end of the socket then ends the link. */
static madi_sent_t run_missing(shm_link_t *l, size_t len)
{
    if (shm_run_never_fits(l, len) && !atomic_exchange_explicit(&l->no_memory, true, memory_order_relaxed))
        shutdown(l->fd, SHUT_RDWR);
    return stuck(l);
}

static const madi_put_t *put_of(const shm_link_t *l)
{
    return ((const shm_adapter_t *)l->base.adapter)->put;
}

/* Fetch the lines of a short body, all at the same time.  Otherwise stores, which are made in order, would wait for one line
 * after the other.  Call this before the first store to a line that the peer's poll reads: the poll fetches that line back
 * while the sender waits for others. */
static inline void lines_fetch(const shm_link_t *l, const unsigned char *body, size_t len)
{
    size_t end = len < put_of(l)->long_min ? len : 0;
    for (size_t i = 0; i < end; i += MADI_LINE)
        madi_fetch_to_write(body + i);
}

/* True if len bytes of a packet with this op are copied by the loop. */
static bool uses_loop(const shm_link_t *l, const madi_op_t *op, size_t len)
{
    return op && op->shareable ? op->of < MADI_SHM_PUT_PIECES : len >= MADI_SHM_PUT_BULK && l->base.direct;
}

/* Copy bytes into shared memory.  loop: by the loop, which is the quicker way between near cores. */
static void shm_copy(const shm_link_t *l, void *to, const void *from, size_t len, bool loop)
{
    if (len < put_of(l)->long_min)
        madi_copy(to, from, len);
    else if (loop)
        madi_copy_bulk(to, from, len);
    else
        madi_copy_across(to, from, len);
}

/* Write the body's last block in pieces, so that the receiver copies one piece out while the next one is copied in.
 * The cell and the bytes before the block are already published.  Used if messages and answers alternate.  In a stream
 * of messages it would delay both sides, since the receiver is still busy with the previous message, or waits for the
 * sender. */
static void send_pieces(shm_link_t *l, unsigned char *to, const struct iovec *block)
{
    const char *from = block->iov_base;
    size_t piece = madi_put_piece(put_of(l), block->iov_len);
    for (size_t done = 0, n; done < block->iov_len; done += n) {
        n = block->iov_len - done < piece ? block->iov_len - done : piece;
        shm_copy(l, to + done, from + done, n, uses_loop(l, NULL, block->iov_len));
        l->filled += n;
        atomic_store_explicit(&l->out->filled, l->filled, memory_order_release); /* pairs with shm_here */
    }
    shm_bell_order(l);
    if (MADI_UNLIKELY(atomic_load_explicit(&l->peer_bell->asleep, memory_order_relaxed)))
        shm_bell_ring(l);
}

/* Publish a cell before the last block of its body is written.  before: bytes of the body that precede that block. */
static void publish_begun(shm_link_t *l, shm_cell_t *cell, uint32_t at, size_t before)
{
    uint64_t begun = l->filled + 1;
    memcpy(shm_out(cell->data + sizeof(madi_wire_hdr_t)), &begun, sizeof begun);
    l->filled += before;
    atomic_store_explicit(&l->out->filled, l->filled, memory_order_release); /* pairs with shm_here */
    cells_publish(l, cell, SHM_HEAD(l->sent, (at + 1) | SHM_BEGUN), 1);
}

bool shm_answers(madi_link_t *link)
{
    return !atomic_load_explicit(&((shm_link_t *)link)->ahead, memory_order_relaxed);
}

bool shm_returned(madi_link_t *link)
{
    const shm_link_t *l = (const shm_link_t *)link;
    return shm_run_is_back(l, l->last);
}

/* Send a packet whose body gets a run.  Not inlined, since send_gathered's space on the stack would cost time here. */
static __attribute__((noinline)) madi_sent_t send_run(shm_link_t *l, const struct iovec *vec, int n, size_t len,
                                                      const madi_op_t *op)
{
    shm_cell_t *cell = &l->cells[l->sent & SHM_MASK];
    size_t first = vec[0].iov_len - sizeof(madi_wire_hdr_t);
    int begun = vec[n - 1].iov_len >= put_of(l)->begun_min && n > 1 && !op && shm_answers(&l->base);
    unsigned char *to;
    uint32_t at;

    if (!cells_free(l, 1))
        return stuck(l);
    at = shm_run_take(l, len);
    if (MADI_UNLIKELY(at == SHM_RUN_NONE))
        return run_missing(l, len);
    to = shm_out(l->out->units[at]);
    lines_fetch(l, to, len);
    memcpy(shm_out(cell->data), vec[0].iov_base, sizeof(madi_wire_hdr_t));
    madi_copy(to, (const char *)vec[0].iov_base + sizeof(madi_wire_hdr_t), first);
    to += first;
    for (int i = 1; i < n - begun; to += vec[i++].iov_len)
        shm_copy(l, to, vec[i].iov_base, vec[i].iov_len, uses_loop(l, op, vec[i].iov_len));
    if (begun) {
        publish_begun(l, cell, at, len - vec[n - 1].iov_len);
        send_pieces(l, to, &vec[n - 1]);
    } else {
        cells_publish(l, cell, SHM_HEAD(l->sent, at + 1), 1);
    }
    return MADI_SENT;
}

/* Send a packet in cells.  The first cell is written last, because a waiting receiver checks that one. */
static madi_sent_t send_cells(shm_link_t *l, const unsigned char *packet, size_t total)
{
    uint32_t cells = shm_cells_of(total);
    shm_cell_t *first = &l->out->cells[l->sent & SHM_MASK];
    if (MADI_UNLIKELY(!cells_free(l, cells)))
        return stuck(l);
    for (uint32_t i = 0; i < cells && shm_answers(&l->base); i++) /* in a stream these lines are not awaited */
        madi_fetch_to_write(&l->out->cells[(l->sent + i) & SHM_MASK]);
    for (uint32_t i = 1; i + 1 < cells; i++)
        memcpy(shm_out(l->out->cells[(l->sent + i) & SHM_MASK].data), packet + i * SHM_CELL_DATA, SHM_CELL_DATA);
    if (cells > 1)
        madi_copy(shm_out(l->out->cells[(l->sent + cells - 1) & SHM_MASK].data), packet + (cells - 1) * SHM_CELL_DATA,
                  total - (cells - 1) * SHM_CELL_DATA);
    madi_copy(shm_out(first->data), packet, total < SHM_CELL_DATA ? total : SHM_CELL_DATA);
    cells_publish(l, first, SHM_HEAD(l->sent, 0), cells);
    return MADI_SENT;
}

size_t shm_packet_room(madi_link_t *link, size_t want)
{
    return sizeof(madi_wire_hdr_t) + (shm_answers(link) ? shm_run_max((shm_link_t *)link, want) : SHM_CHUNK);
}

/* Send a packet of several blocks in cells. */
static __attribute__((noinline)) madi_sent_t send_gathered(shm_link_t *l, const struct iovec *vec, int n, size_t total)
{
    unsigned char packet[SHM_CELLS_MAX * SHM_CELL_DATA], *to = packet;
    for (int i = 0; i < n; to += vec[i++].iov_len)
        madi_copy(to, vec[i].iov_base, vec[i].iov_len);
    return send_cells(l, packet, total);
}

/* True if a packet's body gets a run: it is too long for cells, or several cells would be needed and few are free.  A packet
 * with a run takes one cell. */
static bool takes_run(shm_link_t *l, size_t total)
{
    return total > SHM_CELLS_MAX * SHM_CELL_DATA ||
           (total > SHM_CELL_DATA && !cells_free(l, SHM_CELLS / 2) && shm_run_is_free(l, total - sizeof(madi_wire_hdr_t)));
}

madi_sent_t shm_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    shm_link_t *l = (shm_link_t *)link;
    unsigned type = ((const madi_wire_hdr_t *)vec[0].iov_base)->type;
    madi_sent_t sent;
    l->reach = op && op->of >= SHM_LONG ? SHM_LONG_UNITS : SHM_UNITS;
    if (takes_run(l, total))
        sent = send_run(l, vec, n, total - sizeof(madi_wire_hdr_t), op);
    else if (n == 1)
        sent = send_cells(l, vec[0].iov_base, total);
    else
        sent = send_gathered(l, vec, n, total);
    if (sent != MADI_AGAIN)
        shm_note_turn(l, type, false);
    return sent;
}

static __attribute__((noinline)) bool short_stuck(shm_link_t *l)
{
    shm_bell_stuck(l);
    return false;
}

/* Wake the peer if its flag says that it sleeps.  Called if the peer may sleep. */
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
    shm_cell_t *cell = &l->cells[sent & SHM_MASK];
    (void)total;
    MADI_ONE_REGISTER(cell);
    if (MADI_UNLIKELY(sent == l->sent_limit) && !cells_free(l, 1))
        return short_stuck(l);
    madi_fetch_to_write((char *)cell + atomic_load_explicit(&l->ahead, memory_order_relaxed));
    atomic_store_explicit(&l->ahead, SHM_AHEAD_OUT * sizeof *cell, memory_order_relaxed);
    memcpy(shm_out(cell->data), packet, SHM_CELL_DATA);
    atomic_store_explicit(&cell->head, SHM_HEAD(sent, 0),
                          memory_order_release); /* pairs with shm_take, shm_receive_packet */
    l->sent = sent + 1;
    /* a fence for the compiler only, since the sleeper's membarrier acts as the fence of both sides */
    atomic_signal_fence(memory_order_seq_cst);
    return MADI_LIKELY(!atomic_load_explicit(l->attentive, memory_order_relaxed)) || short_ring(l);
}

/* ---- A body without its header -------------------------------------------------------------------------------- */

void *shm_prepare(madi_link_t *link, const void *body, size_t len)
{
    shm_link_t *l = (shm_link_t *)link;
    uint32_t at = shm_run_take(l, len);
    if (at == SHM_RUN_NONE)
        return NULL;
    shm_copy(l, shm_out(l->out->units[at]), body, len, l->base.direct);
    return shm_out(l->out->units[at]);
}

bool shm_send_prepared(madi_link_t *link, const madi_wire_hdr_t *hdr, void *prepared)
{
    shm_link_t *l = (shm_link_t *)link;
    shm_cell_t *cell = &l->out->cells[l->sent & SHM_MASK];
    if (!cells_free(l, 1))
        return short_stuck(l);
    memcpy(shm_out(cell->data), hdr, sizeof *hdr);
    cells_publish(l, cell, SHM_HEAD(l->sent, shm_unit_of(l->out, prepared) + 1), 1);
    return true;
}

void shm_forget(madi_link_t *link, void *prepared)
{
    shm_link_t *l = (shm_link_t *)link;
    shm_run_drop(l, shm_unit_of(l->out, prepared));
}
