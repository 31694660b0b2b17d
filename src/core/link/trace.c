/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host.h"
#include "base/knob.h"
#include "base/log.h"
#include "core/link/trace.h"
#include "core/object/channel.h"
#include "core/object/conn.h"
#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/wire/host_name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT_ONCE 64 /* number of events that are made into text in one step */

bool madi_tracing;

/* The trace of the process.  The trace is never freed, since threads may wake from a sleep, and record that event, at any
 * time. */
static struct {
    madi_lock_t lock;
    madi_trace_event_t *ring;
    uint64_t next; /* number of events added so far */
    uint32_t size;
    int rank, n_ranks;
    bool launched; /* a launcher started the process, and gave it the rank */
    char job[17], host[MADI_HOST_MAX];
} trace;

/* ---- Events --------------------------------------------------------------------------------------------------------- */

static int thread_id(void)
{
    static _Thread_local int id;
    if (!id)
        id = (int)gettid();
    return id;
}

void madi_trace_forked(void)
{
    atomic_store_explicit(&trace.lock.held, 0, memory_order_relaxed);
}

void madi_trace_add(const madi_trace_event_t *event)
{
    madi_trace_event_t *to;
    int64_t now = event->end ? event->end : madi_now();
    int tid = thread_id();
    madi_lock(&trace.lock);
    to = &trace.ring[trace.next++ % trace.size];
    *to = *event;
    to->end = now;
    if (!to->begin)
        to->begin = now;
    to->tid = tid;
    madi_unlock(&trace.lock);
}

void madi_trace_conn(madi_trace_kind_t kind, int64_t begin, const madi_conn_t *conn, uint32_t number, uint64_t bytes)
{
    madi_trace_event_t e = {.kind = kind, .begin = begin, .number = number, .bytes = bytes, .peer = conn->gate->peer};
    snprintf(e.channel, sizeof e.channel, "%.25s", conn->channel->name);
    madi_trace_add(&e);
}

void madi_trace_link(madi_trace_kind_t kind, int64_t begin, const madi_link_t *link, uint32_t number, uint64_t bytes)
{
    madi_trace_event_t e = {.kind = kind, .begin = begin, .number = number, .bytes = bytes, .peer = link->gate->peer};
    e.driver = link->adapter->driver->name;
    madi_trace_add(&e);
}

static void trace_sleep(int64_t begin)
{
    madi_trace_add(&(madi_trace_event_t){.kind = MADI_TRACE_SLEEP, .begin = begin});
}

/* Under the lock. */
static void trace_start_locked(const mad_session_t *s)
{
    trace.rank = s->rank;
    trace.n_ranks = s->size;
    trace.launched = s->boot != NULL;
    for (int i = 0; i < 8; i++)
        snprintf(trace.job + 2 * i, 3, "%02x", s->job[i]);
    madi_host_name(trace.host, sizeof trace.host);
    trace.size = (uint32_t)madi_knob_int(MADI_KNOB_TRACE_EVENTS);
    trace.ring = calloc(trace.size, sizeof *trace.ring);
    if (!trace.ring) {
        madi_log(MADI_LOG_WARN, "trace", "MAD_TRACE: no memory for %u events (MAD_TRACE_EVENTS)", trace.size);
        return;
    }
    madi_tracing = true;
    marceli_sleeps_report(trace_sleep);
}

/* Every session calls this before it has other threads, so all of them see the final value of madi_tracing. */
void madi_trace_start(const mad_session_t *s)
{
    madi_lock(&trace.lock);
    if (*madi_knob_text(MADI_KNOB_TRACE) && !trace.ring)
        trace_start_locked(s);
    madi_unlock(&trace.lock);
}

/* ---- Text ----------------------------------------------------------------------------------------------------------- */

/* How each kind of event is shown.  Events of a thread are on the thread's line; other events are on lines of their own,
 * by name. */
static const struct {
    const char *category, *name; /* name: "%d" is the peer, "%s" the driver */
    char form;                   /* form of the event: i: an instant of a thread; x: a span of a thread; b: a span on a
                                  * line of its own */
    const char *number;          /* meaning of `number`; NULL if it has none */
} kinds[MADI_TRACE_KINDS] = {
    [MADI_TRACE_SEND] = {"message", "send to %d", 'b', "message"},
    [MADI_TRACE_RECEIVE] = {"message", "receive from %d", 'b', "message"},
    [MADI_TRACE_REQUEST] = {"rendezvous", "request to %d", 'i', "block"},
    [MADI_TRACE_GRANT] = {"rendezvous", "grant to %d", 'i', "block"},
    [MADI_TRACE_GRANTED] = {"rendezvous", "granted by %d", 'i', "block"},
    [MADI_TRACE_BLOCK_OUT] = {"block", "block to %d", 'b', "block"},
    [MADI_TRACE_BLOCK_IN] = {"block", "block from %d", 'b', "block"},
    [MADI_TRACE_PIECE_OUT] = {"piece", "%s: pieces to %d", 'b', "block"},
    [MADI_TRACE_PIECE_IN] = {"piece", "%s: pieces from %d", 'b', "block"},
    [MADI_TRACE_FRAGMENT_IN] = {"fragment", "%s: fragments from %d", 'b', "stream"},
    [MADI_TRACE_FRAGMENT_HELD] = {"fragment", "%s: held for %d", 'b', "stream"},
    [MADI_TRACE_FRAGMENT_OUT] = {"fragment", "%s: fragments to %d", 'b', "stream"},
    [MADI_TRACE_STALL] = {"stall", "%s: no credit to %d", 'b', "stream"},
    [MADI_TRACE_SLEEP] = {"wait", "asleep", 'x', NULL},
};

static void write_args(madi_json_t *j, const madi_trace_event_t *e)
{
    bool fragment = e->kind >= MADI_TRACE_FRAGMENT_IN && e->kind <= MADI_TRACE_STALL;
    madi_json_begin(j, "args", '{');
    if (e->channel[0])
        madi_json_text(j, fragment ? "network" : "channel", e->channel);
    if (kinds[e->kind].number)
        madi_json_int(j, kinds[e->kind].number, e->number);
    if (kinds[e->kind].number && e->kind != MADI_TRACE_RECEIVE)
        madi_json_int(j, "bytes", (int64_t)e->bytes);
    if (fragment)
        madi_json_bool(j, "passes", e->passes);
    if (e->kind != MADI_TRACE_SLEEP)
        madi_json_int(j, "peer", e->peer);
    madi_json_end(j, '}');
}

static void write_event_header(madi_json_t *j, const madi_trace_event_t *e, const char *ph, int64_t when)
{
    char name[64];
    if (e->driver)
        snprintf(name, sizeof name, kinds[e->kind].name, e->driver, e->peer);
    else
        snprintf(name, sizeof name, kinds[e->kind].name, e->peer);
    madi_json_begin(j, NULL, '{');
    madi_json_text(j, "ph", ph);
    madi_json_text(j, "cat", kinds[e->kind].category);
    madi_json_text(j, "name", name);
    madi_json_int(j, "pid", getpid());
    madi_json_int(j, "tid", e->tid);
    madi_json_thousandths(j, "ts", when);
}

static void write_id(madi_json_t *j, uint64_t number)
{
    char id[24];
    snprintf(id, sizeof id, "0x%llx", (unsigned long long)number);
    madi_json_begin(j, "id2", '{');
    madi_json_text(j, "local", id);
    madi_json_end(j, '}');
}

static void write_event(madi_json_t *j, const madi_trace_event_t *e, uint64_t number)
{
    static const char *const forms[] = {"i", "X", "b"};
    char form = kinds[e->kind].form;
    write_event_header(j, e, form == 'b' ? forms[2] : form == 'x' ? forms[1] : forms[0], e->begin);
    if (form == 'i')
        madi_json_text(j, "s", "t");
    if (form == 'x')
        madi_json_thousandths(j, "dur", e->end - e->begin);
    if (form == 'b')
        write_id(j, number);
    write_args(j, e);
    madi_json_end(j, '}');
    if (form != 'b')
        return;
    write_event_header(j, e, "e", e->end);
    write_id(j, number);
    madi_json_end(j, '}');
}

static int64_t realtime_offset(void)
{
    struct timespec t;
    int64_t before = madi_now(), real;
    clock_gettime(CLOCK_REALTIME, &t);
    real = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    return real - (before + (madi_now() - before) / 2);
}

static void write_trace_header(madi_json_t *j, const madi_trace_text_t *t)
{
    /* identity of the kernel: processes of one kernel have the same clock */
    char kernel[MADI_BOOT_ID_MAX], name[MADI_HOST_MAX + 40];
    madi_boot_id(kernel);
    if (trace.launched)
        snprintf(name, sizeof name, "rank %d on %s", trace.rank, trace.host);
    else
        snprintf(name, sizeof name, "%.20s on %s", program_invocation_short_name, trace.host);
    madi_json_begin(j, NULL, '{');
    madi_json_text(j, "displayTimeUnit", "ns");
    madi_json_begin(j, "otherData", '{');
    madi_json_text(j, "producer", "Madeleine");
    madi_json_text(j, "host", trace.host);
    madi_json_int(j, "pid", getpid());
    madi_json_int(j, "rank", trace.rank);
    madi_json_int(j, "size", trace.n_ranks);
    madi_json_text(j, "job", trace.job);
    madi_json_text(j, "prefix", madi_knob_text(MADI_KNOB_TRACE));
    madi_json_text(j, "clock", "CLOCK_MONOTONIC");
    madi_json_text(j, "boot_id", kernel);
    madi_json_int(j, "realtime_minus_monotonic_ns", realtime_offset());
    madi_json_int(j, "events", (int64_t)(t->end - t->next));
    madi_json_int(j, "events_lost", (int64_t)t->next); /* the number of lost events: there was no room for the oldest ones */
    madi_json_end(j, '}');
    madi_json_begin(j, "traceEvents", '[');
    madi_json_begin(j, NULL, '{');
    madi_json_text(j, "ph", "M");
    madi_json_text(j, "name", "process_name");
    madi_json_int(j, "pid", getpid());
    madi_json_int(j, "tid", 0);
    madi_json_begin(j, "args", '{');
    madi_json_text(j, "name", name);
    madi_json_end(j, '}');
    madi_json_end(j, '}');
}

/* Copy the next events.  Events that were overwritten meanwhile are left out.  Return the number of events. */
static int events_copy(madi_trace_text_t *t, madi_trace_event_t *events)
{
    int n = 0;
    madi_lock(&trace.lock);
    if (trace.next > trace.size && t->next < trace.next - trace.size)
        t->next = trace.next - trace.size;
    for (uint64_t i = t->next; i < t->end && n < AT_ONCE; i++)
        events[n++] = trace.ring[i % trace.size];
    madi_unlock(&trace.lock);
    return n;
}

enum { BEGIN, EVENTS, OVER };

static bool write_untraced(madi_trace_text_t *t, madi_json_t *j)
{
    if (t->stage == OVER)
        return false;
    t->stage = OVER;
    madi_json_begin(j, NULL, '{');
    madi_json_text(j, "error", "it keeps no trace: start it with MAD_TRACE=PREFIX");
    madi_json_end(j, '}');
    return true;
}

bool madi_trace_more(madi_trace_text_t *t, madi_json_t *j)
{
    madi_trace_event_t events[AT_ONCE];
    int n;
    if (!madi_tracing)
        return write_untraced(t, j);
    switch (t->stage) {
    case BEGIN:
        madi_lock(&trace.lock);
        t->end = trace.next;
        t->next = trace.next > trace.size ? trace.next - trace.size : 0;
        madi_unlock(&trace.lock);
        write_trace_header(j, t);
        t->stage = EVENTS;
        return true;
    case EVENTS:
        n = events_copy(t, events);
        for (int i = 0; i < n; i++)
            write_event(j, &events[i], t->next++);
        if (n)
            return true;
        madi_json_end(j, ']');
        madi_json_end(j, '}');
        t->stage = OVER;
        return true;
    default: return false;
    }
}

/* ---- Given -------------------------------------------------------------------------------------------------------- */

static bool write_file(FILE *f)
{
    madi_trace_text_t text = {0};
    madi_json_t json = {0};
    bool good = true;
    while (good && madi_trace_more(&text, &json)) {
        good = !json.failed && fwrite(json.text, 1, json.len, f) == json.len;
        json.len = 0;
    }
    madi_json_fini(&json);
    return good;
}

/* Write the timeline into a file, which appears only when it is complete.  A link or another object of that name is left
 * alone.  Only the owner can read the file, since it names channels and peers. */
void madi_trace_write(void)
{
    struct {
        char name[4000], why[PATH_MAX + 100];
        madi_output_t out;
    } * t; /* the buffer is too large for the stack of a user-level thread */
    bool good = false;
    if (!madi_tracing)
        return;
    t = malloc(sizeof *t);
    if (!t) {
        madi_log(MADI_LOG_WARN, "trace", "MAD_TRACE: no memory to write the timeline");
        return;
    }
    snprintf(t->name, sizeof t->name, "%s.%s.%d.json", madi_knob_text(MADI_KNOB_TRACE), trace.host, (int)getpid());
    if (madi_output_open(&t->out, t->name, 0600, false, t->why, sizeof t->why)) {
        bool whole = write_file(t->out.file);
        snprintf(t->why, sizeof t->why, "%s", strerror(errno)); /* the reason is shown only if the file is incomplete */
        good = madi_output_close(&t->out, whole, t->why, sizeof t->why);
    }
    if (!good)
        madi_log(MADI_LOG_WARN, "trace", "MAD_TRACE: %s cannot be written: %s", t->name, t->why);
    free(t);
}
