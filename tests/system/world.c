/* SPDX-License-Identifier: BSD-3-Clause */
/* Small programs for the tests of hosts and of faulty environments.
 *
 *   world talk             every rank sends to and receives from every other; prints which driver was used
 *   world twice            a second session of the rank, in this process or in a child, is refused; then as talk
 *   world watch busy|idle  ranks 0 and 1 communicate until one of them is lost; prints the reports, and their times
 *   world serve FILE KEY   a session without a launcher: writes its address to FILE, and answers until its input ends
 *   world call FILE KEY    sends a request to that server; prints the answer, or the error, the event and the explanation
 *   world mismatch         ranks 0 and 1 disagree about a block, then agree about another message
 *   world listen           opens a session of one process and ends it; prints its adapters */
#include <madeleine.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static mad_session_t *session;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static int fail(const char *what, mad_status_t status)
{
    printf("world: rank %d: %s: %s\n", session ? mad_rank(session) : -1, what, mad_status_name(status));
    fflush(stdout);
    return 1;
}

/* Print the events that have been reported, one on each line. */
static void events_print(void)
{
    mad_event_t event;
    while (mad_event_next(session, &event) == MAD_OK)
        printf("event %s peer %d: %s\n", mad_status_name(event.status), event.peer, event.text);
    fflush(stdout);
}

/* ---- talk ----------------------------------------------------------------------------------------------------- */

static const size_t lengths[] = {8, 5000, 300000};
#define COUNT (sizeof lengths / sizeof lengths[0])

static void fill(unsigned char *p, size_t len, int from, int to)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (unsigned char)(i * 7 + i / 251 + (size_t)from * 31 + (size_t)to * 17);
}

static bool holds(const unsigned char *p, size_t len, int from, int to)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] != (unsigned char)(i * 7 + i / 251 + (size_t)from * 31 + (size_t)to * 17))
            return false;
    return true;
}

static mad_status_t receive_one(mad_channel_t *channel)
{
    mad_message_t *message;
    mad_status_t status = mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, 30 * SECOND, &message);
    uint32_t which = 0;
    unsigned char *p;
    int from;
    if (status)
        return status;
    from = mad_message_peer(message);
    mad_unpack(message, &which, sizeof which, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    p = calloc(1, lengths[which % COUNT]);
    if (!p)
        return MAD_ERR_NOMEM;
    mad_unpack(message, p, lengths[which % COUNT], MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking(message);
    if (!status && !holds(p, lengths[which % COUNT], from, mad_rank(session)))
        status = MAD_ERR_PROTOCOL;
    free(p);
    return status;
}

static int talk(void)
{
    int me = mad_rank(session), size = mad_size(session), n = 0;
    mad_request_t **requests = calloc((size_t)size * COUNT, sizeof *requests);
    unsigned char **bodies = calloc((size_t)size * COUNT, sizeof *bodies);
    mad_status_t status = requests && bodies ? MAD_OK : MAD_ERR_NOMEM;
    mad_channel_t *channel;
    char host[64] = "", why[2048];
    if (!status)
        status = mad_channel_open(session, "talk", &channel);
    for (int peer = 0; peer < size && !status; peer++)
        for (uint32_t which = 0; which < COUNT && peer != me && !status; which++, n++) {
            mad_block_t blocks[2] = {{&which, sizeof which, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                                     {NULL, lengths[which], MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}};
            blocks[1].base = bodies[n] = malloc(lengths[which]);
            fill(bodies[n], lengths[which], me, peer);
            status = mad_message_send(channel, peer, blocks, 2, &requests[n]);
        }
    if (status)
        return fail("send", status);
    for (int i = 0; i < n; i++)
        if ((status = receive_one(channel)))
            return fail("receive", status);
    for (int i = 0; i < n; i++) {
        if ((status = mad_request_wait(&requests[i], 30 * SECOND)))
            return fail("wait for a send", status);
        free(bodies[i]);
    }
    gethostname(host, sizeof host - 1);
    for (int peer = 0; peer < size; peer++)
        if (peer != me && !mad_peer_explain(session, peer, why, sizeof why))
            printf("%d on %s to %d: %s\n", me, host, peer, why);
    fflush(stdout);
    mad_barrier(session);
    free(requests);
    free(bodies);
    return 0;
}

/* ---- twice ---------------------------------------------------------------------------------------------------- */

/* Check a child of a rank: it can have a session of its own, but not of the job, to which the parent belongs. */
static int child_of_rank(void)
{
    mad_session_t *own = NULL;
    mad_status_t status = mad_init(NULL, NULL, &own);
    if (mad_barrier(session) != MAD_ERR_FORKED)
        return fail("a parent's session", MAD_ERR_SYSTEM);
    if (status != MAD_ERR_BOOT || own)
        return fail("the job's session in a child", status);
    status = mad_open("of the child only", 17, &own);
    mad_exit(own);
    return status ? fail("a session of a child", status) : 0;
}

static int twice(void)
{
    mad_session_t *second = NULL;
    mad_status_t status = mad_init(NULL, NULL, &second);
    pid_t child;
    int rc = -1;
    if (status != MAD_ERR_BOOT || second)
        return fail("a second session", status);
    child = fork();
    if (child == 0)
        _exit(child_of_rank());
    if (child < 0 || waitpid(child, &rc, 0) != child || rc)
        return fail("a session of a child", MAD_ERR_SYSTEM);
    return talk();
}

/* ---- watch ---------------------------------------------------------------------------------------------------- */

static mad_status_t watch_round(mad_channel_t *channel, int peer, bool first, void *body, size_t len)
{
    const int64_t limit = 100 * SECOND;
    mad_block_t block = {body, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    mad_status_t status = MAD_OK;
    for (int turn = 0; turn < 2 && !status; turn++) {
        if (first == !turn)
            status = mad_message_send(channel, peer, &block, 1, &request);
        else
            status = mad_message_receive(channel, peer, &block, 1, &request);
        if (!status)
            status = mad_request_wait(&request, limit);
    }
    return status;
}

/* Communicate until the peer is lost.  idle: after one round both ranks wait for a message that never arrives, so only the
 * network can report the loss. */
static int watch(bool idle)
{
    mad_channel_t *channel;
    int me = mad_rank(session), peer = !me;
    size_t len = 20000;
    char *body = calloc(1, len);
    mad_status_t status = mad_channel_open(session, "watch", &channel);
    int64_t last = now();
    while (!status && !(status = watch_round(channel, peer, me == 0, body, len))) {
        if (last && (idle || me == 0)) {
            printf("%d talks\n", me);
            fflush(stdout);
        }
        last = now();
        if (idle) {
            mad_message_t *message;
            status = mad_begin_unpacking_within(channel, peer, 100 * SECOND, &message);
            break;
        }
        usleep(1000); /* pause between two rounds, not a wait for an event */
    }
    printf("%d: %s after %lld ms\n", me, mad_status_name(status), (long long)((now() - last) / 1000000));
    events_print();
    free(body);
    return status == MAD_ERR_PEER ? 0 : 1;
}

/* ---- serve and call ------------------------------------------------------------------------------------------- */

/* A request: 20,000 bytes there and back, with a block about which the two sides may disagree. */
typedef struct call {
    uint32_t answer;
    char text[20000];
} call_t;

static mad_handled_t on_call(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    static call_t call = {.answer = 42};
    mad_block_t block = {&call, sizeof call, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    char question;
    (void)arg;
    mad_unpack_try(message, &question, 1, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    if (!mad_message_send(channel, mad_message_peer(message), &block, 1, &request))
        mad_request_detach(request, NULL, NULL);
    return MAD_CONSUMED;
}

static int serve(const char *file)
{
    mad_channel_t *channel;
    const void *address;
    size_t len;
    char c, name[512];
    FILE *f;
    mad_status_t status = mad_channel_open(session, "call", &channel);
    if (!status)
        status = mad_channel_handler_set(channel, on_call, NULL);
    if (!status)
        status = mad_address(session, &address, &len);
    if (status)
        return fail("serve", status);
    snprintf(name, sizeof name, "%s.new", file);
    f = fopen(name, "w");
    if (!f || fwrite(address, 1, len, f) != len || fclose(f) || rename(name, file))
        return fail("the address cannot be written", MAD_ERR_SYSTEM);
    for (;;) { /* some thread must make progress, so the input is checked every 10 ms */
        mad_message_t *message;
        fd_set set;
        struct timeval none = {0, 0};
        FD_ZERO(&set);
        FD_SET(0, &set);
        if (select(1, &set, NULL, NULL, &none) > 0 && read(0, &c, 1) <= 0)
            break;
        if (mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, SECOND / 100, &message) == MAD_OK)
            mad_end_unpacking(message);
        events_print();
    }
    return 0;
}

static int call(const char *file)
{
    unsigned char address[4096];
    char why[2048] = "";
    static call_t answer;
    mad_block_t question = {(void *)"?", 1, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_block_t block = {&answer, sizeof answer, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    mad_channel_t *channel;
    mad_peer_t peer;
    int64_t begun = now();
    FILE *f = fopen(file, "r");
    size_t len = f ? fread(address, 1, sizeof address, f) : 0;
    mad_status_t status = mad_peer_add(session, address, len, &peer);
    if (f)
        fclose(f);
    if (status)
        return fail("the server's address", status);
    status = mad_channel_open(session, "call", &channel);
    if (!status)
        status = mad_message_send(channel, peer, &question, 1, &request);
    if (!status)
        status = mad_request_wait(&request, 60 * SECOND);
    if (!status)
        status = mad_message_receive(channel, peer, &block, 1, &request);
    if (!status)
        status = mad_request_wait(&request, 60 * SECOND);
    mad_peer_explain(session, peer, why, sizeof why);
    printf("call: %s %u after %lld ms\nexplained: %s\n", mad_status_name(status), answer.answer,
           (long long)((now() - begun) / 1000000), why);
    events_print();
    return status || answer.answer != 42;
}

/* ---- mismatch ------------------------------------------------------------------------------------------------- */

static int mismatch(void)
{
    mad_channel_t *channel;
    int me = mad_rank(session);
    char body[16] = "";
    mad_status_t wrong = MAD_OK, right = mad_channel_open(session, "mismatch", &channel);
    for (size_t len = 16; len >= 8 && !right; len -= 8) { /* the receiver expects 8 bytes both times */
        mad_message_t *message = me == 0 ? mad_begin_packing(channel, 1) : mad_begin_unpacking(channel);
        mad_status_t status;
        if (me == 0) {
            mad_pack(message, body, len, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
            status = mad_end_packing(message);
        } else {
            mad_unpack(message, body, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
            status = mad_end_unpacking(message);
        }
        if (len == 16)
            wrong = status;
        else
            right = status;
    }
    mad_barrier(session);
    for (int64_t end = now() + SECOND / 2; now() < end;) /* the receiver's report has to reach the sender */
        mad_progress(session);
    printf("%d: %s then %s\n", me, mad_status_name(wrong), mad_status_name(right));
    events_print();
    return right != MAD_OK;
}

/* ---- Start ---------------------------------------------------------------------------------------------------- */

static int listen_only(void)
{
    for (int i = 0; i < mad_adapter_count(session); i++) {
        mad_adapter_info_t info;
        if (!mad_adapter_get(session, i, &info))
            printf("%s %s on %s\n", info.driver, info.name, info.network);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    bool open = argc == 4;
    mad_status_t status;
    int rc = 2;
    alarm(150);
    if (open)
        status = mad_open(argv[3], strlen(argv[3]), &session);
    else
        status = mad_init(NULL, NULL, &session);
    if (status)
        return fail("the session does not start", status);
    if (!strcmp(mode, "talk"))
        rc = talk();
    else if (!strcmp(mode, "twice"))
        rc = twice();
    else if (!strcmp(mode, "mismatch"))
        rc = mismatch();
    else if (!strcmp(mode, "listen"))
        rc = listen_only();
    else if (!strcmp(mode, "watch") && argc == 3)
        rc = watch(!strcmp(argv[2], "idle"));
    else if (!strcmp(mode, "serve") && open)
        rc = serve(argv[2]);
    else if (!strcmp(mode, "call") && open)
        rc = call(argv[2]);
    fflush(stdout);
    mad_exit(session);
    return rc;
}
