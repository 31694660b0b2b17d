/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that a receiver keeps for unexpected messages is bounded: envelopes, and as many payloads as device.h
 * promises. */
#include "device_pair.h"

#include <stdio.h>
#include <unistd.h>

/* Memory is not checked under a sanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

/* FEW: for the driver fault, which is slow, and for several threads. */
enum { MANY = 100000, FEW = SANITIZED ? 2000 : 10000 };
static const size_t lens[] = {8, 50000, 0, 200, 20000, 2000, 33000, 65536, 1, 900};
#define N_LENS (sizeof lens / sizeof *lens)
#define LONGEST 65536

static size_t resident(void)
{
    unsigned long all, here = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!CHECK(f) || !CHECK(fscanf(f, "%lu %lu", &all, &here) == 2))
        here = 0;
    if (f)
        fclose(f);
    return here * (size_t)sysconf(_SC_PAGESIZE);
}

static void flood_send(side_t *s, int n, const unsigned char *bytes)
{
    result_t *sent = calloc((size_t)n + 1, sizeof *sent);
    struct iovec none = {NULL, 0};
    for (int i = 0; i < n; i++) {
        size_t len = lens[(size_t)i % N_LENS];
        struct iovec pieces[] = {{(void *)bytes, len / 3}, {(void *)(bytes + len / 3), len - len / 3}};
        send_as(s,
                (mad_dev_send_t){.to = s->peer,
                                 .pieces = pieces,
                                 .n = 2,
                                 .tag = 1,
                                 .data = (uint64_t)i,
                                 .has_data = true,
                                 .matched = i % 7 == 0},
                &sent[i]);
    }
    send_as(s, (mad_dev_send_t){.to = s->peer, .pieces = &none, .n = 1, .tag = 2}, &sent[n]);
    meet(s);
    for (int i = 0; i <= n; i++) {
        wait_for(s, &sent[i]);
        CHECK_OK(sent[i].done.status);
    }
    free(sent);
}

/* Nothing is received until all headers have arrived; then the last message is received first, by its tag. */
static void flood_receive(side_t *s, int n, const unsigned char *bytes)
{
    static unsigned char got[LONGEST];
    mad_dev_done_t found;
    result_t r;
    size_t before = resident(), after, grown,
           bound = MAD_DEV_WINDOW + MAD_DEV_WINDOWS + (size_t)n * MAD_DEV_ENVELOPE + (8 << 20);
    uint64_t wrong = 0;
    until_there(s, s->peer, 2, &found);
    after = resident();
    grown = after > before ? after - before : 0; /* memory of what ran before may have been returned meanwhile */
    CHECK_MSG(SANITIZED || grown <= bound, "%d messages that nobody wants take %zu bytes, more than %zu", n, grown, bound);
    post(s, s->peer, 2, 0, NULL, 0, &r);
    wait_for(s, &r);
    meet(s);
    for (int i = 0; i < n; i++) {
        size_t len = lens[(size_t)i % N_LENS];
        post(s, MAD_ANY_SOURCE, 1, 0, got, sizeof got, &r);
        wait_for(s, &r);
        wrong += r.done.status || r.done.len != len || r.done.data != (uint64_t)i || memcmp(got, bytes, len) != 0;
    }
    CHECK_EQ(wrong, 0);
}

/* Flood process 1 with messages of process 0. */
void device_flood(side_t *s)
{
    static unsigned char bytes[LONGEST];
    const char *drivers = getenv("MAD_DRIVERS");
    int n = SANITIZED || s->threaded || (drivers && strstr(drivers, "fault")) ? FEW : MANY;
    fill(bytes, sizeof bytes, 1);
    if (s->who == 0)
        flood_send(s, n, bytes);
    else
        flood_receive(s, n, bytes);
}

/* After the flood everything works as before: as many messages again, in both directions, with receives that are
 * already posted. */
void device_after_flood(side_t *s)
{
    enum { N = 3000 };
    static unsigned char out[LONGEST], in[LONGEST];
    result_t sent, received;
    fill(out, sizeof out, 2);
    for (int i = 0; i < N; i++) {
        size_t len = lens[(size_t)i % N_LENS];
        post(s, s->peer, (uint64_t)i, 0, in, len, &received);
        send_to(s, s->peer, (uint64_t)i, out, len, &sent);
        wait_for(s, &received);
        wait_for(s, &sent);
        CHECK(received.done.len == len && !memcmp(in, out, len));
    }
}
