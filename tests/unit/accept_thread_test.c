/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of engine/accept_thread.c: the accept thread calls an entry's function when the descriptor is ready. */
#include "accept_thread_test.h"

#include "base/clock.h"
#include "engine/accept_thread.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WITHIN 20 /* seconds: deadline for events that take milliseconds in practice */

typedef struct job {
    marceli_accept_entry_t entry;
    sem_t answered;
    _Atomic(int) answers;
    int busy;     /* number of answers that return false before one succeeds */
    int64_t soon; /* ns until the next call is due; 0: no time is set */
} job_t;

/* Thread-local data as a program may have it: the data lie on the stack of the accept thread, and exceed the requested stack
 * size. */
static _Thread_local volatile char own[400 * 1024];

static bool answer(void *arg, int64_t *again)
{
    job_t *job = arg;
    eventfd_t n;
    own[0] = own[sizeof own - 1] = 1;
    bool let_in = job->busy-- <= 0 && eventfd_read(job->entry.fd, &n) == 0;
    if (job->soon)
        *again = madi_deadline(job->soon);
    atomic_fetch_add(&job->answers, 1);
    sem_post(&job->answered);
    return let_in;
}

static void job_open(job_t *job, int64_t again)
{
    job->entry =
        (marceli_accept_entry_t){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .serve = answer, .arg = job, .again = again};
    sem_init(&job->answered, 0, 0);
    ck_assert_int_eq(marceli_accept_entry_open(&job->entry), 0);
}

static void job_close(job_t *job)
{
    marceli_accept_entry_close(&job->entry);
    close(job->entry.fd);
    sem_destroy(&job->answered);
}

static void check_answered(job_t *job)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WITHIN;
    ck_assert_int_eq(sem_timedwait(&job->answered, &until), 0);
}

START_TEST(entry_ready_is_served)
{
    job_t one = {.answers = 0}, two = {.answers = 0};
    job_open(&one, INT64_MAX);
    job_open(&two, INT64_MAX);
    for (int i = 0; i < 3; i++) {
        eventfd_write(two.entry.fd, 1);
        check_answered(&two);
    }
    ck_assert_int_eq(one.answers, 0); /* the entry's descriptor was never ready */
    job_close(&two);
    eventfd_write(one.entry.fd, 1);
    check_answered(&one);
    ck_assert_int_eq(madi_accept_thread_runs(), 1);
    job_close(&one);
    ck_assert_int_eq(madi_accept_thread_runs(), 0);
}
END_TEST

/* The thread calls again until the answer function returns true. */
START_TEST(entry_not_served_is_tried_again)
{
    job_t job = {.busy = 4};
    job_open(&job, INT64_MAX);
    eventfd_write(job.entry.fd, 1);
    for (int i = 0; i < 5; i++)
        check_answered(&job);
    marceli_accept_entry_close(&job.entry);
    ck_assert_int_eq(job.answers, 5);
    marceli_accept_entry_close(&job.entry); /* no effect on a closed entry */
    job_close(&job);
}
END_TEST

START_TEST(entry_is_served_by_the_clock)
{
    job_t job = {.soon = 1000000};
    job_open(&job, 0);
    for (int i = 0; i < 5; i++)
        check_answered(&job);
    job_close(&job);
    ck_assert_int_ge(job.answers, 5);
}
END_TEST

/* A descriptor that cannot be polled is refused, and no thread is left behind. */
START_TEST(entry_of_bad_descriptor_is_refused)
{
    marceli_accept_entry_t entry = {.fd = -1, .serve = answer, .again = INT64_MAX};
    ck_assert_int_eq(marceli_accept_entry_open(&entry), EBADF);
    ck_assert_int_eq(madi_accept_thread_runs(), 0);
    marceli_accept_entry_close(&entry);
}
END_TEST

void accept_thread_tests(TCase *tcase)
{
    tcase_add_test(tcase, entry_ready_is_served);
    tcase_add_test(tcase, entry_not_served_is_tried_again);
    tcase_add_test(tcase, entry_is_served_by_the_clock);
    tcase_add_test(tcase, entry_of_bad_descriptor_is_refused);
}
