/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: puts, gets, changes of 8 bytes, notifications and errors.  The receiving role owns the block. */
#include "conform.h"

#include <madeleine/memory.h>

#define ALL (MAD_MEMORY_READ | MAD_MEMORY_WRITE | MAD_MEMORY_ATOMIC)
#define ROOM ((size_t)3 << 20)

static const size_t lens[] = {0, 1, 7, 8, 64, 127, 128, 129, 1000, 5000, 70000, (size_t)1 << 20, ((size_t)2 << 20) + 3};

static mad_memory_t *owned(env_t *e, void *base, size_t len, unsigned rights)
{
    mad_memory_t *memory = NULL;
    CHECK_OK(base ? mad_memory_register(e->session, base, len, rights, &memory)
                  : mad_memory_alloc(e->session, len, rights, &memory));
    return memory;
}

static void key_send(env_t *e, const mad_memory_t *memory)
{
    mad_memory_key_t key;
    mad_block_t block = {&key, sizeof key, SAFER, EXPRESS};
    mad_memory_key(memory, &key);
    CHECK_OK(mad_message_send(e->ch[e->me], e->peer, &block, 1, NULL));
}

static mad_memory_key_t key_receive(env_t *e)
{
    mad_memory_key_t key = {{0}};
    mad_block_t block = {&key, sizeof key, SAFER, EXPRESS};
    CHECK_OK(mad_message_receive(e->ch[!e->me], e->peer, &block, 1, NULL));
    return key;
}

/* ---- Bytes ------------------------------------------------------------------------------------------------------ */

typedef enum form { WAITING, BY_REQUEST, BY_FLUSH, FORMS } form_t;

static void ended(env_t *e, form_t form, mad_status_t status, mad_request_t *request)
{
    CHECK_OK(status);
    if (form == BY_REQUEST && request)
        CHECK_OK(mad_request_wait(&request, MAD_FOREVER));
    if (form == BY_FLUSH && request) {
        mad_request_detach(request, NULL, NULL);
        CHECK_OK(mad_memory_flush(e->session, e->peer, NULL));
    }
}

static void moves_send(env_t *e)
{
    mad_memory_key_t key = key_receive(e);
    unsigned char *from = get(ROOM), *to = get(ROOM);
    for (uint32_t i = 0; i < COUNT(lens) * FORMS; i++) {
        form_t form = i % FORMS;
        size_t len = lens[i / FORMS], offset = i * 13;
        mad_request_t *request = NULL, **r = form == WAITING ? NULL : &request;
        fill(from, len, i);
        mad_status_t status = mad_memory_put(e->session, e->peer, &key, offset, from, len, r);
        ended(e, form, status, request);
        request = NULL;
        status = mad_memory_get(e->session, e->peer, &key, offset, to, len, r);
        ended(e, form, status, request);
        HOLDS(to, len, i);
    }
    fill(from, ROOM, 77); /* the whole block */
    CHECK_OK(mad_memory_put(e->session, e->peer, &key, 0, from, ROOM, NULL));
    signal_peer(e);
    free(from);
    free(to);
}

static void moves_receive(env_t *e)
{
    unsigned char *base = get(ROOM);
    mad_memory_t *memory = owned(e, base, ROOM, ALL);
    CHECK(mad_memory_base(memory) == base);
    CHECK_EQ(mad_memory_len(memory), ROOM);
    key_send(e, memory);
    await_peer(e);
    CHECK_OK(mad_memory_unregister(memory, MAD_FOREVER));
    HOLDS(base, ROOM, 77);
    free(base);
}

/* Like moves_receive, but with memory of the library, which a process of this host may map. */
static void allocated_receive(env_t *e)
{
    mad_memory_t *memory = owned(e, NULL, ROOM, ALL);
    unsigned char *base = mad_memory_base(memory);
    for (size_t i = 0; i < ROOM; i += 4095)
        CHECK_EQ(base[i], 0);
    key_send(e, memory);
    await_peer(e);
    HOLDS(base, ROOM, 77);
    CHECK_OK(mad_memory_unregister(memory, MAD_FOREVER));
}

/* ---- Many operations at a time ---------------------------------------------------------------------------------- */

#define MANY 3000

static void window_send(env_t *e)
{
    mad_memory_key_t key = key_receive(e);
    static uint64_t numbers[MANY], back[MANY];
    mad_request_t *request;
    for (uint64_t i = 0; i < MANY; i++) {
        numbers[i] = i * i + 1;
        if (CHECK_OK(mad_memory_put(e->session, e->peer, &key, 8 * i, &numbers[i], 8, &request)))
            mad_request_detach(request, NULL, NULL);
    }
    CHECK_OK(mad_memory_flush(e->session, e->peer, &request));
    CHECK_OK(mad_request_wait(&request, MAD_FOREVER));
    for (uint64_t i = 0; i < MANY; i++)
        if (CHECK_OK(mad_memory_get(e->session, e->peer, &key, 8 * i, &back[i], 8, &request)))
            mad_request_detach(request, NULL, NULL);
    CHECK_OK(mad_memory_flush(e->session, e->peer, NULL));
    CHECK_MSG(!memcmp(numbers, back, sizeof back), "the numbers have changed");
    signal_peer(e);
}

static void window_receive(env_t *e)
{
    mad_memory_t *memory = owned(e, NULL, 8 * MANY, ALL);
    key_send(e, memory);
    await_peer(e);
    CHECK_OK(mad_memory_unregister(memory, MAD_FOREVER));
}

/* ---- 8 bytes ---------------------------------------------------------------------------------------------------- */

#define ADDS 500

static void words_send(env_t *e)
{
    mad_memory_key_t key = key_receive(e);
    uint64_t before = 1, last = 0;
    for (uint64_t i = 0; i < ADDS; i++) {
        CHECK_OK(mad_memory_fetch_add(e->session, e->peer, &key, 0, 1, &before, NULL));
        CHECK_MSG(!i || before > last, "the sum has not grown");
        last = before;
    }
    CHECK_OK(mad_memory_fetch_add(e->session, e->peer, &key, 8, UINT64_MAX, &before, NULL)); /* minus 1 */
    CHECK_EQ(before, 5);
    CHECK_OK(mad_memory_fetch_add(e->session, e->peer, &key, 8, 0, NULL, NULL));
    CHECK_OK(mad_memory_compare_swap(e->session, e->peer, &key, 8, 3, 9, &before, NULL));
    CHECK_EQ(before, 4);
    CHECK_OK(mad_memory_compare_swap(e->session, e->peer, &key, 8, 4, 9, &before, NULL));
    CHECK_EQ(before, 4);
    CHECK_OK(mad_memory_get(e->session, e->peer, &key, 8, &before, 8, NULL));
    CHECK_EQ(before, 9);
    signal_peer(e);
}

static void words_change(env_t *e, mad_memory_t *memory, _Atomic(uint64_t) *words)
{
    key_send(e, memory);
    for (int i = 0; i < ADDS; i++)
        atomic_fetch_add(&words[0], 1);
    await_peer(e);
    CHECK_EQ(atomic_load(&words[0]), 2 * ADDS);
    CHECK_OK(mad_memory_unregister(memory, MAD_FOREVER));
}

static void words_receive(env_t *e)
{
    _Atomic(uint64_t) words[2] = {0, 5};
    words_change(e, owned(e, words, sizeof words, ALL), words);
}

static void words_allocated_receive(env_t *e)
{
    mad_memory_t *memory = owned(e, NULL, 16, ALL);
    _Atomic(uint64_t) *words = mad_memory_base(memory);
    atomic_store(&words[1], 5);
    words_change(e, memory, words);
}

/* ---- Notifications ---------------------------------------------------------------------------------------------- */

static void notify_send(env_t *e)
{
    mad_memory_key_t key = key_receive(e);
    unsigned char *from = get(ROOM);
    for (uint32_t i = 0; i < COUNT(lens); i++) {
        fill(from, lens[i], i);
        CHECK_OK(mad_memory_put_notify(e->session, e->peer, &key, 0, from, lens[i], NULL));
        await_peer(e);
    }
    free(from);
}

static void notify_receive(env_t *e)
{
    unsigned char *base = get(ROOM);
    mad_memory_t *memory = owned(e, base, ROOM, MAD_MEMORY_WRITE);
    CHECK_EQ(mad_memory_notified(memory), 0);
    CHECK_STATUS(mad_memory_wait(memory, 1, 0), MAD_ERR_TIMEOUT);
    key_send(e, memory);
    for (uint32_t i = 0; i < COUNT(lens); i++) {
        CHECK_OK(mad_memory_wait(memory, i + 1, MAD_FOREVER));
        CHECK_EQ(mad_memory_notified(memory), i + 1);
        HOLDS(base, lens[i], i);
        signal_peer(e);
    }
    CHECK_OK(mad_memory_unregister(memory, MAD_FOREVER));
    free(base);
}

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

#define BLOCK 4096

static void errors_of_range(env_t *e, const mad_memory_key_t *key, mad_status_t read, mad_status_t write,
                            mad_status_t atomic)
{
    static const struct {
        uint64_t offset;
        size_t len;
    } wrong[] = {{BLOCK, 1},
                 {BLOCK - 7, 8},
                 {0, BLOCK + 1},
                 {UINT64_MAX, 1},
                 {UINT64_MAX - 7, 8},
                 {1, BLOCK},
                 {UINT64_MAX - BLOCK + 1, BLOCK},
                 {UINT64_C(1) << 63, 8},
                 {BLOCK + 1, 0},
                 {UINT64_MAX - 199, 200}};
    static unsigned char bytes[BLOCK + 1];
    uint64_t before;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        CHECK_STATUS(mad_memory_put(e->session, e->peer, key, wrong[i].offset, bytes, wrong[i].len, NULL), write);
        CHECK_STATUS(mad_memory_put_notify(e->session, e->peer, key, wrong[i].offset, bytes, wrong[i].len, NULL), write);
        CHECK_STATUS(mad_memory_get(e->session, e->peer, key, wrong[i].offset, bytes, wrong[i].len, NULL), read);
    }
    CHECK_STATUS(mad_memory_fetch_add(e->session, e->peer, key, 4, 1, &before, NULL), atomic);
    CHECK_STATUS(mad_memory_fetch_add(e->session, e->peer, key, BLOCK, 1, &before, NULL), atomic);
    CHECK_STATUS(mad_memory_compare_swap(e->session, e->peer, key, UINT64_MAX - 7, 0, 1, &before, NULL), atomic);
}

static void errors_send(env_t *e)
{
    mad_memory_key_t all = key_receive(e), none, reads = key_receive(e);
    mad_request_t *request = NULL;
    unsigned char bytes[2 * BLOCK] = {0};
    uint64_t word = 0;

    errors_of_range(e, &all, MAD_ERR_RANGE, MAD_ERR_RANGE, MAD_ERR_RANGE);
    errors_of_range(e, &reads, MAD_ERR_RANGE, MAD_ERR_RIGHTS, MAD_ERR_RIGHTS);
    CHECK_OK(mad_memory_flush(e->session, e->peer, NULL)); /* calls that wait return their failures themselves */
    CHECK_OK(mad_memory_put(e->session, e->peer, &all, BLOCK, bytes, 1, &request));
    CHECK_STATUS(mad_request_wait(&request, MAD_FOREVER), MAD_ERR_RANGE);
    if (CHECK_OK(mad_memory_put(e->session, e->peer, &reads, 0, bytes, 1, &request)))
        mad_request_detach(request, NULL, NULL);
    request = NULL;
    CHECK_STATUS(mad_memory_flush(e->session, e->peer, NULL), MAD_ERR_RANGE); /* the first failure, once */
    CHECK_OK(mad_memory_flush(e->session, e->peer, NULL));
    CHECK_OK(mad_memory_get(e->session, e->peer, &reads, 0, bytes, BLOCK, NULL));
    HOLDS(bytes, BLOCK, 2);

    for (size_t i = 4; i < sizeof none.bytes; i++) { /* every byte of a key that counts */
        none = all;
        none.bytes[i] ^= 0x10;
        bool uid = i >= 16 && i < 32, counts = i < 8 || (i >= 32 && i < 48);
        if (i >= 8 && i < 16) /* the length and the place of a file, for information */
            continue;
        CHECK_STATUS(mad_memory_put(e->session, e->peer, &none, 0, bytes, counts ? 8 : 0, NULL), uid      ? MAD_ERR_INVAL
                                                                                                 : counts ? MAD_ERR_KEY
                                                                                                          : MAD_OK);
        if (counts) {
            CHECK_STATUS(mad_memory_put(e->session, e->peer, &none, 0, bytes, BLOCK, NULL), MAD_ERR_KEY);
            CHECK_STATUS(mad_memory_get(e->session, e->peer, &none, 0, bytes, BLOCK, NULL), MAD_ERR_KEY);
            CHECK_STATUS(mad_memory_fetch_add(e->session, e->peer, &none, 0, 1, &word, NULL), MAD_ERR_KEY);
        }
    }
    memset(&none, 0, sizeof none);
    CHECK_STATUS(mad_memory_put(e->session, e->peer, &none, 0, bytes, 8, &request), MAD_ERR_INVAL);
    CHECK_STATUS(mad_memory_put(e->session, -1, &all, 0, bytes, 8, &request), MAD_ERR_INVAL);
    CHECK_STATUS(mad_memory_put(e->session, e->peer, NULL, 0, bytes, 8, &request), MAD_ERR_INVAL);
    CHECK_STATUS(mad_memory_put(e->session, e->peer, &all, 0, NULL, 8, &request), MAD_ERR_INVAL);
    CHECK_STATUS(mad_memory_flush(e->session, -1, &request), MAD_ERR_INVAL);
    CHECK(!request);
    signal_peer(e);
    await_peer(e); /* the block is not registered any more */
    CHECK_STATUS(mad_memory_put(e->session, e->peer, &all, 0, bytes, 8, NULL), MAD_ERR_KEY);
    CHECK_STATUS(mad_memory_put(e->session, e->peer, &all, 0, bytes, BLOCK, NULL), MAD_ERR_KEY);
    CHECK_STATUS(mad_memory_get(e->session, e->peer, &all, 0, bytes, BLOCK, NULL), MAD_ERR_KEY);
    signal_peer(e);
}

static void errors_receive(env_t *e)
{
    unsigned char *room = get(3 * BLOCK), *base = room + BLOCK, readable[BLOCK];
    mad_memory_t *memory, *reads, *again, *none = NULL;
    fill(room, 3 * BLOCK, 1);
    fill(base, BLOCK, 3);
    fill(readable, BLOCK, 2);
    CHECK_STATUS(mad_memory_register(e->session, NULL, 1, ALL, &none), MAD_ERR_INVAL);
    CHECK_STATUS(mad_memory_register(e->session, base, SIZE_MAX, ALL, &none), MAD_ERR_INVAL);
    CHECK_STATUS(mad_memory_register(e->session, base, 1, 0, &none), MAD_ERR_INVAL);
    CHECK_STATUS(mad_memory_register(e->session, base, 1, 8, &none), MAD_ERR_INVAL);
    CHECK(!none);
    CHECK_OK(mad_memory_unregister(NULL, 0));
    memory = owned(e, base, BLOCK, ALL);
    reads = owned(e, readable, BLOCK, MAD_MEMORY_READ);
    key_send(e, memory);
    key_send(e, reads);
    await_peer(e);
    HOLDS(base, BLOCK, 3);
    HOLDS(readable, BLOCK, 2);
    CHECK_EQ(mad_memory_notified(memory), 0);
    CHECK_OK(mad_memory_unregister(memory, 0));
    again = owned(e, base, BLOCK, ALL); /* has the same place in the table, perhaps */
    signal_peer(e);
    await_peer(e);
    HOLDS(base, BLOCK, 3);
    CHECK_OK(mad_memory_unregister(again, 0));
    CHECK_OK(mad_memory_unregister(reads, 0));
    free(room);
}

/* Like errors_receive, but with memory of the library. */
static void errors_allocated_receive(env_t *e)
{
    mad_memory_t *memory = owned(e, NULL, BLOCK, ALL), *reads = owned(e, NULL, BLOCK, MAD_MEMORY_READ), *again;
    fill(mad_memory_base(memory), BLOCK, 3);
    fill(mad_memory_base(reads), BLOCK, 2);
    key_send(e, memory);
    key_send(e, reads);
    await_peer(e);
    HOLDS(mad_memory_base(memory), BLOCK, 3);
    HOLDS(mad_memory_base(reads), BLOCK, 2);
    CHECK_EQ(mad_memory_notified(memory), 0);
    CHECK_OK(mad_memory_unregister(memory, 0));
    again = owned(e, NULL, BLOCK, ALL); /* has the same descriptor, perhaps */
    fill(mad_memory_base(again), BLOCK, 3);
    signal_peer(e);
    await_peer(e);
    HOLDS(mad_memory_base(again), BLOCK, 3);
    CHECK_OK(mad_memory_unregister(again, 0));
    CHECK_OK(mad_memory_unregister(reads, 0));
}

/* ---- Unregistered in the middle --------------------------------------------------------------------------------- */

#define LONG ((size_t)1 << 20)

static void ends_send(env_t *e)
{
    unsigned char *from = get(LONG), *to = get(LONG);
    for (int i = 0; i < 4; i++) {
        mad_memory_key_t key = key_receive(e);
        mad_status_t status = MAD_OK;
        int done = 0;
        while (!status) {
            mad_request_t *put = NULL, *read = NULL;
            mad_status_t second = MAD_OK;
            CHECK_OK(mad_memory_put(e->session, e->peer, &key, 0, from, LONG, &put));
            CHECK_OK(mad_memory_get(e->session, e->peer, &key, 0, to, LONG, &read));
            status = put ? mad_request_wait(&put, MAD_FOREVER) : MAD_ERR_INVAL;
            second = read ? mad_request_wait(&read, MAD_FOREVER) : MAD_ERR_INVAL;
            CHECK_MSG(!second || second == MAD_ERR_KEY, "%s", mad_status_text(second));
            if (!status && ++done == 2)
                signal_peer(e);
        }
        CHECK_STATUS(status, MAD_ERR_KEY);
        if (done < 2)
            signal_peer(e);
        CHECK_STATUS(mad_memory_flush(e->session, e->peer, NULL), MAD_ERR_KEY);
        CHECK_OK(mad_memory_flush(e->session, e->peer, NULL));
    }
    free(from);
    free(to);
}

static void ends_receive(env_t *e)
{
    unsigned char *base = get(LONG);
    for (uint32_t i = 0; i < 4; i++) {
        mad_memory_t *memory = owned(e, base, LONG, ALL);
        mad_status_t status;
        key_send(e, memory);
        await_peer(e);
        while ((status = mad_memory_unregister(memory, i % 2 ? MAD_FOREVER : 0)) == MAD_ERR_TIMEOUT)
            mad_progress(e->session);
        CHECK_OK(status);
        fill(base, LONG, i);
        for (int n = 0; n < 1000; n++)
            mad_progress(e->session);
        HOLDS(base, LONG, i);
    }
    free(base);
}

/* ---- Both sides ------------------------------------------------------------------------------------------------- */

/* Both roles own a block, and write into the other's at the same time. */
static void both(env_t *e)
{
    unsigned char *from = get(LONG);
    mad_memory_t *memory = owned(e, NULL, LONG, ALL);
    mad_memory_key_t key;
    fill(from, LONG, (uint32_t)e->me);
    if (e->me) {
        key_send(e, memory);
        key = key_receive(e);
    } else {
        key = key_receive(e);
        key_send(e, memory);
    }
    for (int i = 0; i < 20; i++) {
        mad_request_t *request;
        for (size_t at = 0; at < LONG; at += LONG / 4)
            if (CHECK_OK(mad_memory_put(e->session, e->peer, &key, at, from + at, LONG / 4, &request)))
                mad_request_detach(request, NULL, NULL);
        CHECK_OK(mad_memory_flush(e->session, e->peer, NULL));
    }
    CHECK_OK(mad_memory_put_notify(e->session, e->peer, &key, 0, NULL, 0, NULL));
    CHECK_OK(mad_memory_wait(memory, 1, MAD_FOREVER));
    HOLDS(mad_memory_base(memory), LONG, (uint32_t)!e->me);
    CHECK_OK(mad_memory_unregister(memory, MAD_FOREVER));
    free(from);
}

const test_t memory_tests[] = {
    {.name = "memory_moves", .procs = 2, .send = moves_send, .receive = moves_receive},
    {.name = "memory_allocated", .procs = 2, .send = moves_send, .receive = allocated_receive},
    {.name = "memory_words_allocated", .procs = 2, .send = words_send, .receive = words_allocated_receive},
    {.name = "memory_errors_allocated", .procs = 2, .send = errors_send, .receive = errors_allocated_receive},
    {.name = "memory_window", .procs = 2, .send = window_send, .receive = window_receive},
    {.name = "memory_words", .procs = 2, .send = words_send, .receive = words_receive},
    {.name = "memory_notify", .procs = 2, .send = notify_send, .receive = notify_receive},
    {.name = "memory_errors", .procs = 2, .send = errors_send, .receive = errors_receive},
    {.name = "memory_ends", .procs = 2, .send = ends_send, .receive = ends_receive},
    {.name = "memory_both", .procs = 2, .send = both, .receive = both},
    {.name = NULL}};
