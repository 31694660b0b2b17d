/* SPDX-License-Identifier: BSD-3-Clause */
/* Support for another launcher, for instance mpirun, that runs among the topology file's gateways: its processes, which
 * madrun does not start, need this information to communicate through these gateways. */
#ifndef MADI_MADRUN_AROUND_H
#define MADI_MADRUN_AROUND_H

/* Return the environment of that launcher, "K=V" ... NULL: the given variables, the topology file's text, the
 * gateways' addresses and the job's key.  The text is hexadecimal, because hosts need not share files, and Open MPI
 * forwards no value with an equals sign.  For Open MPI a list of the names of these variables and of MAD_* set here is
 * added, so that it forwards them.  Call this when all gateways have published their addresses.  The strings are kept
 * until madrun ends. */
char **madi_run_around_env(char **given, int n);

#endif
