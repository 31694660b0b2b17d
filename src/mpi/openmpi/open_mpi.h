/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that differ between Open MPI 4.1 and 5.0, under one name each.  The rest of the components is one source for both. */
#ifndef MAD_OPEN_MPI_H
#define MAD_OPEN_MPI_H

#include <opal_config.h>

#include <opal/mca/btl/btl.h>

#if OPAL_MAJOR_VERSION >= 5
#include <opal/mca/pmix/pmix-internal.h>
#include <opal/mca/threads/mutex.h>
#include <opal/mca/threads/thread_usage.h>
#include <opal/mca/threads/wait_sync.h>

#define MAD_OMPI_GLOBAL PMIX_GLOBAL
#define MAD_OMPI_REMOTE_COMPLETION MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION
#define MAD_OMPI_OTHER_WINDOWS true /* with MPI_THREAD_MULTIPLE, Open MPI makes windows of messages */
typedef mca_btl_base_receive_descriptor_t mad_ompi_received_t;
#else
#include <opal/mca/pmix/pmix.h>
#include <opal/threads/mutex.h>
#include <opal/threads/thread_usage.h>
#include <opal/threads/wait_sync.h>

#define MAD_OMPI_GLOBAL OPAL_PMIX_GLOBAL
#define MAD_OMPI_REMOTE_COMPLETION 0
#define MAD_OMPI_OTHER_WINDOWS false
typedef mca_btl_base_descriptor_t mad_ompi_received_t;
#endif

/* True if Open MPI's callback for this tag answers by the endpoint of the received fragment: its own puts and gets, which
 * 5.0 makes of fragments.  Matching finds its peer by the fragment's header. */
static inline bool mad_ompi_needs_endpoint(mca_btl_base_tag_t tag)
{
#if OPAL_MAJOR_VERSION >= 5
    return (tag & 0xf0) == MCA_BTL_TAG_BTL_BASE;
#else
    (void)tag;
    return false;
#endif
}

/* Pass a received fragment to Open MPI.  endpoint may be NULL, unless mad_ompi_needs_endpoint(tag). */
static inline void mad_ompi_deliver(mca_btl_active_message_callback_t *to, mca_btl_base_module_t *btl,
                                    mca_btl_base_tag_t tag, mad_ompi_received_t *received,
                                    struct mca_btl_base_endpoint_t *endpoint)
{
#if OPAL_MAJOR_VERSION >= 5
    received->endpoint = endpoint;
    received->tag = tag;
    received->cbdata = to->cbdata;
    to->cbfunc(btl, received);
#else
    (void)endpoint;
    received->des_flags = 0;
    to->cbfunc(btl, tag, received, to->cbdata);
#endif
}

#endif
