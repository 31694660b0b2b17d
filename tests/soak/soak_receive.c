/* SPDX-License-Identifier: BSD-3-Clause */
#include "soak.h"

#include <marcel.h>
#include <stdlib.h>
#include <string.h>

#define POSTED 4 /* number of receives that are posted for one source at a time */
#define GAP 7

static expect_t expected[WAYS][PROCS_MAX][SENDERS_MAX];
static marcel_mutex_t expected_lock = MARCEL_MUTEX_INITIALIZER; /* for channels with several receiving threads */
static _Atomic(uint64_t) taken[WAYS];

/* A message that is being received. */
typedef struct taking {
    mad_message_t *message;
    ident_t id;
    shape_t shape;
    arena_t arena;
    unsigned char *at[BLOCKS_MAX];
    int next; /* index of the first block that is not unpacked yet */
} taking_t;

static uint64_t due(enum way way)
{
    int list[PROCS_MAX];
    return each * (uint64_t)peers(list) * (way == WAY_POSTED ? 1 : (uint64_t)options.threads);
}

/* ---- One message ---------------------------------------------------------------------------------------------- */

static mad_status_t unpack_block(taking_t *t, const block_t *b, unsigned char *p, bool may_wait)
{
    size_t third = b->len / PIECES;
    if (!may_wait) {
        memset(p + b->len, 0xc3, 16); /* the whole block as one piece, whatever its form is */
        return mad_unpack_try(t->message, b->len ? p : NULL, b->len, b->smode, b->rmode);
    }
    if (b->unpack == FORM_PIECES) {
        struct iovec pieces[PIECES] = {{p, third}, {p + third, third}, {p + 2 * third, b->len - 2 * third}};
        return mad_unpack_scatter(t->message, pieces, PIECES, b->smode, b->rmode);
    }
    if (b->unpack == FORM_STRIDED)
        return mad_unpack_strided(t->message, p, third, third + GAP, PIECES, b->smode, b->rmode);
    return mad_unpack(t->message, b->len ? p : NULL, b->len, b->smode, b->rmode);
}

/* Move the pieces of a strided block together, so that the block is contiguous. */
static void gather(const block_t *b, unsigned char *p)
{
    size_t third = b->len / PIECES;
    for (size_t i = 1; i < PIECES; i++)
        memmove(p + i * third, p + i * (third + GAP), third);
    memset(p + b->len, 0xc3, 16);
}

static void check(taking_t *t, int i, bool strided)
{
    const block_t *b = &t->shape.blocks[i];
    if (strided && b->unpack == FORM_STRIDED)
        gather(b, t->at[i]);
    check_block(&t->id, b, i, t->at[i]);
}

/* Unpack the first block, which describes the message.  False if no sender thread can have sent this message. */
static bool take_ident(taking_t *t, mad_message_t *message, enum way way, bool may_wait)
{
    mad_status_t status;
    memset(&t->id, 0, sizeof t->id);
    t->message = message;
    t->next = 1;
    status = may_wait ? mad_unpack(message, &t->id, sizeof t->id, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS)
                      : mad_unpack_try(message, &t->id, sizeof t->id, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    if (!good(status, "the first block", &t->id))
        return false;
    if (!ident_valid(&t->id, way) || mad_message_peer(message) != t->id.source) {
        wrong(&sums.corrupted,
              "rank %d, channel %d: a message from %d that says magic %x, rank %d to %d, thread %d, number %llu", rank,
              (int)way, mad_message_peer(message), t->id.magic, t->id.source, t->id.dest, t->id.thread,
              (unsigned long long)t->id.number);
        return false;
    }
    shape_make(&t->shape, &t->id);
    arena_clear(&t->arena, ROOM(&t->shape));
    for (int i = 1; i < t->shape.n; i++) {
        const block_t *b = &t->shape.blocks[i];
        t->at[i] = arena_take(&t->arena, b->len + (b->unpack == FORM_STRIDED ? PIECES * GAP : 0));
    }
    return true;
}

/* Unpack the remaining blocks.  may_wait false: return MAD_ERR_AGAIN if a block has not arrived. */
static mad_status_t take_blocks(taking_t *t, bool may_wait)
{
    while (t->next < t->shape.n) {
        const block_t *b = &t->shape.blocks[t->next];
        mad_status_t status = unpack_block(t, b, t->at[t->next], may_wait);
        if (status == MAD_ERR_AGAIN)
            return status;
        if (!good(status, "mad_unpack", &t->id))
            return status;
        if (b->rmode == MAD_RECEIVE_EXPRESS)
            check(t, t->next, may_wait);
        t->next++;
    }
    return MAD_OK;
}

static void count(taking_t *t)
{
    bool several = t->id.way == WAY_POOL || t->id.way == WAY_HANDLER;
    if (several)
        marcel_mutex_lock(&expected_lock);
    arrived(&expected[t->id.way][t->id.source][t->id.thread], &t->id, several);
    if (several)
        marcel_mutex_unlock(&expected_lock);
}

static void end_taking(taking_t *t, bool may_wait)
{
    mad_request_t *request;
    mad_status_t status;
    if (!t->shape.end_request && may_wait) {
        status = mad_end_unpacking(t->message);
    } else {
        status = mad_end_unpacking_request(t->message, &request);
        for (int tries = 0; status == MAD_OK && request; tries++) {
            status = tries % 4 < 3 ? mad_request_test(&request) : mad_request_wait(&request, SECOND / 10000);
            if (status == MAD_ERR_AGAIN || status == MAD_ERR_TIMEOUT)
                status = MAD_OK;
        }
    }
    if (!good(status, "mad_end_unpacking", &t->id))
        return;
    for (int i = 1; i < t->shape.n; i++)
        if (t->shape.blocks[i].rmode == MAD_RECEIVE_CHEAPER)
            check(t, i, may_wait);
}

static void take_whole(taking_t *t, mad_message_t *message, enum way way)
{
    if (!take_ident(t, message, way, true)) {
        mad_end_unpacking(message);
        return;
    }
    count(t);
    if (take_blocks(t, true) == MAD_OK)
        end_taking(t, true);
    else
        mad_end_unpacking(message);
}

/* ---- Ways ----------------------------------------------------------------------------------------------------- */

static void receive_any(enum way way)
{
    taking_t t = {0};
    while (atomic_fetch_add(&taken[way], 1) < due(way))
        take_whole(&t, mad_begin_unpacking(channels[way]), way);
    free(t.arena.bytes);
}

void *any_thread(void *arg)
{
    receive_any(WAY_ANY);
    return arg;
}

void *pool_thread(void *arg)
{
    receive_any(WAY_POOL);
    return arg;
}

void *from_thread(void *arg)
{
    int list[PROCS_MAX], n = peers(list);
    uint64_t left[PROCS_MAX], all = due(WAY_FROM);
    taking_t t = {0};
    for (int p = 0; p < n; p++)
        left[p] = all / (uint64_t)n;
    while (all) {
        for (int p = 0; p < n; p++) {
            mad_message_t *message = NULL;
            mad_status_t status;
            if (!left[p])
                continue;
            /* with several sources, wait for a single one only briefly */
            status = mad_begin_unpacking_within(channels[WAY_FROM], list[p], n == 1 ? MAD_FOREVER : SECOND / 1000, &message);
            if (status == MAD_ERR_TIMEOUT)
                continue;
            left[p]--;
            all--;
            if (good(status, "mad_begin_unpacking_within", &t.id))
                take_whole(&t, message, WAY_FROM);
        }
    }
    free(t.arena.bytes);
    return arg;
}

/* A thread that tries for long in vain naps: two threads that only yield to each other, hundreds of thousands of times a
 * second, keep a processor from all others for many seconds (Linux 6.18: doc/rationale.md, madlab). */
#define IDLE_MOST 100
#define IDLE_US 50

static void try_one(taking_t *t)
{
    mad_message_t *message = NULL;
    mad_status_t status;
    int idle = 0;
    /* wait a little now and then: a thread that only polls takes a core from the others */
    while ((status = mad_begin_unpacking_within(channels[WAY_TRY], MAD_ANY_SOURCE, 0, &message)) == MAD_ERR_AGAIN) {
        status = mad_begin_unpacking_within(channels[WAY_TRY], MAD_ANY_SOURCE, SECOND / 5000, &message);
        if (status != MAD_ERR_TIMEOUT)
            break;
    }
    if (!good(status, "a try to begin", &t->id))
        return;
    if (!take_ident(t, message, WAY_TRY, false)) {
        mad_end_unpacking(message);
        return;
    }
    count(t);
    while ((status = take_blocks(t, false)) == MAD_ERR_AGAIN)
        if (mad_progress(session))
            idle = 0;
        else if (++idle < IDLE_MOST)
            marcel_yield();
        else
            marcel_usleep(IDLE_US);
    if (status == MAD_OK)
        end_taking(t, false);
    else
        mad_end_unpacking(message);
}

void *try_thread(void *arg)
{
    taking_t t = {0};
    for (uint64_t n = due(WAY_TRY); n; n--)
        try_one(&t);
    free(t.arena.bytes);
    return arg;
}

/* ---- Posted --------------------------------------------------------------------------------------------------- */

typedef struct line {
    taking_t takings[POSTED];
    mad_request_t *requests[POSTED];
    uint64_t posted, done;
} line_t;

static void post(line_t *line, int source)
{
    taking_t *t = &line->takings[line->posted % POSTED];
    mad_block_t blocks[BLOCKS_MAX];
    ident_t id = ident_of(source, rank, 0, WAY_POSTED, line->posted);
    shape_make(&t->shape, &id);
    arena_clear(&t->arena, ROOM(&t->shape));
    blocks[0] = (mad_block_t){&t->id, sizeof t->id, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    for (int i = 1; i < t->shape.n; i++) {
        const block_t *b = &t->shape.blocks[i];
        t->at[i] = arena_take(&t->arena, b->len);
        blocks[i] = (mad_block_t){t->at[i], b->len, b->smode, b->rmode};
    }
    good(mad_message_receive(channels[WAY_POSTED], source, blocks, t->shape.n, &line->requests[line->posted % POSTED]),
         "mad_message_receive", &id);
    line->posted++;
}

/* Handle completed receives of the line, in order. */
static void posted_done(line_t *line)
{
    unsigned slot = (unsigned)(line->done % POSTED);
    taking_t *t = &line->takings[slot];
    line->done++;
    if (!good(mad_request_wait(&line->requests[slot], MAD_FOREVER), "a posted receive", &t->id))
        return;
    if (!ident_valid(&t->id, WAY_POSTED)) {
        wrong(&sums.corrupted, "rank %d: a posted receive that says magic %x, number %llu", rank, t->id.magic,
              (unsigned long long)t->id.number);
        return;
    }
    count(t);
    for (int i = 1; i < t->shape.n; i++)
        check(t, i, false);
}

void *posted_thread(void *arg)
{
    static line_t lines[PROCS_MAX];
    int list[PROCS_MAX], n = peers(list);
    for (uint64_t left = due(WAY_POSTED); left;) {
        for (int p = 0; p < n; p++) {
            line_t *line = &lines[p];
            while (line->posted < each && line->posted < line->done + POSTED)
                post(line, list[p]);
            if (line->done < line->posted) {
                posted_done(line);
                left--;
            }
        }
    }
    for (int p = 0; p < n; p++)
        for (int i = 0; i < POSTED; i++)
            free(lines[p].takings[i].arena.bytes);
    return arg;
}

/* ---- The handler: consumes what is there, parks the rest for a thread -------------------------------------------- */

typedef struct parked {
    struct parked *next;
    taking_t t;
} parked_t;

static parked_t *parked, **parked_tail = &parked;
static marcel_mutex_t parked_lock = MARCEL_MUTEX_INITIALIZER;
static marcel_cond_t parked_more = MARCEL_COND_INITIALIZER;

static mad_handled_t on_message(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    parked_t *p = calloc(1, sizeof *p);
    bool whole;
    (void)channel;
    (void)arg;
    whole = !p || !take_ident(&p->t, message, WAY_HANDLER, false);
    if (!whole) {
        bool express = true;
        count(&p->t);
        for (int i = 1; i < p->t.shape.n; i++)
            express = express && p->t.shape.blocks[i].rmode == MAD_RECEIVE_EXPRESS;
        whole = express && !p->t.shape.park && take_blocks(&p->t, false) == MAD_OK;
    }
    marcel_mutex_lock(&parked_lock);
    if (whole) {
        atomic_fetch_add(&taken[WAY_HANDLER], 1);
        if (p)
            free(p->t.arena.bytes);
        free(p);
    } else {
        *parked_tail = p;
        parked_tail = &p->next;
    }
    marcel_cond_signal(&parked_more);
    marcel_mutex_unlock(&parked_lock);
    return whole ? MAD_CONSUMED : MAD_PARKED;
}

void handler_install(void)
{
    good(mad_channel_handler_set(channels[WAY_HANDLER], on_message, NULL), "mad_channel_handler_set", NULL);
}

void *handler_thread(void *arg)
{
    marcel_mutex_lock(&parked_lock);
    while (atomic_load(&taken[WAY_HANDLER]) < due(WAY_HANDLER)) {
        parked_t *p = parked;
        if (!p) {
            marcel_cond_wait(&parked_more, &parked_lock);
            continue;
        }
        parked = p->next;
        if (!parked)
            parked_tail = &parked;
        marcel_mutex_unlock(&parked_lock);
        if (take_blocks(&p->t, true) == MAD_OK)
            end_taking(&p->t, true);
        else
            mad_end_unpacking(p->t.message);
        free(p->t.arena.bytes);
        free(p);
        marcel_mutex_lock(&parked_lock);
        atomic_fetch_add(&taken[WAY_HANDLER], 1);
    }
    marcel_mutex_unlock(&parked_lock);
    return arg;
}

void receive_sum(void)
{
    int list[PROCS_MAX], n = peers(list);
    for (int way = 0; way < WAYS; way++)
        for (int p = 0; p < n; p++)
            for (int thread = 0; thread < (way == WAY_POSTED ? 1 : options.threads); thread++) {
                uint64_t lost = never(&expected[way][list[p]][thread], each);
                if (lost)
                    wrong(&sums.lost, "rank %d, channel %d: %llu messages of rank %d, thread %d never came", rank, way,
                          (unsigned long long)lost, list[p], thread);
            }
}
