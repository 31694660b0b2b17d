/* SPDX-License-Identifier: BSD-3-Clause */
/* Send window of an endpoint: the fragments that the other endpoint has not acknowledged, in the order of their
 * numbers, to be sent again if the path fails.  Short packets are copied into a ring of bytes; long ones are copied
 * into separate memory and sent from there.  Pieces of granted blocks stay in the program's memory.  The program gets
 * that memory back when the pieces are acknowledged and no driver reads them any more.
 *
 * The ring consists of records without gaps; a record of size 0 means that the next one is at the beginning of the
 * ring.  The ring grows up to what MAD_FORWARD_WINDOW allows, and is freed when it was empty for a while. */
#include "gateway/gateway.h"
#include "base/knob.h"

#include <stdlib.h>

#define LEAST ((size_t)4096)
/* bytes: a window with less holds only grants, credits and short messages, some of which are always pending */
#define CALM 4096
#define ASKS 4 /* acknowledgements requested per window */

typedef struct kept {
    uint32_t size; /* bytes of the record; 0: continue at the beginning of the ring */
    uint32_t len;  /* bytes of the fragment's payload */
    gw_held_t *held;
    uint8_t kind;
    _Alignas(16) unsigned char bytes[];
} kept_t;

static uint32_t record_size(size_t len)
{
    return (uint32_t)((sizeof(kept_t) + len + 15) & ~(size_t)15);
}

static kept_t *record_at(const gw_window_t *w, uint64_t position)
{
    return (kept_t *)(void *)(w->ring + (position & (w->cap - 1)));
}

/* Return the position of the next record, skipping a record that only points to the beginning of the ring. */
static uint64_t record_position(const gw_window_t *w, uint64_t position)
{
    if (position != w->tail && !record_at(w, position)->size)
        position += w->cap - (position & (w->cap - 1));
    return position;
}

/* Return the position at which a record of this size would begin: the tail, or the beginning of the ring. */
static uint64_t record_begin(const gw_window_t *w, uint32_t size)
{
    uint64_t left = w->cap - (w->tail & (w->cap - 1));
    return left < size ? w->tail + left : w->tail;
}

static bool record_fits(const gw_window_t *w, uint32_t size)
{
    return w->cap && record_begin(w, size) + size - w->head <= w->cap;
}

/* Enlarge the ring.  Acknowledgements may arrive meanwhile, so only the ring and its positions are written, and no other
 * field of the window. */
static bool ring_grow(gw_window_t *w, uint32_t size)
{
    uint64_t cap = w->cap ? w->cap * 2 : LEAST, tail = 0;
    unsigned char *ring;
    while (cap < 2 * size)
        cap *= 2;
    ring = aligned_alloc(16, cap);
    if (!ring)
        return false;
    for (uint64_t p = record_position(w, w->head); p != w->tail; p = record_position(w, p + record_at(w, p)->size)) {
        memcpy(ring + tail, record_at(w, p), record_at(w, p)->size);
        tail += record_at(w, p)->size;
    }
    free(w->ring);
    w->ring = ring;
    w->cap = cap;
    w->head = 0;
    w->tail = tail;
    return true;
}

static kept_t *record_append(gw_window_t *w, uint8_t kind, size_t len, size_t here)
{
    uint32_t size = record_size(here);
    uint64_t begin = record_begin(w, size);
    kept_t *k;
    if (begin != w->tail)
        record_at(w, w->tail)->size = 0;
    k = record_at(w, begin);
    *k = (kept_t){.size = size, .len = (uint32_t)len, .kind = kind};
    w->tail = begin + size;
    w->bytes += len;
    return k;
}

static void record_drop_first(gw_window_t *w, const kept_t *k)
{
    w->bytes -= k->len;
    w->head = record_position(w, w->head + k->size);
    w->base++;
    if (w->head == w->tail)
        w->head = w->tail = 0; /* begin again with the lines that the cache has */
}

/* ---- Sending ---------------------------------------------------------------------------------------------------- */

/* Drop acknowledged copies from the front of the ring.  Entries that refer to the program's memory are dropped in
 * held_finish, where operations may be completed. */
static void copies_drop(gw_window_t *w)
{
    uint32_t ack = atomic_load_explicit(&w->ack, memory_order_relaxed);
    while (w->base != ack && w->head != w->tail && !record_at(w, w->head)->held)
        record_drop_first(w, record_at(w, w->head));
}

bool gw_window_room(gw_end_t *end, size_t len, bool copy)
{
    gw_window_t *w = &end->window;
    uint64_t limit = (uint64_t)madi_knob_int(MADI_KNOB_FORWARD_WINDOW);
    uint32_t size = record_size(copy ? len : 0);
    copies_drop(w);
    if (w->bytes + len > limit && w->head != w->tail) {
        atomic_store(&w->full, 1); /* `full` is set first: an acknowledgement finds it set, or precedes the check */
        copies_drop(w);
        if (w->bytes + len > limit)
            return false;
    }
    return record_fits(w, size) || ring_grow(w, size);
}

bool gw_window_wants_ack(gw_end_t *end, size_t len)
{
    gw_window_t *w = &end->window;
    w->unasked += len;
    if (w->unasked < (uint64_t)madi_knob_int(MADI_KNOB_FORWARD_WINDOW) / ASKS)
        return false;
    w->unasked = 0;
    return true;
}

void gw_window_keep(gw_end_t *end, unsigned kind, const struct iovec *vec, int n, size_t len)
{
    kept_t *k = record_append(&end->window, (uint8_t)kind, len, len);
    unsigned char *to = k->bytes;
    for (int i = 0; i < n; i++) {
        memcpy(to, vec[i].iov_base, vec[i].iov_len);
        to += vec[i].iov_len;
    }
    end->window.next++;
    gw_alive_watch(end->gw);
}

void gw_window_hold(gw_end_t *end, gw_held_t *held, size_t len)
{
    record_append(&end->window, MADI_FORWARD_PACKET, len, 0)->held = held;
    atomic_fetch_add(&end->window.held, 1);
    end->window.next++;
    gw_alive_watch(end->gw);
}

/* ---- Acknowledgements ------------------------------------------------------------------------------------------- */

/* Return memory to the program when no driver reads it here any more, and the other endpoint has received it or never
 * will. */
static void held_finish(gw_held_t *held)
{
    madi_op_t *user = held->user;
    gw_end_t *end = held->end;
    mad_status_t status = held->status;
    if (!held->over || held->out)
        return;
    free(held);
    end->n_held--;
    if (end->dead)
        gw_later(end->gw);
    if (user) /* NULL for a copy */
        user->done(user, status);
}

void gw_held_left(gw_held_t *held)
{
    held->out--;
    held_finish(held);
}

static void held_end(gw_held_t *held, mad_status_t status)
{
    held->over = true;
    held->status = status;
    held_finish(held);
}

/* Remove acknowledged fragments.  Return a list of the removed fragments that refer to the program's memory. */
static gw_held_t *held_take(gw_window_t *w)
{
    uint32_t ack = atomic_load_explicit(&w->ack, memory_order_relaxed);
    gw_held_t *list = NULL, **tail = &list;
    while (w->base != ack && w->head != w->tail) {
        kept_t *k = record_at(w, w->head);
        if (k->held) {
            *tail = k->held;
            tail = &k->held->next;
            *tail = NULL;
            atomic_fetch_sub(&w->held, 1);
        }
        record_drop_first(w, k);
    }
    return list;
}

bool gw_window_ack_arrived(gw_end_t *end, uint32_t ack)
{
    gw_window_t *w = &end->window;
    uint32_t before = atomic_load_explicit(&w->ack, memory_order_relaxed);
    gw_held_t *list, *held;
    int full;
    if (ack == before)
        return true;
    if ((int32_t)(ack - before) < 0)
        return false;
    atomic_store(&w->ack, ack); /* stored before full and held are read; a sender sets those before it sends fragments */
    if (!atomic_load(&w->full) && !atomic_load(&w->held))
        return true;
    gw_end_lock(end);
    if ((int32_t)(ack - w->next) > 0) {
        gw_end_unlock(end);
        return false;
    }
    list = held_take(w);
    full = atomic_exchange(&w->full, 0);
    gw_end_unlock(end);
    while ((held = list)) {
        list = held->next;
        held_end(held, MAD_OK);
    }
    if (full && end->link)
        madi_link_writable(end->link);
    return true;
}

void gw_window_settle(gw_end_t *end, uint32_t ack)
{
    gw_window_t *w = &end->window;
    gw_end_lock(end);
    copies_drop(w);
    if ((int32_t)(ack - w->base) >= 0 && (int32_t)(w->next - ack) >= 0)
        atomic_store(&w->ack, ack);
    gw_end_unlock(end);
}

bool gw_window_calm(gw_end_t *end)
{
    const gw_window_t *w = &end->window;
    copies_drop(&end->window);
    return w->bytes <= CALM || atomic_load_explicit(&w->ack, memory_order_relaxed) == w->next;
}

bool gw_window_empty(gw_end_t *end)
{
    bool empty;
    gw_end_lock(end);
    copies_drop(&end->window);
    empty = end->window.head == end->window.tail;
    gw_end_unlock(end);
    return empty;
}

/* ---- Sending again, and giving up ------------------------------------------------------------------------------- */

int gw_window_resend(gw_end_t *end)
{
    gw_window_t *w = &end->window;
    uint32_t seq;
    int n = 0;
    copies_drop(w);
    seq = w->base;
    for (uint64_t p = record_position(w, w->head); p != w->tail; p = record_position(w, p + record_at(w, p)->size), n++) {
        const kept_t *k = record_at(w, p);
        uint32_t body = (uint32_t)(sizeof(madi_wire_forward_t) + gw_protected_len(end, k->kind, k->len));
        gw_frag_t *frag = k->held ? gw_held_frag(k->held) : gw_frag_new(end->gw, body);
        struct iovec vec = {(void *)k->bytes, k->len};
        if (!frag)
            return -1;
        gw_end_header(end, frag, k->kind, seq++, k->len,
                      /* with the last fragment request an acknowledgement, for which the program may wait */
                      record_position(w, p + k->size) == w->tail);
        if (k->held ? !gw_held_fill(k->held, frag) : !gw_protect(end, frag, &vec, k->len ? 1 : 0, k->len))
            return -1; /* the caller then gives up the stream, with everything in its window */
        gw_side_put(end->side, frag);
    }
    return n;
}

void gw_window_drop(gw_end_t *end, mad_status_t status)
{
    gw_window_t *w = &end->window;
    gw_held_t *list, *held;
    atomic_store(&w->ack, w->next);
    gw_end_lock(end);
    list = held_take(w);
    free(w->ring);
    w->ring = NULL;
    w->cap = 0;
    w->head = w->tail = 0;
    gw_end_unlock(end);
    while ((held = list)) {
        list = held->next;
        held_end(held, status);
    }
}

bool gw_window_drains(gw_end_t *end)
{
    gw_window_t *w = &end->window;
    bool empty, asks;
    gw_end_lock(end);
    copies_drop(w);
    empty = w->head == w->tail;
    /* fragments sent again already request an acknowledgement */
    asks = !empty && !end->resuming && end->drain_asked != w->next;
    if (asks)
        end->drain_asked = w->next;
    gw_end_unlock(end);
    if (asks)
        gw_end_ack(end, true);
    return empty;
}

void gw_window_rest(gw_end_t *end)
{
    gw_window_t *w = &end->window;
    gw_end_lock(end);
    if (w->head == w->tail && w->cap > LEAST) {
        free(w->ring);
        w->ring = NULL;
        w->cap = 0;
    }
    gw_end_unlock(end);
}
