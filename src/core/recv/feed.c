/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that were unpacked before they arrived. */
#include "core/driver.h"
#include "core/object/message.h"
#include "core/object/rx.h"
#include "core/recv/receive.h"
#include "core/recv/rx_block.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

void madi_rx_feed(madi_rx_msg_t *m)
{
    marceli_waiter_t *waiter = m->waiter;
    while (m->blocks && madi_block_next(m)) {
        madi_rx_block_t *b = m->blocks;
        m->blocks = b->next;
        if (!m->blocks)
            m->blocks_tail = &m->blocks;
        madi_block_take(m, b->pieces, b->n, b->desc, NULL);
        free(b);
    }
    while (m->blocks && madi_block_none(m)) {
        madi_rx_block_t *b = m->blocks;
        madi_block_mismatch(m, MADI_WIRE_DESC_NONE, b->desc);
        m->blocks = b->next;
        free(b);
    }
    if (!m->blocks)
        m->blocks_tail = &m->blocks;
    if (m->ended)
        madi_rx_finish(m);
    if (waiter)
        marceli_waiter_wake(waiter);
}

mad_status_t madi_block_wait(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t desc)
{
    madi_rx_block_t *b = malloc(sizeof *b + (size_t)n * sizeof *pieces);
    if (!b) {
        madi_message_fail(&m->base, MAD_ERR_NOMEM);
        return MAD_ERR_NOMEM;
    }
    b->next = NULL;
    b->pieces = (struct iovec *)(b + 1);
    memcpy(b->pieces, pieces, (size_t)n * sizeof *pieces);
    b->n = n;
    b->desc = desc;
    *m->blocks_tail = b;
    m->blocks_tail = &b->next;
    return MAD_OK;
}
