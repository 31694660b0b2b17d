/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment, as far as a library may believe it.  A program that runs with privileges which its caller lacks (setuid,
 * setgid, file capabilities) must not be steered by that caller: it gets no variable, so defaults hold.  Sources of the
 * libraries call madi_env, never getenv (tests/system/environment_test.sh). */
#ifndef MADI_ENV_H
#define MADI_ENV_H

#include <stdbool.h>
#include <stdlib.h>

/* Value of a variable; NULL if it is not set, or if this program has privileges that its caller lacks. */
static inline const char *madi_env(const char *name)
{
    return secure_getenv(name);
}

/* True if the variable is set and madi_env does not return it. */
static inline bool madi_env_hidden(const char *name)
{
    return !secure_getenv(name) && getenv(name);
}

#endif
