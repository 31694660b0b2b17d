/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory access: writes and reads in all forms and sizes, refused accesses, and reports to the target. */
#include "ofi_calls.h"

#define SIZE 300000

static unsigned char there[SIZE], here[SIZE], back[SIZE];
static struct fid_mr *mr;

static bool is_basic(void)
{
    return info->domain_attr->mr_mode & OLD_MR_BASIC;
}

/* Return the address of an offset in `there`. */
static uint64_t at(size_t offset)
{
    return offset + (is_basic() ? (uintptr_t)there : 0);
}

static void begin(uint64_t access)
{
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_TABLE, 0);
    CHECK_ZERO(fi_mr_reg(domain, there, SIZE, access, 0, 77, 0, &mr, NULL));
    CHECK(is_basic() || fi_mr_key(mr) == 77);
    CHECK_EQ(fi_close(&domain->fid), -FI_EBUSY);
    memset(there, 0, SIZE);
    memset(back, 0, SIZE);
    for (size_t i = 0; i < SIZE; i++)
        here[i] = (unsigned char)(i * 13 >> 2);
}

static void end(void)
{
    CHECK_ZERO(fi_close(&mr->fid));
    ends_close();
}

static void sizes(void)
{
    static const size_t all[] = {0, 1, 8, 4096, 4097, 30000, 33000, 70000, 250000};
    struct fi_context contexts[2];
    begin(FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t len = all[i];
        memset(there, 0, SIZE);
        memset(back, 0, SIZE);
        CHECK_ZERO(fi_write(a.ep, here + 3, len, NULL, a.peer, at(5), fi_mr_key(mr), &contexts[0]));
        expect_sent(&a, &contexts[0]);
        /* the data have arrived when the write completes */
        CHECK(!memcmp(there + 5, here + 3, len) && there[4] == 0 && there[5 + len] == 0);
        CHECK_ZERO(fi_read(a.ep, back, len, NULL, a.peer, at(5), fi_mr_key(mr), &contexts[1]));
        expect_sent(&a, &contexts[1]);
        CHECK(!memcmp(back, here + 3, len) && back[len] == 0);
    }
    CHECK_EQ(fi_cntr_read(a.read), 9);
    CHECK_EQ(fi_cntr_read(a.written), 9);
    count_to(b.was_read, 9); /* the last report may arrive later */
    CHECK_EQ(fi_cntr_read(b.was_written), 9);
    end();
}

static void forms(void)
{
    struct iovec pieces[2] = {{here, 10}, {here + 100, 50000}}, backs[2] = {{back + 7, 50000}, {back + 60000, 10}};
    struct fi_rma_iov rma[2] = {{at(1000), 40000, 0}, {at(90000), 10010, 0}};
    struct fi_msg_rma m = {.msg_iov = pieces, .iov_count = 2, .rma_iov = rma, .rma_iov_count = 2, .context = &m, .data = 99};
    struct fi_cq_tagged_entry entry;
    fi_addr_t source = 88;
    uint64_t word = 6;
    begin(FI_REMOTE_READ | FI_REMOTE_WRITE);
    rma[0].key = rma[1].key = fi_mr_key(mr);
    m.addr = a.peer;
    CHECK_ZERO(fi_writemsg(a.ep, &m, FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE));
    expect_sent(&a, &m);
    CHECK(!memcmp(there + 1000, here, 10) && !memcmp(there + 1010, here + 100, 39990));
    CHECK(!memcmp(there + 90000, here + 100 + 39990, 10010) && there[41000] == 0);
    CHECK_EQ(next_entry(&b, &entry, &source), 1);
    CHECK(entry.flags == (FI_REMOTE_WRITE | FI_RMA | FI_REMOTE_CQ_DATA) && entry.data == 99 && source == b.peer);
    m.msg_iov = backs;
    CHECK_ZERO(fi_readmsg(a.ep, &m, FI_COMPLETION));
    expect_sent(&a, &m);
    CHECK(!memcmp(back + 7, here, 10) && !memcmp(back + 17, here + 100, 49990) && back[50007] == 0);
    CHECK(!memcmp(back + 60000, here + 100 + 49990, 10));
    CHECK_ZERO(fi_writev(a.ep, pieces, NULL, 2, a.peer, at(0), fi_mr_key(mr), &m));
    expect_sent(&a, &m);
    CHECK_ZERO(fi_readv(a.ep, backs, NULL, 2, a.peer, at(0), fi_mr_key(mr), &m));
    expect_sent(&a, &m);
    CHECK(!memcmp(back + 7, here, 10) && !memcmp(back + 17, here + 100, 49990));
    CHECK_ZERO(fi_writedata(a.ep, here, 20, NULL, 5, a.peer, at(200), fi_mr_key(mr), &m));
    expect_sent(&a, &m);
    CHECK_EQ(next_entry(&b, &entry, NULL), 1);
    CHECK(entry.data == 5 && !memcmp(there + 200, here, 20));
    CHECK_ZERO(fi_inject_write(a.ep, &word, 8, a.peer, at(0), fi_mr_key(mr)));
    word = 7;
    CHECK_ZERO(fi_inject_writedata(a.ep, &word, 8, 3, a.peer, at(8), fi_mr_key(mr)));
    word = 8;
    CHECK_EQ(next_entry(&b, &entry, NULL), 1);
    CHECK(entry.data == 3 && there[0] == 6 && there[8] == 7);
    count_to(a.written, 5);
    CHECK_EQ(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN); /* the injected write has no entry, and is only counted */
    CHECK_ZERO(fi_write(a.ep, here, 20, NULL, a.self, at(500), fi_mr_key(mr), &m));
    expect_sent(&a, &m);
    CHECK(!memcmp(there + 500, here, 20));
    end();
}

static void refused(void)
{
    struct fid_mr *other;
    struct fi_rma_iov rma[2] = {{at(0), 8, 0}, {at(SIZE - 4), 8, 0}};
    struct iovec piece = {here, 16};
    struct fi_msg_rma m = {.msg_iov = &piece, .iov_count = 1, .rma_iov = rma, .rma_iov_count = 2};
    begin(FI_REMOTE_WRITE);
    for (size_t len = 8; len <= 80000; len *= 100) { /* a short length and a long one */
        CHECK_ZERO(fi_write(a.ep, here, len, NULL, a.peer, at(SIZE - len + 1), fi_mr_key(mr), &rma));
        CHECK(expect_error(&a, FI_EACCES).op_context == &rma);
        CHECK_ZERO(fi_write(a.ep, here, len, NULL, a.peer, at(0) - 1, fi_mr_key(mr), NULL));
        expect_error(&a, FI_EACCES);
        CHECK_ZERO(fi_write(a.ep, here, len, NULL, a.peer, at(0), 12345, NULL));
        expect_error(&a, FI_EACCES);
        CHECK_ZERO(fi_read(a.ep, back, len, NULL, a.peer, at(0), fi_mr_key(mr), NULL)); /* the region may only be written */
        expect_error(&a, FI_EACCES);
    }
    m.addr = a.peer;
    rma[0].key = rma[1].key = fi_mr_key(mr);
    CHECK_ZERO(fi_writemsg(a.ep, &m, FI_COMPLETION)); /* one of the two targets is refused, so neither is written */
    expect_error(&a, FI_EACCES);
    CHECK(there[0] == 0 && there[SIZE - 1] == 0 && !memcmp(there, there + 1, SIZE - 1));
    piece.iov_len = 15;
    CHECK_EQ(fi_writemsg(a.ep, &m, FI_COMPLETION), -FI_EINVAL);
    CHECK_EQ(fi_writemsg(a.ep, &m, FI_COMPLETION | FI_FENCE), -FI_EBADFLAGS);
    CHECK_EQ(fi_inject_write(a.ep, here, 100000, a.peer, at(0), fi_mr_key(mr)), -FI_EINVAL);
    CHECK_EQ(fi_write(a.ep, here, 8, NULL, 1000, at(0), fi_mr_key(mr), NULL), -FI_EINVAL);
    if (!is_basic())
        CHECK_EQ(fi_mr_reg(domain, here, 8, FI_REMOTE_READ, 0, 77, 0, &other, NULL), -FI_ENOKEY);
    CHECK_EQ(fi_cntr_readerr(a.written), 3 * 3 + 1);
    CHECK_EQ(fi_cntr_readerr(a.read), 3);
    CHECK_EQ(fi_cntr_read(b.was_written), 0);
    end();
}

/* Short accesses are made in the order of the calls, although no thread waits for any of them. */
static void order(void)
{
    enum { N = 2000 };
    static uint64_t words[N], seen[N];
    int n = 0;
    begin(FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (int i = 0; i < N; i++) {
        words[i] = (uint64_t)i + 1;
        CHECK_ZERO(fi_write(a.ep, &words[i], 8, NULL, a.peer, at(64), fi_mr_key(mr), NULL));
        CHECK_ZERO(fi_read(a.ep, &seen[i], 8, NULL, a.peer, at(64), fi_mr_key(mr), NULL));
    }
    for (; n < 2 * N; n++)
        expect_sent(&a, NULL);
    for (int i = 0; i < N; i++)
        CHECK_EQ(seen[i], i + 1);
    end();
}

/* Many accesses of all lengths at once, each to a place of its own. */
static void many(void)
{
    enum { N = 60 };
    size_t done = 0, from = 0, lens[N];
    begin(FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (size_t i = 0; i < N; i++) {
        lens[i] = i * i * 77 % 9000 + 1;
        CHECK_ZERO(fi_write(a.ep, here + from, lens[i], NULL, a.peer, at(from), fi_mr_key(mr), NULL));
        from += lens[i];
    }
    for (; done < N; done++)
        expect_sent(&a, NULL);
    CHECK(from < SIZE && !memcmp(there, here, from) && there[from] == 0);
    end();
}

/* Many regions, with counters of their own; a closed region cannot be accessed. */
static void regions(void)
{
    enum { N = 300 };
    struct fid_mr *all[N];
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
    struct fid_cntr *cntr;
    uint64_t key;
    begin(FI_REMOTE_READ | FI_REMOTE_WRITE);
    CHECK_ZERO(fi_cntr_open(domain, &attr, &cntr, NULL));
    for (size_t i = 0; i < N; i++)
        CHECK_ZERO(fi_mr_reg(domain, there + i * 8, 8, FI_REMOTE_WRITE, 0, 1000 + 64 * i, 0, &all[i], NULL));
    CHECK_ZERO(fi_mr_bind(all[5], &cntr->fid, FI_REMOTE_WRITE));
    CHECK_ZERO(fi_mr_enable(all[5]));
    for (size_t i = 0; i < N; i++) {
        CHECK_ZERO(fi_write(a.ep, here + i * 8, 8, NULL, a.peer, is_basic() ? at(i * 8) : 0, fi_mr_key(all[i]), NULL));
        expect_sent(&a, NULL);
    }
    CHECK(!memcmp(there, here, N * 8));
    CHECK_EQ(fi_cntr_read(cntr), 1);
    CHECK_EQ(fi_close(&cntr->fid), -FI_EBUSY);
    key = fi_mr_key(all[5]);
    for (size_t i = 0; i < N; i++)
        CHECK_ZERO(fi_close(&all[i]->fid));
    CHECK_ZERO(fi_close(&cntr->fid));
    CHECK_ZERO(fi_write(a.ep, here, 8, NULL, a.peer, is_basic() ? at(40) : 0, key, NULL));
    expect_error(&a, FI_EACCES);
    end();
}

const ofi_case_t ofi_remote_cases[] = {{"memory: sizes", sizes},
                                       {"memory: forms", forms},
                                       {"memory: refused", refused},
                                       {"memory: order", order},
                                       {"memory: many", many},
                                       {"memory: regions", regions},
                                       {NULL, NULL}};
