/* SPDX-License-Identifier: BSD-3-Clause */
/* What is offered and refused; addresses, event queues. */
#include "ofi_calls.h"

/* Ours and no layer upon ours. */
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
    struct fi_info *h = hints_new(), *found = NULL;
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
    REFUSED(h->tx_attr->comp_order = FI_ORDER_STRICT);
    REFUSED(h->rx_attr->comp_order = FI_ORDER_STRICT);
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
    OFFERED(h->domain_attr->mr_mode = FI_MR_BASIC);
    OFFERED(h->domain_attr->mr_mode = FI_MR_SCALABLE);
    OFFERED(h->caps = 0);
    h = hints_new();
    CHECK_EQ(fi_getinfo(OFI_API, "127.0.0.1", NULL, 0, h, &found), -FI_ENODATA);
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

/* Thousands of addresses, of which one is spoken to: nobody is connected before. */
static void many_addresses(enum fi_av_type type)
{
    enum { N = 5000 };
    static fi_addr_t at[N];
    static unsigned char names[N][FI_NAME_MAX];
    uint64_t word = 5, in = 0;
    ends_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, type, 0);
    if (!CHECK_EQ(b.name_len, FI_NAME_MAX))
        return;
    for (size_t i = 0; i < N; i++) {
        memcpy(names[i], b.name, b.name_len);
        for (size_t k = 0; k < 4 && i != N / 2; k++) /* the identity of a process that is not there */
            names[i][2 + k] ^= (unsigned char)((i + 1) >> 8 * k);
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

const ofi_case_t ofi_object_cases[] = {{"offers and refusals", offers}, {"addresses", addresses},
                                       {"many addresses in a table", many_in_table},
                                       {"many addresses in a map", many_in_map},
                                       {"event queue", events}, {NULL, NULL}};
