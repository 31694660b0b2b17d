/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes, each with a device: declarations that the cases share. */
#ifndef DEVICE_PAIR_H
#define DEVICE_PAIR_H

#include "harness/test.h"
#include "mpi/device/device.h"

#include <sched.h>
#include <stdint.h>

typedef struct side {
    mad_dev_t *dev;
    mad_peer_t peer, self;
    int who; /* number of this process: 0 or 1 */
    int fd;  /* socket to the other process, for barriers */
    bool threaded;
} side_t;

/* Result of an operation; passed as the operation's context. */
typedef struct result {
    atomic_int n;     /* number of reports */
    atomic_bool over; /* true: the operation is over; set by the report with `released` */
    mad_dev_done_t done;
    atomic_size_t bytes; /* number of bytes of all completions */
} result_t;

static inline unsigned char byte_at(uint64_t tag, size_t i)
{
    return (unsigned char)((tag * 31 + i) * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

static inline void fill(unsigned char *p, size_t n, uint64_t tag)
{
    for (size_t i = 0; i < n; i++)
        p[i] = byte_at(tag, i);
}

static inline bool is_filled(const unsigned char *p, size_t n, uint64_t tag)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != byte_at(tag, i))
            return false;
    return true;
}

/* Wait for a result without a limit; the test's deadline ends the wait. */
static inline void wait_for(side_t *s, result_t *r)
{
    while (!atomic_load(&r->over))
        if (!mad_dev_progress(s->dev))
            sched_yield();
}

static inline void post(side_t *s, mad_peer_t from, uint64_t tag, uint64_t ignore, void *buf, size_t len, result_t *r)
{
    struct iovec piece = {buf, len};
    mad_dev_receive_t receive = {.from = from, .pieces = &piece, .n = 1, .tag = tag, .ignore = ignore, .context = r};
    *r = (result_t){.n = 0};
    CHECK_OK(mad_dev_receive(s->dev, &receive));
}

/* Send; the result is complete at once if no completion is reported. */
static inline void send_as(side_t *s, mad_dev_send_t what, result_t *r)
{
    bool later;
    mad_status_t status;
    *r = (result_t){.n = 0};
    what.context = r;
    while ((status = mad_dev_send(s->dev, &what, &later)) == MAD_ERR_AGAIN)
        mad_dev_progress(s->dev);
    if (CHECK_OK(status) && !later)
        atomic_store(&r->over, true);
}

static inline void send_to(side_t *s, mad_peer_t to, uint64_t tag, void *buf, size_t len, result_t *r)
{
    struct iovec piece = {buf, len};
    send_as(s, (mad_dev_send_t){.to = to, .pieces = &piece, .n = 1, .tag = tag}, r);
}

/* Barrier of both processes, which make progress meanwhile. */
void meet(side_t *s);
/* Wait until an unmatched message that fits this source and tag has arrived. */
void until_there(side_t *s, mad_peer_t from, uint64_t tag, mad_dev_done_t *found);

/* device_flood.c */
void device_flood(side_t *s);
void device_after_flood(side_t *s);

typedef struct device_case {
    const char *name;
    void (*run)(side_t *s);
} device_case_t;
extern const device_case_t device_cases[], device_remote_cases[];

/* Memory of the other process: a megabyte from address 0, of key 9. */
extern const mad_dev_memory_t device_memory;
/* For ThreadSanitizer: earlier accesses have ended, and others may begin.  The two sides order their accesses through a
 * pipe, which ThreadSanitizer does not see. */
void device_memory_order(void);
/* Make the access `what`, from or into buf. */
void access_to(side_t *s, mad_dev_remote_t what, uint64_t address, uint64_t key, void *buf, size_t len, result_t *r);

#endif
