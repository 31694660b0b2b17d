/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/cxx.h"
#include "base/base.h"
#include "base/static_mutex.h"
#include "marcel/thread.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Weak: non-NULL in a program that is linked with a C++ run time.  A program that contains a run time exports the
 * function because of this reference. */
extern madi_cxx_state_t *__cxa_get_globals(void) __attribute__((weak));

typedef madi_cxx_state_t *(*globals_t)(void);

static globals_t run_times[MADI_CXX_MAX]; /* entries are written once, before madi_cxx_found counts them */
_Atomic(int) madi_cxx_found;
/* held while a run time is added; the dynamic linker is not called while it is held */
static madi_static_mutex_t lock = MADI_STATIC_MUTEX;

static const madi_cxx_state_t none, several = {.uncaught = 1};

/* ---- Which are loaded ------------------------------------------------------------------------------------------- */

typedef struct loaded {
    unsigned long long adds; /* number of objects loaded since the process started */
    int n;
    char *path[MADI_CXX_MAX]; /* paths of run times, or of libraries mistaken for one */
} loaded_t;

static _Atomic(unsigned long long) looked_at; /* `adds` of the last look */

static bool path_is_run_time(const char *path)
{
    static const char *const names[] = {"libstdc++.so", "libc++abi.so", "libc++.so"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < MADI_COUNT(names); i++)
        if (!strncmp(name, names[i], strlen(names[i])))
            return true;
    return false;
}

static int run_time_library_note(struct dl_phdr_info *info, size_t size, void *arg)
{
    loaded_t *loaded = arg;
    (void)size;
    loaded->adds = info->dlpi_adds;
    if (loaded->n < MADI_CXX_MAX && path_is_run_time(info->dlpi_name) && (loaded->path[loaded->n] = strdup(info->dlpi_name)))
        loaded->n++;
    return 0;
}

/* Add a run time unless it is known.  Two libraries that share a run time return the same state for the calling thread. */
static void run_time_add(globals_t get)
{
    int n, same = 0;
    madi_static_mutex_lock(&lock);
    n = atomic_load_explicit(&madi_cxx_found, memory_order_relaxed);
    while (same < n && run_times[same]() != get())
        same++;
    if (same == n && n < MADI_CXX_MAX) {
        run_times[n] = get;
        atomic_store_explicit(&madi_cxx_found, n + 1, memory_order_release); /* pairs with madi_cxx_update */
    }
    madi_static_mutex_unlock(&lock);
}

static MADI_COLD void run_times_find(void)
{
    loaded_t loaded = {.n = 0};
    dl_iterate_phdr(run_time_library_note, &loaded);
    if (__cxa_get_globals)
        run_time_add(__cxa_get_globals);
    for (int i = 0; i < loaded.n; i++) {
        /* Keep the library loaded for ever, because workers keep addresses of its variables. */
        void *library = dlopen(loaded.path[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
        globals_t get = library ? (globals_t)(uintptr_t)dlsym(library, "__cxa_get_globals") : NULL;
        if (get)
            run_time_add(get);
        free(loaded.path[i]);
    }
    atomic_store_explicit(&looked_at, loaded.adds, memory_order_relaxed);
}

static int loader_adds_get(struct dl_phdr_info *info, size_t size, void *adds)
{
    (void)size;
    *(unsigned long long *)adds = info->dlpi_adds;
    return 1;
}

void madi_cxx_look(void)
{
    unsigned long long adds = 0;
    dl_iterate_phdr(loader_adds_get, &adds);
    if (MADI_UNLIKELY(adds != atomic_load_explicit(&looked_at, memory_order_relaxed)))
        run_times_find();
}

/* State of a worker */

void madi_cxx_begin(madi_cxx_t *cxx)
{
    cxx->n = 0;
    cxx->watched = &none;
    madi_cxx_update(cxx);
}

void madi_cxx_update(madi_cxx_t *cxx)
{
    int n = atomic_load_explicit(&madi_cxx_found, memory_order_acquire); /* pairs with add */
    for (; cxx->n < n; cxx->n++)
        cxx->state[cxx->n] = run_times[cxx->n]();
    if (n)
        cxx->watched = n == 1 ? cxx->state[0] : &several;
}

void madi_cxx_switch(madi_cxx_t *cxx, madi_ult_t *from, madi_ult_t *to)
{
    bool kept = to->flags & MADI_ULT_THROWS;
    if (kept)
        madi_cxx_update(cxx); /* the thread may come from a worker that knows more run times */
    from->flags &= ~(uint32_t)MADI_ULT_THROWS;
    for (int i = 0; i < cxx->n; i++) {
        madi_cxx_state_t *state = cxx->state[i];
        from->cxx[i] = *state;
        if (state->caught || state->uncaught)
            from->flags |= MADI_ULT_THROWS;
        *state = kept ? to->cxx[i] : none;
    }
    for (int i = cxx->n; i < MADI_CXX_MAX; i++)
        from->cxx[i] = none;
    to->flags &= ~(uint32_t)MADI_ULT_THROWS;
}
