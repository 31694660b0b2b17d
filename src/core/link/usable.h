/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a session or a channel can be used. */
#ifndef MADI_USABLE_H
#define MADI_USABLE_H

#include "core/object/channel.h"
#include "core/object/session.h"

mad_status_t madi_fork_refuse(void); /* log once that a child of fork uses the parent's session; returns MAD_ERR_FORKED */

/* Return MAD_OK, or MAD_ERR_FORKED if the session belongs to the parent process.  Any lock. */
static inline mad_status_t madi_session_usable(const mad_session_t *session)
{
    return MADI_UNLIKELY(session->forked) ? madi_fork_refuse() : MAD_OK;
}

/* Return the status for the use of a closed channel.  Any lock. */
static inline mad_status_t madi_channel_status(const mad_channel_t *channel)
{
    mad_status_t status = madi_session_usable(channel->session);
    return status ? status : MAD_ERR_CLOSED;
}

#endif
