/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the program for progress. */
#include "base/clock.h"
#include "core/api/api.h"
#include "core/progress/progress.h"
#include "core/send/share.h"

#include <madeleine/runtime.h>

#define LOOK_NS 100000 /* ns between two polls of the descriptors, in a program that calls mad_progress in a loop */

/* A program that calls mad_progress in a loop does not wait in the library, so the clock decides when this call polls the
 * descriptors. */
int mad_progress(mad_session_t *session)
{
    int n = 0;
    madi_share_poll(&session->api.habit);
    marceli_progress_poll();
    if (madi_trylock(&session->lock)) {
        n = madi_progress_locked(session);
        if (!n && madi_now() - session->looked > LOOK_NS) {
            n = madi_look_around(session);
            marceli_progress_move_aside();
        }
        madi_unlock(&session->lock);
    }
    madi_calls_run(session);
    if (!n)
        marceli_yield_to_others();
    return n;
}

void mad_progress_thread_set(int used)
{
    marceli_progress_allow(used);
}

void mad_progress_hand_over(void)
{
    marceli_progress_hand_over();
}
