/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues and counters: which entries come, and how one sleeps until they do. */
#include "ofi_calls.h"

#include <poll.h>

static void selective(void)
{
    uint64_t word = 1, in = 0;
    struct iovec piece = {&word, 8};
    struct fi_msg m = {.msg_iov = &piece, .iov_count = 1};
    struct fi_cq_tagged_entry entry;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_TABLE, FI_SELECTIVE_COMPLETION);
    m.addr = a.peer;
    CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    CHECK_ZERO(fi_sendmsg(a.ep, &m, 0));
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
        CHECK_EQ(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN); /* nobody has received it */
    }
    CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    expect_sent(&a, &m);
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
        CHECK_ZERO(fi_inject(a.ep, &word, 8, a.peer));
        CHECK_EQ(poll(&p, 1, 50000), 1); /* nobody calls libfabric meanwhile */
        CHECK_EQ(fi_cq_read(b.cq, &entry, 1), 1);
        CHECK_EQ(entry.len, 8);
    }
    CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    CHECK_ZERO(fi_inject(a.ep, &word, 8, a.peer));
    CHECK_EQ(fi_cq_sread(b.cq, &entry, 1, NULL, -1), 1);
    CHECK_ZERO(fi_cntr_wait(b.received, 21, -1));
    CHECK_EQ(fi_trywait(fabric, fids, 1), 0);
    CHECK_ZERO(fi_cq_signal(b.cq));
    CHECK_EQ(fi_cq_sread(b.cq, &entry, 1, NULL, -1), -FI_EAGAIN);
    ends_close();
}

const ofi_case_t ofi_queue_cases[] = {{"selective completion", selective}, {"sleeping", sleeping}, {NULL, NULL}};
