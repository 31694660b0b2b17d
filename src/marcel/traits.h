/* SPDX-License-Identifier: BSD-3-Clause */
/* Traits of a thread, from attributes and marcel_setname. */
#ifndef MADI_TRAITS_H
#define MADI_TRAITS_H

#include "marcel/thread.h"

#include <marcel.h>

#define MADI_NAME_SPACE MARCEL_NAME_MAX

typedef struct madi_traits {
    char name[MADI_NAME_SPACE]; /* name of the thread; empty if it has none */
    size_t stack;               /* bytes of stack; 0 for the default */
    int priority;
    int placement; /* number of a worker, or -1 */
    bool detached, migratable, keep_fp;
} madi_traits_t;

#pragma GCC visibility push(hidden)

/* Fill in the traits from an attribute object; NULL gives the defaults. */
void madi_traits_of(madi_traits_t *traits, const marcel_attr_t *attr);

/* Write a name for people: the thread's own name, or one made of its address.  Callable anywhere, also in signal
 * handlers; a NULL thread is allowed. */
void madi_name_of(const struct marcel_thread *thread, char name[MADI_NAME_SPACE]);

#pragma GCC visibility pop

#endif
