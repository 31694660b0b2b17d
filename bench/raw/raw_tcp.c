/* SPDX-License-Identifier: BSD-3-Clause */
/* The floor of TCP: a ping-pong between two processes over loopback with non-blocking sockets, whose only wait is
 * spinning on recv. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "pair.h"
#include "tcp_pair.h"

typedef struct side {
    pair_t pair;
    int fd;
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

static int message_send(pair_t *pair)
{
    return move_all(((side_t *)pair)->fd, pair->send, pair->size, true);
}

static int message_receive(pair_t *pair)
{
    return move_all(((side_t *)pair)->fd, pair->receive, pair->size, false);
}

static int tcp_body(void *arg, int n)
{
    return pair_turns(arg, n, message_send, message_receive);
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
    for (int i = 0; i < o.n_sizes; i++)
        if (!o.sizes[i])
            return fputs("raw_tcp: a stream has no messages of 0 bytes\n", stderr), 2;
    int fds[2];
    if (tcp_pair(fds))
        return perror("raw_tcp"), 1;
    pid_t child = pair_fork(&o, fds);
    if (child < 0)
        return 1;
    side_t side = {.pair = {.who = "raw_tcp", .first = child != 0}, .fd = fds[child ? 0 : 1]};
    int rc = pair_buffers(&side.pair, &o) || pair_sizes(&side.pair, &o, tcp_body, &side.pair);
    close(side.fd);
    return pair_end(child, rc);
}
