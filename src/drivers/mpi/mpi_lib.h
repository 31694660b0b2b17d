/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: the MPI library of this process.
 *
 *   the program has initialised MPI    the driver uses that; its level of threads decides which threads may call
 *   an MPI launcher has started the    the driver loads the launcher's library, and initialises MPI itself, once; MPI is
 *   process, and nothing has loaded    finalised as the process ends
 *   an MPI library
 *   otherwise                          refused, with the reason
 *
 * A library that runs over Madeleine (mca_pml_mad, mca_btl_mad, the provider mad of libfabric) is refused. */
#ifndef MPI_LIB_H
#define MPI_LIB_H

#include "drivers/mpi/mpi_calls.h"

typedef struct mpi_lib {
    const mpi_calls_t *calls; /* NULL: not open */
    bool ours;                /* true if the driver has initialised MPI */
    bool main_only;           /* only the thread that has initialised MPI may call it */
    int level;                /* mpi_level_t that MPI provides */
} mpi_lib_t;

/* Find the library, and initialise MPI if the driver has to.  On failure return false, and write the reason (size bytes).
 * One thread at a time. */
bool mpi_lib_open(mpi_lib_t *lib, char *reason, size_t size);
/* True if the calling thread may call MPI. */
bool mpi_lib_may_call(const mpi_lib_t *lib);
/* Set the function that is called when the process ends, before MPI is finalised.  Precondition: lib.ours. */
void mpi_lib_at_end(void (*call)(void));
/* Handle that a peer has died: MPI is not finalised at the end of the process, because it would wait for the peer. */
void mpi_lib_peer_died(void);
/* True for the path of an object by which an MPI library runs over Madeleine. */
bool mpi_object_is_ours(const char *path);

#endif
