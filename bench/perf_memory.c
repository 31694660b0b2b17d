/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: one operation at a time on a block of the other process, which waits in the library.  The time is that of
 * the whole operation, until it is known to be done. */
#include "perf.h"

#include <madeleine/memory.h>
#include <stdio.h>

typedef enum operation { PUT, GET, FETCH_ADD, PUT_BACK } operation_t;

static struct remote {
    operation_t operation;
    mad_memory_t *memory; /* this process's block */
    mad_memory_key_t key; /* of the other process's block */
    uint64_t number;      /* number that the processes write to each other; at the end of a batch it is equal in both */
} remote;

static mad_status_t operation_run(perf_t *p)
{
    uint64_t before;
    switch (remote.operation) {
    case PUT: return mad_memory_put(p->session, p->peer, &remote.key, 0, p->send, p->size, NULL);
    case GET: return mad_memory_get(p->session, p->peer, &remote.key, 0, p->receive, p->size, NULL);
    default: return mad_memory_fetch_add(p->session, p->peer, &remote.key, 0, 1, &before, NULL);
    }
}

static mad_status_t number_put(perf_t *p)
{
    return mad_memory_put(p->session, p->peer, &remote.key, 0, &remote.number, sizeof remote.number, NULL);
}

/* Wait until the other process has written the number into this one's block.  Where messages carry the put, it arrives only
 * while this process is in the library. */
static void number_await(perf_t *p)
{
    const uint64_t *word = mad_memory_base(remote.memory);
    for (unsigned i = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) != remote.number; i++)
        if (i % 1024 == 0)
            mad_progress(p->session);
}

/* Write a number into the other process's block, which answers in the same way: a ping-pong without messages. */
static int put_back_body(void *perf, int n)
{
    perf_t *p = perf;
    mad_status_t status = MAD_OK;
    for (int i = 0; i < n && !status; i++) {
        remote.number++;
        if (p->first)
            status = number_put(p);
        if (!status)
            number_await(p);
        if (!p->first)
            status = number_put(p);
    }
    return status ? perf_failed("mad_memory_put", status) : 0;
}

/* Run n operations.  The other process waits for an empty message at their end, and serves them meanwhile. */
static int body(void *perf, int n)
{
    perf_t *p = perf;
    mad_status_t status = MAD_OK;
    if (!p->first)
        return perf_receive(p, p->peer, NULL, 0);
    for (int i = 0; i < n && !status; i++)
        status = operation_run(p);
    if (status)
        return perf_failed("operation", status);
    return p->peer == p->rank ? 0 : perf_send(p, p->peer, NULL, 0);
}

/* Write the bytes, and read them back. */
static int size_verify(perf_t *p)
{
    mad_status_t status;
    if (!p->first)
        return 0;
    bench_fill(p->send, p->size, (unsigned)p->size);
    bench_fill(p->receive, p->size, 1);
    status = mad_memory_put(p->session, p->peer, &remote.key, 0, p->send, p->size, NULL);
    if (!status)
        status = mad_memory_get(p->session, p->peer, &remote.key, 0, p->receive, p->size, NULL);
    if (status)
        return perf_failed("operation", status);
    if (!bench_check(p->receive, p->size, (unsigned)p->size))
        return fprintf(stderr, "mad_perf: wrong data in an operation of %zu bytes\n", p->size), -1;
    return 0;
}

static int size_run(perf_t *p, const char *test)
{
    bench_stats_t us;
    bool back = remote.operation == PUT_BACK;
    if ((!back && size_verify(p)) || perf_barrier(p) ||
        bench_measure(&p->options, p->size, back ? 2 : 1, back ? put_back_body : body, p, p->first ? &us : NULL))
        return -1;
    return p->first ? perf_print(p, test, us, (double)p->size / us.best, NULL) : 0;
}

/* Exchange the keys of the two blocks. */
static int keys_exchange(perf_t *p)
{
    mad_request_t *request;
    mad_memory_key_t key;
    int rc;
    mad_memory_key(remote.memory, &key);
    rc = perf_send_start(p, p->peer, &key, sizeof key, &request);
    if (!rc)
        rc = perf_receive(p, p->peer, &remote.key, sizeof remote.key);
    return rc ? rc : perf_wait(&request);
}

static int run(perf_t *p, operation_t operation, const char *test)
{
    size_t longest = 8;
    int rc;
    if (p->ranks > 2)
        return fprintf(stderr, "mad_perf: %s is for two processes\n", test), -1;
    for (int i = 0; i < p->options.n_sizes; i++) {
        longest = p->options.sizes[i] > longest ? p->options.sizes[i] : longest;
        if ((operation == FETCH_ADD || operation == PUT_BACK) && p->options.sizes[i] != 8)
            return fprintf(stderr, "mad_perf: %s is for 8 bytes: --sizes 8\n", test), -1;
    }
    remote.operation = operation;
    mad_status_t status =
        mad_memory_alloc(p->session, longest, MAD_MEMORY_READ | MAD_MEMORY_WRITE | MAD_MEMORY_ATOMIC, &remote.memory);
    if (status)
        return perf_failed("mad_memory_alloc", status);
    rc = keys_exchange(p);
    for (int i = 0; i < p->options.n_sizes && !rc; i++) {
        p->size = p->options.sizes[i];
        rc = size_run(p, test);
    }
    rc = rc ? rc : perf_barrier(p);
    mad_memory_unregister(remote.memory, MAD_FOREVER);
    return rc;
}

static int put_run(perf_t *p)
{
    return run(p, PUT, perf_put.name);
}

static int get_run(perf_t *p)
{
    return run(p, GET, perf_get.name);
}

static int fetch_add_run(perf_t *p)
{
    return run(p, FETCH_ADD, perf_fetch_add.name);
}

static int put_back_run(perf_t *p)
{
    if (p->peer == p->rank)
        return fprintf(stderr, "mad_perf: put_back is for two processes\n"), -1;
    return run(p, PUT_BACK, perf_put_back.name);
}

const perf_test_t perf_put = {"put", "remote memory, written", "8,1K,64K,1M,4M", .run = put_run};
const perf_test_t perf_get = {"get", "remote memory, read", "8,1K,64K,1M,4M", .run = get_run};
const perf_test_t perf_fetch_add = {"fetch_add", "remote memory, 8 bytes added to", "8", .run = fetch_add_run};
const perf_test_t perf_put_back = {"put_back", "remote memory, written there and back", "8", .run = put_back_run};
