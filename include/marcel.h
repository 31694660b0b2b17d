/* SPDX-License-Identifier: BSD-3-Clause */
/* Marcel: user-level threads.
 *
 * Many threads run on few kernel threads (workers).  A thread releases its worker only when it waits, yields or ends:
 * there is no preemption.  Names and meanings are those of POSIX threads, with the prefix marcel_; this header states
 * the differences.
 *
 * - Calls return 0 or an error number (EINVAL, ...) and do not set errno.  The threads of a worker share errno: a thread
 *   must read it before its next call that may switch.
 * - "May switch": other threads may run before the call returns.  All other calls never switch.  Any thread may make any
 *   call unless stated otherwise, plain pthreads too: where a user-level thread would switch, a pthread sleeps.
 * - Deadlines (until) are absolute times.  Calls named clock... take CLOCK_MONOTONIC or CLOCK_REALTIME in clock; those
 *   named timed... use CLOCK_REALTIME.  Steps of the real-time clock during a wait are ignored.  After the deadline these
 *   calls return ETIMEDOUT, and EINVAL for an invalid time or clock; a call that can succeed at once does, even past its
 *   deadline.
 * - A created thread is a seed, which has no stack until it first runs.  Joining a seed runs it at once.
 * - A started thread stays on its worker, unless it was created migratable.
 * - The process ends with its last thread, even if the initial thread ended earlier by marcel_exit or pthread_exit.
 * - After fork in a user-level thread, the child has only the worker of that thread, with the worker's other threads; the
 *   child ends by exit or exec.  Workers block signals; the worker of such a child does not.  After fork in a plain
 *   pthread, the child has no workers and cannot start any: create threads in the parent, or execute a program.
 */
#ifndef MARCEL_H
#define MARCEL_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

struct iovec;

#ifdef __cplusplus
extern "C" {
#endif

#define MARCEL_VERSION_MAJOR 0
#define MARCEL_VERSION_MINOR 1
#define MARCEL_VERSION_PATCH 0

/* ---- The library ---------------------------------------------------------------------------------------------- */

/* Start the workers: one per core that the process may use (knob MAD_WORKERS).  Optional, since the first marcel_create
 * starts them.  While the workers run, a call only checks whether a C++ run time has been loaded since (marcel(7)).
 * Errors: ENOMEM, EAGAIN (no kernel thread), EINVAL (an invalid knob, which is logged), ENOTSUP (in the child of a fork
 * by a plain pthread, if workers ran in the parent). */
int marcel_init(void);

/* End the workers; the library can be started again.  Only from a plain pthread.  Errors: EBUSY (a thread has not
 * ended), EPERM (from a user-level thread), ENOTSUP (as for marcel_init). */
int marcel_fini(void);

/* Set a knob (marcel(7)) before it is first used, without a change of the environment: MAD_WORKERS, MAD_STACK_SIZE and
 * others.  name: the name of the variable.  value: the value as in the variable, which is copied; NULL restores the
 * default.  A variable that the user has set takes precedence.  Knobs of libmadeleine are accepted, and have no effect
 * here: mad_option_set sets those of both libraries.  Errors: EINVAL (no knob of that name, or the value; logged), EBUSY
 * (the knob is in use), ENOMEM. */
int marcel_option_set(const char *name, const char *value);

/* Store the version of the library that the program runs with, where the pointers are not NULL. */
void marcel_version(int *major, int *minor, int *patch);

/* Number of running workers; 0 before the start. */
int marcel_worker_count(void);

/* ---- Attributes ----------------------------------------------------------------------------------------------- */

#define MARCEL_NAME_MAX 32 /* longest thread name in bytes, including the final zero */
#define MARCEL_PRIORITY_MIN 0
#define MARCEL_PRIORITY_MAX 7
#define MARCEL_PRIORITY_DEFAULT 3
#define MARCEL_CREATE_JOINABLE 0
#define MARCEL_CREATE_DETACHED 1

typedef struct marcel_attr {
    long marcel_inside[12]; /* private to the library */
} marcel_attr_t;

/* Fill attr with the defaults.  Release it with marcel_attr_destroy.  Any number of threads may be created from attr;
 * each copies attr. */
int marcel_attr_init(marcel_attr_t *attr);
int marcel_attr_destroy(marcel_attr_t *attr);

/* Usable stack in bytes.  Stacks lie in slots, whose sizes are powers of two.  The default uses a slot of the size of
 * the knob MAD_STACK_SIZE (64 KiB), less one guard page and the thread's own data.  Errors: EINVAL (0, or above 512
 * MiB). */
int marcel_attr_setstacksize(marcel_attr_t *attr, size_t size);
int marcel_attr_getstacksize(const marcel_attr_t *attr, size_t *size);

/* Scheduling priority.  Of a worker's ready threads, all those of higher priority run before any of lower priority,
 * started or not.  There is no aging: a thread that yields without ever waiting starves those of lower priority.
 * Errors: EINVAL. */
int marcel_attr_setpriority(marcel_attr_t *attr, int priority);
int marcel_attr_getpriority(const marcel_attr_t *attr, int *priority);

/* Worker that runs the thread, from 0; the thread stays there. -1 (default): any worker.  Errors: EINVAL (below -1;
 * from marcel_create: no such worker). */
int marcel_attr_setplacement(marcel_attr_t *attr, int worker);
int marcel_attr_getplacement(const marcel_attr_t *attr, int *worker);

/* MARCEL_CREATE_JOINABLE (default) or MARCEL_CREATE_DETACHED.  Errors: EINVAL. */
int marcel_attr_setdetachstate(marcel_attr_t *attr, int state);
int marcel_attr_getdetachstate(const marcel_attr_t *attr, int *state);

/* 1 if the thread may move to another worker after it has started.  Default 0, because compilers keep addresses of
 * thread-local variables (errno is one) across calls. */
int marcel_attr_setmigratable(marcel_attr_t *attr, int migratable);
int marcel_attr_getmigratable(const marcel_attr_t *attr, int *migratable);

/* 1 if the thread has its own floating-point control words (rounding, exceptions), invisible to other threads.  Default
 * 0. */
int marcel_attr_setkeepfp(marcel_attr_t *attr, int keep);
int marcel_attr_getkeepfp(const marcel_attr_t *attr, int *keep);

/* Name of the thread, cut to MARCEL_NAME_MAX - 1 bytes.  The getter needs room for MARCEL_NAME_MAX bytes, and returns
 * an empty name if none was set. */
int marcel_attr_setname(marcel_attr_t *attr, const char *name);
int marcel_attr_getname(const marcel_attr_t *attr, char name[MARCEL_NAME_MAX]);

/* ---- Threads -------------------------------------------------------------------------------------------------- */

/* Handle of a thread; valid until the thread is joined or, if detached, ends. */
typedef struct marcel_thread *marcel_t;

/* Create a thread that runs run(arg). attr NULL: the defaults.  Ownership: the caller ends the thread with marcel_join
 * or marcel_detach.  Errors: EAGAIN (memory), EINVAL (attr: no such worker, or stack too big), and those of
 * marcel_init. */
int marcel_create(marcel_t *thread, const marcel_attr_t *attr, void *(*run)(void *), void *arg);

/* Wait until the thread has ended. *result (unless result is NULL) is what the thread returned or passed to
 * marcel_exit.  May switch.  Only one thread may join a thread.  Errors: EINVAL (detached, being joined by another, or
 * a plain pthread), EDEADLK (the caller itself, or a thread that joins the caller), ESRCH (joined already, or ended
 * detached; unless a new thread has taken over its handle). */
int marcel_join(marcel_t thread, void **result);
/* Like marcel_join, but with a deadline or without waiting.  Unless they return 0, the thread can still be joined.  Errors:
 * as above; tryjoin: EBUSY (the thread has not ended). */
int marcel_timedjoin(marcel_t thread, void **result, const struct timespec *until);
int marcel_clockjoin(marcel_t thread, void **result, int clock, const struct timespec *until);
int marcel_tryjoin(marcel_t thread, void **result);

/* Detach a thread: no thread will join it.  Errors: EINVAL (already detached), ESRCH as above. */
int marcel_detach(marcel_t thread);

/* End the calling thread.  The thread's stack is unwound as by pthread_exit: cleanup handlers (below), C++ destructors
 * and C cleanup attributes (compiled with -fexceptions) run, then the destructors of keys.  A function without an
 * unwind table stops the unwinding, which is logged.  A catch (...) must rethrow, and the call must not leave a
 * noexcept function; otherwise the process aborts.  A plain pthread ends as by pthread_exit.  If it was the initial
 * thread, the process exits with 0 when its last thread has ended. */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void marcel_exit(void *result);

/* Return the calling thread; a plain pthread has a handle too.  Return NULL if there is no memory for that handle. */
marcel_t marcel_self(void);
/* Return non-zero if both handles are of one thread. */
int marcel_equal(marcel_t a, marcel_t b);

/* True if the caller is a user-level thread. */
int marcel_is_thread(void);

/* Worker that runs the caller, from 0; -1 for a plain pthread. */
int marcel_worker_index(void);

/* Let other threads of the same or higher priority run.  May switch.  In a plain pthread: sched_yield. */
int marcel_yield(void);

/* Let the given thread run now, if it is ready on the caller's worker or has not started; otherwise like marcel_yield. */
int marcel_yield_to(marcel_t thread);

/* Sleep for the given time.  May switch. remaining (may be NULL) is set to 0.  Errors: EINVAL. */
int marcel_nanosleep(const struct timespec *time, struct timespec *remaining);

/* Like marcel_nanosleep, but in microseconds and in seconds. */
int marcel_usleep(unsigned long microseconds);
int marcel_sleep(unsigned seconds);

/* Name of a thread that has not ended, for people and tools; sizes as for the attribute.  Errors: EAGAIN (memory). */
int marcel_setname(marcel_t thread, const char *name);
int marcel_getname(marcel_t thread, char name[MARCEL_NAME_MAX]);

/* ---- Cancellation --------------------------------------------------------------------------------------------- */

/* A cancelled thread ends, as by marcel_exit(MARCEL_CANCELED), at its next cancellation point, or at the one where it
 * waits.  Cancellation points are marcel_join and its timed forms, marcel_nanosleep, waits for a condition (the mutex
 * is locked when the handlers run), a semaphore or a completion, and marcel_testcancel.  Locks, barriers and system
 * calls are not cancellation points. */
#ifdef __cplusplus
#define MARCEL_CANCELED (reinterpret_cast<void *>(-1))
#else
#define MARCEL_CANCELED ((void *)-1)
#endif
#define MARCEL_CANCEL_ENABLE 0
#define MARCEL_CANCEL_DISABLE 1

/* Request that a thread end; the thread may end later, or never.  No effect on a thread that has ended.  A plain pthread can
 * be cancelled too; it must then not end by itself before this call returns.  Errors: ESRCH as above. */
int marcel_cancel(marcel_t thread);

/* Set the cancellation state of the calling thread.  While disabled, a request stays pending until cancellation is
 * enabled again. *old (unless old is NULL) is the previous state.  Errors: EINVAL, ENOMEM. */
int marcel_setcancelstate(int state, int *old);

/* End the calling thread here, if it was cancelled. */
void marcel_testcancel(void);

typedef struct marcel_cleanup {
    void (*marcel_run)(void *);
    void *marcel_arg;
    struct marcel_cleanup *marcel_next;
    void *marcel_frame;
} marcel_cleanup_t;

/* Function forms of marcel_cleanup_push and marcel_cleanup_pop, for code without exceptions, or where the two cannot
 * delimit a block. cleanup is borrowed until marcel_cleanup_end.  The handler runs when unwinding has left the function
 * that called marcel_cleanup_begin, after that function's compiler-generated cleanup.  In a plain pthread it runs
 * before the stack is unwound. */
void marcel_cleanup_begin(marcel_cleanup_t *cleanup, void (*run)(void *), void *arg);
void marcel_cleanup_end(marcel_cleanup_t *cleanup, int execute);

/* Between push and pop, run(arg) is called if the thread is cancelled or calls marcel_exit; pop calls it too if execute
 * is not 0.  The two delimit one block, which is left only through pop or by the thread's end.  In C++, and in C with
 * -fexceptions, an exception may leave it as well, and runs the handler.  Handlers and destructors of one function then
 * run in reverse order of their beginnings. */
/* clang-format off */
#if !defined(__EXCEPTIONS)
#define marcel_cleanup_push(run, arg) \
    do { \
        marcel_cleanup_t marcel_cleanup_here; \
        marcel_cleanup_begin(&marcel_cleanup_here, (run), (arg))
#define marcel_cleanup_pop(execute) \
        marcel_cleanup_end(&marcel_cleanup_here, (execute)); \
    } while (0)
/* clang-format on */
#else
typedef struct marcel_handler {
    void (*marcel_run)(void *);
    void *marcel_arg;
    int marcel_execute;
} marcel_handler_t;
static __inline__ void marcel_handler_end(marcel_handler_t *handler)
{
    if (handler->marcel_execute)
        handler->marcel_run(handler->marcel_arg);
}
/* clang-format off */
#define marcel_cleanup_push(run, arg) \
    do { \
        marcel_handler_t marcel_cleanup_here __attribute__((__cleanup__(marcel_handler_end))) = {(run), (arg), 1}
#define marcel_cleanup_pop(execute) \
        marcel_cleanup_here.marcel_execute = (execute); \
    } while (0)
/* clang-format on */
#endif

/* ---- Thread-specific data ------------------------------------------------------------------------------------- */

#define MARCEL_KEYS_MAX 128
#define MARCEL_DESTRUCTOR_ITERATIONS 4

typedef unsigned marcel_key_t;

/* Create a key for thread-specific data, whose value is NULL in each thread.  When a thread ends, destructor (may be NULL)
 * is called with its value, unless that is NULL; at most MARCEL_DESTRUCTOR_ITERATIONS times.  Errors: EAGAIN
 * (MARCEL_KEYS_MAX are in use). */
int marcel_key_create(marcel_key_t *key, void (*destructor)(void *));
/* Delete a key; no destructor is called.  Errors: EINVAL (no such key). */
int marcel_key_delete(marcel_key_t key);
/* Set the calling thread's value for a key.  Errors: EINVAL (no such key), ENOMEM. */
int marcel_setspecific(marcel_key_t key, const void *value);
/* Return the calling thread's value for a key; NULL if none was set or there is no such key. */
void *marcel_getspecific(marcel_key_t key);

/* ---- Once ----------------------------------------------------------------------------------------------------- */

typedef struct marcel_once {
    unsigned marcel_inside;
} marcel_once_t;
/* clang-format off */
#define MARCEL_ONCE_INIT {0}
/* clang-format on */

/* Call run unless it has already been run; callers that arrive meanwhile wait for its end.  May switch.  If the thread
 * ends inside run, it counts as not run. */
int marcel_once(marcel_once_t *once, void (*run)(void));

/* ---- Mutex ---------------------------------------------------------------------------------------------------- */

#define MARCEL_MUTEX_NORMAL 0
#define MARCEL_MUTEX_RECURSIVE 1
#define MARCEL_MUTEX_ERRORCHECK 2
#define MARCEL_MUTEX_DEFAULT MARCEL_MUTEX_NORMAL

typedef struct marcel_mutexattr {
    int marcel_type;
} marcel_mutexattr_t;

typedef struct marcel_mutex {
    unsigned marcel_word; /* 0: free, 1: locked; only marcel_mutex_lock_slow and _unlock_slow interpret other values */
    unsigned marcel_type;
    unsigned long marcel_inside[5];
} marcel_mutex_t;
/* clang-format off */
#define MARCEL_MUTEX_INITIALIZER {0, 0, {0, 0, 0, 0, 0}}
#define MARCEL_RECURSIVE_MUTEX_INITIALIZER {8, 1, {0, 0, 0, 0, 0}}
#define MARCEL_ERRORCHECK_MUTEX_INITIALIZER {8, 2, {0, 0, 0, 0, 0}}
/* clang-format on */

/* Fill attr with the defaults, and release it.  Each mutex copies attr. */
int marcel_mutexattr_init(marcel_mutexattr_t *attr);
int marcel_mutexattr_destroy(marcel_mutexattr_t *attr);
/* Kind of mutex: MARCEL_MUTEX_NORMAL, _RECURSIVE or _ERRORCHECK.  Errors: EINVAL. */
int marcel_mutexattr_settype(marcel_mutexattr_t *attr, int type);
int marcel_mutexattr_gettype(const marcel_mutexattr_t *attr, int *type);

/* Make *mutex an unlocked mutex; attr NULL: the defaults.  A mutex lies in the program's memory, and is not moved while in
 * use.  The same holds for the other objects below. */
int marcel_mutex_init(marcel_mutex_t *mutex, const marcel_mutexattr_t *attr);
/* End the mutex.  Errors: EBUSY (the mutex is locked). */
int marcel_mutex_destroy(marcel_mutex_t *mutex);
/* Lock the mutex; wait while another thread holds it.  May switch.  Errors: EDEADLK (errorcheck: the caller holds the
 * mutex), EAGAIN (recursive: locked too many times). */
int marcel_mutex_lock(marcel_mutex_t *mutex);
/* Like marcel_mutex_lock, but never waits.  Errors: EBUSY (another thread holds the mutex); EAGAIN as above. */
int marcel_mutex_trylock(marcel_mutex_t *mutex);
/* Like marcel_mutex_lock, but with a deadline. */
int marcel_mutex_timedlock(marcel_mutex_t *mutex, const struct timespec *until);
int marcel_mutex_clocklock(marcel_mutex_t *mutex, int clock, const struct timespec *until);
/* Unlock the mutex.  Errors: EPERM (recursive or errorcheck: the caller does not hold the mutex). */
int marcel_mutex_unlock(marcel_mutex_t *mutex);

/* Slow paths of marcel_mutex_lock and marcel_mutex_unlock, for any other state of the word.  Not to be called by
 * programs. */
int marcel_mutex_lock_slow(marcel_mutex_t *mutex);
int marcel_mutex_unlock_slow(marcel_mutex_t *mutex);

/* An uncontended lock costs one atomic instruction to take and one to release, without a call. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(MARCEL_NO_INLINE)
extern __inline__ __attribute__((__gnu_inline__)) int marcel_mutex_lock(marcel_mutex_t *mutex)
{
    unsigned free_word = 0;
    if (__builtin_expect(
            __atomic_compare_exchange_n(&mutex->marcel_word, &free_word, 1u, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED), 1))
        return 0;
    return marcel_mutex_lock_slow(mutex);
}
extern __inline__ __attribute__((__gnu_inline__)) int marcel_mutex_unlock(marcel_mutex_t *mutex)
{
    unsigned locked_word = 1;
    if (__builtin_expect(
            __atomic_compare_exchange_n(&mutex->marcel_word, &locked_word, 0u, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED), 1))
        return 0;
    return marcel_mutex_unlock_slow(mutex);
}
#endif

/* ---- Condition ------------------------------------------------------------------------------------------------ */

typedef struct marcel_cond {
    unsigned long marcel_inside[6];
} marcel_cond_t;
/* clang-format off */
#define MARCEL_COND_INITIALIZER {{0, 0, 0, 0, 0, 0}}
/* clang-format on */

/* attr must be NULL: there are no attributes yet. */
int marcel_cond_init(marcel_cond_t *cond, const void *attr);
/* Errors: EBUSY (a thread waits). */
int marcel_cond_destroy(marcel_cond_t *cond);
/* Atomically unlock the mutex and wait; the mutex is locked again on return.  May switch.  Errors: EPERM as for
 * marcel_mutex_unlock. */
int marcel_cond_wait(marcel_cond_t *cond, marcel_mutex_t *mutex);
/* Like marcel_cond_wait, but with a deadline.  A wait that ends with ETIMEDOUT has not consumed a signal. */
int marcel_cond_timedwait(marcel_cond_t *cond, marcel_mutex_t *mutex, const struct timespec *until);
int marcel_cond_clockwait(marcel_cond_t *cond, marcel_mutex_t *mutex, int clock, const struct timespec *until);
/* Wake one waiting thread, or all of them. */
int marcel_cond_signal(marcel_cond_t *cond);
int marcel_cond_broadcast(marcel_cond_t *cond);

/* ---- Semaphore ------------------------------------------------------------------------------------------------ */

#define MARCEL_SEM_VALUE_MAX 0x7fffffffu

typedef struct marcel_sem {
    unsigned long marcel_inside[4];
} marcel_sem_t;

/* Make *sem a semaphore of this value.  Errors: EINVAL (shared is not 0, since processes cannot share it, or value is above
 * MARCEL_SEM_VALUE_MAX). */
int marcel_sem_init(marcel_sem_t *sem, int shared, unsigned value);
/* Errors: EBUSY (a thread waits). */
int marcel_sem_destroy(marcel_sem_t *sem);
/* Wait until the value is above 0, and take 1 from it.  May switch. */
int marcel_sem_wait(marcel_sem_t *sem);
/* Like marcel_sem_wait, but never waits.  Errors: EAGAIN (the value is 0). */
int marcel_sem_trywait(marcel_sem_t *sem);
/* Like marcel_sem_wait, but with a deadline. */
int marcel_sem_timedwait(marcel_sem_t *sem, const struct timespec *until);
int marcel_sem_clockwait(marcel_sem_t *sem, int clock, const struct timespec *until);
/* Add 1 to the value; wake a waiting thread.  Errors: EOVERFLOW (the value would exceed MARCEL_SEM_VALUE_MAX). */
int marcel_sem_post(marcel_sem_t *sem);
/* Set *value to the current value. */
int marcel_sem_getvalue(marcel_sem_t *sem, int *value);

/* ---- Lock for readers and writers ----------------------------------------------------------------------------- */

typedef struct marcel_rwlock {
    unsigned long marcel_inside[5];
} marcel_rwlock_t;
/* clang-format off */
#define MARCEL_RWLOCK_INITIALIZER {{0, 0, 0, 0, 0}}
/* clang-format on */

/* attr must be NULL: there are no attributes. */
int marcel_rwlock_init(marcel_rwlock_t *rwlock, const void *attr);
/* Errors: EBUSY (a thread holds the lock, or waits for it). */
int marcel_rwlock_destroy(marcel_rwlock_t *rwlock);

/* Lock for reading or for writing, in order of arrival: a reader waits behind an earlier writer.  But a thread that
 * already holds any rwlock for reading goes before waiting writers, so it may read recursively.  May switch.  Errors:
 * EDEADLK (the caller holds it for writing). */
int marcel_rwlock_rdlock(marcel_rwlock_t *rwlock);
int marcel_rwlock_wrlock(marcel_rwlock_t *rwlock);
/* Like the two calls above, but never wait.  Errors: EBUSY (the call would have to wait). */
int marcel_rwlock_tryrdlock(marcel_rwlock_t *rwlock);
int marcel_rwlock_trywrlock(marcel_rwlock_t *rwlock);
/* Like marcel_rwlock_rdlock and marcel_rwlock_wrlock, but with a deadline. */
int marcel_rwlock_timedrdlock(marcel_rwlock_t *rwlock, const struct timespec *until);
int marcel_rwlock_clockrdlock(marcel_rwlock_t *rwlock, int clock, const struct timespec *until);
int marcel_rwlock_timedwrlock(marcel_rwlock_t *rwlock, const struct timespec *until);
int marcel_rwlock_clockwrlock(marcel_rwlock_t *rwlock, int clock, const struct timespec *until);
/* Unlock; only by the thread that locked it.  Errors: EPERM (not locked, or another thread holds it for writing). */
int marcel_rwlock_unlock(marcel_rwlock_t *rwlock);

/* ---- Barrier -------------------------------------------------------------------------------------------------- */

#define MARCEL_BARRIER_SERIAL_THREAD (-1)

typedef struct marcel_barrier {
    unsigned long marcel_inside[5];
} marcel_barrier_t;

/* Make *barrier a barrier of count threads; attr must be NULL.  Errors: EINVAL (attr not NULL, count 0 or above INT_MAX). */
int marcel_barrier_init(marcel_barrier_t *barrier, const void *attr, unsigned count);
/* Errors: EBUSY (a thread waits). */
int marcel_barrier_destroy(marcel_barrier_t *barrier);
/* Wait until count threads have arrived; one of them gets MARCEL_BARRIER_SERIAL_THREAD.  The barrier may then be used
 * again, or destroyed.  May switch.  Errors: ENOMEM (a plain pthread). */
int marcel_barrier_wait(marcel_barrier_t *barrier);
/* Like marcel_barrier_wait, but with a deadline.  A wait that ends with ETIMEDOUT does not count as an arrival. */
int marcel_barrier_timedwait(marcel_barrier_t *barrier, const struct timespec *until);
int marcel_barrier_clockwait(marcel_barrier_t *barrier, int clock, const struct timespec *until);

/* ---- Completion ----------------------------------------------------------------------------------------------- */

/* An event that happens once and stays complete until it is reset.  The event may lie on the waiting thread's stack: the
 * library no longer touches it once a wait has returned 0 and no other thread waits. */
typedef struct marcel_completion {
    unsigned long marcel_inside[4];
} marcel_completion_t;
/* clang-format off */
#define MARCEL_COMPLETION_INITIALIZER {{0, 0, 0, 0}}
/* clang-format on */

/* Make *completion incomplete and without waiting threads. */
int marcel_completion_init(marcel_completion_t *completion);
/* Errors: EBUSY (a thread waits). */
int marcel_completion_destroy(marcel_completion_t *completion);
/* Complete *completion: all present and future waits return. */
int marcel_completion_complete(marcel_completion_t *completion);
/* Make it incomplete again. */
int marcel_completion_reset(marcel_completion_t *completion);
/* Wait until *completion is complete.  May switch. */
int marcel_completion_wait(marcel_completion_t *completion);
/* Like marcel_completion_wait, but never waits.  Errors: EAGAIN (not complete). */
int marcel_completion_trywait(marcel_completion_t *completion);
/* Like marcel_completion_wait, but with a deadline. */
int marcel_completion_timedwait(marcel_completion_t *completion, const struct timespec *until);
int marcel_completion_clockwait(marcel_completion_t *completion, int clock, const struct timespec *until);

/* ---- Descriptors ---------------------------------------------------------------------------------------------- */

/* Like the POSIX calls of these names, for every kind of descriptor on Linux: results, errors and signals are the same,
 * and so are the data left for the next call.  A user-level thread that would block waits without blocking its worker:
 * other threads run.  The mode of the descriptor does not change for anybody else.  A plain pthread makes the plain
 * call.
 *
 * These calls return what the POSIX call returns, or a negative error number (-EPIPE), and do not set errno.  A signal does
 * not end a wait (no -EINTR).  These calls may switch even if there is no need to wait.  With O_NONBLOCK they return
 * -EAGAIN.  Of several threads that wait for one descriptor, the longest waiting is served first.  Calls on files and
 * directories block the worker; if that may take long, use marcel_blocking_begin.  All but marcel_close are cancellation
 * points; a call that has transferred data returns first.  A plain pthread is not cancelled while it waits in one.
 *
 * A few calls block their kernel thread, like a call between marcel_blocking_begin and marcel_blocking_end, because no
 * event announces their end.  Neither cancellation nor marcel_close ends them:
 * - reads from a socket whose SO_RCVLOWAT is above 1 (set before its first use here);
 * - MSG_PEEK with MSG_WAITALL;
 * - reads from a terminal governed by VMIN and VTIME, and writes to a terminal;
 * - writes of more than 1 to an eventfd.
 *
 * Close a descriptor that was used here with marcel_close: user-level threads that wait for it then get -EBADF.  Some
 * descriptors, for instance listening sockets and terminals, have no non-blocking form of a call.  Nobody else should
 * read or accept from them meanwhile, in another process or by a plain call; otherwise a worker may block. */
ssize_t marcel_read(int fd, void *buffer, size_t size);
ssize_t marcel_readv(int fd, const struct iovec *blocks, int count);
/* To a stream, a pipe or a terminal everything is written, as by a blocking write(2).  A shorter count means that an
 * error followed, or that the descriptor has O_NONBLOCK.  A datagram is sent whole, even if it is empty. */
ssize_t marcel_write(int fd, const void *buffer, size_t size);
ssize_t marcel_writev(int fd, const struct iovec *blocks, int count);
ssize_t marcel_recv(int fd, void *buffer, size_t size, int flags);
ssize_t marcel_send(int fd, const void *buffer, size_t size, int flags);
int marcel_accept(int fd, struct sockaddr *address, socklen_t *size);
int marcel_connect(int fd, const struct sockaddr *address, socklen_t size);
int marcel_close(int fd);

/* Wait until one of events (POLLIN, POLLOUT, ... of poll(2)) is reported, or until the deadline; until NULL: no limit.
 * clock: CLOCK_MONOTONIC or CLOCK_REALTIME.  Return the events that occurred, including POLLERR and POLLHUP; another
 * thread may have consumed them meanwhile.  Errors: -ETIMEDOUT, -EBADF, -EINVAL (time). */
int marcel_fd_wait(int fd, int events, int clock, const struct timespec *until);

/* ---- Blocking calls ------------------------------------------------------------------------------------------- */

/* Bracket a call that blocks in the kernel and for which this header has no call.  Meanwhile a spare kernel thread on
 * the same core runs the worker's other threads.  In between, the caller counts as a plain pthread: it must not end,
 * nor long keep a lock that those threads need.  Pairs may be nested; in a plain pthread they have no effect.  A pair
 * costs one wake-up of a kernel thread, and another one if the spare thread has started to run. marcel_blocking_end may
 * switch: read errno before it.
 *
 * Afterwards all threads of the worker may be in another kernel thread.  An address of a thread-local variable (errno
 * is one) that a function kept from before a switch then belongs to the former kernel thread (see
 * marcel_attr_setmigratable).  Errors: EAGAIN (no kernel thread: the call will block the worker, and
 * marcel_blocking_end has no effect). */
int marcel_blocking_begin(void);
int marcel_blocking_end(void);

/* ---- Names of 0.1 --------------------------------------------------------------------------------------------- */

/* Names of 0.1.  Each call does the same as the call with its new name, which is given beside it. */
#ifndef MAD_NO_OLD_NAMES
int marcel_workers(void);                                                        /* marcel_worker_count */
int marcel_worker(void);                                                         /* marcel_worker_index */
int marcel_enter_blocking(void);                                                 /* marcel_blocking_begin */
int marcel_leave_blocking(void);                                                 /* marcel_blocking_end */
int marcel_poll_fd(int fd, int events, int clock, const struct timespec *until); /* marcel_fd_wait */
#endif

#ifdef __cplusplus
}
#endif
#endif
