/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for a path to a peer: an adapter of this process and one of the peer that can communicate.
 *
 *   paths, best first:  shm    tcp eth0    tcp docker0    tcp docker1    ...
 *   at 0                try
 *   1 delay later              try
 *   2 delays later                         try            (then 2, 4, 8, ... paths at a time)
 *
 * A wave of paths starts MAD_CONNECT_DELAY after the one before, or later while this process connects to many peers
 * (next_wave); when a path fails the next one starts at once.  So several unreachable networks cost little more time than
 * one.  Paths are tried in parallel up to the peer's challenge, which shows
 * that the process itself answers; the peer has committed nothing by then.  attempt.c chooses the best of the paths that
 * have reached this point, closes the others, and proves the key.  If that path fails, the search goes on with all that have
 * not failed.  Paths over gateways are tried after all others have failed. */
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/connect/gate.h"
#include "core/connect/hello.h"
#include "core/connect/hello_inside.h"
#include "core/connect/paths.h"
#include "core/connect/peer.h"
#include "core/connect/search.h"
#include "core/driver.h"
#include "core/link/polled.h"
#include "core/object/gate.h"
#include "core/wire/address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUTS_MAX 8 /* maximum number of repeated searches after the peer has closed a handshake without an answer */
#define CUT_AGAIN INT64_C(10000000) /* ns before the first repeated search; each further pause is twice as long */
/* maximum number of sockets of a session that are being connected at a time; each gate may have one more */
#define ATTEMPTS_MAX 256

#define BUSY 8   /* attempts to other peers after which a wave starts one MAD_CONNECT_DELAY later */
#define WAVES 16 /* waves that start within MAD_CONNECT_TIMEOUT at least, if MAD_CONNECT_DELAY allows it */

typedef struct madi_search search_t;

static void path_reject(madi_gate_t *gate, madi_adapter_t *a, const char *reason)
{
    madi_log(MADI_LOG_DEBUG, a->driver->name, "peer %d: %s (%s) rejected: %s", gate->peer, a->name, a->network, reason);
    madi_peer_path_failed(gate, a, reason);
}

/* ---- Which paths there are -------------------------------------------------------------------------------------- */

/* Compare two paths: by class first.  Within a class, the first paths of all adapters come before any second path,
 * because the second path of an adapter may lead to the same process. */
static int path_compare(const void *a, const void *b)
{
    const madi_search_path_t *x = a, *y = b;
    int order = memcmp(x->class, y->class, sizeof x->class);
    if (!order)
        order = x->nth < y->nth ? -1 : x->nth > y->nth;
    return order ? order : x->index < y->index ? -1 : x->index > y->index;
}

bool madi_search_path_better(const search_t *search, int a, int b)
{
    return memcmp(search->way[a].class, search->way[b].class, sizeof search->way[a].class) < 0;
}

/* Append the paths of one adapter.  Return false if out of memory. */
static bool paths_add(search_t **search, madi_gate_t *gate, int index)
{
    mad_session_t *s = gate->session;
    madi_adapter_t *a = s->adapters[index];
    madi_address_entry_t e;
    char reason[MADI_REASON_MAX];
    size_t at = 0;
    if (gate->rail_of && !s->rails->admits(gate, a))
        return true;
    for (int nth = 0; madi_peer_path_next(s, madi_peer_address(s, gate->peer), gate->lane, a, &at, &e, reason); nth++) {
        search_t *grown = *search;
        madi_search_path_t way = {.adapter = a, .entry = e.at, .nth = nth, .index = index};
        if (!(grown->n & (grown->n - 1)))
            grown = realloc(grown, sizeof *grown + 2 * (size_t)(grown->n + 1) * sizeof way);
        if (!grown)
            return false;
        *search = grown;
        madi_peer_path_class(s, gate->lane, a, way.class);
        grown->way[grown->n++] = way;
    }
    return true;
}

static search_t *search_new(madi_gate_t *gate)
{
    search_t *search = calloc(1, sizeof *search);
    for (int i = 0; search && i < gate->session->n_adapters; i++)
        if (!paths_add(&search, gate, i)) {
            free(search);
            return NULL;
        }
    if (search)
        qsort(search->way, (size_t)search->n, sizeof *search->way, path_compare);
    return search;
}

void madi_search_free(madi_gate_t *gate)
{
    free(gate->connect->search);
    gate->connect->search = NULL;
}

static bool path_is_carried(const madi_gate_t *gate, const madi_search_path_t *way)
{
    return gate->session->forward && gate->session->forward->carried(way->adapter);
}

/* Return the best path that was not tried and may be tried now; -1: none.  left: set if a path is left that may not be
 * tried now. */
static int path_choose(const madi_gate_t *gate, bool *left)
{
    const search_t *search = gate->connect->search;
    bool full = gate->connect->n_attempts && gate->session->connect->n_attempts >= ATTEMPTS_MAX;
    *left = false;
    for (int i = 0; search && i < search->n; i++) {
        if (search->way[i].tried)
            continue;
        if (!full && !(gate->connect->n_attempts && path_is_carried(gate, &search->way[i])))
            return i;
        *left = true;
    }
    return -1;
}

bool madi_search_waits(const madi_gate_t *gate, bool alone)
{
    bool left;
    return (path_choose(gate, &left) >= 0 && alone) || left;
}

void madi_search_untry(madi_gate_t *gate, int way)
{
    if (gate->connect->search)
        gate->connect->search->way[way].tried = false;
}

/* ---- Trying --------------------------------------------------------------------------------------------------- */

size_t madi_link_describe(madi_link_t *link, void *bytes)
{
    const madi_driver_frames_t *op = &link->driver->frames;
    return op->describe ? op->describe(link, bytes) : 0;
}

madi_link_t *madi_link_new(madi_adapter_t *adapter, madi_gate_t *gate)
{
    madi_link_t *link = NULL;
    if (posix_memalign((void **)&link, MADI_LINE, adapter->driver->link_size))
        return NULL;
    memset(link, 0, adapter->driver->link_size);
    link->driver = adapter->driver;
    link->adapter = adapter;
    link->gate = gate;
    madi_adapter_polled(adapter);
    return link;
}

/* Have the driver connect, and begin the handshake on its socket.  A link that needs no handshake becomes the gate's link
 * at once. */
static mad_status_t path_connect(madi_gate_t *gate, int i, madi_link_t *link, char *reason)
{
    madi_address_entry_t e;
    size_t at = gate->connect->search->way[i].entry;
    int fd = -1;
    mad_status_t status;
    madi_address_next(madi_peer_address(gate->session, gate->peer), &at, &e);
    gate->link = link;
    status = link->driver->connect(link, e.bytes, e.len, &fd, reason);
    if (!status && fd < 0 && !link->driver->frames.frame_send)
        return MAD_OK;
    gate->link = NULL;
    if (status)
        return status;
    status = madi_hello_connect(gate, link, fd, i);
    if (status) {
        snprintf(reason, MADI_REASON_MAX, "no handshake: %s", strerror(errno));
        link->driver->link_close(link);
    }
    return status;
}

/* Try one path.  MAD_ERR_AGAIN if there is no memory or descriptor for the attempt while other attempts run. */
static mad_status_t path_try(madi_gate_t *gate, int i)
{
    madi_adapter_t *a = gate->connect->search->way[i].adapter;
    char reason[MADI_REASON_MAX] = "";
    madi_link_t *link = madi_link_new(a, gate);
    mad_status_t status;
    gate->connect->search->way[i].tried = true;
    status = link ? path_connect(gate, i, link, reason) : MAD_ERR_NOMEM;
    if (status == MAD_OK)
        return MAD_OK;
    if (link) {
        link->driver->link_fini(link);
        free(link);
    }
    if (status == MAD_ERR_NOMEM && gate->connect->n_attempts) {
        gate->connect->search->way[i].tried = false;
        return MAD_ERR_AGAIN;
    }
    gate->connect->no_answer |= status == MAD_ERR_SYSTEM;
    gate->connect->no_resources |= status == MAD_ERR_NOMEM;
    path_reject(gate, a, reason[0] ? reason : mad_status_text(status));
    return status;
}

static bool is_searching(const madi_gate_t *gate)
{
    return atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed) == MADI_GATE_CONNECTING && !gate->link;
}

/* Repeat the search later, if the peer has closed a handshake without an answer.  A peer does so when it has too many
 * incoming connections.  If the peer has ended, the next attempt finds no listener.  Return false if the search is not
 * repeated. */
static bool search_again(madi_gate_t *gate)
{
    int64_t at = madi_deadline(CUT_AGAIN << gate->connect->n_cuts);
    if (!gate->connect->cut_off || gate->connect->n_cuts == CUTS_MAX || at >= gate->connect->deadline)
        return false;
    gate->connect->cut_off = false;
    gate->connect->n_cuts++;
    gate->connect->redial_at = at;
    marceli_accept_entry_call_at(&gate->session->accept_entry, at);
    return true;
}

static mad_status_t search_status(const madi_gate_t *gate, bool any)
{
    return gate->connect->no_resources ? MAD_ERR_NOMEM
           : gate->connect->refusal    ? gate->connect->refusal
           : any                       ? MAD_ERR_PEER
                                       : MAD_ERR_UNREACHABLE;
}

static void search_failed(madi_gate_t *gate)
{
    bool any = !gate->connect->search || gate->connect->search->n || gate->connect->search->none_left;
    if (!search_again(gate))
        madi_gate_down(gate, search_status(gate, any), NULL);
}

/* Return when the next wave starts.  While there are attempts to many other peers, on a crowded host for instance, answers
 * come late because processors are busy: more attempts would make them later. */
static int64_t next_wave(const madi_gate_t *gate)
{
    int64_t delay = madi_knob_int(MADI_KNOB_CONNECT_DELAY);
    int64_t most = madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT) / WAVES;
    int64_t busy = delay + delay * (gate->session->connect->n_attempts - gate->connect->n_attempts) / BUSY;
    return madi_deadline(busy < most ? busy : most > delay ? most : delay);
}

/* Have the next wave start at that time, also while the program computes. */
static void wave_at(madi_gate_t *gate, int64_t at)
{
    gate->connect->search->next_at = at;
    marceli_accept_entry_call_at(&gate->session->accept_entry, at);
}

/* Try n more paths, or as many as there are.  When no path is left and no attempt runs, the gate goes down. */
static void search_more(madi_gate_t *gate, int n)
{
    mad_status_t status = MAD_OK;
    bool left = false;
    int i;
    bool late = gate->connect->deadline <= madi_now();
    while (n > 0 && !late && status != MAD_ERR_AGAIN && is_searching(gate) && (i = path_choose(gate, &left)) >= 0) {
        status = path_try(gate, i);
        n -= status == MAD_OK;
    }
    if (!is_searching(gate))
        return;
    if (!gate->connect->n_attempts && late && madi_search_waits(gate, true))
        madi_gate_time_out(gate);
    else if (!gate->connect->n_attempts)
        search_failed(gate);
    if (!gate->connect->n_attempts)
        return;
    gate->connect->search->next_at = 0;
    if (madi_search_waits(gate, true))
        wave_at(gate, next_wave(gate));
}

void madi_search_wave(madi_gate_t *gate)
{
    int n = gate->connect->search->wave;
    int64_t patience = gate->connect->deadline - madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT) / 4 * 3;
    /* a process of this host that an attempt has reached is busy: it would not answer sooner over another path */
    if (gate->connect->process && madi_now() < patience) {
        wave_at(gate, patience);
        return;
    }
    gate->connect->search->wave = n < ATTEMPTS_MAX ? 2 * n : n;
    search_more(gate, n);
}

void madi_search_failed(madi_gate_t *gate, madi_link_t *link, mad_status_t status, const char *text)
{
    /* record the unauthenticated status that this path has reported */
    if (status == MAD_ERR_AUTH || status == MAD_ERR_VERSION)
        gate->connect->refusal = status;
    gate->connect->no_answer |= status == MAD_ERR_SYSTEM || status == MAD_ERR_TIMEOUT;
    path_reject(gate, link->adapter, text);
    madi_link_bury(link);
    gate->link = NULL;
    gate->connect->process = 0;
    /* begin a new search: the peer's own attempt has failed */
    if (!gate->connect->search && !(gate->connect->search = search_new(gate))) {
        madi_gate_down(gate, MAD_ERR_NOMEM, "no memory to look for a way");
        return;
    }
    madi_hello_decide(gate, madi_now());
    if (is_searching(gate))
        search_more(gate, 1);
}

static void search_begin(madi_gate_t *gate)
{
    madi_search_free(gate);
    gate->connect->search = search_new(gate);
    if (!gate->connect->search) {
        madi_gate_down(gate, MAD_ERR_NOMEM, "no memory to look for a way");
        return;
    }
    gate->connect->search->wave = 1;
    search_more(gate, 1);
}

void madi_gate_connect(madi_gate_t *gate)
{
    if (atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_IDLE)
        return;
    atomic_store_explicit(&gate->state, MADI_GATE_CONNECTING, memory_order_relaxed);
    gate->connect->deadline = madi_deadline(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT));
    gate->connect->refusal = MAD_OK;
    gate->connect->cut_off = false;
    gate->connect->n_cuts = 0;
    search_begin(gate);
}

void madi_gate_connect_again(madi_gate_t *gate)
{
    atomic_store_explicit(&gate->state, MADI_GATE_CONNECTING, memory_order_relaxed);
    search_begin(gate);
}
