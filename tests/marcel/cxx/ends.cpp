// SPDX-License-Identifier: BSD-3-Clause
// The handlers and destructors that run when a thread ends by exit or by a cancellation, and their order.
#include "cases.h"

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#define FORCED abi::__forced_unwind &
#else
#define FORCED ...
#endif

// ---- Exit -------------------------------------------------------------------------------------------------------

static void leave(void *)
{
    object o(1);
    T(exit)((void *)42);
}

static void *exits_deep(void *)
{
    object a(5);
    T(cleanup_push)(handler, (void *)4);
    object b(3);
    T(cleanup_push)(handler, (void *)2);
    leave(nullptr);
    T(cleanup_pop)(0);
    T(cleanup_pop)(0);
    return nullptr;
}

static void destructors_run_in_order()
{
    happened = 0;
    RIGHT(elsewhere(exits_deep) == (void *)42);
    RIGHT(happened == 12345);
}

static T(key_t) key;
static void key_ends(void *digit)
{
    happens((long)digit);
}

static void *exits_with_key(void *)
{
    object o(1);
    T(setspecific)(key, (void *)2);
    T(exit)(nullptr);
}

static void key_ends_after_the_unwinding()
{
    happened = 0;
    T(key_create)(&key, key_ends);
    elsewhere(exits_with_key);
    T(key_delete)(key);
    RIGHT(happened == 12);
}

// Frames of C.  The cleanup handlers of C code that is compiled without exceptions run after their function has been left.
static void *exits_through_c(void *)
{
    object a(8);
    tables_push(
        [](void *) {
            object b(6);
            tables_call(
                [](void *) {
                    object c(5);
                    cleanup_push(
                        [](void *) {
                            object d(3);
                            cleanup_attribute([](void *) { leave(nullptr); }, nullptr, handler, (void *)2);
                        },
                        nullptr, handler, (void *)4);
                },
                nullptr);
        },
        nullptr, handler, (void *)7);
    return nullptr;
}

static void unwinding_passes_c_frames()
{
    happened = 0;
    RIGHT(elsewhere(exits_through_c) == (void *)42);
    RIGHT(happened == 12345678);
}

// A frame that cannot be unwound: the destructors of deeper frames and the handlers run, and the thread still ends.
static void *exits_through_plain(void *)
{
    object a(7);
    plain_push(
        [](void *) {
            object b(2);
            plain_call(leave, nullptr);
        },
        nullptr, handler, (void *)9);
    return nullptr;
}

static void frames_without_tables_end_the_unwinding()
{
    happened = 0;
    RIGHT(elsewhere(exits_through_plain) == (void *)42);
    RIGHT(happened == 19);
}

static void *exits_in_handler(void *)
{
    object a(2);
    try {
        object b(1);
        throw 1;
    } catch (int) {
        T(exit)((void *)42);
    }
    return nullptr;
}

static void handler_may_exit_the_thread()
{
    happened = 0;
    RIGHT(elsewhere(exits_in_handler) == (void *)42);
    RIGHT(happened == 12);
}

static void *passes_on(void *)
{
    object a(3);
    try {
        object b(1);
        T(exit)((void *)42);
    } catch (FORCED) {
        YIELD();
        happens(2);
        throw;
    }
    return nullptr;
}

static void rethrown_exit_goes_on()
{
    happened = 0;
    RIGHT(elsewhere(passes_on) == (void *)42);
    RIGHT(happened == 123);
}

// An object whose destructor switches, throws and handles.  Other threads may run meanwhile, also one that ends in the same
// way.
struct busy {
    ~busy()
    {
        RIGHT(std::uncaught_exceptions() == 0);
        for (int i = 0; i < 10; i++)
            try {
                YIELD();
                throw i;
            } catch (int caught) {
                YIELD();
                RIGHT(caught == i);
            }
    }
};

static std::atomic<int> ended;
static void *exits_busily(void *)
{
    struct count {
        ~count() { ended++; }
    } c;
    busy b;
    [] {
        busy inner;
        T(exit)((void *)42);
    }();
    return nullptr;
}

static void many_threads_unwind_at_once()
{
    ended = 0;
    run_all(50, exits_busily);
    RIGHT(ended == 50);
}

static void small_stack_suffices_for_unwinding()
{
    T(attr_t) attr;
    T(attr_init)(&attr);
    T(attr_setstacksize)(&attr, 16384);
    ended = 0;
    run_all(4, exits_busily, &attr);
    T(attr_destroy)(&attr);
    RIGHT(ended == 4);
}

// ---- Cancellation -----------------------------------------------------------------------------------------------

enum place { TEST, SEMAPHORE, CONDITION, TIMED_CONDITION, JOIN, PAUSE, DESCRIPTOR, PLACES };
static struct {
    int in, sockets[2];
    T(mutex_t) mutex;
    T(cond_t) cond;
    SEM begun, never;
    T(t) lasts;
    bool held;
} at;

static void *lasts(void *arg)
{
    S(wait)(&at.never);
    return arg;
}

struct unlocks {
    ~unlocks()
    {
        at.held = T(mutex_trylock)(&at.mutex) != 0; // true if this thread still holds the mutex
        T(mutex_unlock)(&at.mutex);
        happens(1);
    }
};

static void wait_at()
{
    object o(9);
    struct timespec far = {4000000000, 0};
    char byte;
    S(post)(&at.begun);
    switch (at.in) {
    case TEST:
        for (;;) {
            T(testcancel)();
            YIELD();
        }
    case SEMAPHORE: S(wait)(&at.never); break;
    case CONDITION:
        for (;;)
            T(cond_wait)(&at.cond, &at.mutex);
    case TIMED_CONDITION:
        for (;;)
            T(cond_timedwait)(&at.cond, &at.mutex, &far);
    case JOIN: T(join)(at.lasts, nullptr); break;
    case PAUSE: SLEEP(1000); break;
    case DESCRIPTOR: RECV(at.sockets[0], &byte, 1); break;
    }
    RIGHT(!"cancelled");
}

static void *is_cancelled(void *)
{
    object o(2);
    T(mutex_lock)(&at.mutex);
    unlocks u;
    wait_at();
    return nullptr;
}

static void cancel_at(int in, bool at_once)
{
    T(t) thread;
    void *result = nullptr;
    at.in = in;
    at.held = false;
    T(mutex_init)(&at.mutex, nullptr);
    T(cond_init)(&at.cond, nullptr);
    S(init)(&at.begun, 0, 0);
    S(init)(&at.never, 0, 0);
    RIGHT(!socketpair(AF_UNIX, SOCK_STREAM, 0, at.sockets));
    T(create)(&at.lasts, nullptr, lasts, nullptr);
    happened = 0;
    T(create)(&thread, nullptr, is_cancelled, nullptr);
    S(wait)(&at.begun);
    for (int i = 0; i < 20 && !at_once; i++)
        YIELD();
    RIGHT(!T(cancel)(thread));
    RIGHT(!T(join)(thread, &result));
    RIGHT(result == C(CANCELED));
    RIGHT(happened == 912 && at.held);
    S(post)(&at.never);
    S(post)(&at.never);
    T(join)(at.lasts, nullptr);
    CLOSE(at.sockets[0]);
    CLOSE(at.sockets[1]);
    T(cond_destroy)(&at.cond);
}

static void cancel_unwinds_everywhere()
{
    for (int in = 0; in < PLACES; in++)
        for (int at_once = 0; at_once < 2; at_once++)
            cancel_at(in, at_once);
}

// ---- Plain pthreads, the first thread of the process ------------------------------------------------------------

#ifndef PTHREAD
#include <pthread.h>
#endif
static void plain_pthread_unwinds()
{
    pthread_t thread;
    void *result;
    happened = 0;
    pthread_create(&thread, nullptr, exits_deep, nullptr);
    pthread_join(thread, &result);
    RIGHT(result == (void *)42 && happened == 12345);
}

static SEM first_gone;
struct says {
    ~says() { S(post)(&first_gone); }
};

static void *is_last(void *)
{
    S(wait)(&first_gone);
    _exit(wrong != 0);
}

static void first_thread_may_exit()
{
    T(t) thread;
    says s;
    S(init)(&first_gone, 0, 0);
    T(create)(&thread, nullptr, is_last, nullptr);
    T(exit)(nullptr);
}

// ---- Forbidden cases --------------------------------------------------------------------------------------------

static void *swallows(void *)
{
    try {
        T(exit)(nullptr);
    } catch (...) {
    }
    return nullptr;
}

static void swallowed_exit_aborts()
{
    elsewhere(swallows);
}

static void ends_here() noexcept
{
    object o(1);
    T(exit)(nullptr);
}

static void *through_noexcept(void *)
{
    ends_here();
    return nullptr;
}

static void exit_through_noexcept_terminates()
{
    elsewhere(through_noexcept);
}

// No handler of a function that has returned catches the exception.
static void *key_throws_late(void *)
{
    T(setspecific)(key, &key);
    try {
        object o(1);
        T(exit)(nullptr);
    } catch (std::exception &) {
        _exit(0);
    }
    return nullptr;
}

static void throwing_key_destructor_terminates()
{
    T(key_create)(&key, [](void *) { throw std::runtime_error("in a destructor of a key"); });
    elsewhere(key_throws_late);
}

const test_case ends[] = {
    {"destructors_run_in_order", destructors_run_in_order, nullptr},
    {"key_ends_after_the_unwinding", key_ends_after_the_unwinding, nullptr},
    {"unwinding_passes_c_frames", unwinding_passes_c_frames, nullptr},
    {"frames_without_tables_end_the_unwinding", frames_without_tables_end_the_unwinding, nullptr},
    {"handler_may_exit_the_thread", handler_may_exit_the_thread, nullptr},
    {"rethrown_exit_goes_on", rethrown_exit_goes_on, nullptr},
    {"many_threads_unwind_at_once", many_threads_unwind_at_once, nullptr},
    {"small_stack_suffices_for_unwinding", small_stack_suffices_for_unwinding, nullptr},
    {"cancel_unwinds_everywhere", cancel_unwinds_everywhere, nullptr},
    {"plain_pthread_unwinds", plain_pthread_unwinds, nullptr},
    {"first_thread_may_exit", first_thread_may_exit, nullptr},
    {"swallowed_exit_aborts", swallowed_exit_aborts, "exception not rethrown"},
    {"exit_through_noexcept_terminates", exit_through_noexcept_terminates, "terminat"},
    {"throwing_key_destructor_terminates", throwing_key_destructor_terminates, "in a destructor of a key"},
    {nullptr, nullptr, nullptr},
};
