/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI's byte transfer layer (BTL) over Madeleine: the component mad of Open MPI 4.1.
 *
 *   component.c   found and started by Open MPI: session, channel, parameters, the address for others
 *   key.c         the key of the job: from the environment, or by Open MPI's exchange (job_key.h)
 *   peers.c       the other processes: their addresses, endpoints, deaths
 *   fragment.c    descriptors: allocated, filled from a convertor
 *   send.c        fragments out
 *   receive.c     progress: fragments in, what has completed
 *   get.c         long messages: offered or asked for, the data go where they belong
 *   thread.c      progress while the program makes none
 *
 * One session, a channel of fragments.  A fragment is a message of one block: what Open MPI gives us, whose first byte is
 * its tag, as in the headers of ob1; where it is not, that comes behind eight bytes: 0, the tag, and nothing.  It leaves at
 * once (mad_send_now) or is queued with a request; it is read where it lies (mad_glance, mad_borrow) by the callback of its
 * tag.  Open MPI orders and matches by numbers in its own headers, so threads may handle fragments side by side.
 *
 * Open MPI has its limits of lengths by module, so there are two: one for peers that are reached through memory, one for
 * those that are reached by networks.  There a fragment may be longer than a packet, for each further journey costs more
 * than a copy: it is a message of several blocks, each a packet, begins with those eight bytes, which say how many follow
 * them, and is put together by the receiver. */
#ifndef MAD_BTL_H
#define MAD_BTL_H

#include <opal_config.h>

#include <opal/class/opal_free_list.h>
#include <opal/datatype/opal_convertor.h>
#include <opal/mca/btl/base/base.h>
#include <opal/mca/btl/btl.h>
#include <opal/util/proc.h>

#include "base/foreign.h"
#include "mpi/openmpi/thresholds.h"

#include <madeleine.h>
#include <stdatomic.h>

#define MAD_BTL_TAG_GET (MCA_BTL_TAG_BTL + 8) /* a question of get.c */
#define MAD_BTL_MARK 8 /* bytes before a fragment that does not begin with its tag: 0, the tag, 0, 0, what follows if long */

/* What Open MPI sends to the peer, for btl_get. */
struct mca_btl_base_registration_handle_t {
    uint64_t number;
    uint64_t offered; /* 1: a message with all of it is on its way */
};

typedef struct mca_btl_base_endpoint_t {
    mca_btl_base_module_t *btl; /* that serves it */
    mad_peer_t peer;
    opal_proc_t *proc;
    atomic_bool dead; /* and Open MPI has been told */
    atomic_int queued; /* fragments that could not leave at once */
    atomic_bool flows; /* one of these has left since a thread waited for room in vain */
    struct mca_btl_base_endpoint_t *next;
} mad_btl_endpoint_t;

/* What has completed, in whatever thread, and is told to Open MPI by its own progress. */
typedef struct mad_btl_done {
    struct mad_btl_done *next;
    void (*complete)(struct mad_btl_done *done);
    mad_status_t status;
} mad_btl_done_t;

typedef struct mad_btl_fragment {
    mca_btl_base_descriptor_t base; /* first: Open MPI has this */
    mca_btl_base_segment_t segments[2];
    opal_free_list_t *list;
    mad_btl_endpoint_t *endpoint;
    unsigned char mark[MAD_BTL_MARK];
    mad_btl_done_t done;
} mad_btl_fragment_t;
OBJ_CLASS_DECLARATION(mad_btl_fragment_t);

/* What went through: counted only if it is to be reported. */
typedef struct mad_btl_count {
    atomic_ullong n, bytes;
} mad_btl_count_t;

/* The module that serves each peer, once that is known, and then for ever.  One that has become too small stays. */
typedef struct mad_btl_served {
    struct mad_btl_served *before;
    mad_peer_t n;
    mca_btl_base_module_t *_Atomic by[];
} mad_btl_served_t;

typedef struct mad_btl_component {
    mca_btl_base_component_3_0_0_t super;
    mad_session_t *session;
    mad_channel_t *channel, *bulk; /* fragments; answers of get.c */
    atomic_int gets; /* under way */
    opal_free_list_t eager, full; /* fragments with so much room as one may have at first, or at most */
    size_t room;                  /* bytes of the longest fragment */
    size_t block;                 /* and of its blocks: so much fits one packet of every network */
    _Atomic(mad_btl_served_t *) served;
    atomic_int near; /* peers that are reached through memory */
    int cores;       /* of this host */
    _Atomic(mad_btl_done_t *) done;
    mca_btl_base_module_error_cb_fn_t error;
    bool report;
    int async; /* the parameter: 0, 1, 2 */
    atomic_uint calls; /* of progress, by the program */
    mad_btl_count_t sent, received, got;
} mad_btl_component_t;

/* Open MPI looks for this name. */
extern mad_btl_component_t mca_btl_mad_component;
extern mca_btl_base_module_t mad_btl_memory, mad_btl_network;
#define mad_btl (&mca_btl_mad_component)

static inline void mad_btl_count(mad_btl_count_t *count, size_t bytes)
{
    if (OPAL_LIKELY(!mad_btl->report))
        return;
    atomic_fetch_add_explicit(&count->n, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->bytes, bytes, memory_order_relaxed);
}

/* Does it begin with its tag, so that it needs no mark? */
static inline bool mad_btl_begins(const void *begin, mca_btl_base_tag_t tag)
{
    unsigned char first = *(const unsigned char *)begin;
    return OPAL_LIKELY(first == tag && first);
}

/* peers.c */
mca_btl_base_module_t *mad_btl_decide(mad_peer_t peer, bool is_near); /* is_near: supposed before it is connected */
static inline mca_btl_base_module_t *mad_btl_module_of(mad_peer_t peer)
{
    mad_btl_served_t *served = atomic_load_explicit(&mad_btl->served, memory_order_acquire); /* pairs with mad_btl_decide */
    mca_btl_base_module_t *btl = NULL;
    if (OPAL_LIKELY(served && peer < served->n))
        btl = atomic_load_explicit(&served->by[peer], memory_order_relaxed);
    return OPAL_LIKELY(btl != NULL) ? btl : mad_btl_decide(peer, false);
}
void mad_btl_peers_end(void);

/* Do processes of this job take turns on the host's cores? */
static inline bool mad_btl_is_crowded(void)
{
    return atomic_load_explicit(&mad_btl->near, memory_order_relaxed) >= mad_btl->cores;
}
int mad_btl_publish(void); /* the address of this process, for others */
int mad_btl_add_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs, mad_btl_endpoint_t **endpoints,
                      opal_bitmap_t *reachable);
int mad_btl_del_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs, mad_btl_endpoint_t **endpoints);
void mad_btl_look_for_deaths(void);
void mad_btl_dead(mad_btl_endpoint_t *endpoint, const char *text);
void mad_btl_lost(mad_peer_t peer, const char *text); /* the same; something of it will never come */

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
/* Have it told by Open MPI's progress when the request completes, which is given up. */
void mad_btl_when_done(mad_request_t *request, mad_btl_done_t *done);

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
int mad_btl_take_bulk(int64_t look); /* how many messages there were on the channel for bulk */
void mad_btl_gets_fail(mad_btl_endpoint_t *endpoint);

/* receive.c */
int mad_btl_progress(void);
/* The same by a thread of ours, which waits for a fragment for so many ns. */
void mad_btl_serve(int64_t timeout);

/* thread.c: nothing without btl_mad_async 2 */
void mad_btl_thread_start(void); /* it serves while the program makes no progress; by who adds peers */
void mad_btl_thread_stop(void);  /* waits until it does not any more; by who takes peers away, or ends the component */

#endif
