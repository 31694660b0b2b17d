/* SPDX-License-Identifier: BSD-3-Clause */
/* What moving bytes between two processes of this host costs, and its file, from which sessions choose paths (core/send/policy.h).
 *
 * Two threads on two cores do what two processes do: one copies into memory that the other copies out of, or one reads
 * memory that the other has used.  The best of many rounds counts.  Figures of a busy host, which contradict each
 * other or in which a turn takes longer than in the file, are not kept. */
#include "tools/mad_info.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/costs.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define LEN 16384          /* bytes */
#define BUDGET 60000000    /* ns of each measurement */
#define ROUNDS 4000
#define STOP UINT32_MAX
#define TURNS_MAX 10000 /* ns */
#define PS_MIN 10       /* a byte: 100 GB/s */
#define PS_MAX 10000

typedef struct sides {
    _Alignas(MADI_LINE) _Atomic(uint32_t) asked;
    _Alignas(MADI_LINE) _Atomic(uint32_t) answered;
    unsigned char *from, *between, *to; /* LEN bytes each */
    size_t copied;                      /* into `between` at each question; 0: `from` is read there instead */
    int cpu;
} sides_t;

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* Until the word is another than old. */
static uint32_t word_wait(_Atomic(uint32_t) *word, uint32_t old)
{
    uint32_t now;
    for (int spins = 0; (now = atomic_load_explicit(word, memory_order_acquire)) == old;)
        if (++spins % 1000 == 0)
            sched_yield();
    return now;
}

static void *sender_main(void *arg)
{
    sides_t *s = arg;
    uint32_t asked = 0;
    volatile unsigned char sum = 0;
    bind_to(s->cpu);
    while ((asked = word_wait(&s->asked, asked)) != STOP) {
        memcpy(s->between, s->from, s->copied);
        for (size_t i = 0; !s->copied && i < LEN; i += MADI_LINE)
            sum = (unsigned char)(sum + s->from[i]);
        atomic_store_explicit(&s->answered, asked, memory_order_release);
    }
    return NULL;
}

/* The receiver's part of a round; false: it cannot be done. */
static bool copy_out(sides_t *s, size_t len)
{
    memcpy(s->to, s->between, len);
    __asm__ volatile("" ::"r"(s->to) : "memory"); /* the copy is wanted */
    return true;
}

static bool read_direct(sides_t *s, size_t len)
{
    struct iovec to = {s->to, len}, from = {s->from, len};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)len;
}

/* Best time in ns of a round; whole: with the sender's part.  0: none could be. */
static int64_t best_round(sides_t *s, size_t copied, bool (*part)(sides_t *s, size_t len), size_t len, bool whole)
{
    int64_t end = madi_now() + BUDGET, best = 0;
    uint32_t n = 0;
    pthread_t thread;
    atomic_store(&s->asked, 0);
    atomic_store(&s->answered, 0);
    s->copied = copied;
    if (pthread_create(&thread, NULL, sender_main, s))
        return 0;
    while (n < ROUNDS && madi_now() < end) {
        int64_t before = madi_now(), took;
        atomic_store_explicit(&s->asked, n + 1, memory_order_release);
        n = word_wait(&s->answered, n);
        before = whole ? before : madi_now();
        if (part && !part(s, len))
            break;
        took = madi_now() - before;
        best = !best || took < best ? took : best;
    }
    atomic_store_explicit(&s->asked, STOP, memory_order_release);
    pthread_join(thread, NULL);
    return best;
}

/* The costs; false: others used the cores meanwhile, and the figures contradict each other. */
static bool costs_measure(sides_t *s, madi_costs_t *c)
{
    int64_t turns = best_round(s, 1, NULL, 0, true), copies = best_round(s, LEN, copy_out, LEN, true);
    int64_t little = best_round(s, 0, read_direct, 64, false), much = best_round(s, 0, read_direct, LEN, false);
    int64_t copy = (copies - turns) * 1000 / (2 * LEN), direct = (much - little) * 1000 / LEN;
    if (turns < 2 || turns > TURNS_MAX || copy < PS_MIN || copy > PS_MAX)
        return false;
    *c = (madi_costs_t){.copy_ps = (uint32_t)copy, .turn_ns = (uint32_t)(turns / 2), .copies = 1};
    if (!little || !much) /* not permitted */
        return true;
    c->direct_ns = (uint32_t)little;
    c->direct_ps = (uint32_t)direct;
    return little < TURNS_MAX && direct >= PS_MIN && direct <= PS_MAX;
}

/* Make the folder and its parent, which need not be there. */
static void folder_make(const char *path)
{
    char dir[MADI_COSTS_PATH_MAX];
    for (int up = 2; up >= 1; up--) {
        strcpy(dir, path);
        for (int i = 0; i < up; i++)
            *strrchr(dir, '/') = 0;
        if (dir[0] && mkdir(dir, 0700) && errno != EEXIST)
            return;
    }
}

static json_t *costs_store(const madi_costs_t *c)
{
    char path[MADI_COSTS_PATH_MAX], text[MADI_COSTS_TEXT_MAX], why[256] = "no cache folder: HOME is not set";
    madi_output_t out;
    bool good = madi_costs_path(path);
    if (good) {
        folder_make(path);
        madi_costs_text(c, text);
        good = madi_output_open(&out, path, 0600, false, why, sizeof why) &&
               madi_output_close(&out, fputs(text, out.file) >= 0, why, sizeof why);
    }
    return good ? json_pack("{s:s}", "file", path) : json_pack("{s:s}", "not_kept", why);
}

json_t *madi_info_costs(int first, int last)
{
    sides_t s = {.cpu = last};
    unsigned char *memory = first == last ? NULL : aligned_alloc(4096, 3 * LEN);
    madi_costs_t c, before;
    json_t *out;
    bool good;
    if (!memory)
        return json_object();
    memset(memory, 1, 3 * LEN);
    s.from = memory;
    s.between = memory + LEN;
    s.to = memory + 2 * LEN;
    bind_to(first);
    good = costs_measure(&s, &c);
    free(memory);
    if (madi_costs_load(&before) && (!good || c.turn_ns > before.turn_ns + before.turn_ns / 4))
        c = before;
    else if (!good)
        return json_pack("{s:s}", "not_kept", "the host is busy: try again");
    out = costs_store(&c);
    json_object_update_new(out, json_pack("{s:I, s:I, s:I, s:I}", "copy_ps", (json_int_t)c.copy_ps, "turn_ns",
                                          (json_int_t)c.turn_ns, "direct_ns", (json_int_t)c.direct_ns, "direct_ps",
                                          (json_int_t)c.direct_ps));
    return out;
}
