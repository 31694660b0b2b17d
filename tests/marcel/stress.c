/* SPDX-License-Identifier: BSD-3-Clause */
/* Nothing is lost, and no thread hangs: stress [--seed N] [--seconds N] [--threads N] [--limit N] [--lose N] [--stick]
 *
 * Rounds of some hundred milliseconds.  In each round, threads of both kinds make a random graph: they create other
 * threads, join them in all ways, cancel them, and use the same objects: mutexes, rwlocks, semaphores, queues (with a
 * condition each), barriers, completions and onces.  The threads use all forms of each call, with deadlines that are
 * near, past, or far.  One more thread cancels threads at random.  Everything that was taken is returned, by cleanup
 * handlers if necessary, so a wait without a deadline must end.  If no thread makes progress for `limit` seconds, a
 * watchdog prints which thread waits for which object, and aborts.  At the end of a round the counts must be right:
 * every count, token and item is there, every pass of a barrier had its threads, and each thread ended as requested.
 *
 * --lose N: leave out the N-th return of a token; --stick: one thread waits for an event that never happens.  Both must
 * be detected. */
#include "stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static sem_t round_over, over;

/* Cancel random threads of both kinds from a plain pthread. */
static void *hunt(void *arg)
{
    node_t *me = arg;
    while (!has_come(&round_over, 200 + draw(me, 2000))) {
        pthread_mutex_lock(&nodes_lock);
        node_t *node = nodes[draw(me, (unsigned)max_threads)];
        if (node && atomic_load(&node->named)) {
            atomic_store(&node->asked, true);
            marcel_cancel(node->thread);
        }
        pthread_mutex_unlock(&nodes_lock);
    }
    return NULL;
}

static void one_round(uint64_t number, bool stick)
{
    node_t *root = calloc(1, sizeof *root), hunter = {.slot = -1};
    pthread_t hunting;
    static marcel_completion_t never;
    root->random = seed + number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    root->slot = -1;
    draw(root, 2), draw(root, 2);
    hunter.random = root->random + 99;
    objects_init(root);
    sem_init(&round_over, 0, 0);
    if (pthread_create(&hunting, NULL, hunt, &hunter))
        abort();
    for (int i = 0; i < CHILDREN; i++)
        create_child(root, i == 1);
    if (stick) {
        root->slot = NODES - 1;
        nodes[root->slot] = root;
        begin_wait(root, "what never comes", 0);
        marcel_completion_wait(&never);
    }
    while (root->n_children)
        join_child(root, root->n_children - 1, FOREVER);
    sem_post(&round_over);
    pthread_join(hunting, NULL);
    objects_check();
    free(root);
}

static long number_of(const char *text)
{
    char *rest;
    long n = strtol(text, &rest, 0);
    if (*rest || n < 0) {
        fprintf(stderr, "stress: not a number: %s\n", text);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    long seconds = 5;
    bool stick = false;
    uint64_t rounds = 0;
    pthread_t watchdog;
    struct timespec start, now;
    seed = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 20;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(option, "--stick"))
            stick = true;
        else if (i++, !strcmp(option, "--seed"))
            seed = (uint64_t)number_of(value);
        else if (!strcmp(option, "--seconds"))
            seconds = number_of(value);
        else if (!strcmp(option, "--threads") && number_of(value) > 0 && number_of(value) < NODES)
            max_threads = (int)number_of(value);
        else if (!strcmp(option, "--limit"))
            limit_s = (int)number_of(value);
        else if (!strcmp(option, "--lose"))
            lose = number_of(value);
        else {
            fprintf(stderr, "usage: stress [--seed N] [--seconds N] [--threads N] [--limit N] [--lose N] [--stick]\n");
            return 2;
        }
    }
    printf("stress: seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, &start);
    sem_init(&over, 0, 0);
    if (pthread_create(&watchdog, NULL, watch, &over))
        return 1;
    do {
        one_round(rounds++, stick);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (!failures && now.tv_sec - start.tv_sec < seconds);
    if (marcel_fini())
        fail("threads are left at the end");
    sem_post(&over);
    pthread_join(watchdog, NULL);
    if (!failures)
        printf("stress: good: %llu rounds, %llu operations\n", (unsigned long long)rounds,
               (unsigned long long)atomic_load(&progress));
    return failures != 0;
}
