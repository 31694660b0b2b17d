/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: the functions of mpi_calls.h for MPICH, and libraries with its binary interface. */
#include "drivers/mpi/mpi_calls.h"

#include "drivers/mpi/mpi_abi_mpich.h"
#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define ABI_OBJECTS_BIND mpich_objects_bind
#define ABI_COMM_OF_FORTRAN mpich_comm_of_fortran
#define ABI_HANDLE(request) ((request)->number)
#define ABI_IS_ENDED(request) ((void)(request), false)

static bool mpich_objects_bind(void *library, char *reason, size_t size);
static mpich_comm_t mpich_comm_of_fortran(int fortran);

#include "drivers/mpi/mpi_calls_body.inc"

static bool mpich_objects_bind(void *library, char *reason, size_t size)
{
    (void)library;
    (void)reason;
    (void)size;
    comm_world = ABI_COMM_WORLD;
    type_byte = ABI_BYTE;
    errors_return = ABI_ERRORS_RETURN;
    return true;
}

static mpich_comm_t mpich_comm_of_fortran(int fortran)
{
    return fortran; /* in MPICH, the C handle is the same number as the Fortran handle */
}

/* The libraries that promise this binary interface name themselves in their version. */
static bool library_is_mpich(void *library)
{
    static const char *const names[] = {"MPICH", "Intel(R) MPI", "MVAPICH"};
    char text[ABI_LIBRARY_TEXT_MAX] = "";
    int len = 0;
    int (*version)(char *, int *);
    if (!mpi_symbols_find(library, &(mpi_symbol_t){"MPI_Get_library_version", &version}, 1, text, sizeof text) ||
        version(text, &len))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(text, names[i]))
            return true;
    return false;
}

const mpi_calls_t mpi_calls_mpich = {
    .name = "MPICH",
    .is_mine = library_is_mpich,
    .bind = calls_bind,
    .initialized = calls_initialized,
    .init = calls_init,
    .finalize = calls_finalize,
    .level = calls_level,
    .communicator_use = calls_communicator_use,
    .errors_return = calls_errors_return,
    .send = calls_send,
    .receive = calls_receive,
    .test = calls_test,
    .test_from = calls_test_from,
    .is_too_long = calls_is_too_long,
    .cancel = calls_cancel,
    .error_text = calls_error_text,
};
