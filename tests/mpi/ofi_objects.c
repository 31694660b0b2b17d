/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints that are accepted and refused; addresses; event queues. */
#include "ofi_calls.h"

/* Call fi_getinfo.  Only offers of this provider count, and none of a provider layered on it. */
static int ask(struct fi_info *h)
{
    struct fi_info *found = NULL;
    int rc = fi_getinfo(OFI_API, NULL, NULL, 0, h, &found);
    if (rc == 0 && strcmp(found->fabric_attr->prov_name, "mad"))
        rc = -FI_ENODATA;
    fi_freeinfo(found);
    fi_freeinfo(h);
    return rc;
}

static void offers(void)
{
    struct fi_info *h = hints_new();
    CHECK_ZERO(ask(hints_new()));
#define REFUSED(change) (h = hints_new(), change, CHECK_EQ(ask(h), -FI_ENODATA))
#define OFFERED(change) (h = hints_new(), change, CHECK_EQ(ask(h), 0))
    fi_freeinfo(h);
    REFUSED(h->caps |= FI_COLLECTIVE);
    REFUSED(h->caps |= FI_HMEM);
    REFUSED(h->ep_attr->type = FI_EP_MSG);
    REFUSED(h->ep_attr->type = FI_EP_DGRAM);
    REFUSED(h->ep_attr->tx_ctx_cnt = 2);
    REFUSED(h->ep_attr->max_msg_size = SIZE_MAX);
    REFUSED(h->tx_attr->msg_order = FI_ORDER_SAW);
    REFUSED(h->tx_attr->comp_order = OLD_ORDER_STRICT);
    REFUSED(h->rx_attr->comp_order = OLD_ORDER_STRICT);
    REFUSED(h->ep_attr->max_order_raw_size = 1 << 20);
    REFUSED(h->tx_attr->rma_iov_limit = 100);
    REFUSED(h->caps |= FI_FENCE);
    REFUSED(h->domain_attr->mr_iov_limit = 2);
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
    OFFERED(h->caps |= FI_RMA | FI_ATOMIC | FI_RMA_EVENT);
    OFFERED(h->caps = FI_RMA | FI_READ | FI_REMOTE_WRITE);
    OFFERED((h->tx_attr->msg_order = FI_ORDER_RAR | FI_ORDER_ATOMIC_WAW, h->ep_attr->max_order_raw_size = 1024));
    OFFERED(h->domain_attr->mr_mode = OLD_MR_BASIC);
    OFFERED(h->domain_attr->mr_mode = OLD_MR_SCALABLE);
    OFFERED(h->caps = 0);
#undef REFUSED
#undef OFFERED
}

/* The address at which fi_getinfo places an endpoint: any address of the length of a name.  A node, if given, must name this
 * host. */
static void sources(void)
{
    static const struct {
        const char *node, *service;
        uint64_t flags;
        int rc;
    } rows[] = {
        {NULL, NULL, 0, 0},
        {NULL, "5000", FI_SOURCE, 0},
        {"127.0.0.1", NULL, FI_SOURCE, 0},
        {"127.0.0.1", "5000", FI_SOURCE | FI_NUMERICHOST, 0},
        {"localhost", "5000", FI_SOURCE, 0},
        {"192.0.2.1", NULL, FI_SOURCE, -FI_ENODATA}, /* no host has this address */
        {"localhost", NULL, FI_SOURCE | FI_NUMERICHOST, -FI_ENODATA},
        {"127.0.0.1", NULL, 0, -FI_ENODATA},
        {"127.0.0.1", "5000", 0, -FI_ENODATA},
    };
    static const unsigned char any[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fi_info *h = hints_new(), *found = NULL;
        if (!CHECK_EQ(fi_getinfo(OFI_API, rows[i].node, rows[i].service, rows[i].flags, h, &found), rows[i].rc))
            printf("# node %s, service %s\n", rows[i].node, rows[i].service);
        if (found) {
            CHECK(found->src_addrlen == NAME_LEN);
            CHECK(found->src_addr && !memcmp(found->src_addr, any, found->src_addrlen));
            CHECK(!found->dest_addr && !found->dest_addrlen);
        }
        fi_freeinfo(h);
        fi_freeinfo(found);
    }
}

/* An offer of fi_getinfo can be requested again, with its source, and with a destination. */
static void offered_again(void)
{
    struct fi_info *h, *found = NULL;
    h = fi_dupinfo(info);
    CHECK(h->src_addrlen > 0);
    h->dest_addr = calloc(1, h->src_addrlen);
    h->dest_addrlen = h->src_addrlen;
    memset(h->dest_addr, 7, h->dest_addrlen);
    if (CHECK_ZERO(fi_getinfo(OFI_API, NULL, NULL, 0, h, &found))) {
        CHECK(found->src_addrlen == h->src_addrlen && found->dest_addrlen == h->dest_addrlen);
        CHECK(!memcmp(found->dest_addr, h->dest_addr, h->dest_addrlen));
    }
    fi_freeinfo(found);
    found = NULL;
    *(char *)h->src_addr = 1; /* an endpoint does not choose its name */
    CHECK_EQ(fi_getinfo(OFI_API, NULL, NULL, 0, h, &found), -FI_ENODATA);
    fi_freeinfo(h);
}

/* Capabilities of sending and receiving belong to endpoints.  Which peers can be reached belongs to the domain
 * (fi_endpoint(3)). */
static void capabilities(void)
{
    const uint64_t reach = FI_LOCAL_COMM | FI_REMOTE_COMM;
    struct fi_info *h = hints_new(), *found = NULL;
    for (int i = 0; i < 3; i++) {
        h->caps = i == 0 ? 0 : i == 1 ? FI_MSG | FI_RMA : FI_TAGGED | reach;
        if (!CHECK_ZERO(fi_getinfo(OFI_API, NULL, NULL, 0, h, &found)))
            break;
        CHECK(!((found->tx_attr->caps | found->rx_attr->caps) & reach));
        CHECK_EQ(found->domain_attr->caps & reach, reach);
        CHECK(!(found->tx_attr->caps & (FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SOURCE | FI_DIRECTED_RECV)));
        CHECK(!(found->rx_attr->caps & (FI_SEND | FI_READ | FI_WRITE)));
        CHECK(!((found->tx_attr->caps | found->rx_attr->caps) & ~found->caps));
        CHECK(!(h->caps & ~found->caps));
        fi_freeinfo(found);
        found = NULL;
    }
    fi_freeinfo(h);
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
    CHECK_INJECTED(fi_inject(a.ep, &word, 8, a.peer));
    ends_close();
}

/* Return the source of the next message, for an end whose peer is at this address. */
static fi_addr_t source_of_next(void)
{
    struct fi_cq_tagged_entry entry;
    uint64_t word = 1, in = 0;
    fi_addr_t source = 1000;
    CHECK_ZERO(fi_trecv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
    CHECK_ZERO(fi_tsend(a.ep, &word, 8, NULL, a.peer, 1, NULL));
    CHECK_EQ(next_entry(&b, &entry, &source), 1);
    expect_sent(&a, NULL);
    CHECK_EQ(in, 1);
    return source;
}

/* Remove an address and insert it again; insert one several times and remove one of these entries.  The source is one of the
 * inserted addresses. */
static void again(enum fi_av_type type)
{
    fi_addr_t second, third;
    uint64_t in;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, type, 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(source_of_next(), b.peer);
        CHECK_ZERO(fi_av_remove(b.av, &b.peer, 1, 0));
        CHECK_EQ(source_of_next(), FI_ADDR_NOTAVAIL);
        CHECK_EQ(fi_av_insert(b.av, a.name, 1, &b.peer, 0, NULL), 1);
    }
    CHECK_EQ(fi_av_insert(b.av, a.name, 1, &second, 0, NULL), 1);
    CHECK_EQ(fi_av_insert(b.av, a.name, 1, &third, 0, NULL), 1);
    CHECK_EQ(source_of_next(), b.peer);
    CHECK_ZERO(fi_av_remove(b.av, &b.peer, 1, 0));
    CHECK_EQ(fi_recv(b.ep, &in, 8, NULL, b.peer, NULL), -FI_EINVAL);
    CHECK_EQ(source_of_next(), second);
    CHECK_ZERO(fi_av_remove(b.av, &third, 1, 0));
    CHECK_EQ(source_of_next(), second);
    CHECK_ZERO(fi_av_remove(b.av, &second, 1, 0));
    CHECK_EQ(source_of_next(), FI_ADDR_NOTAVAIL);
    ends_close();
}

static void again_in_table(void)
{
    again(FI_AV_TABLE);
}

static void again_in_map(void)
{
    again(FI_AV_MAP);
}

/* An endpoint that only accesses memory, or only provides some, needs no queue for messages.  event: FI_RMA_EVENT, or 0 if
 * nothing is counted. */
static void memory_alone(uint64_t event)
{
    struct fi_info *h = hints_new(), *writes = NULL, *has = NULL;
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
    unsigned char name[256];
    size_t len = sizeof name;
    uint64_t word = 6, there = 0;
    struct fi_cq_entry entry;
    struct fid_cntr *written;
    struct fid_ep *from, *to;
    struct fid_mr *mr;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t at;
    h->caps = FI_RMA | FI_WRITE;
    CHECK_ZERO(fi_getinfo(OFI_API, NULL, NULL, 0, h, &writes));
    h->caps = FI_RMA | FI_REMOTE_WRITE | event;
    CHECK_ZERO(fi_getinfo(OFI_API, NULL, NULL, 0, h, &has));
    CHECK(!((writes->caps | has->caps) & (FI_SEND | FI_RECV)));
    CHECK_ZERO(fi_endpoint(domain, writes, &from, NULL));
    CHECK_ZERO(fi_endpoint(domain, has, &to, NULL));
    CHECK_ZERO(fi_av_open(domain, &av_attr, &av, NULL));
    CHECK_ZERO(fi_cq_open(domain, &cq_attr, &cq, NULL));
    CHECK_ZERO(fi_cntr_open(domain, &cntr_attr, &written, NULL));
    CHECK_ZERO(fi_ep_bind(from, &av->fid, 0));
    CHECK_ZERO(fi_ep_bind(from, &cq->fid, FI_TRANSMIT));
    CHECK_ZERO(fi_ep_bind(to, &av->fid, 0));
    CHECK_ZERO(fi_ep_bind(to, &written->fid, FI_REMOTE_WRITE));
    if (CHECK_ZERO(fi_enable(from)) && CHECK_ZERO(fi_enable(to)) && CHECK_ZERO(fi_getname(&to->fid, name, &len))) {
        CHECK_EQ(fi_av_insert(av, name, 1, &at, 0, NULL), 1);
        CHECK_ZERO(fi_mr_reg(domain, &there, 8, FI_REMOTE_WRITE, 0, 9, 0, &mr, NULL));
        CHECK_ZERO(fi_write(from, &word, 8, NULL, at, 0, 9, &word));
        while (fi_cq_read(cq, &entry, 1) == -FI_EAGAIN)
            fi_cntr_read(written);
        CHECK(there == 6 && entry.op_context == &word);
        CHECK_EQ(fi_cntr_read(written), event != 0);
        CHECK_ZERO(fi_close(&mr->fid));
    }
    CHECK_ZERO(fi_close(&from->fid));
    CHECK_ZERO(fi_close(&to->fid));
    CHECK_ZERO(fi_close(&written->fid));
    CHECK_ZERO(fi_close(&cq->fid));
    CHECK_ZERO(fi_close(&av->fid));
    fi_freeinfo(writes);
    fi_freeinfo(has);
    fi_freeinfo(h);
}

static void memory_counted(void)
{
    memory_alone(FI_RMA_EVENT);
}

static void memory_uncounted(void)
{
    memory_alone(0);
}

/* Counters may be bound to an endpoint that is enabled, as Sandia OpenSHMEM does; they count from then on. */
static void bound_late(void)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    unsigned char name[256];
    size_t len = sizeof name;
    uint64_t word = 3, in = 0;
    struct fid_cntr *sent, *received;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t at;
    CHECK_ZERO(fi_endpoint(domain, info, &ep, NULL));
    CHECK_ZERO(fi_av_open(domain, &av_attr, &av, NULL));
    CHECK_ZERO(fi_cq_open(domain, &cq_attr, &cq, NULL));
    CHECK_ZERO(fi_cntr_open(domain, &attr, &sent, NULL));
    CHECK_ZERO(fi_cntr_open(domain, &attr, &received, NULL));
    CHECK_ZERO(fi_ep_bind(ep, &av->fid, 0));
    CHECK_ZERO(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
    CHECK_ZERO(fi_enable(ep));
    CHECK_ZERO(fi_getname(&ep->fid, name, &len));
    CHECK_EQ(fi_av_insert(av, name, 1, &at, 0, NULL), 1);
    CHECK_ZERO(fi_ep_bind(ep, &sent->fid, FI_SEND));
    CHECK_ZERO(fi_ep_bind(ep, &received->fid, FI_RECV));
    CHECK_EQ(fi_ep_bind(ep, &sent->fid, FI_SEND), -FI_EINVAL); /* a counter is bound already */
    CHECK_EQ(fi_ep_bind(ep, &av->fid, 0), -FI_EOPBADSTATE);
    for (uint64_t i = 1; i <= 3; i++) {
        CHECK_ZERO(fi_trecv(ep, &in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        CHECK_INJECTED(fi_tsend(ep, &word, 8, NULL, at, 1, NULL));
        CHECK_ZERO(fi_cntr_wait(received, i, -1));
        CHECK_ZERO(fi_cntr_wait(sent, i, -1));
        CHECK(fi_cntr_read(sent) == i && fi_cntr_read(received) == i);
    }
    CHECK_EQ(fi_close(&sent->fid), -FI_EBUSY);
    CHECK_ZERO(fi_close(&ep->fid));
    CHECK_ZERO(fi_close(&sent->fid));
    CHECK_ZERO(fi_close(&received->fid));
    CHECK_ZERO(fi_close(&cq->fid));
    CHECK_ZERO(fi_close(&av->fid));
}

/* The source that fi_getinfo returned is the endpoint's own address once it is enabled (fi_loopback of libfabric's
 * tests). */
static void source_as_name(void)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    unsigned char name[256], back[256];
    size_t len = sizeof name, back_len = sizeof back;
    struct fi_cq_entry entry;
    uint64_t out = 9, in = 0;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t at;
    CHECK_ZERO(fi_endpoint(domain, info, &ep, NULL));
    CHECK_ZERO(fi_av_open(domain, &av_attr, &av, NULL));
    CHECK_ZERO(fi_cq_open(domain, &cq_attr, &cq, NULL));
    CHECK_ZERO(fi_ep_bind(ep, &av->fid, 0));
    CHECK_ZERO(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    CHECK_EQ(fi_av_insert(av, info->src_addr, 1, &at, 0, NULL), 0); /* the endpoint is not enabled */
    CHECK_ZERO(fi_enable(ep));
    CHECK_EQ(fi_av_insert(av, info->src_addr, 1, &at, 0, NULL), 1);
    CHECK_ZERO(fi_getname(&ep->fid, name, &len));
    CHECK_ZERO(fi_av_lookup(av, at, back, &back_len));
    CHECK(len == back_len && !memcmp(name, back, len));
    CHECK_ZERO(fi_recv(ep, &in, 8, NULL, FI_ADDR_UNSPEC, &in));
    CHECK_INJECTED(fi_inject(ep, &out, 8, at));
    while (fi_cq_read(cq, &entry, 1) == -FI_EAGAIN)
        ;
    CHECK(entry.op_context == &in && in == 9);
    CHECK_ZERO(fi_close(&ep->fid));
    CHECK_ZERO(fi_close(&cq->fid));
    CHECK_ZERO(fi_close(&av->fid));
}

/* Limits are at least those that the hints request. */
static void limits(void)
{
    struct fi_info *h = hints_new(), *found = NULL;
    struct fi_domain_attr *d = h->domain_attr;
    d->cq_cnt = d->ep_cnt = d->cntr_cnt = d->tx_ctx_cnt = d->rx_ctx_cnt = d->mr_cnt = 1000000;
    if (CHECK_ZERO(fi_getinfo(OFI_API, NULL, NULL, 0, h, &found))) {
        d = found->domain_attr;
        CHECK(d->cq_cnt >= 1000000 && d->ep_cnt >= 1000000 && d->cntr_cnt >= 1000000 && d->tx_ctx_cnt >= 1000000 &&
              d->rx_ctx_cnt >= 1000000 && d->mr_cnt >= 1000000);
        CHECK_EQ(found->fabric_attr->api_version, OFI_API);
    }
    fi_freeinfo(found);
    fi_freeinfo(h);
}

/* Unknown kinds of objects are refused. */
static void unknown_kinds(void)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED + 1};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE + 1};
    struct fid_cq *cq;
    struct fid_av *av;
    CHECK_EQ(fi_cq_open(domain, &cq_attr, &cq, NULL), -FI_EINVAL);
    CHECK_EQ(fi_av_open(domain, &av_attr, &av, NULL), -FI_EINVAL);
    av_attr = (struct fi_av_attr){.type = FI_AV_MAP, .flags = FI_EVENT};
    CHECK_EQ(fi_av_open(domain, &av_attr, &av, NULL), -FI_ENOSYS);
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

/* Insert thousands of addresses, and send to one of them: no other peer is connected. */
static void many_addresses(enum fi_av_type type)
{
    enum { N = 5000 };
    static fi_addr_t at[N];
    static unsigned char names[N][NAME_LEN];
    uint64_t word = 5, in = 0;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, type, 0);
    if (!CHECK_EQ(b.name_len, NAME_LEN))
        return;
    for (size_t i = 0; i < N; i++) {
        memcpy(names[i], b.name, b.name_len);
        for (size_t k = 0; k < 4 && i != N / 2; k++) /* the identity of a process that does not exist */
            names[i][1 + k] ^= (unsigned char)((i + 1) >> 8 * k);
    }
    CHECK_EQ(fi_av_insert(a.av, names, N, at, 0, NULL), N);
    CHECK_ZERO(fi_recv(b.ep, &in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    CHECK_INJECTED(fi_inject(a.ep, &word, 8, at[N / 2]));
    count_to(b.received, 1);
    CHECK_EQ(in, 5);
    for (size_t i = 1; i < N; i++)
        if (!CHECK(at[i] != at[i - 1]))
            break;
    CHECK_ZERO(fi_av_remove(a.av, at, N, 0));
    ends_close();
}

static void many_in_table(void)
{
    many_addresses(FI_AV_TABLE);
}

static void many_in_map(void)
{
    many_addresses(FI_AV_MAP);
}

const ofi_case_t ofi_object_cases[] = {{"offers and refusals", offers},
                                       {"sources", sources},
                                       {"offered again", offered_again},
                                       {"capabilities", capabilities},
                                       {"addresses", addresses},
                                       {"many addresses in a table", many_in_table},
                                       {"many addresses in a map", many_in_map},
                                       {"addresses again, in a table", again_in_table},
                                       {"addresses again, in a map", again_in_map},
                                       {"memory alone", memory_counted},
                                       {"memory alone, not counted", memory_uncounted},
                                       {"counters bound late", bound_late},
                                       {"a source as a name", source_as_name},
                                       {"limits", limits},
                                       {"unknown kinds", unknown_kinds},
                                       {"event queue", events},
                                       {NULL, NULL}};
