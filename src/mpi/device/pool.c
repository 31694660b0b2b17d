/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools of operations and messages; numbers of operations. */
#include "inside.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 64 /* objects allocated at a time */
#define LINE 64  /* bytes of a cache line */

/* Objects allocated together; freed when the device closes. */
struct chunk {
    struct chunk *next;
    bool of_messages;
    _Alignas(LINE) union {
        op_t ops[CHUNK];
        mad_dev_message_t messages[CHUNK];
    } at;
};

static struct chunk *chunk_new(mad_dev_t *dev, bool of_messages)
{
    struct chunk *c = aligned_alloc(LINE, sizeof *c);
    if (!c)
        return NULL;
    memset(c, 0, sizeof *c);
    c->of_messages = of_messages;
    c->next = dev->chunks;
    dev->chunks = c;
    return c;
}

MAD_DEV_RARE bool dev_ops_more(mad_dev_t *dev)
{
    struct chunk *c = chunk_new(dev, false);
    for (int i = 0; c && i < CHUNK; i++)
        dev_op_free(dev, &c->at.ops[i]);
    return c;
}

MAD_DEV_RARE bool dev_messages_more(mad_dev_t *dev)
{
    struct chunk *c = chunk_new(dev, true);
    for (int i = 0; c && i < CHUNK; i++)
        dev_message_free_short(dev, &c->at.messages[i]);
    return c;
}

void dev_message_free(mad_dev_t *dev, mad_dev_message_t *u)
{
    if (u->bytes != u->inside)
        free(u->bytes);
    u->message = NULL;
    u->op = NULL;
    u->loading = u->dropped = false;
    u->item.status = MAD_OK;
    dev_message_free_short(dev, u);
}

void dev_pool_fini(mad_dev_t *dev)
{
    for (struct chunk *c = dev->chunks, *next; c; c = next) {
        next = c->next;
        for (int i = 0; i < CHUNK; i++) {
            mad_dev_message_t *u = &c->at.messages[i];
            if (!c->of_messages)
                free(c->at.ops[i].copy);
            else if (u->bytes != u->inside)
                free(u->bytes);
        }
        free(c);
    }
    free(dev->numbered);
}

/* ---- Numbers: the index in the table is the number modulo the table's size ------------------------------------------- */

static bool dev_numbers_grow(mad_dev_t *dev)
{
    uint32_t n = dev->n_numbered ? dev->n_numbered * 2 : 64;
    op_t **more = calloc(n, sizeof *more);
    if (!more)
        return false;
    for (uint32_t i = 0; i < dev->n_numbered; i++)
        if (dev->numbered[i])
            more[dev->numbered[i]->number % n] = dev->numbered[i];
    free(dev->numbered);
    dev->numbered = more;
    dev->n_numbered = n;
    return true;
}

bool dev_number_assign(mad_dev_t *dev, op_t *op)
{
    if (dev->used_numbers >= dev->n_numbered / 2 && !dev_numbers_grow(dev))
        return false;
    do
        dev->last_number++;
    while (!dev->last_number || dev->numbered[dev->last_number % dev->n_numbered]);
    op->number = dev->last_number;
    dev->numbered[op->number % dev->n_numbered] = op;
    dev->used_numbers++;
    return true;
}

op_t *dev_number_find(mad_dev_t *dev, uint64_t number)
{
    op_t *op = dev->n_numbered ? dev->numbered[number % dev->n_numbered] : NULL;
    return op && op->number == number ? op : NULL;
}

void dev_number_release(mad_dev_t *dev, op_t *op)
{
    flow_t *f = op->remote ? dev_flow_find(dev, op->peer) : NULL;
    dev->numbered[op->number % dev->n_numbered] = NULL;
    dev->used_numbers--;
    op->number = 0;
    if (f)
        f->accesses--; /* counted by op_of_access */
}
