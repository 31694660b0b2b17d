/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: what the adapters and links of the drivers ofi, ucx, verbs and mpi have in common.  Their structures begin with the
 * structures of this file, and the operations that differ are in a table.
 *
 *   link.h      life of links, failures of sending
 *   order.h     incoming packets, in their order
 *   control.h   messages between the drivers of a link's two ends, liveness
 *   poll.h      when to poll; a timer that polls while the process sleeps
 *
 * Links of verbs have a socket instead of control.h. */
#ifndef FABRIC_LINK_H
#define FABRIC_LINK_H

#include "core/driver.h"
#include "drivers/fabric/end.h"
#include "drivers/fabric/heat.h"
#include "drivers/fabric/process.h"
#include "drivers/fabric/table.h"

typedef struct fabric_link fabric_link_t;
typedef struct fabric_adapter fabric_adapter_t;

/* Operations and properties of a driver that this folder uses.  All under the session's lock. */
typedef struct fabric_ops {
    const char *name;        /* of the driver, for the log */
    const char *networks;    /* beginning of a sentence: "libfabric's networks" */
    uint32_t magic, version; /* of descriptions */
    /* Handle all pending events, or FABRIC_DRAIN_MAX of them.  Return their number. */
    int (*drain)(fabric_adapter_t *a);
    void (*early_run)(fabric_link_t *l); /* deliver what has waited for its turn: order.h */
    /* Return a link of the adapter behind index *i, and advance *i; NULL if there is none.  NULL: those of adapter->links. */
    fabric_link_t *(*link_next)(fabric_adapter_t *a, int *i);
    /* True if the link may start with this other end; else write the reason.  NULL: always. */
    bool (*peer_fits)(const fabric_link_t *l, const fabric_description_t *d, char *reason);

    /* Note the address of the other end, and number the link.  NULL where a driver does not use fabric_link_connect. */
    mad_status_t (*link_open)(fabric_link_t *l, const void *address, size_t len, char *reason);

    /* control.h; NULL where a driver does not use it */
    bool (*control_send)(fabric_link_t *l, fabric_what_t what, uint32_t number); /* false: not sent */
    void (*bye_send)(fabric_link_t *l);                  /* send BYE on a link that is closed; NULL: by control_send */
    void (*done_arrived)(fabric_link_t *l, uint32_t id); /* NULL: no peer sends DONE */
    void (*peer_lost)(fabric_link_t *l);                 /* the peer is dead (l->dead), or silent; NULL: nothing to do */
    bool (*tick)(fabric_adapter_t *a); /* drain, and do periodic work; false if nothing could be received */
} fabric_ops_t;

/* A packet that waits for its turn; in the driver's structure of a packet. */
typedef struct fabric_early {
    struct fabric_early *next;
    size_t bytes; /* memory that the packet keeps while it waits; 0 if not counted */
    uint64_t tag;
} fabric_early_t;

struct fabric_adapter {
    madi_adapter_t adapter;
    const fabric_ops_t *ops; /* set by the operation open */
    fabric_table_t links;
    fabric_link_t *deferred; /* links whose next packet waits for the next poll */
    atomic_bool failures;    /* true if sending has failed on a link */
    atomic_bool refused;     /* true if a link refused a packet */
    bool broken;             /* true if the library or the device cannot be used any more */
    int tried;               /* 1 + events of a take that has polled in place of the next poll; else 0 */
    int looks;               /* maximum number of polls for a packet in one take */
    fabric_heat_t heat;
    madi_watch_t nap;  /* timer that polls while the process sleeps: poll.h */
    int64_t nap_ns;    /* ns: its period */
    madi_watch_t tick; /* timer of liveness: control.h */
    int64_t looked;    /* ns: time of the last check of all links */
    bool looks_at_all; /* true if the checks include links whose peer's process is watched */
};

struct fabric_link {
    madi_link_t link;
    int index;    /* index in the table, if `numbered` */
    uint32_t key; /* random key that messages to this end carry */
    bool numbered;
    union {
        struct {
            bool is_up, closed, down;
            bool is_deferred; /* the core has deferred a packet */
        };
        _Alignas(4) bool state[4]; /* the members above, for one comparison: fabric_link_takes */
    };
    bool dead;            /* true if the peer's process has ended */
    madi_watch_t process; /* a pidfd of a peer of this host; fd 0 if none */

    /* sending, under the tx lock */
    uint64_t tag;      /* tag of packets to the peer, with number 0 */
    uint16_t number;   /* number of the next packet to send, if packets have numbers */
    atomic_int failed; /* error that ended sending, a code of the driver's library; 0 if none */
    atomic_bool refused;
    atomic_int flying; /* number of copies and long packets in flight */

    /* receiving, under the session's lock */
    uint64_t own_tag;                   /* tag of packets to this end, with number 0; set if `numbered` */
    uint16_t expected;                  /* number of the next packet */
    fabric_early_t *early, **early_end; /* packets that wait for their turn; the end, if packets have no numbers */
    size_t early_bytes;                 /* sum of their `bytes` */
    fabric_link_t *next_deferred;
    void *receiving;     /* the driver's: the body that the next packets wait for; NULL if none */
    madi_wire_hdr_t hdr; /* header of the packet of that body */
    madi_rx_t rx;
    fabric_end_t end;
};

static inline fabric_adapter_t *fabric_of(const fabric_link_t *l)
{
    return (fabric_adapter_t *)l->link.adapter;
}
/* Return the link to which a message with this tag belongs; NULL if there is none any more. */
static inline fabric_link_t *fabric_link_at(const fabric_table_t *table, uint64_t tag)
{
    fabric_link_t *l = fabric_table_at(table, tag);
    return l && l->key == fabric_tag_key(tag) ? l : NULL;
}
/* Return the next link of the adapter that is neither closed nor down, as ops->link_next does. */
fabric_link_t *fabric_link_next(fabric_adapter_t *a, int *i);

/* ---- Life -------------------------------------------------------------------------------------------------------- */

/* Give a link its index and key.  If there is none, return NOMEM, and write the reason. */
mad_status_t fabric_link_number(fabric_link_t *l, fabric_table_t *table, char *reason);
/* Take the index away.  Legal for a link without one. */
void fabric_link_unnumber(fabric_link_t *l, fabric_table_t *table);
/* Report that the link is down, once. */
void fabric_link_down(fabric_link_t *l, mad_status_t status, const char *text);
/* Begin to close a link that is not closed: end the watch of its peer, and send BYE. */
void fabric_link_end(fabric_link_t *l);

/* Operations of driver.h, for drivers whose handshake is in frames */
mad_status_t fabric_link_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason);
mad_status_t fabric_link_accept(madi_link_t *link, const void *source, size_t source_len, char *reason);
size_t fabric_link_describe(madi_link_t *link, void *bytes);
mad_status_t fabric_link_start(madi_link_t *link, int fd, bool active, char *reason);
/* Operation of driver.h, for networks without encryption. */
mad_status_t fabric_secure(madi_adapter_t *adapter, int given, char *reason);

/* ---- Sending ----------------------------------------------------------------------------------------------------- */

/* Note that sending has failed, with an error of the driver's library; the next poll reports it.  Any thread. */
void fabric_send_failed(fabric_link_t *l, int error);
static inline int fabric_send_error(const fabric_link_t *l)
{
    return atomic_load_explicit(&l->failed, memory_order_relaxed);
}
/* Return the tag of the next packet.  Under the tx lock. */
static inline uint64_t fabric_packet_tag(const fabric_link_t *l)
{
    return l->tag | l->number;
}
/* Account for a packet that has left.  Under the tx lock. */
static inline void fabric_packet_left(fabric_link_t *l)
{
    l->number++;
    l->end.sent++;
}
/* Account for n further copies of packets in flight, or -n fewer.  Any thread. */
static inline void fabric_copies_count(fabric_link_t *l, int n)
{
    madi_link_holds(&l->link, n);
    atomic_fetch_add_explicit(&l->flying, n, memory_order_relaxed);
}
/* Note that a packet was refused; the next poll reports the link writable.  Any thread. */
static inline void fabric_refuse(fabric_link_t *l)
{
    atomic_store_explicit(&l->refused, true, memory_order_relaxed);
    atomic_store_explicit(&fabric_of(l)->refused, true, memory_order_release);
}
/* Report links writable that have refused packets. */
void fabric_refused_report(fabric_adapter_t *a);
/* Log that the library has failed, and let sending fail on all links.  text: the library's about the error.  for_good: the
 * adapter cannot be used any more. */
void fabric_links_fail(fabric_adapter_t *a, const char *what, const char *text, int error, bool for_good);

#endif
