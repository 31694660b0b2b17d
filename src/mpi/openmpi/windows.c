/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of MPI: put, get and atomic operations by Madeleine's remote memory.
 *
 *   Open MPI's osc rdma                this file                       madeleine/memory.h
 *   register_mem for every peer   -->  window_t, with its handle  -->  mad_memory_register
 *   (sends the handle to the other processes of the window)
 *   btl_put, btl_get, btl_atomic_ -->  window_op_t                -->  mad_memory_put, ...
 *   callback, in btl_progress     <--  mad_btl_when_done          <--  completion at the owner
 *
 * Open MPI wants one module that reaches all processes of a window, this process included, whatever networks lead there.
 * So windows have a module of their own.  The module cannot send, and its endpoints are not those of the other modules, so
 * Open MPI's ob1 uses the module for no message.  Operations on this process's own memory, and atomic ones on memory
 * that Open MPI shares among the processes of a host, are done in place.
 *
 * Open MPI repeats a refused operation for ever, and ignores the status of a put that has failed.  So an operation is
 * refused only if memory is short at the moment, or if Open MPI has another way (OPAL_ERR_NOT_SUPPORTED).  Every other
 * operation is accepted; its failure is reported as fatal, and only then the callback runs. */
#include "btl_mad.h"

#include <madeleine/memory.h>
#include <opal/util/output.h>
#include <stdlib.h>
#include <string.h>

#define WORD sizeof(uint64_t)

/* Handle of registered memory.  Open MPI sends the handle to the peers, as bytes that it may keep at any address. */
typedef struct window_handle {
    mad_memory_key_t key;
    uint64_t base; /* address of the memory at its owner */
} window_handle_t;
static_assert(sizeof(window_handle_t) == MAD_BTL_WINDOW_HANDLE, "no padding, and the size that the module announces");

/* Registered memory. */
typedef struct window {
    window_handle_t handle; /* must be first, because Open MPI has this pointer */
    mad_memory_t *memory;
} window_t;

/* An operation on a peer's memory. */
typedef struct window_op {
    mad_btl_done_t done;
    mad_btl_endpoint_t *endpoint;
    void *local;
    mca_btl_base_registration_handle_t *local_handle;
    mca_btl_base_rdma_completion_fn_t callback;
    void *context, *data;
    window_handle_t window; /* the peer's memory */
    size_t len;
    uint64_t *result; /* atomic operations: where to store the word's previous value; NULL if Open MPI does not want
                       * it */
    uint64_t before;
    /* operations made of compare-and-swap, which are repeated until `before` is `expected` */
    mca_btl_base_atomic_op_t op;
    uint64_t offset, operand, expected;
} window_op_t;

/* ---- Registration ---------------------------------------------------------------------------------------------- */

/* Registration of memory that only this process uses: nothing has to be done for it. */
static window_t window_local;

static unsigned window_rights(uint32_t flags)
{
    return (flags & MCA_BTL_REG_FLAG_REMOTE_READ ? MAD_MEMORY_READ : 0) |
           (flags & MCA_BTL_REG_FLAG_REMOTE_WRITE ? MAD_MEMORY_WRITE : 0) |
           (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC ? MAD_MEMORY_ATOMIC : 0);
}

mca_btl_base_registration_handle_t *mad_btl_window_register(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint,
                                                            void *base, size_t size, uint32_t flags)
{
    unsigned rights = window_rights(flags);
    mad_status_t status;
    window_t *w;
    (void)btl;
    if (!rights)
        return (void *)&window_local;
    if (endpoint != MCA_BTL_ENDPOINT_ANY) /* ob1 wants to send a message from this memory: the other modules do that */
        return NULL;
    w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    status = mad_memory_register(mad_btl->session, base, size, rights, &w->memory);
    if (status) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output, "btl mad: no registration of %zu bytes: %s", size,
                            mad_status_text(status));
        free(w);
        return NULL;
    }
    mad_memory_key(w->memory, &w->handle.key);
    w->handle.base = (uintptr_t)base;
    return (void *)w;
}

/* Open MPI frees the memory afterwards, so operations that the peers have begun are waited for.  They end, because their
 * bytes arrive or their peer is lost. */
int mad_btl_window_deregister(mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle)
{
    window_t *w = (void *)handle;
    (void)btl;
    if (w == &window_local)
        return OPAL_SUCCESS;
    mad_memory_unregister(w->memory, MAD_FOREVER);
    free(w);
    return OPAL_SUCCESS;
}

/* ---- Completion ------------------------------------------------------------------------------------------------ */

/* Report a failure to Open MPI, once per peer.  Its default is to end the program. */
static void window_op_report(const window_op_t *op, mad_status_t status)
{
    mad_btl_endpoint_t *endpoint = op->endpoint, *messages = NULL;
    if (status == MAD_ERR_PEER || status == MAD_ERR_UNREACHABLE || status == MAD_ERR_AUTH)
        messages = mad_btl_endpoint_of(endpoint->peer);
    if (messages)
        endpoint = messages;
    if (!atomic_load(&endpoint->dead))
        opal_output(0, "btl mad: an operation on a window failed: %s", mad_status_text(status));
    mad_btl_dead(endpoint, mad_status_text(status));
}

static void window_op_end(window_op_t *op, mad_status_t status)
{
    if (op->len >= MAD_BTL_WINDOW_LONG)
        atomic_fetch_sub(&mad_btl->gets, 1);
    if (status) {
        window_op_report(op, status);
    } else {
        mad_btl_count(&mad_btl->windows, op->len);
        if (op->result)
            memcpy(op->result, &op->before, WORD);
    }
    op->callback(op->endpoint->btl, op->endpoint, op->local, op->local_handle, op->context, op->data,
                 status ? OPAL_ERROR : OPAL_SUCCESS);
    free(op);
}

static void window_op_done(mad_btl_done_t *done)
{
    window_op_end((window_op_t *)((char *)done - offsetof(window_op_t, done)), done->status);
}

/* ---- Beginning ------------------------------------------------------------------------------------------------- */

static window_op_t *window_op_new(mad_btl_endpoint_t *endpoint, void *local,
                                  mca_btl_base_registration_handle_t *local_handle, size_t len,
                                  mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    window_op_t *op = calloc(1, sizeof *op);
    if (op)
        *op = (window_op_t){.done.complete = window_op_done,
                            .endpoint = endpoint,
                            .local = local,
                            .local_handle = local_handle,
                            .callback = callback,
                            .context = context,
                            .data = data,
                            .len = len};
    return op;
}

/* Continue an operation that the library has begun (status MAD_OK), or has refused.  The operation may be gone after this
 * call.  Return a result for Open MPI. */
static int window_op_began(window_op_t *op, mad_status_t status, mad_request_t *request)
{
    if (status == MAD_ERR_NOMEM) {
        free(op);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (op->len >= MAD_BTL_WINDOW_LONG)
        atomic_fetch_add(&mad_btl->gets, 1);
    if (status)
        mad_btl_push_done(&op->done, status);
    else
        mad_btl_when_done(request, &op->done);
    return OPAL_SUCCESS;
}

/* Copy the handle of a peer's memory; zeros, which are no key, if there is none. */
static void window_read(window_handle_t *window, const mca_btl_base_registration_handle_t *handle)
{
    memset(window, 0, sizeof *window);
    if (handle)
        memcpy(window, handle, sizeof *window);
}

/* ---- Bytes ----------------------------------------------------------------------------------------------------- */

/* Copy bytes of this process; an aligned word in one access, because other processes may change the word meanwhile. */
static void window_copy(void *to, const void *from, size_t len)
{
    if (len == WORD && !(((uintptr_t)to | (uintptr_t)from) % WORD))
        __atomic_store_n((uint64_t *)to, __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
    else
        memmove(to, from, len);
}

/* Begin to put or get the bytes of a peer.  op: NULL if out of memory. */
static int window_move(bool puts, window_op_t *op, uint64_t remote_address,
                       const mca_btl_base_registration_handle_t *remote_handle)
{
    mad_request_t *request = NULL;
    mad_status_t status;
    uint64_t offset;
    if (!op)
        return OPAL_ERR_OUT_OF_RESOURCE;
    window_read(&op->window, remote_handle);
    offset = remote_address - op->window.base;
    if (puts)
        status = mad_memory_put(mad_btl->session, op->endpoint->peer, &op->window.key, offset, op->local, op->len, &request);
    else
        status = mad_memory_get(mad_btl->session, op->endpoint->peer, &op->window.key, offset, op->local, op->len, &request);
    return window_op_began(op, status, request);
}

int mad_btl_window_put(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address,
                       uint64_t remote_address, mca_btl_base_registration_handle_t *handle,
                       mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
                       mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    (void)flags, (void)order;
    if (!endpoint->self)
        return window_move(true, window_op_new(endpoint, local_address, handle, size, callback, context, data),
                           remote_address, remote_handle);
    window_copy((void *)(uintptr_t)remote_address, local_address, size);
    callback(btl, endpoint, local_address, handle, context, data, OPAL_SUCCESS);
    return OPAL_SUCCESS;
}

int mad_btl_window_get(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address,
                       uint64_t remote_address, mca_btl_base_registration_handle_t *handle,
                       mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags, int order,
                       mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    (void)flags, (void)order;
    if (!endpoint->self)
        return window_move(false, window_op_new(endpoint, local_address, handle, size, callback, context, data),
                           remote_address, remote_handle);
    window_copy(local_address, (const void *)(uintptr_t)remote_address, size);
    callback(btl, endpoint, local_address, handle, context, data, OPAL_SUCCESS);
    return OPAL_SUCCESS;
}

/* ---- Atomic operations ----------------------------------------------------------------------------------------- */

/* Set *value to the value of a word after the operation.  Return false if the module does not have this operation. */
static bool window_changed(mca_btl_base_atomic_op_t op, uint64_t before, uint64_t operand, uint64_t *value)
{
    switch (op) {
    case MCA_BTL_ATOMIC_ADD: *value = before + operand; return true;
    case MCA_BTL_ATOMIC_AND: *value = before & operand; return true;
    case MCA_BTL_ATOMIC_OR: *value = before | operand; return true;
    case MCA_BTL_ATOMIC_XOR: *value = before ^ operand; return true;
    case MCA_BTL_ATOMIC_SWAP: *value = operand; return true;
    default: return false;
    }
}

/* Change a word in place.  Return its previous value. */
static uint64_t window_here_change(mca_btl_base_atomic_op_t op, uint64_t address, uint64_t operand)
{
    uint64_t *word = (uint64_t *)(uintptr_t)address, before = __atomic_load_n(word, __ATOMIC_SEQ_CST), after = 0;
    do
        window_changed(op, before, operand, &after);
    while (!__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return before;
}

/* Try the operation once, under the assumption that the word is op->expected. */
static mad_status_t window_op_try(window_op_t *op, mad_request_t **request)
{
    uint64_t value = 0;
    window_changed(op->op, op->expected, op->operand, &value);
    return mad_memory_compare_swap(mad_btl->session, op->endpoint->peer, &op->window.key, op->offset, op->expected, value,
                                   &op->before, request);
}

/* End an operation that is made of compare-and-swap, or try again with the value that the word has. */
static void window_op_tried(mad_btl_done_t *done)
{
    window_op_t *op = (window_op_t *)((char *)done - offsetof(window_op_t, done));
    mad_request_t *request = NULL;
    mad_status_t status = done->status;
    if (status || op->before == op->expected) {
        window_op_end(op, status);
        return;
    }
    op->expected = op->before;
    status = window_op_try(op, &request);
    if (status)
        window_op_end(op, status);
    else
        mad_btl_when_done(request, &op->done);
}

/* Begin an atomic operation on a peer's word.  op: NULL if out of memory. */
static int window_change(window_op_t *op, mca_btl_base_registration_handle_t *remote_handle, uint64_t remote_address,
                         mca_btl_base_atomic_op_t how, uint64_t operand)
{
    mad_request_t *request = NULL;
    mad_status_t status;
    if (!op)
        return OPAL_ERR_OUT_OF_RESOURCE;
    window_read(&op->window, remote_handle);
    op->offset = remote_address - op->window.base;
    op->op = how;
    op->operand = operand;
    if (how == MCA_BTL_ATOMIC_ADD) {
        status = mad_memory_fetch_add(mad_btl->session, op->endpoint->peer, &op->window.key, op->offset, operand,
                                      &op->before, &request);
    } else {
        op->done.complete = window_op_tried;
        status = window_op_try(op, &request);
    }
    return window_op_began(op, status, request);
}

/* True if the word is accessed in place: it is this process's own, or in memory that Open MPI shares among the processes of a
 * host, to which it gives no handle.  Then all of them must change the word in the same way. */
static bool window_is_here(const mad_btl_endpoint_t *endpoint, const mca_btl_base_registration_handle_t *remote_handle)
{
    return !remote_handle || endpoint->self;
}

/* True if the module has this operation on this word. */
static bool window_has(uint64_t remote_address, mca_btl_base_atomic_op_t op, int flags)
{
    uint64_t value;
    return !(flags & (MCA_BTL_ATOMIC_FLAG_32BIT | MCA_BTL_ATOMIC_FLAG_FLOAT)) && !(remote_address % WORD) &&
           window_changed(op, 0, 0, &value);
}

int mad_btl_window_op(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, uint64_t remote_address,
                      mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op, uint64_t operand,
                      int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    (void)order;
    if (!window_has(remote_address, op, flags))
        return OPAL_ERR_NOT_SUPPORTED;
    if (!window_is_here(endpoint, remote_handle))
        return window_change(window_op_new(endpoint, NULL, NULL, WORD, callback, context, data), remote_handle,
                             remote_address, op, operand);
    window_here_change(op, remote_address, operand);
    callback(btl, endpoint, NULL, NULL, context, data, OPAL_SUCCESS);
    return OPAL_SUCCESS;
}

int mad_btl_window_fop(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address,
                       uint64_t remote_address, mca_btl_base_registration_handle_t *handle,
                       mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op, uint64_t operand,
                       int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    window_op_t *o;
    uint64_t before;
    (void)order;
    if (!window_has(remote_address, op, flags))
        return OPAL_ERR_NOT_SUPPORTED;
    if (!window_is_here(endpoint, remote_handle)) {
        o = window_op_new(endpoint, local_address, handle, WORD, callback, context, data);
        if (o)
            o->result = local_address;
        return window_change(o, remote_handle, remote_address, op, operand);
    }
    before = window_here_change(op, remote_address, operand);
    memcpy(local_address, &before, WORD);
    callback(btl, endpoint, local_address, handle, context, data, OPAL_SUCCESS);
    return OPAL_SUCCESS;
}

int mad_btl_window_cswap(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address,
                         uint64_t remote_address, mca_btl_base_registration_handle_t *handle,
                         mca_btl_base_registration_handle_t *remote_handle, uint64_t compare, uint64_t value, int flags,
                         int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    mad_request_t *request = NULL;
    window_op_t *op;
    mad_status_t status;
    (void)order;
    if (!window_has(remote_address, MCA_BTL_ATOMIC_SWAP, flags))
        return OPAL_ERR_NOT_SUPPORTED;
    if (window_is_here(endpoint, remote_handle)) {
        __atomic_compare_exchange_n((uint64_t *)(uintptr_t)remote_address, &compare, value, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST); /* sets compare to the word's value if that differs */
        memcpy(local_address, &compare, WORD);
        callback(btl, endpoint, local_address, handle, context, data, OPAL_SUCCESS);
        return OPAL_SUCCESS;
    }
    op = window_op_new(endpoint, local_address, handle, WORD, callback, context, data);
    if (!op)
        return OPAL_ERR_OUT_OF_RESOURCE;
    op->result = local_address;
    window_read(&op->window, remote_handle);
    status = mad_memory_compare_swap(mad_btl->session, endpoint->peer, &op->window.key, remote_address - op->window.base,
                                     compare, value, &op->before, &request);
    return window_op_began(op, status, request);
}
