/* SPDX-License-Identifier: BSD-3-Clause */
/* The floor of TCP: a ping-pong between two processes over loopback with non-blocking sockets and no waiting but
 * spinning on recv. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../engine.h"

typedef struct side {
    int fd;
    size_t size;
    char *send, *receive;
    bool first;
} side_t;

static int move_all(int fd, char *buf, size_t len, bool out)
{
    while (len) {
        ssize_t n = out ? send(fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, buf, len, MSG_DONTWAIT);
        if (n > 0)
            buf += n, len -= (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return -1;
    }
    return 0;
}

static int tcp_body(void *arg, int n)
{
    side_t *s = arg;
    for (int i = 0; i < n; i++) {
        if (s->first && move_all(s->fd, s->send, s->size, true))
            return -1;
        if (move_all(s->fd, s->receive, s->size, false))
            return -1;
        if (!s->first && move_all(s->fd, s->send, s->size, true))
            return -1;
    }
    return 0;
}

/* A connected pair of TCP sockets over loopback.  0 or -1 with errno. */
static int tcp_pair(int fds[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 1)
        || getsockname(listener, (struct sockaddr *)&a, &len))
        return -1;
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (fds[0] < 0 || connect(fds[0], (struct sockaddr *)&a, sizeof a) || (fds[1] = accept(listener, NULL, NULL)) < 0)
        return -1;
    close(listener);
    for (int i = 0; i < 2; i++)
        if (setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) || fcntl(fds[i], F_SETFL, O_NONBLOCK))
            return -1;
    return 0;
}

static int sizes_run(side_t *s, const bench_options_t *o)
{
    for (int i = 0; i < o->n_sizes; i++) {
        bench_stats_t us;
        size_t size = s->size = o->sizes[i];
        if (size == 0)
            continue;
        if (bench_measure(o, size, 2, tcp_body, s, s->first ? &us : NULL))
            return perror("raw_tcp"), 1;
        if (!bench_check(s->receive, size, 7))
            return fprintf(stderr, "raw_tcp: wrong data at %zu bytes\n", size), 1;
        if (s->first)
            bench_row_print(o, &(bench_row_t){.who = "raw_tcp", .test = "pingpong", .size = size, .us = us,
                                              .iterations = (long)bench_iterations(o, size) * bench_batches(o, size),
                                              .bytes_per_us = (double)size / us.best});
    }
    return 0;
}

int main(int argc, char **argv)
{
    bench_options_t o;
    if (bench_options_parse(&o, argc, argv, 1, "8,1K,64K,1M,4M"))
        return 2;
    if (o.help) {
        puts("raw_tcp [--sizes LIST] [--cpus A,B] [--iters N] [--batches N] [--json]: spinning sockets over loopback");
        return 0;
    }
    int fds[2];
    if (tcp_pair(fds))
        return perror("raw_tcp"), 1;
    size_t most = 1;
    for (int i = 0; i < o.n_sizes; i++)
        most = o.sizes[i] > most ? o.sizes[i] : most;
    pid_t child = fork();
    if (child < 0)
        return perror("fork"), 1;
    close(fds[child ? 1 : 0]);
    side_t side = {.fd = fds[child ? 0 : 1], .send = malloc(most), .receive = malloc(most), .first = child != 0};
    if (!side.send || !side.receive || bench_pin(o.cpus[child ? 0 : 1]))
        return perror("raw_tcp"), 1;
    bench_fill(side.send, most, 7);
    memset(side.receive, 0, most);
    int rc = sizes_run(&side, &o);
    close(side.fd);
    int status = 0;
    if (child)
        waitpid(child, &status, 0);
    return rc || status ? 1 : 0;
}
