/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment variables that a library may trust.  A program that has privileges which its caller lacks
 * (setuid, setgid, file capabilities) must not be steered by that caller: it sees no variable, so the defaults
 * apply.  The libraries call madi_env, never getenv (tests/system/environment_test.sh). */
#ifndef MADI_ENV_H
#define MADI_ENV_H

#include <stdbool.h>
#include <stdlib.h>

/* Return the value of a variable; NULL if it is not set, or if this program has privileges that its caller lacks. */
static inline const char *madi_env(const char *name)
{
    return secure_getenv(name);
}

/* True if the variable is set, but madi_env does not return it. */
static inline bool madi_env_hidden(const char *name)
{
    return !secure_getenv(name) && getenv(name);
}

#endif
