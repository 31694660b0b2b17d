/* SPDX-License-Identifier: BSD-3-Clause */
/* Choice of the launcher that started this process: back ends are tried in a fixed order, and the first one present is
 * used. */
#include "boot/boot.h"

#include "base/base.h"
#include "base/env.h"
#include "base/log.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static mad_status_t own_join(madi_boot_t **boot)
{
    return madi_boot_pmi1_join("MAD_BOOT_FD", boot);
}

static mad_status_t pmi1_join(madi_boot_t **boot)
{
    return madi_boot_pmi1_join("PMI_FD", boot);
}

static const struct {
    const char *name, *variable;
    mad_status_t (*join)(madi_boot_t **boot);
} launchers[] = {
    {"madrun", "MAD_BOOT_FD", own_join},
    {"PMIx", "PMIX_NAMESPACE", madi_boot_pmix_join},
    {"PMI-1", "PMI_FD", pmi1_join},
};

/* Variables that show that this process is one of many, each with a remedy for the case that the launcher cannot be
 * reached.  Without this check each of these processes would silently become rank 0 of its own session of one. */
static const struct {
    const char *variable, *remedy;
} steps[] = {
    {"OMPI_COMM_WORLD_SIZE", "use a build with PMIx, or start with madrun"},
    {"PMI_SIZE", "start with madrun, or with an mpiexec that passes PMI_FD"},
    {"SLURM_NTASKS", "use srun --mpi=pmix, or start with madrun or mpiexec in the allocation"},
};

/* Refuse to run alone if a launcher's variable is ignored because of privileges.  Otherwise this process would silently
 * become rank 0 of its own session of one. */
static mad_status_t check_hidden(void)
{
    for (size_t i = 0; i < MADI_COUNT(launchers); i++)
        if (madi_env_hidden(launchers[i].variable)) {
            madi_log(MADI_LOG_ERROR, "boot",
                     "%s is ignored: this program runs with privileges that its caller lacks (setuid, setgid, or file "
                     "capabilities); start it without them, or unset %s to run alone",
                     launchers[i].variable, launchers[i].variable);
            return MAD_ERR_BOOT;
        }
    return MAD_OK;
}

static mad_status_t check_step_of_one(void)
{
    for (size_t i = 0; i < MADI_COUNT(steps); i++) {
        const char *value = madi_env(steps[i].variable);
        if (value && strtol(value, NULL, 10) > 1) {
            madi_log(MADI_LOG_ERROR, "boot", "%s=%s says this is one process of several, but no launcher was found: %s",
                     steps[i].variable, value, steps[i].remedy);
            return MAD_ERR_BOOT;
        }
    }
    return MAD_OK;
}

void madi_boot_key_wipe(madi_boot_t *boot)
{
    explicit_bzero(boot->key, sizeof boot->key);
}

long madi_boot_number(const char *variable, long otherwise)
{
    const char *value = madi_env(variable);
    char *end;
    long number;
    if (!value || !*value)
        return otherwise;
    number = strtol(value, &end, 10);
    return *end ? otherwise : number;
}

int madi_boot_environment_rank(int *size)
{
    static const char *const variables[][2] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMIX_RANK", ""}, {"PMI_RANK", "PMI_SIZE"}};
    for (size_t i = 0; i < MADI_COUNT(variables); i++) {
        long rank = madi_boot_number(variables[i][0], -1), n = madi_boot_number(variables[i][1], 0);
        if (rank >= 0 && rank < (n ? n : INT_MAX) && n >= 0 && n <= INT_MAX) {
            *size = (int)n;
            return (int)rank;
        }
    }
    *size = 0;
    return -1;
}

/* The launcher that was joined; NULL if none.  A launcher has only one rank in this process, and a second
 * session would mix its messages with those of the first. */
static madi_boot_t *_Atomic joined;

mad_status_t madi_boot_join(madi_boot_t **boot)
{
    mad_status_t status;
    if (atomic_load(&joined)) {
        madi_log(MADI_LOG_ERROR, "boot", "this process has the session of rank %d: use that; mad_open makes others",
                 atomic_load(&joined)->rank);
        return MAD_ERR_BOOT;
    }
    for (size_t i = 0; i < MADI_COUNT(launchers); i++) {
        status = launchers[i].join(boot);
        if (status == MAD_ERR_AGAIN)
            continue;
        if (status == MAD_OK) {
            atomic_store(&joined, *boot);
            (*boot)->launcher = launchers[i].name;
            madi_log(MADI_LOG_INFO, "boot", "launcher: %s (%s); rank %d of %d, job %s, key %s", launchers[i].name,
                     launchers[i].variable, (*boot)->rank, (*boot)->size, (*boot)->job,
                     (*boot)->key_len ? "from the launcher" : "to be agreed on");
        }
        return status;
    }
    status = check_hidden();
    if (status == MAD_OK)
        status = check_step_of_one();
    if (status == MAD_OK)
        status = madi_boot_alone_join(boot);
    if (status == MAD_OK) {
        (*boot)->launcher = "none";
        madi_log(MADI_LOG_INFO, "boot", "launcher: none; a session of one, job %s", (*boot)->job);
    }
    return status;
}

void madi_boot_leave(madi_boot_t *boot)
{
    madi_boot_t *mine = boot;
    atomic_compare_exchange_strong(&joined, &mine, NULL);
    boot->ops->fini(boot);
}
