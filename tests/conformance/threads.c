/* SPDX-License-Identifier: BSD-3-Clause */
/* Many threads: four send on three channels, and two receive. */
#include "conform.h"

#define SENDERS 4
#define RECEIVERS 2
#define BUSY 3
#define EACH 300 /* number of messages per thread and channel */

typedef struct work {
    env_t *e;
    int index;
    _Atomic(int) *left;
    _Atomic(unsigned char) *seen; /* by channel, sender and message: number of arrivals */
} work_t;

static size_t busy_len(uint32_t number)
{
    return number % 61 == 60 ? 70000 : number % 13 == 12 ? 5000 : number % 200;
}

static void *send_some(void *arg)
{
    work_t *w = arg;
    env_t *e = w->e;
    for (uint32_t i = 0; i < EACH; i++)
        for (int c = 0; c < BUSY; c++) {
            uint32_t id[3] = {(uint32_t)w->index, i, (uint32_t)c};
            size_t len = busy_len(i + (uint32_t)w->index);
            void *buf = get(len);
            fill(buf, len, i);
            if (i % 4 == 3) {
                mad_block_t blocks[2] = {{id, sizeof id, SAFER, EXPRESS}, {buf, len, CHEAPER, LAZY}};
                CHECK_OK(mad_message_send(e->ch[c], e->peer, blocks, 2, NULL));
            } else {
                mad_message_t *message = mad_begin_packing(e->ch[c], e->peer);
                mad_pack(message, id, sizeof id, SAFER, EXPRESS);
                mad_pack(message, buf, len, (mad_send_mode_t)(i % 3), LAZY);
                CHECK_OK(mad_end_packing(message));
            }
            free(buf);
        }
    return NULL;
}

static void busy_send(env_t *e)
{
    thread_t threads[SENDERS];
    work_t work[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        work[i] = (work_t){.e = e, .index = i};
        thread_start(&threads[i], send_some, &work[i]);
    }
    for (int i = 0; i < SENDERS; i++)
        thread_join(&threads[i]);
}

static void take_one(work_t *w, int c, mad_message_t *message)
{
    uint32_t id[3] = {~0u, ~0u, ~0u};
    mad_request_t *r = NULL;
    size_t len;
    void *buf;
    CHECK_OK(mad_unpack(message, id, sizeof id, SAFER, EXPRESS));
    if (!CHECK_MSG(id[0] < SENDERS && id[1] < EACH && id[2] == (uint32_t)c, "message %u %u %u on channel %d", id[0], id[1],
                   id[2], c)) {
        mad_end_unpacking(message);
        return;
    }
    len = busy_len(id[1] + id[0]);
    buf = get(len);
    CHECK_OK(mad_unpack(message, buf, len, id[1] % 4 == 3 ? CHEAPER : (mad_send_mode_t)(id[1] % 3), LAZY));
    if (id[1] % 5 == 4) {
        CHECK_OK(mad_end_unpacking_request(message, &r));
        CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
    } else {
        CHECK_OK(mad_end_unpacking(message));
    }
    HOLDS(buf, len, id[1]);
    free(buf);
    CHECK_EQ(atomic_fetch_add(&w->seen[(c * SENDERS + (int)id[0]) * EACH + (int)id[1]], 1), 0);
    (*w->left)--;
}

static void *receive_some(void *arg)
{
    work_t *w = arg;
    for (int c = w->index; *w->left > 0; c = (c + 1) % BUSY) {
        mad_message_t *message = NULL;
        mad_status_t status = mad_begin_unpacking_within(w->e->ch[c], MAD_ANY_SOURCE, c ? 0 : MS, &message);
        if (status == MAD_OK)
            take_one(w, c, message);
        else
            CHECK_STATUS(status, c ? MAD_ERR_AGAIN : MAD_ERR_TIMEOUT);
    }
    return NULL;
}

static void busy_receive(env_t *e)
{
    thread_t threads[RECEIVERS];
    work_t work[RECEIVERS];
    _Atomic(int) left = BUSY * SENDERS * EACH;
    _Atomic(unsigned char) *seen = get(BUSY * SENDERS * EACH);
    memset((void *)seen, 0, BUSY * SENDERS * EACH);
    for (int i = 0; i < RECEIVERS; i++) {
        work[i] = (work_t){.e = e, .index = i, .left = &left, .seen = seen};
        thread_start(&threads[i], receive_some, &work[i]);
    }
    for (int i = 0; i < RECEIVERS; i++)
        thread_join(&threads[i]);
    CHECK_EQ(left, 0);
    free((void *)seen);
}

/* Several threads wait at the same time, each for its own channel, and get their messages one after the other. */
static void *wait_own(void *arg)
{
    work_t *w = arg;
    for (uint32_t i = 0; i < 100; i++)
        receive_numbered(w->e, w->e->ch[w->index], i, i * 10);
    return NULL;
}

static void waiting_send(env_t *e)
{
    for (uint32_t i = 0; i < 100; i++)
        for (int c = CHANNELS - 1; c >= 0; c--)
            send_numbered(e, e->ch[c], i, i * 10);
}

static void waiting_receive(env_t *e)
{
    thread_t threads[CHANNELS];
    work_t work[CHANNELS];
    for (int i = 0; i < CHANNELS; i++) {
        work[i] = (work_t){.e = e, .index = i};
        thread_start(&threads[i], wait_own, &work[i]);
    }
    for (int i = 0; i < CHANNELS; i++)
        thread_join(&threads[i]);
}

const test_t thread_tests[] = {{.name = "threads_busy", .procs = 2, .send = busy_send, .receive = busy_receive},
                               {.name = "threads_waiting", .procs = 2, .send = waiting_send, .receive = waiting_receive},
                               {.name = NULL}};
