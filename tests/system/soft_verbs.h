/* SPDX-License-Identifier: BSD-3-Clause */
/* A libibverbs and a librdmacm for tests, of one or two RDMA devices without hardware: queue pairs of processes of one host.  They have
 * what drivers/verbs uses and nothing else, so that the conformance suite runs over that driver on any host.
 *
 *   soft_verbs.c        objects; calls that fail; the report at the end
 *   soft_verbs_work.c   sends, receives, reads, completions
 *   soft_cm.c           connections by rdma_cm
 *
 * The device is soft0, its GID that of 127.0.0.1.  A queue pair is a UNIX datagram socket with its number as the name; a send
 * is a datagram.  RDMA reads are process_vm_readv from the process that has sent the last datagram; a read fails if its
 * destination is not registered.  The descriptor of a completion channel is an epoll set of all
 * these sockets.  One lock protects everything.
 *
 * Calls that release an object release it, also those that fail: a failed release leaves an object to the real device alone.
 * At its end a process reports the objects that it has left.  Variables:
 *   SOFT_VERBS_FAIL=NAME:N   the N-th call of ibv_NAME fails, for instance create_cq:1, and poll_cq from then on.  completion:N: the N-th completion is
 *                            an error
 *   SOFT_VERBS_IWARP=A       the device is one of iWARP; A, an IPv4 address of this host, is its own
 *   SOFT_VERBS_STRANGER=1    before each request of rdma_cm another one leaves, with another key
 *   SOFT_VERBS_EVENT=N       the device has an event of this type (ibv_event_type) at its opening
 *   SOFT_VERBS_DEVICES=2     there is a second device, soft1, with the GID of the first one
 *   SOFT_VERBS_PAIRS=N       maximum number of queue pairs
 *   SOFT_VERBS_MEMORY=N      maximum number of registered bytes
 *   SOFT_VERBS_CHECK=1       a read fails if pages of its destination were replaced after that was registered (for root)
 *   SOFT_VERBS_COUNT=1       the end reports posts, bytes and registrations, too */
#ifndef SOFT_VERBS_H
#define SOFT_VERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct soft_cq {
    struct ibv_cq cq;
    struct ibv_wc *wc;
    int n, room;
    bool armed, event;
} soft_cq_t;

typedef struct soft_recv {
    struct soft_recv *next;
    uint64_t id;
    struct ibv_sge sge;
} soft_recv_t;
typedef struct soft_srq {
    struct ibv_srq srq;
    soft_recv_t *first, **last;
} soft_srq_t;

typedef struct soft_pending {
    struct soft_pending *next;
    uint64_t id;
    bool signaled;
    size_t len;
    char data[];
} soft_pending_t;
typedef struct soft_pair {
    struct ibv_qp qp;
    struct soft_pair *next;
    int fd, set;
    pid_t peer;
    bool failed, all_out;
    soft_pending_t *pending, **pending_last;
} soft_pair_t;

typedef struct soft_channel {
    struct ibv_comp_channel channel;
    int bell;
    struct ibv_cq *cq;
} soft_channel_t;

#define SOFT_REGIONS 4096 /* maximum number of registrations */
typedef struct soft_region {
    struct ibv_mr mr; /* mr.lkey: 1 + index in the table */
    uint64_t sum;     /* of the numbers of its pages; 0 if they are not checked */
} soft_region_t;

/* Counts, and what else both files use; under the lock. */
typedef struct soft_state {
    pthread_mutex_t lock;
    soft_pair_t *pairs;
    int n_pairs, objects;
    size_t registered; /* bytes */
    size_t posts, bytes_sent, bytes_read, registrations;
    soft_region_t *regions[SOFT_REGIONS];
} soft_state_t;
extern soft_state_t soft;

/* True if this call of ibv_NAME has to fail; sets errno.  Without the lock. */
bool soft_fails(const char *name);
/* Like soft_fails, but under the lock. */
bool soft_fails_locked(const char *name);
/* Return a sum of the numbers of the pages of memory. */
uint64_t soft_pages_sum(const void *at, size_t len);

/* True if the device is one of iWARP. */
bool soft_is_iwarp(void);
/* Return a context of the device that is not counted. */
struct ibv_context *soft_context(void);
/* Connect a pair of this process to another one, and make it ready.  Under the lock. */
void soft_pair_join(uint32_t number, uint32_t peer);

/* soft_verbs_work.c: operations of the device */
int soft_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited);
int soft_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

#endif
