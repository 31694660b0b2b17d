// SPDX-License-Identifier: BSD-3-Clause
// Threads of a C++ program: one text for two libraries, as posix_names.h.  A case returns the number of failures.  With
// -DPTHREAD the cases run with the C library's threads, and must have no failure there, either.
#ifndef MARCEL_CXX_CASES_H
#define MARCEL_CXX_CASES_H

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>
#include <sys/socket.h>
#include <unistd.h>

#ifdef PTHREAD
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#define T(name) pthread_##name
#define C(name) PTHREAD_##name
#define SEM sem_t
#define S(name) sem_##name
#define YIELD() sched_yield()
#define BLOCKING(call) (call)
#define RECV(fd, buffer, size) recv(fd, buffer, size, 0)
#define CLOSE(fd) close(fd)
#define SLEEP(s) sleep(s)
#else
#include <marcel.h>
#define T(name) marcel_##name
#define C(name) MARCEL_##name
#define SEM marcel_sem_t
#define S(name) marcel_sem_##name
#define YIELD() marcel_yield()
#define BLOCKING(call) (marcel_blocking_begin(), call, marcel_blocking_end())
#define RECV(fd, buffer, size) marcel_recv(fd, buffer, size, 0)
#define CLOSE(fd) marcel_close(fd)
#define SLEEP(s) marcel_sleep(s)
#endif

// Count a failure, and print its place.
extern std::atomic<int> wrong;
#define RIGHT(condition) \
    ((condition) ? (void)0 : (wrong++, (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition)))

// Digits of the events, in their order; one thread at a time.
extern long happened;
static inline void happens(long digit)
{
    happened = happened * 10 + digit;
}
struct object {
    long digit;
    explicit object(long d) : digit(d) {}
    object(const object &) = delete;
    ~object() { happens(digit); }
};
static inline void handler(void *digit)
{
    happens((long)digit);
}

// Create n threads that run this function, and join them; attr may be null.
void run_all(int n, void *(*run)(void *), const T(attr_t) *attr = nullptr);
void *elsewhere(void *(*run)(void *), void *arg = nullptr);

struct test_case {
    const char *name;
    void (*run)();
    const char *dies; // text that the process prints when it is aborted; null: it is not aborted
};
extern const test_case exceptions[], ends[]; // the last entry of each table has a null name

// frames.c, compiled in three ways.  The functions call run(arg): directly, with a cleanup handler, or with a cleanup
// attribute.
extern "C" {
void plain_call(void (*run)(void *), void *arg);
void plain_push(void (*run)(void *), void *arg, void (*handle)(void *), void *digit);
void tables_call(void (*run)(void *), void *arg);
void tables_push(void (*run)(void *), void *arg, void (*handle)(void *), void *digit);
void cleanup_call(void (*run)(void *), void *arg);
void cleanup_push(void (*run)(void *), void *arg, void (*handle)(void *), void *digit);
void cleanup_attribute(void (*run)(void *), void *arg, void (*handle)(void *), void *digit);
}

#endif
