/* SPDX-License-Identifier: BSD-3-Clause */
/* Two endpoints of a domain that one thread uses, without counters and sources, as Open MPI has them.  Up to FEW
 * receives complete in the order of posting, errors among them, however many entries one call reads.  Of more messages,
 * some wait for room: each receive then completes once, in any order.  ofi_order [SEED] */
#define TEST_MAIN
#include "ofi_calls.h"

#include <time.h>

#define MOST 100
#define ROUNDS 3000

struct fi_info *hints_new(void)
{
    struct fi_info *h = hints_of(FI_TAGGED | FI_DIRECTED_RECV);
    h->domain_attr->threading = FI_THREAD_DOMAIN;
    return h;
}

static unsigned below(unsigned n)
{
    return (unsigned)rand() / 7 % n;
}

static void end_open(end_t *e)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    CHECK_ZERO(fi_endpoint(domain, info, &e->ep, NULL));
    CHECK_ZERO(fi_av_open(domain, &av, &e->av, NULL));
    CHECK_ZERO(fi_cq_open(domain, &cq, &e->cq, NULL));
    CHECK_ZERO(fi_ep_bind(e->ep, &e->av->fid, 0));
    CHECK_ZERO(fi_ep_bind(e->ep, &e->cq->fid, FI_SEND | FI_RECV));
    CHECK_ZERO(fi_enable(e->ep));
    e->name_len = sizeof e->name;
    CHECK_ZERO(fi_getname(&e->ep->fid, e->name, &e->name_len));
}

static void end_close(end_t *e)
{
    CHECK_ZERO(fi_close(&e->ep->fid));
    CHECK_ZERO(fi_close(&e->cq->fid));
    CHECK_ZERO(fi_close(&e->av->fid));
}

#define FEW 10 /* number of messages for which there is room at once */

/* A receive, and the message that matches this receive. */
typedef struct slot {
    uint64_t in[8];
    size_t room, len;
    bool completed;
} slot_t;
static slot_t slots[MOST];

/* Return the slot of the i-th completion of n, and check the order. */
static slot_t *slot_of(void *context, int i, int n)
{
    slot_t *s = context;
    if (!CHECK(s >= slots && s < slots + n && !s->completed && (n > FEW || s == slots + i)))
        return slots;
    s->completed = true;
    return s;
}

static void entry_check(const struct fi_cq_tagged_entry *e, int i, int n)
{
    slot_t *s = slot_of(e->op_context, i, n);
    i = (int)(s - slots);
    CHECK(e->flags == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA) && e->data == (uint64_t)i * 3 && e->buf == s->in);
    CHECK(e->len == s->len && s->len <= s->room && (!s->len || *(unsigned char *)s->in == (unsigned char)i));
}

/* Read some entries, and return their number. */
static int read_some(int i, int n)
{
    struct fi_cq_tagged_entry entries[MOST];
    struct fi_cq_err_entry error = {.err = 0};
    ssize_t got = fi_cq_read(b.cq, entries, 1 + below(12));
    if (got == -FI_EAVAIL) {
        slot_t *s;
        CHECK_EQ(fi_cq_readerr(b.cq, &error, 0), 1);
        CHECK_EQ(error.err, FI_ETRUNC);
        s = slot_of(error.op_context, i, n);
        CHECK(s->len > s->room && error.olen == s->len - s->room);
        return 1;
    }
    if (got == -FI_EAGAIN || !CHECK(got > 0 && got <= n - i))
        return 0;
    for (int k = 0; k < got; k++)
        entry_check(&entries[k], i + k, n);
    return (int)got;
}

/* Post n receives, with one tag for all or one for each, some of them too short; then send n messages. */
static void round_of(int n, bool one_tag)
{
    struct fi_cq_tagged_entry entry;
    unsigned char out[MOST][64];
    int done = 0, sent = 0;
    for (int i = 0; i < n; i++) {
        slots[i].room = below(6) ? sizeof slots[i].in : 4;
        slots[i].len = below(3) ? 8 : below(sizeof out[i] + 1);
        slots[i].completed = false;
        memset(out[i], i, sizeof out[i]);
        CHECK_ZERO(fi_trecv(b.ep, slots[i].in, slots[i].room, NULL, below(2) && !one_tag ? b.peer : FI_ADDR_UNSPEC,
                            one_tag ? 5 : i, 0, &slots[i]));
    }
    for (int i = 0; i < n; i++)
        CHECK_ZERO(fi_tsenddata(a.ep, out[i], slots[i].len, NULL, (uint64_t)i * 3, a.peer, one_tag ? 5 : i, out[i]));
    while ((done < n || sent < n) && !test_failures) {
        if (fi_cq_read(a.cq, &entry, 1) == 1)
            sent += CHECK(entry.flags == (FI_SEND | FI_TAGGED));
        done += done < n ? read_some(done, n) : 0;
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fi_cq_read(b.cq, &entry, 1), -FI_EAGAIN);
}

int main(int argc, char **argv)
{
    struct fi_info *h = hints_new();
    unsigned seed = argc > 1 ? (unsigned)atol(argv[1]) : (unsigned)time(NULL);
    srand(seed);
    test_begin("order of entries", 100);
    if (!CHECK_ZERO(fi_getinfo(OFI_API, NULL, NULL, 0, h, &info)) ||
        !CHECK_ZERO(fi_fabric(info->fabric_attr, &fabric, NULL)) || !CHECK_ZERO(fi_domain(fabric, info, &domain, NULL)))
        return 1;
    end_open(&a);
    end_open(&b);
    CHECK_EQ(fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL), 1);
    CHECK_EQ(fi_av_insert(b.av, a.name, 1, &b.peer, 0, NULL), 1);
    round_of(FEW + 1, false); /* the connection is not up, so these messages wait */
    for (int i = 0; i < ROUNDS && !test_failures; i++)
        round_of(1 + (int)below(below(10) ? FEW : MOST), below(2));
    printf("%s entries in order, seed %u\n", test_failures ? "not ok" : "ok", seed);
    end_close(&a);
    end_close(&b);
    objects_close(h);
    test_end();
    return test_failures != 0;
}
