/* SPDX-License-Identifier: BSD-3-Clause */
/* Which names mean one host.
 *
 * Upper and lower case, and a dot at the end, make no difference.  "localhost", this host's own name and every address of
 * this host are this host.  With `resolve` two names are one host if they resolve to the same set of addresses, and an
 * address is the host of every name that resolves to it.  Without (the launch agent has names of its own, of containers
 * perhaps) nothing is looked up.  Users ("user@host") must be the same. */
#ifndef MADI_MADRUN_SAME_H
#define MADI_MADRUN_SAME_H

#include "tools/madrun_hosts.h"

#include <stdbool.h>

/* True if name is this host; with `resolve` also if all addresses of name are this host's. */
bool madi_run_same_here(const char *name, bool resolve);
/* True if the two are one host, with `resolve`. */
bool madi_run_same_two(const char *one, const char *two);
/* Make one host of those that are the same, at the place of the first: room is added up.  number, unless NULL, tells instead
 * which are the same (those of one number). */
void madi_run_same_merge(madi_run_hosts_t *hosts, bool resolve, int (*number)(const char *name));

#endif
