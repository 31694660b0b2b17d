/* SPDX-License-Identifier: BSD-3-Clause */
/* Thread attributes, and the names of threads. */
#include "marcel/guard.h"
#include "marcel/marcel.h"
#include "marcel/traits.h"
#include "marcel/slot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define STACK_MAX ((size_t)512 << 20)

_Static_assert(sizeof(madi_traits_t) <= sizeof(marcel_attr_t), "an attribute object holds traits");

static madi_traits_t *attr_traits(marcel_attr_t *attr)
{
    return (madi_traits_t *)(void *)attr;
}

static const madi_traits_t *attr_traits_const(const marcel_attr_t *attr)
{
    return (const madi_traits_t *)(const void *)attr;
}

void madi_traits_of(madi_traits_t *traits, const marcel_attr_t *attr)
{
    *traits = attr ? *attr_traits_const(attr) : (madi_traits_t){.priority = MARCEL_PRIORITY_DEFAULT, .placement = -1};
}

int marcel_attr_init(marcel_attr_t *attr)
{
    memset(attr, 0, sizeof *attr);
    madi_traits_of(attr_traits(attr), NULL);
    return 0;
}

int marcel_attr_destroy(marcel_attr_t *attr)
{
    (void)attr;
    return 0;
}

int marcel_attr_setstacksize(marcel_attr_t *attr, size_t size)
{
    if (size == 0 || size > STACK_MAX)
        return EINVAL;
    attr_traits(attr)->stack = size;
    return 0;
}

int marcel_attr_getstacksize(const marcel_attr_t *attr, size_t *size)
{
    size_t stack = attr_traits_const(attr)->stack;
    *size = stack ? stack : ((size_t)1 << madi_slot_shift_usual()) - madi_guard_size() - MADI_SLOT_TOP;
    return 0;
}

int marcel_attr_setpriority(marcel_attr_t *attr, int priority)
{
    if (priority < MARCEL_PRIORITY_MIN || priority > MARCEL_PRIORITY_MAX)
        return EINVAL;
    attr_traits(attr)->priority = priority;
    return 0;
}

int marcel_attr_getpriority(const marcel_attr_t *attr, int *priority)
{
    *priority = attr_traits_const(attr)->priority;
    return 0;
}

int marcel_attr_setplacement(marcel_attr_t *attr, int worker)
{
    if (worker < -1)
        return EINVAL;
    attr_traits(attr)->placement = worker;
    return 0;
}

int marcel_attr_getplacement(const marcel_attr_t *attr, int *worker)
{
    *worker = attr_traits_const(attr)->placement;
    return 0;
}

int marcel_attr_setdetachstate(marcel_attr_t *attr, int state)
{
    if (state != MARCEL_CREATE_JOINABLE && state != MARCEL_CREATE_DETACHED)
        return EINVAL;
    attr_traits(attr)->detached = state == MARCEL_CREATE_DETACHED;
    return 0;
}

int marcel_attr_getdetachstate(const marcel_attr_t *attr, int *state)
{
    *state = attr_traits_const(attr)->detached ? MARCEL_CREATE_DETACHED : MARCEL_CREATE_JOINABLE;
    return 0;
}

int marcel_attr_setmigratable(marcel_attr_t *attr, int migratable)
{
    attr_traits(attr)->migratable = migratable != 0;
    return 0;
}

int marcel_attr_getmigratable(const marcel_attr_t *attr, int *migratable)
{
    *migratable = attr_traits_const(attr)->migratable;
    return 0;
}

int marcel_attr_setkeepfp(marcel_attr_t *attr, int keep)
{
    attr_traits(attr)->keep_fp = keep != 0;
    return 0;
}

int marcel_attr_getkeepfp(const marcel_attr_t *attr, int *keep)
{
    *keep = attr_traits_const(attr)->keep_fp;
    return 0;
}

/* ---- Names ---------------------------------------------------------------------------------------------------- */

static void name_copy(char to[MADI_NAME_SPACE], const char *from)
{
    size_t n = strnlen(from, MADI_NAME_SPACE - 1);
    memcpy(to, from, n);
    memset(to + n, 0, MADI_NAME_SPACE - n);
}

int marcel_attr_setname(marcel_attr_t *attr, const char *name)
{
    name_copy(attr_traits(attr)->name, name);
    return 0;
}

int marcel_attr_getname(const marcel_attr_t *attr, char name[MARCEL_NAME_MAX])
{
    name_copy(name, attr_traits_const(attr)->name);
    return 0;
}

void madi_name_of(const struct marcel_thread *thread, char name[MADI_NAME_SPACE])
{
    if (thread && thread->traits && thread->traits->name[0])
        name_copy(name, thread->traits->name);
    else
        snprintf(name, MADI_NAME_SPACE, "%#lx", (unsigned long)(uintptr_t)thread);
}

int marcel_setname(marcel_t thread, const char *name)
{
    madi_traits_t *traits = thread->traits;
    if (!traits) {
        traits = malloc(sizeof *traits);
        if (!traits)
            return EAGAIN;
        madi_traits_of(traits, NULL);
        thread->traits = traits;
    }
    name_copy(traits->name, name);
    return 0;
}

int marcel_getname(marcel_t thread, char name[MARCEL_NAME_MAX])
{
    name_copy(name, thread->traits ? thread->traits->name : "");
    return 0;
}
