/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: what the adapters of this process share: the rank, receives, progress.
 *
 *   slots   0   1   2   3   4   5  ...      receives, posted in a circle; MPI matches them in this order
 *                   ^head       ^head + posted
 *
 * A message that is copied at once leaves its buffer in the slot.  Otherwise the buffer is detached, and the slot gets
 * another one.  Receives are posted again when no message has arrived, so that posting delays no message. */
#include "drivers/mpi/mpi.h"

#include "base/knob.h"
#include "base/random.h"
#include "base/static_mutex.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART 16           /* number of messages between two checks for rare work */
#define CANCEL_CALLS 4096 /* number of calls after which MPI has ended a cancelled receive */

static mpi_world_t world;
static madi_static_mutex_t world_mutex = MADI_STATIC_MUTEX; /* adapters that begin and end */

/* ---- Buffers -------------------------------------------------------------------------------------------------------- */

static mpi_buffer_t *buffer_take(mpi_world_t *w)
{
    mpi_buffer_t *b = w->buffers;
    if (MADI_UNLIKELY(!b)) {
        b = malloc(sizeof *b);
        if (b)
            b->is_copy = false;
        return b;
    }
    w->buffers = b->next;
    return b;
}

mpi_buffer_t *mpi_buffer_keep(mpi_world_t *w, mpi_buffer_t *b)
{
    mpi_buffer_t *copy = b->len <= WORLD_WAIT_COPY ? malloc(offsetof(mpi_buffer_t, data) + b->len + MADI_LINE) : NULL;
    if (!copy)
        return b;
    b->is_copy = true; /* in the copy, too, which is shorter than the structure */
    memcpy((void *)copy, b, offsetof(mpi_buffer_t, data) + b->len);
    b->is_copy = false;
    mpi_buffer_put(w, b);
    return copy;
}

void mpi_buffer_put(mpi_world_t *w, mpi_buffer_t *b)
{
    if (b->is_copy) {
        free(b);
        return;
    }
    madi_lock(&w->io);
    b->next = w->buffers;
    w->buffers = b;
    madi_unlock(&w->io);
}

/* ---- Receives, under the lock io --------------------------------------------------------------------------------- */

void mpi_world_fail(mpi_world_t *w, int error)
{
    w->error = w->error ? w->error : error;
    for (mpi_adapter_t *a = w->adapters; a; a = a->next) {
        atomic_store_explicit(&a->base.failures, true, memory_order_release);
        fabric_heat(&a->base.heat);
    }
}

/* Post up to n receives. */
static void slots_post(mpi_world_t *w, unsigned n)
{
    for (; n && w->posted < WORLD_SLOTS; n--) {
        unsigned i = (w->head + w->posted) % WORLD_SLOTS;
        if (!w->slots[i].buffer)
            w->slots[i].buffer = buffer_take(w);
        mpi_buffer_t *b = w->slots[i].buffer;
        if (!b)
            return; /* out of memory: try again later */
        int error = w->lib.calls->receive(&b->early.tag, WORLD_TAG_SIZE + WORLD_PACKET_MAX, MPI_ANY_RANK, WORLD_TAG,
                                          &w->slots[i].request);
        if (error) {
            mpi_world_fail(w, error);
            return;
        }
        w->posted++;
    }
}

/* End the links of a rank that has sent a message which is longer than the receives. */
static void source_too_long(mpi_world_t *w, int source, int error)
{
    for (int i = 0; i < w->links.n; i++) {
        mpi_link_t *l = w->links.links[i];
        if (!l || l->peer.rank != (uint32_t)source)
            continue;
        atomic_store_explicit(&l->too_long, true, memory_order_relaxed);
        fabric_send_failed(&l->base, error);
    }
}

mpi_buffer_t *mpi_slot_look(mpi_world_t *w)
{
    bool is_done;
    mpi_from_t from;
    for (;;) {
        if (MADI_UNLIKELY(!w->posted)) {
            slots_post(w, WORLD_SLOTS);
            if (!w->posted)
                return NULL;
        }
        int error = w->lib.calls->test_from(&w->slots[w->head].request, &is_done, &from);
        if (MADI_UNLIKELY(error)) {
            mpi_slot_free(w);
            if (is_done && w->lib.calls->is_too_long(error))
                source_too_long(w, from.source, error); /* the message is lost, and nothing else */
            else
                mpi_world_fail(w, error);
            return NULL;
        }
        if (!is_done) {
            slots_post(w, 1);
            return NULL;
        }
        if (MADI_LIKELY(from.bytes >= (long)WORLD_TAG_SIZE))
            break;
        mpi_slot_free(w); /* dropped, since no correct peer sends this */
    }
    mpi_buffer_t *b = w->slots[w->head].buffer;
    b->source = from.source;
    b->len = (size_t)from.bytes - WORLD_TAG_SIZE;
    return b;
}

void mpi_slot_free(mpi_world_t *w)
{
    w->head = (w->head + 1) % WORLD_SLOTS;
    w->posted--;
}

mpi_buffer_t *mpi_slot_detach(mpi_world_t *w)
{
    mpi_buffer_t *b = w->slots[w->head].buffer;
    w->slots[w->head].buffer = NULL;
    mpi_slot_free(w);
    return b;
}

void mpi_slot_route(mpi_world_t *w, const mpi_adapter_t *poller)
{
    mpi_buffer_t *b = mpi_slot_detach(w);
    mpi_adapter_t *a = NULL;
    mpi_announced_t announced;
    if (fabric_tag_kind(b->early.tag) == FABRIC_KIND_FRAME) {
        a = mpi_frame_adapter(w, b);
    } else {
        mpi_link_t *l = mpi_link_of(w, b->early.tag);
        a = l ? mpi_of(l) : NULL;
        if (!l && fabric_tag_kind(b->early.tag) == FABRIC_KIND_PACKET && mpi_announced_read(b, &announced))
            mpi_body_discard(w, b->source, announced.body_tag, announced.hdr.length);
    }
    if (!a) {
        b->next = w->buffers;
        w->buffers = b;
        return;
    }
    b->next = NULL;
    *a->arrived = b;
    a->arrived = &b->next;
    atomic_fetch_add_explicit(&a->listed, 1, memory_order_relaxed);
    fabric_heat(&a->base.heat);
    if (a != poller)
        madi_session_wake(a->base.adapter.session);
}

int mpi_progress(mpi_adapter_t *a)
{
    mpi_world_t *w = a->world;
    int n = 0;
    madi_lock(&w->io);
    if (mpi_world_works(w)) {
        for (; n < PART && mpi_slot_look(w); n++)
            mpi_slot_route(w, a);
        n += mpi_sends_test(w) + mpi_bodies_test(w);
    }
    madi_unlock(&w->io);
    return n;
}

mpi_buffer_t *mpi_arrived_take(mpi_adapter_t *a)
{
    if (!atomic_load_explicit(&a->listed, memory_order_relaxed))
        return NULL;
    madi_lock(&a->world->io);
    mpi_buffer_t *b = a->first_arrived;
    if (b) {
        a->first_arrived = b->next;
        if (!a->first_arrived)
            a->arrived = &a->first_arrived;
        atomic_fetch_sub_explicit(&a->listed, 1, memory_order_relaxed);
    }
    madi_unlock(&a->world->io);
    return b;
}

/* Cancel the posted receives.  Receives that cannot be cancelled are used by the next adapter. */
static void slots_cancel(mpi_world_t *w)
{
    bool is_done = true;
    while (w->posted && is_done) {
        mpi_request_t *request = &w->slots[(w->head + w->posted - 1) % WORLD_SLOTS].request;
        is_done = false;
        if (w->lib.calls->cancel(request))
            return;
        for (int i = 0; i < CANCEL_CALLS && !is_done; i++)
            if (w->lib.calls->test(request, &is_done))
                return;
        w->posted -= is_done;
    }
}

/* Called when MPI is about to be finalised, and no session is left. */
static void world_end(void)
{
    madi_lock(&world.io);
    if (!world.adapters && mpi_world_works(&world)) {
        while (mpi_slot_look(&world)) /* the last messages of peers */
            mpi_slot_free(&world);
        slots_cancel(&world);
    }
    madi_unlock(&world.io);
}

/* ---- Begin and end ------------------------------------------------------------------------------------------------ */

/* Choose the communicator.  Return MPI's error.  If it is MPI_COMM_WORLD of the program, the program's error handler
 * stays. */
static int communicator_choose(mpi_world_t *w, int given)
{
    const mpi_calls_t *calls = w->lib.calls;
    int error = calls->communicator_use(0, &w->rank, &w->size);
    if (!error && w->lib.ours)
        error = calls->errors_return();
    if (!error && given)
        error = calls->communicator_use(given, &w->rank, &w->size);
    return !error && given ? calls->errors_return() : error;
}

static bool world_open(mpi_world_t *w, char *reason)
{
    char text[MPI_ERROR_TEXT_MAX];
    int given = (int)madi_knob_int(MADI_KNOB_MPI_COMM);
    if (!mpi_lib_open(&w->lib, reason, MADI_REASON_MAX))
        return false;
    int error = communicator_choose(w, given);
    if (error) {
        w->lib.calls->error_text(error, text);
        snprintf(reason, MADI_REASON_MAX, "%s: the communicator (MAD_MPI_COMM=%d): %.80s", w->lib.calls->name, given, text);
        return false;
    }
    if (!w->stamp && !madi_random(&w->stamp, sizeof w->stamp)) {
        snprintf(reason, MADI_REASON_MAX, "no random numbers");
        return false;
    }
    w->sent_last = &w->sending;
    if (w->lib.ours)
        mpi_lib_at_end(world_end);
    slots_post(w, WORLD_SLOTS);
    if (w->error || !w->posted) {
        if (w->error)
            w->lib.calls->error_text(w->error, text);
        snprintf(reason, MADI_REASON_MAX, "%s: no receive can be posted: %.80s", w->lib.calls->name,
                 w->error ? text : "no memory");
        return false;
    }
    return true;
}

bool mpi_world_enter(mpi_adapter_t *a, char *reason)
{
    mpi_world_t *w = &world;
    madi_static_mutex_lock(&world_mutex);
    if (!w->is_open)
        w->error = 0;
    w->is_open = w->is_open || world_open(w, reason);
    bool entered = w->is_open;
    if (entered) {
        madi_lock(&w->io);
        a->world = w;
        a->arrived = &a->first_arrived;
        a->address = (mpi_address_t){(uint32_t)w->rank, w->adapter_number++, w->stamp};
        a->next = w->adapters;
        w->adapters = a;
        madi_unlock(&w->io);
    }
    madi_static_mutex_unlock(&world_mutex);
    return entered;
}

/* Free memory that MPI does not use. */
static void world_free(mpi_world_t *w)
{
    for (unsigned i = 0; i < WORLD_SLOTS && !w->posted; i++) {
        free(w->slots[i].buffer);
        w->slots[i].buffer = NULL;
    }
    for (mpi_buffer_t *b; (b = w->buffers);) {
        w->buffers = b->next;
        free(b);
    }
    for (mpi_copy_t *c; (c = w->copies);) {
        w->copies = c->next;
        free(c);
    }
    for (mpi_flight_t *f; (f = w->flights);) {
        w->flights = f->next;
        free(f);
    }
    if (!w->bodies)
        fabric_table_fini(&w->links);
}

void mpi_world_leave(mpi_adapter_t *a)
{
    mpi_world_t *w = a->world;
    if (!w)
        return;
    madi_static_mutex_lock(&world_mutex);
    madi_lock(&w->io);
    mpi_adapter_t **p = &w->adapters;
    while (*p != a)
        p = &(*p)->next;
    *p = a->next;
    for (mpi_buffer_t *b; (b = a->first_arrived);) {
        a->first_arrived = b->next;
        free(b);
    }
    if (!w->adapters) {
        /* if the driver has initialised MPI, the last messages of peers still find receives, until the process ends */
        w->is_open = w->lib.ours && !w->error;
        if (!w->is_open && mpi_world_works(w))
            slots_cancel(w);
        world_free(w);
    }
    a->world = NULL;
    madi_unlock(&w->io);
    madi_static_mutex_unlock(&world_mutex);
}
