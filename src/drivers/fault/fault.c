/* SPDX-License-Identifier: BSD-3-Clause */
/* fault: the table, adapters, the dice, polling and sleeping. */
#include "drivers/fault/fault.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "base/static_mutex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define DRIVERS_MAX 24

/* ---- Dice ----------------------------------------------------------------------------------------------------- */

static uint64_t bits_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t fault_roll(fault_dice_t *dice, uint64_t n)
{
    dice->state += UINT64_C(0x9e3779b97f4a7c15);
    return bits_mix(dice->state) % n;
}

bool fault_chance(fault_dice_t *dice, int percent)
{
    return percent > 0 && (int)fault_roll(dice, 100) < percent;
}

int64_t fault_delay(fault_adapter_t *a, fault_dice_t *dice, int64_t now)
{
    if (!fault_chance(dice, a->plan.delay) || !a->plan.delay_ns)
        return now;
    return now + 1 + (int64_t)fault_roll(dice, (uint64_t)a->plan.delay_ns);
}

void fault_due(fault_adapter_t *a, int64_t when)
{
    int64_t due = atomic_load_explicit(&a->due, memory_order_relaxed);
    while (when < due &&
           !atomic_compare_exchange_weak_explicit(&a->due, &due, when, memory_order_seq_cst, memory_order_relaxed))
        ;
}

void fault_count(fault_link_t *l, fault_dice_t *dice)
{
    fault_adapter_t *a = fault_of(l);
    int64_t n = atomic_fetch_add_explicit(&l->moved, 1, memory_order_relaxed) + 1;
    if ((a->plan.cut_after && n >= a->plan.cut_after) ||
        (a->plan.cut_one_in && fault_roll(dice, (uint64_t)a->plan.cut_one_in) == 0)) {
        if (atomic_exchange_explicit(&l->cut, 1, memory_order_relaxed))
            return;
        atomic_store_explicit(&l->cut_at, n, memory_order_relaxed);
        fault_due(a, 0);
        madi_session_wake(a->base.session);
    }
}

/* ---- Which drivers are wrapped -------------------------------------------------------------------------------- */

/* One table for each wrapped driver, so that each adapter is attributed to the driver whose probe found it. */
typedef struct wrapper {
    madi_driver_t table; /* must be first */
    const madi_driver_t *inner;
} wrapper_t;

static wrapper_t wrappers[DRIVERS_MAX];
static int n_wrappers;
static madi_static_mutex_t lock = MADI_STATIC_MUTEX; /* protects `wrappers`, which grows when modules were loaded */

extern const madi_driver_t madi_driver_fault;

static bool driver_is_wrapped(const madi_driver_t *driver)
{
    for (int i = 0; i < n_wrappers; i++)
        if (wrappers[i].inner == driver)
            return true;
    return false;
}

static void wrappers_make(void)
{
    const madi_driver_t *driver;
    madi_static_mutex_lock(&lock);
    for (int i = 0; (driver = madi_driver_at(i)) && n_wrappers < DRIVERS_MAX; i++) {
        wrapper_t *w = &wrappers[n_wrappers];
        if (driver == &madi_driver_fault || driver_is_wrapped(driver))
            continue;
        *w = (wrapper_t){madi_driver_fault, driver};
        if (!driver->frames.frame_send)
            w->table.frames = (madi_driver_frames_t){0};
        n_wrappers++;
    }
    madi_static_mutex_unlock(&lock);
}

static const madi_driver_t *inner_of(const madi_adapter_t *a)
{
    return ((const wrapper_t *)(const void *)a->driver)->inner;
}

static mad_status_t fault_probe(const madi_driver_t *driver, struct mad_session *session)
{
    const char *list = madi_knob_text(MADI_KNOB_FAULT);
    mad_status_t status = MAD_OK;
    (void)driver;
    wrappers_make();
    for (size_t len; *list && !status; list += len + (list[len] == ',')) {
        bool found = false;
        len = strcspn(list, ",");
        for (int i = 0; i < DRIVERS_MAX && wrappers[i].inner && !found; i++) {
            const madi_driver_t *inner = wrappers[i].inner;
            found = strlen(inner->name) == len && !strncmp(list, inner->name, len);
            if (found)
                status = inner->probe(&wrappers[i].table, session);
        }
        if (!found && len)
            madi_log(MADI_LOG_WARN, "fault", "MAD_FAULT: no driver is called '%.*s'", (int)len, list);
    }
    return status;
}

/* ---- Adapters ------------------------------------------------------------------------------------------------- */

static bool plan_read(fault_plan_t *p, char *reason)
{
    const char *loan = madi_knob_text(MADI_KNOB_FAULT_LOAN);
    p->seed = (uint64_t)madi_knob_int(MADI_KNOB_FAULT_SEED);
    p->delay = (int)madi_knob_int(MADI_KNOB_FAULT_DELAY);
    p->delay_ns = madi_knob_int(MADI_KNOB_FAULT_DELAY_US) * 1000;
    p->again = (int)madi_knob_int(MADI_KNOB_FAULT_AGAIN);
    p->arm = (int)madi_knob_int(MADI_KNOB_FAULT_ARM);
    p->shorten = madi_knob_int(MADI_KNOB_FAULT_SHORT);
    p->cut_after = madi_knob_int(MADI_KNOB_FAULT_CUT);
    p->cut_one_in = madi_knob_int(MADI_KNOB_FAULT_CUT_ONE_IN);
    p->lend = !strcmp(loan, "always") ? 100 : !strcmp(loan, "never") ? -1 : 30;
    if (strcmp(loan, "always") && strcmp(loan, "never") && strcmp(loan, "some")) {
        snprintf(reason, MADI_REASON_MAX, "MAD_FAULT_LOAN='%.40s' is not valid: give some, always, or never", loan);
        return false;
    }
    while (!p->seed) {
        uint32_t seed = 0;
        if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
            seed = (uint32_t)madi_now();
        p->seed = seed;
    }
    return true;
}

static void caps_shorten(fault_adapter_t *a)
{
    madi_caps_t *c = &a->base.caps;
    size_t packet = MADI_PACKET_MIN + fault_roll(&a->dice, 3 * MADI_PACKET_MIN);
    size_t chunk = MADI_PACKET_MIN + fault_roll(&a->dice, 8 * MADI_PACKET_MIN);
    c->ahead = false;
    if (packet < c->packet_max)
        c->packet_max = packet;
    if (chunk < c->chunk_max)
        c->chunk_max = chunk;
    if (c->chunk_min > c->chunk_max / 2)
        c->chunk_min = c->chunk_max / 2;
}

/* Set the security that the wrapped driver has.  The topology file has no networks of the driver fault itself. */
static mad_status_t fault_secure(madi_adapter_t *adapter, int given, char *reason)
{
    madi_adapter_t *inner = ((fault_adapter_t *)adapter)->inner;
    mad_status_t status = inner->driver->reach.secure ? inner->driver->reach.secure(inner, given, reason) : MAD_OK;
    adapter->security = inner->security;
    return status;
}

static void timer_ready(madi_watch_t *watch, uint32_t events)
{
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof n) < 0)
        return;
}

static mad_status_t inner_open(fault_adapter_t *a, char *reason)
{
    const madi_driver_t *driver = inner_of(&a->base);
    mad_status_t status;
    int len;
    if (posix_memalign((void **)&a->inner, MADI_LINE, driver->adapter_size)) {
        a->inner = NULL;
        return MAD_ERR_NOMEM;
    }
    memset(a->inner, 0, driver->adapter_size);
    a->inner->driver = driver;
    a->inner->session = a->base.session;
    a->inner->identity = a->base.identity;
    a->inner->listen_fd = -1;
    a->inner->outer = &a->base;
    a->inner->security = a->base.security;
    memcpy(a->inner->name, a->base.name, sizeof a->inner->name);
    status = driver->open(a->inner, reason);
    if (status)
        return status;
    a->inner_open = true;
    len = snprintf(a->base.network, sizeof a->base.network, "%s:%s", driver->name, a->inner->network);
    if (len >= (int)sizeof a->base.network) {
        snprintf(reason, MADI_REASON_MAX, "the network's name %s becomes too long", a->inner->network);
        return MAD_ERR_CONFIG;
    }
    a->base.caps = a->inner->caps;
    a->base.listen_fd = a->inner->listen_fd;
    a->base.frame_max = a->inner->frame_max;
    memcpy(a->base.device, a->inner->device, sizeof a->base.device);
    a->base.address_len = a->inner->address_len;
    memcpy(a->base.address, a->inner->address, a->inner->address_len);
    return MAD_OK;
}

static mad_status_t fault_open(madi_adapter_t *adapter, char *reason)
{
    fault_adapter_t *a = (fault_adapter_t *)adapter;
    mad_status_t status;

    a->timer_fd = -1;
    atomic_store_explicit(&a->due, INT64_MAX, memory_order_relaxed);
    if (!plan_read(&a->plan, reason))
        return MAD_ERR_CONFIG;
    a->dice.state = bits_mix(a->plan.seed);
    status = inner_open(a, reason);
    if (status)
        return status;
    if (a->plan.shorten)
        caps_shorten(a);
    a->timer_fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    a->timer = (madi_watch_t){.fd = a->timer_fd, .ready = timer_ready};
    if (a->timer_fd < 0 || madi_watch_add(adapter->session, &a->timer, EPOLLIN) != MAD_OK) {
        snprintf(reason, MADI_REASON_MAX, "no timer: %s", strerror(errno));
        return MAD_ERR_SYSTEM;
    }
    madi_log(MADI_LOG_WARN, "fault", "%s %s is disturbed; MAD_FAULT_SEED=%llu repeats the decisions", a->inner->driver->name,
             adapter->name, (unsigned long long)a->plan.seed);
    return MAD_OK;
}

static void fault_close(madi_adapter_t *adapter)
{
    fault_adapter_t *a = (fault_adapter_t *)adapter;
    if (a->timer_fd >= 0)
        madi_watch_del(adapter->session, &a->timer);
    if (a->inner_open && !a->inner_closed)
        a->inner->driver->close(a->inner);
    a->inner_closed = true;
}

static void fault_fini(madi_adapter_t *adapter)
{
    fault_adapter_t *a = (fault_adapter_t *)adapter;
    if (a->timer_fd >= 0)
        madi_fd_close(a->timer_fd);
    if (!a->inner)
        return;
    if (a->inner_open && !a->inner_closed)
        a->inner->driver->close(a->inner);
    a->inner->driver->fini(a->inner);
    free(a->inner);
}

/* ---- Polling and sleeping ------------------------------------------------------------------------------------- */

static bool adapter_hidden(fault_adapter_t *a, int64_t now)
{
    if (now < a->hidden_until)
        return true;
    a->hidden_until = fault_chance(&a->dice, 5) ? fault_delay(a, &a->dice, now) : 0;
    return a->hidden_until > now;
}

static int fault_link_cut(fault_link_t *l)
{
    char text[MADI_REASON_MAX];
    if (!atomic_load_explicit(&l->cut, memory_order_relaxed) || l->closed)
        return 0;
    fault_up_report(l);
    snprintf(text, sizeof text, "cut by the driver fault after %lld packets (MAD_FAULT_SEED=%llu)",
             (long long)atomic_load_explicit(&l->cut_at, memory_order_relaxed), (unsigned long long)fault_of(l)->plan.seed);
    madi_link_down(&l->base, MAD_ERR_PEER, text);
    return 1;
}

static int fault_poll(madi_adapter_t *adapter, int budget)
{
    fault_adapter_t *a = (fault_adapter_t *)adapter;
    int64_t now = madi_now();
    int n = 0;
    /* Work that this poll leaves undone sets a new due time. */
    atomic_store_explicit(&a->due, INT64_MAX, memory_order_seq_cst);
    if (adapter_hidden(a, now))
        fault_due(a, a->hidden_until);
    else
        n += a->inner->driver->poll(a->inner, 1 + (int)fault_roll(&a->dice, (uint64_t)budget));
    for (fault_link_t *l = a->links; l; l = l->next) {
        n += fault_link_cut(l);
        if (!l->closed)
            n += fault_deliver(l, now);
        if (!l->closed && l->up_reported)
            n += fault_flush(l, now);
    }
    return n;
}

static bool fault_pure_poll(madi_adapter_t *adapter)
{
    fault_adapter_t *a = (fault_adapter_t *)adapter;
    int64_t due = atomic_load_explicit(&a->due, memory_order_relaxed);
    if (due != INT64_MAX && due <= madi_now())
        return true;
    return a->inner->driver->wait.pure_poll && a->inner->driver->wait.pure_poll(a->inner);
}

static bool fault_arm(madi_adapter_t *adapter)
{
    fault_adapter_t *a = (fault_adapter_t *)adapter;
    bool quiet = !a->inner->driver->wait.arm || a->inner->driver->wait.arm(a->inner);
    int64_t due = atomic_load_explicit(&a->due, memory_order_seq_cst), now = madi_now();
    struct itimerspec at = {.it_value = {due / 1000000000, due % 1000000000}};
    if (due <= now || fault_chance(&a->dice, a->plan.arm))
        return false;
    if (due != INT64_MAX && timerfd_settime(a->timer_fd, TFD_TIMER_ABSTIME, &at, NULL))
        return false;
    return quiet;
}

static void fault_disarm(madi_adapter_t *adapter)
{
    fault_adapter_t *a = (fault_adapter_t *)adapter;
    if (a->inner->driver->wait.disarm)
        a->inner->driver->wait.disarm(a->inner);
}

/* ---- Links ---------------------------------------------------------------------------------------------------- */

static bool fault_reachable(madi_adapter_t *adapter, const void *addr, size_t len, char *reason)
{
    madi_adapter_t *inner = ((fault_adapter_t *)adapter)->inner;
    return !inner->driver->reach.reachable || inner->driver->reach.reachable(inner, addr, len, reason);
}

static bool fault_admits(madi_adapter_t *adapter, int fd, char *reason)
{
    madi_adapter_t *inner = ((fault_adapter_t *)adapter)->inner;
    return !inner->driver->reach.admits || inner->driver->reach.admits(inner, fd, reason);
}

/* Make the inner link.  The random numbers of the link depend on whether this is the active side. */
static mad_status_t link_make(fault_link_t *l, bool active)
{
    fault_adapter_t *a = fault_of(l);
    if (l->inner)
        return MAD_OK;
    a->inner->attentive = a->base.attentive; /* the core sets this pointer after this driver's open, so copy it now */
    if (posix_memalign((void **)&l->inner, MADI_LINE, a->inner->driver->link_size)) {
        l->inner = NULL;
        return MAD_ERR_NOMEM;
    }
    memset(l->inner, 0, a->inner->driver->link_size);
    l->inner->driver = a->inner->driver;
    l->inner->adapter = a->inner;
    l->inner->gate = l->base.gate;
    l->inner->outer = &l->base;
    l->number = a->n_links++;
    l->dice.state = bits_mix(a->plan.seed + 4 * l->number + 2 * active + 1000);
    l->tx_dice.state = bits_mix(a->plan.seed + 4 * l->number + 2 * active + 1001);
    l->in_tail = &l->in;
    l->out_tail = &l->out;
    l->next = a->links;
    a->links = l;
    return MAD_OK;
}

static mad_status_t fault_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    fault_link_t *l = (fault_link_t *)link;
    mad_status_t status = link_make(l, true);
    return status ? status : l->inner->driver->connect(l->inner, addr, len, fd, reason);
}

static mad_status_t fault_start(madi_link_t *link, int fd, bool active, char *reason)
{
    fault_link_t *l = (fault_link_t *)link;
    mad_status_t status = link_make(l, active);
    if (status) {
        if (fd >= 0)
            madi_fd_close(fd);
        return status;
    }
    l->inner->seal = link->seal;
    l->inner->description = link->description;
    l->inner->description_len = link->description_len;
    memcpy(l->inner->secret, link->secret, sizeof link->secret);
    return l->inner->driver->start(l->inner, fd, active, reason);
}

/* ---- The handshake in frames ---------------------------------------------------------------------------------- */

/* Refuse a frame or lose it, now and then: the core repeats it. */
static bool fault_frame_send(madi_link_t *link, const void *frame, size_t len)
{
    fault_link_t *l = (fault_link_t *)link;
    if (fault_chance(&l->dice, fault_of(l)->plan.again))
        return fault_chance(&l->dice, 50);
    return l->inner->driver->frames.frame_send(l->inner, frame, len);
}

static bool fault_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len)
{
    fault_adapter_t *a = (fault_adapter_t *)adapter;
    if (fault_chance(&a->dice, a->plan.again))
        return false;
    return a->inner->driver->frames.frame_answer(a->inner, source, source_len, frame, len);
}

static mad_status_t fault_accept(madi_link_t *link, const void *source, size_t source_len, char *reason)
{
    fault_link_t *l = (fault_link_t *)link;
    mad_status_t status = link_make(l, false);
    return status ? status : l->inner->driver->frames.accept(l->inner, source, source_len, reason);
}

static size_t fault_describe(madi_link_t *link, void *bytes)
{
    madi_link_t *inner = ((fault_link_t *)link)->inner;
    return inner->driver->frames.describe ? inner->driver->frames.describe(inner, bytes) : 0;
}

static void fault_source_end(madi_adapter_t *adapter, const void *source, size_t source_len)
{
    madi_adapter_t *inner = ((fault_adapter_t *)adapter)->inner;
    if (inner->driver->frames.source_end)
        inner->driver->frames.source_end(inner, source, source_len);
}

/* ---- Ends of links -------------------------------------------------------------------------------------------- */

static void fault_link_close(madi_link_t *link)
{
    fault_link_t *l = (fault_link_t *)link;
    if (!l->inner || l->closed)
        return;
    l->closed = true;
    for (fault_link_t **p = &fault_of(l)->links; *p; p = &(*p)->next)
        if (*p == l) {
            *p = l->next;
            break;
        }
    atomic_store_explicit(&l->inner->state, MADI_LINK_DOWN, memory_order_relaxed);
    l->inner->driver->link_close(l->inner);
    fault_tx_end(l); /* complete ops here already: link_fini may wait for loans */
}

static void fault_link_fini(madi_link_t *link)
{
    fault_link_t *l = (fault_link_t *)link;
    if (!l->inner)
        return;
    if (!l->closed) /* connect failed */
        fault_link_close(link);
    fault_rx_free(l); /* return loans before the inner link ends, because its driver gets them back */
    l->inner->driver->link_fini(l->inner);
    fault_tx_end(l); /* complete the ops that the inner driver's link_fini has ended */
    free(l->inner);
    l->inner = NULL;
}

const madi_driver_t madi_driver_fault = {
    .abi = MADI_DRIVER_ABI,
    .name = "fault",
    .adapter_size = sizeof(fault_adapter_t),
    .link_size = sizeof(fault_link_t),
    .on_request = true,
    .upcalls = &fault_upcalls,
    .probe = fault_probe,
    .open = fault_open,
    .close = fault_close,
    .fini = fault_fini,
    .connect = fault_connect,
    .start = fault_start,
    .send = fault_send,
    .poll = fault_poll,
    .link_close = fault_link_close,
    .link_fini = fault_link_fini,
    .reach =
        {
            .reachable = fault_reachable,
            .admits = fault_admits,
            .secure = fault_secure,
        },
    .frames =
        {
            .frame_send = fault_frame_send,
            .frame_answer = fault_frame_answer,
            .accept = fault_accept,
            .describe = fault_describe,
            .source_end = fault_source_end,
        },
    .wait =
        {
            .pure_poll = fault_pure_poll,
            .arm = fault_arm,
            .disarm = fault_disarm,
        },
    .fast =
        {
            .send_short = fault_send_short,
            .take = fault_take,
            .slot_put = fault_slot_put,
        },
    .live = {.drained = fault_drained, .acknowledge = fault_acknowledge},
};
