/* SPDX-License-Identifier: BSD-3-Clause */
/* The shm driver: its adapter is the host's memory, found through a UNIX socket in a directory.  Two processes
 * can share memory if they see the same directory.  So the directory, not the host, gives the network its name. */
#include "drivers/shm/shm.h"
#include "base/host.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "base/unix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ID_LEN 8 /* bytes of the session's identity, of which the socket's name is made */

static mad_status_t shm_probe(const madi_driver_t *driver, struct mad_session *session)
{
    return madi_adapter_found(session, driver, "memory") ? MAD_OK : MAD_ERR_NOMEM;
}

/* Find or create the directory, which must be private to the user. */
static bool directory_find(char *dir, size_t len, struct stat *st, char *reason)
{
    const char *knob = madi_knob_text(MADI_KNOB_SHM_DIR);
    size_t n;
    if (*knob)
        snprintf(dir, len, "%s", knob);
    else
        madi_unix_dir_default(dir, len);
    if (madi_unix_dir(dir, st, reason, MADI_REASON_MAX))
        return true;
    n = strlen(reason);
    snprintf(reason + n, MADI_REASON_MAX - n, "; set MAD_SHM_DIR");
    return false;
}

/* Name the network: names are equal if and only if both processes see one directory of one running kernel. */
static void shm_name_network(madi_adapter_t *a, const struct stat *st)
{
    char kernel[MADI_BOOT_ID_MAX];
    uint64_t h;
    madi_boot_id(kernel);
    h = madi_hash(MADI_HASH_START, kernel, strlen(kernel));
    h = madi_hash(h, &st->st_dev, sizeof st->st_dev);
    h = madi_hash(h, &st->st_ino, sizeof st->st_ino);
    snprintf(a->network, sizeof a->network, "%016llx", (unsigned long long)h);
}

static bool shm_file_is_ours(const char *name)
{
    return strlen(name) == 16;
}

/* Handle a wake-up.  An edge-triggered event needs no reading. */
static void event_ready(madi_watch_t *watch, uint32_t events)
{
    (void)watch;
    (void)events;
}

/* Listen on a socket named after the first bytes of the session's identity, so that addresses need not contain its name. */
static bool listen_on(shm_adapter_t *a, const char *dir, char *reason)
{
    const unsigned char *id = a->base.identity;
    snprintf(a->path, sizeof a->path, "%s/%02x%02x%02x%02x%02x%02x%02x%02x", dir, id[0], id[1], id[2], id[3], id[4], id[5],
             id[6], id[7]);
    a->base.listen_fd = madi_fd_own(madi_unix_listen(a->path, 1024));
    if (a->base.listen_fd < 0) {
        snprintf(reason, MADI_REASON_MAX, "no socket in %s: %s; set MAD_SHM_DIR", dir, strerror(errno));
        a->path[0] = 0;
        return false;
    }
    a->base.address_len = ID_LEN;
    memcpy(a->base.address, id, ID_LEN);
    return true;
}

/* maximum number of bytes of a block; leaves room for other blocks in the packet */
#define ANSWER_MAX ((size_t)SHM_BODY_MAX - 1024)

static size_t direct_min(const madi_costs_t *costs)
{
    const madi_put_t *put = madi_put_of_host();
    size_t min = (size_t)madi_knob_int(MADI_KNOB_SHM_READ_MIN);
    if (!min)
        min = costs->pipe_ps ? madi_path_direct_min(costs, put) : put->read_min;
    return min < ANSWER_MAX ? min : ANSWER_MAX;
}

/* Load the costs of this host.  The costs are all zero if they are not known; this lack is logged unless the user has
 * requested it. */
static madi_costs_t costs_find(void)
{
    const char *given = madi_knob_text(MADI_KNOB_COSTS);
    char path[MADI_COSTS_PATH_MAX];
    madi_costs_t costs = {0};
    if (!madi_costs_load(given, &costs) && madi_costs_path(given, path))
        madi_log(MADI_LOG_INFO, "shm", "the costs of this host are not known: run mad_info once while the host is idle");
    return costs;
}

static mad_status_t shm_open_adapter(madi_adapter_t *adapter, char *reason)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    char dir[80];
    struct stat st;
    madi_costs_t costs = costs_find();

    a->put = madi_put_of_host();
    a->event_fd = a->bell_fd = -1;
    a->cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (!directory_find(dir, sizeof dir, &st, reason))
        return MAD_ERR_SYSTEM;
    shm_name_network(adapter, &st);
    if (!listen_on(a, dir, reason))
        return MAD_ERR_SYSTEM;
    madi_unix_sweep(dir, shm_file_is_ours);
    if (!shm_bell_make(a, reason))
        return MAD_ERR_SYSTEM;
    a->event_fd = shm_event_make(reason);
    if (a->event_fd < 0)
        return MAD_ERR_SYSTEM;
    a->event_watch = (madi_watch_t){.fd = a->event_fd, .ready = event_ready};
    if (madi_watch_add(adapter->session, &a->event_watch, SHM_EVENT_EDGES) != MAD_OK) {
        snprintf(reason, MADI_REASON_MAX, "%s%s", strerror(errno), madi_remedy(errno));
        return MAD_ERR_SYSTEM;
    }
    adapter->caps = (madi_caps_t){.host = true,
                                  .packet_max = SHM_CHUNK,
                                  .chunk_max = SHM_CHUNK + sizeof(madi_wire_hdr_t),
                                  .chunk_min = MADI_SHM_CHUNK_MIN,
                                  .rdv_min = MADI_SHM_GRANT_MIN,
                                  .direct_min = direct_min(&costs),
                                  .answer_min = ANSWER_MAX,
                                  .learned = !madi_knob_int(MADI_KNOB_SHM_READ_MIN),
                                  .rdv_eager = 0,
                                  .gather_max = 16,
                                  .latency_us = 0.1,
                                  .bandwidth_MBs = 20000,
                                  .rank = 10};
    return MAD_OK;
}

static void shm_close(madi_adapter_t *adapter)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    if (a->event_fd >= 0)
        madi_watch_del(adapter->session, &a->event_watch);
}

static void shm_fini(madi_adapter_t *adapter)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    if (a->base.listen_fd >= 0)
        madi_fd_close(a->base.listen_fd);
    if (a->path[0])
        unlink(a->path);
    if (a->event_fd >= 0)
        madi_fd_close(a->event_fd);
    madi_shared_forget(&a->bell_shared);
    if (a->bell)
        munmap(a->bell, SHM_BELL_SIZE);
    if (a->bell_fd >= 0)
        madi_fd_close(a->bell_fd);
    shm_inboxes_free(a);
    shm_links_fini(a);
}

static mad_status_t shm_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    shm_adapter_t *a = (shm_adapter_t *)link->adapter;
    const unsigned char *id = addr;
    char path[MADI_UNIX_PATH_MAX];
    int s;

    if (len != ID_LEN)
        return MAD_ERR_INVAL;
    snprintf(path, sizeof path, "%.*s/%02x%02x%02x%02x%02x%02x%02x%02x", (int)(strrchr(a->path, '/') - a->path), a->path,
             id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7]);
    s = madi_fd_own(madi_unix_connect(path));
    if (s < 0) {
        int error = errno;
        snprintf(reason, MADI_REASON_MAX, "connect %s: %s%s", path, strerror(error),
                 error == ENOENT || error == ECONNREFUSED ? " (the process has ended)" : madi_remedy(error));
        return madi_own_lack(error) ? MAD_ERR_NOMEM : MAD_ERR_PEER;
    }
    *fd = s;
    return MAD_OK;
}

const madi_driver_t madi_driver_shm = {
    .abi = MADI_DRIVER_ABI,
    .name = "shm",
    .apart = "both processes must see the same MAD_SHM_DIR to share memory",
    .adapter_size = sizeof(shm_adapter_t),
    .link_size = sizeof(shm_link_t),
    .probe = shm_probe,
    .open = shm_open_adapter,
    .close = shm_close,
    .fini = shm_fini,
    .connect = shm_connect,
    .start = shm_start,
    .send = shm_send,
    .poll = shm_poll,
    .link_close = shm_link_close,
    .link_fini = shm_link_fini,
    .wait =
        {
            .pure_poll = shm_pure_poll,
            .arm = shm_arm,
            .disarm = shm_disarm,
        },
    .fast =
        {
            .send_short = shm_send_short,
            .packet_room = shm_packet_room,
            .answers = shm_answers,
            .returned = shm_returned,
            .prepare = shm_prepare,
            .send_prepared = shm_send_prepared,
            .forget = shm_forget,
            .take = shm_take,
            .take_short = shm_take_short,
            .keep_begun = shm_keep_begun,
            .here = shm_here,
            .slot_put = shm_slot_put,
        },
    .direct =
        {
            .get = shm_get,
            .put = shm_put,
            .sever = shm_sever,
            .offer = shm_offer,
            .withdraw = shm_withdraw,
            .claim = shm_claim,
        },
};
