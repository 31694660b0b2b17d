/* SPDX-License-Identifier: BSD-3-Clause */
/* The overlap that the host allows: like mad_perf overlap, but with a socket over loopback and a thread.  The thread sleeps
 * on the other processor, where the peer is.  The thread is woken with the message to move, and moves the message while its
 * program computes.  Without computing, the program itself moves the message, spinning. */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "../overlap.h"
#include "pair.h"
#include "tcp_pair.h"

enum order { NOTHING, SEND, RECEIVE, FAILED };

typedef struct side {
    pair_t pair;
    int fd, cpu;
    atomic_int order; /* order to the thread; a futex */
} side_t;

/* Move all bytes.  sleeps: wait in poll if the socket is not ready; else spin. */
static int move_all(const side_t *side, bool out, bool sleeps)
{
    char *at = out ? side->pair.send : side->pair.receive;
    struct pollfd ready = {.fd = side->fd, .events = out ? POLLOUT : POLLIN};
    for (size_t left = side->pair.size; left;) {
        ssize_t n = out ? send(side->fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(side->fd, at, left, MSG_DONTWAIT);
        if (n > 0)
            at += n, left -= (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return -1;
        else if (sleeps)
            poll(&ready, 1, -1);
    }
    return 0;
}

static int byte_move(const side_t *side, bool out, bool sleeps)
{
    char byte = 0;
    side_t one = {.pair = {.size = 1, .send = &byte, .receive = &byte}, .fd = side->fd};
    return move_all(&one, out, sleeps);
}

static void order_wait(side_t *side)
{
    while (atomic_load(&side->order) == NOTHING)
        syscall(SYS_futex, &side->order, FUTEX_WAIT_PRIVATE, NOTHING, NULL, NULL, 0);
}

static void *helper(void *arg)
{
    side_t *side = arg;
    int rc = bench_pin(side->cpu);
    while (!rc) {
        order_wait(side);
        rc = move_all(side, atomic_load(&side->order) == SEND, true);
        atomic_store(&side->order, rc ? FAILED : NOTHING);
    }
    atomic_store(&side->order, FAILED);
    return NULL;
}

static int busy_round(void *arg, bool sends, uint64_t steps, overlap_time_t *time)
{
    side_t *side = arg;
    int order;
    if (byte_move(side, true, false) || byte_move(side, false, false))
        return -1;
    uint64_t begun = bench_now();
    if (steps) {
        atomic_store(&side->order, sends ? SEND : RECEIVE);
        syscall(SYS_futex, &side->order, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    uint64_t begun_aside = bench_now(), ends;
    time->begin_us = overlap_us_since(begun);
    if (!sends && byte_move(side, true, false))
        return -1;
    begun += bench_now() - begun_aside;
    overlap_compute(steps);
    ends = bench_now();
    if (!steps && move_all(side, sends, false))
        return -1;
    while ((order = atomic_load(&side->order)) != NOTHING && order != FAILED)
        ;
    time->end_us = overlap_us_since(ends);
    time->us = overlap_us_since(begun);
    return order == FAILED ? -1 : 0;
}

/* Run one round of the peer, which only waits. */
static int idle_round(const side_t *side, bool sends)
{
    if (byte_move(side, false, true) || byte_move(side, true, true))
        return -1;
    return (sends && byte_move(side, false, true)) || move_all(side, sends, true) ? -1 : 0;
}

static int way_run(side_t *side, bench_options_t *o, bool sends)
{
    overlap_t rows[OVERLAP_LENGTHS];
    bench_options_t once = *o;
    int rc = 0;
    for (int i = 0; !side->pair.first && i < overlap_rounds(o) && !rc; i++)
        rc = idle_round(side, !sends);
    if (!side->pair.first)
        return rc;
    rc = overlap_measure(o, sends, busy_round, side, rows);
    once.iterations = 1;
    for (int i = 0; i < OVERLAP_LENGTHS && !rc; i++)
        bench_row_print(&once, &(bench_row_t){.who = side->pair.who,
                                              .test = "overlap",
                                              .size = side->pair.size,
                                              .us = rows[i].us,
                                              .iterations = bench_batches(&once, side->pair.size),
                                              .bytes_per_us = (double)side->pair.size / rows[i].us.best,
                                              .extra = rows[i].extra});
    return rc;
}

int main(int argc, char **argv)
{
    bench_options_t o;
    pthread_t thread;
    int fds[2], rc = 0;
    if (bench_options_parse(&o, argc, argv, 1, "1M"))
        return 2;
    if (o.help) {
        puts("raw_overlap [--sizes LIST] [--cpus A,B] [--batches N] [--json]: one thread moves, one computes");
        return 0;
    }
    if (tcp_pair(fds))
        return perror("raw_overlap"), 1;
    pid_t child = pair_fork(&o, fds);
    if (child < 0)
        return 1;
    side_t side = {.pair = {.who = "raw_overlap", .first = child != 0}, .fd = fds[child ? 0 : 1], .cpu = o.cpus[1]};
    rc = pair_buffers(&side.pair, &o) || (child && pthread_create(&thread, NULL, helper, &side));
    for (int i = 0; i < o.n_sizes && !rc; i++) {
        side.pair.size = o.sizes[i];
        rc = way_run(&side, &o, true) || way_run(&side, &o, false);
    }
    close(side.fd);
    return pair_end(child, rc);
}
