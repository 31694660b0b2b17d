/* SPDX-License-Identifier: BSD-3-Clause */
/* State of the C++ run time that belongs to a user-level thread: the exceptions that it handles, and how many it has thrown
 * that no handler has caught yet.
 *
 * The run time (libstdc++, libc++abi) keeps both in two words per kernel thread, which __cxa_get_globals finds (Itanium
 * C++ ABI, 2.2.2).  A worker knows the address of these words of its kernel thread.  A switch checks whether they are
 * zero, as they are outside of handlers and of destructors that an exception runs.  If they are zero, there is nothing to
 * do; otherwise madi_cxx_switch exchanges them.
 *
 * libmarcel is not linked with a C++ run time: it finds the run times that the process has loaded. */
#ifndef MADI_CXX_H
#define MADI_CXX_H

#include <stdbool.h>
#include <stdint.h>

#define MADI_CXX_MAX 2 /* maximum number of run times in one process */

/* Layout of __cxa_eh_globals in words: the list of caught exceptions, the number of uncaught ones (with padding, which
 * stays zero). */
typedef struct madi_cxx_state {
    uintptr_t caught, uncaught;
#ifdef __ARM_EABI_UNWINDER__
    uintptr_t propagating;
#endif
} madi_cxx_state_t;

/* Exceptions of a worker. */
typedef struct madi_cxx {
    /* State that each switch checks; if it is not zero, the switch calls madi_cxx_switch.  The state is that of the only run
     * time, a constant zero if there is none, or a constant one if there are several. */
    const madi_cxx_state_t *watched;
    madi_cxx_state_t *state[MADI_CXX_MAX]; /* indexed by run time: its state in the worker's kernel thread */
    int n;                                 /* number of run times whose state this worker knows */
} madi_cxx_t;

#pragma GCC visibility push(hidden)

struct madi_ult;

/* Run times found so far. */
extern _Atomic(int) madi_cxx_found;

/* Find run times that were loaded since the last call.  May wait for another thread's dlopen, but only if one is in
 * progress.  A user-level thread calls madi_cxx_update afterwards. */
void madi_cxx_look(void);

/* Get the addresses of the run times' state; called by the worker's kernel thread.  madi_cxx_begin: for a kernel thread
 * that is new to the worker. */
void madi_cxx_begin(madi_cxx_t *cxx);
void madi_cxx_update(madi_cxx_t *cxx);

/* Exchange the state of `from` for the state of `to`, before the switch. */
void madi_cxx_switch(madi_cxx_t *cxx, struct madi_ult *from, struct madi_ult *to);

#pragma GCC visibility pop

/* Return a value that is not 0 if the running thread handles or throws an exception. */
static inline uintptr_t madi_cxx_held(const madi_cxx_t *cxx)
{
    return cxx->watched->caught | cxx->watched->uncaught;
}

#endif
