// SPDX-License-Identifier: BSD-3-Clause
// Exceptions that are thrown, handled and passed on while other threads do the same.
#include "cases.h"

static T(barrier_t) all;
static std::atomic<int> number;

#define ROUNDS 100
#define THREADS 6

static std::string own_text()
{
    return "thread " + std::to_string(number++);
}

// True if the exception that this thread handles has this text.  Other threads may throw meanwhile.
static bool handles(const std::string &text)
{
    try {
        throw;
    } catch (std::exception &e) {
        return text == e.what();
    }
}

static void *rethrows(void *arg)
{
    std::string mine = own_text();
    T(barrier_wait)(&all);
    for (int i = 0; i < ROUNDS; i++)
        try {
            throw std::runtime_error(mine);
        } catch (...) {
            YIELD();
            RIGHT(handles(mine));
            YIELD();
            RIGHT(handles(mine));
        }
    RIGHT(!std::current_exception());
    return arg;
}

static void together(void *(*run)(void *), const T(attr_t) *attr = nullptr)
{
    T(barrier_init)(&all, nullptr, THREADS);
    run_all(THREADS, run, attr);
    T(barrier_destroy)(&all);
}

static void rethrow_finds_its_exception()
{
    together(rethrows);
}

#ifdef PTHREAD
#define MIGRATABLE(attr) (void)(attr)
#else
#define MIGRATABLE(attr) marcel_attr_setmigratable(attr, 1)
#endif
static void rethrow_finds_it_on_another_worker()
{
    T(attr_t) attr;
    T(attr_init)(&attr);
    MIGRATABLE(&attr);
    together(rethrows, &attr);
    T(attr_destroy)(&attr);
}

static void *nests(void *arg)
{
    std::string mine = own_text(), inner = mine + ", inner", deepest = mine + ", deepest";
    T(barrier_wait)(&all);
    for (int i = 0; i < ROUNDS; i++)
        try {
            throw std::runtime_error(mine);
        } catch (...) {
            std::exception_ptr kept = std::current_exception();
            YIELD();
            try {
                throw std::logic_error(inner);
            } catch (...) {
                YIELD();
                try {
                    std::throw_with_nested(std::runtime_error(deepest));
                } catch (std::exception &e) {
                    YIELD();
                    RIGHT(deepest == e.what());
                    try {
                        std::rethrow_if_nested(e);
                        RIGHT(!"nested");
                    } catch (std::logic_error &nested) {
                        YIELD();
                        RIGHT(inner == nested.what());
                    }
                }
                RIGHT(handles(inner));
            }
            RIGHT(handles(mine));
            RIGHT(kept == std::current_exception());
        }
    return arg;
}

static void nested_exceptions_stay_apart()
{
    together(nests);
}

// Compares the number of uncaught exceptions in the destructor with the number before: one more if an exception unwinds.
// A transaction finds in this way whether to roll back.
struct guard {
    int before = std::uncaught_exceptions();
    bool unwinds;
    explicit guard(bool u) : unwinds(u) {}
    ~guard()
    {
        YIELD();
        RIGHT(std::uncaught_exceptions() == before + unwinds);
        YIELD();
        RIGHT(std::uncaught_exceptions() == before + unwinds);
    }
};

struct throws_inside {
    ~throws_inside()
    {
        int before = std::uncaught_exceptions();
        YIELD();
        try {
            guard inner(true);
            throw 2;
        } catch (int i) {
            YIELD();
            RIGHT(i == 2);
        }
        RIGHT(std::uncaught_exceptions() == before);
    }
};

static void *counts(void *arg)
{
    bool throwing = number++ % 2;
    T(barrier_wait)(&all);
    for (int i = 0; i < ROUNDS; i++) {
        try {
            guard g(throwing);
            throws_inside t;
            if (throwing)
                throw 1;
        } catch (int) {
            YIELD();
            RIGHT(std::uncaught_exceptions() == 0);
        }
        RIGHT(std::uncaught_exceptions() == 0 && !std::current_exception());
    }
    return arg;
}

static void uncaught_are_counted_by_thread()
{
    together(counts);
}

// One thread throws an exception, and another thread handles it.
static std::exception_ptr passed;
static SEM is_passed, is_taken;
static std::atomic<int> alive;
struct counted {
    int value;
    explicit counted(int v) : value(v) { alive++; }
    counted(const counted &c) : value(c.value) { alive++; }
    ~counted() { alive--; }
};

static void *passes(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        try {
            throw counted(i);
        } catch (...) {
            passed = std::current_exception();
            S(post)(&is_passed);
            YIELD();
            try {
                throw;
            } catch (counted &c) {
                RIGHT(c.value == i);
            }
        }
        S(wait)(&is_taken);
    }
    return arg;
}

static void *takes(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        S(wait)(&is_passed);
        try {
            std::rethrow_exception(passed);
        } catch (counted &c) {
            passed = nullptr;
            S(post)(&is_taken);
            YIELD();
            RIGHT(c.value == i);
        }
    }
    return arg;
}

static void *either(void *arg)
{
    return number++ % 2 ? takes(arg) : passes(arg);
}

static void exception_goes_to_another_thread()
{
    S(init)(&is_passed, 0, 0);
    S(init)(&is_taken, 0, 0);
    run_all(2, either);
    RIGHT(alive == 0);
}

// Thread function: while the parent handles an exception, a join runs this thread, which handles none.
static void *child(void *arg)
{
    RIGHT(!std::current_exception() && std::uncaught_exceptions() == 0);
    try {
        YIELD();
        throw std::logic_error("of the child");
    } catch (std::exception &) {
        if (arg)
            T(exit)(nullptr);
    }
    return nullptr;
}

struct joins {
    bool ends;
    ~joins()
    {
        elsewhere(child, ends ? this : nullptr);
        RIGHT(std::uncaught_exceptions() == 1);
    }
};

static void *parent(void *arg)
{
    for (int i = 0; i < ROUNDS; i++)
        try {
            joins j = {i % 2 == 1};
            throw std::runtime_error("of the parent");
        } catch (...) {
            elsewhere(child, i % 3 ? arg : nullptr);
            RIGHT(handles("of the parent"));
        }
    return arg;
}

static void handler_may_join()
{
    number = 0;
    run_all(2, parent);
}

// Thread function: block, after which another kernel thread may run this thread.
static void *blocks(void *arg)
{
    std::string mine = own_text();
    for (int i = 0; i < 10; i++)
        try {
            throw std::runtime_error(mine);
        } catch (...) {
            BLOCKING(usleep(1000));
            RIGHT(handles(mine));
            YIELD();
            RIGHT(handles(mine));
        }
    return arg;
}

static void handler_may_block()
{
    run_all(THREADS, blocks);
}

// A function of once that throws: the exception leaves the call of once, and a later call runs the function again.
static T(once_t) once_control = C(ONCE_INIT);
static int once_runs;
static void once_throws()
{
    if (++once_runs < 3)
        throw 1;
}

static void *calls_once(void *arg)
{
    int caught = 0;
    for (int i = 0; i < 4; i++)
        try {
            T(once)(&once_control, once_throws);
        } catch (int) {
            caught++;
        }
    RIGHT(caught == 2 && once_runs == 3);
    return arg;
}

static void once_that_throws_runs_again()
{
    elsewhere(calls_once);
}

static void *pushes(void *arg)
{
    happened = 0;
    try {
        object a(1);
        T(cleanup_push)(handler, (void *)2);
        object b(3);
        throw 1;
        T(cleanup_pop)(0);
    } catch (int) {
        happens(4);
    }
    T(cleanup_push)(handler, (void *)5);
    T(cleanup_pop)(1);
    T(exit)(arg); // no exception is being handled
}

static void cleanups_run_among_destructors()
{
    elsewhere(pushes);
    RIGHT(happened == 32145);
}

static void *escapes(void *)
{
    object o(1);
    YIELD();
    throw std::runtime_error("out of the thread");
}

static void escaped_exception_terminates()
{
    elsewhere(escapes);
}

const test_case exceptions[] = {
    {"rethrow_finds_its_exception", rethrow_finds_its_exception, nullptr},
    {"rethrow_finds_it_on_another_worker", rethrow_finds_it_on_another_worker, nullptr},
    {"nested_exceptions_stay_apart", nested_exceptions_stay_apart, nullptr},
    {"uncaught_are_counted_by_thread", uncaught_are_counted_by_thread, nullptr},
    {"exception_goes_to_another_thread", exception_goes_to_another_thread, nullptr},
    {"handler_may_join", handler_may_join, nullptr},
    {"handler_may_block", handler_may_block, nullptr},
    {"once_that_throws_runs_again", once_that_throws_runs_again, nullptr},
    {"cleanups_run_among_destructors", cleanups_run_among_destructors, nullptr},
    {"escaped_exception_terminates", escaped_exception_terminates, "out of the thread"},
    {nullptr, nullptr, nullptr},
};
