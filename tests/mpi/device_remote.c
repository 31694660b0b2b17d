/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the other process: written, read and changed atomically, by both processes at the same time. */
#include "device_pair.h"

#define SIZE ((size_t)1 << 20)
#define KEY 9

static unsigned char memory[SIZE]; /* memory that the other process may access */
static atomic_int held;

static void *hold(void *arg, const mad_dev_target_t *t, mad_dev_access_t access, uint8_t op)
{
    (void)arg, (void)access, (void)op;
    if (t->key != KEY || t->address > SIZE || t->len > SIZE - t->address)
        return NULL;
    atomic_fetch_add(&held, 1);
    return memory + t->address;
}

static void drop(void *arg, const mad_dev_target_t *t, mad_dev_access_t access, uint8_t op, bool good)
{
    (void)arg, (void)t, (void)access, (void)op, (void)good;
    atomic_fetch_sub(&held, 1);
}

void device_memory_order(void)
{
    atomic_fetch_add(&held, 0);
}

static bool is_good(mad_dev_access_t access, uint8_t type, uint8_t op, size_t len, bool operand)
{
    (void)access;
    return type == 1 && op == 2 && len % 8 == 0 && operand;
}

/* The only atomic operation: a sum; with a comparison, a store if the values are equal. */
static void operate(uint8_t type, uint8_t op, void *target, size_t len, const void *operand, const void *compare,
                    void *result)
{
    (void)type, (void)op;
    for (size_t at = 0; at < len; at += 8) {
        uint64_t d, s, c;
        memcpy(&d, (char *)target + at, 8);
        memcpy(&s, (const char *)operand + at, 8);
        c = d;
        if (compare)
            memcpy(&c, (const char *)compare + at, 8);
        if (result)
            memcpy((char *)result + at, &d, 8);
        d += c == d ? s : 0;
        memcpy((char *)target + at, &d, 8);
    }
}

const mad_dev_memory_t device_memory = {.hold = hold, .drop = drop, .is_good = is_good, .operate = operate};

void access_to(side_t *s, mad_dev_remote_t what, uint64_t address, uint64_t key, void *buf, size_t len, result_t *r)
{
    mad_dev_target_t target = {address, len, key};
    struct iovec piece = {buf, len};
    mad_status_t status;
    *r = (result_t){.n = 0};
    what.to = s->peer;
    what.context = r;
    what.targets = &target;
    what.n_targets = 1;
    if (what.access == MAD_DEV_WRITE) {
        what.pieces = &piece;
        what.n = 1;
    } else if (what.access == MAD_DEV_READ) {
        what.results = &piece;
        what.n_results = 1;
    }
    while ((status = mad_dev_remote(s->dev, &what)) == MAD_ERR_AGAIN)
        mad_dev_progress(s->dev);
    CHECK_OK(status);
}

#define WRITE ((mad_dev_remote_t){.access = MAD_DEV_WRITE})
#define READ ((mad_dev_remote_t){.access = MAD_DEV_READ})

static void good(side_t *s, result_t *r)
{
    wait_for(s, r);
    CHECK_OK(r->done.status);
}

static void lengths(side_t *s)
{
    static const size_t all[] = {0, 1, 8, 4096, 4097, 20000, 33000, 65536, 200000, 900000};
    static unsigned char out[SIZE], in[SIZE];
    result_t w, r;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t len = all[i];
        fill(out, len, (uint64_t)s->who + i);
        memset(in, 0, sizeof in);
        access_to(s, WRITE, 77, KEY, out, len, &w);
        good(s, &w);
        access_to(s, READ, 77, KEY, in, len, &r);
        good(s, &r);
        CHECK(is_filled(in, len, (uint64_t)s->who + i) && in[len] == 0);
        meet(s);
        CHECK(is_filled(memory + 77, len, (uint64_t)(1 - s->who) + i));
        meet(s);
    }
}

/* Make many accesses of all lengths at once, buffered or not, and check that all data have arrived. */
static void many(side_t *s)
{
    enum { N = 200 };
    static unsigned char out[SIZE];
    static result_t w[N];
    size_t from = 0;
    fill(out, sizeof out, (uint64_t)s->who);
    memset(memory, 0, sizeof memory);
    meet(s);
    for (int i = 0; i < N; i++) {
        size_t len = (size_t)(i * 131 % 9000);
        unsigned char copy[9000];
        mad_dev_remote_t what = {.access = MAD_DEV_WRITE, .buffered = i % 2};
        memcpy(copy, out + from, len);
        access_to(s, what, from, KEY, what.buffered ? copy : out + from, len, &w[i]);
        memset(copy, 0, sizeof copy);
        from += len;
    }
    for (int i = 0; i < N; i++)
        good(s, &w[i]);
    meet(s);
    CHECK(is_filled(memory, from, (uint64_t)(1 - s->who)) && memory[from] == 0);
    meet(s);
}

static void refused(side_t *s)
{
    static unsigned char buf[100000];
    result_t r;
    memset(memory, 1, sizeof memory);
    meet(s);
    for (size_t len = 8; len <= sizeof buf; len += sizeof buf - 8) {
        access_to(s, WRITE, 0, KEY + 1, buf, len, &r);
        wait_for(s, &r);
        CHECK_STATUS(r.done.status, MAD_ERR_INVAL);
        access_to(s, WRITE, SIZE - len + 1, KEY, buf, len, &r);
        wait_for(s, &r);
        CHECK_STATUS(r.done.status, MAD_ERR_INVAL);
        access_to(s, READ, UINT64_MAX, KEY, buf, len, &r);
        wait_for(s, &r);
        CHECK_STATUS(r.done.status, MAD_ERR_INVAL);
    }
    meet(s);
    for (size_t i = 0; i < SIZE; i++)
        if (!CHECK_EQ(memory[i], 1))
            break;
    meet(s);
}

/* Both processes add to both memories; the previous contents show how often. */
static void atomics(side_t *s)
{
    enum { N = 500 };
    static result_t r[N], c;
    static uint64_t was[N], one = 1;
    mad_dev_target_t target = {8, 8, KEY};
    struct iovec operand = {&one, 8}, result, compare;
    uint64_t sum = 0, no = 3;
    mad_dev_remote_t what = {.to = s->peer,
                             .access = MAD_DEV_FETCH,
                             .targets = &target,
                             .n_targets = 1,
                             .pieces = &operand,
                             .n = 1,
                             .results = &result,
                             .n_results = 1,
                             .compares = &compare,
                             .type = 1,
                             .op = 2};
    memset(memory, 0, sizeof memory);
    meet(s);
    for (int i = 0; i < N; i++) {
        r[i] = (result_t){.n = 0};
        result = (struct iovec){&was[i], 8};
        what.context = &r[i];
        CHECK_OK(mad_dev_remote(s->dev, &what));
    }
    for (int i = 0; i < N; i++) {
        good(s, &r[i]);
        CHECK_EQ(was[i], i);
    }
    c = (result_t){.n = 0};
    compare = (struct iovec){&no, 8};
    what.access = MAD_DEV_COMPARE;
    what.n_compares = 1;
    what.context = &c;
    CHECK_OK(mad_dev_remote(s->dev, &what));
    good(s, &c);
    CHECK_EQ(was[N - 1], N);
    c = (result_t){.n = 0};
    what.op = 3;
    CHECK_OK(mad_dev_remote(s->dev, &what));
    wait_for(s, &c);
    CHECK_STATUS(c.done.status, MAD_ERR_INVAL);
    what.n_compares = 0;
    CHECK_STATUS(mad_dev_remote(s->dev, &what), MAD_ERR_INVAL);
    meet(s);
    memcpy(&sum, memory + 8, 8);
    CHECK_EQ(sum, N);
    while (atomic_load(&held)) /* the hold of a read ends with the report that the read is complete */
        mad_dev_progress(s->dev);
    meet(s);
}

const device_case_t device_remote_cases[] = {{"memory: lengths", lengths},
                                             {"memory: many", many},
                                             {"memory: refused", refused},
                                             {"memory: atomics", atomics},
                                             {NULL, NULL}};
