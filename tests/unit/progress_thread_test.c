/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the progress thread: where it runs, which processors it avoids, and what happens when it cannot run. */
#include "unit.h"

#include "base/clock.h"
#include "core/core.h"
#include "marcel/sanitizer.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <madeleine/runtime.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static mad_session_t *session;

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
    mad_message_t *message;
    bool may;
    int all;
    bind_to(cpu);
    ck_assert_int_eq(mad_message_receive(channel, 0, &block, 1, &request), MAD_OK);
    while (!atomic_load(&marceli_leader_sleeps))
        sched_yield();
    may = may_use(progress_thread(&all), cpu);
    message = mad_begin_packing(channel, 0);
    mad_pack(message, from, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    ck_assert_int_eq(mad_end_packing(message), MAD_OK);
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
START_TEST(thread_avoids_the_processor_of_its_waker)
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
    limit = madi_now() + INT64_C(10000000000);
    while (shares(channel, cpus[1])) /* the thread may still lead, and so was not woken */
        ck_assert_msg(madi_now() < limit, "it stays where its caller is now");
    mad_exit(session);
}
END_TEST

/* The progress thread also leaves the processor of a polling thread, although it leads all the time and is not woken. */
START_TEST(thread_leaves_the_processor_of_a_poller)
{
    static char to[BIG];
    mad_block_t block = {to, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_channel_t *channel;
    mad_request_t *request;
    int64_t limit = madi_now() + INT64_C(10000000000);
    int cpus[2], all;
    if (!two_processors(cpus))
        return;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "aside", &channel), MAD_OK);
    bind_to(cpus[0]);
    ck_assert_int_eq(mad_message_receive(channel, 0, &block, 1, &request), MAD_OK);
    while (!atomic_load(&marceli_leader_sleeps))
        sched_yield();
    bind_to(cpus[1]);
    while (may_use(progress_thread(&all), cpus[1])) {
        ck_assert_int_lt(madi_now(), limit);
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
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* ---- The progress thread's processor ---------------------------------------------------------------------------- */

/* A memory barrier that the progress thread executes would interrupt computing threads.  So the calling thread marks the
 * leader as asleep on its behalf, and removes the mark when it is not needed. */
START_TEST(sleep_is_announced_by_the_waker)
{
    static char from[BIG], to[BIG];
    mad_block_t block = {to, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    mad_message_t *message;
    mad_channel_t *channel;
    int64_t limit;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "said", &channel), MAD_OK);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(mad_message_receive(channel, 0, &block, 1, &request), MAD_OK);
        if (i == 0) /* in later rounds the thread may still lead, and is then not woken */
            ck_assert_int_ne(atomic_load(&marceli_leader_sleeps), 0);
        message = mad_begin_packing(channel, 0);
        mad_pack(message, from, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        ck_assert_int_eq(mad_end_packing(message), MAD_OK);
        ck_assert_int_eq(mad_request_wait(&request, MAD_FOREVER), MAD_OK);
    }
    limit = madi_now() + INT64_C(10000000000);
    while (atomic_load(&marceli_leader_sleeps))
        ck_assert_msg(madi_now() < limit, "nothing is pending, and still it is said to sleep");
    mad_exit(session);
}
END_TEST

/* A program that polls has no progress thread until it requests one. */
START_TEST(thread_is_not_made_for_a_poller)
{
    static char to[BIG];
    mad_block_t block = {to, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    mad_channel_t *channel;
    setenv("MAD_DRIVERS", "self", 1);
    mad_progress_thread_set(0);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "unused", &channel), MAD_OK);
    for (int used = 0; used < 2; used++) {
        int before, all;
        progress_thread(&before);
        mad_progress_thread_set(used);
        ck_assert_int_eq(mad_message_receive(channel, 0, &block, 1, &request), MAD_OK);
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
    ck_assert_int_eq(mad_message_receive(channel, 0, &block, 1, &request), MAD_OK);
    ck_assert_int_eq(mad_request_cancel(request), MAD_OK);
    ck_assert_int_eq(mad_request_wait(&request, MAD_FOREVER), MAD_ERR_CANCELLED);
}

/* A progress thread that cannot be bound uses the processors of the thread that created it. */
START_TEST(thread_not_bound_still_runs)
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

#if defined(MADI_SANITIZER_ASAN) || defined(MADI_SANITIZER_TSAN)
enum { NEEDS_ROOM = 1 }; /* sanitizers need more memory at all times */
#else
enum { NEEDS_ROOM = 0 };
#endif

/* Without memory for its stack the progress thread does not start.  One log line reports this, each operation tries again,
 * and the thread starts when there is memory. */
START_TEST(thread_not_made_is_tried_again)
{
    struct rlimit limit, none;
    mad_channel_t *channel;
    const char *said;
    int all;
    if (NEEDS_ROOM)
        return;
    setenv("MAD_DRIVERS", "self", 1);
    mad_progress_thread_set(0);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "no room", &channel), MAD_OK);
    begin_and_cancel(channel); /* this call allocates the memory that later calls need */
    mad_progress_thread_set(1);
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

Suite *progress_thread_suite(void)
{
    const TTest *tests[] = {
        thread_avoids_the_processor_of_its_waker,
        thread_leaves_the_processor_of_a_poller,
        sleep_is_announced_by_the_waker,
        thread_is_not_made_for_a_poller,
        thread_not_bound_still_runs,
        thread_not_made_is_tried_again,
    };
    return SUITE_OF("progress_thread", tests);
}
