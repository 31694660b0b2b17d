/* SPDX-License-Identifier: BSD-3-Clause */
/* Another launcher, such as mpirun, started here in the midst of the topology file's gateways: what its processes, which
 * are none of madrun's, need to know to talk through these. */
#ifndef MADI_MADRUN_AROUND_H
#define MADI_MADRUN_AROUND_H

/* The variables to set for it, "K=V" ... NULL: those given, then the topology file's text (for hosts need not share files;
 * in digits, for Open MPI passes no value that has an equals sign), the gateways' addresses, the job's key, and for Open MPI
 * the names of all these, and of MAD_* that are set here, so that it passes them on.  When all gateways have put their
 * addresses.  They are kept until madrun ends. */
char **madi_run_around_env(char **given, int n);

#endif
