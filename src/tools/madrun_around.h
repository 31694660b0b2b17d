/* SPDX-License-Identifier: BSD-3-Clause */
/* Another launcher, for instance mpirun, that runs amid the topology file's gateways: the information that its
 * processes, which are not madrun's, need to communicate through these. */
#ifndef MADI_MADRUN_AROUND_H
#define MADI_MADRUN_AROUND_H

/* Return the environment for it, "K=V" ... NULL: the given variables, the topology file's text, the gateways' addresses
 * and the job's key.  The text is hexadecimal, because hosts need not share files, and Open MPI forwards no value with
 * an equals sign.  For Open MPI a list of the names of these variables and of MAD_* set here is added, so that it
 * forwards them.  Call it when all gateways have put their addresses.  The strings are kept until madrun ends. */
char **madi_run_around_env(char **given, int n);

#endif
