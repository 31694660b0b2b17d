/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of engine/accept_thread.c: the door's thread calls the answer function when the descriptor is ready. */
#include "accept_thread_test.h"

#include "base/clock.h"
#include "engine/accept_thread.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WITHIN 20 /* seconds; milliseconds in practice */

typedef struct house {
    marceli_door_t door;
    sem_t answered;
    _Atomic(int) answers;
    int busy;     /* how many answers return false before one succeeds */
    int64_t soon; /* ns until the next call is due; 0: no time is set */
} house_t;

/* Thread-local data as a program may have it: it lies on the stack of the door's thread, and exceeds the stack size
 * asked for. */
static _Thread_local volatile char own[400 * 1024];

static bool answer(void *arg, int64_t *again)
{
    house_t *house = arg;
    eventfd_t n;
    own[0] = own[sizeof own - 1] = 1;
    bool let_in = house->busy-- <= 0 && eventfd_read(house->door.fd, &n) == 0;
    if (house->soon)
        *again = madi_deadline(house->soon);
    atomic_fetch_add(&house->answers, 1);
    sem_post(&house->answered);
    return let_in;
}

static void open_house(house_t *house, int64_t again)
{
    house->door = (marceli_door_t){
        .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .answer = answer, .arg = house, .again = again};
    sem_init(&house->answered, 0, 0);
    ck_assert_int_eq(marceli_door_open(&house->door), 0);
}

static void close_house(house_t *house)
{
    marceli_door_close(&house->door);
    close(house->door.fd);
    sem_destroy(&house->answered);
}

static void is_answered(house_t *house)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WITHIN;
    ck_assert_int_eq(sem_timedwait(&house->answered, &until), 0);
}

START_TEST(who_calls_is_answered)
{
    house_t one = {.answers = 0}, two = {.answers = 0};
    open_house(&one, INT64_MAX);
    open_house(&two, INT64_MAX);
    for (int i = 0; i < 3; i++) {
        eventfd_write(two.door.fd, 1);
        is_answered(&two);
    }
    ck_assert_int_eq(one.answers, 0); /* its descriptor was never ready */
    close_house(&two);
    eventfd_write(one.door.fd, 1);
    is_answered(&one);
    ck_assert_int_eq(madi_door_runs(), 1);
    close_house(&one);
    ck_assert_int_eq(madi_door_runs(), 0);
}
END_TEST

/* The thread calls again until the answer function returns true. */
START_TEST(who_is_not_let_in)
{
    house_t house = {.busy = 4};
    open_house(&house, INT64_MAX);
    eventfd_write(house.door.fd, 1);
    for (int i = 0; i < 5; i++)
        is_answered(&house);
    marceli_door_close(&house.door);
    ck_assert_int_eq(house.answers, 5);
    marceli_door_close(&house.door); /* closing a closed door has no effect */
    close_house(&house);
}
END_TEST

START_TEST(by_the_clock)
{
    house_t house = {.soon = 1000000};
    open_house(&house, 0);
    for (int i = 0; i < 5; i++)
        is_answered(&house);
    close_house(&house);
    ck_assert_int_ge(house.answers, 5);
}
END_TEST

/* A descriptor that cannot be polled is refused, and no thread is left behind. */
START_TEST(no_door)
{
    marceli_door_t door = {.fd = -1, .answer = answer, .again = INT64_MAX};
    ck_assert_int_eq(marceli_door_open(&door), EBADF);
    ck_assert_int_eq(madi_door_runs(), 0);
    marceli_door_close(&door);
}
END_TEST

void accept_thread_tests(TCase *tcase)
{
    tcase_add_test(tcase, who_calls_is_answered);
    tcase_add_test(tcase, who_is_not_let_in);
    tcase_add_test(tcase, by_the_clock);
    tcase_add_test(tcase, no_door);
}
