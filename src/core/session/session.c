/* SPDX-License-Identifier: BSD-3-Clause */
/* The session: start and adapters (shutdown.c has the end). */
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "base/random.h"
#include "core/conn/channel.h"
#include "core/conn/rx_pool.h"
#include "core/connect/gate.h"
#include "core/connect/hello.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/inspect/query.h"
#include "core/link/polled.h"
#include "core/link/trace.h"
#include "core/link/usable.h"
#include "core/memory/memory.h"
#include "core/object/session.h"
#include "core/rails/session.h"
#include "core/recv/receive.h"
#include "core/security/protection.h"
#include "core/security/secret.h"
#include "core/session/session.h"
#include "core/session/session_own.h"
#include "core/wire/drivers.h"
#include "core/wire/address.h"
#include "core/wire/exchange.h"
#include "engine/numa.h"

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

#define KEY_MIN 16 /* minimum length of a job's key in bytes */
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
    a->node = MARCELI_NUMA_UNKNOWN;
    a->security = MADI_SECURITY_AUTH;
    snprintf(a->name, sizeof a->name, "%s", name);
    list[s->n_adapters++] = a;
    return a;
}

static void driver_names_check(const char *knob, const char *list)
{
    char known[200] = "";
    const madi_driver_t *driver;
    madi_module_record_t module;
    for (int i = 0; (driver = madi_driver_at(i)) && strlen(known) < sizeof known - 20; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", driver->name);
    while (*list) {
        size_t len = strcspn(list, ",");
        bool found = !len;
        for (int i = 0; (driver = madi_driver_at(i)); i++)
            if (strlen(driver->name) == len && !strncmp(list, driver->name, len))
                found = true;
        /* a module that is not loaded is known, too; the log has the reason */
        for (int i = 0; madi_module_record_at(i, &module); i++)
            if (strlen(module.name) == len && !strncmp(list, module.name, len))
                found = true;
        if (!found)
            madi_log(MADI_LOG_WARN, "knob", "%s: no driver is called '%.*s'; there are %s", knob, (int)len, list, known);
        list += len + (list[len] == ',');
    }
}

/* Make room when no descriptor is left for an incoming connection.  Either end the handshake of another incoming connection,
 * or refuse the new connection at once, because it would wait for ever.  Return false if no descriptor is available even for
 * that. */
static bool accept_make_room(mad_session_t *s, madi_listener_t *l)
{
    int fd;
    if (!s->own->full_logged)
        madi_log(MADI_LOG_WARN, l->adapter->driver->name, "callers on %s are turned away: %s%s (logged once)",
                 l->adapter->name, strerror(errno), madi_remedy(errno));
    s->own->full_logged = true;
    if (madi_hello_evict(s))
        return true;
    madi_fd_close(s->own->spare_fd);
    fd = madi_fd_own(accept4(l->watch.fd, NULL, NULL, SOCK_CLOEXEC));
    if (fd >= 0)
        madi_fd_close(fd);
    s->own->spare_fd = madi_fd_own(open("/dev/null", O_RDONLY | O_CLOEXEC));
    return fd >= 0;
}

static bool source_is_admitted(madi_adapter_t *a, int fd)
{
    mad_session_t *s = a->session;
    char reason[MADI_REASON_MAX] = "";
    bool logged = s->own->refusal_logged;
    if (!a->driver->reach.admits || a->driver->reach.admits(a, fd, reason))
        return true;
    s->own->refusal_logged = true;
    madi_log(logged ? MADI_LOG_DEBUG : MADI_LOG_WARN, a->driver->name, "refused a caller on %s: %s%s", a->name, reason,
             logged ? "" : " (logged once; MAD_LOG=debug shows all)");
    return false;
}

static void listener_ready(madi_watch_t *watch, uint32_t events)
{
    madi_listener_t *l = MADI_CONTAINER(watch, madi_listener_t, watch);
    mad_session_t *s = l->adapter->session;
    (void)events;
    for (int i = 0; i < 16; i++) {
        int fd = madi_fd_own(accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd >= 0 && source_is_admitted(l->adapter, fd))
            madi_hello_accept(l->adapter, fd);
        else if (fd >= 0)
            madi_fd_close(fd);
        else if ((errno != EMFILE && errno != ENFILE) || !accept_make_room(s, l))
            return;
    }
}

static void left_out_add(mad_session_t *s, const madi_adapter_t *a, const char *reason)
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

/* Adapters of one driver that are left out for the same reason, and are logged in one line. */
typedef struct skip_log {
    const madi_driver_t *driver;
    char names[160], reason[MADI_REASON_MAX];
} skip_log_t;

static void skip_log_flush(skip_log_t *out)
{
    if (out->driver)
        madi_log(MADI_LOG_WARN, out->driver->name, "not used: %s: %s", out->names, out->reason);
    out->driver = NULL;
}

static void skip_log_add(skip_log_t *out, const madi_adapter_t *a, const char *reason)
{
    size_t len = strlen(out->names);
    if (out->driver == a->driver && !strcmp(out->reason, reason) && len + sizeof a->name + 2 < sizeof out->names) {
        snprintf(out->names + len, sizeof out->names - len, ", %s", a->name);
        return;
    }
    skip_log_flush(out);
    out->driver = a->driver;
    snprintf(out->names, sizeof out->names, "%s", a->name);
    snprintf(out->reason, sizeof out->reason, "%s", reason);
}

static void adapter_drop(mad_session_t *s, madi_adapter_t *a, skip_log_t *out, const char *reason)
{
    left_out_add(s, a, reason);
    skip_log_add(out, a, reason);
    if (a->opened)
        a->driver->close(a);
    a->driver->fini(a);
    free(a);
}

/* Settle the security of all adapters, after the topology file (if any) was read.  Return the number of adapters that are
 * left. */
static int adapters_secure(mad_session_t *s, skip_log_t *out)
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

/* Open all adapters.  Adapters that cannot be opened are left out, with the reason. */
static mad_status_t adapters_open(mad_session_t *s)
{
    skip_log_t out = {0};
    int kept = 0;
    if (madi_link_session_start(s))
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
        a->attentive = marceli_leader_sleeps_flag();
        s->adapters[kept++] = a;
    }
    s->n_adapters = kept;
    kept = adapters_secure(s, &out);
    skip_log_flush(&out);
    madi_adapters_place(s);
    s->own->listeners = calloc((size_t)kept + 1, sizeof *s->own->listeners);
    if (!s->own->listeners)
        return MAD_ERR_NOMEM;
    for (int i = 0; i < kept; i++) {
        madi_listener_t *l = &s->own->listeners[i];
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
    const madi_driver_t *driver;
    madi_modules_load();
    driver_names_check("MAD_DRIVERS", wanted);
    driver_names_check("MAD_PREFER", madi_knob_text(MADI_KNOB_PREFER));
    for (int i = 0; (driver = madi_driver_at(i)) && !status; i++)
        if (*wanted ? madi_list_has_name(wanted, driver->name) : !driver->on_request)
            status = driver->probe(driver, s);
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

static void session_parts_free(mad_session_t *s)
{
    madi_connect_session_free(s);
    madi_conn_session_free(s);
    madi_memory_session_free(s);
    free(s->own);
}

static mad_status_t session_new(mad_session_t **session)
{
    mad_session_t *s = NULL;
    /* A program may exit without mad_exit while a thread of the library is in a handshake.  libcrypto must not end before
     * that thread. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    if (posix_memalign((void **)&s, MADI_LINE, sizeof *s))
        return MAD_ERR_NOMEM;
    memset(s, 0, sizeof *s);
    s->conn = madi_conn_session_new();
    s->connect = madi_connect_session_new();
    s->memory = madi_memory_session_new();
    s->own = calloc(1, sizeof *s->own);
    if (!s->conn || !s->connect || !s->memory || !s->own) {
        session_parts_free(s);
        free(s);
        return MAD_ERR_NOMEM;
    }
    madi_link_session_init(s);
    s->size = 1;
    s->processes = 1;
    s->last_hit = &madi_no_adapter;
    s->epfd = s->rare_epfd = -1;
    s->own->spare_fd = madi_fd_own(open("/dev/null", O_RDONLY | O_CLOEXEC));
    s->callbacks_tail = &s->callbacks;
    s->for_handlers_tail = &s->for_handlers;
    madi_fork_watch(s);
    *session = s;
    return MAD_OK;
}

static mad_status_t session_start(mad_session_t *s)
{
    mad_status_t status;
    madi_trace_start(s);
    madi_conn_session_start(s);
    if (madi_recv_session_init(s))
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
        s->own->ask = madi_query_open(s);
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
static mad_status_t key_agree(mad_session_t *s)
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

static mad_status_t address_publish(mad_session_t *s)
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
        return key_agree(s);
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

/* Give the session to the program, or end it if the start has failed.  status: the result of all earlier steps. */
static mad_status_t session_begin(mad_session_t *s, mad_status_t status, mad_session_t **session)
{
    madi_rails_session_start(s);
    if (!status && s->forward)
        status = s->forward->started(s);
    if (status) {
        mad_exit(s);
        return status;
    }
    madi_wait_accept(s);
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
        status = address_publish(s);
    return session_begin(s, status, session);
}

mad_status_t mad_open(const void *key, size_t key_len, mad_session_t **session)
{
    if (!key || key_len < KEY_MIN || key_len > KEY_MAX)
        return MAD_ERR_INVAL;
    if (!memcmp(key, (const unsigned char *)key + 1, key_len - 1)) {
        madi_log(MADI_LOG_ERROR, "core",
                 "all %zu bytes of the key given to mad_open are the same, as if it were not set: give "
                 "random bytes (getrandom), the same to all processes",
                 key_len);
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
    s->launcher_rank = madi_boot_environment_rank(&s->launcher_size);
    if (!status)
        status = session_start(s);
    return session_begin(s, status, session);
}

/* ---- Properties ------------------------------------------------------------------------------------------------- */

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
