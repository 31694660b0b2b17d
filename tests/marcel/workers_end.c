/* SPDX-License-Identifier: BSD-3-Clause */
/* Beginning and end of workers, and workers without work. */
#include "workers.h"

#include <sys/resource.h>

void test_workers_start_again(void)
{
    for (int i = 0; i < 40 * rounds; i++) {
        marcel_t thread[10];
        start(1 + i % (n_workers + 1));
        for (int t = 0; t < 10; t++)
            thread[t] = create(NULL, tree, (void *)(intptr_t)(t % 6));
        for (int t = 0; t < 10; t++)
            join(thread[t]);
    }
    start(n_workers);
}

static double cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

/* Workers without work sleep, also while threads wait, and after their seeds were stolen. */
void test_workers_without_work_sleep(void)
{
    struct timespec time = {0, 400 * MS};
    marcel_t thread[20];
    join(create(NULL, tree, (void *)10));
    marcel_sem_init(&gate, 0, 0);
    marcel_sem_init(&arrived, 0, 0);
    for (int i = 0; i < 20; i++)
        thread[i] = create(NULL, wait_and_reach, NULL);
    for (int i = 0; i < 20; i++)
        marcel_sem_wait(&arrived);
    nanosleep(&time, NULL); /* no event shows that a worker sleeps; until then it may search for work */
    double before = cpu_ms();
    nanosleep(&time, NULL);
    double took = cpu_ms() - before;
    CHECK_MSG(took < 100, "%.1f ms of processor time in 400 ms", took);
    for (int i = 0; i < 20; i++)
        marcel_sem_post(&gate);
    for (int i = 0; i < 20; i++)
        join(thread[i]);
}
