/* SPDX-License-Identifier: BSD-3-Clause */
/* Which counters each operation increments, at its initiator, at its target, and at the memory region: one table of all
 * operations and all counters, as fi_cntr(3), fi_endpoint(3) and fi_mr(3) have it.  An atomic operation that fetches is a
 * read and a write of its target. */
#include "ofi_calls.h"

#define SIZE 200000
#define HALF (SIZE / 2)

static unsigned char there[SIZE], here[SIZE], back[SIZE];
static struct fid_mr *mr;
static struct fi_context context;

static uint64_t at(size_t offset)
{
    return offset + (info->domain_attr->mr_mode & OLD_MR_BASIC ? (uintptr_t)there : 0);
}

/* ---- Operations: each is begun by a, with `context`; returns what the call returns
 * -------------------------------------- */

static struct iovec piece = {here, 8}, result_piece = {back, 8};
static struct fi_rma_iov target[2];
static struct fi_ioc element = {here, 1}, result_element = {back, 1}, compare_element = {here, 1};
static struct fi_rma_ioc target_element;

static uint64_t key(void)
{
    return fi_mr_key(mr);
}

static struct fi_msg message(void)
{
    return (struct fi_msg){.msg_iov = &piece, .iov_count = 1, .addr = a.peer, .context = &context};
}

static struct fi_msg_tagged tagged(void)
{
    return (struct fi_msg_tagged){.msg_iov = &piece, .iov_count = 1, .addr = a.peer, .context = &context, .tag = 1};
}

/* Describe an access to n targets, which are parts of the region. */
static struct fi_msg_rma access_of(struct iovec *local, size_t n)
{
    target[0] = (struct fi_rma_iov){at(0), local->iov_len / n, key()};
    target[1] = (struct fi_rma_iov){at(HALF), local->iov_len / n, key()};
    return (struct fi_msg_rma){
        .msg_iov = local, .iov_count = 1, .addr = a.peer, .rma_iov = target, .rma_iov_count = n, .context = &context};
}

static struct fi_msg_atomic atomic_of(enum fi_op op)
{
    target_element = (struct fi_rma_ioc){at(0), 1, key()};
    return (struct fi_msg_atomic){.msg_iov = &element,
                                  .iov_count = 1,
                                  .addr = a.peer,
                                  .rma_iov = &target_element,
                                  .rma_iov_count = 1,
                                  .datatype = FI_UINT64,
                                  .op = op,
                                  .context = &context};
}

#define OPERATION(name, ...) \
    static ssize_t name(void) \
    { \
        __VA_ARGS__ \
    }
OPERATION(do_send, return fi_send(a.ep, here, 8, NULL, a.peer, &context);)
OPERATION(do_sendv, return fi_sendv(a.ep, &piece, NULL, 1, a.peer, &context);)
OPERATION(do_sendmsg, struct fi_msg m = message(); return fi_sendmsg(a.ep, &m, FI_COMPLETION);)
OPERATION(do_senddata, return fi_senddata(a.ep, here, 8, NULL, 7, a.peer, &context);)
OPERATION(do_inject, return fi_inject(a.ep, here, 8, a.peer);)
OPERATION(do_injectdata, return fi_injectdata(a.ep, here, 8, 7, a.peer);)
OPERATION(do_tsend, return fi_tsend(a.ep, here, 8, NULL, a.peer, 1, &context);)
OPERATION(do_tsendv, return fi_tsendv(a.ep, &piece, NULL, 1, a.peer, 1, &context);)
OPERATION(do_tsendmsg, struct fi_msg_tagged m = tagged(); return fi_tsendmsg(a.ep, &m, FI_COMPLETION);)
OPERATION(do_tsenddata, return fi_tsenddata(a.ep, here, 8, NULL, 7, a.peer, 1, &context);)
OPERATION(do_tinject, return fi_tinject(a.ep, here, 8, a.peer, 1);)
OPERATION(do_tinjectdata, return fi_tinjectdata(a.ep, here, 8, 7, a.peer, 1);)
OPERATION(do_tsend_long, return fi_tsend(a.ep, here, SIZE, NULL, a.peer, 1, &context);)

OPERATION(do_write, return fi_write(a.ep, here, 8, NULL, a.peer, at(0), key(), &context);)
OPERATION(do_write_long, return fi_write(a.ep, here, SIZE, NULL, a.peer, at(0), key(), &context);)
OPERATION(do_writev, return fi_writev(a.ep, &piece, NULL, 1, a.peer, at(0), key(), &context);)
OPERATION(do_writemsg, struct fi_msg_rma m = access_of(&piece, 1); return fi_writemsg(a.ep, &m, FI_COMPLETION);)
OPERATION(do_write_parts, struct fi_msg_rma m = access_of(&piece, 2); return fi_writemsg(a.ep, &m, FI_COMPLETION);)
OPERATION(do_writedata, return fi_writedata(a.ep, here, 8, NULL, 7, a.peer, at(0), key(), &context);)
OPERATION(do_inject_write, return fi_inject_write(a.ep, here, 8, a.peer, at(0), key());)
OPERATION(do_inject_writedata, return fi_inject_writedata(a.ep, here, 8, 7, a.peer, at(0), key());)
OPERATION(do_read, return fi_read(a.ep, back, 8, NULL, a.peer, at(0), key(), &context);)
OPERATION(do_read_long, return fi_read(a.ep, back, SIZE, NULL, a.peer, at(0), key(), &context);)
OPERATION(do_readv, return fi_readv(a.ep, &result_piece, NULL, 1, a.peer, at(0), key(), &context);)
OPERATION(do_readmsg, struct fi_msg_rma m = access_of(&result_piece, 1); return fi_readmsg(a.ep, &m, FI_COMPLETION);)
OPERATION(do_read_parts, struct fi_msg_rma m = access_of(&result_piece, 2); return fi_readmsg(a.ep, &m, FI_COMPLETION);)

#define ELEMENT a.peer, at(0), key(), FI_UINT64
OPERATION(do_atomic, return fi_atomic(a.ep, here, 1, NULL, ELEMENT, FI_SUM, &context);)
OPERATION(do_atomic_write, return fi_atomic(a.ep, here, 1, NULL, ELEMENT, FI_ATOMIC_WRITE, &context);)
OPERATION(do_atomicv, return fi_atomicv(a.ep, &element, NULL, 1, ELEMENT, FI_SUM, &context);)
OPERATION(do_atomicmsg, struct fi_msg_atomic m = atomic_of(FI_SUM); return fi_atomicmsg(a.ep, &m, FI_COMPLETION);)
OPERATION(do_inject_atomic, return fi_inject_atomic(a.ep, here, 1, ELEMENT, FI_SUM);)
OPERATION(do_fetch, return fi_fetch_atomic(a.ep, here, 1, NULL, back, NULL, ELEMENT, FI_SUM, &context);)
OPERATION(do_fetch_write, return fi_fetch_atomic(a.ep, here, 1, NULL, back, NULL, ELEMENT, FI_ATOMIC_WRITE, &context);)
OPERATION(do_fetch_read, return fi_fetch_atomic(a.ep, NULL, 1, NULL, back, NULL, ELEMENT, FI_ATOMIC_READ, &context);)
OPERATION(do_fetchv, return fi_fetch_atomicv(a.ep, &element, NULL, 1, &result_element, NULL, 1, ELEMENT, FI_SUM, &context);)
OPERATION(do_fetchmsg, struct fi_msg_atomic m = atomic_of(FI_SUM);
          return fi_fetch_atomicmsg(a.ep, &m, &result_element, NULL, 1, FI_COMPLETION);)
OPERATION(do_compare, return fi_compare_atomic(a.ep, here, 1, NULL, here, NULL, back, NULL, ELEMENT, FI_CSWAP, &context);)
OPERATION(do_comparev, return fi_compare_atomicv(a.ep, &element, NULL, 1, &compare_element, NULL, 1, &result_element, NULL,
                                                 1, ELEMENT, FI_CSWAP, &context);)
OPERATION(do_comparemsg, struct fi_msg_atomic m = atomic_of(FI_CSWAP);
          return fi_compare_atomicmsg(a.ep, &m, &compare_element, NULL, 1, &result_element, NULL, 1, FI_COMPLETION);)

/* ---- The table
 * ------------------------------------------------------------------------------------------------------------ */

enum { MESSAGE = 1, TAGGED, ACCESS };
enum { NO_ENTRY = 1, REMOTE_ENTRY = 2 }; /* the initiator gets no entry; the target gets one */

static const struct row {
    const char *name;
    ssize_t (*start)(void);
    int kind, entries;
    int reads, writes;         /* counts at the initiator: FI_READ, FI_WRITE */
    int was_read, was_written; /* counts at the target and at the region: FI_REMOTE_READ, FI_REMOTE_WRITE */
} rows[] = {
    {"fi_send", do_send, MESSAGE, 0, 0, 0, 0, 0},
    {"fi_sendv", do_sendv, MESSAGE, 0, 0, 0, 0, 0},
    {"fi_sendmsg", do_sendmsg, MESSAGE, 0, 0, 0, 0, 0},
    {"fi_senddata", do_senddata, MESSAGE, 0, 0, 0, 0, 0},
    {"fi_inject", do_inject, MESSAGE, NO_ENTRY, 0, 0, 0, 0},
    {"fi_injectdata", do_injectdata, MESSAGE, NO_ENTRY, 0, 0, 0, 0},
    {"fi_tsend", do_tsend, TAGGED, 0, 0, 0, 0, 0},
    {"fi_tsendv", do_tsendv, TAGGED, 0, 0, 0, 0, 0},
    {"fi_tsendmsg", do_tsendmsg, TAGGED, 0, 0, 0, 0, 0},
    {"fi_tsenddata", do_tsenddata, TAGGED, 0, 0, 0, 0, 0},
    {"fi_tinject", do_tinject, TAGGED, NO_ENTRY, 0, 0, 0, 0},
    {"fi_tinjectdata", do_tinjectdata, TAGGED, NO_ENTRY, 0, 0, 0, 0},
    {"fi_tsend, long", do_tsend_long, TAGGED, 0, 0, 0, 0, 0},
    {"fi_write", do_write, ACCESS, 0, 0, 1, 0, 1},
    {"fi_write, long", do_write_long, ACCESS, 0, 0, 1, 0, 1},
    {"fi_writev", do_writev, ACCESS, 0, 0, 1, 0, 1},
    {"fi_writemsg", do_writemsg, ACCESS, 0, 0, 1, 0, 1},
    {"fi_writemsg, two parts of a region", do_write_parts, ACCESS, 0, 0, 1, 0, 1},
    {"fi_writedata", do_writedata, ACCESS, REMOTE_ENTRY, 0, 1, 0, 1},
    {"fi_inject_write", do_inject_write, ACCESS, NO_ENTRY, 0, 1, 0, 1},
    {"fi_inject_writedata", do_inject_writedata, ACCESS, NO_ENTRY | REMOTE_ENTRY, 0, 1, 0, 1},
    {"fi_read", do_read, ACCESS, 0, 1, 0, 1, 0},
    {"fi_read, long", do_read_long, ACCESS, 0, 1, 0, 1, 0},
    {"fi_readv", do_readv, ACCESS, 0, 1, 0, 1, 0},
    {"fi_readmsg", do_readmsg, ACCESS, 0, 1, 0, 1, 0},
    {"fi_readmsg, two parts of a region", do_read_parts, ACCESS, 0, 1, 0, 1, 0},
    {"fi_atomic", do_atomic, ACCESS, 0, 0, 1, 0, 1},
    {"fi_atomic, write", do_atomic_write, ACCESS, 0, 0, 1, 0, 1},
    {"fi_atomicv", do_atomicv, ACCESS, 0, 0, 1, 0, 1},
    {"fi_atomicmsg", do_atomicmsg, ACCESS, 0, 0, 1, 0, 1},
    {"fi_inject_atomic", do_inject_atomic, ACCESS, NO_ENTRY, 0, 1, 0, 1},
    {"fi_fetch_atomic", do_fetch, ACCESS, 0, 1, 0, 1, 1},
    {"fi_fetch_atomic, write", do_fetch_write, ACCESS, 0, 1, 0, 1, 1},
    {"fi_fetch_atomic, read", do_fetch_read, ACCESS, 0, 1, 0, 1, 0},
    {"fi_fetch_atomicv", do_fetchv, ACCESS, 0, 1, 0, 1, 1},
    {"fi_fetch_atomicmsg", do_fetchmsg, ACCESS, 0, 1, 0, 1, 1},
    {"fi_compare_atomic", do_compare, ACCESS, 0, 1, 0, 1, 1},
    {"fi_compare_atomicv", do_comparev, ACCESS, 0, 1, 0, 1, 1},
    {"fi_compare_atomicmsg", do_comparemsg, ACCESS, 0, 1, 0, 1, 1},
};
#define ROWS (int)(sizeof rows / sizeof *rows)

/* Places of the expected counts. */
enum {
    A_SENT,
    A_RECEIVED,
    A_READ,
    A_WRITTEN,
    A_WAS_READ,
    A_WAS_WRITTEN,
    B_SENT,
    B_RECEIVED,
    B_READ,
    B_WRITTEN,
    B_WAS_READ,
    B_WAS_WRITTEN,
    MR_READ,
    MR_WRITTEN,
    PLACES
};
static const char *const places[] = {"initiator FI_SEND",     "initiator FI_RECV",        "initiator FI_READ",
                                     "initiator FI_WRITE",    "initiator FI_REMOTE_READ", "initiator FI_REMOTE_WRITE",
                                     "target FI_SEND",        "target FI_RECV",           "target FI_READ",
                                     "target FI_WRITE",       "target FI_REMOTE_READ",    "target FI_REMOTE_WRITE",
                                     "region FI_REMOTE_READ", "region FI_REMOTE_WRITE"};
static struct fid_cntr *region[2], *counters[PLACES];

static void begin(uint64_t flags)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_TABLE, flags);
    CHECK_ZERO(fi_mr_reg(domain, there, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL));
    for (int i = 0; i < 2; i++) {
        CHECK_ZERO(fi_cntr_open(domain, &attr, &region[i], NULL));
        CHECK_ZERO(fi_mr_bind(mr, &region[i]->fid, i ? FI_REMOTE_WRITE : FI_REMOTE_READ));
    }
    memcpy(counters,
           (struct fid_cntr *[]){a.sent, a.received, a.read, a.written, a.was_read, a.was_written, b.sent, b.received,
                                 b.read, b.written, b.was_read, b.was_written, region[0], region[1]},
           sizeof counters);
}

static void end(void)
{
    CHECK_ZERO(fi_close(&mr->fid));
    CHECK_ZERO(fi_close(&region[0]->fid));
    CHECK_ZERO(fi_close(&region[1]->fid));
    ends_close();
}

static void receive(int kind)
{
    if (kind == TAGGED)
        CHECK_ZERO(fi_trecv(b.ep, back, SIZE, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
    else if (kind == MESSAGE)
        CHECK_ZERO(fi_recv(b.ep, back, SIZE, NULL, FI_ADDR_UNSPEC, NULL));
}

static void expected_add(uint64_t expected[PLACES], const struct row *row)
{
    expected[A_SENT] += row->kind != ACCESS;
    expected[B_RECEIVED] += row->kind != ACCESS;
    expected[A_READ] += (unsigned)row->reads;
    expected[A_WRITTEN] += (unsigned)row->writes;
    expected[B_WAS_READ] += (unsigned)row->was_read;
    expected[MR_READ] += (unsigned)row->was_read;
    expected[B_WAS_WRITTEN] += (unsigned)row->was_written;
    expected[MR_WRITTEN] += (unsigned)row->was_written;
}

static void row_run(const struct row *row, uint64_t expected[PLACES])
{
    expected_add(expected, row);
    receive(row->kind);
    CHECK_INJECTED(row->start());
    for (int i = 0; i < PLACES; i++)
        while (fi_cntr_read(counters[i]) < expected[i]) /* both ends make progress meanwhile */
            fi_cntr_read(counters[i < B_SENT ? B_SENT : A_SENT]);
    for (int i = 0; i < PLACES; i++)
        if (!CHECK_EQ(fi_cntr_read(counters[i]), expected[i]))
            printf("# %s: %s\n", row->name, places[i]);
}

/* Read the entries of the row at both ends, and check their number. */
static void entries_read(const struct row *row, bool selective)
{
    struct fi_cq_tagged_entry entry;
    int sent = !(row->entries & NO_ENTRY), got = row->kind != ACCESS || row->entries & REMOTE_ENTRY;
    if (selective) /* an operation that requests no entry gets none; a peer's write is not an operation of the target */
        sent = strstr(row->name, "msg") != NULL, got = row->kind == ACCESS && row->entries & REMOTE_ENTRY;
    for (; sent; sent--)
        CHECK_EQ(next_entry(&a, &entry, NULL), 1);
    for (; got; got--)
        CHECK_EQ(next_entry(&b, &entry, NULL), 1);
    CHECK_EQ(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN);
    CHECK_EQ(fi_cq_read(b.cq, &entry, 1), -FI_EAGAIN);
}

static void table_run(uint64_t flags)
{
    uint64_t expected[PLACES] = {0};
    begin(flags);
    for (int i = 0; i < ROWS; i++) {
        row_run(&rows[i], expected);
        entries_read(&rows[i], flags & FI_SELECTIVE_COMPLETION);
    }
    end();
}

static void every_entry(void)
{
    table_run(0);
}

static void selective(void)
{
    table_run(FI_SELECTIVE_COMPLETION);
}

/* A refused operation is counted as an error at its initiator, and is not counted at its target. */
static void refused(void)
{
    uint64_t bad;
    begin(0);
    bad = key() + 1;
    CHECK_ZERO(fi_write(a.ep, here, 8, NULL, a.peer, at(0), bad, &context));
    expect_error(&a, FI_EACCES);
    CHECK_ZERO(fi_read(a.ep, back, 8, NULL, a.peer, at(0), bad, &context));
    expect_error(&a, FI_EACCES);
    CHECK_ZERO(fi_fetch_atomic(a.ep, here, 1, NULL, back, NULL, a.peer, at(0), bad, FI_UINT64, FI_SUM, &context));
    expect_error(&a, FI_EACCES);
    CHECK_EQ(fi_cntr_readerr(a.written), 1);
    CHECK_EQ(fi_cntr_readerr(a.read), 2);
    for (int i = 0; i < PLACES; i++)
        CHECK_EQ(fi_cntr_read(counters[i]), 0);
    end();
}

/* A counter that is bound for reads and writes counts an operation that is both once. */
static void one_for_both(void)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
    struct fid_cntr *both;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_TABLE, 0);
    CHECK_ZERO(fi_mr_reg(domain, there, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL));
    CHECK_ZERO(fi_cntr_open(domain, &attr, &both, NULL));
    CHECK_ZERO(fi_mr_bind(mr, &both->fid, FI_REMOTE_READ | FI_REMOTE_WRITE));
    CHECK_ZERO(do_fetch());
    expect_sent(&a, &context);
    count_to(b.was_written, 1);
    CHECK_EQ(fi_cntr_read(both), 1);
    CHECK_ZERO(do_read());
    expect_sent(&a, &context);
    count_to(b.was_read, 2);
    CHECK_EQ(fi_cntr_read(both), 2);
    CHECK_ZERO(fi_close(&mr->fid));
    CHECK_ZERO(fi_close(&both->fid));
    ends_close();
}

/* Reading a counter that is bound to a region only makes progress of the domain's endpoints. */
static void region_alone(void)
{
    begin(0);
    for (int i = 0; i < 2; i++) {
        uint64_t before = fi_cntr_read(region[1]);
        CHECK_INJECTED(do_inject_write());
        while (fi_cntr_read(region[1]) == before)
            ;
    }
    CHECK_EQ(fi_cntr_read(region[1]), 2);
    end();
}

const ofi_case_t ofi_counter_cases[] = {
    {"counters of all operations", every_entry},  {"counters of all operations, selective completion", selective},
    {"counters of what is refused", refused},     {"counters: one for both", one_for_both},
    {"counters of a region alone", region_alone}, {NULL, NULL}};
