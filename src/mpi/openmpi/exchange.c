/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/openmpi/exchange.h"
#include "mpi/openmpi/open_mpi.h"

#include <opal/util/proc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if OPAL_MAJOR_VERSION >= 5
/* ---- Open MPI 5.0: PMIx itself ---------------------------------------------------------------------------------- */

#include <pmix.h>

int mad_ompi_exchange_put(const char *name, const char *text)
{
    pmix_value_t value;
    pmix_status_t rc;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_STRING;
    value.data.string = (char *)text;
    rc = PMIx_Put(PMIX_GLOBAL, name, &value);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_Commit();
    return opal_pmix_convert_status(rc);
}

/* Find the first process of the job that started this one. */
static bool parent_first(pmix_proc_t *first)
{
    pmix_value_t *value = NULL;
    pmix_status_t rc = PMIx_Get(&opal_process_info.myprocid, PMIX_PARENT_ID, NULL, 0, &value);
    bool has = rc == PMIX_SUCCESS && value && value->type == PMIX_PROC && value->data.proc &&
               strncmp(value->data.proc->nspace, opal_process_info.myprocid.nspace, PMIX_MAX_NSLEN);
    if (has)
        PMIX_LOAD_PROCID(first, value->data.proc->nspace, 0);
    if (value)
        PMIX_VALUE_RELEASE(value);
    return has;
}

bool mad_ompi_exchange_has_parent(void)
{
    pmix_proc_t first;
    return parent_first(&first);
}

int mad_ompi_exchange_get(mad_ompi_job_t job, const char *name, int seconds, char **text)
{
    pmix_proc_t first;
    pmix_value_t *value = NULL;
    pmix_info_t timeout;
    pmix_status_t rc;
    PMIX_LOAD_PROCID(&first, opal_process_info.myprocid.nspace, 0);
    if (job == MAD_OMPI_PARENT_JOB && !parent_first(&first))
        return OPAL_ERR_NOT_FOUND;
    PMIX_INFO_LOAD(&timeout, PMIX_TIMEOUT, &seconds, PMIX_INT);
    rc = PMIx_Get(&first, name, &timeout, 1, &value);
    PMIX_INFO_DESTRUCT(&timeout);
    if (rc == PMIX_SUCCESS && (!value || value->type != PMIX_STRING || !value->data.string))
        rc = PMIX_ERR_BAD_PARAM;
    if (rc == PMIX_SUCCESS) {
        *text = value->data.string;
        value->data.string = NULL;
    }
    if (value)
        PMIX_VALUE_RELEASE(value);
    return opal_pmix_convert_status(rc);
}

#else
/* ---- Open MPI 4.1 ------------------------------------------------------------------------------------------------ */

int mad_ompi_exchange_put(const char *name, const char *text)
{
    opal_value_t value;
    int rc;
    OBJ_CONSTRUCT(&value, opal_value_t);
    value.key = (char *)name;
    value.type = OPAL_STRING;
    value.data.string = (char *)text;
    rc = opal_pmix.put(OPAL_PMIX_GLOBAL, &value);
    if (rc == OPAL_SUCCESS)
        rc = opal_pmix.commit();
    value.key = NULL;
    value.data.string = NULL;
    OBJ_DESTRUCT(&value);
    return rc;
}

/* Return the number of the job that started this one; 0 if no job did.  A port begins with it. */
static unsigned long parent_job(void)
{
    const char *port = secure_getenv("OMPI_PARENT_PORT");
    char *end;
    unsigned long job = port ? strtoul(port, &end, 10) : 0;
    return job && *end == '.' && (opal_jobid_t)job != OPAL_PROC_MY_NAME.jobid ? job : 0;
}

bool mad_ompi_exchange_has_parent(void)
{
    return parent_job() != 0;
}

static opal_process_name_t job_first(mad_ompi_job_t job)
{
    opal_process_name_t first = {OPAL_PROC_MY_NAME.jobid, 0};
    char space[32];
    if (job == MAD_OMPI_PARENT_JOB) {
        first.jobid = (opal_jobid_t)parent_job();
        /* The job's number is also its name space in PMIx, which Open MPI does not know at this time. */
        snprintf(space, sizeof space, "%lu", parent_job());
        if (opal_pmix.register_jobid)
            opal_pmix.register_jobid(first.jobid, space);
    }
    return first;
}

int mad_ompi_exchange_get(mad_ompi_job_t job, const char *name, int seconds, char **text)
{
    opal_value_t *value = NULL, *timeout = OBJ_NEW(opal_value_t);
    opal_process_name_t first = job_first(job);
    opal_list_t infos;
    int rc;
    OBJ_CONSTRUCT(&infos, opal_list_t);
    timeout->key = strdup(OPAL_PMIX_TIMEOUT);
    timeout->type = OPAL_INT;
    timeout->data.integer = seconds;
    opal_list_append(&infos, &timeout->super);
    rc = opal_pmix.get(&first, name, &infos, &value);
    OPAL_LIST_DESTRUCT(&infos);
    if (rc == OPAL_SUCCESS && (!value || value->type != OPAL_STRING || !value->data.string))
        rc = OPAL_ERR_BAD_PARAM;
    if (rc == OPAL_SUCCESS) {
        *text = value->data.string;
        value->data.string = NULL;
    }
    if (value)
        OBJ_RELEASE(value);
    return rc;
}

#endif
