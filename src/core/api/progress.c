/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress by the program. */
#include "base/clock.h"
#include "core/api/api.h"
#include "core/progress/progress.h"
#include "core/send/share.h"

#include <madeleine/runtime.h>

#define LOOK_NS 100000 /* between looks at the descriptors of a program that calls mad_progress itself */

/* Programs that call this do not spin here: the descriptors get their turn by the clock. */
int mad_progress(mad_session_t *session)
{
    int n = 0;
    madi_share_poll(&session->habit);
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
