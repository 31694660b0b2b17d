/* SPDX-License-Identifier: BSD-3-Clause */
/* A job that is attacked.  Each rank prints the data that a stranger can find out: "rank N number NUMBER address HEX".
 * NUMBER is the job's number as Open MPI's variable has it.  HEX is the address, or name, of this process, which the plug-in
 * has put into Open MPI's exchange under the key argv[1].  The rank continues when the file argv[2] exists; then all ranks
 * add a number: "sum N". */
#include <mpi.h>
#include <opal_config.h>

#include <opal/mca/pmix/pmix.h>
#include <opal/util/proc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void address_print(const char *key, int rank)
{
    const char *number = getenv("OMPI_MCA_orte_precondition_transports");
    opal_value_t *value = NULL;
    opal_process_name_t own = OPAL_PROC_MY_NAME;
    char text[2 * 8192 + 1] = "";
    if (opal_pmix.get(&own, key, NULL, &value) || !value || value->type != OPAL_BYTE_OBJECT || value->data.bo.size > 8192) {
        fprintf(stderr, "rank %d: Open MPI's exchange has no %s\n", rank, key);
        MPI_Abort(MPI_COMM_WORLD, 1);
        return;
    }
    for (int i = 0; i < (int)value->data.bo.size; i++)
        sprintf(text + 2 * i, "%02x", value->data.bo.bytes[i]);
    printf("rank %d number %s address %s\n", rank, number ? number : "none", text);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rank, sum = 0, one = 1, flag;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    address_print(argv[1], rank);
    MPI_Barrier(MPI_COMM_WORLD);
    while (access(argv[2], F_OK)) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
