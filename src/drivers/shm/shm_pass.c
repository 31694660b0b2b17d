/* SPDX-License-Identifier: BSD-3-Clause */
/* Passing descriptors over the socket, and checking those that a peer has passed.
 *
 * A peer can pass any descriptor.  Each is checked before it is used: first its kind, by system calls that no file system
 * serves, because the program behind a FUSE mount may never answer; then its seals and length.  A wrong descriptor is
 * closed, and the link refused.
 *
 * Closing can block, too: closing the last copy of a TCP socket with SO_LINGER waits until its data is sent.  The kernel
 * closes descriptors for which the receive call has no room.  So all descriptors are received, and lingering is switched
 * off for each before it is closed. */
#include "base/own.h"
#include "drivers/shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

#define REMEDY "; use the same release in both processes, or check which program the peer runs"
#define FDS_MAX 253 /* maximum number of descriptors of one message: the kernel's SCM_MAX_FD */

typedef union control {
    char buf[CMSG_SPACE(FDS_MAX * sizeof(int))];
    struct cmsghdr align;
} control_t;

bool shm_pass_send(int sock, const shm_pass_t *pass, const int *fds, int n)
{
    struct iovec iov = {(void *)(uintptr_t)pass, sizeof *pass};
    control_t control;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf};
    struct cmsghdr *c;
    memset(&control, 0, sizeof control);
    msg.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
    c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
    return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *pass;
}

void shm_pass_end(int sock)
{
    int none = 0;
    /* older kernels lack SO_PASSRIGHTS: there, descriptors are closed when they arrive */
    setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &none, sizeof none);
}

void shm_pass_close(const int *fds, int n)
{
    for (int i = 0; i < n; i++)
        madi_fd_close(fds[i]);
}

/* Close a descriptor of unknown kind. */
static void fd_refuse(int fd)
{
    struct linger none = {0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none); /* this call fails on descriptors that are not sockets */
    madi_fd_close(fd);
}

/* Own the descriptors of a message, and close those beyond SHM_FDS.  Return the number that came. */
static int fds_take(struct msghdr *msg, int *fds)
{
    int n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++, n++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            madi_fd_own(fd);
            if (n < SHM_FDS)
                fds[n] = fd;
            else
                fd_refuse(fd);
        }
    }
    return n;
}

static bool fds_valid(const shm_adapter_t *a, const int *fds, int n, char *reason)
{
    if (!shm_event_valid(fds[SHM_FD_EVENT]))
        snprintf(reason, MADI_REASON_MAX, "the peer's event is not an eventfd in semaphore mode whose count lasts" REMEDY);
    else if (!shm_sealed(fds[SHM_FD_BELL], SHM_BELL_SIZE, a->bell_seals))
        snprintf(reason, MADI_REASON_MAX, "the peer's bell is not %d bytes of memory that only their owner can write" REMEDY,
                 SHM_BELL_SIZE);
    else if (n > SHM_FD_MEMORY && !shm_sealed(fds[SHM_FD_MEMORY], sizeof(shm_region_t), SHM_SEALS))
        snprintf(reason, MADI_REASON_MAX, "the memory that the peer passed is not %zu bytes whose length is sealed" REMEDY,
                 sizeof(shm_region_t));
    else
        return true;
    return false;
}

static bool pass_valid(const shm_pass_t *pass, ssize_t got, char *reason)
{
    if (got == (ssize_t)sizeof *pass && pass->magic == SHM_MAGIC && pass->layout == SHM_LAYOUT)
        return true;
    if (got != (ssize_t)sizeof *pass || pass->magic != SHM_MAGIC)
        snprintf(reason, MADI_REASON_MAX, "the peer's offer of shared memory is malformed (%zd bytes)" REMEDY, got);
    else
        snprintf(reason, MADI_REASON_MAX, "the peer shares memory of layout %u, this process of %d: use the same release",
                 pass->layout, SHM_LAYOUT);
    return false;
}

mad_status_t shm_pass_receive(const shm_adapter_t *a, int sock, shm_pass_t *pass, int *fds, int n, char *reason)
{
    struct iovec iov = {pass, sizeof *pass};
    control_t control;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof control.buf};
    ssize_t got = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int came;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return MAD_ERR_AGAIN;
    if (got <= 0) {
        snprintf(reason, MADI_REASON_MAX, "the peer ended before it shared memory%s%s", got ? ": " : "",
                 got ? strerror(errno) : "");
        return MAD_ERR_PEER;
    }
    came = fds_take(&msg, fds);
    if (msg.msg_flags & MSG_CTRUNC)
        snprintf(reason, MADI_REASON_MAX,
                 "no descriptors are left for those that came with the peer's offer of shared memory; "
                 "raise the limit (ulimit -n)");
    else if (pass_valid(pass, got, reason) && came != n)
        snprintf(reason, MADI_REASON_MAX, "%d descriptors came with the peer's offer of shared memory, not %d" REMEDY, came,
                 n);
    else if (!reason[0] && fds_valid(a, fds, n, reason))
        return MAD_OK;
    for (int i = 0; i < came && i < SHM_FDS; i++)
        fd_refuse(fds[i]);
    return MAD_ERR_PROTOCOL;
}
