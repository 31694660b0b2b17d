/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the parts of stress share, by file. */
#ifndef MARCEL_STRESS_H
#define MARCEL_STRESS_H

#include <errno.h>
#include <marcel.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MUTEXES = 6, RWLOCKS = 3, SEMS = 3, QUEUES = 3, ITEMS = 4, BARRIERS = 2, CHILDREN = 6, NODES = 512, PLAIN = 6 };

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
    _Atomic(const char *) doing; /* kind of object for which the thread waits; NULL: it does not wait */
    _Atomic(int) object;
    _Atomic(bool) asked; /* true: the thread was asked to end by a cancel */
    _Atomic(bool) named; /* true: `thread` is set */
} node_t;

/* stress_watch.c */
extern node_t *nodes[NODES]; /* threads that have begun and not ended */
extern pthread_mutex_t nodes_lock;
extern _Atomic(uint64_t) progress;
extern uint64_t seed;
extern int limit_s;
extern _Atomic(int) failures;
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
unsigned draw(node_t *me, unsigned below);
/* Call these around a wait, with the kind and number of the object. */
void begin_wait(node_t *me, const char *doing, int object);
void end_wait(node_t *me);
/* For a plain pthread: wait for the event for at most `us` microseconds.  True if the event has happened. */
bool has_come(sem_t *event, long us);
/* Thread function of a plain pthread: watch until `over`, a semaphore, is posted. */
void *watch(void *over);

/* stress_objects.c */
/* The protected data are not atomic: sanitizers find threads that break the rules. */
extern struct a_mutex {
    marcel_mutex_t mutex;
    int type, inside;
    long count;
    _Atomic(long) counted;
} mutexes[MUTEXES];
extern struct an_rwlock {
    marcel_rwlock_t rwlock;
    long a, b;
    _Atomic(long) counted;
} rwlocks[RWLOCKS];
extern struct a_sem {
    marcel_sem_t sem;
    int tokens;
    _Atomic(int) out;
} sems[SEMS];
extern struct a_queue {
    marcel_mutex_t mutex;
    marcel_cond_t cond;
    int items[ITEMS], n, all;
    bool held[ITEMS];
} queues[QUEUES];
extern struct a_barrier {
    marcel_barrier_t barrier;
    int width;
    _Atomic(long) passed, serial;
} barriers[BARRIERS];
extern marcel_once_t once;
extern _Atomic(int) once_done, once_left;
void objects_init(node_t *me);
void objects_check(void);

/* stress_use.c */
typedef enum form { FOREVER, TRY, TIMED, CLOCK, FORMS } form_t;

extern _Atomic(long) lose;
/* Return a deadline for this form: mostly a fraction of a millisecond ahead, sometimes past, sometimes far. */
struct timespec deadline(node_t *me, form_t form);
/* True if the object was obtained, or if the failure is a legal one. */
bool had(const char *what, int rc, form_t form);
void nap(node_t *me);
void use_mutex(node_t *me, int i, bool nested);
void use_rwlock(node_t *me, int i);
void use_sem(node_t *me, int i);
void use_queue(node_t *me, int i);
void use_barrier(node_t *me, int i);
void use_once(node_t *me);
void use_completion(node_t *me);

/* stress_graph.c */
extern int max_threads;
void create_child(node_t *me, bool plain);
void join_child(node_t *me, int k, form_t form);

#endif
