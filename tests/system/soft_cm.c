/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_cm of the device in software: one library plays both parts, under a second name (librdmacm.so.1, a link).
 *
 * An identifier is a UNIX datagram socket; that of a listener has the port in its name.  The descriptor of an event channel is
 * an epoll set of these sockets and of a bell for events that need no other process.  On a device of iWARP the pairs are
 * connected here, as a kernel does. */
#include "soft_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PRIVATE_MAX 56 /* bytes that a request carries, as those of RoCE */

typedef enum soft_word_kind { SOFT_REQUEST = 1, SOFT_ANSWER, SOFT_REJECT, SOFT_ESTABLISHED, SOFT_GONE } soft_word_kind_t;
typedef struct soft_word {
    uint32_t kind, pair;
    uint8_t reads, len;
    char data[PRIVATE_MAX];
} soft_word_t;

typedef struct soft_event {
    struct rdma_cm_event event;
    struct soft_event *next;
    char data[PRIVATE_MAX];
} soft_event_t;

typedef struct soft_id {
    struct rdma_cm_id id;
    struct soft_id *next;
    int fd;
    uint16_t port;
    uint32_t pair, peer_pair;
    struct sockaddr_un to; /* the listener */
    socklen_t to_len;
    bool joined, established;
} soft_id_t;

typedef struct soft_events {
    struct rdma_event_channel channel;
    int bell;
    soft_event_t *first, **last;
} soft_events_t;

static soft_id_t *ids; /* under the lock */

/* ---- Events --------------------------------------------------------------------------------------------------------- */

static void event_add(soft_id_t *at, soft_id_t *listener, enum rdma_cm_event_type type, int status, const soft_word_t *word)
{
    soft_events_t *channel = (soft_events_t *)at->id.channel;
    soft_event_t *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    soft.objects++;
    e->event = (struct rdma_cm_event){.id = &at->id, .event = type, .status = status};
    e->event.listen_id = listener ? &listener->id : NULL;
    if (word) {
        memcpy(e->data, word->data, sizeof e->data);
        e->event.param.conn = (struct rdma_conn_param){.private_data = e->data,
                                                       .private_data_len = word->len,
                                                       .responder_resources = word->reads,
                                                       .initiator_depth = word->reads,
                                                       .qp_num = word->pair};
    }
    *channel->last = e;
    channel->last = &e->next;
    eventfd_write(channel->bell, 1);
}

/* Drop the events of an identifier that ends. */
static void events_drop(const soft_id_t *of)
{
    soft_events_t *channel = (soft_events_t *)of->id.channel;
    soft_event_t **p = &channel->first;
    while (*p) {
        soft_event_t *e = *p;
        if (e->event.id != &of->id) {
            p = &e->next;
            continue;
        }
        *p = e->next;
        free(e);
        soft.objects--;
    }
    channel->last = p;
}

/* ---- Identifiers ------------------------------------------------------------------------------------------------------ */

static soft_id_t *id_add(struct rdma_event_channel *channel, void *context)
{
    soft_id_t *i = calloc(1, sizeof *i);
    if (!i)
        abort();
    soft.objects++;
    i->id.channel = channel;
    i->id.context = context;
    i->id.ps = RDMA_PS_TCP;
    i->fd = -1;
    i->next = ids;
    ids = i;
    return i;
}

/* Make the socket of an identifier: with a name of the kernel's choice if port is 0.  False with errno. */
static bool socket_open(soft_id_t *i, uint16_t port)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct epoll_event e = {.events = EPOLLIN};
    socklen_t len = sizeof at.sun_family;
    if (port) {
        int n = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "soft_cm.%u", port);
        len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    }
    i->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (i->fd < 0 || bind(i->fd, (struct sockaddr *)&at, len))
        return false;
    i->port = port;
    epoll_ctl(i->id.channel->fd, EPOLL_CTL_ADD, i->fd, &e);
    return true;
}

static void word_send(const soft_id_t *i, soft_word_kind_t kind, uint32_t pair, const struct rdma_conn_param *param)
{
    soft_word_t word = {.kind = kind, .pair = pair};
    if (param) {
        word.reads = param->responder_resources;
        word.len = param->private_data_len;
        memcpy(word.data, param->private_data ? param->private_data : "", param->private_data ? word.len : 0);
    }
    if (i->joined)
        send(i->fd, &word, sizeof word, MSG_NOSIGNAL);
    else
        sendto(i->fd, &word, sizeof word, MSG_NOSIGNAL, (const struct sockaddr *)&i->to, i->to_len);
}

static void id_request(soft_id_t *listener, const soft_word_t *word, const struct sockaddr_un *from, socklen_t len)
{
    soft_id_t *i = id_add(listener->id.channel, listener->id.context);
    i->id.verbs = listener->id.verbs;
    i->id.port_num = 1;
    i->peer_pair = word->pair;
    if (!socket_open(i, 0) || connect(i->fd, (const struct sockaddr *)from, len))
        abort();
    i->joined = true;
    event_add(i, listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, word);
}

static void id_answered(soft_id_t *i, const soft_word_t *word, const struct sockaddr_un *from, socklen_t len)
{
    if (connect(i->fd, (const struct sockaddr *)from, len))
        abort();
    i->joined = true;
    i->peer_pair = word->pair;
    if (soft_fails_locked("cm_answer")) {
        event_add(i, NULL, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, word);
        return;
    }
    if (soft_is_iwarp())
        soft_pair_join(i->pair, i->peer_pair);
    i->established = soft_is_iwarp();
    event_add(i, NULL, soft_is_iwarp() ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE, 0, word);
}

static void id_progress(soft_id_t *i)
{
    soft_word_t word;
    struct sockaddr_un from;
    socklen_t len = sizeof from;
    while (recvfrom(i->fd, &word, sizeof word, MSG_DONTWAIT, (struct sockaddr *)&from, &len) == (ssize_t)sizeof word) {
        switch ((soft_word_kind_t)word.kind) {
        case SOFT_REQUEST: id_request(i, &word, &from, len); break;
        case SOFT_ANSWER: id_answered(i, &word, &from, len); break;
        case SOFT_REJECT: event_add(i, NULL, RDMA_CM_EVENT_REJECTED, 28, &word); break;
        case SOFT_ESTABLISHED:
            i->established = true;
            event_add(i, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, &word);
            break;
        case SOFT_GONE:
            event_add(i, NULL, i->established ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_REJECTED, 28, &word);
            break;
        }
        len = sizeof from;
    }
}

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
    if (soft_fails("cm_create_event_channel"))
        return NULL;
    soft_events_t *c = calloc(1, sizeof *c);
    struct epoll_event e = {.events = EPOLLIN};
    if (!c)
        abort();
    pthread_mutex_lock(&soft.lock);
    soft.objects++;
    pthread_mutex_unlock(&soft.lock);
    c->channel.fd = epoll_create1(EPOLL_CLOEXEC);
    c->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->last = &c->first;
    epoll_ctl(c->channel.fd, EPOLL_CTL_ADD, c->bell, &e);
    return &c->channel;
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    soft_events_t *c = (soft_events_t *)channel;
    pthread_mutex_lock(&soft.lock);
    close(channel->fd);
    close(c->bell);
    free(c);
    soft.objects--;
    pthread_mutex_unlock(&soft.lock);
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
    (void)ps;
    if (soft_fails("cm_create_id"))
        return -1;
    pthread_mutex_lock(&soft.lock);
    *id = &id_add(channel, context)->id;
    pthread_mutex_unlock(&soft.lock);
    return 0;
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
    soft_id_t *i = (soft_id_t *)id;
    pthread_mutex_lock(&soft.lock);
    for (soft_id_t **p = &ids; *p; p = &(*p)->next)
        if (*p == i) {
            *p = i->next;
            break;
        }
    if (i->joined)
        word_send(i, SOFT_GONE, 0, NULL);
    if (id->channel)
        events_drop(i);
    if (i->fd >= 0)
        close(i->fd);
    free(i);
    soft.objects--;
    pthread_mutex_unlock(&soft.lock);
    if (!soft_fails("cm_destroy_id"))
        return 0;
    errno = EBUSY;
    return -1;
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    const char *own = getenv("SOFT_VERBS_IWARP");
    char text[INET_ADDRSTRLEN] = "";
    if (addr->sa_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)addr)->sin_addr, text, sizeof text);
    if (!text[0] || (own && strcmp(own, text) != 0)) {
        errno = ENODEV;
        return -1;
    }
    if (soft_fails("cm_bind_addr"))
        return -1;
    id->verbs = soft_context();
    id->port_num = 1;
    return 0;
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    soft_id_t *i = (soft_id_t *)id;
    bool is_open = false;
    (void)backlog;
    if (soft_fails("cm_listen"))
        return -1;
    pthread_mutex_lock(&soft.lock);
    for (int k = 0; k < 1000 && !is_open; k++) {
        is_open = socket_open(i, (uint16_t)(1024 + (getpid() * 16 + k) % 60000));
        if (!is_open && i->fd >= 0)
            close(i->fd);
    }
    pthread_mutex_unlock(&soft.lock);
    return is_open ? 0 : -1;
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return htons(((soft_id_t *)id)->port);
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
    soft_id_t *i = (soft_id_t *)id;
    (void)from;
    (void)timeout_ms;
    if (soft_fails("cm_resolve_addr"))
        return -1;
    bool fails = soft_fails("cm_address");
    pthread_mutex_lock(&soft.lock);
    i->to.sun_family = AF_UNIX;
    int n =
        snprintf(i->to.sun_path + 1, sizeof i->to.sun_path - 1, "soft_cm.%u", ntohs(((struct sockaddr_in *)to)->sin_port));
    i->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    event_add(i, NULL, fails ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, fails ? -ENODEV : 0, NULL);
    pthread_mutex_unlock(&soft.lock);
    return 0;
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    (void)timeout_ms;
    if (soft_fails("cm_resolve_route"))
        return -1;
    bool fails = soft_fails("cm_route");
    pthread_mutex_lock(&soft.lock);
    event_add((soft_id_t *)id, NULL, fails ? RDMA_CM_EVENT_ROUTE_ERROR : RDMA_CM_EVENT_ROUTE_RESOLVED,
              fails ? -ETIMEDOUT : 0, NULL);
    pthread_mutex_unlock(&soft.lock);
    return 0;
}

/* Send a request as a process does that has no key.  Its socket stays open. */
static void stranger_send(const soft_id_t *i, const struct rdma_conn_param *param)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    soft_id_t stranger = *i;
    char data[PRIVATE_MAX];
    struct rdma_conn_param damaged = *param;
    stranger.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(data, param->private_data, param->private_data_len);
    data[param->private_data_len - 4] ^= 1;
    damaged.private_data = data;
    if (stranger.fd < 0 || bind(stranger.fd, (struct sockaddr *)&any, sizeof any.sun_family))
        abort();
    word_send(&stranger, SOFT_REQUEST, 1, &damaged);
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    soft_id_t *i = (soft_id_t *)id;
    bool is_open;
    if (soft_fails("cm_connect"))
        return -1;
    pthread_mutex_lock(&soft.lock);
    i->pair = param->qp_num;
    is_open = socket_open(i, 0);
    if (is_open && getenv("SOFT_VERBS_STRANGER"))
        stranger_send(i, param);
    if (is_open)
        word_send(i, SOFT_REQUEST, param->qp_num, param);
    pthread_mutex_unlock(&soft.lock);
    return is_open ? 0 : -1;
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    soft_id_t *i = (soft_id_t *)id;
    if (soft_fails("cm_accept"))
        return -1;
    pthread_mutex_lock(&soft.lock);
    i->pair = param->qp_num;
    if (soft_is_iwarp()) {
        soft_pair_join(i->pair, i->peer_pair);
        i->established = true;
        event_add(i, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    }
    word_send(i, SOFT_ANSWER, param->qp_num, param);
    pthread_mutex_unlock(&soft.lock);
    return 0;
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t len)
{
    (void)private_data;
    (void)len;
    if (soft_fails("cm_reject"))
        return -1;
    pthread_mutex_lock(&soft.lock);
    word_send((soft_id_t *)id, SOFT_REJECT, 0, NULL);
    ((soft_id_t *)id)->joined = false;
    pthread_mutex_unlock(&soft.lock);
    return 0;
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
    if (soft_fails("cm_establish"))
        return -1;
    pthread_mutex_lock(&soft.lock);
    ((soft_id_t *)id)->established = true;
    word_send((soft_id_t *)id, SOFT_ESTABLISHED, 0, NULL);
    pthread_mutex_unlock(&soft.lock);
    return 0;
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    if (soft_fails("cm_init_qp_attr"))
        return -1;
    attr->dest_qp_num = ((soft_id_t *)id)->peer_pair;
    *mask = IBV_QP_STATE | (attr->qp_state == IBV_QPS_RTR ? IBV_QP_DEST_QPN : IBV_QP_TIMEOUT);
    return 0;
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    soft_events_t *c = (soft_events_t *)channel;
    eventfd_t n;
    if (soft_fails("cm_get_cm_event"))
        return -1;
    pthread_mutex_lock(&soft.lock);
    eventfd_read(c->bell, &n);
    for (soft_id_t *i = ids; i && !c->first; i = i->next)
        if (i->id.channel == channel && i->fd >= 0)
            id_progress(i);
    soft_event_t *e = c->first;
    if (e) {
        c->first = e->next;
        if (!c->first)
            c->last = &c->first;
        *event = &e->event;
    }
    pthread_mutex_unlock(&soft.lock);
    errno = EAGAIN;
    return e ? 0 : -1;
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    pthread_mutex_lock(&soft.lock);
    free((soft_event_t *)event); /* its first member */
    soft.objects--;
    pthread_mutex_unlock(&soft.lock);
    if (!soft_fails("cm_ack_cm_event"))
        return 0;
    errno = EINVAL;
    return -1;
}

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
    switch (event) {
    case RDMA_CM_EVENT_ADDR_ERROR: return "address not resolved";
    case RDMA_CM_EVENT_ROUTE_ERROR: return "route not resolved";
    case RDMA_CM_EVENT_UNREACHABLE: return "unreachable";
    case RDMA_CM_EVENT_REJECTED: return "rejected";
    default: return "an event";
    }
}
