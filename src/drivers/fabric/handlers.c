/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/fabric/handlers.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

bool fabric_library_open(const char *file, const fabric_symbol_t *symbols, int n, const char *remedy, char *reason,
                         size_t size)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        snprintf(reason, size, "%s; %s", dlerror(), remedy);
        return false;
    }
    for (int i = 0; i < n; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found) {
            snprintf(reason, size, "%s lacks %s: %s", file, symbols[i].name, remedy);
            return false;
        }
        memcpy(symbols[i].at, &found, sizeof found);
    }
    return true;
}

bool fabric_handlers_kept(bool (*call)(void *arg, char *reason, size_t size), void *arg, char *reason, size_t size)
{
    struct sigaction before[NSIG];
    for (int i = 1; i < NSIG; i++)
        sigaction(i, NULL, &before[i]);
    bool done = call(arg, reason, size);
    for (int i = 1; i < NSIG; i++)
        if (i != SIGKILL && i != SIGSTOP)
            sigaction(i, &before[i], NULL);
    return done;
}

bool fabric_library_use(fabric_library_t *library, bool (*open)(void *arg, char *reason, size_t size), void *arg,
                        char *reason, size_t size)
{
    madi_static_mutex_lock(&library->mutex);
    library->is_open = library->is_open || fabric_handlers_kept(open, arg, reason, size);
    bool is_open = library->is_open;
    madi_static_mutex_unlock(&library->mutex);
    return is_open;
}
