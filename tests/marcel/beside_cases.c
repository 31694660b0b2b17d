/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases that take more than one call, or a setting: ends of waits, data left for the next call, signals. */
#include "beside.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pty.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <termios.h>

/* Small functions and rows, one a line. */
/* clang-format off */
#define BIG ((size_t)1 << 20)
static char big[BIG];
static _Atomic(int) broken; /* number of SIGPIPEs */

static void count_broken(int sig)
{
    (void)sig;
    atomic_fetch_add(&broken, 1);
}

static void stream(objects_t *o) { make_pair(o, SOCK_STREAM); }
static void datagrams(objects_t *o) { make_pair(o, SOCK_DGRAM); }
static void pipe_in(objects_t *o)
{
    int fd[2];
    CHECK_EQ(pipe2(fd, O_CLOEXEC), 0);
    o->fd[0] = fd[1];
    o->fd[1] = fd[0];
}
static void terminal(objects_t *o, int min, int time)
{
    struct termios t;
    CHECK_EQ(openpty(&o->fd[1], &o->fd[0], NULL, NULL, NULL), 0);
    CHECK_EQ(tcgetattr(o->fd[0], &t), 0);
    cfmakeraw(&t);
    t.c_cc[VMIN] = (cc_t)min;
    t.c_cc[VTIME] = (cc_t)time;
    CHECK_EQ(tcsetattr(o->fd[0], TCSANOW, &t), 0);
}
static void terminal_raw(objects_t *o) { terminal(o, 1, 0); }
static void terminal_four(objects_t *o) { terminal(o, 4, 0); }
static void terminal_time(objects_t *o) { terminal(o, 0, 1); }

static void here(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    CHECK_EQ(poll(&p, 1, -1), 1);
}
static void reset(int fd)
{
    struct linger at_once = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

/* ---- The end of MSG_WAITALL, and of a low-water mark ---------------------------------------------------------------- */

static void five(objects_t *o, void make(objects_t *))
{
    make(o);
    CHECK_EQ(write(o->fd[1], "12345", 5), 5);
    here(o->fd[0]);
}
static void stream_five(objects_t *o) { five(o, stream); }
static void tcp_five(objects_t *o) { five(o, make_tcp); }
static void tcp_mark(objects_t *o)
{
    int mark = 10;
    five(o, make_tcp);
    setsockopt(o->fd[0], SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark);
}
static void pass(objects_t *o)
{
    char space[CMSG_SPACE(sizeof(int))] = "";
    struct iovec v = {"12345", 5};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    stream(o);
    memcpy(CMSG_DATA(c), &o->fd[1], sizeof(int));
    CHECK_EQ(sendmsg(o->fd[1], &m, 0), 5);
    CHECK_EQ(write(o->fd[1], "67890", 5), 5);
}
static void tcp_urgent(objects_t *o)
{
    tcp_five(o);
    CHECK_EQ(send(o->fd[1], "!", 1, MSG_OOB), 1);
    CHECK_EQ(write(o->fd[1], "67890", 5), 5);
}
static void recv_all_twice(objects_t *o)
{
    char b[64] = "";
    ssize_t n = o->calls->recv(o->fd[0], b, 8, MSG_WAITALL);
    note(o, "%zd ", n);
    note_bytes(o, b, n);
    n = o->calls->recv(o->fd[0], b, 8, MSG_DONTWAIT);
    note(o, ", then %zd ", n);
    note_bytes(o, b, n);
}
static void recv_any(objects_t *o)
{
    char b[64] = "";
    ssize_t n = o->calls->recv(o->fd[0], b, sizeof b, 0);
    note(o, "%zd ", n);
    note_bytes(o, b, n);
}
static void read_any(objects_t *o)
{
    char b[64] = "";
    ssize_t n = o->calls->read(o->fd[0], b, sizeof b);
    note(o, "%zd ", n);
    note_bytes(o, b, n);
}
static void read_at_least_four(objects_t *o) { char b[64]; note(o, "%d", o->calls->read(o->fd[0], b, sizeof b) >= 4); }
static void later_more(objects_t *o) { CHECK_EQ(write(o->fd[1], "67890abcdef", 11), 11); }
static void later_shut(objects_t *o) { shutdown(o->fd[1], SHUT_WR); }
static void later_left(objects_t *o) { close(o->fd[1]); o->fd[1] = -1; }
static void later_unread(objects_t *o) { CHECK_EQ(write(o->fd[0], "unread", 6), 6); later_left(o); }
static void later_reset(objects_t *o) { reset(o->fd[1]); o->fd[1] = -1; }
static void later_deaf(objects_t *o) { shutdown(o->fd[0], SHUT_RD); }

/* ---- Connections ---------------------------------------------------------------------------------------------------- */

static socklen_t name_of(int fd, struct sockaddr_storage *at)
{
    socklen_t size = sizeof *at;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)at, &size), 0);
    return size;
}
static void listening(objects_t *o, int domain, int queue)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    o->fd[0] = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
    o->fd[1] = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (domain == AF_INET)
        CHECK_EQ(bind(o->fd[1], (struct sockaddr *)&at, sizeof at), 0);
    else
        CHECK_EQ(bind(o->fd[1], (struct sockaddr *)&local, sizeof(sa_family_t)), 0);
    if (queue >= 0)
        CHECK_EQ(listen(o->fd[1], queue), 0);
}
static void peer_tcp(objects_t *o) { listening(o, AF_INET, 4); }
static void peer_local(objects_t *o) { listening(o, AF_UNIX, 4); }
static void peer_deaf(objects_t *o) { listening(o, AF_INET, -1); }
static void peer_busy(objects_t *o) /* make the listener's queue, which has one place, full */
{
    struct sockaddr_storage at;
    socklen_t size;
    listening(o, AF_UNIX, 0);
    size = name_of(o->fd[1], &at);
    o->fd[2] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(o->fd[2], (struct sockaddr *)&at, size), 0);
}
static void connect_twice(objects_t *o)
{
    struct sockaddr_storage at;
    socklen_t size = name_of(o->fd[1], &at);
    note(o, "%d", o->calls->connect(o->fd[0], (struct sockaddr *)&at, size));
    note(o, ", then %d", o->calls->connect(o->fd[0], (struct sockaddr *)&at, size));
    note(o, ", plain %d", connect(o->fd[0], (struct sockaddr *)&at, size) ? errno : 0);
}
static void connect_once(objects_t *o)
{
    struct sockaddr_storage at;
    socklen_t size = name_of(o->fd[1], &at);
    note(o, "%d", o->calls->connect(o->fd[0], (struct sockaddr *)&at, size));
}
/* Begin to connect without blocking; the descriptor blocks when connect is called again. */
static void connect_begun(objects_t *o)
{
    struct sockaddr_storage at;
    socklen_t size = name_of(o->fd[1], &at);
    int flags = fcntl(o->fd[0], F_GETFL);
    fcntl(o->fd[0], F_SETFL, flags | O_NONBLOCK);
    note(o, "%d", o->calls->connect(o->fd[0], (struct sockaddr *)&at, size));
    fcntl(o->fd[0], F_SETFL, flags);
    connect_twice(o);
}
static void later_accept(objects_t *o) { close(accept(o->fd[1], NULL, NULL)); }
static void accept_turned(objects_t *o) { note(o, "%d", o->calls->accept(o->fd[1], NULL, NULL)); }
static void later_deaf_peer(objects_t *o) { shutdown(o->fd[1], SHUT_RD); }

/* Connect three sockets on a host with two ports, which are in use. */
static void *no_ports_inside(void *arg)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    objects_t *o = arg;
    FILE *f;
    if (unshare(CLONE_NEWNET))
        return NULL;
    for (int i = 0; i < 3; i++)
        o->fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(ioctl(o->fd[0], SIOCSIFFLAGS, &lo), 0);
    f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
    if (f) {
        fprintf(f, "30000 30001\n");
        fclose(f);
    }
    for (int i = 1; i < 3; i++)
        (void)connect(o->fd[i], (struct sockaddr *)&to, sizeof to);
    return NULL;
}
static void no_ports(objects_t *o)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, no_ports_inside, o), 0);
    pthread_join(thread, NULL);
}
static void take_port(objects_t *o)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    note(o, "send %zd, write %zd, connect %d", o->calls->send(o->fd[0], "x", 1, 0), o->calls->write(o->fd[0], "", 0),
         o->calls->connect(o->fd[0], (struct sockaddr *)&to, sizeof to));
}

/* ---- SO_RCVTIMEO, SO_SNDTIMEO ----------------------------------------------------------------------------------------- */

static void timed(objects_t *o)
{
    struct timeval soon = {0, 20000};
    for (int i = 0; i < 2; i++) {
        setsockopt(o->fd[i], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
        setsockopt(o->fd[i], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    }
}
static void stream_timed(objects_t *o) { stream_five(o); timed(o); }
static void datagrams_timed(objects_t *o) { datagrams(o); timed(o); }
static void peer_timed(objects_t *o) { peer_tcp(o); timed(o); }
static void busy_timed(objects_t *o) { peer_busy(o); timed(o); }
static void write_part(objects_t *o)
{
    ssize_t n = o->calls->send(o->fd[0], big, BIG, 0);
    note(o, "%d, then %zd", n > 0 && n < (ssize_t)BIG, o->calls->write(o->fd[0], big, 1));
}
static void write_datagrams(objects_t *o)
{
    ssize_t n;
    while ((n = o->calls->send(o->fd[0], "datagram", 8, 0)) == 8)
        ;
    note(o, "%zd, then %zd", n, o->calls->write(o->fd[0], "", 0));
}

/* ---- More than fits --------------------------------------------------------------------------------------------------- */

static void write_big(objects_t *o)
{
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)(i * 7);
    note(o, "%zd", o->calls->write(o->fd[0], big, BIG));
}
static void send_big(objects_t *o) { note(o, "%zd", o->calls->send(o->fd[0], big, BIG, 0)); }
static void writev_big(objects_t *o)
{
    struct iovec v[] = {{big, 70001}, {big, 0}, {big + 70001, 1}, {big + 70002, BIG - 70002}};
    note(o, "%zd", o->calls->writev(o->fd[0], v, 4));
}
static void write_big_now(objects_t *o)
{
    fcntl(o->fd[0], F_SETFL, fcntl(o->fd[0], F_GETFL) | O_NONBLOCK);
    write_big(o);
}
static void send_big_now(objects_t *o) { note(o, "%zd", o->calls->send(o->fd[0], big, BIG, MSG_DONTWAIT)); }
/* Read all of it with the calls of this turn, because the writer may be on the same worker. */
static void later_read_big(objects_t *o)
{
    char b[5000];
    ssize_t n, sum = 0, wrong = 0;
    for (; sum < (ssize_t)BIG && (n = o->calls->read(o->fd[1], b, sizeof b)) > 0; sum += n)
        for (ssize_t i = 0; i < n; i++)
            wrong += b[i] != (char)((sum + i) * 7);
    CHECK_EQ(sum, BIG);
    CHECK_EQ(wrong, 0);
}
/* Let the reader end in the middle of a write: the call returns a part, and the next call gets the error and its signal. */
static void write_broken(objects_t *o)
{
    ssize_t n;
    atomic_store(&broken, 0);
    signal(SIGPIPE, count_broken);
    n = o->calls->write(o->fd[0], big, BIG);
    note(o, "%d, %d signals", n > 0 && n < (ssize_t)BIG, atomic_load(&broken));
    note(o, ", then %zd", o->calls->write(o->fd[0], big, 1));
    note(o, ", %zd, %d signals", o->calls->send(o->fd[0], big, 1, MSG_NOSIGNAL), atomic_load(&broken));
    signal(SIGPIPE, SIG_IGN);
}

/* ---- All -------------------------------------------------------------------------------------------------------------- */

#define ROW(kind, call, make, act, later) {kind, call, make, act, later, NULL, 0}
static const beside_t rows[] = {
    ROW("stream, 5 of 8 bytes", "recv WAITALL, shut down", stream_five, recv_all_twice, later_shut),
    ROW("stream, 5 of 8 bytes", "recv WAITALL, left", stream_five, recv_all_twice, later_left),
    ROW("stream, 5 of 8 bytes", "recv WAITALL, left with data unread", stream_five, recv_all_twice, later_unread),
    ROW("stream, a descriptor with 5 bytes", "recv WAITALL", pass, recv_all_twice, later_more),
    ROW("tcp, 5 of 8 bytes", "recv WAITALL, shut down", tcp_five, recv_all_twice, later_shut),
    ROW("tcp, 5 of 8 bytes", "recv WAITALL, reset", tcp_five, recv_all_twice, later_reset),
    ROW("tcp, an urgent byte", "recv WAITALL", tcp_urgent, recv_all_twice, later_more),
    ROW("tcp, low-water mark", "recv", tcp_mark, recv_any, later_more),
    ROW("tcp, low-water mark", "read", tcp_mark, read_any, later_more),
    ROW("tcp, low-water mark", "recv WAITALL", tcp_mark, recv_all_twice, later_more),
    ROW("datagrams", "recv, shut down", datagrams, recv_any, later_deaf),
    ROW("datagrams", "read, shut down", datagrams, read_any, later_deaf),
    ROW("terminal, VMIN 4", "read", terminal_four, read_at_least_four, later_more),
    ROW("terminal, VTIME 1", "read", terminal_time, read_any, NULL),
    ROW("tcp", "connect twice", peer_tcp, connect_twice, NULL),
    ROW("local", "connect twice", peer_local, connect_twice, NULL),
    ROW("tcp, refused", "connect twice", peer_deaf, connect_twice, NULL),
    ROW("tcp", "connect, begun before", peer_tcp, connect_begun, NULL),
    ROW("tcp, refused", "connect, begun before", peer_deaf, connect_begun, NULL),
    ROW("local, its queue full", "connect", peer_busy, connect_once, later_accept),
    ROW("udp without a port", "send, write, connect", no_ports, take_port, NULL),
    ROW("listening, tcp", "accept, shut down", peer_tcp, accept_turned, later_deaf_peer),
    ROW("stream, a time", "recv WAITALL", stream_timed, recv_all_twice, NULL),
    ROW("datagrams, a time", "recv", datagrams_timed, recv_any, NULL),
    ROW("datagrams, a time", "read", datagrams_timed, read_any, NULL),
    ROW("datagrams, a time", "send", datagrams_timed, write_datagrams, NULL),
    ROW("stream, a time", "send", stream_timed, write_part, NULL),
    ROW("listening, a time", "accept", peer_timed, accept_turned, NULL),
    ROW("local, its queue full, a time", "connect", busy_timed, connect_twice, NULL),
    ROW("stream", "write much", stream, write_big, later_read_big),
    ROW("stream", "writev much", stream, writev_big, later_read_big),
    ROW("stream", "send much", stream, send_big, later_read_big),
    ROW("tcp", "write much", make_tcp, write_big, later_read_big),
    ROW("pipe", "write much", pipe_in, write_big, later_read_big),
    ROW("pipe", "writev much", pipe_in, writev_big, later_read_big),
    ROW("terminal", "write much", terminal_raw, write_big, later_read_big),
    ROW("stream", "write much without blocking", stream, write_big_now, NULL),
    ROW("stream", "send much, DONTWAIT", stream, send_big_now, NULL),
    ROW("pipe", "write much without blocking", pipe_in, write_big_now, NULL),
    ROW("stream", "write much, left", stream, write_broken, later_left),
    ROW("tcp", "write much, reset", make_tcp, write_broken, later_reset),
    ROW("pipe", "write much, left", pipe_in, write_broken, later_left),
};

void test_rows(void)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        int before = atomic_load(&test_failures);
        beside(&rows[i]);
        printf("%s %s: %s%s\n", atomic_load(&test_failures) == before ? "ok" : "not ok", rows[i].kind, rows[i].call,
               older ? ", older kernel" : "");
    }
}
