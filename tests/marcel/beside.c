/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call on every kind of descriptor compared with the plain call (beside.h), then cases that take more than one
 * call. */
#include "beside.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pty.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <termios.h>

/* Small functions, one a line. */
/* clang-format off */
/* ---- Kinds: make the objects, let the call continue, look at the objects ----------------------------------------- */

static void read_away(int fd)
{
    char b[4096];
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    while (read(fd, b, sizeof b) > 0)
        ;
    fcntl(fd, F_SETFL, flags);
}

static void fill(int fd)
{
    static const char b[4096] = "full";
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    while (write(fd, b, sizeof b) > 0 || write(fd, b, 1) > 0)
        ;
    fcntl(fd, F_SETFL, flags);
}

/* Note the data that the other end can read: their amount, and whether the stream ends after them. */
static void look_at_peer(objects_t *o)
{
    char b[4096];
    ssize_t n, sum = 0, last = 0;
    if (o->fd[1] < 0)
        return;
    unblock(o->fd[1]);
    for (; (n = read(o->fd[1], b, sizeof b)) > 0; sum += n)
        last = n;
    note(o, "; the other end %d after %zd ", n < 0 ? -errno : 0, sum);
    note_bytes(o, last > 24 ? b + last - 24 : b, last);
}

/* Read both directions until the end, so that data that arrive after the call are found, too. */
static void look_both_ways(objects_t *o)
{
    for (int i = 0; i < 2; i++) {
        char b[4096], start[4096];
        ssize_t n, sum = 0;
        if (o->fd[i] < 0 || o->fd[1 - i] < 0)
            continue;
        shutdown(o->fd[1 - i], SHUT_WR);
        fcntl(o->fd[i], F_SETFL, fcntl(o->fd[i], F_GETFL) & ~O_NONBLOCK);
        for (; (n = read(o->fd[i], b, sizeof b)) > 0; sum += n)
            if (!sum)
                memcpy(start, b, (size_t)n);
        note(o, "; %s %zd ", i ? "the other end" : "this end", n < 0 ? -errno : sum);
        note_bytes(o, start, sum < 24 ? sum : 24);
    }
}

/* Like look_both_ways, but for datagrams, up to one that is sent now. */
static void look_at_datagrams(objects_t *o)
{
    for (int i = 0; i < 2; i++) {
        char b[64];
        ssize_t n;
        if (o->fd[i] < 0 || o->fd[1 - i] < 0)
            continue;
        unblock(o->fd[1 - i]);
        fcntl(o->fd[i], F_SETFL, fcntl(o->fd[i], F_GETFL) & ~O_NONBLOCK);
        n = send(o->fd[1 - i], "END", 3, MSG_NOSIGNAL);
        note(o, "; %s", i ? "the other end" : "this end");
        while (n == 3 && (n = recv(o->fd[i], b, sizeof b, 0)) >= 0) {
            note(o, " %zd:", n);
            note_bytes(o, b, n);
            n = n == 3 && !memcmp(b, "END", 3) ? 0 : 3;
        }
    }
}

static const char late[] = "later, later.";

/* Let the other end read everything, and then send. */
static void answer(objects_t *o)
{
    read_away(o->fd[1]);
    CHECK_EQ(write(o->fd[1], late, 13), 13);
}

static void pipe_empty(objects_t *o) { CHECK_EQ(pipe2(o->fd, O_CLOEXEC), 0); }
static void pipe_written(objects_t *o) { pipe_empty(o); CHECK_EQ(write(o->fd[1], "12345", 5), 5); }
static void pipe_left(objects_t *o) { pipe_written(o); close(o->fd[1]); o->fd[1] = -1; }
static void pipe_turn(objects_t *o) { int fd = o->fd[0]; o->fd[0] = o->fd[1]; o->fd[1] = fd; }
static void pipe_in(objects_t *o) { pipe_empty(o); pipe_turn(o); }
static void pipe_full(objects_t *o) { pipe_in(o); fill(o->fd[0]); }
static void pipe_broken(objects_t *o) { pipe_in(o); close(o->fd[1]); o->fd[1] = -1; }
static void later_read(objects_t *o)
{
    char b[4096];
    CHECK_EQ(read(o->fd[1], b, sizeof b), sizeof b);
}

static void stream(objects_t *o) { make_pair(o, SOCK_STREAM); }
static void stream_written(objects_t *o) { stream(o); CHECK_EQ(write(o->fd[1], "12345", 5), 5); }
static void stream_full(objects_t *o) { stream(o); fill(o->fd[0]); }
static void stream_left(objects_t *o) { stream_written(o); close(o->fd[1]); o->fd[1] = -1; }
static void stream_shut(objects_t *o) { stream(o); shutdown(o->fd[0], SHUT_RDWR); }
static void tcp_written(objects_t *o)
{
    struct pollfd p;
    make_tcp(o);
    p = (struct pollfd){o->fd[0], POLLIN, 0};
    CHECK_EQ(write(o->fd[1], "12345", 5), 5);
    CHECK_EQ(poll(&p, 1, -1), 1);
}
static void tcp_left(objects_t *o)
{
    struct pollfd p;
    tcp_written(o);
    p = (struct pollfd){o->fd[0], POLLRDHUP, 0};
    shutdown(o->fd[1], SHUT_WR);
    CHECK_EQ(poll(&p, 1, -1), 1);
}
static void tcp_unconnected(objects_t *o) { o->fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

static void datagrams(objects_t *o) { make_pair(o, SOCK_DGRAM); }
static void datagrams_written(objects_t *o)
{
    datagrams(o);
    CHECK_EQ(send(o->fd[1], "12345", 5, 0), 5);
    CHECK_EQ(send(o->fd[1], "second", 6, 0), 6);
}
static void datagrams_empty(objects_t *o) { datagrams(o); CHECK_EQ(send(o->fd[1], "", 0, 0), 0); }
static void datagrams_full(objects_t *o) { datagrams(o); fill(o->fd[0]); }
static void datagrams_left(objects_t *o) { datagrams(o); close(o->fd[1]); o->fd[1] = -1; }
static void datagrams_shut(objects_t *o) { datagrams(o); shutdown(o->fd[0], SHUT_RD); }
static void shut(objects_t *o) { shutdown(o->fd[0], SHUT_RDWR); }
static void packets(objects_t *o) { make_pair(o, SOCK_SEQPACKET); }
static void packets_written(objects_t *o)
{
    packets(o);
    CHECK_EQ(send(o->fd[1], "12345", 5, 0), 5);
    CHECK_EQ(send(o->fd[1], "second", 6, 0), 6);
}
static void packets_full(objects_t *o) { packets(o); fill(o->fd[0]); }
static void packets_left(objects_t *o) { packets_written(o); close(o->fd[1]); o->fd[1] = -1; }

static void udp_alone(objects_t *o) { o->fd[0] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); }
static void udp(objects_t *o)
{
    struct sockaddr_in at[2];
    for (int i = 0; i < 2; i++) {
        socklen_t size = sizeof *at;
        at[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        o->fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        CHECK_EQ(bind(o->fd[i], (struct sockaddr *)&at[i], size), 0);
        CHECK_EQ(getsockname(o->fd[i], (struct sockaddr *)&at[i], &size), 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(connect(o->fd[i], (struct sockaddr *)&at[1 - i], sizeof *at), 0);
}
static void udp_written(objects_t *o)
{
    struct pollfd p;
    udp(o);
    p = (struct pollfd){o->fd[0], POLLIN, 0};
    CHECK_EQ(send(o->fd[1], "12345", 5, 0), 5);
    CHECK_EQ(send(o->fd[1], "second", 6, 0), 6);
    CHECK_EQ(poll(&p, 1, -1), 1);
}
static void udp_shut(objects_t *o) { udp(o); shutdown(o->fd[0], SHUT_RD); }

static void listening(objects_t *o, int domain)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    o->fd[0] = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (domain == AF_INET)
        CHECK_EQ(bind(o->fd[0], (struct sockaddr *)&at, sizeof at), 0);
    else
        CHECK_EQ(bind(o->fd[0], (struct sockaddr *)&local, sizeof(sa_family_t)), 0);
    CHECK_EQ(listen(o->fd[0], 4), 0);
}
static void later_connect(objects_t *o)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    CHECK_EQ(getsockname(o->fd[0], (struct sockaddr *)&at, &size), 0);
    o->fd[1] = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(o->fd[1], (struct sockaddr *)&at, size), 0);
}
static void listening_tcp(objects_t *o) { listening(o, AF_INET); }
static void listening_local(objects_t *o) { listening(o, AF_UNIX); }
static void called_tcp(objects_t *o) { listening(o, AF_INET); later_connect(o); }
static void called_local(objects_t *o) { listening(o, AF_UNIX); later_connect(o); }

#define EVENT_MAX UINT64_C(0xfffffffffffffffe)
static void event_empty(objects_t *o) { o->fd[0] = eventfd(0, EFD_CLOEXEC); }
static void event_five(objects_t *o) { o->fd[0] = eventfd(5, EFD_CLOEXEC); }
static void event_semaphore(objects_t *o) { o->fd[0] = eventfd(5, EFD_CLOEXEC | EFD_SEMAPHORE); }
static void event_full(objects_t *o) { event_empty(o); CHECK_EQ(eventfd_write(o->fd[0], EVENT_MAX), 0); }
static void event_nearly_full(objects_t *o) { event_empty(o); CHECK_EQ(eventfd_write(o->fd[0], EVENT_MAX - 2), 0); }
static void later_event(objects_t *o) { CHECK_EQ(eventfd_write(o->fd[0], 7), 0); }
static void later_no_event(objects_t *o) { uint64_t n; CHECK_EQ(read(o->fd[0], &n, sizeof n), 8); }
static void look_at_event(objects_t *o)
{
    uint64_t n = 0;
    unblock(o->fd[0]);
    note(o, "; counts %d", read(o->fd[0], &n, sizeof n) < 0 ? -errno : 0);
    note_bytes(o, &n, 8);
}
static void timer(objects_t *o) { o->fd[0] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC); }
static void later_timer(objects_t *o)
{
    struct itimerspec soon = {.it_value = {0, 1}};
    CHECK_EQ(timerfd_settime(o->fd[0], 0, &soon, NULL), 0);
}
static void timer_expired(objects_t *o)
{
    struct pollfd p;
    timer(o);
    later_timer(o);
    p = (struct pollfd){o->fd[0], POLLIN, 0};
    CHECK_EQ(poll(&p, 1, -1), 1);
}
static void watched(objects_t *o)
{
    FILE *f = tmpfile();
    char path[64];
    o->fd[1] = dup(fileno(f));
    fclose(f);
    snprintf(path, sizeof path, "/proc/self/fd/%d", o->fd[1]);
    o->fd[0] = inotify_init1(IN_CLOEXEC);
    CHECK(inotify_add_watch(o->fd[0], path, IN_MODIFY) > 0);
}
static void later_modify(objects_t *o) { CHECK_EQ(write(o->fd[1], "x", 1), 1); }
static void watched_modified(objects_t *o) { watched(o); later_modify(o); }
static void set(objects_t *o) { o->fd[0] = epoll_create1(EPOLL_CLOEXEC); }

/* fd[0] is the terminal, fd[1] the typing end. */
static void terminal(objects_t *o)
{
    struct termios t;
    CHECK_EQ(openpty(&o->fd[1], &o->fd[0], NULL, NULL, NULL), 0);
    CHECK_EQ(tcgetattr(o->fd[0], &t), 0);
    t.c_lflag &= (tcflag_t)~ECHO;
    CHECK_EQ(tcsetattr(o->fd[0], TCSANOW, &t), 0);
}
static void type(objects_t *o, const char *text)
{
    struct pollfd p = {o->fd[0], POLLIN, 0};
    CHECK_EQ(write(o->fd[1], text, strlen(text)), strlen(text));
    CHECK_EQ(poll(&p, 1, -1), 1);
}
static void terminal_line(objects_t *o) { terminal(o); type(o, "line\n"); }
static void terminal_end(objects_t *o) { terminal(o); type(o, "\004"); }
static void terminal_raw(objects_t *o)
{
    struct termios t;
    terminal(o);
    CHECK_EQ(tcgetattr(o->fd[0], &t), 0);
    cfmakeraw(&t);
    CHECK_EQ(tcsetattr(o->fd[0], TCSANOW, &t), 0);
}
static void terminal_polled(objects_t *o)
{
    struct termios t;
    terminal_raw(o);
    CHECK_EQ(tcgetattr(o->fd[0], &t), 0);
    t.c_cc[VMIN] = 0;
    CHECK_EQ(tcsetattr(o->fd[0], TCSANOW, &t), 0);
}
static void terminal_left(objects_t *o) { terminal_line(o); close(o->fd[1]); o->fd[1] = -1; }
static void typist(objects_t *o) { terminal_raw(o); pipe_turn(o); }
static void typist_left(objects_t *o) { typist(o); close(o->fd[1]); o->fd[1] = -1; }
static void later_line(objects_t *o) { read_away(o->fd[1]); CHECK_EQ(write(o->fd[1], "later\n", 6), 6); }

static void file(objects_t *o)
{
    FILE *f = tmpfile();
    fputs("contents", f);
    fflush(f);
    o->fd[0] = dup(fileno(f));
    fclose(f);
    lseek(o->fd[0], 0, SEEK_SET);
}
static void look_at_file(objects_t *o)
{
    char b[64];
    ssize_t n = pread(o->fd[0], b, sizeof b, 0);
    note(o, "; at %d, holds ", (int)lseek(o->fd[0], 0, SEEK_CUR));
    note_bytes(o, b, n);
}
static void directory(objects_t *o) { o->fd[0] = open("/", O_RDONLY | O_CLOEXEC); }
static void path_only(objects_t *o) { o->fd[0] = open("/", O_PATH | O_CLOEXEC); }
static void path_device(objects_t *o) { o->fd[0] = open("/dev/null", O_PATH | O_CLOEXEC); }
static void null(objects_t *o) { o->fd[0] = open("/dev/null", O_RDWR | O_CLOEXEC); }
static void zero(objects_t *o) { o->fd[0] = open("/dev/zero", O_RDWR | O_CLOEXEC); }
static void full(objects_t *o) { o->fd[0] = open("/dev/full", O_RDWR | O_CLOEXEC); }
static void closed(objects_t *o) { (void)o; }

static const beside_t kinds[] = {
    {.kind = "pipe, empty", .make = pipe_empty, .later = answer},
    {.kind = "pipe, written", .make = pipe_written, .later = answer},
    {.kind = "pipe, left by its writer", .make = pipe_left},
    {.kind = "pipe to write", .make = pipe_in, .later = later_read, .look = look_at_peer},
    {.kind = "pipe, full", .make = pipe_full, .later = later_read, .look = look_at_peer},
    {.kind = "pipe, left by its reader", .make = pipe_broken},
    {.kind = "stream", .make = stream, .later = answer, .look = look_both_ways},
    {.kind = "stream, written", .make = stream_written, .later = answer, .look = look_both_ways},
    {.kind = "stream, full", .make = stream_full, .later = answer},
    {.kind = "stream, left", .make = stream_left},
    {.kind = "stream, shut down", .make = stream_shut},
    {.kind = "tcp", .make = make_tcp, .later = answer, .look = look_both_ways},
    {.kind = "tcp, written", .make = tcp_written, .later = answer, .look = look_both_ways},
    {.kind = "tcp, shut down by its peer", .make = tcp_left},
    {.kind = "tcp, not connected", .make = tcp_unconnected},
    {.kind = "datagrams", .make = datagrams, .later = answer, .look = look_at_datagrams},
    {.kind = "datagrams, written", .make = datagrams_written, .later = answer, .look = look_at_datagrams},
    {.kind = "datagrams, an empty one", .make = datagrams_empty, .later = answer, .look = look_at_datagrams},
    {.kind = "datagrams, full", .make = datagrams_full, .later = answer},
    {.kind = "datagrams, left", .make = datagrams_left, .later = shut},
    {.kind = "datagrams, shut down", .make = datagrams_shut},
    {.kind = "packets", .make = packets, .later = answer, .look = look_at_datagrams},
    {.kind = "packets, written", .make = packets_written, .later = answer, .look = look_at_datagrams},
    {.kind = "packets, full", .make = packets_full, .later = answer},
    {.kind = "packets, left", .make = packets_left},
    {.kind = "udp", .make = udp, .later = answer, .look = look_at_datagrams},
    {.kind = "udp, written", .make = udp_written, .later = answer, .look = look_at_datagrams},
    {.kind = "udp, shut down", .make = udp_shut},
    {.kind = "udp, not connected", .make = udp_alone, .later = shut},
    {.kind = "listening, tcp", .make = listening_tcp, .later = later_connect},
    {.kind = "listening, local", .make = listening_local, .later = later_connect},
    {.kind = "listening, tcp, called", .make = called_tcp},
    {.kind = "listening, local, called", .make = called_local},
    {.kind = "eventfd, 0", .make = event_empty, .later = later_event, .look = look_at_event},
    {.kind = "eventfd, 5", .make = event_five, .later = later_no_event, .look = look_at_event},
    {.kind = "eventfd, semaphore", .make = event_semaphore, .later = later_no_event, .look = look_at_event},
    {.kind = "eventfd, full", .make = event_full, .later = later_no_event, .look = look_at_event},
    {.kind = "eventfd, room for 2", .make = event_nearly_full, .later = later_no_event, .look = look_at_event},
    {.kind = "timerfd", .make = timer, .later = later_timer},
    {.kind = "timerfd, expired", .make = timer_expired, .later = later_timer},
    {.kind = "inotify", .make = watched, .later = later_modify},
    {.kind = "inotify, an event", .make = watched_modified, .later = later_modify},
    {.kind = "epoll", .make = set},
    {.kind = "terminal", .make = terminal, .later = later_line, .look = look_at_peer},
    {.kind = "terminal, a line", .make = terminal_line, .later = later_line, .look = look_at_peer},
    {.kind = "terminal, end of file", .make = terminal_end, .later = later_line},
    {.kind = "terminal, raw", .make = terminal_raw, .later = answer, .look = look_at_peer},
    {.kind = "terminal that never waits", .make = terminal_polled, .later = answer, .look = look_at_peer},
    {.kind = "terminal, left", .make = terminal_left},
    {.kind = "terminal's other end", .make = typist, .later = answer},
    {.kind = "terminal's other end, left", .make = typist_left},
    {.kind = "file", .make = file, .look = look_at_file},
    {.kind = "directory", .make = directory},
    {.kind = "O_PATH", .make = path_only},
    {.kind = "O_PATH of a device", .make = path_device},
    {.kind = "/dev/null", .make = null},
    {.kind = "/dev/zero", .make = zero},
    {.kind = "/dev/full", .make = full},
    {.kind = "no descriptor", .make = closed},
};

/* ---- Calls -------------------------------------------------------------------------------------------------------- */


static void is(objects_t *o, const void *bytes, ssize_t n)
{
    note(o, "%zd ", n);
    note_bytes(o, bytes, n);
}

#define READ(name, size)                                                                                                 \
    static void name(objects_t *o) { char b[64] = ""; is(o, b, o->calls->read(o->fd[0], b, size)); }
#define WRITE(name, size)                                                                                                \
    static void name(objects_t *o)                                                                                       \
    {                                                                                                                    \
        uint64_t b[8] = {1};                                                                                             \
        note(o, "%zd", o->calls->write(o->fd[0], b, size));                                                              \
    }
#define RECV(name, size, flags)                                                                                          \
    static void name(objects_t *o) { char b[64] = ""; is(o, b, o->calls->recv(o->fd[0], b, size, flags)); }
#define SEND(name, size, flags)                                                                                          \
    static void name(objects_t *o) { note(o, "%zd", o->calls->send(o->fd[0], "message", size, flags)); }
#define BLOCKS(...) const struct iovec v[] = {__VA_ARGS__}
#define READV(name, count, ...)                                                                                          \
    static void name(objects_t *o)                                                                                       \
    {                                                                                                                    \
        char b[64] = "";                                                                                                 \
        BLOCKS(__VA_ARGS__);                                                                                             \
        is(o, b, o->calls->readv(o->fd[0], v, count));                                                                   \
    }
#define WRITEV(name, count, ...)                                                                                         \
    static void name(objects_t *o)                                                                                       \
    {                                                                                                                    \
        uint64_t b[8] = {2, 1};                                                                                          \
        BLOCKS(__VA_ARGS__);                                                                                             \
        note(o, "%zd", o->calls->writev(o->fd[0], v, count));                                                            \
    }
READ(read_0, 0) READ(read_3, 3) READ(read_8, 8) READ(read_64, 64) READ(read_all, (size_t)-1)
WRITE(write_0, 0) WRITE(write_3, 3) WRITE(write_8, 8) WRITE(write_all, (size_t)-1)
READV(readv_two, 2, {b, 4}, {b + 4, 60}) READV(readv_empty, 2, {b, 0}, {b, 0}) READV(readv_holes, 3, {b, 0}, {b, 8}, {NULL, 0})
READV(readv_none, 0, {b, 8}) READV(readv_negative, -1, {b, 8}) READV(readv_many, 1025, {b, 8})
READV(readv_huge, 1, {b, (size_t)-1})
WRITEV(writev_two, 2, {b, 8}, {b + 1, 8}) WRITEV(writev_halves, 2, {b, 4}, {b + 1, 4}) WRITEV(writev_empty, 2, {b, 0}, {b, 0})
WRITEV(writev_holes, 3, {b, 0}, {b + 1, 8}, {NULL, 0}) WRITEV(writev_none, 0, {b, 8}) WRITEV(writev_negative, -1, {b, 8})
WRITEV(writev_many, 1025, {b, 8})
RECV(recv_0, 0, 0) RECV(recv_3, 3, 0) RECV(recv_64, 64, 0) RECV(recv_peek, 64, MSG_PEEK) RECV(recv_now, 64, MSG_DONTWAIT)
RECV(recv_all, 10, MSG_WAITALL) RECV(recv_all_now, 10, MSG_WAITALL | MSG_DONTWAIT) RECV(recv_length, 3, MSG_TRUNC)
RECV(recv_urgent, 3, MSG_OOB) RECV(recv_errors, 3, MSG_ERRQUEUE) RECV(peek_all, 10, MSG_WAITALL | MSG_PEEK)
SEND(send_0, 0, 0) SEND(send_7, 7, 0) SEND(send_now, 7, MSG_DONTWAIT) SEND(send_quiet, 7, MSG_NOSIGNAL)
SEND(send_urgent, 7, MSG_OOB) SEND(send_record, 7, MSG_EOR)
    /* clang-format on */

    static void accept_it(objects_t *o)
{
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof from;
    int fd = o->calls->accept(o->fd[0], (struct sockaddr *)&from, &size);
    note(o, "%d, family %d, %d", fd < 0 ? fd : 0, from.ss_family, (int)size);
    if (fd >= 0)
        close(fd);
}

/* Connect to impossible addresses: one of another family, and one that is truncated. */
static void connect_wrong(objects_t *o)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6};
    note(o, "%d", o->calls->connect(o->fd[0], (struct sockaddr *)&at, sizeof at));
    note(o, " %d", o->calls->connect(o->fd[0], (struct sockaddr *)&at, 1));
}

static void poll_it(objects_t *o)
{
    static const int events[] = {0, POLLIN, POLLOUT, POLLIN | POLLOUT | POLLPRI, POLLRDHUP, POLLRDNORM | POLLWRNORM};
    for (size_t i = 0; i < COUNT(events); i++)
        note(o, " %#x:%d", (unsigned)events[i], o->calls->poll(o->fd[0], events[i]));
}

static void close_it(objects_t *o)
{
    note(o, "%d", o->calls->close(o->fd[0]));
    o->fd[0] = -1;
}

static const struct {
    const char *name;
    void (*act)(objects_t *o);
} calls[] = {
    {"read 0", read_0},
    {"read 3", read_3},
    {"read 8", read_8},
    {"read 64", read_64},
    {"read SIZE_MAX", read_all},
    {"readv two", readv_two},
    {"readv empty", readv_empty},
    {"readv with holes", readv_holes},
    {"readv none", readv_none},
    {"readv -1", readv_negative},
    {"readv 1025", readv_many},
    {"readv SIZE_MAX", readv_huge},
    {"write 0", write_0},
    {"write 3", write_3},
    {"write 8", write_8},
    {"write SIZE_MAX", write_all},
    {"writev two", writev_two},
    {"writev halves", writev_halves},
    {"writev empty", writev_empty},
    {"writev with holes", writev_holes},
    {"writev none", writev_none},
    {"writev -1", writev_negative},
    {"writev 1025", writev_many},
    {"recv 0", recv_0},
    {"recv 3", recv_3},
    {"recv 64", recv_64},
    {"recv PEEK", recv_peek},
    {"recv DONTWAIT", recv_now},
    {"recv WAITALL", recv_all},
    {"recv WAITALL DONTWAIT", recv_all_now},
    {"recv TRUNC", recv_length},
    {"recv OOB", recv_urgent},
    {"recv ERRQUEUE", recv_errors},
    {"recv PEEK WAITALL", peek_all},
    {"send 0", send_0},
    {"send 7", send_7},
    {"send DONTWAIT", send_now},
    {"send NOSIGNAL", send_quiet},
    {"send OOB", send_urgent},
    {"send EOR", send_record},
    {"accept", accept_it},
    {"connect", connect_wrong},
    {"poll", poll_it},
    {"close", close_it},
};

static void *all(void *arg)
{
    (void)arg;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        int before = atomic_load(&test_failures);
        for (size_t c = 0; c < COUNT(calls); c++) {
            beside_t row = kinds[k];
            row.call = calls[c].name;
            row.act = calls[c].act;
            beside(&row);
            row.more_flags = O_NONBLOCK;
            beside(&row);
        }
        printf("%s %s%s\n", atomic_load(&test_failures) == before ? "ok" : "not ok", kinds[k].kind,
               older ? ", older kernel" : "");
    }
    test_rows();
    return NULL;
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    setenv("MAD_MONITOR", "0", 1); /* without a monitor: a call that blocks its worker must be noticed */
    in_thread(all, NULL);
    older = true;
    in_thread(all, NULL);
    CHECK_EQ(fini_soon(), 0);
    return atomic_load(&test_failures) != 0;
}
