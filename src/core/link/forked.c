/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions in a child of fork, which cannot use them. */
#include "base/log.h"
#include "core/driver.h"
#include "core/link/usable.h"

static atomic_bool refused; /* the refusal was logged */

mad_status_t madi_fork_refuse(void)
{
    if (!atomic_exchange_explicit(&refused, true, memory_order_relaxed))
        madi_log(MADI_LOG_ERROR, "core",
                 "this process was made by fork and uses a session of its parent: its calls fail with "
                 "MAD_ERR_FORKED; let it open a session of its own (mad_open), or make it before the session (logged once)");
    return MAD_ERR_FORKED;
}
