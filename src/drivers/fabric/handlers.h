/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: libraries of vendors, and the program's signal handlers.  This folder has what drivers share that work over the
 * library of another network: drivers/ofi, drivers/ucx, drivers/verbs.
 *
 *   handlers.h       opening such a library
 *   tag.h            tags of messages
 *   process.h        the process at the other end of a link
 *   end.h            the numbers that both ends of a link compare: an end without loss, and a peer that has died
 *   registration.h   memory that stays registered with a device
 *   unmap.h          reports of memory that was unmapped */
#ifndef FABRIC_HANDLERS_H
#define FABRIC_HANDLERS_H

#include <stdbool.h>
#include <stddef.h>

/* A function of a library, and where its address goes. */
typedef struct fabric_symbol {
    const char *name;
    void *at; /* a pointer to a pointer to a function */
} fabric_symbol_t;

/* Open the library `file`, for good, and find the n symbols.  On failure return false, and write the reason (size
 * bytes). remedy: text for users. */
bool fabric_library_open(const char *file, const fabric_symbol_t *symbols, int n, const char *remedy, char *reason,
                         size_t size);

/* Return what call(arg, reason, size) returns.  Libraries of vendors (libucs, the provider psm of libfabric) install
 * handlers of signals when they are loaded; those belong to the program.  So the handlers that were there before the call
 * are put back.  One thread at a time. */
bool fabric_handlers_kept(bool (*call)(void *arg, char *reason, size_t size), void *arg, char *reason, size_t size);

#endif
