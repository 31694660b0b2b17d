/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: libraries of vendors, and the program's signal handlers.  This folder has what drivers share that work over the
 * library of another network: ofi, ucx, verbs, mpi, and in part eth.
 *
 *   handlers.h       opening such a library
 *   link.h           adapters and links, and with order.h, control.h and poll.h what all of these drivers do with them
 *   tag.h            tags of messages
 *   table.h          links by the index in a tag
 *   process.h        the process at the other end of a link
 *   end.h            the numbers that both ends of a link compare: an end without loss, and a peer that has died
 *   heat.h           when a network is polled of which each poll may cost system calls
 *   registration.h   memory that stays registered with a device
 *   unmap.h          reports of memory that was unmapped */
#ifndef FABRIC_HANDLERS_H
#define FABRIC_HANDLERS_H

#include "base/static_mutex.h"
#include <stdbool.h>
#include <stddef.h>

/* The name of a function of a library, and the place where its address is stored. */
typedef struct fabric_symbol {
    const char *name;
    void *at; /* a pointer to a pointer to a function */
} fabric_symbol_t;

/* Open the library `file`, which stays open until the process ends, and find the n symbols.  On failure return false, and
 * write the reason (size bytes). remedy: text for users. */
bool fabric_library_open(const char *file, const fabric_symbol_t *symbols, int n, const char *remedy, char *reason,
                         size_t size);

/* A library that is opened by the first adapter that needs it. */
typedef struct fabric_library {
    madi_static_mutex_t mutex;
    bool is_open;
} fabric_library_t;
#define FABRIC_LIBRARY \
    { \
        .mutex = MADI_STATIC_MUTEX \
    }
/* Return true if the library is open: now, by a successful call open(arg, reason, size), or since an earlier call.  Any thread.
 * Handlers of signals stay, as in fabric_handlers_kept. */
bool fabric_library_use(fabric_library_t *library, bool (*open)(void *arg, char *reason, size_t size), void *arg,
                        char *reason, size_t size);

/* Return what call(arg, reason, size) returns.  Libraries of vendors (libucs, the provider psm of libfabric) install
 * handlers of signals when they are loaded; handlers of signals belong to the program.  So the handlers that were there
 * before the call are put back.  One thread at a time. */
bool fabric_handlers_kept(bool (*call)(void *arg, char *reason, size_t size), void *arg, char *reason, size_t size);

#endif
