/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of libfabric over its provider mad: two endpoints of one process.  Declarations that the cases share. */
#ifndef OFI_CALLS_H
#define OFI_CALLS_H

#include "harness/test.h"

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define OFI_API FI_VERSION(1, 11)
#define NAME_LEN 48 /* bytes: some clients have no room for more */
/* FI_MR_BASIC, FI_MR_SCALABLE and FI_ORDER_STRICT, which version 2 reports as deprecated. */
#define OLD_MR_BASIC (1 << 0)
#define OLD_MR_SCALABLE (1 << 1)
#define OLD_ORDER_STRICT 0x1ff
#define CHECK_ZERO(x) CHECK_EQ((x), 0)
/* The first injected message for a peer waits until the peer is connected; both ends make progress meanwhile. */
#define CHECK_INJECTED(x) \
    do { \
        ssize_t rc_of; \
        while ((rc_of = (x)) == -FI_EAGAIN) \
            ; \
        CHECK_ZERO(rc_of); \
    } while (0)

typedef struct end {
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_cntr *sent, *received, *read, *written, *was_read, *was_written; /* was_: accesses by peers */
    fi_addr_t peer, self;
    unsigned char name[256];
    size_t name_len;
} end_t;

extern struct fi_info *info;
extern struct fid_fabric *fabric;
extern struct fid_domain *domain;
extern end_t a, b;

#ifdef TEST_MAIN
struct fi_info *info;
struct fid_fabric *fabric;
struct fid_domain *domain;
end_t a, b;

/* Return hints that request this provider and these capabilities. */
static inline struct fi_info *hints_of(uint64_t caps)
{
    struct fi_info *h = fi_allocinfo();
    h->fabric_attr->prov_name = strdup("mad");
    h->caps = caps;
    h->ep_attr->type = FI_EP_RDM;
    return h;
}

/* Close everything that was opened, and free the hints. */
static inline void objects_close(struct fi_info *h)
{
    CHECK_ZERO(fi_close(&domain->fid));
    CHECK_ZERO(fi_close(&fabric->fid));
    fi_freeinfo(info);
    fi_freeinfo(h);
}
#endif

struct fi_info *hints_new(void);
/* Open two endpoints, each of which has the other's address.  flags: those with which they are bound to their queues. */
void ends_open(enum fi_cq_format format, enum fi_wait_obj wait, enum fi_av_type type, uint64_t flags);
void ends_open_with(const struct fi_cq_attr *cq, const struct fi_cntr_attr *cntr, enum fi_av_type type, uint64_t flags);
void ends_close(void); /* an endpoint that is NULL was already closed */
/* Read the next entry of an end, while the other end makes progress. */
ssize_t next_entry(end_t *e, void *entry, fi_addr_t *source);
/* For queues in the format FI_CQ_FORMAT_TAGGED: check that the next entry reports that a send or access with this
 * context is complete, or has failed with this error. */
void expect_sent(end_t *e, void *context);
struct fi_cq_err_entry expect_error(end_t *e, int err);
/* Make progress at both ends until a counter has this value. */
void count_to(struct fid_cntr *cntr, uint64_t value);

typedef struct ofi_case {
    const char *name;
    void (*run)(void);
} ofi_case_t;
/* Tables of cases; each ends with a name that is NULL. */
extern const ofi_case_t ofi_object_cases[], ofi_message_cases[], ofi_queue_cases[], ofi_remote_cases[], ofi_atomic_cases[],
    ofi_counter_cases[];

#endif
