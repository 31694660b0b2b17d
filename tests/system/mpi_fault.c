/* SPDX-License-Identifier: BSD-3-Clause */
/* An MPI library whose calls fail: a library above the real one, with which it is linked (mpi_fault_test.sh).  MAD_MPI_LIBRARY
 * names it.
 *   FAULT_MPI=CALL,FIRST,NUMBER   calls CALL of this process fail with MPI_ERR_INTERN, from number FIRST on (the first is
 *                                 1); NUMBER: how many; 0: all
 *   FAULT_MPI_RANK=N              only in the process of this rank
 * CALL is one of: initialized init query rank size errhandler send receive test cancel.  With CALL long, these messages with
 * the driver's tag are longer than its receives; no call fails.  At the end of the process, one
 * line on standard error has the number of faults, and of requests that were left open. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_TAG 28004 /* WORLD_TAG of src/drivers/mpi/mpi.h */

static struct {
    char call[16];
    int first, number;
    atomic_int calls, faults, open;
} fault;

__attribute__((constructor)) static void fault_read(void)
{
    const char *text = getenv("FAULT_MPI"), *only = getenv("FAULT_MPI_RANK"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = rank ? rank : getenv("PMI_RANK");
    if (text && (!only || (rank && !strcmp(only, rank))) &&
        sscanf(text, "%15[^,],%d,%d", fault.call, &fault.first, &fault.number) != 3)
        abort();
}

static bool fault_strikes(const char *call)
{
    if (strcmp(call, fault.call) != 0)
        return false;
    int n = ++fault.calls;
    bool strikes = n >= fault.first && (!fault.number || n < fault.first + fault.number);
    fault.faults += strikes;
    return strikes;
}

int MPI_Initialized(int *yes)
{
    return fault_strikes("initialized") ? MPI_ERR_INTERN : PMPI_Initialized(yes);
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *level)
{
    return fault_strikes("init") ? MPI_ERR_INTERN : PMPI_Init_thread(argc, argv, wanted, level);
}

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    return fault_strikes("rank") ? MPI_ERR_INTERN : PMPI_Comm_rank(comm, rank);
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    return fault_strikes("size") ? MPI_ERR_INTERN : PMPI_Comm_size(comm, size);
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    return fault_strikes("errhandler") ? MPI_ERR_INTERN : PMPI_Comm_set_errhandler(comm, handler);
}

/* The request that Open MPI returns for all sends that have ended in MPI_Isend: it need not be tested. */
extern char ompi_request_empty __attribute__((weak));
static bool request_is_open(MPI_Request request)
{
    return !&ompi_request_empty || (uintptr_t)request != (uintptr_t)&ompi_request_empty;
}

int MPI_Isend(const void *bytes, int n, MPI_Datatype type, int rank, int tag, MPI_Comm comm, MPI_Request *request)
{
    static char much[128 << 10];
    if (fault_strikes("send"))
        return MPI_ERR_INTERN;
    if (tag == DRIVER_TAG && fault_strikes("long")) {
        bytes = much;
        n = sizeof much;
    }
    int error = PMPI_Isend(bytes, n, type, rank, tag, comm, request);
    fault.open += request_is_open(*request);
    return error;
}

int MPI_Irecv(void *bytes, int n, MPI_Datatype type, int rank, int tag, MPI_Comm comm, MPI_Request *request)
{
    if (fault_strikes("receive"))
        return MPI_ERR_INTERN;
    fault.open++;
    return PMPI_Irecv(bytes, n, type, rank, tag, comm, request);
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    bool is_open = request_is_open(*request);
    int error = PMPI_Test(request, done, status);
    fault.open -= *done && is_open;
    if (!*done || !fault_strikes("test"))
        return error;
    return MPI_ERR_INTERN; /* of a request that has ended */
}

int MPI_Cancel(MPI_Request *request)
{
    return fault_strikes("cancel") ? MPI_ERR_INTERN : PMPI_Cancel(request);
}

__attribute__((destructor)) static void fault_report(void)
{
    fprintf(stderr, "mpi_fault: %d faults, %d requests\n", fault.faults, fault.open);
}
