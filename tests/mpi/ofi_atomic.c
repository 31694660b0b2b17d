/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations: every supported operation on every supported type, compared with results computed here, by all
 * calls. */
#include "ofi_calls.h"

#include <complex.h>

static unsigned char there[8192];
static struct fid_mr *mr;

static uint64_t at(size_t offset)
{
    return offset + (info->domain_attr->mr_mode & OLD_MR_BASIC ? (uintptr_t)there : 0);
}

static void begin(void)
{
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_AV_TABLE, 0);
    CHECK_ZERO(fi_mr_reg(domain, there, sizeof there, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL));
}

static void end(void)
{
    CHECK_ZERO(fi_close(&mr->fid));
    ends_close();
}

/* ---- Types and operations ------------------------------------------------------------------------------------------- */

/* Small whole numbers in each type, so that the expected result can be computed in integers. */
/* clang-format off */
#define TYPES(X)                                                                                                         \
    X(FI_INT8, int8_t) X(FI_UINT8, uint8_t) X(FI_INT16, int16_t) X(FI_UINT16, uint16_t) X(FI_INT32, int32_t)             \
    X(FI_UINT32, uint32_t) X(FI_INT64, int64_t) X(FI_UINT64, uint64_t) X(FI_FLOAT, float) X(FI_DOUBLE, double)           \
    X(FI_FLOAT_COMPLEX, float complex) X(FI_DOUBLE_COMPLEX, double complex) X(FI_LONG_DOUBLE, long double)               \
    X(FI_LONG_DOUBLE_COMPLEX, long double complex)
/* clang-format on */

static size_t put(enum fi_datatype type, void *to, long value)
{
    switch (type) {
#define PUT(name, T) \
    case name: memcpy(to, &(T){(T)value}, sizeof(T)); return sizeof(T);
        TYPES(PUT)
    default: return 0;
    }
}

static long get(enum fi_datatype type, const void *from)
{
    switch (type) {
#define GET(name, T) \
    case name: { \
        T value; \
        memcpy(&value, from, sizeof value); \
        return (long)value; \
    }
        TYPES(GET)
    default: return 0;
    }
}

static long expected(enum fi_op op, long d, long s, long c)
{
    switch (op) {
    case FI_MIN: return s < d ? s : d;
    case FI_MAX: return s > d ? s : d;
    case FI_SUM: return d + s;
    case FI_PROD: return d * s;
    case FI_LOR: return d || s;
    case FI_LAND: return d && s;
    case FI_BOR: return d | s;
    case FI_BAND: return d & s;
    case FI_LXOR: return !d != !s;
    case FI_BXOR: return d ^ s;
    case FI_ATOMIC_READ: return d;
    case FI_ATOMIC_WRITE: return s;
    case FI_CSWAP: return c == d ? s : d;
    case FI_CSWAP_NE: return c != d ? s : d;
    case FI_CSWAP_LE: return c <= d ? s : d;
    case FI_CSWAP_LT: return c < d ? s : d;
    case FI_CSWAP_GE: return c >= d ? s : d;
    case FI_CSWAP_GT: return c > d ? s : d;
    default: /* FI_MSWAP */ return (s & c) | (d & ~c);
    }
}

/* One operation by one kind of call, on two elements. */
static void operate(uint64_t kind, enum fi_datatype type, enum fi_op op, long d, long s, long c)
{
    unsigned char operand[64], compare[64], result[64] = {0};
    uint64_t key = fi_mr_key(mr);
    size_t size = 0;
    ssize_t rc;
    for (int i = 0; i < 2; i++) {
        size = put(type, operand + (size_t)i * size, s + i);
        put(type, compare + (size_t)i * size, c);
        put(type, there + 1 + (size_t)i * size, d + 2 * i);
    }
    if (kind == FI_COMPARE_ATOMIC)
        rc = fi_compare_atomic(a.ep, operand, 2, NULL, compare, NULL, result, NULL, a.peer, at(1), key, type, op, NULL);
    else if (kind == FI_FETCH_ATOMIC)
        rc = fi_fetch_atomic(a.ep, op == FI_ATOMIC_READ ? NULL : operand, 2, NULL, result, NULL, a.peer, at(1), key, type,
                             op, NULL);
    else
        rc = fi_atomic(a.ep, operand, 2, NULL, a.peer, at(1), key, type, op, NULL);
    CHECK_ZERO(rc);
    expect_sent(&a, NULL);
    for (int i = 0; i < 2; i++) {
        long want = expected(op, d + 2 * i, s + i, c), got = get(type, there + 1 + (size_t)i * size);
        CHECK_MSG(got == want, "type %d, operation %d on %ld, %ld, %ld: %ld, not %ld", type, op, d + 2 * i, s + i, c, got,
                  want);
        if (kind)
            CHECK_EQ(get(type, result + (size_t)i * size), d + 2 * i);
    }
}

/* Every kind of operation that fi_query_atomic offers works, and no other one.  The number of offered kinds is known. */
static void all_kinds(void)
{
    static const uint64_t kinds[] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};
    int n[3] = {0};
    begin();
    for (size_t k = 0; k < 3; k++)
        for (int type = 0; type < FI_DATATYPE_LAST; type++)
            for (int op = 0; op < FI_ATOMIC_OP_LAST; op++) {
                struct fi_atomic_attr attr;
                uint64_t word = 0;
                if (fi_query_atomic(domain, type, op, &attr, kinds[k])) {
                    if (!kinds[k])
                        CHECK_EQ(fi_atomic(a.ep, &word, 1, NULL, a.peer, at(0), 5, type, op, NULL), -FI_EOPNOTSUPP);
                    continue;
                }
                n[k]++;
                CHECK_EQ(attr.size, put(type, there, 0));
                CHECK_EQ(attr.count, 4096 / attr.size);
                operate(kinds[k], type, op, 5, 3, 5);
                operate(kinds[k], type, op, 3, 5, 4);
                operate(kinds[k], type, op, 0, 6, 7);
            }
    CHECK_EQ(n[0], 8 * 11 + 3 * 8 + 3 * 6);
    CHECK_EQ(n[1], 8 * 12 + 3 * 9 + 3 * 7);
    CHECK_EQ(n[2], 8 * 7 + 3 * 6 + 3 * 2);
    end();
}

/* ---- Calls ---------------------------------------------------------------------------------------------------------- */

static void forms(void)
{
    uint32_t word[4] = {1, 2, 3, 4}, was[4] = {0}, now[8] = {10, 20, 30, 40, 50, 60, 70, 80};
    struct fi_ioc operand[2] = {{word, 1}, {word + 1, 3}}, result[2] = {{was, 2}, {was + 2, 2}};
    struct fi_rma_ioc rma[2] = {{at(0), 3, 0}, {at(20), 1, 0}};
    struct fi_msg_atomic m = {.msg_iov = operand,
                              .iov_count = 2,
                              .rma_iov = rma,
                              .rma_iov_count = 2,
                              .datatype = FI_UINT32,
                              .op = FI_SUM,
                              .context = &m};
    struct fi_cq_tagged_entry entry;
    size_t count = 0;
    begin();
    memcpy(there, now, sizeof now);
    rma[0].key = rma[1].key = fi_mr_key(mr);
    m.addr = a.peer;
    CHECK_ZERO(fi_fetch_atomicmsg(a.ep, &m, result, NULL, 2, FI_COMPLETION));
    expect_sent(&a, &m);
    CHECK(was[0] == 10 && was[1] == 20 && was[2] == 30 && was[3] == 60);
    memcpy(now, there, sizeof now);
    CHECK(now[0] == 11 && now[1] == 22 && now[2] == 33 && now[3] == 40 && now[4] == 50 && now[5] == 64);
    CHECK_ZERO(fi_atomicmsg(a.ep, &m, FI_COMPLETION));
    expect_sent(&a, &m);
    memcpy(now, there, sizeof now);
    CHECK(now[0] == 12 && now[2] == 36 && now[5] == 68);
    CHECK_ZERO(fi_atomicv(a.ep, operand, NULL, 2, a.peer, at(0), fi_mr_key(mr), FI_UINT32, FI_ATOMIC_WRITE, &m));
    expect_sent(&a, &m);
    CHECK(!memcmp(there, word, sizeof word));
    m.op = FI_CSWAP;
    m.rma_iov_count = 1;
    rma[0].count = 4;
    now[0] = 1, now[1] = 9, now[2] = 3, now[3] = 9;
    CHECK_ZERO(fi_compare_atomicmsg(a.ep, &m, (struct fi_ioc[]){{now, 4}}, NULL, 1, result, NULL, 2, FI_COMPLETION));
    expect_sent(&a, &m);
    CHECK(!memcmp(was, word, sizeof was));
    CHECK_ZERO(fi_inject_atomic(a.ep, word, 4, a.peer, at(0), fi_mr_key(mr), FI_UINT32, FI_PROD));
    count_to(a.written, 3);
    memcpy(now, there, sizeof now);
    CHECK(now[0] == 1 && now[1] == 4 && now[2] == 9 && now[3] == 16);
    CHECK_EQ(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN);
    CHECK_EQ(fi_cntr_read(a.read), 2);
    CHECK_ZERO(fi_atomicvalid(a.ep, FI_UINT32, FI_SUM, &count));
    CHECK_EQ(count, 1024);
    CHECK_EQ(fi_fetch_atomicvalid(a.ep, FI_DOUBLE, FI_BOR, &count), -FI_EOPNOTSUPP);
    CHECK_EQ(fi_compare_atomicvalid(a.ep, FI_DOUBLE, FI_SUM, &count), -FI_EOPNOTSUPP);
    CHECK_EQ(fi_atomic(a.ep, there, 1025, NULL, a.peer, at(0), fi_mr_key(mr), FI_UINT32, FI_SUM, NULL), -FI_EINVAL);
    CHECK_ZERO(fi_atomic(a.ep, word, 4, NULL, a.peer, at(sizeof there - 15), fi_mr_key(mr), FI_UINT32, FI_SUM, NULL));
    expect_error(&a, FI_EACCES);
    end();
}

/* Two endpoints add to one word at the same time: no sum is lost, and no previous content occurs twice. */
static void atomically(void)
{
    enum { N = 3000 };
    static uint64_t was[2][N];
    static bool seen[2 * N];
    uint64_t one = 1, sum = 0;
    int done = 0;
    begin();
    memset(there, 0, 8);
    for (int i = 0; i < N; i++) {
        uint64_t key = fi_mr_key(mr);
        CHECK_ZERO(fi_fetch_atomic(a.ep, &one, 1, NULL, &was[0][i], NULL, a.peer, at(0), key, FI_UINT64, FI_SUM, NULL));
        CHECK_ZERO(fi_fetch_atomic(b.ep, &one, 1, NULL, &was[1][i], NULL, b.peer, at(0), key, FI_UINT64, FI_SUM, NULL));
    }
    for (; done < N; done++) {
        expect_sent(&a, NULL);
        expect_sent(&b, NULL);
    }
    memcpy(&sum, there, 8);
    CHECK_EQ(sum, 2 * N);
    for (int i = 0; i < 2 * N; i++) {
        uint64_t w = was[i & 1][i >> 1];
        if (CHECK(w < 2 * N && !seen[w]))
            seen[w] = true;
    }
    end();
}

const ofi_case_t ofi_atomic_cases[] = {{"atomic: all types and operations", all_kinds},
                                       {"atomic: forms", forms},
                                       {"atomic: atomically", atomically},
                                       {NULL, NULL}};
