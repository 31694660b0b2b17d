/* SPDX-License-Identifier: BSD-3-Clause */
/* For gdb_test.sh: threads that wait, each in a different call, then a stop (SIGTRAP) in the running thread. */
#include <marcel.h>

#include <signal.h>
#include <stdint.h>
#include <time.h>

static marcel_sem_t never;
static marcel_mutex_t taken = MARCEL_MUTEX_INITIALIZER;
static marcel_cond_t no_news = MARCEL_COND_INITIALIZER;
static volatile int depth;

static __attribute__((noinline)) void waits_deep_inside(int level)
{
    if (level)
        waits_deep_inside(level - 1);
    else
        marcel_sem_wait(&never);
    depth++;
}

static void *semaphore_main(void *arg)
{
    waits_deep_inside(3);
    return arg;
}

static void *condition_main(void *arg)
{
    marcel_mutex_lock(&taken);
    marcel_cond_wait(&no_news, &taken);
    depth++;
    return arg;
}

static void *sleep_main(void *arg)
{
    marcel_nanosleep(&(struct timespec){1000, 0}, NULL);
    depth++;
    return arg;
}

static void *stop_main(void *arg)
{
    marcel_yield(); /* now all other threads wait */
    raise(SIGTRAP);
    depth++;
    return arg;
}

int main(void)
{
    static const struct {
        const char *name;
        void *(*run)(void *);
    } all[] = {
        {"semaphore", semaphore_main}, {"condition", condition_main}, {"sleeper", sleep_main}, {"stopper", stop_main}};
    marcel_t thread;
    marcel_attr_t attr;
    marcel_sem_init(&never, 0, 0);
    marcel_attr_init(&attr);
    marcel_attr_setplacement(&attr, 0);
    for (int i = 0; i < 4; i++) {
        marcel_attr_setname(&attr, all[i].name);
        if (marcel_create(&thread, &attr, all[i].run, NULL))
            return 1;
    }
    marcel_join(thread, NULL);
    return 0;
}
