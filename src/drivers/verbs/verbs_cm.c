/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: connections of queue pairs by rdma_cm.  iWARP has no other way; on other networks the knob MAD_VERBS_CM
 * selects rdma_cm.
 *
 *   active end                                              passive end
 *   HELLO  <---------------- over the socket ------------>  HELLO, with the port at which its adapter listens
 *   the address, then the route is resolved
 *   request, with index and key of the other end's link -->  accepted, if there is that link
 *   established  <-----------------------------------------  established
 *   READY  <---------------- over the socket ------------>  READY
 *
 * Each link has a queue pair of its own making, which rdma_cm only names: librdmacm opens the device a second time, and its
 * objects cannot be mixed with those of this adapter.  So the driver itself changes the state of the pair, with attributes
 * that rdma_cm gives.  On iWARP the kernel does that.
 *
 * Anybody may send a request, so a request without a valid key is rejected.  All is under the session's lock. */
#include "drivers/verbs/verbs.h"

#include "base/log.h"
#include "base/own.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CM_MAGIC 0x6376646du
#define RESOLVE_MS 5000 /* milliseconds */
#define BACKLOG 1024
#define PORTS_TRIED 16
#define NO_LIMIT 7 /* no limit of retries while the receive queue is empty, which credit prevents */

/* The private data of a request. */
typedef struct verbs_cm_request {
    uint32_t magic, index, key; /* index and key of the link of the passive end */
} verbs_cm_request_t;

/* ---- Adapters ------------------------------------------------------------------------------------------------------- */

bool verbs_cm_owns(const verbs_lib_t *lib, const verbs_cm_lib_t *cm, const char *device, int number,
                   const struct sockaddr_storage *addr)
{
    struct sockaddr_storage at = *addr; /* its port is 0: any */
    struct rdma_cm_id *id;
    if (cm->create_id(NULL, &id, NULL, RDMA_PS_TCP))
        return false;
    bool owns = !cm->bind_addr(id, (struct sockaddr *)&at) && id->verbs && id->port_num == number &&
                !strcmp(lib->get_device_name(id->verbs->device), device);
    cm->destroy_id(id);
    return owns;
}

static void id_end(const verbs_adapter_t *a, struct rdma_cm_id *id)
{
    verbs_released(a, a->cm->destroy_id(id) ? errno : 0, "an identifier of rdma_cm");
}

/* Listen at a port that rdma_cm chooses.  Return 0 or an errno. */
static int cm_listen(verbs_adapter_t *a)
{
    struct sockaddr_storage at = a->port.self;
    int error;
    if (a->cm->create_id(a->cm_channel, &a->cm_listener, a, RDMA_PS_TCP))
        return errno;
    if (!a->cm->bind_addr(a->cm_listener, (struct sockaddr *)&at) && !a->cm->listen(a->cm_listener, BACKLOG)) {
        a->cm_port = ntohs(a->cm->get_src_port(a->cm_listener));
        return 0;
    }
    error = errno;
    id_end(a, a->cm_listener);
    a->cm_listener = NULL;
    return error;
}

bool verbs_cm_open(verbs_adapter_t *a, char *reason)
{
    int error = EADDRINUSE;
    if (!a->cm)
        return true;
    a->cm_channel = a->cm->create_event_channel();
    if (!a->cm_channel) {
        snprintf(reason, MADI_REASON_MAX, "no event channel of rdma_cm for %.40s: %s%s", a->base.adapter.name,
                 strerror(errno), madi_remedy(errno));
        return false;
    }
    /* On iWARP the port is also a port of TCP, and may be in use by a socket that rdma_cm does not know. */
    for (int i = 0; i < PORTS_TRIED && error == EADDRINUSE; i++)
        error = cm_listen(a);
    if (error)
        snprintf(reason, MADI_REASON_MAX, "rdma_cm cannot listen for connections of %.40s: %s%s", a->base.adapter.name,
                 strerror(error), madi_remedy(error));
    return !error;
}

void verbs_cm_close(verbs_adapter_t *a)
{
    if (a->cm_listener)
        id_end(a, a->cm_listener);
    a->cm_listener = NULL;
}

void verbs_cm_fini(verbs_adapter_t *a)
{
    if (a->cm_channel)
        a->cm->destroy_event_channel(a->cm_channel);
    a->cm_channel = NULL;
}

/* ---- Links ---------------------------------------------------------------------------------------------------------- */

static void cm_failed(verbs_link_t *l, const char *what, const char *text)
{
    char all[MADI_REASON_MAX];
    snprintf(all, sizeof all, "a connection of %.40s by rdma_cm: %.60s: %.60s", l->base.link.adapter->name, what, text);
    fabric_link_down(&l->base, MAD_ERR_SYSTEM, all);
}

/* Return the parameters of a request or an answer.  reads: number of simultaneous RDMA reads that the other end offers. */
static struct rdma_conn_param cm_param(const verbs_link_t *l, int reads)
{
    const verbs_adapter_t *a = verbs_of(l);
    uint8_t least = (uint8_t)(reads < a->reads ? reads : a->reads);
    return (struct rdma_conn_param){.responder_resources = least,
                                    .initiator_depth = least,
                                    .retry_count = VERBS_RETRIES,
                                    .rnr_retry_count = NO_LIMIT,
                                    .srq = 1,
                                    .qp_num = l->pair_number};
}

/* Change the state of the queue pair, with the attributes that rdma_cm gives.  Return 0 or an errno. */
static int cm_pair_move(verbs_link_t *l, enum ibv_qp_state state, const struct rdma_conn_param *param)
{
    const verbs_adapter_t *a = verbs_of(l);
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask = 0;
    if (a->cm->init_qp_attr(l->cm_id, &attr, &mask))
        return errno;
    attr.min_rnr_timer = VERBS_RNR_TIMER;
    attr.timeout = VERBS_TIMEOUT;
    attr.max_dest_rd_atomic = param->responder_resources;
    attr.max_rd_atomic = param->initiator_depth;
    return a->lib->modify_qp(l->pair, &attr, mask);
}

/* Make the queue pair ready, where the kernel does not do it.  Return false if that failed; the link was then reported
 * down. */
static bool cm_pair_ready(verbs_link_t *l, const struct rdma_conn_param *param)
{
    int error = verbs_of(l)->port.iwarp ? 0 : cm_pair_move(l, IBV_QPS_RTR, param);
    const char *what = "its queue pair cannot be made ready to receive";
    if (!error && !verbs_of(l)->port.iwarp) {
        what = "its queue pair cannot be made ready to send";
        error = cm_pair_move(l, IBV_QPS_RTS, param);
    }
    if (error)
        cm_failed(l, what, strerror(error));
    return !error;
}

bool verbs_cm_connect(verbs_link_t *l, const struct sockaddr_storage *peer, const verbs_hello_t *h, char *reason)
{
    verbs_adapter_t *a = verbs_of(l);
    struct sockaddr_storage from = a->port.self, to = *peer;
    in_port_t port = htons((uint16_t)h->cm_port);
    if (to.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&to)->sin6_port = port;
    else
        ((struct sockaddr_in *)&to)->sin_port = port;
    if (!a->cm->create_id(a->cm_channel, &l->cm_id, l, RDMA_PS_TCP) &&
        !a->cm->resolve_addr(l->cm_id, (struct sockaddr *)&from, (struct sockaddr *)&to, RESOLVE_MS))
        return true;
    snprintf(reason, MADI_REASON_MAX, "a connection of %.40s by rdma_cm cannot be made: %s%s", a->base.adapter.name,
             strerror(errno), madi_remedy(errno));
    return false;
}

void verbs_cm_forget(verbs_link_t *l)
{
    if (l->cm_id)
        id_end(verbs_of(l), l->cm_id);
    l->cm_id = NULL;
}

static void cm_request_send(verbs_link_t *l)
{
    verbs_cm_request_t request = {CM_MAGIC, fabric_tag_index(l->base.tag), fabric_tag_key(l->base.tag)};
    struct rdma_conn_param param = cm_param(l, l->peer_reads);
    param.private_data = &request;
    param.private_data_len = sizeof request;
    if (verbs_of(l)->cm->connect(l->cm_id, &param))
        cm_failed(l, "it cannot be requested", strerror(errno));
}

/* Return the link that a request names; NULL if no link waits for this request. */
static verbs_link_t *cm_request_link(const verbs_adapter_t *a, const verbs_cm_request_t *request)
{
    verbs_link_t *l = NULL;
    if (request->magic == CM_MAGIC && request->index < FABRIC_LINKS_MAX && request->key <= FABRIC_KEY_MASK)
        l = verbs_link_of(a, fabric_tag(FABRIC_KIND_PACKET, request->key, (uint16_t)request->index));
    return l && l->pair && !l->active && !l->cm_id && !l->base.closed && !l->base.down ? l : NULL;
}

static void cm_request_handle(verbs_adapter_t *a, const struct rdma_cm_event *event, const verbs_cm_request_t *request)
{
    verbs_link_t *l = cm_request_link(a, request);
    if (!l || a->base.broken) {
        madi_log(MADI_LOG_INFO, "verbs", "%s: rejected a request of rdma_cm that no peer of this job sends",
                 a->base.adapter.name);
        a->cm->reject(event->id, NULL, 0); /* if that fails, the end of the identifier rejects it */
        id_end(a, event->id);
        return;
    }
    l->cm_id = event->id;
    l->cm_id->context = l;
    struct rdma_conn_param param = cm_param(l, event->param.conn.initiator_depth);
    if (cm_pair_ready(l, &param) && a->cm->accept(l->cm_id, &param))
        cm_failed(l, "a request cannot be accepted", strerror(errno));
}

static void cm_established(verbs_link_t *l)
{
    l->paired = true;
    if (l->active && verbs_of(l)->port.iwarp)
        verbs_return_send(l, false); /* on iWARP the active end sends first */
    verbs_ready_send(l);
}

static void cm_response_handle(verbs_link_t *l, const struct rdma_cm_event *event)
{
    struct rdma_conn_param param = cm_param(l, event->param.conn.initiator_depth);
    if (!cm_pair_ready(l, &param))
        return;
    if (verbs_of(l)->cm->establish(l->cm_id))
        cm_failed(l, "it cannot be completed", strerror(errno));
    else
        cm_established(l);
}

/* Handle the end of a queue pair on iWARP, which may be reported before the end of the socket. */
static void cm_disconnected(verbs_link_t *l)
{
    char text[MADI_REASON_MAX];
    if (!verbs_of(l)->port.iwarp) /* the socket reports it */
        return;
    verbs_drain(fabric_of(&l->base));
    if (!l->base.closed)
        verbs_socket_ready(&l->watch, 0);
    if (l->base.closed || l->base.down)
        return;
    verbs_rest_deliver(l);
    if (l->bye)
        snprintf(text, sizeof text, "connection closed by peer");
    else
        snprintf(text, sizeof text, "the connection of the queue pair of %.40s has ended", l->base.link.adapter->name);
    fabric_link_down(&l->base, MAD_ERR_PEER, text);
}

/* ---- Events ------------------------------------------------------------------------------------------------------------ */

static void link_event_handle(verbs_link_t *l, const struct rdma_cm_event *event)
{
    const verbs_cm_lib_t *cm = verbs_of(l)->cm;
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (cm->resolve_route(l->cm_id, RESOLVE_MS))
            cm_failed(l, "no route to the other end", strerror(errno));
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: cm_request_send(l); break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE: cm_response_handle(l, event); break;
    case RDMA_CM_EVENT_ESTABLISHED: cm_established(l); break;
    case RDMA_CM_EVENT_DISCONNECTED: cm_disconnected(l); break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
        cm_failed(l, cm->event_str(event->event), event->status < 0 ? strerror(-event->status) : "by the other end");
        break;
    default:
        madi_log(MADI_LOG_DEBUG, "verbs", "%s: %s of a connection", l->base.link.adapter->name, cm->event_str(event->event));
        break;
    }
}

static void cm_event_handle(verbs_adapter_t *a, const struct rdma_cm_event *event, const verbs_cm_request_t *request)
{
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        cm_request_handle(a, event, request);
    } else if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        verbs_fail(a, "the device has failed", a->cm->event_str(event->event));
    } else if (event->id != a->cm_listener) {
        verbs_link_t *l = event->id->context; /* no event comes of an identifier that is gone */
        if (!l->base.closed && !l->base.down)
            link_event_handle(l, event);
    }
}

void verbs_cm_ready(madi_watch_t *watch, uint32_t events)
{
    verbs_adapter_t *a = MADI_CONTAINER(watch, verbs_adapter_t, cm_watch);
    struct rdma_cm_event *next;
    (void)events;
    while (!a->cm->get_cm_event(a->cm_channel, &next)) {
        struct rdma_cm_event event = *next;
        verbs_cm_request_t request = {0};
        if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST && event.param.conn.private_data_len >= sizeof request)
            memcpy(&request, event.param.conn.private_data, sizeof request);
        /* acknowledged before the upcalls, because destroying the identifier waits for this acknowledgement */
        a->cm->ack_cm_event(next);
        cm_event_handle(a, &event, &request);
    }
    if (errno != EAGAIN && errno != EINTR) {
        verbs_fail(a, "the events of rdma_cm cannot be read", strerror(errno));
        madi_watch_del(a->base.adapter.session, watch); /* else the failure would be reported again and again */
        watch->fd = 0;
    }
}
