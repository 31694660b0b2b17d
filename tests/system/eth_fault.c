/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that is loaded before the others: calls of the kernel that the driver eth makes fail.
 * FAULT_ETH="CALL FIRST TIMES ERRNO": calls of CALL fail from the FIRST one (1) on, TIMES of them; 0: all later ones.
 *
 *   socket bind setsockopt mmap epoll_ctl sendmsg    of sockets of AF_PACKET and AF_XDP only; sendmsg: sendmmsg as well
 *   bpf timerfd_create                               all
 *
 * FAULT_ETH_RANK=N: only in rank N of a job.  At its end the process reports the number of faults, and of sockets, mappings
 * and BPF objects that are left. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MAPPINGS 64

static char call[32];
static unsigned first, times, calls, faults;
static int fault_errno;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *mappings[MAPPINGS];

#define NEXT(name) ((__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void fault_begin(void)
{
    const char *text = getenv("FAULT_ETH"), *rank = getenv("FAULT_ETH_RANK"), *own = getenv("PMI_RANK");
    if (!text || sscanf(text, "%31s %u %u %d", call, &first, &times, &fault_errno) != 4 ||
        (rank && own && strcmp(rank, own) != 0))
        call[0] = 0;
}

/* True if this call has to fail; errno is set. */
static bool fails(const char *name)
{
    bool now = false;
    if (strcmp(call, name) != 0)
        return false;
    pthread_mutex_lock(&mutex);
    calls++;
    now = calls >= first && (!times || calls < first + times);
    faults += now;
    pthread_mutex_unlock(&mutex);
    if (now)
        errno = fault_errno;
    return now;
}

static bool is_frame_socket(int fd)
{
    int domain = 0, error = errno;
    socklen_t len = sizeof domain;
    bool is = fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && (domain == AF_PACKET || domain == AF_XDP);
    errno = error;
    return is;
}

int socket(int domain, int type, int protocol)
{
    if ((domain == AF_PACKET || domain == AF_XDP) && (type & SOCK_RAW) && fails("socket"))
        return -1;
    return NEXT(socket)(domain, type, protocol);
}

int bind(int fd, const struct sockaddr *at, socklen_t len)
{
    return is_frame_socket(fd) && fails("bind") ? -1 : NEXT(bind)(fd, at, len);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    return is_frame_socket(fd) && fails("setsockopt") ? -1 : NEXT(setsockopt)(fd, level, option, value, len);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    return is_frame_socket(fd) && op == EPOLL_CTL_ADD && fails("epoll_ctl") ? -1 : NEXT(epoll_ctl)(epfd, op, fd, event);
}

int timerfd_create(int clock, int flags)
{
    return fails("timerfd_create") ? -1 : NEXT(timerfd_create)(clock, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return is_frame_socket(fd) && fails("sendmsg") ? -1 : NEXT(sendmsg)(fd, message, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags)
{
    return is_frame_socket(fd) && fails("sendmsg") ? -1 : NEXT(sendmmsg)(fd, messages, n, flags);
}

static void mapping_add(void *base)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MAPPINGS; i++)
        if (!mappings[i]) {
            mappings[i] = base;
            break;
        }
    pthread_mutex_unlock(&mutex);
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    bool frames = fd >= 0 && is_frame_socket(fd);
    if (frames && fails("mmap"))
        return MAP_FAILED;
    void *base = (void *)syscall(SYS_mmap, at, len, protection, flags, fd, offset);
    if (frames && base != MAP_FAILED)
        mapping_add(base);
    return base;
}

void *mmap64(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    return mmap(at, len, protection, flags, fd, offset);
}

int munmap(void *at, size_t len)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MAPPINGS; i++)
        if (mappings[i] == at)
            mappings[i] = NULL;
    pthread_mutex_unlock(&mutex);
    return (int)syscall(SYS_munmap, at, len);
}

long syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_bpf && fails("bpf"))
        return -1;
    return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

__attribute__((destructor)) static void fault_end(void)
{
    int left = 0;
    for (int fd = 3; fd < 1024; fd++) {
        char path[40], to[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, to, sizeof to - 1);
        to[n > 0 ? n : 0] = 0;
        left += is_frame_socket(fd) || strstr(to, "bpf");
    }
    for (int i = 0; i < MAPPINGS; i++)
        left += mappings[i] != NULL;
    if (getenv("FAULT_ETH"))
        fprintf(stderr, "eth_fault: %u faults, %d left\n", faults, left);
}
