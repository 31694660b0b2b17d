/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm_peer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

typedef union control {
    char buf[CMSG_SPACE(PEER_FDS * sizeof(int))];
    struct cmsghdr align;
} control_t;

void peer_pass(const world_t *w, const shm_pass_t *pass, size_t len, const int *fds, int n)
{
    control_t control = {.buf = {0}};
    struct iovec iov = {(void *)(uintptr_t)pass, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n > 0) {
        struct cmsghdr *c;
        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
    }
    if (sendmsg(w->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;
}

int peer_take(const world_t *w, shm_pass_t *pass, int *fds)
{
    control_t control;
    struct iovec iov = {pass, sizeof *pass};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof control.buf};
    struct cmsghdr *c;
    size_t len;
    memset(fds, 0xff, PEER_FDS * sizeof *fds);
    if (recvmsg(w->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof *pass || !(c = CMSG_FIRSTHDR(&msg)))
        return -1;
    len = c->cmsg_len - CMSG_LEN(0);
    memcpy(fds, CMSG_DATA(c), len);
    return (int)(len / sizeof *fds);
}

void peer_close(const int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

int peer_event(uint64_t count, int flags)
{
    int fd = eventfd(0, flags | EFD_CLOEXEC);
    if (fd >= 0 && count && count < UINT64_MAX && write(fd, &count, sizeof count) < 0)
        return fd;
    return fd;
}

int peer_memory(size_t size, int seals, unsigned kind)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING | kind);
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0 && seals)
        fcntl(fd, F_ADD_SEALS, seals);
    return fd;
}

int peer_region(const unsigned char *nonce, shm_region_t **region)
{
    int fd = peer_memory(sizeof **region, SHM_SEALS, 0);
    void *p = mmap(NULL, sizeof **region, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *region = p == MAP_FAILED ? NULL : p;
    if (*region)
        memcpy((*region)->nonce, nonce, sizeof(*region)->nonce);
    return fd;
}
