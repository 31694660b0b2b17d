/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI's byte transfer layer (BTL) over Madeleine: the component mad of Open MPI 4.1.
 *
 *   component.c   entry points for Open MPI: session, channel, parameters, publication of the address
 *   key.c         the key of the job: from the environment, or by Open MPI's exchange (job_key.h)
 *   peers.c       the other processes: their addresses, endpoints, losses
 *   fragment.c    descriptors: allocation, filling from a convertor
 *   send.c        outgoing fragments
 *   receive.c     progress: incoming fragments, completions
 *   get.c         long messages: offered or requested, and unpacked in place
 *   tally.c       numbers of objects that are kept for each peer
 *   thread.c      progress while the program makes none
 *   windows.c     windows: put, get and atomic operations
 *
 * There is one session, with one channel for fragments.  A fragment is a message of one block.  Its first byte is its tag, as
 * in the headers of ob1; if the data do not begin with the tag, a mark of eight bytes precedes them: 0, the tag, zeros.  A
 * fragment is sent at once (mad_message_send_now), or queued with a request.  The callback of its tag reads it in place
 * (mad_channel_poll, mad_unpack_borrow).  Open MPI orders and matches by numbers in its own headers, so several threads may handle
 * fragments at the same time.
 *
 * Open MPI has one set of length limits per module, so there are two modules for messages: one for peers reached through
 * shared memory, one for peers reached over networks.  A third module is for windows (windows.c).  Over networks a
 * fragment may be longer than a packet, because each further round trip costs more than a copy.  A longer fragment is a
 * message of several blocks, one packet each, which the receiver reassembles.  The message begins with the mark, which
 * also has the number of bytes that follow. */
#ifndef MAD_BTL_H
#define MAD_BTL_H

#include <opal_config.h>

#include <opal/class/opal_free_list.h>
#include <opal/datatype/opal_convertor.h>
#include <opal/mca/btl/base/base.h>
#include <opal/mca/btl/btl.h>
#include <opal/util/proc.h>

#include "base/foreign.h"
#include "mpi/openmpi/open_mpi.h"
#include "mpi/openmpi/thresholds.h"

#include <madeleine.h>
#include <stdatomic.h>

#define MAD_BTL_TAG_GET (MCA_BTL_TAG_BTL + 8) /* tag of the requests of get.c */
#define MAD_BTL_MARK 8 /* bytes of a mark: 0, the tag, 0, 0, then the number of bytes that follow (0 if there are none) */

/* Description of registered memory, which Open MPI sends to the peer for btl_get. */
struct mca_btl_base_registration_handle_t {
    uint64_t number;
    uint64_t offered; /* 1 if a message with all of this memory is offered */
};

typedef struct mca_btl_base_endpoint_t {
    mca_btl_base_module_t *btl; /* module that serves this peer */
    mad_peer_t peer;            /* not set if self */
    bool self;                  /* the peer is this process; only for windows */
    opal_proc_t *proc;
    atomic_bool dead;  /* the loss was reported to Open MPI */
    atomic_int queued; /* number of fragments that wait to leave */
    atomic_int offers; /* number of registrations that are offered to the peer */
    atomic_bool flows; /* a queued fragment has left since a thread last waited for room in vain */
    struct mca_btl_base_endpoint_t *next;
} mad_btl_endpoint_t;

/* An operation that has completed, in any thread, and that Open MPI's progress function has to report. */
typedef struct mad_btl_done {
    struct mad_btl_done *next;
    void (*complete)(struct mad_btl_done *done);
    mad_status_t status;
} mad_btl_done_t;

typedef struct mad_btl_fragment {
    mca_btl_base_descriptor_t base; /* must be first, because Open MPI has this pointer */
    mca_btl_base_segment_t segments[2];
    opal_free_list_t *list;
    mad_btl_endpoint_t *endpoint;
    unsigned char mark[MAD_BTL_MARK];
    mad_btl_done_t done;
} mad_btl_fragment_t;
OBJ_CLASS_DECLARATION(mad_btl_fragment_t);

/* Number of messages and bytes; counted only if a report is requested. */
typedef struct mad_btl_count {
    atomic_ullong n, bytes;
} mad_btl_count_t;

/* Modules by peer; an entry does not change once it is known.  The array grows by replacement, and old arrays are not
 * freed. */
typedef struct mad_btl_served {
    struct mad_btl_served *before;
    mad_peer_t n;
    mca_btl_base_module_t *_Atomic by[];
} mad_btl_served_t;

typedef struct mad_btl_component {
    mca_btl_base_component_3_0_0_t super;
    mad_session_t *session;
    mad_channel_t *channel, *bulk; /* channel for fragments; channel for the bodies of get.c */
    atomic_int gets;               /* number of gets, and of long operations on windows, under way */
    opal_free_list_t eager, full;  /* free fragments, with room for an eager message or for the longest one */
    size_t room;                   /* bytes of the longest fragment */
    size_t block;                  /* bytes of each block of a long fragment, which fit into one packet of every network */
    _Atomic(mad_btl_served_t *) served;
    atomic_int near; /* number of peers reached through shared memory */
    int cores;       /* number of processors of this host */
    _Atomic(mad_btl_done_t *) done;
    mca_btl_base_module_error_cb_fn_t error;
    bool report;
    int async;         /* the parameter: 0, 1 or 2 */
    atomic_uint calls; /* number of progress calls by the program */
    mad_btl_count_t sent, received, got, windows;
} mad_btl_component_t;

/* The component; Open MPI looks for this symbol. */
extern mad_btl_component_t mca_btl_mad_component;
extern mca_btl_base_module_t mad_btl_memory, mad_btl_network, mad_btl_windows;
#define mad_btl (&mca_btl_mad_component)

static inline void mad_btl_count(mad_btl_count_t *count, size_t bytes)
{
    if (OPAL_LIKELY(!mad_btl->report))
        return;
    atomic_fetch_add_explicit(&count->n, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->bytes, bytes, memory_order_relaxed);
}

/* True if the data begin with their tag, so that no mark is needed. */
static inline bool mad_btl_begins(const void *begin, mca_btl_base_tag_t tag)
{
    unsigned char first = *(const unsigned char *)begin;
    return OPAL_LIKELY(first == tag && first);
}

/* peers.c */
mca_btl_base_module_t *mad_btl_decide(mad_peer_t peer, bool is_near); /* is_near: expectation before the peer is connected */
static inline mca_btl_base_module_t *mad_btl_module_of(mad_peer_t peer)
{
    mad_btl_served_t *served = atomic_load_explicit(&mad_btl->served, memory_order_acquire); /* pairs with mad_btl_decide */
    mca_btl_base_module_t *btl = NULL;
    if (OPAL_LIKELY(served && peer < served->n))
        btl = atomic_load_explicit(&served->by[peer], memory_order_relaxed);
    return OPAL_LIKELY(btl != NULL) ? btl : mad_btl_decide(peer, false);
}
void mad_btl_peers_end(void);

/* True if the job has more processes than this host has processors. */
static inline bool mad_btl_oversubscribed(void)
{
    return atomic_load_explicit(&mad_btl->near, memory_order_relaxed) >= mad_btl->cores;
}
int mad_btl_publish(void); /* publish this process's address */
int mad_btl_add_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs, mad_btl_endpoint_t **endpoints,
                      opal_bitmap_t *reachable);
int mad_btl_del_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs, mad_btl_endpoint_t **endpoints);
void mad_btl_look_for_deaths(void);
void mad_btl_dead(mad_btl_endpoint_t *endpoint, const char *text);
/* Return the endpoint of a peer; NULL if Open MPI has not added its process yet.  Walks the list of all endpoints. */
mad_btl_endpoint_t *mad_btl_endpoint_of(mad_peer_t peer);
void mad_btl_lost(mad_peer_t peer, const char *text); /* like mad_btl_dead, but by peer: data from it will never come */

/* fragment.c */
int mad_btl_fragments_init(void);
mca_btl_base_descriptor_t *mad_btl_alloc(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, uint8_t order,
                                         size_t size, uint32_t flags);
mca_btl_base_descriptor_t *mad_btl_prepare_src(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint,
                                               opal_convertor_t *convertor, uint8_t order, size_t reserve, size_t *size,
                                               uint32_t flags);
int mad_btl_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor);

/* send.c */
int mad_btl_send(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, mca_btl_base_descriptor_t *descriptor,
                 mca_btl_base_tag_t tag);
int mad_btl_sendi(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, opal_convertor_t *convertor, void *header,
                  size_t header_size, size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                  mca_btl_base_descriptor_t **descriptor);
/* Report the completion of a request by Open MPI's progress.  The request belongs to the library from now on. */
void mad_btl_when_done(mad_request_t *request, mad_btl_done_t *done);
/* Report a completion by Open MPI's progress.  arg: a mad_btl_done_t. */
void mad_btl_push_done(void *arg, mad_status_t status);

/* get.c */
mca_btl_base_registration_handle_t *mad_btl_register(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *base,
                                                     size_t size, uint32_t flags);
int mad_btl_deregister(mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle);
int mad_btl_get(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address, uint64_t remote_address,
                mca_btl_base_registration_handle_t *handle, mca_btl_base_registration_handle_t *remote_handle, size_t size,
                int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data);
int mad_btl_put(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address, uint64_t remote_address,
                mca_btl_base_registration_handle_t *handle, mca_btl_base_registration_handle_t *remote_handle, size_t size,
                int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data);
void mad_btl_answer(mad_peer_t peer, madi_foreign_t bytes, size_t len);
/* Read the channel for bulk data, on all networks or only on those that are cheap to check.  Return the number of
 * messages. */
int mad_btl_take_bulk(bool all);
void mad_btl_gets_fail(mad_btl_endpoint_t *endpoint);

/* windows.c: functions of the module for windows, as btl.h of Open MPI describes them */
mca_btl_base_registration_handle_t *mad_btl_window_register(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint,
                                                            void *base, size_t size, uint32_t flags);
int mad_btl_window_deregister(mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle);
int mad_btl_window_put(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address,
                       uint64_t remote_address, mca_btl_base_registration_handle_t *handle,
                       mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
                       mca_btl_base_rdma_completion_fn_t callback, void *context, void *data);
int mad_btl_window_get(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address,
                       uint64_t remote_address, mca_btl_base_registration_handle_t *handle,
                       mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
                       mca_btl_base_rdma_completion_fn_t callback, void *context, void *data);
int mad_btl_window_op(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, uint64_t remote_address,
                      mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op, uint64_t operand,
                      int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data);
int mad_btl_window_fop(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address,
                       uint64_t remote_address, mca_btl_base_registration_handle_t *handle,
                       mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op, uint64_t operand,
                       int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data);
int mad_btl_window_cswap(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address,
                         uint64_t remote_address, mca_btl_base_registration_handle_t *handle,
                         mca_btl_base_registration_handle_t *remote_handle, uint64_t compare, uint64_t value, int flags,
                         int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data);

/* receive.c */
int mad_btl_progress(void);
/* Like mad_btl_progress, but for the library's thread: wait up to timeout ns for a fragment. */
void mad_btl_serve(int64_t timeout);

/* thread.c: no effect unless btl_mad_async is 2 */
void mad_btl_thread_start(void); /* called when peers are added; the thread runs while the program makes no progress */
void mad_btl_thread_stop(void);  /* wait until the thread has ended; called when peers are removed, and when the
                                  * component closes */

#endif
