/* SPDX-License-Identifier: BSD-3-Clause */
/* Common parts of the ping-pongs of raw interfaces and peers: two processes bound to two processors, their buffers, the
 * round trips, the sizes one after another.  A program only provides how a message is sent and received. */
#ifndef BENCH_RAW_PAIR_H
#define BENCH_RAW_PAIR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../engine.h"

/* One side.  A program with further state makes this the first member of a structure of its own. */
typedef struct pair {
    const char *who;    /* member "who" of the results */
    const char *driver; /* member "driver" of the results, or NULL */
    bool first;         /* true: this side sends first, times and prints */
    size_t size;        /* size of the current messages */
    char *send, *receive;
} pair_t;

typedef int (*pair_move_t)(pair_t *pair); /* move one message; return 0, or the code that ends the measurement */

/* Do n round trips.  Inlined, so that send and receive are called as if written here. */
__attribute__((always_inline)) static inline int pair_turns(pair_t *pair, int n, pair_move_t send, pair_move_t receive)
{
    for (int i = 0; i < n; i++) {
        if (pair->first && send(pair))
            return -1;
        if (receive(pair))
            return -1;
        if (!pair->first && send(pair))
            return -1;
    }
    return 0;
}

#define PAIR_WINDOW 16 /* number of messages per window, as in mad_perf */

/* Send n windows of messages one way; the second process answers each. */
__attribute__((always_inline)) static inline int pair_windows(pair_t *pair, int n, pair_move_t send, pair_move_t receive,
                                                              pair_move_t answer)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < PAIR_WINDOW; k++)
            if (pair->first ? send(pair) : receive(pair))
                return -1;
        if (answer(pair))
            return -1;
    }
    return 0;
}

/* Return the largest size, at least 1. */
static inline size_t pair_most(const bench_options_t *o)
{
    size_t most = 1;
    for (int i = 0; i < o->n_sizes; i++)
        most = o->sizes[i] > most ? o->sizes[i] : most;
    return most;
}

/* Fork the second process, and bind each to its processor.  Of the two descriptors (NULL: none) the first process keeps
 * fds[0], the second fds[1].  Returns like fork; -1 after a line on stderr. */
static inline pid_t pair_fork(const bench_options_t *o, const int *fds)
{
    pid_t child = fork();
    if (child < 0)
        return perror("fork"), -1;
    if (fds)
        close(fds[child ? 1 : 0]);
    if (bench_pin(o->cpus[child ? 0 : 1])) {
        perror("pin");
        if (!child)
            _exit(1);
        return -1;
    }
    return child;
}

/* Wait for the second process (child, in the first), and return the exit code of both. */
static inline int pair_end(pid_t child, int rc)
{
    int status = 0;
    if (child)
        waitpid(child, &status, 0);
    return rc || status ? 1 : 0;
}

/* Allocate buffers with malloc, and touch them. 0 or -1 after a line on stderr. */
static inline int pair_buffers(pair_t *pair, const bench_options_t *o)
{
    size_t most = pair_most(o);
    pair->send = malloc(most);
    pair->receive = malloc(most);
    if (!pair->send || !pair->receive)
        return perror(pair->who), -1;
    bench_fill(pair->send, most, 7);
    memset(pair->receive, 0, most);
    return 0;
}

/* Measure every size; body(arg, n) does n round trips, or (stream) n windows.  0 or -1 after a line on stderr. */
static inline int pair_test(pair_t *pair, const bench_options_t *o, bool stream, bench_body_t body, void *arg)
{
    for (int i = 0; i < o->n_sizes; i++) {
        bench_stats_t us;
        size_t size = pair->size = o->sizes[i];
        if (bench_measure(o, size, stream ? PAIR_WINDOW : 2, body, arg, pair->first ? &us : NULL))
            return fprintf(stderr, "%s: a transfer of %zu bytes failed\n", pair->who, size), -1;
        if (!(stream && pair->first) && !bench_check(pair->receive, size, 7))
            return fprintf(stderr, "%s: wrong data at %zu bytes\n", pair->who, size), -1;
        if (pair->first)
            bench_row_print(o, &(bench_row_t){.who = pair->who,
                                              .test = stream ? "bandwidth" : "pingpong",
                                              .driver = pair->driver,
                                              .size = size,
                                              .us = us,
                                              .bytes_per_us = (double)size / us.best,
                                              .iterations = (long)bench_iterations(o, size) * bench_batches(o, size)});
    }
    return 0;
}

/* Measure the ping-pong of every size. */
static inline int pair_sizes(pair_t *pair, const bench_options_t *o, bench_body_t body, void *arg)
{
    return pair_test(pair, o, false, body, arg);
}

/* Remove an option that the engine does not know from the command line, and return the option's value, or `value` if the
 * option is not there. */
static inline const char *pair_option(int *argc, char **argv, const char *name, const char *value)
{
    for (int i = 1; i + 1 < *argc; i++)
        if (!strcmp(argv[i], name)) {
            value = argv[i + 1];
            memmove(argv + i, argv + i + 2, (size_t)(*argc - i - 1) * sizeof *argv);
            *argc -= 2;
            break;
        }
    return value;
}

#endif
