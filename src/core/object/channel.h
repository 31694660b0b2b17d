/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel of a session. */
#ifndef MADI_OBJECT_CHANNEL_H
#define MADI_OBJECT_CHANNEL_H

#include "core/object/conn.h"
#include "engine/engine.h"

#include <stdatomic.h>

/* channel->conns, indexed by the low bits of the peer's number.  This table grows by replacement; old arrays are kept until
 * the channel is freed, since readers hold no lock.  An empty entry holds a placeholder with the number of a peer that
 * belongs to another entry (madi_conn_nobody), so readers compare the peer's number and need not test for NULL. */
typedef struct madi_conn_array {
    struct madi_conn_array *older;
    uint32_t mask; /* length of the array minus 1; the length is a power of two, at least 2 */
    _Atomic(madi_conn_t *) at[];
} madi_conn_array_t;

/* Under session->lock, unless a field says otherwise.  NULL: none. */
struct mad_channel {
    mad_session_t *session;
    _Atomic(madi_conn_array_t *) conns; /* connections by peer; written under session->lock, read without a lock */
    _Atomic(uint32_t) n_ready;          /* number of messages that can be opened; without the lock a hint */
    _Atomic(int) closed;                /* not 0 if closed, so that calls fail; written under session->lock, read without a
                                         * lock */
    int lane;                           /* the channel's lane (forward.h) */
    bool is_open;                       /* false if the channel was only announced by peers, or is closed */
    bool awaits_release;                /* true if the channel is in session->awaiting_release */
    bool close_waits;                   /* true while mad_channel_close waits for messages in flight */
    madi_conn_t *ready, **ready_tail;   /* connections with messages, round robin */
    marceli_waiters_t openers;          /* threads that wait for a message of any peer */
    mad_handler_t handler;              /* the program's handler for each message */
    struct madi_api_channel {
        void *handler_arg; /* argument of the handler */
    } api;
    madi_conn_t *all;             /* all connections */
    mad_channel_t *next;          /* next in session->channels */
    mad_channel_t *next_awaiting; /* next in session->awaiting_release */
    char name[MAD_CHANNEL_NAME_MAX];
};

#endif
