/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of an Open MPI job, for each of its components that opens a session. */
#ifndef MAD_OMPI_JOB_KEY_H
#define MAD_OMPI_JOB_KEY_H

#include "mpi/key.h"

typedef struct mad_ompi_exchange {
    const char *name;  /* the key's name in Open MPI's exchange; static */
    const char *label; /* static; log lines begin with it, for instance "btl mad" */
    int output;        /* Open MPI's stream for log lines */
} mad_ompi_exchange_t;

/* Find the key of the job; wait until the job's first process has made one, at most MAD_MPI_KEY_WAIT.  False, logged,
 * if there is none. */
bool mad_ompi_key(const mad_ompi_exchange_t *exchange, mad_mpi_key_t *key);

#endif
