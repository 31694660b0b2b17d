/* SPDX-License-Identifier: BSD-3-Clause */
/* The rings: send, poll, and sleeping. */
#include "drivers/shm/shm.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HEAD(number, bytes, block) ((uint64_t)(uint32_t)((number) + 1) | (uint64_t)(bytes) << 32 | (uint64_t)(block) << 48)
static_assert(SHM_CELL_DATA - sizeof(madi_wire_hdr_t) == MADI_SHORT_MAX, "a short packet fills one cell");
#define MASK (SHM_CELLS - 1)
#define TELL (SHM_CELLS / 4) /* consumed cells are told in steps of so many */

/* ---- Sending -------------------------------------------------------------------------------------------------- */

static inline bool cells_free(shm_link_t *l, uint32_t n)
{
    if (MADI_LIKELY((int32_t)(l->sent_limit - (l->sent + n)) >= 0))
        return true;
    l->sent_limit = atomic_load_explicit(&l->out->consumed, memory_order_acquire) + SHM_CELLS; /* pairs with tell */
    return (int32_t)(l->sent_limit - (l->sent + n)) >= 0;
}

static void wake_peer(shm_link_t *l)
{
    uint64_t one = 1;
    ssize_t n;
    do
        n = write(l->peer_fd, &one, sizeof one);
    while (n < 0 && errno == EINTR);
}

static inline void publish(shm_link_t *l, shm_cell_t *cell, uint64_t head)
{
    atomic_store_explicit(&cell->head, head, memory_order_release); /* pairs with shm_poll */
    if (MADI_UNLIKELY(atomic_load_explicit(&l->out->fence, memory_order_relaxed)))
        atomic_thread_fence(memory_order_seq_cst);
    if (MADI_UNLIKELY(atomic_load_explicit(&l->out->sleeping, memory_order_relaxed)))
        wake_peer(l);
}

/* Copy a gathered packet into cells of 56 bytes. */
static void fill_cells(shm_link_t *l, const struct iovec *vec, int n)
{
    uint32_t number = l->sent;
    shm_cell_t *cell = &l->out->cells[number & MASK];
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        const unsigned char *p = vec[i].iov_base;
        size_t left = vec[i].iov_len;
        while (left) {
            size_t m = SHM_CELL_DATA - used < left ? SHM_CELL_DATA - used : left;
            if (MADI_LIKELY(m == SHM_CELL_DATA))
                memcpy(cell->data, p, SHM_CELL_DATA);
            else
                madi_copy(cell->data + used, p, m);
            p += m;
            left -= m;
            used += m;
            if (used == SHM_CELL_DATA && (left || i + 1 < n)) {
                cell = &l->out->cells[++number & MASK];
                atomic_store_explicit(&cell->head, 0, memory_order_relaxed);
                used = 0;
            }
        }
    }
}

/* Is the run that begins at this block given back?  Then its blocks are free. */
static bool run_reclaim(shm_link_t *l, uint32_t start)
{
    if (atomic_load_explicit(&l->out->freed[start], memory_order_acquire) != l->used[start]) /* pairs with run_free */
        return false;
    memset(&l->back[start], 0, l->length[start]);
    return true;
}

/* The next n free blocks in turn; runs that are lent to the receiver's user for long are passed over.  -1: none. */
static int run_take(shm_link_t *l, uint32_t n)
{
    uint32_t at = l->next_block, passed = 0;
    while (passed <= SHM_BLOCKS) {
        uint32_t i, start = 0;
        if (at + n > SHM_BLOCKS) {
            passed += SHM_BLOCKS - at;
            at = 0;
        }
        for (i = 0; i < n; i++) {
            start = at + i + 1 - l->back[at + i];
            if (l->back[at + i] && !run_reclaim(l, start))
                break;
        }
        if (i == n)
            return (int)at;
        passed += start + l->length[start] - at;
        at = start + l->length[start];
    }
    return -1;
}

static void run_mark(shm_link_t *l, uint32_t at, uint32_t n)
{
    l->used[at]++;
    l->length[at] = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++)
        l->back[at + i] = (uint8_t)(i + 1);
    l->next_block = at + n;
}

static madi_sent_t send_run(shm_link_t *l, const struct iovec *vec, int n, size_t total)
{
    shm_cell_t *cell = &l->out->cells[l->sent & MASK];
    size_t first = vec[0].iov_len - sizeof(madi_wire_hdr_t);
    uint32_t blocks = (uint32_t)((total - sizeof(madi_wire_hdr_t) + SHM_BLOCK - 1) / SHM_BLOCK);
    int at = cells_free(l, 1) ? run_take(l, blocks) : -1;
    unsigned char *to;

    if (at < 0)
        return MADI_AGAIN;
    to = l->out->blocks[at];
    memcpy(cell->data, vec[0].iov_base, sizeof(madi_wire_hdr_t));
    memcpy(to, (const char *)vec[0].iov_base + sizeof(madi_wire_hdr_t), first);
    to += first;
    for (int i = 1; i < n; to += vec[i++].iov_len)
        memcpy(to, vec[i].iov_base, vec[i].iov_len);
    run_mark(l, (uint32_t)at, blocks);
    publish(l, cell, HEAD(l->sent, sizeof(madi_wire_hdr_t), at + 1));
    l->sent++;
    return MADI_SENT;
}

madi_sent_t shm_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    shm_link_t *l = (shm_link_t *)link;
    uint32_t cells;
    shm_cell_t *cell;
    (void)op;

    if (MADI_LIKELY(total <= SHM_CELL_DATA && n == 1)) {
        if (MADI_UNLIKELY(!cells_free(l, 1)))
            return MADI_AGAIN;
        cell = &l->out->cells[l->sent & MASK];
        madi_copy(cell->data, vec[0].iov_base, total);
        publish(l, cell, HEAD(l->sent, total, 0));
        l->sent++;
        return MADI_SENT;
    }
    cells = (uint32_t)((total + SHM_CELL_DATA - 1) / SHM_CELL_DATA);
    if (cells > SHM_CELLS_MAX)
        return send_run(l, vec, n, total);
    if (!cells_free(l, cells))
        return MADI_AGAIN;
    cell = &l->out->cells[l->sent & MASK];
    fill_cells(l, vec, n);
    publish(l, cell, HEAD(l->sent, total, 0));
    l->sent += cells;
    for (uint32_t i = 1; i < cells; i++) /* the next packet of this length finds its lines here */
        __builtin_prefetch(&l->out->cells[(l->sent + i) & MASK], 1);
    return MADI_SENT;
}

/* ---- Receiving ------------------------------------------------------------------------------------------------ */

static void run_free(shm_link_t *l, uint32_t block)
{
    uint8_t times = atomic_load_explicit(&l->in->freed[block], memory_order_relaxed); /* nobody else has this run */
    atomic_store_explicit(&l->in->freed[block], (uint8_t)(times + 1), memory_order_release); /* pairs with run_reclaim */
}

void shm_slot_put(madi_link_t *link, void *loan)
{
    shm_link_t *l = (shm_link_t *)link;
    run_free(l, (uint32_t)((size_t)((unsigned char *)loan - l->in->blocks[0]) / SHM_BLOCK));
}

static void copy_cells(shm_link_t *l, unsigned char *to, size_t len, const shm_cell_t *cell)
{
    uint32_t number = l->received;
    size_t m = SHM_CELL_DATA - sizeof(madi_wire_hdr_t);
    if (len < m)
        m = len;
    madi_copy(to, cell->data + sizeof(madi_wire_hdr_t), m);
    for (to += m, len -= m; len >= SHM_CELL_DATA; to += SHM_CELL_DATA, len -= SHM_CELL_DATA) {
        cell = &l->in->cells[++number & MASK];
        memcpy(to, cell->data, SHM_CELL_DATA);
    }
    if (len)
        madi_copy(to, l->in->cells[++number & MASK].data, len);
}

static inline void consume(shm_link_t *l, uint32_t cells)
{
    l->received += cells;
    if (MADI_UNLIKELY(l->received - l->told >= TELL)) {
        l->told = l->received;
        atomic_store_explicit(&l->in->consumed, l->received, memory_order_release); /* pairs with cells_free */
    }
}

/* What a peer writes is checked: the memory is shared with it. */
static bool head_valid(const madi_wire_hdr_t *hdr, size_t bytes, uint32_t block)
{
    if (block)
        return bytes == sizeof *hdr && hdr->length <= SHM_CHUNK &&
               (block - 1) * (size_t)SHM_BLOCK + hdr->length <= sizeof((shm_half_t *)0)->blocks;
    return bytes >= sizeof *hdr && hdr->length == bytes - sizeof *hdr && bytes <= SHM_CELLS_MAX * SHM_CELL_DATA;
}

static void run_packet(shm_link_t *l, const madi_wire_hdr_t *hdr, uint32_t block)
{
    madi_rx_t rx = {0};
    unsigned char *body = l->in->blocks[block];
    bool lend = atomic_load_explicit(&l->base.loans, memory_order_relaxed) < SHM_BLOCKS / SHM_RUN / 2;
    consume(l, 1);
    rx.loan = lend ? body : NULL;
    switch (madi_rx_begin(&l->base, hdr, &rx)) {
    case MADI_PLACE_KEEP: return;
    case MADI_PLACE_COPY:
        memcpy(rx.base, body, hdr->length);
        run_free(l, block);
        madi_rx_done(&l->base, hdr, &rx);
        return;
    case MADI_PLACE_DROP: run_free(l, block); return;
    }
}

static bool one_packet(shm_link_t *l)
{
    shm_cell_t *cell = &l->in->cells[l->received & MASK];
    uint64_t head = atomic_load_explicit(&cell->head, memory_order_acquire); /* pairs with publish */
    madi_wire_hdr_t hdr;
    madi_rx_t rx;
    size_t bytes = head >> 32 & 0xffff;
    uint32_t block = (uint32_t)(head >> 48);

    if ((uint32_t)head != l->received + 1)
        return false;
    memcpy(&hdr, cell->data, sizeof hdr);
    if (MADI_UNLIKELY(!head_valid(&hdr, bytes, block))) {
        madi_link_down(&l->base, MAD_ERR_PROTOCOL, "the shared ring holds what no sender writes");
        return false;
    }
    if (MADI_UNLIKELY(block)) {
        run_packet(l, &hdr, block - 1);
        return true;
    }
    if (MADI_LIKELY(bytes <= SHM_CELL_DATA)) {
        madi_rx_short(&l->base, &hdr, cell->data + sizeof hdr);
        consume(l, 1);
        return true;
    }
    rx.loan = NULL;
    if (MADI_LIKELY(madi_rx_begin(&l->base, &hdr, &rx) == MADI_PLACE_COPY)) {
        copy_cells(l, rx.base, hdr.length, cell);
        consume(l, (uint32_t)((bytes + SHM_CELL_DATA - 1) / SHM_CELL_DATA));
        madi_rx_done(&l->base, &hdr, &rx);
    } else {
        consume(l, (uint32_t)((bytes + SHM_CELL_DATA - 1) / SHM_CELL_DATA));
    }
    return true;
}

static inline bool ring_ready(const shm_link_t *l)
{
    return (uint32_t)atomic_load_explicit(&l->in->cells[l->received & MASK].head, memory_order_relaxed) ==
           l->received + 1;
}

int shm_poll(madi_adapter_t *adapter, int budget)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    shm_link_t **links = atomic_load_explicit(&a->links, memory_order_acquire);
    int n = 0;
    for (int i = 0; i < atomic_load_explicit(&a->n_links, memory_order_relaxed); i++) {
        shm_link_t *l = links[i];
        for (int k = 0; k < budget && l && one_packet(l); k++) {
            n++;
            if (MADI_UNLIKELY(atomic_load_explicit(&l->base.state, memory_order_relaxed) != MADI_LINK_UP))
                break;
        }
    }
    return n;
}

bool shm_pure_poll(madi_adapter_t *adapter)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    int n = atomic_load_explicit(&a->n_links, memory_order_acquire);
    shm_link_t **links = atomic_load_explicit(&a->links, memory_order_acquire);
    for (int i = 0; i < n; i++)
        if (links[i] && ring_ready(links[i]))
            return true;
    return false;
}

/* ---- Sleeping ------------------------------------------------------------------------------------------------- */

static void set_sleeping(shm_adapter_t *a, uint32_t on)
{
    shm_link_t **links = atomic_load_explicit(&a->links, memory_order_relaxed);
    for (int i = 0; i < atomic_load_explicit(&a->n_links, memory_order_relaxed); i++)
        if (links[i])
            atomic_store_explicit(&links[i]->in->sleeping, on, memory_order_relaxed);
}

/* Say that we sleep, have every sender's stores seen, and look again: a sender that stored before did not see the
 * flag, but we see its cell; one that stores after sees the flag. */
bool shm_arm(madi_adapter_t *adapter)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    if (!atomic_load_explicit(&a->n_links, memory_order_relaxed))
        return true;
    set_sleeping(a, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (!a->fence)
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    return !shm_pure_poll(adapter);
}

void shm_disarm(madi_adapter_t *adapter)
{
    set_sleeping((shm_adapter_t *)adapter, 0);
}
