/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of the job: from the environment, or made by the job's first process and passed by Open MPI's own exchange.  Open
 * MPI's exchange is PMIx or its substitute; only the processes of the job, their user and the launcher can read it.
 *
 *   first process                        the others                     a job that this job starts (MPI_Comm_spawn)
 *   make a random key
 *   put, commit  ------------------->    get: waits for the commit
 *                ------------------------------------------------->     first process: get; put, commit -->  the others: get
 *
 * None of these steps is a barrier, so a process without this component need not take part. */
#include "mpi/openmpi/exchange.h"
#include "job_key.h"

#include <openssl/crypto.h>
#include <opal_config.h>

#include <opal/util/error.h>
#include <opal/util/output.h>
#include <opal/util/proc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PARENT_WAIT 1 /* seconds; short, because a running job has already published its key */
#define FIRST "the first process of the job"
#define RETRY (10 * 1000 * 1000) /* ns between two tries, if the first process has published other values before its key */

static void ompi_key_put(const mad_ompi_exchange_t *exchange, const mad_mpi_key_t *key)
{
    char text[MAD_MPI_KEY_TEXT];
    int rc;
    mad_mpi_key_write(key, text);
    rc = mad_ompi_exchange_put(exchange->name, text);
    OPENSSL_cleanse(text, sizeof text);
    if (rc != OPAL_SUCCESS)
        opal_output_verbose(1, exchange->output,
                            "%s: Open MPI's exchange takes no key (%s): other processes will not reach this one",
                            exchange->label, opal_strerror(rc));
}

/* Try once to get the key of the first process of a job; wait for that process's first commit. */
static int ompi_key_try(const mad_ompi_exchange_t *exchange, mad_ompi_job_t job, int seconds, const char *source,
                        mad_mpi_key_t *key)
{
    char *text;
    int rc = mad_ompi_exchange_get(job, exchange->name, seconds, &text);
    if (rc != OPAL_SUCCESS)
        return rc;
    if (!mad_mpi_key_read(key, text, source))
        rc = OPAL_ERR_BAD_PARAM;
    OPENSSL_cleanse(text, strlen(text));
    free(text);
    return rc;
}

static int64_t ompi_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static bool ompi_key_get(const mad_ompi_exchange_t *exchange, mad_mpi_key_t *key)
{
    int64_t end = ompi_now_s() + MAD_MPI_KEY_WAIT, left;
    int rc = OPAL_ERR_TIMEOUT;
    while ((left = end - ompi_now_s()) > 0 &&
           (rc = ompi_key_try(exchange, MAD_OMPI_OWN_JOB, (int)left, FIRST, key)) == OPAL_ERR_NOT_FOUND)
        nanosleep(&(struct timespec){0, RETRY}, NULL);
    if (rc == OPAL_SUCCESS)
        return true;
    snprintf(key->why, sizeof key->why,
             "no key of the job's first process came by Open MPI's exchange within %d s (%s): perhaps it does not use the "
             "component "
             "mad, or this exchange needs a barrier first; " MAD_MPI_KEY_REMEDY,
             MAD_MPI_KEY_WAIT, opal_strerror(rc));
    return false;
}

/* Get the key of the job that started this one, if that job has a key of this kind. */
static bool ompi_key_of_parent(const mad_ompi_exchange_t *exchange, mad_mpi_key_t *key)
{
    return mad_ompi_exchange_has_parent() &&
           ompi_key_try(exchange, MAD_OMPI_PARENT_JOB, PARENT_WAIT, "the job that started this one", key) == OPAL_SUCCESS;
}

static bool ompi_key_exchange(const mad_ompi_exchange_t *exchange, mad_mpi_key_t *key)
{
    if (OPAL_PROC_MY_NAME.vpid != 0)
        return ompi_key_get(exchange, key);
    if (!ompi_key_of_parent(exchange, key) && !mad_mpi_key_make(key, "made by this process, the first of its job"))
        return false;
    ompi_key_put(exchange, key);
    return true;
}

bool mad_ompi_key(const mad_ompi_exchange_t *exchange, mad_mpi_key_t *key)
{
    int found = mad_mpi_key_environment(key);
    if (key->why[0])
        opal_output_verbose(1, exchange->output, "%s: %s", exchange->label, key->why);
    if (!found && !ompi_key_exchange(exchange, key))
        found = -1;
    if (found < 0) {
        opal_output(0, "%s: no key: %s", exchange->label, key->why);
        return false;
    }
    opal_output_verbose(1, exchange->output, "%s: the key is from: %s", exchange->label, key->source);
    return true;
}
