/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/daemon.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "gateway/gateway.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

/* ---- Identity of a gateway
 * -------------------------------------------------------------------------------------------- */

/* Length of an encoded mark in bytes: a zero, which ends the host's name, then `number` and `since`. */
#define MARK (1 + sizeof(uint32_t) + sizeof(uint64_t))

static gw_mark_t own;
static bool is_daemon;

bool gw_is_daemon(void)
{
    return is_daemon;
}

size_t gw_mark_put(unsigned char *bytes, size_t room)
{
    if (!own.since || room < MARK)
        return 0;
    bytes[0] = 0;
    memcpy(bytes + 1, &own.number, sizeof own.number);
    memcpy(bytes + 1 + sizeof own.number, &own.since, sizeof own.since);
    return MARK;
}

gw_mark_t gw_mark_read(const unsigned char *bytes, size_t len)
{
    gw_mark_t mark = {0};
    const unsigned char *at = len > 1 ? memchr(bytes + 1, 0, len - 1) : NULL; /* the first byte holds flags, not text */
    if (!at || (size_t)(bytes + len - at) != MARK)
        return mark;
    memcpy(&mark.number, at + 1, sizeof mark.number);
    memcpy(&mark.since, at + 1 + sizeof mark.number, sizeof mark.since);
    return mark;
}

static void daemon_mark_set(int number)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    own.number = (uint32_t)number;
    own.since = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- Joining
 * ---------------------------------------------------------------------------------------------------------- */

/* Fetch the address that process `number` of the job has published, and add it as a peer.  Under the session's lock,
 * or before another thread uses the session. */
static mad_status_t process_learn(mad_session_t *s, madi_boot_t *boot, int number)
{
    unsigned char bytes[MADI_ADDRESS_MAX];
    size_t n, len;
    mad_peer_t peer;
    mad_status_t status = madi_exchange_get(boot, number, bytes, &n);
    if (!status && !n && number >= boot->size && s->forward)
        gw_of_session(s)->awaits = true;
    if (status || !n)
        return status;
    if (madi_address_check(bytes, n, &len)) {
        madi_log(MADI_LOG_ERROR, "virtual", "the launcher's value for process %d is no address", number);
        return MAD_ERR_BOOT;
    }
    return madi_peer_add(s, bytes, len, &peer);
}

mad_status_t gw_learn_gateways(mad_session_t *s)
{
    mad_status_t status = MAD_OK;
    madi_lock(&s->lock);
    for (int i = 0; i < s->boot->gateways && !status; i++)
        status = process_learn(s, s->boot, s->boot->size + i);
    madi_unlock(&s->lock);
    return status;
}

mad_status_t gw_learn_named(mad_session_t *s)
{
    const char *text = madi_knob_text(MADI_KNOB_GATEWAYS);
    mad_status_t status = MAD_OK;
    madi_lock(&s->lock);
    for (int number = 1; *text && !status; number++) {
        unsigned char bytes[MADI_ADDRESS_MAX];
        size_t n = madi_exchange_bytes(text, bytes, sizeof bytes), len;
        mad_peer_t peer;
        text += 2 * n;
        if ((*text && *text != ',') || madi_address_check(bytes, n, &len) || len != n) {
            madi_log(MADI_LOG_ERROR, "virtual", "MAD_GATEWAYS: value %d is no address", number);
            status = MAD_ERR_CONFIG;
        } else {
            status = madi_peer_add(s, bytes, len, &peer);
            text += *text == ',';
        }
    }
    madi_unlock(&s->lock);
    return status;
}

/* Record that all other processes also know the current peers.  There may be no virtual adapter. */
static void peers_mark_known(mad_session_t *s)
{
    if (s->forward)
        gw_of_session(s)->n_known = (uint32_t)madi_peers_end(s);
}

mad_status_t madi_gateway_open(const void *key, size_t key_len, mad_session_t **session)
{
    mad_status_t status;
    is_daemon = true;
    if (key_len != MADI_SECRET_LEN) {
        madi_log(MADI_LOG_ERROR, "virtual",
                 "the key of a gateway has %d bytes, not %zu: start it with the release that wrote it", MADI_SECRET_LEN,
                 key_len);
        return MAD_ERR_AUTH;
    }
    status = madi_session_open(MADI_ROLE_GATEWAY, key, key_len, session);
    if (status)
        return status;
    madi_lock(&(*session)->lock);
    (*session)->launcher_rank = -1; /* gateways have no rank number */
    (*session)->launcher_size = 0;
    madi_unlock(&(*session)->lock);
    return status;
}

void madi_gateway_share(mad_session_t *s, int processes)
{
    madi_wait_sharers(s, processes);
}

int64_t madi_gateway_budget(void)
{
    return madi_knob_int(MADI_KNOB_FORWARD_BUDGET);
}

static mad_status_t processes_enter(mad_session_t *s, madi_boot_t *boot)
{
    mad_status_t status = madi_exchange_put(boot, s->address, s->address_len);
    if (!status)
        status = boot->ops->fence(boot);
    madi_wait_job(s, boot);
    madi_lock(&s->lock);
    for (int i = 0; i < boot->size + boot->gateways && !status; i++)
        if (i != boot->rank)
            status = process_learn(s, boot, i);
    peers_mark_known(s);
    madi_unlock(&s->lock);
    return status;
}

mad_status_t madi_gateway_check(mad_session_t *s, const char **host)
{
    gw_t *gw = s->forward ? gw_of_session(s) : NULL;
    if (!gw && !*madi_knob_text(MADI_KNOB_TOPOLOGY))
        madi_log(MADI_LOG_ERROR, "virtual", "MAD_TOPOLOGY names no topology file: a gateway needs one");
    if (!gw) /* otherwise the reason was logged */
        return MAD_ERR_CONFIG;
    if (!gw->forwards) {
        madi_log(MADI_LOG_ERROR, "virtual", "the host %s is no gateway in the topology file: see mad_topology(5); MAD_HOST",
                 madi_map_name(gw->map, gw->host));
        return MAD_ERR_CONFIG;
    }
    *host = madi_map_name(gw->map, gw->host);
    return MAD_OK;
}

mad_status_t madi_gateway_join(mad_session_t **session, madi_boot_t **boot, const char **host)
{
    madi_boot_t *b;
    mad_session_t *s = NULL;
    mad_status_t status = madi_knobs_load();
    if (!status)
        status = madi_boot_join(&b);
    if (status)
        return status;
    if (b->rank < b->size) {
        madi_log(MADI_LOG_ERROR, "virtual",
                 "no launcher has started this process as a gateway: use madrun --topology, or --join with a job's file");
        status = MAD_ERR_BOOT;
    }
    daemon_mark_set(b->rank - b->size);
    if (!status)
        status = madi_gateway_open(b->key, b->key_len, &s);
    madi_boot_key_wipe(b);
    if (!status)
        status = madi_gateway_check(s, host);
    if (!status)
        status = processes_enter(s, b);
    if (status) {
        mad_exit(s);
        madi_boot_leave(b);
        return status;
    }
    *session = s;
    *boot = b;
    return MAD_OK;
}

void madi_gateway_leave(madi_boot_t *boot)
{
    if (boot)
        madi_boot_leave(boot);
}

/* ---- Serving
 * ---------------------------------------------------------------------------------------------------------- */

int madi_gateway_announce(mad_session_t *s)
{
    const char *allow = madi_knob_text(MADI_KNOB_TCP_ALLOW);
    int64_t others;
    int called = 0;
    madi_lock(&s->lock);
    peers_mark_known(s);
    for (uint32_t p = 0; p < (uint32_t)madi_peers_end(s); p++) {
        const unsigned char *address = madi_peer_address(s, (mad_peer_t)p);
        madi_gate_t *gate;
        if (!address || !memcmp(madi_address_uid(address), s->uid, sizeof s->uid) ||
            !gw_reached_directly(gw_of_session(s), 0, address) || madi_peer_gate(s, (mad_peer_t)p, 0, &gate))
            continue;
        madi_gate_connect(gate);
        madi_hello_no_deadline(gate);
        called++;
    }
    others = madi_peers_end(s);
    madi_unlock(&s->lock);
    if (!called && others > 0)
        madi_log(
            MADI_LOG_WARN, "virtual",
            "no connection is made to any of the %d known processes: no network leads to them%s%.80s; see mad_info explain",
            (int)others, *allow ? ", or they are not on the list of MAD_TCP_ALLOW: " : "", allow);
    return called;
}

void madi_gateway_drain(mad_session_t *s)
{
    madi_lock(&s->lock);
    gw_drain(gw_of_session(s));
    madi_unlock(&s->lock);
}

typedef struct serving {
    madi_watch_t watch;
    mad_session_t *session;
    int signals; /* number of signals received; under the session's lock */
    bool until_abandoned;
} serving_t;

/* Count the received signals.  A SIGHUP counts only as the first one: a launcher sends it at the end of the job, perhaps
 * to a gateway that already drains. */
static void signal_ready(madi_watch_t *watch, uint32_t events)
{
    serving_t *serving = MADI_CONTAINER(watch, serving_t, watch);
    struct signalfd_siginfo info;
    (void)events;
    while (read(watch->fd, &info, sizeof info) == (ssize_t)sizeof info)
        serving->signals += info.ssi_signo != SIGHUP || !serving->signals;
    madi_watchers_wake(serving->session);
}

/* True if all processes that were connected are gone.  Daemons count only if there were only daemons, since two daemons
 * would keep each other alive.  A daemon that never connected (a stale line in the job file) does not count at all.
 * Under the session's lock. */
static bool daemon_abandoned(const serving_t *serving)
{
    mad_session_t *s = serving->session;
    bool gone[2] = {false}, there = false; /* [1]: daemons */
    for (madi_gate_t *g = s->gates; g && serving->until_abandoned; g = g->next) {
        int state = atomic_load_explicit(&g->state, memory_order_relaxed);
        bool up = state == MADI_GATE_UP || state == MADI_GATE_CONNECTING;
        bool daemon = gw_flags_of(gw_of_session(s), madi_peer_address(s, g->peer)) & GW_DAEMON;
        if (up && !daemon)
            return false; /* usually the first one */
        there |= up;
        gone[daemon] |= state == MADI_GATE_DOWN && (!daemon || madi_gate_adapter(g));
    }
    return gone[0] || (gone[1] && !there);
}

static bool daemon_may_end(void *arg)
{
    serving_t *serving = arg;
    bool end;
    madi_lock(&serving->session->lock);
    end = serving->signals || daemon_abandoned(serving);
    madi_unlock(&serving->session->lock);
    return end;
}

/* Count connected processes by their gates on lane 0, which madi_gateway_announce uses; other lanes have other
 * gates.  *calls: true if some are still connecting. */
static int processes_connected(mad_session_t *s, bool *calls)
{
    int n = 0;
    *calls = false;
    madi_lock(&s->lock);
    for (madi_gate_t *g = s->gates; g; g = g->next) {
        int state = g->lane ? MADI_GATE_DOWN : atomic_load_explicit(&g->state, memory_order_relaxed);
        n += state == MADI_GATE_UP;
        *calls |= state == MADI_GATE_CONNECTING;
    }
    madi_unlock(&s->lock);
    return n;
}

static bool dials_are_over_or_may_end(void *arg)
{
    bool calls;
    processes_connected(((serving_t *)arg)->session, &calls);
    return !calls || daemon_may_end(arg);
}

static bool drain_is_over(void *arg)
{
    serving_t *serving = arg;
    mad_session_t *s = serving->session;
    bool end;
    madi_lock(&s->lock);
    end = serving->signals > 1 || !s->forward->busy(s);
    madi_unlock(&s->lock);
    return end;
}

madi_gateway_end_t madi_gateway_serve(mad_session_t *s, int signals, bool until_abandoned,
                                      void (*reached)(const char *host, int processes))
{
    serving_t serving = {.watch = {.fd = signals, .ready = signal_ready}, .session = s, .until_abandoned = until_abandoned};
    madi_gateway_end_t end;
    bool calls;
    int n;
    madi_lock(&s->lock);
    if (madi_watch_add(s, &serving.watch, EPOLLIN))
        serving.signals = 2; /* no signal could end it */
    madi_unlock(&s->lock);
    if (reached) {
        madi_watch_for(s, dials_are_over_or_may_end, &serving, INT64_MAX);
        n = processes_connected(s, &calls);
        if (!calls)
            reached(madi_map_name(gw_of_session(s)->map, gw_of_session(s)->host), n);
    }
    madi_watch_for(s, daemon_may_end, &serving, INT64_MAX);
    madi_gateway_drain(s);
    madi_watch_for(s, drain_is_over, &serving, INT64_MAX);
    madi_lock(&s->lock);
    madi_watch_del(s, &serving.watch);
    end = serving.signals > 1 ? MADI_GATEWAY_STOPPED : serving.signals ? MADI_GATEWAY_DRAINED : MADI_GATEWAY_ABANDONED;
    madi_unlock(&s->lock);
    return end;
}
