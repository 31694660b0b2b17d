/* SPDX-License-Identifier: BSD-3-Clause */
/* The floor of a gateway: two processes over loopback sockets, directly and through a third one that does nothing but
 * copy bytes from one socket to the other, both directions, as they come (so a long message is in both networks at once).
 *
 *   raw_relay [--wait spin|yield|sleep] [--test pingpong|bandwidth] [--sizes LIST] [--iters N] [--batches N] [--json]
 *
 * All three wait the same way.  Rows: who raw_direct and raw_relay. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>

#include "pair.h"
#include "tcp_pair.h"

#define RING (256 * 1024) /* bytes of one direction: 64 KiB to 1 MiB make no difference */
#define WINDOW 16         /* messages of a window, as in mad_perf */

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

static int window_body(void *arg, int n)
{
    side_t *side = arg;
    char answer = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < WINDOW; k++)
            if (side->pair.first ? message_send(&side->pair) : message_receive(&side->pair))
                return -1;
        if (move_all(side, &answer, 1, !side->pair.first))
            return -1;
    }
    return 0;
}

/* ---- The relay ------------------------------------------------------------------------------------------------- */

typedef struct way {
    int from, to;
    char *ring;
    size_t head, tail; /* read and written so far */
} way_t;

/* What can be moved one way now; -1: an end is gone. */
static int way_move(way_t *w)
{
    size_t at = w->tail % RING, room = RING - (w->tail - w->head), part;
    ssize_t n;
    int moved = 0;
    if (room) {
        part = room < RING - at ? room : RING - at;
        n = recv(w->from, w->ring + at, part, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return -1;
        if (n > 0)
            w->tail += (size_t)n, moved = 1;
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
    return moved;
}

static void relay(int a, int b, enum how how)
{
    way_t ways[2] = {{a, b, malloc(RING), 0, 0}, {b, a, malloc(RING), 0, 0}};
    if (!ways[0].ring || !ways[1].ring)
        _exit(1);
    for (;;) {
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
                p[i].events = (short)(w->tail - w->head < RING ? POLLIN : 0);
            }
            for (int i = 0; i < 2; i++)
                p[!i].events |= (short)(ways[i].tail > ways[i].head ? POLLOUT : 0);
            wait_for(how, p, 2);
        }
    }
}

/* Take the relay between the two ends: fds[0] and fds[1] become its outer ends. */
static pid_t relay_start(int fds[2], enum how how)
{
    int in[2], out[2];
    pid_t pid;
    if (tcp_pair(in) || tcp_pair(out) || (pid = fork()) < 0)
        return -1;
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
    for (int i = 0; i < o->n_sizes; i++) {
        bench_stats_t us;
        size_t size = side->pair.size = o->sizes[i];
        if (bench_measure(o, size, stream ? WINDOW : 2, stream ? window_body : pingpong_body, side,
                          side->pair.first ? &us : NULL))
            return fprintf(stderr, "%s: a transfer of %zu bytes failed\n", side->pair.who, size), -1;
        if (side->pair.first)
            bench_row_print(o, &(bench_row_t){.who = side->pair.who, .test = stream ? "bandwidth" : "pingpong",
                                              .size = size, .us = us, .bytes_per_us = (double)size / us.best,
                                              .iterations = (long)bench_iterations(o, size) * bench_batches(o, size)});
    }
    return 0;
}

static int run(const bench_options_t *o, bool relayed, enum how how, bool stream)
{
    side_t side = {.pair = {.who = relayed ? "raw_relay" : "raw_direct"}, .how = how};
    int fds[2], rc;
    pid_t child, middle = 0;
    if (relayed ? (middle = relay_start(fds, how)) < 0 : tcp_pair(fds))
        return perror("raw_relay"), 1;
    child = pair_fork(o, fds);
    if (child < 0)
        return 1;
    side.pair.first = child != 0;
    side.fd = fds[child ? 0 : 1];
    rc = pair_buffers(&side.pair, o) || measure(&side, o, stream);
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

/* --wait and --test are ours; the rest is the engine's. */
static const char *option(int *argc, char **argv, const char *name, const char *value)
{
    for (int i = 1; i + 1 < *argc; i++)
        if (!strcmp(argv[i], name)) {
            value = argv[i + 1];
            memmove(argv + i, argv + i + 2, (size_t)(*argc - i - 1) * sizeof *argv);
            *argc -= 2;
            break;
        }
    return value;
}

int main(int argc, char **argv)
{
    const char *wait = option(&argc, argv, "--wait", "spin"), *test = option(&argc, argv, "--test", "pingpong");
    bool stream = !strcmp(test, "bandwidth");
    enum how how = !strcmp(wait, "sleep") ? SLEEP : !strcmp(wait, "yield") ? YIELD : SPIN;
    bench_options_t o;
    if (bench_options_parse(&o, argc, argv, 1, stream ? "64K,1M,4M" : "8,1K,64K,1M"))
        return 2;
    if (o.help) {
        puts("raw_relay [--wait spin|yield|sleep] [--test pingpong|bandwidth] [--sizes LIST] [--iters N] [--batches N] "
             "[--json]: sockets over loopback, directly and through a relay");
        return 0;
    }
    return run(&o, false, how, stream) || run(&o, true, how, stream);
}
