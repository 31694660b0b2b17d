/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases of the matching device between two processes, which run each case at the same time. */
#include "device_pair.h"

#include <pthread.h>

static const size_t sizes[] = {0, 1, 8, 16, 17, 100, 4096, 8000, 8300, 32600, 32768, 50000, 65536, 65537, 300000, 3000000};
#define N_SIZES (sizeof sizes / sizeof *sizes)
#define MAX 3000000
static unsigned char out[MAX], in[MAX + 1];

/* Receives posted before their message, and messages that wait, of all lengths. */
static void lengths(side_t *s)
{
    for (size_t i = 0; i < 2 * N_SIZES; i++) {
        size_t len = sizes[i / 2];
        uint64_t tag = 100 + i;
        result_t received, sent;
        mad_dev_done_t found;
        bool before = i % 2;
        memset(in, 0xee, len + 1);
        fill(out, len, tag);
        if (before)
            post(s, s->peer, tag, 0, in, len, &received);
        meet(s);
        send_to(s, s->peer, tag, out, len, &sent);
        if (!before) {
            until_there(s, s->peer, tag, &found);
            CHECK_EQ(found.len, len);
            post(s, s->peer, tag, 0, in, len, &received);
        }
        wait_for(s, &received);
        wait_for(s, &sent);
        CHECK_OK(received.done.status);
        CHECK_EQ(received.done.len, len);
        CHECK_EQ(received.done.whole, len);
        CHECK_EQ(received.done.tag, tag);
        CHECK_EQ(received.done.source, s->peer);
        CHECK(is_filled(in, len, tag) && in[len] == 0xee);
    }
}

/* A process whose message has arrived is connected: a send to it that cannot report a failure need not be tried again. */
static void answers(side_t *s)
{
    char byte = 1;
    struct iovec piece = {&byte, 1};
    mad_dev_send_t answer = {
        .to = s->peer, .pieces = &piece, .n = 1, .tag = 2, .buffered = true, .no_completion = true, .no_error_report = true};
    result_t sent, received;
    bool later;
    post(s, s->peer, s->who ? 1 : 2, 0, &byte, 1, &received);
    if (!s->who) {
        send_to(s, s->peer, 1, &byte, 1, &sent);
        wait_for(s, &sent);
    }
    wait_for(s, &received);
    CHECK_OK(received.done.status);
    if (s->who)
        CHECK_OK(mad_dev_send(s->dev, &answer, &later));
}

/* Tags with ignored bits, and any source: the oldest receive gets the oldest message. */
static void order(side_t *s)
{
    enum { N = 40 };
    result_t sent, received[N];
    uint64_t words[N], word;
    for (uint64_t i = 0; i < N; i++) /* in turn: this tag or any tag, from the peer or from any source */
        post(s, i & 1 ? s->peer : MAD_ANY_SOURCE, 7, i & 2 ? UINT64_C(0xff) : 0, &words[i], 8, &received[i]);
    meet(s);
    for (word = 0; word < N; word++) {
        send_to(s, s->peer, 7, &word, 8, &sent);
        wait_for(s, &sent);
    }
    for (uint64_t i = 0; i < N; i++) {
        wait_for(s, &received[i]);
        CHECK_EQ(words[i], i);
    }
    meet(s);
    for (word = 0; word < N; word++) {
        send_to(s, s->peer, word % 2, &word, 8, &sent);
        wait_for(s, &sent);
    }
    meet(s);
    for (uint64_t i = 0; i < N / 2; i++) { /* the odd tags first, then the remaining messages with any tag */
        post(s, MAD_ANY_SOURCE, 1, 0, &word, 8, &received[0]);
        wait_for(s, &received[0]);
        CHECK_EQ(word, 2 * i + 1);
    }
    for (uint64_t i = 0; i < N / 2; i++) {
        post(s, MAD_ANY_SOURCE, 0, ~UINT64_C(0), &word, 8, &received[0]);
        wait_for(s, &received[0]);
        CHECK_EQ(word, 2 * i);
    }
}

/* Messages of three tags, several of which arrive together, are received one by one in every way.  Each receive gets the
 * oldest message that fits. */
enum { ONES = 300, ONE_TAGS = 3, ONE_ANY = ONE_TAGS };

static uint64_t one_tag(uint64_t i)
{
    return i * i % 7 % ONE_TAGS;
}

static void one_receive(side_t *s, unsigned how, uint64_t tag, uint64_t *word)
{
    struct iovec piece = {word, 8};
    mad_dev_receive_t r = {.from = how & 1 ? s->peer : MAD_ANY_SOURCE, .pieces = &piece, .n = 1, .tag = tag};
    mad_dev_done_t found;
    mad_dev_got_t got = {.len = 0};
    result_t received;
    r.tag = tag == ONE_ANY ? 0 : tag;
    r.ignore = tag == ONE_ANY ? 0xff : 0;
    if (how & 2)
        while (mad_dev_probe(s->dev, &r, MAD_DEV_PEEK, &found) != MAD_OK)
            mad_dev_progress(s->dev);
    if (how & 4 && mad_dev_receive_now(s->dev, r.from, r.tag, r.ignore, piece, &got) == MAD_OK) {
        CHECK_EQ(got.len, 8);
        CHECK_EQ(got.source, s->peer);
        CHECK_EQ(got.tag, one_tag(*word));
        return;
    }
    post(s, r.from, r.tag, r.ignore, word, 8, &received);
    wait_for(s, &received);
    CHECK_EQ(received.done.tag, one_tag(*word));
}

static void each_takes_the_oldest(side_t *s)
{
    bool taken[ONES] = {false};
    result_t sent;
    uint64_t word;
    unsigned choice = 1;
    for (int side = 0; side < 2; side++) {
        meet(s);
        for (word = 0; word < ONES && s->who == side; word++) {
            send_to(s, s->peer, one_tag(word), &word, 8, &sent);
            wait_for(s, &sent);
        }
        for (int i = 0; i < ONES && s->who != side; i++) {
            uint64_t tag, oldest = 0;
            do {
                choice = choice * 1103515245 + 12345;
                tag = choice >> 16 & ONE_ANY;
                for (oldest = 0; oldest < ONES && (taken[oldest] || (tag != ONE_ANY && one_tag(oldest) != tag));)
                    oldest++;
            } while (oldest == ONES); /* no further message of that tag is left */
            one_receive(s, choice >> 20, tag, &word);
            CHECK_EQ(word, oldest);
            taken[oldest] = true;
        }
    }
    meet(s);
}

static void data_and_spaces(side_t *s)
{
    static const uint64_t data[] = {0, 5, UINT32_MAX, UINT64_MAX, UINT64_C(1) << 32};
    for (size_t i = 0; i < 5; i++)
        for (int plain = 0; plain < 2; plain++) {
            result_t r[2], sent;
            uint64_t word[2], mine = 77 + i;
            struct iovec piece = {&mine, 8}, to[2] = {{&word[0], 8}, {&word[1], 8}};
            for (int space = 0; space < 2; space++) {
                mad_dev_receive_t receive = {.from = s->peer,
                                             .space = space ? MAD_DEV_PLAIN : MAD_DEV_TAGGED,
                                             .pieces = &to[space],
                                             .n = 1,
                                             .context = &r[space]};
                r[space] = (result_t){.n = 0};
                CHECK_OK(mad_dev_receive(s->dev, &receive));
            }
            meet(s);
            send_as(s,
                    (mad_dev_send_t){.to = s->peer,
                                     .space = plain ? MAD_DEV_PLAIN : MAD_DEV_TAGGED,
                                     .pieces = &piece,
                                     .n = 1,
                                     .data = data[i],
                                     .has_data = i > 0},
                    &sent);
            wait_for(s, &sent);
            wait_for(s, &r[plain]);
            CHECK(word[plain] == mine && r[plain].done.data == data[i] && r[plain].done.has_data == (i > 0));
            CHECK(!atomic_load(&r[!plain].over));
            CHECK_OK(mad_dev_cancel(s->dev, &r[!plain]));
            CHECK_STATUS(r[!plain].done.status, MAD_ERR_CANCELLED);
            meet(s);
        }
}

/* Both sides use pieces, which they cut differently. */
static void pieces(side_t *s)
{
    for (size_t i = 0; i < N_SIZES; i++) {
        size_t len = sizes[i];
        struct iovec from[] = {{out, len / 3}, {out + len / 3, 0}, {out + len / 3, len - len / 3}};
        struct iovec to[] = {{in, len / 2}, {in + len / 2, len / 4}, {in + len / 2 + len / 4, len - len / 2 - len / 4}};
        result_t received = {.n = 0}, sent;
        mad_dev_receive_t receive = {.from = s->peer, .pieces = to, .n = 3, .tag = i, .context = &received};
        fill(out, len, i);
        memset(in, 0, len);
        if (i % 2)
            CHECK_OK(mad_dev_receive(s->dev, &receive));
        send_as(s, (mad_dev_send_t){.to = s->peer, .pieces = from, .n = 3, .tag = i}, &sent);
        if (i % 2 == 0)
            CHECK_OK(mad_dev_receive(s->dev, &receive));
        wait_for(s, &received);
        wait_for(s, &sent);
        CHECK_EQ(received.done.len, len);
        CHECK(is_filled(in, len, i));
        meet(s);
    }
}

/* A receive that is too short gets the bytes that fit, and reports the length of the message; later messages are not
 * affected. */
static void truncation(side_t *s)
{
    for (size_t i = 1; i < N_SIZES; i++)
        for (int before = 0; before < 2; before++) {
            size_t len = sizes[i], room = len / 2;
            uint64_t word = 0, mine = 5;
            result_t received, next, sent[2];
            mad_dev_done_t found;
            fill(out, len, i);
            memset(in, 0xee, len + 1);
            if (before)
                post(s, s->peer, i, 0, in, room, &received);
            meet(s);
            send_to(s, s->peer, i, out, len, &sent[0]);
            send_to(s, s->peer, i, &mine, 8, &sent[1]);
            if (!before) {
                until_there(s, s->peer, i, &found);
                post(s, s->peer, i, 0, in, room, &received);
            }
            post(s, s->peer, i, 0, &word, 8, &next);
            wait_for(s, &received);
            wait_for(s, &next);
            wait_for(s, &sent[0]);
            wait_for(s, &sent[1]);
            CHECK_OK(received.done.status);
            CHECK(received.done.len == room && received.done.whole == len);
            CHECK(is_filled(in, room, i) && in[room] == 0xee);
            CHECK_EQ(word, 5);
        }
}

/* Matched sends complete when a receive has matched them, and not before. */
static void matched(side_t *s)
{
    for (size_t i = 0; i < N_SIZES; i++) {
        result_t received, sent;
        mad_dev_done_t found;
        struct iovec piece = {out, sizes[i]};
        fill(out, sizes[i], i);
        send_as(s, (mad_dev_send_t){.to = s->peer, .pieces = &piece, .n = 1, .tag = i, .matched = true}, &sent);
        until_there(s, s->peer, i, &found);
        meet(s);
        CHECK(!atomic_load(&sent.over));
        meet(s);
        post(s, s->peer, i, 0, in, sizes[i], &received);
        wait_for(s, &received);
        wait_for(s, &sent);
        CHECK_OK(sent.done.status);
        CHECK(is_filled(in, sizes[i], i));
        meet(s);
    }
}

/* Buffered sends: the buffer is changed at once, and the old bytes are sent. */
static void buffered(side_t *s)
{
    enum { N = 500, LEN = 9000 };
    static result_t sent[N], received;
    for (uint64_t i = 0; i < N; i++) {
        struct iovec piece = {out, LEN};
        fill(out, LEN, i);
        send_as(s, (mad_dev_send_t){.to = s->peer, .pieces = &piece, .n = 1, .tag = i, .buffered = true}, &sent[i]);
        memset(out, 0, LEN);
    }
    for (uint64_t i = 0; i < N; i++) {
        post(s, s->peer, i, 0, in, LEN, &received);
        wait_for(s, &received);
        CHECK(is_filled(in, LEN, i));
    }
    for (int i = 0; i < N; i++)
        wait_for(s, &sent[i]);
}

/* Messages that are probed, claimed and received later, or dropped. */
static void claims(side_t *s)
{
    for (size_t i = 0; i < N_SIZES; i++) {
        size_t len = sizes[i];
        struct iovec piece = {in, len};
        result_t sent[3], received = {.n = 0}, other;
        mad_dev_done_t found;
        mad_dev_receive_t r = {.from = MAD_ANY_SOURCE, .tag = i, .pieces = &piece, .n = 1, .context = &received};
        for (int k = 0; k < 3; k++) {
            fill(out, len, i + (size_t)k); /* the third message is checked byte by byte */
            if (k < 2)
                send_as(
                    s,
                    (mad_dev_send_t){.to = s->peer, .pieces = &(struct iovec){out, len}, .n = 1, .tag = i, .buffered = true},
                    &sent[k]);
            else
                send_to(s, s->peer, i, out, len, &sent[k]);
        }
        until_there(s, MAD_ANY_SOURCE, i, &found);
        CHECK_OK(mad_dev_probe(s->dev, &r, MAD_DEV_CLAIM, &found));
        CHECK(found.len == len && found.context == &received);
        until_there(s, s->peer, i, &found);
        CHECK_OK(mad_dev_probe(s->dev, &r, MAD_DEV_DISCARD, &found));
        post(s, s->peer, i, 0, in, len, &other);
        wait_for(s, &other);
        CHECK(is_filled(in, len, i + 2));
        CHECK_OK(mad_dev_receive_claimed(s->dev, &r, false));
        wait_for(s, &received);
        CHECK(is_filled(in, len, i));
        CHECK_STATUS(mad_dev_receive_claimed(s->dev, &r, false), MAD_ERR_INVAL);
        CHECK_STATUS(mad_dev_probe(s->dev, &r, MAD_DEV_CLAIM, &found), MAD_ERR_AGAIN);
        for (int k = 0; k < 3; k++)
            wait_for(s, &sent[k]);
        meet(s);
    }
}

static void cancels(side_t *s)
{
    enum { N = 20 };
    result_t received[N], sent[N];
    uint64_t words[N];
    for (uint64_t i = 0; i < N; i++)
        post(s, s->peer, 1, 0, &words[i], 8, &received[i]);
    for (int i = 0; i < N; i += 2) {
        CHECK_OK(mad_dev_cancel(s->dev, &received[i]));
        CHECK(atomic_load(&received[i].over));
        CHECK_STATUS(received[i].done.status, MAD_ERR_CANCELLED);
        CHECK_STATUS(mad_dev_cancel(s->dev, &received[i]), MAD_ERR_TOO_LATE);
    }
    meet(s);
    for (uint64_t i = 1; i < N; i += 2)
        send_to(s, s->peer, 1, &i, 8, &sent[i]);
    for (uint64_t i = 1; i < N; i += 2) {
        wait_for(s, &received[i]);
        wait_for(s, &sent[i]);
        CHECK_EQ(words[i], i);
        CHECK_STATUS(mad_dev_cancel(s->dev, &received[i]), MAD_ERR_TOO_LATE);
    }
}

/* One buffer for many messages, half of which arrive before the buffer is posted. */
static void multi(side_t *s)
{
    enum { N = 200, ROOM = 20000, LEAST = 1000 };
    static unsigned char buffers[N][ROOM];
    static result_t received[N], sent[N];
    int got = 0, used = 0, posted = 0;
    size_t all = 0, bytes = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = round * N / 2; i < (round + 1) * N / 2; i++) {
            size_t len = (size_t)(i * 37 % LEAST);
            fill(out, len, (uint64_t)i);
            all += len;
            send_as(
                s,
                (mad_dev_send_t){
                    .to = s->peer, .space = MAD_DEV_PLAIN, .pieces = &(struct iovec){out, len}, .n = 1, .buffered = true},
                &sent[i]);
        }
        meet(s);
        for (; got < (round + 1) * N / 2;) {
            if (posted == used) {
                mad_dev_receive_t r = {.from = MAD_ANY_SOURCE,
                                       .space = MAD_DEV_PLAIN,
                                       .pieces = &(struct iovec){buffers[posted], ROOM},
                                       .n = 1,
                                       .multi = LEAST,
                                       .context = &received[posted]};
                received[posted] = (result_t){.n = 0};
                posted++;
                CHECK_OK(mad_dev_receive(s->dev, &r));
            }
            mad_dev_progress(s->dev);
            got = 0;
            used = 0;
            for (int i = 0; i < posted; i++) {
                got += atomic_load(&received[i].n);
                used += atomic_load(&received[i].over);
            }
        }
    }
    CHECK_EQ(got, N);
    if (used < posted)
        CHECK_OK(mad_dev_cancel(s->dev, &received[posted - 1]));
    for (int i = 0; i < posted; i++)
        bytes += atomic_load(&received[i].bytes);
    CHECK_EQ(bytes, all);
    /* the messages are in order, one behind the other */
    int buffer = 0;
    size_t at = 0;
    for (int i = 0; i < N; i++) {
        size_t len = (size_t)(i * 37 % LEAST);
        CHECK_MSG(is_filled(&buffers[buffer][at], len, (uint64_t)i), "message %d in buffer %d at %zu", i, buffer, at);
        at += len;
        if (ROOM - at < LEAST) {
            buffer++;
            at = 0;
        }
    }
    for (int i = 0; i < N; i++)
        wait_for(s, &sent[i]);
}

static void to_itself(side_t *s)
{
    for (size_t i = 0; i < N_SIZES; i++)
        for (int before = 0; before < 2; before++) {
            result_t sent, received;
            fill(out, sizes[i], i);
            memset(in, 0, sizes[i]);
            if (before)
                post(s, MAD_ANY_SOURCE, i, 0, in, sizes[i], &received);
            send_to(s, s->self, i, out, sizes[i], &sent);
            if (!before)
                post(s, s->self, i, 0, in, sizes[i], &received);
            wait_for(s, &received);
            wait_for(s, &sent);
            CHECK_EQ(received.done.source, s->self);
            CHECK(is_filled(in, sizes[i], i));
        }
}

/* Many more messages than any ring or credit holds, received in the opposite order. */
static void outstanding(side_t *s)
{
    enum { N = 6000, LEN = 3000 };
    static result_t sent[N], received[N];
    static unsigned char got[N][8];
    fill(out, LEN, 1);
    for (int i = 0; i < N; i++)
        send_to(s, s->peer, (uint64_t)i, out, (size_t)(i * 7 % LEN), &sent[i]);
    meet(s);
    for (int i = N - 1; i >= 0; i--)
        post(s, i % 3 ? s->peer : MAD_ANY_SOURCE, (uint64_t)i, 0, i % 2 ? in : got[i], i % 2 ? LEN : 8, &received[i]);
    for (int i = 0; i < N; i++) {
        wait_for(s, &received[i]);
        CHECK_EQ(received[i].done.whole, i * 7 % LEN);
    }
    for (int i = 0; i < N; i++)
        wait_for(s, &sent[i]);
}

/* Long messages in both directions at once. */
static void crossing(side_t *s)
{
    enum { N = 20, LEN = 140000 };
    result_t sent[N], received[N];
    for (int i = 0; i < N; i++)
        post(s, s->peer, (uint64_t)i, 0, in + i * LEN, LEN, &received[i]);
    for (int i = N - 1; i >= 0; i--) {
        fill(out + i * LEN, LEN, (uint64_t)i);
        send_to(s, s->peer, (uint64_t)i, out + i * LEN, LEN, &sent[i]);
    }
    for (int i = 0; i < N; i++) {
        wait_for(s, &received[i]);
        wait_for(s, &sent[i]);
        CHECK(is_filled(in + i * LEN, LEN, (uint64_t)i));
    }
}

/* Several threads of each process at the same time, each with tags of its own. */
enum { THREADS = 3 };
typedef struct worker {
    side_t *side;
    uint64_t number;
} worker_t;

static void *worker_main(void *arg)
{
    worker_t *w = arg;
    side_t *s = w->side;
    unsigned char *mine = malloc(200000), *got = malloc(200000);
    for (uint64_t i = 0; i < 60; i++) {
        size_t len = sizes[i % (N_SIZES - 2)];
        uint64_t tag = w->number << 32 | i;
        result_t sent, received;
        fill(mine, len, tag);
        post(s, i % 2 ? s->peer : MAD_ANY_SOURCE, tag, 0, got, len, &received);
        send_to(s, s->peer, tag, mine, len, &sent);
        wait_for(s, &received);
        wait_for(s, &sent);
        CHECK(is_filled(got, len, tag));
    }
    free(mine);
    free(got);
    return NULL;
}

static void threads(side_t *s)
{
    pthread_t t[THREADS];
    worker_t w[THREADS];
    for (uint64_t i = 0; s->threaded && i < THREADS; i++) {
        w[i] = (worker_t){s, i + 1};
        pthread_create(&t[i], NULL, worker_main, &w[i]);
    }
    for (int i = 0; s->threaded && i < THREADS; i++)
        pthread_join(t[i], NULL);
}

const device_case_t device_cases[] = {{"answers", answers},
                                      {"lengths", lengths},
                                      {"order", order},
                                      {"each takes the oldest", each_takes_the_oldest},
                                      {"data and spaces", data_and_spaces},
                                      {"pieces", pieces},
                                      {"truncation", truncation},
                                      {"matched sends", matched},
                                      {"buffered sends", buffered},
                                      {"claims", claims},
                                      {"cancellation", cancels},
                                      {"multi-receive", multi},
                                      {"to itself", to_itself},
                                      {"many outstanding", outstanding},
                                      {"crossing", crossing},
                                      {"threads", threads},
                                      {"flood", device_flood},
                                      {"after the flood", device_after_flood},
                                      {NULL, NULL}};
