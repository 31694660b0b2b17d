/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: the receive buffers of a link, which are lent.
 *
 *            0        head          tail            room
 *   rx_buf   | lent   | not parsed  | free          |        one of buffer[]
 *
 * A message that lies completely in rx_buf is lent to the core, and copied from there directly into the program's memory.
 * If a part of rx_buf is still lent at the next read, another buffer replaces it.  One is always available, because the
 * last buffer without loans is never lent.  So a link has at most MADI_TCP_BUFFERS buffers, however many messages wait to
 * be opened; if all others are lent, the core copies.
 *
 * All functions but madi_tcp_slot_put are called under the session's lock. */
#include "drivers/tcp/tcp.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static char *buffer_data(madi_tcp_buffer_t *buffer)
{
    return atomic_load_explicit(&buffer->data, memory_order_relaxed);
}

static bool buffer_is_free(madi_tcp_buffer_t *buffer)
{
    return !atomic_load_explicit(&buffer->loans, memory_order_acquire); /* pairs with madi_tcp_slot_put */
}

/* Return a buffer that can replace rx_buf; NULL if there is no such buffer, or no memory. */
static madi_tcp_buffer_t *buffer_spare(madi_tcp_link_t *link)
{
    for (int i = 0; i < MADI_TCP_BUFFERS; i++) {
        madi_tcp_buffer_t *buffer = &link->buffer[i];
        if (buffer == link->current || !buffer_is_free(buffer))
            continue;
        if (!buffer_data(buffer)) /* data has room for a few more bytes, since a short body may be read beyond its end */
            atomic_store_explicit(&buffer->data, malloc(MADI_TCP_RX_SIZE + MADI_SHORT_MAX), memory_order_relaxed);
        return buffer_data(buffer) ? buffer : NULL;
    }
    return NULL;
}

bool madi_tcp_buffers_open(madi_tcp_link_t *link)
{
    madi_tcp_buffer_t *first = buffer_spare(link);
    if (!first)
        return false;
    link->current = first;
    link->rx_buf = buffer_data(first);
    return true;
}

void madi_tcp_buffers_free(madi_tcp_link_t *link)
{
    for (int i = 0; i < MADI_TCP_BUFFERS; i++) {
        free(buffer_data(&link->buffer[i]));
        atomic_store_explicit(&link->buffer[i].data, NULL, memory_order_relaxed);
    }
    link->current = NULL;
    link->rx_buf = NULL;
}

bool madi_tcp_lend(madi_tcp_link_t *link)
{
    if (link->pub.seal || !buffer_spare(link))
        return false;
    atomic_fetch_add_explicit(&link->current->loans, 1, memory_order_relaxed);
    link->lent = true;
    return true;
}

void madi_tcp_slot_put(madi_link_t *pub, madi_foreign_t loan)
{
    madi_tcp_link_t *link = (madi_tcp_link_t *)pub;
    for (int i = 0; i < MADI_TCP_BUFFERS; i++) {
        madi_tcp_buffer_t *buffer = &link->buffer[i];
        char *data = buffer_data(buffer);
        if (data && madi_foreign_between(madi_foreign_of(data), loan) < MADI_TCP_RX_SIZE) {
            atomic_fetch_sub_explicit(&buffer->loans, 1, memory_order_release); /* pairs with buffer_is_free */
            return;
        }
    }
}

void madi_tcp_compact(madi_tcp_link_t *link)
{
    size_t left = link->tail - link->head;
    char *from = link->rx_buf + link->head;
    if (MADI_UNLIKELY(!buffer_is_free(link->current))) {
        madi_tcp_buffer_t *other = buffer_spare(link);
        assert(other);
        link->current = other;
        link->rx_buf = buffer_data(other);
        memcpy(link->rx_buf, from, left);
    } else if (left && link->head) {
        memmove(link->rx_buf, from, left);
    }
    link->lent = false;
    link->head = 0;
    link->tail = left;
}
