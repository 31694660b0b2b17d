/* SPDX-License-Identifier: BSD-3-Clause */
/* The ping-pong, and windows of messages, of two processes through a third one in which libzmq's zmq_proxy forwards: over
 * TCP on loopback.
 *
 *   peer_zmq [--test pingpong|bandwidth] [--sizes LIST] [--iters N] [--batches N] [--json]
 *
 * Messages are sent from the program's buffer and received into it (zmq_send and zmq_recv copy once each). */
#include <signal.h>
#include <zmq.h>

#include "pair.h"

typedef struct side {
    pair_t pair;
    void *socket;
} side_t;

typedef struct place {
    char text[2][64]; /* where the proxy listens, for each end */
} place_t;

static void proxy(int fd)
{
    void *context = zmq_ctx_new(), *ends[2];
    place_t place;
    for (int i = 0; i < 2; i++) {
        size_t len = sizeof place.text[i];
        ends[i] = zmq_socket(context, ZMQ_DEALER);
        if (!ends[i] || zmq_bind(ends[i], "tcp://127.0.0.1:*") ||
            zmq_getsockopt(ends[i], ZMQ_LAST_ENDPOINT, place.text[i], &len))
            _exit(1);
    }
    if (write(fd, &place, sizeof place) == sizeof place)
        zmq_proxy(ends[0], ends[1], NULL);
    _exit(1);
}

static int message_send(pair_t *pair)
{
    return zmq_send(((side_t *)pair)->socket, pair->send, pair->size, 0) == (int)pair->size ? 0 : -1;
}

static int message_receive(pair_t *pair)
{
    return zmq_recv(((side_t *)pair)->socket, pair->receive, pair->size, 0) == (int)pair->size ? 0 : -1;
}

static int answer(pair_t *pair)
{
    char byte = 0;
    void *s = ((side_t *)pair)->socket;
    return (pair->first ? zmq_recv(s, &byte, 1, 0) : zmq_send(s, &byte, 1, 0)) == 1 ? 0 : -1;
}

static int pingpong_body(void *arg, int n)
{
    return pair_turns(arg, n, message_send, message_receive);
}

static int window_body(void *arg, int n)
{
    return pair_windows(arg, n, message_send, message_receive, answer);
}

static int measure(const bench_options_t *o, const place_t *place, bool stream)
{
    side_t side = {.pair = {.who = "zmq_proxy"}};
    pid_t child = pair_fork(o, NULL); /* fork first: a context of libzmq does not survive a fork */
    void *context;
    int rc;
    if (child < 0)
        return 1;
    side.pair.first = child != 0;
    context = zmq_ctx_new();
    side.socket = zmq_socket(context, ZMQ_DEALER);
    rc = !side.socket || zmq_connect(side.socket, place->text[child ? 0 : 1]) || pair_buffers(&side.pair, o);
    rc = rc || pair_test(&side.pair, o, stream, stream ? window_body : pingpong_body, &side);
    if (!rc && !zmq_close(side.socket))
        zmq_ctx_term(context); /* this call waits until the last answer has left */
    if (!child)
        _exit(rc);
    return pair_end(child, rc);
}

int main(int argc, char **argv)
{
    const char *test = pair_option(&argc, argv, "--test", "pingpong");
    bench_options_t o;
    place_t place;
    int fds[2], rc = 1;
    pid_t middle;
    if (bench_options_parse(&o, argc, argv, 1, "8,1K,64K,1M"))
        return 2;
    if (pipe(fds) || (middle = fork()) < 0)
        return perror("peer_zmq"), 1;
    if (!middle)
        proxy(fds[1]);
    close(fds[1]);
    if (read(fds[0], &place, sizeof place) == sizeof place)
        rc = measure(&o, &place, !strcmp(test, "bandwidth"));
    kill(middle, SIGTERM);
    waitpid(middle, NULL, 0);
    return rc;
}
