/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madlab_exec.h"

#include "tools/madlab_base.h"
#include "tools/madlab_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_MS 5000
#define REQUEST_MAX (8u << 20) /* more than execve accepts */

/* A request.  A request is followed by texts, each ended by a zero: the directory, and the words of the command. */
typedef struct exec_request {
    uint32_t len; /* bytes of the texts */
    uint32_t foreground;
} exec_request_t;

/* --- the caller's side --- */

static int host_connect(const char *host)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    int fd = -1;
    if (strchr(host, '/') || (size_t)snprintf(where.sun_path, sizeof(where.sun_path), "%s/%s", MADI_LAB_SOCKETS, host) >=
                                 sizeof(where.sun_path)) {
        madi_lab_say("'%s' is not the name of a host", host);
        return -1;
    }
    if (access(MADI_LAB_SOCKETS, F_OK) != 0) {
        madi_lab_say("this is no lab: 'madlab exec' works in what 'madlab run' or 'madlab shell' started");
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&where, sizeof(where)) == 0)
        return fd;
    if (errno == ENOENT)
        madi_lab_say("there is no host '%s' in this lab", host);
    else if (errno == ECONNREFUSED)
        madi_lab_say("host '%s' is down", host);
    else
        madi_lab_say("host '%s' cannot be reached: %s", host, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Send or receive exactly len bytes. */
static bool transfer(int fd, void *data, size_t len, bool out)
{
    char *at = data;
    while (len > 0) {
        ssize_t n = out ? send(fd, at, len, MSG_NOSIGNAL) : read(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool descriptors_send(int fd, const exec_request_t *request)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec part = {(void *)(uintptr_t)request, sizeof(*request)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    int fds[3];
    memset(&control, 0, sizeof(control));
    for (int i = 0; i < 3; i++) { /* a closed descriptor becomes /dev/null on the host */
        fds[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
        if (fds[i] < 0)
            fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    }
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(head), fds, sizeof(fds));
    bool sent = sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof(*request);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    return sent;
}

int madi_lab_exec_start(const char *host, char *const argv[], bool foreground)
{
    exec_request_t request = {.foreground = foreground};
    char here[PATH_MAX], *texts = NULL;
    size_t len = 0;
    FILE *out;
    int fd = host_connect(host);
    if (fd < 0)
        return -1;
    if (!getcwd(here, sizeof(here)))
        snprintf(here, sizeof(here), "/");
    out = open_memstream(&texts, &len);
    if (!out)
        abort();
    fwrite(here, strlen(here) + 1, 1, out);
    for (int i = 0; argv[i]; i++)
        fwrite(argv[i], strlen(argv[i]) + 1, 1, out);
    fclose(out);
    request.len = (uint32_t)len;
    if (len > REQUEST_MAX || !descriptors_send(fd, &request) || !transfer(fd, texts, len, true)) {
        madi_lab_say("host '%s' does not take the command: %s", host,
                     len > REQUEST_MAX ? "it is too long" : strerror(errno));
        close(fd);
        fd = -1;
    }
    free(texts);
    return fd;
}

int madi_lab_exec_code(int socket, int *code)
{
    int status;
    if (!transfer(socket, &status, sizeof(status), false))
        return -1;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}

int madi_lab_exec(int argc, char **argv)
{
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    const char *host = argc > 0 ? argv[0] : NULL;
    struct signalfd_siginfo info;
    sigset_t set;
    int fd, signals, code = 0, skip = argc > 1 && strcmp(argv[1], "--") == 0 ? 2 : 1;

    if (argc <= skip) {
        madi_lab_say("exec needs a host and a command: madlab exec HOST [--] COMMAND [ARGUMENT]...");
        return 2;
    }
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        sigaddset(&set, passed[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    fd = madi_lab_exec_start(host, argv + skip, false);
    if (fd < 0 || signals < 0)
        return 255; /* the exit code that ssh uses for its own failures */
    for (;;) {
        struct pollfd look[2] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
        if (poll(look, 2, -1) < 0)
            continue;
        if (look[1].revents && read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            unsigned char number = (unsigned char)info.ssi_signo;
            transfer(fd, &number, 1, true);
        }
        if (!look[0].revents)
            continue;
        if (madi_lab_exec_code(fd, &code) == 0)
            return code;
        madi_lab_say("host '%s' was lost", host);
        return 255;
    }
}

/* --- the host's side --- */

int madi_lab_exec_listen(const char *host)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(where.sun_path, sizeof(where.sun_path), "%s/%s", MADI_LAB_SOCKETS, host);
    unlink(where.sun_path); /* the socket may remain from before a restart of the host */
    if (fd >= 0 && bind(fd, (struct sockaddr *)&where, sizeof(where)) == 0 && listen(fd, 1024) == 0)
        return fd;
    return -1;
}

static bool request_receive(int fd, exec_request_t *request, int fds[3])
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec part = {request, sizeof(*request)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    const struct timeval limit = {.tv_sec = 10};
    struct cmsghdr *head;
    ssize_t n;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    head = n == (ssize_t)sizeof(*request) ? CMSG_FIRSTHDR(&message) : NULL;
    if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(3 * sizeof(int)) || request->len > REQUEST_MAX)
        return false;
    memcpy(fds, CMSG_DATA(head), 3 * sizeof(int));
    return true;
}

static _Noreturn void command_run(const char *host, const exec_request_t *request, char *texts, const int fds[3],
                                  const sigset_t *mask)
{
    char **argv = madi_lab_alloc(request->len + 1, sizeof(char *));
    int count = 0;
    for (char *at = texts + strlen(texts) + 1; at < texts + request->len; at += strlen(at) + 1)
        argv[count++] = at;
    if (!request->foreground)
        setsid();
    for (int i = 0; i < 3; i++)
        dup2(fds[i], i);
    close_range(3, ~0u, 0);
    if (chdir(texts) != 0) {
        madi_lab_say("host '%s' has no directory '%s' (%s): / is used instead", host, texts, strerror(errno));
        if (chdir("/") != 0)
            _exit(126);
    }
    setenv("PWD", texts, 1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (count > 0)
        execvp(argv[0], argv);
    madi_lab_say("'%s' cannot be run on host '%s': %s", count > 0 ? argv[0] : "", host, strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* Supervise the command until it ends, or the caller goes away. */
static _Noreturn void command_watch(int socket, int signals, pid_t pid, bool foreground)
{
    const pid_t all = foreground ? pid : -pid;
    bool caller = true;
    for (;;) {
        struct pollfd look[2] = {{.fd = signals, .events = POLLIN}, {.fd = caller ? socket : -1, .events = POLLIN}};
        struct signalfd_siginfo info;
        unsigned char number;
        int status, count = poll(look, 2, caller ? -1 : GRACE_MS);
        if (count == 0)
            kill(all, SIGKILL);
        if (count > 0 && look[0].revents && read(signals, &info, sizeof(info)) > 0 &&
            waitpid(pid, &status, WNOHANG) == pid) {
            transfer(socket, &status, sizeof(status), true);
            _exit(0);
        }
        if (count > 0 && look[1].revents) {
            if (read(socket, &number, 1) == 1) {
                kill(all, number);
            } else {
                caller = false;
                kill(all, SIGTERM);
                kill(all, SIGCONT);
            }
        }
    }
}

void madi_lab_exec_serve(int socket, const char *host, const sigset_t *mask)
{
    const struct timeval never = {0};
    exec_request_t request;
    int fds[3], signals;
    sigset_t set;
    char *texts;
    pid_t pid;

    madi_lab_title("madlab-exec", host);
    if (!request_receive(socket, &request, fds) || request.len == 0)
        _exit(1);
    texts = madi_lab_alloc(request.len + 1, 1);
    if (!transfer(socket, texts, request.len, false))
        _exit(1);
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof(never));
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    pid = fork();
    if (pid == 0)
        command_run(host, &request, texts, fds, mask);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    if (pid < 0 || signals < 0)
        _exit(1);
    command_watch(socket, signals, pid, request.foreground);
}
