/* SPDX-License-Identifier: BSD-3-Clause */
/* A session.  This header has the fields of a session that several folders use, by lock and subject.  State of one folder
 * only is in the part of that folder, struct madi_FOLDER_session, which is private to it: opaque, or embedded where an
 * inlined path looks at it. */
#ifndef MADI_OBJECT_SESSION_H
#define MADI_OBJECT_SESSION_H

#include "base/base.h"
#include "boot/boot.h"
#include "core/forward.h"
#include "core/link/ledger.h"
#include "core/rails.h"
#include "core/object/types.h"
#include "core/send/share.h"
#include "engine/accept_thread.h"
#include "engine/engine.h"

#include <stdatomic.h>

/* An adapter that could not be opened, kept for explanations. */
typedef struct madi_left_out {
    struct madi_left_out *next;
    const madi_driver_t *driver;
    char name[MADI_NAME_MAX];
    char reason[MADI_REASON_MAX];
} madi_left_out_t;

#define MADI_ROUND_BYTES 1024 /* bytes of a long body that count as one round in `ticks` */

struct mad_session {
    /* Constant once the session has started, except `closing` and what fork changes. */
    madi_lock_t lock;     /* the first of the three locks of a session */
    bool forked;          /* true in the child of a fork: this copy is unusable */
    _Atomic(int) closing; /* not 0: the session is ending; any lock */
    madi_boot_t *boot;    /* NULL: no launcher */
    int rank, size;
    int launcher_rank,
        launcher_size; /* if boot is NULL: rank and size in the environment (madi_boot_environment_rank); of a gateway: -1
                        * and 0 */
    unsigned char uid[16];         /* the identity of this process, random */
    unsigned char job[8];          /* a hash of the job's name */
    struct madi_secrets *secrets;  /* secrets of the session; NULL if the job's key is not known yet */
    struct madi_seal_ctx *seal;    /* settings of sealed connections; NULL if no adapter seals */
    unsigned char *address;        /* the address of this process */
    size_t address_len;            /* length of the address in bytes */
    const madi_forward_t *forward; /* NULL: no virtual links */
    const madi_rails_ops_t *rails; /* functions of rails; NULL if each peer has one link only */
    /* Adapters; fixed after the start. */
    madi_adapter_t **adapters;
    int n_adapters;
    madi_left_out_t *left_out; /* adapters that could not be opened; NULL if none */
    /* The parts of the folders. */
    struct madi_conn_session *conn;            /* conn: channels for reuse, the budget of credits */
    struct madi_connect_session *connect;      /* connect: peers, released gates, handshakes */
    struct madi_memory_session *memory;        /* memory: registered blocks, operations on blocks of peers */
    struct madi_coll_session *coll;            /* coll, which is above the core; NULL if there was no group */
    void (*coll_free)(mad_session_t *session); /* function that frees `coll`; NULL if there is none */
    struct madi_stats_kept *kept;              /* inspect: counters of released gates; NULL if none */
    struct madi_session_own *own;              /* session: listening sockets, how threads wait, the end */
    /* link: adapters that are polled, threads that wait.  Embedded, since progress looks at them in each round. */
    struct madi_link_session {
        madi_adapter_t **polled;                       /* adapters that have had a link; read without a lock */
        _Atomic(int) n_polled;                         /* entries of polled; written under lock, read without one */
        _Atomic(int) poll_first;                       /* index of the polled adapter that is polled first; any lock */
        int carriers;                                  /* number of watched descriptors by which messages arrive; under
                                                        * lock */
        madi_gate_t *work;                             /* list of gates with something to send; under work_lock; NULL if
                                                        * none */
        struct madi_event_node *events, **events_tail; /* under work_lock; NULL: none */
        uint32_t n_events;                             /* under work_lock */
        madi_lock_t wait_lock;      /* locked last of the three locks; work_lock has the same place in the order */
        _Atomic(int) n_watchers;    /* number of threads in `watchers`; written under wait_lock, read without a lock */
        marceli_waiters_t watchers; /* under wait_lock: threads in madi_watch_for, which test after every event */
    } link;
    /* recv: posted receives and rendezvous blocks.  Under lock.  Embedded, since each posted receive looks at the pool. */
    struct madi_recv_session {
        struct madi_handles *blocks; /* madi_rdv_recv by handle */
        madi_posted_t *posted_ring;  /* ring of pooled receives, used and free: the one that was used last; NULL: none */
        int n_posted_ring;
    } recv;
    /* api: embedded, since inlined calls look at it. */
    struct madi_api_session {
        madi_share_habit_t habit; /* how the program waits for requests that send long blocks; atomic */
        _Atomic(int) runs_calls;  /* not 0 while a thread runs callbacks and handlers */
    } api;
    _Atomic(int64_t) rails_at; /* ns: time at which rails->tick is due; INT64_MAX if never */
    /* Gates with something to send. */
    madi_lock_t work_lock;     /* also protects callbacks and events */
    _Atomic(int) has_work;     /* not 0 if the list `work` has gates; written under work_lock, read by any thread */
    _Atomic(int) strides_left; /* not 0 if a gate of the list can send more without waiting for an event; like has_work */
    void (*gate_lost)(madi_gate_t *gate); /* function to call, under lock, when a gate is down; NULL if none */
    /* function to call, under lock, before the entry of a released peer is freed; NULL if none */
    void (*peer_released)(mad_session_t *session, mad_peer_t peer);
    /* Channels, gates and links; under lock.  NULL: none. */
    madi_gate_t *gates;
    mad_channel_t *channels;
    mad_channel_t *awaiting_release; /* closed channels that peers still use */
    madi_link_t *dead_links;         /* closed links, to be freed outside of callbacks */
    madi_conn_t *credit_due;         /* the connection whose credit limit is sent when progress is idle */
    /* Progress; under lock unless a field says otherwise.  Descriptors: -1 if closed. */
    int epfd, rare_epfd; /* rare_epfd is watched by epfd, through `rare`, and by the accept thread */
    madi_watch_t rare;
    marceli_accept_entry_t accept_entry; /* the session's entry at the accept thread */
    int32_t ticks;                       /* number of rounds until the next poll of everything */
    int64_t looked;                      /* ns: time of the last poll of everything */
    madi_adapter_t *last_hit; /* the adapter that brought the last short messages; it has the operation `take`, and a link */
    _Atomic(int) processes;   /* number of processes, of this job and others, that may compete for this host's processors */
    int spins;                /* tests of a spinning thread between two reads of the clock */
    mad_request_t *callbacks, **callbacks_tail; /* requests whose callbacks are due; under work_lock, but run without it */
    madi_rx_msg_t *for_handlers, **for_handlers_tail; /* messages for handlers, which run without a lock */
    _Atomic(int) has_calls;                           /* not 0 if one of the two lists above is not empty */
    madi_rx_msg_t *rx_ring;                           /* ring of all message structures, used and free */
    madi_ledger_sum_t ledger;                         /* sums of all peers; atomic */
};

static_assert(_Alignof(mad_session_t) > 1, "an instant request is a session with its lowest bit set");

#endif
