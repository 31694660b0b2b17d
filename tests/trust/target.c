/* SPDX-License-Identifier: BSD-3-Clause */
/* A plain user of the library that the attacks of this folder control by lines on its standard input.  The lines, and
 * what the program prints:
 *
 *   peer HEX         add a peer: "peer NUMBER (STATUS)"        send PEER TEXT   "sent to PEER: STATUS"
 *   big PEER N       send BIG N and N bytes: "sent to PEER: STATUS"; the receiver prints "got big N: right" or what is wrong
 *   wait MS          receive once, for at most that time: "waited S s"   echo TEXT        "echo TEXT"          quit
 *
 * It prints its address at the start, the messages that it receives, and its events.  `target layout` prints offsets of
 * shm.h.  TARGET_KEY: the job's key.  TARGET_DEAF: the program makes progress, but receives no message. */
#include "drivers/shm/shm.h"

#include <madeleine.h>
#include <madeleine/runtime.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SEND_TIMEOUT INT64_C(10000000000) /* ns */
#define TICK INT64_C(20000000)            /* ns: duration of a receive between two checks of standard input */

typedef struct target {
    mad_session_t *session;
    mad_channel_t *channel;
    bool deaf;
    int64_t wait; /* ns: timeout of the next receive */
} target_t;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void layout_print(void)
{
    printf("layout=%d\nregion=%zu\nhalf=%zu\nhalf_size=%zu\nconsumed=%zu\nfreed=%zu\ncells=%zu\nunits=%zu\n", SHM_LAYOUT,
           sizeof(shm_region_t), offsetof(shm_region_t, half), sizeof(shm_half_t), offsetof(shm_half_t, consumed),
           offsetof(shm_half_t, freed), offsetof(shm_half_t, cells), offsetof(shm_half_t, units));
    printf("reach=%zu\nsevered=%zu\noffers=%zu\nputting=%zu\nwanted=%zu\nwindow=%zu\n", offsetof(shm_half_t, reach),
           offsetof(shm_half_t, severed), offsetof(shm_half_t, offers), offsetof(shm_half_t, putting),
           offsetof(shm_half_t, wanted), offsetof(shm_half_t, window));
}

static void peer_add(target_t *t, const char *hex)
{
    unsigned char bytes[8192];
    size_t n = 0;
    unsigned byte;
    mad_peer_t peer = -1;
    mad_status_t status;
    for (; n < sizeof bytes && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
        bytes[n] = (unsigned char)byte;
    status = mad_peer_add(t->session, bytes, n, &peer);
    printf("peer %d (%s)\n", peer, mad_status_text(status));
}

static void text_send(target_t *t, const char *line)
{
    int peer = -1, at = 0;
    mad_request_t *request;
    mad_block_t block;
    mad_status_t status;
    sscanf(line, "%d %n", &peer, &at);
    block = (mad_block_t){(void *)(line + at), strlen(line + at), MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS};
    status = mad_message_send(t->channel, peer, &block, 1, &request);
    if (!status)
        status = mad_request_wait(&request, SEND_TIMEOUT);
    printf("sent to %d: %s\n", peer, mad_status_text(status));
}

static unsigned char big_byte(size_t i)
{
    return (unsigned char)("the big secret "[i % 15]);
}

static void big_send(target_t *t, const char *line)
{
    int peer = -1;
    unsigned n = 0;
    char text[32];
    unsigned char *bytes;
    mad_request_t *request;
    mad_block_t block[2];
    mad_status_t status;
    sscanf(line, "%d %u", &peer, &n);
    bytes = malloc(n + 1);
    for (size_t i = 0; bytes && i < n; i++)
        bytes[i] = big_byte(i);
    block[0] = (mad_block_t){text, (size_t)snprintf(text, sizeof text, "BIG %u", n), MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS};
    block[1] = (mad_block_t){bytes, n, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    status = mad_message_send(t->channel, peer, block, 2, &request);
    if (!status)
        status = mad_request_wait(&request, SEND_TIMEOUT);
    printf("sent to %d: %s\n", peer, mad_status_text(status));
    if (!status)
        free(bytes); /* otherwise the library may still use the memory */
}

static void big_take(mad_message_t *message, size_t n)
{
    unsigned char *bytes = calloc(1, n + 1);
    mad_status_t status = mad_unpack(message, bytes, n, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER),
                 end = mad_end_unpacking(message);
    size_t right = 0;
    status = status ? status : end;
    while (right < n && bytes[right] == big_byte(right))
        right++;
    printf("got big %zu: %s\n", n, status ? mad_status_text(status) : right == n ? "right" : "WRONG");
    free(bytes);
}

/* Execute one line.  False at the end of the input. */
static bool line_obey(target_t *t)
{
    static char line[20000];
    if (!fgets(line, sizeof line, stdin))
        return false;
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, "peer ", 5))
        peer_add(t, line + 5);
    else if (!strncmp(line, "send ", 5))
        text_send(t, line + 5);
    else if (!strncmp(line, "big ", 4))
        big_send(t, line + 4);
    else if (!strncmp(line, "wait ", 5))
        t->wait = atoll(line + 5) * INT64_C(1000000);
    else if (!strncmp(line, "echo ", 5))
        printf("%s\n", line);
    return strcmp(line, "quit") != 0;
}

static void message_take(mad_message_t *message)
{
    const void *base = NULL;
    size_t len = 0;
    mad_status_t status;
    unsigned n;
    char text[32] = "";
    while ((status = mad_unpack_borrow(message, &base, &len)) == MAD_ERR_AGAIN)
        ;
    if (!status && len < sizeof text)
        memcpy(text, base, len);
    if (sscanf(text, "BIG %u", &n) == 1) {
        big_take(message, n);
        return;
    }
    if (!status && len)
        printf("got from peer %d: %.*s\n", mad_message_peer(message), (int)(len < 200 ? len : 200), (const char *)base);
    mad_message_drop(message);
}

static void receive(target_t *t)
{
    double began = now();
    mad_message_t *message;
    int64_t wait = t->wait ? t->wait : TICK;
    mad_status_t status;
    if (t->deaf) {
        mad_progress(t->session);
        return;
    }
    status = mad_begin_unpacking_within(t->channel, MAD_ANY_SOURCE, wait, &message);
    if (t->wait)
        printf("waited %.2f s: %s\n", now() - began, mad_status_text(status));
    t->wait = 0;
    if (!status)
        message_take(message);
}

int main(int argc, char **argv)
{
    const char *key = getenv("TARGET_KEY") ? getenv("TARGET_KEY") : "0123456789abcdef0123456789abcdef";
    struct pollfd input = {.fd = 0, .events = POLLIN};
    target_t t = {.deaf = getenv("TARGET_DEAF") != NULL};
    const unsigned char *address;
    mad_status_t status;
    mad_event_t event;
    size_t n;
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0); /* unbuffered, so that poll sees every line */
    if (argc > 1 && !strcmp(argv[1], "layout")) {
        layout_print();
        return 0;
    }
    status = mad_open(key, strlen(key), &t.session);
    if (!status)
        status = mad_channel_open(t.session, "chat", &t.channel);
    if (!status)
        status = mad_address(t.session, (const void **)&address, &n);
    if (status) {
        printf("open failed: %s\n", mad_status_text(status));
        return 1;
    }
    printf("address ");
    for (size_t i = 0; i < n; i++)
        printf("%02x", address[i]);
    printf("\n");
    while (poll(&input, 1, t.deaf ? 2 : 0) <= 0 || line_obey(&t)) {
        receive(&t);
        while (!mad_event_next(t.session, &event))
            printf("event: %s\n", event.text);
    }
    mad_exit(t.session);
    printf("bye\n");
    return 0;
}
