/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares the binary interface that the driver mpi assumes with the header of an MPI library: compiled with that library's
 * compiler, and with MPI_ABI, the name of the driver's header. */
#include <mpi.h>

#ifndef MPI_ABI
#define MPI_ABI "drivers/mpi/mpi_abi_openmpi.h"
#endif
#include MPI_ABI
#include <dlfcn.h>
#include <stdio.h>
#include <stddef.h>

#define SAME(a, b) _Static_assert((a) == (b), #a)
SAME(sizeof(MPI_Comm), sizeof(ABI_COMM));
SAME(sizeof(MPI_Datatype), sizeof(ABI_DATATYPE));
SAME(sizeof(MPI_Request), sizeof(ABI_REQUEST));
SAME(sizeof(MPI_Errhandler), sizeof(ABI_ERRHANDLER));
SAME(sizeof(MPI_Fint), sizeof(int));
SAME(sizeof(MPI_Status), sizeof(ABI_STATUS));
SAME(offsetof(MPI_Status, MPI_SOURCE), offsetof(ABI_STATUS, source));
SAME(offsetof(MPI_Status, MPI_TAG), offsetof(ABI_STATUS, tag));
SAME(offsetof(MPI_Status, MPI_ERROR), offsetof(ABI_STATUS, error));
SAME(MPI_ANY_SOURCE, ABI_ANY_SOURCE);
SAME(MPI_MAX_ERROR_STRING, ABI_ERROR_TEXT_MAX);
SAME(MPI_MAX_LIBRARY_VERSION_STRING, ABI_LIBRARY_TEXT_MAX);
SAME(MPI_ERR_TRUNCATE, ABI_ERR_TRUNCATE);
SAME(MPI_SUCCESS, 0);
SAME(MPI_THREAD_SINGLE, 0);
SAME(MPI_THREAD_FUNNELED, 1);
SAME(MPI_THREAD_SERIALIZED, 2);
SAME(MPI_THREAD_MULTIPLE, 3);

#ifdef OMPI_MAJOR_VERSION
static int object_is(const void *object, const char *name)
{
    return dlsym(RTLD_DEFAULT, name) == object;
}
#else
static int object_is(int object, int number)
{
    return object == number;
}
#endif

int main(int argc, char **argv)
{
    static char bytes[10];
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Sendrecv(bytes, 5, MPI_BYTE, 0, 7, bytes + 5, 5, MPI_BYTE, 0, 7, MPI_COMM_SELF, &status);
    int right = object_is(MPI_COMM_WORLD, ABI_COMM_WORLD) && object_is(MPI_BYTE, ABI_BYTE) &&
                object_is(MPI_ERRORS_RETURN, ABI_ERRORS_RETURN) && (void *)MPI_STATUS_IGNORE == ABI_STATUS_IGNORE &&
                ABI_STATUS_BYTES((ABI_STATUS *)(void *)&status) == 5;
    MPI_Finalize();
    puts(right ? "the same" : "not the same");
    return !right;
}
