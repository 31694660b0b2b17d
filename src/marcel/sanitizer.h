/* SPDX-License-Identifier: BSD-3-Clause */
/* Announces switches to sanitizers.  Empty in other builds.
 *
 * TSan keeps a call stack for each user-level thread.  The code that leaves one thread and arrives in another must
 * be inlined (always_inline).  Otherwise TSan would record the function's entry in one thread and its return in
 * the other.
 *
 * madi_sanitizer_t is part of every context: user-level threads and the schedulers' own stacks. */
#ifndef MADI_SANITIZER_H
#define MADI_SANITIZER_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define MADI_SANITIZER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MADI_SANITIZER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MADI_SANITIZER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MADI_SANITIZER_TSAN 1
#endif
#endif

#ifdef MADI_SANITIZER_TSAN
#define MADI_SANITIZER_END 1 /* madi_sanitizer_end must be called */
#else
#define MADI_SANITIZER_END 0
#endif

#if defined(MADI_SANITIZER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

typedef struct madi_sanitizer {
    void *fake;      /* fake stack of the context while it is switched out */
    const void *low; /* the stack */
    size_t size;
} madi_sanitizer_t;

/* Begin a context on a stack of the library (low, size). */
static inline void madi_sanitizer_begin(madi_sanitizer_t *sanitizer, void *low, size_t size)
{
    __asan_unpoison_memory_region(low, size);
    *sanitizer = (madi_sanitizer_t){.low = low, .size = size};
}
/* Begin the context of the calling kernel thread, on that thread's own stack. */
static inline void madi_sanitizer_adopt(madi_sanitizer_t *sanitizer, void *low, size_t size)
{
    *sanitizer = (madi_sanitizer_t){.low = low, .size = size};
}
static inline void madi_sanitizer_end(madi_sanitizer_t *sanitizer)
{
    (void)sanitizer;
}
/* Bracket a switch: leave is called just before the switch from `from` to `to` (ended: `from` never runs again), and
 * arrive is the first call after it, in `to`. */
static inline __attribute__((always_inline)) void madi_sanitizer_leave(madi_sanitizer_t *from, const madi_sanitizer_t *to,
                                                                       int ended)
{
    __sanitizer_start_switch_fiber(ended ? NULL : &from->fake, to->low, to->size);
}
static inline void madi_sanitizer_arrive(madi_sanitizer_t *here)
{
    __sanitizer_finish_switch_fiber(here->fake, NULL, NULL);
    here->fake = NULL;
}

#elif defined(MADI_SANITIZER_TSAN)
#include <sanitizer/tsan_interface.h>

typedef struct madi_sanitizer {
    void *fiber;
} madi_sanitizer_t;

static inline void madi_sanitizer_begin(madi_sanitizer_t *sanitizer, void *low, size_t size)
{
    (void)low, (void)size;
    sanitizer->fiber = __tsan_create_fiber(0);
}
static inline void madi_sanitizer_adopt(madi_sanitizer_t *sanitizer, void *low, size_t size)
{
    (void)low, (void)size;
    sanitizer->fiber = __tsan_get_current_fiber();
}
/* End a context that has been left for ever. */
static inline void madi_sanitizer_end(madi_sanitizer_t *sanitizer)
{
    __tsan_destroy_fiber(sanitizer->fiber);
}
static inline __attribute__((always_inline)) void madi_sanitizer_leave(madi_sanitizer_t *from, const madi_sanitizer_t *to,
                                                                       int ended)
{
    (void)from, (void)ended;
    __tsan_switch_to_fiber(to->fiber, 0);
}
static inline void madi_sanitizer_arrive(madi_sanitizer_t *here)
{
    (void)here;
}

#else
typedef char madi_sanitizer_t;

static inline void madi_sanitizer_begin(madi_sanitizer_t *sanitizer, void *low, size_t size)
{
    (void)sanitizer, (void)low, (void)size;
}
static inline void madi_sanitizer_adopt(madi_sanitizer_t *sanitizer, void *low, size_t size)
{
    (void)sanitizer, (void)low, (void)size;
}
static inline void madi_sanitizer_end(madi_sanitizer_t *sanitizer)
{
    (void)sanitizer;
}
static inline __attribute__((always_inline)) void madi_sanitizer_leave(madi_sanitizer_t *from, const madi_sanitizer_t *to,
                                                                       int ended)
{
    (void)from, (void)to, (void)ended;
}
static inline void madi_sanitizer_arrive(madi_sanitizer_t *here)
{
    (void)here;
}
#endif

#endif
