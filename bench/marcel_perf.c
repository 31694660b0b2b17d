/* SPDX-License-Identifier: BSD-3-Clause */
/* marcel_perf: measures user-level threads through the public interface only, and POSIX threads for comparison. */
#include "marcel_perf.h"
#include "engine.h"

#include <errno.h>
#include <marcel.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const perf_test_t *const tests[] = {&perf_yield,        &perf_create_join,   &perf_lock,     &perf_handoff,
                                           &perf_handoff_cond, &perf_handoff_cross, &perf_directed, &perf_wake,
                                           &perf_forkjoin,     &perf_memory,        &perf_million};
#define N_TESTS (sizeof tests / sizeof *tests)

typedef struct options {
    bool json, alone;
    int batches, iterations;
} options_t;

typedef struct job {
    batch_t batch, beside;
    int n, batches;
    bench_stats_t stats, beside_stats;
    int rc;
} job_t;

double perf_bytes, perf_pthread_bytes;

double perf_now(void)
{
    return (double)bench_now();
}

double perf_memory_now(void)
{
    double kib = 0, value;
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %lf", &value) == 1 || sscanf(line, "VmPTE: %lf", &value) == 1)
            kib += value;
    fclose(file);
    return kib * 1024;
}

bool perf_ok(const char *call, int rc)
{
    if (rc)
        fprintf(stderr, "marcel_perf: %s: %s\n", call, strerror(rc));
    return rc == 0;
}

double perf_two(void *(*turn)(void *side), int n)
{
    marcel_t thread[2];
    for (intptr_t i = 0; i < 2; i++)
        if (!perf_ok("marcel_create", marcel_create(&thread[i], NULL, turn, (void *)i)))
            return -1;
    double start = perf_now();
    marcel_join(thread[0], NULL);
    marcel_join(thread[1], NULL);
    return (perf_now() - start) / n / 2;
}

/* ---- The command line ------------------------------------------------------------------------------------------ */

static void help(void)
{
    puts("usage: marcel_perf TEST... [--json] [--iters N] [--batches N] [--alone] [--help]\n"
         "Times are nanoseconds, and those of POSIX threads (--alone: without these).  One worker and one processor, but\n"
         "for handoff_cross (two) and forkjoin (MAD_WORKERS).\n"
         "TEST: all, or of");
    for (size_t i = 0; i < N_TESTS; i++)
        printf("  %-14s %s\n", tests[i]->name, tests[i]->help);
}

/* ---- Batches -------------------------------------------------------------------------------------------------- */

static bool sample(batch_t batch, int n, double *out)
{
    return !batch || (*out = batch(n)) >= 0;
}

static void *job_run(void *arg)
{
    job_t *job = arg;
    double *samples = malloc((size_t)job->batches * sizeof *samples);
    double *beside = malloc((size_t)job->batches * sizeof *beside);
    bool ok = samples && beside;
    if (ok && job->batches > 1)
        ok = sample(job->beside, job->n, beside) && sample(job->batch, job->n, samples);
    for (int i = 0; i < job->batches && ok; i++)
        ok = sample(job->beside, job->n, &beside[i]) && sample(job->batch, job->n, &samples[i]);
    if (ok)
        job->stats = bench_stats(samples, job->batches);
    if (ok && job->beside)
        job->beside_stats = bench_stats(beside, job->batches);
    job->rc = ok ? 0 : -1;
    free(samples);
    free(beside);
    return NULL;
}

static int job_marcel(job_t *job)
{
    marcel_t thread;
    if (!perf_ok("marcel_create", marcel_create(&thread, NULL, job_run, job)))
        return -1;
    return perf_ok("marcel_join", marcel_join(thread, NULL)) ? job->rc : -1;
}

static void *job_bound(void *arg)
{
    int cpu = sched_getcpu();
    bench_pin(cpu < 0 ? 0 : cpu); /* threads created from here on are bound too */
    return job_run(arg);
}

static int job_pthread(job_t *job, bool bound)
{
    pthread_t thread;
    if (!perf_ok("pthread_create", pthread_create(&thread, NULL, bound ? job_bound : job_run, job)))
        return -1;
    return perf_ok("pthread_join", pthread_join(thread, NULL)) ? job->rc : -1;
}

/* ---- Cache lines ---------------------------------------------------------------------------------------------- */

static void print_line(const perf_test_t *test, const job_t *own, const job_t *posix)
{
    printf("%-14s %12.2f %12.2f", test->name, own->stats.best, own->stats.median);
    if (posix)
        printf(" %14.2f %14.2f", posix->stats.best, posix->stats.median);
    if (test->beside)
        printf("   %s %.2f %.2f", test->beside_name, own->beside_stats.best, own->beside_stats.median);
    if (perf_bytes > 0)
        printf("   %.0f bytes a thread", perf_bytes);
    puts("");
}

/* Print a result.  The cost of a cache line is the median over the run. */
static void print_json(const perf_test_t *test, const job_t *own, const job_t *posix)
{
    printf("{\"test\": \"%s\", \"ns_best\": %.3f, \"ns_median\": %.3f, \"workers\": %d", test->name, own->stats.best,
           own->stats.median, marcel_worker_count());
    if (posix)
        printf(", \"pthread_ns_best\": %.3f, \"pthread_ns_median\": %.3f", posix->stats.best, posix->stats.median);
    if (test->beside && !strcmp(test->beside_name, "line"))
        printf(", \"line_ns\": %.3f", own->beside_stats.median);
    if (test->beside)
        printf(", \"%s_ns_best\": %.3f, \"%s_ns_median\": %.3f", test->beside_name, own->beside_stats.best,
               test->beside_name, own->beside_stats.median);
    if (perf_bytes > 0)
        printf(", \"bytes\": %.0f", perf_bytes);
    if (perf_pthread_bytes > 0)
        printf(", \"pthread_bytes\": %.0f", perf_pthread_bytes);
    puts("}");
}

/* ---- A test --------------------------------------------------------------------------------------------------- */

static int test_measure(const options_t *options, const perf_test_t *test)
{
    int batches = options->batches ? options->batches : test->batches ? test->batches : 60;
    job_t own = {.batch = test->marcel,
                 .beside = test->beside,
                 .n = options->iterations ? options->iterations : test->n,
                 .batches = batches};
    job_t posix = {.batch = test->pthread,
                   .n = options->iterations ? options->iterations : test->pthread_n,
                   .batches = batches > 10 ? 10 : batches};
    bool with_posix = test->pthread && !options->alone;
    if (test->one_cpu)
        job_run(&own);
    if ((test->one_cpu ? own.rc : job_marcel(&own)) || (with_posix && job_pthread(&posix, test->workers == 1)))
        return fprintf(stderr, "marcel_perf: %s failed\n", test->name), -1;
    (options->json ? print_json : print_line)(test, &own, with_posix ? &posix : NULL);
    fflush(stdout);
    return 0;
}

/* Set knobs, before the library reads them. */
static void test_prepare(const perf_test_t *test)
{
    char workers[16];
    snprintf(workers, sizeof workers, "%d", test->workers);
    if (test->workers)
        setenv("MAD_WORKERS", workers, 1);
    setenv("MAD_WORKERS_BIND", "1", 0); /* all processors are free for this process */
    if (test->one_cpu) {
        int cpu = sched_getcpu();
        bench_pin(cpu < 0 ? 0 : cpu);
        setenv("MAD_SPIN", "0", 1);
    }
}

static int test_child(const options_t *options, const perf_test_t *test)
{
    int rc;
    test_prepare(test);
    if (!perf_ok("marcel_init", marcel_init()))
        return 1;
    rc = test_measure(options, test);
    return !rc && perf_ok("marcel_fini", marcel_fini()) ? 0 : 1;
}

static int test_run(const options_t *options, const perf_test_t *test)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(test_child(options, test));
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return perf_ok("fork", errno), -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* ---- The command line ------------------------------------------------------------------------------------------ */

static int count_parse(const char *text, int *value)
{
    char after;
    return text && sscanf(text, "%d%c", value, &after) == 1 && *value > 0 ? 0 : -1;
}

/* Return the test of that name; NULL for an option. *bad: neither. */
static const perf_test_t *word_parse(options_t *options, int argc, char **argv, int *i, bool *bad)
{
    const char *word = argv[*i];
    for (size_t t = 0; t < N_TESTS; t++)
        if (!strcmp(word, tests[t]->name))
            return tests[t];
    if (!strcmp(word, "--json"))
        options->json = true;
    else if (!strcmp(word, "--alone"))
        options->alone = true;
    else if (!strcmp(word, "--iters"))
        *bad = count_parse(++*i < argc ? argv[*i] : NULL, &options->iterations);
    else if (!strcmp(word, "--batches"))
        *bad = count_parse(++*i < argc ? argv[*i] : NULL, &options->batches);
    else
        *bad = strcmp(word, "all") != 0;
    return NULL;
}

int main(int argc, char **argv)
{
    options_t options = {.json = false};
    const perf_test_t *chosen[N_TESTS];
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        bool bad = false;
        int word = i;
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return help(), 0;
        const perf_test_t *test = word_parse(&options, argc, argv, &i, &bad);
        if (bad)
            return fprintf(stderr, "marcel_perf: no such test, option or value: %s (see --help)\n", argv[word]), 2;
        if (test && n < N_TESTS)
            chosen[n++] = test;
        if (!strcmp(argv[word], "all"))
            for (n = 0; n < N_TESTS; n++)
                chosen[n] = tests[n];
    }
    if (!n)
        return help(), 2;
    if (!options.json)
        printf("%-14s %12s %12s %14s %14s\n", "# test", "ns best", "ns median", "pthread best", "median");
    for (size_t i = 0; i < n; i++)
        if (test_run(&options, chosen[i]))
            return 1;
    return 0;
}
