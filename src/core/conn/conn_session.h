/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a session that belongs to this folder.  Private to src/core/conn: the functions of channel.h and credit.h are
 * for others. */
#ifndef MADI_CONN_SESSION_H
#define MADI_CONN_SESSION_H

#include "core/object/types.h"

/* Channels for reuse, and what all connections share.  Under session->lock. */
struct madi_conn_session {
    mad_channel_t *retired, **retired_tail; /* channels for reuse, the oldest first */
    int n_retired;
    int64_t credit_budget; /* credit bytes that connections may still get beyond their floors (MAD_CREDIT_FLOOR) */
    bool check_modes;      /* descriptors carry the send mode, which is compared; constant after the start */
};

#endif
