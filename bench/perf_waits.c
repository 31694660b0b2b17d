/* SPDX-License-Identifier: BSD-3-Clause */
/* The ping-pong of a program whose messages go to a handler.  The program waits until the handler has run: in the
 * library (mad_cond_wait), or outside, in poll on a descriptor that the handler writes to, while the progress thread
 * runs the handler. */
#include "perf.h"

#include <errno.h>
#include <madeleine/runtime.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct waits {
    mad_channel_t *channel;
    mad_cond_t *cond; /* NULL: wait outside the library */
    int fd;
    atomic_size_t size; /* size of the messages */
    atomic_int come;
    int taken;
} waits;

static void block_came(void *arg, mad_status_t status)
{
    uint64_t one = 1;
    (void)arg;
    if (status)
        perf_failed("receive", status);
    atomic_fetch_add(&waits.come, 1);
    if (waits.cond)
        mad_cond_wake(waits.cond);
    else if (write(waits.fd, &one, sizeof one) < 0)
        perror("write");
}

static mad_handled_t message_came(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    perf_t *p = arg;
    mad_request_t *request;
    mad_status_t status;
    (void)channel;
    mad_unpack(message, p->receive, atomic_load(&waits.size), p->send_mode, p->receive_mode);
    status = mad_end_unpacking_request(message, &request);
    if (status || !request)
        block_came(NULL, status);
    else
        mad_request_detach(request, block_came, NULL);
    return MAD_PARKED; /* the handler has ended the message already, so the library must not */
}

static int has_come(void *arg)
{
    (void)arg;
    return atomic_load(&waits.come) > waits.taken;
}

static int message_wait(void)
{
    struct pollfd p = {.fd = waits.fd, .events = POLLIN};
    uint64_t value;
    if (waits.cond) {
        mad_cond_wait(waits.cond, has_come, NULL, MAD_FOREVER);
    } else {
        mad_progress_hand_over();
        while (poll(&p, 1, -1) < 0 && errno == EINTR)
            ;
        if (read(waits.fd, &value, sizeof value) < 0)
            return perror("read"), -1;
    }
    waits.taken++;
    return 0;
}

static int message_send(perf_t *p)
{
    mad_block_t block = {p->send, p->size, p->send_mode, p->receive_mode};
    mad_status_t status = mad_message_send(waits.channel, p->peer, &block, 1, NULL);
    return status ? perf_failed("send", status) : 0;
}

static int body(void *perf, int n)
{
    perf_t *p = perf;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        if (p->first)
            rc = message_send(p);
        if (!rc)
            rc = message_wait();
        if (!p->first && !rc)
            rc = message_send(p);
    }
    return rc;
}

static int size_run(perf_t *p, const char *test)
{
    bench_stats_t us;
    memset(p->receive, 0, p->size);
    bench_fill(p->send, p->size, (unsigned)p->rank + 1);
    if (perf_barrier(p) || bench_measure(&p->options, p->size, 2, body, p, p->first ? &us : NULL))
        return -1;
    if (!bench_check(p->receive, p->size, (unsigned)p->peer + 1))
        return fprintf(stderr, "mad_perf: rank %d received wrong data in a message of %zu bytes\n", p->rank, p->size), -1;
    return p->first ? perf_print(p, test, us, (double)p->size / us.best, NULL) : 0;
}

static int run(perf_t *p, const char *test, bool outside)
{
    int rc = p->ranks == 2 ? 0 : -1;
    if (rc)
        return fprintf(stderr, "mad_perf: %s is for two processes\n", test), -1;
    waits = (struct waits){.cond = outside ? NULL : mad_cond_new(), .fd = eventfd(0, EFD_CLOEXEC)};
    if (waits.fd < 0 || (!outside && !waits.cond))
        return perror("mad_perf"), -1;
    mad_status_t status = mad_channel_open(p->session, test, &waits.channel);
    if (status)
        return perf_failed("mad_channel_open", status);
    mad_channel_handler_set(waits.channel, message_came, p);
    for (int i = 0; i < p->options.n_sizes && !rc; i++) {
        p->size = p->options.sizes[i];
        atomic_store(&waits.size, p->size);
        rc = size_run(p, test);
    }
    rc = rc ? rc : perf_barrier(p);
    mad_channel_close(waits.channel);
    mad_cond_free(waits.cond);
    close(waits.fd);
    return rc;
}

static int cond_run(perf_t *p)
{
    return run(p, perf_cond.name, false);
}

static int outside_run(perf_t *p)
{
    return run(p, perf_outside.name, true);
}

const perf_test_t perf_cond = {"cond", "pingpong by handlers, waited for in the library", "8,64K,1M,16M", .run = cond_run};
const perf_test_t perf_outside = {"outside", "pingpong by handlers, waited for in poll", "8,64K,1M,16M", .run = outside_run};
