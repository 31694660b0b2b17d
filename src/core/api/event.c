/* SPDX-License-Identifier: BSD-3-Clause */
/* The call by which the program reads events. */
#include "core/link/event.h"
#include "core/link/usable.h"

mad_status_t mad_event_next(mad_session_t *session, mad_event_t *event)
{
    if (madi_session_usable(session))
        return MAD_ERR_FORKED;
    mad_progress(session);
    return madi_event_take(session, event) ? MAD_OK : MAD_ERR_AGAIN;
}
