/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues and counters: their entries, and the sleep of a thread until there is an entry. */
#include "ofi_calls.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

static void selective(void)
{
    uint64_t word = 1, in = 0;
    struct iovec piece = {&word, 8};
    struct fi_msg m = {.msg_iov = &piece, .iov_count = 1};
    struct fi_cq_tagged_entry entry;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_TABLE, FI_SELECTIVE_COMPLETION);
    m.addr = a.peer;
    CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    CHECK_INJECTED(fi_sendmsg(a.ep, &m, 0));
    while (fi_cntr_read(b.received) < 1)
        fi_cq_read(a.cq, NULL, 0);
    CHECK_EQ(in, 1);
    CHECK_EQ(fi_cntr_read(a.sent), 1);
    CHECK_EQ(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN);
    CHECK_EQ(fi_cq_read(b.cq, &entry, 1), -FI_EAGAIN);
    m.context = &m;
    CHECK_ZERO(fi_sendmsg(a.ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE));
    for (int i = 0; i < 1000; i++) {
        fi_cq_read(b.cq, NULL, 0);
        CHECK_EQ(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN); /* no receive has matched the message */
    }
    CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    expect_sent(&a, &m);
    ends_close();
}

/* One read finds the awaited message although unexpected messages stand before it. */
static void behind_others(void)
{
    uint64_t word = 4, in = 0, others[5];
    struct fi_cq_tagged_entry entry;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_TABLE, 0);
    CHECK_ZERO(fi_trecv(b.ep, &in, 8, NULL, b.peer, 1, 0, &in));
    CHECK_INJECTED(fi_tinject(a.ep, &word, 8, a.peer, 1));
    CHECK_EQ(next_entry(&b, &entry, NULL), 1);
    CHECK_ZERO(fi_trecv(b.ep, &in, 8, NULL, b.peer, 1, 0, &in));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fi_cq_read(b.cq, &entry, 1), -FI_EAGAIN); /* no event arrives for a while */
    for (int i = 0; i < 5; i++)
        CHECK_INJECTED(fi_tinject(a.ep, &word, 8, a.peer, 2));
    CHECK_INJECTED(fi_tinject(a.ep, &word, 8, a.peer, 1));
    if (getenv("MAD_DRIVERS")) /* on a network the message may arrive later */
        CHECK_EQ(next_entry(&b, &entry, NULL), 1);
    else
        CHECK_EQ(fi_cq_read(b.cq, &entry, 1), 1);
    CHECK(entry.op_context == &in && entry.tag == 1);
    for (int i = 0; i < 5; i++)
        CHECK_ZERO(fi_trecv(b.ep, others + i, 8, NULL, b.peer, 2, 0, others + i));
    count_to(b.received, 7);
    ends_close();
}

/* Reads of no entries make progress, and are no error, whatever the queue contains. */
static void count_zero(void)
{
    uint64_t word = 3, in = 0;
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    fi_addr_t source;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_FD, FI_AV_TABLE, 0);
    CHECK_EQ(fi_cq_read(b.cq, NULL, 0), -FI_EAGAIN);
    CHECK_EQ(fi_cq_sread(b.cq, NULL, 0, NULL, 1), -FI_EAGAIN);
    CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, &in));
    CHECK_INJECTED(fi_inject(a.ep, &word, 8, a.peer));
    while (fi_cq_read(b.cq, NULL, 0) == -FI_EAGAIN)
        fi_cq_read(a.cq, NULL, 0);
    CHECK_ZERO(fi_cq_read(b.cq, NULL, 0));
    CHECK_ZERO(fi_cq_readfrom(b.cq, NULL, 0, &source));
    CHECK_ZERO(fi_cq_sread(b.cq, NULL, 0, NULL, -1));
    CHECK_ZERO(fi_cq_sreadfrom(b.cq, NULL, 0, &source, NULL, -1));
    CHECK_EQ(fi_cq_readerr(b.cq, &error, 0), -FI_EAGAIN);
    CHECK_EQ(fi_cq_read(b.cq, &entry, 1), 1);
    CHECK(entry.op_context == &in && in == 3);

    CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, &in));
    CHECK_ZERO(fi_cancel(&b.ep->fid, &in));
    CHECK_ZERO(fi_cq_read(b.cq, NULL, 0)); /* the queue contains an error, which stays there */
    CHECK_EQ(fi_cq_read(b.cq, &entry, 1), -FI_EAVAIL);
    CHECK_EQ(fi_cq_readerr(b.cq, &error, 0), 1);
    CHECK_EQ(error.err, FI_ECANCELED);
    ends_close();
}

static void sleeping(void)
{
    uint64_t word = 3, in;
    struct fi_cq_msg_entry entry;
    struct fid *fids[1];
    struct pollfd p = {.events = POLLIN};
    ends_open(FI_CQ_FORMAT_MSG, FI_WAIT_FD, FI_AV_TABLE, 0);
    CHECK_EQ(fi_cq_sread(b.cq, &entry, 1, NULL, 20), -FI_EAGAIN);
    CHECK_EQ(fi_cntr_wait(b.received, 1, 20), -FI_ETIMEDOUT);
    CHECK_ZERO(fi_control(&b.cq->fid, FI_GETWAIT, &p.fd));
    fids[0] = &b.cq->fid;
    for (int i = 0; i < 20; i++) {
        CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, NULL));
        CHECK_ZERO(fi_trywait(fabric, fids, 1));
        CHECK_INJECTED(fi_inject(a.ep, &word, 8, a.peer));
        CHECK_EQ(poll(&p, 1, 50000), 1); /* no thread calls libfabric meanwhile */
        CHECK_EQ(fi_cq_read(b.cq, &entry, 1), 1);
        CHECK_EQ(entry.len, 8);
    }
    CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    CHECK_INJECTED(fi_inject(a.ep, &word, 8, a.peer));
    CHECK_EQ(fi_cq_sread(b.cq, &entry, 1, NULL, -1), 1);
    CHECK_ZERO(fi_cntr_wait(b.received, 21, -1));
    CHECK_EQ(fi_trywait(fabric, fids, 1), 0);
    CHECK_ZERO(fi_cq_signal(b.cq));
    CHECK_EQ(fi_cq_sread(b.cq, &entry, 1, NULL, -1), -FI_EAGAIN);
    ends_close();
}

/* ---- Several threads wait ----------------------------------------------------------------------------------------- */

enum { SLEEPERS = 4, ENTRIES = 400 };
static atomic_int taken, signals;

static void *takes_entries(void *arg)
{
    struct fi_cq_msg_entry entry;
    (void)arg;
    while (atomic_load(&taken) < ENTRIES) {
        ssize_t got = fi_cq_sread(b.cq, &entry, 1, NULL, -1);
        if (got == 1)
            atomic_fetch_add(&taken, 1);
        else if (CHECK_EQ(got, -FI_EAGAIN))
            atomic_fetch_add(&signals, 1);
    }
    return NULL;
}

static void *awaits_half(void *arg)
{
    CHECK_ZERO(fi_cntr_wait(b.received, ENTRIES / 2, -1));
    return arg;
}

/* Each entry wakes one thread, which takes the entry.  A counter wakes the thread that waits for its value.  A signal
 * ends a wait. */
static void many_sleep(void)
{
    static uint64_t in[ENTRIES];
    uint64_t word = 9;
    pthread_t threads[SLEEPERS + 1];
    atomic_store(&taken, 0);
    ends_open(FI_CQ_FORMAT_MSG, FI_WAIT_FD, FI_AV_TABLE, 0);
    for (int i = 0; i < ENTRIES; i++)
        CHECK_ZERO(fi_recv(b.ep, &in[i], 8, NULL, FI_ADDR_UNSPEC, NULL));
    for (int i = 0; i < SLEEPERS; i++)
        CHECK_ZERO(pthread_create(&threads[i], NULL, takes_entries, NULL));
    CHECK_ZERO(pthread_create(&threads[SLEEPERS], NULL, awaits_half, NULL));
    for (int i = 0; i < ENTRIES; i++) {
        CHECK_INJECTED(fi_inject(a.ep, &word, 8, a.peer));
        if (i % 16 == 0) /* until the threads sleep again */
            while (atomic_load(&taken) <= i)
                sched_yield();
    }
    while (atomic_load(&taken) < ENTRIES)
        sched_yield();
    CHECK_ZERO(pthread_join(threads[SLEEPERS], NULL));
    for (int i = 0; i < SLEEPERS; i++)
        while (pthread_tryjoin_np(threads[i], NULL)) {
            CHECK_ZERO(fi_cq_signal(b.cq));
            sched_yield();
        }
    CHECK_EQ(atomic_load(&taken), ENTRIES);
    CHECK_EQ(fi_cntr_read(b.received), ENTRIES);
    ends_close();
}

/* A counter without a wait object is polled; the counter of a region is polled by all endpoints of the domain. */
static void polled_counters(void)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
    uint64_t word = 5, in = 0, region = 0;
    struct fid_cntr *c;
    struct fid_mr *mr;
    for (int i = 0; i < 2; i++) {
        ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_TABLE, 0);
        CHECK_EQ(fi_cntr_wait(b.received, 1, 5), -FI_ETIMEDOUT);
        CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, NULL));
        CHECK_INJECTED(fi_inject(a.ep, &word, 8, a.peer));
        CHECK_ZERO(fi_cntr_wait(b.received, 1, 50000));
        attr.wait_obj = i ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
        CHECK_ZERO(fi_cntr_open(domain, &attr, &c, NULL));
        CHECK_ZERO(fi_mr_reg(domain, &region, 8, FI_REMOTE_WRITE, 0, 77, 0, &mr, NULL));
        CHECK_ZERO(fi_mr_bind(mr, &c->fid, FI_REMOTE_WRITE));
        CHECK_INJECTED(fi_inject_write(a.ep, &word, 8, a.peer, 0, 77));
        CHECK_ZERO(fi_cntr_wait(c, 1, 50000));
        CHECK_EQ(region, 5);
        CHECK_ZERO(fi_close(&mr->fid));
        CHECK_ZERO(fi_close(&c->fid));
        ends_close();
    }
}

/* Entries of each format follow each other, with the size of the format and its fields (flags, length, data, tag), in
 * any order. */
static void format(enum fi_cq_format kind, size_t size)
{
    enum { N = 600 }; /* more entries than the ring has at first */
    static unsigned char entries[N * sizeof(struct fi_cq_tagged_entry)], in[N];
    struct fi_cq_tagged_entry e = {0};
    bool seen[N] = {false};
    size_t n = 0;
    ends_open(kind, FI_WAIT_NONE, FI_AV_TABLE, 0);
    for (size_t i = 0; i < N; i++)
        CHECK_ZERO(fi_trecv(b.ep, in, sizeof in, NULL, b.peer, i, 0, in + i));
    for (size_t i = 0; i < N; i++)
        CHECK_INJECTED(fi_tinjectdata(a.ep, in, i % 100, 7 * i, a.peer, i));
    count_to(b.received, N);
    while (n < N) {
        ssize_t got = fi_cq_read(b.cq, entries + n * size, N - n < 11 ? N - n : 11);
        if (CHECK(got > 0 && got <= 11))
            n += (size_t)got;
    }
    CHECK_EQ(fi_cq_read(b.cq, entries, 1), -FI_EAGAIN);
    for (n = 0; n < N; n++) {
        size_t i;
        memcpy(&e, entries + n * size, size);
        i = (size_t)((unsigned char *)e.op_context - in);
        if (!CHECK(i < N && !seen[i]))
            continue;
        seen[i] = true;
        if (kind != FI_CQ_FORMAT_CONTEXT)
            CHECK(e.flags == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA) && e.len == i % 100);
        if (kind == FI_CQ_FORMAT_DATA || kind == FI_CQ_FORMAT_TAGGED)
            CHECK_EQ(e.data, 7 * i);
        if (kind == FI_CQ_FORMAT_TAGGED)
            CHECK_EQ(e.tag, i);
    }
    ends_close();
}

static void formats(void)
{
    format(FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry));
    format(FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry));
    format(FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry));
    format(FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry));
}

static void counters(void)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
    struct fid_cntr *c;
    struct fid *fids[1];
    struct pollfd p = {.events = POLLIN};
    CHECK_ZERO(fi_cntr_open(domain, &attr, &c, NULL));
    fids[0] = &c->fid;
    CHECK_EQ(fi_cntr_read(c), 0);
    CHECK_ZERO(fi_cntr_set(c, 40));
    CHECK_ZERO(fi_cntr_add(c, 2));
    CHECK_EQ(fi_cntr_read(c), 42);
    CHECK_ZERO(fi_cntr_wait(c, 42, 0));
    CHECK_EQ(fi_cntr_wait(c, 43, 0), -FI_ETIMEDOUT);
    CHECK_ZERO(fi_control(&c->fid, FI_GETWAIT, &p.fd));
    CHECK_ZERO(fi_trywait(fabric, fids, 1));
    CHECK_EQ(poll(&p, 1, 0), 0);
    CHECK_ZERO(fi_cntr_add(c, 1));
    CHECK_EQ(poll(&p, 1, 50000), 1);
    CHECK_EQ(fi_trywait(fabric, fids, 1), -FI_EAGAIN); /* the counter has changed, and was not read */
    CHECK_EQ(fi_trywait(fabric, fids, 1), -FI_EAGAIN);
    CHECK_EQ(fi_cntr_read(c), 43);
    CHECK_ZERO(fi_trywait(fabric, fids, 1));
    CHECK_ZERO(fi_cntr_seterr(c, 3));
    CHECK_ZERO(fi_cntr_adderr(c, 1));
    CHECK_EQ(fi_cntr_readerr(c), 4);
    CHECK_ZERO(fi_close(&c->fid));
    attr.events = 77;
    CHECK_EQ(fi_cntr_open(domain, &attr, &c, NULL), -FI_ENOSYS);
}

/* Wait objects that are supported, and those that are not: a queue with one of the latter is not opened. */
static void wait_objects(void)
{
    static const enum fi_wait_obj good[] = {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD},
                                  bad[] = {FI_WAIT_SET, FI_WAIT_MUTEX_COND, FI_WAIT_POLLFD};
    for (size_t i = 0; i < 4; i++) {
        struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = good[i]};
        struct fid_cq *cq;
        struct fi_cq_entry entry;
        struct fid *fids[1];
        int fd;
        if (!CHECK_ZERO(fi_cq_open(domain, &attr, &cq, NULL)))
            continue;
        fids[0] = &cq->fid;
        CHECK_EQ(fi_cq_sread(cq, &entry, 1, NULL, 1), i ? -FI_EAGAIN : -FI_EINVAL);
        CHECK_EQ(fi_trywait(fabric, fids, 1), i ? 0 : -FI_EINVAL);
        CHECK_EQ(fi_control(&cq->fid, FI_GETWAIT, &fd), i ? 0 : -FI_ENOSYS);
        CHECK_ZERO(fi_close(&cq->fid));
    }
    for (size_t i = 0; i < 3; i++) {
        struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = bad[i]};
        struct fid_cq *cq;
        CHECK_EQ(fi_cq_open(domain, &attr, &cq, NULL), -FI_ENOSYS);
    }
}

/* A counter that can be waited for lets other threads make progress on its whole endpoint.  The other threads then also
 * use a queue that cannot be waited for, in a domain that one thread uses.  Each entry must arrive once.  Without the
 * queue's lock this failed in one of two runs of MPICH with four threads, and rarely here. */
static void sleeping_counter(void)
{
    enum { WINDOW = 16, TURNS = 3000 };
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
    enum fi_threading threading = info->domain_attr->threading;
    struct fid_domain *before = domain;
    uint64_t in[WINDOW], word = 7;
    bool good = true;
    info->domain_attr->threading = FI_THREAD_DOMAIN;
    CHECK_ZERO(fi_domain(fabric, info, &domain, NULL));
    ends_open_with(&cq, &cntr, FI_AV_TABLE, 0);
    for (int turn = 0; turn < TURNS && good; turn++) {
        unsigned seen = 0;
        for (int i = 0; i < WINDOW; i++)
            CHECK_ZERO(fi_recv(b.ep, &in[i], 8, NULL, FI_ADDR_UNSPEC, &in[i]));
        for (int i = 0; i < WINDOW; i++)
            CHECK_INJECTED(fi_inject(a.ep, &word, 8, a.peer));
        for (int n = 0; n < WINDOW && good; n++) {
            struct fi_cq_entry entry;
            unsigned bit;
            while (fi_cq_read(b.cq, &entry, 1) == -FI_EAGAIN)
                if (turn % 2)
                    sched_yield();
            bit = 1U << ((uint64_t *)entry.op_context - in);
            good = CHECK(!(seen & bit));
            seen |= bit;
        }
    }
    ends_close();
    CHECK_ZERO(fi_close(&domain->fid));
    domain = before;
    info->domain_attr->threading = threading;
}

/* Injected data arrive although their endpoint was closed before the receive was posted. */
static void *receive_late(void *arg)
{
    uint64_t *in = arg;
    usleep(50000);
    uint64_t n = 0;
    for (; in[n]; n++)
        CHECK_ZERO(fi_recv(b.ep, &in[n], 8, NULL, FI_ADDR_UNSPEC, NULL));
    CHECK_ZERO(fi_cntr_wait(b.received, n, 20000)); /* progress is manual: the closing side waits for the receiver */
    return NULL;
}

static void closed_early(void)
{
    enum { MANY = 100000 };
    uint64_t *in = calloc(MANY + 1, sizeof *in), n = 0;
    pthread_t thread;
    ends_open(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD, FI_AV_TABLE, 0);
    CHECK_INJECTED(fi_inject(a.ep, &n, 8, a.peer));
    for (n = 1; n < MANY && !fi_inject(a.ep, &n, 8, a.peer); n++)
        continue;
    memset(in, 0xff, n * sizeof *in);
    CHECK_ZERO(pthread_create(&thread, NULL, receive_late, in));
    CHECK_ZERO(fi_close(&a.ep->fid));
    a.ep = NULL;
    CHECK_ZERO(pthread_join(thread, NULL));
    CHECK_ZERO(fi_cntr_wait(b.received, n, 20000));
    for (uint64_t i = 0; i < n; i++)
        if (!CHECK_EQ(in[i], i))
            break;
    ends_close();
    free(in);
}

const ofi_case_t ofi_queue_cases[] = {{"selective completion", selective},
                                      {"behind others", behind_others},
                                      {"reads of no entries", count_zero},
                                      {"sleeping", sleeping},
                                      {"many sleep", many_sleep},
                                      {"polled counters", polled_counters},
                                      {"formats", formats},
                                      {"counters", counters},
                                      {"wait objects", wait_objects},
                                      {"a counter that sleeps", sleeping_counter},
                                      {"closed early", closed_early},
                                      {NULL, NULL}};
