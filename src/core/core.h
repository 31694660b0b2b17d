/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal functions of the core, file by file.  The objects are in objects.h; functions for sending and receiving in send.h
 * and receive.h.  Included by src/core, and by src/gateway, which forwards. */
#ifndef MADI_CORE_H
#define MADI_CORE_H

#include "core/objects.h"
#include "core/security/seal.h"
#include "core/security/secret.h"

#include <sys/types.h>

/* handle.c: a handle, which peers send back, is a number with a generation, never a pointer. */
struct madi_handles *madi_handles_new(void);
void madi_handles_free(struct madi_handles *h);
uint32_t madi_handle_add(struct madi_handles *h, void *object); /* 0: no memory */
void *madi_handle_get(struct madi_handles *h, uint32_t handle); /* NULL: not valid, or no longer */
void madi_handle_del(struct madi_handles *h, uint32_t handle);
bool madi_handles_none(const struct madi_handles *h); /* true if no handle is in use */
void madi_handles_each(struct madi_handles *h, void (*fn)(void *object, void *arg), void *arg);

/* address.c */
#define MADI_ADDRESS_MAX 8191 /* bytes; as hexadecimal digits it fits into a launcher's value (MADI_BOOT_VALUE_MAX) */
/* Set session->address.  MAD_ERR_CONFIG, logged: the entries of its adapters do not fit. */
mad_status_t madi_address_make(mad_session_t *session);
/* Check an address that a peer sent; *len: its length in bytes. */
mad_status_t madi_address_check(const void *bytes, size_t max, size_t *len);
const unsigned char *madi_address_uid(const unsigned char *address);
madi_role_t madi_address_role(const unsigned char *address); /* as the process claims; not proved */
/* Return the rank in that job, -1 if it is not a process of the job. */
int madi_address_rank(const unsigned char *address, const unsigned char *job);
size_t madi_address_len(const unsigned char *address);
/* One adapter of the process; pointers are into the address. */
typedef struct madi_address_entry {
    char driver[16], network[MADI_NAME_MAX];
    const unsigned char *bytes;
    size_t len;
    size_t at; /* offset of the entry in the address */
} madi_address_entry_t;
/* Get the next entry of a checked address at or behind offset *at (first 0), and move *at behind it.  Entries with names
 * longer than this release knows are skipped.  False: there is none. */
bool madi_address_next(const unsigned char *address, size_t *at, madi_address_entry_t *entry);

/* exchange.c: exchange of addresses through the launcher; no lock, but one thread at a time */
void madi_exchange_hex(char *out, const unsigned char *bytes, size_t n);
/* Convert hexadecimal digits back to bytes; returns their number. */
size_t madi_exchange_bytes(const char *text, unsigned char *bytes, size_t max);
mad_status_t madi_exchange_put(madi_boot_t *boot, const void *address, size_t len);
/* Get the address of a rank or of a gateway (boot.h), unchecked.  *len 0: a gateway that could not be started. */
mad_status_t madi_exchange_get(madi_boot_t *boot, int number, unsigned char bytes[MADI_ADDRESS_MAX], size_t *len);

/* fork.c */
void madi_fork_watch(mad_session_t *session);  /* make the session unusable in children of fork; no lock */
void madi_fork_forget(mad_session_t *session); /* undo that at the session's end; no lock */
mad_status_t madi_fork_refuse(void);           /* log once that a child uses it; returns MAD_ERR_FORKED */

/* Return MAD_OK, or MAD_ERR_FORKED if the session belongs to the parent process.  Any lock. */
static inline mad_status_t madi_session_usable(const mad_session_t *session)
{
    return MADI_UNLIKELY(session->forked) ? madi_fork_refuse() : MAD_OK;
}

/* Return the status for the use of a closed channel.  Any lock. */
static inline mad_status_t madi_channel_status(const mad_channel_t *channel)
{
    mad_status_t status = madi_session_usable(channel->session);
    return status ? status : MAD_ERR_CLOSED;
}

/* peer.c; under session->lock */
madi_peer_t *madi_peer_at(const mad_session_t *session, mad_peer_t peer); /* NULL: none; valid until a peer is added */
const unsigned char *madi_peer_address(const mad_session_t *session, mad_peer_t peer); /* NULL: no peer, or not known yet */
void madi_peer_drop(mad_session_t *session, madi_peer_t *peer); /* a peer without a gate */
mad_status_t madi_peer_add(mad_session_t *session, const unsigned char *address, size_t len, mad_peer_t *peer);
/* Like madi_peer_add, but for a process that a peer has announced, to which it is charged.  MAD_ERR_BUSY: the peer has
 * announced too many. */
mad_status_t madi_peer_learn(madi_gate_t *teller, const unsigned char *address, size_t len, mad_peer_t *peer);
mad_peer_t madi_peer_find(mad_session_t *session, const unsigned char *address); /* by its identity; -1: not known */
/* Record that the peer is connected: no other peer is charged for it any more.  reached: this process connected to it, so
 * its address is right. */
void madi_peer_proved(mad_session_t *session, mad_peer_t peer, bool reached);
mad_status_t madi_peer_gate(mad_session_t *session, mad_peer_t peer, int lane, madi_gate_t **gate); /* makes it if needed */
madi_gate_t *madi_peer_gate_find(const mad_session_t *session, mad_peer_t peer, int lane); /* NULL: not made yet */
int madi_lanes(mad_session_t *session); /* number of lanes: 1 without a topology file */
bool madi_lane_carries(mad_session_t *session, int lane); /* true if the lane carries streams, and no messages */
/* Give a lost peer a new number, since the process may be reachable again.  On lanes on which it is not lost both numbers
 * share a gate, and its messages come from the old number.  quiet: only the library communicates with it on that lane, and
 * the program gets no event.  MAD_ERR_INVAL: it has a new number already. */
mad_status_t madi_peer_again(mad_session_t *session, mad_peer_t lost, int lane, bool quiet, mad_peer_t *peer);
/* Like madi_peer_add, but give a new number to a peer that is lost on that lane; lane -1: on any. */
mad_status_t madi_peer_add_anew(mad_session_t *session, const unsigned char *address, size_t len, int lane,
                                mad_peer_t *peer);
mad_status_t madi_peer_fetch(mad_session_t *session, mad_peer_t peer); /* get a rank's address from the launcher */

/* forget.c; under session->lock, outside of drivers */
/* Free lost peers that the program did not add and that are not ranks, once nothing refers to them. */
#define MADI_FORGET_NS 20000000 /* the least time that a peer stays after it is lost; also the time between two checks */
void madi_peers_forget_lost(mad_session_t *session);
void madi_stats_keep(mad_session_t *session, madi_gate_t *gate); /* stats.c: save counters before the gate is freed */
void madi_stats_free(mad_session_t *session);

/* stopped.c; any lock */
/* Return the process of this host at the other end of a connected socket; 0: on another host, or not known.  Slow for tcp:
 * examines all processes. */
pid_t madi_process_behind(int fd);
pid_t madi_process_near(int fd); /* like madi_process_behind, but 0 where the answer is slow */
char madi_process_stopped(pid_t pid); /* 'T' (stopped by a signal), 't' (by a debugger), or 0: running, or gone */

/* If the process is stopped, postpone the deadline of a handshake with it, and that of the gate: time for which it is
 * stopped does not count.  gate NULL: an incoming connection, which has none.  Under session->lock. */
void madi_stopped_spare(pid_t process, madi_gate_t *gate, int64_t *deadline);

/* paths.c; under session->lock */
/* Find the first entry of a peer's address that this adapter can reach on that lane; false sets reason. */
bool madi_way_find(mad_session_t *session, const unsigned char *address, int lane, madi_adapter_t *a,
                   madi_address_entry_t *entry, char *reason);
/* Like madi_way_find, but the next entry at or behind offset *at (first 0); *at moves behind it. */
bool madi_way_next(mad_session_t *session, const unsigned char *address, int lane, madi_adapter_t *a, size_t *at,
                   madi_address_entry_t *entry, char *reason);
#define MADI_WAY_CLASS 12
/* Compute the preference of an adapter's paths: the lowest (memcmp) is best. */
void madi_way_class(mad_session_t *session, int lane, const madi_adapter_t *a, unsigned char class[MADI_WAY_CLASS]);
int madi_way_rank(const madi_adapter_t *a); /* the lowest is tried first */
void madi_way_failed(madi_gate_t *gate, const madi_adapter_t *a, const char *reason); /* copies reason, if memory allows */
void madi_way_late(madi_gate_t *gate); /* record that MAD_CONNECT_TIMEOUT has passed: of the chosen way, or of all */
/* Write the rejected paths with their reasons, each reason once, and what is used, or was lost, or that no path led to the
 * peer in time.  Of many paths a few are named, the others counted. */
#define MADI_WHY_MAX 512 /* bytes */
void madi_gate_why(const madi_gate_t *gate, char why[MADI_WHY_MAX]);
void madi_ways_free(madi_gate_t *gate);

/* A path that failed; in gate->failures, the last one first. */
struct madi_failure {
    struct madi_failure *next; /* the one before */
    const madi_adapter_t *adapter;
    bool was_used; /* packets had flowed */
    char reason[];
};

enum madi_way { MADI_WAY_USED, MADI_WAY_TRIED, MADI_WAY_LOST, MADI_WAY_SPARE, MADI_WAY_REJECTED };
/* Return the state of a path to a peer whose address is known; reason (MADI_REASON_MAX bytes) is the cause.  Empty for USED,
 * and for TRIED (connecting) unless the peer is stopped. */
enum madi_way madi_way_explain(mad_session_t *session, mad_peer_t peer, int lane, madi_adapter_t *a, char *reason);
const char *madi_way_name(enum madi_way way); /* "used", "connecting", "was used", ... */

/* search.c; under session->lock */
typedef struct madi_search_way {
    madi_adapter_t *adapter;
    size_t entry; /* offset of the entry in the peer's address */
    unsigned char class[MADI_WAY_CLASS];
    int nth, index; /* its number among that adapter's paths; the adapter's number */
    bool tried;     /* being tried, or failed */
} madi_search_way_t;

struct madi_search {
    int64_t next_at; /* time at which the next wave starts (ns); 0: only after a path fails */
    int wave;        /* number of the paths of a wave */
    int n;           /* number of all paths */
    bool none_left;  /* for tests: there were paths, and none is left */
    madi_search_way_t way[];
};

void madi_gate_connect(madi_gate_t *gate);       /* start the search for a path, unless one runs */
void madi_gate_connect_again(madi_gate_t *gate); /* restart it, same deadline; precondition: no attempt is under way */
madi_link_t *madi_link_new(madi_adapter_t *adapter, madi_gate_t *gate);
void madi_search_wave(madi_gate_t *gate); /* start the next wave: next_at has come */
void madi_search_failed(madi_gate_t *gate, madi_link_t *link, mad_status_t status, const char *text);
void madi_search_untry(madi_gate_t *gate, int way); /* a path was given up for another one: it may be tried again */
/* True if paths are left that cannot be tried in parallel with the attempts under way, which must leave them some time. */
bool madi_search_waits(const madi_gate_t *gate, bool alone);
bool madi_way_better(const struct madi_search *search, int a, int b); /* true if path a is of a better class than b */
void madi_search_free(madi_gate_t *gate);

/* gate.c */
/* text NULL: what madi_gate_why writes.  Under session->lock. */
void madi_gate_down(madi_gate_t *gate, mad_status_t status, const char *text);
void madi_link_bury(madi_link_t *link);                          /* close it; under session->lock */
void madi_gate_late(madi_gate_t *gate);                          /* fail a gate at its deadline; under session->lock */
mad_status_t madi_gate_ctrl(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body); /* takes tx_lock */
mad_status_t madi_gate_ctrl_locked(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body); /* under tx_lock */
bool madi_ctrl_pump(madi_gate_t *gate);   /* send queued control packets; false: some are left; under tx_lock */
void madi_ctrl_forget(madi_gate_t *gate); /* discard them; under tx_lock */
void madi_gate_pump(madi_gate_t *gate);                          /* under tx_lock */
void madi_gate_work(madi_gate_t *gate);                          /* have the next progress pump it; any lock */
void madi_gate_go_on(madi_gate_t *gate);                         /* likewise, but before any thread sleeps */
void madi_gate_free(madi_gate_t *gate);
void madi_gate_floor(madi_gate_t *gate, uint64_t floor); /* set the peer's credits per connection; under session->lock */
extern madi_adapter_t madi_no_adapter; /* a placeholder whose take finds nothing */
void madi_links_reap(mad_session_t *session); /* free closed links; under session->lock, outside of drivers */

/* session.c */
/* Like mad_open, but for a process of this role, with a key as in secret.h. */
mad_status_t madi_session_open(madi_role_t role, const void *key, size_t key_len, mad_session_t **session);

/* protection.c */
/* Settle how an adapter's network is protected: by the topology file, or the driver's knobs.  Like the driver's secure. */
mad_status_t madi_adapter_secure(madi_adapter_t *adapter, char *reason);
/* Describe it in a few words for people: "seal: TLS 1.3, TLS_AES_128_GCM_SHA256, the job's key". */
void madi_security_text(const madi_adapter_t *adapter, char *text, size_t len);

/* hello.h; under session->lock */
/* Begin the handshake on a path of the gate's search; takes fd.  On an error (errno) the link stays with the calling
 * function. */
mad_status_t madi_hello_connect(madi_gate_t *gate, madi_link_t *link, int fd, int way);
void madi_hello_accept(madi_adapter_t *adapter, int fd);
void madi_hello_abort(struct madi_hello *hello);
void madi_hello_abort_all(madi_gate_t *gate); /* end all attempts of this process */
/* Choose one of this process's attempts that have received the peer's challenge, unless a better one may still do so. */
void madi_hello_decide(madi_gate_t *gate, int64_t now);
bool madi_hello_tries(const madi_gate_t *gate, const madi_adapter_t *adapter); /* true if an attempt uses this adapter */
void madi_hello_give_up(madi_link_t *link, mad_status_t status, const char *text); /* end the link's attempt, if any */
/* Remove the deadline of the attempt that has begun: the peer may compute for long. */
void madi_hello_patience(madi_gate_t *gate);
/* Mark the link's attempt, if any: should it end without a verdict, the peer did not refuse, and a new attempt begins. */
void madi_hello_unsure(madi_link_t *link);
bool madi_hello_evict(mad_session_t *session); /* end the handshake of an incoming connection (accept.c); false if none */
void madi_hellos_reap(mad_session_t *session);
/* End the attempts whose deadline has passed.  Time during which this process or its machine stood still does not count.
 * To be called again at madi_hello_deadline at the latest; INT64_MAX: nothing has a deadline. */
void madi_hello_expire(mad_session_t *session, int64_t now);
int64_t madi_hello_deadline(const mad_session_t *session);

/* channel.c */
madi_conn_t *madi_conn_nobody(uint32_t place); /* the placeholder for an empty entry of madi_conn_array */
bool madi_conns_retire_gate(madi_gate_t *gate); /* retire all; false: one is referred to.  Under session->lock */
madi_conn_t *madi_conn_get(mad_channel_t *channel, mad_peer_t peer, mad_status_t *status); /* takes session->lock */
madi_conn_t *madi_conn_make(mad_channel_t *channel, madi_gate_t *gate);  /* under session->lock */
mad_channel_t *madi_channel_find(mad_session_t *session, const char *name); /* made if needed; under session->lock */
/* Return the n-th channel, NULL if there are fewer: for iteration in steps.  If channels come or go between the steps, one
 * may be missed or another returned twice.  Under session->lock. */
const mad_channel_t *madi_channel_at(const mad_session_t *session, uint32_t n);
void madi_channel_dies(mad_channel_t *channel); /* a peer no longer uses it: release it if possible; under session->lock */
void madi_channels_sweep(mad_session_t *session); /* retire dying channels that can go; under session->lock */
void madi_channels_free(mad_session_t *session);

/* channel_number.c; under session->lock */
madi_conn_t *madi_conn_new(mad_channel_t *channel, madi_gate_t *gate); /* NULL: no memory, or no number is free */
void madi_conns_free(madi_gate_t *gate);
madi_conn_t *madi_conn_by_number(madi_gate_t *gate, uint16_t number); /* under gate->tx_lock; NULL: not in use */
void madi_conn_close(madi_conn_t *conn); /* send CLOSE if nothing is left to send; under gate->tx_lock only */
void madi_conn_hand_back(madi_conn_t *conn); /* return the peer's number if the peer waits for it and nothing is held */
/* Handle CLOSE (the peer sends nothing more under its number) and CLOSED (it has released ours).  False: protocol error. */
bool madi_number_closed(madi_gate_t *gate, uint16_t number);
bool madi_number_free(madi_gate_t *gate, uint16_t number);
bool madi_conns_in_use(madi_gate_t *gate); /* true if madi_conn_in_use of any of them; takes gate->tx_lock */
bool madi_conn_retire_unused(madi_conn_t *conn); /* like madi_conn_retire, for a gate whose connections are not in use */
bool madi_conn_retire(madi_conn_t *conn); /* precondition: channel not open, or gate down; false: not possible yet */
void madi_conn_drop(madi_conn_t *conn); /* discard messages that have arrived and will never be opened */
bool madi_conn_in_use(madi_conn_t *conn);  /* true if a message of it is open, pending, or not received */
void madi_conn_traffic(const madi_conn_t *conn, madi_traffic_t *sum); /* add its traffic to sum; also under gate->tx_lock */

/* unopened.c; under session->lock */
void madi_unopened_sweep(madi_gate_t *gate); /* release those that the peer no longer uses; before each announcement */
bool madi_unopened_announced(madi_conn_t *conn); /* charge an announced channel; false: too many, nothing is charged */
void madi_unopened_message(madi_conn_t *conn, size_t len); /* charge a waiting packet; too many: the peer is in error */
void madi_unopened_drained(madi_conn_t *conn); /* no packet waits any more */
void madi_unopened_end(madi_conn_t *conn);     /* the channel was opened, or the connection has ended */

static inline madi_conn_t *madi_conn_peek(mad_channel_t *channel, mad_peer_t peer)
{
    madi_conn_array_t *a = atomic_load_explicit(&channel->conns, memory_order_acquire); /* pairs with madi_conn_make */
    madi_conn_t *conn = atomic_load_explicit(&a->at[(uint32_t)peer & a->mask], memory_order_acquire);
    return MADI_LIKELY(conn->peer == peer) ? conn : NULL;
}

/* request.c */
/* An instant request: its operation completed with MAD_OK within the call that returns it.  It has no structure, but is the
 * session's address with the lowest bit set: nothing is allocated, nothing is freed. */
static inline mad_request_t *madi_request_instant(mad_session_t *session)
{
    static_assert(_Alignof(mad_session_t) > 1, "the lowest bit is free");
    return (mad_request_t *)((uintptr_t)session | 1);
}
static inline bool madi_request_is_instant(const mad_request_t *request)
{
    return (uintptr_t)request & 1;
}
/* True if a call may return an instant request.  While callbacks run, further ones are queued by their request's structure:
 * so callbacks do not nest, and a lack of memory is reported before anything is sent. */
static inline bool madi_request_may_be_instant(const mad_session_t *session)
{
    return MADI_LIKELY(!atomic_load_explicit(&((mad_session_t *)session)->calling, memory_order_relaxed));
}
static inline bool madi_request_is_done(const mad_request_t *request)
{
    return madi_request_is_instant(request) ||
           atomic_load_explicit(&((mad_request_t *)request)->state, memory_order_acquire) == MADI_REQUEST_DONE;
}
void madi_request_queue_callback(mad_request_t *request); /* it is done: its callback is due; any lock */
void madi_request_init(mad_request_t *request, mad_session_t *session, bool async);
void madi_request_free(mad_request_t *request); /* its owner is done with it */
/* Make a posted receive of the program's blocks, not in its connection's list yet.  NULL: no memory.  Under session->lock. */
madi_posted_t *madi_posted_new(madi_conn_t *conn, const mad_block_t *blocks, int n, bool async);
void madi_posted_ring_free(mad_session_t *session); /* at the end of the session */
mad_request_t *madi_request_new(mad_session_t *session, bool async); /* async: needs progress while no thread waits */
void madi_request_by_peer(mad_request_t *request); /* the peer will complete it; called before it can complete */
void madi_request_left(mad_request_t *request); /* a call is about to return it to the program; no lock */
void madi_request_complete(mad_request_t *request, mad_status_t status); /* any lock */

/* judge.c; under session->lock, outside of drivers */
void madi_ledger_judge(madi_gate_t *gate); /* end the connection of a peer that has passed a bound, if it has */
/* Where all together have too much: end the connection of the peer that has most. */
void madi_ledger_judge_all(mad_session_t *session);

/* round.c; under session->lock unless it says otherwise */
#define MADI_LOOK_AROUND 1024 /* busy rounds between two polls of everything */
#define MADI_EPOLL_EVERY 256  /* empty rounds between two polls of the descriptors */
#define MADI_ROUND_BYTES 256  /* bytes of long bodies that count as one round */
int madi_progress_locked(mad_session_t *session);       /* one round */
int madi_progress_after(mad_session_t *session, int n); /* the part of a round after the adapters' polls */
int madi_look_around(mad_session_t *session);           /* poll every adapter and descriptor */
void madi_rare_ready(madi_watch_t *watch, uint32_t events); /* ready of session->rare, which the accept thread shares */
void madi_adapter_polled(madi_adapter_t *adapter);      /* add an adapter to those that are polled */
bool madi_pure_poll(mad_session_t *session);            /* no lock */

/* Return an adapter whose pure_poll is true, NULL if none; no lock. */
static inline madi_adapter_t *madi_poll_hit(mad_session_t *session)
{
    int n = atomic_load_explicit(&session->n_polled, memory_order_acquire); /* pairs with madi_adapter_polled */
    int at = atomic_load_explicit(&session->poll_first, memory_order_relaxed);
    for (int i = 0; i < n; i++, at++) {
        at = at < n ? at : 0;
        if (session->polled[at]->driver->pure_poll(session->polled[at]))
            return session->polled[at];
    }
    return NULL;
}
void madi_poll_missed(mad_session_t *session, const madi_adapter_t *adapter); /* its pure_poll was wrong: others go first */

/* callbacks.c */
void madi_calls_run(mad_session_t *session); /* run queued callbacks and handlers; no lock */
/* Run a callback with MAD_OK now, after those that are queued.  False: a thread runs callbacks already, perhaps this one. */
bool madi_call_run(mad_session_t *session, void (*fn)(void *arg, mad_status_t status), void *arg);

/* True if callbacks are queued and no thread runs them; a thread that runs some goes on until the queue is empty. */
static inline bool madi_calls_wait(const mad_session_t *session)
{
    return atomic_load_explicit(&session->has_calls, memory_order_acquire) && /* pairs with the adding thread's store */
           !atomic_load_explicit(&session->calling, memory_order_relaxed);
}

/* wait.c */
mad_status_t madi_wait_init(mad_session_t *session);
void madi_wait_beside(mad_session_t *session, int sharers); /* set the number of processes on its processors.  No lock */
void madi_wait_job(mad_session_t *session, const madi_boot_t *boot); /* likewise, by the launcher's data after a fence */
mad_status_t madi_wait_start(mad_session_t *session); /* let other threads poll it from now on */
void madi_wait_callers(mad_session_t *session); /* start to serve incoming connections: the job's key is known */
void madi_wait_stop(mad_session_t *session); /* precondition: no thread waits; no lock */
void madi_wait_fini(mad_session_t *session);
/* Wait for a condition of several objects: test is called after every event.  MAD_OK or MAD_ERR_TIMEOUT.  No lock held. */
mad_status_t madi_watch_for(mad_session_t *session, bool (*test)(void *arg), void *arg, int64_t deadline);
void madi_watchers_wake(mad_session_t *session); /* wake the threads in madi_watch_for; any lock but wait_lock */

static inline bool madi_done(const madi_waitable_t *w)
{
    return atomic_load_explicit(&((madi_waitable_t *)w)->done, memory_order_acquire); /* pairs with completion */
}

/* query.c; queries from mad_info.  madi_ask_close is under session->lock. */
typedef struct madi_ask madi_ask_t;
madi_ask_t *madi_ask_open(mad_session_t *session); /* NULL: not possible here; logged */
void madi_ask_close(madi_ask_t *ask);

/* event.c */
void madi_event(mad_session_t *session, mad_status_t status, mad_peer_t peer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline void madi_message_fail(mad_connection_t *cnx, mad_status_t status)
{
    int none = MAD_OK;
    if (cnx->plain) /* not so when another thread's failure comes here */
        cnx->plain = 0;
    atomic_compare_exchange_strong_explicit(&cnx->status, &none, (int)status, memory_order_relaxed,
                                            memory_order_relaxed);
}
static inline mad_status_t madi_message_status(const mad_connection_t *cnx)
{
    return (mad_status_t)atomic_load_explicit(&((mad_connection_t *)cnx)->status, memory_order_relaxed);
}

#include "core/recv/receive.h"
#include "core/send/send.h"

#endif
