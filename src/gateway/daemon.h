/* SPDX-License-Identifier: BSD-3-Clause */
/* A process of a job that only forwards: what madgw is made of.  Exported for it, and for nobody else. */
#ifndef MADI_DAEMON_H
#define MADI_DAEMON_H

#include <madeleine.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Join the job that the launcher (madrun) has started this process in, as a gateway and not as a rank.  *session is one of
 * its own (mad_open) that knows the addresses of all ranks and gateways; *boot, an opaque thing, is to be given back to
 * madi_gateway_leave.  MAD_ERR_BOOT, logged: no launcher has; and as madi_gateway_check. */
typedef struct madi_boot madi_boot_t;
mad_status_t madi_gateway_join(mad_session_t **session, madi_boot_t **boot, const char **host);
/* Tell the launcher that this process ends well.  After mad_exit. */
void madi_gateway_leave(madi_boot_t *boot);

/* Like mad_open, but of a process that does nothing but forward: others prefer it to ranks that do.  key: that of gateways
 * (core/secret.h), from which nobody can pass for a rank, nor read or forge what ranks protect end to end. */
mad_status_t madi_gateway_open(const void *key, size_t key_len, mad_session_t **session);

/* So many processes, this one too, share this one's processors, and may all want one: no launcher has said it. */
void madi_gateway_beside(mad_session_t *session, int processes);

/* Bytes of fragments that this process may hold (MAD_FORWARD_BUDGET).  After madi_gateway_open. */
int64_t madi_gateway_budget(void);

/* How a host's bandwidth is divided among gateways of several jobs: each has a page of this, which the process that divides
 * maps, too (src/tools/madgw_rate.h). */
typedef struct madi_gateway_rate {
    _Atomic(uint64_t) limit;   /* bytes a second that may be promised; 0: unlimited.  Written by the divider. */
    _Atomic(uint64_t) passed;  /* bytes that were promised since the start.  Written by the gateway. */
    _Atomic(uint32_t) starved; /* 1: credits have waited for the limit since the divider cleared it */
} madi_gateway_rate_t;

/* Keep to that limit from now on; the page stays mapped as long as the session.  MAD_ERR_CONFIG: the session does not
 * forward. */
mad_status_t madi_gateway_limit(mad_session_t *session, madi_gateway_rate_t *rate);

/* Can this session forward?  MAD_ERR_CONFIG, logged, when not: no topology file, or its host is no gateway in it.
 * *host: its name in the file, which the session owns. */
mad_status_t madi_gateway_check(mad_session_t *session, const char **host);

/* Connect to all peers of the session that a network leads to, so that they know of this gateway: returns their number, and
 * waits for none of them.  One that is stopped answers when it goes on; however long this takes, it is waited for. */
int madi_gateway_announce(mad_session_t *session);

/* Take no new streams, and ask those that pass to go elsewhere; such as cannot go on. */
void madi_gateway_drain(mad_session_t *session);

typedef enum madi_gateway_end {
    MADI_GATEWAY_DRAINED,  /* told to end, and nothing passes any more */
    MADI_GATEWAY_TOLD,     /* told again */
    MADI_GATEWAY_ABANDONED /* all processes that were connected have gone; only if wanted */
} madi_gateway_end_t;

/* Forward until told to end.  signals: a signalfd, of which each signal says so: after the first one the session is drained,
 * after a second one other than SIGHUP it ends at once.
 * reached (or NULL) is called once, when none of the calls of madi_gateway_announce waits for an answer any more, with
 * this gateway's host and how many processes are connected: from then on these find it. */
madi_gateway_end_t madi_gateway_serve(mad_session_t *session, int signals, bool until_abandoned,
                                      void (*reached)(const char *host, int processes));

#endif
