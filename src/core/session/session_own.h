/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a session that belongs to this folder.  Private to src/core/session. */
#ifndef MADI_SESSION_OWN_H
#define MADI_SESSION_OWN_H

#include "core/object/session.h"

typedef struct madi_listener {
    madi_watch_t watch;
    madi_adapter_t *adapter;
} madi_listener_t;

/* Listening sockets, and how the session's threads wait and end.  Under session->lock, unless a field says otherwise. */
struct madi_session_own {
    madi_listener_t *listeners; /* one per adapter */
    int spare_fd;               /* reserve: closed to refuse an incoming connection when no descriptor is left; -1 if none */
    bool full_logged;           /* the log has reported that no descriptor was left for an incoming connection */
    bool refusal_logged;        /* the log has reported an incoming connection that a driver did not admit */
    bool slept;                 /* true if a leader has slept on epfd and the events are not handled yet */
    int category;               /* the session's category at the polling server; 0 if none; constant after the start */
    struct madi_query *ask;     /* the listener that answers mad_info; NULL if mad_info cannot query this process */
    mad_session_t *next;        /* the next session in fork.c's list; under the list's lock */
    bool held_by_fork;          /* true while fork holds session->lock; under the lock of fork.c's list */
};

/* near.c */
/* Find out where the devices of all adapters are, and put near ones before far ones; the progress thread runs near them.
 * Precondition: all adapters are open, and no listening socket is watched. */
void madi_adapters_place(mad_session_t *session);

/* modules.c */
/* Find modules, and load those that may be of use; after the knobs are loaded. */
void madi_modules_load(void);
/* True if the name is in a comma-separated list. */
bool madi_list_has_name(const char *list, const char *name);

#endif
