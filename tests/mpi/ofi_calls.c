/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of libfabric over its provider mad: two endpoints of one process.  ofi_calls [basic]: memory of peers
 * only, with virtual addresses and the provider's keys. */
#define TEST_MAIN
#include "ofi_calls.h"

struct fi_info *hints_new(void)
{
    return hints_of(FI_TAGGED | FI_MSG);
}

/* ---- Two endpoints -------------------------------------------------------------------------------------------------- */

static void end_open(end_t *e, const struct fi_cq_attr *queue, const struct fi_cntr_attr *counter, enum fi_av_type type,
                     uint64_t flags)
{
    struct fi_cq_attr cq = *queue;
    struct fi_cntr_attr cntr = *counter;
    struct fi_av_attr av = {.type = type};
    static const uint64_t counted[] = {FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE};
    unsigned char start[10];
    struct fid_cntr **cntrs[] = {&e->sent, &e->received, &e->read, &e->written, &e->was_read, &e->was_written};
    memset(e, 0, sizeof *e);
    CHECK_ZERO(fi_endpoint(domain, info, &e->ep, NULL));
    CHECK_ZERO(fi_av_open(domain, &av, &e->av, NULL));
    CHECK_ZERO(fi_cq_open(domain, &cq, &e->cq, NULL));
    for (int i = 0; i < 6; i++)
        CHECK_ZERO(fi_cntr_open(domain, &cntr, cntrs[i], NULL));
    CHECK_EQ(fi_enable(e->ep), -FI_ENOCQ);
    CHECK_ZERO(fi_ep_bind(e->ep, &e->av->fid, 0));
    CHECK_ZERO(fi_ep_bind(e->ep, &e->cq->fid, FI_SEND | FI_RECV | flags));
    for (int i = 0; i < 6; i++)
        CHECK_ZERO(fi_ep_bind(e->ep, &(*cntrs[i])->fid, counted[i]));
    if (!CHECK_ZERO(fi_enable(e->ep)))
        exit(1); /* no test works without endpoints */
    e->name_len = 10;
    CHECK_EQ(fi_getname(&e->ep->fid, e->name, &e->name_len), -FI_ETOOSMALL);
    CHECK(e->name_len == NAME_LEN && !e->name[10]); /* the length of the whole name, which did not fit */
    memcpy(start, e->name, sizeof start);
    CHECK_ZERO(fi_getname(&e->ep->fid, e->name, &e->name_len));
    CHECK(!memcmp(start, e->name, sizeof start));
}

void ends_open_with(const struct fi_cq_attr *cq, const struct fi_cntr_attr *cntr, enum fi_av_type type, uint64_t flags)
{
    end_open(&a, cq, cntr, type, flags);
    end_open(&b, cq, cntr, type, flags);
    CHECK_EQ(fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL), 1);
    CHECK_EQ(fi_av_insert(a.av, a.name, 1, &a.self, 0, NULL), 1);
    CHECK_EQ(fi_av_insert(b.av, a.name, 1, &b.peer, 0, NULL), 1);
}

void ends_open(enum fi_cq_format format, enum fi_wait_obj wait, enum fi_av_type type, uint64_t flags)
{
    struct fi_cq_attr cq = {.format = format, .wait_obj = wait};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = wait};
    ends_open_with(&cq, &cntr, type, flags);
}

static void end_close(end_t *e)
{
    CHECK_EQ(fi_close(&e->cq->fid), e->ep ? -FI_EBUSY : 0);
    if (e->ep) {
        CHECK_ZERO(fi_close(&e->ep->fid));
        CHECK_ZERO(fi_close(&e->cq->fid));
    }
    CHECK_ZERO(fi_close(&e->av->fid));
    CHECK_ZERO(fi_close(&e->sent->fid));
    CHECK_ZERO(fi_close(&e->received->fid));
    CHECK_ZERO(fi_close(&e->read->fid));
    CHECK_ZERO(fi_close(&e->written->fid));
    CHECK_ZERO(fi_close(&e->was_read->fid));
    CHECK_ZERO(fi_close(&e->was_written->fid));
}

void ends_close(void)
{
    end_close(&a);
    end_close(&b);
}

ssize_t next_entry(end_t *e, void *entry, fi_addr_t *source)
{
    end_t *other = e == &a ? &b : &a;
    ssize_t n;
    while ((n = fi_cq_readfrom(e->cq, entry, 1, source)) == -FI_EAGAIN)
        fi_cq_read(other->cq, NULL, 0);
    return n;
}

void expect_sent(end_t *e, void *context)
{
    struct fi_cq_tagged_entry entry;
    if (CHECK_EQ(next_entry(e, &entry, NULL), 1))
        CHECK(entry.op_context == context && entry.flags & (FI_SEND | FI_READ | FI_WRITE));
}

struct fi_cq_err_entry expect_error(end_t *e, int err)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {.err = 0};
    CHECK_EQ(next_entry(e, &entry, NULL), -FI_EAVAIL);
    CHECK_EQ(fi_cq_readerr(e->cq, &error, 0), 1);
    CHECK_EQ(error.err, err);
    CHECK(fi_cq_strerror(e->cq, error.prov_errno, NULL, NULL, 0) != NULL);
    return error;
}

void count_to(struct fid_cntr *cntr, uint64_t value)
{
    while (fi_cntr_read(cntr) < value) {
        fi_cq_read(a.cq, NULL, 0);
        fi_cq_read(b.cq, NULL, 0);
    }
    CHECK_EQ(fi_cntr_read(cntr), value);
}

/* ---- All of them ---------------------------------------------------------------------------------------------------- */

static void run(const ofi_case_t *c, const char *mode)
{
    for (; c->name; c++) {
        int before = test_failures;
        test_begin(c->name, 60);
        c->run();
        printf("%s %s%s\n", test_failures == before ? "ok" : "not ok", c->name, mode);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    struct fi_info *h = hints_new();
    bool basic = argc > 1 && !strcmp(argv[1], "basic");
    const char *mode = basic ? ", memory basic" : "";
    h->caps |= FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV | FI_RMA | FI_ATOMIC | FI_RMA_EVENT;
    h->domain_attr->mr_mode = basic ? OLD_MR_BASIC : 0;
    test_begin("start", 60);
    if (!CHECK_ZERO(fi_getinfo(OFI_API, NULL, NULL, 0, h, &info)) ||
        !CHECK_ZERO(fi_fabric(info->fabric_attr, &fabric, NULL)) || !CHECK_ZERO(fi_domain(fabric, info, &domain, NULL)))
        return 1;
    if (!basic) {
        run(ofi_object_cases, mode);
        run(ofi_message_cases, mode);
        run(ofi_queue_cases, mode);
    }
    run(ofi_remote_cases, mode);
    run(ofi_atomic_cases, mode);
    run(ofi_counter_cases, mode);
    test_begin("end", 60);
    CHECK_EQ(fi_close(&fabric->fid), -FI_EBUSY);
    objects_close(h);
    test_end();
    return test_failures != 0;
}
