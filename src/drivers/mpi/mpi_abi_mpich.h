/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: the binary interface of MPICH from 3.1 on, and of the libraries that have the same one (Intel MPI, Cray MPICH,
 * MVAPICH): types, and the values of constants.  tests/system/mpi_abi.c compares them with MPICH's own header. */
#ifndef MPI_ABI_MPICH_H
#define MPI_ABI_MPICH_H

#include <stddef.h>

typedef int mpich_comm_t;
typedef int mpich_datatype_t;
typedef int mpich_request_t;
typedef int mpich_errhandler_t;

typedef struct mpich_status {
    int count_low, count_high; /* the lowest bit of count_high is set if the operation was cancelled */
    int source, tag, error;
} mpich_status_t;
static inline long mpich_status_bytes(const mpich_status_t *status)
{
    return (long)((unsigned)status->count_high >> 1) << 32 | (unsigned)status->count_low;
}

/* For mpi_calls_body.inc, and tests/system/mpi_abi.c. */
#define ABI_COMM mpich_comm_t
#define ABI_DATATYPE mpich_datatype_t
#define ABI_REQUEST mpich_request_t
#define ABI_ERRHANDLER mpich_errhandler_t
#define ABI_STATUS mpich_status_t
#define ABI_STATUS_BYTES mpich_status_bytes
#define ABI_ANY_SOURCE (-2)
#define ABI_STATUS_IGNORE ((mpich_status_t *)1)
#define ABI_ERROR_TEXT_MAX 512    /* MPI_MAX_ERROR_STRING */
#define ABI_LIBRARY_TEXT_MAX 8192 /* MPI_MAX_LIBRARY_VERSION_STRING */
#define ABI_ERR_TRUNCATE 14       /* MPI_ERR_TRUNCATE */
#define ABI_COMM_WORLD 0x44000000
#define ABI_BYTE 0x4c00010d
#define ABI_ERRORS_RETURN 0x54000001

/* MPI_THREAD_SINGLE to MPI_THREAD_MULTIPLE: 0 to 3, as in mpi_calls.h.  MPI_SUCCESS: 0. */

#endif
