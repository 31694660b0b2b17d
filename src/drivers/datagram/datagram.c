/* SPDX-License-Identifier: BSD-3-Clause */
/* datagram: an example of a driver for a network without sockets that the core could use, and without connections: like a
 * libfabric endpoint of type RDM, a UCX worker, or a queue pair of type UD.  Read core/driver.h and drivers/skeleton first.
 *
 * An adapter is two endpoints, UNIX datagram sockets, through which all peers come:
 *
 *      frames     the handshake; its name is the adapter's address.  Watched as rare: served while the program computes
 *      packets    those of all links; its name is in the descriptions that the two ends exchange in the handshake
 *
 *      packet     [number of the receiving end of the link][header][body]
 *      end        [number of the end of a link that is gone]
 *
 * A number is 64 random bits, which an end chooses and only the other end learns: a stranger cannot guess it.  VERDICT
 * is in the peer's queue of frames before a packet is in its queue of packets.  So the frames are read before a packet
 * with an unknown number is dropped.
 *
 * A datagram is sent as a whole or not at all, and none is lost or overtaken.  A network that loses or reorders packets needs
 * numbers and repetitions here.  When a process ends, its pidfd shows that: the network's name holds the PID namespace, so
 * both ends mean the same by a process number. */
#include "base/host.h"
#include "base/own.h"
#include "base/random.h"
#include "core/driver.h"
#include "core/module.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define PACKET_MAX 8192
#define NAME_MAX_BYTES 32 /* maximum number of bytes of a socket's name; names that the kernel chooses have 6 */
#define GATHER_MAX 16
#define ENDS 64 /* ends of links that peers were not notified of yet */

/* Name of a UNIX socket in the abstract namespace. */
typedef struct name {
    unsigned char bytes[NAME_MAX_BYTES];
    size_t len;
} name_t;

/* Description of an end of a link: the other end sends packets to this name, with this number. */
typedef struct description {
    uint64_t number;
    uint32_t process, name_len; /* name_len: bytes of the name that follow */
} description_t;

typedef struct datagram_link datagram_link_t;

typedef struct datagram_adapter {
    madi_adapter_t base;
    madi_watch_t frames, packets;
    name_t packets_name;
    datagram_link_t *links; /* links of the adapter, each from connect or accept on until link_close */
    _Atomic(bool) any_lost; /* the peer of a link has ended, and so did not take a packet: the next poll reports the end */
    struct {
        name_t to;
        uint64_t number; /* 0: none */
    } ends[ENDS];
    unsigned next_end;
    unsigned char frame[MADI_FRAME_MAX], packet[sizeof(uint64_t) + PACKET_MAX]; /* the frame and the packet being received */
} datagram_adapter_t;

struct datagram_link {
    madi_link_t base;
    datagram_link_t *next;
    uint64_t number, peer_number; /* number of this end of the link, and of the other end (0 until start) */
    name_t peer_frames, peer_packets;
    madi_watch_t process; /* a pidfd of the peer; fd -1 if none */
    bool entered, closed;
    _Atomic(bool) lost;
};

static datagram_adapter_t *datagram_of(datagram_link_t *l)
{
    return (datagram_adapter_t *)l->base.adapter;
}

/* ---- Sockets -------------------------------------------------------------------------------------------------- */

static void socket_end(int *fd)
{
    if (*fd >= 0)
        madi_fd_close(*fd);
    *fd = -1;
}

/* Make a socket whose name the kernel chooses.  Return -1 on failure; errno has the reason. */
static int socket_make(name_t *name)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    socklen_t len = sizeof sa.sun_family;
    int fd = madi_fd_own(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len)) {
        socket_end(&fd);
        return -1;
    }
    len = sizeof sa;
    getsockname(fd, (struct sockaddr *)&sa, &len);
    name->len = len - offsetof(struct sockaddr_un, sun_path);
    memcpy(name->bytes, sa.sun_path, name->len);
    return fd;
}

/* Take a name that a peer wrote.  Return false if it does not name an abstract socket. */
static bool socket_name_take(name_t *name, const void *bytes, size_t len)
{
    if (len < 2 || len > NAME_MAX_BYTES || *(const char *)bytes)
        return false;
    memcpy(name->bytes, bytes, len);
    name->len = len;
    return true;
}

/* Send a datagram.  Return 0, or an error number: EAGAIN if its queue is full, ECONNREFUSED if the socket is gone. */
static int datagram_send(int fd, const name_t *to, const struct iovec *vec, int n)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct msghdr msg = {.msg_name = &sa,
                         .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + to->len),
                         .msg_iov = (struct iovec *)(uintptr_t)vec,
                         .msg_iovlen = (size_t)n};
    memcpy(sa.sun_path, to->bytes, to->len);
    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : errno == ENOENT ? ECONNREFUSED : errno;
}

/* Receive a datagram.  Return its length, -1 if there is none. */
static ssize_t datagram_receive(int fd, void *to, size_t max, name_t *from)
{
    struct sockaddr_un sa;
    socklen_t len = sizeof sa;
    ssize_t n = recvfrom(fd, to, max, MSG_DONTWAIT, (struct sockaddr *)&sa, &len);
    from->len = 0; /* a socket without a name cannot be answered */
    if (n >= 0 && len > offsetof(struct sockaddr_un, sun_path))
        socket_name_take(from, sa.sun_path, len - offsetof(struct sockaddr_un, sun_path));
    return n;
}

/* ---- Adapters ------------------------------------------------------------------------------------------------- */

static void frames_ready(madi_watch_t *watch, uint32_t events);
static void packets_ready(madi_watch_t *watch, uint32_t events);

static mad_status_t datagram_probe(const madi_driver_t *driver, struct mad_session *session)
{
    return madi_adapter_found(session, driver, "host") ? MAD_OK : MAD_ERR_NOMEM;
}

static mad_status_t datagram_open(madi_adapter_t *adapter, char *reason)
{
    datagram_adapter_t *a = (datagram_adapter_t *)adapter;
    uint64_t pids = madi_namespace_number("pid");
    name_t name;
    a->frames = (madi_watch_t){.fd = -1, .ready = frames_ready};
    a->packets = (madi_watch_t){.fd = -1, .ready = packets_ready, .carries = true};
    if (!madi_namespace_name("net", adapter->network, sizeof adapter->network) || !pids) {
        snprintf(reason, MADI_REASON_MAX, "the namespaces have no names: /proc cannot be read");
        return MAD_ERR_SYSTEM;
    }
    snprintf(adapter->network + strlen(adapter->network), MADI_NAME_MAX - strlen(adapter->network), ".%llx",
             (unsigned long long)pids);
    a->frames.fd = socket_make(&name);
    a->packets.fd = a->frames.fd < 0 ? -1 : socket_make(&a->packets_name);
    if (a->packets.fd < 0 || madi_watch_add_rare(adapter->session, &a->frames, EPOLLIN) ||
        madi_watch_add(adapter->session, &a->packets, EPOLLIN)) {
        snprintf(reason, MADI_REASON_MAX, "no UNIX socket: %s", strerror(errno)); /* fini closes them */
        return MAD_ERR_SYSTEM;
    }
    adapter->address_len = name.len;
    memcpy(adapter->address, name.bytes, name.len);
    adapter->caps = (madi_caps_t){.packet_max = PACKET_MAX,
                                  .chunk_max = PACKET_MAX,
                                  .rdv_min = PACKET_MAX,
                                  .rdv_eager = PACKET_MAX,
                                  .gather_max = GATHER_MAX,
                                  .latency_us = 5,
                                  .bandwidth_MBs = 1000,
                                  .rank = 92}; /* after pipes */
    return MAD_OK;
}

/* Also called for an adapter whose open failed halfway: then the close of a descriptor ends its watch, too. */
static void datagram_fini(madi_adapter_t *adapter)
{
    datagram_adapter_t *a = (datagram_adapter_t *)adapter;
    if (!a->frames.ready)
        return;
    socket_end(&a->frames.fd);
    socket_end(&a->packets.fd);
}

static void ends_send(datagram_adapter_t *a);

static void datagram_close(madi_adapter_t *adapter)
{
    datagram_adapter_t *a = (datagram_adapter_t *)adapter;
    ends_send(a);
    madi_watch_del(adapter->session, &a->frames);
    madi_watch_del(adapter->session, &a->packets);
}

/* ---- The handshake -------------------------------------------------------------------------------------------- */

/* Give the link a number, and enter the link into the adapter's list.  Return false if the system has no random numbers. */
static bool link_enter(datagram_link_t *l)
{
    l->process.fd = -1;
    if (!madi_random(&l->number, sizeof l->number))
        return false;
    l->number |= 1; /* 0 is none */
    l->entered = true;
    l->next = datagram_of(l)->links;
    datagram_of(l)->links = l;
    return true;
}

static mad_status_t datagram_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    datagram_link_t *l = (datagram_link_t *)link;
    /* *fd stays -1: there is no socket, and the handshake uses frames */
    (void)fd;
    if (!socket_name_take(&l->peer_frames, addr, len)) { /* a peer wrote it */
        snprintf(reason, MADI_REASON_MAX, "the peer's address is damaged");
        return MAD_ERR_PROTOCOL;
    }
    return link_enter(l) ? MAD_OK : MAD_ERR_SYSTEM;
}

static mad_status_t datagram_accept(madi_link_t *link, const void *source, size_t source_len, char *reason)
{
    datagram_link_t *l = (datagram_link_t *)link;
    (void)reason;
    socket_name_take(&l->peer_frames, source, source_len);
    return link_enter(l) ? MAD_OK : MAD_ERR_SYSTEM;
}

static void link_lose(datagram_link_t *l)
{
    atomic_store_explicit(&l->lost, true, memory_order_relaxed);
    atomic_store_explicit(&datagram_of(l)->any_lost, true, memory_order_release); /* pairs with datagram_poll */
}

static bool datagram_frame_send(madi_link_t *link, const void *frame, size_t len)
{
    datagram_link_t *l = (datagram_link_t *)link;
    struct iovec vec = {(void *)(uintptr_t)frame, len};
    int error = datagram_send(datagram_of(l)->frames.fd, &l->peer_frames, &vec, 1);
    if (error == ECONNREFUSED)
        link_lose(l);
    return error == 0;
}

static bool datagram_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame,
                                  size_t len)
{
    struct iovec vec = {(void *)(uintptr_t)frame, len};
    name_t to;
    return !socket_name_take(&to, source, source_len) ||
           datagram_send(((datagram_adapter_t *)adapter)->frames.fd, &to, &vec, 1) != EAGAIN;
}

static size_t datagram_describe(madi_link_t *link, void *bytes)
{
    datagram_link_t *l = (datagram_link_t *)link;
    const name_t *name = &datagram_of(l)->packets_name;
    description_t d = {.number = l->number, .process = (uint32_t)getpid(), .name_len = (uint32_t)name->len};
    static_assert(sizeof d + NAME_MAX_BYTES <= MADI_DESCRIPTION_MAX, "room for a description");
    memcpy(bytes, &d, sizeof d);
    memcpy((char *)bytes + sizeof d, name->bytes, name->len);
    return sizeof d + name->len;
}

/* Read the frames that have arrived. */
static void frames_read(datagram_adapter_t *a)
{
    name_t from;
    ssize_t len;
    for (int n = 0; n < 64 && (len = datagram_receive(a->frames.fd, a->frame, sizeof a->frame, &from)) >= 0; n++)
        if (from.len)
            madi_frame_arrived(&a->base, from.bytes, from.len, a->frame, (size_t)len);
}

static void frames_ready(madi_watch_t *watch, uint32_t events)
{
    (void)events;
    frames_read(MADI_CONTAINER(watch, datagram_adapter_t, frames));
}

/* ---- The life of a link --------------------------------------------------------------------------------------- */

static void packets_read(datagram_adapter_t *a);

static void pidfd_ready(madi_watch_t *watch, uint32_t events)
{
    datagram_link_t *l = MADI_CONTAINER(watch, datagram_link_t, process);
    (void)events;
    if (!l->closed)
        packets_read(datagram_of(l)); /* packets that the process sent before it ended */
    if (!l->closed)
        madi_link_down(&l->base, MAD_ERR_PEER, "the peer's process has ended");
}

static mad_status_t datagram_start(madi_link_t *link, int fd, bool active, char *reason)
{
    datagram_link_t *l = (datagram_link_t *)link;
    description_t d;
    (void)fd;
    (void)active;
    if (link->description_len >= sizeof d)
        memcpy(&d, link->description, sizeof d);
    if (link->description_len < sizeof d || d.name_len != link->description_len - sizeof d ||
        !socket_name_take(&l->peer_packets, link->description + sizeof d, d.name_len)) {
        snprintf(reason, MADI_REASON_MAX, "the peer's description of its end is damaged");
        return MAD_ERR_PROTOCOL;
    }
    l->process = (madi_watch_t){.fd = madi_fd_own((int)syscall(SYS_pidfd_open, (pid_t)d.process, 0)), .ready = pidfd_ready};
    if (l->process.fd < 0 || madi_watch_add_rare(link->adapter->session, &l->process, EPOLLIN) != MAD_OK) {
        snprintf(reason, MADI_REASON_MAX, "no pidfd of process %u: %s", (unsigned)d.process, strerror(errno));
        socket_end(&l->process.fd); /* link_close deletes only a watch that was added */
        return MAD_ERR_SYSTEM;
    }
    l->peer_number = d.number;
    madi_link_up(link);
    return MAD_OK;
}

/* Notify the peers of ends that have gone, as far as their queues have room. */
static void ends_send(datagram_adapter_t *a)
{
    for (unsigned i = 0; i < ENDS; i++) {
        struct iovec vec = {&a->ends[i].number, sizeof a->ends[i].number};
        if (a->ends[i].number && datagram_send(a->packets.fd, &a->ends[i].to, &vec, 1) != EAGAIN)
            a->ends[i].number = 0;
    }
}

static void end_report(datagram_adapter_t *a, const name_t *to, uint64_t number)
{
    unsigned i = a->next_end++ % ENDS;
    a->ends[i].to = *to;
    a->ends[i].number = number;
    ends_send(a);
}

static void datagram_link_close(madi_link_t *link)
{
    datagram_link_t *l = (datagram_link_t *)link;
    if (!l->entered || l->closed)
        return;
    l->closed = true;
    for (datagram_link_t **p = &datagram_of(l)->links; *p; p = &(*p)->next)
        if (*p == l) {
            *p = l->next;
            break; /* l->next stays valid, because poll may be at this link */
        }
    if (l->process.fd >= 0)
        madi_watch_del(link->adapter->session, &l->process);
    if (l->peer_number)
        end_report(datagram_of(l), &l->peer_packets, l->number);
}

static void datagram_link_fini(madi_link_t *link)
{
    datagram_link_t *l = (datagram_link_t *)link;
    datagram_link_close(link);
    if (l->entered)
        socket_end(&l->process.fd);
}

/* ---- Packets -------------------------------------------------------------------------------------------------- */

/* Called under the tx lock, by any thread.  AGAIN: the peer's queue is full.  The core tries again by itself, within a
 * millisecond. */
static madi_sent_t datagram_link_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    datagram_link_t *l = (datagram_link_t *)link;
    struct iovec all[GATHER_MAX + 1] = {{&l->peer_number, sizeof l->peer_number}};
    int error;
    (void)total;
    (void)op; /* the packet is complete when datagram_send returns */
    memcpy(all + 1, vec, (size_t)n * sizeof *vec);
    error = datagram_send(datagram_of(l)->packets.fd, &l->peer_packets, all, n + 1);
    if (error == ECONNREFUSED)
        link_lose(l);
    return error ? MADI_AGAIN : MADI_SENT;
}

/* Return the link whose end on this or the other side has this number; NULL if none. */
static datagram_link_t *link_find(datagram_adapter_t *a, uint64_t number, bool ours)
{
    datagram_link_t *l = a->links;
    while (l && ((ours ? l->number : l->peer_number) != number || !l->peer_number))
        l = l->next;
    return l;
}

/* Deliver a packet of len bytes, which lies behind the 8 bytes of the link's number. */
static void packet_deliver(datagram_link_t *l, size_t len)
{
    datagram_adapter_t *a = datagram_of(l);
    const unsigned char *packet = a->packet + sizeof l->number;
    madi_rx_t rx = {0};
    madi_wire_hdr_t hdr;
    if (len >= sizeof hdr)
        memcpy(&hdr, packet, sizeof hdr);
    if (len < sizeof hdr || hdr.length != len - sizeof hdr) { /* a peer wrote it */
        madi_link_down(&l->base, MAD_ERR_PROTOCOL, "no packet came");
        return;
    }
    if (madi_rx_begin(&l->base, &hdr, &rx) != MADI_PLACE_COPY || l->closed) /* any upcall may close the link */
        return;
    memcpy(rx.base, packet + sizeof hdr, hdr.length);
    madi_rx_done(&l->base, &hdr, &rx);
}

/* Receive one datagram.  Return false if none has arrived. */
static bool datagram_packet_receive(datagram_adapter_t *a)
{
    uint64_t number;
    datagram_link_t *l;
    name_t from;
    ssize_t n = datagram_receive(a->packets.fd, a->packet, sizeof a->packet, &from);
    if (n < (ssize_t)sizeof number)
        return n >= 0;
    memcpy(&number, a->packet, sizeof number);
    if (n == sizeof number) {
        l = link_find(a, number, false);
        if (l)
            madi_link_down(&l->base, MAD_ERR_PEER, "the peer has closed the link");
        return true;
    }
    l = link_find(a, number, true);
    if (!l) {
        frames_read(a); /* VERDICT is there */
        l = link_find(a, number, true);
    }
    if (l)
        packet_deliver(l, (size_t)n - sizeof number);
    else if (from.len)
        end_report(a, &from, number); /* notify the peer, which has not noticed the end of the link yet */
    return true;
}

static void packets_read(datagram_adapter_t *a)
{
    for (int n = 0; n < 64 && datagram_packet_receive(a);)
        n++;
}

static void packets_ready(madi_watch_t *watch, uint32_t events)
{
    (void)events;
    packets_read(MADI_CONTAINER(watch, datagram_adapter_t, packets));
}

/* Report links whose peer's sockets are gone. */
static int lost_report(datagram_adapter_t *a)
{
    int n = 0;
    packets_read(a);
    for (datagram_link_t *l = a->links, *next; l; l = next) {
        next = l->next;
        if (l->closed || !atomic_exchange_explicit(&l->lost, false, memory_order_relaxed))
            continue;
        madi_link_down(&l->base, MAD_ERR_PEER, "the process has ended");
        next = a->links; /* start again from the first link, since `next` may be a closed link now */
        n++;
    }
    return n;
}

static int datagram_poll(madi_adapter_t *adapter, int budget)
{
    datagram_adapter_t *a = (datagram_adapter_t *)adapter;
    int n = madi_poll_descriptors(adapter->session);
    (void)budget; /* watches report everything that arrives */
    ends_send(a);
    if (atomic_exchange_explicit(&a->any_lost, false, memory_order_acquire)) /* pairs with link_lose */
        n += lost_report(a);
    return n;
}

const madi_driver_t madi_driver_datagram = {
    .abi = MADI_DRIVER_ABI,
    .name = "datagram",
    .adapter_size = sizeof(datagram_adapter_t),
    .link_size = sizeof(datagram_link_t),
    .on_request = true,
    .probe = datagram_probe,
    .open = datagram_open,
    .close = datagram_close,
    .fini = datagram_fini,
    .connect = datagram_connect,
    .start = datagram_start,
    .send = datagram_link_send,
    .poll = datagram_poll,
    .link_close = datagram_link_close,
    .link_fini = datagram_link_fini,
    .frames =
        {
            .frame_send = datagram_frame_send,
            .frame_answer = datagram_frame_answer,
            .accept = datagram_accept,
            .describe = datagram_describe,
        },
};

MADI_MODULE(madi_driver_datagram)
