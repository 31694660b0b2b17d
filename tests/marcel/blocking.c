/* SPDX-License-Identifier: BSD-3-Clause */
/* Declared blocking calls: blocking [TEST...]. */
#include "support.h"

#include <fcntl.h>

typedef struct blocked {
    int fd[2], worker;
    _Atomic(int) *inside;
    marcel_t thread;
} blocked_t;

/* Block in a plain read.  The thread stays on its worker, and keeps its stack. */
static void *block(void *arg)
{
    blocked_t *b = arg;
    int before = marcel_worker_index();
    marcel_t self = marcel_self();
    char c = 0;
    CHECK_EQ(before, b->worker);
    CHECK_EQ(marcel_blocking_begin(), 0);
    CHECK(!marcel_is_thread());
    atomic_fetch_add(b->inside, 1);
    CHECK_EQ(read(b->fd[0], &c, 1), 1);
    CHECK_EQ(marcel_blocking_end(), 0);
    CHECK(marcel_is_thread());
    CHECK(marcel_equal(self, marcel_self()));
    CHECK_EQ(marcel_worker_index(), before);
    CHECK_EQ(c, 'x');
    return NULL;
}

/* Threads of every worker block in read, and computing threads continue.  Each of the computing threads ends one read after
 * some turns. */
typedef struct computer {
    _Atomic(int) *inside;
    int of_all;
    blocked_t *mine;
    int n;
} computer_t;

static void *compute(void *arg)
{
    computer_t *c = arg;
    while (atomic_load(c->inside) < c->of_all)
        marcel_yield();
    for (int i = 0; i < 1000; i++)
        marcel_yield();
    for (int i = 0; i < c->n; i++)
        CHECK_EQ(write(c->mine[i].fd[1], "x", 1), 1);
    return NULL;
}

static marcel_t create_on(int worker, void *(*run)(void *), void *arg)
{
    marcel_attr_t attr;
    marcel_t thread = NULL;
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setplacement(&attr, worker), 0);
    CHECK_EQ(marcel_create(&thread, &attr, run, arg), 0);
    marcel_attr_destroy(&attr);
    return thread;
}

static void all_block(void)
{
    enum { EACH = 10 };
    int workers = marcel_worker_count(), n = workers * EACH;
    _Atomic(int) inside = 0;
    blocked_t *blocked = calloc((size_t)n, sizeof *blocked);
    computer_t *computers = calloc((size_t)workers, sizeof *computers);
    marcel_t *threads = calloc((size_t)workers, sizeof(marcel_t));
    if (!CHECK(blocked && computers && threads))
        return;
    for (int i = 0; i < n; i++) {
        blocked[i].worker = i / EACH;
        blocked[i].inside = &inside;
        CHECK_EQ(pipe2(blocked[i].fd, O_CLOEXEC), 0);
        blocked[i].thread = create_on(i / EACH, block, &blocked[i]);
    }
    for (int w = 0; w < workers; w++) {
        computers[w] = (computer_t){&inside, n, &blocked[w * EACH], EACH};
        threads[w] = create_on(w, compute, &computers[w]);
    }
    for (int w = 0; w < workers; w++)
        CHECK_EQ(marcel_join(threads[w], NULL), 0);
    for (int i = 0; i < n; i++) {
        CHECK_EQ(marcel_join(blocked[i].thread, NULL), 0);
        close(blocked[i].fd[0]);
        close(blocked[i].fd[1]);
    }
    free(threads);
    free(computers);
    free(blocked);
}

/* Run the test twice: the second round uses the kernel threads of the first one again. */
static void test_workers_run_while_all_threads_block(void)
{
    int threads;
    CHECK_EQ(marcel_init(), 0);
    all_block();
    threads = kernel_threads();
    all_block();
    CHECK_MSG(kernel_threads() <= threads + marcel_worker_count(), "%d kernel threads, then %d", threads, kernel_threads());
}

/* Declare calls that do not block, also nested, with and without other ready threads. */
static void *short_calls(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        CHECK_EQ(marcel_blocking_begin(), 0);
        if (i % 3 == 0) {
            CHECK_EQ(marcel_blocking_begin(), 0);
            CHECK_EQ(marcel_blocking_end(), 0);
        }
        CHECK(!marcel_is_thread());
        CHECK_EQ(marcel_blocking_end(), 0);
        CHECK(marcel_is_thread());
        if (i % 5 == 0)
            marcel_yield();
    }
    return arg;
}

static void *short_main(void *arg)
{
    marcel_t threads[4];
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK_EQ(marcel_create(&threads[i], NULL, short_calls, NULL), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
    return arg;
}

static void test_calls_that_do_not_block_nest(void)
{
    in_thread(short_calls, NULL);
    in_thread(short_main, NULL);
}

/* Between begin and end the thread acts like a plain pthread: it takes locks that other threads hold, and waits. */
static marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;
static int counted;

static void *count(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        if (arg)
            CHECK_EQ(marcel_blocking_begin(), 0);
        CHECK_EQ(marcel_mutex_lock(&mutex), 0);
        counted++;
        if (!arg && i % 16 == 0)
            marcel_yield();
        CHECK_EQ(marcel_mutex_unlock(&mutex), 0);
        if (arg)
            CHECK_EQ(marcel_blocking_end(), 0);
    }
    return NULL;
}

static void *locks_main(void *arg)
{
    marcel_t threads[6];
    counted = 0;
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK_EQ(marcel_create(&threads[i], NULL, count, i % 2 ? arg : NULL), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
    CHECK_EQ(counted, 6 * 2000);
    return NULL;
}

static void test_locks_work_inside_a_blocking_call(void)
{
    in_thread(locks_main, &counted);
}

/* A migratable thread comes back to a worker, too. */
static void *movable_main(void *arg)
{
    for (int i = 0; i < 500; i++) {
        CHECK_EQ(marcel_blocking_begin(), 0);
        usleep(10); /* stands for a blocking call; no event is awaited */
        CHECK_EQ(marcel_blocking_end(), 0);
        CHECK(marcel_is_thread());
    }
    return arg;
}

static void test_movable_threads_may_block(void)
{
    marcel_t threads[8];
    marcel_attr_t attr;
    marcel_attr_init(&attr);
    marcel_attr_setmigratable(&attr, 1);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK_EQ(marcel_create(&threads[i], &attr, movable_main, NULL), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
    marcel_attr_destroy(&attr);
}

/* ---- Calls that are not declared -------------------------------------------------------------------------------- */

/* The action of each thread after its read. */
enum { ASKS, LOCKS, YIELDS, ENDS, AGAIN, DECLARES, WAYS };

typedef struct silent {
    int fd[2], way, worker;
    _Atomic(int) *inside;
    marcel_t thread;
} silent_t;

static void *silent(void *arg)
{
    silent_t *s = arg;
    marcel_t self = marcel_self();
    marcel_mutexattr_t attr;
    marcel_mutex_t own;
    char c = 0;
    marcel_mutexattr_init(&attr);
    marcel_mutexattr_settype(&attr, MARCEL_MUTEX_ERRORCHECK);
    marcel_mutex_init(&own, &attr);
    CHECK_EQ(marcel_mutex_lock(&own), 0);
    s->worker = marcel_worker_index();
    atomic_fetch_add(s->inside, 1);
    CHECK_EQ(read(s->fd[0], &c, 1), 1);
    CHECK_EQ(c, 'x');
    switch (s->way) {
    case ASKS: CHECK(marcel_is_thread()); break;
    case LOCKS: CHECK_EQ(marcel_mutex_unlock(&own), 0); break;
    case YIELDS: marcel_yield(); break;
    case ENDS: return s;
    case AGAIN:
        CHECK_EQ(read(s->fd[0], &c, 1), 1);
        CHECK_EQ(c, 'y');
        break;
    default:
        CHECK_EQ(marcel_blocking_begin(), 0);
        CHECK(!marcel_is_thread());
        CHECK_EQ(marcel_blocking_end(), 0);
    }
    CHECK(marcel_equal(self, marcel_self()));
    CHECK(marcel_is_thread());
    CHECK_EQ(marcel_worker_index(), s->worker);
    CHECK_EQ(marcel_mutex_unlock(&own), s->way == LOCKS ? EPERM : 0);
    return s;
}

/* Threads that wait for an event, and threads that only yield, get their turns while every worker is blocked. */
typedef struct others {
    _Atomic(int) *inside;
    int of_all, fd[2];
    _Atomic(int) turns, bytes, stop;
} others_t;

static void *others_yield(void *arg)
{
    others_t *o = arg;
    while (!atomic_load(&o->stop)) {
        atomic_fetch_add(&o->turns, 1);
        marcel_yield();
    }
    return NULL;
}

static void *others_read(void *arg)
{
    others_t *o = arg;
    char c;
    while (marcel_read(o->fd[0], &c, 1) == 1)
        atomic_fetch_add(&o->bytes, 1);
    return NULL;
}

static bool reaches(_Atomic(int) *counter, int value)
{
    for (int i = 0; i < 20000 && atomic_load(counter) < value; i++)
        usleep(1000); /* pause between two checks: a call that wakes this thread could be the faulty one */
    return CHECK_MSG(atomic_load(counter) >= value, "%d of %d", atomic_load(counter), value);
}

static void silent_round(int *ways)
{
    int workers = marcel_worker_count();
    _Atomic(int) inside = 0;
    silent_t *blocked = calloc((size_t)workers, sizeof *blocked);
    others_t *others = calloc((size_t)workers, sizeof *others);
    marcel_t *threads = calloc(2 * (size_t)workers, sizeof *threads);
    if (!CHECK(blocked && others && threads))
        return;
    for (int w = 0; w < workers; w++) {
        blocked[w] = (silent_t){.way = (*ways)++ % WAYS, .inside = &inside};
        CHECK_EQ(pipe2(blocked[w].fd, O_CLOEXEC), 0);
        CHECK_EQ(pipe2(others[w].fd, O_CLOEXEC), 0);
        blocked[w].thread = create_on(w, silent, &blocked[w]);
    }
    reaches(&inside, workers);
    for (int w = 0; w < workers; w++) {
        threads[2 * w] = create_on(w, others_yield, &others[w]);
        threads[2 * w + 1] = create_on(w, others_read, &others[w]);
    }
    for (int w = 0; w < workers; w++) {
        reaches(&others[w].turns, 1000);
        CHECK_EQ(write(others[w].fd[1], "m", 1), 1);
        reaches(&others[w].bytes, 1);
    }
    for (int w = 0; w < workers; w++) {
        CHECK_EQ(write(blocked[w].fd[1], "xy", blocked[w].way == AGAIN ? 1 : 2), blocked[w].way == AGAIN ? 1 : 2);
        if (blocked[w].way == AGAIN) {
            usleep(1000);
            CHECK_EQ(write(blocked[w].fd[1], "y", 1), 1);
        }
        CHECK_EQ(marcel_join(blocked[w].thread, NULL), 0);
        atomic_store(&others[w].stop, 1);
        close(others[w].fd[1]);
        CHECK_EQ(marcel_join(threads[2 * w], NULL), 0);
        CHECK_EQ(marcel_join(threads[2 * w + 1], NULL), 0);
        close(others[w].fd[0]);
        close(blocked[w].fd[0]);
        close(blocked[w].fd[1]);
    }
    free(threads);
    free(others);
    free(blocked);
}

static void test_workers_leave_undeclared_calls(void)
{
    int ways = 0;
    CHECK_EQ(marcel_init(), 0);
    for (int i = 0; i < 12; i++)
        silent_round(&ways);
}

/* Make short calls again and again while the monitor checks. */
static void *to_and_fro(void *arg)
{
    int *fd = arg;
    char c;
    for (int i = 0; i < 300; i++) {
        if (read(fd[0], &c, 1) != 1 || write(fd[1], &c, 1) != 1)
            break;
        if (i % 3)
            marcel_yield();
    }
    return NULL;
}

static void *to_and_fro_plain(void *arg)
{
    int *fd = arg;
    char c = 'c';
    for (int i = 0; i < 300; i++) {
        usleep(i % 10 ? 1 : 30000); /* the monitor finds some of the calls, at different moments */
        if (write(fd[1], &c, 1) != 1 || read(fd[0], &c, 1) != 1)
            break;
    }
    return NULL;
}

static void test_blocking_threads_exchange_bytes(void)
{
    enum { N = 4 };
    int there[N][2], back[N][2], ends[N][2][2];
    marcel_t threads[N];
    pthread_t plain[N];
    CHECK_EQ(marcel_init(), 0);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(pipe2(there[i], O_CLOEXEC), 0);
        CHECK_EQ(pipe2(back[i], O_CLOEXEC), 0);
        ends[i][0][0] = there[i][0], ends[i][0][1] = back[i][1];
        ends[i][1][0] = back[i][0], ends[i][1][1] = there[i][1];
        CHECK_EQ(marcel_create(&threads[i], NULL, to_and_fro, ends[i][0]), 0);
        CHECK_EQ(pthread_create(&plain[i], NULL, to_and_fro_plain, ends[i][1]), 0);
    }
    for (int i = 0; i < N; i++) {
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
        pthread_join(plain[i], NULL);
        for (int k = 0; k < 2; k++) {
            close(there[i][k]);
            close(back[i][k]);
        }
    }
}

/* In plain pthreads the declaration has no effect.  At the end of the library all kernel threads end. */
static void test_end_takes_all_kernel_threads_away(void)
{
    int before;
    CHECK_EQ(marcel_blocking_end(), 0);
    CHECK_EQ(marcel_blocking_begin(), 0);
    CHECK_EQ(marcel_blocking_end(), 0);
    CHECK_EQ(marcel_fini(), 0);
    before = kernel_threads();
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(marcel_init(), 0);
        all_block();
        CHECK_EQ(marcel_fini(), 0);
        CHECK_EQ(kernel_threads(), before);
    }
}

static const test_case_t cases[] = {
    {"workers_run_while_all_threads_block", test_workers_run_while_all_threads_block},
    {"calls_that_do_not_block_nest", test_calls_that_do_not_block_nest},
    {"locks_work_inside_a_blocking_call", test_locks_work_inside_a_blocking_call},
    {"movable_threads_may_block", test_movable_threads_may_block},
    {"workers_leave_undeclared_calls", test_workers_leave_undeclared_calls},
    {"blocking_threads_exchange_bytes", test_blocking_threads_exchange_bytes},
    {"end_takes_all_kernel_threads_away", test_end_takes_all_kernel_threads_away},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    return test_over(end_now);
}
