/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues whose lock one worker has to itself (src/marcel/bias.h). */
#include "bias_test.h"

#include "engine/leader.h"
#include "marcel/bias.h"
#include "marcel/marcel.h"

#include <marcel.h>

START_TEST(test_bias_lasts_until_another_thread_locks)
{
    static madi_worker_t worker;
    madi_waitq_t queue = {.value = 0};
    ck_assert_int_eq(madi_worker_init(&worker, 4, 5), 0);
    worker.bias = 10; /* set, so that the test is the same with and without membarrier */
    ck_assert(!madi_bias_enter(&worker, &queue));
    ck_assert_ptr_null(worker.holds);
    queue.lock.held = 10;
    for (int i = 0; i < 2; i++) {
        ck_assert(madi_bias_enter(&worker, &queue));
        ck_assert_ptr_eq(worker.holds, &queue);
        madi_waitq_leave(&worker, &queue);
        ck_assert_ptr_null(worker.holds);
        ck_assert_int_eq(queue.lock.held, 10);
    }
    madi_waitq_lock(&queue);
    ck_assert(!madi_bias_enter(&worker, &queue));
    madi_waitq_leave(&worker, &queue);
    ck_assert_int_eq(queue.lock.held, 0);
    madi_worker_fini(&worker);
}
END_TEST

START_TEST(test_bias_of_a_lost_worker_ends_in_a_child)
{
    static madi_worker_t workers[2];
    madi_party_t party;
    madi_waitq_t queue = {.value = 0};
    madi_marcel.workers = workers;
    atomic_store(&madi_marcel.n_workers, 2);
    for (int i = 0; i < 2; i++)
        workers[i].bias = 2 * (uint32_t)i + 2;
    queue.lock.held = 4;
    ck_assert(madi_bias_enter(&workers[1], &queue));
    madi_waitq_add(&queue, &party);
    madi_bias_forked(&workers[0]);
    madi_waitq_lock(&queue); /* this call does not wait for the lost worker */
    ck_assert_ptr_null(queue.first);
    atomic_store(&madi_marcel.n_workers, 0);
}
END_TEST

static int word_of(marcel_sem_t *sem)
{
    return ((madi_waitq_t *)(void *)sem)->lock.held;
}

/* 5,000 posts and waits of one thread. */
static void *use_for_long(void *sem)
{
    madi_worker_t *worker = madi_worker_self();
    for (int i = 0; i < 5000; i++) {
        ck_assert_int_eq(marcel_sem_post(sem), 0);
        ck_assert_int_eq(marcel_sem_wait(sem), 0);
    }
    ck_assert_int_eq(word_of(sem), madi_server.asymmetric ? (int)worker->bias : 0);
    return NULL;
}

START_TEST(test_semaphore_of_one_worker_is_biased)
{
    marcel_sem_t sem;
    marcel_t thread;
    ck_assert_int_eq(marcel_sem_init(&sem, 0, 0), 0);
    ck_assert_int_eq(marcel_create(&thread, NULL, use_for_long, &sem), 0);
    ck_assert_int_eq(marcel_join(thread, NULL), 0);
    ck_assert_int_eq(marcel_sem_post(&sem), 0);
    ck_assert_int_eq(word_of(&sem), 0);
    ck_assert_int_eq(marcel_sem_trywait(&sem), 0);
    ck_assert_int_eq(marcel_sem_destroy(&sem), 0);
}
END_TEST

void bias_tests(TCase *tcase)
{
    tcase_add_test(tcase, test_bias_lasts_until_another_thread_locks);
    tcase_add_test(tcase, test_bias_of_a_lost_worker_ends_in_a_child);
    tcase_add_test(tcase, test_semaphore_of_one_worker_is_biased);
}
