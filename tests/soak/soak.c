/* SPDX-License-Identifier: BSD-3-Clause */
/* soak [--messages N[K|M]] [--driver NAME|fault:NAME] [--seed S] [--threads T] [--max BYTES] [--quiet]
 *      [--user-level]
 * under madrun -n P, or alone. */
#include "soak.h"

#include <marcel.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STILL 60 /* seconds without any message after which the run fails */

options_t options = {.messages = 100000, .seed = 1, .threads = 2, .max = 4 << 20};
sums_t sums;
mad_session_t *session;
mad_channel_t *channels[WAYS];
int rank, procs;
uint64_t each;

int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

int peers(int *list)
{
    int n = 0;
    for (int i = 0; i < procs; i++)
        if (i != rank || procs == 1)
            list[n++] = i;
    return n;
}

void wrong(_Atomic(uint64_t) *count, const char *format, ...)
{
    static _Atomic(int) said;
    char text[512];
    va_list args;
    atomic_fetch_add(count, 1);
    if (atomic_fetch_add(&said, 1) >= 20)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "soak: %s\n", text);
}

bool good(mad_status_t status, const char *what, const ident_t *id)
{
    if (status == MAD_OK)
        return true;
    wrong(&sums.failed, "rank %d: %s (channel %d, rank %d to %d, thread %d, number %lld): %s", rank, what, id ? id->way : -1,
          id ? id->source : -1, id ? id->dest : -1, id ? id->thread : -1, id ? (long long)id->number : -1,
          mad_status_text(status));
    return false;
}

/* ---- Options -------------------------------------------------------------------------------------------------- */

static uint64_t number(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);
    if (*end == 'K' || *end == 'k')
        n *= 1000, end++;
    else if (*end == 'M' || *end == 'm')
        n *= 1000000, end++;
    if (*end || end == text) {
        fprintf(stderr, "soak: '%s' is no number: give for example 100K or 10M\n", text);
        exit(2);
    }
    return n;
}

/* Set the knobs that choose the driver.  Variables that the environment already has are kept. */
static void choose(const char *driver)
{
    options.driver = driver;
    if (!strncmp(driver, "fault", 5)) {
        setenv("MAD_DRIVERS", "fault", 0);
        setenv("MAD_FAULT", driver[5] == ':' ? driver + 6 : "shm", 0);
        driver = "fault";
    }
    setenv("MAD_PREFER", driver, 0);
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--quiet")) {
            options.quiet = true;
            continue;
        }
        if (!strcmp(argv[i], "--user-level")) {
            options.user_level = true;
            continue;
        }
        if (!strcmp(argv[i], "--messages"))
            options.messages = number(value);
        else if (!strcmp(argv[i], "--seed"))
            options.seed = number(value);
        else if (!strcmp(argv[i], "--threads"))
            options.threads = (int)number(value);
        else if (!strcmp(argv[i], "--max"))
            options.max = number(value);
        else if (!strcmp(argv[i], "--driver"))
            choose(value);
        else
            options.threads = 0;
        i++;
    }
    if (options.threads < 1 || options.threads > SENDERS_MAX || options.max > 1 << 30) {
        fprintf(stderr, "soak [--messages N[K|M]] [--driver NAME|fault:NAME] [--seed S] [--threads 1-8] "
                        "[--max BYTES] [--quiet] [--user-level]\n");
        exit(2);
    }
}

/* ---- Watching ------------------------------------------------------------------------------------------------- */

static sem_t over;

static bool over_within_a_second(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec++;
    return !sem_timedwait(&over, &t);
}

static void *watch(void *arg)
{
    uint64_t last = 0, total = each * (WAYS * (uint64_t)options.threads - (uint64_t)options.threads + 1);
    int still = 0, list[PROCS_MAX];
    total *= (uint64_t)peers(list);
    for (int second = 1; !over_within_a_second(); second++) {
        uint64_t sent = atomic_load(&sums.sent), received = atomic_load(&sums.received);
        still = sent + received == last ? still + 1 : 0;
        last = sent + received;
        if (still == STILL) {
            fprintf(stderr, "soak: rank %d: nothing moved for %d s: %llu sent, %llu received of %llu; giving up\n", rank,
                    STILL, (unsigned long long)sent, (unsigned long long)received, (unsigned long long)total);
            abort();
        }
        if (!options.quiet && rank == 0 && second % 5 == 0)
            fprintf(stderr, "soak: %d s: %llu sent, %llu received of %llu\n", second, (unsigned long long)sent,
                    (unsigned long long)received, (unsigned long long)total);
    }
    return arg;
}

/* ---- Sums ----------------------------------------------------------------------------------------------------- */

#define COUNTS 8

static void counts(uint64_t out[COUNTS])
{
    _Atomic(uint64_t) *const all[COUNTS] = {&sums.sent,    &sums.received,   &sums.bytes,     &sums.lost,
                                            &sums.doubled, &sums.disordered, &sums.corrupted, &sums.failed};
    for (int i = 0; i < COUNTS; i++)
        out[i] = atomic_load(all[i]);
}

/* Collect the counts of all ranks at rank 0. */
static bool collect(mad_channel_t *channel, uint64_t out[COUNTS])
{
    counts(out);
    if (rank != 0) {
        mad_message_t *message = mad_begin_packing(channel, 0);
        mad_pack(message, out, COUNTS * sizeof *out, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
        return mad_end_packing(message) == MAD_OK;
    }
    for (int i = 1; i < procs; i++) {
        uint64_t theirs[COUNTS];
        mad_message_t *message = mad_begin_unpacking(channel);
        mad_unpack(message, theirs, sizeof theirs, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
        if (mad_end_unpacking(message) != MAD_OK)
            return false;
        for (int k = 0; k < COUNTS; k++)
            out[k] += theirs[k];
    }
    return true;
}

static int report(const uint64_t c[COUNTS], double seconds)
{
    bool fine = c[0] == c[1] && !(c[3] | c[4] | c[5] | c[6] | c[7]);
    const char *driver = options.driver ? options.driver : "";
    char way[600] = "";
    int list[PROCS_MAX];
    peers(list);
    mad_peer_explain(session, list[0], way, sizeof way);
    printf("soak: %s: %llu messages, %.2f GB in %.1f s (%.0f a second), seed %llu, %d processes, ", fine ? "good" : "BAD",
           (unsigned long long)c[1], (double)c[2] * 1e-9, seconds, (double)c[1] / seconds, (unsigned long long)options.seed,
           procs);
    printf("%d sending %sthreads each: ", options.threads, options.user_level ? "user-level " : "");
    printf("%llu lost, %llu doubled, %llu out of order, %llu corrupted, %llu calls failed\n", (unsigned long long)c[3],
           (unsigned long long)c[4], (unsigned long long)c[5], (unsigned long long)c[6], (unsigned long long)c[7]);
    if (!strncmp(driver, "fault", 5))
        driver = "fault";
    if (!strstr(way, driver)) {
        printf("soak: BAD: driver %s is not in use: %s\n", driver, way);
        fine = false;
    }
    return fine ? 0 : 1;
}

/* ---- Running -------------------------------------------------------------------------------------------------- */

typedef struct thread {
    pthread_t plain;
    marcel_t marcel;
} thread_t;

static void start(thread_t *thread, void *(*main)(void *), void *arg)
{
    int error = options.user_level ? marcel_create(&thread->marcel, NULL, main, arg)
                                   : pthread_create(&thread->plain, NULL, main, arg);
    if (error) {
        fprintf(stderr, "soak: no thread: %s\n", strerror(error));
        exit(1);
    }
}

static void join(thread_t *thread)
{
    if (options.user_level)
        marcel_join(thread->marcel, NULL);
    else
        pthread_join(thread->plain, NULL);
}

static void run(void)
{
    static void *(*const ways[])(void *) = {any_thread, from_thread, posted_thread, handler_thread,
                                            try_thread, pool_thread, pool_thread};
    enum { N = sizeof ways / sizeof *ways };
    thread_t threads[N + SENDERS_MAX];
    int n = 0;
    handler_install();
    for (; n < N; n++)
        start(&threads[n], ways[n], NULL);
    for (int i = 0; i < options.threads; i++)
        start(&threads[n++], send_thread, (void *)(intptr_t)i);
    while (n)
        join(&threads[--n]);
    receive_sum();
}

int main(int argc, char **argv)
{
    static const char *const names[WAYS] = {"any", "from", "posted", "handler", "try", "pool"};
    uint64_t all[COUNTS];
    mad_channel_t *sum;
    pthread_t watcher;
    int64_t begun;
    int list[PROCS_MAX], rc = 1, n;

    parse(argc, argv);
    if (!good(mad_init(&argc, &argv, &session), "mad_init", NULL))
        return 1;
    rank = mad_rank(session);
    procs = mad_size(session);
    n = procs > PROCS_MAX ? 0 : peers(list);
    if (!n || !table_make())
        return 1;
    /* Number of messages of one sender thread.  All processes, all their peers and all channels share the messages equally;
     * one channel has a single sender thread. */
    each = options.messages / ((uint64_t)procs * (uint64_t)n * ((WAYS - 1) * (uint64_t)options.threads + 1));
    each = each ? each : 1;
    for (int i = 0; i < WAYS; i++)
        if (!good(mad_channel_open(session, names[i], &channels[i]), "mad_channel_open", NULL))
            return 1;
    if (!good(mad_channel_open(session, "sum", &sum), "mad_channel_open", NULL))
        return 1;
    begun = now();
    sem_init(&over, 0, 0);
    pthread_create(&watcher, NULL, watch, NULL);
    run();
    if (collect(sum, all))
        rc = rank == 0 ? report(all, (double)(now() - begun) * 1e-9) : 0;
    sem_post(&over);
    pthread_join(watcher, NULL);
    mad_exit(session);
    return rc;
}
