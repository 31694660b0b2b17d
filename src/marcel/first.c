/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/first.h"
#include "engine/accept_thread.h"
#include "engine/leader.h"
#include "marcel/carrier.h"
#include "marcel/marcel.h"
#include "marcel/monitor.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NAP_MIN 1000000L  /* ns between looks ... */
#define NAP_MAX 64000000L /* ... doubled up to that */

static pthread_key_t key;
static int key_error;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Of this process; -1: not known. */
static int kernel_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;
    if (!tasks)
        return -1;
    while ((entry = readdir(tasks)))
        n += entry->d_name[0] != '.';
    closedir(tasks);
    return n;
}

/* Those of the library, which make no others by themselves. */
static int kernel_threads_own(void)
{
    int n = madi_monitor_runs() + madi_async_exists() + madi_door_runs();
    for (madi_carrier_t *carrier = madi_carriers_all(); carrier; carrier = carrier->all)
        n++;
    return n;
}

/* No thread of the program is left but the caller.  Only those could make new ones: what is seen stays. */
static bool is_last(void)
{
    int own = kernel_threads_own(), n = kernel_threads();
    return madi_marcel_all_ended() && n > 0 && n <= own + 1;
}

/* Its last destructor: the others, of which POSIX says no order, come first.  errno and the result are nobody's any more. */
static void first_end(void *rounds)
{
    struct timespec nap = {.tv_nsec = NAP_MIN};
    if (rounds == (void *)1 && !pthread_setspecific(key, (void *)2))
        return;
    while (!is_last()) {
        nanosleep(&nap, NULL);
        nap.tv_nsec = nap.tv_nsec < NAP_MAX ? nap.tv_nsec * 2 : NAP_MAX;
    }
    exit(0);
}

static void key_make(void)
{
    key_error = pthread_key_create(&key, first_end);
}

void madi_first_here(void)
{
    if (gettid() != getpid())
        return;
    pthread_once(&once, key_make);
    if (!key_error && !pthread_getspecific(key))
        pthread_setspecific(key, (void *)1);
}
