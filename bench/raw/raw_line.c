/* SPDX-License-Identifier: BSD-3-Clause */
/* The floor of every small message: one cache line from a core to another and back, between two processes.  Each side
 * writes its own line and spins on the other's, as a ring of messages does. */
#include <stdatomic.h>
#include <sys/mman.h>

#include "pair.h"

typedef struct lines {
    _Alignas(128) atomic_uint_fast64_t ping;
    _Alignas(128) atomic_uint_fast64_t pong;
} lines_t;

typedef struct side {
    atomic_uint_fast64_t *mine;
    atomic_uint_fast64_t *other;
    uint64_t count;
    int first; /* 1: this side begins */
} side_t;

static int line_body(void *arg, int n)
{
    side_t *s = arg;
    for (int i = 0; i < n; i++) {
        s->count++;
        if (s->first)
            atomic_store_explicit(s->mine, s->count, memory_order_release);
        while (atomic_load_explicit(s->other, memory_order_acquire) != s->count)
            ;
        if (!s->first)
            atomic_store_explicit(s->mine, s->count, memory_order_release);
    }
    return 0;
}

int main(int argc, char **argv)
{
    bench_options_t o;
    if (bench_options_parse(&o, argc, argv, 1, "8"))
        return 2;
    if (o.help) {
        puts("raw_line [--cpus A,B] [--iters N] [--batches N] [--json]: one way of a cache line between two processes");
        return 0;
    }
    lines_t *lines = mmap(NULL, sizeof *lines, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED)
        return perror("mmap"), 1;
    pid_t child = pair_fork(&o, NULL);
    if (child < 0)
        return 1;
    side_t side = {.mine = &lines->ping, .other = &lines->pong, .first = 1};
    if (!child)
        side = (side_t){.mine = &lines->pong, .other = &lines->ping};
    bench_stats_t us;
    bench_measure(&o, 8, 2, line_body, &side, child ? &us : NULL);
    if (!child)
        return 0;
    bench_row_print(&o, &(bench_row_t){.who = "raw_line",
                                       .test = "line",
                                       .size = 8,
                                       .us = us,
                                       .iterations = (long)bench_iterations(&o, 8) * bench_batches(&o, 8),
                                       .bytes_per_us = 8 / us.best});
    return pair_end(child, 0);
}
