/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/helper.h"

#include <link.h>
#include <signal.h>

#define STACK_MIN ((size_t)256 * 1024)
#define UNIT ((size_t)64 * 1024) /* bytes; a multiple of the page size on every machine */

static int tls_add(struct dl_phdr_info *info, size_t size, void *arg)
{
    size_t *sum = arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            *sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
    return 0;
}

/* Minimum stack size.  The thread-local variables of the program and its libraries also lie on each thread's stack. */
static size_t helper_stack_min(void)
{
    size_t tls = 0;
    dl_iterate_phdr(tls_add, &tls);
    return STACK_MIN + (tls + UNIT - 1) / UNIT * UNIT;
}

int madi_helper_make(pthread_t *thread, pthread_attr_t *attr, const char *name, void *(*run)(void *), void *arg)
{
    pthread_attr_t usual, *with = attr ? attr : &usual;
    sigset_t all, before;
    size_t stack, least = helper_stack_min();
    int error;
    if (!attr)
        pthread_attr_init(&usual);
    if (!pthread_attr_getstacksize(with, &stack) && stack < least)
        pthread_attr_setstacksize(with, least);
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
