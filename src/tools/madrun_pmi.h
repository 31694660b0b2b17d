/* SPDX-License-Identifier: BSD-3-Clause */
/* Server of the PMI-1 wire protocol for all ranks of the job; boot/pmi1.c is the client.  Gateways have the
 * numbers that follow those of the ranks; boot/boot.h describes their part. */
#ifndef MADI_MADRUN_PMI_H
#define MADI_MADRUN_PMI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define MADI_RUN_KEY_DIGITS 64

typedef struct madi_run_pmi_hooks {
    void (*reply)(int rank, const char *text, size_t len);
    void (*aborted)(int rank, int code); /* called when this rank requests the end of the job */
    void (*passed)(void);                /* called when a barrier is complete; may be NULL */
} madi_run_pmi_hooks_t;

/* Create the job's name and key.  Return 0, or -1 with errno. */
int madi_run_pmi_init(int ranks, int gateways, const madi_run_pmi_hooks_t *hooks);
void madi_run_pmi_line(int rank, const char *line);
/* Record that a process has ended: the others do not wait for it any more.  Return true if it had joined the job, and has
 * not left it properly. */
bool madi_run_pmi_ended(int rank);
/* Record that a process will never exist, so that no other process waits for it. */
void madi_run_pmi_absent(int rank);
/* Record that a gateway which had ended is started again. */
void madi_run_pmi_again(int gateway);
/* Write the gateways' key, and all addresses published, as lines of a job file (tools/madgw_join.h).  Return false on a
 * write error. */
bool madi_run_pmi_write(FILE *file);
/* Return the job's key in hexadecimal, for ranks that another launcher starts. */
void madi_run_pmi_key(char hex[MADI_RUN_KEY_DIGITS + 1]);
void madi_run_pmi_fini(void);

#endif
