/* SPDX-License-Identifier: BSD-3-Clause */
/* What the core's files offer each other, file by file; the objects are in objects.h, sending and receiving in send.h and
 * receive.h.  Included by src/core, and by src/gateway, which forwards. */
#ifndef MADI_CORE_H
#define MADI_CORE_H

#include "core/objects.h"
#include "core/seal.h"
#include "core/secret.h"

#include <sys/types.h>

/* handle.c: handles that peers send back are numbers with a generation, never pointers. */
struct madi_handles *madi_handles_new(void);
void madi_handles_free(struct madi_handles *h);
uint32_t madi_handle_add(struct madi_handles *h, void *object); /* 0: out of memory */
void *madi_handle_get(struct madi_handles *h, uint32_t handle); /* NULL: not valid (any more) */
void madi_handle_del(struct madi_handles *h, uint32_t handle);
bool madi_handles_none(const struct madi_handles *h); /* is in use */
void madi_handles_each(struct madi_handles *h, void (*fn)(void *object, void *arg), void *arg);

/* address.c */
#define MADI_ADDRESS_MAX 8191 /* bytes; twice as many digits are a value for the launcher (MADI_BOOT_VALUE_MAX) */
/* Sets session->address.  MAD_ERR_CONFIG, logged: its adapters have more to say than an address holds. */
mad_status_t madi_address_make(mad_session_t *session);
/* Check bytes from outside; the length used goes to *len. */
mad_status_t madi_address_check(const void *bytes, size_t max, size_t *len);
const unsigned char *madi_address_uid(const unsigned char *address);
madi_role_t madi_address_role(const unsigned char *address); /* as the process says of itself */
/* The rank in that job, or -1. */
int madi_address_rank(const unsigned char *address, const unsigned char *job);
size_t madi_address_len(const unsigned char *address);
/* One adapter of the process; pointers are into the address. */
typedef struct madi_address_entry {
    char driver[16], network[MADI_NAME_MAX];
    const unsigned char *bytes;
    size_t len;
    size_t at; /* offset of the entry in the address */
} madi_address_entry_t;
/* The next entry of an address that was checked, from offset *at on, which moves behind it; begin with 0.  Entries whose
 * names are longer than any of this release are left out.  False: there is none. */
bool madi_address_next(const unsigned char *address, size_t *at, madi_address_entry_t *entry);

/* exchange.c: through the launcher; no lock, but one thread at a time */
void madi_exchange_hex(char *out, const unsigned char *bytes, size_t n);
/* And back: as many bytes as there are pairs of digits. */
size_t madi_exchange_bytes(const char *text, unsigned char *bytes, size_t max);
mad_status_t madi_exchange_put(madi_boot_t *boot, const void *address, size_t len);
/* The address of a rank, or of a gateway (boot.h); *len 0: a gateway that could not be started.  Not checked. */
mad_status_t madi_exchange_get(madi_boot_t *boot, int number, unsigned char bytes[MADI_ADDRESS_MAX], size_t *len);

/* fork.c */
void madi_fork_watch(mad_session_t *session);  /* from now on a child made by fork cannot use it; no lock */
void madi_fork_forget(mad_session_t *session); /* no lock */
mad_status_t madi_fork_refuse(void);           /* log it once; MAD_ERR_FORKED */

/* MAD_OK, or MAD_ERR_FORKED: the session is a parent's.  Any lock. */
static inline mad_status_t madi_session_usable(const mad_session_t *session)
{
    return MADI_UNLIKELY(session->forked) ? madi_fork_refuse() : MAD_OK;
}

/* Why a channel that is closed cannot be used.  Any lock. */
static inline mad_status_t madi_channel_status(const mad_channel_t *channel)
{
    mad_status_t status = madi_session_usable(channel->session);
    return status ? status : MAD_ERR_CLOSED;
}

/* peer.c; under session->lock */
madi_peer_t *madi_peer_at(const mad_session_t *session, mad_peer_t peer); /* NULL: nobody has this number; until one is added */
const unsigned char *madi_peer_address(const mad_session_t *session, mad_peer_t peer); /* NULL: nobody, or not known yet */
void madi_peer_drop(mad_session_t *session, madi_peer_t *peer); /* a peer without a gate */
mad_status_t madi_peer_add(mad_session_t *session, const unsigned char *address, size_t len, mad_peer_t *peer);
/* Like madi_peer_add, of a process that a peer has told of: charged to that.  MAD_ERR_BUSY: the peer has told of too many. */
mad_status_t madi_peer_learn(madi_gate_t *teller, const unsigned char *address, size_t len, mad_peer_t *peer);
mad_peer_t madi_peer_find(mad_session_t *session, const unsigned char *address); /* by its identity; -1: not known */
/* It has been connected: nobody is charged for it any more.  reached: by this process's call, so it is where it says. */
void madi_peer_proved(mad_session_t *session, mad_peer_t peer, bool reached);
mad_status_t madi_peer_gate(mad_session_t *session, mad_peer_t peer, int lane, madi_gate_t **gate); /* makes it */
madi_gate_t *madi_peer_gate_find(const mad_session_t *session, mad_peer_t peer, int lane); /* NULL: it was not made */
int madi_lanes(mad_session_t *session); /* so many: 1 without a topology file */
bool madi_lane_carries(mad_session_t *session, int lane); /* streams, and no messages */
/* The connection to a peer is lost for ever; the peer may be there again.  It then is another one, with a number of its own;
 * on lanes on which it is not lost both numbers are the same gate, and its messages come from the old one.  quiet: nobody
 * but this library speaks to it on that lane, and no event tells the program of it.  MAD_ERR_INVAL: it has such a number. */
mad_status_t madi_peer_again(mad_session_t *session, mad_peer_t lost, int lane, bool quiet, mad_peer_t *peer);
/* madi_peer_add; and again, if it is lost on that lane, or on any: -1. */
mad_status_t madi_peer_add_anew(mad_session_t *session, const unsigned char *address, size_t len, int lane,
                                mad_peer_t *peer);
mad_status_t madi_peer_fetch(mad_session_t *session, mad_peer_t peer); /* a rank's address, from the launcher */

/* forget.c; under session->lock, outside of drivers */
/* Forget lost peers that are none of the program's, nor ranks, once nothing refers to them. */
#define MADI_FORGET_NS 20000000 /* that a peer is lost for at least, and between two looks */
void madi_peers_forget_lost(mad_session_t *session);
void madi_stats_keep(mad_session_t *session, madi_gate_t *gate); /* stats.c: it is about to be forgotten */
void madi_stats_free(mad_session_t *session);

/* stopped.c; any lock */
/* The process of this host at the other end of a connected socket; 0: not on this host, or not to be known.  Takes long for
 * tcp: all processes are looked at. */
pid_t madi_process_behind(int fd);
pid_t madi_process_near(int fd); /* like madi_process_behind, but 0 for all that takes long */
char madi_process_stopped(pid_t pid); /* 'T' (by a signal), 't' (by a debugger), or 0: it is not stopped, or not there */

/* If the process is stopped, put off the deadline of a handshake with it, and the gate's (NULL: a caller's, that has none):
 * time for which it is stopped does not count.  Under session->lock. */
void madi_stopped_spare(pid_t process, madi_gate_t *gate, int64_t *deadline);

/* ways.c; under session->lock */
/* The first entry of a peer's address that this adapter can talk to on that lane; false: none, and why. */
bool madi_way_find(mad_session_t *session, const unsigned char *address, int lane, madi_adapter_t *a,
                   madi_address_entry_t *entry, char *reason);
/* Like madi_way_find, but the next one from offset *at on, which moves behind it; begin with 0. */
bool madi_way_next(mad_session_t *session, const unsigned char *address, int lane, madi_adapter_t *a, size_t *at,
                   madi_address_entry_t *entry, char *reason);
#define MADI_WAY_CLASS 12
/* How good an adapter's ways are: the lowest (memcmp) is best. */
void madi_way_class(mad_session_t *session, int lane, const madi_adapter_t *a, unsigned char class[MADI_WAY_CLASS]);
int madi_way_rank(const madi_adapter_t *a); /* the lowest is tried first */
void madi_way_failed(madi_gate_t *gate, const madi_adapter_t *a, const char *reason); /* the copy may fail */
/* Add to gate->why what was rejected and why, one reason once: of many ways a few are named, and the others counted. */
void madi_ways_explain(madi_gate_t *gate);
void madi_ways_free(madi_gate_t *gate);

enum madi_way { MADI_WAY_USED, MADI_WAY_TRIED, MADI_WAY_LOST, MADI_WAY_SPARE, MADI_WAY_REJECTED };
/* What has become of this way to a peer whose address is known (spoken to or not), and why: reason is empty for USED and,
 * unless the peer is stopped, TRIED (connecting), of MADI_REASON_MAX bytes. */
enum madi_way madi_way_explain(mad_session_t *session, mad_peer_t peer, int lane, madi_adapter_t *a, char *reason);
const char *madi_way_name(enum madi_way way); /* "used", "connecting", "was used", ... */

/* search.c; under session->lock */
typedef struct madi_search_way {
    madi_adapter_t *adapter;
    size_t entry; /* of the peer's address: its offset */
    unsigned char class[MADI_WAY_CLASS];
    int nth, index; /* which of that adapter's ways, and of our adapters */
    bool tried;     /* it is being tried, or has failed */
} madi_search_way_t;

struct madi_search {
    int64_t next_at; /* when the next wave starts; 0: when a way fails */
    int wave;        /* number of its ways */
    int n;
    bool none_left;  /* tests: there are no ways, and were some */
    madi_search_way_t way[];
};

void madi_gate_connect(madi_gate_t *gate);       /* find a way, if nobody does */
void madi_gate_connect_again(madi_gate_t *gate); /* from the beginning, until the same deadline; no attempt is under way */
void madi_gate_explain(madi_gate_t *gate, const char *format, ...) __attribute__((format(printf, 2, 3)));
madi_link_t *madi_link_new(madi_adapter_t *adapter, madi_gate_t *gate);
void madi_search_wave(madi_gate_t *gate); /* it is next_at */
void madi_search_failed(madi_gate_t *gate, madi_link_t *link, mad_status_t status, const char *text);
void madi_search_untry(madi_gate_t *gate, int way); /* it was given up for another one, and may be tried again */
/* True if ways are left for which no attempt under way may take all the time: those that cannot be tried beside it. */
bool madi_search_waits(const madi_gate_t *gate, bool alone);
bool madi_way_better(const struct madi_search *search, int a, int b); /* of another class, not only earlier */
void madi_search_free(madi_gate_t *gate);

/* gate.c */
void madi_gate_down(madi_gate_t *gate, mad_status_t status, const char *text); /* under session->lock */
void madi_link_bury(madi_link_t *link);                          /* close it; under session->lock */
void madi_gate_late(madi_gate_t *gate);                          /* it is not up at its deadline; under session->lock */
mad_status_t madi_gate_ctrl(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body); /* takes tx_lock */
mad_status_t madi_gate_ctrl_locked(madi_gate_t *gate, const madi_wire_hdr_t *hdr, const void *body); /* under tx_lock */
void madi_gate_pump(madi_gate_t *gate);                          /* under tx_lock */
void madi_gate_work(madi_gate_t *gate);                          /* have progress pump it; any lock */
void madi_gate_go_on(madi_gate_t *gate);                         /* likewise, at once: no thread sleeps before that */
void madi_gate_free(madi_gate_t *gate);
void madi_gate_floor(madi_gate_t *gate, uint64_t floor); /* the peer's credits per connection; under session->lock */
extern madi_adapter_t madi_no_adapter; /* has nothing to take */
void madi_links_reap(mad_session_t *session); /* under session->lock, outside of drivers */

/* session.c */
/* Like mad_open, but of a process of this role, whose key is that of secret.h. */
mad_status_t madi_session_open(madi_role_t role, const void *key, size_t key_len, mad_session_t **session);

/* secure.c */
/* Settle how an adapter's network is protected: by the topology file, or the driver's knobs.  Like the driver's secure. */
mad_status_t madi_adapter_secure(madi_adapter_t *adapter, char *reason);
/* Describe it in a few words for people: "seal: TLS 1.3, TLS_AES_128_GCM_SHA256, the job's key". */
void madi_security_text(const madi_adapter_t *adapter, char *text, size_t len);

/* hello.h; under session->lock */
/* Begin the handshake of a way of the gate's search; takes fd.  An error (errno) leaves the link to the caller. */
mad_status_t madi_hello_connect(madi_gate_t *gate, madi_link_t *link, int fd, int way);
void madi_hello_accept(madi_adapter_t *adapter, int fd);
void madi_hello_abort(struct madi_hello *hello);
void madi_hello_abort_all(madi_gate_t *gate); /* our own attempts */
/* Take one of our own attempts that have come to the peer's challenge, unless a better one may still come. */
void madi_hello_decide(madi_gate_t *gate, int64_t now);
bool madi_hello_tries(const madi_gate_t *gate, const madi_adapter_t *adapter); /* it has an attempt of ours */
void madi_hello_give_up(madi_link_t *link, mad_status_t status, const char *text); /* our own attempt, if it is one */
/* The attempt that has begun has no deadline: the peer may compute for long. */
void madi_hello_patience(madi_gate_t *gate);
/* Our own attempt, if it is one: should it end without a verdict, that is not the peer's word, and it begins anew. */
void madi_hello_unsure(madi_link_t *link);
bool madi_hello_evict(mad_session_t *session); /* end a caller's handshake (accept.c); false if there is none */
void madi_hellos_reap(mad_session_t *session);
/* Attempts end whose time is over.  Time in which nobody looked, since this process or its machine stood still, is none.
 * To be called again by madi_hello_deadline at the latest; INT64_MAX: nothing has a deadline. */
void madi_hello_expire(mad_session_t *session, int64_t now);
int64_t madi_hello_deadline(const mad_session_t *session);

/* channel.c */
madi_conn_t *madi_conn_nobody(uint32_t place); /* what stands there in madi_conn_array where no connection is */
bool madi_conns_retire_gate(madi_gate_t *gate); /* all of it; false: somebody refers to one.  Under session->lock */
madi_conn_t *madi_conn_get(mad_channel_t *channel, mad_peer_t peer, mad_status_t *status); /* takes session->lock */
madi_conn_t *madi_conn_make(mad_channel_t *channel, madi_gate_t *gate);  /* under session->lock */
mad_channel_t *madi_channel_find(mad_session_t *session, const char *name); /* makes it; under session->lock */
/* The n-th of them, or NULL: for who goes through them in steps; one that comes or goes meanwhile may be missed, or another
 * told of twice.  Under session->lock. */
const mad_channel_t *madi_channel_at(const mad_session_t *session, uint32_t n);
void madi_channel_dies(mad_channel_t *channel); /* a peer is done with it; under session->lock */
void madi_channels_sweep(mad_session_t *session); /* see which of the dying can go; under session->lock */
void madi_channels_free(mad_session_t *session);

/* number.c; under session->lock */
madi_conn_t *madi_conn_new(mad_channel_t *channel, madi_gate_t *gate); /* NULL: no memory, or no number is free */
void madi_conns_free(madi_gate_t *gate);
madi_conn_t *madi_conn_by_number(madi_gate_t *gate, uint16_t number); /* under gate->tx_lock; NULL: nobody's */
void madi_conn_close(madi_conn_t *conn); /* tell the peer, if nothing is left to send; under gate->tx_lock, and it alone */
void madi_conn_hand_back(madi_conn_t *conn); /* the peer's number, if it waits for it and nothing is held */
/* The peer sends nothing more under its number; it is done with ours.  False: that cannot be. */
bool madi_number_closed(madi_gate_t *gate, uint16_t number);
bool madi_number_free(madi_gate_t *gate, uint16_t number);
bool madi_conns_in_use(madi_gate_t *gate); /* madi_conn_in_use of one of them; takes gate->tx_lock */
bool madi_conn_retire_unused(madi_conn_t *conn); /* like madi_conn_retire, of a gate whose connections are not in use */
bool madi_conn_retire(madi_conn_t *conn); /* of a channel that is not open, or a gate that is down; false: not yet */
void madi_conn_drop(madi_conn_t *conn); /* the messages that have come and are not open: nobody will open them */
bool madi_conn_in_use(madi_conn_t *conn);  /* something of it is open, pending, or not received */
void madi_conn_traffic(const madi_conn_t *conn, madi_traffic_t *sum); /* add it; under gate->tx_lock too */

/* unopened.c; under session->lock */
void madi_unopened_sweep(madi_gate_t *gate); /* before one more is announced: forget those that the peer is done with */
bool madi_unopened_announced(madi_conn_t *conn); /* the peer has; false: it has too many, and none is charged */
void madi_unopened_message(madi_conn_t *conn, size_t len); /* a packet of a message waits; too many: the peer is in error */
void madi_unopened_drained(madi_conn_t *conn); /* none waits any more */
void madi_unopened_end(madi_conn_t *conn);     /* the channel is open now, or the connection is over */

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
/* True if a call may return one.  While callbacks run, the next one has to be queued, by its request's structure: so they do
 * not nest, and a lack of memory is reported before anything is sent. */
static inline bool madi_request_may_be_instant(const mad_session_t *session)
{
    return MADI_LIKELY(!atomic_load_explicit(&((mad_session_t *)session)->calling, memory_order_relaxed));
}
void madi_request_init(mad_request_t *request, mad_session_t *session, bool async);
mad_request_t *madi_request_new(mad_session_t *session, bool async); /* async: it needs progress while nobody waits */
void madi_request_by_peer(mad_request_t *request); /* the peer will finish it; before it can be done */
void madi_request_left(mad_request_t *request); /* a call leaves it to the user; no lock */
void madi_request_complete(mad_request_t *request, mad_status_t status); /* any lock */

/* progress.c; under session->lock unless it says otherwise */
#define MADI_LOOK_AROUND 1024 /* rounds with something to do between looks at everything */
#define MADI_EPOLL_EVERY 256  /* empty rounds between looks at the descriptors */
#define MADI_ROUND_BYTES 256  /* so many of long bodies are as much as one round */
int madi_progress_locked(mad_session_t *session);       /* one round */
int madi_progress_after(mad_session_t *session, int n); /* what follows the adapters' polls */
int madi_look_around(mad_session_t *session);           /* every adapter and descriptor gets its turn */
void madi_rare_ready(madi_watch_t *watch, uint32_t events); /* session->rare: one that the door knows, too */
void madi_adapter_polled(madi_adapter_t *adapter);      /* from now on it is asked, too */
bool madi_pure_poll(mad_session_t *session);            /* no lock */

/* An adapter that has something, or NULL; no lock. */
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
void madi_poll_missed(mad_session_t *session, const madi_adapter_t *adapter); /* it had nothing: next time the others first */

/* calls.c */
void madi_calls_run(mad_session_t *session); /* callbacks and handlers; no lock */
/* Run a callback with MAD_OK here and now, behind those that wait.  False: a thread runs some already, perhaps this one. */
bool madi_call_run(mad_session_t *session, void (*fn)(void *arg, mad_status_t status), void *arg);

/* There are some that nobody runs; who runs some goes on until there are none. */
static inline bool madi_calls_wait(const mad_session_t *session)
{
    return atomic_load_explicit(&session->has_calls, memory_order_acquire) && /* pairs with who adds one */
           !atomic_load_explicit(&session->calling, memory_order_relaxed);
}

/* wait.c */
mad_status_t madi_wait_init(mad_session_t *session);
void madi_wait_beside(mad_session_t *session, int sharers); /* so many share its processors, this one among them.  No lock */
void madi_wait_job(mad_session_t *session, const madi_boot_t *boot); /* the same, after a fence: as the launcher knows it */
mad_status_t madi_wait_start(mad_session_t *session); /* from now on other threads may poll it */
void madi_wait_callers(mad_session_t *session); /* it has the key: who calls is answered by the library's own threads */
void madi_wait_stop(mad_session_t *session); /* nobody waits any more; no lock */
void madi_wait_fini(mad_session_t *session);
/* marceli_wait for what is no single object: test is asked after every event.  MAD_OK or MAD_ERR_TIMEOUT.  No lock held. */
mad_status_t madi_watch_for(mad_session_t *session, bool (*test)(void *arg), void *arg, int64_t deadline);
void madi_watchers_wake(mad_session_t *session); /* something has happened; any lock but wait_lock */

static inline bool madi_done(const madi_waitable_t *w)
{
    return atomic_load_explicit(&((madi_waitable_t *)w)->done, memory_order_acquire); /* pairs with completion */
}

/* ask.c; questions from mad_info.  The end is under session->lock. */
typedef struct madi_ask madi_ask_t;
madi_ask_t *madi_ask_open(mad_session_t *session); /* NULL: not possible here; said in the log */
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

#include "core/receive.h"
#include "core/send.h"

#endif
