/* SPDX-License-Identifier: BSD-3-Clause */
/* One process to which many others connect over tcp.  This process writes its address to FILE, which the others read.
 *
 *   tcp_load hub FILE N       receives all messages of N callers (call), answers each, and prints how many were complete
 *   tcp_load call FILE ID     opens a session, sends some messages, and ends at once, with answers that it has not read
 *   tcp_load wait FILE N S    N sessions connect to it (links); then waits S seconds for a message that does not arrive,
 *                             and prints the cost of the wait: milliseconds of processor time, number of sleeps
 *   tcp_load links FILE N     opens N sessions, connects each (again if it is refused), and stays until its input ends
 *   tcp_load few FILE N SPARE as wait, but has only SPARE free descriptors while N sessions connect; then it gets more
 */
#include <madeleine.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define KEY "the key of the test"
#define SECOND INT64_C(1000000000)
#define LEN_MAX 150000

typedef struct head {
    uint32_t caller, index, count, len;
} head_t;

static int fail(const char *what, mad_status_t status)
{
    printf("tcp_load: %s: %s\n", what, mad_status_text(status));
    return 1;
}

static mad_status_t start(mad_session_t **s, mad_channel_t **ch)
{
    mad_status_t status = mad_open(KEY, strlen(KEY), s);
    return status ? status : mad_channel_open(*s, "load", ch);
}

static int address_write(mad_session_t *s, const char *file)
{
    char name[4096];
    const void *address;
    size_t len;
    FILE *f;
    snprintf(name, sizeof name, "%s.new", file);
    f = fopen(name, "w");
    if (!f || mad_address(s, &address, &len) != MAD_OK)
        return perror(name), -1;
    fwrite(address, 1, len, f);
    return fclose(f) || rename(name, file) ? -1 : 0;
}

static mad_status_t peer_read(mad_session_t *s, const char *file, mad_peer_t *peer)
{
    char address[4096];
    FILE *f = fopen(file, "r");
    size_t len = f ? fread(address, 1, sizeof address, f) : 0;
    if (f)
        fclose(f);
    return mad_peer_add(s, address, len, peer);
}

static unsigned char byte_of(const head_t *h, uint32_t i)
{
    return (unsigned char)(i * 7 + h->caller * 31 + h->index * 17);
}

/* ---- hub and call --------------------------------------------------------------------------------------------- */

/* Send an answer, which the caller may not read any more. */
static void answer(mad_channel_t *ch, mad_peer_t peer, const head_t *h)
{
    static char text[20000];
    mad_block_t b = {text, h->len % sizeof text, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    if (mad_message_send(ch, peer, &b, 1, &request) == MAD_OK)
        mad_request_detach(request, NULL, NULL);
}

/* Receive one message into body.  False if the message was not complete, or not the next one of its sender. */
static bool hub_receive(mad_channel_t *ch, mad_message_t *message, unsigned char *body, uint32_t *next, uint32_t callers,
                        head_t *h)
{
    mad_peer_t peer = mad_message_peer(message);
    mad_status_t status;
    memset(h, 0, sizeof *h);
    mad_unpack(message, h, sizeof *h, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    if (h->len <= LEN_MAX)
        mad_unpack(message, body, h->len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking(message);
    if (status || h->len > LEN_MAX || h->caller >= callers || h->index != next[h->caller])
        return !fail("a message that is not whole or not the next", status);
    next[h->caller]++;
    for (uint32_t i = 0; i < h->len; i++)
        if (body[i] != byte_of(h, i))
            return !fail("a wrong byte", MAD_OK);
    answer(ch, peer, h);
    return true;
}

static int hub(const char *file, uint32_t callers)
{
    mad_session_t *s;
    mad_channel_t *ch;
    mad_status_t status = start(&s, &ch);
    uint32_t *next = calloc(callers, sizeof *next), whole = 0, messages = 0;
    unsigned char *body = malloc(LEN_MAX);
    mad_message_t *message;
    head_t h;
    if (status || !next || !body || address_write(s, file))
        return fail("hub", status);
    while (whole < callers) {
        status = mad_begin_unpacking_within(ch, MAD_ANY_SOURCE, 20 * SECOND, &message);
        if (status || !hub_receive(ch, message, body, next, callers, &h))
            break;
        messages++;
        whole += next[h.caller] == h.count;
    }
    printf("%u of %u callers were received completely, %u messages, %s\n", whole, callers, messages,
           mad_status_name(status));
    mad_exit(s);
    free(next);
    free(body);
    return whole != callers;
}

static int call(const char *file, uint32_t id)
{
    mad_session_t *s;
    mad_channel_t *ch;
    mad_peer_t peer;
    mad_status_t status = start(&s, &ch);
    unsigned char *body = malloc(LEN_MAX);
    uint32_t dice = id * 2654435761u + 1;
    head_t h = {.caller = id, .count = 1 + (dice >> 8) % 12};
    if (status || !body || (status = peer_read(s, file, &peer)))
        return fail("call", status);
    for (; h.index < h.count && !status; h.index++) {
        mad_message_t *message = mad_begin_packing(ch, peer);
        dice = dice * 1664525u + 1013904223u;
        h.len = (dice >> 8) % (dice % 5 ? 2000 : LEN_MAX);
        for (uint32_t i = 0; i < h.len; i++)
            body[i] = byte_of(&h, i);
        mad_pack(message, &h, sizeof h, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
        mad_pack(message, body, h.len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        status = mad_end_packing(message);
    }
    mad_exit(s);
    free(body);
    return status ? fail("call", status) : 0;
}

/* ---- Many links ----------------------------------------------------------------------------------------------- */

static int64_t cpu_ms(const struct rusage *u)
{
    return (u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000 + (u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1000;
}

/* Receive up to n messages, until none arrives for `seconds`.  Return their number. */
static int receive_some(mad_channel_t *ch, int n, int seconds)
{
    mad_message_t *message;
    int received = 0;
    while (received < n && mad_begin_unpacking_within(ch, MAD_ANY_SOURCE, seconds * SECOND, &message) == MAD_OK)
        received += mad_end_unpacking(message) == MAD_OK;
    return received;
}

static mad_status_t measured_wait(mad_channel_t *ch, const char *what, int seconds)
{
    struct rusage before, after;
    mad_message_t *message;
    mad_status_t status;
    getrusage(RUSAGE_SELF, &before);
    status = mad_begin_unpacking_within(ch, MAD_ANY_SOURCE, seconds * SECOND, &message);
    getrusage(RUSAGE_SELF, &after);
    printf("%s %d s: %lld ms of processor, %ld sleeps\n", what, seconds, (long long)(cpu_ms(&after) - cpu_ms(&before)),
           after.ru_nvcsw - before.ru_nvcsw);
    return status == MAD_ERR_TIMEOUT ? MAD_OK : status ? status : MAD_ERR_PROTOCOL;
}

static int wait_long(const char *file, int links, int seconds)
{
    mad_session_t *s;
    mad_channel_t *ch;
    mad_status_t status = start(&s, &ch);
    if (status || address_write(s, file))
        return fail("wait", status);
    status = receive_some(ch, links, 30) == links ? measured_wait(ch, "waited", seconds) : MAD_ERR_TIMEOUT;
    mad_exit(s);
    return status ? fail("wait", status) : 0;
}

static int few(const char *file, int links, int spare)
{
    struct rlimit all, now;
    mad_session_t *s;
    mad_channel_t *ch;
    mad_status_t status = start(&s, &ch);
    int received, next = open("/dev/null", O_RDONLY);
    if (status || next < 0 || getrlimit(RLIMIT_NOFILE, &all))
        return fail("few", status);
    now = all;
    now.rlim_cur = (rlim_t)next + (rlim_t)spare;
    close(next);
    if (setrlimit(RLIMIT_NOFILE, &now) || address_write(s, file))
        return fail("few", MAD_ERR_SYSTEM);
    received = receive_some(ch, 1, 30); /* on a busy machine the first message may take long */
    received += received ? receive_some(ch, links - 1, 3) : 0;
    printf("%d received at first\n", received);
    if (received == 0 || received == links)
        status = MAD_ERR_PROTOCOL;
    if (!status)
        status = measured_wait(ch, "without descriptors", 2);
    setrlimit(RLIMIT_NOFILE, &all);
    if (!status && receive_some(ch, links - received, 30) != links - received)
        status = MAD_ERR_TIMEOUT;
    printf("received %s\n", status ? "not all" : "all");
    mad_exit(s);
    return status != MAD_OK;
}

/* Open a session and connect. */
static mad_status_t link_call(const char *file, mad_session_t **s, mad_request_t **request)
{
    mad_channel_t *ch;
    mad_peer_t peer;
    mad_status_t status = start(s, &ch);
    if (!status)
        status = peer_read(*s, file, &peer);
    return status ? status : mad_message_send(ch, peer, NULL, 0, request);
}

/* Make progress.  A session that was refused is replaced by a new one, which connects again.  *open: true if some sessions
 * are not connected yet. */
static mad_status_t links_turn(const char *file, int n, mad_session_t **s, mad_request_t **requests, bool *open)
{
    bool away = false;
    *open = false;
    for (int i = 0; i < n; i++) {
        mad_status_t status = requests[i] ? mad_request_test(&requests[i]) : MAD_OK;
        if (!s[i])
            status = link_call(file, &s[i], &requests[i]);
        if (status == MAD_ERR_PEER) {
            mad_exit(s[i]);
            s[i] = NULL;
            away = true;
        } else if (status && status != MAD_ERR_AGAIN) {
            return status;
        }
        *open |= requests[i] || !s[i];
    }
    if (away)
        nanosleep(&(struct timespec){.tv_nsec = 200000000},
                  NULL); /* pause between connections, so that they cost the other side little */
    return MAD_OK;
}

static int links(const char *file, int n)
{
    mad_session_t **s = calloc((size_t)n, sizeof *s);
    mad_request_t **requests = calloc((size_t)n, sizeof *requests);
    mad_status_t status = MAD_OK;
    char byte;
    for (bool open = true; open && !status;) /* each session makes its own progress */
        status = links_turn(file, n, s, requests, &open);
    if (!status)
        while (read(STDIN_FILENO, &byte, 1) > 0)
            ;
    for (int i = 0; i < n; i++)
        mad_exit(s[i]);
    free(s);
    free(requests);
    return status ? fail("links", status) : 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 3 ? argv[1] : "", *file = argc > 3 ? argv[2] : "";
    int n = argc > 3 ? atoi(argv[3]) : 0, m = argc > 4 ? atoi(argv[4]) : 0;
    if (!strcmp(what, "hub"))
        return hub(file, (uint32_t)n);
    if (!strcmp(what, "call"))
        return call(file, (uint32_t)n);
    if (!strcmp(what, "wait"))
        return wait_long(file, n, m);
    if (!strcmp(what, "few"))
        return few(file, n, m);
    if (!strcmp(what, "links"))
        return links(file, n);
    fprintf(stderr, "usage: tcp_load hub|call|wait|few|links FILE N [M]\n");
    return 2;
}
