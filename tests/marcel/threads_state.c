/* SPDX-License-Identifier: BSD-3-Clause */
/* State of a user-level thread, as opposed to that of the kernel thread that runs it: the table of marcel(7). */
#include "marcel/switch.h"
#include "threads.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <unistd.h>

/* Values of all state.  Each is 1 or 2; 0: the initial value. */
typedef struct state {
    const char *what;
    void (*set)(long value);
    long (*get)(void);
    bool own; /* true: the state belongs to the user-level thread */
} state_t;

static marcel_key_t key;
static _Thread_local long local;
static locale_t locale;
static const int error_of[] = {0, ENOENT, EPERM}, rounding_of[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD};
static const char *const missing[] = {"", "/none/first.so", "/none/second.so"};

static void key_set(long value)
{
    marcel_setspecific(key, (void *)value);
}
static long key_get(void)
{
    return (long)marcel_getspecific(key);
}

static void cancel_set(long value)
{
    marcel_setcancelstate(value == 1 ? MARCEL_CANCEL_DISABLE : MARCEL_CANCEL_ENABLE, NULL);
}
static long cancel_get(void)
{
    int old;
    marcel_setcancelstate(MARCEL_CANCEL_DISABLE, &old);
    marcel_setcancelstate(old, NULL);
    return old == MARCEL_CANCEL_DISABLE ? 1 : 2;
}

/* Set a thread-local variable.  Not inlined, so that the address of the variable is not kept across a switch. */
static __attribute__((noinline)) void local_set(long value)
{
    local = value;
}
static __attribute__((noinline)) long local_get(void)
{
    return local;
}

static __attribute__((noinline)) void errno_set(long value)
{
    errno = error_of[value];
}
static __attribute__((noinline)) long errno_get(void)
{
    return errno == ENOENT ? 1 : errno == EPERM ? 2 : 0;
}

static void locale_set(long value)
{
    uselocale(value == 1 ? locale : LC_GLOBAL_LOCALE);
}
static long locale_get(void)
{
    return uselocale((locale_t)0) == locale ? 1 : 2;
}

static void dlerror_set(long value)
{
    dlerror();
    dlopen(missing[value], RTLD_NOW);
}
static long dlerror_get(void)
{
    const char *text = dlerror();
    return !text ? 0 : strstr(text, "first") ? 1 : 2;
}

/* State in the buffer that a call returns: the one of inet_ntoa. */
static const char *text_of[3];
static void buffer_set(long value)
{
    text_of[value] = inet_ntoa((struct in_addr){htonl((uint32_t)value)});
}
static long buffer_get(void)
{
    return !strcmp(text_of[1], "0.0.0.1") ? 1 : 2;
}

static void mask_set(long value)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF); /* a signal that workers do not block */
    pthread_sigmask(value == 1 ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}
static long mask_get(void)
{
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    return sigismember(&set, SIGPROF) ? 1 : 2;
}

static void rounding_set(long value)
{
    fesetround(rounding_of[value]);
}
static long rounding_get(void)
{
    int now = fegetround();
    return now == FE_UPWARD ? 1 : now == FE_DOWNWARD ? 2 : 0;
}

/* A POSIX mutex belongs to the kernel thread that locked it, and so also to other user-level threads on that kernel
 * thread. */
static pthread_mutex_t posix;
static void posix_set(long value)
{
    if (value == 1)
        (void)pthread_mutex_trylock(&posix);
    else
        pthread_mutex_unlock(&posix);
}
static long posix_get(void)
{
    int rc = pthread_mutex_trylock(&posix);
    if (!rc)
        pthread_mutex_unlock(&posix);
    return rc ? 1 : 2;
}

#ifdef MADI_SWITCH_UCONTEXT
#define SWITCHED true
#else
#define SWITCHED false
#endif

static const state_t states[] = {
    {"thread-specific data", key_set, key_get, true},
    {"the state of cancellation", cancel_set, cancel_get, true},
    {"floating point, kept", rounding_set, rounding_get, true},
    {"floating point", rounding_set, rounding_get, SWITCHED},
    {"thread-local variables", local_set, local_get, false},
    {"errno", errno_set, errno_get, false},
    {"uselocale", locale_set, locale_get, false},
    {"dlerror", dlerror_set, dlerror_get, false},
    {"the buffer of inet_ntoa", buffer_set, buffer_get, false},
    {"the signal mask", mask_set, mask_get, SWITCHED},
    {"owner of a POSIX mutex", posix_set, posix_get, false},
};

/* The first thread sets 1, and then the second one sets 2; the result is the value that the first one then finds. */
typedef struct both {
    const state_t *state;
    long found;
    int kernel[2];
    void *self[2];
} both_t;

static void *second(void *arg)
{
    both_t *both = arg;
    both->kernel[1] = gettid();
    both->self[1] = (void *)pthread_self();
    both->state->set(2);
    marcel_yield();
    return arg;
}

static void *first(void *arg)
{
    both_t *both = arg;
    marcel_t thread;
    marcel_attr_t attr;
    marcel_attr_init(&attr);
    marcel_attr_setkeepfp(&attr, both->state->own);
    both->kernel[0] = gettid();
    both->self[0] = (void *)pthread_self();
    marcel_create(&thread, &attr, second, both);
    both->state->set(1);
    marcel_yield();
    both->found = both->state->get();
    marcel_join(thread, NULL);
    marcel_attr_destroy(&attr);
    return arg;
}

void test_state_is_kept_as_documented(void)
{
    pthread_mutexattr_t checked;
    marcel_attr_t attr;
    marcel_attr_init(&attr);
    marcel_key_create(&key, NULL);
    pthread_mutexattr_init(&checked);
    pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&posix, &checked);
    locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    for (size_t i = 0; i < COUNT(states); i++) {
        both_t both = {.state = &states[i]};
        marcel_t thread;
        marcel_attr_setkeepfp(&attr, states[i].own);
        CHECK_EQ(marcel_create(&thread, &attr, first, &both), 0);
        CHECK_EQ(marcel_join(thread, NULL), 0);
        CHECK_MSG(both.found == (states[i].own ? 1 : 2), "%s: found %ld", states[i].what, both.found);
        CHECK_EQ(both.kernel[0], both.kernel[1]);
        CHECK(both.self[0] == both.self[1]);
    }
    freelocale(locale);
    pthread_mutex_destroy(&posix);
    pthread_mutexattr_destroy(&checked);
    marcel_key_delete(key);
    marcel_attr_destroy(&attr);
}
