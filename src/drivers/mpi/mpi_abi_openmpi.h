/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: the binary interface of Open MPI 1.4 to 5.0: types, and the values of constants.  tests/system/mpi_abi.c compares them with
 * Open MPI's own header. */
#ifndef MPI_ABI_OPENMPI_H
#define MPI_ABI_OPENMPI_H

#include <stddef.h>

typedef struct ompi_communicator_t *openmpi_comm_t;
typedef struct ompi_datatype_t *openmpi_datatype_t;
typedef struct ompi_request_t *openmpi_request_t;
typedef struct ompi_errhandler_t *openmpi_errhandler_t;

typedef struct openmpi_status {
    int source, tag, error, cancelled;
    size_t bytes;
} openmpi_status_t;
static inline long openmpi_status_bytes(const openmpi_status_t *status)
{
    return (long)status->bytes;
}

/* For mpi_calls_body.inc, and tests/system/mpi_abi.c. */
#define ABI_COMM openmpi_comm_t
#define ABI_DATATYPE openmpi_datatype_t
#define ABI_REQUEST openmpi_request_t
#define ABI_ERRHANDLER openmpi_errhandler_t
#define ABI_STATUS openmpi_status_t
#define ABI_STATUS_BYTES openmpi_status_bytes
#define ABI_ANY_SOURCE (-1)
#define ABI_STATUS_IGNORE ((openmpi_status_t *)NULL)
#define ABI_ERROR_TEXT_MAX 256               /* MPI_MAX_ERROR_STRING */
#define ABI_LIBRARY_TEXT_MAX 256             /* MPI_MAX_LIBRARY_VERSION_STRING */
#define ABI_ERR_TRUNCATE 15                  /* MPI_ERR_TRUNCATE */
#define ABI_COMM_WORLD "ompi_mpi_comm_world" /* name of the variable that is the predefined communicator */
#define ABI_BYTE "ompi_mpi_byte"
#define ABI_ERRORS_RETURN "ompi_mpi_errors_return"

/* MPI_THREAD_SINGLE to MPI_THREAD_MULTIPLE: 0 to 3, as in mpi_calls.h.  MPI_SUCCESS: 0. */

#endif
