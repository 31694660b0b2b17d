/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/wait.c: several threads of a process that wait at the same time. */
#include "unit.h"

#include "core/core.h"
#include "marcel/tools.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAITERS 4

typedef struct waiter {
    mad_channel_t *channel;
    pthread_t thread;
    int messages; /* how many to receive */
    long switches; /* how often the thread has slept */
} waiter_t;

static mad_session_t *session;
static waiter_t waiters[WAITERS];

static void *receive(void *arg)
{
    waiter_t *w = arg;
    for (int i = 0; i < w->messages; i++)
        if (mad_end_unpacking(mad_begin_unpacking(w->channel)))
            return NULL;
    return w;
}

static void send_to(mad_channel_t *channel)
{
    ck_assert_int_eq(mad_end_packing(mad_begin_packing(channel, 0)), MAD_OK);
}

/* Open a session of one process with threads that wait, each on its own channel. */
static void begin_with(void *(*run)(void *), int messages)
{
    char name[16];
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    for (int i = 0; i < WAITERS; i++) {
        snprintf(name, sizeof name, "wait%d", i);
        ck_assert_int_eq(mad_channel_open(session, name, &waiters[i].channel), MAD_OK);
        waiters[i].messages = messages;
        ck_assert_int_eq(pthread_create(&waiters[i].thread, NULL, run, &waiters[i]), 0);
    }
}

static void begin(int messages)
{
    begin_with(receive, messages);
}

static void end(void)
{
    void *good;
    for (int i = 0; i < WAITERS; i++) {
        ck_assert_int_eq(pthread_join(waiters[i].thread, &good), 0);
        ck_assert_ptr_nonnull(good);
    }
    mad_exit(session);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- While a handler runs --------------------------------------------------------------------------------------- */

static int64_t elapsed, used;
static sem_t handled;

/* A handler that takes long without using the processor. */
static mad_handled_t slow(mad_channel_t *channel, mad_connection_t *cnx, void *arg)
{
    int64_t begun = clock_ns(CLOCK_MONOTONIC), before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    (void)channel;
    (void)cnx;
    (void)arg;
    poll(NULL, 0, 200);
    used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
    elapsed = clock_ns(CLOCK_MONOTONIC) - begun;
    sem_post(&handled);
    return MAD_CONSUMED;
}

/* The other waiting threads sleep meanwhile, and do not spin because a handler is to be run. */
START_TEST(handler_lets_others_sleep)
{
    mad_channel_t *channel;
    sem_init(&handled, 0, 0);
    begin(1);
    ck_assert_int_eq(mad_channel_open(session, "slow", &channel), MAD_OK);
    ck_assert_int_eq(mad_channel_set_handler(channel, slow, NULL), MAD_OK);
    send_to(channel);
    sem_wait(&handled);
    ck_assert_msg(used < elapsed / 2, "%lld ms of the processor in %lld ms", (long long)used / 1000000,
                  (long long)elapsed / 1000000);
    for (int i = 0; i < WAITERS; i++)
        send_to(waiters[i].channel);
    end();
    sem_destroy(&handled);
}
END_TEST

/* ---- The first waiter's thread runs a handler ------------------------------------------------------------------- */

static sem_t entered, passed, over;
static bool held_up;

/* Return when another thread has received its message. */
static mad_handled_t until_passed(mad_channel_t *channel, mad_connection_t *cnx, void *arg)
{
    struct timespec limit;
    (void)channel;
    (void)cnx;
    (void)arg;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 10;
    sem_post(&entered);
    held_up = sem_timedwait(&passed, &limit);
    sem_post(&over);
    return MAD_CONSUMED;
}

static void *receive_and_pass(void *arg)
{
    mad_status_t status = mad_end_unpacking(mad_begin_unpacking(arg));
    sem_post(&passed);
    return status ? NULL : arg;
}

/* Wait until n threads wait, all but the leader asleep. */
static void until_waiting(int n)
{
    marceli_state_t state;
    do {
        sched_yield();
        marceli_state_get(&state);
    } while (state.inside < n || state.followers < n - 1);
}

/* Two threads wait on the same channel.  The first runs a handler, and a third one leads: the message must go to the
 * second. */
START_TEST(handler_holds_up_nothing)
{
    mad_channel_t *same, *other, *slow_one;
    pthread_t threads[3];
    void *good;
    sem_init(&entered, 0, 0);
    sem_init(&passed, 0, 0);
    sem_init(&over, 0, 0);
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "same", &same), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "other", &other), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "slow", &slow_one), MAD_OK);
    ck_assert_int_eq(mad_channel_set_handler(slow_one, until_passed, NULL), MAD_OK);
    for (int i = 0; i < 3; i++) { /* the last to fall asleep leads first */
        ck_assert_int_eq(pthread_create(&threads[i], NULL, receive_and_pass, i < 2 ? same : other), 0);
        until_waiting(i + 1);
    }
    send_to(slow_one);
    sem_wait(&entered);
    until_waiting(2);
    send_to(same);
    sem_wait(&over);
    send_to(same);
    send_to(other);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &good);
        ck_assert_ptr_nonnull(good);
    }
    mad_exit(session);
    ck_assert(!held_up);
    sem_destroy(&over);
    sem_destroy(&passed);
    sem_destroy(&entered);
}
END_TEST

/* ---- While another thread receives messages --------------------------------------------------------------------- */

#define MESSAGES 300

static sem_t got;

static void *receive_many(void *arg)
{
    for (int i = 0; i < MESSAGES; i++) {
        if (mad_end_unpacking(mad_begin_unpacking(arg)))
            return NULL;
        sem_post(&got);
    }
    return arg;
}

static void *receive_one(void *arg)
{
    waiter_t *w = arg;
    struct rusage usage;
    if (mad_end_unpacking(mad_begin_unpacking(w->channel)))
        return NULL;
    getrusage(RUSAGE_THREAD, &usage);
    w->switches = usage.ru_nvcsw;
    return w;
}

/* A message wakes only the thread that waits for it: all others but the leader stay asleep. */
START_TEST(message_wakes_one)
{
    mad_channel_t *busy;
    pthread_t thread;
    void *good;
    int disturbed = 0;
    sem_init(&got, 0, 0);
    begin_with(receive_one, 1);
    ck_assert_int_eq(mad_channel_open(session, "busy", &busy), MAD_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_many, busy), 0);
    for (int i = 0; i < MESSAGES; i++) {
        poll(NULL, 0, 1); /* lets it wait again, because its waking is tested */
        send_to(busy);
        sem_wait(&got);
    }
    ck_assert_int_eq(pthread_join(thread, &good), 0);
    ck_assert_ptr_nonnull(good);
    for (int i = 0; i < WAITERS; i++)
        send_to(waiters[i].channel);
    end();
    for (int i = 0; i < WAITERS; i++)
        disturbed += waiters[i].switches > MESSAGES / 3;
    ck_assert_msg(disturbed <= 1, "%d threads were woken by messages of another one", disturbed);
    sem_destroy(&got);
}
END_TEST

/* ---- Events that another thread takes --------------------------------------------------------------------------- */

#define ROUNDS 100
#define BURST 40 /* more than one poll handles */

typedef struct talker {
    mad_session_t *session;
    mad_channel_t *aside, *channel;
} talker_t;

static void talker_open(talker_t *t)
{
    ck_assert_int_eq(mad_open("a key for the wait test", 23, &t->session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(t->session, "aside", &t->aside), MAD_OK);
    ck_assert_int_eq(mad_channel_open(t->session, "channel", &t->channel), MAD_OK);
}

typedef struct burst {
    talker_t *from;
    mad_peer_t to;
    _Atomic(int) go;
} burst_t;

/* Send messages that no thread waits for, and then one that a thread waits for. */
static void *send_burst(void *arg)
{
    burst_t *b = arg;
    while (!atomic_load(&b->go))
        sched_yield();
    for (int i = 0; i < BURST; i++)
        mad_end_packing(mad_begin_packing(b->from->aside, b->to));
    mad_end_packing(mad_begin_packing(b->from->channel, b->to));
    return NULL;
}

/* Take the event for which the leader sleeps, if this thread is faster. */
static void rob(mad_session_t *s)
{
    int robbed = 0, received = 0;
    while (!robbed && !received) {
        madi_lock(&s->lock);
        robbed = madi_poll_descriptors(s);
        madi_unlock(&s->lock);
        sem_getvalue(&got, &received);
    }
}

static void *receive_last(void *arg)
{
    bool good = !mad_end_unpacking(mad_begin_unpacking(arg));
    sem_post(&got);
    return good ? arg : NULL;
}

/* While the leader sleeps another thread takes its event, handles a part of the messages, and does not return. */
START_TEST(robbed_leader)
{
    talker_t a, b;
    burst_t burst = {.from = &b};
    pthread_t sender, receiver;
    void *good;
    const void *address;
    size_t len;
    struct timespec limit;
    setenv("MAD_DRIVERS", "shm", 1);
    talker_open(&a);
    talker_open(&b);
    ck_assert_int_eq(mad_address(a.session, &address, &len), MAD_OK);
    ck_assert_int_eq(mad_peer_add(b.session, address, len, &burst.to), MAD_OK);
    sem_init(&got, 0, 0);
    for (int i = 0; i < ROUNDS; i++) {
        atomic_store(&burst.go, 0);
        pthread_create(&sender, NULL, send_burst, &burst);
        pthread_create(&receiver, NULL, receive_last, a.channel);
        while (!atomic_load(&marceli_leader_sleeps))
            sched_yield();
        atomic_store(&burst.go, 1);
        rob(a.session);
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += 10;
        ck_assert_msg(!sem_timedwait(&got, &limit), "round %d: it sleeps on", i);
        pthread_join(receiver, &good);
        ck_assert_ptr_nonnull(good);
        pthread_join(sender, NULL);
        for (int k = 0; k < BURST; k++)
            ck_assert_int_eq(mad_end_unpacking(mad_begin_unpacking(a.aside)), MAD_OK);
    }
    sem_destroy(&got);
    mad_exit(b.session);
    mad_exit(a.session);
}
END_TEST

/* ---- Where the progress thread runs ----------------------------------------------------------------------------- */

#define BIG 65536

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    ck_assert_int_eq(sched_setaffinity(0, sizeof set, &set), 0);
}

static bool is_progress_thread(const char *tid)
{
    char path[64], name[32] = "";
    FILE *file;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", tid);
    file = fopen(path, "r");
    ck_assert(file && fgets(name, sizeof name, file));
    fclose(file);
    return !strcmp(name, "mad-progress\n");
}

/* Return the progress thread's kernel id, or 0 if there is none.  *all: the number of kernel threads. */
static pid_t progress_thread(int *all)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    pid_t found = 0;
    ck_assert_ptr_nonnull(tasks);
    *all = 0;
    while ((entry = readdir(tasks))) {
        if (entry->d_name[0] == '.')
            continue;
        ++*all;
        if (is_progress_thread(entry->d_name)) {
            ck_assert_int_eq(found, 0);
            found = (pid_t)strtol(entry->d_name, NULL, 10);
        }
    }
    closedir(tasks);
    return found;
}

static bool may_use(pid_t tid, int cpu)
{
    cpu_set_t set;
    ck_assert_int_ne(tid, 0);
    ck_assert_int_eq(sched_getaffinity(tid, sizeof set, &set), 0);
    return CPU_ISSET(cpu, &set);
}

/* Leave a receive to the progress thread.  Return true if that thread may run on this processor. */
static bool shares(mad_channel_t *channel, int cpu)
{
    static char from[BIG], to[BIG];
    mad_block_t block = {to, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    mad_connection_t *cnx;
    bool may;
    int all;
    bind_to(cpu);
    ck_assert_int_eq(mad_post_unpacking(channel, 0, &block, 1, &request), MAD_OK);
    while (!atomic_load(&marceli_leader_sleeps))
        sched_yield();
    may = may_use(progress_thread(&all), cpu);
    cnx = mad_begin_packing(channel, 0);
    mad_pack(cnx, from, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    ck_assert_int_eq(mad_end_packing(cnx), MAD_OK);
    ck_assert_int_eq(mad_request_wait(&request, MAD_FOREVER), MAD_OK);
    return may;
}

/* Find two processors that the process may use.  Return false if there is only one. */
static bool two_processors(int cpus[2])
{
    cpu_set_t mine;
    int n = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mine, &mine), 0);
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, &mine))
            cpus[n++] = i;
    return n == 2;
}

/* The progress thread avoids the processor of the thread that begins an operation, and moves when that thread moves. */
START_TEST(progress_elsewhere)
{
    mad_channel_t *channel;
    int cpus[2];
    int64_t limit;
    if (!two_processors(cpus))
        return;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "place", &channel), MAD_OK);
    ck_assert(!shares(channel, cpus[0]));
    limit = clock_ns(CLOCK_MONOTONIC) + INT64_C(10000000000);
    while (shares(channel, cpus[1])) /* the thread may still lead, and so was not woken */
        ck_assert_msg(clock_ns(CLOCK_MONOTONIC) < limit, "it stays where its caller is now");
    mad_exit(session);
}
END_TEST

/* The thread also leaves the processor of a polling thread, although it leads all the time and is not woken. */
START_TEST(progress_aside)
{
    static char to[BIG];
    mad_block_t block = {to, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_channel_t *channel;
    mad_request_t *request;
    int64_t limit = clock_ns(CLOCK_MONOTONIC) + INT64_C(10000000000);
    int cpus[2], all;
    if (!two_processors(cpus))
        return;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "aside", &channel), MAD_OK);
    bind_to(cpus[0]);
    ck_assert_int_eq(mad_post_unpacking(channel, 0, &block, 1, &request), MAD_OK);
    while (!atomic_load(&marceli_leader_sleeps))
        sched_yield();
    bind_to(cpus[1]);
    while (may_use(progress_thread(&all), cpus[1])) {
        ck_assert_int_lt(clock_ns(CLOCK_MONOTONIC), limit);
        mad_progress(session);
    }
    ck_assert_int_eq(mad_request_cancel(request), MAD_OK);
    ck_assert_int_eq(mad_request_wait(&request, MAD_FOREVER), MAD_ERR_CANCELLED);
    mad_exit(session);
}
END_TEST

/* Forbid sched_setaffinity for this process.  Return false if that is impossible. */
static bool forbid_binding(void)
{
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* ---- What the progress thread avoids ---------------------------------------------------------------------------- */

/* A barrier of the progress thread would interrupt computing threads.  So the calling thread marks the leader as asleep
 * for it, and removes the mark when it is not needed. */
START_TEST(said_by_caller)
{
    static char from[BIG], to[BIG];
    mad_block_t block = {to, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    mad_connection_t *cnx;
    mad_channel_t *channel;
    int64_t limit;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "said", &channel), MAD_OK);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(mad_post_unpacking(channel, 0, &block, 1, &request), MAD_OK);
        if (i == 0) /* the thread has only begun; in later rounds it may still lead, and then it is not woken */
            ck_assert_int_ne(atomic_load(&marceli_leader_sleeps), 0);
        cnx = mad_begin_packing(channel, 0);
        mad_pack(cnx, from, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        ck_assert_int_eq(mad_end_packing(cnx), MAD_OK);
        ck_assert_int_eq(mad_request_wait(&request, MAD_FOREVER), MAD_OK);
    }
    limit = clock_ns(CLOCK_MONOTONIC) + INT64_C(10000000000);
    while (atomic_load(&marceli_leader_sleeps))
        ck_assert_msg(clock_ns(CLOCK_MONOTONIC) < limit, "nothing is pending, and still it is said to sleep");
    mad_exit(session);
}
END_TEST

/* A program that polls itself has no progress thread until it asks for one. */
START_TEST(unused)
{
    static char to[BIG];
    mad_block_t block = {to, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    mad_channel_t *channel;
    setenv("MAD_DRIVERS", "self", 1);
    mad_progress_thread(0);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "unused", &channel), MAD_OK);
    for (int used = 0; used < 2; used++) {
        int before, all;
        progress_thread(&before);
        mad_progress_thread(used);
        ck_assert_int_eq(mad_post_unpacking(channel, 0, &block, 1, &request), MAD_OK);
        ck_assert_int_eq(progress_thread(&all) != 0, used);
        ck_assert_int_eq(all, before + used);
        ck_assert_int_eq(mad_request_cancel(request), MAD_OK);
        ck_assert_int_eq(mad_request_wait(&request, MAD_FOREVER), MAD_ERR_CANCELLED);
    }
    mad_exit(session);
}
END_TEST

/* Post a receive, and cancel it. */
static void begin_and_cancel(mad_channel_t *channel)
{
    static char to[BIG];
    mad_block_t block = {to, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    ck_assert_int_eq(mad_post_unpacking(channel, 0, &block, 1, &request), MAD_OK);
    ck_assert_int_eq(mad_request_cancel(request), MAD_OK);
    ck_assert_int_eq(mad_request_wait(&request, MAD_FOREVER), MAD_ERR_CANCELLED);
}

/* If the thread cannot be bound it uses its caller's processors. */
START_TEST(cannot_be_bound)
{
    mad_channel_t *channel;
    int all;
    if (!forbid_binding())
        return;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "anywhere", &channel), MAD_OK);
    begin_and_cancel(channel);
    ck_assert_int_ne(progress_thread(&all), 0);
    mad_exit(session);
}
END_TEST

#if defined(MADI_TOOLS_ASAN) || defined(MADI_TOOLS_TSAN)
enum { NEEDS_ROOM = 1 }; /* sanitizers need more memory at any time */
#else
enum { NEEDS_ROOM = 0 };
#endif

/* Without memory for its stack there is no progress thread.  One log line says so, each operation tries again, and the
 * thread starts when there is memory. */
START_TEST(cannot_be_made)
{
    struct rlimit limit, none;
    mad_channel_t *channel;
    const char *said;
    int all;
    if (NEEDS_ROOM)
        return;
    setenv("MAD_DRIVERS", "self", 1);
    mad_progress_thread(0);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "no room", &channel), MAD_OK);
    begin_and_cancel(channel); /* allocates the memory that later calls need */
    mad_progress_thread(1);
    err_keep();
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
    for (int i = 0; i < 3; i++)
        begin_and_cancel(channel);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    said = strstr(err_text(), "no progress thread: ");
    ck_assert_ptr_nonnull(said);
    ck_assert_ptr_null(strstr(said + 1, "no progress thread: "));
    ck_assert_int_eq(progress_thread(&all), 0);
    begin_and_cancel(channel);
    ck_assert_int_ne(progress_thread(&all), 0);
    mad_exit(session);
}
END_TEST

Suite *wait_suite(void)
{
    const TTest *tests[] = {handler_lets_others_sleep, handler_holds_up_nothing, message_wakes_one, robbed_leader,
                            progress_elsewhere, progress_aside, said_by_caller, unused, cannot_be_bound, cannot_be_made};
    return SUITE_OF("wait", tests);
}
