/* SPDX-License-Identifier: BSD-3-Clause */
/* Gateways: processes (madgw) of the job that only forward.  Each has a proxy of its own, even on this host, and a
 * number that follows those of the ranks.  Gateways are started before the ranks, restarted if they fail, and ended
 * when no rank is left. */
#ifndef MADI_MADRUN_GATEWAYS_H
#define MADI_MADRUN_GATEWAYS_H

#include "tools/madrun_local.h"
#include "tools/madrun_options.h"
#include "tools/madrun_topology.h"

/* Start the gateways. spec: that of the ranks, whose environment and directory gateways share. */
void madi_run_gateways_start(const madi_run_options_t *options, const madi_run_gateway_t *gateways, int count,
                             const madi_run_spec_t *spec, const sigset_t *mask);
void madi_run_gateways_reply(int number, const char *text, size_t len); /* reply to a PMI request */
/* Record that the ranks are being ended, so that gateways that fail are not restarted. */
void madi_run_gateways_release(void);
/* Record that no rank is left: request the end of the gateways, and kill them after some time. */
void madi_run_gateways_end(void);
int madi_run_gateways_left(void); /* number of gateways whose launch agent or proxy has not ended */
void madi_run_gateways_fini(void);

#endif
