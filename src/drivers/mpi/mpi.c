/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: the table, and adapters. */
#include "drivers/mpi/mpi.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/host.h"
#include "core/module.h"
#include <stdio.h>
#include <string.h>

#define CLOSE_NS INT64_C(50000000) /* ns that an adapter's end waits for the last messages to leave */
#define LOOKS 16                   /* polls for a message in one take.  rationale.md, "How does the driver mpi use MPI?" */

static mad_status_t mpi_probe(const madi_driver_t *driver, struct mad_session *session)
{
    return madi_adapter_found(session, driver, "world") ? MAD_OK : MAD_ERR_NOMEM;
}

/* Write the name of the network: one for each MPI job, if the launcher's variables name the job.  Processes of different jobs
 * that have the same name refuse each other's frames (mpi_frame.c). */
static void mpi_network_name(const mpi_world_t *w, char *name)
{
    static const char *const variables[] = {
        "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PALS_APID", "SLURM_JOB_ID", "SLURM_STEP_ID"};
    uint64_t hash = madi_hash(MADI_HASH_START, w->lib.calls->name, strlen(w->lib.calls->name));
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = madi_env(variables[i]);
        if (value)
            hash = madi_hash(hash, value, strlen(value) + 1);
    }
    snprintf(name, MADI_NAME_MAX, "mpi:%016llx.%d", (unsigned long long)hash, w->size);
}

static mad_status_t mpi_open(madi_adapter_t *adapter, char *reason)
{
    mpi_adapter_t *a = (mpi_adapter_t *)adapter;
    a->base.ops = &mpi_ops;
    if (!mpi_world_enter(a, reason))
        return MAD_ERR_SYSTEM;
    mpi_network_name(a->world, adapter->network);
    static_assert(sizeof a->address <= MADI_ADDR_MAX, "address");
    memcpy(adapter->address, &a->address, sizeof a->address);
    adapter->address_len = sizeof a->address;
    adapter->caps = (madi_caps_t){.packet_max = WORLD_PACKET_MAX,
                                  .chunk_max = MADI_MPI_CHUNK_MAX,
                                  .rdv_min = MADI_MPI_GRANT_MIN,
                                  .cont_min = MADI_MPI_CONT_MIN,
                                  .rdv_eager = MADI_MPI_EAGER,
                                  .gather_max = WORLD_GATHER,
                                  .latency_us = 1,
                                  .bandwidth_MBs = 4000,
                                  .rank = 62}; /* after the drivers of networks themselves */
    a->base.looks = LOOKS;
    fabric_heat(&a->base.heat);
    mad_status_t status = fabric_nap_open(&a->base, reason);
    return status ? status : fabric_control_open(&a->base, FABRIC_TICK_NS, reason);
}

static void mpi_close(madi_adapter_t *adapter)
{
    mpi_adapter_t *a = (mpi_adapter_t *)adapter;
    fabric_nap_close(&a->base);
    fabric_tick_close(adapter->session, &a->base.tick);
    if (!a->world)
        return;
    int64_t end = madi_now() + CLOSE_NS;
    while (mpi_sends_remain(a->world) && madi_now() < end)
        mpi_progress(a);
}

static void mpi_fini(madi_adapter_t *adapter)
{
    mpi_close(adapter);
    mpi_world_leave((mpi_adapter_t *)adapter);
}

const madi_driver_t madi_driver_mpi = {
    .abi = MADI_DRIVER_ABI,
    .name = "mpi",
    .apart = "start both by one mpirun",
    .adapter_size = sizeof(mpi_adapter_t),
    .link_size = sizeof(mpi_link_t),
    .on_request = true,
    .probe = mpi_probe,
    .open = mpi_open,
    .close = mpi_close,
    .fini = mpi_fini,
    .connect = fabric_link_connect,
    .start = fabric_link_start,
    .send = mpi_send,
    .poll = mpi_poll,
    .link_close = mpi_link_close,
    .link_fini = mpi_link_fini,
    .reach = {.secure = fabric_secure},
    .frames = {.frame_send = mpi_frame_send,
               .frame_answer = mpi_frame_answer,
               .accept = fabric_link_accept,
               .describe = fabric_link_describe},
    .wait = {.pure_poll = fabric_pure_poll, .arm = mpi_arm, .disarm = mpi_disarm},
    .fast = {.send_short = mpi_send_short, .take = mpi_take, .slot_put = mpi_slot_put},
    .live = {.drained = fabric_drained},
};

MADI_MODULE(madi_driver_mpi)
