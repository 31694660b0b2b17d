/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/first_thread.h"
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

#define NAP_MIN 1000000L  /* ns between two checks, at first; doubled after each */
#define NAP_MAX 64000000L /* ns: longest time between two checks */

static pthread_key_t key;
static int key_error;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Number of kernel threads of this process; -1 if not known. */
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

/* Number of kernel threads of the library. */
static int kernel_threads_own(void)
{
    int n = madi_monitor_runs() + madi_progress_thread_exists() + madi_accept_thread_runs();
    for (madi_carrier_t *carrier = madi_carriers_all(); carrier; carrier = carrier->all)
        n++;
    return n;
}

/* True if the caller is the last thread of the program.  Only threads of the program create others, so this stays true. */
static bool first_thread_is_last(void)
{
    int own = kernel_threads_own(), n = kernel_threads();
    return madi_marcel_all_ended() && n > 0 && n <= own + 1;
}

/* Destructor of the first thread.  This destructor requests a second round, so that the program's destructors come first,
 * whose order POSIX leaves open. */
static void first_thread_end(void *rounds)
{
    struct timespec nap = {.tv_nsec = NAP_MIN};
    if (rounds == (void *)1 && !pthread_setspecific(key, (void *)2))
        return;
    while (!first_thread_is_last()) {
        nanosleep(&nap, NULL);
        nap.tv_nsec = nap.tv_nsec < NAP_MAX ? nap.tv_nsec * 2 : NAP_MAX;
    }
    exit(0);
}

static void first_thread_key_make(void)
{
    key_error = pthread_key_create(&key, first_thread_end);
}

void madi_first_thread_watch(void)
{
    if (gettid() != getpid())
        return;
    pthread_once(&once, first_thread_key_make);
    if (!key_error && !pthread_getspecific(key))
        pthread_setspecific(key, (void *)1);
}
