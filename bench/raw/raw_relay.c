/* SPDX-License-Identifier: BSD-3-Clause */
/* The floor of a gateway: two processes over sockets, directly and through a third process.  The third process only copies
 * bytes from one socket to the other, in both directions, as they arrive; so a long message is in both networks at once.
 *
 *   raw_relay [--wait spin|yield|sleep] [--test pingpong|bandwidth] [--sizes LIST] [--iters N] [--batches N] [--json]
 *       over loopback, first directly, then through the relay: rows "raw_direct" and "raw_relay"
 *   raw_relay --through COMMAND ...
 *       only through that program, which finds the two sockets as descriptors 3 and 4: row "through"
 *   raw_relay --listen PORT ...                     the far end, on a host of its own
 *   raw_relay --listen PORT --to HOST:PORT ...      the relay
 *   raw_relay --to HOST:PORT ...                    the near end, which prints a row "raw_direct"
 *
 * All processes wait in the manner of --wait. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "pair.h"
#include "tcp_pair.h"

#define RING (256 * 1024) /* bytes of one direction; 64 KiB to 1 MiB make no difference */
#define PATIENCE 10       /* seconds to wait for the other end to listen */

enum how { SPIN, YIELD, SLEEP };

typedef struct side {
    pair_t pair;
    int fd;
    enum how how;
} side_t;

static void wait_for(enum how how, struct pollfd *fds, nfds_t n)
{
    if (how == YIELD)
        sched_yield();
    else if (how == SLEEP)
        poll(fds, n, -1);
}

static int move_all(side_t *side, char *buf, size_t len, bool out)
{
    while (len) {
        ssize_t n = out ? send(side->fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(side->fd, buf, len, MSG_DONTWAIT);
        if (n > 0) {
            buf += n, len -= (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            struct pollfd p = {side->fd, out ? POLLOUT : POLLIN, 0};
            wait_for(side->how, &p, 1);
        } else {
            return -1;
        }
    }
    return 0;
}

static int message_send(pair_t *pair)
{
    return move_all((side_t *)pair, pair->send, pair->size, true);
}

static int message_receive(pair_t *pair)
{
    return move_all((side_t *)pair, pair->receive, pair->size, false);
}

static int pingpong_body(void *arg, int n)
{
    return pair_turns(arg, n, message_send, message_receive);
}

static int answer(pair_t *pair)
{
    char byte = 0;
    return move_all((side_t *)pair, &byte, 1, !pair->first);
}

static int window_body(void *arg, int n)
{
    return pair_windows(arg, n, message_send, message_receive, answer);
}

/* ---- The relay ------------------------------------------------------------------------------------------------- */

typedef struct way {
    int from, to;
    char *ring;
    size_t head, tail; /* bytes read and written so far */
    bool ended;        /* true: no further bytes will arrive */
} way_t;

static bool way_done(const way_t *w)
{
    return w->ended && w->head == w->tail;
}

/* Move the bytes that can be moved in one direction now; -1 if an end has closed.  Bytes that arrived before are still
 * passed on. */
static int way_move(way_t *w)
{
    size_t at = w->tail % RING, room = RING - (w->tail - w->head), part;
    ssize_t n;
    int moved = 0;
    if (room && !w->ended) {
        part = room < RING - at ? room : RING - at;
        n = recv(w->from, w->ring + at, part, MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (n >= 0)
            w->tail += (size_t)n, w->ended = n == 0, moved = 1;
        if (way_done(w))
            shutdown(w->to, SHUT_WR);
    }
    at = w->head % RING;
    part = w->tail - w->head < RING - at ? w->tail - w->head : RING - at;
    if (!part)
        return moved;
    n = send(w->to, w->ring + at, part, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return -1;
    if (n > 0)
        w->head += (size_t)n, moved = 1;
    if (way_done(w))
        shutdown(w->to, SHUT_WR);
    return moved;
}

/* Relay until both ends have closed. */
static _Noreturn void relay(int a, int b, enum how how)
{
    way_t ways[2] = {{a, b, malloc(RING), 0, 0, false}, {b, a, malloc(RING), 0, 0, false}};
    if (!ways[0].ring || !ways[1].ring)
        _exit(1);
    while (!way_done(&ways[0]) || !way_done(&ways[1])) {
        int moved = 0;
        for (int i = 0; i < 2; i++) {
            int rc = way_move(&ways[i]);
            if (rc < 0)
                _exit(0);
            moved += rc;
        }
        if (!moved) {
            struct pollfd p[2] = {{a, 0, 0}, {b, 0, 0}};
            for (int i = 0; i < 2; i++) {
                way_t *w = &ways[i];
                p[i].events = (short)(!w->ended && w->tail - w->head < RING ? POLLIN : 0);
            }
            for (int i = 0; i < 2; i++)
                p[!i].events |= (short)(ways[i].tail > ways[i].head ? POLLOUT : 0);
            wait_for(how, p, 2);
        }
    }
    _exit(0);
}

/* Run another program as the relay, with the sockets as descriptors 3 and 4, in blocking mode as usual. */
static void relay_run(int a, int b, const char *command)
{
    int fds[2] = {fcntl(a, F_DUPFD, 10), fcntl(b, F_DUPFD, 10)};
    for (int i = 0; i < 2; i++)
        if (fds[i] < 0 || fcntl(fds[i], F_SETFL, 0) || dup2(fds[i], 3 + i) < 0)
            _exit(126);
    close_range(5, ~0U, 0);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

/* Start the relay between the two ends: fds[0] and fds[1] become its outer ends. */
static pid_t relay_start(int fds[2], enum how how, const char *command)
{
    int in[2], out[2];
    pid_t pid;
    if (tcp_pair(in) || tcp_pair(out) || (pid = fork()) < 0)
        return -1;
    if (!pid && command)
        relay_run(in[1], out[0], command);
    if (!pid) {
        close(in[0]);
        close(out[1]);
        relay(in[1], out[0], how);
    }
    close(in[1]);
    close(out[0]);
    fds[0] = in[0];
    fds[1] = out[1];
    return pid;
}

/* ---- The ends -------------------------------------------------------------------------------------------------- */

static int measure(side_t *side, const bench_options_t *o, bool stream)
{
    return pair_buffers(&side->pair, o) || pair_test(&side->pair, o, stream, stream ? window_body : pingpong_body, side);
}

/* Measure over loopback, with all processes started here. */
static int run(const bench_options_t *o, const char *who, bool relayed, const char *command, enum how how, bool stream)
{
    side_t side = {.pair = {.who = who}, .how = how};
    int fds[2], rc;
    pid_t child, middle = 0;
    if (relayed ? (middle = relay_start(fds, how, command)) < 0 : tcp_pair(fds))
        return perror("raw_relay"), 1;
    child = pair_fork(o, fds);
    if (child < 0)
        return 1;
    side.pair.first = child != 0;
    side.fd = fds[child ? 0 : 1];
    rc = measure(&side, o, stream);
    close(side.fd);
    if (!child)
        _exit(rc);
    rc = pair_end(child, rc);
    if (middle) {
        kill(middle, SIGTERM);
        waitpid(middle, NULL, 0);
    }
    return rc;
}

/* ---- On hosts of their own --------------------------------------------------------------------------------------- */

static int far_accept(const char *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int one = 1, fd = -1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!bind(listener, (struct sockaddr *)&a, sizeof a) && !listen(listener, 1))
        fd = accept(listener, NULL, NULL);
    close(listener);
    return fd;
}

/* Connect as soon as the other end listens. */
static int near_connect(const char *to)
{
    char host[256], port[16];
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *a;
    struct timespec pause = {0, 5000000};
    int fd;
    if (sscanf(to, "%255[^:]:%15[0-9]", host, port) != 2)
        return errno = EINVAL, -1;
    if (getaddrinfo(host, port, &hints, &a))
        return errno = EHOSTUNREACH, -1;
    for (uint64_t start = bench_now();;) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || !connect(fd, a->ai_addr, a->ai_addrlen) || errno != ECONNREFUSED ||
            bench_now() - start > PATIENCE * UINT64_C(1000000000))
            break;
        close(fd);
        nanosleep(&pause, NULL);
    }
    freeaddrinfo(a);
    return fd;
}

/* Run the part of this process: far end, relay, or near end. */
static int part(const bench_options_t *o, const char *listen, const char *to, enum how how, bool stream)
{
    side_t side = {.pair = {.who = "raw_direct", .first = !listen}, .how = how};
    int in = listen ? far_accept(listen) : -1, out = to ? near_connect(to) : -1;
    if ((listen && (in < 0 || tcp_ready(in))) || (to && (out < 0 || tcp_ready(out))))
        return perror("raw_relay"), 1;
    if (listen && to)
        relay(in, out, how);
    side.fd = listen ? in : out;
    return measure(&side, o, stream);
}

int main(int argc, char **argv)
{
    const char *wait = pair_option(&argc, argv, "--wait", "spin"), *test = pair_option(&argc, argv, "--test", "pingpong");
    const char *through = pair_option(&argc, argv, "--through", NULL), *to = pair_option(&argc, argv, "--to", NULL);
    const char *listen = pair_option(&argc, argv, "--listen", NULL);
    bool stream = !strcmp(test, "bandwidth");
    enum how how = !strcmp(wait, "sleep") ? SLEEP : !strcmp(wait, "yield") ? YIELD : SPIN;
    bench_options_t o;
    if (bench_options_parse(&o, argc, argv, 1, stream ? "64K,1M,4M" : "8,1K,64K,1M"))
        return 2;
    if (o.help) {
        puts("raw_relay [--wait spin|yield|sleep] [--test pingpong|bandwidth] [--sizes LIST] [--iters N] [--batches N] "
             "[--json]\n"
             "          [--through COMMAND | [--listen PORT] [--to HOST:PORT]]\n"
             "sockets over loopback, directly and through a relay; through a command; or one part of it");
        return 0;
    }
    if (listen || to)
        return part(&o, listen, to, how, stream);
    if (through)
        return run(&o, "through", true, through, how, stream);
    return run(&o, "raw_direct", false, NULL, how, stream) || run(&o, "raw_relay", true, NULL, how, stream);
}
