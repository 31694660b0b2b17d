/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of 8 bytes for counting their instructions: instr self|shm|tcp [request|callback|call|posted|unexpected].
 *
 * instr_send is one message from begin to end of packing, instr_receive from begin to end of unpacking; the message has
 * arrived before, untouched.  With request, callback or call, it is up to the end of the request.
 *
 * With posted or unexpected, messages go one way, in windows of 64.  instr_receive_post posts a receive and
 * instr_receive_wait waits for it, once the whole window has arrived.  instr_receive_mark opens a message that was sent on
 * another channel after the window, so the window's messages are unexpected.
 *
 * callgrind counts the instructions, for example
 *     valgrind --tool=callgrind --toggle-collect='instr_send*' --callgrind-out-file=F.%p instr shm
 * and the total is divided by the number of calls, which each process prints at its end.
 *
 * Two processes take turns, as in a ping-pong.  A pipe between them reports that a message has arrived, so that waiting
 * is never counted. */
#include <madeleine.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WARM_UP 200 /* rounds before counting, so that connections and memory exist */
#define MESSAGES 1000
#define WINDOW 64
#define WINDOWS 300

typedef mad_status_t sender_t(mad_channel_t *channel, mad_peer_t peer, const void *buf);

enum { RECEIVE_OPEN, RECEIVE_POSTED, RECEIVE_UNEXPECTED };

typedef struct side {
    mad_session_t *session;
    mad_channel_t *channel, *behind; /* behind: channel of the message after a window */
    mad_peer_t peer;
    int pipe; /* pipe to the other process */
    bool first, alone;
    sender_t *send; /* function that sends in the form to be counted */
    int receive;    /* form of receiving: RECEIVE_* */
    mad_request_t *posted[WINDOW];
    char *from, *to;
    int sent, received;
} side_t;

sender_t instr_send, instr_send_request, instr_send_callback, instr_send_call;
mad_status_t instr_receive(mad_channel_t *channel, mad_peer_t peer, void *buf);
mad_status_t instr_receive_post(mad_channel_t *channel, mad_peer_t peer, void *buf, mad_request_t **request);
mad_status_t instr_receive_wait(mad_request_t **request);
mad_status_t instr_receive_mark(mad_channel_t *channel, mad_peer_t peer);

__attribute__((noinline)) mad_status_t instr_send(mad_channel_t *channel, mad_peer_t peer, const void *buf)
{
    mad_message_t *message = mad_begin_packing(channel, peer);
    mad_pack(message, buf, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_packing(message);
}

__attribute__((noinline)) mad_status_t instr_receive(mad_channel_t *channel, mad_peer_t peer, void *buf)
{
    mad_message_t *message = mad_begin_unpacking_from(channel, peer);
    mad_unpack(message, buf, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_unpacking(message);
}

/* ---- Other forms of receiving --------------------------------------------------------------------------------- */

__attribute__((noinline)) mad_status_t instr_receive_post(mad_channel_t *channel, mad_peer_t peer, void *buf,
                                                          mad_request_t **request)
{
    mad_block_t block = {buf, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    return mad_message_receive(channel, peer, &block, 1, request);
}

__attribute__((noinline)) mad_status_t instr_receive_wait(mad_request_t **request)
{
    return mad_request_wait(request, MAD_FOREVER);
}

__attribute__((noinline)) mad_status_t instr_receive_mark(mad_channel_t *channel, mad_peer_t peer)
{
    return mad_end_unpacking(mad_begin_unpacking_from(channel, peer));
}

/* ---- Other forms of sending ----------------------------------------------------------------------------------- */

__attribute__((noinline)) mad_status_t instr_send_request(mad_channel_t *channel, mad_peer_t peer, const void *buf)
{
    mad_request_t *request;
    mad_message_t *message = mad_begin_packing(channel, peer);
    mad_pack(message, buf, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    mad_status_t status = mad_end_packing_request(message, &request);
    return status ? status : mad_request_wait(&request, MAD_FOREVER);
}

static mad_status_t called; /* status that the last callback received */

static void callback(void *arg, mad_status_t status)
{
    (void)arg;
    called = status;
}

__attribute__((noinline)) mad_status_t instr_send_callback(mad_channel_t *channel, mad_peer_t peer, const void *buf)
{
    mad_request_t *request;
    mad_message_t *message = mad_begin_packing(channel, peer);
    mad_pack(message, buf, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    mad_status_t status = mad_end_packing_request(message, &request);
    if (!status)
        mad_request_detach(request, callback, NULL);
    return status ? status : called;
}

__attribute__((noinline)) mad_status_t instr_send_call(mad_channel_t *channel, mad_peer_t peer, const void *buf)
{
    mad_request_t *request;
    mad_block_t block = {(void *)(uintptr_t)buf, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_status_t status = mad_message_send(channel, peer, &block, 1, &request);
    return status ? status : mad_request_wait(&request, MAD_FOREVER);
}

/* Like instr_send, but not counted. */
static mad_status_t warm_send(mad_channel_t *channel, mad_peer_t peer, const void *buf)
{
    mad_message_t *message = mad_begin_packing(channel, peer);
    mad_pack(message, buf, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_packing(message);
}

static mad_status_t warm_receive(side_t *s)
{
    mad_message_t *message = mad_begin_unpacking_from(s->channel, s->peer);
    mad_unpack(message, s->to, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_unpacking(message);
}

static mad_status_t message_send(side_t *s, int i, bool warm)
{
    memcpy(s->from, &i, sizeof i);
    mad_status_t status = (warm ? warm_send : s->send)(s->channel, s->peer, s->from);
    s->sent += !warm;
    if (!status && !s->alone && write(s->pipe, "", 1) != 1)
        status = MAD_ERR_SYSTEM;
    return status;
}

static mad_status_t message_receive(side_t *s, int i, bool warm)
{
    char byte;
    if (!s->alone && !warm && read(s->pipe, &byte, 1) != 1)
        return MAD_ERR_SYSTEM;
    mad_status_t status = warm ? warm_receive(s) : instr_receive(s->channel, s->peer, s->to);
    s->received += !warm;
    if (!s->alone && warm && read(s->pipe, &byte, 1) != 1)
        status = MAD_ERR_SYSTEM;
    return status ? status : memcmp(&i, s->to, sizeof i) ? MAD_ERR_PROTOCOL : MAD_OK;
}

static mad_status_t messages_run(side_t *s)
{
    mad_status_t status = MAD_OK;
    for (int i = 0; i < WARM_UP + MESSAGES && !status; i++) {
        bool warm = i < WARM_UP;
        if (s->first || s->alone)
            status = message_send(s, i, warm);
        if (!status)
            status = message_receive(s, i, warm);
        if (!status && !s->first && !s->alone)
            status = message_send(s, i, warm);
    }
    return status;
}

/* ---- Windows -------------------------------------------------------------------------------------------------- */

/* Report to the other process that it may go on, or wait for that report. */
static bool turn_give(const side_t *s)
{
    return s->alone || write(s->pipe, "", 1) == 1;
}

static bool turn_wait(const side_t *s)
{
    char byte;
    return s->alone || read(s->pipe, &byte, 1) == 1;
}

static mad_status_t window_post(side_t *s)
{
    mad_status_t status = MAD_OK;
    for (int i = 0; i < WINDOW && !status && s->receive == RECEIVE_POSTED; i++)
        status = instr_receive_post(s->channel, s->peer, s->to + 8 * i, &s->posted[i]);
    return status || turn_give(s) ? status : MAD_ERR_SYSTEM;
}

static mad_status_t window_send(side_t *s, int round)
{
    mad_status_t status = turn_wait(s) ? MAD_OK : MAD_ERR_SYSTEM;
    for (int i = 0; i < WINDOW && !status; i++, s->sent++) {
        int value = round + i;
        memcpy(s->from, &value, sizeof value);
        status = s->send(s->channel, s->peer, s->from);
    }
    if (!status && s->receive == RECEIVE_UNEXPECTED)
        status = mad_end_packing(mad_begin_packing(s->behind, s->peer));
    return status || turn_give(s) ? status : MAD_ERR_SYSTEM;
}

static mad_status_t window_receive(side_t *s, int round)
{
    mad_status_t status = turn_wait(s) ? MAD_OK : MAD_ERR_SYSTEM;
    if (!status && s->receive == RECEIVE_UNEXPECTED)
        status = instr_receive_mark(s->behind, s->peer);
    for (int i = 0; i < WINDOW && !status; i++, s->received++) {
        int value = round + i;
        char *to = s->to + 8 * i;
        status = s->receive == RECEIVE_POSTED ? instr_receive_wait(&s->posted[i]) : instr_receive(s->channel, s->peer, to);
        if (!status && memcmp(&value, to, sizeof value))
            status = MAD_ERR_PROTOCOL;
    }
    return status;
}

static mad_status_t windows_run(side_t *s)
{
    mad_status_t status = mad_channel_open(s->session, "instr behind", &s->behind);
    for (int i = 0; i < WINDOWS && !status; i++) {
        if (!s->first || s->alone)
            status = window_post(s);
        if (!status && s->first)
            status = window_send(s, i);
        if (!status && (!s->first || s->alone))
            status = window_receive(s, i);
    }
    return status;
}

/* ---- Both processes ------------------------------------------------------------------------------------------- */

static mad_status_t peer_find(side_t *s)
{
    const void *mine;
    char theirs[4096];
    size_t len;
    mad_status_t status = mad_address(s->session, &mine, &len);
    if (status || s->alone)
        return status ? status : mad_peer_add(s->session, mine, len, &s->peer);
    if (write(s->pipe, &len, sizeof len) != sizeof len || write(s->pipe, mine, len) != (ssize_t)len ||
        recv(s->pipe, &len, sizeof len, MSG_WAITALL) != sizeof len || len > sizeof theirs ||
        recv(s->pipe, theirs, len, MSG_WAITALL) != (ssize_t)len)
        return MAD_ERR_SYSTEM;
    return mad_peer_add(s->session, theirs, len, &s->peer);
}

static mad_status_t side_run(side_t *s)
{
    char byte;
    mad_status_t status = mad_open("the key of the instruction count", 32, &s->session);
    if (status)
        return status;
    status = mad_channel_open(s->session, "instr", &s->channel);
    if (!status)
        status = peer_find(s);
    if (!status)
        status = s->receive ? windows_run(s) : messages_run(s);
    /* Do not leave while the other process may still need this one. */
    if (!status && !s->alone && (write(s->pipe, "", 1) != 1 || read(s->pipe, &byte, 1) != 1))
        status = MAD_ERR_SYSTEM;
    mad_exit(s->session);
    return status;
}

/* Set how messages are sent and received.  Return false if there is no form of this name. */
static bool form_set(side_t *s, const char *name)
{
    static const struct {
        const char *name;
        sender_t *send;
        int receive;
    } forms[] = {{"", instr_send, RECEIVE_OPEN},
                 {"request", instr_send_request, RECEIVE_OPEN},
                 {"callback", instr_send_callback, RECEIVE_OPEN},
                 {"call", instr_send_call, RECEIVE_OPEN},
                 {"posted", instr_send_request, RECEIVE_POSTED},
                 {"unexpected", instr_send_request, RECEIVE_UNEXPECTED}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(name, forms[i].name)) {
            s->send = forms[i].send;
            s->receive = forms[i].receive;
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    int fds[2];
    side_t side = {.peer = 0};
    if (argc < 2 || argc > 3 || !form_set(&side, argc == 3 ? argv[2] : ""))
        return fputs("usage: instr self|shm|tcp [request|callback|call|posted|unexpected] (under callgrind)\n", stderr), 2;
    side.alone = !strcmp(argv[1], "self");
    if (setenv("MAD_PREFER", argv[1], 1) || socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        return perror("instr"), 1;
    pid_t child = side.alone ? 1 : fork();
    if (child < 0)
        return perror("instr"), 1;
    close(fds[child ? 1 : 0]);
    side.pipe = fds[child ? 0 : 1];
    side.first = child > 0;
    side.from = calloc(1, 8);
    side.to = calloc(WINDOW, 8);
    mad_status_t status = side.from && side.to ? side_run(&side) : MAD_ERR_NOMEM;
    int ended = 0;
    if (status)
        fprintf(stderr, "instr: %s\n", mad_status_text(status));
    else
        printf("{\"driver\": \"%s\", \"sent\": %d, \"received\": %d}\n", argv[1], side.sent, side.received);
    close(side.pipe);
    if (child && !side.alone)
        waitpid(child, &ended, 0);
    free(side.from);
    free(side.to);
    return status || ended ? 1 : 0;
}
