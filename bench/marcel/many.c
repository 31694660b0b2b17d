/* SPDX-License-Identifier: BSD-3-Clause */
/* Many threads, all blocked at the same time: memory and time per thread. */
#include "../marcel_perf.h"

#include <marcel.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>

static marcel_sem_t gate, arrived;

static void *wait_marcel(void *arg)
{
    marcel_sem_post(&arrived);
    marcel_sem_wait(&gate);
    return arg;
}

static double batch_marcel(int n)
{
    marcel_t *threads = malloc((size_t)n * sizeof *threads);
    int made = 0;
    marcel_sem_init(&gate, 0, 0);
    marcel_sem_init(&arrived, 0, 0);
    if (!threads)
        return -1;
    double before = perf_memory_now(), start = perf_now();
    while (made < n && perf_ok("marcel_create", marcel_create(&threads[made], NULL, wait_marcel, NULL)))
        made++;
    for (int i = 0; i < made; i++)
        marcel_sem_wait(&arrived);
    double bytes = (perf_memory_now() - before) / n;
    for (int i = 0; i < made; i++)
        marcel_sem_post(&gate);
    for (int i = 0; i < made; i++)
        marcel_join(threads[i], NULL);
    double took = perf_now() - start;
    free(threads);
    if (bytes > perf_bytes)
        perf_bytes = bytes; /* the library keeps the memory of ended threads, so only the first threads need new memory */
    return made == n ? took / n : -1;
}

static sem_t posix_gate, posix_arrived;

static void *wait_posix(void *arg)
{
    sem_post(&posix_arrived);
    sem_wait(&posix_gate);
    return arg;
}

static double batch_posix(int n)
{
    pthread_t *threads = malloc((size_t)n * sizeof *threads);
    pthread_attr_t attr;
    int made = 0;
    if (!threads)
        return -1;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    sem_init(&posix_gate, 0, 0);
    sem_init(&posix_arrived, 0, 0);
    double before = perf_memory_now(), start = perf_now();
    while (made < n && perf_ok("pthread_create", pthread_create(&threads[made], &attr, wait_posix, NULL)))
        made++;
    for (int i = 0; i < made; i++)
        sem_wait(&posix_arrived);
    double bytes = (perf_memory_now() - before) / n;
    for (int i = 0; i < made; i++)
        sem_post(&posix_gate);
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    double took = perf_now() - start;
    free(threads);
    pthread_attr_destroy(&attr);
    if (bytes > perf_pthread_bytes)
        perf_pthread_bytes = bytes;
    return made == n ? took / n : -1;
}

const perf_test_t perf_memory = {
    .name = "memory",
    .help = "threads that are all blocked at once (100,000; POSIX threads: 2,000), and their memory",
    .marcel = batch_marcel,
    .pthread = batch_posix,
    .n = 100000,
    .pthread_n = 2000,
    .batches = 1,
    .workers = 1};
const perf_test_t perf_million = {
    .name = "million", .help = "the same with a million", .marcel = batch_marcel, .n = 1000000, .batches = 1, .workers = 1};
