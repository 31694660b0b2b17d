/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of C between those of C++, compiled with these options of the compiler.  NAME is
 * tables   no option: the stack can be unwound
 * cleanup  -fexceptions: the stack can be unwound, and cleanup attributes run
 * plain    -fno-asynchronous-unwind-tables -fno-unwind-tables: unwinding ends here */
#define JOINED(a, b) a##_##b
#define NAMED(a, b) JOINED(a, b)

#ifdef PTHREAD
#include <pthread.h>
#define PUSH pthread_cleanup_push
#define POP pthread_cleanup_pop
#else
#include <marcel.h>
#define PUSH marcel_cleanup_push
#define POP marcel_cleanup_pop
#endif

void NAMED(NAME, call)(void (*run)(void *), void *arg);
void NAMED(NAME, call)(void (*run)(void *), void *arg)
{
    run(arg);
    __asm__ volatile("" : : : "memory"); /* prevents a tail call */
}

void NAMED(NAME, push)(void (*run)(void *), void *arg, void (*handle)(void *), void *digit);
void NAMED(NAME, push)(void (*run)(void *), void *arg, void (*handle)(void *), void *digit)
{
    PUSH(handle, digit);
    run(arg);
    POP(0);
}

#ifdef __EXCEPTIONS
typedef struct ends {
    void (*handle)(void *);
    void *digit;
} ends_t;

static void ends_run(ends_t *ends)
{
    ends->handle(ends->digit);
}

void NAMED(NAME, attribute)(void (*run)(void *), void *arg, void (*handle)(void *), void *digit);
void NAMED(NAME, attribute)(void (*run)(void *), void *arg, void (*handle)(void *), void *digit)
{
    ends_t ends __attribute__((cleanup(ends_run), unused)) = {handle, digit};
    run(arg);
}
#endif
