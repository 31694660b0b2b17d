/* SPDX-License-Identifier: BSD-3-Clause */
/* Injected failures of allocations.  For a single source file of a program that is linked with the library's objects
 * and --wrap=malloc, calloc, realloc and posix_memalign. */
#ifndef TEST_ALLOCATIONS_H
#define TEST_ALLOCATIONS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static _Atomic(int) left; /* number of allocations that succeed before one fails; negative: none fails */
static _Atomic(int) failed;
static _Thread_local size_t denied; /* malloc of exactly this many bytes fails in this thread; 0: none */

static bool may(void)
{
    if (atomic_load(&left) < 0 || atomic_fetch_sub(&left, 1) != 0)
        return true;
    atomic_store(&failed, 1);
    return false;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
int __real_posix_memalign(void **p, size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
int __wrap_posix_memalign(void **p, size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    return (!size || size != denied) && may() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return may() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *p, size_t size)
{
    return may() ? __real_realloc(p, size) : NULL;
}

int __wrap_posix_memalign(void **p, size_t alignment, size_t size)
{
    return may() ? __real_posix_memalign(p, alignment, size) : ENOMEM;
}

#endif
