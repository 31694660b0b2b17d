/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int bench_pin(int cpu)
{
    if (cpu < 0)
        return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

/* ---- Options -------------------------------------------------------------------------------------------------- */

static int size_parse(const char **text, size_t *size)
{
    if (**text < '0' || **text > '9')
        return -1;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(*text, &end, 10);
    if (errno)
        return -1;
    int shift = 0;
    switch (*end) {
    case 'k':
    case 'K': shift = 10; break;
    case 'm':
    case 'M': shift = 20; break;
    case 'g':
    case 'G': shift = 30; break;
    default: break;
    }
    if (value > (SIZE_MAX >> 1) >> shift)
        return -1;
    *size = (size_t)value << shift;
    *text = shift ? end + 1 : end;
    return 0;
}

int bench_sizes_parse(const char *text, size_t *sizes, int max)
{
    int n = 0;
    for (;; text++) {
        size_t low, high;
        if (size_parse(&text, &low))
            return -1;
        high = low;
        if (*text == '-' && (text++, size_parse(&text, &high)))
            return -1;
        for (size_t size = low; size <= high; size = size ? 2 * size : 1) {
            if (n == max)
                return -1;
            sizes[n++] = size;
        }
        if (high < low || (*text && *text != ','))
            return -1;
        if (!*text)
            return n;
    }
}

static int count_parse(const char *text, int *value)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || end == text || *end || n < 1 || n > INT_MAX)
        return -1;
    *value = (int)n;
    return 0;
}

static int cpus_parse(const char *text, int *cpus)
{
    char after;
    if (sscanf(text, "%d,%d%c", &cpus[0], &cpus[1], &after) == 2)
        return 0;
    return -1;
}

static int threads_parse(const char *text, bool *user_level)
{
    *user_level = !strcmp(text, "marcel");
    return *user_level || !strcmp(text, "pthread") ? 0 : -1;
}

static int option_set(bench_options_t *o, const char *name, const char *value)
{
    if (!strcmp(name, "--driver"))
        o->driver = value;
    else if (!strcmp(name, "--channel"))
        o->channel = value;
    else if (!strcmp(name, "--sizes"))
        return (o->n_sizes = bench_sizes_parse(value, o->sizes, BENCH_SIZES_MAX)) > 0 ? 0 : -1;
    else if (!strcmp(name, "--iters"))
        return count_parse(value, &o->iterations);
    else if (!strcmp(name, "--batches"))
        return count_parse(value, &o->batches);
    else if (!strcmp(name, "--pairs"))
        return count_parse(value, &o->pairs);
    else if (!strcmp(name, "--ms"))
        return count_parse(value, &o->ms);
    else if (!strcmp(name, "--cpus"))
        return cpus_parse(value, o->cpus);
    else if (!strcmp(name, "--form"))
        o->form = value;
    else if (!strcmp(name, "--receive"))
        o->receive = value;
    else if (!strcmp(name, "--ways"))
        o->ways = value;
    else if (!strcmp(name, "--threads"))
        return threads_parse(value, &o->user_level);
    else
        return -1;
    return 0;
}

int bench_options_parse(bench_options_t *options, int argc, char **argv, int first, const char *default_sizes)
{
    *options = (bench_options_t){.cpus = {-1, -1}};
    options->n_sizes = bench_sizes_parse(default_sizes, options->sizes, BENCH_SIZES_MAX);
    for (int i = first; i < argc; i++) {
        char name[32];
        const char *equals = strchr(argv[i], '=');
        size_t len = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        snprintf(name, sizeof name, "%.*s", (int)len, argv[i]);
        if (!strcmp(name, "--json") && !equals) {
            options->json = true;
        } else if ((!strcmp(name, "--help") || !strcmp(name, "-h")) && !equals) {
            options->help = true;
        } else {
            const char *value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
            if (!value || option_set(options, name, value)) {
                fprintf(stderr, "%s: bad option or value: %s%s%s (see --help)\n", argv[0], name, value ? " " : "",
                        value ? value : "");
                return -1;
            }
        }
    }
    return 0;
}

/* ---- Batches -------------------------------------------------------------------------------------------------- */

int bench_iterations(const bench_options_t *options, size_t size)
{
    static const struct {
        size_t up_to;
        int iterations;
    } rules[] = {{4096, 500}, {65536, 100}, {1 << 20, 20}, {SIZE_MAX, 8}};
    if (options->iterations)
        return options->iterations;
    int i = 0;
    while (size > rules[i].up_to)
        i++;
    return rules[i].iterations;
}

int bench_batches(const bench_options_t *options, size_t size)
{
    (void)size;
    return options->batches ? options->batches : 60;
}

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_stats_t bench_stats(double *samples, int n)
{
    qsort(samples, (size_t)n, sizeof *samples, double_compare);
    double median = n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += samples[i];
    return (bench_stats_t){.best = samples[0], .median = median, .mean = sum / n};
}

static uint64_t untimed; /* ns of the current batch that are not measured */

void bench_untimed(uint64_t ns)
{
    untimed += ns;
}

int bench_measure(const bench_options_t *options, size_t size, double divisor, bench_body_t body, void *arg,
                  bench_stats_t *stats)
{
    int iterations = bench_iterations(options, size), batches = bench_batches(options, size);
    double *samples = malloc((size_t)batches * sizeof *samples);
    if (!samples)
        return -1;
    int rc = body(arg, iterations);
    for (int i = 0; i < batches && !rc; i++) {
        uint64_t start = bench_now();
        untimed = 0;
        rc = body(arg, iterations);
        samples[i] = (double)(bench_now() - start - untimed) / 1e3 / (iterations * divisor);
        if (stats)
            bench_progress("measuring", size, i + 1, batches);
    }
    if (stats)
        bench_progress_end();
    if (!rc && stats)
        *stats = bench_stats(samples, batches);
    free(samples);
    return rc;
}

/* ---- Computing ------------------------------------------------------------------------------------------------ */

/* ---- Output --------------------------------------------------------------------------------------------------- */

static void json_print(const bench_row_t *row)
{
    putchar('{');
    if (row->who)
        printf("\"who\": \"%s\", ", row->who);
    printf("\"test\": \"%s\", ", row->test);
    if (row->driver)
        printf("\"driver\": \"%s\", ", row->driver);
    printf("\"size\": %zu, \"iterations\": %ld, \"latency_us_best\": %.4f, \"latency_us_median\": %.4f, "
           "\"latency_us_mean\": %.4f, \"bandwidth_MBs_best\": %.2f%s%s}\n",
           row->size, row->iterations, row->us.best, row->us.median, row->us.mean, row->bytes_per_us, row->extra ? ", " : "",
           row->extra ? row->extra : "");
}

void bench_row_print(const bench_options_t *options, const bench_row_t *row)
{
    static char headed[64];
    if (options->json) {
        json_print(row);
    } else {
        if (strcmp(headed, row->test)) {
            snprintf(headed, sizeof headed, "%s", row->test);
            printf("# %s%s%s%s%s\n%12s %10s %12s %12s %12s\n", row->test, row->who ? " by " : "", row->who ? row->who : "",
                   row->driver ? " over " : "", row->driver ? row->driver : "", "bytes", "iterations", "best us",
                   "median us", "best MB/s");
        }
        printf("%12zu %10ld %12.3f %12.3f %12.1f%s%s\n", row->size, row->iterations, row->us.best, row->us.median,
               row->bytes_per_us, row->extra ? "  " : "", row->extra ? row->extra : "");
    }
    fflush(stdout);
}

static uint64_t progress_start, progress_last;
static bool progress_shown;

void bench_progress(const char *what, size_t size, int done, int of)
{
    uint64_t now = bench_now();
    bool tty = isatty(STDERR_FILENO);
    if (!progress_start)
        progress_start = progress_last = now;
    if (now - progress_last < (tty ? 200000000u : 2000000000u))
        return;
    progress_last = now;
    progress_shown = tty;
    fprintf(stderr, "%s%s %zu bytes: %d of %d%s", tty ? "\r" : "", what, size, done, of, tty ? "\033[K" : "\n");
}

void bench_progress_end(void)
{
    if (progress_shown)
        fputs("\r\033[K", stderr);
    progress_shown = false;
    progress_start = 0;
}

/* ---- Payload -------------------------------------------------------------------------------------------------- */

void bench_fill(void *buf, size_t len, unsigned seed)
{
    unsigned char *p = buf;
    for (size_t i = 0; i < len; i++)
        p[i] = (unsigned char)((i * 2654435761u >> 13) + seed);
}

bool bench_check(const void *buf, size_t len, unsigned seed)
{
    const unsigned char *p = buf;
    for (size_t i = 0; i < len; i++)
        if (p[i] != (unsigned char)((i * 2654435761u >> 13) + seed))
            return false;
    return true;
}
