/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/helper.h"

#include <signal.h>

int madi_helper_make(pthread_t *thread, const pthread_attr_t *attr, const char *name, void *(*run)(void *))
{
    sigset_t all, before;
    int error;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, attr, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_setname_np(*thread, name);
    return error;
}
