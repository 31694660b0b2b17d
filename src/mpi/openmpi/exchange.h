/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange by which processes of Open MPI publish texts and read those of others: the first process of a job
 * publishes, all others read.  In Open MPI 4.1 the layer opal_pmix calls PMIx or a substitute; in Open MPI
 * 5.0 this is PMIx itself.
 *
 * All functions are called by the main thread, after Open MPI has started its exchange and before MPI_Init returns.  They
 * return OPAL_SUCCESS or an error code of Open MPI. */
#ifndef MAD_OMPI_EXCHANGE_H
#define MAD_OMPI_EXCHANGE_H

#include <stdbool.h>

typedef enum mad_ompi_job {
    MAD_OMPI_OWN_JOB,
    MAD_OMPI_PARENT_JOB /* the job whose MPI_Comm_spawn started this one */
} mad_ompi_job_t;

/* Publish a text under a name, for all processes that can reach this process's server of PMIx.  The function copies both. */
int mad_ompi_exchange_put(const char *name, const char *text);

/* Read the text that the first process of a job has published, and wait at most `seconds` for its first commit.
 * OPAL_ERR_NOT_FOUND: it has committed other texts, but not this one.  The caller frees *text with free(). */
int mad_ompi_exchange_get(mad_ompi_job_t job, const char *name, int seconds, char **text);

/* True if this process was started by MPI_Comm_spawn, so that there is a parent job to read from. */
bool mad_ompi_exchange_has_parent(void);

#endif
