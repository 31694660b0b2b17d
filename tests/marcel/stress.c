/* SPDX-License-Identifier: BSD-3-Clause */
/* Nothing lost, nothing stuck: stress [--seed N] [--seconds N] [--threads N] [--limit N] [--lose N] [--stick]
 *
 * Rounds of some hundred milliseconds.  In each, threads of both kinds make a random graph: they create others, join them
 * in all ways, cancel them, and use the same mutexes, rwlocks, semaphores, queues (a condition each), barriers, completions
 * and onces in all forms, with deadlines that are near, past, or far; one more cancels whom it meets.  All that is taken is
 * given back, by handlers if need be, so a wait without a deadline must come to its end; when nobody gets on for `limit`
 * seconds, a watchdog says who waits for what, and aborts.  At the end of a round the books must be right: every count,
 * token and item is there, every pass of a barrier had its threads, each thread ended as it was asked to.
 *
 * --lose N: leave out the N-th return of a token; --stick: one waits for what never comes.  Both must be found out. */
#include <errno.h>
#include <marcel.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MUTEXES = 6, RWLOCKS = 3, SEMS = 3, QUEUES = 3, ITEMS = 4, BARRIERS = 2, CHILDREN = 6, NODES = 512, PLAIN = 6 };

/* ---- One thread --------------------------------------------------------------------------------------------------- */

typedef struct node {
    int slot;
    bool plain, wanted_off;
    unsigned depth, steps;
    uint64_t random;
    marcel_t thread;
    pthread_t pthread;
    marcel_completion_t known, gone;
    struct node *parent, *children[CHILDREN];
    int n_children;
    _Atomic(const char *) doing; /* what it waits for; NULL: nothing */
    _Atomic(int) object;
    _Atomic(bool) asked;         /* to end */
    _Atomic(bool) named;         /* `thread` is set */
} node_t;

static node_t *nodes[NODES]; /* those that have begun, until they end */
static int n_nodes, n_plain;
static pthread_mutex_t nodes_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(uint64_t) progress;
static _Atomic(bool) over;
static uint64_t seed;
static int max_threads = 60, limit_s = 30;
static _Atomic(long) lose;
static _Atomic(int) failures;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *format, ...)
{
    va_list args;
    if (atomic_fetch_add(&failures, 1) >= 20)
        return;
    va_start(args, format);
    flockfile(stdout);
    printf("stress: seed %llu: ", (unsigned long long)seed);
    vprintf(format, args);
    putchar('\n');
    funlockfile(stdout);
    va_end(args);
}

static unsigned draw(node_t *me, unsigned below)
{
    me->random ^= me->random << 13;
    me->random ^= me->random >> 7;
    me->random ^= me->random << 17;
    return (unsigned)(me->random >> 33) % below;
}

static void begin(node_t *me, const char *doing, int object)
{
    atomic_store_explicit(&me->object, object, memory_order_relaxed);
    atomic_store_explicit(&me->doing, doing, memory_order_relaxed);
}

static void end(node_t *me)
{
    atomic_store_explicit(&me->doing, NULL, memory_order_relaxed);
    atomic_fetch_add_explicit(&progress, 1, memory_order_relaxed);
}

/* ---- The watchdog --------------------------------------------------------------------------------------------------- */

static void print_all(void)
{
    printf("stress: stuck for %d s; seed %llu\n", limit_s, (unsigned long long)seed);
    pthread_mutex_lock(&nodes_lock);
    for (int i = 0; i < NODES; i++) {
        const node_t *n = nodes[i];
        const char *doing = n ? atomic_load(&((node_t *)n)->doing) : NULL;
        if (n)
            printf("stress: %s thread %d, child of %d%s: %s %d\n", n->plain ? "plain" : "user-level", i,
                   n->parent ? n->parent->slot : -1, atomic_load(&((node_t *)n)->asked) ? ", asked to end" : "",
                   doing ? doing : "runs, or is ready", doing ? atomic_load(&((node_t *)n)->object) : 0);
    }
    pthread_mutex_unlock(&nodes_lock);
    fflush(stdout);
}

static void *watch(void *arg)
{
    uint64_t last = 0;
    int still = 0;
    while (!atomic_load(&over)) {
        usleep(100000);
        uint64_t now = atomic_load(&progress);
        still = now == last ? still + 1 : 0;
        last = now;
        if (still > 10 * limit_s) {
            print_all();
            abort();
        }
    }
    return arg;
}

/* ---- The objects ---------------------------------------------------------------------------------------------------- */

/* What they protect is no atomic: sanitizers see who does not keep to it. */
static struct {
    marcel_mutex_t mutex;
    int type, inside;
    long count;
    _Atomic(long) told;
} mutexes[MUTEXES];
static struct {
    marcel_rwlock_t rwlock;
    long a, b;
    _Atomic(long) told;
} rwlocks[RWLOCKS];
static struct {
    marcel_sem_t sem;
    int tokens;
    _Atomic(int) out;
} sems[SEMS];
static struct {
    marcel_mutex_t mutex;
    marcel_cond_t cond;
    int items[ITEMS], n, all;
    bool held[ITEMS];
} queues[QUEUES];
static struct {
    marcel_barrier_t barrier;
    int width;
    _Atomic(long) passed, serial;
} barriers[BARRIERS];
static marcel_once_t once;
static _Atomic(int) once_done, once_left;

static void objects_init(node_t *me)
{
    memset(mutexes, 0, sizeof mutexes);
    memset(rwlocks, 0, sizeof rwlocks);
    memset(queues, 0, sizeof queues);
    memset(barriers, 0, sizeof barriers);
    for (int i = 0; i < MUTEXES; i++) {
        marcel_mutexattr_t attr;
        marcel_mutexattr_init(&attr);
        mutexes[i].type = i % 3;
        marcel_mutexattr_settype(&attr, mutexes[i].type);
        marcel_mutex_init(&mutexes[i].mutex, &attr);
    }
    for (int i = 0; i < RWLOCKS; i++)
        marcel_rwlock_init(&rwlocks[i].rwlock, NULL);
    for (int i = 0; i < SEMS; i++) {
        sems[i].tokens = 1 + (int)draw(me, 3);
        atomic_store(&sems[i].out, 0);
        marcel_sem_init(&sems[i].sem, 0, (unsigned)sems[i].tokens);
    }
    for (int i = 0; i < QUEUES; i++) {
        marcel_mutex_init(&queues[i].mutex, NULL);
        marcel_cond_init(&queues[i].cond, NULL);
        queues[i].all = 1 + (int)draw(me, ITEMS);
        for (int k = 0; k < queues[i].all; k++)
            queues[i].items[queues[i].n++] = k;
    }
    for (int i = 0; i < BARRIERS; i++) {
        barriers[i].width = 2 + (int)draw(me, 3);
        marcel_barrier_init(&barriers[i].barrier, NULL, (unsigned)barriers[i].width);
    }
    once = (marcel_once_t)MARCEL_ONCE_INIT;
    once_done = once_left = 0;
}

static void objects_check(void)
{
    for (int i = 0; i < MUTEXES; i++) {
        if (mutexes[i].count != atomic_load(&mutexes[i].told))
            fail("mutex %d: counted %ld, not %ld", i, mutexes[i].count, atomic_load(&mutexes[i].told));
        if (marcel_mutex_destroy(&mutexes[i].mutex))
            fail("mutex %d is locked at the end", i);
    }
    for (int i = 0; i < RWLOCKS; i++) {
        if (rwlocks[i].a != atomic_load(&rwlocks[i].told))
            fail("rwlock %d: counted %ld, not %ld", i, rwlocks[i].a, atomic_load(&rwlocks[i].told));
        if (marcel_rwlock_destroy(&rwlocks[i].rwlock))
            fail("rwlock %d is locked at the end", i);
    }
    for (int i = 0; i < SEMS; i++) {
        int value = -1;
        marcel_sem_getvalue(&sems[i].sem, &value);
        if (value != sems[i].tokens)
            fail("semaphore %d: %d tokens at the end, not %d", i, value, sems[i].tokens);
        if (marcel_sem_destroy(&sems[i].sem))
            fail("somebody waits for semaphore %d at the end", i);
    }
    for (int i = 0; i < QUEUES; i++) {
        if (queues[i].n != queues[i].all)
            fail("queue %d: %d items at the end, not %d", i, queues[i].n, queues[i].all);
        if (marcel_cond_destroy(&queues[i].cond) || marcel_mutex_destroy(&queues[i].mutex))
            fail("somebody waits for queue %d at the end", i);
    }
    for (int i = 0; i < BARRIERS; i++) {
        if (atomic_load(&barriers[i].passed) != atomic_load(&barriers[i].serial) * barriers[i].width)
            fail("barrier %d of %d: %ld came through in %ld passes", i, barriers[i].width, atomic_load(&barriers[i].passed),
                 atomic_load(&barriers[i].serial));
        if (marcel_barrier_destroy(&barriers[i].barrier))
            fail("somebody waits at barrier %d at the end", i);
    }
    if (once_done > 1)
        fail("once ran %d times", once_done);
}

/* ---- Forms of a wait -------------------------------------------------------------------------------------------------- */

typedef enum form { FOREVER, TRY, TIMED, CLOCK, FORMS } form_t;

/* For a form with a deadline: mostly within a fraction of a millisecond, sometimes over already, sometimes far. */
static struct timespec deadline(node_t *me, form_t form)
{
    struct timespec t;
    static const long spans[] = {-1000000, 0, 2000, 20000, 100000, 500000, 2000000, 20000000};
    long ns = spans[draw(me, sizeof spans / sizeof *spans)];
    clock_gettime(form == TIMED ? CLOCK_REALTIME : CLOCK_MONOTONIC, &t);
    ns += t.tv_nsec + (ns > 0 ? (long)draw(me, (unsigned)ns) : 0);
    t.tv_sec += ns / 1000000000 - (ns < 0);
    t.tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
    return t;
}

/* It was not had: was that right? */
static bool had(const char *what, int rc, form_t form)
{
    if (rc && !(form == TRY && (rc == EBUSY || rc == EAGAIN)) && !(form > TRY && rc == ETIMEDOUT))
        fail("%s gave %s in form %d", what, strerror(rc), form);
    return rc == 0;
}

static void stay(node_t *me)
{
    for (unsigned n = draw(me, 4); n > 1; n--)
        marcel_yield();
}

static void nap(node_t *me)
{
    struct timespec t = {0, (long)draw(me, 100000)};
    begin(me, "sleeps", 0);
    marcel_nanosleep(&t, NULL);
    end(me);
}

/* ---- What threads do --------------------------------------------------------------------------------------------------- */

static void mutex_give(void *arg)
{
    int i = (int)(intptr_t)arg;
    if (--mutexes[i].inside)
        fail("mutex %d: somebody else is inside", i);
    if (marcel_mutex_unlock(&mutexes[i].mutex))
        fail("mutex %d cannot be unlocked", i);
}

static void use_mutex(node_t *me, int i, bool nested)
{
    form_t form = draw(me, FORMS);
    struct timespec t = deadline(me, form);
    marcel_mutex_t *m = &mutexes[i].mutex;
    begin(me, "mutex", i);
    int rc = form == FOREVER ? marcel_mutex_lock(m) : form == TRY ? marcel_mutex_trylock(m)
             : form == TIMED ? marcel_mutex_timedlock(m, &t) : marcel_mutex_clocklock(m, CLOCK_MONOTONIC, &t);
    end(me);
    if (!had("a mutex", rc, form))
        return;
    if (mutexes[i].inside++)
        fail("mutex %d: two inside", i);
    marcel_cleanup_push(mutex_give, (void *)(intptr_t)i);
    mutexes[i].count++;
    atomic_fetch_add(&mutexes[i].told, 1);
    if (mutexes[i].type == MARCEL_MUTEX_RECURSIVE && (marcel_mutex_lock(m) || marcel_mutex_unlock(m)))
        fail("mutex %d: not recursive", i);
    if (mutexes[i].type == MARCEL_MUTEX_ERRORCHECK && marcel_mutex_timedlock(m, &t) != EDEADLK)
        fail("mutex %d: unchecked", i);
    stay(me);
    if (!nested && i + 1 < MUTEXES && draw(me, 3) == 0) /* upwards only: no cycles */
        use_mutex(me, i + 1 + (int)draw(me, (unsigned)(MUTEXES - i - 1)), true);
    else if (draw(me, 10) == 0)
        nap(me); /* and be cancelled here */
    marcel_cleanup_pop(1);
}

static void use_rwlock(node_t *me, int i)
{
    form_t form = draw(me, FORMS);
    struct timespec t = deadline(me, form);
    marcel_rwlock_t *l = &rwlocks[i].rwlock;
    bool write = draw(me, 3) == 0;
    int rc;
    begin(me, write ? "rwlock, to write," : "rwlock, to read,", i);
    if (write)
        rc = form == FOREVER ? marcel_rwlock_wrlock(l) : form == TRY ? marcel_rwlock_trywrlock(l)
             : form == TIMED ? marcel_rwlock_timedwrlock(l, &t) : marcel_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &t);
    else
        rc = form == FOREVER ? marcel_rwlock_rdlock(l) : form == TRY ? marcel_rwlock_tryrdlock(l)
             : form == TIMED ? marcel_rwlock_timedrdlock(l, &t) : marcel_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &t);
    end(me);
    if (!had("a rwlock", rc, form))
        return;
    if (rwlocks[i].a != rwlocks[i].b)
        fail("rwlock %d: %s meets a writer", i, write ? "a writer" : "a reader");
    if (write) {
        rwlocks[i].a++;
        stay(me);
        rwlocks[i].b++;
        atomic_fetch_add(&rwlocks[i].told, 1);
    } else {
        long before = rwlocks[i].a;
        stay(me);
        if (draw(me, 4) == 0) {
            begin(me, "rwlock, to read again,", i);
            if (marcel_rwlock_rdlock(l) || marcel_rwlock_unlock(l))
                fail("rwlock %d: cannot be read twice", i);
            end(me);
        }
        if (rwlocks[i].a != before || rwlocks[i].b != before)
            fail("rwlock %d: written under a reader", i);
    }
    if (marcel_rwlock_unlock(l))
        fail("rwlock %d cannot be unlocked", i);
}

static void sem_give(void *arg)
{
    int i = (int)(intptr_t)arg;
    atomic_fetch_sub(&sems[i].out, 1);
    if (atomic_load(&lose) > 0 && atomic_fetch_sub(&lose, 1) == 1)
        return;
    if (marcel_sem_post(&sems[i].sem))
        fail("semaphore %d cannot be posted", i);
}

static void use_sem(node_t *me, int i)
{
    form_t form = draw(me, FORMS);
    struct timespec t = deadline(me, form);
    marcel_sem_t *s = &sems[i].sem;
    begin(me, "semaphore", i);
    int rc = form == FOREVER ? marcel_sem_wait(s) : form == TRY ? marcel_sem_trywait(s)
             : form == TIMED ? marcel_sem_timedwait(s, &t) : marcel_sem_clockwait(s, CLOCK_MONOTONIC, &t);
    end(me);
    if (!had("a semaphore", rc, form))
        return;
    marcel_cleanup_push(sem_give, (void *)(intptr_t)i);
    if (atomic_fetch_add(&sems[i].out, 1) >= sems[i].tokens)
        fail("semaphore %d: more than %d tokens are out", i, sems[i].tokens);
    stay(me);
    if (draw(me, 3) == 0)
        use_mutex(me, (int)draw(me, MUTEXES), true);
    else if (draw(me, 8) == 0)
        nap(me);
    marcel_cleanup_pop(1);
}

static void queue_unlock(void *arg)
{
    if (marcel_mutex_unlock(&queues[(intptr_t)arg].mutex))
        fail("queue %d cannot be unlocked", (int)(intptr_t)arg);
}

typedef struct taken {
    int queue, item;
    bool many;
} taken_t;

static void item_give(void *arg)
{
    taken_t *taken = arg;
    int i = taken->queue;
    marcel_mutex_lock(&queues[i].mutex);
    if (!queues[i].held[taken->item])
        fail("queue %d: item %d was not out", i, taken->item);
    queues[i].held[taken->item] = false;
    queues[i].items[queues[i].n++] = taken->item;
    if (taken->many)
        marcel_cond_broadcast(&queues[i].cond);
    else
        marcel_cond_signal(&queues[i].cond);
    marcel_mutex_unlock(&queues[i].mutex);
}

static void use_queue(node_t *me, int i)
{
    form_t form = draw(me, FORMS);
    struct timespec t = deadline(me, form);
    taken_t taken = {i, -1, draw(me, 4) == 0};
    int rc = 0;
    begin(me, "mutex of queue", i);
    marcel_mutex_lock(&queues[i].mutex);
    begin(me, "queue", i);
    marcel_cleanup_push(queue_unlock, (void *)(intptr_t)i);
    while (!queues[i].n && !rc)
        rc = form == FOREVER ? marcel_cond_wait(&queues[i].cond, &queues[i].mutex) : form == TRY ? EBUSY
             : form == TIMED ? marcel_cond_timedwait(&queues[i].cond, &queues[i].mutex, &t)
             : marcel_cond_clockwait(&queues[i].cond, &queues[i].mutex, CLOCK_MONOTONIC, &t);
    if (queues[i].n) {
        taken.item = queues[i].items[--queues[i].n];
        if (queues[i].held[taken.item])
            fail("queue %d: item %d is out twice", i, taken.item);
        queues[i].held[taken.item] = true;
        rc = 0;
    }
    marcel_cleanup_pop(1);
    end(me);
    if (!had("a condition", rc, form))
        return;
    marcel_cleanup_push(item_give, &taken);
    stay(me);
    if (draw(me, 8) == 0)
        nap(me);
    marcel_cleanup_pop(1);
}

static void use_barrier(node_t *me, int i)
{
    form_t form = TIMED + draw(me, 2);
    struct timespec t = deadline(me, form);
    begin(me, "barrier", i);
    int rc = form == TIMED ? marcel_barrier_timedwait(&barriers[i].barrier, &t)
             : marcel_barrier_clockwait(&barriers[i].barrier, CLOCK_MONOTONIC, &t);
    end(me);
    if (rc == MARCEL_BARRIER_SERIAL_THREAD)
        atomic_fetch_add(&barriers[i].serial, 1);
    if (rc == 0 || rc == MARCEL_BARRIER_SERIAL_THREAD)
        atomic_fetch_add(&barriers[i].passed, 1);
    else
        had("a barrier", rc, form);
}

static void run_once(void)
{
    if (atomic_fetch_add(&once_left, 1) < 2)
        marcel_testcancel();
    marcel_yield();
    atomic_fetch_add(&once_done, 1);
}

static void use_once(node_t *me)
{
    begin(me, "once", 0);
    marcel_once(&once, run_once);
    end(me);
    if (once_done != 1)
        fail("once has run %d times", once_done);
}

/* ---- Completions on a stack --------------------------------------------------------------------------------------------- */

static void *complete(void *arg)
{
    int old;
    marcel_setcancelstate(MARCEL_CANCEL_DISABLE, &old);
    marcel_yield();
    marcel_completion_complete(arg);
    return arg;
}

static void join_helper(void *arg)
{
    void *result = NULL;
    marcel_t helper = arg;
    if (marcel_join(helper, &result) || !result)
        fail("a helper did not end well");
}

static void use_completion(node_t *me)
{
    form_t form = draw(me, FORMS);
    marcel_completion_t done;
    marcel_t helper;
    int rc;
    marcel_completion_init(&done);
    if (marcel_create(&helper, NULL, complete, &done))
        return;
    marcel_cleanup_push(join_helper, helper);
    begin(me, "completion", 0);
    do {
        struct timespec t = deadline(me, form);
        rc = form == FOREVER ? marcel_completion_wait(&done) : form == TRY ? marcel_completion_trywait(&done)
             : form == TIMED ? marcel_completion_timedwait(&done, &t)
             : marcel_completion_clockwait(&done, CLOCK_MONOTONIC, &t);
        if (!had("a completion", rc, form))
            marcel_yield();
    } while (rc);
    end(me);
    if (marcel_completion_destroy(&done))
        fail("somebody waits for a completion");
    memset(&done, 0xff, sizeof done);
    begin(me, "join of a helper", 0);
    marcel_cleanup_pop(1);
    end(me);
}

/* ---- The graph ----------------------------------------------------------------------------------------------------------- */

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

/* It cannot be cancelled meanwhile: it could be in either state. */
static void create_child(node_t *me, bool plain)
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
            begin(me, "the start of a plain thread", 0);
            marcel_completion_wait(&node->known);
            end(me);
        }
    }
    marcel_setcancelstate(old, NULL);
}

/* A plain one may be named only while it is in the list. */
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
    begin(me, "the end of thread", child->slot);
    if (child->plain) { /* first the event: its worker is not to sleep in pthread_join */
        marcel_completion_t *gone = &child->gone;
        rc = form == FOREVER ? marcel_completion_wait(gone) : form == TRY ? marcel_completion_trywait(gone)
             : form == TIMED ? marcel_completion_timedwait(gone, &t) : marcel_completion_clockwait(gone, CLOCK_MONOTONIC, &t);
        if (!rc)
            rc = pthread_join(child->pthread, result);
    } else {
        marcel_t thread = child->thread;
        rc = form == FOREVER ? marcel_join(thread, result) : form == TRY ? marcel_tryjoin(thread, result)
             : form == TIMED ? marcel_timedjoin(thread, result, &t)
             : marcel_clockjoin(thread, result, CLOCK_MONOTONIC, &t);
    }
    end(me);
    return rc;
}

static void join_child(node_t *me, int k, form_t form)
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

/* The last thing a thread does, in every case: nobody is left behind. */
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

/* ---- Rounds ---------------------------------------------------------------------------------------------------------------- */

static _Atomic(bool) round_over;

/* Cancels whom it meets, plain and user-level, from outside. */
static void *hunt(void *arg)
{
    node_t *me = arg;
    while (!atomic_load(&round_over)) {
        pthread_mutex_lock(&nodes_lock);
        node_t *node = nodes[draw(me, (unsigned)max_threads)];
        if (node && atomic_load(&node->named)) {
            atomic_store(&node->asked, true);
            marcel_cancel(node->thread);
        }
        pthread_mutex_unlock(&nodes_lock);
        usleep(200 + draw(me, 2000));
    }
    return NULL;
}

static void one_round(uint64_t number, bool stick)
{
    node_t *root = calloc(1, sizeof *root), hunter = {.slot = -1};
    pthread_t hunting;
    static marcel_completion_t never;
    root->random = seed + number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    root->slot = -1;
    draw(root, 2), draw(root, 2);
    hunter.random = root->random + 99;
    objects_init(root);
    atomic_store(&round_over, false);
    if (pthread_create(&hunting, NULL, hunt, &hunter))
        abort();
    for (int i = 0; i < CHILDREN; i++)
        create_child(root, i == 1);
    if (stick) {
        root->slot = NODES - 1;
        nodes[root->slot] = root;
        begin(root, "what never comes", 0);
        marcel_completion_wait(&never);
    }
    while (root->n_children)
        join_child(root, root->n_children - 1, FOREVER);
    atomic_store(&round_over, true);
    pthread_join(hunting, NULL);
    objects_check();
    free(root);
}

static long number_of(const char *text)
{
    char *rest;
    long n = strtol(text, &rest, 0);
    if (*rest || n < 0) {
        fprintf(stderr, "stress: not a number: %s\n", text);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    long seconds = 5;
    bool stick = false;
    uint64_t rounds = 0;
    pthread_t watchdog;
    struct timespec start, now;
    seed = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 20;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(option, "--stick"))
            stick = true;
        else if (i++, !strcmp(option, "--seed"))
            seed = (uint64_t)number_of(value);
        else if (!strcmp(option, "--seconds"))
            seconds = number_of(value);
        else if (!strcmp(option, "--threads") && number_of(value) > 0 && number_of(value) < NODES)
            max_threads = (int)number_of(value);
        else if (!strcmp(option, "--limit"))
            limit_s = (int)number_of(value);
        else if (!strcmp(option, "--lose"))
            lose = number_of(value);
        else {
            fprintf(stderr, "usage: stress [--seed N] [--seconds N] [--threads N] [--limit N] [--lose N] [--stick]\n");
            return 2;
        }
    }
    printf("stress: seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (pthread_create(&watchdog, NULL, watch, NULL))
        return 1;
    do {
        one_round(rounds++, stick);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (!failures && now.tv_sec - start.tv_sec < seconds);
    if (marcel_fini())
        fail("threads are left at the end");
    atomic_store(&over, true);
    pthread_join(watchdog, NULL);
    if (!failures)
        printf("stress: good: %llu rounds, %llu operations\n", (unsigned long long)rounds,
               (unsigned long long)atomic_load(&progress));
    return failures != 0;
}
