/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that is loaded before the others: packet sockets lose, repeat and reorder frames, and now and then have no room.
 * ETH_LOSSY="LOSS REPEAT REORDER REFUSE", each of 1000 frames. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FRAME_MAX (14 + 65536)

typedef ssize_t send_t(int fd, const struct msghdr *message, int flags);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static send_t *next_sendmsg;
static unsigned loss, repeat, reorder, refuse;
static uint64_t seed = 4711;
static struct {
    int fd; /* -1: no frame is held */
    size_t len;
    char bytes[FRAME_MAX];
} held = {.fd = -1};

__attribute__((constructor)) static void eth_lossy_begin(void)
{
    const char *text = getenv("ETH_LOSSY");
    next_sendmsg = (send_t *)(uintptr_t)dlsym(RTLD_NEXT, "sendmsg");
    if (!text || sscanf(text, "%u %u %u %u", &loss, &repeat, &reorder, &refuse) != 4)
        loss = repeat = reorder = refuse = 0;
}

static bool roll(unsigned thousandths)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(seed >> 33) % 1000 < thousandths;
}

static bool is_packet_socket(int fd)
{
    int domain = 0;
    socklen_t len = sizeof domain;
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_PACKET;
}

static size_t message_len(const struct msghdr *message)
{
    size_t len = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        len += message->msg_iov[i].iov_len;
    return len;
}

static void held_send(void)
{
    struct iovec vec = {held.bytes, held.len};
    struct msghdr message = {.msg_iov = &vec, .msg_iovlen = 1};
    if (held.fd >= 0)
        next_sendmsg(held.fd, &message, MSG_DONTWAIT);
    held.fd = -1;
}

/* Keep a frame until another one has overtaken it. */
static void frame_hold(int fd, const struct msghdr *message)
{
    held.fd = fd;
    held.len = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        memcpy(held.bytes + held.len, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
        held.len += message->msg_iov[i].iov_len;
    }
}

static ssize_t frame_send(int fd, const struct msghdr *message, int flags)
{
    size_t len = message_len(message);
    if (roll(refuse)) {
        errno = ENOBUFS;
        return -1;
    }
    if (roll(loss))
        return (ssize_t)len;
    if (held.fd < 0 && len <= FRAME_MAX && roll(reorder)) {
        frame_hold(fd, message);
        return (ssize_t)len;
    }
    if (roll(repeat))
        next_sendmsg(fd, message, flags);
    ssize_t sent = next_sendmsg(fd, message, flags);
    held_send();
    return sent;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (!is_packet_socket(fd))
        return next_sendmsg(fd, message, flags);
    pthread_mutex_lock(&mutex);
    ssize_t sent = frame_send(fd, message, flags);
    int error = errno;
    pthread_mutex_unlock(&mutex);
    errno = error;
    return sent;
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags)
{
    unsigned done = 0;
    for (; done < n; done++) {
        ssize_t sent = sendmsg(fd, &messages[done].msg_hdr, flags);
        if (sent < 0)
            break;
        messages[done].msg_len = (unsigned)sent;
    }
    return done || !n ? (int)done : -1;
}
