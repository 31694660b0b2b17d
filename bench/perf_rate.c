/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates: windows of 64 messages, in every form of sending and receiving.  Times are per message of one direction.  A
 * window begins when the receiver sends an empty message, so that its receives are posted by then.  Unexpected: the
 * receiver opens no message before one on another channel, sent after the window, has arrived.  Both ways: each side
 * sends a window and receives one; a process alone does so with itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

#define WINDOW PERF_WINDOW
#define BLOCKING_MAX 512 /* bytes: a window of these can be sent completely while its receiver sends too */

enum { FORM_REQUEST, FORM_BLOCKING, FORM_CALL, FORM_CALLBACK, FORMS };
static const char *const form_names[FORMS] = {"request", "blocking", "call", "callback"};
enum { RECEIVE_OPEN, RECEIVE_POSTED, RECEIVE_UNEXPECTED, RECEIVES };
static const char *const receive_names[RECEIVES] = {"open", "posted", "unexpected"};

typedef struct rate {
    perf_t *p;
    int form, receive;
    bool sends, takes;
    mad_channel_t *behind; /* channel of the message that follows the window */
    mad_request_t *sent[WINDOW], *posted[WINDOW];
    int called;          /* number of callbacks that have run */
    mad_status_t failed; /* status of a callback that failed, else MAD_OK */
    char *in;            /* receive buffers of a window */
} rate_t;

/* ---- Sending -------------------------------------------------------------------------------------------------- */

static void sent_callback(void *arg, mad_status_t status)
{
    rate_t *r = arg;
    r->called++;
    if (status)
        r->failed = status;
}

static int call_start(perf_t *p, mad_request_t **request)
{
    mad_block_t block = {p->send, p->size, p->send_mode, p->receive_mode};
    mad_status_t status = mad_message_send(p->channel, p->peer, &block, 1, request);
    return status ? perf_failed("mad_message_send", status) : 0;
}

static int message_send(rate_t *r, int i)
{
    perf_t *p = r->p;
    int rc;
    if (r->form == FORM_BLOCKING)
        return perf_send(p, p->peer, p->send, p->size);
    rc = r->form == FORM_CALL ? call_start(p, &r->sent[i]) : perf_send_start(p, p->peer, p->send, p->size, &r->sent[i]);
    if (!rc && r->form == FORM_CALLBACK)
        mad_request_detach(r->sent[i], sent_callback, r);
    return rc;
}

/* Send an empty message on the channel `behind`. */
static int mark_send(rate_t *r)
{
    mad_status_t status = mad_end_packing(mad_begin_packing(r->behind, r->p->peer));
    return status ? perf_failed("mark", status) : 0;
}

static int mark_take(rate_t *r)
{
    mad_status_t status = mad_end_unpacking(mad_begin_unpacking_from(r->behind, r->p->peer));
    return status ? perf_failed("mark", status) : 0;
}

static int window_send(rate_t *r)
{
    int rc = 0;
    r->called = 0;
    for (int i = 0; i < WINDOW && !rc; i++)
        rc = message_send(r, i);
    return rc || r->receive != RECEIVE_UNEXPECTED ? rc : mark_send(r);
}

static int window_sent(rate_t *r)
{
    int rc = 0;
    for (int i = 0; i < WINDOW && !rc && (r->form == FORM_REQUEST || r->form == FORM_CALL); i++)
        rc = perf_wait(&r->sent[i]);
    while (r->form == FORM_CALLBACK && r->called < WINDOW)
        mad_progress(r->p->session);
    return rc || !r->failed ? rc : perf_failed("callback", r->failed);
}

/* ---- Receiving ------------------------------------------------------------------------------------------------ */

static int window_post(rate_t *r)
{
    perf_t *p = r->p;
    for (int i = 0; i < WINDOW && r->receive == RECEIVE_POSTED; i++) {
        mad_block_t block = {r->in + (size_t)i * p->size, p->size, p->send_mode, p->receive_mode};
        mad_status_t status = mad_message_receive(p->channel, p->peer, &block, 1, &r->posted[i]);
        if (status)
            return perf_failed("mad_message_receive", status);
    }
    return 0;
}

static int window_take(rate_t *r)
{
    perf_t *p = r->p;
    int rc = r->receive == RECEIVE_UNEXPECTED ? mark_take(r) : 0;
    for (int i = 0; i < WINDOW && !rc; i++)
        rc = r->receive == RECEIVE_POSTED ? perf_wait(&r->posted[i])
                                          : perf_receive(p, p->peer, r->in + (size_t)i * p->size, p->size);
    return rc;
}

/* ---- Windows -------------------------------------------------------------------------------------------------- */

/* Allow the other side to begin its window, if this side receives one. */
static int window_begin(rate_t *r)
{
    perf_t *p = r->p;
    int rc = r->takes ? window_post(r) : 0;
    if (p->peer == p->rank)
        return rc;
    if (!rc && r->takes)
        rc = mark_send(r);
    return rc || !r->sends ? rc : mark_take(r);
}

static int body(void *arg, int n)
{
    rate_t *r = arg;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        rc = window_begin(r);
        if (!rc && r->sends)
            rc = window_send(r);
        if (!rc && r->takes)
            rc = window_take(r);
        if (!rc && r->sends)
            rc = window_sent(r);
    }
    return rc;
}

/* Run one window, and check its payload. */
static int verify(rate_t *r)
{
    perf_t *p = r->p;
    memset(r->in, 0, WINDOW * p->size);
    bench_fill(p->send, p->size, (unsigned)p->rank + 1);
    if (body(r, 1))
        return -1;
    for (int i = 0; i < WINDOW && r->takes; i++)
        if (!bench_check(r->in + (size_t)i * p->size, p->size, (unsigned)p->peer + 1))
            return fprintf(stderr, "mad_perf: rank %d received wrong data in a window of messages of %zu bytes\n", p->rank,
                           p->size),
                   -1;
    return 0;
}

static int size_run(rate_t *r, size_t size)
{
    perf_t *p = r->p;
    bench_stats_t us;
    char extra[192];
    int rc;
    p->size = size;
    if (r->form == FORM_BLOCKING && r->sends && r->takes && size > BLOCKING_MAX)
        return fprintf(stderr, "mad_perf: --form blocking: at most %d bytes where both sides send\n", BLOCKING_MAX), -1;
    r->in = malloc(WINDOW * size + 1);
    if (!r->in)
        return fprintf(stderr, "mad_perf: no memory for a window of messages of %zu bytes\n", size), -1;
    rc = verify(r);
    if (!rc)
        rc = bench_measure(&p->options, size, WINDOW, body, r, p->first ? &us : NULL);
    free(r->in);
    if (rc || !p->first)
        return rc;
    snprintf(extra, sizeof extra,
             "\"form\": \"%s\", \"receive\": \"%s\", \"ways\": %d, \"window\": %d, \"messages_per_s_best\": %.0f",
             form_names[r->form], receive_names[r->receive], r->sends && r->takes ? 2 : 1, WINDOW, 1e6 / us.best);
    return perf_print(p, perf_rate.name, us, (double)size / us.best, extra);
}

static int name_find(const char *option, const char *text, const char *const *names, int n)
{
    for (int i = 0; i < n && text; i++)
        if (!strcmp(text, names[i]))
            return i;
    return text ? fprintf(stderr, "mad_perf: --%s %s: no such one (see --help)\n", option, text), -1 : 0;
}

static int run(perf_t *p)
{
    static const char *const ways[] = {"one", "both"};
    const bench_options_t *o = &p->options;
    int both = name_find("ways", o->ways, ways, 2), rc = 0;
    rate_t r = {.p = p,
                .form = name_find("form", o->form, form_names, FORMS),
                .receive = name_find("receive", o->receive, receive_names, RECEIVES)};
    mad_status_t status;
    if (both < 0 || r.form < 0 || r.receive < 0)
        return -1;
    r.sends = both || p->first || p->peer == p->rank;
    r.takes = both || !p->first || p->peer == p->rank;
    status = mad_channel_open(p->session, "mad_perf rate", &r.behind);
    if (status)
        return perf_failed("mad_channel_open", status);
    for (int i = 0; i < o->n_sizes && !rc && perf_in_pair(p); i++)
        rc = size_run(&r, o->sizes[i]);
    return rc;
}

const perf_test_t perf_rate = {"rate", "windows of 64 small messages, in each form of sending and receiving", "8",
                               .run = run, .forms = true};
