/* SPDX-License-Identifier: BSD-3-Clause */
/* Calibration of this host: cache lines between cores, copies, wake-ups, system calls.  Each measurement has a
 * time budget, so a busy host makes the figures worse but does not prolong the measurement. */
#include "tools/mad_info.h"

#include "base/base.h"
#include "base/clock.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BUDGET 120000000 /* ns per measurement */
#define SAMPLES 2000
#define BATCH 500 /* cache-line round trips per sample */

typedef struct sample_stats {
    double best, median;
} sample_stats_t;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static sample_stats_t samples_stats(double *samples, int n)
{
    if (!n)
        return (sample_stats_t){0, 0};
    qsort(samples, (size_t)n, sizeof *samples, by_value);
    return (sample_stats_t){samples[0], samples[n / 2]};
}

static void thread_pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* ---- Messages between two threads -------------------------------------------------------------------------------- */

/* Each thread counts its messages on its own cache line.  Thread 0 sends, thread 1 answers until it receives STOP. */
#define STOP UINT32_MAX
typedef struct core_note {
    _Alignas(128) _Atomic(uint32_t) count;
} core_note_t;

typedef struct core_pair {
    core_note_t said[2];
    int cpu;      /* processor on which thread 1 runs */
    int bells[2]; /* eventfds watched by epolls, for wake-ups by eventfd */
    int epolls[2];
    void (*wait)(struct core_pair *pair, int me);
    void (*ring)(struct core_pair *pair, int me); /* wakes the other thread */
} core_pair_t;

static uint32_t note_await(core_pair_t *p, int me)
{
    return atomic_load_explicit(&p->said[!me].count, memory_order_acquire); /* this load pairs with the store in note_send */
}

/* Wait until the other thread's count differs from `old`, and return it. */
static uint32_t note_wait_changed(core_pair_t *p, int me, uint32_t old)
{
    while (note_await(p, me) == old)
        if (p->wait)
            p->wait(p, me);
    return note_await(p, me);
}

static void note_send(core_pair_t *p, int me, uint32_t count)
{
    atomic_store_explicit(&p->said[me].count, count, memory_order_release);
    if (p->ring)
        p->ring(p, me);
}

static void wait_futex(core_pair_t *p, int me)
{
    uint32_t mine = atomic_load_explicit(&p->said[me].count, memory_order_relaxed);
    uint32_t old = me ? mine : mine - 1; /* count of the other thread before it continues */
    syscall(SYS_futex, &p->said[!me].count, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}

static void ring_futex(core_pair_t *p, int me)
{
    syscall(SYS_futex, &p->said[me].count, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wait_eventfd(core_pair_t *p, int me)
{
    struct epoll_event e;
    uint64_t n;
    if (epoll_wait(p->epolls[me], &e, 1, -1) > 0 && read(p->bells[me], &n, sizeof n) < 0)
        return;
}

static void ring_eventfd(core_pair_t *p, int me)
{
    uint64_t one = 1;
    if (write(p->bells[!me], &one, sizeof one) < 0)
        return;
}

static void *pair_answer(void *arg)
{
    core_pair_t *p = arg;
    uint32_t count = 0;
    thread_pin(p->cpu);
    while ((count = note_wait_changed(p, 1, count)) != STOP)
        note_send(p, 1, count);
    return NULL;
}

/* Measure the one-way time in ns: half a round trip from this thread, on core from, to one on core to. */
static sample_stats_t pair_exchange(core_pair_t *p, int from, int to, int batch)
{
    static double samples[SAMPLES];
    int64_t end = madi_now() + BUDGET;
    uint32_t count = 0;
    pthread_t thread;
    int n = 0;
    p->cpu = to;
    thread_pin(from);
    if (pthread_create(&thread, NULL, pair_answer, p))
        return (sample_stats_t){0, 0};
    while (n < SAMPLES && madi_now() < end) {
        int64_t before = madi_now();
        for (int i = 0; i < batch; i++) {
            note_send(p, 0, count + 1);
            count = note_wait_changed(p, 0, count);
        }
        samples[n++] = (double)(madi_now() - before) / (2.0 * batch);
    }
    note_send(p, 0, STOP);
    pthread_join(thread, NULL);
    return samples_stats(samples, n);
}

/* ---- Cores ------------------------------------------------------------------------------------------------------ */

static long long cpu_topology(int cpu, const char *what)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
    return madi_info_file_number(path, -1);
}

enum relation { SAME_CORE, SAME_PACKAGE, OTHER_PACKAGE, RELATIONS };

static enum relation cpu_relation(int a, int b)
{
    if (cpu_topology(a, "physical_package_id") != cpu_topology(b, "physical_package_id"))
        return OTHER_PACKAGE;
    return cpu_topology(a, "core_id") == cpu_topology(b, "core_id") ? SAME_CORE : SAME_PACKAGE;
}

/* Measure one pair of cores of each kind. */
static json_t *lines_measure(const cpu_set_t *allowed, int first)
{
    static const char *const names[] = {"same core", "same package", "other package"};
    json_t *list = json_array();
    bool done[RELATIONS] = {false};
    for (int cpu = first + 1; cpu < CPU_SETSIZE; cpu++) {
        core_pair_t p = {.cpu = cpu};
        enum relation r;
        sample_stats_t s;
        if (!CPU_ISSET(cpu, allowed) || done[r = cpu_relation(first, cpu)])
            continue;
        done[r] = true;
        s = pair_exchange(&p, first, cpu, BATCH);
        json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:f, s:f}", "from", first, "to", cpu, "relation", names[r],
                                              "best_ns", s.best, "median_ns", s.median));
    }
    return list;
}

static json_t *wakes_measure(int from, int to)
{
    json_t *list = json_array();
    core_pair_t futex = {.wait = wait_futex, .ring = ring_futex}, bell = {.wait = wait_eventfd, .ring = ring_eventfd};
    struct epoll_event e = {.events = EPOLLIN};
    sample_stats_t s = pair_exchange(&futex, from, to, 1);
    json_array_append_new(
        list, json_pack("{s:s, s:f, s:f}", "by", "futex", "best_us", s.best / 1000, "median_us", s.median / 1000));
    for (int i = 0; i < 2; i++) {
        bell.bells[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        bell.epolls[i] = epoll_create1(EPOLL_CLOEXEC);
        if (epoll_ctl(bell.epolls[i], EPOLL_CTL_ADD, bell.bells[i], &e))
            return list; /* no descriptors are left; those of this list are not closed, because the process ends soon */
    }
    s = pair_exchange(&bell, from, to, 1);
    json_array_append_new(list, json_pack("{s:s, s:f, s:f}", "by", "eventfd in epoll", "best_us", s.best / 1000, "median_us",
                                          s.median / 1000));
    for (int i = 0; i < 2; i++) {
        close(bell.bells[i]);
        close(bell.epolls[i]);
    }
    return list;
}

/* ---- One core --------------------------------------------------------------------------------------------------- */

static json_t *copies_measure(void)
{
    static const size_t sizes[] = {32 << 10, 1 << 20, 32 << 20};
    size_t most = sizes[MADI_COUNT(sizes) - 1];
    char *from = malloc(most), *to = malloc(most);
    json_t *list = json_array();
    if (from && to) {
        memset(from, 1, most);
        memset(to, 2, most);
    }
    for (size_t i = 0; i < MADI_COUNT(sizes) && from && to; i++) {
        int64_t end = madi_now() + BUDGET / 2;
        double best = 1e30;
        do {
            int64_t before = madi_now();
            for (size_t done = 0; done < 1 << 20; done += sizes[i]) {
                memcpy(to, from, sizes[i]);
                __asm__ volatile("" ::"r"(to) : "memory"); /* keeps the copy */
            }
            double ns = (double)(madi_now() - before) / (sizes[i] < 1 << 20 ? (1 << 20) / (double)sizes[i] : 1);
            best = ns < best ? ns : best;
        } while (madi_now() < end);
        json_array_append_new(list,
                              json_pack("{s:I, s:f}", "bytes", (json_int_t)sizes[i], "MBs", (double)sizes[i] / best * 1000));
    }
    free(from);
    free(to);
    return list;
}

static void call_system(void)
{
    syscall(SYS_getppid);
}

static void call_clock(void)
{
    madi_now();
}

/* Return the ns per call in the best of many batches. */
static double call_cost(void (*call)(void))
{
    double best = 1e30;
    for (int batch = 0; batch < 100; batch++) {
        int64_t before = madi_now();
        double ns;
        for (int i = 0; i < 200; i++)
            call();
        ns = (double)(madi_now() - before) / 200;
        best = ns < best ? ns : best;
    }
    return best;
}

static void cpu_model(char *name, size_t len)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(name, len, "unknown processor");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            line[strcspn(line, "\n")] = 0;
            snprintf(name, len, "%s", strchr(line, ':') + 2);
            break;
        }
    if (f)
        fclose(f);
}

json_t *madi_info_calibrate(void)
{
    cpu_set_t allowed;
    char name[128];
    int first = 0, last = 0;
    json_t *out;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    while (first < CPU_SETSIZE - 1 && !CPU_ISSET(first, &allowed))
        first++;
    for (int i = 0; i < CPU_SETSIZE; i++)
        last = CPU_ISSET(i, &allowed) ? i : last;
    cpu_model(name, sizeof name);
    out = json_pack("{s:s, s:i, s:o, s:o, s:o, s:f, s:f, s:o}", "processor", name, "cores", CPU_COUNT(&allowed), "lines",
                    lines_measure(&allowed, first), "wakes", wakes_measure(first, last), "copies", copies_measure(),
                    "syscall_ns", call_cost(call_system), "clock_ns", call_cost(call_clock), "costs",
                    madi_info_costs(first, last));
    sched_setaffinity(0, sizeof allowed, &allowed);
    return out;
}
