/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: the program's calls. */
#include "base/knob.h"
#include "base/log.h"
#include "coll/coll.h"
#include "core/api/api.h"
#include "core/conn/request.h"
#include "core/driver.h"
#include "core/link/usable.h"

#include <inttypes.h>
#include <stdlib.h>

#define BYTES_MAX ((uint64_t)PTRDIFF_MAX) /* most bytes of a buffer */
#define SCRATCH_KEPT ((size_t)16 << 20)   /* bytes: most memory that an operation keeps for the next one */

/* ---- Begin and end ----------------------------------------------------------------------------------------------- */

/* Take an operation to use again, or make one; NULL if out of memory. */
static madi_coll_op_t *op_take(struct mad_group *group)
{
    struct madi_coll_session *coll = group->coll;
    madi_coll_op_t *op = group->kept;
    if (MADI_LIKELY(op != NULL)) {
        group->kept = NULL;
        return op;
    }
    madi_lock(&coll->lock);
    op = group->spare;
    if (op)
        group->spare = op->next;
    madi_unlock(&coll->lock);
    if (!op && (op = calloc(1, sizeof *op)))
        op->group = group;
    return op;
}

static void op_init(madi_coll_op_t *op)
{
    if (MADI_UNLIKELY(op->scratch_cap > SCRATCH_KEPT)) {
        free(op->scratch);
        op->scratch = NULL;
        op->scratch_cap = 0;
    }
    op->next = NULL;
    op->running = false;
    op->pending = 0;
    op->status = MAD_OK;
    atomic_store_explicit(&op->done, false, memory_order_relaxed);
    op->waiter = NULL;
    op->request = NULL;
    op->posted = op->n_steps = op->at = 0;
    op->watches = op->no_memory = false;
}

static madi_coll_form_t form_compute(const struct mad_group *group, madi_coll_kind_t kind, uint64_t len, size_t size,
                                     bool commutes)
{
    madi_coll_case_t c = {.kind = kind,
                          .len = (size_t)len,
                          .size = size,
                          .n = group->n,
                          .hosts = group->places.hosts,
                          .islands = group->places.islands,
                          .cores = group->places.cores,
                          .one_a_host = group->places.hosts == group->n,
                          .commutes = commutes};
    madi_coll_form_t form = madi_coll_choose(&c, &madi_coll_costs_default, madi_knob_text(MADI_KNOB_COLL));
    for (unsigned f = 1; f < MADI_COLL_FORMS && madi_log_shows(MADI_LOG_DEBUG); f++)
        if (madi_coll_form_fits(&c, (madi_coll_form_t)f))
            madi_log(MADI_LOG_DEBUG, "coll",
                     "group %" PRIu64 ": %s of %zu bytes, %d members on %d hosts: form %s: expected %" PRIu64 " ns%s",
                     group->number, madi_coll_kind_name(kind), c.len, c.n, c.hosts, madi_coll_form_name(f),
                     madi_coll_form_ns(&c, (madi_coll_form_t)f, &madi_coll_costs_default), f == form ? ", chosen" : "");
    return form;
}

/* Return the form of an operation.  The last choice for each kind is kept. */
static madi_coll_form_t form_choose(struct mad_group *group, madi_coll_kind_t kind, uint64_t len,
                                    const mad_combine_t *combine)
{
    madi_coll_chosen_t *last = &group->chosen[kind];
    bool commutes = !combine || combine->commutes;
    size_t size = combine ? combine->size : 1;
    if (MADI_LIKELY(last->form && last->len == len && last->size == size && last->commutes == commutes))
        return last->form;
    *last = (madi_coll_chosen_t){
        .len = len, .size = size, .commutes = commutes, .form = form_compute(group, kind, len, size, commutes)};
    return last->form;
}

/* Begin an operation: choose its form.  len: bytes by which it is chosen; check: what all members have to agree about. */
static mad_status_t coll_op_begin(struct mad_group *group, madi_coll_kind_t kind, uint64_t len, uint32_t check,
                                  const mad_combine_t *combine, madi_coll_op_t **out)
{
    mad_status_t status = madi_session_usable(group->coll->session);
    madi_coll_op_t *op;
    if (status)
        return status;
    op = op_take(group);
    if (!op)
        return MAD_ERR_NOMEM;
    op_init(op);
    op->combine = combine ? *combine : (mad_combine_t){.size = 1, .commutes = 1};
    op->envelope = (madi_coll_envelope_t){.group = group->number,
                                          .kind = (uint8_t)kind,
                                          .form = (uint8_t)form_choose(group, kind, len, combine),
                                          .check = check};
    *out = op;
    return MAD_OK;
}

/* Fail an operation because an early message differs.  Under coll->lock, which is released meanwhile: the operation is
 * running. */
static MADI_COLD void early_refuse(madi_coll_op_t *op, const madi_coll_early_t *early)
{
    madi_coll_envelope_t other = early->envelope;
    mad_peer_t peer = early->peer;
    madi_unlock(&op->group->coll->lock);
    madi_coll_differ_log(&op->envelope, &other, peer);
    madi_lock(&op->group->coll->lock);
    madi_coll_op_fail(op, MAD_ERR_MISMATCH);
}

/* Carry out the sends and copies at the beginning, which need no lock, unless the operation will fail.  Return the status of
 * the last send; *request: set if it has not left. */
static mad_status_t op_lead(madi_coll_op_t *op, mad_request_t **request)
{
    mad_status_t status = MAD_OK;
    if (MADI_UNLIKELY(op->no_memory || atomic_load_explicit(&op->group->failed, memory_order_relaxed)))
        return MAD_OK;
    for (; op->at < op->n_steps && !status && !*request; op->at++) {
        const madi_coll_step_t *step = &op->steps[op->at];
        if (step->kind == MADI_COLL_SEND)
            status = madi_coll_message_send(op, step, request);
        else if (step->kind == MADI_COLL_COPY)
            madi_copy(step->to, step->from, (size_t)step->len);
        else
            break;
    }
    return status;
}

/* True if an operation has nothing more to do, and nothing is known that concerns it.  Then no other thread need see it. */
static bool op_is_over(const madi_coll_op_t *op, mad_status_t status, const mad_request_t *left)
{
    const struct mad_group *group = op->group;
    return op->at == op->n_steps && !status && !left && !op->request && !op->no_memory &&
           !atomic_load_explicit(&group->n_early, memory_order_relaxed) &&
           !atomic_load_explicit(&group->failed, memory_order_relaxed);
}

/* Enter an operation into its group, and carry out steps.  left: a send that has begun, with this status. */
static void op_enter(madi_coll_op_t *op, mad_status_t status, mad_request_t *left)
{
    struct mad_group *group = op->group;
    struct madi_coll_session *coll = group->coll;
    const madi_coll_early_t *differs;
    mad_status_t failed;
    madi_lock(&coll->lock);
    atomic_store_explicit(&group->seq, op->envelope.seq + 1, memory_order_relaxed);
    op->changes_mode = coll->handled && !coll->n_requests;
    coll->n_requests += op->request != NULL;
    *group->ops_tail = op;
    group->ops_tail = &op->next;
    failed = atomic_load_explicit(&group->failed, memory_order_relaxed);
    if (MADI_UNLIKELY(op->no_memory))
        madi_coll_op_fail(op, MAD_ERR_NOMEM);
    else if (MADI_UNLIKELY(failed))
        madi_coll_op_fail(op, failed);
    else if (MADI_UNLIKELY(atomic_load_explicit(&group->n_early, memory_order_relaxed) &&
                           (differs = madi_coll_early_differs(op))))
        early_refuse(op, differs);
    madi_coll_sent(op, status, left);
    madi_coll_run(op);
}

/* Begin an operation.  A locked instruction after a send would wait until the message's cache line is here, so an operation
 * that only sends makes none. */
static void op_start(madi_coll_op_t *op)
{
    struct mad_group *group = op->group;
    mad_request_t *left = NULL;
    mad_status_t status;
    op->envelope.seq = atomic_load_explicit(&group->seq, memory_order_relaxed);
    op->running = true;
    status = op_lead(op, &left);
    if (!op_is_over(op, status, left)) {
        op_enter(op, status, left);
        return;
    }
    op->changes_mode = false;
    atomic_store_explicit(&group->seq, op->envelope.seq + 1, memory_order_relaxed);
    atomic_store_explicit(&op->done, true, memory_order_relaxed);
}

/* Keep an operation that has not begun for the next one. */
static mad_status_t op_give_back(madi_coll_op_t *op, mad_status_t status)
{
    madi_coll_op_keep(op);
    return status;
}

static MADI_COLD mad_status_t op_go_request(madi_coll_op_t *op, mad_request_t **request)
{
    struct mad_group *group = op->group;
    struct madi_coll_session *coll = group->coll;
    uint32_t seq = atomic_load_explicit(&group->seq, memory_order_relaxed);
    mad_request_t *r = madi_request_new(coll->session, true);
    if (!r)
        return op_give_back(op, MAD_ERR_NOMEM);
    op->request = r;
    op_start(op);
    if (!madi_request_is_done(r)) {
        madi_coll_mode(coll);
        madi_coll_watch(coll, group->number, seq);
        madi_request_left(r);
    }
    *request = r;
    return MAD_OK;
}

/* Carry out an operation whose plan is made.  gets_ahead: true if some members only send. */
static mad_status_t op_go(madi_coll_op_t *op, bool gets_ahead, mad_request_t **request)
{
    if (MADI_UNLIKELY(gets_ahead && atomic_load_explicit(&op->group->seq, memory_order_relaxed) % MADI_COLL_AHEAD ==
                                        MADI_COLL_AHEAD - 1)) {
        madi_coll_wait(op);
        madi_coll_plan_doubling(op, madi_coll_all(op), MADI_COLL_TAG_AHEAD);
    }
    if (request)
        return op_go_request(op, request);
    op_start(op);
    if (MADI_UNLIKELY(op->changes_mode))
        madi_coll_mode(op->group->coll);
    return madi_coll_op_wait(op);
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static uint32_t check_of(uint64_t len, int root)
{
    return (uint32_t)((len ^ len >> 32) * 2654435761u) ^ (uint32_t)root * 40503u;
}

static bool buffer_is_good(const void *buf, uint64_t len)
{
    return (buf || !len) && len <= BYTES_MAX;
}

/* True if n blocks of len bytes are a buffer. */
static bool blocks_are_good(const struct mad_group *group, const void *buf, size_t len)
{
    return len <= BYTES_MAX / (uint64_t)group->n && buffer_is_good(buf, len * (uint64_t)group->n);
}

static bool root_is_good(const struct mad_group *group, int root)
{
    return root >= 0 && root < group->n;
}

static bool combine_is_good(const mad_combine_t *op, size_t count)
{
    return op && op->fn && op->size && count <= BYTES_MAX / op->size;
}

/* True if the blocks of all members lie in a buffer. */
static bool lens_are_good(const struct mad_group *group, const void *buf, const size_t *lens, const size_t *offsets)
{
    if (!lens || !offsets)
        return false;
    for (int i = 0; i < group->n; i++)
        if (!buffer_is_good(buf, lens[i]) || offsets[i] > BYTES_MAX - lens[i])
            return false;
    return true;
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

mad_status_t mad_group_barrier(mad_group_t *group, mad_request_t **request)
{
    madi_coll_op_t *op;
    mad_status_t status = coll_op_begin(group, MADI_COLL_BARRIER, 0, 0, NULL, &op);
    if (status)
        return status;
    madi_coll_plan_barrier(op, (madi_coll_form_t)op->envelope.form);
    return op_go(op, false, request);
}

mad_status_t mad_group_broadcast(mad_group_t *group, int root, void *buf, size_t len, mad_request_t **request)
{
    madi_coll_op_t *op;
    mad_status_t status;
    if (!root_is_good(group, root) || !buffer_is_good(buf, len))
        return MAD_ERR_INVAL;
    status = coll_op_begin(group, MADI_COLL_BROADCAST, len, check_of(len, root), NULL, &op);
    if (status)
        return status;
    madi_coll_plan_broadcast(op, (madi_coll_form_t)op->envelope.form, root, buf, len);
    return op_go(op, true, request);
}

mad_status_t mad_group_reduce(mad_group_t *group, int root, const void *from, void *to, size_t count,
                              const mad_combine_t *op, mad_request_t **request)
{
    madi_coll_op_t *o;
    mad_status_t status;
    uint64_t len;
    if (!root_is_good(group, root) || !combine_is_good(op, count))
        return MAD_ERR_INVAL;
    len = count * op->size;
    if (!buffer_is_good(from, len) || (group->index == root && !buffer_is_good(to, len)))
        return MAD_ERR_INVAL;
    status = coll_op_begin(group, MADI_COLL_REDUCE, len, check_of(len, root), op, &o);
    if (status)
        return status;
    madi_coll_plan_reduce(o, (madi_coll_form_t)o->envelope.form, root, from, to, len);
    return op_go(o, true, request);
}

/* Begin an operation that combines elements for all members. */
static mad_status_t combine_begin(mad_group_t *group, madi_coll_kind_t kind, const void *from, const void *to, size_t count,
                                  const mad_combine_t *op, madi_coll_op_t **out)
{
    uint64_t len;
    if (!combine_is_good(op, count))
        return MAD_ERR_INVAL;
    len = count * op->size;
    if (!buffer_is_good(from, len) || !buffer_is_good(to, len))
        return MAD_ERR_INVAL;
    return coll_op_begin(group, kind, len, check_of(len, 0), op, out);
}

mad_status_t mad_group_allreduce(mad_group_t *group, const void *from, void *to, size_t count, const mad_combine_t *op,
                                 mad_request_t **request)
{
    madi_coll_op_t *o;
    mad_status_t status = combine_begin(group, MADI_COLL_ALLREDUCE, from, to, count, op, &o);
    if (status)
        return status;
    madi_coll_plan_allreduce(o, (madi_coll_form_t)o->envelope.form, from, to, count);
    return op_go(o, false, request);
}

mad_status_t mad_group_reduce_scatter(mad_group_t *group, const void *from, void *to, size_t count, const mad_combine_t *op,
                                      mad_request_t **request)
{
    madi_coll_op_t *o;
    mad_status_t status;
    uint64_t len;
    if (!combine_is_good(op, count))
        return MAD_ERR_INVAL;
    len = count * op->size;
    if (!blocks_are_good(group, from, (size_t)len) || !buffer_is_good(to, len))
        return MAD_ERR_INVAL;
    status = coll_op_begin(group, MADI_COLL_REDUCE_SCATTER, len, check_of(len, 0), op, &o);
    if (status)
        return status;
    madi_coll_plan_reduce_scatter(o, (madi_coll_form_t)o->envelope.form, from, to, len);
    return op_go(o, true, request);
}

static mad_status_t scan_go(mad_group_t *group, madi_coll_kind_t kind, const void *from, void *to, size_t count,
                            const mad_combine_t *op, mad_request_t **request)
{
    madi_coll_op_t *o;
    mad_status_t status = combine_begin(group, kind, from, to, count, op, &o);
    if (status)
        return status;
    madi_coll_plan_scan(o, (madi_coll_form_t)o->envelope.form, kind == MADI_COLL_EXSCAN, from, to, count * op->size);
    return op_go(o, true, request);
}

mad_status_t mad_group_scan(mad_group_t *group, const void *from, void *to, size_t count, const mad_combine_t *op,
                            mad_request_t **request)
{
    return scan_go(group, MADI_COLL_SCAN, from, to, count, op, request);
}

mad_status_t mad_group_exscan(mad_group_t *group, const void *from, void *to, size_t count, const mad_combine_t *op,
                              mad_request_t **request)
{
    return scan_go(group, MADI_COLL_EXSCAN, from, to, count, op, request);
}

mad_status_t mad_group_gather(mad_group_t *group, int root, const void *from, size_t len, void *to, mad_request_t **request)
{
    madi_coll_op_t *op;
    mad_status_t status;
    if (!root_is_good(group, root) || !buffer_is_good(from, len) ||
        !blocks_are_good(group, group->index == root ? to : &op, len))
        return MAD_ERR_INVAL;
    status = coll_op_begin(group, MADI_COLL_GATHER, len, check_of(len, root), NULL, &op);
    if (status)
        return status;
    madi_coll_plan_gather(op, (madi_coll_form_t)op->envelope.form, root, from, len, to);
    return op_go(op, true, request);
}

mad_status_t mad_group_gather_v(mad_group_t *group, int root, const void *from, size_t len, void *to, const size_t *lens,
                                const size_t *offsets, mad_request_t **request)
{
    madi_coll_op_t *op;
    mad_status_t status;
    if (!root_is_good(group, root) || !buffer_is_good(from, len) ||
        (group->index == root && (!lens_are_good(group, to, lens, offsets) || lens[root] != len)))
        return MAD_ERR_INVAL;
    status = coll_op_begin(group, MADI_COLL_GATHER_V, 0, check_of(0, root), NULL, &op);
    if (status)
        return status;
    madi_coll_plan_gather_v(op, root, from, len, to, lens, offsets);
    return op_go(op, true, request);
}

mad_status_t mad_group_scatter(mad_group_t *group, int root, const void *from, void *to, size_t len, mad_request_t **request)
{
    madi_coll_op_t *op;
    mad_status_t status;
    if (!root_is_good(group, root) || !buffer_is_good(to, len) ||
        !blocks_are_good(group, group->index == root ? from : &op, len))
        return MAD_ERR_INVAL;
    status = coll_op_begin(group, MADI_COLL_SCATTER, len, check_of(len, root), NULL, &op);
    if (status)
        return status;
    madi_coll_plan_scatter(op, (madi_coll_form_t)op->envelope.form, root, from, to, len);
    return op_go(op, true, request);
}

mad_status_t mad_group_scatter_v(mad_group_t *group, int root, const void *from, const size_t *lens, const size_t *offsets,
                                 void *to, size_t len, mad_request_t **request)
{
    madi_coll_op_t *op;
    mad_status_t status;
    if (!root_is_good(group, root) || !buffer_is_good(to, len) ||
        (group->index == root && (!lens_are_good(group, from, lens, offsets) || lens[root] != len)))
        return MAD_ERR_INVAL;
    status = coll_op_begin(group, MADI_COLL_SCATTER_V, 0, check_of(0, root), NULL, &op);
    if (status)
        return status;
    madi_coll_plan_scatter_v(op, root, from, lens, offsets, to, len);
    return op_go(op, true, request);
}

mad_status_t mad_group_allgather(mad_group_t *group, const void *from, size_t len, void *to, mad_request_t **request)
{
    madi_coll_op_t *op;
    mad_status_t status;
    if (!buffer_is_good(from, len) || !blocks_are_good(group, to, len))
        return MAD_ERR_INVAL;
    status = coll_op_begin(group, MADI_COLL_ALLGATHER, len, check_of(len, 0), NULL, &op);
    if (status)
        return status;
    madi_coll_plan_allgather(op, (madi_coll_form_t)op->envelope.form, from, len, to);
    return op_go(op, false, request);
}

mad_status_t mad_group_allgather_v(mad_group_t *group, const void *from, void *to, const size_t *lens, const size_t *offsets,
                                   mad_request_t **request)
{
    madi_coll_op_t *op;
    mad_status_t status;
    uint64_t all = 0;
    if (!lens_are_good(group, to, lens, offsets) || !buffer_is_good(from, lens[group->index]))
        return MAD_ERR_INVAL;
    for (int i = 0; i < group->n; i++)
        all += lens[i];
    status = coll_op_begin(group, MADI_COLL_ALLGATHER_V, all / (uint64_t)group->n, check_of(all, 0), NULL, &op);
    if (status)
        return status;
    madi_coll_plan_allgather_v(op, (madi_coll_form_t)op->envelope.form, from, to, lens, offsets);
    return op_go(op, false, request);
}

mad_status_t mad_group_alltoall(mad_group_t *group, const void *from, void *to, size_t len, mad_request_t **request)
{
    madi_coll_op_t *op;
    mad_status_t status;
    if (!blocks_are_good(group, from, len) || !blocks_are_good(group, to, len))
        return MAD_ERR_INVAL;
    status = coll_op_begin(group, MADI_COLL_ALLTOALL, len, check_of(len, 0), NULL, &op);
    if (status)
        return status;
    madi_coll_plan_alltoall(op, (madi_coll_form_t)op->envelope.form, from, to, len);
    return op_go(op, false, request);
}

mad_status_t mad_group_alltoall_v(mad_group_t *group, const void *from, const size_t *from_lens, const size_t *from_offsets,
                                  void *to, const size_t *to_lens, const size_t *to_offsets, mad_request_t **request)
{
    bool in_place = from == to && to;
    madi_coll_op_t *op;
    mad_status_t status;
    if (!lens_are_good(group, to, to_lens, to_offsets) ||
        (!in_place &&
         (!lens_are_good(group, from, from_lens, from_offsets) || from_lens[group->index] != to_lens[group->index])))
        return MAD_ERR_INVAL;
    status = coll_op_begin(group, MADI_COLL_ALLTOALL_V, 0, 0, NULL, &op);
    if (status)
        return status;
    madi_coll_plan_alltoall_v(op, from, from_lens, from_offsets, to, to_lens, to_offsets);
    return op_go(op, false, request);
}
