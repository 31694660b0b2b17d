/* SPDX-License-Identifier: BSD-3-Clause */
/* Start, end, progress, and lost peers. */
#include "engine/wait_policy.h"
#include "match.h"
#include "mpi/oldest_first.h"

#include <madeleine/runtime.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINGER_MS 5000 /* ms; equals the default of MAD_EXIT_TIMEOUT */

/* A message that a handler has queued. */
typedef struct arrival {
    item_t item;
    struct arrival *next;
    mad_message_t *message;
} arrival_t;

/* ---- The lock, and items queued while it is held ---------------------------------------------------------------- */

static void arrival_queue(mad_dev_t *dev, item_t *item);
static void watch_over(mad_dev_t *dev, item_t *item);

/* Handle all queued items, oldest first.  Return their number. */
static __attribute__((noinline)) int look_at_items(mad_dev_t *dev)
{
    item_t *list = atomic_exchange_explicit(&dev->items, NULL, memory_order_acquire); /* pairs with dev_item_push */
    item_t *oldest, *next;
    int n = 0;
    MAD_OLDEST_FIRST(list, oldest);
    for (; oldest; oldest = next, n++) {
        next = oldest->next;
        if (oldest->look != arrival_queue)
            atomic_fetch_sub_explicit(&dev->under_way, 1, memory_order_relaxed);
        oldest->look(dev, oldest);
    }
    return n;
}

static bool items_wait(mad_dev_t *dev)
{
    return atomic_load_explicit(&dev->items, memory_order_relaxed) != NULL;
}

/* Unlock.  A thread that finds the lock held queues its item and leaves, so the holder checks for items again after it
 * has unlocked. */
void dev_unlock_threaded(mad_dev_t *dev)
{
    if (!dev->by_handler) {
        pthread_mutex_unlock(&dev->lock);
        return;
    }
    do {
        while (atomic_load(&dev->items))
            look_at_items(dev);
        pthread_mutex_unlock(&dev->lock);
    } while (atomic_load(&dev->items) && dev_trylock(dev));
}

/* ---- Incoming messages ------------------------------------------------------------------------------------------- */

static int take_arrived(mad_dev_t *dev)
{
    int n = dev->is_stuck ? dev_stuck_retry(dev) : 0;
    while (dev->arrived && !dev->is_starved) {
        arrival_t *a = dev->arrived;
        mad_arrival_t arrival = {.message = a->message, .peer = mad_message_peer(a->message)};
        dev->arrived = a->next;
        free(a);
        n += dev->is_stuck ? dev_arrival_admit(dev, &arrival) : dev_arrival_take(dev, &arrival);
    }
    return n;
}

static void arrival_queue(mad_dev_t *dev, item_t *item)
{
    arrival_t *a = (arrival_t *)item;
    a->next = NULL;
    if (dev->arrived)
        dev->arrived_last->next = a;
    else
        dev->arrived = a;
    dev->arrived_last = a;
    take_arrived(dev);
}

/* Queue a message.  If out of memory, the message is missing in its sender's order, so the sender counts as lost. */
static mad_handled_t message_handler(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    mad_dev_t *dev = arg;
    arrival_t *a = calloc(1, sizeof *a);
    (void)channel;
    if (!a) {
        mad_dev_peer_lost(dev, mad_message_peer(message), MAD_ERR_NOMEM);
        return MAD_CONSUMED;
    }
    a->message = message;
    a->item.dev = dev;
    a->item.look = arrival_queue;
    dev_item_push(&a->item, MAD_OK);
    return MAD_PARKED;
}

int dev_shown_take(mad_dev_t *dev, bool keeps)
{
    int first = dev->next_shown, n = dev_arrivals_take(dev, dev->shown + first, dev->n_shown - first, keeps);
    dev->next_shown = first + n;
    return n;
}

/* Open messages that have arrived, at most max.  After a quiet time the caller opens only one, because the program
 * probably waits for it. */
static inline bool messages_open(mad_dev_t *dev, int max)
{
    dev->n_shown = mad_channel_poll(dev->channel, dev->shown, max);
    dev->next_shown = 0;
    return dev->n_shown;
}

/* Take the shown messages one by one. */
static int shown_admit(mad_dev_t *dev)
{
    int n = 0;
    while (dev->next_shown < dev->n_shown && !dev->is_starved)
        n += dev_arrival_admit(dev, &dev->shown[dev->next_shown++]);
    return n;
}

/* Like take_messages, while messages of some peers wait or are dropped. */
static MAD_DEV_RARE int take_messages_sorted(mad_dev_t *dev, int max)
{
    int n = dev_stuck_retry(dev);
    n += shown_admit(dev);
    if (!dev->is_starved && messages_open(dev, max))
        n += shown_admit(dev);
    return n;
}

/* Take messages that have arrived.  The first message that no receive matches, and all that came with it and behind it,
 * wait until the next receive is posted, or else for the next call: a program that receives one by one will match these
 * messages without their being kept. */
static int take_messages(mad_dev_t *dev, int max)
{
    int n;
    if (dev->is_stuck)
        return take_messages_sorted(dev, max);
    if (dev_shown_waits(dev))
        return dev_shown_take(dev, true);
    if (!messages_open(dev, max))
        return 0;
    n = dev_shown_take(dev, false);
    return n ? n : dev_shown_take(dev, true);
}

static void look_for_losses(mad_dev_t *dev)
{
    mad_event_t event;
    while (mad_event_next(dev->session, &event) == MAD_OK)
        dev_peer_suspect(dev, event.peer, event.status);
}

/* True if the kernel's coarse clock has advanced since the last call.  A tick takes some milliseconds; reading this clock
 * costs almost nothing. */
static bool dev_clock_ticked(mad_dev_t *dev)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (dev->tick == now.tv_nsec)
        return false;
    dev->tick = now.tv_nsec;
    return true;
}

/* Poll everything, once in several calls without a message.  Polling everything takes as long as many calls that poll
 * only likely sources, so a message that arrives meanwhile is delayed.  But if processes outnumber cores, calls are rare,
 * and a connection in progress must not wait for many of them. */
static MAD_DEV_RARE void dev_look_around(mad_dev_t *dev, unsigned turn)
{
    if (madi_poll_due(turn, MADI_POLL_ALL_EVERY) || dev_clock_ticked(dev))
        mad_progress(dev->session);
    if (madi_poll_due(turn, MADI_DEVICE_LOSSES_EVERY))
        look_for_losses(dev);
}

/* vain: consecutive calls of this thread that found nothing, on any device.  This number is counted per thread, because a
 * thread that polls several devices, some of them idle, is as busy as the busiest one. vain_since: coarse time in ns of the
 * first call that yielded. */
static MADI_THREAD_LOCAL unsigned vain;
static MADI_THREAD_LOCAL int64_t vain_since;

/* Yield or sleep, so that other processes get the processor.  Yielding alone is not enough: on some kernels, a
 * process that yields and one that sleeps briefly can keep the processor from all others (doc/rationale.md). */
static MAD_DEV_RARE void give_way(bool first)
{
    struct timespec now, nap = {0, MADI_DEVICE_NAP_NS};
    int64_t ns;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    if (first)
        vain_since = ns;
    if (madi_device_naps(ns - vain_since))
        nanosleep(&nap, NULL);
    else
        sched_yield();
}

/* Count a call that has found n events, and return n. */
static inline int count_vain(int n, unsigned weight)
{
    unsigned before = vain, after = n ? 0 : before + weight;
    vain = after;
    if (madi_device_yields(before, after))
        give_way(before < MADI_DEVICE_YIELD_EVERY);
    return n;
}

static int progress_polled(mad_dev_t *dev)
{
    unsigned turn;
    int n;
    if (!dev_trylock(dev)) /* the holder of the lock makes progress */
        return 0;
    turn = dev->quiet;
    if (madi_poll_due(turn, MADI_POLL_CLOCK_EVERY))
        dev_look_around(dev, turn);
    else if (atomic_load_explicit(&dev->under_way, memory_order_relaxed)) /* polling for messages does not move long ones */
        mad_progress(dev->session);
    n = take_messages(dev, turn ? 1 : MAD_DEV_SHOWN);
    if (items_wait(dev))
        n += look_at_items(dev);
    dev->quiet = n ? 0 : turn + 1;
    dev_unlock(dev);
    return count_vain(n, 1);
}

static __attribute__((noinline)) int progress_handled(mad_dev_t *dev)
{
    int n = mad_progress(dev->session);
    dev_lock(dev);
    if (dev->is_stuck)
        n += take_arrived(dev);
    look_for_losses(dev);
    dev_unlock(dev);
    return count_vain(n, MADI_DEVICE_HANDLED);
}

bool dev_shown_poll(mad_dev_t *dev)
{
    for (int i = 0; i < MADI_DEVICE_GLANCES; i++) {
        unsigned turn = dev->quiet;
        if (madi_poll_due(turn, MADI_POLL_CLOCK_EVERY))
            dev_look_around(dev, turn);
        else if (atomic_load_explicit(&dev->under_way, memory_order_relaxed))
            return false;
        if (messages_open(dev, turn ? 1 : MAD_DEV_SHOWN)) {
            dev->quiet = 0;
            return count_vain(1, 1);
        }
        dev->quiet = turn + 1;
        if (items_wait(dev))
            return false;
    }
    return count_vain(0, MADI_DEVICE_GLANCES);
}

int mad_dev_progress(mad_dev_t *dev)
{
    return dev->by_handler ? progress_handled(dev) : progress_polled(dev);
}

/* ---- Lost peers -------------------------------------------------------------------------------------------------- */

#define WATCHED 0x80 /* flag in addition to the status: there is a posted receive that ends if the peer is lost */

mad_status_t dev_peer_status(const mad_dev_t *dev, mad_peer_t peer)
{
    return peer >= 0 && peer < dev->n_lost ? (mad_status_t)(dev->lost[peer] & ~WATCHED) : MAD_OK;
}

/* Record the status, or WATCHED.  Return false if out of memory. */
static bool lost_note(mad_dev_t *dev, mad_peer_t peer, unsigned status)
{
    if (!dev_peers_grow(&dev->lost, &dev->n_lost, peer))
        return false;
    dev->lost[peer] |= (unsigned char)status;
    return true;
}

static void peer_lost(mad_dev_t *dev, mad_peer_t peer, mad_status_t status)
{
    if (peer < 0 || dev_peer_status(dev, peer))
        return;
    lost_note(dev, peer, (unsigned)status);
    dev_receives_fail(dev, peer, status);
    for (uint32_t i = 0; i < dev->n_numbered; i++) {
        op_t *op = dev->numbered[i];
        if (!op || op->peer != peer || op->envelope_waits) /* the request of an envelope that has not left fails by itself */
            continue;
        dev_number_release(dev, op);
        if (op->done.sent) {
            dev_send_advance(dev, op, status);
        } else {
            op->done.status = status;
            op->done.len = 0;
            dev_op_complete(dev, op);
        }
    }
}

void dev_peer_breach(mad_dev_t *dev, mad_peer_t peer)
{
    flow_t *f = dev_flow_make(dev, peer);
    if (f && !f->shut) {
        f->shut = dev->is_stuck = true;
        dev->n_shut++;
    }
    peer_lost(dev, peer, MAD_ERR_PROTOCOL);
}

void dev_peer_suspect(mad_dev_t *dev, mad_peer_t peer, mad_status_t status)
{
    if (status == MAD_ERR_PEER || status == MAD_ERR_UNREACHABLE || status == MAD_ERR_AUTH || status == MAD_ERR_VERSION)
        peer_lost(dev, peer, status);
}

/* Watch for the loss of a peer.  Events report it too, but only to a program that calls mad_event_next. */
typedef struct watch {
    item_t item;
    mad_peer_t peer;
} watch_t;

static void watch_over(mad_dev_t *dev, item_t *item)
{
    watch_t *w = (watch_t *)item;
    dev_peer_suspect(dev, w->peer, item->status);
    free(w);
}

void dev_peer_watch(mad_dev_t *dev, mad_peer_t peer)
{
    mad_request_t *request;
    watch_t *w;
    if (!dev->watch || peer < 0 || (peer < dev->n_lost && dev->lost[peer]))
        return;
    w = calloc(1, sizeof *w);
    if (!w || !lost_note(dev, peer, WATCHED) || mad_message_receive(dev->watch, peer, NULL, 0, &request)) {
        free(w); /* the device does without the watch: each call of the program checks for losses, too */
        return;
    }
    w->peer = peer;
    dev_item_attach(dev, request, &w->item, watch_over);
}

void mad_dev_peer_lost(mad_dev_t *dev, mad_peer_t peer, mad_status_t status)
{
    dev_lock(dev);
    peer_lost(dev, peer, status);
    dev_unlock(dev);
}

void mad_dev_peer_forget(mad_dev_t *dev, mad_peer_t peer)
{
    bool lost;
    dev_lock(dev);
    lost = dev_peer_status(dev, peer) != MAD_OK;
    dev_unlock(dev);
    if (lost)
        mad_peer_forget(mad_dev_session(dev), peer);
}

/* ---- Start and end ----------------------------------------------------------------------------------------------- */

/* Longest payload that is sent with its envelope in one block, which fits into one packet of every network. */
static size_t whole_max(mad_session_t *session)
{
    mad_adapter_info_t info;
    size_t room = MAD_DEV_PACKET_MAX;
    for (int i = 0; i < mad_adapter_count(session); i++)
        if (!mad_adapter_get(session, i, &info) && info.packet_max < room)
            room = info.packet_max;
    return room - MAD_DEV_HEADERS - sizeof(wire_envelope_t);
}

static mad_status_t dev_session_start(mad_dev_t *dev, const mad_dev_options_t *options)
{
    mad_status_t status = mad_open(options->key, options->key_len, &dev->session);
    if (status)
        return status;
    dev->whole_max = whole_max(dev->session);
    status = mad_channel_open(dev->session, options->channel, &dev->channel);
    if (!status && dev->by_handler)
        status = mad_channel_open(dev->session, "losses", &dev->watch);
    if (status) {
        mad_exit(dev->session);
        return status;
    }
    if (dev->by_handler)
        mad_channel_handler_set(dev->channel, message_handler, dev);
    return MAD_OK;
}

mad_status_t mad_dev_open(const mad_dev_options_t *options, mad_dev_t **out)
{
    mad_dev_t *dev = calloc(1, sizeof *dev);
    mad_status_t status;
    if (!dev)
        return MAD_ERR_NOMEM;
    dev->by_handler = options->by_handler;
    dev->threaded = options->threaded || options->by_handler;
    dev->windows = MAD_DEV_WINDOWS;
    dev->cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    dev->notify = options->notify;
    dev->notify_received = options->notify_received;
    dev->arg = options->arg;
    dev->memory = options->memory;
    for (int i = 0; i < 2; i++)
        dev_match_init(&dev->matchers[i]);
    if (pthread_mutex_init(&dev->lock, NULL)) {
        free(dev);
        return MAD_ERR_NOMEM;
    }
    status = dev_session_start(dev, options);
    if (status) {
        pthread_mutex_destroy(&dev->lock);
        free(dev);
        return status;
    }
    *out = dev;
    return MAD_OK;
}

static void notify_nobody(void *arg, const mad_dev_done_t *done)
{
    (void)arg;
    (void)done;
}

static void notify_received_nobody(void *arg, void *context, uint64_t flags, const mad_dev_got_t *got)
{
    (void)arg, (void)context, (void)flags, (void)got;
}

/* True if a send is pending that the receiver knows of, but has neither granted nor matched. */
static bool sends_wait(mad_dev_t *dev)
{
    bool some = false;
    dev_lock(dev);
    for (uint32_t i = 0; i < dev->n_numbered && !some; i++)
        some = dev->numbered[i] && dev->numbered[i]->done.sent;
    dev_unlock(dev);
    return some;
}

int64_t mad_dev_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Wait for receivers to take injected messages: for the program these sends have ended, but their payload may still be
 * here. */
static void dev_linger(mad_dev_t *dev)
{
    int64_t end = mad_dev_clock() + LINGER_MS;
    while (sends_wait(dev) && mad_dev_clock() < end)
        if (!mad_dev_progress(dev))
            usleep(MADI_DEVICE_LINGER_US);
}

void mad_dev_close(mad_dev_t *dev)
{
    dev_lock(dev);
    dev->notify = notify_nobody;
    dev->notify_received = notify_received_nobody;
    dev_unlock(dev);
    dev_linger(dev);
    mad_exit(dev->session); /* completes all operations, so that no callback comes afterwards */
    for (item_t *i = atomic_load(&dev->items), *next; i; i = next) {
        next = i->next;
        if (i->look == arrival_queue || i->look == watch_over)
            free(i);
        else
            dev_remote_forget(dev, i);
    }
    for (arrival_t *a = dev->arrived, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    for (int i = 0; i < 2; i++)
        dev_match_fini(&dev->matchers[i]);
    dev_stuck_fini(dev);
    dev_pool_fini(dev);
    dev_flow_fini(dev);
    free(dev->lost);
    free(dev->greeted);
    free(dev->sink);
    pthread_mutex_destroy(&dev->lock);
    free(dev);
}

mad_session_t *mad_dev_session(mad_dev_t *dev)
{
    return dev->session;
}
