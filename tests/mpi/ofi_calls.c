/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of libfabric over its provider mad: two endpoints of one process, with queues that are read, or slept at. */
#define TEST_MAIN
#include "harness/test.h"

#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define API FI_VERSION(1, 11)

typedef struct end {
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_cntr *sent, *received;
    fi_addr_t peer, self;
    unsigned char name[256];
    size_t name_len;
} end_t;

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static end_t a, b;

#define CHECK_ZERO(x) CHECK_EQ((x), 0)

/* ---- What is offered ----------------------------------------------------------------------------------------------- */

static struct fi_info *hints_new(void)
{
    struct fi_info *h = fi_allocinfo();
    h->fabric_attr->prov_name = strdup("mad");
    h->caps = FI_TAGGED | FI_MSG;
    h->ep_attr->type = FI_EP_RDM;
    return h;
}

/* Ours and no layer upon ours. */
static int ask(struct fi_info *h)
{
    struct fi_info *found = NULL;
    int rc = fi_getinfo(API, NULL, NULL, 0, h, &found);
    if (rc == 0 && strcmp(found->fabric_attr->prov_name, "mad"))
        rc = -FI_ENODATA;
    fi_freeinfo(found);
    fi_freeinfo(h);
    return rc;
}

static void offers(void)
{
    struct fi_info *h = hints_new(), *found = NULL;
    CHECK_ZERO(ask(hints_new()));
#define REFUSED(change) (h = hints_new(), change, CHECK_EQ(ask(h), -FI_ENODATA))
#define OFFERED(change) (h = hints_new(), change, CHECK_EQ(ask(h), 0))
    fi_freeinfo(h);
    REFUSED(h->caps |= FI_RMA);
    REFUSED(h->caps |= FI_ATOMIC);
    REFUSED(h->caps |= FI_COLLECTIVE);
    REFUSED(h->caps |= FI_HMEM);
    REFUSED(h->ep_attr->type = FI_EP_MSG);
    REFUSED(h->ep_attr->type = FI_EP_DGRAM);
    REFUSED(h->ep_attr->tx_ctx_cnt = 2);
    REFUSED(h->ep_attr->max_msg_size = SIZE_MAX);
    REFUSED(h->tx_attr->msg_order = FI_ORDER_RAR);
    REFUSED(h->tx_attr->inject_size = 1 << 20);
    REFUSED(h->tx_attr->iov_limit = 100);
    REFUSED(h->domain_attr->cq_data_size = 16);
    REFUSED(h->addr_format = FI_SOCKADDR_IN);
    REFUSED(h->domain_attr->name = strdup("another"));
    OFFERED(h->caps |= FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM);
    OFFERED(h->tx_attr->msg_order = FI_ORDER_SAS);
    OFFERED(h->tx_attr->op_flags = FI_DELIVERY_COMPLETE);
    OFFERED(h->domain_attr->threading = FI_THREAD_DOMAIN);
    OFFERED(h->domain_attr->data_progress = FI_PROGRESS_AUTO);
    OFFERED(h->caps = 0);
    h = hints_new();
    CHECK_EQ(fi_getinfo(API, "127.0.0.1", NULL, 0, h, &found), -FI_ENODATA);
    fi_freeinfo(h);
}

/* ---- Two endpoints -------------------------------------------------------------------------------------------------- */

static void end_open(end_t *e, enum fi_cq_format format, enum fi_wait_obj wait, enum fi_av_type type, uint64_t flags)
{
    struct fi_cq_attr cq = {.format = format, .wait_obj = wait};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = wait};
    struct fi_av_attr av = {.type = type};
    memset(e, 0, sizeof *e);
    CHECK_ZERO(fi_endpoint(domain, info, &e->ep, NULL));
    CHECK_ZERO(fi_av_open(domain, &av, &e->av, NULL));
    CHECK_ZERO(fi_cq_open(domain, &cq, &e->cq, NULL));
    CHECK_ZERO(fi_cntr_open(domain, &cntr, &e->sent, NULL));
    CHECK_ZERO(fi_cntr_open(domain, &cntr, &e->received, NULL));
    CHECK_EQ(fi_enable(e->ep), -FI_ENOCQ);
    CHECK_ZERO(fi_ep_bind(e->ep, &e->av->fid, 0));
    CHECK_ZERO(fi_ep_bind(e->ep, &e->cq->fid, FI_SEND | FI_RECV | flags));
    CHECK_ZERO(fi_ep_bind(e->ep, &e->sent->fid, FI_SEND));
    CHECK_ZERO(fi_ep_bind(e->ep, &e->received->fid, FI_RECV));
    if (!CHECK_ZERO(fi_enable(e->ep)))
        exit(1); /* nothing works without */
    e->name_len = 10;
    CHECK_EQ(fi_getname(&e->ep->fid, e->name, &e->name_len), -FI_ETOOSMALL);
    CHECK(e->name_len <= FI_NAME_MAX);
    CHECK_ZERO(fi_getname(&e->ep->fid, e->name, &e->name_len));
}

static void ends_open(enum fi_cq_format format, enum fi_wait_obj wait, enum fi_av_type type, uint64_t flags)
{
    end_open(&a, format, wait, type, flags);
    end_open(&b, format, wait, type, flags);
    CHECK_EQ(fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL), 1);
    CHECK_EQ(fi_av_insert(a.av, a.name, 1, &a.self, 0, NULL), 1);
    CHECK_EQ(fi_av_insert(b.av, a.name, 1, &b.peer, 0, NULL), 1);
}

static void end_close(end_t *e)
{
    CHECK_EQ(fi_close(&e->cq->fid), -FI_EBUSY);
    CHECK_ZERO(fi_close(&e->ep->fid));
    CHECK_ZERO(fi_close(&e->cq->fid));
    CHECK_ZERO(fi_close(&e->av->fid));
    CHECK_ZERO(fi_close(&e->sent->fid));
    CHECK_ZERO(fi_close(&e->received->fid));
}

/* The next entry of an end; the other goes on meanwhile. */
static ssize_t next(end_t *e, void *entry, fi_addr_t *source)
{
    end_t *other = e == &a ? &b : &a;
    ssize_t n;
    while ((n = fi_cq_readfrom(e->cq, entry, 1, source)) == -FI_EAGAIN)
        fi_cq_read(other->cq, NULL, 0);
    return n;
}

static void expect_sent(end_t *e, void *context)
{
    struct fi_cq_tagged_entry entry;
    if (CHECK_EQ(next(e, &entry, NULL), 1))
        CHECK(entry.op_context == context && entry.flags & FI_SEND);
}

static struct fi_cq_err_entry expect_error(end_t *e, int err)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {.err = 0};
    CHECK_EQ(next(e, &entry, NULL), -FI_EAVAIL);
    CHECK_EQ(fi_cq_readerr(e->cq, &error, 0), 1);
    CHECK_EQ(error.err, err);
    CHECK(fi_cq_strerror(e->cq, error.prov_errno, NULL, NULL, 0) != NULL);
    return error;
}

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
        CHECK_EQ(next(&b, &entry, &source), 1);
        CHECK(entry.op_context == &contexts[1] && entry.flags & FI_RECV && entry.flags & FI_TAGGED);
        CHECK(entry.flags & FI_REMOTE_CQ_DATA && entry.data == (UINT64_C(1) << 40 | i));
        CHECK(entry.len == sizes[i] && entry.tag == 0x500 + i && source == b.peer);
        CHECK(!memcmp(in, out, sizes[i]));
        expect_sent(&a, &contexts[0]);
    }
    CHECK_ZERO(fi_tinject(a.ep, &word, 8, a.self, 9));
    CHECK_ZERO(fi_trecv(a.ep, in, 8, NULL, a.self, 9, 0, NULL));
    CHECK_EQ(next(&a, &entry, &source), 1);
    CHECK(source == a.self && !memcmp(in, &word, 8));
    CHECK_EQ(fi_tinject(a.ep, out, sizeof out, a.peer, 1), -FI_EINVAL);
    CHECK_EQ(fi_tsend(a.ep, out, 8, NULL, 1000, 1, NULL), -FI_EINVAL);
    CHECK_EQ(fi_cntr_read(a.sent), 8);
    CHECK_EQ(fi_cntr_read(b.received), 7);
    end_close(&a);
    end_close(&b);
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
    CHECK_EQ(fi_read(a.ep, in, 1, NULL, a.peer, 0, 0, NULL), -FI_ENOSYS);
    CHECK_EQ(fi_connect(a.ep, b.name, NULL, 0), -FI_ENOSYS);
    CHECK_EQ(fi_cntr_readerr(b.received), 4 + 1);
    end_close(&a);
    end_close(&b);
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
        CHECK_ZERO(fi_tinjectdata(a.ep, &out, 8, out, a.peer, 3));
    do { /* it is on its way */
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
    CHECK_EQ(next(&b, &entry, NULL), 1);
    CHECK(word == 44 && entry.op_context == &m);
    m.context = &c;
    CHECK_ZERO(fi_trecvmsg(b.ep, &m, FI_CLAIM));
    CHECK_EQ(next(&b, &entry, NULL), 1);
    CHECK(word == 42 && entry.op_context == &c);
    CHECK(fi_trecvmsg(b.ep, &m, FI_CLAIM) != 0);
    end_close(&a);
    end_close(&b);
}

static void multi_receive(void)
{
    enum { N = 50 };
    static unsigned char buffer[4000], out[100];
    size_t least = 1000, len = sizeof least, at = 0;
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
        CHECK_ZERO(fi_inject(a.ep, out, sizeof out, a.peer));
    }
    for (; !(entry.flags & FI_MULTI_RECV) && test_failures == 0; n++, at += 100) {
        CHECK_EQ(next(&b, &entry, NULL), 1);
        CHECK(entry.op_context == buffer && entry.buf == buffer + at && entry.len == 100 && buffer[at] == n);
    }
    CHECK_EQ(n, 31); /* then less than 1000 bytes are left */
    end_close(&a);
    end_close(&b);
}

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
    end_close(&a);
    end_close(&b);
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
    end_close(&a);
    end_close(&b);
}

static void addresses(void)
{
    unsigned char names[3][256], back[256];
    fi_addr_t at[3];
    size_t len = sizeof back;
    char text[64];
    uint64_t word = 1;
    ends_open(FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE, FI_AV_TABLE, 0);
    memcpy(&names[0][0], b.name, b.name_len);
    memset(&names[0][b.name_len], 0xee, b.name_len);
    memcpy(&names[0][2 * b.name_len], a.name, a.name_len);
    CHECK_EQ(fi_av_insert(a.av, names, 3, at, 0, NULL), 2);
    CHECK(at[0] == 2 && at[1] == FI_ADDR_NOTAVAIL && at[2] == 4);
    CHECK_ZERO(fi_av_lookup(a.av, at[0], back, &len));
    CHECK(len == b.name_len && !memcmp(back, b.name, len));
    len = sizeof text;
    CHECK(fi_av_straddr(a.av, back, text, &len) != NULL);
    CHECK(!strncmp(text, "mad://", 6));
    CHECK_ZERO(fi_av_remove(a.av, &at[0], 1, 0));
    CHECK_EQ(fi_inject(a.ep, &word, 8, at[0]), -FI_EINVAL);
    CHECK_EQ(fi_av_remove(a.av, &at[0], 1, 0), -FI_EINVAL);
    CHECK_ZERO(fi_inject(a.ep, &word, 8, a.peer));
    end_close(&a);
    end_close(&b);
}

static void events(void)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_eq *eq;
    struct fi_eq_entry in = {.data = 7}, out;
    uint32_t kind = 0;
    CHECK_ZERO(fi_eq_open(fabric, &attr, &eq, NULL));
    CHECK_EQ(fi_eq_sread(eq, &kind, &out, sizeof out, 20, 0), -FI_EAGAIN);
    CHECK_EQ(fi_eq_write(eq, FI_NOTIFY, &in, sizeof in, 0), sizeof in);
    CHECK_EQ(fi_eq_read(eq, &kind, &out, 1, 0), -FI_ETOOSMALL);
    CHECK_EQ(fi_eq_sread(eq, &kind, &out, sizeof out, -1, 0), sizeof in);
    CHECK(kind == FI_NOTIFY && out.data == 7);
    CHECK_ZERO(fi_close(&eq->fid));
}

static void tagged_table(void)
{
    tagged(FI_AV_TABLE);
}

static void tagged_map(void)
{
    tagged(FI_AV_MAP);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"offers and refusals", offers}, {"tagged, address table", tagged_table}, {"tagged, address map", tagged_map},
                 {"errors", errors}, {"probes", probes}, {"multi-receive", multi_receive}, {"selective completion", selective},
                 {"sleeping", sleeping}, {"addresses", addresses}, {"event queue", events}};
    struct fi_info *h = hints_new();
    h->caps |= FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV;
    test_begin("start", 60);
    if (!CHECK_ZERO(fi_getinfo(API, NULL, NULL, 0, h, &info)) || !CHECK_ZERO(fi_fabric(info->fabric_attr, &fabric, NULL)) ||
        !CHECK_ZERO(fi_domain(fabric, info, &domain, NULL)))
        return 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int before = test_failures;
        test_begin(cases[i].name, 60);
        cases[i].run();
        printf("%s %s\n", test_failures == before ? "ok" : "not ok", cases[i].name);
        fflush(stdout);
    }
    test_begin("end", 60);
    CHECK_EQ(fi_close(&fabric->fid), -FI_EBUSY);
    CHECK_ZERO(fi_close(&domain->fid));
    CHECK_ZERO(fi_close(&fabric->fid));
    fi_freeinfo(info);
    fi_freeinfo(h);
    test_end();
    return test_failures != 0;
}
