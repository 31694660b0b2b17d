/* SPDX-License-Identifier: BSD-3-Clause */
/* The other processes of the job.  Addresses are passed by Open MPI's own exchange, as opaque bytes.  An address is
 * looked up when its process is first needed. */
#include "pml_mad.h"

#include <opal/util/output.h>
#include <stdlib.h>

int mad_pml_publish(void)
{
    const void *address;
    size_t len;
    int rc;
    mad_address(mad_dev_session(mad_pml->dev), &address, &len);
    OPAL_MODEX_SEND(rc, MAD_OMPI_GLOBAL, &mad_pml->super.pmlm_version, (void *)address, len);
    return rc;
}

/* ---- Processes ------------------------------------------------------------------------------------------------- */

/* Return the peer of a process.  Open MPI's pointer contains the peer's number plus one, so that NULL means "not known
 * yet". */
static mad_peer_t proc_peer(const ompi_proc_t *proc)
{
    return (mad_peer_t)(intptr_t)proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML] - 1;
}

static int proc_peer_add(ompi_proc_t *proc)
{
    mad_status_t status = MAD_ERR_UNREACHABLE;
    void *address = NULL;
    size_t len = 0;
    mad_peer_t peer;
    int rc;
    if (proc_peer(proc) >= 0)
        return OMPI_SUCCESS;
    OPAL_MODEX_RECV(rc, &mad_pml->super.pmlm_version, &proc->super.proc_name, &address, &len);
    if (rc == OMPI_SUCCESS)
        status = mad_peer_add(mad_dev_session(mad_pml->dev), address, len, &peer);
    free(address);
    if (status) {
        opal_output(0, "pml mad: process %s has no address that can be used: %s", OMPI_NAME_PRINT(&proc->super.proc_name),
                    rc == OMPI_SUCCESS ? mad_status_text(status) : opal_strerror(rc));
        return OMPI_ERR_UNREACH;
    }
    proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML] = (void *)(intptr_t)(peer + 1);
    return OMPI_SUCCESS;
}

int mad_pml_add_procs(struct ompi_proc_t **procs, size_t n)
{
    int rc = mca_pml_base_pml_check_selected("mad", procs, n);
    for (size_t i = 0; rc == OMPI_SUCCESS && i < n; i++)
        rc = proc_peer_add(procs[i]);
    return rc;
}

int mad_pml_del_procs(struct ompi_proc_t **procs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mad_peer_t peer = proc_peer(procs[i]);
        if (peer >= 0)
            mad_dev_peer_forget(mad_pml->dev, peer);
        procs[i]->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML] = NULL;
    }
    return OMPI_SUCCESS;
}

/* ---- Communicators --------------------------------------------------------------------------------------------- */

int mad_pml_add_comm(ompi_communicator_t *comm)
{
    /* number of ranks of the remote group, which is the communicator's own group unless the communicator is an
     * intercommunicator */
    int n = comm->c_remote_group->grp_proc_count;
    struct mca_pml_comm_t *peers = malloc(sizeof *peers + (size_t)n * sizeof *peers->by);
    if (!peers)
        return OMPI_ERR_OUT_OF_RESOURCE;
    peers->n = n;
    for (int i = 0; i < n; i++)
        atomic_init(&peers->by[i], MAD_PML_NO_PEER);
    comm->c_pml_comm = peers;
    return OMPI_SUCCESS;
}

int mad_pml_del_comm(ompi_communicator_t *comm)
{
    free(comm->c_pml_comm);
    comm->c_pml_comm = NULL;
    return OMPI_SUCCESS;
}

mad_peer_t mad_pml_find_peer(ompi_communicator_t *comm, int rank)
{
    ompi_proc_t *proc = ompi_comm_peer_lookup(comm, rank);
    mad_peer_t peer = MAD_PML_NO_PEER;
    if (proc && proc_peer_add(proc) == OMPI_SUCCESS) {
        peer = proc_peer(proc);
        atomic_store_explicit(&comm->c_pml_comm->by[rank], peer, memory_order_relaxed);
    }
    return peer;
}

/* Return the rank of a peer.  The claimed rank is checked, because a peer may claim any rank. */
int mad_pml_rank(ompi_communicator_t *comm, mad_peer_t peer, uint64_t claimed)
{
    if (claimed < (uint64_t)comm->c_pml_comm->n && mad_pml_peer(comm, (int)claimed) == peer)
        return (int)claimed;
    return MPI_ANY_SOURCE;
}
