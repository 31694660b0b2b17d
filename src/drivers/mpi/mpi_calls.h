/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: the functions of an MPI library that the driver calls, in a form without types of MPI, for the binary interfaces of
 * MPI libraries differ: handles are pointers in Open MPI and numbers in MPICH.
 *
 *   mpi_abi_openmpi.h  mpi_abi_mpich.h   types and constants of an interface
 *   mpi_calls_body.inc                     the functions below, for the types that were included before
 *   mpi_openmpi.c      mpi_mpich.c       compile these functions once for each interface
 *   mpi_lib.c                            finds the library, and chooses
 *
 * Neither a header nor a library of MPI is needed to build the driver.  All functions that return int return an error code of
 * MPI, 0 on success. */
#ifndef MPI_CALLS_H
#define MPI_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Handle of a request. */
typedef union mpi_request {
    void *pointer; /* Open MPI */
    int number;    /* MPICH */
} mpi_request_t;

/* Levels of MPI_Init_thread, the same numbers in all libraries. */
typedef enum mpi_level { MPI_LEVEL_SINGLE, MPI_LEVEL_FUNNELED, MPI_LEVEL_SERIALIZED, MPI_LEVEL_MULTIPLE } mpi_level_t;

typedef struct mpi_from {
    int source; /* rank of the sender */
    long bytes;
} mpi_from_t;

#define MPI_ANY_RANK (-1)
#define MPI_ERROR_TEXT_MAX 512 /* bytes */

typedef struct mpi_calls {
    const char *name; /* "Open MPI", "MPICH" */
    /* Find the functions in the library.  On failure return false, and write the reason (size bytes). */
    bool (*bind)(void *library, char *reason, size_t size);
    bool (*is_mine)(void *library); /* true if the library has this binary interface */
    int (*initialized)(bool *is_initialized, bool *is_finalized);
    int (*init)(mpi_level_t wanted, int *level);
    int (*finalize)(void);
    int (*level)(int *level, bool *is_main); /* Find the thread level of MPI, and whether this thread has initialised MPI. */
    /* Choose the communicator of all further calls, as a Fortran handle; 0: MPI_COMM_WORLD. */
    int (*communicator_use)(int fortran, int *rank, int *size);
    int (*errors_return)(void); /* have errors on the communicator returned from now on */
    /* *is_ended: true if the send is known to have ended.  Its request then needs no test, but may be tested. */
    int (*send)(const void *bytes, size_t len, int rank, int tag, mpi_request_t *request, bool *is_ended);
    int (*receive)(void *bytes, size_t len, int rank, int tag, mpi_request_t *request);
    int (*test)(mpi_request_t *request, bool *is_done);
    /* Test a receive.  *from is set also if the receive has ended with an error (*is_done). */
    int (*test_from)(mpi_request_t *request, bool *is_done, mpi_from_t *from);
    bool (*is_too_long)(int error);        /* true if a receive ended with this error because its message was longer */
    int (*cancel)(mpi_request_t *request); /* cancel a receive; `test` then completes it, unless its message already
                                            * arrives */
    void (*error_text)(int error, char *text /* MPI_ERROR_TEXT_MAX */);
} mpi_calls_t;

extern const mpi_calls_t mpi_calls_openmpi, mpi_calls_mpich;

/* Name of a function or variable of the library; *at becomes its address. */
typedef struct mpi_symbol {
    const char *name;
    void *at; /* a pointer to a pointer */
} mpi_symbol_t;
bool mpi_symbols_find(void *library, const mpi_symbol_t *symbols, int n, char *reason, size_t size);

#endif
