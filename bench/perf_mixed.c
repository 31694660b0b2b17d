/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of many shapes: up to four blocks, with lengths drawn between 0 and size, small ones being likely, and with
 * changing modes.  Both sides draw the same numbers.  Times are per message, one way; the bandwidth counts the lengths
 * drawn. */
#include <stdio.h>
#include <string.h>

#include "perf.h"

#define BLOCKS 4
#define SHAPES 64

typedef struct shape {
    int n;
    size_t lengths[BLOCKS];
    mad_send_mode_t send_modes[BLOCKS];
    mad_receive_mode_t receive_modes[BLOCKS];
} shape_t;

typedef struct mixed {
    perf_t *p;
    shape_t shapes[SHAPES];
    int next;
    bool verify, wrong;
} mixed_t;

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static double shapes_draw(mixed_t *m, size_t size)
{
    uint64_t state = size;
    size_t sum = 0;
    for (int i = 0; i < SHAPES; i++) {
        shape_t *s = &m->shapes[i];
        s->n = 1 + (int)(draw(&state) % BLOCKS);
        for (int b = 0; b < s->n; b++) {
            size_t most = size / BLOCKS >> draw(&state) % 12;
            s->lengths[b] = draw(&state) % (most + 1);
            s->send_modes[b] = (mad_send_mode_t)(draw(&state) % 3);
            s->receive_modes[b] = (mad_receive_mode_t)(draw(&state) % 2);
            sum += s->lengths[b];
        }
    }
    return (double)sum / SHAPES;
}

static int shape_send(mixed_t *m, const shape_t *s, mad_request_t **request)
{
    perf_t *p = m->p;
    size_t at = 0;
    mad_message_t *message = mad_begin_packing(p->channel, p->peer);
    for (int b = 0; b < s->n; at += s->lengths[b++])
        mad_pack(message, p->send + at, s->lengths[b], s->send_modes[b], s->receive_modes[b]);
    mad_status_t status = request ? mad_end_packing_request(message, request) : mad_end_packing(message);
    return status ? perf_failed("send", status) : 0;
}

static int shape_receive(mixed_t *m, const shape_t *s)
{
    perf_t *p = m->p;
    size_t at = 0;
    mad_message_t *message = mad_begin_unpacking_from(p->channel, p->peer);
    for (int b = 0; b < s->n; at += s->lengths[b++])
        mad_unpack(message, p->receive + at, s->lengths[b], s->send_modes[b], s->receive_modes[b]);
    mad_status_t status = mad_end_unpacking(message);
    if (m->verify && !status && !bench_check(p->receive, at, 5))
        m->wrong = true;
    return status ? perf_failed("receive", status) : 0;
}

static int body(void *arg, int n)
{
    mixed_t *m = arg;
    bool alone = m->p->peer == m->p->rank, first = m->p->first;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++, m->next++) {
        const shape_t *s = &m->shapes[m->next % SHAPES];
        mad_request_t *request = NULL;
        if (first)
            rc = shape_send(m, s, alone ? &request : NULL);
        if (!rc)
            rc = shape_receive(m, s);
        if (!first && !rc)
            rc = shape_send(m, s, NULL);
        if (alone && !rc)
            rc = perf_wait(&request);
    }
    return rc;
}

static int size_run(perf_t *p, mixed_t *m)
{
    double mean = shapes_draw(m, p->size);
    bench_stats_t us;
    char extra[64];
    bench_fill(p->send, p->size, 5);
    m->verify = true;
    if (body(m, SHAPES))
        return -1;
    if (m->wrong)
        return fprintf(stderr, "mad_perf: wrong data in mixed messages of up to %zu bytes\n", p->size), -1;
    m->verify = false;
    if (bench_measure(&p->options, p->size, p->peer == p->rank ? 1 : 2, body, m, p->first ? &us : NULL))
        return -1;
    snprintf(extra, sizeof extra, "\"mean_size\": %.1f", mean);
    return p->first ? perf_print(p, perf_mixed.name, us, mean / us.best, extra) : 0;
}

static int run(perf_t *p)
{
    int rc = 0;
    mixed_t m = {.p = p};
    for (int i = 0; i < p->options.n_sizes && !rc && perf_in_pair(p); i++) {
        p->size = p->options.sizes[i];
        rc = size_run(p, &m);
    }
    return rc;
}

const perf_test_t perf_mixed = {"mixed", "messages of one to four blocks of mixed lengths and modes", "1K,64K,1M",
                                .run = run};
