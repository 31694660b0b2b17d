/* SPDX-License-Identifier: BSD-3-Clause */
/* mad_perf: measures messages through the public interface only, in the default configuration. */
#include <errno.h>
#include <marcel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

static const perf_test_t *const tests[] = {
    &perf_pingpong, &perf_bandwidth, &perf_bidir,   &perf_rate,    &perf_manytoone, &perf_modes,    &perf_mixed,
    &perf_ring,     &perf_idle,      &perf_overlap, &perf_streams, &perf_beside,    &perf_cond,     &perf_outside,
    &perf_fresh,    &perf_written,   &perf_put,     &perf_get,     &perf_fetch_add, &perf_put_back, &perf_coll};
#define N_TESTS (sizeof tests / sizeof *tests)

static void help(void)
{
    puts("usage: mad_perf TEST [--driver self|shm|tcp] [--channel NAME] [--sizes LIST] [--iters N] [--batches N]\n"
         "                [--cpus A,B] [--threads pthread|marcel] [--json] [--help]\n"
         "                streams: [--pairs N] [--ms N]; beside: [--ms N]\n"
         "                rate: [--form request|blocking|call|callback] [--receive open|posted|unexpected] [--ways "
         "one|both]\n"
         "       mad_perf --version\n"
         "Start two processes (one for --driver self, any number for coll, many-to-one and ring):\n"
         "    madrun -n 2 mad_perf pingpong --driver shm --sizes 8,1K,65536 --json\n"
         "LIST: sizes in bytes, suffixes K, M, G of 1024; A-B doubles from A to B.  Times are one way, in microseconds.\n"
         "Tests:");
    for (size_t i = 0; i < N_TESTS; i++)
        printf("  %-14s %s (default sizes %s)\n", tests[i]->name, tests[i]->help, tests[i]->sizes);
}

static const perf_test_t *test_find(const char *name)
{
    for (size_t i = 0; i < N_TESTS; i++)
        if (!strcmp(name, tests[i]->name))
            return tests[i];
    return NULL;
}

/* Check --driver against the drivers that were opened. */
static int driver_check(const perf_t *p)
{
    mad_adapter_info_t info;
    if (!p->options.driver)
        return 0;
    for (int i = 0; mad_adapter_get(p->session, i, &info) == MAD_OK; i++)
        if (!strcmp(info.driver, p->options.driver))
            return 0;
    return fprintf(stderr, "mad_perf: --driver %s: no such driver is open (see mad_info)\n", p->options.driver), -1;
}

static int session_start(perf_t *p, int *argc, char ***argv)
{
    const char *driver = p->options.driver;
    /* All drivers stay open, as in any program; the requested one is used wherever it reaches. */
    if (driver)
        setenv("MAD_PREFER", driver, 1);
    mad_status_t status = mad_init(argc, argv, &p->session);
    if (status)
        return perf_failed("mad_init", status);
    if (driver_check(p))
        return -1;
    p->rank = mad_rank(p->session);
    bool alone = mad_size(p->session) == 1 || (driver && !strcmp(driver, "self"));
    p->ranks = alone ? 1 : mad_size(p->session);
    if (alone && driver && strcmp(driver, "self"))
        return fprintf(stderr, "mad_perf: --driver %s needs two processes: madrun -n 2 mad_perf ...\n", driver), -1;
    p->peer = alone ? p->rank : !p->rank;
    p->first = p->rank == 0;
    const char *name = p->options.channel ? p->options.channel : "mad_perf";
    status = mad_channel_open(p->session, name, &p->channel);
    return status ? perf_failed("mad_channel_open", status) : 0;
}

static int test_run(perf_t *p, const perf_test_t *test)
{
    size_t most = 1;
    for (int i = 0; i < p->options.n_sizes; i++)
        most = p->options.sizes[i] > most ? p->options.sizes[i] : most;
    p->send = malloc(most);
    p->receive = malloc(most);
    if (!p->send || !p->receive)
        return fprintf(stderr, "mad_perf: no memory for two buffers of %zu bytes\n", most), -1;
    memset(p->send, 1, most);
    memset(p->receive, 0, most);
    p->send_mode = MAD_SEND_CHEAPER;
    p->receive_mode = MAD_RECEIVE_CHEAPER;
    /* With --driver self all other ranks have nothing to do. */
    int rc = p->ranks == 1 && p->rank != 0 ? 0 : test->run(p);
    return rc || mad_size(p->session) < 2 ? rc : perf_barrier(p);
}

/* A test, run in a thread of the requested kind. */
typedef struct job {
    perf_t *perf;
    const perf_test_t *test;
    int rc;
} job_t;

static void *job_run(void *arg)
{
    job_t *job = arg;
    job->rc = test_run(job->perf, job->test);
    return NULL;
}

static int test_run_in(perf_t *p, const perf_test_t *test)
{
    job_t job = {p, test, -1};
    marcel_t thread;
    int error;
    if (!p->options.user_level)
        return test_run(p, test);
    error = marcel_create(&thread, NULL, job_run, &job);
    if (error)
        return fprintf(stderr, "mad_perf: marcel_create: %s\n", strerror(error)), -1;
    marcel_join(thread, NULL);
    return job.rc;
}

int main(int argc, char **argv)
{
    perf_t p = {.rank = 0};
    const perf_test_t *test = argc > 1 ? test_find(argv[1]) : NULL;
    if (argc > 1 && !strcmp(argv[1], "--version"))
        return puts("mad_perf (Madeleine) " PACKAGE_VERSION), 0;
    if (!test) {
        bool asked = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
        if (argc > 1 && !asked)
            fprintf(stderr, "mad_perf: no such test: %s\n", argv[1]);
        help();
        return asked ? 0 : 2;
    }
    if (bench_options_parse(&p.options, argc, argv, 2, test->sizes))
        return 2;
    if (p.options.help)
        return help(), 0;
    if ((p.options.pairs && !test->pairs) || (p.options.ms && !test->timed))
        return fprintf(stderr, "mad_perf: --%s is not an option of %s (see --help)\n",
                       p.options.pairs && !test->pairs ? "pairs" : "ms", test->name),
               2;
    if ((p.options.form || p.options.receive || p.options.ways) && !test->forms)
        return fprintf(stderr, "mad_perf: --form, --receive and --ways are not options of %s (see --help)\n", test->name), 2;
    if (!p.options.ms)
        p.options.ms = 1000;
    int rc = session_start(&p, &argc, &argv);
    int cpu = p.rank < BENCH_CPUS_MAX ? p.options.cpus[p.rank] : -1;
    if (!rc && bench_pin(cpu)) {
        fprintf(stderr, "mad_perf: --cpus: processor %d cannot be used (%s): 'nproc --all' counts them, from 0\n", cpu,
                strerror(errno));
        rc = -1;
    }
    if (!rc)
        rc = test_run_in(&p, test);
    mad_exit(p.session);
    free(p.send);
    free(p.receive);
    return rc ? 1 : 0;
}
