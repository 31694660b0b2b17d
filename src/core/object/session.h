/* SPDX-License-Identifier: BSD-3-Clause */
/* A session.  Every folder uses it, so all of it stands here, by lock and subject. */
#ifndef MADI_OBJECT_SESSION_H
#define MADI_OBJECT_SESSION_H

#include "base/base.h"
#include "boot/boot.h"
#include "core/forward.h"
#include "core/link/ledger.h"
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

#define MADI_ROUND_BYTES 256 /* bytes of long bodies that count as one round: in ticks */

struct mad_session {
    /* Constant once the session has started, but for closing and what fork changes. */
    madi_lock_t lock;     /* the first of the three locks of a session */
    bool forked;          /* this is the copy in a child of fork, and is unusable */
    bool held_by_fork;    /* fork.c */
    mad_session_t *next;  /* fork.c */
    _Atomic(int) closing; /* not 0: the session is ending; any lock */
    madi_boot_t *boot;    /* NULL: no launcher */
    int rank, size;
    int told_rank, told_size;     /* without a launcher: see madi_boot_told */
    unsigned char uid[16];        /* the identity of this process, random */
    unsigned char job[8];         /* a hash of the job's name */
    struct madi_secrets *secrets; /* NULL: the job's key is not known yet */
    struct madi_seal_ctx *seal;   /* settings of sealed connections; NULL: no adapter seals */
    unsigned char *address;       /* of this process */
    size_t address_len;           /* bytes */
    bool check_modes;             /* descriptors carry the send mode, which is compared */
    /* Adapters; fixed after the start. */
    madi_adapter_t **adapters;
    int n_adapters;
    madi_adapter_t **polled; /* those of them that have had a link.  Grows under lock, is read without */
    _Atomic(int) n_polled;
    struct madi_listener *listeners; /* one per adapter */
    madi_left_out_t *left_out;
    /* Peers, under lock. */
    madi_peer_t *peers; /* indexed by the low bits of their numbers; cap_peers is a power of two */
    uint32_t n_peers, cap_peers;
    mad_peer_t next_peer; /* the lowest number that was never used */
    int fetched;          /* number of addresses that were fetched from the launcher */
    uint32_t *peer_index; /* hash table by identity, open addressing: peer + 1; 0: free */
    uint32_t cap_index, n_index;
    madi_gate_t *gates;
    madi_gate_t *gone, **gone_tail; /* released gates for reuse, the oldest first */
    uint32_t n_gone;
    int64_t forget_at;            /* when to look for lost peers that can be released (ns); 0: there are none */
    struct madi_stats_kept *kept; /* stats.c: counters of released gates; NULL: none */
    /* Gates with something to send; under work_lock. */
    madi_lock_t work_lock;
    madi_gate_t *work;
    _Atomic(int) has_work;
    _Atomic(int) strides_left; /* not 0: one of these gates can send more without waiting for an event */
    /* Channels, handshakes, links and credits; under lock. */
    mad_channel_t *channels;
    mad_channel_t *dying;                   /* closed channels that peers still use: retired after that */
    mad_channel_t *retired, **retired_tail; /* for reuse, the oldest first */
    int n_retired;
    struct madi_handles *receives; /* madi_rdv_recv by handle */
    struct madi_hello *hellos,
        *dead_hellos;        /* handshakes that run; those that have ended, to be freed outside of callbacks */
    int n_accepted;          /* handshakes of incoming connections */
    int n_attempts;          /* handshakes that this process has begun */
    uint32_t refused_told;   /* bits: statuses of refused incoming connections that were logged already */
    int spare_fd;            /* reserve: closed to refuse an incoming connection when no descriptor is left */
    madi_link_t *dead_links; /* closed, to be freed outside of callbacks */
    int64_t credit_budget;   /* bytes that may still be given to connections beyond their floors */
    madi_conn_t *tell;       /* the connection whose credit limit is sent when progress is idle; NULL: none */
    /* Progress; under lock unless a field says otherwise.  Descriptors: -1 if closed. */
    int epfd, rare_epfd; /* rare_epfd is watched in epfd, by `rare`, and by the accept thread */
    int carriers;        /* number of watched descriptors by which messages arrive: under lock */
    madi_watch_t rare;
    marceli_accept_entry_t accept_entry; /* the session's entry at the accept thread */
    atomic_int poll_first;               /* index of the polled adapter that is polled first */
    bool slept;                          /* a leader has slept on epfd, whose events are not handled yet: under lock */
    int category;                        /* the session's category at the polling server */
    int32_t ticks;                       /* counts down to the next poll of everything */
    int64_t looked;                      /* ns: the last poll of everything */
    int64_t stopped_looked;              /* ns: the last check whether peers that do not answer are stopped */
    int64_t hellos_looked;               /* ns: the last check of handshakes' deadlines; 0: there were none */
    madi_share_habit_t habit;            /* of threads that send long blocks with requests */
    madi_adapter_t *hot;                 /* under lock: the adapter of the last short messages; has take and a link */
    madi_lock_t wait_lock;               /* the last of the three locks, beside work_lock */
    marceli_waiters_t watchers;          /* under wait_lock: threads in madi_watch_for, which test after every event */
    _Atomic(int) n_watchers;             /* written under wait_lock, read without */
    _Atomic(int) processes;              /* processes, of the job and others, that may compete for this host's processors */
    int spins;                           /* tests of a spinning thread between two reads of the clock */
    mad_request_t *callbacks, **callbacks_tail; /* under work_lock: requests whose callbacks are due; they run without it */
    madi_rx_msg_t *handled, **handled_tail;     /* under lock: messages for handlers, likewise */
    _Atomic(int) has_calls;                     /* not 0: one of these two lists is not empty */
    _Atomic(int) calling;                       /* not 0: a thread runs callbacks and handlers */
    madi_rx_msg_t *rx_ring;                     /* under lock: ring of all message structures, used and free */
    madi_posted_t *posted_ring;                 /* under lock: likewise of pooled receives; the one that was used last */
    int n_posted_ring;
    struct madi_event_node *events, **events_tail; /* under work_lock */
    uint32_t n_events;                             /* under work_lock */
    struct madi_query *ask;                        /* NULL: mad_info cannot query this process */
    const madi_forward_t *forward;                 /* NULL: no virtual links */
    madi_ledger_sum_t ledger;
};

static_assert(_Alignof(mad_session_t) > 1, "an instant request is a session with its lowest bit set");

/* True if a call may return an instant request.  While callbacks run, further ones are queued by their request's structure:
 * so callbacks do not nest, and a lack of memory is reported before anything is sent. */
static inline bool madi_request_may_be_instant(const mad_session_t *session)
{
    return MADI_LIKELY(!atomic_load_explicit(&((mad_session_t *)session)->calling, memory_order_relaxed));
}

#endif
