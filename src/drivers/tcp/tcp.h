/* SPDX-License-Identifier: BSD-3-Clause */
/* The tcp driver's own structures.
 *
 *   tcp.c         the table, and adapters: open, poll, when polling is worth a system call
 *   tcp_if.c      interfaces of the host, network names, ports
 *   tcp_addr.c    subnets, address bytes
 *   tcp_allow.c   addresses to which and from which connections are allowed
 *   tcp_buffer.c  the receive buffers of a link, which are lent
 *   tcp_link.c    links: their life, and the byte stream cut into packets
 *   tcp_send.c    outgoing packets
 *   tcp_alive.c   liveness of the peer
 *   tcp_seal.c    sealed links
 *
 * Descriptors are watched edge-triggered for both directions, so neither direction needs a system call to change what is
 * watched.  Sending, which is done without the session's lock, never touches the watch.  The price: a reader must read
 * until nothing is left, or put the link on the adapter's list of unread links.
 */
#ifndef MADI_TCP_H
#define MADI_TCP_H

#include "core/driver.h"
#include <net/if.h>
#include <sys/socket.h>

#define MADI_TCP_GATHER 32
#define MADI_TCP_RX_SIZE ((size_t)64 << 10) /* size of the receive buffer: many small packets fit into one system call */
/* maximum bytes read into the buffer after a big body, since each is copied twice */
#define MADI_TCP_RX_LOW ((size_t)4 << 10)
#define MADI_TCP_BIG ((size_t)256 << 10) /* length in bytes of the shortest body that counts as big */
/* bytes: like MADI_TCP_BIG, for a body that may be read directly to its destination */
#define MADI_TCP_PLACED ((size_t)16 << 10)

typedef struct madi_tcp_link madi_tcp_link_t;

/* Zeroed before use, because subnets are compared by memcmp. */
typedef struct madi_tcp_subnet {
    /* ip_len in bytes, 0 if there is none (loopback, or a name set by a knob); prefix in bits */
    unsigned char ip_len, prefix;
    bool has_peer;          /* the address is one end of a point-to-point pair */
    unsigned char peer[16]; /* other end of the point-to-point pair */
    unsigned char ip[16];   /* the subnet's leading bits; the rest is 0 */
} madi_tcp_subnet_t;

typedef struct madi_tcp_adapter {
    madi_adapter_t pub;
    struct sockaddr_storage self; /* the interface's address, with port 0: source address of connections */
    madi_tcp_subnet_t subnet;     /* subnet after which the network is named; ip_len 0 if it has another name */
    madi_tcp_subnet_t own_subnet; /* subnet of the adapter's interface */
    bool loopback;
    bool listening; /* pub.listen_fd is ours */

    /* The links that are worth a receive call without calling epoll: the link last sent on and the one last received
     * from. hot_left: empty tries until polling stops.  skip: polls to skip before the next try.  Senders write these
     * without a lock; any mixture of old and new values only costs or saves a try. */
    _Atomic(madi_tcp_link_t *) hot_sent; /* a sender writes only its own link here; close and fini of that link clear it */
    madi_tcp_link_t *hot_got;
    atomic_int hot_left, skip;
    bool turn;
    /* A take that finds no packet has already made the system call of the next poll.  tried is then 1 + the number of
     * events that this poll has to return; otherwise 0. */
    int tried;
    int leave_out; /* calls of `take` to skip, because the last read found that many packets or emptied the socket */
    unsigned vain; /* number of tries of a hot link that found nothing */
    bool ask;      /* true if the next poll has to include the other links */

    /* A packet on a watched socket costs 0.2 us more in the kernel, even if no thread calls epoll.  So a link that polls
     * find busy is parked: it is not watched, but tried by at least every other poll, until the process is about to sleep
     * (arm) or tries find nothing.  At most one link is parked, and none while armed. */
    madi_tcp_link_t *parked;
    int streak, empty; /* hot receives since a parked link was last watched again; empty tries of the parked link */
    bool armed;

    madi_tcp_link_t *unread, *unread_last; /* links whose sockets still have unread bytes */
    int unread_count;

    madi_tcp_link_t *started; /* all links between start and close, in a list under the session's lock */
    madi_watch_t alive;       /* the timer of tcp_alive.c */
    atomic_bool alive_set;
} madi_tcp_adapter_t;

#define MADI_TCP_BUFFERS 3
typedef struct madi_tcp_buffer {
    _Atomic(char *) data; /* MADI_TCP_RX_SIZE bytes and a few more; NULL until it is needed */
    atomic_uint loans;
} madi_tcp_buffer_t;

struct madi_tcp_link {
    madi_link_t pub;
    madi_watch_t watch; /* watch.fd is the socket, from start to fini */
    bool started;
    bool watched, shut;
    madi_tcp_link_t *started_next, **started_at;
    int64_t silent_since; /* tcp_alive.c */
    bool ending;          /* the watch has reported the connection's end: read until recv returns the end */
    atomic_bool closed;   /* make no upcalls any more: the link is down, or link_close was called */

    /* Receiving, under the session's lock.  rx_buf[head..tail) is not parsed yet.  Within a body, `left` bytes are
     * missing; those that are not in rx_buf are read to `body`. */
    char *rx_buf; /* the data of current */
    madi_tcp_buffer_t *current, buffer[MADI_TCP_BUFFERS];
    size_t head, tail, room; /* room: maximum bytes of one read into rx_buf */
    madi_wire_hdr_t hdr;
    madi_rx_t rx;
    madi_place_t place;
    bool in_body, is_unread;
    bool lent;     /* a part of rx_buf was lent, and may still be lent */
    bool deferred; /* the packet whose header is at `head` waits for the next poll */
    char *body;
    size_t left;
    madi_tcp_link_t *unread_next;

    /* Sending, under the link's tx lock.  Bytes that the socket has not accepted yet are in vec[vec_at..vec_n): in tx_buf
     * for packets (copied), in the sender's memory for op. */
    atomic_bool tx_blocked; /* set before the socket is tried, so that an edge reported meanwhile finds it set */
    bool tx_holds;          /* tx_buf has unsent bytes, counted by madi_link_holds */
    bool tx_refused;        /* a send returned AGAIN, so madi_link_writable has to follow */
    atomic_int tx_errno;    /* errno of the error that ended sending; 0 if none */
    char *tx_buf;
    madi_op_t *op;
    int vec_at, vec_n;
    struct iovec vec[MADI_TCP_GATHER + 1];
    bool said_end; /* sealed: close_notify has arrived, and nothing follows */
    bool kernel;   /* sealed: the kernel encrypts what is sent (kernel TLS) */
};

#define MADI_TCP_HOT 4000   /* empty tries until a link is no longer hot: about one millisecond of system calls */
#define MADI_TCP_PARK 64    /* hot receives until a link is parked */
#define MADI_TCP_UNPARK 256 /* empty tries until a parked link is watched again */
#define MADI_TCP_OTHERS 4   /* empty tries until all other links are polled */

static inline void madi_tcp_heat(madi_tcp_adapter_t *tcp)
{
    atomic_store_explicit(&tcp->hot_left, MADI_TCP_HOT, memory_order_relaxed);
    atomic_store_explicit(&tcp->skip, 0, memory_order_relaxed);
}

/* tcp_if.c */
mad_status_t madi_tcp_probe(const madi_driver_t *driver, struct mad_session *session);
/* Set self, network, subnet and loopback of the adapter pub.name. */
mad_status_t madi_tcp_if_find(madi_tcp_adapter_t *tcp, char *reason);
/* Make a listening socket on self, within the configured ports; sets pub.listen_fd and the address bytes. */
mad_status_t madi_tcp_listen(madi_tcp_adapter_t *tcp, char *reason);

/* Set pub.security: by the knob, else by the topology file (given; -1: none), else auth. */
mad_status_t madi_tcp_security(madi_tcp_adapter_t *tcp, int given, char *reason);

/* tcp_addr.c */
/* Write an adapter's address bytes, with the subnet's prefix if the network is named after the subnet; return their
 * number. */
size_t madi_tcp_addr_put(const struct sockaddr_storage *addr, const madi_tcp_subnet_t *subnet, unsigned char *to);
/* Parse a peer's address bytes; false if they are malformed. */
bool madi_tcp_addr_get(const void *addr, size_t len, struct sockaddr_storage *to, socklen_t *to_len);
void madi_tcp_addr_text(const struct sockaddr_storage *addr, char *text, size_t size);
socklen_t madi_tcp_addr_len(const struct sockaddr_storage *addr);
/* Return the subnet of an interface's address.  mask and peer: as from getifaddrs, or NULL. */
madi_tcp_subnet_t madi_tcp_subnet(const struct sockaddr *addr, const struct sockaddr *mask, const struct sockaddr *peer);
void madi_tcp_subnet_name(const madi_tcp_subnet_t *subnet, char *name); /* MADI_NAME_MAX bytes */
bool madi_tcp_network(const void *addr, size_t len, char *name);        /* as driver.h says */
bool madi_tcp_within(madi_adapter_t *adapter, const void *addr, size_t len);
bool madi_tcp_common(madi_adapter_t *adapter, const char *network, const void *addr, size_t len);

/* True if the address ip (len bytes) begins with the first `prefix` bits of net. */
bool madi_tcp_holds(const unsigned char *net, int prefix, const unsigned char *ip, size_t len);

/* tcp_allow.c.  The caller may hold any lock. */
bool madi_tcp_allow_check(char *reason); /* return false if MAD_TCP_ALLOW is invalid; reason has MADI_REASON_MAX bytes */
/* True if this process may connect to that address or, if `calls`, accept connections from it. */
bool madi_tcp_allows(const madi_tcp_adapter_t *tcp, const struct sockaddr_storage *peer, bool calls);
bool madi_tcp_admits(madi_adapter_t *adapter, int fd, char *reason); /* as driver.h says */

/* tcp_alive.c.  The caller holds the session's lock, except for madi_tcp_alive_set. */
/* Make the adapter's timer.  Called for the first link, since most adapters have none. */
mad_status_t madi_tcp_alive_open(madi_tcp_adapter_t *tcp, char *reason);
void madi_tcp_alive_close(madi_tcp_adapter_t *tcp); /* close what is open, also of an adapter that was opened only in part */
/* Start the timer if necessary, because bytes are in flight. */
void madi_tcp_alive_set(madi_tcp_adapter_t *tcp);
void madi_tcp_keepalive(int fd);
bool madi_tcp_host_silent(madi_link_t *link, int64_t ns);
bool madi_tcp_moves(madi_link_t *link, int64_t ns);
void madi_tcp_started_add(madi_tcp_link_t *link);
void madi_tcp_started_remove(madi_tcp_link_t *link); /* remove a link from the list of started links, if it is there */

/* tcp_buffer.c.  The caller holds the session's lock. */
bool madi_tcp_buffers_open(madi_tcp_link_t *link); /* return false if out of memory */
void madi_tcp_buffers_free(madi_tcp_link_t *link);
bool madi_tcp_lend(madi_tcp_link_t *link); /* true if bytes of rx_buf may be lent; each loan ends with slot_put */
void madi_tcp_slot_put(madi_link_t *link, madi_foreign_t loan); /* any lock, or none */
void madi_tcp_compact(madi_tcp_link_t *link); /* move the unparsed bytes to offset 0 of a buffer without loans */

/* tcp_seal.c.  The contracts are those of driver.h, and of the functions for plain links below. */
int madi_tcp_seal_receive(madi_tcp_link_t *link, int budget);
int madi_tcp_seal_take(madi_tcp_link_t *link, void *packet, madi_foreign_t *loan);
int madi_tcp_seal_flush(madi_tcp_link_t *link);
mad_status_t madi_tcp_seal_start(madi_link_t *link, int fd, bool active, char *reason);
madi_sent_t madi_tcp_seal_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
void madi_tcp_seal_link_close(madi_link_t *link);

static inline madi_tcp_adapter_t *madi_tcp_of(madi_tcp_link_t *link)
{
    return (madi_tcp_adapter_t *)link->pub.adapter;
}
static inline bool madi_tcp_closed(madi_tcp_link_t *link)
{
    return atomic_load_explicit(&link->closed, memory_order_relaxed);
}

/* tcp_link.c */
/* For tcp_seal.c.  Process n bytes that lie where a read would have put them: in the body that is being received, or
 * after rx_buf's tail.  Return the number of events. */
int madi_tcp_consume(madi_tcp_link_t *link, size_t n);
/* Like madi_tcp_consume, but all n bytes lie after rx_buf's tail. */
int madi_tcp_parse(madi_tcp_link_t *link, size_t n);
bool madi_tcp_is_one(const madi_tcp_link_t *link,
                     size_t n); /* true if the first n bytes of rx_buf are one packet, short enough for operation `take` */
/* copy the one packet of n bytes in rx_buf to `packet`; false if its header is invalid */
bool madi_tcp_take_copy(madi_tcp_link_t *link, void *packet, size_t n);
void madi_tcp_unread_add(madi_tcp_link_t *link);       /* make the next poll read the link */
void madi_tcp_ended(madi_tcp_link_t *link, int error); /* error: errno of recv, 0 for an orderly end */
/* tcp_send.c */
void madi_tcp_keep_no_more(madi_tcp_link_t *link); /* record that tx_buf is empty */
/* return the number of bytes that the socket accepted; -1 with errno */
ssize_t madi_tcp_write(int fd, const struct iovec *vec, int n);
void madi_tcp_broken(madi_tcp_link_t *link);               /* shut the socket down after an error of sending (errno) */
void madi_tcp_advance(madi_tcp_link_t *link, size_t done); /* drop the first done bytes of vec[vec_at..vec_n) */

/* Actions that wait until everything has left that send accepted: for the operation, and for refused senders. */
typedef struct madi_tcp_left {
    madi_op_t *op; /* NULL if none */
    bool refused;  /* a send was refused meanwhile because the link was full */
} madi_tcp_left_t;
/* Allow sending again, after everything has left that send accepted.  Under the tx lock. */
madi_tcp_left_t madi_tcp_left_take(madi_tcp_link_t *link);
/* Complete the operation, and report that the link accepts packets again.  Without the tx lock. */
void madi_tcp_left_report(madi_tcp_link_t *link, const madi_tcp_left_t *left);
madi_sent_t madi_tcp_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
/* Send bytes that the socket did not accept before; return the number of events.  Takes the tx lock. */
int madi_tcp_flush(madi_tcp_link_t *link);

/* tcp_link.c */
/* Report that the link is down; the link may be closed when this function returns. */
void madi_tcp_down(madi_tcp_link_t *link, mad_status_t status, const char *text);
mad_status_t madi_tcp_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason);
mad_status_t madi_tcp_start(madi_link_t *link, int fd, bool active, char *reason);
bool madi_tcp_drained(madi_link_t *link);
void madi_tcp_acknowledge(madi_link_t *link); /* as driver.h says */
void madi_tcp_link_close(madi_link_t *link);
void madi_tcp_link_fini(madi_link_t *link);
/* Read and parse about `budget` packets, and return the number of events. */
int madi_tcp_receive(madi_tcp_link_t *link, int budget);
/* Read once from a link without unparsed bytes.  Return 1 if exactly one packet arrived: it is at `packet`, or only its
 * header is there and its body is at *loan.  Otherwise return the negated number of packets that were parsed. */
int madi_tcp_take(madi_tcp_link_t *link, void *packet, madi_foreign_t *loan);
void madi_tcp_unread_remove(madi_tcp_link_t *link);
/* Stop watching the link (park); watch it again (unpark), which reports bytes that arrived meanwhile. */
void madi_tcp_park(madi_tcp_link_t *link);
void madi_tcp_unpark(madi_tcp_adapter_t *tcp);

#endif
