/* SPDX-License-Identifier: BSD-3-Clause */
/* libfabric's provider `mad`: its objects over matching devices (mpi/device).
 *
 *   provider.c   entry point for libfabric: parameters
 *   key.c        the key: sources, texts, files; key_pmix.c  the key of the job's first process
 *   info.c       what is offered, and whether it meets the hints
 *   fabric.c     fabrics, objects to wait on; domain.c, eq.c  domains, memory; event queues
 *   wait.c       sleep of a thread until something is queued
 *   av.c         addresses of endpoints; name.c  their layout
 *   cq.c         completion queues; cntr.c  counters
 *   ep.c         endpoints, each with a device and so a session of its own
 *   transfer.c   sends and receives of both kinds, accesses; msg.c, tagged.c, rma.c, atomic.c  their interfaces
 *   mr.c         memory that peers may access; operate.c  atomic operations on it
 *   refuse.c     functions that are not offered
 *
 * Lock order: the lock of an address vector, that of a device, then that of a domain's memory, of a queue or of a
 * counter.  No thread waits while it holds one of them. */
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

/* Names of libfabric 1 that its programs still use.  Version 2 warns about the memory modes, and lacks the last name. */
#define MAD_OFI_MR_BASIC (1 << 0)        /* FI_MR_BASIC */
#define MAD_OFI_MR_SCALABLE (1 << 1)     /* FI_MR_SCALABLE */
#define MAD_OFI_PROV_SPECIFIC (1U << 31) /* FI_PROV_SPECIFIC */

/* Limits of the provider; those of messages are the device's (mpi/device/thresholds.h). */
#define MAD_OFI_NAME_MAX 255              /* maximum number of bytes of an endpoint's name */
#define MAD_OFI_ADDRESS_MAX 8191          /* maximum bytes of a process's address, as in core/core.h */
#define MAD_OFI_INJECT ((size_t)16 << 10) /* bytes that fi_inject copies; below all packet sizes; not measured */
/* reported number of operations in flight; there is no limit, but libfabric needs a number */
#define MAD_OFI_DEPTH 65536
/* reported bytes of a message; there is no limit, but libfabric needs a number */
#define MAD_OFI_MESSAGE_MAX ((size_t)1 << 40)

#define FROM_FID(type, pointer) ((type *)(pointer)) /* valid because a fid is the first member of its object */

extern struct fi_provider mad_ofi_provider;
#define MAD_OFI_WARN(subsystem, ...) FI_WARN(&mad_ofi_provider, FI_LOG_##subsystem, __VA_ARGS__)
#define MAD_OFI_INFO(subsystem, ...) FI_INFO(&mad_ofi_provider, FI_LOG_##subsystem, __VA_ARGS__)

typedef struct mad_ofi_ep mad_ofi_ep_t;

/* The endpoints on which a queue, a counter or a domain makes progress. */
typedef struct mad_ofi_eps {
    mad_ofi_ep_t *_Atomic *at;
    atomic_int n;
    int room;
} mad_ofi_eps_t;

/* ---- wait.c: sleep of a thread until something is queued ---------------------------------------------------------- */

typedef struct mad_ofi_wait {
    int fd;                    /* readable if something is queued; -1: no thread may sleep, and cond is NULL */
    atomic_bool armed;         /* true while a thread may be sleeping on fd */
    _Atomic(int64_t) armed_at; /* time of arming, ns */
    atomic_bool soon;          /* true if the last sleep was short, so that it is better to spin for that time */
    mad_cond_t *cond;          /* condition for threads that wait in calls of this provider */
} mad_ofi_wait_t;

int mad_ofi_wait_open(mad_ofi_wait_t *wait, enum fi_wait_obj kind); /* -FI_ENOSYS: unsupported kind */
void mad_ofi_wait_close(mad_ofi_wait_t *wait);
/* Wake the sleeping threads.  Callers have queued something before. */
void mad_ofi_wait_wake(mad_ofi_wait_t *wait);
/* Like mad_ofi_wait_for, but only for as long as the library's own waits spin. */
bool mad_ofi_wait_moment(mad_ofi_wait_t *wait, int (*test)(void *arg), void *arg);
/* Make fd readable when something is queued from now on.  The caller checks, before the program sleeps on fd, whether
 * something is already queued. */
void mad_ofi_wait_arm(mad_ofi_wait_t *wait);
/* Wait until test(arg) is not 0, while the endpoints (NULL if none) make progress; poll if threads may not sleep.
 * Return false if a time-out of `ms` milliseconds (-1: none) ended, which began at `begin` (mad_dev_clock). */
bool mad_ofi_wait_for(mad_ofi_wait_t *wait, mad_ofi_eps_t *eps, int (*test)(void *arg), void *arg, int64_t begin, int ms);
int mad_ofi_wait_control(mad_ofi_wait_t *wait, int command, void *arg); /* serve FI_GETWAIT */
/* Return the remaining milliseconds of a time-out of `ms` milliseconds (-1: none) that began at `begin` (mad_dev_clock). */
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
    size_t size, n; /* number of buckets, a power of two; number of regions */
    uint64_t last_key;
} mad_ofi_mrs_t;

typedef struct mad_ofi_domain {
    struct fid_domain fid;
    mad_ofi_fabric_t *fabric;
    bool threaded, automatic; /* as the domain's info says */
    /* properties of registered memory; false: offsets instead of addresses, keys chosen by the program */
    bool virtual_addresses, own_keys;
    mad_ofi_mrs_t mrs;
    mad_ofi_eps_t eps; /* enabled endpoints of the domain */
    atomic_int users;
} mad_ofi_domain_t;

/* An address vector of either type.  Addresses are places in a table, and a removed place is used again. */
typedef struct mad_ofi_av {
    struct fid_av fid;
    mad_ofi_domain_t *domain;
    pthread_mutex_t lock;
    enum fi_av_type type;
    unsigned char *names; /* names of mad_ofi_name_len bytes each; if the first byte is 0, the name was removed */
    size_t n, room;
    size_t *free, n_free, cap_free; /* removed places that can be used again */
    mad_ofi_ep_t *eps;              /* endpoints bound to the address vector */
    atomic_int users;
} mad_ofi_av_t;

typedef struct mad_ofi_entry {
    struct fi_cq_tagged_entry e;
    fi_addr_t source;
    struct fi_cq_err_entry *error; /* error entry; NULL if the entry is no error */
} mad_ofi_entry_t;

typedef struct mad_ofi_cq {
    struct fid_cq fid;
    mad_ofi_domain_t *domain;
    enum fi_cq_format format;
    bool locked;
    bool direct; /* true if a single thread uses the queue, and reads entries in the longest format */
    pthread_mutex_t lock;
    mad_ofi_entry_t *ring;
    uint32_t size, head, tail; /* size of the ring, a power of two; places of the first and of the next new entry */
    /* Buffer of a program that reads from an empty ring, as the only reader.  Entries are written there while there is
     * room, and until an entry has to go to the ring. */
    struct fi_cq_tagged_entry *into, *into_end;
    bool drained; /* true if the last read has emptied the queue, and had room for more */
    mad_ofi_wait_t wait;
    atomic_bool signalled;
    mad_ofi_eps_t eps;
    atomic_int users;
} mad_ofi_cq_t;

typedef struct mad_ofi_cntr {
    struct fid_cntr fid;
    mad_ofi_domain_t *domain;
    atomic_ullong value, errors;
    atomic_ullong seen; /* value + errors at the time when the program last read one of them */
    bool of_region;     /* true if the counter counts, or has counted, accesses to registered memory */
    mad_ofi_wait_t wait;
    mad_ofi_eps_t eps;
    atomic_int users;
} mad_ofi_cntr_t;

/* Events that are counted at an endpoint, each by a counter of its own or by a shared counter. */
enum { CNTR_SEND, CNTR_RECEIVE, CNTR_READ, CNTR_WRITE, CNTR_REMOTE_READ, CNTR_REMOTE_WRITE, MAD_OFI_CNTRS };

struct mad_ofi_ep {
    struct fid_ep fid;
    mad_ofi_domain_t *domain;
    mad_ofi_av_t *av;
    mad_ofi_ep_t *next; /* next in the list of the address vector */
    mad_ofi_cq_t *send_cq, *receive_cq;
    bool send_selective, receive_selective;
    mad_ofi_cq_t *got_cq, *sent_cq; /* queues for entries that need no source; set by fi_enable, else NULL */
    mad_ofi_cntr_t *cntrs[MAD_OFI_CNTRS];
    uint64_t caps, send_flags, receive_flags;
    size_t multi_min;
    bool by_handler; /* true if the device was opened with this option */
    mad_dev_t *dev;  /* NULL until enabled */
    /* Peers by address, and addresses by peer.  Arrays grow by replacement; old arrays stay until the endpoint is freed. */
    _Atomic(mad_peer_t *) peers;
    atomic_size_t n_peers;
    fi_addr_t *addresses;
    size_t n_addresses;
    bool repeated; /* true if some process has, or has had, several addresses */
    struct mad_ofi_old {
        struct mad_ofi_old *next;
        void *memory;
    } * old;
};

/* ---- provider.c, key.c, info.c ------------------------------------------------------------------------------------ */

/* Copy the secret shared by endpoints that may communicate, and return its length, 16 to 64 bytes; or return a negative
 * error, which is logged.  The secret is determined once per process, which may wait for the first process of the job;
 * later calls copy it.  Any thread may call this.  The caller wipes its copy of the secret. */
int mad_ofi_key(unsigned char key[64]);
void mad_ofi_key_forget(void); /* wipe the secret */
/* Return the length of names in bytes, equal in all processes. */
size_t mad_ofi_name_len(void);
/* Write a name of name_len bytes.  Return false if the name would not suffice to reach the process. */
bool mad_ofi_name_make(const unsigned char *address, size_t len, unsigned char *name, size_t name_len);
/* Restore the address from a name; return its length, at most MAD_OFI_ADDRESS_MAX, or 0 if the name is not valid. */
size_t mad_ofi_name_address(const unsigned char *name, size_t name_len, unsigned char *address);
/* True if these mad_ofi_name_len bytes are the source address from fi_getinfo, which stands for an endpoint that is not
 * open yet. */
bool mad_ofi_name_is_any(const unsigned char *name);
int mad_ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                    struct fi_info **info);
#define MAD_OFI_SEND_FLAGS \
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

/* For operation tables: functions that the provider does not offer. */
int mad_ofi_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int mad_ofi_no_control(struct fid *fid, int command, void *arg);
int mad_ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int mad_ofi_no_tostr(const struct fid *fid, char *buf, size_t len);
int mad_ofi_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);
#define MAD_OFI_NO_REST .ops_open = mad_ofi_no_ops_open, .tostr = mad_ofi_no_tostr, .ops_set = mad_ofi_no_ops_set
extern struct fi_ops_collective mad_ofi_no_collective;

/* ---- Between objects ---------------------------------------------------------------------------------------------- */

/* Make the endpoint look up the addresses from <= place < to.  Under the address vector's lock. */
int mad_ofi_ep_learn(mad_ofi_ep_t *ep, size_t from, size_t to); /* 0 or a negative error */
void mad_ofi_ep_forget(mad_ofi_ep_t *ep, size_t at);
/* Write the name of an enabled endpoint.  -FI_EADDRNOTAVAIL: none of its networks fits into a name. */
int mad_ofi_ep_name(const mad_ofi_ep_t *ep, unsigned char name[MAD_OFI_NAME_MAX]);
bool mad_ofi_eps_add(mad_ofi_eps_t *eps, mad_ofi_ep_t *ep);
void mad_ofi_eps_del(mad_ofi_eps_t *eps, mad_ofi_ep_t *ep);
int mad_ofi_eps_progress_all(mad_ofi_eps_t *eps, int n);
static inline int mad_ofi_eps_progress(mad_ofi_eps_t *eps) /* return the number of events */
{
    int n = atomic_load_explicit(&eps->n, memory_order_acquire);
    mad_dev_t *only = n == 1 ? atomic_load_explicit(&eps->at[0], memory_order_relaxed)->dev : NULL;
    if (__builtin_expect(only != NULL, 1))
        return mad_dev_progress(only);
    return mad_ofi_eps_progress_all(eps, n);
}

/* Return a place for an entry without a source; NULL if the entry must be pushed. */
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
    if (cq->into != cq->into_end) /* the source is not wanted */
        *cq->into++ = *e;
    else if (cq->locked || cq->tail - cq->head == cq->size)
        mad_ofi_cq_push_other(cq, e, source); /* the entry needs the lock, or more room */
    else
        cq->ring[cq->tail++ & (cq->size - 1)] = (mad_ofi_entry_t){*e, source, NULL};
}
/* Push an error entry. olen: bytes that did not fit; err and prov_errno are positive. */
void mad_ofi_cq_push_error(mad_ofi_cq_t *cq, const struct fi_cq_tagged_entry *e, size_t olen, int err, int prov_errno);
void mad_ofi_cntr_count(mad_ofi_cntr_t *cntr, bool good);
static inline void mad_ofi_cntr_add(mad_ofi_cntr_t *cntr, bool good) /* NULL: not counted */
{
    if (cntr)
        mad_ofi_cntr_count(cntr, good);
}
/* Count an access by a peer in the counter of its effect.  A counter that is bound for both reads and writes counts the
 * access once. */
static inline void mad_ofi_cntr_add_served(mad_ofi_cntr_t *reads, mad_ofi_cntr_t *writes, uint64_t effect)
{
    if (effect & FI_REMOTE_READ)
        mad_ofi_cntr_add(reads, true);
    if (effect & FI_REMOTE_WRITE && !(effect & FI_REMOTE_READ && reads == writes))
        mad_ofi_cntr_add(writes, true);
}

/* ---- mr.c, operate.c, atomic.c -------------------------------------------------------------------------------------- */

extern struct fi_ops_mr mad_ofi_mr;
/* memory that the device lets peers access: regions of an endpoint's domain; `arg` of its functions is the endpoint */
extern const mad_dev_memory_t mad_ofi_memory;
/* Return the effect of an access on its target: FI_REMOTE_READ if it returns the content, FI_REMOTE_WRITE if it may
 * change the content.  A fetching atomic operation does both, except FI_ATOMIC_READ.  The region must permit the effect,
 * and counters count it. */
static inline uint64_t mad_ofi_effect(mad_dev_access_t access, uint8_t op)
{
    if (access == MAD_DEV_READ || (access == MAD_DEV_FETCH && op == FI_ATOMIC_READ))
        return FI_REMOTE_READ;
    return access == MAD_DEV_WRITE || access == MAD_DEV_ATOMIC ? FI_REMOTE_WRITE : FI_REMOTE_READ | FI_REMOTE_WRITE;
}
/* Return the bytes of an element of an enum fi_datatype; 0 if calls of this kind have no such atomic operation. */
size_t mad_ofi_atomic_size(mad_dev_access_t access, unsigned type, unsigned op);
bool mad_ofi_atomic_good(mad_dev_access_t access, uint8_t type, uint8_t op, size_t len, bool operand);
void mad_ofi_atomic_operate(uint8_t type, uint8_t op, void *target, size_t len, const void *operand, const void *compare,
                            void *result);
int mad_ofi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
                         uint64_t flags);

/* ---- transfer.c ---------------------------------------------------------------------------------------------------- */

/* Flags stored in the device's flags of an operation, in addition to its kind and FI_MULTI_RECV. */
#define MAD_OFI_QUIET (UINT64_C(1) << 63)  /* no entry in the queue, unless the operation fails */
#define MAD_OFI_NOBODY (UINT64_C(1) << 62) /* no entry in the queue even if it fails, because there is no context */
#define MAD_OFI_NO_REPORT (MAD_OFI_QUIET | MAD_OFI_NOBODY)

int mad_ofi_error(mad_status_t status); /* libfabric's error number, positive */
static inline ssize_t mad_ofi_rc(mad_status_t status)
{
    return __builtin_expect(!status, 1) ? 0 : -mad_ofi_error(status);
}

static inline mad_peer_t mad_ofi_peer(const mad_ofi_ep_t *ep, fi_addr_t address) /* -1 if the address has no peer */
{
    if (address >= atomic_load_explicit(&ep->n_peers, memory_order_acquire))
        return -1;
    return atomic_load_explicit(&ep->peers, memory_order_acquire)[address];
}

/* Send a message.  flags: those of the call, including op_flags. */
ssize_t mad_ofi_send(mad_ofi_ep_t *ep, mad_dev_space_t space, const struct iovec *pieces, size_t n, fi_addr_t to,
                     uint64_t tag, uint64_t data, uint64_t flags, void *context);
ssize_t mad_ofi_inject(mad_ofi_ep_t *ep, mad_dev_space_t space, const void *buf, size_t len, fi_addr_t to, uint64_t tag,
                       uint64_t data, uint64_t flags);
ssize_t mad_ofi_receive(mad_ofi_ep_t *ep, mad_dev_space_t space, const struct iovec *pieces, size_t n, fi_addr_t from,
                        uint64_t tag, uint64_t ignore, uint64_t flags, void *context);
/* Receive or probe with FI_PEEK or FI_CLAIM. */
ssize_t mad_ofi_search(mad_ofi_ep_t *ep, const struct iovec *pieces, size_t n, fi_addr_t from, uint64_t tag, uint64_t ignore,
                       uint64_t flags, void *context);
/* Request an access.  Fills in the peer and how completion is reported.  flags: those of the call, including op_flags;
 * MAD_OFI_NO_REPORT: only counted, like fi_inject_write. */
ssize_t mad_ofi_remote(mad_ofi_ep_t *ep, mad_dev_remote_t *remote, fi_addr_t to, uint64_t flags);
void mad_ofi_notify(void *ep, const mad_dev_done_t *done);
void mad_ofi_notify_received(void *ep, void *context, uint64_t flags, const mad_dev_got_t *got);
/* report a send that completed at once; flags as stored in the device */
void mad_ofi_sent(mad_ofi_ep_t *ep, uint64_t flags, void *context);
extern struct fi_ops_rma mad_ofi_rma;
extern struct fi_ops_atomic mad_ofi_atomic;
extern struct fi_ops_msg mad_ofi_msg;
extern struct fi_ops_tagged mad_ofi_tagged;

#endif
