/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf.h"

#include <stdio.h>
#include <string.h>

int perf_failed(const char *call, mad_status_t status)
{
    fprintf(stderr, "mad_perf: %s: %s\n", call, mad_status_text(status));
    return -1;
}

/* ---- Messages ------------------------------------------------------------------------------------------------- */

int perf_send(perf_t *p, int peer, const void *buf, size_t len)
{
    mad_message_t *message = mad_begin_packing(p->channel, peer);
    mad_pack(message, buf, len, p->send_mode, p->receive_mode);
    mad_status_t status = mad_end_packing(message);
    return status ? perf_failed("send", status) : 0;
}

int perf_receive(perf_t *p, int peer, void *buf, size_t len)
{
    mad_message_t *message =
        peer == MAD_ANY_SOURCE ? mad_begin_unpacking(p->channel) : mad_begin_unpacking_from(p->channel, peer);
    mad_unpack(message, buf, len, p->send_mode, p->receive_mode);
    mad_status_t status = mad_end_unpacking(message);
    return status ? perf_failed("receive", status) : 0;
}

int perf_send_start(perf_t *p, int peer, const void *buf, size_t len, mad_request_t **request)
{
    *request = NULL;
    mad_message_t *message = mad_begin_packing(p->channel, peer);
    mad_pack(message, buf, len, p->send_mode, p->receive_mode);
    mad_status_t status = mad_end_packing_request(message, request);
    return status ? perf_failed("send", status) : 0;
}

int perf_wait(mad_request_t **request)
{
    if (!*request)
        return 0;
    mad_status_t status = mad_request_wait(request, MAD_FOREVER);
    return status ? perf_failed("wait", status) : 0;
}

/* ---- Bodies --------------------------------------------------------------------------------------------------- */

int perf_pingpong_body(void *perf, int n)
{
    perf_t *p = perf;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        if (p->first)
            rc = perf_send(p, p->peer, p->send, p->size);
        if (!rc)
            rc = perf_receive(p, p->peer, p->receive, p->size);
        if (!p->first && !rc)
            rc = perf_send(p, p->peer, p->send, p->size);
    }
    return rc;
}

/* A process that is its own peer could wait in end_packing for itself: so start, receive, then wait. */
int perf_self_body(void *perf, int n)
{
    perf_t *p = perf;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        mad_request_t *request;
        rc = perf_send_start(p, p->peer, p->send, p->size, &request);
        if (!rc)
            rc = perf_receive(p, p->peer, p->receive, p->size);
        if (!rc)
            rc = perf_wait(&request);
    }
    return rc;
}

static int window_start(perf_t *p, int peer, mad_request_t **requests)
{
    int rc = 0;
    for (int w = 0; w < p->window && !rc; w++)
        rc = perf_send_start(p, peer, p->send, p->size, &requests[w]);
    return rc;
}

static int window_wait(perf_t *p, mad_request_t **requests)
{
    int rc = 0;
    for (int w = 0; w < p->window && !rc; w++)
        rc = perf_wait(&requests[w]);
    return rc;
}

int perf_receive_many(perf_t *p, int peer, int count)
{
    int rc = 0;
    for (int i = 0; i < count && !rc; i++)
        rc = perf_receive(p, peer, p->receive, p->size);
    return rc;
}

int perf_windows_send(perf_t *p, int peer, int n)
{
    mad_request_t *requests[PERF_WINDOW];
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        rc = window_start(p, peer, requests);
        if (!rc)
            rc = window_wait(p, requests);
        if (!rc)
            rc = perf_receive(p, peer, NULL, 0);
    }
    return rc;
}

int perf_timed_send(perf_t *p, int peer, int ms)
{
    enum { WINDOW = 8 };
    mad_request_t *requests[WINDOW] = {NULL};
    char *last = p->receive; /* the message that marks the end; this buffer has no other use */
    uint64_t end = bench_now() + (uint64_t)ms * 1000000;
    int rc = 0;
    p->send[0] = 0;
    last[0] = 1;
    for (int at = 0; !rc && bench_now() < end; at = (at + 1) % WINDOW) {
        rc = perf_wait(&requests[at]);
        if (!rc)
            rc = perf_send_start(p, peer, p->send, p->size, &requests[at]);
    }
    for (int at = 0; at < WINDOW && !rc; at++)
        rc = perf_wait(&requests[at]);
    return rc ? rc : perf_send(p, peer, last, p->size);
}

int perf_timed_receive(perf_t *p, int peer, int ms, long *came)
{
    uint64_t end = bench_now() + (uint64_t)ms * 1000000;
    for (*came = 0;;) {
        if (perf_receive(p, peer, p->receive, p->size))
            return -1;
        if (p->receive[0])
            return 0;
        *came += bench_now() < end;
    }
}

int perf_bidir_body(void *perf, int n)
{
    perf_t *p = perf;
    mad_request_t *requests[PERF_WINDOW];
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        rc = window_start(p, p->peer, requests);
        if (!rc)
            rc = perf_receive_many(p, p->peer, p->window);
        if (!rc)
            rc = window_wait(p, requests);
    }
    return rc;
}

/* ---- One size ------------------------------------------------------------------------------------------------- */

int perf_barrier(perf_t *p)
{
    mad_status_t status = mad_barrier(p->session);
    return status ? perf_failed("mad_barrier", status) : 0;
}

bool perf_in_pair(const perf_t *p)
{
    return p->rank < 2;
}

int perf_verify(perf_t *p)
{
    memset(p->receive, 0, p->size);
    bench_fill(p->send, p->size, (unsigned)p->rank + 1);
    int rc = p->peer == p->rank ? perf_self_body(p, 1) : perf_pingpong_body(p, 1);
    if (!rc && !bench_check(p->receive, p->size, (unsigned)p->peer + 1)) {
        fprintf(stderr, "mad_perf: rank %d received wrong data in a message of %zu bytes\n", p->rank, p->size);
        rc = -1;
    }
    return rc;
}

/* Return the driver that carries the messages to the peer; NULL: none. */
static const char *driver_used(const perf_t *p)
{
    int index;
    mad_adapter_info_t info;
    if (mad_peer_adapter(p->session, p->peer, &index) || mad_adapter_get(p->session, index, &info))
        return NULL;
    return info.driver;
}

/* Append "route": "a > g > b", "gateways": ["g"] to extra if there are gateways. */
static const char *route_add(const perf_t *p, const char *extra, char *buf, size_t len)
{
    char hosts[512], all[600] = "", between[600] = "", *rest, *host;
    if (mad_channel_route(p->channel, p->peer, hosts, sizeof hosts) || !hosts[0])
        return extra;
    for (host = strtok_r(hosts, " ", &rest); host;) {
        char *next = strtok_r(NULL, " ", &rest);
        size_t a = strlen(all), b = strlen(between);
        snprintf(all + a, sizeof all - a, "%s%s", a ? " > " : "", host);
        if (a && next)
            snprintf(between + b, sizeof between - b, "%s\"%s\"", b ? ", " : "", host);
        host = next;
    }
    snprintf(buf, len, "%s%s\"route\": \"%s\", \"gateways\": [%s]", extra ? extra : "", extra ? ", " : "", all, between);
    return buf;
}

int perf_print(perf_t *p, const char *test, bench_stats_t us, double bytes_per_us, const char *extra)
{
    const bench_options_t *o = &p->options;
    const char *used = driver_used(p);
    char with_route[1600];
    if (!used || (o->driver && strcmp(used, o->driver))) {
        char why[1024] = "no explanation";
        mad_peer_explain(p->session, p->peer, why, sizeof why);
        fprintf(stderr, "mad_perf: rank %d is not reached%s%s: %s\n", p->peer, o->driver ? " by --driver " : "",
                o->driver ? o->driver : "", why);
        return -1;
    }
    long iterations = (long)bench_iterations(o, p->size) * bench_batches(o, p->size);
    bench_row_print(o, &(bench_row_t){.test = test,
                                      .driver = used,
                                      .size = p->size,
                                      .us = us,
                                      .iterations = iterations,
                                      .bytes_per_us = bytes_per_us,
                                      .extra = route_add(p, extra, with_route, sizeof with_route)});
    return 0;
}

int perf_pingpong_size(perf_t *p, const char *test, const char *extra)
{
    bool alone = p->peer == p->rank;
    bench_stats_t us;
    if (perf_verify(p) || bench_measure(&p->options, p->size, alone ? 1 : 2, alone ? perf_self_body : perf_pingpong_body, p,
                                        p->first ? &us : NULL))
        return -1;
    return p->first ? perf_print(p, test, us, (double)p->size / us.best, extra) : 0;
}

int perf_stream_size(perf_t *p, const char *test, bench_body_t body, int messages)
{
    bench_stats_t us;
    char extra[96];
    if (bench_measure(&p->options, p->size, messages, body, p, p->first ? &us : NULL))
        return -1;
    if (!p->first)
        return 0;
    snprintf(extra, sizeof extra, "\"window\": %d, \"messages_per_s_best\": %.0f", p->window, 1e6 / us.best);
    return perf_print(p, test, us, (double)p->size / us.best, extra);
}
