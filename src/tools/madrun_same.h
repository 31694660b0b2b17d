/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of the same host.
 *
 * Case, and a final dot, make no difference.  "localhost", this host's own name and every address of this host mean
 * this host.  With `resolve`, two names are the same host if they resolve to the same set of addresses, and an address
 * means every host whose name resolves to it.  Without `resolve` no name is looked up, since the launch agent may use
 * names of its own (of containers, for instance).  Users ("user@host") must be equal. */
#ifndef MADI_MADRUN_SAME_H
#define MADI_MADRUN_SAME_H

#include "tools/madrun_hosts.h"

#include <stdbool.h>

/* True if `name` is this host; with `resolve`, also if all addresses of `name` are this host's. */
bool madi_run_same_here(const char *name, bool resolve);
/* True if both are the same host; with `resolve`, also by their addresses. */
bool madi_run_same_two(const char *one, const char *two);
/* Merge equal hosts into the first of them; their slots are added.  If number is not NULL, hosts with equal numbers are
 * the same instead. */
void madi_run_same_merge(madi_run_hosts_t *hosts, bool resolve, int (*number)(const char *name));

#endif
