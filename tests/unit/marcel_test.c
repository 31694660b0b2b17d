/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the internal functions of libmarcel.  The program prints 'ok' and 'not ok' lines, which tests/run counts. */
#include "bias_test.h"
#include "accept_thread_test.h"
#include "progress_place_test.h"

#include "base/clock.h"
#include "engine/leader.h"
#include "engine/waiter.h"
#include "marcel/deque.h"
#include "marcel/guard.h"
#include "marcel/inbox.h"
#include "marcel/marcel.h"
#include "marcel/mutex.h"
#include "marcel/traits.h"
#include "marcel/placement.h"
#include "marcel/sched.h"
#include "marcel/share.h"
#include "marcel/slot.h"
#include "marcel/timer.h"
#include "marcel/waitq.h"

#include <check.h>
#include <errno.h>
#include <marcel.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>

/* ---- Switch ----------------------------------------------------------------------------------------------------- */

static void *context[2];
static int trace;

static void other(void)
{
    madi_ult_t *self = madi_slot_of((uintptr_t)__builtin_frame_address(0));
    ck_assert_ptr_nonnull(self);
    ck_assert_uint_eq((uintptr_t)__builtin_frame_address(0) % 16, 0);
    for (int i = 0; i < 10; i++) {
        double kept = i + 0.5;
        trace = (10 * trace + 1) % 1000000;
        madi_switch(&context[1], context[0]);
        ck_assert(kept == i + 0.5);
    }
    madi_switch_leave(context[0]);
}

START_TEST(test_switch_returns_to_its_caller)
{
    madi_guard_init(MADI_GUARD_AUTO, -1);
    ck_assert_int_eq(madi_slot_init(), 0);
    madi_ult_t *ult = madi_slot_get(16);
    ck_assert_ptr_nonnull(ult);
    ck_assert_ptr_null(madi_slot_of((uintptr_t)&ult));
    context[1] = madi_switch_frame(ult, other);
    for (int i = 0; i < 11; i++) {
        trace = (10 * trace + 2) % 1000000;
        madi_switch(&context[0], context[1]);
    }
    ck_assert_int_eq(trace, 121212 / 10 * 10 + 2); /* the contexts alternate, and the last switch only leaves */
    madi_slot_put(ult);
}
END_TEST

/* ---- Waiters of one object -------------------------------------------------------------------------------------- */

/* Each event wakes one more waiter, up to a thousand awake ones.  Without this limit, a burst of events for many
 * waiters would pass over all awake ones each time. */
START_TEST(test_waiters_each_event_wakes_one_more)
{
    enum { ALL = 1500, ENOUGH = 1000 };
    static marceli_waiter_t w[ALL];
    marceli_waiters_t list = {NULL, NULL};
    for (int i = 0; i < ALL; i++)
        marceli_waiters_add(&list, &w[i]);
    for (int i = 0; i < ALL; i++) {
        ck_assert(marceli_waiters_wake_one(&list));
        ck_assert_int_eq(marceli_waiter_is_woken(&w[i]), i < ENOUGH);
    }
    for (int i = 0; i < ENOUGH; i++) { /* a waiter that leaves lets one more be woken */
        marceli_waiters_del(&w[i]);
        ck_assert(marceli_waiters_wake_one(&list) == (i < ALL - ENOUGH));
        ck_assert(i >= ALL - ENOUGH || marceli_waiter_is_woken(&w[ENOUGH + i]));
    }
}
END_TEST

/* ---- Slots and guards ------------------------------------------------------------------------------------------- */

START_TEST(test_slots_are_found_by_address)
{
    madi_ult_t *slot[64];
    madi_guard_init(MADI_GUARD_AUTO, -1);
    ck_assert_int_eq(madi_slot_init(), 0);
    for (unsigned i = 0; i < MADI_COUNT(slot); i++) {
        unsigned shift = 14 + i % 16;
        slot[i] = madi_slot_get(shift);
        ck_assert_ptr_nonnull(slot[i]);
        ck_assert_uint_eq(slot[i]->shift, shift);
        ck_assert_uint_eq((uintptr_t)slot[i] % MADI_LINE, 0);
        char *low = madi_slot_low(slot[i]);
        ck_assert_ptr_eq(madi_slot_of((uintptr_t)low), slot[i]);
        ck_assert_ptr_eq(madi_slot_of((uintptr_t)slot[i] - 1), slot[i]);
        ck_assert_uint_eq(madi_slot_room(slot[i]) + madi_guard_size() + MADI_SLOT_TOP, (size_t)1 << shift);
        *low = 1;
        ((char *)slot[i])[-1] = 1;
        for (unsigned j = 0; j < i; j++)
            ck_assert_ptr_ne(slot[i], slot[j]);
    }
    for (unsigned i = 0; i < MADI_COUNT(slot); i++)
        madi_slot_put(slot[i]);
    ck_assert_ptr_eq(madi_slot_get(slot[63]->shift), slot[63]); /* the last slot freed is used first */
    ck_assert_ptr_null(madi_slot_get(MADI_SLOT_SHIFT_MAX + 1));
    ck_assert_uint_eq(madi_slot_shift(65536 - madi_guard_size() - MADI_SLOT_TOP), 16);
    ck_assert_uint_eq(madi_slot_shift(65536 - madi_guard_size() - MADI_SLOT_TOP + 1), 17);
}
END_TEST

static madi_ult_t *slot_guarded(madi_guard_t method, int64_t limit)
{
    madi_guard_init(method, limit);
    ck_assert_int_eq(madi_slot_init(), 0);
    madi_ult_t *ult = madi_slot_get(16);
    ck_assert_ptr_nonnull(ult);
    ult->party.thread = NULL;
    return ult;
}

START_TEST(test_guard_stops_an_overflow) /* the program ends with SIGSEGV, with or without the kernel's guard pages */
{
    madi_ult_t *ult = slot_guarded(MADI_GUARD_AUTO, 10);
    ck_assert_int_eq(ult->flags & MADI_ULT_CANARY, 0);
    ((volatile char *)madi_slot_low(ult))[-1] = 1;
}
END_TEST

START_TEST(test_guard_by_mprotect_stops_an_overflow)
{
    madi_ult_t *ult = slot_guarded(MADI_GUARD_MPROTECT, 10);
    ck_assert_int_eq(ult->flags & MADI_ULT_CANARY, 0);
    ((volatile char *)madi_slot_low(ult))[-1] = 1;
}
END_TEST

START_TEST(test_guard_hit_is_reported) /* the program ends with SIGABRT: the handler recognises an overflow */
{
    madi_ult_t *ult = slot_guarded(MADI_GUARD_MPROTECT, 10);
    madi_guard_watch();
    ((volatile char *)madi_slot_low(ult))[-1] = 1;
}
END_TEST

START_TEST(test_fault_elsewhere_is_passed_on) /* the program ends with SIGSEGV: the address is no guard page */
{
    slot_guarded(MADI_GUARD_MPROTECT, 10);
    madi_guard_watch();
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(volatile char *)page = 1;
}
END_TEST

START_TEST(test_guard_beyond_the_limit_is_a_canary)
{
    madi_ult_t *ult;
    madi_guard_init(MADI_GUARD_MPROTECT, 3);
    ck_assert_int_eq(madi_slot_init(), 0);
    for (int i = 0; i < 6; i++) {
        ult = madi_slot_get(16);
        ck_assert_int_eq(!(ult->flags & MADI_ULT_CANARY), i < 3);
    }
    ult->party.thread = NULL;
    madi_guard_check(ult);                /* the check passes, and so does not abort */
    ((char *)madi_slot_low(ult))[-1] = 1; /* this slot has no guard page */
}
END_TEST

START_TEST(test_canary_overwritten_aborts) /* the program ends with SIGABRT */
{
    madi_ult_t *ult = slot_guarded(MADI_GUARD_MPROTECT, 0);
    ck_assert_int_ne(ult->flags & MADI_ULT_CANARY, 0);
    ((char *)madi_slot_low(ult))[10] = 1;
    madi_guard_check(ult);
}
END_TEST

/* ---- Seeds ------------------------------------------------------------------------------------------------------ */

#define SEEDS 2000
static struct marcel_thread seed[SEEDS];

START_TEST(test_deque_owner_takes_the_youngest)
{
    madi_deque_t deque;
    ck_assert_int_eq(madi_deque_init(&deque), 0);
    ck_assert_ptr_null(madi_deque_pop(&deque));
    ck_assert_ptr_null(madi_deque_steal(&deque));
    for (int i = 0; i < SEEDS; i++)
        ck_assert_int_eq(madi_deque_push(&deque, &seed[i]), 0); /* the deque grows */
    for (int i = 0; i < 10; i++)
        ck_assert_ptr_eq(madi_deque_steal(&deque), &seed[i]);
    for (int i = SEEDS - 1; i >= SEEDS - 10; i--)
        ck_assert_ptr_eq(madi_deque_pop(&deque), &seed[i]);
    /* A seed taken from the middle leaves a stale entry, which both ends skip. */
    ck_assert(madi_seed_take(&seed[10]));
    ck_assert(!madi_seed_take(&seed[10]));
    madi_deque_forget(&deque, &seed[10]);
    ck_assert_ptr_eq(madi_deque_steal(&deque), &seed[11]);
    ck_assert(madi_seed_take(&seed[SEEDS - 11]));
    madi_deque_forget(&deque, &seed[SEEDS - 11]);
    ck_assert_ptr_eq(madi_deque_pop(&deque), &seed[SEEDS - 12]);
    /* The owner pops below the thieves' position and pushes again: thieves still find the new seed. */
    while (madi_deque_pop(&deque))
        ;
    ck_assert(madi_deque_empty(&deque));
    ck_assert_int_eq(madi_deque_push(&deque, &seed[0]), 0);
    ck_assert_ptr_eq(madi_deque_steal(&deque), &seed[0]);
    ck_assert_ptr_null(madi_deque_steal(&deque));
    madi_deque_fini(&deque);
}
END_TEST

START_TEST(test_deque_drops_stale_entries) /* the deque drops stale entries, and so does not grow without bound */
{
    madi_deque_t deque;
    ck_assert_int_eq(madi_deque_init(&deque), 0);
    size_t room = atomic_load(&deque.hints)->room;
    for (int i = 0; i < 100000; i++) {
        struct marcel_thread *one = &seed[i % SEEDS];
        ck_assert_int_eq(madi_deque_push(&deque, one), 0);
        ck_assert_ptr_eq(madi_deque_steal(&deque), one);
    }
    ck_assert_uint_eq(atomic_load(&deque.hints)->room, room);
    madi_deque_fini(&deque);
}
END_TEST

static madi_deque_t shared;
static atomic_int taken[SEEDS];
static atomic_bool over;

static void *thief(void *arg)
{
    do {
        struct marcel_thread *one = madi_deque_steal(&shared);
        if (one)
            atomic_fetch_add(&taken[one - seed], 1);
    } while (!atomic_load(&over));
    return arg;
}

START_TEST(test_deque_gives_each_seed_once) /* each seed is taken exactly once */
{
    pthread_t thread[2];
    ck_assert_int_eq(madi_deque_init(&shared), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, thief, NULL), 0);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < SEEDS; i++)
            atomic_store(&taken[i], 0);
        for (int i = 0; i < SEEDS; i++) {
            struct marcel_thread *one;
            ck_assert_int_eq(madi_deque_push(&shared, &seed[i]), 0);
            if (i % 3 == 0 && (one = madi_deque_pop(&shared)))
                atomic_fetch_add(&taken[one - seed], 1);
        }
        for (struct marcel_thread *one; (one = madi_deque_pop(&shared));)
            atomic_fetch_add(&taken[one - seed], 1);
        for (int i = 0; i < SEEDS; i++) /* a thief may have stolen a seed that is not counted yet */
            while (atomic_load(&taken[i]) == 0)
                sched_yield();
        for (int i = 0; i < SEEDS; i++)
            ck_assert_int_eq(atomic_load(&taken[i]), 1);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    madi_deque_fini(&shared);
}
END_TEST

/* ---- Inbox, timers, queues -------------------------------------------------------------------------------------- */

START_TEST(test_inbox_keeps_order)
{
    static madi_ult_t ult[3];
    madi_inbox_t inbox = {0};
    ck_assert(madi_inbox_empty(&inbox));
    ck_assert_uint_eq(madi_inbox_take(&inbox), 0);
    madi_inbox_put(&inbox, (uintptr_t)&ult[0]);
    madi_inbox_put(&inbox, (uintptr_t)&seed[0] | 1);
    madi_inbox_put(&inbox, (uintptr_t)&ult[1]);
    ck_assert(!madi_inbox_empty(&inbox));
    uintptr_t item = madi_inbox_take(&inbox);
    ck_assert_uint_eq(item, (uintptr_t)&ult[0]);
    item = *madi_inbox_link(item);
    ck_assert_uint_eq(item, (uintptr_t)&seed[0] | 1);
    item = *madi_inbox_link(item);
    ck_assert_uint_eq(item, (uintptr_t)&ult[1]);
    ck_assert_uint_eq(*madi_inbox_link(item), 0);
}
END_TEST

START_TEST(test_timers_expire_in_order) /* timers fire in order of their deadlines, with some disarmed in between */
{
    static madi_timer_t timer[500];
    madi_timers_t timers = {NULL};
    unsigned random = 1;
    int armed = 0;
    ck_assert_ptr_null(madi_timer_due(&timers, INT64_MAX));
    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < MADI_COUNT(timer); i++) {
            random = random * 1103515245 + 12345;
            if (!timer[i].back) {
                madi_timer_arm(&timers, &timer[i], (random >> 8) % 1000);
                armed++;
            } else if (random & 0x100) {
                madi_timer_disarm(&timers, &timer[i]);
                armed--;
            }
        }
        int64_t last = -1, now = round % 2 ? 2000 : 500;
        for (madi_timer_t *due; (due = madi_timer_due(&timers, now)); armed--) {
            ck_assert_int_ge(due->deadline, last);
            ck_assert_int_le(due->deadline, now);
            last = due->deadline;
            madi_timer_disarm(&timers, due); /* disarming a timer that is due has no effect */
        }
        for (unsigned i = 0; i < MADI_COUNT(timer); i++)
            ck_assert(!timer[i].back || timer[i].deadline > now);
        if (now == 2000)
            ck_assert_int_eq(armed, 0);
    }
}
END_TEST

START_TEST(test_waitq_keeps_order)
{
    madi_waitq_t queue = {.value = 0};
    madi_party_t party[5] = {{.plain = true}};
    ck_assert_ptr_null(madi_waitq_take(&queue));
    for (int i = 0; i < 4; i++)
        madi_waitq_add(&queue, &party[i]);
    madi_waitq_add_first(&queue, &party[4]);
    ck_assert_ptr_eq(madi_waitq_take(&queue), &party[4]);
    madi_waitq_remove(&queue, &party[1]);
    atomic_store(&party[0].wait, MADI_WAIT_EXPIRED);
    atomic_store(&party[2].wait, MADI_WAIT_TIMED);
    ck_assert_ptr_eq(madi_waitq_take(&queue), &party[2]); /* the deadline of the first thread has passed already */
    ck_assert_uint_eq(atomic_load(&party[2].wait), MADI_WAIT_WOKEN);
    ck_assert_ptr_eq(madi_waitq_take(&queue), &party[3]);
    ck_assert_ptr_null(madi_waitq_take(&queue));
    ck_assert_ptr_eq(queue.first, &party[0]);
    madi_waitq_remove(&queue, &party[0]);
    ck_assert_ptr_null(queue.first);
}
END_TEST

/* ---- Places and sizes ------------------------------------------------------------------------------------------- */

START_TEST(test_placement_shares_out_all_processors)
{
    cpu_set_t allowed, all, one;
    int n;
    ck_assert_int_eq(madi_placement_find(1), 0);
    ck_assert(!madi_placement_get(0, &one)); /* a single worker is not bound */
    ck_assert_int_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    n = CPU_COUNT(&allowed);
    CPU_ZERO(&all);
    ck_assert_int_eq(madi_placement_find(n), 0);
    for (int i = 0; i < n && n > 1; i++) {
        ck_assert(madi_placement_get(i, &one));
        ck_assert_int_ge(CPU_COUNT(&one), 1);
        CPU_OR(&all, &all, &one);
    }
    ck_assert(n == 1 || CPU_EQUAL(&all, &allowed));
    ck_assert(!madi_placement_get(n, &one));
    ck_assert_int_eq(madi_placement_find(n + 1), 0);
    ck_assert(!madi_placement_get(0, &one));
    madi_placement_forget();
}
END_TEST

/* Sizes per thread, of which there may be a million, and sizes in the public ABI. */
START_TEST(test_sizes_of_objects_are_pinned)
{
    ck_assert_uint_le(sizeof(struct marcel_thread), 64);
#if !MADI_SANITIZER_END && !defined(MADI_SANITIZER_ASAN)
    ck_assert_uint_le(sizeof(madi_ult_t), 256);
#endif
    ck_assert_uint_eq(sizeof(marcel_mutex_t), 48);
    ck_assert_uint_eq(sizeof(marcel_cond_t), 48);
    ck_assert_uint_eq(sizeof(marcel_sem_t), 32);
    ck_assert_uint_eq(sizeof(marcel_attr_t), 96);
}
END_TEST

/* ---- A wake and a timeout at the same time ---------------------------------------------------------------------- */

#define SOON 20000000 /* ns */

typedef struct late {
    marceli_waiter_t waiter;
    _Atomic(int) there, back;
} late_t;

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void *wait_until_soon(void *arg)
{
    late_t *late = arg;
    marceli_waiter_init(&late->waiter);
    atomic_store(&late->there, 1);
    marceli_wait(&late->waiter, never, NULL, madi_now() + SOON);
    atomic_store(&late->back, 1);
    return NULL;
}

/* A waker is delayed between its two steps, and the deadline passes.  The thread must not go on before the waker
 * notices, or it would be made ready while it runs. */
START_TEST(test_expired_wait_ends_after_its_waker)
{
    late_t late = {.there = 0};
    uint32_t asleep;
    marcel_t thread;
    ck_assert_int_eq(marceli_server_open(), 0);
    ck_assert_int_eq(marcel_create(&thread, NULL, wait_until_soon, &late), 0);
    while (!atomic_load(&late.there))
        sched_yield();
    do
        asleep = MARCELI_ASLEEP;
    while (!atomic_compare_exchange_strong(&late.waiter.word, &asleep, MARCELI_WOKEN) && !atomic_load(&late.back));
    ck_assert_int_eq(atomic_load(&late.back), 0);
    poll(NULL, 0, 5 * SOON / 1000000); /* a sleep, because no event shows that nothing happens */
    ck_assert_msg(!atomic_load(&late.back), "it runs, and will be made ready");
    atomic_fetch_sub(&madi_server.blocked, 1);
    madi_ult_wake(late.waiter.ult);
    ck_assert_int_eq(marcel_join(thread, NULL), 0);
}
END_TEST

/* ---- A kernel without epoll_pwait2 ------------------------------------------------------------------------------ */

static bool old_kernel;

int __real_epoll_pwait2(int epfd, struct epoll_event *events, int n, const struct timespec *timeout, const sigset_t *mask);
int __wrap_epoll_pwait2(int epfd, struct epoll_event *events, int n, const struct timespec *timeout, const sigset_t *mask);

int __wrap_epoll_pwait2(int epfd, struct epoll_event *events, int n, const struct timespec *timeout, const sigset_t *mask)
{
    if (!old_kernel)
        return __real_epoll_pwait2(epfd, events, n, timeout, mask);
    errno = ENOSYS;
    return -1;
}

typedef struct overdue {
    marceli_waiter_t waiter;
    int64_t deadline;
    bool slept;
} overdue_t;

/* Delay a thread that is about to sleep until long after its deadline. */
static bool held_up(void *arg)
{
    overdue_t *o = arg;
    if (atomic_load(&o->waiter.word) == MARCELI_LEADS_ASLEEP) {
        o->slept = true;
        while (madi_now() < o->deadline + 10000000)
            poll(NULL, 0, 1);
    }
    return false;
}

/* A thread that is past its deadline when it goes to sleep does not sleep forever. */
START_TEST(test_overdue_wait_does_not_sleep)
{
    overdue_t o = {.slept = false};
    old_kernel = true;
    setenv("MAD_SPIN", "0", 1);
    ck_assert_int_eq(marceli_server_open(), 0);
    do {
        o.deadline = madi_now() + 20000000;
        ck_assert(!marceli_wait(&o.waiter, held_up, &o, o.deadline));
    } while (!o.slept);
}
END_TEST

/* ---- Stolen from another worker --------------------------------------------------------------------------------- */

/* A worker has stolen a movable thread, and a thread of its own becomes ready before the worker runs the stolen one.  The
 * stolen thread must not queue behind the other thread, which may compute for long, but stay where a third worker finds
 * it. */
START_TEST(test_stolen_thread_stays_visible)
{
    static madi_worker_t workers[3];
    static madi_ult_t moving, own;
    ck_assert_int_eq(madi_placement_find(3), 0);
    madi_marcel.workers = workers;
    atomic_store(&madi_marcel.n_workers, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(madi_worker_init(&workers[i], i, 3), 0);
    moving.moves = true;
    moving.priority = own.priority = MADI_USUAL;
    moving.worker = &workers[0];
    own.worker = &workers[1];
    madi_movable_put(&workers[0], &moving);
    ck_assert(madi_share_find(&workers[1], true));
    madi_inbox_put(&workers[1].inbox, (uintptr_t)&own);
    ck_assert_ptr_eq(madi_pick_all(&workers[1]), &own);
    ck_assert(madi_share_find(&workers[2], true));
    ck_assert_ptr_eq(madi_pick_all(&workers[2]), &moving);
    ck_assert_ptr_eq(moving.worker, &workers[2]);
    ck_assert(!madi_share_find(&workers[2], true));
    madi_movable_put(&workers[0], &moving); /* without other work the stolen thread runs at once */
    ck_assert(madi_share_find(&workers[1], true));
    ck_assert_ptr_eq(madi_pick_all(&workers[1]), &moving);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_switch_returns_to_its_caller,   test_slots_are_found_by_address,  test_guard_beyond_the_limit_is_a_canary,
        test_deque_owner_takes_the_youngest, test_deque_drops_stale_entries,   test_inbox_keeps_order,
        test_timers_expire_in_order,         test_waitq_keeps_order,           test_placement_shares_out_all_processors,
        test_sizes_of_objects_are_pinned,    test_deque_gives_each_seed_once,  test_expired_wait_ends_after_its_waker,
        test_stolen_thread_stays_visible,    test_overdue_wait_does_not_sleep, test_waiters_each_event_wakes_one_more,
    };
    const struct {
        const TTest *test;
        int signal;
    } deaths[] = {{test_guard_stops_an_overflow, SIGSEGV},
                  {test_guard_by_mprotect_stops_an_overflow, SIGSEGV},
                  {test_guard_hit_is_reported, SIGABRT},
                  {test_fault_elsewhere_is_passed_on, SIGSEGV},
                  {test_canary_overwritten_aborts, SIGABRT}};
    Suite *suite = suite_create("marcel");
    TCase *tcase = tcase_create("marcel");
    tcase_set_timeout(tcase, 60);
    for (size_t i = 0; i < MADI_COUNT(tests); i++)
        tcase_add_test(tcase, tests[i]);
    for (size_t i = 0; i < MADI_COUNT(deaths); i++)
        tcase_add_test_raise_signal(tcase, deaths[i].test, deaths[i].signal);
    bias_tests(tcase);
    accept_thread_tests(tcase);
    progress_place_tests(tcase);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
