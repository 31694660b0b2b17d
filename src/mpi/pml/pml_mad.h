/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI's point-to-point layer (PML) over the matching device: the component mad of Open MPI 4.1.
 *
 *   component.c   found and started by Open MPI: device, parameters, progress
 *   peers.c       the other processes: their addresses, and which peer is which rank of a communicator
 *   request.c     requests: completed, started again, freed, cancelled
 *   data.c        buffers of MPI datatypes: in one piece, or packed
 *   send.c        sends of all modes
 *   receive.c     receives
 *   probe.c       probes, and the receives of messages that a probe has taken
 *
 * The device matches: its tag is the communicator's number and MPI's tag, its data are the sender's rank.
 *
 *     63              32 31                 0        31                0
 *    +------------------+--------------------+      +------------------+
 *    | communicator     | MPI's tag, signed  |      | rank of sender   |
 *    +------------------+--------------------+      +------------------+
 *
 * MPI_ANY_TAG ignores the bits of the tag except the sign, since negative tags are reserved for Open MPI.
 *
 * The device reports completions under its lock.  There a request is only marked complete, and no function of Open
 * MPI is called that could call this component again.  So requests with a callback, and requests that were freed
 * before, wait in a list for the next call of mad_pml_progress (request.c). */
#ifndef MAD_PML_H
#define MAD_PML_H

#include "mpi/device/device.h"
#include "mpi/openmpi/open_mpi.h"

#include <ompi_config.h>

#include <ompi/communicator/communicator.h>
#include <ompi/datatype/ompi_datatype.h>
#include <ompi/mca/pml/base/base.h>
#include <ompi/mca/pml/pml.h>
#include <ompi/message/message.h>
#include <ompi/proc/proc.h>
#include <ompi/request/request.h>
#include <opal/class/opal_free_list.h>
#include <opal/datatype/opal_convertor.h>

#include <madeleine.h>
#include <stdatomic.h>

#define MAD_PML_CONTEXT_MAX 0x00ffffff
#define MAD_PML_NO_PEER (-1)

/* Peers of a communicator, to which Open MPI keeps a pointer.  An entry is filled on first use, and never changes
 * afterwards. */
struct mca_pml_comm_t {
    int n;                   /* number of ranks, of the remote group if there is one */
    _Atomic mad_peer_t by[]; /* MAD_PML_NO_PEER: not known yet */
};

typedef enum mad_pml_kind { MAD_PML_SEND, MAD_PML_RECEIVE } mad_pml_kind_t;

/* A buffer of the caller, as passed to the device. */
typedef struct mad_pml_data {
    struct iovec piece;         /* the caller's memory, or the packed copy */
    void *packed;               /* the packed copy, which is freed with the buffer; NULL if the data are contiguous */
    ompi_datatype_t *type;      /* datatype, retained while the data are packed; else NULL */
    opal_convertor_t convertor; /* valid while there is a packed copy */
} mad_pml_data_t;

typedef struct mad_pml_request {
    ompi_request_t super;         /* must be first, because Open MPI has this pointer; req_mpi_object.comm is retained */
    struct mad_pml_request *next; /* next in the list of request.c */
    int peer, tag;                /* as passed by the caller: a rank or MPI_ANY_SOURCE; a tag or MPI_ANY_TAG */
    /* One of MAD_PML_SEND and MAD_PML_RECEIVE; and a mode of Open MPI. */
    uint8_t kind, mode;
    bool
        plain; /* true unless there is a packed copy, a retained type, or an attached buffer: the fields below are not read */
    void *buf; /* buffer as passed by the caller; like count and type, set for persistent requests only */
    size_t count;
    ompi_datatype_t *type; /* retained if the request is persistent; else NULL */
    void *attached;        /* part of the buffer of MPI_Buffer_attach; NULL if none */
    mad_pml_data_t data;
} mad_pml_request_t;
OBJ_CLASS_DECLARATION(mad_pml_request_t);

/* Number of messages and bytes; counted only if a report is requested. */
typedef struct mad_pml_count {
    atomic_ullong n, bytes;
} mad_pml_count_t;

typedef struct mad_pml_component {
    mca_pml_base_component_t super;
    mad_dev_t *dev;
    mad_session_t *session; /* the device's session, for coll mad; NULL if there is none */
    opal_free_list_t requests;
    mad_pml_request_t *spare; /* requests for reuse; NULL if there are none, and always NULL if several threads call MPI */
    _Atomic(mad_pml_request_t *) ended; /* completed by the device, but not yet for Open MPI (request.c) */
    atomic_int failures;                /* number of failures logged */
    bool report;                        /* the parameter `report` */
    bool threaded;                      /* true if several threads may call MPI at the same time */
    mad_pml_count_t sent, received;
} mad_pml_component_t;

/* The component; Open MPI looks for this symbol. */
extern mad_pml_component_t mca_pml_mad_component;
extern mca_pml_base_module_t mad_pml_module;
#define mad_pml (&mca_pml_mad_component)

static inline void mad_pml_count(mad_pml_count_t *count, size_t bytes)
{
    if (OPAL_LIKELY(!mad_pml->report))
        return;
    atomic_fetch_add_explicit(&count->n, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&count->bytes, bytes, memory_order_relaxed);
}

/* Return the number that all processes of a communicator know it by. */
static inline uint32_t mad_pml_context(const ompi_communicator_t *comm)
{
#if OMPI_MAJOR_VERSION >= 5
    return comm->c_index; /* equal in all processes, since pml_flags claims no extended numbers */
#else
    return comm->c_contextid;
#endif
}

static inline uint64_t mad_pml_tag(const ompi_communicator_t *comm, int tag)
{
    return (uint64_t)mad_pml_context(comm) << 32 | (uint32_t)tag;
}

/* component.c */
int mad_pml_progress(void);
/* Wait until the request is complete.  The request is not freed. */
void mad_pml_wait(mad_pml_request_t *request);
/* Return Open MPI's error code for a status. */
int mad_pml_error(mad_status_t status);

/* peers.c */
mad_peer_t mad_pml_find_peer(ompi_communicator_t *comm, int rank);
/* Return the peer of a rank.  If the rank cannot be reached, log this and return MAD_PML_NO_PEER. */
static inline mad_peer_t mad_pml_peer(ompi_communicator_t *comm, int rank)
{
    mad_peer_t peer = atomic_load_explicit(&comm->c_pml_comm->by[rank], memory_order_relaxed);
    return OPAL_LIKELY(peer >= 0) ? peer : mad_pml_find_peer(comm, rank);
}
/* Return the rank of a peer; MPI_ANY_SOURCE if the peer has no rank in this communicator.  claimed: the rank that the
 * peer's message names. */
int mad_pml_rank(ompi_communicator_t *comm, mad_peer_t peer, uint64_t claimed);
int mad_pml_publish(void); /* publish this process's address */
int mad_pml_add_procs(struct ompi_proc_t **procs, size_t n);
int mad_pml_del_procs(struct ompi_proc_t **procs, size_t n);
int mad_pml_add_comm(ompi_communicator_t *comm);
int mad_pml_del_comm(ompi_communicator_t *comm);

/* request.c */
mad_pml_request_t *mad_pml_request_alloc(void); /* Return a request from Open MPI's free list; NULL if out of memory. */
/* Return a request for a message of this communicator, not started; NULL if out of memory.  Without threads, requests for
 * reuse are in a list that costs less than Open MPI's. */
static inline mad_pml_request_t *mad_pml_request_new(mad_pml_kind_t kind, ompi_communicator_t *comm, int peer, int tag)
{
    mad_pml_request_t *r = mad_pml->spare;
    if (OPAL_LIKELY(r != NULL))
        mad_pml->spare = r->next;
    else if (!(r = mad_pml_request_alloc()))
        return NULL;
    OBJ_RETAIN(comm);
    r->super.req_mpi_object.comm = comm;
    OMPI_REQUEST_INIT(&r->super, false);
    r->super.req_state = OMPI_REQUEST_ACTIVE;
    r->kind = (uint8_t)kind;
    r->mode = MCA_PML_BASE_SEND_STANDARD;
    r->plain = true;
    r->peer = peer;
    r->tag = tag;
    return r;
}
void mad_pml_request_release(mad_pml_request_t *request); /* free a request, which must not be in flight */
int mad_pml_request_free(ompi_request_t **request);
int mad_pml_request_start(size_t n, ompi_request_t **requests);
/* Record the arguments of a persistent request. */
void mad_pml_request_keep(mad_pml_request_t *request, void *buf, size_t count, ompi_datatype_t *type);
/* Complete a request whose status is set, after the device's last use of the request.  Any thread may call this. */
void mad_pml_request_complete(mad_pml_request_t *request);
int mad_pml_request_end_all(void); /* end all requests in the list; return their number */
void mad_pml_notify(void *arg, const mad_dev_done_t *done);
void mad_pml_notify_received(void *arg, void *context, uint64_t flags, const mad_dev_got_t *got);

/* data.c */
static inline bool mad_pml_is_plain(const ompi_datatype_t *type, size_t count)
{
    return OPAL_LIKELY((type->super.flags & OPAL_DATATYPE_FLAG_CONTIGUOUS) &&
                       (count == 1 || (type->super.flags & OPAL_DATATYPE_FLAG_NO_GAPS)));
}
static inline struct iovec mad_pml_piece(const void *buf, size_t count, const ompi_datatype_t *type)
{
    return (struct iovec){(char *)buf + type->super.true_lb, type->super.size * count};
}
/* Pack data that are not contiguous, or make room for receiving them.  Errors: OMPI_ERR_OUT_OF_RESOURCE. */
int mad_pml_data_pack(mad_pml_data_t *data, const void *buf, size_t count, ompi_datatype_t *type);
int mad_pml_data_room(mad_pml_data_t *data, void *buf, size_t count, ompi_datatype_t *type);
/* Unpack the len received bytes into the buffer of the receive. */
void mad_pml_data_unpack(mad_pml_data_t *data, size_t len);
void mad_pml_data_release(mad_pml_data_t *data);
/* Pack into memory that has room for all data. */
void mad_pml_data_pack_to(void *to, const void *buf, size_t count, ompi_datatype_t *type);

/* send.c */
int mad_pml_send_begin(mad_pml_request_t *request, const void *buf, size_t count, ompi_datatype_t *type);
int mad_pml_isend_init(const void *buf, size_t count, ompi_datatype_t *type, int to, int tag, mca_pml_base_send_mode_t mode,
                       ompi_communicator_t *comm, ompi_request_t **request);
int mad_pml_isend(const void *buf, size_t count, ompi_datatype_t *type, int to, int tag, mca_pml_base_send_mode_t mode,
                  ompi_communicator_t *comm, ompi_request_t **request);
int mad_pml_send(const void *buf, size_t count, ompi_datatype_t *type, int to, int tag, mca_pml_base_send_mode_t mode,
                 ompi_communicator_t *comm);

/* receive.c */
int mad_pml_receive_begin(mad_pml_request_t *request, void *buf, size_t count, ompi_datatype_t *type);
/* Fill *r so that it matches this rank and tag.  Return OMPI_ERR_UNREACH if the rank cannot be reached. */
int mad_pml_pattern(mad_dev_receive_t *r, int from, int tag, ompi_communicator_t *comm);
/* Wait for a receive, and free it. status may be MPI_STATUS_IGNORE. */
int mad_pml_receive_end(mad_pml_request_t *request, ompi_status_public_t *status);
/* Prepare the request's buffer, and let *r receive into it.  r->pieces is valid as long as the request exists. */
int mad_pml_receive_into(mad_pml_request_t *request, void *buf, size_t count, ompi_datatype_t *type, mad_dev_receive_t *r);
int mad_pml_irecv_init(void *buf, size_t count, ompi_datatype_t *type, int from, int tag, ompi_communicator_t *comm,
                       ompi_request_t **request);
int mad_pml_irecv(void *buf, size_t count, ompi_datatype_t *type, int from, int tag, ompi_communicator_t *comm,
                  ompi_request_t **request);
int mad_pml_recv(void *buf, size_t count, ompi_datatype_t *type, int from, int tag, ompi_communicator_t *comm,
                 ompi_status_public_t *status);

/* probe.c */
int mad_pml_iprobe(int from, int tag, ompi_communicator_t *comm, int *found, ompi_status_public_t *status);
int mad_pml_probe(int from, int tag, ompi_communicator_t *comm, ompi_status_public_t *status);
int mad_pml_improbe(int from, int tag, ompi_communicator_t *comm, int *found, ompi_message_t **message,
                    ompi_status_public_t *status);
int mad_pml_mprobe(int from, int tag, ompi_communicator_t *comm, ompi_message_t **message, ompi_status_public_t *status);
int mad_pml_imrecv(void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message, ompi_request_t **request);
int mad_pml_mrecv(void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message, ompi_status_public_t *status);

#endif
