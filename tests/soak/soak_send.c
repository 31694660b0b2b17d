/* SPDX-License-Identifier: BSD-3-Clause */
#include "soak.h"

#include <marcel.h>
#include <stdlib.h>
#include <string.h>

#define UNDER_WAY 8 /* number of messages of a thread whose buffers are still in use */
#define GAP 5       /* bytes between the pieces of a strided block */
#define SPOILT 0xee

/* A message in flight: its memory, and how the thread learns of its end. */
typedef struct slot {
    arena_t arena;
    mad_request_t *request;
    bool callback; /* the message has a callback, which posts `called` */
    marcel_sem_t called;
    ident_t id;
} slot_t;

static void called(void *arg, mad_status_t status)
{
    slot_t *slot = arg;
    good(status, "a sending request", &slot->id);
    marcel_sem_post(&slot->called);
}

static void slot_wait(slot_t *slot)
{
    if (slot->request)
        good(mad_request_wait(&slot->request, MAD_FOREVER), "a sending request", &slot->id);
    while (slot->callback) /* this thread does not call the library, whose progress thread completes the message */
        slot->callback = marcel_sem_wait(&slot->called) != 0;
}

/* Give the slot a request, which may complete from now on. */
static void slot_request(slot_t *slot, mad_request_t *request, bool callback)
{
    if (!callback) {
        slot->request = request;
        return;
    }
    slot->callback = true;
    mad_request_detach(request, called, slot);
}

/* Return the memory from which the block is packed: the table itself for CHEAPER blocks, the slot for all others.  The bytes
 * of LATER blocks are wrong until the end of packing. */
static const unsigned char *source_of(slot_t *slot, const block_t *b)
{
    unsigned char *p;
    if (b->smode == MAD_SEND_CHEAPER && b->pack != FORM_STRIDED)
        return table_at(b->from);
    if (b->pack == FORM_STRIDED) {
        size_t piece = b->len / PIECES;
        p = arena_take(&slot->arena, b->len + PIECES * GAP);
        for (size_t i = 0; i < PIECES; i++)
            memcpy(p + i * (piece + GAP), table_at(b->from + i * piece), piece);
        return p;
    }
    p = arena_take(&slot->arena, b->len);
    if (b->smode == MAD_SEND_LATER)
        memset(p, SPOILT, b->len);
    else
        memcpy(p, table_at(b->from), b->len);
    return p;
}

static mad_status_t pack_block(mad_message_t *message, const block_t *b, const unsigned char *p)
{
    size_t third = b->len / PIECES;
    if (b->pack == FORM_PIECES) {
        struct iovec pieces[PIECES] = {{(void *)(uintptr_t)p, third},
                                       {(void *)(uintptr_t)(p + third), 0},
                                       {(void *)(uintptr_t)(p + third), b->len - third}};
        return mad_pack_gather(message, pieces, PIECES, b->smode, b->rmode);
    }
    if (b->pack == FORM_STRIDED)
        return mad_pack_strided(message, p, third, third + GAP, PIECES, b->smode, b->rmode);
    return mad_pack(message, b->len ? p : NULL, b->len, b->smode, b->rmode);
}

static void send_packed(slot_t *slot, const shape_t *shape, mad_channel_t *channel)
{
    const unsigned char *later[BLOCKS_MAX] = {NULL};
    mad_message_t *message = mad_begin_packing(channel, slot->id.dest);
    mad_request_t *request;
    ident_t id = slot->id;
    mad_pack(message, &id, sizeof id, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    memset(&id, SPOILT, sizeof id);
    for (int i = 1; i < shape->n; i++) {
        const block_t *b = &shape->blocks[i];
        const unsigned char *p = source_of(slot, b);
        good(pack_block(message, b, p), "mad_pack", &slot->id);
        if (b->smode == MAD_SEND_LATER && b->pack != FORM_STRIDED)
            later[i] = p;
        else if (b->smode == MAD_SEND_SAFER)
            memset((void *)(uintptr_t)p, SPOILT, b->len);
        if (b->flush)
            mad_message_flush(message);
    }
    for (int i = 1; i < shape->n; i++)
        if (later[i])
            memcpy((void *)(uintptr_t)later[i], table_at(shape->blocks[i].from), shape->blocks[i].len);
    if (shape->send == SEND_WAITS)
        good(mad_end_packing(message), "mad_end_packing", &slot->id);
    else if (good(mad_end_packing_request(message, &request), "mad_end_packing_request", &slot->id))
        slot_request(slot, request, shape->send == SEND_CALLBACK);
}

static void send_at_once(slot_t *slot, const shape_t *shape, mad_channel_t *channel)
{
    mad_block_t blocks[BLOCKS_MAX];
    mad_request_t *request = NULL;
    ident_t id = slot->id;
    blocks[0] = (mad_block_t){&id, sizeof id, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    for (int i = 1; i < shape->n; i++) {
        block_t b = shape->blocks[i];
        if (b.smode == MAD_SEND_LATER) /* the call sends the present value, so the bytes have to be right now */
            b.smode = MAD_SEND_SAFER;
        blocks[i] = (mad_block_t){(void *)(uintptr_t)source_of(slot, &b), b.len, shape->blocks[i].smode, b.rmode};
    }
    if (!good(mad_message_send(channel, slot->id.dest, blocks, shape->n, shape->send == SEND_BLOCKS ? NULL : &request),
              "mad_message_send", &slot->id))
        return;
    memset(&id, SPOILT, sizeof id);
    for (int i = 1; i < shape->n; i++)
        if (shape->blocks[i].smode != MAD_SEND_CHEAPER)
            memset(blocks[i].base, SPOILT, blocks[i].len);
    if (request)
        slot_request(slot, request, shape->send == SEND_BLOCKS_CALLBACK);
}

static void send_one(slot_t *slot, const ident_t *id)
{
    shape_t shape;
    slot_wait(slot);
    slot->id = *id;
    shape_make(&shape, id);
    arena_clear(&slot->arena, ROOM(&shape));
    if (shape.send < SEND_BLOCKS)
        send_packed(slot, &shape, channels[id->way]);
    else
        send_at_once(slot, &shape, channels[id->way]);
    atomic_fetch_add(&sums.sent, 1);
    atomic_fetch_add(&sums.bytes, shape.total);
}

void *send_thread(void *arg)
{
    static slot_t all[SENDERS_MAX][UNDER_WAY];
    int thread = (int)(intptr_t)arg, list[PROCS_MAX], n = peers(list);
    slot_t *slots = all[thread];
    unsigned at = 0;
    for (int i = 0; i < UNDER_WAY; i++)
        marcel_sem_init(&slots[i].called, 0, 0);
    for (uint64_t number = 0; number < each; number++)
        for (int way = 0; way < WAYS; way++)
            for (int p = 0; p < n; p++) {
                ident_t id = ident_of(rank, list[p], thread, (enum way)way, number);
                if (way != WAY_POSTED || thread == 0)
                    send_one(&slots[at++ % UNDER_WAY], &id);
            }
    for (int i = 0; i < UNDER_WAY; i++) {
        slot_wait(&slots[i]);
        marcel_sem_destroy(&slots[i].called);
        free(slots[i].arena.bytes);
    }
    return NULL;
}
