/* SPDX-License-Identifier: BSD-3-Clause */
/* The session: start, adapters, end. */
#include "core/core.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEY_MIN 16 /* bytes of a job's key */
#define KEY_MAX 64

/* ---- Adapters ------------------------------------------------------------------------------------------------- */

madi_adapter_t *madi_adapter_found(mad_session_t *s, const madi_driver_t *driver, const char *name)
{
    madi_adapter_t **list = realloc(s->adapters, (size_t)(s->n_adapters + 1) * sizeof *list), *a = NULL;
    if (!list)
        return NULL;
    s->adapters = list;
    if (posix_memalign((void **)&a, MADI_LINE, driver->adapter_size))
        return NULL;
    memset(a, 0, driver->adapter_size);
    a->driver = driver;
    a->session = s;
    a->identity = s->uid;
    a->listen_fd = -1;
    a->security = MADI_SECURITY_AUTH;
    snprintf(a->name, sizeof a->name, "%s", name);
    list[s->n_adapters++] = a;
    return a;
}

/* Is a name in a comma-separated list?  An empty list holds all. */
static bool listed(const char *list, const char *name)
{
    size_t len = strlen(name);
    if (!*list)
        return true;
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, name, len) && (p[len] == 0 || p[len] == ','))
            return true;
    return false;
}

static void check_names(const char *knob, const char *list)
{
    char known[200] = "";
    for (int i = 0; madi_drivers[i]; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", madi_drivers[i]->name);
    while (*list) {
        size_t len = strcspn(list, ",");
        bool found = !len;
        for (int i = 0; madi_drivers[i]; i++)
            if (strlen(madi_drivers[i]->name) == len && !strncmp(list, madi_drivers[i]->name, len))
                found = true;
        if (!found)
            madi_log(MADI_LOG_WARN, "knob", "%s: no driver is called '%.*s'; there are %s", knob, (int)len, list,
                     known);
        list += len + (list[len] == ',');
    }
}

/* No descriptor is left for an incoming connection: close a silent one, else refuse the new one at once, since it would
 * wait for ever. */
static bool make_room(mad_session_t *s, madi_listener_t *l)
{
    int fd;
    if (!(s->refused_told & 1))
        madi_log(MADI_LOG_WARN, l->adapter->driver->name,
                 "callers on %s are turned away: %s%s (said once)", l->adapter->name,
                 strerror(errno), madi_remedy(errno));
    s->refused_told |= 1;
    if (madi_hello_evict(s))
        return true;
    madi_fd_close(s->spare_fd);
    fd = madi_fd_own(accept4(l->watch.fd, NULL, NULL, SOCK_CLOEXEC));
    if (fd >= 0)
        madi_fd_close(fd);
    s->spare_fd = madi_fd_own(open("/dev/null", O_RDONLY | O_CLOEXEC));
    return fd >= 0;
}

#define REFUSED_PLACE (UINT32_C(1) << 31) /* bit of refused_told that is no status */

static bool admitted(madi_adapter_t *a, int fd)
{
    mad_session_t *s = a->session;
    char reason[MADI_REASON_MAX] = "";
    bool told = s->refused_told & REFUSED_PLACE;
    if (!a->driver->admits || a->driver->admits(a, fd, reason))
        return true;
    s->refused_told |= REFUSED_PLACE;
    madi_log(told ? MADI_LOG_DEBUG : MADI_LOG_WARN, a->driver->name, "refused a caller on %s: %s%s", a->name, reason,
             told ? "" : " (said once; MAD_LOG=debug shows all)");
    return false;
}

static void listener_ready(madi_watch_t *watch, uint32_t events)
{
    madi_listener_t *l = MADI_CONTAINER(watch, madi_listener_t, watch);
    mad_session_t *s = l->adapter->session;
    (void)events;
    for (int i = 0; i < 16; i++) {
        int fd = madi_fd_own(accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd >= 0 && admitted(l->adapter, fd))
            madi_hello_accept(l->adapter, fd);
        else if (fd >= 0)
            madi_fd_close(fd);
        else if ((errno != EMFILE && errno != ENFILE) || !make_room(s, l))
            return;
    }
}

static void left_out(mad_session_t *s, const madi_adapter_t *a, const char *reason)
{
    madi_left_out_t *l = calloc(1, sizeof *l);
    if (!l)
        return;
    l->driver = a->driver;
    memcpy(l->name, a->name, sizeof l->name);
    snprintf(l->reason, sizeof l->reason, "%s", reason);
    l->next = s->left_out;
    s->left_out = l;
}

/* Adapters of one driver that are left out for one reason: logged in one line. */
typedef struct told {
    const madi_driver_t *driver;
    char names[160], reason[MADI_REASON_MAX];
} told_t;

static void told_tell(told_t *out)
{
    if (out->driver)
        madi_log(MADI_LOG_WARN, out->driver->name, "not used: %s: %s", out->names, out->reason);
    out->driver = NULL;
}

static void told_add(told_t *out, const madi_adapter_t *a, const char *reason)
{
    size_t len = strlen(out->names);
    if (out->driver == a->driver && !strcmp(out->reason, reason) && len + sizeof a->name + 2 < sizeof out->names) {
        snprintf(out->names + len, sizeof out->names - len, ", %s", a->name);
        return;
    }
    told_tell(out);
    out->driver = a->driver;
    snprintf(out->names, sizeof out->names, "%s", a->name);
    snprintf(out->reason, sizeof out->reason, "%s", reason);
}

static void adapter_drop(mad_session_t *s, madi_adapter_t *a, told_t *out, const char *reason)
{
    left_out(s, a, reason);
    told_add(out, a, reason);
    if (a->opened)
        a->driver->close(a);
    a->driver->fini(a);
    free(a);
}

/* Now that the topology file is read, if there is one.  Return how many adapters are left. */
static int adapters_secure(mad_session_t *s, told_t *out)
{
    int kept = 0;
    for (int i = 0; i < s->n_adapters; i++) {
        madi_adapter_t *a = s->adapters[i];
        char reason[MADI_REASON_MAX] = "";
        mad_status_t status = madi_adapter_secure(a, reason);
        if (status)
            adapter_drop(s, a, out, reason[0] ? reason : mad_status_text(status));
        else
            s->adapters[kept++] = a;
    }
    return s->n_adapters = kept;
}

/* Open what was found; what does not open is left out with its reason. */
static mad_status_t adapters_open(mad_session_t *s)
{
    told_t out = {0};
    int kept = 0;
    s->polled = calloc((size_t)s->n_adapters + 1, sizeof *s->polled);
    if (!s->polled)
        return MAD_ERR_NOMEM;
    for (int i = 0; i < s->n_adapters; i++) {
        madi_adapter_t *a = s->adapters[i];
        char reason[MADI_REASON_MAX] = "";
        mad_status_t status = a->driver->open(a, reason);
        if (status) {
            adapter_drop(s, a, &out, reason[0] ? reason : mad_status_text(status));
            continue;
        }
        a->opened = true;
        a->attentive = marceli_attentive();
        s->adapters[kept++] = a;
    }
    s->n_adapters = kept;
    kept = adapters_secure(s, &out);
    told_tell(&out);
    s->listeners = calloc((size_t)kept + 1, sizeof *s->listeners);
    if (!s->listeners)
        return MAD_ERR_NOMEM;
    for (int i = 0; i < kept; i++) {
        madi_listener_t *l = &s->listeners[i];
        l->adapter = s->adapters[i];
        l->watch = (madi_watch_t){.fd = l->adapter->listen_fd, .ready = listener_ready};
        if (l->watch.fd >= 0 && madi_watch_add_rare(s, &l->watch, EPOLLIN) != MAD_OK)
            return MAD_ERR_SYSTEM;
    }
    return MAD_OK;
}

static mad_status_t adapters_start(mad_session_t *s)
{
    const char *wanted = madi_knob_text(MADI_KNOB_DRIVERS);
    mad_status_t status = MAD_OK;
    check_names("MAD_DRIVERS", wanted);
    check_names("MAD_PREFER", madi_knob_text(MADI_KNOB_PREFER));
    for (int i = 0; madi_drivers[i] && !status; i++)
        if (listed(wanted, madi_drivers[i]->name) && (*wanted || !madi_drivers[i]->on_request))
            status = madi_drivers[i]->probe(madi_drivers[i], s);
    return status ? status : adapters_open(s);
}

static bool random_bytes(void *bytes, size_t len)
{
    bool done = madi_random(bytes, len);
    if (!done)
        madi_log(MADI_LOG_ERROR, "core", "the system gives no random bytes (getrandom): is it forbidden here?");
    return done;
}

/* ---- Start ---------------------------------------------------------------------------------------------------- */

static mad_status_t session_new(mad_session_t **session)
{
    mad_session_t *s = NULL;
    /* A program may exit without mad_exit, in the midst of a handshake of our threads: libcrypto is not to end before them. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    if (posix_memalign((void **)&s, MADI_LINE, sizeof *s))
        return MAD_ERR_NOMEM;
    memset(s, 0, sizeof *s);
    s->size = 1;
    s->processes = 1;
    s->hot = &madi_no_adapter;
    s->epfd = s->rare_epfd = -1;
    s->spare_fd = madi_fd_own(open("/dev/null", O_RDONLY | O_CLOEXEC));
    s->callbacks_tail = &s->callbacks;
    s->handled_tail = &s->handled;
    s->events_tail = &s->events;
    s->gone_tail = &s->gone;
    madi_fork_watch(s);
    *session = s;
    return MAD_OK;
}

static mad_status_t session_start(mad_session_t *s)
{
    mad_status_t status;
    madi_trace_start(s);
    s->check_modes = madi_knob_int(MADI_KNOB_CHECK_SEND_MODE);
    s->credit_budget = madi_knob_int(MADI_KNOB_CREDIT_BUDGET);
    s->receives = madi_handles_new();
    if (!s->receives)
        return MAD_ERR_NOMEM;
    if (!random_bytes(s->uid, sizeof s->uid))
        return MAD_ERR_SYSTEM;
    if (!madi_rx_more(s))
        return MAD_ERR_NOMEM;
    madi_rx_free(s->rx_ring);
    status = madi_wait_init(s);
    if (!status)
        status = adapters_start(s);
    if (!status)
        status = madi_address_make(s);
    if (!status)
        status = madi_wait_start(s);
    if (!status)
        s->ask = madi_ask_open(s);
    return status;
}

/* Derive this process's secrets from the job's key (a rank) or the gateway key (a gateway).  Libcrypto is called
 * under the session's lock, which fork takes first: so no child gets a copy of libcrypto amid a call of this library. */
static mad_status_t secrets_take(mad_session_t *s, madi_role_t role, const void *key, size_t key_len)
{
    madi_lock(&s->lock);
    s->secrets = madi_secrets_open(role, key, key_len);
    madi_unlock(&s->lock);
    if (!s->secrets)
        madi_log(MADI_LOG_ERROR, "core", "the job's key could not be taken: no memory, or libcrypto does not do HKDF");
    return s->secrets ? MAD_OK : MAD_ERR_NOMEM;
}

/* Take the key that rank 0 has made and passed through the launcher. */
static mad_status_t agree_key(mad_session_t *s)
{
    unsigned char key[sizeof s->boot->key];
    char text[2 * sizeof key + 1];
    unsigned v;
    mad_status_t status = s->boot->ops->get(s->boot, 0, "mad-key", text, sizeof text);
    for (size_t i = 0; i < sizeof key && !status; i++) {
        if (sscanf(text + 2 * i, "%2x", &v) != 1)
            status = MAD_ERR_BOOT;
        key[i] = (unsigned char)v;
    }
    if (!status)
        status = secrets_take(s, MADI_ROLE_RANK, key, sizeof key);
    OPENSSL_cleanse(key, sizeof key);
    OPENSSL_cleanse(text, sizeof text);
    return status;
}

static mad_status_t publish(mad_session_t *s)
{
    madi_boot_t *b = s->boot;
    unsigned char key[sizeof b->key];
    mad_status_t status = madi_exchange_put(b, s->address, s->address_len);
    if (!status && !b->key_len && s->rank == 0) {
        char k[2 * sizeof key + 1];
        if (!random_bytes(key, sizeof key))
            return MAD_ERR_SYSTEM;
        madi_exchange_hex(k, key, sizeof key);
        status = b->ops->put(b, "mad-key", k);
        OPENSSL_cleanse(key, sizeof key);
        OPENSSL_cleanse(k, sizeof k);
    }
    if (!status)
        status = b->ops->fence(b);
    madi_wait_job(s, b);
    if (status)
        return status;
    if (!b->key_len)
        return agree_key(s);
    status = secrets_take(s, MADI_ROLE_RANK, b->key, b->key_len);
    madi_boot_key_wipe(b);
    return status;
}

static void job_hash(mad_session_t *s)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    if (EVP_Digest(s->boot->job, strlen(s->boot->job), digest, &n, EVP_sha256(), NULL) == 1)
        memcpy(s->job, digest, sizeof s->job);
}

/* The caller is given the session, or it is ended; status: of all that came before. */
static mad_status_t session_begin(mad_session_t *s, mad_status_t status, mad_session_t **session)
{
    if (!status && s->forward)
        status = s->forward->started(s);
    if (status) {
        mad_exit(s);
        return status;
    }
    madi_wait_callers(s);
    *session = s;
    return MAD_OK;
}

mad_status_t mad_init(int *argc, char ***argv, mad_session_t **session)
{
    mad_session_t *s;
    mad_status_t status = session_new(&s);
    (void)argc;
    (void)argv;
    if (status)
        return status;
    status = madi_knobs_load();
    if (!status)
        status = madi_boot_join(&s->boot);
    if (!status && s->boot->rank >= s->boot->size) {
        madi_log(MADI_LOG_ERROR, "core", "the launcher started this process as a gateway, not as a rank: it must be madgw");
        status = MAD_ERR_BOOT;
    }
    if (!status) {
        s->rank = s->boot->rank;
        s->size = s->boot->size;
        s->processes = s->boot->size + s->boot->gateways;
        job_hash(s);
        if (s->size > 1)
            madi_log_set_rank(s->rank);
        status = session_start(s);
    }
    if (!status)
        status = publish(s);
    return session_begin(s, status, session);
}

mad_status_t mad_open(const void *key, size_t key_len, mad_session_t **session)
{
    if (!key || key_len < KEY_MIN || key_len > KEY_MAX)
        return MAD_ERR_INVAL;
    if (!memcmp(key, (const unsigned char *)key + 1, key_len - 1)) {
        madi_log(MADI_LOG_ERROR, "core", "all %zu bytes of the key given to mad_open are the same, as if it were not set: give "
                 "random bytes (getrandom), the same to all processes", key_len);
        return MAD_ERR_INVAL;
    }
    return madi_session_open(MADI_ROLE_RANK, key, key_len, session);
}

mad_status_t madi_session_open(madi_role_t role, const void *key, size_t key_len, mad_session_t **session)
{
    mad_session_t *s;
    mad_status_t status = session_new(&s);
    if (status)
        return status;
    status = madi_knobs_load();
    if (!status)
        status = secrets_take(s, role, key, key_len);
    s->told_rank = madi_boot_told(&s->told_size);
    if (!status)
        status = session_start(s);
    return session_begin(s, status, session);
}

/* ---- End ------------------------------------------------------------------------------------------------------ */

static bool all_sent(void *arg)
{
    mad_session_t *s = arg;
    bool all = true;
    madi_lock(&s->lock);
    for (madi_gate_t *g = s->gates; g && all; g = g->next) {
        if (atomic_load_explicit(&g->state, memory_order_relaxed) == MADI_GATE_DOWN)
            continue;
        madi_lock(&g->tx_lock);
        for (madi_conn_t *c = g->conns; c; c = c->next_of_gate)
            if (c->queue || c->deferred)
                all = false;
        if (g->ctrl || g->granted || (!g->bye && !madi_handles_none(g->sends)))
            all = false; /* a peer that has shut down in order grants no announced block */
        madi_unlock(&g->tx_lock);
    }
    madi_unlock(&s->lock);
    return all;
}

/* The gates that are left, or only those over which nothing of others goes. */
typedef struct parting {
    mad_session_t *session;
    bool all;
} parting_t;

static bool parts(const parting_t *p, const madi_gate_t *g)
{
    return (p->all || !g->forward) && atomic_load_explicit(&((madi_gate_t *)g)->state, memory_order_relaxed) == MADI_GATE_UP;
}

static bool drained(madi_gate_t *g)
{
    return (!g->forward || g->session->forward->drained(g)) &&
           (!g->link->driver->drained || g->link->driver->drained(g->link));
}

static bool parted(void *arg)
{
    const parting_t *p = arg;
    mad_session_t *s = p->session;
    bool all = all_sent(s);
    madi_lock(&s->lock);
    for (madi_gate_t *g = s->gates; g && all; g = g->next)
        if (parts(p, g) && !g->bye && !drained(g))
            all = false;
    madi_unlock(&s->lock);
    return all;
}

/* A millisecond from now, but not after the deadline. */
static int64_t soon(int64_t deadline)
{
    int64_t t = madi_deadline(1000000);
    return t < deadline ? t : deadline;
}

static bool nothing_passes(void *arg)
{
    mad_session_t *s = arg;
    bool busy;
    madi_lock(&s->lock);
    busy = s->forward->busy(s);
    madi_unlock(&s->lock);
    return !busy;
}

/* Say BYE, and wait until everything has left.  False: it did not until the deadline. */
static bool part(parting_t *p, int64_t deadline)
{
    mad_session_t *s = p->session;
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_BYE};
    mad_status_t status;
    madi_lock(&s->lock);
    for (madi_gate_t *g = s->gates; g; g = g->next)
        if (parts(p, g))
            madi_gate_ctrl(g, &hdr, NULL);
    madi_unlock(&s->lock);
    while ((status = madi_watch_for(s, parted, p, soon(deadline))) != MAD_OK && madi_now() < deadline)
        ; /* an acknowledgement wakes no thread */
    return status == MAD_OK;
}

/* Gateways that end together wait for each other's streams, so this process ends its own before it waits for those of
 * others; the gates over which these go are closed last. */
static bool part_beside_others(mad_session_t *s, int64_t deadline)
{
    parting_t own = {.session = s};
    bool good = part(&own, deadline);
    madi_lock(&s->lock);
    for (madi_gate_t *g = s->gates; g; g = g->next)
        if (parts(&own, g)) {
            g->quiet = true;
            madi_gate_down(g, MAD_ERR_CLOSED, "the session ends");
        }
    madi_unlock(&s->lock);
    if (madi_watch_for(s, nothing_passes, s, madi_deadline(madi_knob_int(MADI_KNOB_FORWARD_LINGER))))
        madi_log(MADI_LOG_WARN, "core",
                 "messages of others still pass through this process as it ends (MAD_FORWARD_LINGER)");
    return good;
}

static void say_bye(mad_session_t *s)
{
    int64_t time = madi_knob_int(MADI_KNOB_EXIT_TIMEOUT), deadline = madi_deadline(time);
    parting_t all = {.session = s, .all = true};
    bool good = true;
    if (s->forward) {
        madi_lock(&s->lock);
        s->forward->leave(s);
        madi_unlock(&s->lock);
    }
    madi_watch_for(s, all_sent, s, deadline);
    if (s->forward && (good = part_beside_others(s, deadline)))
        deadline = madi_deadline(time);
    atomic_store_explicit(&s->closing, 1, memory_order_relaxed);
    if (!part(&all, deadline) || !good)
        madi_log(MADI_LOG_WARN, "core", "the session ended before everything sent had left (MAD_EXIT_TIMEOUT)");
}

static void peers_free(mad_session_t *s)
{
    while (s->hellos)
        madi_hello_abort(s->hellos);
    for (int over = 0; over < 2; over++) /* second pass: gates that carry others' streams, so their CLOSE can leave */
        for (madi_gate_t *g = s->gates; g; g = g->next)
            if ((g->forward != NULL) == over)
                madi_gate_down(g, MAD_ERR_CLOSED, "the session ends");
    madi_calls_run(s);
    madi_links_reap(s);
    madi_hellos_reap(s);
    madi_channels_free(s);
    for (madi_gate_t *g; (g = s->gates);) {
        s->gates = g->next;
        madi_gate_free(g);
    }
    for (madi_gate_t *g; (g = s->gone);) {
        s->gone = g->next;
        madi_gate_free(g);
    }
    for (uint32_t i = 0; i < s->cap_peers; i++) {
        free(s->peers[i].address);
        free(s->peers[i].lanes);
    }
    madi_stats_free(s);
    free(s->peers);
    free(s->peer_index);
}

static void memory_free(mad_session_t *s)
{
    madi_rx_ring_free(s);
    for (madi_event_node_t *e; (e = s->events); free(e))
        s->events = e->next;
    for (madi_left_out_t *l; (l = s->left_out); free(l))
        s->left_out = l->next;
    madi_handles_free(s->receives);
    free(s->address);
    free(s->listeners);
    free(s->polled);
    free(s->adapters);
}

/* True if there are gates.  The progress thread makes them when peers connect to a passive process, such as a gateway. */
static bool has_gates(mad_session_t *s)
{
    bool any;
    madi_lock(&s->lock);
    any = s->gates != NULL;
    madi_unlock(&s->lock);
    return any;
}

void mad_exit(mad_session_t *s)
{
    if (!s || madi_session_usable(s))
        return;
    madi_fork_forget(s);
    if (has_gates(s))
        say_bye(s);
    madi_wait_stop(s);
    madi_trace_write();
    madi_lock(&s->lock);
    madi_ask_close(s->ask);
    s->ask = NULL;
    madi_unlock(&s->lock);
    peers_free(s);
    for (int i = 0; i < s->n_adapters; i++) {
        if (s->listeners && s->listeners[i].watch.fd >= 0)
            madi_watch_del(s, &s->listeners[i].watch);
        if (s->adapters[i]->opened) {
            s->adapters[i]->driver->close(s->adapters[i]);
            s->adapters[i]->driver->fini(s->adapters[i]);
        }
        free(s->adapters[i]);
    }
    madi_wait_fini(s);
    if (s->spare_fd >= 0)
        madi_fd_close(s->spare_fd);
    if (s->boot)
        madi_boot_leave(s->boot);
    memory_free(s);
    madi_seal_ctx_free(s->seal);
    madi_secrets_close(s->secrets);
    free(s);
}

/* ---- Questions ------------------------------------------------------------------------------------------------ */

int mad_rank(const mad_session_t *session)
{
    return session->rank;
}

int mad_size(const mad_session_t *session)
{
    return session->size;
}

mad_status_t mad_barrier(mad_session_t *session)
{
    mad_status_t status = madi_session_usable(session);
    if (status || !session->boot)
        return status;
    return session->boot->ops->fence(session->boot);
}

int mad_adapter_count(const mad_session_t *session)
{
    return session->n_adapters;
}

mad_status_t mad_adapter_get(const mad_session_t *session, int index, mad_adapter_info_t *info)
{
    const madi_adapter_t *a;
    if (madi_session_usable(session))
        return MAD_ERR_FORKED;
    if (index < 0 || index >= session->n_adapters)
        return MAD_ERR_INVAL;
    a = session->adapters[index];
    *info = (mad_adapter_info_t){.driver = a->driver->name,
                                 .name = a->name,
                                 .network = a->network,
                                 .latency_us = a->caps.latency_us,
                                 .bandwidth_MBs = a->caps.bandwidth_MBs,
                                 .packet_max = a->caps.packet_max,
                                 .chunk_max = a->caps.chunk_max};
    return MAD_OK;
}
