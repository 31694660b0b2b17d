/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on descriptors are cancellation points. */
#include "fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { READS, READS_SOCKET, WRITES, ACCEPTS, POLLS, RECEIVES, CONNECTS, SLEEPS, CANCELLED_WAYS };

typedef struct victim {
    int way, fd;
    _Atomic(int) begun, cleaned;
    struct sockaddr_un to;
    socklen_t to_size;
} victim_t;

static void victim_cleans(void *arg)
{
    atomic_fetch_add(&((victim_t *)arg)->cleaned, 1);
}

static void *victim_main(void *arg)
{
    static char big[1 << 20];
    victim_t *v = arg;
    char c;
    marcel_cleanup_push(victim_cleans, v);
    atomic_store(&v->begun, 1);
    switch (v->way) {
    case READS:
    case READS_SOCKET: marcel_read(v->fd, &c, 1); break;
    case WRITES: marcel_write(v->fd, big, sizeof big), marcel_write(v->fd, big, 1); break; /* the first write is partial */
    case ACCEPTS: marcel_accept(v->fd, NULL, NULL); break;
    case POLLS: marcel_fd_wait(v->fd, POLLIN, CLOCK_MONOTONIC, NULL); break;
    case RECEIVES: marcel_recv(v->fd, &c, 1, 0); break;
    case CONNECTS: marcel_connect(v->fd, (struct sockaddr *)&v->to, v->to_size); break;
    default: marcel_sleep(1000);
    }
    CHECK_MSG(false, "way %d is no point of cancellation", v->way);
    marcel_cleanup_pop(0);
    return NULL;
}

/* Return a descriptor on which this call blocks; further descriptors to close are stored in more. */
static int victim_fd(victim_t *v, int more[3])
{
    int pair[2], fd;
    more[0] = more[1] = more[2] = -1;
    if (v->way == ACCEPTS || v->way == CONNECTS) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        v->to = (struct sockaddr_un){.sun_family = AF_UNIX};
        CHECK_EQ(bind(fd, (struct sockaddr *)&v->to, sizeof(sa_family_t)), 0); /* the kernel chooses the name */
        v->to_size = sizeof v->to;
        CHECK_EQ(getsockname(fd, (struct sockaddr *)&v->to, &v->to_size), 0);
        CHECK_EQ(listen(fd, 0), 0);
        if (v->way == ACCEPTS)
            return fd;
        more[0] = fd;
        more[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_EQ(connect(more[1], (struct sockaddr *)&v->to, v->to_size), 0); /* the listener's queue is full now */
        return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    if (v->way == READS_SOCKET || v->way == RECEIVES)
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    else
        CHECK_EQ(pipe2(pair, O_CLOEXEC), 0);
    more[0] = pair[v->way != WRITES];
    return pair[v->way == WRITES];
}

/* Cancel a thread in this call.  before: cancel it before the call. */
static void cancel_one(int way, bool before, int delay)
{
    victim_t v = {.way = way};
    marcel_t thread;
    void *result = NULL;
    int more[3];
    v.fd = victim_fd(&v, more);
    CHECK_EQ(marcel_create(&thread, NULL, victim_main, &v), 0);
    while (!before && !atomic_load(&v.begun))
        usleep(100);
    usleep((unsigned)delay);
    CHECK_EQ(marcel_cancel(thread), 0);
    CHECK_EQ(marcel_join(thread, &result), 0);
    CHECK_MSG(result == MARCEL_CANCELED, "way %d ended with %p", way, result);
    CHECK_EQ(atomic_load(&v.cleaned), 1);
    CHECK_EQ(marcel_close(v.fd), 0);
    for (int i = 0; i < 3; i++)
        if (more[i] >= 0)
            close(more[i]);
}

typedef struct survivor {
    int fd;
    _Atomic(int) begun;
    char got;
} survivor_t;

static void *survivor_main(void *arg)
{
    survivor_t *s = arg;
    int old;
    CHECK_EQ(marcel_setcancelstate(MARCEL_CANCEL_DISABLE, &old), 0);
    atomic_store(&s->begun, 1);
    CHECK_EQ(marcel_read(s->fd, &s->got, 1), 1);
    CHECK_EQ(marcel_setcancelstate(MARCEL_CANCEL_ENABLE, &old), 0);
    marcel_read(s->fd, &s->got, 1); /* a byte is there, and must stay there */
    CHECK_MSG(false, "it was not cancelled");
    return NULL;
}

/* A thread that has disabled cancellation continues to wait, and is cancelled at its next call.  The thread behind it
 * gets its turn. */
static void cancel_disabled(void)
{
    survivor_t s = {.got = 0};
    marcel_t thread;
    void *result = NULL;
    int fd[2];
    char c = 0;
    CHECK_EQ(pipe2(fd, O_CLOEXEC), 0);
    s.fd = fd[0];
    CHECK_EQ(marcel_create(&thread, NULL, survivor_main, &s), 0);
    while (!atomic_load(&s.begun))
        usleep(100);
    usleep(2000);
    CHECK_EQ(marcel_cancel(thread), 0);
    usleep(2000);
    CHECK_EQ(write(fd[1], "ab", 2), 2);
    CHECK_EQ(marcel_join(thread, &result), 0);
    CHECK(result == MARCEL_CANCELED);
    CHECK_EQ(s.got, 'a');
    CHECK_EQ(read(fd[0], &c, 1), 1);
    CHECK_EQ(c, 'b');
    CHECK_EQ(marcel_close(fd[0]), 0);
    close(fd[1]);
}

void test_cancel_ends_every_wait(void)
{
    for (int way = 0; way < CANCELLED_WAYS; way++) {
        for (int delay = 0; delay < 20; delay++)
            cancel_one(way, false, delay * 20);
        cancel_one(way, false, 5000);
        cancel_one(way, true, 0);
    }
    cancel_disabled();
}
