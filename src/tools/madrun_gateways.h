/* SPDX-License-Identifier: BSD-3-Clause */
/* Gateways beside the ranks: processes (madgw) of the job that only forward.  Each has a proxy of its own, on this host
 * too, and a number after the ranks'.  They are started before the ranks, those that fail are started again, and they are
 * told to end when no rank is left. */
#ifndef MADI_MADRUN_GATEWAYS_H
#define MADI_MADRUN_GATEWAYS_H

#include "tools/madrun_local.h"
#include "tools/madrun_options.h"
#include "tools/madrun_topology.h"

/* spec: as for the ranks, whose environment and directory gateways have, too. */
void madi_run_gateways_start(const madi_run_options_t *options, const madi_run_gateway_t *gateways, int count,
                             const madi_run_spec_t *spec, const sigset_t *mask);
void madi_run_gateways_reply(int number, const char *text, size_t len); /* to a PMI request */
/* The ranks are being ended: gateways that fail are not started again. */
void madi_run_gateways_release(void);
/* No rank is left: let them end, and after some time make them. */
void madi_run_gateways_end(void);
int madi_run_gateways_left(void); /* how many agents and proxies have not ended */
void madi_run_gateways_fini(void);

#endif
