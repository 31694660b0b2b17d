/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of an Open MPI job, for each of its components that opens a session. */
#ifndef MAD_OMPI_JOB_KEY_H
#define MAD_OMPI_JOB_KEY_H

#include "mpi/key.h"

typedef struct mad_ompi_exchange {
    const char *name;  /* the key's name in Open MPI's exchange: a static text */
    const char *label; /* a static text with which log lines begin, for instance "btl mad" */
    int output;        /* Open MPI's stream for log lines */
} mad_ompi_exchange_t;

/* Find the key of the job; wait at most MAD_MPI_KEY_WAIT until the job's first process has made one.  Return false, and
 * log the reason, if there is no key. */
bool mad_ompi_key(const mad_ompi_exchange_t *exchange, mad_mpi_key_t *key);

#endif
