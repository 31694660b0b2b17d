/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of the PMI-1 wire protocol, for all ranks of the job; boot/pmi1.c is the client's.  Gateways that are
 * processes beside the ranks have the numbers after theirs; boot/boot.h says what is theirs. */
#ifndef MADI_MADRUN_PMI_H
#define MADI_MADRUN_PMI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define MADI_RUN_KEY_DIGITS 64

typedef struct madi_run_pmi_hooks {
    void (*reply)(int rank, const char *text, size_t len);
    void (*aborted)(int rank, int code); /* this rank asks that the job be ended */
    void (*passed)(void);                /* a barrier is over; may be NULL */
} madi_run_pmi_hooks_t;

/* Makes the job's name and key.  0, or -1 with errno. */
int madi_run_pmi_init(int ranks, int gateways, const madi_run_pmi_hooks_t *hooks);
void madi_run_pmi_line(int rank, const char *line);
/* The others do not wait for it any more.  True when it joined the job and did not say good-bye. */
bool madi_run_pmi_ended(int rank);
/* There will never be such a process: nobody waits for it. */
void madi_run_pmi_absent(int rank);
/* A gateway that had ended is started again. */
void madi_run_pmi_again(int gateway);
/* The key of gateways, and all addresses that have been put, as lines of a job's file (tools/madgw_join.h).  False if they
 * could not be written. */
bool madi_run_pmi_write(FILE *file);
/* The job's key in hexadecimal digits, for ranks that another launcher starts. */
void madi_run_pmi_key(char hex[MADI_RUN_KEY_DIGITS + 1]);
void madi_run_pmi_fini(void);

#endif
