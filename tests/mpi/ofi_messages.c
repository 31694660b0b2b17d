/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with tags and without: sizes, data, errors, probes, multi-receive. */
#include "ofi_calls.h"

static void tagged(enum fi_av_type type)
{
    static unsigned char out[200000], in[200000];
    static const size_t sizes[] = {0, 8, 1000, 16384, 30000, 70000, 200000};
    struct fi_cq_tagged_entry entry;
    struct fi_context contexts[2];
    fi_addr_t source = 77;
    uint64_t word = 5;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, type, 0);
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (unsigned char)(i * 7 >> 3);
    for (size_t i = 0; i < 7; i++) {
        memset(in, 0, sizeof in);
        CHECK_ZERO(fi_trecv(b.ep, in, sizeof in, NULL, b.peer, 0x500, 0xff, &contexts[1]));
        CHECK_ZERO(fi_tsenddata(a.ep, out, sizes[i], NULL, UINT64_C(1) << 40 | i, a.peer, 0x500 + i, &contexts[0]));
        CHECK_EQ(next_entry(&b, &entry, &source), 1);
        CHECK(entry.op_context == &contexts[1] && entry.flags & FI_RECV && entry.flags & FI_TAGGED);
        CHECK(entry.flags & FI_REMOTE_CQ_DATA && entry.data == (UINT64_C(1) << 40 | i));
        CHECK(entry.len == sizes[i] && entry.tag == 0x500 + i && source == b.peer);
        CHECK(!memcmp(in, out, sizes[i]));
        expect_sent(&a, &contexts[0]);
    }
    CHECK_INJECTED(fi_tinject(a.ep, &word, 8, a.self, 9));
    CHECK_ZERO(fi_trecv(a.ep, in, 8, NULL, a.self, 9, 0, NULL));
    CHECK_EQ(next_entry(&a, &entry, &source), 1);
    CHECK(source == a.self && !memcmp(in, &word, 8));
    CHECK_EQ(fi_tinject(a.ep, out, sizeof out, a.peer, 1), -FI_EINVAL);
    CHECK_EQ(fi_tsend(a.ep, out, 8, NULL, 1000, 1, NULL), -FI_EINVAL);
    CHECK_EQ(fi_cntr_read(a.sent), 8);
    CHECK_EQ(fi_cntr_read(b.received), 7);
    ends_close();
}

static void tagged_table(void)
{
    tagged(FI_AV_TABLE);
}

static void tagged_map(void)
{
    tagged(FI_AV_MAP);
}

static void errors(void)
{
    unsigned char out[100000] = {1}, in[10];
    struct fi_context c;
    struct fi_cq_err_entry error;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_TABLE, 0);
    for (size_t len = 100; len <= sizeof out; len *= 10) {
        CHECK_ZERO(fi_trecv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, len, 0, &c));
        CHECK_ZERO(fi_tsend(a.ep, out, len, NULL, a.peer, len, NULL));
        error = expect_error(&b, FI_ETRUNC);
        CHECK(error.op_context == &c && error.len == sizeof in && error.olen == len - sizeof in && error.tag == len);
        expect_sent(&a, NULL);
    }
    CHECK_ZERO(fi_trecv(b.ep, in, sizeof in, NULL, b.peer, 1, 0, &c));
    CHECK_EQ(fi_cancel(&b.ep->fid, out), -FI_ENOENT);
    CHECK_ZERO(fi_cancel(&b.ep->fid, &c));
    CHECK(expect_error(&b, FI_ECANCELED).op_context == &c);
    CHECK_EQ(fi_connect(a.ep, b.name, NULL, 0), -FI_ENOSYS);
    CHECK_EQ(fi_cntr_readerr(b.received), 4 + 1);
    ends_close();
}

static void probes(void)
{
    uint64_t word = 0, out = 42;
    struct iovec piece = {&word, 8};
    struct fi_context c;
    struct fi_msg_tagged m = {.msg_iov = &piece, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 3, .context = &c};
    struct fi_cq_tagged_entry entry;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_MAP, 0);
    CHECK_ZERO(fi_trecvmsg(b.ep, &m, FI_PEEK));
    CHECK(expect_error(&b, FI_ENOMSG).op_context == &c);
    for (out = 42; out < 45; out++)
        CHECK_INJECTED(fi_tinjectdata(a.ep, &out, 8, out, a.peer, 3));
    do { /* wait until the message is in flight */
        CHECK_ZERO(fi_trecvmsg(b.ep, &m, FI_PEEK | FI_CLAIM));
        if (fi_cq_read(b.cq, &entry, 1) == 1)
            break;
        expect_error(&b, FI_ENOMSG);
        fi_cq_read(a.cq, NULL, 0);
    } while (test_failures == 0);
    CHECK(entry.op_context == &c && entry.len == 8 && entry.data == 42 && entry.tag == 3);
    do {
        CHECK_ZERO(fi_trecvmsg(b.ep, &m, FI_PEEK | FI_DISCARD));
        if (fi_cq_read(b.cq, &entry, 1) == 1)
            break;
        expect_error(&b, FI_ENOMSG);
        fi_cq_read(a.cq, NULL, 0);
    } while (test_failures == 0);
    CHECK_EQ(entry.data, 43);
    m.context = &m;
    CHECK_ZERO(fi_trecvmsg(b.ep, &m, 0));
    CHECK_EQ(next_entry(&b, &entry, NULL), 1);
    CHECK(word == 44 && entry.op_context == &m);
    m.context = &c;
    CHECK_ZERO(fi_trecvmsg(b.ep, &m, FI_CLAIM));
    CHECK_EQ(next_entry(&b, &entry, NULL), 1);
    CHECK(word == 42 && entry.op_context == &c);
    CHECK(fi_trecvmsg(b.ep, &m, FI_CLAIM) != 0);
    ends_close();
}

/* Messages lie in the buffer in the order of sending.  The messages complete in any order, because the provider
 * promises no order of completions. */
static void multi_receive(void)
{
    enum { N = 50 };
    static unsigned char buffer[4000], out[100], seen[40];
    size_t least = 1000, len = sizeof least, at;
    struct iovec piece = {buffer, sizeof buffer};
    struct fi_msg m = {.msg_iov = &piece, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buffer};
    struct fi_cq_data_entry entry = {.flags = 0};
    int n = 0;
    ends_open(FI_CQ_FORMAT_DATA, FI_WAIT_NONE, FI_AV_TABLE, 0);
    CHECK_ZERO(fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    least = 0;
    CHECK_ZERO(fi_getopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len));
    CHECK_EQ(least, 1000);
    CHECK_ZERO(fi_recvmsg(b.ep, &m, FI_MULTI_RECV));
    for (int i = 0; i < N; i++) {
        memset(out, i, sizeof out);
        CHECK_INJECTED(fi_inject(a.ep, out, sizeof out, a.peer));
    }
    for (; !(entry.flags & FI_MULTI_RECV) && test_failures == 0; n++) {
        CHECK_EQ(next_entry(&b, &entry, NULL), 1);
        at = (size_t)((unsigned char *)entry.buf - buffer);
        CHECK(entry.op_context == buffer && entry.len == 100 && at % 100 == 0);
        if (CHECK(at < sizeof buffer && !seen[at / 100]++))
            CHECK_EQ(buffer[at], at / 100);
    }
    CHECK_EQ(n, 31); /* after 31 messages less than 1000 bytes are left */
    ends_close();
}

/* Injected data may be changed at once, whether or not they have left.  Data longer than the advertised size are refused. */
static void injected(void)
{
    enum { N = 200 };
    static unsigned char out[70000], in[N][16384];
    size_t most = info->tx_attr->inject_size;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_TABLE, 0);
    CHECK_EQ(most, 16384);
    CHECK_EQ(fi_inject(a.ep, out, most + 1, a.peer), -FI_EINVAL);
    CHECK_EQ(fi_tinject(a.ep, out, most + 1, a.peer, 1), -FI_EINVAL);
    for (size_t i = 0; i < N; i++)
        CHECK_ZERO(fi_trecv(b.ep, in[i], most, NULL, b.peer, i, 0, NULL));
    for (size_t i = 0; i < N; i++) {
        size_t len = i % 2 ? most - i : i;
        ssize_t rc;
        memset(out, (int)i + 1, len);
        while ((rc = fi_tinject(a.ep, out, len, a.peer, i)) == -FI_EAGAIN)
            fi_cq_read(b.cq, NULL, 0);
        CHECK_ZERO(rc);
        memset(out, 0xff, sizeof out);
    }
    count_to(b.received, N);
    for (size_t i = 0; i < N; i++) {
        size_t len = i % 2 ? most - i : i;
        CHECK(!len || (in[i][0] == (unsigned char)(i + 1) && in[i][len - 1] == (unsigned char)(i + 1)));
        CHECK(len == most || in[i][len] == 0);
    }
    count_to(a.sent, N);
    ends_close();
}

const ofi_case_t ofi_message_cases[] = {{"tagged, address table", tagged_table},
                                        {"tagged, address map", tagged_map},
                                        {"errors", errors},
                                        {"probes", probes},
                                        {"injected", injected},
                                        {"multi-receive", multi_receive},
                                        {NULL, NULL}};
