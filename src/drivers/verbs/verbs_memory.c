/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: registrations of memory.  Registrations of the program's blocks are kept (drivers/fabric/registration.h). */
#include "drivers/verbs/verbs.h"

#include "base/knob.h"
#include "base/log.h"

/* Return the rights that an access needs.  On iWARP a read is answered by writing to the reader's memory. */
static int access_rights(const verbs_adapter_t *a, int access)
{
    return a->port.iwarp && access & IBV_ACCESS_LOCAL_WRITE ? access | IBV_ACCESS_REMOTE_WRITE : access;
}

/* Register a region.  One that is kept serves blocks of both directions; a peer that has its key can read it until it is
 * dropped. */
static void *block_add(void *arg, void *at, size_t len, int access, bool lasts)
{
    const verbs_adapter_t *a = arg;
    return a->lib->reg_mr(a->pd, at, len,
                          access_rights(a, lasts ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ : access));
}

static void block_drop(void *arg, void *handle)
{
    const verbs_adapter_t *a = arg;
    verbs_released(a, a->lib->dereg_mr(handle), "the memory of a block");
}

void verbs_memory_open(verbs_adapter_t *a)
{
    char reason[MADI_REASON_MAX];
    if (!fabric_registrations_open(&a->memory, &(fabric_registrar_t){block_add, block_drop, a},
                                   (size_t)madi_knob_int(MADI_KNOB_REGISTER_CACHE), madi_knob_int(MADI_KNOB_REGISTER_CHECK),
                                   reason, sizeof reason))
        madi_log(MADI_LOG_INFO, "verbs",
                 "%s: blocks are registered for each transfer, since unmapped memory is not reported: %s",
                 a->base.adapter.name, reason);
}

struct ibv_mr *verbs_memory_register(verbs_adapter_t *a, void *at, size_t len, int access)
{
    struct ibv_mr *mr;
    do
        mr = a->lib->reg_mr(a->pd, at, len, access_rights(a, access));
    while (!mr && fabric_registrations_trim(&a->memory));
    return mr;
}
