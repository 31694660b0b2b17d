/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/costs.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/file.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define LEN 65536       /* bytes of a long block */
#define COPIED 16384    /* bytes of a block that is copied, as a whole or in pieces */
#define PIECE 4096      /* bytes copied at a time if both sides copy */
#define SLOTS 4         /* places in the memory between the two sides, used in turn */
#define BUDGET 10000000 /* ns of each measurement */
#define ROUNDS 4000
#define STOP UINT32_MAX
#define TURNS_MAX 10000 /* ns: maximum time of a round trip that is believed */
#define PS_MIN 5        /* ps a byte: shortest time that is believed; 200 GB/s */
#define PS_MAX 10000

/* The two sides of a measurement.  The receiver requests a round, the sender answers, and each does its part of a round. */
typedef struct sides {
    _Alignas(MADI_LINE) _Atomic(uint32_t) asked;
    _Alignas(MADI_LINE) _Atomic(uint32_t) answered;
    _Alignas(MADI_LINE) _Atomic(size_t) filled; /* bytes of this round's block that the sender has copied */
    unsigned char *from, *to;                   /* LEN bytes each */
    unsigned char *between;                     /* SLOTS times LEN bytes */
    void (*send)(struct sides *sides, uint32_t round);
    bool (*receive)(struct sides *sides, uint32_t round, size_t len); /* returns false if the operation is impossible */
    int cpu;
} sides_t;

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* Wait until the word differs from old; return its new value. */
static uint32_t word_wait(_Atomic(uint32_t) *word, uint32_t old)
{
    uint32_t now;
    for (int spins = 0; (now = atomic_load_explicit(word, memory_order_acquire)) == old;)
        if (++spins % 1000 == 0)
            sched_yield();
    return now;
}

static unsigned char *round_slot(const sides_t *s, uint32_t round)
{
    return s->between + round % SLOTS * LEN;
}

static void round_answer(sides_t *s, uint32_t round)
{
    atomic_store_explicit(&s->answered, round, memory_order_release);
}

static void *sender_main(void *arg)
{
    sides_t *s = arg;
    uint32_t asked = 0;
    bind_to(s->cpu);
    while ((asked = word_wait(&s->asked, asked)) != STOP)
        s->send(s, asked);
    return NULL;
}

/* ---- The parts of both sides ---------------------------------------------------------------------------------- */

static bool receive_nothing(sides_t *s, uint32_t round, size_t len)
{
    (void)len;
    word_wait(&s->answered, round - 1);
    return true;
}

static void send_copy(sides_t *s, uint32_t round)
{
    memcpy(round_slot(s, round), s->from, COPIED);
    round_answer(s, round);
}

static bool receive_copy(sides_t *s, uint32_t round, size_t len)
{
    word_wait(&s->answered, round - 1);
    memcpy(s->to, round_slot(s, round), len);
    __asm__ volatile("" ::"r"(s->to) : "memory"); /* keep the compiler from leaving out the copy */
    return true;
}

static void send_in_pieces(sides_t *s, uint32_t round)
{
    round_answer(s, round);
    for (size_t done = 0; done < COPIED;) {
        memcpy(round_slot(s, round) + done, s->from + done, PIECE);
        done += PIECE;
        atomic_store_explicit(&s->filled, done, memory_order_release);
    }
}

static bool receive_in_pieces(sides_t *s, uint32_t round, size_t len)
{
    word_wait(&s->answered, round - 1);
    for (size_t done = 0; done < len; done += PIECE) {
        for (int spins = 0; atomic_load_explicit(&s->filled, memory_order_acquire) < done + PIECE;)
            if (++spins % 1000 == 0)
                sched_yield();
        memcpy(s->to + done, round_slot(s, round) + done, PIECE);
    }
    atomic_store_explicit(&s->filled, 0, memory_order_relaxed); /* published by the store with which the next round begins */
    return true;
}

/* Act as a sender that has used the block, so that it lies in the sender's cache. */
static void send_used(sides_t *s, uint32_t round)
{
    volatile unsigned char sum = 0;
    for (size_t i = 0; i < LEN; i += MADI_LINE)
        sum = (unsigned char)(sum + s->from[i]);
    round_answer(s, round);
}

static bool is_read(void *to, void *from, size_t len)
{
    struct iovec here = {to, len}, there = {from, len};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)len;
}

static bool receive_read(sides_t *s, uint32_t round, size_t len)
{
    word_wait(&s->answered, round - 1);
    return is_read(s->to, s->from, len);
}

static void send_half(sides_t *s, uint32_t round)
{
    struct iovec here = {s->from + LEN / 2, LEN / 2}, there = {s->to + LEN / 2, LEN / 2};
    if (process_vm_writev(getpid(), &here, 1, &there, 1, 0) != LEN / 2)
        s->from[0] = 0; /* the receiver's half is refused too, so the receiver notices */
    round_answer(s, round);
}

static bool receive_half(sides_t *s, uint32_t round, size_t len)
{
    bool done = is_read(s->to, s->from, len / 2);
    word_wait(&s->answered, round - 1);
    return done;
}

/* ---- Measuring ------------------------------------------------------------------------------------------------ */

static int by_time(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

uint32_t madi_costs_quarter(uint32_t *took, size_t n)
{
    qsort(took, n, sizeof *took, by_time);
    return n ? took[n / 4] : 0;
}

/* Return the time of a round in ns that a quarter of the rounds do not exceed.  after_answer: measure only the
 * receiver's part after the answer.  Return 0 if the operation is impossible. */
static int64_t round_time(sides_t *s, size_t len, bool after_answer)
{
    int64_t end = madi_now() + BUDGET;
    uint32_t took[ROUNDS], n = 0;
    pthread_t thread;
    atomic_store(&s->asked, 0);
    atomic_store(&s->answered, 0);
    atomic_store(&s->filled, 0);
    if (pthread_create(&thread, NULL, sender_main, s))
        return 0;
    while (n < ROUNDS && madi_now() < end) {
        int64_t before = madi_now();
        atomic_store_explicit(&s->asked, n + 1, memory_order_release);
        if (after_answer) {
            word_wait(&s->answered, n);
            before = madi_now();
        }
        if (!s->receive(s, n + 1, len))
            break;
        took[n++] = (uint32_t)(madi_now() - before);
    }
    atomic_store_explicit(&s->asked, STOP, memory_order_release);
    pthread_join(thread, NULL);
    return madi_costs_quarter(took, n);
}

static int64_t measure(sides_t *s, void (*send)(sides_t *, uint32_t), bool (*receive)(sides_t *, uint32_t, size_t),
                       size_t len)
{
    s->send = send;
    s->receive = receive;
    return round_time(s, len, send == send_used);
}

static bool is_rate(int64_t ps)
{
    return ps >= PS_MIN && ps <= PS_MAX;
}

/* Measure the costs.  Return false if the figures contradict each other, because other processes used the cores
 * meanwhile. */
static bool sides_measure(sides_t *s, madi_costs_t *c)
{
    int64_t turns = measure(s, round_answer, receive_nothing, 0), copies = measure(s, send_copy, receive_copy, COPIED);
    int64_t pipe = (measure(s, send_in_pieces, receive_in_pieces, COPIED) - turns) * 1000 / (COPIED + PIECE);
    int64_t little = measure(s, send_used, receive_read, 64), much = measure(s, send_used, receive_read, LEN);
    int64_t half = measure(s, send_half, receive_half, LEN);
    int64_t copy = (copies - turns) * 1000 / (2 * COPIED), direct = (much - little) * 1000 / LEN;
    int64_t both = (half - turns - little) * 1000 / LEN;
    if (turns < 2 || turns > TURNS_MAX || !is_rate(copy) || !is_rate(pipe))
        return false;
    *c = (madi_costs_t){.copy_ps = (uint32_t)copy, .turn_ns = (uint32_t)(turns / 2), .pipe_ps = (uint32_t)pipe, .runs = 1};
    if (!little || !much || !half) /* not permitted */
        return true;
    c->direct_ns = (uint32_t)little;
    c->direct_ps = (uint32_t)direct;
    c->both_ps = (uint32_t)both;
    return little < TURNS_MAX && is_rate(direct) && is_rate(both);
}

static bool times_agree(uint32_t a, uint32_t b)
{
    return a <= b + b / 2 && b <= a + a / 2;
}

/* Measure twice: a disturbance that lasts for a whole measurement is unlikely to come again. */
static bool sides_measure_twice(sides_t *s, madi_costs_t *c)
{
    madi_costs_t again;
    return sides_measure(s, c) && sides_measure(s, &again) && times_agree(c->turn_ns, again.turn_ns) &&
           times_agree(c->copy_ps, again.copy_ps) && times_agree(c->pipe_ps, again.pipe_ps) &&
           times_agree(c->direct_ns, again.direct_ns) && times_agree(c->direct_ps, again.direct_ps) &&
           times_agree(c->both_ps, again.both_ps);
}

bool madi_costs_measure(int first, int last, madi_costs_t *costs)
{
    sides_t s = {.cpu = last};
    unsigned char *memory = first == last ? NULL : aligned_alloc(4096, (2 + SLOTS) * LEN);
    cpu_set_t allowed;
    bool good;
    if (!memory)
        return false;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    memset(memory, 1, (2 + SLOTS) * LEN);
    s.from = memory;
    s.to = memory + LEN;
    s.between = memory + (size_t)2 * LEN;
    bind_to(first);
    good = sides_measure_twice(&s, costs);
    if (good)
        madi_costs_measure_tcp(last, costs);
    sched_setaffinity(0, sizeof allowed, &allowed);
    free(memory);
    return good;
}

/* ---- The file ------------------------------------------------------------------------------------------------- */

/* Create the file's folder and its parent if they are missing.  Return false if the file cannot be written there. */
static bool folder_make(const char *path)
{
    char dir[MADI_COSTS_PATH_MAX];
    for (int up = 2; up >= 1; up--) {
        strcpy(dir, path);
        for (int i = 0; i < up; i++) {
            char *slash = strrchr(dir, '/');
            if (slash)
                *slash = 0;
        }
        if (dir[0] && mkdir(dir, 0700) && errno != EEXIST)
            return false;
    }
    return !strchr(path, '/') || access(dir, W_OK) == 0;
}

static const char *given(void)
{
    return madi_env("MAD_COSTS");
}

bool madi_costs_store(const madi_costs_t *costs, char path[MADI_COSTS_PATH_MAX], char *why, size_t len)
{
    char text[MADI_COSTS_TEXT_MAX];
    madi_output_t out;
    snprintf(why, len, "no cache folder: HOME is not set, or MAD_COSTS is none");
    if (!madi_costs_path(given(), path))
        return false;
    folder_make(path);
    madi_costs_text(costs, text);
    return madi_output_open(&out, path, 0600, false, why, len) &&
           madi_output_close(&out, fputs(text, out.file) >= 0, why, len);
}

void madi_costs_provide(void)
{
    char path[MADI_COSTS_PATH_MAX], why[256];
    madi_costs_t kept = {0}, costs;
    cpu_set_t allowed;
    int first = CPU_SETSIZE, last = 0;
    CPU_ZERO(&allowed);
    madi_costs_load(given(), &kept);
    if (kept.runs >= MADI_COSTS_RUNS || !madi_costs_path(given(), path) || !folder_make(path) ||
        sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &allowed))
            continue;
        first = i < first ? i : first;
        last = i;
    }
    if (first >= last || !madi_costs_measure(first, last, &costs))
        return;
    costs = madi_costs_least(&kept, &costs);
    madi_costs_store(&costs, path, why, sizeof why);
}
