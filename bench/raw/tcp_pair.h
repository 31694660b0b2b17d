/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_RAW_TCP_PAIR_H
#define BENCH_RAW_TCP_PAIR_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

/* Prepare a connection: the kernel delays nothing, and calls do not block. 0 or -1 with errno. */
static inline int tcp_ready(int fd)
{
    int one = 1;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) || fcntl(fd, F_SETFL, O_NONBLOCK) ? -1 : 0;
}

/* Make a connected pair of TCP sockets over loopback. 0 or -1 with errno. */
static inline int tcp_pair(int fds[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&a, &len))
        return -1;
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (fds[0] < 0 || connect(fds[0], (struct sockaddr *)&a, sizeof a) || (fds[1] = accept(listener, NULL, NULL)) < 0)
        return -1;
    close(listener);
    return tcp_ready(fds[0]) || tcp_ready(fds[1]) ? -1 : 0;
}

#endif
