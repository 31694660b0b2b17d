/* SPDX-License-Identifier: BSD-3-Clause */
/* The graph: threads that create, cancel and join others. */
#include "stress.h"

#include <stdlib.h>
#include <string.h>

int max_threads = 60;
static int n_nodes, n_plain;

static void *node_main(void *arg);

static bool enlist(node_t *node)
{
    bool room;
    pthread_mutex_lock(&nodes_lock);
    room = n_nodes < max_threads && (!node->plain || n_plain < PLAIN);
    for (int i = 0; room && i < NODES; i++)
        if (!nodes[i]) {
            node->slot = i;
            nodes[i] = node;
            break;
        }
    n_nodes += room;
    n_plain += room && node->plain;
    pthread_mutex_unlock(&nodes_lock);
    return room;
}

static void delist(node_t *node)
{
    pthread_mutex_lock(&nodes_lock);
    nodes[node->slot] = NULL;
    n_nodes--;
    n_plain -= node->plain;
    pthread_mutex_unlock(&nodes_lock);
}

static node_t *node_new(node_t *parent, bool plain, unsigned depth)
{
    node_t *node = calloc(1, sizeof *node);
    if (!node)
        abort();
    *node = (node_t){.plain = plain, .parent = parent, .depth = depth};
    node->steps = 5 + draw(parent, 40);
    node->random = ((uint64_t)draw(parent, 1u << 30) << 30 | draw(parent, 1u << 30)) + 1;
    marcel_completion_init(&node->known);
    marcel_completion_init(&node->gone);
    return node;
}

/* Disable cancellation here: after a cancel the thread could be in either state. */
void create_child(node_t *me, bool plain)
{
    node_t *node;
    int old, rc;
    if (me->n_children == CHILDREN)
        return;
    node = node_new(me, plain, me->depth + 1);
    if (!enlist(node)) {
        free(node);
        return;
    }
    marcel_setcancelstate(MARCEL_CANCEL_DISABLE, &old);
    rc = plain ? pthread_create(&node->pthread, NULL, node_main, node) : marcel_create(&node->thread, NULL, node_main, node);
    if (rc) {
        fail("cannot create a thread: %s", strerror(rc));
        delist(node);
        free(node);
    } else {
        me->children[me->n_children++] = node;
        if (!plain) {
            atomic_store(&node->named, true);
        } else {
            begin_wait(me, "the start of a plain thread", 0);
            marcel_completion_wait(&node->known);
            end_wait(me);
        }
    }
    marcel_setcancelstate(old, NULL);
}

/* Cancel a thread.  A plain pthread may be named only while it is in the list. */
static void cancel(node_t *node)
{
    if (node->plain)
        pthread_mutex_lock(&nodes_lock);
    if (!node->plain || nodes[node->slot] == node) {
        atomic_store(&node->asked, true);
        if (marcel_cancel(node->thread))
            fail("cannot cancel");
    }
    if (node->plain)
        pthread_mutex_unlock(&nodes_lock);
}

static int join_by(node_t *me, node_t *child, form_t form, void **result)
{
    struct timespec t = deadline(me, form);
    int rc;
    begin_wait(me, "the end of thread", child->slot);
    if (child->plain) { /* wait for the event first, because the worker must not sleep in pthread_join */
        marcel_completion_t *gone = &child->gone;
        rc = form == FOREVER ? marcel_completion_wait(gone)
             : form == TRY   ? marcel_completion_trywait(gone)
             : form == TIMED ? marcel_completion_timedwait(gone, &t)
                             : marcel_completion_clockwait(gone, CLOCK_MONOTONIC, &t);
        if (!rc)
            rc = pthread_join(child->pthread, result);
    } else {
        marcel_t thread = child->thread;
        rc = form == FOREVER ? marcel_join(thread, result)
             : form == TRY   ? marcel_tryjoin(thread, result)
             : form == TIMED ? marcel_timedjoin(thread, result, &t)
                             : marcel_clockjoin(thread, result, CLOCK_MONOTONIC, &t);
    }
    end_wait(me);
    return rc;
}

void join_child(node_t *me, int k, form_t form)
{
    node_t *child = me->children[k];
    void *result = NULL;
    if (!had("a join", join_by(me, child, form, &result), form))
        return;
    if (result != child && (result != MARCEL_CANCELED || !atomic_load(&child->asked)))
        fail("a thread ended with %p, asked to end: %d", result, atomic_load(&child->asked));
    if (child->plain)
        marcel_completion_destroy(&child->gone);
    me->children[k] = me->children[--me->n_children];
    free(child);
}

/* The last action of a thread in every case: join all children that are left. */
static void leave(void *arg)
{
    node_t *me = arg;
    int old;
    marcel_setcancelstate(MARCEL_CANCEL_DISABLE, &old);
    while (me->n_children)
        join_child(me, (int)draw(me, (unsigned)me->n_children), draw(me, 2) ? FOREVER : CLOCK);
    delist(me);
    if (me->plain)
        marcel_completion_complete(&me->gone);
}

static void step(node_t *me)
{
    int old;
    switch (draw(me, 16)) {
    case 0:
    case 1: use_mutex(me, (int)draw(me, MUTEXES), false); break;
    case 2:
    case 3: use_rwlock(me, (int)draw(me, RWLOCKS)); break;
    case 4:
    case 5: use_sem(me, (int)draw(me, SEMS)); break;
    case 6:
    case 7: use_queue(me, (int)draw(me, QUEUES)); break;
    case 8: use_barrier(me, (int)draw(me, BARRIERS)); break;
    case 9: use_completion(me); break;
    case 10:
        if (me->depth < 4)
            create_child(me, draw(me, 6) == 0);
        break;
    case 11:
        if (me->n_children)
            join_child(me, (int)draw(me, (unsigned)me->n_children), draw(me, FORMS));
        break;
    case 12:
        if (me->n_children && draw(me, 3) == 0)
            cancel(me->children[draw(me, (unsigned)me->n_children)]);
        break;
    case 13: use_once(me); break;
    case 14:
        me->wanted_off = draw(me, 4) == 0;
        marcel_setcancelstate(me->wanted_off ? MARCEL_CANCEL_DISABLE : MARCEL_CANCEL_ENABLE, &old);
        break;
    default:
        if (me->n_children && !me->children[0]->plain && draw(me, 2))
            marcel_yield_to(me->children[0]->thread);
        else
            nap(me);
    }
}

static void *node_main(void *arg)
{
    node_t *me = arg;
    marcel_cleanup_push(leave, me);
    if (me->plain) {
        me->thread = marcel_self();
        atomic_store(&me->named, true);
        marcel_completion_complete(&me->known);
    }
    while (me->steps-- > 0)
        step(me);
    marcel_cleanup_pop(1);
    return me;
}
