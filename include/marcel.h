/* SPDX-License-Identifier: BSD-3-Clause */
/* Marcel: user-level threads.
 *
 * Many threads on few kernel threads (workers).  A thread gives its worker away when it waits, yields or ends, and only
 * then: nothing preempts it.  Names and meanings are those of POSIX threads with the prefix marcel_; what differs is said
 * here.
 *
 * - Calls return 0 or an error number (EINVAL, ...); errno is not theirs.  Since threads of one worker share errno, a
 *   thread looks at it before its next call that may switch.
 * - "May switch": other threads may run before the call returns.  Calls that say nothing else never switch, and may be
 *   made from any thread.  A plain pthread may make every call, unless it is said otherwise; where a user-level thread
 *   would switch, it sleeps.
 * - Deadlines (`until`) are times of a clock, not lengths: of `clock`, CLOCK_MONOTONIC or CLOCK_REALTIME, in calls named
 *   clock..., of CLOCK_REALTIME in those named timed...  A step of the real-time clock during the wait is not seen.  All
 *   such calls give ETIMEDOUT when it is too late, and EINVAL for a time or a clock that is none; what can be had at once is
 *   had however late it is.
 * - A created thread is a seed, which costs no stack until it first runs.  Joining a seed runs it at once.
 * - A started thread stays on its worker, unless it was created migratable.
 * - The process ends with its last thread, also when the first one ended before by marcel_exit or pthread_exit.
 * - After fork in a user-level thread the child has that thread's worker only, with its other threads; it ends by exit or
 *   exec.  Signals are blocked in workers, but not in such a child.  After fork in a plain pthread it has no workers, and
 *   gets none: create threads before or after in the parent, or execute a program.
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

/* ---- The library ---------------------------------------------------------------------------------------------- */

/* Start the workers, one for each core that the process may use (knob MAD_WORKERS).  Not needed: the first marcel_create
 * does it.  Again while they run: look whether a C++ run time has been loaded (marcel(7)), nothing else.  Errors: ENOMEM,
 * EAGAIN (no kernel thread), EINVAL (a knob; it is logged), ENOTSUP (in the child of a fork by a plain pthread, if they ran in the parent). */
int marcel_init(void);

/* End the workers; the library can be started again.  From a plain pthread.  Errors: EBUSY (a thread has not ended),
 * EPERM (from a user-level thread), ENOTSUP (as marcel_init). */
int marcel_fini(void);

/* How many workers run; 0: not started. */
int marcel_workers(void);

/* ---- Attributes ----------------------------------------------------------------------------------------------- */

#define MARCEL_NAME_MAX 32     /* bytes of a thread's name, the final zero included */
#define MARCEL_PRIORITY_MIN 0
#define MARCEL_PRIORITY_MAX 7
#define MARCEL_PRIORITY_DEFAULT 3
#define MARCEL_CREATE_JOINABLE 0
#define MARCEL_CREATE_DETACHED 1

typedef struct marcel_attr {
    long marcel_inside[12]; /* not to be touched */
} marcel_attr_t;

/* Fill with the defaults.  Ends with marcel_attr_destroy; may be used for any number of threads, which copy it. */
int marcel_attr_init(marcel_attr_t *attr);
int marcel_attr_destroy(marcel_attr_t *attr);

/* Bytes of stack that the thread can use (default: what is left of a slot as long as the knob MAD_STACK_SIZE says, 64 KiB,
 * of which a page is a guard); slots are powers of two.  Errors: EINVAL (0, or above 512 MiB). */
int marcel_attr_setstacksize(marcel_attr_t *attr, size_t size);
int marcel_attr_getstacksize(const marcel_attr_t *attr, size_t *size);

/* Of the ready threads of a worker one of higher priority runs before all of lower, whether these have begun to run or not.
 * There is no aging: one that yields again and again, and never waits, starves those below.  Errors: EINVAL. */
int marcel_attr_setpriority(marcel_attr_t *attr, int priority);
int marcel_attr_getpriority(const marcel_attr_t *attr, int *priority);

/* The worker that runs it, from 0, and where it stays; -1 (default): any.  Errors: EINVAL (below -1; marcel_create: no such
 * worker). */
int marcel_attr_setplacement(marcel_attr_t *attr, int worker);
int marcel_attr_getplacement(const marcel_attr_t *attr, int *worker);

/* MARCEL_CREATE_JOINABLE (default) or MARCEL_CREATE_DETACHED.  Errors: EINVAL. */
int marcel_attr_setdetachstate(marcel_attr_t *attr, int state);
int marcel_attr_getdetachstate(const marcel_attr_t *attr, int *state);

/* 1: it may go on on another worker after it has started.  Default 0: compilers keep addresses of thread-local variables
 * (errno is one) across calls. */
int marcel_attr_setmigratable(marcel_attr_t *attr, int migratable);
int marcel_attr_getmigratable(const marcel_attr_t *attr, int *migratable);

/* 1: it has floating-point control words (rounding, exceptions) of its own, which others do not see.  Default 0. */
int marcel_attr_setkeepfp(marcel_attr_t *attr, int keep);
int marcel_attr_getkeepfp(const marcel_attr_t *attr, int *keep);

/* Cut to MARCEL_NAME_MAX - 1 bytes.  name: that many bytes of room, empty if none was set. */
int marcel_attr_setname(marcel_attr_t *attr, const char *name);
int marcel_attr_getname(const marcel_attr_t *attr, char name[MARCEL_NAME_MAX]);

/* ---- Threads -------------------------------------------------------------------------------------------------- */

/* A thread; valid until it is joined, or, detached, until it ends. */
typedef struct marcel_thread *marcel_t;

/* Create a thread that runs run(arg).  attr NULL: the defaults.  Owns: ends with marcel_join or marcel_detach.
 * Errors: EAGAIN (memory), EINVAL (attr: no such worker, too big a stack); what marcel_init says. */
int marcel_create(marcel_t *thread, const marcel_attr_t *attr, void *(*run)(void *), void *arg);

/* Wait until it has ended; what it returned or gave to marcel_exit goes to *result unless that is NULL.  May switch.  At
 * most one joins a thread.  Errors: EINVAL (detached, joined by another, or a plain pthread), EDEADLK (oneself, or it joins
 * the caller), ESRCH (it was joined, or has ended detached, and its handle is not that of a new thread yet). */
int marcel_join(marcel_t thread, void **result);
/* The same with a deadline, or without waiting; unless they return 0, it can still be joined.  Errors: as above; try:
 * EBUSY (it has not ended). */
int marcel_timedjoin(marcel_t thread, void **result, const struct timespec *until);
int marcel_clockjoin(marcel_t thread, void **result, int clock, const struct timespec *until);
int marcel_tryjoin(marcel_t thread, void **result);

/* Nobody will join it.  Errors: EINVAL (detached already), ESRCH as above. */
int marcel_detach(marcel_t thread);

/* End the calling thread.  Its stack is unwound as by pthread_exit: handlers (below), destructors of C++, cleanup
 * attributes of C (compiled with -fexceptions) run; then destructors of keys.  A function without unwind table ends the
 * unwinding, which is logged.  A catch (...) must rethrow, and the call may not leave a noexcept function: else the process
 * is aborted.
 * A plain pthread ends as by pthread_exit; if it was the first of the process, that ends with 0 when the last of its
 * threads has. */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void marcel_exit(void *result);

/* The calling thread; a plain pthread has one as well.  NULL: no memory for that. */
marcel_t marcel_self(void);
int marcel_equal(marcel_t a, marcel_t b);

/* Is the caller a user-level thread? */
int marcel_is_thread(void);

/* The worker that runs the caller, from 0; -1: a plain pthread. */
int marcel_worker(void);

/* Let others of the same or a higher priority run.  May switch.  From a plain pthread: sched_yield. */
int marcel_yield(void);

/* Let this one run now, if it is ready on the caller's worker or has not started; else as marcel_yield. */
int marcel_yield_to(marcel_t thread);

/* Sleep.  May switch.  remaining (may be NULL) is set to 0.  Errors: EINVAL. */
int marcel_nanosleep(const struct timespec *time, struct timespec *remaining);

/* The same in microseconds and seconds. */
int marcel_usleep(unsigned long microseconds);
int marcel_sleep(unsigned seconds);

/* The name of a thread that has not ended, for people and tools; as in the attributes.  Errors: EAGAIN (memory). */
int marcel_setname(marcel_t thread, const char *name);
int marcel_getname(marcel_t thread, char name[MARCEL_NAME_MAX]);

/* ---- Cancellation --------------------------------------------------------------------------------------------- */

/* A thread that was asked to end ends, as by marcel_exit(MARCEL_CANCELED), where it next calls, or waits in, a point of
 * cancellation: marcel_join and its timed forms, marcel_nanosleep, the waits for a condition (the mutex is locked when its
 * handlers run), a semaphore or a completion, marcel_testcancel.  Locks and barriers are none, nor are calls of the
 * system. */
#define MARCEL_CANCELED ((void *)-1)
#define MARCEL_CANCEL_ENABLE 0
#define MARCEL_CANCEL_DISABLE 1

/* Ask it to end; it may do so later, or never.  A thread that has ended: nothing.  A plain pthread can be asked too, and
 * then must not end by itself before this returns.  Errors: ESRCH as above. */
int marcel_cancel(marcel_t thread);

/* Of the calling thread; disabled, it hears of it when it enables it again.  old (may be NULL): what was before.
 * Errors: EINVAL, ENOMEM. */
int marcel_setcancelstate(int state, int *old);

/* End here, if somebody asked for it. */
void marcel_testcancel(void);

typedef struct marcel_cleanup {
    void (*marcel_run)(void *);
    void *marcel_arg;
    struct marcel_cleanup *marcel_next;
    void *marcel_frame;
} marcel_cleanup_t;

/* What marcel_cleanup_push and marcel_cleanup_pop are in code without exceptions, and where the two cannot be the ends of a
 * block.  cleanup: borrowed until the second.  The handler runs when the thread's end has left the function that called
 * the first, after what the compiler runs in that function; that of a plain pthread before the stack is unwound. */
void marcel_cleanup_begin(marcel_cleanup_t *cleanup, void (*run)(void *), void *arg);
void marcel_cleanup_end(marcel_cleanup_t *cleanup, int execute);

/* Between the two, run(arg) is called if the thread is cancelled or calls marcel_exit; at the second as well, if execute is
 * not 0.  They are the two ends of one block of the program, which is left through the second or by the thread's end; in
 * C++, and C with -fexceptions, also by an exception, which runs the handler too, and handlers and destructors of one
 * function run in the reverse order of their beginnings. */
#if !defined(__EXCEPTIONS)
#define marcel_cleanup_push(run, arg) \
    do { \
        marcel_cleanup_t marcel_cleanup_here; \
        marcel_cleanup_begin(&marcel_cleanup_here, (run), (arg))
#define marcel_cleanup_pop(execute) \
        marcel_cleanup_end(&marcel_cleanup_here, (execute)); \
    } while (0)
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
#define marcel_cleanup_push(run, arg) \
    do { \
        marcel_handler_t marcel_cleanup_here __attribute__((__cleanup__(marcel_handler_end))) = {(run), (arg), 1}
#define marcel_cleanup_pop(execute) \
        marcel_cleanup_here.marcel_execute = (execute); \
    } while (0)
#endif

/* ---- Thread-specific data ------------------------------------------------------------------------------------- */

#define MARCEL_KEYS_MAX 128
#define MARCEL_DESTRUCTOR_ITERATIONS 4

typedef unsigned marcel_key_t;

/* Errors: EAGAIN (MARCEL_KEYS_MAX are in use). */
int marcel_key_create(marcel_key_t *key, void (*destructor)(void *));
int marcel_key_delete(marcel_key_t key);
/* Errors: EINVAL (no such key), ENOMEM. */
int marcel_setspecific(marcel_key_t key, const void *value);
void *marcel_getspecific(marcel_key_t key);

/* ---- Once ----------------------------------------------------------------------------------------------------- */

typedef struct marcel_once {
    unsigned marcel_inside;
} marcel_once_t;
#define MARCEL_ONCE_INIT {0}

/* Run it if nobody has; whoever comes meanwhile waits.  May switch.  If the thread ends in it, it has not been run. */
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
    unsigned marcel_word; /* 0: free, 1: locked; all else is for marcel_mutex_lock_slow and marcel_mutex_unlock_slow */
    unsigned marcel_type;
    unsigned long marcel_inside[5];
} marcel_mutex_t;
#define MARCEL_MUTEX_INITIALIZER {0, 0, {0, 0, 0, 0, 0}}
#define MARCEL_RECURSIVE_MUTEX_INITIALIZER {8, 1, {0, 0, 0, 0, 0}}
#define MARCEL_ERRORCHECK_MUTEX_INITIALIZER {8, 2, {0, 0, 0, 0, 0}}

int marcel_mutexattr_init(marcel_mutexattr_t *attr);
int marcel_mutexattr_destroy(marcel_mutexattr_t *attr);
/* Errors: EINVAL. */
int marcel_mutexattr_settype(marcel_mutexattr_t *attr, int type);
int marcel_mutexattr_gettype(const marcel_mutexattr_t *attr, int *type);

int marcel_mutex_init(marcel_mutex_t *mutex, const marcel_mutexattr_t *attr);
/* Errors: EBUSY (it is locked). */
int marcel_mutex_destroy(marcel_mutex_t *mutex);
/* May switch.  Errors: EDEADLK (errorcheck: the caller has it), EAGAIN (recursive: too often). */
int marcel_mutex_lock(marcel_mutex_t *mutex);
/* Errors: EBUSY; EAGAIN as above. */
int marcel_mutex_trylock(marcel_mutex_t *mutex);
/* As marcel_mutex_lock, with a deadline. */
int marcel_mutex_timedlock(marcel_mutex_t *mutex, const struct timespec *until);
int marcel_mutex_clocklock(marcel_mutex_t *mutex, int clock, const struct timespec *until);
/* Errors: EPERM (recursive, errorcheck: the caller does not have it). */
int marcel_mutex_unlock(marcel_mutex_t *mutex);

/* What the two above call when the word is not as most often; for them only. */
int marcel_mutex_lock_slow(marcel_mutex_t *mutex);
int marcel_mutex_unlock_slow(marcel_mutex_t *mutex);

/* A lock that nobody else wants costs one atomic instruction to take and one to release, and no call. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(MARCEL_NO_INLINE)
extern __inline__ __attribute__((__gnu_inline__)) int marcel_mutex_lock(marcel_mutex_t *mutex)
{
    unsigned free_word = 0;
    if (__builtin_expect(__atomic_compare_exchange_n(&mutex->marcel_word, &free_word, 1u, 0, __ATOMIC_ACQUIRE,
                                                     __ATOMIC_RELAXED), 1))
        return 0;
    return marcel_mutex_lock_slow(mutex);
}
extern __inline__ __attribute__((__gnu_inline__)) int marcel_mutex_unlock(marcel_mutex_t *mutex)
{
    unsigned locked_word = 1;
    if (__builtin_expect(__atomic_compare_exchange_n(&mutex->marcel_word, &locked_word, 0u, 0, __ATOMIC_RELEASE,
                                                     __ATOMIC_RELAXED), 1))
        return 0;
    return marcel_mutex_unlock_slow(mutex);
}
#endif

/* ---- Condition ------------------------------------------------------------------------------------------------ */

typedef struct marcel_cond {
    unsigned long marcel_inside[6];
} marcel_cond_t;
#define MARCEL_COND_INITIALIZER {{0, 0, 0, 0, 0, 0}}

/* attr must be NULL: there are no attributes yet. */
int marcel_cond_init(marcel_cond_t *cond, const void *attr);
/* Errors: EBUSY (somebody waits). */
int marcel_cond_destroy(marcel_cond_t *cond);
/* Unlock the mutex and wait, at once; locked again at the return.  May switch.  Errors: EPERM as marcel_mutex_unlock. */
int marcel_cond_wait(marcel_cond_t *cond, marcel_mutex_t *mutex);
/* The same with a deadline: who was woken by it has not taken a signal from another. */
int marcel_cond_timedwait(marcel_cond_t *cond, marcel_mutex_t *mutex, const struct timespec *until);
int marcel_cond_clockwait(marcel_cond_t *cond, marcel_mutex_t *mutex, int clock, const struct timespec *until);
int marcel_cond_signal(marcel_cond_t *cond);
int marcel_cond_broadcast(marcel_cond_t *cond);

/* ---- Semaphore ------------------------------------------------------------------------------------------------ */

#define MARCEL_SEM_VALUE_MAX 0x7fffffffu

typedef struct marcel_sem {
    unsigned long marcel_inside[4];
} marcel_sem_t;

/* Errors: EINVAL (shared not 0: between processes, or value above MARCEL_SEM_VALUE_MAX). */
int marcel_sem_init(marcel_sem_t *sem, int shared, unsigned value);
/* Errors: EBUSY (somebody waits). */
int marcel_sem_destroy(marcel_sem_t *sem);
/* May switch. */
int marcel_sem_wait(marcel_sem_t *sem);
/* Errors: EAGAIN (it is 0). */
int marcel_sem_trywait(marcel_sem_t *sem);
/* As marcel_sem_wait, with a deadline. */
int marcel_sem_timedwait(marcel_sem_t *sem, const struct timespec *until);
int marcel_sem_clockwait(marcel_sem_t *sem, int clock, const struct timespec *until);
/* Errors: EOVERFLOW. */
int marcel_sem_post(marcel_sem_t *sem);
int marcel_sem_getvalue(marcel_sem_t *sem, int *value);

/* ---- Lock for readers and writers ----------------------------------------------------------------------------- */

typedef struct marcel_rwlock {
    unsigned long marcel_inside[5];
} marcel_rwlock_t;
#define MARCEL_RWLOCK_INITIALIZER {{0, 0, 0, 0, 0}}

/* attr must be NULL: there are no attributes. */
int marcel_rwlock_init(marcel_rwlock_t *rwlock, const void *attr);
/* Errors: EBUSY (somebody has it, or waits). */
int marcel_rwlock_destroy(marcel_rwlock_t *rwlock);

/* In the order of arrival: a reader waits behind a writer that came before it.  But a thread that has some rwlock for
 * reading goes before writers that wait, so it may read twice.  May switch.  Errors: EDEADLK (the caller writes). */
int marcel_rwlock_rdlock(marcel_rwlock_t *rwlock);
int marcel_rwlock_wrlock(marcel_rwlock_t *rwlock);
/* Errors: EBUSY (the other would wait). */
int marcel_rwlock_tryrdlock(marcel_rwlock_t *rwlock);
int marcel_rwlock_trywrlock(marcel_rwlock_t *rwlock);
/* With a deadline. */
int marcel_rwlock_timedrdlock(marcel_rwlock_t *rwlock, const struct timespec *until);
int marcel_rwlock_clockrdlock(marcel_rwlock_t *rwlock, int clock, const struct timespec *until);
int marcel_rwlock_timedwrlock(marcel_rwlock_t *rwlock, const struct timespec *until);
int marcel_rwlock_clockwrlock(marcel_rwlock_t *rwlock, int clock, const struct timespec *until);
/* By the thread that locked it.  Errors: EPERM (nobody has it, or another one writes). */
int marcel_rwlock_unlock(marcel_rwlock_t *rwlock);

/* ---- Barrier -------------------------------------------------------------------------------------------------- */

#define MARCEL_BARRIER_SERIAL_THREAD (-1)

typedef struct marcel_barrier {
    unsigned long marcel_inside[5];
} marcel_barrier_t;

/* Errors: EINVAL (attr not NULL, count 0 or above INT_MAX). */
int marcel_barrier_init(marcel_barrier_t *barrier, const void *attr, unsigned count);
/* Errors: EBUSY (somebody waits). */
int marcel_barrier_destroy(marcel_barrier_t *barrier);
/* Wait until count threads have come; one of them gets MARCEL_BARRIER_SERIAL_THREAD.  Then it begins anew, or may be
 * destroyed.  May switch.  Errors: ENOMEM (a plain pthread). */
int marcel_barrier_wait(marcel_barrier_t *barrier);
/* With a deadline: who is late has not come. */
int marcel_barrier_timedwait(marcel_barrier_t *barrier, const struct timespec *until);
int marcel_barrier_clockwait(marcel_barrier_t *barrier, int clock, const struct timespec *until);

/* ---- Completion ----------------------------------------------------------------------------------------------- */

/* Something that happens once, and stays so.  It may lie on the stack of who waits for it: it is not touched any more when
 * a wait has returned 0 and nobody else waits. */
typedef struct marcel_completion {
    unsigned long marcel_inside[4];
} marcel_completion_t;
#define MARCEL_COMPLETION_INITIALIZER {{0, 0, 0, 0}}

int marcel_completion_init(marcel_completion_t *completion);
/* Errors: EBUSY (somebody waits). */
int marcel_completion_destroy(marcel_completion_t *completion);
/* It has happened: all that wait, and all that will, go on. */
int marcel_completion_complete(marcel_completion_t *completion);
/* It has not. */
int marcel_completion_reset(marcel_completion_t *completion);
/* May switch. */
int marcel_completion_wait(marcel_completion_t *completion);
/* Errors: EAGAIN (it has not happened). */
int marcel_completion_trywait(marcel_completion_t *completion);
int marcel_completion_timedwait(marcel_completion_t *completion, const struct timespec *until);
int marcel_completion_clockwait(marcel_completion_t *completion, int clock, const struct timespec *until);

/* ---- Descriptors ---------------------------------------------------------------------------------------------- */

/* As the POSIX calls of those names, for every kind of descriptor, as Linux has them: the same results, errors, signals, and
 * the same left for the next call.  A user-level thread that would block waits without its worker: others run, and nobody
 * else sees another mode of the descriptor.  A plain pthread makes the plain call.
 *
 * They return what the POSIX call returns, or a negative error number (-EPIPE); errno is not theirs.  A wait is not ended by
 * a signal (-EINTR).  May switch, also when there is no need to wait.  Of a descriptor with O_NONBLOCK they return -EAGAIN.
 * Of threads that wait for one descriptor the longest waiting comes first.  A file or directory keeps the worker waiting:
 * where that may be long, marcel_enter_blocking.
 * All but marcel_close are points of cancellation; one that has written or read something returns first.  A plain pthread
 * is not cancelled while it waits in one.
 *
 * A few waits are made as between marcel_enter_blocking and marcel_leave_blocking, because no event announces their end;
 * neither a cancel nor marcel_close ends them: reads from a socket whose SO_RCVLOWAT is above 1 (set before its first use
 * here), MSG_PEEK with MSG_WAITALL, reads from a terminal by VMIN and VTIME, writes to a terminal or, of more than 1, to an
 * eventfd.
 *
 * A descriptor that was used here is closed by marcel_close: user-level threads that wait for it get -EBADF.  From the
 * listening sockets, terminals and the like whose calls cannot be asked not to block nobody else should take, in another
 * process or by a plain call: a worker may have to wait. */
ssize_t marcel_read(int fd, void *buffer, size_t size);
ssize_t marcel_readv(int fd, const struct iovec *blocks, int count);
/* Of a stream, a pipe or a terminal all is written, as by a blocking write(2); less: there was an error after that, or the
 * descriptor has O_NONBLOCK.  A datagram is sent whole, also one of no bytes. */
ssize_t marcel_write(int fd, const void *buffer, size_t size);
ssize_t marcel_writev(int fd, const struct iovec *blocks, int count);
ssize_t marcel_recv(int fd, void *buffer, size_t size, int flags);
ssize_t marcel_send(int fd, const void *buffer, size_t size, int flags);
int marcel_accept(int fd, struct sockaddr *address, socklen_t *size);
int marcel_connect(int fd, const struct sockaddr *address, socklen_t size);
int marcel_close(int fd);

/* Wait for one of events (POLLIN, POLLOUT, ... of poll(2)) until then; until NULL: without end.  Returns which came, with
 * POLLERR and POLLHUP; another thread may have taken it meanwhile.  clock: CLOCK_MONOTONIC or CLOCK_REALTIME.
 * Errors: -ETIMEDOUT, -EBADF, -EINVAL (time). */
int marcel_poll_fd(int fd, int events, int clock, const struct timespec *until);

/* ---- Blocking calls ------------------------------------------------------------------------------------------- */

/* Around a call that blocks in the kernel and has no form here: the worker's other threads go on in a spare kernel thread
 * on the same core meanwhile.  In between the caller counts as a plain pthread; it must not end, nor keep a lock that it
 * took before from those threads for long.  One pair may be inside another; from a plain pthread nothing happens.  Costs a
 * wake of a kernel thread, and one more if the spare one has come to run meanwhile.  leave: may switch; look at
 * errno before it.
 * All threads of the worker may be in another kernel thread afterwards: what a function kept of the address of a
 * thread-local variable, as errno, from before a switch, is another kernel thread's (see marcel_attr_setmigratable).
 * Errors: EAGAIN (no kernel thread: the call blocks the worker; leave does nothing then). */
int marcel_enter_blocking(void);
int marcel_leave_blocking(void);

#ifdef __cplusplus
}
#endif
#endif
