/* SPDX-License-Identifier: BSD-3-Clause */
/* The floor of large messages in shared memory: a ping-pong between two processes whose buffers come from malloc.
 * All methods are tried: a ring of shared slots (copy in, copy out, pipelined), with several sizes of rings and slots and
 * several methods of copying; process_vm_readv by the receiver; process_vm_writev by the sender; both at once, each for a
 * half.
 *
 * The size of the whole ring matters more than the slots': a slot that is written again while its lines are still in
 * the receiver's private cache costs a transfer between cores; one that was evicted to the shared cache does not.
 *
 * For each size every method is tried briefly, then the best few are measured by the rules; the best is the floor.
 * With RAW_COPY_KEEP the best few are kept between runs.
 * The parent decides and times; the child obeys the orders that the parent leaves in shared memory. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "pair.h"

#define LINE 128
#define RING_MAX ((size_t)8 << 20) /* limit of chunk * slots, in bytes */
#define WAYS_MAX 1024
#define FINALISTS 3

typedef void (*copy_t)(void *to, const void *from, size_t len);
typedef enum kind { RING, VM_READ, VM_WRITE, VM_SPLIT } kind_t;

typedef struct way {
    kind_t kind;
    size_t chunk;
    unsigned slots;
    int in, out; /* indices in copies[] */
} way_t;

/* One direction.  The sender writes head, the receiver tail; the rest is the rendezvous of the vm methods. */
typedef struct lane {
    _Alignas(LINE) atomic_uint_fast64_t head;
    _Alignas(LINE) atomic_uint_fast64_t tail;
    _Alignas(LINE) uint64_t from;
    atomic_uint_fast64_t ready; /* number of messages whose address the sender has published */
    _Alignas(LINE) uint64_t into;
    atomic_uint_fast64_t wanted; /* number of messages whose address the receiver has published */
    _Alignas(LINE) atomic_uint_fast64_t read_done;
    _Alignas(LINE) atomic_uint_fast64_t written_done;
} lane_t;

typedef struct shared {
    lane_t lanes[2];
    _Alignas(LINE) atomic_uint_fast64_t order; /* grows by one with each new order */
    way_t way;
    size_t size;
    int iterations; /* 0: the child ends */
    _Alignas(LINE) atomic_uint_fast64_t finished;
    _Alignas(LINE) atomic_int failed; /* errno of the failure; 0: none */
    _Alignas(4096) char rings[2][RING_MAX];
} shared_t;

typedef struct self {
    shared_t *shared;
    int rank;
    pid_t peer;
    size_t size;
    const way_t *way;
    char *send, *receive;
    uint64_t heads[2], tails[2], turns[2];
} self_t;

/* ---- Methods of copying --------------------------------------------------------------------------------------- */

static void copy_plain(void *to, const void *from, size_t len)
{
    memcpy(to, from, len);
}

#if defined(__x86_64__)
static void copy_movsb(void *to, const void *from, size_t len)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(len) : : "memory");
}

/* Copy with non-temporal stores; `to` is aligned (a slot), len may be anything. */
static void copy_stream(void *to, const void *from, size_t len)
{
    size_t i = 0;
    for (; i + 16 <= len; i += 16)
        _mm_stream_si128((__m128i *)((char *)to + i), _mm_loadu_si128((const __m128i *)((const char *)from + i)));
    memcpy((char *)to + i, (const char *)from + i, len - i);
    _mm_sfence();
}

__attribute__((target("avx2"))) static void copy_avx(void *to, const void *from, size_t len)
{
    char *t = to;
    const char *f = from;
    for (; len >= 128; len -= 128, t += 128, f += 128) {
        __m256i a = _mm256_loadu_si256((const __m256i *)f), b = _mm256_loadu_si256((const __m256i *)(f + 32));
        __m256i c = _mm256_loadu_si256((const __m256i *)(f + 64)), d = _mm256_loadu_si256((const __m256i *)(f + 96));
        _mm256_storeu_si256((__m256i *)t, a);
        _mm256_storeu_si256((__m256i *)(t + 32), b);
        _mm256_storeu_si256((__m256i *)(t + 64), c);
        _mm256_storeu_si256((__m256i *)(t + 96), d);
    }
    memcpy(t, f, len);
}

__attribute__((target("avx512f"))) static void copy_avx512(void *to, const void *from, size_t len)
{
    char *t = to;
    const char *f = from;
    for (; len >= 256; len -= 256, t += 256, f += 256) {
        __m512i a = _mm512_loadu_si512(f), b = _mm512_loadu_si512(f + 64);
        __m512i c = _mm512_loadu_si512(f + 128), d = _mm512_loadu_si512(f + 192);
        _mm512_storeu_si512(t, a);
        _mm512_storeu_si512(t + 64, b);
        _mm512_storeu_si512(t + 128, c);
        _mm512_storeu_si512(t + 192, d);
    }
    memcpy(t, f, len);
}

static bool has_avx(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
#endif

static bool always(void)
{
    return true;
}

static const struct {
    const char *name;
    copy_t copy;
    bool (*usable)(void);
    bool in, out;             /* true: worth trying in this direction */
    bool brief_in, brief_out; /* true: worth trying even if not thorough */
} copies[] = {
    {"memcpy", copy_plain, always, true, true, true, true},
#if defined(__x86_64__)
    {"movsb", copy_movsb, always, true, true, false, false}, {"stream", copy_stream, always, true, false, true, false},
    {"avx", copy_avx, has_avx, false, true, false, true},    {"avx512", copy_avx512, has_avx512, true, false, false, false},
#endif
};
#define N_COPIES ((int)(sizeof copies / sizeof *copies))

/* ---- One message ---------------------------------------------------------------------------------------------- */

static void until(atomic_uint_fast64_t *count, uint64_t value)
{
    while (atomic_load_explicit(count, memory_order_acquire) < value)
        ;
}

static void ring_send(self_t *s, lane_t *lane, int l)
{
    const way_t *w = s->way;
    for (size_t at = 0; at < s->size || !at; at += w->chunk) {
        size_t len = s->size - at < w->chunk ? s->size - at : w->chunk;
        if (s->heads[l] >= w->slots)
            until(&lane->tail, s->heads[l] - w->slots + 1);
        copies[w->in].copy(s->shared->rings[l] + (s->heads[l] % w->slots) * w->chunk, s->send + at, len);
        atomic_store_explicit(&lane->head, ++s->heads[l], memory_order_release);
    }
}

static void ring_receive(self_t *s, lane_t *lane, int l)
{
    const way_t *w = s->way;
    for (size_t at = 0; at < s->size || !at; at += w->chunk) {
        size_t len = s->size - at < w->chunk ? s->size - at : w->chunk;
        until(&lane->head, s->tails[l] + 1);
        copies[w->out].copy(s->receive + at, s->shared->rings[l] + (s->tails[l] % w->slots) * w->chunk, len);
        atomic_store_explicit(&lane->tail, ++s->tails[l], memory_order_release);
    }
}

/* Move len bytes completely, in whole pieces; 0 or the errno. */
static int vm_move(self_t *s, int write, uint64_t theirs, char *ours, size_t len)
{
    while (len) {
        struct iovec here = {ours, len}, there = {(void *)(uintptr_t)theirs, len};
        ssize_t n =
            write ? process_vm_writev(s->peer, &here, 1, &there, 1, 0) : process_vm_readv(s->peer, &here, 1, &there, 1, 0);
        if (n <= 0) {
            atomic_store(&s->shared->failed, n ? errno : EIO);
            return -1;
        }
        ours += n, theirs += (uint64_t)n, len -= (size_t)n;
    }
    return 0;
}

/* Return the length of the part that the receiver reads; the sender writes the rest. */
static size_t vm_read_part(const self_t *s)
{
    switch (s->way->kind) {
    case VM_READ: return s->size;
    case VM_WRITE: return 0;
    default: return s->size / 2 & ~(size_t)4095;
    }
}

static void vm_send(self_t *s, lane_t *lane, int l)
{
    size_t part = vm_read_part(s);
    s->turns[l]++;
    lane->from = (uintptr_t)s->send;
    atomic_store_explicit(&lane->ready, s->turns[l], memory_order_release);
    if (part < s->size) {
        until(&lane->wanted, s->turns[l]);
        vm_move(s, 1, lane->into + part, s->send + part, s->size - part);
        atomic_store_explicit(&lane->written_done, s->turns[l], memory_order_release);
    }
    if (part)
        until(&lane->read_done, s->turns[l]);
}

static void vm_receive(self_t *s, lane_t *lane, int l)
{
    size_t part = vm_read_part(s);
    s->turns[l]++;
    if (part < s->size) {
        lane->into = (uintptr_t)s->receive;
        atomic_store_explicit(&lane->wanted, s->turns[l], memory_order_release);
    }
    until(&lane->ready, s->turns[l]);
    if (part) {
        vm_move(s, 0, lane->from, s->receive, part);
        atomic_store_explicit(&lane->read_done, s->turns[l], memory_order_release);
    }
    if (part < s->size)
        until(&lane->written_done, s->turns[l]);
}

static int copy_body(void *arg, int n)
{
    self_t *s = arg;
    void (*send)(self_t *, lane_t *, int) = s->way->kind == RING ? ring_send : vm_send;
    void (*receive)(self_t *, lane_t *, int) = s->way->kind == RING ? ring_receive : vm_receive;
    int out = s->rank, in = !s->rank;
    for (int i = 0; i < n; i++) {
        if (s->rank == 0)
            send(s, &s->shared->lanes[out], out);
        receive(s, &s->shared->lanes[in], in);
        if (s->rank == 1)
            send(s, &s->shared->lanes[out], out);
    }
    return 0;
}

/* ---- Orders --------------------------------------------------------------------------------------------------- */

static void self_reset(self_t *s, const way_t *way, size_t size)
{
    s->way = way;
    s->size = size;
    memset(s->heads, 0, sizeof s->heads);
    memset(s->tails, 0, sizeof s->tails);
    memset(s->turns, 0, sizeof s->turns);
}

static void child_run(self_t *s)
{
    shared_t *sh = s->shared;
    for (uint64_t order = 1;; order++) {
        until(&sh->order, order);
        if (!sh->iterations)
            _exit(0);
        way_t way = sh->way;
        self_reset(s, &way, sh->size);
        memset(s->receive, 0, sh->size);
        copy_body(s, sh->iterations);
        if (!bench_check(s->receive, sh->size, 7))
            atomic_store(&sh->failed, EBADMSG);
        atomic_store_explicit(&sh->finished, order, memory_order_release);
    }
}

static void order_give(self_t *s, const way_t *way, size_t size, int iterations)
{
    shared_t *sh = s->shared;
    memset(sh->lanes, 0, sizeof sh->lanes);
    if (way)
        sh->way = *way;
    sh->size = size;
    sh->iterations = iterations;
    atomic_fetch_add_explicit(&sh->order, 1, memory_order_release);
}

/* Time one method by the options' rules; 0, or -1 if it does not work here. */
static int way_measure(self_t *s, const bench_options_t *o, const way_t *way, size_t size, bench_stats_t *us)
{
    self_reset(s, way, size);
    atomic_store(&s->shared->failed, 0);
    order_give(s, way, size, bench_iterations(o, size) * (bench_batches(o, size) + 1));
    int rc = bench_measure(o, size, 2, copy_body, s, us);
    until(&s->shared->finished, atomic_load(&s->shared->order));
    return rc || atomic_load(&s->shared->failed) ? -1 : 0;
}

static bool pair_usable(int in, int out)
{
    return copies[in].in && copies[out].out && copies[in].usable() && copies[out].usable();
}

static int ring_add(way_t *ways, int n, size_t chunk, size_t ring_kib, bool thorough)
{
    unsigned slots = (unsigned)(ring_kib * 1024 / chunk);
    for (int p = 0; p < N_COPIES * N_COPIES && n < WAYS_MAX - 3; p++) {
        int in = p / N_COPIES, out = p % N_COPIES;
        bool brief = copies[in].brief_in && copies[out].brief_out;
        if (slots >= 2 && pair_usable(in, out) && (thorough || brief))
            ways[n++] = (way_t){RING, chunk, slots, in, out};
    }
    return n;
}

/* List all methods that make sense for a size.  Not thorough: only those that were ever the best on the machine where this
 * list was made. */
static int ways_list(way_t *ways, size_t size, bool thorough)
{
    static const size_t all_kib[] = {8, 64, 1024, 1536, 2048, 3072, 4096, 8192}, brief_kib[] = {8, 2048, 3072};
    static const size_t chunks[] = {2048, 4096, 8192, 16384, 32768, 65536, 131072};
    const size_t *rings = thorough ? all_kib : brief_kib;
    size_t n_rings = thorough ? sizeof all_kib / sizeof *all_kib : sizeof brief_kib / sizeof *brief_kib;
    int n = 0;
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks && (!c || chunks[c - 1] < size); c++)
        for (size_t r = 0; r < n_rings; r++)
            if (thorough || chunks[c] * 32 >= size || c >= 4)
                n = ring_add(ways, n, chunks[c], rings[r], thorough);
    for (kind_t kind = VM_READ; kind <= VM_SPLIT; kind++)
        if (size >= 8192)
            ways[n++] = (way_t){.kind = kind};
    return n;
}

static void way_print(const way_t *w, char *buf, size_t len)
{
    static const char *const kinds[] = {"ring", "vm_readv", "vm_writev", "vm_split"};
    if (w->kind == RING)
        snprintf(buf, len, "\"way\": \"ring\", \"chunk\": %zu, \"slots\": %u, \"copy_in\": \"%s\", \"copy_out\": \"%s\"",
                 w->chunk, w->slots, copies[w->in].name, copies[w->out].name);
    else
        snprintf(buf, len, "\"way\": \"%s\"", kinds[w->kind]);
}

typedef struct trial {
    way_t way;
    double us;
} trial_t;

static int trial_compare(const void *a, const void *b)
{
    double x = ((const trial_t *)a)->us, y = ((const trial_t *)b)->us;
    return (x > y) - (x < y);
}

/* Try all methods briefly.  Return the number of those that work, the best first. */
static int ways_try(self_t *s, const bench_options_t *o, size_t size, bool thorough, trial_t *trials)
{
    static way_t ways[WAYS_MAX];
    bench_options_t brief = *o;
    brief.batches = 4;
    brief.iterations = bench_iterations(o, size) / (size < 4096 ? 5 : 2) + 1;
    int n = ways_list(ways, size, thorough), good = 0;
    for (int i = 0; i < n; i++) {
        bench_stats_t us;
        bench_progress("trying ways", size, i, n);
        if (!way_measure(s, &brief, &ways[i], size, &us))
            trials[good++] = (trial_t){ways[i], us.best};
    }
    bench_progress_end();
    qsort(trials, (size_t)good, sizeof *trials, trial_compare);
    return good;
}

/* Read the finalists of a size that an earlier run left in the file RAW_COPY_KEEP.  Return their number; 0: none. */
static int finalists_load(size_t size, trial_t *trials)
{
    FILE *file = getenv("RAW_COPY_KEEP") ? fopen(getenv("RAW_COPY_KEEP"), "r") : NULL;
    size_t of, chunk;
    unsigned kind, slots, in, out;
    int n = 0;
    while (file && n < FINALISTS && fscanf(file, "%zu %u %zu %u %u %u", &of, &kind, &chunk, &slots, &in, &out) == 6)
        if (of == size && kind <= VM_SPLIT && slots <= RING_MAX && chunk * slots <= RING_MAX && in < (unsigned)N_COPIES &&
            out < (unsigned)N_COPIES && pair_usable((int)in, (int)out))
            trials[n++] = (trial_t){.way = {(kind_t)kind, chunk, slots, (int)in, (int)out}};
    if (file)
        fclose(file);
    return n;
}

static void finalists_keep(size_t size, const trial_t *trials, int n)
{
    FILE *file = getenv("RAW_COPY_KEEP") ? fopen(getenv("RAW_COPY_KEEP"), "a") : NULL;
    for (int i = 0; file && i < n && i < FINALISTS; i++)
        fprintf(file, "%zu %u %zu %u %d %d\n", size, (unsigned)trials[i].way.kind, trials[i].way.chunk, trials[i].way.slots,
                trials[i].way.in, trials[i].way.out);
    if (file)
        fclose(file);
}

static int size_run(self_t *s, const bench_options_t *o, size_t size, bool all)
{
    static trial_t trials[WAYS_MAX];
    int n = all ? 0 : finalists_load(size, trials);
    if (!n) {
        n = ways_try(s, o, size, all, trials);
        finalists_keep(size, trials, n);
    }
    bench_stats_t best = {0}, us;
    way_t best_way = {0};
    char text[160];
    for (int i = 0; all && i < n; i++) {
        way_print(&trials[i].way, text, sizeof text);
        fprintf(stderr, "%zu %.3f %s\n", size, trials[i].us, text);
    }
    for (int i = 0; i < n && i < FINALISTS; i++)
        if (!way_measure(s, o, &trials[i].way, size, &us) && (!best.best || us.best < best.best))
            best = us, best_way = trials[i].way;
    if (!best.best)
        return fprintf(stderr, "raw_copy: no way works for %zu bytes\n", size), -1;
    way_print(&best_way, text, sizeof text);
    bench_row_print(o, &(bench_row_t){.who = "raw_copy",
                                      .test = "pingpong",
                                      .size = size,
                                      .us = best,
                                      .extra = text,
                                      .iterations = (long)bench_iterations(o, size) * bench_batches(o, size),
                                      .bytes_per_us = (double)size / best.best});
    return 0;
}

int main(int argc, char **argv)
{
    bench_options_t o;
    if (bench_options_parse(&o, argc, argv, 1, "65536,1M,4M"))
        return 2;
    if (o.help) {
        puts("raw_copy [--sizes LIST] [--cpus A,B] [--iters N] [--batches N] [--json]: the floor of copying through\n"
             "shared memory between two processes; RAW_COPY_ALL=1 tries many more ways and prints each\n"
             "on stderr; RAW_COPY_KEEP=FILE remembers the best ways, so that the next run need not look for them");
        return 0;
    }
    shared_t *sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sh == MAP_FAILED)
        return perror("mmap"), 1;
    memset(sh->rings, 1, sizeof sh->rings);
    size_t most = pair_most(&o);
    pid_t parent = getpid(), child = pair_fork(&o, NULL);
    if (child < 0)
        return 1;
    self_t self = {
        .shared = sh, .rank = !child, .peer = child ? child : parent, .send = malloc(most), .receive = malloc(most)};
    if (!self.send || !self.receive)
        return perror("raw_copy"), 1;
    bench_fill(self.send, most, 7);
    memset(self.receive, 0, most);
    if (!child)
        child_run(&self);
    int rc = 0;
    for (int i = 0; i < o.n_sizes; i++)
        rc |= size_run(&self, &o, o.sizes[i], getenv("RAW_COPY_ALL"));
    order_give(&self, NULL, 0, 0);
    return pair_end(child, rc);
}
