/* SPDX-License-Identifier: BSD-3-Clause */
/* A libucp whose calls fail.  With LD_LIBRARY_PATH the driver ucx finds this library as libucp.so.0.  It passes all calls
 * on to the library that REAL_UCX names.
 *   FAULT_UCX=CALL,FIRST,NUMBER,ERROR   calls CALL of this process fail with the status ERROR (ucs_status_t, negative),
 *                                       from number FIRST on (the first is 1); NUMBER: how many; 0: all
 *   FAULT_UCX_RANK=N                    only in the process of this rank
 *   OLD_UCX=1                           the library is version 1.9
 * CALL is one of: config_read config_modify init worker_create get_address get_efd set_handler arm ep_create ep_close send recv; or
 * comp_send, comp_recv: completions of these operations, which become errors; or ep_error: a call of progress, after
 * SENDS_FIRST sends, in which the endpoint of the last one fails; or damage: before frame FIRST of the handshake, NUMBER
 * damaged copies leave, with ERROR as the seed of the damage.  At the end of the process, one line on standard error has the number of faults, and of
 * objects that were left open. */
#include "core/connect/frames.h"
#include "drivers/fabric/tag.h"
#include <ucp/api/ucp.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENDPOINTS_MAX 256

static struct {
    void (*get_version)(unsigned *, unsigned *, unsigned *);
    ucs_status_t (*config_read)(const char *, const char *, ucp_config_t **);
    ucs_status_t (*config_modify)(ucp_config_t *, const char *, const char *);
    void (*config_release)(ucp_config_t *);
    ucs_status_t (*init)(unsigned, unsigned, const ucp_params_t *, const ucp_config_t *, ucp_context_h *);
    void (*cleanup)(ucp_context_h);
    void (*print_info)(ucp_context_h, FILE *);
    ucs_status_t (*worker_create)(ucp_context_h, const ucp_worker_params_t *, ucp_worker_h *);
    void (*worker_destroy)(ucp_worker_h);
    ucs_status_t (*get_address)(ucp_worker_h, ucp_address_t **, size_t *);
    void (*release_address)(ucp_worker_h, ucp_address_t *);
    ucs_status_t (*get_efd)(ucp_worker_h, int *);
    ucs_status_t (*arm)(ucp_worker_h);
    unsigned (*progress)(ucp_worker_h);
    ucs_status_t (*set_handler)(ucp_worker_h, const ucp_am_handler_param_t *);
    ucs_status_t (*ep_create)(ucp_worker_h, const ucp_ep_params_t *, ucp_ep_h *);
    ucs_status_ptr_t (*ep_close)(ucp_ep_h, const ucp_request_param_t *);
    ucs_status_ptr_t (*send)(ucp_ep_h, unsigned, const void *, size_t, const void *, size_t, const ucp_request_param_t *);
    ucs_status_ptr_t (*recv)(ucp_worker_h, void *, void *, size_t, const ucp_request_param_t *);
    void (*data_release)(ucp_worker_h, void *);
    void (*request_free)(void *);
} real;

static struct {
    char call[32];
    int first, number, error;
    atomic_int calls, faults, open;
} fault;

/* ---- Faults ------------------------------------------------------------------------------------------------------ */

__attribute__((constructor)) static void fault_read(void)
{
    const char *text = getenv("FAULT_UCX"), *rank = getenv("FAULT_UCX_RANK"), *mine = getenv("PMI_RANK");
    if (!text || (rank && (!mine || strcmp(rank, mine) != 0)))
        return;
    if (sscanf(text, "%31[^,],%d,%d,%d", fault.call, &fault.first, &fault.number, &fault.error) != 4)
        fprintf(stderr, "ucx_fault: FAULT_UCX=%s cannot be read\n", text);
}

__attribute__((destructor)) static void fault_report(void)
{
    fprintf(stderr, "ucx_fault: %d faults, %d objects open\n", atomic_load(&fault.faults), atomic_load(&fault.open));
}

/* Count a call.  True if this call has to fail. */
static bool fault_strikes(const char *call)
{
    if (strcmp(call, fault.call) != 0)
        return false;
    int n = atomic_fetch_add(&fault.calls, 1) + 1;
    if (n < fault.first || (fault.number && n >= fault.first + fault.number))
        return false;
    atomic_fetch_add(&fault.faults, 1);
    return true;
}

/* Count an object that was opened, if the status is UCS_OK.  Returns the status. */
static ucs_status_t object_opened(ucs_status_t status)
{
    if (status == UCS_OK)
        atomic_fetch_add(&fault.open, 1);
    return status;
}

static void object_closed(void)
{
    atomic_fetch_sub(&fault.open, 1);
}

/* ---- The library ------------------------------------------------------------------------------------------------- */

static void *library;

static void symbol_find(void *at, const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        _exit(1);
    memcpy(at, &found, sizeof found);
}

__attribute__((constructor)) static void real_open(void)
{
    const char *path = getenv("REAL_UCX");
    library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
    if (!library) {
        fprintf(stderr, "ucx_fault: REAL_UCX is not the library: %s\n", path ? dlerror() : "not set");
        _exit(1);
    }
    symbol_find(&real.get_version, "ucp_get_version");
    symbol_find(&real.config_read, "ucp_config_read");
    symbol_find(&real.config_modify, "ucp_config_modify");
    symbol_find(&real.config_release, "ucp_config_release");
    symbol_find(&real.init, "ucp_init_version");
    symbol_find(&real.cleanup, "ucp_cleanup");
    symbol_find(&real.print_info, "ucp_context_print_info");
    symbol_find(&real.worker_create, "ucp_worker_create");
    symbol_find(&real.worker_destroy, "ucp_worker_destroy");
    symbol_find(&real.get_address, "ucp_worker_get_address");
    symbol_find(&real.release_address, "ucp_worker_release_address");
    symbol_find(&real.get_efd, "ucp_worker_get_efd");
    symbol_find(&real.arm, "ucp_worker_arm");
    symbol_find(&real.progress, "ucp_worker_progress");
    symbol_find(&real.set_handler, "ucp_worker_set_am_recv_handler");
    symbol_find(&real.ep_create, "ucp_ep_create");
    symbol_find(&real.ep_close, "ucp_ep_close_nbx");
    symbol_find(&real.send, "ucp_am_send_nbx");
    symbol_find(&real.recv, "ucp_am_recv_data_nbx");
    symbol_find(&real.data_release, "ucp_am_data_release");
    symbol_find(&real.request_free, "ucp_request_free");
}

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
    real.get_version(major, minor, release);
    if (getenv("OLD_UCX"))
        *minor = 9;
}

ucs_status_t ucp_config_read(const char *prefix, const char *file, ucp_config_t **config)
{
    if (fault_strikes("config_read"))
        return (ucs_status_t)fault.error;
    return object_opened(real.config_read(prefix, file, config));
}

ucs_status_t ucp_config_modify(ucp_config_t *config, const char *name, const char *value)
{
    return fault_strikes("config_modify") ? (ucs_status_t)fault.error : real.config_modify(config, name, value);
}

void ucp_config_release(ucp_config_t *config)
{
    object_closed();
    real.config_release(config);
}

ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t *params, const ucp_config_t *config,
                              ucp_context_h *context)
{
    if (fault_strikes("init"))
        return (ucs_status_t)fault.error;
    return object_opened(real.init(major, minor, params, config, context));
}

void ucp_cleanup(ucp_context_h context)
{
    object_closed();
    real.cleanup(context);
}

void ucp_context_print_info(ucp_context_h context, FILE *stream)
{
    real.print_info(context, stream);
}

/* ---- Workers ----------------------------------------------------------------------------------------------------- */

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker)
{
    if (fault_strikes("worker_create"))
        return (ucs_status_t)fault.error;
    return object_opened(real.worker_create(context, params, worker));
}

void ucp_worker_destroy(ucp_worker_h worker)
{
    object_closed();
    real.worker_destroy(worker);
}

ucs_status_t ucp_worker_get_address(ucp_worker_h worker, ucp_address_t **address, size_t *len)
{
    if (fault_strikes("get_address"))
        return (ucs_status_t)fault.error;
    return object_opened(real.get_address(worker, address, len));
}

void ucp_worker_release_address(ucp_worker_h worker, ucp_address_t *address)
{
    object_closed();
    real.release_address(worker, address);
}

ucs_status_t ucp_worker_get_efd(ucp_worker_h worker, int *fd)
{
    return fault_strikes("get_efd") ? (ucs_status_t)fault.error : real.get_efd(worker, fd);
}

ucs_status_t ucp_worker_arm(ucp_worker_h worker)
{
    return fault_strikes("arm") ? (ucs_status_t)fault.error : real.arm(worker);
}

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker, const ucp_am_handler_param_t *param)
{
    return fault_strikes("set_handler") ? (ucs_status_t)fault.error : real.set_handler(worker, param);
}

/* ---- Endpoints, under the driver's lock -------------------------------------------------------------------------- */

static struct {
    ucp_ep_h ep; /* NULL: this entry is free */
    ucp_err_handler_t handler;
} endpoints[ENDPOINTS_MAX];

/* Sends after which ep_error may strike: more than a handshake has, however long the other process takes for it. */
#define SENDS_FIRST 200
static int sends;
static ucp_ep_h sent_to; /* the endpoint of the last send */

unsigned ucp_worker_progress(ucp_worker_h worker)
{
    unsigned n = real.progress(worker);
    int i = 0;
    while (i < ENDPOINTS_MAX && (!endpoints[i].ep || endpoints[i].ep != sent_to))
        i++;
    if (i < ENDPOINTS_MAX && sends > SENDS_FIRST && fault_strikes("ep_error"))
        endpoints[i].handler.cb(endpoints[i].handler.arg, endpoints[i].ep, (ucs_status_t)fault.error);
    return n;
}

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep)
{
    int i = 0;
    if (fault_strikes("ep_create"))
        return (ucs_status_t)fault.error;
    ucs_status_t status = object_opened(real.ep_create(worker, params, ep));
    while (i < ENDPOINTS_MAX && endpoints[i].ep)
        i++;
    if (status == UCS_OK && i < ENDPOINTS_MAX) {
        endpoints[i].ep = *ep;
        endpoints[i].handler = params->err_handler;
    }
    return status;
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    for (int i = 0; i < ENDPOINTS_MAX; i++)
        if (endpoints[i].ep == ep)
            endpoints[i].ep = NULL;
    object_closed();
    if (!fault_strikes("ep_close"))
        return real.ep_close(ep, param);
    ucp_request_param_t quiet = *param; /* whoever gets an error gets no callback */
    quiet.op_attr_mask &= ~(uint32_t)(UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA);
    void *request = real.ep_close(ep, &quiet);
    if (UCS_PTR_IS_PTR(request))
        real.request_free(request);
    return UCS_STATUS_PTR(fault.error);
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

/* An operation whose callback is here. */
typedef struct operation {
    ucp_send_nbx_callback_t sent;
    ucp_am_recv_data_nbx_callback_t received;
    void *arg;
} operation_t;

static operation_t *operation_make(const ucp_request_param_t *param, ucp_request_param_t *own)
{
    operation_t *o = malloc(sizeof *o);
    if (!o)
        abort();
    *own = *param;
    own->user_data = o;
    o->arg = param->user_data;
    return o;
}

static void send_ended(void *request, ucs_status_t status, void *arg)
{
    operation_t o = *(operation_t *)arg;
    free(arg);
    o.sent(request, fault_strikes("comp_send") ? (ucs_status_t)fault.error : status, o.arg);
}

static void receive_ended(void *request, ucs_status_t status, size_t len, void *arg)
{
    operation_t o = *(operation_t *)arg;
    free(arg);
    o.received(request, fault_strikes("comp_recv") ? (ucs_status_t)fault.error : status, len, o.arg);
}

static void copy_ended(void *request, ucs_status_t status, void *arg)
{
    (void)status;
    free(arg);
    real.request_free(request);
}

/* Make a frame (drivers/ucx/ucx_frame.c) one of a stranger, by another number of the handshake, and change 1 to 4 bytes of the
 * frame: of the address in three of four. */
static void frame_damage(unsigned char *frame, size_t count, unsigned *seed)
{
    size_t from = sizeof(uint64_t), len = count - from, n = frame[from];
    if (from + 1 + n + sizeof(madi_frame_piece_t) > count)
        return;
    for (size_t i = 0; i < sizeof(uint64_t); i++)
        frame[from + 1 + n + offsetof(madi_frame_piece_t, call) + i] = (unsigned char)(rand_r(seed) >> 4);
    if (rand_r(seed) % 4) {
        len = n;
        from++;
    }
    for (int left = 1 + rand_r(seed) % 4; left > 0; left--)
        frame[from + (size_t)rand_r(seed) % len] = (unsigned char)(rand_r(seed) >> 4);
}

/* Send damaged copies of a frame, if it is time. */
static void damaged_send(ucp_ep_h ep, unsigned id, const void *frame, size_t count)
{
    unsigned seed = (unsigned)fault.error;
    uint64_t tag;
    if (strcmp(fault.call, "damage") != 0 || count <= sizeof tag)
        return;
    memcpy(&tag, frame, sizeof tag);
    if (fabric_tag_kind(tag) != FABRIC_KIND_FRAME || atomic_fetch_add(&fault.calls, 1) + 1 != fault.first)
        return;
    for (int i = 0; i < fault.number; i++) {
        unsigned char *copy = malloc(count);
        ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                     .cb.send = copy_ended,
                                     .user_data = copy};
        if (!copy)
            abort();
        memcpy(copy, frame, count);
        frame_damage(copy, count, &seed);
        if (!UCS_PTR_IS_PTR(real.send(ep, id, NULL, 0, copy, count, &param))) /* no callback comes */
            free(copy);
        atomic_fetch_add(&fault.faults, 1);
    }
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_len, const void *buffer,
                                 size_t count, const ucp_request_param_t *param)
{
    ucp_request_param_t own;
    sends++;
    sent_to = ep;
    if (fault_strikes("send"))
        return UCS_STATUS_PTR(fault.error);
    if (!header_len)
        damaged_send(ep, id, buffer, count);
    operation_t *o = operation_make(param, &own);
    o->sent = param->cb.send;
    own.cb.send = send_ended;
    ucs_status_ptr_t request = real.send(ep, id, header, header_len, buffer, count, &own);
    if (!UCS_PTR_IS_PTR(request)) /* no callback comes */
        free(o);
    return request;
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *desc, void *buffer, size_t count,
                                      const ucp_request_param_t *param)
{
    ucp_request_param_t own;
    if (fault_strikes("recv"))
        return UCS_STATUS_PTR(fault.error);
    operation_t *o = operation_make(param, &own);
    o->received = param->cb.recv_am;
    own.cb.recv_am = receive_ended;
    ucs_status_ptr_t request = real.recv(worker, desc, buffer, count, &own);
    if (!UCS_PTR_IS_PTR(request))
        free(o);
    return request;
}

void ucp_am_data_release(ucp_worker_h worker, void *data)
{
    real.data_release(worker, data);
}

void ucp_request_free(void *request)
{
    real.request_free(request);
}
