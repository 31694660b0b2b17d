/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of the measurement of costs: a long block over TCP between two processors of this host, sent at once or after the
 * receiver has answered its announcement.  Which of the two is faster differs between hosts. */
#include "base/base.h"
#include "base/clock.h"
#include "tools/costs.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD 512          /* bytes of the announcement, or of the packet with the block's beginning */
#define BUDGET 10000000   /* ns of each measurement */
#define PATIENCE 20000000 /* ns: a block that takes longer ends the measurement */
#define ROUNDS 400

typedef struct tcp_side {
    int fd, cpu;
    bool granted;         /* the block waits for an answer to its announcement */
    unsigned char *block; /* MADI_COSTS_TCP_LEN bytes */
    unsigned char head[HEAD];
} tcp_side_t;

/* Send or receive len bytes, and spin meanwhile.  False if the connection has ended, or after PATIENCE. */
static bool move(int fd, unsigned char *bytes, size_t len, bool out, int flags)
{
    int64_t end = madi_now() + PATIENCE;
    for (int spins = 1; len; spins++) {
        ssize_t n = out ? send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL | flags) : recv(fd, bytes, len, MSG_DONTWAIT);
        if (n == 0)
            return false;
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        } else if (spins % 64 == 0) {
            sched_yield();
            if (madi_now() > end)
                return false;
        }
    }
    return true;
}

static bool block_send(tcp_side_t *s)
{
    return move(s->fd, s->head, HEAD, true, s->granted ? 0 : MSG_MORE) &&
           (!s->granted || move(s->fd, s->head, HEAD, false, 0)) && move(s->fd, s->block, MADI_COSTS_TCP_LEN, true, 0);
}

static bool block_receive(tcp_side_t *s)
{
    return move(s->fd, s->head, HEAD, false, 0) && (!s->granted || move(s->fd, s->head, HEAD, true, 0)) &&
           move(s->fd, s->block, MADI_COSTS_TCP_LEN, false, 0);
}

static void *answerer_main(void *arg)
{
    tcp_side_t *s = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(s->cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    while (block_receive(s) && block_send(s))
        ;
    return NULL;
}

/* Return the time of one block, one way, in ns, that a quarter of the rounds do not exceed; 0 on failure. */
static uint32_t block_time(tcp_side_t side[2], bool granted)
{
    uint32_t took[ROUNDS];
    int n = 0;
    int64_t end = madi_now() + BUDGET;
    pthread_t thread;
    side[0].granted = side[1].granted = granted;
    if (pthread_create(&thread, NULL, answerer_main, &side[1]))
        return 0;
    while (n < ROUNDS && madi_now() < end) {
        int64_t before = madi_now();
        if (!block_send(&side[0]) || !block_receive(&side[0]))
            break;
        took[n++] = (uint32_t)(madi_now() - before) / 2;
    }
    shutdown(side[0].fd, SHUT_WR);
    pthread_join(thread, NULL);
    return madi_costs_quarter(took, (size_t)n);
}

/* Connect two sockets over the loopback interface.  False if that is impossible. */
static bool pair_connect(int fd[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int one = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[1] = -1;
    if (s >= 0 && fd[0] >= 0 && !bind(s, (struct sockaddr *)&at, len) && !listen(s, 1) &&
        !getsockname(s, (struct sockaddr *)&at, &len) && !connect(fd[0], (struct sockaddr *)&at, len))
        fd[1] = accept4(s, NULL, NULL, SOCK_CLOEXEC);
    if (s >= 0)
        close(s);
    for (int i = 0; fd[1] >= 0 && i < 2; i++) {
        setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd[i], IPPROTO_TCP, TCP_CONGESTION, "reno", 4); /* as the driver does */
    }
    return fd[1] >= 0;
}

static uint32_t pair_time(int cpu, unsigned char *blocks, bool granted)
{
    tcp_side_t side[2] = {{.block = blocks}, {.cpu = cpu, .block = blocks + MADI_COSTS_TCP_LEN}};
    int fd[2];
    uint32_t ns = 0;
    if (pair_connect(fd)) {
        side[0].fd = fd[0];
        side[1].fd = fd[1];
        ns = block_time(side, granted);
    }
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    return ns;
}

void madi_costs_measure_tcp(int cpu, madi_costs_t *costs)
{
    unsigned char *blocks = calloc(2, MADI_COSTS_TCP_LEN);
    if (!blocks)
        return;
    costs->tcp_sent_ns = pair_time(cpu, blocks, false);
    costs->tcp_granted_ns = pair_time(cpu, blocks, true);
    free(blocks);
}
