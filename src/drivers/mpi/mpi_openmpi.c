/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: the functions of mpi_calls.h for Open MPI. */
#include "drivers/mpi/mpi_calls.h"

#include "drivers/mpi/mpi_abi_openmpi.h"
#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define ABI_OBJECTS_BIND openmpi_objects_bind
#define ABI_COMM_OF_FORTRAN openmpi_comm_of_fortran
#define ABI_HANDLE(request) (*(openmpi_request_t *)(void *)&(request)->pointer)

/* Request of all sends that have ended in MPI_Isend; MPI_Test of it does nothing.  Not in mpi.h, so NULL if it is not known. */
static openmpi_request_t request_empty;
#define ABI_IS_ENDED(request) (request_empty && ABI_HANDLE(request) == request_empty)

static bool openmpi_objects_bind(void *library, char *reason, size_t size);
static openmpi_comm_t openmpi_comm_of_fortran(int fortran);

#include "drivers/mpi/mpi_calls_body.inc"

static openmpi_comm_t (*comm_f2c)(int);

/* A program that is linked with Open MPI may have the predefined objects in itself (copy relocations), and the library uses
 * those: the program's symbols come first. */
static bool openmpi_objects_bind(void *library, char *reason, size_t size)
{
    const mpi_symbol_t symbols[] = {
        {ABI_COMM_WORLD, &comm_world},
        {ABI_BYTE, &type_byte},
        {ABI_ERRORS_RETURN, &errors_return},
        {"MPI_Comm_f2c", &comm_f2c},
    };
    bool is_global = dlsym(RTLD_DEFAULT, ABI_COMM_WORLD) != NULL;
    request_empty = dlsym(library, "ompi_request_empty");
    return mpi_symbols_find(is_global ? RTLD_DEFAULT : library, symbols, (int)(sizeof symbols / sizeof *symbols), reason,
                            size);
}

static openmpi_comm_t openmpi_comm_of_fortran(int fortran)
{
    return comm_f2c(fortran);
}

static bool library_is_openmpi(void *library)
{
    return dlsym(library, ABI_COMM_WORLD) != NULL;
}

const mpi_calls_t mpi_calls_openmpi = {
    .name = "Open MPI",
    .is_mine = library_is_openmpi,
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
