/* SPDX-License-Identifier: BSD-3-Clause */
/* The session that the component uses, and the groups of communicators. */
#include "coll_mad.h"
#include "mpi/openmpi/btl_mad.h"
#include "mpi/pml/pml_mad.h"
#include "engine/wait_policy.h"

#include <ompi/mca/coll/base/base.h>
#include <ompi/mca/pml/base/base.h>
#include <opal/mca/btl/base/base.h>
#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>
#include <stdlib.h>
#include <string.h>

/* ---- The session ----------------------------------------------------------------------------------------------- */

/* A component whose session is used, and whose addresses Open MPI has exchanged. */
typedef struct source {
    mad_session_t *session; /* NULL if there is none */
    const mca_base_component_t *version;
} source_t;

static source_t source_pml(void)
{
    mca_base_component_list_item_t *item;
    if (strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "mad") != 0)
        return (source_t){0};
    OPAL_LIST_FOREACH(item, &ompi_pml_base_framework.framework_components, mca_base_component_list_item_t)
    {
        const mad_pml_component_t *pml = (const mad_pml_component_t *)item->cli_component;
        if (!strcmp(item->cli_component->mca_component_name, "mad"))
            return (source_t){pml->session, &pml->super.pmlm_version};
    }
    return (source_t){0};
}

static source_t source_btl(void)
{
    mca_btl_base_selected_module_t *item;
    OPAL_LIST_FOREACH(item, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        const mad_btl_component_t *btl = (const mad_btl_component_t *)item->btl_component;
        if (!strcmp(item->btl_component->btl_version.mca_component_name, "mad"))
            return (source_t){btl->session, &btl->super.btl_version};
    }
    return (source_t){0};
}

static source_t source_find(void)
{
    source_t source = source_pml();
    return source.session ? source : source_btl();
}

mad_session_t *mad_coll_session(void)
{
    return source_find().session;
}

/* ---- Groups ---------------------------------------------------------------------------------------------------- */

/* Return the number by which all members know the communicator. */
static uint64_t comm_number(const ompi_communicator_t *comm)
{
#if OMPI_MAJOR_VERSION >= 5
    if (!OMPI_COMM_IS_GLOBAL_INDEX(comm)) /* the index differs between members; the pair of numbers does not */
        return (comm->c_contextid.cid_base * UINT64_C(0x9e3779b97f4a7c15) ^ comm->c_contextid.cid_sub.u64) | UINT64_C(1)
                                                                                                                 << 63;
    return comm->c_index;
#else
    return comm->c_contextid;
#endif
}

static mad_status_t member_peer(source_t source, ompi_communicator_t *comm, int rank, mad_peer_t *peer)
{
    ompi_proc_t *proc = ompi_comm_peer_lookup(comm, rank);
    void *address = NULL;
    size_t len = 0;
    mad_status_t status = MAD_ERR_UNREACHABLE;
    int rc;
    OPAL_MODEX_RECV(rc, source.version, &proc->super.proc_name, &address, &len);
    if (rc == OMPI_SUCCESS)
        status = mad_peer_add(source.session, address, len, peer);
    free(address);
    if (status)
        opal_output(0, "coll mad: process %s has no address that can be used: %s", OMPI_NAME_PRINT(&proc->super.proc_name),
                    rc == OMPI_SUCCESS ? mad_status_text(status) : opal_strerror(rc));
    return status;
}

/* Open MPI's progress, each time that an operation has looked for its messages.  Where processes outnumber the cores, Open MPI
 * yields the core. */
static void coll_idle(void *arg)
{
    static _Thread_local unsigned turn;
    (void)arg;
    if (opal_progress_yield_when_idle || ++turn % MADI_PML_OTHERS_EVERY == 0)
        opal_progress();
}

mad_status_t mad_coll_group_make(mad_coll_module_t *module)
{
    ompi_communicator_t *comm = module->comm;
    int n = ompi_comm_size(comm), own = ompi_comm_rank(comm);
    source_t source = source_find();
    mad_status_t status = MAD_OK;
    mad_peer_t *peers;
    if (!source.session)
        return MAD_ERR_CLOSED;
    peers = calloc((size_t)n, sizeof *peers);
    if (!peers)
        return MAD_ERR_NOMEM;
    for (int i = 0; i < n && !status; i++)
        if (i != own)
            status = member_peer(source, comm, i, &peers[i]);
    if (!status)
        status = mad_group_new(source.session, peers, n, own, comm_number(comm), &module->group);
    free(peers);
    if (status)
        opal_output(0, "coll mad: no group for communicator %s: %s", comm->c_name, mad_status_text(status));
    else
        mad_group_idle_set(module->group, coll_idle, NULL);
    return status;
}
