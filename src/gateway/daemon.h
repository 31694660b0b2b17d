/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface of a process that only forwards, for madgw.  Exported for madgw alone. */
#ifndef MADI_DAEMON_H
#define MADI_DAEMON_H

#include <madeleine.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Join the launcher's (madrun's) job as a gateway, not as a rank. *session: a session of its own (mad_open) that
 * knows the addresses of all ranks and gateways.  *boot: opaque, to be passed to madi_gateway_leave.  Errors:
 * MAD_ERR_BOOT, logged (not started by a launcher), and those of madi_gateway_check. */
typedef struct madi_boot madi_boot_t;
mad_status_t madi_gateway_join(mad_session_t **session, madi_boot_t **boot, const char **host);
/* Report a normal end to the launcher.  To be called after mad_exit. */
void madi_gateway_leave(madi_boot_t *boot);

/* Like mad_open, but for a process that only forwards; other processes prefer it to forwarding ranks. key: the
 * gateways' key (core/security/secret.h).  With this key nobody can impersonate a rank, nor read or forge what ranks
 * protect end to end. */
mad_status_t madi_gateway_open(const void *key, size_t key_len, mad_session_t **session);

/* Set the number of processes, including this one, that share its processors and may all need one.  For sessions without
 * a launcher. */
void madi_gateway_share(mad_session_t *session, int processes);

/* Return the bytes of fragments that this process may hold (MAD_FORWARD_BUDGET).  After madi_gateway_open. */
int64_t madi_gateway_budget(void);

/* Page shared with the divider, a process that distributes a host's bandwidth among the gateways of several jobs, with
 * one page per gateway.  The divider maps the page too (src/tools/madgw_rate.h). */
typedef struct madi_gateway_rate {
    _Atomic(uint64_t) limit;   /* bytes per second that may be granted; 0: unlimited.  Written by the divider. */
    _Atomic(uint64_t) passed;  /* bytes granted since the start.  Written by the gateway. */
    _Atomic(uint32_t) starved; /* 1 if the limit has delayed a grant since the divider last cleared `starved` */
} madi_gateway_rate_t;

/* Obey the limit in that page from now on.  The page stays mapped as long as the session.  MAD_ERR_CONFIG: the session
 * does not forward. */
mad_status_t madi_gateway_limit(mad_session_t *session, madi_gateway_rate_t *rate);

/* Check that this session can forward, and set *host to its host's name in the topology file, owned by the session.
 * MAD_ERR_CONFIG, logged: there is no topology file, or its host is no gateway in it. */
mad_status_t madi_gateway_check(mad_session_t *session, const char **host);

/* Begin to connect to all peers that a network reaches directly, so that they know of this gateway.  Return their number
 * without waiting for them.  A stopped peer has unlimited time to answer. */
int madi_gateway_announce(mad_session_t *session);

/* Accept no new streams, and request that passing streams take other paths; streams that cannot move continue. */
void madi_gateway_drain(mad_session_t *session);

typedef enum madi_gateway_end {
    MADI_GATEWAY_DRAINED,  /* ended by one signal, after the last stream had gone */
    MADI_GATEWAY_STOPPED,  /* ended by a second signal */
    MADI_GATEWAY_ABANDONED /* only with until_abandoned: all connected processes have gone */
} madi_gateway_end_t;

/* Forward until a signal requests the end.  Of the signals read from the signalfd `signals`, the first drains the
 * session, and a second one other than SIGHUP ends it immediately.  reached (may be NULL) is called once, with this
 * gateway's host and the number of connected processes, when no connection of madi_gateway_announce is pending any more.
 * From then on these processes can find the gateway. */
madi_gateway_end_t madi_gateway_serve(mad_session_t *session, int signals, bool until_abandoned,
                                      void (*reached)(const char *host, int processes));

#endif
