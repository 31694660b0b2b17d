/* SPDX-License-Identifier: BSD-3-Clause */
/* libfabric's provider `mad`: its objects over matching devices (mpi/device).
 *
 *   provider.c   found by libfabric: parameters
 *   key.c        the key: where it comes from, texts, files; key_pmix.c  from the job's first process
 *   info.c       what is offered, and whether that is what was asked for
 *   fabric.c     fabrics, what to wait on; domain.c, eq.c  domains, memory; event queues
 *   wait.c       how a thread sleeps until something is queued
 *   av.c         addresses of endpoints; name.c  what they are made of
 *   cq.c         completion queues; cntr.c  counters
 *   ep.c         endpoints: each has a device, that is a session of its own
 *   transfer.c   sends and receives of both kinds, accesses; msg.c, tagged.c, rma.c, atomic.c  their interfaces
 *   mr.c         memory that peers may access; operate.c  what atomic operations do to it
 *   refuse.c     what is not offered
 *
 * Locks: an address vector's, a device's, then that of a domain's memory, a queue's or a counter's; none is held while
 * anything is waited for. */
#ifndef MAD_OFI_H
#define MAD_OFI_H

#include "mpi/device/device.h"

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Names of version 1, whose programs still use them: version 2 warns of the modes of memory, and has not the last one. */
#define MAD_OFI_MR_BASIC (1 << 0)          /* FI_MR_BASIC */
#define MAD_OFI_MR_SCALABLE (1 << 1)       /* FI_MR_SCALABLE */
#define MAD_OFI_PROV_SPECIFIC (1U << 31)   /* FI_PROV_SPECIFIC */

/* Bounds of the provider; those of messages are the device's (mpi/device/thresholds.h). */
#define MAD_OFI_NAME_MAX 255              /* bytes of an endpoint's name */
#define MAD_OFI_ADDRESS_MAX 8191          /* bytes of a process's address, as in core/core.h */
#define MAD_OFI_INJECT ((size_t)16 << 10) /* bytes that fi_inject copies: below all packets; not recorded */
#define MAD_OFI_DEPTH 65536               /* operations under way: there is no limit, but one has to be named */
#define MAD_OFI_MESSAGE_MAX ((size_t)1 << 40) /* bytes of a message: there is no limit, but one has to be named */

#define FROM_FID(type, pointer) ((type *)(pointer)) /* a fid is the first of its object */

extern struct fi_provider mad_ofi_provider;
#define MAD_OFI_WARN(subsystem, ...) FI_WARN(&mad_ofi_provider, FI_LOG_##subsystem, __VA_ARGS__)
#define MAD_OFI_INFO(subsystem, ...) FI_INFO(&mad_ofi_provider, FI_LOG_##subsystem, __VA_ARGS__)

typedef struct mad_ofi_ep mad_ofi_ep_t;

/* What progress of a queue, a counter or a domain is to go through. */
typedef struct mad_ofi_eps {
    mad_ofi_ep_t *_Atomic *at;
    atomic_int n;
    int room;
} mad_ofi_eps_t;

/* ---- wait.c: a thread sleeps until something is queued ------------------------------------------------------------ */

typedef struct mad_ofi_wait {
    int fd; /* readable when something is there; -1: nobody may sleep, and there is no cond */
    atomic_bool armed; /* somebody may be sleeping on fd, */
    _Atomic(int64_t) armed_at; /* since then, ns */
    atomic_bool soon;  /* the last one slept for a moment only, which it had better spent waiting here */
    mad_cond_t *cond;  /* where threads wait in calls of this provider */
} mad_ofi_wait_t;

int mad_ofi_wait_open(mad_ofi_wait_t *wait, enum fi_wait_obj kind); /* -FI_ENOSYS: another kind of object */
void mad_ofi_wait_close(mad_ofi_wait_t *wait);
/* To be called after something was queued. */
void mad_ofi_wait_wake(mad_ofi_wait_t *wait);
/* Like mad_ofi_wait_for, but for as long as a wait of the library's own spins. */
bool mad_ofi_wait_moment(mad_ofi_wait_t *wait, int (*test)(void *arg), void *arg);
/* From now on fd becomes readable when something is queued.  The caller looks whether there is something before it lets the
 * program sleep on it. */
void mad_ofi_wait_arm(mad_ofi_wait_t *wait);
/* Wait until test(arg) is not 0, while its endpoints (NULL: it has none) make progress; by polling where nobody may sleep.
 * False: the time-out of ms (-1: none) that began at this clock, of mad_dev_clock, is over. */
bool mad_ofi_wait_for(mad_ofi_wait_t *wait, mad_ofi_eps_t *eps, int (*test)(void *arg), void *arg, int64_t begin, int ms);
int mad_ofi_wait_control(mad_ofi_wait_t *wait, int command, void *arg); /* FI_GETWAIT */
/* What is left of a time-out of ms (-1: none) that began at this clock, of mad_dev_clock. */
int mad_ofi_left(int64_t begin, int ms);

/* ---- Objects ------------------------------------------------------------------------------------------------------ */

typedef struct mad_ofi_fabric {
    struct fid_fabric fid;
    atomic_int users;
} mad_ofi_fabric_t;

/* Registered memory, by key. */
typedef struct mad_ofi_mrs {
    pthread_mutex_t lock;
    struct mr **at;
    size_t size, n; /* a power of two; regions */
    uint64_t last_key;
} mad_ofi_mrs_t;

typedef struct mad_ofi_domain {
    struct fid_domain fid;
    mad_ofi_fabric_t *fabric;
    bool threaded, automatic;         /* as the info of the domain says */
    bool virtual_addresses, own_keys; /* of memory: else offsets, and the program's keys */
    mad_ofi_mrs_t mrs;
    mad_ofi_eps_t eps; /* enabled */
    atomic_int users;
} mad_ofi_domain_t;

/* Addresses are places in a table, for both kinds of vectors; a place is used once. */
typedef struct mad_ofi_av {
    struct fid_av fid;
    mad_ofi_domain_t *domain;
    pthread_mutex_t lock;
    enum fi_av_type type;
    unsigned char *names; /* each of mad_ofi_name_len bytes, the first 0: removed */
    size_t n, room;
    size_t *free, n_free, cap_free; /* places that were removed, to be used again */
    mad_ofi_ep_t *eps; /* that use it */
    atomic_int users;
} mad_ofi_av_t;

typedef struct mad_ofi_entry {
    struct fi_cq_tagged_entry e;
    fi_addr_t source;
    struct fi_cq_err_entry *error; /* NULL: it is none */
} mad_ofi_entry_t;

typedef struct mad_ofi_cq {
    struct fid_cq fid;
    mad_ofi_domain_t *domain;
    enum fi_cq_format format;
    bool locked;
    pthread_mutex_t lock;
    mad_ofi_entry_t *ring;
    uint32_t size, head, tail; /* size: a power of two */
    /* While a program reads from an empty ring, of which nobody else reads: what is queued goes where it wants it, as long
     * as there is room and nothing had to go to the ring. */
    struct fi_cq_tagged_entry *into, *into_end;
    bool drained; /* the last read took all there was, and had room for more */
    mad_ofi_wait_t wait;
    atomic_bool signalled;
    mad_ofi_eps_t eps;
    atomic_int users;
} mad_ofi_cq_t;

typedef struct mad_ofi_cntr {
    struct fid_cntr fid;
    mad_ofi_domain_t *domain;
    atomic_ullong value, errors;
    atomic_ullong seen; /* their sum when the program looked last */
    bool of_region; /* it counts, or has counted, accesses to registered memory */
    mad_ofi_wait_t wait;
    mad_ofi_eps_t eps;
    atomic_int users;
} mad_ofi_cntr_t;

/* What is counted at an endpoint, each by a counter of its own or a shared one. */
enum { CNTR_SEND, CNTR_RECEIVE, CNTR_READ, CNTR_WRITE, CNTR_REMOTE_READ, CNTR_REMOTE_WRITE, MAD_OFI_CNTRS };

struct mad_ofi_ep {
    struct fid_ep fid;
    mad_ofi_domain_t *domain;
    mad_ofi_av_t *av;
    mad_ofi_ep_t *next; /* of the address vector */
    mad_ofi_cq_t *send_cq, *receive_cq;
    bool send_selective, receive_selective;
    mad_ofi_cq_t *got_cq, *sent_cq; /* if an entry without a source is all that is to be told; from fi_enable on */
    mad_ofi_cntr_t *cntrs[MAD_OFI_CNTRS];
    uint64_t caps, send_flags, receive_flags;
    size_t multi_min;
    bool by_handler; /* as the device has it */
    mad_dev_t *dev; /* NULL: not enabled */
    /* By address, and back.  Arrays grow by replacement; old ones live as long as the endpoint. */
    _Atomic(mad_peer_t *) peers;
    atomic_size_t n_peers;
    fi_addr_t *addresses;
    size_t n_addresses;
    bool repeated; /* some process stands at several addresses, or has */
    struct mad_ofi_old {
        struct mad_ofi_old *next;
        void *memory;
    } *old;
};

/* ---- provider.c, key.c, info.c ------------------------------------------------------------------------------------ */

/* Copy the secret that endpoints share which may talk to each other, and return its length, 16 to 64 bytes; or return a
 * negative error, which is logged.  The secret is found once per process, which may take until the first process of the job
 * has one; later calls copy it.  Any thread.  The caller wipes its copy. */
int mad_ofi_key(unsigned char key[64]);
void mad_ofi_key_forget(void); /* wipe it */
/* Bytes of a name, the same for all processes. */
size_t mad_ofi_name_len(void);
/* A name of name_len bytes.  False: the process could not be reached by it. */
bool mad_ofi_name_make(const unsigned char *address, size_t len, unsigned char *name, size_t name_len);
/* Back: the length of an address (of MAD_OFI_ADDRESS_MAX at most); 0: it is no name. */
size_t mad_ofi_name_address(const unsigned char *name, size_t name_len, unsigned char *address);
/* True if these mad_ofi_name_len bytes are what fi_getinfo returns as a source: of an endpoint that is still to be opened. */
bool mad_ofi_name_is_any(const unsigned char *name);
int mad_ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                    struct fi_info **info);
#define MAD_OFI_SEND_FLAGS                                                                                               \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define MAD_OFI_RECEIVE_FLAGS (FI_COMPLETION | FI_MULTI_RECV)

/* ---- Opening ------------------------------------------------------------------------------------------------------ */

int mad_ofi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int mad_ofi_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);
int mad_ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
mad_ofi_wait_t *mad_ofi_eq_wait(struct fid *fid);
bool mad_ofi_eq_has_event(struct fid *fid);
int mad_ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
int mad_ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
bool mad_ofi_cq_has_entry(mad_ofi_cq_t *cq);
int mad_ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context);
bool mad_ofi_cntr_is_unseen(mad_ofi_cntr_t *cntr);
int mad_ofi_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

/* For operation tables: what is not offered. */
int mad_ofi_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int mad_ofi_no_control(struct fid *fid, int command, void *arg);
int mad_ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int mad_ofi_no_tostr(const struct fid *fid, char *buf, size_t len);
int mad_ofi_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);
#define MAD_OFI_NO_REST                                                                                                  \
    .ops_open = mad_ofi_no_ops_open, .tostr = mad_ofi_no_tostr, .ops_set = mad_ofi_no_ops_set
extern struct fi_ops_collective mad_ofi_no_collective;

/* ---- Between objects ---------------------------------------------------------------------------------------------- */

/* Under the address vector's lock: the endpoint learns of places from..n, or of all. */
int mad_ofi_ep_learn(mad_ofi_ep_t *ep, size_t from, size_t to); /* what stands from there on, before to */
void mad_ofi_ep_forget(mad_ofi_ep_t *ep, size_t at);
/* Write the name of an enabled endpoint.  -FI_EADDRNOTAVAIL: none of its networks fits. */
int mad_ofi_ep_name(const mad_ofi_ep_t *ep, unsigned char name[MAD_OFI_NAME_MAX]);
bool mad_ofi_eps_add(mad_ofi_eps_t *eps, mad_ofi_ep_t *ep);
void mad_ofi_eps_del(mad_ofi_eps_t *eps, mad_ofi_ep_t *ep);
int mad_ofi_eps_progress_all(mad_ofi_eps_t *eps, int n);
static inline int mad_ofi_eps_progress(mad_ofi_eps_t *eps) /* how much has come */
{
    int n = atomic_load_explicit(&eps->n, memory_order_acquire);
    mad_dev_t *only = n == 1 ? atomic_load_explicit(&eps->at[0], memory_order_relaxed)->dev : NULL;
    if (__builtin_expect(only != NULL, 1))
        return mad_dev_progress(only);
    return mad_ofi_eps_progress_all(eps, n);
}

/* A place for an entry without a source, to be filled in; NULL: it has to be pushed. */
static inline struct fi_cq_tagged_entry *mad_ofi_cq_place(mad_ofi_cq_t *cq)
{
    mad_ofi_entry_t *entry;
    if (cq->into != cq->into_end)
        return cq->into++;
    if (cq->locked || cq->tail - cq->head == cq->size)
        return NULL;
    entry = &cq->ring[cq->tail++ & (cq->size - 1)];
    entry->source = FI_ADDR_NOTAVAIL;
    entry->error = NULL;
    return &entry->e;
}
void mad_ofi_cq_push_other(mad_ofi_cq_t *cq, const struct fi_cq_tagged_entry *e, fi_addr_t source);
static inline void mad_ofi_cq_push(mad_ofi_cq_t *cq, const struct fi_cq_tagged_entry *e, fi_addr_t source)
{
    if (cq->into != cq->into_end) /* nobody wants the source */
        *cq->into++ = *e;
    else if (cq->locked || cq->tail - cq->head == cq->size)
        mad_ofi_cq_push_other(cq, e, source); /* with the lock, or more room */
    else
        cq->ring[cq->tail++ & (cq->size - 1)] = (mad_ofi_entry_t){*e, source, NULL};
}
/* olen: what did not fit; err, prov_errno positive. */
void mad_ofi_cq_push_error(mad_ofi_cq_t *cq, const struct fi_cq_tagged_entry *e, size_t olen, int err, int prov_errno);
void mad_ofi_cntr_count(mad_ofi_cntr_t *cntr, bool good);
static inline void mad_ofi_cntr_add(mad_ofi_cntr_t *cntr, bool good) /* NULL: nobody counts */
{
    if (cntr)
        mad_ofi_cntr_count(cntr, good);
}
/* Count an access of a peer by its effect.  A counter bound for both reads and writes counts it once. */
static inline void mad_ofi_cntr_add_served(mad_ofi_cntr_t *reads, mad_ofi_cntr_t *writes, uint64_t effect)
{
    if (effect & FI_REMOTE_READ)
        mad_ofi_cntr_add(reads, true);
    if (effect & FI_REMOTE_WRITE && !(effect & FI_REMOTE_READ && reads == writes))
        mad_ofi_cntr_add(writes, true);
}

/* ---- mr.c, operate.c, atomic.c -------------------------------------------------------------------------------------- */

extern struct fi_ops_mr mad_ofi_mr;
extern const mad_dev_memory_t mad_ofi_memory; /* of the domain of the endpoint that is the device's argument */
/* Return what an access does to its target: FI_REMOTE_READ if it returns what was there, FI_REMOTE_WRITE if it may change it.
 * A fetching atomic operation does both, except FI_ATOMIC_READ.  The region must permit the effect, and counters count it. */
static inline uint64_t mad_ofi_effect(mad_dev_access_t access, uint8_t op)
{
    if (access == MAD_DEV_READ || (access == MAD_DEV_FETCH && op == FI_ATOMIC_READ))
        return FI_REMOTE_READ;
    return access == MAD_DEV_WRITE || access == MAD_DEV_ATOMIC ? FI_REMOTE_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;
}
/* Bytes of an element of an enum fi_datatype; 0: there is no such atomic operation, by such a call. */
size_t mad_ofi_atomic_size(mad_dev_access_t access, unsigned type, unsigned op);
bool mad_ofi_atomic_good(mad_dev_access_t access, uint8_t type, uint8_t op, size_t len, bool operand);
void mad_ofi_atomic_operate(uint8_t type, uint8_t op, void *target, size_t len, const void *operand, const void *compare,
                            void *result);
int mad_ofi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
                         uint64_t flags);

/* ---- transfer.c ---------------------------------------------------------------------------------------------------- */

/* What an operation remembers in the device's flags, beside its kind and FI_MULTI_RECV. */
#define MAD_OFI_QUIET (UINT64_C(1) << 63) /* no entry in the queue, unless it fails */
#define MAD_OFI_NOBODY (UINT64_C(1) << 62) /* not even then: it has no context */
#define MAD_OFI_NO_REPORT (MAD_OFI_QUIET | MAD_OFI_NOBODY)

int mad_ofi_error(mad_status_t status); /* as libfabric has it, positive */
static inline ssize_t mad_ofi_rc(mad_status_t status)
{
    return __builtin_expect(!status, 1) ? 0 : -mad_ofi_error(status);
}

static inline mad_peer_t mad_ofi_peer(const mad_ofi_ep_t *ep, fi_addr_t address) /* -1: there is none */
{
    if (address >= atomic_load_explicit(&ep->n_peers, memory_order_acquire))
        return -1;
    return atomic_load_explicit(&ep->peers, memory_order_acquire)[address];
}

/* flags: of the call, op_flags included. */
ssize_t mad_ofi_send(mad_ofi_ep_t *ep, mad_dev_space_t space, const struct iovec *pieces, size_t n, fi_addr_t to,
                     uint64_t tag, uint64_t data, uint64_t flags, void *context);
ssize_t mad_ofi_inject(mad_ofi_ep_t *ep, mad_dev_space_t space, const void *buf, size_t len, fi_addr_t to, uint64_t tag,
                       uint64_t data, uint64_t flags);
ssize_t mad_ofi_receive(mad_ofi_ep_t *ep, mad_dev_space_t space, const struct iovec *pieces, size_t n, fi_addr_t from,
                        uint64_t tag, uint64_t ignore, uint64_t flags, void *context);
/* With FI_PEEK or FI_CLAIM. */
ssize_t mad_ofi_search(mad_ofi_ep_t *ep, const struct iovec *pieces, size_t n, fi_addr_t from, uint64_t tag,
                       uint64_t ignore, uint64_t flags, void *context);
/* An access, of which all is filled in but whom, and how it is told.  flags: of the call, op_flags included;
 * MAD_OFI_NO_REPORT: as fi_inject_write is told, that is only counted. */
ssize_t mad_ofi_remote(mad_ofi_ep_t *ep, mad_dev_remote_t *remote, fi_addr_t to, uint64_t flags);
void mad_ofi_notify(void *ep, const mad_dev_done_t *done);
void mad_ofi_notify_received(void *ep, void *context, uint64_t flags, const mad_dev_got_t *got);
void mad_ofi_sent(mad_ofi_ep_t *ep, uint64_t flags, void *context); /* at once; flags as the device has them */
extern struct fi_ops_rma mad_ofi_rma;
extern struct fi_ops_atomic mad_ofi_atomic;
extern struct fi_ops_msg mad_ofi_msg;
extern struct fi_ops_tagged mad_ofi_tagged;

#endif
