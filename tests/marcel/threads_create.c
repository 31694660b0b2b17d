/* SPDX-License-Identifier: BSD-3-Clause */
/* Create, join, detach; many threads; the end and a new start. */
#include "threads.h"

/* ---- Create, join, detach, exit -------------------------------------------------------------------------------- */

static void *give_back(void *arg)
{
    return arg;
}

static void *exit_with(void *arg)
{
    marcel_exit(arg);
}

static void *wait_and_give_back(void *arg)
{
    marcel_yield();
    marcel_yield();
    return arg;
}

static void *join_all_ways(void *arg)
{
    static void *(*const ways[])(void *) = {give_back, exit_with, wait_and_give_back};
    (void)arg;
    for (size_t w = 0; w < COUNT(ways); w++) {
        for (int yields = 0; yields < 4; yields++) {
            void *result = NULL;
            marcel_t thread;
            CHECK_EQ(marcel_create(&thread, NULL, ways[w], &thread), 0);
            for (int i = 0; i < yields; i++) /* the thread is joined as a seed, after its start, and after its end */
                marcel_yield();
            CHECK_EQ(marcel_join(thread, &result), 0);
            CHECK(result == &thread);
        }
    }
    CHECK_EQ(marcel_join(marcel_self(), NULL), EDEADLK);
    return NULL;
}

void test_join_returns_the_result_once(void)
{
    void *result = NULL;
    marcel_t thread;
    CHECK_EQ(marcel_create(&thread, NULL, exit_with, &thread), 0);
    CHECK_EQ(marcel_join(thread, &result), 0);
    CHECK(result == &thread);
    CHECK_EQ(marcel_join(thread, NULL), ESRCH);
    CHECK_EQ(marcel_tryjoin(thread, NULL), ESRCH);
    CHECK_EQ(marcel_detach(thread), ESRCH);
    CHECK_EQ(marcel_cancel(thread), ESRCH);
    in_thread(join_all_ways, NULL);
    CHECK_EQ(marcel_join(marcel_self(), NULL), EDEADLK);
}

static struct pair {
    marcel_t threads[2];
    marcel_sem_t go, over;
    int rc[2];
} pair;

static void *join_other(void *arg)
{
    static const struct timespec past = {1, 0};
    int me = (int)(intptr_t)arg;
    marcel_sem_wait(&pair.go);
    while ((pair.rc[me] = me ? marcel_timedjoin(pair.threads[0], NULL, &past) : marcel_join(pair.threads[1], NULL)) ==
           ETIMEDOUT)
        marcel_yield();
    marcel_sem_post(&pair.over);
    return NULL;
}

/* Two threads join each other: the later one gets an error. */
void test_join_of_each_other_is_an_error(void)
{
    CHECK_EQ(marcel_sem_init(&pair.go, 0, 0), 0);
    CHECK_EQ(marcel_sem_init(&pair.over, 0, 0), 0);
    for (intptr_t i = 0; i < 2; i++)
        CHECK_EQ(marcel_create(&pair.threads[i], NULL, join_other, (void *)i), 0);
    for (int i = 0; i < 2; i++)
        marcel_sem_post(&pair.go);
    for (int i = 0; i < 2; i++)
        marcel_sem_wait(&pair.over);
    CHECK((pair.rc[0] == EDEADLK && pair.rc[1] == 0) || (pair.rc[0] == 0 && pair.rc[1] == EDEADLK));
    CHECK_EQ(marcel_join(pair.threads[pair.rc[0] != 0], NULL), 0);
}

static void *tree(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    marcel_t child[3];
    intptr_t sum = 1;
    if (!depth)
        return (void *)1;
    for (int i = 0; i < 3; i++)
        if (marcel_create(&child[i], NULL, tree, (void *)(depth - 1)))
            return NULL;
    for (int i = 0; i < 3; i++) { /* the oldest seed first, so each is taken from the middle of the list of seeds */
        void *part = NULL;
        if (depth & 1)
            marcel_yield();
        marcel_join(child[i], &part);
        sum += (intptr_t)part;
    }
    return (void *)sum;
}

void test_tree_of_threads_adds_up(void)
{
    void *sum = NULL;
    marcel_t root;
    CHECK_EQ(marcel_create(&root, NULL, tree, (void *)8), 0);
    CHECK_EQ(marcel_join(root, &sum), 0);
    CHECK_EQ((intptr_t)sum, 9841); /* number of threads of the tree: (3^9 - 1) / 2 */
}

static marcel_sem_t done;

static void *post_done(void *arg)
{
    if (arg)
        marcel_yield();
    marcel_sem_post(&done);
    return NULL;
}

void test_detached_threads_end_by_themselves(void)
{
    marcel_attr_t attr;
    marcel_t thread;
    marcel_sem_init(&done, 0, 0);
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setdetachstate(&attr, 7), EINVAL);
    CHECK_EQ(marcel_attr_setdetachstate(&attr, MARCEL_CREATE_DETACHED), 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(marcel_create(&thread, &attr, post_done, i & 1 ? &done : NULL), 0);
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(marcel_create(&thread, NULL, post_done, i & 1 ? &done : NULL), 0);
        CHECK_EQ(marcel_detach(thread), 0);
    }
    for (int i = 0; i < 2000; i++)
        CHECK_EQ(marcel_sem_wait(&done), 0);
    marcel_attr_destroy(&attr);
}

/* ---- Many, and the end ------------------------------------------------------------------------------------------- */

static marcel_sem_t gate, arrived;

static void *stand(void *arg)
{
    marcel_sem_post(&arrived);
    marcel_sem_wait(&gate);
    return arg;
}

void test_library_with_20000_threads_cannot_end(void)
{
    enum { N = 20000 };
    marcel_t *thread = calloc(N, sizeof *thread);
    int n = 0;
    marcel_sem_init(&gate, 0, 0);
    marcel_sem_init(&arrived, 0, 0);
    while (thread && n < N && CHECK_EQ(marcel_create(&thread[n], NULL, stand, &thread[n]), 0))
        n++;
    for (int i = 0; i < n; i++)
        marcel_sem_wait(&arrived);
    CHECK_EQ(marcel_fini(), EBUSY);
    for (int i = 0; i < n; i++)
        marcel_sem_post(&gate);
    for (int i = 0; i < n; i++) {
        void *result = NULL;
        CHECK_EQ(marcel_join(thread[i], &result), 0);
        CHECK(result == &thread[i]);
    }
    free(thread);
}

void test_library_starts_again(void)
{
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(marcel_init(), 0);
        CHECK_EQ(marcel_init(), 0);
        CHECK(marcel_worker_count() >= 1);
        in_thread(join_all_ways, NULL);
        CHECK_EQ(fini_soon(), 0);
        CHECK_EQ(marcel_worker_count(), 0);
        CHECK_EQ(marcel_fini(), 0);
    }
}
