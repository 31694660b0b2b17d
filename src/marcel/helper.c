/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/helper.h"

#include <signal.h>

#define STACK_MIN ((size_t)256 * 1024)

int madi_helper_make(pthread_t *thread, pthread_attr_t *attr, const char *name, void *(*run)(void *), void *arg)
{
    pthread_attr_t usual, *with = attr ? attr : &usual;
    sigset_t all, before;
    size_t stack;
    int error;
    if (!attr)
        pthread_attr_init(&usual);
    if (!pthread_attr_getstacksize(with, &stack) && stack < STACK_MIN)
        pthread_attr_setstacksize(with, STACK_MIN);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, with, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!attr)
        pthread_attr_destroy(&usual);
    if (!error)
        pthread_setname_np(*thread, name);
    return error;
}
