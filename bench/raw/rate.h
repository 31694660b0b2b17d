/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of 64 small messages of a pair, like mad_perf's rate: times are per message of one direction.  A window
 * begins when its receiver has sent a mark, so that its receives are posted by then.  Unexpected: the sender sends a
 * mark after the window, and its receiver opens no message before that has arrived.  Both ways: each side sends a
 * window and receives one. */
#ifndef BENCH_RAW_RATE_H
#define BENCH_RAW_RATE_H

#include "pair.h"

#define RATE_WINDOW 64
#define RATE_BLOCKING_MAX 512 /* bytes: a window of these can be sent completely while its receiver sends too */

typedef enum { RATE_REQUEST, RATE_BLOCKING, RATE_CALLBACK, RATE_FORMS } rate_form_t;
typedef enum { RATE_OPEN, RATE_POSTED, RATE_UNEXPECTED, RATE_RECEIVES } rate_receive_t;

/* The moves that a program provides; i is the number of the message in its window. 0, or the code that ends the
 * measurement. */
typedef struct rate_moves {
    int (*send)(pair_t *pair);              /* send one message, and return when the buffer is free */
    int (*receive)(pair_t *pair);           /* receive one message, and return when it has arrived */
    int (*send_start)(pair_t *pair, int i); /* send by request, or with a callback */
    int (*send_wait)(pair_t *pair, int i);
    int (*callbacks_wait)(pair_t *pair, int n); /* wait until n callbacks have run; NULL: there are no callbacks */
    int (*post)(pair_t *pair, int i);
    int (*post_wait)(pair_t *pair, int i);
    int (*mark_send)(pair_t *pair); /* send one byte, which overtakes no message */
    int (*mark_receive)(pair_t *pair);
} rate_moves_t;

typedef struct rate {
    pair_t *pair;
    const rate_moves_t *moves;
    rate_form_t form;
    rate_receive_t receive;
    bool sends, takes;
    const char *test; /* member "test" of the results; NULL: "rate" */
} rate_t;

static inline int rate_window_send(const rate_t *r)
{
    int rc = 0;
    for (int i = 0; i < RATE_WINDOW && !rc; i++)
        rc = r->form == RATE_BLOCKING ? r->moves->send(r->pair) : r->moves->send_start(r->pair, i);
    return rc || r->receive != RATE_UNEXPECTED ? rc : r->moves->mark_send(r->pair);
}

static inline int rate_window_sent(const rate_t *r)
{
    int rc = 0;
    if (r->form == RATE_CALLBACK)
        return r->moves->callbacks_wait(r->pair, RATE_WINDOW);
    for (int i = 0; i < RATE_WINDOW && !rc && r->form == RATE_REQUEST; i++)
        rc = r->moves->send_wait(r->pair, i);
    return rc;
}

static inline int rate_window_post(const rate_t *r)
{
    int rc = 0;
    for (int i = 0; i < RATE_WINDOW && !rc && r->receive == RATE_POSTED; i++)
        rc = r->moves->post(r->pair, i);
    return rc;
}

static inline int rate_window_take(const rate_t *r)
{
    int rc = r->receive == RATE_UNEXPECTED ? r->moves->mark_receive(r->pair) : 0;
    for (int i = 0; i < RATE_WINDOW && !rc; i++)
        rc = r->receive == RATE_POSTED ? r->moves->post_wait(r->pair, i) : r->moves->receive(r->pair);
    return rc;
}

static inline int rate_body(void *arg, int n)
{
    const rate_t *r = arg;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        rc = r->takes ? rate_window_post(r) : 0;
        if (!rc && r->takes)
            rc = r->moves->mark_send(r->pair);
        if (!rc && r->sends)
            rc = r->moves->mark_receive(r->pair);
        if (!rc && r->sends)
            rc = rate_window_send(r);
        if (!rc && r->takes)
            rc = rate_window_take(r);
        if (!rc && r->sends)
            rc = rate_window_sent(r);
    }
    return rc;
}

static inline int rate_name(const char *name, const char *const *names, int n)
{
    int i = 0;
    while (i < n && strcmp(names[i], name))
        i++;
    return i;
}

/* Take --form request|blocking|callback, --receive open|posted|unexpected and --ways one|both out of the command line.
 * 0, or -1 after a line on stderr. */
static inline int rate_options(rate_t *r, int *argc, char **argv)
{
    static const char *const forms[] = {"request", "blocking", "callback"};
    static const char *const receives[] = {"open", "posted", "unexpected"};
    const char *ways;
    r->form = rate_name(pair_option(argc, argv, "--form", "request"), forms, RATE_FORMS);
    r->receive = rate_name(pair_option(argc, argv, "--receive", "open"), receives, RATE_RECEIVES);
    ways = pair_option(argc, argv, "--ways", "one");
    r->sends = r->takes = !strcmp(ways, "both");
    return r->form < RATE_FORMS && r->receive < RATE_RECEIVES ? 0 : (fputs("no such --form or --receive\n", stderr), -1);
}

/* Measure every size.  0 or -1 after a line on stderr. */
static inline int rate_test(rate_t *r, const bench_options_t *o)
{
    pair_t *pair = r->pair;
    char extra[64];
    bool both = r->sends;
    r->sends = both || pair->first;
    r->takes = both || !pair->first;
    for (int i = 0; i < o->n_sizes; i++) {
        bench_stats_t us;
        pair->size = o->sizes[i];
        if (r->form == RATE_BLOCKING && both && pair->size > RATE_BLOCKING_MAX)
            return fprintf(stderr, "%s: --form blocking: at most %d bytes where both sides send\n", pair->who,
                           RATE_BLOCKING_MAX),
                   -1;
        if ((r->form == RATE_CALLBACK && !r->moves->callbacks_wait) ||
            bench_measure(o, pair->size, RATE_WINDOW, rate_body, r, pair->first ? &us : NULL))
            return fprintf(stderr, "%s: a window of %zu bytes failed\n", pair->who, pair->size), -1;
        if (r->takes && !bench_check(pair->receive, pair->size, 7))
            return fprintf(stderr, "%s: wrong data at %zu bytes\n", pair->who, pair->size), -1;
        if (!pair->first)
            continue;
        snprintf(extra, sizeof extra, "\"per_us_best\": %.4f", 1 / us.best);
        bench_row_print(o,
                        &(bench_row_t){.who = pair->who,
                                       .test = r->test ? r->test : "rate",
                                       .driver = pair->driver,
                                       .size = pair->size,
                                       .us = us,
                                       .bytes_per_us = (double)pair->size / us.best,
                                       .extra = extra,
                                       .iterations = (long)bench_iterations(o, pair->size) * bench_batches(o, pair->size)});
    }
    return 0;
}

/* Measure every form that has no callbacks, one after another: starting some programs takes longer than a form.  0 or -1
 * after a line on stderr. */
static inline int rate_test_forms(rate_t *r, const bench_options_t *o)
{
    static const struct {
        const char *name;
        rate_form_t form;
        rate_receive_t receive;
        bool both;
    } forms[] = {{"blocking", RATE_BLOCKING, RATE_OPEN, false},
                 {"request", RATE_REQUEST, RATE_OPEN, false},
                 {"posted", RATE_REQUEST, RATE_POSTED, false},
                 {"unexpected", RATE_REQUEST, RATE_UNEXPECTED, false},
                 {"both", RATE_REQUEST, RATE_POSTED, true}};
    int rc = 0;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !rc; i++) {
        r->test = forms[i].name;
        r->form = forms[i].form;
        r->receive = forms[i].receive;
        r->sends = r->takes = forms[i].both;
        rc = rate_test(r, o);
    }
    return rc;
}

#endif
